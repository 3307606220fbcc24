// Packed events, as doors/view/src/pack.rs writes them: text to bytes, bytes to columns.

/// The kinds of events by their numbers in a trace file.
export const KINDS = [
  'enqueued',
  'taken',
  'invocation-begins',
  'invocation-ends',
  'user-code-begins',
  'user-code-ends',
  'envelope-received',
  'envelope-created',
  'envelope-sent',
  'refused',
  'resumed',
  'sleep-begins',
  'sleep-ends',
  'woke',
  'request-submitted',
  'request-ended',
  'lent-begins',
  'lent-ends',
  'bytes-read',
  'envelope-left',
  'footprint',
  'held',
  'spawned',
  'envelope-kept',
  'follows',
  'uses',
  'uses-bytes',
  'section-begins',
  'wait-begins',
  'wait-ends',
  'named',
  'dealt',
  'overdrawn',
];

export const KIND = Object.fromEntries(KINDS.map((name, number) => [name, number]));

/// The index of a task without a number, and of no box.
export const NONE = 0xffffffff;
/// The first index of tasks that are not boxes.
export const TASKS = 0x80000000;

const set = (names) => {
  const bits = new Uint8Array(256);
  names.split(' ').forEach((name) => (bits[KIND[name]] = 1));
  return bits;
};
const NO_JOB = set('sleep-begins sleep-ends woke request-submitted request-ended lent-begins lent-ends');
const DETAIL = set('enqueued taken envelope-received envelope-sent request-ended follows uses wait-begins dealt');
const PORT = set(
  'taken envelope-received envelope-left envelope-kept envelope-created envelope-sent refused resumed overdrawn ' +
    'bytes-read footprint follows uses uses-bytes dealt',
);
const VALUE = set(
  'enqueued spawned envelope-received envelope-created envelope-sent overdrawn bytes-read footprint held named follows ' +
    'uses uses-bytes dealt woke lent-begins request-submitted request-ended',
);
const CAUSE = set('taken envelope-received resumed');
const MAKER = set('enqueued spawned');
const ADDRESS = set('follows uses');

/// Bytes from base64.
export function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const plain = atob(text);
  const bytes = new Uint8Array(plain.length);
  for (let at = 0; at < plain.length; at += 1) bytes[at] = plain.charCodeAt(at);
  return bytes;
}

/// What raw DEFLATE has packed.
export async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/// The same at once (RFC 1951, §3.2), for what is drawn first: a stream's answer comes behind the rest of the page.
export function inflatedNow(bytes) {
  let [at, bits, count] = [0, 0, 0];
  const out = [];
  const check = () => {
    if (at > bytes.length) throw new Error('a picture ends too early');
  };
  const take = (wanted) => {
    for (; count < wanted; count += 8) bits |= bytes[at++] << count;
    check();
    const value = bits & ((1 << wanted) - 1);
    bits >>>= wanted;
    count -= wanted;
    return value;
  };
  const decoder = (lengths) => {
    const counts = Array(16).fill(0);
    lengths.forEach((length) => length && (counts[length] += 1));
    const symbols = lengths
      .map((length, symbol) => ({ length, symbol }))
      .filter(({ length }) => length)
      .sort((a, b) => a.length - b.length || a.symbol - b.symbol);
    return () => {
      let [code, first, index] = [0, 0, 0];
      for (let length = 1; length < 16; length += 1) {
        code |= take(1);
        if (code - counts[length] < first) return symbols[index + code - first].symbol;
        index += counts[length];
        first = (first + counts[length]) << 1;
        code <<= 1;
      }
      throw new Error('a damaged picture');
    };
  };
  for (let isLast = 0; !isLast; ) {
    isLast = take(1);
    const kind = take(2);
    if (kind === 0) {
      [bits, count] = [0, 0];
      const length = bytes[at] | (bytes[at + 1] << 8);
      at += 4;
      for (const end = at + length; at < end; at += 1) out.push(bytes[at]);
      check();
      continue;
    }
    let lengths = Array.from({ length: 318 }, (_, of) => (of < 144 ? 8 : of < 256 ? 9 : of < 280 ? 7 : of < 288 ? 8 : 5));
    let literals = 288;
    if (kind === 2) {
      literals = take(5) + 257;
      const all = literals + take(5) + 1;
      const own = Array(19).fill(0);
      const order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
      for (let of = 0, most = take(4) + 4; of < most; of += 1) own[order[of]] = take(3);
      const next = decoder(own);
      lengths = [];
      while (lengths.length < all) {
        const symbol = next();
        const [value, times] =
          symbol < 16 ? [symbol, 1] : symbol === 16 ? [lengths.at(-1), 3 + take(2)] : [0, symbol === 17 ? 3 + take(3) : 11 + take(7)];
        for (let of = 0; of < times; of += 1) lengths.push(value);
      }
    }
    const [literal, distance] = [decoder(lengths.slice(0, literals)), decoder(lengths.slice(literals))];
    for (let symbol = literal(); symbol !== 256; symbol = literal()) {
      if (symbol < 256) {
        out.push(symbol);
        continue;
      }
      /// A code above `plain` has extra bits, one more for each `steps` codes.
      const far = (code, plain, steps) => {
        const extra = code < plain ? 0 : Math.floor(code / steps) - 1;
        return code < plain ? code : ((steps + (code % steps)) << extra) + take(extra);
      };
      const length = symbol === 285 ? 258 : 3 + far(symbol - 257, 8, 4);
      const from = out.length - 1 - far(distance(), 4, 2);
      for (let of = 0; of < length; of += 1) out.push(out[from + of]);
    }
  }
  return Uint8Array.from(out);
}

