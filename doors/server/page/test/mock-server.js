// A stand-in for the server: the page's interface with small made-up data, slow streams, errors with their places, plans that grow while
// they are watched, and time lines. For development and for the page's tests; it knows no SPARQL.
//
//   node test/mock-server.js [PORT]      serves dist/ and the interface on the loopback address
//
// Words in a text choose what happens: "slow" streams for a minute, "break" ends in the middle of the answer, "oops" is an error with a
// place, "late" is one that the check does not find, "big" has 20,000 rows, "million" a million, "nothing" has none.

import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const DIST = join(dirname(fileURLToPath(import.meta.url)), '..', 'dist');
const XSD = 'http://www.w3.org/2001/XMLSchema#';
const POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:";
const TYPES = {
  'index.html': 'text/html; charset=utf-8',
  'page.js': 'text/javascript; charset=utf-8',
  'page.css': 'text/css; charset=utf-8',
  'icon.svg': 'image/svg+xml',
};
const PREFIXES = [
  ['rdf', 'http://www.w3.org/1999/02/22-rdf-syntax-ns#'],
  ['foaf', 'http://xmlns.com/foaf/0.1/'],
  ['dc', 'http://purl.org/dc/elements/1.1/'],
  ['dcterms', 'http://purl.org/dc/terms/'],
  ['bench', 'http://localhost/vocabulary/bench/'],
  ['swrc', 'http://swrc.ontoware.org/ontology#'],
  ['xsd', XSD],
  ['rdfs', 'http://www.w3.org/2000/01/rdf-schema#'],
].map(([name, iri]) => ({ name, iri }));
const WORDS = [
  ['foaf:name', 'predicate', 'http://xmlns.com/foaf/0.1/name', 15752],
  ['foaf:knows', 'predicate', 'http://xmlns.com/foaf/0.1/knows', 4810],
  ['foaf:Person', 'class', 'http://xmlns.com/foaf/0.1/Person', 15752],
  ['foaf:homepage', 'predicate', 'http://xmlns.com/foaf/0.1/homepage', 902],
  ['dc:title', 'predicate', 'http://purl.org/dc/elements/1.1/title', 9120],
  ['dc:creator', 'predicate', 'http://purl.org/dc/elements/1.1/creator', 22104],
  ['dcterms:issued', 'predicate', 'http://purl.org/dc/terms/issued', 8890],
  ['swrc:pages', 'predicate', 'http://swrc.ontoware.org/ontology#pages', 7703],
  ['bench:Article', 'class', 'http://localhost/vocabulary/bench/Article', 5300],
  ['bench:Journal', 'class', 'http://localhost/vocabulary/bench/Journal', 340],
];
const NAMES = [
  'Ada Lovelace',
  'Edsger Dijkstra',
  'Grace Hopper',
  'Barbara Liskov',
  'Alan Turing',
  'Frances Allen',
  'Tony Hoare',
  'Radia Perlman',
  'Leslie Lamport',
  'Karen Spärck Jones',
];

const iri = (value) => ({ type: 'uri', value });
const typed = (value, type) => ({ type: 'literal', value: String(value), datatype: XSD + type });
/// Numbers that look like chance and are the same each time.
const noise = (at) => (((Math.sin(at * 12.9898) * 43758.5453) % 1) + 1) % 1;

function person(at) {
  const binding = {
    person: iri(`http://localhost/persons/${NAMES[at % NAMES.length].replaceAll(' ', '_')}_${at}`),
    name:
      at % 7 === 3
        ? { type: 'literal', value: NAMES[at % NAMES.length], 'xml:lang': 'en' }
        : { type: 'literal', value: NAMES[at % NAMES.length] },
    pages: typed(Math.round(noise(at) * 40000), 'integer'),
    score: typed((noise(at + 0.5) * 100 - 5).toFixed(2), 'decimal'),
    issued: typed(`${1936 + Math.floor(noise(at * 3) * 70)}-0${1 + (at % 9)}-1${at % 9}T0${at % 9}:30:00Z`, 'dateTime'),
    class: iri(at % 3 ? 'http://localhost/vocabulary/bench/Article' : 'http://xmlns.com/foaf/0.1/Person'),
  };
  if (at % 11 === 5) delete binding.score;
  return binding;
}

const VARIABLES = ['person', 'name', 'pages', 'score', 'issued', 'class'];

