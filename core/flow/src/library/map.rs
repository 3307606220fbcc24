//! A function of each envelope.

use crate::{BoxError, BoxModel, Envelope, Schema, Turn};
use std::borrow::Cow;

/// Applies a function to each envelope and passes on the result; `None` drops the envelope.
///
/// ```
/// use std::sync::mpsc;
/// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library, sequential};
///
/// let schema = Schema::new([("n", Type::I64)]);
/// let mut net = ModelBuilder::new("one more");
/// let numbers = net.source(library::source("numbers", &schema, || [Envelope::new([vec![1i64, 2, 3].into()])]));
/// let add = net.add(library::map("add one", &schema, &schema, |mut envelope| {
///     envelope.i64s_mut(0).iter_mut().for_each(|n| *n += 1); // in its own memory, where no other box has it
///     Some(envelope)
/// }));
/// let (send, receive) = mpsc::channel();
/// let end = net.add(library::sink("end", &schema, move |envelope| Ok(send.send(envelope)?)));
/// net.connect(numbers.output(0), add.input(0));
/// net.connect(add.output(0), end.input(0));
/// net.end(end.output(0));
/// sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
/// assert_eq!(receive.recv().unwrap().column(0).i64s(), [2, 3, 4]);
/// ```
pub fn map<F>(type_name: impl Into<Cow<'static, str>>, input: &Schema, output: &Schema, f: F) -> BoxModel
where
    F: Fn(Envelope) -> Option<Envelope> + Clone + Send + Sync + 'static,
{
    let factory = move || {
        let f = f.clone();
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            match turn.take(0) {
                Some(pill) if pill.is_pill() => turn.send_pill(0),
                Some(envelope) if turn.pass_mark(&envelope) => {}
                Some(envelope) => f(envelope).into_iter().for_each(|made| turn.send(0, made)),
                None => {}
            }
            Ok(())
        }
    };
    BoxModel::new(type_name, factory).input(input).output(output)
}
