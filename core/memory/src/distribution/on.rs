//! One location.

use super::{AllocationRequest, Arrangement, DistributionError, Policy};
use vicus_topology::LocationId;

/// All of it at one location.
#[derive(Clone, Copy, Debug)]
pub struct On(pub LocationId);

impl Policy for On {
    fn name(&self) -> &'static str {
        "on"
    }

    fn place(&self, request: &AllocationRequest<'_>) -> Result<Arrangement, DistributionError> {
        if self.0.index() < request.locations {
            return Ok(Arrangement::One(self.0));
        }
        Err(DistributionError(format!(
            "on:{}: there are {} locations, counted from 0",
            self.0.index(),
            request.locations
        )))
    }
}
