//! Templates of an operation, filled in for each solution: quads of ids. SPARQL 1.1 Update, §3.1.3 and §4.1.
//!
//! Several boxes may fill at once, each into a [`Filled`] of its own; they share the terms unknown to the snapshot.

use super::UpdateError;
use crate::operators::construct::is_triple;
use crate::parse::ParsedQuery;
use crate::plan::QueryRun;
use crate::syntax::ast::{Item, Path, Quads, Term, Var, Verb};
use crate::terms::{Moment, Terms};
use hashbrown::HashMap;
use oxrdf::{NamedNode, TermRef};
use rustc_hash::FxHashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vicus_flow::library::{HashKey, table_bytes};
use vicus_flow::{Envelope, Grow, NoMemory};
use vicus_rdf::{Changes, Encoded, Encoder, Id, Interrupt, Order, Snapshot, TermKind, TermLimits, TermView, Unranked};

/// Fills the templates of an operation.
pub struct Filling {
    snapshot: Arc<Snapshot>,
    delete: Vec<[Part; 4]>,
    insert: Vec<[Part; 4]>,
    /// How many blank nodes the template of inserts has.
    blanks: u32,
    shared: Mutex<Shared>,
}

/// The content of a position of a template.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// A column of the solutions.
    Column(usize),
    Constant(Id),
    /// A blank node, by number; a new one for each solution.
    Blank(u32),
}

struct Shared {
    /// Terms unknown to the snapshot.
    fresh: Unranked,
    /// The new blank nodes for those of a run or a document.
    blanks: HashMap<Id, Id, HashKey>,
    /// The number of the next new blank node.
    next: u64,
    encoder: Encoder,
    /// Others are refused.
    longest: TermLimits,
    /// The bytes of the new terms that are counted as those of a [`Filled`].
    counted: usize,
}

/// Quads filled in by one box.
#[derive(Default, Debug)]
pub struct Filled {
    deletes: Vec<[Id; 4]>,
    inserts: Vec<[Id; 4]>,
    /// The bytes of the new terms that came with these quads.
    terms: usize,
}

impl Filled {
    /// Its memory, in bytes, with that of its new terms.
    pub fn bytes(&self) -> u64 {
        ((self.deletes.capacity() + self.inserts.capacity()) * size_of::<[Id; 4]>() + self.terms) as u64
    }
}

impl fmt::Debug for Filling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filling").field("delete", &self.delete).field("insert", &self.insert).finish_non_exhaustive()
    }
}

impl Shared {
    /// The id of a term, added if the snapshot lacks it.
    fn id(&mut self, snapshot: &Snapshot, term: TermRef<'_>) -> Result<Id, UpdateError> {
        match self.encoder.term(term) {
            Encoded::Inlined(id) => Ok(id),
            encoded @ Encoded::Key(kind, key) => {
                self.longest.check(encoded)?;
                Ok(snapshot.find_or_add(&mut self.fresh, kind, key)?)
            }
        }
    }

    /// The id of a term with this key, added if the snapshot lacks it.
    fn with_key(&mut self, snapshot: &Snapshot, kind: TermKind, key: &str) -> Result<Id, UpdateError> {
        self.longest.check(Encoded::Key(kind, key))?;
        Ok(snapshot.find_or_add(&mut self.fresh, kind, key)?)
    }

    /// The triple term with this key, with blank nodes replaced by `of`.
    fn triple(
        &mut self,
        snapshot: &Snapshot,
        key: &str,
        of: &mut dyn FnMut(&mut Shared, &str) -> Result<Id, UpdateError>,
    ) -> Result<Id, UpdateError> {
        let TermView::Triple(triple) = TermView::of_key(TermKind::Triple, key) else {
            unreachable!("its kind says so")
        };
        let mut made = String::new();
        triple.with_blanks::<UpdateError>(
            &mut |key, into| {
                let id = of(self, key)?;
                match snapshot.has(id) {
                    true => snapshot.key(id, |key| into.push_str(key)),
                    false => into.push_str(self.fresh.key(id)),
                }
                Ok(())
            },
            &mut made,
        )?;
        self.with_key(snapshot, TermKind::Triple, &made)
    }

