//! Checks numbers of rows against a table of known ones: every file and query, with several strategies and numbers of
//! threads, many times in a row. Not a measurement, but too long for a test.

use super::{measure, queries};
use crate::engine;
use anyhow::{Context, ensure};
use std::path::PathBuf;
use vicus::Runtime;
use vicus::kit::Settings;
use vicus_service::PlanOptions;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A table: after a line of names (file, then queries) a line for each file, with tabs; yes and no for ASK.
    #[arg(long, value_name = "FILE")]
    counts: PathBuf,
    /// The folder of the files.
    #[arg(long, value_name = "FOLDER")]
    data: PathBuf,
    /// Threads to try.
    #[arg(long, value_delimiter = ',', default_value = "1,2,8", value_parser = measure::threads)]
    threads: Vec<usize>,
    /// Strategies to try, a list such as las,nls:spares=2; by default those of VICUS_STRATEGY, else las,nls.
    #[arg(long, num_args = 1.., value_name = "LIST")]
    strategy: Vec<Settings>,
    /// How often in a row.
    #[arg(long, default_value_t = 20, value_parser = measure::count)]
    repeats: usize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let strategies = crate::strategy::several(&args.strategy, "las,nls")?;
    args.threads.iter().try_for_each(|&threads| engine::check_threads(Some(threads)))?;
    let text =
        std::fs::read_to_string(&args.counts).with_context(|| format!("{}: can't be read", args.counts.display()))?;
    let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let names: Vec<&str> = lines.next().context("the table is empty")?.split('\t').skip(1).collect();
    let all = queries::queries(None)?;
    let mut compared = 0;
    for line in lines {
        let (file, counts) = line.split_once('\t').context("a line has a file and counts, with tabs between them")?;
        let path = args.data.join(file).to_string_lossy().into_owned();
        let loader = engine::serve(Runtime::builder(), None)?;
        let dataset = queries::load(&loader, &[path])?.dataset;
        drop(loader);
        for strategy in &strategies {
            for &threads in &args.threads {
                let service = engine::serve(Runtime::builder().strategy(strategy.clone()).quiet(), Some(threads))?;
                for repeat in 1..=args.repeats {
                    for (name, expected) in names.iter().zip(counts.split('\t')) {
                        let query = all.iter().find(|query| query.name == *name);
                        let query = query.with_context(|| format!("there is no query {name}"))?;
                        let rows = queries::run(&service, &dataset, query, &PlanOptions::default(), 1)?.rows;
                        let right = match expected {
                            "yes" => rows > 0,
                            "no" => rows == 0,
                            count => rows == count.parse::<u64>()?,
                        };
                        let run = format!("{file}, {name}, {strategy}, {threads} threads, repeat {repeat}");
                        ensure!(right, "{run}: {rows} rows, expected {expected}");
                        compared += 1;
                    }
                }
            }
        }
        say_line!("{file}: right");
    }
    say_line!("{compared} results compared, all right");
    Ok(())
}
