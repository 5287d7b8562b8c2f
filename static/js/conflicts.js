// Conflicts in the editor: what both sides have stands between marks, and buttons above it choose.
import { StateField } from '@codemirror/state';
import { Decoration, EditorView, WidgetType } from '@codemirror/view';

/** Every conflict of a text: where it begins and ends, and the lines of both sides. */
function findConflicts(doc, size) {
  const [begin, middle, end] = ['<', '=', '>'].map((sign) => sign.repeat(size));
  const conflicts = [];
  let open = null;
  for (let number = 1; number <= doc.lines; number += 1) {
    const line = doc.line(number);
    if (line.text.startsWith(`${begin} `)) open = { from: line.from, ours: number + 1 };
    else if (open && !open.theirs && line.text === middle) open.theirs = number + 1;
    else if (open?.theirs && line.text.startsWith(`${end} `)) {
      conflicts.push({ ...open, end: number, to: line.to });
      open = null;
    }
  }
  return conflicts;
}

function linesBetween(doc, first, after) {
  if (first >= after) return '';
  return doc.sliceString(doc.line(first).from, doc.line(after - 1).to);
}

class Choice extends WidgetType {
  constructor(place, size, names) { super(); Object.assign(this, { place, size, names }); }

  eq(other) { return other.place === this.place; }

  toDOM(view) {
    const bar = document.createElement('div');
    bar.className = 'cm-conflict-bar';
    bar.append(Object.assign(document.createElement('span'), { textContent: this.place }));
    const { ours, theirs } = this.names;
    for (const [take, word] of [['ours', `Use ${ours}`], ['theirs', `Use ${theirs}`], ['both', 'Use both']]) {
      const button = Object.assign(document.createElement('button'), { type: 'button', textContent: word });
      button.addEventListener('click', () => choose(view, view.posAtDOM(bar), this.size, take));
      bar.append(button);
    }
    return bar;
  }

  ignoreEvent() { return true; }
}

function choose(view, at, size, take) {
  const { doc } = view.state;
  const conflict = findConflicts(doc, size).find(({ from, to }) => from <= at && at <= to);
  if (!conflict) return;
  const sides = {
    ours: linesBetween(doc, conflict.ours, conflict.theirs - 1),
    theirs: linesBetween(doc, conflict.theirs, conflict.end),
  };
  const chosen = take === 'both' ? [sides.ours, sides.theirs] : [sides[take]];
  const insert = chosen.filter(Boolean).join('\n');
  // A side without lines takes the end of the last one along.
  const to = insert ? conflict.to : Math.min(conflict.to + 1, doc.length);
  view.dispatch({ changes: { from: conflict.from, to, insert }, selection: { anchor: conflict.from }, scrollIntoView: true });
  view.focus();
}

function decorate(state, size, names) {
  const conflicts = findConflicts(state.doc, size);
  const marks = [];
  conflicts.forEach((conflict, index) => {
    const place = `Conflict ${index + 1} of ${conflicts.length}`;
    marks.push(Decoration.widget({ widget: new Choice(place, size, names), block: true, side: -1 }).range(conflict.from));
    for (let number = conflict.ours - 1; number <= conflict.end; number += 1) {
      const isMark = [conflict.ours - 1, conflict.theirs - 1, conflict.end].includes(number);
      const side = isMark ? 'mark' : number < conflict.theirs ? 'ours' : 'theirs';
      marks.push(Decoration.line({ class: `cm-conflict-${side}` }).range(state.doc.line(number).from));
    }
  });
  return Decoration.set(marks, true);
}

const theme = EditorView.theme({
  '.cm-conflict-bar': {
    display: 'flex', gap: '8px', alignItems: 'center', flexWrap: 'wrap', padding: '4px 8px', fontSize: '12px',
    color: 'var(--fgColor-muted)', backgroundColor: 'var(--bgColor-muted)', fontFamily: 'var(--fontStack-system)',
  },
  '.cm-conflict-bar button': {
    font: 'inherit', padding: '2px 10px', borderRadius: '6px', cursor: 'pointer', color: 'var(--fgColor-default)',
    border: '1px solid var(--borderColor-default)', backgroundColor: 'var(--bgColor-default)',
  },
  '.cm-conflict-bar button:focus-visible': { outline: '2px solid var(--focus-outlineColor)' },
  '.cm-line.cm-conflict-mark': { color: 'var(--fgColor-muted)', backgroundColor: 'var(--bgColor-neutral-muted)' },
  '.cm-line.cm-conflict-ours': { backgroundColor: 'var(--diffBlob-additionLine-bgColor)' },
  '.cm-line.cm-conflict-theirs': { backgroundColor: 'var(--bgColor-accent-muted)' },
});

/** An extension that shows what clashes between marks of a size, with a choice above each of it. */
export function chooseConflicts(size, names) {
  const field = StateField.define({
    create: (state) => decorate(state, size, names),
    update: (value, transaction) => (transaction.docChanged ? decorate(transaction.state, size, names) : value),
    provide: (self) => EditorView.decorations.from(self),
  });
  return [field, theme];
}
