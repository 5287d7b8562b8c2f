// Whether a key pressed now may be a shortcut. Asked by every handler of shortcuts, so that the rule stands once.
const FIELDS = 'input:not([type=checkbox], [type=radio], [type=button], [type=submit], [type=reset], [type=file]), textarea, select';

/** The element that takes the key. The target of an event that leaves a shadow root is its host: the editor, not its field. */
function takerOf(event) {
  return event.composedPath()[0];
}

export function isTyping(event) {
  const taker = takerOf(event);
  return taker instanceof Element && (taker.isContentEditable || taker.matches(FIELDS) || Boolean(event.target.closest('code-editor')));
}

/** Single keys are shortcuts unless they are typed into a field, belong to a dialog or were turned off. */
export function mayBeShortcut(event) {
  return document.documentElement.dataset.hotkeys !== 'off'
    && !isTyping(event)
    && !document.querySelector('dialog[open]');
}
