//! A query that is ready to run: a model, and what its ids mean.

use crate::algebra::Slot;
use crate::cost;
use crate::error::QueryError;
use crate::explain::Explainer;
use crate::limits::Limits;
use crate::lower::{self, Lowered, Maker};
use crate::optimise;
use crate::parse::Parsed;
use crate::planner::{Physical, Planner};
use crate::stack::{Deep, of_planned};
use crate::stop::{Costs, Stop, Watch};
use crate::terms::{Moment, Terms};
use crate::translate;
use crate::value::Numbers;
use oxrdf::{Term, TermRef};
use std::sync::Arc;
use vicus_flow::{Bound, BoxCounts, BoxError, BoxId, Envelope, Model, Operator, library};
use vicus_rdf::{Id, Store, TermView};

/// How a query is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// As many rows at most as an envelope has. The first ones are smaller.
    pub envelope_rows: usize,
    /// As many envelopes at most as wait between two boxes. With 1 a plan shows whether its boxes wait for each other.
    pub via_envelopes: usize,
    /// How many seats will run the plan: at most so many boxes share the work of an operator.
    pub threads: usize,
    /// From how many rows on, as estimated for all operators of a pipeline together, its work is shared. Below, a query
    /// costs no more than its own work.
    pub parallel_rows: usize,
    /// How large a hash table should be at most, to stay in the cache of the core that works on it; where DISTINCT or
    /// GROUP BY has more rows than that, it has several tables and looks at one after the other.
    pub cache_bytes: u64,
    /// As many boxes at most receive the solutions. More than one is for doors that can serialise rows in parallel and
    /// don't mind their order; where the query asks for an order there is one.
    pub sinks: usize,
    /// Whether the query is rewritten and its joins are reordered. Without, it is answered as it is written: slower,
    /// and a check on the optimiser.
    pub optimise: bool,
    /// How much is remembered and tried.
    pub limits: Limits,
    /// As many steps at most as planning takes. A step is a look at an operator, at a variable of one, or at a way to join: some
    /// ten nanoseconds. Most queries take less than a thousandth of the default number, 990 OPTIONALs that bind a variable
    /// each an eighth, 30,000 triples a half. What meets it first has very many variables in very many operators.
    pub plan_steps: u64,
    /// As many bytes of memory at most as planning holds, as it counts them.
    pub plan_bytes: u64,
    /// What hashes are keyed with. A query's terms and its data are its users' choice: with a seed that they can't know, they can't
    /// choose many with one hash. No answer depends on it, but the order of rows may.
    pub hash_seed: u64,
}

impl Default for Options {
    /// Envelopes of 2048 rows, one thread, shared from 65,536 rows on, tables of 1 MiB, optimised; planned in 50 million
    /// steps.
    fn default() -> Options {
        Options {
            envelope_rows: 2048,
            via_envelopes: Bound::default().envelopes,
            threads: 1,
            parallel_rows: 1 << 16,
            cache_bytes: 1 << 20,
            sinks: 1,
            optimise: true,
            limits: Limits::default(),
            plan_steps: 50_000_000,
            plan_bytes: u64::MAX,
            hash_seed: 0,
        }
    }
}

/// What a query asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// A table of solutions.
    Select {
        /// The variables' names without `?`, one for each column.
        variables: Vec<String>,
    },
    /// Whether there is any solution: yes, if any row arrives.
    Ask,
}

/// A query that is ready to run against the store that it was planned for: any number of times, also at once.
///
/// ```
/// use std::sync::{Arc, mpsc};
/// use vicus_flow::sequential;
/// use vicus_rdf::{Id, Store};
/// use vicus_sparql::{Moment, Options, parse, plan};
///
/// let store = Store::of_ntriples(b"
///     <http://e/ann> <http://e/knows> <http://e/bob> .
///     <http://e/bob> <http://e/name> \"Bob\" .
/// ")?;
/// let parsed = parse("SELECT ?name { <http://e/ann> <http://e/knows> ?who . ?who <http://e/name> ?name }")?;
/// let plan = plan(&Arc::new(store), &parsed, &Options::default())?;
/// let (send, receive) = mpsc::channel();
/// let sink = plan.sink_operator(move |envelope| Ok(send.send(envelope.clone())?));
/// let run = plan.start(Moment { now_ms: 1_700_000_000_000, seed: 7 });
/// sequential::run(plan.model(), run.operators([(plan.sink(), sink)]), |_| 0)?;
/// let solutions = receive.recv()?;
/// let name = run.term(Id::from_bits(solutions.column(0).u64s()[0]));
/// assert_eq!(name.to_string(), "\"Bob\"");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Plan {
    form: Form,
    /// As deep as the query.
    physical: Deep<Physical>,
    names: Vec<String>,
    terms: Arc<Terms>,
    lowered: Lowered,
    spent: Costs,
    may_differ: bool,
}

