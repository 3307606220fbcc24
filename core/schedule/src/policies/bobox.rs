//! The scheduler of the Bobox report.
//!
//! Bednárek, Dokulil, Yaghob, "The Bobox Project: Parallelization Framework and Server for Data Processing", technical
//! report 2011/1, §3.4: per thread an immediate queue (head in, head out) and a stealing queue (tail in, the owner takes
//! the head); a thief takes several tasks from the tail of a victim's stealing queue into its own immediate queue.
//! Victims round robin (§3.4), not at random (§6.3).

use super::{Draft, Parameter, SPIN, Setting, Strategy, Values};
use crate::{End, Order, Plan, PoolId, QueueId, Scan, Take};
use vicus_topology::{PuId, Topology};

pub(super) struct Bobox;

const SEVERAL: Parameter = Parameter {
    name: "several",
    default: 4,
    values: Values::Between(1, u16::MAX as u32),
    what: "how many tasks a thief takes at most",
};

impl Strategy for Bobox {
    fn name(&self) -> &'static str {
        "bobox"
    }

    fn source(&self) -> &'static str {
        "Bobox report 2011/1, §3.4"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[SEVERAL, SPIN]
    }

    fn plan(&self, machine: &Topology, pus: &[PuId], setting: &Setting) -> Plan {
        // A pool for each thread: an immediate task is nobody else's, so its push may wake only its owner.
        let mut draft = Draft::new(machine, pus, 0, |index| index);
        let mut immediate: Vec<QueueId> = Vec::new();
        let mut stealing: Vec<QueueId> = Vec::new();
        for seat in draft.seat_ids() {
            let home = draft.seat(seat).node;
            let own = vec![PoolId::new(seat.index())];
            immediate.push(draft.queue(format!("immediate of {seat:?}"), Some(seat), Order::Deque, home, own));
            let wake = draft.pools_by_rank(PoolId::new(seat.index()));
            stealing.push(draft.queue(format!("stealing of {seat:?}"), Some(seat), Order::Deque, home, wake));
        }
        let several = setting.value("several") as u16;
        for seat in draft.seat_ids() {
            let index = seat.index();
            let victims = stealing[index + 1..].iter().chain(&stealing[..index]).copied().collect();
            draft.seats[index].place = [immediate[index], stealing[index]];
            draft.probe(seat, 1, Scan::List(vec![immediate[index]]), Take::Youngest);
            draft.probe_if_free(seat, 2, Scan::List(vec![stealing[index]]), Take::Oldest);
            draft.probe_if_free(seat, 3, Scan::Ring(victims, 0), Take::Several(End::Youngest, several));
            if let Some(steal) = draft.seats[index].look.get_mut(2) {
                steal.rest_to = Some(immediate[index]);
            }
        }
        draft.finish(setting, stealing)
    }
}
