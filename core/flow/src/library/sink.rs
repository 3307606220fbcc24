//! The box at the network's exit: it takes its envelopes out.

use crate::{BoxError, BoxModel, Envelope, Operator, Schema, Turn};
use std::borrow::Cow;

/// Hands each envelope to a function and sends only the pill: the end of a network. The schema-less output leads to the
/// termination box. The function of one instance is usually given when the request is submitted.
///
/// ```
/// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library, sequential};
///
/// let schema = Schema::new([("n", Type::U64)]);
/// let mut net = ModelBuilder::new("a sum");
/// let numbers = net.source(library::source("numbers", &schema, || [Envelope::new([vec![1u64, 2, 3].into()])]));
/// let end = net.add(library::sink("sum", &schema, |_| Ok(())));
/// net.connect(numbers.output(0), end.input(0));
/// net.end(end.output(0));
/// let model = net.build().unwrap();
///
/// // Each request replaces the model's function by its own.
/// let (send, receive) = std::sync::mpsc::channel();
/// let sum = library::sink_operator(move |envelope| Ok(send.send(envelope.column(0).u64s().iter().sum::<u64>())?));
/// sequential::run(&model, vec![(end, Box::new(sum))], |_| 0).unwrap();
/// assert_eq!(receive.recv(), Ok(6));
/// ```
pub fn sink<F>(type_name: impl Into<Cow<'static, str>>, input: &Schema, f: F) -> BoxModel
where
    F: FnMut(Envelope) -> Result<(), BoxError> + Clone + Send + Sync + 'static,
{
    BoxModel::new(type_name, move || sink_operator(f.clone())).input(input).output(&Schema::none())
}

/// The operator of [`sink`], to be given to a single request.
///
/// ```
/// use std::sync::mpsc;
/// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library, sequential};
///
/// let schema = Schema::new([("n", Type::U64)]);
/// let mut net = ModelBuilder::new("numbers for several requests");
/// let numbers = net.source(library::source("numbers", &schema, || [Envelope::new([vec![3u64, 5].into()])]));
/// let end = net.add(library::sink("end", &schema, |_| Ok(())));
/// net.connect(numbers.output(0), end.input(0));
/// net.end(end.output(0));
/// let model = net.build().unwrap();
///
/// // The function owns what it writes to, so that no request writes into another one's answer.
/// let answer = |factor: u64| {
///     let (send, receive) = mpsc::channel();
///     let operator = library::sink_operator(move |envelope| {
///         envelope.column(0).u64s().iter().try_for_each(|n| send.send(n * factor))?;
///         Ok(())
///     });
///     sequential::run(&model, vec![(end, Box::new(operator))], |_| 0).unwrap();
///     receive.iter().collect::<Vec<_>>()
/// };
/// assert_eq!((answer(1), answer(10)), (vec![3, 5], vec![30, 50]));
/// ```
pub fn sink_operator<F>(mut f: F) -> impl Operator
where
    F: FnMut(Envelope) -> Result<(), BoxError> + Send,
{
    move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
        match turn.take(0) {
            Some(pill) if pill.is_pill() => turn.send_pill(0),
            Some(envelope) if envelope.mark().is_some() => {}
            Some(envelope) => f(envelope)?,
            None => {}
        }
        Ok(())
    }
}
