//! Allocation by allocation.

use super::{AllocationRequest, Arrangement, DistributionError, Policy};

/// Allocation by allocation round all locations (Table 1): for many allocations, each worked on alone.
#[derive(Clone, Copy, Debug)]
pub struct Coarse;

impl Policy for Coarse {
    fn name(&self) -> &'static str {
        "coarse"
    }

    fn place(&self, request: &AllocationRequest<'_>) -> Result<Arrangement, DistributionError> {
        Ok(Arrangement::One(request.turns.take(request.locations)))
    }
}
