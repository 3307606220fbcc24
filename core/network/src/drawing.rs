//! A model as a picture: boxes in columns, each behind its senders, and curves for vias.

use crate::build::Network;
use std::fmt::{self, Write};

/// The average width of a letter. Text is measured with it, because no font is available.
const LETTER: f64 = 7.0;
/// The height of a box: two lines of text.
const BOX: f64 = 40.0;
/// Between boxes of a column.
const GAP: f64 = 14.0;
/// Between columns: the length of a via's curve.
const BETWEEN: f64 = 60.0;
const MARGIN: f64 = 16.0;
/// How often columns are sorted, to the right and back. Further rounds change little.
const ROUNDS: usize = 8;

/// The network as a picture, an XML document of SVG. Boxes stand to the right of their senders; a pointer on a via
/// shows its columns.
///
/// ```
/// use vicus_network::{Kinds, MachineCounts, NetworkText, svg};
///
/// let text: NetworkText = "box n = numbers(to: 3); box s = sink; n -> s;".parse()?;
/// let network = text.build("three", &Kinds::library(), &MachineCounts::default(), &[])?;
/// let picture = svg(&network);
/// assert_eq!((picture.matches("<rect").count(), picture.matches("<path").count()), (2, 1));
/// # Ok::<(), vicus_network::NetworkError>(())
/// ```
pub fn svg(network: &Network) -> String {
    let mut out = String::new();
    Drawing::new(network).write(network, &mut out).expect("a text takes all that is written");
    out
}

/// An item of a column: a box of the model, or the place where a longer via passes by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Box(usize),
    Passing,
}

struct Drawing {
    /// Boxes first, then the places where vias pass by.
    stops: Vec<Stop>,
    /// From one stop to a stop of the next column.
    steps: Vec<[usize; 2]>,
    /// The vias: columns of their rows, and their stops.
    vias: Vec<(String, Vec<usize>)>,
    /// The stops of each column, from top to bottom.
    columns: Vec<Vec<usize>>,
    /// The middle of each stop's left side, and its width.
    places: Vec<Placed>,
    height: f64,
    width: f64,
}

#[derive(Clone, Copy, Default)]
struct Placed {
    x: f64,
    y: f64,
    width: f64,
}

impl Drawing {
    fn new(network: &Network) -> Drawing {
        let own = network.own();
        let mut depths = vec![0; own.end];
        // Senders come before their receivers.
        for (from, _, to) in network.links() {
            depths[to] = depths[to].max(depths[from] + 1);
        }
        let mut drawing = Drawing {
            stops: own.clone().map(Stop::Box).collect(),
            steps: Vec::new(),
            vias: Vec::new(),
            columns: vec![Vec::new(); depths.iter().max().map_or(0, |most| most + 1)],
            places: Vec::new(),
            height: 0.0,
            width: 0.0,
        };
        own.clone().for_each(|index| drawing.columns[depths[index]].push(index - own.start));
        for (from, output, to) in network.links() {
            let mut way = vec![from - own.start];
            for column in depths[from] + 1..depths[to] {
                drawing.columns[column].push(drawing.stops.len());
                way.push(drawing.stops.len());
                drawing.stops.push(Stop::Passing);
            }
            way.push(to - own.start);
            drawing.steps.extend(way.windows(2).map(|step| [step[0], step[1]]));
            drawing.vias.push((network.columns(from, output), way));
        }
        drawing.order();
        drawing.place(network);
        drawing
    }

    /// Sorts each column by the mean places of its neighbours in the column before, and then behind, so that few vias
    /// cross.
    fn order(&mut self) {
        let (mut before, mut behind) = (vec![Vec::new(); self.stops.len()], vec![Vec::new(); self.stops.len()]);
        for &[from, to] in &self.steps {
            before[to].push(from);
            behind[from].push(to);
        }
        let mut ranks = vec![0; self.stops.len()];
        let mut sort = |column: &mut Vec<usize>, neighbours: &[Vec<usize>]| {
            let mean = |stop: usize, ranks: &[usize]| match neighbours[stop].as_slice() {
                [] => ranks[stop] as f64,
                near => near.iter().map(|&one| ranks[one] as f64).sum::<f64>() / near.len() as f64,
            };
            column.sort_by(|&a, &b| mean(a, &ranks).total_cmp(&mean(b, &ranks)));
            column.iter().enumerate().for_each(|(rank, &stop)| ranks[stop] = rank);
        };
        for _ in 0..ROUNDS {
            self.columns.iter_mut().for_each(|column| sort(column, &before));
            self.columns.iter_mut().rev().for_each(|column| sort(column, &behind));
        }
    }

