//! A thread that sits on a seat while its own code runs.

use crate::memory::heaps;
use crate::runtime::here::HERE;
use crate::runtime::shared::RuntimeState;
use crate::runtime::worker::Worker;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use vicus_schedule::SeatId;

/// A thread's stay on a seat. It stays on its thread. Without [`Stay::end`], it never ends.
pub struct Stay {
    worker: NonNull<Worker>,
    seat: SeatId,
}

impl Stay {
    /// The calling thread, which sits on no seat, sits down. Its code is a task of a new request.
    pub fn begin(shared: &Arc<RuntimeState>, seat: SeatId) -> Stay {
        let mut worker = Box::new(Worker::new(Arc::clone(shared), seat));
        worker.begin_alone(shared.ongoing.next_id());
        let worker = NonNull::from(Box::leak(worker));
        HERE.set(worker.as_ptr().cast());
        Stay { worker, seat }
    }

    /// The seat.
    pub fn seat(&self) -> SeatId {
        self.seat
    }

    /// Whether the calling thread is the one that stays.
    pub fn is_here(&self) -> bool {
        HERE.get() == self.worker.as_ptr().cast()
    }

    /// The thread leaves its seat, and others get the tasks there.
    ///
    /// # Panics
    /// On another thread.
    pub fn end(self) {
        assert!(self.is_here(), "its own thread ends a stay");
        #[expect(unsafe_code, reason = "takes back a worker that was given to this thread")]
        // SAFETY: it was leaked by `begin`; as this thread sits on it alone and leaves it now, there is no other way to
        // it.
        let mut worker = unsafe { Box::from_raw(self.worker.as_ptr()) };
        worker.on_seat(heaps::finish_task);
        HERE.set(ptr::null_mut());
        worker.share_tasks();
        worker.hand_in();
    }
}

impl fmt::Debug for Stay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stay").field("seat", &self.seat).finish_non_exhaustive()
    }
}
