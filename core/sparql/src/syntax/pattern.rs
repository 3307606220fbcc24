//! Groups, triples and paths: SPARQL 1.1, §19.8, rules 53 to 106.

use super::ast::{
    Element, Endpoint, Expression, GraphName, Group, InGraph, Path, Service, Term, Triple, TripleTerm, Values, Var,
    Verb,
};
use super::names::Scope;
use super::parser::{Aggregates, Parser};
use super::token::Kind;
use super::{Result, Wrong};
use crate::expression::Function;
use oxrdf::NamedNode;
use oxrdf::vocab::rdf;
use std::sync::Arc;
use vicus_rdf::{MOST_NESTED, levels_of};

/// The place of a triple.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    /// In a pattern; paths are allowed.
    Pattern,
    /// In a template of CONSTRUCT or of an update.
    Template(Template),
}

/// The terms allowed in a template.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Template {
    pub(super) variables: bool,
    pub(super) blanks: bool,
    /// The template's name in errors.
    pub(super) name: &'static str,
}

fn too_deep(at: usize) -> Box<Wrong> {
    Wrong::new(at, format!("triple terms are within each other more than {MOST_NESTED} levels deep"))
}

/// Whether this may be the object of a triple term, which begins at this place.
fn may_contain(object: &Term, at: usize) -> Result<()> {
    let (mut levels, mut inner) = (1, object);
    while let Term::Triple(triple) = inner {
        (levels, inner) = (levels + 1, &triple.object);
    }
    if levels > MOST_NESTED { Err(too_deep(at)) } else { Ok(()) }
}

/// The number of paths of any length in a triple's path.
fn walks_of(triple: &Triple) -> usize {
    fn of_path(path: &Path) -> usize {
        match path {
            Path::Iri(_) | Path::Not(..) => 0,
            Path::Inverse(inner) => of_path(inner),
            Path::Sequence(all) | Path::Alternative(all) => all.iter().map(of_path).sum(),
            Path::Optional(_) | Path::Any(_) | Path::Many(_) => 1,
        }
    }
    match &triple.verb {
        Verb::Var(_) => 0,
        Verb::Path(path) => of_path(path),
    }
}

/// The triple that links a reifier to its triple term.
fn reifies(reifier: &Term, triple: TripleTerm) -> Triple {
    let verb = Verb::Path(Arc::new(Path::Iri(rdf::REIFIES.into_owned())));
    Triple { subject: Arc::new(reifier.clone()), verb, object: Term::Triple(Arc::new(triple)) }
}

/// The triples parsed so far.
struct Triples {
    whose: Where,
    all: Vec<Triple>,
}

impl<'a> Parser<'a> {
    /// A group with its braces, and the variables in scope after it.
    pub(super) fn group(&mut self) -> Result<(Group, Scope)> {
        self.deeper(|parser| {
            parser.need(Kind::BraceOpen, "`{`")?;
            let made = if parser.at_word("SELECT") {
                let (select, scope) = parser.select(false)?;
                (Group { elements: vec![Element::Select(Box::new(select))] }, scope)
            } else {
                parser.elements()?
            };
            parser.need(Kind::BraceClose, "`}` or another part of the pattern")?;
            Ok(made)
        })
    }

    fn elements(&mut self) -> Result<(Group, Scope)> {
        let mut group = Group::default();
        let mut scope = Scope::default();
        // The current basic graph pattern: everything but a filter ends it.
        let mut pattern = None;
        loop {
            if self.at_triples() {
                self.blanks.pattern = Some(*pattern.get_or_insert_with(|| self.blanks.next_pattern()));
                let triples = self.triples_block(&mut scope)?;
                // Each path of any length becomes an operator on top of the others.
                self.raise(triples.iter().map(walks_of).sum())?;
                match group.elements.last_mut() {
                    Some(Element::Triples(all)) => all.extend(triples),
                    _ => group.elements.push(Element::Triples(triples)),
                }
            }
            if self.kind() != Kind::Word && self.kind() != Kind::BraceOpen {
                return Ok((group, scope));
            }
            let at = self.place();
            if self.take_word("FILTER") {
                group.elements.push(Element::Filter(self.constraint()?));
                self.raise_with_tests(0)?;
            } else {
                pattern = None;
                let element = self.element(at, &mut scope)?;
                let stands_on_all = matches!(element, Element::Optional(_) | Element::Minus(_) | Element::Bind(..));
                self.raise_with_tests(usize::from(stands_on_all))?;
                group.elements.push(element);
            }
            self.take(Kind::Dot);
        }
    }

