// The tables and figures of the page, about a range of time: the same rows with other numbers, and back again.

import { h } from './dom.js';
import { ms, percent } from './format.js';

const kept = [];
const TABLES = ['boxes', 'seats', 'vias', 'takes', 'chain', 'requests'];
/// The parts of the charts over time.
const PARTS = 1024;

/// Keeps what is there for the whole run.
export function keepTables(runs) {
  const keep = (element, run, name) => {
    const caption = element?.caption?.textContent;
    if (element) kept.push({ element, run, name, caption, html: (element.tBodies?.[0] ?? element).innerHTML });
  };
  runs.forEach((_, run) => {
    for (const name of TABLES) keep(document.getElementById(`r${run}-${name}`), run, name);
    document.querySelectorAll(`#r${run}-operators table`).forEach((table) => keep(table, run, 'operators'));
    document.querySelectorAll(`#r${run}-why .figure`).forEach((figure, at) => keep(figure, run, `figure${at}`));
    document.querySelectorAll(`#r${run}-why .over`).forEach((chart) => keep(chart, run, chart.classList[1]));
  });
  keep(document.getElementById('differences-boxes'), 0, 'differences');
}

/// A number of cores or jobs, as the page's writer has it.
const count = (value) => (Math.abs(value - Math.round(value)) < 0.05 ? value.toFixed(0) : value.toFixed(1));
const ratio = (ns, of) => (of > 0 ? (ns / of).toFixed(2) : '–');

/// Writes the figures of a range, or with `null` those of the whole run.
export function fill(runs, summed) {
  for (const { element, html, caption } of kept) {
    (element.tBodies?.[0] ?? element).innerHTML = html;
    if (caption) element.caption.textContent = caption;
    element.classList.remove('of-range');
  }
  if (!summed) return;
  const { range, results } = summed;
  for (const { element, run, name, caption } of kept) {
    element.classList.add('of-range');
    if (caption) element.caption.textContent = `${caption}: in the range`;
    if (name.startsWith('figure')) {
      element.querySelector('b').textContent = figures(range, results[run])[Number(name.slice(6))];
    } else if (name === 'busy' || name === 'queued') chart(element, runs[run], name, range);
    else if (name === 'requests') requests(element, runs[run], range);
    else if (name === 'differences') differences(element, runs, results);
    else cells(element, CELLS[name](runs[run], range, results[run], element));
  }
}

/// Writes cells into each row, behind its name.
function cells(table, cellsOf) {
  for (const row of table.tBodies[0].rows) {
    const made = cellsOf(row);
    [...row.cells].slice(1).forEach((cell, at) => (cell.textContent = made?.[at] ?? '–'));
  }
}

/// Length, work, cores busy, longest chain, parallelism.
function figures([from, to], { seats, chain }) {
  const work = seats.reduce((sum, { busy }) => sum + busy, 0);
  return [`${ms(to - from)} ms`, `${ms(work)} ms`, ratio(work, to - from), `${ms(chain.ns)} ms`, ratio(work, chain.ns)];
}

const CELLS = {
  boxes: (_, __, { types }) => ({ dataset: { type } }) => {
    const sum = types[type];
    if (!sum) return null;
    const { boxes, invocations, spawned, queued, busy, blocked } = sum;
    const passed = [sum.envelopesIn, sum.rowsIn, sum.envelopesOut, sum.rowsOut, sum.made, sum.near, sum.far, ...sum.waits.map(ms)];
    return [boxes, invocations, spawned, ms(queued), ms(busy), ms(blocked), ...passed];
  },
  seats: (_, __, { seats }) => (row) => {
    const { rules, busy, overhead, idle, near, far, invocations, events, waits, asleep, away } = seats[row.dataset.seat];
    const [, , pu, node] = [...row.cells].map(({ textContent }) => textContent);
    const byRule = rules.map(([rule, count]) => `${rule}: ${count}`).join(', ');
    const idleFor = [...waits, asleep, away].map(ms);
    return [byRule, pu, node, invocations, ms(busy), ms(overhead), ms(idle), near, far, events, '–', ...idleFor];
  },
  vias: (_, range, { vias, most }) => ({ dataset: { via }, cells }) => {
    const { envelopes, rows, inside, refused, blocked, overdrawn, spilled } = vias[via];
    const bound = cells[5].textContent;
    // What lay in it when the range began is known from the chunks of the range alone.
    const full = range[0] > 0 ? `≥ ${most[via]}` : most[via];
    const mean = (inside / (range[1] - range[0])).toFixed(2);
    return [envelopes, rows, mean, full, bound, refused, ms(blocked), overdrawn, spilled];
  },
  takes: (_, __, { takes }) => (row) => {
    // A row is of one seat, or of all of a core group or node.
    const of = ({ dataset }) => (dataset.seat ?? dataset.seats).split(' ');
    const sum = (from) => of(row).reduce((sum, to) => sum + from.reduce((sum, seat) => sum + takes[to][seat], 0), 0);
    return [...row.parentElement.rows].map((other) => sum(of(other)));
  },
  operators: (run, _, { work }, { id }) => {
    const model = id.split('-')[2];
    const done = ({ boxes, outputs }) => {
      const sum = { invocations: 0, busy: 0, near: 0, far: 0, rows: 0 };
      for (const name of ['invocations', 'busy', 'near', 'far'])
        boxes.forEach((box) => (sum[name] += work.get(`${model}.${box}`)?.[name] ?? 0));
      outputs.forEach(({ box, output }) => (sum.rows += work.get(`${model}.${box}`)?.rows[output] ?? 0));
      return sum;
    };
    const all = run.header.operators[model].map(done);
    const busy = all.reduce((sum, { busy }) => sum + busy, 0);
    return ({ cells, sectionRowIndex }) => {
      const sum = all[sectionRowIndex];
      const [, detail, boxes, expected] = [...cells].map(({ textContent }) => textContent);
      const by = (sum.rows / Math.max(1, expected)).toFixed(2);
      const share = `${((sum.busy / Math.max(1, busy)) * 100).toFixed(1)} %`;
      return [detail, boxes, expected, sum.rows, by, sum.invocations, ms(sum.busy), share, sum.near, sum.far];
    };
  },
  chain: (_, __, { types, chain }) => ({ dataset: { type } }) => {
    const { ns, ofTypes, without } = chain;
    const left = without.find(([asked]) => asked === Number(type))?.[1] ?? ns;
    return [ms(types[type].busy), ms(ofTypes[type]), percent(ofTypes[type], ns), ms(left), percent(ns - left, ns)];
  },
};

