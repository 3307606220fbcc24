//! The machines that share the work of a query.
//!
//! Machine 0 is the one that was asked: rows come together there. All of them have the same data, so each one may read
//! any range of an index, look up partners of its rows, and name terms of the store by their ids.

use std::fmt;

/// The machines that share the work of a query, and the network between them.
///
/// ```
/// use vicus_sparql::Machines;
///
/// let machines = Machines::of(&[8, 8, 16], 100_000, 1_000_000_000);
/// assert_eq!((machines.count(), machines.threads(2)), (3, 16));
/// assert_eq!(Machines::default().count(), 1);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Machines {
    count: u16,
    threads: [u16; Machines::MOST],
    /// Nanoseconds from a machine to another one and back.
    pub latency_ns: u64,
    /// Bytes a second from a machine to the others.
    pub bytes_per_second: u64,
    /// Whether work is shared wherever it can be, however much of it there is: for tests.
    pub always: bool,
}

impl Machines {
    /// The greatest number of machines.
    pub const MOST: usize = 64;

    /// Machines with these numbers of threads; the first is the one that is asked. Those beyond [`Machines::MOST`] are
    /// left out.
    pub fn of(threads: &[usize], latency_ns: u64, bytes_per_second: u64) -> Machines {
        let mut all = [1; Machines::MOST];
        let count = threads.len().clamp(1, Machines::MOST);
        for (all, &threads) in all.iter_mut().zip(threads) {
            *all = u16::try_from(threads).unwrap_or(u16::MAX).max(1);
        }
        Machines { count: count as u16, threads: all, latency_ns, bytes_per_second, always: false }
    }

    /// How many there are: 1 without others.
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// The threads of a machine.
    pub fn threads(&self, machine: usize) -> usize {
        usize::from(self.threads[machine])
    }

    /// The threads of all.
    pub fn all_threads(&self) -> usize {
        (0..self.count()).map(|machine| self.threads(machine)).sum()
    }

    /// Rows of an index, by their number, as a range for each machine: as many as it has threads.
    pub(crate) fn ranges(&self, rows: std::ops::Range<usize>) -> Vec<std::ops::Range<usize>> {
        let (all, length) = (self.all_threads() as u128, rows.len() as u128);
        let mut before = 0u128;
        let range = |machine| {
            let from = length * before / all;
            before += self.threads(machine) as u128;
            rows.start + from as usize..rows.start + (length * before / all) as usize
        };
        (0..self.count()).map(range).collect()
    }

    /// Nanoseconds for these bytes over the network.
    pub(crate) fn transfer_ns(&self, bytes: f64) -> f64 {
        bytes * 1e9 / self.bytes_per_second.max(1) as f64
    }

    /// Nanoseconds until all parts of a query have begun and have ended.
    pub(crate) fn setup_ns(&self) -> f64 {
        SETUP_LATENCIES * self.latency_ns as f64 + SETUP_NS
    }
}

/// A query over machines takes so many times the latency: connections, links and the end of each part.
const SETUP_LATENCIES: f64 = 8.0;

/// And so many nanoseconds for threads and for planning in each process.
const SETUP_NS: f64 = 3e6;

impl Default for Machines {
    /// One machine.
    fn default() -> Machines {
        Machines::of(&[1], 0, 1)
    }
}

impl fmt::Debug for Machines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machines { latency_ns, bytes_per_second, always, .. } = self;
        f.debug_struct("Machines")
            .field("threads", &&self.threads[..self.count()])
            .field("latency_ns", latency_ns)
            .field("bytes_per_second", bytes_per_second)
            .field("always", always)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_all_rows_once_by_the_threads_of_machines() {
        for (threads, rows) in
            [(vec![1, 1, 1], 0..10), (vec![4, 1], 7..1007), (vec![2, 2, 2, 2], 5..6), (vec![9], 3..3)]
        {
            let ranges = Machines::of(&threads, 0, 1).ranges(rows.clone());
            assert_eq!(ranges.len(), threads.len());
            assert!(ranges.iter().cloned().flatten().eq(rows), "{ranges:?}");
        }
        assert_eq!(Machines::of(&[4, 1], 0, 1).ranges(0..1000), [0..800, 800..1000]);
    }
}
