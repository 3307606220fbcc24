//! Bar plots: a group of bars for each kernel or machine, a colour for each thing compared. A bar's height is the
//! normalised time; the paper's claims stand beside it.

use super::super::svg::{document, escaped, round_steps, styled, text, text_width, wrapped};
use std::fmt::Write;
use vicus_sim::papers::{FigureReport, Row, Verdict};

const BAR: f64 = 14.0;
/// Between bars of a group.
const BESIDE: f64 = 1.0;
const GAP: f64 = 20.0;
const LEFT: f64 = 64.0;
/// The width of plots, legends and notes.
const WIDTH: f64 = 620.0;
/// The place and width of the claims.
const CLAIMS: f64 = LEFT + WIDTH + 36.0;
const CLAIMS_WIDTH: f64 = 330.0;
const HEIGHT: f64 = 150.0;
/// The height of a line of text.
const LINE: f64 = 16.0;
/// How much larger than its text a bar's name is, with the square before it.
const SWATCH: f64 = 30.0;

/// Okabe and Ito, "Color universal design", 2008: told apart with every kind of colour vision, and in print.
const COLOURS: [&str; 7] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999"];

/// All figures, one below the other.
pub(super) fn render(reports: &[FigureReport]) -> String {
    let (mut body, mut y) = (String::new(), 8.0);
    for (at, report) in reports.iter().enumerate() {
        let figure = Figure::new(report, at);
        let end = figure.plot(&mut body, y);
        let claims = claims(&mut body, &report.verdicts, y + LINE);
        y = end.max(claims) + LINE;
    }
    document(CLAIMS + CLAIMS_WIDTH + 16.0, y, &body)
}

struct Figure<'a> {
    report: &'a FigureReport,
    /// The place of the figure among the document's, which tells its patterns from those of others.
    number: usize,
    /// The names of bars, each once.
    labels: Vec<&'a str>,
    /// The end of the axis, and the distance of its ticks.
    highest: f64,
    step: f64,
}

/// The bars of a kernel or a machine.
struct Group<'a> {
    name: &'a str,
    rows: Vec<&'a Row>,
}

impl Group<'_> {
    fn bars(&self) -> f64 {
        self.rows.len() as f64 * (BAR + BESIDE) - BESIDE
    }

    fn width(&self) -> f64 {
        self.bars().max(text_width(self.name)) + GAP
    }
}

