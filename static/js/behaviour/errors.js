// The first error of a form is scrolled to and has the focus, also where it is in a fold or a dialog.
const FIELDS = '[aria-invalid="true"]:not([type="hidden"]), .field--bad :is(input, select, textarea, code-editor)';
const MESSAGES = 'form .flash--error, .errorlist, .flash--error[role="alert"]';

function showFirstError(root) {
  const field = root.querySelector(FIELDS);
  const place = field ?? root.querySelector(MESSAGES);
  if (!place) return;
  for (let fold = place.closest('details:not([open])'); fold; fold = fold.parentElement.closest('details:not([open])')) fold.open = true;
  const dialog = place.closest('dialog:not([open])');
  if (dialog) dialog.showModal();
  if (!field) place.tabIndex = -1;
  place.focus({ preventScroll: true });
  (place.closest('.field') ?? place).scrollIntoView({ block: 'center' });
}

showFirstError(document);
document.addEventListener('htmx:load', ({ detail: { elt } }) => { if (elt !== document.body) showFirstError(elt); });
