//! From a text to a model: each kind adds its box, senders before receivers.

use crate::error::NetworkError;
use crate::expand::{Node, Work, expand};
use crate::part::{Crossing, CrossingRows, Crossings, NetworkPart, on_circles};
use crate::schema::schema_text;
use crate::spec::{Building, Incoming, KindError, Kinds, Ports};
use crate::text::NetworkText;
use crate::value::{ParameterValue, quoted};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use vicus_flow::{Bound, BoxId, Model, ModelBuilder, OutputId, Schema};

/// The machine a network is built for, as numbers that texts can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineCounts {
    /// How many threads run the network: `threads` in a text.
    pub threads: usize,
    /// How many nodes the machine has: `nodes` in a text.
    pub nodes: usize,
}

impl Default for MachineCounts {
    /// One thread on one node.
    fn default() -> MachineCounts {
        MachineCounts { threads: 1, nodes: 1 }
    }
}

/// A network ready to run.
pub struct Network {
    /// Its boxes and vias.
    pub model: Arc<Model>,
    /// The boxes whose rows the caller takes: their own operators drop them, so a request brings operators of
    /// [`sink_operator`](vicus_flow::library::sink_operator) for them.
    pub collected: Vec<Collected>,
    /// For each box of the model, the box of the text that it belongs to; empty for the first and the last one.
    pub names: Vec<String>,
    /// For each box of the model, the process that runs it, of a network over several.
    pub processes: Vec<usize>,
    /// The rows that go from one process to another: all of them in a [whole](NetworkText::build_whole) network, those
    /// that leave in a part.
    pub crossings: Vec<(Crossing, CrossingRows)>,
}

/// A box whose rows the caller takes.
#[derive(Clone, Debug)]
pub struct Collected {
    /// Its name in the text.
    pub name: String,
    /// The box.
    pub sink: BoxId,
    /// The columns of its rows.
    pub schema: Schema,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("model", &self.model)
            .field("collected", &self.collected)
            .finish_non_exhaustive()
    }
}

impl Network {
    /// The boxes of the text, by their places in the model: all but the first, which begins a request, and the last,
    /// which ends it.
    pub(crate) fn own(&self) -> Range<usize> {
        1..self.model.boxes().len() - 1
    }

    /// The links between boxes of the text: the sender, its output, and the receiver, in the order of receivers.
    pub(crate) fn links(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let sources = |to: usize| {
            let sources = self.model.boxes()[to].sources().filter(|(from, _)| self.own().contains(&from.index()));
            sources.map(move |(from, output)| (from.index(), output, to))
        };
        self.own().flat_map(sources)
    }

    /// A box's name in the text, with its node if it is on one.
    pub(crate) fn label(&self, index: usize) -> String {
        match self.processes[index] {
            0 => self.names[index].clone(),
            node => format!("{} on node {node}", self.names[index]),
        }
    }

    /// The columns of a box's output, as text.
    pub(crate) fn columns(&self, from: usize, output: usize) -> String {
        let mut outputs = self.model.boxes()[from].outputs();
        outputs.nth(output).map_or(String::new(), |(schema, _)| schema_text(schema))
    }
}

impl NetworkText {
    /// Makes the model. `set` gives values to parameters, as text.
    ///
    /// # Errors
    /// A kind or a parameter is unknown or missing, vias don't fit, envelopes would go round, an input has no sender,
    /// or a kind can't add its box. The error has the place in the text.
    pub fn build(
        &self,
        name: &str,
        kinds: &Kinds,
        machine: &MachineCounts,
        set: &[(String, String)],
    ) -> Result<Network, NetworkError> {
        self.build_while(name, kinds, machine, set, &|| true)
    }

