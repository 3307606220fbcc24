//! The text of an XML literal: Exclusive XML Canonicalization 1.0 with comments, of the content of an element.

use super::xml::{Event, Name, Start};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// A literal as far as it was read.
#[derive(Default)]
pub(super) struct XmlLiteral {
    written: String,
    /// The open elements in written form, and the number of namespaces declared by each.
    open: Vec<(String, usize)>,
    /// The namespaces declared around the text, by prefix; below, the earlier namespace of each redeclared prefix.
    declared: BTreeMap<Arc<str>, Arc<str>>,
    before: Vec<(Arc<str>, Option<Arc<str>>)>,
}

fn written(name: &Name) -> String {
    match &*name.prefix {
        "" => name.local.to_string(),
        prefix => format!("{prefix}:{}", name.local),
    }
}

fn escape(text: &str, is_attribute: bool, into: &mut String) {
    for character in text.chars() {
        match character {
            '&' => into.push_str("&amp;"),
            '<' => into.push_str("&lt;"),
            '>' if !is_attribute => into.push_str("&gt;"),
            '"' if is_attribute => into.push_str("&quot;"),
            '\t' if is_attribute => into.push_str("&#x9;"),
            '\n' if is_attribute => into.push_str("&#xA;"),
            '\r' => into.push_str("&#xD;"),
            other => into.push(other),
        }
    }
}

impl XmlLiteral {
    /// Writes content; not the end of an element.
    pub(super) fn write(&mut self, content: &Event) {
        match content {
            Event::Start(start) => self.start(start),
            Event::Text(text) => escape(text, false, &mut self.written),
            Event::Comment(text) => self.written.extend(["<!--", text, "-->"]),
            Event::Instruction(target, text) => {
                let blank = if text.is_empty() { "" } else { " " };
                self.written.extend(["<?", target, blank, text, "?>"]);
            }
            Event::End | Event::Eof => {}
        }
    }

    fn start(&mut self, start: &Start) {
        let name = written(&start.name);
        write!(self.written, "<{name}").expect("a string takes everything");
        // An element declares the namespaces of the prefixes it uses.
        let mut used: BTreeMap<&Arc<str>, &Arc<str>> = BTreeMap::new();
        used.insert(&start.name.prefix, &start.name.space);
        used.extend(
            start
                .attributes
                .iter()
                .map(|(name, _)| (&name.prefix, &name.space))
                .filter(|(prefix, _)| !prefix.is_empty()),
        );
        let mut count = 0;
        for (prefix, space) in used {
            let is_known = match self.declared.get(prefix) {
                Some(known) => known == space,
                None => prefix.is_empty() && space.is_empty(),
            };
            if &**prefix == "xml" || is_known {
                continue;
            }
            let colon = if prefix.is_empty() { "" } else { ":" };
            write!(self.written, " xmlns{colon}{prefix}=\"").expect("a string takes everything");
            escape(space, true, &mut self.written);
            self.written.push('"');
            let before = self.declared.insert(Arc::clone(prefix), Arc::clone(space));
            self.before.push((Arc::clone(prefix), before));
            count += 1;
        }
        let mut attributes: Vec<_> = start.attributes.iter().collect();
        attributes.sort_by(|(a, _), (b, _)| (&a.space, &a.local).cmp(&(&b.space, &b.local)));
        for (name, value) in attributes {
            write!(self.written, " {}=\"", written(name)).expect("a string takes everything");
            escape(value, true, &mut self.written);
            self.written.push('"');
        }
        self.written.push('>');
        self.open.push((name, count));
    }

    /// The end of an element; false if none is open in the literal.
    pub(super) fn end(&mut self) -> bool {
        let Some((name, count)) = self.open.pop() else { return false };
        write!(self.written, "</{name}>").expect("a string takes everything");
        for _ in 0..count {
            let (prefix, before) = self.before.pop().expect("it was declared");
            match before {
                Some(before) => self.declared.insert(prefix, before),
                None => self.declared.remove(&prefix),
            };
        }
        true
    }

    pub(super) fn finish(self) -> String {
        self.written
    }
}
