//! Languages of queries. A door names a [`QueryLanguage`] and asks it by this trait alone; a plan of any language runs
//! in the same way.
//!
//! [`LANGUAGES`] lists them all: a further one is a file beside `sparql.rs` and `sql.rs`, its line in the list, and,
//! if it has options of its own, a field of [`LanguageOptions`].

mod network;
mod sparql;
mod sql;

pub use network::NetworkOptions;
pub use sparql::{MOST_DEPTH, SparqlOptions, is_prefix};
pub(crate) use sparql::{parse_options, sparql};
pub use sql::SqlOptions;

use crate::budget::MemoryBudget;
use crate::error::Error;
use crate::session::{Allowance, Call, Prepared, SessionOptions};
use crate::sink::CellReader;
use crate::web::Web;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vicus::kit::ModelLinks;
use vicus_language::{
    Answer, Completion, Ends, PartOfPlan, Planned, Remark, RunOperators, Runnable, TextError, TextErrorKind, Watch,
};
use vicus_rdf::Snapshot;
use vicus_sparql::{Moment, QuerySpill, RunOptions};

/// All languages, in the order that doors list them in. A session without a choice has the first.
///
/// ```
/// let names: Vec<&str> = vicus_service::LANGUAGES.iter().map(|language| language.name()).collect();
/// assert_eq!(names, ["sparql", "sql", "network"]);
/// ```
pub static LANGUAGES: [&dyn QueryLanguage; 3] = [SPARQL, &sql::SqlTexts, &network::NetworkTexts];

/// The language of updates, and of the W3C's protocols.
pub const SPARQL: &dyn QueryLanguage = &sparql::SparqlTexts;

/// The language of this name, in small letters.
pub fn language(name: &str) -> Option<&'static dyn QueryLanguage> {
    LANGUAGES.into_iter().find(|language| language.name() == name)
}

/// An entry of the list of languages: its name, its media types, its rights. For each call it makes the language's
/// [`Compiler`](vicus_language::Compiler) over the data of that call.
pub trait QueryLanguage: fmt::Debug + Sync {
    /// Its name in options, paths and requests: `sparql`.
    fn name(&self) -> &'static str;

    /// Its number in `vicus.h`.
    fn number(&self) -> u32;

    /// Its texts, in a few words for a list of languages.
    fn about(&self) -> &'static str;

    /// The media types of its texts.
    fn media_types(&self) -> &'static [&'static str];

    /// Whether each text asks the session's dataset. A text of another language may do without.
    fn needs_data(&self) -> bool;

    /// Whether its texts read files beside the dataset: the same text over the same dataset may have another answer
    /// later.
    fn reads_files(&self) -> bool;

    /// Whether other processes with the same data may share a text's work: it is sent to them, and they plan it.
    fn is_shared(&self) -> bool {
        false
    }

    /// Whether updates are texts of it, too.
    fn has_updates(&self) -> bool {
        false
    }

    /// Whether a text may change something: then only those who may write ask it.
    fn may_write(&self, _options: &LanguageOptions) -> bool {
        false
    }

    /// Reads a text: its syntax, within the limits.
    ///
    /// # Errors
    /// The text breaks the grammar or a limit, or reading it ended early.
    fn read(&self, text: &str, reading: &TextReading<'_>) -> Result<CheckedText, Error>;

    /// The form of the answer to a text that this language has read.
    fn question(&self, checked: &CheckedText) -> Question;

    /// Plans a text that [`QueryLanguage::read`] of this language has read. Panics for another language's.
    ///
    /// # Errors
    /// As [`Call::prepare`], apart from errors of syntax.
    fn plan(&self, call: &Call, checked: &CheckedText) -> Result<Arc<Prepared>, Error>;

    /// Texts that may stand at byte `cursor` of a text that is being written. By default none.
    fn complete(
        &self,
        _text: &str,
        cursor: usize,
        _data: &Snapshot,
        _options: &LanguageOptions,
        _watch: &dyn Watch,
    ) -> Completion {
        Completion { range: cursor..cursor, suggestions: Vec::new() }
    }

    /// Remarks on a text that this language has read, over the call's data. Panics for another language's. By default
    /// none.
    ///
    /// # Errors
    /// The data is damaged.
    fn remarks(&self, _call: &Call, _checked: &CheckedText) -> Result<Vec<Remark>, Error> {
        Ok(Vec::new())
    }

    /// The option of a session that sets the bound in an error of a text.
    fn option_of(&self, error: &TextError) -> Option<TextOption> {
        match error.kind {
            TextErrorKind::TooLong => Some(TextOption::Bytes),
            TextErrorKind::TooDeep => Some(TextOption::Depth),
            TextErrorKind::TooManySteps => Some(TextOption::PlanSteps),
            _ => None,
        }
    }
}

/// An option of a session that texts are held to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextOption {
    /// [`SessionOptions::text`]: its bytes.
    Bytes,
    /// [`SessionOptions::text`]: its depth.
    Depth,
    /// [`SessionOptions::plan`]: its steps.
    PlanSteps,
    /// [`SessionOptions::base`].
    Base,
    /// [`SparqlOptions::longer`].
    Longer,
    /// [`SparqlOptions::path_signs`].
    PathSigns,
}

/// The option of a session that sets the bound in an error of a text of any language.
pub fn option_of(error: &TextError) -> Option<TextOption> {
    LANGUAGES.into_iter().find_map(|language| language.option_of(error))
}

