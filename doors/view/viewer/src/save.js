// The recording as a trace file, built from the packed events.

import { h } from './dom.js';
import { askOf } from './store.js';

/// A number of 64 bits, little-endian.
function u64(number) {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(number), true);
  return bytes;
}

/// The parts of the file of a run. `eventsOf(chunk)` gives the bytes of a chunk's events.
export async function traceOf(run, headerText, eventsOf) {
  const header = new TextEncoder().encode(headerText);
  const head = new Uint8Array(16);
  head.set(new TextEncoder().encode('VICUSTRC'));
  new DataView(head.buffer).setUint32(8, 4, true);
  new DataView(head.buffer).setUint32(12, header.length, true);
  const parts = [head, header];
  let chunk = 0;
  for (const [seat, count] of run.counts.entries()) {
    parts.push(u64(count));
    for (; run.chunks[chunk]?.[0] === seat; chunk += 1) parts.push(await eventsOf(chunk));
  }
  run.lost.forEach((lost) => parts.push(u64(lost)));
  return parts;
}

export async function save(run, number, progress) {
  const text = document.getElementById(`h${number}`).textContent;
  const parts = await traceOf(run, text, (chunk) => {
    progress(chunk / run.chunks.length);
    return askOf(number, chunk, { what: 'raw' });
  });
  const url = URL.createObjectURL(new Blob(parts, { type: 'application/octet-stream' }));
  const name = run.name.replace(/[^\w.-]+/g, '_').replace(/\.html?$/, '');
  h('a', { href: url, download: name.endsWith('.trace') ? name : `${name}.trace` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
