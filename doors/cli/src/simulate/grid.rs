//! `vicus simulate grid`: every strategy on every machine with every workload, as a table and as a picture.

mod map;
mod recorded;

use super::jobs::on_all_threads;
use super::paper::recordings;
use super::{Format, jitter, machine};
use crate::messages::print;
use crate::{learn, strategy};
use anyhow::{Context, bail, ensure};
use recorded::Recorded;
use std::fmt::Write as _;
use std::path::PathBuf;
use vicus::STRATEGIES;
use vicus::kit::Settings;
use vicus_sim::Machine;
use vicus_sim::grid::{BETTER, Grid, GridReport, LEARNED, NO_WORSE, Standing, Workload, threads};
use vicus_topology::fixtures;

/// Compare strategies on many machines with many workloads: prints for each how long it takes, divided by the time of
/// the best of the other strategies. Below 1 it is the best of all.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The machines, a list of names as for `vicus simulate --machine`; by default all of the simulator's, with costs
    /// and without.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    machine: Vec<String>,
    /// The workloads; by default all. `--list` lists them.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    workload: Vec<String>,
    /// The strategies to compare, at least two; by default all of them.
    #[arg(long, value_name = "LIST")]
    strategy: Vec<Settings>,
    /// Adds a column: in each row the best strategy for it with other seeds, of those compared and of `vicus` with
    /// other values of its parameters. `vicus learn` finds it for a program.
    #[arg(long)]
    learned: bool,
    /// Lists the workloads.
    #[arg(long)]
    list: bool,
    /// Six machines, one seed, and no recorded queries, unless other options choose them.
    #[arg(long)]
    quick: bool,
    /// The first seed. The same seed gives the same grid, with `--traces` if recorded queries are part of it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds each run has; its time is their median. By default 3, and 1 with `--quick`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=99))]
    seeds: Option<u16>,
    /// How much of each input is run: 1 is all of it.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    share: Option<f64>,
    /// How much the times of equal pieces of work differ, as a share: 0 is not at all. By default the measured value.
    #[arg(long, value_name = "SHARE", value_parser = jitter)]
    jitter: Option<f64>,
    /// The number of SP2Bench triples for recorded queries.
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = clap::value_parser!(u64).range(1..))]
    triples: u64,
    /// Writes the recordings to files of this folder: q4+q3b-16.trace is both queries, planned for 16 threads.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Reads the recordings from such files and makes none.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["record", "triples"])]
    traces: Option<PathBuf>,
    /// Writes the picture, a heat map, to this file as well.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// The output: a table, JSON, or the picture.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// The machines of a quick grid: from one node of four cores to sixteen; by sockets, nodes in sockets, and home caches.
const QUICK: [&str; 6] = ["core-i7-860", "opteron-6172", "nehalem-ex", "tilepro64", "xeon-8360y", "epyc-7742-nps4"];

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.001..=10.0).contains(share));
    share.ok_or_else(|| "expected a share from 0.001 to 10, such as 0.5".to_owned())
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if args.list {
        return print(&list());
    }
    if let Some(path) = &args.svg {
        // Found out now, not after the work.
        std::fs::write(path, "").with_context(|| format!("{}: can't be written", path.display()))?;
    }
    let report = evaluate(args)?;
    let picture = || map::render(&report);
    if let Some(path) = &args.svg {
        std::fs::write(path, picture()).with_context(|| format!("{}: can't be written", path.display()))?;
    }
    print(&match args.format {
        Format::Table => table(&report),
        Format::Json => serde_json::to_string_pretty(&(&report, report.standings()))? + "\n",
        Format::Svg => picture(),
    })
}

fn list() -> String {
    let own = Workload::all().into_iter().map(|workload| (workload.name, workload.what));
    let recorded = Recorded::ALL.iter().map(|one| (one.name.to_owned(), one.what.to_owned()));
    own.chain(recorded).map(|(name, what)| format!("{name:18} {what}\n")).collect()
}

