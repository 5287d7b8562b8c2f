// What somebody asks for in place: that it takes long, that it failed and why, and the way to ask once more. What asks for
// itself, over and over, only says that it failed.
const PATIENCE_MS = 300;
const asked = new Set();
let failed = null;

const isAskedByHand = ({ triggeringEvent }) => Boolean(triggeringEvent) && !(triggeringEvent instanceof CustomEvent);

function showWaiting() {
  const bar = document.getElementById('waiting');
  bar.hidden = asked.size === 0;
  bar.textContent = asked.size ? 'Loading' : '';
}

document.addEventListener('htmx:beforeSend', ({ detail: { xhr, requestConfig } }) => {
  if (!isAskedByHand(requestConfig)) return;
  asked.add(xhr);
  setTimeout(showWaiting, PATIENCE_MS);
  xhr.addEventListener('loadend', () => {
    asked.delete(xhr);
    showWaiting();
  });
});

// Errors of ours say where they belong (HX-Retarget: #flash). Any other error page must not land inside a fragment.
document.addEventListener('htmx:beforeSwap', (event) => {
  const { xhr } = event.detail;
  if (xhr.status >= 400 && !xhr.getResponseHeader('HX-Retarget')) {
    event.detail.shouldSwap = false;
    announceFailure(event.detail);
  }
});
for (const name of ['htmx:sendError', 'htmx:timeout']) {
  document.addEventListener(name, (event) => announceFailure(event.detail));
}
document.addEventListener('htmx:afterOnLoad', ({ detail: { successful, requestConfig } }) => {
  const box = document.getElementById('live-flash');
  // What asks for itself goes on meanwhile, and says nothing of what somebody has asked for.
  if (box && successful && (!failed || isAskedByHand(requestConfig))) box.hidden = true;
});
document.addEventListener('click', (event) => {
  if (!event.target.closest('#live-flash [data-again]')) return;
  const { verb, path, elt, target } = failed;
  // What asks for itself may have put others in their place meanwhile.
  if (!elt.isConnected || !target.isConnected) {
    location.reload();
    return;
  }
  window.htmx.ajax(verb, path, { source: elt, target, event }).catch(() => {}); // that it failed again is said as the first time
});

/** A failed swap leaves the page as it was; say so where a screen reader hears it, with the id to quote. */
function announceFailure({ xhr, requestConfig }) {
  const box = document.getElementById('live-flash');
  if (!box) return;
  const id = xhr?.getResponseHeader?.('X-Request-Id');
  const reason = xhr?.status ? `The server answered ${xhr.status}.` : 'The server did not answer.';
  const isQuestion = requestConfig.verb === 'get';
  const outcome = isQuestion || (xhr?.status && xhr.status < 500) ? 'Nothing was changed.' : 'What you sent may have arrived: reload the page to see.';
  box.querySelector('[data-message]').textContent = [reason, outcome, id && `Request ${id}.`].filter(Boolean).join(' ');
  failed = isQuestion && isAskedByHand(requestConfig) ? requestConfig : null;
  box.querySelector('[data-again]').hidden = !failed;
  box.hidden = false;
}
