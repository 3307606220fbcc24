//! A query ready to run: a model, and the terms of its ids.

use crate::boxes::spill::QuerySpill;
use crate::cost;
use crate::crossing::{Arriving, Leaving, crossing_schema};
use crate::error::QueryError;
use crate::explain::Explainer;
use crate::graphs::{Dataset, DefaultGraph};
use crate::limits::QueryLimits;
use crate::lower::{self, Draft, Lowered, Maker};
use crate::operators::Physical;
use crate::optimise;
use crate::parse::ParsedQuery;
use crate::planner::Planner;
use crate::service::Endpoints;
use crate::stack::of_planned;
use crate::syntax::ast::{self, Query};
use crate::terms::{Moment, Terms};
use crate::translate;
use crate::value::Numbers;
use oxrdf::{Term, TermRef};
use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use vicus_flow::library::HashKey;
use vicus_flow::{
    BoxCounts, BoxError, BoxId, CrossingEnds, Envelope, InputId, Model, ModelBuilder, ModelCrossing, ModelLinks,
    ModelPart, Operator, OutputId, Schema, library,
};
use vicus_language::stack::Deep;
use vicus_language::{
    Alone, Answer, Costs, Machines, PartOfPlan, PlanOptions, Planned, RunOperators, Runnable, Stop, Watch,
};
use vicus_language::{PlanNode, RunCounts};
use vicus_rdf::dictionary::TextAppender;
use vicus_rdf::{Id, Snapshot, TermView};

/// How a query is planned: the options of any language, and those of SPARQL.
///
/// ```
/// use vicus_sparql::{PlanOptions, QueryOptions};
/// let common = PlanOptions { threads: 4, ..PlanOptions::default() };
/// let options = QueryOptions { cache_bytes: 1 << 16, ..QueryOptions::from(common) };
/// assert_eq!(options.common.threads, 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryOptions {
    /// The options of any language. A step is a look at an operator, at a variable of an operator, or at a way to join;
    /// it takes some ten nanoseconds. Most queries take less than a thousandth of the default, 990 OPTIONALs with a
    /// variable each take an eighth, 30,000 triples a half. Queries with very many variables in very many operators
    /// exceed it first. A query with ORDER BY has one sink.
    pub common: PlanOptions,
    /// The greatest number of bytes of a hash table, so it stays in its core's cache. If DISTINCT or GROUP BY needs
    /// more, it has several tables and works on one after the other.
    pub cache_bytes: u64,
    /// The default graph of a query without FROM.
    pub default_graph: DefaultGraph,
    /// Limits inside of planning and of boxes.
    pub limits: QueryLimits,
}

impl Default for QueryOptions {
    /// The common defaults, and tables of 1 MiB.
    fn default() -> QueryOptions {
        QueryOptions {
            common: PlanOptions::default(),
            cache_bytes: 1 << 20,
            default_graph: DefaultGraph::Own,
            limits: QueryLimits::default(),
        }
    }
}

impl From<PlanOptions> for QueryOptions {
    /// SPARQL's own options are the defaults.
    fn from(common: PlanOptions) -> QueryOptions {
        QueryOptions { common, ..QueryOptions::default() }
    }
}

impl From<&PlanOptions> for QueryOptions {
    fn from(common: &PlanOptions) -> QueryOptions {
        QueryOptions::from(*common)
    }
}

impl From<&QueryOptions> for QueryOptions {
    fn from(options: &QueryOptions) -> QueryOptions {
        *options
    }
}

/// How a plan is run.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// Its time and its seed.
    pub moment: Moment,
    /// The endpoints of SERVICE. Without them, SERVICE fails.
    pub endpoints: Option<Arc<dyn Endpoints>>,
    /// The place for rows and terms beyond the memory of their boxes. Without it, a request fails when it outgrows its
    /// budget.
    pub spill: Option<QuerySpill>,
}

impl fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RunOptions { moment, endpoints: _, spill } = self;
        f.debug_struct("RunOptions").field("moment", moment).field("spill", spill).finish_non_exhaustive()
    }
}

/// The form of a query's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// A table of solutions.
    Select {
        /// The variables' names without `?`, one for each column.
        variables: Vec<String>,
    },
    /// Whether there is any solution: yes, if any row arrives.
    Ask,
    /// The triples of a template: columns subject, predicate and object. Each triple comes once; the template's blank
    /// nodes are new for each solution.
    Construct,
    /// The triples describing resources: those with the resource as subject, then those of each blank node among the
    /// objects, and so on. The columns are as above; each triple comes once.
    Describe,
}

