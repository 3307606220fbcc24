// What needs the events of all seats in their order, as doors/view/src/pass.rs finds it: the longest chain of work in a range of time,
// what would be left of it if a type of box took no time, and how full vias were.

import { BUSY, Seat, waitOf } from './activity.js';
import { KIND, NONE, TASKS } from './unpack.js';

/// What is noted of events until all chunks are here.
const [RAN, FOLLOWS, ENDED, WAITED, SENT, RECEIVED, RESUMED, SECTION, CAME] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
/// What a wait is for.
const [CHILDREN, OF_SECTION, TEAM] = [0, 1, 2];
const HANDS_ON = new Set(['enqueued', 'spawned', 'envelope-sent', 'resumed'].map((name) => KIND[name]));

/// An event by one number.
const placeOf = (seat, index) => seat * 2 ** 40 + index;

/// Give it every chunk that has a part of the range `[from, to]`, seat by seat; then ask for `result()`.
export class Pass {
  constructor(run, from, to) {
    Object.assign(this, { run, from, to });
    this.asked = run.chain.without.map(([type]) => type);
    this.seats = new Map();
    this.requests = new Map();
    this.jobs = [];
    this.outputs = new Map();
    this.inputs = new Map();
    run.vias.forEach(([model, sender, output, receiver, input], via) => {
      this.inputs.set(`${model}.${receiver}.${input}`, via);
      const name = `${model}.${sender}.${output}`;
      this.outputs.set(name, [...(this.outputs.get(name) ?? []), via]);
    });
  }

