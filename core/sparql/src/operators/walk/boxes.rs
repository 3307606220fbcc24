//! Finds the partners of a row by walking a property path from one bound end. Each start is walked once.

use crate::boxes::join::{Core, JoinSpec, Pairs, Probe, ProbeState};
use crate::boxes::{Pace, room_for_one, slices};
use crate::graphs::Active;
use crate::limits::QueryLimits;
use crate::operators::index_join::Source;
use crate::route::{Automaton, Search};
use crate::terms::Terms;
use hashbrown::HashMap;
use std::ops::Range;
use std::sync::Arc;
use vicus_flow::library::HashKey;
use vicus_flow::{BoxError, Envelope, Operator, Turn, Unfilled};
use vicus_rdf::{Id, Snapshot};

/// How a path is walked for each input row. The only output is the other end.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct WalkSpec {
    pub(crate) automaton: Arc<Automaton>,
    pub(crate) graph: In,
    pub(crate) start: Source,
    /// The required end of the path, if this end is bound.
    pub(crate) target: Option<Source>,
}

type Walked = (Id, Option<Id>, Id);

/// The graph of a path.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum In {
    Graph(Active),
    /// The graph named by a column of the input; never unbound.
    Column(usize),
}

pub(crate) struct WalkProbe {
    snapshot: Arc<Snapshot>,
    spec: Arc<WalkSpec>,
    limits: QueryLimits,
    search: Search,
    /// Whether the search for the current row is unfinished.
    is_searching: bool,
    /// The ends found, one start after the other. Invariant: nothing is removed between the making of a batch of pairs
    /// and its gathering, because the pairs are indices into this list.
    found: Vec<u64>,
    /// For a start and a target, and the graph if rows name it, the range of their ends in `found`.
    known: HashMap<Walked, Range<usize>, HashKey>,
    /// The range of the current row.
    current: Range<usize>,
}

impl WalkProbe {
    fn new(snapshot: &Arc<Snapshot>, spec: &Arc<WalkSpec>, limits: QueryLimits, by: HashKey) -> WalkProbe {
        WalkProbe {
            snapshot: Arc::clone(snapshot),
            spec: Arc::clone(spec),
            limits,
            search: Search::new(snapshot, &spec.automaton, by),
            is_searching: false,
            found: Vec::new(),
            known: HashMap::with_hasher(by),
            current: 0..0,
        }
    }

    /// Whether the memory is full enough to start the next row with an empty one.
    fn is_full(&self) -> bool {
        self.found.len() + self.known.len() > self.limits.remembered_ends
    }

    /// Looks up the ends for a row, or begins the search for them.
    fn begin(&mut self, walked: Walked) {
        if let Some(known) = self.known.get(&walked) {
            self.current = known.clone();
            return;
        }
        let first = self.found.len();
        // A term written in the path is an end of it even if no triple has that term (§18.4).
        let (start, target, graph) = walked;
        let graph = match &self.spec.graph {
            In::Graph(active) => active,
            In::Column(_) => &Active::One(graph),
        };
        if matches!(self.spec.start, Source::Constant(_)) || graph.has_node(&self.snapshot, start) {
            self.search.begin(graph, start, target, &mut self.found);
            self.is_searching = true;
        }
        self.current = first..self.found.len();
    }
}

impl Probe for WalkProbe {
    fn partners(
        &mut self,
        input: &Envelope,
        at: &mut ProbeState,
        limit: usize,
        pairs: Pairs<'_>,
        _: &dyn Fn() -> bool,
    ) {
        let Pairs { left, right } = pairs;
        let columns = slices(input);
        let mut steps = self.limits.steps.max(1);
        while at.row < input.rows() && left.len() < limit && steps > 0 {
            let value = |source: &Source| match source {
                Source::Constant(id) => *id,
                Source::Column(column) => Id::from_bits(columns[*column][at.row]),
            };
            let graph = match &self.spec.graph {
                In::Graph(_) => Id::UNBOUND,
                In::Column(column) => Id::from_bits(columns[*column][at.row]),
            };
            let walked = (value(&self.spec.start), self.spec.target.as_ref().map(value), graph);
            if at.done == 0 {
                if self.is_full() {
                    if !left.is_empty() {
                        // The pairs of this batch are indices of ends that would be removed now.
                        return;
                    }
                    self.found.clear();
                    self.known.clear();
                }
                self.begin(walked);
                at.done = 1;
                steps -= 1;
            }
            // `at.done` is the number of ends given out, plus one.
            let given = at.done - 1;
            if self.is_searching {
                let most = self.current.start + given + limit - left.len();
                self.is_searching = !self.search.go_on(&mut steps, most, &mut self.found);
                self.current.end = self.found.len();
                if !self.is_searching {
                    let (known, size) = (&mut self.known, size_of::<(Walked, Range<usize>)>());
                    room_for_one(known.len(), known.capacity(), size, || known.try_reserve(1).is_ok());
                    self.known.insert(walked, self.current.clone());
                }
            }
            let take = (self.current.len() - given).min(limit - left.len());
            let next = self.current.start + given;
            left.extend(std::iter::repeat_n(at.row as u32, take));
            right.extend((next..next + take).map(|end| u32::try_from(end).expect("fewer than 2^32 ends at once")));
            at.done += take;
            if !self.is_searching && at.done > self.current.len() {
                *at = ProbeState { row: at.row + 1, done: 0 };
            }
        }
    }

    fn gather(&self, _output: usize, right: &[u32], into: &mut Unfilled<'_, u64>) {
        into.extend(right.iter().map(|&place| self.found[place as usize]));
    }

    fn bytes(&self) -> u64 {
        let known = self.known.capacity() * size_of::<(Walked, Range<usize>)>();
        (self.found.capacity() * 8 + known) as u64 + self.search.bytes()
    }
}

pub(crate) struct Walk {
    core: Core,
    probe: WalkProbe,
}

impl Walk {
    pub(crate) fn new(terms: &Arc<Terms>, spec: &Arc<JoinSpec>, walk: &Arc<WalkSpec>, pace: Pace) -> Walk {
        Walk {
            core: Core::new(terms, spec, pace),
            probe: WalkProbe::new(&terms.snapshot, walk, terms.limits, terms.key),
        }
    }
}

impl Operator for Walk {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        self.core.act(turn, &mut self.probe)
    }
}
