// Native <dialog> and <details class="picker">: open, close by Escape, by a click outside and by [data-close].
document.addEventListener('click', (event) => {
  const opener = event.target.closest('[data-dialog]');
  if (opener) {
    event.preventDefault();
    // One dialog serves many: what it showed of another goes, and what is asked for now comes.
    if (opener.hasAttribute('hx-get')) document.querySelector(opener.getAttribute('hx-target')).replaceChildren();
    document.getElementById(opener.dataset.dialog)?.showModal();
  }
  const closer = event.target.closest('[data-close]');
  if (closer) {
    event.preventDefault();
    closer.closest('dialog')?.close();
    const picker = closer.closest('details.picker');
    if (picker) closePicker(picker);
  }
  const summary = event.target.closest('details.picker:not([open]) > summary');
  if (summary) {
    event.preventDefault();
    openPicker(summary.parentElement);
  }
  if (event.target.matches('dialog')) event.target.close();
  if (event.target.closest('[data-dismiss]')) event.target.closest('.flash')?.remove();
  for (const picker of document.querySelectorAll('details.picker[open]')) {
    if (!picker.contains(event.target)) picker.open = false;
  }
});

// Nothing came for it; the page says why.
for (const name of ['htmx:responseError', 'htmx:sendError', 'htmx:timeout']) {
  document.addEventListener(name, ({ detail: { elt } }) => document.getElementById(elt.dataset.dialog)?.close());
}

/** At once, not when `toggle` tells: what is typed meanwhile would be shortcuts. */
function openPicker(picker) {
  picker.open = true;
  picker.querySelector('[autofocus], input:not([type=hidden])')?.focus();
}

function closePicker(picker) {
  picker.open = false;
  picker.querySelector('summary')?.focus();
}

document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape') return;
  const picker = event.target.closest?.('details.picker[open]');
  if (picker) closePicker(picker);
});
