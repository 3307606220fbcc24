// Charts of a result: bars, lines, points. Drawn as SVG for the size of their place.

import { h, replace, svg } from './dom.js';
import { compact, count, plural } from './format.js';
import { dateTicks, linear, niceAxis, ticks } from './scales.js';
import { termLabel } from './term-view.js';
import { columnKind, kindOf, numberOf, timeOf } from './terms.js';
import { hideTip, showTip } from './tooltip.js';

const MAX_BARS = 60;
const MAX_POINTS = 5000;
const MAX_COLOURS = 8;
/// Room for the name of the axis above its highest label.
const TOP = 36;

/// Whether a result has what a chart needs: a column of numbers beside another column.
export function canChart(run) {
  return (
    run.columns.length >= 2 &&
    run.rows.length > 0 &&
    run.columns.some((_, column) => columnKind(run.rows, column) === 'number')
  );
}

export class Chart {
  constructor(parent, options) {
    this.options = options;
    this.controls = h('div', { class: 'view-controls' });
    this.place = h('div', { class: 'chart-place' });
    parent.append(this.controls, this.place);
    new ResizeObserver(() => this.run && this.#draw()).observe(this.place);
  }

  update(run) {
    const key = run.columns.join(' ');
    if (run !== this.run && key !== this.key) this.#choose(run);
    this.run = run;
    this.key = key;
    this.kinds = run.columns.map((_, column) => columnKind(run.rows, column));
    this.#renderControls();
    this.#draw();
  }

  /// A first choice: dates make a line, two numbers points, names bars.
  #choose(run) {
    const kinds = run.columns.map((_, column) => columnKind(run.rows, column));
    const numbers = kinds.flatMap((kind, column) => (kind === 'number' ? [column] : []));
    const year = numbers.find((column) => /year|jahr/i.test(run.columns[column]) && numbers.length > 1);
    const date = kinds.indexOf('date');
    const term = kinds.indexOf('term');
    const x = date >= 0 ? date : (year ?? (term >= 0 ? term : numbers[0]));
    const y = numbers.filter((column) => column !== x).at(-1) ?? numbers[0];
    const type = (x === date || x === year) && run.rows.length <= 2000 ? 'line' : x === term ? 'bar' : 'scatter';
    this.choice = { type, x, y, colour: -1 };
    /// The column that names the bars, for the way back from points.
    this.named = term;
  }

