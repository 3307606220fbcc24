//! The layout of an allocation over locations: policies, one file each, turn a request into an arrangement, plain data.
//!
//! Muddukrishna, Jonsson, Brorsson, "Locality-aware task scheduling and data distribution for OpenMP programs on NUMA
//! systems and manycore processors", Scientific Programming 2015, §3: *units* are laid out over *locations*. The world
//! decides about both (Table 2): pages and nodes on a NUMA machine, cache lines and home caches on a manycore.
//!
//! The fitting policy, by the number of allocations and of the tasks working on each (Table 3):
//!
//! | allocations | one task | many tasks |
//! |---|---|---|
//! | one | standard | fine |
//! | many | coarse | coarse |

mod blocked;
mod coarse;
mod fine;
mod listed;
mod on;
mod replicated;
mod standard;
mod tiles;
mod weighted;

pub use blocked::Blocked;
pub use coarse::Coarse;
pub use fine::Fine;
pub use listed::Listed;
pub use on::On;
pub use replicated::Replicated;
pub use standard::Standard;
pub use tiles::Tiles;
pub use weighted::Weighted;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vicus_topology::LocationId;

/// The request a policy decides about.
#[derive(Clone, Debug)]
pub struct AllocationRequest<'a> {
    /// How many units the allocation has; the last one may be used in part.
    pub units: usize,
    /// How many bytes a unit has.
    pub unit_bytes: usize,
    /// How many locations there are; at least one.
    pub locations: usize,
    /// The next location in turn, for policies that go round: see [`Turns`].
    pub turns: &'a Turns,
}

/// A counter for allocations in turn round the locations, shared by all policies that use it.
#[derive(Default, Debug)]
pub struct Turns(AtomicUsize);

impl Turns {
    /// The next location in turn among `locations`.
    pub fn take(&self, locations: usize) -> LocationId {
        // Relaxed: turns order nothing else.
        LocationId::new(self.0.fetch_add(1, Ordering::Relaxed) % locations)
    }
}

/// A way to lay allocations out. A new one is a file with an implementation of this.
pub trait Policy: Send + Sync + fmt::Debug {
    /// Its name, as users write it.
    fn name(&self) -> &'static str;

    /// The location of each unit of an allocation.
    ///
    /// # Errors
    /// The policy does not fit this machine: for example, it names a location that does not exist.
    fn place(&self, request: &AllocationRequest<'_>) -> Result<Arrangement, DistributionError>;
}

/// The locations of an allocation's units.
///
/// ```
/// use vicus_memory::distribution::Arrangement;
/// let arrangement = Arrangement::Round { locations: 4 };
/// let location = |unit| arrangement.location_of(unit).unwrap().index();
/// assert_eq!([0, 1, 2, 3, 4, 5].map(location), [0, 1, 2, 3, 0, 1]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// The system's choice, unknown before the units are touched.
    Unplaced,
    /// All in one place.
    One(LocationId),
    /// One after the other, beginning with the first location.
    Round {
        /// How many locations there are.
        locations: usize,
    },
    /// The units before `ends[l]`, and not before `ends[l - 1]`, lie at `l`.
    Parts {
        /// Ascending; the last one is the number of units.
        ends: Vec<usize>,
    },
    /// Each unit at its location in a list.
    Each {
        /// The location of each unit.
        locations: Vec<LocationId>,
    },
    /// Each location has a copy of all units, for reading.
    Copies {
        /// How many locations there are.
        locations: usize,
    },
}

impl Arrangement {
    /// The location of a unit; `None` if it is unknown, or if every location has a copy. Panics for a unit behind the
    /// last part, or missing in the list.
    pub fn location_of(&self, unit: usize) -> Option<LocationId> {
        match self {
            Arrangement::Unplaced | Arrangement::Copies { .. } => None,
            Arrangement::One(location) => Some(*location),
            Arrangement::Round { locations } => Some(LocationId::new(unit % locations)),
            Arrangement::Parts { ends } => {
                let location = ends.partition_point(|&end| end <= unit);
                assert!(location < ends.len(), "unit {unit} of {}", ends.last().unwrap_or(&0));
                Some(LocationId::new(location))
            }
            Arrangement::Each { locations } => Some(locations[unit]),
        }
    }

