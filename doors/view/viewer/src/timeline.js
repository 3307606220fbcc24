// The time line: a canvas with a row for each core or box, an overview above it, and all that is done with pointer and keys.

import { AROUND, ASLEEP, AWAY, BUSY, LOOKS, NO_RULE, WAITS } from './activity.js';
import { colour, eachFrame, h } from './dom.js';
import { duration, tickText, ticks } from './format.js';
import { chunksIn, eventsIn, firstEndingAfter, keysOf, levelFor, rowsOf, seatsOf } from './rows.js';
import { ask, askOf, dataNow, textOf } from './store.js';

const OVERVIEW = 36;
const AXIS = 22;
const RIGHT = 10;
/// The parts of the coarsest level.
const COARSEST = 1024;
/// A row shows its slices one by one up to this many events; with more, the sums of a level.
const DETAIL = 120_000;
/// Slices of so many chunks are kept.
const KEPT = 200;
/// No window is shorter, in nanoseconds.
const SHORTEST = 50;
const SERIES = 8;
const STATES = [
  'looks for work',
  'runs',
  'around user code',
  'waits for its tasks',
  'asleep',
  'waits to be lent',
  'waits for a group of tasks',
  'waits at a barrier',
];
/// The colours of waits, and how high they are in a row: their forms differ as well.
const WAIT_COLOURS = ['waits', 'group', 'barrier'];
const WAIT_HEIGHTS = [12, 9, 15];
/// The columns of a level with the shares of waits.
const WAIT_COLUMNS = [2, 11, 12];

export class Timeline {
  /// `on` has what is called: `chose(slice)`, `ranged(range)`, `moved()`.
  constructor(runs, place, on) {
    Object.assign(this, { runs, place, on });
    this.by = 'type';
    this.rowsBy = 'cores';
    this.isChain = false;
    this.span = Math.max(1, ...runs.map(({ spanNs }) => spanNs));
    this.window = [0, this.span];
    this.range = null;
    this.chosen = null;
    this.mark = null;
    /// Those of a place that is marked.
    this.seats = new Set();
    this.arrows = [];
    this.levels = new Map();
    this.slices = new Map();
    this.canvas = h('canvas', {
      tabindex: '0',
      role: 'application',
      'aria-roledescription': 'time line',
      'aria-label':
        'Time line. W and S zoom, A and D pan, F fits, up and down choose a row, comma and full stop step through its ' +
        'slices, question mark lists all keys. The tables below have the figures.',
    });
    this.tip = h('div', { class: 'tip', hidden: true, role: 'tooltip' });
    place.append(this.canvas, this.tip);
    this.redraw = eachFrame(() => this.#draw());
    new ResizeObserver(() => this.redraw()).observe(place);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.recolour());
    this.#listen();
    this.recolour();
  }

  recolour() {
    const names = [
      'text',
      'quiet',
      'line',
      'lane',
      'surface',
      'accent',
      'asleep',
      'away',
      'looks',
      ...WAIT_COLOURS,
      'measure',
      'on-slice',
    ];
    this.colours = Object.fromEntries(names.map((name) => [name, colour(name)]));
    this.series = Array.from({ length: SERIES }, (_, at) => colour(`c${at}`));
    this.heat = Array.from({ length: 8 }, (_, at) => colour(`heat${at}`));
    this.redraw();
  }

  /// Draws at once rather than before the next frame.
  drawNow() {
    this.#draw();
  }

  // ---- data ----

  /// A level of a seat's pyramid, if it is here; otherwise it is asked for.
  #level(run, seat, level) {
    const name = `p${run}-${seat}-${level}`;
    const found = this.levels.get(name);
    if (found === undefined && !level) {
      this.levels.set(name, null);
      try {
        this.levels.set(name, dataNow(name));
      } catch (error) {
        this.on.failed(error);
      }
      return this.levels.get(name);
    }
    if (found === undefined) {
      this.levels.set(name, null);
      textOf(name)
        .then((text) => ask({ what: 'level', text }))
        .then((bytes) => {
          this.levels.set(name, bytes);
          this.redraw();
        }, this.#failed);
    }
    return found ?? null;
  }

  /// The slices of a chunk, if they are here; otherwise they are asked for.
  slicesOf(run, chunk) {
    const name = `${run}.${chunk}`;
    const found = this.slices.get(name);
    if (found === undefined) {
      this.slices.set(name, null);
      askOf(run, chunk, { what: 'slices' }).then((slices) => {
        this.slices.set(name, slices);
        if (this.slices.size > KEPT) this.slices.delete(this.slices.keys().next().value);
        this.redraw();
      }, this.#failed);
    } else if (found) {
      this.slices.delete(name);
      this.slices.set(name, found);
    }
    return found ?? null;
  }

  #failed = (error) => this.on.failed(error);

  /// How a seat is shown in a window: slices of chunks, or a level. While slices are on their way, the finest level stands
  /// in for them.
  #sourceOf(run, seat, window, width) {
    const index = this.runs[run];
    const levels = index.levels[seat];
    const best = levelFor(levels, index.spanNs, window, width);
    if (eventsIn(index, seat, window) <= DETAIL || !best.enough) {
      const chunks = chunksIn(index, seat, window);
      const all = chunks.map((chunk) => this.slicesOf(run, chunk));
      if (all.every(Boolean)) return { chunks: all };
    }
    for (let level = best.level; level >= 0; level -= 1) {
      const bytes = this.#level(run, seat, level);
      if (bytes) return { bytes, parts: COARSEST * 4 ** level };
    }
    return {};
  }

