//! Threads that wait for a stack.

use crate::threads::core::Core;
use crate::threads::fibres::{of_worker, of_worker_if_any};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use vicus_fibres::{CLASSES, Class};
use vicus_machine::layer::{RuntimeState, Worker, in_task};
use vicus_schedule::TaskRef;

/// Threads taken out of their queues and waiting for a stack.
static STARVED: Mutex<VecDeque<(Arc<RuntimeState>, TaskRef)>> = Mutex::new(VecDeque::new());
static STARVING: AtomicUsize = AtomicUsize::new(0);

/// How many threads of a runtime wait for a stack.
pub(crate) fn starved_of(runtime: &RuntimeState) -> usize {
    let starved = STARVED.lock().expect("nothing panics under this lock");
    starved.iter().filter(|(shared, _)| std::ptr::eq(Arc::as_ptr(shared), runtime)).count()
}

/// There is no stack for this thread: it begins when another thread has ended.
#[cold]
pub(crate) fn starve(task: TaskRef, class: Class) {
    let shared = in_task(|worker| Arc::clone(&worker.shared));
    let mut starved = STARVED.lock().expect("nothing panics under this lock");
    starved.push_back((shared, task));
    STARVING.store(starved.len(), Ordering::SeqCst);
    drop(starved);
    // One may have been given back meanwhile.
    if in_task(|worker| has_stack(worker, class)) {
        serve_starved();
    }
}

/// Whether the seat has a stack of this class, or can get one.
fn has_stack(worker: &mut Worker, class: Class) -> bool {
    let stacks = &mut of_worker(worker).stacks;
    stacks.take(class).map(|fibre| stacks.give(fibre)).is_some()
}

/// A stack was given back: a thread waiting for one may begin.
#[inline]
pub(crate) fn serve_starved() {
    if are_starving() {
        serve_one_starved();
    }
}

/// The calling thread's seat is about to sleep: others may want its stacks.
pub(crate) fn give_stacks() {
    in_task(|worker| of_worker_if_any(worker).map(|own| own.stacks.give_all()));
    serve_starved();
}

/// Whether a thread waits for a stack.
#[inline]
pub(crate) fn are_starving() -> bool {
    STARVING.load(Ordering::Relaxed) > 0
}

#[cold]
fn serve_one_starved() {
    let mut starved = STARVED.lock().expect("nothing panics under this lock");
    let mut asked = [false; CLASSES];
    let mut is_next = |(_, task): &(Arc<RuntimeState>, TaskRef)| {
        let class = Core::class(*task);
        let was_asked = std::mem::replace(&mut asked[class.index()], true);
        !was_asked && in_task(|worker| has_stack(worker, class))
    };
    // The first one with memory for its stack: others wait for larger ones.
    let first = starved.iter().position(&mut is_next).and_then(|at| starved.remove(at));
    STARVING.store(starved.len(), Ordering::SeqCst);
    drop(starved);
    // Other seats may take it.
    in_task(|worker| of_worker(worker).stacks.give_all());
    if let Some((shared, task)) = first {
        shared.put_task_at_entry(task);
    }
}