    /// The units of an allocation in runs at one location each, in order. Empty if their location is unknown.
    pub fn runs(&self, units: usize) -> Vec<(Range<usize>, LocationId)> {
        match self {
            Arrangement::Unplaced => Vec::new(),
            Arrangement::One(location) => vec![(0..units, *location)],
            Arrangement::Round { locations: 1 } => vec![(0..units, LocationId::default())],
            Arrangement::Round { locations } => {
                (0..units).map(|unit| (unit..unit + 1, LocationId::new(unit % locations))).collect()
            }
            Arrangement::Parts { ends } => {
                let starts = [0].into_iter().chain(ends.iter().copied());
                let parts = starts.zip(ends).map(|(start, &end)| start..end);
                parts
                    .enumerate()
                    .map(|(location, part)| (part, LocationId::new(location)))
                    .filter(|(part, _)| !part.is_empty())
                    .collect()
            }
            Arrangement::Each { locations } => {
                let each = locations[..units].iter().enumerate();
                each.map(|(unit, location)| (unit..unit + 1, *location)).collect()
            }
            Arrangement::Copies { locations } => {
                (0..*locations).map(|location| (0..units, LocationId::new(location))).collect()
            }
        }
    }
}

/// A policy by name, as users choose it.
///
/// ```
/// use vicus_memory::distribution::Distribution;
/// use vicus_topology::LocationId;
///
/// assert_eq!("fine".parse(), Ok(Distribution::Fine));
/// assert_eq!("on:2".parse(), Ok(Distribution::On(LocationId::new(2))));
/// assert_eq!("weighted:3,1".parse(), Ok(Distribution::Weighted([3, 1].into())));
/// let error = "fien".parse::<Distribution>().unwrap_err();
/// assert!(error.to_string().contains("standard, fine, coarse"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// See [`Standard`].
    #[default]
    Standard,
    /// See [`Fine`].
    Fine,
    /// See [`Coarse`].
    Coarse,
    /// See [`On`].
    On(LocationId),
    /// See [`Blocked`].
    Blocked,
    /// See [`Weighted`].
    Weighted(Arc<[u32]>),
    /// See [`Tiles`].
    Tiles(Tiles),
    /// See [`Replicated`].
    Replicated,
}

/// The names a user may write, for messages.
const NAMES: &str =
    "standard, fine, coarse, blocked, replicated, on:LOCATION, weighted:W,W,… or tiles:ROW_BYTES,TILE_ROWS,TILE_BYTES";

impl Distribution {
    /// The policy of this name.
    pub fn policy(&self) -> Box<dyn Policy> {
        match self {
            Distribution::Standard => Box::new(Standard),
            Distribution::Fine => Box::new(Fine),
            Distribution::Coarse => Box::new(Coarse),
            Distribution::On(location) => Box::new(On(*location)),
            Distribution::Blocked => Box::new(Blocked),
            Distribution::Weighted(weights) => Box::new(Weighted(Arc::clone(weights))),
            Distribution::Tiles(tiles) => Box::new(*tiles),
            Distribution::Replicated => Box::new(Replicated),
        }
    }
}

impl FromStr for Distribution {
    type Err = DistributionError;

