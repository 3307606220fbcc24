//! Recorded files of Linux become the machines that they are of, and damaged ones a machine with warnings, or an error.
//!
//! `tests/hwloc.rs` holds the same files against hwloc's library, where it is installed.

mod trees;

use std::path::{Path, PathBuf};
use trees::{Unpacked, unpack_all};
use vicus_os::{DiscoverError, Discovered, describe, from_sysfs};
use vicus_topology::{DeviceKind, NodeId, Place, PuId, Topology};

type Fact = (&'static str, usize, usize, usize, [usize; 3]);

/// name, PUs, cores, nodes, caches of level 1, 2, 3. Counts of `hwloc-calc --disallowed -N pu all` (and core, numanode,
/// l1d, l2, l3) of hwloc 2.9 with `HWLOC_FSROOT` and `HWLOC_COMPONENTS=-x86`; those of `made-` machines by hand.
const FACTS: &[Fact] = &[
    ("16em64t-4s2c2t-offlines", 12, 7, 1, [7, 7, 4]),
    ("16ia64-8n2s", 16, 16, 8, [16, 16, 16]),
    ("20em64t-hybrid-1p6c2t+2ca4co1t", 20, 14, 1, [14, 8, 1]),
    ("32amd64-4s2n4c-cgroup2", 32, 32, 8, [32, 32, 8]),
    ("32em64t-2n8c+dax+nvme+mic+dimms", 16, 16, 2, [16, 16, 2]),
    ("40intel64-2g2n4c+pcilocality", 40, 40, 4, [40, 40, 4]),
    ("48amd64-4pa2n6c-sparse", 48, 48, 8, [48, 48, 8]),
    // It describes no cores: each PU is one.
    ("4fake-4gr1nu1pu", 4, 4, 4, [0, 0, 0]),
    ("64amd64-4s2n4ca2co", 64, 64, 8, [64, 32, 8]),
    // hwloc loses seven of the eight nodes, because CPUs are in several.
    ("8em64t-2s2ca2c-buggynuma", 8, 8, 8, [8, 4, 0]),
    ("8em64t-2s4c-asymcaches", 8, 8, 1, [5, 3, 0]),
    ("fakeheteromemtiers", 6, 6, 7, [6, 6, 1]),
    ("fakememinitiators-1np2c+1npp+gi", 8, 8, 11, [0, 0, 0]),
    ("made-arm-clusters", 7, 7, 1, [1, 2, 0]),
    ("made-snc-ring", 16, 8, 5, [8, 8, 4]),
    ("nvidia-dgx-gb10", 20, 20, 1, [20, 20, 2]),
    ("nvidiagpunumanodes", 32, 8, 2, [8, 4, 4]),
];

fn machine(test: &str, name: &str) -> Discovered {
    let unpacked = Unpacked::new(test);
    let (_, text) = trees::all().into_iter().find(|(own, _)| own == name).expect("it is recorded");
    from_sysfs(unpacked.unpack(name, &text)).unwrap()
}

fn numbers(machine: &Topology, pus: &[PuId]) -> Vec<u32> {
    pus.iter().map(|pu| machine.pus[pu.index()].os_index).collect()
}

fn node(machine: &Topology, os_index: u32) -> NodeId {
    machine.nodes.iter().find(|node| node.os_index == os_index).expect("it has the node").id
}

#[test]
fn every_recorded_machine_has_what_hwloc_counts() {
    let unpacked = unpack_all("counts");
    assert_eq!(unpacked.folders().len(), FACTS.len(), "every file has its line above");
    for (folder, &(name, pus, cores, nodes, caches)) in unpacked.folders().iter().zip(FACTS) {
        assert!(folder.ends_with(name), "{} at {name}", folder.display());
        let Discovered { topology, warnings } = from_sysfs(folder).unwrap();
        assert_eq!(warnings.is_empty(), name != "8em64t-2s2ca2c-buggynuma", "{name}: {warnings:?}");
        topology.assert_valid();
        assert_eq!(topology.name, name);
        let level = |level| topology.caches.iter().filter(|cache| cache.level == level).count();
        let found = (topology.pus.len(), topology.cores.len(), topology.nodes.len(), [level(1), level(2), level(3)]);
        assert_eq!(found, (pus, cores, nodes, caches), "{name}");
        // A user may name the folder as a machine.
        assert_eq!(describe(folder.to_str().unwrap()).unwrap(), topology, "{name}");
    }
}

#[test]
fn two_sockets_of_two_nodes_are_in_the_order_of_the_hierarchy() {
    let Discovered { topology: machine, .. } = machine("ring", "made-snc-ring");
    let order: Vec<u32> = machine.pus.iter().map(|pu| pu.os_index).collect();
    assert_eq!(order, [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15]);
    // Memory alone is beside the node that the firmware calls its initiator.
    let nodes: Vec<(u32, u64)> = machine.nodes.iter().map(|node| (node.os_index, node.bytes >> 30)).collect();
    assert_eq!(nodes, [(0, 64), (4, 256), (1, 64), (2, 64), (3, 0)]);
    assert_eq!(machine.distances[0], [10, 17, 12, 21, 12]);
    assert_eq!(machine.distances[1], [17, 10, 24, 27, 24]);
    assert_eq!(numbers(&machine, &machine.nodes[2].pus), [2, 10, 3, 11]);
    assert!(!machine.has_memory(node(&machine, 3)));
    assert_eq!(machine.core_groups.len(), 4);
    assert_eq!(machine.caches.last().map(|cache| (cache.level, cache.bytes)), Some((3, 30 << 20)));
    let unusable: Vec<u32> = machine.pus.iter().filter(|pu| !pu.usable).map(|pu| pu.os_index).collect();
    assert_eq!(unusable, [8, 10, 11, 12, 13, 14, 15]);
}

#[test]
fn the_firmwares_numbers_and_the_kernels_tiers_are_read() {
    let Discovered { topology: machine, .. } = machine("speeds", "made-snc-ring");
    let tiers: Vec<Option<u32>> = machine.nodes.iter().map(|node| node.tier).collect();
    assert_eq!(tiers, [Some(4), Some(22), Some(4), Some(4), Some(4)]);
    let speed = machine.nodes[1].speed.as_ref().unwrap();
    assert_eq!((speed.read_mb_s, speed.write_mb_s, speed.read_ns, speed.write_ns), (45000, 22500, 210, 220));
    assert_eq!(speed.near, [node(&machine, 0)]);
    assert_eq!(machine.highest_bandwidth(node(&machine, 0)), Some(node(&machine, 0)));
    assert_eq!(machine.highest_bandwidth(node(&machine, 1)), None);
}

#[test]
fn what_is_fast_for_a_device_is_not_taken_for_fast_for_cpus() {
    // Node 5 is nearest to node 4, which is a device without CPUs: access0 is the device's, access1 is that of CPUs.
    let Discovered { topology: machine, .. } = machine("initiators", "fakememinitiators-1np2c+1npp+gi");
    let speed = machine.nodes[node(&machine, 5).index()].speed.as_ref().unwrap();
    assert_eq!((speed.write_mb_s, speed.read_ns, &speed.near[..]), (131_072, 26, &[node(&machine, 0)][..]));
    let speed = machine.nodes[node(&machine, 10).index()].speed.as_ref().unwrap();
    assert_eq!((speed.read_mb_s, &speed.near[..]), (78644, &[node(&machine, 1), node(&machine, 3)][..]));
}

#[test]
fn devices_are_on_their_nodes_and_a_place_is_near_to_them() {
    let Discovered { topology: ring, .. } = machine("devices", "made-snc-ring");
    let told: Vec<(&str, DeviceKind)> = ring.devices.iter().map(|device| (&device.address[..], device.kind)).collect();
    let expected = [
        ("0000:3b:00.0", DeviceKind::Network),
        ("0000:5e:00.0", DeviceKind::Storage),
        ("0000:af:00.0", DeviceKind::Gpu),
        ("10000:01:00.0", DeviceKind::Accelerator),
    ];
    assert_eq!(told, expected);
    for (name, number) in [("eth0", 1), ("0000:3b:00.0", 1), ("nvme0n1", 0), ("card1", 2), ("AF:00.0", 2)] {
        assert_eq!(Place::near_device(&ring, name), Ok(Place::Node(node(&ring, number))), "{name}");
    }
    for name in ["lo", "card1-DP-1", "0000:00:1f.0"] {
        let told = ring.near_device(name).unwrap_err().to_string();
        assert!(told.contains("there are eth0, nvme0n1, card1, 10000:01:00.0"), "{told}");
    }
    let told = ring.near_device("10000:01:00.0").unwrap_err().to_string();
    assert!(told.contains("/sys/bus/pci/devices/10000:01:00.0/numa_node names none"), "{told}");
    // A real one: an InfiniBand adapter on node 2, and others of which nothing is known.
    let Discovered { topology: real, .. } = machine("devices", "40intel64-2g2n4c+pcilocality");
    assert_eq!(real.near_device("qib0"), Ok(node(&real, 2)));
    assert_eq!(real.device("eth3").map(|device| &device.address[..]), Some("0000:03:00.1"));
    assert!(real.near_device("eth3").is_err());
}

#[test]
fn clusters_and_capacities_of_an_arm_processor_are_groups_and_kinds() {
    let Discovered { topology: arm, .. } = machine("arm", "made-arm-clusters");
    let groups: Vec<Vec<u32>> = arm.core_groups.iter().map(|group| numbers(&arm, &group.pus)).collect();
    assert_eq!(groups, [vec![0, 1, 2, 3], vec![5, 6, 7]]);
    let kinds: Vec<u32> = arm.cores.iter().map(|core| core.kind).collect();
    assert_eq!(kinds, [0, 0, 0, 0, 1, 1, 1], "a core that is 2 % slower than its like is of no other kind");
    assert_eq!(arm.caches.iter().map(|cache| cache.bytes >> 10).collect::<Vec<_>>(), [32, 512, 2048]);
    assert_eq!(arm.nodes[0].bytes, 8 << 30);
    // NVIDIA's GB10: ten Cortex-X925 and ten Cortex-A725.
    let Discovered { topology: gb10, .. } = machine("arm", "nvidia-dgx-gb10");
    let fast = gb10.cores.iter().filter(|core| core.kind == 1).map(|core| gb10.pus[core.pus[0].index()].os_index);
    let mut fast: Vec<u32> = fast.collect();
    fast.sort_unstable();
    assert_eq!(fast, [5, 6, 7, 8, 9, 15, 16, 17, 18, 19]);
}

#[test]
fn offline_cpus_do_not_appear_and_hybrid_cores_have_kinds() {
    let Discovered { topology: machine, .. } = machine("offline", "16em64t-4s2c2t-offlines");
    let mut numbers: Vec<u32> = machine.pus.iter().map(|pu| pu.os_index).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 3, 4, 6, 7, 8, 9, 10, 11, 12, 15]);
    let Discovered { topology: hybrid, .. } = self::machine("offline", "20em64t-hybrid-1p6c2t+2ca4co1t");
    for core in &hybrid.cores {
        let pu = hybrid.pus[core.pus[0].index()].os_index;
        assert_eq!(core.kind, u32::from(pu < 12), "PU {pu}");
    }
}