    /// An element of a group that is neither a triple nor a filter.
    fn element(&mut self, at: usize, scope: &mut Scope) -> Result<Element> {
        Ok(if self.kind() == Kind::BraceOpen {
            let mut all = Vec::new();
            loop {
                let (group, inner) = self.group()?;
                all.push(group);
                scope.add_all(inner);
                if !self.take_word("UNION") {
                    break Element::Union(all);
                }
            }
        } else if self.take_word("OPTIONAL") {
            let (group, inner) = self.group()?;
            scope.add_all(inner);
            Element::Optional(group)
        } else if self.take_word("MINUS") {
            Element::Minus(self.group()?.0)
        } else if self.take_word("GRAPH") {
            Element::Graph(self.in_graph(scope)?)
        } else if self.take_word("SERVICE") {
            if self.in_exists > 0 {
                self.not_supported(at, "SERVICE patterns within EXISTS");
            }
            Element::Service(self.service(scope)?)
        } else if self.take_word("BIND") {
            self.need(Kind::Open, "`(`")?;
            let value = self.expression()?;
            self.need_word("AS")?;
            let at = self.place();
            let var = self.need_variable()?;
            if scope.has(var) {
                let name = self.variable_name(var);
                return Err(Wrong::new(
                    at,
                    format!("BIND can't give ?{name} a value: it has one in this group already"),
                ));
            }
            self.need(Kind::Close, "`)`")?;
            scope.add(var);
            Element::Bind(value, var)
        } else if self.take_word("VALUES") {
            let values = self.values()?;
            values.variables.iter().for_each(|var| scope.add(*var));
            Element::Values(values)
        } else {
            return Err(self.unexpected("a triple pattern, FILTER, OPTIONAL, UNION, MINUS, BIND, VALUES or `}`"));
        })
    }

    /// The text after SERVICE.
    fn service(&mut self, scope: &mut Scope) -> Result<Service> {
        let silent = self.take_word("SILENT");
        let endpoint = match self.variable() {
            Some(var) => {
                scope.add(var);
                Endpoint::Var(var)
            }
            None => match self.iri()? {
                Some(iri) => Endpoint::Iri(iri),
                None => return Err(self.unexpected("a variable or an IRI")),
            },
        };
        // Another engine answers the group. It may be able to do more.
        let unsupported = self.unsupported;
        let (from, given) = (self.place(), self.given_mentions());
        let (_, inner) = self.group()?;
        if self.given_mentions() > given {
            let message =
                "a variable with a value from outside can't stand within SERVICE, whose text is sent as it is";
            return Err(Wrong::new(from, message));
        }
        self.unsupported = unsupported;
        let mut variables: Vec<Var> = inner.0.iter().copied().collect();
        variables.sort_unstable();
        scope.add_all(inner);
        Ok(Service { endpoint, silent, text: self.text_since(from).to_owned(), variables })
    }

    /// The text after GRAPH.
    fn in_graph(&mut self, scope: &mut Scope) -> Result<InGraph> {
        let mut name = match self.variable() {
            Some(var) => GraphName::Var(var, false),
            None => match self.iri()? {
                Some(iri) => GraphName::Iri(iri),
                None => return Err(self.unexpected("a variable or an IRI")),
            },
        };
        let before = if let GraphName::Var(var, _) = name { self.mentions(var) } else { 0 };
        let (group, inner) = self.group()?;
        scope.add_all(inner);
        if let GraphName::Var(var, occurs) = &mut name {
            scope.add(*var);
            *occurs = self.mentions(*var) > before;
        }
        Ok(InGraph { name, group })
    }

