//! Any bytes as a machine that hwloc has captured: a valid machine, or an error that names the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::LazyLock;
use vicus_machine::from_xml;

/// Where the bytes are read from: each process of the fuzzer has its own file, in memory if there is a place for that.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() { memory } else { std::env::temp_dir() };
    folder.join(format!("vicus-fuzz-{}.xml", std::process::id()))
});

fuzz_target!(|bytes: &[u8]| {
    std::fs::write(&*FILE, bytes).expect("there is room");
    let read = from_xml(&*FILE);
    std::fs::remove_file(&*FILE).expect("it was there");
    match read {
        Ok(machine) => machine.assert_valid(),
        Err(error) => assert!(error.to_string().contains("vicus-fuzz-"), "{error}"),
    }
});
