//! A still picture of a range of time, for papers and slides.

use super::Export;
use crate::RecordedRun;
use crate::activity::{Slice, State};
use crate::html::Escaped;
use rustc_hash::FxHashMap;
use std::fmt::Write;

/// Colours of types, as the page has them in the light; the last one is for all others.
const COLOURS: [&str; 8] = ["#64aade", "#f2b54a", "#45bb95", "#ec8a5b", "#a9d7f3", "#da9cc3", "#dccf5f", "#aeb9c2"];
const ROW: f64 = 22.0;
const GUTTER: f64 = 120.0;
const RIGHT: f64 = 28.0;
const AXIS: f64 = 30.0;
const LETTER: f64 = 6.4;

/// A picture's range and size.
#[derive(Clone, Copy, Debug)]
pub struct Still {
    /// The beginning, in nanoseconds from the run's first event on.
    pub from_ns: u64,
    /// The end; beyond the run's end, it is the run's end.
    pub to_ns: u64,
    /// The width in pixels.
    pub width: u32,
}

impl Default for Still {
    /// The whole run, as wide as a page of text.
    fn default() -> Still {
        Still { from_ns: 0, to_ns: u64::MAX, width: 1000 }
    }
}

/// A range of a run as a picture, an XML document of SVG: a row for each seat that was used, coloured by the type of
/// box.
///
/// ```
/// use vicus_trace::{Header, JobId, EventLog, Trace, What};
/// use vicus_view::{RecordedRun, Still, still};
///
/// let who = JobId::task(1, 0);
/// let mut log = EventLog::new(10);
/// log.record(0, What::UserCodeBegins { who });
/// log.record(1_000_000, What::UserCodeEnds { who });
/// let run = RecordedRun::new("one task", Trace::new(Header::for_seats(1), vec![log.finish()]));
/// let picture = still(&run, Still::default());
/// assert!(picture.starts_with("<svg") && picture.contains("seat 0"));
/// ```
pub fn still(run: &RecordedRun, how: Still) -> String {
    let told = Export::new(&run.trace);
    let from_ns = how.from_ns.min(told.span.ns);
    let to_ns = how.to_ns.min(told.span.ns).max(from_ns + 1);
    let width = f64::from(how.width.max(320));
    let plot = width - GUTTER - RIGHT;
    let per_ns = plot / (to_ns - from_ns) as f64;
    let (types, type_of) = told.keys.types();
    let first_ns = told.span.first_ns;
    let seats: Vec<(usize, String)> =
        told.seats().filter(|(seat, _)| !run.trace.logs()[*seat].events.is_empty()).collect();
    // The types by their time in the range have the first colours.
    let mut busy: FxHashMap<usize, u64> = FxHashMap::default();
    let mut shown: Vec<Vec<Slice>> = Vec::new();
    for (seat, _) in &seats {
        let mut slices = Vec::new();
        told.slices(*seat, |slice| {
            let begin_ns = slice.begin_ns.saturating_sub(first_ns).max(from_ns);
            let end_ns = slice.end_ns.saturating_sub(first_ns).min(to_ns);
            if end_ns <= begin_ns {
                return;
            }
            if let (State::Busy, Some((_, key))) = (slice.state, slice.who) {
                *busy.entry(type_of[key as usize]).or_default() += end_ns - begin_ns;
            }
            slices.push(Slice { begin_ns, end_ns, ..*slice });
        });
        shown.push(slices);
    }
    let mut ranked: Vec<(usize, u64)> = busy.into_iter().collect();
    ranked.sort_by_key(|(of_type, ns)| (std::cmp::Reverse(*ns), *of_type));
    let colour = |of_type: usize| {
        let rank = ranked.iter().position(|(each, _)| *each == of_type).unwrap_or(COLOURS.len());
        COLOURS[rank.min(COLOURS.len() - 1)]
    };
    let rows = AXIS + seats.len() as f64 * (ROW + 3.0);
    let mut legend = String::new();
    let (mut x, mut y) = (GUTTER, rows + 22.0);
    let named = ranked.iter().take(COLOURS.len() - 1).map(|(of_type, _)| (types[*of_type], colour(*of_type)));
    let others = (ranked.len() >= COLOURS.len()).then_some(("others", COLOURS[COLOURS.len() - 1]));
    for (name, fill) in named.chain(others) {
        let wide = 22.0 + name.chars().count() as f64 * LETTER + 12.0;
        if x + wide > width && x > GUTTER {
            (x, y) = (GUTTER, y + 20.0);
        }
        _ = write!(
            legend,
            "<rect x=\"{x:.0}\" y=\"{:.0}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{fill}\"/><text x=\"{:.0}\" \
             y=\"{y:.0}\">{}</text>",
            y - 10.0,
            x + 18.0,
            Escaped(name)
        );
        x += wide;
    }
    let height = y + 12.0;
    let mut out = String::new();
    _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\" \
         fill=\"#17202a\">\n<title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        Escaped(&run.name)
    );
    axis(&mut out, from_ns, to_ns, per_ns, rows);
    for ((row, (_, name)), slices) in seats.iter().enumerate().zip(&shown) {
        let top = AXIS + row as f64 * (ROW + 3.0);
        _ = writeln!(
            out,
            "<text x=\"8\" y=\"{:.1}\">{}</text><rect x=\"{GUTTER}\" y=\"{top}\" width=\"{plot:.1}\" height=\"{ROW}\" \
             fill=\"#f1f4f6\"/>",
            top + 15.0,
            Escaped(name)
        );
        seat(&mut out, slices, top, |ns| GUTTER + (ns - from_ns) as f64 * per_ns, |key| colour(type_of[key as usize]));
    }
    out.push_str(&legend);
    out.push_str("\n</svg>\n");
    out
}