    // Triples.

    /// Whether a triple begins here.
    pub(super) fn at_triples(&self) -> bool {
        match self.kind() {
            Kind::Iri
            | Kind::Name
            | Kind::Blank
            | Kind::Variable
            | Kind::Integer
            | Kind::Decimal
            | Kind::Double
            | Kind::Text
            | Kind::Open
            | Kind::BracketOpen
            | Kind::TermOpen
            | Kind::ReifiedOpen => true,
            Kind::Plus | Kind::Minus => self.at_signed_number(),
            Kind::Word => self.at_word("true") || self.at_word("false"),
            _ => false,
        }
    }

    /// Triples separated by dots.
    fn triples_block(&mut self, scope: &mut Scope) -> Result<Vec<Triple>> {
        let mut triples = Triples { whose: Where::Pattern, all: Vec::new() };
        loop {
            self.same_subject(&mut triples)?;
            if !self.take(Kind::Dot) || !self.at_triples() {
                break;
            }
        }
        for Triple { subject, verb, object } in &triples.all {
            for end in [&**subject, object] {
                end.each_variable(&mut |var| scope.add(var));
            }
            if let Verb::Var(var) = verb {
                scope.add(*var);
            }
        }
        Ok(triples.all)
    }

    /// The triples of a template, without its braces. `pattern` is the pattern that its blank nodes' labels belong to.
    pub(super) fn template(&mut self, template: Template, pattern: Option<u32>) -> Result<Vec<Triple>> {
        let outside = std::mem::replace(&mut self.blanks.pattern, pattern);
        let mut triples = Triples { whose: Where::Template(template), all: Vec::new() };
        while self.at_triples() {
            self.same_subject(&mut triples)?;
            if !self.take(Kind::Dot) {
                break;
            }
        }
        self.blanks.pattern = outside;
        Ok(triples.all)
    }

    /// A subject with its predicates and objects.
    fn same_subject(&mut self, triples: &mut Triples) -> Result<()> {
        let is_nested = self.at_nested();
        let subject = self.node(triples, "a triple's subject")?;
        // A list, a blank node with properties or a reified triple may stand alone.
        if is_nested && !self.at_verb(triples.whose) {
            return Ok(());
        }
        self.properties(&Arc::new(subject), triples)
    }

    /// Whether a non-empty list, a blank node with properties or a reified triple begins here.
    fn at_nested(&self) -> bool {
        match self.kind() {
            Kind::Open => self.second() != Kind::Close,
            Kind::BracketOpen => self.second() != Kind::BracketClose,
            Kind::ReifiedOpen => true,
            _ => false,
        }
    }

    fn at_verb(&self, whose: Where) -> bool {
        match self.kind() {
            Kind::Variable | Kind::Iri | Kind::Name => true,
            Kind::Word => self.is_a(),
            Kind::Caret | Kind::Bang | Kind::Open => whose == Where::Pattern,
            _ => false,
        }
    }

    /// Whether the next token is `a`, which must be lower case.
    fn is_a(&self) -> bool {
        self.kind() == Kind::Word && self.slice(self.token()) == "a"
    }

    /// Predicates and objects, separated by `;`.
    fn properties(&mut self, subject: &Arc<Term>, triples: &mut Triples) -> Result<()> {
        loop {
            let first = self.tokens_read();
            let verb = self.verb(triples.whose)?;
            let signs = self.tokens_read() - first;
            loop {
                let object = self.node(triples, "a triple's object")?;
                let triple = Triple { subject: Arc::clone(subject), verb: verb.clone(), object };
                triples.all.push(triple.clone());
                self.annotations(&triple, triples)?;
                if !self.take(Kind::Comma) {
                    break;
                }
                self.repeat(signs)?;
            }
            if !self.take(Kind::Semicolon) {
                return Ok(());
            }
            while self.take(Kind::Semicolon) {}
            if !self.at_verb(triples.whose) {
                return Ok(());
            }
        }
    }

