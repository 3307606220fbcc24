//! The reports at a program's end: the summary of `VICUS_SUMMARY`, and the trace of `VICUS_TRACE`.
//!
//! Each thread has an account of its time: the code of regions and of tasks, by the address of the compiler's function
//! for each, and waiting. It changes the open entry when the library calls such code and when a thread begins to wait,
//! and back. Without a summary, each of these points is one test of a flag.
//!
//! The report is made when the process ends, by the thread that ends it. Other threads may still run: an account has a
//! lock, and the time of an open entry counts up to then. A forked child makes no report.

pub(crate) mod symbols;

use crate::kmpc::KmpTask;
use crate::records::{Code, Record};
use crate::settings::{complain, get};
use crate::thread::{Thread, here};
use crate::wait::Guarded;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vicus::kit::Level;
use vicus::kit::team::Team;
use vicus::tasks::Access;

/// Whether accounts are kept.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// Whether teams record a trace.
static IS_TRACED: AtomicBool = AtomicBool::new(false);

/// Whether accounts are kept.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Whether teams record a trace.
#[inline(always)]
pub(crate) fn is_traced() -> bool {
    IS_TRACED.load(Ordering::Relaxed)
}

/// The use of a thread's time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Spent {
    /// In the program's code outside of regions.
    Outside,
    /// On waiting in a region, for other threads or for tasks.
    Waiting,
    /// In a region, in its function.
    Region(usize),
    /// In a task.
    Task(usize),
}

/// The sums of one entry.
#[derive(Clone, Copy, Default)]
struct Sums {
    count: u64,
    time: Duration,
    bytes: Bytes,
}

/// The nodes of the data of tasks, for tasks that name their data.
#[derive(Clone, Copy, Default)]
struct Bytes {
    /// How many tasks have said something.
    tasks: u64,
    near: u64,
    far: u64,
    unknown: u64,
    /// How many addresses came without a length, and how many of these could be given one.
    bare: u64,
    found: u64,
}

impl Bytes {
    fn add(&mut self, other: &Bytes) {
        self.tasks += other.tasks;
        self.near += other.near;
        self.far += other.far;
        self.unknown += other.unknown;
        self.bare += other.bare;
        self.found += other.found;
    }
}

/// A thread's account. It lives as long as the process.
pub(crate) type Account = Guarded<Inner>;

pub(crate) struct Inner {
    open: Spent,
    since: Instant,
    sums: BTreeMap<Spent, Sums>,
}

/// The data of the report.
struct ReportData {
    accounts: Vec<&'static Account>,
    teams: Vec<Team>,
    began: Option<Instant>,
    /// The compilers' source places of functions.
    sources: BTreeMap<usize, String>,
    /// The functions of regions and tasks in the trace, with their numbers there.
    functions: BTreeMap<usize, u32>,
    /// The first addresses of placed blocks, and their numbers of bytes.
    arrays: BTreeMap<usize, usize>,
}

static KEPT: Guarded<ReportData> = Guarded::new(ReportData {
    accounts: Vec::new(),
    teams: Vec::new(),
    began: None,
    sources: BTreeMap::new(),
    functions: BTreeMap::new(),
    arrays: BTreeMap::new(),
});

/// Reads the settings for reports, before `main`.
pub(crate) fn begin() {
    let settings = get();
    IS_ON.store(settings.summary.is_some(), Ordering::Relaxed);
    IS_TRACED.store(settings.trace.is_some(), Ordering::Relaxed);
    if is_on() {
        KEPT.with(|kept| kept.began = Some(Instant::now()));
    }
}

/// A forked child begins: the report is its parent's.
pub(crate) fn leave_to_parent() {
    IS_ON.store(false, Ordering::Relaxed);
    IS_TRACED.store(false, Ordering::Relaxed);
    // Another thread of the parent may have held it.
    KEPT.lock.init();
}

/// The events that a new team's trace keeps of each thread, if one is wanted.
pub(crate) fn room() -> Option<vicus::kit::TraceRoom> {
    IS_TRACED.load(Ordering::Relaxed).then(|| get().trace_room)
}

/// A team was made.
pub(crate) fn keep_team(team: &Team) {
    crate::placed::tell_of_unplaced();
    if is_on() || IS_TRACED.load(Ordering::Relaxed) {
        KEPT.with(|kept| kept.teams.push(team.clone()));
    }
}

