//! A random program that changes a store and a set of quads alike.

use oxrdf::{BaseDirection, GraphName, Literal, NamedNode, Quad, Term, Triple};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use vicus_disk::DiskError;
use vicus_files::{FakeDirectory, FakeDisk};
use vicus_rdf::load::Syntax;
use vicus_rdf::{Changes, Graphs, Id, Loader, Order, Snapshot};
use vicus_store::{Batch, CommitError, NoWaiting, Store, StoreError, Transaction};

pub(crate) type Quads = BTreeSet<String>;

/// Numbers by chance: xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled",
/// 2016).
#[derive(Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % bound
    }
}

/// All quads of a snapshot, as text; each of its orders must have the same.
pub(crate) fn quads(snapshot: &Snapshot) -> Quads {
    let in_order = |order| {
        let index = snapshot.index(order);
        let mut quads: Vec<[Id; 4]> = index.quads(0..index.len()).collect();
        quads.sort_unstable();
        quads
    };
    let all = in_order(Order::Gspo);
    let named: Vec<[Id; 4]> = all.iter().copied().filter(|[.., graph]| !graph.is_unbound()).collect();
    for order in snapshot.orders() {
        assert_eq!(in_order(order), *if order.is_by_graph() { &all } else { &named }, "{order:?}");
    }
    assert_eq!(snapshot.len(), all.len());
    let shown = |id: Id| if id.is_unbound() { String::new() } else { snapshot.term(id).to_string() };
    all.into_iter().map(|quad| quad.map(shown).join(" ")).collect()
}

/// One of a few hundred quads, with terms of all kinds but blank nodes.
pub(crate) fn quad(dice: &mut Dice) -> Quad {
    let iri = |kind: &str, number| NamedNode::new_unchecked(format!("http://example.org/{kind}/{number}"));
    let (s, p) = (iri("s", dice.below(9)), iri("p", dice.below(3)));
    let number = dice.below(5);
    let o: Term = match dice.below(8) {
        5 => {
            let direction = if number == 0 { BaseDirection::Ltr } else { BaseDirection::Rtl };
            Literal::new_directional_language_tagged_literal_unchecked(format!("a {number}"), "en", direction).into()
        }
        6 => Triple::new(s.clone(), p.clone(), Literal::from(number as i64)).into(),
        7 => {
            let inner = Triple::new(iri("t", number), p.clone(), Literal::new_simple_literal(format!("in {number}")));
            Triple::new(s.clone(), iri("says", 1), inner).into()
        }
        0 => iri("s", number).into(),
        1 => Literal::new_simple_literal(format!("text {number}")).into(),
        2 => Literal::new_language_tagged_literal_unchecked(format!("été {number}"), "fr").into(),
        3 => Literal::from(number as i64 - 2).into(),
        _ => Literal::new_typed_literal(format!("{number}.50"), iri("datatype", 1)).into(),
    };
    let graph = match dice.below(4) {
        0 | 1 => GraphName::DefaultGraph,
        number => iri("graph", number).into(),
    };
    Quad::new(s, p, o, graph)
}

/// A quad as [`quads`] shows it.
pub(crate) fn shown(quad: &Quad) -> String {
    let Quad { subject, predicate, object, graph_name } = quad;
    let graph = if graph_name.is_default_graph() { String::new() } else { graph_name.to_string() };
    format!("{subject} {predicate} {object} {graph}")
}

/// A store, and its expected content.
pub(crate) struct Run {
    disk: FakeDisk,
    dice: Dice,
    pub(crate) store: Option<Store>,
    /// Whether the store was created, surely.
    pub(crate) is_created: bool,
    /// The quads of all acknowledged changes.
    pub(crate) acknowledged: Quads,
    /// The sets possible instead.
    pub(crate) in_doubt: Vec<Quads>,
    /// The errors told to the program, in order.
    pub(crate) errors: Vec<String>,
    /// How much of each kind was done without an error.
    pub(crate) done: [u32; 5],
    backups: u64,
    /// Whether loads and merges are built in temporary files.
    spills: bool,
}

impl Run {
    pub(crate) fn new(disk: &FakeDisk, seed: u64) -> Run {
        let (acknowledged, in_doubt, errors, done) = Default::default();
        let (disk, dice) = (disk.clone(), Dice::new(seed));
        let spills = seed.is_multiple_of(2);
        Run { disk, dice, store: None, is_created: false, acknowledged, in_doubt, errors, done, backups: 0, spills }
    }

