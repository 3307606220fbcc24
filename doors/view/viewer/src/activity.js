// The activity of a seat, as doors/view/src/activity.rs has it: events to slices, each of one state and one job.

import { KIND } from './unpack.js';

/// The states of a seat.
export const LOOKS = 0;
export const BUSY = 1;
export const AROUND = 2;
export const ASLEEP = 4;
export const AWAY = 5;
/// A task on it waits: for the tasks that it has spawned, for those of a section, or at a barrier of its team.
export const WAITS = [3, 6, 7];

/// The number of a rule that is not known.
export const NO_RULE = 255;

const INVOCATION = 1;
const IN_CODE = 2;
/// Two bits: 0, or for what it waits, plus 1.
const WAITING = 12;

/// For what the code of a frame waits, as an event says it, or −1.
export const waitOf = ({ flags }) => ((flags & WAITING) >> 2) - 1;

/// A chunk's entry in the index, with names.
export function entryOf(run, number) {
  const [seat, start, count, from, to, time, order, since, flags, frames, near, far, taken] = run.chunks[number];
  const base = Number(BigInt(time) - BigInt(run.firstNs));
  const state = { since, rest: flags & 3, lent: flags >> 2, frames, near, far, taken };
  return { run, number, seat, start, count, from, to, time, order, base, state };
}

/// Follows a seat through a chunk's events. `each(at, frames)` is called behind every event, `slice(…)` at the end of each
/// slice: begin, end, state, frame or null, whether it is lent, near and far bytes.
export class Seat {
  constructor({ state }) {
    const { since, rest, lent, frames, near, far, taken } = state;
    Object.assign(this, { since, rest, lent, near, far });
    this.frames = frames.map(([request, index, key, rule, flags]) => ({ request, index, key, rule, flags }));
    this.taken = taken && { request: taken[0], index: taken[1], rule: taken[2] };
  }

  state() {
    if (this.rest) return this.rest === 1 ? ASLEEP : AWAY;
    const top = this.frames.at(-1);
    if (!top) return LOOKS;
    return WAITS[waitOf(top)] ?? (top.flags & IN_CODE ? BUSY : AROUND);
  }

  cut(now, slice) {
    if (now > this.since) {
      slice(this.since, now, this.state(), this.frames.at(-1) ?? null, this.lent, this.near, this.far);
      this.near = 0;
      this.far = 0;
    }
    this.since = now;
  }

  step(chunk, at, slice) {
    const kind = chunk.kind[at];
    const now = chunk.time[at];
    const job = chunk.job[at];
    const { jobs } = chunk;
    const is = (frame) => frame.request === jobs.request[job] && frame.index === jobs.index[job];
    const open = (flags) => {
      const [request, index, key] = [jobs.request[job], jobs.index[job], jobs.key[job]];
      const { taken } = this;
      const rule = taken && taken.request === request && taken.index === index ? taken.rule : NO_RULE;
      this.frames.push({ request, index, key, rule, flags });
    };
    const { frames } = this;
    switch (kind) {
      case KIND['bytes-read']:
        if (chunk.port[at]) this.far += chunk.value[at];
        else this.near += chunk.value[at];
        break;
      case KIND.taken:
        this.taken = { request: jobs.request[job], index: jobs.index[job], rule: chunk.detail[at] };
        break;
      case KIND['invocation-begins']:
        this.cut(now, slice);
        open(INVOCATION);
        break;
      case KIND['invocation-ends']:
        this.cut(now, slice);
        frames.pop();
        break;
      case KIND['user-code-begins']: {
        this.cut(now, slice);
        const top = frames.at(-1);
        if (top && is(top) && top.flags & INVOCATION) top.flags |= IN_CODE;
        else open(IN_CODE);
        break;
      }
      case KIND['user-code-ends']: {
        this.cut(now, slice);
        const top = frames.at(-1);
        if (top && !(top.flags & INVOCATION)) frames.pop();
        else if (top) top.flags &= ~IN_CODE;
        break;
      }
      case KIND['wait-begins']:
      case KIND['wait-ends']: {
        this.cut(now, slice);
        const top = frames.at(-1);
        const waits = kind === KIND['wait-begins'] ? 1 + chunk.detail[at] : 0;
        if (top && is(top)) top.flags = (top.flags & ~WAITING) | (waits << 2);
        break;
      }
      case KIND['sleep-begins']:
        this.cut(now, slice);
        this.rest = 1;
        break;
      case KIND['sleep-ends']:
        this.cut(now, slice);
        this.rest = 0;
        break;
      case KIND['lent-begins']:
        this.cut(now, slice);
        this.rest = 0;
        this.lent = 1;
        break;
      case KIND['lent-ends']:
        this.cut(now, slice);
        this.rest = 2;
        this.lent = 0;
        break;
      default:
    }
  }
}

/// The slices of a chunk by columns, for drawing.
export function slicesOf(entry, chunk) {
  const { rates } = entry.run;
  const all = {
    begin: [],
    end: [],
    state: [],
    key: [],
    request: [],
    index: [],
    rule: [],
    lent: [],
    near: [],
    far: [],
    wait: [],
  };
  const add = (begin, end, state, frame, lent, near, far) => {
    all.begin.push(begin);
    all.end.push(end);
    all.state.push(state);
    all.key.push(frame ? frame.key : -1);
    all.request.push(frame ? frame.request : -1);
    all.index.push(frame ? frame.index : -1);
    all.rule.push(frame ? frame.rule : NO_RULE);
    all.lent.push(lent);
    all.near.push(near);
    all.far.push(far);
    all.wait.push(state === BUSY ? Math.min(1, (near / rates[0] + far / rates[1]) / (end - begin)) : 0);
  };
  const seat = new Seat(entry);
  for (let at = 0; at < chunk.count; at += 1) seat.step(chunk, at, add);
  seat.cut(endOf(entry, seat, chunk), add);
  return {
    begin: Float64Array.from(all.begin),
    end: Float64Array.from(all.end),
    state: Uint8Array.from(all.state),
    key: Int32Array.from(all.key),
    request: Float64Array.from(all.request),
    index: Float64Array.from(all.index),
    rule: Uint8Array.from(all.rule),
    lent: Uint8Array.from(all.lent),
    near: Float64Array.from(all.near),
    far: Float64Array.from(all.far),
    wait: Float32Array.from(all.wait),
  };
}

/// A chunk's last slice ends where the state of the next chunk of the seat begins to count: nothing may be counted twice.
export function endOf(entry, seat, chunk) {
  const last = chunk.count ? chunk.time[chunk.count - 1] : entry.from;
  const next = entry.run.chunks[entry.number + 1];
  if (next && next[0] === entry.seat) return next[7];
  return seat.rest ? Math.max(entry.run.spanNs, last) : last;
}