  // ---- geometry ----

  get gutter() {
    return this.width < 560 ? 64 : 116;
  }

  get plot() {
    return Math.max(40, this.width - this.gutter - RIGHT);
  }

  #x(ns) {
    const [from, to] = this.window;
    return this.gutter + ((ns - from) / (to - from)) * this.plot;
  }

  #time(x) {
    const [from, to] = this.window;
    return from + ((x - this.gutter) / this.plot) * (to - from);
  }

  setWindow(from, to) {
    const length = Math.min(this.span, Math.max(Math.min(SHORTEST, this.span), to - from));
    const begin = Math.min(Math.max(0, (from + to) / 2 - length / 2), this.span - length);
    this.window = [begin, begin + length];
    this.on.moved();
    this.redraw();
  }

  zoom(factor, at = (this.window[0] + this.window[1]) / 2) {
    const [from, to] = this.window;
    this.setWindow(at - (at - from) * factor, at + (to - at) * factor);
  }

  pan(part) {
    const [from, to] = this.window;
    const length = to - from;
    const begin = Math.min(Math.max(0, from + part * length), this.span - length);
    this.setWindow(begin, begin + length);
  }

  /// All of it; or what is chosen, if all of it is seen already.
  fit() {
    const isAll = this.window[0] === 0 && this.window[1] === this.span;
    const wanted = this.range ?? (this.chosen && [this.chosen.begin, this.chosen.end]);
    if (isAll && wanted) {
      const air = (wanted[1] - wanted[0]) * 0.05;
      this.setWindow(wanted[0] - air, wanted[1] + air);
    } else this.setWindow(0, this.span);
  }

  setRows(by) {
    this.rowsBy = by;
    this.redraw();
  }

  // ---- colours ----

  /// The colour of user code.
  #fill(run, key, request, rule, wait) {
    switch (this.by) {
      case 'request':
        return this.series[request % (SERIES - 1)];
      case 'rule':
        return rule === NO_RULE ? this.series[SERIES - 1] : this.series[rule % (SERIES - 1)];
      case 'memory':
        return this.heat[Math.min(7, Math.floor(wait * 8))];
      default:
        return this.series[this.runs[run].colours[key] ?? SERIES - 1];
    }
  }

  /// Whether something is not what is marked, and steps back.
  #isFaint(run, seat, key, request, rule) {
    const { mark } = this;
    if (!mark) return false;
    const index = this.runs[run];
    switch (mark.kind) {
      case 'key':
        return mark.run === run ? key !== mark.id : index.keys[key]?.name !== this.runs[mark.run].keys[mark.id].name;
      case 'type':
        return index.types[index.typeOf[key]] !== this.runs[mark.run].types[mark.id];
      case 'seat':
        return seat !== mark.id || run !== mark.run;
      case 'place':
        return !this.seats.has(seat) || run !== mark.run;
      case 'request':
        return request !== mark.id || run !== mark.run;
      case 'rule':
        return rule !== mark.id;
      case 'via': {
        const [model, from, , to] = this.runs[mark.run].vias[mark.id];
        const of = (box) => index.keyOfModel[model]?.[box];
        return run !== mark.run || (key !== of(from) && key !== of(to));
      }
      default:
        return false;
    }
  }

  // ---- drawing ----

  #draw() {
    const width = this.place.clientWidth;
    if (!width) return;
    this.width = width;
    const { rows, end } = rowsOf(this.runs, this.rowsBy, OVERVIEW + AXIS);
    this.rows = rows;
    const ratio = devicePixelRatio || 1;
    const [w, tall] = [Math.round(width * ratio), Math.round((end + 6) * ratio)];
    if (this.canvas.width !== w || this.canvas.height !== tall) {
      this.canvas.width = w;
      this.canvas.height = tall;
      this.canvas.style.height = `${end + 6}px`;
    }
    const context = this.canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, end + 6);
    context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    context.textBaseline = 'middle';
    this.#drawOverview(context);
    this.#drawAxis(context, end);
    const frame = this.canvas.getBoundingClientRect();
    const [top, bottom] = [-frame.top - 100, innerHeight - frame.top + 100];
    const seen = ({ top: at, height }) => at + height >= top && at <= bottom;
    const keyRows = rows.filter((row) => row.kind === 'key' && seen(row));
    if (keyRows.length) this.#drawKeys(context, keyRows);
    for (const row of rows) {
      if (!seen(row)) continue;
      if (row.kind === 'seat') this.#drawSeat(context, row);
      this.#drawLabel(context, row);
    }
    if (this.isChain) this.#drawChain(context);
    this.#drawArrows(context);
    this.#drawChosen(context, end);
    this.drawn = (this.drawn ?? 0) + 1;
    this.hasData ||= [...this.levels.values()].some(Boolean);
  }

  #drawLabel(context, { kind, top, height, label, note, level, run, key }) {
    const { colours, gutter } = this;
    const middle = top + height / 2;
    context.textAlign = 'left';
    if (kind === 'head') {
      context.fillStyle = level === 0 ? colours.text : colours.quiet;
      context.fillText(clipped(context, label, this.width - 16), 6 + level * 4, middle);
      return;
    }
    let left = 8;
    if (kind === 'key') {
      context.fillStyle = this.series[this.runs[run].colours[key]];
      context.fillRect(left, middle - 5, 8, 10);
      left += 14;
    }
    context.fillStyle = colours.text;
    context.fillText(clipped(context, label, gutter - left - 6), left, middle);
    const wide = context.measureText(label).width;
    if (note && left + wide + 10 + context.measureText(note).width < gutter - 4) {
      context.textAlign = 'right';
      context.fillStyle = colours.quiet;
      context.fillText(note, gutter - 8, middle);
    }
  }

  #drawSeat(context, row) {
    const { run, seat, top, height } = row;
    const { colours, gutter, plot } = this;
    context.fillStyle = colours.lane;
    context.fillRect(gutter, top, plot, height);
    const source = this.#sourceOf(run, seat, this.window, plot);
    row.isDetailed = Boolean(source.chunks);
    if (source.chunks) source.chunks.forEach((slices) => this.#drawSlices(context, row, slices));
    else if (source.bytes) this.#drawParts(context, row, source);
  }

  #drawSlices(context, row, slices) {
    const { run, seat, top, height } = row;
    const { gutter, plot, window } = this;
    const [from, to] = window;
    const scale = plot / (to - from);
    const { begin, end, state, key, request, rule, wait, lent } = slices;
    // Slices of less than a pixel: one mark for each pixel, by the longest.
    let [pixel, longest, chosen] = [-1, 0, -1];
    const one = (at, x, width) => {
      const isBusy = state[at] === BUSY || state[at] === AROUND;
      const isFaint = isBusy || ['seat', 'place'].includes(this.mark?.kind) ? this.#isFaint(run, seat, key[at], request[at], rule[at]) : Boolean(this.mark);
      context.globalAlpha = isFaint ? 0.14 : state[at] === AROUND ? 0.5 : 1;
      const [y, tall] = this.#bar(state[at], top, height);
      context.fillStyle = isBusy ? this.#fill(run, key[at], request[at], rule[at], wait[at]) : this.#idle(state[at]);
      context.fillRect(x, y, width, tall);
      context.globalAlpha = 1;
      if (lent[at]) {
        context.fillStyle = this.colours.accent;
        context.fillRect(x, top, width, 2);
      }
      if (isBusy && !isFaint && width > 34) this.#drawName(context, run, key[at], x, top, width, height);
    };
    const flush = () => {
      if (pixel >= 0) one(chosen, gutter + pixel, 1);
      pixel = -1;
    };
    for (let at = firstEndingAfter(slices, from); at < begin.length && begin[at] < to; at += 1) {
      const left = Math.max(0, (begin[at] - from) * scale);
      const right = Math.min(plot, (end[at] - from) * scale);
      if (right - left >= 1) {
        flush();
        // A hair between neighbours of one colour.
        one(at, gutter + left, right - left > 4 ? right - left - 0.5 : right - left);
        continue;
      }
      const column = Math.floor(left);
      if (column !== pixel) {
        flush();
        pixel = column;
        longest = 0;
      }
      // What runs is seen before what rests.
      const weight = (end[at] - begin[at]) * (state[at] === BUSY ? 4 : 1);
      if (weight >= longest) [longest, chosen] = [weight, at];
    }
    flush();
  }

  /// Where a state is drawn in its row: what rests is low and thin.
  #bar(state, top, height) {
    const wait = WAIT_HEIGHTS[WAITS.indexOf(state)];
    if (wait) return [top + height - wait, wait];
    switch (state) {
      case LOOKS:
        return [top + height - 8, 8];
      case ASLEEP:
        return [top + height - 3, 3];
      case AWAY:
        return [top + height - 3, 1];
      default:
        return [top, height];
    }
  }

  #idle(state) {
    return this.colours[WAIT_COLOURS[WAITS.indexOf(state)] ?? { [LOOKS]: 'looks', [ASLEEP]: 'asleep', [AWAY]: 'away' }[state]];
  }

  #drawName(context, run, key, x, top, width, height) {
    const name = this.runs[run].keys[key]?.name;
    if (!name || height < 14) return;
    const text = clipped(context, name, width - 8);
    if (!text) return;
    context.fillStyle = this.by === 'memory' ? this.colours.text : this.colours['on-slice'];
    context.textAlign = 'left';
    context.fillText(text, x + 4, top + height / 2);
  }

  /// The columns of a level: how high each is says how much of the time ran user code.
  #drawParts(context, row, { bytes, parts }) {
    const { run, seat, top, height } = row;
    const { gutter, plot, window } = this;
    const wide = this.rows.length > 20 ? 2 : 1;
    const perNs = parts / this.runs[run].spanNs;
    const perColumn = (perNs * (window[1] - window[0])) / plot;
    for (let column = 0; column < plot; column += wide) {
      const x = gutter + column;
      const first = Math.floor(window[0] * perNs + column * perColumn);
      const last = Math.max(first + 1, Math.floor(window[0] * perNs + (column + wide) * perColumn));
      if (first >= parts) break;
      let [busy, around, rests, best, most, wait] = [0, 0, 0, first, 0, 0];
      const waits = [0, 0, 0];
      for (let part = first; part < Math.min(last, parts); part += 1) {
        busy += bytes[part];
        around += bytes[parts + part];
        for (let of = 0; of < 3; of += 1) waits[of] += bytes[WAIT_COLUMNS[of] * parts + part];
        rests += bytes[3 * parts + part] + bytes[4 * parts + part];
        wait += bytes[10 * parts + part] * bytes[part];
        if (bytes[part] >= most) [most, best] = [bytes[part], part];
      }
      const all = (Math.min(last, parts) - first) * 255;
      const key = bytes[5 * parts + best] + 256 * bytes[6 * parts + best] - 1;
      const request = bytes[7 * parts + best] + 256 * bytes[8 * parts + best];
      const rule = bytes[9 * parts + best];
      const px = (sum) => Math.round((sum / all) * height);
      const tall = busy ? Math.max(1, px(busy)) : 0;
      const isFaint = this.#isFaint(run, seat, key, request, rule);
      const fill = busy ? this.#fill(run, key, request, rule, busy ? wait / busy / 255 : 0) : '';
      let y = top + height;
      const bar = (tall, fill, alpha) => {
        if (!tall) return;
        y -= tall;
        context.globalAlpha = alpha;
        context.fillStyle = fill;
        context.fillRect(x, y, wide, tall);
      };
      bar(tall, fill, isFaint ? 0.14 : 1);
      bar(px(around), fill || this.colours.looks, isFaint ? 0.1 : 0.45);
      for (let of = 0; of < 3; of += 1) bar(px(waits[of]), this.colours[WAIT_COLOURS[of]], 1);
      if (!tall && rests > all / 2) bar(3, this.colours.asleep, 1);
    }
    context.globalAlpha = 1;
  }

  /// Rows of boxes: how many cores each box runs on.
  #drawKeys(context, rows) {
    const { gutter, plot, colours, window } = this;
    const [from, to] = window;
    const scale = plot / (to - from);
    for (const row of rows) {
      context.fillStyle = colours.lane;
      context.fillRect(gutter, row.top, plot, row.height);
      row.cores = new Float32Array(plot);
    }
    for (const [number, run] of this.runs.entries()) {
      const byKey = new Map(rows.filter((row) => row.run === number).map((row) => [row.key, row]));
      if (!byKey.size) continue;
      for (const seat of seatsOf(run)) {
        const source = this.#sourceOf(number, seat.number, window, plot);
        for (const slices of source.chunks ?? []) {
          for (let at = firstEndingAfter(slices, from); at < slices.begin.length && slices.begin[at] < to; at += 1) {
            const row = slices.state[at] === BUSY && byKey.get(slices.key[at]);
            if (!row) continue;
            const left = Math.max(0, (slices.begin[at] - from) * scale);
            const right = Math.min(plot, (slices.end[at] - from) * scale);
            for (let x = Math.floor(left); x < right && x < plot; x += 1)
              row.cores[x] += Math.min(right, x + 1) - Math.max(left, x);
          }
        }
        if (source.bytes) {
          const { bytes, parts } = source;
          const perNs = parts / run.spanNs;
          for (let x = 0; x < plot; x += 1) {
            const first = Math.floor(this.#time(gutter + x) * perNs);
            const last = Math.min(parts, Math.max(first + 1, Math.floor(this.#time(gutter + x + 1) * perNs)));
            for (let part = first; part < last; part += 1) {
              const row = byKey.get(bytes[5 * parts + part] + 256 * bytes[6 * parts + part] - 1);
              if (row) row.cores[x] += bytes[part] / 255 / (last - first);
            }
          }
        }
      }
    }
    for (const row of rows) {
      const most = Math.max(1, ...row.cores);
      row.most = most;
      context.fillStyle = this.series[this.runs[row.run].colours[row.key]];
      const isFaint = this.#isFaint(row.run, -1, row.key, -1, -1);
      context.globalAlpha = isFaint ? 0.2 : 1;
      row.cores.forEach((cores, x) => {
        if (cores <= 0) return;
        const tall = Math.max(1.5, (cores / most) * (row.height - 1));
        context.fillRect(gutter + x, row.top + row.height - tall, 1, tall);
      });
      context.globalAlpha = 1;
      context.fillStyle = colours.measure;
      for (const [begin, end, key] of this.runs[row.run].stalls) {
        if (key !== row.key || end < from || begin > to) continue;
        const left = Math.max(gutter, this.#x(begin));
        const right = Math.min(gutter + plot, this.#x(end));
        context.fillRect(left, row.top, Math.max(1, right - left), 3);
      }
    }
  }

  #drawOverview(context) {
    const { gutter, plot, colours } = this;
    context.fillStyle = colours.lane;
    context.fillRect(gutter, 2, plot, OVERVIEW - 8);
    context.fillStyle = colours.quiet;
    context.textAlign = 'left';
    context.fillText('all', 8, OVERVIEW / 2 - 2);
    const tall = OVERVIEW - 8;
    this.overview ??= this.runs.map((run, number) => ({ run, number, seats: seatsOf(run) }));
    const shares = new Float32Array(plot);
    let count = 0;
    for (const { run, number, seats } of this.overview) {
      for (const seat of seats) {
        const bytes = this.#level(number, seat.number, 0);
        count += 1;
        if (!bytes) continue;
        for (let x = 0; x < plot; x += 1) {
          const part = Math.floor(((x / plot) * this.span * COARSEST) / Math.max(1, run.spanNs));
          if (part < COARSEST) shares[x] += bytes[part] / 255;
        }
      }
    }
    context.fillStyle = colours.accent;
    context.globalAlpha = 0.55;
    shares.forEach((share, x) => {
      const up = (share / Math.max(1, count)) * tall;
      context.fillRect(gutter + x, 2 + tall - up, 1, up);
    });
    context.globalAlpha = 1;
    const at = (ns) => gutter + (ns / this.span) * plot;
    context.fillStyle = colours.surface;
    context.globalAlpha = 0.6;
    context.fillRect(gutter, 2, at(this.window[0]) - gutter, tall);
    context.fillRect(at(this.window[1]), 2, gutter + plot - at(this.window[1]), tall);
    context.globalAlpha = 1;
    context.strokeStyle = colours.accent;
    context.lineWidth = 1.5;
    context.strokeRect(at(this.window[0]), 2, Math.max(3, at(this.window[1]) - at(this.window[0])), tall);
  }

  #drawAxis(context, end) {
    const [from, to] = this.window;
    const { step, all } = ticks(from, to, Math.max(2, this.plot / 110));
    context.textAlign = 'center';
    for (const tick of all) {
      const x = this.#x(tick);
      context.fillStyle = this.colours.line;
      context.fillRect(Math.round(x), OVERVIEW + AXIS - 7, 1, end - OVERVIEW - AXIS + 7);
      context.fillStyle = this.colours.quiet;
      const text = tickText(tick, step, to - from);
      const half = context.measureText(text).width / 2;
      context.fillText(text, Math.min(Math.max(x, half + 2), this.width - half - 2), OVERVIEW + 7);
    }
  }

  /// The longest chain: a line from step to step.
  #drawChain(context) {
    const [from, to] = this.window;
    context.strokeStyle = this.colours.text;
    this.runs.forEach((run, number) => {
      const rows = new Map(
        this.rows.filter((row) => row.run === number).map((row) => [row.seat ?? `k${row.key}`, row]),
      );
      const rowOf = (step) => rows.get(this.rowsBy === 'boxes' ? `k${step[3]}` : step[2]);
      let before = null;
      for (const step of run.chain.steps) {
        const [begin, length] = step;
        const row = rowOf(step);
        if (begin > to) break;
        if (row && begin + length >= from) {
          const y = row.top + row.height - 2;
          context.lineWidth = 3;
          context.beginPath();
          context.moveTo(Math.max(this.gutter, this.#x(begin)), y);
          context.lineTo(Math.min(this.gutter + this.plot, Math.max(this.#x(begin) + 1, this.#x(begin + length))), y);
          context.stroke();
          if (before && before.row !== row) {
            context.lineWidth = 1;
            context.beginPath();
            context.moveTo(Math.max(this.gutter, this.#x(before.end)), before.row.top + before.row.height - 2);
            context.lineTo(Math.max(this.gutter, this.#x(begin)), y);
            context.stroke();
          }
        }
        if (row) before = { row, end: begin + length };
      }
    });
  }

  /// Where the chosen slice's work came from, and what it led to.
  #drawArrows(context) {
    for (const { run, from, to, isCause } of this.arrows) {
      const rowOf = ({ seat, key }) =>
        this.rows.find((row) => row.run === run && (this.rowsBy === 'boxes' ? row.key === key : row.seat === seat));
      const [a, b] = [rowOf(from), rowOf(to)];
      if (!a || !b) continue;
      const [x1, x2] = [this.#x(from.at), this.#x(to.at)];
      if (Math.max(x1, x2) < this.gutter || Math.min(x1, x2) > this.gutter + this.plot) continue;
      const [y1, y2] = [a.top + a.height / 2, b.top + b.height / 2];
      const bend = Math.max(14, Math.abs(x2 - x1) / 3);
      context.save();
      context.beginPath();
      context.rect(this.gutter, 0, this.plot, 1e6);
      context.clip();
      context.strokeStyle = context.fillStyle = isCause ? this.colours.measure : this.colours.accent;
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(x1, y1);
      context.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
      context.stroke();
      context.beginPath();
      context.moveTo(x2, y2);
      context.lineTo(x2 - 7, y2 - 4);
      context.lineTo(x2 - 7, y2 + 4);
      context.fill();
      context.restore();
    }
  }

  #drawChosen(context, end) {
    const { colours, gutter, plot, chosen, range } = this;
    if (chosen) {
      const row = this.rows.find(
        (row) =>
          row.run === chosen.run && (this.rowsBy === 'boxes' ? row.key === chosen.key : row.seat === chosen.seat),
      );
      const left = Math.max(gutter, this.#x(chosen.begin));
      const right = Math.min(gutter + plot, this.#x(chosen.end));
      if (row && right >= gutter && left <= gutter + plot) {
        context.strokeStyle = colours.text;
        context.lineWidth = 2;
        context.strokeRect(left - 1, row.top - 1, Math.max(3, right - left + 2), row.height + 2);
      }
    }
    if (!range) return;
    const [left, right] = range.map((ns) => Math.min(gutter + plot, Math.max(gutter, this.#x(ns))));
    context.fillStyle = colours.measure;
    context.globalAlpha = 0.13;
    context.fillRect(left, OVERVIEW + AXIS - 6, right - left, end - OVERVIEW - AXIS + 6);
    context.globalAlpha = 1;
    context.fillRect(left, OVERVIEW + AXIS - 6, 1, end);
    context.fillRect(right, OVERVIEW + AXIS - 6, 1, end);
    const text = duration(range[1] - range[0]);
    const wide = context.measureText(text).width + 10;
    const x = Math.min(Math.max(gutter, (left + right) / 2 - wide / 2), gutter + plot - wide);
    context.fillRect(x, OVERVIEW - 3, wide, 18);
    context.fillStyle = colours.surface;
    context.textAlign = 'left';
    context.fillText(text, x + 5, OVERVIEW + 7);
  }

  // ---- pointer and keys ----

  /// What lies at a point: the row, and its slice or the sums of its part.
  #at(x, y) {
    const row = this.rows?.find(({ kind, top, height }) => kind !== 'head' && y >= top && y < top + height);
    if (!row || x < this.gutter || x > this.gutter + this.plot) return { row };
    const time = this.#time(x);
    return { row, time, slice: this.#sliceAt(row, time, (2 * (this.window[1] - this.window[0])) / this.plot) };
  }

  #sliceAt(row, time, slack) {
    const seats = row.kind === 'seat' ? [row.seat] : seatsOf(this.runs[row.run]).map(({ number }) => number);
    let best = null;
    for (const seat of seats) {
      for (const chunk of chunksIn(this.runs[row.run], seat, [time - slack, time + slack])) {
        const slices = this.slices.get(`${row.run}.${chunk}`);
        if (!slices) continue;
        for (let at = firstEndingAfter(slices, time - slack); at < slices.begin.length; at += 1) {
          if (slices.begin[at] > time + slack) break;
          if (row.kind === 'key' && (slices.key[at] !== row.key || slices.state[at] !== BUSY)) continue;
          const isIn = slices.begin[at] <= time && slices.end[at] > time;
          const isBusy = slices.state[at] === BUSY;
          const score = (isIn ? 2 : 0) + (isBusy ? 1 : 0);
          if (!best || score > best.score) best = { score, ...this.sliceOf(row.run, seat, chunk, slices, at) };
        }
      }
    }
    return best;
  }

  sliceOf(run, seat, chunk, slices, at) {
    const fields = Object.fromEntries(Object.entries(slices).map(([name, column]) => [name, column[at]]));
    return { run, seat, chunk, number: at, ...fields };
  }

  /// A slice in words.
  lines(slice) {
    const run = this.runs[slice.run];
    const key = run.keys[slice.key];
    const seat = run.header.seats[slice.seat];
    const lines = [
      slice.state === BUSY || slice.state === AROUND || WAITS.includes(slice.state)
        ? `${key?.name ?? 'task'}${slice.state === BUSY ? '' : ` (${STATES[slice.state]})`}`
        : STATES[slice.state],
      `${duration(slice.end - slice.begin)} from ${duration(slice.begin)} on`,
      `seat ${slice.seat}, PU ${seat.pu}, node ${seat.node}${slice.lent ? ', a lent thread' : ''}`,
    ];
    if (slice.request >= 0)
      lines.push(`request ${slice.request}${slice.rule === NO_RULE ? '' : `, by rule ${slice.rule}`}`);
    if (slice.near + slice.far > 0)
      lines.push(
        `${slice.near} bytes near, ${slice.far} far: about ${Math.round(slice.wait * 100)} % waiting for memory`,
      );
    return lines;
  }

  #hover(event) {
    const { x, y } = this.#point(event);
    const { row, slice } = this.#at(x, y);
    this.canvas.style.cursor = y < OVERVIEW ? 'grab' : slice ? 'pointer' : 'crosshair';
    let lines = slice && this.lines(slice);
    if (!lines && row && x >= this.gutter) lines = this.#partLines(row, x);
    if (!lines) {
      this.tip.hidden = true;
      return;
    }
    this.tip.replaceChildren(...lines.map((line, at) => h(at ? 'div' : 'b', {}, line)));
    this.tip.hidden = false;
    const left = Math.min(x + 14, this.width - this.tip.offsetWidth - 4);
    this.tip.style.left = `${Math.max(2, left)}px`;
    this.tip.style.top = `${y + 18}px`;
  }

  #partLines(row, x) {
    if (row.kind === 'key') {
      const cores = row.cores?.[Math.floor(x - this.gutter)] ?? 0;
      return [row.label, `on ${Number(cores.toFixed(2))} cores here, on ${Number((row.most ?? 1).toFixed(2))} at most`];
    }
    const levels = this.runs[row.run].levels[row.seat];
    for (let level = levels - 1; level >= 0; level -= 1) {
      const bytes = this.levels.get(`p${row.run}-${row.seat}-${level}`);
      if (!bytes) continue;
      const parts = COARSEST * 4 ** level;
      const part = Math.floor((this.#time(x) / Math.max(1, this.runs[row.run].spanNs)) * parts);
      if (part < 0 || part >= parts) return null;
      const key = bytes[5 * parts + part] + 256 * bytes[6 * parts + part] - 1;
      const share = (column) => `${Math.round((bytes[column * parts + part] / 255) * 100)} %`;
      return [
        `${row.label}: ${share(0)} in user code`,
        key >= 0 ? `mostly ${this.runs[row.run].keys[key].name}` : 'nothing ran',
        `${share(3)} asleep, ${share(2)} waiting for tasks, ${share(11)} for groups, ${share(12)} at barriers; zoom in for slices`,
      ];
    }
    return null;
  }

  #point(event) {
    const frame = this.canvas.getBoundingClientRect();
    return { x: event.clientX - frame.left, y: event.clientY - frame.top };
  }

  #listen() {
    const { canvas } = this;
    const pointers = new Map();
    canvas.addEventListener('pointerleave', () => (this.tip.hidden = true));
    canvas.addEventListener(
      'wheel',
      (event) => {
        const { x } = this.#point(event);
        if (x < this.gutter || event.altKey) return;
        event.preventDefault();
        if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
          this.pan((event.deltaX || event.deltaY) / 900);
        else this.zoom(Math.exp(Math.max(-300, Math.min(300, event.deltaY)) * 0.0022), this.#time(x));
      },
      { passive: false },
    );
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button > 1) return;
      canvas.setPointerCapture(event.pointerId);
      const point = this.#point(event);
      pointers.set(event.pointerId, { ...point, begin: point, window: this.window, isPan: this.#isPan(event, point) });
      if (point.y < OVERVIEW) this.#centre(point.x);
    });
    canvas.addEventListener('pointermove', (event) => {
      const point = this.#point(event);
      const drag = pointers.get(event.pointerId);
      if (!drag) return this.#hover(event);
      Object.assign(drag, point);
      this.tip.hidden = true;
      if (pointers.size === 2) return this.#pinch([...pointers.values()]);
      if (Math.abs(point.x - drag.begin.x) < 4 && !drag.isMoved) return undefined;
      drag.isMoved = true;
      if (drag.begin.y < OVERVIEW) return this.#centre(point.x);
      const [from, to] = drag.window;
      if (drag.isPan) {
        const shift = ((drag.begin.x - point.x) / this.plot) * (to - from);
        const begin = Math.min(Math.max(0, from + shift), this.span - (to - from));
        return this.setWindow(begin, begin + to - from);
      }
      const clamp = (x) =>
        Math.min(this.span, Math.max(0, this.#time(Math.min(this.gutter + this.plot, Math.max(this.gutter, x)))));
      this.range = [clamp(drag.begin.x), clamp(point.x)].sort((a, b) => a - b);
      return this.redraw();
    });
    const end = (event) => {
      const drag = pointers.get(event.pointerId);
      pointers.delete(event.pointerId);
      if (!drag || drag.begin.y < OVERVIEW) return;
      if (drag.isMoved) {
        if (!drag.isPan) this.on.ranged(this.range);
        return;
      }
      const { row, slice } = this.#at(drag.begin.x, drag.begin.y);
      if (row && drag.begin.x < this.gutter) this.on.row(row);
      else this.on.chose(slice ?? null);
    };
    canvas.addEventListener('pointerup', end);
    canvas.addEventListener('pointercancel', (event) => pointers.delete(event.pointerId));
    canvas.addEventListener('dblclick', (event) => {
      const { slice } = this.#at(this.#point(event).x, this.#point(event).y);
      if (slice)
        this.setWindow(slice.begin - (slice.end - slice.begin) * 0.5, slice.end + (slice.end - slice.begin) * 0.5);
    });
  }

  /// A finger pans; a mouse measures, and pans with Shift or its middle button.
  #isPan(event) {
    return event.pointerType === 'touch' || event.shiftKey || event.button === 1;
  }

  #pinch([a, b]) {
    const before = Math.abs(a.begin.x - b.begin.x);
    const now = Math.abs(a.x - b.x);
    if (before < 10 || now < 10) return;
    const [from, to] = a.window;
    const middle = from + (((a.begin.x + b.begin.x) / 2 - this.gutter) / this.plot) * (to - from);
    this.setWindow(middle - ((middle - from) * before) / now, middle + ((to - middle) * before) / now);
  }

  #centre(x) {
    const middle = ((x - this.gutter) / this.plot) * this.span;
    const half = (this.window[1] - this.window[0]) / 2;
    const begin = Math.min(Math.max(0, middle - half), this.span - 2 * half);
    this.setWindow(begin, begin + 2 * half);
  }

  /// Steps along the rows and their slices.
  step(rowsBy, slicesBy) {
    const rows = (this.rows ?? []).filter(({ kind }) => kind !== 'head');
    if (!rows.length) return;
    const isIts = (row) =>
      this.chosen &&
      row.run === this.chosen.run &&
      (row.kind === 'seat' ? row.seat === this.chosen.seat : row.key === this.chosen.key);
    const now = rows.findIndex(isIts);
    const row = rows[Math.min(rows.length - 1, Math.max(0, now < 0 ? 0 : now + rowsBy))];
    const time = this.chosen ? (this.chosen.begin + this.chosen.end) / 2 : (this.window[0] + this.window[1]) / 2;
    const slice = slicesBy && this.chosen ? this.#neighbour(row, slicesBy) : this.#nearest(row, time);
    if (!slice) return;
    const [from, to] = this.window;
    if (slice.end < from || slice.begin > to) {
      const middle = (slice.begin + slice.end) / 2;
      this.setWindow(middle - (to - from) / 2, middle + (to - from) / 2);
    }
    this.on.chose(slice);
  }

  #nearest(row, time) {
    const seats = row.kind === 'seat' ? [row.seat] : seatsOf(this.runs[row.run]).map(({ number }) => number);
    let best = null;
    for (const seat of seats) {
      for (const chunk of chunksIn(this.runs[row.run], seat, [0, this.span])) {
        const slices = this.slices.get(`${row.run}.${chunk}`);
        if (!slices) continue;
        for (let at = 0; at < slices.begin.length; at += 1) {
          if (slices.state[at] !== BUSY || (row.kind === 'key' && slices.key[at] !== row.key)) continue;
          const far = Math.max(0, slices.begin[at] - time, time - slices.end[at]);
          if (!best || far < best.far) best = { far, ...this.sliceOf(row.run, seat, chunk, slices, at) };
        }
      }
    }
    return best;
  }

  #neighbour(row, by) {
    const { chosen } = this;
    const index = this.runs[chosen.run];
    let { chunk, number } = chosen;
    for (let tries = 0; tries < 100_000; tries += 1) {
      const slices = this.slicesOf(chosen.run, chunk);
      if (!slices) return null;
      number += by;
      if (number < 0 || number >= slices.begin.length) {
        const next = chunk + by;
        if (index.chunks[next]?.[0] !== chosen.seat) return null;
        const others = this.slicesOf(chosen.run, next);
        if (!others) return null;
        chunk = next;
        number = by > 0 ? -1 : others.begin.length;
        continue;
      }
      if (slices.state[number] !== BUSY || (row.kind === 'key' && slices.key[number] !== row.key)) continue;
      return this.sliceOf(chosen.run, chosen.seat, chunk, slices, number);
    }
    return null;
  }

  /// Goes to the next part of the time, behind the middle of the window, that has a key.
  next(keys) {
    const [from, to] = this.window;
    const length = Math.min(to - from, this.span / 20);
    for (const around of [0, 1]) {
      for (
        let part = around ? 0 : Math.floor(((from + to) / 2 / this.span) * COARSEST) + 1;
        part < COARSEST;
        part += 1
      ) {
        for (const { run, key } of keys) {
          const index = this.runs[run];
          const at = Math.floor((((part / COARSEST) * this.span) / Math.max(1, index.spanNs)) * COARSEST);
          if (at < COARSEST && index.ofKeys?.[key * COARSEST + at] > 0) {
            const middle = ((part + 0.5) / COARSEST) * this.span;
            this.setWindow(middle - length / 2, middle + length / 2);
            return true;
          }
        }
      }
    }
    return false;
  }
}

/// A text that fits, with an ellipsis where it was cut; nothing where not even three letters fit.
export function clipped(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  let length = Math.floor((text.length * room) / context.measureText(text).width);
  while (length > 2 && context.measureText(`${text.slice(0, length)}…`).width > room) length -= 1;
  return length > 2 ? `${text.slice(0, length)}…` : '';
}

export { keysOf };
