//! Suggests the next text at a place of a query, from the text so far and from the data.
//!
//! Text being typed is seldom a valid query. So it is read as tokens, without a parser, with a rough idea of groups and
//! triples. This is enough to know whether a subject, a predicate, an object, a graph or a word comes next, and to
//! collect the other statements of the query on the same subject. The characteristic sets then name the predicates of
//! such subjects (Bast et al., "Efficient and Effective SPARQL Autocompletion on Very Large Knowledge Graphs", CIKM
//! 2022, ask the data for these with queries); the dictionary has the terms beginning with the typed text.

mod reading;

use crate::Watch;
use oxrdf::vocab::xsd;
use oxrdf::{Literal, NamedNodeRef, Term, TermRef};
use reading::{Named, Next, Reading, tokens};
use std::collections::BTreeMap;
use vicus_language::{Completion, Suggestion, SuggestionKind};
use vicus_rdf::characteristic::Attribute;
use vicus_rdf::{Id, Order, Snapshot, Statistics, TermKind, TermView};

/// Prefixes known without a declaration, and their IRIs.
pub const KNOWN_PREFIXES: &[(&str, &str)] = &[
    ("rdf", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"),
    ("rdfs", "http://www.w3.org/2000/01/rdf-schema#"),
    ("owl", "http://www.w3.org/2002/07/owl#"),
    ("xsd", "http://www.w3.org/2001/XMLSchema#"),
    ("foaf", "http://xmlns.com/foaf/0.1/"),
    ("dc", "http://purl.org/dc/elements/1.1/"),
    ("dcterms", "http://purl.org/dc/terms/"),
    ("dctype", "http://purl.org/dc/dcmitype/"),
    ("skos", "http://www.w3.org/2004/02/skos/core#"),
    ("schema", "http://schema.org/"),
    ("geo", "http://www.opengis.net/ont/geosparql#"),
    ("wgs", "http://www.w3.org/2003/01/geo/wgs84_pos#"),
    ("prov", "http://www.w3.org/ns/prov#"),
    ("void", "http://rdfs.org/ns/void#"),
    ("dcat", "http://www.w3.org/ns/dcat#"),
    ("sh", "http://www.w3.org/ns/shacl#"),
    ("sd", "http://www.w3.org/ns/sparql-service-description#"),
    ("vcard", "http://www.w3.org/2006/vcard/ns#"),
    ("org", "http://www.w3.org/ns/org#"),
    ("qb", "http://purl.org/linked-data/cube#"),
    ("bibo", "http://purl.org/ontology/bibo/"),
    ("swrc", "http://swrc.ontoware.org/ontology#"),
    ("bench", "http://localhost/vocabulary/bench/"),
    ("person", "http://localhost/persons/"),
    ("wd", "http://www.wikidata.org/entity/"),
    ("wdt", "http://www.wikidata.org/prop/direct/"),
    ("dbo", "http://dbpedia.org/ontology/"),
    ("dbr", "http://dbpedia.org/resource/"),
];

const KEYWORDS: &[&str] = &[
    "SELECT",
    "DISTINCT",
    "WHERE",
    "CONSTRUCT",
    "DESCRIBE",
    "ASK",
    "FROM",
    "FROM NAMED",
    "OPTIONAL",
    "FILTER",
    "UNION",
    "MINUS",
    "GRAPH",
    "SERVICE",
    "BIND",
    "VALUES",
    "GROUP BY",
    "HAVING",
    "ORDER BY",
    "LIMIT",
    "OFFSET",
    "EXISTS",
    "NOT EXISTS",
    "PREFIX",
    "INSERT DATA",
    "DELETE DATA",
    "INSERT",
    "DELETE",
    "LOAD",
    "CLEAR",
];

const FUNCTIONS: &[&str] = &[
    "COUNT",
    "SUM",
    "AVG",
    "MIN",
    "MAX",
    "SAMPLE",
    "GROUP_CONCAT",
    "STR",
    "LANG",
    "LANGMATCHES",
    "DATATYPE",
    "BOUND",
    "IRI",
    "BNODE",
    "RAND",
    "ABS",
    "CEIL",
    "FLOOR",
    "ROUND",
    "CONCAT",
    "STRLEN",
    "UCASE",
    "LCASE",
    "ENCODE_FOR_URI",
    "CONTAINS",
    "STRSTARTS",
    "STRENDS",
    "STRBEFORE",
    "STRAFTER",
    "YEAR",
    "MONTH",
    "DAY",
    "HOURS",
    "MINUTES",
    "SECONDS",
    "NOW",
    "UUID",
    "STRUUID",
    "MD5",
    "SHA1",
    "SHA256",
    "COALESCE",
    "IF",
    "STRLANG",
    "STRDT",
    "sameTerm",
    "isIRI",
    "isBLANK",
    "isLITERAL",
    "isNUMERIC",
    "REGEX",
    "SUBSTR",
    "REPLACE",
];

/// More are not suggested.
const MOST: usize = 60;

/// So many terms of the dictionary are looked at.
const LOOKED_AT: usize = 400;

/// Suggests texts for a byte of a text. `watch` may end the search early; then there are fewer suggestions.
///
/// ```
/// use vicus_rdf::Snapshot;
/// use vicus_sparql::complete;
/// let data = Snapshot::of_turtle(b"
///     @prefix e: <http://e/> . @prefix foaf: <http://xmlns.com/foaf/0.1/> .
///     e:ann a foaf:Person ; foaf:name 'Ann' ; foaf:mbox <mailto:ann> .
///     e:acme a foaf:Organization ; foaf:homepage <http://acme> .
/// ", None).unwrap();
/// let text = "SELECT * { ?x a foaf:Person ; foaf:m } ";
/// let at = text.find("foaf:m ").unwrap() + "foaf:m".len();
/// let found = complete(text, at, &data, &|| false);
/// assert_eq!(found.suggestions[0].text, "foaf:mbox");
/// assert_eq!(&text[found.range], "foaf:m");
/// // Persons have no homepage here.
/// let all = complete("SELECT * { ?x a foaf:Person ; ", 30, &data, &|| false);
/// assert!(all.suggestions.iter().all(|each| each.text != "foaf:homepage"));
/// ```
pub fn complete(text: &str, cursor: usize, data: &Snapshot, watch: &dyn Watch) -> Completion {
    let cursor = floor(text, cursor.min(text.len()));
    let tokens = tokens(text);
    let typed = tokens.iter().find(|token| token.range.start < cursor && cursor <= token.range.end && token.is_word());
    let range = typed.map_or(cursor..cursor, |token| token.range.clone());
    let typed_text = &text[range.start..cursor.max(range.start)];
    let read = Reading::of(&tokens, typed.map(|token| token.range.start), cursor);
    let prefixes = Prefixes { declared: read.prefixes.clone() };
    let completer = Completer { data, read: &read, prefixes: &prefixes, typed: typed_text, watch };
    let mut suggestions = completer.all();
    suggestions.truncate(MOST);
    Completion { range, suggestions }
}

/// The start of the character containing this byte.
fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// How IRIs are abbreviated.
pub(crate) struct Prefixes {
    pub(crate) declared: BTreeMap<String, String>,
}

impl Prefixes {
    /// An IRI in its shortest written form, and the prefix to declare for it.
    fn written(&self, iri: &str) -> (String, Option<(String, String)>) {
        let free = || KNOWN_PREFIXES.iter().copied().filter(|(name, _)| !self.declared.contains_key(*name));
        if let Some((written, _)) = shortest(iri, self.pairs()) {
            (written, None)
        } else if let Some((written, (name, namespace))) = shortest(iri, free()) {
            (written, Some((name.to_owned(), namespace.to_owned())))
        } else {
            (format!("<{iri}>"), None)
        }
    }

    /// An IRI in its shortest written form by the declared prefixes.
    pub(crate) fn declared_form(&self, iri: &str) -> String {
        shortest(iri, self.pairs()).map_or_else(|| format!("<{iri}>"), |(written, _)| written)
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.declared.iter().map(|(name, iri)| (name.as_str(), iri.as_str()))
    }
}

/// An IRI abbreviated by the longest of these namespaces, and the name and IRI of this prefix.
fn shortest<'p>(iri: &str, prefixes: impl Iterator<Item = (&'p str, &'p str)>) -> Option<(String, (&'p str, &'p str))> {
    let plain = |local: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        !local.is_empty() && local.chars().all(is_plain) && !local.starts_with('-')
    };
    let fits = |prefix: (&'p str, &'p str)| Some((iri.strip_prefix(prefix.1).filter(|local| plain(local))?, prefix));
    let (local, prefix) = prefixes.filter_map(fits).max_by_key(|(_, (_, namespace))| namespace.len())?;
    Some((format!("{}:{local}", prefix.0), prefix))
}