fn evaluate(args: &Args) -> anyhow::Result<GridReport> {
    let strategies = match args.strategy.is_empty() {
        true => STRATEGIES.map(|strategy| strategy.name().parse().expect("the strategy exists")).to_vec(),
        false => strategy::several(&args.strategy, "las")?,
    };
    ensure!(strategies.len() > 1, "--strategy {}: expected at least two, to be compared", strategies[0]);
    let names: Vec<String> = strategies.iter().map(ToString::to_string).collect();
    if let Some(twice) = names.iter().enumerate().find_map(|(at, name)| names[..at].contains(name).then_some(name)) {
        bail!("--strategy {twice} is given twice: each is compared with the others");
    }
    let machines = machines(args)?;
    let workloads = workloads(args, &machines)?;
    let shown = strategies.len();
    let all = if args.learned { learn::with_variants(strategies) } else { strategies };
    let grid = Grid {
        seed: args.seed,
        samples: args.seeds.map_or(if args.quick { 1 } else { 3 }, usize::from),
        share: args.share.unwrap_or(1.0),
        jitter: args.jitter,
        ..Grid::new(machines, workloads, all)
    };
    let results = results(&grid, "grid")?;
    if !args.learned {
        return Ok(grid.report(&results));
    }
    let before = Grid { seed: args.seed.wrapping_add(LEARNED_BEFORE), ..grid };
    let learned: Vec<usize> = self::results(&before, "learning")?.iter().map(|times| learn::suits(times)).collect();
    Ok(Grid { seed: args.seed, ..before }.report_learned(&results, shown, &learned))
}

/// The distance of the seeds for learning from the grid's seeds.
const LEARNED_BEFORE: u64 = 1_000_000;

fn results(grid: &Grid, what: &str) -> anyhow::Result<Vec<Vec<f64>>> {
    on_all_threads(&grid.jobs(), what, |job| {
        let what = || format!("{} on {} can't be simulated", job.workload.name, job.machine.name);
        job.run(&mut |_| true).with_context(what)
    })
}

fn machines(args: &Args) -> anyhow::Result<Vec<Machine>> {
    if !args.machine.is_empty() {
        return args.machine.iter().map(|text| machine(text)).collect();
    }
    if args.quick {
        return QUICK.iter().map(|name| machine(name)).collect();
    }
    let described = fixtures().into_iter().map(Machine::from_topology);
    Ok(Machine::names().filter_map(Machine::by_name).chain(described).collect())
}

fn workloads(args: &Args, machines: &[Machine]) -> anyhow::Result<Vec<Workload>> {
    let own = Workload::all();
    let is_wanted = |name: &str| args.workload.is_empty() || args.workload.iter().any(|wanted| wanted == name);
    let known =
        |name: &&String| own.iter().any(|one| one.name == **name) || Recorded::ALL.iter().any(|one| one.name == **name);
    if let Some(wrong) = args.workload.iter().find(|name| !known(name)) {
        let names = list().lines().map(|line| line[..18].trim_end().to_owned()).collect::<Vec<_>>().join(", ");
        bail!("`{wrong}` is no workload; there are {names}");
    }
    let mut workloads: Vec<Workload> = own.into_iter().filter(|one| is_wanted(&one.name)).collect();
    let is_skipped = args.quick && args.workload.is_empty() && args.traces.is_none() && args.record.is_none();
    let recorded: Vec<&Recorded> = Recorded::ALL.iter().filter(|one| !is_skipped && is_wanted(one.name)).collect();
    if let (true, Some(folder)) = (recorded.is_empty(), args.record.as_ref().or(args.traces.as_ref())) {
        let names = Recorded::ALL.map(|one| one.name).join(", ");
        bail!("{}: none of the workloads is a recorded query; those are {names}", folder.display());
    }
    if !recorded.is_empty() {
        let counts = recorded::thread_counts(machines.iter().map(threads));
        let source = match &args.traces {
            Some(folder) => recordings::Recordings::read_from(folder),
            None => {
                if let Some(folder) = &args.record {
                    std::fs::create_dir_all(folder).with_context(|| format!("{}: can't be made", folder.display()))?;
                }
                recordings::Recordings::made_of(args.triples, args.record.as_deref())
            }
        };
        workloads.extend(recorded::workloads(&recorded, &counts, source)?);
    }
    Ok(workloads)
}

