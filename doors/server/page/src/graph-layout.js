// Where the nodes of a graph go: forces push nodes apart and pull neighbours together. Pure, and the same for the same graph.
//
// Fruchterman and Reingold, "Graph drawing by force-directed placement", Software: Practice and Experience 21, 1991. We differ: the
// nodes begin on a spiral instead of by chance, a weak pull to the middle keeps each part together, and parts without connection, which
// would only push each other away, are laid out one by one and then packed in rows.

/// Places of `count` nodes as `{x, y}`; `edges` are pairs of node numbers. `ideal` is the length that an edge tries to have, `aspect` how
/// many times wider than high the picture may be.
export function layout(count, edges, { ideal = 90, rounds = 260, aspect = 1.6 } = {}) {
  const parts = components(count, edges);
  if (parts.length < 2) return drawn(count, edges, ideal, rounds);
  const part = new Int32Array(count);
  const number = new Int32Array(count);
  parts.forEach((nodes, at) =>
    nodes.forEach((node, own) => {
      part[node] = at;
      number[node] = own;
    }),
  );
  const own = parts.map(() => []);
  for (const [a, b] of edges) own[part[a]].push([number[a], number[b]]);
  const boxes = parts.map((nodes, at) => {
    const places = drawn(nodes.length, own[at], ideal, rounds);
    const box = bounds(places);
    return { nodes, places, box, width: box.right - box.left + ideal, height: box.bottom - box.top + ideal };
  });
  // Rows from the highest part down, each as wide as a picture of this aspect and of the area of all.
  boxes.sort((a, b) => b.height - a.height || b.width - a.width || a.nodes[0] - b.nodes[0]);
  const area = boxes.reduce((sum, { width, height }) => sum + width * height, 0);
  const most = Math.max(Math.sqrt(area * aspect), ...boxes.map(({ width }) => width));
  const all = new Array(count);
  let [left, top, high] = [0, 0, 0];
  for (const { nodes, places, box, width, height } of boxes) {
    if (left > 0 && left + width > most) [left, top, high] = [0, top + high, 0];
    nodes.forEach((node, at) => {
      all[node] = { x: left + places[at].x - box.left, y: top + places[at].y - box.top };
    });
    left += width;
    high = Math.max(high, height);
  }
  return all;
}

/// The nodes of each connected part, in the order of their numbers.
function components(count, edges) {
  const root = Array.from({ length: count }, (_, node) => node);
  const find = (node) => {
    while (root[node] !== node) node = root[node] = root[root[node]];
    return node;
  };
  for (const [a, b] of edges) root[find(a)] = find(b);
  const parts = new Map();
  for (let node = 0; node < count; node += 1) {
    const at = find(node);
    if (!parts.has(at)) parts.set(at, []);
    parts.get(at).push(node);
  }
  return [...parts.values()];
}

/// The places of nodes that are connected.
function drawn(count, edges, ideal, rounds) {
  const x = new Float64Array(count);
  const y = new Float64Array(count);
  const golden = Math.PI * (3 - Math.sqrt(5));
  for (let node = 0; node < count; node += 1) {
    const radius = ideal * 0.6 * Math.sqrt(node + 0.5);
    x[node] = radius * Math.cos(node * golden);
    y[node] = radius * Math.sin(node * golden);
  }
  const moveX = new Float64Array(count);
  const moveY = new Float64Array(count);
  let heat = ideal;
  const cooling = (0.5 / ideal) ** (1 / rounds);
  for (let round = 0; round < rounds; round += 1) {
    moveX.fill(0);
    moveY.fill(0);
    for (let a = 0; a < count; a += 1) {
      for (let b = a + 1; b < count; b += 1) {
        const dx = x[a] - x[b];
        const dy = y[a] - y[b];
        const square = dx * dx + dy * dy + 0.01;
        const force = (ideal * ideal) / square;
        moveX[a] += dx * force;
        moveY[a] += dy * force;
        moveX[b] -= dx * force;
        moveY[b] -= dy * force;
      }
    }
    for (const [a, b] of edges) {
      const dx = x[a] - x[b];
      const dy = y[a] - y[b];
      const force = Math.sqrt(dx * dx + dy * dy) / ideal;
      moveX[a] -= dx * force;
      moveY[a] -= dy * force;
      moveX[b] += dx * force;
      moveY[b] += dy * force;
    }
    for (let node = 0; node < count; node += 1) {
      moveX[node] -= x[node] * 0.12;
      moveY[node] -= y[node] * 0.12;
      const length = Math.hypot(moveX[node], moveY[node]) || 1;
      const step = Math.min(length, heat) / length;
      x[node] += moveX[node] * step;
      y[node] += moveY[node] * step;
    }
    heat *= cooling;
  }
  return Array.from(x, (value, node) => ({ x: value, y: y[node] }));
}

/// Places moved up or down until no label lies on another one, or until that would take too long. `labels` has the rectangle of each node
/// with its label, `{left, right, height}` from the node's place, for a picture of `wide` by `high`, into which `places` are scaled;
/// labels keep their size.
export function apart(places, labels, wide, high) {
  let moved = places;
  for (let turn = 0; turn < TURNS; turn += 1) {
    const box = bounds(moved);
    // What is made higher is made smaller, so labels take more of it.
    const scale = Math.min(1, wide / (box.right - box.left + 1), high / (box.bottom - box.top + 1));
    const next = separated(moved, labels, scale);
    if (next === moved) return moved;
    moved = next;
  }
  return moved;
}

const TURNS = 4;
const ROUNDS = 60;
/// The distance of two labels, as a part of their height.
const BETWEEN = 1.1;

/// One turn at this scale; the same array if nothing had to move.
function separated(places, labels, scale) {
  const moved = places.map(({ x, y }) => ({ x, y }));
  let any = false;
  for (let round = 0; round < ROUNDS; round += 1) {
    let touched = false;
    for (let a = 0; a < moved.length; a += 1) {
      for (let b = a + 1; b < moved.length; b += 1) {
        const [one, other] = [moved[a], moved[b]];
        const dx = (other.x - one.x) * scale;
        if (dx + labels[b].left >= labels[a].right || dx + labels[b].right <= labels[a].left) continue;
        const dy = (other.y - one.y) * scale;
        const lack = ((labels[a].height + labels[b].height) / 2) * BETWEEN - Math.abs(dy);
        if (lack <= 0.01) continue;
        const step = (lack / 2 / scale) * (dy < 0 ? -1 : 1);
        one.y -= step;
        other.y += step;
        touched = true;
      }
    }
    if (!touched) break;
    any = true;
  }
  return any ? moved : places;
}

/// The smallest box around all places.
export function bounds(places) {
  const box = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
  for (const { x, y } of places) {
    box.left = Math.min(box.left, x);
    box.right = Math.max(box.right, x);
    box.top = Math.min(box.top, y);
    box.bottom = Math.max(box.bottom, y);
  }
  return places.length ? box : { left: 0, top: 0, right: 0, bottom: 0 };
}
