//! A runtime, as its owner has it.

mod run;
pub(crate) mod task_request;

use crate::defaults::Defaults;
use crate::runtime::builder::RuntimeBuilder;
use crate::runtime::shared::RuntimeState;
use crate::runtime::takes::Level;
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::Arc;
use vicus_memory::distribution::{Distribution, Policy};
use vicus_memory::{Memory, PlaceError, Placed};
use vicus_schedule::{Decision, Plan, QueueId};
use vicus_topology::{Place, Topology};

/// Threads working under a strategy. Dropping it cancels all running requests and waits for its threads.
///
/// ```
/// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library};
/// use vicus_machine::MachineRuntime;
///
/// let schema = Schema::new([("n", Type::U64)]);
/// let mut net = ModelBuilder::new("one envelope");
/// let source = net.source(library::source("source", &schema, || [Envelope::new([vec![1u64].into()])]));
/// net.end(source.output(0));
///
/// let runtime = MachineRuntime::builder().threads(2).start();
/// let totals = runtime.submit(&net.build().unwrap()).wait().unwrap();
/// assert!(totals.tasks >= 3); // initialization, source, termination
/// ```
pub struct MachineRuntime {
    pub(crate) shared: Arc<RuntimeState>,
}

impl MachineRuntime {
    /// The settings to start a runtime with.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new(Defaults::default())
    }

    /// The state shared by its threads, for the layer above ([`crate::layer`]).
    #[doc(hidden)]
    pub fn shared(&self) -> &Arc<RuntimeState> {
        &self.shared
    }

    /// Like [`RuntimeState::next_of`].
    pub(crate) fn next_of(&self, entries: &[QueueId]) -> QueueId {
        self.shared.next_of(entries)
    }

    /// The plan followed by its threads.
    pub fn plan(&self) -> &Plan {
        &self.shared.plan
    }

    /// The machine it runs on.
    pub fn topology(&self) -> &Topology {
        &self.shared.tables.topology
    }

    /// How far two places of its machine are from one another, nodes or core groups: [`Topology::place_distance`].
    ///
    /// # Panics
    /// If the machine has no such place, with its name and how many there are.
    pub fn distance(&self, a: impl Into<Place>, b: impl Into<Place>) -> u32 {
        self.shared.tables.topology.place_distance(a, b)
    }

    /// Zeroed memory in whole pages, spread over the nodes by the chosen distribution, until it is dropped. `None`
    /// takes the runtime's own distribution ([`RuntimeBuilder::distribution`]).
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use vicus_machine::MachineRuntime;
    /// use vicus_memory::distribution::Distribution;
    ///
    /// let runtime = MachineRuntime::builder().threads(1).start();
    /// let mut placed = runtime.alloc(Layout::new::<[u64; 100_000]>(), Distribution::Fine)?;
    /// placed.bytes_mut()[0] = 1;
    /// # Ok::<(), vicus_memory::PlaceError>(())
    /// ```
    ///
    /// # Errors
    /// The distribution names a location missing on the machine, or memory or address space is short.
    pub fn alloc(&self, layout: Layout, chosen: impl Into<Option<Distribution>>) -> Result<Placed, PlaceError> {
        let too_large = PlaceError::TooLarge { bytes: layout.size(), align: layout.align() };
        let chosen = chosen.into().or_else(|| self.shared.storage.distribution.clone());
        self.memory().ok_or(too_large)?.place(layout, chosen.as_ref())
    }

    /// Memory like that of [`MachineRuntime::alloc`], placed page by page by any policy.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use vicus_machine::MachineRuntime;
    /// use vicus_memory::distribution::{Arrangement, DistributionError, Policy, AllocationRequest};
    /// use vicus_topology::LocationId;
    ///
    /// /// All pages on the last location.
    /// #[derive(Debug)]
    /// struct Last;
    /// impl Policy for Last {
    ///     fn name(&self) -> &'static str {
    ///         "last"
    ///     }
    ///     fn place(&self, request: &AllocationRequest<'_>) -> Result<Arrangement, DistributionError> {
    ///         Ok(Arrangement::One(LocationId::new(request.locations - 1)))
    ///     }
    /// }
    ///
    /// let runtime = MachineRuntime::builder().threads(1).start();
    /// let placed = runtime.alloc_by(Layout::new::<[u64; 100_000]>(), &Last)?;
    /// assert!(placed.bytes().len() >= 800_000);
    /// # Ok::<(), vicus_memory::PlaceError>(())
    /// ```
    ///
    /// # Errors
    /// As [`MachineRuntime::alloc`].
    pub fn alloc_by(&self, layout: Layout, policy: &dyn Policy) -> Result<Placed, PlaceError> {
        let too_large = PlaceError::TooLarge { bytes: layout.size(), align: layout.align() };
        self.memory().ok_or(too_large)?.place_by(layout, policy)
    }

    /// The source of its pages: the process's memory, if it runs on this machine. `None` if the system gave no
    /// addresses; [`MachineRuntime::warnings`] then says so.
    pub fn memory(&self) -> Option<&Arc<Memory>> {
        self.shared.storage.memory.as_ref()
    }

    /// The features that could not be used on this machine.
    pub fn warnings(&self) -> Vec<String> {
        self.shared.warnings()
    }

    /// Number of tasks taken by its seats so far, by the plan's rule that found them (0 for tasks from no queue) and by
    /// distance. Every task whose end the caller has seen is counted. Empty if the runtime neither counts nor records.
    ///
    /// ```
    /// use vicus_machine::{Level, MachineRuntime, join};
    ///
    /// let runtime = MachineRuntime::builder().threads(1).count_takes().start();
    /// runtime.run(|| {
    ///     let before = runtime.takes();
    ///     join(|| 1, || 2);
    ///     let own = |takes: std::collections::BTreeMap<(u8, Level), u64>| takes.get(&(1, Level::Own)).copied();
    ///     assert_eq!((own(before), own(runtime.takes())), (None, Some(1)));
    /// });
    /// ```
    pub fn takes(&self) -> BTreeMap<(u8, Level), u64> {
        self.shared.takes()
    }

    /// Says which operators of a query the boxes of a model are, before it is submitted: the recording, if there is
    /// one, has them. They are asked for only then.
    pub fn record_operators(
        &self,
        model: &Arc<vicus_flow::Model>,
        operators: impl FnOnce() -> Vec<vicus_trace::OperatorInfo>,
    ) {
        if let Some(recording) = &self.shared.recording {
            recording.has_operators(model, operators);
        }
    }

    /// Ends the runtime and returns its recording; `None` if it did not record.
    pub fn trace(self) -> Option<vicus_trace::Trace> {
        self.recorded().1
    }

    /// The recording up to now, of a runtime that goes on and records no more; `None` if it did not record.
    ///
    /// ```
    /// use vicus_machine::MachineRuntime;
    ///
    /// let runtime = MachineRuntime::builder().threads(1).record(100).start();
    /// runtime.run(|| ());
    /// assert!(runtime.cut_trace().unwrap().summary().events > 0);
    /// assert_eq!(runtime.run(|| 7), 7);
    /// drop(runtime);
    /// ```
    pub fn cut_trace(&self) -> Option<vicus_trace::Trace> {
        self.shared.cut_trace()
    }

    /// The decisions of each of its seats, in order, and then the trace; nothing if it did not write decisions
    /// ([`RuntimeBuilder::write_decisions`]). A seat of worlds/sim decides the same in the same place.
    ///
    /// ```
    /// use vicus_machine::{MachineRuntime, scope};
    /// use vicus_schedule::Decision;
    ///
    /// let runtime = MachineRuntime::builder().threads(1).write_decisions().start();
    /// runtime.run(|| scope(|scope| scope.spawn(|_| ())));
    /// let (decisions, _) = runtime.recorded();
    /// let ran = decisions[0].iter().filter(|decision| matches!(decision, Decision::Runs(..))).count();
    /// assert_eq!(ran, 2);
    /// ```
    pub fn recorded(self) -> (Vec<Vec<Decision>>, Option<vicus_trace::Trace>) {
        let shared = Arc::clone(&self.shared);
        drop(self);
        let Some(recording) = &shared.recording else { return (Vec::new(), None) };
        let trace = recording.keeps_events().then(|| recording.collect(&shared.plan, &shared.tables.topology));
        (recording.decisions(), trace)
    }
}
