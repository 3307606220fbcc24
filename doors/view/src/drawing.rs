//! Pictures of the networks of a run. Every part says what it is by an attribute, so that the viewer can mark it.

use crate::html::{Escaped, Ms};
use crate::keys::Keys;
use crate::pass::Via;
use rustc_hash::FxHashMap;
use std::fmt::Write;
use vicus_trace::ModelInfo;

/// More rectangles are not drawn: nothing could be read.
pub(crate) const MOST_BOXES: usize = 160;
const LETTER: f64 = 6.6;
const BOX: f64 = 38.0;
const GAP: f64 = 16.0;
const BETWEEN: f64 = 84.0;
const MARGIN: f64 = 12.0;
const ROUNDS: usize = 12;

/// A name that fits into a box.
fn short(name: &str) -> String {
    match name.char_indices().nth(26) {
        Some(_) => name.chars().take(25).chain(['…']).collect(),
        None => name.to_owned(),
    }
}

/// Thousands as `k`, millions as `M`: for labels.
fn rounded(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..10_000_000 => format!("{:.0} k", count as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.0} M", count as f64 / 1e6),
        _ => format!("{:.0} G", count as f64 / 1e9),
    }
}

/// The picture of a network, if it has one.
pub(crate) enum Network {
    /// Boxes, or where these are too many, their types.
    Drawn { picture: String, by_type: bool },
    /// Even its types are too many.
    TooLarge,
    /// Its boxes are joined by nothing.
    WithoutVias,
}

/// A rectangle: a box, or all boxes of a type.
struct Shape {
    name: String,
    /// The attribute by which the viewer knows it.
    attribute: String,
    colour: u8,
    ns: u64,
    /// The lines that come in one below the other.
    inputs: usize,
}

/// A line between two rectangles: a via, or all vias between two types.
struct Line {
    attribute: String,
    from: usize,
    to: usize,
    input: u16,
    envelopes: u64,
    rows: u64,
    refused: u64,
}

/// Draws a network: boxes in columns behind their senders, vias with the rows that passed.
pub(crate) fn network(
    model: usize,
    info: &ModelInfo,
    vias: &[Via],
    keys: &Keys,
    busy_ns: &[u64],
    colours: &[u8],
) -> Network {
    let count = info.boxes.len();
    let vias = vias.iter().enumerate();
    let vias: Vec<(usize, &Via)> = vias.filter(|(_, via)| via.model == model && (via.from as usize) < count).collect();
    if vias.is_empty() {
        return Network::WithoutVias;
    }
    if count <= MOST_BOXES {
        let shape = |(b, key): (usize, &u32)| Shape {
            name: info.boxes[b].name.clone(),
            attribute: format!("data-key=\"{key}\" data-box=\"{model}.{b}\""),
            colour: colours[*key as usize],
            ns: busy_ns[*key as usize],
            inputs: info.boxes[b].inputs.len(),
        };
        let line = |&(number, via): &(usize, &Via)| Line {
            attribute: format!(" data-via=\"{number}\" tabindex=\"0\""),
            from: via.from as usize,
            to: via.to as usize,
            input: via.input,
            envelopes: via.envelopes,
            rows: via.rows,
            refused: via.refused,
        };
        let shapes: Vec<Shape> = keys.boxes(model).iter().enumerate().map(shape).collect();
        let lines: Vec<Line> = vias.iter().map(line).collect();
        return Network::Drawn { picture: draw(&info.name, &shapes, &lines), by_type: false };
    }
    let (_, type_of) = keys.types();
    let own: Vec<usize> = keys.boxes(model).iter().map(|key| type_of[*key as usize]).collect();
    let mut types = own.clone();
    types.sort_unstable();
    types.dedup();
    if types.len() > MOST_BOXES {
        return Network::TooLarge;
    }
    let place = |b: u32| types.partition_point(|of_type| *of_type < own[b as usize]);
    let mut shapes: Vec<Shape> = Vec::new();
    for &of_type in &types {
        let many = own.iter().filter(|each| **each == of_type).count();
        let of_its = || (0..type_of.len()).filter(|key| type_of[*key] == of_type);
        let first = of_its().next().expect("a type has a key");
        shapes.push(Shape {
            name: format!("{many} × {}", keys.all[first].type_name),
            attribute: format!("data-type=\"{of_type}\""),
            colour: colours[first],
            ns: of_its().fold(0, |sum, key| sum.saturating_add(busy_ns[key])),
            inputs: 1,
        });
    }
    let mut lines: Vec<Line> = Vec::new();
    let mut known: FxHashMap<(usize, usize), usize> = FxHashMap::default();
    for (_, via) in &vias {
        let (from, to) = (place(via.from), place(via.to));
        let at = *known.entry((from, to)).or_insert_with(|| {
            let (attribute, input) = (String::new(), 0);
            lines.push(Line { attribute, from, to, input, envelopes: 0, rows: 0, refused: 0 });
            lines.len() - 1
        });
        let line = &mut lines[at];
        line.envelopes += via.envelopes;
        line.rows += via.rows;
        line.refused += via.refused;
    }
    Network::Drawn { picture: draw(&info.name, &shapes, &lines), by_type: true }
}

