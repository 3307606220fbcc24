//! Runs of real models, rehearsed with a cost for each row.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use std::sync::Arc;
use vicus_flow::{
    Bound, BoxError, BoxModel, ConnectedBox, Envelope, Model, ModelBuilder, Operator, Schema, Turn, Type, library,
};
use vicus_sim::Rehearsal;
use vicus_topology::NodeId;

fn schema(columns: usize) -> Schema {
    Schema::new((0..columns).map(|column| (column.to_string(), Type::U64)))
}

fn rows(columns: usize, rows: usize) -> Envelope {
    Envelope::of_rows(vec![vec![1u64; rows].into(); columns], rows)
}

/// Sends an envelope of each size, one in each invocation.
fn source(columns: usize, sizes: Vec<usize>) -> BoxModel {
    library::source("source", &schema(columns), move || sizes.clone().into_iter().map(move |size| rows(columns, size)))
}

/// Keeps all rows until the input ends; then sends them in two invocations.
fn collect(columns: usize) -> BoxModel {
    let operator = move || {
        let (mut kept, mut open) = (0, true);
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            if open {
                let Some(envelope) = turn.take(0) else { return Ok(()) };
                kept += envelope.rows();
                turn.book((kept * columns * 8) as u64)?;
                open = !envelope.is_pill();
                if !open {
                    turn.send(0, rows(columns, kept / 2));
                    turn.run_again();
                }
            } else {
                turn.send(0, rows(columns, kept - kept / 2));
                turn.send_pill(0);
            }
            Ok(())
        }
    };
    BoxModel::new("collect", operator).input(&schema(columns)).output(&schema(columns))
}

/// Keeps its first input as a table, takes its second one when the first has ended, and sends half of its rows.
struct Join {
    columns: usize,
    built: bool,
}

impl Operator for Join {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if !self.built {
            let taken = turn.take(0);
            self.built = taken.as_ref().is_some_and(Envelope::is_pill);
            if taken.is_some() && !self.built {
                turn.record_kept(0);
            }
        }
        if self.built
            && let Some(envelope) = turn.take(1)
        {
            let answer = if envelope.is_pill() { envelope } else { rows(self.columns, envelope.rows() / 2) };
            turn.send(0, answer);
        }
        Ok(())
    }
}

/// Four streams between a source and a union; beside them a join waiting for a table; and after the join, a box
/// collecting its rows.
pub(crate) fn streams(columns: usize, envelopes: usize) -> Arc<Model> {
    let schema = schema(columns);
    let mut net = ModelBuilder::new("streams");
    net.default_bound(Bound { envelopes: 2, ..Bound::default() });
    let numbers = net.source(source(columns, (0..envelopes).map(|at| 50 + at % 7).collect()));
    let table = net.source(source(columns, vec![30; 20]));
    let spread = net.add(library::spread(&schema, 4));
    let union = net.add(library::union(&schema, 4));
    net.connect(numbers.output(0), spread.input(0));
    for stream in 0..4 {
        let work = net.add(library::map("work", &schema, &schema, Some));
        net.connect(spread.output(stream), work.input(0));
        net.connect(work.output(0), union.input(stream)).bound(Bound { envelopes: 1, ..Bound::default() });
    }
    let join = BoxModel::new("join", move || Join { columns, built: false });
    let join = net.add(join.input(&schema).input(&schema).output(&schema));
    let collect_table = net.add(collect(columns));
    net.connect(table.output(0), collect_table.input(0));
    net.connect(collect_table.output(0), join.input(0));
    net.connect(union.output(0), join.input(1));
    let sorted = net.add(collect(columns));
    net.connect(join.output(0), sorted.input(0));
    let end = net.add(library::sink("end", &schema, |_| Ok(())));
    net.connect(sorted.output(0), end.input(0));
    net.end(end.output(0));
    net.build().unwrap()
}

/// A sink with a limit: it stops its source after two envelopes.
pub(crate) fn limited() -> Arc<Model> {
    let mut net = ModelBuilder::new("limited");
    let numbers = net.source(source(1, vec![100; 500]));
    let limit = || {
        let mut left = 2;
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            if let Some(envelope) = turn.take(0) {
                turn.send(0, envelope);
                left -= 1;
            }
            if left == 0 {
                turn.send_pill(0);
                turn.close(0);
            }
            Ok(())
        }
    };
    let limit = net.add(BoxModel::new("limit", limit).input(&schema(1)).output(&schema(1)));
    net.connect(numbers.output(0), limit.input(0));
    net.end(limit.output(0));
    net.build().unwrap()
}

/// A source; four boxes read each of its envelopes, and send nothing.
pub(crate) fn fan(envelopes: usize) -> Arc<Model> {
    let mut net = ModelBuilder::new("fan");
    let numbers = net.source(source(1, vec![100; envelopes]));
    for _ in 0..4 {
        let work = net.add(library::map("work", &schema(1), &schema(1), |_| None));
        net.connect(numbers.output(0), work.input(0));
        net.end(work.output(0));
    }
    net.build().unwrap()
}

/// The bytes of a store in a part.
pub(crate) const PART: u64 = 8 << 20;

/// Four parts of a store, dealt by a splitter to four scans.
pub(crate) fn parts() -> Arc<Model> {
    let mut net = ModelBuilder::new("parts");
    let pieces: Vec<library::Piece> = (0..4).map(|part| (part..part + 1).into()).collect();
    let split = net.source(library::split(pieces, 4, 1));
    let scan = || {
        |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            match turn.take(0) {
                Some(part) if !part.is_pill() => turn.count_read(NodeId::new(0), PART),
                Some(_) => turn.send_pill(0),
                None => {}
            }
            Ok(())
        }
    };
    let union = net.add(library::union(&schema(0), 4));
    for stream in 0..4 {
        let scan = net.add(BoxModel::new("scan", scan).input(&library::range_schema()).output(&schema(0)));
        net.connect(split.output(stream), scan.input(0));
        net.connect(scan.output(0), union.input(stream));
    }
    net.end(union.output(0));
    net.build().unwrap()
}

/// The time of a box's invocation: a constant, and a time for each row.
fn takes_ns(each: &ConnectedBox, rows: u64) -> u64 {
    let row = match each.type_name() {
        "source" => 5,
        "work" => 40,
        "collect" => 20,
        "join" => 10,
        "scan" => 2_000_000,
        _ => 1,
    };
    100 + row * rows
}

/// Runs a model; queued tasks are picked at random.
pub(crate) fn record(model: &Arc<Model>, seed: u64) -> Rehearsal {
    let mut chance = Pcg64::seed_from_u64(seed);
    let choose = |tasks: usize| (chance.next_u64() % tasks as u64) as usize;
    let run = Rehearsal::of(model, choose, takes_ns).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    assert_eq!((run.trace.lost(), run.trace.check()), (0, Vec::new()), "seed {seed}");
    run
}
