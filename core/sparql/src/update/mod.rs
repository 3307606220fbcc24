//! SPARQL 1.1 Update: from a text to operations, and from an operation to its changes.
//!
//! ```text
//!  text ── parse_update ──▶ Update: operations, checked as a whole before any of them happens
//!                             │ one after the other
//!                             ▼
//!             UpdateOperation ── step ──▶ Changes at once, or what the caller has to find first:
//!                             │             the solutions of a pattern, or a document
//!                             ▼
//!                   Filling ── finish ──▶ Changes against the snapshot that it was begun with
//! ```
//!
//! Nothing here changes data. The caller applies the result of an operation, and begins the next one with the changed
//! snapshot, so a pattern sees the effect of the operations before it. Graphs without quads don't exist (SPARQL 1.1
//! Update, §3.2: such a store is allowed).

mod changes;
mod filling;

pub use changes::UpdateChange;
pub use filling::{Filled, Filling};
pub use vicus_rdf::Graphs;

use crate::error::QueryError;
use crate::parse::ParsedQuery;
use crate::syntax::ast::{self, Path, Quads, Term, Transfer, Verb};
use crate::syntax::{self, ParseOptions};
use crate::terms::Moment;
use oxrdf::{GraphNameRef, NamedNode, NamedNodeRef, NamedOrBlankNodeRef, QuadRef, TermRef};
use std::fmt;
use std::sync::Arc;
use vicus_flow::NoMemory;
use vicus_language::stack::{Deep, LEVEL, of_levels};
use vicus_rdf::{Encoder, Id, Interrupt, Order, Snapshot, TermLimits, TermRefused};

/// An update with a valid text, supported by this engine.
#[derive(Debug)]
pub struct Update {
    operations: Vec<UpdateOperation>,
}

impl Update {
    /// Has the patterns of all operations read these graphs, as USING and USING NAMED do (SPARQL 1.1 Protocol, §2.2.3).
    ///
    /// ```
    /// # use oxrdf::NamedNode;
    /// use vicus_sparql::parse_update;
    /// let graphs = || (vec![NamedNode::new("http://e/g").unwrap()], Vec::new());
    /// let (default, named) = graphs();
    /// assert!(parse_update("DELETE WHERE { ?s ?p ?o }")?.set_dataset(&default, &named).is_ok());
    /// let mut other = parse_update("WITH <http://e/h> DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }")?;
    /// assert!(other.set_dataset(&default, &named).is_err());
    /// # Ok::<(), vicus_sparql::QueryError>(())
    /// ```
    ///
    /// # Errors
    /// An operation has a USING, USING NAMED or WITH of its own.
    pub fn set_dataset(&mut self, default: &[NamedNode], named: &[NamedNode]) -> Result<(), UpdateError> {
        let modified = self.operations.iter_mut().filter_map(|operation| match &mut operation.kind {
            Kind::Modify(modify) => modify.pattern.as_mut(),
            _ => None,
        });
        for pattern in modified {
            if pattern.query.dataset.is_some() {
                return Err(UpdateError::HasGraphs);
            }
            pattern.set_dataset(default.to_vec(), named.to_vec());
        }
        Ok(())
    }
}

/// One operation of an update.
pub struct UpdateOperation {
    kind: Kind,
    longest: TermLimits,
}

enum Kind {
    Load { silent: bool, from: NamedNode, into: Option<NamedNode> },
    Clear(ast::Graphs),
    Create { silent: bool, graph: NamedNode },
    Transfer { how: Transfer, silent: bool, from: Option<NamedNode>, to: Option<NamedNode> },
    Modify(Box<Modify>),
}

/// Quads to remove and to add, for each solution of the pattern, if there is one.
struct Modify {
    delete: Vec<Quads>,
    insert: Vec<Quads>,
    pattern: Option<ParsedQuery>,
}

