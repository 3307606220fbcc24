//! Random networks, for both worlds: their construction, and the rules of every run.
//!
//! Every box logs its taken and sent envelopes, and its closing. A run is checked by these logs, for any computation of
//! the network: each input is its via's stream from the beginning, each envelope once and in order. If no stream
//! depends on a race, the streams are also computed by functions over vectors.

use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use vicus_flow::{
    Bound, BoxCounts, BoxError, BoxId, BoxModel, Column, Envelope, FlowError, LinkOptions, Model, ModelBuilder,
    Operator, OutputId, Resume, Schema, Totals, Turn, Type, library,
};

/// So many cases, or as many as `./dev test networks` asks for.
pub(crate) fn cases(usual: u32) -> ProptestConfig {
    // The default is what the environment says, and 256 otherwise.
    let default = ProptestConfig::default();
    let cases = if default.cases == 256 { usual } else { default.cases };
    ProptestConfig { cases, failure_persistence: None, ..default }
}

/// The work of a box.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Sends `count` envelopes, `burst` in each invocation, and asks for `extra` invocations after its pill. Pauses
    /// behind each invocation whose number this divides, if it is not 0.
    Source { count: u64, burst: u64, extra: u64, pauses: u64 },
    /// Pauses once, and sends its pill when it is resumed.
    Outside,
    /// Passes on.
    Pass,
    /// Passes on, and asks to run again so often before it passes the pill.
    Postpone { turns: u64 },
    /// Passes on so many, then sends the pill and closes its input.
    Limit { most: u64 },
    /// Passes on so many, then sends the pill and goes on taking.
    WorksOn { most: u64 },
    /// Takes one of each input when it has both; the shorter stream ends it.
    Zip,
    /// The first input's stream, then the second's.
    Concat,
    /// Envelopes of either input, as they come.
    Merge,
    /// Reads a stream to its end. Every stream without another reader has one.
    Sink,
}

/// A box of a network in the making. Choices are taken modulo the number of possibilities.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) kind: Kind,
    pub(crate) from: [usize; 2],
    pub(crate) bounds: [Bound; 2],
    pub(crate) private: [bool; 2],
}

fn bound() -> impl Strategy<Value = Bound> {
    (1usize..5, prop_oneof![16u64..200, Just(1 << 20)]).prop_map(|(envelopes, bytes)| Bound { envelopes, bytes })
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        2 => (0u64..20, 1u64..4, 0u64..3, prop_oneof![3 => Just(0), 1 => 1u64..4])
            .prop_map(|(count, burst, extra, pauses)| Kind::Source { count, burst, extra, pauses }),
        3 => Just(Kind::Pass),
        1 => (1u64..4).prop_map(|turns| Kind::Postpone { turns }),
        1 => (0u64..8).prop_map(|most| Kind::Limit { most }),
        1 => (0u64..8).prop_map(|most| Kind::WorksOn { most }),
        2 => Just(Kind::Zip),
        2 => Just(Kind::Concat),
        1 => Just(Kind::Merge),
    ]
}

/// Networks of one to ten boxes beside their sinks.
pub(crate) fn recipes() -> impl Strategy<Value = Vec<Recipe>> {
    let recipe = (kind(), any::<[usize; 2]>(), [bound(), bound()], any::<[bool; 2]>())
        .prop_map(|(kind, from, bounds, private)| Recipe { kind, from, bounds, private });
    proptest::collection::vec(recipe, 1..11)
}

/// A via from the side of its input: the sender, its output, and the bound.
#[derive(Clone, Debug)]
struct Link {
    sender: usize,
    bound: Bound,
    private: bool,
}

/// A network with its expected streams. Boxes are numbered as they were added, without those of the library.
pub(crate) struct Network {
    pub(crate) model: Arc<Model>,
    boxes: Vec<(BoxId, Kind)>,
    /// By box and input; `None` if the sender keeps no log.
    links: Vec<Vec<Option<Link>>>,
    /// The stream sent by each box, if it does not depend on a race.
    streams: Vec<Option<Vec<u64>>>,
    /// Its boxes never wait for each other, so no via holds more than its bound.
    holds: bool,
    /// The paused boxes of its runs. Whoever runs it resumes them.
    pub(crate) paused: Paused,
}