/// Plans a query. Takes time in the size of the query, not of the data.
///
/// # Errors
/// What is not supported yet; [`parse`](crate::parse()) found it already.
pub fn plan(store: &Arc<Store>, parsed: &Parsed, options: &Options) -> Result<Plan, QueryError> {
    plan_until(store, parsed, options, &|| false)
}

/// As [`plan()`], but gives up soon after `watch` says so ([`Watch`]); it is asked for each term and each operator of the query, and
/// for memory.
///
/// ```
/// # use std::sync::Arc;
/// # use vicus_rdf::Store;
/// use vicus_sparql::{Options, QueryErrorKind, parse, plan_until};
/// let store = Arc::new(Store::of_ntriples(b"<http://e/ann> <http://e/knows> <http://e/bob> .")?);
/// let parsed = parse("ASK { ?s ?p <http://e/bob> }")?;
/// assert!(plan_until(&store, &parsed, &Options::default(), &|| false).is_ok());
/// let error = plan_until(&store, &parsed, &Options::default(), &|| true).err().unwrap();
/// assert_eq!(error.kind, QueryErrorKind::Stopped);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`plan()`]; [`QueryErrorKind::Stopped`](crate::QueryErrorKind::Stopped) if it was stopped.
pub fn plan_until(
    store: &Arc<Store>,
    parsed: &Parsed,
    options: &Options,
    watch: &dyn Watch,
) -> Result<Plan, QueryError> {
    // What calls may have any stack, and the query's text decides how deep this goes.
    let most = Costs { steps: options.plan_steps, bytes: options.plan_bytes };
    of_planned(parsed.query.depth, || planned(store, parsed, options, &Stop::within(watch, most)))
}

/// Steps that finding a term takes.
const TERM_STEPS: usize = 16;

fn planned(store: &Arc<Store>, parsed: &Parsed, options: &Options, stop: &Stop<'_>) -> Result<Plan, QueryError> {
    let base = parsed.query.base.clone();
    let levels = parsed.query.depth;
    let terms = Terms::with(store, base, options.limits, options.hash_seed);
    let terms = Arc::new(terms.of_levels(levels));
    let mut numbers = Numbers::Exact;
    // Terms are what takes time in this.
    let mut id = |term: TermRef<'_>| {
        if stop.works(TERM_STEPS) || stop.is_stopped() {
            return Id::UNBOUND;
        }
        numbers = numbers.and(Numbers::of_term(term));
        terms.id(term)
    };
    let mut translated = translate::translate(&parsed.query, stop, &mut id);
    stop.check()?;
    let may_differ = translated.node.may_differ();
    if options.optimise {
        translated.node = optimise::optimise(translated.node, &mut translated.names, stop);
    }
    let planner = Planner::new(&terms, options.optimise, stop);
    let slots: Option<Vec<Slot>> =
        translated.select.as_ref().map(|select| select.iter().map(|(_, slot)| *slot).collect());
    let physical = planner.query(&translated.node, slots.as_deref());
    stop.check()?;
    if physical.joins_by_value() {
        numbers = Numbers::of(store, numbers.and(translated.node.makes()));
    }
    let terms = Arc::new(terms.settled(numbers));
    let lowered = lower::lower(&physical, &terms, options, stop)?;
    stop.check()?;
    let form = match translated.select {
        Some(select) => Form::Select { variables: select.into_iter().map(|(name, _)| name).collect() },
        None => Form::Ask,
    };
    Ok(Plan {
        form,
        physical: Deep::new(levels, physical),
        names: translated.names,
        terms,
        lowered,
        spent: stop.spent(),
        may_differ,
    })
}

impl Plan {
    /// What the query asks for.
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// Begins a run: what [`Run::operators`] gives belongs to one submission of [`Plan::model`].
    pub fn start(&self, moment: Moment) -> Run {
        Run { terms: Arc::new(self.terms.at(moment)), makers: Arc::clone(&self.lowered.makers) }
    }

    /// The network that answers it. Its boxes' own operators are those of a run at [`Moment::default`], and share the terms that
    /// they compute with all others such; submit it with the operators of a [`Run`].
    pub fn model(&self) -> &Arc<Model> {
        &self.lowered.model
    }

    /// The box that receives envelopes of solutions: for each variable a column of [`Id::bits`], 0 where it is unbound.
    /// Its own operator drops them; give each instance one made by [`Plan::sink_operator`]. Of a term that the query computed, an
    /// id means something as long as the envelope or a copy of it is there.
    pub fn sink(&self) -> BoxId {
        self.lowered.sinks[0]
    }

    /// All boxes that receive solutions: [`Plan::sink`] and, if [`Options::sinks`] allows, others, each of which needs its
    /// own operator.
    pub fn sinks(&self) -> &[BoxId] {
        &self.lowered.sinks
    }

