//! The heat map: a panel for each strategy, in it a row for each machine and a field for each workload, with the ratio
//! as its colour.

use super::super::svg::{document, escaped, styled, text, text_width, wrapped};
use std::fmt::Write;
use vicus_sim::grid::GridReport;

const WIDTH: f64 = 40.0;
const HEIGHT: f64 = 15.0;
const LEFT: f64 = 16.0;
/// The height of a panel's title.
const TITLE: f64 = 22.0;
const GAP: f64 = 28.0;
/// The number of panels side by side.
const ACROSS: usize = 2;
/// This ratio, and its inverse, have the strongest colours.
const STRONGEST: f64 = 2.0;

pub(super) fn render(report: &GridReport) -> String {
    let columns = report.workloads.len();
    // Two of them may have the same name.
    let firsts = report.cells.iter().step_by((columns * report.strategies.len()).max(1));
    let machines: Vec<&str> = firsts.map(|cell| cell.machine.as_str()).collect();
    let rows = machines.len();
    let longest = |names: &mut dyn Iterator<Item = f64>| names.fold(text_width("name"), f64::max) + 12.0;
    let names = longest(&mut machines.iter().map(|name| text_width(name)));
    let labels = longest(&mut report.workloads.iter().map(|(name, _)| text_width(name)));
    let (width, height) = (names + columns as f64 * WIDTH + GAP, TITLE + rows as f64 * HEIGHT + GAP);
    let across = report.strategies.len().min(ACROSS) as f64;
    let page = (LEFT + across * width).max(700.0);
    let (mut body, mut y) = (String::new(), 8.0);
    for line in super::heading(report).lines().flat_map(|line| wrapped(line, page - 2.0 * LEFT)) {
        y += 16.0;
        text(&mut body, LEFT, y, &line);
    }
    y += legend(&mut body, y + 10.0) + 10.0;
    // The names of columns, once for all panels below.
    for panel in 0..report.strategies.len().min(ACROSS) {
        let left = LEFT + panel as f64 * width + names;
        for (column, (name, _)) in report.workloads.iter().enumerate() {
            upwards(&mut body, left + (column as f64 + 0.7) * WIDTH, y + labels, name);
        }
    }
    y += labels;
    for (at, strategy) in report.strategies.iter().enumerate() {
        let (left, top) = (LEFT + (at % ACROSS) as f64 * width, y + (at / ACROSS) as f64 * height);
        styled(&mut body, left, top + 16.0, "font-weight=\"bold\"", strategy);
        let first = top + TITLE;
        for (row, machine) in machines.iter().enumerate() {
            text(&mut body, left, first + (row + 1) as f64 * HEIGHT - 3.0, machine);
        }
        for (number, cells) in report.cells.chunks(report.strategies.len()).enumerate() {
            let (row, column) = (number / columns, number % columns);
            let (x, y) = (left + names + column as f64 * WIDTH, first + row as f64 * HEIGHT);
            let cell = &cells[at];
            let about = format!("{} on {}: {:.3} ms, {:.3}", cell.workload, cell.machine, cell.ms, cell.ratio);
            writeln!(
                body,
                "<rect class=\"cell\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                    fill=\"{}\"><title>{}</title></rect>",
                WIDTH - 1.0,
                HEIGHT - 1.0,
                colour(cell.ratio),
                escaped(&about)
            )
            .expect("a string takes everything");
            text(&mut body, x + 5.0, y + HEIGHT - 4.0, &shown(cell.ratio));
        }
    }
    let down = report.strategies.len().div_ceil(ACROSS) as f64;
    document(page, y + down * height, &body)
}

/// Three digits.
fn shown(ratio: f64) -> String {
    match ratio {
        ratio if ratio < 9.995 => format!("{ratio:.2}"),
        ratio if ratio < 99.95 => format!("{ratio:.1}"),
        ratio => format!("{ratio:.0}"),
    }
}

/// Blue below 1, white at 1, orange above, by the logarithm: those who can't tell red from green can tell these apart.
fn colour(ratio: f64) -> String {
    let part = (ratio.ln() / STRONGEST.ln()).clamp(-1.0, 1.0);
    let mix = |full: f64| (255.0 + part.abs() * (full - 255.0)).round() as u8;
    let [red, green, blue] = if part < 0.0 { [70.0, 140.0, 215.0] } else { [235.0, 145.0, 40.0] }.map(mix);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// The legend; returns its height.
fn legend(body: &mut String, y: f64) -> f64 {
    for (at, ratio) in [0.5, 0.7, 0.9, 1.0, 1.03, 1.1, 1.3, 1.6, 2.0].into_iter().enumerate() {
        let x = LEFT + at as f64 * WIDTH;
        writeln!(
            body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{WIDTH:.1}\" height=\"{HEIGHT:.1}\" fill=\"{}\"/>",
            colour(ratio)
        )
        .expect("a string takes everything");
        text(body, x + 5.0, y + HEIGHT - 4.0, &shown(ratio));
    }
    HEIGHT + 10.0
}

/// A name written upwards.
fn upwards(body: &mut String, x: f64, y: f64, name: &str) {
    writeln!(body, "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\">{}</text>", escaped(name))
        .expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_go_from_blue_over_white_to_orange() {
        assert_eq!(["#468cd7", "#ffffff", "#eb9128"], [0.5, 1.0, 2.0].map(colour).each_ref().map(String::as_str));
        assert_eq!((colour(0.1), colour(50.0)), (colour(0.5), colour(2.0)));
        assert_eq!([0.987, 12.34, 123.4].map(shown), ["0.99", "12.3", "123"]);
    }
}
