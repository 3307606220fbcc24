//! Queries of threads, workers and shepherds.

use crate::codes::{BADARGS, NO_SHEPHERD, NO_WORKER, NON_TASK_ID, NOT_ALLOWED, SUCCESS};
use crate::exports;
use crate::fork::{Thread, here};
use crate::library::{self, Library};
use std::mem::size_of;
use std::ptr;
use std::sync::atomic::Ordering;
use vicus::kit::team::{self, CountThreads as _};

fn set_shepherd(to: *mut u16, library: Option<&Library>) {
    // SAFETY: rule "Interface": null, or it can be written.
    if let Some(to) = unsafe { to.as_mut() } {
        *to = library.and_then(Library::worker).map_or(NO_SHEPHERD, |worker| worker.shepherd);
    }
}

fn worker_number(to: *mut u16, number: impl Fn(library::Worker) -> u16) -> u16 {
    let library = library::get();
    set_shepherd(to, library);
    library.and_then(Library::worker).map_or(NO_WORKER, number)
}

/// Steps to the next shepherd.
///
/// # Safety
/// Rule "Interface": null, or it can be read and written.
unsafe fn step(shepherd: *mut u16, forwards: bool) {
    // SAFETY: the caller's promise.
    let (Some(library), Some(shepherd)) = (library::get(), unsafe { shepherd.as_mut() }) else { return };
    let count = library.shepherds.len() as u16;
    *shepherd = match forwards {
        true => (*shepherd % count + 1) % count,
        false => (*shepherd % count + count - 1) % count,
    };
}

/// Threads that run or could run, the main one included. A thread that has given its result could not, although its
/// stack is in use for a while yet.
fn busy(library: &Library) -> usize {
    // Most threads in queues wait for words as well, except new arrivals.
    let waiting = library.runtime().lightweight_threads().1.max(crate::queue::waiting());
    (1 + library.open_threads()).saturating_sub(waiting).max(1) as usize
}

/// Counts a shepherd or one of its workers, or counts it no more.
fn change(library: &Library) {
    let all = library.shepherds.iter().all(|shepherd| shepherd.is_enabled.load(Ordering::Relaxed));
    library.any_disabled.store(!all, Ordering::Relaxed);
}

/// The shepherd of a worker, and its number there.
fn find_worker(library: &Library, worker: u16) -> Option<(&library::Shepherd, u64)> {
    let mut before = 0;
    for shepherd in &library.shepherds {
        if worker < before + shepherd.workers {
            let local = worker - before;
            return (local < 64).then_some((shepherd, 1 << local));
        }
        before += shepherd.workers;
    }
    None
}

/// The questions of `qthread_readstate`, in the header's order.
#[repr(u32)]
enum StateQuestion {
    StackSize,
    RuntimeDataSize,
    Busyness,
    NodeBusyness,
    ActiveShepherds,
    TotalShepherds,
    ActiveWorkers,
    TotalWorkers,
    WorkerOccupation,
    CurrentShepherd,
    CurrentWorker,
    CurrentUniqueWorker,
    CurrentTeam,
    ParentTeam,
}

