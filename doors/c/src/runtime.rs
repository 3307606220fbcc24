//! Settings by name and value, runtimes, and closures that run as requests of their own.

use crate::error::DropFn;
use crate::error::{Failure, Outcome, as_state, guard, guard_or, status};
use crate::tasks::{Call, TaskFn};
use crate::text::{free, give, handle, handle_mut, output, print, required};
use crate::topology::describe;
use crate::version;
use std::ffi::{c_char, c_void};
use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use vicus::environment::Defaults;
use vicus::kit::TaskRequest;
use vicus::kit::{LatencyFile, Reservation, TraceRoom};
use vicus::tasks::is_in_runtime;
use vicus::{Budget, Request, Runtime, RuntimeBuilder, Topology, environment};
use vicus_service::{MemoryBudget, Service};

/// `vicus_options`.
#[derive(Clone)]
pub(crate) struct Options {
    builder: RuntimeBuilder,
    /// The events that are recorded, if any are.
    records: Option<TraceRoom>,
    /// The environment's settings, and the program's, which replace them.
    defaults: Defaults,
    memory_bytes: u64,
}

impl Options {
    fn new() -> Options {
        let (builder, defaults) = (Runtime::builder(), environment::defaults());
        Options { builder, records: None, defaults, memory_bytes: u64::MAX }
    }

    fn start(self) -> Outcome<Service> {
        let Options { builder, records, defaults, memory_bytes } = self;
        let builder = match records {
            Some(room) => room.of(builder),
            None => builder,
        };
        // A panic reports faults such as a machine that does not fit the plan.
        let started = as_state(|| builder.defaults(defaults).try_start())?;
        let runtime = started.map_err(|error| Failure::new(status::SYSTEM, error))?;
        Ok(Service::new(runtime, MemoryBudget::new(memory_bytes)))
    }
}

/// A setting of `vicus_options_set`: its name, the form of its value, and its effect.
type Setting = (&'static str, &'static str, fn(&mut Options, &str) -> Result<(), String>);

const SETTINGS: [Setting; 15] = [
    ("threads", "a number from 1 on", |options, value| {
        let threads: usize = number(value)?;
        if threads == 0 {
            return Err("at least one thread is needed".to_owned());
        }
        change(options, |builder| builder.threads(threads))
    }),
    ("strategy", "a strategy's name, with parameters behind a colon", |options, value| {
        let strategy = parsed(value)?;
        change(options, |builder| builder.strategy(strategy))
    }),
    ("topology", "a machine: words such as node:2 core:4, or a file of hwloc's XML", |options, value| {
        let machine: Topology = describe(value).map_err(|error| error.message())?;
        change(options, |builder| builder.topology(machine))
    }),
    ("distribution", "standard, fine, coarse, blocked, replicated, on:N or weighted:A,B,…", |options, value| {
        let distribution = parsed(value)?;
        change(options, |builder| builder.distribution(distribution))
    }),
    ("events", "how many events each thread records for vicus_runtime_trace", |options, value| {
        let events = number(value)?;
        options.records = Some(TraceRoom { events, ..options.records.unwrap_or_default() });
        Ok(())
    }),
    ("events_roll", "yes or no", |options, value| {
        let rolls = truth(value)?;
        options.records = Some(TraceRoom { rolls, ..options.records.unwrap_or_default() });
        Ok(())
    }),
    ("events_last_ms", "milliseconds, at least 1", |options, value| {
        let ms = number::<NonZeroU64>(value)?;
        let last = Some(Duration::from_millis(ms.get()));
        options.records = Some(TraceRoom { last, ..options.records.unwrap_or_default() });
        Ok(())
    }),
    (
        "count_takes",
        "yes or no",
        |options, value| {
            if truth(value)? { change(options, RuntimeBuilder::count_takes) } else { Ok(()) }
        },
    ),
    (
        "quiet",
        "yes or no",
        |options, value| {
            if truth(value)? { change(options, RuntimeBuilder::quiet) } else { Ok(()) }
        },
    ),
    ("caller_works_ms", "milliseconds", |options, value| {
        let long = Duration::from_millis(number(value)?);
        change(options, |builder| builder.caller_works(long))
    }),
    ("head_start_ms", "milliseconds", |options, value| {
        let long = Duration::from_millis(number(value)?);
        change(options, |builder| builder.head_start(long))
    }),
    ("decay_ms", "milliseconds", |options, value| {
        options.defaults.decay_ms = Some(Ok(number(value)?));
        Ok(())
    }),
    ("allocator", "vicus or system", |options, value| {
        let places = match value {
            "vicus" => true,
            "system" => false,
            other => return Err(format!("`{other}` is neither `vicus` nor `system`")),
        };
        options.defaults.allocator_places = Some(Ok(places));
        Ok(())
    }),
    ("latency_file", "a file's name", |options, value| {
        options.defaults.latencies = Some(LatencyFile::At(PathBuf::from(value)));
        Ok(())
    }),
    ("query_memory_bytes", "how many bytes all queries may hold together", |options, value| {
        options.memory_bytes = number(value)?;
        Ok(())
    }),
];

