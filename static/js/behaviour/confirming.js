// <form data-confirm="what will happen"> or such a button: a dialog asks first. Without scripts the form is sent at once.
const dialog = document.getElementById('confirm');
let agreed = null;

document.addEventListener('submit', (event) => {
  const { target: form, submitter } = event;
  const text = submitter?.dataset.confirm ?? form.dataset.confirm;
  if (!text || !dialog || agreed === form) {
    agreed = null;
    return;
  }
  event.preventDefault();
  event.stopImmediatePropagation();
  dialog.querySelector('#confirm-text').textContent = text;
  const button = dialog.querySelector('[data-agree]');
  button.textContent = submitter?.textContent.trim() || submitter?.getAttribute('aria-label') || 'Continue';
  button.className = submitter?.matches('.danger') ? 'btn danger' : 'btn primary';
  button.onclick = () => {
    dialog.close();
    agreed = form;
    form.requestSubmit(submitter ?? undefined);
  };
  dialog.showModal();
}, true);
