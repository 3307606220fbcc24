//! Any text as settings of strategies: settings that are written as they are read and whose plans are valid, or an
//! error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use vicus_schedule::{Setting, Settings};
use vicus_topology::Topology;

static MACHINES: LazyLock<[Topology; 3]> = LazyLock::new(|| {
    ["", "node:2 l3:2 core:2 pu:2", "node:4 core:3"].map(|text| Topology::parse(text).expect("a machine"))
});

fuzz_target!(|text: &str| match text.parse::<Settings>() {
    Err(error) => {
        assert!(!error.to_string().is_empty());
        assert!(text.parse::<Setting>().is_err());
    }
    Ok(settings) => {
        let written = settings.to_string();
        let again: Settings = written.parse().expect("settings are read as they are written");
        assert_eq!(again.to_string(), written);
        // A list may be long; what one does, each does.
        if let Ok(setting) = text.parse::<Setting>() {
            assert_eq!(setting.to_string(), written);
            for machine in &*MACHINES {
                for threads in [1, 5] {
                    let plan = setting.plan(machine, threads);
                    plan.assert_valid();
                    assert_eq!(plan.threads(), threads);
                }
            }
        }
    }
});