    fn from_str(text: &str) -> Result<Distribution, DistributionError> {
        let lower = text.trim().to_ascii_lowercase();
        let (name, value) = match lower.split_once(':') {
            Some((name, value)) => (name, Some(value)),
            None => (&*lower, None),
        };
        match (name, value) {
            ("standard", None) => Ok(Distribution::Standard),
            ("fine", None) => Ok(Distribution::Fine),
            ("coarse", None) => Ok(Distribution::Coarse),
            ("blocked", None) => Ok(Distribution::Blocked),
            ("replicated", None) => Ok(Distribution::Replicated),
            ("on", Some(value)) => match value.parse::<u32>() {
                Ok(location) => Ok(Distribution::On(LocationId::new(location as usize))),
                Err(_) => Err(DistributionError(format!("on:{value}: the number of a location is expected"))),
            },
            ("weighted", Some(value)) => {
                let weights: Result<Arc<[u32]>, _> = value.split(',').map(|weight| weight.trim().parse()).collect();
                match weights {
                    Ok(weights) if weights.iter().any(|weight| *weight > 0) => Ok(Distribution::Weighted(weights)),
                    _ => {
                        let expected = "a whole number for each location is expected, not all of them 0";
                        Err(DistributionError(format!("weighted:{value}: {expected}")))
                    }
                }
            }
            ("tiles", Some(value)) => {
                let numbers: Result<Vec<usize>, _> = value.split(',').map(|number| number.trim().parse()).collect();
                let tiles = match numbers.as_deref() {
                    Ok(&[row_bytes, rows, bytes]) => Tiles::new(row_bytes, rows, bytes),
                    _ => None,
                };
                tiles.map(Distribution::Tiles).ok_or_else(|| {
                    let expected = "the bytes of a row, and the rows and bytes of a tile, are expected, none of them 0";
                    DistributionError(format!("tiles:{value}: {expected}"))
                })
            }
            _ => Err(DistributionError(format!("no distribution is called `{text}`; there are {NAMES}"))),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.policy().name())?;
        match self {
            Distribution::On(location) => write!(f, ":{}", location.index()),
            Distribution::Weighted(weights) => {
                let weights: Vec<String> = weights.iter().map(ToString::to_string).collect();
                write!(f, ":{}", weights.join(","))
            }
            Distribution::Tiles(Tiles { row_bytes, rows, bytes }) => write!(f, ":{row_bytes},{rows},{bytes}"),
            _ => Ok(()),
        }
    }
}

/// Why an allocation cannot be distributed like this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistributionError(pub(crate) String);

impl fmt::Display for DistributionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DistributionError {}

/// Lays allocations out over the locations of a machine, one after the other.
#[derive(Debug)]
pub struct Distributor {
    locations: usize,
    unit_bytes: usize,
    default: Distribution,
    turns: Turns,
}

impl Distributor {
    /// Over this number of locations; `default` is for allocations that don't choose. Panics without a location.
    pub fn new(locations: usize, default: Distribution) -> Distributor {
        assert!(locations > 0, "there is no location to distribute data to");
        Distributor { locations, unit_bytes: 4096, default, turns: Turns::default() }
    }

    /// With this number of bytes for a unit, in place of 4096.
    #[must_use]
    pub fn of_units(mut self, unit_bytes: usize) -> Distributor {
        self.unit_bytes = unit_bytes;
        self
    }

    /// How many locations there are.
    pub fn locations(&self) -> usize {
        self.locations
    }

    /// The locations for the units of the next allocation. `None` takes the default.
    ///
    /// # Errors
    /// Those of [`Policy::place`].
    pub fn place(&self, units: usize, chosen: Option<&Distribution>) -> Result<Arrangement, DistributionError> {
        self.place_by(&*chosen.unwrap_or(&self.default).policy(), units)
    }

