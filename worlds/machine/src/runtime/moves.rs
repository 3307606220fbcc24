//! Messages of seats about themselves, by which suspended code finds the seat where it goes on.

use crate::sync::{AtomicU32, AtomicUsize, Ordering, fence, yield_now};
use std::sync::atomic::{AtomicBool, AtomicIsize};

/// A seat's messages.
pub struct Moves {
    /// [`BUSY`], [`IDLE`] or [`CLAIMED`].
    state: AtomicU32,
    /// See [`Moves::gone`].
    gone: AtomicIsize,
    /// See [`Moves::is_sitting`].
    is_sitting: AtomicBool,
    /// See [`Moves::blocks`].
    blocked: AtomicUsize,
    planted: Planted,
}

/// The seat has something to do, or its thread is elsewhere.
const BUSY: u32 = 0;
/// The seat has found nothing to do, and looks around or sleeps.
const IDLE: u32 = 1;
/// An idle seat; another one is about to put something into its inbox.
const CLAIMED: u32 = 2;

impl Moves {
    pub(super) fn new() -> Moves {
        let (gone, is_sitting, blocked) = (AtomicIsize::new(0), AtomicBool::new(false), AtomicUsize::new(0));
        Moves { state: AtomicU32::new(BUSY), gone, is_sitting, blocked, planted: Planted::NONE }
    }

    /// How much code of this seat, begun or received, is another seat's now, less the code sent to it by others.
    pub(crate) fn gone(&self) -> isize {
        self.gone.load(Ordering::Relaxed)
    }

    /// Code of this seat becomes another one's.
    pub(super) fn send_one(&self) {
        self.gone.fetch_add(1, Ordering::Relaxed);
    }

    /// Code of another seat becomes this one's.
    pub(super) fn receive_one(&self) {
        self.gone.fetch_sub(1, Ordering::Relaxed);
    }

    /// A program's thread sits there from now on.
    pub fn sits_down(&self) {
        self.is_sitting.store(true, Ordering::Relaxed);
    }

    /// Whether a program's thread sits there; it may do anything for as long as it likes.
    #[inline]
    pub fn is_sitting(&self) -> bool {
        self.is_sitting.load(Ordering::Relaxed)
    }

    /// The seat's thread is about to block in the system; [`Moves::unblocks`] ends this. Then it looks at its inbox
    /// ([`Moves::before_look`]).
    pub(crate) fn blocks(&self) {
        self.blocked.fetch_add(1, Ordering::Relaxed);
    }

    /// The seat's thread is about to look at its inbox for the last time, for as long as it likes. A sender then checks
    /// whether the seat is elsewhere ([`Moves::after_put`]): either the sender sees this, or this thread sees the sent
    /// task.
    pub(crate) fn before_look(&self) {
        if !self.planted.has(Mutant::LooksAtOnce) {
            fence(Ordering::SeqCst);
        }
    }

    /// The caller has sent a task to the seat, and is about to check whether the seat is elsewhere.
    #[inline]
    pub fn after_put(&self) {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn unblocks(&self) {
        self.blocked.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether the seat's thread is about to block in the system, or does so.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed) > 0
    }

    /// Whether tasks sent to the seat may wait there for as long as a program's code, or the system, likes.
    #[inline]
    pub fn is_elsewhere(&self) -> bool {
        self.is_sitting() || self.is_blocked()
    }

    /// The seat has found nothing to do.
    pub(crate) fn begin_idle(&self) {
        self.state.store(IDLE, Ordering::Release);
    }

    /// The seat has something to do. After this, its inbox has the task of any claim.
    pub(crate) fn end_idle(&self) {
        let mut looks = 0_u32;
        // Acquire: the sent task is seen.
        while self.state.compare_exchange(IDLE, BUSY, Ordering::Acquire, Ordering::Acquire) == Err(CLAIMED)
            && !self.planted.has(Mutant::ClaimMissed)
        {
            looks += 1;
            if cfg!(loom) || looks.is_multiple_of(64) {
                yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Whether the seat has nothing to do. Then the caller puts something into its inbox, and calls [`Moves::release`].
    #[inline]
    pub fn claim(&self) -> bool {
        self.state.load(Ordering::Relaxed) == IDLE
            && self.state.compare_exchange(IDLE, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// The claimed seat's task is in its inbox.
    #[inline]
    pub fn release(&self) {
        self.state.store(IDLE, Ordering::Release);
    }
}

/// A mistake to be found by a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// A busy seat does not wait for its claimers.
    ClaimMissed,
    /// A seat about to block may look at its inbox before others see the block.
    LooksAtOnce,
}

/// The mistake of one seat.
type Planted = vicus_memory::Planted<Mutant>;

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// A seat that goes on with long work has seen all tasks put into its inbox while it was idle.
    fn leave(mutant: Option<Mutant>) {
        loom::model(move || {
            let moves = Moves { planted: Planted::new(mutant), ..Moves::new() };
            let seat = Arc::new((moves, AtomicU32::new(0)));
            seat.0.begin_idle();
            let senders = [0, 1].map(|_| {
                let seat = Arc::clone(&seat);
                thread::spawn(move || {
                    let claimed = seat.0.claim();
                    if claimed {
                        seat.1.fetch_add(1, Ordering::Relaxed);
                        seat.0.release();
                    }
                    u32::from(claimed)
                })
            });
            seat.0.end_idle();
            let seen = seat.1.load(Ordering::Relaxed);
            let sent: u32 = senders.into_iter().map(|sender| sender.join().unwrap()).sum();
            assert_eq!(seen, sent);
        });
    }

    /// A seat about to block finds the task sent to it, or the sender sees that it blocks.
    fn block(mutant: Option<Mutant>) {
        loom::model(move || {
            let moves = Moves { planted: Planted::new(mutant), ..Moves::new() };
            let seat = Arc::new((moves, AtomicU32::new(0)));
            let sender = {
                let seat = Arc::clone(&seat);
                thread::spawn(move || {
                    if seat.0.is_blocked() {
                        return true;
                    }
                    seat.1.store(1, Ordering::Release);
                    seat.0.after_put();
                    seat.0.is_blocked()
                })
            };
            seat.0.blocks();
            seat.0.before_look();
            let found = seat.1.load(Ordering::Acquire) == 1;
            let seen = sender.join().unwrap();
            assert!(found || seen, "what was sent waits for a thread that blocks");
        });
    }

    #[test]
    fn loom_what_is_sent_to_a_seat_that_is_about_to_block_is_found() {
        block(None);
        assert!(std::panic::catch_unwind(|| block(Some(Mutant::LooksAtOnce))).is_err());
    }

    #[test]
    fn loom_a_seat_sees_what_it_was_claimed_for() {
        leave(None);
        assert!(std::panic::catch_unwind(|| leave(Some(Mutant::ClaimMissed))).is_err());
    }
}
