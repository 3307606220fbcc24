// Completion from the server, which knows the data, and prefixes that are declared as soon as they are used.

import { autocompletion, pickedCompletion, startCompletion } from '@codemirror/autocomplete';
import { EditorState } from '@codemirror/state';
import * as api from './api.js';
import { compact } from './format.js';
import { declaration, prefixBefore } from './prologue.js';

/// What stands for a kind in the list, and its name for the tool tip.
const KINDS = {
  predicate: 'P',
  class: 'C',
  iri: 'I',
  literal: 'L',
  variable: '?',
  keyword: 'K',
  function: 'ƒ',
  prefix: ':',
  graph: 'G',
  table: 'T',
  column: '|',
};

/// The extension. `language()` is "sparql" or "sql".
export function completion(language) {
  const source = async (context) => {
    const text = context.state.doc.toString();
    if (!context.explicit && !invites(text, context.pos, language())) return null;
    const aborter = new AbortController();
    context.addEventListener('abort', () => aborter.abort(), { onDocChange: true });
    let answer;
    try {
      answer = await api.complete({ text, cursor: context.pos, language: language() }, aborter.signal);
    } catch {
      return null;
    }
    if (context.aborted || !answer.items.length) return null;
    const options = answer.items.map((item) => option(item, language()));
    // The server has chosen and sorted; the editor must not filter by the label, because an item may match by its IRI or its name.
    return { from: answer.from, to: answer.to, options, filter: false };
  };
  return autocompletion({
    override: [source],
    icons: false,
    activateOnTypingDelay: 120,
    maxRenderedOptions: 60,
    optionClass: (option) => `kind-${option.type}`,
    addToOptions: [
      { position: 20, render: badge },
      {
        position: 85,
        render: (option) => quiet('completion-count', option.count === null ? '' : compact(option.count)),
      },
    ],
  });
}

function option(item, language) {
  return {
    label: item.label,
    detail: item.detail && item.detail !== item.label ? item.detail : undefined,
    type: item.kind,
    count: item.count ?? null,
    apply: (view, completion, from, to) => {
      const text = view.state.doc.toString();
      const changes = [{ from, to, insert: item.insert }];
      const declared =
        item.prefix && language === 'sparql' ? declaration(text, item.prefix.name, item.prefix.iri) : null;
      if (declared) changes.unshift({ from: declared.from, insert: declared.insert });
      const moved = declared && declared.from <= from ? declared.insert.length : 0;
      view.dispatch({
        changes,
        selection: { anchor: from + moved + item.insert.length },
        annotations: pickedCompletion.of(completion),
        userEvent: 'input.complete',
        scrollIntoView: true,
      });
      // A prefix is only the beginning of a name.
      if (item.insert.endsWith(':')) startCompletion(view);
    },
  };
}

function badge(option) {
  const element = quiet(`completion-kind kind-${option.type}`, KINDS[option.type] ?? '·');
  element.title = option.type;
  return element;
}

function quiet(name, text) {
  const element = document.createElement('span');
  element.className = name;
  element.textContent = text;
  return element;
}

/// Whether typing up to this place should open the list by itself: within a word, or after a space where a predicate or an object is
/// due. After anything else the list would take the Enter key from someone who only wants a new line.
function invites(text, at, language) {
  const before = text.slice(Math.max(0, at - 200), at);
  const line = before.slice(before.lastIndexOf('\n') + 1);
  if (/(^|\s)#(?![^\s]*>)[^<]*$/.test(line)) return false;
  if (/[\p{L}\p{N}_:?$<@/-]$/u.test(before)) return true;
  if (language === 'sql') return before.endsWith('.');
  return /(?:[?$][\p{L}\p{N}_]+|[\p{L}\p{N}_]:[\p{L}\p{N}_.-]*|>|;|\ba) $/u.test(line);
}

/// Declares a known prefix in the same step in which its colon is typed. `known()` lists `{name, iri}`; `language()` as above.
export function autoPrefix(known, language) {
  return EditorState.transactionFilter.of((transaction) => {
    if (!transaction.docChanged || !transaction.isUserEvent('input.type') || language() !== 'sparql')
      return transaction;
    let typed = null;
    transaction.changes.iterChanges((fromA, toA, fromB, toB, inserted) => {
      if (inserted.toString().endsWith(':')) typed = toB;
    });
    if (typed === null) return transaction;
    const text = transaction.newDoc.toString();
    const name = prefixBefore(text, typed);
    const entry = name === null ? null : known().find((prefix) => prefix.name === name);
    const change = entry ? declaration(text, entry.name, entry.iri) : null;
    return change ? [transaction, { changes: change, sequential: true }] : transaction;
  });
}
