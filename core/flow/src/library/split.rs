//! Hands a range of work out, part by part, to the replicas with room.

use crate::{BoxError, BoxModel, Envelope, Operator, Schema, Turn, Type};
use std::ops::Range;
use vicus_topology::NodeId;

/// The columns sent by a splitter: the part's number, its first place, and the place behind its last one.
///
/// ```
/// use std::sync::mpsc;
/// use vicus_flow::{ModelBuilder, library, sequential};
///
/// let mut net = ModelBuilder::new("parts");
/// let split = net.source(library::split([(0..100).into()], 1, 10));
/// let (send, receive) = mpsc::channel();
/// let end = net.add(library::sink("parts", &library::range_schema(), move |part| {
///     Ok(send.send([0, 1, 2].map(|column| part.column(column).u64s()[0]))?)
/// }));
/// net.connect(split.output(0), end.input(0));
/// net.end(end.output(0));
/// sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
///
/// let mut begin = 0;
/// for (number, [index, from, to]) in receive.iter().enumerate() {
///     assert_eq!((index, from), (number as u64, begin));
///     begin = to;
/// }
/// assert_eq!(begin, 100);
/// ```
pub fn range_schema() -> Schema {
    Schema::new([("index", Type::U64), ("from", Type::U64), ("to", Type::U64)])
}

/// A range of work on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The work.
    pub range: Range<u64>,
    /// The node of its data, if it is known.
    pub home: Option<NodeId>,
}

impl From<Range<u64>> for Piece {
    fn from(range: Range<u64>) -> Piece {
        Piece { range, home: None }
    }
}

/// A source that cuts pieces of work into parts and gives each to one of `replicas` outputs with room. Their vias
/// should hold one envelope: then a slow replica gets fewer parts.
///
/// Parts shrink with the work, down to `smallest`, so all replicas end at about the same time: Polychronopoulos and
/// Kuck, "Guided self-scheduling", IEEE Transactions on Computers, 1987, §III. We differ: a part is a quarter of
/// theirs, since here a replica has one part in work and up to two waiting.
///
/// A part is never of two pieces, and its envelope carries the piece's home ([`Envelope::home`]). Each output begins
/// with a piece of its own; when that is used up, it gets parts of the piece with the most left, so finished replicas
/// help the others.
///
/// It waits for no replica in particular, so the results of its parts may be merged in any order, but a reader must not
/// wait for them in one order.
///
/// ```
/// use std::sync::mpsc;
/// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library, sequential};
///
/// let (ranges, sums) = (library::range_schema(), Schema::new([("sum", Type::U64)]));
/// let mut net = ModelBuilder::new("a sum in parts");
/// let split = net.source(library::split([(0..1000).into()], 3, 10));
/// let union = net.add(library::union(&sums, 3));
/// for replica in 0..3 {
///     let sum = net.add(library::map("sum", &ranges, &sums, |part| {
///         let [from, to] = [1, 2].map(|column| part.column(column).u64s()[0]);
///         Some(Envelope::new([vec![(from..to).sum::<u64>()].into()]))
///     }));
///     net.connect(split.output(replica), sum.input(0));
///     net.connect(sum.output(0), union.input(replica));
/// }
/// let (send, receive) = mpsc::channel();
/// let end = net.add(library::sink("end", &sums, move |envelope| Ok(send.send(envelope.column(0).u64s()[0])?)));
/// net.connect(union.output(0), end.input(0));
/// net.end(end.output(0));
/// sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
/// assert_eq!(receive.try_iter().sum::<u64>(), 499_500);
/// ```
pub fn split(pieces: impl Into<Vec<Piece>>, replicas: usize, smallest: u64) -> BoxModel {
    let (smallest, pieces) = (smallest.max(1), pieces.into());
    let model = BoxModel::new("split", move || Split { rest: pieces.clone(), smallest, index: 0 });
    let ranges = range_schema();
    (0..replicas).fold(model, |model, _| model.output(&ranges))
}

struct Split {
    rest: Vec<Piece>,
    smallest: u64,
    index: u64,
}

impl Piece {
    fn left(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }
}

