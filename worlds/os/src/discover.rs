//! The shape of a machine: this one by Linux's files, one captured by hwloc as XML, one of recorded files, or one
//! described by a line of text. Plain data comes out ([`Topology`]).
//!
//! Each source fills in sets of PUs (`shape.rs`), and one piece of code puts them in order. With the feature `hwloc`,
//! hwloc itself is a source as well: of this machine on other systems than Linux, and for tests that compare.

#[cfg(feature = "hwloc")]
pub mod hwloc;
pub mod limits;
mod shape;
mod synthetic;
mod sysfs;
mod xml;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use vicus_topology::{Core, CoreId, GroupId, Node, NodeId, Pu, PuId, Topology};

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
/// Never fails: what the kernel's files don't tell is unknown, and a warning says so. Without any of them, the machine
/// is flat (one node, no caches).
///
/// ```
/// let found = vicus_os::this_machine();
/// assert!(found.topology.usable_pus().count() >= 1);
/// ```
pub fn this_machine() -> Discovered {
    let mut warnings = Vec::new();
    let affinity = limits::affinity().unwrap_or_else(|error| {
        let count = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        warnings.push(format!(
            "the affinity mask of this process can't be read (sched_getaffinity: {error}): assuming CPUs 0 to {}",
            count - 1
        ));
        (0..count).collect()
    });
    let mut topology = live(Path::new("/"), &affinity, &mut warnings).unwrap_or_else(|reason| {
        warnings.push(format!(
            "this machine can't be described ({reason}): caches and NUMA nodes are unknown, so nothing is placed by \
             locality"
        ));
        flat(&affinity)
    });
    topology.cpu_quota_millis = limits::cpu_quota_millis(Path::new("/"));
    topology.assert_valid();
    Discovered { topology, warnings }
}

#[cfg(target_os = "linux")]
fn live(root: &Path, affinity: &[u32], warnings: &mut Vec<String>) -> Result<Topology, String> {
    let sysfs::FoundMachine { mut shape, warnings: faults } = sysfs::read(root, affinity);
    warnings.extend(faults);
    if shape.name.is_empty() {
        shape.name = "this machine".to_owned();
    }
    if shape.cores.is_empty() && shape.caches.is_empty() {
        let folder = root.join("sys/devices/system/cpu");
        let missing = if folder.is_dir() {
            "no CPU's folder tells of cores or caches: the CPUs of a NUMA node are taken for one core group"
        } else {
            "it is not there (is /sys mounted?): caches are unknown, and so may be NUMA nodes"
        };
        warnings.push(format!("{}: {missing}", folder.display()));
    }
    shape.into_topology(|cpu| affinity.contains(&cpu), &mut |warning| warnings.push(warning))
}

#[cfg(all(not(target_os = "linux"), feature = "hwloc"))]
fn live(_root: &Path, affinity: &[u32], _warnings: &mut Vec<String>) -> Result<Topology, String> {
    hwloc::live(affinity)
}

