//! Stores compared with sorted sets of oxttl's triples.

use crate::{check, random, read, shared};
use oxrdf::{GraphName, NamedNode, Quad, Term, Triple};
use oxttl::{NTriplesParser, TurtleParser};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use vicus_rdf::load::{self, Assembled, Chunker, OnError, ParsedPart, SortedRun, SortedTerms};
use vicus_rdf::{Id, Index, Loader, Order, Position, Snapshot, Statistics, TermKind};

/// Subject, predicate, object, graph.
pub(crate) type Model = BTreeSet<[Id; 4]>;

/// The quads read by oxttl, as the store's ids.
fn model_of(snapshot: &Snapshot, quads: Vec<Quad>) -> Model {
    let id = |term: Term| snapshot.id(term.as_ref()).unwrap_or_else(|| panic!("{term} is not in the store"));
    let quad = |quad: Quad| {
        let graph = match quad.graph_name {
            GraphName::DefaultGraph => Id::UNBOUND,
            GraphName::NamedNode(node) => id(node.into()),
            GraphName::BlankNode(node) => id(node.into()),
        };
        [id(quad.subject.into()), id(quad.predicate.into()), id(quad.object), graph]
    };
    quads.into_iter().map(quad).collect()
}

fn contents(index: &Index) -> Vec<[Id; 4]> {
    (0..index.len()).map(|row| index.quad(row)).collect()
}

/// Every query of an index, row by row.
pub(crate) fn assert_index(index: &Index, model: &Model, probes: &[Id]) -> Result<(), TestCaseError> {
    index.assert_valid();
    let is_here = |quad: &&[Id; 4]| index.order().is_by_graph() || !quad[3].is_unbound();
    let rows: BTreeSet<[Id; 4]> = model.iter().filter(is_here).map(|&quad| index.order().arrange(quad)).collect();
    let rows: Vec<[Id; 4]> = rows.into_iter().collect();
    let mut columns = [const { Vec::new() }; 4];
    for (level, column) in columns.iter_mut().enumerate() {
        vicus_flow::Unfilled::of(column, index.len(), |room| index.fill(level, 0..index.len(), room));
    }
    let read: Vec<[Id; 4]> =
        (0..index.len()).map(|row| [0, 1, 2, 3].map(|level: usize| Id::from_bits(columns[level][row]))).collect();
    prop_assert_eq!(&read, &rows);

    let expected = |prefix: &[Id]| {
        let start = rows.partition_point(|row| &row[..prefix.len()] < prefix);
        start..start + rows[start..].partition_point(|row| row.starts_with(prefix))
    };
    assert_reads(index, &rows)?;
    assert_directory(index, &rows)?;
    let mut cursor = index.cursor();
    let mut prefixes: BTreeSet<Vec<Id>> = rows.iter().flat_map(|row| (0..=4).map(|n| row[..n].to_vec())).collect();
    for &a in probes {
        prefixes.insert(vec![a]);
        for &b in probes {
            prefixes.insert(vec![a, b]);
            prefixes.insert(vec![a, b, a]);
            prefixes.insert(vec![a, b, b, a]);
        }
    }
    for prefix in &prefixes {
        prop_assert_eq!(cursor.range(prefix), expected(prefix), "ascending, {:?}", prefix);
    }
    for prefix in prefixes.iter().rev() {
        prop_assert_eq!(cursor.range(prefix), expected(prefix), "descending, {:?}", prefix);
        prop_assert_eq!(index.range(prefix), expected(prefix));
        if let ([front @ .., from], Some(&to)) = (&prefix[..], probes.last()) {
            let within = |row: &[Id; 4]| row.starts_with(front) && (*from..to).contains(&row[front.len()]);
            let between = index.between(front, *from..to);
            prop_assert!(rows[between.clone()].iter().all(within));
            let around = [between.start.checked_sub(1), Some(between.end).filter(|end| *end < rows.len())];
            prop_assert!(between.is_empty() || !around.into_iter().flatten().any(|row| within(&rows[row])));
            let is_there = expected(front).any(|row| within(&rows[row]));
            prop_assert_eq!(between.is_empty(), !is_there);
        }
    }
    // Of many, some.
    for prefix in prefixes.iter().filter(|prefix| prefix.len() < 4).step_by(prefixes.len().div_ceil(400)) {
        // Up and down, so each search begins somewhere else.
        let mut searcher = index.searcher(prefix);
        let next: BTreeSet<Id> = rows.iter().map(|row| row[prefix.len()]).chain(probes.iter().copied()).collect();
        for id in next.iter().chain(next.iter().rev().step_by(3)).chain(&next) {
            let (found, expected) = (searcher.find(index, *id), expected(&[&prefix[..], &[*id]].concat()));
            prop_assert_eq!(found.len(), expected.len(), "{:?} after {:?}", id, prefix);
            prop_assert!(found == expected || found.is_empty());
        }
    }
    for level in [0, 1, 2, 3] {
        let groups = rows.chunk_by(|a, b| a[..level] == b[..level]);
        let mut start = 0;
        for group in groups {
            let all = start..start + group.len();
            start = all.end;
            let pieces: Vec<_> = index.split_between(all.clone(), level, 4).collect();
            prop_assert_eq!(pieces.iter().cloned().flatten().collect::<Vec<_>>(), all.collect::<Vec<_>>());
            let id = |row: usize| rows[row][level];
            prop_assert!(pieces.windows(2).all(|pair| id(pair[0].end - 1) != id(pair[1].start)));
        }
    }
    for key in 0..index.key_count() {
        let rows_of_key = index.rows_of_key(key);
        let mut next = rows_of_key.start;
        for (id, group) in index.groups(rows_of_key.clone()) {
            let prefix = [&rows[next][..=index.key_level()], &[id]].concat();
            prop_assert_eq!((group.start, index.range(&prefix)), (next, group.clone()));
            next = group.end;
        }
        prop_assert_eq!(next, rows_of_key.end);
    }
    Ok(())
}

