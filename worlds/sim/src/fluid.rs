//! Transfers as flows through shared controllers, links, buses and caches.
//!
//! A flow is a core with a number of lines under way. Each line waits in the queues on its way, and the core gets its
//! next lines only when these have come: the longer a queue's wait, the slower are all flows with bytes there, each by
//! the share of its bytes in the queue. So a core reading from several nodes in turn is not held at the pace of the
//! slowest; and a core far from a memory, with slower lines anyway, gets less of it than a near one.
//!
//! Each queue has its chart of waits by load ([`Queueing`]). An overloaded queue grows until the flows are slow enough.
//! Without runs, the waits are the prices, and the rates the solution, of a concave problem with exactly one solution
//! (Kelly, Maulloo, Tan, "Rate control for communication networks", 1998: each flow's utility is the logarithm of its
//! rate, weighted with its bytes under way); it is found queue by queue.
//!
//! A core may read from several places by runs of pages, one place after the other. Its requests then wait for others
//! that happen to be at the same place, while another place has none: servers of a closed network ([`Queue::delay`]).
//!
//! Equal flows are one class: they have the same rate, computed once for all of them.

use crate::machine::Queueing;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Virtual time, in picoseconds.
pub(crate) type Time = u64;

/// The picoseconds of a second.
pub(crate) const SECOND: f64 = 1e12;

/// Largest deviation of a load from its wait's load before waits are computed again, as a share of the capacity.
const SLACK: f64 = 0.02;

/// The precision of loads when waits are computed. With a tenth of it, times in the papers' figures differ by 0.3 % (by
/// 2 % where chance deals tasks to cores), and the figures take a fifth longer.
const EXACT: f64 = 1e-3;

/// The most passes over all queues when waits are computed. The next computation corrects the rest.
const PASSES: usize = 200;

/// The use of a resource by a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Use {
    pub(crate) resource: usize,
    /// The bytes there for each byte of the flow.
    pub(crate) share: f64,
    /// How much longer a byte of the flow takes if lines there take longer: the part of the bytes the core waits for,
    /// divided by its bytes under way.
    pub(crate) waits: f64,
    /// Like `waits`, for bytes sent off without a wait: they delay the core only when the queue is full.
    pub(crate) posts: f64,
    /// The bytes there that come in runs, page after page from one place and then from another, for each byte of the
    /// flow and each of its streams: while a stream asks here, it asks nowhere else.
    pub(crate) turns: f64,
}

/// The pace of an undelayed flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    /// Bytes per second.
    pub(crate) limit: f64,
    /// The seconds by which a byte may be late without delaying the flow, because the core computes for longer than its
    /// bytes take.
    pub(crate) hidden: f64,
    /// How many streams of bytes are under way side by side.
    pub(crate) streams: f64,
}

/// The rate, from a byte's least seconds, the part hidden by computing, and its lateness. At least 1, since a flow
/// without a rate would never end.
fn rate_at(least: f64, hidden: f64, late: f64) -> f64 {
    (1.0 / (least + (late - hidden).max(0.0))).max(1.0)
}

/// All current flows.
pub(crate) struct Fluid {
    queues: Vec<Queue>,
    classes: Vec<Class>,
    /// The classes with flows.
    live: Vec<usize>,
    known: FxHashMap<Key, usize>,
    /// Whether the rates are out of date.
    stale: bool,
    /// The time of the classes' `served`.
    now: Time,
    started: u64,
    /// The classes at each queue, while waits are computed; kept for its memory.
    members: Vec<Vec<Member>>,
    /// The live classes while waits are computed, in the order of `live`; kept for its memory.
    going: Vec<Going>,
    /// By queue, the requested bytes per second if no line waited; kept for its memory.
    asked: Vec<f64>,
    /// The queues with possible waits; kept for its memory.
    busy: Vec<usize>,
    /// By queue, how many streams use it, and whether some come in runs; kept for its memory.
    streams: Vec<(f64, bool)>,
}

