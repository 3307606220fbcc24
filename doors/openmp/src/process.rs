//! The process: the start and the end of threads, and their fate in a forked child.

use crate::settings;
use crate::team::Pool;
use crate::thread::{self, Thread};
use crate::wait::{Guarded, Lock};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Starts a detached thread of a region, on this processor if one is given. Signals of the process are handled by other
/// threads.
pub(crate) fn start_thread(
    argument: *const libc::c_void,
    function: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void,
    on: Option<usize>,
) -> io::Result<()> {
    let error = |code: libc::c_int| if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) };
    // SAFETY: rule "System": attributes, masks and the number are values of this function, each initialized by the call
    // before its use. `Pool::grow` gives `function` the argument it expects.
    unsafe {
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        error(libc::pthread_attr_init(attributes.as_mut_ptr()))?;
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
        if let Some(bytes) = settings::get().stack_bytes {
            let code = libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), bytes.max(libc::PTHREAD_STACK_MIN));
            if code != 0 {
                settings::complain(&format!("a stack of {bytes} bytes can't be had"));
            }
        }
        if let Some(on) = on {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(on, &mut one);
            libc::pthread_attr_setaffinity_np(attributes.as_mut_ptr(), size_of::<libc::cpu_set_t>(), &raw const one);
        }
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let mut id = MaybeUninit::<libc::pthread_t>::uninit();
        let mut code = libc::pthread_create(id.as_mut_ptr(), attributes.as_ptr(), function, argument.cast_mut());
        if code != 0 && on.is_some() {
            // The first processor is a wish: the system may refuse it alone, to a sandbox for instance.
            libc::pthread_attr_setaffinity_np(attributes.as_mut_ptr(), 0, ptr::null());
            code = libc::pthread_create(id.as_mut_ptr(), attributes.as_ptr(), function, argument.cast_mut());
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        error(code)
    }
}

/// The key with a destructor for each thread's end.
fn key() -> Option<libc::pthread_key_t> {
    static KEY: Once<Option<libc::pthread_key_t>> = Once::new();
    *KEY.get_or(|| {
        let mut key = 0;
        // SAFETY: rule "System": the key has room here, and `ends` is a destructor for the values of `watch_end`.
        (unsafe { libc::pthread_key_create(&raw mut key, Some(ends)) } == 0).then_some(key)
    })
}

/// Frees the library's state of a thread when it ends.
pub(crate) fn watch_end(thread: *mut Thread) {
    if let Some(key) = key() {
        // SAFETY: rule "System": the key was made by `key`. The system only keeps the address.
        unsafe { libc::pthread_setspecific(key, thread.cast_const().cast()) };
    }
}

unsafe extern "C" fn ends(thread: *mut libc::c_void) {
    // SAFETY: rule "Thread": the value that `watch_end` has set, the ending thread's own.
    let thread = unsafe { &mut *thread.cast::<Thread>() };
    thread::ends();
    if thread.team().nesting.level.get() > 0 && thread.is_seated {
        // The thread ends inside of a region, by `pthread_exit`: others may still look at its state.
        return;
    }
    leave_pools(std::mem::take(&mut thread.pools));
    for (variable, own) in std::mem::take(&mut thread.private) {
        if !std::ptr::eq(variable, own) {
            // SAFETY: rule "System": `kmpc` has got the copy by `malloc`, and the list with it is gone.
            unsafe { libc::free(own.cast()) };
        }
    }
    crate::tasks::forget_events(std::mem::take(&mut thread.tasking.awaited));
    thread.tasking.memory.clear();
    // Later destructors of the program may come back. Then the thread has a new record.
    thread::forget();
    // SAFETY: rule "Thread": the thread ends, and its word is reset, so nothing leads to its state any more. At level 0
    // its team is the one leaked in `Thread::new`: a region of one thread that has not ended would have its team in
    // `serialized`.
    unsafe {
        if thread.team().nesting.level.get() == 0 && thread.serialized.is_empty() {
            drop(Box::from_raw(thread.team.cast_mut()));
        }
        drop(Box::from_raw(ptr::from_mut(thread)));
    }
}

