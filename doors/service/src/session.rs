//! A call, from its text to its last row: begun within limits, prepared, answered into a sink.
//!
//! ```text
//!  Session ── call ──▶ Call ── prepare ──▶ Prepared      within the call's time, memory and steps
//!                       │                     │
//!                       └─ start ◀────────────┘          any number of times, also at once, also by other calls
//!                            │
//!                            ▼
//!                       RunningQuery ── wait ──▶ CallOutcome
//! ```

use crate::begin::{FirstThread, MOST_LOST, MOST_UNNAMED, OverPeers, PendingCall, RunBegun, asked_without};
use crate::budget::{Admission, MemoryBudget, Share};
use crate::cancel::Cancel;
use crate::document::Document;
use crate::error::{Error, Stage};
use crate::languages::{AnyPlan, CheckedText, LanguageOptions, QueryLanguage, SPARQL, Surroundings, TextReading};
use crate::load::Dataset;
use crate::peers::{CrossingCounts, PeerFailure, Peers, Report, Shared};
use crate::service::Service;
use crate::sink::{CellReader, Count, Format, RowCount, Sink, Solutions, TextSink};
use crate::temporary::TemporaryFolder;
use crate::web::Web;
use oxrdf::NamedNode;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use vicus::kit::counts::{BoxCounts, GrownBox};
use vicus::{BoxId, FlowError, Model, Request, Totals};
use vicus_language::{
    Answer, Compiler, Ends, Machines, PlanNode, PlanOptions, Planned as _, Remark, RunCounts, Runnable, TextError,
    TextErrorKind, TextLimits, Watch,
};
use vicus_rdf::Snapshot;
use vicus_rdf::load::LONGEST_IRI;
use vicus_sparql::Moment;
use vicus_store::Ask;

/// The limits of a call.
#[derive(Clone, Debug, Default)]
pub struct CallLimits {
    /// How long it may take, from its beginning on.
    pub time: Option<Duration>,
    /// Bytes that it may hold: its text as it is parsed, its plan, and its boxes' rows. By default the total of all
    /// calls.
    pub memory: Option<u64>,
    /// How many rows its answer may have. With more it fails.
    pub rows: Option<u64>,
    /// How many boxes of its network may live at once, if it grows while it runs, as those of recursive statements do;
    /// by default 262,144.
    pub most_boxes: Option<NonZeroUsize>,
    /// Its action if there is no memory for it when it begins.
    pub admission: Admission,
    /// Its handle for cancellation.
    pub cancel: Cancel,
}

/// The options shared by the calls of a session.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The language of its queries. Updates are texts of SPARQL in any case.
    pub language: &'static dyn QueryLanguage,
    /// The options of each language.
    pub languages: LanguageOptions,
    /// The limits of a text. A language may have lower ones of its own.
    pub text: TextLimits,
    /// The base of relative IRIs until the text has a BASE of its own.
    pub base: Option<String>,
    /// Values by names: of variables of a text of SPARQL, see
    /// [`ParseOptions::given`](vicus_sparql::ParseOptions::given), and of parameters of a statement of SQL.
    pub given: Vec<(String, oxrdf::Term)>,
    /// The longest IRI that an update inserts, and of a document of LOAD, when it is written out.
    pub longest_iri: usize,
    /// The graphs read by queries and the patterns of updates, whatever their texts say.
    pub graphs: Option<ReadGraphs>,
    /// A document that LOAD finds under this IRI, such as the body of a request.
    pub document: Option<Arc<Document>>,
    /// How queries are planned. The number of threads is [`SessionOptions::threads`], and the limits on memory are the
    /// call's; how many boxes hand out solutions follows from [`SessionOptions::parallel_answers`].
    pub plan: PlanOptions,
    /// For how many threads queries are planned; by default for the service's.
    pub threads: Option<usize>,
    /// Whether several boxes may hand out the solutions of a query without an order.
    pub parallel_answers: bool,
    /// The value of NOW and the seed of RAND; by default the clock's when a call starts.
    pub moment: Option<Moment>,
    /// Whether [`CallOutcome::counts`] has each box's work and time.
    pub counts: bool,
    /// The most rows wanted of each answer: as with a LIMIT, the query stops when it has them.
    pub first_rows: Option<u64>,
    /// How SERVICE and LOAD ask the web; by default nothing may be asked.
    pub web: Arc<Web>,
    /// The folder of files for LOAD; by default none.
    pub folder: Option<PathBuf>,
    /// The folder for temporary files of calls that outgrow their memory. By default there is none, and such calls
    /// fail.
    pub temporary: Option<TemporaryFolder>,
    /// Other processes with the same data, which may share the work of queries.
    pub peers: Option<Arc<dyn Peers>>,
    /// The limits of each of its calls.
    pub limits: CallLimits,
}

