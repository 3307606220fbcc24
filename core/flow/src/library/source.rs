//! Boxes at the network's entry: they make its envelopes.

use crate::{BoxError, BoxModel, Envelope, EnvelopeBuilder, Operator, Schema, Turn};
use std::borrow::Cow;

/// A source: sends the envelopes of an iterator, one in each invocation, and then the pill. The iterator is made for
/// each instance of the network, when it starts. Its items are envelopes, or results of them: an error fails the
/// request.
///
/// ```
/// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library, sequential};
///
/// let schema = Schema::new([("n", Type::U64)]);
/// let mut net = ModelBuilder::new("a million numbers");
/// let numbers = net.source(library::source("numbers", &schema, || {
///     (0..1000u64).map(|part| Envelope::new([(1000 * part..1000 * (part + 1)).collect::<Vec<_>>().into()]))
/// }));
/// let end = net.add(library::sink("end", &schema, |_| Ok(())));
/// net.connect(numbers.output(0), end.input(0));
/// net.end(end.output(0));
/// sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
/// ```
///
/// A source that reads files or waits for other threads should be a [`fill`]: its function can declare this by
/// [`Turn::blocking`].
pub fn source<F, I>(type_name: impl Into<Cow<'static, str>>, output: &Schema, envelopes: F) -> BoxModel
where
    F: Fn() -> I + Send + Sync + 'static,
    I: IntoIterator<Item: SourceItem, IntoIter: Send + 'static>,
{
    let factory = move || {
        let mut envelopes = envelopes().into_iter();
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            // The first time, the initialization pill.
            turn.take(0);
            match envelopes.next() {
                Some(envelope) => {
                    turn.send(0, envelope.made()?);
                    turn.run_again();
                }
                None => turn.send_pill(0),
            }
            Ok(())
        }
    };
    BoxModel::new(type_name, factory).output(output)
}

/// The item of a [`source`]'s iterator: an [`Envelope`], or a `Result` of one.
pub trait SourceItem {
    /// The envelope.
    ///
    /// # Errors
    /// The iterator's error.
    fn made(self) -> Result<Envelope, BoxError>;
}

impl SourceItem for Envelope {
    fn made(self) -> Result<Envelope, BoxError> {
        Ok(self)
    }
}

impl<E: Into<BoxError>> SourceItem for Result<Envelope, E> {
    fn made(self) -> Result<Envelope, BoxError> {
        self.map_err(Into::into)
    }
}

/// Whether a filling function has more rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// Call it again.
    Yes,
    /// The rows just filled in are the last.
    No,
}

/// A source by a function that fills the columns of each envelope in place, in memory of its seat's node. It is called
/// once in an invocation; its rows are then sent, if there are any, and after the last envelope the pill. The function
/// is made for each instance of the network.
///
/// ```
/// use vicus_flow::library::{self, More};
/// use vicus_flow::{ModelBuilder, Schema, Type, sequential};
///
/// let schema = Schema::new([("n", Type::U64), ("name", Type::Text)]);
/// let mut net = ModelBuilder::new("a thousand numbers and their names");
/// let numbers = net.source(library::fill("numbers", &schema, || {
///     let mut next = 0;
///     move |turn, builder| {
///         builder.reserve(turn, 100);
///         builder.u64s(0).extend(next..next + 100);
///         (next..next + 100).for_each(|n| builder.push_text(turn, 1, &n.to_string()));
///         next += 100;
///         Ok(if next < 1000 { More::Yes } else { More::No })
///     }
/// }));
/// let end = net.add(library::sink("end", &schema, |envelope| {
///     assert_eq!(envelope.column(1).text_at(7), envelope.column(0).u64s()[7].to_string());
///     Ok(())
/// }));
/// net.connect(numbers.output(0), end.input(0));
/// net.end(end.output(0));
/// sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
/// ```
pub fn fill<F, G>(type_name: impl Into<Cow<'static, str>>, output: &Schema, fill: F) -> BoxModel
where
    F: Fn() -> G + Send + Sync + 'static,
    G: FnMut(&mut Turn<'_>, &mut EnvelopeBuilder) -> Result<More, BoxError> + Send + 'static,
{
    let schema = output.clone();
    BoxModel::new(type_name, move || Fill { fill: fill(), builder: EnvelopeBuilder::new(&schema) }).output(output)
}

struct Fill<G> {
    fill: G,
    builder: EnvelopeBuilder,
}

impl<G> Operator for Fill<G>
where
    G: FnMut(&mut Turn<'_>, &mut EnvelopeBuilder) -> Result<More, BoxError> + Send,
{
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        // The first time, the initialization pill.
        turn.take(0);
        let more = (self.fill)(turn, &mut self.builder)?;
        if self.builder.rows() > 0 {
            let envelope = self.builder.finish(turn);
            turn.send(0, envelope);
        }
        match more {
            More::Yes => turn.run_again(),
            More::No => turn.send_pill(0),
        }
        Ok(())
    }
}