/// The work of an operation.
#[derive(Debug)]
pub enum UpdateStep<'a> {
    /// These changes.
    Change(Vec<UpdateChange>),
    /// Each solution of this query is [filled in](Filling::fill).
    Solve(&'a ParsedQuery, Filling),
    /// This document is read, and [taken over](Filling::document).
    Load(DocumentLoad<'a>, Filling),
}

/// A document to load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DocumentLoad<'a> {
    /// Its location.
    pub from: &'a str,
    /// The name of the graph for its triples; `None` for the default graph.
    pub into: Option<&'a NamedNode>,
    /// Whether a missing or unreadable document is no error; then nothing is loaded.
    pub silent: bool,
}

/// Why an operation can't be carried out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum UpdateError {
    /// CREATE: there is such a graph.
    GraphExists(NamedNode),
    /// ADD, COPY or MOVE: there is no such graph.
    NoGraph(NamedNode),
    /// LOAD INTO: the document has named graphs, and is to become one graph.
    DocumentHasGraphs,
    /// Graphs to read are named beside the text, and an operation has a USING or WITH of its own.
    HasGraphs,
    /// A term may not be inserted.
    Term(TermRefused),
    /// There is not enough memory.
    NoMemory(NoMemory),
    /// The data can't be read: it is damaged.
    Unreadable(Arc<dyn std::error::Error + Send + Sync>),
}

