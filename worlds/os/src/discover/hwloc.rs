//! A machine as hwloc's library sees it. Only with the feature `hwloc`, and the only file that names its binding.
//!
//! On Linux nothing of a program uses this: tests hold our own reader against it. Other systems are described by it.

use super::shape::{FoundCache, FoundNode, Shape};
use crate::set::Set;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::distance::DistancesKind;
use hwlocality::object::types::ObjectType;
use hwlocality::topology::builder::{BuildFlags, TopologyBuilder};
use std::path::Path;
use vicus_topology::Topology;

/// This machine, with these CPUs usable.
///
/// # Errors
/// hwloc fails, or describes another machine, as its environment wants it.
pub fn live(affinity: &[u32]) -> Result<Topology, String> {
    // hwlocality asserts some assumptions about hwloc; a machine breaking them must still run.
    let found = std::panic::catch_unwind(|| {
        let hwloc = build(builder()?)?;
        if !hwloc.is_this_system() {
            return Err(
                "the environment (HWLOC_XMLFILE, HWLOC_SYNTHETIC or HWLOC_FSROOT) makes hwloc describe another \
                        machine"
                    .to_owned(),
            );
        }
        let name = hwloc.root_object().info("HostName").map(|name| name.to_string_lossy().into_owned());
        shape(&hwloc, name.unwrap_or_else(|| "this machine".to_owned()))
    });
    let shape = found.unwrap_or_else(|_| Err("hwlocality panicked".to_owned()))?;
    shape.into_topology(|cpu| affinity.contains(&cpu), &mut |_| {})
}

/// The machine that hwloc finds for the environment: by `HWLOC_FSROOT`, below a folder.
///
/// # Errors
/// hwloc fails.
pub fn of_environment(name: &str) -> Result<Topology, String> {
    let hwloc = build(builder()?)?;
    shape(&hwloc, name.to_owned())?.into_topology(|cpu| hwloc.allowed_cpuset().is_set(cpu as usize), &mut |_| {})
}

/// The machine of an XML file.
///
/// # Errors
/// hwloc can't read it.
pub fn from_xml(path: &Path) -> Result<Topology, String> {
    let xml = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let hwloc = build(builder()?.from_xml(&xml).map_err(|error| error.to_string())?)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let shape = Shape { tells_all: true, ..shape(&hwloc, name)? };
    shape.into_topology(|cpu| hwloc.allowed_cpuset().is_set(cpu as usize), &mut |_| {})
}

/// The machine of a synthetic description.
///
/// # Errors
/// hwloc can't read it.
pub fn from_synthetic(line: &str) -> Result<Topology, String> {
    let hwloc = build(TopologyBuilder::new().from_synthetic(line).map_err(|error| error.to_string())?)?;
    Shape { tells_all: true, ..shape(&hwloc, line.to_owned())? }.into_topology(|_| true, &mut |_| {})
}

/// All of hwloc's view, including parts closed to the process, by the kernel's files alone.
fn builder() -> Result<TopologyBuilder, String> {
    let builder = || TopologyBuilder::new().with_flags(BuildFlags::INCLUDE_DISALLOWED).map_err(|e| e.to_string());
    if cfg!(target_os = "linux") {
        builder()?.without_component("x86").map_err(|error| error.to_string())
    } else {
        builder()
    }
}

fn build(builder: TopologyBuilder) -> Result<hwlocality::Topology, String> {
    builder.build().map_err(|error| error.to_string())
}

fn os_index(object: &TopologyObject) -> Option<u32> {
    object.os_index().and_then(|index| u32::try_from(index).ok())
}

/// hwloc's tree as sets.
fn shape(hwloc: &hwlocality::Topology, name: String) -> Result<Shape, String> {
    let mut shape = Shape { name, ..Shape::default() };
    let pus: Vec<&TopologyObject> = hwloc.objects_with_type(ObjectType::PU).collect();
    let numbers: Option<Vec<u32>> = pus.iter().map(|pu| os_index(pu)).collect();
    let numbers = numbers.ok_or("a processing unit has no number")?;
    shape.pus = numbers.iter().copied().collect();
    let set = |object: &TopologyObject| -> Set {
        let Some(set) = object.cpuset() else { return Set::default() };
        numbers.iter().copied().filter(|&number| set.is_set(number as usize)).collect()
    };
    for kind in [ObjectType::Package, ObjectType::Die, ObjectType::Group] {
        shape.parts.extend(hwloc.objects_with_type(kind).map(|object| set(object).into()));
    }
    shape.cores = hwloc.objects_with_type(ObjectType::Core).map(|core| (set(core).into(), os_index(core))).collect();
    let levels =
        [ObjectType::L1Cache, ObjectType::L2Cache, ObjectType::L3Cache, ObjectType::L4Cache, ObjectType::L5Cache];
    for (level, kind) in (1..).zip(levels) {
        for object in hwloc.objects_with_type(kind) {
            let pus = set(object);
            if pus.is_empty() || subtype_is(object, "MemorySideCache") {
                continue;
            }
            let bytes = match object.attributes() {
                Some(ObjectAttributes::Cache(attributes)) => attributes.size().map_or(0, |bytes| bytes.get()),
                _ => 0,
            };
            shape.caches.push(FoundCache { part: pus.into(), level, bytes, from: "hwloc".to_owned() });
        }
    }
    for (index, object) in hwloc.objects_with_type(ObjectType::NUMANode).enumerate() {
        let bytes = match object.attributes() {
            Some(ObjectAttributes::NUMANode(attributes)) => attributes.local_memory().map_or(0, |bytes| bytes.get()),
            _ => 0,
        };
        let is_special = object.subtype().is_some() && !subtype_is(object, "DRAM");
        let (os_index, own) = (os_index(object).unwrap_or(index as u32), set(object));
        shape.nodes.push(FoundNode {
            os_index,
            bytes,
            near: own.clone().into(),
            own,
            is_special,
            ..FoundNode::default()
        });
    }
    for kind in hwloc.cpu_kinds().into_iter().flatten() {
        // Kinds without a rank in hwloc (no efficiency) stay alike: an arbitrary order would be taken for a fact.
        let Some(efficiency) = kind.efficiency else { continue };
        let cpus = numbers.iter().copied().filter(|&number| kind.cpuset.is_set(number as usize)).collect();
        shape.kinds.push((cpus, efficiency as u32));
    }
    // By name first: memory attributes of the firmware can come as a second latency matrix, in nanoseconds.
    let named = hwloc.distances_with_name("NUMALatency").unwrap_or_default();
    let any = || {
        let latency = Some(DistancesKind::MEANS_LATENCY);
        hwloc.distances_with_type(latency, ObjectType::NUMANode).unwrap_or_default()
    };
    if let Some(matrix) = named.into_iter().next().or_else(|| any().into_iter().next()) {
        let nodes: Option<Vec<u32>> = matrix.objects().map(|object| os_index(object?)).collect();
        let values = matrix.enumerate_distances().map(|(_, value)| value).collect();
        shape.distances = nodes.map(|nodes| (nodes, values));
    }
    Ok(shape)
}

fn subtype_is(object: &TopologyObject, name: &str) -> bool {
    object.subtype().is_some_and(|subtype| subtype.to_bytes() == name.as_bytes())
}
