//! Adds columns: values of expressions, constants, copies, or nothing; and drops and reorders columns on the way.

use super::slices;
use crate::evaluate::{Evaluator, Scratch};
use crate::expression::Expr;
use crate::terms::{Made, Terms};
use std::sync::Arc;
use vicus_flow::{BoxError, Envelope, Operator, Turn};

/// What an output column is.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Make {
    /// A column of the input; it is shared, not copied.
    Column(usize),
    /// The same bits in each row; 0 for unbound.
    Constant(u64),
    /// Over the input's columns; unbound where it is an error.
    Expr(Expr),
}

pub(crate) struct Extend {
    terms: Arc<Terms>,
    makes: Arc<[Make]>,
    made: Made,
    scratch: Scratch,
}

impl Extend {
    pub(crate) fn new(terms: &Arc<Terms>, makes: &Arc<[Make]>) -> Extend {
        Extend {
            terms: Arc::clone(terms),
            makes: Arc::clone(makes),
            made: Made::default(),
            scratch: Scratch::default(),
        }
    }
}

impl Operator for Extend {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        if envelope.is_pill() {
            turn.send_pill(0);
            return Ok(());
        }
        let rows = envelope.rows();
        let columns = slices(&envelope);
        let stopped = |more| self.made.gives_up(&self.terms, turn, more);
        let mut evaluator = Evaluator::new(&self.terms).until(&stopped).with(std::mem::take(&mut self.scratch));
        let fresh = || self.makes.iter().filter(|make| !matches!(make, Make::Column(_)));
        let mut fresh = super::columns_of(turn, fresh().count(), rows, |builder| {
            for (place, make) in fresh().enumerate() {
                let mut values = builder.u64s(place);
                match make {
                    Make::Column(_) => unreachable!("it is shared"),
                    Make::Constant(bits) => values.repeat(*bits, rows),
                    Make::Expr(expr) => values.extend((0..rows).map(|row| match stopped(0) {
                        true => 0,
                        false => evaluator.id(expr, &|column| columns[column][row]).bits(),
                    })),
                }
            }
        })
        .into_iter();
        self.scratch = evaluator.into_scratch();
        let made = self.makes.iter().map(|make| match make {
            Make::Column(column) => envelope.column(*column).clone(),
            _ => fresh.next().expect("one for each that is not shared"),
        });
        let made = Envelope::of_rows(made.collect(), rows);
        self.made.hold(&self.terms, turn, self.scratch.bytes())?;
        turn.send(0, made);
        Ok(())
    }
}
