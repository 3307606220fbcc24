//! Decides which seat looks after freed memory until it goes back to the system.
//!
//! A sleeping seat tells the memory the time once more, and then sleeps for good. A thread without a seat has to wake
//! one if it frees something after that. Of several seats looking after freed memory, the last to begin is enough: it
//! tells the time for everything freed before. So at most one seat or thread has the duty. A beginning seat takes it
//! over, and so does a thread that has to wake a seat. The seat with the earlier duty may end or be woken without
//! further work.
//!
//! A seat woken before it has told the time puts the duty down by waking another seat, since its task may be long, or
//! its runtime may end.
//!
//! The state is one word, changed by one exchange at each step: two flags, and a number that changes when the duty
//! passes on.
//!
//! | `KEPT` | `FREED` | |
//! |---|---|---|
//! | | | All seats sleep for good, or are about to. Nothing was freed since. |
//! | | yes | Something was freed. The thread with the duty wakes a seat, or has woken one that will begin. |
//! | yes | | The seat with the duty sleeps, and will tell the time for all that was freed. |
//! | yes | yes | Something was freed since that seat began: it begins again. |

use crate::sync::{AtomicU64, Ordering};

/// Something was freed since the last seat began.
const FREED: u64 = 1;
/// A seat has the duty, and has neither ended nor been woken.
const KEPT: u64 = 2;
/// The bits from here on are the number.
const DUTY: u64 = 4;

#[derive(Debug)]
pub(crate) struct Lookout(AtomicU64);

/// The number that comes with the duty. Each seat or thread with the duty gets another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Duty(u64);

impl Duty {
    fn of(word: u64) -> Duty {
        Duty(word / DUTY)
    }

    fn next(self) -> Duty {
        Duty(self.0 + 1)
    }

    fn with(self, flags: u64) -> u64 {
        self.0 * DUTY + flags
    }
}

impl Lookout {
    pub(crate) fn new() -> Lookout {
        Lookout(AtomicU64::new(Duty(0).with(0)))
    }

    /// Whether an earlier free was told: then there is nothing to do after this one. The caller has put the freed
    /// memory on its waiting list, under the memory's lock. If this reads a word older than the beginning of a seat,
    /// that seat has not taken the lock yet: it tells the time later.
    #[inline]
    pub(crate) fn is_told(&self) -> bool {
        self.0.load(Ordering::Relaxed) & FREED != 0
    }

    /// Something was freed, and waits. `Some` if the caller has to wake a seat: it has the duty.
    pub(crate) fn tell(&self) -> Option<Duty> {
        self.change(|duty, flags| match flags {
            0 => duty.next().with(FREED),
            _ => duty.with(flags | FREED),
        })
    }

    /// The thread with this duty could wake no seat: the next thread to free something tries again.
    pub(crate) fn give_up(&self, duty: Duty) {
        // Unless a seat has begun or left meanwhile: then the duty has passed on, together with the freed memory.
        let _ = self.0.compare_exchange(duty.with(FREED), duty.with(0), Ordering::AcqRel, Ordering::Acquire);
    }

    /// A seat begins to look after freed memory: it will tell the time and end, or be woken and put the duty down.
    #[cfg(any(test, not(loom)))]
    pub(crate) fn begin(&self) -> Duty {
        self.change(|duty, _| duty.next().with(KEPT)).expect("the duty passes on")
    }

    /// A seat stops looking, after it has told the time. Returns whether it has to begin again, because something was
    /// freed meanwhile. This holds even if another seat has the duty: that seat may be woken, and have a long task.
    #[cfg(any(test, not(loom)))]
    pub(crate) fn end(&self, duty: Duty) -> bool {
        let ended = self.0.compare_exchange(duty.with(KEPT), duty.with(0), Ordering::AcqRel, Ordering::Acquire);
        ended.is_err_and(|word| word & FREED != 0)
    }

    /// A seat was woken between its beginning and its end. `Some` if the caller has to wake another seat: it has the
    /// duty.
    #[cfg(any(test, not(loom)))]
    pub(crate) fn put_down(&self, duty: Duty) -> Option<Duty> {
        // The flag no longer covers the memory freed before it began.
        self.change(|now, flags| if now == duty { now.next().with(FREED) } else { now.with(flags) })
    }

    /// A seat is left for good. `Some` if the caller has to wake another seat: it has the duty.
    pub(crate) fn leave(&self) -> Option<Duty> {
        // Perhaps this seat was the woken one.
        self.change(|now, flags| if flags == FREED { now.next().with(FREED) } else { now.with(flags) })
    }

