//! The shape of a machine, found by hwloc: this one, one captured as XML, or one described by a line of text.
//!
//! The only file that names hwloc. It returns plain data ([`Topology`]); nothing of hwloc lives on in it.

pub mod limits;
mod xml;

use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::distance::DistancesKind;
use hwlocality::object::types::ObjectType;
use hwlocality::object::{TopologyObject, TopologyObjectID};
use hwlocality::topology::builder::{BuildFlags, TopologyBuilder};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use vicus_topology::{Cache, CacheId, Core, CoreId, GroupId, Node, NodeId, Pu, PuId, Topology};

/// This machine, and warnings about missing facts.
#[derive(Clone, Debug)]
pub struct Discovered {
    /// The machine, with the limits of this process.
    pub topology: Topology,
    /// Failed steps, one sentence each, for a person to read. Empty when all went well.
    pub warnings: Vec<String>,
}

/// Finds the machine this runs on. PUs outside the calling thread's affinity mask (inherited by its threads, and
/// narrowed by a cpuset) are listed but not usable; the CPU quota is the smallest of the process's cgroups.
///
/// Never fails: if hwloc does, the machine is flat (one node, no caches) and a warning says so.
///
/// ```
/// let found = vicus_os::this_machine();
/// assert!(found.topology.usable_pus().count() >= 1);
/// ```
pub fn this_machine() -> Discovered {
    let mut warnings = Vec::new();
    let affinity = limits::affinity();
    let found = match &affinity {
        // hwlocality asserts some assumptions about hwloc; a machine breaking them must still run.
        Ok(affinity) => {
            std::panic::catch_unwind(|| live(affinity)).unwrap_or_else(|_| Err("hwlocality panicked".to_owned()))
        }
        // hwloc asks for the mask as well, and retries for ever with more room until it gets it.
        Err(error) => Err(format!("it needs the affinity mask, and sched_getaffinity is refused: {error}")),
    };
    let affinity = affinity.unwrap_or_else(|error| {
        let count = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        warnings.push(format!(
            "the affinity mask of this process can't be read (sched_getaffinity: {error}): assuming CPUs 0 to {}",
            count - 1
        ));
        (0..count).collect()
    });
    let mut topology = found.unwrap_or_else(|reason| {
        warnings.push(format!(
            "hwloc could not describe this machine ({reason}): caches and NUMA nodes are unknown, so nothing is \
             placed by locality; `lstopo` shows what hwloc sees"
        ));
        flat(&affinity)
    });
    topology.cpu_quota_millis = limits::cpu_quota_millis(Path::new("/"));
    topology.assert_valid();
    Discovered { topology, warnings }
}

/// Like [`this_machine`], but cached for each affinity mask of calling threads: later calls return a copy. For callers
/// that make one plan after the other, such as teams of each size, on an unchanging machine.
pub fn known_machine() -> Discovered {
    static KNOWN: Mutex<Vec<(Vec<u32>, Discovered)>> = Mutex::new(Vec::new());
    let Ok(affinity) = limits::affinity() else { return this_machine() };
    let known = || KNOWN.lock().expect("nothing panics under this lock");
    if let Some((_, found)) = known().iter().find(|(of, _)| *of == affinity) {
        return found.clone();
    }
    let found = this_machine();
    let mut known = known();
    // A program with bound threads has as many sets as threads.
    const MOST_KEPT: usize = 64;
    if known.len() == MOST_KEPT {
        known.remove(0);
    }
    known.push((affinity, found.clone()));
    found
}

/// Reads a machine from a file of hwloc (`lstopo machine.xml`). PUs outside the allowed set of the capturing process
/// are not usable.
///
/// # Errors
/// The file can't be read, or hwloc does not find a machine in it.
pub fn from_xml(path: impl AsRef<Path>) -> Result<Topology, DiscoverError> {
    let path = path.as_ref();
    // Read here, not by hwlocality: it panics on a missing file.
    let xml =
        std::fs::read_to_string(path).map_err(|source| DiscoverError::Unreadable { path: path.to_owned(), source })?;
    let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    xml::clean(&xml)
        .and_then(|clean| check_memory(HWLOC_BYTES + 8 * clean.len()).map(|()| clean))
        .and_then(|clean| load_xml(&clean))
        .and_then(|hwloc| translate(&hwloc, name, |os_index| allowed(&hwloc, os_index)))
        .map_err(|reason| DiscoverError::NoMachine { path: path.to_owned(), reason })
}