impl Form {
    pub(crate) fn of(query: &Query) -> Form {
        match query.form {
            ast::Form::Select => {
                let names = query.select.projected().map(|var| query.variables[var.0 as usize].clone());
                Form::Select { variables: names.collect() }
            }
            ast::Form::Ask => Form::Ask,
            ast::Form::Construct(_) => Form::Construct,
            ast::Form::Describe(_) => Form::Describe,
        }
    }

    /// This form as doors know it of every language.
    pub fn answer(&self) -> Answer {
        match self {
            Form::Select { variables } => Answer::Rows { columns: variables.clone() },
            Form::Ask => Answer::Truth,
            Form::Construct | Form::Describe => Answer::Triples,
        }
    }

    /// Whether the answer is a set of triples: of CONSTRUCT and DESCRIBE.
    pub fn is_graph(&self) -> bool {
        matches!(self, Form::Construct | Form::Describe)
    }
}

/// A query ready to run against its store, any number of times, also concurrently.
///
/// ```
/// use std::sync::{Arc, mpsc};
/// use vicus_flow::sequential;
/// use vicus_rdf::{Id, Snapshot};
/// use vicus_sparql::{Moment, PlanOptions, parse, plan};
///
/// let snapshot = Snapshot::of_ntriples(b"
///     <http://e/ann> <http://e/knows> <http://e/bob> .
///     <http://e/bob> <http://e/name> \"Bob\" .
/// ")?;
/// let parsed = parse("SELECT ?name { <http://e/ann> <http://e/knows> ?who . ?who <http://e/name> ?name }")?;
/// let plan = plan(&Arc::new(snapshot), &parsed, PlanOptions::default())?;
/// let (send, receive) = mpsc::channel();
/// let sink = plan.sink_operator(move |envelope| Ok(send.send(envelope.clone())?));
/// let run = plan.start(Moment { now_ms: 1_700_000_000_000, seed: 7 });
/// sequential::run(plan.model(), run.operators([(plan.sink(), sink)]), |_| 0)?;
/// let solutions = receive.recv()?;
/// let name = run.term(Id::from_bits(solutions.column(0).u64s()[0]));
/// assert_eq!(name.to_string(), "\"Bob\"");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SparqlPlan {
    form: Form,
    answer: Answer,
    prefixes: Arc<[(String, String)]>,
    /// A tree as deep as the query.
    physical: Deep<Physical>,
    names: Vec<String>,
    terms: Arc<Terms>,
    lowered: Lowered,
    spent: Costs,
    may_differ: bool,
    /// Whether rows that cross between machines may have terms that only one of them knows.
    computes: bool,
    /// Why one machine has all of it though there are others.
    alone: Option<Alone>,
}

/// Each machine would choose for itself.
const CHOOSES: Alone = Alone::Because(Cow::Borrowed("its answer depends on the rows that are met first, or on chance"));
/// Other machines have neither the web nor a permit to ask it.
const ASKS_WEB: Alone = Alone::Because(Cow::Borrowed("it asks other servers"));

/// Plans a query. Takes time in the size of the query, not of the data.
///
/// # Errors
/// The query asks for something not supported yet; [`parse`](crate::parse()) has found this already.
pub fn plan(
    snapshot: &Arc<Snapshot>,
    parsed: &ParsedQuery,
    options: impl Into<QueryOptions>,
) -> Result<SparqlPlan, QueryError> {
    plan_until(snapshot, parsed, options, &|| false)
}

/// Like [`plan()`], but gives up soon after `watch` says so ([`Watch`]); it is asked for each term and each operator of
/// the query, and for memory.
///
/// ```
/// # use std::sync::Arc;
/// # use vicus_rdf::Snapshot;
/// use vicus_sparql::{PlanOptions, QueryErrorKind, parse, plan_until};
/// let snapshot = Arc::new(Snapshot::of_ntriples(b"<http://e/ann> <http://e/knows> <http://e/bob> .")?);
/// let parsed = parse("ASK { ?s ?p <http://e/bob> }")?;
/// assert!(plan_until(&snapshot, &parsed, PlanOptions::default(), &|| false).is_ok());
/// let error = plan_until(&snapshot, &parsed, PlanOptions::default(), &|| true).err().unwrap();
/// assert_eq!(error.kind, QueryErrorKind::Stopped);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Errors of [`plan()`]; [`QueryErrorKind::Stopped`](crate::QueryErrorKind::Stopped) if `watch` said so.
pub fn plan_until(
    snapshot: &Arc<Snapshot>,
    parsed: &ParsedQuery,
    options: impl Into<QueryOptions>,
    watch: &dyn Watch,
) -> Result<SparqlPlan, QueryError> {
    let options = options.into();
    // The caller's stack may be small, and the query's text decides how deep the recursion goes.
    let most = Costs { steps: options.common.plan_steps, bytes: options.common.plan_bytes };
    of_planned(parsed.query.depth, || planned(snapshot, parsed, &options, &Stop::within(watch, most)))
}