/// The slices of a seat. Those of less than half a pixel are one mark for each half pixel.
fn seat(out: &mut String, slices: &[Slice], top: f64, x: impl Fn(u64) -> f64, colour: impl Fn(u32) -> &'static str) {
    let mut drawn = f64::MIN;
    for slice in slices {
        let (left, right) = (x(slice.begin_ns), x(slice.end_ns));
        if right - drawn < 0.5 {
            continue;
        }
        let left = left.max(drawn);
        drawn = right.max(left + 0.5);
        let key = slice.who.map(|(_, key)| key);
        let (fill, y, tall, opacity) = match (slice.state, key) {
            (State::Busy, Some(key)) => (colour(key), top, ROW, 1.0),
            (State::Around, Some(key)) => (colour(key), top, ROW, 0.5),
            (State::WaitsForChildren, _) => ("#8d7fb8", top + ROW - 12.0, 12.0, 1.0),
            (State::WaitsForSection, _) => ("#bdb2dc", top + ROW - 9.0, 9.0, 1.0),
            (State::WaitsForTeam, _) => ("#453a6b", top + ROW - 15.0, 15.0, 1.0),
            _ => ("#d5dce1", top + ROW - 3.0, 3.0, 1.0),
        };
        let opacity = if opacity < 1.0 { format!(" opacity=\"{opacity}\"") } else { String::new() };
        _ = writeln!(
            out,
            "<rect x=\"{left:.2}\" y=\"{y}\" width=\"{:.2}\" height=\"{tall}\" fill=\"{fill}\"{opacity}/>",
            drawn - left
        );
    }
}

fn axis(out: &mut String, from_ns: u64, to_ns: u64, per_ns: f64, bottom: f64) {
    let range = (to_ns - from_ns) as f64;
    let power = 10_f64.powf((range / 8.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| range / step <= 9.0);
    let step = step.unwrap_or(range).max(1.0);
    let (scale, unit) = match range {
        ..2e3 => (1.0, "ns"),
        2e3..2e6 => (1e3, "µs"),
        2e6..1e10 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let digits = (-(step / scale).log10()).ceil().clamp(0.0, 9.0) as usize;
    let mut tick = (from_ns as f64 / step).ceil() * step;
    while tick <= to_ns as f64 {
        let x = GUTTER + (tick - from_ns as f64) * per_ns;
        _ = writeln!(
            out,
            "<path d=\"M{x:.1} {:.0}V{bottom:.0}\" stroke=\"#e1e6ea\"/><text x=\"{x:.1}\" y=\"16\" \
             text-anchor=\"middle\" fill=\"#56636e\">{:.digits$} {unit}</text>",
            AXIS - 8.0,
            tick / scale,
        );
        tick += step;
    }
}
