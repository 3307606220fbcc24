//! From a text to single boxes and links: sub-networks are placed, copies counted, parameters given their values.

use crate::build::MachineCounts;
use crate::error::{NetworkError, Spot};
use crate::parse::MOST_PORTS;
use crate::spec::{BoxSpec, Kinds, Ports};
use crate::text::{Argument, Body, BoxText, NetworkText, OnNode, PortText, SubNetwork, TextParameter, ViaText};
use crate::value::{ParameterType, ParameterValue};
use std::collections::{BTreeMap, BTreeSet};
use vicus_flow::Schema;
use vicus_language::{similar_names, suggestion};

/// The most boxes of a network.
const MOST_BOXES: usize = 1 << 16;
/// How deeply sub-networks may be nested.
const MOST_DEPTH: usize = 64;

pub(crate) type Values = BTreeMap<String, ParameterValue>;

/// A box, or a port of a sub-network.
pub(crate) struct Node<'t> {
    pub(crate) name: String,
    pub(crate) at: Spot,
    pub(crate) work: Work<'t>,
    /// The process that runs it.
    pub(crate) process: usize,
    /// The place among the nodes of its machine, of one of the copies `* nodes` and what is within it.
    pub(crate) place: Option<usize>,
    pub(crate) inputs: Vec<Option<Link>>,
    /// The first output without a via, of kinds with any number.
    next_output: usize,
}

pub(crate) enum Work<'t> {
    Box {
        kind: &'t BoxSpec,
        arguments: BTreeMap<&'t str, (ParameterValue, Spot)>,
    },
    /// Passes its one input on as its one output, and is no box.
    Port,
}

/// The connection of an input with an output.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) from: usize,
    pub(crate) output: usize,
    pub(crate) at: Spot,
    pub(crate) columns: Option<Schema>,
    /// How many envelopes it keeps, if it drops the oldest.
    pub(crate) keep: Option<usize>,
}

/// A copy of a box or of a sub-network, as vias name it.
enum Copied {
    Box(usize),
    Network { inputs: Vec<usize>, outputs: Vec<usize> },
}

pub(crate) fn expand<'t>(
    text: &'t NetworkText,
    kinds: &'t Kinds,
    processes: &'t [MachineCounts],
    set: &[(String, String)],
    goes_on: &'t dyn Fn() -> bool,
) -> Result<Vec<Node<'t>>, NetworkError> {
    let mut expander = Expander {
        source: &text.source.0,
        text,
        kinds,
        processes,
        goes_on,
        nodes: Vec::new(),
        path: Vec::new(),
        place: None,
    };
    let scope = expander.parameters(&text.parameters, set)?;
    expander.body(&text.body, &Scope { values: scope, process: 0 }, "", None)?;
    Ok(expander.nodes)
}

/// The names that a part of a text may use, and the process that its boxes run in.
struct Scope {
    values: Values,
    process: usize,
}

fn set_machine(values: &mut Values, machine: &MachineCounts) {
    for (name, count) in [("threads", machine.threads), ("nodes", machine.nodes)] {
        values.insert(name.to_owned(), ParameterValue::Integer(count as i64));
    }
}

struct Expander<'t> {
    source: &'t str,
    text: &'t NetworkText,
    kinds: &'t Kinds,
    /// The machine of each process, the one that the network was begun in first.
    processes: &'t [MachineCounts],
    goes_on: &'t dyn Fn() -> bool,
    nodes: Vec<Node<'t>>,
    /// The sub-networks around the present place.
    path: Vec<&'t str>,
    /// See [`Node::place`].
    place: Option<usize>,
}

impl<'t> Expander<'t> {
    fn error(&self, at: Spot, message: impl Into<String>) -> NetworkError {
        NetworkError::at(self.source, at, message)
    }