/// All ways to read the levels after the keys.
fn assert_reads(index: &Index, rows: &[[Id; 4]]) -> Result<(), TestCaseError> {
    for (row, expected) in rows.iter().enumerate() {
        prop_assert_eq!(index.order().arrange(index.quad(row)), *expected);
    }
    let mut numbers: Vec<u32> = (0..rows.len() as u32).collect();
    for level in index.key_level() + 1..4 {
        let mut reader = index.reader(level);
        for step in [1, 7, 300] {
            for row in (0..rows.len()).step_by(step).chain((0..rows.len()).rev().step_by(step)) {
                prop_assert_eq!((index.get(level, row), reader.get(index, row)), (rows[row][level], rows[row][level]));
            }
            let mut row = 0;
            while row < rows.len() {
                let end = rows.len().min(row + step);
                let ids = reader.slice(index, row..end);
                prop_assert!(
                    !ids.is_empty() && ids.iter().eq(rows[row..row + ids.len()].iter().map(|row| &row[level]))
                );
                row += ids.len();
            }
        }
        // Up, down, and by a stride across blocks.
        for stride in [1, rows.len().saturating_sub(1), 97] {
            let count = numbers.len();
            numbers.iter_mut().enumerate().for_each(|(place, row)| *row = (place * stride % count) as u32);
            let mut read = Vec::new();
            vicus_flow::Unfilled::of(&mut read, numbers.len(), |room| index.gather(level, &numbers, room));
            prop_assert!(numbers.iter().zip(&read).all(|(row, bits)| rows[*row as usize][level].bits() == *bits));
        }
        if level < index.key_level() + 3 {
            for range in [0..rows.len(), rows.len() / 3..rows.len() / 2, rows.len()..rows.len()] {
                prop_assert!(index.values(level, range.clone()).eq(rows[range].iter().map(|row| row[level])));
            }
        }
        for group in rows.chunk_by(|a, b| a[..level] == b[..level]) {
            let start = rows.partition_point(|row| row < &group[0]);
            let all = start..start + group.len();
            for (place, row) in group.iter().enumerate().step_by(group.len().div_ceil(5)) {
                let below = group.partition_point(|other| other[level] < row[level]);
                let through = group.partition_point(|other| other[level] <= row[level]);
                prop_assert_eq!(index.lower_bound(level, all.clone(), row[level]), start + below);
                prop_assert_eq!(
                    index.lower_bound(level, all.clone(), Id::from_bits(row[level].bits() + 1)),
                    start + through
                );
                prop_assert_eq!(index.end_of_group(level, start + place, all.end), start + through);
                prop_assert_eq!(index.lower_bound(level, start + place..all.end, row[level]), start + place);
            }
        }
    }
    for level in 0..4 {
        for range in [rows.len() / 3..rows.len() / 2, rows.len() / 2..rows.len() / 2 + usize::from(!rows.is_empty())] {
            let mut read = Vec::new();
            vicus_flow::Unfilled::of(&mut read, range.len(), |room| index.fill(level, range.clone(), room));
            prop_assert!(read.iter().copied().eq(rows[range].iter().map(|row| row[level].bits())));
        }
    }
    for range in [0..rows.len(), rows.len() / 3..rows.len() / 2] {
        let pieces = index.pieces(range.clone());
        let mut next = range.start as u64;
        for piece in &pieces {
            prop_assert!(piece.range.start == next && piece.range.end > next);
            next = piece.range.end;
        }
        prop_assert_eq!(next, range.end as u64);
    }
    Ok(())
}

