// What the explain view needs to know of a plan: the tree's rows and lines, shares of time, estimates that were far off. Pure functions.

/// How far an estimate may be off before it is marked.
export const FAR_OFF = 10;

/// The operators as rows from the root down: `{operator, depth, last, guides}`. `guides` says for each level above whether its line
/// goes on below this row. Operators whose parent is missing are roots.
export function treeRows(operators) {
  const known = new Set(operators.map((operator) => operator.id));
  const children = new Map();
  for (const operator of operators) {
    const parent = known.has(operator.parent) ? operator.parent : null;
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(operator);
  }
  const rows = [];
  const seen = new Set();
  const walk = (parent, depth, guides) => {
    const own = children.get(parent) ?? [];
    own.forEach((operator, at) => {
      if (seen.has(operator.id)) return;
      seen.add(operator.id);
      const last = at === own.length - 1;
      rows.push({ operator, depth, last, guides });
      walk(operator.id, depth + 1, depth ? [...guides, !last] : guides);
    });
  };
  walk(null, 0, []);
  return rows;
}

/// How many times the actual rows differ from the estimated ones when that is more than FAR_OFF times: `{factor, more}`, else null.
/// While an operator still runs, only too many rows count: the others may come yet.
export function misestimate(operator, isOver) {
  const { estimatedRows: estimated, actualRows: actual } = operator;
  if (estimated === null || estimated === undefined || actual === null || actual === undefined) return null;
  const more = actual > estimated;
  if (!more && !isOver) return null;
  const factor = Math.max(actual, estimated, 1) / Math.max(1, Math.min(actual, estimated));
  return factor > FAR_OFF ? { factor, more } : null;
}

/// Each operator's part of the time of all, 0 to 1.
export function timeShares(operators) {
  const sum = operators.reduce((sum, operator) => sum + (operator.timeMs ?? 0), 0);
  return new Map(operators.map((operator) => [operator.id, sum ? (operator.timeMs ?? 0) / sum : 0]));
}

const PARTS = { G: 'graph', S: 'subject', P: 'predicate', O: 'object' };

/// The index at the beginning of an operator's detail, `{name, means}`, or null: `Gpos` has the quads by graph, predicate, object, subject.
export function indexOf(detail) {
  const found = /^[GSPO][gspo]{3}(?=\s|$)/.exec(detail ?? '');
  const parts = found && [...found[0].toUpperCase()].map((letter) => PARTS[letter]);
  if (!parts || new Set(parts).size < 4) return null;
  return { name: found[0], means: `The index that has the quads ordered by ${parts.slice(0, 3).join(', ')} and ${parts[3]}` };
}