impl<'a> Figure<'a> {
    fn new(report: &'a FigureReport, number: usize) -> Figure<'a> {
        let mut labels: Vec<&str> = Vec::new();
        for row in &report.rows {
            if !labels.contains(&row.label.as_str()) {
                labels.push(&row.label);
            }
        }
        let most = report.rows.iter().map(|row| row.normalised.max(row.spread[3])).fold(1.0, f64::max);
        let step = round_steps(most, 6.0);
        Figure { report, number, labels, highest: (most / step).ceil() * step, step }
    }

    /// Draws title, legend and bars from `y` on; returns the end.
    fn plot(&self, body: &mut String, mut y: f64) -> f64 {
        let report = self.report;
        patterns(body, self.number, self.labels.len());
        for line in wrapped(&format!("{}: {}", report.id, report.title), WIDTH) {
            y += LINE;
            styled(body, LEFT, y, "font-weight=\"bold\"", &line);
        }
        y = self.legend(body, y + 8.0) + 10.0;
        for row in self.rows() {
            y = self.bars(body, &row, y);
        }
        let notes = format!("{}; seed {}. {}", report.parameters, report.seed, report.source);
        for line in wrapped(&notes, WIDTH) {
            y += LINE;
            styled(body, LEFT, y, "fill=\"#555555\"", &line);
        }
        y
    }

    /// The groups, as many beside each other as the width has room for.
    fn rows(&self) -> Vec<Vec<Group<'a>>> {
        let mut groups: Vec<Group<'a>> = Vec::new();
        for row in &self.report.rows {
            match groups.last_mut() {
                Some(group) if group.name == row.group => group.rows.push(row),
                _ => groups.push(Group { name: &row.group, rows: vec![row] }),
            }
        }
        let mut rows: Vec<(f64, Vec<Group<'a>>)> = Vec::new();
        for group in groups {
            let width = group.width();
            match rows.last_mut() {
                Some((used, row)) if *used + width <= WIDTH + GAP => {
                    *used += width;
                    row.push(group);
                }
                _ => rows.push((width, vec![group])),
            }
        }
        rows.into_iter().map(|(_, row)| row).collect()
    }

    fn fill(&self, label: &str) -> String {
        let place = self.labels.iter().position(|own| *own == label).expect("each label is kept");
        fill(self.number, place)
    }

    /// A square and a name for each colour, in lines.
    fn legend(&self, body: &mut String, y: f64) -> f64 {
        let (mut x, mut y) = (LEFT, y + LINE);
        for label in &self.labels {
            let width = text_width(label) + SWATCH;
            if x > LEFT && x + width > LEFT + WIDTH {
                (x, y) = (LEFT, y + LINE);
            }
            rectangle(body, "key", [x, y - 10.0, 11.0, 11.0], &self.fill(label), "");
            text(body, x + 15.0, y, label);
            x += width;
        }
        y
    }

    /// A row of groups with its axes.
    fn bars(&self, body: &mut String, groups: &[Group<'_>], top: f64) -> f64 {
        let base = top + HEIGHT;
        let scale = |value: f64| value / self.highest * HEIGHT;
        let right = LEFT + groups.iter().map(Group::width).sum::<f64>() - GAP + 16.0;
        // Behind the bars, so that these stay whole.
        let ticks = (self.highest / self.step).round() as usize;
        let digits = if self.step >= 1.0 { 0 } else { (-self.step.log10()).ceil() as usize };
        for tick in 0..=ticks {
            let value = tick as f64 * self.step;
            let at = base - scale(value);
            line(body, [LEFT, at, right, at], if tick == 0 { "black" } else { "#dddddd" }, "");
            styled(body, LEFT - 6.0, at + 4.0, "text-anchor=\"end\"", &format!("{value:.digits$}"));
        }
        let one = base - scale(1.0);
        line(body, [LEFT, one, right, one], "#555555", " stroke-dasharray=\"4 3\"");
        line(body, [LEFT, top, LEFT, base], "black", "");
        let (x, middle) = (14.0, top + HEIGHT / 2.0);
        let axis = format!("text-anchor=\"middle\" transform=\"rotate(-90 {x:.1} {middle:.1})\"");
        styled(body, x, middle, &axis, &axis_title(&self.report.baseline));
        let mut x = LEFT + 8.0;
        for group in groups {
            let room = group.width() - GAP;
            let mut from = x + (room - group.bars()) / 2.0;
            for row in &group.rows {
                self.bar(body, row, from, base, &scale);
                from += BAR + BESIDE;
            }
            styled(body, x + room / 2.0, base + LINE, "text-anchor=\"middle\"", group.name);
            x += group.width();
        }
        base + 2.0 * LINE
    }

    /// A bar, and a line from 5 % to 95 % of its seeds.
    fn bar(&self, body: &mut String, row: &Row, x: f64, base: f64, scale: &impl Fn(f64) -> f64) {
        let height = scale(row.normalised);
        let about = format!("{}, {}: {:.3}, {:.3} ms", row.group, row.label, row.normalised, row.ms);
        rectangle(body, "bar", [x, base - height, BAR, height], &self.fill(&row.label), &about);
        let (middle, [from, .., to]) = (x + BAR / 2.0, row.spread);
        if to > from {
            line(body, [middle, base - scale(from), middle, base - scale(to)], "black", "");
        }
    }
}

/// The vertical axis's name, as short as its height asks for.
fn axis_title(baseline: &str) -> String {
    let long = format!("time / {baseline}'s");
    if text_width(&long) <= HEIGHT + 2.0 * LINE { long } else { "normalised time".to_owned() }
}

/// The fill of the n-th thing compared: a colour, from the eighth on with lines on it.
fn fill(figure: usize, place: usize) -> String {
    match place.checked_sub(COLOURS.len()) {
        None => COLOURS[place].to_owned(),
        Some(more) => format!("url(#f{figure}p{more})"),
    }
}

/// The fills with lines: each colour with lines of one direction, then of the next one.
fn patterns(body: &mut String, figure: usize, labels: usize) {
    for more in 0..labels.saturating_sub(COLOURS.len()) {
        let (colour, turn) = (COLOURS[more % COLOURS.len()], 45 * (1 + more / COLOURS.len()));
        writeln!(
            body,
            "<pattern id=\"f{figure}p{more}\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" \
                patternTransform=\"rotate({turn})\"><rect width=\"5\" height=\"5\" fill=\"{colour}\"/><rect \
                width=\"2\" height=\"5\" fill=\"white\"/></pattern>"
        )
        .expect("a string takes everything");
    }
}

/// The paper's claims, a paragraph each; returns the end.
fn claims(body: &mut String, verdicts: &[Verdict], y: f64) -> f64 {
    let mut y = y;
    body.push_str("<g class=\"claims\">\n");
    styled(body, CLAIMS, y, "font-weight=\"bold\"", "Claims of the paper");
    for verdict in verdicts {
        y += 4.0;
        let (mark, colour) = match (verdict.holds, &verdict.by_construction) {
            (true, Some(_)) => ("given", "#555555"),
            (true, None) => ("holds", "#0072b2"),
            (false, _) => ("does not hold", "#d55e00"),
        };
        y += LINE;
        styled(body, CLAIMS, y, &format!("fill=\"{colour}\" font-weight=\"bold\""), mark);
        for line in wrapped(&format!("{} ({:.3})", verdict.claim, verdict.value), CLAIMS_WIDTH) {
            y += LINE;
            text(body, CLAIMS, y, &line);
        }
    }
    body.push_str("</g>\n");
    y
}

fn rectangle(body: &mut String, class: &str, [x, y, width, height]: [f64; 4], fill: &str, about: &str) {
    let about = if about.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(about)) };
    writeln!(
        body,
        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.2}\" width=\"{width:.1}\" height=\"{height:.2}\" \
            fill=\"{fill}\">{about}</rect>"
    )
    .expect("a string takes everything");
}

