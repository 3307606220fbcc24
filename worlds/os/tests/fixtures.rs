//! Machines, captured as XML, become the plain data for other crates' tests.
//!
//! After a change of the derived data: `VICUS_WRITE_FIXTURES=1 cargo test -p vicus-machine --test runtime fixtures`,
//! and read the difference before committing it.

use std::path::{Path, PathBuf};
use vicus_os::from_xml;
use vicus_topology::Topology;

type Fact = (&'static str, usize, usize, usize, usize, [usize; 3], usize);

/// name, PUs, cores, nodes, nodes with PUs, caches of level 1, 2, 3, core groups. The counts of things come from
/// `hwloc-calc --input F.xml -N pu all` (and core, numanode, l1d, l2, l3); core groups were counted in `lstopo`.
const FACTS: &[Fact] = &[
    ("16amd64-8n2c", 16, 16, 8, 8, [16, 16, 0], 16),
    ("16em64t-4s2c2t-offlines", 12, 7, 1, 1, [7, 7, 4], 4),
    ("20em64t-hybrid-1p6c2t+2ca4co1t", 20, 14, 1, 1, [14, 8, 1], 1),
    ("256ia64-64n2s2c", 256, 256, 64, 64, [0, 0, 0], 256),
    // One of its four nodes has lost its L3 in the capture: its ten cores share no cache.
    ("40intel64-4n10c+pci-conflicts", 40, 40, 4, 4, [40, 40, 3], 13),
    ("48amd64-4pa2n6c-sparse", 48, 48, 8, 8, [48, 48, 8], 8),
    ("64amd64-4s2n4ca2co", 64, 64, 8, 8, [64, 32, 8], 8),
    // Its L3 are memory-side caches (of Knights Landing), left out here: two cores share an L2.
    ("64intel64-heteromem", 64, 16, 8, 4, [16, 8, 0], 8),
    ("8intel64-4n2t-memattrs", 8, 8, 4, 4, [0, 0, 0], 8),
    ("96em64t-4no4pa3ca2co", 96, 96, 4, 4, [96, 48, 16], 16),
    ("AMD-19h-Zen3-2xEpyc-7763", 128, 128, 1, 1, [128, 128, 16], 16),
    ("AMD-K10-Istanbul-8xOpteron-8439SE", 48, 48, 1, 1, [48, 48, 8], 8),
    ("Intel-Core-2xXeon-E5345", 8, 8, 1, 1, [8, 4, 0], 4),
    ("Intel-Penryn-4xXeon-X7460", 24, 24, 1, 1, [24, 12, 4], 4),
    ("emulated-memory-node", 4, 4, 3, 2, [4, 4, 2], 2),
    // hwloc-calc --disallowed: a node without memory is none with usable memory.
    ("emulated-no-memory", 3, 3, 3, 3, [3, 3, 3], 3),
];

fn xml(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(format!("{name}.xml"))
}

fn machine(name: &str) -> Topology {
    from_xml(xml(name)).unwrap()
}

#[test]
fn every_fixture_has_what_hwloc_calc_counts() {
    for &(name, pus, cores, nodes, with_pus, caches, groups) in FACTS {
        let found = machine(name);
        found.assert_valid();
        assert_eq!(found.pus.len(), pus, "{name}: PUs");
        assert_eq!(found.cores.len(), cores, "{name}: cores");
        assert_eq!(found.nodes.len(), nodes, "{name}: nodes");
        assert_eq!(found.nodes.iter().filter(|node| !node.pus.is_empty()).count(), with_pus, "{name}: nodes with PUs");
        let level = |level| found.caches.iter().filter(|cache| cache.level == level).count();
        assert_eq!([level(1), level(2), level(3)], caches, "{name}: caches");
        assert_eq!(found.core_groups.len(), groups, "{name}: core groups");
    }
    let files = std::fs::read_dir(xml("x").parent().unwrap()).unwrap();
    let files = files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|ending| ending == "xml"));
    assert_eq!(files.count(), FACTS.len(), "every file has its line above");
}

#[test]
fn every_fixture_is_its_committed_json() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../core/topology/fixtures");
    let write = std::env::var_os("VICUS_WRITE_FIXTURES").is_some();
    for (name, ..) in FACTS {
        let (found, path) = (machine(name), folder.join(format!("{name}.json")));
        if write {
            std::fs::write(&path, one_line_each(&found)).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let committed = Topology::from_json(&committed).unwrap();
        assert!(
            committed == found,
            "{name}: the XML gives other data than its JSON; the head of this file says how to renew it"
        );
    }
}

#[test]
fn the_committed_machines_are_all_there() {
    let names: Vec<String> = vicus_topology::fixtures().into_iter().map(|machine| machine.name).collect();
    assert_eq!(names, FACTS.iter().map(|fact| fact.0).collect::<Vec<_>>());
}

