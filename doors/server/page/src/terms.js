// RDF terms as SPARQL's JSON writes them: what they are, how they compare, and how they are written short. Pure functions.
//
// A term is `{type: "uri" | "bnode" | "literal", value, "xml:lang"?, datatype?}`; an unbound variable is `null` or `undefined`.

export const XSD = 'http://www.w3.org/2001/XMLSchema#';
export const RDF_TYPE = 'http://www.w3.org/1999/02/22-rdf-syntax-ns#type';

const NUMERIC = new Set(
  (
    'integer decimal double float long int short byte nonNegativeInteger positiveInteger nonPositiveInteger negativeInteger ' +
    'unsignedLong unsignedInt unsignedShort unsignedByte'
  ).split(' '),
);
const DATES = new Set(['dateTime', 'date', 'gYear', 'gYearMonth', 'dateTimeStamp']);

/// "none", "blank", "iri", "number", "date", "boolean", "text".
export function kindOf(term) {
  if (!term) return 'none';
  if (term.type === 'uri') return 'iri';
  if (term.type === 'bnode') return 'blank';
  if (!term.datatype?.startsWith(XSD)) return 'text';
  const local = term.datatype.slice(XSD.length);
  if (NUMERIC.has(local)) return Number.isNaN(numberOf(term)) ? 'text' : 'number';
  if (DATES.has(local)) return Number.isNaN(timeOf(term)) ? 'text' : 'date';
  return local === 'boolean' ? 'boolean' : 'text';
}

/// The value of a numeric literal, or NaN.
export function numberOf(term) {
  const text = term.value.trim();
  if (text === 'INF' || text === '+INF') return Infinity;
  if (text === '-INF') return -Infinity;
  return text === '' ? NaN : Number(text);
}

const DATE = /^(-?\d{4,})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d):(\d\d):(\d\d(?:\.\d+)?))?)?)?(Z|[+-]\d\d:\d\d)?$/;

/// Milliseconds since 1970 of a literal with a date, or NaN. A date without a zone counts as one in UTC.
export function timeOf(term) {
  const parts = DATE.exec(term.value.trim());
  if (!parts) return NaN;
  const [year, month, day, hour, minute, second] = parts
    .slice(1, 7)
    .map((part, at) => Number(part ?? (at === 1 || at === 2 ? 1 : 0)));
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, 0, Math.round(second * 1000));
  const zone = parts[7];
  const offset =
    zone && zone !== 'Z' ? (zone[0] === '-' ? -1 : 1) * (Number(zone.slice(1, 3)) * 60 + Number(zone.slice(4))) : 0;
  return date.getTime() - offset * 60_000;
}

/// A date for reading: the day, then quietly the time and its zone.
export function dateParts(term) {
  const [day, rest = ''] = term.value.trim().split('T');
  const time = rest
    .replace(/(\d\d:\d\d:\d\d)\.0+(?!\d)/, '$1')
    .replace(/(Z|[+-]\d\d:\d\d)$/, ' $1')
    .replace(' Z', ' UTC');
  return { day, time };
}

const RANK = { none: 0, blank: 1, iri: 2, number: 3, date: 4, boolean: 5, text: 6 };

/// What a term is sorted by. Taken once for each term, because sorting looks at each many times.
export function sortKey(term) {
  const kind = kindOf(term);
  const value = kind === 'number' ? numberOf(term) : kind === 'date' ? timeOf(term) : kind === 'none' ? '' : term.value;
  return { rank: RANK[kind], value, text: term ? term.value : '' };
}

/// Unbound, blank nodes, IRIs, numbers by value, dates by time, the rest by code units.
export function compareKeys(a, b) {
  if (a.rank !== b.rank) return a.rank - b.rank;
  if (a.value < b.value) return -1;
  if (a.value > b.value) return 1;
  return a.text < b.text ? -1 : a.text > b.text ? 1 : 0;
}

/// The order of `rows` by a column as row numbers. Equal rows keep their order; unbound ones stay at the end both ways.
export function sortedBy(rows, column, descending) {
  const keys = rows.map((row) => sortKey(row[column]));
  const order = rows.map((_, at) => at);
  order.sort((a, b) => {
    const unbound = (keys[a].rank === 0) - (keys[b].rank === 0);
    if (unbound) return unbound;
    return (descending ? -compareKeys(keys[a], keys[b]) : compareKeys(keys[a], keys[b])) || a - b;
  });
  return order;
}

const LOCAL = /^[\p{L}\p{N}_](?:[\p{L}\p{N}_.-]*[\p{L}\p{N}_-])?$/u;

/// A function that writes an IRI with a prefix, or returns null when none fits. `prefixes` is a list of `{name, iri}`; of two names for
/// one IRI the first is used.
export function shortener(prefixes) {
  const names = new Map();
  for (const { name, iri } of prefixes) if (!names.has(iri)) names.set(iri, name);
  const lengths = [...new Set([...names.keys()].map((iri) => iri.length))].sort((a, b) => b - a);
  return (iri) => {
    for (const length of lengths) {
      if (length > iri.length) continue;
      const name = names.get(iri.slice(0, length));
      const local = iri.slice(length);
      if (name !== undefined && (local === '' || LOCAL.test(local))) return `${name}:${local}`;
    }
    return null;
  };
}

/// Whether a browser may follow this IRI. Others, such as `javascript:`, never become links.
export function isWeb(iri) {
  return /^https?:\/\//i.test(iri);
}

/// A literal's text in quotes for Turtle and SPARQL.
export function quoted(text) {
  const escapes = { '"': '\\"', '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };
  return `"${text.replace(/["\\\n\r\t]/g, (char) => escapes[char])}"`;
}

/// A term as N-Triples, or as Turtle where `short` can write its IRIs.
export function termText(term, short = () => null) {
  if (!term) return '';
  const iri = (text) => short(text) ?? `<${text}>`;
  if (term.type === 'uri') return iri(term.value);
  if (term.type === 'bnode') return `_:${term.value}`;
  const text = quoted(term.value);
  if (term['xml:lang']) return `${text}@${term['xml:lang']}`;
  return term.datatype && term.datatype !== `${XSD}string` ? `${text}^^${iri(term.datatype)}` : text;
}

/// What most of a column's terms are: "number", "date" or "term", from at most so many rows.
export function columnKind(rows, column, looks = 2000) {
  let kind = null;
  const step = Math.max(1, Math.floor(rows.length / looks));
  for (let at = 0; at < rows.length; at += step) {
    const found = kindOf(rows[at][column]);
    if (found === 'none') continue;
    if (found !== 'number' && found !== 'date') return 'term';
    if (kind && kind !== found) return 'term';
    kind = found;
  }
  return kind ?? 'term';
}

/// The last part of an IRI, or its last two parts where the last one is a number.
export function lastPieces(iri) {
  const found = /([^/#]+[/#])?([^/#]+)[/#]?$/.exec(iri);
  if (!found) return iri;
  return /^\d+$/.test(found[2]) ? `${found[1] ?? ''}${found[2]}` : found[2];
}
