//! Changed snapshots compared with sorted sets of quads.

use crate::model::{Model, assert_index, assert_patterns, assert_same, assert_statistics};
use oxrdf::{BlankNode, Literal, NamedNode, Term};
use std::collections::BTreeSet;
use vicus_rdf::load::Syntax;
use vicus_rdf::{Changes, Graphs, Id, Loader, Order, Snapshot, TermKind};

/// A generator of numbers: Steele et al., "Fast splittable pseudorandom number generators", OOPSLA 2014.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ bits >> 31) % end
    }
}

/// Numbers of a subject, a predicate, an object and a graph; graph 0 is the default graph.
type Numbers = [u64; 4];

/// The terms with these numbers; no graph for the default one.
fn terms([subject, predicate, object, graph]: Numbers) -> [Option<Term>; 4] {
    let iri = |name: &str, number: u64| Some(NamedNode::new_unchecked(format!("http://e/{name}{number}")).into());
    let node = |number: u64| match number % 7 {
        6 => Some(BlankNode::new_unchecked(format!("b{number}")).into()),
        _ => iri("s", number),
    };
    let literal = |datatype: &str| {
        let datatype = NamedNode::new_unchecked(format!("http://www.w3.org/2001/XMLSchema#{datatype}"));
        Some(Literal::new_typed_literal(object.to_string(), datatype).into())
    };
    let object = match object % 6 {
        0 => literal("integer"),
        1 => literal("decimal"),
        2 => Some(Literal::new_simple_literal(format!("text {object}")).into()),
        3 => Some(Literal::new_language_tagged_literal_unchecked(object.to_string(), "en").into()),
        _ => node(object),
    };
    [node(subject), iri("p", predicate), object, if graph == 0 { None } else { iri("g", graph) }]
}

fn random(chance: &mut Chance, size: u64) -> Numbers {
    let graph = if chance.below(3) > 0 { 0 } else { chance.below(5) };
    [chance.below(size / 5 + 2), chance.below(6), chance.below(size / 3 + 2), graph]
}

fn loaded(quads: &BTreeSet<Numbers>) -> Snapshot {
    let lines = quads.iter().map(|quad| {
        let terms = terms(*quad).into_iter().flatten().map(|term| term.to_string());
        format!("{} .\n", terms.collect::<Vec<_>>().join(" "))
    });
    let mut loader = Loader::default().with_order(Order::Gosp).with_order(Order::Gsop);
    loader.file(lines.collect::<String>().as_bytes(), Syntax::NQuads, None).expect("valid lines");
    loader.finish()
}

fn ids(changes: &mut Changes, of: &Snapshot, quad: Numbers) -> [Id; 4] {
    terms(quad).map(|term| term.map_or(Id::UNBOUND, |term| changes.id(of, term.as_ref()).unwrap()))
}

fn model_of(snapshot: &Snapshot, quads: &BTreeSet<Numbers>) -> Model {
    let id = |term: Option<Term>| term.map_or(Id::UNBOUND, |term| snapshot.id(term.as_ref()).expect("it was added"));
    quads.iter().map(|quad| terms(*quad).map(id)).collect()
}

fn check(snapshot: &Snapshot, quads: &BTreeSet<Numbers>) {
    let model = model_of(snapshot, quads);
    assert_eq!(snapshot.len(), model.len());
    for (quad, numbers) in model.iter().zip(quads).take(50) {
        assert!(
            terms(*numbers).iter().flatten().all(|term| snapshot.term(snapshot.id(term.as_ref()).unwrap()) == *term)
        );
        assert!(quad.iter().all(|id| snapshot.has(*id)));
    }
    let mut probes = vec![Id::UNBOUND, Id::ranked(TermKind::Iri, 0), Id::ranked(TermKind::Iri, 1 << 40)];
    probes.extend([Id::unranked(TermKind::Iri, 0), Id::unranked(TermKind::Iri, 1 << 20)]);
    probes.extend([Id::integer(7).unwrap(), Id::from_bits(u64::MAX >> 1)]);
    for order in Order::ALL {
        assert_index(snapshot.index(order), &model, &probes).unwrap_or_else(|error| panic!("{order:?}: {error}"));
    }
    for &quad in model.iter().take(8).chain(model.iter().rev().take(4)) {
        assert_patterns(snapshot, &model, quad).unwrap();
    }
    assert_statistics(snapshot, &model).unwrap();
}

