//! A model as a picture.

use crate::build::Network;
use crate::schema::schema_text;
use std::fmt::Write;

/// The size of a box, and the distances between boxes, in pixels.
const WIDTH: usize = 170;
const HEIGHT: usize = 44;
const ACROSS: usize = 80;
const DOWN: usize = 22;

/// The network as a picture in SVG: boxes stand in columns, each to the right of its senders. A via shows its columns
/// when it is pointed at.
///
/// ```
/// use vicus_network::{Kinds, MachineCounts, NetworkText, svg};
///
/// let text: NetworkText = "box n = numbers(to: 3); box s = sink; n -> s;".parse()?;
/// let network = text.build("three", &Kinds::library(), &MachineCounts::default(), &[])?;
/// let picture = svg(&network);
/// assert!(picture.starts_with("<svg ") && picture.contains("<title>n to s: (n: I64)</title>"));
/// # Ok::<(), vicus_network::NetworkError>(())
/// ```
pub fn svg(network: &Network) -> String {
    let places = places(network);
    let boxes = network.model.boxes();
    let (columns, rows) =
        places.iter().flatten().fold((0, 0), |(x, y), place| (x.max(place.0 + 1), y.max(place.1 + 1)));
    let at = |(column, row): (usize, usize)| (DOWN + column * (WIDTH + ACROSS), DOWN + row * (HEIGHT + DOWN));
    let (width, height) = (columns * (WIDTH + ACROSS), rows * (HEIGHT + DOWN) + DOWN);
    let mut out = String::new();
    let mut write = || -> std::fmt::Result {
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
             font-size=\"12\">"
        )?;
        writeln!(out, "<title>{}</title>", escaped(network.model.name()))?;
        for (index, own) in places.iter().enumerate() {
            let Some(to) = own.map(at) else { continue };
            for (sender, output) in boxes[index].sources() {
                let Some(from) = places[sender.index()].map(at) else { continue };
                let columns = boxes[sender.index()].outputs().nth(output).map(|(schema, _)| schema_text(schema));
                let (x, y, end_x, end_y) = (from.0 + WIDTH, from.1 + HEIGHT / 2, to.0, to.1 + HEIGHT / 2);
                let bend = ACROSS / 2;
                writeln!(
                    out,
                    "<path d=\"M{x} {y}C{} {y} {} {end_y} {end_x} {end_y}\" fill=\"none\" stroke=\"#777\" \
                     stroke-width=\"1.5\"><title>{} to {}: {}</title></path>",
                    x + bend,
                    end_x.saturating_sub(bend),
                    escaped(&network.names[sender.index()]),
                    escaped(&network.names[index]),
                    escaped(&columns.unwrap_or_default())
                )?;
            }
        }
        for (index, place) in places.iter().enumerate() {
            let Some((x, y)) = place.map(at) else { continue };
            let (name, kind) = (escaped(&network.names[index]), escaped(boxes[index].name()));
            writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"4\" fill=\"#fff\" \
                 stroke=\"#333\"/><text x=\"{0}\" y=\"{1}\">{name}</text><text x=\"{0}\" y=\"{2}\" \
                 fill=\"#777\">{kind}</text>",
                x + 8,
                y + 18,
                y + 35
            )?;
        }
        writeln!(out, "</svg>")
    };
    write().expect("a text takes all that is written");
    out
}

/// The column and the row of each box; none for the first and the last one of the model.
fn places(network: &Network) -> Vec<Option<(usize, usize)>> {
    let boxes = network.model.boxes();
    let is_own = |index: usize| index > 0 && index + 1 < boxes.len();
    // Kinds are added behind their senders, so one pass finds the columns.
    let mut places: Vec<Option<(usize, usize)>> = vec![None; boxes.len()];
    let mut used: Vec<Vec<bool>> = Vec::new();
    for index in (0..boxes.len()).filter(|&index| is_own(index)) {
        let senders = || boxes[index].senders().filter_map(|sender| places[sender.index()]);
        let column = senders().map(|(column, _)| column + 1).max().unwrap_or(0);
        // As high as its first sender, or the next free row below.
        let wanted = senders().map(|(_, row)| row).min().unwrap_or(0);
        used.resize(used.len().max(column + 1), Vec::new());
        let rows = &mut used[column];
        let row = (wanted..).find(|&row| !rows.get(row).copied().unwrap_or(false)).unwrap_or(wanted);
        rows.resize(rows.len().max(row + 1), false);
        rows[row] = true;
        places[index] = Some((column, row));
    }
    places
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kinds, MachineCounts, NetworkText};
    use std::collections::BTreeSet;

    #[test]
    fn boxes_stand_behind_their_senders_and_on_places_of_their_own() {
        let text = "box n = numbers(to: 30); box odd = filter(where: \"n % 2 < 1\") * 4; box a = sink; box b = sink;
                    n -> odd -> a; n -> b;";
        let text: NetworkText = text.parse().unwrap();
        let network = text.build("a < b", &Kinds::library(), &MachineCounts::default(), &[]).unwrap();
        let places = places(&network);
        let own: Vec<(usize, usize)> = places.iter().flatten().copied().collect();
        assert_eq!(own.len(), network.model.boxes().len() - 2);
        assert_eq!(own.iter().collect::<BTreeSet<_>>().len(), own.len());
        let mut vias = 0;
        for (index, one) in network.model.boxes().iter().enumerate() {
            for sender in one.senders() {
                if let (Some(from), Some(to)) = (places[sender.index()], places[index]) {
                    assert!(from.0 < to.0, "{} stands before {}", network.names[sender.index()], network.names[index]);
                    vias += 1;
                }
            }
        }
        let picture = svg(&network);
        assert_eq!(picture.matches("<path ").count(), vias);
        assert_eq!(picture.matches("<rect ").count(), own.len());
        assert!(picture.contains("<title>a &lt; b</title>") && !picture.contains("a < b"));
    }
}
