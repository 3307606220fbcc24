//! The process that begins a network: it sends the text to the nodes, runs its own part, and waits for all.

use crate::control::{AttemptId, Control, FromNode, Hello, ProcessAt, Run, ToNode, heard, say};
use crate::counts::CountedBox;
use crate::link::LinkOptions;
use crate::node::{VERSION, Ways, connect, is_lost, window};
use crate::socket::ReadHalf;
use crate::staging::Staging;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::BufReader;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use vicus::{FlowError, Request};
use vicus_network::{Kinds, MachineCounts, Network, NetworkError, NetworkPart, NetworkText};
use vicus_service::TlsRoots;

/// How a network is run over several processes.
#[derive(Clone, Debug)]
pub struct LeadOptions {
    /// The token of the nodes.
    pub token: Option<String>,
    /// Processes connect to each other by TLS alone, and trust certificates of these roots. Without them, token and
    /// rows travel as they are: beyond one machine, through a tunnel or a private network.
    pub roots: Option<TlsRoots>,
    /// The bytes of memory that the boxes of each process may hold; by default a node's own limit.
    pub memory: Option<u64>,
    /// A process that has sent nothing for so long is lost; one second by default.
    pub silence: Duration,
    /// A node where nobody listens may yet be starting, and is waited for so long; three seconds by default.
    pub wait: Duration,
    /// Whether nodes measure and tell the work of their boxes.
    pub is_counted: bool,
}

impl Default for LeadOptions {
    fn default() -> LeadOptions {
        LeadOptions {
            token: None,
            roots: None,
            memory: None,
            silence: Duration::from_secs(1),
            wait: Duration::from_secs(3),
            is_counted: false,
        }
    }
}

/// Why a network over several processes has ended.
#[derive(Debug)]
pub enum LeadError {
    /// A node can't be had.
    Node {
        /// Its address.
        address: String,
        /// Why.
        why: String,
    },
    /// A node has failed its part: a box there, its text or its memory.
    Failed {
        /// The node's number.
        node: usize,
        /// Its address.
        address: String,
        /// Its error.
        message: String,
        /// Whether it only lost another process, so that no box is at fault.
        is_loss: bool,
    },
    /// A node was lost while the network ran.
    Lost {
        /// The node's number.
        node: usize,
        /// Its address.
        address: String,
        /// How that was noticed.
        why: String,
    },
    /// The text is wrong in the part of this process.
    Text(NetworkError),
    /// The part of this process has failed.
    Own(FlowError),
    /// The network was to be run again if a node is lost, and this box or parameter reads or writes what comes once.
    Once {
        /// Its name in the text.
        name: String,
    },
    /// Boxes are to run on the nodes of a file, and none has it.
    Nowhere {
        /// The file.
        file: String,
    },
    /// All rows are there, and a file that this process has written can't be put in its place.
    File {
        /// The system's error.
        why: String,
    },
}

impl fmt::Display for LeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeadError::Node { address, why } => write!(f, "{address}: {why}"),
            LeadError::Failed { node, address, message, .. } => write!(f, "node {node} ({address}): {message}"),
            LeadError::Lost { node, address, why } => {
                write!(f, "node {node} ({address}) was lost while the network ran: {why}")
            }
            LeadError::Text(error) => error.fmt(f),
            LeadError::Own(error) => error.fmt(f),
            LeadError::Once { name } => {
                write!(f, "what `{name}` reads or writes comes once, so the network can't be run again")
            }
            LeadError::Nowhere { file } => write!(f, "boxes are to run on the nodes of {file:?}, and none has it"),
            LeadError::File { why } => write!(f, "the rows are written, and not in their place: {why}"),
        }
    }
}

impl LeadError {
    /// Whether the machines were at fault, so that the network may go well when it is run again.
    pub fn is_loss(&self) -> bool {
        match self {
            LeadError::Lost { .. } => true,
            LeadError::Failed { is_loss, .. } => *is_loss,
            LeadError::Own(error) => !matches!(error, FlowError::Cancelled) && is_lost(error),
            LeadError::Node { .. }
            | LeadError::Text(_)
            | LeadError::Once { .. }
            | LeadError::Nowhere { .. }
            | LeadError::File { .. } => false,
        }
    }
}