/// A row of a query with groups: a name and a number.
function group(at) {
  const [, , predicate, count] = WORDS[at % WORDS.length];
  return {
    p: iri(predicate),
    n: typed(count, 'integer'),
    subjects: typed(Math.round(count * (0.4 + noise(at) * 0.5)), 'integer'),
  };
}

function triple(at) {
  const subject = `<http://localhost/persons/${NAMES[at % NAMES.length].replaceAll(' ', '_')}>`;
  const kinds = [
    `<http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://xmlns.com/foaf/0.1/Person>`,
    `<http://xmlns.com/foaf/0.1/name> "${NAMES[at % NAMES.length]}"`,
    `<http://xmlns.com/foaf/0.1/knows> <http://localhost/persons/${NAMES[(at * 3 + 1) % NAMES.length].replaceAll(' ', '_')}>`,
    `<http://purl.org/dc/terms/issued> "${1950 + (at % 50)}"^^<${XSD}gYear>`,
  ];
  return `${subject} ${kinds[Math.floor(at / NAMES.length) % kinds.length]} .\n`;
}

const OPERATORS = [
  [0, null, 'project', '?person ?name ?pages ?score ?issued', 15752, 1, [0]],
  [1, 0, 'order', 'DESC(?pages)', 15752, 9.2, [1]],
  [2, 1, 'hash join', '?person', 900, 14.5, [2, 3]],
  [3, 2, 'index join', 'Gpso ?article swrc:pages ?pages', 15752, 6.1, [4]],
  [4, 3, 'scan', 'Gpos ?article rdf:type bench:Article', 5300, 2.4, [5]],
  [5, 2, 'filter', '?score > 10', 200, 0.8, [6]],
  [6, 5, 'scan', 'Gpso ?person foaf:name ?name', 15752, 3.3, [7]],
];

function planOf(request, part) {
  const planned = part === null;
  const rowsOf = (at) => (planned ? null : Math.round(15752 * part * (at === 5 ? 0.95 : 1)));
  const value = (number) => (planned ? 0 : Math.round(number * part));
  return {
    id: request.id ?? null,
    text: request.text,
    language: request.language,
    form: request.form,
    state: planned ? 'planned' : request.state,
    parsingMs: 0.13,
    planningMs: 0.34,
    elapsedMs: planned ? 0 : Math.max(0.4, Date.now() - request.begun),
    rows: planned ? 0 : request.rows,
    operators: OPERATORS.map(([id, parent, name, detail, estimatedRows, time, boxes]) => ({
      id,
      parent,
      name,
      detail,
      order: id === 1 ? ['?pages'] : [],
      estimatedRows,
      actualRows: rowsOf(id),
      timeMs: planned ? null : time * part,
      nearBytes: value(4194304 * (id + 1)),
      farBytes: id % 3 === 2 ? value(1300000) : 0,
      spilledBytes: id === 1 ? value(900000) : 0,
      degree: id === 2 ? 4 : 1,
      boxes,
    })),
    boxes: ['project', 'sort', 'build', 'probe', 'index join', 'scan', 'filter', 'scan'].map((name, index) => ({
      index,
      name,
      invocations: value(14 + index),
      rowsIn: value(15752),
      rowsOut: value(15752),
      nearBytes: value(4194304),
      farBytes: value(40960 * index),
      spilledBytes: 0,
      timeMs: planned ? null : part * (index + 0.5),
      reads: index < 7 ? [{ box: index + 1, output: 0, envelopes: value(8), bytes: value(4194304) }] : [],
    })),
    totals: {
      tasks: value(60),
      far: value(7),
      nearBytes: value(41943040),
      farBytes: value(2600000),
      takes: planned ? {} : { 1: value(30), 2: value(10), 3: value(20) },
    },
  };
}

/// In place of a page of `vicus trace view`.
const pageOf = (name) => `<!DOCTYPE html><title>${name}</title><h1>${name}</h1>`;

const requests = new Map();
for (const [id, text, state] of [
  ['b1f20c77aa01', 'SELECT (COUNT(*) AS ?n) WHERE { ?a ?p ?b . ?b ?q ?c . ?c ?r ?d }', 'running'],
  ['c08812de90bb', 'PREFIX foaf: <http://xmlns.com/foaf/0.1/>\nSELECT ?a ?b WHERE { ?a foaf:knows+ ?b }', 'waiting'],
]) {
  requests.set(id, {
    id,
    text,
    state,
    language: 'sparql',
    kind: 'query',
    form: 'select',
    begun: Date.now() - 4200,
    rows: 0,
    memoryBytes: 48_000_000,
    mine: false,
  });
}

