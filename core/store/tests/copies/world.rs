//! Machines, disks and a network, by the seed.

use oxrdf::{Literal, NamedNodeRef, QuadRef};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;
use vicus_files::{Failure, FakeDisk};
use vicus_rdf::{Loader, Order, Snapshot};
use vicus_store::{
    Batch, CommitError, CopyAnswer, CopyStanding, Epoch, EpochStart, Fetched, Fetching, Followed, NoWaiting, Offer,
    Pending, Store, StoreError, read,
};

/// Numbers by chance: xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled",
/// 2016).
pub(crate) struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % bound as u64) as usize
    }

    /// True once in this number of times.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// The number of the store, the same in all its copies.
pub(crate) const STORE: u64 = 4711;

/// Longer than any schedule: what waits for followers is told when they have answered.
const PATIENT: u64 = u64::MAX / 2;

const EVENTS: usize = 150;

pub(crate) type Values = BTreeSet<u64>;

/// The values of the triples of a snapshot.
pub(crate) fn values(snapshot: &Snapshot) -> Values {
    let index = snapshot.index(Order::Gspo);
    let value = |quad: [vicus_rdf::Id; 4]| {
        let text = snapshot.term(quad[2]).to_string();
        text.trim_matches('"').parse().expect("each object is a number in quotes")
    };
    index.quads(0..index.len()).map(value).collect()
}

/// A change that inserts a value.
pub(crate) fn batch(value: u64) -> Batch {
    let mut batch = Batch::new();
    let iri = NamedNodeRef::new_unchecked("http://example.org/has");
    let literal = Literal::new_simple_literal(value.to_string());
    let graph = oxrdf::GraphNameRef::DefaultGraph;
    batch.insert(QuadRef::new(iri, iri, &literal, graph));
    batch
}

fn loaded(value: u64) -> Snapshot {
    let mut loader = Loader::default();
    let text = format!("<http://example.org/has> <http://example.org/has> \"{value}\" .\n");
    loader.ntriples(text.as_bytes()).expect("it is a triple");
    loader.finish()
}

/// A message as bytes, or a part of a file.
enum Message {
    Ask(Vec<u8>),
    CopyAnswer(Vec<u8>),
    WantsOffer,
    Offer(Vec<u8>),
    WantsPart {
        name: String,
        at: u64,
    },
    /// `None` if the file is gone.
    Part {
        name: String,
        at: u64,
        bytes: Option<Vec<u8>>,
    },
}

impl Clone for Message {
    fn clone(&self) -> Message {
        match self {
            Message::Ask(bytes) => Message::Ask(bytes.clone()),
            Message::CopyAnswer(bytes) => Message::CopyAnswer(bytes.clone()),
            Message::WantsOffer => Message::WantsOffer,
            Message::Offer(bytes) => Message::Offer(bytes.clone()),
            Message::WantsPart { name, at } => Message::WantsPart { name: name.clone(), at: *at },
            Message::Part { name, at, bytes } => Message::Part { name: name.clone(), at: *at, bytes: bytes.clone() },
        }
    }
}

#[derive(Clone)]
struct Letter {
    from: usize,
    to: usize,
    message: Message,
}

/// A base on its way to a machine.
struct Fetch {
    from: usize,
    offer: Offer,
    file: Option<Fetching>,
    fetched: Vec<Fetched>,
}

/// A change on its way.
struct Change {
    value: u64,
    epoch: Epoch,
    pending: Pending,
}

struct Machine {
    disk: FakeDisk,
    store: Option<Store>,
    /// Whom it follows by its command line; `None` for one that was started to write.
    follows: Option<usize>,
    fetch: Option<Fetch>,
    changes: Vec<Change>,
    /// An operation of its disk will lose power.
    is_armed: bool,
}

/// A promotion under way, as a person carries it out: an epoch, and the copies that have promised it.
struct Plan {
    epoch: Epoch,
    promised: Vec<(usize, CopyStanding)>,
    left: usize,
}