    /// Makes the model, unless `goes_on` says no. It is asked for each box, twice.
    pub(crate) fn build_while(
        &self,
        name: &str,
        kinds: &Kinds,
        machine: &MachineCounts,
        set: &[(String, String)],
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Network, NetworkError> {
        let processes = [*machine];
        let nodes = expand(self, kinds, &processes, set, goes_on)?;
        let builder =
            Builder { source: &self.source.0, kinds, nodes: &nodes, processes: &processes, part: None, goes_on };
        Ok(builder.build(name)?.expect("all boxes are in this process"))
    }

    /// Makes the model of all boxes of a network over several processes, as if one ran them all: to check it, to see
    /// it, or to record what its boxes cost. `processes` are the machines: first of the process that begins the
    /// network, then of nodes 1, 2, ….
    ///
    /// # Errors
    /// Those of [`NetworkText::build`]; and rows are collected elsewhere than in process 0.
    pub fn build_whole(
        &self,
        name: &str,
        kinds: &Kinds,
        processes: &[MachineCounts],
        set: &[(String, String)],
    ) -> Result<Network, NetworkError> {
        let goes_on = || true;
        let nodes = expand(self, kinds, processes, set, &goes_on)?;
        let source = &self.source.0;
        let builder = Builder { source, kinds, nodes: &nodes, processes, part: None, goes_on: &goes_on };
        Ok(builder.build(name)?.expect("all boxes are in this model"))
    }

    /// Makes the model of the boxes that one of several processes runs. All of them make the same boxes of the text, so
    /// they agree on the [crossings](crate::Crossing) between them. `None` if the process has no box.
    ///
    /// # Errors
    /// Those of [`NetworkText::build`], in any process that runs a box at fault; and rows are collected elsewhere than
    /// in process 0, or the border fails.
    pub fn build_part(
        &self,
        name: &str,
        kinds: &Kinds,
        part: &NetworkPart<'_>,
        set: &[(String, String)],
    ) -> Result<Option<Network>, NetworkError> {
        let goes_on = || part.border.goes_on();
        let nodes = expand(self, kinds, part.processes, set, &goes_on)?;
        let source = &self.source.0;
        let builder =
            Builder { source, kinds, nodes: &nodes, processes: part.processes, part: Some(part), goes_on: &goes_on };
        builder.build(name)
    }
}

/// Has the links that a kind has made from its inputs' sources, behind so many others, keep the newest envelopes.
fn keep_newest(net: &mut ModelBuilder, before: usize, inputs: &[(OutputId, Option<usize>)]) {
    let keep_at = |net: &mut ModelBuilder, link: usize, keep: Option<usize>| {
        if let Some(envelopes) = keep {
            net.link(link).1.bound(Bound { envelopes, ..Bound::default() }).keep_newest();
        }
    };
    let mut free: Vec<usize> = (before..net.links()).collect();
    for (output, keep) in inputs {
        let Some(place) = free.iter().position(|&link| net.link(link).0 == *output) else { continue };
        let link = free.remove(place);
        keep_at(net, link, *keep);
    }
    // A kind may read one input in several boxes, as a statement that joins a table with itself.
    for link in free {
        let output = net.link(link).0;
        let keep = inputs.iter().find(|(from, _)| *from == output).and_then(|(_, keep)| *keep);
        keep_at(net, link, keep);
    }
}

/// An input's source: a box, its output, and the vias on the way.
pub(crate) type Sources<'n> = Vec<(usize, usize, Vec<&'n crate::expand::Link>)>;

struct Builder<'n> {
    source: &'n str,
    kinds: &'n Kinds,
    nodes: &'n [Node<'n>],
    processes: &'n [MachineCounts],
    /// The part that is made; all if there is one process.
    part: Option<&'n NetworkPart<'n>>,
    goes_on: &'n dyn Fn() -> bool,
}

