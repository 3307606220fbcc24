//! Changes of a snapshot, until core/rdf has them: everything is built anew.

use oxrdf::Term;
use std::collections::BTreeSet;
use std::fmt::Write;
use vicus_flow::NoMemory;
use vicus_rdf::{FreshTerms, Id, Kind, Order, Snapshot, TermView, Unranked};

/// What becomes of a snapshot.
pub(crate) struct Changes {
    /// Terms that follow the snapshot's.
    pub(crate) fresh: Unranked,
    /// Subject, predicate, object, graph.
    pub(crate) inserts: Vec<[Id; 4]>,
    /// Subject, predicate, object, graph.
    pub(crate) deletes: Vec<[Id; 4]>,
}

pub(crate) fn fresh(_: &Snapshot) -> FreshTerms {
    FreshTerms::new(rapidhash::v3::RapidSecrets::seed(0))
}

pub(crate) fn find(snapshot: &Snapshot, kind: Kind, key: &str) -> Option<Id> {
    snapshot.dictionary().search(kind, key).ok()
}

pub(crate) fn key(snapshot: &Snapshot, id: Id) -> &str {
    snapshot.dictionary().key(id)
}

pub(crate) fn quads(snapshot: &Snapshot) -> impl Iterator<Item = [Id; 4]> + '_ {
    quads_in(snapshot, Order::Gspo)
}

pub(crate) fn quads_in(snapshot: &Snapshot, order: Order) -> impl Iterator<Item = [Id; 4]> + '_ {
    let index = snapshot.index(order);
    (0..index.len()).map(|row| index.quad(row))
}

pub(crate) fn with(snapshot: &Snapshot, changes: &Changes) -> Result<Snapshot, NoMemory> {
    let term = |id: Id| -> Term {
        match id.is_computed() {
            true => TermView::of_key(id.kind(), changes.fresh.key(id)).to_term(),
            false => snapshot.term(id),
        }
    };
    let shown = |quad: &[Id; 4]| {
        let [s, p, o, g] = quad.map(|id| if id.is_unbound() { String::new() } else { term(id).to_string() });
        format!("{s} {p} {o} {g} .\n")
    };
    let mut all: BTreeSet<String> = quads(snapshot).map(|quad| shown(&quad)).collect();
    for quad in &changes.deletes {
        all.remove(&shown(quad));
    }
    all.extend(changes.inserts.iter().map(shown));
    let mut text = String::new();
    all.iter().for_each(|line| text.write_str(line).expect("text grows"));
    let mut loader = vicus_rdf::Loader::default();
    loader.file(text.as_bytes(), vicus_rdf::load::Syntax::NQuads, None).expect("terms are written as N-Quads");
    Ok(loader.finish())
}

pub(crate) fn merged(snapshot: &Snapshot) -> Result<Snapshot, NoMemory> {
    with(snapshot, &Changes { fresh: fresh(snapshot).behind(), inserts: Vec::new(), deletes: Vec::new() })
}

pub(crate) fn union(a: &Snapshot, b: &Snapshot) -> Result<Snapshot, NoMemory> {
    let mut fresh = fresh(a).behind();
    let mut id = |id: Id| {
        if id.is_inlined() || id.is_unbound() {
            return id;
        }
        let key = key(b, id);
        let known = find(a, id.kind(), key).or_else(|| fresh.find(id.kind(), key));
        known.unwrap_or_else(|| fresh.add(id.kind(), key).expect("a test has enough memory"))
    };
    let inserts = quads(b).map(|quad| quad.map(&mut id)).collect();
    with(a, &Changes { fresh, inserts, deletes: Vec::new() })
}
