// The lower half of the query view: the tabs with everything that a run gave.

import * as api from './api.js';
import { Chart, canChart } from './chart.js';
import { announce, byId, eachFrame, h, icon, replace, tablist, toast } from './dom.js';
import { downloadItems } from './downloads.js';
import { Explain } from './explain.js';
import { bytes, count, duration, plural } from './format.js';
import { GraphView } from './graph.js';
import { openMenu } from './menu.js';
import { renderRaw } from './raw.js';
import { ResultsTable } from './results-table.js';
import { countQuery } from './snippets.js';
import { Timeline } from './timeline.js';

export class Results {
  /// `options` has `short(iri)`, `onDescribe(iri)` and `onGoTo(place)`; `welcome()` gives what stands here before the first run.
  constructor(options) {
    this.options = options;
    this.run = null;
    this.view = 'table';
    this.message = byId('results-message');
    const own = (view) => byId(`panel-${view}`);
    this.table = new ResultsTable(own('table'), options);
    this.chart = new Chart(own('chart'), options);
    this.graph = new GraphView(own('graph'), options);
    this.explain = new Explain(own('explain'), options);
    this.timeline = new Timeline(own('timeline'));
    this.tabs = tablist(byId('result-tabs'), (view) => this.#show(view));
    this.downloads = byId('download');
    this.downloads.addEventListener('click', () =>
      openMenu(this.downloads, downloadItems(this.run), { label: 'Download' }),
    );
    this.refresh = eachFrame(() => this.#refresh());
    this.clock = 0;
    this.#refresh();
  }

  open(view) {
    if (!byId(`tab-${view}`) || byId(`tab-${view}`).disabled) return;
    this.tabs.select(view);
  }

  /// Shows a run of another tab, or null for none; one that still runs goes on being followed.
  show(run) {
    if (run === this.run) return;
    this.told = null;
    if (run) return this.follow(run);
    this.others?.abort();
    clearInterval(this.clock);
    this.run = null;
    this.explain.update(null);
    this.timeline.show(null, 'The time line comes when the query has ended.');
    this.open('table');
    this.table.clear();
    this.refresh();
    return undefined;
  }

  /// Follows a run from its beginning.
  follow(run) {
    this.others?.abort();
    this.run = run;
    this.traced = null;
    this.timeline.show(null, 'The time line comes when the query has ended.');
    this.explain.update(null);
    run.addEventListener('change', this.refresh);
    run.addEventListener('plan', () => {
      if (run !== this.run) return;
      this.explain.update(run.plan, cutAt(run));
      // The last plan may come after the last row, and brings the server's time.
      if (run.isOver) this.refresh();
    });
    run.addEventListener('end', () => {
      if (run !== this.run) return;
      if (run === this.run && run.plan) this.explain.update(run.plan, cutAt(run));
      clearInterval(this.clock);
      this.refresh();
    });
    clearInterval(this.clock);
    if (!run.isOver) this.clock = setInterval(this.refresh, 100);
    if (run.plan) this.explain.update(run.plan, cutAt(run));
    // A plan alone opens its own tab, and the next run goes back to the one before. Tabs that this run cannot fill give way to the
    // table.
    if (run.planOnly && this.view !== 'explain') {
      const before = this.view;
      this.open('explain');
      this.before = before;
    } else if (!run.planOnly && this.before) this.open(this.before);
    if (run.planOnly) this.wanted = null;
    else if (!['table', 'explain', 'raw', 'timeline'].includes(this.view)) this.wanted = this.view;
    this.refresh();
  }

  /// Follows the plan of another request, from the list of requests, until it ends or this page runs something.
  async showPlanOf(id) {
    this.open('explain');
    this.others?.abort();
    this.others = new AbortController();
    const { signal } = this.others;
    this.explain.update(await api.plan(id));
    const onEvent = (name, data) => name === 'plan' && this.explain.update(JSON.parse(data));
    await api.events(`api/requests/${id}/watch`, onEvent, signal).catch((error) => {
      if (!signal.aborted) throw error;
    });
  }

  /// Draws anew what stands here before the first run.
  welcomeAgain() {
    this.told = null;
    this.refresh();
  }

  /// Marks what is shown as the result of another text than the one in the editor.
  setStale(stale) {
    if (stale === this.stale) return;
    this.stale = stale;
    byId('results').classList.toggle('stale', stale);
    this.refresh();
  }

  #show(view) {
    this.view = view;
    this.before = null;
    // A tab that was chosen meanwhile is not taken away again.
    this.wanted = null;
    for (const panel of document.querySelectorAll('[data-panel]')) panel.hidden = panel.dataset.panel !== view;
    this.#refresh();
  }

  #refresh() {
    const { run } = this;
    const chart = Boolean(run?.isOver && !run.isGraph && canChart(run));
    const graph = Boolean(run?.isOver && hasTriples(run) && run.rows.length > 0);
    this.#able('chart', chart, 'A chart needs a result with a column of numbers or dates.');
    this.#able('graph', graph, 'A graph needs triples: CONSTRUCT, DESCRIBE, or SELECT ?s ?p ?o.');
    this.#able('raw', Boolean(run?.raw), 'Nothing has come yet.');
    this.downloads.disabled = !run?.isOver || run.form === 'update' || run.planOnly || run.state === 'failed';
    byId('results').classList.toggle('busy', Boolean(run && !run.isOver));
    byId('results').setAttribute('aria-busy', String(Boolean(run && !run.isOver)));
    this.#summary();
    if (byId(`tab-${this.view}`).disabled && run) {
      const wanted = run.isOver ? null : this.view;
      this.tabs.select('table');
      this.wanted = wanted;
      return;
    }
    if (run?.isOver && this.wanted) {
      const { wanted } = this;
      this.wanted = null;
      if (!byId(`tab-${wanted}`).disabled) return this.tabs.select(wanted);
    }
    this.#message();
    if (!run) return;
    if (this.view === 'table') this.table.update(run);
    if (this.view === 'raw') renderRaw(byId('panel-raw'), run);
    if (this.view === 'chart' && chart) this.chart.update(run);
    if (this.view === 'graph' && graph) this.graph.update(run);
    if (this.view === 'timeline') this.#trace();
  }

