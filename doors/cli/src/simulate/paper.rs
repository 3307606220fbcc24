//! `vicus simulate paper`: reproduces the papers' figures, and checks each of their claims.

mod plot;
pub(super) mod recordings;

use super::Format;
use super::jobs::on_all_threads;
use crate::messages::print;
use anyhow::{Context, bail};
use recordings::Recordings;
use std::fmt::Write as _;
use std::path::PathBuf;
use vicus_sim::SimError;
use vicus_sim::papers::{
    self, Effort, FIGURES, Figure, FigureJob, FigureReport, Published, Robust, Row, Sample, Verdict,
};

/// Reproduce the papers' figures: prints a table, and for each claim of the paper whether it holds, by how much, and
/// whether it is robust: whether it still holds if any of the model's free parameters, or of the machine's bandwidths,
/// is a quarter smaller or larger. Below a failed claim stands its missing part; if that is known, the claim is not
/// varied.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The figure, such as muddukrishna-fig7, or `all`. `--list` lists them.
    #[arg(value_name = "ID|all", required_unless_present = "list")]
    figure: Option<String>,
    /// Lists the figures.
    #[arg(long)]
    list: bool,
    /// Only the figure: parameters don't vary, and one seed stands for all.
    #[arg(long)]
    quick: bool,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Records queries now, on this number of SP2Bench triples. By default, figures of queries replay recordings in
    /// this program: of a million triples, the same in each run.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    triples: Option<u64>,
    /// Records queries now, by default on a million triples, and writes the recordings to files of this folder:
    /// q2-64.trace is q2, planned for 64 threads.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Reads the recordings from such files and makes none. Files of `vicus query --trace` work as well: their last
    /// request is replayed.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["record", "triples"])]
    traces: Option<PathBuf>,
    /// The output: tables, JSON, or bar plots.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// The triples of a recording without another number.
const MILLION: u64 = 1_000_000;

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if args.list {
        return print(&list());
    }
    let effort = if args.quick { Effort::quick() } else { Effort::full() };
    let effort = Effort { seed: args.seed, ..effort };
    let figures = chosen(args.figure.as_deref().expect("clap requires it"))?;
    let mut recordings = recordings(args)?;
    let mut reports = Vec::new();
    for mut figure in figures {
        recordings.supply(&mut figure)?;
        reports.push(figure.evaluate(&effort, |jobs| on_all_threads(jobs, figure.id, run_one))?);
    }
    print(&match args.format {
        Format::Table => reports.iter().map(table).collect::<Vec<_>>().join("\n"),
        Format::Json => serde_json::to_string_pretty(&reports)? + "\n",
        Format::Svg => plot::render(&reports),
    })
}

fn run_one(job: &FigureJob<'_>) -> Result<Vec<Sample>, SimError> {
    job.run(&mut |_| true)
}

fn list() -> String {
    FIGURES.iter().map(|(id, figure)| format!("{id:12} {}\n", figure().title)).collect()
}

fn recordings(args: &Args) -> anyhow::Result<Recordings> {
    if let Some(folder) = &args.traces {
        return Ok(Recordings::read_from(folder));
    }
    if let Some(folder) = &args.record {
        // Found out now, not after the work.
        std::fs::create_dir_all(folder).with_context(|| format!("{}: can't be made", folder.display()))?;
    }
    if args.triples.is_none() && args.record.is_none() {
        return Ok(Recordings::stored());
    }
    Ok(Recordings::made_of(args.triples.unwrap_or(MILLION), args.record.as_deref()))
}

fn chosen(name: &str) -> anyhow::Result<Vec<Figure>> {
    if name == "all" {
        return Ok(FIGURES.iter().map(|(_, figure)| figure()).collect());
    }
    if let Some(figure) = papers::figure(name) {
        return Ok(vec![figure]);
    }
    // Papers had numbers once.
    let authors =
        [("000-", "falt-"), ("001-", "muddukrishna-"), ("002-", "wittmann-"), ("003-", "bobox-"), ("004-", "wheeler-")];
    let renamed = |(number, author)| name.strip_prefix(number).map(|figure| format!("{author}{figure}"));
    if let Some(now) = authors.into_iter().find_map(renamed).filter(|now| papers::figure(now).is_some()) {
        bail!("`{name}` is called `{now}` now");
    }
    let names: Vec<&str> = FIGURES.iter().map(|(id, _)| *id).collect();
    bail!("`{name}` is no figure; there are {}, or all of them: all", names.join(", "))
}

fn table(report: &FigureReport) -> String {
    let FigureReport { id, title, source, parameters, seed, samples, baseline, .. } = report;
    let mut text = format!("{id}: {title}\n{source}\n{parameters}, seed {seed}");
    if *samples > 1 {
        text += &format!(", medians of {samples} seeds");
    }
    text += "\n";
    report.notes.iter().for_each(|note| text += &format!("{note}\n"));
    let width = |of: fn(&Row) -> &String, least: usize| {
        report.rows.iter().map(|row| of(row).chars().count()).fold(least, usize::max)
    };
    let (groups, labels) = (width(|row| &row.group, 10), width(|row| &row.label, 24));
    text += &format!("\n{:groups$} {:labels$} {:>11} {:>10} {:>5}", "", "", "ms", "normalised", "far");
    let has_nodes = report.rows.iter().any(|row| row.kept_nodes.is_some());
    text += if has_nodes { "  nodes" } else { "" };
    text += if *samples > 1 { "  5 to 95 %\n" } else { "\n" };
    for row in &report.rows {
        write!(
            text,
            "{:groups$} {:labels$} {:>11.3} {:>10.3} {:>3.0} %",
            row.group,
            row.label,
            row.ms,
            row.normalised,
            100.0 * row.far_share
        )
        .expect("a string takes everything");
        if let Some(nodes) = row.kept_nodes {
            write!(text, " {nodes:>6.2}").expect("a string takes everything");
        }
        if *samples > 1 {
            let [from, .., to] = row.spread;
            write!(text, "  {from:.3} to {to:.3}").expect("a string takes everything");
        }
        text += "\n";
    }
    text += &format!("normalised: the time divided by that of {baseline}\n");
    if has_nodes {
        text += "nodes: how many nodes boxes keep to; 1 if a box's node is left to chance\n";
    }
    text += "\n";
    let (given, tested): (Vec<&Verdict>, Vec<&Verdict>) =
        report.verdicts.iter().partition(|verdict| verdict.by_construction.is_some());
    tested.iter().for_each(|verdict| text += &shown(verdict));
    if !given.is_empty() {
        text += "\nnot counted, because they follow from what the model is given:\n";
        given.iter().for_each(|verdict| text += &shown(verdict));
        text += "\n";
    }
    let held = tested.iter().filter(|verdict| verdict.holds).count();
    if tested.is_empty() {
        return text + "none of its claims tests the model\n";
    }
    text + &format!("{held} of {} claims hold\n", tested.len())
}

