// Triples as a graph: nodes that can be dragged, on a plane that pans and zooms, with a list beside it that says the same in words.

import { h, icon, replace, svg, toast } from './dom.js';
import { count, plural } from './format.js';
import { apart, bounds, layout } from './graph-layout.js';
import { savePicture } from './picture.js';
import { nameLabel, termElement, termLabel } from './term-view.js';
import { RDF_TYPE, termText } from './terms.js';
import { hideTip, showTip } from './tooltip.js';

/// More nodes are no picture any more.
const MAX_NODES = 250;
/// The width of a label's letter, some more than the average one.
const LETTER = 6.6;

/// Nodes and edges of triples, at most so many nodes. Predicates between the same two nodes share an edge.
export function graphOf(triples, { literals = true, most = MAX_NODES } = {}) {
  const nodes = [];
  const known = new Map();
  const edges = new Map();
  let left = 0;
  const node = (term, key) => {
    if (!known.has(key)) {
      if (nodes.length >= most) return -1;
      known.set(key, nodes.length);
      nodes.push({ term, types: [], degree: 0 });
    }
    return known.get(key);
  };
  for (const [subject, predicate, object] of triples) {
    const isLiteral = object.type === 'literal';
    if (isLiteral && !literals) continue;
    const from = node(subject, termText(subject));
    // The same literal at two subjects is two nodes: it connects nothing.
    const to =
      from < 0 ? -1 : node(object, isLiteral ? `${from} ${predicate.value} ${termText(object)}` : termText(object));
    if (from < 0 || to < 0) {
      left += 1;
      continue;
    }
    if (predicate.value === RDF_TYPE && !nodes[from].types.some(({ value }) => value === object.value))
      nodes[from].types.push(object);
    const key = `${from} ${to}`;
    if (!edges.has(key)) {
      edges.set(key, { from, to, predicates: [] });
      nodes[from].degree += 1;
      nodes[to].degree += 1;
    }
    const { predicates } = edges.get(key);
    if (!predicates.some(({ value }) => value === predicate.value)) predicates.push(predicate);
  }
  return { nodes, edges: [...edges.values()], left };
}

