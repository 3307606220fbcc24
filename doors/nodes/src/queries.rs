//! Queries over nodes: the peers of a session, and the ways of a part's rows.

use crate::control::{AttemptId, Control, FromNode, Hello, ProcessAt, Run, ToNode, heard, line_of};
use crate::lead::LeadOptions;
use crate::link::{LinkLost, LinkOptions};
use crate::locked;
use crate::node::{VERSION, Ways, connect, is_lost, patience, window};
use crate::port::{inlet, outlet};
use crate::socket::ReadHalf;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufReader, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use vicus::kit::{ModelCrossing, ModelLinks};
use vicus::{BoxError, BoxModel, FlowError, Request, Schema, Turn};
use vicus_service::{Machines, PeerFailure, PeerRun, PeerTeam, Peers};

/// The ways of a query's rows: links, without words on their columns, which all processes know from the plan.
pub(crate) struct QueryLinks(pub(crate) Arc<Ways>);

impl ModelLinks for QueryLinks {
    fn send(&self, crossing: &ModelCrossing, schema: &Schema) -> BoxModel {
        match self.0.link(crossing.to) {
            Ok(link) => {
                self.0.sends_by(link.sending(crossing.number));
                outlet(link, crossing.number, schema)
            }
            Err(_) => failing().input(schema).output(&Schema::new::<&str>([])),
        }
    }

    fn receive(&self, crossing: &ModelCrossing, schema: &Schema) -> BoxModel {
        match self.0.link(crossing.from) {
            Ok(link) => inlet(link, crossing.number, crossing.from, schema),
            Err(_) => failing().output(schema),
        }
    }
}