/// Reads a machine from one line: the notation of [`Topology::parse`], or else hwloc's synthetic descriptions, which
/// can also give sizes, indexes and attached memory (`node:2(memory=16GB) l3:1(size=8MB) core:4 pu:2`).
///
/// # Errors
/// Neither can read it, or it has more than 65,536 PUs.
///
/// ```
/// let machine = vicus_os::from_synthetic("node:4 core:6 pu:2").unwrap();
/// assert_eq!((machine.nodes.len(), machine.pus.len()), (4, 48));
/// ```
pub fn from_synthetic(text: &str) -> Result<Topology, DiscoverError> {
    let error = |expected: String| DiscoverError::NoDescription { text: text.to_owned(), expected };
    let ours = match Topology::parse(text) {
        // An empty line is a machine of one PU in our notation; typed by a user it is a mistake.
        Ok(machine) if !text.trim().is_empty() => return Ok(machine),
        Ok(_) => return Err(error("words such as node:2 core:4 pu:2".to_owned())),
        Err(ours) => ours,
    };
    // hwloc accepts any number and then runs out of memory.
    let pus = synthetic_pus(text);
    if pus > 65536 {
        return Err(error("at most 65536 PUs".to_owned()));
    }
    // Each of its objects has several sets of PUs, with a bit for each.
    check_memory(HWLOC_BYTES + pus * (1024 + pus)).map_err(error)?;
    TopologyBuilder::new()
        .from_synthetic(text)
        .map_err(|_| ())
        .and_then(|builder| builder.build().map_err(|_| ()))
        .map_err(|()| {
            error(format!("`{}`: {}; hwloc can't read it as a synthetic description", ours.word, ours.expected))
        })
        .and_then(|hwloc| translate(&hwloc, text.to_owned(), |_| true).map_err(error))
}

/// [`from_xml`] for an existing file or a name ending in `.xml`, else [`from_synthetic`].
///
/// # Errors
/// Those of the two.
pub fn describe(text_or_path: &str) -> Result<Topology, DiscoverError> {
    let path = Path::new(text_or_path);
    if path.is_file() || path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("xml")) {
        from_xml(path)
    } else {
        from_synthetic(text_or_path)
    }
}

/// Why a file or a line is not a machine.
#[derive(Debug)]
pub enum DiscoverError {
    /// The file can't be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The file can be read, but hwloc finds no machine in it.
    NoMachine {
        /// The file.
        path: PathBuf,
        /// The fault in it.
        reason: String,
    },
    /// The line is not a description of a machine.
    NoDescription {
        /// The line.
        text: String,
        /// The expected form.
        expected: String,
    },
}

impl fmt::Display for DiscoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiscoverError::Unreadable { path, source } => {
                write!(f, "{}: can't be read: {source}", path.display())
            }
            DiscoverError::NoMachine { path, reason } => write!(
                f,
                "{}: not a machine that hwloc can load: {reason}; `lstopo {0}` on the machine itself writes one",
                path.display()
            ),
            DiscoverError::NoDescription { text, expected } => write!(
                f,
                "`{text}` is neither an XML file nor a machine in one line: expected {expected}; \
                 for example `node:2 l3:2 core:4 pu:2`"
            ),
        }
    }
}

