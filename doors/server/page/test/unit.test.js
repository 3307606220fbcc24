// The modules without a browser: parsers, the order of terms, prefixes, scales, layout, plans, links.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { EventLines } from '../src/event-lines.js';
import { examples } from '../src/examples.js';
import { bytes, count, duration } from '../src/format.js';
import { apart, bounds, layout } from '../src/graph-layout.js';
import { indented } from '../src/indent.js';
import { ResultsParser } from '../src/json-stream.js';
import { TriplesParser, parseLine } from '../src/ntriples.js';
import { indexOf, misestimate, timeShares, treeRows } from '../src/plan.js';
import { declaration, missingDeclarations, prefixBefore, prologue, usedPrefixes } from '../src/prologue.js';
import { barRange } from '../src/results-table.js';
import { guessForm } from '../src/run.js';
import { dateTicks, linear, niceAxis, ticks } from '../src/scales.js';
import { decodeShare, encodeShare } from '../src/share.js';
import { asCurl, asPython, countQuery } from '../src/snippets.js';
import { XSD, columnKind, isWeb, kindOf, lastPieces, shortener, sortedBy, termText, timeOf } from '../src/terms.js';
import { nameLabel } from '../src/term-view.js';
import { typeOf } from '../src/upload.js';

const literal = (value, type) => ({ type: 'literal', value, ...(type && { datatype: XSD + type }) });
const uri = (value) => ({ type: 'uri', value });

/// Reads a text in pieces of `size`.
function parsed(text, size) {
  const rows = [];
  let head = null;
  const parser = new ResultsParser({ onRow: (row) => rows.push(row), onHead: (vars) => (head ??= vars) });
  for (let at = 0; at < text.length; at += size) parser.write(text.slice(at, at + size));
  const rest = parser.end();
  return { rows, head, rest };
}

const TRICKY = {
  head: { vars: ['a', 'b'], link: ['x[{'] },
  results: {
    note: '"bindings":[',
    bindings: [{ a: literal('}"\\]{ \\" é \u{1f600}') }, {}, { a: uri('http://a/[1]'), b: literal('x') }],
  },
};

test('rows come out of JSON however it is cut', () => {
  for (const text of [JSON.stringify(TRICKY), JSON.stringify(TRICKY, null, 2)]) {
    for (const size of [1, 2, 3, 7, 64, 10_000]) {
      const { rows, head, rest } = parsed(text, size);
      assert.deepEqual(rows, TRICKY.results.bindings);
      assert.deepEqual(head, ['a', 'b']);
      assert.deepEqual(rest.results, { note: '"bindings":[', bindings: [] });
    }
  }
});

test('a boolean, members in another order, and the names "results" and "bindings" elsewhere', () => {
  assert.equal(parsed('{"head":{},"boolean":false}', 4).rest.boolean, false);
  const late = parsed('{"results":{"bindings":[{"a":{"type":"uri","value":"b"}}]},"head":{"vars":["a"]}}', 5);
  assert.deepEqual([late.head, late.rows.length], [['a'], 1]);
  assert.equal(parsed('{"head":{"vars":[],"results":{"bindings":[1]}},"results":{"bindings":[]}}', 3).rows.length, 0);
});

test('an answer that ends too early, or is no JSON, is an error', () => {
  const text = JSON.stringify(TRICKY);
  for (const end of [0, 1, 20, text.length - 40, text.length - 1]) assert.throws(() => parsed(text.slice(0, end), 16));
  assert.throws(() => parsed('<html>', 10));
});

test('triples come out of N-Triples', () => {
  const text =
    '# a comment\n<http://a> <http://p> "x\\n\\u00e9\\"" .\n\n_:b1 <http://p> "1"^^<http://t> .\n<http://a> <http://p> "y"@en-GB <http://g> .\n_:x.y <http://p> <http://o>.';
  for (const size of [1, 5, 1000]) {
    const rows = [];
    const parser = new TriplesParser({ onRow: (row) => rows.push(row) });
    for (let at = 0; at < text.length; at += size) parser.write(text.slice(at, at + size));
    parser.end();
    assert.deepEqual(rows, [
      [uri('http://a'), uri('http://p'), { type: 'literal', value: 'x\né"' }],
      [{ type: 'bnode', value: 'b1' }, uri('http://p'), { type: 'literal', value: '1', datatype: 'http://t' }],
      [uri('http://a'), uri('http://p'), { type: 'literal', value: 'y', 'xml:lang': 'en-GB' }, uri('http://g')],
      [{ type: 'bnode', value: 'x.y' }, uri('http://p'), uri('http://o')],
    ]);
  }
  for (const line of ['<a> <b> .', '<a> <b> <c>', '<a> <b> "c .', 'hello']) assert.throws(() => parseLine(line), line);
});

