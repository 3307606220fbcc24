//! A network of a source, one box and a sink; and a box that many networks have.

use crate::trials::keep;
use vicus_flow::{BoxError, BoxModel, Envelope, FlowError, ModelBuilder, Schema, Turn, library, sequential};

/// Runs a box over envelopes. Gives those that it sends with rows, or the error.
pub(crate) fn over(
    envelopes: Vec<Envelope>,
    model: BoxModel,
    from: &Schema,
    to: &Schema,
) -> Result<Vec<Envelope>, FlowError> {
    let mut net = ModelBuilder::new("one box");
    let source = net.source(library::source("rows", from, move || envelopes.clone()));
    let model = net.add(model);
    let (sink, kept) = keep(to);
    let sink = net.add(sink);
    net.connect(source.output(0), model.input(0));
    net.connect(model.output(0), sink.input(0));
    net.end(sink.output(0));
    sequential::run(&net.build().unwrap(), Vec::new(), |_| 0)?;
    let kept = kept.lock().unwrap();
    Ok(kept.iter().filter(|envelope| envelope.rows() > 0).cloned().collect())
}

/// A box that takes all of its first input, then all of its second one, and sends the pill. Each instance has a
/// function of its own, which gets the input's number and the envelope.
pub(crate) fn one_after_the_other<F: FnMut(usize, Envelope) + Send + 'static>(
    name: &'static str,
    schema: &Schema,
    take: impl Fn() -> F + Send + Sync + 'static,
) -> BoxModel {
    let operator = move || {
        let (mut take, mut at) = (take(), 0);
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            match turn.take(at) {
                Some(pill) if pill.is_pill() && at == 1 => turn.send_pill(0),
                Some(pill) if pill.is_pill() => {
                    at = 1;
                    turn.run_again();
                }
                Some(envelope) => take(at, envelope),
                None => {}
            }
            Ok(())
        }
    };
    BoxModel::new(name, operator).input(schema).input(schema).output(schema)
}
