//! The figures of all sides as a table for people and as JSON.

use serde_json::{Value, json};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Better {
    Higher,
    Lower,
}

struct Row {
    name: String,
    unit: &'static str,
    better: Better,
    /// For each side, a figure of each round.
    values: Vec<Vec<f64>>,
}

/// Figures, and what is to be said about them.
pub(crate) struct Figures {
    sides: Vec<&'static str>,
    rows: Vec<Row>,
    notes: Vec<String>,
}

impl Figures {
    pub(crate) fn new(sides: Vec<&'static str>) -> Figures {
        Figures { sides, rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a side's figure of one round.
    pub(crate) fn add(&mut self, name: &str, unit: &'static str, better: Better, side: usize, value: f64) {
        let place = self.rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            let values = vec![Vec::new(); self.sides.len()];
            self.rows.push(Row { name: name.to_owned(), unit, better, values });
            self.rows.len() - 1
        });
        self.rows[place].values[side].push(value);
    }

    pub(crate) fn note(&mut self, note: String) {
        eprintln!("{note}");
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The best of the sides that are not ours, and its place.
    fn best_peer(&self, row: &Row) -> Option<(usize, f64)> {
        let peers = self.sides.iter().enumerate().filter(|(_, name)| !is_ours(name));
        let values = peers.filter_map(|(place, _)| Some((place, median(&row.values[place])?)));
        values.reduce(|one, other| {
            let other_is_better = match row.better {
                Better::Higher => other.1 > one.1,
                Better::Lower => other.1 < one.1,
            };
            if other_is_better { other } else { one }
        })
    }

    /// Prints a line for each figure, with the ratios of ours to the best peer's; and the notes.
    pub(crate) fn print(&self) {
        print!("\n{:<34} {:<10}", "medians of the rounds", "unit");
        for side in &self.sides {
            print!(" {side:>12}");
        }
        for side in self.sides.iter().filter(|side| is_ours(side)) {
            print!(" {:>17}", format!("{side} ratio"));
        }
        println!();
        for row in &self.rows {
            print!("{:<34} {:<10}", row.name, row.unit);
            for values in &row.values {
                print!(" {:>12}", median(values).map_or_else(|| "-".to_owned(), shown));
            }
            let best = self.best_peer(row);
            for (side, values) in self.sides.iter().zip(&row.values).filter(|(side, _)| is_ours(side)) {
                let width = side.len().max(11) + 6;
                let ratio = median(values).zip(best).map(|(ours, (_, theirs))| ours / theirs);
                let ratio = ratio.filter(|ratio| ratio.is_finite());
                print!(" {:>width$}", ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")));
            }
            println!();
        }
        println!(
            "\nratios are to the best peer's figure; of rates and sizes in time more is better, of times and memory \
                less"
        );
        for note in &self.notes {
            println!("{note}");
        }
    }

    /// An object for each figure and peer, in the form of the other benches.
    pub(crate) fn json(&self) -> Vec<Value> {
        let mut objects = Vec::new();
        for row in &self.rows {
            for (ours, values) in self.sides.iter().zip(&row.values).filter(|(side, _)| is_ours(side)) {
                let mine = median(values);
                let peers = self.sides.iter().zip(&row.values).filter(|(side, _)| !is_ours(side));
                let mut peers: Vec<(Option<&str>, Option<f64>)> =
                    peers.map(|(side, values)| (Some(*side), median(values))).collect();
                if peers.is_empty() {
                    peers.push((None, None));
                }
                for (peer, theirs) in peers {
                    let ratio = mine.zip(theirs).map(|(mine, theirs)| mine / theirs).filter(|ratio| ratio.is_finite());
                    objects.push(json!({
                        "name": row.name, "unit": row.unit, "side": ours, "ours": mine, "peer": peer, "theirs": theirs,
                        "ratio": ratio,
                        "better": if row.better == Better::Higher { "higher" } else { "lower" },
                    }));
                }
            }
        }
        objects
    }
}

fn is_ours(side: &str) -> bool {
    side.starts_with("vicus")
}

fn shown(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// The median of those that were measured.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let measured: Vec<f64> = samples.iter().copied().filter(|sample| !sample.is_nan()).collect();
    (!measured.is_empty()).then(|| vicus_testing::median(&measured))
}
