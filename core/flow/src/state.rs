//! A box's state word: at most once in a queue, never run twice at once, no activation lost.
//!
//! Eight bits. *Queued*: the box is to be run, and the thread that set this has put it, or will put it, into a queue.
//! *Due*: an envelope arrived or the box asked to run again, so its user code is to be called. *Running*: between
//! [`StateWord::begin`] and [`StateWord::finish_as`]. *Blocked*: a receiver refused an envelope; the box is in no queue
//! until that receiver resumes it. *Waits*: envelopes wait for a receiver, but the box may go on, by an overdraft or as
//! other outputs have room: an arrival queues it, and so does the receiver. *Resumed*: this resume came before the box
//! was marked as blocked or waiting. *After end*: the box has sent its last pill and asked to run again, so it is run
//! even when the request has ended. *Look*: an input has refused an envelope, so a run that has made room there looks
//! for senders to resume before it ends.
//!
//! The rule for a single queue entry: the thread that turns the word into *queued and neither running nor blocked* puts
//! the box into a queue; each such turn is one atomic step.

use crate::sync::{AtomicU8, Ordering};

const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
const DUE: u8 = 4;
const BLOCKED: u8 = 8;
const RESUMED: u8 = 16;
const AFTER_END: u8 = 32;
const WAITS: u8 = 64;
const LOOK: u8 = 128;

#[derive(Debug)]
pub(crate) struct StateWord(AtomicU8);

/// How the envelopes of a box wait for their receivers when its run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    /// All are delivered.
    Done,
    /// Some wait, and the box may run.
    Waits,
    /// A receiver refuses, and the box may not run.
    Blocked,
}

/// The caller has to put the box into a queue.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Enqueue(pub(crate) bool);

impl StateWord {
    pub(crate) fn new() -> StateWord {
        StateWord(AtomicU8::new(0))
    }

    /// An envelope arrived, or the request starts.
    pub(crate) fn arrive(&self) -> Enqueue {
        let before = self.0.fetch_or(QUEUED | DUE, Ordering::AcqRel);
        Enqueue(before & (QUEUED | RUNNING | BLOCKED) == 0)
    }

