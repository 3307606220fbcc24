//! Finds the partners of a row by walking a property path from one bound end. Each start is walked once, as far as
//! there is memory to remember its ends. A walk that reaches more than its box may hold forgets ends of other starts
//! first, and then writes what it has reached to files ([`Search::write`]).

use crate::boxes::join::{Core, JoinSpec, Pairs, Probe, ProbeState};
use crate::boxes::spill::{Hold, LEAST, Spiller};
use crate::boxes::{Pace, room_for_one, slices};
use crate::graphs::Active;
use crate::limits::QueryLimits;
use crate::operators::index_join::Source;
use crate::route::{Automaton, Progress, Search};
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

/// How many of a walk's bytes its search may hold: the rest is for moving pairs to files.
fn searched(bytes: u64) -> u64 {
    bytes / 4 * 3
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
    /// How many ends of the range were given out.
    given: usize,
    /// Whether the range has all ends of the current row found so far.
    is_whole: bool,
    /// How many bytes it may hold. [`u64::MAX`] if it has no files.
    most: u64,
    /// Whether it would hold more than that.
    is_full: bool,
    /// How many bytes its box has booked for it: they stay booked when it holds less, for it to hold as much again.
    booked: u64,
}

impl WalkProbe {
    fn new(snapshot: &Arc<Snapshot>, spec: &Arc<WalkSpec>, limits: QueryLimits, by: HashKey, most: u64) -> WalkProbe {
        WalkProbe {
            snapshot: Arc::clone(snapshot),
            spec: Arc::clone(spec),
            limits,
            search: Search::new(snapshot, &spec.automaton, by),
            is_searching: false,
            found: Vec::new(),
            known: HashMap::with_hasher(by),
            current: 0..0,
            given: 0,
            is_whole: true,
            most,
            is_full: false,
            booked: 0,
        }
    }

    /// Whether the memory is full enough to start the next row with an empty one.
    fn remembers_enough(&self) -> bool {
        self.found.len() + self.known.len() > self.limits.remembered_ends
    }

    /// Looks up the ends for a row, or begins the search for them.
    fn begin(&mut self, walked: Walked) {
        (self.given, self.is_whole) = (0, true);
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

    /// Remembers the ends of the current row, all of which were found, unless there is no room to do so.
    fn remember(&mut self, walked: Walked) {
        let size = size_of::<(Walked, Range<usize>)>();
        let is_growing = self.known.len() == self.known.capacity();
        let grown = if is_growing { 2 * (self.known.len() + 1) * size } else { 0 };
        if self.is_whole && self.held() + grown as u64 <= self.most {
            let known = &mut self.known;
            room_for_one(known.len(), known.capacity(), size, || known.try_reserve(1).is_ok());
            self.known.insert(walked, self.current.clone());
        }
    }

    /// Forgets the ends given out. No pair of a batch may be left.
    fn drop_given(&mut self) {
        self.known = HashMap::with_hasher(*self.known.hasher());
        self.found.truncate(self.current.end);
        self.found.drain(..self.current.start + self.given);
        self.is_whole = false;
        (self.current, self.given) = (0..self.found.len(), 0);
    }

    /// The bytes of what it remembers.
    fn remembered(&self) -> u64 {
        (self.known.capacity() * size_of::<(Walked, Range<usize>)>()) as u64
    }

    /// The bytes that it holds.
    fn held(&self) -> u64 {
        (self.found.capacity() * 8) as u64 + self.remembered() + self.search.bytes()
    }

    /// Makes room by forgetting and by files, within about `bytes` bytes. Returns the number of bytes written.
    ///
    /// # Errors
    /// The disk is full, or the system refuses.
    fn make_room(
        &mut self,
        spiller: &Spiller,
        bytes: u64,
        stopped: &dyn Fn() -> bool,
    ) -> Result<u64, vicus_files::FileError> {
        self.drop_given();
        self.found.shrink_to(self.found.len());
        let most = searched(bytes);
        let written = match !self.search.is_written() && self.search.make_room(most, &mut self.found) {
            true => 0,
            false => self.search.write(spiller, most, stopped, &mut self.found)?,
        };
        self.current.end = self.found.len();
        Ok(written)
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
        while at.row < input.rows() && left.len() < limit && steps > 0 && !self.is_full {
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
                if self.remembers_enough() {
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
            if self.is_searching {
                let most = self.current.start + self.given + limit - left.len();
                let bytes = match self.most {
                    u64::MAX => u64::MAX,
                    most => searched(most).saturating_sub(self.remembered()),
                };
                let progress = self.search.go_on(&mut steps, most, bytes, &mut self.found);
                self.current.end = self.found.len();
                self.is_searching = progress != Progress::Over;
                self.is_full = progress == Progress::Full;
                if !self.is_searching {
                    self.remember(walked);
                }
            }
            let take = (self.current.len() - self.given).min(limit - left.len());
            let next = self.current.start + self.given;
            left.extend(std::iter::repeat_n(at.row as u32, take));
            right.extend((next..next + take).map(|end| u32::try_from(end).expect("fewer than 2^32 ends at once")));
            self.given += take;
            if !self.is_searching && self.given == self.current.len() {
                *at = ProbeState { row: at.row + 1, done: 0 };
            }
        }
    }

    fn gather(&self, _output: usize, right: &[u32], into: &mut Unfilled<'_, u64>) {
        into.extend(right.iter().map(|&place| self.found[place as usize]));
    }

    fn bytes(&self) -> u64 {
        self.held().max(self.booked)
    }
}

pub(crate) struct Walk {
    core: Core,
    probe: WalkProbe,
    hold: Hold,
}

impl Walk {
    pub(crate) fn new(terms: &Arc<Terms>, spec: &Arc<JoinSpec>, walk: &Arc<WalkSpec>, pace: Pace) -> Walk {
        let hold = Hold::new(terms.spiller());
        let most = if hold.spiller().is_some() { LEAST } else { u64::MAX };
        Walk {
            core: Core::new(terms, spec, pace),
            probe: WalkProbe::new(&terms.snapshot, walk, terms.limits, terms.key, most),
            hold,
        }
    }

    /// Lets the probe hold more, or has it write to files what it can't hold.
    fn make_room(&mut self, turn: &Turn<'_>) -> Result<(), BoxError> {
        let Some(spiller) = self.hold.spiller().cloned() else { unreachable!("without files, nothing is full") };
        let (core, probe) = (&self.core, &mut self.probe);
        probe.is_full = false;
        let wanted = (2 * probe.most).min(spiller.most()).max(LEAST);
        let is_enough = probe.held() >= LEAST;
        if wanted > probe.most && self.hold.make_room(wanted, is_enough, |bytes| core.ask(turn, bytes))? {
            (probe.most, probe.booked) = (wanted, self.hold.booked());
            return Ok(());
        }
        let bytes = probe.most;
        let written = turn.blocking(|| probe.make_room(&spiller, bytes, &|| turn.is_stopped()))?;
        turn.count_spilled(written);
        // What tells where pairs are in files grows with them.
        let booked = self.hold.book(probe.held().max(bytes), |bytes| core.ask(turn, bytes));
        probe.booked = self.hold.booked();
        booked
    }
}

impl Operator for Walk {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if self.probe.is_full {
            self.make_room(turn)?;
        }
        self.core.act(turn, &mut self.probe)
    }
}
