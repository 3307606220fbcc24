//! JSON-LD 1.1: from a document to quads.
//!
//! Algorithms: JSON-LD 1.1 Processing Algorithms and API, W3C Recommendation 2020: expansion (§5.1), value expansion
//! (§5.3), and the conversion to RDF (§8). They are one here: a value becomes quads as soon as it is expanded, so
//! nothing expanded is kept, and an object costs its own text only. We differ: contexts elsewhere are not read,
//! repeated names in an object count each time, and an error ends the document.

mod context;
mod json;

use super::pull_parsers::Ended;
use super::statements::Statements;
use context::{Containers, Context, Definition, Processor, RelativeTo, ScopeOf, direction_of, is_keyword, short};
pub(super) use json::{Items, Part};
use json::{Json, Member, Unread};
use oxiri::Iri;
use oxrdf::vocab::{rdf, xsd};
use oxrdf::{
    BaseDirection, BlankNode, GraphName, GraphNameRef, Literal, NamedNode, NamedNodeRef, NamedOrBlankNode, QuadRef,
    Term, TermRef,
};
use std::rc::Rc;

/// Why a document is not read to its end.
pub(super) enum Fault {
    /// An error, and the byte behind it, if known.
    Wrong(String, Option<usize>),
    Stopped,
    Ended(Ended),
}

type Result<T> = std::result::Result<T, Fault>;

fn wrong<T>(what: impl Into<String>) -> Result<T> {
    Err(Fault::Wrong(what.into(), None))
}

/// Reads a part of a document. If it is a list with an error in its JSON, the items before it are still read.
pub(super) fn read(
    text: &str,
    part: Part,
    base: Option<&str>,
    statements: &mut Statements,
    stopped: &dyn Fn() -> bool,
) -> Result<()> {
    let (document, outcome) = json::read(text, part, stopped);
    if let Some(document) = &document {
        let base = base.map(|base| Rc::new(Iri::parse(base.to_owned()).expect("it was checked")));
        let contexts = Processor::new(base.clone(), statements.longest_iri, stopped);
        let rdf_12 = statements.parsed.rdf_12;
        let mut expansion = Expansion { contexts, statements, rdf_12 };
        expansion.document(&Rc::new(Context::of_base(base)), document)?;
    }
    outcome.map_err(|unread| match unread {
        Unread::Wrong(at, what) => Fault::Wrong(what, Some(at)),
        Unread::Stopped => Fault::Stopped,
    })
}

/// The result of a value: the name of a node, if it has a good one, or a literal, if it is good.
enum Item {
    Node(Option<NamedOrBlankNode>),
    Value(Option<Literal>),
    /// The first node of a list, or `rdf:nil`.
    List(NamedOrBlankNode),
}

/// The target of an expansion's items.
enum Sink<'i> {
    /// Nowhere: they stand by themselves. Whether they must be nodes.
    Nowhere {
        are_nodes: bool,
    },
    /// They are values of a property.
    Property {
        subject: &'i Option<NamedOrBlankNode>,
        predicate: &'i Option<NamedNode>,
        is_reverse: bool,
    },
    List(&'i mut Chain),
}

/// A list as far as it was read.
struct Chain {
    first: Option<NamedOrBlankNode>,
    last: Option<NamedOrBlankNode>,
    /// The value of a list term: a list object is not put into another list.
    takes_list: bool,
    whole: Option<NamedOrBlankNode>,
}

/// The graph for quads; `None` if its name is invalid, so the quads are left out.
type Graph = Option<GraphName>;

/// The place of an element.
#[derive(Clone, Copy)]
struct Place<'p> {
    property: Option<&'p str>,
    graph: &'p Graph,
    /// A value of a map of nodes: the context of types holds.
    from_map: bool,
    in_list: bool,
    /// The name of a node without one.
    id: Option<&'p str>,
    /// The types and properties given to its values by a map's key.
    more: &'p [(NamedNode, Term)],
    has_index: bool,
}

impl<'p> Place<'p> {
    fn of(property: Option<&'p str>, graph: &'p Graph) -> Place<'p> {
        Place { property, graph, from_map: false, in_list: false, id: None, more: &[], has_index: false }
    }
}

struct Expansion<'d, 'r> {
    contexts: Processor<'d, 'r>,
    statements: &'r mut Statements,
    rdf_12: bool,
}

