//! Time lines: a row for each thread and a bar for each task, with its memory latency as colour.
//!
//! After Muddukrishna et al., Figs. 8 and 10: green is a low latency, blue a high one. All pictures of a document have
//! the same time axis and colours. They show the measured part: tasks begun before it or ended after it are left out,
//! such as the program's first one.

use std::fmt::Write;
use vicus_sim::{SimOutcome, TaskRecord};

/// The height of a thread's row.
const ROW: f64 = 8.0;
/// The width of the time axis.
const WIDTH: f64 = 900.0;
const LEFT: f64 = 80.0;
const TOP: f64 = 34.0;
/// The height of the axis and its numbers below the rows.
const AXIS: f64 = 48.0;
/// Narrower bars are too thin to be seen.
const THINNEST: f64 = 0.1;
/// The number of colours in the legend.
const COLOURS: usize = 64;

/// The pictures as an XML document; the heading gives the settings.
pub(super) fn render(heading: &str, runs: &[SimOutcome]) -> String {
    let scale = Scale::of(runs);
    let (mut body, mut y) = (String::new(), 8.0);
    for line in heading.lines().flat_map(|line| wrapped(line, WIDTH)) {
        y += 16.0;
        text(&mut body, LEFT, y, &line);
    }
    for run in runs {
        let title = format!("{} on {} under {}: {:.3} ms", run.program, run.machine, run.strategy, run.wall_ns / 1e6);
        styled(&mut body, LEFT, y + 16.0 + 8.0, "font-weight=\"bold\"", &title);
        y += TOP;
        threads(&mut body, y, run.threads);
        for task in drawn(run, scale.longest_ns) {
            bar(&mut body, y, run, task, &scale);
        }
        y += run.threads as f64 * ROW;
        axis(&mut body, y, scale.longest_ns);
        y += AXIS;
    }
    y += legend(&mut body, y, &scale);
    document(LEFT + WIDTH + 60.0, y, &body)
}

/// Shared by all pictures of a document.
struct Scale {
    longest_ns: f64,
    /// The lowest and the highest latency drawn; `None` if no task waits for memory.
    latencies_ns: Option<(f64, f64)>,
}

impl Scale {
    fn of(runs: &[SimOutcome]) -> Scale {
        let longest_ns = runs.iter().map(|run| run.wall_ns).fold(1.0, f64::max);
        let drawn = runs.iter().flat_map(|run| drawn(run, longest_ns));
        let latencies = drawn.map(|task| task.latency_ns).filter(|latency| *latency > 0.0);
        let ends = latencies.fold(None, |ends, latency| {
            let (low, high) = ends.unwrap_or((latency, latency));
            Some((latency.min(low), latency.max(high)))
        });
        Scale { longest_ns, latencies_ns: ends }
    }

    /// From green for the lowest latency to blue for the highest; grey for a task without memory accesses.
    fn colour(&self, latency_ns: f64) -> String {
        match self.latencies_ns {
            Some((low, high)) if latency_ns > 0.0 => {
                mixed(if high > low { (latency_ns - low) / (high - low) } else { 0.0 })
            }
            _ => GREY.to_owned(),
        }
    }
}

const GREY: &str = "#bbbbbb";

/// The colour at this share of the way from green to blue.
fn mixed(part: f64) -> String {
    let mix = |green: f64, blue: f64| (green + part * (blue - green)).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(120.0, 20.0), mix(200.0, 60.0), mix(80.0, 160.0))
}

/// The tasks begun and ended in the measured part, and wide enough to be seen.
fn drawn(run: &SimOutcome, longest_ns: f64) -> impl Iterator<Item = &TaskRecord> {
    let (from, to) = (run.start_ns, run.start_ns + run.wall_ns);
    // The first task is the program's own; it waits for all others.
    run.tasks.iter().skip(1).filter(move |task| {
        let is_inside = task.start_ns >= from && task.end_ns <= to;
        is_inside && (task.end_ns - task.start_ns) / longest_ns * WIDTH >= THINNEST
    })
}

