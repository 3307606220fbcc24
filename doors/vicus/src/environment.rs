//! The variables of the environment, by which users choose settings that a program does not make. No other file of
//! Vicus reads them.
//!
//! | variable | what it says | else |
//! |---|---|---|
//! | `VICUS_STRATEGY` | the strategy, such as `footprint:backoff_ns=500` | `vicus`; of queries `las` |
//! | `VICUS_LEARNED` | the file that `vicus learn` wrote about a program: its strategy, and how its memory lies, where these are not named; and how tasks of an OpenMP program's single functions are dealt | none |
//! | `VICUS_DATA_DISTRIBUTION`, or the paper's `OMP_DATA_DISTRIBUTION` | [how memory lies](crate::memory) | `standard` |
//! | `VICUS_DATA_DISTRIBUTION_OF` | how an OpenMP program's blocks of certain sizes lie: `BYTES=DISTRIBUTION`, with semicolons between several | as all others |
//! | `VICUS_DATA_DISTRIBUTION_FROM` | from how many bytes on the blocks of an OpenMP program's `malloc` lie so | 131072 |
//! | `VICUS_NEXT_TOUCH` | `1`: an OpenMP program's large blocks of `malloc` move to the first tasks naming them | not |
//! | `VICUS_ALLOCATOR` | `vicus`, or `system` to leave all vectors and columns to the system's allocator | `vicus` |
//! | `VICUS_DECAY_MS` | after how many milliseconds freed memory goes back to the system if it is not used again | 10000 |
//! | `VICUS_LATENCY_FILE` | the file in which `vicinity` keeps the latencies that it measures | one for each machine in `$XDG_CACHE_HOME/vicus`, or `~/.cache/vicus` |
//! | `VICUS_SUMMARY` | `1`: an OpenMP program tells on standard error at its end what its time was spent on; or the file that has it then | nothing |
//! | `VICUS_SUMMARY_ALONE_MS` | how long its regions and tasks work with one thread, for the work inflation in that summary | unknown |
//! | `VICUS_TRACE` | the file to which a program of OpenMP or Qthreads writes its trace at its end | none |
//! | `VICUS_TRACE_EVENTS` | how many events of each thread that trace has room for, 32 bytes each | 1048576 |
//! | `VICUS_TRACE_ROLLING` | `1`: that trace keeps the last events in place of the first ones, and sums of those before | not |
//! | `VICUS_TRACE_LAST_MS` | the milliseconds before the end whose events that trace keeps, and sums of the time before | all of the time |
//! | `VICUS_CHECK` | `1`: an OpenMP program is told of tasks that depend on freed memory, and of locks that are unset by others; a Qthreads program where the threads of a deadlock wait | not |
//! | `VICUS_INTENSE` | the file that lists, line by line, functions of an OpenMP program's tasks that use the first item of their `depend` clause intensely | none |
//! | `VICUS_DEADLOCK` | what is done when lightweight threads wait for one another: `report`, `unwind`, `abort` or `ignore` ([`OnDeadlock`]) | `report` |
//! | `VICUS_HASH_SEED` | the key of the hashes of terms and rows, of `vicus query`; the same number gives the same tables | a random number |
//!
//! An empty variable counts as unset. [`Runtime::builder`](crate::Runtime::builder) reads all but the last one and
//! those of OpenMP programs; the program's own settings in the builder override them. A wrong value is a warning of the
//! runtimes that need it ([`Runtime::warnings`](crate::Runtime#method.warnings)). `VICUS_HASH_SEED` is for programs
//! that load data: they call [`hash_seed`]. Another variable with nearly such a name is a warning as well.
//!
//! Functions of other doors, which read one variable each, are left out of this page.

use crate::kit::TraceRoom;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;
pub use vicus_machine::Defaults;
use vicus_machine::{LatencyFile, Learned, OnDeadlock, Treatment};
use vicus_memory::distribution::Distribution;
use vicus_schedule::{Setting, Settings};
use vicus_topology::names;