  #renderControls() {
    const { choice, kinds } = this;
    const set = (name, value) => {
      choice[name] = value;
      const other = (fits) => kinds.findIndex((kind, column) => column !== choice.y && fits(kind));
      // Lines and points need values across, bars take anything but the column that they show.
      if (name === 'type' && value !== 'bar' && kinds[choice.x] === 'term') choice.x = other((kind) => kind !== 'term');
      else if (name === 'type' && value === 'bar' && this.named >= 0) choice.x = this.named;
      else if (name === 'x' && kinds[value] === 'term') choice.type = 'bar';
      if (choice.x === choice.y)
        choice[name === 'y' ? 'x' : 'y'] =
          name === 'y'
            ? Math.max(
                0,
                other(() => true),
              )
            : kinds.findIndex((kind, column) => kind === 'number' && column !== choice.x);
      if (choice.y < 0) choice.y = choice.x;
      if (kinds[choice.x] === 'term') choice.type = 'bar';
      this.#renderControls();
      this.#draw();
    };
    const select = (label, name, columns, none) => {
      const options = columns.map((column) =>
        h('option', { value: String(column), selected: choice[name] === column }, this.run.columns[column]),
      );
      if (none) options.unshift(h('option', { value: '-1' }, none));
      return h(
        'label',
        { class: 'field' },
        label,
        h('select', { 'data-name': name, onChange: (event) => set(name, Number(event.target.value)) }, options),
      );
    };
    const all = kinds.map((_, column) => column);
    const values = kinds.filter((kind) => kind !== 'term').length;
    const types = [
      ['bar', 'Bars'],
      ['line', 'Line'],
      ['scatter', 'Points'],
    ].map(([type, label]) =>
      h(
        'button',
        {
          type: 'button',
          'aria-pressed': String(choice.type === type),
          disabled: type !== 'bar' && values < 2,
          onClick: () => set('type', type),
        },
        label,
      ),
    );
    const focused =
      document.activeElement?.dataset?.name ??
      (this.controls.contains(document.activeElement) ? document.activeElement.textContent : null);
    replace(
      this.controls,
      h('div', { class: 'segmented', role: 'group', 'aria-label': 'Kind of chart' }, types),
      select('Across', 'x', all),
      select(
        'Up',
        'y',
        all.filter((column) => kinds[column] === 'number'),
      ),
      choice.type !== 'bar' &&
        kinds.length > 2 &&
        select(
          'Colour',
          'colour',
          all.filter((column) => column !== choice.x && column !== choice.y),
          'none',
        ),
    );
    if (focused)
      [...this.controls.querySelectorAll('button, select')]
        .find((element) => (element.dataset.name ?? element.textContent) === focused)
        ?.focus();
  }

  #value(row, column) {
    const term = row[column];
    const kind = kindOf(term);
    return kind === 'number' ? numberOf(term) : kind === 'date' ? timeOf(term) : NaN;
  }

  #draw() {
    const width = Math.max(280, this.place.clientWidth);
    const height = Math.max(240, this.place.clientHeight);
    const { type, x } = this.choice;
    if (type === 'bar') this.#bars(width, height, this.kinds[x] === 'term');
    else this.#points(width, height, type === 'line');
  }

  /// Puts a drawing into its place with what it says in words.
  #show(width, height, text, marks, legend = []) {
    const drawing = svg(
      'svg',
      { class: 'chart', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': text },
      marks,
    );
    const keys = legend.map(([label, at]) =>
      h(
        'span',
        { class: 'legend-item' },
        h('span', { class: 'swatch', style: { background: `var(--series-${at + 1})` } }),
        label,
      ),
    );
    replace(
      this.place,
      drawing,
      keys.length > 0 && h('div', { class: 'legend chart-legend' }, keys),
      h('p', { class: 'sr-only' }, text),
    );
  }

  #bars(width, height, horizontal) {
    const { x, y } = this.choice;
    const { rows, columns } = this.run;
    const bars = rows
      .slice(0, MAX_BARS)
      .map((row) => ({ label: termLabel(row[x], this.options.short, 40), value: this.#value(row, y) }));
    const known = bars.filter(({ value }) => Number.isFinite(value));
    const axis = niceAxis(
      Math.min(0, ...known.map(({ value }) => value)),
      Math.max(0, ...known.map(({ value }) => value)),
      horizontal ? Math.min(6, width / 140) : 5,
    );
    const most = known.reduce((best, bar) => (bar.value > (best?.value ?? -Infinity) ? bar : best), null);
    const cut = rows.length > MAX_BARS ? ` The first ${MAX_BARS} of ${count(rows.length)} rows.` : '';
    const text = `Bars of ${columns[y]} for each ${columns[x]}: ${plural(bars.length, 'bar')}${most ? `, the longest is ${most.label} with ${count(most.value)}` : ''}.${cut}`;
    const tip = (bar) => ({
      onPointermove: (event) =>
        showTip(event.clientX, event.clientY, [bar.label, `${columns[y]}: ${count(bar.value)}`]),
      onPointerleave: hideTip,
    });
    const marks = [];
    if (horizontal) {
      const left = Math.min(
        width * 0.35,
        20 + 6.6 * Math.max(4, ...bars.map(({ label }) => Math.min(34, label.length))),
      );
      const step = Math.min(34, Math.max(18, (height - 56) / Math.max(1, bars.length)));
      const whole = Math.max(height, 56 + step * bars.length);
      const scale = linear(axis.domain, [left, width - 64]);
      for (const tick of axis.ticks) {
        marks.push(
          svg('line', { class: 'grid', x1: scale(tick), x2: scale(tick), y1: 28, y2: 30 + step * bars.length }),
          label(scale(tick), 20, compact(tick), 'middle'),
        );
      }
      bars.forEach((bar, at) => {
        const top = 30 + step * at;
        marks.push(label(left - 10, top + step / 2 + 4, bar.label, 'end', 'category'));
        if (!Number.isFinite(bar.value)) return;
        const [from, to] = [scale(0), scale(bar.value)].sort((a, b) => a - b);
        marks.push(
          svg('rect', {
            class: 'mark',
            x: from,
            y: top + step * 0.16,
            width: Math.max(1, to - from),
            height: step * 0.68,
            rx: 2,
            ...tip(bar),
          }),
        );
        marks.push(label(to + 6, top + step / 2 + 4, compact(bar.value), 'start', 'value'));
      });
      return this.#show(width, whole, text, [
        svg('g', {}, marks),
        cut && label(width - 16, whole - 8, cut.trim(), 'end'),
      ]);
    }
    const [left, bottom] = [64, height - 44];
    const scale = linear(axis.domain, [bottom, TOP]);
    const step = (width - left - 20) / Math.max(1, bars.length);
    this.#rows(marks, scale, axis, left, width);
    const each = Math.ceil(bars.length / Math.max(1, Math.floor((width - left) / 72)));
    bars.forEach((bar, at) => {
      const middle = left + step * (at + 0.5);
      if (at % each === 0) marks.push(label(middle, bottom + 18, bar.label.slice(0, 12), 'middle'));
      if (!Number.isFinite(bar.value)) return;
      const [top, end] = [scale(0), scale(bar.value)].sort((a, b) => a - b);
      marks.push(
        svg('rect', {
          class: 'mark',
          x: middle - step * 0.36,
          y: top,
          width: step * 0.72,
          height: Math.max(1, end - top),
          rx: 2,
          ...tip(bar),
        }),
      );
    });
    marks.push(label(width / 2, height - 6, columns[x], 'middle', 'axis'), label(16, 18, columns[y], 'start', 'axis'));
    this.#show(width, height, text, [marks, cut && label(width - 16, 18, cut.trim(), 'end')]);
  }

  #rows(marks, scale, axis, left, width) {
    for (const tick of axis.ticks) {
      marks.push(
        svg('line', { class: 'grid', x1: left, x2: width - 20, y1: scale(tick), y2: scale(tick) }),
        label(left - 10, scale(tick) + 4, compact(tick), 'end'),
      );
    }
  }

  #points(width, height, joined) {
    const { x, y, colour } = this.choice;
    const { columns } = this.run;
    const groups = new Map();
    const points = [];
    for (const row of this.run.rows) {
      const point = { x: this.#value(row, x), y: this.#value(row, y), at: 0, row };
      if (!Number.isFinite(point.x) || !Number.isFinite(point.y)) continue;
      if (points.length >= MAX_POINTS) break;
      if (colour >= 0) {
        const name = termLabel(row[colour], this.options.short, 28);
        if (!groups.has(name)) groups.set(name, groups.size);
        point.at = Math.min(groups.get(name), MAX_COLOURS - 1);
      }
      points.push(point);
    }
    if (points.length === 0)
      return replace(this.place, h('p', { class: 'empty' }, 'These columns have no numbers or dates to draw.'));
    const [left, bottom] = [64, height - 44];
    const isDate = this.kinds[x] === 'date';
    const xs = points.map((point) => point.x);
    const ys = points.map((point) => point.y);
    const least = (list) => list.reduce((a, b) => Math.min(a, b));
    const greatest = (list) => list.reduce((a, b) => Math.max(a, b));
    const isYear = !isDate && /year|jahr/i.test(columns[x]);
    const wanted = Math.max(2, Math.floor((width - left) / 110));
    const wide = isDate || isYear ? [least(xs), greatest(xs)] : niceAxis(least(xs), greatest(xs), wanted).domain;
    const floor = joined || (least(ys) >= 0 && least(ys) < greatest(ys) / 2) ? Math.min(0, least(ys)) : least(ys);
    const axis = niceAxis(floor, greatest(ys), 5);
    const acrossScale = linear(wide, [left + 8, width - 28]);
    const upScale = linear(axis.domain, [bottom, TOP]);
    const marks = [];
    this.#rows(marks, upScale, axis, left, width);
    const across = isDate
      ? dateTicks(...wide, wanted)
      : ticks(...wide, wanted).map((value) => ({ value, label: isYear ? String(value) : compact(value) }));
    for (const tick of across) marks.push(label(acrossScale(tick.value), bottom + 18, tick.label, 'middle'));
    if (joined) this.#lines(marks, points, acrossScale, upScale);
    if (!joined || points.length <= 200) {
      for (const point of points) {
        marks.push(
          svg('circle', {
            class: 'mark point',
            cx: acrossScale(point.x),
            cy: upScale(point.y),
            r: joined ? 3 : points.length > 800 ? 2.2 : 3.5,
            style: { fill: `var(--series-${point.at + 1})` },
          }),
        );
      }
    }
    marks.push(label(width / 2, height - 6, columns[x], 'middle', 'axis'), label(16, 18, columns[y], 'start', 'axis'));
    const halo = svg('circle', { class: 'halo', r: 7, visibility: 'hidden' });
    marks.push(halo);
    const cut =
      points.length >= MAX_POINTS ? ` The first ${count(MAX_POINTS)} of ${count(this.run.rows.length)} rows.` : '';
    if (cut) marks.push(label(width / 2, 18, cut.trim(), 'middle'));
    const range = `${columns[y]} from ${compact(least(ys))} to ${compact(greatest(ys))}`;
    const legend =
      colour < 0
        ? []
        : [...groups]
            .slice(0, MAX_COLOURS)
            .map(([name, at]) => [groups.size > MAX_COLOURS && at === MAX_COLOURS - 1 ? 'others' : name, at]);
    this.#show(
      width,
      height,
      `${joined ? 'A line' : 'Points'} of ${columns[y]} over ${columns[x]}: ${plural(points.length, 'point')}, ${range}.${cut}`,
      marks,
      legend,
    );
    this.#nearest(points, acrossScale, upScale, halo);
  }

  #lines(marks, points, acrossScale, upScale) {
    const series = new Map();
    for (const point of points) {
      if (!series.has(point.at)) series.set(point.at, []);
      series.get(point.at).push(point);
    }
    for (const [at, list] of series) {
      const sorted = [...list].sort((a, b) => a.x - b.x);
      const path = sorted
        .map(
          (point, number) => `${number ? 'L' : 'M'}${acrossScale(point.x).toFixed(1)} ${upScale(point.y).toFixed(1)}`,
        )
        .join('');
      marks.push(svg('path', { class: 'line', d: path, style: { stroke: `var(--series-${at + 1})` } }));
    }
  }

  /// The tip of the point that is nearest to the pointer.
  #nearest(points, acrossScale, upScale, halo) {
    const drawing = this.place.querySelector('svg');
    drawing.addEventListener('pointerleave', () => {
      halo.setAttribute('visibility', 'hidden');
      hideTip();
    });
    drawing.addEventListener('pointermove', (event) => {
      const box = drawing.getBoundingClientRect();
      const [px, py] = [event.clientX - box.left, event.clientY - box.top];
      let best = null;
      let nearest = 28 ** 2;
      for (const point of points) {
        const square = (acrossScale(point.x) - px) ** 2 + (upScale(point.y) - py) ** 2;
        if (square < nearest) [nearest, best] = [square, point];
      }
      halo.setAttribute('visibility', best ? 'visible' : 'hidden');
      if (!best) return hideTip();
      halo.setAttribute('cx', acrossScale(best.x));
      halo.setAttribute('cy', upScale(best.y));
      showTip(
        event.clientX,
        event.clientY,
        this.run.columns.map((name, column) => `${name}: ${termLabel(best.row[column], this.options.short, 40)}`),
      );
    });
  }
}

function label(x, y, text, anchor, kind = '') {
  return svg('text', { x, y, 'text-anchor': anchor, class: kind }, text);
}