    fn verb(&mut self, whose: Where) -> Result<Verb> {
        let at = self.place();
        if let Some(var) = self.variable() {
            self.may_stand(&Term::Var(var), at, whose)?;
            return Ok(Verb::Var(var));
        }
        if !self.at_verb(whose) {
            return Err(self.unexpected("a triple's predicate"));
        }
        Ok(Verb::Path(match whose {
            Where::Pattern => Arc::new(self.path()?),
            Where::Template(_) => Arc::new(Path::Iri(self.predicate()?)),
        }))
    }

    /// An IRI or `a`.
    fn predicate(&mut self) -> Result<NamedNode> {
        if self.is_a() {
            self.skip();
            return Ok(rdf::TYPE.into_owned());
        }
        self.iri()?.ok_or_else(|| self.unexpected("a predicate: an IRI or `a`"))
    }

    /// Parses a subject or an object, and adds the triples nested in it.
    fn node(&mut self, triples: &mut Triples, expected: &str) -> Result<Term> {
        let at = self.place();
        if !self.at_nested() {
            if self.kind() == Kind::TermOpen {
                return self.triple_term(triples.whose);
            }
            let term = self.term()?.ok_or_else(|| self.unexpected(expected))?;
            self.may_stand(&term, at, triples.whose)?;
            return Ok(term);
        }
        if self.kind() == Kind::ReifiedOpen {
            return self.reified(triples);
        }
        self.deeper(|parser| {
            let first = parser.blanks.fresh();
            parser.may_stand(&first, at, triples.whose)?;
            if parser.take(Kind::BracketOpen) {
                parser.properties(&Arc::new(first.clone()), triples)?;
                parser.need(Kind::BracketClose, "`]`, `;` or `,`")?;
                return Ok(first);
            }
            parser.skip();
            let [has_member, has_rest] =
                [rdf::FIRST, rdf::REST].map(|predicate| Arc::new(Path::Iri(predicate.into_owned())));
            let mut cell = Arc::new(first.clone());
            loop {
                let object = parser.node(triples, "a list's member")?;
                let mut link = |predicate: &Arc<Path>, object| {
                    let verb = Verb::Path(Arc::clone(predicate));
                    triples.all.push(Triple { subject: Arc::clone(&cell), verb, object });
                };
                link(&has_member, object);
                if parser.take(Kind::Close) {
                    link(&has_rest, Term::Iri(rdf::NIL.into_owned()));
                    return Ok(first);
                }
                let next = parser.blanks.fresh();
                link(&has_rest, next.clone());
                cell = Arc::new(next);
            }
        })
    }

    // Triples as terms: SPARQL 1.2.

    /// A triple term of a pattern or a template.
    fn triple_term(&mut self, whose: Where) -> Result<Term> {
        self.note_newer(self.place(), "a triple term, `<<( s p o )>>`,");
        let at = self.place();
        self.skip();
        self.deeper(|parser| {
            let subject = parser.term_part(whose, "the subject of a triple term")?;
            let predicate = parser.term_verb(whose)?;
            let object = parser.term_part(whose, "the object of a triple term")?;
            parser.need(Kind::TermClose, "`)>>`")?;
            may_contain(&object, at)?;
            Ok(Term::Triple(Arc::new(TripleTerm { subject, predicate, object })))
        })
    }

    /// The subject or the object of a triple term.
    fn term_part(&mut self, whose: Where, expected: &str) -> Result<Term> {
        if self.kind() == Kind::TermOpen {
            return self.triple_term(whose);
        }
        let at = self.place();
        if self.kind() == Kind::Open {
            return Err(self.unexpected(expected));
        }
        let term = self.term()?.ok_or_else(|| self.unexpected(expected))?;
        self.may_stand(&term, at, whose)?;
        Ok(term)
    }