  #able(view, can, why) {
    byId(`tab-${view}`).disabled = !can;
    byId(`tab-${view}`).title = can ? '' : why;
  }

  #summary() {
    const { run } = this;
    const parts = [];
    if (run && !run.planOnly && run.state !== 'failed') {
      const elapsed = run.elapsedMs ?? performance.now() - run.startedAt;
      if (run.form !== 'update' && run.boolean === null && run.state !== 'checking')
        parts.push(plural(run.received, run.isGraph ? 'triple' : 'row'));
      const server = serverMs(run);
      // Two times: what the server needed, and what the way and the page added.
      if (server !== null) parts.push(`server ${duration(server)}`, `page ${duration(elapsed)}`);
      else parts.push(duration(elapsed));
      if (run.firstRowMs !== null) parts.push(`first row after ${duration(run.firstRowMs)}`);
      if (run.bytes) parts.push(bytes(run.bytes));
    }
    const [first, ...rest] = parts.map((text) => h('span', {}, text));
    // Marks stand beside the number of rows: where the place is too narrow, the times behind them are cut, and no mark.
    const spans = first ? [first] : [];
    if (run?.limited)
      spans.push(
        run.total !== undefined
          ? h('span', { class: 'badge' }, `first ${count(run.rows.length)} of ${run.total === null ? '…' : count(run.total)}`)
          : h(
              countable(run) ? 'button' : 'span',
              {
                type: countable(run) ? 'button' : null,
                class: countable(run) ? 'badge action' : 'badge',
                title: 'The page keeps this many rows. Downloads have all; the options change the limit. A click counts all.',
                onClick: countable(run) ? () => this.#countAll(run) : null,
              },
              `first ${count(run.rows.length)} only`,
            ),
      );
    if (run && this.stale)
      spans.push(
        h('span', { class: 'badge warn', title: 'The text in the editor is another one now. Run it for its result.' }, 'of an earlier text'),
      );
    if (run?.state === 'cancelled') spans.push(h('span', { class: 'badge warn' }, 'stopped'));
    spans.push(...rest);
    // A button stays the same element while nothing changes, so that a click that began on it ends on it.
    const key = [...parts, run?.limited, run?.total, run?.state, run?.id, this.stale].join('|');
    if (key === this.summed) return;
    this.summed = key;
    replace(byId('result-summary'), spans);
  }

  /// Asks how many rows there are without the page's limit.
  async #countAll(run) {
    run.total = null;
    this.refresh();
    try {
      const { language, timeout } = run;
      const response = await api.query(
        { text: countQuery(run.text, language), language, accept: 'text/csv', timeout },
        run.aborter.signal,
      );
      run.total = Number((await response.text()).trim().split('\n').at(-1));
      announce(`${plural(run.total, 'row')} in all`);
    } catch (error) {
      delete run.total;
      toast(`The rows could not be counted: ${error.message}`, { kind: 'bad' });
    }
    this.refresh();
  }

  /// What stands above or instead of the table: a failure, an answer without rows, or a hint.
  #message() {
    const { run, view } = this;
    const state = !run
      ? 'none'
      : [run.state, run.boolean, run.error?.message, run.received > 0, run.form, view].join('|');
    byId('panel-table').classList.toggle('bare', !run || run.received === 0);
    if (state === this.told) return;
    this.told = state;
    replace(
      this.message,
      !run
        ? view === 'table' && this.options.welcome()
        : run.error
          ? this.#failure(run.error)
          : view === 'table' && this.#answer(run),
    );
  }

  #failure(error) {
    const { place } = error;
    const where =
      place &&
      h(
        'button',
        { type: 'button', class: 'button small', onClick: () => this.options.onGoTo(place) },
        `Go to line ${place.line}, column ${place.column}`,
      );
    const notes = [
      error.retryAfter && `Try again in ${error.retryAfter} s.`,
      error.request && `Request ${error.request}`,
    ].filter(Boolean);
    return h(
      'div',
      { class: 'failure', role: 'alert' },
      icon('warning'),
      h(
        'div',
        {},
        // The editor shows an error under its place: once is enough.
        h('pre', {}, place ? 'The text has an error, marked in the editor.' : error.message),
        (where || notes.length > 0) &&
          h(
            'p',
            { class: 'failure-more' },
            where,
            notes.map((note) => h('span', { class: 'quiet' }, note)),
          ),
      ),
    );
  }

  #answer(run) {
    const line = (...content) => h('div', { class: 'answer' }, content);
    if (run.planOnly)
      return line(h('p', { class: 'quiet' }, 'This query was planned, not run. Its plan is under “Explain”.'));
    if (!run.isOver)
      return (
        run.received === 0 &&
        h('p', { class: 'empty waiting' }, run.form === 'update' ? 'Updating…' : 'Waiting for the first rows…')
      );
    if (run.state === 'cancelled')
      return run.received === 0 && line(h('p', { class: 'quiet' }, 'The query was stopped before its first row.'));
    if (run.boolean !== null)
      return line(
        h('p', { class: `verdict ${run.boolean ? 'yes' : 'no'}` }, run.boolean ? 'Yes' : 'No'),
        h('p', { class: 'quiet' }, run.boolean ? 'The pattern matches.' : 'The pattern does not match.'),
        remarks(run, !run.boolean),
      );
    if (run.form === 'update') {
      const { operations, rows } = run.updated ?? {};
      return line(
        h('p', { class: 'verdict yes' }, 'Done'),
        h(
          'p',
          { class: 'quiet' },
          [operations !== undefined && plural(operations, 'operation'), rows !== undefined && plural(rows, 'row')]
            .filter(Boolean)
            .join(', ') || 'The update is stored.',
        ),
      );
    }
    if (run.received > 0) return remarks(run, false);
    return line(
      h('p', { class: 'verdict' }, run.isGraph ? 'No triples' : 'No rows'),
      h('p', { class: 'quiet' }, 'The query ran to its end and found nothing.'),
      remarks(run, true),
    );
  }

  async #trace() {
    const { run } = this;
    if (this.traced === run) return undefined;
    if (run.planOnly || run.form === 'update')
      return this.timeline.show(null, 'There is no time line: the query did not run.');
    if (!run.wantsTrace)
      return this.timeline.show(null, 'The time line was not recorded. Switch it on in the options and run again.');
    if (!run.isOver) return this.timeline.show(null, 'The time line comes when the query has ended.');
    this.traced = run;
    this.timeline.show(null, 'Loading the time line…');
    try {
      const page = await api.view(run.id);
      if (run === this.run) await this.timeline.show(page);
    } catch (error) {
      if (run === this.run)
        this.timeline.show(null, error.status === 404 ? 'The server has no time line of this query.' : error.message);
    }
    return undefined;
  }
}

