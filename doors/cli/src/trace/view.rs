//! `vicus trace view`: one file that shows a run.

use crate::machine;
use anyhow::{Context, bail, ensure};
use clap::Args as ClapArgs;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use vicus_sim::Machine;
use vicus_view::{Page, RecordedRun, Still};

/// The options that write a run for other programs.
const EXPORTS: [&str; 4] = ["perfetto", "chrome_json", "arrow", "svg"];

/// Write one HTML file that shows a run, or two side by side: its time line, networks, plan, figures, and why it took
/// so long.
///
/// The file has everything in itself and asks for nothing: it opens from a disk, without a network. A page that was
/// written before is taken in place of a trace, and becomes a new one. A trace that was cut off or is of another
/// version is shown as far as it can be read.
#[derive(ClapArgs)]
pub(super) struct Args {
    /// The trace file of the run, or an earlier page.
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// A second run, to be shown on the same scale; one on a single thread is the measure of the other's work.
    #[arg(value_name = "RUN2")]
    other: Option<PathBuf>,
    /// The file to write; `-` is standard output.
    #[arg(long, short, value_name = "FILE.html", required_unless_present_any = EXPORTS)]
    output: Option<PathBuf>,
    /// A machine file of `vicus calibrate`: by its bandwidths, the time that waited for memory is estimated.
    #[arg(long, value_name = "FILE.toml")]
    costs: Option<String>,
    /// Writes the run for Perfetto.
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Writes the run as JSON for Chrome's trace viewer.
    #[arg(long, value_name = "FILE.json")]
    chrome_json: Option<PathBuf>,
    /// Writes the events as a table, a file of Arrow: a row for each event, with what it waited for.
    #[arg(long, value_name = "FILE.arrow")]
    arrow: Option<PathBuf>,
    /// Writes a still picture of the time line.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// The part of the time in the picture, in milliseconds from the first event on.
    #[arg(long, value_name = "FROM..TO", requires = "svg", value_parser = range)]
    range: Option<Still>,
}

/// A range of milliseconds, such as `1.5..20`; either side may be left out.
fn range(text: &str) -> Result<Still, String> {
    let wrong = || format!("`{text}` is no range such as 1.5..20");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let ns = |text: &str, default: u64| match text {
        "" => Ok(default),
        text => match text.parse::<f64>() {
            Ok(ms) if ms >= 0.0 => Ok((ms * 1e6) as u64),
            _ => Err(wrong()),
        },
    };
    let whole = Still::default();
    let still = Still { from_ns: ns(from, whole.from_ns)?, to_ns: ns(to, whole.to_ns)?, ..whole };
    if still.from_ns < still.to_ns { Ok(still) } else { Err(wrong()) }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let mut runs = Vec::new();
    for path in [Some(&args.run), args.other.as_ref()].into_iter().flatten() {
        runs.extend(self::runs(path)?);
    }
    if let Some(file) = &args.costs {
        let Some(machine) = machine::with_costs(file)? else { bail!("{file}: expected a machine file, FILE.toml") };
        runs = runs.into_iter().map(|run| with_costs(run, &machine, file.clone())).collect();
    }
    let exports = [&args.perfetto, &args.chrome_json, &args.arrow, &args.svg];
    let [run, rest @ ..] = &runs[..] else { bail!("{}: a page without a run", args.run.display()) };
    if exports.iter().any(|file| file.is_some()) && !rest.is_empty() {
        bail!("other programs get one run: name one");
    }
    if let Some(file) = &args.perfetto {
        write(file, |out| vicus_view::perfetto(run, out))?;
    }
    if let Some(file) = &args.chrome_json {
        write(file, |out| vicus_view::chrome_json(run, out))?;
    }
    if let Some(file) = &args.arrow {
        write(file, |out| vicus_view::arrow(run, out))?;
    }
    if let Some(file) = &args.svg {
        let picture = vicus_view::still(run, args.range.unwrap_or_default());
        write(file, |out| out.write_all(picture.as_bytes()))?;
    }
    match &args.output {
        Some(file) => write_page(file, runs),
        None => Ok(()),
    }
}

/// The run with the bandwidths of a machine's cores, and where they are from.
pub(crate) fn with_costs(run: RecordedRun, machine: &Machine, measured_by: String) -> RecordedRun {
    let memory = &machine.memory;
    let farthest = memory.latency_by_distance.iter().map(|(_, ns)| *ns).fold(memory.latency_ns, f64::max);
    let near_bytes_a_ns = memory.core_bandwidth / 1e9;
    // A core fetches a limited number of lines at once.
    let far_bytes_a_ns = near_bytes_a_ns * memory.latency_ns / farthest;
    RecordedRun { near_bytes_a_ns, far_bytes_a_ns, measured_by: Some(measured_by), ..run }
}

/// Writes a page about one run or two.
pub(crate) fn write_page(path: &Path, runs: Vec<RecordedRun>) -> anyhow::Result<()> {
    ensure!((1..=2).contains(&runs.len()), "a page shows two runs at most, and these are {}", runs.len());
    write(path, |out| Page::new(runs).write_to(out))
}

/// Writes a file or standard output; errors name it.
fn write(path: &Path, what: impl FnOnce(&mut Box<dyn Write>) -> std::io::Result<()>) -> anyhow::Result<()> {
    if path == Path::new("-") {
        let mut out: Box<dyn Write> = Box::new(BufWriter::new(std::io::stdout().lock()));
        return crate::messages::printed(what(&mut out).and_then(|()| out.flush()));
    }
    let cannot = || format!("{}: can't be written", path.display());
    let file = File::create(path).with_context(cannot)?;
    let mut out: Box<dyn Write> = Box::new(BufWriter::with_capacity(1 << 20, file));
    what(&mut out).and_then(|()| out.flush()).with_context(cannot)
}

/// The runs of a file: a trace, as far as it can be read, or those of a page.
pub(crate) fn runs(path: &Path) -> anyhow::Result<Vec<RecordedRun>> {
    let name = || path.display().to_string();
    let mut start = [0; 8];
    let mut file = File::open(path).with_context(name)?;
    let length = file.read(&mut start).with_context(name)?;
    if start[..length].starts_with(b"VICUSTRC") {
        let mut file = BufReader::with_capacity(1 << 20, File::open(path).with_context(name)?);
        let title = path.file_name().map_or_else(name, |file| file.to_string_lossy().into_owned());
        return Ok(vec![RecordedRun::salvage(title, &mut file).with_context(name)?]);
    }
    vicus_view::read(&mut File::open(path).with_context(name)?).with_context(name)
}
