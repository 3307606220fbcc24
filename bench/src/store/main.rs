//! Vicus' store on disk beside Oxigraph's on RocksDB and Jena's TDB2, in one run: loading, opening, updates that are
//! durable one by one, and queries, also after many updates.
//!
//! Each side is a process of its own, which may use the same CPUs, and sides take turns. A commit is on the disk when
//! an update has ended, on all sides: `engine.rs` and `oxigraph.rs` say how. Peers have their usual settings, a JVM its
//! usual heap.

mod engine;
mod oxigraph;
mod vicus;
mod work;

use ::vicus::Setting;
use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use vicus_bench::peer::{Answer, Peer, Query, Side};
use vicus_bench::piped::Piped;
use vicus_bench::queries::{self, Runs};
use vicus_bench::table::{self, Measured};
use vicus_bench::{cpus, java};
use vicus_testing::median;
use work::Work;

/// Stores on disk beside each other.
#[derive(Parser)]
struct Args {
    /// N-Triples, unpacked.
    #[arg(long, required_unless_present = "serve")]
    data: Option<PathBuf>,
    /// Where the stores lie while it runs: on the drive that is to be measured. By default beside this program.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// A folder of .sparql files.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../doors/cli/queries/sp2b"))]
    queries: PathBuf,
    /// The peers to compare with.
    #[arg(long, value_delimiter = ',', default_value = "oxigraph,tdb2")]
    peers: Vec<Name>,
    /// How often each time is taken, in turns; the medians count.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// How many updates of one triple come before the queries are asked again.
    #[arg(long, default_value_t = 100_000)]
    updates: usize,
    /// Seconds after which a side does the rest of these updates a thousand at a time.
    #[arg(long, default_value_t = 60)]
    updates_limit: u64,
    /// Seconds that a side has for its background work when these updates are done, before its store is closed.
    #[arg(long, default_value_t = 10)]
    rest: u64,
    /// How many CPUs to use; by default all that this process may use.
    #[arg(long)]
    threads: Option<usize>,
    /// The strategy of Vicus.
    #[arg(long, default_value = "las")]
    strategy: Setting,
    /// Seconds after which a query is cancelled.
    #[arg(long, default_value_t = 20.0)]
    limit: f64,
    /// Writes the results as an array of objects.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Is a side, for the process that compares.
    #[arg(long, hide = true, requires = "folder")]
    serve: Option<Name>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    Vicus,
    Oxigraph,
    Tdb2,
}

impl Name {
    fn text(self) -> &'static str {
        match self {
            Name::Vicus => "vicus",
            Name::Oxigraph => "oxigraph",
            Name::Tdb2 => "tdb2",
        }
    }
}

/// A store that is compared.
struct Store {
    name: Name,
    folder: PathBuf,
    command: Box<dyn Fn(&Path) -> Command>,
}

impl Store {
    fn start(&self) -> anyhow::Result<Piped> {
        Piped::start(&mut (self.command)(&self.folder)).with_context(|| self.name.text())
    }

    /// A process in which it is open.
    fn open(&self, point: &Path) -> anyhow::Result<(Piped, f64)> {
        let mut process = self.start()?;
        let (_, ms) = process.tell(&format!("open\t{}", point.display())).with_context(|| self.name.text())?;
        Ok((process, ms))
    }

    /// The bytes that the drive keeps for it. Files may have holes.
    fn bytes(&self) -> anyhow::Result<u64> {
        engine::files(&self.folder)?.iter().map(|file| Ok(std::fs::metadata(file)?.blocks() * 512)).sum()
    }

    /// Makes its folder an empty one.
    fn clear(&self) -> anyhow::Result<()> {
        if self.folder.exists() {
            std::fs::remove_dir_all(&self.folder)?;
        }
        Ok(std::fs::create_dir_all(&self.folder)?)
    }

    fn kept(&self) -> PathBuf {
        self.folder.with_extension("kept")
    }

    /// Keeps a copy of it as it is.
    fn keep(&self) -> anyhow::Result<()> {
        copy(&self.folder, &self.kept())
    }

    /// Makes it what was kept.
    fn restore(&self) -> anyhow::Result<()> {
        std::fs::remove_dir_all(&self.folder)?;
        copy(&self.kept(), &self.folder)
    }

    /// Makes the system forget what it has of the files in memory.
    fn forget(&self) -> anyhow::Result<()> {
        for file in engine::files(&self.folder)? {
            let file = std::fs::File::open(file)?;
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
        Ok(())
    }
}

/// Copies a folder. Holes in files stay holes.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let copied = Command::new("cp").args(["-r", "--sparse=always"]).arg(from).arg(to).status()?;
    ensure!(copied.success(), "{}: can't be copied ({copied})", from.display());
    Ok(())
}

