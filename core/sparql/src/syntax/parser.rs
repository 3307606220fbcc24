//! Common functions of all parts of the grammar: the next token, depth, names, terms; and the beginning and the end of
//! a text.

use super::ast::{Dataset, Expression, Form, Query, Select, Term, Update, Var};
use super::names::Blanks;
use super::token::{Kind, Token, Tokens};
use super::{ParseOptions, Result, Wrong, unescape};
use crate::complete::KNOWN_PREFIXES;
use crate::error::{QueryError, QueryErrorKind};
use oxiri::Iri;
use oxrdf::vocab::xsd;
use oxrdf::{BaseDirection, Literal, NamedNode};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Eight levels of the grammar need less stack than this many bytes.
const ENOUGH: usize = 256 << 10;

/// Bytes of a new piece of stack.
const MORE: usize = 4 << 20;

/// Each text counts as this many bytes longer when the names written out are limited, because a short text may have a
/// long prefix.
const BYTES_OF_ANY: usize = 1 << 10;

/// For this many bytes of text, one more sign of a path may be repeated.
const BYTES_FOR_ONE_REPEATED: usize = 4;

/// Reads one text.
pub(super) struct Parser<'a> {
    text: &'a str,
    /// The expected form of the text, for errors: a query or an update.
    noun: &'static str,
    tokens: Tokens<'a>,
    /// The next token, and the one after it.
    ahead: [Token; 2],
    /// The end of the last token.
    end: usize,
    /// The number of tokens parsed.
    read: usize,
    pub(super) options: &'a ParseOptions<'a>,
    base: Option<Arc<Iri<String>>>,
    prefixes: BTreeMap<&'a str, String>,
    /// The prefixes as the last operation of an update has them, if none was declared since.
    shared_prefixes: Option<Arc<[(String, String)]>>,
    variables: Variables<'a>,
    /// The content of FROM and FROM NAMED.
    pub(super) dataset: Option<Dataset>,
    pub(super) blanks: Blanks<'a>,
    levels: Levels,
    growth: Growth,
    /// The first unsupported item of the text.
    pub(super) unsupported: Option<(usize, &'static str)>,
    /// How many EXISTS the current place is in.
    pub(super) in_exists: usize,
    pub(super) aggregates: AggregateScope,
    /// The first item of the text known only to SPARQL 1.2.
    pub(super) newer: Option<(usize, &'static str)>,
    /// For each value given for a variable, how often the text has it.
    given: Vec<u32>,
}

/// The variables of the current query.
#[derive(Default)]
struct Variables<'a> {
    /// Their names, by number.
    names: Vec<String>,
    /// For each variable, how often it was parsed.
    mentions: Vec<u32>,
    // Not a hash map, because the names of a text may be chosen to share one hash.
    by_name: BTreeMap<&'a str, Var>,
}

impl<'a> Variables<'a> {
    /// A new variable of this name, parsed once.
    fn add(&mut self, name: String) -> Var {
        let var = Var(self.names.len() as u32);
        self.mentions.push(1);
        self.names.push(name);
        var
    }

    /// The variable of a name in the text, parsed once more.
    fn of(&mut self, name: &'a str) -> Var {
        if let Some(var) = self.by_name.get(name) {
            self.mentions[var.0 as usize] += 1;
            return *var;
        }
        let var = self.add(name.to_owned());
        self.by_name.insert(name, var);
        var
    }
}

/// The levels of the text, and of the engine's tree for it.
#[derive(Default)]
struct Levels {
    /// The levels around the current place.
    depth: usize,
    /// The number of levels parsed below the current one. Invariant: together with `depth` within the limit.
    height: usize,
    deepest: usize,
    /// The number of EXISTS with levels not counted yet: each becomes an operator on top of its tested pattern.
    tests: usize,
}

