//! The memory that the boxes of a request may hold: a bound of the request's own, and its share of a larger budget.

use std::fmt;
use std::sync::Arc;

/// A larger budget that several requests share, as one request sees it: for example that of a process.
pub trait Grants: Send + Sync {
    /// The request's boxes are about to hold so many bytes together. Gives how many they may hold from now on, at least as many;
    /// `None` if the budget has not so many left: then the box that asked gets an error.
    fn raise(&self, bytes: u64) -> Option<u64>;
}

/// What the boxes of a request may hold together ([`Turn::book`](crate::Turn::book)).
///
/// ```
/// use std::sync::Arc;
/// use vicus_flow::{Budget, Grants};
///
/// /// A whole of ten bytes that one request has for itself.
/// struct Ten;
/// impl Grants for Ten {
///     fn raise(&self, bytes: u64) -> Option<u64> {
///         (bytes <= 10).then_some(10)
///     }
/// }
/// let budget = Budget::from(1 << 20).granted_by(Arc::new(Ten));
/// assert_eq!(budget.bytes(), 1 << 20);
/// ```
#[derive(Clone)]
pub struct Budget {
    bytes: u64,
    grants: Option<Arc<dyn Grants>>,
}

impl Budget {
    /// No bound.
    pub const UNBOUNDED: Budget = Budget { bytes: u64::MAX, grants: None };

    /// Has the boxes' memory granted by a larger budget as well, before they hold it.
    pub fn granted_by(self, grants: Arc<dyn Grants>) -> Budget {
        Budget { grants: Some(grants), ..self }
    }

    /// The request's own bound.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many bytes may be held without asking `grants`.
    pub(crate) fn at_first(&self) -> u64 {
        if self.grants.is_some() { 0 } else { self.bytes }
    }

    /// How many bytes may be held from now on, if `bytes` may be.
    pub(crate) fn raise(&self, bytes: u64) -> Option<u64> {
        if bytes > self.bytes {
            return None;
        }
        match &self.grants {
            Some(grants) => grants.raise(bytes).map(|granted| granted.min(self.bytes)),
            None => Some(self.bytes),
        }
    }
}

impl From<u64> for Budget {
    fn from(bytes: u64) -> Budget {
        Budget { bytes, grants: None }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
