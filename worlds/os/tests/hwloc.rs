//! Our own readers beside hwloc's library: this machine, recorded files, XML, and lines. With the feature `hwloc`,
//! where hwloc is installed: `./dev test hwloc`.
//!
//! `VICUS_TREES` names a folder of further recorded machines, each a folder with `sys` in it.
#![cfg(feature = "hwloc")]

mod trees;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use vicus_os::discover::hwloc;
use vicus_os::{from_synthetic, from_sysfs, from_xml, this_machine};
use vicus_topology::{PuId, Topology};

/// Machines on which hwloc finds other facts, and why ours are meant.
const DIFFERENT: &[(&str, &str)] = &[
    ("32amd64-4s2n4c-cgroup2", "recorded without cgroup.controllers, without which hwloc reads no cpuset"),
    ("64amd64-4s2n4ca2co", "recorded without /proc/cpuinfo, without which hwloc takes a Bulldozer's unit for a core"),
    ("made-arm-clusters", "hwloc 2.9 sees a kind of core for each capacity"),
    ("made-snc-ring", "hwloc doesn't read Cpus_allowed_list of files"),
    (
        "40intel64-4n10c+pci-conflicts",
        "one CPU tells other sharers of its L3: hwloc loses the cache, we believe the rest",
    ),
    ("8em64t-2s2ca2c-buggynuma", "nodes tell CPUs of other nodes: hwloc loses these nodes' memory, we keep it"),
    ("fakeheterocpunuma", "invented: capacities that contradict frequencies, and nodes within nodes"),
    ("nvidia-dgx-gb10", "two kinds of cores, as hwloc has it since 2.13; 2.9 sees five, by capacities of single cores"),
];

/// What this process, started anew with `HWLOC_FSROOT`, prints before the machine.
const MARK: &str = "machine of hwloc:";

/// Called by [`by_hwloc`] in a process of its own, because hwloc reads the environment.
#[test]
fn in_a_process_of_its_own() {
    if let Some(root) = std::env::var_os("HWLOC_FSROOT") {
        let name = Path::new(&root).file_name().expect("a folder has a name").to_string_lossy().into_owned();
        let machine = hwloc::of_environment(&name).map_or_else(|error| error, |machine| machine.to_json());
        println!("{MARK}{}", machine.replace('\n', " "));
    }
}

fn by_hwloc(root: &Path) -> Result<Topology, String> {
    let own = std::env::current_exe().expect("a test knows its file");
    let output = Command::new(own)
        .args(["--exact", "in_a_process_of_its_own", "--nocapture"])
        .env("HWLOC_FSROOT", root)
        .output()
        .expect("a test can start itself");
    let text = String::from_utf8_lossy(&output.stdout);
    let json = text.split(MARK).nth(1).and_then(|rest| rest.lines().next()).ok_or(format!("{output:?}"))?;
    Topology::from_json(json).map_err(|_| json.to_owned())
}

/// What hwloc's library doesn't tell here.
fn comparable(mut machine: Topology) -> Topology {
    machine.devices.clear();
    machine.cpu_quota_millis = None;
    machine.nodes.iter_mut().for_each(|node| (node.speed, node.tier) = (None, None));
    machine
}

/// The first difference of two machines, in words.
fn difference(ours: &Topology, theirs: &Topology) -> Option<String> {
    let cpus = |machine: &Topology, pus: &[PuId]| -> BTreeSet<u32> {
        pus.iter().map(|pu| machine.pus[pu.index()].os_index).collect()
    };
    let cores = |machine: &Topology| -> BTreeSet<(BTreeSet<u32>, u32)> {
        machine.cores.iter().map(|core| (cpus(machine, &core.pus), core.kind)).collect()
    };
    let caches = |machine: &Topology| -> BTreeSet<(u8, u64, BTreeSet<u32>)> {
        machine.caches.iter().map(|cache| (cache.level, cache.bytes, cpus(machine, &cache.pus))).collect()
    };
    let nodes = |machine: &Topology| -> BTreeSet<(u32, u64, BTreeSet<u32>)> {
        machine.nodes.iter().map(|node| (node.os_index, node.bytes, cpus(machine, &node.pus))).collect()
    };
    fn show<T: std::fmt::Debug + Ord>(what: &str, ours: &BTreeSet<T>, theirs: &BTreeSet<T>) -> Option<String> {
        let ours_only: Vec<&T> = ours.difference(theirs).take(3).collect();
        let theirs_only: Vec<&T> = theirs.difference(ours).take(3).collect();
        (ours != theirs).then(|| format!("{what}: ours {ours_only:?}, hwloc's {theirs_only:?}"))
    }
    let order = |machine: &Topology| machine.pus.iter().map(|pu| (pu.os_index, pu.usable)).collect::<Vec<_>>();
    let all = |machine: &Topology| order(machine).into_iter().collect::<BTreeSet<_>>();
    show("PUs", &all(ours), &all(theirs))
        .or_else(|| show("cores", &cores(ours), &cores(theirs)))
        .or_else(|| show("caches", &caches(ours), &caches(theirs)))
        .or_else(|| show("nodes", &nodes(ours), &nodes(theirs)))
        .or_else(|| {
            (order(ours) != order(theirs))
                .then(|| format!("order of PUs: {:?}, hwloc {:?}", order(ours), order(theirs)))
        })
        .or_else(|| {
            let nodes = |machine: &Topology| machine.nodes.iter().map(|node| node.os_index).collect::<Vec<_>>();
            (nodes(ours) != nodes(theirs))
                .then(|| format!("order of nodes: {:?}, hwloc {:?}", nodes(ours), nodes(theirs)))
        })
        .or_else(|| {
            (ours.distances != theirs.distances)
                .then(|| format!("distances: {:?}, hwloc {:?}", ours.distances, theirs.distances))
        })
        .or_else(|| (ours != theirs).then(|| "something else".to_owned()))
}

