//! The machine as sysfs and procfs describe it, in the kernel's own numbers, read without any code under test.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Numbers of CPUs.
pub(crate) type Cpus = BTreeSet<u32>;

/// A data or unified cache.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cache {
    pub(crate) level: u8,
    pub(crate) bytes: u64,
    pub(crate) cpus: Cpus,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Node {
    pub(crate) number: u32,
    pub(crate) bytes: u64,
    pub(crate) cpus: Cpus,
    /// To each online node, by its number.
    pub(crate) distances: Vec<u32>,
}

/// The online parts of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) nodes: BTreeSet<Node>,
    /// The numbers of the nodes with memory.
    pub(crate) with_memory: BTreeSet<u32>,
    /// CPUs of one core: its hardware threads.
    pub(crate) cores: BTreeSet<Cpus>,
    pub(crate) caches: BTreeSet<Cache>,
}

impl Machine {
    /// `None` if this kernel does not tell its nodes, cores and caches.
    pub(crate) fn read() -> Option<Machine> {
        let system = Path::new("/sys/devices/system");
        let nodes = numbers(&text(&system.join("node/online"))?);
        let node = |number: &u32| {
            let folder = system.join(format!("node/node{number}"));
            let distances = text(&folder.join("distance"))?;
            Some(Node {
                number: *number,
                bytes: memory(&text(&folder.join("meminfo"))?)?,
                cpus: numbers(&text(&folder.join("cpulist"))?),
                distances: distances.split_whitespace().filter_map(|word| word.parse().ok()).collect(),
            })
        };
        let nodes: BTreeSet<Node> = nodes.iter().map(node).collect::<Option<_>>()?;
        let with_memory = numbers(&text(&system.join("node/has_memory"))?);
        let cpus = numbers(&text(&system.join("cpu/online"))?);
        let folders = cpus.iter().map(|cpu| system.join(format!("cpu/cpu{cpu}")));
        let core = |folder: &Path| Some(numbers(&text(&folder.join("topology/thread_siblings_list"))?));
        let cores: BTreeSet<Cpus> = folders.clone().map(|folder| core(&folder)).collect::<Option<_>>()?;
        let mut caches = BTreeSet::new();
        for folder in folders {
            for entry in fs::read_dir(folder.join("cache")).ok()?.flatten() {
                caches.extend(cache(&entry.path()));
            }
        }
        Some(Machine { nodes, with_memory, cores, caches })
    }

    /// CPUs with a shared cache and node (Falt et al., §4.1), made transitive.
    pub(crate) fn groups(&self) -> BTreeSet<Cpus> {
        let mut groups: BTreeSet<Cpus> = BTreeSet::new();
        for sharers in self.caches.iter().map(|cache| &cache.cpus).chain(&self.cores) {
            for node in &self.nodes {
                let mut together: Cpus = sharers.intersection(&node.cpus).copied().collect();
                let (joined, apart) = groups.into_iter().partition(|group| !group.is_disjoint(&together));
                let joined: BTreeSet<Cpus> = joined;
                together.extend(joined.into_iter().flatten());
                groups = apart;
                if !together.is_empty() {
                    groups.insert(together);
                }
            }
        }
        groups
    }
}

/// The threads of this process with names of this beginning: the rest of the name, and each one's permitted CPUs.
pub(crate) fn threads_named(beginning: &str) -> Vec<(String, Cpus)> {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux lists a process's threads").flatten();
    // A thread may end meanwhile.
    let tasks = tasks.filter_map(|task| text(&task.path().join("status")));
    let named = |status: String| Some((field(&status, "Name").strip_prefix(beginning)?.to_owned(), allowed(&status)));
    tasks.filter_map(named).collect()
}

/// The CPUs open to the calling thread.
pub(crate) fn own_cpus() -> Cpus {
    allowed(&own_status())
}

/// The nodes with memory open to this process.
pub(crate) fn own_memory() -> BTreeSet<u32> {
    numbers(field(&own_status(), "Mems_allowed_list"))
}

fn own_status() -> String {
    text(Path::new("/proc/thread-self/status")).expect("Linux tells a thread of itself")
}

/// A CPU stays in the list when it goes offline.
fn allowed(status: &str) -> Cpus {
    let listed = numbers(field(status, "Cpus_allowed_list"));
    text(Path::new("/sys/devices/system/cpu/online")).map_or(listed.clone(), |online| &listed & &numbers(&online))
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {name} in {status}")).trim()
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// `0-3,8`.
pub(crate) fn numbers(list: &str) -> BTreeSet<u32> {
    let ranges = list.split(',').filter(|range| !range.is_empty());
    let bounds = ranges.map(|range| range.split_once('-').unwrap_or((range, range)));
    let parse = |number: &str| number.parse::<u32>().unwrap_or_else(|_| panic!("a list of numbers: {list}"));
    bounds.flat_map(|(first, last)| parse(first)..=parse(last)).collect()
}

/// `Node 0 MemTotal: 131072 kB`, in bytes.
fn memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.contains(" MemTotal:"))?;
    Some(line.split_whitespace().rev().nth(1)?.parse::<u64>().ok()? << 10)
}

fn cache(folder: &Path) -> Option<Cache> {
    let read = |file: &str| text(&folder.join(file));
    if read("type")? == "Instruction" {
        return None;
    }
    let kilobytes: u64 = read("size")?.strip_suffix('K')?.parse().ok()?;
    Some(Cache {
        level: read("level")?.parse().ok()?,
        bytes: kilobytes << 10,
        cpus: numbers(&read("shared_cpu_list")?),
    })
}
