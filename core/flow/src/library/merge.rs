//! Several sorted streams as one sorted stream.

use crate::{Attachment, BoxError, BoxModel, Envelope, EnvelopeBuilder, Grow, Mark, Marks, Operator, Schema, Turn};
use std::cmp::Ordering;

/// Merges `inputs` streams, each sorted by `compare`. This function orders a row of one envelope and a row of another;
/// [`order_by`](super::order_by) makes one for columns of any types. Equal rows come in the order of inputs. Its
/// watermark is the least of its inputs' ([`Marks`]).
///
/// It waits for each input that has not ended. So it must not close a diamond, unless the streams come from boxes that
/// take their whole input before they send anything, as sorts do: then no box above them waits any more.
///
/// ```
/// use std::sync::mpsc;
/// use vicus_flow::library::{self, SortKey};
/// use vicus_flow::{Column, Envelope, ModelBuilder, Schema, Type, sequential};
///
/// let names = Schema::new([("name", Type::Text)]);
/// let mut net = ModelBuilder::new("two lists of names");
/// let merge = net.add(library::merge(&names, 2, 1000, library::order_by([SortKey::of(0)])));
/// for (input, list) in [["Ada", "Grace"], ["Barbara", "Jean"]].into_iter().enumerate() {
///     let list = net.source(library::source("list", &names, move || [Envelope::new([Column::from_iter(list)])]));
///     net.connect(list.output(0), merge.input(input));
/// }
/// let (send, receive) = mpsc::channel();
/// let end = net.add(library::sink("end", &names, move |envelope| Ok(send.send(envelope)?)));
/// net.connect(merge.output(0), end.input(0));
/// net.end(end.output(0));
/// sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
/// let merged = receive.recv().unwrap();
/// assert_eq!(merged.column(0).texts().collect::<Vec<_>>(), ["Ada", "Barbara", "Grace", "Jean"]);
/// ```
pub fn merge<F>(schema: &Schema, inputs: usize, envelope_rows: usize, compare: F) -> BoxModel
where
    F: Fn((&Envelope, usize), (&Envelope, usize)) -> Ordering + Clone + Send + Sync + 'static,
{
    let rows = schema.clone();
    let model = BoxModel::new("merge", move || Merge {
        compare: compare.clone(),
        streams: (0..inputs).map(|_| Stream { head: None, row: 0, ended: false }).collect(),
        merged: EnvelopeBuilder::new(&rows),
        attached: Vec::new(),
        picked: Vec::new(),
        rows: 0,
        marks: Marks::of(inputs),
        due: Vec::new(),
        room: 0,
        limit: envelope_rows.max(1),
    });
    (0..inputs).fold(model, |model, _| model.input(schema)).output(schema)
}

struct Merge<F> {
    compare: F,
    streams: Vec<Stream>,
    /// Rows not yet sent.
    merged: EnvelopeBuilder,
    /// Their attachments.
    attached: Vec<Attachment>,
    /// The next rows of heads, not yet copied: the stream's number and the row's. Invariant: empty when a head is
    /// replaced.
    picked: Vec<(u32, u32)>,
    /// How many rows have not been sent, including the picked ones.
    rows: usize,
    marks: Marks,
    /// Marks that follow the merged rows.
    due: Vec<Mark>,
    /// How many rows there is room for.
    room: usize,
    limit: usize,
}

struct Stream {
    head: Option<Envelope>,
    /// The first unmerged row of the head.
    row: usize,
    ended: bool,
}

impl<F> Merge<F> {
    /// Copies the picked rows while their heads are still there.
    fn copy_picked(&mut self, turn: &Turn<'_>) {
        if self.rows > self.room {
            // Room for as many again as there are, or as come.
            let before = self.rows - self.picked.len();
            let more = before.max(self.picked.len()).min(self.limit - before);
            self.merged.reserve(turn, more);
            self.room = before + more;
        }
        let head = |stream: u32| self.streams[stream as usize].head.as_ref().expect("a row of it was picked");
        self.merged.interleave(turn.blocks, &self.picked, |stream| head(stream).columns());
        self.picked.clear();
    }

    /// Sends the merged rows.
    fn flush(&mut self, turn: &mut Turn<'_>) {
        if self.rows > 0 {
            let columns = self.merged.finish_columns(turn);
            self.room = 0;
            let envelope = Envelope::of_rows(columns, std::mem::take(&mut self.rows));
            turn.send(0, envelope.with(&self.attached));
            self.attached.clear();
            // Further rows of these heads come later.
            let heads = self.streams.iter().filter_map(|stream| stream.head.as_ref());
            heads.for_each(|head| Attachment::add_all(&mut self.attached, head.attached()));
        }
    }
}

impl<F> Merge<F> {
    /// Sends the waiting marks behind the rows so far. Those of the heads came behind their own streams' watermarks.
    fn send_marks(&mut self, turn: &mut Turn<'_>) {
        if !self.due.is_empty() {
            self.flush(turn);
            self.due.drain(..).for_each(|mark| turn.send_mark(0, mark));
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
                        // The next arrival invokes the box again.
                        None => {
                            self.send_marks(turn);
                            return Ok(());
                        }
                        Some(pill) if pill.is_pill() => {
                            stream.ended = true;
                            self.marks.end(input);
                            self.due.extend(std::iter::from_fn(|| self.marks.next()));
                        }
                        Some(envelope) if envelope.rows() == 0 => {
                            if let Some(mark) = envelope.mark() {
                                self.marks.take(input, mark);
                                self.due.extend(std::iter::from_fn(|| self.marks.next()));
                            }
                            turn.run_again();
                            self.send_marks(turn);
                            return Ok(());
                        }
                        Some(envelope) => {
                            // The rows stay here for now: boxes behind would go on without them.
                            self.marks.take(input, Mark::Active);
                            self.due.extend(std::iter::from_fn(|| self.marks.next()));
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
                let is_used_up = row + 1 == head.rows();
                self.picked.grow(1)?;
                self.picked.push((least as u32, row as u32));
                self.rows += 1;
                self.streams[least].row += 1;
                let is_full = self.rows == self.limit;
                if is_used_up || is_full {
                    self.copy_picked(turn);
                }
                if is_used_up {
                    self.streams[least].head = None;
                }
                if is_full {
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
    use crate::{Bound, ModelBuilder, Type, library, sequential};
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
                let parts: Vec<Envelope> = values.chunks(3).map(|part| Envelope::new([part.to_vec().into()])).collect();
                let source = net.source(library::source("run", &schema, move || parts.clone()));
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