test('events come out of a stream however it is cut', () => {
  for (const size of [1, 3, 100]) {
    const events = [];
    const lines = new EventLines((name, data) => events.push([name, data]));
    const text = ': hello\nevent: plan\ndata: {"a":1}\n\ndata: x\r\ndata: y\r\n\r\nevent: no data\n\n';
    for (let at = 0; at < text.length; at += size) lines.write(text.slice(at, at + size));
    assert.deepEqual(events, [
      ['plan', '{"a":1}'],
      ['message', 'x\ny'],
    ]);
  }
});

test('numbers sort as numbers, dates as dates, unbound last', () => {
  const values = [
    literal('10', 'integer'),
    null,
    literal('9.5', 'decimal'),
    literal('1e1', 'double'),
    literal('-INF', 'double'),
    literal('b'),
    uri('http://a'),
    literal('10', 'integer'),
  ];
  const rows = values.map((value) => [value]);
  const sorted = (descending) => sortedBy(rows, 0, descending).map((row) => values[row]?.value ?? null);
  assert.deepEqual(sorted(false), ['http://a', '-INF', '9.5', '10', '10', '1e1', 'b', null]);
  assert.deepEqual(sorted(true), ['b', '1e1', '10', '10', '9.5', '-INF', 'http://a', null]);
  const dates = [
    literal('2024-01-01T00:00:00+01:00', 'dateTime'),
    literal('2023-12-31T22:59:59Z', 'dateTime'),
    literal('1999', 'gYear'),
  ].map((value) => [value]);
  assert.deepEqual(sortedBy(dates, 0, false), [2, 1, 0]);
});

test('kinds of terms and columns', () => {
  assert.equal(kindOf(literal('x', 'integer')), 'text');
  assert.equal(kindOf(literal('2024-02', 'gYearMonth')), 'date');
  assert.equal(timeOf(literal('2024-01-01T12:00:00.500-02:00', 'dateTime')), Date.UTC(2024, 0, 1, 14, 0, 0, 500));
  assert.equal(timeOf(literal('0099-05-01', 'date')), new Date('0099-05-01T00:00:00Z').getTime());
  assert.equal(columnKind([[literal('1', 'integer')], [null], [literal('2.5', 'decimal')]], 0), 'number');
  assert.equal(columnKind([[literal('1', 'integer')], [literal('x')]], 0), 'term');
  assert.equal(columnKind([[null]], 0), 'term');
});

test('IRIs are written with the longest prefix whose rest is a name', () => {
  const short = shortener([
    { name: 'a', iri: 'http://x/' },
    { name: 'b', iri: 'http://x/y/' },
    { name: 'second', iri: 'http://x/' },
  ]);
  assert.equal(short('http://x/y/z'), 'b:z');
  assert.equal(short('http://x/z'), 'a:z');
  assert.equal(short('http://x/z/w'), null);
  assert.equal(short('http://x/'), 'a:');
  assert.equal(short('http://x/z.'), null);
  assert.equal(termText(literal('a"\n', 'integer'), shortener([{ name: 'xsd', iri: XSD }])), '"a\\"\\n"^^xsd:integer');
});

test('only http and https become links', () => {
  assert(isWeb('https://a/') && isWeb('HTTP://a/'));
  for (const iri of ['javascript:alert(1)', 'data:text/html,x', ' http://a', 'urn:a', 'file:///etc'])
    assert(!isWeb(iri), iri);
});

const KNOWN = [
  { name: 'foaf', iri: 'http://foaf/' },
  { name: 'dc', iri: 'http://dc/' },
];

test('a prologue is read past comments, and declarations go behind it', () => {
  const text =
    '# PREFIX no: <http://no/>\nBASE <http://b/>\nprefix foaf: <http://f/>\nSELECT * { ?s foaf:name "dc:title" . # dc:date\n <dc:x> dc:creator _:b }';
  const found = prologue(text);
  assert.deepEqual([...found.prefixes], [['foaf', 'http://f/']]);
  assert.equal(text.slice(0, found.end).split('\n').length, 3);
  assert.deepEqual([...usedPrefixes(text)], ['foaf', 'dc']);
  assert.deepEqual(missingDeclarations(text, KNOWN), { from: found.end, insert: '\nPREFIX dc: <http://dc/>' });
  assert.equal(declaration(text, 'foaf', 'http://foaf/'), null);
  assert.deepEqual(declaration('ASK {}', 'dc', 'http://dc/'), { from: 0, insert: 'PREFIX dc: <http://dc/>\n' });
});

