//! Any text as a machine's file: a machine, or an error that names the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vicus_sim::Machine;

fuzz_target!(|text: &str| match Machine::parse("fuzz.toml", text) {
    Ok(machine) => machine.topology.assert_valid(),
    Err(error) => assert!(error.to_string().starts_with("fuzz.toml: ")),
});
