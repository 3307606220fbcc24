//! A call, from its text to its last row: begun within limits, prepared, answered into a sink.
//!
//! ```text
//!  Session ── call ──▶ Call ── prepare ──▶ Prepared      within the call's time, memory and steps
//!                       │                     │
//!                       └─ start ◀────────────┘          any number of times, also at once, also by other calls
//!                            │
//!                            ▼
//!                         Running ── wait ──▶ Outcome
//! ```

use crate::budget::{Admission, MemoryBudget, Share};
use crate::cancel::{Cancel, Submitted};
use crate::document::Document;
use crate::error::{Error, Stage};
use crate::load::Dataset;
use crate::service::Service;
use crate::sink::{Count, Format, Handed, Reader, Sink, Solutions, TextSink, operator};
use crate::temporary::TemporaryFolder;
use crate::web::Web;
use oxrdf::NamedNode;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use vicus::{BoxCounts, BoxId, Budget, FlowError, Model, Operator, Request, RequestOptions, Totals};
use vicus_language::PlanNode;
use vicus_sparql::{
    Form, Moment, ParseOptions, Parsed, Plan, PlanOptions, QueryError, QueryErrorKind, RunOptions, Watch, parse_with,
    parsing_bytes_with, plan_until,
};
use vicus_sql::{Catalogue, SqlError, SqlErrorKind};

/// What a call may take.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// How long it may take, from its beginning on.
    pub time: Option<Duration>,
    /// How many bytes it may hold: its text as it is parsed, its plan, and what its boxes hold. By default what all calls may
    /// hold together.
    pub memory: Option<u64>,
    /// How many rows its answer may have. With more it fails.
    pub rows: Option<u64>,
    /// What it does if there is no memory for it when it begins.
    pub admission: Admission,
    /// By which it can be cancelled.
    pub cancel: Cancel,
}

/// What the calls of a session share.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// What a text may be; its base is [`SessionOptions::base`].
    pub parse: ParseOptions<'static>,
    /// What relative IRIs are resolved against until the text has a BASE of its own.
    pub base: Option<String>,
    /// The graphs that queries and the patterns of updates read, whatever their texts say.
    pub graphs: Option<ReadGraphs>,
    /// A document that LOAD finds under this IRI, such as the body of a request.
    pub document: Option<Arc<Document>>,
    /// How queries are planned. The number of threads is [`SessionOptions::threads`], and the limits on memory are the call's; how many
    /// boxes hand out solutions follows from [`SessionOptions::parallel_answers`].
    pub plan: PlanOptions,
    /// For how many threads queries are planned; by default for the service's.
    pub threads: Option<usize>,
    /// Whether several boxes may hand out the solutions of a query that asks for no order.
    pub parallel_answers: bool,
    /// What NOW is and RAND begins with; by default what the clock says when a call starts.
    pub moment: Option<Moment>,
    /// Whether [`Outcome::counts`] has what each box did, and how long it took.
    pub counts: bool,
    /// Of each answer, only so many rows are wanted: as with a LIMIT, the query stops when it has them.
    pub first_rows: Option<u64>,
    /// How SERVICE and LOAD ask the web; by default nothing may be asked.
    pub web: Arc<Web>,
    /// The folder in which LOAD may read files; by default none.
    pub folder: Option<PathBuf>,
    /// The folder for temporary files of calls that outgrow their memory . By default there is none, and such calls fail.
    pub temporary: Option<TemporaryFolder>,
    /// What each of its calls may take.
    pub limits: Limits,
}

impl Default for SessionOptions {
    /// No base, one box that hands out solutions, no counts, no limits but the service's.
    fn default() -> SessionOptions {
        SessionOptions {
            parse: ParseOptions::default(),
            base: None,
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
            limits: Limits::default(),
        }
    }
}

/// The graphs that a query reads.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ReadGraphs {
    /// The default graph is the merge of these.
    pub default: Vec<NamedNode>,
    /// The named graphs.
    pub named: Vec<NamedNode>,
}

