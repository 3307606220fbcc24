//! Memory for texts. It is booked before they are made: a function of a short text may make a long one, for each row of
//! an envelope.

use std::cell::Cell;
use vicus_flow::{BoxError, Turn};

/// So many bytes of texts need not be asked for: the usual ones cost no call.
const LITTLE: u64 = 64 << 10;

/// Counts the texts of an evaluation, and asks before it holds more.
pub(crate) struct Room<'a> {
    /// Asks whether this number of bytes may be held in total.
    ask: &'a dyn Fn(u64) -> Result<(), BoxError>,
    held: Cell<u64>,
    /// The most bytes asked for; 0 if nothing was.
    asked: Cell<u64>,
}

impl<'a> Room<'a> {
    pub(crate) fn new(ask: &'a dyn Fn(u64) -> Result<(), BoxError>) -> Room<'a> {
        Room { ask, held: Cell::new(0), asked: Cell::new(0) }
    }

    /// About to hold `bytes` further bytes.
    ///
    /// # Errors
    /// There is no memory for them.
    #[inline]
    pub(crate) fn take(&self, bytes: usize) -> Result<(), BoxError> {
        let held = self.held.get().saturating_add(bytes as u64);
        if held > LITTLE && held > self.asked.get() {
            (self.ask)(held)?;
            self.asked.set(held);
        }
        self.held.set(held);
        Ok(())
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.get()
    }

    /// Lowers the held bytes to `held` in total.
    #[inline]
    pub(crate) fn settle(&self, held: u64) {
        self.held.set(held);
    }
}

/// The memory booked by a box for texts: for those of its last envelope it stays booked until the next one is made.
#[derive(Default)]
pub(crate) struct Texts {
    is_booked: bool,
}

impl Texts {
    /// Does some work with room for its texts, besides the box's other bytes.
    ///
    /// # Errors
    /// Those of the work; also, the request is over its budget.
    pub(crate) fn book<R>(
        &mut self,
        turn: &Turn<'_>,
        beside: u64,
        work: impl FnOnce(&Room<'_>) -> Result<R, BoxError>,
    ) -> Result<R, BoxError> {
        let ask = |bytes: u64| Ok(turn.book(beside.saturating_add(bytes))?);
        let room = Room::new(&ask);
        let done = work(&room)?;
        let is_asked = room.asked.get() > 0;
        if is_asked || self.is_booked {
            turn.book(beside + if is_asked { room.held.get() } else { 0 })?;
        }
        self.is_booked = is_asked;
        Ok(done)
    }
}
