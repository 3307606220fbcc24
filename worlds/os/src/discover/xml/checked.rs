//! Checks a tree of objects against hwloc's own output: the facts assumed by its `hwloc_topology_check`, and those it
//! relies on unchecked.

use super::{ALLOWED_CPUSET, ALLOWED_NODESET, COMPLETE_CPUSET, COMPLETE_NODESET, CPUSET, NODESET, Object, SETS, Wrong};
use crate::set::{MOST_NUMBERS, Set};
use std::collections::BTreeSet;

/// The numbers seen in the tree so far.
#[derive(Default)]
struct NumbersSeen {
    pus: BTreeSet<u32>,
    nodes: BTreeSet<u32>,
}

/// Gives the numbers of the nodes.
///
/// # Errors
/// The first contradiction, with its line.
pub(super) fn check(root: &Object) -> Result<BTreeSet<u32>, Wrong> {
    let mut seen = NumbersSeen::default();
    seen.check(root, &mut Vec::new(), &Set::default())?;
    if seen.pus.is_empty() || seen.nodes.is_empty() {
        return Err("it has no processing unit or no NUMA node".to_owned());
    }
    Ok(seen.nodes)
}

/// The rank of a type among those nested in a fixed order; 0 for types allowed anywhere.
fn rank(kind: &str) -> usize {
    ["", "Machine", "Package", "Die", "Core", "PU"].iter().position(|name| *name == kind).unwrap_or(0)
}

fn wrong<T>(object: &Object, what: &str) -> Result<T, Wrong> {
    let number = object.os_index.map_or(String::new(), |number| format!(" {number}"));
    Err(format!("line {}: {}{number} {what}", object.line, object.kind))
}

impl NumbersSeen {
    /// `inherited`: the nodes attached to the objects around this one. Gives the nodes attached to this object or
    /// inside of it.
    fn check<'o>(&mut self, object: &'o Object, above: &mut Vec<&'o Object>, inherited: &Set) -> Result<Set, Wrong> {
        let is_root = above.is_empty();
        let needed: &[usize] =
            if is_root { &[0, 1, 2, 3, 4, 5] } else { &[CPUSET, COMPLETE_CPUSET, NODESET, COMPLETE_NODESET] };
        if let Some(missing) = needed.iter().find(|&&set| object.set(set).is_none()) {
            return wrong(object, &format!("has no {}", SETS[*missing]));
        }
        if (object.kind == "Machine") != is_root {
            return wrong(object, "is not where it belongs: Machine is around all others, and nothing else is");
        }
        self.check_order(object, above)?;
        let inner = [(CPUSET, COMPLETE_CPUSET), (NODESET, COMPLETE_NODESET)];
        let allowed = [(ALLOWED_CPUSET, CPUSET), (ALLOWED_NODESET, NODESET)];
        for (part, whole) in inner.iter().chain(is_root.then_some(&allowed).into_iter().flatten()) {
            if !set(object, *part).is_in(set(object, *whole)) {
                return wrong(object, &format!("has more in its {} than in its {}", SETS[*part], SETS[*whole]));
            }
        }
        if let Some(parent) = above.last() {
            for which in [CPUSET, COMPLETE_CPUSET, NODESET, COMPLETE_NODESET] {
                if !set(object, which).is_in(set(parent, which)) {
                    return wrong(object, &format!("has more in its {} than {} around it", SETS[which], parent.kind));
                }
            }
            if parent.is_memory() && !object.is_memory() {
                return wrong(object, &format!("is inside of {}", parent.kind));
            }
            if object.is_memory() && set(object, CPUSET) != set(parent, CPUSET) {
                return wrong(object, &format!("is near other PUs than {} around it", parent.kind));
            }
        }
        let is_leaf = object.children.is_empty();
        match object.kind {
            "PU" | "NUMANode" if !is_leaf => wrong(object, "has something inside"),
            "PU" => self.check_pu(object).map(|()| Set::default()),
            "NUMANode" => self.check_node(object),
            _ => self.check_inside(object, above, inherited),
        }
    }

    /// Types are nested in one order, and no cache is inside of itself or of a smaller one.
    fn check_order(&self, object: &Object, above: &[&Object]) -> Result<(), Wrong> {
        let own = rank(object.kind);
        let is_amiss = |other: &&&Object| {
            let caches = object.cache().zip(other.cache());
            (own > 0 && rank(other.kind) >= own) || caches.is_some_and(|(own, other)| other.0 < own.0 || other == own)
        };
        let amiss = above.iter().find(is_amiss);
        amiss.map_or(Ok(()), |other| wrong(object, &format!("is inside of {}", other.kind)))
    }

    fn check_pu(&mut self, object: &Object) -> Result<(), Wrong> {
        let Some(number) = object.os_index else { return wrong(object, "has no os_index") };
        let own = Set::only(number);
        if [CPUSET, COMPLETE_CPUSET].iter().any(|&which| *set(object, which) != own) {
            return wrong(object, "has other PUs in its cpuset");
        }
        if self.pus.insert(number) { Ok(()) } else { wrong(object, "is there twice") }
    }

    fn check_node(&mut self, object: &Object) -> Result<Set, Wrong> {
        let Some(number) = object.os_index.filter(|&number| number < MOST_NUMBERS) else {
            return wrong(object, &format!("has no os_index from 0 to {}", MOST_NUMBERS - 1));
        };
        let own = Set::only(number);
        if [NODESET, COMPLETE_NODESET].iter().any(|&which| *set(object, which) != own) {
            return wrong(object, "has other nodes in its nodeset");
        }
        if self.nodes.insert(number) { Ok(own) } else { wrong(object, "is there twice") }
    }

    /// An object has exactly the PUs of its children, and no PU is in two of them; its nodes are its children's, its
    /// own, and those around it.
    fn check_inside<'o>(
        &mut self,
        object: &'o Object,
        above: &mut Vec<&'o Object>,
        inherited: &Set,
    ) -> Result<Set, Wrong> {
        let (mut pus, mut complete) = (Set::default(), Set::default());
        for child in object.children.iter().filter(|child| !child.is_memory()) {
            if set(child, COMPLETE_CPUSET).overlaps(&complete) {
                return wrong(child, "has PUs of another object beside it");
            }
            complete.add(set(child, COMPLETE_CPUSET));
            pus.add(set(child, CPUSET));
        }
        above.push(object);
        let (memory, others): (Vec<&Object>, Vec<&Object>) =
            object.children.iter().partition(|child| child.is_memory());
        let mut nodes = Set::default();
        for child in memory {
            nodes.add(&self.check(child, above, inherited)?);
        }
        let mut around = inherited.clone();
        around.add(&nodes);
        for child in others {
            nodes.add(&self.check(child, above, &around)?);
        }
        above.pop();
        if !object.is_memory() && pus != *set(object, CPUSET) {
            return wrong(object, "has other PUs in its cpuset than inside of it");
        }
        let mut all = if object.is_memory() { Set::default() } else { inherited.clone() };
        all.add(&nodes);
        if all != *set(object, NODESET) {
            return wrong(object, "has other nodes in its nodeset than around and inside of it");
        }
        Ok(nodes)
    }
}