impl std::error::Error for LeadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LeadError::Own(error) => error.source(),
            _ => None,
        }
    }
}

/// The nodes of a network to be begun.
pub struct Lead {
    options: LeadOptions,
    nodes: Vec<Connected>,
    attempt: AttemptId,
    staging: Option<Staging>,
    attached: BTreeMap<String, String>,
}

struct Connected {
    address: String,
    from: BufReader<ReadHalf>,
    machine: MachineCounts,
}

impl Lead {
    /// Connects to nodes: they are 1, 2, … in texts. Each of `spares` takes the number of one that can't be had.
    ///
    /// # Errors
    /// One can't be reached, refuses, is no node, or has another version, and no spare is left.
    pub fn connect(addresses: &[String], spares: &[String], options: LeadOptions) -> Result<Lead, LeadError> {
        let hello = Hello { version: VERSION.to_owned(), token: options.token.clone(), link: None };
        let node = |address: &String| {
            let (from, (threads, nodes)) = connect(address, &hello, &options, options.wait)
                .map_err(|why| LeadError::Node { address: address.clone(), why })?;
            Ok(Connected { address: address.clone(), from, machine: MachineCounts { threads, nodes } })
        };
        let mut spares = spares.iter();
        let node_or_spare = |address| {
            let first = node(address);
            first.or_else(|error| spares.find_map(|spare| node(spare).ok()).ok_or(error))
        };
        let nodes = addresses.iter().map(node_or_spare).collect::<Result<_, LeadError>>()?;
        // Each hasher of the standard library has keys of its own by chance.
        let attempt = RandomState::new().hash_one(std::process::id());
        Ok(Lead { options, nodes, attempt, staging: None, attached: BTreeMap::new() })
    }

    /// Has files written beside their places until all parts of the network are done, in all processes, so that what a
    /// lost node has written is not seen, and the network can be run again.
    #[must_use]
    pub fn staged(self) -> Lead {
        Lead { staging: Some(Staging::default()), ..self }
    }

    /// Sends a text to all nodes besides the network's, for kinds of boxes that need more than their parameters: see
    /// [`NodeServer::with_attached`](crate::NodeServer::with_attached).
    #[must_use]
    pub fn attach(mut self, name: &str, text: String) -> Lead {
        self.attached.insert(name.to_owned(), text);
        self
    }

