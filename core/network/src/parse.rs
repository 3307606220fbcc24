//! From a text to a network as data.

use crate::error::{NetworkError, Spot};
use crate::lex::{Word, words};
use crate::schema::schema_at;
use crate::text::{Argument, Body, BoxText, NetworkText, OnNode, PortText, Source, SubNetwork, TextParameter, ViaText};
use crate::value::{ParameterType, ParameterValue};
use std::collections::BTreeMap;
use std::str::FromStr;
use vicus_language::{similar_names, suggestion};

/// Names with a meaning of their own.
pub(crate) const RESERVED: [&str; 10] =
    ["param", "network", "box", "local", "threads", "nodes", "input", "output", "true", "false"];

/// The most bytes of a text.
const MOST_BYTES: usize = 1 << 20;

impl FromStr for NetworkText {
    type Err = NetworkError;

    /// Reads a text. Whether kinds exist and vias fit is told when it is built.
    fn from_str(source: &str) -> Result<NetworkText, NetworkError> {
        if source.len() > MOST_BYTES {
            let message = format!("the text has {} bytes, and at most {MOST_BYTES} are read", source.len());
            return Err(NetworkError::at("", Spot::default(), message));
        }
        let mut parser = Parser { source, words: words(source)?, at: 0 };
        let mut text = NetworkText { source: Source(source.to_owned()), ..NetworkText::default() };
        while parser.word() != &Word::End {
            if parser.is_keyword("param") {
                text.parameters.push(parser.parameter_line()?);
            } else if parser.is_keyword("network") {
                text.networks.push(parser.network()?);
            } else {
                parser.item(&mut text.body, "a `param`, a `network`")?;
            }
        }
        parser.unlike(text.parameters.iter().map(|one| (&one.name, one.at)), "parameter")?;
        parser.unlike(text.networks.iter().map(|one| (&one.name, one.at)), "network")?;
        parser.unlike(text.body.boxes.iter().map(|one| (&one.name, one.at)), "box")?;
        Ok(text)
    }
}

struct Parser<'s> {
    source: &'s str,
    words: Vec<(Word, Spot)>,
    at: usize,
}

