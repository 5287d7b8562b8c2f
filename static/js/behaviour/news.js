// [data-news]: a message about what was just done. It goes by itself once it was read, and is never news again: not after
// the Back button, and not when what it announced has come to its end.
const READ_MS = 6_000;
/** So long it stands even where it has become old. */
const LEAST_MS = 3_000;
const drawnAt = Date.now();

function drop() {
  for (const message of document.querySelectorAll('[data-news]')) message.remove();
}

function isRead(message) {
  return !document.hidden && !message.matches(':hover, :focus-within');
}

/** Remove a message after some milliseconds, later while somebody may still be reading it. */
function dropAfter(message, ms) {
  setTimeout(() => { if (isRead(message)) message.remove(); else dropAfter(message, READ_MS); }, ms);
}

function dropOld() {
  const rest = Math.max(0, drawnAt + LEAST_MS - Date.now());
  for (const message of document.querySelectorAll('[data-news]')) dropAfter(message, rest);
}

if (performance.getEntriesByType('navigation')[0]?.type === 'back_forward') drop();
for (const message of document.querySelectorAll('[data-news]')) dropAfter(message, READ_MS);
addEventListener('pageshow', (event) => { if (event.persisted) drop(); });
document.addEventListener('settled', dropOld, true);