    /// The text with the nodes that have its files, if it places boxes by them: the nodes are asked.
    fn placed(&mut self, text: &NetworkText) -> Result<Option<NetworkText>, LeadError> {
        let files: Vec<String> = text.files_of_nodes().into_iter().map(str::to_owned).collect();
        if files.is_empty() {
            return Ok(None);
        }
        let silence = self.options.silence;
        let mut nodes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let Connected { address, from, .. } = node;
            let told = |why: String| LeadError::Node { address: address.clone(), why };
            let mut asked = || {
                from.get_mut().set_read_timeout(silence)?;
                let mut to = from.get_ref().write_half()?;
                say(&mut to, &ToNode::Has(files.clone()))
            };
            asked().map_err(|error| told(error.to_string()))?;
            match heard(from, "the node", silence) {
                Ok(FromNode::Has(has)) if has.len() == files.len() => {
                    for (file, _) in files.iter().zip(has).filter(|(_, has)| *has) {
                        nodes.entry(file).or_default().push(number + 1);
                    }
                }
                Ok(_) => return Err(told("it does not say which files it has".to_owned())),
                Err(lost) => return Err(told(lost.0)),
            }
        }
        if let Some(file) = files.iter().find(|file| !nodes.contains_key(file.as_str())) {
            return Err(LeadError::Nowhere { file: file.clone() });
        }
        Ok(Some(text.placed(|file| nodes[file].clone())))
    }

    /// Sends the text to all nodes, which make their parts. `own` is this process's machine, and `memory` bounds what
    /// crossings may hold here.
    ///
    /// # Errors
    /// A node is gone.
    pub fn begin(
        mut self,
        text: &NetworkText,
        name: &str,
        set: &[(String, String)],
        own: MachineCounts,
        memory: u64,
    ) -> Result<Attempt, LeadError> {
        let placed = self.placed(text)?;
        let text = placed.as_ref().unwrap_or(text);
        let here = ProcessAt { address: None, threads: own.threads, nodes: own.nodes };
        let others = self.nodes.iter().map(|node| ProcessAt {
            address: Some(node.address.clone()),
            threads: node.machine.threads,
            nodes: node.machine.nodes,
        });
        let silence = self.options.silence;
        let run = |own| Run {
            attempt: self.attempt,
            name: name.to_owned(),
            text: text.to_json(),
            set: set.to_vec(),
            own,
            processes: std::iter::once(here.clone()).chain(others.clone()).collect(),
            token: self.options.token.clone(),
            roots: self.options.roots.as_ref().map(|roots| roots.pem().to_owned()),
            memory: self.options.memory,
            silence_ms: u64::try_from(silence.as_millis()).unwrap_or(u64::MAX),
            is_staged: self.staging.is_some(),
            is_counted: self.options.is_counted,
            attached: self.attached.clone(),
            job: None,
        };
        let own = run(0);
        let ways =
            Arc::new(Ways::new(&own, self.options.roots.clone(), LinkOptions { silence, window: window(memory) }));
        let machines = own.machines();
        let (sender, events) = mpsc::channel();
        let runs: Vec<Run> = (1..=self.nodes.len()).map(run).collect();
        let mut nodes = Vec::new();
        for (number, (node, run)) in self.nodes.into_iter().zip(runs).enumerate() {
            let Connected { address, mut from, .. } = node;
            let told = |error: std::io::Error| LeadError::Node { address: address.clone(), why: error.to_string() };
            let to = from.get_ref().write_half().map_err(told)?;
            from.get_mut().set_read_timeout(silence).map_err(told)?;
            let control = Control::start(to, ToNode::Alive, silence).map_err(told)?;
            let lost = |error: std::io::Error| LeadError::Lost {
                node: number + 1,
                address: address.clone(),
                why: error.to_string(),
            };
            control.send(&ToNode::Run(Box::new(run))).map_err(lost)?;
            let (peer, events) = (format!("node {} ({address})", number + 1), sender.clone());
            let own_ways = Arc::clone(&ways);
            let listens = move || {
                let mut is_done = false;
                loop {
                    let event = match heard(&mut from, &peer, silence) {
                        Ok(FromNode::Alive | FromNode::Measured | FromNode::Ready) => continue,
                        Ok(FromNode::Done { has_files, report }) => Event::Done { has_files, report },
                        Ok(FromNode::Committed) => Event::Committed,
                        // It was not asked.
                        Ok(FromNode::Has(_)) => continue,
                        Ok(FromNode::Failed { message, is_lost, .. }) => Event::Failed { message, is_lost },
                        Err(lost) => Event::Lost(lost.0),
                    };
                    let is_last = matches!(event, Event::Lost(_));
                    is_done |= matches!(event, Event::Done { .. });
                    if !is_done {
                        // The part of this process may yet be made, and wait for that node.
                        own_ways.cancel();
                    }
                    if events.send((number, event)).is_err() || is_last {
                        return;
                    }
                }
            };
            thread::Builder::new().name("vicus-lead".to_owned()).spawn(listens).map_err(told)?;
            nodes.push(NodeAt { address, control, is_done: false, report: None, has_files: false, lost: None });
        }
        Ok(Attempt { nodes, events, ways, machines, silence, staging: self.staging, placed })
    }
}

enum Event {
    Done { has_files: bool, report: Option<String> },
    Committed,
    Failed { message: String, is_lost: bool },
    Lost(String),
}