#[test]
fn the_opteron_of_the_papers_has_sparse_nodes_and_three_distances() {
    let opteron = machine("48amd64-4pa2n6c-sparse");
    let numbers: Vec<u32> = opteron.nodes.iter().map(|node| node.os_index).collect();
    assert_eq!(numbers, [0, 1, 2, 33, 34, 45, 72, 73]);
    assert_eq!(opteron.distances[0], [10, 16, 16, 22, 16, 22, 16, 22]);
    assert_eq!(opteron.distances[5], [22, 22, 16, 16, 16, 10, 22, 16]);
}

#[test]
fn the_altix_has_distances_between_all_its_nodes() {
    let altix = machine("256ia64-64n2s2c");
    assert_eq!(altix.distances[0][..9], [10, 22, 22, 22, 26, 26, 26, 26, 26]);
    assert_eq!(altix.distances[9][8], 22);
}

#[test]
fn cores_of_a_hybrid_machine_have_kinds() {
    // `lstopo --cpukinds`: efficiency 0 is PUs 12 to 19, efficiency 1 is PUs 0 to 11.
    let hybrid = machine("20em64t-hybrid-1p6c2t+2ca4co1t");
    for core in &hybrid.cores {
        let pu = hybrid.pus[core.pus[0].index()].os_index;
        assert_eq!(core.kind, u32::from(pu < 12), "PU {pu}");
    }
}

#[test]
fn ordinary_memory_is_local_and_fast_memory_is_a_node_of_its_own() {
    // lstopo: nodes 0 to 3 are DRAM, 4 to 7 HBM, in the order 0 7 1 4 2 5 3 6.
    let machine = machine("64intel64-heteromem");
    for node in &machine.nodes {
        assert_eq!(node.pus.len(), if node.os_index < 4 { 16 } else { 0 }, "node {}", node.os_index);
    }
}

#[test]
fn emulated_machines_have_the_nodes_of_their_topologies() {
    // tools/topologies: a node of memory alone, and one of CPUs alone. PUs and distances as they stand there.
    let facts = [
        ("memory-node", [2, 2, 0], [true, true, true], [[10, 20, 24], [20, 10, 30], [24, 30, 10]]),
        ("no-memory", [1, 1, 1], [true, false, true], [[10, 20, 40], [20, 10, 16], [40, 16, 10]]),
    ];
    for (name, pus, memory, distances) in facts {
        let machine = machine(&format!("emulated-{name}"));
        // hwloc lists the nodes of a package together; the topology lists them by number.
        let mut nodes: Vec<_> = machine.nodes.iter().collect();
        nodes.sort_by_key(|node| node.os_index);
        assert_eq!(nodes.iter().map(|node| node.pus.len()).collect::<Vec<_>>(), pus, "{name}");
        assert_eq!(nodes.iter().map(|node| machine.has_memory(node.id)).collect::<Vec<_>>(), memory, "{name}");
        for (from, row) in nodes.iter().zip(distances) {
            let found: Vec<u32> = nodes.iter().map(|to| machine.distances[from.id.index()][to.id.index()]).collect();
            assert_eq!(found, row, "{name}, from node {}", from.os_index);
        }
    }
}

#[test]
fn offline_pus_do_not_appear() {
    // The complete set of the XML is 0-15; lstopo calls 2, 5, 13 and 14 (0x6024) not represented.
    let mut numbers: Vec<u32> = machine("16em64t-4s2c2t-offlines").pus.iter().map(|pu| pu.os_index).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 3, 4, 6, 7, 8, 9, 10, 11, 12, 15]);
}

