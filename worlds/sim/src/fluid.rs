//! Transfers as flows that share controllers, links, buses and caches at max-min fair rates.
//!
//! A flow takes its bytes from several places at once, in fixed shares, so it uses each resource in proportion to its rate. All
//! rates rise together; a flow that meets a full resource, or its own limit, keeps its rate. Flows with the same shares and
//! limit are one class: they have the same rate, which is computed once for all of them.

use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Virtual time, in picoseconds.
pub(crate) type Time = u64;

/// The picoseconds of a second.
pub(crate) const SECOND: f64 = 1e12;

/// The share of a resource's capacity from which it counts as full: sums of rates are not exact.
const FULL: f64 = 1.0 - 1e-9;

/// All current flows.
pub(crate) struct Fluid {
    /// By resource, bytes per second.
    capacities: Vec<f64>,
    /// By resource, the sum of the rates that use it.
    used: Vec<f64>,
    classes: Vec<Class>,
    /// The classes that have flows.
    live: Vec<usize>,
    known: FxHashMap<Key, usize>,
    /// Whether the rates are out of date.
    stale: bool,
    /// The time for which `served` of the classes is right.
    now: Time,
    started: u64,
}

/// The limit and the shares that all flows of a class have, as bits: numbers that are only nearly equal make two classes.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    limit: u64,
    shares: Vec<(u32, u64)>,
}

struct Class {
    limit: f64,
    shares: Vec<(usize, f64)>,
    /// The bytes per second of each of its flows.
    rate: f64,
    /// The bytes that a flow would have received if it had been there from the start.
    served: f64,
    /// By the `served` at which they end, as bits, which sort like positive numbers; then by age.
    flows: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// The time at which the first of them ends at this rate.
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

    /// Whether one of its resources is full.
    fn is_held(&self, used: &[f64], capacities: &[f64]) -> bool {
        self.shares.iter().any(|&(resource, _)| used[resource] >= capacities[resource] * FULL)
    }
}

impl Fluid {
    /// An empty set of flows over resources of these capacities.
    pub(crate) fn new(capacities: Vec<f64>) -> Fluid {
        Fluid {
            used: vec![0.0; capacities.len()],
            capacities,
            classes: Vec::new(),
            live: Vec::new(),
            known: FxHashMap::default(),
            stale: false,
            now: 0,
            started: 0,
        }
    }

    /// Starts a flow of so many bytes, at most `limit` of them per second. `shares` is the use of each resource for a byte.
    pub(crate) fn start(&mut self, now: Time, who: usize, bytes: f64, limit: f64, shares: &[(usize, f64)]) {
        self.advance(now);
        let bits = shares.iter().map(|&(resource, share)| (resource as u32, share.to_bits())).collect();
        let key = Key { limit: limit.to_bits(), shares: bits };
        let at = match self.known.get(&key) {
            Some(&at) => at,
            None => self.new_class(key, limit, shares),
        };
        let class = &mut self.classes[at];
        if class.flows.is_empty() {
            (class.served, class.rate) = (0.0, limit);
            self.live.push(at);
        }
        class.flows.push(Reverse(((class.served + bytes).to_bits(), self.started, who)));
        self.started += 1;
        // If each of its resources has room for its full rate, no other flow becomes slower.
        let fits =
            |&(resource, share): &(usize, f64)| self.used[resource] + share * limit <= self.capacities[resource] * FULL;
        if !self.stale && class.rate == limit && shares.iter().all(fits) {
            shares.iter().for_each(|&(resource, share)| self.used[resource] += share * limit);
            class.set_end(now);
        } else {
            self.stale = true;
        }
    }

