//! Where a seat gets its next task from: the sources, in the order of their precedence, and the tasks it has at hand.
//!
//! [`Seat::find`](crate::Seat::find) and the fast paths beside it go through one set of sources. A bit is set while its
//! source may have a task, and the lowest bit goes first. Code that asks one source after the other takes each out of
//! the set, and a debug build checks that none before it is left ([`Sources::take`]).

use super::WOKEN_TURN;
use crate::{FoundTask, Wake, Way};
use std::collections::VecDeque;

/// A source of tasks, or a reason to ask no source yet. The order is that of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Source {
    /// Several requests have turns: [`Seat::find_in_turn`](crate::Seat::find_in_turn) goes first.
    Turns,
    /// The seat was woken for a task, and has not looked yet.
    Wake,
    /// The plan's front.
    Front,
    /// The last immediate box activated by the last invocation.
    Next,
    /// Suspended tasks that were woken, for up to [`WOKEN_TURN`] in a row.
    Woken,
    /// Tasks that no other seat may run. The world has them.
    Called,
    /// Tasks the seat has kept.
    Kept,
    /// The seat's first queue, after a yielded task.
    FirstQueue,
    /// Suspended tasks that have yielded, while they have turns.
    Yielded,
    /// The seat's own lock-free queue.
    Own,
    /// The plan's probes.
    Probes,
    /// Suspended tasks beyond their turns.
    Left,
}

/// A set of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sources(u16);

impl Sources {
    /// All sources, the one that goes first at the beginning.
    const ORDER: [Source; 12] = [
        Source::Turns,
        Source::Wake,
        Source::Front,
        Source::Next,
        Source::Woken,
        Source::Called,
        Source::Kept,
        Source::FirstQueue,
        Source::Yielded,
        Source::Own,
        Source::Probes,
        Source::Left,
    ];

    /// These sources.
    pub(crate) const fn of(sources: &[Source]) -> Sources {
        let mut bits = 0;
        let mut at = 0;
        while at < sources.len() {
            bits |= 1 << sources[at] as u16;
            at += 1;
        }
        Sources(bits)
    }

    /// Those in both sets.
    #[inline]
    pub(crate) const fn among(self, others: Sources) -> Sources {
        Sources(self.0 & others.0)
    }

    /// Those in this set alone.
    #[inline]
    pub(crate) const fn without(self, others: Sources) -> Sources {
        Sources(self.0 & !others.0)
    }

    #[inline]
    pub(crate) const fn has(self, source: Source) -> bool {
        self.0 & 1 << source as u16 != 0
    }

    /// Whether this source is in the set, and none that goes before it.
    #[inline]
    pub(crate) const fn has_first(self, source: Source) -> bool {
        let bit = 1 << source as u16;
        self.0 & (bit | (bit - 1)) == bit
    }

    /// Takes a source out of the set. Returns whether it was there. All that go before it have been taken out.
    #[inline(always)]
    pub(crate) fn take(&mut self, source: Source) -> bool {
        debug_assert!(self.first().is_none_or(|first| first as u8 >= source as u8), "{source:?} goes before {self:?}");
        let was_there = self.has(source);
        self.set(source, false);
        was_there
    }

    #[inline]
    fn add(&mut self, others: Sources) {
        // Mostly they are there. A store would be waited for by the next load of the set: a nanosecond for each yield.
        if self.0 & others.0 != others.0 {
            self.0 |= others.0;
        }
    }

    #[inline]
    pub(crate) fn set(&mut self, source: Source, is_there: bool) {
        self.0 = self.0 & !(1 << source as u16) | u16::from(is_there) << source as u16;
    }

    /// The source that goes first.
    #[inline]
    pub(crate) fn first(self) -> Option<Source> {
        Sources::ORDER.get(self.0.trailing_zeros() as usize).copied()
    }

    /// Takes the source that goes first out of the set.
    #[inline]
    pub(crate) fn take_first(&mut self) -> Option<Source> {
        let first = self.first()?;
        self.0 &= self.0 - 1;
        Some(first)
    }
}

