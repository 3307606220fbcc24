//! Changes of a snapshot: the inserted and deleted quads of an update.

use crate::delta::{Change, Row};
use crate::ids::Id;
use crate::index::{Index, Order};
use crate::interrupt::Interrupt;
use crate::snapshot::Snapshot;
use crate::term::{Encoded, Encoder};
use crate::unranked::Unranked;
use oxrdf::TermRef;
use std::ops::Range;
use vicus_flow::{Grow, NoMemory};

/// Quads to insert and to delete, each as subject, predicate, object and graph, in any order. Inserting a present quad
/// changes nothing, nor does deleting an absent one. A quad both deleted and inserted is present afterwards.
///
/// ```
/// use oxrdf::NamedNodeRef;
/// use vicus_rdf::{Changes, Id, Snapshot};
///
/// let before = Snapshot::of_ntriples(b"<http://e/ann> <http://e/knows> <http://e/bob> .")?;
/// let mut changes = Changes::of(&before);
/// let [ann, knows, bob, eve] = ["ann", "knows", "bob", "eve"].map(|name| {
///     let iri = format!("http://e/{name}");
///     changes.id(&before, NamedNodeRef::new_unchecked(&iri).into()).expect("memory")
/// });
/// changes.inserts.push([ann, knows, eve, Id::UNBOUND]);
/// changes.deletes.push([ann, knows, bob, Id::UNBOUND]);
/// let after = before.with(changes).expect("memory");
/// assert_eq!((before.len(), after.len()), (1, 1));
/// assert_eq!(after.id(NamedNodeRef::new_unchecked("http://e/eve").into()), Some(eve));
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
#[derive(Debug)]
pub struct Changes {
    /// The terms of inserted quads unknown to the snapshot.
    pub fresh: Unranked,
    /// The quads to be present.
    pub inserts: Vec<[Id; 4]>,
    /// The quads to be absent.
    pub deletes: Vec<[Id; 4]>,
}

impl Changes {
    /// No changes of a snapshot yet, with an empty dictionary for terms behind its own.
    pub fn of(snapshot: &Snapshot) -> Changes {
        Changes { fresh: snapshot.fresh().behind(), inserts: Vec::new(), deletes: Vec::new() }
    }

    /// Copies all quads of a graph to another one; `fresh` has the other graph's name, if the snapshot does not.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn of_copy(
        snapshot: &Snapshot,
        from: Id,
        to: Id,
        fresh: Unranked,
        interrupt: &Interrupt<'_>,
    ) -> Result<Changes, NoMemory> {
        let mut inserts = Graphs::One(from).quads(snapshot, interrupt)?;
        inserts.iter_mut().for_each(|quad| quad[3] = to);
        // Terms without quads are not kept.
        let fresh = if inserts.is_empty() { snapshot.fresh().behind() } else { fresh };
        Ok(Changes { fresh, inserts, deletes: Vec::new() })
    }

    /// The id of a term: its id in the snapshot, or a new one.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn id(&mut self, of: &Snapshot, term: TermRef<'_>) -> Result<Id, NoMemory> {
        match Encoder::default().term(term) {
            Encoded::Inlined(id) => Ok(id),
            Encoded::Key(kind, key) => of.find_or_add(&mut self.fresh, kind, key),
        }
    }

    /// The changed rows of the index Gspo, ascending.
    pub(crate) fn effective(
        mut inserts: Vec<[Id; 4]>,
        mut deletes: Vec<[Id; 4]>,
        gspo: &Index,
        interrupt: &Interrupt<'_>,
    ) -> Result<Vec<(Row, Change)>, NoMemory> {
        for quads in [&mut inserts, &mut deletes] {
            quads.iter_mut().for_each(|quad| *quad = Order::Gspo.arrange(*quad));
            interrupt.sort_unstable_by(quads, &Row::cmp);
            quads.dedup();
        }
        let mut made: Vec<(Row, Change)> = Vec::with_room(inserts.len() + deletes.len())?;
        let mut cursor = gspo.cursor();
        let mut deletes = deletes.into_iter().peekable();
        let mut next_insert = inserts.iter().peekable();
        loop {
            interrupt.step();
            let (row, change) = match (next_insert.peek(), deletes.peek()) {
                (None, None) => return Ok(made),
                (Some(insert), delete) if delete.is_none_or(|delete| *insert <= delete) => {
                    let row = **insert;
                    next_insert.next();
                    deletes.next_if_eq(&row);
                    (row, Change::Insert)
                }
                (_, Some(delete)) => {
                    let row = *delete;
                    deletes.next();
                    (row, Change::Delete)
                }
                (Some(_), None) => unreachable!("without a deletion, the insertion comes next"),
            };
            let is_there = !cursor.range(&row).is_empty();
            if is_there == (change == Change::Delete) {
                made.push((row, change));
            }
        }
    }
}

/// Some graphs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Graphs {
    /// Every graph.
    All,
    /// Every graph with a name.
    Named,
    /// The graph with this name, or the default graph ([`Id::UNBOUND`]).
    One(Id),
}

impl Graphs {
    /// Their rows of the index Gspo.
    pub fn rows(self, snapshot: &Snapshot) -> Range<usize> {
        let index = snapshot.index(Order::Gspo);
        match self {
            Graphs::All => 0..index.len(),
            // The default graph comes first.
            Graphs::Named => index.range(&[Id::UNBOUND]).end..index.len(),
            Graphs::One(graph) => index.range(&[graph]),
        }
    }

    /// Whether the graph with this name is one of them.
    pub fn has(self, graph: Id) -> bool {
        match self {
            Graphs::All => true,
            Graphs::Named => !graph.is_unbound(),
            Graphs::One(one) => graph == one,
        }
    }

    /// Their quads.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn quads(self, snapshot: &Snapshot, interrupt: &Interrupt<'_>) -> Result<Vec<[Id; 4]>, NoMemory> {
        let (index, rows) = (snapshot.index(Order::Gspo), self.rows(snapshot));
        let mut quads = Vec::with_room(rows.len())?;
        quads.extend(interrupt.each(rows).map(|row| index.quad(row)));
        Ok(quads)
    }
}

/// Changed rows of the order Gspo as those of another order, ascending. Orders ending with the graph have named graphs
/// only.
pub(crate) fn in_order(
    changes: &[(Row, Change)],
    order: Order,
    interrupt: &Interrupt<'_>,
) -> Result<Vec<(Row, Change)>, NoMemory> {
    let is_in = |row: &Row| order.is_by_graph() || !row[0].is_unbound();
    let mut made = Vec::with_room(changes.len())?;
    let arranged = changes.iter().filter(|(row, _)| is_in(row)).map(|(row, change)| {
        let quad = Order::Gspo.restore(*row);
        (order.arrange(quad), *change)
    });
    made.extend(arranged);
    interrupt.sort_unstable_by(&mut made, &|(a, _): &(Row, Change), (b, _)| a.cmp(b));
    Ok(made)
}