#[test]
fn a_recorded_cpuset_and_the_memory_of_gpus_are_known() {
    // /cgroup/unified/uid_2008/job_15389/step_0/cpuset.cpus.effective of the recorded process.
    let Discovered { topology: machine, .. } = machine("cpuset", "32amd64-4s2n4c-cgroup2");
    let mut usable: Vec<u32> = machine.usable_pus().map(|pu| pu.os_index).collect();
    usable.sort_unstable();
    assert_eq!(usable, [0, 1, 2, 3, 4, 5]);
    // Nodes 250 to 255 are memory of GPUs.
    let Discovered { topology: machine, .. } = self::machine("cpuset", "nvidiagpunumanodes");
    assert_eq!(machine.nodes.iter().map(|node| node.os_index).collect::<Vec<_>>(), [0, 8]);
}

#[test]
fn a_fault_is_told_with_the_name_of_its_file() {
    let unpacked = Unpacked::new("faults");
    let (_, whole) = trees::all().into_iter().find(|(name, _)| name == "made-snc-ring").unwrap();
    let cases = [
        ("online = 0-15", "online = 0-15,x", "sys/devices/system/cpu/online: `x` is no number or range"),
        ("core_cpus = 0101", "core_cpus = 01z1", "cpu0/topology/core_cpus: `01z1` is no word of a set"),
        ("core_id = 1", "core_id = one", "cpu1/topology/core_id: `one` is no number"),
        ("index0/level = 1", "index0/level = 77", "cpu0/cache/index0/level: `77` is no level from 1 to 5"),
        ("index3/size = 30720K", "index3/size = 99999999999G", "cpu0/cache/index3/size: `99999999999G` is no size"),
        ("index3/shared_cpu_map = 0303", "index3/shared_cpu_map = 0307", "cpu0/cache/index3/shared_cpu_map: its PUs"),
        ("cpumap = 0c0c", "cpumap = 0d0c", "sys/devices/system/node: node 1 tells CPUs of other nodes"),
        ("cpumap = 0c0c", "cpumap = 0c00", "sys/devices/system/node: 2 CPUs, CPU 2 among them, are on no node"),
        ("distance = 10 12 21 12 17", "distance = 10 12 21 12", "node0/distance: expected 5 distances"),
        ("distance = 10 12 21 12 17", "distance = 10 12 0 12 17", "node0/distance: expected 5 distances"),
        ("Node 0 MemTotal:       67108864 kB", "Node 0 MemFree: 1 kB", "node0/meminfo: expected a line `MemTotal:"),
        (
            "read_bandwidth = 120000",
            "read_bandwidth = -1",
            "node0/access0/initiators/read_bandwidth: `-1` is no number",
        ),
        ("nodelist = 4", "nodelist = 4-1", "memory_tier22/nodelist: `4-1` is no number or range"),
        ("numa_node = 1", "numa_node = 77", "0000:3b:00.0/numa_node: there is no node 77"),
        ("class = 0x020000", "class = net", "0000:3b:00.0/class: `net` is no class"),
    ];
    for (at, (from, to, expected)) in cases.into_iter().enumerate() {
        assert!(whole.contains(from), "{from}");
        let folder = unpacked.unpack(&at.to_string(), &whole.replacen(from, to, 1));
        let Discovered { topology, warnings } = from_sysfs(&folder).unwrap();
        topology.assert_valid();
        assert!(warnings.iter().any(|warning| warning.contains(expected)), "{to}: {warnings:?}");
        assert!(warnings.iter().all(|warning| warning.starts_with(folder.to_str().unwrap())), "{warnings:?}");
    }
    let nothing = unpacked.unpack("nothing", "@ sys/devices/system/cpu\nonline = \n");
    for folder in [nothing, PathBuf::from("/no/such/folder")] {
        let error = from_sysfs(&folder).unwrap_err();
        assert!(matches!(&error, DiscoverError::NoMachine { path, .. } if *path == folder));
        assert!(error.to_string().contains("sys/devices/system/cpu: no CPU runs there"), "{error}");
    }
    // A folder in the place of a file, and a file in the place of a folder.
    let odd = "@ sys/devices/system/cpu\nonline = 0-1\ncpu0 = x\n\
               @ sys/devices/system/node/online/x\n@ sys/bus/pci\ndevices = 1\n";
    let Discovered { topology, warnings } = from_sysfs(unpacked.unpack("odd", odd)).unwrap();
    assert_eq!((topology.pus.len(), topology.nodes.len()), (2, 1));
    assert!(warnings.iter().any(|warning| warning.contains("node/online: can't be read")), "{warnings:?}");
}

