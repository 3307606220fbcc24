//! Quads without a text: those that match a pattern, and changes of single ones. For doors whose users have terms in
//! hand.

use crate::error::Error;
use crate::load::Dataset;
use crate::session::reading;
use crate::update::Updating;
use oxrdf::{Quad, TermRef};
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use vicus_rdf::{Changes, Id, Order, Snapshot};
use vicus_sparql::UpdateChange;

/// The graphs of quads.
#[derive(Clone, Copy, Debug)]
pub enum GraphChoice<'a> {
    /// The default graph.
    Default,
    /// The graph with this name.
    Named(TermRef<'a>),
    /// The default graph and all named ones.
    All,
}

/// Quads that match a pattern, read in pieces.
///
/// ```
/// use std::sync::Arc;
/// use vicus_service::{Dataset, GraphChoice, Matching, data::Snapshot};
///
/// let data = Snapshot::of_turtle(b"<http://e/ann> <http://e/age> 27, 28 .", None).unwrap();
/// let data = Dataset::new(Arc::new(data));
/// let ann = oxrdf::NamedNodeRef::new_unchecked("http://e/ann").into();
/// let mut found = Matching::new(&data, [Some(ann), None, None], GraphChoice::All)?;
/// assert_eq!(found.count()?, 2);
/// assert_eq!(found.next(10)?.map(|quads| quads.len()), Some(2));
/// assert_eq!(found.next(10)?, None);
/// # Ok::<(), vicus_service::Error>(())
/// ```
#[derive(Clone)]
pub struct Matching {
    snapshot: Arc<Snapshot>,
    /// Rows of orders, of which some match.
    parts: VecDeque<(Order, Range<usize>)>,
    pattern: [Option<Id>; 4],
}

/// At most so many rows are looked at for a piece, so that its reader can look for other things now and then.
const LOOKED_AT: usize = 1 << 16;

impl Matching {
    /// The quads of a dataset with these subjects, predicates and objects. A blank node is one of the data by its label
    /// there.
    ///
    /// # Errors
    /// The data is damaged where its terms are looked for.
    pub fn new(
        dataset: &Dataset,
        pattern: [Option<TermRef<'_>>; 3],
        graph: GraphChoice<'_>,
    ) -> Result<Matching, Error> {
        let snapshot = dataset.snapshot();
        reading(snapshot, "quads", || {
            let mut ids = [None; 3];
            let mut is_known = true;
            for (id, term) in ids.iter_mut().zip(pattern) {
                *id = term.and_then(|term| snapshot.id(term));
                is_known &= id.is_some() == term.is_some();
            }
            let graph = match graph {
                GraphChoice::Default => Some(Id::UNBOUND),
                GraphChoice::Named(name) => {
                    let id = snapshot.id(name);
                    is_known &= id.is_some();
                    id
                }
                GraphChoice::All => None,
            };
            let mut found = Matching::of(dataset, ids, graph);
            if !is_known {
                found.parts.clear();
            }
            found
        })
    }

    /// The quads with these ids of the dataset's, in the graph of an id, in the default graph (`Id::UNBOUND`), or in
    /// all.
    ///
    /// # Errors
    /// The data is damaged where it looks.
    pub fn of_ids(dataset: &Dataset, pattern: [Option<Id>; 3], graph: Option<Id>) -> Result<Matching, Error> {
        reading(dataset.snapshot(), "quads", || Matching::of(dataset, pattern, graph))
    }

    /// Whether a quad of these ids is there; without a graph, in any.
    ///
    /// # Errors
    /// The data is damaged where it looks.
    pub fn has(dataset: &Dataset, triple: [Option<Id>; 3], graph: Option<Id>) -> Result<bool, Error> {
        let snapshot = dataset.snapshot();
        let [Some(subject), Some(predicate), Some(object)] = triple else {
            return Ok(Matching::of_ids(dataset, triple, graph)?.next(1)?.is_some_and(|quads| !quads.is_empty()));
        };
        reading(snapshot, "quads", || {
            let is_in = |order: Order, prefix: &[Id]| !snapshot.index(order).range(prefix).is_empty();
            match graph {
                Some(graph) => is_in(Order::Gspo, &[graph, subject, predicate, object]),
                None => {
                    is_in(Order::Gspo, &[Id::UNBOUND, subject, predicate, object])
                        || is_in(Order::Spog, &[subject, predicate, object])
                }
            }
        })
    }

    fn of(dataset: &Dataset, [subject, predicate, object]: [Option<Id>; 3], graph: Option<Id>) -> Matching {
        let snapshot = Arc::clone(dataset.snapshot());
        let mut found = Matching { snapshot, parts: VecDeque::new(), pattern: [subject, predicate, object, None] };
        found.add_graph(graph.unwrap_or(Id::UNBOUND));
        if graph.is_none() {
            found.pattern[3] = None;
            found.add(&[Order::Spog, Order::Psog, Order::Posg, Order::Opsg]);
        }
        found
    }

    fn add_graph(&mut self, graph: Id) {
        self.pattern[3] = Some(graph);
        self.add(&[Order::Gspo, Order::Gpso, Order::Gpos, Order::Gops]);
    }

    /// The rows of the order that has most of the pattern in front.
    fn add(&mut self, orders: &[Order]) {
        let bound = self.pattern.map(|id| id.is_some());
        let order = *orders.iter().max_by_key(|order| order.prefix(bound)).expect("there are orders");
        let ids = order.arrange(self.pattern);
        let prefix: Vec<Id> = ids.into_iter().take(order.prefix(bound)).flatten().collect();
        let rows = self.snapshot.index(order).range(&prefix);
        if rows.start < rows.end {
            self.parts.push_back((order, rows));
        }
    }

    /// Whether no row is left to be looked at.
    pub fn is_over(&self) -> bool {
        self.parts.is_empty()
    }

    /// How many quads are left, if the pattern is a range of an order: else rows have to be looked at.
    pub fn range(&self) -> Option<usize> {
        let is_range = |order: Order| {
            let bound = self.bound_in(order);
            order.prefix(bound) == bound.into_iter().filter(|is_bound| *is_bound).count()
        };
        let is_range = self.parts.iter().all(|(order, _)| is_range(*order));
        is_range.then(|| self.parts.iter().map(|(_, rows)| rows.len()).sum())
    }

    /// How many quads are left. Looks at rows if the pattern is no range of an order.
    ///
    /// # Errors
    /// The data is damaged where it looks.
    pub fn count(&self) -> Result<usize, Error> {
        if let Some(rows) = self.range() {
            return Ok(rows);
        }
        let (mut rest, mut count) = (self.clone(), 0);
        while let Some(quads) = rest.next(LOOKED_AT)? {
            count += quads.len();
        }
        Ok(count)
    }

    /// The positions that quads of an order are held to.
    fn bound_in(&self, order: Order) -> [bool; 4] {
        let [subject, predicate, object, graph] = self.pattern.map(|id| id.is_some());
        [subject, predicate, object, graph || order.is_by_graph()]
    }

    /// The next quads, so many at most; `None` at the end. There may be more behind an empty piece: a call looks at a
    /// bounded number of rows.
    ///
    /// # Errors
    /// The data is damaged where it looks.
    pub fn next(&mut self, most: usize) -> Result<Option<Vec<[Id; 4]>>, Error> {
        if self.parts.is_empty() {
            return Ok(None);
        }
        let snapshot = Arc::clone(&self.snapshot);
        reading(&snapshot, "quads", || Some(self.look(most)))
    }

    fn look(&mut self, most: usize) -> Vec<[Id; 4]> {
        let mut found = Vec::new();
        let mut left = LOOKED_AT;
        while left > 0
            && let Some((order, rows)) = self.parts.front_mut()
        {
            let looked = rows.start..rows.end.min(rows.start + left);
            left -= looked.len();
            let index = self.snapshot.index(*order);
            for row in looked.clone() {
                if found.len() >= most {
                    rows.start = row;
                    return found;
                }
                let quad = index.quad(row);
                let matches = |(id, wanted): (&Id, &Option<Id>)| wanted.is_none_or(|wanted| wanted == *id);
                if quad[..3].iter().zip(&self.pattern[..3]).all(matches) {
                    found.push(quad);
                }
            }
            rows.start = looked.end;
            if rows.start == rows.end {
                self.parts.pop_front();
            }
            if found.len() >= most {
                break;
            }
        }
        found
    }

    /// The data that the ids are of.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }
}

impl fmt::Debug for Matching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matching").field("parts", &self.parts).finish_non_exhaustive()
    }
}

