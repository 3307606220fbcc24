// The time line of a query: which box ran on which core when. A lane for each seat, drawn on a canvas, so that 100,000 spans stay quick.

import { colour, eachFrame, h, icon, replace } from './dom.js';
import { count, duration, plural } from './format.js';
import { linear, ticks } from './scales.js';
import { firstEndingAfter, lanesOf, occupancy, spanAt, sumsByBox, visit } from './time-index.js';
import { hideTip, showTip } from './tooltip.js';

const GUTTER = 92;
const OVERVIEW = 34;
const AXIS = 24;
const NODE_HEAD = 20;
const SERIES = 8;
const WAIT_STEPS = 6;

export class Timeline {
  constructor(parent) {
    this.by = 'wait';
    this.controls = h('div', { class: 'view-controls' });
    this.canvas = h('canvas', {
      class: 'timeline',
      tabindex: '0',
      role: 'application',
      'aria-roledescription': 'time line',
      'aria-label':
        'Time line. Left and right pan, plus and minus zoom, 0 shows all; up and down choose a lane, comma and ' +
        'full stop step through its spans. The table below has the sums.',
    });
    this.place = h('div', { class: 'timeline-place' }, this.canvas);
    this.details = h('p', { class: 'timeline-details', 'aria-live': 'polite' });
    this.sums = h('div', { class: 'timeline-sums' });
    this.empty = h('p', { class: 'empty' });
    this.frame = h('div', { class: 'timeline-frame' }, this.controls, this.place, this.details, this.sums);
    parent.append(this.empty, this.frame);
    this.redraw = eachFrame(() => this.#draw());
    new ResizeObserver(() => this.redraw()).observe(this.place);
    addEventListener('themechange', () => this.redraw());
    this.canvas.addEventListener('wheel', (event) => this.#wheel(event), { passive: false });
    this.canvas.addEventListener('pointerdown', (event) => this.#press(event));
    this.canvas.addEventListener('pointermove', (event) => this.#hover(event));
    this.canvas.addEventListener('pointerleave', () => {
      this.hovered = null;
      hideTip();
      this.redraw();
    });
    this.canvas.addEventListener('keydown', (event) => this.#key(event));
    this.show(null, 'Run a query to see its time line.');
  }

  /// Shows a trace, or why there is none. `save` saves the run as one file.
  show(trace, why = '', save = null) {
    this.trace = trace;
    this.save = save;
    this.empty.textContent = why;
    this.empty.hidden = Boolean(trace);
    this.frame.hidden = !trace;
    if (!trace) return;
    this.lanes = lanesOf(trace);
    this.span = Math.max(1, trace.spanNs);
    this.window = [0, this.span];
    this.chosen = null;
    this.hovered = null;
    this.byBox = sumsByBox(this.lanes);
    this.series = new Map(this.byBox.map(({ box }, at) => [box, Math.min(at, SERIES - 1)]));
    this.busy = null;
    this.spans = this.lanes.reduce((sum, { spans }) => sum + spans.length, 0);
    this.#renderControls();
    this.#renderSums();
    this.#say();
    this.redraw();
  }

  #name(box) {
    return this.trace.boxes[box] ?? `box ${box}`;
  }

  #renderControls() {
    const button = (name, label, action) =>
      h(
        'button',
        { type: 'button', class: 'button icon-only', 'aria-label': label, title: label, onClick: action },
        icon(name),
      );
    const choices = [
      ['wait', 'Memory wait'],
      ['box', 'Box'],
    ].map(([by, label]) =>
      h(
        'button',
        {
          type: 'button',
          'aria-pressed': String(this.by === by),
          onClick: (event) => {
            this.by = by;
            this.#renderControls();
            this.controls.querySelector('[aria-pressed=true]').focus();
            this.redraw();
          },
        },
        label,
      ),
    );
    const legend =
      this.by === 'wait'
        ? h(
            'div',
            { class: 'legend' },
            h('span', { class: 'quiet' }, 'Waiting for memory (an estimate)'),
            h('span', { class: 'quiet' }, '0 %'),
            h('span', { class: 'wait-scale', 'aria-hidden': 'true' }),
            h('span', { class: 'quiet' }, '100 %'),
            h('span', { class: 'legend-item' }, h('span', { class: 'swatch unknown' }), 'not known'),
          )
        : h(
            'div',
            { class: 'legend' },
            this.byBox
              .slice(0, SERIES)
              .map(({ box }, at) =>
                h(
                  'span',
                  { class: 'legend-item' },
                  h('span', { class: 'swatch', style: { background: `var(--series-${at + 1})` } }),
                  at === SERIES - 1 && this.byBox.length > SERIES ? 'others' : this.#name(box),
                ),
              ),
          );
    replace(
      this.controls,
      h('span', { class: 'quiet' }, 'Colour'),
      h('div', { class: 'segmented', role: 'group', 'aria-label': 'Colour by' }, choices),
      legend,
      h('span', { class: 'grow' }),
      button('minus', 'Zoom out', () => this.#zoom(1.6)),
      button('plus', 'Zoom in', () => this.#zoom(1 / 1.6)),
      button('fit', 'Show all', () => this.#setWindow(0, this.span)),
      this.save &&
        h(
          'button',
          { type: 'button', class: 'button', title: 'Save the run as one file that shows all of it', onClick: this.save },
          icon('download'),
          'Save the run',
        ),
    );
  }

  #renderSums() {
    const total = this.byBox.reduce((sum, { ns }) => sum + ns, 0) || 1;
    const cell = (text, kind = 'number') => h('td', { class: kind }, text);
    replace(
      this.sums,
      h(
        'p',
        { class: 'note' },
        `${plural(this.spans, 'span')} on ${plural(this.lanes.length, 'seat')} in ${duration(this.span / 1e6)}.${this.trace.cut ? ' The trace was full before the end: later spans are missing.' : ''}`,
      ),
      h(
        'table',
        { class: 'sums' },
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            ['Box', 'Time', 'Share', 'Spans', 'Memory wait (estimate)'].map((text, at) =>
              h('th', { scope: 'col', class: at ? 'number' : '' }, text),
            ),
          ),
        ),
        h(
          'tbody',
          {},
          this.byBox.map((sum) =>
            h(
              'tr',
              {},
              h(
                'td',
                {},
                h('span', { class: 'swatch', style: { background: `var(--series-${this.series.get(sum.box) + 1})` } }),
                this.#name(sum.box),
              ),
              cell(duration(sum.ns / 1e6)),
              cell(`${Math.round((sum.ns / total) * 100)} %`),
              cell(count(sum.spans)),
              cell(sum.wait === null ? '–' : `${Math.round(sum.wait * 100)} %`),
            ),
          ),
        ),
      ),
    );
  }

  // ---- geometry ----

  #laneTops() {
    const height = this.lanes.length > 24 ? 16 : this.lanes.length > 10 ? 22 : 28;
    const tops = [];
    let top = OVERVIEW + AXIS;
    let node = null;
    for (const lane of this.lanes) {
      if (lane.node !== node) {
        node = lane.node;
        top += NODE_HEAD;
      }
      tops.push(top);
      top += height + 3;
    }
    return { tops, height, end: top + 6 };
  }

  #time(x) {
    const [from, to] = this.window;
    return from + ((x - GUTTER) / (this.width - GUTTER - 8)) * (to - from);
  }

  #setWindow(from, to) {
    const least = Math.min(this.span, 200);
    const length = Math.min(this.span, Math.max(least, to - from));
    const middle = (from + to) / 2;
    const begin = Math.min(Math.max(0, middle - length / 2), this.span - length);
    this.window = [begin, begin + length];
    this.redraw();
  }

