//! Chooses the order and the method of the joins of a group's operands: dynamic programming over sets of operands.
//!
//! Moerkotte and Neumann, "Analysis of two existing and one new dynamic programming algorithm for the generation of
//! optimal bushy join trees without cross products", VLDB 2006: their algorithm DPsub. Fegaras, "A new heuristic for
//! optimizing large queries", DEXA 1998, for more than ten operands: greedily the cheapest join next.
//!
//! The number of rows of a set of operands is estimated from characteristic sets for patterns with the same subject,
//! and otherwise from the numbers of distinct values; see [`estimate`] and [`vicus_rdf::characteristic`].

use super::build::{JoinTask, Matching, cost};
use super::eliminate::ERROR_OF_JOIN;
use super::estimate::{self, Estimate};
use super::ranges::Ranged;
use super::{Goal, Planner};
use crate::algebra::{At, DEFAULT_GRAPH, Pattern, Slot, Slots, Table};
use crate::boxes::join::JoinKind;
use crate::expression::Expr;
use crate::graphs::Merged;
use crate::operators::Physical;
use crate::operators::filter::Filter;
use crate::operators::hash_join::{By, HashJoin};
use crate::operators::index_join::IndexJoin;
use crate::operators::intersection::Intersection;
use crate::operators::scan::Scan;
use crate::operators::values::Values;
use crate::slots::BySlot;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use vicus_rdf::characteristic::{Expected, Star, StarPart};
use vicus_rdf::{Order, Snapshot};

/// An operand of a group.
pub(crate) enum Leaf {
    Pattern(Pattern, Estimate),
    Plan(Physical),
}

impl Leaf {
    fn estimate(&self) -> &Estimate {
        match self {
            Leaf::Pattern(_, estimate) => estimate,
            Leaf::Plan(plan) => &plan.estimate,
        }
    }
}

/// For this many leaves, trying all orders takes about as long as a greedy search.
const FEWEST: u32 = 3;

/// About how long looking at a join takes, in nanoseconds.
const JOIN_NS: f64 = 4.0;

/// Steps counted for looking at a join; below, for estimating the rows of a set.
const JOIN_STEPS: usize = 4;
const ROWS_STEPS: usize = 16;

/// A set of leaves, one bit for each.
type Set = u64;

/// The greatest number of leaves, as each is a bit of a set.
pub(crate) const MOST: usize = 60;

/// The best way to make the rows of a set of leaves.
#[derive(Clone, Copy, Debug)]
struct Best {
    cost: f64,
    startup: f64,
    sorted: Option<Slot>,
    how: How,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Leaf(usize),
    /// Searches the pattern of a leaf for each row of a set.
    Search(Set, usize),
    /// For each row of the first set: the values of the only new slot common to all patterns of the second set.
    Intersect(Set, Set),
    /// Probes a table of the second set with the rows of the first.
    Hash(Set, Set),
}

pub(crate) struct Ordering<'a> {
    planner: &'a Planner<'a>,
    leaves: Vec<Option<Leaf>>,
    /// The number of rows of each leaf.
    leaf_rows: Vec<f64>,
    conditions: Vec<Tested>,
    goal: Goal,
    /// Slots shared by several leaves.
    slots: Sharing,
    /// The slots of each leaf; empty unless the leaf is a pattern.
    patterns: Vec<SmallVec<[PatternSlot; 3]>>,
    /// For each leaf, the leaves with a common slot or equality.
    neighbours: Vec<Set>,
    /// For each pattern, its best slot to read by: the slot shared with the most other leaves.
    hubs: Vec<Option<Slot>>,
    /// For each pattern the rows allowed by conditions, if these are ranges. The leaf's estimate counts these rows.
    ranges: Vec<Option<Ranged>>,
    stars: Vec<SubjectStar>,
    /// The leaves on a possible cycle.
    cyclic: Set,
    rows: FxHashMap<Set, f64>,
}

/// Patterns with constant predicates and the same subject.
struct SubjectStar {
    subject: Slot,
    /// The leaf of each part of the star.
    leaves: Vec<usize>,
    set: Set,
    star: Star,
}

impl SubjectStar {
    /// The expected rows of its patterns within a set, if there are at least two.
    fn expected(&self, set: Set, ranges: &[Option<Ranged>]) -> Option<(Set, Expected)> {
        let common = self.set & set;
        if common.count_ones() < 2 {
            return None;
        }
        let part = |(place, leaf): (usize, &usize)| u64::from(common & 1 << leaf != 0) << place;
        let parts = self.leaves.iter().enumerate().map(part).sum();
        let mut expected = self.star.estimate(parts);
        // Conditions on the subject are the same for all patterns, those on objects are not.
        let (mut of_subject, mut of_objects) = (1.0f64, 1.0);
        for ranged in members(common).filter_map(|leaf| ranges[leaf].as_ref()) {
            match ranged.slot == self.subject {
                true => of_subject = of_subject.min(ranged.share()),
                false => of_objects *= ranged.share(),
            }
        }
        expected.rows *= of_subject * of_objects;
        expected.subjects *= of_subject * of_objects;
        Some((common, expected))
    }
}