/// The environment's settings of a runtime.
///
/// ```
/// use vicus::Runtime;
/// use vicus::environment::{self, Defaults};
///
/// // As every builder begins, but for one setting.
/// let defaults = Defaults { decay_ms: Some(Ok(500)), ..environment::defaults() };
/// let runtime = Runtime::builder().defaults(defaults).start();
/// # drop(runtime);
/// ```
pub fn defaults() -> Defaults {
    Defaults {
        strategy: strategy(),
        distribution: distribution(),
        allocator_places: allocator_places(),
        decay_ms: decay_ms(),
        deadlock: deadlock(),
        latencies: latencies(),
        warnings: misspelt(),
    }
}

/// The variables of Vicus. A test holds them against the table above and the reference.
const NAMES: [&str; 22] = [
    STRATEGY,
    LEARNED,
    "VICUS_DATA_DISTRIBUTION",
    "VICUS_DATA_DISTRIBUTION_OF",
    "VICUS_DATA_DISTRIBUTION_FROM",
    "VICUS_NEXT_TOUCH",
    "VICUS_ALLOCATOR",
    "VICUS_DECAY_MS",
    "VICUS_LATENCY_FILE",
    "VICUS_SUMMARY",
    "VICUS_SUMMARY_ALONE_MS",
    "VICUS_TRACE",
    "VICUS_TRACE_EVENTS",
    "VICUS_TRACE_ROLLING",
    "VICUS_TRACE_LAST_MS",
    "VICUS_CHECK",
    "VICUS_INTENSE",
    "VICUS_DEADLOCK",
    "VICUS_HASH_SEED",
    "VICUS_TOKEN",
    "VICUS_READ_TOKEN",
    "VICUS_NODE_TOKEN",
];

/// A line for each variable that is set and named nearly as one of Vicus. Names far from all of these are other
/// programs' own, such as a cluster's `VICUS_ROOT`.
#[doc(hidden)]
#[doc(hidden)]
pub fn misspelt() -> Vec<String> {
    const PREFIX: &str = "VICUS_";
    let all = std::env::vars_os().filter(|(_, value)| !value.is_empty());
    let set = all.filter_map(|(name, _)| name.into_string().ok()).filter(|name| !NAMES.contains(&&**name));
    let mut lines: Vec<String> = set
        .filter_map(|name| {
            // Without what all begin with: it would make any of them similar.
            let own = name.strip_prefix(PREFIX)?;
            let close = names::similar_names(own, NAMES.map(|known| (&known[PREFIX.len()..], known.to_owned())));
            (!close.is_empty()).then(|| format!("{name} does nothing{}", names::suggestion(&close)))
        })
        .collect();
    lines.sort();
    lines
}

/// The strategy of `VICUS_STRATEGY`, else the one in the file of `VICUS_LEARNED`; or the fault in them.
#[doc(hidden)]
#[doc(hidden)]
pub fn strategy() -> Option<Result<Setting, String>> {
    parsed(STRATEGY).or_else(|| Some(learned()?.map(|learned| learned.setting)))
}

/// The strategies of `VICUS_STRATEGY`, for a program that compares several.
#[doc(hidden)]
#[doc(hidden)]
pub fn strategies() -> Option<Result<Settings, String>> {
    parsed(STRATEGY)
}

/// The file is read once: each runtime of the process has the same.
fn learned() -> Option<Result<Learned, String>> {
    static READ: OnceLock<Result<Learned, String>> = OnceLock::new();
    let file = variable(LEARNED).map(PathBuf::from)?;
    let read =
        || Learned::read(&file, &vicus_machine::this_machine().topology).map_err(|wrong| format!("{LEARNED}: {wrong}"));
    Some(READ.get_or_init(read).clone())
}

const LEARNED: &str = "VICUS_LEARNED";
const STRATEGY: &str = "VICUS_STRATEGY";

/// The number of `VICUS_HASH_SEED`, or the fault in its value.
pub fn hash_seed() -> Option<Result<u64, String>> {
    let seed = text("VICUS_HASH_SEED")?.parse();
    Some(seed.map_err(|_| "VICUS_HASH_SEED: expected a whole number from 0 to 18446744073709551615".to_owned()))
}

/// The distribution of `VICUS_DATA_DISTRIBUTION`, or `OMP_DATA_DISTRIBUTION`, else the one in the file of
/// `VICUS_LEARNED`; or the fault in them.
#[doc(hidden)]
#[doc(hidden)]
pub fn distribution() -> Option<Result<Distribution, String>> {
    let named = parsed("VICUS_DATA_DISTRIBUTION").or_else(|| parsed("OMP_DATA_DISTRIBUTION"));
    named.or_else(|| match learned()? {
        Ok(learned) => learned.distribution.map(Ok),
        // Without a named strategy, [`strategy`] reports the fault in the file.
        Err(wrong) => text(STRATEGY).map(|_| Err(wrong)),
    })
}

