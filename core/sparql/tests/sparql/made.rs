//! The same data as snapshots made in several ways.

use oxrdf::{GraphName, NamedOrBlankNode, Quad, Term};
use oxttl::NQuadsParser;
use std::sync::Arc;
use vicus_rdf::load::Syntax;
use vicus_rdf::{Changes, Id, Loader, Snapshot};

/// The number of ways.
pub(crate) const WAYS: usize = 3;

/// Way 0: as loaded. 1: all of it inserted into a store without data. 2: half of it inserted into a store with the
/// other half. In the ways with inserts, other data was loaded, and is deleted. Changes come in several batches. `text`
/// is N-Quads.
pub(crate) fn in_way(text: &str, way: usize) -> Arc<Snapshot> {
    let quads = quads_of(text);
    Arc::new(match way {
        0 => loaded(&quads),
        one_of => changed(&quads, one_of),
    })
}

fn quads_of(text: &str) -> Vec<Quad> {
    NQuadsParser::new().for_slice(text).map(|quad| quad.expect("good N-Quads")).collect()
}

/// One of so many quads is inserted, the others are loaded.
fn changed(quads: &[Quad], one_of: usize) -> Snapshot {
    let is_late = |place: usize| (place * 7919 / 3).is_multiple_of(one_of);
    let mut first: Vec<Quad> = Vec::new();
    let mut late: Vec<Quad> = Vec::new();
    for (place, quad) in quads.iter().enumerate() {
        if is_late(place) { late.push(quad.clone()) } else { first.push(quad.clone()) }
    }
    // The surplus data has terms of the others, and some of its own.
    let known: std::collections::BTreeSet<String> = quads.iter().map(Quad::to_string).collect();
    let mut surplus: Vec<Quad> = Vec::new();
    for (place, quad) in quads.iter().enumerate().step_by(4) {
        let other = &quads[(place * 31 + 1) % quads.len()];
        let own = Quad { object: oxrdf::Literal::from(format!("surplus {place}")).into(), ..quad.clone() };
        let mixed = Quad { object: other.object.clone(), graph_name: other.graph_name.clone(), ..quad.clone() };
        surplus.extend([own, mixed].into_iter().filter(|quad| !known.contains(&quad.to_string())));
    }
    first.extend(surplus.iter().cloned());
    let mut snapshot = loaded(&first);
    const BATCHES: usize = 3;
    for batch in 0..BATCHES {
        let part = |quads: &[Quad]| quads[quads.len() * batch / BATCHES..quads.len() * (batch + 1) / BATCHES].to_vec();
        let mut changes = Changes::of(&snapshot);
        for quad in part(&late) {
            let ids = ids_of(&quad, &snapshot, &mut changes);
            changes.inserts.push(ids);
        }
        for quad in part(&surplus) {
            let ids = ids_of(&quad, &snapshot, &mut changes);
            changes.deletes.push(ids);
        }
        snapshot = snapshot.with(changes).expect("enough memory");
    }
    snapshot
}

fn ids_of(quad: &Quad, snapshot: &Snapshot, changes: &mut Changes) -> [Id; 4] {
    let subject: Term = match quad.subject.clone() {
        NamedOrBlankNode::NamedNode(node) => node.into(),
        NamedOrBlankNode::BlankNode(node) => node.into(),
    };
    let graph: Option<Term> = match quad.graph_name.clone() {
        GraphName::NamedNode(node) => Some(node.into()),
        GraphName::BlankNode(node) => Some(node.into()),
        GraphName::DefaultGraph => None,
    };
    let mut id = |term: &Term| changes.id(snapshot, term.as_ref()).expect("enough memory");
    let (subject, predicate, object) = (id(&subject), id(&quad.predicate.clone().into()), id(&quad.object));
    [subject, predicate, object, graph.map_or(Id::UNBOUND, |graph| id(&graph))]
}

fn loaded(quads: &[Quad]) -> Snapshot {
    let text: String = quads.iter().map(|quad| format!("{quad} .\n")).collect();
    let mut loader = Loader::default().with_rdf_12(true);
    loader.file(text.as_bytes(), Syntax::NQuads, None).expect("good N-Quads");
    loader.finish()
}
