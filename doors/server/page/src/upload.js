// A file into a graph: a dialog that asks for both, and the sending with its progress.

import * as api from './api.js';
import { h, toast } from './dom.js';
import { bytes } from './format.js';

/// Media types by the ending of a file's name, before that of a packing.
const TYPES = {
  ttl: 'text/turtle',
  nt: 'application/n-triples',
  nq: 'application/n-quads',
  trig: 'application/trig',
  rdf: 'application/rdf+xml',
  xml: 'application/rdf+xml',
  owl: 'application/rdf+xml',
  jsonld: 'application/ld+json',
};

/// The media type of a file by its name, or null.
export function typeOf(name) {
  return TYPES[/\.([a-z]+)$/i.exec(name)?.[1].toLowerCase()] ?? null;
}

/// Asks for a file and a graph: `{file, graph}`, or null when the dialog was left. `graphs` are the IRIs to choose from.
export function askUpload(graphs) {
  const file = h('input', { id: 'upload-file', type: 'file', accept: Object.keys(TYPES).map((ending) => `.${ending}`).join(',') });
  const graph = h('input', { id: 'upload-graph', type: 'text', list: 'upload-graphs', placeholder: 'the default graph' });
  const dialog = h(
    'dialog',
    { class: 'dialog', 'aria-labelledby': 'upload-title' },
    h(
      'form',
      { method: 'dialog' },
      h('h2', { id: 'upload-title' }, 'Add a file to a graph'),
      h('label', { for: 'upload-file' }, 'File'),
      file,
      h('label', { for: 'upload-graph' }, 'IRI of the graph'),
      graph,
      h('datalist', { id: 'upload-graphs' }, graphs.map((iri) => h('option', { value: iri }))),
      h('p', { class: 'quiet' }, 'Its triples are added to those that are there, all of them or none.'),
      h(
        'div',
        { class: 'dialog-buttons' },
        h('button', { type: 'submit', value: 'cancel', class: 'button', formnovalidate: true }, 'Cancel'),
        h('button', { type: 'submit', value: 'ok', class: 'button primary' }, 'Upload'),
      ),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      dialog.remove();
      const chosen = dialog.returnValue === 'ok' && file.files[0];
      resolve(chosen ? { file: chosen, graph: graph.value.trim() || null } : null);
    });
  });
}

/// Sends a file, with its progress at the lower edge. Whether it is stored.
export async function upload({ file, graph }) {
  const type = typeOf(file.name);
  if (!type) {
    toast(`${file.name}: the ending says no syntax; known are ${Object.keys(TYPES).join(', ')}.`, { kind: 'bad', lasts: 8000 });
    return false;
  }
  const text = h('span', {}, 'Upload…');
  const bar = h('progress', { max: '1', value: '0', 'aria-label': 'Progress of the upload' });
  const message = toast('', { lasts: 0 });
  const aborter = new AbortController();
  message.append(
    text,
    bar,
    h('button', { type: 'button', class: 'button small', onClick: () => aborter.abort() }, 'Cancel'),
  );
  try {
    await api.addToGraph({ body: file, type, graph }, aborter.signal, (sent) => {
      bar.value = file.size ? sent / file.size : 1;
      text.textContent = sent < file.size ? `Upload: ${bytes(sent)} of ${bytes(file.size)}` : 'Stored by the server…';
    });
    toast(`${file.name} is stored, ${bytes(file.size)}`, { kind: 'good' });
    return true;
  } catch (error) {
    const left = error.name === 'AbortError';
    toast(left ? 'Upload cancelled' : `Upload failed: ${error.message}`, { kind: left ? 'plain' : 'bad', lasts: 8000 });
    return false;
  } finally {
    message.remove();
  }
}