impl Default for SessionOptions {
    /// SPARQL, no base, one box that hands out solutions, no counts, no limits but the service's.
    fn default() -> SessionOptions {
        SessionOptions {
            language: SPARQL,
            languages: LanguageOptions::default(),
            text: TextLimits::default(),
            base: None,
            given: Vec::new(),
            longest_iri: LONGEST_IRI,
            graphs: None,
            document: None,
            plan: PlanOptions::default(),
            threads: None,
            parallel_answers: false,
            moment: None,
            counts: false,
            first_rows: None,
            web: Arc::default(),
            folder: None,
            temporary: None,
            peers: None,
            limits: CallLimits::default(),
        }
    }
}

/// The graphs read by a query.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ReadGraphs {
    /// The default graph is the merge of these.
    pub default: Vec<NamedNode>,
    /// The named graphs.
    pub named: Vec<NamedNode>,
}

/// Calls to one dataset.
#[derive(Clone, Debug)]
pub struct Session {
    pub(crate) service: Service,
    pub(crate) dataset: Dataset,
    pub(crate) options: Arc<SessionOptions>,
}

impl Session {
    pub(crate) fn new(service: Service, dataset: Dataset, options: Arc<SessionOptions>) -> Session {
        Session { service, dataset, options }
    }

    pub(crate) fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// The session with other options.
    pub(crate) fn with(&self, options: SessionOptions) -> Session {
        Session { options: Arc::new(options), ..self.clone() }
    }

    /// The session's dataset.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// Begins a call: its time runs from now on, and it takes its first share of memory.
    ///
    /// # Errors
    /// There is no memory for it ([`Error::Busy`]); or, while it waited for it, it was cancelled or its time was up.
    pub fn call(&self) -> Result<Call, Error> {
        let allowance = Allowance::begin(self.service.memory(), &self.options.limits)?;
        Ok(Call { session: self.clone(), allowance })
    }

    /// A whole call: prepares a text and answers it into a sink.
    ///
    /// # Errors
    /// As [`Session::call`], [`Call::prepare`] and [`RunningQuery::wait`].
    pub fn answer<S: Sink>(&self, text: &str, sink: S) -> Result<(S::Output, CallOutcome), Error> {
        let mut call = self.call()?;
        let prepared = call.prepare(text)?;
        call.answer(&prepared, sink)
    }

    /// A whole call with its answer written in a format.
    ///
    /// # Errors
    /// As [`Session::answer`].
    pub fn write<W: Write + Send + 'static>(
        &self,
        text: &str,
        format: Format,
        out: W,
    ) -> Result<(W, CallOutcome), Error> {
        self.answer(text, TextSink::new(format, out))
    }

    /// A whole call with its solutions counted; an ASK has one for yes.
    ///
    /// # Errors
    /// As [`Session::answer`].
    pub fn count(&self, text: &str) -> Result<u64, Error> {
        self.answer(text, Count).map(|(_, outcome)| outcome.rows)
    }
}

/// A call's clock, its share of memory, and how it is cancelled. The parts of an update share one.
#[derive(Clone)]
pub(crate) struct Allowance {
    pub(crate) share: Arc<Share>,
    /// The most bytes of the share.
    pub(crate) most: u64,
    pub(crate) until: Option<Instant>,
    pub(crate) cancel: Cancel,
}

impl Allowance {
    /// The first share of a call: enough for a short query from text to answer.
    const FIRST_SHARE: u64 = 256 << 10;

    pub(crate) fn begin(memory: &Arc<MemoryBudget>, limits: &CallLimits) -> Result<Allowance, Error> {
        Allowance::begin_with(memory, limits, 0)
    }

    /// Begins a call with a first share of `bytes`: without room for them, the call holds nothing that others could
    /// wait for.
    pub(crate) fn begin_with(memory: &Arc<MemoryBudget>, limits: &CallLimits, bytes: u64) -> Result<Allowance, Error> {
        // A time beyond the clock's range is no limit.
        let until = limits.time.and_then(|time| Instant::now().checked_add(time));
        let total = memory.total();
        let most = limits.memory.unwrap_or(total);
        // Bytes over the call's limit are refused when they are wanted.
        let bytes = if bytes > most { 0 } else { bytes };
        let first = Self::FIRST_SHARE.min(most).min(total).max(bytes);
        let share = memory.admit(first, limits.admission, until, &limits.cancel)?;
        Ok(Allowance { share, most, until, cancel: limits.cancel.clone() })
    }

    /// Why it is to end, if it is.
    pub(crate) fn ended(&self, during: Stage) -> Option<Error> {
        ended(&self.cancel, self.until, during)
    }