/// Paused boxes.
pub(crate) type Paused = Arc<Mutex<Vec<Resume>>>;

fn schema() -> Schema {
    Schema::new([("number", Type::U64), ("scratch", Type::U64)])
}

/// An output still open for readers, while the network grows.
#[derive(Clone)]
struct Out {
    output: OutputId,
    sender: Option<usize>,
    stream: Option<Vec<u64>>,
    read: bool,
}

impl Network {
    /// Builds the network. `hold`: every input of a box that waits for one stream while another comes is held back, so
    /// the network cannot wait for itself.
    pub(crate) fn new(recipes: &[Recipe], hold: bool) -> Network {
        let mut net = ModelBuilder::new("random");
        let mut outs: Vec<Out> = Vec::new();
        let mut network = (Vec::new(), Vec::new(), Vec::new());
        let mut add = |net: &mut ModelBuilder, outs: &mut Vec<Out>, kind: Kind, from: &[usize], recipe: &Recipe| {
            let number = network.0.len();
            let name = format!("{kind:?}").split(' ').next().unwrap_or_default().to_lowercase();
            let model = BoxModel::new(name, || |_: &mut Turn<'_>| -> Result<(), BoxError> { unreachable!() });
            let inputs: Vec<Option<Vec<u64>>> = from.iter().map(|&at| outs[at].stream.clone()).collect();
            let stream = kind.stream(&inputs);
            let mut links = Vec::new();
            let id = if from.is_empty() {
                links.push(None);
                net.source(model.output(&schema()))
            } else {
                let model = from.iter().fold(model, |model, _| model.input(&schema()));
                let model = if matches!(kind, Kind::Merge) { model.takes_any_input() } else { model };
                let id = net.add(model.output(&schema()));
                for (input, &at) in from.iter().enumerate() {
                    let (mut output, mut sender) = (outs[at].output, outs[at].sender);
                    outs[at].read = true;
                    if hold && matches!(kind, Kind::Zip | Kind::Concat) {
                        let held = net.add(library::hold(&schema()));
                        net.connect(output, held.input(0)).bound(recipe.bounds[input]);
                        (output, sender) = (held.output(0), None);
                    }
                    let (bound, private) = (recipe.bounds[input], recipe.private[input]);
                    let options: LinkOptions<'_> = net.connect(output, id.input(input)).bound(bound);
                    if private {
                        options.private([1]);
                    }
                    links.push(sender.map(|sender| Link { sender, bound, private }));
                }
                id
            };
            outs.push(Out { output: id.output(0), sender: Some(number), stream: stream.clone(), read: false });
            network.0.push((id, kind));
            network.1.push(links);
            network.2.push(stream);
        };
        for recipe in recipes {
            let (first, second) = match outs.len() {
                0 => (0, 0),
                count => (recipe.from[0] % count, recipe.from[1] % count),
            };
            let kind = recipe.kind.clone();
            match kind {
                _ if outs.is_empty() => {
                    add(&mut net, &mut outs, Kind::Source { count: 9, burst: 2, extra: 1, pauses: 0 }, &[], recipe);
                }
                Kind::Source { .. } | Kind::Outside => add(&mut net, &mut outs, kind, &[], recipe),
                Kind::Zip | Kind::Concat | Kind::Merge => add(&mut net, &mut outs, kind, &[first, second], recipe),
                _ => add(&mut net, &mut outs, kind, &[first], recipe),
            }
        }
        for at in (0..outs.len()).filter(|&at| !outs[at].read).collect::<Vec<_>>() {
            // A sink reads every stream to the end; its output leads to the termination box.
            add(&mut net, &mut outs, Kind::Sink, &[at], &recipes[0]);
            net.end(outs.last().expect("it was just added").output);
        }
        let (boxes, links, streams) = network;
        let model = net.build().expect("every output is read");
        Network { model, boxes, links, streams, holds: hold, paused: Paused::default() }
    }

    /// A network that pauses nowhere and may wait for itself, beside a box that pauses.
    pub(crate) fn beside_a_paused_box(mut recipes: Vec<Recipe>) -> Network {
        for recipe in &mut recipes {
            if let Kind::Source { pauses, .. } = &mut recipe.kind {
                *pauses = 0;
            }
        }
        let bound = Bound { envelopes: 1, bytes: 1 };
        recipes.push(Recipe { kind: Kind::Outside, from: [0; 2], bounds: [bound; 2], private: [false; 2] });
        Network::new(&recipes, false)
    }

    /// The operators of one run with their log. `exact`: the world is sequential, so bounds and closed readers can be
    /// checked against the log while it runs. `fault`: a box, an invocation of it, and the fault there.
    pub(crate) fn operators(&self, exact: bool, fault: Option<(usize, u64, Fault)>) -> (Log, Operators) {
        let mut readers: Vec<Vec<(usize, usize, Link)>> = vec![Vec::new(); self.boxes.len()];
        for (reader, links) in self.links.iter().enumerate() {
            for (input, link) in links.iter().enumerate() {
                if let Some(link) = link {
                    readers[link.sender].push((reader, input, link.clone()));
                }
            }
        }
        let silent = |(number, (id, kind)): (usize, &(BoxId, Kind))| {
            let all: usize = self.model.boxes()[id.index()].outputs().map(|(_, readers)| readers.len()).sum();
            !matches!(kind, Kind::Sink) && readers[number].len() != all
        };
        let silent = self.boxes.iter().enumerate().map(silent).collect();
        let shape = Arc::new(Shape { readers, silent, holds: self.holds });
        let log: Log = Arc::new(self.boxes.iter().map(|_| Mutex::new(Entry::default())).collect());
        let operator = |number: usize| {
            let (id, kind) = &self.boxes[number];
            let operator = Watched {
                number,
                kind: kind.clone(),
                log: Arc::clone(&log),
                exact,
                shape: Arc::clone(&shape),
                private: self.links[number].iter().map(|link| link.as_ref().is_some_and(|link| link.private)).collect(),
                fault: fault.filter(|(at, ..)| at % self.boxes.len() == number).map(|(_, act, how)| (act, how)),
                acts: 0,
                paused: Arc::clone(&self.paused),
                asked: false,
                done: 0,
                ended: [false; 2],
            };
            (*id, Box::new(operator) as Box<dyn Operator>)
        };
        let operators = (0..self.boxes.len()).map(operator).collect();
        (log, operators)
    }

    /// Checks the rules for every run, failed ones included.
    pub(crate) fn judge(&self, log: &Log, result: &Result<Totals, FlowError>, counts: &[BoxCounts]) {
        let log: Vec<Entry> = log.iter().map(|entry| entry.lock().unwrap_or_else(|e| e.into_inner()).clone()).collect();
        for (reader, links) in self.links.iter().enumerate() {
            for (input, link) in links.iter().enumerate() {
                let Some(link) = link else { continue };
                let (taken, sent) = (&log[reader].taken[input], &log[link.sender].sent);
                let name = self.model.boxes()[self.boxes[reader].0.index()].name();
                assert!(sent.starts_with(taken), "input {input} of {name} is its via's stream: {taken:?} of {sent:?}");
                if result.is_ok() && log[reader].pills[input] {
                    assert_eq!(taken, sent, "the pill came last to input {input} of {name}");
                }
            }
        }
        for (number, (id, _)) in self.boxes.iter().enumerate() {
            let Some(expected) = &self.streams[number] else { continue };
            let sent = &log[number].sent;
            let name = self.model.boxes()[id.index()].name();
            assert!(expected.starts_with(sent), "{name} sent {sent:?}, not the beginning of {expected:?}");
        }
        if result.is_ok() {
            assert_eq!(self.missing_of(&log), None);
        }
        if let Err(FlowError::Stalled { cycle, .. }) = result {
            self.assert_cycle(cycle);
        }
        if result.is_ok() {
            for ((id, _), entry) in self.boxes.iter().zip(&log) {
                let name = self.model.boxes()[id.index()].name();
                assert!(!(entry.pill && entry.asked), "{name} has sent its pill and asked to run again, and did not");
            }
        }
        self.judge_counts(&log, result, counts);
    }

    /// A stream that has not come to its sink so far, while the request runs.
    pub(crate) fn missing(&self, log: &Log) -> Option<String> {
        let log: Vec<Entry> = log.iter().map(|entry| entry.lock().unwrap().clone()).collect();
        self.missing_of(&log)
    }

    fn missing_of(&self, log: &[Entry]) -> Option<String> {
        let mut sinks = self.boxes.iter().enumerate().filter(|(_, (_, kind))| matches!(kind, Kind::Sink));
        sinks.find_map(|(number, (id, _))| {
            let expected = self.streams[self.links[number][0].as_ref()?.sender].as_ref()?;
            let (name, taken) = (self.model.boxes()[id.index()].name(), &log[number].taken[0]);
            (taken != expected).then(|| format!("{taken:?} came to {name}, and not {expected:?}"))
        })
    }

    /// The runtime's counts are those of the boxes' logs.
    fn judge_counts(&self, log: &[Entry], result: &Result<Totals, FlowError>, counts: &[BoxCounts]) {
        let lent: u64 = counts.iter().flat_map(|counts| &counts.outputs).map(|output| output.overdraft).sum();
        assert!(!self.holds || lent == 0, "vias got {lent} bytes beyond their bounds");
        let sum = |of: fn(u64) -> u64, numbers: &[u64]| -> u64 { numbers.iter().map(|&number| of(number)).sum() };
        for ((id, _), entry) in self.boxes.iter().zip(log) {
            let (name, counts) = (self.model.boxes()[id.index()].name(), &counts[id.index()]);
            assert_eq!(counts.acts, entry.acts, "invocations of {name}");
            for (input, taken) in counts.inputs.iter().zip(&entry.taken) {
                assert_eq!((input.envelopes, input.rows), (taken.len() as u64, sum(rows, taken)), "{name} took");
                assert_eq!(input.near_bytes + input.far_bytes, sum(bytes, taken), "bytes that {name} took");
            }
            // Envelopes of the last invocation are not delivered if the request is over before it ends.
            let sent = &counts.outputs[0];
            assert!(sent.envelopes <= entry.sent.len() as u64 && sent.rows <= sum(rows, &entry.sent), "{name} sent");
            if sent.ended {
                assert_eq!(
                    (sent.envelopes, sent.rows),
                    (entry.sent.len() as u64, sum(rows, &entry.sent)),
                    "{name} sent"
                );
            }
        }
        for (reader, links) in self.links.iter().enumerate() {
            for (input, link) in links.iter().enumerate().filter(|(input, _)| log[reader].pills[*input]) {
                let Some(link) = link else { continue };
                let (taken, sent) = (&counts[self.boxes[reader].0.index()], &counts[self.boxes[link.sender].0.index()]);
                assert_eq!(taken.inputs[input].rows, sent.outputs[0].rows, "all rows of a via came to its reader");
            }
        }
        if let Ok(totals) = result {
            let taken = |of: fn(&BoxCounts) -> u64| counts.iter().map(of).sum::<u64>();
            let bytes = (taken(BoxCounts::near_bytes), taken(BoxCounts::far_bytes));
            assert_eq!((totals.near_bytes, totals.far_bytes), bytes, "a request's bytes are its boxes'");
        }
    }

    /// Every reason of a cycle names a via of the model, in its direction, and leads to the next reason's box.
    fn assert_cycle(&self, cycle: &[String]) {
        let index = |name: &str| {
            let found = self.model.boxes().iter().position(|other| other.name() == name);
            found.unwrap_or_else(|| panic!("{name} is a box of {:?}", self.model))
        };
        let mut reasons = Vec::new();
        for text in cycle {
            let (who, rest, room) = match text.split_once(" waits for room at input ") {
                Some((who, rest)) => (who, rest, true),
                None => {
                    let (who, rest) = text.split_once(" waits for input ").expect("a reason is one of two");
                    (who, rest, false)
                }
            };
            let (input, other) = rest.split_once(if room { " of " } else { " from " }).expect("it names a box");
            let other = other.split_once(", where ").map_or(other, |(other, _)| other);
            let (who, other, input): (usize, usize, usize) = (index(who), index(other), input.parse().unwrap());
            let (reader, sender) = if room { (other, who) } else { (who, other) };
            let real = self.model.boxes()[reader].senders().nth(input).map(BoxId::index);
            assert_eq!(real, Some(sender), "`{text}` is a via of {:?}", self.model);
            reasons.push((who, other, room));
        }
        for (at, &(_, to, _)) in reasons.iter().enumerate() {
            assert_eq!(to, reasons[(at + 1) % reasons.len()].0, "it is a circle: {cycle:?}");
        }
        assert!(reasons.iter().any(|r| r.2) && reasons.iter().any(|r| !r.2), "through a full via: {cycle:?}");
    }
}

impl Kind {
    /// The stream of a box of this kind; `None` if it depends on a race.
    fn stream(&self, inputs: &[Option<Vec<u64>>]) -> Option<Vec<u64>> {
        let input = |at: usize| inputs[at].clone();
        Some(match self {
            Kind::Source { count, .. } => (0..*count).collect(),
            Kind::Pass | Kind::Postpone { .. } => input(0)?,
            Kind::Limit { most } | Kind::WorksOn { most } => input(0)?.into_iter().take(*most as usize).collect(),
            Kind::Zip => input(0)?.into_iter().zip(input(1)?).map(|(a, b)| zipped(a, b)).collect(),
            Kind::Concat => input(0)?.into_iter().chain(input(1)?).collect(),
            Kind::Merge => return None,
            Kind::Sink | Kind::Outside => Vec::new(),
        })
    }
}

fn zipped(a: u64, b: u64) -> u64 {
    a.wrapping_mul(31).wrapping_add(b)
}

/// How a box goes wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Error,
    Panic,
    PanicInDrop,
}

