//! Characteristic sets compared with counting.

use crate::{check, read, shared};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use vicus_rdf::characteristic::{MOST, StarPart};
use vicus_rdf::{Id, Order, Snapshot};

const RDF_TYPE: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";

/// A star's pattern: a predicate, and an object unless it is open.
type Ask = (Id, Option<Id>);

fn iri(snapshot: &Snapshot, iri: &str) -> Option<Id> {
    snapshot.id(oxrdf::NamedNodeRef::new_unchecked(iri).into())
}

fn share(snapshot: &Snapshot, (predicate, object): Ask) -> f64 {
    let triples = snapshot.statistics().predicate(predicate).map_or(0, |predicate| predicate.triples);
    object.map_or(1.0, |object| {
        snapshot.index(Order::Gpos).count(&[Id::UNBOUND, predicate, object]) as f64 / triples as f64
    })
}

fn expected(snapshot: &Snapshot, star: &[Ask]) -> (f64, f64) {
    let sets = snapshot.statistics().characteristic();
    let parts: Vec<StarPart> = star.iter().map(|&ask| sets.part(ask.0, ask.1, share(snapshot, ask))).collect();
    let made = sets.star(&parts).estimate((1 << parts.len()) - 1);
    (made.subjects, made.rows)
}

/// Subjects and rows of a star, counted.
fn counted(snapshot: &Snapshot, star: &[Ask]) -> (f64, f64) {
    let spo = snapshot.index(Order::Gspo);
    let rows = |subject: Id| {
        let fan = |&(predicate, object): &Ask| match object {
            Some(object) => spo.count(&[Id::UNBOUND, subject, predicate, object]),
            None => spo.count(&[Id::UNBOUND, subject, predicate]),
        };
        star.iter().map(fan).product::<usize>()
    };
    let rows: Vec<usize> = spo.keys(0..spo.key_count()).map(rows).filter(|rows| *rows > 0).collect();
    (rows.len() as f64, rows.iter().sum::<usize>() as f64)
}

/// The estimate from the counts of single predicates: all subjects of the rarest one have the others, too.
fn by_single_predicates(snapshot: &Snapshot, star: &[Ask]) -> f64 {
    let predicate = |ask: &Ask| snapshot.statistics().predicate(ask.0).expect("it has triples");
    let triples = |ask: &Ask| predicate(ask).triples as f64 * share(snapshot, *ask);
    let subjects = |ask: &Ask| (predicate(ask).subjects.distinct as f64).min(triples(ask));
    let least = star.iter().map(subjects).fold(f64::INFINITY, f64::min);
    star.iter().map(|ask| triples(ask) / subjects(ask)).product::<f64>() * least
}

#[test]
fn the_sets_are_those_of_the_subjects() {
    let triple = (0..14_u32, 0..5_u32, 0..4_u32);
    check(300, proptest::collection::vec(triple, 1..90), |triples| {
        let mut text = String::new();
        for (subject, predicate, object) in triples {
            let predicate = if predicate == 0 { RDF_TYPE.to_owned() } else { format!("http://e/p{predicate}") };
            writeln!(text, "<http://e/s{subject}> <{predicate}> <http://e/o{object}> .").unwrap();
        }
        let snapshot = Snapshot::of_ntriples(text.as_bytes()).unwrap();
        let (sets, spo) = (snapshot.statistics().characteristic(), snapshot.index(Order::Gspo));
        let rdf_type = iri(&snapshot, RDF_TYPE);
        let mut model: BTreeMap<BTreeSet<(Id, Id)>, BTreeSet<Id>> = BTreeMap::new();
        for subject in spo.keys(0..spo.key_count()) {
            let rows = (0..spo.len()).map(|row| spo.triple(row)).filter(|triple| triple[0] == subject);
            let attributes = rows.flat_map(|[_, predicate, object]| {
                let class = if rdf_type == Some(predicate) { object } else { Id::UNBOUND };
                [(predicate, Id::UNBOUND), (predicate, class)]
            });
            model.entry(attributes.collect()).or_default().insert(subject);
        }
        prop_assert!(sets.is_complete());
        prop_assert_eq!(sets.sets().len(), model.len());
        for set in sets.sets() {
            let attributes =
                set.attributes.iter().map(|(attribute, _)| (attribute.predicate, attribute.class)).collect();
            let subjects = model.get(&attributes).expect("subjects have exactly these");
            prop_assert_eq!(set.subjects, subjects.len());
            for (attribute, triples) in &set.attributes {
                let fan = |subject: &Id| match attribute.class {
                    Id::UNBOUND => spo.count(&[Id::UNBOUND, *subject, attribute.predicate]),
                    class => spo.count(&[Id::UNBOUND, *subject, attribute.predicate, class]),
                };
                prop_assert_eq!(*triples, subjects.iter().map(fan).sum::<usize>());
            }
        }
        // All stars of open patterns and classes.
        let predicates: Vec<Id> = snapshot.statistics().predicates().map(|predicate| predicate.id).collect();
        let mut asks: Vec<Ask> = predicates.iter().map(|&predicate| (predicate, None)).collect();
        asks.extend(rdf_type.and_then(|id| Some((id, Some(iri(&snapshot, "http://e/o1")?)))));
        for chosen in 1..1_usize << asks.len() {
            let star: Vec<Ask> =
                asks.iter().enumerate().filter(|(bit, _)| chosen >> bit & 1 == 1).map(|(_, ask)| *ask).collect();
            let ((subjects, rows), (all, count)) = (counted(&snapshot, &star), expected(&snapshot, &star));
            prop_assert_eq!(subjects, all);
            let many =
                |ask: &&Ask| ask.1.is_none() && !snapshot.statistics().predicate(ask.0).unwrap().is_single_valued();
            // The sizes of two predicates can be correlated only if both have several objects for a subject.
            if star.iter().filter(many).count() < 2 {
                prop_assert!((rows - count).abs() < 1e-6 * rows.max(1.0), "{} rows, {} expected", rows, count);
            }
        }
        Ok(())
    });
}

