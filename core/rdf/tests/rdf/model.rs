//! Stores compared with sorted sets of the triples that oxttl reads.

use crate::{check, random, read, shared};
use oxrdf::{NamedNode, Term, Triple};
use oxttl::{NTriplesParser, TurtleParser};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use vicus_rdf::load::{self, Assembled, Chunker, OnError, Parsed, Run, SortedTerms};
use vicus_rdf::{Id, Index, Kind, Loader, Order, Position, Snapshot};

type Model = BTreeSet<[Id; 3]>;

/// The triples that oxttl reads, as the store's ids.
fn model_of(snapshot: &Snapshot, triples: impl IntoIterator<Item = Triple>) -> Model {
    let id = |term: Term| snapshot.id(term.as_ref()).unwrap_or_else(|| panic!("{term} is not in the store"));
    triples.into_iter().map(|t| [id(t.subject.into()), id(t.predicate.into()), id(t.object)]).collect()
}

fn contents(index: &Index) -> Vec<[Id; 3]> {
    (0..index.len()).map(|row| index.triple(row)).collect()
}

/// Every query that an index answers, row by row.
fn assert_index(index: &Index, model: &Model, probes: &[Id]) -> Result<(), TestCaseError> {
    index.assert_valid();
    let rows: BTreeSet<[Id; 3]> = model.iter().map(|&triple| index.order().arrange(triple)).collect();
    let rows: Vec<[Id; 3]> = rows.into_iter().collect();
    let mut columns = [Vec::new(), Vec::new(), Vec::new()];
    for (level, column) in columns.iter_mut().enumerate() {
        vicus_flow::Room::of(column, index.len(), |room| index.fill(level, 0..index.len(), room));
    }
    let read: Vec<[Id; 3]> =
        (0..index.len()).map(|row| [0, 1, 2].map(|level: usize| Id::from_bits(columns[level][row]))).collect();
    prop_assert_eq!(&read, &rows);

    let expected = |prefix: &[Id]| {
        let start = rows.partition_point(|row| &row[..prefix.len()] < prefix);
        start..start + rows[start..].iter().filter(|row| row.starts_with(prefix)).count()
    };
    let mut cursor = index.cursor();
    let mut prefixes: BTreeSet<Vec<Id>> = rows.iter().flat_map(|row| (0..=3).map(|n| row[..n].to_vec())).collect();
    for &a in probes {
        prefixes.insert(vec![a]);
        for &b in probes {
            prefixes.insert(vec![a, b]);
            prefixes.insert(vec![a, b, a]);
        }
    }
    for prefix in &prefixes {
        prop_assert_eq!(cursor.range(prefix), expected(prefix), "ascending, {:?}", prefix);
    }
    for prefix in prefixes.iter().rev() {
        prop_assert_eq!(cursor.range(prefix), expected(prefix), "descending, {:?}", prefix);
        prop_assert_eq!(index.range(prefix), expected(prefix));
        if let ([front @ .., from], Some(&to)) = (&prefix[..], probes.last()) {
            let within = |row: &[Id; 3]| row.starts_with(front) && (*from..to).contains(&row[front.len()]);
            let between = index.between(front, *from..to);
            prop_assert_eq!(between.len(), rows.iter().filter(|row| within(row)).count());
            prop_assert!(rows[between].iter().all(within));
        }
    }
    for prefix in prefixes.iter().filter(|prefix| prefix.len() < 3) {
        // Up and down, so that each search begins somewhere else.
        let mut searcher = index.searcher(prefix);
        let next: BTreeSet<Id> = rows.iter().map(|row| row[prefix.len()]).chain(probes.iter().copied()).collect();
        for id in next.iter().chain(next.iter().rev().step_by(3)).chain(&next) {
            let (found, expected) = (searcher.find(index, *id), expected(&[&prefix[..], &[*id]].concat()));
            prop_assert_eq!(found.len(), expected.len(), "{:?} after {:?}", id, prefix);
            prop_assert!(found == expected || found.is_empty());
        }
    }
    for level in [0, 1, 2] {
        let pieces: Vec<_> = index.split_between(0..index.len(), level, 4).collect();
        prop_assert_eq!(pieces.iter().cloned().flatten().collect::<Vec<_>>(), (0..index.len()).collect::<Vec<_>>());
        let id = |row: usize| rows[row][level];
        prop_assert!(pieces.windows(2).all(|pair| id(pair[0].end - 1) != id(pair[1].start)));
    }
    for key in 0..index.key_count() {
        let mut next = index.rows_of_key(key).start;
        for (id, group) in index.groups(index.rows_of_key(key)) {
            prop_assert_eq!((group.start, index.range(&[index.key(key), id])), (next, group.clone()));
            next = group.end;
        }
        prop_assert_eq!(next, index.rows_of_key(key).end);
    }
    Ok(())
}

