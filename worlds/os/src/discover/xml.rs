//! Reads and checks a machine that hwloc has captured as XML, of format 1, 2 or 3: only the parts in use here, without
//! contradictions.
//!
//! It checks the tree of objects (nesting of types, PUs and nodes as parts of their parents', duplicate numbers) and
//! the sizes of sets. Devices, attributes of memory and remarks are left out.

mod checked;

use super::shape::{FoundCache, FoundNode, Part, Shape};
use crate::set::{MOST_NUMBERS, Set, shortened};
use quick_xml::events::{BytesStart, Event};
use std::collections::BTreeSet;

/// The most bytes of all objects' sets together.
const MOST_SET_BYTES: usize = 256 << 20;
/// The deepest nesting of objects.
const DEEPEST: usize = 64;
/// The most attributes of an element; hwloc writes some twenty.
const MOST_ATTRIBUTES: usize = 256;
/// The most nodes in a matrix of distances.
const MOST_NODES: usize = 1024;
/// The largest plausible size of memory or of a cache: 64 PiB.
const MOST_BYTES: u64 = 1 << 56;

/// The reason for refusing a file, and the line.
type Wrong = String;

/// A captured machine, and the PUs that the capturing process might use.
///
/// # Errors
/// The fault in it, with its line.
pub(super) fn read(xml: &str) -> Result<(Shape, Set), Wrong> {
    let mut reader = Reader { xml, events: quick_xml::Reader::from_str(xml), at: 0, line: 1, held: 0 };
    reader.topology()
}

/// The kept attributes of an object; others are left out.
const NUMBERS: [&str; 8] =
    ["cache_size", "cache_linesize", "cache_associativity", "depth", "cache_type", "local_memory", "kind", "subkind"];
const SETS: [&str; 6] =
    ["cpuset", "complete_cpuset", "allowed_cpuset", "nodeset", "complete_nodeset", "allowed_nodeset"];
const CPUSET: usize = 0;
const COMPLETE_CPUSET: usize = 1;
const ALLOWED_CPUSET: usize = 2;
const NODESET: usize = 3;
const COMPLETE_NODESET: usize = 4;
const ALLOWED_NODESET: usize = 5;

/// The kept types of objects, by hwloc's names. `System`, `Socket` and `Cache` are of format 1.
const TYPES: [&str; 18] = [
    "Machine", "System", "Package", "Socket", "Die", "Core", "PU", "Group", "NUMANode", "MemCache", "Cache", "L5Cache",
    "L4Cache", "L3Cache", "L2Cache", "L1Cache", "L2iCache", "L1iCache",
];
/// Types left out with all their content.
const LEFT_OUT: [&str; 5] = ["Bridge", "PCIDev", "OSDev", "Misc", "L3iCache"];

struct Object {
    line: usize,
    kind: &'static str,
    os_index: Option<u32>,
    sets: [Option<Set>; 6],
    numbers: [Option<i64>; 8],
    subtype: Option<String>,
    children: Vec<Object>,
}

impl Object {
    fn set(&self, which: usize) -> Option<&Set> {
        self.sets[which].as_ref()
    }

    /// The object without its children.
    fn without_children(&self) -> Object {
        let Object { line, kind, os_index, ref sets, numbers, ref subtype, .. } = *self;
        Object { line, kind, os_index, sets: sets.clone(), numbers, subtype: subtype.clone(), children: Vec::new() }
    }

    fn is_memory(&self) -> bool {
        matches!(self.kind, "NUMANode" | "MemCache")
    }

    /// A cache's level, and whether it is for instructions.
    fn cache(&self) -> Option<(u8, bool)> {
        let name = self.kind.strip_suffix("Cache")?;
        let digit = name.strip_prefix('L')?;
        Some((digit.as_bytes()[0] - b'0', digit.ends_with('i')))
    }
}

/// A matrix between nodes.
struct Distances {
    name: Option<String>,
    kind: u32,
    nodes: Vec<u32>,
    values: Vec<u64>,
}

struct CpuKind {
    set: Set,
    efficiency: Option<u32>,
    infos: Vec<(String, String)>,
}

struct Reader<'a> {
    xml: &'a str,
    events: quick_xml::Reader<&'a [u8]>,
    /// The byte up to which lines were counted.
    at: usize,
    line: usize,
    /// Bytes of the sets so far.
    held: usize,
}