/// What has happened in schedules: none of it may never happen.
#[derive(Default, Debug)]
pub(crate) struct Counts {
    pub(crate) acknowledged: usize,
    pub(crate) appended: usize,
    pub(crate) cut: usize,
    pub(crate) kept: usize,
    pub(crate) fetched: usize,
    pub(crate) promoted: usize,
    pub(crate) crashes: usize,
    pub(crate) merges: usize,
    pub(crate) loads: usize,
    pub(crate) fenced: usize,
    pub(crate) in_place_of: usize,
}

impl Counts {
    fn all(&self) -> [usize; 11] {
        let Counts {
            acknowledged,
            appended,
            cut,
            kept,
            fetched,
            promoted,
            crashes,
            merges,
            loads,
            fenced,
            in_place_of,
        } = *self;
        [acknowledged, appended, cut, kept, fetched, promoted, crashes, merges, loads, fenced, in_place_of]
    }

    pub(crate) fn add(&mut self, other: &Counts) {
        self.acknowledged += other.acknowledged;
        self.appended += other.appended;
        self.cut += other.cut;
        self.kept += other.kept;
        self.fetched += other.fetched;
        self.promoted += other.promoted;
        self.crashes += other.crashes;
        self.merges += other.merges;
        self.loads += other.loads;
        self.fenced += other.fenced;
        self.in_place_of += other.in_place_of;
    }

    pub(crate) fn check(&self) {
        assert!(self.all().iter().all(|&count| count > 0), "all of it happens: {self:?}");
    }
}

pub(crate) struct World {
    seed: u64,
    dice: Dice,
    machines: Vec<Machine>,
    letters: Vec<Letter>,
    /// The links that carry nothing, from one machine to another.
    cut: BTreeSet<(usize, usize)>,
    /// How many followers acknowledge a commit.
    needed: usize,
    plans: Vec<Plan>,
    next_value: u64,
    next_crash: u64,
    /// The acknowledged records: their epoch, and their value.
    acknowledged: BTreeMap<u64, (Epoch, u64)>,
    /// What was seen with the last record of an epoch: the epochs up to there, and the values.
    seen: BTreeMap<(Epoch, u64), (Vec<EpochStart>, Values)>,
    pub(crate) counts: Counts,
}

fn epochs_up_to(standing: &CopyStanding, number: u64) -> Vec<EpochStart> {
    standing.epochs.iter().copied().filter(|start| start.first <= number).collect()
}

fn last_epoch(epochs: &[EpochStart]) -> Epoch {
    epochs.last().map_or(Epoch::default(), |start| start.epoch)
}

impl World {
    /// Some machines. The first one writes, and the others follow it or each other.
    pub(crate) fn new(seed: u64) -> World {
        let mut dice = Dice::new(seed);
        let count = 3 + dice.below(2);
        let machines = (0..count).map(|number| {
            let disk = FakeDisk::new(seed << 8 | number as u64);
            let follows = (number > 0).then(|| if dice.once_in(4) { number - 1 } else { 0 });
            Machine { disk, store: None, follows, fetch: None, changes: Vec::new(), is_armed: false }
        });
        let machines = machines.collect();
        let needed = dice.below(count);
        let mut world = World {
            seed,
            dice,
            machines,
            letters: Vec::new(),
            cut: BTreeSet::new(),
            needed,
            plans: Vec::new(),
            next_value: 0,
            next_crash: seed << 20,
            acknowledged: BTreeMap::new(),
            seen: BTreeMap::new(),
            counts: Counts::default(),
        };
        for number in 0..count {
            let directory = Arc::new(world.machines[number].disk.process(1));
            drop(Store::create(directory, STORE, Arc::new(NoWaiting)).expect("the disk is sound"));
            world.start(number);
        }
        world
    }

