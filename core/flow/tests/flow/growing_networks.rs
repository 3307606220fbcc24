//! Random networks that grow while they run, for all worlds. A recipe is a tree of steps; what it makes of a stream of
//! numbers is computed by plain loops, too.

use crate::networks::Operators;
use crate::tables::Chance;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use vicus_flow::{
    Arrivals, Bound, BoxCounts, BoxError, BoxId, BoxModel, Envelope, Expansion, Fragment, FragmentBuilder, GrownBox,
    Model, ModelBuilder, Operator, OutputId, Schema, Totals, Turn, Type, library,
};

/// What becomes of a stream.
#[derive(Debug)]
pub(crate) enum Step {
    /// Adds a number to each; an odd one is sent in two envelopes, one of them without rows.
    Add(u64),
    /// Leaves the multiples of a number out.
    Without(u64),
    /// So many, then the input is closed.
    First(usize),
    /// One step after the other.
    Chain(Vec<Step>),
    /// Two steps on the same stream: all of the first result, then the other.
    Both(Box<[Step; 2]>),
    /// The stream, beside numbers of a box that begins by itself.
    Beside(u64),
    /// An expandable box.
    Grows(How, Box<Step>),
    /// An expandable box with two inputs, which both read the stream.
    GrowsOfTwo(How, Box<[Step; 2]>),
}

/// How an expandable box decides.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    AtOnce,
    /// After it has seen so many rows, or the end.
    LooksOn(usize),
    /// Never: the inner step is left out.
    PassesBy(usize),
    /// Its code fails.
    Errs,
    Panics,
}

impl How {
    fn random(chance: &mut Chance, fails: bool) -> How {
        match chance.below(if fails { 10 } else { 8 }) {
            0..4 => How::AtOnce,
            4..6 => How::LooksOn(chance.below(9)),
            6..8 => How::PassesBy(chance.below(5)),
            8 => How::Errs,
            _ => How::Panics,
        }
    }
}

impl Step {
    pub(crate) fn random(chance: &mut Chance, depth: usize, fails: bool) -> Step {
        let inner = |chance: &mut Chance| Box::new(Step::random(chance, depth - 1, fails));
        match chance.below(if depth == 0 { 4 } else { 11 }) {
            0 | 1 => Step::Add(chance.below(5) as u64),
            2 => Step::Without(2 + chance.below(4) as u64),
            3 => Step::First(chance.below(12)),
            4 => Step::Chain((0..chance.below(4)).map(|_| Step::random(chance, depth - 1, fails)).collect()),
            5 => Step::Both(Box::new([*inner(chance), *inner(chance)])),
            6 => Step::Beside(chance.below(4) as u64),
            7 => Step::GrowsOfTwo(How::random(chance, fails), Box::new([*inner(chance), *inner(chance)])),
            _ => Step::Grows(How::random(chance, fails), inner(chance)),
        }
    }

    /// A chain of expandable boxes, each in the one before.
    pub(crate) fn deep(depth: usize) -> Step {
        let grows = |inner| Step::Grows(How::AtOnce, Box::new(Step::Chain(vec![Step::Add(1), inner])));
        (0..depth).fold(Step::Add(0), |inner, _| grows(inner))
    }

    /// What becomes of a stream.
    pub(crate) fn of(&self, numbers: Vec<u64>) -> Vec<u64> {
        match self {
            Step::Add(more) => numbers.into_iter().map(|number| number + more).collect(),
            Step::Without(factor) => numbers.into_iter().filter(|number| number % factor != 0).collect(),
            Step::First(most) => numbers.into_iter().take(*most).collect(),
            Step::Chain(steps) => steps.iter().fold(numbers, |numbers, step| step.of(numbers)),
            Step::Both(steps) => [steps[0].of(numbers.clone()), steps[1].of(numbers)].concat(),
            Step::Beside(count) => numbers.into_iter().chain(0..*count).collect(),
            // A box without rows passes by.
            Step::Grows(How::PassesBy(_), _) => numbers,
            Step::Grows(_, inner) => {
                if numbers.is_empty() {
                    numbers
                } else {
                    inner.of(numbers)
                }
            }
            Step::GrowsOfTwo(_, inner) if numbers.is_empty() => inner.iter().flat_map(|_| Vec::new()).collect(),
            Step::GrowsOfTwo(How::PassesBy(_), _) => [numbers.clone(), numbers].concat(),
            Step::GrowsOfTwo(_, inner) => [inner[0].of(numbers.clone()), inner[1].of(numbers)].concat(),
        }
    }
}

