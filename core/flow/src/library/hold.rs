//! A stream held back until its end.

use crate::{BoxError, BoxModel, Envelope, Grow, Operator, Schema, Turn};
use std::collections::VecDeque;

/// Holds a whole stream back until its pill has come, then passes it on: the cure where one branch of a network waits
/// for the end of another (Bobox report §3.5). It keeps all its envelopes in memory, by reference.
pub fn hold(schema: &Schema) -> BoxModel {
    BoxModel::new("hold", Hold::default).input(schema).output(schema)
}

#[derive(Default)]
struct Hold {
    held: VecDeque<Envelope>,
    /// Of memory that these envelopes keep.
    bytes: u64,
    complete: bool,
}

impl Operator for Hold {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        match turn.take(0) {
            Some(envelope) if envelope.is_pill() => self.complete = true,
            Some(envelope) => {
                let envelope = envelope.compact();
                self.bytes += envelope.held_bytes();
                turn.holds(self.bytes)?;
                self.held.grow(1)?;
                self.held.push_back(envelope);
            }
            None => {}
        }
        if self.complete {
            match self.held.pop_front() {
                Some(envelope) => {
                    self.bytes -= envelope.held_bytes();
                    turn.holds(self.bytes)?;
                    turn.send(0, envelope);
                    turn.run_again();
                }
                None => turn.send_pill(0),
            }
        }
        Ok(())
    }
}
