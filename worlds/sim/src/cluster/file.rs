//! The format of a cluster's file.
//!
//! ```toml
//! name = "a rack"
//! link_gbit_per_s = 25.0
//! latency_us = 20.0
//!
//! [[machines]]
//! count = 8
//! machine = "epyc-7763"
//! threads = 64
//!
//! [[losses]]
//! process = 3
//! at_ms = 10.5
//! ```

use super::{ClusterLoss, ClusterMachine, LinkCosts};
use crate::Machine;
use crate::machine::{Decades, shown};
use std::fmt;

/// A cluster as a file describes it: its machines, their links, and machines that are lost.
#[derive(Clone, Debug)]
pub struct ClusterFile {
    /// For people.
    pub name: String,
    /// The machines, without that of the process that begins a network.
    pub machines: Vec<ClusterMachine>,
    /// Their links.
    pub link: LinkCosts,
    /// The time of each byte that a box sends to another process, or takes from one, in nanoseconds.
    pub crossing_byte_ns: f64,
    /// Machines that are lost.
    pub losses: Vec<ClusterLoss>,
    /// A process that has sent nothing for so long is lost, in nanoseconds.
    pub silence_ns: f64,
}

/// The mistake in a cluster's file: the file, the position in it, and the expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterFileError {
    file: String,
    message: String,
}

impl fmt::Display for ClusterFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.message)
    }
}

impl std::error::Error for ClusterFileError {}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    /// The bits that a machine's link carries each way in a second.
    link_gbit_per_s: Decades<-6, 6>,
    latency_us: Option<Decades<-3, 9>>,
    crossing_byte_ns: Option<Decades<-6, 6>>,
    silence_ms: Option<Decades<-3, 9>>,
    machines: Vec<Machines>,
    #[serde(default)]
    losses: Vec<Loss>,
}

/// Machines that are alike.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Machines {
    #[serde(default = "one")]
    count: usize,
    /// A name of the simulator's, or a file.
    machine: String,
    /// By default one for each of its PUs.
    threads: Option<usize>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Loss {
    process: usize,
    at_ms: Decades<-6, 9>,
    #[serde(default)]
    silent: bool,
}

fn one() -> usize {
    1
}

/// More machines are a mistake.
const MOST: usize = 1024;

/// Headers of Ethernet, IP and TCP take the rest: 1,448 of 1,538 bytes are a stream's.
pub const STREAM: f64 = 1448.0 / 1538.0;

/// The time of each byte that crosses by default, with Arrow's format, in nanoseconds.
pub const CROSSING_BYTE_NS: f64 = 0.06;

