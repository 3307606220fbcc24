//! Runs a plan in the sequential world and collects its rows.

use oxrdf::Term;
use std::sync::mpsc;
use vicus_flow::sequential;
use vicus_rdf::Id;
use vicus_sparql::{Moment, RunOptions, SparqlPlan};

/// A solution: the variables' values in the order of the projection.
pub(crate) type Row = Vec<Option<Term>>;

/// A small generator of numbers: xorshift64*, Marsaglia 2003 and Vigna 2016.
#[derive(Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True once in `times`.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// All rows, in the order of their arrival; tasks are picked by `choose`.
pub(crate) fn rows_of(plan: &SparqlPlan, choose: impl FnMut(usize) -> usize) -> Vec<Row> {
    rows_at(plan, Moment::default(), choose)
}

/// Like [`rows_of`], for a run at this moment.
pub(crate) fn rows_at(plan: &SparqlPlan, moment: Moment, choose: impl FnMut(usize) -> usize) -> Vec<Row> {
    rows_with(plan, RunOptions { moment, ..RunOptions::default() }, choose)
}

/// Like [`rows_of`], with these options.
pub(crate) fn rows_with(plan: &SparqlPlan, options: RunOptions, choose: impl FnMut(usize) -> usize) -> Vec<Row> {
    let run = plan.start_with(options);
    let (send, receive) = mpsc::channel();
    let sink = plan.sink_operator(move |envelope| Ok(send.send(envelope.clone())?));
    sequential::run(plan.model(), run.operators([(plan.sink(), sink)]), choose)
        .unwrap_or_else(|error| panic!("{error}\n{}", plan.explain()));
    let mut rows = Vec::new();
    for envelope in receive {
        let term = |bits: u64| (bits != 0).then(|| run.term(Id::from_bits(bits)));
        for row in 0..envelope.rows() {
            rows.push(envelope.columns().iter().map(|column| term(column.u64s()[row])).collect());
        }
    }
    rows
}

/// The number of rows, without reading them.
pub(crate) fn count_of(plan: &SparqlPlan) -> usize {
    let (send, receive) = mpsc::channel();
    let sink = plan.sink_operator(move |envelope| Ok(send.send(envelope.rows())?));
    let operators = plan.start(Moment::default()).operators([(plan.sink(), sink)]);
    sequential::run(plan.model(), operators, |_| 0).unwrap_or_else(|error| panic!("{error}"));
    receive.iter().sum()
}
