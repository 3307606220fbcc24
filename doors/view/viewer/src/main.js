// The viewer: puts the time line above the tables of the page, and marks what is chosen in all of them.

import { BUSY } from './activity.js';
import { h } from './dom.js';
import { duration } from './format.js';
import { firstEndingAfter, chunksIn, eventsIn, seatsOf } from './rows.js';
import { fill, keepTables } from './range-tables.js';
import { save } from './save.js';
import { readHash, writeHash } from './state.js';
import { ask, askOf, begin, serve, textOf } from './store.js';
import { prepared } from './sums.js';
import { NONE, SOME_JOB, TASKS } from './unpack.js';
import { Timeline, clipped } from './timeline.js';

const KEYS = [
  ['W, S, wheel', 'zoom in and out'],
  ['A, D, Shift and wheel', 'pan'],
  ['F or 0', 'show all; once more, what is chosen'],
  ['drag', 'measure a range: the tables below are then about it'],
  ['Shift and drag', 'pan'],
  ['click', 'choose a slice, and mark its box everywhere'],
  ['↑ ↓', 'another row'],
  [', and .', 'the slice before and behind'],
  ['R', 'measure what is seen'],
  ['Z', 'zoom to the range'],
  ['B', 'rows by core or by box'],
  ['C', 'show the longest chain'],
  ['/', 'search'],
  ['Escape', 'choose nothing'],
  ['Tab, ↑ ↓, Enter', 'in tables, plans and networks: go to a line or box, and mark it'],
];

/// What a key chooses in tables and plans.
const LINES = 'tr[tabindex], .plan span[tabindex]';
/// Arrows to what a slice led to are looked for in so many chunks.
const MOST_CHUNKS = 24;
/// The spawning of a task is looked for in so many chunks.
const MOST_SPAWNS = 8;
/// A range with more events is summed up when it is asked for.
const AT_ONCE = 3_000_000;

class View {
  constructor(runs) {
    this.runs = runs;
    this.root = document.getElementById('view');
    this.root.hidden = false;
    this.place = h('div', { class: 'place' });
    this.story = h('div', { class: 'story', 'aria-live': 'polite' });
    this.rangeLine = h('div', { class: 'range', hidden: true });
    this.legend = h('div', { class: 'legend' });
    this.search = h('input', {
      type: 'search',
      placeholder: 'Search boxes, request 3, seat 1',
      'aria-label': 'Search boxes, requests and seats',
      onInput: () => this.#find(),
      onKeydown: (event) => {
        if (event.key === 'Enter') this.#next();
        if (event.key === 'Escape') {
          this.search.value = '';
          this.#find();
          this.timeline.canvas.focus();
        }
      },
    });
    this.hits = h('div', { class: 'hits', hidden: true });
    this.help = h(
      'dialog',
      { 'aria-label': 'Keys' },
      h('h2', {}, 'Keys'),
      h(
        'dl',
        { class: 'keys' },
        KEYS.map(([key, does]) => h('div', {}, h('dt', {}, key), h('dd', {}, does))),
      ),
      h('form', { method: 'dialog' }, h('button', {}, 'Close')),
    );
    this.bar = h('div', { class: 'bar' });
    this.root.append(this.bar, this.hits, this.legend, this.place, this.rangeLine, this.story, this.help);
    this.timeline = new Timeline(runs, this.place, {
      chose: (slice) => this.choose(slice),
      ranged: (range) => this.setRange(range),
      row: (row) =>
        this.mark(
          row.kind === 'seat'
            ? { kind: 'seat', id: row.seat, run: row.run }
            : { kind: 'key', id: row.key, run: row.run },
        ),
      moved: () => this.#moved(),
      failed: (error) => this.#say(h('p', { class: 'bad' }, error.message)),
    });
    this.#renderBar();
    this.#renderLegend();
    this.#listen();
    this.#marks();
    this.#reachable();
    keepTables(runs);
    this.#restore();
    this.#say();
  }