/// Graphs and keys.
fn assert_directory(index: &Index, rows: &[[Id; 4]]) -> Result<(), TestCaseError> {
    let level = index.key_level();
    let groups: Vec<&[[Id; 4]]> = rows.chunk_by(|a, b| a[..=level] == b[..=level]).collect();
    prop_assert_eq!(index.key_count(), groups.len());
    prop_assert!(index.keys(0..groups.len()).eq(groups.iter().map(|rows| rows[0][level])));
    prop_assert!(
        index.keys(groups.len() / 2..groups.len()).eq(groups[groups.len() / 2..].iter().map(|rows| rows[0][level]))
    );
    let mut start = 0;
    for (key, group) in groups.iter().enumerate() {
        let all = start..start + group.len();
        prop_assert_eq!((index.key(key), index.rows_of_key(key)), (group[0][level], all.clone()));
        prop_assert_eq!((index.key_of_row(all.start), index.key_of_row(all.end - 1)), (key, key));
        prop_assert_eq!(index.end_of_group(level, start, rows.len()), all.end);
        start = all.end;
    }
    let starts = index.rows_of_keys(0..groups.len()).map(|rows| rows.len());
    prop_assert!(starts.eq(groups.iter().map(|group| group.len())));
    if level == 1 {
        let graphs: Vec<&[[Id; 4]]> = rows.chunk_by(|a, b| a[0] == b[0]).collect();
        prop_assert!(index.graphs_from(0).eq(graphs.iter().map(|rows| rows[0][0])));
        prop_assert_eq!(index.graph_count(), graphs.len());
        for (place, group) in graphs.iter().enumerate() {
            let id = group[0][0];
            let start = rows.partition_point(|row| row[0] < id);
            prop_assert_eq!((index.graph(place), index.rows_of_graph(place)), (id, start..start + group.len()));
            let before = groups.iter().filter(|rows| rows[0][0] < id).count();
            let here = groups.iter().filter(|rows| rows[0][0] == id).count();
            prop_assert_eq!(index.keys_of(id), before..before + here);
        }
    }
    Ok(())
}

