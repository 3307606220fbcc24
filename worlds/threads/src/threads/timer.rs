//! Time for lightweight threads: one thread of the process wakes the sleeping ones.

use crate::threads::counts::Threads;
use crate::threads::fibres::{self, Fibre};
use crate::threads::here::unwind_if_told;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};
use vicus_machine::layer::{EndSignal, in_task, is_seated};

/// Waits for this time. A lightweight thread is suspended meanwhile, a task's or box's thread runs other tasks, and a
/// thread of the system sleeps.
///
/// ```
/// use std::time::{Duration, Instant};
/// use vicus_machine::MachineRuntime;
///
/// let (runtime, began) = (MachineRuntime::builder().threads(1).start(), Instant::now());
/// runtime.run(|| {
///     let sleeper = |_| vicus_threads::spawn(|| vicus_threads::sleep(Duration::from_millis(20)));
///     let sleepers: Vec<_> = (0..100).map(sleeper).collect();
///     sleepers.into_iter().for_each(|thread| thread.join().unwrap());
/// });
/// assert!(began.elapsed() >= Duration::from_millis(20) && began.elapsed() < Duration::from_millis(2000));
/// ```
pub fn sleep(long: Duration) {
    let until = Instant::now().checked_add(long);
    let timer = if is_seated() { timer() } else { None };
    let (Some(until), Some(timer)) = (until, timer) else { return std::thread::sleep(long) };
    let Some(fibre) = fibres::current() else {
        let done = EndSignal::new();
        timer.add(until, Call::Set(Arc::clone(&done)));
        return done.wait(None);
    };
    // The thread may end its sleep on another seat.
    let sleepers = in_task(|worker| Arc::clone(&worker.shared));
    let threads = Threads::of(&sleepers);
    threads.begin_sleep();
    let mut is_set = false;
    // When the thread is told to end, the timer wakes the fibre later, with any thread on it then, and that thread
    // checks its wait condition once more.
    while Instant::now() < until && !fibre.is_told_to_end() {
        if !std::mem::replace(&mut is_set, true) {
            timer.add(until, Call::Wake(fibre));
        }
        fibre.suspend();
    }
    in_task(|worker| worker.recorder.observe_tasks());
    threads.end_sleep();
    unwind_if_told();
}

/// An action at a time.
pub(crate) enum Call {
    Wake(&'static Fibre),
    Set(Arc<EndSignal>),
    /// Called on its thread.
    Run(Box<dyn FnOnce() + Send>),
}

/// Things to do at their times.
pub(crate) struct Timer {
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
pub(crate) fn timer() -> Option<&'static Timer> {
    static TIMER: OnceLock<Option<&'static Timer>> = OnceLock::new();
    *TIMER.get_or_init(|| {
        let timer: &'static Timer =
            Box::leak(Box::new(Timer { due: Mutex::new(BinaryHeap::new()), changed: Condvar::new() }));
        let thread = std::thread::Builder::new().name("vicus timer".to_owned()).stack_size(256 << 10);
        thread.spawn(|| timer.run()).ok().map(|_| timer)
    })
}

impl Timer {
    pub(crate) fn add(&self, at: Instant, call: Call) {
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