/// By how much the parsed text is larger than it is written.
#[derive(Default)]
struct Growth {
    /// How much longer the names so far are when written out.
    longer: usize,
    /// The signs of paths repeated for another object.
    repeated: usize,
}

/// The aggregates of the current SELECT.
#[derive(Clone, Copy)]
pub(super) struct AggregateScope {
    /// Whether one may stand here.
    pub(super) allowed: Aggregates,
    /// Their number so far.
    pub(super) count: usize,
}

/// Whether an aggregate may stand somewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Aggregates {
    Allowed,
    /// In a pattern: there are no groups yet.
    InPattern,
    InGroupBy,
    InAggregate,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, noun: &'static str, options: &'a ParseOptions<'a>) -> Result<Parser<'a>> {
        let base = options.base.map(|base| {
            Iri::parse(base.to_owned()).map(Arc::new).map_err(|error| {
                let message = format!("the base `{base}` is no absolute IRI: {error}");
                Box::new(Wrong { at: 0, message, kind: QueryErrorKind::WrongBase })
            })
        });
        let base = base.transpose()?;
        for (name, term) in options.given {
            if !matches!(term, oxrdf::Term::NamedNode(_) | oxrdf::Term::Literal(_)) {
                let message = format!("the value of ?{name} is {term}; only IRIs and literals can be given");
                return Err(Box::new(Wrong { at: 0, message, kind: QueryErrorKind::NotMentioned }));
            }
        }
        let mut tokens = Tokens::new(text, options.rdf_12);
        let ahead = [tokens.next(), tokens.next()];
        Ok(Parser {
            text,
            noun,
            tokens,
            ahead,
            end: 0,
            read: 0,
            options,
            base,
            prefixes: BTreeMap::new(),
            shared_prefixes: None,
            variables: Variables::default(),
            dataset: None,
            blanks: Blanks::default(),
            levels: Levels::default(),
            growth: Growth::default(),
            unsupported: None,
            in_exists: 0,
            aggregates: AggregateScope { allowed: Aggregates::InPattern, count: 0 },
            newer: None,
            given: vec![0; options.given.len()],
        })
    }

    /// Parses the whole text as a query.
    pub(super) fn query(&mut self) -> Result<Query> {
        self.prologue()?;
        let (form, select) = if self.at_word("SELECT") {
            (Form::Select, self.select(true)?.0)
        } else if self.take_word("ASK") {
            (Form::Ask, self.ask()?)
        } else if self.take_word("CONSTRUCT") {
            self.construct()?
        } else if self.take_word("DESCRIBE") {
            self.describe()?
        } else if self.at_update() {
            let word = self.slice(self.token());
            return Err(Wrong::new(self.place(), format!("`{word}` begins an update, and a query is expected here")));
        } else {
            return Err(self.unexpected("SELECT, ASK, CONSTRUCT or DESCRIBE"));
        };
        self.end()?;
        Ok(self.query_of(form, select))
    }

    /// Parses the whole text as an update.
    pub(super) fn update(&mut self) -> Result<Update> {
        let operations = self.operations()?;
        self.end()?;
        Ok(Update { operations, depth: self.levels.deepest })
    }

    /// Nothing follows, and all is supported.
    fn end(&self) -> Result<()> {
        if self.kind() != Kind::End {
            return Err(self.unexpected(&format!("the {}'s end", self.noun)));
        }
        if let Some((at, what)) = self.unsupported {
            let QueryError { message, kind, .. } = QueryError::unsupported(what);
            return Err(Box::new(Wrong { at, message, kind }));
        }
        if let Some(place) = self.given.iter().position(|times| *times == 0) {
            let message =
                format!("the {} has no ?{}, for which a value is given", self.noun, self.options.given[place].0);
            return Err(Box::new(Wrong { at: 0, message, kind: QueryErrorKind::NotMentioned }));
        }
        Ok(())
    }

    /// The query just parsed, with its names. The following text has variables of its own.
    pub(super) fn query_of(&mut self, form: Form, select: Select) -> Query {
        let prefixes = match &self.shared_prefixes {
            Some(shared) => Arc::clone(shared),
            None => {
                let all = self.prefixes.iter().map(|(name, iri)| ((*name).to_owned(), iri.clone()));
                Arc::clone(self.shared_prefixes.insert(all.collect()))
            }
        };
        let (base, variables) = (self.base.clone(), std::mem::take(&mut self.variables).names);
        Query { form, base, prefixes, variables, dataset: self.dataset.take(), select, depth: self.levels.deepest }
    }

    /// Counts the prefixes as longer names, if a query needs a copy of them: each operation of an update may declare
    /// one more.
    pub(super) fn lengthen_by_prefixes(&mut self) -> Result<()> {
        if self.shared_prefixes.is_some() {
            return Ok(());
        }
        let all = self.prefixes.iter();
        let bytes = all.map(|(name, iri)| name.len() + iri.len() + size_of::<(String, String)>()).sum();
        self.lengthen(self.place(), bytes)
    }

    /// Notes an item of SPARQL 1.2 alone, starting here.
    pub(super) fn note_newer(&mut self, at: usize, what: &'static str) {
        if self.newer.is_none_or(|(first, _)| at < first) {
            self.newer = Some((at, what));
        }
    }

    /// A variable of our own, unknown to the text.
    pub(super) fn own_variable(&mut self) -> Var {
        let number = self.variables.names.len();
        self.variables.add(format!("_:{number}"))
    }

    /// BASE, PREFIX and VERSION.
    pub(super) fn prologue(&mut self) -> Result<()> {
        loop {
            if self.take_word("BASE") {
                let iri = self.resolved("an IRI in `<` and `>`")?;
                self.base = Some(Arc::new(Iri::parse_unchecked(iri.into_string())));
            } else if self.take_word("PREFIX") {
                let token = self.token();
                let name = self.slice(token);
                let prefix = name.strip_suffix(':').filter(|prefix| token.kind == Kind::Name && !prefix.contains(':'));
                let Some(prefix) = prefix else { return Err(self.unexpected("a prefix, such as `ex:`")) };
                self.skip();
                let iri = self.resolved("an IRI in `<` and `>`")?;
                self.prefixes.insert(prefix, iri.into_string());
                self.shared_prefixes = None;
            } else if self.options.rdf_12 && self.at_word("VERSION") {
                self.note_newer(self.place(), "VERSION");
                self.skip();
                let text = self.slice(self.token());
                if self.kind() != Kind::Text || text.starts_with("\"\"\"") || text.starts_with("'''") {
                    return Err(self.unexpected("a version in single quotation marks, such as \"1.2\""));
                }
                self.skip();
            } else {
                return Ok(());
            }
        }
    }

    // Tokens.

    pub(super) fn token(&self) -> Token {
        self.ahead[0]
    }

    pub(super) fn kind(&self) -> Kind {
        self.ahead[0].kind
    }

    /// The kind of the token after the next.
    pub(super) fn second(&self) -> Kind {
        self.second_token().kind
    }

    pub(super) fn second_token(&self) -> Token {
        self.ahead[1]
    }

    /// The position of the next token.
    pub(super) fn place(&self) -> usize {
        self.token().start as usize
    }

    /// The text from a place up to the end of the last token.
    pub(super) fn text_since(&self, from: usize) -> &'a str {
        &self.text[from..self.end]
    }

    pub(super) fn slice(&self, token: Token) -> &'a str {
        &self.text[token.start as usize..token.end as usize]
    }

    /// Takes the next token, if it is of this kind.
    pub(super) fn take(&mut self, kind: Kind) -> bool {
        let is_it = self.kind() == kind;
        if is_it {
            self.skip();
        }
        is_it
    }

    /// Goes to the token after the next.
    pub(super) fn skip(&mut self) {
        self.end = self.ahead[0].end as usize;
        self.read += 1;
        self.ahead = [self.ahead[1], self.tokens.next()];
    }

    pub(super) fn need(&mut self, kind: Kind, expected: &str) -> Result<()> {
        if self.take(kind) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    pub(super) fn at_word(&self, word: &str) -> bool {
        self.kind() == Kind::Word && self.slice(self.token()).eq_ignore_ascii_case(word)
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let is_it = self.at_word(word);
        if is_it {
            self.skip();
        }
        is_it
    }

    pub(super) fn need_word(&mut self, word: &str) -> Result<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.unexpected(word)) }
    }

    /// Whether the next two tokens are a sign and a number without white space between them.
    pub(super) fn at_signed_number(&self) -> bool {
        matches!(self.kind(), Kind::Plus | Kind::Minus)
            && matches!(self.second(), Kind::Integer | Kind::Decimal | Kind::Double)
            && self.second_token().start == self.token().end
    }

    /// The error of a next token in place of an expected item.
    pub(super) fn unexpected(&self, expected: &str) -> Box<Wrong> {
        let token = self.token();
        match token.kind {
            Kind::Wrong => Wrong::new(token.start as usize, self.tokens.wrong.clone()),
            Kind::End => {
                // At the end of the last token, not behind the comments and white space after it.
                Wrong::new(self.end, format!("the {} ends too early: expected {expected}", self.noun))
            }
            _ => {
                let found = self.slice(token);
                let shown: String = found.chars().take(30).collect();
                let more = if shown.len() < found.len() { "…" } else { "" };
                Wrong::new(token.start as usize, format!("`{shown}{more}` can't stand here: expected {expected}"))
            }
        }
    }

    // Depth.

    /// Parses something one level deeper.
    pub(super) fn deeper<R>(&mut self, read: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let height = std::mem::take(&mut self.levels.height);
        self.levels.depth += 1;
        self.raise(0)?;
        let done = if self.levels.depth.is_multiple_of(8) {
            // The caller's stack may be small, and the text decides how deep this goes.
            stacker::maybe_grow(ENOUGH, MORE, || read(self))
        } else {
            read(self)
        };
        self.levels.depth -= 1;
        self.levels.height = height.max(self.levels.height + 1);
        done
    }

    /// Parses something beside the parsed items of this level: the greater height of the two counts.
    pub(super) fn beside<R>(&mut self, read: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let height = std::mem::take(&mut self.levels.height);
        let done = read(self);
        self.levels.height = self.levels.height.max(height);
        done
    }

    /// Puts this many levels on top of the parsed items of this level: these are their operand in the engine's tree.
    pub(super) fn raise(&mut self, levels: usize) -> Result<()> {
        self.levels.height += levels;
        let depth = self.levels.depth + self.levels.height;
        self.levels.deepest = self.levels.deepest.max(depth);
        let limit = self.options.depth.min(ParseOptions::MOST_DEPTH);
        if depth > limit {
            let message = format!(
                "the {} is nested more than {limit} levels deep: brackets add levels, and so do operators and patterns \
                    that apply to the one before",
                self.noun
            );
            return Err(Box::new(Wrong { at: self.place(), message, kind: QueryErrorKind::TooDeep }));
        }
        Ok(())
    }

    /// The number of tokens parsed.
    pub(super) fn tokens_read(&self) -> usize {
        self.read
    }

    /// Counts the signs of a path with another object: the engine's tree repeats the path.
    pub(super) fn repeat(&mut self, signs: usize) -> Result<()> {
        self.growth.repeated += signs - 1;
        let limit = self.options.path_signs.saturating_add(self.text.len() / BYTES_FOR_ONE_REPEATED);
        if self.growth.repeated > limit {
            let message = format!(
                "long paths have too many objects: the plan repeats the path for each object, and that is more than \
                    {limit} signs"
            );
            return Err(Box::new(Wrong { at: self.place(), message, kind: QueryErrorKind::TooManySigns }));
        }
        Ok(())
    }

    /// Counts by how many bytes a name is longer when written out.
    fn lengthen(&mut self, at: usize, bytes: usize) -> Result<()> {
        self.growth.longer += bytes;
        let limit = self.options.longer.saturating_mul(BYTES_OF_ANY + self.text.len());
        if self.growth.longer > limit {
            let message = format!(
                "with its names written out, the {} is more than {limit} bytes longer: a prefix or the base is too \
                    long",
                self.noun
            );
            return Err(Box::new(Wrong { at, message, kind: QueryErrorKind::NamesTooLong }));
        }
        Ok(())
    }

    /// Parses the pattern of an EXISTS, one more operator on its outer pattern.
    pub(super) fn test<R>(&mut self, read: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let tests = std::mem::take(&mut self.levels.tests);
        let done = read(self);
        self.levels.tests = tests + 1;
        done
    }

    /// Like [`Parser::raise`], with a level for each EXISTS parsed since the last call.
    pub(super) fn raise_with_tests(&mut self, levels: usize) -> Result<()> {
        let tests = std::mem::take(&mut self.levels.tests);
        self.raise(levels + tests)
    }

    pub(super) fn not_supported(&mut self, at: usize, what: &'static str) {
        self.unsupported.get_or_insert((at, what));
    }

    // Terms.

    pub(super) fn variable_name(&self, var: Var) -> &str {
        &self.variables.names[var.0 as usize]
    }

    /// The place of the value given for the variable here, if there is one.
    fn given_here(&self) -> Option<usize> {
        if self.kind() != Kind::Variable || self.options.given.is_empty() {
            return None;
        }
        let name = &self.slice(self.token())[1..];
        self.options.given.iter().position(|(given, _)| given == name)
    }

    /// Parses a variable with a given value, if there is one here that `wanted` takes, as this value.
    fn given<T>(&mut self, wanted: impl FnOnce(&oxrdf::Term) -> Option<T>) -> Result<Option<T>> {
        let Some(place) = self.given_here() else { return Ok(None) };
        let term = &self.options.given[place].1;
        let Some(value) = wanted(term) else { return Ok(None) };
        let (at, bytes) = (
            self.place(),
            match term {
                oxrdf::Term::Literal(literal) => literal.value().len() + literal.datatype().as_str().len(),
                oxrdf::Term::NamedNode(iri) => iri.as_str().len(),
                _ => 0,
            },
        );
        self.given[place] += 1;
        self.skip();
        self.lengthen(at, bytes)?;
        Ok(Some(value))
    }

    /// Parses a variable with a given value, as an expression.
    pub(super) fn given_expression(&mut self) -> Result<Option<Expression>> {
        self.given(|term| match term {
            oxrdf::Term::NamedNode(iri) => Some(Expression::Iri(iri.clone())),
            oxrdf::Term::Literal(literal) => Some(Expression::Literal(literal.clone())),
            _ => None,
        })
    }

    /// Parses a variable with a given value where its name is wanted as well.
    pub(super) fn given_column(&mut self) -> Result<Option<(Expression, Var)>> {
        if self.given_here().is_none() {
            return Ok(None);
        }
        let name = &self.slice(self.token())[1..];
        let value = self.given_expression()?;
        Ok(value.map(|value| (value, self.variables.of(name))))
    }

    /// How many variables with given values were parsed so far.
    pub(super) fn given_mentions(&self) -> u64 {
        self.given.iter().map(|times| u64::from(*times)).sum()
    }

    /// Parses a variable, if there is one here without a given value.
    pub(super) fn variable(&mut self) -> Option<Var> {
        if self.kind() != Kind::Variable || self.given_here().is_some() {
            return None;
        }
        let name = &self.slice(self.token())[1..];
        self.skip();
        Some(self.variables.of(name))
    }

    /// How often a variable was parsed so far.
    pub(super) fn mentions(&self, var: Var) -> u32 {
        self.variables.mentions[var.0 as usize]
    }

    pub(super) fn need_variable(&mut self) -> Result<Var> {
        self.variable().ok_or_else(|| match self.given_here() {
            Some(place) => {
                let name = &self.options.given[place].0;
                Wrong::new(self.place(), format!("?{name} has a value from outside: the text can't give it another"))
            }
            None => self.unexpected("a variable"),
        })
    }

    /// An IRI in `<` and `>`.
    fn resolved(&mut self, expected: &str) -> Result<NamedNode> {
        let token = self.token();
        if token.kind != Kind::Iri {
            return Err(self.unexpected(expected));
        }
        let at = token.start as usize;
        let written = &self.text[at + 1..token.end as usize - 1];
        let written = unescape::iri(written, at + 1)?;
        self.skip();
        let resolved = match &self.base {
            Some(base) => base.resolve(&written).map(Iri::into_inner),
            None => Iri::parse(written.as_ref()).map(|_| written.as_ref().to_owned()),
        };
        let resolved = resolved.map_err(|error| {
            let hint = if self.base.is_none() && !written.contains(':') { ": a relative IRI needs a base" } else { "" };
            Wrong::new(at, format!("<{written}> is no IRI{hint} ({error})"))
        })?;
        self.lengthen(at, resolved.len().saturating_sub(written.len()))?;
        Ok(NamedNode::new_unchecked(resolved))
    }

    /// Parses an IRI, written out or with a prefix, if there is one here.
    pub(super) fn iri(&mut self) -> Result<Option<NamedNode>> {
        let token = self.token();
        match token.kind {
            Kind::Iri => self.resolved("").map(Some),
            Kind::Name => {
                let (prefix, local) = self.slice(token).split_once(':').expect("a name has a colon");
                let at = token.start as usize;
                let Some(namespace) = self.prefixes.get(prefix) else {
                    let known = KNOWN_PREFIXES.iter().find(|(name, _)| *name == prefix);
                    let hint = known
                        .map_or_else(String::new, |(name, iri)| format!("; its usual IRI: PREFIX {name}: <{iri}>"));
                    return Err(Wrong::new(at, format!("the prefix `{prefix}:` is not declared{hint}")));
                };
                let local = unescape::local(local);
                let longer = namespace.len();
                let mut iri = String::with_capacity(namespace.len() + local.len());
                iri.push_str(namespace);
                iri.push_str(&local);
                // These characters, appended to a path or a fragment, keep an IRI valid; most names have no others.
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
                let stays_one = namespace.ends_with(['/', '#']) && local.bytes().all(is_plain);
                self.skip();
                self.lengthen(at, longer)?;
                if stays_one {
                    return Ok(Some(NamedNode::new_unchecked(iri)));
                }
                match Iri::parse(iri) {
                    Ok(iri) => Ok(Some(NamedNode::new_unchecked(iri.into_inner()))),
                    Err(error) => Err(Wrong::new(at, format!("`{}` is no IRI: {error}", self.slice(token)))),
                }
            }
            Kind::Variable => self.given(|term| match term {
                oxrdf::Term::NamedNode(iri) => Some(iri.clone()),
                _ => None,
            }),
            _ => Ok(None),
        }
    }

    pub(super) fn need_iri(&mut self) -> Result<NamedNode> {
        self.iri()?.ok_or_else(|| self.unexpected("an IRI"))
    }

    /// Parses a string, number or boolean, if there is one here.
    pub(super) fn literal(&mut self) -> Result<Option<Literal>> {
        let token = self.token();
        let typed = |text: &str, datatype: oxrdf::NamedNodeRef<'_>| Literal::new_typed_literal(text, datatype);
        let number = |kind| match kind {
            Kind::Integer => xsd::INTEGER,
            Kind::Decimal => xsd::DECIMAL,
            _ => xsd::DOUBLE,
        };
        Ok(Some(match token.kind {
            Kind::Variable => {
                return self.given(|term| match term {
                    oxrdf::Term::Literal(literal) => Some(literal.clone()),
                    _ => None,
                });
            }
            Kind::Text => {
                let raw = self.slice(token);
                let quotes = if raw.len() >= 6 && raw.as_bytes()[1] == raw.as_bytes()[0] { 3 } else { 1 };
                let value = unescape::text(&raw[quotes..raw.len() - quotes], token.start as usize + quotes)?;
                self.skip();
                match self.kind() {
                    Kind::Language => {
                        let at = self.place();
                        let language = &self.slice(self.token())[1..];
                        self.skip();
                        let wrong = |error| Wrong::new(at, format!("`@{language}` is no language tag: {error}"));
                        match language.split_once("--") {
                            None => Literal::new_language_tagged_literal(value, language).map_err(wrong)?,
                            Some((language, direction)) => {
                                self.note_newer(at, "a base direction");
                                let direction = match direction {
                                    "ltr" => BaseDirection::Ltr,
                                    "rtl" => BaseDirection::Rtl,
                                    _ => return Err(Wrong::new(at, "a base direction is `ltr` or `rtl`")),
                                };
                                Literal::new_directional_language_tagged_literal(value, language, direction)
                                    .map_err(wrong)?
                            }
                        }
                    }
                    Kind::Carets => {
                        self.skip();
                        Literal::new_typed_literal(value, self.need_iri()?)
                    }
                    _ => Literal::new_simple_literal(value),
                }
            }
            Kind::Integer | Kind::Decimal | Kind::Double => {
                self.skip();
                typed(self.slice(token), number(token.kind))
            }
            Kind::Plus | Kind::Minus if self.at_signed_number() => {
                let second = self.second_token();
                self.skip();
                self.skip();
                typed(&self.text[token.start as usize..second.end as usize], number(second.kind))
            }
            Kind::Word if self.take_word("true") => typed("true", xsd::BOOLEAN),
            Kind::Word if self.take_word("false") => typed("false", xsd::BOOLEAN),
            _ => return Ok(None),
        }))
    }

    /// Parses a string without language and type, as SEPARATOR needs it.
    pub(super) fn need_string(&mut self) -> Result<String> {
        let at = self.place();
        if self.kind() != Kind::Text {
            return Err(self.unexpected("a string"));
        }
        let literal = self.literal()?.expect("a string is a literal");
        if literal.datatype() != xsd::STRING {
            return Err(Wrong::new(at, "a string without language and type is expected"));
        }
        Ok(literal.value().to_owned())
    }

    /// Parses a variable, IRI, literal or blank node, if there is one here. `()` is the empty list.
    pub(super) fn term(&mut self) -> Result<Option<Term>> {
        let token = self.token();
        Ok(Some(match token.kind {
            Kind::Variable => match self.variable() {
                Some(var) => Term::Var(var),
                None => match self.iri()? {
                    Some(iri) => Term::Iri(iri),
                    None => return Ok(self.literal()?.map(Term::Literal)),
                },
            },
            Kind::Iri | Kind::Name => Term::Iri(self.need_iri()?),
            Kind::Blank => {
                let label = &self.slice(token)[2..];
                let blank = self.blanks.of_label(label, token.start as usize)?;
                self.skip();
                blank
            }
            Kind::BracketOpen if self.second() == Kind::BracketClose => {
                self.skip();
                self.skip();
                self.blanks.fresh()
            }
            Kind::Open if self.second() == Kind::Close => {
                self.skip();
                self.skip();
                Term::Iri(oxrdf::vocab::rdf::NIL.into_owned())
            }
            _ => return Ok(self.literal()?.map(Term::Literal)),
        }))
    }
}
