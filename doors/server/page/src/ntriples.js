// Reads N-Triples and N-Quads line by line into terms as SPARQL's JSON has them. Pure.

const TERM =
  /\s*(?:<([^>]*)>|_:([^\s<>"]*[^\s<>".])|"((?:[^"\\]|\\.)*)"(?:@([A-Za-z]+(?:-[A-Za-z0-9]+)*(?:--(?:ltr|rtl))?)|\^\^<([^>]*)>)?)/y;

/// The terms of a line, three or four; null for an empty line or a comment. Throws for anything else.
export function parseLine(line) {
  const text = line.trim();
  if (text === '' || text.startsWith('#')) return null;
  const terms = [];
  TERM.lastIndex = 0;
  let end = 0;
  for (let parts = TERM.exec(text); parts; parts = TERM.exec(text)) {
    end = TERM.lastIndex;
    const [, iri, blank, literal, language, datatype] = parts;
    if (iri !== undefined) terms.push({ type: 'uri', value: unescaped(iri) });
    else if (blank !== undefined) terms.push({ type: 'bnode', value: blank });
    else {
      const term = { type: 'literal', value: unescaped(literal) };
      if (language) term['xml:lang'] = language;
      if (datatype) term.datatype = unescaped(datatype);
      terms.push(term);
    }
  }
  const complete = /^\s*\.\s*(#.*)?$/.test(text.slice(end));
  if (!complete || terms.length < 3 || terms.length > 4) throw new Error(`A line is no triple: ${text.slice(0, 120)}`);
  return terms;
}

function unescaped(text) {
  if (!text.includes('\\')) return text;
  const named = { t: '\t', b: '\b', n: '\n', r: '\r', f: '\f' };
  return text.replace(/\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))/gs, (_, four, eight, char) =>
    char === undefined ? String.fromCodePoint(parseInt(four ?? eight, 16)) : (named[char] ?? char),
  );
}

export class TriplesParser {
  constructor({ onRow }) {
    this.onRow = onRow;
    this.rest = '';
  }

  write(text) {
    const lines = (this.rest + text).split('\n');
    this.rest = lines.pop();
    for (const line of lines) this.#line(line);
  }

  end() {
    this.#line(this.rest);
    this.rest = '';
    return {};
  }

  #line(line) {
    const terms = parseLine(line);
    if (terms) this.onRow(terms);
  }
}