/// The threads and teams of ended threads, for new ones; the oldest first.
static LEFT: Guarded<Vec<Vec<Pool>>> = Guarded::new(Vec::new());

/// The most threads kept, for each processor and at least. The latest pool is kept at any size: a program may begin one
/// thread after the other, each with a region.
const KEPT_EACH: usize = 4;
const KEPT_LEAST: usize = 32;

fn leave_pools(pools: Vec<Pool>) {
    if pools.is_empty() {
        return;
    }
    let most = KEPT_LEAST.max(KEPT_EACH * settings::processors() as usize);
    let ended = LEFT.with(|left| {
        left.push(pools);
        let costs = left.iter().rev().map(|pools| pools.iter().map(Pool::cost).sum::<usize>());
        let mut all = 0;
        let kept = costs.take_while(|cost| {
            all += cost;
            all <= most
        });
        let kept = kept.count().max(1);
        left.drain(..left.len() - kept).collect::<Vec<_>>()
    });
    ended.into_iter().flatten().for_each(Pool::end);
}

/// Ends the threads kept for the next regions of the calling thread, and of ended threads. `false` in a region: nothing
/// is done.
pub(crate) fn release() -> bool {
    let thread = thread::here();
    if thread.depth > 0 || thread.team().nesting.level.get() > 0 || thread.is_seated {
        return false;
    }
    let left = LEFT.with(std::mem::take);
    left.into_iter().flatten().chain(std::mem::take(&mut thread.pools)).for_each(Pool::end);
    true
}

/// The threads and teams of one ended thread.
pub(crate) fn left_pools() -> Vec<Pool> {
    LEFT.with(Vec::pop).unwrap_or_default()
}

/// In a child there is one thread, and it has never had a region.
pub(crate) fn watch_forks() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if !IS_WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: rule "System": the functions are there as long as the process, since no library with them is
        // unloaded.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(forked)) };
    }
}

/// The lock around a look at the machine and the reading of settings. The standard library takes locks of its
/// own there, and a child would find them held if the process were forked meanwhile. `LOOKS` is the holder; 0:
/// none.
static LOOKING: Lock = Lock::new();
static LOOKS: AtomicUsize = AtomicUsize::new(0);

/// A value found once, while the process is not forked. In a forked child, `OnceLock` by itself would wait for the
/// parent's thread that was finding the value.
pub(crate) struct Once<T>(OnceLock<T>);

impl<T> Once<T> {
    pub(crate) const fn new() -> Once<T> {
        Once(OnceLock::new())
    }

    #[inline]
    pub(crate) fn get_or(&self, find: impl FnOnce() -> T) -> &T {
        self.0.get().unwrap_or_else(|| self.find(find))
    }

    #[cold]
    #[inline(never)]
    fn find(&self, find: impl FnOnce() -> T) -> &T {
        unforked(|| self.0.get_or_init(find))
    }
}

/// Calls `f` while the process is not forked.
pub(crate) fn unforked<R>(f: impl FnOnce() -> R) -> R {
    // Each thread has its own.
    // SAFETY: rule "System": no argument.
    let own = unsafe { libc::__errno_location() }.addr();
    if LOOKS.load(Ordering::Relaxed) == own {
        return f();
    }
    LOOKING.with(|| {
        LOOKS.store(own, Ordering::Relaxed);
        let result = f();
        LOOKS.store(0, Ordering::Relaxed);
        result
    })
}

extern "C" fn before_fork() {
    LOOKING.lock();
    crate::placed::lock_for_fork();
}

extern "C" fn after_fork() {
    crate::placed::unlock_after_fork();
    LOOKING.unlock();
}

extern "C" fn forked() {
    LOOKS.store(0, Ordering::Relaxed);
    LOOKING.init();
    crate::placed::begin_anew();
    crate::sections::begin_anew();
    crate::intense::begin_anew();
    crate::learned::begin_anew();
    crate::checks::begin_anew();
    crate::report::leave_to_parent();
    thread::BUSY.store(0, Ordering::Relaxed);
    // The old record is left as it is, its teams and their threads' docks as well.
    LEFT.begin_anew();
    crate::records::begin_anew();
    thread::begin_anew();
}