/// Every pattern, in the order that the store chooses for it.
fn assert_patterns(snapshot: &Snapshot, model: &Model, triple: [Id; 3]) -> Result<(), TestCaseError> {
    for pattern in 0..8_usize {
        let bound = [0, 1, 2].map(|place| pattern >> place & 1 == 1);
        let matches = |other: &[Id; 3]| (0..3).all(|place| !bound[place] || other[place] == triple[place]);
        let index = snapshot.index(snapshot.best_order(bound));
        let prefix = &index.order().arrange(triple)[..index.order().prefix(bound)];
        let found = index.range(prefix).filter(|&row| matches(&index.triple(row))).count();
        prop_assert_eq!(found, model.iter().filter(|other| matches(other)).count(), "pattern {:?}", bound);
    }
    Ok(())
}

fn assert_statistics(snapshot: &Snapshot, model: &Model) -> Result<(), TestCaseError> {
    let statistics = snapshot.statistics();
    let distinct = |place: usize| model.iter().map(|triple| triple[place]).collect::<BTreeSet<_>>().len();
    prop_assert_eq!(
        (statistics.triples, statistics.subjects, statistics.objects),
        (model.len(), distinct(0), distinct(2))
    );
    let mut by_predicate: BTreeMap<Id, Vec<[Id; 3]>> = BTreeMap::new();
    for triple in model {
        by_predicate.entry(triple[1]).or_default().push(*triple);
    }
    prop_assert_eq!(statistics.predicates().len(), by_predicate.len());
    for (id, triples) in by_predicate {
        let predicate = statistics.predicate(id).expect("it has triples");
        prop_assert_eq!(predicate.triples, triples.len());
        for (column, place) in [(&predicate.subjects, 0), (&predicate.objects, 2)] {
            let ids: BTreeSet<Id> = triples.iter().map(|triple| triple[place]).collect();
            prop_assert_eq!(column.distinct, ids.len());
            prop_assert_eq!(&column.ids, &(*ids.first().unwrap()..=*ids.last().unwrap()));
            let kinds: BTreeSet<Kind> = ids.iter().map(|id| id.kind()).collect();
            prop_assert_eq!(column.only_kind(), kinds.first().copied().filter(|_| kinds.len() == 1));
            for kind in Kind::ALL {
                let count = triples.iter().filter(|triple| triple[place].kind() == kind).count();
                prop_assert_eq!(column.of_kind(kind), count);
            }
        }
    }
    Ok(())
}