/// Every pattern, in the order chosen for it by the store. Without a graph, all named graphs are meant.
pub(crate) fn assert_patterns(snapshot: &Snapshot, model: &Model, quad: [Id; 4]) -> Result<(), TestCaseError> {
    for pattern in 0..16_usize {
        let bound = [0, 1, 2, 3].map(|place| pattern >> place & 1 == 1);
        let matches = |other: &[Id; 4]| {
            (0..4).all(|place| !bound[place] || other[place] == quad[place]) && (bound[3] || !other[3].is_unbound())
        };
        let index = snapshot.index(snapshot.best_order(bound));
        let prefix = &index.order().arrange(quad)[..index.order().prefix(bound)];
        let found = index.range(prefix).filter(|&row| matches(&index.quad(row))).count();
        prop_assert_eq!(found, model.iter().filter(|other| matches(other)).count(), "pattern {:?}", bound);
    }
    Ok(())
}

pub(crate) fn assert_statistics(snapshot: &Snapshot, model: &Model) -> Result<(), TestCaseError> {
    let (of_default, of_named): (Model, Model) = model.iter().partition(|quad| quad[3].is_unbound());
    assert_counts(snapshot.statistics(), &of_default)?;
    assert_counts(snapshot.named_statistics(), &of_named)?;
    let graphs: BTreeSet<Id> = of_named.iter().map(|quad| quad[3]).collect();
    prop_assert!(snapshot.graphs().eq(graphs));
    Ok(())
}

fn assert_counts(statistics: &Statistics, model: &Model) -> Result<(), TestCaseError> {
    let distinct = |place: usize| model.iter().map(|quad| quad[place]).collect::<BTreeSet<_>>().len();
    prop_assert_eq!(
        (statistics.triples, statistics.subjects, statistics.objects),
        (model.len(), distinct(0), distinct(2))
    );
    let mut by_predicate: BTreeMap<Id, Vec<[Id; 4]>> = BTreeMap::new();
    for quad in model {
        by_predicate.entry(quad[1]).or_default().push(*quad);
    }
    prop_assert_eq!(statistics.predicate_count(), by_predicate.len());
    for (id, quads) in by_predicate {
        let predicate = statistics.predicate(id).expect("it has triples");
        prop_assert_eq!(predicate.triples, quads.len());
        for (column, place) in [(&predicate.subjects, 0), (&predicate.objects, 2)] {
            let ids: BTreeSet<Id> = quads.iter().map(|quad| quad[place]).collect();
            prop_assert_eq!(column.distinct, ids.len());
            prop_assert_eq!(&column.ids, &(*ids.first().unwrap()..=*ids.last().unwrap()));
            let kinds: BTreeSet<TermKind> = ids.iter().map(|id| id.kind()).collect();
            prop_assert_eq!(column.only_kind(), kinds.first().copied().filter(|_| kinds.len() == 1));
            for kind in TermKind::ALL {
                let count = quads.iter().filter(|quad| quad[place].kind() == kind).count();
                prop_assert_eq!(column.of_kind(kind), count);
            }
        }
    }
    Ok(())
}

#[test]
fn every_range_is_what_a_sorted_set_says() {
    check(120, random::quads(), |quads| {
        let mut loader = Loader::default().with_order(Order::Gosp).with_order(Order::Gsop);
        loader.file(&random::document_of_quads(&quads), load::Syntax::NQuads, None).expect("oxttl wrote it");
        let snapshot = loader.finish();
        snapshot.assert_valid();
        let model = model_of(&snapshot, quads);
        prop_assert_eq!(snapshot.len(), model.len());
        let mut probes = vec![Id::UNBOUND, Id::ranked(TermKind::Iri, 0), Id::ranked(TermKind::Iri, 1 << 40)];
        probes.extend([Id::integer(7).unwrap(), Id::from_bits(u64::MAX >> 1)]);
        for order in Order::ALL {
            assert_index(snapshot.index(order), &model, &probes)?;
        }
        for &quad in model.iter().take(8).chain(model.iter().rev().take(4)) {
            assert_patterns(&snapshot, &model, quad)?;
        }
        assert_statistics(&snapshot, &model)
    });
}

