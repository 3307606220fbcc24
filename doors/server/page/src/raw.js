// The answer as it came, up to a bound.

import { h, replace } from './dom.js';
import { bytes } from './format.js';

export function renderRaw(parent, run) {
  const key = `${run.id} ${run.bytes}`;
  if (parent.dataset.key === key) return;
  parent.dataset.key = key;
  const note =
    run.bytes > run.raw.length ? `The first ${bytes(run.raw.length)} of ${bytes(run.bytes)}.` : bytes(run.bytes);
  replace(
    parent,
    h('p', { class: 'note' }, `${note} Downloads have all rows.`),
    h('pre', { class: 'raw', tabindex: '0', 'aria-label': 'Answer as it came' }, run.raw),
  );
}