    fn parameters(&self, parameters: &[TextParameter], set: &[(String, String)]) -> Result<Values, NetworkError> {
        let mut scope = Values::new();
        set_machine(&mut scope, &self.processes[0]);
        for (name, written) in set {
            let Some(parameter) = parameters.iter().find(|parameter| parameter.name == *name) else {
                let likely = similar_names(name, parameters.iter().map(|one| (one.name.as_str(), one.name.clone())));
                let message = format!("the network has no parameter `{name}` to be set{}", suggestion(&likely));
                return Err(self.error(Spot::default(), message));
            };
            let value = parameter.kind.read(written);
            let value = value.map_err(|error| self.error(parameter.at, format!("{name} is set, but {error}")))?;
            scope.insert(name.clone(), value);
        }
        for TextParameter { name, default, at, kind } in parameters {
            match (scope.contains_key(name), default) {
                (true, _) => {}
                (false, Some(value)) => _ = scope.insert(name.clone(), value.clone()),
                (false, None) => {
                    let message =
                        format!("`{name}` has no value: set it (--set {name}=…), or give it a default ({kind})");
                    return Err(self.error(*at, message));
                }
            }
        }
        Ok(scope)
    }

    /// A value with names replaced by what they stand for.
    fn resolved(&self, value: &ParameterValue, at: Spot, scope: &Values) -> Result<ParameterValue, NetworkError> {
        match value {
            ParameterValue::Name(name) => self.named(name, at, scope).cloned(),
            ParameterValue::Text(text) => self.filled(text, at, scope).map(ParameterValue::Text),
            other => Ok(other.clone()),
        }
    }