impl SessionOptions {
    fn parse_options(&self) -> ParseOptions<'_> {
        ParseOptions { base: self.base.as_deref(), ..self.parse.clone() }
    }
}

/// Whether a text is a query, within the limits of the options, and what it asks for; for doors that say so before there is data.
///
/// # Errors
/// As [`Call::prepare`], but for those of planning.
pub fn check(text: &str, memory: &Arc<MemoryBudget>, options: &SessionOptions) -> Result<Form, Error> {
    Ticket::begin(memory, &options.limits)?.parse(text, options, parse_with).map(|(parsed, _)| parsed.form())
}

/// Calls to one dataset.
#[derive(Clone, Debug)]
pub struct Session {
    service: Service,
    dataset: Dataset,
    options: Arc<SessionOptions>,
}

impl Session {
    pub(crate) fn new(service: Service, dataset: Dataset, options: Arc<SessionOptions>) -> Session {
        Session { service, dataset, options }
    }

    /// What it asks.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// Begins a call: its time runs from now on, and it takes its first share of memory.
    ///
    /// # Errors
    /// There is no memory for it ([`Error::Busy`]); or, while it waited for it, it was cancelled or its time was up.
    pub fn call(&self) -> Result<Call, Error> {
        let ticket = Ticket::begin(self.service.memory(), &self.options.limits)?;
        Ok(Call { session: self.clone(), ticket })
    }

    /// A whole call: prepares a text and answers it into a sink.
    ///
    /// # Errors
    /// As [`Session::call`], [`Call::prepare`] and [`Running::wait`].
    pub fn answer<S: Sink>(&self, text: &str, sink: S) -> Result<(S::Output, Outcome), Error> {
        let mut call = self.call()?;
        let prepared = call.prepare(text)?;
        call.answer(&prepared, sink)
    }

    /// A whole call whose answer is written in a format.
    ///
    /// # Errors
    /// As [`Session::answer`].
    pub fn write<W: Write + Send + 'static>(&self, text: &str, format: Format, out: W) -> Result<(W, Outcome), Error> {
        self.answer(text, TextSink::new(format, out))
    }

    /// A whole call whose solutions are counted; an ASK has one for yes.
    ///
    /// # Errors
    /// As [`Session::answer`].
    pub fn count(&self, text: &str) -> Result<u64, Error> {
        self.answer(text, Count).map(|(_, outcome)| outcome.rows)
    }
}

/// A call's clock, its share of memory, and how it is cancelled. The parts of an update share one.
#[derive(Clone)]
pub(crate) struct Ticket {
    share: Arc<Share>,
    /// As many bytes at most.
    most: u64,
    pub(crate) until: Option<Instant>,
    pub(crate) cancel: Cancel,
}

impl Ticket {
    /// What a call takes when it begins: enough for a short query from text to answer.
    const FIRST_SHARE: u64 = 256 << 10;

    pub(crate) fn begin(memory: &Arc<MemoryBudget>, limits: &Limits) -> Result<Ticket, Error> {
        // A time that no clock reaches is none.
        let until = limits.time.and_then(|time| Instant::now().checked_add(time));
        let total = memory.total();
        let most = limits.memory.unwrap_or(total);
        let first = Self::FIRST_SHARE.min(most).min(total);
        let share = memory.admit(first, limits.admission, until, &limits.cancel)?;
        Ok(Ticket { share, most, until, cancel: limits.cancel.clone() })
    }

    /// Why it is to end, if it is.
    pub(crate) fn ended(&self, during: Stage) -> Option<Error> {
        if self.cancel.is_cancelled() {
            return Some(Error::Cancelled);
        }
        self.until.is_some_and(|until| Instant::now() >= until).then_some(Error::TimeLimit { during })
    }