/// Counts what lives, and what was done.
#[derive(Default)]
pub(crate) struct Census {
    /// Operators that are there.
    pub(crate) live: AtomicUsize,
    /// The most that have been there at once.
    pub(crate) most: AtomicUsize,
    /// How often code of boxes was called.
    pub(crate) acts: AtomicU64,
}

/// One that is counted.
struct Counted<O> {
    census: Arc<Census>,
    inner: O,
}

impl<O> Counted<O> {
    fn new(census: &Arc<Census>, inner: O) -> Counted<O> {
        let live = census.live.fetch_add(1, Ordering::Relaxed) + 1;
        census.most.fetch_max(live, Ordering::Relaxed);
        Counted { census: Arc::clone(census), inner }
    }
}

impl<O> Drop for Counted<O> {
    fn drop(&mut self) {
        self.census.live.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<O: Operator> Operator for Counted<O> {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        self.census.acts.fetch_add(1, Ordering::Relaxed);
        self.inner.act(turn)
    }
}

/// A network of a recipe, with its sink.
pub(crate) struct Growing {
    pub(crate) model: Arc<Model>,
    pub(crate) sink: BoxId,
    pub(crate) census: Arc<Census>,
    pub(crate) expected: Vec<u64>,
}

fn numbers() -> Schema {
    Schema::new([("number", Type::U64)])
}

fn envelope(numbers: &[u64]) -> Envelope {
    Envelope::new([numbers.to_vec().into()])
}

/// How networks are built.
#[derive(Clone)]
struct Maker {
    bound: Bound,
    census: Arc<Census>,
}

impl Growing {
    /// The numbers below `count`, up to three in an envelope, and what the step makes of them.
    pub(crate) fn new(step: Step, count: u64, bound: Bound) -> Growing {
        let expected = step.of((0..count).collect());
        let maker = Maker { bound, census: Arc::default() };
        let mut net = ModelBuilder::new("growing");
        net.default_bound(bound);
        let all: Vec<u64> = (0..count).collect();
        let envelopes: Vec<Envelope> = all.chunks(3).map(envelope).collect();
        let source = net.source(library::source("numbers", &numbers(), move || envelopes.clone()));
        let end = maker.add(&mut net, source.output(0), &Arc::new(step));
        let sink = net.add(library::sink("sink", &numbers(), |_| Ok(())));
        net.connect(end, sink.input(0));
        net.end(sink.output(0));
        Growing { model: net.build().unwrap(), sink, census: maker.census, expected }
    }

    /// The sink of one run, and what it gets.
    pub(crate) fn sink(&self) -> (Operators, Receiver<Vec<u64>>) {
        let (send, receive) = channel();
        let sink = library::sink_operator(move |envelope: Envelope| {
            let _ = send.send(envelope.column(0).u64s().to_vec());
            Ok(())
        });
        (vec![(self.sink, Box::new(sink))], receive)
    }

    /// Checks a run that has ended well.
    pub(crate) fn judge(&self, got: &[u64], totals: &Totals, counts: &[BoxCounts], grown: &[GrownBox]) {
        assert_eq!(got, self.expected, "{:?}", self.model);
        self.judge_counts(totals, counts, grown);
        assert_eq!(counts[self.sink.index()].rows_taken(), self.expected.len() as u64);
    }

