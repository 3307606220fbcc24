//! Where envelopes leave the network.

use crate::{BoxError, BoxModel, Envelope, Operator, Schema, Turn};
use std::borrow::Cow;

/// Hands each envelope to a function and sends nothing but the pill: the end of a network. The schema-less output
/// leads to the termination box. The function of one instance is usually given when the request is submitted.
pub fn sink<F>(type_name: impl Into<Cow<'static, str>>, input: &Schema, f: F) -> BoxModel
where
    F: FnMut(Envelope) -> Result<(), BoxError> + Clone + Send + Sync + 'static,
{
    BoxModel::new(type_name, move || sink_operator(f.clone())).input(input).output(&Schema::none())
}

/// The operator of [`sink`], to be given to one request alone.
pub fn sink_operator<F>(mut f: F) -> impl Operator
where
    F: FnMut(Envelope) -> Result<(), BoxError> + Send,
{
    move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
        match turn.take(0) {
            Some(pill) if pill.is_pill() => turn.send_pill(0),
            Some(envelope) => f(envelope)?,
            None => {}
        }
        Ok(())
    }
}
