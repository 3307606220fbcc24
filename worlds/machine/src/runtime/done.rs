//! The end of a closure or a request, for its waiting caller.

use crate::runtime::caller_here;
use crate::runtime::latch::Latch;
use crate::runtime::requests::waiting::Waiting;
use crate::runtime::shared::RuntimeState;
use crate::runtime::worker::{self, with_worker};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use vicus_schedule::RequestId;

/// While a caller's own box waits for tasks: how often the caller asks whether the box's request goes on.
const ASKS: Duration = Duration::from_millis(1);

/// Tells a caller the end of the awaited closure.
pub enum EndSignal {
    /// A sleeping thread.
    Thread {
        /// Whether it has ended.
        is_done: Mutex<bool>,
        /// Told once it has.
        changed: Condvar,
    },
    /// A seat, at work there meanwhile: the awaited closure may be a task of the same runtime, or call back into it.
    Seat(Latch, Arc<RuntimeState>),
}

impl EndSignal {
    /// For the calling thread.
    pub fn new() -> Arc<EndSignal> {
        let seated = with_worker(|worker| EndSignal::Seat(Latch::new(worker.code.waiter), Arc::clone(&worker.shared)));
        Arc::new(seated.unwrap_or_else(|| EndSignal::Thread { is_done: Mutex::new(false), changed: Condvar::new() }))
    }

    /// Called by the thread that made it. A seat waiting for a request of its own runtime runs tasks of that request,
    /// and else of any. A thread without a seat asks meanwhile whether its box's request goes on; a request given up
    /// cancels the awaited tasks.
    pub fn wait(&self, request: Option<RequestId>) {
        if !caller_here::is_caller() || !self.wait_unless(caller_here::is_given_up) {
            self.wait_on(request);
        }
    }

    fn wait_on(&self, request: Option<RequestId>) {
        match self {
            EndSignal::Thread { is_done, changed } => {
                let is_done = is_done.lock().expect("nothing panics under this lock");
                drop(changed.wait_while(is_done, |is_done| !*is_done).expect("nothing panics under this lock"));
            }
            EndSignal::Seat(latch, shared) => {
                let _waiting = request.map(|request| Waiting::begin(shared, request));
                worker::wait(request, latch);
            }
        }
    }

    /// Like [`EndSignal::wait_on`] without a request; a thread without a seat asks now and then whether it stops
    /// waiting. Returns whether it is done. `stops` does not panic.
    fn wait_unless(&self, stops: impl Fn() -> bool) -> bool {
        let EndSignal::Thread { is_done, changed } = self else {
            self.wait_on(None);
            return true;
        };
        loop {
            let lock = is_done.lock().expect("nothing panics under this lock");
            let (lock, _) =
                changed.wait_timeout_while(lock, ASKS, |is_done| !*is_done).expect("nothing panics under this lock");
            if *lock {
                return true;
            }
            drop(lock);
            if stops() {
                return false;
            }
        }
    }

    /// The awaited closure has ended.
    pub fn set(&self) {
        match self {
            EndSignal::Thread { is_done, changed } => {
                *is_done.lock().expect("nothing panics under this lock") = true;
                changed.notify_one();
            }
            EndSignal::Seat(latch, shared) => latch.set(&**shared),
        }
    }
}
