//! A network of a source, one box and a sink.

use crate::trials::keep;
use vicus_flow::{BoxModel, Envelope, FlowError, ModelBuilder, Schema, library, sequential};

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
