//! Hands envelopes out as they come, each to whoever has room.

use crate::{BoxError, BoxModel, Operator, Schema, Turn};

/// Sends each envelope of its input to one of `parts` outputs: to the next in turn that has room. So a reader that is
/// slow gets less, and what stands behind a single stream is shared. Envelopes are passed on, not copied; their order is
/// lost.
pub fn spread(schema: &Schema, parts: usize) -> BoxModel {
    let model = BoxModel::new("spread", || Spread { next: 0 });
    (0..parts).fold(model.input(schema), |model, _| model.output(schema))
}

struct Spread {
    next: usize,
}

impl Operator for Spread {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        turn.needs_any_room();
        let outputs = turn.outputs();
        let mut in_turn = (self.next..self.next + outputs).map(|output| output % outputs);
        let Some(output) = in_turn.find(|&output| turn.has_room(output)) else {
            turn.run_again();
            return Ok(());
        };
        match turn.take(0) {
            Some(pill) if pill.is_pill() => turn.send_pills(),
            Some(envelope) => {
                turn.send(output, envelope);
                self.next = output + 1;
            }
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

    /// The first reader is served last wherever there is a choice, or closes at once.
    #[test]
    fn every_envelope_goes_to_one_reader_in_any_schedule() {
        let schema = Schema::new([("row", Type::U64)]);
        for seed in 0..300u64 {
            let (parts, count) = (1 + seed as usize % 5, seed * 7 % 100);
            let is_closing = seed % 3 == 0 && parts > 1;
            let mut net = ModelBuilder::new("spread");
            net.default_bound(Bound { envelopes: 1, ..Bound::default() });
            let source = move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                turn.take(0);
                (0..count).for_each(|row| turn.send(0, Envelope::new([vec![row].into()])));
                turn.send_pill(0);
                Ok(())
            };
            let source = net.source(BoxModel::new("rows", move || source).output(&schema));
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
