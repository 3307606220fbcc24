//! Conditions over columns: they choose the kept rows of a batch.
//!
//! Each conjunct is compiled to the cheapest form allowed by statistics, then runs over whole columns and narrows a
//! list of row numbers.

use crate::algebra::Slot;
use crate::evaluate::{Evaluator, FETCHED, Scratch, fetch};
use crate::expression::{Compare, Expr};
use crate::passing_terms::Passing;
use crate::terms::Terms;
use hashbrown::HashMap;
use std::ops::Range;
use std::sync::Arc;
use vicus_flow::library::HashKey;
use vicus_rdf::{Id, Snapshot, TermKind};

/// The kinds of terms possible in a column: a bit for each of [`TermKind::ALL`], and one each for fresh terms of the
/// store and for computed terms, as their ids have no order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kinds(u16);

impl Kinds {
    const COMPUTED: u16 = 1 << 15;
    const FRESH: u16 = 1 << 14;
    /// Any kind: nothing is known.
    pub(crate) const ANY: Kinds = Kinds(u16::MAX);
    pub(crate) const NONE: Kinds = Kinds(0);

    pub(crate) fn of(kind: TermKind) -> Kinds {
        Kinds(1 << kind.index())
    }

    pub(crate) fn of_id(id: Id) -> Kinds {
        let computed = if id.is_unranked() { Kinds::COMPUTED } else { 0 };
        Kinds(1 << id.kind().index() | computed)
    }

    /// These kinds, with possibly computed terms.
    pub(crate) fn or_computed(self) -> Kinds {
        Kinds(self.0 | Kinds::COMPUTED)
    }

    /// These kinds, with possibly fresh terms.
    pub(crate) fn or_fresh(self) -> Kinds {
        Kinds(self.0 | Kinds::FRESH)
    }

    pub(crate) fn or(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    pub(crate) fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 & other.0)
    }

    fn is_only(self, kinds: &[TermKind]) -> bool {
        let allowed = kinds.iter().fold(0, |all, kind| all | 1 << kind.index());
        self.0 & !allowed == 0
    }

    /// Whether `=` between values of these kinds is equality of ids and never fails. This holds without typed literals
    /// and triple terms, as the latter may have such literals. A computed term has one id as well; the caller has to
    /// exclude unbound.
    pub(crate) fn equal_by_id(self) -> bool {
        self.0 & (1 << TermKind::Typed.index() | 1 << TermKind::Triple.index()) == 0
    }

    /// Whether `<` between values of these kinds is [`Snapshot::compare`] of their ids and never fails.
    fn ordered_by_term(self) -> bool {
        Kinds(self.0 & !Kinds::FRESH).ordered_by_id()
    }

    /// Whether `<` between values of these kinds is `<` of ids and never fails.
    pub(crate) fn ordered_by_id(self) -> bool {
        [TermKind::String, TermKind::Integer, TermKind::Boolean].into_iter().any(|kind| self.is_only(&[kind]))
    }
}

/// One side of a comparison.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Side {
    Column(usize),
    Constant(u64),
}

/// One conjunct, compiled.
#[derive(Clone, PartialEq, Debug)]
enum Test {
    /// Compares the ids themselves: the kinds of both sides allow it.
    Ids(Compare, Side, Side),
    /// Compares terms of the store, some of which are fresh, by their ids.
    Terms(Compare, Side, Side),
    Bound(usize),
    NotBound(usize),
    /// Reads one column only; answers are remembered by id.
    Remembered(usize, Expr),
    /// Reads these columns.
    General(Expr, Arc<[usize]>),
}

/// A conjunction over numbered columns.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Condition {
    tests: Arc<[Test]>,
}