/// A box in the place of a link that did not come, because the query was ended.
fn failing() -> BoxModel {
    let lost = || LinkLost("the query was ended before all its links were there".to_owned());
    BoxModel::new("lost", move || move |_: &mut Turn<'_>| -> Result<(), BoxError> { Err(lost().into()) })
}

/// How nodes are asked to share the work of queries.
#[derive(Clone, Debug, Default)]
pub struct QueryNodesOptions {
    /// The options of networks over nodes.
    pub lead: LeadOptions,
    /// Whether work is shared wherever it can be, and not only where several machines are expected to be quicker.
    pub always: bool,
}

/// Nodes that share the work of queries.
pub struct QueryNodes {
    options: QueryNodesOptions,
    nodes: Arc<Mutex<Vec<MeasuredNode>>>,
    /// Takes words on nodes that are left out and come back. Queries are asked without any that makes no part of them;
    /// without this, one that has no copy of the data is an error.
    tell: Option<Arc<Tell>>,
}

type Tell = dyn Fn(String) + Send + Sync;

/// A node, and its last measurement.
#[derive(Clone, Debug)]
struct MeasuredNode {
    address: String,
    threads: usize,
    latency_ns: u64,
    bytes_per_second: u64,
    /// The time until which it is left out.
    left_out_until: Option<Instant>,
    /// The reason that was told for leaving it out, if it has shared no query since.
    told: Option<String>,
    told_at: Option<Instant>,
}

impl MeasuredNode {
    /// Leaves it out for some seconds. Whether that is to be told: it was not, or another reason was.
    fn leave_out(&mut self, why: &str) -> bool {
        self.left_out_until = Some(Instant::now() + LEFT_OUT);
        let is_soon = self.told_at.is_some_and(|at| at.elapsed() < TOLD);
        let is_news = !is_soon && self.told.as_deref() != Some(why);
        if is_news {
            (self.told, self.told_at) = (Some(why.to_owned()), Some(Instant::now()));
        }
        is_news
    }
}

/// So long after a node was told to be left out, no other reason is told: one whose data are behind now and then would
/// fill a log.
const TOLD: Duration = Duration::from_secs(30);

/// A node that was lost or has other data is left out for so long.
const LEFT_OUT: Duration = Duration::from_secs(5);

/// The bytes that the network is measured with.
const MEASURED: usize = 1 << 20;

/// The longest time for them: a slower network is not worth its use.
const TRANSFER: Duration = Duration::from_secs(10);

/// While a query waits for nodes, it looks so often whether it goes on.
const LOOKED: Duration = Duration::from_millis(50);

/// How often the latency is measured: the least is taken.
const TRIES: usize = 5;

impl QueryNodes {
    /// Connects to nodes, and measures the network to each.
    ///
    /// # Errors
    /// One can't be reached, refuses, is no node, or has another version. One with other data is an error of queries.
    pub fn connect(addresses: &[String], options: QueryNodesOptions) -> Result<QueryNodes, String> {
        let known = |address: &String| {
            measured(address, &options.lead, options.lead.wait).map_err(|why| format!("{address}: {why}"))
        };
        let nodes = addresses.iter().map(known).collect::<Result<Vec<MeasuredNode>, String>>()?;
        Ok(QueryNodes { options, nodes: Arc::new(Mutex::new(nodes)), tell: None })
    }

    /// The variant for a server, which begins, and goes on, without nodes that can't be had or have other data, and
    /// tells why.
    pub fn expect(
        addresses: &[String],
        options: QueryNodesOptions,
        tell: impl Fn(String) + Send + Sync + 'static,
    ) -> QueryNodes {
        let known = |address: &String| {
            measured(address, &options.lead, Duration::ZERO).unwrap_or_else(|why| {
                tell(left_out(&format!("{address}: {why}")));
                MeasuredNode {
                    address: address.clone(),
                    threads: 1,
                    latency_ns: 0,
                    bytes_per_second: 1,
                    left_out_until: Some(Instant::now() + LEFT_OUT),
                    told: Some(why),
                    told_at: None,
                }
            })
        };
        let nodes = addresses.iter().map(known).collect();
        QueryNodes { options, nodes: Arc::new(Mutex::new(nodes)), tell: Some(Arc::new(tell)) }
    }

    /// Tells of those in a team whose leaving out was told: they have made their parts.
    fn tell_of_return(&self, team: &PeerTeam) {
        let Some(tell) = &self.tell else { return };
        let mut back = Vec::new();
        let mut nodes = locked(&self.nodes);
        // One may be left out since the team was made.
        for node in nodes.iter_mut().filter(|node| node.left_out_until.is_none() && team.names.contains(&node.address))
        {
            if node.told.take().is_some() {
                back.push(node.address.clone());
            }
        }
        drop(nodes);
        back.iter().for_each(|address| tell(format!("{address}: it shares the work of queries again")));
    }

    /// Measures a node on a thread of its own, behind a time without it: a silent one takes seconds. Without a thread
    /// it is left out for some time more.
    fn look_for(&self, address: String) {
        let (nodes, options, tell) = (Arc::clone(&self.nodes), self.options.lead.clone(), self.tell.clone());
        let look = move || {
            let found = measured(&address, &options, Duration::ZERO);
            let mut nodes = locked(&nodes);
            let Some(node) = nodes.iter_mut().find(|node| node.address == address) else { return };
            let news = match found {
                Ok(known) => {
                    *node = MeasuredNode { told: node.told.take(), told_at: node.told_at, ..known };
                    None
                }
                Err(why) => {
                    let why = format!("{address}: {why}");
                    node.leave_out(&why).then_some(why)
                }
            };
            drop(nodes);
            if let (Some(why), Some(tell)) = (news, tell) {
                tell(left_out(&why));
            }
        };
        drop(thread::Builder::new().name("vicus-measure".to_owned()).spawn(look));
    }

    fn hello(&self) -> Hello {
        Hello { version: VERSION.to_owned(), token: self.options.lead.token.clone(), link: None }
    }
}

/// The words on a node that is left out.
fn left_out(why: &str) -> String {
    format!("{why}; it is left out until it can be had")
}

/// Connects to a node, and measures the network.
fn measured(address: &str, options: &LeadOptions, wait: Duration) -> Result<MeasuredNode, String> {
    let hello = Hello { version: VERSION.to_owned(), token: options.token.clone(), link: None };
    let (mut from, (threads, _)) = connect(address, &hello, options, wait)?;
    let mut to = from.get_ref().write_half().map_err(|error| error.to_string())?;
    let _ = to.set_nodelay();
    let mut trip = |bytes: usize, most: Duration| -> Result<Duration, String> {
        let _ = from.get_mut().set_read_timeout(most);
        let line = line_of(&ToNode::Measure("x".repeat(bytes))).map_err(|error| error.to_string())?;
        let began = Instant::now();
        to.write_all(&line).map_err(|error| error.to_string())?;
        match heard(&mut from, address, most) {
            Ok(FromNode::Measured) => Ok(began.elapsed()),
            Ok(_) => Err("it answers another question".to_owned()),
            Err(lost) => Err(lost.0),
        }
    };
    let trips = (0..TRIES).map(|_| trip(0, patience(options))).collect::<Result<Vec<Duration>, String>>()?;
    let latency = trips.into_iter().min().unwrap_or_default();
    let transfer = trip(MEASURED, TRANSFER)?.saturating_sub(latency).max(Duration::from_nanos(1));
    Ok(MeasuredNode {
        address: address.to_owned(),
        threads,
        latency_ns: u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX),
        bytes_per_second: (MEASURED as f64 / transfer.as_secs_f64()) as u64,
        left_out_until: None,
        told: None,
        told_at: None,
    })
}

