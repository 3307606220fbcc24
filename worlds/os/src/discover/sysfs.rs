//! The shape of a machine from Linux's files, `/sys` and `/proc`: those of this machine, or recorded ones below a
//! folder.
//!
//! What the files are: Documentation/ABI/stable/sysfs-devices-system-cpu, .../sysfs-devices-node and
//! Documentation/admin-guide/cputopology.rst of the kernel. The rules for memory without CPUs, and for kinds of cores,
//! are those of hwloc's topology-linux.c, so that both find the same machine.
//!
//! A missing file is a missing fact, because kernels and containers differ in what they show. A file with other content
//! than expected is a warning with its name, and then a missing fact as well.

mod devices;

use super::shape::{FoundCache, FoundNode, FoundSpeed, Part, Shape};
use crate::files::open_at_once;
use crate::set::{MOST_NUMBERS, Set, shortened};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The largest file that is read: a mask of all CPUs has fewer bytes, and so has a row of distances.
const MOST_FILE_BYTES: usize = 1 << 20;
/// The largest plausible cache, and the largest plausible memory of a node.
const MOST_CACHE_BYTES: u64 = 1 << 40;
const MOST_NODE_BYTES: u64 = 1 << 56;
/// The most nodes: the kernel's own limit (`MAX_NUMNODES`).
const MOST_NODES: usize = 1024;
/// The most caches of one CPU; hwloc looks at as many.
const MOST_CACHES: usize = 10;
/// The most warnings; the others are counted.
const MOST_WARNINGS: usize = 8;

/// Files below a root folder, and what was amiss in them.
struct Files<'a> {
    root: &'a Path,
    buffer: Vec<u8>,
    warnings: Vec<String>,
    unsaid: usize,
}

/// A machine, and what was amiss in its files, one sentence each.
pub(super) struct FoundMachine {
    pub(super) shape: Shape,
    pub(super) warnings: Vec<String>,
}

/// Reads the machine below `root`. `running` are CPUs known to run, whatever the files say.
pub(super) fn read(root: &Path, running: &[u32]) -> FoundMachine {
    let mut files = Files { root, buffer: Vec::new(), warnings: Vec::new(), unsaid: 0 };
    let mut shape = Shape { pus: files.online(), ..Shape::default() };
    // lxcfs numbers a container's CPUs from 0, whatever their numbers are.
    let unlisted: Set = running.iter().copied().filter(|&cpu| cpu < MOST_NUMBERS && !shape.pus.contains(cpu)).collect();
    if !unlisted.is_empty() && !shape.pus.is_empty() {
        let path = files.path("sys/devices/system/cpu/online").display().to_string();
        let unlisted = counted("CPU", &unlisted, ["is", "are"]);
        files.warn(format!("{path}: {unlisted} not in it, and this process may run there"));
    }
    shape.pus.add(&unlisted);
    shape.name = files.text("proc/sys/kernel/hostname").unwrap_or_default();
    files.cpus(&mut shape);
    files.kinds(&mut shape);
    files.nodes(&mut shape);
    shape.devices = devices::read(&mut files, &shape);
    if files.unsaid > 0 {
        let unsaid = files.unsaid;
        files.warnings.push(format!("{}: {unsaid} more such faults", root.display()));
    }
    FoundMachine { shape, warnings: files.warnings }
}

