//! The users' settings: variables of the environment. They are read once, before `main` or, in programs of clang, by
//! the first call. A wrong value is reported in one line, and left out.

use crate::process::Once;
use crate::thread::Icv;
use std::env::{self, VarError};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;
use vicus::kit::team::Setting;
use vicus::memory::Distribution;

/// How a loop's iterations are dealt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    pub(crate) kind: Kind,
    pub(crate) is_monotonic: bool,
    /// 0: the kind's own.
    pub(crate) chunk: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Static,
    /// Each thread takes the next free chunk, in order.
    Dynamic,
    /// Dynamic without the order: each thread begins with its chunks of the last time.
    Returning,
    Guided,
    Auto,
}

impl Schedule {
    /// The kind and the chunk of a `schedule(runtime)` loop.
    pub(crate) fn of_loop(self) -> (Kind, i64) {
        match self.kind {
            Kind::Auto => (Kind::Static, 0),
            Kind::Dynamic if !self.is_monotonic => (Kind::Returning, i64::from(self.chunk)),
            kind => (kind, i64::from(self.chunk)),
        }
    }
}

impl Kind {
    /// The kind with each thread's iterations in order.
    pub(crate) fn monotonic(self) -> Kind {
        if self == Kind::Returning { Kind::Dynamic } else { self }
    }
}

/// All settings.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) icv: Icv,
    /// The list of `OMP_NUM_THREADS=4,2`, by the number of enclosing regions.
    pub(crate) threads_by_level: Vec<i32>,
    pub(crate) binding: BindingSettings,
    pub(crate) cancels: bool,
    pub(crate) most_priority: i32,
    pub(crate) stack_bytes: Option<usize>,
    pub(crate) waiting: WaitSettings,
    pub(crate) strategy: Option<Setting>,
    pub(crate) throttles: bool,
    pub(crate) teams: i32,
    pub(crate) teams_threads: i32,
    display: Option<bool>,
    /// `KMP_SETTINGS`.
    shows_effective: bool,
    /// Whether a tool loaded with the program may begin.
    pub(crate) takes_tools: bool,
    pub(crate) memory: MemorySettings,
    /// The target of the summary at the end: `1` is standard error, else a file. And the target of the trace.
    pub(crate) summary: Option<OsString>,
    pub(crate) trace: Option<PathBuf>,
    /// The events that it keeps of each thread.
    pub(crate) trace_room: vicus::kit::TraceRoom,
    /// For how long the program's regions and tasks work with one thread.
    pub(crate) work_alone: Option<Duration>,
    /// `OMP_TARGET_OFFLOAD`: 0 disabled, 1 default, 2 mandatory.
    pub(crate) offload: i32,
}

/// Where threads are bound, and how that is shown.
#[derive(Debug)]
pub(crate) struct BindingSettings {
    /// The list of `OMP_PROC_BIND=spread,close`, by level.
    pub(crate) bind_by_level: Vec<u8>,
    /// Whether the user sets a binding, even if only to none.
    pub(crate) says_binding: bool,
    /// Whether `KMP_AFFINITY` is set, and other variables say where threads are bound.
    leaves_out_kmp_affinity: bool,
    pub(crate) places: Option<String>,
    pub(crate) displays_affinity: bool,
    pub(crate) affinity_format: String,
}

/// How threads wait.
#[derive(Debug)]
pub(crate) struct WaitSettings {
    /// `Some(true)`: waiting threads spin; `Some(false)`: they sleep.
    pub(crate) is_active: Option<bool>,
    /// How often a thread looks for its next region before it sleeps.
    pub(crate) spins: u32,
    /// For how many milliseconds, if `KMP_BLOCKTIME` says it.
    pub(crate) blocks_ms: Option<u32>,
    /// Whether `GOMP_SPINCOUNT` is set.
    pub(crate) says_spins: bool,
}

/// Where the program's memory lies.
#[derive(Debug)]
pub(crate) struct MemorySettings {
    pub(crate) allocator: usize,
    /// The distribution of the program's memory, and its least size; `None`: the machine's default.
    pub(crate) distribution: Option<Distribution>,
    pub(crate) placed_from: usize,
    /// The distributions of blocks of exactly these sizes.
    pub(crate) distribution_of: Vec<(usize, Distribution)>,
    /// Whether the C library's large blocks move to the first tasks that name them.
    pub(crate) next_touch: bool,
}