/// Steps counted for looking up a term.
const TERM_STEPS: usize = 16;

fn planned(
    snapshot: &Arc<Snapshot>,
    parsed: &ParsedQuery,
    options: &QueryOptions,
    stop: &Stop<'_>,
) -> Result<SparqlPlan, QueryError> {
    let base = parsed.query.base.clone();
    let levels = parsed.query.depth;
    let terms = Terms::with(snapshot, base, options.limits, options.common.hash_seed);
    let written = parsed.query.dataset.as_ref();
    let dataset = Dataset::new(written, options.default_graph, snapshot, |name| terms.id(name.as_ref()));
    let terms = Arc::new(terms.of_levels(levels).of_merged(dataset.merged.clone()));
    let mut numbers = Numbers::Exact;
    // Looking up terms takes most of the time of a translation.
    let mut id = |term: TermRef<'_>| {
        if stop.count_steps(TERM_STEPS) || stop.poll() {
            return Id::UNBOUND;
        }
        numbers = numbers.and(Numbers::of_term(term));
        terms.id(term)
    };
    let mut translated = translate::translate(&parsed.query, &dataset, stop, &mut id);
    stop.check()?;
    let form = Form::of(&parsed.query);
    // With other solutions, a CONSTRUCT or DESCRIBE may have more triples, even if the number of solutions is the same.
    let may_differ = if form.is_graph() { translated.node.chooses() } else { translated.node.may_differ() };
    if options.common.optimise {
        translated.node = optimise::optimise(translated.node, &mut translated.names, stop);
    }
    let planner = Planner::new(&terms, options.common.optimise, translated.names.len(), stop);
    let mut physical = planner.query(&translated.node, &translated.wanted);
    translated.names.resize(planner.end_of_slots(), "_:value".to_owned());
    stop.check()?;
    if physical.joins_by_value() {
        numbers = Numbers::of(snapshot, numbers.and(translated.node.makes()));
    }
    let terms = Arc::new(terms.settled(numbers));
    let (shared, alone) = match options.common.machines.count() {
        1 => (None, None),
        _ => over_machines(&physical, may_differ, &terms, options, stop)?,
    };
    let lowered = match shared {
        Some(lowered) => lowered,
        None => {
            physical.let_pass();
            lower::lower(&physical, &terms, options, &Machines::default(), stop)?
        }
    };
    stop.check()?;
    let computes = lowered.is_apart() && physical.computes_terms();
    Ok(SparqlPlan {
        answer: form.answer(),
        form,
        prefixes: Arc::clone(&parsed.query.prefixes),
        physical: Deep::new(levels, physical),
        names: translated.names,
        terms,
        lowered,
        spent: stop.spent(),
        may_differ,
        computes,
        alone,
    })
}

/// A model over several machines, or why there is none.
fn over_machines(
    physical: &Physical,
    may_differ: bool,
    terms: &Arc<Terms>,
    options: &QueryOptions,
    stop: &Stop<'_>,
) -> Result<(Option<Lowered>, Option<Alone>), QueryError> {
    if may_differ {
        return Ok((None, Some(CHOOSES)));
    }
    if physical.asks_web() {
        return Ok((None, Some(ASKS_WEB)));
    }
    let machines = &options.common.machines;
    // Rows come together in one box of the machine that was asked.
    let one = QueryOptions { common: PlanOptions { sinks: 1, ..options.common }, ..*options };
    let lowered = lower::lower(physical, terms, &one, machines, stop)?;
    if !lowered.is_apart() {
        return Ok((None, Some(Alone::Small)));
    }
    let here = physical.cost / machines.threads(0) as f64;
    let there = physical.cost / machines.all_threads() as f64;
    match machines.outrun(here, there, lowered.crossing_bytes) {
        Some(alone) => Ok((None, Some(alone))),
        None => Ok((Some(lowered), None)),
    }
}

