//! Queries over several processes that hold the same data.
//!
//! ```text
//!  the process that was asked                      a peer
//!  Call::plan ── the team's machines               PeerHost::part ── the same data? the same plan?
//!      │                                               │
//!      ▼             the text, its options             ▼
//!  Peers::begin ─────────────────────────────────▶ a part of the plan
//!      │                                               │
//!      ▼   rows: ids of SPARQL, values of SQL          │
//!  its own part, and the sink ◀════════════════════════╡
//! ```
//!
//! A query is sent as text, with all options that its plan depends on, so each process makes the same plan and runs its
//! part. Before it does, it compares the place of its data in the store's history, a fingerprint of the data, and a
//! digest of the plan. Queries only read, so one whose peer is lost is asked again, of those that are left, unless rows
//! have been handed out.

use crate::begin::operator_infos;
use crate::error::Error;
use crate::languages::{CheckedText, Surroundings, TextReading, language};
use crate::load::Dataset;
use crate::service::Service;
use crate::session::{ReadGraphs, Session, SessionOptions};
use crate::temporary::TemporaryFolder;
use crate::web::Web;
use oxrdf::NamedNode;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use vicus::kit::ModelLinks;
use vicus::kit::counts::{BoxCounts, InputCounts, OutputCounts};
use vicus::{BoxId, FlowError, Request, RequestOptions, TemporaryFiles};
use vicus_language::{Machines, PartOfPlan, PlanOptions, TextLimits};
use vicus_machine::SystemDirectory;
use vicus_rdf::Snapshot;
use vicus_sparql::{DefaultGraph, Moment, QueryLimits as SparqlLimits};
use vicus_store::{Store, StoreError, StorePlace, StoreReader};

/// Other processes with the same data.
pub trait Peers: fmt::Debug + Send + Sync {
    /// Those that can be asked now, and the network to them. `threads` is this process's number.
    fn team(&self, threads: usize) -> Arc<PeerTeam>;

    /// Leaves one out for some seconds: it was lost, or its data are not those of queries. `why` names it.
    fn leave_out(&self, name: &str, why: &str);

    /// Has the members of a team run their parts of a query: `job` goes to each. All of them have made their parts when
    /// it returns; `goes_on` is asked from time to time meanwhile.
    ///
    /// # Errors
    /// One of them can't be had, or has other data.
    fn begin(
        &self,
        team: &PeerTeam,
        job: &str,
        memory: Option<u64>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Arc<dyn PeerRun>, PeerFailure>;
}

/// This process, and others.
#[derive(Clone, Debug)]
pub struct PeerTeam {
    /// Their threads, this process first, and the network.
    pub machines: Machines,
    /// The names of the others.
    pub names: Vec<String>,
    /// Some that are known are left out now.
    pub lacks_some: bool,
}

/// A query's parts in other processes. Dropping it ends them.
pub trait PeerRun: Send + Sync {
    /// The ways to the others.
    fn links(&self) -> &dyn ModelLinks;

    /// The request of this process's part: it is cancelled when another part fails.
    fn watch(&self, own: &Arc<Request>);

    /// Why another part has failed, if one has. `own` is the end of this process's part: if it is a consequence of a
    /// loss, that is waited for.
    fn failure(&self, own: &FlowError) -> Option<PeerFailure>;

    /// This process's part is over, so all rows have come: ends the others. With `reports` it first waits for each
    /// one's report, for some seconds at most; those of peers without one are empty.
    fn end(&self, reports: bool) -> Vec<String>;
}

/// Why a peer's part has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFailure {
    /// The peer, and why.
    pub message: String,
    /// The machines, or the peer's data, were at fault: others can answer the query.
    pub is_loss: bool,
    /// The name of the peer at fault, if it is known.
    pub peer: Option<String>,
    /// The name of the peer that told of it, if that is another one: it can't reach a third one.
    pub told_by: Option<String>,
}

impl fmt::Display for PeerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PeerFailure {}

impl From<PeerFailure> for Error {
    fn from(failure: PeerFailure) -> Error {
        Error::Failed { name: "another process".to_owned(), error: Arc::new(failure) }
    }
}

/// A query's text, and who may share its work.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) peers: Arc<dyn Peers>,
    pub(crate) team: Arc<PeerTeam>,
    /// The name of the text's language.
    language: &'static str,
    pub(crate) text: Arc<str>,
}