/// Notes a compiler's source place of a function: `;file;function;line;column;;`.
#[cold]
pub(crate) fn note_source(function: usize, source: *const libc::c_char) {
    if source.is_null() {
        return;
    }
    KEPT.with(|kept| {
        kept.sources.entry(function).or_insert_with(|| {
            // SAFETY: rule "Interface": the text ends with a zero byte.
            let text = unsafe { std::ffi::CStr::from_ptr(source) }.to_string_lossy().into_owned();
            let parts: Vec<&str> = text.split(';').collect();
            match parts[..] {
                ["", file, name, line, ..] if file != "unknown" => format!("{name} {file}:{line}"),
                _ => String::new(),
            }
        });
    });
}

/// Changes the use of the calling thread's time. Returns the use before. `count`: how many more there were of it.
#[cold]
#[inline(never)]
pub(crate) fn spend(on: Spent, count: u64) -> Spent {
    let _errno = crate::wait::KeepErrno::new();
    account(here()).with(|inner| {
        let now = Instant::now();
        let outer = std::mem::replace(&mut inner.open, on);
        inner.sums.entry(outer).or_default().time += now.duration_since(std::mem::replace(&mut inner.since, now));
        if count > 0 {
            inner.sums.entry(on).or_default().count += count;
        }
        outer
    })
}

/// The calling thread waits while `f` runs, except in tasks that it runs meanwhile.
#[inline(always)]
pub(crate) fn waiting<R>(f: impl FnOnce() -> R) -> R {
    if !is_on() {
        return f();
    }
    let outer = spend(Spent::Waiting, 0);
    let result = f();
    spend(outer, 0);
    result
}

/// The calling thread runs a task's function while `f` runs.
#[inline(always)]
pub(crate) fn in_task<R>(function: impl FnOnce() -> usize, f: impl FnOnce() -> R) -> R {
    if !is_on() {
        return f();
    }
    let outer = spend(Spent::Task(function()), 1);
    let result = f();
    spend(outer, 0);
    result
}

/// For the trace: the calling thread's code from now on, as a task of a team's plan, is this function's.
#[cold]
#[inline(never)]
pub(crate) fn name(function: usize) {
    let _errno = crate::wait::KeepErrno::new();
    let number = KEPT.with(|kept| {
        let next = kept.functions.len() as u32;
        *kept.functions.entry(function).or_insert(next)
    });
    vicus::kit::team::name_task(number);
}

/// A placed block begins here: for the trace.
#[cold]
pub(crate) fn note_array(address: usize, bytes: usize) {
    KEPT.with(|kept| {
        // Earlier blocks within this one were freed.
        while let Some((&begins, _)) = kept.arrays.range(address..address + bytes).next() {
            kept.arrays.remove(&begins);
        }
        kept.arrays.insert(address, bytes);
    });
}

/// Notes the nodes of a task's data, as near or far from here, just before the task runs.
#[cold]
#[inline(never)]
pub(crate) fn note_bytes(function: usize, of: &[Access]) {
    let footprint = vicus::kit::footprint_of(of);
    let here_ = vicus::memory::here().map_or(0, vicus::NodeId::index);
    let all: usize = footprint.nodes.iter().sum();
    let near = footprint.nodes.get(here_).copied().unwrap_or(0);
    let bytes = Bytes {
        tasks: 1,
        near: near as u64,
        far: (all - near) as u64,
        unknown: footprint.unknown as u64,
        ..Bytes::default()
    };
    account(here()).with(|inner| inner.sums.entry(Spent::Task(function)).or_default().bytes.add(&bytes));
}

/// A task has named `bare` addresses without a length; `found` of them were given one.
#[cold]
pub(crate) fn note_bare(function: usize, bare: u64, found: u64) {
    let bytes = Bytes { bare, found, ..Bytes::default() };
    account(here()).with(|inner| inner.sums.entry(Spent::Task(function)).or_default().bytes.add(&bytes));
}

/// The function of a task.
///
/// # Safety
/// The record belongs to an unfinished task.
pub(crate) unsafe fn function_of(record: *const Record) -> usize {
    // SAFETY: rule "Record": the caller's promise; clang's record is behind it if the code says so.
    unsafe {
        match (*record).code {
            Code::Call { function, .. } => function as usize,
            Code::Behind { bytes: 0, .. } => 0,
            Code::Behind { .. } => (*record.add(1).cast::<KmpTask>()).entry.map_or(0, |entry| entry as usize),
        }
    }
}