/// A claim in one line, its figures in a second one, and its missing part if it does not hold.
fn shown(verdict: &Verdict) -> String {
    let Verdict { claim, ratio, value, at_least, at_most, .. } = verdict;
    let holds = if verdict.holds { "holds" } else { "DOES NOT HOLD" };
    let expected = match at_most {
        Some(most) if *at_least <= 0.0 => format!("at most {most:.2}"),
        Some(most) => format!("{at_least:.2} to {most:.2}"),
        None => format!("at least {at_least:.2}"),
    };
    let robust = match &verdict.robust {
        Robust::Untried => String::new(),
        Robust::Robust => ", robust".to_owned(),
        Robust::Fragile(cases) => format!(", fragile: otherwise with {}", cases.join(", ")),
    };
    let seeds = verdict.seeds.map_or(String::new(), |(asked, held)| format!(", for {held} of {asked} seeds"));
    let farthest = verdict.farthest.map(|farthest| {
        format!(
            "    as shown it holds; with other seeds (single runs, of smaller inputs where the figure has them) \
            the farthest is {farthest:.3}\n"
        )
    });
    let missing = match verdict.missing.as_ref().or(verdict.by_construction.as_ref()) {
        Some(missing) => farthest.unwrap_or_default() + &format!("    {missing}\n"),
        None if verdict.holds => String::new(),
        None => farthest.unwrap_or_else(|| "    what is missing is not known\n".to_owned()),
    };
    if let Some(Published { predicted, published, unit }) = &verdict.published {
        return format!(
            "{holds}{robust}{seeds}: {claim}: {predicted:.1} {unit} predicted, {published:.1} published, \
                {value:.2}\n{missing}"
        );
    }
    format!("{holds}{robust}{seeds}: {claim}\n    {value:.3}, expected {expected} ({ratio})\n{missing}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_done_again_on_all_threads_as_on_one() {
        let figure = papers::figure("muddukrishna-fig11").unwrap();
        let effort = Effort::small();
        let report = figure.evaluate(&effort, |jobs| on_all_threads(jobs, figure.id, run_one)).unwrap();
        assert_eq!(report, figure.evaluate(&effort, papers::serially).unwrap());
        let text = table(&report);
        assert!(text.contains("larger vicinities hurt map") && text.contains("of 2 claims hold"), "{text}");
        let plot = plot::render(&[report]);
        assert!(plot.starts_with("<svg") && plot.matches("<rect").count() > 10, "{plot}");
    }

    #[test]
    fn a_published_figure_is_a_line_with_what_was_predicted() {
        let report = papers::figure("memory").unwrap().evaluate(&Effort::quick(), papers::serially).unwrap();
        let text = table(&report);
        let line = text.lines().find(|line| line.contains("graviton2: all cores read:")).unwrap();
        // Of eight channels of DDR4-3200 0.825 arrive: 168.96 GB/s, except for slightly longer or shorter pieces.
        let (begin, end) = ("holds: graviton2: all cores read: 169.", " GB/s predicted, 169.6 published, 1.00");
        assert!(line.starts_with(begin) && line.ends_with(end), "{line}");
        assert_eq!(text.matches(" published, ").count(), report.verdicts.len());
        // The missing part stands below each line of a failed claim.
        let mut lines = text.lines();
        let failing = std::iter::from_fn(|| lines.find(|line| line.starts_with("DOES NOT HOLD")).map(|_| lines.next()));
        let missing: Vec<&str> = failing.flatten().collect();
        assert_eq!(missing.len(), report.verdicts.iter().filter(|verdict| !verdict.holds).count());
        assert!(missing.iter().all(|line| line.starts_with("    ") && !line.contains("not known")), "{missing:?}");
    }

    #[test]
    fn a_name_that_is_none_says_what_there_is() {
        let error = |name| chosen(name).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(
            error("muddukrishna-fig8").contains("muddukrishna-fig7, muddukrishna-fig7-published, muddukrishna-fig9"),
            "{}",
            error("muddukrishna-fig8")
        );
        assert_eq!(chosen("all").unwrap().len(), FIGURES.len());
    }

    #[test]
    fn a_papers_old_number_names_the_figure_of_today() {
        let error = |name| chosen(name).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(error("001-fig7"), "`001-fig7` is called `muddukrishna-fig7` now");
        assert_eq!(error("003-table3"), "`003-table3` is called `bobox-table3` now");
        assert!(error("001-fig8").contains("is no figure"), "{}", error("001-fig8"));
    }
}
