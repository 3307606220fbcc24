// What is done beside the page: unpacking chunks, summing up ranges, telling the events of a slice, building the trace.

import { entryOf, slicesOf } from './activity.js';
import { Pass } from './pass.js';
import { prepared, Sums } from './sums.js';
import { KIND, KINDS, NONE, USES, bytesOf, inflated, rawEvents, told, unpack } from './unpack.js';

/// Unpacked chunks that are kept: some 30 MB.
const KEPT = 32;
/// Events of a slice that are told.
const TOLD = 60;

const runs = [];
const kept = new Map();
let sums;
let pass;

async function chunkOf({ run, chunk, text }) {
  const name = `${run}.${chunk}`;
  const entry = entryOf(runs[run], chunk);
  let found = kept.get(name);
  kept.delete(name);
  found ??= unpack(await inflated(bytesOf(text)), entry.base);
  kept.set(name, found);
  if (kept.size > KEPT) kept.delete(kept.keys().next().value);
  return { entry, chunk: found };
}

/// The place of the first event at or after a time.
function firstAt({ time, count }, ns) {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (time[middle] < ns) low = middle + 1;
    else high = middle;
  }
  return low;
}

/// The job that an event says has spawned or queued its own: request, index and key, −1 for a key that the chunk does not know.
function makerOf({ job, jobs, value }, at) {
  if (value[at] === NONE) return null;
  const request = jobs.request[job[at]];
  const number = jobs.index.findIndex((index, of) => index === value[at] && jobs.request[of] === request);
  return { job: [request, value[at]], key: number < 0 ? -1 : jobs.key[number] };
}

const answers = {
  run({ index, header }) {
    runs.push(prepared(index, header));
  },

  async level({ text }) {
    return inflated(bytesOf(text));
  },

  async slices(asked) {
    const { entry, chunk } = await chunkOf(asked);
    return slicesOf(entry, chunk);
  },

  /// The events from `from` to `to` of a seat, from the taking of their job on, and what they waited for.
  async story(asked) {
    const { chunk, entry } = await chunkOf(asked);
    const { from, to, job } = asked;
    let first = firstAt(chunk, from);
    const { jobs, kind } = chunk;
    const isIt = (at) => {
      const number = chunk.job[at];
      return job && number >= 0 && jobs.request[number] === job[0] && jobs.index[number] === job[1];
    };
    // A lightweight thread that waits is put aside; it goes on without being taken from a queue.
    let aside = null;
    if (isIt(first) && kind[first] === KIND['user-code-begins']) {
      for (let at = first - 1; at >= 0 && aside === null && !(isIt(at) && kind[at] === KIND.taken); at -= 1)
        if (isIt(at) && kind[at] === KIND['user-code-ends']) aside = chunk.time[at];
    }
    for (let at = first; at >= Math.max(0, first - 24) && aside === null; at -= 1) {
      if (kind[at] === KIND.taken && isIt(at)) {
        first = at;
        break;
      }
    }
    const events = [];
    const causes = [];
    let last = first;
    for (let at = first; at < chunk.count && chunk.time[at] <= to; at += 1) {
      last = at;
      const number = chunk.job[at];
      if (events.length < TOLD) {
        events.push({
          at: chunk.time[at],
          kind: KINDS[kind[at]],
          key: number < 0 ? -1 : jobs.key[number],
          words: told(chunk, at),
        });
      }
      if (chunk.causeSeat[at] >= 0 && (!job || isIt(at)) && causes.length < TOLD) {
        causes.push({
          at: chunk.time[at],
          kind: KINDS[kind[at]],
          words: told(chunk, at),
          seat: chunk.causeSeat[at],
          index: chunk.causeIndex[at],
        });
      }
    }
    return { events, causes, aside, first: entry.start + first, last: entry.start + last };
  },

  /// The time and the job of an event, and the job that queued this one.
  async when(asked) {
    const { entry, chunk } = await chunkOf(asked);
    const at = asked.index - entry.start;
    const number = chunk.job[at];
    const by = chunk.kind[at] === KIND.enqueued ? makerOf(chunk, at) : null;
    return { at: chunk.time[at], key: number < 0 ? -1 : chunk.jobs.key[number], by };
  },

  /// Who in a chunk spawned a job whose data orders it among others, and the bytes that it uses.
  async origin(asked) {
    const { chunk } = await chunkOf(asked);
    const { kind, job, jobs, detail, port, value } = chunk;
    const wanted = jobs.index.findIndex((index, number) => index === asked.job[1] && jobs.request[number] === asked.job[0]);
    if (wanted < 0) return null;
    const uses = [];
    for (let at = 0; at < chunk.count; at += 1) {
      if (job[at] !== wanted) continue;
      if (kind[at] === KIND.follows) uses.push({ how: USES[detail[at]], from: port[at] * 2 ** 32 + value[at], bytes: 0 });
      else if (kind[at] === KIND['uses-bytes'] && kind[at - 1] === KIND.follows && uses.length > 0)
        uses.at(-1).bytes = port[at] * 2 ** 32 + value[at];
      else if (kind[at] === KIND.spawned) return { at: chunk.time[at], by: makerOf(chunk, at), uses };
    }
    return null;
  },

  /// What in a chunk waited for events `first` to `last` of a seat.
  async effects(asked) {
    const { chunk } = await chunkOf(asked);
    const found = [];
    for (let at = 0; at < chunk.count && found.length < TOLD; at += 1) {
      if (chunk.causeSeat[at] !== asked.seat) continue;
      if (chunk.causeIndex[at] < asked.first || chunk.causeIndex[at] > asked.last) continue;
      found.push({
        at: chunk.time[at],
        kind: KINDS[chunk.kind[at]],
        words: told(chunk, at),
        key: chunk.jobs.key[chunk.job[at]],
      });
    }
    return found;
  },

  sumsBegin({ run, from, to }) {
    sums = new Sums(runs[run], from, to);
    pass = new Pass(runs[run], from, to);
  },

  async sumsChunk(asked) {
    const { entry, chunk } = await chunkOf(asked);
    sums.chunk(entry, chunk);
    pass.chunk(entry, chunk);
  },

  sumsEnd() {
    const result = { ...sums.result(), ...pass.result() };
    [sums, pass] = [null, null];
    return result;
  },

  async raw({ run, chunk, text }) {
    const entry = entryOf(runs[run], chunk);
    return rawEvents(await inflated(bytesOf(text)), entry.time, entry.order);
  },
};

/// Answers a question, `{ what, … }`.
export const answer = (asked) => answers[asked.what](asked);

/// In a worker: answers every message, one after the other.
export function serve() {
  let before = Promise.resolve();
  onmessage = ({ data: { id, asked } }) => {
    before = before.then(async () => {
      try {
        const result = await answer(asked);
        postMessage({ id, result }, buffersOf(result));
      } catch (error) {
        postMessage({ id, error: String(error) });
      }
    });
  };
}

/// What of an answer moves rather than being copied.
function buffersOf(result) {
  const all = result instanceof Uint8Array ? [result] : result?.begin ? Object.values(result) : [];
  return all.map(({ buffer }) => buffer);
}