/// The settings of the process.
#[inline]
pub(crate) fn get() -> &'static Settings {
    static SETTINGS: Once<Settings> = Once::new();
    SETTINGS.get_or(begin)
}

fn begin() -> Settings {
    let settings = read();
    let checks = vicus::environment::checks().and_then(told);
    crate::checks::begin(checks == Some(true));
    crate::intense::begin();
    for line in settings.idle() {
        warn(line);
    }
    for line in vicus::environment::misspelt() {
        warn(&line);
    }
    if let Some(is_verbose) = settings.display.filter(|_| !IS_QUIET.load(Ordering::Relaxed)) {
        eprint!("{}", settings.shown(is_verbose));
    }
    if settings.shows_effective && !IS_QUIET.load(Ordering::Relaxed) {
        eprint!("{}", settings.effective());
    }
    settings
}

/// Before `main`: a variable set later by the program has no effect, as in gcc's library.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn(i32, *const *const u8, *const *const u8) = {
    extern "C" fn before_main(_count: i32, _arguments: *const *const u8, variables: *const *const u8) {
        unsafe extern "C" {
            static mut environ: *const *const u8;
        }
        let _errno = crate::wait::KeepErrno::new();
        crate::objects::begin();
        // This library begins before the C library has set this, to the same.
        // SAFETY: rule "System": no other thread runs before `main`, and the loader gives the variables that the C
        // library sets later.
        unsafe {
            if environ.is_null() {
                environ = variables;
            }
        }
        processors();
        crate::places::allowed();
        // clang's library reads them when it is first called, and its programs may set them until then. A program
        // without OpenMP, with inherited variables and this library, may load an object with it later: they are read by
        // its first call.
        let is_reported = vicus::environment::summary().is_some() || vicus::environment::trace().is_some();
        let is_at_once = crate::objects::is_asked_for() && !crate::objects::is_for_clang();
        if is_at_once || is_reported || crate::placed::is_asked_for() {
            IS_QUIET.store(!crate::objects::is_asked_for(), Ordering::Relaxed);
            get();
            IS_QUIET.store(false, Ordering::Relaxed);
            crate::report::begin();
        }
        crate::placed::begin();
        crate::process::watch_forks();
    }
    before_main
};

/// Whether wrong variables stay unreported: a program without OpenMP has inherited them.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Reports a wrong variable to the user.
pub(crate) fn warn(what: &str) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        complain(what);
    }
}

/// Reports a wrong variable of memory. With `libvicus_malloc.so` loaded, it applies to a program without OpenMP as
/// well, so it is reported there too.
fn warn_of_memory(what: &str) {
    if crate::placed::has_malloc() { complain(what) } else { warn(what) }
}