impl Peers for QueryNodes {
    fn team(&self, threads: usize) -> Arc<PeerTeam> {
        let mut nodes = locked(&self.nodes);
        let now = Instant::now();
        for node in nodes.iter_mut().filter(|node| node.left_out_until.is_some_and(|until| until <= now)) {
            // It may be back. Queries go on without it meanwhile.
            node.left_out_until = Some(now + LEFT_OUT);
            self.look_for(node.address.clone());
        }
        let there: Vec<&MeasuredNode> =
            nodes.iter().filter(|node| node.left_out_until.is_none()).take(Machines::MOST - 1).collect();
        let threads: Vec<usize> = std::iter::once(threads).chain(there.iter().map(|node| node.threads)).collect();
        let latency = there.iter().map(|node| node.latency_ns).max().unwrap_or(0);
        let bandwidth = there.iter().map(|node| node.bytes_per_second).min().unwrap_or(1);
        let mut machines = Machines::of(&threads, latency, bandwidth);
        machines.always = self.options.always;
        let names: Vec<String> = there.iter().map(|node| node.address.clone()).collect();
        let lacks_some = names.len() < nodes.len().min(Machines::MOST - 1);
        drop(nodes);
        Arc::new(PeerTeam { machines, names, lacks_some })
    }

    fn leave_out(&self, name: &str, why: &str) {
        let mut nodes = locked(&self.nodes);
        let Some(node) = nodes.iter_mut().find(|node| node.address == name) else { return };
        let is_news = node.leave_out(why);
        drop(nodes);
        if let Some(tell) = self.tell.as_ref().filter(|_| is_news) {
            tell(left_out(why));
        }
    }