    /// Like [`Distributor::place`], by any policy.
    ///
    /// # Errors
    /// Those of [`Policy::place`].
    pub fn place_by(&self, policy: &dyn Policy, units: usize) -> Result<Arrangement, DistributionError> {
        let (unit_bytes, locations) = (self.unit_bytes, self.locations);
        policy.place(&AllocationRequest { units, unit_bytes, locations, turns: &self.turns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(arrangement: &Arrangement) -> Vec<Option<LocationId>> {
        (0..8).map(|unit| arrangement.location_of(unit)).collect()
    }

    /// The program of the paper's Listing 2 on the machine of its Fig. 6: four locations, requests A to E of eight
    /// units; A and B follow the environment, C and D are coarse, E is fine.
    fn listing_2(environment: &str) -> Vec<Vec<Option<LocationId>>> {
        let distributor = Distributor::new(4, environment.parse().unwrap());
        let chosen = [None, None, Some(Distribution::Coarse), Some(Distribution::Coarse), Some(Distribution::Fine)];
        chosen.iter().map(|chosen| shown(&distributor.place(8, chosen.as_ref()).unwrap())).collect()
    }

    #[test]
    fn the_requests_of_listing_2_lie_as_in_figure_6() {
        let (unknown, all) = (vec![None; 8], |location| vec![Some(LocationId::new(location)); 8]);
        let round = [0, 1, 2, 3, 0, 1, 2, 3].map(|at| Some(LocationId::new(at))).to_vec();
        assert_eq!(listing_2("standard"), [unknown.clone(), unknown, all(0), all(1), round.clone()]);
        assert_eq!(listing_2("fine"), [round.clone(), round.clone(), all(0), all(1), round.clone()]);
        assert_eq!(listing_2("coarse"), [all(0), all(1), all(2), all(3), round]);
    }

    #[test]
    fn runs_cover_every_unit_once_and_agree_with_each_unit() {
        let distributions = ["fine", "coarse", "on:2", "blocked", "weighted:3,0,1", "weighted:1,1,5"];
        for units in [0, 1, 2, 3, 7, 64, 1001] {
            for text in distributions {
                let distributor = Distributor::new(3, text.parse().unwrap());
                let arrangement = distributor.place(units, None).unwrap();
                let mut next = 0;
                for (run, location) in arrangement.runs(units) {
                    assert_eq!(run.start, next, "{text}, {units} units");
                    assert!(run.clone().all(|unit| arrangement.location_of(unit) == Some(location)), "{text}");
                    next = run.end;
                }
                assert_eq!(next, units, "{text}");
            }
        }
        let copies = Distributor::new(3, Distribution::Replicated).place(5, None).unwrap();
        assert_eq!(copies.runs(5), [0, 1, 2].map(|location| (0..5, LocationId::new(location))));
        assert_eq!(Distributor::new(3, Distribution::Standard).place(5, None).unwrap().runs(5), []);
    }

    #[test]
    fn shares_differ_by_a_unit_at_most_and_follow_the_weights() {
        for units in (0..200).step_by(if cfg!(miri) { 67 } else { 1 }) {
            for (text, weights) in [("blocked", [1, 1, 1, 1]), ("weighted:1,2,3,4", [1, 2, 3, 4])] {
                let arrangement = Distributor::new(4, text.parse().unwrap()).place(units, None).unwrap();
                for (at, weight) in weights.into_iter().enumerate() {
                    let location = LocationId::new(at);
                    let share =
                        (0..units).filter(|&unit| arrangement.location_of(unit) == Some(location)).count() as f64;
                    let exact = (units * weight) as f64 / weights.iter().sum::<usize>() as f64;
                    assert!((share - exact).abs() <= 1.0, "{text}: {share} of {units} at {location}, {exact} wanted");
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_the_machine_is_an_error_that_says_why() {
        let place = |text: &str| Distributor::new(2, text.parse().unwrap()).place(8, None).unwrap_err().to_string();
        assert_eq!(place("on:2"), "on:2: there are 2 locations, counted from 0");
        assert_eq!(place("weighted:1,2,3"), "weighted: there are 3 weights for 2 locations");
        let parse = |text: &str| text.parse::<Distribution>().unwrap_err().to_string();
        assert!(parse("on").contains("on:LOCATION"));
        assert!(parse("on:x").contains("number of a location"));
        assert!(parse("weighted:0,0").contains("not all of them 0"));
        assert!(parse("most").starts_with("no distribution"));
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in ["standard", "fine", "coarse", "on:7", "blocked", "weighted:1,0,2", "replicated"] {
            assert_eq!(text.parse::<Distribution>().unwrap().to_string(), text);
        }
    }
}