impl<'n> Builder<'n> {
    /// Makes the model, unless the process has no boxes.
    fn build(&self, name: &str) -> Result<Option<Network>, NetworkError> {
        let all = self.sources()?;
        let counts = self.outputs(&all)?;
        let own = self.part.map_or(0, |part| part.own);
        // Of several processes: the inputs on circles, and what goes from one to another.
        let over = (self.processes.len() > 1).then(|| {
            let meets = on_circles(self.nodes.len(), &all);
            let crossings = Crossings::of(self.nodes, &all, &meets);
            (self.part, meets, crossings)
        });
        let mut found = Vec::new();
        let mut received: BTreeMap<(usize, usize), (OutputId, Schema)> = BTreeMap::new();
        let mut net = ModelBuilder::new(name);
        let mut collected = Vec::new();
        let mut names = vec![String::new(); net.len()];
        let mut processes = vec![own; net.len()];
        let mut outputs: Vec<Vec<(OutputId, Schema)>> = vec![Vec::new(); self.nodes.len()];
        // Which boxes send streams without end.
        let mut endless = vec![false; self.nodes.len()];
        let mut has_box = false;
        for index in self.order(&all)? {
            let node = &self.nodes[index];
            let Work::Box { kind, arguments } = &node.work else { continue };
            has_box = true;
            if !(self.goes_on)() {
                return Err(NetworkError::stopped());
            }
            if self.part.is_some() && node.process != own {
                continue;
            }
            let mut inputs = Vec::with_capacity(all[index].len());
            for (from, output, links) in &all[index] {
                let (id, schema) = match (&over, received.get(&(*from, *output))) {
                    (Some((Some(part), _, crossings)), None) if self.nodes[*from].process != own => {
                        let crossing = crossings.of_output(self.nodes, *from, *output, own);
                        let (model, CrossingRows { schema, is_endless }) =
                            part.border.receive(&crossing).map_err(|error| self.of_node(*from, error))?;
                        endless[*from] = is_endless;
                        let id = net.source(model).output(0);
                        names.resize(net.len(), self.nodes[*from].name.clone());
                        processes.resize(net.len(), own);
                        received.insert((*from, *output), (id, schema.clone()));
                        (id, schema)
                    }
                    (_, Some(known)) => known.clone(),
                    (_, None) => outputs[*from][*output].clone(),
                };
                for link in links.iter().rev() {
                    if let Some(wanted) = link.columns.as_ref().filter(|wanted| !schema.fits(wanted)) {
                        let message = format!(
                            "`{}` sends {}, and the via wants {}",
                            self.nodes[*from].name,
                            schema_text(&schema),
                            schema_text(wanted)
                        );
                        return Err(NetworkError::at(self.source, link.at, message));
                    }
                }
                inputs.push(Incoming { output: id, schema, from: self.nodes[*from].name.clone() });
            }
            self.check_ends(node, kind, &all[index], &endless)?;
            let keeps: Vec<(OutputId, Option<usize>)> = inputs
                .iter()
                .zip(&all[index])
                .map(|(incoming, (_, _, links))| (incoming.output, links.iter().find_map(|link| link.keep)))
                .collect();
            let (links, before, boxes) = (net.links(), collected.len(), net.len());
            let mut building = Building {
                net: &mut net,
                name: &node.name,
                inputs,
                outputs: counts[index],
                arguments,
                collected: &mut collected,
                machine: &self.processes[node.process],
                paths: self.kinds.paths(),
                is_endless: false,
                waits_for: kind.waits_for,
            };
            let made = kind.build(&mut building).map_err(|error| {
                let (mut at, mut message) = (node.at, error.message);
                if let Some((parameter, offset)) = error.parameter
                    && let Some((value, spot)) = arguments.get(parameter)
                {
                    at = *spot;
                    message = format!("`{parameter}` of `{}`: {message}", node.name);
                    // Where the value stands in the text as it is, a place in it is a place in the text.
                    if let (ParameterValue::Text(text), Some(offset)) = (value, offset)
                        && self.source.get(at.from..at.to) == Some(&quoted(text))
                        && quoted(text).len() == text.len() + 2
                        && offset < text.len()
                    {
                        at.from += 1 + offset;
                        at.to = at.from + 1;
                    }
                } else {
                    message = format!("`{}`: {message}", node.name);
                }
                NetworkError::at(self.source, at, message)
            })?;
            assert_eq!(made.len(), counts[index], "the kind {} gives each of its outputs", kind.name);
            let has_endless = all[index].iter().any(|(from, ..)| endless[*from]);
            endless[index] = building.is_endless || (has_endless && !kind.is_end);
            if let Some(place) = node.place {
                net.place_behind(boxes, place);
            }
            keep_newest(&mut net, links, &keeps);
            if let Some((_, meets, _)) = &over {
                // Boxes of one kind may wait for each other as well.
                let inner = |net: &mut ModelBuilder, link| !keeps.iter().any(|(output, _)| *output == net.link(link).0);
                let outer = meets[index].iter().any(|meets| *meets);
                for link in links..net.links() {
                    if outer || inner(&mut net, link) {
                        net.link(link).1.widen_when_full();
                    }
                }
            }
            if collected.len() > before && node.process > 0 {
                let on = node.process;
                let message = format!("`{}` is on node {on}: rows are collected in the process that began", node.name);
                return Err(NetworkError::at(self.source, node.at, message));
            }
            if let Some((part, _, crossings)) = &over {
                for (output, crossing, meets) in crossings.leaving(self.nodes, index) {
                    let (id, schema) = &made[output];
                    let rows = CrossingRows { schema: schema.clone(), is_endless: endless[index] };
                    let Some(part) = part else {
                        found.push((crossing, rows));
                        continue;
                    };
                    let model = part.border.send(&crossing, &rows).map_err(|error| self.of_node(index, error))?;
                    let sender = net.add(model);
                    let link = net.connect(*id, sender.input(0));
                    if meets {
                        link.widen_when_full();
                    }
                    net.end(sender.output(0));
                    found.push((crossing, rows));
                }
            }
            outputs[index] = made;
            names.resize(net.len(), node.name.clone());
            processes.resize(net.len(), node.process);
        }
        if !has_box {
            let message = "the network has no boxes: `box n = numbers(to: 10); box rows = collect; n -> rows;` has two";
            return Err(NetworkError::at(self.source, crate::Spot::default(), message));
        }
        if net.links() == 0 {
            return Ok(None);
        }
        let wrong = |error: vicus_flow::ModelError| {
            NetworkError::at(self.source, crate::Spot::default(), format!("a kind of this network is wrong: {error}"))
        };
        let model = net.build().map_err(wrong)?;
        names.resize(model.boxes().len(), String::new());
        processes.resize(model.boxes().len(), own);
        Ok(Some(Network { model, collected, names, processes, crossings: found }))
    }