/// A class at a queue: a copy of its [`Use`]. The copies of a queue lie together, since computing waits goes through
/// them hundreds of times.
struct Member {
    /// Its place in [`Fluid::going`].
    class: u32,
    /// The bytes there for each byte of all of its flows.
    load: f64,
    waits: f64,
    posts: f64,
    turns: f64,
    /// The seconds for a byte of one of its streams, if no other is there.
    alone: f64,
    /// How long a byte of the class takes at best, and how late it may be.
    least: f64,
    hidden: f64,
    /// How late a byte is by other queues, while the wait in this one is sought.
    elsewhere: f64,
}

impl Member {
    fn new(class: usize, load: f64, this: &Use, pace: &Pace, queue: &Queue) -> Member {
        let Use { waits, posts, turns, .. } = *this;
        let Pace { limit, hidden, streams } = *pace;
        let alone = (streams / limit).max(1.0 / queue.capacity);
        let class = class as u32;
        Member { class, load, waits, posts, turns, alone, least: 1.0 / limit, hidden, elsewhere: 0.0 }
    }

    /// How late runs make bytes: each of several streams gets its part of the queue's service, but no more than it
    /// would get alone.
    fn late_by_runs(&self, delay: &Delay) -> f64 {
        self.turns * (delay.run - self.alone)
    }

    /// How late the queue makes bytes of the class. The lines waiting for other streams' runs are the lines waiting in
    /// the queue, so the longer of both counts.
    fn late_by(&self, delay: &Delay) -> f64 {
        (self.waits * delay.line).max(self.late_by_runs(delay)) + self.posts * delay.over
    }

    /// The growth of the lateness with the wait. `runs` is the growth of `delay.run`.
    fn slope(&self, delay: &Delay, runs: f64) -> f64 {
        let lines = if self.late_by_runs(delay) > self.waits * delay.line { self.turns * runs } else { self.waits };
        lines + if delay.is_full { self.posts } else { 0.0 }
    }
}

/// The effect of a queue's wait on its users, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Delay {
    /// How long a line waits.
    line: f64,
    /// How much of this is because the queue is full.
    over: f64,
    is_full: bool,
    /// How long each byte of a run takes, among the others with their runs here at the same time; 0 if no bytes come in
    /// runs.
    run: f64,
}

/// The inputs of a live class's rate, in seconds: a byte's best time, its hidden lateness, and its lateness.
#[derive(Clone, Copy)]
struct Going {
    least: f64,
    hidden: f64,
    late: f64,
}

/// A resource and its waiting lines.
struct Queue {
    /// Bytes per second.
    capacity: f64,
    chart: Queueing,
    /// The longest wait of the chart, in seconds.
    full: f64,
    /// How long a line waits, in seconds.
    wait: f64,
    /// The sum of the rates of its users.
    used: f64,
    /// The share of the other streams among its streams, as one of them meets them: all but itself. 0 if none comes in
    /// runs.
    others: f64,
}

impl Queue {
    /// The load at a wait, as a share of the capacity, and its growth with the wait.
    fn load_at(&self, wait: f64) -> (f64, f64) {
        let (load, slope) = self.chart.load_at(wait * 1e9);
        (load, slope * 1e9)
    }

    /// The effect of a wait, and the growth of the delay of runs with it.
    ///
    /// Streams that go from place to place by runs are customers of a closed network of servers, and each server serves
    /// all its customers at once. With `n` streams and load `l`, an arriving one finds others as if the load were
    /// `l (n - 1) / n`, and its run takes as many times as long (Reiser and Lavenberg's arrival theorem, 1980, with
    /// Schweitzer's approximation of the other `n - 1`). If all of `m` servers could be full, they are full for
    /// `n / (n + m - 1)` of the time. A queue without a chart, such as most links, does not know its load before it is
    /// full, so runs are not late there.
    fn delay(&self, wait: f64) -> (Delay, f64) {
        let mut delay = Delay { line: wait, over: (wait - self.full).max(0.0), is_full: wait >= self.full, run: 0.0 };
        if self.others == 0.0 || wait == 0.0 {
            return (delay, 0.0);
        }
        let longer = |load: f64| 1.0 / (1.0 - self.others * load);
        let (load, slope) = self.load_at(wait);
        delay.run = (1.0 + longer(load) - longer(self.load_at(0.0).0)) / self.capacity;
        (delay, longer(load) * longer(load) * self.others * slope / self.capacity)
    }
}

