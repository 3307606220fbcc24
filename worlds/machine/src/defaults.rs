//! The settings that a program leaves to its user. They are values: doors read them from an environment, this crate does not.

use crate::threads::OnDeadlock;
use vicus_memory::distribution::Distribution;
use vicus_os::LatencyFile;
use vicus_schedule::Setting;

/// Settings of a runtime that its program does not make ([`RuntimeBuilder::defaults`](crate::RuntimeBuilder::defaults)).
///
/// A field that is `None` leaves the choice to this crate. A field that is an error has the text of what is wrong with a user's setting:
/// a runtime that needs this field leaves the choice to this crate, too, and has a warning that begins with the text
/// ([`Runtime::warnings`](crate::Runtime::warnings)).
///
/// The memory of a process is installed by its first runtime, with the defaults of that one.
///
/// ```
/// use vicus_machine::{Defaults, Runtime};
///
/// let steal = Defaults { strategy: Some(Ok("steal".parse()?)), ..Defaults::default() };
/// let builder = Runtime::builder().threads(1).quiet().defaults(steal);
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
    /// How memory lies that is asked for without a distribution; else [`Distribution::Standard`].
    pub distribution: Option<Result<Distribution, String>>,
    /// Whether an [`Allocator`](crate::Allocator) and the columns of envelopes take large blocks from the process's memory; else they do.
    pub allocator_places: Option<Result<bool, String>>,
    /// After how many milliseconds freed memory that is not used again goes back to the system; else 10,000.
    pub decay_ms: Option<Result<u64, String>>,
    /// What is done when lightweight threads wait for one another; else [`OnDeadlock::Report`].
    pub deadlock: Option<Result<OnDeadlock, String>>,
    /// Where measured latencies are kept; else nowhere: each runtime that needs them measures them.
    pub latencies: Option<LatencyFile>,
}

/// The value of a setting, if it has a good one. A wrong one adds a warning, which ends with `instead`: what the runtime does then.
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
