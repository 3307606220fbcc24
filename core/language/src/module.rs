//! What a language module implements.

use crate::error::TextError;
use crate::node::PlanNode;
use crate::options::{PlanOptions, TextLimits};
use crate::stop::{Ends, Watch};
use std::sync::Arc;
use vicus_flow::{BoxId, Model, Operator};

/// A language: a value that has the catalogue that texts are planned over, and what else reading them takes.
///
/// Reading a text is bounded by its length and its depth, planning by its steps and its bytes: neither has a clock. A module has no
/// thread and no file either; what its catalogue names is a trait that a door implements.
///
/// `doors/service/tests/service/languages.rs` has a whole module in one file.
pub trait Language {
    /// A text whose syntax is right.
    type Parsed;
    /// A text that is ready to run.
    type Plan: Runnable;
    /// Why there is none.
    type Error: Into<TextError>;

    /// Its name, as people write it: `SPARQL`.
    fn name(&self) -> &'static str;

    /// An upper estimate of the bytes that reading a text takes, with what was read. Asked before it is read.
    fn parsing_bytes(&self, text: &str) -> u64;

    /// Reads a text, in time in proportion to its length.
    ///
    /// # Errors
    /// It breaks the grammar, or the limits.
    fn parse(&self, text: &str, limits: &TextLimits) -> Result<Self::Parsed, Self::Error>;

    /// As [`Language::parse`], for a module whose parser may take long: it asks the function every few milliseconds,
    /// and ends with any error when that says so. By default it does not ask.
    ///
    /// # Errors
    /// As [`Language::parse`]; or it was ended.
    fn parse_until(&self, text: &str, limits: &TextLimits, _ends: &Ends) -> Result<Self::Parsed, Self::Error> {
        self.parse(text, limits)
    }

    /// Plans what was read, in time and memory by the size of the text, not of the data. A [`Stop`](crate::Stop) counts both.
    ///
    /// # Errors
    /// It names what the catalogue lacks, takes too much, or `watch` ended it.
    fn plan(&self, parsed: &Self::Parsed, options: &PlanOptions, watch: &dyn Watch) -> Result<Self::Plan, Self::Error>;
}

/// The operators of one run, each for its box.
pub type RunOperators = Vec<(BoxId, Box<dyn Operator>)>;

/// What doors ask a planned text, whatever its language.
pub trait Planned: Send + Sync + 'static {
    /// What kind of answer it has.
    fn answer(&self) -> &Answer;

    /// The network that answers it.
    fn model(&self) -> &Arc<Model>;

    /// The boxes that receive rows. Each of them needs an operator of the door's for each run.
    fn sinks(&self) -> &[BoxId];

    /// Its operators, in pre-order.
    fn nodes(&self) -> Vec<PlanNode>;

    /// Whether it is expected to make few rows, and has one box for each operator. A caller then runs it faster on its own thread than
    /// on several threads that wake each other. Estimates may be wrong.
    fn is_short(&self) -> bool;

    /// Whether two runs may rightly differ in their number of rows.
    fn may_differ(&self) -> bool;

    /// About how many bytes it takes, with one run.
    fn bytes(&self) -> u64;

    /// The prefixes that the text declares, and what they stand for: a writer of triples may abbreviate IRIs with them.
    fn prefixes(&self) -> &[(String, String)] {
        &[]
    }

    /// Whether it stays right for as long as its catalogue is what it was, so that a door may keep it for texts that come again. It does
    /// not if planning has computed a part of the answer that may come out otherwise the next time.
    fn can_be_kept(&self) -> bool {
        true
    }
}

/// A text that is ready to run over what it was planned for, any number of times, also at once.
pub trait Runnable: Planned {
    /// What a run needs that its door gives: a moment, temporary files. Nothing is `()`.
    type Needs;
    /// By which the rows of one run are read. Those of plain columns are [`Values`](crate::Values).
    type Run: Send + Sync + 'static;

    /// Begins a run: its operators, but for those of the sinks, and what reads its rows.
    fn begin(&self, needs: Self::Needs) -> (RunOperators, Self::Run);
}

/// What kind of answer a text has.
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
    /// Whether it is a graph, which syntaxes of RDF can write.
    pub fn is_graph(&self) -> bool {
        *self == Answer::Triples
    }
}