impl Files<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn warn(&mut self, warning: String) {
        if self.warnings.len() < MOST_WARNINGS {
            self.warnings.push(warning);
        } else {
            self.unsaid += 1;
        }
    }

    /// The content without white space around it; `None` if there is no such file, or nothing in it.
    fn text(&mut self, name: &str) -> Option<String> {
        let path = self.path(name);
        match read_file(&path, &mut self.buffer) {
            Ok(()) => {
                let text = String::from_utf8_lossy(&self.buffer);
                // Some kernels write the zero that ends a text in C as well.
                let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned();
                (!text.is_empty()).then_some(text)
            }
            // The kernel answers with other errors than "not found" for facts that a device doesn't have.
            Err(error) if is_absence(&error) => None,
            Err(error) => {
                self.warn(format!("{}: can't be read: {error}", path.display()));
                None
            }
        }
    }

    /// The content, read by `parse`; a fault in it is a warning.
    fn parsed<T>(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let text = self.text(name)?;
        match parse(&text) {
            Ok(value) => Some(value),
            Err(what) => {
                let path = self.path(name);
                self.warn(format!("{}: {what}; it is taken as missing", path.display()));
                None
            }
        }
    }

    fn number(&mut self, name: &str, most: u64) -> Option<u64> {
        self.parsed(name, |text| {
            let number = text.parse::<u64>().ok().filter(|&number| number <= most);
            number.ok_or_else(|| format!("`{}` is no number from 0 to {most}", shortened(text)))
        })
    }

    /// A set by its mask, or else by its list.
    fn set(&mut self, mask: &str, list: &str) -> Option<Set> {
        self.parsed(mask, Set::parse).or_else(|| self.parsed(list, Set::parse_list))
    }

    fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// The names in a folder; none if it is not there.
    fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(folder)) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.take(1 << 16).collect();
        names.sort_unstable();
        names
    }

    /// The numbers `N` of the names `prefixN` in a folder.
    fn numbered(&self, folder: &str, prefix: &str) -> Set {
        let number = |name: String| name.strip_prefix(prefix)?.parse::<u32>().ok().filter(|&n| n < MOST_NUMBERS);
        self.names(folder).into_iter().filter_map(number).collect()
    }

    /// The CPUs that run.
    fn online(&mut self) -> Set {
        const CPUS: &str = "sys/devices/system/cpu";
        if let Some(online) = self.parsed(&format!("{CPUS}/online"), Set::parse_list) {
            return online;
        }
        // Without the list, each CPU that can be switched off has a file of its own.
        let all: Vec<u32> = self.numbered(CPUS, "cpu").numbers().collect();
        all.into_iter().filter(|cpu| self.number(&format!("{CPUS}/cpu{cpu}/online"), 1) != Some(0)).collect()
    }

    /// Packages, dies, clusters, cores and caches. Each file is read once for all CPUs that share what it tells.
    fn cpus(&mut self, shape: &mut Shape) {
        let cpus: Vec<u32> = shape.pus.numbers().collect();
        let topology = |cpu: u32, file: &str| format!("sys/devices/system/cpu/cpu{cpu}/topology/{file}");
        let Some(&first) = cpus.first() else { return };
        // What this kernel tells at all, by its present and its former names.
        let told = self.names(&topology(first, ""));
        let has = |file: &&str| told.iter().any(|name| name == *file);
        let one_of = |files: &[&'static str]| files.iter().copied().find(has);
        let parts = [
            one_of(&["package_cpus", "core_siblings"]),
            one_of(&["die_cpus"]),
            one_of(&["cluster_cpus"]),
            // Of IBM Z.
            one_of(&["drawer_siblings"]),
            one_of(&["book_siblings"]),
        ];
        for part in parts.into_iter().flatten() {
            let mut seen = Set::default();
            for &cpu in &cpus {
                if seen.contains(cpu) {
                    continue;
                }
                let Some(set) = self.set(&topology(cpu, part), &topology(cpu, &format!("{part}_list"))) else {
                    continue;
                };
                let set = set.within(&shape.pus);
                seen.add(&set);
                shape.parts.push(set.into());
            }
        }
        if let Some(siblings) = one_of(&["core_cpus", "thread_siblings"]) {
            self.cores(&cpus, siblings, shape);
        }
        // By index. A CPU may lack a cache of an index that others have, and may have one more than those before it.
        let indexes = self.numbered(&format!("sys/devices/system/cpu/cpu{first}/cache"), "index").numbers().max();
        let mut seen: Vec<Set> = vec![Set::default(); indexes.map_or(0, |most| MOST_CACHES.min(most as usize + 1))];
        for &cpu in &cpus {
            for index in 0..MOST_CACHES {
                if seen.get(index).is_some_and(|seen| seen.contains(cpu)) {
                    continue;
                }
                let file = |file: &str| format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{file}");
                if index >= seen.len() {
                    if !self.has(&file("")) {
                        break;
                    }
                    seen.push(Set::default());
                }
                let Some(set) = self.set(&file("shared_cpu_map"), &file("shared_cpu_list")) else { continue };
                let mut set = set.within(&shape.pus);
                if set.is_empty() {
                    // Itanium tells no PUs for some: those of the core.
                    let core = shape.cores.iter().find(|(core, _)| core.pus.contains(cpu));
                    set = core.map_or_else(|| Set::only(cpu), |(core, _)| core.pus.clone());
                }
                seen[index].add(&set);
                let kind = self.text(&file("type"));
                if kind.as_deref() == Some("Instruction") {
                    continue;
                }
                let level = self.parsed(&file("level"), |text| {
                    let level = text.parse::<u8>().ok().filter(|level| (1..=5).contains(level));
                    level.ok_or_else(|| format!("`{}` is no level from 1 to 5", shortened(text)))
                });
                let Some(level) = level else { continue };
                let bytes = self.parsed(&file("size"), |text| size(text, MOST_CACHE_BYTES)).unwrap_or(0);
                let from = self.path(&file("shared_cpu_map")).display().to_string();
                shape.caches.push(FoundCache { part: set.into(), level, bytes, from });
            }
        }
    }

    fn cores(&mut self, cpus: &[u32], siblings: &str, shape: &mut Shape) {
        let file = |cpu: u32, file: &str| format!("sys/devices/system/cpu/cpu{cpu}/topology/{file}");
        let mut seen = Set::default();
        // Threads of AMD's Bulldozer that share a unit have a number of their own each: they are cores.
        let mut have_numbers = None;
        for &cpu in cpus {
            if seen.contains(cpu) {
                continue;
            }
            let set = self.set(&file(cpu, siblings), &file(cpu, &format!("{siblings}_list")));
            let Some(mut set) = set.map(|set| set.within(&shape.pus)) else { continue };
            // A CPU is a sibling of itself.
            set.insert(cpu);
            let number = self.core_id(cpu);
            let other = set.numbers().find(|&other| other != cpu);
            if let (Some(other), None) = (other, have_numbers) {
                have_numbers = Some(number.is_some() && self.core_id(other).is_some_and(|id| Some(id) != number));
            }
            if other.is_some() && have_numbers == Some(true) {
                shape.parts.push(set.into());
                shape.cores.push((Set::only(cpu).into(), number));
                continue;
            }
            seen.add(&set);
            shape.cores.push((set.into(), number));
        }
    }

    /// A core's number; the kernel writes -1 if it doesn't know.
    fn core_id(&mut self, cpu: u32) -> Option<u32> {
        let number = self.parsed(&format!("sys/devices/system/cpu/cpu{cpu}/topology/core_id"), |text| {
            text.parse::<i64>().map_err(|_| format!("`{}` is no number", shortened(text)))
        });
        number.and_then(|number| u32::try_from(number).ok())
    }

    /// Kinds of cores on a hybrid machine, the slowest first: by Intel's types, or else by capacity, or by frequency.
    fn kinds(&mut self, shape: &mut Shape) {
        let types = ["cpu_lowpower", "cpu_atom", "cpu_core"].map(|name| {
            let cpus = self.parsed(&format!("sys/devices/{name}/cpus"), Set::parse_list)?.within(&shape.pus);
            (!cpus.is_empty()).then_some(cpus)
        });
        let types: Vec<Set> = types.into_iter().flatten().collect();
        if types.len() > 1 {
            shape.kinds = types.into_iter().zip(0..).collect();
            return;
        }
        let cpus: Vec<u32> = shape.pus.numbers().collect();
        for file in ["cpu_capacity", "cpufreq/base_frequency", "cpufreq/cpuinfo_max_freq"] {
            let name = |cpu: u32| format!("sys/devices/system/cpu/cpu{cpu}/{file}");
            if cpus.first().is_none_or(|&cpu| !self.has(&name(cpu))) {
                continue;
            }
            let values: Option<Vec<u64>> = cpus.iter().map(|&cpu| self.number(&name(cpu), 1 << 40)).collect();
            let Some(values) = values else { continue };
            let mut different = values.clone();
            different.sort_unstable();
            different.dedup();
            // Single cores that may be a little faster than their like (Intel's Turbo Boost Max 3.0) are no other kind.
            different.dedup_by(|value, kept| *value - *kept < *kept / 10);
            if different.len() > 1 {
                let kind = |&value: &u64| different.partition_point(|&least| least <= value).saturating_sub(1) as u32;
                let kinds: Vec<u32> = values.iter().map(kind).collect();
                let of = |kind: u32| cpus.iter().zip(&kinds).filter(move |(_, of)| **of == kind).map(|(&cpu, _)| cpu);
                shape.kinds = (0..different.len() as u32).map(|kind| (of(kind).collect(), kind)).collect();
                return;
            }
        }
    }

    fn nodes(&mut self, shape: &mut Shape) {
        const NODES: &str = "sys/devices/system/node";
        let listed = self.parsed(&format!("{NODES}/online"), Set::parse_list);
        let mut numbers: Vec<u32> = listed.unwrap_or_else(|| self.numbered(NODES, "node")).numbers().collect();
        numbers.retain(|node| self.has(&format!("{NODES}/node{node}")));
        numbers.sort_unstable();
        let all = numbers.clone();
        // Memory of GPUs that a driver shows as nodes is for the GPUs' programs.
        for gpu in self.names("proc/driver/nvidia/gpus") {
            let status = self.text(&format!("proc/driver/nvidia/gpus/{gpu}/numa_status")).unwrap_or_default();
            let node = status.lines().find_map(|line| line.strip_prefix("Node:")?.trim().parse::<u32>().ok());
            numbers.retain(|&number| Some(number) != node);
        }
        if numbers.len() > MOST_NODES {
            let folder = self.path(NODES);
            self.warn(format!("{}: more than {MOST_NODES} nodes; the others are left out", folder.display()));
            numbers.truncate(MOST_NODES);
        }
        let (mut taken, mut overlapping) = (Set::default(), Set::default());
        for &os_index in &numbers {
            let file = |file: &str| format!("{NODES}/node{os_index}/{file}");
            let mut own = self.set(&file("cpumap"), &file("cpulist")).unwrap_or_default().within(&shape.pus);
            if own.overlaps(&taken) {
                overlapping.insert(os_index);
                own = own.numbers().filter(|&cpu| !taken.contains(cpu)).collect();
            }
            taken.add(&own);
            let bytes = self.parsed(&file("meminfo"), |text| memory(text, "MemTotal:")).unwrap_or(0);
            shape.nodes.push(FoundNode { os_index, bytes, own, ..FoundNode::default() });
        }
        if shape.nodes.is_empty() {
            // A kernel without NUMA.
            let bytes = self.parsed("proc/meminfo", |text| memory(text, "MemTotal:")).unwrap_or(0);
            let near = Part::from(shape.pus.clone());
            shape.nodes.push(FoundNode { bytes, own: shape.pus.clone(), near, ..FoundNode::default() });
            return;
        }
        if !overlapping.is_empty() {
            let folder = self.path(NODES);
            let nodes = counted("node", &overlapping, ["tells", "tell"]);
            self.warn(format!("{}: {nodes} CPUs of other nodes, by `cpumap`; they stay there", folder.display()));
        }
        let homeless: Set = shape.pus.numbers().filter(|&cpu| !taken.contains(cpu)).collect();
        if !homeless.is_empty() {
            let folder = self.path(NODES);
            let cpus = counted("CPU", &homeless, ["is", "are"]);
            let first = numbers[0];
            self.warn(format!("{}: {cpus} on no node, and taken to be on node {first}", folder.display()));
            shape.nodes[0].own.add(&homeless);
        }
        shape.distances = if numbers.len() > 1 { self.distances(&numbers, &all) } else { None };
        self.speeds(&numbers, shape);
        self.near(&numbers, shape);
        let tiers = "sys/devices/virtual/memory_tiering";
        for tier in self.numbered(tiers, "memory_tier").numbers() {
            let file = format!("{tiers}/memory_tier{tier}/nodelist");
            let nodes = self.parsed(&file, Set::parse_list).unwrap_or_default();
            shape.nodes.iter_mut().filter(|node| nodes.contains(node.os_index)).for_each(|node| node.tier = Some(tier));
        }
    }

    /// All rows, or nothing: a matrix of which a part is guessed would be no order. Rows have all nodes of the kernel,
    /// `all`, those that are left out here among them.
    fn distances(&mut self, numbers: &[u32], all: &[u32]) -> Option<(Vec<u32>, Vec<u64>)> {
        let mut values = Vec::with_capacity(numbers.len() * numbers.len());
        for node in numbers {
            let row = self.parsed(&format!("sys/devices/system/node/node{node}/distance"), |text| {
                let row: Option<Vec<u64>> = text
                    .split_ascii_whitespace()
                    .map(|word| word.parse().ok().filter(|value| (1..=1 << 16).contains(value)))
                    .collect();
                let row = row.filter(|row| row.len() == all.len());
                row.ok_or_else(|| format!("expected {} distances, one to each node", all.len()))
            })?;
            values.extend(all.iter().zip(row).filter(|(to, _)| numbers.contains(to)).map(|(_, value)| value));
        }
        Some((numbers.to_vec(), values))
    }

    /// Bandwidth and latency by the firmware. Since Linux 5.10, access0 is for the fastest initiator of any
    /// kind, devices among them, and access1 for the fastest CPUs.
    fn speeds(&mut self, numbers: &[u32], shape: &mut Shape) {
        for node in &mut shape.nodes {
            let folder =
                |access: u32| format!("sys/devices/system/node/node{}/access{access}/initiators", node.os_index);
            let Some(folder) = [folder(1), folder(0)].into_iter().find(|folder| self.has(folder)) else { continue };
            let near: Vec<u32> = self.numbered(&folder, "node").numbers().filter(|n| numbers.contains(n)).collect();
            let values = ["read_bandwidth", "write_bandwidth", "read_latency", "write_latency"]
                .map(|file| self.number(&format!("{folder}/{file}"), u32::MAX.into()).unwrap_or(0) as u32);
            node.speed = Some(FoundSpeed { near, values });
        }
    }

    /// The PUs near to each node: its own, those that the firmware calls its initiators, and for memory alone without
    /// such ones, those of the nearest nodes.
    fn near(&mut self, numbers: &[u32], shape: &mut Shape) {
        let own: Vec<Set> = shape.nodes.iter().map(|node| node.own.clone()).collect();
        let distances = shape.distances.as_ref().map(|(_, values)| values);
        for (at, node) in shape.nodes.iter_mut().enumerate() {
            let mut near = node.own.clone();
            for initiator in node.speed.iter().flat_map(|speed| &speed.near) {
                let Some(other) = numbers.iter().position(|number| number == initiator) else { continue };
                near.add(&own[other]);
            }
            if let Some(values) = distances.filter(|_| near.is_empty()) {
                let row = &values[at * numbers.len()..][..numbers.len()];
                let others = || (0..numbers.len()).filter(|&other| other != at);
                let least = others().map(|other| row[other]).min().unwrap_or(0);
                let nearest: Vec<usize> = others().filter(|&other| row[other] == least).collect();
                // As near to all others as to any is near to none.
                if least > row[at] && nearest.len() < numbers.len() - 1 {
                    nearest.into_iter().for_each(|other| near.add(&own[other]));
                }
            }
            // Of a node that is told by no initiator, its own PUs are near.
            if let Some(speed) = &mut node.speed
                && speed.near.is_empty()
                && !node.own.is_empty()
            {
                speed.near.push(node.os_index);
            }
            node.near = near.into();
        }
    }
}

