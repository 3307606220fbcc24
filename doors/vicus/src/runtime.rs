//! The runtime of Rust users: the one of worlds/machine, with settings of the environment for all that the program
//! leaves open.

use crate::environment;
use std::ops::Deref;
use std::sync::OnceLock;
use vicus_schedule::Decision;
use vicus_trace::Trace;

/// The builder of a [`Runtime`].
pub type RuntimeBuilder = vicus_machine::RuntimeBuilder<Runtime>;

/// Threads that work under a strategy. Dropping it cancels running requests and waits for its threads.
///
/// ```
/// use vicus::{Envelope, ModelBuilder, Runtime, Schema, Type, library};
///
/// let schema = Schema::new([("n", Type::U64)]);
/// let mut net = ModelBuilder::new("one envelope");
/// let source = net.source(library::source("source", &schema, || [Envelope::new([vec![1u64].into()])]));
/// net.end(source.output(0));
///
/// let runtime = Runtime::builder().threads(2).start();
/// let totals = runtime.submit(&net.build()?).wait()?;
/// assert!(totals.tasks >= 3); // initialization, source, termination
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Runtime(vicus_machine::MachineRuntime);

impl Runtime {
    /// A builder with the settings of the [environment](crate::environment).
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new(environment::defaults()).layer(vicus_threads::LAYER)
    }

    /// The runtime for programs that have not started one: [`tasks::join`](crate::tasks::join) and the like run there
    /// when they are called outside of tasks. It starts at its first use, with the defaults of [`Runtime::builder`],
    /// and never ends.
    ///
    /// ```
    /// assert_eq!(vicus::Runtime::global().run(|| 6 * 7), 42);
    /// ```
    pub fn global() -> &'static Runtime {
        static GLOBAL: OnceLock<Runtime> = OnceLock::new();
        GLOBAL.get_or_init(|| Runtime::builder().start())
    }

    /// Ends the runtime and returns its recording; `None` if it was not asked to record.
    pub fn trace(self) -> Option<Trace> {
        self.0.trace()
    }

    /// Ends the runtime and returns the decisions of each seat in their order, and the recording; no decisions if it
    /// was not asked to write them
    /// ([`RuntimeBuilder::write_decisions`](vicus_machine::RuntimeBuilder::write_decisions)).
    pub fn recorded(self) -> (Vec<Vec<Decision>>, Option<Trace>) {
        self.0.recorded()
    }
}

impl Deref for Runtime {
    type Target = vicus_machine::MachineRuntime;

    #[inline]
    fn deref(&self) -> &vicus_machine::MachineRuntime {
        &self.0
    }
}

impl From<vicus_machine::MachineRuntime> for Runtime {
    fn from(runtime: vicus_machine::MachineRuntime) -> Runtime {
        Runtime(runtime)
    }
}