/// A condition, with the planner's data for placing it.
struct Tested {
    condition: Expr,
    /// For each of its slots, the leaves with this slot; `None` if no leaf has one of the slots.
    slots: Option<Vec<Holders>>,
    selectivity: f64,
    /// The sides of an equality, each with the leaves holding its slots.
    sides: Option<[Vec<Holders>; 2]>,
}

impl Tested {
    fn new(condition: Expr, slots: &Sharing) -> Tested {
        let distinct = |slot: Slot| slots.get(&slot).map_or(1.0, |s| s.distinct.iter().copied().fold(1.0, f64::max));
        let selectivity = estimate::selectivity(&condition, &distinct);
        let holders = |expr: &Expr| -> Option<Vec<Holders>> {
            expr.slots().iter().map(|slot| slots.get(slot).map(|shared| shared.holders)).collect()
        };
        let sides = condition.as_equality().and_then(|(a, b)| Some([holders(a)?, holders(b)?]));
        Tested { slots: holders(&condition), selectivity, sides, condition }
    }

    /// Whether a hash join of two sets can use this equality as a key: each set has the slots of one side.
    fn is_key(&self, left: Set, right: Set) -> bool {
        // A slot that may be unbound is a key if the other set can't bind it.
        let has = |side: &[Holders], set: Set, other: Set| {
            let is_of = |of: &Holders| of.certain & set != 0 || of.all & set != 0 && of.all & other == 0;
            side.iter().all(is_of)
        };
        let is_between = |[a, b]: &[Vec<Holders>; 2]| {
            has(a, left, right) && has(b, right, left) || has(a, right, left) && has(b, left, right)
        };
        self.sides.as_ref().is_some_and(is_between)
    }

    /// Whether the condition's slots have their final values in the join of a set.
    fn applies(&self, set: Set) -> bool {
        self.slots.as_ref().is_some_and(|slots| slots.iter().all(|holders| holders.are_settled(set)))
    }

    /// Whether the slots get their final values with this join.
    fn is_new(&self, left: Set, right: Set) -> bool {
        self.applies(left | right) && !self.applies(left) && !self.applies(right)
    }
}

/// A slot of a pattern.
struct PatternSlot {
    slot: Slot,
    holders: Holders,
    is_subject: bool,
}

/// The leaves with a given slot.
#[derive(Clone, Copy, Default)]
struct Holders {
    all: Set,
    /// The leaves that always bind the slot.
    certain: Set,
}

impl Holders {
    /// Whether the slot has its final value in the join of a set.
    fn are_settled(self, set: Set) -> bool {
        self.certain & set != 0 || self.all & !set == 0
    }
}

/// The leaves with a given slot, and its number of values in each.
#[derive(Default)]
struct SlotHolders {
    holders: Holders,
    /// The number of distinct values in each of these leaves, in the order of the leaves.
    distinct: SmallVec<[f64; 4]>,
}

/// By slot, its leaves.
type Sharing = BySlot<SlotHolders>;

