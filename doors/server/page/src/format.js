// Numbers, sizes and times as people read them. Pure functions.

const NARROW = '\u202f';
const whole = new Intl.NumberFormat('en');
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });

/// 15752 → "15 752", with narrow spaces that do not break.
export function count(value) {
  return value === null || value === undefined ? '–' : whole.format(Math.round(value)).replaceAll(',', NARROW);
}

/// 15752 → "15.8k".
export function compact(value) {
  return value === null || value === undefined ? '–' : short.format(value).replace('K', 'k');
}

/// "1 row", "2 rows".
export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/// 4194304 → "4.0 MiB".
export function bytes(value) {
  if (value === null || value === undefined) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

/// Milliseconds as µs, ms, s or minutes, with three digits.
export function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return '–';
  if (milliseconds === 0) return '0 ms';
  if (milliseconds < 0.9995) return `${threeDigits(milliseconds * 1000)} µs`;
  if (milliseconds < 999.5) return `${threeDigits(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${threeDigits(milliseconds / 1000)} s`;
  const seconds = Math.round(milliseconds / 1000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

function threeDigits(value) {
  if (value >= 99.95) return String(Math.round(value));
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

/// A time in the past in words: "just now", "5 min ago", "3 h ago", or a date.
export function ago(then, now) {
  const minutes = Math.floor((now - then) / 60_000);
  if (minutes < 1) return 'just now';
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ago`;
  return new Date(then).toISOString().slice(0, 10);
}

/// A number of a result with its thousands grouped, unless its own form says more (exponents, INF).
export function grouped(text) {
  const parts = /^([+-]?)(\d{5,})(\.\d+)?$/.exec(text);
  return parts ? parts[1] + parts[2].replace(/\B(?=(\d{3})+$)/g, NARROW) + (parts[3] ?? '') : text;
}