#[test]
fn every_range_is_what_a_sorted_set_says() {
    check(120, random::triples(), |triples| {
        let mut loader = Loader::default().with_order(Order::Osp).with_order(Order::Sop);
        loader.ntriples(&random::document(&triples)).expect("oxttl wrote it");
        let snapshot = loader.finish();
        snapshot.assert_valid();
        let model = model_of(&snapshot, triples);
        prop_assert_eq!(snapshot.len(), model.len());
        let mut probes = vec![Id::UNBOUND, Id::ranked(Kind::Iri, 0), Id::ranked(Kind::Iri, 1 << 40)];
        probes.extend([Id::integer(7).unwrap(), Id::from_bits(u64::MAX >> 1)]);
        for order in Order::ALL {
            assert_index(snapshot.index(order), &model, &probes)?;
        }
        for &triple in model.iter().take(8) {
            assert_patterns(&snapshot, &model, triple)?;
        }
        assert_statistics(&snapshot, &model)
    });
}

/// All steps with several workers and parts, as parallel loading runs them.
fn load_in_pieces(text: &[u8], chunk_bytes: usize, workers: usize) -> Snapshot {
    let mut chunker = Chunker::new(chunk_bytes);
    let mut parsed: Vec<Parsed> = (0..workers).map(|_| Parsed::default()).collect();
    // Two buffers; the second one begins with what the first one left over.
    let (first, used) = chunker.cut(&text[..text.len() / 2], false);
    let (second, _) = chunker.cut(&text[used..], true);
    for (place, chunk) in first.into_iter().chain(second).enumerate() {
        load::parse_lines_into(&mut parsed[place % workers], chunk, load::Syntax::NTriples, 0, OnError::Fail)
            .expect("oxttl wrote it");
    }
    let (terms, mut triples): (Vec<_>, Vec<_>) =
        parsed.into_iter().map(|parsed| SortedTerms::new(parsed).unwrap()).unzip();
    let parts = load::cut_terms(&terms, workers + 1);
    let parts = parts.iter().map(|part| load::merge_terms(&terms, part).unwrap()).collect();
    let Assembled { dictionary, numbering, tables } = load::assemble(terms, parts).unwrap();
    for (triples, table) in triples.iter_mut().zip(&tables) {
        load::remap(triples, table);
    }
    let runs: Vec<Run> = triples.into_iter().map(|triples| Run::new(Order::Spo, triples).unwrap()).collect();
    let indexes = Order::USUAL.map(|order| {
        let runs: Vec<Run> = runs.iter().map(|run| run.derive(order).unwrap()).collect();
        let parts = load::cut_runs(&runs, workers);
        let parts: Vec<Run> = parts.iter().map(|part| load::merge_runs(&runs, part).unwrap()).collect();
        load::index(order, &parts, &numbering).unwrap()
    });
    Snapshot::new(dictionary, indexes).unwrap()
}

pub(crate) fn assert_same(a: &Snapshot, b: &Snapshot) -> Result<(), TestCaseError> {
    prop_assert_eq!(a.dictionary().len(), b.dictionary().len());
    for kind in Kind::IN_DICTIONARY {
        prop_assert_eq!(a.dictionary().count(kind), b.dictionary().count(kind));
        for rank in 0..a.dictionary().count(kind) {
            let id = Id::ranked(kind, rank);
            prop_assert_eq!(a.dictionary().key(id), b.dictionary().key(id));
        }
    }
    for order in Order::USUAL {
        prop_assert_eq!(contents(a.index(order)), contents(b.index(order)));
    }
    Ok(())
}

#[test]
fn loading_in_pieces_is_loading_at_once() {
    check(200, (random::triples(), 1..2000_usize, 1..6_usize), |(triples, chunk_bytes, workers)| {
        let text = random::document(&triples);
        let whole = Snapshot::of_ntriples(&text).expect("oxttl wrote it");
        let pieces = load_in_pieces(&text, chunk_bytes, workers);
        pieces.assert_valid();
        assert_same(&whole, &pieces)
    });
}