/// Tells the user of something wrong.
pub(crate) fn complain(what: &str) {
    let line = format!("libvicus_omp: {what}\n");
    // SAFETY: rule "System": the text and its length.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}

/// Ends the process because of something wrong.
#[cold]
pub(crate) fn fail(what: &str) -> ! {
    complain(what);
    // SAFETY: rule "System": no condition.
    unsafe { libc::_exit(1) }
}

/// The number of usable processors: the process's mask, or its cgroups' quota of time, rounded up.
pub(crate) fn processors() -> u32 {
    static PROCESSORS: Once<u32> = Once::new();
    *PROCESSORS.get_or(|| vicus::kit::default_threads() as u32)
}

fn variable(name: &str) -> Option<String> {
    match env::var(name) {
        Ok(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Err(VarError::NotPresent) => None,
        Err(VarError::NotUnicode(_)) => {
            warn(&format!("{name} is no text"));
            None
        }
    }
}

/// A variable's value, by a function that returns the expected form as its error.
fn parsed<T>(name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
    let text = variable(name)?;
    parse(&text).map_err(|wanted| warn(&format!("{name}={text} is left out: it is to be {wanted}"))).ok()
}

fn number(text: &str, least: i32) -> Result<i32, String> {
    let wanted = || format!("a number that is at least {least}");
    // More than fits is as much as fits.
    let number: i64 = text.trim().parse().map_err(|_| wanted())?;
    if number < i64::from(least) { Err(wanted()) } else { Ok(number.min(i64::from(i32::MAX)) as i32) }
}

fn truth(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("true or false".to_owned()),
    }
}

fn numbers(text: &str) -> Result<Vec<i32>, String> {
    text.split(',')
        .map(|text| number(text, 1))
        .collect::<Result<_, _>>()
        .map_err(|_| "numbers that are at least 1, with commas between them".to_owned())
}

fn schedule(text: &str) -> Result<Schedule, String> {
    let wanted = || {
        "static, dynamic, guided or auto, perhaps behind monotonic: or nonmonotonic:, and perhaps with a comma and a \
            chunk"
            .to_owned()
    };
    let text = text.to_ascii_lowercase();
    let (modifier, rest) =
        text.split_once(':').map_or((None, text.as_str()), |(modifier, rest)| (Some(modifier.trim()), rest));
    let (kind, chunk) = rest.split_once(',').map_or((rest, None), |(kind, chunk)| (kind, Some(chunk)));
    let kind = match kind.trim() {
        "static" => Kind::Static,
        "dynamic" => Kind::Dynamic,
        "guided" => Kind::Guided,
        "auto" => Kind::Auto,
        _ => return Err(wanted()),
    };
    let is_monotonic = match modifier {
        None => false,
        Some("monotonic") => true,
        Some("nonmonotonic") => false,
        Some(_) => return Err(wanted()),
    };
    let chunk = chunk.map_or(Ok(0), |chunk| number(chunk, 1)).map_err(|_| wanted())?;
    let chunk = if kind == Kind::Static { chunk } else { chunk.max(1) };
    Ok(Schedule { kind, is_monotonic, chunk })
}

/// The bytes of a stack: at least the system's minimum for a thread.
fn stack(text: &str, usual: &'static str) -> Result<usize, String> {
    let bytes = bytes_in(text, usual)?;
    let least = LEAST_STACK;
    if bytes < least { Err(format!("at least {} KiB: a thread has no room in less", least >> 10)) } else { Ok(bytes) }
}

/// The least stack: with less, a thread of the library does not come to the program's code.
const LEAST_STACK: usize = 16 << 10;

/// A number of bytes, in this unit if it names none.
fn bytes_in(text: &str, usual: &'static str) -> Result<usize, String> {
    let wanted = || {
        let unit = if usual == "K" { "KiB" } else { "bytes" };
        format!("a number of {unit}, or a number with B, K, M or G")
    };
    let text = text.trim().to_ascii_uppercase();
    let (digits, unit) = match text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic()) {
        digits if digits.len() == text.len() => (digits, usual),
        digits => (digits, &text[digits.len()..]),
    };
    let factor: usize = match unit {
        "B" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return Err(wanted()),
    };
    let number: usize = digits.trim().parse().map_err(|_| wanted())?;
    number.checked_mul(factor).ok_or_else(wanted)
}

fn binds(text: &str) -> Result<Vec<u8>, String> {
    let one = |text: &str| match text.trim().to_ascii_lowercase().as_str() {
        "false" => Some(0),
        "true" => Some(1),
        "master" | "primary" => Some(2),
        "close" => Some(3),
        "spread" => Some(4),
        _ => None,
    };
    let all: Option<Vec<u8>> = text.split(',').map(one).collect();
    all.ok_or_else(|| "false, true, primary, close or spread".to_owned())
}

/// The binding by libomp's own variable: whether the threads are to lie close or spread, or are not bound. How fine,
/// from which place on, and whether it is told of is left out.
fn kmp_affinity(text: &str) -> Result<u8, String> {
    let kind = text.split(',').find_map(|word| match word.trim().to_ascii_lowercase().as_str() {
        "none" | "disabled" => Some(0),
        "compact" => Some(3),
        "scatter" | "balanced" => Some(4),
        _ => None,
    });
    kind.ok_or_else(|| "none, disabled, compact, scatter or balanced; OMP_PLACES has lists of processors".to_owned())
}

fn offload(text: &str) -> Result<i32, String> {
    match text.to_ascii_lowercase().as_str() {
        "disabled" => Ok(0),
        "default" => Ok(1),
        "mandatory" => Ok(2),
        _ => Err("disabled, default or mandatory".to_owned()),
    }
}