fn bar(body: &mut String, top: f64, run: &SimOutcome, task: &TaskRecord, scale: &Scale) {
    let x = |time_ns: f64| (time_ns - run.start_ns) / scale.longest_ns * WIDTH;
    let (from, to) = (x(task.start_ns), x(task.end_ns));
    writeln!(
        body,
        "<rect class=\"task\" x=\"{:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{}\" fill=\"{}\"><title>thread {}, \
            {:.1} us, {:.0} ns for a line</title></rect>",
        LEFT + from,
        top + f64::from(task.seat) * ROW,
        to - from,
        ROW - 1.0,
        scale.colour(task.latency_ns),
        task.seat,
        (task.end_ns - task.start_ns) / 1e3,
        task.latency_ns
    )
    .expect("a string takes everything");
}

/// The names of the first and the last thread.
fn threads(body: &mut String, top: f64, threads: usize) {
    let name = |body: &mut String, thread: usize| {
        text(body, 8.0, top + thread as f64 * ROW + ROW, &format!("thread {thread}"));
    };
    name(body, 0);
    if threads > 2 {
        name(body, threads - 1);
    }
}

/// A time axis with ticks at round times.
fn axis(body: &mut String, y: f64, longest_ns: f64) {
    let mut line = |x1: f64, y1: f64, x2: f64, y2: f64| {
        writeln!(body, "<line x1=\"{x1:.2}\" y1=\"{y1:.1}\" x2=\"{x2:.2}\" y2=\"{y2:.1}\" stroke=\"#888888\"/>")
            .expect("a string takes everything");
    };
    line(LEFT, y + 2.0, LEFT + WIDTH, y + 2.0);
    let ticks = ticks(longest_ns);
    let x = |time_ns: f64| LEFT + time_ns / longest_ns * WIDTH;
    ticks.iter().for_each(|&tick| line(x(tick), y + 2.0, x(tick), y + 7.0));
    for &tick in &ticks {
        styled(body, x(tick), y + 20.0, "text-anchor=\"middle\"", &(tick / 1e6).to_string());
    }
    styled(body, LEFT + WIDTH, y + 36.0, "text-anchor=\"end\"", "time (ms)");
}

/// Four to ten round times from 0 on: multiples of 1, 2 or 5 times a power of ten.
fn ticks(longest_ns: f64) -> Vec<f64> {
    let step = round_steps(longest_ns, 10.0);
    let count = (longest_ns / step) as usize;
    // Rounded to the step's own digits, so no label is 0.30000000000000004.
    (0..=count).map(|at| (at as f64 * step * 1e3).round() / 1e3).collect()
}

/// The least multiple of 1, 2 or 5 and a power of ten of which this length has at most so many.
pub(super) fn round_steps(length: f64, most: f64) -> f64 {
    let power = 10f64.powf((length / most).log10().ceil() - 1.0);
    let steps = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
    steps.into_iter().find(|step| length / step <= most).unwrap_or(10.0 * power)
}

/// The legend of the colours; returns its height.
fn legend(body: &mut String, y: f64, scale: &Scale) -> f64 {
    let Some((low, high)) = scale.latencies_ns else { return 0.0 };
    let width = 256.0 / COLOURS as f64;
    for at in 0..COLOURS {
        let part = at as f64 / (COLOURS - 1) as f64;
        let (x, colour) = (LEFT + at as f64 * width, mixed(part));
        writeln!(body, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"10\" fill=\"{colour}\"/>")
            .expect("a string takes everything");
    }
    text(body, LEFT, y + 24.0, &format!("{low:.0} ns"));
    text(body, LEFT + 226.0, y + 24.0, &format!("{high:.0} ns"));
    text(body, LEFT + 280.0, y + 10.0, "a task's wait for a line of memory (ns); grey: it used none");
    36.0
}

