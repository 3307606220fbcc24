//! A machine as a picture: nested boxes, from the node down to the PU, and a table of the distances.

use super::{bytes, count, node_name, ranges, summary, usable};
use std::collections::BTreeMap;
use std::fmt::Write;
use vicus_topology::{Cache, Core, Node, PuId, Topology};

/// The gap between boxes, and between a box's border and its contents.
const GAP: f64 = 6.0;
/// The height of a line of text and of a cache's band.
const LINE: f64 = 18.0;
/// The average width of a letter. Text is measured with it, because no font is available.
const LETTER: f64 = 6.4;
/// The width of a picture divided by its height, as on a screen.
const ASPECT: f64 = 1.7;

/// The picture as an XML document.
pub(super) fn render(machine: &Topology) -> String {
    let view = View {
        hybrid: machine.cores.iter().any(|core| core.kind != machine.cores[0].kind),
        least_width: machine.caches.iter().map(band_width).fold(0.0, f64::max),
    };
    let nodes = machine.nodes.iter().map(|node| node_tile(machine, node, &view)).collect();
    let mut picture = heading(machine);
    picture.put_below(grid(nodes), 2.0 * GAP);
    if machine.nodes.len() > 1 {
        picture.put_below(distances(machine), 4.0 * GAP);
    }
    picture.into_svg(&machine.name)
}

/// Settings shared by all boxes of a picture.
struct View {
    /// There are several kinds of cores, so each core names its kind.
    hybrid: bool,
    /// The least width of caches and cores, so that a core's caches are as wide as the core.
    least_width: f64,
}

/// Each distinct distance between two nodes, with its rank, the nearest first.
pub(super) fn ranks(machine: &Topology) -> BTreeMap<u32, u32> {
    let mut ranks = BTreeMap::new();
    for (i, row) in machine.distances.iter().enumerate() {
        for (j, value) in row.iter().enumerate().filter(|&(j, _)| j != i) {
            ranks.entry(*value).or_insert_with(|| machine.numa_rank(machine.nodes[i].id, machine.nodes[j].id));
        }
    }
    ranks
}

fn heading(machine: &Topology) -> Tile {
    let mut tile = Tile::default();
    tile.text(0.0, 20.0, "h1", "start", machine.name.clone(), 10.0);
    tile.text(0.0, 40.0, "t", "start", summary(machine), LETTER);
    tile.text(0.0, 56.0, "t", "start", usable(machine), LETTER);
    tile.height = 62.0;
    tile
}

fn node_tile(machine: &Topology, node: &Node, view: &View) -> Tile {
    let memory = if node.bytes == 0 { String::new() } else { format!(", {}", bytes(node.bytes)) };
    let label = format!("{}{memory}", node_name(node));
    if node.pus.is_empty() {
        let mut inside = Tile::default();
        inside.text(0.0, 12.0, "s", "start", "memory only".to_owned(), LETTER);
        inside.height = LINE;
        return boxed("node far", label, "no PU is local to this node".to_owned(), inside);
    }
    let groups = machine.core_groups.iter().filter(|group| group.node == node.id).map(|group| {
        // The widest first: a cache is drawn above the caches inside of it, and above its cores.
        let mut around: Vec<&Cache> =
            machine.caches.iter().filter(|cache| cache.pus.iter().any(|pu| group.pus.contains(pu))).collect();
        around.sort_by_key(|cache| (std::cmp::Reverse(cache.level), cache.id));
        let inside = nest(machine, &around, &group.pus, view);
        boxed("group", format!("group {}", group.id.index()), format!("PUs {}", ranges(machine, &group.pus)), inside)
    });
    boxed("node", label, format!("PUs {}", ranges(machine, &node.pus)), grid(groups.collect()))
}

