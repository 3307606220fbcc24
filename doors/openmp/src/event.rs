//! The event of a detached task.

use super::atomics::{AtomicBool, AtomicU32, Ordering};
use super::wait::Guarded;

/// An event, with what is held until it comes.
pub(crate) struct Event<H> {
    /// Whether its task's waiters go on: it has come, or the task was dropped.
    is_over: AtomicBool,
    is_fulfilled: AtomicBool,
    held: Guarded<Option<H>>,
    /// Users left: the maker of the task, its record, and the caller that fulfils the event.
    users: AtomicU32,
}

impl<H> Event<H> {
    pub(crate) fn new() -> *const Event<H> {
        Box::into_raw(Box::new(Event {
            is_over: AtomicBool::new(false),
            is_fulfilled: AtomicBool::new(false),
            held: Guarded::new(None),
            users: AtomicU32::new(3),
        }))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Keeps `held` until the event comes. It is given back if the event has come.
    #[must_use]
    pub(crate) fn hold(&self, held: H) -> Option<H> {
        self.held.with(|own| if self.is_over() { Some(held) } else { own.replace(held) })
    }

    /// The event has come. What was held is to be released; `None` if it had come before.
    #[must_use]
    pub(crate) fn fulfil(&self) -> Option<Option<H>> {
        self.held.with(|own| {
            self.is_over.store(true, Ordering::Release);
            let is_first = !self.is_fulfilled.swap(true, Ordering::AcqRel);
            is_first.then(|| own.take())
        })
    }

    /// The task was dropped. What was held is to be released.
    #[must_use]
    pub(crate) fn abandon(&self) -> Option<H> {
        self.held.with(|own| {
            self.is_over.store(true, Ordering::Release);
            own.take()
        })
    }

    /// The use of one of its users ends. Whether it was the last one, and has freed it.
    ///
    /// # Safety
    /// The caller is one of them.
    pub(crate) unsafe fn drop_one(event: *const Event<H>) -> bool {
        // SAFETY: the caller is one of its users, and the last one frees the box of `Event::new`, when it has seen the
        // others' uses end.
        unsafe {
            let is_last = (*event).users.fetch_sub(1, Ordering::AcqRel) == 1;
            if is_last {
                drop(Box::from_raw(event.cast_mut()));
            }
            is_last
        }
    }

    /// How many users are left.
    #[cfg(test)]
    pub(crate) fn users(&self) -> u32 {
        self.users.load(Ordering::Relaxed)
    }
}
