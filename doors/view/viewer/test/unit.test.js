// What of the viewer needs no browser: `npm test`. `fixture.json` is from doors/view/tests/viewer.rs: data of a page, and what the
// trace says of itself.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { constants, deflateRawSync } from 'node:zlib';
import { BUSY, WAITS, entryOf, slicesOf } from '../src/activity.js';
import { duration, ms, tickText, ticks } from '../src/format.js';
import { Pass } from '../src/pass.js';
import { chunksIn, eventsIn, keysOf, levelFor, rowsOf, seatsOf } from '../src/rows.js';
import { traceOf } from '../src/save.js';
import { stateOf, textOf } from '../src/state.js';
import { Sums, prepared } from '../src/sums.js';
import { KIND, KINDS, NONE, TASKS, bytesOf, inflated, inflatedNow, rawEvents, told, unpack } from '../src/unpack.js';

const { scripts, summary, file } = JSON.parse(readFileSync(new URL('fixture.json', import.meta.url)));
const header = JSON.parse(scripts.h0);
const run = prepared(JSON.parse(scripts.r0), header);
const plain = await Promise.all(run.chunks.map((_, chunk) => inflated(bytesOf(scripts[`c0-${chunk}`]))));
const chunks = plain.map((bytes, chunk) => ({
  entry: entryOf(run, chunk),
  chunk: unpack(bytes, entryOf(run, chunk).base),
}));

function sumsOf(from, to) {
  const sums = new Sums(run, from, to);
  chunks.forEach(({ entry, chunk }) => sums.chunk(entry, chunk));
  return sums.result();
}

test('events are unpacked as they were recorded', () => {
  assert.deepEqual(
    run.counts,
    chunks.map(({ chunk }) => chunk.count),
  );
  for (const { chunk } of chunks) {
    assert(chunk.time.every((time, at) => at === 0 || time >= chunk.time[at - 1]));
    assert(chunk.order.every((order, at) => at === 0 || order > chunk.order[at - 1]));
  }
  assert.equal(KINDS[chunks[0].chunk.kind[0]], 'taken');
  assert.equal(told(chunks[0].chunk, 0), 'rule 3, near');
});

test('the trace that is saved is the one that was recorded, byte for byte', async () => {
  const parts = await traceOf(run, scripts.h0, (chunk) => {
    const { time, order } = entryOf(run, chunk);
    return rawEvents(plain[chunk], time, order);
  });
  const saved = Buffer.concat(parts.map((part) => Buffer.from(part))).toString('hex');
  // The header is JSON, in which `<` may be written as an escape: the page has it so.
  const length = Buffer.from(file.slice(24, 32), 'hex').readUInt32LE();
  const events = file.slice(32 + 2 * length);
  assert.equal(saved.slice(-events.length), events);
  const savedHeader = Buffer.from(saved.slice(32, -events.length), 'hex').toString();
  assert.deepEqual(JSON.parse(savedHeader), JSON.parse(Buffer.from(file.slice(32, 32 + 2 * length), 'hex').toString()));
  assert.match(savedHeader, /18446744073709551615/, 'numbers of 64 bits survive');
});

test('the sums of the whole run are those of the summary', () => {
  const { types, seats } = sumsOf(0, run.spanNs);
  for (const row of summary.boxes) {
    const sum = types[run.types.indexOf(row.type_name)];
    assert.deepEqual(
      {
        boxes: sum.boxes,
        invocations: sum.invocations,
        spawned: sum.spawned,
        queued_ns: sum.queued,
        busy_ns: sum.busy,
        blocked_ns: sum.blocked,
        envelopes_in: sum.envelopesIn,
        rows_in: sum.rowsIn,
        envelopes_out: sum.envelopesOut,
        rows_out: sum.rowsOut,
        bytes_created: sum.made,
        near_bytes: sum.near,
        far_bytes: sum.far,
      },
      Object.fromEntries(Object.entries(row).filter(([name]) => name !== 'type_name')),
      row.type_name,
    );
  }
  for (const row of summary.seats) {
    const sum = seats[row.seat];
    const { busy, overhead, idle, invocations, near, far } = sum;
    const takes = row.takes.reduce(([near, far], take) => [near + take.near, far + take.far], [0, 0]);
    assert.deepEqual(
      [busy, overhead, idle, invocations, near, far],
      [row.busy_ns, row.overhead_ns, row.idle_ns, row.invocations, ...takes],
      `seat ${row.seat}`,
    );
  }
});

