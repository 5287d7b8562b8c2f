// <file-rows for="file-text" data-format="csv">: the rows of a file as cells, over the <code-editor> of that id, which stays
// the form's field. A line that nobody touches keeps its bytes; of one that is changed, as little as possible is written anew.
import { CsvRows, JsonRows } from './row_formats.js';

const SHOWN = 100;

/** An element with attributes and children. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

customElements.define('file-rows', class extends HTMLElement {
  async connectedCallback() {
    await customElements.whenDefined('code-editor');
    this.editor = document.getElementById(this.getAttribute('for'));
    this.addEventListener('input', (event) => this.change(event.target));
    this.addEventListener('click', (event) => this.press(event.target.closest('button')));
    this.addEventListener('keydown', (event) => this.walk(event));
    // The text may have changed in the meantime: whoever comes back to the cells sees it.
    new IntersectionObserver(([entry]) => { if (entry.isIntersecting) this.read(); }).observe(this);
    this.read();
  }

  read() {
    if (this.text === this.editor.value) return;
    this.text = this.editor.value;
    try {
      const columns = JSON.parse(this.dataset.columns || '[]');
      this.rows = this.dataset.format === 'csv' ? new CsvRows(this.text) : new JsonRows(this.text, columns);
    } catch (error) {
      this.replaceChildren(make('p', { class: 'plain', role: 'alert' }, `${error.message} Mend it in the text.`));
      return;
    }
    this.shown = SHOWN;
    this.draw();
  }

  draw() {
    this.find ??= make('input', { class: 'input', type: 'search', 'aria-label': 'Find rows', placeholder: 'Find rows' });
    this.count = make('span', { class: 'muted small', role: 'status' });
    this.body = make('tbody');
    this.more = make('button', { class: 'btn', type: 'button', 'data-act': 'more' }, 'Show more rows');
    const heads = this.rows.columns.map((name) => make('th', { scope: 'col', class: 'mono' }, name));
    const last = make('th', { scope: 'col' }, make('span', { class: 'sr' }, 'Remove'));
    this.replaceChildren(
      make('div', { class: 'rows__bar' }, this.find, this.count, make('span', { class: 'sp' }),
        make('button', { class: 'btn', type: 'button', 'data-act': 'add' }, 'Add a row')),
      make('div', { class: 'rows__rows', tabindex: '0', role: 'region', 'aria-label': 'Rows of the file' },
        make('table', {}, make('caption', { class: 'sr' }, 'Rows of the file'),
          make('thead', {}, make('tr', {}, make('th', { scope: 'col' }, '#'), ...heads, last)), this.body)),
      this.more,
    );
    this.drawRows();
  }

  drawRows() {
    const wanted = this.find.value.toLowerCase();
    const found = [...this.rows.records.entries()].filter(([, { cells }]) => cells.some((cell) => cell.toLowerCase().includes(wanted)));
    this.body.replaceChildren(...found.slice(0, this.shown).map(([at, record]) => this.drawRow(at, record)));
    this.more.hidden = found.length <= this.shown;
    const all = this.rows.records.length.toLocaleString('en');
    this.count.textContent = wanted ? `${found.length.toLocaleString('en')} of ${all} rows` : `${all} rows`;
  }

  drawRow(at, record) {
    const names = this.rows.columns;
    const { cells } = record;
    const row = make('tr', { 'data-at': at }, make('th', { scope: 'row', class: 'muted' }, String(at + 1)));
    for (let column = 0; column < Math.max(names.length, cells.length); column += 1) {
      const input = make('input', { 'data-column': column, 'aria-label': `${names[column] ?? 'no column'} of row ${at + 1}` });
      input.value = cells[column] ?? '';
      row.append(make('td', this.rows.isOdd(record, column) ? { class: 'rows__odd' } : {}, input));
    }
    const remove = make('button', { class: 'iconbtn bare', type: 'button', 'data-act': 'remove', 'aria-label': `Remove row ${at + 1}` }, '×');
    row.append(make('td', {}, remove));
    return row;
  }

  change(field) {
    if (field === this.find) {
      this.shown = SHOWN;
      this.drawRows();
      return;
    }
    const at = Number(field.closest('tr').dataset.at);
    const column = Number(field.dataset.column);
    this.put(at, 1, [this.rows.change(this.rows.records[at], column, field.value)]);
    field.closest('td').classList.add('rows__changed');
  }

  press(button) {
    if (button?.dataset.act === 'more') {
      this.shown += SHOWN;
      this.drawRows();
    } else if (button?.dataset.act === 'remove') {
      this.put(Number(button.closest('tr').dataset.at), 1, []);
      this.drawRows();
    } else if (button?.dataset.act === 'add' && this.rows.columns.length) {
      this.put(this.rows.records.length, 0, [this.rows.makeBlank()]);
      this.find.value = '';
      this.shown = Math.max(this.shown, this.rows.records.length);
      this.drawRows();
      this.body.lastElementChild.querySelector('input').focus();
    }
  }

  /** Up, Down and Enter go to the same column of another row, as in a spreadsheet. */
  walk(event) {
    const step = { ArrowUp: 'previousElementSibling', ArrowDown: 'nextElementSibling', Enter: 'nextElementSibling' }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.target.dataset.column === undefined) return;
    event.preventDefault();
    event.target.closest('tr')[step]?.querySelector(`[data-column="${event.target.dataset.column}"]`)?.focus();
  }

  /** Put records in the place of others, here and in the text. */
  put(at, removed, added) {
    const { head, records } = this.rows;
    const before = head + records.slice(0, at).map(({ text }) => text).join('');
    const old = records.slice(at, at + removed).map(({ text }) => text).join('');
    // A last line without an end gets one before a row is put after it.
    const end = !before || before.endsWith('\n') ? '' : '\n';
    records.splice(at, removed, ...added);
    this.editor.replace(before.length, before.length + old.length, end + added.map(({ text }) => text).join(''));
    if (end) this.endLine(at);
    this.text = this.editor.value;
  }

  endLine(at) {
    if (at) this.rows.records[at - 1].text += '\n';
    else this.rows.head += '\n';
  }
});
