//! The options shared by benchmarks of several copies of a query: the queries, the number of copies, and the runtime.

use super::measure;
use super::queries::{self, Query};
use crate::{engine, strategy};
use vicus::{Runtime, RuntimeBuilder, Setting};
use vicus_service::Service;

#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// The data, as for `vicus query`.
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    pub(super) data: Vec<String>,
    /// How many copies run at once.
    #[arg(long, default_value_t = 16, value_parser = measure::count)]
    pub(super) copies: usize,
    /// The queries.
    #[arg(long, value_delimiter = ',', default_value = "q2,q4,q5a,q6,q7,q8,q9,q11")]
    queries: Vec<String>,
    /// The strategy, with its parameters; by default the one of VICUS_STRATEGY, else las.
    #[arg(long)]
    strategy: Option<Setting>,
    /// How many threads; by default one for each usable PU.
    #[arg(long, value_name = "N", value_parser = measure::threads)]
    threads: Option<usize>,
    /// The seed of the resampling.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
}

impl Args {
    pub(super) fn strategy(&self) -> anyhow::Result<Setting> {
        strategy::one(self.strategy.as_ref())
    }

    pub(super) fn queries(&self) -> anyhow::Result<Vec<Query>> {
        queries::named(&self.queries)
    }

    pub(super) fn start(&self, strategy: Setting) -> anyhow::Result<Service> {
        self.start_as(Runtime::builder().strategy(strategy))
    }

    pub(super) fn start_as(&self, builder: RuntimeBuilder) -> anyhow::Result<Service> {
        engine::serve(builder, self.threads)
    }

    /// Checks first of all that this many threads are available.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        engine::check_threads(self.threads)
    }
}
