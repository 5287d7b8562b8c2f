// <code-editor data-language="python" label="File content"><textarea name="content">…</textarea></code-editor>
// data-mark="7" data-ours data-theirs: how long marks of conflicts are, and the names of both sides.
// The textarea stays the form field, so the page posts as any form does and works without the script.
import { EditorState, StateEffect } from '@codemirror/state';
import {
  EditorView, keymap, lineNumbers, highlightActiveLine, highlightActiveLineGutter, drawSelection,
  highlightSpecialChars, rectangularSelection,
} from '@codemirror/view';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import {
  syntaxHighlighting, HighlightStyle, indentOnInput, bracketMatching, foldGutter, foldKeymap, indentUnit,
} from '@codemirror/language';
import { searchKeymap, highlightSelectionMatches } from '@codemirror/search';
import { autocompletion, completionKeymap, closeBrackets, closeBracketsKeymap } from '@codemirror/autocomplete';
import { forceLinting, lintKeymap, lintGutter, linter } from '@codemirror/lint';
import { python } from '@codemirror/lang-python';
import { sql } from '@codemirror/lang-sql';
import { yaml } from '@codemirror/lang-yaml';
import { json } from '@codemirror/lang-json';
import { tags } from '@lezer/highlight';
import { completeDatasets } from './completion.js';
import { chooseConflicts } from './conflicts.js';
import { askLinter } from './lint.js';
import './rows.js';

const LANGUAGES = { python, sql, yaml, json };

const highlight = HighlightStyle.define([
  { tag: [tags.comment, tags.docComment], color: 'var(--prettylights-syntax-comment)' },
  { tag: [tags.keyword, tags.operatorKeyword, tags.controlKeyword, tags.modifier], color: 'var(--prettylights-syntax-keyword)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--prettylights-syntax-string)' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: 'var(--prettylights-syntax-constant)' },
  {
    tag: [tags.function(tags.variableName), tags.function(tags.propertyName), tags.definition(tags.function(tags.variableName)), tags.meta],
    color: 'var(--prettylights-syntax-entity)',
  },
  { tag: [tags.className, tags.typeName, tags.propertyName, tags.attributeName], color: 'var(--prettylights-syntax-variable)' },
]);

const theme = EditorView.theme({
  '&': { color: 'var(--fgColor-default)', backgroundColor: 'var(--bgColor-default)', fontSize: '13px', height: '100%' },
  '&.cm-focused': { outline: '2px solid var(--focus-outlineColor)', outlineOffset: '-2px' },
  '.cm-scroller': { fontFamily: 'var(--fontStack-monospace)', lineHeight: '20px' },
  '.cm-gutters': {
    backgroundColor: 'var(--bgColor-muted)', color: 'var(--fgColor-muted)', borderRight: '1px solid var(--borderColor-muted)',
  },
  '.cm-activeLine': { backgroundColor: 'var(--bgColor-neutral-muted)' },
  '.cm-activeLineGutter': { backgroundColor: 'var(--bgColor-neutral-muted)' },
  // CodeMirror's own rule for a focused selection is the more specific one.
  '&.cm-focused .cm-selectionBackground, .cm-selectionBackground': { backgroundColor: 'var(--bgColor-accent-muted) !important' },
  '.cm-cursor': { borderLeftColor: 'var(--fgColor-default)' },
  '.cm-panels': { backgroundColor: 'var(--bgColor-muted)', color: 'var(--fgColor-default)' },
  '.cm-tooltip': { backgroundColor: 'var(--overlay-bgColor)', border: '1px solid var(--borderColor-default)' },
});

// What pipelines are written with; offered beside Python's own words.
const WORDS = [
  'transform.using', 'transform.spark.using', 'TableInput', 'TableOutput', 'Check', 'incremental', 'configure',
  'write_table', 'write_pandas', 'write_polars', 'write_dataframe', 'set_mode', 'apply_changelog', 'changelog',
  'E.primary_key', 'dataframe', 'arrow', 'polars', 'pandas',
].map((label) => ({ label, type: 'function' }));

function completeTransforms(context) {
  const word = context.matchBefore(/[\w.]+/);
  if (!word || (word.from === word.to && !context.explicit)) return null;
  return { from: word.from, options: WORDS, validFor: /^[\w.]*$/ };
}

// Says that problems have come that no change of the text brought.
const problemsCame = StateEffect.define();

