//! `vicus trace`: look into a trace file.

mod join;
mod view;

pub(crate) use view::{runs, with_costs, write_page};

use crate::messages::printed;
use anyhow::Context;
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use vicus_trace::{Entry, EventKind, Names, Trace, What};

/// See `vicus trace --help`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Question,
}

#[derive(Subcommand)]
enum Question {
    /// The time of each type of box and of each seat.
    Summary {
        /// The trace file.
        file: PathBuf,
        /// How to print it.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// List the events by time, causes before effects.
    Events(EventsArgs),
    /// Check the trace against the box protocol; fails if a rule is broken.
    Check {
        /// The trace file.
        file: PathBuf,
    },
    View(view::Args),
    Join(join::Args),
}

#[derive(ClapArgs)]
struct EventsArgs {
    /// The trace file.
    file: PathBuf,
    /// Only the events of boxes with this name or type; may be repeated.
    #[arg(long = "box", value_name = "NAME")]
    boxes: Vec<String>,
    /// Only the events of this kind, such as `taken` or `envelope-sent`; may be repeated.
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<EventKind>,
    /// Only the events of this seat.
    #[arg(long, value_name = "N")]
    seat: Option<usize>,
    /// Stop after this many lines.
    #[arg(long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    limit: usize,
    /// How to print them; `json` is one object on each line.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let shown = match args.what {
        Question::Summary { file, format } => summary(&read(&file)?, format, &mut out),
        Question::Events(args) => events(&read(&args.file)?, &args, &mut out),
        Question::Check { file } => return check(&read(&file)?, &mut out),
        Question::Join(args) => return join::run(&args),
        Question::View(args) => {
            // It may write to standard output itself.
            drop(out);
            return view::run(&args);
        }
    };
    printed(shown.and_then(|()| out.flush()))
}

/// Reads a trace file; errors contain its name.
pub(crate) fn read(path: &Path) -> anyhow::Result<Trace> {
    let name = || path.display().to_string();
    let file = File::open(path).with_context(name)?;
    Trace::read_from(&mut BufReader::new(file)).with_context(name)
}

fn summary(trace: &Trace, format: Format, out: &mut impl Write) -> io::Result<()> {
    let summary = trace.summary();
    match format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &summary)?;
            writeln!(out)
        }
        Format::Text => {
            let header = trace.header();
            let known = [
                ("strategy", &header.strategy),
                ("machine", &header.machine),
                ("clock", &header.clock),
                ("started", &header.started),
            ];
            for (what, value) in known.into_iter().filter(|(_, value)| !value.is_empty()) {
                writeln!(out, "{what}: {value}")?;
            }
            write!(out, "{summary}")
        }
    }
}

fn events(trace: &Trace, args: &EventsArgs, out: &mut impl Write) -> io::Result<()> {
    let names = trace.names();
    let wanted = |entry: &Entry<'_>| {
        let of_box = |wanted: &[String]| match entry.event.what.who() {
            Some(who) => wanted.iter().any(|word| *word == names.name(who) || word == names.type_name(who)),
            None => false,
        };
        args.seat.is_none_or(|seat| seat == entry.seat)
            && (args.kinds.is_empty() || args.kinds.contains(&entry.event.what.kind()))
            && (args.boxes.is_empty() || of_box(&args.boxes))
    };
    let mut listed = trace.by_time().filter(wanted).take(args.limit);
    match args.format {
        Format::Json => listed.try_for_each(|entry| {
            serde_json::to_writer(&mut *out, &Line::new(&entry, &names))?;
            writeln!(out)
        }),
        Format::Text => {
            writeln!(
                out,
                "{:>12} {:>10} {:>4}  {:<17} {:>7} {:<20} details",
                "µs", "order", "seat", "kind", "request", "box"
            )?;
            listed.try_for_each(|entry| {
                let (seat, event) = (entry.seat, entry.event);
                let (request, name) = match event.what.who() {
                    Some(who) => (who.request.to_string(), names.name(who)),
                    None => Default::default(),
                };
                let (us, rest_ns) = (event.time_ns / 1000, event.time_ns % 1000);
                let (order, kind) = (event.order, event.what.kind());
                let line = format!(
                    "{us:>8}.{rest_ns:03} {order:>10} {seat:>4}  {kind:<17} {request:>7} {name:<20} {}",
                    event.what
                );
                writeln!(out, "{}", line.trim_end())
            })
        }
    }
}

/// An event as one JSON object.
#[derive(serde::Serialize)]
struct Line {
    time_ns: u64,
    order: u64,
    seat: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    box_name: Option<String>,
    #[serde(flatten)]
    what: What,
}

impl Line {
    fn new(entry: &Entry<'_>, names: &Names<'_>) -> Line {
        let event = entry.event;
        let box_name = event.what.who().map(|who| names.name(who));
        Line { time_ns: event.time_ns, order: event.order, seat: entry.seat, box_name, what: event.what }
    }
}

fn check(trace: &Trace, out: &mut impl Write) -> anyhow::Result<()> {
    let violations = trace.check();
    let shown = (|| {
        for violation in &violations {
            writeln!(out, "{violation}")?;
        }
        match trace.complete_until() {
            None if trace.complete_from().is_some() => writeln!(
                out,
                "looked at the clocks of the last {} events: {} before them were dropped",
                trace.merged().count(),
                trace.lost()
            )?,
            Some(order) => writeln!(out, "looked at up to order {order}: {} events were lost", trace.lost())?,
            None => writeln!(out, "looked at all {} events", trace.merged().count())?,
        }
        out.flush()
    })();
    printed(shown)?;
    match violations.len() {
        0 => Ok(()),
        count => anyhow::bail!("{count} impossible events"),
    }
}
