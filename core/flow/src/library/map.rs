//! A function of each envelope.

use crate::{BoxError, BoxModel, Envelope, Schema, Turn};
use std::borrow::Cow;

/// Applies a function to each envelope and passes on what it makes of it; `None` drops the envelope.
pub fn map<F>(type_name: impl Into<Cow<'static, str>>, input: &Schema, output: &Schema, f: F) -> BoxModel
where
    F: Fn(Envelope) -> Option<Envelope> + Clone + Send + Sync + 'static,
{
    let factory = move || {
        let f = f.clone();
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            match turn.take(0) {
                Some(pill) if pill.is_pill() => turn.send_pill(0),
                Some(envelope) => f(envelope).into_iter().for_each(|made| turn.send(0, made)),
                None => {}
            }
            Ok(())
        }
    };
    BoxModel::new(type_name, factory).input(input).output(output)
}
