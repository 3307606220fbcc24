//! Stack for what descends into trees: what calls us may have any, and the query's text decides how deep that goes.

use std::ops::Deref;
use vicus_flow::{BoxError, Operator, Turn};

/// Bytes of stack that no single level of a tree needs all of.
const ENOUGH: usize = 128 << 10;

/// Bytes of a new piece of stack.
const MORE: usize = 4 << 20;

/// Bytes of stack for each level that is read, dropped, copied or searched.
const LEVEL: usize = 2 << 10;

/// Bytes of stack for each level of a query's tree while it is planned: a level of the text is some operators, each of which is
/// some calls.
const PLANNED_LEVEL: usize = 32 << 10;

/// As many levels need no more stack than any thread has.
const FEW: usize = 8;

/// Does something that may descend further by itself.
pub(crate) fn deep<R>(work: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(ENOUGH, MORE, work)
}

/// Does something that descends so many levels without asking for more, such as a drop.
pub(crate) fn of_levels<R>(levels: usize, work: impl FnOnce() -> R) -> R {
    on(levels * LEVEL, work)
}

/// Does something that makes or describes the plan of a query of so many levels.
pub(crate) fn of_planned<R>(levels: usize, work: impl FnOnce() -> R) -> R {
    on(levels * PLANNED_LEVEL, work)
}

fn on<R>(bytes: usize, work: impl FnOnce() -> R) -> R {
    let bytes = ENOUGH + bytes;
    stacker::maybe_grow(bytes, bytes, work)
}

/// Whether something of so many levels is to ask for more stack as it descends.
pub(crate) fn is_deep(levels: usize) -> bool {
    levels > FEW
}

/// Something with trees of so many levels in it. Wherever its owners let it go, it is dropped with enough stack.
pub(crate) struct Deep<T> {
    levels: usize,
    /// Invariant: there until it is dropped.
    inner: Option<T>,
}

impl<T> Deep<T> {
    pub(crate) fn new(levels: usize, inner: T) -> Deep<T> {
        Deep { levels, inner: Some(inner) }
    }

    pub(crate) fn levels(&self) -> usize {
        self.levels
    }
}

impl<T> Deref for Deep<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("it is there until it is dropped")
    }
}

impl<T> Drop for Deep<T> {
    fn drop(&mut self) {
        if is_deep(self.levels) {
            let inner = self.inner.take();
            of_levels(self.levels, || drop(inner));
        }
    }
}

/// A box whose operator looks at such trees.
impl<O: Operator> Operator for Deep<O> {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if is_deep(self.levels) {
            return self.act_on_more(turn);
        }
        self.inner.as_mut().expect("it is there until it is dropped").act(turn)
    }
}

impl<O: Operator> Deep<O> {
    #[cold]
    #[inline(never)]
    fn act_on_more(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let inner = self.inner.as_mut().expect("it is there until it is dropped");
        of_levels(self.levels, || inner.act(turn))
    }
}
