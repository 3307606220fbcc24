//! Queries over data changed by single updates, beside the same data loaded at once.
//!
//! The changed data is made so: of the loaded data, some quads by chance are left out, and the rest becomes a base with
//! a dictionary of its own; then they are inserted, each by an update. With `--replacing`, other quads stand in for
//! them first, and every second update deletes one of those. So all have the same quads, and answers are compared.
//!
//! With `--store`, the same is done to stores on disk, each update durable: to one left alone, opened again and then
//! merged, and to one with a merger that merges in the background. They stand beside a store loaded at once.

use super::measure::{self, Outcome};
use super::queries;
use crate::arguments::RuntimeArgs;
use anyhow::{Context, ensure};
use oxrdf::{GraphName, NamedNode, NamedOrBlankNode, Quad, Term};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::RngCore;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use vicus_rdf::{Backing, Changes, Id, Order, Snapshot};
use vicus_service::{Dataset, PlanOptions, Service, create_store, open_store};
use vicus_testing::median;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The data, as for `vicus query`.
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    data: Vec<String>,
    /// A folder of .sparql files; by default the 17 queries of SP2Bench.
    #[arg(long, value_name = "FOLDER")]
    queries: Option<PathBuf>,
    /// How many updates of one quad there are; several numbers are measured one after the other.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [4_000, 100_000],
        value_parser = measure::count)]
    changes: Vec<usize>,
    /// Every second update deletes a quad that stands in for one of the next update. Otherwise all insert.
    #[arg(long)]
    replacing: bool,
    /// Measure stores on disk as well, in folders made in this one and removed afterwards.
    #[arg(long, value_name = "FOLDER")]
    store: Option<PathBuf>,
    /// Ask these only, by their names in the table; by default all.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// The seed for the choice of these quads.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    runtime: RuntimeArgs,
    /// How often each query is asked; the medians are shown.
    #[arg(long, default_value_t = 15, value_parser = measure::count)]
    repeats: usize,
}

/// Data, and updates of one quad each that turn it into the loaded data.
struct Work {
    base: Snapshot,
    /// Whether a quad shall be there.
    updates: Vec<(Quad, bool)>,
}

impl Work {
    fn new(all: &Snapshot, args: &Args, updates: usize) -> anyhow::Result<Work> {
        let index = all.index(Order::Gspo);
        let count = if args.replacing { updates.div_ceil(2) } else { updates };
        ensure!(count <= index.len(), "{updates} changes of {} quads", index.len());
        let mut chance = Pcg64::new(u128::from(args.seed), 0xcafe_f00d_d15e_a5e5);
        let mut below = |end: usize| (chance.next_u64() % end as u64) as usize;
        let mut left = count;
        let mut base = Changes::of(all);
        for (place, quad) in index.quads(0..index.len()).enumerate() {
            // Selects `left` of the remaining quads.
            if below(index.len() - place) < left {
                base.deletes.push(quad);
                left -= 1;
            }
        }
        let mut quads = base.deletes.iter().map(|&quad| quad_of(all, quad)).collect::<anyhow::Result<Vec<_>>>()?;
        // Not in the order of the index.
        for place in (1..quads.len()).rev() {
            quads.swap(place, below(place + 1));
        }
        let mut made = Vec::with_capacity(updates);
        for quad in quads {
            if args.replacing {
                let other = Quad { subject: other(&quad.subject).into(), ..quad.clone() };
                let subject = base.id(all, other.subject.as_ref().into())?;
                let [predicate, object] =
                    [quad.predicate.as_ref().into(), quad.object.as_ref()].map(|term| all.id(term).unwrap_or_default());
                let graph = match &quad.graph_name {
                    GraphName::DefaultGraph => Id::UNBOUND,
                    GraphName::NamedNode(node) => all.id(node.as_ref().into()).unwrap_or_default(),
                    GraphName::BlankNode(node) => all.id(node.as_ref().into()).unwrap_or_default(),
                };
                base.inserts.push([subject, predicate, object, graph]);
                made.push((other, false));
            }
            made.push((quad, true));
        }
        let base = Snapshot::united(&[&all.with(base)?], &Backing::Memory, &mut || {})?;
        Ok(Work { base, updates: made })
    }

