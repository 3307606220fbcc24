// Indents a text by its braces and parentheses, and takes away what stands at the ends of lines. Pure: it moves no line breaks, so that
// a query's own layout stays.

const LITERALS =
  /#[^\n]*|--[^\n]*|<[^<>"{}|^`\\\s]*>|"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?/g;

/// The text with two spaces for each open brace or parenthesis. Lines within long strings stay as they are.
export function indented(text, language) {
  // A comment, an IRI or a string has no braces that count.
  const bare = text.replace(LITERALS, (found) => {
    if (found.startsWith('--') && language !== 'sql') return found;
    if (found.startsWith('#') && language === 'sql') return found;
    return found.replace(/[^\n]/g, '_');
  });
  const within = new Set();
  for (const found of text.matchAll(/"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)/g)) {
    const first = text.slice(0, found.index).split('\n').length;
    const breaks = found[0].split('\n').length - 1;
    for (let line = first; line < first + breaks; line += 1) within.add(line);
  }
  const bareLines = bare.split('\n');
  let depth = 0;
  const lines = text.split('\n').map((line, at) => {
    const shape = bareLines[at].trim();
    const closing = /^[})\]]*/.exec(shape)[0].length;
    const level = Math.max(0, depth - closing);
    for (const char of shape) {
      if ('{(['.includes(char)) depth += 1;
      if ('})]'.includes(char)) depth = Math.max(0, depth - 1);
    }
    if (within.has(at)) return line;
    const trimmed = line.trim();
    return trimmed ? '  '.repeat(level) + trimmed : '';
  });
  return `${lines
    .join('\n')
    .replace(/\n{3,}/g, '\n\n')
    .trimEnd()}\n`.replace(/^\n+/, '');
}
