//! A fibre's state (running, suspended, or woken) and its seat.

use crate::mutant::{Mutant, Planted};
use crate::sync::{AtomicBool, AtomicU32, Ordering};
use vicus_schedule::SeatId;

/// The words by which a fibre and its wakers agree, when it suspends itself or goes to another seat.
///
/// A wake is a permit. One before the suspension ends the suspension at once, and a spare one makes the fibre check its
/// next wait condition once more. Of all wakes of a suspended fibre, exactly one queues it, at its seat of the moment.
pub(crate) struct State {
    word: AtomicU32,
    seat: AtomicU32,
    /// Set after the fibre has left its stack to wait, if its waker may make it go on anywhere.
    is_away: AtomicBool,
    planted: Planted,
}

const RUNNING: u32 = 0;
/// The fibre is about to leave its stack, or has left it.
const SUSPENDED: u32 = 1;
const WOKEN: u32 = 2;

impl State {
    pub(crate) fn new() -> State {
        let (word, seat, is_away) = (AtomicU32::new(RUNNING), AtomicU32::new(0), AtomicBool::new(false));
        State { word, seat, is_away, planted: Planted::NONE }
    }

    /// The seat it runs on, or is to be queued at.
    #[inline]
    pub(crate) fn seat(&self) -> SeatId {
        // Relaxed: a thread that may queue it has seen it suspended, there.
        SeatId::new(self.seat.load(Ordering::Relaxed) as usize)
    }

    /// A thread begins on it, on this seat.
    #[inline]
    pub(crate) fn begin(&self, seat: SeatId) {
        self.seat.store(seat.index() as u32, Ordering::Relaxed);
    }

    /// The fibre is about to leave its stack, and may go on anywhere then.
    #[inline]
    pub(crate) fn note_leaving(&self) {
        if self.planted.has(Mutant::AwayEarly) {
            self.mark_left();
        }
    }

    /// The fibre has left its stack, and its seat does not look at it any more: its waker may go on with it.
    #[inline]
    pub(crate) fn mark_left(&self) {
        // Release: the next seat finds the stack as it was left.
        self.is_away.store(true, Ordering::Release);
    }