    /// Checks the counts of any run that is over.
    pub(crate) fn judge_counts(&self, totals: &Totals, counts: &[BoxCounts], grown: &[GrownBox]) {
        let all = || counts.iter().chain(grown.iter().map(|boxes| &boxes.counts));
        assert_eq!(
            totals.acts,
            all().map(|counts| counts.acts).sum::<u64>(),
            "each invocation is some box's: {grown:?}"
        );
        let bytes = |of: fn(&BoxCounts) -> u64| all().map(of).sum::<u64>();
        assert_eq!((totals.near_bytes, totals.far_bytes), (bytes(BoxCounts::near_bytes), bytes(BoxCounts::far_bytes)));
        assert_eq!(self.census.live.load(Ordering::Relaxed), 0, "all operators are gone");
    }
}

impl Maker {
    fn operator<O: Operator + 'static>(
        &self,
        name: &'static str,
        make: impl Fn() -> O + Send + Sync + 'static,
    ) -> BoxModel {
        let census = Arc::clone(&self.census);
        BoxModel::new(name, move || Counted::new(&census, make()))
    }

    fn map(&self, name: &'static str, f: impl Fn(u64) -> Vec<Vec<u64>> + Clone + Send + Sync + 'static) -> BoxModel {
        let operator = move || {
            let f = f.clone();
            move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                match turn.take(0) {
                    Some(pill) if pill.is_pill() => turn.send_pill(0),
                    Some(taken) => {
                        for made in taken.column(0).u64s().iter().flat_map(|&number| f(number)) {
                            turn.send(0, envelope(&made));
                        }
                    }
                    None => {}
                }
                Ok(())
            }
        };
        self.operator(name, operator).input(&numbers()).output(&numbers())
    }

    /// All of the first input, then of the second.
    fn concat(&self) -> BoxModel {
        let operator = || {
            let mut input = 0;
            move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                match turn.take(input) {
                    Some(pill) if pill.is_pill() && input == 1 => turn.send_pill(0),
                    Some(pill) if pill.is_pill() => {
                        input = 1;
                        turn.run_again();
                    }
                    Some(taken) => turn.send(0, taken),
                    None => {}
                }
                Ok(())
            }
        };
        self.operator("concat", operator).input(&numbers()).input(&numbers()).output(&numbers())
    }

    fn over(&self, net: &mut ModelBuilder, inputs: &[OutputId], model: BoxModel) -> OutputId {
        let added = net.add(model);
        for (input, from) in inputs.iter().enumerate() {
            net.connect(*from, added.input(input));
        }
        added.output(0)
    }

    fn add(&self, net: &mut ModelBuilder, from: OutputId, step: &Arc<Step>) -> OutputId {
        self.add_inner(net, from, Inner { root: Arc::clone(step), path: Vec::new() })
    }

    fn add_inner(&self, net: &mut ModelBuilder, from: OutputId, inner: Inner) -> OutputId {
        match inner.step() {
            Step::Add(more) => {
                let more = *more;
                let split = move |number: u64| match number % 2 {
                    0 => vec![vec![number + more]],
                    _ => vec![vec![], vec![number + more]],
                };
                self.over(net, &[from], self.map("add", split))
            }
            Step::Without(factor) => {
                let factor = *factor;
                let filter =
                    move |number: u64| if number.is_multiple_of(factor) { vec![vec![]] } else { vec![vec![number]] };
                self.over(net, &[from], self.map("without", filter))
            }
            Step::First(most) => {
                let most = *most;
                let operator = move || {
                    let mut left = most;
                    move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                        let Some(taken) = turn.take(0) else { return Ok(()) };
                        if !taken.is_pill() {
                            let rows = &taken.column(0).u64s()[..taken.rows().min(left)];
                            left -= rows.len();
                            turn.send(0, envelope(rows));
                        }
                        if taken.is_pill() || left == 0 {
                            turn.send_pill(0);
                            turn.close(0);
                        }
                        Ok(())
                    }
                };
                let model = self.operator("first", operator).input(&numbers()).output(&numbers());
                self.over(net, &[from], model)
            }
            Step::Chain(steps) => (0..steps.len()).fold(from, |from, at| self.add_inner(net, from, inner.at(at))),
            Step::Both(_) => {
                let ends = [0, 1].map(|at| self.add_inner(net, from, inner.at(at)));
                self.over(net, &ends, self.concat())
            }
            Step::Beside(count) => {
                let count = *count;
                let rows = move || (0..count).map(|number| envelope(&[number]));
                let source = net.source(library::source("beside", &numbers(), rows));
                self.over(net, &[from, source.output(0)], self.concat())
            }
            Step::Grows(how, _) => {
                let model = self.expandable("grows", *how, inner, 1);
                self.over(net, &[from], model)
            }
            Step::GrowsOfTwo(how, _) => {
                let model = self.expandable("grows of two", *how, inner, 2);
                let added = net.add(model);
                for input in 0..2 {
                    net.connect(from, added.input(input));
                }
                self.over(net, &[added.output(0), added.output(1)], self.concat())
            }
        }
    }

    fn expandable(&self, name: &'static str, how: How, inner: Inner, ports: usize) -> BoxModel {
        let maker = self.clone();
        let schemas = vec![numbers(); ports];
        BoxModel::expandable(name, &schemas, &schemas.clone(), move || {
            let decision = Counted::new(&maker.census, ());
            let (maker, inner) = (maker.clone(), inner.clone());
            move |arrived: &Arrivals<'_>| -> Result<Expansion, BoxError> {
                let _ = &decision;
                let rows: usize = (0..ports).map(|input| arrived.rows(input)).sum();
                assert!(rows > 0, "a box without rows is not asked");
                let has_ended = (0..ports).all(|input| arrived.has_ended(input));
                match how {
                    How::LooksOn(most) | How::PassesBy(most) if rows < most && !has_ended => Ok(Expansion::LookOn),
                    How::PassesBy(_) => Ok(Expansion::PassBy),
                    How::Errs => Err("out of room".into()),
                    How::Panics => panic!("out of mind"),
                    How::AtOnce | How::LooksOn(_) => Ok(Expansion::Become(maker.fragment(name, &inner, ports)?)),
                }
            }
        })
    }

    fn fragment(&self, name: &str, inner: &Inner, ports: usize) -> Result<Fragment, BoxError> {
        let schemas = vec![numbers(); ports];
        let mut net = FragmentBuilder::new(name, &schemas);
        net.default_bound(self.bound);
        for port in 0..ports {
            let from = net.input(port);
            let end = self.add_inner(&mut net, from, inner.at(port));
            net.end(end);
        }
        Ok(net.build()?)
    }
}