impl Condition {
    /// Compiles conjuncts whose slots are column numbers. `kinds` gives for each column the kinds it may hold, and
    /// whether it is always bound.
    pub(crate) fn new(conjuncts: &[Expr], kinds: &impl Fn(usize) -> (Kinds, bool)) -> Condition {
        let mut tests: Vec<Test> = conjuncts.iter().map(|expr| compile(expr, kinds)).collect();
        // Cheap tests first.
        tests.sort_by_key(|test| match test {
            Test::Ids(..) | Test::Bound(_) | Test::NotBound(_) => 0,
            Test::Terms(..) => 1,
            Test::Remembered(..) => 2,
            Test::General(..) => 3,
        });
        Condition { tests: tests.into() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    /// The state for evaluating it.
    pub(crate) fn evaluator(&self, terms: &Arc<Terms>) -> Selector {
        let memory = vec![Answers::new(terms.key); self.tests.len()];
        let exprs = || {
            self.tests.iter().filter_map(|test| match test {
                Test::Remembered(_, expr) | Test::General(expr, _) => Some(expr),
                _ => None,
            })
        };
        // Terms computed within a test are in no row, so they can be forgotten. The answers of EXISTS are remembered by
        // ids, which must then keep their meaning.
        let forgets = exprs().any(Expr::computes) && !exprs().any(Expr::has_exists);
        let terms = if forgets { terms.passing() } else { Arc::clone(terms) };
        Selector { condition: self.clone(), terms, memory, scratch: Scratch::default() }
    }

    /// The columns with compared ids; each term in them must have one id.
    pub(crate) fn compared(&self) -> Vec<usize> {
        let side = |side: &Side| match side {
            Side::Column(column) => Some(*column),
            Side::Constant(_) => None,
        };
        let of = |test: &Test| match test {
            Test::Ids(_, a, b) | Test::Terms(_, a, b) => side(a).into_iter().chain(side(b)).collect(),
            Test::Bound(_) | Test::NotBound(_) => Vec::new(),
            Test::Remembered(_, expr) | Test::General(expr, _) if expr.has_exists() => {
                expr.slots().iter().map(|slot| slot.0).collect()
            }
            Test::Remembered(..) | Test::General(..) => Vec::new(),
        };
        self.tests.iter().flat_map(of).collect()
    }
}

fn compile(expr: &Expr, kinds: &impl Fn(usize) -> (Kinds, bool)) -> Test {
    let side = |expr: &Expr| match expr {
        Expr::Slot(Slot(column)) => {
            let (kinds, bound) = kinds(*column);
            bound.then_some((Side::Column(*column), kinds))
        }
        Expr::Constant(id) => Some((Side::Constant(id.bits()), Kinds::of_id(*id))),
        _ => None,
    };
    match expr {
        Expr::Bound(Slot(column)) => return Test::Bound(*column),
        Expr::Not(inner) => {
            if let Expr::Bound(Slot(column)) = **inner {
                return Test::NotBound(column);
            }
        }
        Expr::Compare(operator, a, b) => {
            if let (Some((a, a_kinds)), Some((b, b_kinds))) = (side(a), side(b)) {
                let both = a_kinds.or(b_kinds);
                let by_id = match operator {
                    // Values of different kinds are never equal, unless both are typed, or one is typed and the other
                    // is inlined.
                    Compare::Equal | Compare::NotEqual => both.equal_by_id(),
                    _ => both.ordered_by_id(),
                };
                if by_id {
                    return Test::Ids(*operator, a, b);
                }
                if both.ordered_by_term() {
                    return Test::Terms(*operator, a, b);
                }
            }
        }
        Expr::SameTerm(a, b) => {
            if let (Some((a, _)), Some((b, _))) = (side(a), side(b)) {
                return Test::Ids(Compare::Equal, a, b);
            }
        }
        _ => {}
    }
    let mut slots = expr.slots().into_iter();
    match (slots.next(), slots.next()) {
        (Some(Slot(column)), None) if !expr.is_volatile() => Test::Remembered(column, expr.clone()),
        _ => Test::General(expr.clone(), expr.slots().iter().map(|slot| slot.0).collect()),
    }
}

/// The remembered answers of a test that reads one column.
#[derive(Clone, Debug)]
struct Answers {
    known: HashMap<u64, bool, HashKey>,
    /// Questions since the memory was last emptied.
    asked: usize,
    /// Hardly any value came twice, so nothing is remembered any more.
    is_off: bool,
}

impl Answers {
    fn new(key: HashKey) -> Answers {
        Answers { known: HashMap::with_hasher(key), asked: 0, is_off: false }
    }

    /// The answer for a value. At most `most` answers are remembered.
    fn of(&mut self, bits: u64, most: usize, answer: impl FnOnce() -> bool) -> bool {
        if self.is_off {
            return answer();
        }
        self.asked += 1;
        let is_full = self.known.len() >= most;
        if is_full || self.asked == PROBED {
            if self.known.len() * 4 > self.asked * 3 {
                *self = Answers { is_off: true, ..Answers::new(*self.known.hasher()) };
                return answer();
            }
            if is_full {
                self.known.clear();
                self.asked = 0;
            }
        }
        *self.known.entry(bits).or_insert_with(answer)
    }
}

/// A condition with its remembered answers.
#[derive(Debug)]
pub(crate) struct Selector {
    condition: Condition,
    terms: Arc<Terms>,
    memory: Vec<Answers>,
    scratch: Scratch,
}

/// After this many questions, and whenever the memory is full, the hit rate decides whether to go on remembering.
const PROBED: usize = 1 << 14;

impl Selector {
    /// Bytes of remembered answers and of the scratch memory.
    pub(crate) fn bytes(&self) -> u64 {
        let entries: usize = self.memory.iter().map(|answers| answers.known.capacity()).sum();
        (entries * 8 / 7 * (size_of::<(u64, bool)>() + 1)) as u64 + self.scratch.bytes()
    }

    /// Writes the numbers of the rows that pass into `kept`, ascending. A long evaluation asks `stopped` with the bytes
    /// it holds whether to give up.
    pub(crate) fn select(
        &mut self,
        columns: &[&[u64]],
        rows: usize,
        kept: &mut Vec<u32>,
        stopped: &dyn Fn(u64) -> bool,
    ) {
        kept.clear();
        kept.extend(0..rows as u32);
        let computed = || self.terms.segment().map_or(0, Passing::take_unbooked);
        let stopped = &|more: u64| stopped(more + computed());
        let mut evaluator = Evaluator::new(&self.terms).until(stopped).with(std::mem::take(&mut self.scratch));
        for (test, memory) in self.condition.tests.iter().zip(&mut self.memory) {
            match test {
                Test::Ids(operator, a, b) => compare_ids(*operator, *a, *b, columns, kept),
                Test::Terms(operator, a, b) => compare_terms(&self.terms.snapshot, *operator, *a, *b, columns, kept),
                Test::Bound(column) => narrow(kept, |row| columns[*column][row] != 0),
                Test::NotBound(column) => narrow(kept, |row| columns[*column][row] == 0),
                Test::Remembered(column, expr) => {
                    let column = columns[*column];
                    let mut fetcher = Fetcher::new(kept.len(), rows);
                    let most = self.terms.limits.remembered_answers;
                    kept.retain(|&row| {
                        if memory.is_off {
                            fetcher.reach(row as usize, |next| fetch(&self.terms, &column[next]));
                        }
                        let bits = column[row as usize];
                        memory.of(bits, most, || !stopped(0) && evaluator.holds(expr, &|_| bits))
                    });
                }
                Test::General(expr, slots) => {
                    let mut fetcher = Fetcher::new(kept.len(), rows);
                    kept.retain(|&row| {
                        fetcher.reach(row as usize, |next| {
                            slots.iter().for_each(|slot| fetch(&self.terms, &columns[*slot][next.clone()]));
                        });
                        !stopped(0) && evaluator.holds(expr, &|column| columns[column][row as usize])
                    });
                }
            }
        }
        self.scratch = evaluator.into_scratch();
        if let Some(segment) = self.terms.segment() {
            segment.discard();
        }
    }
}

/// Decides which rows' terms to fetch next.
struct Fetcher {
    next: usize,
    rows: usize,
}

impl Fetcher {
    /// Fetches nothing if only a few of the rows are left.
    fn new(kept: usize, rows: usize) -> Fetcher {
        Fetcher { next: if kept * 4 < rows { rows } else { 0 }, rows }
    }

    fn reach(&mut self, row: usize, fetch: impl FnOnce(Range<usize>)) {
        if row >= self.next && row < self.rows && self.next < self.rows {
            self.next = self.rows.min(row + FETCHED);
            fetch(row..self.next);
        }
    }
}

/// Keeps the rows that pass, without a branch on the outcome.
#[inline]
fn narrow(kept: &mut Vec<u32>, mut pass: impl FnMut(usize) -> bool) {
    let mut count = 0;
    for place in 0..kept.len() {
        let row = kept[place];
        kept[count] = row;
        count += usize::from(pass(row as usize));
    }
    kept.truncate(count);
}

fn compare_terms(snapshot: &Snapshot, operator: Compare, a: Side, b: Side, columns: &[&[u64]], kept: &mut Vec<u32>) {
    let id = |side: Side, row: usize| match side {
        Side::Column(column) => Id::from_bits(columns[column][row]),
        Side::Constant(bits) => Id::from_bits(bits),
    };
    narrow(kept, |row| operator.is_met_by(snapshot.compare(id(a, row), id(b, row))));
}

fn compare_ids(operator: Compare, a: Side, b: Side, columns: &[&[u64]], kept: &mut Vec<u32>) {
    match (a, b) {
        (Side::Column(a), Side::Column(b)) => {
            let (a, b) = (columns[a], columns[b]);
            compare_with(operator, kept, |row| (a[row], b[row]));
        }
        (Side::Column(a), Side::Constant(b)) => {
            let a = columns[a];
            compare_with(operator, kept, |row| (a[row], b));
        }
        (Side::Constant(a), Side::Column(b)) => {
            let b = columns[b];
            compare_with(operator, kept, |row| (a, b[row]));
        }
        (Side::Constant(a), Side::Constant(b)) => compare_with(operator, kept, |_| (a, b)),
    }
}

#[inline]
fn compare_with(operator: Compare, kept: &mut Vec<u32>, sides: impl Fn(usize) -> (u64, u64)) {
    // One loop for each operator, so that the operator is not tested for each row.
    match operator {
        Compare::Equal => narrow(kept, |row| sides(row).0 == sides(row).1),
        Compare::NotEqual => narrow(kept, |row| sides(row).0 != sides(row).1),
        Compare::Less => narrow(kept, |row| sides(row).0 < sides(row).1),
        Compare::LessOrEqual => narrow(kept, |row| sides(row).0 <= sides(row).1),
        Compare::Greater => narrow(kept, |row| sides(row).0 > sides(row).1),
        Compare::GreaterOrEqual => narrow(kept, |row| sides(row).0 >= sides(row).1),
    }
}