    /// The predicate of a triple term or of a reified triple: a variable, an IRI or `a`.
    fn term_verb(&mut self, whose: Where) -> Result<Term> {
        let at = self.place();
        let term = match self.variable() {
            Some(var) => Term::Var(var),
            None => Term::Iri(self.predicate()?),
        };
        self.may_stand(&term, at, whose)?;
        Ok(term)
    }

    /// A reified triple; returns its reifier.
    fn reified(&mut self, triples: &mut Triples) -> Result<Term> {
        self.note_newer(self.place(), "a reified triple, `<< s p o >>`,");
        let at = self.place();
        self.skip();
        self.deeper(|parser| {
            let subject = parser.reified_part(triples, "the subject of a reified triple")?;
            let predicate = parser.term_verb(triples.whose)?;
            let object = parser.reified_part(triples, "the object of a reified triple")?;
            may_contain(&object, at)?;
            let reifier = parser.reifier(triples.whose)?;
            parser.need(Kind::ReifiedClose, "`>>` or `~`")?;
            let reifier = match reifier {
                Some(reifier) => reifier,
                None => parser.fresh_reifier(triples.whose)?,
            };
            triples.all.push(reifies(&reifier, TripleTerm { subject, predicate, object }));
            Ok(reifier)
        })
    }

    fn reified_part(&mut self, triples: &mut Triples, expected: &str) -> Result<Term> {
        match self.kind() {
            Kind::ReifiedOpen => self.reified(triples),
            _ => self.term_part(triples.whose, expected),
        }
    }

    /// The reifier behind `~`, if there is one: a variable, an IRI, a blank node, or nothing, for a new blank node.
    fn reifier(&mut self, whose: Where) -> Result<Option<Term>> {
        self.note_reifier();
        if !self.take(Kind::Tilde) {
            return Ok(None);
        }
        let at = self.place();
        let is_named = matches!(self.kind(), Kind::Variable | Kind::Iri | Kind::Name | Kind::Blank)
            || self.kind() == Kind::BracketOpen && self.second() == Kind::BracketClose;
        if !is_named {
            return self.fresh_reifier(whose).map(Some);
        }
        let term = self.term()?.ok_or_else(|| self.unexpected("a reifier"))?;
        self.may_stand(&term, at, whose)?;
        Ok(Some(term))
    }

    fn note_reifier(&mut self) {
        if self.kind() == Kind::Tilde {
            self.note_newer(self.place(), "a reifier, `~ r`,");
        }
    }

    fn fresh_reifier(&mut self, whose: Where) -> Result<Term> {
        let blank = self.blanks.fresh();
        self.may_stand(&blank, self.place(), whose)?;
        Ok(blank)
    }

    /// The reifiers and annotations behind the object of a triple.
    fn annotations(&mut self, triple: &Triple, triples: &mut Triples) -> Result<()> {
        // The reifier that stands right before.
        let mut last = None;
        while matches!(self.kind(), Kind::Tilde | Kind::AnnotationOpen) {
            let at = self.place();
            let predicate = match &triple.verb {
                Verb::Var(var) => Term::Var(*var),
                Verb::Path(path) => match &**path {
                    Path::Iri(iri) => Term::Iri(iri.clone()),
                    _ => return Err(Wrong::new(at, "a path is no triple: it can't have a reifier or an annotation")),
                },
            };
            may_contain(&triple.object, at)?;
            let (subject, object) = ((*triple.subject).clone(), triple.object.clone());
            let term = TripleTerm { subject, predicate, object };
            if let Some(reifier) = self.reifier(triples.whose)? {
                triples.all.push(reifies(&reifier, term));
                last = Some(reifier);
                continue;
            }
            self.note_newer(at, "an annotation, `{| p o |}`,");
            self.skip();
            let reifier = match last.take() {
                Some(reifier) => reifier,
                None => {
                    let reifier = self.fresh_reifier(triples.whose)?;
                    triples.all.push(reifies(&reifier, term));
                    reifier
                }
            };
            self.deeper(|parser| parser.properties(&Arc::new(reifier), triples))?;
            self.need(Kind::AnnotationClose, "`|}`, `;` or `,`")?;
        }
        Ok(())
    }