/// The members of a node object, by kind.
struct Node<'d, 'n> {
    subject: &'n Option<NamedOrBlankNode>,
    graph: &'n Graph,
    /// The context of its `@type`.
    types: &'n Rc<Context<'d>>,
}

fn fresh() -> NamedOrBlankNode {
    BlankNode::default().into()
}

/// A node by its expanded name, if this is an absolute IRI or a blank node's.
fn node_of(name: &str) -> Option<NamedOrBlankNode> {
    match name.strip_prefix("_:") {
        Some(label) => BlankNode::new(label).ok().map(Into::into),
        None => iri_of(name).map(Into::into),
    }
}

fn iri_of(name: &str) -> Option<NamedNode> {
    Iri::parse(name).is_ok().then(|| NamedNode::new_unchecked(name))
}

fn graph_of(name: &Option<NamedOrBlankNode>) -> Graph {
    name.clone().map(GraphName::from)
}

impl<'d> Expansion<'d, '_> {
    fn document(&mut self, context: &Rc<Context<'d>>, document: &'d Json) -> Result<()> {
        let graph = Some(GraphName::DefaultGraph);
        let place = Place::of(None, &graph);
        match document {
            Json::Object(members) => {
                // An object with only a graph is this graph's content.
                let active = match members.iter().find(|(name, _)| &**name == "@context") {
                    Some((_, local)) => self.contexts.process(context, local, false, true)?,
                    None => Rc::clone(context),
                };
                let mut others = members.iter().filter(|(name, _)| &**name != "@context");
                let (first, is_single) = (others.next(), others.next().is_none());
                if let Some((_, content)) =
                    first.filter(|(name, _)| is_single && active.keyword(name) == Some("@graph"))
                {
                    let place = Place { property: Some("@graph"), ..place };
                    return self.element(&active, content, place, &mut Sink::Nowhere { are_nodes: false });
                }
                self.element(context, document, place, &mut Sink::Nowhere { are_nodes: false })
            }
            _ => self.element(context, document, place, &mut Sink::Nowhere { are_nodes: false }),
        }
    }

    fn push(
        &mut self,
        subject: &NamedOrBlankNode,
        predicate: NamedNodeRef<'_>,
        object: TermRef<'_>,
        graph: &Graph,
    ) -> Result<()> {
        let Some(graph) = graph else { return Ok(()) };
        let graph_name: GraphNameRef<'_> = graph.as_ref();
        let quad = QuadRef { subject: subject.as_ref(), predicate, object, graph_name };
        self.statements.push(quad).map_err(|error| Fault::Ended(error.into()))
    }

    /// Puts an item in its place.
    fn put(&mut self, item: Item, into: &mut Sink<'_>, place: Place<'_>) -> Result<()> {
        let graph = place.graph;
        match &item {
            Item::Node(Some(node)) => {
                for (predicate, object) in place.more {
                    self.push(node, predicate.as_ref(), object.as_ref(), graph)?;
                }
            }
            Item::Value(_) | Item::List(_) if place.has_index => {
                return wrong("a value that is no node can't have the property of an index");
            }
            _ => {}
        }
        match into {
            Sink::Nowhere { are_nodes: false } => Ok(()),
            Sink::Nowhere { are_nodes: true } => match item {
                Item::Node(_) => Ok(()),
                Item::Value(_) | Item::List(_) => wrong("the values of @included must be node objects"),
            },
            Sink::Property { subject, predicate, is_reverse } => {
                if *is_reverse && !matches!(item, Item::Node(_)) {
                    return wrong("a reverse property has values that are no nodes");
                }
                let object: Option<Term> = match item {
                    Item::Node(node) => node.map(Into::into),
                    Item::Value(value) => value.map(Into::into),
                    Item::List(list) => Some(list.into()),
                };
                let (Some(subject), Some(predicate), Some(object)) = (subject, predicate, object) else {
                    return Ok(());
                };
                match (*is_reverse, &object) {
                    (false, _) => self.push(subject, predicate.as_ref(), object.as_ref(), graph),
                    (true, Term::NamedNode(node)) => {
                        self.push(&node.clone().into(), predicate.as_ref(), subject.as_ref().into(), graph)
                    }
                    (true, Term::BlankNode(node)) => {
                        self.push(&node.clone().into(), predicate.as_ref(), subject.as_ref().into(), graph)
                    }
                    (true, _) => Ok(()),
                }
            }
            Sink::List(chain) => {
                let object: Option<Term> = match item {
                    Item::List(list) if chain.takes_list => {
                        chain.whole = Some(list);
                        return Ok(());
                    }
                    Item::Node(node) => node.map(Into::into),
                    Item::Value(value) => value.map(Into::into),
                    Item::List(list) => Some(list.into()),
                };
                let here = fresh();
                match chain.last.replace(here.clone()) {
                    Some(last) => self.push(&last, rdf::REST, here.as_ref().into(), graph)?,
                    None => chain.first = Some(here.clone()),
                }
                match object {
                    Some(object) => self.push(&here, rdf::FIRST, object.as_ref(), graph),
                    None => Ok(()),
                }
            }
        }
    }

    /// Ends a list.
    fn end(&mut self, chain: Chain, graph: &Graph) -> Result<NamedOrBlankNode> {
        if let Some(whole) = chain.whole {
            return Ok(whole);
        }
        match &chain.last {
            Some(last) => self.push(last, rdf::REST, rdf::NIL.into(), graph)?,
            None => return Ok(rdf::NIL.into_owned().into()),
        }
        Ok(chain.first.expect("a list with a last node has a first one"))
    }

    /// Expansion Algorithm, §5.1.2.
    fn element(
        &mut self,
        context: &Rc<Context<'d>>,
        element: &'d Json,
        place: Place<'_>,
        into: &mut Sink<'_>,
    ) -> Result<()> {
        self.contexts.step()?;
        match element {
            Json::Null => Ok(()),
            Json::Array(items) => {
                let in_list = place.in_list || context.containers(place.property).has(Containers::LIST);
                for item in items {
                    if in_list && matches!(item, Json::Array(_)) {
                        self.list(context, item, place, into)?;
                    } else {
                        self.element(context, item, place, into)?;
                    }
                }
                Ok(())
            }
            Json::Object(members) => self.object(context, members, place, into),
            _ => {
                let Some(property) = place.property.filter(|property| *property != "@graph") else { return Ok(()) };
                let definition = context.term(property).cloned();
                let scoped = match &definition {
                    Some(definition) => self.contexts.scoped(context, definition, ScopeOf::Property)?,
                    None => None,
                };
                let item = self.value(scoped.as_ref().unwrap_or(context), property, element)?;
                self.put(item, into, place)
            }
        }
    }

    /// A list within a list, or the value of `@list`.
    fn list(
        &mut self,
        context: &Rc<Context<'d>>,
        items: &'d Json,
        place: Place<'_>,
        into: &mut Sink<'_>,
    ) -> Result<()> {
        let mut chain = Chain { first: None, last: None, takes_list: false, whole: None };
        let inner = Place { in_list: true, ..Place::of(place.property, place.graph) };
        self.element(context, items, inner, &mut Sink::List(&mut chain))?;
        let list = self.end(chain, place.graph)?;
        self.put(Item::List(list), into, place)
    }

    /// Value Expansion, §5.3.2.
    fn value(&mut self, context: &Rc<Context<'d>>, property: &str, value: &Json) -> Result<Item> {
        let definition = context.term(property).cloned();
        let of_type = definition.as_ref().and_then(|definition| definition.value_type.as_deref());
        if let (Some(to), Json::String(text)) = (of_type.filter(|name| matches!(*name, "@id" | "@vocab")), value) {
            let name = self.contexts.iri(context, text, RelativeTo { document: true, vocabulary: to == "@vocab" })?;
            return Ok(Item::Node(name.and_then(|name| node_of(&name))));
        }
        let of_type = of_type.filter(|name| !matches!(*name, "@id" | "@vocab" | "@none"));
        let (mut language, mut direction) = (None, None);
        if of_type.is_none() && matches!(value, Json::String(_)) {
            let own = definition.as_ref().map(|definition| (definition.language.clone(), definition.direction));
            let (of_term, to) = own.unwrap_or_default();
            language = of_term.unwrap_or_else(|| context.language.clone());
            direction = to.unwrap_or(context.direction);
        }
        Ok(Item::Value(self.literal(value, of_type, language.as_deref(), direction)))
    }

    /// Object to RDF Conversion, §8.2.2, of a value object.
    fn literal(
        &self,
        value: &Json,
        of_type: Option<&str>,
        language: Option<&str>,
        direction: Option<BaseDirection>,
    ) -> Option<Literal> {
        if of_type == Some("@json") {
            let mut text = String::new();
            json::canonical(value, &mut text);
            return Some(Literal::new_typed_literal(text, rdf::JSON));
        }
        let of_type = match of_type {
            Some(name) => Some(iri_of(name)?),
            None => None,
        };
        let typed = |text: String, usual: NamedNodeRef<'_>| {
            Literal::new_typed_literal(text, of_type.clone().unwrap_or_else(|| usual.into_owned()))
        };
        Some(match value {
            Json::Boolean(value) => typed(value.to_string(), xsd::BOOLEAN),
            Json::Number(number) => {
                let is_double = of_type.as_ref().is_some_and(|of_type| of_type.as_ref() == xsd::DOUBLE);
                match integer(number).filter(|_| !is_double) {
                    Some(integer) => typed(integer, xsd::INTEGER),
                    None => typed(double(number), xsd::DOUBLE),
                }
            }
            Json::String(text) => match (of_type, language) {
                (Some(of_type), _) => Literal::new_typed_literal(&**text, of_type),
                (None, Some(language)) => match direction.filter(|_| self.rdf_12) {
                    Some(direction) => {
                        Literal::new_directional_language_tagged_literal(&**text, language, direction).ok()?
                    }
                    None => Literal::new_language_tagged_literal(&**text, language).ok()?,
                },
                (None, None) => Literal::new_simple_literal(&**text),
            },
            Json::Null | Json::Array(_) | Json::Object(_) => return None,
        })
    }

    /// The context for an object: steps 7 to 11. Also the context of its types.
    fn contexts_of(
        &mut self,
        context: &Rc<Context<'d>>,
        members: &'d [Member],
        place: Place<'_>,
    ) -> Result<(Rc<Context<'d>>, Rc<Context<'d>>)> {
        let mut active = Rc::clone(context);
        if let Some(previous) = context.previous.as_ref().filter(|_| !place.from_map) {
            let has_value = members.iter().any(|(name, _)| context.keyword(name) == Some("@value"));
            let is_id = members.len() == 1 && context.keyword(&members[0].0) == Some("@id");
            if !has_value && !is_id {
                active = Rc::clone(previous);
            }
        }
        // The property's own context comes from the context around the property.
        let definition = place.property.and_then(|property| context.term(property)).cloned();
        if let Some(definition) = definition
            && let Some(scoped) = self.contexts.scoped(&active, &definition, ScopeOf::Property)?
        {
            active = scoped;
        }
        for (_, local) in members.iter().filter(|(name, _)| &**name == "@context") {
            active = self.contexts.process(&active, local, false, true)?;
        }
        let of_types = Rc::clone(&active);
        let mut types: Vec<&str> = Vec::new();
        for (_, value) in members.iter().filter(|(name, _)| of_types.keyword(name) == Some("@type")) {
            types.extend(value.items().iter().filter_map(Json::as_str));
        }
        types.sort_unstable();
        for name in types {
            self.contexts.step()?;
            let definition: Option<Rc<Definition<'d>>> = of_types.term(name).cloned();
            if let Some(definition) = definition
                && let Some(scoped) = self.contexts.scoped(&active, &definition, ScopeOf::Type)?
            {
                active = scoped;
            }
        }
        Ok((active, of_types))
    }

    fn object(
        &mut self,
        context: &Rc<Context<'d>>,
        members: &'d [Member],
        place: Place<'_>,
        into: &mut Sink<'_>,
    ) -> Result<()> {
        let (active, of_types) = self.contexts_of(context, members, place)?;
        let keyed = |wanted: &str| {
            let mut found = members.iter().filter(|(name, _)| active.keyword(name) == Some(wanted));
            let first = found.next().map(|(_, value)| value);
            if found.next().is_some() && !matches!(wanted, "@type" | "@included") {
                return wrong(format!("an object has {wanted} twice"));
            }
            Ok(first)
        };
        let is_free = matches!(place.property, None | Some("@graph"));
        if let Some(value) = keyed("@value")? {
            let item = self.value_object(&active, &of_types, members, value)?;
            return match item {
                Some(item) if !is_free => self.put(item, into, place),
                _ => Ok(()),
            };
        }
        let (list, set) = (keyed("@list")?, keyed("@set")?);
        if let Some(items) = list.or(set) {
            let is_other = |(name, _): &&Member| {
                let is_known = |keyword| matches!(keyword, "@list" | "@set" | "@index" | "@context");
                !active.keyword(name).is_some_and(is_known)
            };
            if list.is_some() && set.is_some()
                || members.iter().any(|member| is_other(&member) && self.says(&active, &member.0))
            {
                return wrong("a list or set object has other entries than its values and @index");
            }
            self.check_index(keyed("@index")?)?;
            return match list {
                Some(_) if is_free => Ok(()),
                Some(_) => self.list(&active, items, place, into),
                None => self.element(&active, items, Place { from_map: false, ..place }, into),
            };
        }
        let is_only_language =
            members.iter().filter(|(name, _)| &**name != "@context").count() == 1 && keyed("@language")?.is_some();
        if is_only_language {
            return Ok(());
        }
        for (name, _) in members {
            match active.keyword(name) {
                Some("@language" | "@direction") => {
                    return wrong("an object with @language or @direction has no @value");
                }
                Some("@reverse" | "@graph" | "@included" | "@nest" | "@id" | "@type" | "@index" | "@context")
                | None => {}
                // The others mean nothing here.
                Some(_) => {}
            }
        }
        self.check_index(keyed("@index")?)?;
        let subject = match self.id_of(&active, members)? {
            Some(id) => id,
            None => match place.id {
                Some(name) => node_of(name),
                None => Some(fresh()),
            },
        };
        let node = Node { subject: &subject, graph: place.graph, types: &of_types };
        self.entries(&active, members, &node)?;
        self.put(Item::Node(subject.clone()), into, place)
    }

    fn check_index(&self, index: Option<&Json>) -> Result<()> {
        match index {
            None | Some(Json::String(_)) => Ok(()),
            Some(_) => wrong("the value of @index must be a string"),
        }
    }

    /// Whether a key means something.
    fn says(&mut self, active: &Context<'d>, key: &str) -> bool {
        match self.contexts.iri(active, key, RelativeTo::VOCABULARY) {
            Ok(Some(iri)) => iri.contains(':') || is_keyword(&iri),
            _ => false,
        }
    }

    /// The name given by an object or its nested objects, if there is one.
    fn id_of(&mut self, active: &Rc<Context<'d>>, members: &'d [Member]) -> Result<Option<Option<NamedOrBlankNode>>> {
        let mut found = None;
        for (name, value) in members {
            match active.keyword(name) {
                Some("@id") => {
                    let Some(text) = value.as_str() else { return wrong("the value of @id must be a string") };
                    if found.is_some() {
                        return wrong("an object has @id twice");
                    }
                    let name = self.contexts.iri(active, text, RelativeTo::DOCUMENT)?;
                    found = Some(name.and_then(|name| node_of(&name)));
                }
                Some("@nest") => {
                    for nested in value.items() {
                        if let (Json::Object(members), None) = (nested, &found) {
                            found = self.id_of(active, members)?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// A value object: steps 13.4.7 to 15; `None` if its value is null.
    fn value_object(
        &mut self,
        active: &Rc<Context<'d>>,
        of_types: &Rc<Context<'d>>,
        members: &'d [Member],
        value: &'d Json,
    ) -> Result<Option<Item>> {
        let (mut of_type, mut language, mut direction, mut has_direction) = (None, None, None, false);
        for (name, entry) in members {
            match active.keyword(name) {
                Some("@value" | "@context") => {}
                Some("@type") => {
                    let [Json::String(text)] = entry.items() else {
                        // A null type is no type.
                        if *entry == Json::Null {
                            continue;
                        }
                        return wrong("the @type of a value must be one IRI");
                    };
                    let name = self.contexts.iri(of_types, text, RelativeTo::BOTH)?;
                    let Some(name) = name.filter(|name| name == "@json" || iri_of(name).is_some()) else {
                        return wrong(format!("the @type `{}` of a value is no IRI", short(text)));
                    };
                    of_type = Some(name);
                }
                Some("@language") => match entry {
                    Json::String(text) => language = Some(&**text),
                    // The algorithm calls null an error here; JSON-LD's own framing writes it, and it can mean one
                    // thing only.
                    Json::Null => {}
                    _ => return wrong("the value of @language must be a string"),
                },
                Some("@direction") => {
                    direction = direction_of(entry)?;
                    has_direction = direction.is_some();
                }
                Some("@index") => self.check_index(Some(entry))?,
                _ if self.says(active, name) => {
                    return wrong(format!("a value object has no entry `{}`", short(name)));
                }
                _ => {}
            }
        }
        let has_language = language.is_some() || has_direction;
        if of_type.is_some() && has_language {
            return wrong("a value has a @type as well as a language or direction");
        }
        if of_type.as_deref() == Some("@json") {
            return Ok(Some(Item::Value(self.literal(value, of_type.as_deref(), None, None))));
        }
        match value {
            Json::Null => return Ok(None),
            Json::Array(_) | Json::Object(_) => {
                return wrong("the value of @value must be a string, a number, true, false or null");
            }
            Json::String(_) => {}
            Json::Number(_) | Json::Boolean(_) if has_language => {
                return wrong("a value with a language must be a string");
            }
            Json::Number(_) | Json::Boolean(_) => {}
        }
        Ok(Some(Item::Value(self.literal(value, of_type.as_deref(), language, direction))))
    }

    /// The entries of a node object and of its nested objects: steps 13 and 14.
    fn entries(&mut self, active: &Rc<Context<'d>>, members: &'d [Member], node: &Node<'d, '_>) -> Result<()> {
        for (key, value) in members {
            self.contexts.step()?;
            match active.keyword(key) {
                Some("@type") => self.types(node, value)?,
                Some("@graph") => {
                    let graph = graph_of(node.subject);
                    let place = Place::of(Some("@graph"), &graph);
                    self.element(active, value, place, &mut Sink::Nowhere { are_nodes: false })?;
                }
                Some("@included") => {
                    if value.items().iter().any(|item| !matches!(item, Json::Object(_))) {
                        return wrong("the values of @included must be node objects");
                    }
                    let place = Place::of(Some("@included"), node.graph);
                    self.element(active, value, place, &mut Sink::Nowhere { are_nodes: true })?;
                }
                Some("@reverse") => {
                    let Json::Object(members) = value else { return wrong("the value of @reverse must be an object") };
                    for (key, value) in members {
                        if active.keyword(key).is_some() {
                            return wrong("a map of reverse properties has a keyword");
                        }
                        self.property(active, key, value, node, true)?;
                    }
                }
                Some("@nest") => {
                    for nested in value.items() {
                        let Json::Object(inner) = nested else { return wrong("the value of @nest must be an object") };
                        if inner.iter().any(|(name, _)| active.keyword(name) == Some("@value")) {
                            return wrong("the value of @nest must not be a value object");
                        }
                        // The term for @nest may bring a context.
                        let definition = active.term(key).cloned();
                        let scoped = match &definition {
                            Some(definition) => self.contexts.scoped(active, definition, ScopeOf::Property)?,
                            None => None,
                        };
                        self.entries(scoped.as_ref().unwrap_or(active), inner, node)?;
                    }
                }
                Some(_) => {}
                None => self.property(active, key, value, node, false)?,
            }
        }
        Ok(())
    }

    fn types(&mut self, node: &Node<'d, '_>, value: &'d Json) -> Result<()> {
        for name in value.items() {
            self.contexts.step()?;
            let Some(name) = name.as_str() else {
                return wrong("the value of @type must be a string, or a list of strings");
            };
            let name = self.contexts.iri(node.types, name, RelativeTo::BOTH)?;
            if let (Some(subject), Some(name)) = (node.subject, name.and_then(|name| node_of(&name))) {
                self.push(subject, rdf::TYPE, name.as_ref().into(), node.graph)?;
            }
        }
        Ok(())
    }

    /// A key other than a keyword, and its value: steps 13.5 to 13.14.
    fn property(
        &mut self,
        active: &Rc<Context<'d>>,
        key: &'d str,
        value: &'d Json,
        node: &Node<'d, '_>,
        is_reversed: bool,
    ) -> Result<()> {
        let Some(name) = self.contexts.iri(active, key, RelativeTo::VOCABULARY)?.filter(|name| name.contains(':'))
        else {
            return Ok(());
        };
        // Predicates are IRIs.
        let predicate = iri_of(&name).filter(|_| !name.starts_with("_:"));
        let definition = active.term(key).cloned();
        let is_reverse = is_reversed != definition.as_ref().is_some_and(|definition| definition.is_reverse);
        let containers = definition.as_ref().map(|definition| definition.containers).unwrap_or_default();
        let mut into = Sink::Property { subject: node.subject, predicate: &predicate, is_reverse };
        let place = Place::of(Some(key), node.graph);
        let is_json = definition.as_ref().is_some_and(|definition| definition.value_type.as_deref() == Some("@json"));
        match value {
            _ if is_json => {
                let literal = self.literal(value, Some("@json"), None, None);
                self.put(Item::Value(literal), &mut into, place)
            }
            Json::Object(members) if containers.has(Containers::LANGUAGE) => {
                let direction = definition.as_ref().and_then(|definition| definition.direction);
                self.languages(active, members, direction.unwrap_or(active.direction), &mut into, place)
            }
            Json::Object(members)
                if containers.has(Containers::INDEX)
                    || containers.has(Containers::ID)
                    || containers.has(Containers::TYPE) =>
            {
                let definition = definition.expect("it has containers");
                self.map(active, members, key, &definition, node, &mut into)
            }
            Json::Null => Ok(()),
            _ if containers.has(Containers::LIST) => {
                if is_reverse {
                    return wrong("a reverse property has a list as its value");
                }
                let is_object = matches!(value, Json::Object(_));
                let mut chain = Chain { first: None, last: None, takes_list: is_object, whole: None };
                self.element(active, value, place, &mut Sink::List(&mut chain))?;
                let is_list = chain.first.is_some() || chain.whole.is_some() || !is_object;
                let is_set = |(name, _): &Member| active.keyword(name) == Some("@set");
                if !is_list && !matches!(value, Json::Object(members) if members.iter().any(is_set)) {
                    // The object came to nothing.
                    return Ok(());
                }
                let list = self.end(chain, node.graph)?;
                self.put(Item::List(list), &mut into, place)
            }
            _ if containers.has(Containers::GRAPH) => self.each_in_graph(active, value, place, &mut into),
            _ => self.element(active, value, place, &mut into),
        }
    }

    /// Values, each with the content of a graph of its own.
    fn each_in_graph(
        &mut self,
        active: &Rc<Context<'d>>,
        value: &'d Json,
        place: Place<'_>,
        into: &mut Sink<'_>,
    ) -> Result<()> {
        for item in value.items() {
            match item {
                Json::Array(_) => self.each_in_graph(active, item, place, into)?,
                Json::Null => {}
                _ => self.in_graph(active, item, place, None, into)?,
            }
        }
        Ok(())
    }

    /// One value with the content of a graph, by this name or a fresh one.
    fn in_graph(
        &mut self,
        active: &Rc<Context<'d>>,
        item: &'d Json,
        place: Place<'_>,
        name: Option<Option<NamedOrBlankNode>>,
        into: &mut Sink<'_>,
    ) -> Result<()> {
        let name = name.unwrap_or_else(|| Some(fresh()));
        let graph = graph_of(&name);
        let inner = Place { graph: &graph, more: &[], has_index: false, id: None, ..place };
        self.element(active, item, inner, &mut Sink::Nowhere { are_nodes: false })?;
        self.put(Item::Node(name), into, place)
    }

    /// A map of languages: step 13.7.
    fn languages(
        &mut self,
        active: &Rc<Context<'d>>,
        members: &'d [Member],
        direction: Option<BaseDirection>,
        into: &mut Sink<'_>,
        place: Place<'_>,
    ) -> Result<()> {
        for (language, values) in members {
            let expanded = self.contexts.iri(active, language, RelativeTo::VOCABULARY)?;
            let language = Some(&**language).filter(|_| expanded.as_deref() != Some("@none"));
            for value in values.items() {
                self.contexts.step()?;
                match value {
                    Json::Null => {}
                    Json::String(_) => {
                        let literal = self.literal(value, None, language, direction);
                        self.put(Item::Value(literal), into, place)?;
                    }
                    _ => return wrong("the values of a map of languages must be strings"),
                }
            }
        }
        Ok(())
    }

    /// A map of indexes, names or types: step 13.8.
    fn map(
        &mut self,
        active: &Rc<Context<'d>>,
        members: &'d [Member],
        key: &'d str,
        definition: &Rc<Definition<'d>>,
        node: &Node<'d, '_>,
        into: &mut Sink<'_>,
    ) -> Result<()> {
        let containers = definition.containers;
        let index_key = definition.index.unwrap_or("@index");
        for (index, values) in members {
            self.contexts.step()?;
            let is_of_nodes = containers.has(Containers::ID) || containers.has(Containers::TYPE);
            let mut context = match &active.previous {
                Some(previous) if is_of_nodes => Rc::clone(previous),
                _ => Rc::clone(active),
            };
            if containers.has(Containers::TYPE) {
                let of_type: Option<Rc<Definition<'d>>> = context.term(index).cloned();
                if let Some(of_type) = of_type
                    && let Some(scoped) = self.contexts.scoped(&context, &of_type, ScopeOf::Type)?
                {
                    context = scoped;
                }
            }
            let expanded = self.contexts.iri(active, index, RelativeTo::VOCABULARY)?;
            let is_none = expanded.as_deref() == Some("@none");
            let name = match containers.has(Containers::ID) && !is_none {
                true => self.contexts.iri(active, index, RelativeTo::DOCUMENT)?,
                false => None,
            };
            let (mut more, mut has_index) = (Vec::new(), false);
            if containers.has(Containers::TYPE) && !is_none {
                let of_type = expanded.as_deref().and_then(node_of);
                more.extend(of_type.map(|of_type| (rdf::TYPE.into_owned(), of_type.into())));
            }
            if containers.has(Containers::INDEX) && index_key != "@index" && !is_none {
                has_index = true;
                let predicate =
                    self.contexts.iri(active, index_key, RelativeTo::VOCABULARY)?.as_deref().and_then(iri_of);
                let object: Option<Term> = match self.value(active, index_key, &Json::String(index.clone()))? {
                    Item::Node(node) => node.map(Into::into),
                    Item::Value(value) => value.map(Into::into),
                    Item::List(_) => None,
                };
                more.extend(predicate.zip(object));
            }
            for value in values.items() {
                let place = Place {
                    property: Some(key),
                    graph: node.graph,
                    from_map: true,
                    in_list: false,
                    id: name.as_deref().filter(|_| !containers.has(Containers::GRAPH)),
                    more: &more,
                    has_index,
                };
                self.indexed(&context, value, place, containers, name.as_deref(), into)?;
            }
        }
        Ok(())
    }

    /// One value of such a map.
    fn indexed(
        &mut self,
        context: &Rc<Context<'d>>,
        value: &'d Json,
        place: Place<'_>,
        containers: Containers,
        name: Option<&str>,
        into: &mut Sink<'_>,
    ) -> Result<()> {
        if !containers.has(Containers::GRAPH) {
            return self.element(context, value, place, into);
        }
        if self.is_graph(context, value) {
            let place = Place { id: name, ..place };
            return self.element(context, value, place, into);
        }
        match value {
            Json::Null => Ok(()),
            _ => self.in_graph(context, value, place, name.map(node_of), into),
        }
    }

    /// Whether a value is a graph object: it has `@graph`, and else at most `@id` and `@index`.
    fn is_graph(&self, context: &Context<'d>, value: &Json) -> bool {
        let Json::Object(members) = value else { return false };
        let is_part =
            |(name, _): &Member| matches!(context.keyword(name), Some("@graph" | "@id" | "@index" | "@context"));
        members.iter().all(is_part) && members.iter().any(|(name, _)| context.keyword(name) == Some("@graph"))
    }
}

/// An integer's canonical form, if the number is one and less than 10^21.
fn integer(number: &str) -> Option<String> {
    let digits = number.strip_prefix('-').unwrap_or(number);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let is_small = digits.len() <= 21;
        return is_small.then(|| if digits == "0" { "0".to_owned() } else { number.to_owned() });
    }
    let value: f64 = number.parse().ok()?;
    (value.fract() == 0.0 && value.abs() < 1e21).then(|| (value as i128).to_string())
}

/// A double's canonical form: XML Schema Part 2, §3.2.5.2, with 15 digits behind the point at most.
fn double(number: &str) -> String {
    let value: f64 = number.parse().unwrap_or_default();
    if value.is_infinite() {
        return if value > 0.0 { "INF" } else { "-INF" }.to_owned();
    }
    let written = format!("{value:.15E}");
    let (mantissa, exponent) = written.split_once('E').expect("it is written with an exponent");
    let mantissa = mantissa.trim_end_matches('0');
    let zero = if mantissa.ends_with('.') { "0" } else { "" };
    format!("{mantissa}{zero}E{exponent}")
}