    pub(crate) fn check(&self, during: Stage) -> Result<(), Error> {
        self.ended(during).map_or(Ok(()), Err)
    }

    /// Takes so many bytes all in all. `holders` say what for.
    pub(crate) fn hold<const N: usize>(&self, bytes: u64, holders: [(&str, u64); N]) -> Result<(), Error> {
        if bytes > self.most {
            return Err(Error::over(self.most, holders.map(|(name, held)| (name.to_owned(), held)).into()));
        }
        self.share.raise_to(bytes).map(drop).ok_or_else(|| self.busy())
    }

    /// Gives its share back, when all is over.
    pub(crate) fn give_back(&self) {
        self.share.give_back();
    }

    fn busy(&self) -> Error {
        Error::Busy(self.share.refused().expect("its share was not raised"))
    }

    /// Parses a text; says how many bytes that takes.
    pub(crate) fn parse<P>(
        &self,
        text: &str,
        options: &SessionOptions,
        parse: impl FnOnce(&str, &ParseOptions<'_>) -> Result<P, QueryError>,
    ) -> Result<(P, u64), Error> {
        let options = options.parse_options();
        let bytes = parsing_bytes_with(text, &options);
        self.hold(bytes, [("its text, when it is parsed,", bytes)])?;
        let parsed = parse(text, &options).map_err(Error::Query)?;
        self.check(Stage::Parsing)?;
        Ok((parsed, bytes))
    }
}

/// One question to a dataset: its clock, its share of the memory, and how it is cancelled.
pub struct Call {
    pub(crate) session: Session,
    pub(crate) ticket: Ticket,
}

/// A call that has its query planned.
struct Planner<'a> {
    ticket: &'a Ticket,
    text_bytes: u64,
}

impl Watch for Planner<'_> {
    fn ends(&self) -> bool {
        self.ticket.ended(Stage::Planning).is_some()
    }

    fn grant(&self, bytes: u64) -> bool {
        self.ticket.share.raise_to(self.text_bytes.saturating_add(bytes)).is_some()
    }
}

impl Call {
    /// Parses and plans a query.
    ///
    /// # Errors
    /// The text is no query, or that takes more than the call may.
    pub fn prepare(&mut self, text: &str) -> Result<Arc<Prepared>, Error> {
        let began = Instant::now();
        let (mut parsed, text_bytes) = self.ticket.parse(text, &self.session.options, parse_with)?;
        if let Some(ReadGraphs { default, named }) = &self.session.options.graphs {
            parsed.set_dataset(default.clone(), named.clone());
        }
        let parsing = began.elapsed();
        Ok(Arc::new(Prepared { parsing, ..self.plan(&parsed, text_bytes)? }))
    }

    /// Parses and plans a statement of SQL over a catalogue's tables.
    ///
    /// # Errors
    /// As [`Call::prepare`].
    pub fn prepare_sql(&mut self, text: &str, catalogue: &dyn Catalogue) -> Result<Arc<Prepared>, Error> {
        let Call { session, ticket } = self;
        let options = &*session.options;
        let began = Instant::now();
        let ParseOptions { bytes, depth, .. } = options.parse;
        // A parsed statement holds some ten times its text.
        let text_bytes = 16 * text.len() as u64;
        ticket.hold(text_bytes, [("its text, when it is parsed,", text_bytes)])?;
        let depth = depth.min(vicus_sql::ParseOptions::default().depth);
        let parsed = vicus_sql::parse(text, &vicus_sql::ParseOptions { bytes, depth }).map_err(of_sql)?;
        ticket.check(Stage::Parsing)?;
        let parsing = began.elapsed();
        let threads = options.threads.unwrap_or_else(|| session.service.runtime().plan().threads());
        let plan_options = vicus_sql::PlanOptions {
            threads,
            sinks: if options.parallel_answers { threads } else { 1 },
            envelope_rows: options.plan.envelope_rows,
            parallel_rows: options.plan.parallel_rows,
            plan_steps: options.plan.plan_steps,
            hash_seed: options.plan.hash_seed,
            ..vicus_sql::PlanOptions::default()
        };
        let ended = || ticket.ended(Stage::Planning).is_some();
        let plan = reading("planner", || vicus_sql::plan(&parsed, catalogue, &plan_options, &ended))?;
        ticket.check(Stage::Planning)?;
        let plan = plan.map_err(of_sql)?;
        let form = Form::Select { variables: plan.columns().iter().map(|(name, _)| name.clone()).collect() };
        let planned = Planned::Sql(Arc::new(plan));
        let plan_bytes = planned.bytes();
        let planning = began.elapsed() - parsing;
        let prepared = Prepared { planned, form, text_bytes, plan_bytes, parsing, planning };
        ticket.hold(prepared.bytes(), prepared.holders())?;
        Ok(Arc::new(prepared))
    }