/// Likely slips in the text of a run: all of them for an empty answer, else those that say why values are missing.
function remarks(run, isEmpty) {
  const told = run.remarks.filter((remark) => isEmpty || remark.always);
  return (
    told.length > 0 &&
    h(
      'ul',
      { class: 'remarks' },
      told.map((remark) => h('li', {}, remark.text)),
    )
  );
}

/// Whether another query can count the rows of this one.
function countable(run) {
  return run.isOver && !run.isGraph && run.boolean === null && countQuery(run.text, run.language) !== null;
}

/// Whether rows are triples: those of CONSTRUCT and DESCRIBE, and of a SELECT with the three columns that a graph needs.
function hasTriples(run) {
  const isTriple = ([subject, predicate, object]) =>
    subject && subject.type !== 'literal' && predicate?.type === 'uri' && object;
  return run.isGraph || (run.columns.length === 3 && run.rows.slice(0, 100).every(isTriple));
}

/// How long the server was at it, if its last plan has come.
function serverMs({ plan, isOver }) {
  if (!isOver || !plan || plan.state === 'running' || plan.state === 'planned') return null;
  return Number.isFinite(plan.elapsedMs) ? plan.elapsedMs : null;
}

/// The number of rows at which the page's limit ended a run, or null.
function cutAt(run) {
  return run.limited ? run.received : null;
}
