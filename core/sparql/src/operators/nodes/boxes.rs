//! Source: all terms that are a subject or an object in a graph, once each, in ascending order; or those of each named
//! graph, with its name.

use crate::boxes::Growth;
use crate::graphs::Active;
use std::sync::Arc;
use vicus_flow::{BoxError, EnvelopeBuilder, Operator, Turn};
use vicus_rdf::{Id, Order, Snapshot};

pub(crate) struct Nodes {
    snapshot: Arc<Snapshot>,
    /// The graph that is read; `None` if all are read, one after the other, and how many of them were.
    only: Option<Active>,
    graph: usize,
    /// How many subjects and objects of the graph were read.
    subjects: usize,
    objects: usize,
    growth: Growth,
}

impl Nodes {
    pub(crate) fn new(snapshot: &Arc<Snapshot>, only: Option<Active>, limit: usize) -> Nodes {
        let (snapshot, growth) = (Arc::clone(snapshot), Growth::new(limit));
        Nodes { snapshot, only, graph: 0, subjects: 0, objects: 0, growth }
    }
}

impl Operator for Nodes {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        turn.take(0);
        let snapshot = Arc::clone(&self.snapshot);
        let (target, is_of_all) = (self.growth.target, self.only.is_none());
        let mut builder = EnvelopeBuilder::of_u64s(1 + usize::from(is_of_all));
        builder.reserve(turn, target);
        let (mut found, mut is_last) = (0, false);
        let mut graphs = snapshot.graphs().skip(self.graph);
        while found < target {
            let active = match &self.only {
                Some(only) => Some(only.clone()),
                None => graphs.next().map(Active::One),
            };
            let Some(active) = active else {
                is_last = true;
                break;
            };
            let before = found;
            let mut subjects = active.keys(&snapshot, Order::Gspo, self.subjects).peekable();
            let mut objects = active.keys(&snapshot, Order::Gops, self.objects).peekable();
            let mut ids = builder.u64s(0);
            let mut is_over = false;
            while found < target {
                let next: Id = match (subjects.peek(), objects.peek()) {
                    (Some((_, a)), Some((_, b))) => *a.min(b),
                    (Some((_, id)), None) | (None, Some((_, id))) => *id,
                    (None, None) => {
                        is_over = true;
                        break;
                    }
                };
                if let Some((place, _)) = subjects.next_if(|(_, id)| *id == next) {
                    self.subjects = place;
                }
                if let Some((place, _)) = objects.next_if(|(_, id)| *id == next) {
                    self.objects = place;
                }
                ids.push(next.bits());
                found += 1;
            }
            if let (true, Active::One(graph)) = (is_of_all, &active) {
                builder.u64s(1).repeat(graph.bits(), found - before);
            }
            if is_over {
                (self.graph, self.subjects, self.objects) = (self.graph + 1, 0, 0);
                is_last = !is_of_all;
                if is_last {
                    break;
                }
            }
        }
        if found > 0 {
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