/// The tasks a seat has at hand, and its sources.
#[derive(Debug)]
pub(crate) struct Ready<T> {
    /// Invariant: [`Ready::assert_valid`].
    sources: Sources,
    /// The task to run next: in the own queue it would be pushed and popped again at once. Other seats don't see it;
    /// the seat runs it before it looks for another task.
    next: Option<FoundTask<T>>,
    /// Tasks this seat runs itself, the youngest first.
    kept: Vec<T>,
    /// The task it was woken for, until it has looked.
    wake: Option<Wake>,
    /// Suspended tasks that were woken, the first one first.
    woken: VecDeque<T>,
    /// Suspended tasks that let others go first.
    yielded: VecDeque<T>,
    /// How many woken ones in a row were taken. Invariant: at most [`WOKEN_TURN`].
    woken_in_row: u32,
    /// How many yielded tasks may go on before the next look into the queues.
    yielded_turns: u32,
    /// While several requests run: a woken task went on last.
    is_yieldeds_turn: bool,
}

impl<T> Ready<T> {
    /// Nothing at hand. `sources`: those of the plan and the world.
    pub(super) fn new(sources: Sources) -> Ready<T> {
        Ready {
            sources,
            next: None,
            kept: Vec::new(),
            wake: None,
            woken: VecDeque::new(),
            yielded: VecDeque::new(),
            woken_in_row: 0,
            yielded_turns: 0,
            is_yieldeds_turn: false,
        }
    }

    /// Panics unless the sources are those that have a task at hand.
    fn assert_valid(&self) {
        let has = |source: Source| self.sources.has(source);
        assert_eq!(has(Source::Wake), self.wake.is_some());
        assert_eq!(has(Source::Next), self.next.is_some());
        assert_eq!(has(Source::Kept), !self.kept.is_empty());
        assert_eq!(has(Source::Woken), !self.woken.is_empty());
        assert_eq!(has(Source::Yielded), !self.yielded.is_empty());
        assert_eq!(has(Source::Left), !self.woken.is_empty() || !self.yielded.is_empty());
        assert!(self.woken_in_row <= WOKEN_TURN, "woken tasks have turns");
    }

    /// The sources that may have a task.
    #[inline]
    pub(super) fn sources(&self) -> Sources {
        if cfg!(debug_assertions) {
            self.assert_valid();
        }
        self.sources
    }

    #[inline]
    pub(super) fn has(&self, source: Source) -> bool {
        self.sources().has(source)
    }

    /// Whether requests have turns from now on.
    #[inline]
    pub(super) fn set_turns(&mut self, are_on: bool) {
        self.sources.set(Source::Turns, are_on);
    }

    /// Makes a task the next one. Returns the one before.
    #[inline]
    pub(super) fn set_next(&mut self, next: FoundTask<T>) -> Option<FoundTask<T>> {
        self.sources.set(Source::Next, true);
        self.next.replace(next)
    }

    #[inline]
    pub(super) fn take_next(&mut self) -> Option<FoundTask<T>> {
        self.sources.set(Source::Next, false);
        self.next.take()
    }

    /// The next task, if it fits.
    pub(super) fn take_next_if(&mut self, fits: impl FnOnce(&T) -> bool) -> Option<FoundTask<T>> {
        if self.next.as_ref().is_some_and(|next| fits(&next.task)) { self.take_next() } else { None }
    }

    #[inline]
    pub(super) fn keep(&mut self, task: T) {
        self.sources.set(Source::Kept, true);
        self.kept.push(task);
    }

    /// The youngest kept task, if it may begin.
    #[inline]
    pub(super) fn take_kept(&mut self, may_begin: impl FnOnce(&T) -> bool) -> Option<FoundTask<T>> {
        let task = self.kept.pop_if(|task| may_begin(task))?;
        self.sources.set(Source::Kept, !self.kept.is_empty());
        Some(FoundTask { task, way: Way::NO_QUEUE })
    }

    /// The youngest kept task that fits.
    pub(super) fn take_kept_if(&mut self, fits: impl FnMut(&T) -> bool) -> Option<T> {
        let at = self.kept.iter().rposition(fits)?;
        let task = self.kept.remove(at);
        self.sources.set(Source::Kept, !self.kept.is_empty());
        Some(task)
    }

    /// The tasks that no other seat sees: the next one, and the kept ones in their order.
    pub(super) fn take_private(&mut self) -> Vec<T> {
        let next = self.take_next().map(|next| next.task);
        self.sources.set(Source::Kept, false);
        next.into_iter().chain(self.kept.drain(..)).collect()
    }

    #[inline]
    pub(super) fn set_wake(&mut self, wake: Option<Wake>) {
        self.sources.set(Source::Wake, wake.is_some());
        self.wake = wake;
    }