impl<'a> Ordering<'a> {
    pub(crate) fn new(
        planner: &'a Planner<'a>,
        mut leaves: Vec<Leaf>,
        conditions: Vec<Expr>,
        goal: Goal,
    ) -> Ordering<'a> {
        let ranges = ranges(planner, &leaves, &conditions);
        let stars = stars(&planner.terms.snapshot, &planner.terms.merged, &leaves, &ranges);
        for (leaf, ranged) in leaves.iter_mut().zip(&ranges) {
            if let (Leaf::Pattern(_, estimate), Some(ranged)) = (leaf, ranged) {
                ranged.restrict(estimate, ranged.rows);
            }
        }
        let leaf_rows = leaves.iter().map(|leaf| leaf.estimate().rows).collect();
        assert!(leaves.len() <= MOST, "a group of more operands is cut before");
        let mut slots: Sharing = leaves
            .iter()
            .flat_map(|leaf| leaf.estimate().facts.iter().map(|(slot, _)| (slot, SlotHolders::default())))
            .collect();
        for (leaf, operand) in leaves.iter().enumerate() {
            for (slot, facts) in operand.estimate().facts.iter() {
                let shared = slots.get_mut(&slot).expect("all were put there");
                shared.holders.all |= 1 << leaf;
                shared.holders.certain |= Set::from(facts.certain) << leaf;
                shared.distinct.push(facts.distinct.max(1.0));
            }
        }
        let mut neighbours: Vec<Set> = vec![0; leaves.len()];
        let mut connect = |a: Set, b: Set| members(a).for_each(|leaf| neighbours[leaf] |= b & !(1 << leaf));
        slots.values().for_each(|shared| connect(shared.holders.all, shared.holders.all));
        for (a, b) in conditions.iter().filter_map(Expr::as_equality) {
            let (a, b) = (holders_of(a, &slots), holders_of(b, &slots));
            connect(a, b);
            connect(b, a);
        }
        let hub = |leaf: &Leaf| {
            let Leaf::Pattern(pattern, _) = leaf else { return None };
            let holders = |slot: Slot| slots.get(&slot).map(|shared| shared.holders).unwrap_or_default();
            let uses = |slot: Slot| holders(slot).all.count_ones();
            // If several are equal, the first: subjects before objects.
            pattern.slots().reduce(|best, slot| if uses(slot) > uses(best) { slot } else { best })
        };
        let hubs = leaves.iter().map(hub).collect();
        let places = |leaf: &Leaf| {
            let Leaf::Pattern(pattern, _) = leaf else { return SmallVec::new() };
            let holders = |slot: Slot| slots.get(&slot).map(|shared| shared.holders).unwrap_or_default();
            let place = |slot| PatternSlot { slot, holders: holders(slot), is_subject: pattern.0[0] == At::Slot(slot) };
            pattern.slots().map(place).collect()
        };
        let patterns = leaves.iter().map(places).collect();
        let mut conditions: Vec<Tested> =
            conditions.into_iter().map(|condition| Tested::new(condition, &slots)).collect();
        for place in ranges.iter().flatten().flat_map(|ranged| &ranged.conditions) {
            // It is in the estimates of leaves.
            conditions[*place].selectivity = 1.0;
        }
        let leaves: Vec<Option<Leaf>> = leaves.into_iter().map(Some).collect();
        // Slots of a single leaf have no influence, and there may be very many.
        slots.retain_values(|shared| shared.holders.all.count_ones() > 1);
        let cyclic = cyclic(leaves.len(), &slots);
        Ordering {
            planner,
            leaves,
            leaf_rows,
            conditions,
            goal,
            slots,
            patterns,
            neighbours,
            hubs,
            ranges,
            stars,
            cyclic,
            rows: FxHashMap::default(),
        }
    }

    /// The plan of the whole group.
    pub(crate) fn plan(mut self, needed: &Slots) -> Physical {
        if self.leaves.is_empty() {
            return Values::plan(self.planner, &[], &Table::unit(), needed);
        }
        if let [Some(Leaf::Pattern(pattern, _))] = &self.leaves[..] {
            // Sorts by a slot to be read, so equal terms follow each other and the dictionary is read in its order. A
            // slot read by conditions for all rows comes before a slot read only for the remaining rows.
            let tested: Slots = self.conditions.iter().flat_map(|tested| tested.condition.slots()).collect();
            let of = |wanted: &Slots| pattern.slots().find(|slot| wanted.contains(slot));
            self.hubs[0] = of(&tested).or_else(|| of(needed)).or(self.hubs[0]);
        }
        // Parts without anything in common are multiplied at the end, the smallest first.
        let mut plans: Vec<(Set, FxHashMap<Set, Best>)> = Vec::new();
        let planner = self.planner;
        for part in self.parts() {
            let is_small = part.count_ones() as usize <= planner.terms.limits.ordered_exhaustively;
            let best = if is_small { self.ordered(part) } else { self.greedy(part) };
            plans.push((part, best));
        }
        plans.sort_by_cached_key(|(part, _)| self.rows(*part).to_bits());
        let mut plans = plans.into_iter();
        let (mut done, mut best) = plans.next().expect("there are leaves");
        for (part, more) in plans {
            if let Some(chain) = self.searched_for_each(done, part, &more) {
                for leaf in chain {
                    let how = How::Search(done, leaf);
                    done |= 1 << leaf;
                    best.insert(done, Best { cost: 0.0, startup: 0.0, sorted: None, how });
                }
                continue;
            }
            best.extend(more);
            best.insert(done | part, Best { cost: 0.0, startup: 0.0, sorted: None, how: How::Hash(done, part) });
            done |= part;
        }
        self.build(done, &best, needed)
    }

    /// For a part with nothing in common with the leaves joined so far: the order to search its patterns in, for each
    /// row of those leaves, if this is cheaper than a table of the part's rows. Queries that collect the facts of a
    /// single thing have few rows and many such parts; a table for each part would take longer than all else.
    fn searched_for_each(&mut self, done: Set, part: Set, best: &FxHashMap<Set, Best>) -> Option<Vec<usize>> {
        let mut chain = Vec::with_capacity(part.count_ones() as usize);
        let mut rest = part;
        while let How::Search(left, leaf) = best[&rest].how {
            chain.push(leaf);
            rest = left;
        }
        let How::Leaf(first) = best[&rest].how else { return None };
        let Some(Leaf::Pattern(pattern, _)) = &self.leaves[first] else { return None };
        // A condition on this leaf alone is evaluated once if the leaf is read, but for each row if it is searched.
        if !IndexJoin::is_found_once(self.planner, pattern)
            || self.conditions.iter().any(|tested| tested.applies(1 << first))
        {
            return None;
        }
        chain.push(first);
        chain.reverse();
        let (done_rows, rows, cost) = (self.rows(done), self.rows(part), best[&part].cost);
        let table = cost::TABLE + cost + rows * cost::BUILD + done_rows * cost::PROBE;
        let searched = if chain.len() == 1 { 0.0 } else { done_rows * cost };
        (searched <= table).then_some(chain)
    }

    /// The best order; or the greedy one, if its plan takes less time than the search for the best would.
    fn ordered(&mut self, part: Set) -> FxHashMap<Set, Best> {
        let leaves = part.count_ones();
        if leaves > FEWEST {
            let best = self.greedy(part);
            let joins = 3usize.saturating_pow(leaves);
            if self.price(&best[&part]) < joins as f64 * JOIN_NS {
                return best;
            }
            let Some(fewer) = self.planner.joins.get().checked_sub(joins) else { return best };
            self.planner.joins.set(fewer);
        }
        self.exhaustive(part)
    }

    /// Divides the leaves into sets. No two sets share a slot or an equality.
    fn parts(&self) -> Vec<Set> {
        let mut rest: Set = (1 << self.leaves.len()) - 1;
        let mut parts = Vec::new();
        while rest != 0 {
            let mut part: Set = 1 << rest.trailing_zeros();
            loop {
                let grown = members(part).fold(part, |set, leaf| set | self.neighbours[leaf]);
                if grown == part {
                    break;
                }
                part = grown;
            }
            parts.push(part);
            rest &= !part;
        }
        parts
    }

    /// The estimated rows of the join of a set, the same for every order of joining.
    fn rows(&mut self, set: Set) -> f64 {
        if let Some(rows) = self.rows.get(&set) {
            return *rows;
        }
        let stars: usize = self.stars.iter().map(|star| star.leaves.len()).sum();
        self.planner.stop.count_steps(ROWS_STEPS + self.slots.len() + stars + self.conditions.len());
        let stars: Vec<(Slot, Set, Expected)> = self
            .stars
            .iter()
            .filter_map(|star| {
                star.expected(set, &self.ranges).map(|(common, expected)| (star.subject, common, expected))
            })
            .collect();
        let apart = stars.iter().fold(set, |rest, (_, common, _)| rest & !common);
        let mut rows: f64 = members(apart).map(|leaf| self.leaf_rows[leaf]).product();
        rows *= stars.iter().map(|(.., expected)| expected.rows).product::<f64>();
        for (slot, shared) in self.slots.iter().filter(|(_, shared)| (shared.holders.all & set).count_ones() > 1) {
            let star = stars.iter().find(|(subject, ..)| *subject == slot);
            let rest = set & !star.map_or(0, |(_, common, _)| *common);
            let of_star = star.map(|(.., expected)| expected.subjects.max(1.0));
            let of_rest = members(shared.holders.all).zip(&shared.distinct).filter(|(leaf, _)| rest & 1 << leaf != 0);
            // Divide by all but the smallest number of values, as the larger sets contain the smallest.
            let distinct = of_star.into_iter().chain(of_rest.map(|(_, distinct)| *distinct));
            let (least, all) = distinct.fold((f64::INFINITY, 1.0), |(least, all), d| (d.min(least), all * d));
            rows *= least / all;
        }
        let applying = self.conditions.iter().filter(|condition| condition.applies(set));
        rows *= applying.map(|condition| condition.selectivity).product::<f64>();
        self.rows.insert(set, rows);
        rows
    }

    /// Whether a pattern can be searched for each row of the join of a set; and whether the rows are sorted for the
    /// search.
    fn can_search(&self, leaf: usize, set: Set, sorted: Option<Slot>) -> Option<bool> {
        let known = || self.patterns[leaf].iter().filter(|place| place.holders.all & set != 0);
        known().next()?;
        let is_first = |place: &PatternSlot| place.is_subject || known().all(|other| other.slot == place.slot);
        let near = known().any(|place| sorted == Some(place.slot) && is_first(place));
        known().all(|place| place.holders.certain & set != 0).then_some(near)
    }

    fn leaf(&mut self, leaf: usize) -> Best {
        let how = How::Leaf(leaf);
        if let Some(ranged) = self.read_by_range(leaf) {
            let sorted = (ranged.parts.len() == 1).then_some(ranged.slot);
            return Best { cost: ranged.rows * cost::SCAN, startup: 0.0, sorted, how };
        }
        match self.leaves[leaf].as_ref().expect("leaves are taken when all is decided") {
            Leaf::Pattern(pattern, estimate) => {
                let starts = pattern.slots().next();
                let sorted = self.hubs[leaf].or(starts);
                let rows = self.ranges[leaf].as_ref().map_or(estimate.rows, |ranged| ranged.all);
                Best { cost: rows * cost::SCAN, startup: 0.0, sorted, how }
            }
            Leaf::Plan(plan) => Best { cost: plan.cost, startup: plan.startup, sorted: plan.sorted, how },
        }
    }

    /// The rows to read of a leaf, if conditions allow only some of its pattern's rows. Rows in the order of another
    /// slot are worth more if they are not far more.
    fn read_by_range(&self, leaf: usize) -> Option<&Ranged> {
        let is_alone = self.leaves.len() == 1;
        self.ranges[leaf].as_ref().filter(|ranged| is_alone || ranged.share() < FEW_OF_ALL)
    }

    /// The best way to join two sets, given the best way for each.
    fn join(&mut self, left: Set, right: Set, a: &Best, b: &Best) -> Best {
        self.planner.stop.count_steps(JOIN_STEPS);
        let (left_rows, right_rows, pairs) = (self.rows(left), self.rows(right), self.pairs(left, right));
        let building = cost::TABLE + b.cost + right_rows * cost::BUILD;
        let mut best = Best {
            cost: a.cost + building + left_rows * cost::PROBE + pairs * cost::MAKE,
            startup: a.startup + building,
            sorted: a.sorted,
            how: How::Hash(left, right),
        };
        let leaf = right.trailing_zeros() as usize;
        if right.count_ones() == 1
            && let Some(near) = self.can_search(leaf, left, a.sorted)
        {
            let search = if near { cost::SEARCH_NEAR } else { cost::SEARCH_FAR };
            let searched = Best {
                cost: a.cost + left_rows * search + pairs * cost::MAKE,
                startup: a.startup + search,
                sorted: a.sorted,
                how: How::Search(left, leaf),
            };
            if self.price(&searched) <= self.price(&best) {
                best = searched;
            }
        }
        // Most groups have no cycle, and then nothing is gained.
        if right & !self.cyclic == 0
            && right.count_ones() > 1
            && let Some(each) = self.intersects(left, right, a.sorted)
        {
            let met = Best {
                cost: a.cost + left_rows * each + pairs * cost::MAKE,
                startup: a.startup + each,
                sorted: a.sorted,
                how: How::Intersect(left, right),
            };
            if self.price(&met) < self.price(&best) {
                best = met;
            }
        }
        best
    }

    /// Whether patterns can be intersected for each row of the join of a set: of each, all slots but one are bound
    /// there, and the last one is the same. Then the cost for each row.
    fn intersects(&self, left: Set, right: Set, sorted: Option<Slot>) -> Option<f64> {
        let value = self.value_of(left, right.trailing_zeros() as usize)?;
        let (mut least, mut longest, mut searching) = (f64::INFINITY, 1.0f64, 0.0);
        for leaf in members(right) {
            if self.value_of(left, leaf)? != value {
                return None;
            }
            let estimate = self.leaves[leaf].as_ref()?.estimate();
            let known = self.patterns[leaf].iter().filter(|place| place.slot != value);
            let length = estimate.rows / known.clone().map(|place| estimate.distinct(place.slot)).product::<f64>();
            (least, longest) = (least.min(length), longest.max(length));
            let near = known.clone().count() == 1 && known.clone().any(|place| sorted == Some(place.slot));
            searching += if near { cost::SEARCH_NEAR } else { cost::SEARCH_FAR };
        }
        // Far longer lists are searched for each value of the shortest one. Other joins do this as well.
        let each = searching + f64::from(right.count_ones()) * least * cost::MEET;
        // The lists bound the work, while the estimates of the competing joins err.
        let each = each / ERROR_OF_JOIN.powi(right.count_ones() as i32);
        (longest < least.max(1.0) * FAR_LONGER).then_some(each)
    }

    /// The only slot of a pattern missing in the rows of a set, if it is the subject or the object.
    fn value_of(&self, left: Set, leaf: usize) -> Option<Slot> {
        let Some(Leaf::Pattern(Pattern([subject, _, object, At::Constant(_)]), _)) = &self.leaves[leaf] else {
            return None;
        };
        let mut new = self.patterns[leaf].iter().filter(|place| place.holders.all & left == 0);
        let (value, None) = (new.next()?.slot, new.next()) else { return None };
        let mut known = self.patterns[leaf].iter().filter(|place| place.slot != value).peekable();
        let is_end = [subject, object].into_iter().any(|at| at.slot() == Some(value));
        (is_end && known.peek().is_some() && known.all(|place| place.holders.certain & left != 0)).then_some(value)
    }

    /// The number of candidate pairs, before this join applies its new conditions, except for its keys.
    fn pairs(&mut self, left: Set, right: Set) -> f64 {
        let is_tested = |condition: &&Tested| condition.is_new(left, right) && !condition.is_key(left, right);
        let new = self.conditions.iter().filter(is_tested);
        let kept: f64 = new.map(|condition| condition.selectivity).product();
        self.rows(left | right) / kept
    }

    fn price(&self, best: &Best) -> f64 {
        self.goal.price(best.cost, best.startup)
    }

    fn is_connected(&self, left: Set, right: Set) -> bool {
        members(left).any(|leaf| self.neighbours[leaf] & right != 0)
    }

    fn exhaustive(&mut self, all: Set) -> FxHashMap<Set, Best> {
        let leaves: Vec<usize> = members(all).collect();
        let count = 1usize << leaves.len();
        // Leaves are numbered densely, so the table by sets of numbers is dense, too.
        let sets: Vec<Set> = (0..count)
            .map(|numbers| members(numbers as Set).fold(0, |set, number| set | 1 << leaves[number]))
            .collect();
        let mut best: Vec<Option<Best>> = vec![None; count];
        // Counting upwards visits every subset before its supersets.
        for numbers in 1..count {
            if numbers.is_power_of_two() {
                best[numbers] = Some(self.leaf(sets[numbers].trailing_zeros() as usize));
                continue;
            }
            let mut left = (numbers - 1) & numbers;
            let mut winner: Option<Best> = None;
            while left != 0 {
                let right = numbers & !left;
                if let (Some(a), Some(b)) = (best[left], best[right])
                    && self.is_connected(sets[left], sets[right])
                {
                    let joined = self.join(sets[left], sets[right], &a, &b);
                    if winner.as_ref().is_none_or(|winner| self.price(&joined) < self.price(winner)) {
                        winner = Some(joined);
                    }
                }
                left = (left - 1) & numbers;
            }
            best[numbers] = winner;
        }
        sets.into_iter().zip(best).filter_map(|(set, best)| Some((set, best?))).collect()
    }

    /// Repeatedly joins the two sets with the least weight.
    fn greedy(&mut self, all: Set) -> FxHashMap<Set, Best> {
        let count = all.count_ones() as usize;
        let mut best: FxHashMap<Set, Best> = FxHashMap::with_capacity_and_hasher(2 * count, Default::default());
        // The leaves, then the joined sets in the order of the joins.
        let mut sets: Vec<Set> = Vec::with_capacity(2 * count);
        for leaf in members(all) {
            let set = 1 << leaf;
            best.insert(set, self.leaf(leaf));
            sets.push(set);
        }
        let mut open: Vec<usize> = (0..count).collect();
        // The weights of joins of two open sets.
        let mut weights: Vec<(f64, usize, usize)> = Vec::new();
        for left in 0..count {
            for right in 0..count {
                weights.extend(self.weight(sets[left], sets[right], &best).map(|weight| (weight, left, right)));
            }
        }
        while open.len() > 1 {
            let lighter = |a: (f64, usize, usize), b: (f64, usize, usize)| {
                // If several are equal, the first.
                if b.0 < a.0 || (b.0 == a.0 && (b.1, b.2) < (a.1, a.2)) { b } else { a }
            };
            let (_, left, right) = weights.iter().copied().reduce(lighter).expect("the leaves hang together");
            let (a, b) = (sets[left], sets[right]);
            let (joined, both, new) = (self.join(a, b, &best[&a], &best[&b]), a | b, sets.len());
            best.insert(both, joined);
            sets.push(both);
            let stays = |one: usize| one != left && one != right;
            open.retain(|&one| stays(one));
            weights.retain(|&(_, left, right)| stays(left) && stays(right));
            for &one in &open {
                weights.extend(self.weight(sets[one], both, &best).map(|weight| (weight, one, new)));
                weights.extend(self.weight(both, sets[one], &best).map(|weight| (weight, new, one)));
            }
            open.push(new);
        }
        best
    }

    /// The weight of joining two sets: the cost added by the join, and the later cost of its rows. `None` if they share
    /// nothing. The cost of the plans joined so far is spent whichever join comes next. A pattern may be searched
    /// instead of read, so reading it is a cost of the join.
    fn weight(&mut self, left: Set, right: Set, best: &FxHashMap<Set, Best>) -> Option<f64> {
        if left == right || !self.is_connected(left, right) {
            return None;
        }
        let joined = self.join(left, right, &best[&left], &best[&right]);
        let spent = |ordering: &Self, set: Set| match ordering.leaves[set.trailing_zeros() as usize] {
            Some(Leaf::Pattern(..)) if set.count_ones() == 1 => 0.0,
            _ => ordering.price(&best[&set]),
        };
        let added = self.price(&joined) - spent(self, left) - spent(self, right);
        Some(added + self.rows(left | right) * cost::SEARCH_FAR)
    }

    fn build(&mut self, set: Set, best: &FxHashMap<Set, Best>, needed: &Slots) -> Physical {
        let mut made = self.build_join(set, best, needed);
        let is_known =
            matches!(best[&set].how, How::Intersect(..)) || members(set).any(|leaf| self.ranges[leaf].is_some());
        if is_known || self.stars.iter().any(|star| (star.set & set).count_ones() > 1) {
            // The join's own estimate comes from its two sides. If duplicates don't matter, it may have fewer rows than
            // the set.
            let rows = self.rows(set);
            let rows = if self.goal.set { rows.min(made.estimate.rows) } else { rows };
            made.estimate = made.estimate.with_rows(rows);
        }
        made
    }

    fn build_join(&mut self, set: Set, best: &FxHashMap<Set, Best>, needed: &Slots) -> Physical {
        let (left, right) = match best[&set].how {
            How::Leaf(leaf) => return self.build_leaf(leaf, needed),
            How::Search(left, leaf) => (left, 1 << leaf),
            How::Intersect(left, right) | How::Hash(left, right) => (left, right),
        };
        // A searched pattern is never read alone, so conditions on it alone are new, too.
        let is_search = matches!(best[&set].how, How::Search(..) | How::Intersect(..));
        let is_new = |tested: &&Tested| match is_search {
            true => tested.applies(set) && !tested.applies(left),
            false => tested.is_new(left, right),
        };
        let conditions: Vec<Expr> =
            self.conditions.iter().filter(is_new).map(|tested| tested.condition.clone()).collect();
        let mut inside = needed.clone();
        let both = |shared: &SlotHolders| shared.holders.all & left != 0 && shared.holders.all & right != 0;
        let shared = self.slots.iter().filter(|(_, shared)| both(shared)).map(|(slot, _)| slot);
        inside.extend(conditions.iter().flat_map(Expr::slots).chain(shared));
        self.planner.stop.count_steps(inside.len() + self.slots.len() + self.conditions.len());
        match best[&set].how {
            How::Search(left, leaf) => {
                let input = self.build(left, best, &inside);
                let Some(Leaf::Pattern(pattern, _)) = self.leaves[leaf] else { unreachable!("a pattern was chosen") };
                let task = JoinTask { kind: JoinKind::Inner, conditions: &conditions, needed };
                IndexJoin::plan(self.planner, input, &pattern, task, self.goal)
            }
            How::Intersect(left, right) => {
                let value = self.value_of(left, right.trailing_zeros() as usize).expect("they can be intersected");
                let input = self.build(left, best, &inside);
                let patterns = members(right).map(|leaf| match self.leaves[leaf] {
                    Some(Leaf::Pattern(pattern, _)) => pattern,
                    _ => unreachable!("patterns were chosen"),
                });
                let task = JoinTask { kind: JoinKind::Inner, conditions: &conditions, needed };
                Intersection::plan(self.planner, input, patterns.collect(), value, task, self.goal)
            }
            _ => {
                let probe = self.build(left, best, &inside);
                let build = self.build(right, best, &inside);
                let (probe, build, conditions) =
                    self.planner.with_computed_keys(probe, build, conditions, JoinKind::Inner);
                let (keys, rest) = self.planner.equalities(&probe, &build, &conditions);
                debug_assert!(keys.iter().all(|(.., by)| *by != By::Loose), "equalities are between certain slots");
                let matching = Matching { equalities: &keys, ..Matching::SHARED };
                let task = JoinTask { kind: JoinKind::Inner, conditions: &rest, needed };
                HashJoin::plan(self.planner, probe, build, matching, task, self.goal)
            }
        }
    }

    fn build_leaf(&mut self, leaf: usize, needed: &Slots) -> Physical {
        let set = 1 << leaf;
        let applying = self.conditions.iter().filter(|tested| tested.applies(set));
        let conditions: Vec<Expr> = applying.map(|tested| tested.condition.clone()).collect();
        let mut inside = needed.clone();
        inside.extend(conditions.iter().flat_map(Expr::slots));
        let plan = match self.leaves[leaf].take().expect("each leaf is built once") {
            Leaf::Pattern(pattern, _) => match self.read_by_range(leaf) {
                Some(ranged) => {
                    return self.planner.scan_ranges(&pattern, ranged, &conditions, needed, self.goal);
                }
                None => Scan::plan(self.planner, &pattern, self.hubs[leaf], &inside, self.goal),
            },
            Leaf::Plan(plan) => plan,
        };
        let is_sampled = self.goal.first && self.leaves.len() == 1 && !conditions.is_empty();
        let plan = if is_sampled { Scan::scattered(plan) } else { plan };
        Filter::plan(self.planner, plan, &conditions, needed)
    }
}