/// The start of an element, or its end.
enum Next<'a> {
    Start(BytesStart<'a>, bool),
    Text(String),
    End,
    Eof,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Next<'a>, Wrong> {
        loop {
            let event = self.events.read_event();
            let position = (self.events.buffer_position() as usize).min(self.xml.len());
            self.line += self.xml.as_bytes()[self.at..position.max(self.at)].iter().filter(|&&b| b == b'\n').count();
            self.at = position.max(self.at);
            match event.map_err(|error| self.wrong(error))? {
                Event::Start(tag) => return Ok(Next::Start(tag, true)),
                Event::Empty(tag) => return Ok(Next::Start(tag, false)),
                Event::End(_) => return Ok(Next::End),
                Event::Text(text) => {
                    return Ok(Next::Text(String::from_utf8_lossy(&text).into_owned()));
                }
                Event::Eof => return Ok(Next::Eof),
                _ => {}
            }
        }
    }

    /// The next element inside of one; `None` at its end, and for a closed one.
    fn inside(&mut self, is_open: bool) -> Result<Option<(BytesStart<'a>, bool)>, Wrong> {
        if !is_open {
            return Ok(None);
        }
        loop {
            match self.next()? {
                Next::Start(tag, is_open) => return Ok(Some((tag, is_open))),
                Next::Text(_) => {}
                Next::End => return Ok(None),
                Next::Eof => return Err(self.wrong("the file ends inside of an element")),
            }
        }
    }

    fn wrong(&self, what: impl std::fmt::Display) -> Wrong {
        format!("line {}: {what}", self.line)
    }

    /// Leaves out the content of an element, if it is well-formed.
    fn leave_out(&mut self, tag: &BytesStart<'_>, is_open: bool) -> Result<(), Wrong> {
        self.attributes(tag)?;
        let mut depth = usize::from(is_open);
        while depth > 0 {
            match self.next()? {
                Next::Start(tag, is_open) => {
                    self.attributes(&tag)?;
                    depth += usize::from(is_open);
                }
                Next::End => depth -= 1,
                Next::Text(_) => {}
                Next::Eof => return Err(self.wrong("the file ends inside of an element")),
            }
        }
        Ok(())
    }

    fn attributes(&self, tag: &BytesStart<'_>) -> Result<Vec<(String, String)>, Wrong> {
        let attribute = |attribute: Result<quick_xml::events::attributes::Attribute<'_>, _>| {
            let attribute = attribute.map_err(|error| self.wrong(error))?;
            let value = attribute.unescape_value().map_err(|error| self.wrong(error))?;
            Ok((String::from_utf8_lossy(attribute.key.as_ref()).into_owned(), value.into_owned()))
        };
        // The reader compares each with all before it.
        let all: Result<Vec<_>, Wrong> = tag.attributes().take(MOST_ATTRIBUTES + 1).map(attribute).collect();
        let all = all?;
        if all.len() > MOST_ATTRIBUTES {
            return Err(self.wrong(format!("an element has more than {MOST_ATTRIBUTES} attributes")));
        }
        Ok(all)
    }

    fn topology(&mut self) -> Result<(Shape, Set), Wrong> {
        let (tag, is_open) = loop {
            match self.next()? {
                Next::Start(tag, is_open) => break (tag, is_open),
                Next::Text(text) if text.trim_matches(['\u{feff}', ' ', '\n', '\r', '\t']).is_empty() => {}
                Next::Eof => return Err("it has no element `topology`".to_owned()),
                Next::Text(_) | Next::End => return Err(self.wrong("expected the element `topology`")),
            }
        };
        if tag.name().as_ref() != b"topology" {
            return Err(self.wrong("expected one element `topology` around all others"));
        }
        let attributes = self.attributes(&tag)?;
        let version = attributes.iter().find(|(name, _)| name == "version").map(|(_, value)| value.as_str());
        let is_old = match version.map(|version| version.split('.').next().unwrap_or_default()) {
            None | Some("0" | "1") => true,
            Some("2" | "3") => false,
            Some(_) => return Err(self.wrong("expected a version from 1 to 3 of hwloc's format")),
        };
        let (mut root, mut distances, mut kinds) = (None, Vec::new(), Vec::new());
        while let Some((tag, is_open)) = self.inside(is_open)? {
            match tag.name().as_ref() {
                b"object" if root.is_none() => root = self.object(&tag, is_open, 0)?,
                b"object" => return Err(self.wrong("expected one object around all others")),
                b"distances2" => distances.extend(self.distances(&tag, is_open)?),
                b"cpukind" => kinds.push(self.cpu_kind(&tag, is_open)?),
                _ => self.leave_out(&tag, is_open)?,
            }
        }
        loop {
            match self.next()? {
                Next::Eof => break,
                Next::Start(..) => return Err(self.wrong("expected one element `topology` around all others")),
                Next::Text(_) | Next::End => {}
            }
        }
        let root = root.ok_or("it has no object")?;
        let root = if is_old { checked::renewed(root)? } else { root };
        let nodes = checked::check(&root)?;
        if !distances.iter().all(|matrix| matrix.nodes.iter().all(|node| nodes.contains(node))) {
            return Err("it has distances of a NUMA node that it does not have".to_owned());
        }
        let all = root.set(COMPLETE_CPUSET).or(root.set(CPUSET)).cloned().unwrap_or_default();
        kinds.retain(|kind: &CpuKind| !kind.set.is_empty());
        if kinds.iter().any(|kind| !kind.set.is_in(&all)) {
            return Err("it has a kind of PUs that it does not have".to_owned());
        }
        Ok(shape(&root, distances, &kinds))
    }

    fn object(&mut self, tag: &BytesStart<'_>, is_open: bool, depth: usize) -> Result<Option<Object>, Wrong> {
        let line = self.line;
        if depth > DEEPEST {
            return Err(self.wrong(format!("more than {DEEPEST} objects within one another")));
        }
        let attributes = self.attributes(tag)?;
        let kind = attributes.iter().find(|(name, _)| name == "type").map_or("", |(_, value)| value);
        if LEFT_OUT.contains(&kind) {
            return self.leave_out(tag, is_open).map(|()| None);
        }
        let known = TYPES.iter().find(|name| **name == kind);
        let kind = *known.ok_or_else(|| self.wrong(format!("there is no type `{}` of objects", shortened(kind))))?;
        let mut object = Object {
            line,
            kind,
            os_index: None,
            sets: Default::default(),
            numbers: [None; 8],
            subtype: None,
            children: Vec::new(),
        };
        for (name, value) in &attributes {
            let number =
                || value.parse::<i64>().map_err(|_| self.wrong(format!("{name}: `{}` is no number", shortened(value))));
            if let Some(at) = SETS.iter().position(|set| set == name) {
                // In format 1, all nodes there may ever be.
                if value.starts_with("0xf...f") && at >= NODESET {
                    continue;
                }
                let set = Set::parse(value).map_err(|what| self.wrong(format!("{name}: {what}")))?;
                object.sets[at] = Some(set);
            } else if let Some(at) = NUMBERS.iter().position(|number| number == name) {
                let number = number()?;
                // hwloc writes -1 for a fully associative cache.
                let least = if name == "cache_associativity" { -1 } else { 0 };
                let most = if at == 0 || name == "local_memory" { MOST_BYTES as i64 } else { 1 << 30 };
                if !(least..=most).contains(&number) {
                    return Err(self.wrong(format!("{name}: expected {least} to {most}")));
                }
                object.numbers[at] = Some(number);
            } else if name == "os_index" {
                let number = u32::try_from(number()?).ok().filter(|&number| number < MOST_NUMBERS || kind != "PU");
                let number =
                    number.ok_or_else(|| self.wrong(format!("os_index: expected 0 to {}", MOST_NUMBERS - 1)))?;
                object.os_index = Some(number);
            } else if name == "subtype" {
                object.subtype = Some(self.word(name, value)?);
            }
        }
        // Each of the six counts as long as the longest.
        self.held += 6 * 4 * object.sets.iter().flatten().map(Set::words).max().unwrap_or(0) + size_of::<Object>();
        if self.held > MOST_SET_BYTES {
            return Err(self.wrong(format!("its objects' sets take more than {} MiB", MOST_SET_BYTES >> 20)));
        }
        while let Some((tag, is_open)) = self.inside(is_open)? {
            if tag.name().as_ref() == b"object" {
                let child = self.object(&tag, is_open, depth + 1)?;
                object.children.extend(child);
            } else {
                self.leave_out(&tag, is_open)?;
            }
        }
        Ok(Some(object))
    }

    /// A short text without anything special.
    fn word(&self, name: &str, value: &str) -> Result<String, Wrong> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || " _-+./:".contains(c);
        if value.len() > 64 || !value.chars().all(is_plain) {
            return Err(self.wrong(format!("{name}: `{}` is no word", shortened(value))));
        }
        Ok(value.to_owned())
    }

    /// A matrix of distances; `None` if it is not one between nodes by the system's numbers.
    fn distances(&mut self, tag: &BytesStart<'_>, is_open: bool) -> Result<Option<Distances>, Wrong> {
        let attributes = self.attributes(tag)?;
        let of = |wanted: &str| attributes.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        if of("type") != Some("NUMANode") || of("indexing") != Some("os") || !is_open {
            return self.leave_out(tag, is_open).map(|()| None);
        }
        let count = of("nbobjs")
            .and_then(|count| count.parse::<usize>().ok())
            .filter(|&count| (1..=MOST_NODES).contains(&count));
        let count = count.ok_or_else(|| self.wrong(format!("nbobjs: expected 1 to {MOST_NODES}")))?;
        // From the system or the user; latency or bandwidth; of several types or not.
        let kind = of("kind").and_then(|kind| kind.parse::<u32>().ok()).filter(|&kind| kind < 32);
        let kind = kind.ok_or_else(|| self.wrong("kind: expected 0 to 31"))?;
        let name = of("name").map(|name| self.word("name", name)).transpose()?;
        let (mut nodes, mut values): (Vec<u32>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut inside = None;
        loop {
            match self.next()? {
                Next::Start(tag, is_open) => {
                    if inside.is_some() {
                        return Err(self.wrong("expected numbers"));
                    }
                    inside = is_open.then(|| tag.name().as_ref().to_vec());
                }
                Next::Text(text) => {
                    let numbers = text.split_ascii_whitespace().map(|word| {
                        word.parse::<u64>().map_err(|_| self.wrong(format!("`{}` is no number", shortened(word))))
                    });
                    match inside.as_deref() {
                        Some(b"indexes") => {
                            for number in numbers {
                                let node = u32::try_from(number?).map_err(|_| self.wrong("there is no such node"))?;
                                nodes.push(node);
                            }
                        }
                        Some(b"u64values") => {
                            for number in numbers {
                                values.push(number?);
                            }
                        }
                        _ => {}
                    }
                    if nodes.len() > count || values.len() > count * count {
                        return Err(self.wrong(format!("more than {count} nodes, or than the distances between them")));
                    }
                }
                Next::End if inside.take().is_some() => {}
                Next::End => break,
                Next::Eof => return Err(self.wrong("the file ends inside of an element")),
            }
        }
        let different: BTreeSet<u32> = nodes.iter().copied().collect();
        if different.len() != count || values.len() != count * count {
            return Err(self.wrong(format!("expected {count} different nodes and all distances between them")));
        }
        Ok(Some(Distances { name, kind, nodes, values }))
    }

    fn cpu_kind(&mut self, tag: &BytesStart<'_>, is_open: bool) -> Result<CpuKind, Wrong> {
        let attributes = self.attributes(tag)?;
        let mut kind = CpuKind { set: Set::default(), efficiency: None, infos: Vec::new() };
        for (name, value) in &attributes {
            match name.as_str() {
                "cpuset" => kind.set = Set::parse(value).map_err(|what| self.wrong(format!("cpuset: {what}")))?,
                "forced_efficiency" => {
                    let number = value.parse::<u32>().ok().filter(|&number| number < 1 << 20);
                    kind.efficiency =
                        Some(number.ok_or_else(|| self.wrong("forced_efficiency: expected a small number"))?);
                }
                _ => {}
            }
        }
        while let Some((tag, is_open)) = self.inside(is_open)? {
            let attributes = self.attributes(&tag)?;
            let of = |wanted| attributes.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
            if let (b"info", Some(name), Some(value)) = (tag.name().as_ref(), of("name"), of("value")) {
                // hwloc's attributes for ranking kinds; others are refused.
                let is_number = matches!(name.as_str(), "FrequencyMaxMHz" | "FrequencyBaseMHz" | "LinuxCapacity");
                if is_number && value.parse::<u32>().is_err() {
                    return Err(self.wrong(format!("{name}: `{}` is no number", shortened(value))));
                }
                if is_number || name == "CoreType" {
                    kind.infos.push((name.clone(), self.word(name, value)?));
                }
            }
            self.leave_out(&tag, is_open)?;
        }
        Ok(kind)
    }
}