#[test]
fn files_have_blank_nodes_of_their_own() {
    let mut loader = Loader::default();
    for _ in 0..3 {
        loader.ntriples(b"_:x <http://e/p> _:f1_x .").unwrap();
        loader.turtle(b"_:x <http://e/p> [] , _:f1_x .", None).unwrap();
    }
    let snapshot = loader.finish();
    assert_eq!((snapshot.len(), snapshot.dictionary().count(Kind::Blank)), (9, 15));
    // Outside the store they have different names as well, and each name leads back to its node.
    let ids = (0..15).map(|rank| Id::ranked(Kind::Blank, rank));
    let names: BTreeSet<String> = ids.clone().map(|id| snapshot.view(id).to_string()).collect();
    assert_eq!(names.len(), 15, "{names:?}");
    assert!(ids.into_iter().all(|id| snapshot.id(snapshot.term(id).as_ref()) == Some(id)));
}

#[test]
fn turtle_loads_the_same_each_time() {
    let text = b"[ <http://e/p> [ <http://e/p> ( 1 2 [] ) ] ] <http://e/q> _:ffffffffffffffffffffffff , _:ab .";
    let stores = [(); 2].map(|()| Snapshot::of_turtle(text, None).unwrap());
    assert_same(&stores[0], &stores[1]).unwrap();
    assert_eq!(stores[0].dictionary().count(Kind::Blank), 8);
}

#[test]
fn nothing_loads_as_nothing() {
    for snapshot in [
        Snapshot::of_ntriples(b"").unwrap(),
        Snapshot::of_turtle(b"", None).unwrap(),
        Snapshot::from_parsed(Vec::new()),
    ] {
        snapshot.assert_valid();
        assert!(
            snapshot.is_empty() && snapshot.dictionary().is_empty() && snapshot.statistics().predicates().is_empty()
        );
        for order in Order::USUAL {
            assert_eq!(snapshot.index(order).range(&[]), 0..0);
            assert_eq!(snapshot.index(order).range(&[Id::integer(1).unwrap()]), 0..0);
            assert_eq!(snapshot.index(order).between(&[], Id::UNBOUND..Id::boolean(true)), 0..0);
        }
    }
}

#[test]
fn the_best_order_puts_bound_places_in_front() {
    let snapshot = Snapshot::of_ntriples(b"").unwrap();
    let best = |s, p, o| snapshot.best_order([s, p, o]);
    assert_eq!((best(false, false, false), best(true, false, false)), (Order::Spo, Order::Spo));
    assert_eq!((best(false, true, false), best(false, false, true)), (Order::Pso, Order::Ops));
    assert_eq!((best(true, true, false), best(true, true, true)), (Order::Spo, Order::Spo));
    assert!(best(false, true, true).prefix([false, true, true]) == 2);
    let sorted = |bound, position| snapshot.best_order_for(bound, Some(position));
    assert_eq!(sorted([false, true, false], Position::Object), Order::Pos);
    assert_eq!(sorted([false, true, false], Position::Subject), Order::Pso);
    assert_eq!(sorted([false, false, false], Position::Object), Order::Ops);
}

/// A small bibliography from a fixed sequence: many authors a paper, numbers, typed strings, blank nodes, and duplicate lines.
fn bibliography(papers: u32) -> Vec<u8> {
    let mut text = String::new();
    let mut state = 1_u32;
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 10) % below
    };
    let string = "http://www.w3.org/2001/XMLSchema#string";
    let integer = "http://www.w3.org/2001/XMLSchema#integer";
    for paper in 0..papers {
        let subject = format!("<http://e/papers/{}/{paper}>", paper % 7);
        let mut say = |predicate: &str, object: String| {
            text.push_str(&format!("{subject} <http://e/{predicate}> {object} .\n"));
        };
        say("type", format!("<http://e/Class{}>", next(3)));
        say("title", format!("\"title {} \\u00E9\"^^<{string}>", next(papers)));
        say("year", format!("\"{}\"^^<{integer}>", 1940 + next(60)));
        for _ in 0..next(5) {
            say("author", format!("_:author{}", next(papers / 3 + 1)));
        }
        say("type", "<http://e/Class0>".to_owned());
    }
    text.into_bytes()
}