impl Prefixes {
    /// A literal in its shortest written form, and the prefix to declare for it.
    fn literal(&self, literal: &Literal) -> (String, Option<(String, String)>) {
        let (value, datatype) = (literal.value(), literal.datatype());
        if literal.language().is_some() || datatype == xsd::STRING {
            return (literal.to_string(), None);
        }
        let digits = value.strip_prefix(['+', '-']).unwrap_or(value);
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        // SPARQL's grammar, rules 146 to 148 and 134: these need no quotes.
        let is_short = if datatype == xsd::INTEGER {
            !digits.is_empty() && are_digits(digits)
        } else if datatype == xsd::DECIMAL {
            digits
                .split_once('.')
                .is_some_and(|(whole, part)| are_digits(whole) && !part.is_empty() && are_digits(part))
        } else {
            datatype == xsd::BOOLEAN && matches!(value, "true" | "false")
        };
        if is_short {
            return (value.to_owned(), None);
        }
        let (name, prefix) = self.written(datatype.as_str());
        (format!("{}^^{name}", Literal::from(value)), prefix)
    }
}

struct Completer<'a> {
    data: &'a Snapshot,
    read: &'a Reading,
    prefixes: &'a Prefixes,
    typed: &'a str,
    watch: &'a dyn Watch,
}

