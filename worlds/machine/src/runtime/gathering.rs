//! The meeting point of a team's members.

use crate::runtime::awaited::Awaited;
use crate::sync::{AtomicU64, Ordering, Padded};

/// The meeting point of a team's members.
pub struct Gathering {
    /// The number of past gatherings, a bit for a sleeping member, and the number of members that have come.
    state: Padded<AtomicU64>,
    /// How many members there are.
    members: u64,
}

const ASLEEP: u64 = 1 << 31;
const TIMES: u64 = 1 << 32;
const COME: u64 = ASLEEP - 1;

/// A member's arrival at the meeting point.
pub enum Arrival {
    /// All others have come before.
    Last {
        /// Whether some of them sleep.
        is_awaited: bool,
    },
    /// Others have yet to come.
    Early(GatheringEnd),
}

/// The end awaited by members that came early.
pub struct GatheringEnd {
    state: *const AtomicU64,
    times: u64,
}

impl Gathering {
    /// A gathering of this number of members.
    pub(crate) fn new(members: usize) -> Gathering {
        Gathering { state: Padded(AtomicU64::new(0)), members: members as u64 }
    }

    /// A member comes.
    pub fn come(&self) -> Arrival {
        // Release: the last one sees the work of all. Acquire: and they see its work, by `is_done`.
        let before = self.state.0.fetch_add(1, Ordering::AcqRel);
        let times = before / TIMES;
        if (before & COME) + 1 < self.members {
            return Arrival::Early(GatheringEnd { state: &raw const self.state.0, times });
        }
        // Nobody comes again before it is over.
        let before = self.state.0.swap((times + 1).wrapping_mul(TIMES), Ordering::AcqRel);
        Arrival::Last { is_awaited: before & ASLEEP != 0 }
    }
}

impl GatheringEnd {
    fn state(&self) -> &AtomicU64 {
        #[expect(unsafe_code, reason = "follows a pointer")]
        // SAFETY: it is the team's, and the waiting thread has a seat in the team.
        unsafe {
            &*self.state
        }
    }
}

impl Awaited for GatheringEnd {
    #[inline]
    fn is_done(&self) -> bool {
        self.state().load(Ordering::Acquire) / TIMES != self.times
    }

    fn announce_sleep(&self) -> bool {
        // In vain after the end: then the next gathering's last one notifies once too often.
        self.state().fetch_or(ASLEEP, Ordering::AcqRel) / TIMES == self.times
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    /// The work done by each member, and how often all were notified.
    struct Model {
        gathering: Gathering,
        done: Vec<UnsafeCell<u32>>,
        notified: Mutex<u64>,
        woken: Condvar,
    }

    #[expect(unsafe_code, reason = "the cells are what the model is about")]
    // SAFETY: loom tells if two threads use a cell at once.
    unsafe impl Sync for Model {}

    impl Model {
        /// Like [`gather`], with a sleep that ends when all are notified.
        fn gather(&self, notified: &mut u64) {
            match self.gathering.come() {
                Arrival::Last { is_awaited: false } => {}
                Arrival::Last { is_awaited: true } => {
                    *self.notified.lock().unwrap() += 1;
                    self.woken.notify_all();
                }
                Arrival::Early(gathered) => {
                    while !gathered.is_done() && gathered.announce_sleep() {
                        let mut times = self.notified.lock().unwrap();
                        while *times == *notified {
                            times = self.woken.wait(times).unwrap();
                        }
                        *notified = *times;
                    }
                    assert!(gathered.is_done());
                }
            }
        }

        #[expect(unsafe_code, reason = "loom's cells")]
        fn member(&self, number: usize, times: u32) {
            let mut notified = 0;
            for time in 1..=times {
                // SAFETY: as for `Sync`.
                self.done[number].with_mut(|cell| unsafe { *cell = time });
                self.gather(&mut notified);
                for cell in &self.done {
                    // SAFETY: as for `Sync`.
                    assert_eq!(cell.with(|cell| unsafe { *cell }), time, "it sees what each did before it came");
                }
                // Nobody does more before all have seen it.
                self.gather(&mut notified);
            }
        }
    }

    fn check(members: usize, times: u32, preemptions: usize) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(move || {
            let model = Arc::new(Model {
                gathering: Gathering::new(members),
                done: (0..members).map(|_| UnsafeCell::new(0)).collect(),
                notified: Mutex::new(0),
                woken: Condvar::new(),
            });
            let others: Vec<_> = (1..members)
                .map(|number| {
                    let model = Arc::clone(&model);
                    thread::spawn(move || model.member(number, times))
                })
                .collect();
            model.member(0, times);
            others.into_iter().for_each(|other| other.join().unwrap());
        });
    }

    #[test]
    fn loom_two_members_meet_again_and_again() {
        check(2, 2, 3);
    }

    #[test]
    fn loom_three_members_see_what_each_did_before() {
        check(3, 1, 2);
    }
}