/// A process that answers queries.
struct Asked(Piped);

impl Peer for Asked {
    fn ask(&mut self, query: &Query, limit: Duration) -> anyhow::Result<Answer> {
        let answer = self.0.ask(&format!("query\t{}\t{}", limit.as_millis(), query.path.display()), limit)?;
        answer.context("it did not keep to the limit")
    }
}

/// What was measured, a line for each thing.
#[derive(Default)]
struct Report(Vec<Value>);

impl Report {
    /// Prints a line: what Vicus has, and what each peer has, with Vicus' divided by the peer's.
    fn line(&mut self, name: &str, unit: &str, stores: &[Store], figures: &[f64]) {
        print!("{name:<34} {unit:>10} {:>12.2}", figures[0]);
        for (store, theirs) in stores.iter().zip(figures).skip(1) {
            print!(" {theirs:>12.2} {:>8.3}", figures[0] / theirs);
            self.0.push(json!({
                "name": name, "unit": unit, "ours": figures[0], "peer": store.name.text(), "theirs": theirs,
                "ratio": figures[0] / theirs,
            }));
        }
        println!();
    }
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let cpus = cpus::pin(args.threads)?;
    if let Some(name) = args.serve {
        let folder = args.folder.as_deref().context("it has a folder")?;
        return match name {
            Name::Vicus => engine::serve(&mut vicus::Vicus::of(folder, cpus.len(), args.strategy)?, folder),
            Name::Oxigraph => engine::serve(&mut oxigraph::Oxigraph::of(folder), folder),
            Name::Tdb2 => anyhow::bail!("TDB2 is served by Java"),
        };
    }
    ensure!(args.repeats > 0, "--repeats takes a number from 1");
    let limit = Duration::try_from_secs_f64(args.limit).context("--limit takes seconds")?;
    let data = args.data.as_deref().context("it is required")?.canonicalize()?;
    let queries = queries::read(&args.queries)?;
    let parent = args.folder.clone().unwrap_or_else(|| java::folder().with_file_name("stores"));
    std::fs::create_dir_all(&parent).with_context(|| parent.display().to_string())?;
    let scratch = tempfile::Builder::new().prefix("vicus-bench-store-").tempdir_in(&parent)?;
    println!("every side may use the CPUs {cpus:?}; stores lie in {}; medians of {}", parent.display(), args.repeats);
    println!("all sides sync each commit: Vicus and TDB2 do; RocksDB is told to, as Oxigraph does not");
    let work = Work::of(&data, scratch.path(), args.updates)?;
    let stores = stores(&args, scratch.path(), cpus.len())?;
    print!("\n{:<34} {:>10} {:>12}", "", "", "vicus");
    stores[1..].iter().for_each(|store| print!(" {:>12}    ratio", store.name.text()));
    println!();

    let mut report = Report::default();
    load(&stores, &data, &args, &mut report)?;
    stores.iter().try_for_each(Store::keep)?;
    open(&stores, &work, &args, &mut report)?;
    updates(&stores, &work, scratch.path(), &args, &mut report)?;
    stores.iter().try_for_each(Store::restore)?;
    let runs = Runs { warm_up: 3, repeats: args.repeats, limit };
    let before = ask(&stores, &work, &queries, runs, "the store as loaded", &mut report)?;
    many(&stores, &work, &args)?;
    let after = ask(&stores, &work, &queries, runs, "the same data after the updates", &mut report)?;
    slower(&stores, &before, &after);
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report.0)? + "\n";
        std::fs::write(path, text).with_context(|| format!("{}: can't be written", path.display()))?;
    }
    Ok(())
}

/// Vicus, and the peers that can run here; prints why the others can't.
fn stores(args: &Args, scratch: &Path, threads: usize) -> anyhow::Result<Vec<Store>> {
    let program = std::env::current_exe()?;
    let strategy = args.strategy.to_string();
    let mut stores = Vec::new();
    for name in [Name::Vicus].into_iter().chain(args.peers.iter().copied().filter(|name| *name != Name::Vicus)) {
        let (program, strategy) = (program.clone(), strategy.clone());
        let command: Box<dyn Fn(&Path) -> Command> = if name == Name::Tdb2 {
            let jars = java::folder();
            if let Err(error) = java::build(&jars) {
                println!("SKIPPED tdb2: {error:#}");
                continue;
            }
            Box::new(move |folder| {
                let mut command = java::command(&jars, "StorePeer");
                command.arg(folder);
                command
            })
        } else {
            Box::new(move |folder| {
                let mut command = Command::new(&program);
                command.args(["--serve", name.text(), "--strategy", &strategy, "--threads", &threads.to_string()]);
                command.arg("--folder").arg(folder);
                command
            })
        };
        stores.push(Store { name, folder: scratch.join(name.text()), command });
    }
    Ok(stores)
}