    /// The data after the updates, in memory.
    fn done(&self) -> anyhow::Result<Snapshot> {
        let mut made: Option<Snapshot> = None;
        let start = Instant::now();
        for (quad, there) in &self.updates {
            let before = made.as_ref().unwrap_or(&self.base);
            let mut changes = Changes::of(before);
            let graph = match &quad.graph_name {
                GraphName::DefaultGraph => Id::UNBOUND,
                GraphName::NamedNode(node) => changes.id(before, node.as_ref().into())?,
                GraphName::BlankNode(node) => changes.id(before, node.as_ref().into())?,
            };
            let quad = [
                changes.id(before, quad.subject.as_ref().into())?,
                changes.id(before, quad.predicate.as_ref().into())?,
                changes.id(before, quad.object.as_ref())?,
                graph,
            ];
            if *there { &mut changes.inserts } else { &mut changes.deletes }.push(quad);
            made = Some(before.with(changes)?);
        }
        self.say(start, "without the disk");
        made.context("there are updates")
    }

    /// The data after the updates of a store in this folder: beside a merger, or as it is then, opened again, and
    /// merged.
    fn of_store(&self, folder: &Path, merger: Option<&Service>) -> anyhow::Result<Vec<Dataset>> {
        let _ = std::fs::remove_dir_all(folder);
        let store = create_store(folder)?;
        store.load(Snapshot::united(&[&self.base], &Backing::Memory, &mut || {})?, &mut |_| {})?;
        drop(store);
        let store = Arc::new(open_store(folder)?);
        let merger = merger.map(|service| service.keep(&store)).transpose()?;
        let (start, mut longest) = (Instant::now(), 0.0_f64);
        for (quad, there) in &self.updates {
            let start = Instant::now();
            let mut transaction = store.write()?;
            match there {
                true => transaction.insert_quad(quad.as_ref())?,
                false => transaction.delete_quad(quad.as_ref())?,
            }
            transaction.commit()?;
            longest = longest.max(start.elapsed().as_secs_f64());
        }
        let after = store.snapshot();
        self.say(start, if merger.is_some() { "in a store that is kept" } else { "in a store" });
        say_line!("  the longest {:.1} ms, {} changes are not merged", longest * 1e3, after.change_count());
        let mut made = vec![Dataset::new(after)];
        if let Some(merger) = merger {
            say_line!("  {} merges", merger.kept().merges);
            return Ok(made);
        }
        drop(store);
        let start = Instant::now();
        let store = open_store(folder)?;
        say_line!("  opened again in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        made.push(Dataset::new(store.snapshot()));
        let start = Instant::now();
        store.merge(&mut |_| {})?;
        say_line!("  merged in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        made.push(Dataset::new(store.snapshot()));
        Ok(made)
    }

    fn say(&self, start: Instant, how: &str) {
        let each = start.elapsed().as_secs_f64() * 1e6 / self.updates.len() as f64;
        say_line!("\n{} updates one by one, each in {each:.1} us {how}", self.updates.len());
    }
}

/// Another subject, with this one's missing quads.
fn other(subject: &NamedOrBlankNode) -> NamedNode {
    NamedNode::new_unchecked(match subject {
        NamedOrBlankNode::NamedNode(node) => format!("{}/other", node.as_str()),
        NamedOrBlankNode::BlankNode(node) => format!("http://example.org/other/{}", node.as_str()),
    })
}

/// A quad of a snapshot by its terms.
fn quad_of(all: &Snapshot, [s, p, o, g]: [Id; 4]) -> anyhow::Result<Quad> {
    let subject = match all.term(s) {
        Term::NamedNode(node) => node.into(),
        Term::BlankNode(node) => NamedOrBlankNode::from(node),
        other => anyhow::bail!("{other} is no subject"),
    };
    let Term::NamedNode(predicate) = all.term(p) else { anyhow::bail!("a predicate that is no IRI") };
    let graph = match g.is_unbound() {
        true => GraphName::DefaultGraph,
        false => match all.term(g) {
            Term::NamedNode(node) => node.into(),
            Term::BlankNode(node) => node.into(),
            other => anyhow::bail!("{other} is no graph"),
        },
    };
    Ok(Quad::new(subject, predicate, all.term(o), graph))
}

/// Data to ask, and the name of the data it is compared with.
struct Side {
    name: &'static str,
    beside: Option<&'static str>,
    data: Dataset,
}

/// A folder for stores, with its contents.
struct Stores(PathBuf);

impl Drop for Stores {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn sides(work: &Work, loaded: &Dataset, stores: Option<&Stores>, service: &Service) -> anyhow::Result<Vec<Side>> {
    let side = |name, beside, data| Side { name, beside, data };
    let mut sides = vec![
        side("loaded", None, loaded.clone()),
        side("changed", Some("loaded"), Dataset::new(Arc::new(work.done()?))),
    ];
    let Some(Stores(folder)) = stores else { return Ok(sides) };
    let path = folder.join("loaded");
    if !path.exists() {
        create_store(&path)?
            .load(Snapshot::united(&[loaded.snapshot()], &Backing::Memory, &mut || {})?, &mut |_| {})?;
    }
    sides.push(side("stored", Some("loaded"), Dataset::new(open_store(&path)?.snapshot())));
    let left_alone = work.of_store(&folder.join("alone"), None)?;
    for (name, data) in ["updated", "replayed", "merged"].into_iter().zip(left_alone) {
        sides.push(side(name, Some("stored"), data));
    }
    let kept = work.of_store(&folder.join("kept"), Some(service))?;
    sides.extend(kept.into_iter().map(|data| side("kept", Some("stored"), data)));
    Ok(sides)
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Outcome>> {
    let service = args.runtime.serve(args.runtime.builder()?)?;
    let queries = queries::queries(args.queries.as_deref())?;
    let loaded = queries::load(&service, &args.data)?.dataset;
    let make = |folder: &PathBuf| -> anyhow::Result<Stores> {
        let stores = folder.join(format!("vicus-bench-changed-{}", std::process::id()));
        std::fs::create_dir(&stores).with_context(|| format!("{}: can't be made", stores.display()))?;
        Ok(Stores(stores))
    };
    let stores = args.store.as_ref().map(make).transpose()?;
    let mut results = Vec::new();
    for &count in &args.changes {
        let work = Work::new(loaded.snapshot(), args, count)?;
        let mut sides = sides(&work, &loaded, stores.as_ref(), &service)?;
        drop(work);
        if !args.only.is_empty() {
            sides.retain(|side| args.only.iter().any(|name| name == side.name));
        }
        ensure!(!sides.is_empty(), "none of {:?} is measured", args.only);
        let titles: Vec<String> = sides.iter().map(|side| format!("{:>9}", side.name)).collect();
        say_line!("query        rows  {}   (ms, and times that of what it is compared with)", titles.join("      "));
        for query in &queries {
            let times = ask(&service, &sides, query, args.repeats)?;
            let mut line = format!("{:6} {:>10}  ", query.name, times.1);
            for (side, ms) in sides.iter().zip(&times.0) {
                let beside = sides.iter().position(|other| Some(other.name) == side.beside);
                let ratio = beside.map(|beside| ms / times.0[beside]);
                line += &format!("{ms:>9.3} {:5}", ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")));
                if let Some(beside) = beside {
                    let name = format!("{} {} after {count} changes", query.name, side.name);
                    results.push(Outcome::new(name, "ms", *ms, sides[beside].name, times.0[beside]));
                }
            }
            say_line!("{}", line.trim_end());
        }
    }
    Ok(results)
}

/// The median times of each side, and the number of rows.
fn ask(service: &Service, sides: &[Side], query: &queries::Query, repeats: usize) -> anyhow::Result<(Vec<f64>, u64)> {
    let (mut times, mut rows) = (vec![Vec::new(); sides.len()], vec![0; sides.len()]);
    // The first time, pages are checked and often-read data is copied.
    for repeat in 0..=repeats {
        for place in 0..sides.len() {
            // The first side changes each time.
            let side = (place + repeat) % sides.len();
            let run = queries::run(service, &sides[side].data, query, &PlanOptions::default(), 1)?;
            if repeat > 0 {
                times[side].push(run.ms);
            }
            rows[side] = run.rows;
        }
    }
    ensure!(rows.iter().all(|&count| count == rows[0]), "query {}: {rows:?} rows", query.name);
    Ok((times.iter().map(|times| median(times)).collect(), rows[0]))
}