struct NodeAt {
    address: String,
    control: Arc<Control>,
    is_done: bool,
    /// The work of its boxes, if it was asked for.
    report: Option<String>,
    /// Whether its files are yet to get their places.
    has_files: bool,
    /// Why it is not heard any more, if that came behind its rows.
    lost: Option<String>,
}

/// A network that runs over several processes. Dropped, it is cancelled.
pub struct Attempt {
    nodes: Vec<NodeAt>,
    events: Receiver<(usize, Event)>,
    ways: Arc<Ways>,
    machines: Vec<MachineCounts>,
    silence: Duration,
    staging: Option<Staging>,
    /// The text, if it places boxes by files.
    placed: Option<NetworkText>,
}

impl Attempt {
    /// Makes this process's part; `None` if it has no boxes.
    ///
    /// # Errors
    /// The text is wrong, or another part has failed meanwhile.
    pub fn build(
        &mut self,
        text: &NetworkText,
        name: &str,
        kinds: &Kinds,
        set: &[(String, String)],
    ) -> Result<Option<Network>, LeadError> {
        let text = self.placed.as_ref().unwrap_or(text);
        let part = NetworkPart { processes: &self.machines, own: 0, border: &*self.ways };
        let connected = self.ways.connect_all();
        let staged = self.staging.as_ref().map(|staging| staging.kinds(kinds));
        let built = match connected {
            Ok(()) => text.build_part(name, staged.as_ref().unwrap_or(kinds), &part, set).map_err(Some),
            Err(_) => Err(None),
        };
        built.map_err(|error| {
            let lost =
                self.ways.lost().map(|(node, why)| (true, LeadError::Lost { node, address: self.address(node), why }));
            if let Some(error) = error
                && lost.is_none()
                && !self.ways.was_stopped()
            {
                return LeadError::Text(error);
            }
            // Another part has ended, and so did this one; that part's own error says more.
            self.ways.cancel();
            self.finish(None, lost, || true).err().unwrap_or(LeadError::Own(FlowError::Cancelled))
        })
    }

    fn address(&self, node: usize) -> String {
        node.checked_sub(1).and_then(|place| self.nodes.get(place)).map_or(String::new(), |node| node.address.clone())
    }

    /// Waits for the whole network. `own` is the request of this process's part, if it has one; `goes_on` is asked at
    /// least twenty times a second, and its no cancels all parts. A failed part ends the others. Gives the work of each
    /// node's boxes, in the order of nodes, if the options ask for it.
    ///
    /// # Errors
    /// The first part that failed, or the node that was lost. A process that only lost the link to such a one is not
    /// told of.
    pub fn wait(
        mut self,
        own: Option<&Request>,
        goes_on: impl FnMut() -> bool,
    ) -> Result<Vec<Vec<CountedBox>>, LeadError> {
        self.finish(own, None, goes_on)?;
        Ok(self.nodes.iter().map(|node| CountedBox::read(node.report.as_deref())).collect())
    }