    fn new_class(&mut self, key: Key, limit: f64, shares: &[(usize, f64)]) -> usize {
        // Classes without flows are dropped now and then; otherwise tasks that all differ would pile them up.
        if self.classes.len() > 64 + 2 * self.live.len() {
            self.forget();
        }
        self.known.insert(key, self.classes.len());
        let shares = shares.to_vec();
        self.classes.push(Class { limit, shares, rate: limit, served: 0.0, flows: BinaryHeap::new(), end: Time::MAX });
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

    /// The time at which the next flow ends, if nothing else happens before.
    pub(crate) fn next_end(&mut self) -> Option<Time> {
        if self.stale {
            self.share_out();
        }
        self.live.iter().map(|&at| self.classes[at].end).min()
    }

    /// Removes a flow that is over by now, and returns its owner.
    pub(crate) fn finish(&mut self, now: Time) -> Option<usize> {
        self.advance(now);
        let over = |at: &usize| self.classes[*at].end <= now;
        let first = self.live.iter().copied().filter(over).min_by_key(|&at| {
            let Reverse((_, age, _)) = self.classes[at].flows.peek().expect("a live class has flows");
            *age
        })?;
        let class = &mut self.classes[first];
        let Reverse((_, _, who)) = class.flows.pop().expect("a live class has flows");
        if class.is_held(&self.used, &self.capacities) {
            // Other flows get the bandwidth that it leaves.
            self.stale = true;
        } else {
            class.shares.iter().for_each(|&(resource, share)| self.used[resource] -= share * class.rate);
        }
        class.set_end(now);
        if class.flows.is_empty() {
            self.live.retain(|&at| at != first);
        }
        if self.live.is_empty() {
            // Starts anew, so that errors of rounding don't pile up.
            self.used.fill(0.0);
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

    /// Max-min fair rates by progressive filling: Bertsekas and Gallager, "Data Networks", 1992, §6.5.2.
    fn share_out(&mut self) {
        self.stale = false;
        self.used.fill(0.0);
        let (mut wanted, mut rooms) = (vec![0.0; self.capacities.len()], vec![0.0; self.capacities.len()]);
        for &at in &self.live {
            let class = &self.classes[at];
            class.shares.iter().for_each(|&(resource, share)| wanted[resource] += share * class.flows.len() as f64);
        }
        // Classes without a rate yet, each with the rate up to which its resources have room.
        let mut open: Vec<(usize, f64)> = self.live.iter().map(|&at| (at, 0.0)).collect();
        while !open.is_empty() {
            for (resource, room) in rooms.iter_mut().enumerate() {
                *room = match wanted[resource] > 1e-12 {
                    true => ((self.capacities[resource] - self.used[resource]) / wanted[resource]).max(0.0),
                    false => f64::INFINITY,
                };
            }
            let mut level = f64::INFINITY;
            for (at, bound) in &mut open {
                let class = &self.classes[*at];
                *bound = class.shares.iter().map(|&(resource, _)| rooms[resource]).fold(class.limit, f64::min);
                level = level.min(*bound);
            }
            open.retain(|&(at, bound)| {
                if bound > level * (1.0 + 1e-12) {
                    return true;
                }
                let class = &mut self.classes[at];
                // A flow without a rate would never end.
                class.rate = level.max(1.0);
                let flows = class.flows.len() as f64;
                for &(resource, share) in &class.shares {
                    wanted[resource] -= share * flows;
                    self.used[resource] += share * flows * level;
                }
                false
            });
        }
        self.live.iter().for_each(|&at| self.classes[at].set_end(self.now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    const GB: f64 = 1e9;

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
            assert!((at - expected).abs() < 1e-9, "{ends:?}");
        }
    }

    #[test]
    fn one_flow_runs_at_its_limit() {
        let mut fluid = Fluid::new(vec![10.0 * GB]);
        fluid.start(0, 7, 4.0 * GB, 2.0 * GB, &[(0, 1.0)]);
        assert_ends(&mut fluid, &[(7, 2.0)]);
    }

    #[test]
    fn two_flows_share_a_controller_and_the_longer_one_gets_what_is_left() {
        let mut fluid = Fluid::new(vec![10.0 * GB]);
        fluid.start(0, 0, 10.0 * GB, 8.0 * GB, &[(0, 1.0)]);
        fluid.start(0, 1, 20.0 * GB, 8.0 * GB, &[(0, 1.0)]);
        // 5 GB/s each: the first ends after 2 s. The other has 10 GB left, and gets 8 GB/s for them.
        assert_ends(&mut fluid, &[(0, 2.0), (1, 3.25)]);
    }

    #[test]
    fn a_slow_link_leaves_the_controller_to_others() {
        // Resource 0 is a controller of 10 GB/s, resource 1 a link of 2 GB/s to it.
        let mut fluid = Fluid::new(vec![10.0 * GB, 2.0 * GB]);
        fluid.start(0, 0, 2.0 * GB, 20.0 * GB, &[(0, 1.0), (1, 1.0)]);
        fluid.start(0, 1, 16.0 * GB, 20.0 * GB, &[(0, 1.0)]);
        // The far one has 2 GB/s, the near one the other 8; the far one ends after 1 s, then 8 GB at 10 GB/s are left.
        assert_ends(&mut fluid, &[(0, 1.0), (1, 1.8)]);
    }

    #[test]
    fn bytes_from_two_places_come_in_lockstep() {
        // Half of the bytes from each of two controllers of 10 and 1 GB/s: the slow one sets the pace, 2 GB/s in all.
        let mut fluid = Fluid::new(vec![10.0 * GB, 1.0 * GB]);
        fluid.start(0, 0, 4.0 * GB, 20.0 * GB, &[(0, 0.5), (1, 0.5)]);
        assert_ends(&mut fluid, &[(0, 2.0)]);
    }

    /// Rates by raising all of them in tiny steps, one flow at a time.
    fn by_hand(capacities: &[f64], flows: &[(f64, Vec<(usize, f64)>)]) -> Vec<f64> {
        let step = 1e-5;
        let mut rates = vec![0.0; flows.len()];
        let mut open = vec![true; flows.len()];
        while open.contains(&true) {
            for at in 0..flows.len() {
                if !open[at] {
                    continue;
                }
                let use_of = |resource: usize| -> f64 {
                    let share = |flow: &(f64, Vec<(usize, f64)>)| -> f64 {
                        flow.1.iter().filter(|share| share.0 == resource).map(|share| share.1).sum()
                    };
                    flows.iter().zip(&rates).map(|(flow, rate)| share(flow) * rate).sum()
                };
                let full =
                    flows[at].1.iter().any(|&(resource, share)| use_of(resource) + share * step > capacities[resource]);
                if full || rates[at] + step > flows[at].0 {
                    open[at] = false;
                } else {
                    rates[at] += step;
                }
            }
        }
        rates
    }

    #[test]
    fn rates_are_those_of_filling_by_hand() {
        for seed in 0..40 {
            let mut chance = Chance::new(seed);
            let mut part = |from: f64, to: f64| from + (to - from) * chance.below(1000) as f64 / 1000.0;
            let capacities: Vec<f64> = (0..4).map(|_| part(0.2, 1.0)).collect();
            let mut flows: Vec<(f64, Vec<(usize, f64)>)> = Vec::new();
            for number in 0..6 {
                let (a, share) = (number % 4, part(0.1, 0.9));
                flows.push((part(0.05, 0.6), vec![(a, share), ((a + 1 + number / 4) % 4, 1.0 - share)]));
            }
            // Two flows of one class.
            flows.push(flows[0].clone());
            let mut fluid = Fluid::new(capacities.iter().map(|capacity| capacity * GB).collect());
            for (who, (limit, shares)) in flows.iter().enumerate() {
                fluid.start(0, who, 1e6, limit * GB, shares);
            }
            fluid.share_out();
            for (flow, expected) in flows.iter().zip(by_hand(&capacities, &flows)) {
                let same = |class: &&Class| class.limit == flow.0 * GB && class.shares == flow.1;
                let rate = fluid.classes.iter().find(same).unwrap().rate / GB;
                assert!((rate - expected).abs() < 1e-3, "seed {seed}: {rate} and not {expected}");
            }
            assert_eq!(fluid.classes.len(), 6, "two are of one class");
        }
    }

    #[test]
    fn many_different_flows_are_forgotten() {
        let mut fluid = Fluid::new(vec![1.0 * GB]);
        let mut now = 0;
        for number in 0..1000 {
            fluid.start(now, number, 1e6, GB / (2.0 + number as f64), &[(0, 1.0)]);
            now = fluid.next_end().unwrap();
            assert_eq!(fluid.finish(now), Some(number));
        }
        assert!(fluid.classes.len() < 100, "{}", fluid.classes.len());
    }
}