fn change(options: &mut Options, how: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> Result<(), String> {
    options.builder = how(options.builder.clone());
    Ok(())
}

fn number<T: FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("`{value}` is no such number"))
}

fn truth(value: &str) -> Result<bool, String> {
    match value {
        "yes" | "true" | "1" => Ok(true),
        "no" | "false" | "0" => Ok(false),
        other => Err(format!("`{other}` is neither `yes` nor `no`")),
    }
}

fn parsed<T: FromStr<Err: Display>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|error: T::Err| error.to_string())
}

/// `vicus_runtime`: threads, and the other needs of queries. A dataset keeps it.
pub(crate) type Threads = Service;

/// The runtime of callers without one, outside of tasks.
fn global() -> Outcome<&'static Threads> {
    static GLOBAL: OnceLock<Threads> = OnceLock::new();
    version::is_right()?;
    if let Some(global) = GLOBAL.get() {
        return Ok(global);
    }
    // Two callers may start one at the same time; one of the two is kept.
    let started = Options::new().start()?;
    Ok(GLOBAL.get_or_init(|| started))
}

/// A caller's runtime, or the common one of callers without.
///
/// # Safety
/// Rule "Handles".
pub(crate) unsafe fn threads<'a>(runtime: *const Threads) -> Outcome<&'a Threads> {
    // SAFETY: rule "Handles".
    unsafe { runtime.as_ref() }.map_or_else(global, Ok)
}

/// Runs a closure in a runtime: in this one, or, without one, in the calling task's, or else in the global one.
///
/// # Safety
/// Rule "Handles".
#[inline]
pub(crate) unsafe fn within(runtime: *const Threads, f: impl FnOnce() -> Outcome + Send) -> Outcome {
    // SAFETY: rule "Handles".
    match unsafe { runtime.as_ref() } {
        Some(threads) => threads.runtime().run(f),
        None if is_in_runtime() => f(),
        None => global()?.runtime().run(f),
    }
}

/// # Safety
/// Rule "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_options_new(options: *mut *mut Options) -> i32 {
    guard(|| {
        version::is_right()?;
        let out = output(options, "options")?;
        // SAFETY: rule "Outputs".
        unsafe { give(out, Options::new()) };
        Ok(())
    })
}

