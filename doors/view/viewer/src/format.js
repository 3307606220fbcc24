// Numbers and times for people, and the ticks of an axis. Pure functions.

/// Nanoseconds in the unit that reads best: `12.3 µs`.
export function duration(ns) {
  const size = Math.abs(ns);
  const [scale, unit] = size < 1e3 ? [1, 'ns'] : size < 1e6 ? [1e3, 'µs'] : size < 1e9 ? [1e6, 'ms'] : [1e9, 's'];
  return `${Number((ns / scale).toPrecision(4))} ${unit}`;
}

/// Nanoseconds as milliseconds with three digits, as the tables have them.
export function ms(ns) {
  const us = Math.floor((Math.round(ns) + 500) / 1000);
  return `${Math.floor(us / 1000)}.${String(us % 1000).padStart(3, '0')}`;
}

export const percent = (part, of) => (of > 0 ? `${((part / of) * 100).toFixed(1)} %` : '–');

/// Round times within a range, at most about `wanted`.
export function ticks(low, high, wanted) {
  const rough = (high - low) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(
    1,
    [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough * 0.999),
  );
  const all = [];
  for (let at = Math.ceil(low / step); at <= Math.floor(high / step); at += 1) all.push(at * step);
  return { step, all };
}

/// A tick with as many digits as its step needs, in the unit of the range.
export function tickText(ns, step, range) {
  const [scale, unit] = range < 2e3 ? [1, 'ns'] : range < 2e6 ? [1e3, 'µs'] : range < 1e10 ? [1e6, 'ms'] : [1e9, 's'];
  const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(step / scale) - 1e-9)));
  return `${(ns / scale).toFixed(digits)} ${unit}`;
}
