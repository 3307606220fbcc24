//! The service of a process: threads for all databases that ask for no number of their own.
//!
//! A forked child has none of its parent's threads. What was made in the parent is refused there, and what is made anew
//! gets a service of the child.

use crate::errors::{Failure, Outcome};
use crate::wait::without_interpreter;
use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use vicus::kit::machine::MachineRuntime;
use vicus::trace::Trace;
use vicus::{Runtime, environment};
use vicus_service::{MemoryBudget, Service};

/// A service, and the process that has its threads.
#[derive(Clone)]
pub(crate) struct Threads {
    service: Option<Arc<Service>>,
    process: u32,
    /// The key of hashes: as the environment says, or else by chance.
    pub(crate) hash_seed: u64,
}

static OF_PROCESS: Mutex<Option<Threads>> = Mutex::new(None);

/// The most threads that can be asked for.
const MOST: usize = 1024;

impl Threads {
    /// A service with so many threads, or that of the process.
    pub(crate) fn new(threads: Option<usize>) -> Outcome<Threads> {
        if threads.is_some() {
            return Threads::start(threads);
        }
        let mut shared = OF_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(threads) = shared.as_ref().filter(|threads| threads.process == std::process::id()) {
            return Ok(threads.clone());
        }
        let threads = Threads::start(None)?;
        // The parent's threads are not here to be waited for.
        std::mem::forget(shared.replace(threads.clone()));
        Ok(threads)
    }

    fn start(threads: Option<usize>) -> Outcome<Threads> {
        if threads.is_some_and(|threads| !(1..=MOST).contains(&threads)) {
            return Err(Failure::argument(format_args!("threads is a number from 1 to {MOST}")));
        }
        let builder = Runtime::builder();
        let builder = threads.map_or(builder.clone(), |threads| builder.threads(threads));
        let runtime = builder.try_start().map_err(|error| Failure::new("SystemError", error))?;
        let hash_seed = match environment::hash_seed() {
            Some(seed) => seed.map_err(Failure::argument)?,
            None => RandomState::new().hash_one(0),
        };
        let service = Some(Arc::new(Service::new(runtime, MemoryBudget::new(u64::MAX))));
        Ok(Threads { service, process: std::process::id(), hash_seed })
    }

    /// The service, in the process that has its threads.
    pub(crate) fn service(&self) -> Outcome<&Service> {
        match &self.service {
            Some(service) if self.is_here() => Ok(service),
            _ => Err(Failure::new(
                "ForkError",
                "this was made in another process, and a forked child has none of its threads: open it anew there",
            )),
        }
    }

    /// Refuses a forked child.
    pub(crate) fn check_here(&self) -> Outcome {
        self.service().map(drop)
    }

    /// The threads of one that was made here just now.
    pub(crate) fn runtime(&self) -> &MachineRuntime {
        self.service.as_ref().expect("it is there until the drop").runtime()
    }

    /// Whether this process has the threads.
    pub(crate) fn is_here(&self) -> bool {
        self.process == std::process::id()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let service = self.service.take();
        if !self.is_here() {
            std::mem::forget(service);
        } else if let Some(last) = service.and_then(Arc::into_inner) {
            // Its threads may want the interpreter before they end.
            without_interpreter(|| drop(last));
        }
    }
}

/// The threads of one call, or of one object, and their process.
pub(crate) struct OwnThreads {
    /// None from the drop on.
    runtime: Option<Runtime>,
    process: u32,
}

impl OwnThreads {
    pub(crate) fn new(runtime: Runtime) -> OwnThreads {
        OwnThreads { runtime: Some(runtime), process: std::process::id() }
    }

    /// These, in their own process.
    pub(crate) fn here(&self) -> Outcome<&MachineRuntime> {
        match self.process == std::process::id() {
            true => Ok(self),
            false => Err(Failure::new("ForkError", "this was made in another process: make it anew in the child")),
        }
    }

    /// Ends them, and gives their records, if there are some. The caller has no interpreter.
    pub(crate) fn into_trace(mut self) -> Option<Trace> {
        self.runtime.take().and_then(Runtime::trace)
    }
}

impl Deref for OwnThreads {
    type Target = MachineRuntime;

    fn deref(&self) -> &MachineRuntime {
        self.runtime.as_deref().expect("it is there until the drop")
    }
}

impl Drop for OwnThreads {
    fn drop(&mut self) {
        let own = self.runtime.take();
        if self.process == std::process::id() {
            // They may want the interpreter before they end.
            without_interpreter(|| drop(own));
        } else {
            std::mem::forget(own);
        }
    }
}