/// The properties that make flows equal, as bits: nearly equal numbers make two classes.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    limit: u64,
    hidden: u64,
    streams: u64,
    uses: Vec<(u32, [u64; 4])>,
}

struct Class {
    pace: Pace,
    uses: Vec<Use>,
    /// The bytes per second of each of its flows.
    rate: f64,
    /// The bytes received by a flow present from the start.
    served: f64,
    /// By their `served` at the end, as bits, which sort like positive numbers; then by age.
    flows: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// The end of the first of them at this rate.
    end: Time,
}

impl Class {
    fn set_end(&mut self, now: Time) {
        self.end = match self.flows.peek() {
            Some(&Reverse((served, ..))) => {
                let left = (f64::from_bits(served) - self.served).max(0.0);
                now.saturating_add((left / self.rate * SECOND).ceil() as Time)
            }
            None => Time::MAX,
        };
    }

    /// By how much the waits in all queues make a byte late.
    fn late(&self, queues: &[Queue]) -> f64 {
        let late_by = |this: &Use| {
            let queue = &queues[this.resource];
            let member = || Member::new(0, 0.0, this, &self.pace, queue);
            if queue.wait > 0.0 { member().late_by(&queue.delay(queue.wait).0) } else { 0.0 }
        };
        self.uses.iter().map(late_by).sum()
    }
}

impl Fluid {
    /// An empty set of flows over queues of these capacities, in bytes per second.
    pub(crate) fn new(queues: impl IntoIterator<Item = (f64, Queueing)>) -> Fluid {
        let queue = |(capacity, chart): (f64, Queueing)| Queue {
            capacity,
            full: chart.most_ns() / 1e9,
            chart,
            wait: 0.0,
            used: 0.0,
            others: 0.0,
        };
        let queues: Vec<Queue> = queues.into_iter().map(queue).collect();
        Fluid {
            members: queues.iter().map(|_| Vec::new()).collect(),
            going: Vec::new(),
            asked: vec![0.0; queues.len()],
            busy: Vec::new(),
            streams: vec![(0.0, false); queues.len()],
            queues,
            classes: Vec::new(),
            live: Vec::new(),
            known: FxHashMap::default(),
            stale: false,
            now: 0,
            started: 0,
        }
    }

    /// Starts a flow of this number of bytes.
    pub(crate) fn start(&mut self, now: Time, who: usize, bytes: f64, pace: Pace, uses: &[Use]) {
        self.advance(now);
        let bits = |a: &Use| (a.resource as u32, [a.share, a.waits, a.posts, a.turns].map(f64::to_bits));
        let [limit, hidden, streams] = [pace.limit, pace.hidden, pace.streams].map(f64::to_bits);
        let key = Key { limit, hidden, streams, uses: uses.iter().map(bits).collect() };
        let at = match self.known.get(&key) {
            Some(&at) => at,
            None => self.new_class(key, pace, uses),
        };
        let class = &mut self.classes[at];
        if class.flows.is_empty() {
            (class.served, class.rate) = (0.0, rate_at(1.0 / pace.limit, pace.hidden, class.late(&self.queues)));
            self.live.push(at);
        }
        class.flows.push(Reverse(((class.served + bytes).to_bits(), self.started, who)));
        self.started += 1;
        let rate = class.rate;
        class.set_end(now);
        self.use_more(at, rate);
    }

    /// Adds a rate to a class's queues, and checks whether waits have to be computed again: with more load each line
    /// waits longer.
    fn use_more(&mut self, class: usize, rate: f64) {
        for this in &self.classes[class].uses {
            let queue = &mut self.queues[this.resource];
            queue.used += this.share * rate;
            let load = queue.load_at(queue.wait).0;
            let (used, slack) = (queue.used / queue.capacity, if load < 1.0 { SLACK } else { 0.0 });
            let too_much = used > (load + slack).min(1.0) + 2.0 * EXACT;
            let too_little = queue.wait > 0.0 && used < load - SLACK.min(0.5 * load);
            self.stale |= too_much || too_little;
        }
    }