    /// A triple term in an expression.
    pub(super) fn expression_triple(&mut self) -> Result<Expression> {
        self.note_newer(self.place(), "a triple term, `<<( s p o )>>`,");
        let place = self.place();
        self.skip();
        self.deeper(|parser| {
            let simple = |parser: &mut Self, expected: &str| -> Result<Option<Expression>> {
                let at = parser.place() as u32;
                Ok(match parser.variable() {
                    Some(var) => Some(Expression::Var(var, at)),
                    None if parser.kind() == Kind::Word && expected == "a predicate" && parser.is_a() => {
                        Some(Expression::Iri(parser.predicate()?))
                    }
                    None => parser.iri()?.map(Expression::Iri),
                })
            };
            let subject = simple(parser, "a subject")?.ok_or_else(|| parser.unexpected("a variable or an IRI"))?;
            let predicate =
                simple(parser, "a predicate")?.ok_or_else(|| parser.unexpected("a variable, an IRI or `a`"))?;
            let object = match simple(parser, "an object")? {
                Some(object) => object,
                None if parser.kind() == Kind::TermOpen => parser.expression_triple()?,
                None => match parser.literal()? {
                    Some(literal) => Expression::Literal(literal),
                    None => return Err(parser.unexpected("a variable, an IRI, a literal or a triple term")),
                },
            };
            parser.need(Kind::TermClose, "`)>>`")?;
            let (mut levels, mut inner) = (1, &object);
            while let Expression::Call(Function::Triple, parts) = inner {
                (levels, inner) = (levels + 1, &parts[2]);
            }
            if levels > MOST_NESTED {
                return Err(too_deep(place));
            }
            Ok(Expression::Call(Function::Triple, vec![subject, predicate, object]))
        })
    }

    /// A triple term in a table.
    fn triple_value(&mut self) -> Result<oxrdf::Triple> {
        self.note_newer(self.place(), "a triple term, `<<( s p o )>>`,");
        let at = self.place();
        self.skip();
        self.deeper(|parser| {
            let subject = parser.need_iri()?;
            let predicate = parser.predicate()?;
            let object = match parser.kind() {
                Kind::TermOpen => parser.triple_value()?.into(),
                _ => match parser.iri()? {
                    Some(iri) => oxrdf::Term::from(iri),
                    None => match parser.literal()? {
                        Some(literal) => literal.into(),
                        None => return Err(parser.unexpected("an IRI, a literal or a triple term")),
                    },
                },
            };
            parser.need(Kind::TermClose, "`)>>`")?;
            let triple = oxrdf::Triple::new(subject, predicate, object);
            if levels_of(&triple) > MOST_NESTED { Err(too_deep(at)) } else { Ok(triple) }
        })
    }

    fn may_stand(&self, term: &Term, at: usize, whose: Where) -> Result<()> {
        let Where::Template(Template { variables, blanks, name }) = whose else { return Ok(()) };
        match term {
            Term::Var(_) if !variables => Err(Wrong::new(at, format!("a variable can't stand in {name}"))),
            Term::Blank(_) if !blanks => Err(Wrong::new(at, format!("a blank node can't stand in {name}"))),
            _ => Ok(()),
        }
    }

    // Paths.

    fn path(&mut self) -> Result<Path> {
        self.deeper(|parser| {
            let mut all = vec![parser.path_sequence()?];
            while parser.take(Kind::Bar) {
                all.push(parser.path_sequence()?);
            }
            Ok(if all.len() == 1 { all.remove(0) } else { Path::Alternative(all) })
        })
    }

    fn path_sequence(&mut self) -> Result<Path> {
        let mut all = vec![self.path_step()?];
        while self.take(Kind::Slash) {
            all.push(self.path_step()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Path::Sequence(all) })
    }