    /// A schedule, and then a quiet time in which all copies become alike.
    pub(crate) fn run(&mut self) {
        for _ in 0..EVENTS {
            self.event();
        }
        self.rest();
    }

    fn fail(&self, what: impl Display) -> ! {
        panic!("seed {}: {what}", self.seed)
    }

    fn start(&mut self, number: usize) {
        let machine = &mut self.machines[number];
        let store = match Store::open(Arc::new(machine.disk.process(2)), Arc::new(NoWaiting)) {
            Ok(store) => store,
            Err(_) if machine.is_armed => return self.crash(number),
            Err(error) => self.fail(format!("machine {number} does not start: {error}")),
        };
        store.need_followers(self.needed, PATIENT);
        if machine.follows.is_some() && store.follow(100 + number as u64).is_err() {
            return self.crash(number);
        }
        machine.store = Some(store);
        self.look(number);
    }

    /// Power is lost, or the process is killed; it is started anew.
    fn crash(&mut self, number: usize) {
        self.counts.crashes += 1;
        self.next_crash += 1;
        let is_kill = self.dice.once_in(3) && !self.machines[number].is_armed;
        let machine = &mut self.machines[number];
        (machine.store, machine.fetch, machine.is_armed) = (None, None, false);
        machine.changes.clear();
        if is_kill {
            machine.disk.kill()
        } else {
            machine.disk.crash(self.next_crash)
        }
        self.start(number);
    }

