// A query in the words of other programs, and the query that counts another one's rows. Pure functions.

import { LANGUAGES } from './languages.js';
import { prologue } from './prologue.js';

/// `text` in quotes of a POSIX shell.
function shellQuoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/// A line for a shell that sends the query. `base` is the server's address; with `token`, it names where one's own goes.
export function asCurl({ text, language, base, token }) {
  const { path, type } = LANGUAGES[language];
  return [
    `curl ${shellQuoted(new URL(path, base).href)}`,
    token && "  -H 'Authorization: Bearer '\"$VICUS_TOKEN\"",
    `  -H 'Content-Type: ${type}'`,
    "  -H 'Accept: text/csv, application/n-triples;q=0.5'",
    `  --data-binary ${shellQuoted(text)}`,
  ]
    .filter(Boolean)
    .join(' \\\n');
}

/// A program in Python that sends the query and prints its answer, with nothing but the standard library.
export function asPython({ text, language, base, token }) {
  const { path, type } = LANGUAGES[language];
  const headers = [
    ['"Content-Type"', `"${type}"`],
    ['"Accept"', '"text/csv, application/n-triples;q=0.5"'],
    token && ['"Authorization"', '"Bearer " + os.environ["VICUS_TOKEN"]'],
  ].filter(Boolean);
  return `${[
    token && 'import os',
    'import urllib.request',
    '',
    // JSON's escapes are Python's as well.
    `text = ${JSON.stringify(text).replaceAll('\\n', '\\n"\n    "').replace(/^"/, '(\n    "').replace(/"$/, '"\n)')}`,
    'request = urllib.request.Request(',
    `    ${JSON.stringify(new URL(path, base).href)},`,
    '    data=text.encode(),',
    `    headers={${headers.map(([name, value]) => `${name}: ${value}`).join(', ')}},`,
    ')',
    'with urllib.request.urlopen(request) as answer:',
    '    print(answer.read().decode())',
  ]
    .filter((line) => line !== null && line !== undefined && line !== false)
    .join('\n')}\n`;
}

/// The query that counts the rows of a SELECT, or null where none can: a query with FROM can't stand within another.
export function countQuery(text, language) {
  if (language === 'network') return null;
  const bare = text.trim().replace(/;\s*$/, '');
  if (language === 'sql') return `SELECT COUNT(*) AS n FROM (\n${bare}\n) AS counted`;
  const { end } = prologue(text);
  const query = text.slice(end);
  const words = query.replace(/#[^\n]*|<[^<>\s]*>|"(?:[^"\\]|\\.)*"/g, ' ');
  if (!/^\s*select\b/i.test(words) || /\bfrom\b/i.test(words)) return null;
  return `${text.slice(0, end)}\nSELECT (COUNT(*) AS ?n) WHERE {\n{${query}\n}\n}`;
}