impl Completer<'_> {
    fn all(&self) -> Vec<Suggestion> {
        let typed = self.typed;
        if typed.starts_with(['?', '$']) {
            return self.variables();
        }
        if typed.starts_with(['"', '\'']) {
            return self.literals();
        }
        let mut all = match self.read.next {
            Next::Predicate | Next::Path => self.predicates(),
            Next::Object if self.asks_for_class() => self.classes(),
            Next::Object => self.objects(),
            Next::Graph => self.graphs(),
            Next::Subject => self.iris(),
            Next::Sign | Next::Expression | Next::Word => Vec::new(),
        };
        if matches!(self.read.next, Next::Object | Next::Subject | Next::Expression | Next::Word)
            && !typed.starts_with('<')
        {
            all.extend(self.variables());
        }
        if !typed.contains(':') && !typed.starts_with('<') {
            all.extend(self.words());
            all.extend(self.prefix_names());
        }
        all
    }

    fn statistics(&self) -> &Statistics {
        let (own, named) = (self.data.statistics(), self.data.named_statistics());
        if named.triples > 0 && (self.read.in_graph || own.triples == 0) { named } else { own }
    }

    fn asks_for_class(&self) -> bool {
        matches!(&self.read.predicate, Some(Named::Iri(iri)) if iri == oxrdf::vocab::rdf::TYPE.as_str())
    }

    fn id(&self, iri: &str) -> Option<Id> {
        self.data.id(TermRef::NamedNode(NamedNodeRef::new(iri).ok()?))
    }

    /// Whether the typed word may become this IRI.
    fn fits(&self, iri: &str) -> bool {
        let typed = self.typed;
        if let Some(begin) = typed.strip_prefix('<') {
            return iri.starts_with(begin);
        }
        if let Some((prefix, local)) = typed.split_once(':') {
            let namespace = self.prefixes.declared.get(prefix).map(String::as_str);
            let namespace =
                namespace.or_else(|| KNOWN_PREFIXES.iter().find(|(name, _)| *name == prefix).map(|(_, iri)| *iri));
            return namespace
                .and_then(|namespace| iri.strip_prefix(namespace))
                .is_some_and(|rest| contains(rest, local));
        }
        contains(iri.rsplit(['#', '/', ':']).next().unwrap_or(iri), typed)
            || contains(&self.prefixes.written(iri).0, typed)
    }

    fn iri(&self, iri: &str, kind: SuggestionKind, count: Option<usize>) -> Suggestion {
        let (text, prefix) = self.prefixes.written(iri);
        Suggestion { text, kind, detail: iri.to_owned(), count, prefix }
    }

    /// IRIs with their counts, the most frequent first, as far as they fit.
    fn counted(&self, counts: impl IntoIterator<Item = (Id, usize)>, kind: SuggestionKind) -> Vec<Suggestion> {
        let mut counts: Vec<(Id, usize)> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let suggested =
            counts.into_iter().take_while(|_| !self.watch.ends()).filter_map(|(id, count)| match self.data.term(id) {
                Term::NamedNode(iri) => self.fits(iri.as_str()).then(|| self.iri(iri.as_str(), kind, Some(count))),
                _ => None,
            });
        let mut suggested: Vec<Suggestion> = suggested.take(MOST).collect();
        // Suggestions beginning exactly as typed come first.
        suggested.sort_by_key(|each| !begins(&each.text, self.typed));
        suggested
    }

    /// The query's statements on the subject, as attributes.
    fn attributes(&self) -> Vec<Attribute> {
        let Some(subject) = &self.read.subject else { return Vec::new() };
        let said = self.read.said_of(subject).filter_map(|(predicate, class)| {
            let class = class.map(|class| self.id(class).unwrap_or(Id::UNBOUND));
            Some(Attribute { predicate: self.id(predicate)?, class: class.unwrap_or(Id::UNBOUND) })
        });
        said.collect()
    }

    /// The attributes of the subjects with all these statements, and their frequencies.
    fn of_like_subjects(&self) -> BTreeMap<Attribute, usize> {
        let wanted = self.attributes();
        let mut counts: BTreeMap<Attribute, usize> = BTreeMap::new();
        for set in self.statistics().characteristic().sets() {
            let has = |attribute: &Attribute| set.attributes.binary_search_by_key(attribute, |(each, _)| *each).is_ok();
            if wanted.iter().all(has) {
                for (attribute, triples) in &set.attributes {
                    *counts.entry(*attribute).or_default() += triples;
                }
            }
        }
        counts
    }

    /// The predicates of the terms that `step` leads to, with their frequencies among some of these terms, spread over
    /// all. Only terms with all that the query says of the subject count.
    fn of_objects(&self, step: &str, wanted: &[Attribute]) -> BTreeMap<Id, usize> {
        let Some(step) = self.id(step) else { return BTreeMap::new() };
        let rdf_type = self.id(oxrdf::vocab::rdf::TYPE.as_str());
        let (to, from) = (self.data.index(Order::Gpos), self.data.index(Order::Gspo));
        let mut counts: BTreeMap<Id, usize> = BTreeMap::new();
        for graph in self.looked_through() {
            let rows = to.range(&[graph, step]);
            let stride = rows.len().div_ceil(LOOKED_AT).max(1);
            let mut last = None;
            for row in rows.step_by(stride).take_while(|_| !self.watch.ends()) {
                let object = to.get(2, row);
                if last.replace(object) == Some(object) {
                    continue;
                }
                let has = |each: &Attribute| match (each.class.is_unbound(), rdf_type) {
                    (false, Some(rdf_type)) => from.count(&[graph, object, rdf_type, each.class]) > 0,
                    _ => from.count(&[graph, object, each.predicate]) > 0,
                };
                if wanted.iter().all(has) {
                    let groups = from.groups(from.range(&[graph, object]));
                    groups.for_each(|(predicate, rows)| *counts.entry(predicate).or_default() += rows.len());
                }
            }
        }
        counts
    }

    /// The graphs whose triples are looked at.
    fn looked_through(&self) -> Vec<Id> {
        /// More graphs say nothing new, mostly.
        const GRAPHS: usize = 20;
        match self.read.in_graph || self.data.statistics().triples == 0 {
            true => self.data.graphs().filter(|graph| !graph.is_unbound()).take(GRAPHS).collect(),
            false => vec![Id::UNBOUND],
        }
    }

    /// Predicates that go on from the terms a path or a variable has reached; none if the query does not say how.
    fn onward(&self) -> Vec<Suggestion> {
        let wanted = self.attributes();
        let steps: Vec<(&str, &[Attribute])> = match (self.read.next, &self.read.step, &self.read.subject) {
            (Next::Path, Some(Named::Iri(step)), _) => vec![(step.as_str(), &[][..])],
            (Next::Predicate, _, Some(subject)) => self.read.lead_to(subject).map(|step| (step, &wanted[..])).collect(),
            _ => Vec::new(),
        };
        let mut all = steps.into_iter().map(|(step, wanted)| self.of_objects(step, wanted));
        let Some(mut counts) = all.next() else { return Vec::new() };
        for others in all {
            counts.retain(|predicate, _| others.contains_key(predicate));
        }
        let mut found = self.counted(counts, SuggestionKind::Predicate);
        // Counts among some terms order the list; they are no counts of the data.
        found.iter_mut().for_each(|each| each.count = None);
        found
    }

    fn predicates(&self) -> Vec<Suggestion> {
        let onward = self.onward();
        if !onward.is_empty() {
            return onward;
        }
        if self.read.next == Next::Predicate {
            if let Some(Named::Iri(subject)) = &self.read.subject
                && let Some(id) = self.id(subject)
            {
                let index = self.data.index(Order::Gspo);
                let rows = index.range(&[Id::UNBOUND, id]);
                let groups = index.groups(rows).take(LOOKED_AT).map(|(predicate, rows)| (predicate, rows.len()));
                let own = self.counted(groups, SuggestionKind::Predicate);
                if !own.is_empty() {
                    return own;
                }
            }
            let like = self.of_like_subjects();
            let of_class = |attribute: &Attribute| !attribute.class.is_unbound();
            let counts = like
                .iter()
                .filter(|(attribute, _)| !of_class(attribute))
                .map(|(attribute, count)| (attribute.predicate, *count));
            let mut found = self.counted(counts, SuggestionKind::Predicate);
            if !found.is_empty() {
                if self.typed.is_empty() && like.keys().any(of_class) {
                    let detail = oxrdf::vocab::rdf::TYPE.as_str().to_owned();
                    found.insert(
                        0,
                        Suggestion {
                            text: "a".into(),
                            kind: SuggestionKind::Predicate,
                            detail,
                            count: None,
                            prefix: None,
                        },
                    );
                }
                return found;
            }
        }
        self.counted(self.statistics().predicates().map(|each| (each.id, each.triples)), SuggestionKind::Predicate)
    }

    fn classes(&self) -> Vec<Suggestion> {
        let like = self.of_like_subjects();
        let classes = like.into_iter().filter(|(attribute, _)| !attribute.class.is_unbound());
        let found = self.counted(classes.map(|(attribute, count)| (attribute.class, count)), SuggestionKind::Class);
        if found.is_empty() { self.objects() } else { found }
    }

    /// Objects of the predicate, as far as they begin as it is typed.
    fn objects(&self) -> Vec<Suggestion> {
        let predicate = match &self.read.predicate {
            Some(Named::Iri(iri)) => self.id(iri),
            _ => None,
        };
        let Some(predicate) = predicate else { return self.iris() };
        let index = self.data.index(Order::Gpos);
        let rows = index.range(&[Id::UNBOUND, predicate]);
        if self.typed.len() < 2 || !self.typed.starts_with('<') && !self.typed.contains(':') {
            // The first few show the look of its objects.
            let groups = index.groups(rows).take(LOOKED_AT).map(|(object, rows)| (object, rows.len()));
            return self.terms(groups);
        }
        let has = |id: Id| index.count(&[Id::UNBOUND, predicate, id]);
        let found = self
            .iri_ids()
            .into_iter()
            .take_while(|_| !self.watch.ends())
            .map(|id| (id, has(id)))
            .filter(|(_, count)| *count > 0);
        self.counted(found, SuggestionKind::Iri)
    }

    /// Terms with their counts, the most frequent first.
    fn terms(&self, counts: impl Iterator<Item = (Id, usize)>) -> Vec<Suggestion> {
        let mut counts: Vec<(Id, usize)> = counts.collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let term = |(id, count): (Id, usize)| match self.data.term(id) {
            Term::NamedNode(iri) => {
                self.fits(iri.as_str()).then(|| self.iri(iri.as_str(), SuggestionKind::Iri, Some(count)))
            }
            Term::Literal(literal) => {
                let (text, prefix) = self.prefixes.literal(&literal);
                let fits = text.len() <= 120 && contains(&text, self.typed);
                fits.then(|| Suggestion {
                    text,
                    kind: SuggestionKind::Literal,
                    detail: String::new(),
                    count: Some(count),
                    prefix,
                })
            }
            _ => None,
        };
        counts.into_iter().take_while(|_| !self.watch.ends()).filter_map(term).take(MOST).collect()
    }

    /// Strings beginning as typed.
    fn literals(&self) -> Vec<Suggestion> {
        let begin = self.typed.trim_start_matches(['"', '\'']);
        let object = match &self.read.predicate {
            Some(Named::Iri(iri)) if self.read.next == Next::Object => self.id(iri),
            _ => None,
        };
        let index = self.data.index(Order::Gpos);
        let count = |id: Id| object.map(|predicate| index.count(&[Id::UNBOUND, predicate, id]));
        let found =
            self.beginning(TermKind::String, begin).into_iter().take_while(|_| !self.watch.ends()).filter_map(|id| {
                let count = count(id);
                let text = self.data.view(id, |view| match view {
                    TermView::String(text) if text.len() <= 120 => {
                        Some(Term::from(oxrdf::Literal::from(text)).to_string())
                    }
                    _ => None,
                })?;
                (count != Some(0)).then(|| Suggestion {
                    text,
                    kind: SuggestionKind::Literal,
                    detail: String::new(),
                    count,
                    prefix: None,
                })
            });
        found.take(MOST).collect()
    }

    /// The ids of terms of a kind with a text beginning so, in their order, up to a limit.
    fn beginning(&self, kind: TermKind, begin: &str) -> Vec<Id> {
        let dictionary = self.data.dictionary();
        let after = format!("{begin}\u{10FFFF}");
        let range = dictionary.range(kind, begin..after.as_str());
        let (Some(first), count) = (range.start.rank(), dictionary.count(kind)) else { return Vec::new() };
        let last = range.end.rank().unwrap_or(count).min(count);
        (first..last.min(first + LOOKED_AT)).map(|rank| Id::ranked(kind, rank)).collect()
    }

    /// The ids of IRIs beginning as typed.
    fn iri_ids(&self) -> Vec<Id> {
        let begin = match (self.typed.strip_prefix('<'), self.typed.split_once(':')) {
            (Some(begin), _) => begin.to_owned(),
            (None, Some((prefix, local))) => {
                let namespace = self.prefixes.declared.get(prefix).map(String::as_str);
                let known = || KNOWN_PREFIXES.iter().find(|(name, _)| *name == prefix).map(|(_, iri)| *iri);
                match namespace.or_else(known) {
                    Some(namespace) => format!("{namespace}{local}"),
                    None => return Vec::new(),
                }
            }
            _ => return Vec::new(),
        };
        self.beginning(TermKind::Iri, &begin)
    }

    fn iris(&self) -> Vec<Suggestion> {
        let found =
            self.iri_ids().into_iter().take_while(|_| !self.watch.ends()).filter_map(|id| match self.data.term(id) {
                Term::NamedNode(iri) => Some(self.iri(iri.as_str(), SuggestionKind::Iri, None)),
                _ => None,
            });
        found.take(MOST).collect()
    }

    fn graphs(&self) -> Vec<Suggestion> {
        let index = self.data.index(Order::Gspo);
        let named = self.data.graphs().filter(|graph| !graph.is_unbound()).take(LOOKED_AT);
        let mut found = self.counted(named.map(|graph| (graph, index.count(&[graph]))), SuggestionKind::Graph);
        found.extend(self.variables());
        found
    }

    fn variables(&self) -> Vec<Suggestion> {
        let fits = |name: &&String| {
            contains(&name[1..], self.typed.trim_start_matches(['?', '$'])) && name.as_str() != self.typed
        };
        let one = |name: &String| Suggestion {
            text: name.clone(),
            kind: SuggestionKind::Variable,
            detail: String::new(),
            count: None,
            prefix: None,
        };
        self.read.variables.iter().filter(fits).map(one).collect()
    }

    /// Words of the language, at places for a word.
    fn words(&self) -> Vec<Suggestion> {
        if matches!(self.read.next, Next::Predicate | Next::Path | Next::Object | Next::Graph) {
            return Vec::new();
        }
        let wants_function = self.read.next == Next::Expression;
        let of = |words: &[&str], kind, end: &str| -> Vec<Suggestion> {
            let fits = words.iter().filter(|word| begins(word, self.typed));
            fits.map(|word| Suggestion {
                text: format!("{word}{end}"),
                kind,
                detail: String::new(),
                count: None,
                prefix: None,
            })
            .collect()
        };
        let (keywords, functions) =
            (of(KEYWORDS, SuggestionKind::Keyword, ""), of(FUNCTIONS, SuggestionKind::Function, "("));
        if wants_function {
            functions.into_iter().chain(keywords).collect()
        } else {
            keywords.into_iter().chain(functions).collect()
        }
    }

    /// Prefixes beginning as typed.
    fn prefix_names(&self) -> Vec<Suggestion> {
        if self.typed.is_empty() || matches!(self.read.next, Next::Sign) {
            return Vec::new();
        }
        let declared = self.prefixes.declared.iter().map(|(name, iri)| (name.as_str(), iri.as_str(), true));
        let known = KNOWN_PREFIXES
            .iter()
            .filter(|(name, _)| !self.prefixes.declared.contains_key(*name))
            .map(|(name, iri)| (*name, *iri, false));
        let fits = declared.chain(known).filter(|(name, ..)| begins(name, self.typed));
        fits.map(|(name, iri, is_declared)| Suggestion {
            text: format!("{name}:"),
            kind: SuggestionKind::Prefix,
            detail: iri.to_owned(),
            count: None,
            prefix: (!is_declared).then(|| (name.to_owned(), iri.to_owned())),
        })
        .collect()
    }
}