/// `CPU 5 is`, or `3 CPUs, CPU 5 among them, are`.
fn counted(what: &str, which: &Set, [one, many]: [&str; 2]) -> String {
    let first = which.first();
    match which.numbers().count() {
        1 => format!("{what} {first} {one}"),
        count => format!("{count} {what}s, {what} {first} among them, {many}"),
    }
}

/// Opens a regular file. Whatever else a recorded folder has in its place is refused: a pipe would wait for a writer.
pub(super) fn open(path: &Path) -> std::io::Result<File> {
    let file = open_at_once(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(std::io::Error::other("it is no regular file")) }
}

/// Reads a whole file into the buffer. Files of sysfs have no size of their own, and most come in one piece.
fn read_file(path: &Path, buffer: &mut Vec<u8>) -> std::io::Result<()> {
    let mut file = open(path)?;
    buffer.clear();
    loop {
        let start = buffer.len();
        buffer.resize(start + 4096, 0);
        match file.read(&mut buffer[start..]) {
            // Less than there was room for: the end.
            Ok(read) if read < 4096 => {
                buffer.truncate(start + read);
                return Ok(());
            }
            Ok(_) if start < MOST_FILE_BYTES => {}
            Ok(_) => return Err(std::io::Error::other(format!("it has more than {MOST_FILE_BYTES} bytes"))),
            Err(error) if error.kind() == ErrorKind::Interrupted => buffer.truncate(start),
            Err(error) => return Err(error),
        }
    }
}

fn is_absence(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        || matches!(
            error.raw_os_error(),
            Some(libc::EINVAL | libc::ENODATA | libc::ENXIO | libc::ENODEV | libc::EOPNOTSUPP)
        )
}

/// A size as the kernel writes it, `32K`.
fn size(text: &str, most: u64) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number = digits.parse::<u64>().ok().filter(|&number| number <= most >> shift);
    number
        .map(|number| number << shift)
        .ok_or_else(|| format!("`{}` is no size such as 32K, up to {} GiB", shortened(text), most >> 30))
}

/// The bytes of a line `MemTotal: 16384 kB`, which may begin with the node's number.
fn memory(text: &str, field: &str) -> Result<u64, String> {
    let line = text.lines().find_map(|line| line.split_once(field)).map(|(_, rest)| rest.trim());
    let number = line.and_then(|rest| rest.strip_suffix("kB")).and_then(|number| number.trim().parse::<u64>().ok());
    let number = number.filter(|&number| number <= MOST_NODE_BYTES >> 10);
    number.map(|number| number << 10).ok_or_else(|| format!("expected a line `{field} NUMBER kB`"))
}
