//! The plan in words: queues, pools, the steps of each seat, and the dealing of tasks.
//!
//! All structs are taken apart field by field, so the compiler reports a new field that is not shown.

use crate::{Dealing, Idle, Plan, Pool, Probe, QueueId, QueueSpec, Robber, Scan, SeatPlan, Tokens, Warm, When};
use std::fmt;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan {
            strategy,
            queues,
            seats,
            pools,
            entry,
            homes,
            in_turn,
            defers_boxes,
            spills,
            roams,
            dealing,
            tokens,
            warm,
            front,
        } = self;
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
        if !in_turn.is_empty() {
            writeln!(f, "what names no place: in turn to {}", self.names(in_turn))?;
        }
        if *defers_boxes {
            writeln!(f, "boxes that have received rows: as deferred tasks")?;
        }
        if *spills {
            writeln!(
                f,
                "deferred tasks of an only request, once another seat uses their queue: to the spawner's immediate ones"
            )?;
        }
        if *roams {
            writeln!(f, "threads are not bound: each is, before it looks for a task, as a seat where it runs")?;
        }
        if let Some(dealing) = dealing {
            self.dealing(f, dealing)?;
        }
        if let Some(Tokens { capacity }) = tokens {
            let most = capacity.map_or("any number".to_owned(), |tokens| format!("at most {tokens}"));
            writeln!(f, "tokens: {most}; a task is taken with one")?;
        }
        if let Some(Warm { queues, cache_bytes, more_bytes_than, percent, nodes: _ }) = warm {
            writeln!(
                f,
                "tasks of more than {more_bytes_than} bytes, {percent} % of which a pool has used last and may have in \
                    its caches:"
            )?;
            for (pool, (&queue, bytes)) in queues.iter().zip(cache_bytes).enumerate() {
                writeln!(f, "  pool{pool}, with {bytes} bytes: to {}", self.name(queue))?;
            }
        }
        if let Some(front) = front {
            writeln!(f, "requests that have just begun: to {}, where a free seat looks first", self.name(*front))?;
        }
        writeln!(f, "entry: {}", self.names(entry))
    }
}

impl Plan {
    fn name(&self, queue: QueueId) -> &str {
        &self.queues[queue.index()].name
    }

    fn names(&self, queues: &[QueueId]) -> String {
        queues.iter().map(|&queue| self.name(queue)).collect::<Vec<_>>().join(", ")
    }

    fn seat(&self, f: &mut fmt::Formatter<'_>, index: usize, seat: &SeatPlan) -> fmt::Result {
        let SeatPlan { pu, node, affinity, pool, spare, is_alone: _, place, tasks, look, idle } = seat;
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
                Scan::List(queues) => ("", queues),
                // The index of the cursor is internal to worlds.
                Scan::Ring(queues, _) => (" round robin", queues),
            };
            let when = match when {
                When::NotEmpty => String::new(),
                When::LongerThan(limits) => format!(" if longer than {limits:?}"),
            };
            let rest = rest_to.map_or(String::new(), |queue| format!(", the rest to {}", self.name(queue)));
            let waiting = if *while_waiting { "" } else { "; while it waits for a task, of that task's request alone" };
            writeln!(f, "  {rule}. {take:?} of{ring} {}{when}{rest}{waiting}", self.names(queues))?;
        }
        writeln!(f, "  else {idle}")
    }

    fn dealing(&self, f: &mut fmt::Formatter<'_>, dealing: &Dealing) -> fmt::Result {
        let Dealing {
            more_bytes_than,
            only_uneven,
            crowd,
            fan,
            spread_within,
            stretches_at_most,
            holds,
            intensity_first,
            only_coarse,
            boxes,
            locations,
            queues,
            costs,
        } = dealing;
        let what = if *boxes { "tasks" } else { "tasks that are no boxes," };
        let without: Vec<usize> = (0..holds.len()).filter(|&at| !holds[at]).collect();
        let even = match (only_uneven, &without[..]) {
            (false, _) => String::new(),
            (true, []) => " that lie unevenly".to_owned(),
            (true, without) => format!(" that lie unevenly, but for locations {without:?}, which have no memory"),
        };
        let looks = match stretches_at_most {
            None => String::new(),
            Some(most) => format!(", of which at most {most} stretches are looked up for each access"),
        };
        let coarse = if *only_coarse { ", coarse memory only" } else { "" };
        let intense = if *intensity_first { ", an intensely used datum's home first" } else { "" };
        let to = self.names(queues);
        writeln!(f, "deals {what} of more than {more_bytes_than} bytes{even}{coarse}{intense}{looks}: to {to}")?;
        if let Some(fan) = fan {
            let all = Dealing::NEARLY_ALL;
            writeln!(
                f,
                "  the first {fan} of a spawner, and all of one that has as many bytes itself: only if {all} % of \
                    theirs lie there"
            )?;
        }
        if let Some(percent) = spread_within {
            writeln!(
                f,
                "  of places that cost at most {percent} % more than the cheapest: to the one with the fewest bytes of \
                    the spawner's"
            )?;
        }
        if let Some(requests) = crowd {
            writeln!(f, "  from {requests} requests on: to the spawner's node")?;
        }
        for (node, locations) in locations.iter().enumerate() {
            let in_turn = if locations.len() > 1 { ", in turn by home number" } else { "" };
            let locations: Vec<usize> = locations.iter().map(|location| location.index()).collect();
            writeln!(f, "  node{node} is at locations {locations:?}{in_turn}")?;
        }
        for (index, (&queue, costs)) in queues.iter().zip(costs).enumerate() {
            writeln!(f, "  location{index}: {}; a byte costs {costs:?}", self.name(queue))?;
        }
        Ok(())
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
