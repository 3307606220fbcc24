//! Parts in proportion.

use super::{AllocationRequest, Arrangement, DistributionError, Policy};
use std::sync::Arc;

/// Contiguous parts in these proportions: for locations of different speed or size.
#[derive(Clone, Debug)]
pub struct Weighted(pub Arc<[u32]>);

impl Policy for Weighted {
    fn name(&self) -> &'static str {
        "weighted"
    }

    fn place(&self, request: &AllocationRequest<'_>) -> Result<Arrangement, DistributionError> {
        let (weights, locations) = (self.0.len(), request.locations);
        if weights != locations {
            let why = format!("weighted: there are {weights} weights for {locations} locations");
            return Err(DistributionError(why));
        }
        if self.0.iter().all(|weight| *weight == 0) {
            return Err(DistributionError("weighted: all weights are 0".to_owned()));
        }
        Ok(parts(request.units, self.0.iter().copied()))
    }
}

/// A part ends with the sum of its share and all shares before it, rounded down: each part is off by one unit at most.
pub(super) fn parts(units: usize, weights: impl Iterator<Item = u32> + Clone) -> Arrangement {
    let all: u128 = weights.clone().map(u128::from).sum();
    let mut sum = 0;
    let ends = weights.map(|weight| {
        sum += u128::from(weight);
        (units as u128 * sum / all) as usize
    });
    Arrangement::Parts { ends: ends.collect() }
}
