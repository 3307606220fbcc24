//! The scheduler of the Bobox report.
//!
//! Bednárek, Dokulil, Yaghob, "The Bobox Project: Parallelization Framework and Server for Data Processing", technical
//! report 2011/1, §3.4: per thread an immediate queue (head in, head out) and a stealing queue (tail in, the owner
//! takes the head); a thief takes several tasks from the tail of a victim's stealing queue into its own immediate
//! queue. Victims round robin (§3.4), not at random (§6.3).
//!
//! The report's immediate tasks are vias; here vias are no tasks. Its boxes are stolen after they have received data
//! (Fig. 3, §3.5), so they are relaxed tasks. `boxes=immediate` takes the flow protocol's kind for them, and then a
//! pipeline stays with one thread. A thief's other tasks stay relaxed here: otherwise two thieves would have all of
//! eight long tasks (`stolen=immediate` is as in the report). A program's own tasks are absent from the report; they
//! are relaxed as well: one thread spawns many of them, and no other thread takes an immediate one.

use super::{AllowedValues, Draft, Parameter, SPARES, SPIN, Setting, Strategy};
use crate::{BoxPlacement, End, Plan, QueueId, QueueOrder, QueueScan, Take};
use vicus_topology::{PuId, Topology};

pub(super) struct Bobox;

const SEVERAL: Parameter = Parameter {
    name: "several",
    default: 4,
    values: AllowedValues::Between(1, u16::MAX as u32),
    what: "how many tasks a thief takes at most",
};

const BOXES: Parameter = Parameter {
    name: "boxes",
    default: 0,
    values: AllowedValues::Named(&["relaxed", "immediate"]),
    what: "what a box that has received rows is: a relaxed task, which others steal, or an immediate one",
};

const STOLEN: Parameter = Parameter {
    name: "stolen",
    default: 0,
    values: AllowedValues::Named(&["relaxed", "immediate"]),
    what: "what becomes of the tasks that a thief takes beside the one that it runs: they stay relaxed, and others may \
        steal them again, or they become immediate ones, \
           which no other thread takes (§3.4)",
};

impl Strategy for Bobox {
    fn name(&self) -> &'static str {
        "bobox"
    }

    fn source(&self) -> &'static str {
        "Bobox report 2011/1, §3.4"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[SEVERAL, STOLEN, BOXES, SPARES, SPIN]
    }

    fn plan(&self, machine: &Topology, pus: &[PuId], setting: &Setting) -> Plan {
        // A pool for each thread: only the owner takes its immediate tasks, so such a push may wake only the owner, or
        // the thread lent while the owner blocks.
        let mut draft = Draft::with_spares(machine, pus, setting, |index| index);
        let mut immediate: Vec<QueueId> = Vec::new();
        let mut stealing: Vec<QueueId> = Vec::new();
        for seat in draft.seat_ids() {
            let (home, pool) = (draft.seat(seat).node, draft.seat(seat).pool);
            immediate.push(draft.queue(
                format!("immediate of {seat:?}"),
                Some(seat),
                QueueOrder::Deque,
                home,
                vec![pool],
            ));
        }
        for pool in draft.pool_ids() {
            let (home, wake) = (draft.pool_node(pool), draft.pools_by_rank(pool));
            let [thread, spares @ ..] = &draft.pools[pool.index()].seats[..] else {
                unreachable!("a pool has a thread")
            };
            // A lent thread puts its tasks there, too.
            let owner = spares.is_empty().then_some(*thread);
            stealing.push(draft.queue(format!("stealing of {thread:?}"), owner, QueueOrder::Deque, home, wake));
        }
        let several = setting.value("several") as u16;
        for seat in draft.seat_ids() {
            let (index, domain) = (seat.index(), draft.seat(seat).pool.index());
            let victims = stealing[domain + 1..].iter().chain(&stealing[..domain]).copied().collect();
            let pool = draft.pools[domain].seats.iter().filter(|&&other| other != seat);
            let lent = pool.map(|other| immediate[other.index()]).collect();
            draft.seats[index].place = [immediate[index], stealing[domain]];
            draft.seats[index].tasks = stealing[domain];
            draft.probe(seat, 1, QueueScan::List(vec![immediate[index]]), Take::Youngest);
            // The tasks left by a blocked thread, or by the one lent for it.
            draft.probe(seat, 4, QueueScan::List(lent), Take::Oldest);
            draft.probe_if_free(seat, 2, QueueScan::List(vec![stealing[domain]]), Take::Oldest);
            draft.probe_if_free(seat, 3, QueueScan::Ring(victims, 0), Take::Several(End::Youngest, several));
            if let Some(steal) = draft.seats[index].look.iter_mut().find(|probe| probe.rule == 3) {
                steal.rest_to = Some(if setting.value(STOLEN.name) == 1 { immediate[index] } else { stealing[domain] });
            }
        }
        let own = if setting.value(BOXES.name) == 0 { BoxPlacement::OwnDeferred } else { BoxPlacement::Own };
        Plan { boxes: vec![BoxPlacement::AtHome, own], ..draft.finish(setting, stealing) }
    }
}
