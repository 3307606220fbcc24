//! Tasks that use the first item of their `depend` clause intensely: the file named by `VICUS_INTENSE` lists their
//! functions.
//!
//! A strategy may deal a task by the home of such a datum alone (Muddukrishna et al., algorithm 3); OpenMP has no
//! clause for it. clang passes `affinity` clauses, and their first item counts as intensely used; gcc 12 leaves them
//! out of its code.

use crate::process::Once;
use crate::report::symbols::Symbols;
use crate::settings::{complain, warn};
use crate::wait::Guarded;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use vicus::tasks::Access;

/// The listed functions: names as in the summary, and distances from the start of the mapped file, with `0x` before
/// them.
#[derive(Debug, Default, PartialEq)]
struct Listed {
    names: BTreeSet<String>,
    distances: BTreeSet<u64>,
}

/// The functions looked at so far, and whether they are listed.
static SEEN: Guarded<BTreeMap<usize, bool>> = Guarded::new(BTreeMap::new());

/// Reads the file early, so the user hears of a wrong one even if no task is dealt by its data.
pub(crate) fn begin() {
    let _ = listed();
}

fn listed() -> Option<&'static Listed> {
    static LISTED: Once<Option<Listed>> = Once::new();
    LISTED
        .get_or(|| {
            let file = vicus::environment::intense()?;
            let wrong = |error: &str| warn(&format!("VICUS_INTENSE={} is left out: {error}", file.display()));
            let text = fs::read_to_string(&file).map_err(|error| wrong(&error.to_string())).ok()?;
            parse(&text).map_err(|error| wrong(&error)).ok()
        })
        .as_ref()
}

/// A function in each line. The rest of a line after `#` is a comment.
fn parse(text: &str) -> Result<Listed, String> {
    let mut listed = Listed::default();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        match line.strip_prefix("0x") {
            _ if line.is_empty() => {}
            None => _ = listed.names.insert(line.to_owned()),
            Some(digits) => match u64::from_str_radix(digits, 16) {
                Ok(distance) => _ = listed.distances.insert(distance),
                Err(_) => return Err(format!("line {}: `{line}` is no number", number + 1)),
            },
        }
    }
    Ok(listed)
}

/// Marks the first of a task's data, if the task's function is listed.
#[inline]
pub(crate) fn mark(function: usize, data: &mut [Access]) {
    if let Some(listed) = listed()
        && let Some(first) = data.first_mut()
        && is_listed(listed, function)
    {
        first.intense = true;
    }
}

fn is_listed(listed: &Listed, function: usize) -> bool {
    let _errno = crate::wait::KeepErrno::new();
    SEEN.with(|seen| {
        *seen.entry(function).or_insert_with(|| {
            let symbols = Symbols::new();
            listed.names.contains(&symbols.of(function))
                || distance(function).is_some_and(|distance| listed.distances.contains(&distance))
        })
    })
}

/// The offset of an address from the start of its mapped file.
fn distance(address: usize) -> Option<u64> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: rule "System": the loader reads no memory at the address, and fills the structure if it finds an object
    // there.
    unsafe {
        let found = libc::dladdr(ptr::without_provenance(address), info.as_mut_ptr()) != 0;
        found.then(|| address as u64 - info.assume_init().dli_fbase.addr() as u64)
    }
}

/// Says once, if a file is named, that a team's strategy asks for no intensity.
pub(crate) fn tell_of_idle(plan: &vicus::Plan) {
    static SAID: AtomicBool = AtomicBool::new(false);
    let asks = plan.dealing().is_some_and(|dealing| dealing.intensity_first && dealing.queues.len() > 1);
    if !asks && listed().is_some() && !SAID.swap(true, Ordering::Relaxed) {
        let strategy = &plan.strategy;
        complain(&format!(
            "VICUS_INTENSE does nothing: strategy {strategy} deals no tasks by one of their data on these processors"
        ));
    }
}

/// In a forked child.
pub(crate) fn begin_anew() {
    SEEN.begin_anew();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_function_or_says_where_it_is() {
        let listed = parse("# tasks\n main._omp_fn.1 # the second one\n\n0x1f40\nblock::multiply(double*)\n").unwrap();
        assert_eq!(listed.names, ["block::multiply(double*)", "main._omp_fn.1"].map(str::to_owned).into());
        assert_eq!(listed.distances, [0x1f40].into());
        assert_eq!(parse("a\n0xzz"), Err("line 2: `0xzz` is no number".to_owned()));
    }
}