test('the parts of a run add up to the whole', () => {
  const whole = sumsOf(0, run.spanNs);
  const middle = Math.floor(run.spanNs * 0.37) + 0.5;
  const [one, other] = [sumsOf(0, middle), sumsOf(middle, run.spanNs)];
  whole.types.forEach((sum, type) => {
    for (const name of ['busy', 'blocked', 'queued', 'rowsIn', 'rowsOut', 'near', 'far'])
      assert(
        Math.abs(one.types[type][name] + other.types[type][name] - sum[name]) < 1e-6,
        `${run.types[type]} ${name}`,
      );
  });
  whole.vias.forEach((sum, via) => {
    for (const name of ['rows', 'inside', 'refused', 'blocked'])
      assert(Math.abs(one.vias[via][name] + other.vias[via][name] - sum[name]) < 1e-6, `via ${via} ${name}`);
  });
  assert.equal(whole.vias[0].refused, 3);
});

function passOf(from, to) {
  const pass = new Pass(run, from, to);
  chunks.forEach(({ entry, chunk }) => pass.chunk(entry, chunk));
  return pass.result();
}

test('the longest chain of the whole run is the one that the page was written with', () => {
  const { chain } = passOf(0, run.spanNs);
  assert(chain.ns > 0 && run.chain.without.length > 2);
  assert.deepEqual([chain.ns, chain.without], [run.chain.ns, run.chain.without]);
  const sum = chain.ofTypes.reduce((sum, ns) => sum + ns, 0);
  assert.equal(sum, chain.ns, 'its parts by type are all of it');
  chain.without.forEach(([type, ns]) => assert(ns <= chain.ns && ns >= chain.ns - sumsOf(0, run.spanNs).types[type].busy));
});

test('the longest chain of a part has no more than the part of the time, and the parts no less than the whole', () => {
  const whole = passOf(0, run.spanNs).chain.ns;
  for (const share of [0.1, 0.37, 0.5, 0.81]) {
    const middle = Math.floor(run.spanNs * share) + 0.5;
    const [one, other] = [passOf(0, middle).chain.ns, passOf(middle, run.spanNs).chain.ns];
    assert(one <= middle && other <= run.spanNs - middle);
    assert(one + other >= whole - 1e-6, `${one} and ${other} beside ${whole}`);
  }
});

/// A run of tasks by the events of its only seat: time, kind, task, and the spawner or what a wait is for.
function tasksOf(events) {
  const number = (task) => (task === null ? NONE : TASKS + task);
  const tasks = [...new Set(events.map(([, , task]) => task))];
  const isWait = (kind) => kind === 'wait-begins';
  const chunk = {
    count: events.length,
    kind: Uint8Array.from(events, ([, kind]) => KIND[kind]),
    time: Float64Array.from(events, ([time]) => time),
    order: Float64Array.from(events, (_, at) => at),
    job: Int32Array.from(events, ([, , task]) => tasks.indexOf(task)),
    jobs: { request: tasks.map(() => 1), index: tasks.map(number), key: tasks.map(() => 0) },
    detail: Uint8Array.from(events, ([, kind, , more]) => (isWait(kind) ? more : 0)),
    port: new Uint16Array(events.length),
    value: Uint32Array.from(events, ([, kind, , more]) => (isWait(kind) ? 0 : number(more ?? null))),
    causeSeat: new Int32Array(events.length).fill(-1),
    causeIndex: new Float64Array(events.length),
  };
  const spanNs = events.at(-1)[0];
  const run = {
    header: { seats: [{}] },
    chain: { without: [] },
    chunks: [[0]],
    counts: [events.length],
    rates: [1, 1],
    vias: [],
    types: ['task'],
    typeOf: [0],
    modelOf: new Map(),
    taskKey: 0,
    spanNs,
  };
  const state = { since: 0, rest: 0, lent: 0, frames: [], near: 0, far: 0, taken: null };
  return { run, chunk, entry: { run, seat: 0, number: 0, start: 0, from: 0, order: '0', state } };
}

function chainOf(events) {
  const { run, chunk, entry } = tasksOf(events);
  const pass = new Pass(run, 0, run.spanNs);
  pass.chunk(entry, chunk);
  return pass.result().chain.ns;
}

const [CHILDREN, SECTION, TEAM] = [0, 1, 2];

