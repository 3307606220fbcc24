//! The results as a table for people and as JSON.

use crate::peer::Side;
use serde_json::{Value, json};
use vicus_testing::median;

/// One query on one side.
#[derive(Default)]
pub struct Measured {
    /// Milliseconds.
    pub times: Vec<f64>,
    pub rows: Option<u64>,
    /// The sum of the hashes of the rows, where it was asked for.
    pub sum: Option<u64>,
    /// Why the measurement ended early.
    pub ended: Option<Ended>,
}

pub enum Ended {
    /// A run exceeded the limit.
    Cut,
    Failed(String),
}

/// A peer's result compared with Vicus'.
enum Beside {
    /// Vicus' time divided by the peer's.
    Ratio(f64),
    /// One of the two exceeded the limit.
    Cut,
    /// The numbers of rows differ: Vicus' and the peer's.
    Differs(u64, u64),
    /// As many rows, but others.
    OtherTerms,
    Failed(String),
}

impl Measured {
    fn answer(&self) -> Result<(f64, u64), &Ended> {
        match (&self.ended, self.rows) {
            (None, Some(rows)) => Ok((median(&self.times), rows)),
            (ended, _) => Err(ended.as_ref().unwrap_or(&Ended::Cut)),
        }
    }

    fn beside(&self, ours: &Measured) -> Beside {
        match (ours.answer(), self.answer()) {
            (Ok((_, rows)), Ok((_, other))) if rows == other && self.has_other_terms(ours) => Beside::OtherTerms,
            (Ok((mine, rows)), Ok((theirs, other))) if rows == other => Beside::Ratio(mine / theirs),
            (Ok((_, rows)), Ok((_, other))) => Beside::Differs(rows, other),
            (_, Err(Ended::Failed(error))) | (Err(Ended::Failed(error)), _) => Beside::Failed(error.clone()),
            _ => Beside::Cut,
        }
    }

    fn has_other_terms(&self, ours: &Measured) -> bool {
        ours.sum.zip(self.sum).is_some_and(|(mine, theirs)| mine != theirs)
    }

    /// The median of the times, if it was answered.
    pub fn ms(&self) -> Option<f64> {
        self.answer().ok().map(|(ms, _)| ms)
    }

    /// The text for a column of the table.
    fn shown(&self) -> String {
        match self.answer() {
            Ok((ms, _)) => format!("{ms:.2}"),
            Err(Ended::Cut) => "cut".to_owned(),
            Err(Ended::Failed(_)) => "failed".to_owned(),
        }
    }
}

/// Prints the names of the columns.
pub fn print_head(sides: &[Side]) {
    print!("{:<20} {:>10} {:>11}", "query", "rows", "vicus ms");
    for side in &sides[1..] {
        print!(" {:>13}   ratio", format!("{} ms", side.name));
    }
    println!();
}

/// Prints how long loading took.
pub fn print_loads(sides: &[Side]) {
    let (vicus, peers) = sides.split_first().expect("vicus is always there");
    print!("{:<20} {:>10} {:>11.2}", "load", vicus.triples, vicus.load_ms);
    for peer in peers {
        print!(" {:>13.2} {:>7.4}", peer.load_ms, vicus.load_ms / peer.load_ms);
    }
    println!();
    for peer in peers.iter().filter(|peer| peer.triples != vicus.triples) {
        println!("       {} has {} triples", peer.name, peer.triples);
    }
}

/// Prints what a query took.
pub fn print_line(name: &str, measured: &[Measured]) {
    let (ours, others) = measured.split_first().expect("vicus is always there");
    let rows = ours.rows.map_or_else(|| "?".to_owned(), |rows| rows.to_string());
    print!("{name:<20} {rows:>10} {:>11}", ours.shown());
    for other in others {
        let ratio = match other.beside(ours) {
            Beside::Ratio(ratio) => format!("{ratio:.4}"),
            Beside::Differs(..) | Beside::OtherTerms => "differs".to_owned(),
            Beside::Cut | Beside::Failed(_) => "-".to_owned(),
        };
        print!(" {:>13} {ratio:>7}", other.shown());
    }
    println!();
}

/// Prints the geometric mean for each peer, and unexpected outcomes. Whether all results are alike, as far as sides
/// answered.
pub fn print_end(sides: &[Side], results: &[(String, Vec<Measured>)]) -> bool {
    println!("\ngeometric means of the ratios, over the queries that both answered within the limit and alike:");
    for (place, side) in sides.iter().enumerate().skip(1) {
        let ratios: Vec<f64> = results
            .iter()
            .filter_map(|(_, measured)| match measured[place].beside(&measured[0]) {
                Beside::Ratio(ratio) => Some(ratio),
                _ => None,
            })
            .collect();
        println!("  {:9} {}  ({} of {} queries)", side.name, shown_mean(&ratios), ratios.len(), results.len());
    }
    let mut alike = true;
    for (name, measured) in results {
        if let Err(Ended::Failed(error)) = measured[0].answer() {
            println!("{name}: vicus failed: {error}");
            alike = false;
            continue;
        }
        for (side, measured_here) in sides.iter().zip(measured).skip(1) {
            match measured_here.beside(&measured[0]) {
                Beside::Differs(ours, theirs) => {
                    println!("{name}: the results differ: {ours} rows from vicus, {theirs} from {}", side.name);
                    alike = false;
                }
                Beside::OtherTerms => {
                    println!("{name}: the terms of vicus and of {} differ", side.name);
                    alike = false;
                }
                Beside::Failed(error) => println!("{name}: {} failed: {error}", side.name),
                Beside::Ratio(_) | Beside::Cut => {}
            }
        }
    }
    alike
}

fn shown_mean(ratios: &[f64]) -> String {
    if ratios.is_empty() {
        return "-".to_owned();
    }
    let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    format!("{:.4}", (logs / ratios.len() as f64).exp())
}

/// The objects of `vicus bench --json`, with null for missing numbers, and with `outcome`.
pub fn json(sides: &[Side], results: &[(String, Vec<Measured>)]) -> Vec<Value> {
    let mut lines = Vec::new();
    for side in &sides[1..] {
        let ours = sides[0].load_ms;
        lines.push(json!({
            "name": "load", "unit": "ms", "ours": ours, "peer": side.name, "theirs": side.load_ms,
            "ratio": ours / side.load_ms, "outcome": "answered",
        }));
    }
    lines.extend(json_of(sides, results));
    lines
}

/// The objects of the queries alone.
pub fn json_of(sides: &[Side], results: &[(String, Vec<Measured>)]) -> Vec<Value> {
    let mut lines = Vec::new();
    for (name, measured) in results {
        for (side, here) in sides.iter().zip(measured).skip(1) {
            let (ratio, outcome) = match here.beside(&measured[0]) {
                Beside::Ratio(ratio) => (Some(ratio), "answered"),
                Beside::Cut => (None, "cut"),
                Beside::Differs(..) | Beside::OtherTerms => (None, "differs"),
                Beside::Failed(_) => (None, "failed"),
            };
            lines.push(json!({
                "name": name, "unit": "ms", "ours": measured[0].ms(), "peer": side.name, "theirs": here.ms(),
                "ratio": ratio, "outcome": outcome,
            }));
        }
    }
    lines
}