    /// An error at a box.
    fn of_node(&self, node: usize, error: KindError) -> NetworkError {
        let message = format!("`{}`: {}", self.nodes[node].name, error.message);
        NetworkError::at(self.source, self.nodes[node].at, message)
    }

    /// Checks that a box doesn't wait for the end of a stream without one.
    fn check_ends(
        &self,
        node: &Node<'n>,
        kind: &crate::spec::BoxSpec,
        sources: &Sources<'n>,
        endless: &[bool],
    ) -> Result<(), NetworkError> {
        let never_ends = |&&input: &&usize| sources.get(input).is_some_and(|(from, ..)| endless[*from]);
        let Some(&input) = kind.waits_for.iter().find(never_ends) else { return Ok(()) };
        let from = &self.nodes[sources[input].0].name;
        let others = (0..sources.len()).any(|other| !kind.waits_for.contains(&other) && !endless[sources[other].0]);
        let advice = match (sources.len(), others) {
            (1, _) => "fold it by `window`, or end it by `limit`",
            (_, true) => "exchange its inputs, or end it by `limit`",
            (_, false) => "neither input ends: join rows of near times by `join_near`, or end this one by `limit`",
        };
        let message = format!(
            "the stream of `{from}` never ends, and `{}` needs all of input {input} to go on: {advice}",
            node.name
        );
        Err(NetworkError::at(self.source, node.at, message))
    }

