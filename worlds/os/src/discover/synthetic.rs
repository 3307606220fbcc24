//! hwloc's synthetic descriptions: a machine in one line, with sizes, numbers and attached memory
//! (`package:2 [numanode(memory=16GB)] l3:1(size=8MB) core:4 pu:2`). What is left out of hwloc's form: numbers given by
//! an interleaving (`indexes=core:pu`), and memory-side caches.

use super::shape::{FoundCache, FoundNode, Shape};
use crate::set::{MOST_NUMBERS, Set, shortened};
use std::cmp::Reverse;

/// The most objects of the lowest level.
pub(super) const MOST_PUS: usize = 65536;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Node,
    Package,
    Die,
    Group,
    /// A level, and whether it is for instructions.
    Cache(u8, bool),
    Core,
    Pu,
}

struct Level {
    kind: Option<Kind>,
    /// How many there are in all.
    count: usize,
    bytes: Option<u64>,
    indexes: Option<Vec<u32>>,
}

/// Nodes attached to each object of a level.
struct Attached {
    /// How many objects there are.
    count: usize,
    bytes: Option<u64>,
}

/// Reads the line.
///
/// # Errors
/// What was expected in it, and where.
pub(super) fn read(line: &str) -> Result<Shape, String> {
    let mut rest = line.trim();
    let (mut levels, mut attached): (Vec<Level>, Vec<Attached>) = (Vec::new(), Vec::new());
    let mut attached_indexes = None;
    // Of the whole machine.
    if rest.starts_with('(') {
        rest = attributes(rest)?.2;
    }
    while !rest.trim_start().is_empty() {
        rest = rest.trim_start();
        let total = levels.last().map_or(1, |level: &Level| level.count);
        if let Some(inside) = rest.strip_prefix('[') {
            let Some((inside, after)) = inside.split_once(']') else {
                return Err(format!("a `]` after `{}`", shortened(inside)));
            };
            let (name, with) = inside.find('(').map_or((inside, ""), |at| inside.split_at(at));
            if kind(name.trim()) != Some(Kind::Node) {
                return Err(format!("numanode instead of `{}`: only memory is attached", shortened(name)));
            }
            let (bytes, indexes, _) = attributes(with)?;
            attached_indexes = indexes.or(attached_indexes);
            attached.push(Attached { count: total, bytes });
            rest = after;
            continue;
        }
        let end = rest.find([' ', '\n', '\t', '(', '[']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let (name, count) = word.split_once(':').unwrap_or(("", word));
        let kind = if name.is_empty() { None } else { Some(kind(name).ok_or_else(|| unknown(name))?) };
        let count = count.parse::<usize>().ok().filter(|&count| count > 0);
        let count =
            count.ok_or_else(|| format!("a kind, a colon and a number above 0 instead of `{}`", shortened(word)))?;
        let count = total.checked_mul(count).filter(|&count| count <= MOST_PUS);
        let count = count.ok_or_else(|| format!("at most {MOST_PUS} PUs"))?;
        let (bytes, indexes, after) = attributes(after)?;
        levels.push(Level { kind, count, bytes, indexes });
        rest = after;
    }
    name_levels(&mut levels, attached.is_empty())?;
    shape(levels, attached, attached_indexes)
}

fn unknown(name: &str) -> String {
    format!("one of node, package, die, group, l1 to l5, core, pu instead of `{}`", shortened(name))
}

/// A kind by hwloc's names, which may be shortened.
fn kind(name: &str) -> Option<Kind> {
    let name = name.to_ascii_lowercase();
    if let Some(cache) = name.strip_prefix('l') {
        let level = cache.bytes().next().filter(|level| (b'1'..=b'5').contains(level))? - b'0';
        let form = &cache[1..];
        let is_cache = ["", "d", "u", "i", "cache", "dcache", "ucache", "icache"].contains(&form);
        return is_cache.then_some(Kind::Cache(level, form.starts_with('i')));
    }
    let names = [
        ("numanode", Kind::Node),
        ("node", Kind::Node),
        ("package", Kind::Package),
        ("socket", Kind::Package),
        ("die", Kind::Die),
        ("core", Kind::Core),
        ("pu", Kind::Pu),
    ];
    let full = names.iter().find(|(full, _)| name.len() >= 2 && full.starts_with(&name)).map(|&(_, kind)| kind);
    // Groups may have their depth behind them.
    let is_group = || name.trim_end_matches(|c: char| c.is_ascii_digit()) == "group" || name == "tile";
    full.or_else(|| is_group().then_some(Kind::Group))
}

/// A size, numbers, and the text behind them.
type Attributes<'a> = (Option<u64>, Option<Vec<u32>>, &'a str);

/// The size and the numbers in parentheses, and what is behind these.
fn attributes(text: &str) -> Result<Attributes<'_>, String> {
    let Some(inside) = text.strip_prefix('(') else { return Ok((None, None, text)) };
    let Some((inside, after)) = inside.split_once(')') else {
        return Err(format!("a `)` after `{}`", shortened(inside)));
    };
    let (mut bytes, mut indexes) = (None, None);
    for word in inside.split_whitespace() {
        match word.split_once('=') {
            Some(("size" | "memory", size)) => bytes = Some(memory(size)?),
            Some(("indexes", list)) => {
                let number = |text: &str| text.parse::<u32>().ok().filter(|&number| number < MOST_NUMBERS);
                let numbers: Option<Vec<u32>> = list.split(',').map(number).collect();
                indexes = Some(numbers.ok_or_else(|| {
                    format!("numbers below {MOST_NUMBERS} with commas between instead of `indexes={}`", shortened(list))
                })?);
            }
            _ => return Err(format!("size=, memory= or indexes= instead of `{}`", shortened(word))),
        }
    }
    Ok((bytes, indexes, after))
}