impl SparqlPlan {
    /// The form of the query's answer.
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// The prefixes declared by the query, and their IRIs: a writer may abbreviate IRIs with them.
    pub fn prefixes(&self) -> &[(String, String)] {
        &self.prefixes
    }

    /// Begins a run. The operators of [`QueryRun::operators`] belong to one submission of [`SparqlPlan::model`].
    pub fn start(&self, moment: Moment) -> QueryRun {
        self.start_with(RunOptions { moment, ..RunOptions::default() })
    }

    /// Like [`SparqlPlan::start`], with more options.
    pub fn start_with(&self, options: RunOptions) -> QueryRun {
        let RunOptions { moment, endpoints, spill } = options;
        let terms = self.terms.at(moment, endpoints, spill, self.lowered.spilling);
        QueryRun { terms: Arc::new(terms), makers: Arc::clone(&self.lowered.makers) }
    }

    /// The network for the query. Its own operators are those of a run at [`Moment::default`]; submissions with these
    /// operators share their computed terms. Submit it with the operators of a [`QueryRun`].
    pub fn model(&self) -> &Arc<Model> {
        &self.lowered.model
    }

    /// The receiver of the solutions: for each variable a column of [`Id::bits`], 0 where it is unbound. Its own
    /// operator drops them, so give each submission an operator of [`SparqlPlan::sink_operator`]. The id of a computed
    /// term is valid as long as the envelope or a copy of it exists.
    pub fn sink(&self) -> BoxId {
        self.lowered.sinks[0]
    }

    /// All receivers of solutions: [`SparqlPlan::sink`] and, if [`PlanOptions::sinks`] allows more, others. Each of
    /// them needs an operator of its own.
    pub fn sinks(&self) -> &[BoxId] {
        &self.lowered.sinks
    }

    /// An operator for [`SparqlPlan::sink`], to pass each envelope to a function. Envelopes of an ASK have no columns,
    /// and a row if the answer is yes.
    pub fn sink_operator(
        &self,
        mut on_rows: impl FnMut(&Envelope) -> Result<(), BoxError> + Send + 'static,
    ) -> Box<dyn Operator> {
        Box::new(library::sink_operator(move |envelope| on_rows(&envelope)))
    }

    /// Whether the plan is expected to make few rows, and has one box for each operator. A caller then runs it faster
    /// on its own thread than on several threads with wakes between them. Estimates may be wrong.
    pub fn is_short(&self) -> bool {
        self.lowered.is_short
    }

    /// Estimated bytes of memory of the plan and one running instance of its model, from the number of boxes and
    /// columns. The boxes book the further memory of a request.
    pub fn bytes(&self) -> u64 {
        cost::plan_bytes(self.model())
    }

