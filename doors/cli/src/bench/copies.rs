//! The options shared by benchmarks of several copies of a query: the queries, the number of copies, and the runtime.

use super::measure;
use super::queries::{self, Query};
use crate::arguments::RuntimeArgs;
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
    #[command(flatten)]
    runtime: RuntimeArgs,
    /// The seed of the resampling.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
}

impl Args {
    pub(super) fn strategy(&self) -> anyhow::Result<Setting> {
        self.runtime.setting()
    }

    pub(super) fn queries(&self) -> anyhow::Result<Vec<Query>> {
        queries::named(&self.queries)
    }

    pub(super) fn start(&self, strategy: Setting) -> anyhow::Result<Service> {
        self.start_as(Runtime::builder().strategy(strategy))
    }

    pub(super) fn start_as(&self, builder: RuntimeBuilder) -> anyhow::Result<Service> {
        self.runtime.serve(builder)
    }

    /// Checks first of all that this many threads are available.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.runtime.check()
    }
}