    pub(crate) fn check(&self, during: Stage) -> Result<(), Error> {
        self.ended(during).map_or(Ok(()), Err)
    }

    /// A check for work in bounded steps: whether it must end.
    pub(crate) fn ask(&self) -> Ask {
        let (cancel, until) = (self.cancel.clone(), self.until);
        Arc::new(move |_| ended(&cancel, until, Stage::Running).map_or(Ok(()), |error| Err(error.into())))
    }

    /// The check that also raises the share to what an update's text and the work hold.
    pub(crate) fn ask_booking(&self, text_bytes: u64) -> Ask {
        let allowance = self.clone();
        Arc::new(move |bytes| {
            allowance.check(Stage::Running)?;
            let holders = [("its text", text_bytes), ("its changes", bytes)];
            Ok(allowance.hold(text_bytes.saturating_add(bytes), holders)?)
        })
    }

    /// A check for a parser's occasional question whether it must end.
    pub(crate) fn ends(&self) -> Ends {
        let (cancel, until) = (self.cancel.clone(), self.until);
        Arc::new(move || ended(&cancel, until, Stage::Parsing).is_some())
    }

    /// Raises the share to `bytes` all in all. `holders` names their uses.
    pub(crate) fn hold<const N: usize>(&self, bytes: u64, holders: [(&str, u64); N]) -> Result<(), Error> {
        if bytes > self.most {
            return Err(Error::over(self.most, holders.map(|(name, held)| (name.to_owned(), held)).into()));
        }
        self.share.raise_to(bytes).map(drop).ok_or_else(|| self.busy())
    }

    /// Lowers the share to `bytes`.
    pub(crate) fn lower_to(&self, bytes: u64) {
        self.share.lower_to(bytes);
    }

    /// Gives its share back, when all is over.
    pub(crate) fn give_back(&self) {
        self.share.give_back();
    }

    fn busy(&self) -> Error {
        Error::Busy(self.share.refused().expect("its share was not raised"))
    }

    /// Parses a text, with `bytes` held all in all.
    pub(crate) fn parse<P>(&self, bytes: u64, parse: impl FnOnce() -> Result<P, TextError>) -> Result<P, Error> {
        self.hold(bytes, [("its text, when it is parsed,", bytes)])?;
        let parsed = parse();
        // An ended parse says so, and a late result is late all the same.
        self.check(Stage::Parsing)?;
        parsed.map_err(Error::Query)
    }
}

/// One question to a dataset: its clock, its share of the memory, and how it is cancelled.
pub struct Call {
    pub(crate) session: Session,
    pub(crate) allowance: Allowance,
}

/// Watches the planning of a call's query: ends it with the call, and grants it memory out of the call's share.
struct PlanningWatch<'a> {
    allowance: &'a Allowance,
    text_bytes: u64,
}

impl Watch for PlanningWatch<'_> {
    fn ends(&self) -> bool {
        self.allowance.ended(Stage::Planning).is_some()
    }

    fn grant(&self, bytes: u64) -> bool {
        self.allowance.share.raise_to(self.text_bytes.saturating_add(bytes)).is_some()
    }
}

impl Call {
    /// Parses and plans a query over the session's dataset, in the session's language.
    ///
    /// # Errors
    /// The text is no query, or exceeds the call's limits.
    pub fn prepare(&mut self, text: &str) -> Result<Arc<Prepared>, Error> {
        let Call { session, allowance } = &*self;
        let language = session.options.language;
        let checked = language.read(text, &TextReading { allowance, options: &session.options })?;
        language.plan(self, &checked)
    }

    /// Plans a text that [`check`](crate::check) has read with the session's options, in the text's own language.
    ///
    /// # Errors
    /// As [`Call::prepare`], apart from errors of syntax.
    pub fn plan(&mut self, checked: &CheckedText) -> Result<Arc<Prepared>, Error> {
        let bytes = checked.bytes();
        self.allowance.hold(bytes, [("its text, when it is parsed,", bytes)])?;
        checked.language().plan(self, checked)
    }

    /// Remarks on a text that [`check`](crate::check) has read, over the session's data: likely slips, for the person
    /// who wrote it. Some are missing if the call's time is over.
    ///
    /// # Errors
    /// The data is damaged.
    pub fn remarks(&self, checked: &CheckedText) -> Result<Vec<Remark>, Error> {
        checked.language().remarks(self, checked)
    }

    /// Whether the call is to end.
    pub(crate) fn ends(&self) -> Ends {
        self.allowance.ends()
    }

