//! What seats tell one another of themselves, so that threads that follow others find where to go ([`Builder::follow`](super::Builder::follow)).

use crate::fibres::mutant::{Mutant, Planted};
use crate::sync::{AtomicU32, Ordering, yield_now};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize};

/// Of a seat.
pub(crate) struct Moves {
    /// [`BUSY`], [`IDLE`] or [`CLAIMED`].
    state: AtomicU32,
    /// See [`Moves::gone`].
    pub(super) gone: AtomicIsize,
    /// See [`Moves::is_sitting`].
    is_sitting: AtomicBool,
    /// See [`Moves::blocks`].
    blocked: AtomicUsize,
    planted: Planted,
}

/// It has something to do, or its thread is elsewhere.
const BUSY: u32 = 0;
/// It has found nothing to do, and looks around or sleeps.
const IDLE: u32 = 1;
/// The same, and another seat is about to put something into its inbox.
const CLAIMED: u32 = 2;

impl Moves {
    pub(super) fn new() -> Moves {
        let (gone, is_sitting, blocked) = (AtomicIsize::new(0), AtomicBool::new(false), AtomicUsize::new(0));
        Moves { state: AtomicU32::new(BUSY), gone, is_sitting, blocked, planted: Planted::default() }
    }

    /// How many threads it has begun, or got, are another seat's now, less those that others sent to it.
    pub(crate) fn gone(&self) -> isize {
        self.gone.load(Ordering::Relaxed)
    }

    pub(super) fn sits_down(&self) {
        self.is_sitting.store(true, Ordering::Relaxed);
    }

    /// Whether a program's thread sits there, which may do anything for as long as it likes.
    pub(crate) fn is_sitting(&self) -> bool {
        self.is_sitting.load(Ordering::Relaxed)
    }

    /// The seat's thread is about to block in the system; [`Moves::unblocks`] ends that.
    pub(crate) fn blocks(&self) {
        self.blocked.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unblocks(&self) {
        self.blocked.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether the seat's thread is about to block in the system, or does so.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed) > 0
    }

    /// Whether what is sent to the seat may wait there for as long as a program's code, or the system, likes.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.is_sitting() || self.is_blocked()
    }

    /// The seat has found nothing to do.
    pub(crate) fn begin_idle(&self) {
        self.state.store(IDLE, Ordering::Release);
    }

    /// The seat has something to do. What others have claimed it for is in its inbox after this.
    pub(crate) fn end_idle(&self) {
        let mut looks = 0_u32;
        // Acquire: what was put there is seen.
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
    pub(crate) fn claim(&self) -> bool {
        self.state.load(Ordering::Relaxed) == IDLE
            && self.state.compare_exchange(IDLE, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// What it was claimed for is in its inbox.
    pub(crate) fn release(&self) {
        self.state.store(IDLE, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// A seat that goes on with something for long has seen all that was put into its inbox because it had nothing to do.
    fn leave(mutant: Option<Mutant>) {
        loom::model(move || {
            let moves = Moves { planted: Planted { mutant }, ..Moves::new() };
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

    #[test]
    fn loom_a_seat_sees_what_it_was_claimed_for() {
        leave(None);
        assert!(std::panic::catch_unwind(|| leave(Some(Mutant::ClaimMissed))).is_err());
    }
}