test('a colon makes a prefix only where a name may stand', () => {
  const at = (text) => prefixBefore(text, text.length);
  assert.equal(at('SELECT * { ?s foaf:'), 'foaf');
  assert.equal(at('SELECT * { ?s :'), '');
  for (const text of [
    'PREFIX foaf:',
    'SELECT * { ?s "foaf:',
    '# foaf:',
    'SELECT * { <http:',
    'SELECT * { _:',
    'SELECT * { foaf:a:',
  ])
    assert.equal(at(text), null, text);
});

test('scales map, ticks are round', () => {
  assert.equal(linear([0, 10], [100, 200])(5), 150);
  assert.equal(linear([3, 3], [0, 10])(3), 5);
  assert.deepEqual(ticks(0, 100, 5), [0, 20, 40, 60, 80, 100]);
  assert.deepEqual(ticks(0.1, 0.35, 5), [0.1, 0.15, 0.2, 0.25, 0.3, 0.35]);
  assert.deepEqual(niceAxis(3, 97, 5), { domain: [0, 100], ticks: [0, 20, 40, 60, 80, 100] });
  assert.deepEqual(niceAxis(-4.99, 94.99, 5), { domain: [-20, 100], ticks: [-20, 0, 20, 40, 60, 80, 100] });
  assert.deepEqual(niceAxis(5, 5).domain, [0, 5]);
  assert.deepEqual(niceAxis(0, 0).domain, [0, 1]);
  const year = (year) => Date.UTC(year, 0, 1);
  assert.deepEqual(
    dateTicks(year(1940), year(1990), 5).map(({ label }) => label),
    ['1940', '1950', '1960', '1970', '1980', '1990'],
  );
  assert.deepEqual(
    dateTicks(year(2024), Date.UTC(2024, 5, 1), 6).map(({ label }) => label),
    ['2024-01', '2024-02', '2024-03', '2024-04', '2024-05', '2024-06'],
  );
});

test('the layout is the same each time, keeps nodes apart and neighbours near', () => {
  const edges = [
    [0, 1],
    [1, 2],
    [2, 0],
    [3, 4],
  ];
  const places = layout(6, edges);
  assert.deepEqual(places, layout(6, edges));
  const distance = (a, b) => Math.hypot(places[a].x - places[b].x, places[a].y - places[b].y);
  for (let a = 0; a < 6; a += 1) for (let b = 0; b < a; b += 1) assert(distance(a, b) > 20, `${a} and ${b}`);
  assert(distance(0, 1) < distance(0, 3));
  assert.deepEqual(layout(0, []), []);
});

test('parts of a graph without connection are packed, none within another', () => {
  // Twenty pairs: one that pushed the others away would stretch the picture.
  const edges = Array.from({ length: 20 }, (_, at) => [2 * at, 2 * at + 1]);
  const places = layout(40, edges, { ideal: 90 });
  const xs = places.map(({ x }) => x);
  const ys = places.map(({ y }) => y);
  const area = (Math.max(...xs) - Math.min(...xs)) * (Math.max(...ys) - Math.min(...ys));
  assert(area < 20 * 180 * 180 * 1.5, `an area of ${area}`);
  for (let a = 0; a < 40; a += 1)
    for (let b = 0; b < a; b += 1) assert(Math.hypot(xs[a] - xs[b], ys[a] - ys[b]) > 20, `${a} and ${b}`);
});

test('labels of a graph do not lie on each other', () => {
  // Twenty chains of three, as of articles, their authors, and the names of these; and thirty nodes around one.
  const chains = Array.from({ length: 20 }, (_, at) => [
    [3 * at, 3 * at + 1],
    [3 * at + 1, 3 * at + 2],
  ]).flat();
  const star = Array.from({ length: 30 }, (_, at) => [0, at + 1]);
  for (const [count, edges] of [
    [60, chains],
    [31, star],
  ]) {
    const labels = Array.from({ length: count }, (_, at) => ({ left: -8, right: 80 + (at % 3) * 10, height: 15 }));
    const [wide, high] = [700, 420];
    const before = layout(count, edges);
    const overlaps = (places) => {
      const box = bounds(places);
      const scale = Math.min(1, wide / (box.right - box.left), high / (box.bottom - box.top));
      const lies = (a, b) =>
        (places[b].x - places[a].x) * scale + labels[b].left < labels[a].right &&
        (places[a].x - places[b].x) * scale + labels[a].left < labels[b].right &&
        Math.abs(places[b].y - places[a].y) * scale < 15;
      let sum = 0;
      for (let a = 0; a < count; a += 1) for (let b = 0; b < a; b += 1) sum += Number(lies(a, b));
      return sum;
    };
    const after = apart(before, labels, wide, high);
    assert(overlaps(before) >= 10, `${overlaps(before)} before`);
    assert.equal(overlaps(after), 0);
    assert.deepEqual(
      after.map(({ x }) => x),
      before.map(({ x }) => x),
    );
  }
  const far = [
    { x: 0, y: 0 },
    { x: 0, y: 100 },
  ];
  assert.equal(apart(far, [{ left: 0, right: 9, height: 9 }, { left: 0, right: 9, height: 9 }], 500, 500), far);
});

