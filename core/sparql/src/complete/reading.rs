//! Reads an unfinished text as far as possible: its prefixes, its variables, triples, and the next expected item.

use super::KNOWN_PREFIXES;
use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Clone, Debug)]
pub(super) struct Token<'a> {
    kind: TokenKind<'a>,
    pub(super) range: Range<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TokenKind<'a> {
    /// Without its brackets.
    Iri(&'a str),
    /// A prefixed name.
    Name(&'a str, &'a str),
    /// With its sign.
    Variable(&'a str),
    Word(&'a str),
    Literal(&'a str),
    Sign(char),
}

impl Token<'_> {
    pub(super) fn is_word(&self) -> bool {
        !matches!(self.kind, TokenKind::Sign(_))
    }
}

/// Cuts any text into tokens.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let (mut tokens, mut at) = (Vec::new(), 0);
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '%' | '\\');
    while at < text.len() {
        let rest = &text[at..];
        let first = rest.chars().next().expect("there is more");
        let length = match first {
            c if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            '#' => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            '<' => {
                let end = rest[1..]
                    .find(|c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"' | '{' | '}'))
                    .map(|end| end + 1);
                let end = end.unwrap_or(rest.len());
                match rest.as_bytes().get(end) {
                    Some(b'>') => end + 1,
                    // An IRI being typed, or a sign of comparison.
                    _ if end > 1 && !rest.starts_with("<=") => end,
                    _ => 1,
                }
            }
            '?' | '$' => 1 + rest[1..].find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len() - 1),
            '"' | '\'' => {
                let long = rest.starts_with("\"\"\"") || rest.starts_with("'''");
                let mark = &rest[..if long { 3 } else { 1 }];
                let (mut end, mut escaped) = (mark.len(), false);
                loop {
                    let left = &rest[end..];
                    match left.chars().next() {
                        None => break end,
                        Some('\n') if !long => break end,
                        Some(_) if !escaped && left.starts_with(mark) => break end + mark.len(),
                        Some(c) => {
                            escaped = !escaped && c == '\\';
                            end += c.len_utf8();
                        }
                    }
                }
            }
            c if c.is_alphanumeric() || c == '_' || c == ':' => {
                let end = rest.find(|c: char| !(is_name(c) || c == ':')).unwrap_or(rest.len());
                // A dot at a name's end ends a triple.
                rest[..end].trim_end_matches('.').len().max(1)
            }
            c => c.len_utf8(),
        };
        let word = &rest[..length];
        let kind = match first {
            '<' if length > 1 => TokenKind::Iri(word[1..].trim_end_matches('>')),
            '?' | '$' if length > 1 || bytes.get(at + 1).is_none_or(|next| next.is_ascii_whitespace()) => {
                TokenKind::Variable(word)
            }
            '"' | '\'' => TokenKind::Literal(word),
            c if c.is_ascii_digit() => TokenKind::Literal(word),
            c if c.is_alphanumeric() || c == '_' || c == ':' => match word.split_once(':') {
                Some((prefix, local)) => TokenKind::Name(prefix, local),
                None => TokenKind::Word(word),
            },
            c => TokenKind::Sign(c),
        };
        tokens.push(Token { kind, range: at..at + length });
        at += length;
    }
    tokens
}

/// The next item in a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    Subject,
    Predicate,
    /// Further along a path, from unnamed nodes.
    Path,
    Object,
    /// Behind a triple.
    Sign,
    Graph,
    Expression,
    /// Outside of groups.
    Word,
}

/// A term as it is written, with prefixes resolved.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Named {
    Iri(String),
    Variable(String),
    /// A blank node in brackets, by its place.
    Blank(usize),
    Other,
}

/// A triple as it is written.
pub(super) struct Triple {
    subject: Named,
    predicate: Named,
    object: Named,
    /// The step that leads to the object: the predicate, or a path's last one.
    step: Option<Named>,
}

struct Level {
    next: Next,
    subject: Option<Named>,
    predicate: Option<Named>,
    /// The last step of the predicate or path so far, if it leads forwards.
    step: Option<Named>,
    /// The next step leads backwards.
    is_inverse: bool,
    /// How many brackets of expressions are open.
    brackets: usize,
}

/// The content of a text.
pub(super) struct Reading {
    pub(super) prefixes: BTreeMap<String, String>,
    pub(super) variables: Vec<String>,
    triples: Vec<Triple>,
    /// At the cursor.
    pub(super) next: Next,
    pub(super) subject: Option<Named>,
    pub(super) predicate: Option<Named>,
    /// Along a path: the step before, if it leads forwards.
    pub(super) step: Option<Named>,
    pub(super) in_graph: bool,
}