/// These PUs under the outermost of these caches, beside PUs outside of it, and so on inwards.
fn nest(machine: &Topology, caches: &[&Cache], pus: &[PuId], view: &View) -> Tile {
    let Some(level) = caches.first().map(|cache| cache.level) else {
        let cores = machine.cores.iter().filter(|core| pus.contains(&core.pus[0]));
        return grid(cores.map(|core| core_tile(machine, core, view)).collect());
    };
    let (here, further) = caches.split_at(caches.iter().take_while(|cache| cache.level == level).count());
    let within = |inside: &[PuId]| -> Vec<&Cache> {
        further.iter().copied().filter(|cache| cache.pus.iter().any(|pu| inside.contains(pu))).collect()
    };
    let tile = |cache: &Cache| {
        let inside: Vec<PuId> = cache.pus.iter().copied().filter(|pu| pus.contains(pu)).collect();
        let mut tile = band(machine, cache, inside.len() < cache.pus.len(), view);
        let below = nest(machine, &within(&inside), &inside, view);
        tile.width = tile.width.max(below.width);
        tile.stretch();
        let (dx, dy) = ((tile.width - below.width) / 2.0, tile.height + GAP / 2.0);
        tile.put(below, dx, dy);
        tile
    };
    // Only equal boxes are aligned: the pairs and the quadruples of a hybrid machine get a block each.
    let alike = here.chunk_by(|a, b| a.pus.len() == b.pus.len());
    let mut blocks: Vec<Tile> = alike.map(|caches| grid(caches.iter().map(|cache| tile(cache)).collect())).collect();
    let rest: Vec<PuId> = pus.iter().copied().filter(|pu| !here.iter().any(|cache| cache.pus.contains(pu))).collect();
    if !rest.is_empty() {
        blocks.push(nest(machine, &within(&rest), &rest, view));
    }
    grid(blocks)
}

/// A cache: a bar above the boxes it serves.
fn band(machine: &Topology, cache: &Cache, in_part: bool, view: &View) -> Tile {
    let mut tile = Tile::default();
    let mut label = band_label(cache);
    let title = format!("{label}, PUs {}", ranges(machine, &cache.pus));
    if in_part {
        label.push_str(" (part)");
    }
    tile.rect(0.0, 0.0, view.least_width, LINE, &format!("l{}", cache.level.min(4)), title);
    tile.shapes.push(Shape::Centred { y: 13.0, class: "s", text: label });
    tile
}

fn band_label(cache: &Cache) -> String {
    let size = if cache.bytes == 0 { String::new() } else { format!(" {}", bytes(cache.bytes)) };
    format!("L{}{size}", cache.level)
}

fn band_width(cache: &Cache) -> f64 {
    band_label(cache).len() as f64 * LETTER * 0.9 + GAP
}

fn core_tile(machine: &Topology, core: &Core, view: &View) -> Tile {
    let kind = if view.hybrid { format!(", kind {}", core.kind) } else { String::new() };
    let class = if view.hybrid && core.kind > 0 { "core fast" } else { "core" };
    // A core of one PU has no room for words, and hundreds of them would repeat the same words.
    let label =
        if core.pus.len() > 1 || view.hybrid { format!("core {}{kind}", core.id.index()) } else { String::new() };
    let (pu_width, gap) = (28.0, 2.0);
    let together = core.pus.len() as f64 * (pu_width + gap) - gap;
    let width = together.max(view.least_width - GAP).max(label.len() as f64 * LETTER);
    let mut pus = Tile::default();
    for (i, id) in core.pus.iter().enumerate() {
        let pu = &machine.pus[id.index()];
        let (class, state) = if pu.usable { ("pu", "") } else { ("pu off", ", not usable by this process") };
        let x = (width - together) / 2.0 + i as f64 * (pu_width + gap);
        pus.rect(x, 0.0, pu_width, LINE, class, format!("PU {}{state}", pu.os_index));
        let class = if pu.usable { "s" } else { "s offtext" };
        pus.text(x + pu_width / 2.0, 13.0, class, "middle", pu.os_index.to_string(), LETTER);
    }
    pus.width = width;
    boxed_by(GAP / 2.0, class, label, format!("core {}{kind}", core.id.index()), pus)
}