/// What happened: a pipe without a writer stopped the reader for ever.
#[test]
fn a_pipe_in_the_place_of_a_file_is_a_warning() {
    let unpacked = Unpacked::new("pipes");
    let folder = unpacked.unpack("machine", "@ sys/devices/system/cpu\nonline = 0-1\n@ proc/self\n");
    for pipe in ["proc/self/status", "proc/meminfo"] {
        let made = std::process::Command::new("mkfifo").arg(folder.join(pipe)).status().expect("coreutils are there");
        assert!(made.success());
    }
    let (tell, told) = std::sync::mpsc::channel();
    let below = folder.clone();
    // A reader that comes too late has nobody to tell it to.
    std::thread::spawn(move || tell.send(from_sysfs(below).map_err(|error| error.to_string())).is_ok());
    let found = told.recv_timeout(std::time::Duration::from_secs(20)).expect("it ends").unwrap();
    assert_eq!(found.topology.pus.len(), 2);
    let expected = format!("{}: can't be read: it is no regular file", folder.join("proc/meminfo").display());
    assert_eq!(found.warnings, [expected]);
}

/// What happened: 1 MiB of ranges of all CPUs took two billion steps.
#[test]
fn a_list_that_names_the_same_cpus_again_and_again_is_refused() {
    let unpacked = Unpacked::new("ranges");
    for range in ["0-16383,", "0-16383:1/2,"] {
        let list = range.repeat((1 << 20) / range.len());
        let text = format!("@ sys/devices/system/cpu\nonline = {list}\n@ sys/devices/system/cpu/cpu3\nx = 1\n");
        let began = std::time::Instant::now();
        let Discovered { topology, warnings } = from_sysfs(unpacked.unpack("machine", &text)).unwrap();
        assert!(began.elapsed().as_secs() < 2, "{range}: {:?}", began.elapsed());
        assert_eq!(topology.pus.len(), 1);
        assert!(warnings.len() == 1 && warnings[0].contains("online: the list names more than"), "{warnings:?}");
    }
}

