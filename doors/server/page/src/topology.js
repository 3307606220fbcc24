// The machine: nodes, groups, cores and PUs as nested boxes with their load, the memory, and the rate of near and far bytes.

import * as api from './api.js';
import { h, replace, svg } from './dom.js';
import { bytes, count, plural } from './format.js';
import { linear } from './scales.js';

const KEEPS = 60;
const RETRY_MS = 2000;

export class Machine {
  constructor(parent, info) {
    this.parent = parent;
    this.info = info;
    this.history = [];
    this.last = null;
    this.pus = new Map();
    this.#build();
  }

  /// Follows the load while the view is open; nothing is asked while it is hidden.
  open() {
    this.close();
    this.aborter = new AbortController();
    this.#follow(this.aborter.signal);
  }

  close() {
    this.aborter?.abort();
    this.aborter = null;
    this.last = null;
  }

  async #follow(signal) {
    while (!signal.aborted) {
      try {
        await api.events('api/load', (_, data) => this.#update(JSON.parse(data)), signal);
      } catch (error) {
        if (signal.aborted) return;
        this.state.textContent = `No load: ${error.message}`;
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }

  #build() {
    const { topology, threads, strategy, version, dataset, limits } = this.info;
    const seats = (number) => plural(number, 'seat');
    const fact = (name, value, title) =>
      h('div', { class: 'fact-block', title }, h('dt', {}, name), h('dd', {}, value));
    this.running = h('span', {}, '–');
    this.waiting = h('span', {}, '–');
    this.busy = h('span', {}, '–');
    this.own = h('span', {}, '–');
    this.state = h('span', { class: 'quiet', role: 'status' }, 'Waiting for the first load…');
    this.memoryText = h('span', { class: 'quiet' }, '–');
    this.memoryBar = h('span', { class: 'meter-fill' });
    this.near = h('strong', {}, '–');
    this.far = h('strong', {}, '–');
    this.spark = h('div', { class: 'spark' });
    const facts = h(
      'dl',
      { class: 'facts' },
      fact('Machine busy', this.busy, 'All processes on all PUs'),
      fact('Vicus', this.own, 'The part of all PUs that this server used'),
      fact('Running', this.running),
      fact('Waiting', this.waiting),
      fact('Threads', seats(threads)),
      fact('Strategy', strategy.toUpperCase()),
      fact('Data', `${count(dataset.quads)} quads`),
      limits.timeMs && fact('Time limit', `${limits.timeMs / 1000} s`),
      fact('Version', version),
    );
    const nodes = topology.nodes.map((node) => this.#node(node));
    const distances = topology.distances ?? [];
    replace(
      this.parent,
      h('header', { class: 'view-head' }, h('h1', {}, 'Machine'), this.state),
      facts,
      h(
        'div',
        { class: 'machine-grid' },
        h(
          'section',
          { class: 'card' },
          h('h2', {}, 'Memory'),
          h('div', { class: 'meter', role: 'img', 'aria-label': 'Memory that the server took' }, this.memoryBar),
          this.memoryText,
        ),
        h(
          'section',
          { class: 'card' },
          h('h2', {}, 'Bytes read'),
          h(
            'p',
            { class: 'rates' },
            h('span', { class: 'legend-item' }, h('span', { class: 'swatch near' }), 'near ', this.near),
            h('span', { class: 'legend-item' }, h('span', { class: 'swatch far' }), 'far ', this.far),
          ),
          this.spark,
        ),
      ),
      h('div', { class: topology.pus > 48 ? 'nodes many' : 'nodes' }, nodes),
      distances.length > 1 &&
        h(
          'section',
          { class: 'card distances' },
          h('h2', {}, 'Distances between nodes'),
          h(
            'table',
            { class: 'sums' },
            h(
              'thead',
              {},
              h(
                'tr',
                {},
                h('td'),
                distances.map((_, at) => h('th', { scope: 'col', class: 'number' }, `Node ${at}`)),
              ),
            ),
            h(
              'tbody',
              {},
              distances.map((row, at) =>
                h(
                  'tr',
                  {},
                  h('th', { scope: 'row' }, `Node ${at}`),
                  row.map((value) => h('td', { class: 'number' }, String(value))),
                ),
              ),
            ),
          ),
        ),
    );
  }

  #node(node) {
    const groups = node.groups.map((group) =>
      h(
        'div',
        { class: 'group', role: 'group', 'aria-label': `Group ${group.id}` },
        h('span', { class: 'box-label' }, `Group ${group.id}`),
        h(
          'div',
          { class: 'cores' },
          group.cores.map((core) =>
            h(
              'div',
              { class: 'core', role: 'group', 'aria-label': `Core ${core.id}` },
              h('span', { class: 'box-label' }, `Core ${core.id}`),
              h(
                'div',
                { class: 'pus' },
                core.pus.map((pu) => this.#pu(pu)),
              ),
            ),
          ),
        ),
      ),
    );
    return h(
      'section',
      { class: 'node-box', 'aria-label': `Node ${node.id}` },
      h('header', {}, h('h2', {}, `Node ${node.id}`), h('span', { class: 'quiet' }, bytes(node.memoryBytes))),
      h('div', { class: 'groups' }, groups),
    );
  }

  #pu(id) {
    const value = h('span', { class: 'pu-value' }, '–');
    const seat = h('span', { class: 'pu-seat' });
    const element = h(
      'div',
      { class: 'pu' },
      h('span', { class: 'pu-fill' }),
      h('span', { class: 'pu-name' }, `PU ${id}`),
      value,
      seat,
    );
    this.pus.set(id, { element, value, seat });
    return element;
  }

  #update(load) {
    this.state.textContent = 'Live, each second';
    const seats = new Map();
    for (const { seat, pu } of load.seats ?? []) seats.set(pu, [...(seats.get(pu) ?? []), seat]);
    let busy = 0;
    for (const pu of load.pus) {
      const box = this.pus.get(pu.id);
      busy += pu.busy;
      if (!box) continue;
      box.element.style.setProperty('--busy', pu.busy.toFixed(3));
      box.value.textContent = `${Math.round(pu.busy * 100)} %`;
      box.seat.textContent = seats.has(pu.id) ? `seat ${seats.get(pu.id).join(', ')}` : '';
      box.element.classList.toggle('ours', seats.has(pu.id));
    }
    this.busy.textContent = load.pus.length ? `${Math.round((busy / load.pus.length) * 100)} %` : '–';
    this.own.textContent = Number.isFinite(load.own) ? `${Math.round(load.own * 100)} %` : '–';
    this.running.textContent = count(load.requests.running);
    this.waiting.textContent = count(load.requests.waiting);
    const { taken, total } = load.memory;
    this.memoryBar.style.setProperty('--share', total ? (taken / total).toFixed(4) : '0');
    this.memoryText.textContent = `${bytes(taken)} of ${bytes(total)}`;
    this.#rates(load);
  }