    /// So many steps by chance. Failures are noted, and the program goes on.
    pub(crate) fn steps(&mut self, steps: u32) {
        for _ in 0..steps {
            self.step();
        }
    }

    fn step(&mut self) {
        if self.store.is_none() {
            return self.open();
        }
        match self.dice.below(16) {
            0..6 => self.change(),
            6..9 => self.batch(),
            9 => self.load(),
            10 | 11 => self.merge(),
            12 => self.backup(),
            13 => self.store = None,
            14 => {
                // `kill -9`: the system goes on.
                self.disk.kill();
                self.store = None;
            }
            _ => self.give_up_a_change(),
        }
        self.compare();
    }

    fn note(&mut self, error: &dyn fmt::Display) {
        self.errors.push(error.to_string());
    }

    /// Readers see the acknowledged changes, and nothing else, after any failure.
    fn compare(&self) {
        if let Some(store) = &self.store {
            assert_eq!(quads(&store.snapshot()), self.acknowledged);
        }
    }

    pub(crate) fn open(&mut self) {
        self.store = None;
        let directory = Arc::new(self.disk.process(1));
        let opened = match Store::open(directory.clone(), Arc::new(NoWaiting)) {
            Err(StoreError::Disk(DiskError::NoStore(_))) if !self.is_created => {
                Store::create(directory, 4711, Arc::new(NoWaiting))
            }
            opened => opened,
        };
        match opened {
            Ok(store) => {
                self.is_created = true;
                let found = quads(&store.snapshot());
                self.check(&found);
                // Found by a writing process, so it stays.
                (self.acknowledged, self.in_doubt) = (found, Vec::new());
                self.store = Some(if self.spills { store.within(0) } else { store });
            }
            Err(error @ StoreError::Disk(DiskError::File(_) | DiskError::Lock(_))) => self.note(&error),
            Err(error) => panic!("only the system refuses: {error}"),
        }
    }

    /// # Panics
    /// A store must not hold this.
    pub(crate) fn check(&self, found: &Quads) {
        let may = *found == self.acknowledged || self.in_doubt.contains(found);
        assert!(may, "found {found:#?}\nacknowledged {:#?}\n{} in doubt", self.acknowledged, self.in_doubt.len());
    }

    /// A transaction of a few changes that looks at its own changes on the way.
    pub(crate) fn change(&mut self) {
        let (dice, store) = (&mut self.dice, self.store.as_ref().unwrap());
        let mut model = self.acknowledged.clone();
        let mut transaction = store.write().unwrap();
        for _ in 0..dice.below(3) + 1 {
            if dice.below(4) == 0 {
                whole_graphs(dice, &mut transaction, &mut model);
            }
            for _ in 0..dice.below(8) {
                let quad = quad(dice);
                if dice.below(3) > 0 {
                    model.insert(shown(&quad));
                    transaction.insert_quad(quad.as_ref()).unwrap();
                } else {
                    model.remove(&shown(&quad));
                    transaction.delete_quad(quad.as_ref()).unwrap();
                }
            }
            assert_eq!(quads(&transaction.snapshot().unwrap()), model);
            assert_eq!(quads(&store.snapshot()), self.acknowledged, "readers don't see it yet");
        }
        match transaction.commit() {
            Ok(committed) => {
                assert_eq!(quads(&committed.snapshot), model);
                if committed.number.is_some() {
                    self.in_doubt.clear();
                }
                self.acknowledged = model;
                self.done[0] += 1;
            }
            Err(error) => {
                if error.in_doubt() {
                    self.in_doubt.push(model);
                }
                assert!(!matches!(error, CommitError::BuiltOnRefused), "there is one writer");
                self.note(&error);
            }
        }
    }

    /// A few changes that don't look at anything.
    fn batch(&mut self) {
        let mut model = self.acknowledged.clone();
        let mut batch = Batch::new();
        for _ in 0..self.dice.below(8) {
            let quad = quad(&mut self.dice);
            if self.dice.below(3) > 0 {
                model.insert(shown(&quad));
                batch.insert(quad.as_ref());
            } else {
                model.remove(&shown(&quad));
                batch.delete(quad.as_ref());
            }
        }
        match batch.commit(self.store.as_ref().unwrap()) {
            Ok(number) => {
                if number.is_some() {
                    self.in_doubt.clear();
                }
                self.acknowledged = model;
                self.done[4] += 1;
            }
            Err(error) => {
                if error.in_doubt() {
                    self.in_doubt.push(model);
                }
                self.note(&error);
            }
        }
    }

