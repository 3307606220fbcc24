//! Regions with cancellation: knowledge shared by a team's members when some of them leave a region before others do.

use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// For members of a team that run a region together, meet within it (at barriers) and at its end, and may cancel it. A
/// member that learns of the cancellation goes to the end, while others are at a meeting within; they wait for each
/// other all the same, since a gathering does not tell the two apart. So each member within says so, and the members at
/// the end meet once more.
///
/// Each member counts its gatherings, and all have the same count: a gathering has a number.
///
/// ```
/// use vicus_threads::team::Meetings;
/// let meetings = Meetings::new();
/// // One member is at a barrier, which is its first gathering, and one has cancelled the region and is at the end.
/// meetings.come_within(1);
/// meetings.cancel();
/// // Both gather. The one at the barrier is told, and goes to the end; the other one comes once more.
/// assert!(meetings.is_cancelled() && !meetings.was_end(1));
/// assert!(meetings.was_end(2));
/// ```
#[derive(Debug)]
pub struct Meetings {
    is_cancelled: AtomicBool,
    /// The numbers of the last gatherings with a member within the region, each at its number modulo their count: a
    /// slow member still looks at one of them while others have come to the next one.
    within: [AtomicU64; 4],
}

impl Default for Meetings {
    fn default() -> Meetings {
        Meetings::new()
    }
}

impl Meetings {
    /// No gathering yet.
    pub fn new() -> Meetings {
        Meetings { is_cancelled: AtomicBool::new(false), within: [0; 4].map(AtomicU64::new) }
    }

    /// A region begins: one thread calls this before the others begin. Gatherings are counted on.
    pub fn begin(&self) {
        self.is_cancelled.store(false, Ordering::Relaxed);
    }

    /// Cancels the region. The member goes to its end.
    pub fn cancel(&self) {
        // Relaxed: members in need of the flag ask after a gathering.
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the region was cancelled. Members see a cancellation after a gathering with the cancelling member.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// The member is about to gather for this time, and is not at the region's end.
    #[inline]
    pub fn come_within(&self, time: u64) {
        // Relaxed: the gathering orders it before the look of the members at the end.
        self.within[time as usize % self.within.len()].store(time, Ordering::Relaxed);
    }

    /// The member has gathered for this time at the region's end. Whether all have: otherwise it gathers there once
    /// more.
    #[inline]
    pub fn was_end(&self, time: u64) -> bool {
        self.within[time as usize % self.within.len()].load(Ordering::Relaxed) != time
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    /// A mistake to be found by the model.
    #[derive(Clone, Copy, PartialEq)]
    enum Mistake {
        None,
        /// A member within does not say so.
        Silent,
        /// A member at the end does not look whether others are within.
        Careless,
    }

    /// How often the members have gathered, how many have come since, and how many have left the region.
    #[derive(Default)]
    struct MeetingCounts {
        times: u64,
        come: usize,
        gone: usize,
    }

    /// A region with two barriers within.
    struct Model {
        meetings: Meetings,
        gathered: Mutex<MeetingCounts>,
        changed: Condvar,
        members: usize,
        mistake: Mistake,
    }

    impl Model {
        /// Waits for all members. `None` if one has left: then the others would wait for ever.
        fn gather(&self, time: u64) -> Option<()> {
            let mut gathered = self.gathered.lock().unwrap();
            gathered.come += 1;
            if gathered.come == self.members {
                *gathered = MeetingCounts { times: time, come: 0, gone: gathered.gone };
                self.changed.notify_all();
            }
            while gathered.times < time {
                if gathered.gone > 0 {
                    return None;
                }
                gathered = self.changed.wait(gathered).unwrap();
            }
            Some(())
        }

        /// The end of the region.
        fn end(&self, mut time: u64) -> Option<u64> {
            loop {
                time += 1;
                self.gather(time)?;
                if self.mistake == Mistake::Careless || self.meetings.was_end(time) {
                    return Some(time);
                }
            }
        }

        /// One member cancels the region at once, or behind the first barrier; the others learn of it at a barrier, or
        /// before. How often it has gathered.
        fn member(&self, cancels_before: Option<u64>) -> Option<u64> {
            for time in 1..=2 {
                if cancels_before == Some(time) {
                    self.meetings.cancel();
                }
                if self.meetings.is_cancelled() {
                    return self.end(time - 1);
                }
                if self.mistake != Mistake::Silent {
                    self.meetings.come_within(time);
                }
                self.gather(time)?;
            }
            self.end(2)
        }

        fn region(&self, cancels_before: Option<u64>) -> Option<u64> {
            let times = self.member(cancels_before);
            self.gathered.lock().unwrap().gone += 1;
            self.changed.notify_all();
            times
        }
    }

    /// Whether in any order of events a member is left alone, or counts otherwise than another one.
    fn fails(members: usize, cancels_before: u64, mistake: Mistake) -> bool {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        let failed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let told = std::sync::Arc::clone(&failed);
        builder.check(move || {
            let model = Arc::new(Model {
                meetings: Meetings::new(),
                gathered: Mutex::new(MeetingCounts::default()),
                changed: Condvar::new(),
                members,
                mistake,
            });
            let others: Vec<_> = (1..members)
                .map(|_| {
                    let model = Arc::clone(&model);
                    thread::spawn(move || model.region(None))
                })
                .collect();
            let own = model.region(Some(cancels_before));
            let all_same = others.into_iter().map(|other| other.join().unwrap()).all(|other| other == own);
            if own.is_none() || !all_same {
                told.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        });
        failed.load(std::sync::atomic::Ordering::Relaxed)
    }

    #[test]
    fn loom_members_of_a_cancelled_region_end_it_together() {
        for (members, cancels_before) in [(2, 1), (2, 2), (3, 1), (3, 2)] {
            assert!(!fails(members, cancels_before, Mistake::None), "{members}, {cancels_before}");
        }
    }

    #[test]
    fn loom_a_member_that_is_silent_or_does_not_look_is_found() {
        for mistake in [Mistake::Silent, Mistake::Careless] {
            assert!(fails(2, 1, mistake));
        }
    }
}
