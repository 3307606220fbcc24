//! Tasks dealt by their data and tasks exempted, by their functions, from the file of `VICUS_LEARNED`.

use crate::report::symbols::Symbols;
use crate::settings::warn;
use crate::wait::Guarded;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vicus::Treatment;
use vicus::tasks::Access;

/// The file, and its treatment of each function.
type Said = (PathBuf, BTreeMap<String, Treatment>);

/// The functions looked at so far.
static SEEN: Guarded<BTreeMap<usize, Treatment>> = Guarded::new(BTreeMap::new());

/// How many tasks were not dealt, and how many by one datum: for the summary.
static TREATED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

fn said() -> Option<&'static Said> {
    static SAID: OnceLock<Option<Said>> = OnceLock::new();
    SAID.get_or_init(vicus::environment::learned_tasks).as_ref()
}

/// Whether a task with these data is dealt by them. The first one is marked if it alone decides.
#[inline]
pub(crate) fn deals(function: impl FnOnce() -> usize, data: &mut [Access]) -> bool {
    let Some(said) = said() else { return true };
    let treatment = treatment(said, function());
    if let (Treatment::Intense, Some(first)) = (treatment, data.first_mut()) {
        first.intense = true;
    }
    if treatment != Treatment::Dealt && crate::report::is_on() {
        TREATED[usize::from(treatment == Treatment::Intense)].fetch_add(1, Ordering::Relaxed);
    }
    treatment != Treatment::Undealt
}

fn treatment((file, tasks): &Said, function: usize) -> Treatment {
    let _errno = crate::wait::KeepErrno::new();
    SEEN.with(|seen| {
        *seen.entry(function).or_insert_with(|| {
            let name = Symbols::new().of(function);
            tasks.get(&name).copied().unwrap_or_else(|| {
                static TOLD: AtomicBool = AtomicBool::new(false);
                if !TOLD.swap(true, Ordering::Relaxed) {
                    warn(&format!(
                        "VICUS_LEARNED: {} says nothing of tasks of `{name}`: it was learned from other runs or \
                         another program, or the program has changed since; record and learn again",
                        file.display()
                    ));
                }
                Treatment::Dealt
            })
        })
    })
}

/// The summary's line of the file, if there is one.
pub(crate) fn told() -> Option<String> {
    let (file, _) = said()?;
    let [undealt, intense] = [0, 1].map(|at| TREATED[at].load(Ordering::Relaxed));
    Some(format!(
        "by {}: {undealt} tasks not dealt by their data, {intense} by the first of these alone",
        file.display()
    ))
}

/// In a forked child.
pub(crate) fn begin_anew() {
    SEEN.begin_anew();
}