/// The leaves with all slots of an expression.
fn holders_of(expr: &Expr, slots: &Sharing) -> Set {
    let of = |slot: &Slot| slots.get(slot).map_or(0, |shared| shared.holders.all);
    expr.slots().iter().fold(Set::MAX, |all, slot| all & of(slot))
}

/// Up to this number of rows, searching is always best.
const FEW: f64 = 32.0;

/// A list longer than another by this factor is searched for each value of the shorter list.
const FAR_LONGER: f64 = 16.0;

/// A smaller share of a pattern's rows is read alone.
const FEW_OF_ALL: f64 = 0.125;

/// Removes leaves with fewer than two shared slots, one after the other. All cycles are among the remaining leaves.
fn cyclic(leaves: usize, slots: &Sharing) -> Set {
    let mut left = if leaves < 2 { 0 } else { Set::MAX >> (Set::BITS as usize - leaves) };
    loop {
        let (mut once, mut twice): (Set, Set) = (0, 0);
        for shared in slots.values() {
            let holders = shared.holders.all & left;
            if holders.count_ones() > 1 {
                (once, twice) = (once | holders, twice | once & holders);
            }
        }
        if twice == left {
            return left;
        }
        left = twice;
    }
}

/// The rows of each leaf allowed by conditions.
fn ranges(planner: &Planner<'_>, leaves: &[Leaf], conditions: &[Expr]) -> Vec<Option<Ranged>> {
    let conditions: Vec<&Expr> = conditions.iter().collect();
    let ranged = |leaf: &Leaf| match leaf {
        Leaf::Pattern(pattern, _) => planner.ranged(pattern, &conditions),
        Leaf::Plan(_) => None,
    };
    leaves.iter().map(ranged).collect()
}