fn account(thread: &mut Thread) -> &'static Account {
    if thread.account.is_null() {
        let inner = Inner { open: Spent::Outside, since: Instant::now(), sums: BTreeMap::new() };
        let new: &'static Account = Box::leak(Box::new(Guarded::new(inner)));
        KEPT.with(|kept| kept.accounts.push(new));
        thread.account = ptr::from_ref(new);
    }
    // SAFETY: an account is leaked, and never freed.
    unsafe { &*thread.account }
}

/// Runs at the end of the process, after the program's own functions, because this library is the first one to begin.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = {
    extern "C" fn at_end() {
        crate::tool::end();
        let is_traced = IS_TRACED.swap(false, Ordering::Relaxed);
        let is_summed_up = IS_ON.swap(false, Ordering::Relaxed);
        if is_summed_up {
            write_summary();
        }
        if is_traced {
            write_trace();
        }
    }
    at_end
};

fn write_trace() {
    let Some(path) = &get().trace else { return };
    let teams = KEPT.with(|kept| std::mem::take(&mut kept.teams));
    // A program without regions, such as a shell that starts the measured one, leaves the file to it.
    let Some(trace) = Team::trace(&teams) else { return };
    let arrays = KEPT.with(|kept| std::mem::take(&mut kept.arrays));
    let (arrays, bytes) = arrays.into_iter().map(|(address, bytes)| (address as u64, bytes as u64)).unzip();
    let trace = trace.with_functions(functions()).with_arrays(arrays).with_array_bytes(bytes).with_command(command());
    let written = File::create(path).and_then(|file| {
        let mut out = BufWriter::new(file);
        trace.write_to(&mut out)?;
        out.flush()
    });
    if let Err(error) = written {
        complain(&format!("the trace can't be written to {}: {error}", path.display()));
    }
    if let Some(shortage) = get().trace_room.shortage(&trace, "VICUS_TRACE_EVENTS") {
        complain(&shortage);
    }
}

/// The command line of this process, if the system tells it.
fn command() -> String {
    let words = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    String::from_utf8_lossy(&words).trim_end_matches('\0').replace('\0', " ")
}

/// How the functions of regions and tasks are called, by their numbers in the trace.
fn functions() -> Vec<String> {
    let (functions, sources) =
        KEPT.with(|kept| (std::mem::take(&mut kept.functions), std::mem::take(&mut kept.sources)));
    let names = symbols::Symbols::new();
    let mut functions: Vec<(usize, u32)> = functions.into_iter().collect();
    functions.sort_by_key(|&(_, number)| number);
    functions.into_iter().map(|(function, _)| named(&names, &sources, function)).collect()
}

/// How a function is called: its symbol, and its place in the source if its compiler has said it.
fn named(names: &symbols::Symbols, sources: &BTreeMap<usize, String>, function: usize) -> String {
    let source = sources.get(&function).filter(|source| !source.is_empty());
    match (names.of(function), source) {
        (name, Some(source)) => format!("{name} ({source})"),
        (name, None) => name,
    }
}

fn write_summary() {
    let Some(summary) = &get().summary else { return };
    let text = KEPT.with(|kept| {
        let mut sums: BTreeMap<Spent, Sums> = BTreeMap::new();
        let now = Instant::now();
        for account in &kept.accounts {
            account.with(|inner| {
                inner.sums.entry(inner.open).or_default().time += now.duration_since(inner.since);
                inner.since = now;
                for (spent, own) in &inner.sums {
                    let all = sums.entry(*spent).or_default();
                    all.count += own.count;
                    all.time += own.time;
                    all.bytes.add(&own.bytes);
                }
            });
        }
        let span = kept.began.map_or(Duration::ZERO, |began| now.duration_since(began));
        (!kept.teams.is_empty()).then(|| shown(&kept.teams, &sums, &kept.sources, span))
    });
    let Some(text) = text else { return };
    match summary.to_str() {
        Some("1") => {
            // SAFETY: rule "System": the text and its length.
            unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
        }
        _ => {
            if let Err(error) = fs::write(summary, text) {
                complain(&format!("the summary can't be written to {}: {error}", summary.display()));
            }
        }
    }
}

fn ms(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1e3)
}

