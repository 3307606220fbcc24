//! Bar plots: a group of bars for each kernel or machine. A bar's height is the normalised time.

use super::super::svg::{document, text};
use std::fmt::Write;
use vicus_sim::papers::{Report, Row};

const BAR: f64 = 16.0;
const GAP: f64 = 24.0;
const LEFT: f64 = 60.0;
const HEIGHT: f64 = 160.0;
/// The height of a line of text.
const LINE: f64 = 16.0;
/// The height of the bars' names below the axis, written upwards.
const NAMES: f64 = 190.0;

const COLOURS: [&str; 6] = ["#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377"];

/// All plots, one below the other, each with the paper's claims.
pub(super) fn render(reports: &[Report]) -> String {
    let (mut body, mut y, mut width) = (String::new(), 0.0, 900.0_f64);
    for report in reports {
        let (bottom, right) = figure(&mut body, report, y);
        (y, width) = (bottom, width.max(right));
    }
    document(width, y, &body)
}

fn groups(report: &Report) -> Vec<(&str, Vec<&Row>)> {
    let mut groups: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in &report.rows {
        match groups.last_mut() {
            Some((name, rows)) if *name == row.group => rows.push(row),
            _ => groups.push((&row.group, vec![row])),
        }
    }
    groups
}

/// Draws a figure from `y` on; returns its end.
fn figure(body: &mut String, report: &Report, y: f64) -> (f64, f64) {
    text(body, LEFT, y + LINE, &format!("{}: {}", report.id, report.title));
    let note = format!("time divided by that of {}; {}, seed {}", report.baseline, report.parameters, report.seed);
    text(body, LEFT, y + 2.0 * LINE, &note);
    let base = y + 3.0 * LINE + HEIGHT;
    let highest = report.rows.iter().map(|row| row.normalised.max(row.spread[3])).fold(1.0, f64::max);
    let scale = |value: f64| value / highest * HEIGHT;
    let mut x = LEFT;
    for (name, rows) in groups(report) {
        let from = x;
        for (at, row) in rows.iter().enumerate() {
            bar(body, row, x, base, COLOURS[at % COLOURS.len()], &scale);
            x += BAR;
        }
        text(body, from, base + NAMES, name);
        x += GAP;
    }
    for value in [0.0, 1.0, highest] {
        let at = base - scale(value);
        line(body, [LEFT - 4.0, at, x - GAP + 4.0, at], "#888888");
        text(body, LEFT - 44.0, at + 4.0, &format!("{value:.2}"));
    }
    let mut end = base + NAMES + LINE;
    for verdict in &report.verdicts {
        let holds = match (verdict.holds, &verdict.by_construction) {
            (true, Some(_)) => "by construction",
            (true, None) => "holds",
            (false, _) => "does not hold",
        };
        text(body, LEFT, end, &format!("{holds} ({:.3}): {}", verdict.value, verdict.claim));
        end += LINE;
    }
    (end + LINE, x + LEFT)
}

/// A bar, its name below it, and a line from 5 % to 95 % of its seeds.
fn bar(body: &mut String, row: &Row, x: f64, base: f64, colour: &str, scale: &impl Fn(f64) -> f64) {
    let height = scale(row.normalised);
    writeln!(
        body,
        "<rect x=\"{x:.1}\" y=\"{:.2}\" width=\"{:.1}\" height=\"{height:.2}\" fill=\"{colour}\"><title>{}, {}: {:.3} \
            ms</title></rect>",
        base - height,
        BAR - 3.0,
        row.group,
        row.label,
        row.ms
    )
    .expect("a string takes everything");
    let (middle, [from, .., to]) = (x + (BAR - 3.0) / 2.0, row.spread);
    if to > from {
        line(body, [middle, base - scale(from), middle, base - scale(to)], "black");
    }
    let (x, y) = (middle + 4.0, base + 6.0);
    writeln!(
        body,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" transform=\"rotate(-90 {x:.1} {y:.1})\" text-anchor=\"end\">{}</text>",
        row.label
    )
    .expect("a string takes everything");
}

fn line(body: &mut String, [x1, y1, x2, y2]: [f64; 4], colour: &str) {
    writeln!(body, "<line x1=\"{x1:.1}\" y1=\"{y1:.2}\" x2=\"{x2:.1}\" y2=\"{y2:.2}\" stroke=\"{colour}\"/>")
        .expect("a string takes everything");
}