    /// An operator for [`Plan::sink`] that hands each envelope to a function. Envelopes of ASK have no columns, and a
    /// row if the answer is yes.
    pub fn sink_operator(
        &self,
        mut on_rows: impl FnMut(&Envelope) -> Result<(), BoxError> + Send + 'static,
    ) -> Box<dyn Operator> {
        Box::new(library::sink_operator(move |envelope| on_rows(&envelope)))
    }

    /// Whether it is thought to make few rows, and no operator's work is shared: then a caller that runs it on its own thread is
    /// quicker than several threads that wake each other. Estimates may be wrong.
    pub fn is_short(&self) -> bool {
        self.lowered.is_short
    }

    /// About how many bytes of memory it takes with one running instance of its model: by its boxes and their columns. What a
    /// request holds beyond this its boxes book themselves.
    pub fn bytes(&self) -> u64 {
        cost::plan_bytes(self.model())
    }

    /// Whether two runs may rightly have different numbers of rows: it draws numbers by chance, looks at the clock, takes some rows
    /// of many for what it does with them, or some value of a group.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use vicus_rdf::Store;
    /// # use vicus_sparql::{Options, parse, plan};
    /// let store = Arc::new(Store::of_ntriples(b"")?);
    /// let may_differ = |text| Ok::<_, vicus_sparql::QueryError>(plan(&store, &parse(text)?, &Options::default())?.may_differ());
    /// assert!(may_differ("SELECT * { ?s ?p ?o FILTER (RAND() < 0.5) }")?);
    /// assert!(!may_differ("SELECT * { ?s ?p ?o } LIMIT 10")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn may_differ(&self) -> bool {
        self.may_differ
    }

    /// How many steps planning it took; see [`Options::plan_steps`].
    pub fn steps(&self) -> u64 {
        self.spent.steps
    }

    /// How many bytes of memory planning it took at most, as it was counted; see [`Options::plan_bytes`]. Most of them are
    /// free again.
    pub fn planning_bytes(&self) -> u64 {
        self.spent.bytes
    }

    /// The physical plan as an indented tree with the numbers of rows that are expected, how many boxes share an
    /// operator's work (its degree) if several do, and which boxes are its; then those boxes and their vias
    /// ([`Model::describe`]).
    pub fn explain(&self) -> String {
        format!("{}\n{}", self.tree(None), self.model().describe())
    }

    /// As [`Plan::explain`], with what each operator and each box did in one run: rows, with a mark where they are more than
    /// ten times as many or as few as was expected, and bytes that were taken near and far from where they were made. Panics
    /// if the counts are not of this plan's model.
    pub fn explain_with(&self, counts: &[BoxCounts]) -> String {
        let boxes = self.model().describe_with(counts);
        format!("{}\n{boxes}", self.tree(Some(counts)))
    }

    fn tree(&self, counts: Option<&[BoxCounts]>) -> String {
        let operators = &self.lowered.operators;
        let explainer = Explainer { terms: &self.terms, names: &self.names, operators, counts };
        of_planned(self.physical.levels(), || explainer.explain(&self.physical))
    }
}

/// One run of a plan: its moment, and the terms that it computes.
///
/// ```
/// # use std::sync::{Arc, mpsc};
/// # use vicus_flow::sequential;
/// # use vicus_rdf::{Id, Store};
/// use vicus_sparql::{Moment, Options, parse, plan};
/// let store = Arc::new(Store::of_ntriples(b"")?);
/// let plan = plan(&store, &parse("SELECT ?now { BIND (NOW() AS ?now) }")?, &Options::default())?;
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
pub struct Run {
    terms: Arc<Terms>,
    makers: Arc<[(BoxId, Maker)]>,
}

impl Run {
    /// The operators of a submission: those of the sinks, and of all boxes that look at terms.
    pub fn operators(
        &self,
        sinks: impl IntoIterator<Item = (BoxId, Box<dyn Operator>)>,
    ) -> Vec<(BoxId, Box<dyn Operator>)> {
        let own = self.makers.iter().map(|(id, maker)| (*id, maker.make(&self.terms)));
        own.chain(sinks).collect()
    }

    /// The term that an id in a solution stands for, whether the store has it or the query computed it. Panics for
    /// unbound, and if the query computed it and the envelopes of solutions that have it have been dropped.
    pub fn term(&self, id: Id) -> Term {
        self.terms.term(id)
    }

    /// Looks at the term that an id in a solution stands for, without a copy of one that the store has. Panics as
    /// [`Run::term`] does.
    pub fn view<R>(&self, id: Id, look: impl FnOnce(TermView<'_>) -> R) -> R {
        self.terms.view(id, look)
    }
}
