// <form data-sends>: shows how much of a file has been sent; the rest of the page stays free, and leaving it asks first.
const sendingForms = new Set();

function showSending(form, isSending) {
  const panel = form.querySelector('[data-sending]');
  if (panel) panel.hidden = !isSending;
  for (const button of form.querySelectorAll('button[type=submit]')) button.disabled = isSending;
  if (isSending) sendingForms.add(form); else sendingForms.delete(form);
}

document.addEventListener('htmx:beforeSend', (event) => {
  if (event.target.matches?.('form[data-sends]')) showSending(event.target, true);
});
document.addEventListener('htmx:xhr:progress', (event) => {
  const panel = event.target.querySelector?.('[data-sending]');
  const { lengthComputable, loaded, total } = event.detail;
  if (!panel || panel.hidden || !lengthComputable || !total) return;
  const share = Math.floor((100 * loaded) / total);
  panel.querySelector('progress').value = share;
  panel.querySelector('[data-sent]').textContent = share < 100 ? `${share} % sent` : 'Sent, looking at it';
});
for (const name of ['htmx:beforeOnLoad', 'htmx:sendError', 'htmx:sendAbort', 'htmx:timeout']) {
  document.addEventListener(name, (event) => {
    if (event.target.matches?.('form[data-sends]')) showSending(event.target, false);
  });
}
document.addEventListener('click', (event) => {
  const form = event.target.closest?.('[data-abort]')?.form;
  if (form) form.dispatchEvent(new CustomEvent('htmx:abort', { bubbles: true, detail: { elt: form } }));
});
addEventListener('beforeunload', (event) => { if (sendingForms.size) event.preventDefault(); });