/// Makes all stores, as often as is said; the last ones stay.
fn load(stores: &[Store], data: &Path, args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let mut rates = vec![Vec::new(); stores.len()];
    let mut memory = vec![Vec::new(); stores.len()];
    let mut counts = vec![0; stores.len()];
    for _ in 0..args.repeats {
        for (place, store) in stores.iter().enumerate() {
            store.clear()?;
            let mut process = store.start()?;
            let (triples, ms) = process.tell(&format!("load\t{}", data.display()))?;
            rates[place].push(triples as f64 / ms * 1e3);
            memory[place].push(most_resident(process.id())? as f64 / f64::from(1 << 20));
            counts[place] = triples;
        }
    }
    let medians = |of: &[Vec<f64>]| of.iter().map(|times| median(times)).collect::<Vec<_>>();
    report.line("load", "triples/s", stores, &medians(&rates));
    report.line("load, most memory", "MiB", stores, &medians(&memory));
    let sizes = stores.iter().zip(&counts).map(|(store, triples)| Ok(store.bytes()? as f64 / *triples as f64));
    report.line("on disk, a triple", "bytes", stores, &sizes.collect::<anyhow::Result<Vec<_>>>()?);
    for (store, count) in stores.iter().zip(&counts).filter(|(_, count)| **count != counts[0]) {
        println!("{} has read {count} triples, Vicus has {}", store.name.text(), counts[0]);
    }
    Ok(())
}

/// The most memory that a process has had at once.
fn most_resident(process: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("Linux says how much")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? << 10)
}

/// Opens all stores, first with their files not in memory.
fn open(stores: &[Store], work: &Work, args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let (mut cold, mut warm) = (vec![Vec::new(); stores.len()], vec![Vec::new(); stores.len()]);
    for _ in 0..args.repeats {
        for (place, store) in stores.iter().enumerate() {
            store.forget()?;
            cold[place].push(store.open(&work.point)?.1);
            warm[place].push(store.open(&work.point)?.1);
        }
    }
    let medians = |of: &[Vec<f64>]| of.iter().map(|times| median(times)).collect::<Vec<_>>();
    // The programs are in memory; a JVM loads and compiles its classes meanwhile.
    report.line("open to first answer, files cold", "ms", stores, &medians(&cold));
    report.line("open to first answer, files warm", "ms", stores, &medians(&warm));
    Ok(())
}

/// Updates that are durable one by one, beside bare writes; updates of many threads; and one update of many triples.
fn updates(stores: &[Store], work: &Work, scratch: &Path, args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let hour = Duration::from_secs(3600).as_millis();
    let open = |store: &Store| Ok(store.open(&work.point)?.0);
    let mut processes = stores.iter().map(open).collect::<anyhow::Result<Vec<Piped>>>()?;
    let medians = |of: &[Vec<f64>]| of.iter().map(|times| median(times)).collect::<Vec<_>>();
    let (mut bare, mut one) = (Vec::new(), vec![Vec::new(); stores.len()]);
    let mut rates = vec![Vec::new(); stores.len()];
    let mut many = vec![Vec::new(); stores.len()];
    // In short pieces, since a drive's speed changes.
    for piece in 0..4 * args.repeats {
        bare.push(bare_write_us(&scratch.join("bare"), work::SINGLES)?);
        for (place, process) in processes.iter_mut().enumerate() {
            let file = work.singles(piece)?;
            let (done, ms) = process.tell(&format!("update\t1\t1\t{hour}\t{}", file.display()))?;
            one[place].push(ms * 1e3 / done as f64);
        }
    }
    for repeat in 0..args.repeats {
        for (place, process) in processes.iter_mut().enumerate() {
            let file = work.crowd(repeat)?;
            let (done, ms) = process.tell(&format!("update\t16\t1\t2000\t{}", file.display()))?;
            rates[place].push(done as f64 / ms * 1e3);
        }
        for (place, process) in processes.iter_mut().enumerate() {
            // There and back, so that the data stays as it is.
            for file in &work.large {
                let (_, ms) = process.tell(&format!("update\t1\t1\t{hour}\t{}", file.display()))?;
                many[place].push(work.touched as f64 / ms * 1e3);
            }
        }
    }
    report.line("INSERT DATA, durable", "us", stores, &medians(&one));
    let bare = median(&bare);
    println!(
        "{:<34} {:>10} {bare:>12.2}   vicus takes {:.3} times that",
        "write and fdatasync",
        "us",
        median(&one[0]) / bare
    );
    report.0.push(json!({
        "name": "INSERT DATA, durable", "unit": "us", "ours": median(&one[0]), "peer": "write and fdatasync",
        "theirs": bare,
        "ratio": median(&one[0]) / bare,
    }));
    report.line("INSERT DATA, 16 writers", "updates/s", stores, &medians(&rates));
    let name = format!("DELETE/INSERT of {} triples", work.touched);
    report.line(&name, "triples/s", stores, &medians(&many));
    Ok(())
}

