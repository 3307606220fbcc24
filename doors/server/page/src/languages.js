// The languages that the page knows: their names, their paths on the server, and the media types of their texts.

export const LANGUAGES = {
  sparql: { title: 'SPARQL', path: 'sparql', type: 'application/sparql-query' },
  sql: { title: 'SQL', path: 'sql', type: 'application/sql' },
  network: { title: 'Network', path: 'network', type: 'text/vnd.vicus.network' },
};