    /// The bytes of the new terms that were added since the last call.
    fn count(&mut self) -> usize {
        let bytes = self.fresh.heap_bytes() + table_bytes::<(Id, Id)>(self.blanks.capacity());
        bytes - std::mem::replace(&mut self.counted, bytes)
    }

    /// A new blank node.
    fn blank(&mut self, snapshot: &Snapshot) -> Result<Id, NoMemory> {
        loop {
            let Encoded::Key(kind, key) = self.encoder.made(self.next) else { unreachable!("a blank node has a key") };
            self.next = self.next.wrapping_add(1);
            // Rarely, an update before has made the same number of its seed.
            if snapshot.find(kind, key).is_none() && self.fresh.find(kind, key).is_none() {
                return self.fresh.add(kind, key);
            }
        }
    }

    /// The new blank node for one of a run or a document.
    fn blank_of(&mut self, snapshot: &Snapshot, from: Id) -> Result<Id, NoMemory> {
        if let Some(id) = self.blanks.get(&from) {
            return Ok(*id);
        }
        let id = self.blank(snapshot)?;
        let bytes = (2 * (self.blanks.len() + 1) * size_of::<(Id, Id)>()) as u64;
        vicus_flow::refusable(|| self.blanks.try_reserve(1)).map_err(|_| NoMemory { bytes })?;
        self.blanks.insert(from, id);
        Ok(id)
    }
}

