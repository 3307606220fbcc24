//! The free parameters of the model, missing in all data sheets: the same for all machines.

use std::fmt;
use std::ops::RangeInclusive;

/// The free parameters. There are ten, and no other number in the model is adjusted to results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// The share of computing that overlaps with the arrival of bytes, from 0 to 1; it is 0 on cores with one miss at a
    /// time.
    pub overlap: f64,
    /// The share of a cache with recently used data; conflicts waste the rest.
    pub cache_share: f64,
    /// Making a deferred task, in cycles; an immediate one lies on its maker's stack.
    pub spawn_cycles: f64,
    /// Pushing a task onto the seat's own deque, or taking it back, in cycles.
    pub own_cycles: f64,
    /// Pushing a task onto a shared queue, or taking one, in cycles; a lock is held for as long, and before that until
    /// its line has come from its last user's seat.
    pub take_cycles: f64,
    /// Taking a task from another seat's queue, or another node's, in cycles; no less than the queue's line takes to
    /// come.
    pub steal_cycles: f64,
    /// Finding the place of one access's bytes when a task is dealt by them, in cycles: of its first stretch.
    pub deal_cycles: f64,
    /// Like `deal_cycles`, for each further stretch of the access, in cycles.
    pub stretch_cycles: f64,
    /// From a wake until the seat looks for work, in nanoseconds. The last seat also begins at most this much later
    /// than the first one.
    pub wake_ns: f64,
    /// The standard deviation of the times of equal pieces of work, as a share of their mean. The seed selects the
    /// longer ones. With 0, equal tasks that begin together stay together for the whole run.
    pub jitter: f64,
}

/// Measured by `vicus calibrate` on two cores of a current Xeon under a hypervisor, except for two. A wake takes 4 µs
/// without a hypervisor, and ten times as much there. The share of a cache is a guess: no measurement there depends on
/// it. Jitter is the median of eleven measurements, which found 0.012 to 0.073.
impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            overlap: 0.5,
            cache_share: 0.9,
            spawn_cycles: 190.0,
            own_cycles: 14.0,
            take_cycles: 30.0,
            steal_cycles: 1200.0,
            deal_cycles: 300.0,
            stretch_cycles: 12.0,
            wake_ns: 4000.0,
            jitter: 0.02,
        }
    }
}

impl Parameters {
    /// Their number.
    pub const COUNT: usize = 10;

    /// The greatest [`Parameters::jitter`]. No piece of work takes less than an eighth of its mean.
    pub const MOST_JITTER: f64 = 0.25;

    /// Their names.
    pub const NAMES: [&'static str; Parameters::COUNT] = [
        "overlap",
        "cache_share",
        "spawn_cycles",
        "own_cycles",
        "take_cycles",
        "steal_cycles",
        "deal_cycles",
        "stretch_cycles",
        "wake_ns",
        "jitter",
    ];

    /// Their values, in the order of [`Parameters::NAMES`].
    pub fn values(&self) -> [f64; Parameters::COUNT] {
        let mut all = *self;
        Parameters::NAMES.map(|name| *all.named(name).expect("it is one of them"))
    }

    /// The sensible range of a parameter: a share, cycles, or nanoseconds up to a second. `None` if no parameter has
    /// this name.
    pub fn range(name: &str) -> Option<RangeInclusive<f64>> {
        let most = match name {
            "overlap" | "cache_share" => 1.0,
            "jitter" => Parameters::MOST_JITTER,
            _ => 1e9,
        };
        Parameters::NAMES.contains(&name).then_some(0.0..=most)
    }

    /// The parameter of this name.
    fn named(&mut self, name: &str) -> Option<&mut f64> {
        Some(match name {
            "overlap" => &mut self.overlap,
            "cache_share" => &mut self.cache_share,
            "spawn_cycles" => &mut self.spawn_cycles,
            "own_cycles" => &mut self.own_cycles,
            "take_cycles" => &mut self.take_cycles,
            "steal_cycles" => &mut self.steal_cycles,
            "deal_cycles" => &mut self.deal_cycles,
            "stretch_cycles" => &mut self.stretch_cycles,
            "wake_ns" => &mut self.wake_ns,
            "jitter" => &mut self.jitter,
            _ => return None,
        })
    }

    /// These parameters with another value for one; shares stay at most 1, and jitter at most
    /// [`Parameters::MOST_JITTER`]. `None` if no parameter has this name.
    pub fn with(mut self, name: &str, value: f64) -> Option<Parameters> {
        *self.named(name)? = value;
        (self.overlap, self.cache_share) = (self.overlap.min(1.0), self.cache_share.min(1.0));
        self.jitter = self.jitter.min(Parameters::MOST_JITTER);
        Some(self)
    }

    /// These parameters with one scaled by a factor, within the same bounds.
    ///
    /// ```
    /// use vicus_sim::Parameters;
    /// let more = Parameters::default().scaled("take_cycles", 1.25).unwrap();
    /// assert_eq!(more.take_cycles, 37.5);
    /// assert_eq!(Parameters::default().scaled("luck", 2.0), None);
    /// ```
    pub fn scaled(mut self, name: &str, factor: f64) -> Option<Parameters> {
        let value = *self.named(name)? * factor;
        self.with(name, value)
    }
}

/// Some of the free parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParameterSet(u16);

impl ParameterSet {
    /// All of them.
    pub const ALL: ParameterSet = ParameterSet((1 << Parameters::COUNT) - 1);

    /// The parameters of these names; others are left out.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> ParameterSet {
        names.into_iter().fold(ParameterSet::default(), ParameterSet::and)
    }

    /// This set with the parameter of this name.
    fn and(self, name: &str) -> ParameterSet {
        ParameterSet(self.0 | ParameterSet::bit(name))
    }

    /// Whether the one of this name is among them.
    pub fn has(self, name: &str) -> bool {
        self.0 & ParameterSet::bit(name) != 0
    }

    fn bit(name: &str) -> u16 {
        Parameters::NAMES.iter().position(|&other| other == name).map_or(0, |at| 1 << at)
    }
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, value)) in Parameters::NAMES.iter().zip(self.values()).enumerate() {
            write!(f, "{}{name}={value}", if at == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_can_be_scaled_alone() {
        let before = Parameters { overlap: 0.5, cache_share: 0.5, ..Parameters::default() };
        for (at, name) in Parameters::NAMES.iter().enumerate() {
            let after = before.scaled(name, 1.25).unwrap().values();
            for (other, (before, after)) in before.values().iter().zip(after).enumerate() {
                assert_eq!(after, before * if other == at { 1.25 } else { 1.0 }, "{name}");
            }
        }
        assert_eq!(before.scaled("overlap", 4.0).unwrap().overlap, 1.0);
    }

    #[test]
    fn a_set_has_those_that_it_was_made_of() {
        let some = ParameterSet::of(["overlap", "jitter", "luck"]);
        let has = Parameters::NAMES.map(|name| some.has(name));
        assert_eq!(has.iter().filter(|&&has| has).count(), 2);
        assert!(has[0] && has[9] && !some.has("luck"));
        assert!(Parameters::NAMES.iter().all(|name| ParameterSet::ALL.has(name)));
    }
}