    fn path_step(&mut self) -> Result<Path> {
        if self.take(Kind::Caret) {
            return Ok(Path::Inverse(Box::new(self.path_element()?)));
        }
        self.path_element()
    }

    fn path_element(&mut self) -> Result<Path> {
        let path = if self.take(Kind::Open) {
            let path = self.path()?;
            self.need(Kind::Close, "`)`, or a path goes on")?;
            path
        } else if self.take(Kind::Bang) {
            self.negated_path()?
        } else {
            Path::Iri(self.predicate()?)
        };
        Ok(match self.kind() {
            Kind::Question => {
                self.skip();
                Path::Optional(Box::new(path))
            }
            Kind::Star => {
                self.skip();
                Path::Any(Box::new(path))
            }
            // In `:p +1`, the sign belongs to the number.
            Kind::Plus if !self.at_signed_number() => {
                self.skip();
                Path::Many(Box::new(path))
            }
            _ => path,
        })
    }

    fn negated_path(&mut self) -> Result<Path> {
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        let mut one = |parser: &mut Self| -> Result<()> {
            let list = if parser.take(Kind::Caret) { &mut backward } else { &mut forward };
            list.push(parser.predicate()?);
            Ok(())
        };
        if !self.take(Kind::Open) {
            one(self)?;
        } else if !self.take(Kind::Close) {
            one(self)?;
            while self.take(Kind::Bar) {
                one(self)?;
            }
            self.need(Kind::Close, "`|` or `)`")?;
        }
        Ok(Path::Not(forward, backward))
    }

    // Tables.

    /// The table after VALUES.
    pub(super) fn values(&mut self) -> Result<Values> {
        let mut values = Values { variables: Vec::new(), terms: Vec::new(), rows: 0 };
        if self.kind() == Kind::Variable {
            let var = self.need_variable()?;
            values.variables.push(var);
            self.need(Kind::BraceOpen, "`{`")?;
            while !self.take(Kind::BraceClose) {
                let term = self.value()?;
                values.terms.push(term);
                values.rows += 1;
            }
            return Ok(values);
        }
        self.need(Kind::Open, "a variable or `(`")?;
        let mut seen = Scope::default();
        while !self.take(Kind::Close) {
            let at = self.place();
            if self.kind() != Kind::Variable {
                return Err(self.unexpected("a variable or `)`"));
            }
            let var = self.need_variable()?;
            if !seen.0.insert(var) {
                return Err(Wrong::new(at, format!("VALUES has ?{} twice", self.variable_name(var))));
            }
            values.variables.push(var);
        }
        self.need(Kind::BraceOpen, "`{`")?;
        while !self.take(Kind::BraceClose) {
            let at = self.place();
            self.need(Kind::Open, "`(` or `}`")?;
            let before = values.terms.len();
            while !self.take(Kind::Close) {
                let term = self.value()?;
                values.terms.push(term);
            }
            let (found, wanted) = (values.terms.len() - before, values.variables.len());
            if found != wanted {
                return Err(Wrong::new(at, format!("a row of VALUES has {found} values for {wanted} variables")));
            }
            values.rows += 1;
        }
        Ok(values)
    }

    /// A cell of a table.
    fn value(&mut self) -> Result<Option<oxrdf::Term>> {
        if self.take_word("UNDEF") {
            return Ok(None);
        }
        if self.kind() == Kind::TermOpen {
            return Ok(Some(self.triple_value()?.into()));
        }
        if let Some(iri) = self.iri()? {
            return Ok(Some(iri.into()));
        }
        match self.literal()? {
            Some(literal) => Ok(Some(literal.into())),
            None => Err(self.unexpected("an IRI, a literal or UNDEF")),
        }
    }

    /// Parses something in which no aggregate may stand, because there are no groups yet.
    pub(super) fn without_aggregates<R>(&mut self, read: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let outside = self.aggregates;
        self.aggregates.allowed = Aggregates::InPattern;
        let done = read(self);
        self.aggregates = outside;
        done
    }
}