/// The picture of rectangles and the lines between them.
fn draw(name: &str, shapes: &[Shape], lines: &[Line]) -> String {
    let count = shapes.len();
    let columns = columns(count, lines.iter().map(|line| (line.from, line.to)));
    let depth = columns.iter().max().map_or(0, |most| most + 1);
    let mut order: Vec<Vec<usize>> = (0..depth).map(|at| (0..count).filter(|b| columns[*b] == at).collect()).collect();
    let mut place = vec![0.0_f64; count];
    let set = |column: &[usize], place: &mut Vec<f64>| {
        column.iter().enumerate().for_each(|(at, b)| place[*b] = at as f64 - column.len() as f64 / 2.0);
    };
    order.iter().for_each(|column| set(column, &mut place));
    for round in 0..ROUNDS {
        let forward = round % 2 == 0;
        let sweep: Vec<usize> =
            if forward { (1..depth).collect() } else { (0..depth.saturating_sub(1)).rev().collect() };
        for at in sweep {
            let middle = |b: usize| {
                let others = lines.iter().filter_map(|line| match forward {
                    true => (line.to == b).then_some(line.from),
                    false => (line.from == b).then_some(line.to),
                });
                let (sum, many) = others.fold((0.0, 0.0), |(sum, many), b| (sum + place[b], many + 1.0));
                if many > 0.0 { sum / many } else { place[b] }
            };
            let mut sorted: Vec<(f64, usize)> = order[at].iter().map(|b| (middle(*b), *b)).collect();
            sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
            order[at] = sorted.into_iter().map(|(_, b)| b).collect();
            set(&order[at], &mut place);
        }
    }
    let label = |b: usize| short(&shapes[b].name);
    let width_of = |b: usize| (label(b).chars().count() as f64 * LETTER + 22.0).max(92.0);
    let mut x = MARGIN;
    let mut spots = vec![(0.0, 0.0, 0.0); count];
    let tallest = order.iter().map(Vec::len).max().unwrap_or(0) as f64;
    let height = tallest * (BOX + GAP) - GAP + 2.0 * MARGIN;
    for column in &order {
        let widest = column.iter().map(|b| width_of(*b)).fold(0.0, f64::max);
        let mut y = (height - (column.len() as f64 * (BOX + GAP) - GAP)) / 2.0;
        for b in column {
            spots[*b] = (x, y, widest);
            y += BOX + GAP;
        }
        x += widest + BETWEEN;
    }
    let width = x - BETWEEN + MARGIN;
    let mut out = String::new();
    _ = write!(
        out,
        "<svg class=\"network\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
         role=\"img\" aria-label=\"The network {}\">",
        Escaped(name)
    );
    let most_rows = lines.iter().map(|line| line.rows).max().unwrap_or(0).max(1) as f64;
    let (mut labels, mut texts): (Vec<(f64, f64, f64)>, String) = Default::default();
    for line in lines {
        let (a, b) = (spots[line.from], spots[line.to]);
        let (x1, y1) = (a.0 + a.2, a.1 + BOX / 2.0);
        let (x2, y2) = (b.0, b.1 + BOX * (f64::from(line.input) + 1.0) / (shapes[line.to].inputs as f64 + 1.0));
        let bend = ((x2 - x1).abs() / 2.0).max(30.0);
        let thick = 1.2 + 4.0 * (1.0 + line.rows as f64).ln() / (1.0 + most_rows).ln();
        _ = write!(
            out,
            "<g class=\"via{}\"{}><title>{} to {}: {} envelopes, {} rows, {} refusals</title><path d=\"M{x1:.0} \
             {y1:.0}C{:.0} {y1:.0} {:.0} {y2:.0} {x2:.0} {y2:.0}\" stroke-width=\"{thick:.1}\"/>",
            if line.refused > 0 { " full" } else { "" },
            line.attribute,
            Escaped(&shapes[line.from].name),
            Escaped(&shapes[line.to].name),
            line.envelopes,
            line.rows,
            line.refused,
            x1 + bend,
            x2 - bend,
        );
        out.push_str("</g>");
        // On the curve, where no other label is; a pointer tells the rows of a via without one.
        let text = rounded(line.rows);
        let half = text.len() as f64 * LETTER / 2.0 + 2.0;
        let spot = [0.5, 0.36, 0.64, 0.24, 0.76].into_iter().map(|t: f64| {
            let along = |a: f64, b: f64, c: f64, d: f64| {
                let s = 1.0 - t;
                a * s.powi(3) + 3.0 * b * s * s * t + 3.0 * c * s * t * t + d * t.powi(3)
            };
            (along(x1, x1 + bend, x2 - bend, x2), along(y1, y1, y2, y2) + 4.0)
        });
        let is_free = |spot: &(f64, f64)| {
            labels.iter().all(|(x, y, wide)| (spot.0 - x).abs() > half + wide || (spot.1 - y).abs() > 12.0)
        };
        if let Some((x, y)) = spot.filter(|_| x2 > x1 && line.rows > 0).find(is_free) {
            labels.push((x, y, half));
            _ = write!(texts, "<text class=\"rows\" x=\"{x:.0}\" y=\"{y:.0}\">{text}</text>");
        }
    }
    out.push_str(&texts);
    for (b, &(x, y, wide)) in spots.iter().enumerate() {
        let Shape { name, attribute, colour, ns, .. } = &shapes[b];
        _ = write!(
            out,
            "<g class=\"box c{colour}\" {attribute} tabindex=\"0\"><title>{}</title><rect x=\"{x:.0}\" y=\"{y:.0}\" \
             width=\"{wide:.0}\" height=\"{BOX}\" rx=\"6\"/><rect class=\"mark\" \
             x=\"{x:.0}\" y=\"{y:.0}\" width=\"5\" height=\"{BOX}\" rx=\"2\"/><text x=\"{:.0}\" \
             y=\"{:.0}\">{}</text><text class=\"quiet\" x=\"{:.0}\" y=\"{:.0}\">{} ms</text></g>",
            Escaped(name),
            x + 12.0,
            y + 16.0,
            Escaped(label(b)),
            x + 12.0,
            y + 31.0,
            Ms(*ns),
        );
    }
    out.push_str("</svg>\n");
    out
}