#[test]
fn this_machine_is_hwlocs() {
    let ours = this_machine();
    assert_eq!(ours.warnings, Vec::<String>::new());
    let affinity = vicus_os::discover::limits::affinity().expect("a test may ask");
    let theirs = hwloc::live(&affinity).expect("hwloc knows this machine");
    assert_eq!(difference(&comparable(ours.topology), &comparable(theirs)), None);
}

#[test]
fn recorded_files_are_read_as_hwloc_reads_them() {
    let mut folders: Vec<PathBuf> = Vec::new();
    let unpacked = trees::unpack_all("hwloc");
    folders.extend(unpacked.folders());
    if let Some(more) = std::env::var_os("VICUS_TREES") {
        let entries = std::fs::read_dir(&more).expect("VICUS_TREES is a folder");
        folders.extend(entries.map(|entry| entry.expect("it can be read").path()));
    }
    folders.sort();
    let mut different = Vec::new();
    for folder in folders {
        let name = folder.file_name().expect("a folder has a name").to_string_lossy().into_owned();
        match (from_sysfs(&folder), by_hwloc(&folder)) {
            (Ok(ours), Ok(theirs)) => {
                if let Some(difference) = difference(&comparable(ours.topology), &comparable(theirs)) {
                    different.push(format!("{name}: {difference}"));
                }
            }
            (ours, theirs) => different.push(format!("{name}: {:?}, {:?}", ours.err(), theirs.err())),
        }
    }
    different.retain(|line| !DIFFERENT.iter().any(|(name, _)| line.starts_with(&format!("{name}:"))));
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn xml_is_read_as_hwloc_reads_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut compared = 0;
    for entry in std::fs::read_dir(folder).expect("it is there") {
        let path = entry.expect("it can be read").path();
        if path.extension().is_some_and(|ending| ending == "xml") {
            // A library of another version than the file's may refuse it.
            let (ours, Ok(theirs)) = (from_xml(&path).unwrap(), hwloc::from_xml(&path)) else { continue };
            assert_eq!(difference(&comparable(ours), &comparable(theirs)), None, "{}", path.display());
            compared += 1;
        }
    }
    assert!(compared >= 8, "{compared} files compared");
}

#[test]
fn lines_are_read_as_hwloc_reads_them() {
    for line in [
        "Package:2 [NUMANode(memory=1073741824)] L3:1(size=4194304) Core:2 PU:2",
        "node:2(memory=16GB) l3:1(size=8MB) core:4 pu:2",
        "numa:4(indexes=3,2,1,0) pack:1 l2:2 core:2 pu:1(indexes=0,2,4,6,8,10,12,14,1,3,5,7,9,11,13,15)",
        "[numa(memory=1GiB)] pack:2 [numa(memory=3MB)] l3:2 [numa(memory=512MB)] l2:2 l1d:1 l1i:1 core:1 pu:2",
        "group:2 die:2 l2u:2 l1dcache:1 co:2 pu:1",
        "2 3 4",
        "2 2 2 2",
        "2 2 2 2 2 2",
        "2 2 2 2 2 2 2 2",
        "3",
        "[numa(memory=7)] 2 2 2",
    ] {
        let theirs = hwloc::from_synthetic(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let ours = from_synthetic(line).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(difference(&ours, &theirs), None, "{line}");
    }
    for line in ["pu:0", "core:2 core:2 pu:1", "node:2 [numa] pu:2", "2 core:2 pu:2", "pu:2(size", "[core] pu:2"] {
        assert!(hwloc::from_synthetic(line).is_err() && from_synthetic(&format!("{line} ")).is_err(), "{line}");
    }
}

/// `cargo test --release -p vicus-os --features hwloc --test hwloc -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn how_long_each_takes() {
    let affinity = vicus_os::discover::limits::affinity().expect("a test may ask");
    let least = |f: &dyn Fn()| {
        let once = |_| {
            let began = std::time::Instant::now();
            f();
            began.elapsed()
        };
        (0..200).map(once).min()
    };
    println!("our reader {:?}", least(&|| _ = this_machine()));
    println!("hwloc {:?}", least(&|| _ = hwloc::live(&affinity)));
}
