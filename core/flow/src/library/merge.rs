//! Several sorted streams as one sorted stream.

use crate::{Attachment, BoxError, BoxModel, Envelope, EnvelopeBuilder, Operator, Schema, Turn, Type};
use std::cmp::Ordering;

/// Merges so many streams, each sorted by `compare`, which orders a row of an envelope and a row of another. Rows that
/// are equal come in the order of inputs. Columns must be of [`Type::U64`]; panics for others.
///
/// It waits for each input that has not ended. So it must not close a diamond, unless the streams come from boxes that
/// take their whole input before they send anything, as sorts do: then nothing above them waits any more.
pub fn merge<F>(schema: &Schema, inputs: usize, envelope_rows: usize, compare: F) -> BoxModel
where
    F: Fn((&Envelope, usize), (&Envelope, usize)) -> Ordering + Clone + Send + Sync + 'static,
{
    assert!(schema.columns().iter().all(|(_, kind)| *kind == Type::U64), "{schema} is not of U64 alone");
    let width = schema.columns().len();
    let model = BoxModel::new("merge", move || Merge {
        compare: compare.clone(),
        streams: (0..inputs).map(|_| Stream { head: None, row: 0, ended: false }).collect(),
        merged: EnvelopeBuilder::of_u64s(width),
        attached: Vec::new(),
        rows: 0,
        room: 0,
        limit: envelope_rows.max(1),
    });
    (0..inputs).fold(model, |model, _| model.input(schema)).output(schema)
}

struct Merge<F> {
    compare: F,
    streams: Vec<Stream>,
    /// Rows that have not been sent yet.
    merged: EnvelopeBuilder,
    /// What they keep alive.
    attached: Vec<Attachment>,
    rows: usize,
    /// For so many rows there is room.
    room: usize,
    limit: usize,
}

struct Stream {
    head: Option<Envelope>,
    /// Of the head's rows, the first that has not been merged.
    row: usize,
    ended: bool,
}

impl<F> Merge<F> {
    fn flush(&mut self, turn: &mut Turn<'_>) {
        if self.rows > 0 {
            let columns = self.merged.finish_columns(turn);
            self.room = 0;
            let envelope = Envelope::of_rows(columns, std::mem::take(&mut self.rows));
            turn.send(0, envelope.with(&self.attached));
            self.attached.clear();
            // Rows of these heads are still to come.
            let heads = self.streams.iter().filter_map(|stream| stream.head.as_ref());
            heads.for_each(|head| Attachment::add_all(&mut self.attached, head.attached()));
        }
    }
}

impl<F> Operator for Merge<F>
where
    F: Fn((&Envelope, usize), (&Envelope, usize)) -> Ordering + Send,
{
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        loop {
            for (input, stream) in self.streams.iter_mut().enumerate() {
                if stream.head.is_none() && !stream.ended {
                    match turn.take(input) {
                        // What arrives invokes the box again.
                        None => return Ok(()),
                        Some(pill) if pill.is_pill() => stream.ended = true,
                        Some(envelope) if envelope.rows() == 0 => {
                            turn.run_again();
                            return Ok(());
                        }
                        Some(envelope) => {
                            Attachment::add_all(&mut self.attached, envelope.attached());
                            (stream.head, stream.row) = (Some(envelope), 0);
                        }
                    }
                }
            }
            // Until one of the heads is used up.
            loop {
                let heads = self.streams.iter().enumerate();
                let heads = heads.filter_map(|(at, stream)| Some((at, (stream.head.as_ref()?, stream.row))));
                let Some((least, (head, row))) = heads.min_by(|(_, a), (_, b)| (self.compare)(*a, *b)) else {
                    self.flush(turn);
                    turn.send_pill(0);
                    return Ok(());
                };
                if self.rows == self.room {
                    // As many again as there are, or as came.
                    let more = self.rows.max(head.rows()).min(self.limit - self.rows);
                    self.merged.reserve(turn, more);
                    self.room += more;
                }
                for (place, column) in head.columns().iter().enumerate() {
                    self.merged.u64s(place).push(column.u64s()[row]);
                }
                self.rows += 1;
                let stream = &mut self.streams[least];
                stream.row += 1;
                let is_used_up = stream.head.as_ref().is_some_and(|head| stream.row == head.rows());
                if is_used_up {
                    stream.head = None;
                }
                if self.rows == self.limit {
                    self.flush(turn);
                    turn.run_again();
                    return Ok(());
                }
                if is_used_up {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bound, ModelBuilder, library, sequential};
    use std::sync::mpsc;

    #[test]
    fn sorted_streams_become_one() {
        let schema = Schema::new([("n", Type::U64)]);
        for seed in 0..200u64 {
            let inputs = 1 + seed as usize % 4;
            let mut net = ModelBuilder::new("merge");
            net.default_bound(Bound { envelopes: 1, ..Bound::default() });
            let compare = |(a, i): (&Envelope, usize), (b, j): (&Envelope, usize)| {
                a.column(0).u64s()[i].cmp(&b.column(0).u64s()[j])
            };
            let merge = net.add(merge(&schema, inputs, 1 + seed as usize % 7, compare));
            let mut expected = Vec::new();
            for input in 0..inputs as u64 {
                let values: Vec<u64> = (0..(seed * (input + 3)) % 40).map(|n| n * (input + 1) % 91 + n).collect();
                let mut values = values;
                values.sort_unstable();
                expected.extend_from_slice(&values);
                let source = move || {
                    let values = values.clone();
                    move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                        turn.take(0);
                        values.chunks(3).for_each(|part| turn.send(0, Envelope::new([part.to_vec().into()])));
                        turn.send_pill(0);
                        Ok(())
                    }
                };
                let source = net.source(BoxModel::new("run", source).output(&schema));
                net.connect(source.output(0), merge.input(input as usize));
            }
            let (send, receive) = mpsc::channel();
            let sink = net.add(library::sink("sink", &schema, move |envelope| Ok(send.send(envelope)?)));
            net.connect(merge.output(0), sink.input(0));
            net.end(sink.output(0));
            let model = net.build().unwrap();
            sequential::run(&model, Vec::new(), library::any_order(seed))
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            drop(model);
            let merged: Vec<u64> = receive.iter().flat_map(|envelope| envelope.column(0).u64s().to_vec()).collect();
            expected.sort_unstable();
            assert_eq!(merged, expected, "seed {seed}");
        }
    }
}
