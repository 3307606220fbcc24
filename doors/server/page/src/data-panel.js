// The panel of what the data has: classes, predicates, graphs and tables with their counts. A click puts a name into the editor.

import { h, icon, replace } from './dom.js';
import { compact, count } from './format.js';

/// More lines of a kind are shown when they are searched for.
const SHOWN = 200;

export class DataPanel {
  /// `onInsert(entry)` puts a name into the editor: `{iri}` or `{name, table}`; `onClose()` closes the panel; `onUpload()`, where the
  /// server takes updates, asks for a file; `short(iri)` writes with prefixes.
  constructor(parent, { onInsert, onClose, onUpload, short }) {
    Object.assign(this, { onInsert, short });
    this.search = h('input', {
      type: 'search',
      placeholder: 'Search the data’s names',
      'aria-label': 'Search the data’s names',
      onInput: () => this.render(this.contents),
    });
    this.body = h('div', { class: 'data-list' });
    replace(
      parent,
      h(
        'header',
        { class: 'drawer-head' },
        h('h2', {}, 'Data'),
        onUpload &&
          h('button', { type: 'button', class: 'button small', id: 'upload', onClick: onUpload }, icon('upload'), 'Upload'),
        h(
          'button',
          { type: 'button', class: 'button icon-only', 'aria-label': 'Close the panel of the data', onClick: onClose },
          icon('close'),
        ),
      ),
      this.search,
      this.body,
    );
    this.render(null);
  }

  /// Shows what the server told, or that nothing is known.
  render(contents) {
    this.contents = contents;
    if (!contents) return replace(this.body, h('p', { class: 'empty' }, 'The server has not told what the data has.'));
    const closed = new Set(
      [...this.body.querySelectorAll('details:not([open])')].map((section) => section.dataset.section),
    );
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (text) => words.every((word) => text.toLowerCase().includes(word));
    const iris = (name, entries) => {
      const found = entries.filter(({ iri }) => fits(iri) || fits(this.short(iri) ?? ''));
      return this.#section(name, found, closed, ({ iri, count: number }) =>
        this.#line(this.short(iri) ?? `<${iri}>`, iri, number, () => this.onInsert({ iri })),
      );
    };
    const tables = contents.tables.filter(({ name, columns }) => fits(name) || columns.some((column) => fits(column.name)));
    replace(
      this.body,
      iris('Classes', contents.classes),
      iris('Predicates', contents.predicates),
      iris('Graphs', contents.graphs),
      tables.length > 0 && this.#section('Tables', tables, closed, (table) => this.#table(table)),
    );
    return undefined;
  }

  #section(name, entries, closed, line) {
    const more = entries.length - SHOWN;
    return h(
      'details',
      { 'data-section': name, open: !closed.has(name) },
      h('summary', {}, name, h('span', { class: 'quiet' }, count(entries.length))),
      h(
        'ul',
        { class: 'plain-list' },
        entries.slice(0, SHOWN).map((entry) => h('li', {}, line(entry))),
        entries.length === 0 && h('li', { class: 'quiet none' }, 'None.'),
        more > 0 && h('li', { class: 'quiet none' }, `${count(more)} more: search for them.`),
      ),
    );
  }

  #line(text, title, number, action) {
    return h(
      'button',
      { type: 'button', class: 'list-button', title, onClick: action },
      h('span', { class: 'ellipsis' }, text),
      number !== null && number !== undefined && h('span', { class: 'quiet', title: count(number) }, compact(number)),
    );
  }

  #table(table) {
    return [
      this.#line(table.name, `Table ${table.name}`, table.rows, () => this.onInsert({ name: table.name, table: true })),
      h(
        'ul',
        { class: 'plain-list columns' },
        table.columns.map((column) =>
          h(
            'li',
            {},
            h(
              'button',
              { type: 'button', class: 'list-button', onClick: () => this.onInsert({ name: column.name, table: true }) },
              h('span', { class: 'ellipsis' }, column.name),
              h('span', { class: 'quiet' }, column.type.toLowerCase()),
            ),
          ),
        ),
      ),
    ];
  }
}
