// Downloads: the query runs again without the page's limit of rows, in the format that was chosen, and its answer is saved as a file.

import * as api from './api.js';
import { h, toast } from './dom.js';
import { bytes } from './format.js';

const ROWS = [
  ['CSV', 'text/csv', 'csv'],
  ['TSV', 'text/tab-separated-values', 'tsv'],
  ['JSON', 'application/sparql-results+json', 'srj'],
  ['XML', 'application/sparql-results+xml', 'srx'],
  ['Arrow stream', 'application/vnd.apache.arrow.stream', 'arrows'],
];
const TRIPLES = [
  ['Turtle', 'text/turtle', 'ttl'],
  ['N-Triples', 'application/n-triples', 'nt'],
  ['N-Quads', 'application/n-quads', 'nq'],
  ['TriG', 'application/trig', 'trig'],
  ['RDF/XML', 'application/rdf+xml', 'rdf'],
  ['JSON-LD', 'application/ld+json', 'jsonld'],
];
/// Pieces are folded into a Blob, which a browser may keep on disk, as soon as they have this size.
const FOLD_BYTES = 8 << 20;

/// The menu's items for a run.
export function downloadItems(run) {
  const formats = run.isGraph ? TRIPLES : run.boolean !== null ? ROWS.slice(2, 4) : ROWS;
  const items = formats.map(([label, type, extension]) => ({
    label,
    detail: `.${extension}`,
    action: () => download(run, type, extension),
  }));
  return [
    { heading: 'Run again, all rows' },
    ...items,
    { label: 'Plan', detail: '.json', action: () => download(run, 'application/vnd.vicus.plan+json', 'plan.json') },
  ];
}

async function download(run, type, extension) {
  const aborter = new AbortController();
  const text = h('span', {}, 'Download: waiting for the first byte…');
  const message = toast('', { lasts: 0 });
  message.append(
    text,
    h('button', { type: 'button', class: 'button small', onClick: () => aborter.abort() }, 'Cancel'),
  );
  try {
    const response = await api.query(
      { text: run.text, language: run.language, accept: type, id: api.newId(), timeout: run.timeout },
      aborter.signal,
    );
    const blob = await collect(response, type, (sum) => {
      text.textContent = `Download: ${bytes(sum)}`;
    });
    const link = h('a', { href: URL.createObjectURL(blob), download: `result.${extension}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    toast(`Saved result.${extension}, ${bytes(blob.size)}`, { kind: 'good' });
  } catch (error) {
    toast(error.name === 'AbortError' ? 'Download cancelled' : `Download failed: ${error.message}`, {
      kind: error.name === 'AbortError' ? 'plain' : 'bad',
      lasts: 8000,
    });
  } finally {
    message.remove();
  }
}

async function collect(response, type, onBytes) {
  const reader = response.body.getReader();
  let folded = new Blob([], { type });
  let parts = [];
  let [sum, open] = [0, 0];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    sum += value.length;
    open += value.length;
    if (open >= FOLD_BYTES) {
      folded = new Blob([folded, ...parts], { type });
      parts = [];
      open = 0;
    }
    onBytes(sum);
  }
  return new Blob([folded, ...parts], { type });
}
