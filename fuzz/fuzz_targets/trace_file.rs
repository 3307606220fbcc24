//! Any bytes as a trace file: refused, or read, judged, added up and written again as the same trace.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vicus_trace::Trace;

fuzz_target!(|file: &[u8]| {
    let Ok(trace) = Trace::read_from(&mut &file[..]) else { return };
    for violation in trace.check() {
        assert!(!violation.to_string().is_empty());
    }
    assert!(!trace.summary().to_string().is_empty());
    let mut again = Vec::new();
    trace.write_to(&mut again).unwrap();
    assert_eq!(Trace::read_from(&mut &again[..]).unwrap(), trace);
});