impl ClusterFile {
    /// Reads a cluster from the text of a file; `file` is for messages. `machine` gives the machine of a name.
    ///
    /// # Errors
    /// The text is not TOML of this shape, a number is missing or out of range, or there is no such machine.
    ///
    /// ```
    /// use vicus_sim::{ClusterFile, Machine};
    ///
    /// let named = |name: &str| Machine::by_name(name).ok_or(format!("there is no {name}"));
    /// let text = "name = \"rack\"\nlink_gbit_per_s = 25.0\n[[machines]]\ncount = 3\nmachine = \"epyc-7763\"";
    /// let rack = ClusterFile::parse("rack.toml", text, named)?;
    /// assert_eq!(rack.machines.len(), 3);
    /// let error = ClusterFile::parse("rack.toml", &text.replace("epyc", "epic"), named).unwrap_err();
    /// assert_eq!(error.to_string(), "rack.toml: machines: there is no epic-7763");
    /// # Ok::<(), vicus_sim::ClusterFileError>(())
    /// ```
    pub fn parse(
        file: &str,
        text: &str,
        mut machine: impl FnMut(&str) -> Result<Machine, String>,
    ) -> Result<ClusterFile, ClusterFileError> {
        let error = |message: String| ClusterFileError { file: file.to_owned(), message };
        let read: File = toml::from_str(text).map_err(|mistake| error(shown(&mistake.to_string())))?;
        let mut machines = Vec::new();
        for alike in &read.machines {
            let described = machine(&alike.machine).map_err(|why| error(format!("machines: {why}")))?;
            let pus = described.topology.usable_pus().count();
            let threads = alike.threads.unwrap_or(pus);
            if !(1..=usize::from(u16::MAX)).contains(&threads) {
                return Err(error(format!("machines: {threads} threads: expected 1 to {}", u16::MAX)));
            }
            if alike.count > MOST - machines.len() {
                return Err(error(format!("machines: expected {MOST} of them at most")));
            }
            machines.extend(std::iter::repeat_n(ClusterMachine::of(&described, threads), alike.count));
        }
        if machines.is_empty() {
            return Err(error("machines: expected one or more".to_owned()));
        }
        let loss = |loss: &Loss| {
            let is_one = (1..=machines.len()).contains(&loss.process);
            let at_ns = loss.at_ms.0 * 1e6;
            is_one
                .then_some(ClusterLoss { process: loss.process, at_ns, is_silent: loss.silent })
                .ok_or_else(|| error(format!("losses: process {}: expected 1 to {}", loss.process, machines.len())))
        };
        let losses = read.losses.iter().map(loss).collect::<Result<Vec<ClusterLoss>, _>>()?;
        let plain = LinkCosts::default();
        Ok(ClusterFile {
            name: read.name,
            machines,
            link: LinkCosts {
                bytes_per_s: read.link_gbit_per_s.0 * 1e9 * STREAM / 8.0,
                latency_ns: read.latency_us.map_or(plain.latency_ns, |us| us.0 * 1e3),
                ..plain
            },
            crossing_byte_ns: read.crossing_byte_ns.map_or(CROSSING_BYTE_NS, |ns| ns.0),
            losses,
            silence_ns: read.silence_ms.map_or(1e9, |ms| ms.0 * 1e6),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Result<Machine, String> {
        Machine::by_name(name).ok_or_else(|| format!("there is no {name}"))
    }

    const RACK: &str = "
        name = \"rack\"
        link_gbit_per_s = 100.0
        latency_us = 5.0
        silence_ms = 250.0
        [[machines]]
        count = 2
        machine = \"epyc-7763\"
        [[machines]]
        machine = \"opteron-6172\"
        threads = 4
        [[losses]]
        process = 3
        at_ms = 1.5
        silent = true
    ";

    #[test]
    fn machines_of_two_kinds_have_their_threads_and_memory() {
        let rack = ClusterFile::parse("rack.toml", RACK, named).unwrap();
        let threads: Vec<usize> = rack.machines.iter().map(|machine| machine.counts.threads).collect();
        let pus = named("epyc-7763").unwrap().topology.usable_pus().count();
        assert_eq!(threads, [pus, pus, 4]);
        assert!(rack.machines[2].memory_bytes_per_s < rack.machines[0].memory_bytes_per_s);
        assert_eq!((rack.link.latency_ns, rack.silence_ns), (5e3, 250e6));
        assert!((rack.link.bytes_per_s - 11.77e9).abs() < 0.01e9, "{}", rack.link.bytes_per_s);
        assert_eq!(rack.losses, [ClusterLoss { process: 3, at_ns: 1.5e6, is_silent: true }]);
    }

    #[test]
    fn mistakes_say_where_they_are_and_what_is_expected() {
        let wrong = [
            ("process = 3", "process = 4", "losses: process 4: expected 1 to 3"),
            ("process = 3", "process = 0", "losses: process 0: expected 1 to 3"),
            ("threads = 4", "threads = 0", "machines: 0 threads: expected 1 to 65535"),
            ("count = 2", "count = 5000", "machines: expected 1024 of them at most"),
            ("latency_us = 5.0", "latency = 5.0", "unknown field `latency`"),
            ("= 100.0", "= -1.0", "expected a number from 1e-6 to 1e6"),
            ("opteron-6172", "nothing", "machines: there is no nothing"),
        ];
        for (good, bad, why) in wrong {
            let error = ClusterFile::parse("rack.toml", &RACK.replace(good, bad), named).unwrap_err().to_string();
            assert!(error.starts_with("rack.toml: ") && error.contains(why), "{bad}: {error}");
        }
        let none = "name = \"rack\"\nlink_gbit_per_s = 1\nmachines = []";
        let error = ClusterFile::parse("rack.toml", none, named).unwrap_err().to_string();
        assert!(error.contains("expected one or more"), "{error}");
    }
}