/// Without Linux's files, the machine is its CPUs. There is nothing to warn of: that is what this system tells.
#[cfg(not(any(target_os = "linux", feature = "hwloc")))]
fn live(_root: &Path, affinity: &[u32], _warnings: &mut Vec<String>) -> Result<Topology, String> {
    Ok(flat(affinity))
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

/// Reads a machine from files of Linux that were recorded below a folder, by hwloc's `hwloc-gather-topology` or by a
/// copy of `/sys/devices/system` and `/sys/bus/pci`. PUs outside of the recording process's cpuset, or of
/// `Cpus_allowed_list` in `proc/self/status`, are not usable, if that was recorded.
///
/// # Errors
/// The folder has no CPUs that run.
pub fn from_sysfs(root: impl AsRef<Path>) -> Result<Discovered, DiscoverError> {
    let root = root.as_ref();
    let sysfs::FoundMachine { mut shape, mut warnings } = sysfs::read(root, &[]);
    let name = root.file_name().unwrap_or(root.as_os_str());
    shape.name = name.to_string_lossy().into_owned();
    if shape.pus.is_empty() {
        let folder = root.join("sys/devices/system/cpu");
        let reason = format!("{}: no CPU runs there", folder.display());
        return Err(DiscoverError::NoMachine { path: root.to_owned(), reason });
    }
    let allowed = limits::recorded_cpus(root);
    let topology = shape
        .into_topology(|cpu| allowed.iter().all(|allowed| allowed.contains(cpu)), &mut |warning| warnings.push(warning))
        .map_err(|reason| DiscoverError::NoMachine { path: root.to_owned(), reason })?;
    Ok(Discovered { topology, warnings })
}

/// Reads a machine from a file of hwloc (`lstopo machine.xml`). PUs outside the allowed set of the capturing process
/// are not usable.
///
/// # Errors
/// The file can't be read, or there is no machine in it.
pub fn from_xml(path: impl AsRef<Path>) -> Result<Topology, DiscoverError> {
    let path = path.as_ref();
    let xml =
        std::fs::read_to_string(path).map_err(|source| DiscoverError::Unreadable { path: path.to_owned(), source })?;
    xml::read(&xml)
        .and_then(|(mut shape, allowed)| {
            shape.name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
            shape.tells_all = true;
            // What does not nest was refused by the reader.
            shape.into_topology(|cpu| allowed.contains(cpu), &mut |_| {})
        })
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
    let mut shape = synthetic::read(text).map_err(|theirs| {
        error(format!("`{}`: {}; as a synthetic description of hwloc: {theirs}", ours.word, ours.expected))
    })?;
    shape.name = text.to_owned();
    shape.tells_all = true;
    shape.into_topology(|_| true, &mut |_| {}).map_err(error)
}

/// [`from_sysfs`] for a folder, [`from_xml`] for another existing file or a name ending in `.xml`, else
/// [`from_synthetic`].
///
/// # Errors
/// Those of the three.
pub fn describe(text_or_path: &str) -> Result<Topology, DiscoverError> {
    let path = Path::new(text_or_path);
    if path.is_dir() {
        from_sysfs(path).map(|found| found.topology)
    } else if path.is_file() || path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("xml")) {
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
    /// The file or folder can be read, but there is no machine in it.
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
            DiscoverError::NoMachine { path, reason } if path.is_dir() => write!(
                f,
                "{}: no recorded files of a machine: {reason}; `hwloc-gather-topology` records them",
                path.display()
            ),
            DiscoverError::NoMachine { path, reason } => write!(
                f,
                "{}: not a machine in hwloc's XML: {reason}; `lstopo {0}` on the machine itself writes one",
                path.display()
            ),
            DiscoverError::NoDescription { text, expected } => write!(
                f,
                "`{text}` is neither a file nor a machine in one line: expected {expected}; \
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

/// One node and core group, no caches, a core for each CPU: all the facts available without the kernel's files.
pub(crate) fn flat(cpus: &[u32]) -> Topology {
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
        nodes: vec![Node { id: node, os_index: 0, bytes: 0, pus: ids().collect(), speed: None, tier: None }],
        distances: vec![vec![shape::NEAR]],
        cpu_quota_millis: None,
        devices: Vec::new(),
    };
    machine.group_by_nodes();
    machine
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
    fn without_the_kernels_files_the_machine_is_flat() {
        let machine = flat(&[3, 5]);
        machine.assert_valid();
        assert_eq!(machine.core_groups.len(), 1);
        assert_eq!(machine.pus[1].os_index, 5);
    }

    /// A folder in the place of `/`, with these files.
    fn root(test: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("vicus-discover-{test}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder can be made");
            std::fs::write(path, text).expect("a file can be written");
        }
        root
    }

    /// gVisor and some emulators tell of nodes and memory, and neither of cores nor of caches.
    #[test]
    fn nodes_and_memory_are_kept_where_no_caches_are_told() {
        let nodes = root(
            "nodes",
            &[
                ("sys/devices/system/cpu/online", "0-3\n"),
                ("sys/devices/system/node/online", "0-1\n"),
                ("sys/devices/system/node/node0/cpumap", "3\n"),
                ("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 1024 kB\n"),
                ("sys/devices/system/node/node1/cpumap", "c\n"),
                ("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 2048 kB\n"),
            ],
        );
        let one = root("one", &[("proc/meminfo", "MemTotal: 4096 kB\n")]);
        for (root, bytes, groups, warning) in [
            (
                &nodes,
                &[1 << 20, 2 << 20][..],
                &[vec![0, 1], vec![2, 3]][..],
                "no CPU's folder tells of cores or caches",
            ),
            (&one, &[4 << 20], &[vec![0, 1, 2, 3]], "it is not there"),
        ] {
            let mut warnings = Vec::new();
            let machine = live(root, &[0, 1, 2, 3], &mut warnings).unwrap();
            assert_eq!(machine.nodes.iter().map(|node| node.bytes).collect::<Vec<_>>(), bytes);
            let numbers = |group: &vicus_topology::CoreGroup| -> Vec<u32> {
                group.pus.iter().map(|pu| machine.pus[pu.index()].os_index).collect()
            };
            assert_eq!(machine.core_groups.iter().map(numbers).collect::<Vec<_>>(), groups);
            assert!(warnings.len() == 1 && warnings[0].contains(warning), "{warnings:?}");
            // The same files, recorded.
            if root == &nodes {
                let recorded = from_sysfs(root).unwrap().topology;
                assert_eq!((recorded.nodes, recorded.core_groups), (machine.nodes, machine.core_groups));
            }
            let _ = std::fs::remove_dir_all(root);
        }
    }

    /// lxcfs numbers a container's CPUs from 0, while the kernel's mask has the numbers of the host.
    #[test]
    fn cpus_that_the_list_lacks_are_one_warning() {
        let root = root("lxc", &[("sys/devices/system/cpu/online", "0-7\n"), ("proc/meminfo", "MemTotal: 4 kB\n")]);
        let affinity: Vec<u32> = (100..140).collect();
        let mut warnings = Vec::new();
        let machine = live(&root, &affinity, &mut warnings).unwrap();
        assert_eq!(machine.usable_pus().map(|pu| pu.os_index).collect::<Vec<_>>(), affinity);
        let path = root.join("sys/devices/system/cpu/online");
        let expected =
            format!("{}: 40 CPUs, CPU 100 among them, are not in it, and this process may run", path.display());
        assert!(warnings.len() == 2 && warnings[0].starts_with(&expected), "{warnings:?}");
        let _ = std::fs::remove_dir_all(root);
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
            let message = xml::read(&file).err().unwrap();
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
