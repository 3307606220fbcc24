//! A copy for each location.

use super::{AllocationRequest, Arrangement, DistributionError, Policy};

/// All of it at every location, for read-only data.
#[derive(Clone, Copy, Debug)]
pub struct Replicated;

impl Policy for Replicated {
    fn name(&self) -> &'static str {
        "replicated"
    }

    fn place(&self, request: &AllocationRequest<'_>) -> Result<Arrangement, DistributionError> {
        Ok(Arrangement::Copies { locations: request.locations })
    }
}