    /// Changes the word by a step from the duty's number and the flags to the next word. Returns the duty, if it passes
    /// on to the caller.
    ///
    /// Even an unchanged word is exchanged. So a thread that tells after a seat has left sees that this seat's runtime
    /// is closing, and wakes a seat of another one; if it tells before, the leaving seat sees it.
    fn change(&self, step: impl Fn(Duty, u64) -> u64) -> Option<Duty> {
        let step = |word| step(Duty::of(word), word % DUTY);
        let before = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| Some(step(word)));
        let before = before.expect("each word has a next one");
        let duty = Duty::of(step(before));
        (duty != Duty::of(before)).then_some(duty)
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::atomic::AtomicBool;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    struct Model {
        lookout: Lookout,
        waiting: Mutex<Waiting>,
        /// Whether the seat's runtime ends.
        closing: AtomicBool,
    }

    #[derive(Default)]
    struct Waiting {
        /// Freed, and not gone back.
        blocks: usize,
        /// How many seats were woken, and are not left.
        woken: usize,
    }

    impl Model {
        fn new() -> Arc<Model> {
            let (lookout, waiting) = (Lookout::new(), Mutex::default());
            Arc::new(Model { lookout, waiting, closing: AtomicBool::new(false) })
        }

        /// The steps of a thread without a seat; `wakes` says whether it can wake one.
        fn free(&self, wakes: impl FnOnce() -> bool) {
            self.waiting.lock().unwrap().blocks += 1;
            if !self.lookout.is_told()
                && let Some(duty) = self.lookout.tell()
            {
                self.wake(duty, wakes);
            }
        }

        fn wake(&self, duty: Duty, wakes: impl FnOnce() -> bool) {
            match wakes() {
                true => self.waiting.lock().unwrap().woken += 1,
                false => self.lookout.give_up(duty),
            }
        }

        fn tell_the_time(&self) {
            self.waiting.lock().unwrap().blocks = 0;
        }

        /// The steps of a seat that begins, sleeps and is not woken.
        fn look_after(&self, mut duty: Duty) {
            self.tell_the_time();
            while self.lookout.end(duty) {
                duty = self.lookout.begin();
                self.tell_the_time();
            }
        }

        /// The steps of a seat that has begun, and is woken.
        fn put_down(&self, duty: Duty) {
            if let Some(duty) = self.lookout.put_down(duty) {
                self.wake(duty, || true);
            }
        }

        /// The steps of the thread on a seat at its end.
        fn leave(&self) {
            if let Some(duty) = self.lookout.leave() {
                self.wake(duty, || true);
            }
        }

        /// A woken seat takes its next step, and is not counted on any more.
        fn begin_or_leave_woken(&self) {
            self.waiting.lock().unwrap().woken -= 1;
        }

        /// Returns how many seats were woken.
        fn assert_all_gone_or_seat_woken(&self) -> usize {
            let waiting = self.waiting.lock().unwrap();
            assert!(waiting.blocks == 0 || waiting.woken > 0, "{} wait for ever", waiting.blocks);
            waiting.woken
        }
    }

    fn spawn(model: &Arc<Model>, does: impl FnOnce(&Model) + 'static) -> thread::JoinHandle<()> {
        let model = Arc::clone(model);
        thread::spawn(move || does(&model))
    }