impl Filling {
    pub(super) fn new(
        snapshot: &Arc<Snapshot>,
        delete: &[Quads],
        insert: &[Quads],
        pattern: Option<&ParsedQuery>,
        moment: Moment,
        longest: TermLimits,
        interrupt: &Interrupt<'_>,
    ) -> Result<Filling, UpdateError> {
        let fresh = snapshot.fresh().behind();
        let key = HashKey::default();
        // Numbers very likely unused by all other updates, so few are tried.
        let next = key.mix(moment.seed ^ key.mix(snapshot.fresh().len() as u64));
        let blanks = HashMap::with_hasher(key);
        let mut shared = Shared { fresh, blanks, next, encoder: Encoder::default(), longest, counted: 0 };
        let items = pattern.map_or(&[][..], |pattern| &pattern.query.select.projection);
        let columns: FxHashMap<Var, usize> = items
            .iter()
            .enumerate()
            .map(|(column, item)| match item {
                Item::Var(var) | Item::Computed(_, Some(var)) => (*var, column),
                Item::Computed(_, None) => unreachable!("the projection has the templates' variables"),
            })
            .collect();
        let blanks = FxHashMap::default();
        let mut template = Template { columns, blanks, snapshot, shared: &mut shared, interrupt };
        // A quad with an unknown term can't be deleted.
        let delete = template.parts(delete, |snapshot, _, term| Ok(snapshot.id(term)))?;
        let insert = template.parts(insert, |snapshot, shared, term| shared.id(snapshot, term).map(Some))?;
        let blanks = template.blanks.len() as u32;
        Ok(Filling { snapshot: Arc::clone(snapshot), delete, insert, blanks, shared: Mutex::new(shared) })
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A thread that gave up here, as on a damaged page, left all of it unchanged.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills the templates in for the rows of an envelope made by the pattern's run.
    ///
    /// # Errors
    /// There is not enough memory, or a term may not be inserted.
    pub fn fill(&self, run: &QueryRun, envelope: &Envelope, into: &mut Filled) -> Result<(), UpdateError> {
        let columns: Vec<&[u64]> = envelope.columns().iter().map(|column| column.u64s()).collect();
        into.deletes.grow(self.delete.len() * envelope.rows())?;
        into.inserts.grow(self.insert.len() * envelope.rows())?;
        let mut made = Vec::with_capacity(self.blanks as usize);
        let id_at = |row: usize, column: usize| Id::from_bits(columns[column][row]);
        for row in 0..envelope.rows() {
            let id = |column: usize| id_at(row, column);
            for parts in &self.delete {
                let ids = parts.map(|part| match part {
                    Part::Column(column) => id(column),
                    Part::Constant(id) => id,
                    Part::Blank(_) => unreachable!("a blank node can't stand in DELETE"),
                });
                // A computed term may be in the data, under another id.
                if is_quad(parts, ids)
                    && let [Some(s), Some(p), Some(o), Some(g)] = ids.map(|id| run.stored(id))
                {
                    into.deletes.push([s, p, o, g]);
                }
            }
            made.clear();
            for parts in &self.insert {
                let ids = parts.map(|part| match part {
                    Part::Column(column) => id(column),
                    Part::Constant(id) => id,
                    // Only its kind counts here.
                    Part::Blank(_) => Id::unranked(TermKind::Blank, 0),
                });
                if !is_quad(parts, ids) {
                    continue;
                }
                if made.is_empty() && self.blanks > 0 {
                    let mut shared = self.lock();
                    for _ in 0..self.blanks {
                        made.push(shared.blank(&self.snapshot)?);
                    }
                }
                let mut quad = [Id::UNBOUND; 4];
                for (place, (part, id)) in parts.iter().zip(ids).enumerate() {
                    quad[place] = match part {
                        Part::Blank(number) => made[*number as usize],
                        Part::Column(_) => match run.stored(id) {
                            Some(id) => id,
                            None => self.added(run, id)?,
                        },
                        Part::Constant(_) => id,
                    };
                }
                into.inserts.push(quad);
            }
        }
        if !self.insert.is_empty() {
            into.terms += self.lock().count();
        }
        Ok(())
    }

    /// The new id of a computed term unknown to the snapshot.
    fn added(&self, run: &QueryRun, id: Id) -> Result<Id, UpdateError> {
        if id.kind() == TermKind::Blank {
            return Ok(self.lock().blank_of(&self.snapshot, id)?);
        }
        if id.is_triple() {
            return run.with_key(id, |key| {
                let mut shared = self.lock();
                shared.triple(&self.snapshot, key, &mut |shared, key| {
                    let fresh = TermView::of_key(TermKind::Blank, key).fresh_number();
                    match (fresh, self.snapshot.find(TermKind::Blank, key)) {
                        (Some(number), _) => Ok(shared.blank_of(&self.snapshot, Terms::fresh_blank(number))?),
                        (None, Some(id)) => Ok(id),
                        (None, None) => shared.with_key(&self.snapshot, TermKind::Blank, key),
                    }
                })
            });
        }
        let term = run.term(id);
        self.lock().id(&self.snapshot, term.as_ref())
    }

    /// Takes the quads of a document over. Its blank nodes become new ones. Its triples are put into the graph with
    /// this name; without a name, each quad into its graph in the document.
    ///
    /// # Errors
    /// There is not enough memory; a term may not be inserted; the snapshot's data is damaged; the document has named
    /// graphs, and a name is given; or the caller ends it.
    pub fn document(
        &self,
        document: &Snapshot,
        into: Option<&NamedNode>,
        interrupt: &Interrupt<'_>,
    ) -> Result<Filled, UpdateError> {
        if into.is_some() && document.graphs().len() > 0 {
            return Err(UpdateError::DocumentHasGraphs);
        }
        UpdateError::or_given_up(|| self.quads_of(document, into, interrupt))
    }

    fn quads_of(
        &self,
        document: &Snapshot,
        into: Option<&NamedNode>,
        interrupt: &Interrupt<'_>,
    ) -> Result<Filled, UpdateError> {
        let graph = self.graph(into)?;
        let mut shared = self.lock();
        let mut known: HashMap<Id, Id, HashKey> = HashMap::with_hasher(HashKey::default());
        // The replacements of blank nodes, in triple terms as well.
        let mut inner: HashMap<String, Id, HashKey> = HashMap::with_hasher(HashKey::default());
        let mut stored = |id: Id| -> Result<Id, UpdateError> {
            if !id.is_unbound() && id.rank().is_none() {
                return Ok(id);
            }
            if let Some(id) = known.get(&id) {
                return Ok(*id);
            }
            let made = match id.kind() {
                TermKind::Blank => document.key(id, |key| new_blank(&mut shared, &self.snapshot, &mut inner, key))?,
                TermKind::Triple => document.key(id, |key| {
                    let mut blank =
                        |shared: &mut Shared, key: &str| Ok(new_blank(shared, &self.snapshot, &mut inner, key)?);
                    shared.triple(&self.snapshot, key, &mut blank)
                })?,
                _ => shared.id(&self.snapshot, document.term(id).as_ref())?,
            };
            let bytes = (2 * (known.len() + 1) * size_of::<(Id, Id)>()) as u64;
            vicus_flow::refusable(|| known.try_reserve(1)).map_err(|_| NoMemory { bytes })?;
            known.insert(id, made);
            Ok(made)
        };
        let mut inserts = Vec::new();
        inserts.grow(document.len())?;
        let index = document.index(Order::Gspo);
        for row in interrupt.each(0..index.len()) {
            let [s, p, o, own] = index.quad(row);
            let graph = if own.is_unbound() { graph } else { stored(own)? };
            inserts.push([stored(s)?, stored(p)?, stored(o)?, graph]);
        }
        Ok(Filled { inserts, terms: shared.count(), ..Filled::default() })
    }

    /// The id of a graph's name, possibly new.
    pub(super) fn graph(&self, name: Option<&NamedNode>) -> Result<Id, UpdateError> {
        name.map_or(Ok(Id::UNBOUND), |name| self.lock().id(&self.snapshot, name.as_ref().into()))
    }

    /// The quads of templates without variables: those of INSERT DATA and DELETE DATA.
    pub(super) fn data(&self, interrupt: &Interrupt<'_>) -> Result<Changes, NoMemory> {
        let made = {
            let mut shared = self.lock();
            interrupt
                .each(0..self.blanks)
                .map(|_| shared.blank(&self.snapshot))
                .collect::<Result<Vec<Id>, NoMemory>>()?
        };
        let quads = |templates: &[[Part; 4]]| {
            let id = |part: Part| match part {
                Part::Constant(id) => id,
                Part::Blank(number) => made[number as usize],
                Part::Column(_) => unreachable!("a variable can't stand in data"),
            };
            let filled = interrupt.each(templates.iter()).map(|parts| (parts, parts.map(id)));
            filled.filter(|(parts, ids)| is_quad(parts, *ids)).map(|(_, ids)| ids).collect::<Vec<[Id; 4]>>()
        };
        let filled = Filled { deletes: quads(&self.delete), inserts: quads(&self.insert), terms: 0 };
        Ok(self.finish([filled]))
    }

    /// All filled-in quads. To be called once.
    pub fn finish(&self, filled: impl IntoIterator<Item = Filled>) -> Changes {
        let mut parts: Vec<Filled> = filled.into_iter().collect();
        // The shorter lists are copied behind the longest.
        parts.sort_by_key(|part| std::cmp::Reverse(part.deletes.len() + part.inserts.len()));
        let (mut deletes, mut inserts) = (Vec::new(), Vec::new());
        for mut part in parts {
            if deletes.is_empty() && inserts.is_empty() {
                (deletes, inserts) = (part.deletes, part.inserts);
            } else {
                deletes.append(&mut part.deletes);
                inserts.append(&mut part.inserts);
            }
        }
        Changes { fresh: self.lock().fresh.take(), inserts, deletes }
    }
}

/// The new blank node for one of a document, by its key there.
fn new_blank(
    shared: &mut Shared,
    snapshot: &Snapshot,
    known: &mut HashMap<String, Id, HashKey>,
    key: &str,
) -> Result<Id, NoMemory> {
    if let Some(id) = known.get(key) {
        return Ok(*id);
    }
    let id = shared.blank(snapshot)?;
    let bytes = (2 * (known.len() + 1) * size_of::<(String, Id)>()) as u64;
    vicus_flow::refusable(|| known.try_reserve(1)).map_err(|_| NoMemory { bytes })?;
    known.insert(key.to_owned(), id);
    Ok(id)
}

/// Whether these ids can stand in a quad: others are left out (§3.1.3: as in CONSTRUCT).
fn is_quad(parts: &[Part; 4], [subject, predicate, object, graph]: [Id; 4]) -> bool {
    let is_graph = match parts[3] {
        Part::Column(_) => matches!(graph.kind(), TermKind::Iri | TermKind::Blank),
        Part::Constant(_) | Part::Blank(_) => true,
    };
    is_graph && is_triple([subject, predicate, object])
}

/// Templates as they are read.
struct Template<'a> {
    columns: FxHashMap<Var, usize>,
    blanks: FxHashMap<u32, u32>,
    snapshot: &'a Snapshot,
    shared: &'a mut Shared,
    interrupt: &'a Interrupt<'a>,
}

