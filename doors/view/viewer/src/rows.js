// The rows of the time line: cores by node and core group, or boxes. Pure functions.

/// Rows of boxes, at most.
const MOST_KEYS = 60;

/// The seats of a run that have something to show, by node, core group and PU.
export function seatsOf(run) {
  const seats = run.header.seats.map((seat, number) => ({ ...seat, number }));
  return seats
    .filter(({ is_callers: isCallers, number }) => !isCallers && run.counts[number] > 0)
    .sort((a, b) => (a.process ?? 0) - (b.process ?? 0) || a.node - b.node || a.group - b.group || a.pu - b.pu || a.number - b.number);
}

/// The keys of a run that took time, the longest first.
export function keysOf(run) {
  return run.keys
    .map((_, key) => key)
    .filter((key) => run.busyNs[key] > 0)
    .sort((a, b) => run.busyNs[b] - run.busyNs[a])
    .slice(0, MOST_KEYS);
}

/// All rows with their places: `{ kind, top, height, label, … }`. Rows without time have the kind `head`.
export function rowsOf(runs, by, top) {
  const rows = [];
  const add = (row) => {
    rows.push({ ...row, top });
    top += row.height + 2;
  };
  runs.forEach((run, number) => {
    if (runs.length > 1)
      add({ kind: 'head', run: number, level: 0, height: 22, label: `${'AB'[number]}  ${run.name}` });
    if (by === 'boxes') {
      keysOf(run).forEach((key) => add({ kind: 'key', run: number, key, height: 20, label: run.keys[key].name }));
      return;
    }
    const seats = seatsOf(run);
    const height = seats.length > 32 ? 16 : seats.length > 12 ? 20 : 26;
    const groups = new Set(seats.map(({ process = 0, group }) => `${process}.${group}`));
    const nodes = new Set(seats.map(({ process = 0, node }) => `${process}.${node}`));
    const { processes = [] } = run.header;
    let before = {};
    for (const seat of seats) {
      const { process = 0 } = seat;
      if (processes.length > 0 && process !== before.process) {
        add({ kind: 'head', run: number, level: 0, height: 22, label: processes[process] });
        before = { process };
      }
      if (seat.node !== before.node && nodes.size > Math.max(1, processes.length))
        add({ kind: 'head', run: number, level: 1, height: 18, label: `node ${seat.node}` });
      if (seat.group !== before.group && groups.size > nodes.size)
        add({ kind: 'head', run: number, level: 2, height: 16, label: `core group ${seat.group}` });
      before = { ...seat, process };
      add({
        kind: 'seat',
        run: number,
        seat: seat.number,
        height,
        label: `seat ${seat.number}`,
        note: `PU ${seat.pu}`,
      });
    }
  });
  return { rows, end: top };
}

/// The level of a pyramid whose parts are about as wide as `least` pixels or less; `enough` is false where even the finest
/// one is coarser.
export function levelFor(levels, span, [from, to], width) {
  for (let level = 0; level < levels; level += 1) {
    if ((1024 * 4 ** level * (to - from)) / span >= width) return { level, enough: true };
  }
  return { level: levels - 1, enough: false };
}

/// The chunks of a seat that have a part of a range.
export function chunksIn(run, seat, [from, to]) {
  const found = [];
  run.chunks.forEach(([of, , , begin, end], number) => {
    if (of !== seat || begin > to) return;
    const isLast = run.chunks[number + 1]?.[0] !== seat;
    if (end >= from || isLast) found.push(number);
  });
  return found;
}

/// How many events of a seat lie in a range, about.
export function eventsIn(run, seat, [from, to]) {
  let sum = 0;
  for (const [of, , count, begin, end] of run.chunks) {
    if (of !== seat || begin > to || end < from) continue;
    const length = Math.max(1, end - begin);
    sum += count * Math.min(1, (Math.min(to, end) - Math.max(from, begin)) / length);
  }
  return sum;
}

/// The number of the first slice that ends after a time.
export function firstEndingAfter({ end }, time) {
  let [low, high] = [0, end.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (end[middle] > time) high = middle;
    else low = middle + 1;
  }
  return low;
}
