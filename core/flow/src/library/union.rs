//! Several streams as one, in the order of arrival.

use crate::{BoxError, BoxModel, Marks, Operator, Schema, Turn};

/// Passes on the envelopes of all its inputs. It never waits for one of them while another has an envelope, so it may
/// close any diamond. Its watermark is the least of its inputs' ([`Marks`]).
///
/// ```
/// use std::sync::mpsc;
/// use vicus_flow::{Column, Envelope, ModelBuilder, Schema, Type, library, sequential};
///
/// let schema = Schema::new([("word", Type::Text)]);
/// let mut net = ModelBuilder::new("two sources");
/// let union = net.add(library::union(&schema, 2));
/// for (input, word) in ["near", "far"].into_iter().enumerate() {
///     let source = net.source(library::source("word", &schema, move || [Envelope::new([Column::from_iter([word])])]));
///     net.connect(source.output(0), union.input(input));
/// }
/// let (send, receive) = mpsc::channel();
/// let word = |envelope: Envelope| envelope.column(0).text_at(0).to_owned();
/// let end = net.add(library::sink("end", &schema, move |envelope| Ok(send.send(word(envelope))?)));
/// net.connect(union.output(0), end.input(0));
/// net.end(end.output(0));
/// sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
/// let mut words: Vec<String> = receive.try_iter().collect();
/// words.sort();
/// assert_eq!(words, ["far", "near"]);
/// ```
pub fn union(schema: &Schema, inputs: usize) -> BoxModel {
    let model = BoxModel::new("union", move || Union { open: inputs, marks: Marks::of(inputs) });
    (0..inputs).fold(model, |model, _| model.input(schema)).output(schema).takes_any_input()
}

struct Union {
    /// How many inputs have not had their pill.
    open: usize,
    marks: Marks,
}

impl Union {
    fn send_marks(&mut self, turn: &mut Turn<'_>) {
        while let Some(mark) = self.marks.next() {
            turn.send_mark(0, mark);
        }
    }
}

impl Operator for Union {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        for input in 0..turn.inputs() {
            match turn.take(input) {
                Some(pill) if pill.is_pill() => {
                    self.open -= 1;
                    self.marks.end(input);
                    self.send_marks(turn);
                }
                Some(envelope) => match envelope.mark() {
                    Some(mark) => {
                        self.marks.take(input, mark);
                        self.send_marks(turn);
                    }
                    None => {
                        self.marks.goes_on(input);
                        turn.send(0, envelope);
                    }
                },
                None => continue,
            }
            if self.open == 0 {
                turn.send_pill(0);
            }
        }
        Ok(())
    }
}
