//! The plan in words: queues, pools, the steps of each seat, and the placements of tasks and boxes.
//!
//! All structs are taken apart field by field, so the compiler reports a new field that is not shown. Each placement
//! writes its own lines.

use crate::placement::Section;
use crate::{Idle, Patience, Plan, Pool, Probe, QueueId, QueueScan, QueueSpec, Robber, SeatPlan, Tokens, When};
use std::fmt;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { strategy, queues, seats, pools, entry, homes, roams, tokens, tasks: _, boxes: _ } = self;
        writeln!(f, "strategy {strategy}")?;
        for (index, queue) in queues.iter().enumerate() {
            writeln!(f, "q{index} {queue}")?;
        }
        for (index, Pool { seats }) in pools.iter().enumerate() {
            let seats: Vec<String> = seats.iter().map(|seat| format!("{seat:?}")).collect();
            writeln!(f, "pool{index}: {}", seats.join(", "))?;
        }
        for (index, seat) in seats.iter().enumerate() {
            self.seat(f, index, seat)?;
        }
        for (node, queues) in homes.iter().enumerate() {
            writeln!(f, "data on node{node}: to {}", self.names(queues))?;
        }
        self.section(f, Section::Plain)?;
        if *roams {
            writeln!(f, "threads are not bound: each is, before it looks for a task, as a seat where it runs")?;
        }
        self.section(f, Section::Bytes)?;
        if let Some(Tokens { capacity }) = tokens {
            let most = capacity.map_or("any number".to_owned(), |tokens| format!("at most {tokens}"));
            writeln!(f, "tokens: {most}; a task is taken with one")?;
        }
        self.section(f, Section::Caches)?;
        self.section(f, Section::Young)?;
        writeln!(f, "entry: {}", self.names(entry))
    }
}

impl Plan {
    /// The lines of all placements in a section.
    fn section(&self, f: &mut fmt::Formatter<'_>, section: Section) -> fmt::Result {
        let mut tasks = self.tasks.iter().filter(|placement| placement.section() == section);
        tasks.try_for_each(|placement| placement.write(f, self))?;
        let mut boxes = self.boxes.iter().filter(|placement| placement.section() == section);
        boxes.try_for_each(|placement| placement.write(f, self))
    }

    pub(crate) fn name(&self, queue: QueueId) -> &str {
        &self.queues[queue.index()].name
    }

    pub(crate) fn names(&self, queues: &[QueueId]) -> String {
        queues.iter().map(|&queue| self.name(queue)).collect::<Vec<_>>().join(", ")
    }

    fn seat(&self, f: &mut fmt::Formatter<'_>, index: usize, seat: &SeatPlan) -> fmt::Result {
        let SeatPlan { pu, node, affinity, pool, spare, is_alone: _, place, tasks, look, idle, patience } = seat;
        let spare = if *spare { " (spare)" } else { "" };
        writeln!(f, "seat{index}{spare}: {pu} on {node}, {pool:?}, affinity {affinity:?}")?;
        let [immediate, deferred] = place.map(|queue| self.name(queue));
        let tasks = match self.name(*tasks) {
            tasks if tasks == immediate => String::new(),
            tasks => format!("; immediate ones that are no boxes to {tasks}"),
        };
        writeln!(f, "  immediate to {immediate}; deferred to {deferred}{tasks}")?;
        for Probe { rule, scan, take, when, rest_to, while_waiting } in look {
            let (ring, queues) = match scan {
                QueueScan::List(queues) => ("", queues),
                // The index of the cursor is internal to worlds.
                QueueScan::Ring(queues, _) => (" round robin", queues),
            };
            let when = match when {
                When::NotEmpty => String::new(),
                When::LongerThan(limits) => format!(" if longer than {limits:?}"),
            };
            let rest = rest_to.map_or(String::new(), |queue| format!(", the rest to {}", self.name(queue)));
            let waiting = if *while_waiting { "" } else { "; while it waits for a task, of that task's request alone" };
            writeln!(f, "  {rule}. {take:?} of{ring} {}{when}{rest}{waiting}", self.names(queues))?;
        }
        writeln!(f, "  else {idle}{patience}")
    }
}

impl fmt::Display for QueueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QueueSpec { name, owner, order, capacity, home, wake, robbers } = self;
        let owner = owner.map_or(String::new(), |seat| format!(", pushed by {seat:?} alone"));
        let capacity = capacity.map_or(String::new(), |tasks| format!(", at most {tasks} tasks"));
        let robbers: String = robbers.iter().map(Robber::to_string).collect();
        write!(f, "{name}: {order:?}, home {home}{owner}{capacity}, wakes {wake:?}{robbers}")
    }
}

impl fmt::Display for Robber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Robber { pool, longer_than } = self;
        write!(f, ", beyond {longer_than} {pool:?}")
    }
}

impl fmt::Display for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Patience { least_ns, gives_way } = self;
        match (least_ns, gives_way) {
            (0, 0) => Ok(()),
            _ => {
                write!(f, "; while a task waits, after at least {least_ns} ns, and having given way {gives_way} times")
            }
        }
    }
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Idle::Sleep { spin_ns } => write!(f, "sleeps after {spin_ns} ns"),
            Idle::BackOff { first_ns, factor, max_ns, sleeps } => {
                let end = if *sleeps { "" } else { ", and is never woken" };
                write!(f, "pauses for {first_ns} ns, then {factor} times as long, up to {max_ns} ns{end}")
            }
        }
    }
}
