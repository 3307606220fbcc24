//! A line's additional time in queues on its way.

/// How much longer a line of a node's memory takes by its load, for a machine's file without a chart of its own: the
/// chart of six channels of DDR4 behind a Xeon Gold 6140, measured by Intel's Memory Latency Checker 3.10 with reads
/// only (VSC documentation, source/leuven/old_hardware/genius/skylake_mlc.txt). Banks and channels make a line wait,
/// with any processor in front: other processors and channels come within some ten nanoseconds of it, as the machines
/// of `papers/memory.rs` show.
const DRAM_QUEUEING: [(f64, f64); 7] =
    [(0.125, 6.0), (0.25, 11.0), (0.375, 15.5), (0.52, 26.0), (0.78, 38.5), (0.955, 73.0), (1.0, 76.0)];

/// The additional latency of a line by the load of its server: a line chart from no load to full load. Beyond full load
/// the wait grows until the flows are slow enough.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queueing {
    /// Load, as a share of the bandwidth, and nanoseconds. Invariant: loads rise from 0 to 1, nanoseconds from 0 and
    /// don't fall.
    points: Vec<(f64, f64)>,
}

impl Queueing {
    /// Waits only when full.
    pub const NONE: Queueing = Queueing { points: Vec::new() };

    /// The chart of otherwise unknown memory.
    pub fn of_dram() -> Queueing {
        Queueing::new(&DRAM_QUEUEING).expect("the chart rises")
    }

    /// A chart through these points. It begins at no load without a wait, and is level after the last point.
    ///
    /// # Errors
    /// The point at which the chart falls, or with a load outside of the range from the point before to 1; and the
    /// expectation.
    pub fn new(points: &[(f64, f64)]) -> Result<Queueing, (usize, String)> {
        let mut all = vec![(0.0, 0.0)];
        for (at, &(load, ns)) in points.iter().enumerate() {
            let (before, least) = all[all.len() - 1];
            if !(load <= 1.0 && (load > before || (at == 0 && load == 0.0))) {
                return Err((at, format!("a load above {before}, the one before, and at most 1")));
            }
            if !(ns >= least && ns.is_finite()) {
                return Err((at, format!("at least {least} ns, as with less load: more load makes nothing quicker")));
            }
            if load == 0.0 {
                if ns > 0.0 {
                    return Err((at, "no wait without a load".to_owned()));
                }
                continue;
            }
            all.push((load, ns));
        }
        let (load, ns) = all[all.len() - 1];
        if ns == 0.0 {
            return Ok(Queueing::NONE);
        }
        if load < 1.0 {
            all.push((1.0, ns));
        }
        Ok(Queueing { points: all })
    }

    /// The wait for a server with one line at a time and the same time for each, if lines come independently of each
    /// other (Pollaczek and Khinchine; the M/D/1 queue). Beyond 95 % of its load, waiting senders keep further lines
    /// from coming.
    ///
    /// ```
    /// let bank = vicus_sim::Queueing::of_server(6.0);
    /// assert_eq!([0.0, 0.5, 0.8].map(|load| bank.wait_ns(load).round()), [0.0, 3.0, 12.0]);
    /// ```
    pub fn of_server(line_ns: f64) -> Queueing {
        let point = |load: f64| (load, load / (2.0 * (1.0 - load)) * line_ns);
        let points = [0.2, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95].map(point);
        Queueing::new(&points).expect("the wait grows with the load")
    }

    /// The wait at this load, in nanoseconds.
    ///
    /// ```
    /// let queueing = vicus_sim::Queueing::new(&[(0.5, 0.0), (1.0, 80.0)]).unwrap();
    /// assert_eq!([0.3, 0.75, 1.0].map(|load| queueing.wait_ns(load)), [0.0, 40.0, 80.0]);
    /// ```
    pub fn wait_ns(&self, load: f64) -> f64 {
        let Some(after) = self.points.iter().position(|&(other, _)| other >= load) else {
            return self.most_ns();
        };
        let (to, ns) = self.points[after];
        let (from, before) = self.points[after.saturating_sub(1)];
        if to > from { before + (ns - before) * (load - from) / (to - from) } else { ns }
    }

    /// The wait at full load, as long as no more is asked for.
    pub fn most_ns(&self) -> f64 {
        self.points.last().map_or(0.0, |last| last.1)
    }

    /// The greatest load with no longer wait, and its growth with the wait.
    pub(crate) fn load_at(&self, ns: f64) -> (f64, f64) {
        let Some(after) = self.points.iter().position(|&(_, other)| other > ns) else { return (1.0, 0.0) };
        let ((from, before), (to, then)) = (self.points[after - 1], self.points[after]);
        let slope = (to - from) / (then - before);
        (from + (ns - before) * slope, slope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_has_a_wait_and_a_wait_a_load() {
        let queueing = Queueing::new(&[(0.25, 10.0), (0.5, 10.0), (0.9, 50.0)]).unwrap();
        for (load, ns) in [(0.0, 0.0), (0.125, 5.0), (0.4, 10.0), (0.7, 30.0), (0.95, 50.0), (1.0, 50.0)] {
            assert!((queueing.wait_ns(load) - ns).abs() < 1e-12, "{load}");
        }
        for (ns, load) in [(0.0, 0.0), (5.0, 0.125), (10.0, 0.5), (30.0, 0.7), (50.0, 1.0), (1e9, 1.0)] {
            assert!((queueing.load_at(ns).0 - load).abs() < 1e-12, "{ns}");
        }
        assert_eq!(Queueing::NONE.load_at(0.0), (1.0, 0.0));
        assert_eq!(Queueing::NONE.wait_ns(0.9), 0.0);
    }

    #[test]
    fn a_chart_that_falls_is_refused_with_the_point() {
        let wrong = |points: &[(f64, f64)]| Queueing::new(points).unwrap_err();
        assert_eq!(wrong(&[(0.5, 40.0), (0.8, 30.0)]).0, 1);
        assert!(wrong(&[(0.5, 40.0), (0.8, 30.0)]).1.contains("at least 40 ns"));
        assert_eq!(wrong(&[(0.5, 40.0), (0.5, 50.0)]).0, 1);
        assert_eq!(wrong(&[(0.5, 40.0), (1.5, 50.0)]).0, 1);
        assert_eq!(wrong(&[(0.0, 5.0)]).0, 0);
        assert_eq!(wrong(&[(0.5, f64::NAN)]).0, 0);
    }
}