fn table(report: &GridReport) -> String {
    let mut text = heading(report);
    let width = |names: &mut dyn Iterator<Item = usize>, least: usize| names.fold(least, usize::max);
    let machines = width(&mut report.cells.iter().map(|cell| cell.machine.len()), 7);
    let workloads = width(&mut report.workloads.iter().map(|(name, _)| name.len()), 8);
    let column = |name: &String| name.len().max(7);
    write!(text, "\n{:machines$} {:workloads$} {:>11}", "machine", "workload", "best ms").expect(FITS);
    for name in &report.strategies {
        write!(text, " {name:>width$}", width = column(name)).expect(FITS);
    }
    text += "\n";
    for cells in report.cells.chunks(report.strategies.len()) {
        let best = cells.iter().map(|cell| cell.ms).fold(f64::INFINITY, f64::min);
        write!(text, "{:machines$} {:workloads$} {best:>11.3}", cells[0].machine, cells[0].workload).expect(FITS);
        for cell in cells {
            write!(text, " {:>width$.3}", cell.ratio, width = column(&cell.strategy)).expect(FITS);
        }
        text += "\n";
    }
    text += &format!(
        "\n{:24} {:>7} {:>16} {:>23} {:>8} {:>7}\n",
        "strategy", "cells", "within 3 %", "10 % better, NUMA", "worst", "mean"
    );
    for Standing { strategy, cells, no_worse, of_several_nodes, better, worst, mean } in report.standings() {
        let (within, better) = (format!("{no_worse}"), format!("{better} of {of_several_nodes}"));
        writeln!(text, "{strategy:24} {cells:>7} {within:>16} {better:>23} {worst:>8.2} {mean:>7.3}").expect(FITS);
    }
    text
}

const FITS: &str = "a string takes everything";