impl Reading {
    /// `typed` is the start of the word being typed. This word has no meaning yet.
    pub(super) fn of(tokens: &[Token<'_>], typed: Option<usize>, cursor: usize) -> Reading {
        let mut prefixes: BTreeMap<String, String> = BTreeMap::new();
        for three in tokens.windows(3) {
            if let [
                Token { kind: TokenKind::Word(word), .. },
                Token { kind: TokenKind::Name(name, ""), .. },
                Token { kind: TokenKind::Iri(iri), .. },
            ] = three
                && word.eq_ignore_ascii_case("prefix")
            {
                prefixes.insert((*name).to_owned(), (*iri).to_owned());
            }
        }
        let mut variables: Vec<String> = Vec::new();
        let mut reading = Reading {
            prefixes,
            variables: Vec::new(),
            triples: Vec::new(),
            next: Next::Word,
            subject: None,
            predicate: None,
            step: None,
            in_graph: false,
        };
        let mut levels: Vec<Level> = Vec::new();
        let mut graphs: Vec<bool> = Vec::new();
        let (mut is_seen, mut after_graph, mut skips_iri) = (false, false, false);
        let mut last_word = String::new();
        for token in tokens {
            if !is_seen && token.range.start >= typed.unwrap_or(cursor) {
                is_seen = true;
                reading.look(&levels, &graphs, &last_word, after_graph);
            }
            if Some(token.range.start) == typed {
                continue;
            }
            if let TokenKind::Variable(name) = token.kind
                && name.len() > 1
                && !variables.iter().any(|each| each == name)
            {
                variables.push(name.to_owned());
            }
            let number = token.range.start;
            match token.kind {
                TokenKind::Sign('{') => {
                    levels.push(Level::new(Next::Subject, None));
                    graphs.push(std::mem::take(&mut after_graph) || graphs.last().is_some_and(|graph| *graph));
                }
                TokenKind::Sign('}') => {
                    levels.pop();
                    graphs.pop();
                    if let Some(level) = levels.last_mut().filter(|level| level.next != Next::Expression) {
                        level.next = Next::Subject;
                    }
                }
                TokenKind::Sign('[') => {
                    if let Some(level) = levels.last_mut().filter(|level| level.next != Next::Expression) {
                        level.take(Named::Blank(number), &mut reading.triples);
                        levels.push(Level::new(Next::Predicate, Some(Named::Blank(number))));
                        graphs.push(graphs.last().is_some_and(|graph| *graph));
                    }
                }
                TokenKind::Sign(']') => {
                    if levels.len() > 1
                        && matches!(levels.last(), Some(level) if matches!(level.subject, Some(Named::Blank(_))))
                    {
                        levels.pop();
                        graphs.pop();
                    }
                }
                TokenKind::Sign(sign) => {
                    if let Some(level) = levels.last_mut() {
                        level.sign(sign);
                    }
                }
                TokenKind::Word(word) => {
                    let upper = word.to_ascii_uppercase();
                    skips_iri = matches!(upper.as_str(), "PREFIX" | "BASE" | "FROM" | "NAMED");
                    if let Some(level) = levels.last_mut() {
                        after_graph |= level.word(word, &upper, &mut reading.triples);
                    }
                    last_word = upper;
                    continue;
                }
                TokenKind::Iri(_) | TokenKind::Name(..) if skips_iri || levels.is_empty() => {}
                TokenKind::Iri(_) | TokenKind::Name(..) | TokenKind::Variable(_) | TokenKind::Literal(_) => {
                    let term = reading.named(token.kind);
                    if let Some(level) = levels.last_mut() {
                        level.take(term, &mut reading.triples);
                    }
                }
            }
            last_word.clear();
        }
        if !is_seen {
            reading.look(&levels, &graphs, &last_word, after_graph);
        }
        reading.variables = variables;
        reading
    }

    /// Finds the next expected item.
    fn look(&mut self, levels: &[Level], graphs: &[bool], last_word: &str, after_graph: bool) {
        self.in_graph = graphs.last().is_some_and(|graph| *graph);
        match levels.last() {
            None => {
                self.next = if matches!(last_word, "FROM" | "NAMED" | "GRAPH" | "INTO" | "WITH" | "USING") {
                    Next::Graph
                } else {
                    Next::Word
                }
            }
            Some(level) => {
                self.next = if after_graph && level.next == Next::Graph { Next::Graph } else { level.next };
                self.subject.clone_from(&level.subject);
                self.predicate.clone_from(&level.predicate);
                self.step.clone_from(&level.step);
            }
        }
    }

    fn named(&self, kind: TokenKind<'_>) -> Named {
        match kind {
            TokenKind::Iri(iri) => Named::Iri(iri.to_owned()),
            TokenKind::Variable(name) => Named::Variable(name[1..].to_owned()),
            TokenKind::Name("_", local) => Named::Variable(format!("_:{local}")),
            TokenKind::Name(prefix, local) => match self.prefixes.get(prefix) {
                Some(iri) => Named::Iri(format!("{iri}{local}")),
                None => match KNOWN_PREFIXES.iter().find(|(name, _)| *name == prefix) {
                    Some((_, iri)) => Named::Iri(format!("{iri}{local}")),
                    None => Named::Other,
                },
            },
            _ => Named::Other,
        }
    }

    /// The statements on a subject: its predicates, and its classes.
    pub(super) fn said_of<'a>(&'a self, subject: &'a Named) -> impl Iterator<Item = (&'a str, Option<&'a str>)> {
        self.triples.iter().filter(move |each| each.subject == *subject).filter_map(|each| match &each.predicate {
            Named::Iri(predicate) if predicate == oxrdf::vocab::rdf::TYPE.as_str() => match &each.object {
                Named::Iri(class) => Some((predicate.as_str(), Some(class.as_str()))),
                _ => Some((predicate.as_str(), None)),
            },
            Named::Iri(predicate) => Some((predicate.as_str(), None)),
            _ => None,
        })
    }

