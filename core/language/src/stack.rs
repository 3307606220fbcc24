//! Stack for recursion over trees: the caller's stack may be small, and the text decides how deep the recursion goes.

use std::ops::{Deref, DerefMut};
use vicus_flow::{BoxError, Operator, Turn};

/// No single level of a tree needs this many bytes of stack.
const ENOUGH: usize = 128 << 10;

/// Bytes of a new piece of stack.
const MORE: usize = 4 << 20;

/// Bytes of stack for a level of a tree parsed, dropped, copied or searched by code with a call or two for it.
pub const LEVEL: usize = 2 << 10;

/// Trees of up to this many levels fit any thread's stack.
const FEW: usize = 8;

/// Runs one level of a recursion, on more stack if needed.
pub fn deep<R>(work: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(ENOUGH, MORE, work)
}

/// Runs a recursion that doesn't ask for more stack itself, such as a drop: of `levels` levels, with `level_bytes`
/// bytes each.
pub fn of_levels<R>(levels: usize, level_bytes: usize, work: impl FnOnce() -> R) -> R {
    let bytes = ENOUGH.saturating_add(levels.saturating_mul(level_bytes));
    stacker::maybe_grow(bytes, bytes, work)
}

/// Whether a recursion of this many levels has to ask for more stack on its way.
pub fn is_deep(levels: usize) -> bool {
    levels > FEW
}

/// A value with trees of this many levels. Any thread that drops it has enough stack for it.
///
/// ```
/// use vicus_language::stack::Deep;
///
/// struct Tree(Option<Box<Tree>>);
/// let tree = (0..100_000).fold(Tree(None), |tree, _| Tree(Some(Box::new(tree))));
/// let tree = Deep::new(100_001, tree);
/// assert!(tree.0.is_some());
/// ```
#[derive(Debug)]
pub struct Deep<T> {
    levels: usize,
    /// Invariant: present until the drop.
    inner: Option<T>,
}

impl<T> Deep<T> {
    /// A value with at most this number of levels.
    pub fn new(levels: usize, inner: T) -> Deep<T> {
        Deep { levels, inner: Some(inner) }
    }

    /// How many levels it has at most.
    pub fn levels(&self) -> usize {
        self.levels
    }
}

impl<T> Deref for Deep<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("it is there until it is dropped")
    }
}

impl<T> DerefMut for Deep<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("it is there until it is dropped")
    }
}

impl<T> Drop for Deep<T> {
    fn drop(&mut self) {
        if is_deep(self.levels) {
            let inner = self.inner.take();
            of_levels(self.levels, LEVEL, || drop(inner));
        }
    }
}

/// Runs an operator with a recursion through such trees.
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
        of_levels(self.levels, LEVEL, || inner.act(turn))
    }
}