#[test]
fn of_too_many_sets_the_most_frequent_stay_exact() {
    let mut text = String::new();
    let width = MOST.ilog2() + 1;
    let mut describe = |subject: &str, bits: usize| {
        for predicate in (0..width).filter(|predicate| bits >> predicate & 1 == 1) {
            writeln!(text, "<http://e/{subject}> <http://e/p{predicate:02}> \"x\" .").unwrap();
        }
    };
    // Every set once, and those with the last two predicates and no more than two others twice.
    let both = 0b11 << (width - 2);
    let is_frequent = |bits: usize| bits & both == both && bits.count_ones() <= 4;
    for bits in 1..2 * MOST {
        describe(&format!("a{bits}"), bits);
        if is_frequent(bits) {
            describe(&format!("z{bits}"), bits);
        }
    }
    let snapshot = Snapshot::of_ntriples(text.as_bytes()).unwrap();
    let sets = snapshot.statistics().characteristic();
    assert!(!sets.is_complete());
    assert_eq!(sets.sets().len(), MOST);
    let twice = sets.sets().iter().filter(|set| set.subjects == 2).count();
    assert_eq!(twice, (1..2 * MOST).filter(|&bits| is_frequent(bits)).count());
    let predicates: Vec<Id> = snapshot.statistics().predicates().map(|predicate| predicate.id).collect();
    for &a in &predicates {
        assert_eq!(
            expected(&snapshot, &[(a, None)]),
            counted(&snapshot, &[(a, None)]),
            "nothing of one predicate is lost"
        );
        for &b in predicates.iter().filter(|b| **b != a) {
            let star = [(a, None), (b, None)];
            let error = expected(&snapshot, &star).1 / counted(&snapshot, &star).1;
            assert!((0.8..1.25).contains(&error), "the predicates of the others are independent here: {error}");
        }
    }
}

#[test]
fn stars_of_the_benchmark_are_estimated_better_than_from_single_predicates() {
    let Some(path) = shared("sp2b/data/sp2b-50000.nt.gz") else { return };
    let snapshot = Snapshot::of_ntriples(&read(&path)).unwrap();
    let id = |name: &str| {
        let (prefix, local) = name.split_once(':').unwrap();
        let space = match prefix {
            "rdf" => "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
            "rdfs" => "http://www.w3.org/2000/01/rdf-schema#",
            "dc" => "http://purl.org/dc/elements/1.1/",
            "dcterms" => "http://purl.org/dc/terms/",
            "swrc" => "http://swrc.ontoware.org/ontology#",
            "foaf" => "http://xmlns.com/foaf/0.1/",
            _ => "http://localhost/vocabulary/bench/",
        };
        iri(&snapshot, &format!("{space}{local}")).unwrap_or_else(|| panic!("{name} is in the data"))
    };
    let stars = [
        "rdf:type=bench:Inproceedings dc:creator bench:booktitle dc:title dcterms:partOf rdfs:seeAlso swrc:pages \
         foaf:homepage dcterms:issued",
        "rdf:type=bench:Article swrc:pages",
        "rdf:type=bench:Article swrc:month",
        "rdf:type=bench:Article dc:creator swrc:journal",
        "rdf:type=bench:Inproceedings dc:creator",
        "dcterms:issued dc:creator",
        "rdf:type dcterms:issued dc:creator",
        "rdf:type dc:title dcterms:references",
        "swrc:journal dcterms:issued dc:title",
    ];
    let (mut better, mut mean) = (0.0_f64, 0.0_f64);
    for text in stars {
        let ask = |part: &str| match part.split_once('=') {
            Some((predicate, object)) => (id(predicate), Some(id(object))),
            None => (id(part), None),
        };
        let star: Vec<Ask> = text.split_whitespace().map(ask).collect();
        let (rows, made, single) =
            (counted(&snapshot, &star).1, expected(&snapshot, &star).1, by_single_predicates(&snapshot, &star));
        let error = |guess: f64| (guess.max(1.0) / rows.max(1.0)).max(rows.max(1.0) / guess.max(1.0));
        println!("{text}: {rows} rows; off by {:.3}, from single predicates by {:.3}", error(made), error(single));
        assert!(error(made) < 1.05 && error(made) <= error(single) + 0.05, "{text}: {rows} rows, {made} expected");
        mean += error(made).ln() / stars.len() as f64;
        better += error(single).ln() / stars.len() as f64;
    }
    println!("geometric means: off by {:.3}, from single predicates by {:.3}", mean.exp(), better.exp());
    assert!(mean < better / 4.0);
}
