//! The settings left to a program's user. They are values: doors read them from an environment, this crate does not.

use std::str::FromStr;
use vicus_memory::distribution::Distribution;
use vicus_os::LatencyFile;
use vicus_schedule::Setting;

/// Settings of a runtime not made by its program ([`RuntimeBuilder::defaults`](crate::RuntimeBuilder::defaults)).
///
/// `None` leaves the choice to this crate. An error holds the text about a user's wrong setting: a runtime in need of
/// this field leaves the choice to this crate, too, and has a warning beginning with this text
/// ([`MachineRuntime::warnings`](crate::MachineRuntime::warnings)).
///
/// The first runtime of a process installs its memory, with this runtime's defaults.
///
/// ```
/// use vicus_machine::{Defaults, MachineRuntime};
///
/// let steal = Defaults { strategy: Some(Ok("steal".parse()?)), ..Defaults::default() };
/// let builder = MachineRuntime::builder().threads(1).quiet().defaults(steal);
/// assert_eq!(builder.clone().start().plan().strategy, "steal");
/// assert_eq!(builder.clone().strategy("nls".parse()?).start().plan().strategy, "nls");
///
/// let wrong = Defaults { strategy: Some(Err("settings.txt:3: no strategy".to_owned())), ..Defaults::default() };
/// let runtime = builder.defaults(wrong).start();
/// assert_eq!(runtime.plan().strategy, "vicus");
/// assert!(runtime.warnings().contains(&"settings.txt:3: no strategy; it is vicus now".to_owned()));
/// # Ok::<(), vicus_schedule::SettingError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Defaults {
    /// The strategy; else [`vicus_schedule::DEFAULT`].
    pub strategy: Option<Result<Setting, String>>,
    /// The placement of memory without a distribution of its own; else [`Distribution::Standard`].
    pub distribution: Option<Result<Distribution, String>>,
    /// Whether an [`Allocator`](crate::Allocator) and the columns of envelopes take large blocks from the process's
    /// memory; else they do.
    pub allocator_places: Option<Result<bool, String>>,
    /// After how many milliseconds unused freed memory goes back to the system; else 10,000.
    pub decay_ms: Option<Result<u64, String>>,
    /// The reaction to lightweight threads waiting for one another; else [`OnDeadlock::Report`].
    pub deadlock: Option<Result<OnDeadlock, String>>,
    /// The file of measured latencies; else none: each runtime in need of latencies measures them.
    pub latencies: Option<LatencyFile>,
    /// Other faults of the user's settings: each runtime has them as warnings.
    pub warnings: Vec<String>,
}

/// The value of a valid setting. A wrong one adds a warning ending with `instead`: the runtime's substitute.
pub(crate) fn said<T: Clone>(said: &Option<Result<T, String>>, instead: &str, warnings: &mut Vec<String>) -> Option<T> {
    match said {
        None => None,
        Some(Ok(said)) => Some(said.clone()),
        Some(Err(wrong)) => {
            warnings.push(format!("{wrong}{instead}"));
            None
        }
    }
}

/// A runtime's reaction when its lightweight threads wait for full/empty bits and no running code could change these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDeadlock {
    /// Reports on standard error the waiting threads and their words.
    #[default]
    Report,
    /// Reports, and unwinds these threads: their joiners get a `Deadlock` (worlds/threads). For programs in
    /// which no thread of the system fills or empties words. Code waiting on the own stack of a thread of the system
    /// goes on waiting.
    Unwind,
    /// Reports, and aborts the process. Like `Unwind`, for programs in which no thread of the system fills or empties
    /// words; if such a thread has already ended a wait, it reports once, and ends nothing.
    Abort,
    /// Nothing.
    Ignore,
}

impl FromStr for OnDeadlock {
    type Err = String;

    /// `report`, `unwind`, `abort` or `ignore`.
    fn from_str(text: &str) -> Result<OnDeadlock, String> {
        match text {
            "report" => Ok(OnDeadlock::Report),
            "unwind" => Ok(OnDeadlock::Unwind),
            "abort" => Ok(OnDeadlock::Abort),
            "ignore" => Ok(OnDeadlock::Ignore),
            other => Err(format!("there is no `{other}`, only `report`, the default, `unwind`, `abort` and `ignore`")),
        }
    }
}
