//! The machine: the number of each of its parts, and their places.

use crate::error::{Failure, Outcome, guard, guard_or, status};
use crate::text::{free, give, handle, output, print, required};
use crate::version;
use std::ffi::c_char;
use std::fmt::Write as _;
use vicus::kit::topology::PuId;
use vicus::{GroupId, NodeId, Place, Topology};

/// The countable parts of a machine, by the numbers of the header.
pub(crate) mod kind {
    pub(crate) const PU: u32 = 0;
    pub(crate) const CORE: u32 = 1;
    pub(crate) const GROUP: u32 = 2;
    pub(crate) const NODE: u32 = 3;
    pub(crate) const CACHE: u32 = 4;
    pub(crate) const USABLE_PU: u32 = 5;
}

/// `vicus_place`: a node or a core group, or anywhere.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types, reason = "the name that the header has")]
pub(crate) struct vicus_place {
    /// The kind of place, from `place`.
    pub(crate) kind: u32,
    /// Its number among those of its kind.
    pub(crate) index: u32,
}

/// The kinds of places, by the numbers of the header.
pub(crate) mod place {
    pub(crate) const ANYWHERE: u32 = 0;
    pub(crate) const NODE: u32 = 1;
    pub(crate) const GROUP: u32 = 2;
}

impl vicus_place {
    /// The runtime's form of the place; `None` is anywhere. The machine may lack it: this is not checked.
    pub(crate) fn get(self) -> Outcome<Option<Place>> {
        let index = self.index as usize;
        match self.kind {
            place::ANYWHERE => Ok(None),
            place::NODE => Ok(Some(NodeId::new(index).into())),
            place::GROUP => Ok(Some(GroupId::new(index).into())),
            other => Err(Failure::argument(format_args!("there is no kind of place with the number {other}"))),
        }
    }

    /// The runtime's form of the place, if the machine has it.
    pub(crate) fn on(self, machine: &Topology) -> Outcome<Option<Place>> {
        let (name, count) = match self.kind {
            place::NODE => ("node", machine.nodes.len()),
            place::GROUP => ("core group", machine.core_groups.len()),
            _ => return self.get(),
        };
        if (self.index as usize) < count {
            return self.get();
        }
        Err(Failure::argument(format_args!("there is no {name} {}, only {count} of them, from 0 on", self.index)))
    }

    /// The variant of `on` that refuses anywhere.
    pub(crate) fn exactly_on(self, machine: &Topology) -> Outcome<Place> {
        self.on(machine)?.ok_or_else(|| Failure::argument("a node or a core group is expected, and not anywhere"))
    }
}

fn pu(machine: &Topology, pu: u32) -> Outcome<&vicus::kit::topology::Pu> {
    machine.pus.get(pu as usize).ok_or_else(|| {
        Failure::argument(format_args!("there is no PU {pu}, only {} of them, from 0 on", machine.pus.len()))
    })
}

/// A description of a machine for people.
fn shown(machine: &Topology) -> String {
    let mut out = String::new();
    let (pus, usable) = (machine.pus.len(), machine.usable_pus().count());
    let Topology { name, cores, core_groups, nodes, .. } = machine;
    let _ = writeln!(
        out,
        "{name}: {pus} PUs ({usable} usable), {} cores, {} core groups, {} nodes",
        cores.len(),
        core_groups.len(),
        nodes.len()
    );
    let numbers = |pus: &[PuId]| pus.iter().map(|pu| pu.index().to_string()).collect::<Vec<_>>().join(" ");
    for node in nodes {
        let _ = writeln!(out, "{}: {} MiB, PUs {}", node.id, node.bytes >> 20, numbers(&node.pus));
        for group in core_groups.iter().filter(|group| group.node == node.id) {
            let _ = writeln!(out, "  {}: PUs {}", group.id, numbers(&group.pus));
        }
    }
    out
}

/// # Safety
/// Rule "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_topology_discover(topology: *mut *mut Topology) -> i32 {
    guard(|| {
        version::is_right()?;
        let out = output(topology, "topology")?;
        // SAFETY: rule "Outputs".
        unsafe { give(out, vicus::this_machine().topology) };
        Ok(())
    })
}

/// # Safety
/// Rules "Texts" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_topology_describe(
    description: *const c_char,
    topology: *mut *mut Topology,
) -> i32 {
    guard(|| {
        version::is_right()?;
        let out = output(topology, "topology")?;
        // SAFETY: rule "Texts".
        let machine = describe(unsafe { required(description, "description") }?)?;
        // SAFETY: rule "Outputs".
        unsafe { give(out, machine) };
        Ok(())
    })
}

/// A machine by its description.
pub(crate) fn describe(text: &str) -> Outcome<Topology> {
    vicus::kit::describe(text).map_err(|error| Failure::new(status::SETTING, error))
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_topology_free(topology: *mut Topology) {
    // SAFETY: rule "Handles".
    guard_or((), || unsafe { free(topology) });
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_topology_count(topology: *const Topology, what: u32) -> u32 {
    guard_or(0, || {
        // SAFETY: rule "Handles".
        let Ok(machine) = (unsafe { handle(topology, "topology") }) else { return 0 };
        let count = match what {
            kind::PU => machine.pus.len(),
            kind::CORE => machine.cores.len(),
            kind::GROUP => machine.core_groups.len(),
            kind::NODE => machine.nodes.len(),
            kind::CACHE => machine.caches.len(),
            kind::USABLE_PU => machine.usable_pus().count(),
            _ => 0,
        };
        count as u32
    })
}

/// # Safety
/// Rules "Handles" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_topology_pu(
    topology: *const Topology,
    number: u32,
    core: *mut u32,
    group: *mut u32,
    node: *mut u32,
) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        let found = pu(unsafe { handle(topology, "topology") }?, number)?;
        for (out, index) in [(core, found.core.index()), (group, found.group.index()), (node, found.node.index())] {
            if !out.is_null() {
                // SAFETY: rule "Outputs".
                unsafe { out.write(index as u32) }
            }
        }
        Ok(())
    })
}

/// # Safety
/// Rules "Handles" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_topology_distance(
    topology: *const Topology,
    from: vicus_place,
    to: vicus_place,
    distance: *mut u32,
) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        let machine = unsafe { handle(topology, "topology") }?;
        let out = output(distance, "distance")?;
        let value = machine.place_distance(from.exactly_on(machine)?, to.exactly_on(machine)?);
        // SAFETY: rule "Outputs".
        unsafe { out.write(value) };
        Ok(())
    })
}

/// # Safety
/// Rule "Handles"; `buffer` has `capacity` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_topology_print(
    topology: *const Topology,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    guard_or(0, || {
        // SAFETY: rule "Handles".
        let Ok(machine) = (unsafe { handle(topology, "topology") }) else { return 0 };
        // SAFETY: as asked of the caller.
        unsafe { print(&shown(machine), buffer, capacity) }
    })
}
