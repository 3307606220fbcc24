//! A network as text.

use crate::text::{Body, BoxText, NetworkText, OnNode, PortText, SubNetwork, TextParameter, ViaText};
use crate::value::quoted;
use crate::{Kinds, schema_text};
use std::fmt;

impl NetworkText {
    /// This network with its local kinds marked as such, and no others.
    pub fn with_locals(mut self, kinds: &Kinds) -> NetworkText {
        let networks: Vec<String> = self.networks.iter().map(|network| network.name.clone()).collect();
        let bodies = self.networks.iter_mut().map(|network| &mut network.body).chain([&mut self.body]);
        for one in bodies.flat_map(|body| &mut body.boxes) {
            one.is_local = !networks.contains(&one.kind) && kinds.get(&one.kind).is_some_and(|kind| kind.is_local());
        }
        self
    }
}

impl fmt::Display for NetworkText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for parameter in &self.parameters {
            writeln!(f, "param {parameter};")?;
        }
        for network in &self.networks {
            network.fmt(f)?;
        }
        self.body.write(f, "")
    }
}

impl fmt::Display for SubNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "network {}", self.name)?;
        listed(f, &self.parameters)?;
        writeln!(f, " {{")?;
        self.body.write(f, "    ")?;
        writeln!(f, "}}")
    }
}

/// Items in brackets; nothing if there are none.
fn listed(f: &mut fmt::Formatter<'_>, items: &[impl fmt::Display]) -> fmt::Result {
    for (place, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if place == 0 { "(" } else { ", " })?;
    }
    f.write_str(if items.is_empty() { "" } else { ")" })
}

impl fmt::Display for TextParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.kind)?;
        self.default.iter().try_for_each(|value| write!(f, " = {value}"))
    }
}

impl Body {
    fn write(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        self.boxes.iter().try_for_each(|one| writeln!(f, "{indent}{one}"))?;
        self.vias.iter().try_for_each(|via| writeln!(f, "{indent}{via}"))
    }
}

impl fmt::Display for BoxText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = if self.is_local { "local " } else { "" };
        write!(f, "box {} = {local}{}", self.name, self.kind)?;
        let arguments = self.arguments.iter().map(|argument| format!("{}: {}", argument.name, argument.value));
        listed(f, &arguments.collect::<Vec<_>>())?;
        self.copies.iter().try_for_each(|copies| write!(f, " * {copies}"))?;
        match &self.on {
            None => {}
            Some(OnNode::Each) => f.write_str(" on node *")?,
            Some(OnNode::One(number)) => write!(f, " on node {number}")?,
            Some(OnNode::These(nodes)) => {
                let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
                write!(f, " on nodes {}", nodes.join(", "))?;
            }
            Some(OnNode::Of(file)) => write!(f, " on the nodes of {}", quoted(file))?,
        }
        f.write_str(";")
    }
}

impl fmt::Display for ViaText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.from, if self.exchanges { "=>" } else { "->" }, self.to)?;
        self.columns.iter().try_for_each(|columns| write!(f, " : {}", schema_text(columns)))?;
        self.keep.iter().try_for_each(|keep| write!(f, " keep {keep}"))?;
        f.write_str(";")
    }
}

impl fmt::Display for PortText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.number.iter().try_for_each(|number| write!(f, ".{number}"))
    }
}