    #[inline]
    pub(super) fn take_wake(&mut self) -> Option<Wake> {
        self.sources.set(Source::Wake, false);
        self.wake.take()
    }

    /// Forgets the wake if the found task is from its queue. Returns whether there is still one.
    #[cold]
    pub(super) fn keep_others_wake(&mut self, way: Way) -> bool {
        let wake = self.take_wake().filter(|wake| way.queue() != Some(wake.queue));
        self.set_wake(wake);
        wake.is_some()
    }

    /// Sets the bits of suspended tasks, after the last one of a list left.
    fn note_suspended(&mut self) {
        let (has_woken, has_yielded) = (!self.woken.is_empty(), !self.yielded.is_empty());
        self.sources.set(Source::Woken, has_woken);
        self.sources.set(Source::Yielded, has_yielded);
        self.sources.set(Source::Left, has_woken || has_yielded);
    }

    #[inline]
    pub(super) fn push_woken(&mut self, task: T) {
        self.woken.push_back(task);
        self.sources.add(Sources::of(&[Source::Woken, Source::Left]));
    }

    #[inline]
    pub(super) fn push_yielded(&mut self, task: T) {
        self.yielded.push_back(task);
        self.sources.add(Sources::of(&[Source::Yielded, Source::Left]));
    }

    pub(super) fn take_all_woken(&mut self) -> VecDeque<T> {
        let woken = std::mem::take(&mut self.woken);
        self.note_suspended();
        woken
    }

    #[inline]
    pub(super) fn woken_count(&self) -> usize {
        self.woken.len()
    }

    #[inline]
    fn take_woken(&mut self) -> Option<T> {
        let task = self.woken.pop_front()?;
        if self.woken.is_empty() {
            self.note_suspended();
        }
        Some(task)
    }

    /// The youngest woken task that fits, among this number of the youngest ones.
    pub(super) fn take_woken_if(&mut self, among: usize, fits: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.woken.iter().rev().take(among).position(fits)?;
        let task = self.woken.remove(self.woken.len() - 1 - at);
        if self.woken.is_empty() {
            self.note_suspended();
        }
        task
    }

    #[inline]
    fn take_yielded(&mut self) -> Option<T> {
        let task = self.yielded.pop_front()?;
        self.sources.add(Sources::of(&[Source::FirstQueue]));
        if self.yielded.is_empty() {
            self.note_suspended();
        }
        Some(task)
    }

    /// A woken task, unless enough of them in a row have gone on.
    #[inline]
    pub(super) fn take_woken_in_turn(&mut self) -> Option<T> {
        if self.woken_in_row >= WOKEN_TURN {
            return None;
        }
        let task = self.take_woken()?;
        self.woken_in_row += 1;
        Some(task)
    }

    /// Woken tasks have turns again: others are asked.
    #[inline]
    pub(super) fn end_row(&mut self) {
        self.woken_in_row = 0;
    }

    /// A yielded task, if these have turns left.
    #[inline]
    pub(super) fn take_yielded_in_turn(&mut self) -> Option<T> {
        if self.yielded_turns == 0 {
            return None;
        }
        let task = self.take_yielded()?;
        self.yielded_turns -= 1;
        Some(task)
    }

    /// How many yielded tasks go on before the next look into the queues.
    #[inline]
    pub(super) fn set_yielded_turns(&mut self, turns: u32) {
        self.yielded_turns = turns;
    }

    /// Yielded tasks have at least this number of turns.
    pub(super) fn allow_yielded(&mut self, turns: u32) {
        self.yielded_turns = self.yielded_turns.max(turns);
    }

    /// The first queue has had its turn.
    #[inline]
    pub(super) fn end_first_queues_turn(&mut self) {
        self.sources.set(Source::FirstQueue, false);
    }

    /// A suspended task beyond its turns.
    pub(super) fn take_left(&mut self) -> Option<T> {
        self.take_woken().or_else(|| self.take_yielded())
    }

    /// A suspended task: a woken and a yielded one in turn.
    pub(super) fn take_suspended(&mut self) -> Option<T> {
        if !self.has(Source::Left) {
            return None;
        }
        self.is_yieldeds_turn = !self.is_yieldeds_turn;
        if self.is_yieldeds_turn {
            self.take_yielded().or_else(|| self.take_woken())
        } else {
            self.take_woken().or_else(|| self.take_yielded())
        }
    }
}
