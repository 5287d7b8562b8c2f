// Small help around forms. Every form also works without it.
document.addEventListener('change', (event) => {
  // A field with form="" stands in the form and is no part of it.
  const form = event.target.form;
  if (form?.matches('[data-autosubmit]')) form.requestSubmit();
});

document.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && !event.defaultPrevented) {
    const form = event.target.closest?.('form');
    if (form) form.requestSubmit(form.querySelector('[data-default]') ?? undefined);
  }
});

// A second click on a slow submit would post twice; the server also guards by its own rules.
document.addEventListener('submit', (event) => {
  const form = event.target;
  if (form.getAttribute('method')?.toLowerCase() !== 'post' || event.defaultPrevented) return;
  if (form.dataset.sent) { event.preventDefault(); return; }
  if (form.hasAttribute('hx-post')) return;
  form.dataset.sent = '1';
  setTimeout(() => { delete form.dataset.sent; }, 4000);
});

// <input data-filter="list-id">: hides the items of that list that do not hold the words typed.
document.addEventListener('input', (event) => {
  const input = event.target.closest('[data-filter]');
  const list = input && document.getElementById(input.dataset.filter);
  if (!list) return;
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const item of list.querySelectorAll('[data-item]')) {
    const text = (item.dataset.item || item.textContent).toLowerCase();
    item.hidden = !words.every((word) => text.includes(word));
    if (!item.hidden) shown += 1;
  }
  const empty = list.parentElement.querySelector('[data-filter-empty]');
  if (empty) empty.hidden = shown > 0;
});
document.addEventListener('keydown', (event) => {
  const input = event.target.closest?.('[data-filter]');
  if (!input || event.key !== 'Enter') return;
  event.preventDefault();
  document.getElementById(input.dataset.filter)?.querySelector('[data-item]:not([hidden]) a')?.click();
});

// <input data-finds="id">: the server lists what fits; Enter takes the first, once what is typed was answered.
document.addEventListener('keydown', (event) => {
  const input = event.target.closest?.('[data-finds]');
  if (!input || event.key !== 'Enter') return;
  event.preventDefault();
  input.dataset.waits = '1';
  takeFirst(input);
});
document.addEventListener('input', (event) => { if (event.target.matches('[data-finds]')) delete event.target.dataset.waits; });
document.addEventListener('htmx:afterSettle', (event) => {
  const input = document.querySelector(`[data-finds="${event.detail.target.id}"][data-waits]`);
  if (input) takeFirst(input);
});
function takeFirst(input) {
  const list = document.getElementById(input.dataset.finds);
  if (list.querySelector('[data-found]')?.dataset.found !== input.value.trim()) return;
  delete input.dataset.waits;
  if (list.matches('select')) list.dispatchEvent(new Event('change', { bubbles: true }));
  else list.querySelector('[data-item] a')?.click();
}

// <div data-ticks>: what was ticked while the list was asked for again stays as it is.
let ticks = [];
document.addEventListener('htmx:beforeSwap', ({ detail }) => {
  if (detail.target.matches('[data-ticks]')) ticks = [...detail.target.querySelectorAll('input')];
});
document.addEventListener('htmx:afterSwap', ({ detail }) => {
  const list = detail.target.matches('[data-ticks]') && detail.target.querySelector('ul');
  if (!list) return;
  const drawn = new Map([...list.querySelectorAll('input')].map((input) => [input.value, input]));
  for (const old of ticks) {
    const input = drawn.get(old.value);
    if (input) input.checked = old.checked;
    else if (old.checked) list.prepend(old.closest('li'));
  }
});

// <select data-shows>: shows the [data-when="value"] blocks of its form that match the choice.
function showMatching(control) {
  for (const block of control.form?.querySelectorAll(`[data-when][data-of="${control.name}"]`) ?? []) {
    block.hidden = !block.dataset.when.split(' ').includes(control.value);
  }
}
document.addEventListener('change', (event) => { if (event.target.matches('[data-shows]')) showMatching(event.target); });
for (const control of document.querySelectorAll('select[data-shows], [data-shows]:checked')) showMatching(control);

// The merge button waits for the tick that says "past the requirements".
document.addEventListener('change', (event) => {
  if (!event.target.matches('[data-bypass]')) return;
  const button = event.target.form?.querySelector('[data-needs-bypass]');
  if (button) button.disabled = !event.target.checked;
});
