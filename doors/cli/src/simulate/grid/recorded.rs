//! Recorded queries of SP2Bench as workloads: alone, sixteen at once, and short ones beside long ones.

use super::recordings::Recordings;
use anyhow::Context;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vicus_sim::grid::Workload;
use vicus_sim::{Replay, ReplayOptions};

/// A recorded workload.
pub(super) struct Recorded {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// The queries of a recording: one, or a long one and a short one.
    queries: &'static [&'static str],
    /// How many times they run at once.
    copies: usize,
}

impl Recorded {
    pub(super) const ALL: [Recorded; 5] = [
        Recorded { name: "q5a", what: "query 5a of SP2Bench, recorded", queries: &["q5a"], copies: 1 },
        Recorded { name: "q9", what: "query 9 of SP2Bench, recorded", queries: &["q9"], copies: 1 },
        Recorded { name: "16 of q5a", what: "query 5a, 16 times at once", queries: &["q5a"], copies: 16 },
        Recorded { name: "16 of q9", what: "query 9, 16 times at once", queries: &["q9"], copies: 16 },
        Recorded {
            name: "q3b beside q5a",
            what: "how long each of 8 times query 3b takes beside 8 times query 5a",
            queries: &["q5a", "q3b"],
            copies: 8,
        },
    ];
}

/// The numbers of threads for planned queries.
const PLANNED: [usize; 3] = [4, 16, 64];

/// The numbers of threads with recordings: for each machine the largest it has room for, or else the smallest.
pub(super) fn thread_counts(machines: impl Iterator<Item = usize>) -> BTreeSet<usize> {
    let fits = |threads: usize| PLANNED.into_iter().rfind(|&planned| planned <= threads).unwrap_or(PLANNED[0]);
    machines.map(fits).collect()
}

/// Makes or reads the recordings.
pub(super) fn workloads(
    wanted: &[&Recorded],
    counts: &BTreeSet<usize>,
    mut source: Recordings,
) -> anyhow::Result<Vec<Workload>> {
    let workload = |one: &&Recorded| {
        let mut programs = BTreeMap::new();
        for &threads in counts {
            let trace = source.of_queries(one.queries, threads)?;
            let header = trace.header();
            let mut requests: Vec<u32> = header.models.iter().flat_map(|model| &model.requests).copied().collect();
            requests.sort_unstable();
            // The last ones: earlier ones load data.
            let requests = requests.split_off(requests.len().saturating_sub(one.queries.len()));
            let options = ReplayOptions { requests, copies: one.copies, ..ReplayOptions::default() };
            let replay = Replay::of(trace, &options)
                .with_context(|| format!("{} can't be replayed", one.queries.join(" and ")))?;
            programs.insert(threads, Arc::new(replay.program));
        }
        let workload = Workload::recorded(one.name, one.what, programs);
        Ok(if one.queries.len() > 1 { workload.of_short_requests() } else { workload })
    };
    wanted.iter().map(workload).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_for_as_many_threads_as_machines_have() {
        assert_eq!(thread_counts([2, 8, 63, 64, 256].into_iter()), [4, 16, 64].into());
        assert_eq!(thread_counts([3].into_iter()), [4].into());
    }
}
