//! All changes acknowledged by the update path are there when the store is opened again; changes that could not be read
//! then are refused.

use crate::model::Dice;
use oxrdf::{BlankNode, GraphName, Literal, NamedNode, Quad, Term, Triple};
use std::collections::BTreeSet;
use std::sync::Arc;
use vicus_files::FakeDisk;
use vicus_rdf::{Encoded, Encoder, Id, Order, Snapshot, TermKind};
use vicus_store::{Batch, NoWaiting, Store, StoreError};

/// The documented limit.
const MOST: usize = 64;

type Shown = BTreeSet<[String; 4]>;

fn show(kind: TermKind, key: &str) -> String {
    format!("{kind:?} {key:?}")
}

fn shown(snapshot: &Snapshot) -> Shown {
    let index = snapshot.index(Order::Gspo);
    let term = |id: Id| match id.kind().section() {
        Some(_) => snapshot.key(id, |key| show(id.kind(), key)),
        None => format!("{:x}", id.bits()),
    };
    index.quads(0..index.len()).map(|quad| quad.map(term)).collect()
}

/// A triple term of so many levels, around this one or a string.
fn nested(levels: usize) -> Triple {
    let iri = |name: &str| NamedNode::new_unchecked(format!("http://e/{name}"));
    let innermost = Triple::new(iri("s"), iri("p"), Literal::new_simple_literal("in"));
    (1..levels).fold(innermost, |inner, _| Triple::new(BlankNode::new_unchecked("b"), iri("p"), inner))
}

fn key_of(term: &Term) -> (TermKind, String) {
    match Encoder::default().term(term.as_ref()) {
        Encoded::Key(kind, key) => (kind, key.to_owned()),
        Encoded::Inlined(id) => panic!("{id:?} has no key"),
    }
}

/// A key made by an encoder.
fn right_key(dice: &mut Dice) -> (TermKind, String) {
    let text = ["", "\0", "en", "\0a\0", "é\u{10FFFF}", "http://e/", " \n\""][dice.below(7) as usize];
    match dice.below(8) {
        0 | 1 => (TermKind::Iri, text.to_owned()),
        2 => (TermKind::String, text.to_owned()),
        3 => (TermKind::LangString, format!("en\0{text}")),
        4 => (TermKind::DirString, format!("en--rtl\0{text}")),
        5 => (TermKind::Typed, format!("http://e/type\0{text}")),
        6 => (TermKind::Blank, format!("\u{3}{text}")),
        _ => key_of(&nested([1, 2, MOST - 1, MOST][dice.below(4) as usize]).into()),
    }
}

/// A key of any kind, right or wrong.
fn any_key(dice: &mut Dice) -> (TermKind, String) {
    let kind = TermKind::ALL[dice.below(TermKind::ALL.len() as u64) as usize];
    if kind == TermKind::Triple && dice.below(4) > 0 {
        let levels = [1, 2, 63, 64, 65, 66, 200][dice.below(7) as usize];
        return key_of(&nested(levels).into());
    }
    let parts = ["", "\0", "en", "--ltr", "--rtl", "a", "é\u{10FFFF}", "\0\0", "0", "\u{30}", "http://e/", " ", "\n"];
    let count = dice.below(6);
    let key = (0..count).map(|_| parts[dice.below(parts.len() as u64) as usize]).collect();
    (kind, key)
}

/// An id that is its own term, or is nearly one.
fn any_inlined(dice: &mut Dice) -> Id {
    let tag = [0x00, 0x40, 0x48, 0x41, 0x49][dice.below(5) as usize];
    let payload = [0, 1, 2, 1 << 55, (1 << 56) - 1][dice.below(5) as usize];
    Id::from_bits(tag << 56 | payload)
}