/// The column of each box, behind all of its senders. A via that closes a circle has no say.
fn columns(count: usize, vias: impl Iterator<Item = (usize, usize)>) -> Vec<usize> {
    let mut receivers = vec![Vec::new(); count];
    vias.filter(|(from, to)| *from < count && *to < count).for_each(|(from, to)| receivers[from].push(to));
    // Boxes in the order in which a walk leaves them; a via into the walk's own way closes a circle.
    let (mut is_left, mut is_on_way) = (vec![false; count], vec![false; count]);
    let (mut left, mut forward) = (Vec::new(), vec![Vec::new(); count]);
    for start in 0..count {
        let mut way = vec![(start, 0)];
        while let Some((at, next)) = way.last_mut() {
            let at = *at;
            if *next == 0 && is_left[at] {
                way.pop();
                continue;
            }
            is_on_way[at] = true;
            match receivers[at].get(*next).copied() {
                Some(to) => {
                    *next += 1;
                    if !is_on_way[to] {
                        forward[at].push(to);
                        if !is_left[to] {
                            way.push((to, 0));
                        }
                    }
                }
                None => {
                    (is_on_way[at], is_left[at]) = (false, true);
                    left.push(at);
                    way.pop();
                }
            }
        }
    }
    let mut columns = vec![0_usize; count];
    for &from in left.iter().rev() {
        for &to in &forward[from] {
            columns[to] = columns[to].max(columns[from] + 1);
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_stands_behind_its_senders_unless_they_wait_for_it() {
        // 3 -> 0 -> 2, 3 -> 1 -> 2, 2 -> 4, and back from 4 to 1.
        let vias = [(3, 0), (0, 2), (3, 1), (1, 2), (2, 4), (4, 1)];
        let found = columns(6, vias.into_iter());
        let rises = vias.iter().filter(|(from, to)| found[*from] < found[*to]).count();
        assert_eq!(rises, vias.len() - 1, "{found:?}");
        assert_eq!(found[5], 0, "a box without vias");
        assert_eq!(columns(4, [(3, 2), (2, 1), (1, 0)].into_iter()), [3, 2, 1, 0]);
        assert_eq!(columns(2, [(0, 0), (0, 1)].into_iter()), [0, 1], "a via to its own sender");
    }
}
