//! A stream held back until its end.

use super::spill::Spilled;
use crate::{BoxError, BoxModel, Envelope, Grow, HeldBytes, Operator, Schema, Turn};
use std::collections::VecDeque;

/// Holds a whole stream back until its pill has come, then passes it on: the cure if one branch of a network waits for
/// the end of another (Bobox report §3.5). It keeps all its envelopes in memory, by reference; those for which the
/// request's budget has no room go to [files](crate::Overflows), if the request may use any.
///
/// ```
/// use vicus_flow::library::{self, Grouping, HashKey};
/// use vicus_flow::{BoxError, BoxModel, Envelope, ModelBuilder, Schema, Turn, Type, sequential};
///
/// // Each number as a part of the total: the sum is needed first, and the numbers are read once.
/// let schema = Schema::new([("n", Type::U64)]);
/// let total = Grouping::by(&schema, []).sum("total", 0);
/// let mut net = ModelBuilder::new("parts of a whole");
/// let parts = || (1..=1000u64).map(|n| Envelope::new([vec![n; 10].into()]));
/// let numbers = net.source(library::source("numbers", &schema, parts));
/// let sum = net.add(library::group(&total, HashKey::default(), 1));
/// let hold = net.add(library::hold(&schema)); // without it, its via would hold the stream, by overdrafts
/// let divide = || {
///     let mut total = None;
///     move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
///         match turn.take(0) {
///             Some(envelope) if !envelope.is_pill() => total = Some(envelope.column(0).u64s()[0]),
///             _ => {}
///         }
///         let Some(total) = total else { return Ok(()) };
///         match turn.take(1) {
///             Some(pill) if pill.is_pill() => turn.send_pill(0),
///             Some(envelope) => {
///                 let parts: Vec<f64> = envelope.column(0).u64s().iter().map(|&n| n as f64 / total as f64).collect();
///                 turn.send(0, Envelope::new([parts.into()]));
///             }
///             None => {}
///         }
///         Ok(())
///     }
/// };
/// let made = Schema::new([("part", Type::F64)]);
/// let divide = net.add(BoxModel::new("divide", divide).input(&total.schema()).input(&schema).output(&made));
/// net.connect(numbers.output(0), sum.input(0));
/// net.connect(sum.output(0), divide.input(0));
/// net.connect(numbers.output(0), hold.input(0));
/// net.connect(hold.output(0), divide.input(1));
/// net.end(divide.output(0));
/// sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
/// ```
pub fn hold(schema: &Schema) -> BoxModel {
    BoxModel::new("hold", Hold::default).input(schema).output(schema).takes_all_of(0)
}

#[derive(Default)]
struct Hold {
    held: VecDeque<Envelope>,
    /// Bytes of memory kept by these envelopes, and the stores among them.
    bytes: u64,
    held_bytes: HeldBytes,
    /// The newest ones, if the budget has no room for them.
    outside: Option<Spilled>,
    complete: bool,
}

impl Hold {
    fn keep(&mut self, envelope: Envelope, turn: &Turn<'_>) -> Result<(), BoxError> {
        if let Some(outside) = &mut self.outside {
            return outside.push(turn, envelope);
        }
        let envelope = envelope.compact();
        let more = self.held_bytes.add(&envelope);
        match turn.book(self.bytes + more) {
            Ok(()) => {
                self.bytes += more;
                self.held.grow(1)?;
                self.held.push_back(envelope);
                Ok(())
            }
            Err(refused) if !Spilled::is_possible(turn) => Err(refused.into()),
            Err(_) => {
                turn.book(self.bytes)?;
                self.outside.insert(Spilled::begin(turn)?).push(turn, envelope)
            }
        }
    }
}

impl Operator for Hold {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        match turn.take(0) {
            Some(envelope) if envelope.is_pill() => self.complete = true,
            // What it told is no news at the end.
            Some(envelope) if envelope.mark().is_some() => {}
            Some(envelope) => self.keep(envelope, turn)?,
            None => {}
        }
        if self.complete {
            let next = match (self.held.pop_front(), &mut self.outside) {
                (Some(envelope), _) => {
                    self.bytes -= envelope.held_bytes();
                    turn.book(self.bytes)?;
                    Some(envelope)
                }
                (None, Some(outside)) => outside.pop()?,
                (None, None) => None,
            };
            match next {
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
