//! Plans of any language, as calls run them.
//!
//! A [`Language`](vicus_language::Language) needs no line here if its runs need nothing of a door beyond
//! [`Surroundings`], and its rows are values of plain columns, or terms of a run of SPARQL.

use crate::sink::Reader;
use crate::web::Web;
use std::sync::Arc;
use vicus_language::{Planned, RunOperators, Runnable};
use vicus_sparql::{Moment, RunOptions, Spill};

/// A call's contribution to a run of its plan; a [`Runnable`]'s needs are made of it.
#[derive(Debug)]
pub struct Surroundings {
    /// The time, and the seed of random numbers.
    pub moment: Moment,
    /// The web, for queries to other endpoints.
    pub web: Arc<Web>,
    /// The place for rows that its boxes have no memory for.
    pub spill: Option<Spill>,
}

impl From<&Surroundings> for () {
    fn from(_: &Surroundings) {}
}

impl From<&Surroundings> for RunOptions {
    fn from(surroundings: &Surroundings) -> RunOptions {
        let Surroundings { moment, web, spill } = surroundings;
        RunOptions { moment: *moment, endpoints: Some(Arc::clone(web) as _), spill: spill.clone() }
    }
}

/// A plan of some language.
pub(crate) trait AnyPlan: Planned {
    /// The operators of one run, without the sinks' ones, and the reader of its rows.
    fn begin_any(&self, surroundings: &Surroundings) -> (RunOperators, Reader);
}

impl<P> AnyPlan for P
where
    P: Runnable<Needs: for<'a> From<&'a Surroundings>, Run: Into<Reader>>,
{
    fn begin_any(&self, surroundings: &Surroundings) -> (RunOperators, Reader) {
        let (operators, run) = self.begin(surroundings.into());
        (operators, run.into())
    }
}
