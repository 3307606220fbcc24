//! Whether a runtime is watched for deadlocks.

use crate::sync::{AtomicBool, Ordering};

/// A flag: looks at the runtime go on while it is set.
///
/// A thread that begins to wait sets it and begins the looks, unless it is set already. A look that finds no wait
/// resets it. Since a thread may begin to wait just then and still see it set, a last look comes half a second later,
/// and goes on if there is a wait.
#[derive(Default)]
pub(crate) struct Watching(AtomicBool);

impl Watching {
    /// A thread has begun to wait. True if the caller has to begin the looks.
    #[inline]
    pub(crate) fn begin(&self) -> bool {
        !self.0.load(Ordering::Relaxed) && !self.0.swap(true, Ordering::AcqRel)
    }

    /// A look has found no wait: the looks end, but for a last one.
    pub(crate) fn end(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    /// The last look has found a wait. True if it has to go on; else the waiting thread has begun other looks.
    pub(crate) fn resume(&self) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::sync::AtomicU64;
    use loom::sync::Arc;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// A runtime with one ended wait, which is still watched.
    struct Runtime {
        watching: Watching,
        begun: AtomicU64,
        ended: AtomicU64,
        /// Chains of looks.
        chains: AtomicU64,
    }

    impl Runtime {
        fn waits(&self) -> bool {
            let ended = self.ended.load(Ordering::Acquire);
            self.begun.load(Ordering::Acquire) != ended
        }
    }

    /// A thread begins to wait while a look finds no wait. `has_last` is false in the broken variant: no look comes
    /// after that one.
    fn watched(has_last: bool) {
        let count = AtomicU64::new;
        let all = Arc::new(Runtime {
            watching: Watching(AtomicBool::new(true)),
            begun: count(1),
            ended: count(1),
            chains: count(1),
        });
        let theirs = Arc::clone(&all);
        let thread = loom::thread::spawn(move || {
            theirs.begun.fetch_add(1, Ordering::Release);
            if theirs.watching.begin() {
                theirs.chains.fetch_add(1, Ordering::Relaxed);
            }
        });
        let is_last = !all.waits();
        if is_last {
            all.watching.end();
        }
        // The last look comes half a second later: the thread has begun to wait by then.
        thread.join().unwrap();
        if is_last && (!has_last || !all.watching.resume()) {
            all.chains.fetch_sub(1, Ordering::Relaxed);
        }
        assert_eq!(all.chains.load(Ordering::Relaxed), 1, "a wait is watched, by one chain of looks");
    }

    #[test]
    fn loom_a_wait_that_begins_when_the_watch_ends_is_watched_once() {
        loom::model(|| watched(true));
    }

    #[test]
    fn loom_a_watch_without_a_last_look_is_found() {
        assert!(catch_unwind(AssertUnwindSafe(|| loom::model(|| watched(false)))).is_err());
    }
}