/// A step inside of others: its place in a shared tree.
#[derive(Clone)]
struct Inner {
    root: Arc<Step>,
    path: Vec<usize>,
}

impl Inner {
    fn at(&self, place: usize) -> Inner {
        let mut inner = self.clone();
        inner.path.push(place);
        inner
    }

    fn step(&self) -> &Step {
        self.path.iter().fold(&self.root, |step, &place| match step {
            Step::Chain(steps) => &steps[place],
            Step::Both(steps) | Step::GrowsOfTwo(_, steps) => &steps[place],
            Step::Grows(_, inner) => inner,
            _ => unreachable!("it has nothing inside"),
        })
    }
}

/// A recipe of a seed, how many numbers it gets, and the bound of its vias.
pub(crate) fn random(seed: u64, fails: bool) -> Growing {
    let chance = &mut Chance::of_seed(seed);
    let bound = Bound { envelopes: 1 + chance.below(4), bytes: 8 + chance.below(200) as u64 };
    let step = Step::random(chance, 5, fails);
    Growing::new(step, chance.below(40) as u64, bound)
}

/// Whether the error is one that the recipe's boxes make.
pub(crate) fn is_own(error: &vicus_flow::FlowError) -> bool {
    let text = error.to_string();
    text.contains("out of room") || text.contains("out of mind")
}