    /// Whether two runs may rightly differ in their number of rows: because the query uses random numbers or the clock,
    /// computes with some rows out of many, or takes some value of a group.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use vicus_rdf::Snapshot;
    /// # use vicus_sparql::{PlanOptions, parse, plan};
    /// let snapshot = Arc::new(Snapshot::of_ntriples(b"")?);
    /// let may_differ = |text| {
    ///     let plan = plan(&snapshot, &parse(text)?, PlanOptions::default())?;
    ///     Ok::<_, vicus_sparql::QueryError>(plan.may_differ())
    /// };
    /// assert!(may_differ("SELECT * { ?s ?p ?o FILTER (RAND() < 0.5) }")?);
    /// assert!(!may_differ("SELECT * { ?s ?p ?o } LIMIT 10")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn may_differ(&self) -> bool {
        self.may_differ
    }

    /// How many machines have a part of it.
    pub fn machines(&self) -> usize {
        self.lowered.machines.iter().max().map_or(1, |last| last + 1)
    }

    /// A number of all that decides on the meaning of its rows and on its boxes: equal on all machines with the same
    /// data, the same text and the same options, and on others different, but for chance.
    pub fn digest(&self) -> u64 {
        let mut hash = HashKey::of_seed(0).build_hasher();
        hash.write(self.explain().as_bytes());
        self.terms.each_mentioned(|id, key| {
            hash.write_u64(id.bits());
            hash.write(key.as_bytes());
        });
        self.lowered.machines.iter().for_each(|machine| hash.write_usize(*machine));
        hash.finish()
    }

    /// Begins a run of the part of one machine. Other machines' rows come and go over `links`. `None` if the machine
    /// has no part.
    pub fn start_part(
        &self,
        machine: usize,
        links: &dyn ModelLinks,
        options: RunOptions,
    ) -> Option<(PartOfPlan, QueryRun)> {
        let lowered = &self.lowered;
        let mut ends =
            Ends { links, terms: &self.terms, computes: self.computes, makers: Vec::new(), sends: Vec::new() };
        let ModelPart { model, boxes } = lowered.model.part(&lowered.machines, machine, &mut ends)?;
        let Ends { makers: mut all, sends, .. } = ends;
        let own = lowered.makers.iter().filter_map(|(id, maker)| Some((boxes[id.index()]?, maker.clone())));
        all.extend(own);
        let RunOptions { moment, endpoints, spill } = options;
        let terms = Arc::new(self.terms.at(moment, endpoints, spill, lowered.spilling));
        let run = QueryRun { terms, makers: all.into() };
        let sinks = lowered.sinks.iter().filter_map(|sink| boxes[sink.index()]).collect();
        Some((PartOfPlan { model, sinks, operators: run.operators([]), boxes, sends }, run))
    }

    /// The number of steps taken by planning; see [`PlanOptions::plan_steps`].
    pub fn steps(&self) -> u64 {
        self.spent.steps
    }

    /// The bytes held by planning, as counted by the planner; see [`PlanOptions::plan_bytes`]. Most of them are free
    /// again.
    pub fn planning_bytes(&self) -> u64 {
        self.spent.bytes
    }

    /// The physical plan as an indented tree: for each operator the expected rows, the number of boxes sharing its work
    /// (its degree) if there are several, and its boxes. Then the boxes and their vias ([`Model::describe`]).
    pub fn explain(&self) -> String {
        format!("{}\n{}", PlanNode::write_all(&self.nodes(), None), self.model().describe())
    }

    /// The machine of each box of the model, if several have some.
    pub fn places(&self) -> &[usize] {
        &self.lowered.machines
    }

    /// Why one machine has all of it, though [`PlanOptions::machines`] has others.
    pub fn alone(&self) -> Option<String> {
        self.alone.as_ref().map(Alone::to_string)
    }

    /// Like [`SparqlPlan::explain`], with the counts of each operator and each box in one run: rows, with a mark if
    /// they differ from the expectation by more than a factor of ten, and the bytes taken from near and from far
    /// memory. Panics if the counts belong to another model.
    pub fn explain_with(&self, counts: &[BoxCounts]) -> String {
        let boxes = self.model().describe_with(counts);
        format!("{}\n{boxes}", PlanNode::write_all(&self.nodes(), Some(RunCounts { boxes: counts, grown: &[] })))
    }

    /// Its operators in pre-order: kind, subject, expected rows, and boxes of each.
    pub fn nodes(&self) -> Vec<PlanNode> {
        let operators = &self.lowered.operators;
        let explainer = Explainer { terms: &self.terms, names: &self.names, operators };
        of_planned(self.physical.levels(), || explainer.explain(&self.physical))
    }
}

impl Planned for SparqlPlan {
    fn answer(&self) -> &Answer {
        &self.answer
    }

    fn model(&self) -> &Arc<Model> {
        self.model()
    }

    fn sinks(&self) -> &[BoxId] {
        self.sinks()
    }

    fn nodes(&self) -> Vec<PlanNode> {
        self.nodes()
    }

    fn is_short(&self) -> bool {
        self.is_short()
    }

    fn may_differ(&self) -> bool {
        self.may_differ()
    }

    fn bytes(&self) -> u64 {
        self.bytes()
    }

    fn prefixes(&self) -> &[(String, String)] {
        self.prefixes()
    }

    fn can_be_kept(&self) -> bool {
        // Machines come and go.
        self.machines() < 2
    }

    fn places(&self) -> &[usize] {
        self.places()
    }

    fn alone(&self) -> Option<String> {
        self.alone()
    }

    fn digest(&self) -> u64 {
        self.digest()
    }
}

/// The boxes at the ends of a part's crossings.
struct Ends<'a> {
    links: &'a dyn ModelLinks,
    terms: &'a Arc<Terms>,
    computes: bool,
    makers: Vec<(BoxId, Maker)>,
    sends: Vec<(ModelCrossing, BoxId)>,
}

impl Ends<'_> {
    /// The columns that cross: with computed terms, or if there are no others, one more.
    fn schema(&self, schema: &Schema) -> Option<Schema> {
        let columns = schema.columns().len();
        (self.computes || columns == 0).then(|| crossing_schema(columns))
    }
}