impl Template<'_> {
    /// The parts of all quads with known constants.
    fn parts(
        &mut self,
        quads: &[Quads],
        mut id: impl FnMut(&Snapshot, &mut Shared, TermRef<'_>) -> Result<Option<Id>, UpdateError>,
    ) -> Result<Vec<[Part; 4]>, UpdateError> {
        let mut all = Vec::new();
        all.grow(quads.iter().map(|quads| quads.triples.len()).sum())?;
        for Quads { graph, triples } in quads.iter().filter(|quads| !quads.triples.is_empty()) {
            let graph = match graph {
                Some(graph) => self.part(graph, &mut id)?,
                None => Some(Part::Constant(Id::UNBOUND)),
            };
            for triple in triples {
                self.interrupt.step();
                let subject = self.part(&triple.subject, &mut id)?;
                let predicate = match &triple.verb {
                    Verb::Var(var) => self.part(&Term::Var(*var), &mut id)?,
                    Verb::Path(path) => match &**path {
                        Path::Iri(iri) => id(self.snapshot, self.shared, iri.as_ref().into())?.map(Part::Constant),
                        path => unreachable!("a template has no path {path:?}"),
                    },
                };
                let object = self.part(&triple.object, &mut id)?;
                if let (Some(subject), Some(predicate), Some(object), Some(graph)) = (subject, predicate, object, graph)
                {
                    all.push([subject, predicate, object, graph]);
                }
            }
        }
        Ok(all)
    }

    fn part(
        &mut self,
        term: &Term,
        id: &mut impl FnMut(&Snapshot, &mut Shared, TermRef<'_>) -> Result<Option<Id>, UpdateError>,
    ) -> Result<Option<Part>, UpdateError> {
        let term = match term {
            Term::Var(var) => return Ok(Some(Part::Column(self.columns[var]))),
            Term::Blank(label) => {
                let next = self.blanks.len() as u32;
                return Ok(Some(Part::Blank(*self.blanks.entry(*label).or_insert(next))));
            }
            Term::Iri(iri) => iri.as_ref().into(),
            Term::Literal(literal) => literal.as_ref().into(),
            Term::Triple(_) => {
                // With a literal as its subject it is no term.
                let Some(triple) = term.constant() else { return Ok(None) };
                return Ok(id(self.snapshot, self.shared, triple.as_ref())?.map(Part::Constant));
            }
        };
        Ok(id(self.snapshot, self.shared, term)?.map(Part::Constant))
    }
}