    /// A receiver has room again after a refusal, or takes no more.
    pub(crate) fn resume(&self) -> Enqueue {
        let mut enqueue = false;
        // No effect on a box that neither is blocked, waits nor is about to: its envelopes have been delivered
        // meanwhile, or are sent when it begins.
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            enqueue = word & BLOCKED != 0 || word & (WAITS | QUEUED | RUNNING) == WAITS;
            match word {
                _ if enqueue => Some((word & !(BLOCKED | WAITS)) | QUEUED),
                _ if word & RUNNING != 0 => Some(word | RESUMED),
                _ => None,
            }
        });
        Enqueue(enqueue)
    }

    /// The box was taken from a queue and is run. Whether its user code is due.
    pub(crate) fn begin(&self) -> bool {
        let before = self.0.swap(RUNNING, Ordering::AcqRel);
        debug_assert_eq!(before & (QUEUED | RUNNING | BLOCKED), QUEUED, "a box that is run was queued, and only that");
        before & DUE != 0
    }

    /// An input has noted that it refuses an envelope, and its sender looks once more whether there is room now.
    pub(crate) fn tell_of_refusal(&self) {
        self.0.fetch_or(LOOK, Ordering::AcqRel);
    }

    /// Like [`StateWord::finish_as`], for a box that is not run after the end and has no senders.
    #[cfg(test)]
    pub(crate) fn finish(&self, blocked: bool, due: bool) -> Enqueue {
        self.finish_as(if blocked { Sending::Blocked } else { Sending::Done }, due, false, || {})
    }

    /// The run is over. `due`: the user code is to be called again; `after_end`: even if the request ends meanwhile.
    /// `look` resumes refused senders of inputs where this run has made room; it may be called several times.
    pub(crate) fn finish_as(&self, sending: Sending, due: bool, after_end: bool, mut look: impl FnMut()) -> Enqueue {
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            if word & LOOK != 0 {
                look();
            }
            let mut after = word & !(RUNNING | RESUMED | LOOK);
            if due {
                after |= QUEUED | DUE;
            }
            if after_end {
                after |= AFTER_END;
            }
            after |= match sending {
                Sending::Done => 0,
                _ if word & RESUMED != 0 => QUEUED,
                Sending::Waits => WAITS,
                Sending::Blocked => BLOCKED,
            };
            match self.0.compare_exchange(word, after, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Enqueue(after & (QUEUED | BLOCKED) == QUEUED),
                Err(now) => word = now,
            }
        }
    }

    /// Whether the box is to be run even when the request has ended. Exact for a queued box.
    pub(crate) fn runs_after_end(&self) -> bool {
        self.0.load(Ordering::Acquire) & AFTER_END != 0
    }

    /// Whether the box is neither queued nor running, nor waits for a receiver.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.load(Ordering::Acquire) & !LOOK == 0
    }

    /// Whether the box waits for a receiver. Only a hint while the request runs.
    pub(crate) fn is_blocked(&self) -> bool {
        self.0.load(Ordering::Acquire) & BLOCKED != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_queued_once_however_much_arrives() {
        let word = StateWord::new();
        assert_eq!(word.arrive(), Enqueue(true));
        assert_eq!(word.arrive(), Enqueue(false));
        assert!(word.begin());
        assert_eq!(word.arrive(), Enqueue(false), "it is running: its own end puts it back");
        assert_eq!(word.finish(false, false), Enqueue(true));
        assert!(word.begin());
        assert_eq!(word.finish(false, false), Enqueue(false));
    }

    #[test]
    fn a_blocked_box_is_not_queued_by_arrivals() {
        let word = StateWord::new();
        assert_eq!(word.arrive(), Enqueue(true));
        assert!(word.begin());
        assert_eq!(word.finish(true, false), Enqueue(false));
        assert_eq!(word.arrive(), Enqueue(false));
        assert_eq!(word.resume(), Enqueue(true));
        assert!(word.begin(), "what arrived while it was blocked is still due");
        assert_eq!(word.finish(false, false), Enqueue(false));
    }

    #[test]
    fn what_is_to_run_after_the_end_says_so_until_it_runs() {
        let word = StateWord::new();
        assert_eq!(word.arrive(), Enqueue(true));
        assert!(word.begin() && !word.runs_after_end());
        assert_eq!(word.finish_as(Sending::Blocked, true, true, || {}), Enqueue(false), "it is blocked");
        assert_eq!(word.resume(), Enqueue(true));
        assert!(word.runs_after_end());
        assert!(word.begin() && !word.runs_after_end(), "it asks anew each time");
    }

    #[test]
    fn a_box_that_waits_within_an_overdraft_is_queued_by_arrivals_and_by_room() {
        let word = StateWord::new();
        for wakes in [StateWord::arrive, StateWord::resume] {
            assert!(word.0.load(Ordering::Relaxed) == 0 && word.arrive().0);
            assert!(word.begin());
            assert_eq!(word.finish_as(Sending::Waits, false, false, || {}), Enqueue(false));
            assert!(!word.is_blocked());
            assert_eq!(wakes(&word), Enqueue(true));
            assert_eq!(word.resume(), Enqueue(false), "it is queued, and sends when it begins");
            word.begin();
            assert_eq!(word.resume(), Enqueue(false), "it is running");
            assert_eq!(word.finish_as(Sending::Waits, false, false, || {}), Enqueue(true), "room came meanwhile");
            word.begin();
            assert_eq!(word.finish_as(Sending::Done, false, false, || {}), Enqueue(false));
        }
    }

    #[test]
    fn a_run_looks_for_refused_senders_that_came_before_its_end() {
        let word = StateWord::new();
        let finish = || {
            let mut looks = 0;
            assert_eq!(word.finish_as(Sending::Done, false, false, || looks += 1), Enqueue(false));
            looks
        };
        assert!(word.arrive().0 && word.begin());
        assert_eq!(finish(), 0);
        word.tell_of_refusal();
        assert!(word.is_idle(), "a refusal queues nothing");
        assert_eq!(word.arrive(), Enqueue(true));
        assert!(word.begin());
        assert_eq!(finish(), 0, "this run has seen the refusal at its begin");
        assert!(word.arrive().0 && word.begin());
        word.tell_of_refusal();
        assert_eq!(finish(), 1);
        assert!(word.is_idle());
    }

    #[test]
    fn a_resume_that_comes_before_the_block_is_kept() {
        let word = StateWord::new();
        assert_eq!(word.arrive(), Enqueue(true));
        assert!(word.begin());
        assert_eq!(word.resume(), Enqueue(false));
        assert_eq!(word.finish(true, false), Enqueue(true));
        assert!(!word.begin(), "only the sending is due, not the user code");
        assert_eq!(word.finish(false, false), Enqueue(false));
        assert_eq!(word.resume(), Enqueue(false), "a stale resume has no effect");
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;

    /// A box becomes blocked while its request ends. It is queued once, by itself or by the box that ends the request.
    #[test]
    fn loom_a_blocked_box_is_queued_when_the_request_ends() {
        use crate::sync::fence;
        use loom::sync::atomic::AtomicBool;
        loom::model(|| {
            let word = Arc::new(StateWord::new());
            let (ended, queued) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
            assert!(word.arrive().0 && word.begin());
            let runner = {
                let (word, ended, queued) = (word.clone(), ended.clone(), queued.clone());
                loom::thread::spawn(move || {
                    assert!(!word.finish_as(Sending::Blocked, true, true, || {}).0);
                    fence(Ordering::SeqCst);
                    if ended.load(Ordering::Relaxed) && word.resume().0 {
                        queued.fetch_add(1, Ordering::Relaxed);
                    }
                })
            };
            ended.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if word.is_blocked() && word.resume().0 {
                queued.fetch_add(1, Ordering::Relaxed);
            }
            runner.join().unwrap();
            assert_eq!(queued.load(Ordering::Relaxed), 1);
        });
    }

    /// Two senders and one runner: every arrival is followed by a later run, there are never two runs at once, and the
    /// queue never holds the box twice.
    #[test]
    fn loom_no_arrival_is_lost() {
        loom::model(|| {
            let word = Arc::new(StateWord::new());
            // Envelopes sent, envelopes seen, entries in the queue, present runs.
            let counts: Arc<[AtomicUsize; 4]> = Arc::new(std::array::from_fn(|_| AtomicUsize::new(0)));
            fn run(word: &StateWord, [sent, seen, queue, runs]: &[AtomicUsize; 4]) {
                while queue.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    assert!(word.begin());
                    assert_eq!(runs.fetch_add(1, Ordering::AcqRel), 0, "one run at a time");
                    seen.store(sent.load(Ordering::Acquire), Ordering::Release);
                    runs.fetch_sub(1, Ordering::AcqRel);
                    if word.finish(false, false).0 {
                        assert_eq!(queue.fetch_add(1, Ordering::AcqRel), 0, "at most once in the queue");
                    }
                }
            }
            let sender = |word: Arc<StateWord>, counts: Arc<[AtomicUsize; 4]>| {
                move || {
                    counts[0].fetch_add(1, Ordering::AcqRel);
                    if word.arrive().0 {
                        assert_eq!(counts[2].fetch_add(1, Ordering::AcqRel), 0, "at most once in the queue");
                        run(&word, &counts);
                    }
                }
            };
            let first = loom::thread::spawn(sender(word.clone(), counts.clone()));
            sender(word.clone(), counts.clone())();
            first.join().unwrap();
            run(&word, &counts);
            assert_eq!(counts[1].load(Ordering::Acquire), 2, "both envelopes were seen");
            assert_eq!(counts[2].load(Ordering::Acquire), 0);
        });
    }
}
