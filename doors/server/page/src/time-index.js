// The spans of a time line, ready to be drawn and searched: 100,000 of them at each frame. Pure functions.

/// A trace's lanes, sorted by node, PU and seat, each with its spans sorted by their beginnings.
export function lanesOf(trace) {
  const lanes = trace.seats.map(({ seat, pu, node, spans }) => {
    const sorted = spans.every((span, at) => at === 0 || spans[at - 1][0] <= span[0])
      ? spans
      : [...spans].sort((a, b) => a[0] - b[0]);
    return { seat, pu, node, spans: sorted };
  });
  return lanes.sort((a, b) => a.node - b.node || a.pu - b.pu || a.seat - b.seat);
}

/// The number of the first span that ends after `time`. Spans of a lane do not overlap, so their ends are sorted too.
export function firstEndingAfter(spans, time) {
  let low = 0;
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle][1] > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

/// The span of a lane at a time, or −1. `slack` widens short spans so that a pointer can meet them.
export function spanAt(spans, time, slack = 0) {
  const at = firstEndingAfter(spans, time - slack);
  return at < spans.length && spans[at][0] <= time + slack ? at : -1;
}

/// What to draw of a lane for the window `[from, to)` on `width` pixels: calls `draw(x, width, box, wait)` for each span that is wider
/// than a pixel, and once for each pixel that holds smaller ones, with the box and the wait that have most of it.
export function visit(spans, from, to, width, draw) {
  const scale = width / (to - from);
  let pixel = -1;
  let longest = 0;
  let box = 0;
  let waits = 0;
  let known = 0;
  const flush = () => {
    if (pixel >= 0) draw(pixel, 1, box, known ? waits / known : null);
    pixel = -1;
  };
  for (let at = firstEndingAfter(spans, from); at < spans.length; at += 1) {
    const [begin, end, ofBox, wait] = spans[at];
    if (begin >= to) break;
    const left = Math.max(0, (begin - from) * scale);
    const right = Math.min(width, (end - from) * scale);
    if (right - left >= 1.5) {
      flush();
      draw(left, right - left, ofBox, wait);
      continue;
    }
    const column = Math.floor(left);
    if (column !== pixel) {
      flush();
      pixel = column;
      longest = 0;
      waits = 0;
      known = 0;
    }
    const length = end - begin;
    if (length >= longest) {
      longest = length;
      box = ofBox;
    }
    if (wait !== null) {
      waits += wait * length;
      known += length;
    }
  }
  flush();
}

/// How much of the lanes was busy in each of `columns` equal parts of the whole time, 0 to 1.
export function occupancy(lanes, spanNs, columns) {
  const busy = new Float64Array(columns);
  const width = spanNs / columns || 1;
  for (const { spans } of lanes) {
    for (const [begin, end] of spans) {
      const first = Math.min(columns - 1, Math.floor(begin / width));
      const last = Math.min(columns - 1, Math.floor(end / width));
      for (let column = first; column <= last; column += 1) {
        busy[column] += Math.max(0, Math.min(end, (column + 1) * width) - Math.max(begin, column * width));
      }
    }
  }
  return busy.map((value) => Math.min(1, value / width / Math.max(1, lanes.length)));
}

/// For each box that ran: its time, its number of spans, and its mean wait (null where none is known), the longest time first.
export function sumsByBox(lanes) {
  const sums = new Map();
  for (const { spans } of lanes) {
    for (const [begin, end, box, wait] of spans) {
      const sum = sums.get(box) ?? { box, ns: 0, spans: 0, waitNs: 0, knownNs: 0 };
      sum.ns += end - begin;
      sum.spans += 1;
      if (wait !== null) {
        sum.waitNs += wait * (end - begin);
        sum.knownNs += end - begin;
      }
      sums.set(box, sum);
    }
  }
  const all = [...sums.values()].sort((a, b) => b.ns - a.ns);
  return all.map((sum) => ({ ...sum, wait: sum.knownNs ? sum.waitNs / sum.knownNs : null }));
}
