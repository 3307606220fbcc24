//! Physical operators with their columns resolved, and their estimated costs.

use super::columns::Columns;
use super::estimate::{self, Estimate, Facts};
use super::{Goal, Planner};
use crate::algebra::{At, Column, Pattern, Slot, Slots, SortKey, Table};
use crate::boxes::join::{JoinKind, JoinSpec, Origin};
use crate::condition::{Condition, Kinds};
use crate::expression::Expr;
use crate::graphs::Merged;
use crate::operators::distinct::Distinct;
use crate::operators::extend::Extend;
use crate::operators::extend::Make;
use crate::operators::filter::Filter;
use crate::operators::hash_join::HashJoin;
use crate::operators::hash_join::{By, HashSpec, Keep, Key};
use crate::operators::index_join::{IndexJoin, is_in_order};
use crate::operators::index_join::{IndexSpec, Source, Want};
use crate::operators::scan::Scan;
use crate::operators::scan::ScanSpec;
use crate::operators::slice::Slice;
use crate::operators::sort::{Sort, SortBy};
use crate::operators::top::Top;
use crate::operators::union::To;
use crate::operators::union::Union;
use crate::operators::values::Values;
use crate::operators::{Below, Op, Physical};
use std::ops::Range;
use std::sync::Arc;
use vicus_rdf::{Id, Kind, Order, Position};

/// Estimated times, in nanoseconds per row.
pub(crate) mod cost {
    pub(crate) const SCAN: f64 = 2.0;
    /// Searching an index for ascending values, and for values in any order.
    pub(crate) const SEARCH_NEAR: f64 = 10.0;
    pub(crate) const SEARCH_FAR: f64 = 45.0;
    pub(crate) const BUILD: f64 = 25.0;
    pub(crate) const PROBE: f64 = 12.0;
    /// Finding the next value of a list in another list of similar length.
    pub(crate) const MEET: f64 = 8.0;
    /// Dealing a row to one of several boxes by its hash.
    pub(crate) const DEAL: f64 = 8.0;
    /// Making a row of the output.
    pub(crate) const MAKE: f64 = 4.0;
    pub(crate) const CONDITION: f64 = 3.0;
    pub(crate) const SORT: f64 = 80.0;
    pub(crate) const DISTINCT: f64 = 15.0;
    /// Two more boxes, for any number of rows: planning, making, running and dropping the box to build a table and the
    /// box to read for it.
    pub(crate) const TABLE: f64 = 5000.0;
}

/// The last level of an index.
const LAST: usize = 3;

/// Steps counted for making an operator; below, for each column of it or of its inputs.
const OPERATOR_STEPS: usize = 128;
const COLUMN_STEPS: usize = 3;
const MANY_COLUMNS: usize = 8192;

/// The task of a join, for any way to find partners.
#[derive(Clone, Copy)]
pub(crate) struct JoinTask<'a> {
    pub(crate) kind: JoinKind,
    /// Conditions on a pair besides its keys.
    pub(crate) conditions: &'a [Expr],
    /// The slots read above the join.
    pub(crate) needed: &'a Slots,
}

/// The matching pairs of a hash join, besides having the same values in shared slots.
#[derive(Clone, Copy)]
pub(crate) struct Matching<'a> {
    /// Pairs of a probed slot and a built slot with equal values.
    pub(crate) equalities: &'a [(Slot, Slot, By)],
    /// The kept rows among built rows with the same keys.
    pub(crate) keep: Keep,
    /// MINUS: both sides must have a value for at least one key that may be unbound.
    pub(crate) needs_overlap: bool,
}

impl Matching<'_> {
    /// Only shared slots count.
    pub(crate) const SHARED: Matching<'static> = Matching { equalities: &[], keep: Keep::All, needs_overlap: false };
}

/// The slots put out by a join's probe.
#[derive(Clone, Copy)]
pub(super) struct ProbeOutput<'a> {
    pub(super) slots: &'a [Slot],
    /// The slots possibly bound on either side.
    pub(super) merged: &'a Slots,
}

/// Bytes counted for an operator; below, for a column: including the result of lowering.
const OPERATOR_BYTES: usize = 2048;
const COLUMN_BYTES: usize = 256;