impl std::error::Error for DiscoverError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            DiscoverError::Unreadable { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// More than hwloc takes for a machine of some thousand PUs.
const HWLOC_BYTES: usize = 16 << 20;

/// hwloc ends in a segmentation fault if it gets no memory: it is only called when there is enough.
fn check_memory(bytes: usize) -> Result<(), String> {
    let refused = |_| format!("{} MiB of memory for it can't be had", bytes >> 20);
    // A mapping asks for addresses and for what the system commits, and gives both back.
    memmap2::MmapMut::map_anon(bytes).map(drop).map_err(refused)
}

/// All of hwloc's view, including parts closed to the process.
fn live(affinity: &[u32]) -> Result<Topology, String> {
    check_memory(HWLOC_BYTES)?;
    let builder = || TopologyBuilder::new().with_flags(BuildFlags::INCLUDE_DISALLOWED);
    let quick =
        if kernel_knows_caches() { builder().ok().and_then(|all| all.without_component("x86").ok()) } else { None };
    let all = || builder().map_err(|error| error.to_string());
    let hwloc = quick.map_or_else(all, Ok)?.build().map_err(|error| error.to_string())?;
    if !hwloc.is_this_system() {
        return Err("the environment (HWLOC_XMLFILE, HWLOC_SYNTHETIC or HWLOC_FSROOT) makes it describe another \
                    machine; unset it, or set HWLOC_THISSYSTEM=1 if it is the same"
            .to_owned());
    }
    if let Some(unknown) = affinity.iter().find(|&&cpu| hwloc.pu_with_os_index(cpu as usize).is_none()) {
        return Err(format!("it does not know CPU {unknown}, on which this process may run"));
    }
    let name = hwloc.root_object().info("HostName").map_or("this machine".into(), |name| name.to_string_lossy());
    let usable = |os_index| affinity.contains(&os_index) && allowed(&hwloc, os_index);
    translate(&hwloc, name.into_owned(), usable)
}

/// Whether the kernel's files have cores and caches of x86 processors, readable by hwloc. Otherwise hwloc visits each
/// PU, to ask the processor itself; in a virtual machine this takes longer than all the files, as the hypervisor
/// answers.
fn kernel_knows_caches() -> bool {
    let cpu = Path::new("/sys/devices/system/cpu/cpu0");
    let has = |file: &str| cpu.join(file).exists();
    cfg!(any(target_arch = "x86", target_arch = "x86_64"))
        && has("cache/index0/shared_cpu_map")
        && (has("topology/core_cpus") || has("topology/thread_siblings"))
}

/// One node, no caches, a core for each CPU: all the facts available without hwloc.
fn flat(cpus: &[u32]) -> Topology {
    let ids = || (0..cpus.len()).map(PuId::new);
    let node = NodeId::new(0);
    let pu = |(id, &os_index): (PuId, &u32)| {
        let (core, group) = (CoreId::new(id.index()), GroupId::new(0));
        Pu { id, os_index, core, group, node, usable: true }
    };
    let core = |(id, &os_index): (PuId, &u32)| Core { id: CoreId::new(id.index()), os_index, pus: vec![id], kind: 0 };
    let mut machine = Topology {
        name: "this machine, flat".to_owned(),
        pus: ids().zip(cpus).map(pu).collect(),
        cores: ids().zip(cpus).map(core).collect(),
        caches: Vec::new(),
        core_groups: Vec::new(),
        nodes: vec![Node { id: node, os_index: 0, bytes: 0, pus: ids().collect() }],
        distances: vec![vec![NEAR]],
        cpu_quota_millis: None,
    };
    machine.find_core_groups();
    machine
}

/// Whether hwloc's allowed set has this CPU.
fn allowed(hwloc: &hwlocality::Topology, os_index: u32) -> bool {
    hwloc.allowed_cpuset().is_set(os_index as usize)
}

/// A machine from a clean copy.
fn load_xml(xml: &str) -> Result<hwlocality::Topology, String> {
    let builder = TopologyBuilder::new().with_flags(BuildFlags::INCLUDE_DISALLOWED).map_err(|e| e.to_string())?;
    let builder = builder.from_xml(xml).map_err(|_| "hwloc can't read it".to_owned())?;
    builder.build().map_err(|_| "hwloc refuses it".to_owned())
}

/// How many PUs a synthetic description asks for: the product of its counts.
fn synthetic_pus(text: &str) -> usize {
    let mut depth = 0_usize;
    // Sizes and indexes stand in parentheses, attached memory in brackets: neither multiplies PUs.
    let outside: String = text
        .chars()
        .filter(|c| {
            depth = depth + usize::from("([".contains(*c)) - usize::from(depth > 0 && ")]".contains(*c));
            depth == 0
        })
        .collect();
    let counts = outside.split_whitespace().filter_map(|word| {
        let count = word.rsplit(':').next().unwrap_or(word).trim_end_matches([')', ']']);
        count.parse::<usize>().ok()
    });
    counts.fold(1, usize::saturating_mul)
}

/// The distance of a node to itself: usual in OS matrices, and the default without a matrix.
const NEAR: u32 = 10;
/// The default distance between two nodes without a matrix.
const FAR: u32 = 20;

/// Turns hwloc's tree into our flat lists, all in hwloc's logical order, so that neighbours in a list are neighbours in
/// silicon.
fn translate(hwloc: &hwlocality::Topology, name: String, usable: impl Fn(u32) -> bool) -> Result<Topology, String> {
    let os_index = |object: &TopologyObject| object.os_index().and_then(|index| u32::try_from(index).ok());
    let pu_objects: Vec<&TopologyObject> = hwloc.objects_with_type(ObjectType::PU).collect();
    let numa: Vec<&TopologyObject> = hwloc.objects_with_type(ObjectType::NUMANode).collect();
    if pu_objects.is_empty() || numa.is_empty() {
        return Err("it has no processing unit or no NUMA node".to_owned());
    }
    let os_indices: Vec<u32> =
        pu_objects.iter().map(|pu| os_index(pu).ok_or("a processing unit has no number")).collect::<Result<_, _>>()?;
    let pus_of = |object: &TopologyObject| -> Vec<PuId> {
        let Some(set) = object.cpuset() else { return Vec::new() };
        let inside = |&i: &usize| set.is_set(os_indices[i] as usize);
        (0..os_indices.len()).filter(inside).map(PuId::new).collect()
    };

    let mut cores: Vec<Core> = Vec::new();
    let mut core_of: HashMap<TopologyObjectID, CoreId> = HashMap::new();
    let mut pus: Vec<Pu> = Vec::new();
    for (i, pu) in pu_objects.iter().enumerate() {
        let id = PuId::new(i);
        // Some machines don't describe cores (an old kernel, a terse synthetic line): then each PU is one.
        let core_object = pu.first_ancestor_with_type(ObjectType::Core).unwrap_or(pu);
        let core = *core_of.entry(core_object.global_persistent_index()).or_insert_with(|| {
            let core = CoreId::new(cores.len());
            let os_index = os_index(core_object).unwrap_or(core.index() as u32);
            cores.push(Core { id: core, os_index, pus: Vec::new(), kind: 0 });
            core
        });
        cores[core.index()].pus.push(id);
        let (os_index, group, node) = (os_indices[i], GroupId::new(0), NodeId::new(0));
        pus.push(Pu { id, os_index, core, group, node, usable: usable(os_index) });
    }
    if !pus.iter().any(|pu| pu.usable) {
        return Err("it allows none of its processing units".to_owned());
    }
    for kind in hwloc.cpu_kinds().into_iter().flatten() {
        // Kinds without a rank in hwloc (no efficiency) stay alike: an arbitrary order would be taken for a fact.
        let Some(efficiency) = kind.efficiency else { continue };
        for core in &mut cores {
            if kind.cpuset.is_set(pus[core.pus[0].index()].os_index as usize) {
                core.kind = efficiency as u32;
            }
        }
    }

    let mut nodes: Vec<Node> = Vec::new();
    for (i, object) in numa.iter().enumerate() {
        let bytes = match object.attributes() {
            Some(ObjectAttributes::NUMANode(attributes)) => attributes.local_memory().map_or(0, |bytes| bytes.get()),
            _ => 0,
        };
        let id = NodeId::new(i);
        nodes.push(Node { id, os_index: os_index(object).unwrap_or(i as u32), bytes, pus: Vec::new() });
    }
    let near: Vec<Vec<PuId>> = numa.iter().map(|object| pus_of(object)).collect();
    let special: Vec<bool> = numa.iter().map(|object| is_special_memory(object)).collect();
    for pu in &mut pus {
        // Fast or large extra memory is used on request, not by default; of the other nodes, the one with the fewest
        // PUs is the closest. `min_by_key` keeps the first of equals.
        let local = (0..nodes.len()).filter(|&node| near[node].contains(&pu.id));
        let node = local.min_by_key(|&node| (special[node], near[node].len())).unwrap_or(0);
        pu.node = NodeId::new(node);
        nodes[node].pus.push(pu.id);
    }

    let mut caches: Vec<Cache> = Vec::new();
    let levels =
        [ObjectType::L1Cache, ObjectType::L2Cache, ObjectType::L3Cache, ObjectType::L4Cache, ObjectType::L5Cache];
    for (level, kind) in (1..).zip(levels) {
        for object in hwloc.objects_with_type(kind) {
            let pus = pus_of(object);
            if pus.is_empty() || subtype_is(object, &["MemorySideCache"]) {
                continue;
            }
            let bytes = match object.attributes() {
                Some(ObjectAttributes::Cache(attributes)) => attributes.size().map_or(0, |bytes| bytes.get()),
                _ => 0,
            };
            caches.push(Cache { id: CacheId::new(caches.len()), level, bytes, pus });
        }
    }

    let distances = distances(hwloc, &numa);
    let mut machine =
        Topology { name, pus, cores, caches, core_groups: Vec::new(), nodes, distances, cpu_quota_millis: None };
    machine.find_core_groups();
    machine.assert_valid();
    Ok(machine)
}

/// Memory for use by name only: high-bandwidth, persistent, far, or a device's.
fn is_special_memory(node: &TopologyObject) -> bool {
    node.subtype().is_some() && !subtype_is(node, &["DRAM"])
}

fn subtype_is(object: &TopologyObject, names: &[&str]) -> bool {
    object.subtype().is_some_and(|subtype| names.iter().any(|name| subtype.to_bytes() == name.as_bytes()))
}

/// The operating system's matrix in the order of our nodes; without one, [`NEAR`] and [`FAR`].
fn distances(hwloc: &hwlocality::Topology, numa: &[&TopologyObject]) -> Vec<Vec<u32>> {
    let count = numa.len();
    let mut distances: Vec<Vec<u32>> =
        (0..count).map(|i| (0..count).map(|j| if i == j { NEAR } else { FAR }).collect()).collect();
    // By name first: memory attributes of the firmware can come as a second latency matrix, in nanoseconds.
    let named = hwloc.distances_with_name("NUMALatency").unwrap_or_default();
    let any = || {
        let latency = Some(DistancesKind::MEANS_LATENCY);
        hwloc.distances_with_type(latency, ObjectType::NUMANode).unwrap_or_default()
    };
    let Some(matrix) = named.into_iter().next().or_else(|| any().into_iter().next()) else { return distances };
    // By our own index, not by pointer: the matrix keeps its own order, and its objects may be gone (None).
    let index: HashMap<TopologyObjectID, usize> =
        numa.iter().enumerate().map(|(i, object)| (object.global_persistent_index(), i)).collect();
    let ours: Vec<Option<usize>> =
        matrix.objects().map(|object| index.get(&object?.global_persistent_index()).copied()).collect();
    for ((from, to), value) in matrix.enumerate_distances() {
        if let (Some(from), Some(to)) = (ours[from], ours[to]) {
            distances[from][to] = u32::try_from(value).unwrap_or(u32::MAX);
        }
    }
    distances
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_valid_and_has_the_cpus_of_the_affinity_mask() {
        let found = this_machine();
        assert_eq!(found.warnings, Vec::<String>::new());
        let usable: Vec<u32> = found.topology.usable_pus().map(|pu| pu.os_index).collect();
        let mut sorted = usable.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, limits::affinity().unwrap());
    }

