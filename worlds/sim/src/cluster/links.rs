//! The links of a simulated cluster: each machine has one way out and one way in, and envelopes stand in line there.

use crate::fluid::Time;

/// The costs of links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkCosts {
    /// The bytes that a machine sends in a second, and as many that it receives meanwhile.
    pub bytes_per_s: f64,
    /// How long a byte is on its way, in nanoseconds: the network's, and that of both systems.
    pub latency_ns: f64,
    /// The bytes of a second between two processes alone, however fast the machines' ways are: a thread at each end
    /// copies them.
    pub stream_bytes_per_s: f64,
    /// How long a frame keeps the threads at its ends busy besides, in nanoseconds.
    pub frame_ns: f64,
}

impl Default for LinkCosts {
    /// 25 Gb/s, and what `vicus bench nodes` measures on loopback for the rest.
    fn default() -> LinkCosts {
        LinkCosts { bytes_per_s: 25e9 / 8.0, latency_ns: 20_000.0, stream_bytes_per_s: 8e9, frame_ns: 3_000.0 }
    }
}

/// When the ways are free again.
pub(super) struct Links {
    costs: LinkCosts,
    out: Vec<Time>,
    into: Vec<Time>,
    /// By pair of processes.
    streams: Vec<Time>,
    /// The bytes that crossed.
    pub(super) bytes: u64,
    pub(super) frames: u64,
}

fn time(ns: f64) -> Time {
    (ns * 1000.0).round() as Time
}

impl Links {
    pub(super) fn new(processes: usize, costs: LinkCosts) -> Links {
        Links {
            costs,
            out: vec![0; processes],
            into: vec![0; processes],
            streams: vec![0; processes * processes],
            bytes: 0,
            frames: 0,
        }
    }

    /// Sends a frame now; the time at which all of it is there. Frames between two processes keep their order.
    pub(super) fn send(&mut self, now: Time, from: usize, to: usize, bytes: u64) -> Time {
        self.bytes += bytes;
        self.frames += 1;
        let costs = self.costs;
        let stream = from * self.out.len() + to;
        let copied = time(bytes as f64 * 1e9 / costs.stream_bytes_per_s + costs.frame_ns);
        let wired = time(bytes as f64 * 1e9 / costs.bytes_per_s);
        // The thread that writes waits for the way out while it is full.
        let begin = now.max(self.streams[stream]).max(self.out[from]);
        self.streams[stream] = begin + copied.max(wired);
        self.out[from] = begin + wired;
        let first = begin + time(costs.latency_ns);
        let arrived = first.max(self.into[to]) + wired;
        self.into[to] = arrived;
        arrived.max(first + copied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: LinkCosts = LinkCosts { bytes_per_s: 1e9, latency_ns: 100.0, stream_bytes_per_s: 1e12, frame_ns: 0.0 };

    #[test]
    fn ways_are_shared_and_frames_keep_their_order() {
        let mut links = Links::new(3, COSTS);
        // A byte takes a nanosecond.
        assert_eq!(links.send(0, 0, 1, 1000), time(1100.0));
        // The next one waits for the way out.
        assert_eq!(links.send(0, 0, 2, 500), time(1600.0));
        // Another process's has its own way out, and shares the way in.
        assert_eq!(links.send(0, 2, 1, 1000), time(2100.0));
        let times: Vec<Time> = (0..9).map(|number| links.send(number, 1, 0, 900 - 100 * number)).collect();
        assert!(times.is_sorted(), "{times:?}");
        assert_eq!((links.bytes, links.frames), (2500 + 4500, 12));
    }

    #[test]
    fn a_stream_between_two_processes_has_a_rate_of_its_own() {
        let mut links = Links::new(2, LinkCosts { stream_bytes_per_s: 0.5e9, ..COSTS });
        links.send(0, 0, 1, 1000);
        assert_eq!(links.send(0, 0, 1, 1000), time(2000.0 + 100.0 + 2000.0));
    }
}