  /// The number of a job.
  #job(request, index) {
    let known = this.requests.get(request);
    if (!known) this.requests.set(request, (known = new Map()));
    let number = known.get(index);
    if (number === undefined) {
      number = this.jobs.length;
      known.set(index, number);
      this.jobs.push({ request, index, isOne: index !== NONE, by: -1, depth: 0, length: null, sections: [] });
    }
    return number;
  }

  chunk(entry, chunk) {
    const { from, to } = this;
    let of = this.seats.get(entry.seat);
    // A seat goes on from chunk to chunk: a slice may be cut in one and end in the next.
    if (!of || of.next !== entry.number) {
      const { notes = [], last = -1 } = of ?? {};
      of = { seat: new Seat(entry), notes, last };
      this.seats.set(entry.seat, of);
    }
    of.next = entry.number + 1;
    const { notes, seat } = of;
    const base = Number(entry.order);
    const { kind, time, order, jobs, value } = chunk;
    let at = 0;
    const note = (op, who, by, ns = 0, key = 0) => notes.push([base + order[at], time[at], op, who, by, ns, key]);
    const slice = (begin, end, state, frame) => {
      const ns = Math.min(end, to) - Math.max(begin, from);
      if (state === BUSY && ns > 0) note(RAN, this.#job(frame.request, frame.index), 0, ns, frame.key);
    };
    for (; at < chunk.count; at += 1) {
      const what = kind[at];
      const top = seat.frames.at(-1);
      const before = top ? this.#job(top.request, top.index) : -1;
      const awaits = top ? waitOf(top) : -1;
      // What is handed on follows from the work up to here.
      if (HANDS_ON.has(what)) seat.cut(time[at], slice);
      else seat.step(chunk, at, slice);
      const number = chunk.job[at];
      if (number < 0) continue;
      const [request, index] = [jobs.request[number], jobs.index[number]];
      const who = this.#job(request, index);
      switch (what) {
        case KIND.enqueued:
        case KIND.spawned:
          note(FOLLOWS, who, value[at] === NONE ? before : this.#job(request, value[at]));
          break;
        case KIND['user-code-begins']:
          of.last = who;
          break;
        case KIND['user-code-ends']:
          if (index >= TASKS) note(ENDED, who, 0);
          break;
        case KIND['section-begins']:
          note(SECTION, who, 0);
          break;
        case KIND['wait-begins']:
          if (chunk.detail[at] === TEAM) note(CAME, who, 0);
          break;
        case KIND['wait-ends']:
          note(WAITED, who, who === before && awaits >= 0 ? awaits : CHILDREN);
          break;
        case KIND['envelope-sent']:
          note(SENT, who, placeOf(entry.seat, entry.start + at), chunk.port[at], !chunk.detail[at] || value[at] > 0 ? 1 : 0);
          break;
        case KIND['envelope-received']:
          if (chunk.causeSeat[at] < 0) break;
          note(RECEIVED, who, placeOf(chunk.causeSeat[at], chunk.causeIndex[at]), chunk.port[at]);
          break;
        case KIND.resumed:
          note(RESUMED, who, of.last);
          break;
        default:
      }
    }
  }

  /// All notes, by order, time and seat.
  *#merged() {
    const lists = [...this.seats].sort((a, b) => a[0] - b[0]).map(([, { notes }]) => ({ notes, at: 0 }));
    for (;;) {
      let best = null;
      for (const list of lists) {
        const note = list.notes[list.at];
        if (!note) continue;
        const other = best?.notes[best.at];
        if (!other || note[0] < other[0] || (note[0] === other[0] && note[1] < other[1])) best = list;
      }
      if (!best) return;
      yield best.notes[best.at++];
    }
  }

  result() {
    const { run, asked, jobs, from, to } = this;
    const wide = 1 + asked.length;
    // The lengths of a chain, in all and without each type; behind them the number of its last step.
    const none = () => new Float64Array(wide + 1);
    /// Whether a part of it has risen.
    const raise = (length, other) => {
      let is = false;
      if (!other) return is;
      if (other[0] > length[0]) length[wide] = other[wide];
      for (let place = 0; place < wide; place += 1) {
        is ||= other[place] > length[place];
        length[place] = Math.max(length[place], other[place]);
      }
      return is;
    };
    const teams = new Map();
    const teamOf = (request) => {
      if (!teams.has(request)) teams.set(request, { waiting: new Set(), leaving: new Set(), length: none() });
      return teams.get(request);
    };
    const best = none();
    const ofRequests = new Map();
    const sent = new Map();
    const steps = [];
    const vias = run.vias.map(() => ({ most: 0, inside: new Map() }));
    for (const [, time, op, who, by, ns, key] of this.#merged()) {
      const job = jobs[who];
      job.length ??= none();
      const isIn = time >= from && time <= to;
      switch (op) {
        case RAN: {
          if (!job.isOne) break;
          steps.push([ns, key, job.length[wide]]);
          job.length[wide] = steps.length;
          const own = asked.indexOf(run.typeOf[key]);
          for (let place = 0; place < wide; place += 1) if (place === 0 || place - 1 !== own) job.length[place] += ns;
          if (!ofRequests.has(job.request)) ofRequests.set(job.request, none());
          raise(ofRequests.get(job.request), job.length);
          raise(best, job.length);
          break;
        }
        case FOLLOWS:
          if (by < 0 || by === who || !jobs[by].isOne) {
            // A member of a team begins a region behind the last barrier of the one before.
            if (job.isOne) raise(job.length, teams.get(job.request)?.length);
            break;
          }
          // What queues a job later than it was spawned has released it, and is no parent of it.
          if (job.by < 0) [job.by, job.depth] = [by, jobs[by].sections.length];
          raise(job.length, jobs[by].length);
          break;
        case ENDED: {
          job.isOver = true;
          const chain = job.length.slice();
          raise(chain, job.descendants);
          if (job.by >= 0) raise((jobs[job.by].children ??= none()), job.length);
          // An ancestor that is not over hands on the chain when it ends.
          for (let [at, { depth }] = [job.by, job]; at >= 0; ) {
            const ancestor = jobs[at];
            const hasRisen = raise((ancestor.descendants ??= none()), chain);
            for (const section of ancestor.sections.slice(0, depth)) raise(section, chain);
            if (!hasRisen || !ancestor.isOver) break;
            [at, depth] = [ancestor.by, ancestor.depth];
          }
          break;
        }
        case SECTION:
          job.sections.push(none());
          break;
        case CAME:
          teamOf(job.request).waiting.add(who);
          break;
        case WAITED: {
          if (!job.isOne) break;
          if (by !== TEAM) {
            // The beginning of a section may be before the first chunk.
            raise(job.length, (by === OF_SECTION && job.sections.pop()) || job.children);
            break;
          }
          // What there is when the first member leaves is what all have waited for.
          const team = teamOf(job.request);
          if (!team.leaving.delete(who)) {
            team.length = (ofRequests.get(job.request) ?? none()).slice();
            [team.leaving, team.waiting] = [team.waiting, new Set()];
            team.leaving.delete(who);
          }
          raise(job.length, team.length);
          break;
        }
        case SENT: {
          sent.set(by, job.length.slice());
          for (const via of this.outputs.get(`${run.modelOf.get(job.request)}.${job.index}.${ns}`) ?? []) {
            const { inside } = vias[via];
            if (!inside.has(job.request)) inside.set(job.request, []);
            const all = inside.get(job.request);
            if (isIn) vias[via].most = Math.max(vias[via].most, all.length + key);
            all.push(by);
          }
          break;
        }
        case RECEIVED: {
          raise(job.length, sent.get(by));
          const all = vias[this.inputs.get(`${run.modelOf.get(job.request)}.${job.index}.${ns}`)]?.inside.get(job.request);
          const at = all ? all.indexOf(by) : -1;
          // What was sent before it and never received is passed over.
          if (at >= 0) all.splice(0, at + 1);
          break;
        }
        case RESUMED:
          if (by >= 0 && by !== who) raise(job.length, jobs[by].length);
          break;
        default:
      }
    }
    const ofTypes = run.types.map(() => 0);
    for (let at = best[wide]; at > 0; at = steps[at - 1][2]) ofTypes[run.typeOf[steps[at - 1][1]]] += steps[at - 1][0];
    const without = asked.map((type, place) => [type, best[place + 1]]);
    return { chain: { ns: best[0], ofTypes, without }, most: vias.map(({ most }) => most) };
  }
}