test('bars stand for amounts, and not for years or numbers that name', () => {
  const rows = (...values) => values.map((value) => [literal(String(value), 'integer')]);
  assert.deepEqual(barRange('pages', rows(-5, 20, 7), 0), { least: -5, greatest: 20 });
  assert.equal(barRange('year', rows(1936, 2005), 0), null);
  assert.equal(barRange('person_id', rows(1, 2, 3), 0), null);
  assert.equal(barRange('n', rows(7, 7), 0), null);
});

test('a node is named by the last piece of its IRI that says something', () => {
  assert.equal(lastPieces('http://localhost/publications/journals/Journal1/1940'), 'Journal1/1940');
  assert.equal(lastPieces('http://example.org/people#Ann'), 'Ann');
  assert.equal(lastPieces('http://example.org/people/Ann/'), 'Ann');
  // Their beginnings are the same, so what is left of a long name is its end.
  const named = (iri) => nameLabel(uri(iri), () => null, 20);
  assert.equal(named('http://localhost/publications/procs/Proceeding9/1970'), 'Proceeding9/1970');
  assert.equal(nameLabel(uri('http://e/a'), () => 'e:a'), 'e:a');
  assert.equal(nameLabel(null, () => null), '');
});

test('a query is copied for a shell and for Python so that they send the same text', () => {
  const text = `PREFIX e: <http://e/>\nSELECT * { ?s e:p "it's \\"so\\"" }\n`;
  const base = 'http://127.0.0.1:7878/';
  const shell = asCurl({ text, language: 'sparql', base, token: true }).replace(/^curl/, "printf '%s\\n'");
  const said = execFileSync('sh', ['-c', shell], { env: { VICUS_TOKEN: 't' } }).toString();
  assert(said.includes(`--data-binary\n${text}`), said);
  assert(said.includes('Authorization: Bearer t\n') && said.startsWith('http://127.0.0.1:7878/sparql\n'), said);
  const python = asPython({ text, language: 'sql', base, token: false });
  assert.match(python, /"http:\/\/127\.0\.0\.1:7878\/sql"/);
  const literal = /text = ([\s\S]*?\n\))/.exec(python)[1];
  // Adjacent literals within brackets are one, in Python; each is JSON here.
  assert.equal(literal.match(/"(?:[^"\\]|\\.)*"/g).map((each) => JSON.parse(each)).join(''), text);
});

test('the rows of a query are counted by another one', () => {
  assert.equal(
    countQuery('PREFIX e: <http://e/>\nSELECT ?s { ?s e:p ?o } LIMIT 5', 'sparql'),
    'PREFIX e: <http://e/>\nSELECT (COUNT(*) AS ?n) WHERE {\n{\nSELECT ?s { ?s e:p ?o } LIMIT 5\n}\n}',
  );
  assert.equal(countQuery('SELECT ?s FROM <http://e/g> { ?s ?p ?o }', 'sparql'), null);
  assert.equal(countQuery('CONSTRUCT WHERE { ?s ?p ?o }', 'sparql'), null);
  assert.equal(countQuery('SELECT a FROM t;', 'sql'), 'SELECT COUNT(*) AS n FROM (\nSELECT a FROM t\n) AS counted');
});

test('a file says its syntax by its ending', () => {
  assert.equal(typeOf('people.TTL'), 'text/turtle');
  assert.equal(typeOf('people.csv'), null);
});

test('examples are offered where the data has their predicates', () => {
  const info = { prefixes: [{ name: 'foaf', iri: 'http://xmlns.com/foaf/0.1/' }], languages: ['sparql'], tables: [] };
  const labels = (predicates) => examples(info, { predicates }).map(({ label }) => label);
  assert(!labels([{ iri: 'http://xmlns.com/foaf/0.1/name' }]).includes('Who knows whom'));
  assert(labels([{ iri: 'http://xmlns.com/foaf/0.1/knows' }]).includes('Who knows whom'));
});