function checked(text) {
  const oops = text.indexOf('oops');
  if (oops >= 0) {
    const before = text.slice(0, oops).split('\n');
    return {
      error: {
        message: 'expected a pattern or "}", found the word "oops"',
        line: before.length,
        column: before.at(-1).length + 1,
        from: oops,
        to: oops + 4,
      },
    };
  }
  if (!text.includes('{') && !/describe|clear|drop|load|select .* from/is.test(text))
    return {
      error: {
        message: 'the query ends too early',
        line: text.split('\n').length,
        column: 1,
        from: text.length,
        to: text.length,
      },
    };
  const bare = text.replace(/#[^\n]*|<[^>]*>/g, ' ');
  const form = /\b(insert|delete|clear|drop|load)\b/i.test(bare)
    ? 'update'
    : (/\b(select|ask|construct|describe)\b/i.exec(bare)?.[1].toLowerCase() ?? 'select');
  return {
    form,
    variables: form === 'select' ? [...new Set([...bare.matchAll(/\?(\w+)/g)].map((found) => found[1]))] : [],
    remarks: [
      { text: 'nothing binds ?nmae; did you mean ?name?', always: true },
      { text: 'the data has no predicate e:nothing', always: false },
    ].filter(({ text }) => text.split(/[ ;]/).some((word) => /^(\?nmae|e:nothing)$/.test(word) && bare.includes(word))),
  };
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/// The server; `info` overrides what /api/info says.
export function mockServer({ info: own = {} } = {}) {
  return createServer((request, response) => {
    answer(request, response, own).catch((error) => {
      if (!response.headersSent) response.writeHead(500);
      response.end(String(error));
    });
  });
}

async function answer(request, response, own) {
  const url = new URL(request.url, 'http://mock');
  const path = url.pathname === '/' ? 'index.html' : url.pathname.slice(1);
  if (TYPES[path]) {
    response.writeHead(200, { 'Content-Type': TYPES[path], 'Content-Security-Policy': POLICY });
    return response.end(readFileSync(join(DIST, path)));
  }
  const json = (value, status = 200) => {
    response.writeHead(status, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify(value));
  };
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  const body = Buffer.concat(pieces).toString();
  if (own.query === 'token' && request.headers.authorization !== 'Bearer secret')
    return json({ error: { kind: 'rights', message: 'a token is missing' } }, 401);
  if (path === 'api/info') {
    const known = request.headers.authorization === 'Bearer secret';
    const update = own.update ?? INFO.update;
    const write = update === 'open' || (update === 'token' && known);
    return json({ ...INFO, ...own, rights: { read: own.query !== 'token' || known, write, known } });
  }
  if (path === 'api/contents') return json(contents());
  if (path === 'api/complete') {
    await sleep(8);
    return json(completions(JSON.parse(body)));
  }
  if (path === 'api/check') return json(checked(JSON.parse(body).text));
  if (path === 'api/view') {
    const isPage = body.startsWith('<!DOCTYPE html>');
    if (!isPage) return json({ error: { kind: 'request', message: 'neither a trace nor a page' } }, 400);
    response.writeHead(200, { 'Content-Type': 'text/html' });
    return response.end(body);
  }
  if (path === 'api/load') return load(response);
  if (path === 'api/requests')
    return json(
      [...requests.values()]
        .filter(({ state }) => ['waiting', 'planning', 'running'].includes(state))
        .map((one) => ({ ...one, elapsedMs: Date.now() - one.begun })),
    );
  const part = /^api\/requests\/([\w-]+)(?:\/(\w+))?$/.exec(path);
  if (part) return ofRequest(request, response, json, part[1], part[2]);
  if (path === 'sparql' || path === 'sql') return query(request, response, json, body, url, path);
  if (path === 'update') {
    if ((own.update ?? INFO.update) === 'token' && request.headers.authorization !== 'Bearer secret')
      return json({ error: { kind: 'rights', message: 'this token allows no updates' } }, 401);
    return json({ operations: 1, rows: 2, ms: 1.5 });
  }
  if (path === 'store' && request.method === 'POST') {
    if (request.headers.authorization !== 'Bearer secret')
      return json({ error: { kind: 'rights', message: 'this token allows no updates' } }, 401);
    if (/oops/.test(body)) return json({ error: { kind: 'data', message: 'line 1: `oops` is no triple' } }, 400);
    const graph = url.searchParams.get('graph') ?? 'default';
    stored.push({ graph, type: request.headers['content-type'], bytes: body.length });
    response.writeHead(204);
    return response.end();
  }
  return json({ error: { kind: 'path', message: 'there is nothing here' } }, 404);
}

/// What was uploaded.
export const stored = [];

const INFO = {
  version: '0.1.0',
  dataset: { kind: 'store', name: '/data/sp2b-250k', quads: 250128, graphs: 1, version: '17', readOnly: false },
  threads: 4,
  strategy: 'las',
  languages: ['sparql', 'sql'],
  tables: [
    {
      name: 'people',
      columns: [
        { name: 'id', type: 'bigint' },
        { name: 'name', type: 'varchar' },
      ],
    },
  ],
  limits: { timeMs: 60000, memoryBytes: 8 << 28 },
  update: 'token',
  query: 'open',
  prefixes: PREFIXES,
  topology: {
    pus: 8,
    nodes: [0, 1].map((node) => ({
      id: node,
      memoryBytes: 68719476736,
      groups: [
        {
          id: node,
          cores: [0, 1].map((core) => ({ id: node * 2 + core, pus: [node * 4 + core * 2, node * 4 + core * 2 + 1] })),
        },
      ],
    })),
    distances: [
      [10, 21],
      [21, 10],
    ],
  },
};

function contents() {
  const of = (kind) => WORDS.filter((word) => word[1] === kind).map(([, , iri, count]) => ({ iri, count }));
  return {
    quads: 250128,
    defaultGraph: 250100,
    predicates: of('predicate'),
    classes: of('class'),
    graphs: [{ iri: 'http://localhost/graphs/extra', count: 28 }],
    tables: INFO.tables.map((table) => ({ ...table, rows: 40 })),
  };
}

function completions({ text, cursor }) {
  const word = /[\p{L}\p{N}_:?-]*$/u.exec(text.slice(0, cursor))[0];
  const name = word.toLowerCase();
  const variables = [...new Set([...text.matchAll(/\?(\w+)/g)].map((found) => found[0]))].filter(
    (found) => found !== word && found.startsWith(word),
  );
  const items = WORDS.filter(
    ([label]) => label.toLowerCase().startsWith(name) || label.split(':')[1].toLowerCase().startsWith(name),
  ).map(([label, kind, detail, count]) => ({
    label,
    insert: label,
    kind,
    detail,
    count,
    prefix: PREFIXES.find((prefix) => prefix.name === label.split(':')[0]),
  }));
  if (word.startsWith('?'))
    items.unshift(
      ...variables.map((label) => ({ label, insert: label, kind: 'variable', detail: '', count: null, prefix: null })),
    );
  for (const keyword of ['SELECT', 'FILTER', 'OPTIONAL', 'ORDER BY'])
    if (name && keyword.toLowerCase().startsWith(name))
      items.push({ label: keyword, insert: keyword, kind: 'keyword', detail: '', count: null, prefix: null });
  return { from: cursor - word.length, to: cursor, items, ms: 3.2 };
}

function events(response) {
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
  return (name, value) => response.write(`${name ? `event: ${name}\n` : ''}data: ${JSON.stringify(value)}\n\n`);
}

async function load(response) {
  const send = events(response);
  let [near, far] = [1e9, 2e7];
  for (let second = 0; !response.closed && !response.destroyed; second += 1) {
    near += 3e8 * (1 + noise(second));
    far += 6e7 * noise(second * 3 + 1);
    send(null, {
      pus: Array.from({ length: 8 }, (_, id) => ({
        id,
        busy: id % 2 ? noise(second + id) * 0.25 : 0.35 + noise(second * 2 + id) * 0.6,
      })),
      seats: [0, 2, 4, 6].map((pu, seat) => ({ seat, pu })),
      memory: { taken: 1.2e9 + 2e8 * noise(second), total: 4e9 },
      requests: { running: 1, waiting: 1 },
      nearBytes: near,
      farBytes: far,
    });
    await sleep(second < 4 ? 300 : 1000);
  }
}

async function ofRequest(request, response, json, id, what) {
  for (let waits = 0; what === 'watch' && !requests.has(id) && waits < 100; waits += 1) await sleep(50);
  const one = requests.get(id);
  if (!one) return json({ error: { kind: 'request', message: 'no such request' } }, 404);
  if (request.method === 'DELETE') {
    one.state = 'cancelled';
    one.stop?.();
    response.writeHead(204);
    return response.end();
  }
  if (what === 'plan') return json(planOf(one, one.part ?? 0.4));
  if (what === 'view') {
    response.writeHead(one.traced ? 200 : 404, { 'Content-Type': 'text/html' });
    return response.end(one.traced ? pageOf('run') : '');
  }
  const send = events(response);
  while (one.state === 'running' && !response.destroyed) {
    send('plan', planOf(one, one.part));
    await sleep(200);
  }
  send('plan', planOf(one, one.part));
  send('end', { state: one.state, message: one.message ?? null, rows: one.rows, elapsedMs: Date.now() - one.begun });
  return response.end();
}

async function query(request, response, json, text, url, language) {
  const accept = request.headers.accept ?? '';
  const { error, form } = checked(text);
  const id = request.headers['vicus-request-id'] ?? 'none';
  if (error) return json({ error: { kind: 'query', ...error, request: id } }, 400);
  const late = text.indexOf('late');
  if (late >= 0) {
    const place = { line: 1, column: late + 1, from: late, to: late + 4 };
    return json(
      { error: { kind: 'query', message: 'this is found when the query is planned', ...place, request: id } },
      400,
    );
  }
  if (accept.includes('plan+json')) return json(planOf({ text, language, form }, null));
  const one = {
    id,
    text,
    language,
    kind: 'query',
    form,
    state: 'running',
    begun: Date.now(),
    rows: 0,
    memoryBytes: 3_100_000,
    mine: true,
    traced: request.headers['vicus-trace'] === '1',
    part: 0,
  };
  one.stop = () => response.destroy();
  requests.set(id, one);
  response.on('close', () => {
    if (one.state === 'running') one.state = 'cancelled';
  });
  const limit = Number(url.searchParams.get('limit')) || Infinity;
  const all = /nothing/.test(text)
    ? 0
    : /group by/i.test(text)
      ? WORDS.length
      : /million/.test(text)
        ? 1_000_000
        : /big/.test(text)
          ? 20_000
          : /slow/.test(text)
            ? 1200
            : form === 'select'
              ? 1234
              : 80;
  const rows = Math.min(all, limit);
  const isJson = accept.includes('json');
  const type = accept.split(/[,;]/)[0];
  const headers = { 'Content-Type': type, 'Vicus-Request-Id': id };
  if (rows < all) headers['Vicus-Rows-Limited'] = String(limit);
  response.writeHead(200, headers);
  const isRows = form === 'select';
  const variables = /group by/i.test(text) ? ['p', 'n', 'subjects'] : VARIABLES;
  const row = variables === VARIABLES ? person : group;
  if (form === 'ask') response.write(JSON.stringify({ head: {}, boolean: true }));
  else if (isRows && isJson)
    response.write(JSON.stringify({ head: { vars: variables } }).slice(0, -1) + ',"results":{"bindings":[');
  else if (isRows) response.write(`${variables.join(',')}\n`);
  const step = /slow/.test(text) ? 4 : Math.max(40, Math.min(5000, Math.ceil(rows / 12)));
  for (let at = 0; at < rows && form !== 'ask' && one.state === 'running'; at += step) {
    let piece = '';
    for (let number = at; number < Math.min(rows, at + step); number += 1) {
      if (!isRows) piece += triple(number);
      else if (isJson) piece += (number ? ',' : '') + JSON.stringify(row(number));
      else
        piece += `${Object.values(row(number))
          .map((term) => term.value)
          .join(',')}\n`;
    }
    response.write(piece);
    one.rows = Math.min(rows, at + step);
    one.part = one.rows / rows;
    if (/break/.test(text) && at > rows / 2) {
      Object.assign(one, { state: 'failed', message: 'the query needs more than its 1.0 GiB of memory' });
      return response.destroy();
    }
    await sleep(/slow/.test(text) ? 200 : 18);
  }
  if (one.state === 'running') {
    one.state = 'done';
    one.part = 1;
    response.end(isRows && isJson ? ']}}' : '');
  }
  return null;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const port = Number(process.argv[2] ?? 7879);
  mockServer().listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${port}/`));
}
