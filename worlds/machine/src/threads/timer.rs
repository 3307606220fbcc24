//! Time for lightweight threads: one thread of the process wakes the sleeping ones.

use crate::runtime::awaited::Awaited;
use crate::runtime::done::Done;
use crate::runtime::worker::{in_task, is_seated, wait};
use crate::threads::fibres::{self, Fibre};
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Waits for this time. A lightweight thread is suspended meanwhile, a task's or box's thread runs other tasks, and a
/// thread of the system sleeps.
///
/// ```
/// use std::time::{Duration, Instant};
/// use vicus_machine::{Runtime, threads};
///
/// let (runtime, began) = (Runtime::builder().threads(1).start(), Instant::now());
/// runtime.run(|| {
///     let sleepers: Vec<_> = (0..100).map(|_| threads::spawn(|| threads::sleep(Duration::from_millis(20)))).collect();
///     sleepers.into_iter().for_each(|thread| thread.join().unwrap());
/// });
/// assert!(began.elapsed() >= Duration::from_millis(20) && began.elapsed() < Duration::from_millis(2000));
/// ```
pub fn sleep(long: Duration) {
    let until = Instant::now().checked_add(long);
    let timer = if is_seated() { timer() } else { None };
    let (Some(until), Some(timer)) = (until, timer) else { return std::thread::sleep(long) };
    let Some(fibre) = fibres::current() else {
        let done = Done::new();
        timer.add(until, Call::Set(Arc::clone(&done)));
        return done.wait(None);
    };
    // The thread may end its sleep on another seat.
    let sleepers = in_task(|worker| Arc::clone(&worker.shared));
    sleepers.threads_here.begin_sleep();
    wait(None, &Sleep { until, fibre, timer, is_set: Cell::new(false), is_over: Cell::new(false) });
    sleepers.threads_here.end_sleep();
    super::unwind_if_told();
}

/// A fibre waiting for a time.
struct Sleep {
    until: Instant,
    fibre: &'static Fibre,
    timer: &'static Timer,
    is_set: Cell<bool>,
    is_over: Cell<bool>,
}

impl Awaited for Sleep {
    fn is_done(&self) -> bool {
        self.is_over.get() || Instant::now() >= self.until
    }

    fn announce_sleep(&self) -> bool {
        if !self.is_set.replace(true) {
            self.timer.add(self.until, Call::Wake(self.fibre));
        }
        true
    }

    fn withdraw(&self) -> bool {
        // The timer wakes the fibre later, with any thread on it then, and this thread checks its wait condition once
        // more.
        self.is_over.set(true);
        true
    }
}

/// An action at a time.
pub(super) enum Call {
    Wake(&'static Fibre),
    Set(Arc<Done>),
    /// Called on its thread.
    Run(Box<dyn FnOnce() + Send>),
}

/// Things to do at their times.
pub(super) struct Timer {
    due: Mutex<BinaryHeap<Due>>,
    changed: Condvar,
}

struct Due {
    at: Instant,
    call: Call,
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.at == other.at
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The earliest is the greatest.
impl Ord for Due {
    fn cmp(&self, other: &Due) -> Ordering {
        other.at.cmp(&self.at)
    }
}

/// The process's timer; `None` if there is no thread to be had.
pub(super) fn timer() -> Option<&'static Timer> {
    static TIMER: OnceLock<Option<&'static Timer>> = OnceLock::new();
    *TIMER.get_or_init(|| {
        let timer: &'static Timer =
            Box::leak(Box::new(Timer { due: Mutex::new(BinaryHeap::new()), changed: Condvar::new() }));
        let thread = std::thread::Builder::new().name("vicus timer".to_owned()).stack_size(256 << 10);
        thread.spawn(|| timer.run()).ok().map(|_| timer)
    })
}

impl Timer {
    pub(super) fn add(&self, at: Instant, call: Call) {
        let mut due = self.due.lock().expect("nothing panics under this lock");
        let is_first = due.peek().is_none_or(|first| at < first.at);
        due.push(Due { at, call });
        drop(due);
        if is_first {
            self.changed.notify_one();
        }
    }

    fn run(&'static self) {
        let mut due = self.due.lock().expect("nothing panics under this lock");
        loop {
            let now = Instant::now();
            let Some(first) = due.peek() else {
                due = self.changed.wait(due).expect("nothing panics under this lock");
                continue;
            };
            if first.at > now {
                let long = first.at - now;
                due = self.changed.wait_timeout(due, long).expect("nothing panics under this lock").0;
                continue;
            }
            let Some(Due { call, .. }) = due.pop() else { continue };
            drop(due);
            match call {
                Call::Wake(fibre) => fibre.wake(),
                Call::Set(done) => done.set(),
                Call::Run(run) => run(),
            }
            due = self.due.lock().expect("nothing panics under this lock");
        }
    }
}
