//! The network, and the boxes after the parsers: from pieces to a snapshot.

use super::handover::{Handover, each, gather};
use super::text::{self, Piece};
use super::{LoadState, Phase};
use crate::characteristic::CharacteristicSets;
use crate::ids::Id;
use crate::index::{Index, Order};
use crate::interrupt::Interrupt;
use crate::load::segment::{AssembledSegments, Segment, SpilledRuns, Table, assemble_segments, index_of_spilled};
use crate::load::{
    Assembled, AssembledTerms, CompressedKeys, Cut, KeyRange, MergedTerms, NumberedQuads, Numbering, SortedRun,
    SortedTerms, assemble, cut_runs, cut_terms, derive_runs, index, join_keys, merge_runs, merge_terms, remap,
};
use crate::placement::StorePlacement;
use crate::snapshot::Snapshot;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use vicus_files::Scratch;
use vicus_files::scratch::Bundle;
use vicus_flow::library::HashKey;
use vicus_flow::{Bound, BoxId, BoxModel, Envelope, Grow, Model, ModelBuilder, NoMemory, Turn};

/// The greatest number of terms or rows in a part. Merging one takes some tens of milliseconds; other requests run, and
/// a cancellation takes effect, between two parts.
const PART: usize = 1 << 20;

/// A part of all terms, to be merged.
struct TermPart {
    terms: Arc<Vec<SortedTerms>>,
    ranges: Vec<Range<usize>>,
}

/// All that was parsed.
enum Everything {
    /// All terms, and the quads of each piece.
    InMemory {
        terms: Arc<Vec<SortedTerms>>,
        quads: Vec<NumberedQuads>,
    },
    Spilled(Vec<Segment>, Arc<Scratch>),
}

/// The greatest number of keys in a part.
const PART_OF_KEYS: usize = 1 << 16;

/// A part of the keys, to be compressed.
struct KeyPart {
    terms: Arc<AssembledTerms>,
    part: KeyRange,
}

/// Quads of local numbers, and the table from local to global numbers.
enum Local {
    InMemory {
        quads: NumberedQuads,
        table: Vec<u32>,
    },
    /// And where their runs go.
    Spilled(Segment, Table, Arc<Bundle>),
}

impl Local {
    fn len(&self) -> usize {
        match self {
            Local::InMemory { quads, .. } => quads.len(),
            Local::Spilled(segment, ..) => segment.quad_count(),
        }
    }
}

/// Quads of numbers.
enum Sorted {
    InMemory(SortedRun),
    /// In all orders.
    Spilled(SpilledRuns, Arc<Scratch>),
}

/// A part of all runs, to be merged.
struct RunPart {
    runs: Arc<Vec<SortedRun>>,
    cuts: Vec<Cut>,
}

/// All quads.
#[derive(Clone)]
enum Runs {
    /// In the order Gspo, from which the index in another order is made.
    InMemory(Arc<Vec<SortedRun>>),
    /// Those of each segment in each order.
    Spilled(Arc<Vec<SpilledRuns>>, Arc<Scratch>),
}

impl Runs {
    fn new(all: Vec<Sorted>) -> Runs {
        let (mut runs, mut spilled, mut place) = (Vec::new(), Vec::new(), None);
        for sorted in all {
            match sorted {
                Sorted::InMemory(run) => runs.push(run),
                Sorted::Spilled(runs, scratch) => {
                    spilled.push(runs);
                    place = Some(scratch);
                }
            }
        }
        match place {
            None => Runs::InMemory(Arc::new(runs)),
            Some(scratch) => {
                assert!(runs.is_empty(), "all or none is spilled");
                Runs::Spilled(Arc::new(spilled), scratch)
            }
        }
    }
}

/// The parts of an index.
struct IndexOf {
    order: Order,
    runs: Runs,
    numbering: Arc<Numbering>,
    rdf_type: Option<Id>,
    by: HashKey,
    over: Option<StorePlacement>,
}

