// <live-events src="/events/…">: one event stream a page, closed while the tab is hidden. Each event of the stream
// becomes a DOM event "live:<name>" on the element, so that fragments may say hx-trigger="live:job from:closest live-events".
customElements.define('live-events', class extends HTMLElement {
  connectedCallback() {
    this.onVisibility = () => (document.hidden ? this.close() : this.open());
    document.addEventListener('visibilitychange', this.onVisibility);
    if (!document.hidden) this.open();
  }

  disconnectedCallback() {
    document.removeEventListener('visibilitychange', this.onVisibility);
    this.close();
  }

  open() {
    const src = this.getAttribute('src');
    if (!src || this.source || this.done) return;
    this.source = new EventSource(src);
    const names = (this.getAttribute('events') ?? 'change').split(' ');
    for (const name of names) {
      this.source.addEventListener(name, (event) => {
        this.dispatchEvent(new CustomEvent(`live:${name}`, { detail: event.data }));
      });
    }
    this.source.addEventListener('done', () => {
      this.done = true;
      this.close();
      this.dispatchEvent(new CustomEvent('live:done'));
    });
  }

  close() {
    this.source?.close();
    this.source = null;
  }
});

// A part of the page that asks for itself, over and over or by events, until what it shows is settled. What else the page
// says of the same thing was drawn before: "settled" at the body has that asked for once (hx-trigger="settled from:body").
const ASKS = /^(every |live:)/;
const asking = new Map();

function howItAsks(element) {
  const trigger = element?.getAttribute('hx-trigger') ?? '';
  return ASKS.test(trigger) ? trigger : '';
}

document.addEventListener('htmx:beforeSwap', ({ detail: { target } }) => {
  if (target.id && howItAsks(target)) asking.set(target.id, howItAsks(target));
});
document.addEventListener('htmx:afterSettle', () => {
  const before = [...asking];
  asking.clear();
  if (before.some(([id, trigger]) => howItAsks(document.getElementById(id)) !== trigger)) {
    document.body.dispatchEvent(new CustomEvent('settled'));
  }
});

const isChanged = (field) => field.value !== field.defaultValue;

// A part that asks for itself waits while somebody writes in it.
document.addEventListener('htmx:beforeRequest', (event) => {
  const { elt } = event.detail;
  if (!howItAsks(elt)) return;
  const isWritten = (field) => field === document.activeElement || isChanged(field);
  if ([...elt.querySelectorAll('textarea')].some(isWritten)) event.preventDefault();
});

// Where somebody has begun to write, the browser opens a tab as a page of its own: its way back has the text again.
document.addEventListener('htmx:beforeRequest', (event) => {
  const { elt } = event.detail;
  if (!elt.matches('#page-tabs a') || ![...document.querySelectorAll('#main textarea')].some(isChanged)) return;
  event.preventDefault();
  location.assign(elt.href);
});

// Who types stays where they are, whatever comes above: browsers keep the place only while no part around it is replaced.
let held;
document.addEventListener('htmx:beforeSwap', () => {
  const field = document.activeElement?.matches('textarea, input, select') ? document.activeElement : undefined;
  held = field && { field, top: field.getBoundingClientRect().top };
});
document.addEventListener('htmx:afterSettle', () => {
  if (held && held.field === document.activeElement) window.scrollBy(0, held.field.getBoundingClientRect().top - held.top);
  held = undefined;
});

// <elapsed-time start="ISO">: counts seconds up in place, in the words of the server's durations.
customElements.define('elapsed-time', class extends HTMLElement {
  connectedCallback() {
    this.tick();
    this.timer = setInterval(() => this.tick(), 1000);
  }

  disconnectedCallback() { clearInterval(this.timer); }

  tick() {
    const seconds = Math.max(0, Math.round((Date.now() - Date.parse(this.getAttribute('start'))) / 1000));
    if (Number.isNaN(seconds)) return;
    const two = (value) => String(value).padStart(2, '0');
    const minutes = Math.floor(seconds / 60);
    if (minutes < 1) this.textContent = `${seconds} s`;
    else if (minutes < 60) this.textContent = `${minutes} min ${two(seconds % 60)} s`;
    else this.textContent = `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  }
});

customElements.define('theme-toggle', class extends HTMLElement {
  connectedCallback() {
    this.addEventListener('click', () => {
      const { dataset } = document.documentElement;
      const dark = dataset.colorMode === 'dark' || (dataset.colorMode === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
      dataset.colorMode = dark ? 'light' : 'dark';
    });
  }
});