impl CrossingEnds for Ends<'_> {
    fn send(&mut self, net: &mut ModelBuilder, crossing: &ModelCrossing, schema: &Schema) -> InputId {
        let with_terms = self.schema(schema);
        let sends = net.add(self.links.send(crossing, with_terms.as_ref().unwrap_or(schema)));
        net.end(sends.output(0));
        self.sends.push((crossing.clone(), sends));
        let Some(with_terms) = with_terms else { return sends.input(0) };
        let draft = Draft::new(self.terms, "terms out", Leaving::new).input(schema).output(&with_terms);
        let leaves = draft.add_to(net, &mut self.makers);
        net.connect(leaves.output(0), sends.input(0));
        leaves.input(0)
    }

    fn receive(&mut self, net: &mut ModelBuilder, crossing: &ModelCrossing, schema: &Schema) -> OutputId {
        let with_terms = self.schema(schema);
        let receives = net.source(self.links.receive(crossing, with_terms.as_ref().unwrap_or(schema)));
        let Some(with_terms) = with_terms else { return receives.output(0) };
        let draft = Draft::new(self.terms, "terms in", Arriving::new).input(&with_terms).output(schema);
        let arrives = draft.add_to(net, &mut self.makers);
        net.connect(receives.output(0), arrives.input(0));
        arrives.output(0)
    }
}

impl Runnable for SparqlPlan {
    type Needs = RunOptions;
    type Run = QueryRun;

    fn begin(&self, options: RunOptions) -> (RunOperators, QueryRun) {
        let run = self.start_with(options);
        (run.operators([]), run)
    }

    fn begin_part(
        &self,
        machine: usize,
        links: &dyn ModelLinks,
        options: RunOptions,
    ) -> Option<(PartOfPlan, QueryRun)> {
        self.start_part(machine, links, options)
    }
}

/// One run of a plan: its moment, and its computed terms.
///
/// ```
/// # use std::sync::{Arc, mpsc};
/// # use vicus_flow::sequential;
/// # use vicus_rdf::{Id, Snapshot};
/// use vicus_sparql::{Moment, PlanOptions, parse, plan};
/// let snapshot = Arc::new(Snapshot::of_ntriples(b"")?);
/// let plan = plan(&snapshot, &parse("SELECT ?now { BIND (NOW() AS ?now) }")?, PlanOptions::default())?;
/// for (now_ms, text) in [(0, "1970-01-01T00:00:00Z"), (86_400_000, "1970-01-02T00:00:00Z")] {
///     let run = plan.start(Moment { now_ms, ..Moment::default() });
///     let (send, receive) = mpsc::channel();
///     let sink = plan.sink_operator(move |envelope| Ok(send.send(envelope.clone())?));
///     sequential::run(plan.model(), run.operators([(plan.sink(), sink)]), |_| 0)?;
///     let now = run.term(Id::from_bits(receive.recv()?.column(0).u64s()[0]));
///     assert!(now.to_string().starts_with(&format!("\"{text}\"")), "{now}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct QueryRun {
    terms: Arc<Terms>,
    makers: Arc<[(BoxId, Maker)]>,
}

impl QueryRun {
    /// The operators for a submission: `sinks`, and those of all term-reading boxes.
    pub fn operators(
        &self,
        sinks: impl IntoIterator<Item = (BoxId, Box<dyn Operator>)>,
    ) -> Vec<(BoxId, Box<dyn Operator>)> {
        let own = self.makers.iter().map(|(id, maker)| (*id, maker.make(&self.terms)));
        own.chain(sinks).collect()
    }

    /// The term of an id in a solution, whether it is in the store or was computed. Panics for an unbound id, and for a
    /// computed term after the envelopes with its id were dropped.
    pub fn term(&self, id: Id) -> Term {
        self.terms.term(id)
    }

    /// The store's id of the term of an id in a solution; `None` if the store lacks it.
    pub(crate) fn stored(&self, id: Id) -> Option<Id> {
        self.terms.stored(id)
    }

    /// Passes a copy of the key of the term of an id in a solution to `look`. Panics for terms without keys.
    pub(crate) fn with_key<R>(&self, id: Id, look: impl FnOnce(&str) -> R) -> R {
        look(&self.terms.key(id))
    }

    /// Appends the texts of many terms of the store to one text.
    pub fn text_appender(&self) -> TextAppender<'_> {
        self.terms.snapshot.dictionary().text_appender()
    }

    /// Passes the term of an id in a solution to `look`; a term of the store is not copied. Panics as
    /// [`QueryRun::term`] does.
    pub fn view<R>(&self, id: Id, look: impl FnOnce(TermView<'_>) -> R) -> R {
        self.terms.view(id, look)
    }
}