    /// Parses and plans a text of a language without a line in [`LANGUAGES`](crate::LANGUAGES).
    ///
    /// # Errors
    /// As [`Call::prepare`].
    pub fn prepare_in<L>(&mut self, language: &L, text: &str) -> Result<Arc<Prepared>, Error>
    where
        L: Compiler<Plan: Runnable<Needs: for<'a> From<&'a Surroundings>, Run: Into<CellReader>>>,
    {
        self.prepare_beside(0, language, text)
    }

    /// The variant for a call that holds `bytes` for other uses meanwhile.
    pub(crate) fn prepare_beside<L>(&self, bytes: u64, language: &L, text: &str) -> Result<Arc<Prepared>, Error>
    where
        L: Compiler<Plan: AnyPlan>,
    {
        let began = Instant::now();
        let text_bytes = bytes.saturating_add(language.parsing_bytes(text));
        let ends = self.allowance.ends();
        let read = || language.parse_until(text, &self.session.options.text, &ends).map_err(Into::into);
        let parsed = self.allowance.parse(text_bytes, read)?;
        let parsing = began.elapsed();
        // Its text is not sent to others.
        let planned = self.plan_parsed(language, &parsed, text_bytes, Machines::default())?;
        Ok(Arc::new(Prepared { parsing, ..planned }))
    }

    /// Plans a text that is read, by its language over a catalogue.
    pub(crate) fn plan_in<L>(
        &self,
        language: &L,
        parsed: &L::Parsed,
        checked: &CheckedText,
    ) -> Result<Arc<Prepared>, Error>
    where
        L: Compiler<Plan: AnyPlan>,
    {
        let shared = Shared::of(&self.session, checked, self.threads());
        let machines = shared.as_ref().map_or(self.session.options.plan.machines, |shared| shared.team.machines);
        let planned = self.plan_parsed(language, parsed, checked.bytes(), machines)?;
        let planned = Prepared { parsing: checked.parsing(), ..planned };
        Ok(Arc::new(match shared {
            Some(shared) => planned.shared_by(shared),
            None => planned,
        }))
    }

    /// Whether it plans a part for another process ([`PeerHost`](crate::PeerHost)).
    pub(crate) fn is_part(&self) -> bool {
        self.session.options.plan.machines.count() > 1
    }

    /// For how many threads queries are planned.
    pub(crate) fn threads(&self) -> usize {
        let Call { session, .. } = self;
        session.options.threads.unwrap_or_else(|| session.service.runtime().plan().threads())
    }

    /// Plans a parsed text for these machines, with `text_bytes` held for it.
    pub(crate) fn plan_parsed<L>(
        &self,
        language: &L,
        parsed: &L::Parsed,
        text_bytes: u64,
        machines: Machines,
    ) -> Result<Prepared, Error>
    where
        L: Compiler<Plan: AnyPlan>,
    {
        let Call { session, allowance } = self;
        let options = &*session.options;
        let began = Instant::now();
        let threads = self.threads();
        let plan_options = PlanOptions {
            threads,
            sinks: if options.parallel_answers { threads } else { 1 },
            plan_bytes: options.plan.plan_bytes.min(allowance.most - text_bytes),
            machines,
            ..options.plan
        };
        let watch = PlanningWatch { allowance, text_bytes };
        let snapshot = session.dataset.snapshot();
        let plan = reading(snapshot, "planner", || language.plan(parsed, &plan_options, &watch))?;
        // A stopped plan says so, and a late one is late all the same.
        allowance.check(Stage::Planning)?;
        let plan = plan.map_err(|error| {
            let error: TextError = error.into();
            match error.kind {
                TextErrorKind::TooManyBytes { needed } if needed <= plan_options.plan_bytes => allowance.busy(),
                TextErrorKind::TooManyBytes { needed } => {
                    let holders = vec![("its plan".to_owned(), needed), ("its text".to_owned(), text_bytes)];
                    Error::over(allowance.most, holders)
                }
                _ => Error::Query(error),
            }
        })?;
        let planning = began.elapsed();
        let plan_bytes = plan.bytes();
        let (language, plan) = (language.name(), Box::new(plan));
        let parsing = Duration::ZERO;
        let prepared =
            Prepared { language, plan, text_bytes, plan_bytes, parsing, planning, shared: None, lacks_peers: false };
        allowance.hold(prepared.bytes(), prepared.holders())?;
        Ok(prepared)
    }

    /// Starts a prepared query on the service's threads alone, however short, and returns at once ([`Call::begin`]
    /// lends the calling thread to a short one). When its time is up, it ends, though no thread may wait for it yet:
    /// [`RunningQuery::wait`] then has the error.
    ///
    /// # Errors
    /// There is no memory for it, or no thread to end it in time.
    pub fn start<S: Sink>(self, prepared: &Arc<Prepared>, sink: S) -> Result<RunningQuery<S>, Error> {
        self.begin_on(FirstThread::Worker, prepared, sink, |_| {})
    }

