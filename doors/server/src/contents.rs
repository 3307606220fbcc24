//! The contents of the data, for a panel of the page: predicates, classes, graphs, tables; the most frequent first.

use crate::shared::Shared;
use oxrdf::vocab::rdf;
use oxrdf::{Term, TermRef};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use vicus_service::data::{Id, Order, Snapshot};

/// More of a kind are not told.
const MOST: usize = 1000;

/// So many classes are counted, and so many graphs are looked through for them.
const COUNTED: (usize, usize) = (100_000, 100);

/// The contents as JSON. An error's text says what is damaged.
pub(crate) fn contents(shared: &Shared) -> Result<Value, String> {
    let version = shared.data.now();
    let snapshot = &version.snapshot;
    let read = || {
        let (own, named) = (snapshot.statistics(), snapshot.named_statistics());
        let mut predicates: BTreeMap<Id, usize> = BTreeMap::new();
        for each in own.predicates().chain(named.predicates()) {
            *predicates.entry(each.id).or_default() += each.triples;
        }
        let graphs: Vec<Id> = snapshot.graphs().filter(|graph| !graph.is_unbound()).collect();
        let sizes = snapshot.index(Order::Gspo);
        let graph_sizes = graphs.iter().take(MOST).map(|graph| (*graph, sizes.count(&[*graph])));
        json!({
            "quads": snapshot.len(),
            "defaultGraph": own.triples,
            "predicates": largest(snapshot, predicates),
            "classes": largest(snapshot, classes(snapshot, &graphs)),
            "graphs": largest(snapshot, graph_sizes),
            "tables": tables(shared),
        })
    };
    snapshot.read_by(read).map_err(|error| error.to_string())
}

/// The classes with the number of their instances.
fn classes(snapshot: &Snapshot, graphs: &[Id]) -> BTreeMap<Id, usize> {
    let (groups, looked_through) = COUNTED;
    let mut classes: BTreeMap<Id, usize> = BTreeMap::new();
    let Some(rdf_type) = snapshot.id(TermRef::NamedNode(rdf::TYPE)) else { return classes };
    let index = snapshot.index(Order::Gpos);
    for graph in std::iter::once(&Id::UNBOUND).chain(graphs.iter().take(looked_through)) {
        for (class, rows) in index.groups(index.range(&[*graph, rdf_type])).take(groups) {
            *classes.entry(class).or_default() += rows.len();
        }
    }
    classes
}

/// IRIs and their counts, the greatest first.
fn largest(snapshot: &Snapshot, counts: impl IntoIterator<Item = (Id, usize)>) -> Vec<Value> {
    let mut counts: Vec<(Id, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let told = counts.into_iter().filter_map(|(id, count)| match snapshot.term(id) {
        Term::NamedNode(iri) => Some(json!({ "iri": iri.as_str(), "count": count })),
        _ => None,
    });
    told.take(MOST).collect()
}

fn tables(shared: &Shared) -> Vec<Value> {
    let sql = &shared.options.session.languages.sql;
    let told = sql.columns().into_iter().take(MOST).map(|(name, columns)| {
        let columns = columns.into_iter().map(|(name, kind)| json!({ "name": name, "type": kind.to_string() }));
        json!({ "name": name, "rows": sql.rows(&name), "columns": columns.collect::<Vec<_>>() })
    });
    told.collect()
}