    fn place(&mut self, network: &Network) {
        let height = |stop: Stop| if matches!(stop, Stop::Box(_)) { BOX } else { GAP };
        let heights: Vec<f64> = (self.columns.iter())
            .map(|column| column.iter().map(|&stop| height(self.stops[stop]) + GAP).sum::<f64>() - GAP)
            .collect();
        let tallest = heights.iter().copied().fold(0.0, f64::max);
        self.places = vec![Placed::default(); self.stops.len()];
        let mut x = MARGIN;
        for (column, own) in self.columns.iter().zip(heights) {
            let letters = column.iter().filter_map(|&stop| match self.stops[stop] {
                Stop::Box(index) => labels(network, index).iter().map(|label| label.chars().count()).max(),
                Stop::Passing => None,
            });
            let width = letters.max().unwrap_or(0) as f64 * LETTER + 2.0 * GAP;
            let mut y = MARGIN + (tallest - own) / 2.0;
            for &stop in column {
                let height = height(self.stops[stop]);
                self.places[stop] = Placed { x, y: y + height / 2.0, width };
                y += height + GAP;
            }
            x += width + BETWEEN;
        }
        self.width = (x - BETWEEN + MARGIN).max(2.0 * MARGIN);
        self.height = tallest + 2.0 * MARGIN;
    }

    fn write(&self, network: &Network, out: &mut String) -> fmt::Result {
        let (width, height) = (self.width, self.height);
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">"
        )?;
        writeln!(out, "<title>{}</title>", escaped(network.model.name()))?;
        out.push_str(STYLE);
        for (columns, way) in &self.vias {
            let begin = self.places[way[0]];
            write!(out, "<path d=\"M{:.1} {:.1}", begin.x + begin.width, begin.y)?;
            let mut at = (begin.x + begin.width, begin.y);
            for (step, &stop) in way.iter().enumerate().skip(1) {
                let next = self.places[stop];
                let middle = f64::midpoint(at.0, next.x);
                write!(out, " C{middle:.1} {:.1} {middle:.1} {:.1} {:.1} {:.1}", at.1, next.y, next.x, next.y)?;
                // It goes straight through a column where it passes by.
                at = (next.x + next.width, next.y);
                if step + 1 < way.len() {
                    write!(out, " H{:.1}", at.0)?;
                }
            }
            writeln!(out, "\"><title>{}</title></path>", escaped(columns))?;
        }
        for (stop, place) in self.stops.iter().zip(&self.places) {
            let Stop::Box(index) = *stop else { continue };
            let [own, of_model] = labels(network, index);
            let (x, y, middle) = (place.x, place.y - BOX / 2.0, place.x + place.width / 2.0);
            writeln!(out, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BOX}\" rx=\"5\"/>", place.width)?;
            writeln!(out, "<text class=\"own\" x=\"{middle:.1}\" y=\"{:.1}\">{}</text>", y + 17.0, escaped(&own))?;
            writeln!(out, "<text x=\"{middle:.1}\" y=\"{:.1}\">{}</text>", y + 32.0, escaped(&of_model))?;
        }
        writeln!(out, "</svg>")
    }
}

/// A box's name in the text, and in the model.
fn labels(network: &Network, index: usize) -> [String; 2] {
    [network.label(index), network.model.boxes()[index].name().to_owned()]
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

const STYLE: &str = "<style>\
    svg { font: 12px sans-serif; background: #fff; } text { fill: #444; text-anchor: middle; } \
    .own { font-weight: bold; fill: #111; } rect { fill: #eef3f8; stroke: #5b7a99; } \
    path { fill: none; stroke: #8296aa; stroke-width: 1.5; } path:hover { stroke: #c60; stroke-width: 3; } \
    @media (prefers-color-scheme: dark) { svg { background: #16191d; } text { fill: #aab; } .own { fill: #eee; } \
    rect { fill: #232c36; stroke: #7d9ab8; } path { stroke: #6d8093; } }</style>\n";