    /// Bounded: all interleavings would take minutes. Three interruptions stop each thread once at each place with
    /// relevant steps of the others: between a free and its tell, and between the beginning of a seat and its end.
    fn check(model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    /// Finds these mutants: `end` by a load and a store; `end` that ends although something was freed; memory put on
    /// its waiting list after the tell.
    #[test]
    fn loom_what_is_freed_while_a_seat_falls_asleep_goes_back_or_wakes_one() {
        check(|| {
            let model = Model::new();
            let duty = model.lookout.begin();
            let outside = [(); 2].map(|()| spawn(&model, |model| model.free(|| true)));
            model.look_after(duty);
            outside.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(model.assert_all_gone_or_seat_woken() <= 1, "one is enough for both");
        });
    }

    /// What happened: a seat woken for freed memory had begun to look after it, and was left before it told the time.
    /// No flag covered the memory freed before it began any more, and that memory waited for ever. Finds these mutants:
    /// `put_down` that tells only what the flag says; one that leaves the state to the remaining seats.
    #[test]
    fn loom_what_a_seat_that_is_left_looked_after_is_for_another_one() {
        check(|| {
            let model = Model::new();
            model.free(|| true);
            let outside = spawn(&model, |model| model.free(|| true));
            model.begin_or_leave_woken();
            let duty = model.lookout.begin();
            model.put_down(duty);
            model.leave();
            outside.join().unwrap();
            model.assert_all_gone_or_seat_woken();
        });
    }

    /// What happened: the last seat to begin was woken for a long task, and told the time for nothing. The other seat
    /// saw that it did not have the duty, and slept for good; memory freed before or after waited as long as the task
    /// took. Finds this mutant: a woken seat that keeps the duty.
    #[test]
    fn loom_what_waits_while_the_last_seat_to_begin_is_busy_is_for_another_one() {
        check(|| {
            let model = Model::new();
            let stays = model.lookout.begin();
            let outside = spawn(&model, |model| model.free(|| true));
            let stays = spawn(&model, move |model| model.look_after(stays));
            let busy = model.lookout.begin();
            model.put_down(busy);
            [outside, stays].into_iter().for_each(|thread| thread.join().unwrap());
            model.assert_all_gone_or_seat_woken();
        });
    }

    /// The seat woken for freed memory has a task before it begins. Finds this mutant: `end` that checks the seat's
    /// duty before it checks for freed memory.
    #[test]
    fn loom_a_seat_that_ends_begins_again_for_one_that_was_woken_and_is_busy() {
        check(|| {
            let model = Model::new();
            let stays = model.lookout.begin();
            let busy = model.lookout.begin();
            model.put_down(busy);
            model.tell_the_time();
            model.free(|| unreachable!("the seat that is busy has woken one"));
            assert!(model.lookout.end(stays), "that one may be busy as well");
        });
    }

    /// Two seats look after freed memory; one is left, and one falls asleep. Finds these mutants: `put_down` or `end`
    /// without the check of the seat's duty; a seat that begins and takes no number.
    #[test]
    fn loom_of_two_seats_that_look_after_what_waits_the_last_one_answers_for_it() {
        check(|| {
            let model = Model::new();
            let stays = spawn(&model, |model| model.look_after(model.lookout.begin()));
            let outside = spawn(&model, |model| model.free(|| true));
            let duty = model.lookout.begin();
            model.put_down(duty);
            model.leave();
            [stays, outside].into_iter().for_each(|thread| thread.join().unwrap());
            model.assert_all_gone_or_seat_woken();
        });
    }

    /// A seat is left before it began or after it ended, and another one falls asleep.
    #[test]
    fn loom_a_seat_that_is_left_does_not_speak_for_one_that_stays() {
        check(|| {
            let model = Model::new();
            let stays = spawn(&model, |model| model.look_after(model.lookout.begin()));
            let outside = spawn(&model, |model| model.free(|| true));
            model.leave();
            [stays, outside].into_iter().for_each(|thread| thread.join().unwrap());
            model.assert_all_gone_or_seat_woken();
        });
    }

    /// A runtime ends while a thread wakes its only seat. Either the thread sees the end and gives up, or the leaving
    /// seat sees the wake, and wakes a seat of another runtime. Finds these mutants: a relaxed exchange; no exchange if
    /// the word stays as it is.
    #[test]
    fn loom_a_woken_seat_that_is_left_wakes_another_one() {
        check(|| {
            let model = Model::new();
            let outside = spawn(&model, |model| model.free(|| !model.closing.load(Ordering::Relaxed)));
            model.closing.store(true, Ordering::Relaxed);
            let other = model.lookout.leave();
            let has_told = other.is_some();
            other.into_iter().for_each(|duty| model.wake(duty, || true));
            outside.join().unwrap();
            match model.waiting.lock().unwrap().woken {
                0 => assert!(!model.lookout.is_told(), "the next thread that frees tries again"),
                // Of two, the first one is the left seat.
                seats => assert!(has_told, "{seats} woken"),
            }
        });
    }

    /// A thread can wake no seat while another seat is left and wakes its successor, for both use the list of runtimes.
    /// Then the successor is left as well. Finds these mutants: `give_up` without the check of the thread's duty; a
    /// duty that does not pass on when a seat leaves without having begun.
    #[test]
    fn loom_a_thread_that_gives_up_does_not_undo_what_another_one_told() {
        check(|| {
            let model = Model::new();
            let outside = spawn(&model, |model| model.free(|| false));
            let duty = model.lookout.begin();
            model.put_down(duty);
            model.leave();
            model.begin_or_leave_woken();
            model.leave();
            outside.join().unwrap();
            model.assert_all_gone_or_seat_woken();
        });
    }
}