fn line(body: &mut String, [x1, y1, x2, y2]: [f64; 4], colour: &str, more: &str) {
    writeln!(body, "<line x1=\"{x1:.1}\" y1=\"{y1:.2}\" x2=\"{x2:.1}\" y2=\"{y2:.2}\" stroke=\"{colour}\"{more}/>")
        .expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_sim::papers::{Effort, FIGURES, serially};

    /// The numbers of an attribute of elements of a class.
    fn numbers(picture: &str, class: &str, name: &str) -> Vec<f64> {
        let own = picture.lines().filter(|line| line.contains(&format!("class=\"{class}\"")));
        own.map(|line| line.split(&format!(" {name}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect()
    }

    /// Nothing of two figures lies outside of the picture or under a claim.
    #[test]
    fn a_figure_has_a_bar_for_each_row_and_a_key_for_each_name() {
        let kept: Vec<FigureReport> = FIGURES
            .iter()
            .filter(|(id, _)| ["muddukrishna-fig11", "wittmann-fig3"].contains(id))
            .map(|(_, figure)| figure().evaluate(&Effort::small(), serially).unwrap())
            .collect();
        let picture = render(&kept);
        let rows: usize = kept.iter().map(|report| report.rows.len()).sum();
        let (x, width) = (numbers(&picture, "bar", "x"), numbers(&picture, "bar", "width"));
        assert_eq!(x.len(), rows);
        assert!(x.iter().zip(&width).all(|(x, width)| *x >= LEFT && x + width <= CLAIMS), "{x:?}");
        let names: usize = kept.iter().enumerate().map(|(at, report)| Figure::new(report, at).labels.len()).sum();
        assert_eq!(numbers(&picture, "key", "x").len(), names);
        // The highest bar ends below the axis's end, and heights go with the figures.
        let heights = numbers(&picture, "bar", "height");
        let most = kept.iter().flat_map(|report| &report.rows).map(|row| row.normalised).fold(0.0, f64::max);
        assert!(heights.iter().all(|height| *height <= HEIGHT) && most > 0.0);
        for report in &kept {
            assert!(picture.contains(&escaped(&report.id)) && picture.contains("Claims of the paper"));
        }
        assert!(!picture.contains("NaN"));
    }

    #[test]
    fn many_names_have_fills_of_their_own() {
        let fills: std::collections::BTreeSet<String> = (0..25).map(|place| fill(0, place)).collect();
        assert_eq!(fills.len(), 25);
        let mut body = String::new();
        patterns(&mut body, 0, 25);
        assert_eq!(body.matches("<pattern").count(), 25 - COLOURS.len());
    }
}