/// A set known to be present.
fn set(object: &Object, which: usize) -> &Set {
    static NONE: Set = Set::EMPTY;
    object.set(which).unwrap_or(&NONE)
}

/// A machine of format 1 in the words of format 2: format 1 has PUs inside of nodes, format 2 has nodes beside the PUs.
/// Distances can't be expressed there.
///
/// # Errors
/// A cache without a level, or an object without PUs.
pub(super) fn renewed(root: Object) -> Result<Object, Wrong> {
    let mut root = renewed_object(root)?;
    let mut has_node = |object: &Object| object.kind == "NUMANode";
    if !any(&root, &mut has_node) {
        let node = node_of(&root, Some(0));
        root.children.insert(0, node);
    }
    set_nodes(&mut root, &Set::default());
    for (allowed, all) in [(ALLOWED_CPUSET, CPUSET), (ALLOWED_NODESET, NODESET)] {
        if root.sets[allowed].is_none() {
            root.sets[allowed] = root.sets[all].clone();
        }
    }
    Ok(root)
}

fn any(object: &Object, is: &mut impl FnMut(&Object) -> bool) -> bool {
    is(object) || object.children.iter().any(|child| any(child, is))
}

/// A node beside the PUs of an object.
fn node_of(object: &Object, os_index: Option<u32>) -> Object {
    let mut node = Object { kind: "NUMANode", os_index, children: Vec::new(), ..object.without_children() };
    node.subtype = None;
    node
}

fn renewed_object(mut object: Object) -> Result<Object, Wrong> {
    const DEPTH: usize = 3;
    const CACHE_TYPE: usize = 4;
    if object.sets[CPUSET].is_none() {
        return wrong(&object, "has no cpuset");
    }
    object.kind = match (object.kind, object.numbers[DEPTH], object.numbers[CACHE_TYPE]) {
        ("System", ..) => "Machine",
        ("Socket", ..) => "Package",
        ("Cache", Some(1), Some(2)) => "L1iCache",
        ("Cache", Some(2), Some(2)) => "L2iCache",
        ("Cache", Some(1), _) => "L1Cache",
        ("Cache", Some(2), _) => "L2Cache",
        ("Cache", Some(3), _) => "L3Cache",
        ("Cache", Some(4), _) => "L4Cache",
        ("Cache", ..) => return wrong(&object, "has no depth from 1 to 4"),
        (kind, ..) => kind,
    };
    // hwloc listed offline PUs there, without objects.
    if object.kind == "PU" || object.sets[COMPLETE_CPUSET].is_none() {
        object.sets[COMPLETE_CPUSET] = object.sets[CPUSET].clone();
    }
    let children = std::mem::take(&mut object.children);
    object.children = children.into_iter().map(renewed_object).collect::<Result<_, _>>()?;
    if object.kind == "NUMANode" {
        let node = node_of(&object, object.os_index);
        (object.kind, object.os_index) = ("Group", None);
        object.children.insert(0, node);
    }
    Ok(object)
}

/// Gives each object the nodes around and inside of it. Returns those inside.
fn set_nodes(object: &mut Object, inherited: &Set) -> Set {
    let mut nodes = Set::default();
    let mut around = inherited.clone();
    if let ("NUMANode", Some(number)) = (object.kind, object.os_index.filter(|&number| number < MOST_NUMBERS)) {
        nodes.add(&Set::only(number));
        around = Set::default();
    }
    for memory in [true, false] {
        for child in object.children.iter_mut().filter(|child| child.is_memory() == memory) {
            nodes.add(&set_nodes(child, &around));
        }
        if memory {
            around.add(&nodes);
        }
    }
    let mut all = if object.is_memory() { Set::default() } else { inherited.clone() };
    all.add(&nodes);
    object.sets[NODESET] = Some(all.clone());
    object.sets[COMPLETE_NODESET] = Some(all);
    nodes
}