fn allocator(text: &str) -> Result<usize, String> {
    const NAMES: [&str; 8] = ["default", "large_cap", "const", "high_bw", "low_lat", "cgroup", "pteam", "thread"];
    let text = text.trim().to_ascii_lowercase();
    let name = text.strip_prefix("omp_").and_then(|text| text.strip_suffix("_mem_alloc"));
    let at = name.and_then(|name| NAMES.iter().position(|one| *one == name));
    at.map(|at| at + 1).ok_or_else(|| "a predefined allocator, such as omp_default_mem_alloc".to_owned())
}

fn read() -> Settings {
    let mut threads_by_level = vec![processors() as i32];
    let threads = parsed("OMP_NUM_THREADS", numbers);
    let has_list = threads.as_ref().is_some_and(|threads| threads.len() > 1);
    if let Some(threads) = threads {
        threads_by_level = threads;
    }
    let known = |name| {
        let wanted = || "places that are known: threads, cores, ll_caches, numa_domains, sockets, or a list".to_owned();
        parsed(name, |text| if crate::places::is_known(text) { Ok(text.to_owned()) } else { Err(wanted()) })
    };
    let has_places = variable("OMP_PLACES").is_some();
    let places = if has_places { known("OMP_PLACES") } else { known("GOMP_CPU_AFFINITY") };
    let bind_by_level = parsed("OMP_PROC_BIND", binds);
    let says_places = places.is_some() || has_places;
    // libomp's variable comes behind those of OpenMP, as in programs that never ask for it.
    let affinity = if bind_by_level.is_none() && !says_places { parsed("KMP_AFFINITY", kmp_affinity) } else { None };
    let bind = bind_by_level.as_ref().and_then(|all| all.first().copied()).or(affinity);
    let is_nested = parsed("OMP_NESTED", truth);
    let levels = parsed("OMP_MAX_ACTIVE_LEVELS", |text| number(text, 0)).unwrap_or(match is_nested {
        Some(true) => i32::MAX,
        Some(false) => 1,
        None if has_list || bind_by_level.as_ref().is_some_and(|all| all.len() > 1) => i32::MAX,
        None => 1,
    });
    let is_active = parsed("OMP_WAIT_POLICY", |text| match text.to_ascii_lowercase().as_str() {
        "active" => Ok(true),
        "passive" => Ok(false),
        _ => Err("active or passive".to_owned()),
    });
    // clang's library says it in milliseconds: none is passive, and without end is active.
    let blocks = |text: &str| match text.to_ascii_lowercase().trim_end_matches("ms") {
        "infinite" => Ok(u32::MAX),
        text => number(text, 0).map(|ms| ms as u32),
    };
    let blocks_ms = if is_active.is_none() { parsed("KMP_BLOCKTIME", blocks) } else { None };
    let is_active = is_active.or(match blocks_ms {
        Some(0) => Some(false),
        Some(u32::MAX) => Some(true),
        _ => None,
    });
    let spins = parsed("GOMP_SPINCOUNT", |text| match text.to_ascii_lowercase().as_str() {
        "infinity" | "infinite" => Ok(i32::MAX),
        text => number(text, 0),
    });
    let says_spins = spins.is_some();
    let spins = spins.unwrap_or(match is_active {
        Some(true) => 10_000_000,
        Some(false) => 0,
        None => 2_000,
    });
    let schedule = parsed("OMP_SCHEDULE", schedule);
    let icv = Icv {
        threads: threads_by_level[0],
        max_active_levels: levels,
        thread_limit: parsed("OMP_THREAD_LIMIT", |text| number(text, 1)).unwrap_or(i32::MAX),
        schedule: schedule.unwrap_or(if crate::objects::is_for_clang() {
            Schedule { kind: Kind::Static, is_monotonic: false, chunk: 0 }
        } else {
            Schedule { kind: Kind::Dynamic, is_monotonic: false, chunk: 1 }
        }),
        is_dynamic: parsed("OMP_DYNAMIC", truth).unwrap_or(false),
        bind: bind.unwrap_or(u8::from(says_places)),
        default_device: parsed("OMP_DEFAULT_DEVICE", |text| number(text, 0)).unwrap_or(0),
    };
    // All loops of a team that may be under way at once have room, so the number has no effect.
    let buffers = |text: &str| {
        let wanted = "a number from 1 to 4096".to_owned();
        number(text, 1).ok().filter(|&buffers| buffers <= 4096).ok_or(wanted)
    };
    parsed("KMP_DISP_NUM_BUFFERS", buffers);
    let strategy = vicus::environment::strategy().and_then(told);
    Settings {
        icv,
        threads_by_level,
        offload: parsed("OMP_TARGET_OFFLOAD", offload).unwrap_or(1),
        binding: BindingSettings {
            says_binding: bind.is_some() || says_places,
            leaves_out_kmp_affinity: (bind_by_level.is_some() || says_places) && variable("KMP_AFFINITY").is_some(),
            bind_by_level: bind_by_level.filter(|all| all.len() > 1).unwrap_or_default(),
            displays_affinity: parsed("OMP_DISPLAY_AFFINITY", truth).unwrap_or(false),
            affinity_format: variable("OMP_AFFINITY_FORMAT").unwrap_or_else(|| {
                if crate::objects::is_for_clang() {
                    "OMP: pid %P tid %i thread %n bound to OS proc set {%A}"
                } else {
                    "level %L thread %i affinity %A"
                }
                .to_owned()
            }),
            places,
        },
        cancels: parsed("OMP_CANCELLATION", truth).unwrap_or(false),
        most_priority: parsed("OMP_MAX_TASK_PRIORITY", |text| number(text, 0)).unwrap_or(0),
        stack_bytes: parsed("OMP_STACKSIZE", |text| stack(text, "K"))
            .or_else(|| parsed("GOMP_STACKSIZE", |text| stack(text, "K")))
            .or_else(|| parsed("KMP_STACKSIZE", |text| stack(text, "B"))),
        waiting: WaitSettings { is_active, spins: spins as u32, blocks_ms, says_spins },
        strategy,
        throttles: parsed("KMP_ENABLE_TASK_THROTTLING", truth).unwrap_or(true),
        teams: parsed("OMP_NUM_TEAMS", |text| number(text, 1)).unwrap_or(0),
        teams_threads: parsed("OMP_TEAMS_THREAD_LIMIT", |text| number(text, 1)).unwrap_or(0),
        display: parsed("OMP_DISPLAY_ENV", |text| match text.to_ascii_lowercase().as_str() {
            "verbose" => Ok(Some(true)),
            text => truth(text).map(|is_wanted| is_wanted.then_some(false)),
        })
        .flatten(),
        shows_effective: parsed("KMP_SETTINGS", truth).unwrap_or(false),
        memory: MemorySettings {
            allocator: parsed("OMP_ALLOCATOR", allocator).unwrap_or(1),
            distribution: distribution(),
            placed_from: vicus::environment::placed_from().and_then(told).unwrap_or(vicus::environment::PLACED_FROM),
            distribution_of: vicus::environment::distributions_of()
                .and_then(|value| told_by(value, warn_of_memory))
                .unwrap_or_default(),
            next_touch: vicus::environment::next_touch().and_then(|value| told_by(value, warn_of_memory)) == Some(true),
        },
        takes_tools: parsed("OMP_TOOL", |text| match text.to_ascii_lowercase().as_str() {
            "enabled" => Ok(true),
            "disabled" => Ok(false),
            _ => Err("enabled or disabled".to_owned()),
        })
        .unwrap_or(true),
        summary: vicus::environment::summary(),
        trace: vicus::environment::trace(),
        trace_room: vicus::environment::trace_room(|wrong| _ = told(Err::<(), _>(wrong))),
        work_alone: vicus::environment::summary_alone().and_then(told),
    }
}