test('the spawner of a task, and not its predecessor, waits for it', () => {
  // Task 0 spawns tasks 1 and 2 and waits for both; 2 follows 1 by its data, and is queued when that one ends.
  const events = [
    [0, 'enqueued', 9, null],
    [0, 'user-code-begins', 9],
    [1, 'enqueued', 0, 9],
    [1, 'user-code-ends', 9],
    [1, 'user-code-begins', 0],
    [11, 'spawned', 1, 0],
    [11, 'enqueued', 1, 0],
    [11, 'spawned', 2, 0],
    [11, 'wait-begins', 0, CHILDREN],
    [11, 'user-code-begins', 1],
    [41, 'enqueued', 2, 1],
    [41, 'user-code-ends', 1],
    [41, 'user-code-begins', 2],
    [141, 'user-code-ends', 2],
    [141, 'wait-ends', 0],
    [148, 'user-code-ends', 0],
  ];
  assert.equal(chainOf(events), 1 + 10 + 30 + 100 + 7);
});

test('a wait for children is no barrier, and a group has grandchildren', () => {
  const alone = [
    [0, 'enqueued', 9, null],
    [0, 'enqueued', 0, null],
    [0, 'user-code-begins', 9],
    [500, 'user-code-ends', 9],
    [500, 'user-code-begins', 0],
    [510, 'enqueued', 1, 0],
    [510, 'wait-begins', 0, CHILDREN],
    [510, 'user-code-begins', 1],
    [530, 'user-code-ends', 1],
    [530, 'wait-ends', 0],
    [1010, 'user-code-ends', 0],
  ];
  assert.equal(chainOf(alone), 10 + 20 + 480);
  const barrier = alone.map((event) => (event[1] === 'wait-begins' ? [510, 'wait-begins', 0, TEAM] : event));
  assert.equal(chainOf(barrier), 500 + 480, 'a barrier waits for task 9 as well');
  const group = [
    [0, 'enqueued', 0, null],
    [0, 'user-code-begins', 0],
    [10, 'enqueued', 1, 0],
    [10, 'section-begins', 0],
    [10, 'enqueued', 2, 0],
    [10, 'wait-begins', 0, SECTION],
    [10, 'user-code-begins', 1],
    [310, 'user-code-ends', 1],
    [310, 'user-code-begins', 2],
    [315, 'enqueued', 3, 2],
    [318, 'user-code-ends', 2],
    [318, 'user-code-begins', 3],
    [418, 'user-code-ends', 3],
    [418, 'wait-ends', 0],
    [718, 'user-code-ends', 0],
  ];
  assert.equal(chainOf(group), 10 + 5 + 100 + 300);
});

test('waits are told apart by what they are for', () => {
  const events = [
    [0, 'user-code-begins', 0],
    [10, 'wait-begins', 0, TEAM],
    [14, 'wait-ends', 0],
    [20, 'wait-begins', 0, SECTION],
    [23, 'wait-ends', 0],
    [30, 'wait-begins', 0, CHILDREN],
    [35, 'wait-ends', 0],
    [40, 'user-code-ends', 0],
  ];
  const { run, chunk, entry } = tasksOf(events);
  assert.deepEqual([...slicesOf(entry, chunk).state], [BUSY, WAITS[TEAM], BUSY, WAITS[SECTION], BUSY, WAITS[CHILDREN], BUSY]);
  const sums = new Sums(run, 0, 40);
  sums.chunk(entry, chunk);
  const { types, seats } = sums.result();
  assert.deepEqual([types[0].waits, seats[0].waits, seats[0].idle, seats[0].busy], [[5, 3, 4], [5, 3, 4], 12, 28]);
});

test('waiting for memory is what the bytes take at the given bandwidths', () => {
  const { chunk, entry } = tasksOf([
    [0, 'user-code-begins', 0],
    [0, 'bytes-read', 0],
    [0, 'bytes-read', 0],
    [100, 'user-code-ends', 0],
  ]);
  entry.run.rates = [2, 1];
  chunk.value.set([0, 50, 40, 0]);
  chunk.port.set([0, 0, 1, 0]);
  // 50 bytes from near memory at 2 bytes a nanosecond, and 40 from far memory at 1: 65 of 100 ns.
  assert.deepEqual([...slicesOf(entry, chunk).wait], [Math.fround(0.65)]);
});

test('a via holds what was sent and is not yet received', () => {
  // The made-up run sends an envelope, which the next box takes before there is another one.
  assert.deepEqual(passOf(0, run.spanNs).most, [1, 1]);
});

test('slices of a seat do not overlap', () => {
  for (const { entry, chunk } of chunks) {
    const slices = slicesOf(entry, chunk);
    slices.begin.forEach((begin, at) => assert(begin < slices.end[at] && (at === 0 || begin >= slices.end[at - 1])));
  }
  const { state, wait, far } = slicesOf(chunks[1].entry, chunks[1].chunk);
  const at = far.findIndex((bytes) => bytes > 0);
  assert.equal(state[at], BUSY);
  assert(wait[at] > 0 && wait[at] < 1);
});