/// The treatments of tasks, by the symbols of their functions, and the file of `VICUS_LEARNED` with them; `None` if it
/// has none. [`strategy`] or [`distribution`] report a fault in the file.
#[doc(hidden)]
#[doc(hidden)]
pub fn learned_tasks() -> Option<(PathBuf, BTreeMap<String, Treatment>)> {
    let file = variable(LEARNED).map(PathBuf::from)?;
    let tasks = learned()?.ok()?.tasks;
    (!tasks.is_empty()).then_some((file, tasks))
}

/// The distributions of `VICUS_DATA_DISTRIBUTION_OF` for blocks of certain sizes, else the ones in the file of
/// `VICUS_LEARNED`, if no variable sets a distribution; or the fault in its value.
#[doc(hidden)]
#[doc(hidden)]
pub fn distributions_of() -> Option<Result<Vec<(usize, Distribution)>, String>> {
    const NAME: &str = "VICUS_DATA_DISTRIBUTION_OF";
    let one = |text: &str| {
        let (bytes, distribution) = text.split_once('=')?;
        Some((bytes.trim().parse().ok()?, distribution.parse::<Distribution>()))
    };
    let Some(all) = text(NAME) else {
        let is_named = ["VICUS_DATA_DISTRIBUTION", "OMP_DATA_DISTRIBUTION"].iter().any(|name| text(name).is_some());
        let blocks = learned()?.ok()?.blocks;
        return (!is_named && !blocks.is_empty()).then_some(Ok(blocks));
    };
    let all = all.split(';').map(|text| match one(text) {
        Some((bytes, Ok(distribution))) => Ok((bytes, distribution)),
        Some((_, Err(wrong))) => Err(format!("{NAME}: {wrong}")),
        None => Err(format!("{NAME}: `{text}`: expected BYTES=DISTRIBUTION, as in 134217728=tiles:32768,512,4096")),
    });
    Some(all.collect())
}

/// The default of [`placed_from`]: below this, glibc keeps blocks together that a program has freed and takes again.
#[doc(hidden)]
#[doc(hidden)]
pub const PLACED_FROM: usize = 128 << 10;

/// The bytes of `VICUS_DATA_DISTRIBUTION_FROM`, or the fault in its value.
#[doc(hidden)]
#[doc(hidden)]
pub fn placed_from() -> Option<Result<usize, String>> {
    let from = text("VICUS_DATA_DISTRIBUTION_FROM")?.parse().ok().filter(|&from| from >= 4096);
    Some(
        from.ok_or_else(|| {
            "VICUS_DATA_DISTRIBUTION_FROM: expected a number of bytes, at least 4096, a page".to_owned()
        }),
    )
}

/// The file of `VICUS_SUMMARY` for a summary, or `1` for standard error; `None` also if it is `0`.
#[doc(hidden)]
#[doc(hidden)]
pub fn summary() -> Option<OsString> {
    variable("VICUS_SUMMARY").filter(|value| value != "0")
}

/// The milliseconds of `VICUS_SUMMARY_ALONE_MS`, or the fault in its value.
#[doc(hidden)]
#[doc(hidden)]
pub fn summary_alone() -> Option<Result<Duration, String>> {
    let ms = text("VICUS_SUMMARY_ALONE_MS")?.parse().ok();
    let time = ms.and_then(|ms: f64| Duration::try_from_secs_f64(ms / 1e3).ok());
    Some(time.ok_or_else(|| "VICUS_SUMMARY_ALONE_MS: expected a number of milliseconds".to_owned()))
}

/// The file of `VICUS_TRACE` for a trace.
#[doc(hidden)]
#[doc(hidden)]
pub fn trace() -> Option<PathBuf> {
    variable("VICUS_TRACE").map(PathBuf::from)
}