impl fmt::Display for UpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpdateError::GraphExists(graph) => write!(f, "the graph {graph} is there already"),
            UpdateError::NoGraph(graph) => write!(f, "there is no graph {graph}"),
            UpdateError::DocumentHasGraphs => {
                f.write_str("the document has named graphs, and is to become one graph: LOAD it without INTO")
            }
            UpdateError::HasGraphs => f.write_str(
                "an operation has a USING or a WITH of its own, so the graphs can't be named beside the text",
            ),
            UpdateError::Term(error) => error.fmt(f),
            UpdateError::NoMemory(error) => error.fmt(f),
            UpdateError::Unreadable(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for UpdateError {}

impl UpdateError {
    /// The outcome of a function that reads data, or its reason to give up.
    pub(crate) fn or_given_up<R, E: Into<UpdateError>>(
        function: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, UpdateError> {
        let outcome = vicus_flow::or_given_up(function).map_err(|error| match error.downcast() {
            Ok(no_memory) => UpdateError::NoMemory(*no_memory),
            Err(error) => UpdateError::Unreadable(error.into()),
        })?;
        outcome.map_err(Into::into)
    }
}

impl From<TermRefused> for UpdateError {
    fn from(error: TermRefused) -> UpdateError {
        UpdateError::Term(error)
    }
}

impl From<NoMemory> for UpdateError {
    fn from(error: NoMemory) -> UpdateError {
        UpdateError::NoMemory(error)
    }
}

/// Reads an update.
///
/// ```
/// use vicus_sparql::parse_update;
/// let update = parse_update("INSERT DATA { <http://e/a> <http://e/p> 1 } ; CLEAR ALL")?;
/// assert_eq!(update.operations().len(), 2);
/// let error = parse_update("CLEAR ALL ; CLEAR ALL ; INSERT DATA { ?x <http://e/p> 1 }").err().unwrap();
/// assert_eq!(error.to_string(), "line 1, column 39: a variable can't stand in INSERT DATA");
/// # Ok::<(), vicus_sparql::QueryError>(())
/// ```
///
/// # Errors
/// The text breaks the grammar, or asks for something not supported yet. All operations are checked.
pub fn parse_update(text: &str) -> Result<Update, QueryError> {
    parse_update_with(text, &ParseOptions::default())
}

/// Like [`parse_update`], with a base and limits. Takes time and memory in proportion to the text's length.
///
/// # Errors
/// Errors of [`parse_update`]; also if the base is not an absolute IRI, or the text exceeds a limit.
pub fn parse_update_with(text: &str, options: &ParseOptions<'_>) -> Result<Update, QueryError> {
    // An error drops the parsed part of the text here, with enough stack.
    let levels = options.depth.min(ParseOptions::MOST_DEPTH).min(text.len());
    of_levels(levels, LEVEL, || {
        let ast::Update { operations, depth } = syntax::read_update(text, options)?;
        let longest = TermLimits { rdf_12: options.rdf_12, ..options.longest };
        Ok(Update {
            operations: operations
                .into_iter()
                .map(|operation| UpdateOperation::of(operation, depth, longest))
                .collect(),
        })
    })
}

impl Update {
    /// Its operations, in the order of their execution.
    pub fn operations(&self) -> &[UpdateOperation] {
        &self.operations
    }

    /// The bytes that it takes after its text was read, which needs more of them: known if all of its operations are
    /// INSERT DATA and DELETE DATA without triple terms. Takes time in proportion to its triples.
    pub fn heap_bytes(&self) -> Option<u64> {
        /// A block's header and rounding.
        const BLOCK: usize = 16;
        let text = |term: &Term| match term {
            Term::Iri(iri) => Some(iri.as_str().len() + BLOCK),
            Term::Literal(literal) => {
                let beside = literal.language().unwrap_or_else(|| literal.datatype().as_str());
                Some(literal.value().len() + beside.len() + 2 * BLOCK)
            }
            Term::Var(_) | Term::Blank(_) => Some(0),
            Term::Triple(_) => None,
        };
        let mut bytes = self.operations.capacity() * size_of::<UpdateOperation>();
        for operation in &self.operations {
            let Kind::Modify(modify) = &operation.kind else { return None };
            let Modify { delete, insert, pattern: None } = &**modify else { return None };
            bytes += size_of::<Modify>();
            for Quads { graph, triples } in delete.iter().chain(insert) {
                bytes += size_of::<Quads>() + graph.as_ref().map_or(Some(0), text)?;
                bytes += triples.capacity() * size_of::<ast::Triple>();
                let mut before: Option<&ast::Triple> = None;
                for triple in triples {
                    bytes += text(&triple.object)?;
                    if before.is_none_or(|before| !Arc::ptr_eq(&before.subject, &triple.subject)) {
                        bytes += size_of::<Term>() + 2 * BLOCK + text(&triple.subject)?;
                    }
                    let shares = |before: &ast::Triple| match (&before.verb, &triple.verb) {
                        (Verb::Path(before), Verb::Path(path)) => Arc::ptr_eq(before, path),
                        _ => false,
                    };
                    if let Verb::Path(path) = &triple.verb
                        && !before.is_some_and(shares)
                    {
                        let Path::Iri(iri) = &**path else { return None };
                        bytes += size_of::<Path>() + 3 * BLOCK + iri.as_str().len();
                    }
                    before = Some(triple);
                }
            }
        }
        Some(bytes as u64)
    }

    /// If the update looks at no data, its effect, in order: quads to be present from then on (true), and quads to be
    /// absent. This holds if all of its operations are INSERT DATA and DELETE DATA without blank nodes, as a blank node
    /// must differ from all present ones, and without a term that is too long.
    ///
    /// ```
    /// use vicus_sparql::parse_update;
    /// let text = "INSERT DATA { <http://e/a> <http://e/p> 1, 2 } ; DELETE DATA { <http://e/a> <http://e/p> 1 }";
    /// let update = parse_update(text)?;
    /// let quads = update.data().unwrap();
    /// let data: Vec<String> = quads.iter().map(|(quad, there)| format!("{} {there}", quad.object)).collect();
    /// let [one, two] = ["1", "2"].map(|value| format!("\"{value}\"^^<http://www.w3.org/2001/XMLSchema#integer>"));
    /// assert_eq!(data, [format!("{one} true"), format!("{two} true"), format!("{one} false")]);
    /// assert!(parse_update("INSERT DATA { [] <http://e/p> 1 }")?.data().is_none());
    /// assert!(parse_update("INSERT DATA { <http://e/a> <http://e/p> 1 } ; CLEAR ALL")?.data().is_none());
    /// # Ok::<(), vicus_sparql::QueryError>(())
    /// ```
    pub fn data(&self) -> Option<Vec<(QuadRef<'_>, bool)>> {
        let (mut data, mut encoder) = (Vec::new(), Encoder::default());
        for operation in &self.operations {
            let Kind::Modify(modify) = &operation.kind else { return None };
            let Modify { delete, insert, pattern: None } = &**modify else { return None };
            for (quads, there) in [(delete, false), (insert, true)] {
                for Quads { graph, triples } in quads {
                    let graph = match graph {
                        None => None,
                        Some(graph) => Some(node_of(graph)?),
                    };
                    for triple in triples {
                        let Verb::Path(path) = &triple.verb else { return None };
                        let Path::Iri(predicate) = &**path else { return None };
                        let predicate = predicate.as_ref();
                        let object: TermRef<'_> = match &triple.object {
                            Term::Literal(literal) => literal.as_ref().into(),
                            object => node_of(object)?.into(),
                        };
                        let subject: NamedOrBlankNodeRef<'_> = node_of(&triple.subject)?.into();
                        let graph_term = graph.map(TermRef::from);
                        let terms = [Some(subject.into()), Some(predicate.into()), Some(object), graph_term];
                        if there {
                            let mut terms = terms.into_iter().flatten();
                            terms.try_for_each(|term| operation.longest.check(encoder.term(term))).ok()?;
                        }
                        data.push((
                            QuadRef {
                                subject,
                                predicate,
                                object,
                                graph_name: graph.map_or(GraphNameRef::DefaultGraph, Into::into),
                            },
                            there,
                        ));
                    }
                }
            }
        }
        Some(data)
    }
}

/// The IRI of a term.
fn node_of(term: &Term) -> Option<NamedNodeRef<'_>> {
    match term {
        Term::Iri(iri) => Some(iri.as_ref()),
        Term::Literal(_) | Term::Var(_) | Term::Blank(_) | Term::Triple(_) => None,
    }
}