test('a plan is a tree with shares, and marks estimates that were far off', () => {
  const operators = [
    { id: 2, parent: 1, timeMs: 3 },
    { id: 1, parent: null, timeMs: 1 },
    { id: 3, parent: 1, timeMs: null },
    { id: 4, parent: 2 },
  ];
  assert.deepEqual(
    treeRows(operators).map(({ operator, depth, last }) => [operator.id, depth, last]),
    [
      [1, 0, true],
      [2, 1, false],
      [4, 2, true],
      [3, 1, true],
    ],
  );
  assert.equal(timeShares(operators).get(2), 0.75);
  const off = (estimatedRows, actualRows, over = true) => misestimate({ estimatedRows, actualRows }, over);
  assert.deepEqual(off(10, 200), { factor: 20, more: true });
  assert.deepEqual(off(200, 10), { factor: 20, more: false });
  assert.equal(off(200, 10, false), null);
  assert.equal(off(10, 100), null);
  assert.equal(off(0, 5), null);
  assert.equal(off(10, null), null);
});

test('links carry any text', () => {
  const shared = { query: 'SELECT * { ?s ?p "a+b & c#d%20é\n" }', language: 'sql', view: 'chart' };
  assert.deepEqual(decodeShare(encodeShare(shared)), shared);
  assert.deepEqual(decodeShare(''), { query: null, language: null, view: null });
});

test('numbers for people', () => {
  assert.equal(count(15752), '15\u202f752');
  assert.equal(bytes(4194304), '4.0 MiB');
  assert.equal(bytes(900), '900 B');
  assert.deepEqual([0, 0.13, 0.9996, 12.5, 999.6, 61_000].map(duration), [
    '0 ms',
    '130 µs',
    '1.00 ms',
    '12.5 ms',
    '1.00 s',
    '1 min 1 s',
  ]);
});

test('a text is indented by its braces, not by those in strings, IRIs and comments', () => {
  const text = 'SELECT * WHERE {\n?s ?p "{" ; # {\n  ?q <http://a/(> .\nOPTIONAL {\n?s ?r """a\n  }\n""" }\n}\n';
  assert.equal(
    indented(text, 'sparql'),
    'SELECT * WHERE {\n  ?s ?p "{" ; # {\n  ?q <http://a/(> .\n  OPTIONAL {\n    ?s ?r """a\n  }\n""" }\n}\n',
  );
  assert.equal(indented(indented(text, 'sparql'), 'sparql'), indented(text, 'sparql'));
});

test('a form is guessed past prologue, strings and comments', () => {
  assert.equal(
    guessForm('# select\nPREFIX ask: <http://delete/>\nCONSTRUCT { ?s ?p ?o } WHERE {}', 'sparql'),
    'construct',
  );
  assert.equal(guessForm('PREFIX a: <b> INSERT DATA { }', 'sparql'), 'update');
});

test('texts are told from what is behind them, in light and in dark', () => {
  const style = readFileSync(new URL('../src/style.css', import.meta.url), 'utf8');
  const colours = Object.fromEntries(
    [...style.matchAll(/--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)/g)].map(([, name, ...both]) => [name, both]),
  );
  // WCAG 2.1, "relative luminance" and "contrast ratio".
  const luminance = (hex) => {
    const [red, green, blue] = [1, 3, 5].map((at) => {
      const part = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  assert.equal(contrast('#000000', '#ffffff'), 21);
  const texts = Object.keys(colours).filter((name) => /^(text|code-)/.test(name));
  assert(texts.length > 7, texts.join());
  for (const text of [...texts, 'accent', 'good', 'bad', 'warn'])
    for (const ground of ['surface', 'raised', 'sunken'])
      for (const theme of [0, 1]) {
        const ratio = contrast(colours[text][theme], colours[ground][theme]);
        assert(ratio >= 4.5, `--${text} on --${ground}, ${['light', 'dark'][theme]}: ${ratio.toFixed(2)}`);
      }
});

test('the index of an operator is said in words', () => {
  assert.deepEqual(indexOf('Gpos ?a dc:creator ?b'), {
    name: 'Gpos',
    means: 'The index that has the quads ordered by graph, predicate, object and subject',
  });
  assert.match(indexOf('Ospg').means, /object, subject, predicate and graph$/);
  for (const other of ['Goos ?a', 'Gposition', '?person', 'DESC(?pages)', '', undefined]) assert.equal(indexOf(other), null);
});