/// How long it takes to write as many bytes as a small commit has, behind those before, and to have them on the drive.
fn bare_write_us(path: &Path, count: usize) -> anyhow::Result<f64> {
    let file = std::fs::File::create(path)?;
    let record = [0x5A_u8; 168];
    let began = Instant::now();
    for number in 0..count {
        file.write_all_at(&record, (number * record.len()) as u64)?;
        file.sync_data()?;
    }
    let us = began.elapsed().as_secs_f64() * 1e6 / count as f64;
    std::fs::remove_file(path)?;
    Ok(us)
}

/// Asks all queries of newly opened stores.
fn ask(
    stores: &[Store],
    work: &Work,
    queries: &[Query],
    runs: Runs,
    what: &str,
    report: &mut Report,
) -> anyhow::Result<Vec<(String, Vec<Measured>)>> {
    let side = |store: &Store| {
        let (process, ms) = store.open(&work.point)?;
        Ok(Side { name: store.name.text(), peer: Box::new(Asked(process)), load_ms: ms, triples: work.triples })
    };
    let mut sides = stores.iter().map(side).collect::<anyhow::Result<Vec<Side>>>()?;
    println!("\nqueries, {what}:");
    table::print_head(&sides);
    let mut results = Vec::new();
    for query in queries {
        let measured = queries::measure(&mut sides, query, runs);
        table::print_line(&query.name, &measured);
        results.push((query.name.clone(), measured));
    }
    table::print_end(&sides, &results);
    for mut line in table::json_of(&sides, &results) {
        line["name"] = json!(format!("{}, {what}", line["name"].as_str().unwrap_or_default()));
        report.0.push(line);
    }
    Ok(results)
}

/// Stores of other data that become the same by many updates of one triple each, on 16 threads. A side that is not done
/// in time does the rest in large updates.
fn many(stores: &[Store], work: &Work, args: &Args) -> anyhow::Result<()> {
    println!("\n{} updates of one triple each, 16 at a time:", args.updates);
    for store in stores {
        store.clear()?;
        store.start()?.tell(&format!("load\t{}", work.changed.display()))?;
        let (mut process, _) = store.open(&work.point)?;
        let (file, limit) = (work.many.display(), args.updates_limit * 1000);
        let (done, ms) = process.tell(&format!("update\t16\t1\t{limit}\t{file}"))?;
        let rate = done as f64 / ms * 1e3;
        print!("{:<10} {rate:>10.0}/s", store.name.text());
        if (done as usize) < args.updates {
            let rest = work.rest(done as usize)?;
            process.tell(&format!("update\t1\t1000\t{}\t{}", u32::MAX, rest.display()))?;
            print!("; {done} of them in the time, the rest by thousands");
        }
        println!();
        // Background work of a side, merging or compacting, ends meanwhile.
        std::thread::sleep(Duration::from_secs(args.rest));
    }
    Ok(())
}

/// How much slower each side answers after the updates.
fn slower(stores: &[Store], before: &[(String, Vec<Measured>)], after: &[(String, Vec<Measured>)]) {
    println!("\ntimes after the updates, divided by those before:");
    for (place, store) in stores.iter().enumerate() {
        let ratios = before.iter().zip(after).filter_map(|((name, before), (_, after))| {
            let (before, after) = before[place].ms().zip(after[place].ms())?;
            Some((name, after / before))
        });
        let mut ratios: Vec<_> = ratios.collect();
        ratios.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let mean = (ratios.iter().map(|(_, ratio)| ratio.ln()).sum::<f64>() / ratios.len().max(1) as f64).exp();
        let shown: Vec<String> = ratios.iter().map(|(name, ratio)| format!("{name} {ratio:.2}")).collect();
        println!("  {:9} mean {mean:.3}: {}", store.name.text(), shown.join(", "));
    }
}
