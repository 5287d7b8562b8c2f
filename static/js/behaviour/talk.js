// Comments where the pointer is. Lines: table.diff[data-talk="id of a <details>"]; rows: tr[data-key], with the one form of
// remarks on rows; columns: tr[data-column], each dataset with a form of its own. A click on a line's number or sign, on the
// plus in a cell, or `c` takes the form below the line or row.
import { mayBeShortcut } from './shortcuts.js';

const LINE = 'table.diff[data-talk] > tbody > tr:not(.h, .talk)';
const ROW = 'tr[data-key], tr[data-column]';
const CELL = ':is(tr[data-key], tr[data-column]) > :is(td, th)';
const AFTER_G_MS = 1500;
let saidG = -AFTER_G_MS;
/** One button for all cells, in the one under the pointer; keys have `c`. */
const plus = Object.assign(document.createElement('button'), {
  type: 'button', className: 'say__here', textContent: '+', title: 'Comment here', tabIndex: -1,
});

/** The form of remarks on a row or column, where who looks may write them. */
function formOf(row) {
  return row.dataset.key
    ? document.querySelector('details > form[data-row-remark]')
    : row.closest('[data-file]').querySelector('details > form[data-column-remark]');
}

/** The number of a line: the button in its cell is none of it. */
function numberIn(cell) {
  return Number(cell?.firstChild?.nodeValue);
}

/** Put a form below a row, after what was said there before. */
function openBelow(form, row) {
  form.open = true;
  let place = row.nextElementSibling;
  while (place?.matches('tr.talk')) place = place.nextElementSibling;
  const home = form.closest('tr.talk--say') ?? document.createElement('tr');
  if (!home.cells.length) {
    home.className = 'talk talk--say';
    home.insertCell().append(form);
  }
  home.cells[0].colSpan = row.cells.length;
  row.parentElement.insertBefore(home, place);
  form.querySelector('textarea').focus();
}

/** Comment on the line of a cell, or on all lines from those that the open form is about to that one. */
function sayOfLine(cell, isExtended = false) {
  const row = cell.parentElement;
  const table = cell.closest('table');
  const form = document.getElementById(table.dataset.talk);
  const [before, after] = row.querySelectorAll('td.ln');
  const isBefore = !numberIn(after) || (cell === before && table.matches('.diff--split'));
  if (isBefore && !form.querySelector('[name=side] [value=base]')) return;
  const number = numberIn(isBefore ? before : after);
  const { start_line: first, line: last, side } = form.querySelector('form').elements;
  const sameSide = side.value === (isBefore ? 'base' : 'head');
  if (isExtended && form.open && last.value && sameSide) {
    const ends = [Number(first.value || last.value), Number(last.value), number];
    first.value = Math.min(...ends);
    last.value = Math.max(...ends);
    if (number < Number(last.value)) return;
  } else {
    first.value = '';
    last.value = number;
    side.value = isBefore ? 'base' : 'head';
  }
  openBelow(form, row);
}

/** What a line of the head says. */
function textOf(row) {
  const cell = row.lastElementChild.cloneNode(true);
  cell.querySelectorAll('.sr').forEach((note) => note.remove());
  return cell.textContent;
}

/** Write a block that suggests what the lines say already, to be changed. */
function suggest(form) {
  const { start_line: first, line: last, side, body } = form.elements;
  const rows = document.querySelectorAll(`table[data-talk="${CSS.escape(form.parentElement.id)}"] > tbody > tr:not(.h, .talk)`);
  const lines = [...rows].filter((row) => {
    const number = numberIn(row.querySelectorAll('td.ln')[1]);
    return number && number >= Number(first.value || last.value) && number <= Number(last.value);
  });
  side.value = 'head';
  const block = ['```suggestion', ...lines.map(textOf), '```', ''].join('\n');
  body.setRangeText(`${body.value && !body.value.endsWith('\n') ? '\n' : ''}${block}`, body.value.length, body.value.length, 'end');
  body.rows = Math.max(body.rows, lines.length + 4);
  body.focus();
}

/** Fill in the key of a cell's row, and its column; the first cell, with the sign, stands for the whole row. */
function nameCell(form, cell) {
  const { column } = cell.parentElement.dataset;
  if (column) {
    form.elements.namedItem('column').value = column;
    return;
  }
  for (const [name, value] of Object.entries(JSON.parse(cell.parentElement.dataset.key))) {
    const input = form.elements.namedItem(`key.${name}`);
    if (input) input.value = value ?? 'null';
  }
  form.elements.namedItem('column').selectedIndex = cell.cellIndex;
}

function sayOfRow(cell) {
  const form = formOf(cell.parentElement);
  if (!form) return;
  nameCell(form, cell);
  openBelow(form.parentElement, cell.parentElement);
}

/** Where the plus of the line under the pointer belongs: at its sign, or beside the number of that side. */
function signAt(element) {
  const cell = element.closest(`${LINE} > td`);
  const place = cell && (cell.parentElement.querySelector('td.mk') ?? (cell.matches('.ln') ? cell : cell.previousElementSibling));
  return place?.matches('.none') ? null : place;
}

/** The cell that `c` is about: that under the pointer, else the focused line's or row's. */
function cellInMind() {
  const under = [...document.querySelectorAll(':hover')].at(-1)?.closest('td, th');
  if (under?.parentElement.matches(`${LINE}, ${ROW}`)) return under;
  const row = document.activeElement.closest(`${LINE}, ${ROW}`);
  return row && [...row.cells].find((cell) => !cell.matches('.none'));
}

document.addEventListener('click', (event) => {
  const number = event.target.closest(`${LINE} > :is(td.ln, td.mk)`);
  if (number && !number.matches('.none')) sayOfLine(number, event.shiftKey);
  const wish = event.target.closest('button[data-suggest]');
  if (wish) suggest(wish.form);
  const cell = event.target.closest(CELL);
  const form = cell && formOf(cell.parentElement);
  if (!form) return;
  if (event.target === plus) {
    sayOfRow(cell);
  } else if (form.parentElement.open) {
    // While the form is open a click on a cell is about it.
    event.preventDefault();
    nameCell(form, cell);
    form.elements.namedItem('body').focus();
  }
});

document.addEventListener('mouseover', (event) => {
  const cell = event.target.closest(CELL);
  const place = cell && formOf(cell.parentElement) ? cell : signAt(event.target);
  if (place && place !== plus.parentElement) place.append(plus);
});

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !mayBeShortcut(event)) return;
  // `g c` goes to the code.
  if (event.key === 'g') saidG = event.timeStamp;
  if (event.key !== 'c' || event.timeStamp - saidG < AFTER_G_MS) return;
  const cell = cellInMind();
  if (!cell) return;
  event.preventDefault();
  if (cell.parentElement.matches(ROW)) sayOfRow(cell);
  else sayOfLine(cell);
});