impl Shared {
    /// Those who may share a text's work, now or later. `None` if there are none, or if the text depends on what is not
    /// sent.
    pub(crate) fn of(session: &Session, checked: &CheckedText, threads: usize) -> Option<Shared> {
        let options = session.options();
        let (peers, text) = (options.peers.as_ref()?, checked.text()?);
        let is_sent = options.given.is_empty() && options.languages.sparql.limits == SparqlLimits::default();
        let team = is_sent.then(|| peers.team(threads))?;
        let language = checked.language().name();
        (team.machines.count() > 1 || team.lacks_some).then(|| Shared {
            peers: Arc::clone(peers),
            team,
            language,
            text: Arc::clone(text),
        })
    }

    /// The words that a peer needs to make the same plan, and to run its part.
    pub(crate) fn job(&self, session: &Session, digest: u64, threads: usize, moment: Moment) -> String {
        let options = session.options();
        let sparql = &options.languages.sparql;
        let names = |names: &[NamedNode]| names.iter().map(|name| name.as_str().to_owned()).collect();
        let machines = &self.team.machines;
        let job = PartJob {
            language: self.language.to_owned(),
            text: self.text.to_string(),
            base: options.base.clone(),
            longer: sparql.longer,
            path_signs: sparql.path_signs,
            strict_functions: sparql.strict_functions,
            rdf_12: sparql.rdf_12,
            is_union: sparql.default_graph == DefaultGraph::Union,
            cache_bytes: sparql.cache_bytes,
            graphs: options.graphs.as_ref().map(|graphs| (names(&graphs.default), names(&graphs.named))),
            text_limits: (options.text.bytes, options.text.depth),
            longest_iri: options.longest_iri,
            threads,
            plan: PartPlan {
                envelope_rows: options.plan.envelope_rows,
                via_envelopes: options.plan.via_envelopes,
                parallel_rows: options.plan.parallel_rows,
                optimise: options.plan.optimise,
                plan_steps: options.plan.plan_steps,
                hash_seed: options.plan.hash_seed,
                machines: (0..machines.count()).map(|machine| machines.threads(machine)).collect(),
                network: (machines.latency_ns, machines.bytes_per_second),
                always: machines.always,
            },
            moment: (moment.now_ms, moment.seed),
            digest,
            place: session.dataset().place().map(|place| (place.store, place.sequence)),
            fingerprint: session.dataset().snapshot().fingerprint(),
        };
        serde_json::to_string(&job).expect("words and numbers are JSON")
    }
}

/// See [`Shared::job`].
#[derive(Debug, Serialize, Deserialize)]
struct PartJob {
    language: String,
    text: String,
    base: Option<String>,
    longer: usize,
    path_signs: usize,
    strict_functions: bool,
    rdf_12: bool,
    is_union: bool,
    cache_bytes: u64,
    graphs: Option<(Vec<String>, Vec<String>)>,
    text_limits: (usize, usize),
    longest_iri: usize,
    threads: usize,
    plan: PartPlan,
    moment: (i64, u64),
    digest: u64,
    place: Option<(u64, u64)>,
    fingerprint: u64,
}

/// The options of planning by which all processes make one plan.
#[derive(Debug, Serialize, Deserialize)]
struct PartPlan {
    envelope_rows: usize,
    via_envelopes: usize,
    parallel_rows: usize,
    optimise: bool,
    plan_steps: u64,
    hash_seed: u64,
    /// Their threads.
    machines: Vec<usize>,
    /// Nanoseconds there and back, and bytes a second.
    network: (u64, u64),
    always: bool,
}

impl PartJob {
    fn options(&self) -> Result<SessionOptions, String> {
        let nodes = |names: &[String]| {
            names.iter().map(NamedNode::new).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())
        };
        let graphs = match &self.graphs {
            Some((default, named)) => Some(ReadGraphs { default: nodes(default)?, named: nodes(named)? }),
            None => None,
        };
        let mut options = SessionOptions {
            base: self.base.clone(),
            graphs,
            text: TextLimits { bytes: self.text_limits.0, depth: self.text_limits.1 },
            longest_iri: self.longest_iri,
            threads: Some(self.threads),
            plan: PlanOptions {
                envelope_rows: self.plan.envelope_rows,
                via_envelopes: self.plan.via_envelopes,
                parallel_rows: self.plan.parallel_rows,
                optimise: self.plan.optimise,
                plan_steps: self.plan.plan_steps,
                hash_seed: self.plan.hash_seed,
                machines: self.plan.machines(),
                ..PlanOptions::default()
            },
            ..SessionOptions::default()
        };
        let sparql = &mut options.languages.sparql;
        (sparql.longer, sparql.path_signs) = (self.longer, self.path_signs);
        (sparql.strict_functions, sparql.rdf_12) = (self.strict_functions, self.rdf_12);
        sparql.default_graph = if self.is_union { DefaultGraph::Union } else { DefaultGraph::Own };
        sparql.cache_bytes = self.cache_bytes;
        Ok(options)
    }
}