/// The options of each language, beside those of all.
#[derive(Clone, Debug, Default)]
pub struct LanguageOptions {
    /// SPARQL's, for queries and updates.
    pub sparql: SparqlOptions,
    /// SQL's.
    pub sql: SqlOptions,
    /// Networks'.
    pub network: NetworkOptions,
}

/// Reads a text in the options' language, within their limits; for doors that check before there is data.
///
/// # Errors
/// As [`Call::prepare`], but for those of planning.
pub fn check(text: &str, memory: &Arc<MemoryBudget>, options: &SessionOptions) -> Result<CheckedText, Error> {
    let allowance = Allowance::begin(memory, &options.limits)?;
    options.language.read(text, &TextReading { allowance: &allowance, options })
}

/// The call that a text is read for, and its options.
#[derive(Clone, Copy)]
pub struct TextReading<'a> {
    pub(crate) allowance: &'a Allowance,
    pub(crate) options: &'a SessionOptions,
}

impl TextReading<'_> {
    /// The session's options.
    pub fn options(&self) -> &SessionOptions {
        self.options
    }

    /// For a parser that may be slow: whether it is to end.
    pub fn ends(&self) -> Ends {
        self.allowance.ends()
    }

    /// Reads a text by a parser that holds `bytes` for it at most.
    ///
    /// # Errors
    /// Those of the parser, or the call has no room or time for it.
    pub fn read<P: Any + Send + Sync>(
        &self,
        language: &'static dyn QueryLanguage,
        text: &str,
        bytes: u64,
        parse: impl FnOnce() -> Result<P, TextError>,
    ) -> Result<CheckedText, Error> {
        let began = Instant::now();
        let parsed = Box::new(self.allowance.parse(bytes, parse)?);
        let text = (language.is_shared() && self.options.peers.is_some()).then(|| text.into());
        Ok(CheckedText { language, parsed, text_bytes: bytes, parsing: began.elapsed(), text })
    }
}

impl fmt::Debug for TextReading<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextReading").field("options", self.options).finish_non_exhaustive()
    }
}

/// The form of a text's answer, as its reader knows it before there is a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// The word that the text asks with, in small letters: `select`.
    pub word: &'static str,
    /// The kind of its answer. Rows have no columns here if the plan names them.
    pub answer: Answer,
}

/// A text with valid syntax. [`Call::plan`] makes it ready to run, any number of times.
pub struct CheckedText {
    language: &'static dyn QueryLanguage,
    /// Its parsed form, of a type that its language knows.
    parsed: Box<dyn Any + Send + Sync>,
    text_bytes: u64,
    parsing: Duration,
    /// The text itself, if other processes may be sent it.
    text: Option<Arc<str>>,
}

impl CheckedText {
    /// The text itself, if it was kept.
    pub(crate) fn text(&self) -> Option<&Arc<str>> {
        self.text.as_ref()
    }

    /// Its language.
    pub fn language(&self) -> &'static dyn QueryLanguage {
        self.language
    }

    /// The form of its answer.
    pub fn question(&self) -> Question {
        self.language.question(self)
    }

    /// How long reading it took.
    pub fn parsing(&self) -> Duration {
        self.parsing
    }

    /// The bytes that a call holds for it.
    pub fn bytes(&self) -> u64 {
        self.text_bytes
    }

    /// The text as its language has parsed it. Panics for a type of another language.
    pub(crate) fn parsed<P: 'static>(&self) -> &P {
        self.parsed.downcast_ref().expect("a text is planned by its own language")
    }
}

impl fmt::Debug for CheckedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedText").field("language", &self.language).finish_non_exhaustive()
    }
}

/// A call's contribution to a run of its plan; a [`Runnable`]'s needs are made of it.
///
/// A language's plans need no line here if their runs need nothing else of a door, and their rows are values of plain
/// columns, or terms of a run of SPARQL.
#[derive(Debug)]
pub struct Surroundings {
    /// The time, and the seed of random numbers.
    pub moment: Moment,
    /// The web, for queries to other endpoints.
    pub web: Arc<Web>,
    /// The place for rows that its boxes have no memory for.
    pub spill: Option<QuerySpill>,
}

impl From<&Surroundings> for () {
    fn from(_: &Surroundings) {}
}

impl From<&Surroundings> for RunOptions {
    fn from(surroundings: &Surroundings) -> RunOptions {
        let Surroundings { moment, web, spill } = surroundings;
        RunOptions { moment: *moment, endpoints: Some(Arc::clone(web) as _), spill: spill.clone() }
    }
}

/// A plan of some language.
pub(crate) trait AnyPlan: Planned {
    /// The operators of one run, without the sinks' ones, and the reader of its rows.
    fn begin_any(&self, surroundings: &Surroundings) -> (RunOperators, CellReader);

    /// One machine's part of a run, and the reader of its rows.
    fn begin_part_any(
        &self,
        machine: usize,
        links: &dyn ModelLinks,
        surroundings: &Surroundings,
    ) -> Option<(PartOfPlan, CellReader)>;
}

impl<P> AnyPlan for P
where
    P: Runnable<Needs: for<'a> From<&'a Surroundings>, Run: Into<CellReader>>,
{
    fn begin_any(&self, surroundings: &Surroundings) -> (RunOperators, CellReader) {
        let (operators, run) = self.begin(surroundings.into());
        (operators, run.into())
    }

    fn begin_part_any(
        &self,
        machine: usize,
        links: &dyn ModelLinks,
        surroundings: &Surroundings,
    ) -> Option<(PartOfPlan, CellReader)> {
        let (part, run) = self.begin_part(machine, links, surroundings.into())?;
        Some((part, run.into()))
    }
}
