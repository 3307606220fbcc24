//! Locality queues.
//!
//! Wittmann, Hager, "Optimizing ccNUMA locality for task-parallel execution under OpenMP and TBB on multicore-based
//! systems", 2010, §2.2: blocks wait in one first-in-first-out queue per locality domain; a task is only a token, and
//! whoever runs it takes the oldest block of its own domain, else of the next domains cyclically. A token for each
//! block is in `central`'s bounded pool, so as a plan the tokens are the act of looking.

use super::{Draft, Parameter, Setting, Strategy};
use crate::{Dealing, Order, Plan, QueueId, Scan, Take};
use vicus_topology::{PuId, Topology};

pub(super) struct LocalityQueues;

impl Strategy for LocalityQueues {
    fn name(&self) -> &'static str {
        "locality-queues"
    }

    fn source(&self) -> &'static str {
        "Wittmann and Hager, §2.2"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[]
    }

    fn plan(&self, machine: &Topology, pus: &[PuId], setting: &Setting) -> Plan {
        let mut draft = Draft::new(machine, pus, 0, |index| machine.pus[pus[index].index()].node);
        let queues: Vec<QueueId> = draft
            .pool_ids()
            .map(|pool| {
                let (home, wake) = (draft.pool_node(pool), draft.pools_by_rank(pool));
                draft.queue(format!("blocks of {home}"), None, Order::Deque, home, wake)
            })
            .collect();
        for seat in draft.seat_ids() {
            let domain = draft.seat(seat).pool.index();
            let own = queues[domain];
            let next = queues[domain + 1..].iter().chain(&queues[..domain]).copied().collect();
            draft.seats[seat.index()].place = [own, own];
            draft.probe(seat, 1, Scan::List(vec![own]), Take::Oldest);
            draft.seats[seat.index()].while_waiting = 1;
            draft.probe(seat, 2, Scan::List(next), Take::Oldest);
        }
        // A block's home, set when its memory was first written, decides alone, whatever its size.
        let nearest = |node: &vicus_topology::Node| {
            let rank = |pool| draft.rank(node.id, draft.pool_node(pool));
            draft.pool_ids().min_by_key(|&pool| (rank(pool), pool)).map(|pool| queues[pool.index()])
        };
        let dealing = Dealing {
            more_bytes_than: 0,
            only_uneven: false,
            intensity_first: true,
            only_coarse: false,
            queues: machine.nodes.iter().map(|node| nearest(node).expect("a plan has a pool")).collect(),
            costs: machine.distances.clone(),
        };
        Plan { dealing: Some(dealing), ..draft.finish(setting, queues) }
    }
}