    fn finish(
        &mut self,
        own: Option<&Request>,
        mut failure: Option<(bool, LeadError)>,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<(), LeadError> {
        /// The request of this process is looked at so often: soon at first, for short networks.
        const POLLED: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];
        let mut polled = POLLED[0];
        let mut own_is_over = own.is_none();
        let mut failed_at = None;
        loop {
            polled = (polled * 2).min(POLLED[1]);
            match self.events.recv_timeout(polled) {
                Ok((number, event)) => {
                    let (node, address) = (number + 1, self.nodes[number].address.clone());
                    match event {
                        Event::Done { has_files, report } => {
                            let node = &mut self.nodes[number];
                            (node.is_done, node.has_files, node.report) = (true, has_files, report);
                        }
                        // It comes when it was asked for, which is later.
                        Event::Committed => {}
                        Event::Failed { message, is_lost } => {
                            self.nodes[number].is_done = true;
                            let error = LeadError::Failed { node, address, message, is_loss: is_lost };
                            keep(&mut failure, is_lost, error);
                        }
                        // A node that has done its part has sent all its rows; its files may yet be missing.
                        Event::Lost(why) if self.nodes[number].is_done => self.nodes[number].lost = Some(why),
                        Event::Lost(why) => {
                            self.nodes[number].is_done = true;
                            keep(&mut failure, false, LeadError::Lost { node, address, why });
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => thread::sleep(polled),
            }
            if !goes_on() {
                keep(&mut failure, false, LeadError::Own(FlowError::Cancelled));
            }
            if !own_is_over && let Some(outcome) = own.and_then(|own| own.wait_for(Duration::ZERO)) {
                own_is_over = true;
                if let Err(error) = outcome {
                    let is_consequence = is_lost(&error) && self.nodes.iter().any(|node| !node.is_done);
                    keep(&mut failure, is_consequence, LeadError::Own(error));
                }
            }
            if failure.is_some() && failed_at.is_none() {
                failed_at = Some(Instant::now());
                self.ways.cancel();
                own.into_iter().for_each(Request::cancel);
                for node in &self.nodes {
                    // One that is gone is cancelled already.
                    let _ = node.control.send(&ToNode::Cancel);
                }
            }
            let is_over = own_is_over && self.nodes.iter().all(|node| node.is_done);
            let is_late = failed_at.is_some_and(|at| at.elapsed() > self.silence * 2) && own_is_over;
            if is_over || is_late {
                break;
            }
        }
        match failure {
            Some((_, error)) => Err(error),
            None => {
                self.commit()?;
                for node in &self.nodes {
                    let _ = node.control.send(&ToNode::Over);
                }
                self.ways.end();
                Ok(())
            }
        }
    }
}

impl Attempt {
    /// Gives the files that all processes have written their places. All parts are done. A node that is lost meanwhile
    /// is an error like one that was lost before: the network can be run again, since a file that has its place already
    /// is written anew.
    fn commit(&self) -> Result<(), LeadError> {
        let Some(staging) = &self.staging else { return Ok(()) };
        let lost = |number: usize, why: String| LeadError::Lost {
            node: number + 1,
            address: self.nodes[number].address.clone(),
            why,
        };
        // The others have nothing to do, and may be gone.
        let with_files = || self.nodes.iter().enumerate().filter(|(_, node)| node.has_files);
        if let Some((number, why)) = with_files().find_map(|(number, node)| Some((number, node.lost.clone()?))) {
            return Err(lost(number, why));
        }
        for (number, node) in with_files() {
            node.control.send(&ToNode::Commit).map_err(|error| lost(number, error.to_string()))?;
        }
        staging.commit().map_err(|error| LeadError::File { why: error.to_string() })?;
        let mut open: Vec<bool> = self.nodes.iter().map(|node| node.has_files).collect();
        while open.contains(&true) {
            // Each node's thread sends its loss at last, so there is an event as long as one is open.
            let (number, event) = self.events.recv().expect("a thread listens to each node that is open");
            match event {
                Event::Committed => open[number] = false,
                Event::Failed { message, is_lost } if open[number] => {
                    let address = self.nodes[number].address.clone();
                    return Err(LeadError::Failed { node: number + 1, address, message, is_loss: is_lost });
                }
                Event::Lost(why) if open[number] => return Err(lost(number, why)),
                Event::Done { .. } | Event::Failed { .. } | Event::Lost(_) => {}
            }
        }
        Ok(())
    }
}

/// Keeps the first error, but rather one that is no consequence of another.
fn keep(failure: &mut Option<(bool, LeadError)>, is_consequence: bool, error: LeadError) {
    match failure {
        Some((true, _)) if !is_consequence => *failure = Some((false, error)),
        Some(_) => {}
        None => *failure = Some((is_consequence, error)),
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.ways.cancel();
        self.ways.end();
        self.nodes.iter().for_each(|node| node.control.end());
    }
}
