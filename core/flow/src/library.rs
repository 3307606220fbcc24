//! Boxes that many networks need.

use crate::{BoxError, BoxModel, Envelope, Operator, Schema, Turn};
use std::collections::VecDeque;

/// Holds a whole stream back until its pill has come, then passes it on: the cure where one branch of a network waits
/// for the end of another (Bobox report §3.5). It keeps all its envelopes in memory, by reference.
pub fn hold(schema: &Schema) -> BoxModel {
    BoxModel::new("hold", Hold::default).input(schema).output(schema)
}

#[derive(Default)]
struct Hold {
    held: VecDeque<Envelope>,
    complete: bool,
}

impl Operator for Hold {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        match turn.take(0) {
            Some(envelope) if envelope.is_pill() => self.complete = true,
            Some(envelope) => self.held.push_back(envelope),
            None => {}
        }
        if self.complete {
            match self.held.pop_front() {
                Some(envelope) => {
                    turn.send(0, envelope);
                    turn.run_again();
                }
                None => turn.send_pill(0),
            }
        }
        Ok(())
    }
}

/// Applies a function to each envelope and passes on what it makes of it; `None` drops the envelope.
pub fn map<F>(type_name: &str, input: &Schema, output: &Schema, f: F) -> BoxModel
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

/// Hands each envelope to a function and sends nothing but the pill: the end of a network. The schema-less output
/// leads to the termination box. The function of one instance is usually given when the request is submitted.
pub fn sink<F>(type_name: &str, input: &Schema, f: F) -> BoxModel
where
    F: FnMut(Envelope) -> Result<(), BoxError> + Clone + Send + Sync + 'static,
{
    let nothing: [(&str, crate::Type); 0] = [];
    BoxModel::new(type_name, move || sink_operator(f.clone())).input(input).output(&Schema::new(nothing))
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