    /// Plans a query whose text, parsed, holds so many bytes.
    pub(crate) fn plan(&mut self, parsed: &Parsed, text_bytes: u64) -> Result<Prepared, Error> {
        let Call { session, ticket } = self;
        let options = &*session.options;
        let began = Instant::now();
        let threads = options.threads.unwrap_or_else(|| session.service.runtime().plan().threads());
        let plan_options = PlanOptions {
            threads,
            sinks: if options.parallel_answers { threads } else { 1 },
            plan_bytes: options.plan.plan_bytes.min(ticket.most - text_bytes),
            ..options.plan
        };
        let planner = Planner { ticket, text_bytes };
        let plan = reading("planner", || plan_until(session.dataset.snapshot(), parsed, &plan_options, &planner))?;
        // A plan that was stopped says so, and one that came too late is late all the same.
        ticket.check(Stage::Planning)?;
        let plan = plan.map_err(|error| match error.kind {
            QueryErrorKind::TooManyBytes { needed } if needed <= plan_options.plan_bytes => ticket.busy(),
            QueryErrorKind::TooManyBytes { needed } => {
                let holders = vec![("its plan".to_owned(), needed), ("its text".to_owned(), text_bytes)];
                Error::over(ticket.most, holders)
            }
            _ => Error::Query(error),
        })?;
        let (form, planned) = (plan.form().clone(), Planned::Sparql(Arc::new(plan)));
        let (plan_bytes, planning) = (planned.bytes(), began.elapsed());
        let prepared = Prepared { planned, form, text_bytes, plan_bytes, parsing: Duration::ZERO, planning };
        ticket.hold(prepared.bytes(), prepared.holders())?;
        Ok(prepared)
    }

    /// Starts a prepared query on the service's threads, and returns at once. When its time is up, it ends, though no thread may wait
    /// for it yet: [`Running::wait`] then has the error.
    ///
    /// # Errors
    /// There is no memory for it, or no thread that ends it in time.
    pub fn start<S: Sink>(self, prepared: &Arc<Prepared>, sink: S) -> Result<Running<S>, Error> {
        self.submit(prepared, sink, |runtime, plan, operators, budget, _| {
            runtime.submit_within(plan.model(), operators, budget)
        })
    }

    /// Answers a prepared query. One that is thought to be short runs on the calling thread.
    ///
    /// # Errors
    /// As [`Running::wait`].
    pub fn answer<S: Sink>(self, prepared: &Arc<Prepared>, sink: S) -> Result<(S::Output, Outcome), Error> {
        self.begin(prepared, sink)?.wait()
    }

    /// Starts a prepared query. One that is thought to be short runs on the calling thread, and is over when this returns, or else goes on
    /// on the service's threads: [`Running::is_done`] says which.
    ///
    /// # Errors
    /// As [`Call::start`].
    pub fn begin<S: Sink>(self, prepared: &Arc<Prepared>, sink: S) -> Result<Running<S>, Error> {
        self.submit(prepared, sink, |runtime, plan, operators, budget, ticket| match plan.is_short() {
            true => {
                let ended = || ticket.ended(Stage::Running).is_some();
                runtime.submit_here(plan.model(), operators, budget, &ended)
            }
            false => runtime.submit_within(plan.model(), operators, budget),
        })
    }