fn distances(machine: &Topology) -> Tile {
    let (ranks, count_nodes) = (ranks(machine), machine.nodes.len());
    let most = ranks.len().max(1) as f64;
    let widest = machine.distances.iter().flatten().map(|value| value.to_string().len()).max().unwrap_or(2).max(2);
    let (cell, row) = (widest as f64 * 7.0 + 8.0, 16.0);
    let mut tile = Tile::default();
    let legend: Vec<String> = ranks.iter().map(|(value, rank)| format!("{value} is rank {rank}")).collect();
    let legend = format!("Distances of {} (row to column): {}", count(count_nodes, "node"), legend.join(", "));
    tile.text(0.0, 13.0, "t", "start", legend, LETTER);
    let top = 24.0;
    for i in 0..=count_nodes {
        let along = i as f64;
        if i > 0 {
            tile.text(along * cell + cell / 2.0, top + 12.0, "s", "middle", (i - 1).to_string(), LETTER);
            tile.text(cell / 2.0, top + along * row + 12.0, "s", "middle", (i - 1).to_string(), LETTER);
        }
    }
    for (i, values) in machine.distances.iter().enumerate() {
        for (j, value) in values.iter().enumerate() {
            let (x, y) = ((j + 1) as f64 * cell, top + (i + 1) as f64 * row);
            let rank = if i == j { 0.0 } else { f64::from(ranks[value]) };
            // Nearer is lighter; black text is still readable on the darkest shade.
            let shade = 255.0 - 105.0 * rank / most;
            tile.shapes.push(Shape::Cell { x, y, width: cell - 1.0, height: row - 1.0, shade });
            tile.text(x + cell / 2.0, y + 12.0, "s", "middle", value.to_string(), LETTER);
        }
    }
    tile.width = tile.width.max((count_nodes + 1) as f64 * cell);
    tile.height = top + (count_nodes + 1) as f64 * row;
    tile
}

/// A part of the picture, with its own origin.
#[derive(Default)]
struct Tile {
    width: f64,
    height: f64,
    shapes: Vec<Shape>,
}

enum Shape {
    Rect {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        class: String,
        title: String,
    },
    Text {
        x: f64,
        y: f64,
        class: &'static str,
        anchor: &'static str,
        text: String,
    },
    /// Text in the middle of its later tile, whose width is known only then.
    Centred {
        y: f64,
        class: &'static str,
        text: String,
    },
    Cell {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        shade: f64,
    },
}

impl Tile {
    fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, class: &str, title: String) {
        self.width = self.width.max(x + width);
        self.height = self.height.max(y + height);
        self.shapes.push(Shape::Rect { x, y, width, height, class: class.to_owned(), title });
    }

    fn text(&mut self, x: f64, y: f64, class: &'static str, anchor: &'static str, text: String, letter: f64) {
        if anchor == "start" {
            self.width = self.width.max(x + text.chars().count() as f64 * letter);
        }
        self.shapes.push(Shape::Text { x, y, class, anchor, text });
    }

    /// Makes the outermost box as wide as the tile, and centres its label.
    fn stretch(&mut self) {
        if let Some(Shape::Rect { width, .. }) = self.shapes.first_mut() {
            *width = self.width;
        }
        for shape in &mut self.shapes {
            if let Shape::Centred { y, class, text } = shape {
                *shape =
                    Shape::Text { x: self.width / 2.0, y: *y, class, anchor: "middle", text: std::mem::take(text) };
            }
        }
    }

    fn put(&mut self, other: Tile, dx: f64, dy: f64) {
        self.width = self.width.max(dx + other.width);
        self.height = self.height.max(dy + other.height);
        self.shapes.extend(other.shapes.into_iter().map(|mut shape| {
            if let Shape::Rect { x, y, .. } | Shape::Text { x, y, .. } | Shape::Cell { x, y, .. } = &mut shape {
                *x += dx;
                *y += dy;
            }
            shape
        }));
    }

    fn put_below(&mut self, other: Tile, gap: f64) {
        self.put(other, 0.0, self.height + gap);
    }

    fn into_svg(self, name: &str) -> String {
        let margin = 12.0;
        let (width, height) = (self.width + 2.0 * margin, self.height + 2.0 * margin);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"{0:.0} {0:.0} {width:.0} {height:.0}\">\n<title>{1}</title>\n<style>{STYLE}</style>\n\
             <rect x=\"{0:.0}\" y=\"{0:.0}\" width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
            -margin,
            escape(name),
        );
        for shape in self.shapes {
            // Writing to a String can't fail.
            let _ = match shape {
                Shape::Rect { x, y, width, height, class, title } => writeln!(
                    out,
                    "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
                     rx=\"3\"><title>{}</title></rect>",
                    escape(&title)
                ),
                Shape::Text { x, y, class, anchor, text } => writeln!(
                    out,
                    "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
                    escape(&text)
                ),
                Shape::Centred { .. } => unreachable!("a band is stretched before it is drawn"),
                Shape::Cell { x, y, width, height, shade } => writeln!(
                    out,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
                     fill=\"rgb({0:.0},{0:.0},255)\"/>",
                    shade
                ),
            };
        }
        out.push_str("</svg>\n");
        out
    }
}