    fn begin(
        &self,
        team: &PeerTeam,
        job: &str,
        memory: Option<u64>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Arc<dyn PeerRun>, PeerFailure> {
        let LeadOptions { token, roots, silence, .. } = self.options.lead.clone();
        let (hello, machines) = (self.hello(), &team.machines);
        let mut connections = Vec::with_capacity(team.names.len());
        for (number, name) in team.names.iter().enumerate() {
            let (from, _) = connect(name, &hello, &self.options.lead, Duration::ZERO).map_err(|why| PeerFailure {
                message: format!("node {} ({name}): {why}", number + 1),
                is_loss: true,
                peer: Some(name.clone()),
                told_by: None,
            })?;
            connections.push(from);
        }
        let at = |address: Option<&String>, machine: usize| ProcessAt {
            address: address.cloned(),
            threads: machines.threads(machine),
            nodes: 1,
        };
        let others = team.names.iter().enumerate().map(|(number, name)| at(Some(name), number + 1));
        let processes: Vec<ProcessAt> = std::iter::once(at(None, 0)).chain(others).collect();
        // Each hasher of the standard library has keys of its own by chance.
        let attempt: AttemptId = RandomState::new().hash_one(std::process::id());
        let run = |own| Run {
            attempt,
            name: String::new(),
            text: String::new(),
            set: Vec::new(),
            own,
            processes: processes.clone(),
            token: token.clone(),
            roots: roots.as_ref().map(|roots| roots.pem().to_owned()),
            memory,
            silence_ms: u64::try_from(silence.as_millis()).unwrap_or(u64::MAX),
            job: Some(job.to_owned()),
            is_staged: false,
            is_counted: false,
            attached: BTreeMap::new(),
        };
        let options = LinkOptions { silence, window: window(memory.unwrap_or(u64::MAX)) };
        let ways = Arc::new(Ways::new(&run(0), roots.clone(), options));
        let shared = Arc::new(PartListeners {
            ways: Arc::clone(&ways),
            links: QueryLinks(ways),
            names: team.names.clone(),
            silence,
            is_lenient: self.tell.is_some(),
            state: Mutex::new(AskedState {
                failure: None,
                own: None,
                reports: vec![None; connections.len()],
                ready: 0,
                controls: Vec::new(),
            }),
            changed: Condvar::new(),
        });
        // Dropped with an error, it ends what has begun.
        let handle = AskedNodes(Arc::clone(&shared));
        for (number, from) in connections.into_iter().enumerate() {
            shared.tell(number, from, run(number + 1)).map_err(|error| shared.lost(number, &error.to_string()))?;
        }
        if let Err(why) = shared.ways.connect_all() {
            let number = shared.ways.lost().map_or(0, |(process, _)| process.saturating_sub(1));
            let failure = locked(&shared.state).failure.take();
            return Err(failure.map_or_else(|| shared.lost(number, &why), |(_, failure)| failure));
        }
        // No row is handed out before all have the same data and the same plan.
        loop {
            let waits = |state: &mut AskedState| state.failure.is_none() && state.ready < team.names.len();
            let waited = shared.changed.wait_timeout_while(locked(&shared.state), LOOKED, waits);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if let Some((_, failure)) = state.failure.take() {
                return Err(failure);
            }
            if state.ready == team.names.len() {
                break;
            }
            drop(state);
            if !goes_on() {
                return Err(PeerFailure {
                    message: "it was ended".to_owned(),
                    is_loss: false,
                    peer: None,
                    told_by: None,
                });
            }
        }
        self.tell_of_return(team);
        Ok(Arc::new(handle))
    }
}

impl fmt::Debug for QueryNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryNodes").field("nodes", &*locked(&self.nodes)).finish_non_exhaustive()
    }
}

/// A query's parts in nodes. Dropped, they are cancelled.
struct AskedNodes(Arc<PartListeners>);

/// Shared by the query and the threads that listen to its nodes.
struct PartListeners {
    ways: Arc<Ways>,
    links: QueryLinks,
    names: Vec<String>,
    silence: Duration,
    /// A node that makes no part is done without, whatever the reason.
    is_lenient: bool,
    state: Mutex<AskedState>,
    /// A node has done its part, or something has failed.
    changed: Condvar,
}

struct AskedState {
    /// The first failure, and whether it is a consequence of another one.
    failure: Option<(bool, PeerFailure)>,
    /// The request of this process.
    own: Option<Arc<Request>>,
    /// By node, when it has done its part.
    reports: Vec<Option<String>>,
    /// How many have made their parts.
    ready: usize,
    controls: Vec<Arc<Control>>,
}

impl PartListeners {
    fn lost(&self, number: usize, why: &str) -> PeerFailure {
        let name = &self.names[number];
        let message = format!("node {} ({name}): {why}", number + 1);
        PeerFailure { message, is_loss: true, peer: Some(name.clone()), told_by: None }
    }