/// Numbers one after the other. Those beyond 2^53 are rounded: only a damaged trace has them.
class Numbers {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  next() {
    const { bytes } = this;
    let byte = bytes[this.at++];
    if (byte < 0x80) return byte;
    let number = byte & 0x7f;
    let scale = 128;
    do {
      byte = bytes[this.at++];
      if (byte === undefined) throw new Error('packed events end too early');
      number += (byte & 0x7f) * scale;
      scale *= 128;
    } while (byte >= 0x80);
    return number;
  }

  /// A difference.
  step() {
    const number = this.next();
    return number % 2 ? -(number + 1) / 2 : number / 2;
  }

  /// The same exactly, as a BigInt of 64 bits.
  exactStep() {
    let number = 0n;
    let shift = 0n;
    let byte;
    do {
      byte = this.bytes[this.at++];
      number |= BigInt(byte & 0x7f) << shift;
      shift += 7n;
    } while (byte >= 0x80);
    return (number >> 1n) ^ -(number & 1n);
  }
}

const wrap = (number) => (number % 2 ** 32) >>> 0;

/// The columns of a chunk, not yet taken apart.
function columnsOf(plain) {
  const head = new Numbers(plain);
  const count = head.next();
  const lengths = Array.from({ length: 10 }, () => head.next());
  let at = head.at;
  const columns = lengths.map((length) => new Numbers(plain.subarray(at, (at += length))));
  return { count, columns };
}

/// The events of a chunk by columns. `base` is the time, from the run's first event on, that the first event's counts from.
/// `job` is the number of the job among the chunk's `jobs`, or −1; `causeSeat` is −1 where no cause is known.
export function unpack(plain, base) {
  const { count, columns } = columnsOf(plain);
  const [kinds, times, orders, jobNumbers, newJobs, details, ports, values, causeSeats, causeIndexes] = columns;
  const kind = kinds.bytes.slice(0, count);
  const time = new Float64Array(count);
  const order = new Float64Array(count);
  const job = new Int32Array(count).fill(-1);
  const detail = new Uint8Array(count);
  const port = new Uint16Array(count);
  const value = new Uint32Array(count);
  const causeSeat = new Int32Array(count).fill(-1);
  const causeIndex = new Float64Array(count);
  const jobs = { request: [], index: [], key: [] };
  let [now, after, present, address] = [base, 0, -1, 0];
  const lastCauses = new Map();
  for (let at = 0; at < count; at += 1) {
    const of = kind[at];
    now += times.step();
    after += 1 + orders.step();
    time[at] = now;
    order[at] = after;
    if (!NO_JOB[of]) {
      const number = jobNumbers.next();
      if (number === 1) {
        const newest = jobs.request.length - 1;
        jobs.request.push(wrap((jobs.request[newest] ?? 0) + newJobs.step()));
        jobs.index.push(wrap((jobs.index[newest] ?? 0) + newJobs.step()));
        jobs.key.push(newJobs.next());
        present = newest + 1;
      } else if (number > 1) present = jobs.request.length - (number - 1);
      job[at] = present;
    }
    if (DETAIL[of]) detail[at] = details.bytes[details.at++];
    if (PORT[of]) port[at] = ports.next();
    if (VALUE[of]) {
      if (MAKER[of]) {
        const number = values.next();
        const by = number - 1;
        value[at] = number === 0 ? NONE : wrap(jobs.index[present] + (by % 2 ? -(by + 1) / 2 : by / 2));
      } else if (ADDRESS[of]) value[at] = address = wrap(address + values.step());
      else value[at] = values.next();
    }
    if (CAUSE[of]) {
      const seat = causeSeats.next() - 1;
      if (seat >= 0) {
        const index = (lastCauses.get(seat) ?? 0) + causeIndexes.step();
        lastCauses.set(seat, index);
        causeSeat[at] = seat;
        causeIndex[at] = index;
      }
    }
  }
  return { count, kind, time, order, job, jobs, detail, port, value, causeSeat, causeIndex };
}

