//! Changes of a snapshot: the inserted and deleted quads of an update.

use crate::delta::{Row, RowChange};
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

    /// Sorts the quads, each of them once, and leaves out deletions of quads to insert. Needs no memory.
    pub fn tidied(self, interrupt: &Interrupt<'_>) -> Changes {
        let Changes { fresh, mut inserts, mut deletes } = self;
        tidy([&mut inserts, &mut deletes], interrupt);
        for quads in [&mut inserts, &mut deletes] {
            quads.iter_mut().for_each(|row| *row = Order::Gspo.restore(*row));
        }
        Changes { fresh, inserts, deletes }
    }

    /// How many bytes its quads take.
    pub fn quads_bytes(&self) -> usize {
        (self.inserts.capacity() + self.deletes.capacity()) * size_of::<[Id; 4]>()
    }

    /// Its memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.quads_bytes() + self.fresh.heap_bytes()
    }
}

/// Makes quads to insert and to delete rows of the index Gspo, ascending and distinct, none of them in both.
fn tidy([inserts, deletes]: [&mut Vec<[Id; 4]>; 2], interrupt: &Interrupt<'_>) {
    for quads in [&mut *inserts, &mut *deletes] {
        quads.iter_mut().for_each(|quad| *quad = Order::Gspo.arrange(*quad));
        interrupt.sort_unstable_by(quads, &Row::cmp);
        quads.dedup();
    }
    let mut next = inserts.iter().peekable();
    deletes.retain(|row| {
        interrupt.step();
        while next.next_if(|insert| *insert < row).is_some() {}
        next.peek() != Some(&row)
    });
    drop_empty([deletes]);
}

/// Frees the memory of lists that have become empty.
fn drop_empty<const N: usize>(lists: [&mut Vec<[Id; 4]>; N]) {
    for list in lists {
        if list.is_empty() {
            *list = Vec::new();
        }
    }
}

/// The changed rows of the index Gspo: distinct, ascending.
#[derive(Debug)]
pub(crate) struct ChangedRows {
    inserted: Vec<Row>,
    deleted: Vec<Row>,
}

impl ChangedRows {
    /// Those of the quads to insert that are not there, and those to delete that are.
    pub(crate) fn of(
        [mut inserted, mut deleted]: [Vec<[Id; 4]>; 2],
        gspo: &Index,
        interrupt: &Interrupt<'_>,
    ) -> ChangedRows {
        tidy([&mut inserted, &mut deleted], interrupt);
        for (rows, there) in [(&mut inserted, false), (&mut deleted, true)] {
            let mut cursor = gspo.cursor();
            rows.retain(|row| {
                interrupt.step();
                cursor.range(row).is_empty() != there
            });
        }
        drop_empty([&mut inserted, &mut deleted]);
        ChangedRows { inserted, deleted }
    }

    /// Its memory, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        (self.inserted.capacity() + self.deleted.capacity()) * size_of::<Row>()
    }

    /// The rows that an order has. Orders ending with the graph have named graphs only.
    fn of_order(&self, order: Order) -> [&[Row]; 2] {
        // The default graph comes first.
        let from = |rows: &[Row]| if order.is_by_graph() { 0 } else { rows.partition_point(|row| row[0].is_unbound()) };
        [&self.inserted, &self.deleted].map(|rows| &rows[from(rows)..])
    }

    /// How many rows an order has.
    pub(crate) fn count_in(&self, order: Order) -> usize {
        self.of_order(order).map(<[Row]>::len).iter().sum()
    }

    /// The rows of an order, ascending.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn in_order(&self, order: Order, interrupt: &Interrupt<'_>) -> Result<Vec<(Row, RowChange)>, NoMemory> {
        let [inserted, deleted] = self.of_order(order);
        let mut made = Vec::with_room(inserted.len() + deleted.len())?;
        let mut inserted = inserted.iter().peekable();
        let mut put = |row: &Row, change| made.push((order.arrange(Order::Gspo.restore(*row)), change));
        for row in deleted {
            while let Some(row) = inserted.next_if(|other| *other < row) {
                put(row, RowChange::Insert);
            }
            put(row, RowChange::Delete);
        }
        inserted.for_each(|row| put(row, RowChange::Insert));
        interrupt.sort_unstable_by(&mut made, &|(a, _): &(Row, RowChange), (b, _)| a.cmp(b));
        Ok(made)
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
        let _held = interrupt.holding(rows.len() * size_of::<[Id; 4]>());
        let mut quads = Vec::with_room(rows.len())?;
        quads.extend(interrupt.each(rows).map(|row| index.quad(row)));
        Ok(quads)
    }
}
