// table[data-talk="id of a <details>"]: a click on a line's number or sign takes that form below the line.
document.addEventListener('click', (event) => {
  const cell = event.target.closest('table.diff[data-talk] tr:not(.h, .talk) > :is(td.ln, td.mk)');
  if (!cell || cell.matches('.none')) return;
  const row = cell.parentElement;
  const form = document.getElementById(cell.closest('table').dataset.talk);
  const [before, after] = row.querySelectorAll('td.ln');
  const isBefore = !after.textContent || (cell === before && cell.closest('table').matches('.diff--split'));
  form.open = true;
  form.querySelector('[name=line]').value = (isBefore ? before : after).textContent;
  form.querySelector('[name=side]').value = isBefore ? 'base' : 'head';
  let place = row.nextElementSibling;
  while (place?.matches('tr.talk')) place = place.nextElementSibling;
  const home = form.closest('tr.talk--say') ?? document.createElement('tr');
  if (!home.cells.length) {
    home.className = 'talk talk--say';
    home.insertCell().colSpan = row.cells.length;
    home.cells[0].append(form);
  }
  row.parentElement.insertBefore(home, place);
  form.querySelector('textarea').focus();
});

// While the form of a remark on rows is open, a click on a cell fills in its key and column.
document.addEventListener('click', (event) => {
  const form = document.querySelector('details[open] > form[data-row-remark]');
  const cell = form && event.target.closest('tr[data-key] > :is(td, th)');
  if (!cell) return;
  event.preventDefault();
  for (const [name, value] of Object.entries(JSON.parse(cell.parentElement.dataset.key))) {
    const input = form.elements.namedItem(`key.${name}`);
    if (input) input.value = value ?? 'null';
  }
  form.elements.namedItem('column').selectedIndex = cell.cellIndex;
  form.elements.namedItem('body').focus();
});
