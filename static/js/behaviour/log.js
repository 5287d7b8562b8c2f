// <follow-log src="/events/jobs/<id>/log" after="<last line shown>"> around the server-drawn <ol> of a log.
// Stored lines come with the page; the stream goes on after them. The browser repeats the last id by itself when a
// connection breaks (Last-Event-ID), so no line is lost or doubled.
const ERROR = /\b(error|exception|traceback|failed|fatal)\b/i;
const WARNING = /\bwarn(ing)?\b/i;
const ANSI = /\u001b\[([\d;]*)m/g;
const COLOURS = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];
const KEPT = 5000;
/** What the server says of a stream's end, where it is not that of the job. */
const ENDS = { withdrawn: 'ended: you may no longer read it', lost: 'its end was lost with the worker' };

/** Text in which hidden characters are drawn, as the server draws them on pages. */
function drawn(text, hidden) {
  return text.split(hidden).map((piece, place) => {
    if (place % 2 === 0) return piece;
    const mark = document.createElement('i');
    mark.className = 'ch';
    mark.dataset.ch = `U+${piece.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
    mark.textContent = piece;
    return mark;
  });
}

/** Text with ANSI colours as spans; anything else of the terminal's language is dropped. */
function coloured(text, hidden) {
  const parts = document.createDocumentFragment();
  let classes = [];
  let at = 0;
  const push = (piece) => {
    if (!piece) return;
    const clean = piece.replace(/\u001b\[[\d;?]*[A-Za-z]/g, '');
    if (!classes.length) { parts.append(...drawn(clean, hidden)); return; }
    const span = document.createElement('i');
    span.className = classes.join(' ');
    span.append(...drawn(clean, hidden));
    parts.append(span);
  };
  for (const match of text.matchAll(ANSI)) {
    push(text.slice(at, match.index));
    at = match.index + match[0].length;
    for (const code of (match[1] || '0').split(';').map(Number)) {
      if (code === 0) classes = [];
      else if (code === 1) classes.push('ansi-bold');
      else if (code >= 30 && code <= 37) classes = [...classes.filter((c) => c === 'ansi-bold'), `ansi-${COLOURS[code - 30]}`];
      else if (code >= 90 && code <= 97) classes = [...classes.filter((c) => c === 'ansi-bold'), `ansi-${COLOURS[code - 90]}`];
    }
  }
  push(text.slice(at));
  return parts;
}

function levelOf(line) {
  if (line.level === 'error' || (!line.level && ERROR.test(line.text))) return 'e';
  if (line.level === 'warning' || (!line.level && WARNING.test(line.text))) return 'w';
  return '';
}

customElements.define('follow-log', class extends HTMLElement {
  connectedCallback() {
    if (this.started) return;
    this.started = true;
    this.pane = this.querySelector('.log');
    this.list = this.querySelector('.log ol');
    this.follow = this.querySelector('[data-follow]');
    this.waiting = [];
    this.unseen = new RegExp(`(${this.dataset.hidden})`, 'u');
    for (const item of this.list.querySelectorAll('li[data-raw]')) this.paint(item);
    this.pane.addEventListener('scroll', () => this.noticeScroll(), { passive: true });
    this.follow?.addEventListener('change', () => { if (this.follow.checked) this.toEnd(); });
    this.querySelector('[data-times]')?.addEventListener('change', (event) => {
      this.pane.classList.toggle('log--no-times', !event.target.checked);
    });
    this.querySelector('[data-first-error]')?.addEventListener('click', (event) => {
      const line = this.list.querySelector('.e');
      if (!line) return;
      event.preventDefault();
      if (this.follow) this.follow.checked = false;
      line.scrollIntoView({ block: 'center' });
      line.querySelector('a')?.focus();
    });
    this.noticeErrors();
    if (location.hash && this.list.querySelector(`[id="${CSS.escape(location.hash.slice(1))}"]`)) {
      if (this.follow) this.follow.checked = false;
    } else this.toEnd();
    if (this.getAttribute('src')) this.open();
  }

  disconnectedCallback() { this.source?.close(); }

  open() {
    const url = new URL(this.getAttribute('src'), location.href);
    if (this.getAttribute('after')) url.searchParams.set('after', this.getAttribute('after'));
    this.source = new EventSource(url);
    const take = (event) => {
      const data = JSON.parse(event.data);
      this.waiting.push(...(Array.isArray(data) ? data : data.lines ?? [data]));
      this.frame ??= requestAnimationFrame(() => this.flush());
    };
    this.source.addEventListener('message', take);
    this.source.addEventListener('line', take);
    this.source.addEventListener('lines', take);
    this.source.addEventListener('open', () => this.tell('live'));
    this.source.addEventListener('error', () => {
      this.tell(this.source.readyState === EventSource.CLOSED ? 'no longer followed: load the page again' : 'connecting again');
    });
    this.source.addEventListener('done', (event) => {
      this.source.close();
      // Lines may wait for the next frame, which a hidden tab does not get.
      cancelAnimationFrame(this.frame);
      this.flush();
      this.tell(ENDS[JSON.parse(event.data).reason] ?? 'end of the log');
      this.dispatchEvent(new CustomEvent('log:done', { bubbles: true }));
    });
  }

  /** Say how far the log is shown, and whether more may come. */
  tell(where) {
    this.where = where;
    const status = this.querySelector('[data-log-status]');
    if (status) status.textContent = `${this.count()} ${this.count() === 1 ? 'line' : 'lines'}, ${where}`;
  }

  count() { return Number(this.list.lastElementChild?.dataset.n ?? 0); }

  flush() {
    this.frame = undefined;
    const added = document.createDocumentFragment();
    const last = this.count();
    for (const line of this.waiting.splice(0)) if (line.n > last) added.append(this.draw(line));
    this.list.append(added);
    while (this.list.childElementCount > KEPT) this.list.firstElementChild.remove();
    this.tell(this.where ?? 'live');
    this.noticeErrors();
    if (this.follow?.checked ?? true) this.toEnd();
  }

  draw(line) {
    const item = document.createElement('li');
    item.dataset.n = line.n;
    item.id = `L${line.n}`;
    item.className = levelOf(line);
    const number = document.createElement('a');
    number.className = 'ln';
    number.href = `#L${line.n}`;
    number.textContent = line.n;
    number.setAttribute('aria-label', `Line ${line.n}`);
    const time = document.createElement('time');
    time.textContent = String(line.t ?? '').replace(/^.*T/, '').replace(/(\.\d{3})\d*/, '$1').replace(/(Z|[+-]\d\d:?\d\d)$/, '');
    const text = document.createElement('span');
    text.append(...this.mark(item.className), coloured(line.text ?? '', this.unseen));
    item.append(number, time, text);
    return item;
  }

  /** What says in words and by a sign, as the server does, what a colour says. */
  mark(level) {
    if (!level) return [];
    const word = document.createElement('b');
    word.className = 'sr';
    word.textContent = level === 'e' ? 'Error: ' : 'Warning: ';
    const sign = level === 'e' && this.querySelector('[data-first-error] .icon');
    return sign ? [word, sign.cloneNode(true)] : [word];
  }

  paint(item) {
    const text = item.querySelector('span');
    if (text.textContent.includes('\u001b')) text.replaceChildren(coloured(text.textContent, this.unseen));
  }

  noticeScroll() {
    const atEnd = this.pane.scrollTop + this.pane.clientHeight >= this.pane.scrollHeight - 24;
    if (this.follow && !this.moving) this.follow.checked = atEnd;
    this.moving = false;
  }

  noticeErrors() {
    const button = this.querySelector('[data-first-error]');
    if (button) button.hidden = !this.list.querySelector('.e');
  }

  toEnd() {
    const { scrollTop } = this.pane;
    this.pane.scrollTop = this.pane.scrollHeight;
    // Only a move is told as a scroll; without one, the next scroll is the reader's.
    this.moving = this.pane.scrollTop !== scrollTop;
  }
});
