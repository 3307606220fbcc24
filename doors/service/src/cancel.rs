//! A handle to cancel calls, from any thread and at any time.

use crate::timer::{Timer, Timing};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;
use std::{fmt, io};
use vicus::Request;

/// Cancels the calls with this handle or a clone of it: running ones, and later ones.
///
/// A waiting or running call is told at once; nothing asks it from time to time.
///
/// ```
/// use vicus_service::Cancel;
///
/// let cancel = Cancel::new();
/// let other = cancel.clone();
/// other.cancel();
/// assert!(cancel.is_cancelled());
/// ```
#[derive(Clone, Default)]
pub struct Cancel(Arc<Inner>);

#[derive(Default)]
struct Inner {
    is_cancelled: AtomicBool,
    listeners: Mutex<Listeners>,
    /// The ear of a child at its parent.
    parent: OnceLock<Listening>,
}

#[derive(Default)]
struct Listeners {
    next: u64,
    told: Vec<(u64, Arc<dyn Fn() + Send + Sync>)>,
}

impl Cancel {
    /// A handle that has cancelled nothing yet.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// A handle that cancels when this one does, and that can cancel alone.
    ///
    /// ```
    /// use vicus_service::Cancel;
    ///
    /// let all = Cancel::new();
    /// let (one, other) = (all.child(), all.child());
    /// one.cancel();
    /// assert!(one.is_cancelled() && !all.is_cancelled() && !other.is_cancelled());
    /// all.cancel();
    /// assert!(other.is_cancelled());
    /// ```
    #[must_use]
    pub fn child(&self) -> Cancel {
        let child = Cancel::new();
        let heard = Arc::downgrade(&child.0);
        let listening = self.listen(move || {
            if let Some(child) = heard.upgrade() {
                Cancel(child).cancel();
            }
        });
        let is_first = child.0.parent.set(listening).is_ok();
        debug_assert!(is_first, "a child has one parent");
        child
    }

    /// Cancels. More than once is as good as once.
    pub fn cancel(&self) {
        let told: Vec<_> = {
            let listeners = self.lock();
            // Under the lock: a later listener sees it.
            self.0.is_cancelled.store(true, Ordering::Release);
            listeners.told.iter().map(|(_, listener)| Arc::clone(listener)).collect()
        };
        told.iter().for_each(|listener| listener());
    }

    /// Whether it has cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Listeners> {
        self.0.listeners.lock().expect("nothing panics under this lock")
    }

    /// Has a function called when it cancels, until the result is dropped; at once if it has cancelled already.
    pub(crate) fn listen(&self, listener: impl Fn() + Send + Sync + 'static) -> Listening {
        let listener = Arc::new(listener);
        let number = {
            let mut listeners = self.lock();
            listeners.next += 1;
            let number = listeners.next;
            listeners.told.push((number, Arc::clone(&listener) as _));
            number
        };
        let listening = Listening { cancel: self.clone(), number };
        if self.is_cancelled() {
            listener();
        }
        listening
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancel").field(&self.is_cancelled()).finish()
    }
}

/// A listener as long as it listens.
pub(crate) struct Listening {
    cancel: Cancel,
    number: u64,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let told = {
            let mut listeners = self.cancel.lock();
            let at = listeners.told.iter().position(|(number, _)| *number == self.number);
            at.map(|at| listeners.told.swap_remove(at))
        };
        // Not under the lock: the drop may run the callers' code.
        drop(told);
    }
}

/// A submitted request with its ends: it is cancelled when this is dropped before it is over, when its cancel handle
/// cancels, and when its time is up.
pub(crate) struct Submitted {
    pub(crate) request: Arc<Request>,
    /// An ended request has none.
    _listening: Option<Listening>,
    /// An ended request has none, and a request without a limit has none.
    timing: Option<Timing>,
}

impl Submitted {
    pub(crate) fn new(request: Request, cancel: &Cancel) -> Submitted {
        let request = Arc::new(request);
        let listening = (!request.is_done()).then(|| {
            let cancelled = Arc::clone(&request);
            cancel.listen(move || cancelled.cancel())
        });
        Submitted { request, _listening: listening, timing: None }
    }

    /// Limits its time from now on.
    ///
    /// # Errors
    /// The system gives no thread for the timer.
    pub(crate) fn end_at(&mut self, time: Instant, timer: &Timer) -> io::Result<()> {
        if !self.request.is_done() {
            let cancelled = Arc::clone(&self.request);
            self.timing = Some(timer.call_at(time, move || cancelled.cancel())?);
        }
        Ok(())
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        if !self.request.is_done() {
            self.request.cancel();
        }
    }
}