/// The distribution of the program's memory. Its blocks are written, so copies of them make no sense.
fn distribution() -> Option<Distribution> {
    match told_by(vicus::environment::distribution()?, warn_of_memory)? {
        Distribution::Standard => None,
        Distribution::Replicated => {
            warn_of_memory(
                "VICUS_DATA_DISTRIBUTION=replicated is left out: what a program allocates is written, and has one copy",
            );
            None
        }
        distribution => Some(distribution),
    }
}

/// A variable of all of Vicus; its error begins with the variable's name.
fn told<T>(value: Result<T, String>) -> Option<T> {
    told_by(value, warn)
}

fn told_by<T>(value: Result<T, String>, warn: impl Fn(&str)) -> Option<T> {
    let wrong = |error: String| match error.split_once(": ") {
        Some((name, what)) => warn(&format!("{name} is left out: {what}")),
        None => warn(&error),
    };
    value.map_err(wrong).ok()
}

impl Settings {
    /// The text of `OMP_DISPLAY_ENV`.
    pub(crate) fn shown(&self, is_verbose: bool) -> String {
        let mut text = String::from("\nOPENMP DISPLAY ENVIRONMENT BEGIN\n  _OPENMP = '201511'\n");
        self.each(is_verbose, |name, value| {
            writeln!(text, "  [host] {name} = '{value}'").expect("a string grows");
        });
        text.push_str("OPENMP DISPLAY ENVIRONMENT END\n");
        text
    }