impl Planner<'_> {
    /// Counts the steps and bytes of a new operator.
    pub(super) fn made(&self, plan: Physical) -> Physical {
        let width = plan.columns.len() + plan.inputs().map(|input| input.columns.len()).sum::<usize>();
        // With more columns than this, data is outside of the caches.
        let far = if width > MANY_COLUMNS { 4 } else { 1 };
        self.stop.count_steps(OPERATOR_STEPS + width * COLUMN_STEPS * far);
        self.stop.count_bytes(OPERATOR_BYTES + plan.columns.len() * COLUMN_BYTES);
        plan
    }

    fn compile(&self, conditions: &[Expr], columns: &Columns, estimate: &Estimate) -> Condition {
        let resolved: Vec<Expr> = conditions
            .iter()
            .map(|condition| {
                condition.replaced(&|slot| match columns.place(slot) {
                    Some(column) => Expr::Slot(Slot(column)),
                    None => Expr::Error,
                })
            })
            .collect();
        Condition::new(&resolved, &|column| {
            let facts = estimate.facts.get(&columns[column]);
            facts.map_or((Kinds::ANY, false), |facts| (facts.kinds, facts.certain))
        })
    }

    fn filtered(conditions: &[Expr], estimate: Estimate) -> Estimate {
        let distinct = |slot: Slot| estimate.facts.get(&slot).map_or(1.0, |facts| facts.distinct);
        let kept: f64 = conditions.iter().map(|condition| estimate::selectivity(condition, &distinct)).product();
        let rows = estimate.rows * kept;
        estimate.with_rows(rows)
    }

    pub(crate) fn values(&self, slots: &[Slot], table: &Table, needed: &Slots) -> Physical {
        let rows = table.rows as f64;
        let kept: Vec<(Slot, &Column)> =
            slots.iter().copied().zip(&table.columns).filter(|(slot, _)| needed.contains(slot)).collect();
        let facts = |&(slot, column): &(Slot, &Column)| {
            (slot, Facts { distinct: rows, kinds: column.kinds, certain: column.certain })
        };
        let columns = kept.iter().map(|(_, column)| Column::clone(column)).collect();
        self.made(Physical {
            columns: kept.iter().map(|(slot, _)| *slot).collect(),
            estimate: Estimate { rows, facts: kept.iter().map(facts).collect() },
            op: Op::Values(Values { table: Arc::new(Table { columns, rows: table.rows }) }),
            cost: 0.0,
            startup: 0.0,
            sorted: None,
            conditions: Vec::new(),
        })
    }

    /// Reads a pattern from an index beginning with its constants and, among several such, with `by` next.
    pub(crate) fn scan(&self, pattern: &Pattern, by: Option<Slot>, needed: &Slots, goal: Goal) -> Physical {
        let of_graphs = self.scan_of_graphs(pattern, by, needed, goal);
        of_graphs.unwrap_or_else(|| self.scan_rows(pattern, by, None, needed, goal))
    }

    /// Like [`Planner::scan`], but of these rows of the order by `by` only.
    pub(super) fn scan_rows(
        &self,
        pattern: &Pattern,
        by: Option<Slot>,
        rows: Option<Range<usize>>,
        needed: &Slots,
        goal: Goal,
    ) -> Physical {
        let snapshot = &self.terms.snapshot;
        let bound = pattern.0.map(|at| at.constant().is_some());
        let place = |slot| pattern.0.iter().position(|at| *at == At::Slot(slot));
        let by = by.and_then(place).map(|place| Position::ALL[place]);
        // Named graphs one after the other are rows of an order by graph.
        let each_graph = by == Some(Position::Graph) && bound == [false; 4];
        let order = if each_graph { Order::Gspo } else { snapshot.best_order_for(bound, by) };
        let arranged = order.arrange(pattern.0);
        let prefix = order.prefix(bound);
        let ids: Vec<Id> = arranged[..prefix].iter().filter_map(|at| at.constant()).collect();
        let merged = (pattern.graph() == At::Merged).then(|| self.terms.merged.clone());
        let mut columns = Vec::new();
        let (mut output, mut constants, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
        for (level, at) in arranged.iter().enumerate().skip(prefix) {
            match at {
                At::Constant(id) => constants.push((level, *id)),
                At::Merged => (),
                At::Slot(slot) => {
                    if let Some(first) = arranged[..level].iter().position(|other| other == at) {
                        repeated.push((first, level));
                    } else if needed.contains(slot) {
                        output.push(level);
                        columns.push(*slot);
                    }
                }
            }
        }
        let is_simple = constants.is_empty() && repeated.is_empty() && !matches!(merged, Some(Merged::These(_)));
        // Rows come sorted. If the levels in front of the deepest one are all put out or constant, equal rows follow
        // each other.
        let is_sorted = |level: usize| level < LAST && output.len() == level + 1 - prefix;
        let distinct = goal.set && is_simple && output.last().copied().is_some_and(is_sorted);
        let sorted = match arranged.get(prefix) {
            Some(At::Slot(slot)) if output.contains(&prefix) => Some(*slot),
            _ => None,
        };
        let index = snapshot.index(order);
        let all = || if each_graph { index.count(&[Id::UNBOUND])..index.len() } else { index.range(&ids) };
        let rows = rows.unwrap_or_else(all);
        let spec =
            ScanSpec { order, rows: rows.clone(), output, constants, repeated, merged, scattered: false, distinct };
        let mut estimate = self.of_pattern(pattern).restricted(&columns.iter().copied().collect());
        if distinct {
            let distinct = estimate.facts.values().map(|facts| facts.distinct).product::<f64>();
            let rows = estimate.rows.min(distinct);
            estimate = estimate.with_rows(rows);
        }
        self.made(Physical {
            op: Op::Scan(Scan { pattern: *pattern, spec: Arc::new(spec) }),
            columns: columns.into(),
            cost: rows.len() as f64 * cost::SCAN,
            startup: 0.0,
            estimate,
            sorted,
            conditions: Vec::new(),
        })
    }

    /// A scan for a test until a few rows have been found: it reads them in scattered order. Other plans stay
    /// unchanged.
    pub(super) fn scattered(&self, mut plan: Physical) -> Physical {
        if let Op::Scan(scan) = &mut plan.op {
            Arc::make_mut(&mut scan.spec).scattered = true;
            plan.sorted = None;
        }
        plan
    }

    /// How to search a pattern for each row of an input; also the slots of the search's output.
    fn index_spec(&self, pattern: &Pattern, input: &Physical) -> (IndexSpec, Vec<Slot>) {
        let snapshot = &self.terms.snapshot;
        let known = pattern.0.map(|at| match at {
            At::Constant(_) => true,
            At::Slot(slot) => input.estimate.is_certain(slot),
            At::Merged => false,
        });
        let constants = pattern.0.map(|at| at.constant().is_some());
        let statistics = estimate::statistics_of(snapshot, pattern.graph());
        // Of two orders with one known level in front, besides the graph, the one with fewer rows for each value.
        let values = |order: &Order| match order.positions()[usize::from(order.is_by_graph())] {
            Position::Subject => statistics.subjects,
            Position::Predicate => statistics.predicate_count(),
            Position::Object => statistics.objects,
            Position::Graph => unreachable!("the graph is the first or the last"),
        };
        let rank = |order: &Order| (order.prefix(known), order.prefix(constants), values(order));
        let by_graph = known[Position::Graph as usize];
        let orders = snapshot.orders().filter(|order| order.is_by_graph() == by_graph);
        let order = orders.max_by_key(rank).expect("a store has indexes");
        let arranged = order.arrange(pattern.0);
        let source = |at: &At| match at {
            At::Constant(id) => Some(Source::Constant(*id)),
            At::Slot(slot) if input.estimate.is_certain(*slot) => input.column(*slot).map(Source::Column),
            At::Slot(_) | At::Merged => None,
        };
        let prefix: Vec<Source> = arranged.iter().map_while(source).collect();
        let (mut checks, mut repeated, mut output, mut slots) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (level, at) in arranged.iter().enumerate().skip(prefix.len()) {
            match (source(at), at) {
                (Some(source), _) => checks.push((level, source)),
                (None, At::Slot(slot)) => match arranged[prefix.len()..level].iter().position(|other| other == at) {
                    Some(first) => repeated.push((prefix.len() + first, level)),
                    None => {
                        output.push(level);
                        slots.push(*slot);
                    }
                },
                (None, At::Merged) => (),
                (None, At::Constant(_)) => unreachable!("constants have a source"),
            }
        }
        let merged = (pattern.graph() == At::Merged).then(|| self.terms.merged.clone());
        (IndexSpec { order, prefix, checks, repeated, output, merged, want: Want::All }, slots)
    }

    /// Whether a pattern can be searched for each row of a table: the shared slots must always be bound.
    pub(crate) fn can_search(&self, pattern: &Pattern, input: &Estimate) -> bool {
        let mut shared = pattern.slots().filter(|slot| input.facts.contains_key(slot)).peekable();
        match shared.peek() {
            Some(_) => shared.all(|slot| input.is_certain(slot)),
            None => self.is_found_once(pattern),
        }
    }

    /// Whether a pattern's rows are contiguous in an index. Then one search finds them for all rows of the other side,
    /// so the join needs no table.
    pub(super) fn is_found_once(&self, pattern: &Pattern) -> bool {
        let constants = pattern.0.map(|at| at.constant().is_some());
        let count = constants.iter().filter(|constant| **constant).count();
        let mut slots = pattern.slots();
        let is_repeated = slots.next().is_some_and(|first| slots.any(|slot| slot == first));
        // A pattern with two constants besides the graph has one slot.
        constants[..LAST].contains(&true)
            && !is_repeated
            && self.terms.snapshot.orders().any(|order| order.prefix(constants) == count)
    }

    /// Searches the pattern for each row of the input.
    pub(crate) fn index_join(&self, input: Physical, pattern: &Pattern, task: JoinTask<'_>, goal: Goal) -> Physical {
        let JoinTask { kind, conditions, needed } = task;
        let (mut index, mut slots) = self.index_spec(pattern, &input);
        let pattern_estimate = self.of_pattern(pattern);
        let both = estimate::join([&input.estimate, &pattern_estimate].into_iter());
        let condition_slots: Slots = conditions.iter().flat_map(Expr::slots).collect();
        let wanted: Vec<bool> =
            slots.iter().map(|slot| needed.contains(slot) || condition_slots.contains(slot)).collect();
        let mut keep = wanted.iter();
        index.output.retain(|_| *keep.next().expect("one for each output"));
        let mut keep = wanted.iter();
        slots.retain(|_| *keep.next().expect("one for each output"));
        let kind = match kind {
            JoinKind::Inner if goal.set && !slots.iter().any(|slot| needed.contains(slot)) => JoinKind::Semi,
            other => other,
        };
        if matches!(kind, JoinKind::Semi | JoinKind::Anti | JoinKind::Mark(_)) || goal.set {
            let depth = index.prefix.len();
            if slots.is_empty() {
                index.want = Want::First;
            } else if index.output == [depth]
                && (1 + usize::from(index.order.is_by_graph())..LAST).contains(&depth)
                && index.checks.is_empty()
                && index.repeated.is_empty()
                && !matches!(index.merged, Some(Merged::These(_)))
            {
                index.want = Want::Groups;
            }
        }
        let near = is_in_order(&index, &input);
        let search = if near { cost::SEARCH_NEAR } else { cost::SEARCH_FAR };
        let (join, columns) = self.join_spec(
            JoinTask { kind, ..task },
            &input,
            ProbeOutput { slots: &slots, merged: &Slots::new() },
            &both,
        );
        let is_of_partner = |origin: &Origin| matches!(origin, Origin::Right(_));
        if index.want == Want::Groups
            && kind == JoinKind::Inner
            && goal.set
            && conditions.is_empty()
            && join.output.iter().all(is_of_partner)
        {
            index.want = Want::Values;
        }
        let estimate = self.joined(kind, &input.estimate, both.clone(), conditions, &columns);
        let sorted = input.sorted.filter(|slot| columns.has(*slot));
        self.made(Physical {
            cost: input.cost + input.estimate.rows * search + both.rows * cost::MAKE,
            startup: input.startup + search,
            op: Op::IndexJoin(IndexJoin {
                input: Below::new(input),
                pattern: *pattern,
                index: Arc::new(index),
                join: Arc::new(join),
            }),
            columns,
            estimate,
            sorted,
            conditions: conditions.to_vec(),
        })
    }

    /// Builds one side into a table and probes it with the other.
    pub(crate) fn hash_join(
        &self,
        probe: Physical,
        build: Physical,
        matching: Matching<'_>,
        task: JoinTask<'_>,
        goal: Goal,
    ) -> Physical {
        let Matching { equalities, keep, needs_overlap } = matching;
        let JoinTask { kind, conditions, needed } = task;
        let mut keys = Vec::new();
        let mut merged = Slots::new();
        for (column, slot) in probe.columns.iter().enumerate() {
            let Some(built) = build.column(*slot) else { continue };
            let strict = probe.estimate.is_certain(*slot) && build.estimate.is_certain(*slot);
            let by = if strict { By::Id } else { By::Loose };
            keys.push(Key { probe: column, build: built, by });
            if !probe.estimate.is_certain(*slot) {
                merged.insert(*slot);
            }
        }
        for (a, b, by) in equalities {
            let probe = probe.column(*a).expect("an equality's left slot is a column of the probe");
            let build = build.column(*b).expect("an equality's right slot is a column of the table");
            keys.push(Key { probe, build, by: *by });
        }
        let mut both = estimate::join([&probe.estimate, &build.estimate].into_iter());
        for (a, b, _) in equalities {
            let distinct = both.distinct(*a).max(both.distinct(*b));
            let rows = both.rows / distinct;
            both = both.with_rows(rows);
        }
        if keep != Keep::All || needs_overlap {
            both = both.clone().with_rows(both.rows.min(probe.estimate.rows));
        }
        let condition_slots: Slots = conditions.iter().flat_map(Expr::slots).collect();
        let new: Vec<Slot> = build
            .columns
            .iter()
            .copied()
            .filter(|slot| probe.column(*slot).is_none() || merged.contains(slot))
            .collect();
        let slots: Vec<Slot> =
            new.iter().copied().filter(|slot| needed.contains(slot) || condition_slots.contains(slot)).collect();
        let kind = match kind {
            JoinKind::Inner if goal.set && !slots.iter().any(|slot| needed.contains(slot)) => JoinKind::Semi,
            other => other,
        };
        let is_exact = keys.iter().all(|key| key.by != By::Value);
        let is_test = matches!(kind, JoinKind::Semi | JoinKind::Anti | JoinKind::Mark(_));
        let keep = if is_test && conditions.is_empty() && is_exact { Keep::Any } else { keep };
        let output = slots.iter().map(|slot| build.column(*slot).expect("it is one of its columns")).collect();
        let (join, columns) =
            self.join_spec(JoinTask { kind, ..task }, &probe, ProbeOutput { slots: &slots, merged: &merged }, &both);
        let hash = HashSpec { keys, keep, output, needs_overlap };
        let estimate = self.joined(kind, &probe.estimate, both.clone(), conditions, &columns);
        let sorted = probe.sorted.filter(|slot| columns.has(*slot));
        let building = cost::TABLE + build.cost + build.estimate.rows * cost::BUILD;
        self.made(Physical {
            cost: building + probe.cost + probe.estimate.rows * cost::PROBE + both.rows * cost::MAKE,
            startup: building + probe.startup + cost::PROBE,
            op: Op::HashJoin(HashJoin {
                probe: Below::new(probe),
                build: Below::new(build),
                hash: Arc::new(hash),
                join: Arc::new(join),
            }),
            columns,
            estimate,
            sorted,
            conditions: conditions.to_vec(),
        })
    }

    /// How a join makes its rows, and its columns. `both` is the estimate of the inner join without conditions.
    pub(super) fn join_spec(
        &self,
        task: JoinTask<'_>,
        left: &Physical,
        output: ProbeOutput<'_>,
        both: &Estimate,
    ) -> (JoinSpec, Columns) {
        let JoinTask { kind, conditions, needed } = task;
        let ProbeOutput { slots, merged } = output;
        let keeps_right = matches!(kind, JoinKind::Inner | JoinKind::Left);
        let mut columns = Vec::new();
        let mut output = Vec::new();
        let right: Columns = slots.iter().copied().collect();
        let origin = |slot: Slot| match (left.column(slot), right.place(slot)) {
            (Some(column), Some(place)) if merged.contains(&slot) => Some(Origin::Merged(column, place)),
            (Some(column), _) => Some(Origin::Left(column)),
            (None, Some(place)) => Some(Origin::Right(place)),
            (None, None) => None,
        };
        for (column, slot) in left.columns.iter().enumerate().filter(|(_, slot)| needed.contains(slot)) {
            columns.push(*slot);
            let place = right.place(*slot).filter(|_| keeps_right && merged.contains(slot));
            output.push(place.map_or(Origin::Left(column), |place| Origin::Merged(column, place)));
        }
        for slot in slots {
            if needed.contains(slot) && left.column(*slot).is_none() {
                columns.push(*slot);
                output.push(if keeps_right { origin(*slot).expect("it is a new column") } else { Origin::Unbound });
            }
        }
        if let JoinKind::Mark(mark) = kind {
            columns.push(mark);
            output.push(Origin::Marked);
        }
        let condition_slots: Columns = {
            let all: Slots = conditions.iter().flat_map(Expr::slots).collect();
            all.into_iter().filter(|slot| origin(*slot).is_some()).collect()
        };
        let condition = self.compile(conditions, &condition_slots, both);
        let condition_origins = condition_slots.iter().filter_map(|slot| origin(*slot)).collect();
        (JoinSpec { kind, output, condition_origins, condition }, columns.into())
    }

    /// The estimate of a join; `both` is the estimate of the inner join without conditions.
    pub(super) fn joined(
        &self,
        kind: JoinKind,
        left: &Estimate,
        both: Estimate,
        conditions: &[Expr],
        columns: &[Slot],
    ) -> Estimate {
        let slots: Slots = columns.iter().copied().collect();
        let pairs = Planner::filtered(conditions, both);
        let rows = pairs.rows;
        let mut made = match kind {
            JoinKind::Inner => return pairs.restricted(&slots),
            JoinKind::Left => {
                let mut made = pairs;
                for (slot, facts) in made.facts.iter_mut() {
                    facts.certain = left.is_certain(slot);
                    // A row without partner keeps its own value.
                    if let Some(old) = left.facts.get(&slot) {
                        facts.kinds = facts.kinds.or(old.kinds);
                    }
                }
                made.with_rows(rows.max(left.rows))
            }
            JoinKind::Semi => left.clone().with_rows(left.rows.min(rows)),
            JoinKind::Mark(mark) => {
                let mut made = left.clone();
                made.facts.insert(mark, Facts { distinct: 2.0, kinds: Kinds::of(Kind::Boolean), certain: true });
                made
            }
            JoinKind::Anti => left.clone().with_rows((left.rows - rows.min(left.rows)).max(left.rows * 0.1)),
        };
        for slot in &slots {
            made.facts.or_insert(*slot, Facts { distinct: 1.0, kinds: Kinds::ANY, certain: false });
        }
        made.restricted(&slots)
    }

    pub(crate) fn filter(&self, input: Physical, conditions: &[Expr], needed: &Slots) -> Physical {
        if conditions.is_empty() {
            return self.project(input, needed);
        }
        let condition = self.compile(conditions, &input.columns, &input.estimate);
        let kept: Vec<usize> =
            (0..input.columns.len()).filter(|&column| needed.contains(&input.columns[column])).collect();
        let columns: Columns = kept.iter().map(|&column| input.columns[column]).collect();
        let estimate =
            Planner::filtered(conditions, input.estimate.clone()).restricted(&columns.iter().copied().collect());
        self.made(Physical {
            cost: input.cost + input.estimate.rows * cost::CONDITION,
            startup: input.startup,
            sorted: input.sorted.filter(|slot| columns.has(*slot)),
            op: Op::Filter(Filter { input: Below::new(input), condition, output: kept.into() }),
            columns,
            estimate,
            conditions: conditions.to_vec(),
        })
    }

    /// Other columns. Columns are shared, so this costs next to nothing.
    pub(crate) fn arrange(&self, input: Physical, makes: Vec<Make>, columns: Vec<Slot>) -> Physical {
        let columns = Columns::from(columns);
        let mut estimate = input.estimate.clone().restricted(&columns.iter().copied().collect());
        for slot in columns.iter() {
            estimate
                .facts
                .or_insert(*slot, Facts { distinct: estimate.rows.max(1.0), kinds: Kinds::ANY, certain: false });
        }
        self.made(Physical {
            cost: input.cost,
            startup: input.startup,
            sorted: input.sorted.filter(|slot| columns.has(*slot)),
            op: Op::Extend(Extend { input: Below::new(input), makes: makes.into() }),
            columns,
            estimate,
            conditions: Vec::new(),
        })
    }

    /// Drops all columns not in `needed`.
    pub(crate) fn project(&self, input: Physical, needed: &Slots) -> Physical {
        let kept: Vec<usize> =
            (0..input.columns.len()).filter(|&column| needed.contains(&input.columns[column])).collect();
        if kept.len() == input.columns.len() { input } else { self.picked(input, kept) }
    }

    /// Puts out these columns, in this order.
    pub(crate) fn picked(&self, mut input: Physical, kept: Vec<usize>) -> Physical {
        if self.optimise && input.pick(&kept) {
            return input;
        }
        let columns = kept.iter().map(|&column| input.columns[column]).collect();
        self.arrange(input, kept.into_iter().map(Make::Column).collect(), columns)
    }

    pub(crate) fn extend(&self, input: Physical, slot: Slot, expr: &Expr, needed: &Slots) -> Physical {
        self.extended(input, &[(slot, expr)], needed)
    }

    /// Adds columns for expressions. None of these reads another one's slot.
    pub(crate) fn extended(&self, input: Physical, values: &[(Slot, &Expr)], needed: &Slots) -> Physical {
        let kept: Vec<usize> =
            (0..input.columns.len()).filter(|&column| needed.contains(&input.columns[column])).collect();
        let mut columns: Vec<Slot> = kept.iter().map(|&column| input.columns[column]).collect();
        let mut makes: Vec<Make> = kept.iter().map(|&column| Make::Column(column)).collect();
        let certain: Slots =
            input.estimate.facts.iter().filter(|(_, facts)| facts.certain).map(|(slot, _)| slot).collect();
        let rows = input.estimate.rows;
        let (mut facts, mut computed) = (Vec::with_capacity(values.len()), 0);
        for &(slot, expr) in values {
            let known = match expr {
                Expr::Constant(id) => Some(Facts { distinct: 1.0, kinds: Kinds::of_id(*id), certain: true }),
                Expr::Slot(other) => input.estimate.facts.get(other).copied(),
                _ => None,
            };
            let make = match expr {
                Expr::Constant(id) => Make::Constant(id.bits()),
                Expr::Error => Make::Constant(0),
                Expr::Slot(other) => input.column(*other).map_or(Make::Constant(0), Make::Column),
                _ => Make::Expr(expr.replaced(&|slot| match input.column(slot) {
                    Some(column) => Expr::Slot(Slot(column)),
                    None => Expr::Error,
                })),
            };
            computed += usize::from(matches!(make, Make::Expr(_)));
            let unknown = Facts { distinct: rows.max(1.0), kinds: expr.kinds(), certain: expr.never_fails(&certain) };
            facts.push((slot, known.unwrap_or(unknown)));
            makes.push(make);
            columns.push(slot);
        }
        let mut made = self.arrange(input, makes, columns);
        for (slot, facts) in facts {
            made.estimate.facts.insert(slot, facts);
        }
        made.cost += computed as f64 * rows * 100.0;
        made
    }

    pub(crate) fn union(&self, inputs: Vec<Physical>, columns: impl Into<Columns>) -> Physical {
        let columns = columns.into();
        let map = |input: &Physical| {
            let to = |(from, slot): (usize, &Slot)| Some(To { from: from as u32, to: columns.place(*slot)? as u32 });
            input.columns.iter().enumerate().filter_map(to).collect()
        };
        let maps: Vec<Vec<To>> = inputs.iter().map(map).collect();
        let rows = inputs.iter().map(|input| input.estimate.rows).sum();
        let none = Facts { distinct: 0.0, kinds: Kinds::NONE, certain: true };
        let mut all: Vec<(Facts, usize)> = vec![(none, 0); columns.len()];
        for input in &inputs {
            for (slot, facts) in input.estimate.facts.iter() {
                let Some(place) = columns.place(slot) else { continue };
                let (all, holders) = &mut all[place];
                all.distinct += facts.distinct;
                all.kinds = all.kinds.or(facts.kinds);
                all.certain &= facts.certain;
                *holders += 1;
            }
        }
        let is_of_all = |holders: usize| holders == inputs.len();
        let facts = columns
            .iter()
            .zip(all)
            .map(|(slot, (facts, holders))| (*slot, Facts { certain: facts.certain && is_of_all(holders), ..facts }));
        let facts = facts.collect();
        self.made(Physical {
            cost: inputs.iter().map(|input| input.cost).sum(),
            startup: inputs.iter().map(|input| input.startup).fold(f64::INFINITY, f64::min),
            op: Op::Union(Union { inputs: inputs.into_iter().map(Below::new).collect(), maps: maps.into() }),
            columns,
            estimate: Estimate { rows, facts },
            sorted: None,
            conditions: Vec::new(),
        })
    }

    pub(crate) fn distinct(&self, input: Physical) -> Physical {
        let limit: f64 = input.estimate.facts.values().map(|facts| facts.distinct.max(1.0)).product();
        let rows = input.estimate.rows.min(limit);
        self.made(Physical {
            cost: input.cost + input.estimate.rows * cost::DISTINCT,
            startup: input.startup,
            sorted: input.sorted,
            columns: input.columns.clone(),
            estimate: input.estimate.clone().with_rows(rows),
            op: Op::Distinct(Distinct { input: Below::new(input) }),
            conditions: Vec::new(),
        })
    }

    fn sort_by(input: &Physical, keys: &[SortKey]) -> Arc<[SortBy]> {
        // An always unbound slot does not order anything.
        keys.iter()
            .filter_map(|key| Some(SortBy { column: input.column(key.slot)?, descending: key.descending }))
            .collect()
    }

    pub(crate) fn sort(&self, input: Physical, keys: &[SortKey]) -> Physical {
        let by = Planner::sort_by(&input, keys);
        let cost = input.cost + input.estimate.rows * cost::SORT;
        self.made(Physical {
            cost,
            startup: cost,
            sorted: None,
            columns: input.columns.clone(),
            estimate: input.estimate.clone(),
            op: Op::Sort(Sort { input: Below::new(input), by }),
            conditions: Vec::new(),
        })
    }

    pub(crate) fn top(&self, input: Physical, keys: &[SortKey], count: usize) -> Physical {
        let by = Planner::sort_by(&input, keys);
        let cost = input.cost + input.estimate.rows * cost::CONDITION;
        let rows = input.estimate.rows.min(count as f64);
        self.made(Physical {
            cost,
            startup: cost,
            sorted: None,
            columns: input.columns.clone(),
            estimate: input.estimate.clone().with_rows(rows),
            op: Op::Top(Top { input: Below::new(input), by, count }),
            conditions: Vec::new(),
        })
    }

    pub(crate) fn cut(&self, input: Physical, offset: usize, limit: Option<usize>) -> Physical {
        let rows =
            (input.estimate.rows - offset as f64).max(0.0).min(limit.map_or(f64::INFINITY, |limit| limit as f64));
        self.made(Physical {
            cost: input.cost,
            startup: input.startup,
            sorted: input.sorted,
            columns: input.columns.clone(),
            estimate: input.estimate.clone().with_rows(rows),
            op: Op::Slice(Slice { input: Below::new(input), offset, limit, each: None }),
            conditions: Vec::new(),
        })
    }

    /// Like [`Planner::cut`], for each value of a slot; the rows are sorted by this slot.
    pub(super) fn cut_each(&self, input: Physical, offset: usize, limit: Option<usize>, each: Slot) -> Physical {
        let column = input.column(each).expect("what the rows are sorted by is a column");
        let most = limit.map_or(f64::INFINITY, |limit| limit as f64 * input.estimate.distinct(each));
        self.made(Physical {
            cost: input.cost,
            startup: input.startup,
            sorted: input.sorted,
            columns: input.columns.clone(),
            estimate: input.estimate.clone().with_rows(input.estimate.rows.min(most)),
            op: Op::Slice(Slice { input: Below::new(input), offset, limit, each: Some(column) }),
            conditions: Vec::new(),
        })
    }
}
