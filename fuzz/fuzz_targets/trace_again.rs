//! Any bytes as a trace that is replayed and enacted again: a program that passes its checks, or an error that says why
//! not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vicus_sim::{Reenactment, Replay, ReplayOptions};
use vicus_trace::Trace;

fuzz_target!(|file: &[u8]| {
    let Ok(trace) = Trace::read_from(&mut &file[..]) else { return };
    let options = ReplayOptions::default();
    match Replay::of(&trace, &options) {
        Ok(replay) => replay.program.check().expect("a replay is a program like others"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match Reenactment::of(&trace, &options) {
        Ok(again) => assert!(again.taken_off_ns <= again.recorded_ns),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