    fn new_class(&mut self, key: Key, pace: Pace, uses: &[Use]) -> usize {
        // Classes without flows are dropped now and then; otherwise differing tasks would pile them up.
        if self.classes.len() > 64 + 2 * self.live.len() {
            self.forget();
        }
        self.known.insert(key, self.classes.len());
        self.classes.push(Class {
            pace,
            uses: uses.to_vec(),
            rate: pace.limit,
            served: 0.0,
            flows: BinaryHeap::new(),
            end: Time::MAX,
        });
        self.classes.len() - 1
    }

    fn forget(&mut self) {
        let mut place = vec![usize::MAX; self.classes.len()];
        self.live.iter().enumerate().for_each(|(to, &from)| place[from] = to);
        self.known.retain(|_, at| {
            *at = place[*at];
            *at != usize::MAX
        });
        let mut kept: Vec<Option<Class>> = self.classes.drain(..).map(Some).collect();
        self.classes.extend(self.live.iter().map(|&from| kept[from].take().expect("a class lives once")));
        self.live = (0..self.classes.len()).collect();
    }

    /// The end of the next flow, if nothing else happens before.
    pub(crate) fn next_end(&mut self) -> Option<Time> {
        if self.stale {
            self.share_out();
        }
        self.live.iter().map(|&at| self.classes[at].end).min()
    }

    /// Removes a flow over by now, and returns its owner.
    pub(crate) fn finish(&mut self, now: Time) -> Option<usize> {
        self.advance(now);
        let over = |at: &usize| self.classes[*at].end <= now;
        let first = self.live.iter().copied().filter(over).min_by_key(|&at| {
            let Reverse((_, age, _)) = self.classes[at].flows.peek().expect("a live class has flows");
            *age
        })?;
        let class = &mut self.classes[first];
        let Reverse((_, _, who)) = class.flows.pop().expect("a live class has flows");
        class.set_end(now);
        let (rate, none_left) = (class.rate, class.flows.is_empty());
        self.use_more(first, -rate);
        if none_left {
            self.live.retain(|&at| at != first);
        }
        if self.live.is_empty() {
            // Starts anew, so that errors of rounding don't pile up.
            self.queues.iter_mut().for_each(|queue| (queue.used, queue.wait) = (0.0, 0.0));
            self.stale = false;
        }
        Some(who)
    }

    fn advance(&mut self, now: Time) {
        if now > self.now {
            let seconds = (now - self.now) as f64 / SECOND;
            for &at in &self.live {
                self.classes[at].served += self.classes[at].rate * seconds;
            }
            self.now = now;
        }
    }

    /// Computes the waits in all queues, and the resulting rates.
    fn share_out(&mut self) {
        self.stale = false;
        let mut asked = std::mem::take(&mut self.asked);
        asked.fill(0.0);
        for &at in &self.live {
            let class = &self.classes[at];
            let most = class.pace.limit * class.flows.len() as f64;
            class.uses.iter().for_each(|this| asked[this.resource] += this.share * most);
        }
        // With room for all possible requests, no line ever waits.
        self.busy.clear();
        for (at, queue) in self.queues.iter_mut().enumerate() {
            if asked[at] <= queue.load_at(0.0).0 * queue.capacity {
                queue.wait = 0.0;
            } else {
                self.busy.push(at);
            }
        }
        self.asked = asked;
        self.members.iter_mut().for_each(Vec::clear);
        self.going.clear();
        self.streams.fill((0.0, false));
        for (place, &at) in self.live.iter().enumerate() {
            let class = &self.classes[at];
            let flows = class.flows.len() as f64;
            for this in &class.uses {
                let queue = &self.queues[this.resource];
                self.members[this.resource].push(Member::new(place, flows * this.share, this, &class.pace, queue));
                let (streams, come_in_runs) = &mut self.streams[this.resource];
                if this.waits > 0.0 {
                    *streams += flows * class.pace.streams;
                }
                *come_in_runs |= this.turns > 0.0;
            }
        }
        for (queue, &(streams, come_in_runs)) in self.queues.iter_mut().zip(&self.streams) {
            queue.others = if come_in_runs && streams > 1.0 { (streams - 1.0) / streams } else { 0.0 };
        }
        for &at in &self.live {
            let class = &self.classes[at];
            let Pace { limit, hidden, .. } = class.pace;
            self.going.push(Going { least: 1.0 / limit, hidden, late: class.late(&self.queues) });
        }
        for _ in 0..PASSES {
            let mut worst: f64 = 0.0;
            for at in 0..self.busy.len() {
                worst = worst.max(self.settle(self.busy[at]));
            }
            if worst < EXACT {
                break;
            }
        }
        self.queues.iter_mut().for_each(|queue| queue.used = 0.0);
        for (&at, going) in self.live.iter().zip(&self.going) {
            let class = &mut self.classes[at];
            class.rate = rate_at(going.least, going.hidden, going.late);
            class.set_end(self.now);
            let rate = class.rate * class.flows.len() as f64;
            class.uses.iter().for_each(|this| self.queues[this.resource].used += this.share * rate);
        }
    }