/// All steps with several workers and parts, as parallel loading runs them.
fn load_in_pieces(text: &[u8], chunk_bytes: usize, workers: usize) -> Snapshot {
    let mut chunker = Chunker::new(chunk_bytes);
    let mut parsed: Vec<ParsedPart> = (0..workers).map(|_| ParsedPart::default()).collect();
    // Two buffers; the second one begins with the rest of the first one.
    let (first, used) = chunker.cut(&text[..text.len() / 2], false);
    let (second, _) = chunker.cut(&text[used..], true);
    for (place, chunk) in first.into_iter().chain(second).enumerate() {
        load::parse_lines_into(&mut parsed[place % workers], chunk, load::Syntax::NQuads, 0, OnError::Fail)
            .expect("oxttl wrote it");
    }
    let (terms, mut quads): (Vec<_>, Vec<_>) =
        parsed.into_iter().map(|parsed| SortedTerms::new(parsed).unwrap()).unzip();
    let parts = load::cut_terms(&terms, workers + 1);
    let parts = parts.iter().map(|part| load::merge_terms(&terms, part).unwrap()).collect();
    let Assembled { terms, numbering, tables } = load::assemble(terms, parts).unwrap();
    let compressed = terms.cut(20).into_iter().map(|part| terms.compress(part, &|| false).unwrap().unwrap());
    let dictionary = load::join_keys(compressed).unwrap();
    for (quads, table) in quads.iter_mut().zip(&tables) {
        load::remap(quads, table);
    }
    let runs: Vec<SortedRun> = quads.into_iter().map(|quads| SortedRun::new(Order::Gspo, quads).unwrap()).collect();
    let indexes = Order::USUAL.map(|order| {
        let runs: Vec<SortedRun> = runs.iter().map(|run| run.derive(order).unwrap()).collect();
        let parts = load::cut_runs(&runs, workers);
        let parts: Vec<SortedRun> = parts.iter().map(|part| load::merge_runs(&runs, part).unwrap()).collect();
        load::index(order, &parts, &numbering).unwrap()
    });
    Snapshot::new(dictionary, indexes).unwrap()
}

pub(crate) fn assert_same(a: &Snapshot, b: &Snapshot) -> Result<(), TestCaseError> {
    prop_assert_eq!(a.dictionary().len(), b.dictionary().len());
    for kind in TermKind::IN_DICTIONARY {
        prop_assert_eq!(a.dictionary().count(kind), b.dictionary().count(kind));
        for rank in 0..a.dictionary().count(kind) {
            let id = Id::ranked(kind, rank);
            a.dictionary().key(id, |a| b.dictionary().key(id, |b| assert_eq!(a, b)));
        }
    }
    for order in Order::USUAL {
        prop_assert_eq!(contents(a.index(order)), contents(b.index(order)));
    }
    Ok(())
}

