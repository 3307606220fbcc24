// The tables of the page, about a range of time: the same rows with other numbers, and back again.

import { ms, percent } from './format.js';

const kept = new Map();

/// Keeps the tables as they are, for the whole run.
export function keepTables(runs) {
  runs.forEach((_, number) => {
    for (const name of ['boxes', 'seats', 'vias', 'takes', 'chain']) {
      const table = document.getElementById(`r${number}-${name}`);
      if (table) kept.set(table, { rows: table.tBodies[0].innerHTML, caption: table.caption.textContent });
    }
  });
}

/// Writes the figures of a range into the tables, or with `null` those of the whole run.
export function fill(runs, summed) {
  for (const [table, { rows, caption }] of kept) {
    table.tBodies[0].innerHTML = rows;
    table.caption.textContent = caption;
    table.classList.remove('of-range');
  }
  if (!summed) return;
  runs.forEach((run, number) => {
    const { types, seats, vias, takes } = summed.results[number];
    const fillRows = (name, cellsOf) => {
      const table = document.getElementById(`r${number}-${name}`);
      if (!table) return;
      table.classList.add('of-range');
      table.caption.textContent = `${kept.get(table).caption}: in the range`;
      for (const row of table.tBodies[0].rows) {
        const cells = cellsOf(row);
        [...row.cells].slice(1).forEach((cell, at) => (cell.textContent = cells?.[at] ?? '–'));
      }
    };
    fillRows('boxes', ({ dataset: { type } }) => {
      const sum = types[type];
      if (!sum) return null;
      const { boxes, invocations, spawned, queued, busy, blocked } = sum;
      const passed = [sum.envelopesIn, sum.rowsIn, sum.envelopesOut, sum.rowsOut, sum.made, sum.near, sum.far];
      return [boxes, invocations, spawned, ms(queued), ms(busy), ms(blocked), ...passed];
    });
    fillRows('seats', (row) => {
      const { rules, busy, overhead, idle, near, far, invocations, events } = seats[row.dataset.seat];
      const [, , pu, node] = [...row.cells].map(({ textContent }) => textContent);
      const byRule = rules.map(([rule, count]) => `${rule}: ${count}`).join(', ');
      return [byRule, pu, node, invocations, ms(busy), ms(overhead), ms(idle), near, far, events, '–'];
    });
    const length = summed.range[1] - summed.range[0];
    fillRows('vias', (row) => {
      const { envelopes, rows, inside, refused, blocked, overdrawn } = vias[row.dataset.via];
      const bound = row.cells[5].textContent;
      return [envelopes, rows, (inside / length).toFixed(2), '–', bound, refused, ms(blocked), overdrawn];
    });
    const shown = [...(document.getElementById(`r${number}-takes`)?.tBodies[0].rows ?? [])].map(
      ({ dataset }) => dataset.seat,
    );
    fillRows('takes', ({ dataset: { seat } }) => shown.map((from) => takes[seat][from]));
    fillRows('chain', ({ dataset: { type } }) => {
      const [from, to] = summed.range;
      let [on, all] = [0, 0];
      for (const [begin, ns, , key] of run.chain.steps) {
        const part = Math.max(0, Math.min(to, begin + ns) - Math.max(from, begin));
        all += part;
        if (run.typeOf[key] === Number(type)) on += part;
      }
      return [ms(types[type].busy), ms(on), percent(on, all)];
    });
  });
}
