//! A network over nodes from its beginning to its end, also if nodes are lost on the way.

use crate::counts::CountedBox;
use crate::lead::{Lead, LeadError, LeadOptions};
use std::borrow::Cow;
use vicus::kit::machine::MachineRuntime;
use vicus::{BoxId, Operator, Request, RequestOptions};
use vicus_network::{Kinds, MachineCounts, Network, NetworkText};

/// A network that is run over nodes.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use vicus::{RequestOptions, Runtime, library};
/// use vicus_network::{Kinds, NetworkText};
/// use vicus_nodes::{LeadOptions, NodeOptions, NodeServer, NodesRun};
///
/// // A node, which stands for another machine.
/// let runtime = Runtime::builder().threads(1).start();
/// let options = NodeOptions { token: None, certificate: None, memory: 1 << 30, overflows: None, nodes: 1 };
/// let node = NodeServer::listen("127.0.0.1:0", runtime, Kinds::library(), options)?;
/// let (address, is_over) = (node.address()?.to_string(), Arc::new(std::sync::atomic::AtomicBool::new(false)));
/// let over = Arc::clone(&is_over);
/// let serves = std::thread::spawn(move || node.serve(|| over.load(std::sync::atomic::Ordering::Relaxed)));
///
/// let text: NetworkText = "box n = numbers(to: 1000) on node 1; box few = filter(where: \"n < 3\") on node 1;
///     box rows = collect; n -> few -> rows;".parse()?;
/// let run = NodesRun {
///     text: &text,
///     name: "few",
///     kinds: &Kinds::library(),
///     set: &[],
///     runtime: &Runtime::builder().threads(1).start(),
///     request: RequestOptions::from(1 << 30),
///     nodes: &[address],
///     spares: &[],
///     retries: 2,
///     attached: &[],
///     options: LeadOptions::default(),
/// };
/// let ran = run.run(
///     |network| {
///         let rows = Arc::new(Mutex::new(0));
///         let kept = Arc::clone(&rows);
///         let count = library::sink_operator(move |envelope| {
///             *kept.lock().unwrap() += envelope.rows();
///             Ok(())
///         });
///         (vec![(network.collected[0].sink, Box::new(count) as _)], rows)
///     },
///     || true,
///     |_| None,
/// )?;
/// let (_, _, rows) = ran.part.expect("rows are collected here");
/// assert_eq!(*rows.lock().unwrap(), 3);
/// is_over.store(true, std::sync::atomic::Ordering::Relaxed);
/// serves.join().unwrap()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct NodesRun<'a> {
    /// The network.
    pub text: &'a NetworkText,
    /// Its name, for people.
    pub name: &'a str,
    /// The kinds of boxes of this process.
    pub kinds: &'a Kinds,
    /// Values of the network's parameters.
    pub set: &'a [(String, String)],
    /// The threads for the boxes of this process.
    pub runtime: &'a MachineRuntime,
    /// The bounds of the boxes of this process.
    pub request: RequestOptions,
    /// Addresses, host:port, of the nodes 1, 2, …. Without any, the network runs in this process.
    pub nodes: &'a [String],
    /// Nodes that take the numbers of those that can't be reached.
    pub spares: &'a [String],
    /// How often the network is run again, from its beginning, when a node was lost.
    pub retries: u32,
    /// Texts for kinds of the nodes, by name: see [`Lead::attach`].
    pub attached: &'a [(String, String)],
    /// How the nodes are reached.
    pub options: LeadOptions,
}

/// A network that has done well.
pub struct RanOverNodes<T> {
    /// The part of this process, its request, and what the caller has kept for it; `None` if no box runs here.
    pub part: Option<(Network, Request, T)>,
    /// The work of each node's boxes, in the order of nodes, if [`LeadOptions::is_counted`] asks for it.
    pub counts: Vec<Vec<CountedBox>>,
    /// How often nodes were lost before.
    pub losses: u32,
}

/// The part of this process, after its network has done well, and the work of each node's boxes.
type Once<T> = (Option<(Network, Request, T)>, Vec<Vec<CountedBox>>);

/// The operators of collected boxes, and what the caller keeps of their rows.
type Kept<T> = (Vec<(BoxId, Box<dyn Operator>)>, T);

impl NodesRun<'_> {
    /// Runs the network until it has done well, or can't be run again.
    ///
    /// `operators` gives the operators of the boxes that collect rows, and what they are kept in: anew for each run,
    /// since rows of a run that lost a node are dropped. `goes_on` is asked some twenty times a second, and its no
    /// cancels all parts. `lost` is told of each loss behind which the network may be run again, and may give the
    /// addresses that its nodes have then; with new ones, a node that could not be reached counts as lost as well.
    ///
    /// # Errors
    /// See [`LeadError`]. A network that may be run again reads and writes nothing that comes once, such as a stream;
    /// its files get their places when all of it has done well.
    pub fn run<T>(
        &self,
        mut operators: impl FnMut(&Network) -> Kept<T>,
        mut goes_on: impl FnMut() -> bool,
        mut lost: impl FnMut(&LeadError) -> Option<Vec<String>>,
    ) -> Result<RanOverNodes<T>, LeadError> {
        if self.retries > 0
            && let Some(name) = self.text.runs_once(self.kinds, self.set)
        {
            return Err(LeadError::Once { name: name.to_owned() });
        }
        let (mut losses, mut nodes) = (0, Cow::Borrowed(self.nodes));
        loop {
            match self.once(&nodes, &mut operators, &mut goes_on) {
                Ok((part, counts)) => return Ok(RanOverNodes { part, counts, losses }),
                Err(error) if losses < self.retries && goes_on() => {
                    let is_unreachable = matches!(error, LeadError::Node { .. });
                    if !error.is_loss() && !is_unreachable {
                        return Err(error);
                    }
                    match lost(&error) {
                        Some(new) => nodes = Cow::Owned(new),
                        None if is_unreachable => return Err(error),
                        None => {}
                    }
                    losses += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn once<T>(
        &self,
        nodes: &[String],
        operators: &mut impl FnMut(&Network) -> Kept<T>,
        goes_on: &mut impl FnMut() -> bool,
    ) -> Result<Once<T>, LeadError> {
        let own = MachineCounts { threads: self.runtime.plan().threads(), nodes: self.runtime.topology().nodes.len() };
        let mut lead = Lead::connect(nodes, self.spares, self.options.clone())?;
        if self.retries > 0 {
            lead = lead.staged();
        }
        for (name, text) in self.attached {
            lead = lead.attach(name, text.clone());
        }
        let mut attempt = lead.begin(self.text, self.name, self.set, own, self.request.budget.bytes())?;
        let Some(network) = attempt.build(self.text, self.name, self.kinds, self.set)? else {
            return attempt.wait(None, goes_on).map(|counts| (None, counts));
        };
        let (operators, kept) = operators(&network);
        let request = self.runtime.submit_within(&network.model, operators, self.request.clone());
        let counts = attempt.wait(Some(&request), goes_on)?;
        Ok((Some((network, request, kept)), counts))
    }
}