    /// Answers a prepared query. A query expected to be short runs on the calling thread.
    ///
    /// # Errors
    /// As [`RunningQuery::wait`].
    pub fn answer<S: Sink>(self, prepared: &Arc<Prepared>, sink: S) -> Result<(S::Output, CallOutcome), Error> {
        self.begin(prepared, sink)?.wait()
    }

    /// Starts a prepared query; the calling thread works on a query expected to be short, until it is over or longer
    /// than expected (`Runtime::submit_here`). [`RunningQuery::is_done`] tells whether it is over. A longer query
    /// runs on the service's threads, as with [`Call::start`].
    ///
    /// # Errors
    /// As [`Call::start`].
    pub fn begin<S: Sink>(self, prepared: &Arc<Prepared>, sink: S) -> Result<RunningQuery<S>, Error> {
        self.begin_on(FirstThread::CallerIfShort, prepared, sink, |_| {})
    }

    /// The variant that names the thread and shows the solutions before anything runs.
    pub(crate) fn begin_on<S: Sink>(
        self,
        thread: FirstThread,
        prepared: &Arc<Prepared>,
        sink: S,
        before: impl FnOnce(&Arc<Solutions>),
    ) -> Result<RunningQuery<S>, Error> {
        let Call { session, allowance } = self;
        sink.accepts(prepared.form()).map_err(Error::Format)?;
        let options = &session.options;
        let handed = Arc::new(RowCount::new(options.first_rows, options.limits.rows));
        let (sink, began, mut lost) = (Arc::new(sink), Instant::now(), Vec::new());
        let asked = PendingCall { session: &session, allowance: &allowance, sink: &sink, handed: &handed };
        let (prepared, begun) = asked.begin(Arc::clone(prepared), thread, before, &mut lost)?;
        let counts = session.options.counts;
        Ok(RunningQuery { began, begun, allowance, sink, handed, counts, session, prepared, lost })
    }
}

/// Why a call with this limit is to end, if it is.
fn ended(cancel: &Cancel, until: Option<Instant>, during: Stage) -> Option<Error> {
    if cancel.is_cancelled() {
        return Some(Error::Cancelled);
    }
    until.is_some_and(|until| Instant::now() >= until).then_some(Error::TimeLimit { during })
}

/// Calls a reader of data outside of boxes: it, too, may find a page of a mapped file damaged, or bytes lost until
/// then.
pub(crate) fn reading<R>(snapshot: &Snapshot, name: &str, read: impl FnOnce() -> R) -> Result<R, Error> {
    snapshot.read_by(read).map_err(|error| Error::of_reader(name.to_owned(), error.into()))
}

/// The clock's moment. Two moments in the same millisecond have different seeds for RAND and UUID.
pub(crate) fn now() -> Moment {
    let now_ms = millis(SystemTime::now());
    Moment { now_ms, seed: RandomState::new().hash_one(now_ms) }
}

/// A time in the unit of [`Moment::now_ms`], for any value of a clock: negative before 1970, and bounded at both ends.
pub fn millis(at: SystemTime) -> i64 {
    let whole = |since: Duration| i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    match at.duration_since(UNIX_EPOCH) {
        Ok(since) => whole(since),
        Err(before) => -whole(before.duration()),
    }
}

/// A query parsed and planned for a dataset. It can be run any number of times, also at once.
pub struct Prepared {
    pub(crate) plan: Box<dyn AnyPlan>,
    /// The name of the language.
    language: &'static str,
    text_bytes: u64,
    /// Its language's count, box by box.
    plan_bytes: u64,
    parsing: Duration,
    planning: Duration,
    /// Those who share its work.
    pub(crate) shared: Option<Shared>,
    /// Others could have shared it, and were left out.
    lacks_peers: bool,
}

impl Prepared {
    /// This plan, shared by these if it has parts for them.
    fn shared_by(self, shared: Shared) -> Prepared {
        let (is_shared, lacks_peers) = (!self.plan.places().is_empty(), shared.team.lacks_some);
        Prepared { shared: is_shared.then_some(shared), lacks_peers, ..self }
    }

    pub(crate) fn plan(&self) -> &dyn AnyPlan {
        &*self.plan
    }

