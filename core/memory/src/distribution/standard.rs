//! The machine's own way.

use super::{AllocationRequest, Arrangement, DistributionError, Policy};

/// Leaves it to the machine (Table 1): first touch on a NUMA machine.
#[derive(Clone, Copy, Debug)]
pub struct Standard;

impl Policy for Standard {
    fn name(&self) -> &'static str {
        "standard"
    }

    fn place(&self, _: &AllocationRequest<'_>) -> Result<Arrangement, DistributionError> {
        Ok(Arrangement::Unplaced)
    }
}
