// Scales and ticks of charts. Pure functions.

/// A function from the domain to the range. A domain without width maps to the middle.
export function linear([low, high], [from, to]) {
  const span = high - low;
  return span === 0 ? () => (from + to) / 2 : (value) => from + ((value - low) / span) * (to - from);
}

/// A round step, so that there are at most about `wanted` of them.
function stepOf(low, high, wanted) {
  const rough = (high - low) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((step) => step >= rough * 0.999);
}

/// The multiples of a step within a domain, free of the noise of binary fractions.
function multiples(low, high, step) {
  const all = [];
  for (let at = Math.ceil(low / step - 1e-9); at <= Math.floor(high / step + 1e-9); at += 1)
    all.push(Number((at * step).toPrecision(12)) + 0);
  return all;
}

/// Round values within the domain, at most about `wanted`.
export function ticks(low, high, wanted = 6) {
  return high > low ? multiples(low, high, stepOf(low, high, wanted)) : [low];
}

/// An axis for these values: `domain` begins and ends at one of its `ticks`.
export function niceAxis(low, high, wanted = 6) {
  if (low === high) [low, high] = low === 0 ? [0, 1] : low > 0 ? [0, low] : [low, 0];
  const step = stepOf(low, high, wanted);
  const domain = [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step].map((end) =>
    Number(end.toPrecision(12)),
  );
  return { domain, ticks: multiples(...domain, step) };
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/// Ticks of dates at beginnings of years, months, days, hours, minutes or seconds in UTC: `{value, label}`.
export function dateTicks(low, high, wanted = 6) {
  const span = high - low;
  if (!(span > 0)) return [{ value: low, label: new Date(low).toISOString().slice(0, 10) }];
  const rough = span / wanted;
  if (rough > 200 * DAY) {
    const from = new Date(low).getUTCFullYear();
    const to = new Date(high).getUTCFullYear();
    return ticks(from, to, wanted)
      .filter(Number.isInteger)
      .map((year) => ({ value: new Date(0).setUTCFullYear(year, 0, 1), label: String(year) }))
      .filter(({ value }) => value >= low && value <= high);
  }
  if (rough > 15 * DAY) {
    const step = [1, 2, 3, 6].find((months) => months * 30 * DAY >= rough) ?? 6;
    const at = new Date(low);
    at.setUTCDate(1);
    at.setUTCHours(0, 0, 0, 0);
    at.setUTCMonth(Math.floor(at.getUTCMonth() / step) * step);
    const all = [];
    for (; at.getTime() <= high; at.setUTCMonth(at.getUTCMonth() + step)) {
      if (at.getTime() >= low) all.push({ value: at.getTime(), label: at.toISOString().slice(0, 7) });
    }
    return all;
  }
  const steps = [SECOND, 5 * SECOND, 15 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR];
  const step = [...steps, DAY, 2 * DAY, 7 * DAY, 14 * DAY].find((step) => step >= rough) ?? 14 * DAY;
  const all = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) {
    const text = new Date(value).toISOString();
    all.push({
      value,
      label: step >= DAY ? text.slice(5, 10) : step >= MINUTE ? text.slice(11, 16) : text.slice(11, 19),
    });
  }
  return all;
}