    /// For each box, where its inputs come from.
    fn sources(&self) -> Result<Vec<Sources<'n>>, NetworkError> {
        let mut all = Vec::with_capacity(self.nodes.len());
        for node in self.nodes {
            let mut sources = Vec::new();
            if let Work::Box { kind, .. } = &node.work {
                if kind.inputs == Ports::Any && node.inputs.is_empty() {
                    let message = format!("`{}` has no input: send something to it, `a -> {};`", node.name, node.name);
                    return Err(NetworkError::at(self.source, node.at, message));
                }
                for (input, link) in node.inputs.iter().enumerate() {
                    let Some(link) = link else {
                        let message =
                            format!("input {input} of `{0}` has no sender: add a via, `a -> {0}.{input};`", node.name);
                        return Err(NetworkError::at(self.source, node.at, message));
                    };
                    sources.push(link.source(self.nodes).map_err(|port| {
                        let port = &self.nodes[port];
                        let message = format!("{} has no sender, and `{}` reads it", port.name, node.name);
                        NetworkError::at(self.source, port.at, message)
                    })?);
                }
            }
            all.push(sources);
        }
        Ok(all)
    }

    /// For each box, how many outputs it has. Each has a receiver.
    fn outputs(&self, all: &[Sources<'n>]) -> Result<Vec<usize>, NetworkError> {
        let used: BTreeSet<(usize, usize)> = all.iter().flatten().map(|(from, output, _)| (*from, *output)).collect();
        let mut counts = vec![0; self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            let Work::Box { kind, .. } = &node.work else { continue };
            counts[index] = match kind.outputs {
                Ports::Exactly(count) => count,
                Ports::OneOrTwo => 1 + usize::from(used.contains(&(index, 1))),
                Ports::Any => {
                    let last = used.range((index, 0)..(index + 1, 0)).next_back();
                    last.map_or(0, |(_, output)| output + 1).max(1)
                }
            };
            if let Some(output) = (0..counts[index]).find(|output| !used.contains(&(index, *output))) {
                let message = format!(
                    "output {output} of `{}` has no receiver: send it to a box, to one of the kind `sink` if nobody \
                     needs its rows",
                    node.name
                );
                return Err(NetworkError::at(self.source, node.at, message));
            }
        }
        Ok(counts)
    }

    /// The boxes, each behind its senders.
    fn order(&self, all: &[Sources<'n>]) -> Result<Vec<usize>, NetworkError> {
        let mut open: Vec<usize> = all.iter().map(Vec::len).collect();
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (reader, sources) in all.iter().enumerate() {
            sources.iter().for_each(|(from, ..)| readers[*from].push(reader));
        }
        let mut ready: BTreeSet<usize> = (0..self.nodes.len()).filter(|&node| open[node] == 0).collect();
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(node) = ready.pop_first() {
            order.push(node);
            for &reader in &readers[node] {
                open[reader] -= 1;
                if open[reader] == 0 {
                    ready.insert(reader);
                }
            }
        }
        let Some(mut at) = open.iter().position(|&open| open > 0) else { return Ok(order) };
        // Each open box has an open sender, so the walk back along these goes round.
        let mut walk: Vec<usize> = Vec::new();
        while !walk.contains(&at) {
            walk.push(at);
            let sender = all[at].iter().map(|(from, ..)| *from).find(|&from| open[from] > 0);
            at = sender.expect("an open box has an open sender");
        }
        let begin = walk.iter().position(|&node| node == at).expect("it was walked over");
        let mut circle: Vec<&str> = walk[begin..].iter().rev().map(|&node| self.nodes[node].name.as_str()).collect();
        circle.push(circle[0]);
        let via = all[at].iter().find(|(from, ..)| walk[begin..].contains(from)).map(|(_, _, links)| links[0].at);
        let message = format!(
            "rows would go round: {}; leave one of these vias out, or repeat a step by one box of the kind `iterate`",
            circle.join(" -> ")
        );
        Err(NetworkError::at(self.source, via.unwrap_or(self.nodes[at].at), message))
    }
}