    /// The text of `KMP_SETTINGS`.
    fn effective(&self) -> String {
        let mut text = String::from("\nEffective settings:\n\n");
        self.each(true, |name, value| writeln!(text, "   {name}='{value}'").expect("a string grows"));
        text.push('\n');
        text
    }

    /// Calls `line` with the name and the value of each setting.
    fn each(&self, is_verbose: bool, mut line: impl FnMut(&str, String)) {
        let truth = |is_true: bool| if is_true { "TRUE" } else { "FALSE" }.to_owned();
        let list = |numbers: &[i32]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        line("OMP_DYNAMIC", truth(self.icv.is_dynamic));
        line("OMP_NESTED", truth(self.icv.max_active_levels > 1));
        line("OMP_NUM_THREADS", list(&self.threads_by_level));
        let Schedule { kind, is_monotonic, chunk } = self.icv.schedule;
        let name = match kind {
            Kind::Static => "STATIC",
            Kind::Dynamic | Kind::Returning => "DYNAMIC",
            Kind::Guided => "GUIDED",
            Kind::Auto => "AUTO",
        };
        let modifier = if is_monotonic { "MONOTONIC:" } else { "" };
        let chunk = if chunk > i32::from(kind != Kind::Static) { format!(",{chunk}") } else { String::new() };
        line("OMP_SCHEDULE", format!("{modifier}{name}{chunk}"));
        let bind = ["FALSE", "TRUE", "PRIMARY", "CLOSE", "SPREAD"][usize::from(self.icv.bind)];
        line("OMP_PROC_BIND", bind.to_owned());
        let all = if self.icv.bind == 0 { "" } else { "cores" };
        line("OMP_PLACES", self.binding.places.clone().unwrap_or_else(|| all.to_owned()));
        line("OMP_STACKSIZE", self.stack_bytes.map_or("0".to_owned(), |bytes| bytes.to_string()));
        line("OMP_WAIT_POLICY", if self.waiting.is_active == Some(true) { "ACTIVE" } else { "PASSIVE" }.to_owned());
        line("OMP_THREAD_LIMIT", self.icv.thread_limit.cast_unsigned().to_string());
        line("OMP_MAX_ACTIVE_LEVELS", self.icv.max_active_levels.to_string());
        line("OMP_NUM_TEAMS", self.teams.to_string());
        line("OMP_TEAMS_THREAD_LIMIT", self.teams_threads.to_string());
        line("OMP_CANCELLATION", truth(self.cancels));
        line("OMP_DEFAULT_DEVICE", self.icv.default_device.to_string());
        line("OMP_MAX_TASK_PRIORITY", self.most_priority.to_string());
        line("OMP_DISPLAY_AFFINITY", truth(self.binding.displays_affinity));
        line("OMP_AFFINITY_FORMAT", self.binding.affinity_format.clone());
        line("OMP_ALLOCATOR", self.memory.allocator.to_string());
        line("OMP_TARGET_OFFLOAD", ["DISABLED", "DEFAULT", "MANDATORY"][self.offload as usize].to_owned());
        if is_verbose {
            line("GOMP_SPINCOUNT", self.waiting.spins.to_string());
            let strategy = self.strategy.as_ref().map_or(vicus::DEFAULT.to_owned(), ToString::to_string);
            let binding = self.binding(crate::places::nodes().len(), &strategy);
            line("VICUS_STRATEGY", strategy);
            line("VICUS_BINDING", binding.to_owned());
        }
    }
}