/// A chart over time shows the range alone.
function chart(figure, run, name, [from, to]) {
  const at = (ns) => Math.max(0, Math.min(PARTS - 1, (ns / Math.max(1, run.spanNs)) * PARTS));
  const [first, last] = [Math.floor(at(from)), Math.ceil(at(to))];
  const valueOf = (part) =>
    name === 'queued'
      ? Math.max(0, run.queued[part] ?? 0)
      : run.keys.reduce((sum, _, key) => sum + (run.ofKeys?.[key * PARTS + part] ?? 0), 0) / 1024;
  let most = 0;
  for (let part = first; part <= last; part += 1) most = Math.max(most, valueOf(part));
  figure.querySelector('svg').setAttribute('viewBox', `${first} 0 ${Math.max(1, last - first)} 60`);
  const caption = figure.querySelector('figcaption');
  caption.textContent = caption.textContent.replace(/at most .*/, `at most ${count(most)} in the range`);
}

/// Requests that have no part in the range are not shown.
function requests(table, run, [from, to]) {
  const known = new Map(run.requests.map((request) => [String(request[0]), request]));
  for (const row of table.tBodies[0].rows) {
    const [, begin, end] = known.get(row.dataset.request) ?? [];
    row.hidden = begin === undefined || begin > to || (end ?? run.spanNs) < from;
  }
}

/// Two runs by type of box: all columns are made of the two sums.
function differences(table, runs, results) {
  const names = [...table.tHead.rows[0].cells].map(({ textContent }) => textContent);
  const working = (run) => runs[run].counts.filter((_, seat) => isWorking(run, seat)).length;
  const isOneA = working(0) === 1;
  cells(table, ({ cells: [{ textContent: type }] }) => {
    const of = (run) => results[run].types[runs[run].types.indexOf(type)];
    const [a, b] = [of(0), of(1)].map((sum) => sum ?? { busy: 0, blocked: 0, invocations: 0, rowsIn: 0, far: 0 });
    const less = b.busy - a.busy;
    const by = {
      'busy ms A': ms(a.busy),
      'busy ms B': ms(b.busy),
      'B less A': `${less < 0 ? '−' : '+'}${ms(Math.abs(less))}`,
      'B by A': ratio(b.busy, a.busy),
      'work inflation': isOneA ? ratio(b.busy, a.busy) : ratio(a.busy, b.busy),
      'invocations A': a.invocations,
      'invocations B': b.invocations,
      'rows in A': a.rowsIn,
      'rows in B': b.rowsIn,
      'far bytes A': a.far,
      'far bytes B': b.far,
      'blocked ms A': ms(a.blocked),
      'blocked ms B': ms(b.blocked),
    };
    return names.slice(1).map((name) => by[name]);
  });
}

/// Whether a seat has run user code, by the table of the whole run.
function isWorking(run, seat) {
  const { html } = kept.find((each) => each.run === run && each.name === 'seats');
  const body = h('tbody');
  body.innerHTML = html;
  const row = body.querySelector(`[data-seat="${seat}"]`);
  return Boolean(row) && row.cells[5].textContent !== '0.000';
}
