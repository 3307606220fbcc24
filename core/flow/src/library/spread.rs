//! Hands envelopes out as they come, each to a reader with room.

use crate::{BoxError, BoxModel, Mark, Operator, Schema, Turn};

/// Sends each envelope of its input to one of `parts` outputs: to the next in turn with room. So a slow reader gets
/// fewer envelopes, and the work behind a single stream is shared. Envelopes are passed on, not copied; their order is
/// lost. Marks ([`Mark`]) go to all outputs.
///
/// ```
/// use std::sync::mpsc;
/// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library, sequential};
///
/// let schema = Schema::new([("n", Type::U64)]);
/// let mut net = ModelBuilder::new("squares, two at a time");
/// let envelopes = || (0..10u64).map(|n| Envelope::new([vec![n].into()]));
/// let numbers = net.source(library::source("numbers", &schema, envelopes));
/// let spread = net.add(library::spread(&schema, 2));
/// let union = net.add(library::union(&schema, 2));
/// net.connect(numbers.output(0), spread.input(0));
/// for part in 0..2 {
///     let square = net.add(library::map("square", &schema, &schema, |mut envelope| {
///         envelope.u64s_mut(0).iter_mut().for_each(|n| *n *= *n);
///         Some(envelope)
///     }));
///     net.connect(spread.output(part), square.input(0));
///     net.connect(square.output(0), union.input(part));
/// }
/// let (send, receive) = mpsc::channel();
/// let end = net.add(library::sink("end", &schema, move |envelope| Ok(send.send(envelope.column(0).u64s()[0])?)));
/// net.connect(union.output(0), end.input(0));
/// net.end(end.output(0));
/// sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
/// assert_eq!(receive.try_iter().sum::<u64>(), 285);
/// ```
pub fn spread(schema: &Schema, parts: usize) -> BoxModel {
    let model = BoxModel::new("spread", move || Spread { next: 0, owed: vec![Owed::default(); parts] });
    (0..parts).fold(model.input(schema), |model, _| model.output(schema))
}

struct Spread {
    next: usize,
    owed: Vec<Owed>,
}

/// The marks of an output whose reader is slow: all but the first wait, and the last of a kind replaces those before.
#[derive(Clone, Copy, Default)]
struct Owed {
    watermark: Option<Mark>,
    /// Whether the stream is idle, behind the watermark.
    pause: Option<Mark>,
    /// Whether one was sent without room.
    is_full: bool,
}

impl Owed {
    fn add(&mut self, mark: Mark) {
        match mark {
            // It ends a pause as well.
            Mark::Watermark(_) => (self.watermark, self.pause) = (Some(mark), None),
            Mark::Idle { .. } | Mark::Active => self.pause = Some(mark),
        }
    }

    fn is_due(&self) -> bool {
        self.watermark.is_some() || self.pause.is_some()
    }

    fn send(&mut self, output: usize, turn: &mut Turn<'_>) {
        let marks = [self.watermark.take(), self.pause.take()];
        marks.into_iter().flatten().for_each(|mark| turn.send_mark(output, mark));
    }

    fn pay(&mut self, output: usize, turn: &mut Turn<'_>) {
        let has_room = turn.ask_room(output);
        if has_room || !self.is_full {
            self.is_full = !has_room;
            self.send(output, turn);
        }
    }
}

impl Operator for Spread {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        turn.accept_any_room();
        for (output, owed) in self.owed.iter_mut().enumerate().filter(|(_, owed)| owed.is_due()) {
            owed.pay(output, turn);
        }
        let outputs = turn.outputs();
        let mut in_turn = (self.next..self.next + outputs).map(|output| output % outputs);
        let Some(output) = in_turn.find(|&output| turn.ask_room(output)) else {
            turn.run_again();
            return Ok(());
        };
        match turn.take(0) {
            Some(pill) if pill.is_pill() => {
                for (output, owed) in self.owed.iter_mut().enumerate() {
                    owed.send(output, turn);
                }
                turn.send_pills();
            }
            Some(envelope) => match envelope.mark() {
                Some(mark) => {
                    for (output, owed) in self.owed.iter_mut().enumerate() {
                        owed.add(mark);
                        owed.pay(output, turn);
                    }
                }
                None => {
                    turn.send(output, envelope);
                    self.next = output + 1;
                }
            },
            None => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bound, Envelope, ModelBuilder, Type, library, sequential};
    use std::sync::mpsc;

    /// The first reader is served last if there is a choice, or closes at once.
    #[test]
    fn every_envelope_goes_to_one_reader_in_any_schedule() {
        let schema = Schema::new([("row", Type::U64)]);
        for seed in 0..300u64 {
            let (parts, count) = (1 + seed as usize % 5, seed * 7 % 100);
            let is_closing = seed % 3 == 0 && parts > 1;
            let mut net = ModelBuilder::new("spread");
            net.default_bound(Bound { envelopes: 1, ..Bound::default() });
            let rows = move || (0..count).map(|row| Envelope::new([vec![row].into()]));
            let source = net.source(library::source("rows", &schema, rows));
            let spread = net.add(spread(&schema, parts));
            net.connect(source.output(0), spread.input(0));
            let (send, receive) = mpsc::channel();
            for part in 0..parts {
                let sink = if part == 0 && is_closing {
                    let lazy = |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                        turn.close(0);
                        turn.send_pill(0);
                        Ok(())
                    };
                    let nothing: [(&str, Type); 0] = [];
                    BoxModel::new("lazy", move || lazy).input(&schema).output(&Schema::new(nothing))
                } else {
                    let send = send.clone();
                    library::sink("part", &schema, move |envelope| Ok(send.send((part, envelope))?))
                };
                let sink = net.add(sink);
                net.connect(spread.output(part), sink.input(0));
                net.end(sink.output(0));
            }
            drop(send);
            let model = net.build().unwrap();
            sequential::run(&model, Vec::new(), library::any_order(seed))
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            drop(model);
            let mut rows: Vec<u64> = receive.iter().map(|(_, envelope)| envelope.column(0).u64s()[0]).collect();
            rows.sort_unstable();
            let lost = if is_closing { 2 } else { 0 };
            assert!(rows.windows(2).all(|pair| pair[0] < pair[1]), "seed {seed}: none came twice");
            assert!(rows.len() + lost >= count as usize, "seed {seed}: {} of {count} came", rows.len());
        }
    }
}