/// The stars of two or more patterns, except those beginning at few rows.
fn stars(snapshot: &Snapshot, merged: &Merged, leaves: &[Leaf], ranges: &[Option<Ranged>]) -> Vec<SubjectStar> {
    let mut graphs: Vec<At> = Vec::new();
    let mut by_subject: BTreeMap<(Slot, usize), (Vec<usize>, Vec<StarPart>)> = BTreeMap::new();
    let rows =
        |leaf: &Leaf, ranged: &Option<Ranged>| ranged.as_ref().map_or(leaf.estimate().rows, |ranged| ranged.rows);
    let few = leaves.iter().zip(ranges).filter(|(leaf, ranged)| rows(leaf, ranged) <= FEW);
    let small: Slots = few.flat_map(|(leaf, _)| leaf.estimate().facts.iter().map(|(slot, _)| slot)).collect();
    for (leaf, operand) in leaves.iter().enumerate() {
        let Leaf::Pattern(Pattern([At::Slot(subject), At::Constant(predicate), object, graph]), estimate) = operand
        else {
            continue;
        };
        let statistics = estimate::statistics_of(snapshot, *graph);
        let (object, counts) = match object {
            At::Constant(id) => (Some(*id), statistics.predicate(*predicate)),
            At::Slot(slot) if slot == subject => continue,
            At::Slot(_) | At::Merged => (None, None),
        };
        let place = graphs.iter().position(|other| other == graph).unwrap_or(graphs.len());
        if place == graphs.len() {
            graphs.push(*graph);
        }
        let share = counts.map_or(0.0, |counts| estimate.rows / counts.triples as f64);
        let (leaves, parts) = by_subject.entry((*subject, place)).or_default();
        leaves.push(leaf);
        parts.push(statistics.characteristic().part(*predicate, object, share));
    }
    let star = |((subject, graph), (leaves, parts)): ((Slot, usize), (Vec<usize>, Vec<StarPart>))| SubjectStar {
        subject,
        set: leaves.iter().fold(0, |set, leaf| set | 1 << leaf),
        star: estimate::statistics_of(snapshot, graphs[graph]).characteristic().star(&parts),
        leaves,
    };
    // The sets are those of all named graphs together. They say nothing of a small one among them.
    let is_most = |graph: At| match graph {
        DEFAULT_GRAPH | At::Slot(_) => true,
        At::Constant(id) => 2 * snapshot.index(Order::Gspo).count(&[id]) > snapshot.named_statistics().triples,
        At::Merged => merged.share(snapshot) > 0.5,
    };
    let is_worth = |((subject, graph), (leaves, _)): &((Slot, usize), (Vec<usize>, _))| {
        leaves.len() > 1 && !small.contains(subject) && is_most(graphs[*graph])
    };
    by_subject.into_iter().filter(is_worth).map(star).collect()
}

/// The numbers of the set bits.
fn members(set: Set) -> impl Iterator<Item = usize> {
    let mut rest = set;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let member = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        Some(member)
    })
}