    /// The result of an operation; a failure is that of its disk, and ends the process.
    fn done<T>(&mut self, number: usize, result: Result<T, impl Display>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(_) if self.machines[number].is_armed => {
                self.crash(number);
                None
            }
            Err(error) => self.fail(format!("machine {number}: {error}")),
        }
    }

    /// Compares what a machine's readers see with what was seen for the same records elsewhere.
    fn look(&mut self, number: usize) {
        let Some(store) = &self.machines[number].store else { return };
        let (standing, (snapshot, last)) = (store.standing(), store.numbered_snapshot());
        if last > standing.last {
            self.fail(format!("machine {number} shows record {last} of {}", standing.last));
        }
        let epochs = epochs_up_to(&standing, last);
        let found = (epochs.clone(), values(&snapshot));
        let expected = self.seen.entry((last_epoch(&epochs), last)).or_insert_with(|| found.clone());
        if *expected != found {
            let expected = format!("{expected:?}");
            self.fail(format!("machine {number} at {last}: {found:?}, and another one had {expected}"));
        }
    }

    fn event(&mut self) {
        let number = self.dice.below(self.machines.len());
        let what = self.dice.below(100);
        if what >= 80 {
            // The others find changes on their way, too; these wait for them, and there is one thread.
            (0..self.machines.len()).for_each(|number| self.poll(number));
        }
        match what {
            0..35 => self.deliver(),
            35..60 => self.ask(number),
            60..80 => self.change(number),
            80..84 => self.plan(),
            84..87 => self.merge(number),
            87 => self.load(number),
            88 | 89 => self.crash(number),
            90..93 => {
                let operations = self.dice.below(12) as u64;
                self.machines[number].disk.fail_after(operations, Failure::PowerLoss);
                self.machines[number].is_armed = true;
            }
            93..95 => {
                let to = self.dice.below(self.machines.len());
                self.cut.insert((number, to));
            }
            95..97 => self.cut.retain(|_| self.dice.once_in(2)),
            // A person starts it anew with another address.
            _ => self.point(number),
        }
        for number in 0..self.machines.len() {
            if !self.dice.once_in(3) {
                self.poll(number);
            }
            self.look(number);
        }
    }

    /// A machine follows the one that has the newest epoch, or sometimes any.
    fn point(&mut self, number: usize) {
        let newest = |(_, machine): &(usize, &Machine)| {
            machine.store.as_ref().map(|store| (store.standing().may_write(), store.standing().epoch()))
        };
        let newest = self.machines.iter().enumerate().max_by_key(newest).expect("there are machines").0;
        let target = if self.dice.once_in(4) { self.dice.below(self.machines.len()) } else { newest };
        if target != number {
            self.follow(number, target);
        }
    }

    fn follow(&mut self, number: usize, target: usize) {
        let machine = &mut self.machines[number];
        (machine.follows, machine.fetch) = (Some(target), None);
        if let Some(store) = &machine.store {
            let followed = store.follow(100 + number as u64);
            self.done(number, followed);
        }
    }

    fn send(&mut self, from: usize, to: usize, message: Message) {
        let letter = Letter { from, to, message };
        if self.dice.once_in(10) {
            return;
        }
        if self.dice.once_in(10) {
            self.letters.push(letter.clone());
        }
        self.letters.push(letter);
    }

    /// Any of the letters on their way arrives.
    fn deliver(&mut self) {
        if self.letters.is_empty() {
            return;
        }
        // Most come in their order.
        let place = if self.dice.once_in(3) { self.dice.below(self.letters.len()) } else { 0 };
        let letter = self.letters.remove(place);
        if !self.cut.contains(&(letter.from, letter.to)) {
            self.receive(letter);
        }
    }

    fn ask(&mut self, number: usize) {
        let machine = &self.machines[number];
        let (Some(target), Some(store)) = (machine.follows, &machine.store) else { return };
        let standing = store.standing();
        if !standing.follows {
            return;
        }
        let message = match &machine.fetch {
            None => Message::Ask(standing.encode().into_bytes()),
            Some(Fetch { file: Some(file), fetched, offer, .. }) => {
                Message::WantsPart { name: offer.files[fetched.len()].name.clone(), at: file.at() }
            }
            Some(_) => Message::WantsOffer,
        };
        self.send(number, target, message);
    }

    fn receive(&mut self, Letter { from, to, message }: Letter) {
        let Some(store) = &self.machines[to].store else { return };
        match message {
            Message::Ask(bytes) => {
                let ask = CopyStanding::decode(&bytes).expect("it was encoded");
                let could_write = store.standing().may_write();
                let answered = store.answer(&ask, 200, true);
                self.counts.fenced += usize::from(could_write && !store.standing().may_write());
                if let Some(answer) = self.done(to, answered) {
                    self.send(to, from, Message::CopyAnswer(answer.encode()));
                }
            }
            Message::CopyAnswer(bytes) => {
                let answer = CopyAnswer::decode(&bytes).expect("it was encoded");
                let followed = store.follow_up(&answer);
                let Some(followed) = self.done(to, followed) else { return };
                match followed {
                    Followed::Appended(count) => self.counts.appended += count,
                    Followed::Cut { kept, .. } => {
                        self.counts.cut += 1;
                        let names = self.machines[to].disk.names();
                        if kept.is_empty() || !names.iter().any(|name| name.starts_with("aside-")) {
                            self.fail("records were cut, and kept nowhere");
                        }
                    }
                    Followed::NeedsBase => self.send(to, from, Message::WantsOffer),
                    Followed::UpToDate | Followed::Refused(_) | Followed::Ignored => {}
                }
            }
            Message::WantsOffer => {
                let offer = Message::Offer(store.offer().encode().into_bytes());
                self.send(to, from, offer);
            }
            Message::Offer(bytes) => {
                let offer = Offer::decode(&bytes).expect("it was encoded");
                if self.machines[to].follows == Some(from) {
                    self.machines[to].fetch = Some(Fetch { from, offer, file: None, fetched: Vec::new() });
                    self.fetch_next(to);
                }
            }
            Message::WantsPart { name, at } => {
                let opened = store.open_base(&name);
                let Some(file) = self.done(to, opened) else { return };
                let read = file.map(|file| {
                    let mut bytes = vec![0; (file.len()? - at).min(16 << 10) as usize];
                    file.read_at(at, &mut bytes).map(|()| bytes)
                });
                let Some(bytes) = self.done(to, read.transpose()) else { return };
                self.send(to, from, Message::Part { name, at, bytes });
            }
            Message::Part { name, at, bytes } => {
                let Some(fetch) = self.machines[to].fetch.as_mut().filter(|fetch| fetch.from == from) else { return };
                let is_next = fetch.offer.files.get(fetch.fetched.len()).is_some_and(|file| file.name == name);
                let Some(file) = fetch.file.as_mut().filter(|file| is_next && file.at() == at) else { return };
                let Some(bytes) = bytes else {
                    // Another base has taken its place.
                    self.machines[to].fetch = None;
                    return;
                };
                let written = file.write(&bytes);
                if self.done(to, written).is_some() {
                    self.fetch_next(to);
                }
            }
        }
    }

    /// Goes on to the next file when one is there, and to its end.
    fn fetch_next(&mut self, number: usize) {
        loop {
            let machine = &mut self.machines[number];
            let (Some(store), Some(fetch)) = (&machine.store, &mut machine.fetch) else { return };
            if let Some(file) = fetch.file.take() {
                if file.left() > 0 {
                    fetch.file = Some(file);
                    return;
                }
                match store.fetched(file) {
                    Ok(file) => fetch.fetched.push(file),
                    // Bytes from before a loss of power may be zeros: all of it comes again.
                    Err(StoreError::Disk(error))
                        if !machine.is_armed && !matches!(error, vicus_disk::DiskError::File(_)) =>
                    {
                        machine.fetch = None;
                        return;
                    }
                    Err(error) => {
                        self.done::<()>(number, Err(error));
                        return;
                    }
                }
            }
            if let Some(entry) = fetch.offer.files.get(fetch.fetched.len()) {
                let begun = store.fetch(entry.fingerprint);
                let Some(file) = self.done(number, begun) else { return };
                self.machines[number].fetch.as_mut().expect("it goes on").file = Some(file);
                continue;
            }
            let Fetch { offer, fetched, .. } = machine.fetch.take().expect("it was there");
            // It may write meanwhile.
            self.poll(number);
            let Some(store) = &self.machines[number].store else { return };
            let adopted = store.adopt(&offer, fetched);
            if let Some(Some(kept)) = self.done(number, adopted) {
                self.counts.fetched += 1;
                self.counts.kept += kept.len();
            }
            return;
        }
    }

    fn change(&mut self, number: usize) {
        self.next_value += 1;
        let value = self.next_value;
        let machine = &mut self.machines[number];
        let Some(store) = &machine.store else { return };
        let standing = store.standing();
        match batch(value).stage(store) {
            Ok(pending) => {
                assert!(standing.may_write(), "a follower takes no changes");
                let pending = pending.expect("it has a change");
                machine.changes.push(Change { value, epoch: standing.epoch(), pending });
            }
            Err(CommitError::Failed(StoreError::Follows | StoreError::Replaced(_))) => {
                assert!(!standing.may_write(), "a writer takes changes");
            }
            Err(error) => {
                self.done::<()>(number, Err(error));
            }
        }
    }

    /// Looks after the changes of a machine.
    fn poll(&mut self, number: usize) {
        let changes = std::mem::take(&mut self.machines[number].changes);
        for change in changes {
            let Some(store) = &self.machines[number].store else { return };
            match change.pending.poll(store) {
                None => self.machines[number].changes.push(change),
                Some(Ok(record)) => self.acknowledge(record, change.epoch, change.value, number),
                Some(Err(CommitError::NotConfirmed(StoreError::Follows | StoreError::Replaced(_)))) => {}
                // The others have ended with the process.
                Some(Err(error)) => {
                    self.done::<()>(number, Err(error));
                    return;
                }
            }
        }
    }

    fn acknowledge(&mut self, record: u64, epoch: Epoch, value: u64, number: usize) {
        self.counts.acknowledged += 1;
        let Some(store) = &self.machines[number].store else { return };
        // Without followers, a change is acknowledged when it is written, which this caller has done now.
        if self.needed == 0 && !store.standing().may_write() {
            self.fail(format!("{value} is acknowledged by machine {number} behind its promise"));
        }
        let (snapshot, last) = store.numbered_snapshot();
        if last < record || !values(&snapshot).contains(&value) {
            self.fail(format!("{value} is acknowledged, and not visible"));
        }
        let before = self.acknowledged.insert(record, (epoch, value));
        if let Some((other, _)) = before.filter(|(other, _)| *other != epoch) {
            self.fail(format!("record {record} is acknowledged in epochs {other:?} and {epoch:?}"));
        }
    }

    fn merge(&mut self, number: usize) {
        let Some(store) = &self.machines[number].store else { return };
        let merged = store.merge(&mut |_| {});
        if self.done(number, merged) == Some(true) {
            self.counts.merges += 1;
        }
    }

    fn load(&mut self, number: usize) {
        self.next_value += 1;
        let Some(store) = &self.machines[number].store else { return };
        if store.standing().may_write() {
            let loaded = store.load(loaded(self.next_value), &mut |_| {});
            if self.done(number, loaded).is_some() {
                self.counts.loads += 1;
            }
        }
    }

    /// A step of a promotion: a new one, or one more promise, or its end.
    fn plan(&mut self) {
        if self.plans.is_empty() || (self.plans.len() < 2 && self.dice.once_in(4)) {
            // The person has asked some of the copies which epochs they know.
            let known = self.machines.iter().filter_map(|machine| machine.store.as_ref());
            let known = known.filter(|_| !self.dice.once_in(3)).map(|store| store.standing().known().number).max();
            let epoch = Epoch { number: known.unwrap_or(0) + 1, by: self.dice.below(1 << 20) as u64 };
            self.plans.push(Plan { epoch, promised: Vec::new(), left: 12 });
            return;
        }
        let place = self.dice.below(self.plans.len());
        let mut plan = self.plans.remove(place);
        plan.left -= 1;
        // Every commit is in one of those that have acknowledged it and of those that have promised.
        if plan.promised.len() >= self.machines.len() - self.needed && self.dice.once_in(2) {
            return self.promote(&plan);
        }
        let number = self.dice.below(self.machines.len());
        if let Some(store) = &self.machines[number].store
            && !plan.promised.iter().any(|(other, _)| *other == number)
        {
            match store.promise(plan.epoch) {
                Ok(standing) => plan.promised.push((number, standing)),
                // Another one was quicker.
                Err(StoreError::Replaced(_)) => return,
                Err(error) => {
                    self.done::<()>(number, Err(error));
                }
            }
        }
        if plan.left > 0 {
            self.plans.push(plan);
        }
    }

    fn promote(&mut self, plan: &Plan) {
        let is_furthest = |standing: &CopyStanding| plan.promised.iter().all(|(_, other)| standing.is_as_far_as(other));
        let (number, _) = plan.promised.iter().find(|(_, standing)| is_furthest(standing)).expect("one is furthest");
        let number = *number;
        let Some(store) = &self.machines[number].store else { return };
        match store.begin_epoch(plan.epoch) {
            Ok(_) => {
                self.counts.promoted += 1;
                self.counts.in_place_of += usize::from(self.machines[number].follows.is_some());
                self.machines[number].follows = None;
                self.check_promoted(number);
            }
            Err(CommitError::Failed(StoreError::Replaced(_))) => {}
            Err(error) => {
                self.done::<()>(number, Err(error));
            }
        }
    }

    /// A new writer has all that was acknowledged: as all copies have promised its epoch if no followers acknowledge.
    fn check_promoted(&self, number: usize) {
        // What it would find after a loss of power.
        let disk = self.machines[number].disk.copy();
        disk.crash(self.seed);
        let snapshot = read(&disk.process(3));
        let found = values(&snapshot.unwrap_or_else(|error| self.fail(error)));
        for (record, (epoch, value)) in &self.acknowledged {
            if !found.contains(value) {
                self.fail(format!("machine {number} is promoted without record {record} of {epoch:?}: {value}"));
            }
        }
    }

    /// All links carry letters, no disk fails, one copy is promoted, and the others follow it.
    fn rest(&mut self) {
        self.cut.clear();
        self.letters.clear();
        for number in 0..self.machines.len() {
            self.poll(number);
            if self.machines[number].is_armed {
                self.crash(number);
            }
        }
        let epoch = Epoch { number: 1_000_000, by: 0 };
        let promise = |(number, machine): (usize, &Machine)| {
            let store = machine.store.as_ref().expect("all run");
            (number, store.promise(epoch).expect("no one knows it"))
        };
        let promised = self.machines.iter().enumerate().map(promise).collect();
        self.promote(&Plan { epoch, promised, left: 0 });
        let writer = self.machines.iter().position(|machine| {
            machine.follows.is_none() && { machine.store.as_ref().is_some_and(|store| store.standing().may_write()) }
        });
        let writer = writer.unwrap_or_else(|| self.fail("no copy could be promoted"));
        for number in (0..self.machines.len()).filter(|&number| number != writer) {
            self.follow(number, writer);
        }
        self.change(writer);
        self.become_alike(writer);
        // Followers merge where the writer has, also behind later changes: terms have the same ids in all copies.
        self.merge(writer);
        self.change(writer);
        self.become_alike(writer);
        for number in 0..self.machines.len() {
            if number != writer {
                self.merge(number);
            }
            self.look(number);
        }
        let bases = self.machines.iter().map(|machine| {
            let store = machine.store.as_ref().expect("all run");
            (store.included(), store.snapshot().fingerprint())
        });
        let bases: BTreeSet<_> = bases.collect();
        if bases.len() != 1 {
            self.fail(format!("copies have merged otherwise than their writer: {bases:?}"));
        }
        self.check_promoted(writer);
        let all: BTreeSet<Values> =
            self.machines.iter().map(|machine| values(&machine.store.as_ref().expect("all run").snapshot())).collect();
        if all.len() != 1 {
            self.fail("the copies differ at the end");
        }
        // An old state is a part of a newer one of the same epochs.
        for ((epoch, last), (epochs, values)) in &self.seen {
            let before = match epochs.split_last() {
                // That of the epoch before, up to where this one began.
                Some((start, before)) if start.first == *last => (last_epoch(before), start.first),
                _ => (*epoch, *last),
            };
            let older = self.seen.range((before.0, 0)..before).next_back();
            if let Some((other, (_, less))) = older.filter(|(_, (_, less))| !less.is_subset(values)) {
                self.fail(format!("{other:?} has {less:?}, and {last} behind it has {values:?}"));
            }
        }
    }

    /// Questions and answers until all copies have what the writer has, and its commits are acknowledged.
    fn become_alike(&mut self, writer: usize) {
        let last = |world: &World| {
            let standings = world.machines.iter().map(|machine| machine.store.as_ref().expect("all run").standing());
            standings.map(|standing| (standing.epoch(), standing.last)).collect::<BTreeSet<_>>()
        };
        for round in 0.. {
            for number in 0..self.machines.len() {
                self.ask(number);
                self.poll(number);
            }
            while !self.letters.is_empty() {
                self.deliver();
            }
            // One more round tells the writer.
            if last(self).len() == 1 && self.machines[writer].changes.is_empty() {
                break;
            }
            if round > 300 {
                self.fail(format!("the copies do not become alike: {:?}", last(self)));
            }
        }
    }
}