fn shared(error: impl std::error::Error + Send + Sync + 'static) -> Arc<dyn std::error::Error + Send + Sync> {
    Arc::new(error)
}

/// Changes single quads: each is there afterwards (true), or not. A blank node is one of the data by its label there,
/// or a new one with this label.
///
/// # Errors
/// The data can't be had or changed.
pub fn change_quads(
    data: &mut dyn Updating,
    quads: &[(Quad, bool)],
) -> Result<(), Arc<dyn std::error::Error + Send + Sync>> {
    let snapshot = data.snapshot()?;
    let changes = snapshot
        .read_by(|| changes_of(&snapshot, quads))
        .map_err(Arc::<dyn std::error::Error + Send + Sync>::from)??;
    data.change(UpdateChange::Quads(changes))
}

fn changes_of(
    snapshot: &Arc<Snapshot>,
    quads: &[(Quad, bool)],
) -> Result<Changes, Arc<dyn std::error::Error + Send + Sync>> {
    let mut changes = Changes::of(snapshot);
    for (quad, is_there) in quads {
        let graph = match &quad.graph_name {
            oxrdf::GraphName::DefaultGraph => None,
            oxrdf::GraphName::NamedNode(name) => Some(TermRef::from(name.as_ref())),
            oxrdf::GraphName::BlankNode(name) => Some(TermRef::from(name.as_ref())),
        };
        let subject = match &quad.subject {
            oxrdf::NamedOrBlankNode::NamedNode(name) => TermRef::from(name.as_ref()),
            oxrdf::NamedOrBlankNode::BlankNode(name) => TermRef::from(name.as_ref()),
        };
        let terms = [Some(subject), Some(quad.predicate.as_ref().into()), Some(quad.object.as_ref()), graph];
        let mut ids = [Id::UNBOUND; 4];
        let mut is_known = true;
        for (id, term) in ids.iter_mut().zip(terms) {
            let Some(term) = term else { continue };
            match is_there {
                true => *id = changes.id(snapshot, term).map_err(shared)?,
                false => match snapshot.id(term) {
                    Some(known) => *id = known,
                    None => is_known = false,
                },
            }
        }
        match is_there {
            true => changes.inserts.push(ids),
            false if is_known => changes.deletes.push(ids),
            false => {}
        }
    }
    Ok(changes)
}
