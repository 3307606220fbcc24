// The table of a result: paged, sortable, one cell at a time in the order of the Tab key, with small bars in columns of numbers.

import { h, icon, replace, announce } from './dom.js';
import { count } from './format.js';
import { copy, termElement } from './term-view.js';
import { columnKind, kindOf, numberOf, sortedBy, termText } from './terms.js';

const PAGE_SIZES = [50, 100, 500];

export class ResultsTable {
  constructor(parent, options) {
    this.options = options;
    this.size = 100;
    this.head = h('thead');
    this.body = h('tbody');
    this.grid = h('table', { class: 'results', role: 'grid', 'aria-label': 'Results' }, this.head, this.body);
    this.scroller = h('div', { class: 'table-scroll' }, this.grid);
    this.pager = h('nav', { class: 'pager', 'aria-label': 'Pages of the result' });
    parent.append(this.scroller, this.pager);
    this.grid.addEventListener('keydown', (event) => this.#key(event));
    this.grid.addEventListener('focusin', (event) => this.#enter(event.target.closest('td, th')));
    this.grid.addEventListener('dblclick', (event) => event.target.closest('td')?.classList.toggle('open'));
    this.clear();
  }

  clear() {
    Object.assign(this, { run: null, order: null, sorted: null, page: 0, kinds: [], shown: 0, isOver: false });
    replace(this.head);
    replace(this.body);
    replace(this.pager);
    this.isFresh = true;
  }

  /// Shows a run's rows. While rows come this is called again and again and only does what is new.
  update(run) {
    if (run !== this.run) {
      this.clear();
      this.run = run;
    }
    const ends = run.isOver && !this.isOver;
    this.isOver = run.isOver;
    const isNew = this.shown < Math.min(run.rows.length, (this.page + 1) * this.size) || this.headed !== run.columns;
    if (ends && this.sorted) this.#sort();
    if (ends || isNew) this.#render();
    else this.#renderPager();
  }

  #sort() {
    const { column, descending } = this.sorted;
    this.order = sortedBy(this.run.rows, column, descending);
  }

  sortBy(column) {
    const same = this.sorted?.column === column;
    if (same && this.sorted.descending) this.sorted = null;
    else this.sorted = { column, descending: same };
    if (this.sorted) this.#sort();
    else this.order = null;
    this.page = 0;
    this.#render();
    this.head.querySelector(`[data-column="${column}"] button`)?.focus();
    const name = this.run.columns[column];
    announce(
      this.sorted
        ? `Sorted by ${name}, ${this.sorted.descending ? 'descending' : 'ascending'}`
        : 'In the order of the result',
    );
  }

  #row(at) {
    return this.run.rows[this.order ? this.order[at] : at];
  }

