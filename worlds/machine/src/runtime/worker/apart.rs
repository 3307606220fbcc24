//! Waits of code with a stack of its own, and seats as its layer finds them (`hook.rs`).

use super::{Worker, in_task, with_shared};
use crate::runtime::awaited::Awaited;
use crate::runtime::hook::{Layer, is_apart};

/// Whether the calling code has a stack of its own, and may be suspended: not while it unwinds, since the count of
/// panics belongs to the operating system's thread.
#[inline]
pub(super) fn may_be_suspended() -> bool {
    in_task(|worker| is_apart(worker.code.waiter)) && !std::thread::panicking()
}

/// Suspends the calling code until the awaited thing is there.
pub(super) fn wait_apart(layer: &dyn Layer, awaited: &impl Awaited) {
    while !awaited.is_done() {
        awaited.begin_round();
        // It may be woken for nothing, and then looks again.
        if awaited.announce_suspension() {
            layer.suspend();
        }
        awaited.note_resumed(in_task(|worker| worker.seat_id));
    }
    in_task(|worker| worker.recorder.observe_tasks());
}

/// Calls `f` with the layer of the calling seat's runtime, if it has one.
pub(super) fn with_layer<R>(f: impl FnOnce(&dyn Layer) -> R) -> Option<R> {
    with_shared(|shared| shared.hook.layer().map(f))
}

/// Sends the calling seat's code that is ready, and may go anywhere, to other seats: the thread is about to do
/// something else, for as long as it likes.
pub(crate) fn send_away() {
    let any = in_task(|worker| {
        let hook = &worker.shared.hook;
        hook.any() && {
            hook.of_seat(worker.seat_id).before_look();
            worker.seat.woken_count() > 0 || worker.shared.inbox(worker.seat_id).is_waiting()
        }
    });
    if any {
        with_layer(Layer::send_away);
    }
}

/// Code on a thread's own stack goes on after a wait. If it is a program's, it may do anything now.
pub fn leave_to_program() {
    if in_task(|worker| !is_apart(worker.code.waiter) && worker.does_anything()) {
        send_away();
    }
}

impl Worker {
    /// Whether the code on its thread may do anything for as long as it likes: a program's code, or code about to
    /// block.
    #[inline]
    pub fn does_anything(&self) -> bool {
        let seat = self.shared.hook.of_seat(self.seat_id);
        seat.is_blocked() || !is_apart(self.code.waiter) && seat.is_sitting()
    }

    /// Whether code of the layer has begun that goes on with this seat when woken.
    pub(crate) fn has_code(&self) -> bool {
        self.code.began > self.shared.hook.of_seat(self.seat_id).gone()
    }
}