  // ---- controls ----

  #choice(label, choices, chosen, choose) {
    return h(
      'div',
      { class: 'choice', role: 'group', 'aria-label': label },
      h('span', {}, label),
      choices.map(([value, name]) =>
        h(
          'button',
          {
            type: 'button',
            'aria-pressed': String(value === chosen()),
            'data-value': value,
            onClick: () => choose(value),
          },
          name,
        ),
      ),
    );
  }

  #renderBar() {
    const { timeline } = this;
    const button = (name, title, action, more = {}) =>
      h('button', { type: 'button', title, onClick: action, ...more }, name);
    this.bar.replaceChildren(
      this.#choice(
        'Rows',
        [
          ['cores', 'Cores'],
          ['boxes', 'Boxes'],
        ],
        () => timeline.rowsBy,
        (value) => this.setRows(value),
      ),
      this.#choice(
        'Colour',
        [
          ['type', 'Box'],
          ['request', 'Request'],
          ['rule', 'Rule'],
          ['memory', 'Memory wait'],
        ],
        () => timeline.by,
        (value) => this.setColour(value),
      ),
      button('Longest chain', 'Show the longest chain of work (C)', () => this.setChain(!timeline.isChain), {
        'aria-pressed': String(timeline.isChain),
        'data-value': 'chain',
      }),
      this.search,
      h('span', { class: 'grow' }),
      button('−', 'Zoom out (S)', () => timeline.zoom(1.6), { 'aria-label': 'Zoom out' }),
      button('+', 'Zoom in (W)', () => timeline.zoom(1 / 1.6), { 'aria-label': 'Zoom in' }),
      button('Fit', 'Show all (F)', () => timeline.fit()),
      button('Measure', 'Measure what is seen: the tables are then about it (R)', () => this.setRange([...timeline.window])),
      ...this.runs.map((run, number) =>
        button(
          this.runs.length > 1 ? `Save trace ${'AB'[number]}` : 'Save trace',
          'Save the recording as a trace file',
          () => this.#save(number),
          {
            class: 'save',
          },
        ),
      ),
      button('?', 'Keys (?)', () => this.help.showModal(), { 'aria-label': 'Keys' }),
    );
  }

  #press(value, isPressed) {
    this.bar
      .querySelectorAll(`[data-value="${value}"]`)
      .forEach((button) => button.setAttribute('aria-pressed', String(isPressed)));
  }

  setRows(value) {
    this.timeline.setRows(value);
    ['cores', 'boxes'].forEach((each) => this.#press(each, each === value));
    this.#moved();
    // Slices of other seats may be needed for stalls of boxes.
    this.#renderLegend();
  }

  setColour(value) {
    this.timeline.by = value;
    ['type', 'request', 'rule', 'memory'].forEach((each) => this.#press(each, each === value));
    this.#renderLegend();
    this.timeline.redraw();
    this.#moved();
  }

  setChain(is) {
    this.timeline.isChain = is;
    this.#press('chain', is);
    this.timeline.redraw();
    this.#moved();
  }

  #renderLegend() {
    const { timeline, runs } = this;
    const item = (className, name, mark, title) =>
      h(
        mark ? 'button' : 'span',
        { class: 'item', type: mark && 'button', title, onClick: mark && (() => this.mark(mark)) },
        h('i', { class: className }),
        name,
      );
    const items = [];
    const [run] = runs;
    if (timeline.by === 'type') {
      const types = run.types
        .map((name, type) => ({
          name,
          type,
          ns: run.keys.reduce((sum, _, key) => sum + (run.typeOf[key] === type ? run.busyNs[key] : 0), 0),
        }))
        .filter(({ ns }) => ns > 0)
        .sort((a, b) => b.ns - a.ns);
      for (const { name, type } of types.slice(0, 7)) {
        const key = run.typeOf.indexOf(type);
        items.push(item(`c${run.colours[key]}`, name, { kind: 'type', id: type, run: 0 }));
      }
      if (types.length > 7) items.push(item('c7', `${types.length - 7} others`));
    } else if (timeline.by === 'request') {
      run.requests
        .slice(0, 7)
        .forEach(([id]) => items.push(item(`c${id % 7}`, `request ${id}`, { kind: 'request', id, run: 0 })));
      if (run.requests.length > 7)
        items.push(item('', `and ${run.requests.length - 7} more, colours again from the first on`));
    } else if (timeline.by === 'rule') {
      for (let rule = 1; rule <= 6; rule += 1)
        items.push(item(`c${rule % 7}`, `rule ${rule}`, { kind: 'rule', id: rule, run: 0 }));
      items.push(item('c7', 'not taken from a queue'));
    } else {
      items.push(
        h('span', { class: 'item' }, '0 %'),
        h('span', { class: 'heat', 'aria-hidden': 'true' }),
        h('span', { class: 'item' }, '100 % of the time for memory, an estimate'),
      );
    }
    if (timeline.rowsBy === 'cores') {
      const states = [
        ['around', 'before and after user code'],
        ['waits', 'waits for its tasks'],
        ['group', 'waits for a group of tasks'],
        ['barrier', 'waits at a barrier'],
        ['looks', 'looks for work'],
        ['asleep', 'asleep'],
        ['lent', 'a lent thread'],
      ];
      states.forEach(([name, text]) => items.push(item(`s-${name}`, text)));
    } else items.push(item('s-blocked', 'blocked by a full via'));
    this.legend.replaceChildren(...items);
  }

  // ---- choosing ----

  mark(mark) {
    const { timeline } = this;
    const isSame =
      mark &&
      timeline.mark &&
      mark.kind === timeline.mark.kind &&
      mark.id === timeline.mark.id &&
      mark.run === timeline.mark.run;
    timeline.mark = isSame ? null : mark;
    timeline.redraw();
    this.#marks();
    this.#moved();
    this.#say();
  }

  /// Marks what is chosen in tables and pictures: strongly what was clicked, weakly what belongs to it.
  #marks() {
    const { mark, chosen } = this.timeline;
    document.querySelectorAll('.marked, .touched').forEach((element) => element.classList.remove('marked', 'touched'));
    const all = (run, attribute, id, className) => {
      document
        .querySelectorAll(`.run-body[data-run="${run}"] [data-${attribute}~="${id}"]`)
        .forEach((element) => element.classList.add(className));
    };
    const keys = (run, id, className) => {
      const index = this.runs[run];
      all(run, 'key', id, className);
      all(run, 'type', index.typeOf[id], className);
      const isIt = (model, box) => index.keyOfModel[model]?.[box] === id;
      index.vias.forEach(([model, from, , to], via) => {
        if (isIt(model, from) || isIt(model, to)) all(run, 'via', via, 'touched');
      });
    };
    if (mark) {
      const { kind, id, run } = mark;
      if (kind === 'key') keys(run, id, 'marked');
      else if (kind === 'type') {
        all(run, 'type', id, 'marked');
        this.runs[run].typeOf.forEach((type, key) => type === id && all(run, 'key', key, 'marked'));
      } else if (kind === 'via') {
        all(run, 'via', id, 'marked');
        const [model, from, , to] = this.runs[run].vias[id];
        [from, to].forEach((box) => {
          document
            .querySelectorAll(`.run-body[data-run="${run}"] [data-box="${model}.${box}"]`)
            .forEach((box) => box.classList.add('touched'));
        });
      } else all(run, kind, id, 'marked');
      // A core group, a node or a queue is marked with the seats on or before it, and these with it.
      if (kind === 'seat') all(run, 'seats', id, 'touched');
      this.timeline.seats = new Set(kind === 'place' ? this.#placeOf(mark)?.dataset.seats.split(' ').map(Number) : []);
      this.timeline.seats.forEach((seat) => all(run, 'seat', seat, 'touched'));
    }
    if (chosen) {
      if (chosen.key >= 0) keys(chosen.run, chosen.key, 'touched');
      all(chosen.run, 'seat', chosen.seat, 'touched');
      all(chosen.run, 'seats', chosen.seat, 'touched');
      all(chosen.run, 'request', chosen.request, 'touched');
      // Of the plan, only the step by which the seat took it.
      document.querySelectorAll(`.run-body[data-run="${chosen.run}"] :is(.plan, .matrix) [data-rule]`).forEach((line) => {
        const is = line.dataset.rule.split(' ').includes(String(chosen.rule));
        if (Number(line.dataset.seat) === chosen.seat && !is) line.classList.remove('touched');
      });
    }
    for (const { run, from } of this.timeline.arrows)
      if (from.seat !== chosen?.seat) all(run, 'seat', from.seat, 'touched');
  }

  /// The element of a place: a part of the machine, or a queue of the plan.
  #placeOf({ id, run }) {
    return document.querySelector(`.run-body[data-run="${run}"] [data-place="${id}"]`);
  }

  async choose(slice) {
    const { timeline } = this;
    timeline.chosen = slice;
    timeline.arrows = [];
    timeline.redraw();
    this.#marks();
    this.#moved();
    this.#say();
    if (slice) await this.#explain(slice);
  }

  /// The events of a slice, what it waited for, and what it led to.
  async #explain(slice) {
    const { timeline } = this;
    const { run, seat, chunk } = slice;
    const index = this.runs[run];
    const job = slice.request >= 0 ? [slice.request, slice.index] : null;
    // A slice of rest ends with the taking of the next job: its cause says what the seat waited for.
    const to = job ? slice.end : slice.end + 20_000;
    const found = await askOf(run, chunk, { what: 'story', from: slice.begin, to, job });
    if (timeline.chosen !== slice) return;
    const arrows = [];
    const causes = job ? found.causes : found.causes.filter(({ kind }) => kind === 'taken').slice(0, 1);
    for (const cause of causes) {
      const at = index.chunks.findIndex(
        ([of, start, count]) => of === cause.seat && cause.index >= start && cause.index < start + count,
      );
      if (at < 0) continue;
      const when = await askOf(run, at, { what: 'when', index: cause.index });
      cause.since = when.at;
      cause.by = when.key;
      cause.queuedBy = when.by;
      arrows.push({
        run,
        isCause: true,
        from: { seat: cause.seat, at: when.at, key: when.key },
        to: { seat, at: cause.at, key: slice.key },
      });
    }
    const taken = causes.find(({ kind }) => kind === 'taken');
    const aside =
      found.aside === null
        ? []
        : [`It had waited, as a lightweight thread that is put aside, for ${duration(slice.begin - found.aside)}.`];
    const order = job && job[1] >= TASKS && job[1] !== NONE ? await this.#orderOf(run, job, slice, taken?.queuedBy) : [];
    if (timeline.chosen !== slice) return;
    const effects = [];
    if (job) {
      const window = [slice.begin, timeline.window[1]];
      const chunks = seatsOf(index).flatMap(({ number }) =>
        chunksIn(index, number, window)
          .slice(0, 4)
          .map((chunk) => ({ number, chunk })),
      );
      for (const { number, chunk } of chunks.slice(0, MOST_CHUNKS)) {
        const some = await askOf(run, chunk, { what: 'effects', seat, first: found.first, last: found.last });
        if (timeline.chosen !== slice) return;
        for (const effect of some) {
          effects.push({ ...effect, seat: number });
          arrows.push({
            run,
            from: { seat, at: Math.min(slice.end, effect.at), key: slice.key },
            to: { seat: number, at: effect.at, key: effect.key },
          });
        }
      }
    }
    if (timeline.chosen !== slice) return;
    timeline.arrows = arrows;
    timeline.redraw();
    this.#marks();
    this.#say(this.#tell(slice, found.events, causes, effects, [...aside, ...order]));
  }

  /// What of its data a task had to wait for, in words: who spawned it, what it uses, and which task let it go.
  async #orderOf(run, job, slice, releaser) {
    const index = this.runs[run];
    const name = ({ job, key }) => `${index.keys[key]?.name ?? ''} (${SOME_JOB(job[1])})`.trim();
    const before = seatsOf(index)
      .flatMap(({ number }) => chunksIn(index, number, [0, slice.begin]))
      .filter((chunk) => index.chunks[chunk][3] <= slice.begin)
      .sort((a, b) => index.chunks[b][3] - index.chunks[a][3])
      .slice(0, MOST_SPAWNS);
    const originOf = async (job) => {
      for (const chunk of before) {
        const found = await askOf(run, chunk, { what: 'origin', job });
        if (found) return found;
      }
      return null;
    };
    const origin = await originOf(job);
    if (!origin?.uses.length) return [];
    const told = origin.uses.map(({ how, from, bytes }) => `${how} ${bytes} byte${bytes === 1 ? '' : 's'} from 0x${from.toString(16)} on`);
    const by = origin.by ? `${name(origin.by)} spawned it. ` : '';
    const lines = [`${by}Its data orders it: it ${told.slice(0, 6).join(', ')}.`];
    if (!releaser || releaser.job[1] === origin.by?.job[1]) return lines;
    const other = await originOf(releaser.job);
    const isShared = ({ from, bytes }) => (use) => use.from < from + bytes && from < use.from + use.bytes;
    const shared = other?.uses.find((use) => origin.uses.some(isShared(use)));
    const where = shared ? `, which ${shared.how} the same bytes from 0x${shared.from.toString(16)} on` : '';
    return [...lines, `It could begin at the end of ${name(releaser)}${where}.`];
  }

  #tell(slice, events, causes, effects, order) {
    const run = this.runs[slice.run];
    const name = (key) => run.keys[key]?.name ?? 'a caller';
    const why = causes.map(({ kind, at, since, seat, by, words }) => {
      // An envelope is received when the code that takes it ends: it waited until that code began.
      const until = kind === 'envelope-received' ? Math.min(at, slice.begin) : at;
      const waited = since === undefined ? 'some time' : duration(Math.max(0, until - since));
      const from = seat === slice.seat ? 'on this seat' : `on seat ${seat}`;
      if (kind === 'taken' && slice.request < 0)
        return `The next job was queued ${from} ${waited} before it was taken.`;
      if (kind === 'taken') return `It lay in a queue for ${waited}; it was queued ${from} and taken by ${words}.`;
      if (kind === 'resumed') return `${name(by)} had been blocked by a full via for ${waited}.`;
      return `An envelope of ${name(by)} (${words}), sent ${from}, had waited for ${waited}.`;
    });
    why.push(...order);
    const led = new Map();
    effects.forEach(({ kind, key, seat }) => {
      const text = `${{ taken: 'a job was taken', resumed: 'a box went on' }[kind] ?? `${name(key)} received an envelope`} on seat ${seat}`;
      led.set(text, (led.get(text) ?? 0) + 1);
    });
    return [
      why.length > 0 &&
        h(
          'div',
          {},
          h('h3', {}, 'What it waited for'),
          h(
            'ul',
            {},
            why.slice(0, 12).map((line) => h('li', {}, line)),
          ),
        ),
      led.size > 0 &&
        h(
          'div',
          {},
          h('h3', {}, 'What it led to'),
          h(
            'ul',
            {},
            [...led].slice(0, 12).map(([text, count]) => h('li', {}, count > 1 ? `${text}, ${count} times` : text)),
          ),
        ),
      events.length > 0 &&
        h(
          'details',
          {},
          h('summary', {}, `${events.length} events`),
          h(
            'table',
            {},
            h(
              'tbody',
              {},
              events.map(({ at, kind, words, key }) =>
                h(
                  'tr',
                  {},
                  h('td', { class: 'n' }, duration(at)),
                  h('td', {}, kind),
                  h('td', {}, key >= 0 ? name(key) : ''),
                  h('td', {}, words),
                ),
              ),
            ),
          ),
        ),
    ].filter(Boolean);
  }

  #say(more) {
    const { timeline } = this;
    const { chosen, mark } = timeline;
    const parts = [];
    if (mark) {
      const index = this.runs[mark.run];
      const names = {
        key: () => index.keys[mark.id]?.name,
        type: () => index.types[mark.id],
        seat: () => `seat ${mark.id}`,
        request: () => `request ${mark.id}`,
        rule: () => `rule ${mark.id}`,
        via: () => 'a via',
        place: () => this.#placeOf(mark)?.firstElementChild.textContent,
      };
      parts.push(
        h(
          'p',
          { class: 'mark-line' },
          'Marked: ',
          h('b', {}, names[mark.kind]() ?? ''),
          ' ',
          h('button', { type: 'button', onClick: () => this.mark(null) }, 'Unmark'),
        ),
      );
    }
    if (chosen) {
      const [name, ...lines] = timeline.lines(chosen);
      parts.push(h('p', { class: 'slice-line' }, h('b', {}, name), ` · ${lines.join(' · ')}`));
      if (Array.isArray(more)) parts.push(h('div', { class: 'told' }, more));
    } else if (more instanceof Node) parts.push(more);
    if (!parts.length)
      parts.push(
        h(
          'p',
          { class: 'note' },
          'Turn the wheel to zoom, drag to measure, click a slice to see what it waited for. ? lists all keys.',
        ),
      );
    this.story.replaceChildren(...parts);
  }

  // ---- ranges ----

  setRange(range) {
    const { timeline } = this;
    timeline.range = range;
    timeline.redraw();
    this.#moved();
    this.rangeLine.hidden = !range;
    if (!range) {
      fill(this.runs, null);
      return;
    }
    const events = this.runs.reduce(
      (sum, run) => sum + run.header.seats.reduce((sum, _, seat) => sum + eventsIn(run, seat, range), 0),
      0,
    );
    const status = h('span', { class: 'quiet', role: 'status' }, '');
    const sumUp = () => this.#sums(range, status);
    const buttons = [
      h('button', { type: 'button', onClick: () => timeline.setWindow(...range) }, 'Zoom to it'),
      h('button', { type: 'button', onClick: () => this.setRange(null) }, 'Clear'),
    ];
    if (events > AT_ONCE) {
      const count = Math.round(events / 1e6);
      buttons.unshift(h('button', { type: 'button', onClick: sumUp }, `Sum up ${count} million events`));
    }
    this.rangeLine.replaceChildren(
      h('b', {}, duration(range[1] - range[0])),
      ` from ${duration(range[0])} to ${duration(range[1])} `,
      ...buttons,
      status,
    );
    if (events <= AT_ONCE) sumUp();
  }

  async #sums(range, status) {
    const results = [];
    for (const [number, run] of this.runs.entries()) {
      const chunks = run.header.seats.flatMap((_, seat) => chunksIn(run, seat, range));
      await ask({ what: 'sumsBegin', run: number, from: range[0], to: range[1] });
      for (const [at, chunk] of chunks.entries()) {
        if (this.timeline.range !== range) return;
        if (at % 8 === 0) status.textContent = `summing up ${Math.round((at / chunks.length) * 100)} %`;
        await askOf(number, chunk, { what: 'sumsChunk' });
      }
      results.push(await ask({ what: 'sumsEnd' }));
    }
    if (this.timeline.range !== range) return;
    status.textContent = 'The tables are about this range.';
    fill(this.runs, { range, results });
  }

  // ---- search ----

  #matches() {
    const text = this.search.value.trim().toLowerCase();
    if (!text) return [];
    const number = /^(request|seat|rule)\s+(\d+)$/.exec(text);
    if (number) return [{ mark: { kind: number[1], id: Number(number[2]), run: 0 }, name: text, keys: [] }];
    const found = [];
    this.runs.forEach((run, at) => {
      run.keys.forEach(({ name, type }, key) => {
        if (run.busyNs[key] > 0 && (name.toLowerCase().includes(text) || type.toLowerCase().includes(text)))
          found.push({ mark: { kind: 'key', id: key, run: at }, name, ns: run.busyNs[key], keys: [{ run: at, key }] });
      });
    });
    return found.sort((a, b) => b.ns - a.ns);
  }

  #find() {
    const found = this.#matches();
    this.hits.hidden = !this.search.value.trim();
    this.hits.replaceChildren(
      ...(found.length
        ? found
            .slice(0, 12)
            .map(({ mark, name, ns }) =>
              h(
                'button',
                { type: 'button', onClick: () => this.mark(mark) },
                ns === undefined ? name : `${name} ${duration(ns)}`,
              ),
            )
        : [h('span', { class: 'quiet' }, 'Nothing has this name.')]),
    );
  }

  async #next() {
    const found = this.#matches();
    const { timeline } = this;
    if (!found.length) return;
    const [{ mark }] = found;
    if (!timeline.mark || timeline.mark.id !== mark.id || timeline.mark.kind !== mark.kind) this.mark(mark);
    if (mark.kind === 'request') {
      const request = this.runs[0].requests.find(([id]) => id === mark.id);
      if (request) timeline.setWindow(request[1], request[2] ?? timeline.span);
    } else timeline.next(found.flatMap(({ keys }) => keys));
  }

  // ---- the rest ----

  async #save(number) {
    const status = h('span', { role: 'status' });
    this.#say(h('p', {}, status));
    await save(
      this.runs[number],
      number,
      (part) => (status.textContent = `The trace is built: ${Math.round(part * 100)} %`),
    );
    status.textContent = 'The trace is saved.';
  }

  #listen() {
    addEventListener('keydown', (event) => this.#key(event));
    addEventListener('scroll', () => this.timeline.redraw(), { passive: true });
    addEventListener('hashchange', () => this.#restore());
    const act = (event) => {
      const element = event.target.closest?.(
        '[data-key], [data-type], [data-seat], [data-via], [data-request], [data-rule], [data-place]',
      );
      const body = element?.closest('.run-body');
      if (!body || event.target.closest('details, a')) return;
      const { key, type, seat, via, request, rule, place } = element.dataset;
      const [kind, id] = Object.entries({ key, via, type, request, rule, seat, place }).find(
        ([, value]) => value !== undefined,
      );
      this.mark({ kind, id: parseInt(id, 10), run: Number(body.dataset.run) });
    };
    document.querySelector('main').addEventListener('click', act);
    document.querySelector('main').addEventListener('keydown', (event) => {
      const { key, target } = event;
      if ((key === 'Enter' || key === ' ') && target.matches(`g[tabindex], ${LINES}`)) {
        event.preventDefault();
        act(event);
      }
      if ((key === 'ArrowDown' || key === 'ArrowUp') && target.matches(LINES)) {
        event.preventDefault();
        const lines = [...target.parentElement.querySelectorAll(LINES)].filter(({ hidden }) => !hidden);
        const next = lines[lines.indexOf(target) + (key === 'ArrowDown' ? 1 : -1)];
        if (!next) return;
        target.tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
      }
    });
  }

  /// The keyboard comes to the first line of each table and plan, and by arrows from line to line.
  #reachable() {
    const isFirst = new Set();
    document.querySelectorAll('main tr, main .plan span').forEach((line) => {
      if (!Object.keys(line.dataset).some((name) => name !== 'seats') || !line.closest('.run-body')) return;
      line.tabIndex = isFirst.has(line.parentElement) ? -1 : 0;
      isFirst.add(line.parentElement);
    });
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, textarea, select, dialog'))
      return;
    const { timeline } = this;
    const inTables = event.target.closest('main');
    const actions = {
      w: () => timeline.zoom(1 / 1.4),
      s: () => timeline.zoom(1.4),
      '+': () => timeline.zoom(1 / 1.4),
      '-': () => timeline.zoom(1.4),
      a: () => timeline.pan(-0.2),
      d: () => timeline.pan(0.2),
      f: () => timeline.fit(),
      0: () => timeline.setWindow(0, timeline.span),
      r: () => this.setRange([...timeline.window]),
      z: () => timeline.range && timeline.setWindow(...timeline.range),
      b: () => this.setRows(timeline.rowsBy === 'cores' ? 'boxes' : 'cores'),
      c: () => this.setChain(!timeline.isChain),
      ',': () => timeline.step(0, -1),
      '.': () => timeline.step(0, 1),
      '/': () => this.search.focus(),
      '?': () => this.help.showModal(),
      Escape: () => {
        if (timeline.chosen) this.choose(null);
        else if (timeline.range) this.setRange(null);
        else this.mark(null);
      },
    };
    const arrows = {
      ArrowUp: () => timeline.step(-1, 0),
      ArrowDown: () => timeline.step(1, 0),
      ArrowLeft: () => timeline.pan(-0.1),
      ArrowRight: () => timeline.pan(0.1),
    };
    this.timeline.tip.hidden = true;
    const action =
      actions[event.key.length === 1 ? event.key.toLowerCase() : event.key] ??
      (!inTables && document.activeElement === timeline.canvas && arrows[event.key]);
    if (!action) return;
    event.preventDefault();
    action();
  }

  #moved() {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => writeHash(this.timeline), 150);
  }

  async #restore() {
    const state = readHash();
    if (!state) return;
    const { timeline } = this;
    if (state.rows) this.setRows(state.rows);
    if (state.by) this.setColour(state.by);
    this.setChain(Boolean(state.chain));
    if (state.window) timeline.setWindow(...state.window);
    if (state.mark && this.runs[state.mark.run]) {
      timeline.mark = state.mark;
      this.#marks();
    }
    if (state.range) this.setRange(state.range);
    if (state.slice && this.runs[state.slice.run]) {
      const { run, seat, at } = state.slice;
      const [chunk] = chunksIn(this.runs[run], seat, [at, at]);
      if (chunk === undefined) return;
      const slices = await askOf(run, chunk, { what: 'slices' });
      const number = firstEndingAfter(slices, at);
      if (number < slices.begin.length) this.choose(timeline.sliceOf(run, seat, chunk, slices, number));
    }
    this.#say();
  }
}

function start() {
  const runs = [];
  let told = [];
  for (let number = 0; document.getElementById(`r${number}`); number += 1) {
    const [index, header] = [`r${number}`, `h${number}`].map((id) =>
      JSON.parse(document.getElementById(id).textContent),
    );
    const run = prepared(index, header);
    run.keyOfModel = header.models.map(({ requests, boxes }) => boxes.map((_, box) => run.keyOfBox(requests[0], box)));
    runs.push(run);
    textOf(`k${number}`)
      .then((text) => ask({ what: 'level', text }))
      .then((bytes) => (run.ofKeys = new Uint16Array(bytes.buffer)));
    told.push({ what: 'run', index, header });
  }
  globalThis.vicusView = new View(runs);
  vicusView.timeline.drawNow();
  // Behind the first picture. A page behind another one has no frames.
  const go = () => told && (begin(told), (told = null));
  requestAnimationFrame(() => setTimeout(go));
  setTimeout(go, 300);
}

if (typeof document === 'undefined') serve();
else start();

export { BUSY, clipped };
