//! How the threads of a runtime start together.

use std::sync::{Condvar, Mutex};

/// Where threads wait for each other when a runtime starts. No `Barrier`, because their number is not known yet:
/// the system may refuse some.
#[derive(Default)]
pub(crate) struct Gate {
    /// How many have come, and whether they may go on.
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gate {
    /// Waits until it is open.
    pub(crate) fn pass(&self) {
        let mut state = self.state.lock().expect("nothing panics under this lock");
        state.0 += 1;
        self.changed.notify_all();
        let _open = self.changed.wait_while(state, |(_, open)| !*open).expect("nothing panics under this lock");
    }

    /// Opens it when this number of threads have come.
    pub(crate) fn open_for(&self, threads: usize) {
        let state = self.state.lock().expect("nothing panics under this lock");
        let come = self.changed.wait_while(state, |(come, _)| *come < threads);
        come.expect("nothing panics under this lock").1 = true;
        self.changed.notify_all();
    }
}
