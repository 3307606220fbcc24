// A recorded run, made long: the same events again and again, each time as requests of their own and in another time.

import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';

const EVENT = 32;

/// The parts of a trace file. The header is text: it has numbers that JavaScript would round.
function partsOf(path) {
  const bytes = readFileSync(path);
  const length = bytes.readUInt32LE(12);
  const header = bytes.toString('utf8', 16, 16 + length);
  let at = 16 + length;
  const logs = JSON.parse(header).seats.map(() => {
    const count = Number(bytes.readBigUInt64LE(at));
    const events = bytes.subarray(at + 8, at + 8 + count * EVENT);
    at += 8 + count * EVENT;
    return events;
  });
  return { header, logs };
}

const number = (events, at) => events.readUInt32LE(at) + events.readUInt32LE(at + 4) * 2 ** 32;
const put = (events, at, value) => {
  events.writeUInt32LE(value % 2 ** 32, at);
  events.writeUInt32LE(Math.floor(value / 2 ** 32), at + 4);
};

/// Writes a trace with the events of another one, `times` times; how many events it has.
export function repeat(from, to, times) {
  const { header, logs } = partsOf(from);
  let [first, last, orders, requests] = [Infinity, 0, 0, 0];
  for (const events of logs) {
    for (let at = 0; at < events.length; at += EVENT) {
      first = Math.min(first, number(events, at));
      last = Math.max(last, number(events, at));
      orders = Math.max(orders, number(events, at + 8));
      requests = Math.max(requests, events.readUInt32LE(at + 20));
    }
  }
  // Lengths that differ, so that the file is no smaller than that of a long run.
  const scaleOf = (turn) => 0.6 + (((turn * 2654435761) % 2 ** 32) / 2 ** 32) * 0.8;
  const begins = [first];
  for (let turn = 1; turn < times; turn += 1)
    begins.push(begins[turn - 1] + Math.ceil((last - first) * scaleOf(turn - 1)) + 1000);
  const file = openSync(to, 'w');
  const many = (_, of) => begins.flatMap((_, turn) => of.split(',').map((each) => Number(each) + turn * requests));
  const text = Buffer.from(header.replace(/"requests":\[([\d,]+)\]/g, (all, of) => `"requests":[${many(all, of)}]`));
  const head = Buffer.alloc(16);
  head.write('VICUSTRC');
  head.writeUInt32LE(4, 8);
  head.writeUInt32LE(text.length, 12);
  writeSync(file, head);
  writeSync(file, text);
  const count = Buffer.alloc(8);
  let all = 0;
  for (const events of logs) {
    put(count, 0, (events.length / EVENT) * times);
    writeSync(file, count);
    all += (events.length / EVENT) * times;
    const copy = Buffer.from(events);
    begins.forEach((begin, turn) => {
      const scale = scaleOf(turn);
      for (let at = 0; at < events.length; at += EVENT) {
        put(copy, at, begin + Math.floor((number(events, at) - first) * scale));
        put(copy, at + 8, number(events, at + 8) + turn * orders);
        const request = events.readUInt32LE(at + 20);
        copy.writeUInt32LE(request > 0 ? request + turn * requests : 0, at + 20);
      }
      writeSync(file, copy);
    });
  }
  writeSync(file, Buffer.alloc(8 * logs.length));
  closeSync(file);
  return all;
}