    /// Whether its waker, and no other, may make it go on anywhere. If not, its seat is on its stack still, or it is
    /// bound to its seat.
    #[inline]
    pub(crate) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Acquire)
    }

    /// The fibre goes on.
    #[inline]
    pub(crate) fn mark_back(&self) {
        self.is_away.store(false, Ordering::Relaxed);
    }

    /// The fibre has left its stack to go to another seat. `put` puts it into that seat's inbox.
    pub(crate) fn go_to(&self, seat: SeatId, put: impl FnOnce()) {
        if self.planted.has(Mutant::SeatLate) {
            put();
            self.begin(seat);
        } else {
            // The inbox releases it: wakers queue it at its new seat after it has gone on and suspended there.
            self.begin(seat);
            put();
        }
    }

    /// The fibre is about to leave its stack. `false`: it was woken meanwhile, and goes on.
    #[inline]
    pub(crate) fn suspend(&self) -> bool {
        if self.planted.has(Mutant::PermitLost) {
            self.word.store(SUSPENDED, Ordering::SeqCst);
            return true;
        }
        // Release: the waker finds the seat to queue it at.
        let left = self.word.compare_exchange(RUNNING, SUSPENDED, Ordering::AcqRel, Ordering::Acquire);
        if left.is_err() {
            self.resume();
        }
        left.is_ok()
    }

    /// The fibre goes on. An earlier wake is used up: the fibre sees the writes before it.
    #[inline]
    pub(crate) fn resume(&self) {
        self.word.swap(RUNNING, Ordering::AcqRel);
    }

    /// Whether the caller has to queue the fibre: it was suspended.
    #[inline]
    pub(crate) fn wake(&self) -> bool {
        if self.planted.has(Mutant::QueuedTwice) {
            let before = self.word.load(Ordering::SeqCst);
            self.word.store(WOKEN, Ordering::SeqCst);
            return before == SUSPENDED;
        }
        self.word.swap(WOKEN, Ordering::AcqRel) == SUSPENDED
    }

    /// Whether it is suspended, and was not woken.
    pub(crate) fn is_suspended(&self) -> bool {
        self.word.load(Ordering::Acquire) == SUSPENDED
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::AtomicUsize;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    /// A fibre, and the inboxes of two seats, with the number of times it was put there.
    struct Model {
        state: State,
        inboxes: [Mutex<u32>; 2],
        /// The content of its stack: each seat running it writes to it.
        stack: UnsafeCell<u32>,
        /// The events it waits for.
        done: AtomicUsize,
    }

    #[expect(unsafe_code, reason = "the cell is what the model is about")]
    // SAFETY: loom tells if two threads use it at once.
    unsafe impl Sync for Model {}

    impl Model {
        fn new(mutant: Option<Mutant>) -> Arc<Model> {
            let state = State { planted: Planted::new(mutant), ..State::new() };
            let inboxes = [Mutex::new(0), Mutex::new(0)];
            Arc::new(Model { state, inboxes, stack: UnsafeCell::new(0), done: AtomicUsize::new(0) })
        }

        fn put(&self, seat: SeatId) {
            let mut inbox = self.inboxes[seat.index()].lock().unwrap();
            *inbox += 1;
            assert!(*inbox < 2, "the fibre is in the inbox twice");
        }

        /// Like `Fibre::wake`.
        fn wake(&self) {
            self.done.fetch_add(1, Ordering::Release);
            if self.state.wake() {
                self.put(self.state.seat());
            }
        }

        /// Waits until the fibre is in this seat's inbox, and takes it out.
        fn take(&self, seat: usize) {
            loop {
                let mut inbox = self.inboxes[seat].lock().unwrap();
                if *inbox > 0 {
                    *inbox -= 1;
                    break;
                }
                drop(inbox);
                thread::yield_now();
            }
            self.touch();
        }

        fn touch(&self) {
            #[expect(unsafe_code, reason = "loom's cell")]
            // SAFETY: as for `Sync`.
            self.stack.with_mut(|stack| unsafe { *stack += 1 });
        }

        /// Like `wait_on_fibre`, on this seat, for this number of wakes.
        fn wait(&self, seat: usize, wanted: usize) {
            while self.done.load(Ordering::Acquire) < wanted {
                self.touch();
                if self.state.suspend() {
                    self.take(seat);
                    self.state.resume();
                }
            }
        }
    }

    /// Two wake a fibre waiting for both: it goes on, and is never in its seat's inbox twice.
    fn wake_twice(mutant: Option<Mutant>) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.max_branches = 2_000;
        builder.check(move || {
            let model = Model::new(mutant);
            let wakers = [0, 1].map(|_| {
                let model = Arc::clone(&model);
                thread::spawn(move || model.wake())
            });
            model.wait(0, 2);
            wakers.into_iter().for_each(|waker| waker.join().unwrap());
        });
    }

    /// A fibre goes from seat 0 to seat 1 and waits there, while another thread wakes it: seat 1 goes on with it, and
    /// no other.
    fn migrate_and_wake(mutant: Option<Mutant>) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.max_branches = 2_000;
        builder.check(move || {
            let model = Model::new(mutant);
            let there = {
                let model = Arc::clone(&model);
                thread::spawn(move || {
                    model.take(1);
                    model.wait(1, 1);
                })
            };
            let waker = {
                let model = Arc::clone(&model);
                thread::spawn(move || model.wake())
            };
            model.touch();
            let seat = SeatId::new(1);
            model.state.go_to(seat, || model.put(seat));
            there.join().unwrap();
            waker.join().unwrap();
            assert_eq!(*model.inboxes[0].lock().unwrap(), 0, "the fibre is at a seat where it is not");
        });
    }

    /// A fibre waits, and may go on at its waker's seat: it does so only when its own seat has left its stack.
    fn follow(mutant: Option<Mutant>) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.max_branches = 2_000;
        builder.check(move || {
            let model = Model::new(mutant);
            let waker = {
                let model = Arc::clone(&model);
                thread::spawn(move || {
                    while model.done.load(Ordering::Acquire) == 0 {
                        thread::yield_now();
                    }
                    // It was told of the fibre's wait, so it makes the fibre go on.
                    if model.state.is_away() {
                        model.state.begin(SeatId::new(1));
                        model.touch();
                        model.state.mark_back();
                    } else {
                        model.put(model.state.seat());
                    }
                })
            };
            model.state.note_leaving();
            model.done.store(1, Ordering::Release);
            model.touch();
            model.state.mark_left();
            waker.join().unwrap();
            let is_here = std::mem::take(&mut *model.inboxes[0].lock().unwrap()) == 1;
            assert_eq!(is_here, model.state.seat() == SeatId::new(0));
            if is_here {
                model.touch();
                model.state.mark_back();
            }
        });
    }

    fn finds(model: fn(Option<Mutant>), mutant: Mutant) {
        let found = std::panic::catch_unwind(|| model(Some(mutant)));
        assert!(found.is_err(), "the model doesn't find {mutant:?}");
    }

    #[test]
    fn loom_a_fibre_that_is_woken_goes_on_once() {
        wake_twice(None);
        finds(wake_twice, Mutant::PermitLost);
        finds(wake_twice, Mutant::QueuedTwice);
    }

    #[test]
    fn loom_a_fibre_goes_on_elsewhere_when_it_has_left_its_stack() {
        follow(None);
        finds(follow, Mutant::AwayEarly);
    }

    #[test]
    fn loom_a_fibre_that_goes_elsewhere_is_woken_there() {
        migrate_and_wake(None);
        finds(migrate_and_wake, Mutant::SeatLate);
    }
}