/// Four nodes that all tell the same CPUs, as emulated ones do (`numa=fake=4`), and caches across cores.
#[test]
fn faults_of_one_kind_are_one_warning_with_their_number() {
    let unpacked = Unpacked::new("kinds");
    let mut text = "@ sys/devices/system/cpu\nonline = 0-15\n@ sys/devices/system/node\nonline = 0-3\n".to_owned();
    for node in 0..4 {
        text +=
            &format!("@ sys/devices/system/node/node{node}\ncpumap = ffff\nmeminfo = Node {node} MemTotal: 64 kB\n");
    }
    for cpu in 0..16 {
        let (core, caches) = (3 << (cpu / 2 * 2), 6 << (cpu / 2 * 2) & 0xffff);
        text += &format!(
            "@ sys/devices/system/cpu/cpu{cpu}\ntopology/core_cpus = {core:x}\ncache/index0/level = 1\n\
             cache/index0/type = Data\ncache/index0/shared_cpu_map = {caches:x}\n"
        );
    }
    let folder = unpacked.unpack("machine", &text);
    let Discovered { topology, warnings } = from_sysfs(&folder).unwrap();
    assert_eq!((topology.nodes.len(), topology.pus.len(), topology.caches.len()), (4, 16, 1));
    let [nodes, caches] = &warnings[..] else { panic!("{warnings:?}") };
    let of = |path: &str| format!("{}: ", folder.join(path).display());
    assert!(nodes.starts_with(&of("sys/devices/system/node")), "{nodes}");
    assert!(nodes.contains("3 nodes, node 1 among them, tell CPUs of other nodes"), "{nodes}");
    assert!(caches.starts_with(&of("sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_map")), "{caches}");
    assert!(caches.ends_with("left out, and so are 6 others"), "{caches}");
}

