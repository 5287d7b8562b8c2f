// [data-news]: a message about what was just done. It goes by itself once it was read, and is never news again: not after
// the Back button, and not when what it announced has come to its end.
const READ_MS = 10_000;

function drop() {
  for (const message of document.querySelectorAll('[data-news]')) message.remove();
}

function isRead(message) {
  return !document.hidden && !message.matches(':hover, :focus-within');
}

/** Remove a message, later while somebody may still be reading it. */
function dropLater(message) {
  setTimeout(() => { if (isRead(message)) message.remove(); else dropLater(message); }, READ_MS);
}

if (performance.getEntriesByType('navigation')[0]?.type === 'back_forward') drop();
for (const message of document.querySelectorAll('[data-news]')) dropLater(message);
addEventListener('pageshow', (event) => { if (event.persisted) drop(); });
document.addEventListener('settled', drop, true);