    #[test]
    fn without_hwloc_the_machine_is_flat() {
        let machine = flat(&[3, 5]);
        machine.assert_valid();
        assert_eq!(machine.core_groups.len(), 2);
        assert_eq!(machine.pus[1].os_index, 5);
    }

    #[test]
    fn hwlocs_own_words_are_read_where_ours_end() {
        let machine = from_synthetic("Package:2 [NUMANode(memory=1073741824)] L3:1(size=4194304) Core:2 PU:2").unwrap();
        assert_eq!((machine.nodes.len(), machine.pus.len(), machine.core_groups.len()), (2, 8, 2));
        assert_eq!(machine.nodes[1].bytes, 1 << 30);
        assert_eq!(machine.caches[0].bytes, 4 << 20);
        assert_eq!(machine.distances, [[10, 20], [20, 10]]);
    }

    /// What happened: a million attributes of one element, compared with each other, took an hour.
    #[test]
    fn an_element_of_very_many_attributes_is_refused() {
        let attributes: String = (0..300_000).map(|n| format!("a{n}=\"1\" ")).collect();
        for file in [
            format!("<topology {attributes}></topology>"),
            format!("<topology version=\"2.0\"><object type=\"Machine\" {attributes}/></topology>"),
            format!(
                "<topology version=\"2.0\"><object type=\"Machine\"><object type=\"Misc\" \
                    {attributes}/></object></topology>"
            ),
        ] {
            let message = xml::clean(&file).unwrap_err();
            assert!(message.contains("more than 256 attributes"), "{message}");
        }
    }

    #[test]
    fn errors_say_what_was_expected() {
        let message = describe("node:2 kore:4").unwrap_err().to_string();
        assert!(message.contains("`kore:4`: one of node, package"), "{message}");
        let message = describe("/no/such/machine.xml").unwrap_err().to_string();
        assert!(message.contains("/no/such/machine.xml: can't be read"), "{message}");
        for huge in ["node:65536 core:2", "Package:70000", "99999999999999 pu:2"] {
            let message = from_synthetic(huge).unwrap_err().to_string();
            assert!(message.contains("at most 65536 PUs") || message.contains("can't read it"), "{message}");
        }
        assert!(from_synthetic(" ").is_err());
        assert!(from_synthetic("node:1\0").is_err());
    }
}