/// The panics of faulty boxes are part of the test; their messages are suppressed.
pub(crate) fn expect_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload().downcast_ref::<&str>().copied().unwrap_or_default();
            if !text.starts_with("out of") {
                before(info);
            }
        }));
    });
}

/// The operators in place of the boxes' own in one run.
pub(crate) type Operators = Vec<(BoxId, Box<dyn Operator>)>;

/// The log of each box.
pub(crate) type Log = Arc<Vec<Mutex<Entry>>>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    acts: u64,
    sent: Vec<u64>,
    taken: [Vec<u64>; 2],
    pills: [bool; 2],
    closed: [bool; 2],
    /// The box has sent its pill.
    pill: bool,
    /// The box has asked to run again, and has not been invoked since.
    asked: bool,
}

/// The readers of each output.
struct Shape {
    /// By sender: the reader, its input, and the via's link.
    readers: Vec<Vec<(usize, usize, Link)>>,
    /// By sender: whether boxes without a log read it too.
    silent: Vec<bool>,
    holds: bool,
}

struct Watched {
    number: usize,
    kind: Kind,
    log: Log,
    exact: bool,
    shape: Arc<Shape>,
    private: Vec<bool>,
    fault: Option<(u64, Fault)>,
    paused: Paused,
    acts: u64,
    asked: bool,
    done: u64,
    ended: [bool; 2],
}

