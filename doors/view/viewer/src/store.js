// The data of the page: its scripts of data by name, and the worker that unpacks them.

import { bytesOf, inflatedNow } from './unpack.js';
import { answer, serve } from './worker.js';

export { serve };

let worker;
let number = 0;
const open = new Map();
/// The runs that the worker knows, for code that takes its place.
const known = [];

let isBegun;
/// Questions wait until the first picture is seen.
const begun = new Promise((done) => (isBegun = done));

/// Starts the worker from the page's own script, and tells it of the runs. Where a browser refuses, the same code runs in the page.
export function begin(runs) {
  try {
    const script = new Blob([document.getElementById('viewer').textContent], { type: 'text/javascript' });
    worker = new Worker(URL.createObjectURL(script));
    worker.onmessage = ({ data: { id, result, error } }) => {
      const { done, failed } = open.get(id);
      open.delete(id);
      if (error) failed(new Error(error));
      else done(result);
    };
    worker.onerror = () => {
      worker = null;
      const all = [...open.values()];
      open.clear();
      known.forEach(answer);
      all.forEach(({ asked, done, failed }) => answer(asked).then(done, failed));
    };
  } catch {
    worker = null;
  }
  runs.forEach(send);
  isBegun();
}

/// Asks the worker.
export const ask = (asked) => begun.then(() => send(asked));

async function send(asked) {
  if (asked.what === 'run') known.push(asked);
  if (!worker) return answer(asked);
  return new Promise((done, failed) => {
    number += 1;
    open.set(number, { asked, done, failed });
    worker.postMessage({ id: number, asked });
  });
}

const isComplete = new Promise((done) => {
  if (typeof document === 'undefined') return;
  if (document.readyState === 'loading') addEventListener('DOMContentLoaded', done, { once: true });
  else done();
});

/// The text of a script of data. While the page is still being read, it waits for the end.
export async function textOf(name) {
  let found = document.getElementById(name);
  if (!found) {
    await isComplete;
    found = document.getElementById(name);
  }
  if (!found) throw new Error(`the page was cut off: ${name} is missing`);
  return found.textContent;
}

/// Packed data that stands before the viewer, at once.
export const dataNow = (name) => inflatedNow(bytesOf(document.getElementById(name).textContent));

/// Asks about a chunk.
export async function askOf(run, chunk, asked) {
  return ask({ ...asked, run, chunk, text: await textOf(`c${run}-${chunk}`) });
}
