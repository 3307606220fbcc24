// The editor: CodeMirror with both languages, the server's completion, and errors under their places.

import { closeBrackets, closeBracketsKeymap, completionKeymap, acceptCompletion } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab, toggleComment } from '@codemirror/commands';
import { StandardSQL, sql } from '@codemirror/lang-sql';
import { HighlightStyle, bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from '@codemirror/language';
import { lintKeymap, setDiagnostics } from '@codemirror/lint';
import { highlightSelectionMatches, searchKeymap } from '@codemirror/search';
import { Compartment, EditorState, Prec, StateEffect, StateField } from '@codemirror/state';
import {
  Decoration,
  EditorView,
  WidgetType,
  crosshairCursor,
  drawSelection,
  dropCursor,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  placeholder,
  rectangularSelection,
} from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { sparql } from 'codemirror-lang-sparql';
import * as api from './api.js';
import { autoPrefix, completion } from './completion.js';
import { debounce } from './dom.js';
import { indented } from './indent.js';
import { declaration, missingDeclarations } from './prologue.js';

const CHECK_AFTER_MS = 450;
/// An error's text comes when nothing has been typed for so long, so that it does not stand in the way of one who writes.
const SHOW_AFTER_MS = 2000;
const CHECK_WITHIN_MS = 3000;

const colours = HighlightStyle.define([
  {
    tag: [tags.keyword, tags.operatorKeyword, tags.definitionKeyword],
    color: 'var(--code-keyword)',
    fontWeight: '600',
  },
  { tag: [tags.variableName, tags.special(tags.variableName)], color: 'var(--code-variable)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--code-string)' },
  { tag: [tags.number, tags.integer, tags.float, tags.bool, tags.null], color: 'var(--code-number)' },
  { tag: [tags.namespace, tags.url, tags.typeName], color: 'var(--code-name)' },
  { tag: [tags.standard(tags.name), tags.function(tags.variableName)], color: 'var(--code-keyword)' },
  { tag: [tags.comment, tags.lineComment, tags.blockComment], color: 'var(--code-comment)', fontStyle: 'italic' },
  { tag: tags.annotation, color: 'var(--text-quiet)' },
]);

const setError = StateEffect.define();

/// The message that stands behind the line of an error, so that the lines below it stay where they are.
class ErrorLine extends WidgetType {
  constructor(message) {
    super();
    this.message = message;
  }

  eq(other) {
    return other.message === this.message;
  }

  toDOM() {
    const text = document.createElement('span');
    text.className = 'error-line';
    text.textContent = this.message;
    return text;
  }
}

const errorField = StateField.define({
  create: () => Decoration.none,
  update(value, transaction) {
    let next = value.map(transaction.changes);
    for (const effect of transaction.effects) if (effect.is(setError)) next = decorate(transaction.state, effect.value);
    return next;
  },
  provide: (field) => EditorView.decorations.from(field),
});

function decorate(state, error) {
  if (!error?.place) return Decoration.none;
  const from = Math.min(error.place.from, state.doc.length);
  const widget = new ErrorLine(error.message);
  return Decoration.set([Decoration.widget({ widget, side: 1 }).range(state.doc.lineAt(from).to)]);
}

export class Editor {
  /// `onRun`, `onChange(text)`, `onCheck(answer | null)` and `onCursor({line, column})` tell the page; `prefixes()` lists those that the
  /// server knows.
  constructor(parent, { text, language, prefixes, onRun, onChange, onCheck, onCursor }) {
    this.language = language;
    this.prefixes = prefixes;
    this.onCheck = onCheck;
    this.syntax = new Compartment();
    this.checking = null;
    this.checkSoon = debounce(CHECK_AFTER_MS, () => this.check());
    this.told = null;
    this.tellSoon = debounce(SHOW_AFTER_MS - CHECK_AFTER_MS, () => this.tellError());
    const run = () => {
      onRun();
      return true;
    };
    const ours = [
      { key: 'Mod-Enter', run },
      { key: 'Mod-/', run: toggleComment },
      { key: 'Shift-Alt-f', run: () => this.format() },
      { key: 'Tab', run: acceptCompletion },
    ];
    this.view = new EditorView({
      parent,
      state: EditorState.create({
        doc: text,
        extensions: [
          Prec.highest(keymap.of(ours)),
          lineNumbers(),
          highlightActiveLineGutter(),
          highlightSpecialChars(),
          history(),
          drawSelection(),
          dropCursor(),
          EditorState.allowMultipleSelections.of(true),
          indentOnInput(),
          bracketMatching(),
          closeBrackets(),
          rectangularSelection(),
          crosshairCursor(),
          highlightActiveLine(),
          highlightSelectionMatches(),
          indentUnit.of('  '),
          EditorView.lineWrapping,
          errorField,
          syntaxHighlighting(colours),
          placeholder('Write a query here. Ctrl+Space completes, Ctrl+Enter runs.'),
          keymap.of([
            ...closeBracketsKeymap,
            ...defaultKeymap,
            ...searchKeymap,
            ...historyKeymap,
            ...completionKeymap,
            ...lintKeymap,
            indentWithTab,
          ]),
          this.syntax.of(syntaxOf(language)),
          completion(() => this.language),
          autoPrefix(prefixes, () => this.language),
          EditorView.contentAttributes.of({
            'aria-label': 'Query',
            spellcheck: 'false',
            autocorrect: 'off',
            autocapitalize: 'off',
          }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) {
              this.told = null;
              onChange(this.text);
              this.checkSoon();
            }
            if (update.docChanged || update.selectionSet) onCursor(this.cursor);
          }),
        ],
      }),
    });
    onCursor(this.cursor);
  }

  get text() {
    return this.view.state.doc.toString();
  }

  get cursor() {
    const { head } = this.view.state.selection.main;
    const line = this.view.state.doc.lineAt(head);
    return { line: line.number, column: head - line.from + 1 };
  }

  /// Shows the text of the error that is marked, now rather than after a pause.
  tellError() {
    if (this.told) this.view.dispatch({ effects: setError.of(this.told) });
  }

  /// Replaces the text in one step that can be undone.
  setText(text, language = this.language) {
    if (language !== this.language) this.setLanguage(language);
    this.view.dispatch({
      changes: { from: 0, to: this.view.state.doc.length, insert: text },
      selection: { anchor: text.length },
      userEvent: 'input.paste',
    });
    this.showError(null);
  }

  /// Puts a word at the cursor, and declares a prefix that it needs: `{name, iri}`.
  insert(text, prefix = null) {
    const { from, to } = this.view.state.selection.main;
    const before = this.view.state.sliceDoc(Math.max(0, from - 1), from);
    const word = `${before === '' || /[\s({[,.^/|]/.test(before) ? '' : ' '}${text} `;
    this.view.dispatch({
      changes: { from, to, insert: word },
      selection: { anchor: from + word.length },
      userEvent: 'input.complete',
      scrollIntoView: true,
    });
    const declared = prefix && declaration(this.text, prefix.name, prefix.iri);
    if (declared) this.view.dispatch({ changes: declared, userEvent: 'input.prefix' });
    this.focus();
  }

  setLanguage(language) {
    this.language = language;
    this.view.dispatch({ effects: this.syntax.reconfigure(syntaxOf(language)) });
    this.checkSoon();
  }

  focus() {
    this.view.focus();
  }

  /// Declares the prefixes that are used without a declaration, as far as the server knows them.
  declareMissing() {
    if (this.language !== 'sparql') return;
    const changes = missingDeclarations(this.text, this.prefixes());
    if (changes) this.view.dispatch({ changes, userEvent: 'input.prefix' });
  }

  format() {
    const { state } = this.view;
    const text = indented(this.text, this.language);
    if (text === this.text) return true;
    const { head } = state.selection.main;
    const line = state.doc.lineAt(head).number;
    this.view.dispatch({ changes: { from: 0, to: state.doc.length, insert: text }, userEvent: 'input.format' });
    const after = this.view.state.doc;
    this.view.dispatch({ selection: { anchor: after.line(Math.min(line, after.lines)).to } });
    return true;
  }

  /// Asks the server what the text is: its answer, or null when it cannot be asked. A newer question ends an older one; the same text
  /// is not asked twice.
  check() {
    const { text, language } = this;
    if (this.checking?.text === text && this.checking.language === language) return this.checking.answer;
    this.checking?.aborter.abort();
    const aborter = new AbortController();
    this.checking = { text, language, aborter, answer: this.#ask(text, language, aborter.signal) };
    return this.checking.answer;
  }

  async #ask(text, language, signal) {
    if (!text.trim()) {
      this.showError(null);
      this.onCheck(null);
      return null;
    }
    try {
      const answer = await api.check(
        { text, language },
        AbortSignal.any([signal, AbortSignal.timeout(CHECK_WITHIN_MS)]),
      );
      if (text !== this.text) return null;
      const error = answer.error && { message: withoutPlace(answer.error.message), place: placeOf(answer.error) };
      this.showError(error ?? null, { waits: true });
      this.onCheck(answer);
      return answer;
    } catch {
      if (!signal.aborted) this.checking = null;
      return null;
    }
  }

  /// Marks an error `{message, place}` under its place, or removes the mark. Its text follows at once, or when it `waits`, after a
  /// pause.
  showError(error, { waits = false } = {}) {
    this.told = error?.place ? error : null;
    const { state } = this.view;
    const diagnostics = [];
    if (error?.place) {
      const from = Math.min(error.place.from, state.doc.length);
      const to = Math.min(Math.max(error.place.to, from), state.doc.length);
      diagnostics.push({
        from: from === to && from > 0 && from === state.doc.length ? from - 1 : from,
        to,
        severity: 'error',
        message: error.message,
      });
    }
    this.view.dispatch(setDiagnostics(state, diagnostics), { effects: setError.of(waits ? null : error) });
    if (waits && this.told) this.tellSoon();
  }

  /// Puts the cursor to a place and shows it.
  goTo(place) {
    const anchor = Math.min(place.from, this.view.state.doc.length);
    this.view.dispatch({ selection: { anchor }, effects: EditorView.scrollIntoView(anchor, { y: 'center' }) });
    this.focus();
  }
}

function syntaxOf(language) {
  if (language === 'network') return [];
  return language === 'sql' ? sql({ dialect: StandardSQL }) : sparql();
}

/// A message without the place that it begins with: the mark in the text shows it.
export function withoutPlace(message) {
  return message.replace(/^line \d+, column \d+:\s*/i, '');
}

/// The place of an error that has one.
export function placeOf(error) {
  return Number.isInteger(error.from)
    ? { line: error.line, column: error.column, from: error.from, to: error.to ?? error.from }
    : null;
}
