//! The buffer of a via that keeps the newest envelopes: the sender is never refused, and the oldest ones are dropped.
//!
//! Marks and the pill are kept. Of two watermarks without rows between them, and of two pauses, the later one replaces
//! the other, so there are few of them. The sender puts envelopes here, and the receiver moves one at a time into its
//! ring when an invocation begins: so the head that a box looks at stays while the sender drops others.

use crate::sync::Mutex;
use crate::{Bound, Envelope, Mark};
use smallvec::SmallVec;
use std::collections::VecDeque;

pub(crate) struct Mailbox {
    /// How much of rows it keeps, but always one envelope.
    bound: Bound,
    held: Mutex<Envelopes>,
}

#[derive(Default)]
struct Envelopes {
    queue: VecDeque<Envelope>,
    /// How many of them have rows, and their bytes.
    count: usize,
    bytes: u64,
}

impl Mailbox {
    pub(crate) fn new(bound: Bound) -> Mailbox {
        Mailbox { bound, held: Mutex::new(Envelopes::default()) }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Envelopes) -> R) -> R {
        f(&mut self.held.lock().expect("nothing panics under this lock"))
    }

    /// The sender puts an envelope. Gives those that are dropped for it, and marks that later ones replace.
    pub(crate) fn put(&self, envelope: Envelope) -> SmallVec<[Envelope; 2]> {
        self.with(|held| {
            let mut dropped = SmallVec::new();
            held.count(&envelope);
            held.queue.push_back(envelope);
            while held.count > 1 && (held.count > self.bound.envelopes || held.bytes > self.bound.bytes) {
                // Few marks stand before it, since one replaces another.
                let oldest = held.queue.iter().position(is_rows).expect("one is left");
                dropped.push(held.remove(oldest));
                held.replace(oldest, &mut dropped);
            }
            held.replace(held.queue.len() - 1, &mut dropped);
            dropped
        })
    }

    /// The receiver takes the oldest one.
    pub(crate) fn take(&self) -> Option<Envelope> {
        self.with(|held| (!held.queue.is_empty()).then(|| held.remove(0)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.with(|held| held.queue.is_empty())
    }
}

impl Envelopes {
    fn count(&mut self, envelope: &Envelope) {
        if is_rows(envelope) {
            self.count += 1;
            self.bytes += envelope.bytes();
        }
    }

    fn remove(&mut self, at: usize) -> Envelope {
        let envelope = self.queue.remove(at).expect("it is there");
        if is_rows(&envelope) {
            self.count -= 1;
            self.bytes -= envelope.bytes();
        }
        envelope
    }

    /// Drops marks before this place that the one there makes needless. A pause stands behind a watermark, and replaces
    /// none.
    fn replace(&mut self, mut at: usize, dropped: &mut SmallVec<[Envelope; 2]>) {
        while at > 0 {
            match (self.queue[at - 1].mark(), self.queue.get(at).and_then(Envelope::mark)) {
                (Some(Mark::Watermark(_)), Some(Mark::Idle { .. } | Mark::Active)) | (None, _) | (_, None) => return,
                (Some(_), Some(_)) => dropped.push(self.remove(at - 1)),
            }
            at -= 1;
        }
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