/// Of a machine that tells no caches, the processors of a node are together, as far as is known.
#[test]
fn without_known_caches_each_node_is_one_core_group() {
    for (name, groups) in [("4fake-4gr1nu1pu", 4), ("fakememinitiators-1np2c+1npp+gi", 4)] {
        let Discovered { topology, .. } = machine("uncached", name);
        let nodes = topology.nodes.iter().filter(|node| !node.pus.is_empty());
        let expected: Vec<_> = nodes.map(|node| (node.id, &node.pus)).collect();
        let found: Vec<_> = topology.core_groups.iter().map(|group| (group.node, &group.pus)).collect();
        assert_eq!(found, expected, "{name}");
        assert_eq!(found.len(), groups, "{name}");
    }
    // A person who describes a machine says all of it: those are processors with caches of their own.
    for line in ["node:2 core:4", "node:2(memory=16GB) core:4 pu:1"] {
        assert_eq!(vicus_os::from_synthetic(line).unwrap().core_groups.len(), 8, "{line}");
    }
}

/// A disk of NVMe with several ways to it (drivers/nvme/host/multipath.c of the kernel): `nvme0n1` is a device of the
/// subsystem, without an address, and `nvme0c3n1` is hidden, the way by the controller `nvme3`.
#[test]
fn a_disk_of_nvme_is_near_to_the_controller_on_its_way() {
    let unpacked = Unpacked::new("nvme");
    let (_, whole) = trees::all().into_iter().find(|(name, _)| name == "made-snc-ring").unwrap();
    let plain = "nvme0n1 -> ../devices/pci0000:5d/0000:5d:02.0/0000:5e:00.0/nvme/nvme0/nvme0n1\n";
    assert!(whole.contains(plain));
    let ways = "nvme0n1 -> ../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1\n\
                nvme0c3n1 -> ../devices/pci0000:5d/0000:5d:02.0/0000:5e:00.0/nvme/nvme3/nvme0c3n1\n\
                @ sys/class/nvme\n\
                nvme3 -> ../../devices/pci0000:5d/0000:5d:02.0/0000:5e:00.0/nvme/nvme3\n\
                @ sys/block\n";
    let folder = unpacked.unpack("ways", &whole.replace(plain, ways));
    let Discovered { topology, warnings } = from_sysfs(folder).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    for name in ["nvme0n1", "nvme3", "5e:00.0"] {
        assert_eq!(topology.near_device(name), Ok(node(&topology, 0)), "{name}");
    }
    assert_eq!(topology.device("nvme3").unwrap().names, ["nvme0n1", "nvme3"]);
    assert!(topology.near_device("nvme0c3n1").is_err(), "nobody opens the way itself");
}