#[test]
fn a_file_that_is_no_machine_is_named() {
    let folder = std::env::temp_dir().join(format!("vicus-no-machine-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let whole = std::fs::read_to_string(xml("Intel-Core-2xXeon-E5345")).unwrap();
    for (name, text) in
        [("empty", ""), ("text", "no XML"), ("html", "<html></html>"), ("half", &whole[..whole.len() / 2])]
    {
        let path = folder.join(format!("{name}.xml"));
        std::fs::write(&path, text).unwrap();
        let message = from_xml(&path).unwrap_err().to_string();
        assert!(message.contains(&format!("{name}.xml: not a machine in hwloc's XML")), "{message}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A pseudo-random number below a bound (Knuth's MMIX generator).
fn below(state: &mut u64, bound: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % bound
}

#[test]
fn a_damaged_file_is_a_machine_or_an_error_and_never_a_crash() {
    // What happened: of 2,500 files with one changed byte three made hwloc crash, and some made it take a gigabyte.
    // Damage in a used part is an error with its line.
    let seed = std::env::var("VICUS_SEED").map_or(0x5eed, |seed| seed.parse().unwrap());
    let rounds = std::env::var("VICUS_FLIPS").map_or(2500, |flips| flips.parse().unwrap());
    println!("VICUS_SEED={seed}");
    let folder = std::env::temp_dir().join(format!("vicus-damaged-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("machine.xml");
    // The large ones take long to load when they are undamaged.
    let whole: Vec<Vec<u8>> = FACTS.iter().map(|fact| std::fs::read(xml(fact.0)).unwrap()).collect();
    let small: Vec<&Vec<u8>> = whole.iter().filter(|whole| whole.len() < 30_000).collect();
    let (mut state, mut errors) = (seed, 0);
    for round in 0..rounds {
        let mut xml = small[below(&mut state, small.len())].clone();
        let changes = 1 + below(&mut state, 3) * usize::from(round % 4 == 3);
        for _ in 0..changes {
            let at = below(&mut state, xml.len());
            match below(&mut state, 4) {
                0 => xml[at] ^= 1 << below(&mut state, 8),
                1 => xml[at] = b"0123456789abcdefx,\"<>/ "[below(&mut state, 23)],
                // A digit more or less, to make sizes too large.
                2 => xml.insert(at, b"0123456789"[below(&mut state, 10)]),
                _ => _ = xml.remove(at),
            }
        }
        std::fs::write(&path, &xml).unwrap();
        match from_xml(&path) {
            Ok(machine) => machine.assert_valid(),
            Err(error) => {
                errors += 1;
                let error = error.to_string();
                let says =
                    ["line ", "it has ", "it allows ", "can't be read"].iter().any(|place| error.contains(place));
                assert!(says, "round {round} of seed {seed}: {error}");
            }
        }
    }
    assert!(errors > rounds / 5, "most of what is in a file is used: {errors} errors of {rounds}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_contradicts_itself_or_claims_too_much_is_refused_with_its_line() {
    let folder = std::env::temp_dir().join(format!("vicus-claims-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let whole = std::fs::read_to_string(xml("8intel64-4n2t-memattrs")).unwrap();
    for (from, to, expected) in [
        ("type=\"PU\" os_index=\"1\"", "type=\"PU\" os_index=\"0\"", "line 8: PU 0 has other PUs in its cpuset"),
        ("type=\"PU\" os_index=\"1\"", "type=\"PU\" os_index=\"99999\"", "line 8: os_index: expected 0 to 16383"),
        ("type=\"PU\" os_index=\"1\"", "type=\"PV\" os_index=\"1\"", "line 8: there is no type `PV` of objects"),
        ("type=\"Machine\"", "type=\"Package\"", "line 4: Package 0 is not where it belongs"),
        (
            "<object type=\"Group\" cpuset=\"0x0000000c\"",
            "<object type=\"Group\" cpuset=\"0x0000010c\"",
            "line 10: Group has more in its cpuset than in its complete_cpuset",
        ),
        (
            "cpuset=\"0x0000000c\" complete_cpuset=\"0x0000000c\"",
            "cpuset=\"0x0000000e\" complete_cpuset=\"0x0000000e\"",
            "line 10: Group has PUs of another object beside it",
        ),
        (
            "<object type=\"NUMANode\" os_index=\"1\"",
            "<object type=\"NUMANode\" os_index=\"4000000000\"",
            "line 11: NUMANode 4000000000 has no os_index from 0 to 16383",
        ),
        ("cpuset=\"0x000000ff\"", "cpuset=\"0xf...f\"", "line 4: cpuset: `0xf...f` is no word of a set"),
        (
            "local_memory=\"1073741824\"",
            "local_memory=\"10737418240000000000\"",
            "line 6: local_memory: `10737418240000000000` is no number",
        ),
        ("local_memory=\"1073741824\"", "local_memory=\"1073741824000000000\"", "line 6: local_memory: expected 0 to"),
        ("version=\"3.0\"", "version=\"9.0\"", "line 3: expected a version from 1 to 3"),
    ] {
        assert!(whole.contains(from), "{from}");
        let path = folder.join("machine.xml");
        std::fs::write(&path, whole.replacen(from, to, 1)).unwrap();
        let error = from_xml(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    // A set of two million numbers, and objects a thousand deep.
    let large = format!("complete_cpuset=\"0x1{}", ",0x00000000".repeat(70_000));
    let deep = format!("{}{}", "<object type=\"Group\" cpuset=\"0x1\">".repeat(1000), "</object>".repeat(1000));
    let cases = [
        (whole.replacen("complete_cpuset=\"0x000000ff", &large, 1), "a set has numbers beyond 16384"),
        (
            whole.replacen("  </object>\n  <support", &format!("{deep}  </object>\n  <support"), 1),
            "more than 64 objects within one another",
        ),
    ];
    for (text, expected) in cases {
        let path = folder.join("machine.xml");
        std::fs::write(&path, text).unwrap();
        let error = from_xml(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// JSON with a line for each PU, core, cache and so on: a difference of two versions can be read.
fn one_line_each(machine: &Topology) -> String {
    let value: serde_json::Value = serde_json::from_str(&machine.to_json()).unwrap();
    let fields = value.as_object().unwrap().iter().map(|(key, value)| match value.as_array() {
        Some(items) => {
            let lines: Vec<String> = items.iter().map(|item| format!("  {item}")).collect();
            format!("\"{key}\": [\n{}\n]", lines.join(",\n"))
        }
        None => format!("\"{key}\": {value}"),
    });
    format!("{{\n{}\n}}\n", fields.collect::<Vec<_>>().join(",\n"))
}
