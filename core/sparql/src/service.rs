//! Other endpoints, as a query asks them.

use oxrdf::Term;
use std::error::Error;
use std::fmt;

/// Takes a solution: the variables with a value, without `?`.
pub type SolutionSink<'a> = &'a mut dyn FnMut(&[(&str, Term)]);

/// Answers the groups of SERVICE. The engine itself has no network.
///
/// ```
/// use oxrdf::{Literal, Term};
/// use std::error::Error;
/// use vicus_sparql::{Endpoints, SolutionSink};
///
/// /// Gives the same answer to every question.
/// struct Parrot;
///
/// impl Endpoints for Parrot {
///     fn ask(
///         &self,
///         endpoint: &str,
///         query: &str,
///         stopped: &dyn Fn() -> bool,
///         found: SolutionSink<'_>,
///     ) -> Result<(), Box<dyn Error + Send + Sync>> {
///         found(&[("asked", Term::from(Literal::from(query)))]);
///         Ok(())
///     }
/// }
/// ```
pub trait Endpoints: Send + Sync {
    /// Asks an endpoint a SELECT query, and passes each solution to `found`. May block the thread; once `stopped` says
    /// yes, the answer is no longer needed, and the run is not over before this returns. Limits on time and on bytes
    /// are its own.
    ///
    /// # Errors
    /// There is no whole answer. The message is for users.
    fn ask(
        &self,
        endpoint: &str,
        query: &str,
        stopped: &dyn Fn() -> bool,
        found: SolutionSink<'_>,
    ) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// An endpoint has given no whole answer. The error of a box.
#[derive(Debug)]
pub struct ServiceFailed {
    /// Its IRI.
    pub endpoint: String,
    /// The error of [`Endpoints::ask`].
    pub error: Box<dyn Error + Send + Sync>,
}

impl fmt::Display for ServiceFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SERVICE <{}>: {}", self.endpoint, self.error)
    }
}

// Without a source: the message contains the inner error's.
impl Error for ServiceFailed {}