    /// Whether other processes have parts of it.
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Which machine has which boxes, as text, and which rows cross between them; after a run, with their counts.
    /// Without machines, why there are none, if any were offered; empty if none were.
    fn explain_machines(&self, crossed: &[CrossingCounts]) -> String {
        let mut text = String::new();
        let Some(shared) = &self.shared else {
            if let Some(why) = self.plan.alone() {
                text = format!("one machine: {why}\n");
            }
            return text;
        };
        let (places, model) = (self.plan.places(), self.plan.model());
        let inner = || 1..model.boxes().len() - 1;
        for machine in 0..shared.team.machines.count() {
            let name = machine.checked_sub(1).map_or("this one", |other| &shared.team.names[other]);
            let boxes: Vec<usize> = inner().filter(|&place| places[place] == machine).collect();
            let runs = boxes.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
                [one] => one.to_string(),
                _ => format!("{}-{}", run[0], run[run.len() - 1]),
            });
            let runs: Vec<String> = runs.collect();
            let threads = shared.team.machines.threads(machine);
            text.push_str(&format!("machine {machine} ({name}), {threads} threads: boxes {}\n", runs.join(", ")));
        }
        for crossing in model.crossings(places) {
            let sender = model.boxes()[crossing.output.sender().index()].name();
            let (from, to, output) = (crossing.from, crossing.to, crossing.output.index());
            text.push_str(&format!("crossing {} from machine {from} to {to}: {sender}.{output}", crossing.number));
            if let Some(crossed) = crossed.iter().find(|crossed| crossed.number == crossing.number) {
                let CrossingCounts { envelopes, rows, bytes, .. } = crossed;
                text.push_str(&format!(", {rows} rows, {bytes} bytes in {envelopes} envelopes"));
            }
            text.push('\n');
        }
        text
    }

    /// The form of its answer.
    pub fn form(&self) -> &Answer {
        self.plan.answer()
    }

    /// The name of its language: `SPARQL`.
    pub fn language(&self) -> &'static str {
        self.language
    }

    /// Whether it may be run again later, for as long as its data stay the same.
    pub fn can_be_kept(&self) -> bool {
        // With the peers that are left out now, it may be another one.
        self.plan.can_be_kept() && !self.lacks_peers
    }

    pub(crate) fn prefixes(&self) -> &[(String, String)] {
        self.plan.prefixes()
    }

    /// Its operators, in pre-order.
    pub fn nodes(&self) -> Vec<PlanNode> {
        self.plan.nodes()
    }

    /// The network that answers it.
    pub fn model(&self) -> &Arc<Model> {
        self.plan.model()
    }

    /// How many boxes hand out its rows.
    pub fn sinks(&self) -> usize {
        self.plan.sinks().len()
    }

    /// Whether few rows are expected, so that its caller answers it on its own thread.
    pub fn is_short(&self) -> bool {
        self.plan.is_short()
    }

    /// Whether two runs may rightly differ in their number of rows.
    pub fn may_differ(&self) -> bool {
        self.plan.may_differ()
    }

    /// Its operators, its boxes and their vias as text; after a run, with the counts of each. Panics if the counts are
    /// of another plan.
    pub fn explain(&self, counts: Option<RunCounts<'_>>) -> String {
        self.explain_with(counts, &[])
    }

    /// Like [`Prepared::explain`], for the outcome of a run with [`SessionOptions::counts`]: of the plan that was run
    /// in the end.
    pub fn explain_run(&self, outcome: &CallOutcome) -> String {
        let run = outcome.replanned.as_ref().map_or(self, |(run, _)| run);
        run.explain_with(Some(outcome.run_counts()), &outcome.crossings)
    }

    fn explain_with(&self, counts: Option<RunCounts<'_>>, crossings: &[CrossingCounts]) -> String {
        let boxes = counts.map_or_else(|| self.model().describe(), |counts| self.model().describe_with(counts.boxes));
        let machines = self.explain_machines(crossings);
        let gap = if machines.is_empty() { "" } else { "\n" };
        format!("{}\n{boxes}{gap}{machines}", PlanNode::write_all(&self.nodes(), counts))
    }

    /// How long parsing took.
    pub fn parsing(&self) -> Duration {
        self.parsing
    }

    /// How long planning took.
    pub fn planning(&self) -> Duration {
        self.planning
    }

    /// Bytes of its plan, with one run of it.
    pub fn plan_bytes(&self) -> u64 {
        self.plan_bytes
    }

    /// Bytes of its text and its plan, with one run of it.
    pub fn bytes(&self) -> u64 {
        self.text_bytes + self.plan_bytes
    }

    pub(crate) fn holders(&self) -> [(&'static str, u64); 2] {
        [("its plan", self.plan_bytes), ("its text", self.text_bytes)]
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("language", &self.language).field("form", self.form()).finish_non_exhaustive()
    }
}

/// A running query. Dropping it cancels it.
pub struct RunningQuery<S> {
    began: Instant,
    begun: RunBegun,
    allowance: Allowance,
    sink: Arc<S>,
    handed: Arc<RowCount>,
    counts: bool,
    session: Session,
    prepared: Arc<Prepared>,
    /// The processes that were lost so far, and why.
    lost: Vec<String>,
}

