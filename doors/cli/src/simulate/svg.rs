//! Time lines: a row for each thread, a bar for each task, whose colour is its memory latency.
//!
//! After Muddukrishna et al., Figs. 8 and 10: green is a low latency, blue a high one; all pictures of one document have the same
//! time axis and the same colours.

use std::fmt::Write;
use vicus_sim::{Outcome, TaskRecord};

/// The height of a thread's row.
const ROW: f64 = 8.0;
/// The width of the time axis.
const WIDTH: f64 = 900.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 34.0;
/// Bars that are narrower can't be seen.
const THINNEST: f64 = 0.1;

/// The pictures as an XML document.
pub(super) fn render(runs: &[Outcome]) -> String {
    let in_measure = |run: &Outcome, task: &TaskRecord| task.end_ns > run.start_ns && task.end_ns > task.start_ns;
    let longest = runs.iter().map(|run| run.wall_ns).fold(1.0, f64::max);
    let latencies: Vec<f64> = runs
        .iter()
        .flat_map(|run| run.tasks.iter().filter(|task| in_measure(run, task)).map(|task| task.latency_ns))
        .filter(|latency| *latency > 0.0)
        .collect();
    let low = latencies.iter().copied().fold(f64::INFINITY, f64::min);
    let high = latencies.iter().copied().fold(0.0, f64::max);
    let (mut body, mut y) = (String::new(), 0.0);
    for run in runs {
        let title = format!("{} on {} under {}: {:.3} ms", run.program, run.machine, run.strategy, run.wall_ns / 1e6);
        text(&mut body, LEFT, y + 16.0, &title);
        for task in run.tasks.iter().filter(|task| in_measure(run, task)) {
            let x = |time: f64| (time - run.start_ns).max(0.0) / longest * WIDTH;
            let (from, to) = (x(task.start_ns), x(task.end_ns));
            if to - from >= THINNEST {
                writeln!(
                    body,
                    "<rect x=\"{:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{}\" fill=\"{}\"><title>thread {}, {:.1} us, {:.0} ns for a line</title></rect>",
                    LEFT + from,
                    y + TOP + f64::from(task.seat) * ROW,
                    to - from,
                    ROW - 1.0,
                    colour(task.latency_ns, low, high),
                    task.seat,
                    (task.end_ns - task.start_ns) / 1e3,
                    task.latency_ns
                )
                .expect("a string takes everything");
            }
        }
        y += TOP + run.threads as f64 * ROW + 16.0;
    }
    if high > 0.0 {
        text(
            &mut body,
            LEFT,
            y + 12.0,
            &format!("green: {low:.0} ns for a line of memory; blue: {high:.0} ns; grey: none"),
        );
        y += 24.0;
    }
    document(LEFT + WIDTH + 20.0, y, &body)
}

/// A document of this size.
pub(super) fn document(width: f64, height: f64, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

/// A line of text.
pub(super) fn text(body: &mut String, x: f64, y: f64, what: &str) {
    let what = what.replace('&', "&amp;").replace('<', "&lt;");
    writeln!(body, "<text x=\"{x}\" y=\"{y}\">{what}</text>").expect("a string takes everything");
}

/// From green, the lowest latency, to blue, the highest; grey is a task without memory.
fn colour(latency: f64, low: f64, high: f64) -> String {
    if latency <= 0.0 {
        return "#bbbbbb".to_owned();
    }
    let part = if high > low { (latency - low) / (high - low) } else { 0.0 };
    let mix = |green: f64, blue: f64| (green + part * (blue - green)).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(120.0, 20.0), mix(200.0, 60.0), mix(80.0, 160.0))
}
