//! The threads and the memory for all calls of a process.

use crate::budget::MemoryBudget;
use crate::cancel::Cancel;
use crate::error::Error;
use crate::keeper::Keeper;
use crate::load::{Dataset, Loading};
use crate::session::{Session, SessionOptions};
use crate::timer::Timer;
use crate::update::{self, CheckedUpdate, NotStored, StoreUpdate, Updated, Updating};
use std::sync::Arc;
use std::{fmt, io};
use vicus::kit::Log;
use vicus::trace::Trace;
use vicus::{Runtime, RuntimeBuilder};
use vicus_rdf::load::{LoadOptions, Source};
use vicus_store::Store;

/// Threads for answers, and the memory for the calls they answer. A clone is the same service.
///
/// ```
/// use vicus::Runtime;
/// use vicus_rdf::load::{LoadOptions, Source, Syntax};
/// use vicus_service::{Cancel, Format, MemoryBudget, Service, SessionOptions};
///
/// let service = Service::new(Runtime::builder().threads(2).start(), MemoryBudget::new(64 << 20));
/// let data = &b"<http://e/ann> <http://e/age> 27 . <http://e/bob> <http://e/age> 31 ."[..];
/// let sources = vec![Source::new("people", Syntax::Turtle, data)];
/// let loaded = service.load(sources, LoadOptions::default(), &Cancel::new()).finish()?;
///
/// let session = service.session(&loaded.dataset, SessionOptions::default());
/// let text = "SELECT ?age { <http://e/ann> <http://e/age> ?age }";
/// let (csv, outcome) = session.write(text, Format::Csv, Vec::new())?;
/// assert_eq!((csv.as_slice(), outcome.rows), (&b"age\r\n27\r\n"[..], 1));
/// # Ok::<(), vicus_service::Error>(())
/// ```
#[derive(Clone)]
pub struct Service(Arc<Inner>);

struct Inner {
    /// Ends before the runtime, because it cancels the runtime's requests.
    timer: Timer,
    runtime: Runtime,
    memory: Arc<MemoryBudget>,
}

impl Service {
    /// A service with these threads; its calls together hold at most `memory`.
    pub fn new(runtime: Runtime, memory: Arc<MemoryBudget>) -> Service {
        if let Some(process) = runtime.memory() {
            memory.bounds_waiting_in(process);
        }
        Service(Arc::new(Inner { timer: Timer::default(), runtime, memory }))
    }

    /// Its threads.
    pub fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }

    /// Its clock, which ends calls at their time limit.
    pub(crate) fn timer(&self) -> &Timer {
        &self.0.timer
    }

    /// The memory for all its calls together.
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        &self.0.memory
    }

    /// Begins to load sources: as many at once as there are threads, over the threads' nodes. Memory for loading is no
    /// part of the [memory](Service::memory) of calls.
    pub fn load(&self, sources: Vec<Source>, options: LoadOptions, cancel: &Cancel) -> Loading {
        Loading::begin(self, sources, options, cancel)
    }

    /// A session of calls to a dataset, with shared options.
    pub fn session(&self, dataset: &Dataset, options: SessionOptions) -> Session {
        Session::new(self.clone(), dataset.clone(), Arc::new(options))
    }

    /// Carries out an update, all of it or nothing: see [`Updating`]. Its patterns are answered by the service's
    /// threads, as calls are, and the options' limits hold for the whole.
    ///
    /// # Errors
    /// The errors of [`Session::answer`]; or an operation can't be carried out. Changes up to then must be given up.
    pub fn update(&self, text: &str, data: &mut dyn Updating, options: SessionOptions) -> Result<Updated, Error> {
        update::run(self, text, data, options)
    }

    /// Carries out an update of a store, all of it or nothing, so that it is durable, and visible to others. An update
    /// that reads no data, such as INSERT DATA and DELETE DATA without blank nodes, waits for no other update, and
    /// shares its sync with all updates of its kind at that time.
    ///
    /// # Errors
    /// As [`Service::update`]; or the store can't be changed.
    pub fn update_store(&self, text: &str, store: &Store, options: SessionOptions) -> Result<StoreUpdate, NotStored> {
        update::run_in_store(self, text, store, options)
    }

    /// The variant of [`Service::update_store`] for a text that [`check_update`](crate::check_update) has read with the
    /// same options.
    ///
    /// # Errors
    /// As [`Service::update_store`].
    pub fn update_store_checked(
        &self,
        checked: CheckedUpdate,
        store: &Store,
        options: SessionOptions,
    ) -> Result<StoreUpdate, NotStored> {
        update::run_checked_in_store(self, checked, store, options)
    }

    /// Merges a store's changes in the background from now on, a slice at a time on one of its threads, behind the
    /// calls that are there: see [`Keeper`].
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn keep(&self, store: &Arc<Store>) -> io::Result<Keeper> {
        Keeper::new(self, store)
    }

    /// Its threads, if no clone of it, no session and no keeper is left.
    pub fn into_runtime(self) -> Option<Runtime> {
        Arc::into_inner(self.0).map(|inner| inner.runtime)
    }

    /// A service with threads of its own, as many and by the same plan, that record what they do: for one call whose
    /// run is to be shown. A recording grows, so the threads for all calls record nothing. `None` if the system gives
    /// no more threads.
    pub fn recorder(&self) -> Option<Service> {
        let plan = self.runtime().plan().clone();
        let builder: RuntimeBuilder = Runtime::builder().plan(plan).record(Log::DEFAULT_ROOM).quiet();
        Some(Service::new(builder.try_start().ok()?, Arc::clone(self.memory())))
    }

    /// Ends the threads of a [recorder](Service::recorder); their recording, if no clone, no session and no keeper is
    /// left.
    pub fn recorded(self) -> Option<Trace> {
        self.into_runtime()?.trace()
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("memory", self.memory()).finish_non_exhaustive()
    }
}