/// A look at a running or ended query.
#[derive(Clone)]
pub struct Watching {
    request: Arc<Request>,
    handed: Arc<RowCount>,
    /// For each box of the plan's model its box here, in a run over several processes.
    boxes: Option<Arc<[Option<BoxId>]>>,
}

impl Watching {
    /// How many rows it has handed out.
    pub fn rows(&self) -> u64 {
        self.handed.rows()
    }

    /// The counts of each box so far, in the order of the plan's model; none for those of other processes.
    pub fn counts(&self) -> Vec<BoxCounts> {
        let counts = self.request.counts();
        match &self.boxes {
            Some(boxes) => {
                let of_box =
                    |here: &Option<BoxId>| here.map_or(BoxCounts::default(), |here| counts[here.index()].clone());
                boxes.iter().map(of_box).collect()
            }
            None => counts,
        }
    }

    /// The counts of the boxes of fragments so far ([`CallOutcome::grown`]).
    pub fn grown(&self) -> Vec<GrownBox> {
        self.request.grown()
    }

    /// The boxes that hold memory now, and their bytes, the most first.
    pub fn holders(&self) -> Vec<(String, u64)> {
        self.request.holders()
    }

    /// The cost so far.
    pub fn totals(&self) -> Totals {
        self.request.totals()
    }
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watching").field("rows", &self.rows()).finish_non_exhaustive()
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct CallOutcome {
    /// How many solutions there were; an ASK has 1 for yes and 0 for no.
    pub rows: u64,
    /// How long it took from its start until the sink had all of it.
    pub time: Duration,
    /// The cost of the run.
    pub totals: Totals,
    /// The counts of each box, in the order of the plan's model, if [`SessionOptions::counts`] asks for it.
    pub counts: Vec<BoxCounts>,
    /// The counts of boxes in fragments, such as the steps of recursive queries, by their names.
    pub grown: Vec<GrownBox>,
    /// If [`SessionOptions::counts`] asks for it, the rows that crossed between processes.
    pub crossings: Vec<CrossingCounts>,
    /// The plan that was run, if processes that were to share the work were lost or left out, and why they were.
    pub replanned: Option<(Arc<Prepared>, Vec<String>)>,
}

impl CallOutcome {
    /// The counts of all boxes.
    pub fn run_counts(&self) -> RunCounts<'_> {
        RunCounts { boxes: &self.counts, grown: &self.grown }
    }
}

impl<S: Sink> RunningQuery<S> {
    /// Whether it is over, so [`RunningQuery::wait`] returns at once.
    pub fn is_done(&self) -> bool {
        self.begun.submitted.request.is_done()
    }

    /// Has a function called when it is over, by a thread of the service or at once: the function should only notify a
    /// thread, which then calls [`RunningQuery::wait`].
    pub fn when_done(&self, tell: impl FnOnce() + Send + 'static) {
        self.begun.submitted.request.when_done(tell);
    }

    /// How far it is, while it runs and after.
    pub fn watch(&self) -> Watching {
        let boxes = self.begun.over.as_ref().map(|over| Arc::clone(&over.boxes));
        Watching { request: Arc::clone(&self.begun.submitted.request), handed: Arc::clone(&self.handed), boxes }
    }

    /// Waits for the last solution. When it returns, nothing of the run is left, and its memory is given back. A run
    /// that has lost a process that shared its work is begun again without it, unless rows were handed out.
    ///
    /// # Errors
    /// Why there is no answer, or not all of it.
    pub fn wait(mut self) -> Result<(S::Output, CallOutcome), Error> {
        let totals = loop {
            match self.begun.submitted.request.wait() {
                Ok(totals) => break totals,
                Err(error) => match self.begin_again(error) {
                    Ok(()) => {}
                    Err(error) => {
                        self.allowance.give_back();
                        // A failed run may have read zeros in place of lost bytes.
                        self.begun.solutions.check_kept()?;
                        return Err(error);
                    }
                },
            }
        };
        let rows = self.handed.rows();
        let solutions = &self.begun.solutions;
        solutions.check_kept()?;
        let output = self.sink.finish(solutions, rows).map_err(|error| {
            let lost = solutions.check_kept().err();
            lost.unwrap_or_else(|| Error::of_sink(error))
        })?;
        let (mut counts, mut grown, mut crossings) = (Vec::new(), Vec::new(), Vec::new());
        if self.counts {
            let watch = self.watch();
            (counts, grown) = (watch.counts(), watch.grown());
        }
        if let Some(OverPeers { run, boxes, sends }) = &self.begun.over {
            let reports = run.end(self.counts);
            if self.counts {
                let own = Report::of(boxes, sends, &self.begun.submitted.request.counts());
                crossings = own.crossings;
                for report in reports {
                    let report = Report::read(&report);
                    report.fill(&mut counts);
                    crossings.extend(report.crossings);
                }
                crossings.sort_unstable_by_key(|crossing| crossing.number);
            }
        }
        let time = self.began.elapsed();
        let RunningQuery { begun, allowance, prepared, lost, .. } = self;
        drop(begun);
        // A thread may still have a reference to the ended request.
        allowance.give_back();
        let replanned = (!lost.is_empty()).then_some((prepared, lost));
        Ok((output, CallOutcome { rows, time, totals, counts, grown, crossings, replanned }))
    }

