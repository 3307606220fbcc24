//! Pipeline: computing boxes, one behind the other.
//!
//! Bednárek, Dokulil, Yaghob, "The Bobox Project: Parallelization Framework and Server for Data Processing", technical
//! report 2011/1, §6.3 and Table 3: "First box produces a stream of data, then there are ten boxes that perform
//! computation intensive operation on those data. The 12th box only receives the data and does no more processing."
//! There are 256 envelopes of 4096 rows.
//!
//! It is a network and not a [`Kernel`](crate::Kernel), because boxes have no loops to submit tasks from: threads run
//! its model as a request, and a simulator re-enacts it.

use std::hint::black_box;
use std::sync::Arc;
use vicus_flow::{BoxModel, Column, Envelope, Model, ModelBuilder, Schema, Turn, Type, library};

/// A source, computing boxes, and a sink. By default, the report's.
///
/// ```
/// use vicus_kernels::Pipeline;
/// let model = Pipeline { envelopes: 3, ..Pipeline::default() }.computing(1);
/// // The initialization and the termination come on top.
/// assert_eq!(model.boxes().len(), 14);
/// let totals = vicus_flow::sequential::run(&model, Vec::new(), |_| 0).unwrap();
/// assert!(totals.acts >= 3 * 12);
/// ```
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// How many boxes compute.
    pub boxes: usize,
    /// How many envelopes pass through; at least one.
    pub envelopes: usize,
    /// The rows of an envelope.
    pub rows: usize,
}

impl Default for Pipeline {
    fn default() -> Pipeline {
        Pipeline { boxes: 10, envelopes: 256, rows: 4096 }
    }
}

impl Pipeline {
    /// The name of the computing boxes.
    pub const COMPUTE: &str = "compute";

    /// The schema of envelopes with `columns` columns of numbers.
    pub fn schema(columns: usize) -> Schema {
        Schema::new((0..columns).map(|column| (format!("c{column}"), Type::U64)))
    }

    /// Boxes that compute for `rounds` rounds on each row of one column.
    pub fn computing(&self, rounds: u64) -> Arc<Model> {
        let schema = Pipeline::schema(1);
        let envelope = Envelope::new([Column::from((0..self.rows as u64).collect::<Vec<_>>())]);
        self.of(&envelope, || {
            library::map(Pipeline::COMPUTE, &schema, &schema, move |mut envelope| {
                compute(envelope.u64s_mut(0), rounds);
                Some(envelope)
            })
        })
    }

    /// Boxes of any kind, with one input and one output, behind a source of the same envelope again and again.
    pub fn of(&self, envelope: &Envelope, boxes: impl Fn() -> BoxModel) -> Arc<Model> {
        let schema = Pipeline::schema(envelope.columns().len());
        let mut net = ModelBuilder::new("pipeline");
        let (envelopes, envelope) = (self.envelopes, envelope.clone());
        assert!(envelopes > 0, "a pipeline has an envelope at least");
        let source = BoxModel::new("source", move || {
            let (mut left, envelope) = (envelopes, envelope.clone());
            move |turn: &mut Turn<'_>| {
                turn.take(0);
                turn.send(0, envelope.clone());
                left -= 1;
                if left > 0 {
                    turn.run_again()
                } else {
                    turn.send_pill(0)
                }
                Ok(())
            }
        });
        let mut last = net.source(source.output(&schema));
        for _ in 0..self.boxes {
            let next = net.add(boxes());
            net.connect(last.output(0), next.input(0));
            last = next;
        }
        let sink = net.add(library::sink("sink", &schema, |envelope| {
            black_box(envelope.rows());
            Ok(())
        }));
        net.connect(last.output(0), sink.input(0));
        net.end(sink.output(0));
        net.build().expect("boxes of one schema in a row are a network")
    }
}

/// Computes on each value for this many rounds.
pub fn compute(values: &mut [u64], rounds: u64) {
    for value in values {
        let mut x = *value | 1;
        for _ in 0..rounds {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        *value = x;
    }
}
