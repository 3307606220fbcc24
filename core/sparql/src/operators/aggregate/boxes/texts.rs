//! The texts of GROUP_CONCAT: they are booked before they grow, and before they become terms.

use crate::boxes::partitioned_table::Stopped;
use crate::evaluate::LONG;
use crate::terms::Terms;
use std::fmt;
use std::sync::Arc;
use vicus_flow::{NoMemory, give_up, refusable};
use vicus_rdf::{Id, TermView};

/// If the texts of groups that leave in one envelope are longer than this, the groups leave in several.
pub(super) const MOST_TEXT: usize = 1 << 20;

/// The texts of groups are booked here before they grow.
pub(super) struct Room<'a> {
    stopped: Stopped<'a>,
    /// Bytes by which the memory of texts has grown since the box last booked it.
    pub(super) grown: u64,
}

impl<'a> Room<'a> {
    pub(super) fn new(stopped: Stopped<'a>) -> Room<'a> {
        Room { stopped, grown: 0 }
    }

    /// Makes room for `more` bytes behind a text. False if the text would be too long, its memory is refused, or the
    /// query is over; then the query ends with an error. If there is not enough memory, the box gives up.
    pub(super) fn make(&mut self, terms: &Terms, text: &mut String, more: usize) -> bool {
        let (had, needed) = (text.capacity(), text.len() + more);
        if !terms.check_length(needed) {
            return false;
        }
        if needed > had {
            // While the text is moved, both places are there.
            let moved = needed.max(2 * had);
            if moved >= LONG && (self.stopped)(self.grown + moved as u64) {
                return false;
            }
            let bytes = moved as u64;
            refusable(|| text.try_reserve(more)).unwrap_or_else(|_| give_up(NoMemory { bytes }));
            self.grown += (text.capacity() - had) as u64;
        }
        true
    }
}

/// Where texts become terms, and are booked before.
pub(super) struct Making<'a> {
    /// For texts that pass.
    pub(super) passing: Option<&'a Arc<Terms>>,
    pub(super) stopped: Stopped<'a>,
}

impl Making<'_> {
    /// The id of a text; unbound if its memory is refused, and then the query ends with an error.
    pub(super) fn id(&self, terms: &Terms, passes: bool, text: &str) -> Id {
        // The term has a copy.
        if text.len() >= LONG && (self.stopped)(text.len() as u64) {
            return Id::UNBOUND;
        }
        self.passing.filter(|_| passes).map_or(terms, |passing| passing).string(text)
    }
}

/// A formatter that counts bytes.
struct Length(usize);

impl fmt::Write for Length {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        self.0 += more.len();
        Ok(())
    }
}

/// The number of bytes of a term's text.
pub(super) fn length_of(view: TermView<'_>) -> usize {
    view.as_str().map_or_else(
        || {
            let mut length = Length(0);
            view.write_lexical(&mut length).expect("counting takes everything");
            length.0
        },
        str::len,
    )
}
