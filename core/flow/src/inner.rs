//! A request inside of another one: submitted by a box, which pauses until it is over.

use crate::instance::CountedBoxes;
use crate::sequential::run_request;
use crate::stepwise::SteppedRequest;
use crate::sync::Mutex;
use crate::{BoxId, FlowError, Model, Operator, Overflows, Totals, Turn};
use std::fmt;
use std::sync::Arc;

/// The end of a request: its result is told once.
pub type OnResult = std::boxed::Box<dyn FnOnce(Result<Totals, FlowError>) + Send>;

/// The operators of a request's own for some boxes of its model.
pub type OwnOperators = Vec<(BoxId, std::boxed::Box<dyn Operator>)>;

/// A request's shares of the one whose box has submitted it: the place for envelopes beside memory, and its part of the
/// boxes that may live at once.
pub struct Inherited {
    pub(crate) overflows: Option<Arc<dyn Overflows>>,
    pub(crate) counted: CountedBoxes,
}

impl fmt::Debug for Inherited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inherited").field("overflows", &self.overflows).finish_non_exhaustive()
    }
}

/// Submits a request for the calling box, and tells its result when it is over.
pub type SubmitInner = fn(&Arc<Model>, OwnOperators, Inherited, OnResult);

/// A request that a box has submitted ([`Turn::submit`]).
#[derive(Clone)]
pub struct Inner(Arc<Mutex<Option<Result<Totals, FlowError>>>>);

impl Inner {
    /// Its result; `None` until it is over.
    pub fn result(&self) -> Option<Result<Totals, FlowError>> {
        self.0.lock().expect("nothing panics under this lock").clone()
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Inner").field(&self.result()).finish()
    }
}

impl Turn<'_> {
    /// Submits an instance of a model as a part of this box's request: it books its memory with the budget of that one,
    /// writes to its temporary files, and is cancelled with it. The box pauses: it is invoked again when the inner
    /// request is over, and meanwhile no thread waits. So requests may be nested as deep as memory allows, and as the
    /// outermost one's bound on live boxes ([`Instance::set_most_boxes`](crate::Instance::set_most_boxes)): beyond it
    /// the result is an error.
    ///
    /// Requests have no priority set by users: they go by their age and by what is left of their
    /// [head start](crate::Instance::set_head_start). The inner request has as much of a head start as its outer one
    /// has left, and what it spends is spent for both: a long request does not stay young by its parts. It is as old as
    /// its outer one: strategies with older requests first run it before all later ones. Where requests take turns, it
    /// has turns of its own.
    ///
    /// A world without an outside, such as a simulated one, runs the inner request within this call.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use vicus_flow::{BoxError, Inner, Model, Operator, Turn};
    ///
    /// /// Runs another network for each envelope, before it passes the envelope on.
    /// fn runs(other: Arc<Model>) -> impl Operator {
    ///     let mut inner: Option<Inner> = None;
    ///     move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
    ///         if turn.head(0).is_some_and(|head| !head.is_pill()) {
    ///             match inner.get_or_insert_with(|| turn.submit(&other, Vec::new())).result() {
    ///                 None => return Ok(()), // it is invoked when the other one is over
    ///                 Some(result) => result?,
    ///             };
    ///             inner = None;
    ///         }
    ///         if let Some(envelope) = turn.take(0) {
    ///             turn.send(0, envelope);
    ///         }
    ///         Ok(())
    ///     }
    /// }
    /// # let _ = runs;
    /// ```
    pub fn submit(&mut self, model: &Arc<Model>, operators: OwnOperators) -> Inner {
        let inner = Inner(Arc::new(Mutex::new(None)));
        let told = Arc::clone(&inner.0);
        let tell = move |result| *told.lock().expect("nothing panics under this lock") = Some(result);
        let inherited = match self.instance.count_inner(self.cell, model.boxes.len()) {
            Ok(counted) => Inherited { overflows: self.instance.overflows.get().cloned(), counted },
            Err(error) => {
                self.run_again();
                tell(Err(error));
                return inner;
            }
        };
        match (self.instance.submits(), self.pause()) {
            (Some(submit), Some(resume)) => {
                let tell = move |result| {
                    tell(result);
                    drop(resume);
                };
                submit(model, operators, inherited, std::boxed::Box::new(tell));
            }
            (_, resume) => {
                drop(resume);
                self.run_again();
                let (request, first) = SteppedRequest::start(model, operators);
                request.inherit(self.instance.account().cloned(), inherited);
                tell(run_request(request, first, |_| Some(0)).0);
            }
        }
        inner
    }
}