customElements.define('code-editor', class extends HTMLElement {
  connectedCallback() {
    const field = this.querySelector('textarea');
    if (this.view || !field) return;
    // Inside a shadow root CodeMirror uses adopted style sheets: no <style> element, so the strict policy needs no nonce.
    const shadow = this.shadowRoot ?? this.attachShadow({ mode: 'open' });
    const language = LANGUAGES[this.dataset.language];
    const support = language ? [language()] : [];
    if (this.dataset.language === 'python') {
      const sources = [completeTransforms, completeDatasets(this.dataset.branch)];
      support.push(...sources.map((autocomplete) => support[0].language.data.of({ autocomplete })));
    }
    const { mark, ours, theirs } = this.dataset;
    if (mark) support.push(chooseConflicts(Number(mark), { ours, theirs }));
    this.view = new EditorView({
      root: shadow,
      parent: shadow,
      state: EditorState.create({
        doc: field.value,
        extensions: [
          lineNumbers(), highlightActiveLineGutter(), highlightSpecialChars(), history(), foldGutter(), drawSelection(),
          EditorState.allowMultipleSelections.of(true), indentOnInput(), bracketMatching(), closeBrackets(), autocompletion(),
          rectangularSelection(), highlightActiveLine(), highlightSelectionMatches(), lintGutter(), indentUnit.of('    '),
          keymap.of([
            { key: 'Mod-Enter', run: () => { field.form?.requestSubmit(); return true; } },
            // Escape, then Tab leaves the editor: Tab indents otherwise (WCAG 2.1.2).
            ...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...foldKeymap,
            ...completionKeymap, ...lintKeymap, indentWithTab,
          ]),
          support, syntaxHighlighting(highlight), theme,
          linter((view) => this.findProblems(view), {
            delay: 700,
            needsRefresh: ({ transactions }) => transactions.some(({ effects }) => effects.some((effect) => effect.is(problemsCame))),
          }),
          EditorState.readOnly.of(this.hasAttribute('readonly')),
          EditorView.contentAttributes.of({ 'aria-label': this.getAttribute('label') ?? 'Code editor' }),
          EditorView.updateListener.of((update) => {
            if (!update.docChanged) return;
            field.value = update.state.doc.toString();
            this.changed = field.value !== field.defaultValue;
          }),
        ],
      }),
    });
    field.hidden = true;
    if (this.dataset.problems) forceLinting(this.view);
    this.warn = (event) => { if (this.changed && !field.form?.dataset.sent) event.preventDefault(); };
    addEventListener('beforeunload', this.warn);
    this.look = ({ detail }) => {
      if (detail.target.id === 'preview') this.view.dispatch({ effects: problemsCame.of(null) });
    };
    document.addEventListener('htmx:afterSwap', this.look);
    if (document.querySelector('.code-preview[data-problems]')) forceLinting(this.view);
  }

  disconnectedCallback() {
    removeEventListener('beforeunload', this.warn);
    document.removeEventListener('htmx:afterSwap', this.look);
    this.view?.destroy();
    this.view = null;
  }

  /** The text as it is now. */
  get value() { return this.view.state.doc.toString(); }

  /** Put text in the place of what stands between two offsets. */
  replace(from, to, insert) { this.view.dispatch({ changes: { from, to, insert } }); }

  /**
   * data-problems='[{"line": 3, "message": "…"}]': errors of the last publication, as long as their lines say the same;
   * data-lint: the address that says what is wrong with the text as it is now. A preview on the page has its own problems.
   */
  async findProblems({ state: { doc } }) {
    const before = this.querySelector('textarea').defaultValue.split('\n');
    const published = JSON.parse(this.dataset.problems || '[]')
      .filter(({ line }) => line >= 1 && line <= doc.lines && doc.line(line).text === before[line - 1])
      .map(({ line, message }) => {
        const { from, to } = doc.line(line);
        return { from, to, severity: 'error', source: 'publication', message };
      });
    const path = this.closest('form')?.elements.namedItem('path')?.value ?? '';
    const found = this.dataset.lint && path.endsWith('.py') ? await askLinter(this.dataset.lint, path, doc) : [];
    return [...published, ...this.findPreviewed(path, doc), ...found];
  }

  /** Problems of the preview: [{"line": 3, "message": "…", "text": "…"}], as long as their lines say the same. */
  findPreviewed(path, doc) {
    const preview = document.querySelector('.code-preview[data-problems]');
    if (preview?.dataset.file !== path) return [];
    return JSON.parse(preview.dataset.problems)
      .filter(({ line, text }) => line <= doc.lines && doc.line(line).text === text)
      .map(({ line, message }) => {
        const { from, to } = doc.line(line);
        return { from, to, severity: 'error', source: 'preview', message };
      });
  }
});