/// # Safety
/// Rules "Handles" and "Texts".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_options_set(
    options: *mut Options,
    name: *const c_char,
    value: *const c_char,
) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        let options = unsafe { handle_mut(options, "options") }?;
        // SAFETY: rule "Texts".
        let (name, value) = unsafe { (required(name, "name")?, required(value, "value")?) };
        let Some((_, expected, set)) = SETTINGS.iter().find(|(known, ..)| *known == name) else {
            let names: Vec<&str> = SETTINGS.iter().map(|(name, ..)| *name).collect();
            let message = format!("there is no setting `{name}`, only {}", names.join(", "));
            return Err(Failure::new(status::SETTING, message));
        };
        set(options, value)
            .map_err(|wrong| Failure::new(status::SETTING, format_args!("{name}: {wrong} (expected: {expected})")))
    })
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_options_free(options: *mut Options) {
    // SAFETY: rule "Handles".
    guard_or((), || unsafe { free(options) });
}

/// # Safety
/// Rules "Handles" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_runtime_start(options: *const Options, runtime: *mut *mut Threads) -> i32 {
    guard(|| {
        version::is_right()?;
        let out = output(runtime, "runtime")?;
        // SAFETY: rule "Handles".
        let options = unsafe { options.as_ref() }.cloned().unwrap_or_else(Options::new);
        let started = options.start()?;
        // SAFETY: rule "Outputs".
        unsafe { give(out, started) };
        Ok(())
    })
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_runtime_free(runtime: *mut Threads) {
    // SAFETY: rule "Handles".
    guard_or((), || unsafe { free(runtime) });
}

/// # Safety
/// Rules "Handles" and "Texts".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_runtime_trace(runtime: *mut Threads, path: *const c_char) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        unsafe { handle(runtime, "runtime") }?;
        // SAFETY: rule "Handles": it came from `give`, and the header says that it is freed in any case.
        let threads = unsafe { *Box::from_raw(runtime) };
        // SAFETY: rule "Texts".
        let path = unsafe { required(path, "path") }?;
        let runtime = threads.into_runtime().ok_or_else(|| {
            Failure::state("the runtime is still used by a dataset or a store: free these before its trace is written")
        })?;
        let trace = runtime
            .trace()
            .ok_or_else(|| Failure::state("the runtime has recorded nothing: start it with the setting `events`"))?;
        let write = || {
            let mut file = BufWriter::new(File::create(path)?);
            trace.write_to(&mut file)?;
            file.flush()
        };
        write().map_err(|error: std::io::Error| Failure::new(status::SYSTEM, format_args!("{path}: {error}")))
    })
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_runtime_threads(runtime: *const Threads) -> u32 {
    // SAFETY: rule "Handles".
    guard_or(0, || unsafe { runtime.as_ref() }.map_or(0, |threads| threads.runtime().plan().threads() as u32))
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_runtime_topology(runtime: *const Threads) -> *const Topology {
    guard_or(std::ptr::null(), || {
        // SAFETY: rule "Handles". The topology is a part of the runtime, and lives as long.
        unsafe { runtime.as_ref() }.map_or(std::ptr::null(), |threads| std::ptr::from_ref(threads.runtime().topology()))
    })
}

/// Texts about a runtime, by the numbers of the header.
pub(crate) mod about {
    pub(crate) const STRATEGY: u32 = 0;
    pub(crate) const PLAN: u32 = 1;
    pub(crate) const WARNINGS: u32 = 2;
    pub(crate) const TAKES: u32 = 3;
}

/// # Safety
/// Rule "Handles"; `buffer` has `capacity` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_runtime_print(
    runtime: *const Threads,
    what: u32,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    guard_or(0, || {
        // SAFETY: rule "Handles".
        let Some(threads) = (unsafe { runtime.as_ref() }) else { return 0 };
        let runtime = threads.runtime();
        let text = match what {
            about::STRATEGY => runtime.plan().strategy.clone(),
            about::PLAN => runtime.plan().to_string(),
            about::WARNINGS => runtime.warnings().iter().map(|warning| format!("{warning}\n")).collect(),
            about::TAKES => {
                let takes = runtime.takes();
                takes.iter().map(|((rule, level), tasks)| format!("rule {rule}, {level:?}: {tasks} tasks\n")).collect()
            }
            _ => String::new(),
        };
        // SAFETY: as asked of the caller.
        unsafe { print(&text, buffer, capacity) }
    })
}

