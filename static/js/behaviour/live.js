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
