//! Lets a caller end long work, and bound its memory: the work asks at bounded steps, and tells what it holds.

use std::cell::Cell;
use std::cmp::Ordering;
use std::fmt;
use vicus_flow::{BoxError, give_up};

/// The work asks after this number of steps, of some ten to some hundred nanoseconds each.
const STEPS: usize = 1 << 14;

/// So many items are sorted without a question: it takes less than a tenth of a second.
const SORTED: usize = 1 << 20;

/// The caller is asked at once about so many bytes more; about fewer, at the next question.
const LARGE: usize = 1 << 20;

/// Work counts its steps here. After each 16384 of them it asks its caller, and [gives up](vicus_flow::give_up) with
/// the caller's error if there is one. The question has the bytes that the work [holds](Interrupt::holding) beside the
/// data that it works on, so that the caller can book or refuse them. This data is then as it was, because all work
/// makes new values of old ones.
///
/// ```
/// use oxrdf::NamedNodeRef;
/// use std::cell::Cell;
/// use vicus_flow::or_given_up;
/// use vicus_rdf::{Changes, Id, Interrupt, Snapshot};
///
/// let before = Snapshot::of_ntriples(br#"<http://e/a> <http://e/p> "1" ."#.as_slice())?;
/// let mut changes = Changes::of(&before);
/// let [a, p] = ["http://e/a", "http://e/p"].map(|iri| before.id(NamedNodeRef::new_unchecked(iri).into()).unwrap());
/// changes.inserts.extend((0..100_000).map(|number| [a, p, Id::integer(number).unwrap(), Id::UNBOUND]));
/// let asked = Cell::new(0);
/// let ask = |_bytes| match asked.replace(asked.get() + 1) {
///     3.. => Err("the time is up".into()),
///     _ => Ok(()),
/// };
/// let ended = or_given_up(|| before.with_interrupt(changes, &Interrupt::by(&ask)));
/// assert_eq!((ended.unwrap_err().to_string().as_str(), asked.get()), ("the time is up", 4));
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
pub struct Interrupt<'a> {
    /// Steps until the next question.
    left: Cell<usize>,
    held: Cell<usize>,
    ask: &'a dyn Fn(u64) -> Result<(), BoxError>,
}

impl<'a> Interrupt<'a> {
    /// The work ends when this function of the held bytes returns an error.
    pub fn by(ask: &'a dyn Fn(u64) -> Result<(), BoxError>) -> Interrupt<'a> {
        Interrupt { left: Cell::new(STEPS), held: Cell::new(0), ask }
    }

    /// The work goes on to its end.
    pub fn never() -> Interrupt<'static> {
        Interrupt::by(&|_| Ok(()))
    }

    /// One step, such as that of a row.
    #[inline]
    pub fn step(&self) {
        self.steps(1);
    }

    /// So many steps, which are already done.
    #[inline]
    pub fn steps(&self, count: usize) {
        match self.left.get().checked_sub(count) {
            Some(left) => self.left.set(left),
            None => self.check(),
        }
    }

    /// Asks now.
    #[cold]
    pub fn check(&self) {
        self.left.set(STEPS);
        (self.ask)(self.held.get() as u64).unwrap_or_else(|error| give_up(error));
    }

    /// The work holds `bytes` more, until the result is dropped.
    pub fn holding(&self, bytes: usize) -> Holding<'_, 'a> {
        let mut holding = Holding { interrupt: self, bytes: 0 };
        holding.set(bytes);
        holding
    }

    /// Counts the items of an iterator as steps.
    #[inline]
    pub fn each<T>(&self, items: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        items.inspect(|_| self.step())
    }

    /// Sorts, without an order of equal items. Many items are parted around their median first, and asked between.
    pub(crate) fn sort_unstable_by<T>(&self, items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) {
        self.steps(items.len());
        if items.len() <= SORTED {
            return items.sort_unstable_by(compare);
        }
        if items.is_sorted_by(|a, b| compare(a, b).is_le()) {
            return;
        }
        let middle = items.len() / 2;
        items.select_nth_unstable_by(middle, compare);
        let (front, back) = items.split_at_mut(middle);
        self.sort_unstable_by(front, compare);
        self.sort_unstable_by(back, compare);
    }
}

/// Bytes that a part of the work holds. Made by [`Interrupt::holding`].
pub struct Holding<'i, 'a> {
    interrupt: &'i Interrupt<'a>,
    bytes: usize,
}

impl Holding<'_, '_> {
    /// The part holds so many bytes now.
    pub fn set(&mut self, bytes: usize) {
        let Interrupt { held, .. } = self.interrupt;
        held.set(held.get() - self.bytes + bytes);
        let grown = bytes.saturating_sub(std::mem::replace(&mut self.bytes, bytes));
        if grown >= LARGE {
            self.interrupt.check();
        }
    }
}

impl Drop for Holding<'_, '_> {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl fmt::Debug for Holding<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holding").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl fmt::Debug for Interrupt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt").field("left", &self.left.get()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_flow::or_given_up;

    #[test]
    fn many_items_are_sorted_as_few_are_and_the_caller_is_asked_between() {
        let asked = Cell::new(0);
        let ask = |_| -> Result<(), BoxError> {
            asked.set(asked.get() + 1);
            Ok(())
        };
        // A multiplicative generator, which repeats a number now and then after the shift.
        let mut state = 1_u64;
        let mut items: Vec<u64> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 44
        })
        .take(5 * SORTED / 2)
        .collect();
        let mut expected = items.clone();
        expected.sort();
        Interrupt::by(&ask).sort_unstable_by(&mut items, &u64::cmp);
        assert!(items == expected);
        assert!(asked.get() >= 3, "{} questions", asked.get());
    }

    #[test]
    fn work_ends_with_the_error_of_its_caller_after_a_bounded_number_of_steps() {
        let (asked, done) = (Cell::new(0), Cell::new(0));
        let ask = |_| match asked.replace(asked.get() + 1) {
            9.. => Err("ended".into()),
            _ => Ok(()),
        };
        let interrupt = Interrupt::by(&ask);
        let work = || (0..1 << 30).for_each(|_| (interrupt.step(), done.set(done.get() + 1)).1);
        assert_eq!(or_given_up(work).unwrap_err().to_string(), "ended");
        assert!(done.get() <= 10 * (STEPS + 1), "{} steps", done.get());
    }

    #[test]
    fn the_caller_is_told_the_bytes_of_all_parts_and_can_refuse_them() {
        let told = Cell::new(0);
        let ask = |bytes| match told.replace(bytes) {
            _ if bytes > 5 << 20 => Err("too much".into()),
            _ => Ok(()),
        };
        let interrupt = Interrupt::by(&ask);
        let mut one = interrupt.holding(2 << 20);
        assert_eq!(told.get(), 2 << 20);
        // A few bytes are told with the next question.
        let few = interrupt.holding(1000);
        assert_eq!(told.get(), 2 << 20);
        one.set(3 << 20);
        assert_eq!(told.get(), (3 << 20) + 1000);
        drop(few);
        let refused = or_given_up(|| drop(interrupt.holding(3 << 20)));
        assert_eq!((refused.unwrap_err().to_string().as_str(), told.get()), ("too much", 6 << 20));
        drop(one);
        interrupt.check();
        assert_eq!(told.get(), 0);
    }
}