#[test]
fn loading_in_pieces_is_loading_at_once() {
    check(200, (random::quads(), 1..2000_usize, 1..6_usize), |(quads, chunk_bytes, workers)| {
        let text = random::document_of_quads(&quads);
        let mut loader = Loader::default();
        loader.file(&text, load::Syntax::NQuads, None).expect("oxttl wrote it");
        let whole = loader.finish();
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
    assert_eq!((snapshot.len(), snapshot.dictionary().count(TermKind::Blank)), (9, 15));
    // Outside the store they have different names as well, and each name leads back to its node.
    let ids = (0..15).map(|rank| Id::ranked(TermKind::Blank, rank));
    let names: BTreeSet<String> = ids.clone().map(|id| snapshot.term(id).to_string()).collect();
    assert_eq!(names.len(), 15, "{names:?}");
    assert!(ids.into_iter().all(|id| snapshot.id(snapshot.term(id).as_ref()) == Some(id)));
}

#[test]
fn turtle_loads_the_same_each_time() {
    let text = b"[ <http://e/p> [ <http://e/p> ( 1 2 [] ) ] ] <http://e/q> _:ffffffffffffffffffffffff , _:ab .";
    let stores = [(); 2].map(|()| Snapshot::of_turtle(text, None).unwrap());
    assert_same(&stores[0], &stores[1]).unwrap();
    assert_eq!(stores[0].dictionary().count(TermKind::Blank), 8);
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
            snapshot.is_empty() && snapshot.dictionary().is_empty() && snapshot.statistics().predicate_count() == 0
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
    let best = |s, p, o| snapshot.best_order([s, p, o, true]);
    assert_eq!((best(false, false, false), best(true, false, false)), (Order::Gspo, Order::Gspo));
    assert_eq!((best(false, true, false), best(false, false, true)), (Order::Gpso, Order::Gops));
    assert_eq!((best(true, true, false), best(true, true, true)), (Order::Gspo, Order::Gspo));
    assert!(best(false, true, true).prefix([false, true, true, true]) == 3);
    let sorted = |bound, position| snapshot.best_order_for(bound, Some(position));
    assert_eq!(sorted([false, true, false, true], Position::Object), Order::Gpos);
    assert_eq!(sorted([false, true, false, true], Position::Subject), Order::Gpso);
    assert_eq!(sorted([false, false, false, true], Position::Object), Order::Gops);
    // Of all named graphs.
    let best = |s, p, o| snapshot.best_order([s, p, o, false]);
    assert_eq!((best(false, false, false), best(true, true, true)), (Order::Spog, Order::Spog));
    assert_eq!((best(false, true, false), best(false, true, true)), (Order::Psog, Order::Posg));
    assert_eq!(sorted([true, true, true, false], Position::Graph), Order::Spog);
    assert_eq!(sorted([false, false, false, false], Position::Object), Order::Opsg);
}

/// A small bibliography from a fixed sequence: many authors a paper, numbers, typed strings, blank nodes, and duplicate
/// lines.
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
    let model = model_of(snapshot, random::of_default_graph(&triples));
    assert_eq!(snapshot.len(), model.len());
    snapshot.assert_valid();
    assert_statistics(snapshot, &model).unwrap();
    for order in Order::USUAL {
        let expected = if order.is_by_graph() { &model } else { &Model::new() };
        assert_eq!(&contents(snapshot.index(order)).into_iter().collect::<Model>(), expected, "{order:?}");
    }
    // How often each pattern with one or two bound places occurs, counted in one pass.
    let mut counts: BTreeMap<[Option<Id>; 4], usize> = BTreeMap::new();
    for quad in &model {
        for pattern in 1..7_usize {
            let is_bound = |place: usize| place == 3 || pattern >> place & 1 == 1;
            let places = [0, 1, 2, 3].map(|place| is_bound(place).then_some(quad[place]));
            *counts.entry(places).or_default() += 1;
        }
    }
    for (places, count) in counts {
        let bound = places.map(|place| place.is_some());
        let index = snapshot.index(snapshot.best_order(bound));
        let prefix: Vec<Id> = index.order().arrange(places).into_iter().map_while(|place| place).collect();
        let rows = index.range(&prefix);
        let object = places[2].filter(|_| bound == [true, false, true, true]);
        let found = rows.filter(|&row| object.is_none_or(|object| index.quad(row)[2] == object)).count();
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
    let index = snapshot.index(Order::Gspo);
    let mut cursor = index.cursor();
    let subjects = index.keys(0..index.key_count());
    let rows = subjects.map(|subject| cursor.range(&[Id::UNBOUND, subject]).len());
    assert_eq!(rows.sum::<usize>(), snapshot.len());
    let predicate = NamedNode::new_unchecked("http://purl.org/dc/elements/1.1/creator");
    let id = snapshot.id(predicate.as_ref().into()).unwrap();
    let lines = memchr::memmem::find_iter(&text, b"> <http://purl.org/dc/elements/1.1/creator> ").count();
    assert_eq!(snapshot.statistics().predicate(id).unwrap().triples, lines);
}