  #rowCount() {
    return this.order ? this.order.length : this.run.rows.length;
  }

  #render() {
    const { columns, rows } = this.run;
    this.headed = columns;
    this.kinds = columns.map((_, column) => columnKind(rows, column));
    const ranges = columns.map((name, column) => (this.kinds[column] === 'number' ? barRange(name, this.run.rows, column) : null));
    const first = this.page * this.size;
    const last = Math.min(this.#rowCount(), first + this.size);
    this.shown = last;
    replace(
      this.head,
      h(
        'tr',
        {},
        h('th', { class: 'row-number', scope: 'col' }, h('span', { class: 'sr-only' }, 'Row')),
        columns.map((name, column) => this.#header(name, column)),
      ),
    );
    const lines = [];
    for (let at = first; at < last; at += 1) {
      const row = this.#row(at);
      const cells = columns.map((_, column) => this.#cell(row[column], column, ranges[column]));
      lines.push(
        h(
          'tr',
          { 'aria-rowindex': String(at + 2) },
          h('th', { class: 'row-number', scope: 'row' }, count(at + 1)),
          cells,
        ),
      );
    }
    replace(this.body, lines);
    // A place that is not shown keeps its scroll position whatever is set, so the first rows set it.
    if (this.isFresh && lines.length > 0) {
      this.isFresh = false;
      this.scroller.scrollTop = 0;
    }
    this.grid.setAttribute('aria-rowcount', String(this.#rowCount() + 1));
    const start = this.body.querySelector('td');
    if (start) start.tabIndex = 0;
    this.#renderPager();
  }

  #header(name, column) {
    const state = this.sorted?.column === column ? (this.sorted.descending ? 'descending' : 'ascending') : 'none';
    const arrow = h(
      'span',
      { class: `sort-arrow ${state}`, 'aria-hidden': 'true' },
      state === 'descending' ? '↓' : '↑',
    );
    return h(
      'th',
      { class: `kind-${this.kinds[column]}`, scope: 'col', 'aria-sort': state, 'data-column': String(column) },
      h('button', { type: 'button', class: 'sort', onClick: () => this.sortBy(column), title: 'Sort' }, name, arrow),
    );
  }

  #cell(term, column, range) {
    const kind = this.kinds[column];
    const cell = h('td', { class: `kind-${kind}`, tabindex: '-1', role: 'gridcell' });
    const content = h('div', { class: 'cell' }, termElement(term, this.options));
    if (range && term && kindOf(term) === 'number') {
      const value = numberOf(term);
      const share = Math.min(1, Math.max(0, (value - range.least) / (range.greatest - range.least)));
      cell.classList.add('barred');
      if (Number.isFinite(share)) content.style.setProperty('--share', share.toFixed(4));
    }
    cell.append(content);
    return cell;
  }

  #renderPager() {
    const total = this.#rowCount();
    const pages = Math.max(1, Math.ceil(total / this.size));
    if (total === 0) return replace(this.pager);
    const key = `${this.page} ${total} ${this.size}`;
    if (this.pager.dataset.key === key) return;
    this.pager.dataset.key = key;
    const focused = this.pager.contains(document.activeElement)
      ? document.activeElement.getAttribute('aria-label')
      : null;
    const step = (name, label, to, disabled) =>
      h(
        'button',
        {
          type: 'button',
          class: 'button icon-only',
          'aria-label': label,
          title: label,
          disabled,
          onClick: () => this.goTo(to),
        },
        icon(name),
      );
    const sizes = h(
      'select',
      { 'aria-label': 'Rows on a page', onChange: (event) => this.#resize(Number(event.target.value)) },
      PAGE_SIZES.map((size) => h('option', { value: String(size), selected: size === this.size }, `${size} rows`)),
    );
    replace(
      this.pager,
      h(
        'span',
        { class: 'pager-range' },
        `${count(this.page * this.size + 1)}–${count(Math.min(total, (this.page + 1) * this.size))} of ${count(total)}`,
      ),
      step('first', 'First page', 0, this.page === 0),
      step('left', 'Previous page', this.page - 1, this.page === 0),
      h('span', { class: 'pager-page' }, `Page ${count(this.page + 1)} of ${count(pages)}`),
      step('right', 'Next page', this.page + 1, this.page >= pages - 1),
      step('last', 'Last page', pages - 1, this.page >= pages - 1),
      sizes,
    );
    if (focused) this.pager.querySelector(`[aria-label="${focused}"]:not(:disabled)`)?.focus();
  }

  goTo(page) {
    const pages = Math.max(1, Math.ceil(this.#rowCount() / this.size));
    this.page = Math.min(Math.max(0, page), pages - 1);
    this.#render();
    this.scroller.scrollTop = 0;
    announce(`Page ${this.page + 1} of ${pages}`);
  }

  #resize(size) {
    const first = this.page * this.size;
    this.size = size;
    this.goTo(Math.floor(first / size));
  }

  #enter(cell) {
    if (cell?.tagName !== 'TD') return;
    for (const other of this.body.querySelectorAll('td[tabindex="0"]')) other.tabIndex = -1;
    cell.tabIndex = 0;
  }

  #key(event) {
    const cell = event.target.closest('td');
    if (!cell || event.altKey) return;
    const row = cell.parentElement;
    const cells = [...row.querySelectorAll('td')];
    const here = cells.indexOf(cell);
    const beside = (line) => line?.querySelectorAll('td')[here];
    const to = {
      ArrowRight: cells[here + 1],
      ArrowLeft: cells[here - 1],
      ArrowDown: beside(row.nextElementSibling),
      ArrowUp: beside(row.previousElementSibling),
      Home: cells[0],
      End: cells.at(-1),
    }[event.key];
    if (to) {
      event.preventDefault();
      to.focus();
    } else if (event.key === 'PageDown' || event.key === 'PageUp') {
      event.preventDefault();
      this.goTo(this.page + (event.key === 'PageDown' ? 1 : -1));
      this.body.querySelector('td')?.focus();
    } else if (event.key === 'Enter' && event.target === cell) {
      event.preventDefault();
      const iri = cell.querySelector('.iri');
      if (iri) iri.click();
      else cell.classList.toggle('open');
    } else if (event.key === 'c' && (event.ctrlKey || event.metaKey) && !String(getSelection())) {
      const at = this.page * this.size + [...this.body.children].indexOf(row);
      copy(termText(this.#row(at)[here], this.options.short), 'Term copied');
    }
  }
}

/// The least and the greatest value of a column for bars behind its numbers, or null where bars would say nothing: all values are the
/// same, or they are years or numbers that only name something.
export function barRange(name, rows, column) {
  if (/(^|[_-])(id|key|no|nr|number|code)$|[a-z](Id|ID|Key)$/.test(name)) return null;
  let [least, greatest, areYears] = [Infinity, -Infinity, true];
  for (const row of rows) {
    const value = row[column] && kindOf(row[column]) === 'number' ? numberOf(row[column]) : NaN;
    if (!Number.isFinite(value)) continue;
    least = Math.min(least, value);
    greatest = Math.max(greatest, value);
    areYears &&= Number.isInteger(value) && value >= 1000 && value <= 2200;
  }
  return greatest > least && !areYears ? { least, greatest } : null;
}