    fn give_up_a_change(&mut self) {
        let mut transaction = self.store.as_ref().unwrap().write().unwrap();
        transaction.insert_quad(quad(&mut self.dice).as_ref()).unwrap();
        transaction.snapshot().unwrap();
    }

    pub(crate) fn load(&mut self) {
        let mut model = self.acknowledged.clone();
        let mut text = String::new();
        for _ in 0..self.dice.below(40) {
            let quad = quad(&mut self.dice);
            model.insert(shown(&quad));
            text.push_str(&format!("{} .\n", shown(&quad)));
        }
        let mut loader = Loader::default().with_rdf_12(true);
        loader.file(text.as_bytes(), Syntax::NQuads, None).unwrap();
        let loaded = self.store.as_ref().unwrap().load(loader.finish(), &mut |_| {});
        self.based(loaded, model, 1);
    }

    fn merge(&mut self) {
        match self.store.as_ref().unwrap().merge(&mut |_| {}) {
            Ok(false) => {}
            merged => self.based(merged.map(drop), self.acknowledged.clone(), 2),
        }
    }

    fn based(&mut self, outcome: Result<(), StoreError>, model: Quads, kind: usize) {
        match outcome {
            Ok(()) => {
                self.acknowledged = model;
                self.in_doubt.clear();
                self.done[kind] += 1;
            }
            Err(error) => {
                if let StoreError::NotPublished(not) = &error
                    && not.in_doubt
                    && !self.in_doubt.contains(&model)
                {
                    self.in_doubt.push(model);
                }
                self.note(&error);
            }
        }
    }

    /// To another, sound disk.
    fn backup(&mut self) {
        self.backups += 1;
        let disk = FakeDisk::new(self.backups);
        let directory = Arc::new(disk.process(7));
        match self.store.as_ref().unwrap().backup(directory, 4712, &mut |_| {}) {
            Ok(()) => {
                disk.crash(self.backups);
                assert_eq!(found(&disk.process(8)).unwrap(), self.acknowledged);
                self.done[3] += 1;
            }
            Err(error) => self.note(&error),
        }
    }
}

/// Clears graphs, or copies one.
fn whole_graphs(dice: &mut Dice, transaction: &mut Transaction<'_>, model: &mut Quads) {
    // The end of the text made by `shown`.
    let is_in = |quad: &str, graph: &GraphName| match graph {
        GraphName::DefaultGraph => quad.ends_with(' '),
        graph => quad.ends_with(&format!(" {graph}")),
    };
    let (from, to) = (quad(dice).graph_name, quad(dice).graph_name);
    let snapshot = transaction.snapshot().unwrap();
    let mut changes = Changes::of(&snapshot);
    let mut id = |graph: &GraphName| match graph {
        GraphName::NamedNode(name) => changes.id(&snapshot, name.as_ref().into()).unwrap(),
        _ => Id::UNBOUND,
    };
    match dice.below(6) {
        0 => {
            transaction.clear(Graphs::All).unwrap();
            model.clear();
        }
        1 => {
            transaction.clear(Graphs::Named).unwrap();
            model.retain(|quad| is_in(quad, &GraphName::DefaultGraph));
        }
        2 | 3 => {
            let from_id = id(&from);
            if snapshot.has(from_id) {
                transaction.clear(Graphs::One(from_id)).unwrap();
            }
            model.retain(|quad| !is_in(quad, &from));
        }
        _ => {
            let (from_id, to_id) = (id(&from), id(&to));
            if snapshot.has(from_id) {
                transaction.copy_graph(from_id, to_id, changes.fresh).unwrap();
            }
            let name = if to.is_default_graph() { String::new() } else { to.to_string() };
            let copy = |quad: &String| {
                let (triple, _) = quad.rsplit_once(' ').unwrap();
                format!("{triple} {name}")
            };
            let copies: Vec<String> = model.iter().filter(|quad| is_in(quad, &from)).map(copy).collect();
            model.extend(copies);
        }
    }
}

/// The content read by another process; each part is checked against the others.
pub(crate) fn found(directory: &FakeDirectory) -> Result<Quads, StoreError> {
    vicus_store::check(directory, &mut |_, _| {})?;
    Ok(quads(&*vicus_store::read(directory)?))
}