/// A new base for a changed snapshot equals the result of loading the data anew, and keeps the order of terms.
fn check_rebuilt(snapshot: &Snapshot, quads: &BTreeSet<Numbers>) {
    let rebuilt = Snapshot::united(&[snapshot], &vicus_rdf::Backing::Memory, &mut || {}).unwrap();
    rebuilt.assert_valid();
    let loaded = loaded(quads);
    assert_eq!((rebuilt.change_count(), rebuilt.fresh().len()), (0, 0));
    assert_same(&rebuilt, &loaded).unwrap();
    for order in Order::ALL {
        let (a, b) = (rebuilt.index(order), loaded.index(order));
        assert!(a.len() == b.len() && (0..a.len()).all(|row| a.quad(row) == b.quad(row)), "{order:?}");
    }
    assert_statistics(&rebuilt, &model_of(&loaded, quads)).unwrap();
    let mut all: Vec<Id> = model_of(snapshot, quads).into_iter().flatten().filter(|id| !id.is_unbound()).collect();
    all.sort_unstable_by(|a, b| snapshot.compare(*a, *b));
    let new_ids = all.iter().map(|id| rebuilt.id(snapshot.term(*id).as_ref()).expect("it has quads"));
    assert!(new_ids.is_sorted(), "fresh terms stand among the others");
}

/// Some changes; `quads` becomes the data after them.
fn change(snapshot: &Snapshot, quads: &mut BTreeSet<Numbers>, batch: u64, size: u64, chance: &mut Chance) -> Snapshot {
    let mut changes = Changes::of(snapshot);
    let known: Vec<Numbers> = quads.iter().copied().collect();
    let (mut inserted, mut deleted) = (Vec::new(), Vec::new());
    for _ in 0..batch {
        // Some are there already, or are not; some are deleted and inserted.
        let quad = match known.len() {
            0 => random(chance, size),
            count if chance.below(2) == 0 => known[chance.below(count as u64) as usize],
            _ => random(chance, size),
        };
        match chance.below(5) {
            0 | 1 => inserted.push(quad),
            2 | 3 => deleted.push(quad),
            _ => {
                inserted.push(quad);
                deleted.push(quad);
            }
        }
    }
    changes.inserts = inserted.iter().map(|quad| ids(&mut changes, snapshot, *quad)).collect();
    changes.deletes = deleted.iter().map(|quad| ids(&mut changes, snapshot, *quad)).collect();
    quads.retain(|quad| !deleted.contains(quad));
    quads.extend(inserted);
    snapshot.with(changes).unwrap()
}

/// Many small batches, and a large one, until new bases have taken them in: later results are compared with these.
#[test]
fn a_base_that_has_taken_changes_in_has_what_a_set_of_quads_has() {
    for (seed, batches) in [(20, vec![6000]), (21, vec![900; 7]), (22, vec![180; 30]), (23, vec![5000, 1, 3000, 40])] {
        println!("seed {seed}");
        let mut chance = Chance(seed);
        let mut quads: BTreeSet<Numbers> = (0..2000).map(|_| random(&mut chance, 2500)).collect();
        let first = (loaded(&quads), quads.clone());
        let mut last = None;
        for batch in batches {
            last = Some(change(last.as_ref().unwrap_or(&first.0), &mut quads, batch, 2500, &mut chance));
        }
        let last = last.expect("there are changes");
        assert!(last.change_count() >= 1024, "enough for a new base");
        last.assert_valid();
        check(&last, &quads);
        check_rebuilt(&last, &quads);
        check(&first.0, &first.1);
    }
}

/// Batches of one quad and of many, on data of no, few and many quads; each version is as it was when all have been
/// made.
#[test]
fn a_changed_snapshot_has_what_a_set_of_quads_has() {
    for seed in 0..12 {
        println!("seed {seed}");
        let mut chance = Chance(seed);
        let size = [0, 30, 300, 2500][seed as usize % 4];
        let mut quads: BTreeSet<Numbers> = (0..size).map(|_| random(&mut chance, size)).collect();
        let mut versions = vec![(loaded(&quads), quads.clone())];
        for _ in 0..8 {
            let batch = [1, 3, 40, 700][chance.below(4) as usize];
            let (before, _) = &versions[versions.len() - 1];
            let after = change(before, &mut quads, batch, size.max(60), &mut chance);
            versions.push((after, quads.clone()));
        }
        for (snapshot, quads) in [0, 1, 4, 8].map(|version: usize| &versions[version]) {
            check(snapshot, quads);
            check_rebuilt(snapshot, quads);
        }
        // Without any quads, and back to what was loaded.
        let (last, (first, loaded)) = (&versions[8].0, &versions[0]);
        let mut changes = Changes::of(last);
        changes.deletes = quads.iter().map(|quad| ids(&mut Changes::of(last), last, *quad)).collect();
        let empty = last.with(changes).unwrap();
        check(&empty, &BTreeSet::new());
        let mut changes = Changes::of(&empty);
        changes.inserts = loaded.iter().map(|quad| ids(&mut Changes::of(&empty), &empty, *quad)).collect();
        let back = empty.with(changes).unwrap();
        check(&back, loaded);
        assert_eq!(first.change_count(), 0);
        // From 1,024 changes on, a new base takes them in.
        let is_few = last.change_count() + quads.len() + loaded.len() < 1024;
        assert!(!is_few || back.change_count() == 0, "the changes undo each other");
    }
}