  /// The counters only grow; their rate is the difference between two loads.
  #rates(load) {
    const now = performance.now();
    if (this.last) {
      const seconds = (now - this.last.at) / 1000 || 1;
      const rate = (name) => Math.max(0, load[name] - this.last[name]) / seconds;
      this.history.push({ near: rate('nearBytes'), far: rate('farBytes') });
      if (this.history.length > KEEPS) this.history.shift();
      const { near, far } = this.history.at(-1);
      this.near.textContent = `${bytes(near)}/s`;
      this.far.textContent = `${bytes(far)}/s`;
      this.#renderSpark();
    }
    this.last = { at: now, nearBytes: load.nearBytes, farBytes: load.farBytes };
  }

  #renderSpark() {
    const [width, height] = [360, 56];
    const most = Math.max(1, ...this.history.map(({ near, far }) => Math.max(near, far)));
    const across = linear([0, Math.max(12, this.history.length - 1)], [0, width]);
    const up = linear([0, most], [height - 2, 3]);
    const line = (name) =>
      this.history
        .map((entry, at) => `${at ? 'L' : 'M'}${across(at).toFixed(1)} ${up(entry[name]).toFixed(1)}`)
        .join('');
    replace(
      this.spark,
      svg(
        'svg',
        {
          viewBox: `0 0 ${width} ${height}`,
          preserveAspectRatio: 'none',
          role: 'img',
          'aria-label': 'Near and far bytes of the last minute',
        },
        svg('path', { class: 'near', d: line('near') }),
        svg('path', { class: 'far', d: line('far') }),
      ),
    );
  }
}