    fn submit<S: Sink>(
        self,
        prepared: &Arc<Prepared>,
        sink: S,
        submit: impl FnOnce(&vicus::Runtime, &Planned, Vec<(BoxId, Box<dyn Operator>)>, RequestOptions, &Ticket) -> Request,
    ) -> Result<Running<S>, Error> {
        let Call { session, ticket } = self;
        sink.accepts(prepared.form()).map_err(Error::Format)?;
        let began = Instant::now();
        let beside_boxes = prepared.bytes();
        ticket.hold(beside_boxes, prepared.holders())?;
        ticket.share.set_beside_boxes(beside_boxes);
        let planned = &prepared.planned;
        let web = Arc::clone(&session.options.web);
        let options = &session.options;
        let handed = Arc::new(Handed::new(options.first_rows, options.limits.rows));
        let sink = Arc::new(sink);
        let (solutions, operators) = reading("start", || {
            let bytes = ticket.most - beside_boxes;
            // Without a bound, nothing is ever spilled.
            let folder = session.options.temporary.as_ref().filter(|_| ticket.most < u64::MAX);
            let spill = folder.map(|folder| folder.spill(bytes));
            let moment = session.options.moment.unwrap_or_else(now);
            let reader = match planned {
                Planned::Sparql(plan) => {
                    Reader::Terms(plan.start_with(RunOptions { moment, endpoints: Some(web as _), spill }))
                }
                Planned::Sql(plan) => Reader::Values(plan.columns().iter().map(|(_, kind)| *kind).collect()),
            };
            let solutions = Arc::new(Solutions { reader, prepared: Arc::clone(prepared) });
            let sinks = planned.sinks().iter().map(|id| (*id, operator(&sink, &solutions, &handed)));
            let operators = match (planned, &solutions.reader) {
                (Planned::Sql(plan), _) => plan.start().into_iter().chain(sinks).collect(),
                (_, Reader::Terms(run)) => run.operators(sinks),
                (_, Reader::Values(_)) => unreachable!("a plan of SPARQL has a run"),
            };
            (solutions, operators)
        })?;
        let budget = Budget::from(ticket.most - beside_boxes).granted_by(Arc::clone(&ticket.share) as _);
        let request_options = RequestOptions { budget, is_timed: session.options.counts };
        let request = submit(session.service.runtime(), planned, operators, request_options, &ticket);
        let mut submitted = Submitted::new(request, &ticket.cancel);
        if let Some(until) = ticket.until {
            submitted.end_at(until, session.service.timer()).map_err(|error| Error::NoThread(Arc::new(error)))?;
        }
        Ok(Running { began, submitted, ticket, solutions, sink, handed, beside_boxes, counts: session.options.counts })
    }
}

/// Calls what reads data outside of boxes: a page of a mapped file may be found damaged there, too.
fn reading<R>(name: &str, read: impl FnOnce() -> R) -> Result<R, Error> {
    vicus::or_given_up(read).map_err(|error| Error::Failed { name: name.to_owned(), error: error.into() })
}

/// An error of SQL, with its place.
fn of_sql(error: SqlError) -> Error {
    let kind = match error.kind {
        SqlErrorKind::TooLong => QueryErrorKind::TooLong,
        SqlErrorKind::TooDeep => QueryErrorKind::TooDeep,
        SqlErrorKind::TooManySteps => QueryErrorKind::TooManySteps,
        SqlErrorKind::Stopped => QueryErrorKind::Stopped,
        _ => QueryErrorKind::Syntax,
    };
    Error::Query(QueryError { message: error.message, line: error.place.line, column: error.place.column, kind })
}

