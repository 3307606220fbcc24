// The queries that ran in this browser, kept in its local storage: a list to search, to take up again, and to delete from.

import { h, icon, replace } from './dom.js';
import { ago, duration, plural } from './format.js';
import { LANGUAGES } from './languages.js';

const KEY = 'vicus.history';
const MAX_ENTRIES = 200;
const MAX_TEXT = 20_000;

/// A browser may refuse its storage; the page then works without a memory.
export function load(key, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function save(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // It is full or refused.
  }
}

export class History {
  /// `onChoose({text, language})` takes an entry up.
  constructor(parent, { onChoose, onClose }) {
    this.onChoose = onChoose;
    this.search = h('input', {
      type: 'search',
      placeholder: 'Search the history',
      'aria-label': 'Search the history',
      onInput: () => this.render(),
    });
    this.list = h('ul', { class: 'plain-list history-list' });
    const clear = h('button', { type: 'button', class: 'button small', onClick: () => this.#write([]) }, 'Delete all');
    replace(
      parent,
      h(
        'header',
        { class: 'drawer-head' },
        h('h2', {}, 'History'),
        clear,
        h(
          'button',
          { type: 'button', class: 'button icon-only', 'aria-label': 'Close the history', onClick: onClose },
          icon('close'),
        ),
      ),
      this.search,
      this.list,
    );
  }

  get entries() {
    return load(KEY, []);
  }

  add(run) {
    const entry = {
      text: run.text.slice(0, MAX_TEXT),
      language: run.language,
      at: Date.now(),
      ms: run.elapsedMs,
      rows: run.form === 'update' || run.boolean !== null ? null : run.received,
      state: run.state,
    };
    // A query that runs again moves up instead of filling the list.
    const others = this.entries.filter(({ text, language }) => text !== entry.text || language !== entry.language);
    this.#write([entry, ...others].slice(0, MAX_ENTRIES));
  }

  #write(entries) {
    save(KEY, entries);
    this.render();
  }

  render() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const { entries } = this;
    const found = entries.filter(({ text }) => words.every((word) => text.toLowerCase().includes(word)));
    const now = Date.now();
    const items = found.map((entry) =>
      h(
        'li',
        { class: 'history-entry' },
        h(
          'button',
          { type: 'button', class: 'history-text', onClick: () => this.onChoose(entry) },
          h(
            'code',
            {},
            entry.text
              .replace(/^\s*(PREFIX|BASE)[^\n]*\n?/gim, '')
              .trim()
              .slice(0, 300) || entry.text.slice(0, 300),
          ),
          h(
            'span',
            { class: 'quiet' },
            [
              ago(entry.at, now),
              entry.language !== 'sparql' && LANGUAGES[entry.language]?.title,
              entry.state === 'failed'
                ? 'failed'
                : entry.state === 'cancelled'
                  ? 'stopped'
                  : entry.rows !== null && plural(entry.rows, 'row'),
              entry.ms !== null && duration(entry.ms),
            ]
              .filter(Boolean)
              .join(' · '),
          ),
        ),
        h(
          'button',
          {
            type: 'button',
            class: 'button icon-only',
            'aria-label': 'Delete from the history',
            title: 'Delete',
            onClick: () => this.#write(this.entries.filter(({ at }) => at !== entry.at)),
          },
          icon('bin'),
        ),
      ),
    );
    replace(
      this.list,
      items.length
        ? items
        : h(
            'li',
            { class: 'empty' },
            entries.length ? 'Nothing found.' : 'Queries that you run are kept here, in this browser only.',
          ),
    );
  }
}
