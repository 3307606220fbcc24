//! The traits of a language module.

use crate::error::TextError;
use crate::node::PlanNode;
use crate::options::{PlanOptions, TextLimits};
use crate::stop::{Ends, Watch};
use std::sync::Arc;
use vicus_flow::{BoxId, Model, ModelCrossing, ModelLinks, Operator};

/// A language over one catalogue: texts become plans. A value has the catalogue, and anything else reading takes. Doors
/// find it through their list of languages, whose entries make such a value for each call.
///
/// Reading a text is bounded by its length and its depth, planning by its steps and its bytes: neither has a clock. A
/// module has no thread and no file either; the things named by its catalogue are a trait, implemented by a door.
///
/// `doors/service/tests/service/languages.rs` has a whole module in one file.
pub trait Compiler {
    /// A text with correct syntax.
    type Parsed;
    /// A text ready to run.
    type Plan: Runnable;
    /// Why there is none.
    type Error: Into<TextError>;

    /// Its name, as people write it: `SPARQL`.
    fn name(&self) -> &'static str;

    /// An upper estimate of the bytes for reading a text, with its parsed form. Asked before it is read.
    fn parsing_bytes(&self, text: &str) -> u64;

    /// Reads a text, in time in proportion to its length.
    ///
    /// # Errors
    /// The text breaks the grammar, or the limits.
    fn parse(&self, text: &str, limits: &TextLimits) -> Result<Self::Parsed, Self::Error>;

    /// Like [`Compiler::parse`], for a module with a possibly slow parser: it asks the function every few milliseconds,
    /// and ends with any error when the function says so. By default it does not ask.
    ///
    /// # Errors
    /// Those of [`Compiler::parse`]; or it was ended.
    fn parse_until(&self, text: &str, limits: &TextLimits, _ends: &Ends) -> Result<Self::Parsed, Self::Error> {
        self.parse(text, limits)
    }

    /// Plans a parsed text, in time and memory by the size of the text, not of the data. A [`Stop`](crate::Stop) counts
    /// both.
    ///
    /// # Errors
    /// The text names something the catalogue lacks, takes too much, or `watch` ended the planning.
    fn plan(&self, parsed: &Self::Parsed, options: &PlanOptions, watch: &dyn Watch) -> Result<Self::Plan, Self::Error>;
}

/// The operators of one run, each for its box.
pub type RunOperators = Vec<(BoxId, Box<dyn Operator>)>;

/// A door's questions to a planned text, in any language.
pub trait Planned: Send + Sync + 'static {
    /// The kind of its answer.
    fn answer(&self) -> &Answer;

    /// The network that answers it.
    fn model(&self) -> &Arc<Model>;

    /// The boxes that receive rows. Each of them needs an operator of the door's for each run.
    fn sinks(&self) -> &[BoxId];

    /// Its operators, in pre-order.
    fn nodes(&self) -> Vec<PlanNode>;

    /// Whether it is expected to make few rows, and has one box for each operator. A caller then runs it faster on its
    /// own thread than on several threads with wakes between them. Estimates may be wrong.
    fn is_short(&self) -> bool;

    /// Whether two runs may rightly differ in their number of rows.
    fn may_differ(&self) -> bool;

    /// About how many bytes it takes, with one run.
    fn bytes(&self) -> u64;

    /// The prefixes declared by the text, with their meanings: a writer of triples may abbreviate IRIs with them.
    fn prefixes(&self) -> &[(String, String)] {
        &[]
    }

    /// Whether it stays right as long as its catalogue is unchanged, so a door may keep it for a repetition of the
    /// text. It does not if planning has computed a part of the answer with a possibly different result the next time.
    fn can_be_kept(&self) -> bool {
        true
    }

    /// The machine of each box of the model, if several machines have some of them: then a run is one of parts
    /// ([`Runnable::begin_part`]).
    fn places(&self) -> &[usize] {
        &[]
    }

    /// Why one machine has all of it, if others were offered.
    fn alone(&self) -> Option<String> {
        None
    }

    /// For a plan of several machines, a number that two of them have alike if they have made the same plan.
    fn digest(&self) -> u64 {
        0
    }
}

/// The part of a plan that one of several machines runs, once.
pub struct PartOfPlan {
    /// Its network.
    pub model: Arc<Model>,
    /// The boxes that receive rows; only the machine that was asked has any.
    pub sinks: Vec<BoxId>,
    /// The operators of this run, but for those of the sinks.
    pub operators: RunOperators,
    /// For each box of the whole model, its box in this part.
    pub boxes: Vec<Option<BoxId>>,
    /// The crossings that leave from here, each with the box that sends.
    pub sends: Vec<(ModelCrossing, BoxId)>,
}

/// A text ready to run over the data it was planned for, any number of times, also at once.
pub trait Runnable: Planned {
    /// The needs of a run, met by its door: a moment, temporary files. Nothing is `()`.
    type Needs;
    /// The reader of one run's rows. For plain columns it is [`Values`](crate::Values).
    type Run: Send + Sync + 'static;

    /// Begins a run: its operators, but for those of the sinks, and the reader of its rows.
    fn begin(&self, needs: Self::Needs) -> (RunOperators, Self::Run);

    /// Begins a run of one machine's part, with the ways to the others. By default there are no parts.
    fn begin_part(
        &self,
        _machine: usize,
        _links: &dyn ModelLinks,
        _needs: Self::Needs,
    ) -> Option<(PartOfPlan, Self::Run)> {
        None
    }
}

/// The kind of a text's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Rows.
    Rows {
        /// The names of their columns.
        columns: Vec<String>,
    },
    /// Whether there is any row.
    Truth,
    /// Triples: columns subject, predicate and object.
    Triples,
}

impl Answer {
    /// Whether it is a graph, for the syntaxes of RDF to write.
    pub fn is_graph(&self) -> bool {
        *self == Answer::Triples
    }
}
