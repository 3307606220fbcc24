//! Tasks dealt by their data and tasks exempted, by their functions, from the file of `VICUS_LEARNED`.

use crate::process::Once;
use crate::report::symbols::Symbols;
use crate::settings::warn;
use crate::wait::Guarded;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vicus::kit::Treatment;
use vicus::tasks::Access;

/// The treatment of each function by a file.
struct Treatments {
    file: PathBuf,
    tasks: BTreeMap<String, Treatment>,
}

/// The functions looked at so far.
static SEEN: Guarded<BTreeMap<usize, Treatment>> = Guarded::new(BTreeMap::new());

/// All functions again, for a look without a lock.
static KNOWN: TreatmentTable = TreatmentTable::new();

/// How many words a table has, and how many of them are looked at for one function.
const WORDS: usize = 512;
const LOOKS: usize = 8;

/// The treatment of tasks by the addresses of their functions. Each task that names data looks here, on all threads
/// at once, and each of a program's few functions is put in once: so a look is a load of a word or two that no thread
/// writes any more. A word has an address and a treatment, of which a reader sees both or none. A word that was written
/// stays, and a function for which there is no room is not put in.
struct TreatmentTable {
    words: [AtomicU64; WORDS],
}

impl TreatmentTable {
    const fn new() -> TreatmentTable {
        TreatmentTable { words: [const { AtomicU64::new(0) }; WORDS] }
    }

    /// The words of a function, in the order in which they are used.
    fn words_of(&self, function: usize) -> impl Iterator<Item = &AtomicU64> {
        // Functions begin at multiples of 16, and differ in the next bits.
        let first = (function >> 4) ^ (function >> 13);
        (first..first + LOOKS).map(|at| &self.words[at % WORDS])
    }

    #[inline]
    fn get(&self, function: usize) -> Option<Treatment> {
        for word in self.words_of(function) {
            let word = word.load(Ordering::Relaxed);
            if word == 0 {
                return None;
            }
            if word >> TREATMENT_BITS == function as u64 {
                return Some(Treatment::ALL[(word & 3) as usize - 1]);
            }
        }
        None
    }

    /// Two threads may put in one function at once: a look finds the first entry.
    fn put(&self, function: usize, treatment: Treatment) {
        let number = Treatment::ALL.iter().position(|own| *own == treatment).map_or(0, |at| at as u64 + 1);
        let new = (function as u64) << TREATMENT_BITS | number;
        if new >> TREATMENT_BITS != function as u64 {
            return;
        }
        for word in self.words_of(function) {
            match word.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(there) if there == new => return,
                Err(_) => {}
            }
        }
    }
}

/// The lower bits of a word: the number of a treatment among all, counted from 1.
const TREATMENT_BITS: u32 = 2;

/// How many tasks were not dealt, and how many by one datum: for the summary.
static TREATED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

fn said() -> Option<&'static Treatments> {
    static SAID: Once<Option<Treatments>> = Once::new();
    let read = || vicus::environment::learned_tasks().map(|(file, tasks)| Treatments { file, tasks });
    SAID.get_or(read).as_ref()
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

#[inline]
fn treatment(said: &Treatments, function: usize) -> Treatment {
    KNOWN.get(function).unwrap_or_else(|| look_up(said, function))
}

/// Looks for a function among those of the file, by its name.
#[cold]
fn look_up(said: &Treatments, function: usize) -> Treatment {
    let Treatments { file, tasks } = said;
    let _errno = crate::wait::KeepErrno::new();
    let treatment = SEEN.with(|seen| {
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
    });
    KNOWN.put(function, treatment);
    treatment
}

/// The summary's line of the file, if there is one.
pub(crate) fn told() -> Option<String> {
    let Treatments { file, .. } = said()?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn functions_are_known_as_they_were_put_in() {
        let known = TreatmentTable::new();
        // Those of one word, of neighbouring words, and of addresses of all lengths.
        let functions: Vec<usize> = [0x40_1000, 0x5555_5555_5000, 0x7fff_ffff_f010, 16]
            .into_iter()
            .flat_map(|first| (0..6).map(move |at| first + at * 16))
            .chain((0..4).map(|at| (WORDS << 4) * at))
            .filter(|&function| function != 0)
            .collect();
        for (at, &function) in functions.iter().enumerate() {
            assert_eq!(known.get(function), None, "{function:#x}");
            known.put(function, Treatment::ALL[at % 3]);
            known.put(function, Treatment::ALL[at % 3]);
        }
        for (at, &function) in functions.iter().enumerate() {
            assert_eq!(known.get(function), Some(Treatment::ALL[at % 3]), "{function:#x}");
        }
        assert_eq!(known.words.iter().filter(|word| word.load(Ordering::Relaxed) != 0).count(), functions.len());
    }

    /// A program of more functions than there is room for: the others are looked up under the lock, as before.
    #[test]
    fn functions_without_room_are_unknown() {
        let known = TreatmentTable::new();
        let all = (1..=4 * WORDS).map(|at| at * 16);
        all.clone().for_each(|function| known.put(function, Treatment::Intense));
        let found = all.filter(|&function| known.get(function) == Some(Treatment::Intense)).count();
        assert_eq!(found, WORDS);
        assert_eq!(known.get(usize::MAX - 15), None, "an address with the highest bits");
        known.put(usize::MAX - 15, Treatment::Undealt);
        assert_eq!(known.get(usize::MAX - 15), None);
    }

    #[test]
    fn threads_that_put_in_at_once_agree() {
        for round in 0..100 {
            let (known, begin) = (TreatmentTable::new(), Barrier::new(4));
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let (known, begin) = (&known, &begin);
                    scope.spawn(move || {
                        begin.wait();
                        for at in 0..32 {
                            let at = (at + thread * 8) % 32;
                            known.put((round + at * 3) * 16 + 16, Treatment::ALL[at % 3]);
                        }
                    });
                }
            });
            for at in 0..32 {
                assert_eq!(known.get((round + at * 3) * 16 + 16), Some(Treatment::ALL[at % 3]), "round {round}");
            }
        }
    }
}