/// The most memory of a request; 0 is no limit.
pub(crate) fn budget(bytes: u64) -> Budget {
    if bytes == 0 { Budget::UNBOUNDED } else { Budget::from(bytes) }
}

/// # Safety
/// Rule "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_reserve(bytes: u64, reservation: *mut *mut Reservation) -> i32 {
    guard(|| {
        let out = output(reservation, "reservation")?;
        let reserved = vicus::tasks::reserve(bytes).map_err(|error| Failure::new(status::LIMIT, error))?;
        // SAFETY: rule "Outputs".
        unsafe { give(out, reserved) };
        Ok(())
    })
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_reservation_free(reservation: *mut Reservation) {
    // SAFETY: rule "Handles".
    guard_or((), || unsafe { free(reservation) });
}

/// `vicus_request`: work that runs while its caller goes on.
pub(crate) enum Pending {
    /// A closure, and how it has ended: not at all, if it was cancelled before it began.
    Task(TaskRequest<()>, Arc<Mutex<Option<Outcome>>>),
    /// A network.
    Network(Request),
}

impl Pending {
    fn wait(&self) -> Outcome {
        match self {
            Pending::Task(request, ended) => {
                as_state(|| request.wait_until_over())?;
                let ended = ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
                ended.unwrap_or_else(|| {
                    Err(Failure::new(status::CANCELLED, "the request was cancelled before it began"))
                })
            }
            Pending::Network(request) => as_state(|| request.wait())?.map(drop).map_err(Failure::from),
        }
    }
}

/// # Safety
/// Rules "Handles", "Callbacks" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_runtime_spawn(
    runtime: *const Threads,
    function: Option<TaskFn>,
    data: *mut c_void,
    drop: Option<DropFn>,
    request: *mut *mut Pending,
) -> i32 {
    // SAFETY: as asked of the caller.
    unsafe { vicus_runtime_spawn_within(runtime, 0, function, data, drop, request) }
}

/// # Safety
/// The rules of `vicus_runtime_spawn`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_runtime_spawn_within(
    runtime: *const Threads,
    memory_bytes: u64,
    function: Option<TaskFn>,
    data: *mut c_void,
    drop: Option<DropFn>,
    request: *mut *mut Pending,
) -> i32 {
    let call = Call::new(function, data, drop);
    guard(|| {
        let call = call?;
        // SAFETY: rule "Handles".
        let threads = unsafe { threads(runtime) }?;
        let ended = Arc::new(Mutex::new(None));
        let end = Arc::clone(&ended);
        let begun = threads.runtime().spawn_within(budget(memory_bytes), move || {
            let outcome = call.outcome();
            *end.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        });
        if !request.is_null() {
            // SAFETY: rule "Outputs".
            unsafe { give(request, Pending::Task(begun, ended)) };
        }
        Ok(())
    })
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_request_wait(request: *const Pending) -> i32 {
    // SAFETY: rule "Handles".
    guard(|| unsafe { handle(request, "request") }?.wait())
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_request_is_done(request: *const Pending) -> i32 {
    guard_or(0, || {
        // SAFETY: rule "Handles".
        match unsafe { request.as_ref() } {
            Some(Pending::Task(request, _)) => i32::from(request.is_done()),
            Some(Pending::Network(request)) => i32::from(request.is_done()),
            None => 0,
        }
    })
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_request_cancel(request: *const Pending) {
    guard_or((), || {
        // SAFETY: rule "Handles".
        match unsafe { request.as_ref() } {
            Some(Pending::Task(request, _)) => request.cancel(),
            Some(Pending::Network(request)) => request.cancel(),
            None => {}
        }
    });
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_request_free(request: *mut Pending) {
    // SAFETY: rule "Handles".
    guard_or((), || unsafe { free(request) });
}