/// What happened: of a controller with a hundred disks, those behind the 64th were unknown.
#[test]
fn each_of_many_disks_of_a_controller_is_known() {
    let unpacked = Unpacked::new("disks");
    let (_, whole) = trees::all().into_iter().find(|(name, _)| name == "made-snc-ring").unwrap();
    let disks: String = (0..100)
        .map(|disk| format!("sd{disk:03} -> ../devices/pci0000:5d/0000:5e:00.0/host0/target0/block/sd{disk:03}\n"))
        .collect();
    let folder = unpacked.unpack("disks", &whole.replace("@ sys/block\n", &format!("@ sys/block\n{disks}")));
    let Discovered { topology, .. } = from_sysfs(folder).unwrap();
    for disk in ["sd000", "sd064", "sd099"] {
        assert_eq!(topology.near_device(disk), Ok(node(&topology, 0)), "{disk}");
    }
    let told = topology.near_device("sdx").unwrap_err().to_string();
    assert!(told.contains("there are eth0, nvme0n1, sd000") && told.len() < 400, "{told}");
    assert!(told.ends_with(", and 88 others"), "{told}");
}

/// A pseudo-random number below a bound (Knuth's MMIX generator).
fn below(state: &mut u64, bound: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % bound
}

#[test]
fn damaged_files_are_a_machine_or_an_error_and_never_a_panic() {
    let seed = std::env::var("VICUS_SEED").map_or(0x5eed, |seed| seed.parse().unwrap());
    let rounds = std::env::var("VICUS_FLIPS").map_or(60, |flips| flips.parse().unwrap());
    println!("VICUS_SEED={seed}");
    let small: Vec<String> = trees::all().into_iter().map(|(_, text)| text).filter(|text| text.len() < 7_000).collect();
    let words = [
        "0",
        "-1",
        "ffffffff",
        "4294967296",
        "0-16383",
        "0-99999999",
        "",
        ",",
        "1,,1",
        "99999999999999999999",
        "\u{0}",
    ];
    let (mut state, mut faulty) = (seed, 0);
    for round in 0..rounds {
        let mut lines: Vec<String> = small[below(&mut state, small.len())].lines().map(str::to_owned).collect();
        for _ in 0..1 + below(&mut state, 40) {
            let at = below(&mut state, lines.len());
            let other = lines[below(&mut state, lines.len())].clone();
            let line = &mut lines[at];
            match (below(&mut state, 6), line.split_once(" = ")) {
                // Another file's content, an absurd one, one changed character, a file less, or a line twice.
                (0, Some((name, _))) => {
                    *line = format!("{name} = {}", other.split_once(" = ").map_or("", |other| other.1))
                }
                (1, Some((name, _))) => *line = format!("{name} = {}", words[below(&mut state, words.len())]),
                (2, Some((name, text))) if !text.is_empty() => {
                    let mut text: Vec<char> = text.chars().collect();
                    let place = below(&mut state, text.len());
                    text[place] = ['0', '9', 'f', ',', '-', ' ', 'K'][below(&mut state, 7)];
                    *line = format!("{name} = {}", text.into_iter().collect::<String>());
                }
                (3, _) => _ = lines.remove(at),
                _ => lines.insert(at, other),
            }
            if lines.is_empty() {
                break;
            }
        }
        let unpacked = Unpacked::new(&format!("damaged-{round}"));
        let folder = unpacked.unpack("machine", &lines.join("\n"));
        let told = std::panic::catch_unwind(|| from_sysfs(&folder));
        let Ok(told) = told else { panic!("round {round} of seed {seed} panics") };
        match told {
            Ok(Discovered { topology, warnings }) => {
                topology.assert_valid();
                let names = |warning: &String| warning.starts_with(folder.to_str().unwrap());
                assert!(warnings.iter().all(names), "round {round} of seed {seed}: {warnings:?}");
                faulty += usize::from(!warnings.is_empty());
            }
            Err(error) => assert!(error.to_string().starts_with(folder.to_str().unwrap()), "{error}"),
        }
    }
    assert!(faulty > rounds / 4, "most faults are seen: {faulty} of {rounds}");
}

#[test]
fn this_machine_is_the_one_below_the_root() {
    let recorded = from_sysfs(Path::new("/")).unwrap().topology;
    let own = vicus_os::this_machine().topology;
    assert_eq!((recorded.pus.len(), recorded.caches, recorded.nodes), (own.pus.len(), own.caches, own.nodes));
}
