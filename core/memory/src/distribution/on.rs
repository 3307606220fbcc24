//! One location.

use super::{Arrangement, DistributionError, Location, Policy, Request};

/// All of it at one location.
#[derive(Clone, Copy, Debug)]
pub struct On(pub Location);

impl Policy for On {
    fn name(&self) -> &'static str {
        "on"
    }

    fn place(&self, request: &Request<'_>) -> Result<Arrangement, DistributionError> {
        if self.0 < request.locations {
            return Ok(Arrangement::One(self.0));
        }
        Err(DistributionError(format!("on:{}: there are {} locations, counted from 0", self.0, request.locations)))
    }
}