  #zoom(factor, at = (this.window[0] + this.window[1]) / 2) {
    const [from, to] = this.window;
    this.#setWindow(at - (at - from) * factor, at + (to - at) * factor);
  }

  #pan(part) {
    const length = this.window[1] - this.window[0];
    const begin = Math.min(Math.max(0, this.window[0] + part * length), this.span - length);
    this.window = [begin, begin + length];
    this.redraw();
  }

  // ---- drawing ----

  #colours() {
    const mix = (part) => {
      const [low, middle, high] = ['--wait-low', '--wait-middle', '--wait-high'].map((name) =>
        colour(name)
          .match(/[\d.]+/g)
          .map(Number),
      );
      const [a, b, at] = part < 0.5 ? [low, middle, part * 2] : [middle, high, part * 2 - 1];
      return `rgb(${[0, 1, 2].map((channel) => Math.round(a[channel] + (b[channel] - a[channel]) * at)).join(' ')})`;
    };
    const waits = Array.from({ length: WAIT_STEPS + 1 }, (_, at) => mix(at / WAIT_STEPS));
    const series = Array.from({ length: SERIES }, (_, at) => colour(`--series-${at + 1}`));
    const rest = Object.fromEntries(
      ['text', 'text-quiet', 'line', 'surface', 'lane', 'unknown', 'accent'].map((name) => [name, colour(`--${name}`)]),
    );
    return { waits, series, ...rest };
  }

  #draw() {
    if (!this.trace || this.place.clientWidth === 0) return;
    const { tops, height, end } = this.#laneTops();
    const width = this.place.clientWidth;
    const ratio = devicePixelRatio || 1;
    this.width = width;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(end * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(end * ratio);
      this.canvas.style.height = `${end}px`;
      this.busy = null;
    }
    const context = this.canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, end);
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle';
    const colours = this.#colours();
    const plot = width - GUTTER - 8;
    this.#drawOverview(context, colours, plot);
    this.#drawAxis(context, colours, plot, end);
    let node = null;
    this.lanes.forEach((lane, at) => {
      if (lane.node !== node) {
        node = lane.node;
        context.fillStyle = colours['text-quiet'];
        context.fillText(`Node ${node}`, 4, tops[at] - NODE_HEAD / 2 + 1);
      }
      context.fillStyle = colours.lane;
      context.fillRect(GUTTER, tops[at], plot, height);
      context.fillStyle = this.chosen?.lane === at ? colours.accent : colours.text;
      context.fillText(`PU ${lane.pu} · seat ${lane.seat}`, 4, tops[at] + height / 2);
      const [from, to] = this.window;
      visit(lane.spans, from, to, plot, (x, length, box, wait) => {
        context.fillStyle =
          this.by === 'box'
            ? colours.series[this.series.get(box)]
            : wait === null
              ? colours.unknown
              : colours.waits[Math.round(wait * WAIT_STEPS)];
        context.fillRect(GUTTER + x, tops[at], Math.max(0.6, length - (length > 4 ? 0.8 : 0)), height);
        if (length > 60 && height >= 20)
          this.#label(context, this.#name(box), GUTTER + x + 5, tops[at] + height / 2, length - 10);
      });
    });
    for (const [mark, strong] of [
      [this.hovered, false],
      [this.chosen, true],
    ])
      this.#outline(context, mark, strong, tops, height, plot, colours);
  }

  #label(context, text, x, y, room) {
    if (context.measureText(text).width > room) return;
    context.fillStyle = this.by === 'box' ? colour('--on-series') : colour('--on-wait');
    context.fillText(text, x, y);
  }

  #outline(context, mark, strong, tops, height, plot, colours) {
    const span = mark && mark.span >= 0 && this.lanes[mark.lane].spans[mark.span];
    if (!span) return;
    const scale = linear(this.window, [GUTTER, GUTTER + plot]);
    const left = Math.max(GUTTER, scale(span[0]));
    const right = Math.min(GUTTER + plot, scale(span[1]));
    if (right < GUTTER || left > GUTTER + plot) return;
    context.strokeStyle = strong ? colours.accent : colours.text;
    context.lineWidth = strong ? 2 : 1;
    context.strokeRect(left - 1, tops[mark.lane] - 1, Math.max(2, right - left) + 2, height + 2);
  }

  /// How busy the seats were over the whole time, with the part that is shown below.
  #drawOverview(context, colours, plot) {
    const columns = Math.max(1, Math.floor(plot / 2));
    this.busy ??= occupancy(this.lanes, this.span, columns);
    context.fillStyle = colours.lane;
    context.fillRect(GUTTER, 2, plot, OVERVIEW - 8);
    context.fillStyle = colours['text-quiet'];
    context.fillText('All', 4, OVERVIEW / 2 - 2);
    context.globalAlpha = 0.55;
    this.busy.forEach((busy, at) =>
      context.fillRect(
        GUTTER + (at * plot) / columns,
        2 + (1 - busy) * (OVERVIEW - 8),
        plot / columns,
        busy * (OVERVIEW - 8),
      ),
    );
    context.globalAlpha = 1;
    const scale = linear([0, this.span], [GUTTER, GUTTER + plot]);
    context.strokeStyle = colours.accent;
    context.lineWidth = 1.5;
    context.strokeRect(
      scale(this.window[0]),
      2,
      Math.max(3, scale(this.window[1]) - scale(this.window[0])),
      OVERVIEW - 8,
    );
  }

  #drawAxis(context, colours, plot, end) {
    const [from, to] = this.window.map((ns) => ns / 1e6);
    const scale = linear([from, to], [GUTTER, GUTTER + plot]);
    context.textAlign = 'center';
    for (const tick of ticks(from, to, Math.max(2, plot / 110))) {
      const x = scale(tick);
      context.fillStyle = colours.line;
      context.fillRect(Math.round(x), OVERVIEW + AXIS - 6, 1, end - OVERVIEW - AXIS);
      context.fillStyle = colours['text-quiet'];
      context.fillText(tickText(tick, to - from), Math.min(x, GUTTER + plot - 18), OVERVIEW + 8);
    }
    context.textAlign = 'left';
  }

  // ---- pointer and keys ----

  #at(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const { tops, height } = this.#laneTops();
    const lane = tops.findIndex((top) => y >= top && y < top + height);
    const slack = (2 * (this.window[1] - this.window[0])) / this.width;
    const span = lane >= 0 && x >= GUTTER ? spanAt(this.lanes[lane].spans, this.#time(x), slack) : -1;
    return { x, y, lane, span };
  }

  #hover(event) {
    if (this.dragged) return;
    const { lane, span } = this.#at(event);
    this.hovered = span >= 0 ? { lane, span } : null;
    if (this.hovered) showTip(event.clientX, event.clientY, this.#lines(this.hovered));
    else hideTip();
    this.redraw();
  }

  #lines({ lane, span }) {
    const { seat, pu, node, spans } = this.lanes[lane];
    const [begin, end, box, wait] = spans[span];
    return [
      this.#name(box),
      `${duration((end - begin) / 1e6)}, from ${duration(begin / 1e6)}`,
      wait === null ? 'memory wait not known' : `about ${Math.round(wait * 100)} % waiting for memory`,
      `seat ${seat}, PU ${pu}, node ${node}`,
    ];
  }

  #say() {
    this.details.textContent = this.chosen
      ? this.#lines(this.chosen).join(' · ')
      : 'Point at a span or click it; drag to pan, turn the wheel to zoom.';
  }

  #press(event) {
    const start = this.#at(event);
    const [from, to] = this.window;
    const begin = event.clientX;
    const inOverview = start.y < OVERVIEW;
    const centre = (clientX) => {
      const x = clientX - this.canvas.getBoundingClientRect().left;
      const middle = ((x - GUTTER) / (this.width - GUTTER - 8)) * this.span;
      const half = (this.window[1] - this.window[0]) / 2;
      this.#setWindow(middle - half, middle + half);
    };
    if (inOverview) centre(event.clientX);
    this.dragged = false;
    const move = (event) => {
      if (Math.abs(event.clientX - begin) > 3) this.dragged = true;
      if (!this.dragged) return;
      hideTip();
      if (inOverview) return centre(event.clientX);
      const shift = ((begin - event.clientX) / (this.width - GUTTER - 8)) * (to - from);
      const length = to - from;
      const left = Math.min(Math.max(0, from + shift), this.span - length);
      this.window = [left, left + length];
      this.redraw();
    };
    addEventListener('pointermove', move);
    addEventListener(
      'pointerup',
      () => {
        removeEventListener('pointermove', move);
        if (!this.dragged && !inOverview) this.#choose(start.span >= 0 ? { lane: start.lane, span: start.span } : null);
        this.dragged = false;
      },
      { once: true },
    );
  }

  #choose(mark) {
    this.chosen = mark;
    this.#say();
    this.redraw();
  }

  #wheel(event) {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
      this.#pan((event.deltaX || event.deltaY) / 1000);
    else
      this.#zoom(
        Math.exp(event.deltaY * 0.0018),
        Math.min(this.window[1], Math.max(this.window[0], this.#time(event.offsetX))),
      );
  }

  #key(event) {
    const lane = this.chosen?.lane ?? 0;
    const step = (by) => {
      const { spans } = this.lanes[lane];
      if (spans.length === 0) return;
      const at =
        this.chosen?.lane === lane && this.chosen.span >= 0
          ? this.chosen.span + by
          : firstEndingAfter(spans, this.window[0]);
      const span = Math.min(spans.length - 1, Math.max(0, at));
      this.#choose({ lane, span });
      const [begin, end] = spans[span];
      const length = this.window[1] - this.window[0];
      if (begin < this.window[0] || end > this.window[1])
        this.#setWindow((begin + end - length) / 2, (begin + end + length) / 2);
    };
    const toLane = (to) => {
      const next = Math.min(this.lanes.length - 1, Math.max(0, to));
      const time = this.chosen && this.chosen.span >= 0 ? this.lanes[lane].spans[this.chosen.span][0] : this.window[0];
      this.#choose({
        lane: next,
        span: Math.min(firstEndingAfter(this.lanes[next].spans, time), this.lanes[next].spans.length - 1),
      });
    };
    const actions = {
      ArrowLeft: () => this.#pan(-0.15),
      ArrowRight: () => this.#pan(0.15),
      '+': () => this.#zoom(1 / 1.6),
      '=': () => this.#zoom(1 / 1.6),
      '-': () => this.#zoom(1.6),
      0: () => this.#setWindow(0, this.span),
      Home: () => this.#pan(-1e9),
      End: () => this.#pan(1e9),
      ArrowUp: () => toLane(lane - 1),
      ArrowDown: () => toLane(this.chosen ? lane + 1 : 0),
      ',': () => step(-1),
      '.': () => step(1),
      Escape: () => this.#choose(null),
    };
    if (!actions[event.key] || this.lanes.length === 0 || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    actions[event.key]();
  }
}

/// A tick in the unit of the window: µs below a millisecond.
function tickText(milliseconds, span) {
  if (span < 1) return `${Number((milliseconds * 1000).toPrecision(7))} µs`;
  return span < 10_000
    ? `${Number(milliseconds.toPrecision(7))} ms`
    : `${Number((milliseconds / 1000).toPrecision(6))} s`;
}