impl Split {
    /// The next part for an output, if there is work left.
    fn part(&mut self, output: usize, outputs: usize) -> Option<Envelope> {
        let left: u64 = self.rest.iter().map(Piece::left).sum();
        if left == 0 {
            return None;
        }
        let own = output * self.rest.len() / outputs;
        let most = || (0..self.rest.len()).max_by_key(|&piece| self.rest[piece].left());
        let from = if self.rest[own].left() > 0 { own } else { most()? };
        let piece = &mut self.rest[from];
        let part = (left / (4 * outputs as u64)).max(self.smallest).min(piece.left());
        let (from, to) = (piece.range.start, piece.range.start + part);
        piece.range.start = to;
        self.index += 1;
        let columns = [self.index - 1, from, to].map(|value| vec![value].into());
        Some(Envelope::new(columns).at_home(piece.home))
    }
}

impl Operator for Split {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        turn.take(0);
        for output in 0..turn.outputs() {
            if turn.ask_room(output)
                && let Some(part) = self.part(output, turn.outputs())
            {
                turn.send(output, part);
            }
        }
        if self.rest.iter().all(|piece| piece.left() == 0) {
            turn.send_pills();
        } else {
            turn.accept_any_room();
            turn.run_again();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bound, ModelBuilder, library, sequential};
    use std::sync::mpsc;

    /// Replica 0 takes one part and is then scheduled only if nothing else is; the others get the rest.
    #[test]
    fn every_place_is_handed_out_once_in_any_schedule() {
        for seed in 0..300u64 {
            let (replicas, places) = (1 + seed as usize % 5, seed * 7 % 1000);
            let mut net = ModelBuilder::new("split");
            net.default_bound(Bound { envelopes: 1, ..Bound::default() });
            let cuts = [10, 10 + places / 3, 10 + places / 3, 10 + places / 2, 10 + places];
            let pieces = cuts
                .windows(2)
                .zip(0..)
                .map(|(cut, home)| Piece { range: cut[0]..cut[1], home: Some(NodeId::new(home)) });
            let pieces: Vec<Piece> = if seed % 3 == 0 { vec![(10..10 + places).into()] } else { pieces.collect() };
            let split = net.source(split(pieces.clone(), replicas, 1 + seed % 9));
            let union = net.add(union_of(replicas));
            for replica in 0..replicas {
                let pass = net.add(library::map("pass", &range_schema(), &range_schema(), Some));
                net.connect(split.output(replica), pass.input(0));
                net.connect(pass.output(0), union.input(replica));
            }
            let (send, receive) = mpsc::channel();
            let sink = net.add(library::sink("sink", &range_schema(), move |envelope| Ok(send.send(envelope)?)));
            net.connect(union.output(0), sink.input(0));
            net.end(sink.output(0));
            let model = net.build().unwrap();
            sequential::run(&model, Vec::new(), library::any_order(seed))
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            drop(model);
            let part = |envelope: Envelope| {
                let (from, to) = (envelope.column(1).u64s()[0], envelope.column(2).u64s()[0]);
                let piece = pieces.iter().find(|piece| piece.range.contains(&from)).expect("a part of a piece");
                assert!(to <= piece.range.end && envelope.home() == piece.home, "{from} to {to} of {piece:?}");
                (from, to)
            };
            let mut parts: Vec<(u64, u64)> = receive.iter().map(part).collect();
            parts.sort_unstable();
            let mut next = 10;
            for (from, to) in parts {
                assert_eq!(from, next, "seed {seed}");
                next = to;
            }
            assert_eq!(next, 10 + places, "seed {seed}");
        }
    }

    fn union_of(inputs: usize) -> BoxModel {
        library::union(&range_schema(), inputs)
    }

    #[test]
    fn a_replica_that_closes_leaves_its_parts_to_the_others() {
        let mut net = ModelBuilder::new("split");
        net.default_bound(Bound { envelopes: 1, ..Bound::default() });
        let split = net.source(split([(0..1000).into()], 2, 10));
        let (send, receive) = mpsc::channel();
        let lazy = |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            turn.close(0);
            turn.send_pill(0);
            Ok(())
        };
        let lazy = net.add(BoxModel::new("lazy", move || lazy).input(&range_schema()).output(&range_schema()));
        let busy = net.add(library::sink("busy", &range_schema(), move |envelope| {
            Ok(send.send(envelope.column(2).u64s()[0] - envelope.column(1).u64s()[0])?)
        }));
        net.connect(split.output(0), lazy.input(0));
        net.connect(split.output(1), busy.input(0));
        net.end(lazy.output(0));
        net.end(busy.output(0));
        sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
        let places: u64 = receive.iter().sum();
        assert!((1000 - 2 * 125..=1000).contains(&places), "the lazy one got two parts at most: {places}");
    }
}