impl Settings {
    /// Variables that are right and set nothing, because of others.
    fn idle(&self) -> impl Iterator<Item = &'static str> {
        let is_set = |name: &str| variable(name).is_some();
        // `placed_from` and `work_alone` are the usual ones where a wrong value was left out.
        let has_size = self.memory.placed_from != vicus::environment::PLACED_FROM;
        [
            (is_set("VICUS_DATA_DISTRIBUTION") && is_set("OMP_DATA_DISTRIBUTION"))
                .then_some("OMP_DATA_DISTRIBUTION does nothing: VICUS_DATA_DISTRIBUTION goes before it"),
            (has_size && self.memory.distribution.is_none()).then_some(
                "VICUS_DATA_DISTRIBUTION_FROM does nothing without a distribution of VICUS_DATA_DISTRIBUTION",
            ),
            (self.memory.next_touch && !crate::placed::has_malloc()).then_some(
                "VICUS_NEXT_TOUCH does nothing without libvicus_malloc.so before libvicus_omp.so (LD_PRELOAD)",
            ),
            (self.work_alone.is_some() && self.summary.is_none())
                .then_some("VICUS_SUMMARY_ALONE_MS does nothing without VICUS_SUMMARY"),
            (is_set("OMP_PLACES") && self.binding.says_binding && self.icv.bind == 0)
                .then_some("OMP_PLACES does nothing: the threads are not bound, as OMP_PROC_BIND says"),
            (is_set("GOMP_CPU_AFFINITY") && is_set("OMP_PLACES"))
                .then_some("GOMP_CPU_AFFINITY does nothing: OMP_PLACES goes before it"),
            (is_set("GOMP_CPU_AFFINITY") && !is_set("OMP_PLACES") && self.binding.says_binding && self.icv.bind == 0)
                .then_some("GOMP_CPU_AFFINITY does nothing: the threads are not bound, as OMP_PROC_BIND says"),
            self.binding
                .leaves_out_kmp_affinity
                .then_some("KMP_AFFINITY does nothing: OMP_PROC_BIND, OMP_PLACES and GOMP_CPU_AFFINITY go before it"),
        ]
        .into_iter()
        .flatten()
    }

    /// The binding of outermost teams on this number of nodes: by nodes (`bound.rs`), or none, if the strategy has no
    /// places or there is one node; or as the variables say that set one.
    fn binding(&self, nodes: usize, strategy: &str) -> &'static str {
        // Whether a strategy has places is the same for all machines with several nodes.
        let machine = vicus::Topology::parse("node:2 core:1").ok();
        let setting = strategy.parse::<Setting>().ok();
        let has_places = machine.zip(setting).is_some_and(|(machine, setting)| setting.plan(&machine, 2).has_places());
        match (self.binding.says_binding, nodes > 1 && has_places) {
            (true, _) => "AS OMP_PROC_BIND",
            (false, true) => "NODES",
            (false, false) => "NONE",
        }
    }
}

/// Applies settings from a program of clang as text: names with values, and a bar between two of them. Settings of a
/// task are the calling one's.
pub(crate) fn set(text: &str) {
    let icv = &mut crate::thread::here().task().icv;
    for (name, value) in text.split(['|', '\n']).filter_map(|one| one.split_once('=')) {
        match name.trim() {
            "OMP_TARGET_OFFLOAD" => OFFLOAD.store(offload(value).unwrap_or(1), Ordering::Relaxed),
            "OMP_NUM_THREADS" => icv.threads = numbers(value).map_or(icv.threads, |threads| threads[0]),
            "OMP_DYNAMIC" => icv.is_dynamic = truth(value).unwrap_or(icv.is_dynamic),
            "OMP_SCHEDULE" => icv.schedule = schedule(value).unwrap_or(icv.schedule),
            "OMP_MAX_ACTIVE_LEVELS" => icv.max_active_levels = number(value, 0).unwrap_or(icv.max_active_levels),
            _ => {}
        }
    }
}

/// The `OMP_TARGET_OFFLOAD` given to [`set`]; -1: none.
static OFFLOAD: AtomicI32 = AtomicI32::new(-1);

/// Whether target regions are to be on a device: 0 no, 1 if there is one, 2 yes.
pub(crate) fn target_offload() -> i32 {
    match OFFLOAD.load(Ordering::Relaxed) {
        -1 => get().offload,
        offload => offload,
    }
}