fn assert_whole(snapshot: &Snapshot, triples: Vec<Triple>) {
    let model = model_of(snapshot, triples);
    assert_eq!(snapshot.len(), model.len());
    snapshot.assert_valid();
    assert_statistics(snapshot, &model).unwrap();
    for order in Order::USUAL {
        assert_eq!(contents(snapshot.index(order)).into_iter().collect::<Model>(), model, "{order:?}");
    }
    // How often each pattern with one or two bound places occurs, counted in one pass.
    let mut counts: BTreeMap<[Option<Id>; 3], usize> = BTreeMap::new();
    for triple in &model {
        for pattern in 1..7_usize {
            let places = [0, 1, 2].map(|place| (pattern >> place & 1 == 1).then_some(triple[place]));
            *counts.entry(places).or_default() += 1;
        }
    }
    for (places, count) in counts {
        let bound = places.map(|place| place.is_some());
        let index = snapshot.index(snapshot.best_order(bound));
        let prefix: Vec<Id> = index.order().arrange(places).into_iter().map_while(|place| place).collect();
        let rows = index.range(&prefix);
        let object = places[2].filter(|_| bound == [true, false, true]);
        let found = rows.filter(|&row| object.is_none_or(|object| index.triple(row)[2] == object)).count();
        assert_eq!(found, count, "{places:?}");
    }
}

#[test]
fn a_bibliography_is_counted_right() {
    let text = bibliography(600);
    let triples = NTriplesParser::new().for_slice(&text).collect::<Result<_, _>>().unwrap();
    assert_whole(&Snapshot::of_ntriples(&text).unwrap(), triples);
    let same = load_in_pieces(&text, 5000, 3);
    assert_same(&same, &Snapshot::of_ntriples(&text).unwrap()).unwrap();
}

#[test]
fn sp2bench_files_are_counted_right() {
    for name in ["sp2b-10000.nt.gz", "sp2b-50000.nt.gz"] {
        let Some(path) = shared(&format!("sp2b/data/{name}")) else { continue };
        let text = read(&path);
        let triples = NTriplesParser::new().for_slice(&text).collect::<Result<_, _>>().unwrap();
        assert_whole(&Snapshot::of_ntriples(&text).unwrap(), triples);
    }
    for name in ["original-10k.ttl.gz", "original-25k.ttl.gz"] {
        let Some(path) = shared(&format!("sp2b/data/{name}")) else { continue };
        let text = read(&path);
        let triples = TurtleParser::new().for_slice(&text).collect::<Result<_, _>>().unwrap();
        assert_whole(&Snapshot::of_turtle(&text, None).unwrap(), triples);
    }
}

#[test]
fn a_million_triples_fit() {
    let Some(path) = shared("sp2b/data/sp2b-1000000.nt.gz") else { return };
    let text = read(&path);
    let snapshot = Snapshot::of_ntriples(&text).unwrap();
    snapshot.assert_valid();
    // SP2Bench's README.
    assert_eq!(snapshot.len(), 1_000_478);
    assert!(snapshot.heap_bytes() < 100 << 20, "{} bytes", snapshot.heap_bytes());
    assert_same(&snapshot, &load_in_pieces(&text, 1 << 20, 2)).unwrap();
    // A cursor over every subject and its predicates yields the whole index.
    let index = snapshot.index(Order::Spo);
    let mut cursor = index.cursor();
    assert_eq!(index.keys().map(|subject| cursor.range(&[subject]).len()).sum::<usize>(), snapshot.len());
    let predicate = NamedNode::new_unchecked("http://purl.org/dc/elements/1.1/creator");
    let id = snapshot.id(predicate.as_ref().into()).unwrap();
    let lines = memchr::memmem::find_iter(&text, b"> <http://purl.org/dc/elements/1.1/creator> ").count();
    assert_eq!(snapshot.statistics().predicate(id).unwrap().triples, lines);
}
