// The figures of a part of the time: those that the tables have for the whole run, by the same rules.

import { BUSY, ASLEEP, AWAY, LOOKS, AROUND, WAITS, Seat, endOf } from './activity.js';
import { KIND, NONE, TASKS } from './unpack.js';

/// The columns of a type of box.
const empty = () => ({
  boxes: new Set(),
  invocations: 0,
  spawned: 0,
  queued: 0,
  busy: 0,
  blocked: 0,
  envelopesIn: 0,
  rowsIn: 0,
  envelopesOut: 0,
  rowsOut: 0,
  made: 0,
  near: 0,
  far: 0,
  waits: [0, 0, 0],
});

/// Sums up events of the range `[from, to]`. Give it every chunk that has some, seat by seat; then ask for `result()`.
export class Sums {
  constructor(run, from, to) {
    Object.assign(this, { run, from, to });
    this.types = run.types.map(empty);
    const seats = run.counts.length;
    this.seats = Array.from({ length: seats }, () => ({
      busy: 0,
      overhead: 0,
      idle: 0,
      asleep: 0,
      away: 0,
      waits: [0, 0, 0],
      invocations: 0,
      near: 0,
      far: 0,
      rules: new Map(),
      events: 0,
    }));
    /// What the boxes of queries did, by model and box.
    this.work = new Map();
    this.vias = run.vias.map(() => ({ envelopes: 0, rows: 0, inside: 0, refused: 0, blocked: 0, overdrawn: 0, spilled: 0 }));
    this.takes = Array.from({ length: seats }, () => new Float64Array(seats));
    this.inputs = new Map();
    this.outputs = new Map();
    run.vias.forEach(([model, sender, output, receiver, input], number) => {
      this.inputs.set(`${model}.${receiver}.${input}`, number);
      const name = `${model}.${sender}.${output}`;
      this.outputs.set(name, [...(this.outputs.get(name) ?? []), number]);
    });
    this.begun = new Set();
    this.spawnedBefore = new Set();
    this.spawns = [];
    this.keyOfTask = new Map();
    /// Events with causes, whose times are known when all chunks are here.
    this.waits = [];
    this.stalls = [];
    this.times = new Map();
  }

