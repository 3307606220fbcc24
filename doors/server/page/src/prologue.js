// The prefixes of a SPARQL text: which are declared, which are used, and where a new one goes. Pure functions.

const TOKENS = new RegExp(
  [
    '#[^\\n]*', // A comment.
    '"""(?:[^"\\\\]|\\\\.|"(?!""))*(?:"""|$)|\'\'\'(?:[^\'\\\\]|\\\\.|\'(?!\'\'))*(?:\'\'\'|$)', // Long strings.
    '"(?:[^"\\\\\\n]|\\\\.)*"?|\'(?:[^\'\\\\\\n]|\\\\.)*\'?', // Strings.
    '<[^<>"{}|^`\\\\\\s]*>?', // An IRI, which may be unfinished.
    '[?$][\\p{L}\\p{N}_]+', // A variable.
    '_:[\\p{L}\\p{N}_.-]*', // A blank node.
    '@[A-Za-z][A-Za-z0-9-]*', // A language.
    '(?:[\\p{L}][\\p{L}\\p{N}_.-]*)?:(?:[\\p{L}\\p{N}_.:%\\\\-])*', // A name with a prefix.
    '[\\p{L}][\\p{L}\\p{N}_-]*', // A word.
  ].join('|'),
  'gsu',
);

function* tokens(text) {
  for (const found of text.matchAll(TOKENS))
    yield { text: found[0], from: found.index, to: found.index + found[0].length };
}

/// The prologue: `prefixes` as a Map from names to IRIs, and `end`, the place behind its last declaration (0 without any).
export function prologue(text) {
  const prefixes = new Map();
  let end = 0;
  let word = null;
  let name = null;
  for (const token of tokens(text)) {
    if (token.text.startsWith('#')) continue;
    if (name !== null && /^<.*>$/.test(token.text)) {
      if (word === 'PREFIX') prefixes.set(name, token.text.slice(1, -1));
      end = token.to;
      word = null;
      name = null;
    } else if (word === 'PREFIX' && token.text.endsWith(':')) {
      name = token.text.slice(0, -1);
    } else if (word === null && /^(PREFIX|BASE)$/i.test(token.text)) {
      word = token.text.toUpperCase();
      name = word === 'BASE' ? '' : null;
    } else {
      break;
    }
  }
  return { prefixes, end };
}

/// The names of the prefixes that the text uses behind its prologue.
export function usedPrefixes(text) {
  const { end } = prologue(text);
  const used = new Set();
  for (const token of tokens(text.slice(end))) {
    const isName = token.text.includes(':') && !/^[#"'<_@?$]/.test(token.text);
    if (isName) used.add(token.text.slice(0, token.text.indexOf(':')));
  }
  return used;
}

/// The change that declares a prefix: `{from, insert}`, or null when the text declares the name already.
export function declaration(text, name, iri) {
  const { prefixes, end } = prologue(text);
  if (prefixes.has(name)) return null;
  const line = `PREFIX ${name}: <${iri}>`;
  return end ? { from: end, insert: `\n${line}` } : { from: 0, insert: `${line}\n` };
}

/// The name of a prefix that ends at this place with its colon, such as `foaf:|`; null within strings, comments, IRIs and the prologue.
export function prefixBefore(text, at) {
  if (text[at - 1] !== ':') return null;
  const { end } = prologue(text.slice(0, at));
  for (const token of tokens(text.slice(0, at))) {
    if (token.to !== at || token.from < end) continue;
    const before = text.slice(0, token.from).match(/([\p{L}]+)\s*$/u);
    const declares = before && /^prefix$/i.test(before[1]);
    const isName = !/^[#"'<_@?$]/.test(token.text) && token.text.indexOf(':') === token.text.length - 1;
    return isName && !declares ? token.text.slice(0, -1) : null;
  }
  return null;
}

/// The changes that declare the prefixes that a text uses and does not declare, out of the list of known ones.
export function missingDeclarations(text, known) {
  const { prefixes, end } = prologue(text);
  const iris = new Map([...known].reverse().map(({ name, iri }) => [name, iri]));
  const missing = [...usedPrefixes(text)].filter((name) => !prefixes.has(name) && iris.has(name));
  const lines = missing.map((name) => `PREFIX ${name}: <${iris.get(name)}>`).join('\n');
  if (!lines) return null;
  return end ? { from: end, insert: `\n${lines}` } : { from: 0, insert: `${lines}\n` };
}