    /// Sets the wait in one queue according to its load, with all other waits as they are. Returns the earlier error of
    /// its load, as a share of the capacity.
    fn settle(&mut self, at: usize) -> f64 {
        let Queue { capacity, wait: before, .. } = self.queues[at];
        let (delay, _) = self.queues[at].delay(before);
        for member in &mut self.members[at] {
            member.elsewhere = self.going[member.class as usize].late - member.late_by(&delay);
        }
        // The requests beyond the wait's load, and their change with the wait. It falls as the wait grows.
        let beyond = |fluid: &Fluid, wait: f64| {
            let (mut used, mut slope) = (0.0, 0.0);
            let (delay, runs) = fluid.queues[at].delay(wait);
            for member in &fluid.members[at] {
                let late = member.elsewhere + member.late_by(&delay);
                let rate = rate_at(member.least, member.hidden, late);
                used += member.load * rate;
                if late > member.hidden {
                    slope -= member.load * rate * rate * member.slope(&delay, runs);
                }
            }
            let (load, more) = fluid.queues[at].load_at(wait);
            (used / capacity - load, slope / capacity - more)
        };
        let (off, mut slope) = beyond(self, before);
        if off.abs() < EXACT || (off < 0.0 && before == 0.0) {
            return 0.0;
        }
        // The wait lies between these two, as soon as there is an upper one.
        let (mut least, mut most) = if off > 0.0 { (before, f64::INFINITY) } else { (0.0, before) };
        let (mut wait, mut now) = (before, off);
        for _ in 0..50 {
            let newton = wait - now / slope;
            wait = if slope < 0.0 && newton > least && newton < most {
                newton
            } else if most.is_finite() {
                (least + most) / 2.0
            } else {
                (2.0 * wait).max(1e-9)
            };
            (now, slope) = beyond(self, wait);
            if now > 0.0 {
                least = wait;
            } else {
                most = wait;
            }
            if now.abs() < EXACT / 10.0 || most < 1e-15 {
                break;
            }
        }
        if most < 1e-15 {
            wait = 0.0;
        }
        self.queues[at].wait = wait;
        let (delay, _) = self.queues[at].delay(wait);
        for member in &self.members[at] {
            self.going[member.class as usize].late = member.elsewhere + member.late_by(&delay);
        }
        off.abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    const GB: f64 = 1e9;

    /// A core's bytes under way: ten lines.
    const WINDOW: f64 = 640.0;

    /// Queues of these gigabytes per second, with waits only when they are full.
    fn queues(capacities: &[f64]) -> Fluid {
        Fluid::new(capacities.iter().map(|capacity| (capacity * GB, Queueing::NONE)))
    }

    /// An undelayed core's pace in gigabytes per second.
    fn pace(limit: f64) -> Pace {
        Pace { limit: limit * GB, hidden: 0.0, streams: 1.0 }
    }

    /// The core waits for all of its bytes.
    fn of(shares: &[(usize, f64)]) -> Vec<Use> {
        let of =
            |&(resource, share): &(usize, f64)| Use { resource, share, waits: share / WINDOW, posts: 0.0, turns: 0.0 };
        shares.iter().map(of).collect()
    }

    fn ends(fluid: &mut Fluid) -> Vec<(usize, f64)> {
        let mut ends = Vec::new();
        while let Some(now) = fluid.next_end() {
            let who = fluid.finish(now).expect("a flow ends when it was said to");
            ends.push((who, now as f64 / SECOND));
        }
        ends
    }

    fn assert_ends(fluid: &mut Fluid, expected: &[(usize, f64)]) {
        let ends = ends(fluid);
        assert_eq!(ends.len(), expected.len());
        for (&(who, at), &(expected_who, expected)) in ends.iter().zip(expected) {
            assert_eq!(who, expected_who, "{ends:?}");
            assert!((at - expected).abs() < EXACT * expected, "{ends:?}");
        }
    }

    #[test]
    fn one_flow_runs_at_its_limit() {
        let mut fluid = queues(&[10.0]);
        fluid.start(0, 7, 4.0 * GB, pace(2.0), &of(&[(0, 1.0)]));
        assert_ends(&mut fluid, &[(7, 2.0)]);
    }

    #[test]
    fn two_flows_share_a_controller_and_the_longer_one_gets_what_is_left() {
        let mut fluid = queues(&[10.0]);
        fluid.start(0, 0, 10.0 * GB, pace(8.0), &of(&[(0, 1.0)]));
        fluid.start(0, 1, 20.0 * GB, pace(8.0), &of(&[(0, 1.0)]));
        // 5 GB/s each: the first ends after 2 s. The other has 10 GB left, and gets 8 GB/s for them.
        assert_ends(&mut fluid, &[(0, 2.0), (1, 3.25)]);
    }

    #[test]
    fn a_slow_link_leaves_the_controller_to_others() {
        // Resource 0 is a controller of 10 GB/s, resource 1 a link of 2 GB/s to it.
        let mut fluid = queues(&[10.0, 2.0]);
        fluid.start(0, 0, 2.0 * GB, pace(20.0), &of(&[(0, 1.0), (1, 1.0)]));
        fluid.start(0, 1, 16.0 * GB, pace(20.0), &of(&[(0, 1.0)]));
        // The far one has 2 GB/s, the near one the other 8; the far one ends after 1 s, then 8 GB at 10 GB/s are left.
        assert_ends(&mut fluid, &[(0, 1.0), (1, 1.8)]);
    }

    #[test]
    fn a_full_queue_delays_only_the_bytes_that_go_there() {
        // Controllers of 100 and 3 GB/s. One flow has all bytes on the slow one, the other a quarter. A byte of both
        // takes 0.1 ns, and w more if it waits: 1 / (0.1 + w) + 1/4 / (0.1 + w/4) = 3 is solved by w = 0.35743.
        let mut fluid = queues(&[100.0, 3.0]);
        fluid.start(0, 0, 10.0 * GB, pace(10.0), &of(&[(1, 1.0)]));
        fluid.start(0, 1, 10.0 * GB, pace(10.0), &of(&[(0, 0.75), (1, 0.25)]));
        fluid.next_end();
        let rates: Vec<f64> = fluid.classes.iter().map(|class| class.rate / GB).collect();
        assert!((rates[0] + rates[1] / 4.0 - 3.0).abs() < 1e-5, "{rates:?}");
        let w = fluid.queues[1].wait * GB / WINDOW;
        assert!((1.0 / (0.1 + w) + 0.25 / (0.1 + w / 4.0) - 3.0).abs() < 1e-4, "{w}");
        assert!((rates[0] - 1.0 / (0.1 + w)).abs() < 1e-4 && (rates[1] - 1.0 / (0.1 + w / 4.0)).abs() < 1e-4);
        // At the slow one's pace both would have as much of it, and the mixed one four times as much in all.
        assert!(rates[1] < 2.8 * rates[0], "{rates:?}");
    }

    #[test]
    fn a_core_with_a_longer_way_gets_less() {
        // Both have as many bytes under way; one gets 10 GB/s alone, the other half of it, and there are 6 for both.
        let mut fluid = queues(&[6.0]);
        fluid.start(0, 0, GB, pace(10.0), &of(&[(0, 1.0)]));
        fluid.start(0, 1, GB, pace(5.0), &of(&[(0, 1.0)]));
        fluid.next_end();
        let late: Vec<f64> = fluid.classes.iter().map(|class| GB / class.rate).collect();
        assert!((late[0] - 0.1 - (late[1] - 0.2)).abs() < 1e-6, "each byte waits as long: {late:?}");
        assert!((1.0 / late[0] + 1.0 / late[1] - 6.0).abs() < 1e-4);
    }

    #[test]
    fn lines_wait_for_others_before_a_queue_is_full_and_computing_hides_it() {
        // At half load a line waits 40 ns; a core with 640 bytes under way then takes 1/16 ns longer for a byte.
        let chart = Queueing::new(&[(1.0, 80.0)]).unwrap();
        let mut fluid = Fluid::new([(8.0 * GB, chart.clone())]);
        fluid.start(0, 0, 4.0 * GB, pace(5.333_333_333), &of(&[(0, 1.0)]));
        // 1 / (3/16 + 1/16) = 4 GB/s are half of its 8.
        assert_ends(&mut fluid, &[(0, 1.0)]);
        let mut fluid = Fluid::new([(8.0 * GB, chart)]);
        fluid.start(0, 0, 4.0 * GB, Pace { hidden: 1e-9, ..pace(4.0) }, &of(&[(0, 1.0)]));
        assert_ends(&mut fluid, &[(0, 1.0)]);
    }

    #[test]
    fn what_is_sent_off_without_waiting_delays_only_where_there_is_no_room() {
        let chart = Queueing::new(&[(1.0, 80.0)]).unwrap();
        let posted = |share: f64| Use { resource: 0, share, waits: 0.0, posts: share / WINDOW, turns: 0.0 };
        let mut fluid = Fluid::new([(8.0 * GB, chart.clone())]);
        fluid.start(0, 0, 4.0 * GB, pace(4.0), &[posted(1.0)]);
        assert_ends(&mut fluid, &[(0, 1.0)]);
        let mut fluid = Fluid::new([(8.0 * GB, chart)]);
        fluid.start(0, 0, 8.0 * GB, pace(6.0), &[posted(1.0)]);
        fluid.start(0, 1, 8.0 * GB, pace(6.0), &[posted(1.0)]);
        assert_ends(&mut fluid, &[(0, 2.0), (1, 2.0)]);
    }

    /// Cores that read page after page from four controllers in turn are now and then several at one controller while
    /// another one has none. A closed network of `m` servers with `n` customers, each at any server with the same
    /// chance, has `n / (n + m - 1)` of its servers busy (Buzen, 1973).
    #[test]
    fn pages_in_turn_leave_controllers_idle_now_and_then() {
        let chart = || Queueing::new(&[(1.0, 0.001)]).unwrap();
        for (cores, streams) in [(1, 1.0), (2, 1.0), (8, 1.0), (8, 2.0), (32, 1.0)] {
            let mut fluid = Fluid::new((0..4).map(|_| (10.0 * GB, chart())));
            let shares = [0.25; 4].iter().enumerate();
            let uses: Vec<Use> = shares
                .map(|(resource, &share)| Use {
                    resource,
                    share,
                    waits: share / 1e12,
                    posts: 0.0,
                    turns: share / streams,
                })
                .collect();
            // Each stream gets its requests at once, at the controller's pace.
            let pace = Pace { streams, ..pace(10.0 * streams) };
            (0..cores).for_each(|who| fluid.start(0, who, GB, pace, &uses));
            fluid.share_out();
            let rate: f64 =
                fluid.live.iter().map(|&at| fluid.classes[at].rate * fluid.classes[at].flows.len() as f64).sum();
            let customers = cores as f64 * streams;
            let expected = customers / (customers + 3.0);
            assert!((rate / (40.0 * GB) - expected).abs() < 0.003, "{cores} cores: {rate} and not {expected}");
        }
    }

    /// Whether each queue is as full as its wait says, and each rate follows from the waits. Without runs there is only
    /// one such solution.
    fn assert_solved(fluid: &Fluid, what: &str) {
        for (at, queue) in fluid.queues.iter().enumerate() {
            let used: f64 = fluid
                .live
                .iter()
                .map(|&class| {
                    let Class { uses, rate, flows, .. } = &fluid.classes[class];
                    let here = uses.iter().filter(|this| this.resource == at);
                    here.map(|this| this.share).sum::<f64>() * rate * flows.len() as f64
                })
                .sum();
            let (used, load) = (used / queue.capacity, queue.load_at(queue.wait).0);
            assert!(used < load + 2.0 * EXACT, "{what}: {used} and not {load}");
            assert!(queue.wait == 0.0 || used > load - 2.0 * EXACT, "{what}: {used} and not {load}");
        }
        for &class in &fluid.live {
            let Class { uses, rate, pace, .. } = &fluid.classes[class];
            let late = |this: &Use| {
                let queue = &fluid.queues[this.resource];
                let Queue { wait, full, others, .. } = *queue;
                let load = |wait| queue.load_at(wait).0;
                let run = 1.0 + 1.0 / (1.0 - others * load(wait)) - 1.0 / (1.0 - others * load(0.0));
                let own = (pace.streams / pace.limit).max(1.0 / queue.capacity);
                let runs = if wait > 0.0 { this.turns * (run / queue.capacity - own) } else { 0.0 };
                (this.waits * wait).max(runs) + this.posts * (wait - full).max(0.0)
            };
            let late = (uses.iter().map(late).sum::<f64>() - pace.hidden).max(0.0);
            let expected = 1.0 / (1.0 / pace.limit + late);
            assert!((rate / expected - 1.0).abs() < 1e-6, "{what}: {rate} and not {expected}");
        }
    }

    #[test]
    fn rates_and_waits_belong_together() {
        for seed in 0..300 {
            let mut chance = Chance::new(seed);
            let mut part = |from: f64, to: f64| from + (to - from) * chance.below(1000) as f64 / 1000.0;
            let chart = |most: f64| Queueing::new(&[(0.3, 0.1 * most), (0.8, 0.4 * most), (1.0, most)]).unwrap();
            let mut fluid = Fluid::new((0..5).map(|at| {
                let chart = if (seed + at) % 3 == 0 { Queueing::NONE } else { chart(part(10.0, 100.0)) };
                (part(1.0, 10.0) * GB, chart)
            }));
            for who in 0..8 {
                let share = part(0.1, 0.9);
                let mut uses = of(&[(who % 5, share), ((who + 1 + who / 4) % 5, 1.0 - share)]);
                (uses[1].waits, uses[1].posts) = if who % 3 == 0 { (0.0, uses[1].waits) } else { (uses[1].waits, 0.0) };
                if who % 2 == 0 {
                    uses.iter_mut().for_each(|this| this.turns = this.share / 2.0);
                }
                let hidden = if who == 5 { 0.1e-9 } else { 0.0 };
                let pace = Pace { limit: part(0.5, 6.0) * GB, hidden, streams: 2.0 };
                for copy in 0..1 + who % 3 {
                    fluid.start(0, 10 * who + copy, 1e6 * part(1.0, 9.0), pace, &uses);
                }
            }
            fluid.share_out();
            assert_eq!(fluid.classes.len(), 8, "some are of one class");
            assert_solved(&fluid, &format!("seed {seed}"));
            // The same from the last solution.
            for _ in 0..5 {
                let now = fluid.next_end().unwrap();
                fluid.finish(now).unwrap();
                fluid.share_out();
                assert_solved(&fluid, &format!("seed {seed}, later"));
            }
        }
    }

    #[test]
    fn many_different_flows_are_forgotten() {
        let mut fluid = queues(&[1.0]);
        let mut now = 0;
        for number in 0..1000 {
            fluid.start(now, number, 1e6, pace(1.0 / (2.0 + number as f64)), &of(&[(0, 1.0)]));
            now = fluid.next_end().unwrap();
            assert_eq!(fluid.finish(now), Some(number));
        }
        assert!(fluid.classes.len() < 100, "{}", fluid.classes.len());
    }
}
