// Queries to begin with. They hold for any data; some more are offered where the data has their predicates.

const ANY = [
  ['Some triples', 'SELECT * WHERE {\n  ?subject ?predicate ?object\n}\nLIMIT 100\n'],
  [
    'Classes and their sizes',
    'SELECT ?class (COUNT(?instance) AS ?instances) WHERE {\n  ?instance a ?class\n}\nGROUP BY ?class\nORDER BY DESC(?instances)\n',
  ],
  [
    'Predicates and their sizes',
    'SELECT ?predicate (COUNT(*) AS ?triples) WHERE {\n  ?subject ?predicate ?object\n}\nGROUP BY ?predicate\nORDER BY DESC(?triples)\n',
  ],
  [
    'Graphs and their sizes',
    'SELECT ?graph (COUNT(*) AS ?triples) WHERE {\n  GRAPH ?graph { ?subject ?predicate ?object }\n}\nGROUP BY ?graph\nORDER BY DESC(?triples)\n',
  ],
  ['Is there anything?', 'ASK {\n  ?subject ?predicate ?object\n}\n'],
  [
    'Some triples as a graph',
    'CONSTRUCT {\n  ?subject ?predicate ?object\n} WHERE {\n  ?subject ?predicate ?object .\n  FILTER(isIRI(?object))\n}\nLIMIT 60\n',
  ],
];

const KNOWN = [
  [
    'Articles and journals of each year',
    ['dcterms'],
    'SELECT ?year (COUNT(?document) AS ?documents) WHERE {\n  ?document dcterms:issued ?year\n}\nGROUP BY ?year\nORDER BY ?year\n',
  ],
  [
    'People with the most documents',
    ['dc', 'foaf'],
    'SELECT ?name (COUNT(?document) AS ?documents) WHERE {\n  ?document dc:creator ?person .\n  ?person foaf:name ?name\n}\nGROUP BY ?name\nORDER BY DESC(?documents)\nLIMIT 25\n',
  ],
  ['Who knows whom', ['foaf'], 'CONSTRUCT {\n  ?a foaf:knows ?b\n} WHERE {\n  ?a foaf:knows ?b\n}\nLIMIT 80\n'],
];

const NETWORK = `# Squares of odd numbers.
param most: integer = 20;

box n = numbers(to: most);
box odd = filter(where: "n % 2 = 1") * threads;
box square = map(select: "n, n * n AS square") * threads;
box order = sort(by: "n");
box rows = collect;

n -> odd -> square -> order -> rows;
`;

/// The examples for a server: `{label, text, language}`. `contents` is what the data has, or null while that is not known.
export function examples(info, contents = null) {
  const iris = new Map(info.prefixes.map(({ name, iri }) => [name, iri]));
  const occurring = new Set((contents?.predicates ?? []).map(({ iri }) => iri));
  const occur = (text, names) => {
    const used = [...text.matchAll(/\b([a-z]+):(\w+)/g)].filter(([, name]) => names.includes(name));
    return used.every(([, name, local]) => occurring.has(iris.get(name) + local));
  };
  const isKnown = ([, names, text]) => names.every((name) => iris.has(name)) && occur(text, names);
  const known = KNOWN.filter(isKnown).map(([label, names, text]) => {
    const lines = names
      .filter((name) => text.includes(`${name}:`))
      .map((name) => `PREFIX ${name}: <${iris.get(name)}>`);
    return { label, language: 'sparql', text: `${lines.join('\n')}\n${text}` };
  });
  const all = [...ANY.map(([label, text]) => ({ label, language: 'sparql', text })), ...known];
  if (info.languages.includes('sql')) {
    for (const { name } of info.tables.slice(0, 5))
      all.push({ label: `Table ${name}`, language: 'sql', text: `SELECT *\nFROM ${identifier(name)}\nLIMIT 100\n` });
  }
  if (info.languages.includes('network')) all.push({ label: 'A network', language: 'network', text: NETWORK });
  return all;
}

/// A name as SQL has it.
export function identifier(name) {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}
