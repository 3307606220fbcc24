//! `vicus topology`, run as a user runs it.

use std::process::{Command, Output, Stdio};

fn vicus(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vicus")).arg("topology").args(arguments).output().unwrap()
}

fn fixture(name: &str) -> String {
    format!("{}/../../worlds/os/fixtures/{name}.xml", env!("CARGO_MANIFEST_DIR"))
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn json(from: &str) -> serde_json::Value {
    let output = vicus(&["--machine", from, "--format", "json"]);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn json_has_the_arrays_that_programs_read() {
    let machine = json(&fixture("48amd64-4pa2n6c-sparse"));
    let length = |key: &str| machine[key].as_array().unwrap_or_else(|| panic!("{key} is an array")).len();
    assert_eq!(["pus", "cores", "caches", "core_groups", "nodes", "distances"].map(length), [48, 48, 104, 8, 8, 8]);
    assert_eq!(machine["distances"][0][3], 22);
}

#[test]
fn the_smp_server_has_four_core_groups() {
    let from = fixture("Intel-Core-2xXeon-E5345");
    assert_eq!(json(&from)["core_groups"].as_array().unwrap().len(), 4);
    let output = vicus(&["--machine", &from]);
    let first = stdout(&output).lines().next().unwrap();
    assert_eq!(first, "Intel-Core-2xXeon-E5345: 8 PUs, 8 cores, 4 core groups, 1 NUMA node");
    assert_eq!(stdout(&output).lines().filter(|line| line.starts_with("  group ")).count(), 4);
}

#[test]
fn this_machine_is_shown_without_warnings() {
    for format in ["text", "json", "svg"] {
        let output = vicus(&["--format", format]);
        assert!(output.status.success());
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[test]
fn one_line_describes_a_machine() {
    let machine = json("node:4 core:6 pu:2");
    assert_eq!(machine["pus"].as_array().unwrap().len(), 48);
    assert_eq!(machine["nodes"].as_array().unwrap().len(), 4);
}

#[test]
fn the_picture_is_xml_with_a_box_for_each_pu() {
    for (name, pus) in [("256ia64-64n2s2c", 256), ("64intel64-heteromem", 64), ("20em64t-hybrid-1p6c2t+2ca4co1t", 20)] {
        let output = vicus(&["--machine", &fixture(name), "--format", "svg"]);
        let mut reader = quick_xml::Reader::from_str(stdout(&output));
        let mut boxes = 0;
        loop {
            match reader.read_event().unwrap() {
                quick_xml::events::Event::Start(tag) => {
                    boxes += usize::from(
                        tag.try_get_attribute("class").unwrap().is_some_and(|class| &*class.value == b"pu"),
                    );
                }
                quick_xml::events::Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!(boxes, pus, "{name}");
    }
}

#[test]
fn mistakes_are_explained() {
    let folder = std::env::temp_dir().join(format!("vicus-topology-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let broken = folder.join("broken.xml");
    std::fs::write(&broken, "<topology version=\"2.0\">\n<object type=\"Machine\"\n").unwrap();
    let cases = [
        ("/no/such.xml", "vicus: /no/such.xml: can't be read: No such file"),
        (broken.to_str().unwrap(), "broken.xml: not a machine in hwloc's XML: line "),
        ("node:2 kore:4", "vicus: `node:2 kore:4` is neither a file nor a machine in one line: expected `kore:4`"),
        ("", "neither a file nor a machine"),
    ];
    for (from, message) in cases {
        let output = vicus(&["--machine", from]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{from}");
        assert!(errors.contains(message), "{from}: {errors}");
        assert_eq!(errors.lines().count(), 1, "one message: {errors}");
        assert!(output.stdout.is_empty());
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Memory's speed and devices come from the files of Linux; expected values as they stand in them.
#[test]
fn recorded_files_are_shown_with_devices_and_the_speed_of_memory() {
    let folder = std::env::temp_dir().join(format!("vicus-recorded-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let files = [
        ("system/cpu/online", "0-3"),
        ("system/cpu/cpu0/topology/core_cpus", "1"),
        ("system/node/online", "0-1"),
        ("system/node/node0/cpumap", "f"),
        ("system/node/node0/meminfo", "Node 0 MemTotal: 1048576 kB"),
        ("system/node/node1/cpumap", "0"),
        ("system/node/node0/distance", "10 20"),
        ("system/node/node1/distance", "20 ten"),
        ("system/node/node1/access0/initiators/read_bandwidth", "400000"),
        ("system/node/node1/access0/initiators/read_latency", "120"),
        ("system/node/node1/access0/initiators/node0/empty", ""),
        ("virtual/memory_tiering/memory_tier4/nodelist", "0"),
        ("pci0000:3a/0000:3b:00.0/net/eth0/empty", ""),
        ("../bus/pci/devices/0000:3b:00.0/class", "0x020000"),
        ("../bus/pci/devices/0000:3b:00.0/numa_node", "1"),
        ("../bus/pci/devices/0000:5e:00.0/class", "0x010802"),
        ("../bus/pci/devices/0000:5e:00.0/numa_node", "-1"),
        ("../class/net/empty", ""),
    ];
    for (file, content) in files {
        let path = folder.join("sys/devices").join(file);
        std::fs::create_dir_all(folder.join("sys/devices")).unwrap();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let (target, link) = ("../../devices/pci0000:3a/0000:3b:00.0/net/eth0", folder.join("sys/class/net/eth0"));
    std::os::unix::fs::symlink(target, link).unwrap();
    let output = vicus(&["--machine", folder.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stdout);
    for expected in [
        "node 0: 1 GiB, tier 4\n",
        "node 1: no memory, memory only\n  memory by the firmware: 400000 MB/s reading, ? writing; 120 ns reading, ? \
         writing, from node 0\n",
        "  network eth0 at 0000:3b:00.0\n",
        "devices whose node is unknown:\n  storage at 0000:5e:00.0\n",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("sys/devices/system/node/node1/distance: expected 2 distances"), "{errors}");
    let output = vicus(&["--machine", folder.to_str().unwrap(), "--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["devices"][0]["names"][0], "eth0");
    assert_eq!(json["devices"][0]["node"], 1);
    assert_eq!(json["nodes"][1]["speed"]["read_mb_s"], 400_000);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What happened: `simulate` and `strategies` knew machines by `--machine` that `topology --from` did not.
#[test]
fn a_machine_has_the_same_name_everywhere() {
    let file = std::env::temp_dir().join(format!("vicus-topology-{}.toml", std::process::id()));
    let output = vicus(&["--machine", "opteron-6172"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Two 6-core dies in each of four packages.
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("opteron-6172") && text.contains("48 cores") && text.contains("8 NUMA nodes"), "{text}");
    assert_eq!(vicus(&["--from", "opteron-6172"]).stdout, text.into_bytes(), "the option's old name");
    std::fs::write(&file, "machine = 1\n").unwrap();
    let output = vicus(&["--machine", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains(file.to_str().unwrap()) && errors.lines().count() <= 6, "{errors}");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_vicus"))
        .args(["topology", "--format", "json", "--machine", &fixture("256ia64-64n2s2c")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The output is larger than a pipe holds, so the program is still writing when its reader goes.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn memory_is_tried_on_each_node() {
    let output = vicus(&["--memory"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let table = text.split("\nMemory, after 4 MiB").nth(1).expect("a table");
    let rows: Vec<&str> = table.lines().skip(2).collect();
    assert_eq!(rows.len(), vicus::this_machine().topology.nodes.len(), "{table}");
    assert!(rows.iter().any(|row| row.contains("of") && row.ends_with("pages")), "{table}");
    let output = vicus(&["--memory", "--machine", "node:2 core:1"]);
    assert!(!output.status.success(), "another machine's memory can't be tried");
}
