// A plan: the operators as a tree with estimated and actual rows, time and bytes; and the boxes of the chosen one.

import { h, icon, replace } from './dom.js';
import { bytes, count, duration, plural } from './format.js';
import { indexOf, misestimate, timeShares, treeRows } from './plan.js';

const STATES = {
  planned: 'Planned, not run',
  running: 'Running',
  done: 'Done',
  failed: 'Failed',
  cancelled: 'Stopped',
};

export class Explain {
  /// `short` writes IRIs with prefixes.
  constructor(parent, { short }) {
    this.parent = parent;
    this.short = (text) => text.replace(/<([^<>\s]+)>/g, (whole, iri) => short(iri) ?? whole);
    this.summary = h('div', { class: 'plan-summary' });
    this.body = h('tbody');
    const heads = [
      ['Operator', ''],
      ['Rows', 'number rows', 'Rows that the operator has made'],
      ['Estimate', 'number', 'Rows that the planner expected'],
      ['Time', 'time', 'Time in its boxes, summed over all cores'],
      ['Near', 'number bytes', 'Bytes read from memory of the same node'],
      ['Far', 'number bytes', 'Bytes read from memory of other nodes'],
      ['Spilled', 'number bytes', 'Bytes written to disk for want of memory'],
    ];
    this.grid = h(
      'table',
      { class: 'plan', role: 'treegrid', 'aria-label': 'Operators of the plan' },
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          heads.map(([text, kind, title]) => h('th', { class: kind, scope: 'col', title }, text)),
        ),
      ),
      this.body,
    );
    this.side = h('aside', { class: 'side', 'aria-label': 'Boxes of the chosen operator', 'aria-live': 'off' });
    this.empty = h('p', { class: 'empty' }, 'Run a query, or choose “Explain” to see its plan without running it.');
    this.frame = h('div', { class: 'with-side' }, h('div', { class: 'plan-scroll' }, this.grid), this.side);
    parent.append(this.empty, this.summary, this.frame);
    this.body.addEventListener('click', (event) => this.#choose(event.target.closest('tr')));
    this.body.addEventListener('keydown', (event) => this.#key(event));
    this.chosen = null;
    this.update(null);
  }

  /// `cut` is the number of rows at which the page's limit ended the run, if it did.
  update(plan, cut = null) {
    this.cut = cut;
    if (plan?.id !== this.plan?.id || !plan) this.chosen = null;
    this.plan = plan;
    const isThere = Boolean(plan?.operators);
    this.empty.hidden = isThere;
    this.summary.hidden = !isThere;
    this.frame.hidden = !isThere;
    if (!isThere) return;
    this.#renderSummary();
    this.#renderRows();
    this.#renderSide();
  }

  #renderSummary() {
    const { plan } = this;
    const { totals } = plan;
    const ran = plan.state !== 'planned';
    const fact = (name, value, title) =>
      h('div', { class: 'fact-block', title }, h('dt', {}, name), h('dd', {}, value));
    const off = plan.operators.filter((operator) => misestimate(operator, hasAll(operator, plan))).length;
    const takes = Object.entries(totals?.takes ?? {})
      .map(([distance, number]) => `rule ${distance}: ${count(number)}`)
      .join(', ');
    replace(
      this.summary,
      h(
        'dl',
        { class: 'facts' },
        h(
          'div',
          { class: 'fact-block' },
          h('dt', {}, 'State'),
          h('dd', {}, h('span', { class: `state ${plan.state}` }, STATES[plan.state] ?? plan.state)),
        ),
        ran && fact('Rows', count(plan.rows)),
        ran && fact('Elapsed', duration(plan.elapsedMs)),
        fact('Parsing', duration(plan.parsingMs)),
        fact('Planning', duration(plan.planningMs)),
        ran && totals && fact('Tasks', count(totals.tasks)),
        ran && totals && fact('Far tasks', count(totals.far), 'Tasks that ran on another node than their data'),
        ran && totals && fact('Bytes near', bytes(totals.nearBytes), 'Bytes read from memory of the same node'),
        ran && totals && fact('Bytes far', bytes(totals.farBytes), 'Bytes read from memory of other nodes'),
        ran && takes && fact('Takes', takes, 'The rule of the strategy by which seats, the threads of cores, found their tasks: 1 is their own queue'),
        this.#isPart() &&
          h(
            'div',
            { class: 'fact-block warn' },
            h('dt', {}, 'Counts'),
            h(
              'dd',
              { title: 'Operators marked with ≥ were stopped before their last row, so their counts are of a part.' },
              icon('warning'),
              this.cut === null ? 'of a part' : `of a part: this page ended it at ${plural(this.cut, 'row')}`,
            ),
          ),
        off > 0 &&
          h(
            'div',
            { class: 'fact-block warn' },
            h('dt', {}, 'Estimates'),
            h('dd', {}, icon('warning'), `${off} more than 10× off`),
          ),
      ),
    );
  }

  #renderRows() {
    const { plan } = this;
    this.grid.classList.toggle('planned', plan.state === 'planned');
    const rows = treeRows(plan.operators);
    const shares = timeShares(plan.operators);
    const longest = Math.max(1e-9, ...shares.values());
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    const tabbable = this.chosen ?? rows[0]?.operator.id;
    const lines = rows.map((row) => this.#row(row, shares, longest, tabbable));
    replace(this.body, lines);
    if (focused !== null) this.body.querySelector(`tr[data-id="${focused}"]`)?.focus({ preventScroll: true });
  }

  /// What an operator does; the index that it reads is explained.
  #detail(detail) {
    const index = indexOf(detail);
    if (!index) return this.short(detail);
    return [h('abbr', { title: index.means }, index.name), this.short(detail.slice(index.name.length))];
  }

  /// Whether some operators were stopped before their end.
  #isPart() {
    return isOver(this.plan) && this.plan.operators.some((operator) => operator.isWhole === false);
  }

  #row({ operator, depth, last, guides }, shares, longest, tabbable) {
    const off = misestimate(operator, hasAll(operator, this.plan));
    const least = isOver(this.plan) && operator.isWhole === false;
    const share = shares.get(operator.id);
    const lines = guides.map((goesOn) => h('span', { class: goesOn ? 'guide on' : 'guide' }));
    if (depth) lines.push(h('span', { class: last ? 'guide elbow last' : 'guide elbow' }));
    const isChosen = operator.id === this.chosen;
    const mark =
      off &&
      h(
        'span',
        {
          class: 'badge warn',
          title: `${count(operator.actualRows)} rows instead of ${count(operator.estimatedRows)}`,
        },
        `${off.more ? '↑' : '↓'} ${count(off.factor)}×`,
      );
    return h(
      'tr',
      {
        'data-id': String(operator.id),
        'aria-level': String(depth + 1),
        'aria-selected': String(isChosen),
        tabindex: operator.id === tabbable ? '0' : '-1',
        class: off ? 'off' : null,
      },
      h(
        'td',
        { class: 'operator' },
        h(
          'div',
          { class: 'operator-line' },
          lines,
          h(
            'div',
            { class: 'operator-text' },
            h(
              'span',
              { class: 'operator-name' },
              operator.name,
              operator.degree > 1 &&
                h('span', { class: 'tag', title: `${operator.degree} instances of its boxes work side by side` }, `×${operator.degree}`),
            ),
            h('span', { class: 'operator-detail', title: operator.detail }, this.#detail(operator.detail)),
          ),
        ),
      ),
      h(
        'td',
        { class: 'number rows', title: least ? 'It was stopped before its last row' : null },
        least && '≥ ',
        count(operator.actualRows),
        mark,
      ),
      h('td', { class: 'number quiet' }, count(operator.estimatedRows)),
      h(
        'td',
        { class: 'time' },
        h(
          'div',
          { class: 'time-cell' },
          h('span', { class: 'time-bar', style: { '--share': (share / longest).toFixed(4) } }),
          h(
            'span',
            { class: 'time-text' },
            duration(operator.timeMs),
            operator.timeMs !== null && h('span', { class: 'quiet percent' }, `${Math.round(share * 100)} %`),
          ),
        ),
      ),
      h('td', { class: 'number bytes' }, quietZero(operator.nearBytes)),
      h('td', { class: 'number bytes far' }, quietZero(operator.farBytes)),
      h('td', { class: 'number bytes' }, quietZero(operator.spilledBytes)),
    );
  }

  #choose(row) {
    if (!row) return;
    const id = this.plan.operators.find((operator) => String(operator.id) === row.dataset.id)?.id ?? null;
    this.chosen = this.chosen === id ? null : id;
    this.#renderRows();
    this.#renderSide();
    this.body.querySelector(`tr[data-id="${row.dataset.id}"]`)?.focus({ preventScroll: true });
  }

  #key(event) {
    const row = event.target.closest('tr');
    const rows = [...this.body.children];
    const here = rows.indexOf(row);
    const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      const next = rows[Math.min(rows.length - 1, Math.max(0, to))];
      row.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    } else if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      this.#choose(row);
    }
  }

  #renderSide() {
    const operator = this.plan.operators.find(({ id }) => id === this.chosen);
    this.side.hidden = !operator;
    if (!operator) return;
    const boxes = (operator.boxes ?? [])
      .map((index) => this.plan.boxes?.find((box) => box.index === index))
      .filter(Boolean);
    const fact = (name, value) => [h('dt', {}, name), h('dd', {}, value)];
    replace(
      this.side,
      h('h3', {}, operator.name),
      h('p', { class: 'mono small', title: operator.detail }, this.#detail(operator.detail)),
      operator.order?.length > 0 && h('p', { class: 'quiet small' }, `Sorted by ${operator.order.join(', ')}`),
      boxes.length === 0 && h('p', { class: 'quiet' }, 'No boxes of its own: it runs within its parent.'),
      boxes.map((box) =>
        h(
          'section',
          { class: 'box-card' },
          h('h4', {}, h('span', { class: 'box-number' }, `Box ${box.index}`), box.name),
          h(
            'dl',
            { class: 'pairs' },
            fact('Invocations', count(box.invocations)),
            fact('Rows in', count(box.rowsIn)),
            fact('Rows out', count(box.rowsOut)),
            fact('Time', duration(box.timeMs)),
            fact('Near', bytes(box.nearBytes)),
            fact('Far', bytes(box.farBytes)),
            fact('Spilled', bytes(box.spilledBytes)),
          ),
          (box.reads ?? []).map((read) =>
            h(
              'p',
              { class: 'small quiet' },
              `reads box ${read.box}${read.output ? `, output ${read.output}` : ''}: ${plural(read.envelopes, 'envelope')}, ${bytes(read.bytes)}`,
            ),
          ),
        ),
      ),
    );
  }
}

/// Whether an operator has made all of its rows.
function hasAll(operator, plan) {
  return isOver(plan) && operator.isWhole !== false;
}

function isOver(plan) {
  return plan.state !== 'running' && plan.state !== 'planned';
}

function quietZero(value) {
  return value ? bytes(value) : h('span', { class: 'faint' }, value === 0 ? '0' : '–');
}
