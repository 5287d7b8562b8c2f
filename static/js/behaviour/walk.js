// One delegated key handler for walking through a page: j and k by row or line, ] and [ by file or dataset,
// n and p by conversation, v ticks "viewed", Enter opens the row. Never per-cell listeners: pages hold thousands of cells.
import { mayBeShortcut } from './shortcuts.js';

const STEPS = {
  j: ['tr.rd, tr[data-line], tr[data-column], .list tbody tr[tabindex], [data-row]', 1],
  k: ['tr.rd, tr[data-line], tr[data-column], .list tbody tr[tabindex], [data-row]', -1],
  ']': ['[data-file]', 1],
  '[': ['[data-file]', -1],
  n: ['[data-thread]', 1],
  p: ['[data-thread]', -1],
};

function walk(selector, step) {
  const all = [...document.querySelectorAll(selector)].filter((element) => element.offsetParent !== null || element.tagName === 'TR');
  if (!all.length) return false;
  const here = all.indexOf(document.activeElement.closest?.(selector));
  const next = all[here < 0 && step < 0 ? all.length - 1 : Math.max(0, Math.min(all.length - 1, here + step))];
  if (!next.hasAttribute('tabindex')) next.tabIndex = -1;
  next.focus();
  next.scrollIntoView({ block: 'nearest' });
  return true;
}

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !mayBeShortcut(event)) return;
  if (STEPS[event.key] && walk(...STEPS[event.key])) event.preventDefault();
  if (event.key === 'Enter' && event.target.matches('tr, [data-row]')) event.target.querySelector('a[data-open]')?.click();
  if (event.key === 'v') {
    const box = (document.activeElement.closest('[data-file]') ?? document).querySelector('input[data-viewed]');
    if (box) { box.click(); event.preventDefault(); }
  }
});
