//! The buffer of a via that keeps the newest envelopes: the sender is never refused, and the oldest ones are dropped.
//!
//! Marks and the pill are kept. A mark that is followed by another one without rows between them has nothing to tell
//! any more, so there are few of them. The sender puts envelopes here, and the receiver moves one at a time into its
//! ring when an invocation begins: so the head that a box looks at stays while the sender drops others.

use crate::sync::Mutex;
use crate::{Bound, Envelope, Mark};
use std::collections::VecDeque;

pub(crate) struct Mailbox {
    /// How much of rows it keeps, but always one envelope.
    bound: Bound,
    held: Mutex<VecDeque<Envelope>>,
}

impl Mailbox {
    pub(crate) fn new(bound: Bound) -> Mailbox {
        Mailbox { bound, held: Mutex::new(VecDeque::new()) }
    }

    fn with<R>(&self, f: impl FnOnce(&mut VecDeque<Envelope>) -> R) -> R {
        f(&mut self.held.lock().expect("nothing panics under this lock"))
    }

    /// The sender puts an envelope. Gives those that are dropped for it, and marks that tell nothing any more.
    pub(crate) fn put(&self, envelope: Envelope) -> Vec<Envelope> {
        self.with(|held| {
            let mut dropped = Vec::new();
            if is_rows(&envelope) {
                let rows = || held.iter().filter(|one| is_rows(one));
                let (mut count, mut bytes) = (rows().count() + 1, rows().map(Envelope::bytes).sum::<u64>());
                bytes += envelope.bytes();
                while count > 1 && (count > self.bound.envelopes || bytes > self.bound.bytes) {
                    let oldest = held.iter().position(is_rows).expect("one is left");
                    let oldest = held.remove(oldest).expect("it was found");
                    (count, bytes) = (count - 1, bytes - oldest.bytes());
                    dropped.push(oldest);
                }
            }
            held.push_back(envelope);
            let mut at = 1;
            while at < held.len() {
                match (held[at - 1].mark(), held[at].mark()) {
                    (Some(Mark::Watermark(_)), Some(Mark::Idle { .. })) | (None, _) | (_, None) => at += 1,
                    (Some(_), Some(_)) => dropped.extend(held.remove(at - 1)),
                }
            }
            dropped
        })
    }

    /// The receiver takes the oldest one.
    pub(crate) fn take(&self) -> Option<Envelope> {
        self.with(VecDeque::pop_front)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.with(|held| held.is_empty())
    }
}

fn is_rows(envelope: &Envelope) -> bool {
    !envelope.is_pill() && envelope.mark().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Schema, Type};

    #[test]
    fn the_oldest_rows_are_dropped_and_marks_and_the_pill_are_not() {
        let schema = Schema::new([("n", Type::U64)]);
        let mailbox = Mailbox::new(Bound { envelopes: 2, bytes: 1000 });
        let rows = |n: u64| Envelope::new([vec![n].into()]);
        let mark = |at| Envelope::of_mark(&schema, Mark::Watermark(at));
        let put = |envelope| mailbox.put(envelope).iter().filter(|one| one.rows() > 0).count();
        assert_eq!([rows(1), mark(1), rows(2), mark(2), rows(3)].map(put), [0, 0, 0, 0, 1]);
        assert_eq!([mark(3), mark(4), rows(4), Envelope::pill()].map(put), [0, 0, 1, 0]);
        let told = |envelope: &Envelope| match envelope.mark() {
            Some(Mark::Watermark(at)) => format!("mark {at}"),
            Some(mark) => format!("{mark:?}"),
            None if envelope.is_pill() => "pill".to_owned(),
            None => format!("rows {}", envelope.column(0).u64s()[0]),
        };
        let all: Vec<String> = std::iter::from_fn(|| mailbox.take()).map(|envelope| told(&envelope)).collect();
        assert_eq!(all, ["mark 2", "rows 3", "mark 4", "rows 4", "pill"]);

        // One envelope is kept, however large.
        let large = || Envelope::new([vec![7u64; 1000].into()]);
        assert_eq!([large(), large()].map(put), [0, 1]);
    }
}
