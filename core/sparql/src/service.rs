//! Other endpoints, as a query asks them.

use oxrdf::Term;
use std::error::Error;

/// Takes a solution: the variables that have a value, without `?`.
pub type Found<'a> = &'a mut dyn FnMut(&[(&str, Term)]);

/// Answers the groups of SERVICE. The engine itself has no network.
///
/// ```
/// use oxrdf::{Literal, Term};
/// use std::error::Error;
/// use vicus_sparql::{Endpoints, Found};
///
/// /// Gives the same answer to every question.
/// struct Parrot;
///
/// impl Endpoints for Parrot {
///     fn ask(
///         &self,
///         endpoint: &str,
///         query: &str,
///         found: Found<'_>,
///     ) -> Result<(), Box<dyn Error + Send + Sync>> {
///         found(&[("asked", Term::from(Literal::from(query)))]);
///         Ok(())
///     }
/// }
/// ```
pub trait Endpoints: Send + Sync {
    /// Asks an endpoint a SELECT query, and passes each solution to `found`. May block
    /// the thread. What it does not bound takes as long as it takes: limits on time and on bytes are its own.
    ///
    /// # Errors
    /// There is no whole answer. The message is for users.
    fn ask(&self, endpoint: &str, query: &str, found: Found<'_>) -> Result<(), Box<dyn Error + Send + Sync>>;
}