/// The room of a trace by `VICUS_TRACE_EVENTS`, `VICUS_TRACE_ROLLING` and `VICUS_TRACE_LAST_MS`; the faults in their
/// values are told.
#[doc(hidden)]
#[doc(hidden)]
pub fn trace_room(mut tell: impl FnMut(String)) -> TraceRoom {
    let number = |name| text(name).map(|text| text.parse::<u64>().ok().filter(|number| *number > 0));
    let mut room = TraceRoom::default();
    match number("VICUS_TRACE_EVENTS") {
        Some(Some(events)) => room.events = usize::try_from(events).unwrap_or(usize::MAX),
        Some(None) => tell("VICUS_TRACE_EVENTS: expected a number of events, at least 1".to_owned()),
        None => {}
    }
    match switch("VICUS_TRACE_ROLLING") {
        Some(Ok(rolls)) => room.rolls = rolls,
        Some(Err(wrong)) => tell(wrong),
        None => {}
    }
    match number("VICUS_TRACE_LAST_MS") {
        Some(Some(ms)) => room.last = Some(Duration::from_millis(ms)),
        Some(None) => tell("VICUS_TRACE_LAST_MS: expected a number of milliseconds, at least 1".to_owned()),
        None => {}
    }
    room
}

/// Whether `VICUS_CHECK` asks for checks, or the fault in its value.
#[doc(hidden)]
#[doc(hidden)]
pub fn checks() -> Option<Result<bool, String>> {
    switch("VICUS_CHECK")
}

/// Whether `VICUS_NEXT_TOUCH` asks for memory that moves, or the fault in its value.
#[doc(hidden)]
#[doc(hidden)]
pub fn next_touch() -> Option<Result<bool, String>> {
    switch("VICUS_NEXT_TOUCH")
}

/// A variable that is 1 or 0.
fn switch(name: &str) -> Option<Result<bool, String>> {
    Some(match &*text(name)? {
        "1" => Ok(true),
        "0" => Ok(false),
        _ => Err(format!("{name}: expected 1 or 0")),
    })
}

/// The file of functions of `VICUS_INTENSE`.
#[doc(hidden)]
#[doc(hidden)]
pub fn intense() -> Option<PathBuf> {
    variable("VICUS_INTENSE").map(PathBuf::from)
}

fn allocator_places() -> Option<Result<bool, String>> {
    Some(match &*text("VICUS_ALLOCATOR")? {
        "vicus" => Ok(true),
        "system" => Ok(false),
        other => Err(format!("VICUS_ALLOCATOR: there is no `{other}`, only `vicus`, the default, and `system`")),
    })
}

fn deadlock() -> Option<Result<OnDeadlock, String>> {
    parsed("VICUS_DEADLOCK")
}

fn decay_ms() -> Option<Result<u64, String>> {
    let decay_ms = text("VICUS_DECAY_MS")?.parse();
    Some(decay_ms.map_err(|_| "VICUS_DECAY_MS: expected a number of milliseconds".to_owned()))
}

fn latencies() -> Option<LatencyFile> {
    let path = |name| variable(name).map(PathBuf::from);
    if let Some(file) = path("VICUS_LATENCY_FILE") {
        return Some(LatencyFile::At(file));
    }
    let cache = path("XDG_CACHE_HOME").or_else(|| Some(path("HOME")?.join(".cache")))?;
    Some(LatencyFile::In(cache.join("vicus")))
}

fn parsed<T: FromStr<Err: Display>>(name: &str) -> Option<Result<T, String>> {
    Some(text(name)?.parse().map_err(|wrong| format!("{name}: {wrong}")))
}

fn text(name: &str) -> Option<String> {
    variable(name).map(|value| value.to_string_lossy().into_owned())
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The variables that begin the rows of a page's tables.
    fn named(page: &str) -> BTreeSet<&str> {
        let cells = page.lines().filter_map(|line| line.trim_start_matches("//! ").strip_prefix("| `VICUS_"));
        cells.map(|rest| rest.split('`').next().unwrap()).collect()
    }

    #[test]
    fn misspelt_names_are_looked_for_among_all_that_are_documented() {
        let known: BTreeSet<&str> = NAMES.iter().map(|name| &name["VICUS_".len()..]).collect();
        assert_eq!(known.len(), NAMES.len());
        assert_eq!(named(include_str!("../../../docs/reference/environment.md")), known);
        let of_the_server = BTreeSet::from(["TOKEN", "READ_TOKEN", "NODE_TOKEN"]);
        assert_eq!(named(include_str!("environment.rs")), &known - &of_the_server);
    }
}