/// Without regard to case.
fn contains(text: &str, part: &str) -> bool {
    part.is_empty() || text.to_lowercase().contains(&part.to_lowercase())
}

/// Without regard to case.
fn begins(text: &str, part: &str) -> bool {
    text.to_lowercase().starts_with(&part.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &[u8] = b"
        @prefix e: <http://e/> . @prefix foaf: <http://xmlns.com/foaf/0.1/> . @prefix dc: \
        <http://purl.org/dc/elements/1.1/> .
        e:ann a foaf:Person ; foaf:name 'Ann' ; foaf:knows e:bob . e:bob a foaf:Person ; foaf:name 'Bob' .
        e:doc a foaf:Document ; dc:title 'A title' ; dc:creator e:ann .
        e:g { }
    ";

    const GRAPH: &[u8] = b"\n        e:g { }\n    ";

    /// The suggestions at the sign `^` of a text.
    fn at(text: &str) -> Vec<String> {
        let data = Snapshot::of_turtle(DATA.strip_suffix(GRAPH).unwrap(), None).unwrap();
        let cursor = text.find('^').unwrap();
        let text = text.replacen('^', "", 1);
        let found = complete(&text, cursor, &data, &|| false);
        found.suggestions.into_iter().map(|each| each.text).collect()
    }

    #[test]
    fn predicates_are_those_of_subjects_of_which_the_same_is_said() {
        let all = at("SELECT * { ?x foaf:name ?n ; ^ }");
        assert!(all.contains(&"foaf:knows".to_owned()) && !all.contains(&"dc:title".to_owned()), "{all:?}");
        let all = at("SELECT * { ?x ^ . ?x a foaf:Document }");
        let of_documents = ["a", "dc:creator", "dc:title", "rdf:type"];
        assert_eq!(all, of_documents, "what comes later counts, too");
        // A subject of the data has its own.
        assert_eq!(at("PREFIX e: <http://e/> SELECT * { e:bob ^")[..2].to_vec(), ["rdf:type", "foaf:name"]);
    }

    #[test]
    fn classes_variables_and_terms() {
        assert_eq!(at("SELECT * { ?x a ^")[..2].to_vec(), ["foaf:Person", "foaf:Document"]);
        assert_eq!(at("SELECT * { ?x dc:title ?t ; a ^")[0], "foaf:Document");
        assert_eq!(at("SELECT ?^ { ?person a ?class }"), ["?person", "?class"]);
        assert_eq!(at("SELECT * { ?x foaf:name \"B^ }"), ["\"Bob\""]);
        assert_eq!(at("PREFIX e: <http://e/> SELECT * { ?x foaf:knows e:b^ }"), ["e:bob"]);
        assert_eq!(at("SELECT * { <http://e/a^ }"), ["<http://e/ann>"]);
        assert_eq!(
            at("SELECT * { ?x foaf:name ?n FILTER(STRL^"),
            ["STRLEN(", "STRLANG("].map(str::to_owned)[..].to_vec()
        );
        assert!(at("SEL^").contains(&"SELECT".to_owned()));
    }

    /// An object has the predicates of those that its own predicate leads to, and so has the next step of a path.
    #[test]
    fn predicates_of_objects_are_those_of_what_leads_to_them() {
        // Documents have creators, which are persons: with a name, without a title.
        for text in [
            "SELECT * { ?d dc:creator ?p . ?p ^ }",
            "SELECT * { ?d dc:creator/^ }",
            "SELECT * { ?d a/dc:title|dc:creator/^ }",
            "SELECT * { ?d dc:creator+/^ }",
            "SELECT * { ?d foaf:maker/dc:creator ?p . ?p ^ }",
            "SELECT * { ?p ^ . ?d dc:creator ?p . ?q foaf:knows ?p }",
        ] {
            let all = at(text);
            let known = ["foaf:name", "foaf:knows", "rdf:type"];
            let are_of_persons = all.iter().all(|each| known.contains(&each.as_str()));
            assert!(are_of_persons && all.contains(&"foaf:name".to_owned()), "{text}: {all:?}");
        }
        // After a step that may be left out, or one backwards, all are offered.
        assert!(at("SELECT * { ?d dc:creator*/^ }").contains(&"dc:title".to_owned()));
        let (text, data) = ("SELECT * { ?p ^dc:creator/", Snapshot::of_turtle(DATA.strip_suffix(GRAPH).unwrap(), None));
        let found = complete(text, text.len(), &data.unwrap(), &|| false);
        assert!(found.suggestions.iter().any(|each| each.text == "dc:title"), "{found:?}");
    }

    #[test]
    fn literals_are_written_as_one_would() {
        let data = b"@prefix e: <http://e/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
            e:a e:p 7, -7, 1.5, 1e0, true, '01'^^xsd:boolean, 'x'@en, '2001'^^xsd:gYear .
            e:a e:p 'x'^^e:t, 'abc'^^xsd:integer .";
        let data = Snapshot::of_turtle(data, None).unwrap();
        let text = "PREFIX e: <http://e/> SELECT * { ?x e:p ";
        let found = complete(text, text.len(), &data, &|| false);
        let all: Vec<_> = found.suggestions.iter().filter(|each| each.kind == SuggestionKind::Literal).collect();
        let texts: Vec<&str> = all.iter().map(|each| each.text.as_str()).collect();
        for wanted in ["7", "-7", "1.5", "true", "\"2001\"^^xsd:gYear", "\"x\"^^e:t", "\"x\"@en"] {
            assert!(texts.contains(&wanted), "{wanted}: {texts:?}");
        }
        // What is no integer's form keeps its quotes, and all are what the data has.
        assert!(texts.contains(&"\"abc\"^^xsd:integer"), "{texts:?}");
        let prefix = all.iter().find(|each| each.text.ends_with("gYear")).unwrap().prefix.clone().unwrap();
        assert_eq!(prefix, ("xsd".to_owned(), "http://www.w3.org/2001/XMLSchema#".to_owned()));
    }

    /// Reads any text, at any place.
    #[test]
    fn any_text_is_read() {
        let data = Snapshot::of_ntriples(b"<http://e/a> <http://e/p> \"x\" .").unwrap();
        let texts = [
            "SELECT * { ?x <http://e/p \"a\\\" ; [ a <",
            "}}}]]))((;;..,,",
            "\u{1F3E0}?\u{1F3E0}:\u{1F3E0}<\u{1F3E0}",
            "# only",
            "PREFIX : <",
            "'''a\n'",
        ];
        for text in texts {
            for cursor in 0..=text.len() + 1 {
                let found = complete(text, cursor, &data, &|| false);
                assert!(text.get(found.range).is_some(), "{text}, {cursor}");
            }
        }
    }
}