impl Parser<'_> {
    fn word(&self) -> &Word {
        &self.words[self.at].0
    }

    fn spot(&self) -> Spot {
        self.words[self.at].1
    }

    /// Goes on behind the present word; the end stays.
    fn next(&mut self) -> (Word, Spot) {
        let word = self.words[self.at].clone();
        self.at = (self.at + 1).min(self.words.len() - 1);
        word
    }

    fn error(&self, message: impl Into<String>) -> NetworkError {
        NetworkError::at(self.source, self.spot(), message)
    }

    fn expected(&self, what: &str) -> NetworkError {
        self.error(format!("{what}, and here is {}", self.word().shown(self.source, self.spot())))
    }

    fn is_keyword(&self, word: &str) -> bool {
        matches!(self.word(), Word::Name(name) if name == word)
    }

    fn has(&mut self, sign: &str) -> bool {
        let has = matches!(self.word(), Word::Sign(one) if *one == sign);
        if has {
            self.next();
        }
        has
    }

    fn expect(&mut self, sign: &str, place: &str) -> Result<(), NetworkError> {
        if self.has(sign) { Ok(()) } else { Err(self.expected(&format!("`{sign}` is expected {place}"))) }
    }

    fn any_name(&mut self, what: &str) -> Result<(String, Spot), NetworkError> {
        match self.word() {
            Word::Name(_) => match self.next() {
                (Word::Name(name), spot) => Ok((name, spot)),
                _ => unreachable!("it was looked at"),
            },
            _ => Err(self.expected(&format!("{what} is expected"))),
        }
    }

    /// A name that the text chooses.
    fn own_name(&mut self, what: &str) -> Result<(String, Spot), NetworkError> {
        if let Word::Name(name) = self.word()
            && RESERVED.contains(&name.as_str())
        {
            return Err(self.error(format!("`{name}` has a meaning of its own: give {what} another name")));
        }
        self.any_name(&format!("the name of {what}"))
    }

    fn unlike<'n>(&self, names: impl Iterator<Item = (&'n String, Spot)>, what: &str) -> Result<(), NetworkError> {
        let mut seen = BTreeMap::new();
        for (name, spot) in names {
            if seen.insert(name, spot).is_some() {
                let message = format!("there are two of the name `{name}`: give this {what} another one");
                return Err(NetworkError::at(self.source, spot, message));
            }
        }
        Ok(())
    }

    fn parameter_line(&mut self) -> Result<TextParameter, NetworkError> {
        self.next();
        let parameter = self.parameter()?;
        self.expect(";", &format!("behind the parameter {}", parameter.name))?;
        Ok(parameter)
    }

    fn parameter(&mut self) -> Result<TextParameter, NetworkError> {
        let (name, at) = self.own_name("a parameter")?;
        self.expect(":", "between a parameter's name and its type")?;
        let types = ParameterType::ALL.map(ParameterType::name);
        let (written, spot) = self.any_name(&format!("a type ({})", types.join(", ")))?;
        let Some(kind) = ParameterType::ALL.into_iter().find(|kind| kind.name() == written) else {
            let likely = similar_names(&written, types.map(|name| (name, name.to_owned())));
            let all = types.join(", ");
            let message = format!("there is no type `{written}`{}; types are {all}", suggestion(&likely));
            return Err(NetworkError::at(self.source, spot, message));
        };
        let mut default = None;
        if self.has("=") {
            let spot = self.spot();
            let value = self.value()?;
            let Some(value) = value.as_type(kind) else {
                let what = value.kind().map_or("a name", ParameterType::name);
                let message = format!("the value of `{name}` is expected to be of the type {kind}, and this is {what}");
                return Err(NetworkError::at(self.source, spot, message));
            };
            default = Some(value);
        }
        Ok(TextParameter { name, kind, default, at })
    }

    fn network(&mut self) -> Result<SubNetwork, NetworkError> {
        self.next();
        let (name, at) = self.own_name("a network")?;
        let mut parameters = Vec::new();
        if self.has("(") && !self.has(")") {
            loop {
                parameters.push(self.parameter()?);
                if self.has(")") {
                    break;
                }
                self.expect(",", "or `)` behind a parameter")?;
            }
        }
        self.expect("{", &format!("before the boxes of the network {name}"))?;
        let mut body = Body::default();
        while !self.has("}") {
            self.item(&mut body, &format!("the `}}` of the network {name}"))?;
        }
        self.unlike(parameters.iter().map(|one| (&one.name, one.at)), "parameter")?;
        self.unlike(body.boxes.iter().map(|one| (&one.name, one.at)), "box")?;
        Ok(SubNetwork { name, parameters, body, at })
    }

    /// A box or a via.
    fn item(&mut self, body: &mut Body, or: &str) -> Result<(), NetworkError> {
        if self.is_keyword("box") {
            self.next();
            let one = self.one_box()?;
            self.expect(";", &format!("behind the box {}", one.name))?;
            body.boxes.push(one);
            return Ok(());
        }
        if !matches!(self.word(), Word::Name(_)) {
            return Err(self.expected(&format!("{or}, a `box` or a via (`a -> b;`) is expected")));
        }
        let mut from = self.port()?;
        let mut exchanges = self.has("=>");
        if !exchanges {
            self.expect("->", "between the sender and the receiver of a via")?;
        }
        loop {
            let to = self.port()?;
            let columns = if self.has(":") { Some(self.columns()?) } else { None };
            let keep = if self.is_keyword("keep") { Some(self.keep()?) } else { None };
            body.vias.push(ViaText { from, to: to.clone(), columns, keep, exchanges });
            exchanges = self.has("=>");
            if !exchanges && !self.has("->") {
                break;
            }
            // The next via leaves the box by its first output.
            from = PortText { number: None, ..to };
        }
        self.expect(";", "behind a via")
    }

    /// How many envelopes a via keeps.
    fn keep(&mut self) -> Result<usize, NetworkError> {
        self.next();
        match self.next() {
            (Word::Integer(value), _) if (1..=MOST_KEPT).contains(&value) => Ok(value as usize),
            (_, spot) => {
                let message =
                    format!("the number of envelopes that the via keeps is expected behind `keep`, 1 to {MOST_KEPT}");
                Err(NetworkError::at(self.source, spot, message))
            }
        }
    }

    fn port(&mut self) -> Result<PortText, NetworkError> {
        let (name, mut at) = self.any_name("the name of a box")?;
        let mut number = None;
        if self.has(".") {
            match self.next() {
                (Word::Integer(value), spot) if (0..MOST_PORTS).contains(&value) => {
                    number = Some(value as usize);
                    at.to = spot.to;
                }
                (_, spot) => {
                    let message =
                        format!("the number of a port is expected behind the `.`, from 0 to {}", MOST_PORTS - 1);
                    return Err(NetworkError::at(self.source, spot, message));
                }
            }
        }
        Ok(PortText { name, number, at })
    }

    fn one_box(&mut self) -> Result<BoxText, NetworkError> {
        let (name, at) = self.own_name("a box")?;
        self.expect("=", "between a box's name and its kind")?;
        let is_local = self.is_keyword("local");
        if is_local {
            self.next();
        }
        let (kind, kind_at) = self.own_name("a kind")?;
        let mut arguments: Vec<Argument> = Vec::new();
        if self.has("(") && !self.has(")") {
            loop {
                let (name, at) = self.any_name("the name of a parameter")?;
                self.expect(":", "between a parameter's name and its value")?;
                let value_at = self.spot();
                let value = self.value()?;
                let value_at = Spot { to: self.words[self.at - 1].1.to.max(value_at.to), ..value_at };
                arguments.push(Argument { name, value, at, value_at });
                if self.has(")") {
                    break;
                }
                self.expect(",", "or `)` behind a parameter's value")?;
            }
            self.unlike(arguments.iter().map(|one| (&one.name, one.at)), "parameter")?;
        }
        let (mut copies, mut copies_at) = (None, Spot::default());
        if self.has("*") {
            copies_at = self.spot();
            copies = match self.value()? {
                value @ (ParameterValue::Integer(_) | ParameterValue::Name(_)) => Some(value),
                _ => {
                    let message = "the number of copies is expected: an integer, a parameter, `threads` or `nodes`";
                    return Err(NetworkError::at(self.source, copies_at, message));
                }
            };
        }
        let (mut on, mut on_at) = (None, Spot::default());
        if self.is_keyword("on") {
            self.next();
            if self.is_keyword("the") {
                on_at = self.spot();
                on = Some(self.nodes_of()?);
            } else if self.is_keyword("nodes") {
                self.next();
                on_at = self.spot();
                on = Some(OnNode::These(self.nodes()?));
            } else if self.is_keyword("node") {
                self.next();
                on_at = self.spot();
                on = Some(if self.has("*") { OnNode::Each } else { OnNode::One(self.node_number()?) });
            } else {
                let expected = "`node` is expected behind `on`: `on node 1`, `on node *` for each, or `on the nodes of \
                                \"part.csv\"`";
                return Err(self.expected(expected));
            }
        }
        Ok(BoxText { name, kind, is_local, arguments, copies, on, at, kind_at, copies_at, on_at })
    }

    /// Numbers of nodes: `1, 3`.
    fn nodes(&mut self) -> Result<Vec<usize>, NetworkError> {
        let mut nodes = Vec::new();
        loop {
            match self.next() {
                (Word::Integer(node), _) if (0..MOST_PORTS).contains(&node) && !nodes.contains(&(node as usize)) => {
                    nodes.push(node as usize);
                }
                (_, spot) => {
                    let message = "numbers of nodes are expected, each once: `on nodes 1, 3`";
                    return Err(NetworkError::at(self.source, spot, message));
                }
            }
            if !self.has(",") {
                return Ok(nodes);
            }
        }
    }

    /// The nodes that have a file: `the nodes of "part.csv"`.
    fn nodes_of(&mut self) -> Result<OnNode, NetworkError> {
        for word in ["the", "nodes", "of"] {
            if !self.is_keyword(word) {
                return Err(self.expected("a file is expected: `on the nodes of \"part.csv\"`"));
            }
            self.next();
        }
        match self.next() {
            (Word::Text(file), _) => Ok(OnNode::Of(file.clone())),
            (_, spot) => {
                let message = "a file is expected: `on the nodes of \"part.csv\"`";
                Err(NetworkError::at(self.source, spot, message))
            }
        }
    }

    /// The number of a node, or the name of a parameter that has it.
    fn node_number(&mut self) -> Result<ParameterValue, NetworkError> {
        let spot = self.spot();
        match self.value()? {
            value @ (ParameterValue::Integer(_) | ParameterValue::Name(_)) => Ok(value),
            _ => {
                let message = "the number of a node is expected: an integer, a parameter, or `*` for each";
                Err(NetworkError::at(self.source, spot, message))
            }
        }
    }

    fn value(&mut self) -> Result<ParameterValue, NetworkError> {
        let value = match self.word().clone() {
            Word::Integer(value) => ParameterValue::Integer(value),
            Word::Number(value) => ParameterValue::Number(value),
            Word::Text(text) => ParameterValue::Text(text),
            Word::Sign("(") => return Ok(ParameterValue::Columns(self.columns()?)),
            Word::Name(name) => match name.as_str() {
                "true" => ParameterValue::Boolean(true),
                "false" => ParameterValue::Boolean(false),
                "threads" | "nodes" => ParameterValue::Name(name),
                reserved if RESERVED.contains(&reserved) => return Err(self.expected("a value is expected")),
                _ => ParameterValue::Name(name),
            },
            _ => {
                return Err(self.expected("a value is expected: a number, a \"text\", true, (columns) or a name"));
            }
        };
        self.next();
        Ok(value)
    }

    fn columns(&mut self) -> Result<vicus_flow::Schema, NetworkError> {
        if !matches!(self.word(), Word::Sign("(")) {
            return Err(self.expected("columns are expected, such as `(n: I64, name: Text or null)`"));
        }
        let (schema, end) = schema_at(self.source, self.spot().from)?;
        // The words of the columns, and of nothing else, begin before their end.
        while self.words[self.at].1.from < end && self.word() != &Word::End {
            self.at += 1;
        }
        Ok(schema)
    }
}

/// The most envelopes that a via keeps.
const MOST_KEPT: i64 = 1 << 16;

/// The most ports of a box.
pub(crate) const MOST_PORTS: i64 = 4096;