/// The machine's parts, in the order of the file.
fn shape(root: &Object, distances: Vec<Distances>, kinds: &[CpuKind]) -> (Shape, Set) {
    let mut shape = Shape { pus: root.set(CPUSET).cloned().unwrap_or_default(), ..Shape::default() };
    add(root, &mut shape);
    // By name first: memory attributes of the firmware can come as a second latency matrix, in nanoseconds.
    const MEANS_LATENCY: u32 = 1 << 2;
    let named = distances.iter().position(|matrix| matrix.name.as_deref() == Some("NUMALatency"));
    let chosen = named.or_else(|| distances.iter().position(|matrix| matrix.kind & MEANS_LATENCY != 0));
    let chosen = chosen.and_then(|at| distances.into_iter().nth(at));
    shape.distances = chosen.map(|Distances { nodes, values, .. }| (nodes, values));
    shape.kinds = ranked(kinds);
    let allowed = root.set(ALLOWED_CPUSET).cloned().unwrap_or_default();
    (shape, allowed)
}

fn add(object: &Object, shape: &mut Shape) {
    let pus = object.set(CPUSET).cloned().unwrap_or_default();
    // PUs that are offline count for the order, as they do in hwloc.
    let first = object.set(COMPLETE_CPUSET).map_or(u32::MAX, Set::first);
    let part = Part { pus, first };
    match (object.kind, object.cache()) {
        ("PU", _) => {}
        ("Core", _) => shape.cores.push((part, object.os_index)),
        ("NUMANode", _) => {
            // Memory for use by name only has a subtype of its own.
            let is_special = object.subtype.as_deref().is_some_and(|subtype| subtype != "DRAM");
            let bytes = object.numbers[5].unwrap_or(0).cast_unsigned();
            let (os_index, own) = (object.os_index.unwrap_or(0), part.pus.clone());
            shape.nodes.push(FoundNode { os_index, bytes, own, near: part, is_special, ..FoundNode::default() });
        }
        // Of Knights Landing, in files of format 1: a cache of memory.
        (_, Some(_)) if object.subtype.as_deref() == Some("MemorySideCache") => {}
        (_, Some((level, false))) => {
            let bytes = object.numbers[0].unwrap_or(0).cast_unsigned();
            shape.caches.push(FoundCache { part, level, bytes, from: format!("line {}", object.line) });
        }
        ("MemCache", _) | (_, Some(_)) => {}
        _ => shape.parts.push(part),
    }
    object.children.iter().for_each(|child| add(child, shape));
}