impl PartPlan {
    fn machines(&self) -> Machines {
        let mut machines = Machines::of(&self.machines, self.network.0, self.network.1);
        machines.always = self.always;
        machines
    }
}

/// The data of a process that runs parts of queries.
pub enum PeerData {
    /// These, and no others.
    Fixed(Dataset),
    /// A store that this process keeps.
    Store(Arc<Store>),
    /// The folder of a store, in which another process may be writing: it is read as far as a query needs.
    Folder(StoreFolder),
}

/// See [`PeerData::Folder`].
#[derive(Debug)]
pub struct StoreFolder {
    path: PathBuf,
    reader: Mutex<StoreReader>,
}

impl StoreFolder {
    /// The folder at this path.
    pub fn new(path: PathBuf) -> StoreFolder {
        StoreFolder { path, reader: Mutex::default() }
    }

    /// The data up to this record, or as far as they are there.
    ///
    /// # Errors
    /// There is no store, or it can't be read.
    pub fn read(&self, sequence: Option<u64>) -> Result<Dataset, Error> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |error: StoreError| Error::Store(Arc::new(error));
        let directory = SystemDirectory::open(&self.path).map_err(|error| of(error.into()))?;
        let (snapshot, place) = reader.read_at(&directory, sequence).map_err(of)?;
        Ok(Dataset::of_store(snapshot, place))
    }
}

/// Why a peer has no part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPart {
    /// The reason.
    pub message: String,
    /// Its data are not those of the query, or not yet: others may be able to.
    pub is_stale: bool,
}

impl NoPart {
    fn wrong(message: impl Into<String>) -> NoPart {
        NoPart { message: message.into(), is_stale: false }
    }

    fn stale(message: impl Into<String>) -> NoPart {
        NoPart { message: message.into(), is_stale: true }
    }
}

impl From<Error> for NoPart {
    fn from(error: Error) -> NoPart {
        NoPart::wrong(error.to_string())
    }
}

/// How a process runs parts of queries.
#[derive(Clone, Debug)]
pub struct PeerHostOptions {
    /// The most bytes that the boxes of one part may hold; a query may ask for less.
    pub memory: u64,
    /// The folder for temporary files of parts that outgrow their memory.
    pub temporary: Option<TemporaryFolder>,
    /// A part waits so long for records of the store that are not here yet.
    pub patience: Duration,
}

/// Runs parts of other processes' queries, over its own data.
pub struct PeerHost {
    service: Service,
    data: PeerData,
    options: PeerHostOptions,
}

/// A part ready to be submitted.
pub struct HostedPart {
    /// The network and its operators.
    pub part: PartOfPlan,
    /// How it is run.
    pub options: RequestOptions,
    /// The data that it reads.
    pub dataset: Dataset,
}

impl HostedPart {
    /// The counts of its boxes, for [`PeerRun::end`].
    pub fn report(boxes: &[Option<vicus::BoxId>], sends: &Sends, counts: &[BoxCounts]) -> String {
        Report::of(boxes, sends, counts).to_json()
    }
}

/// The crossings that leave from a part, each with the box that sends.
pub type Sends = Vec<(vicus::kit::ModelCrossing, vicus::BoxId)>;

impl PeerHost {
    /// With the threads of a service.
    pub fn new(service: Service, data: PeerData, options: PeerHostOptions) -> PeerHost {
        // A query reads what was there when it was asked, and more may have come before its part is made.
        if let PeerData::Store(store) = &data {
            store.keep_recent();
        }
        PeerHost { service, data, options }
    }

    /// Its threads.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Its threads, when it runs no parts any more.
    pub fn into_service(self) -> Service {
        self.service
    }