/// The moment that the clock says. Of two in the same millisecond, RAND and UUID begin differently.
pub(crate) fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = since.map_or(0, |since| since.as_millis() as i64);
    Moment { now_ms, seed: RandomState::new().hash_one(now_ms) }
}

/// A planned text, in one of the languages.
pub(crate) enum Planned {
    Sparql(Arc<Plan>),
    Sql(Arc<vicus_sql::Plan>),
}

impl Planned {
    fn model(&self) -> &Arc<Model> {
        match self {
            Planned::Sparql(plan) => plan.model(),
            Planned::Sql(plan) => plan.model(),
        }
    }

    fn sinks(&self) -> &[BoxId] {
        match self {
            Planned::Sparql(plan) => plan.sinks(),
            Planned::Sql(plan) => plan.sinks(),
        }
    }

    fn is_short(&self) -> bool {
        match self {
            Planned::Sparql(plan) => plan.is_short(),
            Planned::Sql(plan) => plan.is_short(),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Planned::Sparql(plan) => plan.bytes(),
            Planned::Sql(plan) => plan.bytes(),
        }
    }

    /// The prefixes that the text declares.
    fn prefixes(&self) -> &[(String, String)] {
        match self {
            Planned::Sparql(plan) => plan.prefixes(),
            Planned::Sql(_) => &[],
        }
    }
}

/// A query that is parsed and planned for a dataset, and can be run any number of times, also at once.
pub struct Prepared {
    planned: Planned,
    form: Form,
    text_bytes: u64,
    /// As its language counts them, box by box.
    plan_bytes: u64,
    parsing: Duration,
    planning: Duration,
}

impl Prepared {
    /// What the query asks for.
    pub fn form(&self) -> &Form {
        &self.form
    }

    pub(crate) fn prefixes(&self) -> &[(String, String)] {
        self.planned.prefixes()
    }

    /// Its operators, in pre-order.
    pub fn nodes(&self) -> Vec<PlanNode> {
        match &self.planned {
            Planned::Sparql(plan) => plan.nodes(),
            Planned::Sql(plan) => plan.nodes().to_vec(),
        }
    }

    /// The network that answers it.
    pub fn model(&self) -> &Arc<Model> {
        self.planned.model()
    }

    /// How many boxes hand out its rows.
    pub fn sinks(&self) -> usize {
        self.planned.sinks().len()
    }

    /// Whether it is expected to make few rows, so that its caller answers it on its own thread.
    pub fn is_short(&self) -> bool {
        self.planned.is_short()
    }

    /// Whether two runs may rightly differ in their number of rows.
    pub fn may_differ(&self) -> bool {
        match &self.planned {
            Planned::Sparql(plan) => plan.may_differ(),
            // Which rows a LIMIT leaves is open, not how many.
            Planned::Sql(_) => false,
        }
    }

    /// Its operators, its boxes and their vias as text; after a run, with what each of them did. Panics if the counts are of another plan.
    pub fn explain(&self, counts: Option<&[BoxCounts]>) -> String {
        let boxes = counts.map_or_else(|| self.model().describe(), |counts| self.model().describe_with(counts));
        format!("{}\n{boxes}", PlanNode::write_all(&self.nodes(), counts))
    }

    /// How long parsing took.
    pub fn parsing(&self) -> Duration {
        self.parsing
    }

    /// How long planning took.
    pub fn planning(&self) -> Duration {
        self.planning
    }

    /// Bytes that its plan holds, with one run of it.
    pub fn plan_bytes(&self) -> u64 {
        self.plan_bytes
    }

    /// Bytes that its text and its plan hold, with one run of it.
    pub fn bytes(&self) -> u64 {
        self.text_bytes + self.plan_bytes
    }