/// A document of this size.
pub(super) fn document(width: f64, height: f64, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 \
            {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" \
            height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

/// A line of text.
pub(super) fn text(body: &mut String, x: f64, y: f64, what: &str) {
    writeln!(body, "<text x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(what)).expect("a string takes everything");
}

/// A line of text with attributes of its own.
pub(super) fn styled(body: &mut String, x: f64, y: f64, attributes: &str, what: &str) {
    writeln!(body, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{}</text>", escaped(what))
        .expect("a string takes everything");
}

/// How wide a text is, about: fonts differ. Rather too wide, so that texts do not meet.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 6.8
}

/// A text in lines of at most this width, broken between words.
pub(super) fn wrapped(text: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(line) + text_width(" ") + text_width(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A text as it stands between tags.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus::Setting;
    use vicus_kernels::{Size, by_name};
    use vicus_sim::{Machine, Recorder, SimOptions, simulate};

    /// The values of an attribute of all bars.
    fn attribute(picture: &str, name: &str) -> Vec<String> {
        let bars = picture.lines().filter(|line| line.starts_with("<rect class=\"task\""));
        let value =
            |line: &str| line.split(&format!(" {name}=\"")).nth(1).unwrap().split('"').next().unwrap().to_owned();
        bars.map(value).collect()
    }

    fn run(strategy: &str) -> SimOutcome {
        let machine = Machine::by_name("opteron-6172").unwrap();
        let plan = strategy.parse::<Setting>().unwrap().plan(&machine.topology, 48);
        let program = Recorder::record(&by_name("map", Size::Numa).unwrap(), 48);
        simulate(&machine, &plan, &program, &SimOptions { seed: 1, ..SimOptions::default() }).unwrap()
    }

    #[test]
    fn bars_end_on_the_axis_and_their_colours_go_from_end_to_end() {
        let runs = [run("steal"), run("footprint")];
        // The program's first task fills the vectors before the measured part, so it must not be drawn.
        assert!(runs[0].tasks[0].start_ns < runs[0].start_ns && runs[0].tasks.len() == 49);
        let picture = render("what was run", &runs);
        let numbers = |name| attribute(&picture, name).iter().map(|x| x.parse::<f64>().unwrap()).collect::<Vec<_>>();
        let (x, width) = (numbers("x"), numbers("width"));
        assert_eq!(x.len(), 2 * 48, "a bar for each vector");
        for (x, width) in x.iter().zip(&width) {
            assert!(*x >= LEFT - 0.01 && x + width <= LEFT + WIDTH + 0.02, "{x} and {width}");
        }
        let colours = attribute(&picture, "fill");
        assert!(colours.contains(&mixed(0.0)) && colours.contains(&mixed(1.0)), "{colours:?}");
        // The legend ends at the tasks' own latencies.
        let latencies = runs.iter().flat_map(|run| &run.tasks[1..]).map(|task| task.latency_ns);
        let (low, high) = latencies.fold((f64::MAX, 0f64), |(low, high), ns| (low.min(ns), high.max(ns)));
        for end in [low, high] {
            assert!(picture.contains(&format!(">{end:.0} ns</text>")), "{end}");
        }
        assert!(picture.contains(">what was run</text>") && picture.contains(" ms</text>"));
    }

    /// What happened: the line of parameters ran out of the picture.
    #[test]
    fn a_long_heading_goes_on_in_the_next_line() {
        let heading = "a word ".repeat(100);
        let lines = wrapped(&heading, 300.0);
        assert!(lines.len() > 10 && lines.iter().all(|line| text_width(line) <= 300.0), "{lines:?}");
        assert_eq!(lines.join(" "), heading.trim());
        let picture = render(&heading, &[run("steal")]);
        assert!(picture.contains("time (ms)") && !picture.contains(&heading));
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(1e6), [0.0, 1e5, 2e5, 3e5, 4e5, 5e5, 6e5, 7e5, 8e5, 9e5, 1e6]);
        assert_eq!(ticks(7e6), [0.0, 1e6, 2e6, 3e6, 4e6, 5e6, 6e6, 7e6]);
        assert_eq!(ticks(3.1e3), [0.0, 500.0, 1e3, 1.5e3, 2e3, 2.5e3, 3e3]);
        for exponent in 0..400 {
            let longest = 1.1f64.powi(exponent);
            let ticks = ticks(longest);
            assert!(
                (4..=11).contains(&ticks.len()) && *ticks.last().unwrap() <= longest * 1.001,
                "{longest}: {ticks:?}"
            );
        }
    }
}