exports! {
    fn qthread_id() -> u32 {
        here().map_or(NON_TASK_ID, Thread::id)
    }

    fn qthread_shep() -> u16 {
        let is_blocking = here().is_some_and(|thread| thread.is_blocking.get());
        let worker = library::get().and_then(Library::worker).filter(|_| !is_blocking);
        worker.map_or(NO_SHEPHERD, |worker| worker.shepherd)
    }

    fn qthread_worker(shepherd: *mut u16) -> u16 {
        worker_number(shepherd, |worker| worker.unique)
    }

    fn qthread_worker_unique(shepherd: *mut u16) -> u16 {
        worker_number(shepherd, |worker| worker.unique)
    }

    fn qthread_worker_local(shepherd: *mut u16) -> u16 {
        worker_number(shepherd, |worker| worker.local)
    }

    fn qthread_get_tasklocal(bytes: u32) -> *mut libc::c_void {
        let (Some(thread), Some(library)) = (here(), library::get()) else { return ptr::null_mut() };
        thread.locals(bytes.max(library.local_bytes as u32))
    }

    fn qthread_size_tasklocal() -> u32 {
        let (Some(thread), Some(library)) = (here(), library::get()) else { return 0 };
        thread.locals_bytes.get().max(library.local_bytes as u32)
    }

    fn qthread_tos() -> *mut libc::c_void {
        team::stack().map_or(ptr::null_mut(), |stack| ptr::with_exposed_provenance_mut(stack.end))
    }

    fn qthread_bos() -> *mut libc::c_void {
        team::stack().map_or(ptr::null_mut(), |stack| ptr::with_exposed_provenance_mut(stack.start))
    }

    #[inline(never)]
    fn qthread_stackleft() -> usize {
        let here = 0u8;
        let here = ptr::from_ref(&here).addr();
        team::stack().map_or(0, |stack| here.saturating_sub(stack.start))
    }

    fn qthread_retloc() -> *mut u64 {
        here().map_or(ptr::null_mut(), |thread: &Thread| thread.ret.cast())
    }

    fn qthread_shep_ok() -> i32 {
        let Some(library) = library::get() else { return BADARGS };
        match library.worker() {
            Some(worker) => {
                i32::from(library.shepherds[usize::from(worker.shepherd)].is_enabled.load(Ordering::Relaxed))
            }
            None => BADARGS,
        }
    }

    fn qthread_shep_next(shepherd: *mut u16) {
        // SAFETY: rule "Interface": null, or it can be read and written.
        unsafe { step(shepherd, true) }
    }

    fn qthread_shep_prev(shepherd: *mut u16) {
        // SAFETY: rule "Interface": null, or it can be read and written.
        unsafe { step(shepherd, false) }
    }

    fn qthread_shep_next_local(shepherd: *mut u16) {
        // SAFETY: rule "Interface": null, or it can be read and written.
        unsafe { step(shepherd, true) }
    }

    fn qthread_shep_prev_local(shepherd: *mut u16) {
        // SAFETY: rule "Interface": null, or it can be read and written.
        unsafe { step(shepherd, false) }
    }

    fn qthread_distance(from: u16, to: u16) -> i32 {
        let Some(library) = library::get() else { return NOT_ALLOWED };
        let row = library.shepherds.get(usize::from(from)).map(|shepherd| &shepherd.distances);
        row.and_then(|row| row.get(usize::from(to))).copied().unwrap_or(BADARGS)
    }

    fn qthread_sorted_sheps() -> *const u16 {
        let worker = library::get().and_then(Library::worker);
        // SAFETY: the function has no condition.
        worker.map_or(ptr::null(), |worker| unsafe { qthread_sorted_sheps_remote(worker.shepherd) })
    }

    fn qthread_sorted_sheps_remote(from: u16) -> *const u16 {
        let shepherd = library::get().and_then(|library| library.shepherds.get(usize::from(from)));
        let nearest = shepherd.map(|shepherd| &shepherd.nearest).filter(|nearest| !nearest.is_empty());
        nearest.map_or(ptr::null(), |nearest| nearest.as_ptr())
    }

    fn qthread_num_shepherds() -> u16 {
        library::get().map_or(0, |library| library.active().count() as u16)
    }

    fn qthread_num_workers() -> u16 {
        library::get().map_or(0, |library| library.active_workers() as u16)
    }

    fn qthread_num_workers_local(shepherd: u16) -> u16 {
        let shepherd = library::get().and_then(|library| library.shepherds.get(usize::from(shepherd)));
        shepherd.map_or(0, |shepherd| shepherd.active_workers() as u16)
    }

    fn qthread_disable_shepherd(shepherd: u16) -> i32 {
        let Some(library) = library::get() else { return NOT_ALLOWED };
        if shepherd == 0 {
            return NOT_ALLOWED;
        }
        let Some(shepherd) = library.shepherds.get(usize::from(shepherd)) else { return BADARGS };
        shepherd.is_enabled.store(false, Ordering::Relaxed);
        change(library);
        SUCCESS
    }

    fn qthread_enable_shepherd(shepherd: u16) {
        let Some(library) = library::get() else { return };
        if let Some(shepherd) = library.shepherds.get(usize::from(shepherd)) {
            shepherd.is_enabled.store(true, Ordering::Relaxed);
            change(library);
        }
    }

    fn qthread_disable_worker(worker: u16) -> i32 {
        let Some(library) = library::get() else { return NOT_ALLOWED };
        if worker == 0 {
            return NOT_ALLOWED;
        }
        let Some((shepherd, bit)) = find_worker(library, worker) else { return BADARGS };
        let disabled = shepherd.disabled_workers.fetch_or(bit, Ordering::Relaxed) | bit;
        if disabled.count_ones() == u32::from(shepherd.workers) {
            shepherd.is_enabled.store(false, Ordering::Relaxed);
            change(library);
        }
        SUCCESS
    }

    fn qthread_enable_worker(worker: u16) {
        let Some(library) = library::get() else { return };
        if let Some((shepherd, bit)) = find_worker(library, worker) {
            shepherd.disabled_workers.fetch_and(!bit, Ordering::Relaxed);
            shepherd.is_enabled.store(true, Ordering::Relaxed);
            change(library);
        }
    }

    fn qthread_readstate(asked: u32) -> usize {
        let Some(library) = library::get() else { return usize::MAX };
        let worker = library.worker();
        const STACK_SIZE: u32 = StateQuestion::StackSize as u32;
        const RUNTIME_DATA_SIZE: u32 = StateQuestion::RuntimeDataSize as u32;
        const BUSYNESS: u32 = StateQuestion::Busyness as u32;
        const NODE_BUSYNESS: u32 = StateQuestion::NodeBusyness as u32;
        const ACTIVE_SHEPHERDS: u32 = StateQuestion::ActiveShepherds as u32;
        const TOTAL_SHEPHERDS: u32 = StateQuestion::TotalShepherds as u32;
        const ACTIVE_WORKERS: u32 = StateQuestion::ActiveWorkers as u32;
        const TOTAL_WORKERS: u32 = StateQuestion::TotalWorkers as u32;
        const WORKER_OCCUPATION: u32 = StateQuestion::WorkerOccupation as u32;
        const CURRENT_SHEPHERD: u32 = StateQuestion::CurrentShepherd as u32;
        const CURRENT_WORKER: u32 = StateQuestion::CurrentWorker as u32;
        const CURRENT_UNIQUE_WORKER: u32 = StateQuestion::CurrentUniqueWorker as u32;
        const CURRENT_TEAM: u32 = StateQuestion::CurrentTeam as u32;
        const PARENT_TEAM: u32 = StateQuestion::ParentTeam as u32;
        match asked {
            STACK_SIZE => library.stack_bytes,
            RUNTIME_DATA_SIZE => size_of::<Thread>(),
            // Queues are not asked for a shepherd's part: all ready threads are taken to be spread over the shepherds.
            BUSYNESS if worker.is_none() => usize::MAX,
            BUSYNESS => 1 + (busy(library) - 1).div_ceil(library.shepherds.len()),
            NODE_BUSYNESS => busy(library),
            ACTIVE_SHEPHERDS => library.active().count(),
            TOTAL_SHEPHERDS => library.shepherds.len(),
            ACTIVE_WORKERS => library.active_workers(),
            TOTAL_WORKERS => library.all_workers(),
            WORKER_OCCUPATION => busy(library).min(library.all_workers()),
            // SAFETY: the function has no condition.
            CURRENT_SHEPHERD => usize::from(unsafe { qthread_shep() }),
            CURRENT_WORKER => usize::from(worker.map_or(NO_WORKER, |worker| worker.local)),
            CURRENT_UNIQUE_WORKER => usize::from(worker.map_or(NO_WORKER, |worker| worker.unique)),
            CURRENT_TEAM => here().and_then(|thread| thread.team.as_ref()).map_or(1, |team| team.id as usize),
            PARENT_TEAM => here().and_then(|thread| thread.team.as_ref()).map_or(0, |team| team.parent as usize),
            _ => usize::MAX,
        }
    }

    fn qt_team_id() -> u32 {
        here().map_or(0, |thread| thread.team.as_ref().map_or(1, |team| team.id))
    }

    fn qt_team_parent_id() -> u32 {
        here().and_then(|thread| thread.team.as_ref()).map_or(0, |team| team.parent)
    }

    fn qthread_cacheline() -> i32 {
        // SAFETY: rule "System": a name that the system knows.
        let bytes = unsafe { libc::sysconf(libc::_SC_LEVEL1_DCACHE_LINESIZE) };
        if bytes > 0 { bytes as i32 } else { 64 }
    }

    fn qthread_flushsc() {}
}