/// Bytes, with a unit of powers of 1000 or of 1024, as hwloc has them.
fn memory(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit: u64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return Err(format!("a size such as 16GB or 16GiB instead of `{}`", shortened(text))),
    };
    let bytes =
        digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).filter(|&bytes| bytes <= 1 << 56);
    bytes.ok_or_else(|| format!("a size up to 64 PiB instead of `{}`", shortened(text)))
}

/// Gives kinds to levels without one, checks that each kind is there once, and ends with PUs.
fn name_levels(levels: &mut [Level], needs_node: bool) -> Result<(), String> {
    let Some((last, others)) = levels.split_last_mut() else { return Err("a level such as pu:2".to_owned()) };
    if last.kind.is_some_and(|kind| kind != Kind::Pu) {
        return Err("pu as the last kind".to_owned());
    }
    last.kind = Some(Kind::Pu);
    let nameless = others.iter().filter(|level| level.kind.is_none()).count();
    if nameless > 0 && nameless < others.len() {
        return Err("either a kind at each number or at none".to_owned());
    }
    if nameless > 0 {
        // By importance nodes, packages, cores, L2, L1, L3; what is left over are groups.
        let has = |rank: usize| nameless > rank - usize::from(!needs_node && rank > 0);
        let named = [
            (needs_node || nameless > 0, Kind::Package, 1),
            (needs_node, Kind::Node, 0),
            (true, Kind::Cache(3, false), 5),
            (true, Kind::Cache(2, false), 3),
            (true, Kind::Cache(1, false), 4),
            (true, Kind::Cache(1, true), 6),
            (true, Kind::Core, 2),
        ];
        let mut kinds: Vec<Kind> =
            named.into_iter().filter(|&(is, _, rank)| is && has(rank)).map(|(_, kind, _)| kind).collect();
        while kinds.len() < nameless {
            kinds.insert(0, Kind::Group);
        }
        others.iter_mut().zip(kinds).for_each(|(level, kind)| level.kind = Some(kind));
    }
    for (at, level) in others.iter().enumerate() {
        if level.kind == Some(Kind::Pu)
            || level.kind != Some(Kind::Group) && others[..at].iter().any(|o| o.kind == level.kind)
        {
            return Err("each kind once, and pu as the last one".to_owned());
        }
    }
    if !needs_node && others.iter().any(|level| level.kind == Some(Kind::Node)) {
        return Err("nodes as a level or attached, not both".to_owned());
    }
    Ok(())
}

fn shape(levels: Vec<Level>, attached: Vec<Attached>, attached_indexes: Option<Vec<u32>>) -> Result<Shape, String> {
    let total = levels.last().map_or(1, |level| level.count);
    let numbers = |indexes: &Option<Vec<u32>>, count: usize| -> Result<Vec<u32>, String> {
        let Some(indexes) = indexes else { return Ok((0..count as u32).collect()) };
        let mut different = indexes.clone();
        different.sort_unstable();
        different.dedup();
        if indexes.len() != count || different.len() != count {
            return Err(format!("{count} different numbers in indexes="));
        }
        Ok(indexes.clone())
    };
    let pus = numbers(&levels.last().and_then(|level| level.indexes.clone()), total)?;
    let set = |count: usize, index: usize| -> Set {
        let span = total / count;
        pus[index * span..(index + 1) * span].iter().copied().collect()
    };
    let mut shape = Shape { pus: pus.iter().copied().collect(), ..Shape::default() };
    const NODE_BYTES: u64 = 1 << 30;
    for level in &levels {
        let count = level.count;
        let indexes = numbers(&level.indexes, count)?;
        for (index, &number) in indexes.iter().enumerate() {
            match level.kind {
                Some(Kind::Pu) | None | Some(Kind::Cache(_, true)) => break,
                Some(Kind::Cache(level_of, false)) => {
                    let default = if level_of == 1 { 32 << 10 } else { (256 << 10) << (2 * u64::from(level_of)) };
                    shape.caches.push(FoundCache {
                        part: set(count, index).into(),
                        level: level_of,
                        bytes: level.bytes.unwrap_or(default),
                        from: String::new(),
                    });
                }
                Some(Kind::Core) => shape.cores.push((set(count, index).into(), Some(number))),
                Some(Kind::Node) => {
                    shape.nodes.push(node(number, level.bytes.unwrap_or(NODE_BYTES), set(count, index)))
                }
                Some(Kind::Package | Kind::Die | Kind::Group) => shape.parts.push(set(count, index).into()),
            }
        }
    }
    let all: usize = attached.iter().map(|attached| attached.count).sum();
    let indexes = numbers(&attached_indexes, all)?;
    // Numbers go round the tree, an object's parts before itself.
    let mut order: Vec<(usize, Reverse<usize>, usize, usize)> = Vec::new();
    for (at, Attached { count, .. }) in attached.iter().enumerate() {
        order.extend((0..*count).map(|index| ((index + 1) * (total / count), Reverse(*count), at, index)));
    }
    order.sort_unstable();
    for ((.., at, index), &number) in order.into_iter().zip(&indexes) {
        let Attached { count, bytes } = attached[at];
        shape.nodes.push(node(number, bytes.unwrap_or(NODE_BYTES), set(count, index)));
    }
    if shape.nodes.is_empty() {
        shape.nodes.push(node(0, NODE_BYTES, shape.pus.clone()));
    }
    Ok(shape)
}

fn node(os_index: u32, bytes: u64, pus: Set) -> FoundNode {
    FoundNode { os_index, bytes, own: pus.clone(), near: pus.into(), ..FoundNode::default() }
}
