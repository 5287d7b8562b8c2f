// Loaded on every page. All behaviour hangs on attributes or custom elements, so it starts by itself after a swap.
import { install } from '@github/hotkey';
import '@github/relative-time-element';
import './behaviour/asking.js';
import './behaviour/clipboard.js';
import './behaviour/confirming.js';
import './behaviour/dialogs.js';
import './behaviour/errors.js';
import './behaviour/forms.js';
import './behaviour/live.js';
import './behaviour/log.js';
import './behaviour/markdown.js';
import './behaviour/news.js';
import './behaviour/preload.js';
import './behaviour/sending.js';
import './behaviour/tabs.js';
import './behaviour/talk.js';
import './behaviour/walk.js';
import { mayBeShortcut } from './behaviour/shortcuts.js';

// The library listens on the document too and only knows fields outside of shadow roots. This listener stands before
// its own (it adds that with the first element), so it sees no key that is no shortcut; the key itself goes on as typed.
document.addEventListener('keydown', (event) => { if (!mayBeShortcut(event)) event.stopImmediatePropagation(); });

function installHotkeys(root) {
  for (const element of root.querySelectorAll('[data-hotkey]')) install(element);
}

installHotkeys(document);

// htmx loads after this file; its events bubble to the document. Of the product asking.js and sending.js, which show what was asked for and sent, listen to htmx, too.
document.addEventListener('htmx:load', (event) => installHotkeys(event.detail.elt));
document.addEventListener('htmx:configRequest', (event) => {
  const token = document.querySelector('meta[name=csrf-token]');
  if (token) event.detail.headers['X-CSRFToken'] = token.content;
});
// Two may ask at a time for what the page says beside its parts: what is asking waits for its own answer, and an answer
// about an address that the page has left is too late.
document.addEventListener('htmx:oobBeforeSwap', ({ detail }) => {
  if (detail.target.matches('.htmx-request') || detail.target.querySelector('.htmx-request')) detail.shouldSwap = false;
});
document.addEventListener('htmx:beforeSwap', ({ detail }) => {
  if (detail.target.id !== 'inbox') return;
  const { pathname, search } = new URL(detail.pathInfo.requestPath, location.href);
  if (pathname + search !== location.pathname + location.search) detail.shouldSwap = false;
});
// What htmx takes out it takes leave of element by element, with two events each: for a hundred rows the greater half of a
// swap. Rows of a diff have nothing that htmx knows, and what asks for itself in another tab ends with its element: they
// go before it looks. Where the focus is it is to find it again, and from what has asked it looks for other targets.
document.addEventListener('htmx:beforeSwap', ({ detail: { shouldSwap, target, requestConfig } }) => {
  if (!shouldSwap) return;
  // Another tab is read from its top. Asked for after the swap, that would have the page laid out twice.
  if (target.id === 'main') scrollTo({ top: 0, behavior: 'instant' });
  for (const part of target.querySelectorAll('tbody:has(> .rd) > *, #main > *')) {
    if (![document.activeElement, requestConfig.elt].some((needed) => part.contains(needed))) part.remove();
  }
});