    fn named<'s>(&self, name: &str, at: Spot, scope: &'s Values) -> Result<&'s ParameterValue, NetworkError> {
        scope.get(name).ok_or_else(|| {
            let likely = similar_names(name, scope.keys().map(|known| (known.as_str(), known.clone())));
            let message = format!("there is no parameter `{name}`{}; texts stand in quotes", suggestion(&likely));
            self.error(at, message)
        })
    }

    /// A text with `{name}` replaced.
    fn filled(&self, text: &str, at: Spot, scope: &Values) -> Result<String, NetworkError> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(place) = rest.find(['{', '}']) {
            out.push_str(&rest[..place]);
            let (brace, after) = rest[place..].split_at(1);
            if after.starts_with(brace) {
                out.push_str(brace);
                rest = &after[1..];
            } else if let (true, Some(end)) = (brace == "{", after.find('}')) {
                out.push_str(&self.named(after[..end].trim(), at, scope)?.plain());
                rest = &after[end + 1..];
            } else {
                let message = "a brace alone: write `{name}` for a parameter's value, `{{` and `}}` for braces";
                return Err(self.error(at, message));
            }
        }
        out.push_str(rest);
        Ok(out)
    }

    /// The processes that run a box.
    fn processes_of(&self, one: &BoxText, scope: &Scope) -> Result<Vec<usize>, NetworkError> {
        let others = self.processes.len() - 1;
        let number = match &one.on {
            None => return Ok(vec![scope.process]),
            Some(OnNode::Each | OnNode::Of(_)) if others == 0 => return Ok(vec![scope.process]),
            Some(OnNode::Each | OnNode::Of(_)) => return Ok((1..=others).collect()),
            Some(OnNode::These(nodes)) => {
                return match nodes.iter().find(|node| **node > others) {
                    Some(node) => Err(self.no_node(one, *node as i64)),
                    None => Ok(nodes.clone()),
                };
            }
            Some(OnNode::One(number)) => number,
        };
        let message = match self.resolved(number, one.on_at, &scope.values)? {
            ParameterValue::Integer(number) if (0..=others as i64).contains(&number) => {
                return Ok(vec![number as usize]);
            }
            ParameterValue::Integer(number) => return Err(self.no_node(one, number)),
            other => {
                let kind = other.kind().map_or("name", ParameterType::name);
                format!("the number of a node is an integer, and this is {kind}")
            }
        };
        Err(self.error(one.on_at, message))
    }

    /// The error of a box on a node that the network has not.
    fn no_node(&self, one: &BoxText, number: i64) -> NetworkError {
        let has = match self.processes.len() - 1 {
            0 => "the network runs in one process, 0: name others by `--nodes`".to_owned(),
            1 => "there is one, 1; 0 is this process".to_owned(),
            others => format!("they are 1 to {others}; 0 is this process"),
        };
        self.error(one.on_at, format!("`{}` is to run on node {number}: {has}", one.name))
    }

    fn copies(&self, one: &BoxText, scope: &Values) -> Result<Option<usize>, NetworkError> {
        let Some(copies) = &one.copies else { return Ok(None) };
        match self.resolved(copies, one.copies_at, scope)? {
            ParameterValue::Integer(count) if (1..=MOST_PORTS).contains(&count) => Ok(Some(count as usize)),
            ParameterValue::Integer(count) => {
                let message = format!("{count} copies of `{}`: from 1 to {MOST_PORTS} are possible", one.name);
                Err(self.error(one.copies_at, message))
            }
            other => {
                let kind = other.kind().map_or("name", ParameterType::name);
                Err(self.error(one.copies_at, format!("a number of copies is an integer, and this is {kind}")))
            }
        }
    }

    fn body(
        &mut self,
        body: &'t Body,
        scope: &Scope,
        prefix: &str,
        own: Option<(&[usize], &[usize])>,
    ) -> Result<(), NetworkError> {
        let mut placed: BTreeMap<&str, Vec<Copied>> = BTreeMap::new();
        for one in &body.boxes {
            let mut copies = Vec::new();
            for process in self.processes_of(one, scope)? {
                let mut own = Scope { values: scope.values.clone(), process };
                if process != scope.process {
                    set_machine(&mut own.values, &self.processes[process]);
                }
                let count = self.copies(one, &own.values)?;
                let has_numbers =
                    count.is_some() || matches!(one.on, Some(OnNode::Each | OnNode::These(_) | OnNode::Of(_)));
                let is_by_node = matches!(&one.copies, Some(ParameterValue::Name(name)) if name == "nodes");
                for place in 0..count.unwrap_or(1) {
                    let number = if has_numbers { format!("[{}]", copies.len()) } else { String::new() };
                    let outer = self.place;
                    self.place = if is_by_node { Some(place) } else { outer };
                    copies.push(self.one_box(one, &own, format!("{prefix}{}{number}", one.name))?);
                    self.place = outer;
                }
            }
            if copies.len() > MOST_PORTS as usize {
                let message = format!("{} copies of `{}`: at most {MOST_PORTS} are possible", copies.len(), one.name);
                return Err(self.error(one.at, message));
            }
            placed.insert(&one.name, copies);
        }
        let (inputs, outputs) = own.unwrap_or_default();
        // Within a sub-network, its inputs send and its outputs receive.
        let ends = own.is_some().then(|| {
            let inside = |ports: &[usize]| vec![Copied::Network { inputs: ports.to_vec(), outputs: ports.to_vec() }];
            (inside(inputs), inside(outputs))
        });
        for via in &body.vias {
            let from = match &ends {
                Some((inputs, _)) if via.from.name == "input" => inputs,
                _ => self.copies_of(&placed, &via.from)?,
            };
            let to = match &ends {
                Some((_, outputs)) if via.to.name == "output" => outputs,
                _ => self.copies_of(&placed, &via.to)?,
            };
            self.via(from, to, via)?;
        }
        Ok(())
    }

    fn copies_of<'p>(
        &self,
        placed: &'p BTreeMap<&str, Vec<Copied>>,
        port: &PortText,
    ) -> Result<&'p Vec<Copied>, NetworkError> {
        placed.get(port.name.as_str()).ok_or_else(|| {
            let message = match port.name.as_str() {
                "input" => "`input` is an input of a sub-network, and sends: `input -> a;` within `network`".to_owned(),
                "output" => "`output` is an output of a sub-network, and receives: `a -> output;` within it".to_owned(),
                name => {
                    let likely = similar_names(name, placed.keys().map(|known| (*known, (*known).to_owned())));
                    format!("there is no box `{name}`{}", suggestion(&likely))
                }
            };
            self.error(port.at, message)
        })
    }

    fn add(&mut self, name: String, at: Spot, work: Work<'t>, process: usize) -> Result<usize, NetworkError> {
        if !(self.goes_on)() {
            return Err(NetworkError::stopped());
        }
        if self.nodes.len() == MOST_BOXES {
            return Err(self.error(at, format!("the network has more than {MOST_BOXES} boxes: make fewer copies")));
        }
        let inputs = match &work {
            Work::Port => 1,
            Work::Box { kind, .. } => match kind.inputs {
                Ports::Exactly(count) => count,
                Ports::OneOrTwo => 1,
                Ports::Any => 0,
            },
        };
        let place = self.place;
        self.nodes.push(Node { name, at, work, process, place, inputs: vec![None; inputs], next_output: 0 });
        Ok(self.nodes.len() - 1)
    }

    fn one_box(&mut self, one: &'t BoxText, scope: &Scope, name: String) -> Result<Copied, NetworkError> {
        let (text, kinds) = (self.text, self.kinds);
        if let Some(network) = text.networks.iter().find(|network| network.name == one.kind && !one.is_local) {
            return self.sub_network(network, one, scope, &name);
        }
        let Some(kind) = kinds.get(&one.kind) else {
            let message = if one.is_local {
                format!(
                    "`{0}` is a local kind: the program that made this text adds it in Rust, and this one has none; \
                     add a `BoxSpec` of the name {0} to its `Kinds`",
                    one.kind
                )
            } else {
                let networks = text.networks.iter().map(|network| network.name.as_str());
                let known = kinds.iter().map(|kind| -> &str { kind.name }).chain(networks);
                let likely = similar_names(&one.kind, known.map(|known| (known, known.to_owned())));
                format!("there is no kind `{}`{}; `vicus network kinds` lists all", one.kind, suggestion(&likely))
            };
            return Err(self.error(one.kind_at, message));
        };
        let mut arguments = BTreeMap::new();
        for argument in &one.arguments {
            let known = kind.parameters.iter().map(|parameter| (parameter.name, parameter.kind));
            let (parameter, value) = self.argument(argument, known, one, &scope.values)?;
            arguments.insert(parameter, (value, argument.value_at));
        }
        for parameter in &kind.parameters {
            if arguments.contains_key(parameter.name) {
                continue;
            }
            if let Some(default) = &parameter.default {
                arguments.insert(parameter.name, (default.clone(), one.kind_at));
            } else if parameter.is_required {
                return Err(self.missing(parameter.name, parameter.kind, parameter.doc, one));
            }
        }
        self.add(name, one.at, Work::Box { kind, arguments }, scope.process).map(Copied::Box)
    }

    fn missing(&self, name: &str, kind: ParameterType, doc: &str, one: &BoxText) -> NetworkError {
        let doc = if doc.is_empty() { String::new() } else { format!(": {doc}") };
        let message = format!("`{}` needs the parameter `{name}` ({kind}){doc}", one.kind);
        self.error(one.kind_at, message)
    }

    /// The parameter that an argument is for, and its value.
    fn argument<'n>(
        &self,
        argument: &Argument,
        known: impl Iterator<Item = (&'n str, ParameterType)> + Clone,
        one: &BoxText,
        scope: &Values,
    ) -> Result<(&'n str, ParameterValue), NetworkError> {
        let Some((name, kind)) = known.clone().find(|(name, _)| *name == argument.name) else {
            let likely = similar_names(&argument.name, known.clone().map(|(name, _)| (name, name.to_owned())));
            let all: Vec<&str> = known.map(|(name, _)| name).collect();
            let all = if all.is_empty() { "it has none".to_owned() } else { format!("it has {}", all.join(", ")) };
            let message = format!("`{}` has no parameter `{}`{}; {all}", one.kind, argument.name, suggestion(&likely));
            return Err(self.error(argument.at, message));
        };
        let value = self.resolved(&argument.value, argument.value_at, scope)?;
        let value = value.as_type(kind).ok_or_else(|| {
            let is = value.kind().map_or("a name", ParameterType::name);
            let message = format!("the parameter `{name}` of `{}` is of the type {kind}, and this is {is}", one.kind);
            self.error(argument.value_at, message)
        })?;
        Ok((name, value))
    }

    fn sub_network(
        &mut self,
        network: &'t SubNetwork,
        one: &'t BoxText,
        scope: &Scope,
        name: &str,
    ) -> Result<Copied, NetworkError> {
        if self.path.contains(&network.name.as_str()) {
            let path = [self.path.as_slice(), &[&network.name]].concat().join(" -> ");
            return Err(self.error(one.kind_at, format!("a network can't contain itself: {path}")));
        }
        if self.path.len() == MOST_DEPTH {
            let message = format!("networks may be nested {MOST_DEPTH} levels deep");
            return Err(self.error(one.kind_at, message));
        }
        let mut own: Values = ["threads", "nodes"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), scope.values.get(name)?.clone())))
            .collect();
        for argument in &one.arguments {
            let known = network.parameters.iter().map(|parameter| (parameter.name.as_str(), parameter.kind));
            let (parameter, value) = self.argument(argument, known, one, &scope.values)?;
            own.insert(parameter.to_owned(), value);
        }
        for TextParameter { name, kind, default, .. } in &network.parameters {
            match (own.contains_key(name), default) {
                (true, _) => {}
                (false, Some(value)) => _ = own.insert(name.clone(), value.clone()),
                (false, None) => return Err(self.missing(name, *kind, "", one)),
            }
        }
        let count = |ports: &mut dyn Iterator<Item = &PortText>| ports.map(|port| port.number.unwrap_or(0) + 1).max();
        let vias = || network.body.vias.iter();
        let inputs = count(&mut vias().map(|via| &via.from).filter(|port| port.name == "input")).unwrap_or(0);
        let outputs = count(&mut vias().map(|via| &via.to).filter(|port| port.name == "output")).unwrap_or(0);
        let ports = |expander: &mut Self, what: &str, count: usize| {
            (0..count)
                .map(|port| expander.add(format!("{what} {port} of {name}"), one.at, Work::Port, scope.process))
                .collect()
        };
        let inputs: Vec<usize> = Result::from_iter::<Vec<Result<usize, NetworkError>>>(ports(self, "input", inputs))?;
        let outputs: Vec<usize> =
            Result::from_iter::<Vec<Result<usize, NetworkError>>>(ports(self, "output", outputs))?;
        self.path.push(&network.name);
        let own = Scope { values: own, process: scope.process };
        self.body(&network.body, &own, &format!("{name}."), Some((&inputs, &outputs)))?;
        self.path.pop();
        Ok(Copied::Network { inputs, outputs })
    }

    /// Whether a copy has any number of inputs, or of outputs.
    fn is_any(&self, copy: &Copied, of: impl Fn(&BoxSpec) -> Ports) -> bool {
        match copy {
            Copied::Box(node) => match &self.nodes[*node].work {
                Work::Box { kind, .. } => of(kind) == Ports::Any,
                Work::Port => false,
            },
            Copied::Network { .. } => false,
        }
    }

    fn via(
        &mut self,
        from: &[Copied],
        to: &[Copied],
        ViaText { from: from_port, to: to_port, columns, keep, exchanges }: &'t ViaText,
    ) -> Result<(), NetworkError> {
        let at = Spot { from: from_port.at.from, to: to_port.at.to };
        let deals = from_port.number.is_none() && self.is_any(&from[0], |kind| kind.outputs);
        let unites = to_port.number.is_none() && self.is_any(&to[0], |kind| kind.inputs);
        let one = [0].as_slice();
        let link = |output: (usize, usize)| Link {
            from: output.0,
            output: output.1,
            at,
            columns: columns.clone(),
            keep: *keep,
        };
        if *exchanges {
            return self.exchange(from, to, [from_port, to_port], deals, unites, &link);
        }
        let pairs: Vec<usize> = (0..from.len().max(to.len())).collect();
        if from.len() == to.len() || (from.len() == 1 && deals) || (to.len() == 1 && unites) {
            // Copy by copy; from the ports of a kind that deals, to the ports of one that unites.
            for pair in pairs {
                let sender = if from.len() == 1 { &from[one[0]] } else { &from[pair] };
                let receiver = if to.len() == 1 { &to[one[0]] } else { &to[pair] };
                let output = self.output(sender, from_port)?;
                self.input(receiver, to_port, link(output))?;
            }
            return Ok(());
        }
        if from.len() == 1 {
            let process = self.process_of(&from[0]);
            let spread = self.helper("spread", format!("spread of {}", from_port.name), at, process)?;
            let output = self.output(&from[0], from_port)?;
            self.nodes[spread].inputs[0] = Some(link(output));
            for (part, receiver) in to.iter().enumerate() {
                self.input(receiver, to_port, link((spread, part)))?;
            }
            return Ok(());
        }
        if to.len() == 1 {
            let process = self.process_of(&to[0]);
            let union = self.helper("union", format!("union of {}", from_port.name), at, process)?;
            for sender in from {
                let output = self.output(sender, from_port)?;
                self.nodes[union].inputs.push(Some(link(output)));
            }
            return self.input(&to[0], to_port, link((union, 0)));
        }
        let message = format!(
            "{} copies of `{}` send to {} copies of `{}`: the numbers must be equal, or one of them 1",
            from.len(),
            from_port.name,
            to.len(),
            to_port.name
        );
        Err(self.error(at, message))
    }

    /// Vias from each copy to each copy. A sender that deals has an output for each receiver, and a receiver that
    /// unites an input for each sender; the others have a box in front of them, or behind, in their process.
    fn exchange(
        &mut self,
        from: &[Copied],
        to: &[Copied],
        ports: [&'t PortText; 2],
        deals: bool,
        unites: bool,
        link: &impl Fn((usize, usize)) -> Link,
    ) -> Result<(), NetworkError> {
        let [from_port, to_port] = ports;
        let at = from_port.at;
        let mut ends: Vec<usize> = Vec::new();
        if !unites && from.len() > 1 {
            for receiver in to {
                let process = self.process_of(receiver);
                let union = self.helper("union", format!("union before {}", to_port.name), at, process)?;
                self.input(receiver, to_port, link((union, 0)))?;
                ends.push(union);
            }
        }
        for sender in from {
            let spread = if deals || to.len() == 1 {
                None
            } else {
                let process = self.process_of(sender);
                let spread = self.helper("spread", format!("spread of {}", from_port.name), at, process)?;
                let output = self.output(sender, from_port)?;
                self.nodes[spread].inputs[0] = Some(link(output));
                Some(spread)
            };
            for (part, receiver) in to.iter().enumerate() {
                let output = match spread {
                    Some(spread) => (spread, part),
                    None => self.output(sender, from_port)?,
                };
                match ends.get(part) {
                    Some(&union) => self.nodes[union].inputs.push(Some(link(output))),
                    None => self.input(receiver, to_port, link(output))?,
                }
            }
        }
        Ok(())
    }

    /// A box between a box and its reader's copies, or between copies and their reader.
    fn helper(&mut self, kind: &str, name: String, at: Spot, process: usize) -> Result<usize, NetworkError> {
        let Some(kind) = self.kinds.get(kind) else {
            return Err(self.error(at, format!("copies need the kind `{kind}`, which this program lacks")));
        };
        self.add(name, at, Work::Box { kind, arguments: BTreeMap::new() }, process)
    }

    /// The process of a copy.
    fn process_of(&self, copy: &Copied) -> usize {
        match copy {
            Copied::Box(node) => self.nodes[*node].process,
            // One without ports can't be named in a via.
            Copied::Network { inputs, outputs } => {
                inputs.iter().chain(outputs).next().map_or(0, |port| self.nodes[*port].process)
            }
        }
    }

    /// The node and the number of an output.
    fn output(&mut self, sender: &Copied, port: &PortText) -> Result<(usize, usize), NetworkError> {
        match sender {
            Copied::Network { outputs, .. } => match outputs.get(port.number.unwrap_or(0)) {
                Some(&node) => Ok((node, 0)),
                None => Err(self.no_port("output", port, outputs.len())),
            },
            Copied::Box(node) => {
                let Work::Box { kind, .. } = &self.nodes[*node].work else { unreachable!("a copy is a box") };
                let number = match kind.outputs {
                    Ports::Any => port.number.unwrap_or(self.nodes[*node].next_output),
                    own => {
                        let count = if let Ports::Exactly(count) = own { count } else { 2 };
                        match port.number.unwrap_or(0) {
                            number if number < count => number,
                            _ => return Err(self.no_port("output", port, count)),
                        }
                    }
                };
                let next = &mut self.nodes[*node].next_output;
                *next = (*next).max(number + 1);
                Ok((*node, number))
            }
        }
    }

    fn no_port(&self, what: &str, port: &PortText, count: usize) -> NetworkError {
        let (name, number) = (&port.name, port.number.unwrap_or(0));
        let has = match count {
            0 => "it has none".to_owned(),
            1 => "it has one, 0".to_owned(),
            count => format!("it has {count}, 0 to {}", count - 1),
        };
        self.error(port.at, format!("`{name}` has no {what} {number}: {has}"))
    }

    fn input(&mut self, receiver: &Copied, port: &PortText, link: Link) -> Result<(), NetworkError> {
        let (node, number) = match receiver {
            Copied::Network { inputs, .. } => match inputs.get(port.number.unwrap_or(0)) {
                Some(&node) => (node, 0),
                None => return Err(self.no_port("input", port, inputs.len())),
            },
            Copied::Box(node) => {
                let Work::Box { kind, .. } = &self.nodes[*node].work else { unreachable!("a copy is a box") };
                match kind.inputs {
                    Ports::Any => {
                        let number = port.number.unwrap_or(self.nodes[*node].inputs.len());
                        let inputs = &mut self.nodes[*node].inputs;
                        inputs.resize(inputs.len().max(number + 1), None);
                        (*node, number)
                    }
                    own => {
                        let count = if let Ports::Exactly(count) = own { count } else { 1 };
                        match port.number.unwrap_or(0) {
                            number if number < count => (*node, number),
                            _ => return Err(self.no_port("input", port, count)),
                        }
                    }
                }
            }
        };
        let own = &mut self.nodes[node].inputs[number];
        if own.is_some() {
            let (name, input) = (&port.name, port.number.unwrap_or(0));
            let message = format!("input {input} of `{name}` has two senders: unite them by a box of the kind `union`");
            return Err(self.error(link.at, message));
        }
        *own = Some(link);
        Ok(())
    }
}

impl Link {
    /// The box and the output that a link's rows come from, and the columns that the vias on the way demand.
    pub(crate) fn source<'n>(&'n self, nodes: &'n [Node<'_>]) -> Result<(usize, usize, Vec<&'n Link>), usize> {
        let (mut link, mut on_the_way, mut seen) = (self, vec![self], BTreeSet::new());
        loop {
            let node = &nodes[link.from];
            if matches!(node.work, Work::Box { .. }) {
                return Ok((link.from, link.output, on_the_way));
            }
            let next = node.inputs[0].as_ref().filter(|_| seen.insert(link.from));
            link = next.ok_or(link.from)?;
            on_the_way.push(link);
        }
    }
}
