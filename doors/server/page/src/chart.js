// Charts of a result: bars, lines, points. Drawn as SVG for the size of their place.

import { h, icon, replace, svg } from './dom.js';
import { compact, count, plural } from './format.js';
import { savePicture } from './picture.js';
import { dateTicks, linear, niceAxis, ticks } from './scales.js';
import { nameLabel, termLabel } from './term-view.js';
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
    /// What the drawing leaves out, in sight however far it is scrolled.
    this.note = h('span', { class: 'quiet grow', role: 'status' });
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
    this.choice = { type, x, y, also: -1, colour: -1 };
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
      // A second column and colours of a third one would share the same colours.
      if (choice.also === choice.y || choice.also === choice.x || (name === 'colour' && value >= 0)) choice.also = -1;
      if (name === 'also' && value >= 0) choice.colour = -1;
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
      kinds.filter((kind, column) => kind === 'number' && column !== choice.x).length > 1 &&
        select(
          'and',
          'also',
          all.filter((column) => kinds[column] === 'number' && column !== choice.x && column !== choice.y),
          'none',
        ),
      choice.type !== 'bar' &&
        kinds.length > 2 &&
        select(
          'Colour',
          'colour',
          all.filter((column) => column !== choice.x && column !== choice.y),
          'none',
        ),
      this.note,
      h(
        'button',
        {
          type: 'button',
          class: 'button small',
          title: 'Save the chart as an SVG file',
          onClick: () => {
            const drawing = this.place.querySelector('svg');
            if (drawing) savePicture(drawing, 'chart.svg', this.legend);
          },
        },
        icon('download'),
        'SVG',
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

  /// The columns that are drawn upwards: one or two.
  get #up() {
    const { y, also } = this.choice;
    return also >= 0 ? [y, also] : [y];
  }

  /// What a column is called, each with its colour, if there are two.
  get #names() {
    const up = this.#up;
    return up.length > 1 ? up.map((column, at) => [this.run.columns[column], at]) : [];
  }

  /// Puts a drawing into its place with what it says in words; `cut` is what it leaves out.
  #show(width, height, text, marks, legend = [], cut = '') {
    this.legend = legend;
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
    // The names of two columns have room beside the choices; those of many values stand in the drawing's corner.
    const few = keys.length <= 2;
    replace(this.note, few && keys, cut.trim());
    replace(
      this.place,
      drawing,
      !few && h('div', { class: 'legend chart-legend' }, keys),
      h('p', { class: 'sr-only' }, text),
    );
  }

  #bars(width, height, horizontal) {
    const { x } = this.choice;
    const { rows, columns } = this.run;
    const up = this.#up;
    const bars = rows.slice(0, MAX_BARS).map((row) => ({
      label: nameLabel(row[x], this.options.short, 32),
      values: up.map((column) => this.#value(row, column)),
    }));
    const values = bars.flatMap((bar) => bar.values).filter(Number.isFinite);
    const axis = niceAxis(Math.min(0, ...values), Math.max(0, ...values), horizontal ? Math.min(6, width / 140) : 5);
    const known = bars.filter((bar) => Number.isFinite(bar.values[0]));
    const most = known.reduce((best, bar) => (bar.values[0] > (best?.values[0] ?? -Infinity) ? bar : best), null);
    const cut = rows.length > MAX_BARS ? ` The first ${MAX_BARS} of ${count(rows.length)} rows.` : '';
    const title = up.map((column) => columns[column]).join(' and ');
    const text = `Bars of ${title} for each ${columns[x]}: ${plural(bars.length, 'bar')}${most ? `, the longest is ${most.label} with ${count(most.values[0])}` : ''}.${cut}`;
    const tip = (bar) => ({
      onPointermove: (event) =>
        showTip(event.clientX, event.clientY, [
          bar.label,
          ...up.map((column, at) => `${columns[column]}: ${count(bar.values[at])}`),
        ]),
      onPointerleave: hideTip,
    });
    // Bars of the columns share the place of one: `[offset, thickness]` of each, as parts of it.
    const part = (at, all) => [((1 - all) / 2) + (all * at) / up.length, all / up.length];
    const marks = [];
    if (horizontal) {
      const left = Math.min(
        width * 0.4,
        24 + 7 * Math.max(4, ...bars.map(({ label }) => label.length)),
      );
      const step = Math.min(40, Math.max(up.length > 1 ? 36 : 18, (height - 56) / Math.max(1, bars.length)));
      const whole = Math.max(height, 56 + step * bars.length);
      const scale = linear(axis.domain, [left, width - 64]);
      for (const tick of axis.ticks) {
        marks.push(
          svg('line', { class: 'grid', x1: scale(tick), x2: scale(tick), y1: 28, y2: 30 + step * bars.length }),
          label(scale(tick), 20, compact(tick), 'middle'),
        );
      }
      bars.forEach((bar, row) => {
        const top = 30 + step * row;
        marks.push(label(left - 10, top + step / 2 + 4, bar.label, 'end', 'category'));
        bar.values.forEach((value, at) => {
          if (!Number.isFinite(value)) return;
          const [from, to] = [scale(0), scale(value)].sort((a, b) => a - b);
          const [offset, thickness] = part(at, 0.68);
          marks.push(
            svg('rect', {
              class: 'mark',
              x: from,
              y: top + step * offset,
              width: Math.max(1, to - from),
              height: step * thickness,
              rx: 2,
              style: { fill: `var(--series-${at + 1})` },
              ...tip(bar),
            }),
            label(to + 6, top + step * (offset + thickness / 2) + 4, compact(value), 'start', 'value'),
          );
        });
      });
      return this.#show(width, whole, text, svg('g', {}, marks), this.#names, cut);
    }
    const [left, bottom] = [64, height - 44];
    const scale = linear(axis.domain, [bottom, TOP]);
    const step = (width - left - 20) / Math.max(1, bars.length);
    this.#rows(marks, scale, axis, left, width);
    const each = Math.ceil(bars.length / Math.max(1, Math.floor((width - left) / 72)));
    bars.forEach((bar, row) => {
      const begin = left + step * row;
      if (row % each === 0) marks.push(label(begin + step / 2, bottom + 18, bar.label.slice(0, 12), 'middle'));
      bar.values.forEach((value, at) => {
        if (!Number.isFinite(value)) return;
        const [top, end] = [scale(0), scale(value)].sort((a, b) => a - b);
        const [offset, thickness] = part(at, 0.72);
        marks.push(
          svg('rect', {
            class: 'mark',
            x: begin + step * offset,
            y: top,
            width: step * thickness,
            height: Math.max(1, end - top),
            rx: 2,
            style: { fill: `var(--series-${at + 1})` },
            ...tip(bar),
          }),
        );
      });
    });
    marks.push(label(width / 2, height - 6, columns[x], 'middle', 'axis'), label(16, 18, title, 'start', 'axis'));
    return this.#show(width, height, text, marks, this.#names, cut);
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
    const { x, colour } = this.choice;
    const { columns } = this.run;
    const up = this.#up;
    const title = up.map((column) => columns[column]).join(' and ');
    const groups = new Map();
    const points = [];
    for (const row of this.run.rows) {
      const across = this.#value(row, x);
      const all = up.map((column, at) => ({ x: across, y: this.#value(row, column), at, row }));
      for (const point of all) {
        if (!Number.isFinite(point.x) || !Number.isFinite(point.y)) continue;
        if (colour >= 0) {
          const name = nameLabel(row[colour], this.options.short, 28);
          if (!groups.has(name)) groups.set(name, groups.size);
          point.at = Math.min(groups.get(name), MAX_COLOURS - 1);
        }
        points.push(point);
      }
      if (points.length >= MAX_POINTS) break;
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
    marks.push(label(width / 2, height - 6, columns[x], 'middle', 'axis'), label(16, 18, title, 'start', 'axis'));
    const halo = svg('circle', { class: 'halo', r: 7, visibility: 'hidden' });
    marks.push(halo);
    const cut =
      points.length >= MAX_POINTS ? ` The first ${count(MAX_POINTS)} of ${count(this.run.rows.length)} rows.` : '';
    const range = `${title} from ${compact(least(ys))} to ${compact(greatest(ys))}`;
    const legend =
      colour < 0
        ? this.#names
        : [...groups]
            .slice(0, MAX_COLOURS)
            .map(([name, at]) => [groups.size > MAX_COLOURS && at === MAX_COLOURS - 1 ? 'others' : name, at]);
    this.#show(
      width,
      height,
      `${joined ? 'A line' : 'Points'} of ${title} over ${columns[x]}: ${plural(points.length, 'point')}, ${range}.${cut}`,
      marks,
      legend,
      cut,
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