/// The network for these numbers of readers and workers, and these orders.
pub(super) fn network(shared: &Arc<LoadState>, readers: usize, workers: usize, orders: &[Order]) -> Arc<Model> {
    let mut net = ModelBuilder::new("load");
    // For vias of text: a handle's own bytes don't tell the size of the text.
    let one = Bound { envelopes: 1, bytes: u64::MAX };

    let (texts, pieces) = (Handover::new(), Handover::new());
    let loads: Arc<[AtomicUsize]> = (0..workers).map(|_| AtomicUsize::new(0)).collect();
    let deal = net.add(text::deal(readers, &loads));
    let term_parts = Handover::new();
    let everything = Handover::new();
    let cut_terms = net.add(cut_terms_box(shared, workers + readers, workers, &pieces, &term_parts, &everything));
    for number in 0..readers {
        let read = net.source(text::read(shared, &texts, &pieces, number == 0));
        net.connect(read.output(0), deal.input(number)).bound(one);
        net.connect(read.output(1), cut_terms.input(workers + number));
    }
    for number in 0..workers {
        let parse = net.add(text::parse(shared, &texts, &pieces, &loads, number));
        net.connect(deal.output(number), parse.input(0)).bound(one);
        net.connect(parse.output(0), cut_terms.input(number));
    }

    let (merged_terms, locals, numberings, key_parts) =
        (Handover::new(), Handover::new(), Handover::new(), Handover::new());
    let assemble = {
        let (shared, merged, everything) = (Arc::clone(shared), merged_terms.clone(), everything.clone());
        let (locals, numberings, key_parts) = (locals.clone(), numberings.clone(), key_parts.clone());
        net.add(gather("assemble", workers + 1, 2 * workers + 1, move |mut came, turn| {
            let everything = everything.take(&came.pop().expect("the last input")[0]);
            let (all, numbering, mut pairs) = match everything {
                Everything::InMemory { terms, quads } => {
                    let parts = in_turn(came).iter().map(|part| merged.take(part)).collect();
                    let terms = Arc::into_inner(terms).expect("no merge uses the terms any more");
                    let Assembled { terms: all, numbering, tables } = assemble(terms, parts)?;
                    let pair = |(quads, table)| Local::InMemory { quads, table };
                    (all, numbering, quads.into_iter().zip(tables).map(pair).collect::<Vec<Local>>())
                }
                Everything::Spilled(segments, scratch) => {
                    let assembled = assemble_segments(&segments, &scratch, &|| turn.is_stopped())?;
                    let Some(AssembledSegments { terms: all, numbering, tables }) = assembled else { return Ok(()) };
                    let runs = Arc::new(Bundle::new(scratch));
                    let pair = |(segment, table)| Local::Spilled(segment, table, Arc::clone(&runs));
                    (all, numbering, segments.into_iter().zip(tables).map(pair).collect())
                }
            };
            shared.progress.enter(Phase::Triples);
            // The longest first, each to the box with the least work.
            pairs.sort_by_key(|local| std::cmp::Reverse(local.len()));
            let mut loads = vec![0; workers];
            for local in pairs {
                let to = (0..workers).min_by_key(|&to| loads[to]).expect("there is a worker");
                loads[to] += local.len();
                turn.send(to, locals.put(local));
            }
            turn.send(workers, numberings.put((numbering, all.rdf_type())));
            let all = Arc::new(all);
            for (number, part) in all.cut(PART_OF_KEYS).into_iter().enumerate() {
                turn.send(workers + 1 + number % workers, key_parts.put(KeyPart { terms: Arc::clone(&all), part }));
            }
            Ok(())
        }))
    };
    let merge_terms = |part: TermPart, _: &Turn<'_>| merge_terms(&part.terms, &part.ranges).map(Some);
    side_by_side(&mut net, workers, cut_terms, assemble, || {
        each::<TermPart, MergedTerms>("merge terms", &term_parts, &merged_terms, merge_terms)
    });
    net.connect(cut_terms.output(workers), assemble.input(workers));

    let (runs, run_parts, merged_runs, jobs) = (Handover::new(), Handover::new(), Handover::new(), Handover::new());
    let cut_runs = net.add(cut_runs_box(workers, &runs, &run_parts, &merged_runs));
    side_by_side(&mut net, workers, assemble, cut_runs, || {
        let orders = orders.to_vec();
        each("sort", &locals, &runs, move |local: Local, turn: &Turn<'_>| sort(local, &orders, turn))
    });

    let gather_runs = {
        let (shared, merged, numberings, jobs) =
            (Arc::clone(shared), merged_runs.clone(), numberings.clone(), jobs.clone());
        let orders = orders.to_vec();
        net.add(gather("gather runs", workers + 2, orders.len(), move |mut came, turn| {
            let (numbering, rdf_type) = numberings.take(&came.pop().expect("the last input")[0]);
            let numbering = Arc::new(numbering);
            let alone = came.pop().expect("the input before");
            let runs = Runs::new(alone.into_iter().chain(in_turn(came)).map(|part| merged.take(&part)).collect());
            shared.progress.enter(Phase::Indexes);
            for (output, &order) in orders.iter().enumerate() {
                let (runs, numbering, over) = (runs.clone(), Arc::clone(&numbering), shared.over.clone());
                let by = HashKey::of_seed(shared.hash_seed);
                let job = IndexOf { order, runs, numbering, rdf_type, by, over };
                turn.send(output, jobs.put(job));
            }
            Ok(())
        }))
    };
    let merge_runs = |part: RunPart, _: &Turn<'_>| Ok(Some(Sorted::InMemory(merge_runs(&part.runs, &part.cuts)?)));
    side_by_side(&mut net, workers, cut_runs, gather_runs, || {
        each::<RunPart, Sorted>("merge runs", &run_parts, &merged_runs, merge_runs)
    });
    net.connect(cut_runs.output(workers), gather_runs.input(workers));
    net.connect(assemble.output(workers), gather_runs.input(workers + 1));

    let (indexes, compressed) = (Handover::new(), Handover::new());
    let snapshot = {
        let (shared, indexes, compressed) = (Arc::clone(shared), indexes.clone(), compressed.clone());
        let indexes_come = orders.len();
        net.add(gather("snapshot", indexes_come + workers, 1, move |mut came, _| {
            let keys = in_turn(came.split_off(indexes_come));
            let mut dictionary = join_keys(keys.iter().map(|part| compressed.take(part)))?;
            shared.over.iter().for_each(|over| dictionary.lay(over));
            let (indexes, sets): (Vec<Index>, Vec<_>) = came.iter().flatten().map(|index| indexes.take(index)).unzip();
            let sets = sets.into_iter().flatten();
            shared.end(Snapshot::with_characteristic(dictionary, indexes, sets, &Interrupt::never())?);
            Ok(())
        }))
    };
    side_by_side(&mut net, orders.len(), gather_runs, snapshot, || {
        each::<IndexOf, Indexed>("index", &jobs, &indexes, make_index)
    });
    for number in 0..workers {
        let compress = net.add(each("compress", &key_parts, &compressed, compress));
        net.connect(assemble.output(workers + 1 + number), compress.input(0));
        net.connect(compress.output(0), snapshot.input(orders.len() + number));
    }
    net.end(snapshot.output(0));
    net.build().unwrap_or_else(|error| panic!("the network is well made: {error}"))
}

/// Adds `count` boxes between the first outputs of one box and the first inputs of another.
fn side_by_side(net: &mut ModelBuilder, count: usize, from: BoxId, to: BoxId, make: impl Fn() -> BoxModel) {
    for number in 0..count {
        let between = net.add(make());
        net.connect(from.output(number), between.input(0));
        net.connect(between.output(0), to.input(number));
    }
}

/// The number of parts for `total` items.
fn parts(workers: usize, total: usize) -> usize {
    total.div_ceil(PART).max(workers)
}

/// Restores the order of parts that were dealt to boxes in turn.
fn in_turn(boxes: Vec<Vec<Envelope>>) -> Vec<Envelope> {
    let mut boxes: Vec<_> = boxes.into_iter().map(Vec::into_iter).collect();
    let longest = boxes.first().map_or(0, |first| first.len());
    (0..longest).flat_map(|_| boxes.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>()).collect()
}

fn cut_terms_box(
    shared: &Arc<LoadState>,
    inputs: usize,
    workers: usize,
    pieces: &Handover<Piece>,
    term_parts: &Handover<TermPart>,
    everything: &Handover<Everything>,
) -> BoxModel {
    let (shared, pieces) = (Arc::clone(shared), pieces.clone());
    let (term_parts, everything) = (term_parts.clone(), everything.clone());
    gather("cut terms", inputs, workers + 1, move |came, turn| {
        shared.all_is_parsed();
        let pieces = came.iter().flatten().map(|piece| pieces.take(piece));
        if let Some((mut segments, scratch)) = shared.segments() {
            for piece in pieces {
                segments.grow(1)?;
                segments.push(shared.segment(piece)?);
            }
            turn.send(workers, everything.put(Everything::Spilled(segments, scratch)));
            return Ok(());
        }
        let (terms, quads): (Vec<_>, Vec<_>) = pieces.map(|piece| (piece.terms, piece.quads)).unzip();
        let terms = Arc::new(terms);
        let count = parts(workers, terms.iter().map(SortedTerms::len).sum());
        for (number, ranges) in cut_terms(&terms, count).into_iter().enumerate() {
            turn.send(number % workers, term_parts.put(TermPart { terms: Arc::clone(&terms), ranges }));
        }
        turn.send(workers, everything.put(Everything::InMemory { terms, quads }));
        Ok(())
    })
}

fn compress(KeyPart { terms, part }: KeyPart, turn: &Turn<'_>) -> Result<Option<CompressedKeys>, NoMemory> {
    terms.compress(part, &|| turn.is_stopped())
}

fn sort(local: Local, orders: &[Order], turn: &Turn<'_>) -> Result<Option<Sorted>, NoMemory> {
    match local {
        Local::InMemory { mut quads, table } => {
            remap(&mut quads, &table);
            drop(table);
            if turn.is_stopped() {
                Ok(None)
            } else {
                SortedRun::new(Order::Gspo, quads).map(Sorted::InMemory).map(Some)
            }
        }
        Local::Spilled(segment, table, bundle) => {
            let runs = SpilledRuns::write(segment, &table, orders, &bundle, &|| turn.is_stopped())?;
            Ok(runs.map(|runs| Sorted::Spilled(runs, Arc::clone(bundle.scratch()))))
        }
    }
}

/// A single run needs no merging, and those in temporary files are merged where indexes are made; they go to output
/// `workers`.
fn cut_runs_box(
    workers: usize,
    runs: &Handover<Sorted>,
    run_parts: &Handover<RunPart>,
    merged: &Handover<Sorted>,
) -> BoxModel {
    let (runs, run_parts, merged) = (runs.clone(), run_parts.clone(), merged.clone());
    gather("cut runs", workers, workers + 1, move |came, turn| {
        let mut in_memory = Vec::new();
        for sorted in came.iter().flatten().map(|run| runs.take(run)) {
            match sorted {
                Sorted::InMemory(run) => in_memory.push(run),
                spilled => turn.send(workers, merged.put(spilled)),
            }
        }
        if in_memory.len() < 2 {
            in_memory.into_iter().for_each(|run| turn.send(workers, merged.put(Sorted::InMemory(run))));
            return Ok(());
        }
        let runs = Arc::new(in_memory);
        let count = parts(workers, runs.iter().map(SortedRun::len).sum());
        for (number, cuts) in cut_runs(&runs, count).into_iter().enumerate() {
            turn.send(number % workers, run_parts.put(RunPart { runs: Arc::clone(&runs), cuts }));
        }
        Ok(())
    })
}

/// An index; for the orders Gspo and Spog, also the characteristic sets found in it.
type Indexed = (Index, Option<(Order, CharacteristicSets)>);

fn make_index(job: IndexOf, turn: &Turn<'_>) -> Result<Option<Indexed>, NoMemory> {
    let IndexOf { order, runs, numbering, rdf_type, by, over } = job;
    let index = match runs {
        // The quads are in this order already.
        Runs::InMemory(runs) if order == Order::Gspo => Some(index(order, &runs, &numbering)?),
        Runs::InMemory(runs) => {
            let run = derive_runs(&runs, order)?;
            drop(runs);
            if turn.is_stopped() { None } else { Some(index(order, &[run], &numbering)?) }
        }
        Runs::Spilled(runs, scratch) => index_of_spilled(order, &runs, &numbering, &scratch, &|| turn.is_stopped())?,
    };
    let Some(mut index) = index else { return Ok(None) };
    over.iter().for_each(|over| index.lay(over));
    let sets = match order {
        Order::Gspo | Order::Spog => Some((order, CharacteristicSets::new(&index, rdf_type, by)?)),
        _ => None,
    };
    Ok(Some((index, sets)))
}