    /// Makes its part of a query. `goes_on` is asked from time to time while it waits for data.
    ///
    /// # Errors
    /// Its data are others, it makes another plan, or the query is wrong.
    pub fn part(
        &self,
        job: &str,
        own: usize,
        links: &dyn ModelLinks,
        memory: Option<u64>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<HostedPart, NoPart> {
        let job: PartJob = serde_json::from_str(job).map_err(|error| NoPart::wrong(format!("no part: {error}")))?;
        let dataset = self.data_of(&job, goes_on)?;
        let mut options = job.options().map_err(NoPart::wrong)?;
        let memory = memory.map_or(self.options.memory, |memory| memory.min(self.options.memory));
        options.limits.memory = Some(memory);
        let (now_ms, seed) = job.moment;
        let session = self.service.session(&dataset, options);
        let call = session.call()?;
        let reading = TextReading { allowance: &call.allowance, options: session.options() };
        let shared = language(&job.language).filter(|language| language.is_shared());
        let wrong = || NoPart::wrong(format!("it shares no texts of the language {}", job.language));
        let checked = shared.ok_or_else(wrong)?.read(&job.text, &reading)?;
        let prepared = checked.language().plan(&call, &checked)?;
        let plan = prepared.plan();
        if plan.places().is_empty() || plan.digest() != job.digest {
            return Err(NoPart::stale("it makes another plan for the query: its data or its program differ"));
        }
        let spill = self.options.temporary.as_ref().map(|folder| folder.spill(memory));
        let files = spill.as_ref().map(|spill| TemporaryFiles::beside(Arc::clone(&spill.scratch)));
        let surroundings = Surroundings { moment: Moment { now_ms, seed }, web: Arc::<Web>::default(), spill };
        let begun = plan.begin_part_any(own, links, &surroundings);
        let (part, _) = begun.ok_or_else(|| NoPart::wrong("it has no part of the plan"))?;
        let here = |id: BoxId| part.boxes.get(id.index()).copied().flatten();
        let runtime = call.session.service.runtime();
        runtime.record_operators(&part.model, || operator_infos(&plan.nodes(), here));
        let options = RequestOptions { overflows: files.map(|files| files as _), ..RequestOptions::from(memory) };
        Ok(HostedPart { part, options, dataset })
    }

    /// The data of a query. Waits for records that are not here yet.
    fn data_of(&self, job: &PartJob, goes_on: &dyn Fn() -> bool) -> Result<Dataset, NoPart> {
        let end = Instant::now() + self.options.patience;
        loop {
            let dataset = match &self.data {
                PeerData::Fixed(dataset) => dataset.clone(),
                PeerData::Store(store) => {
                    let (newest, place) = store.placed_snapshot();
                    let wanted = job.place.filter(|(number, _)| *number == place.store).map(|(_, sequence)| sequence);
                    // One with these terms, or else the one with others: it tells why there is no part.
                    let mut other = None;
                    let is_it = |snapshot: &Arc<Snapshot>| {
                        let is_it = snapshot.fingerprint() == job.fingerprint;
                        other = (!is_it).then(|| Arc::clone(snapshot));
                        is_it
                    };
                    let found = wanted.and_then(|sequence| store.recent_snapshot(sequence, is_it)).or(other);
                    let (snapshot, sequence) = found.zip(wanted).unwrap_or((newest, place.sequence));
                    Dataset::of_store(snapshot, StorePlace { sequence, ..place })
                }
                PeerData::Folder(folder) => folder.read(job.place.map(|(_, sequence)| sequence))?,
            };
            let (Some((store, wanted)), Some(place)) = (job.place, dataset.place()) else {
                return Self::same(dataset, job, || NoPart::wrong("it has other data"));
            };
            if place.store != store {
                return Err(NoPart::wrong("it has another store, and no copy of the one that is asked"));
            }
            if place.sequence == wanted {
                return Self::same(dataset, job, || {
                    NoPart::stale("its copy of the store has terms in another order: it was merged at another time")
                });
            }
            if place.sequence > wanted {
                let has = place.sequence;
                return Err(NoPart::stale(format!("it has records up to {has}, and the query reads up to {wanted}")));
            }
            if Instant::now() >= end || !goes_on() {
                let (has, waited) = (place.sequence, self.options.patience.as_millis());
                return Err(NoPart::stale(format!(
                    "it is behind: it has records up to {has}, and the query reads up to {wanted}; it waited {waited} \
                     ms"
                )));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn same(dataset: Dataset, job: &PartJob, differs: impl FnOnce() -> NoPart) -> Result<Dataset, NoPart> {
        if dataset.snapshot().fingerprint() == job.fingerprint { Ok(dataset) } else { Err(differs()) }
    }
}

impl fmt::Debug for PeerHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerHost").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The rows that one process has sent to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrossingCounts {
    /// The crossing's number.
    pub number: u32,
    /// The machine that sent.
    pub from: usize,
    /// The machine that received.
    pub to: usize,
    /// Envelopes.
    pub envelopes: u64,
    /// Rows in them.
    pub rows: u64,
    /// Bytes of their columns, as they were sent.
    pub bytes: u64,
}

/// The counts of a part, by the boxes of the whole model.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    boxes: Vec<CountsLine>,
    pub(crate) crossings: Vec<CrossingCounts>,
}

/// A box's counts: its place in the whole model, its own five numbers, and those of inputs and outputs.
#[derive(Debug, Serialize, Deserialize)]
struct CountsLine(usize, [u64; 5], Vec<[u64; 4]>, Vec<([u64; 5], bool)>);

impl Report {
    pub(crate) fn of(boxes: &[Option<vicus::BoxId>], sends: &Sends, counts: &[BoxCounts]) -> Report {
        let line = |(place, here): (usize, &Option<vicus::BoxId>)| {
            let BoxCounts { acts, read_near_bytes, read_far_bytes, spilled_bytes, busy_ns, inputs, outputs } =
                &counts[(*here)?.index()];
            let input = |input: &InputCounts| [input.envelopes, input.rows, input.near_bytes, input.far_bytes];
            let output = |output: &OutputCounts| {
                let OutputCounts { envelopes, rows, overdraft, dropped_envelopes, dropped_rows, ended } = *output;
                ([envelopes, rows, overdraft, dropped_envelopes, dropped_rows], ended)
            };
            let own = [*acts, *read_near_bytes, *read_far_bytes, *spilled_bytes, *busy_ns];
            Some(CountsLine(place, own, inputs.iter().map(input).collect(), outputs.iter().map(output).collect()))
        };
        let crossing = |(crossing, sends): &(vicus::kit::ModelCrossing, vicus::BoxId)| {
            let taken = counts[sends.index()].inputs.first().copied().unwrap_or_default();
            CrossingCounts {
                number: crossing.number,
                from: crossing.from,
                to: crossing.to,
                envelopes: taken.envelopes,
                rows: taken.rows,
                bytes: taken.near_bytes + taken.far_bytes,
            }
        };
        Report {
            boxes: boxes.iter().enumerate().filter_map(line).collect(),
            crossings: sends.iter().map(crossing).collect(),
        }
    }

    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers are JSON")
    }

    /// A peer's report; nothing if it has sent none.
    pub(crate) fn read(json: &str) -> Report {
        serde_json::from_str(json).unwrap_or_default()
    }

    /// Writes the counts into those of the whole model.
    pub(crate) fn fill(&self, counts: &mut [BoxCounts]) {
        for CountsLine(place, own, inputs, outputs) in &self.boxes {
            let Some(counts) = counts.get_mut(*place) else { continue };
            let [acts, read_near_bytes, read_far_bytes, spilled_bytes, busy_ns] = *own;
            let input = |&[envelopes, rows, near_bytes, far_bytes]: &[u64; 4]| InputCounts {
                envelopes,
                rows,
                near_bytes,
                far_bytes,
            };
            let output = |([envelopes, rows, overdraft, dropped_envelopes, dropped_rows], ended): &([u64; 5], bool)| {
                OutputCounts {
                    envelopes: *envelopes,
                    rows: *rows,
                    overdraft: *overdraft,
                    dropped_envelopes: *dropped_envelopes,
                    dropped_rows: *dropped_rows,
                    ended: *ended,
                }
            };
            *counts = BoxCounts {
                acts,
                read_near_bytes,
                read_far_bytes,
                spilled_bytes,
                busy_ns,
                inputs: inputs.iter().map(input).collect(),
                outputs: outputs.iter().map(output).collect(),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_come_back_at_the_places_of_the_whole_model() {
        let mut counts = vec![BoxCounts::default(); 3];
        let input = InputCounts { envelopes: 1, rows: 2, near_bytes: 3, far_bytes: 4 };
        let output = OutputCounts { envelopes: 5, rows: u64::MAX, ended: true, ..OutputCounts::default() };
        let told =
            BoxCounts { acts: 7, busy_ns: 9, inputs: vec![input], outputs: vec![output], ..BoxCounts::default() };
        let line =
            CountsLine(1, [told.acts, 0, 0, 0, told.busy_ns], vec![[1, 2, 3, 4]], vec![([5, u64::MAX, 0, 0, 0], true)]);
        let report = Report { boxes: vec![line, CountsLine(9, [0; 5], vec![], vec![])], crossings: Vec::new() };
        Report::read(&report.to_json()).fill(&mut counts);
        assert_eq!(counts, [BoxCounts::default(), told, BoxCounts::default()]);
        assert!(Report::read("").crossings.is_empty());
    }
}
