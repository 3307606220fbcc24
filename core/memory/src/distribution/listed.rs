//! Unit by unit, at the locations of a function.

use super::{AllocationRequest, Arrangement, DistributionError, Policy};
use std::fmt;
use vicus_topology::LocationId;

/// A policy by function: the function writes the number of a location for each unit. An allocation at one location as a
/// whole counts as in one place, as by [`Coarse`](super::Coarse).
///
/// ```
/// use vicus_memory::distribution::{Distributor, Distribution, Listed};
/// // The first page at location 0, all others at the last one.
/// let policy = Listed(|locations: usize, units: &mut [u32]| {
///     units[1..].fill(locations as u32 - 1);
///     Ok(())
/// });
/// let arrangement = Distributor::new(4, Distribution::Standard).place_by(&policy, 3)?;
/// assert_eq!([0, 1, 2].map(|unit| arrangement.location_of(unit).unwrap().index()), [0, 3, 3]);
/// # Ok::<(), vicus_memory::distribution::DistributionError>(())
/// ```
pub struct Listed<F>(pub F);

impl<F> fmt::Debug for Listed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listed")
    }
}

impl<F> Policy for Listed<F>
where
    F: Fn(usize, &mut [u32]) -> Result<(), String> + Send + Sync,
{
    fn name(&self) -> &'static str {
        "listed"
    }

    fn place(&self, request: &AllocationRequest<'_>) -> Result<Arrangement, DistributionError> {
        let mut units = vec![0; request.units];
        (self.0)(request.locations, &mut units).map_err(DistributionError)?;
        if let Some(wrong) = units.iter().find(|&&location| location as usize >= request.locations) {
            let there_are = request.locations;
            return Err(DistributionError(format!(
                "a policy has chosen location {wrong}: there are {there_are} locations, counted from 0"
            )));
        }
        let location = |&unit: &u32| LocationId::new(unit as usize);
        match units.first() {
            Some(first) if units.iter().all(|unit| unit == first) => Ok(Arrangement::One(location(first))),
            _ => Ok(Arrangement::Each { locations: units.iter().map(location).collect() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::{Distribution, Distributor};

    #[test]
    fn what_a_function_writes_is_taken_or_refused() {
        let distributor = Distributor::new(3, Distribution::Standard);
        let one = Listed(|_, units: &mut [u32]| {
            units.fill(2);
            Ok(())
        });
        assert_eq!(distributor.place_by(&one, 5), Ok(Arrangement::One(LocationId::new(2))));
        let beyond = Listed(|locations: usize, units: &mut [u32]| {
            units[4] = locations as u32;
            Ok(())
        });
        let error = distributor.place_by(&beyond, 5).unwrap_err().to_string();
        assert!(error.contains("location 3"), "{error}");
        let refusal = Listed(|_, _: &mut [u32]| Err("not today".to_owned()));
        assert_eq!(distributor.place_by(&refusal, 5).unwrap_err().to_string(), "not today");
    }
}
