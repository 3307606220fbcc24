//! Source: all terms that are a subject or an object, once each, in ascending order.

use super::Growth;
use std::sync::Arc;
use vicus_flow::{BoxError, EnvelopeBuilder, Operator, Turn};
use vicus_rdf::{Id, Order, Snapshot};

pub(crate) struct Nodes {
    snapshot: Arc<Snapshot>,
    /// How many subjects and objects were read.
    subjects: usize,
    objects: usize,
    growth: Growth,
}

impl Nodes {
    pub(crate) fn new(snapshot: &Arc<Snapshot>, limit: usize) -> Nodes {
        Nodes { snapshot: Arc::clone(snapshot), subjects: 0, objects: 0, growth: Growth::new(limit) }
    }
}

impl Operator for Nodes {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        turn.take(0);
        let keys = |order: Order, read: usize| {
            let index = self.snapshot.index(order);
            let keys = index.keys_of(Id::UNBOUND);
            index.keys(keys.start + read..keys.end).peekable()
        };
        let (mut subjects, mut objects) = (keys(Order::Gspo, self.subjects), keys(Order::Gops, self.objects));
        let mut builder = EnvelopeBuilder::of_u64s(1);
        builder.reserve(turn, self.growth.target);
        let mut ids = builder.u64s(0);
        while ids.len() < self.growth.target {
            let next = match (subjects.peek(), objects.peek()) {
                (Some(a), Some(b)) => *a.min(b),
                (Some(id), None) | (None, Some(id)) => *id,
                (None, None) => break,
            };
            self.subjects += usize::from(subjects.next_if_eq(&next).is_some());
            self.objects += usize::from(objects.next_if_eq(&next).is_some());
            ids.push(next.bits());
        }
        let is_last = ids.len() < self.growth.target;
        if !ids.is_empty() {
            let envelope = builder.finish(turn);
            turn.send(0, envelope);
            self.growth.grow();
        }
        if is_last {
            turn.send_pill(0)
        } else {
            turn.run_again()
        }
        Ok(())
    }
}