/// Rows of 16 bytes: one to three of them.
fn envelope(number: u64) -> Envelope {
    let rows = rows(number) as usize;
    Envelope::new([Column::from(vec![number; rows]), Column::from(vec![0u64; rows])])
}

fn rows(number: u64) -> u64 {
    1 + number % 3
}

fn bytes(number: u64) -> u64 {
    16 * rows(number)
}

impl Watched {
    fn entry(&self) -> std::sync::MutexGuard<'_, Entry> {
        self.log[self.number].lock().expect("nothing panics under this lock")
    }

    /// Checks the guarantees of a sequential world at the invocation of a box.
    fn look_around(&self) {
        let sent = self.entry().sent.clone();
        let readers = &self.shape.readers[self.number];
        let has_closed = |&(reader, input, _): &(usize, usize, Link)| self.log[reader].lock().unwrap().closed[input];
        let closed = !readers.is_empty() && !self.shape.silent[self.number] && readers.iter().all(has_closed);
        assert!(!closed || self.entry().pill, "a box that owes its pill is not invoked after all its readers closed");
        if !self.shape.holds {
            return;
        }
        for (reader, input, link) in readers.iter().filter(|(reader, input, _)| !self.may_have_left(*reader, *input)) {
            let taken = self.log[*reader].lock().unwrap().taken[*input].len();
            let waiting: Vec<u64> = sent[taken..].iter().map(|&number| bytes(number)).collect();
            let fits = waiting.len() <= link.bound.envelopes && waiting.iter().sum::<u64>() <= link.bound.bytes;
            assert!(
                fits || waiting.len() <= 1,
                "a bound holds before its sender goes on: {waiting:?}, {:?}",
                link.bound
            );
        }
    }

    /// Whether a reader may accept no more on an input: it has closed it, or all its own readers may have left.
    fn may_have_left(&self, reader: usize, input: usize) -> bool {
        let (closed, pill) = {
            let entry = self.log[reader].lock().unwrap();
            (entry.closed[input], entry.pills[input])
        };
        let unread = || {
            let readers = &self.shape.readers[reader];
            let left = readers.iter().all(|&(reader, input, _)| self.may_have_left(reader, input));
            left && (self.shape.silent[reader] || !readers.is_empty())
        };
        closed || pill || unread()
    }

    /// Takes an input's head: a number, or `None` for the pill. Outside `None` if there is no head.
    fn take(&mut self, turn: &mut Turn<'_>, input: usize) -> Option<Option<u64>> {
        let mut envelope = turn.take(input)?;
        assert!(turn.take(input).is_none(), "one envelope of each input is seen in an invocation");
        if envelope.is_pill() {
            self.ended[input] = true;
            self.entry().pills[input] = true;
            return Some(None);
        }
        let number = envelope.column(0).u64s()[0];
        assert_eq!(envelope.bytes(), bytes(number));
        if self.private[input] {
            let before = envelope.column(1).u64s().as_ptr();
            let scratch = envelope.u64s_mut(1);
            assert_eq!(before, scratch.as_ptr(), "a private column is changed in its own memory");
            assert!(scratch.iter().all(|&value| value == 0), "no other receiver wrote into a private column");
            scratch.fill(number);
        }
        self.entry().taken[input].push(number);
        Some(Some(number))
    }

    fn send(&mut self, turn: &mut Turn<'_>, number: u64) {
        self.entry().sent.push(number);
        turn.send(0, envelope(number));
    }

    fn send_pill(&mut self, turn: &mut Turn<'_>) {
        self.entry().pill = true;
        turn.send_pill(0);
    }

    fn close(&mut self, turn: &mut Turn<'_>, input: usize) {
        self.ended[input] = true;
        self.entry().closed[input] = true;
        turn.close(input);
    }

    fn again(&mut self, turn: &mut Turn<'_>) {
        self.asked = true;
        self.entry().asked = true;
        turn.run_again();
    }

    /// Pauses in a world with an outside.
    fn pause(&mut self, turn: &mut Turn<'_>) {
        self.again(turn);
        if let Some(resume) = turn.pause() {
            self.paused.lock().unwrap().push(resume);
        }
    }
}