    /// The predicates with this term as their object.
    pub(super) fn lead_to<'a>(&'a self, object: &'a Named) -> impl Iterator<Item = &'a str> {
        self.triples.iter().filter(move |each| each.object == *object).filter_map(|each| match &each.step {
            Some(Named::Iri(step)) => Some(step.as_str()),
            _ => None,
        })
    }
}

impl Level {
    fn new(next: Next, subject: Option<Named>) -> Level {
        Level { next, subject, predicate: None, step: None, is_inverse: false, brackets: 0 }
    }

    fn sign(&mut self, sign: char) {
        match (self.next, sign) {
            (Next::Expression, '(') => self.brackets += 1,
            (Next::Expression, ')') => {
                self.brackets = self.brackets.saturating_sub(1);
                if self.brackets == 0 {
                    self.next = Next::Subject;
                }
            }
            (Next::Expression, _) => {}
            (Next::Object | Next::Sign, '/') => self.next = Next::Path,
            (Next::Object | Next::Sign, '|') => (self.next, self.step) = (Next::Path, None),
            // Such a step may be left out, or a group may end in several: what comes before it is not known.
            (Next::Object, '*' | '?' | ')') => self.step = None,
            (Next::Predicate | Next::Path, '^') => self.is_inverse = true,
            (_, '.') => self.next = Next::Subject,
            (_, ';') => self.next = Next::Predicate,
            (_, ',') => self.next = Next::Object,
            _ => {}
        }
    }

    /// Whether a graph's name comes next.
    fn word(&mut self, word: &str, upper: &str, triples: &mut Vec<Triple>) -> bool {
        match upper {
            _ if word == "a" && matches!(self.next, Next::Predicate) => {
                self.take(Named::Iri(oxrdf::vocab::rdf::TYPE.as_str().to_owned()), triples);
            }
            "FILTER" | "BIND" | "HAVING" => (self.next, self.brackets) = (Next::Expression, 0),
            "GRAPH" => {
                self.next = Next::Graph;
                return true;
            }
            "TRUE" | "FALSE" => self.take(Named::Other, triples),
            "SELECT" | "WHERE" | "VALUES" => self.next = Next::Word,
            "OPTIONAL" | "UNION" | "MINUS" | "EXISTS" | "NOT" | "SERVICE"
                if self.next != Next::Expression || self.brackets == 0 =>
            {
                self.next = Next::Subject
            }
            _ => {}
        }
        false
    }

    fn take(&mut self, term: Named, triples: &mut Vec<Triple>) {
        if matches!(self.next, Next::Predicate | Next::Path) {
            self.step = (!std::mem::take(&mut self.is_inverse)).then(|| term.clone());
        }
        self.next = match self.next {
            Next::Subject | Next::Sign => {
                self.subject = Some(term);
                Next::Predicate
            }
            Next::Predicate => {
                self.predicate = Some(term);
                Next::Object
            }
            Next::Path => {
                self.predicate = Some(Named::Other);
                Next::Object
            }
            Next::Object => {
                if let (Some(subject), Some(predicate)) = (&self.subject, &self.predicate) {
                    let (subject, predicate, step) = (subject.clone(), predicate.clone(), self.step.clone());
                    triples.push(Triple { subject, predicate, object: term, step });
                }
                Next::Sign
            }
            Next::Graph => Next::Subject,
            next @ (Next::Expression | Next::Word) => next,
        };
    }
}