    fn holders(&self) -> [(&'static str, u64); 2] {
        [("its plan", self.plan_bytes), ("its text", self.text_bytes)]
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("form", self.form()).finish_non_exhaustive()
    }
}

/// A query that runs. Dropping it cancels it.
pub struct Running<S> {
    began: Instant,
    submitted: Submitted,
    ticket: Ticket,
    solutions: Arc<Solutions>,
    sink: Arc<S>,
    handed: Arc<Handed>,
    beside_boxes: u64,
    counts: bool,
}

/// Looks at a query that runs, or has run.
#[derive(Clone)]
pub struct Watching {
    request: Arc<Request>,
    handed: Arc<Handed>,
}

impl Watching {
    /// How many rows it has handed out.
    pub fn rows(&self) -> u64 {
        self.handed.rows()
    }

    /// What each box has done so far, in the order of the plan's model.
    pub fn counts(&self) -> Vec<BoxCounts> {
        self.request.counts()
    }

    /// Which boxes hold memory now and how many bytes, the most first.
    pub fn holders(&self) -> Vec<(String, u64)> {
        self.request.holders()
    }

    /// What it has cost so far.
    pub fn totals(&self) -> Totals {
        self.request.totals()
    }
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watching").field("rows", &self.rows()).finish_non_exhaustive()
    }
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How many solutions there were; an ASK has 1 for yes and 0 for no.
    pub rows: u64,
    /// How long it took from its start until the sink had all of it.
    pub time: Duration,
    /// What it cost.
    pub totals: Totals,
    /// What each box did, in the order of the plan's model, if [`SessionOptions::counts`] asks for it.
    pub counts: Vec<BoxCounts>,
}

impl<S: Sink> Running<S> {
    /// Whether it is over, so that [`Running::wait`] returns at once.
    pub fn is_done(&self) -> bool {
        self.submitted.request.is_done()
    }

    /// Has a function called when it is over, by a thread of the service or at once: it should only tell somebody, who then calls
    /// [`Running::wait`].
    pub fn when_done(&self, tell: impl FnOnce() + Send + 'static) {
        self.submitted.request.when_done(tell);
    }

    /// How far it is, while it runs and after.
    pub fn watch(&self) -> Watching {
        Watching { request: Arc::clone(&self.submitted.request), handed: Arc::clone(&self.handed) }
    }

    /// Waits for the last solution. When it returns, nothing of the run is left, and what it had taken of the memory is given back.
    ///
    /// # Errors
    /// Why there is no answer, or not all of it.
    pub fn wait(self) -> Result<(S::Output, Outcome), Error> {
        let totals = match self.submitted.request.wait() {
            Ok(totals) => totals,
            Err(error) => {
                self.ticket.give_back();
                return Err(self.reason(error));
            }
        };
        let rows = self.handed.rows();
        let output = self.sink.finish(&self.solutions, rows).map_err(Error::of_sink)?;
        let time = self.began.elapsed();
        let counts = if self.counts { self.submitted.request.counts() } else { Vec::new() };
        let Running { submitted, ticket, .. } = self;
        drop(submitted);
        // A thread may still have a reference to what has ended.
        ticket.give_back();
        Ok((output, Outcome { rows, time, totals, counts }))
    }

    fn reason(&self, error: FlowError) -> Error {
        match Error::from(error) {
            // It gave up by itself, or was cancelled by its handle or by the timer.
            Error::Cancelled => self.ticket.ended(Stage::Running).unwrap_or(Error::Cancelled),
            Error::MemoryLimit(over) => match self.ticket.share.refused() {
                // Less than its own bound was granted, and it would get more if others had not taken it.
                Some(busy) if over.budget < self.ticket.most - self.beside_boxes && busy.wanted <= busy.total => {
                    Error::Busy(busy)
                }
                _ => {
                    let mut holders = over.holders;
                    holders.push(("its text and plan".to_owned(), self.beside_boxes));
                    let total = self.ticket.share.refused().map_or(u64::MAX, |busy| busy.total);
                    Error::over(self.ticket.most.min(total), holders)
                }
            },
            error => error,
        }
    }
}