/// The events of a chunk as in a trace file, 32 bytes each. `time` and `order` are the exact numbers they count from.
export function rawEvents(plain, time, order) {
  const { count, columns } = columnsOf(plain);
  const [, times, orders] = columns;
  const { kind, job, jobs, detail, port, value } = unpack(plain, 0);
  const bytes = new Uint8Array(count * 32);
  const view = new DataView(bytes.buffer);
  let [now, after] = [BigInt(time), BigInt(order)];
  for (let at = 0; at < count; at += 1) {
    now = BigInt.asUintN(64, now + times.exactStep());
    after = BigInt.asUintN(64, after + 1n + orders.exactStep());
    const begin = at * 32;
    view.setBigUint64(begin, now, true);
    view.setBigUint64(begin + 8, after, true);
    bytes[begin + 16] = kind[at];
    bytes[begin + 17] = detail[at];
    view.setUint16(begin + 18, port[at], true);
    const isRequest = kind[at] === KIND['request-submitted'] || kind[at] === KIND['request-ended'];
    const request = isRequest ? value[at] : job[at] >= 0 ? jobs.request[job[at]] : 0;
    view.setUint32(begin + 20, request, true);
    view.setUint32(begin + 24, job[at] >= 0 ? jobs.index[job[at]] : 0, true);
    view.setUint32(begin + 28, isRequest ? 0 : value[at], true);
  }
  return bytes;
}

/// How a task uses bytes.
export const USES = ['reads', 'writes', 'reads and writes', 'concurrent', 'commutative'];

export const SOME_JOB = (index) => (index === NONE ? 'task' : index >= TASKS ? `task ${index - TASKS}` : `box ${index}`);

/// An event in words.
export function told(chunk, at) {
  const { kind, detail, port, value } = chunk;
  const [d, p, v] = [detail[at], port[at], value[at]];
  const rows = () => `${v} rows${d ? ', end of stream' : ''}`;
  switch (KINDS[kind[at]]) {
    case 'enqueued':
      return `${d ? 'deferred' : 'immediate'}${v === NONE ? '' : `, by ${SOME_JOB(v)}`}`;
    case 'spawned':
      return v === NONE ? '' : `by ${SOME_JOB(v)}`;
    case 'taken':
      return `rule ${d}, ${p ? 'far' : 'near'}`;
    case 'envelope-received':
      return `input ${p}, ${rows()}`;
    case 'envelope-sent':
      return `output ${p}, ${rows()}`;
    case 'envelope-created':
      return `output ${p}, ${v} bytes`;
    case 'envelope-left':
    case 'envelope-kept':
      return `input ${p}`;
    case 'refused':
    case 'resumed':
      return `output ${p}`;
    case 'overdrawn':
      return `output ${p}, ${v ? `${v} bytes more` : 'envelopes outside of memory'}`;
    case 'bytes-read':
    case 'footprint':
      return `${v} bytes ${p ? 'far' : 'near'}`;
    case 'held':
      return `${v} bytes`;
    case 'uses-bytes':
      return `${p * 2 ** 32 + v} bytes`;
    case 'follows':
    case 'uses': {
      return `${USES[d] ?? ''} from 0x${(p * 2 ** 32 + v).toString(16)} on`;
    }
    case 'wait-begins':
      return ['for its tasks', 'for the section’s tasks', 'for all tasks of the team'][d] ?? '';
    case 'woke':
      return `pool ${v}`;
    case 'lent-begins':
      return `for seat ${v}`;
    case 'request-submitted':
      return `request ${v}`;
    case 'request-ended':
      return `request ${v}, ${['done', 'failed', 'cancelled'][d] ?? ''}`;
    case 'dealt': {
      const to = v === NONE ? 'stays with its maker' : `to queue ${v}`;
      return `${to}, ${p} % of its bytes`;
    }
    default:
      return '';
  }
}