  #type(key) {
    return this.types[this.run.typeOf[key]];
  }

  /// The work of a box, if it is one of a query.
  #work(request, box) {
    const model = this.run.modelOf.get(request);
    if (!this.run.header.operators?.[model]?.length) return null;
    const name = `${model}.${box}`;
    if (!this.work.has(name)) this.work.set(name, { invocations: 0, busy: 0, near: 0, far: 0, rows: {} });
    return this.work.get(name);
  }

  chunk(entry, chunk) {
    const { from, to, run } = this;
    const seat = new Seat(entry);
    const total = this.seats[entry.seat];
    const isCallers = run.header.seats[entry.seat].is_callers;
    const slice = (begin, end, state, frame) => {
      const ns = Math.min(end, to) - Math.max(begin, from);
      if (ns <= 0 || isCallers) return;
      if (state === BUSY) {
        total.busy += ns;
        this.#type(frame.key).busy += ns;
        const work = this.#work(frame.request, frame.index);
        if (work) work.busy += ns;
        return;
      }
      if (state === LOOKS || state === AROUND) {
        total.overhead += ns;
        return;
      }
      total.idle += ns;
      const wait = WAITS.indexOf(state);
      if (state === ASLEEP) total.asleep += ns;
      else if (state === AWAY) total.away += ns;
      else {
        total.waits[wait] += ns;
        this.#type(frame.key).waits[wait] += ns;
      }
    };
    this.times.set(entry.number, chunk.time);
    for (let at = 0; at < chunk.count; at += 1) {
      seat.step(chunk, at, slice);
      const now = chunk.time[at];
      const number = chunk.job[at];
      const { jobs } = chunk;
      const index = number < 0 ? NONE : jobs.index[number];
      if (index >= TASKS && index !== NONE) this.keyOfTask.set(index, jobs.key[number]);
      if (now < from || now > to) continue;
      total.events += 1;
      if (number < 0) continue;
      this.#event(entry, chunk, at, seat);
    }
    seat.cut(endOf(entry, seat, chunk), slice);
  }

  #event(entry, chunk, at, seat) {
    const { kind, detail, port, value, jobs } = chunk;
    const number = chunk.job[at];
    const [request, index, key] = [jobs.request[number], jobs.index[number], jobs.key[number]];
    const total = this.seats[entry.seat];
    const type = this.#type(key);
    const isBox = index < TASKS;
    const work = isBox ? this.#work(request, index) : null;
    const seen = () => isBox && type.boxes.add(`${request}.${index}`);
    const model = () => this.run.modelOf.get(request);
    const cause = () => ({
      at: chunk.time[at],
      seat: chunk.causeSeat[at],
      index: chunk.causeIndex[at],
    });
    switch (kind[at]) {
      case KIND['invocation-begins']:
        total.invocations += 1;
        type.invocations += 1;
        if (work) work.invocations += 1;
        seen();
        break;
      case KIND['user-code-begins']: {
        const top = seat.frames.at(-1);
        if (top && !(top.flags & 1) && (index === NONE || !this.begun.has(index))) {
          if (index !== NONE) this.begun.add(index);
          type.invocations += 1;
          seen();
        }
        break;
      }
      case KIND.taken: {
        total[port[at] ? 'far' : 'near'] += 1;
        total.rules.set(detail[at], (total.rules.get(detail[at]) ?? 0) + 1);
        if (chunk.causeSeat[at] >= 0) {
          this.takes[entry.seat][chunk.causeSeat[at]] += 1;
          this.waits.push({ ...cause(), add: (ns) => (type.queued += ns) });
          seen();
        }
        break;
      }
      case KIND['envelope-received']: {
        const isOne = !detail[at] || value[at] > 0 ? 1 : 0;
        type.envelopesIn += isOne;
        type.rowsIn += value[at];
        seen();
        const via = this.vias[this.inputs.get(`${model()}.${index}.${port[at]}`)];
        if (!via) break;
        via.envelopes += isOne;
        via.rows += value[at];
        if (chunk.causeSeat[at] >= 0) this.waits.push({ ...cause(), add: (ns) => (via.inside += ns) });
        break;
      }
      case KIND['envelope-sent']:
        type.envelopesOut += !detail[at] || value[at] > 0 ? 1 : 0;
        type.rowsOut += value[at];
        if (work) work.rows[port[at]] = (work.rows[port[at]] ?? 0) + value[at];
        seen();
        break;
      case KIND['envelope-created']:
        type.made += value[at];
        seen();
        break;
      case KIND['bytes-read']:
        type[port[at] ? 'far' : 'near'] += value[at];
        if (work) work[port[at] ? 'far' : 'near'] += value[at];
        seen();
        break;
      case KIND.enqueued:
      case KIND.spawned:
        if (isBox || value[at] === NONE) break;
        if (kind[at] === KIND.spawned) this.spawnedBefore.add(index);
        this.spawns.push({ isSpawn: kind[at] === KIND.spawned, index, request, by: value[at] });
        break;
      case KIND.refused:
      case KIND.resumed: {
        const isRefused = kind[at] === KIND.refused;
        const vias = (this.outputs.get(`${model()}.${index}.${port[at]}`) ?? []).map((via) => this.vias[via]);
        if (isRefused) vias.forEach((via) => (via.refused += 1));
        this.stalls.push({ who: `${request}.${index}`, output: port[at], isRefused, at: chunk.time[at], type, vias });
        seen();
        break;
      }
      case KIND.overdrawn:
        // Without more bytes, envelopes go outside of memory.
        for (const via of this.outputs.get(`${model()}.${index}.${port[at]}`) ?? [])
          this.vias[via][value[at] ? 'overdrawn' : 'spilled'] += 1;
        break;
      default:
    }
  }

  /// The time of an event, if it is in the chunks that were given.
  #timeOf(seat, index) {
    const { chunks } = this.run;
    this.firsts ??= this.run.counts.map((_, seat) => chunks.findIndex((entry) => entry[0] === seat));
    for (let at = this.firsts[seat]; at >= 0 && at < chunks.length && chunks[at][0] === seat; at += 1) {
      const [, start, count] = chunks[at];
      if (index < start + count) return this.times.get(at)?.[index - start];
    }
    return undefined;
  }

  result() {
    const { from, to } = this;
    for (const { at, seat, index, add } of this.waits) {
      // A cause before the chunks of the range is before the range.
      const since = this.#timeOf(seat, index) ?? from;
      add(Math.max(0, at - Math.max(from, since)));
    }
    for (const { isSpawn, index, request, by } of this.spawns) {
      if (!isSpawn && this.spawnedBefore.has(index)) continue;
      const key = by < TASKS ? this.run.keyOfBox(request, by) : this.keyOfTask.get(by);
      this.#type(key ?? this.run.taskKey).spawned += 1;
    }
    this.stalls.sort((a, b) => a.at - b.at);
    const blocked = new Map();
    const end = (state, at) => state.outputs.size === 0 && (state.type.blocked += at - state.since);
    for (const { who, output, isRefused, at, type, vias } of this.stalls) {
      let state = blocked.get(who);
      // What resumes without a refusal in the range was refused before it.
      if (!state) blocked.set(who, (state = { outputs: new Map(), since: isRefused ? at : from, type }));
      if (isRefused) {
        if (state.outputs.size === 0) state.since = at;
        state.outputs.set(output, { at, vias });
      } else {
        const since = state.outputs.get(output)?.at ?? from;
        state.outputs.delete(output);
        vias.forEach((via) => (via.blocked += at - since));
        end(state, at);
        state.since = at;
      }
    }
    for (const state of blocked.values()) {
      if (state.outputs.size === 0) continue;
      state.type.blocked += to - state.since;
      for (const { at, vias } of state.outputs.values()) vias.forEach((via) => (via.blocked += to - at));
    }
    return {
      types: this.types.map((type) => ({ ...type, boxes: type.boxes.size })),
      seats: this.seats.map((seat) => ({ ...seat, rules: [...seat.rules].sort((a, b) => a[0] - b[0]) })),
      vias: this.vias,
      work: this.work,
      takes: this.takes.map((row) => [...row]),
    };
  }
}

/// What a page says of a run, with the maps that sums need.
export function prepared(index, header) {
  const modelOf = new Map();
  header.models.forEach((model, number) => model.requests.forEach((request) => modelOf.set(request, number)));
  const keyByName = new Map(index.keys.map(({ name, type }, key) => [`${type}\n${name}`, key]));
  const keyOf = (name, type) => keyByName.get(`${type}\n${name}`) ?? keyByName.get(`${type}\n${type}`);
  const keyOfBox = (request, box) => {
    const info = header.models[modelOf.get(request)]?.boxes[box];
    return info ? keyOf(info.name, info.type_name) : keyOf('(unknown)', '(unknown)');
  };
  return { ...index, header, modelOf, keyOfBox, taskKey: keyOf('(task)', '(task)') };
}
