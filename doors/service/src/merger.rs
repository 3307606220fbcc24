//! Merging a store's changes in the background.
//!
//! ```text
//!  commit ──told──▶ merger's thread:  due? ── merge:  │ slice │ … │ slice │ … │ publish
//!                                                         │           │
//!                   a seat:                           box waits    box waits       between them, earlier requests
//! ```
//!
//! A merge works in *slices* of a few milliseconds. Each is a request of its own, whose box waits on its seat while the
//! merger's thread works: so a merge takes no more of the machine than one seat, and since older requests go first,
//! calls waiting at the end of a slice go before the next one. Writers wait for a merge only while it publishes its
//! result.

use crate::service::Service;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vicus::{BoxError, BoxModel, Model, ModelBuilder, Schema, Turn, Type, give_up};
use vicus_store::{CommitWatch, Store, StoreError};

/// How long a slice works before others have their turn.
const SLICE: Duration = Duration::from_millis(2);

/// A slice gives its seat back after this time, even if its work waits for a writer and is not over.
const LONGEST_SLICE: Duration = Duration::from_millis(10);

/// The store is looked at this long after a commit, so many commits are one look.
const LOOK: Duration = Duration::from_millis(50);

/// Without commits for this time, fewer changes are enough for a merge than while they come.
const IDLE: Duration = Duration::from_secs(1);

/// When a merge has failed, the next one is tried after this time, then after twice as long, up to the longest.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(64);

/// Merges a store's changes in the background when it [pays](Store::is_merge_due), or, when no more have come for a
/// second, already when there are [some](Store::is_merge_due_when_idle): reading beside changes takes longer than
/// without, and so does opening.
///
/// It holds the service and the store. Dropping it stops a merge under way and leaves the data as it is; the dropping
/// thread must have no transaction open, because the merge may wait for its end.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use vicus::Runtime;
/// use vicus_service::{MemoryBudget, Service, create_store};
///
/// let folder = std::env::temp_dir().join(format!("vicus-merger-{}", std::process::id()));
/// let store = Arc::new(create_store(&folder)?);
/// let service = Service::new(Runtime::builder().threads(2).start(), MemoryBudget::new(64 << 20));
/// let merger = service.keep(&store)?;
/// // Transactions of any threads come here.
/// assert!(merger.kept().failed.is_none());
/// drop(merger);
/// # drop(store);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StoreMerger {
    shared: Arc<Shared>,
    /// Tells of commits.
    watch: Option<CommitWatch>,
    thread: Option<JoinHandle<()>>,
}

/// The work of a [`StoreMerger`].
#[derive(Clone, Debug, Default)]
pub struct MergerWork {
    /// How many merges it has finished.
    pub merges: u64,
    /// Why the last merge failed, until one succeeds. The store is as it was, and the merge is tried again.
    pub failed: Option<StoreError>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether something was committed since the thread has looked.
    is_told: AtomicBool,
}

#[derive(Default)]
struct State {
    is_closing: bool,
    /// The number of the slice that works or waits for its seat; ended slices have lower numbers.
    slice: u64,
    /// The number of the last slice that has got its seat.
    seated: u64,
    kept: MergerWork,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until the merger closes, or as long as this; whether it closes.
    fn sleep(&self, long: Duration) -> bool {
        self.wait(Some(long), |_| false)
    }

    /// Sleeps until something is true, the merger closes, or as long as this; whether it closes.
    fn wait(&self, long: Option<Duration>, is_true: impl Fn(&State) -> bool) -> bool {
        let goes_on = |state: &mut State| !state.is_closing && !is_true(state);
        let state = self.lock();
        match long {
            None => self.changed.wait_while(state, goes_on).unwrap_or_else(PoisonError::into_inner).is_closing,
            Some(long) => {
                let woken = self.changed.wait_timeout_while(state, long, goes_on);
                woken.unwrap_or_else(PoisonError::into_inner).0.is_closing
            }
        }
    }

    /// A commit is there.
    fn tell(&self) {
        if !self.is_told.swap(true, Ordering::AcqRel) {
            // Waits for a thread between its look and its sleep: it has this lock.
            drop(self.lock());
            self.changed.notify_all();
        }
    }
}

impl StoreMerger {
    pub(crate) fn new(service: &Service, store: &Arc<Store>) -> io::Result<StoreMerger> {
        let shared = Arc::new(Shared::default());
        let thread = {
            let (service, store, shared) = (service.clone(), Arc::clone(store), Arc::clone(&shared));
            std::thread::Builder::new()
                .name("vicus merger".to_owned())
                .spawn(move || work(&service, &store, &shared))?
        };
        let told = Arc::clone(&shared);
        let watch = store.watch(Arc::new(move || told.tell()));
        // Changes from before.
        shared.tell();
        Ok(StoreMerger { shared, watch: Some(watch), thread: Some(thread) })
    }