impl Operator for Watched {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if self.exact {
            self.look_around();
        }
        self.entry().acts += 1;
        let heads = (0..turn.inputs()).filter(|&input| turn.head(input).is_some()).count();
        assert!(heads > 0 || std::mem::take(&mut self.asked), "a box is invoked when it has something to see");
        self.asked = false;
        self.entry().asked = false;
        self.acts += 1;
        match self.fault {
            Some((act, Fault::Error)) if act == self.acts => return Err("out of paper".into()),
            Some((act, Fault::Panic)) if act == self.acts => panic!("out of ink"),
            _ => {}
        }
        match self.kind {
            Kind::Outside => {
                turn.take(0);
                self.done += 1;
                if self.done == 1 { self.pause(turn) } else { self.send_pill(turn) }
            }
            Kind::Source { count, burst, extra, pauses } => {
                turn.take(0);
                let from = self.done;
                self.done += burst;
                (from..self.done.min(count)).for_each(|number| self.send(turn, number));
                if from < count && self.acts.checked_rem(pauses) == Some(0) {
                    self.pause(turn);
                } else if from < count {
                    self.again(turn);
                } else if from < count + burst {
                    self.send_pill(turn);
                    if extra > 0 {
                        self.again(turn);
                    }
                } else if from < count + burst * extra {
                    self.again(turn);
                }
            }
            Kind::Pass => match self.take(turn, 0) {
                Some(Some(number)) => self.send(turn, number),
                Some(None) => self.send_pill(turn),
                None => {}
            },
            Kind::Postpone { turns } => {
                if let Some(Some(number)) = self.take(turn, 0) {
                    self.send(turn, number);
                } else if self.ended[0] {
                    self.done += 1;
                    if self.done <= turns { self.again(turn) } else { self.send_pill(turn) }
                }
            }
            Kind::Limit { most } | Kind::WorksOn { most } => {
                let taken = self.take(turn, 0);
                let before = self.done <= most;
                if let (Some(Some(number)), true) = (taken, self.done < most) {
                    self.send(turn, number);
                }
                self.done += u64::from(taken.is_some_and(|taken| taken.is_some()));
                let ends = taken == Some(None) || self.done >= most.max(1);
                if before && ends && taken.is_some() {
                    self.done = most + 1;
                    self.send_pill(turn);
                    if matches!(self.kind, Kind::Limit { .. }) {
                        self.close(turn, 0);
                    }
                }
            }
            Kind::Zip => {
                let ends = |input: usize| turn.head(input).is_some_and(Envelope::is_pill);
                if ends(0) || ends(1) {
                    self.send_pill(turn);
                    self.close(turn, 0);
                    self.close(turn, 1);
                } else if heads == 2 {
                    let (a, b) = (self.take(turn, 0).flatten(), self.take(turn, 1).flatten());
                    self.send(turn, zipped(a.expect("no pill"), b.expect("no pill")));
                }
            }
            Kind::Sink => {
                if let Some(None) = self.take(turn, 0) {
                    self.send_pill(turn);
                }
            }
            Kind::Concat => {
                let input = usize::from(self.ended[0]);
                match self.take(turn, input) {
                    Some(Some(number)) => self.send(turn, number),
                    Some(None) if input == 1 => self.send_pill(turn),
                    _ => {}
                }
            }
            Kind::Merge => {
                for input in 0..2 {
                    if let Some(Some(number)) = self.take(turn, input) {
                        self.send(turn, number);
                    }
                }
                if self.ended == [true, true] {
                    self.send_pill(turn);
                }
            }
        }
        Ok(())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some((_, Fault::PanicInDrop)) = self.fault
            && !std::thread::panicking()
        {
            panic!("out of order");
        }
    }
}
