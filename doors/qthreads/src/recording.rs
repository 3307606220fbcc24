//! The trace of `VICUS_TRACE`, with the names of the functions that threads run.

use crate::fork::Function;
use crate::symbols::Symbols;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use vicus::kit::TraceRoom;
use vicus::kit::team::name_task;
use vicus::trace::Trace;
use vicus::{RuntimeBuilder, environment};

/// Whether the library that runs records.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// The recording of the library that runs.
static KEPT: Mutex<Recording> = Mutex::new(Recording { target: None, functions: BTreeMap::new() });

struct Recording {
    /// The file, and the events that it keeps.
    target: Option<(PathBuf, TraceRoom)>,
    /// The functions of threads by their addresses, with their numbers in the trace.
    functions: BTreeMap<usize, u32>,
}

fn kept() -> MutexGuard<'static, Recording> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A builder of a runtime that records, if a trace is wanted.
pub(crate) fn begin(builder: RuntimeBuilder) -> RuntimeBuilder {
    let Some(path) = environment::trace() else { return builder };
    let room = environment::trace_room(|wrong| eprintln!("vicus: {wrong}"));
    kept().target = Some((path, room));
    IS_ON.store(true, Ordering::Relaxed);
    room.of(builder)
}

/// The calling thread begins a function.
#[inline]
pub(crate) fn name(function: Function) {
    if IS_ON.load(Ordering::Relaxed) {
        name_recorded(function as usize);
    }
}

#[cold]
fn name_recorded(function: usize) {
    let number = {
        let functions = &mut kept().functions;
        let next = functions.len() as u32;
        *functions.entry(function).or_insert(next)
    };
    name_task(number);
}

/// Writes the trace of a library that has ended. A program that starts the library again writes over it.
pub(crate) fn end(trace: Option<Trace>) {
    if !IS_ON.swap(false, Ordering::Relaxed) {
        return;
    }
    let Recording { target, functions } =
        std::mem::replace(&mut *kept(), Recording { target: None, functions: BTreeMap::new() });
    let (Some((path, room)), Some(trace)) = (target, trace) else { return };
    let mut functions: Vec<(usize, u32)> = functions.into_iter().collect();
    functions.sort_unstable_by_key(|(_, number)| *number);
    let symbols = Symbols::new();
    let names = functions.into_iter().map(|(function, _)| symbols.of(function)).collect();
    let words = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let command = String::from_utf8_lossy(&words).trim_end_matches('\0').replace('\0', " ");
    let trace = trace.with_functions(names).with_command(command);
    let written = File::create(&path).and_then(|file| {
        let mut out = BufWriter::new(file);
        trace.write_to(&mut out)?;
        out.flush()
    });
    if let Err(error) = written {
        eprintln!("vicus: the trace can't be written to {}: {error}", path.display());
    }
    if let Some(shortage) = room.shortage(&trace, "VICUS_TRACE_EVENTS") {
        eprintln!("vicus: {shortage}");
    }
}
