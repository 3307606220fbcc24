// What is shown, in the hash of the address: a link to a moment of a run.

const ROWS = ['cores', 'boxes'];
const COLOURS = ['type', 'request', 'rule', 'memory'];
const MARKS = ['key', 'type', 'seat', 'via', 'request', 'rule', 'place'];

/// A state as the text of a hash.
export function textOf({ window, span, rowsBy, by, isChain, mark, range, chosen }) {
  const parts = [];
  const pair = ([from, to]) => `${Math.round(from)}-${Math.round(to)}`;
  if (window[0] > 0 || window[1] < span) parts.push(`at=${pair(window)}`);
  if (rowsBy !== 'cores') parts.push(`rows=${rowsBy}`);
  if (by !== 'type') parts.push(`by=${by}`);
  if (isChain) parts.push('chain=1');
  if (mark) parts.push(`mark=${mark.kind}:${mark.id}:${mark.run}`);
  if (range) parts.push(`range=${pair(range)}`);
  if (chosen) parts.push(`slice=${chosen.run}:${chosen.seat}:${Math.round((chosen.begin + chosen.end) / 2)}`);
  return parts.join('&');
}

/// The state of a text. What it doesn't know is left out: a link may be of another version.
export function stateOf(text) {
  const given = new Map(
    text
      .split('&')
      .map((part) => part.split('='))
      .filter(({ length }) => length === 2),
  );
  const pair = (name) => {
    const found = /^(\d+)-(\d+)$/.exec(given.get(name) ?? '');
    return found && Number(found[2]) > Number(found[1]) ? [Number(found[1]), Number(found[2])] : undefined;
  };
  const one = (name, known) => (known.includes(given.get(name)) ? given.get(name) : undefined);
  const mark = /^([a-z]+):(\d+):(\d)$/.exec(given.get('mark') ?? '');
  const slice = /^(\d):(\d+):(\d+)$/.exec(given.get('slice') ?? '');
  return {
    window: pair('at'),
    range: pair('range'),
    rows: one('rows', ROWS),
    by: one('by', COLOURS),
    chain: given.get('chain') === '1',
    mark: mark && MARKS.includes(mark[1]) ? { kind: mark[1], id: Number(mark[2]), run: Number(mark[3]) } : undefined,
    slice: slice ? { run: Number(slice[1]), seat: Number(slice[2]), at: Number(slice[3]) } : undefined,
  };
}

let written = '';

export function readHash() {
  const text = decodeURIComponent(location.hash.slice(1));
  if (!text || text === written) return null;
  return stateOf(text);
}

export function writeHash(timeline) {
  const text = textOf(timeline);
  if (text === written) return;
  written = text;
  try {
    history.replaceState(null, '', text ? `#${text}` : '#');
  } catch {
    // A page inside another one may have no address of its own.
  }
}