fn open(disk: &FakeDisk, pid: u32) -> Store {
    Store::open(Arc::new(disk.process(pid)), Arc::new(NoWaiting)).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn what_is_acknowledged_is_there_after_opening_whatever_its_terms_are() {
    let seeds = if cfg!(debug_assertions) { 60 } else { 400 };
    let (mut refused, mut made) = (0, 0);
    for seed in 0..seeds {
        let disk = FakeDisk::new(seed);
        let mut store = Store::create(Arc::new(disk.process(1)), 4711, Arc::new(NoWaiting)).unwrap();
        let mut dice = Dice::new(seed);
        let mut model = Shown::new();
        for _ in 0..12 {
            let mut after = model.clone();
            let mut transaction = store.write().unwrap();
            let mut is_refused = false;
            for _ in 0..dice.below(3) + 1 {
                let mut quad = [Id::UNBOUND; 4];
                let mut names = [const { String::new() }; 4];
                for (id, name) in quad.iter_mut().zip(&mut names) {
                    if dice.below(30) == 0 {
                        *id = any_inlined(&mut dice);
                        *name = format!("{:x}", id.bits());
                        continue;
                    }
                    let is_right = dice.below(20) > 0;
                    let (kind, key) = if is_right { right_key(&mut dice) } else { any_key(&mut dice) };
                    match transaction.id_of_key(kind, &key) {
                        Ok(made) => (*id, *name) = (made, show(kind, &key)),
                        Err(StoreError::NotKept(_) | StoreError::Broken) => is_refused = true,
                        Err(error) => panic!("seed {seed}: {error}"),
                    }
                }
                if !is_refused {
                    transaction.insert(quad);
                    after.insert(names);
                }
            }
            match transaction.commit() {
                Ok(_) => {
                    assert!(!is_refused, "seed {seed}");
                    (model, made) = (after, made + 1);
                }
                Err(_) => refused += 1,
            }
            assert_eq!(shown(&store.snapshot()), model, "seed {seed}: the store goes on");
            if dice.below(3) == 0 {
                if dice.below(2) == 0 {
                    store.merge(&mut |_| {}).unwrap();
                }
                drop(store);
                store = open(&disk, 2);
                assert_eq!(shown(&store.snapshot()), model, "seed {seed}");
            }
        }
        drop(store);
        assert_eq!(shown(&open(&disk, 2).snapshot()), model, "seed {seed}");
    }
    assert!(refused > seeds && made > seeds, "{refused} refused, {made} made");
}

/// An update with a triple term of 65 levels was once acknowledged, and the store was never opened again.
#[test]
fn a_triple_term_beyond_the_limit_is_refused_and_the_store_goes_on() {
    let iri = |name: &str| NamedNode::new_unchecked(format!("http://e/{name}"));
    let disk = FakeDisk::new(1);
    let mut store = Store::create(Arc::new(disk.process(1)), 4711, Arc::new(NoWaiting)).unwrap();
    let mut expected = 0;
    for levels in [1, MOST - 1, MOST, MOST + 1, MOST + 2, 300] {
        for is_batch in [true, false] {
            let quad = Quad::new(iri("a"), iri(&format!("p{is_batch}")), nested(levels), GraphName::DefaultGraph);
            let committed = match is_batch {
                true => {
                    let mut batch = Batch::new();
                    batch.insert(quad.as_ref());
                    batch.commit(&store).map_err(|error| error.to_string())
                }
                false => {
                    let mut transaction = store.write().unwrap();
                    transaction.insert_quad(quad.as_ref()).unwrap();
                    transaction.commit().map(|made| made.number).map_err(|error| error.to_string())
                }
            };
            match committed {
                Ok(_) => {
                    assert!(levels <= MOST, "{levels}");
                    expected += 1;
                }
                Err(error) => {
                    assert!(levels > MOST, "{levels}: {error}");
                    assert!(error.contains("more than 64 levels"), "{error}");
                }
            }
            assert_eq!(store.snapshot().len(), expected);
        }
        drop(store);
        store = open(&disk, 2);
        assert_eq!(store.snapshot().len(), expected, "{levels}");
    }
}