/// Graphs that are a large part of the data and such as are a small one, with fresh terms in what stays; and changes
/// after that.
#[test]
fn a_snapshot_without_some_graphs_has_what_is_in_the_others() {
    let mut large = 0;
    for seed in 40..56 {
        println!("seed {seed}");
        let mut chance = Chance(seed);
        let size = [20, 300, 2500][seed as usize % 3];
        let mut quads: BTreeSet<Numbers> = (0..size).map(|_| random(&mut chance, size)).collect();
        let changed = change(&loaded(&quads), &mut quads, size / 3, size, &mut chance);
        let mut graphs: Vec<Option<Term>> = quads.iter().map(|quad| terms(*quad)[3].clone()).collect();
        graphs.dedup();
        let graph = graphs[chance.below(graphs.len() as u64) as usize].clone();
        let id = graph.as_ref().map_or(Id::UNBOUND, |graph| changed.id(graph.as_ref()).unwrap());
        type Cleared<'a> = &'a dyn Fn(&Option<Term>) -> bool;
        let cases: [(Graphs, Cleared<'_>); 4] = [
            (Graphs::All, &|_| true),
            (Graphs::Named, &Option::is_some),
            (Graphs::One(Id::UNBOUND), &Option::is_none),
            (Graphs::One(id), &|other| *other == graph),
        ];
        for (which, is_cleared) in cases {
            let mut rest = quads.clone();
            rest.retain(|quad| !is_cleared(&terms(*quad)[3]));
            let cleared = changed.cleared(which).unwrap();
            cleared.assert_valid();
            large += u32::from(rest.len() / 8 < quads.len() - rest.len());
            check(&cleared, &rest);
            check_rebuilt(&cleared, &rest);
            assert!(cleared.change_count() >= quads.len() - rest.len(), "a merge is due for them");
            let again = change(&cleared, &mut rest, 40, size, &mut chance);
            check(&again, &rest);
            check_rebuilt(&again, &rest);
        }
        check(&changed, &quads);
    }
    assert!(large > 10, "some make a new base: {large}");
}

/// Many new terms are looked up in their order, and get the ids that they get one by one; so do terms that are there,
/// and those that come twice. Their order among the terms of the dictionary is that of their keys.
#[test]
fn many_terms_get_the_ids_that_they_get_one_by_one() {
    let mut chance = Chance(7);
    let quads: BTreeSet<Numbers> = (0..300).map(|_| random(&mut chance, 100)).collect();
    let mut snapshot = loaded(&quads);
    for round in 0..6 {
        let keys: Vec<(TermKind, String)> = (0..200)
            .map(|_| match chance.below(3) {
                0 => (TermKind::Iri, format!("http://e/s{}", chance.below(40 * (round + 1)))),
                1 => (TermKind::Iri, format!("http://{}", chance.below(1000))),
                _ => (TermKind::String, format!("text {}", chance.below(200))),
            })
            .collect();
        let terms: Vec<(TermKind, &str)> = keys.iter().map(|(kind, key)| (*kind, key.as_str())).collect();
        let [mut together, mut one_by_one] = [(); 2].map(|()| Changes::of(&snapshot));
        let ids = snapshot.find_or_add_all(&mut together.fresh, &terms).unwrap();
        let expected: Vec<Id> =
            terms.iter().map(|(kind, key)| snapshot.find_or_add(&mut one_by_one.fresh, *kind, key).unwrap()).collect();
        assert_eq!(ids, expected);
        let p = ids[0];
        together.inserts = ids.iter().map(|&id| [p, p, id, Id::UNBOUND]).collect();
        snapshot = snapshot.with(together).unwrap();
        for (id, (kind, key)) in ids.iter().zip(&terms) {
            assert_eq!(snapshot.find(*kind, key), Some(*id));
            snapshot.key(*id, |read| assert_eq!(read, *key));
        }
        let mut ordered: Vec<Id> = ids.iter().copied().filter(|id| id.kind() == TermKind::Iri).collect();
        ordered.sort_by(|a, b| snapshot.compare(*a, *b));
        let key = |id: &Id| snapshot.key(*id, str::to_owned);
        assert!(ordered.iter().map(key).is_sorted(), "round {round}");
    }
}
