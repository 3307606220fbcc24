//! Equal parts.

use super::weighted::parts;
use super::{AllocationRequest, Arrangement, DistributionError, Policy};

/// Equal contiguous parts, one for each location in order: for arrays with their ranges worked on at their locations.
#[derive(Clone, Copy, Debug)]
pub struct Blocked;

impl Policy for Blocked {
    fn name(&self) -> &'static str {
        "blocked"
    }

    fn place(&self, request: &AllocationRequest<'_>) -> Result<Arrangement, DistributionError> {
        Ok(parts(request.units, (0..request.locations).map(|_| 1)))
    }
}
