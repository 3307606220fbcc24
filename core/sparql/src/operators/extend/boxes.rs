//! Makes columns of an input: values of expressions, constants, copies, or unbound ones. Columns can be dropped and
//! reordered as well.

use crate::boxes::{Unfinished, slices};
use crate::evaluate::{Evaluator, FETCHED, Scratch, fetch};
use crate::expression::Expr;
use crate::passing_terms::Passing;
use crate::terms::{Booking, Terms};
use std::sync::Arc;
use vicus_flow::{BoxError, Envelope, Operator, Turn};

/// How an output column is made.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Make {
    /// A column of the input; it is shared, not copied.
    Column(usize),
    /// Equal bits in each row; 0 for unbound.
    Constant(u64),
    /// The value of this expression over the input's columns; unbound where it fails.
    Expr(Expr),
    /// A computed term, if no reader compares or keeps its ids: the terms live as long as the envelope.
    Passing(Expr),
}

pub(crate) struct Extend {
    terms: Arc<Terms>,
    makes: Arc<[Make]>,
    booking: Booking,
    scratch: Scratch,
    /// For columns whose terms pass; `None` if there are none.
    passing: Option<Pass>,
    input: Unfinished,
}

/// The evaluator and the segment of columns that pass.
struct Pass {
    terms: Arc<Terms>,
    scratch: Scratch,
}

impl Extend {
    pub(crate) fn new(terms: &Arc<Terms>, makes: &Arc<[Make]>) -> Extend {
        Extend {
            terms: Arc::clone(terms),
            makes: Arc::clone(makes),
            booking: Booking::default(),
            scratch: Scratch::default(),
            passing: makes
                .iter()
                .any(|make| matches!(make, Make::Passing(_)))
                .then(|| Pass { terms: terms.passing(), scratch: Scratch::default() }),
            input: Unfinished::default(),
        }
    }

    /// Bytes held, kept terms not counted.
    fn bytes(&self) -> u64 {
        let passing = |pass: &Pass| pass.scratch.bytes() + pass.terms.segment().map_or(0, Passing::bytes);
        self.scratch.bytes() + self.passing.as_ref().map_or(0, passing)
    }
}

/// If the terms of an envelope's rows take more bytes than this, the rows leave in several envelopes.
const MOST_COMPUTED: u64 = 1 << 20;

impl Operator for Extend {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some((envelope, first)) = self.input.take(turn) else { return Ok(()) };
        let (made, end) = self.compute(turn, &envelope, first);
        self.booking.hold(&self.terms, turn, self.bytes())?;
        turn.send(0, made);
        self.input.keep(turn, envelope, end);
        Ok(())
    }
}

impl Extend {
    /// Computes rows from `first` on, as many as fit one envelope; also returns the first row that is left.
    fn compute(&mut self, turn: &Turn<'_>, envelope: &Envelope, first: usize) -> (Envelope, usize) {
        let rows = envelope.rows();
        let columns = slices(envelope);
        let passing_terms = self.passing.as_ref().map(|pass| Arc::clone(&pass.terms));
        let segment = passing_terms.as_ref().and_then(|terms| terms.segment());
        let stopped =
            |more: u64| self.booking.poll(&self.terms, turn, more + segment.map_or(0, Passing::take_unbooked));
        let mut keeping = Evaluator::new(&self.terms).until(&stopped).with(std::mem::take(&mut self.scratch));
        let mut passing = passing_terms
            .as_ref()
            .zip(self.passing.as_mut())
            .map(|(terms, pass)| Evaluator::new(terms).until(&stopped).with(std::mem::take(&mut pass.scratch)));
        let fresh: Vec<&Make> = self.makes.iter().filter(|make| !matches!(make, Make::Column(_))).collect();
        let slots = fresh.iter().map(|make| match make {
            Make::Expr(expr) | Make::Passing(expr) => expr.slots(),
            Make::Column(_) | Make::Constant(_) => Default::default(),
        });
        let slots: Vec<_> = slots.collect();
        let mut end = first;
        let mut fresh = crate::boxes::columns_of(turn, fresh.len(), rows - first, |builder| {
            while end < rows && segment.is_none_or(|segment| segment.open_bytes() <= MOST_COMPUTED) {
                let next = end..rows.min(end + FETCHED);
                for (place, make) in fresh.iter().enumerate() {
                    let mut values = builder.u64s(place);
                    let (expr, evaluator) = match make {
                        Make::Column(_) => unreachable!("it is shared"),
                        Make::Constant(bits) => {
                            values.repeat(*bits, next.len());
                            continue;
                        }
                        Make::Expr(expr) => (expr, &mut keeping),
                        Make::Passing(expr) => (expr, passing.as_mut().expect("one of its columns passes")),
                    };
                    slots[place].iter().for_each(|slot| fetch(&self.terms, &columns[slot.0][next.clone()]));
                    let is_kept = matches!(make, Make::Expr(_));
                    values.extend(next.clone().map(|row| match stopped(0) {
                        true => 0,
                        false => {
                            let id = evaluator.id(expr, &|column| columns[column][row]);
                            // The value may come from another column that passes.
                            if is_kept { self.terms.kept(id).bits() } else { id.bits() }
                        }
                    }));
                }
                end = next.end;
            }
        })
        .into_iter();
        self.scratch = keeping.into_scratch();
        let computed = passing.map(Evaluator::into_scratch);
        let mut attached = envelope.attached().to_vec();
        if let (Some(pass), Some(scratch)) = (&mut self.passing, computed) {
            pass.scratch = scratch;
            attached.extend(segment.and_then(Passing::seal));
        }
        let is_whole = end - first == rows;
        let shared = || self.makes.iter().filter(|make| matches!(make, Make::Column(_)));
        let mut copies =
            crate::boxes::columns_of(turn, if is_whole { 0 } else { shared().count() }, end - first, |builder| {
                let all = shared().filter(|_| !is_whole);
                for (place, make) in all.enumerate() {
                    let Make::Column(column) = make else { unreachable!("only these are shared") };
                    builder.u64s(place).extend_from_slice(&columns[*column][first..end]);
                }
            })
            .into_iter();
        let made = self.makes.iter().map(|make| match make {
            Make::Column(column) if is_whole => envelope.column(*column).clone(),
            Make::Column(_) => copies.next().expect("one for each that is shared"),
            _ => fresh.next().expect("one for each that is not shared"),
        });
        (crate::boxes::attach(Envelope::of_rows(made.collect(), end - first), &attached), end)
    }
}