impl fmt::Debug for UpdateOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl UpdateOperation {
    fn of(operation: ast::Operation, levels: usize, longest: TermLimits) -> UpdateOperation {
        let kind = match operation {
            ast::Operation::Load { silent, from, into } => Kind::Load { silent, from, into },
            ast::Operation::Clear(graphs) => Kind::Clear(graphs),
            ast::Operation::Create { silent, graph } => Kind::Create { silent, graph },
            ast::Operation::Transfer { how, silent, from, to } => Kind::Transfer { how, silent, from, to },
            ast::Operation::Insert(insert) => {
                Kind::Modify(Box::new(Modify { delete: Vec::new(), insert, pattern: None }))
            }
            ast::Operation::Delete(delete) => {
                Kind::Modify(Box::new(Modify { delete, insert: Vec::new(), pattern: None }))
            }
            ast::Operation::Modify(modify) => {
                let ast::Modify { delete, insert, query } = *modify;
                let pattern = Some(ParsedQuery { query: Deep::new(levels, query) });
                Kind::Modify(Box::new(Modify { delete, insert, pattern }))
            }
        };
        UpdateOperation { kind, longest }
    }

    /// Its name, for messages.
    pub fn name(&self) -> &'static str {
        match &self.kind {
            Kind::Load { .. } => "LOAD",
            Kind::Clear(_) => "CLEAR",
            Kind::Create { .. } => "CREATE",
            Kind::Transfer { how: Transfer::Add, .. } => "ADD",
            Kind::Transfer { how: Transfer::Copy, .. } => "COPY",
            Kind::Transfer { how: Transfer::Move, .. } => "MOVE",
            Kind::Modify(modify) => match &**modify {
                Modify { pattern: Some(_), .. } => "DELETE/INSERT",
                Modify { insert, .. } if insert.is_empty() => "DELETE DATA",
                Modify { .. } => "INSERT DATA",
            },
        }
    }

    /// The work of this operation, with the data as it is now. The moment's seed names its new blank nodes.
    ///
    /// # Errors
    /// The named graph does or does not exist, or the caller ends it.
    pub fn step(
        &self,
        snapshot: &Arc<Snapshot>,
        moment: Moment,
        interrupt: &Interrupt<'_>,
    ) -> Result<UpdateStep<'_>, UpdateError> {
        UpdateError::or_given_up(|| self.step_of(snapshot, moment, interrupt))
    }

    fn step_of(
        &self,
        snapshot: &Arc<Snapshot>,
        moment: Moment,
        interrupt: &Interrupt<'_>,
    ) -> Result<UpdateStep<'_>, UpdateError> {
        let graph_id = |graph: &NamedNode| snapshot.id(graph.as_ref().into());
        Ok(UpdateStep::Change(match &self.kind {
            Kind::Load { silent, from, into } => {
                let load = DocumentLoad { from: from.as_str(), into: into.as_ref(), silent: *silent };
                return Ok(UpdateStep::Load(
                    load,
                    Filling::new(snapshot, &[], &[], None, moment, self.longest, interrupt)?,
                ));
            }
            Kind::Clear(ast::Graphs::All) => vec![UpdateChange::Clear(Graphs::All)],
            Kind::Clear(ast::Graphs::Named) => vec![UpdateChange::Clear(Graphs::Named)],
            Kind::Clear(ast::Graphs::Default) => vec![UpdateChange::Clear(Graphs::One(Id::UNBOUND))],
            // No graph has an unknown name.
            Kind::Clear(ast::Graphs::One(graph)) => {
                graph_id(graph).map(|id| UpdateChange::Clear(Graphs::One(id))).into_iter().collect()
            }
            Kind::Create { silent, graph } => {
                let exists = graph_id(graph).is_some_and(|id| has_graph(snapshot, id));
                if exists && !silent {
                    return Err(UpdateError::GraphExists(graph.clone()));
                }
                Vec::new()
            }
            Kind::Transfer { how, silent, from, to } => {
                transfer(snapshot, *how, *silent, from.as_ref(), to.as_ref(), self.longest)?
            }
            Kind::Modify(modify) => {
                let Modify { delete, insert, pattern } = &**modify;
                let filling =
                    Filling::new(snapshot, delete, insert, pattern.as_ref(), moment, self.longest, interrupt)?;
                match pattern {
                    Some(pattern) => return Ok(UpdateStep::Solve(pattern, filling)),
                    None => vec![UpdateChange::Quads(filling.data(interrupt)?)],
                }
            }
        }))
    }
}