test('what a slice waited for is known by its cause', () => {
  const { chunk } = chunks[1];
  const at = chunk.kind.findIndex((kind) => KINDS[kind] === 'envelope-received');
  assert.equal(chunk.causeSeat[at], 0);
  const { chunk: other } = chunks[0];
  assert.equal(KINDS[other.kind[chunk.causeIndex[at]]], 'envelope-sent');
  assert.equal(other.value[chunk.causeIndex[at]], chunk.value[at], 'the same rows');
});

test('rows are by node and core group, without callers', () => {
  assert.deepEqual(
    seatsOf(run).map(({ number }) => number),
    [0, 1, 2],
  );
  const { rows } = rowsOf([run], 'cores', 0);
  assert.deepEqual(
    rows.map(({ label }) => label),
    ['node 0', 'core group 0', 'seat 0', 'core group 1', 'seat 1', 'node 1', 'core group 2', 'seat 2'],
  );
  assert(rows.every(({ top }, at) => at === 0 || top >= rows[at - 1].top + rows[at - 1].height));
  assert.equal(run.keys[keysOf(run)[0]].type, '<work>');
});

test('a level is as fine as the window needs', () => {
  assert.deepEqual(levelFor(3, 1e9, [0, 1e9], 1000), { level: 0, enough: true });
  assert.deepEqual(levelFor(3, 1e9, [0, 1e8], 1000), { level: 2, enough: true });
  assert.deepEqual(levelFor(3, 1e9, [0, 1e6], 1000), { level: 2, enough: false });
});

test('chunks and events of a range', () => {
  assert.deepEqual(chunksIn(run, 1, [0, run.spanNs]), [1]);
  assert.equal(eventsIn(run, 1, [0, run.spanNs * 2]), run.counts[1]);
});

test('a state comes back from its link, and a foreign one is left out', () => {
  const state = {
    window: [10, 500],
    span: 1000,
    rowsBy: 'boxes',
    by: 'memory',
    isChain: true,
    mark: { kind: 'via', id: 3, run: 1 },
    range: [20, 40],
    chosen: { run: 0, seat: 2, begin: 30, end: 34 },
  };
  assert.deepEqual(stateOf(textOf(state)), {
    window: [10, 500],
    range: [20, 40],
    rows: 'boxes',
    by: 'memory',
    chain: true,
    mark: { kind: 'via', id: 3, run: 1 },
    slice: { run: 0, seat: 2, at: 32 },
  });
  assert.equal(textOf({ window: [0, 9], span: 9, rowsBy: 'cores', by: 'type' }), '');
  const foreign = stateOf('at=9-3&rows=planets&mark=<b>:1:0&slice=x&more');
  assert.deepEqual(Object.values(foreign).filter(Boolean), []);
});

test('numbers read well', () => {
  assert.equal(duration(999), '999 ns');
  assert.equal(duration(12_345), '12.35 µs');
  assert.equal(duration(67_520_000), '67.52 ms');
  assert.equal(ms(2_500_499), '2.500');
  assert.equal(ms(2_500_500), '2.501');
  assert.deepEqual(ticks(0, 100, 5), { step: 20, all: [0, 20, 40, 60, 80, 100] });
  assert.equal(tickText(1_500_000, 500_000, 5e6), '1.5 ms');
  assert.equal(tickText(20, 20, 100), '20 ns');
});

test('what is drawn first is unpacked as by others', () => {
  // By zlib, with stored, fixed and other codes; bytes from a fixed seed, with and without repetitions.
  let seed = 7;
  const random = () => (seed = (seed * 1103515245 + 12345) % 2 ** 31) / 2 ** 31;
  const texts = [
    Buffer.alloc(0),
    Buffer.from('a'),
    Buffer.alloc(70_000, 3),
    Buffer.from(Array.from({ length: 40_000 }, () => Math.floor(random() * 256))),
    Buffer.from(Array.from({ length: 40_000 }, (_, at) => Math.floor(random() ** 6 * 40) + (at % 700 === 0 ? 100 : 0))),
    Buffer.from('the same again and again, '.repeat(3000)),
  ];
  for (const text of texts) {
    for (const options of [{ level: 0 }, { level: 1 }, { level: 9 }, { strategy: constants.Z_FIXED }, { strategy: constants.Z_HUFFMAN_ONLY }]) {
      const packed = deflateRawSync(text, options);
      assert.deepEqual(Buffer.from(inflatedNow(packed)), text, JSON.stringify(options));
      if (text.length > 100) assert.throws(() => inflatedNow(packed.subarray(0, packed.length / 2)));
    }
  }
});