export class GraphView {
  constructor(parent, options) {
    this.options = options;
    this.literals = true;
    this.controls = h('div', { class: 'view-controls' });
    this.plane = svg('svg', {
      class: 'graph',
      tabindex: '0',
      role: 'application',
      'aria-roledescription': 'graph',
      'aria-label':
        'Graph of the triples. Arrow keys move it, plus and minus zoom, 0 shows all. The list beside it has the same nodes.',
    });
    this.side = h('aside', { class: 'side', 'aria-label': 'Nodes of the graph' });
    parent.append(this.controls, h('div', { class: 'with-side' }, h('div', { class: 'plane' }, this.plane), this.side));
    this.plane.addEventListener('wheel', (event) => this.#wheel(event), { passive: false });
    this.plane.addEventListener('pointerdown', (event) => this.#press(event));
    this.plane.addEventListener('keydown', (event) => this.#key(event));
    this.plane.addEventListener('dblclick', (event) => {
      const element = event.target.closest('.node');
      if (element) this.expand(Number(element.dataset.node));
    });
  }

  update(run) {
    if (run === this.run && run.rows.length === this.drawn) return;
    this.run = run;
    this.drawn = run.rows.length;
    this.chosen = null;
    /// Triples of nodes that were expanded.
    this.more = [];
    this.#build();
  }

  #build() {
    const { short } = this.options;
    this.graph = graphOf([...this.run.rows, ...this.more], { literals: this.literals });
    const { nodes, edges, left } = this.graph;
    const places = layout(
      nodes.length,
      edges.map(({ from, to }) => [from, to]),
      { rounds: nodes.length > 120 ? 160 : 260, aspect: this.plane.parentElement.clientWidth / (this.plane.parentElement.clientHeight || 1) || 1.6 },
    );
    // The plane is wide, and labels need width.
    const { clientWidth, clientHeight } = this.plane.parentElement;
    const box = bounds(places);
    const wanted = Math.max(1, clientWidth - 250) / Math.max(1, clientHeight - 50);
    const stretch = Math.min(3, Math.max(0.6, (wanted * (box.bottom - box.top + 1)) / (box.right - box.left + 1)));
    this.places = places.map(({ x, y }) => ({ x: x * stretch, y }));
    // A leaf's label stands on the side that its edge does not come from.
    for (const { from, to } of edges) {
      if (nodes[to].degree === 1) nodes[to].leftwards = this.places[to].x < this.places[from].x;
      if (nodes[from].degree === 1) nodes[from].leftwards = this.places[from].x < this.places[to].x;
    }
    const labels = nodes.map(({ term, leftwards }) => {
      const width = 18 + LETTER * nameLabel(term, short).length;
      return { left: leftwards ? -width : -8, right: leftwards ? 8 : width, height: 15 };
    });
    this.places = apart(this.places, labels, Math.max(60, clientWidth - 320), Math.max(60, clientHeight - 50));
    const button = (name, label, action) =>
      h(
        'button',
        { type: 'button', class: 'button icon-only', 'aria-label': label, title: label, onClick: action },
        icon(name),
      );
    const note =
      left > 0
        ? `Shows ${plural(nodes.length, 'node')}; ${plural(left, 'triple')} left out`
        : `${plural(nodes.length, 'node')}, ${plural(edges.length, 'edge')}`;
    replace(
      this.controls,
      h(
        'label',
        { class: 'check' },
        h('input', {
          type: 'checkbox',
          checked: this.literals,
          onChange: (event) => {
            this.literals = event.target.checked;
            this.#build();
          },
        }),
        'Literals',
      ),
      h('span', { class: 'quiet grow' }, note),
      button('minus', 'Zoom out', () => this.#zoom(1 / 1.3)),
      button('plus', 'Zoom in', () => this.#zoom(1.3)),
      button('fit', 'Show all', () => this.#fit()),
      button('download', 'Save as SVG', () => savePicture(this.plane, 'graph.svg')),
    );
    const arrow = svg(
      'marker',
      { id: 'arrow', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: 'auto' },
      svg('path', { d: 'M0 .8L7 4 0 7.2z' }),
    );
    this.edgeElements = edges.map((edge) => {
      const text = edge.predicates.map((predicate) => termLabel(predicate, short, 24)).join(', ');
      return {
        line: svg('line', { class: 'edge', 'marker-end': 'url(#arrow)' }),
        label: svg(
          'text',
          { class: 'edge-label', 'text-anchor': 'middle' },
          text.length > 40 ? `${text.slice(0, 39)}…` : text,
        ),
      };
    });
    this.nodeElements = nodes.map((node, at) => this.#node(node, at));
    this.world = svg(
      'g',
      {},
      this.edgeElements.map(({ line }) => line),
      this.edgeElements.map(({ label }) => label),
      this.nodeElements,
    );
    replace(this.plane, svg('defs', {}, arrow), this.world);
    nodes.forEach((_, at) => this.#moveNode(at));
    edges.forEach((_, at) => this.#moveEdge(at));
    this.plane.classList.toggle('crowded', edges.length > 60);
    this.scale = null;
    requestAnimationFrame(() => this.#fit());
    this.#renderSide();
  }

  #node(node, at) {
    const { short } = this.options;
    const isLiteral = node.term.type === 'literal';
    const text = nameLabel(node.term, short);
    const radius = isLiteral ? 4 : Math.min(14, 6 + Math.sqrt(node.degree) * 1.6);
    Object.assign(node, { radius, shown: radius });
    const shape = svg('circle', { r: radius });
    return svg(
      'g',
      {
        class: `node ${node.term.type}`,
        'data-node': String(at),
        onPointerenter: (event) => {
          this.#highlight(at);
          showTip(event.clientX, event.clientY, [
            termLabel(node.term, () => null, 120),
            node.types.length > 0 && `a ${node.types.map((type) => termLabel(type, short)).join(', ')}`,
          ]);
        },
        onPointerleave: () => {
          this.#highlight(this.chosen);
          hideTip();
        },
      },
      shape,
      svg('text', { 'text-anchor': node.leftwards ? 'end' : 'start' }, text),
    );
  }

  #moveNode(at) {
    const { x, y } = this.places[at];
    this.nodeElements[at].setAttribute('transform', `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
  }

  #moveEdge(at) {
    const { from, to } = this.graph.edges[at];
    const [a, b] = [this.places[from], this.places[to]];
    const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
    const [ux, uy] = [(b.x - a.x) / length, (b.y - a.y) / length];
    const [startAt, endAt] = [this.graph.nodes[from].shown, length - this.graph.nodes[to].shown - 2];
    const { line, label } = this.edgeElements[at];
    const set = (name, value) => line.setAttribute(name, value.toFixed(1));
    set('x1', a.x + ux * startAt);
    set('y1', a.y + uy * startAt);
    set('x2', a.x + ux * endAt);
    set('y2', a.y + uy * endAt);
    label.setAttribute('x', ((a.x + b.x) / 2).toFixed(1));
    label.setAttribute('y', ((a.y + b.y) / 2 - 4).toFixed(1));
  }

  #highlight(at) {
    const near = new Set([at]);
    this.graph.edges.forEach(({ from, to }, edge) => {
      const touches = at !== null && (from === at || to === at);
      if (touches) near.add(from).add(to);
      this.edgeElements[edge].line.classList.toggle('near', touches);
      this.edgeElements[edge].line.classList.toggle('far', at !== null && !touches);
      this.edgeElements[edge].label.classList.toggle('near', touches);
    });
    this.nodeElements.forEach((element, node) => {
      element.classList.toggle('chosen', node === at);
      element.classList.toggle('far', at !== null && !near.has(node));
    });
  }

  /// Adds the triples about a node that the data has, some of them, and draws again.
  async expand(at) {
    const { term } = this.graph.nodes[at];
    const { run } = this;
    if (term.type !== 'uri') return;
    try {
      const triples = await this.options.onExpand(term.value);
      if (run !== this.run) return;
      this.more.push(...triples);
      this.#build();
      const again = this.graph.nodes.findIndex((node) => node.term.type === 'uri' && node.term.value === term.value);
      if (again >= 0) this.choose(again);
    } catch (error) {
      toast(error.message, { kind: 'bad' });
    }
  }

  choose(at) {
    this.chosen = at;
    this.#highlight(at);
    this.#renderSide();
  }

  #renderSide() {
    const { nodes, edges } = this.graph;
    const { short } = this.options;
    if (this.chosen === null) {
      const items = nodes.flatMap((node, at) =>
        node.term.type === 'literal'
          ? []
          : [
              h(
                'li',
                {},
                h(
                  'button',
                  { type: 'button', class: 'list-button', onClick: () => this.choose(at) },
                  h('span', { class: 'ellipsis', title: node.term.value }, nameLabel(node.term, short)),
                  h('span', { class: 'quiet' }, count(node.degree)),
                ),
              ),
            ],
      );
      return replace(this.side, h('h3', {}, 'Nodes'), h('ul', { class: 'plain-list' }, items));
    }
    const facts = edges.flatMap((edge) => {
      if (edge.from !== this.chosen && edge.to !== this.chosen) return [];
      const outwards = edge.from === this.chosen;
      const other = outwards ? edge.to : edge.from;
      return edge.predicates.map((predicate) =>
        h(
          'li',
          { class: 'fact' },
          h(
            'span',
            { class: 'quiet' },
            outwards ? termLabel(predicate, short) : `is ${termLabel(predicate, short)} of`,
          ),
          nodes[other].term.type === 'literal'
            ? termElement(nodes[other].term, this.options)
            : h(
                'button',
                {
                  type: 'button',
                  class: 'list-button link',
                  title: nodes[other].term.value,
                  onClick: () => this.choose(other),
                },
                nameLabel(nodes[other].term, short),
              ),
        ),
      );
    });
    const { term } = nodes[this.chosen];
    replace(
      this.side,
      h(
        'button',
        {
          type: 'button',
          class: 'button small back',
          onClick: () => {
            this.choose(null);
            this.side.querySelector('button')?.focus();
          },
        },
        icon('left'),
        'All nodes',
      ),
      h('h3', { class: 'node-title' }, termLabel(term, short, 80)),
      term.type === 'uri' &&
        h(
          'p',
          {},
          h(
            'button',
            {
              type: 'button',
              class: 'button small',
              title: 'Adds what the data says of it, as a double click on the node does',
              onClick: () => this.expand(this.chosen),
            },
            icon('plus'),
            'Expand',
          ),
          ' ',
          h(
            'button',
            { type: 'button', class: 'button small', onClick: () => this.options.onDescribe(term.value) },
            'Describe',
          ),
        ),
      h('ul', { class: 'plain-list' }, facts),
    );
    this.side.querySelector('button').focus({ preventScroll: true });
  }

  // ---- moving ----

  #fit() {
    const { clientWidth: width, clientHeight: height } = this.plane.parentElement;
    const box = bounds(this.places);
    // Labels stand at the right of their nodes.
    const scale = Math.max(
      0.05,
      Math.min(1.25, Math.max(60, width - 320) / (box.right - box.left + 1), (height - 50) / (box.bottom - box.top + 1)),
    );
    this.camera = {
      scale,
      x: width / 2 - ((box.left + box.right) / 2) * scale,
      y: height / 2 - ((box.top + box.bottom) / 2) * scale,
    };
    this.#apply();
  }

  #apply() {
    const { scale, x, y } = this.camera;
    this.world.setAttribute('transform', `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${scale.toFixed(4)})`);
    // Labels and lines keep their size when the graph is made smaller.
    this.plane.style.setProperty('--inverse', (1 / Math.max(0.2, Math.min(1, scale))).toFixed(3));
    this.plane.classList.toggle('small', scale < 0.45);
    if (this.scale === scale) return;
    this.scale = scale;
    this.nodeElements.forEach((element, at) => {
      const radius = this.graph.nodes[at].radius / Math.min(1, Math.sqrt(scale));
      this.graph.nodes[at].shown = radius;
      element.firstChild.setAttribute('r', radius.toFixed(1));
      const beside = radius + 4 / Math.min(1, scale);
      element.lastChild.setAttribute('x', (this.graph.nodes[at].leftwards ? -beside : beside).toFixed(1));
      element.lastChild.setAttribute('y', (4 / Math.min(1, scale)).toFixed(1));
    });
    this.graph.edges.forEach((_, at) => this.#moveEdge(at));
  }

  #zoom(factor, px = this.plane.clientWidth / 2, py = this.plane.clientHeight / 2) {
    const { camera } = this;
    const scale = Math.min(6, Math.max(0.05, camera.scale * factor));
    const real = scale / camera.scale;
    this.camera = { scale, x: px - (px - camera.x) * real, y: py - (py - camera.y) * real };
    this.#apply();
  }

  #wheel(event) {
    event.preventDefault();
    const box = this.plane.getBoundingClientRect();
    this.#zoom(Math.exp(-event.deltaY * 0.0016), event.clientX - box.left, event.clientY - box.top);
  }

  #press(event) {
    const element = event.target.closest('.node');
    const at = element ? Number(element.dataset.node) : null;
    const start = { x: event.clientX, y: event.clientY };
    let moved = false;
    let last = start;
    const move = (event) => {
      const [dx, dy] = [event.clientX - last.x, event.clientY - last.y];
      moved ||= Math.hypot(event.clientX - start.x, event.clientY - start.y) > 3;
      last = { x: event.clientX, y: event.clientY };
      if (at === null) {
        this.camera.x += dx;
        this.camera.y += dy;
        this.#apply();
      } else {
        this.places[at].x += dx / this.camera.scale;
        this.places[at].y += dy / this.camera.scale;
        this.#moveNode(at);
        this.graph.edges.forEach(({ from, to }, edge) => (from === at || to === at) && this.#moveEdge(edge));
      }
    };
    const release = () => {
      removeEventListener('pointermove', move);
      if (!moved) this.choose(at);
    };
    addEventListener('pointermove', move);
    addEventListener('pointerup', release, { once: true });
  }

  #key(event) {
    const steps = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (steps[event.key]) {
      this.camera.x += steps[event.key][0];
      this.camera.y += steps[event.key][1];
      this.#apply();
    } else if (event.key === '+' || event.key === '=') this.#zoom(1.3);
    else if (event.key === '-') this.#zoom(1 / 1.3);
    else if (event.key === '0') this.#fit();
    else return;
    event.preventDefault();
  }
}