/// ADD, COPY and MOVE. The target may be new, so the snapshot may lack its name.
fn transfer(
    snapshot: &Arc<Snapshot>,
    how: Transfer,
    silent: bool,
    from: Option<&NamedNode>,
    to: Option<&NamedNode>,
    longest: TermLimits,
) -> Result<Vec<UpdateChange>, UpdateError> {
    let source = match from {
        None => Some(Id::UNBOUND),
        Some(graph) => snapshot.id(graph.as_ref().into()).filter(|id| has_graph(snapshot, *id)),
    };
    let Some(source) = source else {
        // A missing source leaves the target unchanged.
        return if silent { Ok(Vec::new()) } else { Err(UpdateError::NoGraph(from.expect("it has a name").clone())) };
    };
    if from == to {
        return Ok(Vec::new());
    }
    let filling = Filling::new(snapshot, &[], &[], None, Moment::default(), longest, &Interrupt::never())?;
    let target = filling.graph(to)?;
    let copy = UpdateChange::Copy { from: source, to: target, fresh: filling.finish([]).fresh };
    Ok(match how {
        Transfer::Add => vec![copy],
        Transfer::Copy => vec![UpdateChange::Clear(Graphs::One(target)), copy],
        Transfer::Move => {
            vec![UpdateChange::Clear(Graphs::One(target)), copy, UpdateChange::Clear(Graphs::One(source))]
        }
    })
}

/// Whether a graph has quads. The default graph is always there.
fn has_graph(snapshot: &Snapshot, graph: Id) -> bool {
    graph.is_unbound() || snapshot.index(Order::Gspo).count(&[graph]) > 0
}