    /// Begins again after a failure of other processes, without those that were lost.
    ///
    /// # Errors
    /// The failure was another one, rows were handed out, or there is no answer for another reason.
    fn begin_again(&mut self, error: FlowError) -> Result<(), Error> {
        let Some(over) = &self.begun.over else { return Err(self.reason(error)) };
        // Its own end comes first: a limit, or a cancellation.
        self.allowance.check(Stage::Running)?;
        let Some(failure) = over.run.failure(&error) else { return Err(self.reason(error)) };
        if !failure.is_loss {
            return Err(failure.into());
        }
        if self.handed.rows() > 0 {
            let message = format!("{}; rows were handed out already, so the query is not asked again", failure.message);
            return Err(PeerFailure { message, ..failure }.into());
        }
        // A loss without a name may come again.
        if self.lost.len() >= MOST_LOST {
            return Err(failure.into());
        }
        self.lost.push(failure.message.clone());
        asked_without(&self.prepared, &failure, self.lost.len() > MOST_UNNAMED);
        let RunningQuery { session, allowance, sink, handed, .. } = &*self;
        let asked = PendingCall { session, allowance, sink, handed };
        let mut lost = Vec::new();
        let (prepared, begun) = asked.begin(asked.again(&self.prepared)?, FirstThread::Worker, |_| {}, &mut lost)?;
        self.lost.extend(lost);
        self.prepared = prepared;
        self.begun = begun;
        Ok(())
    }

    fn reason(&self, error: FlowError) -> Error {
        match Error::from(error) {
            // It gave up by itself, or was cancelled by its handle or by the timer.
            Error::Cancelled => self.allowance.ended(Stage::Running).unwrap_or(Error::Cancelled),
            Error::NetworkLimit(FlowError::Stalled { cycle, outside }) => match self.allowance.share.refused() {
                // Others hold the memory for the rows that wait.
                Some(busy) if busy.wanted <= busy.total => Error::Busy(busy),
                _ => Error::NetworkLimit(FlowError::Stalled { cycle, outside }),
            },
            Error::MemoryLimit(over) => match self.allowance.share.refused() {
                // Less than its own bound was granted, and it would get more if others had not taken it.
                Some(busy)
                    if over.budget < self.allowance.most - self.begun.beside_boxes && busy.wanted <= busy.total =>
                {
                    Error::Busy(busy)
                }
                _ => {
                    let mut holders = over.holders;
                    holders.push(("its text and plan".to_owned(), self.begun.beside_boxes));
                    let total = self.allowance.share.refused().map_or(u64::MAX, |busy| busy.total);
                    Error::over(self.allowance.most.min(total), holders)
                }
            },
            error => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: a clock past the year 9999 ended a thread. Any time is a valid value.
    #[test]
    fn any_time_of_a_clock_is_a_moment() {
        let second = Duration::from_secs(1);
        assert_eq!(millis(UNIX_EPOCH), 0);
        assert_eq!(millis(UNIX_EPOCH + 2 * second), 2000);
        assert_eq!(millis(UNIX_EPOCH - second), -1000);
        let far = Duration::from_secs(i64::MAX as u64 / 4);
        let times = [UNIX_EPOCH.checked_add(far), UNIX_EPOCH.checked_sub(far), Some(UNIX_EPOCH)];
        for now_ms in times.into_iter().flatten().map(millis).chain([253_402_300_800_000]) {
            let service =
                Service::new(vicus::Runtime::builder().threads(1).quiet().start(), MemoryBudget::new(1 << 30));
            let moment = Some(Moment { now_ms, seed: 0 });
            let snapshot = vicus_rdf::Snapshot::of_ntriples(b"").expect("no triples");
            let data = Dataset::new(Arc::new(snapshot));
            let session = service.session(&data, SessionOptions { moment, ..SessionOptions::default() });
            let text = "SELECT (NOW() AS ?a) (YEAR(NOW()) AS ?b) (NOW() - NOW() AS ?c) (STR(NOW()) AS ?d) {}";
            assert_eq!(session.count(text).expect("it is answered"), 1, "{now_ms}");
        }
    }
}