    /// Its work so far.
    pub fn kept(&self) -> MergerWork {
        self.shared.lock().kept.clone()
    }

    /// Waits until `is_true` of its work, at most for `at_most`; returns whether it is.
    pub fn wait_until(&self, at_most: Duration, is_true: impl Fn(&MergerWork) -> bool) -> bool {
        self.shared.wait(Some(at_most), |state| is_true(&state.kept));
        is_true(&self.kept())
    }
}

impl Drop for StoreMerger {
    fn drop(&mut self) {
        drop(self.watch.take());
        self.shared.lock().is_closing = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic was one of ours, and is on standard error.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for StoreMerger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreMerger").field(&self.kept()).finish()
    }
}

fn work(service: &Service, store: &Store, shared: &Arc<Shared>) {
    let mut retry = RETRY;
    loop {
        if shared.wait(None, |_| shared.is_told.load(Ordering::Acquire)) || shared.sleep(LOOK) {
            return;
        }
        shared.is_told.store(false, Ordering::Release);
        if !store.is_merge_due() {
            if !store.is_merge_due_when_idle() {
                continue;
            }
            if shared.wait(Some(IDLE), |_| shared.is_told.load(Ordering::Acquire)) {
                return;
            }
            if shared.is_told.load(Ordering::Acquire) {
                continue;
            }
        }
        let outcome = merge(service, store, shared);
        let is_failed = outcome.is_err();
        {
            let mut state = shared.lock();
            match outcome {
                Ok(is_merged) => {
                    state.kept.merges += u64::from(is_merged);
                    state.kept.failed = None;
                }
                Err(_) if state.is_closing => return,
                Err(error) => state.kept.failed = Some(error),
            }
        }
        shared.changed.notify_all();
        match is_failed {
            false => retry = RETRY,
            true => {
                if shared.sleep(retry) {
                    return;
                }
                retry = (2 * retry).min(LONGEST_RETRY);
                shared.is_told.store(true, Ordering::Release);
            }
        }
    }
}

/// One merge, in slices.
fn merge(service: &Service, store: &Store, shared: &Arc<Shared>) -> Result<bool, StoreError> {
    let mut slices = Slices { service, shared, model: model(shared), since: Instant::now() };
    match slices.next() {
        Ok(()) => store.merge(&mut |_| slices.pause()),
        Err(Closing) => Ok(false),
    }
}

/// The merger is dropped.
#[derive(Debug)]
struct Closing;

impl fmt::Display for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the merge was stopped")
    }
}

impl std::error::Error for Closing {}

struct Slices<'a> {
    service: &'a Service,
    shared: &'a Arc<Shared>,
    model: Arc<Model>,
    /// When this one has got its seat.
    since: Instant,
}

impl Slices<'_> {
    /// Lets others work, if this slice has worked for long enough.
    fn pause(&mut self) {
        if self.since.elapsed() >= SLICE
            && let Err(closing) = self.next()
        {
            // Unwinds out of the merge, which gives up its work.
            give_up(closing);
        }
    }

    /// Ends this slice, and waits for the seat of the next one.
    fn next(&mut self) -> Result<(), Closing> {
        let number = self.end();
        // It runs without its handle.
        drop(self.service.runtime().submit(&self.model));
        let is_closing = self.shared.wait(None, |state| state.seated == number);
        self.since = Instant::now();
        if is_closing { Err(Closing) } else { Ok(()) }
    }

    /// Ends this slice, and returns the number of the next one.
    fn end(&self) -> u64 {
        let next = {
            let mut state = self.shared.lock();
            state.slice += 1;
            state.slice
        };
        self.shared.changed.notify_all();
        next
    }
}

impl Drop for Slices<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// The request of a slice: its box waits on its seat until the slice has ended.
fn model(shared: &Arc<Shared>) -> Arc<Model> {
    let shared = Arc::clone(shared);
    let mut net = ModelBuilder::new("merge");
    let slice = BoxModel::new("slice", move || {
        let shared = Arc::clone(&shared);
        move |_: &mut Turn<'_>| -> Result<(), BoxError> {
            let number = {
                let mut state = shared.lock();
                state.seated = state.slice;
                state.slice
            };
            shared.changed.notify_all();
            shared.wait(Some(LONGEST_SLICE), |state| state.slice != number);
            Ok(())
        }
    });
    let slice = net.source(slice.output(&Schema::new([("nothing", Type::U64)])));
    net.end(slice.output(0));
    net.build().expect("one box is a network")
}
