//! Rows that go from machine to machine.
//!
//! Terms of the store, and those that the query mentions, have one id on all machines: they hold the same data, and
//! plan the same text. A term that is computed has an id on the machine that computed it alone. Where a plan may
//! compute terms, its envelopes cross with one column more: the text of its first row has the terms of the envelope,
//! each with its kind, its id there and its key, and the other machine gives each an id of its own.

use crate::boxes::{columns_of, slices};
use crate::terms::{Booking, Terms};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::Write as _;
use std::sync::Arc;
use vicus_flow::{
    BoxError, Column, Envelope, EnvelopeBuilder, NoMemory, Operator, Schema, Turn, Type, give_up, refusable,
};
use vicus_rdf::{Id, TermKind};

/// The columns of rows that cross with their terms.
pub(crate) fn crossing_schema(columns: usize) -> Schema {
    let ids = (0..columns).map(|column| (format!("c{column}"), Type::U64));
    Schema::new(ids.chain([("terms".to_owned(), Type::Text)]))
}

/// Whether an id is that of a term that only this machine knows. The counts of parts of groups are no ids, and no such
/// id has their bits.
fn is_own(terms: &Terms, id: Id) -> bool {
    id.is_unranked() && !terms.is_common(id)
}

/// Adds the terms to envelopes that leave.
pub(crate) struct Leaving {
    terms: Arc<Terms>,
}

impl Leaving {
    pub(crate) fn new(terms: &Arc<Terms>) -> Leaving {
        Leaving { terms: Arc::clone(terms) }
    }
}

impl Operator for Leaving {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(rows) = turn.take(0) else { return Ok(()) };
        if rows.is_pill() {
            turn.send_pill(0);
            return Ok(());
        }
        if rows.rows() == 0 {
            return Ok(());
        }
        let (mut seen, mut text) = (FxHashSet::default(), String::new());
        for column in slices(&rows) {
            for &bits in column {
                if is_own(&self.terms, Id::from_bits(bits)) && seen.insert(bits) {
                    let (id, key) = (Id::from_bits(bits), self.terms.key(Id::from_bits(bits)));
                    let more = key.len() + WORDS;
                    if !refusable(|| text.try_reserve(more).is_ok()) {
                        give_up(NoMemory { bytes: more as u64 });
                    }
                    write!(text, "{:x} {bits:x} {} {key}", id.kind().index(), key.len())
                        .expect("a string takes everything");
                }
            }
        }
        let count = rows.rows();
        let mut builder = EnvelopeBuilder::new(&Schema::new([("terms", Type::Text)]));
        builder.reserve(turn, count);
        builder.reserve_text(turn, 0, text.len());
        builder.texts(0).extend(std::iter::once(text.as_str()).chain(std::iter::repeat_n("", count - 1)));
        let terms = builder.finish_columns(turn);
        let columns = rows.columns().iter().cloned().chain(terms).collect::<Vec<Column>>();
        turn.send(0, Envelope::of_rows(columns, count));
        Ok(())
    }
}

/// The most bytes of a term's words before its key.
const WORDS: usize = 48;

/// Gives the terms of envelopes that came ids of this machine.
pub(crate) struct Arriving {
    terms: Arc<Terms>,
    booking: Booking,
}

impl Arriving {
    pub(crate) fn new(terms: &Arc<Terms>) -> Arriving {
        Arriving { terms: Arc::clone(terms), booking: Booking::default() }
    }
}

impl Operator for Arriving {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(rows) = turn.take(0) else { return Ok(()) };
        if rows.is_pill() {
            turn.send_pill(0);
            return Ok(());
        }
        let (count, width) = (rows.rows(), rows.columns().len() - 1);
        let text = rows.column(width).text_at(0);
        let ids = own_ids(&self.terms, &text).ok_or("terms came from another machine that are none")?;
        let columns = if ids.is_empty() {
            rows.columns()[..width].to_vec()
        } else {
            columns_of(turn, width, count, |builder| {
                for (place, column) in rows.columns()[..width].iter().enumerate() {
                    let own = |bits: &u64| ids.get(bits).copied().unwrap_or(*bits);
                    builder.u64s(place).extend(column.u64s().iter().map(own));
                }
            })
        };
        turn.send(0, Envelope::of_rows(columns, count));
        self.booking.hold(&self.terms, turn, 0)
    }
}

/// For each term of an envelope's text, its id there and here. `None`: the text is none of [`Leaving`].
fn own_ids(terms: &Terms, text: &str) -> Option<FxHashMap<u64, u64>> {
    let (mut ids, mut rest) = (FxHashMap::default(), text);
    while !rest.is_empty() {
        let mut words = rest.splitn(4, ' ');
        let kind = usize::from_str_radix(words.next()?, 16).ok()?;
        let bits = u64::from_str_radix(words.next()?, 16).ok()?;
        let length: usize = words.next()?.parse().ok()?;
        let (key, behind) = words.next()?.split_at_checked(length)?;
        let kind = TermKind::ALL.into_iter().nth(kind).filter(|kind| kind.section().is_some())?;
        ids.insert(bits, terms.keep(kind, key).bits());
        rest = behind;
    }
    Some(ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_rdf::Snapshot;

    #[test]
    fn terms_of_another_machine_get_own_ids_and_others_keep_theirs() {
        let snapshot = Arc::new(Snapshot::of_ntriples(b"<http://e/a> <http://e/p> \"x\" .").unwrap());
        let [there, here] = [0, 1].map(|_| Arc::new(Terms::new(&snapshot)));
        here.string("only here");
        let id = there.string("with 1 space, \n and é");
        assert!(is_own(&there, id) && !is_own(&there, there.string("x")) && !is_own(&there, Id::UNBOUND));
        // Counts of parts, also of failed ones, are no terms.
        for count in [1u64, 1 << 55, 1 << 63, 1 << 63 | 12] {
            assert!(!is_own(&there, Id::from_bits(count)), "{count:#x}");
        }
        let key = there.key(id);
        let text = format!("{:x} {:x} {} {key}", id.kind().index(), id.bits(), key.len());
        let ids = own_ids(&here, &text.repeat(2)).unwrap();
        let own = Id::from_bits(ids[&id.bits()]);
        assert_eq!(here.term(own), there.term(id));
        assert!(ids.len() == 1 && own != id);
        for wrong in ["x", "3 5", "3 5 9 short", "fff 1 0 ", "0 1 0 ", "3 1 1 é"] {
            assert!(own_ids(&here, wrong).is_none(), "{wrong}");
        }
    }
}