    /// Tells a node its part, and has a thread listen to it.
    fn tell(self: &Arc<PartListeners>, number: usize, mut from: BufReader<ReadHalf>, run: Run) -> std::io::Result<()> {
        let silence = self.silence;
        let to = from.get_ref().write_half()?;
        from.get_mut().set_read_timeout(silence)?;
        let control = Control::start(to, ToNode::Alive, silence)?;
        control.send(&ToNode::Run(Box::new(run)))?;
        locked(&self.state).controls.push(control);
        let (asked, peer) = (Arc::clone(self), format!("node {} ({})", number + 1, self.names[number]));
        let listens = move || {
            let mut is_ready = false;
            loop {
                match heard(&mut from, &peer, silence) {
                    // The last two belong to networks.
                    Ok(FromNode::Alive | FromNode::Measured | FromNode::Has(_) | FromNode::Committed) => {}
                    Ok(FromNode::Ready) => {
                        is_ready = true;
                        locked(&asked.state).ready += 1;
                        asked.changed.notify_all();
                    }
                    Ok(FromNode::Done { report, .. }) => {
                        locked(&asked.state).reports[number] = Some(report.unwrap_or_default());
                        asked.changed.notify_all();
                    }
                    Ok(FromNode::Failed { message, is_lost, is_stale }) => {
                        let message = format!("node {} ({}): {message}", number + 1, asked.names[number]);
                        // This process has planned the query well, so what the node lacks is its own fault.
                        let is_unfit = is_stale || asked.is_lenient && !is_ready && !is_lost;
                        let (told_by, is_loss) = (Some(asked.names[number].clone()), is_lost || is_unfit);
                        let peer = told_by.clone().filter(|_| is_unfit);
                        asked.fail(is_lost, PeerFailure { message, is_loss, peer, told_by });
                        return;
                    }
                    Err(lost) => {
                        // One that has done its part has sent all of its rows.
                        if locked(&asked.state).reports[number].is_none() {
                            let peer = Some(asked.names[number].clone());
                            asked.fail(false, PeerFailure { message: lost.0, is_loss: true, peer, told_by: None });
                        }
                        return;
                    }
                }
            }
        };
        thread::Builder::new().name("vicus-query".to_owned()).spawn(listens)?;
        Ok(())
    }

    /// Notes a failure, and ends all parts.
    fn fail(&self, is_consequence: bool, failure: PeerFailure) {
        let (own, controls) = {
            let mut state = locked(&self.state);
            match &state.failure {
                Some((was_consequence, _)) if is_consequence || !was_consequence => {}
                _ => state.failure = Some((is_consequence, failure)),
            }
            (state.own.clone(), state.controls.clone())
        };
        self.changed.notify_all();
        self.ways.cancel();
        own.iter().for_each(|own| own.cancel());
        for control in controls {
            // One that is gone is cancelled already.
            let _ = control.send(&ToNode::Cancel);
        }
    }
}

impl PeerRun for AskedNodes {
    fn links(&self) -> &dyn ModelLinks {
        &self.0.links
    }

    fn watch(&self, own: &Arc<Request>) {
        let has_failed = {
            let mut state = locked(&self.0.state);
            state.own = Some(Arc::clone(own));
            state.failure.is_some()
        };
        if has_failed {
            own.cancel();
        }
    }

    fn failure(&self, own: &FlowError) -> Option<PeerFailure> {
        let is_consequence = is_lost(own) && !matches!(own, FlowError::Cancelled);
        // A lost link is a consequence of a lost node, which its silence tells.
        let unknown = |state: &mut AskedState| match &state.failure {
            Some((is_consequence, _)) => *is_consequence,
            None => is_consequence,
        };
        let waited = self.0.changed.wait_timeout_while(locked(&self.0.state), self.0.silence * 2, unknown);
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let known = state.failure.as_ref().map(|(_, failure)| failure.clone());
        let unnamed = || PeerFailure { message: own.to_string(), is_loss: true, peer: None, told_by: None };
        known.or_else(|| is_consequence.then(unnamed))
    }

    fn end(&self, reports: bool) -> Vec<String> {
        let state = locked(&self.0.state);
        let goes_on =
            |state: &mut AskedState| reports && state.failure.is_none() && state.reports.iter().any(Option::is_none);
        let waited = self.0.changed.wait_timeout_while(state, self.0.silence * 5, goes_on);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let told = state.reports.iter_mut().map(|report| report.take().unwrap_or_default()).collect();
        // What comes after the end is no failure.
        state.reports.fill(Some(String::new()));
        let controls = state.controls.clone();
        drop(state);
        for control in controls {
            let _ = control.send(&ToNode::Over);
        }
        self.0.ways.end();
        told
    }
}

impl Drop for AskedNodes {
    fn drop(&mut self) {
        self.0.ways.cancel();
        self.0.ways.end();
        let mut state = locked(&self.0.state);
        state.own = None;
        let controls = std::mem::take(&mut state.controls);
        drop(state);
        controls.iter().for_each(|control| control.end());
    }
}