const STYLE: &str = "text{font-family:'DejaVu Sans',Verdana,sans-serif;fill:#22303c}\
.h1{font-size:16px;font-weight:bold}.t{font-size:11px}.s{font-size:10px}\
rect{stroke-width:1}.node{fill:#e8eef5;stroke:#8aa2ba}.far{stroke-dasharray:5 3}\
.group{fill:#f8fafc;stroke:#b9c8d6}.core{fill:#dcefe0;stroke:#9cc3a5}.fast{fill:#b7dfc0}\
.pu{fill:#ffffff;stroke:#6fa67b}.off{fill:#d9d9d9;stroke:#b0b0b0}.offtext{fill:#8a8a8a}\
.l1{fill:#fdf3d7;stroke:#dcc88f}.l2{fill:#fbe3b0;stroke:#d6b566}.l3{fill:#f7cd8b;stroke:#cc9c46}\
.l4{fill:#f2b66d;stroke:#bd8436}";

/// A box with a label at its top left, as wide as its contents or its label.
fn boxed(class: &str, label: String, title: String, inside: Tile) -> Tile {
    boxed_by(GAP, class, label, title, inside)
}

/// [`boxed`], with this much space at the sides.
fn boxed_by(side: f64, class: &str, label: String, title: String, inside: Tile) -> Tile {
    let top = if label.is_empty() { side } else { LINE };
    let width = inside.width.max(label.chars().count() as f64 * LETTER) + 2.0 * side;
    let mut tile = Tile::default();
    tile.rect(0.0, 0.0, width, top + inside.height + side, class, title);
    if !label.is_empty() {
        tile.text(side, 13.0, "s", "start", label, 0.0);
    }
    tile.put(inside, side, top);
    tile
}

/// Arranges tiles in rows and columns, for a shape close to a screen's and few empty places.
fn grid(tiles: Vec<Tile>) -> Tile {
    let widths = |columns: usize| -> Vec<f64> {
        let mut widths = vec![0.0_f64; columns.min(tiles.len())];
        for (i, tile) in tiles.iter().enumerate() {
            widths[i % columns] = widths[i % columns].max(tile.width);
        }
        widths
    };
    let ugliness = |columns: usize| {
        let width: f64 = widths(columns).iter().map(|width| width + GAP).sum();
        let height: f64 = tiles.chunks(columns).map(|row| tallest(row) + GAP).sum();
        let empty = tiles.len().next_multiple_of(columns) - tiles.len();
        (width / height / ASPECT).ln().abs() + 2.0 * empty as f64 / tiles.len() as f64
    };
    let columns = (1..=tiles.len()).min_by(|&a, &b| ugliness(a).total_cmp(&ugliness(b))).unwrap_or(1);
    let widths = widths(columns);
    let mut whole = Tile::default();
    let mut tiles = tiles;
    let mut y = 0.0;
    while !tiles.is_empty() {
        let further = tiles.split_off(columns.min(tiles.len()));
        let height = tallest(&tiles);
        let mut x = 0.0;
        for (tile, width) in tiles.into_iter().zip(&widths) {
            whole.put(tile, x, y);
            x += width + GAP;
        }
        y += height + GAP;
        tiles = further;
    }
    whole
}

fn tallest(row: &[Tile]) -> f64 {
    row.iter().map(|tile| tile.height).fold(0.0, f64::max)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
