//! The statements found in one file by another library's parser, with random names for nameless blank nodes.

use super::{LONGEST_IRI, OnError, ParsedPart, SyntaxError, text_bytes};
use crate::term::{push_blank, push_nameless};
use hashbrown::HashMap;
use oxrdf::{BlankNodeRef, GraphNameRef, NamedOrBlankNodeRef, QuadRef, TermRef, Triple};
use vicus_flow::NoMemory;
use vicus_flow::library::HashKey;

/// oxrdf names nameless blank nodes by 128 random bits; a shorter hexadecimal label is from the file.
const LEAST_RANDOM: u128 = 1 << 64;

const FEWER: &str = "fewer than 2^32 nameless blank nodes in a file";

/// The random name of a blank node, if it has one.
fn random_name(node: BlankNodeRef<'_>) -> Option<u128> {
    node.unique_id().filter(|&id| id >= LEAST_RANDOM)
}

/// Called whenever the new terms have this number of further bytes of text.
pub(super) type Grown = Box<dyn FnMut(&mut ParsedPart) -> Result<(), NoMemory> + Send>;

const GROWN_BYTES: usize = 4 << 20;

/// The statements found so far.
pub(super) struct Statements {
    pub(super) file: u32,
    pub(super) on_error: OnError,
    pub(super) parsed: ParsedPart,
    /// The longest accepted IRI, written out.
    pub(super) longest_iri: usize,
    /// Called after many statements, to book memory for the parsed data, or to spill it.
    grown: Option<Grown>,
    /// Bytes of text of the terms since the last call.
    since: usize,
    /// The numbers of nameless blank nodes, by their random names. Those names must not become visible, as results must
    /// not depend on randomness.
    nameless: HashMap<u128, u32, HashKey>,
}

/// Whether an IRI of a quad has more bytes than this.
pub(super) fn has_longer_iri(quad: QuadRef<'_>, most: usize) -> bool {
    let is_long = |term: TermRef<'_>| match term {
        TermRef::NamedNode(node) => node.as_str().len() > most,
        TermRef::Literal(literal) => literal.datatype().as_str().len() > most,
        TermRef::BlankNode(_) => false,
        TermRef::Triple(triple) => has_longer_iri(triple.as_ref().in_graph(GraphNameRef::DefaultGraph), most),
    };
    let graph = matches!(quad.graph_name, GraphNameRef::NamedNode(node) if node.as_str().len() > most);
    graph || is_long(quad.subject.into()) || is_long(quad.predicate.into()) || is_long(quad.object)
}

impl Statements {
    pub(super) fn new(file: u32, on_error: OnError) -> Statements {
        Statements {
            file,
            on_error,
            parsed: ParsedPart::default(),
            longest_iri: LONGEST_IRI,
            grown: None,
            since: 0,
            nameless: HashMap::default(),
        }
    }

    /// With another key for its hashes; see [`ParsedPart::of_seed`].
    pub(super) fn of_seed(self, seed: u64) -> Statements {
        let parsed = ParsedPart::of_seed(seed).with_rdf_12(self.parsed.rdf_12);
        Statements { parsed, nameless: HashMap::with_hasher(HashKey::of_seed(seed)), ..self }
    }

    pub(super) fn tell(&mut self, grown: Grown) {
        self.grown = Some(grown);
    }

    /// Sets the bytes of the text being read.
    pub(super) fn set_beside(&mut self, bytes: u64) -> Result<(), NoMemory> {
        self.parsed.beside = bytes;
        match &mut self.grown {
            Some(grown) => grown(&mut self.parsed),
            None => Ok(()),
        }
    }

    /// Whether an IRI of a quad is too long.
    pub(super) fn has_long(&self, quad: QuadRef<'_>) -> bool {
        has_longer_iri(quad, self.longest_iri)
    }

    /// Adds a quad.
    pub(super) fn push(&mut self, quad: QuadRef<'_>) -> Result<(), NoMemory> {
        let bytes = text_bytes(quad);
        self.parsed.make_room(bytes)?;
        self.since += bytes;
        if self.since > GROWN_BYTES
            && let Some(grown) = &mut self.grown
        {
            self.since = 0;
            grown(&mut self.parsed)?;
            self.parsed.make_room(bytes)?;
        }
        if self.nameless.capacity() - self.nameless.len() < 3 {
            let bytes = 2 * self.nameless.len() * size_of::<(u128, u32)>();
            vicus_flow::refusable(|| self.nameless.try_reserve(3)).map_err(|_| NoMemory { bytes: bytes as u64 })?;
        }
        let subject = match quad.subject {
            NamedOrBlankNodeRef::NamedNode(node) => self.parsed.intern(node.into(), self.file),
            NamedOrBlankNodeRef::BlankNode(node) => self.blank(node),
        };
        let predicate = self.parsed.intern(quad.predicate.into(), self.file);
        let object = match quad.object {
            TermRef::BlankNode(node) => self.blank(node),
            TermRef::Triple(triple) => self.triple(triple)?,
            term => self.parsed.intern(term, self.file),
        };
        let graph = match quad.graph_name {
            GraphNameRef::DefaultGraph => None,
            GraphNameRef::NamedNode(node) => Some(self.parsed.intern(node.into(), self.file)),
            GraphNameRef::BlankNode(node) => Some(self.blank(node)),
        };
        self.parsed.add([subject, predicate, object], graph)
    }

    fn triple(&mut self, triple: &Triple) -> Result<u32, NoMemory> {
        let Statements { file, nameless, parsed, .. } = self;
        let mut refused = false;
        let encoded = parsed.encoder.triple_with(triple, &mut |node, into| match random_name(node) {
            Some(id) => {
                let next = u32::try_from(nameless.len()).expect(FEWER);
                let number = match nameless.get(&id) {
                    Some(number) => *number,
                    None => {
                        refused |= vicus_flow::refusable(|| nameless.try_reserve(1)).is_err();
                        if !refused {
                            nameless.insert(id, next);
                        }
                        next
                    }
                };
                push_nameless(*file, number, into);
            }
            None => push_blank(*file, node.as_str(), into),
        });
        if refused {
            return Err(NoMemory { bytes: (2 * nameless.len() * size_of::<(u128, u32)>()) as u64 });
        }
        Ok(parsed.terms.intern(encoded))
    }

    /// Counts an error, or fails with it.
    pub(super) fn refuse(&mut self, error: SyntaxError, on_error: OnError) -> Result<(), SyntaxError> {
        self.parsed.refuse(error, on_error)
    }

    fn blank(&mut self, node: BlankNodeRef<'_>) -> u32 {
        match random_name(node) {
            Some(id) => {
                let next = u32::try_from(self.nameless.len()).expect(FEWER);
                let number = *self.nameless.entry(id).or_insert(next);
                self.parsed.terms.intern(self.parsed.encoder.nameless(self.file, number))
            }
            None => self.parsed.intern(node.into(), self.file),
        }
    }
}
