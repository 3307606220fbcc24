//! Unit by unit.

use super::{AllocationRequest, Arrangement, DistributionError, Policy};

/// Unit by unit round all locations (Table 1), beginning with the first: for one allocation with many tasks at work on
/// it.
#[derive(Clone, Copy, Debug)]
pub struct Fine;

impl Policy for Fine {
    fn name(&self) -> &'static str {
        "fine"
    }

    fn place(&self, request: &AllocationRequest<'_>) -> Result<Arrangement, DistributionError> {
        Ok(Arrangement::Round { locations: request.locations })
    }
}
