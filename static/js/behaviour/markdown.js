// <textarea data-markdown="address of the preview">: signs of Markdown by a click or a key, and what the text will look like.
// One toolbar for all texts of a page, in the foot of the form that is written in; a page may have fifty forms.
const KEYS = { b: '**', i: '_' };
let tools;
let area;

/** The foot of the form of a text, which stands beside the form where that shares it with others. */
function footOf(text) {
  return (text.closest('.compose') ?? text.form).querySelector('.form__foot, .compose__foot');
}

function toggle() {
  return tools.querySelector('[data-md-preview]');
}

function endPreview() {
  if (toggle().getAttribute('aria-pressed') !== 'true') return;
  toggle().setAttribute('aria-pressed', 'false');
  area.nextElementSibling.remove();
  area.hidden = false;
}

/** Show the text as its readers will see it, in the place of the text. */
function beginPreview() {
  const shown = Object.assign(document.createElement('div'), { className: 'md md--preview', tabIndex: 0 });
  shown.setAttribute('role', 'region');
  shown.setAttribute('aria-label', 'Preview');
  // It may stand inside of what swaps itself and takes only its own part of an answer.
  for (const name of ['hx-select', 'hx-indicator']) shown.setAttribute(name, 'unset');
  shown.style.minHeight = `${area.offsetHeight}px`;
  toggle().setAttribute('aria-pressed', 'true');
  area.after(shown);
  area.hidden = true;
  htmx.ajax('POST', area.dataset.markdown, { source: shown, target: shown, swap: 'innerHTML', values: { body: area.value } });
}

/** Set a sign around what is selected; a link has a place for its address, which is selected then. */
function wrap(before, after, selected) {
  const { selectionStart: start, selectionEnd: end } = area;
  const text = area.value.slice(start, end);
  area.focus();
  area.setRangeText(`${before}${text}${after}`, start, end, 'end');
  const from = start + before.length + (selected ? text.length + selected.from : 0);
  area.setSelectionRange(from, from + (selected ? selected.length : text.length));
}

/** Set a sign before each line that is selected. */
function prefix(sign) {
  const start = area.value.lastIndexOf('\n', area.selectionStart - 1) + 1;
  const lines = area.value.slice(start, area.selectionEnd).split('\n');
  area.focus();
  area.setRangeText(lines.map((line) => sign + line).join('\n'), start, area.selectionEnd, 'end');
}

document.addEventListener('focusin', (event) => {
  const text = event.target;
  if (!text.matches('textarea[data-markdown]') || text === area) return;
  tools ??= document.getElementById('markdown-tools').content.firstElementChild.cloneNode(true);
  if (area) endPreview();
  area = text;
  footOf(text).prepend(tools);
});

document.addEventListener('click', (event) => {
  const button = event.target.closest('.mdtools button');
  if (!button) return;
  if ('mdPreview' in button.dataset) {
    if (button.getAttribute('aria-pressed') === 'true') endPreview();
    else beginPreview();
    return;
  }
  endPreview();
  if ('mdLink' in button.dataset) wrap('[', '](url)', { from: 2, length: 3 });
  else if (button.dataset.md) wrap(button.dataset.md, button.dataset.md);
  else prefix(button.dataset.mdLine);
});

document.addEventListener('keydown', (event) => {
  const sign = KEYS[event.key];
  if (!sign || event.target !== area || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
  event.preventDefault();
  wrap(sign, sign);
});