fn shown(teams: &[Team], sums: &BTreeMap<Spent, Sums>, sources: &BTreeMap<usize, String>, span: Duration) -> String {
    let mut text = String::new();
    let mut line = |shown: std::fmt::Arguments<'_>| {
        let _ = writeln!(text, "vicus: {shown}");
    };
    let of = |spent: Spent| sums.get(&spent).copied().unwrap_or_default();
    let is_work = |spent: &Spent| matches!(spent, Spent::Region(_) | Spent::Task(_));
    let work: Duration = sums.iter().filter(|(spent, _)| is_work(spent)).map(|(_, sums)| sums.time).sum();
    let waiting = of(Spent::Waiting).time;
    let tasks: u64 = sums.iter().filter(|(spent, _)| matches!(spent, Spent::Task(_))).map(|(_, sums)| sums.count).sum();
    let largest = teams.iter().max_by_key(|team| team.members()).expect("there is a team");
    line(format_args!(
        "{} ms, strategy {}, {} threads in the largest team, {}",
        ms(span),
        largest.plan().strategy,
        largest.members(),
        largest.topology().name
    ));
    line(format_args!("threads run {}", crate::bound::told(largest)));
    let mut levels = [0; Level::ALL.len()];
    for ((_, level), count) in teams.iter().flat_map(Team::takes) {
        levels[level as usize] += count;
    }
    let takes: Vec<String> =
        Level::ALL.iter().map(|level| format!("{} {}", level.name(), levels[*level as usize])).collect();
    let taken: u64 = levels.iter().sum();
    line(format_args!("{tasks} tasks, {taken} of them taken from queues: {}", takes.join(", ")));
    let in_regions = work + waiting;
    let share = |part: Duration| {
        if in_regions.is_zero() { 0.0 } else { 100.0 * part.as_secs_f64() / in_regions.as_secs_f64() }
    };
    line(format_args!(
        "work {} ms ({:.1} %), idle {} ms ({:.1} %), summed over the threads of regions",
        ms(work),
        share(work),
        ms(waiting),
        share(waiting)
    ));
    match get().work_alone {
        Some(alone) if !alone.is_zero() => line(format_args!(
            "work inflation {:.3}: one thread alone works {} ms",
            work.as_secs_f64() / alone.as_secs_f64(),
            ms(alone)
        )),
        _ => line(format_args!(
            "work inflation unknown: `vicus run --summary --inflation` runs the program with one thread before"
        )),
    }
    let mut bytes = Bytes::default();
    sums.values().for_each(|sums| bytes.add(&sums.bytes));
    line(format_args!(
        "bytes that tasks say they use: near {}, far {}, of unknown place {}; {} of {tasks} tasks say so",
        bytes.near, bytes.far, bytes.unknown, bytes.tasks
    ));
    if bytes.bare > 0 {
        line(format_args!(
            "{} addresses came without a length: {} were given that of the section or block around, {} count for \
             one page",
            bytes.bare,
            bytes.found,
            bytes.bare - bytes.found
        ));
    }
    if let Some(learned) = crate::learned::told() {
        line(format_args!("{learned}"));
    }
    let names = symbols::Symbols::new();
    let mut rows: Vec<(&Spent, &Sums)> = sums.iter().filter(|(spent, _)| is_work(spent)).collect();
    rows.sort_by_key(|(_, sums)| std::cmp::Reverse(sums.time));
    line(format_args!(
        "{:>12} {:>6} {:>10} {:>10} {:>12} {:>12} {:>12}  place",
        "ms", "%", "count", "us each", "near bytes", "far bytes", "unknown"
    ));
    for (spent, Sums { count, time, bytes }) in rows {
        let (kind, function) = match *spent {
            Spent::Region(function) => ("region", function),
            Spent::Task(function) => ("task", function),
            Spent::Outside | Spent::Waiting => continue,
        };
        let each = if *count == 0 { 0.0 } else { time.as_secs_f64() * 1e6 / *count as f64 };
        let name = named(&names, sources, function);
        line(format_args!(
            "{:>12} {:>6.1} {count:>10} {each:>10.3} {:>12} {:>12} {:>12}  {kind} {name}",
            ms(*time),
            if work.is_zero() { 0.0 } else { 100.0 * time.as_secs_f64() / work.as_secs_f64() },
            bytes.near,
            bytes.far,
            bytes.unknown
        ));
    }
    text
}