/// Kinds of PUs with their ranks, the slowest first, as hwloc ranks them: by efficiencies that were given, or else by
/// Intel's types of cores and frequencies. None without a distinct value for each.
fn ranked(kinds: &[CpuKind]) -> Vec<(Set, u32)> {
    let info = |kind: &CpuKind, name: &str| -> u64 {
        let value = kind.infos.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
        match value {
            Some("IntelLowPower") => 1,
            Some("IntelAtom") => 2,
            Some("IntelCore") => 3,
            Some(number) => number.parse().unwrap_or(0),
            None => 0,
        }
    };
    let efficiencies: Option<Vec<u64>> = kinds.iter().map(|kind| kind.efficiency.map(u64::from)).collect();
    let all_have = |name: &str| kinds.iter().all(|kind| info(kind, name) > 0);
    let by_info = || -> Option<Vec<u64>> {
        let frequency = if all_have("FrequencyBaseMHz") { "FrequencyBaseMHz" } else { "FrequencyMaxMHz" };
        let known = all_have("CoreType") || all_have(frequency);
        known.then(|| kinds.iter().map(|kind| (info(kind, "CoreType") << 20) + info(kind, frequency)).collect())
    };
    let distinct = |values: &Vec<u64>| values.iter().collect::<BTreeSet<_>>().len() == kinds.len();
    let values = efficiencies.filter(distinct).or_else(|| by_info().filter(distinct)).unwrap_or_default();
    let rank = |value: &u64| values.iter().filter(|other| *other < value).count() as u32;
    kinds.iter().zip(&values).map(|(kind, value)| (kind.set.clone(), rank(value))).collect()
}