/// How it was made, in several lines.
fn heading(report: &GridReport) -> String {
    let GridReport { seed, samples, share, jitter, .. } = report;
    let seeds =
        if *samples > 1 { format!("medians of {samples} seeds from {seed} on") } else { format!("seed {seed}") };
    let learned = match report.strategies.last() {
        Some(last) if last == LEARNED => {
            "; learned: what suits each row by other seeds, of these and variants of vicus"
        }
        _ => "",
    };
    let jitter = jitter.map_or("as measured".to_owned(), |jitter| jitter.to_string());
    format!(
        "The time of each strategy, divided by that of the best of the others: at most {NO_WORSE} is no worse than \
            they, at most {BETTER} is \
         better.\n{seeds}; inputs times {share:.3}; jitter {jitter}; NUMA: machines with several nodes that have \
         cores{learned}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A grid of these cells, with times of 1 ms and, for each next strategy, half as much again.
    fn report(machines: &[(&str, usize)], workloads: &[&str], strategies: &[&str]) -> GridReport {
        let cell = |(machine, nodes): (&str, usize), workload: &str, at: usize| vicus_sim::grid::Cell {
            machine: machine.to_owned(),
            nodes,
            threads: 4,
            workload: workload.to_owned(),
            strategy: strategies[at].to_owned(),
            ms: 1.0 + 0.5 * at as f64,
            ratio: if at == 0 { 2.0 / 3.0 } else { 1.0 + 0.5 * at as f64 },
        };
        let all = machines.iter().flat_map(|&machine| workloads.iter().map(move |workload| (machine, *workload)));
        let cells =
            all.flat_map(|(machine, workload)| (0..strategies.len()).map(move |at| cell(machine, workload, at)));
        GridReport {
            seed: 7,
            samples: 3,
            share: 0.5,
            jitter: Some(0.0),
            strategies: strategies.iter().map(|name| (*name).to_owned()).collect(),
            workloads: workloads.iter().map(|name| ((*name).to_owned(), String::new())).collect(),
            cells: cells.collect(),
        }
    }

    #[test]
    fn a_table_has_a_row_for_each_machine_and_workload() {
        let text = table(&report(&[("small", 1), ("large", 4)], &["map", "fib"], &["las", "steal", "vicus:spares=2"]));
        let row = |begin: &str| text.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(
            row("small   map").split_whitespace().collect::<Vec<_>>(),
            ["small", "map", "1.000", "0.667", "1.500", "2.000"]
        );
        assert!(row("large   fib").ends_with("2.000"), "{text}");
        assert_eq!(
            row("las ").split_whitespace().collect::<Vec<_>>(),
            ["las", "4", "4", "2", "of", "2", "0.67", "0.667"]
        );
        assert!(text.contains("medians of 3 seeds from 7 on; inputs times 0.500; jitter 0"), "{text}");
    }

    #[test]
    fn a_map_is_well_formed_and_has_a_field_for_each_cell() {
        let report = report(&[("a<b", 1), ("x&y", 2), ("z", 2)], &["map", "fib"], &["las", "steal"]);
        let picture = map::render(&report);
        assert_eq!(picture.matches("class=\"cell\"").count(), 12);
        assert!(picture.contains(">a&lt;b</text>") && picture.contains(">x&amp;y</text>"), "{picture}");
        assert_well_formed(&picture);
    }

    /// Tags are closed in their order, and attributes are in quotes.
    fn assert_well_formed(xml: &str) {
        let mut open: Vec<&str> = Vec::new();
        for part in xml.split('<').skip(1) {
            let (tag, text) = part.split_once('>').expect("a tag ends");
            assert!(!text.contains('>') && tag.matches('"').count().is_multiple_of(2), "{part}");
            let name = tag.split([' ', '/']).find(|word| !word.is_empty()).expect("a tag has a name");
            match (tag.starts_with('/'), tag.ends_with('/')) {
                (true, _) => assert_eq!(open.pop(), Some(name), "{part}"),
                (_, true) => {}
                _ => open.push(name),
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn a_grid_compares_each_time_with_the_best_of_the_others() {
        let args = |machine: &str| Args {
            machine: vec![machine.to_owned()],
            workload: vec!["map".to_owned(), "fib".to_owned()],
            strategy: vec!["las,steal,central".parse().unwrap()],
            learned: false,
            list: false,
            quick: true,
            seed: 3,
            seeds: None,
            share: Some(0.02),
            jitter: None,
            triples: 1,
            record: None,
            traces: None,
            svg: None,
            format: Format::Table,
        };
        let report = evaluate(&args("node:2 l3:1 core:4")).unwrap();
        assert_eq!(report.cells.len(), 6);
        for cells in report.cells.chunks(3) {
            for (own, cell) in cells.iter().enumerate() {
                let others = (0..3).filter(|at| *at != own).map(|at| cells[at].ms);
                let best = others.reduce(f64::min).unwrap();
                assert!(
                    (cell.ratio - cell.ms / best).abs() < 1e-12 && cell.nodes == 2 && cell.threads == 8,
                    "{cell:?}"
                );
            }
        }
        assert_eq!(report, evaluate(&args("node:2 l3:1 core:4")).unwrap(), "the same seed, the same grid");
        let learned = evaluate(&Args { learned: true, ..args("node:2 l3:1 core:4") }).unwrap();
        assert_eq!(learned.strategies.last().map(String::as_str), Some("learned"));
        for (cells, plain) in learned.cells.chunks(4).zip(report.cells.chunks(3)) {
            assert_eq!(&cells[..3], plain);
        }
        let wrong = Args { workload: vec!["maps".to_owned()], ..args("core:2") };
        let error = evaluate(&wrong).unwrap_err().to_string();
        assert!(error.starts_with("`maps` is no workload; there are map, reduction"), "{error}");
        let alone = Args { strategy: vec!["las".parse().unwrap()], ..args("core:2") };
        assert!(evaluate(&alone).unwrap_err().to_string().contains("expected at least two"));
    }
}
