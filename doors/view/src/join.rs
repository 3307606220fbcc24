//! The traces of the processes of one network as one trace: their clocks aligned by the messages between them.
//!
//! A box `send N` hands rows to another process, in which a box `receive N` goes on with them. So each message says
//! that its sender's time, set by its clock's offset, is not after its receiver's. Messages both ways bound the
//! difference of two clocks from both sides; messages one way alone bound it from one side, and the quickest of them
//! counts as one that took no time. (Duda et al., "Estimating global time in distributed systems", ICDCS 1987; we
//! differ: clocks are taken to run at one speed.)

use crate::RecordedRun;
use std::collections::BTreeMap;
use std::fmt;
use vicus_trace::{
    BoxInfo, Event, Header, InputSource, JobId, ModelInfo, OperatorInfo, SeatLog, Trace, ViaBound, What,
};

/// Why traces can't be joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinError {
    /// There is only one.
    One,
    /// No message leads, over others, from the first process to this one.
    NoMessages(String),
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::One => f.write_str("one trace alone has nothing to be joined with"),
            JoinError::NoMessages(name) => {
                write!(f, "{name}: no message joins it with the first trace: are they of one run of a network?")
            }
        }
    }
}

impl std::error::Error for JoinError {}

/// Where an event's request, box and value lie among its bytes.
const REQUEST: usize = 20;
const INDEX: usize = 24;
const VALUE: usize = 28;

/// The place of an event: seat, index.
type At = (usize, usize);

/// An end of a crossing in a process: the messages of a box in one request.
struct End {
    part: usize,
    request: u32,
    model: usize,
    index: u32,
    /// For each message its time, its event, its rows and whether it ends the stream.
    messages: Vec<(u64, At, u32, bool)>,
}

/// Joins the traces of processes that ran one network; the first is that of the process that began it. Of a process
/// that ran several networks, the last one that fits the other's messages is taken.
///
/// # Errors
/// There is one trace alone, or one has no messages in common with the others.
pub fn join(parts: &[RecordedRun]) -> Result<RecordedRun, JoinError> {
    let [first, _, ..] = parts else { return Err(JoinError::One) };
    let (mut sends, mut receives) = (BTreeMap::new(), BTreeMap::new());
    for (part, run) in parts.iter().enumerate() {
        ends(part, &run.trace, &mut sends, &mut receives);
    }
    let pairs = pairs(sends, receives);
    let offsets = offsets(parts, &pairs)?;
    let trace = Joining::new(parts, &pairs, &offsets).trace();
    let mut faults: Vec<String> = Vec::new();
    for run in parts {
        faults.extend(run.faults.iter().map(|fault| format!("{}: {fault}", run.name)));
    }
    Ok(RecordedRun { faults, trace, ..first.clone() })
}

/// The crossing of a box, by its type, and whether it sends.
fn crossing(info: &BoxInfo) -> Option<(bool, u32)> {
    let (sends, number) = match info.type_name.split_once(' ')? {
        ("send", number) => (true, number),
        ("receive", number) => (false, number),
        _ => return None,
    };
    Some((sends, number.parse().ok()?))
}

type Ends = BTreeMap<u32, Vec<End>>;

fn ends(part: usize, trace: &Trace, sends: &mut Ends, receives: &mut Ends) {
    let models = &trace.header().models;
    let mut places: BTreeMap<(u32, u32), (bool, u32, usize)> = BTreeMap::new();
    for (model, info) in models.iter().enumerate() {
        for (index, info) in info.boxes.iter().enumerate() {
            let Some((is_sender, number)) = crossing(info) else { continue };
            for &request in &models[model].requests {
                places.insert((request, index as u32), (is_sender, number, model));
            }
        }
    }
    let mut found: BTreeMap<(u32, u32), End> = BTreeMap::new();
    // When the code of each began: it has sent nothing before.
    let mut begun: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for entry in trace.merged() {
        let Some(who) = entry.event.what.who() else { continue };
        let key = (who.request, who.index);
        let Some(&(is_sender, _, model)) = places.get(&key) else { continue };
        let at = (entry.seat, entry.index);
        let (time_ns, rows, pill) = match entry.event.what {
            What::UserCodeBegins { .. } => {
                begun.insert(key, entry.event.time_ns);
                continue;
            }
            What::EnvelopeReceived { rows, pill, .. } if is_sender => {
                (begun.get(&key).copied().unwrap_or(entry.event.time_ns), rows, pill)
            }
            What::EnvelopeSent { rows, pill, .. } if !is_sender => (entry.event.time_ns, rows, pill),
            _ => continue,
        };
        let new = || End { part, request: who.request, model, index: who.index, messages: Vec::new() };
        found.entry(key).or_insert_with(new).messages.push((time_ns, at, rows, pill));
    }
    for (key, end) in found {
        let (is_sender, number, _) = places[&key];
        (if is_sender { &mut *sends } else { &mut *receives }).entry(number).or_default().push(end);
    }
}

/// Ends of one crossing: those that have the same rows in the same order, the last ones first.
fn pairs(sends: Ends, mut receives: Ends) -> Vec<(End, End)> {
    let mut pairs: Vec<(End, End)> = Vec::new();
    for (number, all) in sends {
        let Some(others) = receives.get_mut(&number) else { continue };
        for sender in all.into_iter().rev() {
            let fits = |end: &End| {
                let both = sender.messages.iter().zip(&end.messages);
                end.part != sender.part && both.clone().all(|(one, other)| (one.2, one.3) == (other.2, other.3))
            };
            if let Some(at) = others.iter().rposition(fits) {
                pairs.push((sender, others.remove(at)));
            }
        }
    }
    // Of each process one network: that of the pair which is met first from the first process on.
    let mut requests: BTreeMap<usize, u32> = BTreeMap::new();
    if let Some((sender, receiver)) = pairs.iter().find(|(one, other)| one.part == 0 || other.part == 0) {
        for end in [sender, receiver] {
            requests.insert(end.part, end.request);
        }
    }
    loop {
        let known = requests.len();
        for (sender, receiver) in &pairs {
            for (one, other) in [(sender, receiver), (receiver, sender)] {
                if requests.get(&one.part) == Some(&one.request) {
                    requests.entry(other.part).or_insert(other.request);
                }
            }
        }
        if requests.len() == known {
            break;
        }
    }
    pairs.retain(|(one, other)| [one, other].iter().all(|end| requests.get(&end.part) == Some(&end.request)));
    pairs
}

/// Each process's offset, by which its clock is set forward, and how far that may be off, if messages say it.
fn offsets(parts: &[RecordedRun], pairs: &[(End, End)]) -> Result<Vec<(i128, Option<u64>)>, JoinError> {
    // The least difference of each direction: the sender's offset less the receiver's is at most so much.
    let mut least: BTreeMap<(usize, usize), i128> = BTreeMap::new();
    for (sender, receiver) in pairs {
        for (one, other) in sender.messages.iter().zip(&receiver.messages) {
            let difference = i128::from(other.0) - i128::from(one.0);
            let known = least.entry((sender.part, receiver.part)).or_insert(difference);
            *known = (*known).min(difference);
        }
    }
    let mut known: Vec<Option<(i128, Option<u64>)>> = vec![None; parts.len()];
    known[0] = Some((0, Some(0)));
    loop {
        let mut next = None;
        for (from, to) in least.keys().flat_map(|&(one, other)| [(one, other), (other, one)]) {
            let (Some((offset, off)), None) = (known[from], known[to]) else { continue };
            // The offset of `to` less that of `from` lies between these.
            let (low, high) = (least.get(&(from, to)).map(|most| -most), least.get(&(to, from)).copied());
            let (by, width) = match (low, high) {
                (Some(low), Some(high)) => ((low + high) / 2, Some((high - low).unsigned_abs() / 2)),
                (Some(one), None) | (None, Some(one)) => (one, None),
                (None, None) => continue,
            };
            let width = width.and_then(|width| Some(u64::try_from(width).ok()?.saturating_add(off?)));
            next = Some((to, (offset + by, width)));
            break;
        }
        match next {
            Some((to, found)) => known[to] = Some(found),
            None => break,
        }
    }
    let missing = |part: usize| JoinError::NoMessages(parts[part].name.clone());
    known.into_iter().enumerate().map(|(part, known)| known.ok_or_else(|| missing(part))).collect()
}

/// Adds a process's boxes to the operators of a query: all processes have the same plan, and each its part of the
/// boxes.
fn add_operators(to: &mut Vec<OperatorInfo>, own: Option<&Vec<OperatorInfo>>, moved_by: u32) {
    let Some(own) = own.filter(|own| !own.is_empty()) else { return };
    if to.is_empty() {
        to.extend(own.iter().map(|operator| OperatorInfo {
            boxes: Vec::new(),
            outputs: Vec::new(),
            ..operator.clone()
        }));
    }
    let is_alike = |(one, other): (&OperatorInfo, &OperatorInfo)| one.name == other.name && one.parent == other.parent;
    if to.len() != own.len() || !to.iter().zip(own).all(is_alike) {
        return;
    }
    for (operator, own) in to.iter_mut().zip(own) {
        operator.boxes.extend(own.boxes.iter().map(|index| index.saturating_add(moved_by)));
        let moved = own.outputs.iter().map(|from| InputSource { index: from.index.saturating_add(moved_by), ..*from });
        operator.outputs.extend(moved);
    }
}

struct Joining<'a> {
    parts: &'a [RecordedRun],
    offsets: Vec<i128>,
    widths: Vec<Option<u64>>,
    messages: Vec<usize>,
    /// The joined network's request and model in each process.
    own: Vec<Option<(u32, usize)>>,
    /// For each process, the numbers added to other requests, boxes of the joined network, tasks, seats and functions.
    requests: Vec<u32>,
    boxes: Vec<u32>,
    tasks: Vec<u32>,
    seats: Vec<usize>,
    functions: Vec<u32>,
    /// For each process, its events that send to another one, and the events there that wait for them.
    sends: Vec<BTreeMap<At, ()>>,
    waits: Vec<BTreeMap<At, (usize, At)>>,
    models: Vec<ModelInfo>,
    /// For each of the models, its operators, if it answers a query.
    operators: Vec<Vec<OperatorInfo>>,
}

impl<'a> Joining<'a> {
    fn new(parts: &'a [RecordedRun], pairs: &[(End, End)], offsets: &[(i128, Option<u64>)]) -> Joining<'a> {
        let count = parts.len();
        let earliest = offsets.iter().map(|(offset, _)| *offset).min().unwrap_or(0);
        let mut own = vec![None; count];
        let (mut sends, mut waits) = (vec![BTreeMap::new(); count], vec![BTreeMap::new(); count]);
        let mut messages = vec![0; count];
        for (sender, receiver) in pairs {
            for end in [sender, receiver] {
                own[end.part] = Some((end.request, end.model));
            }
            for (one, other) in sender.messages.iter().zip(&receiver.messages) {
                sends[sender.part].insert(one.1, ());
                waits[receiver.part].insert(other.1, (sender.part, one.1));
                messages[sender.part] += 1;
                messages[receiver.part] += 1;
            }
        }
        let mut made = Joining {
            parts,
            offsets: offsets.iter().map(|(offset, _)| offset - earliest).collect(),
            widths: offsets.iter().map(|(_, width)| *width).collect(),
            messages,
            own,
            requests: Vec::new(),
            boxes: Vec::new(),
            tasks: Vec::new(),
            seats: Vec::new(),
            functions: Vec::new(),
            sends,
            waits,
            models: Vec::new(),
            operators: Vec::new(),
        };
        made.number(pairs);
        made
    }

    /// Gives requests, boxes, tasks, seats and functions of all processes numbers of their own.
    fn number(&mut self, pairs: &[(End, End)]) {
        let (mut request, mut task, mut seat, mut function) = (0_u32, 0_u32, 0_usize, 0_u32);
        let mut joined = ModelInfo::default();
        let (mut others, mut operators) = (Vec::new(), vec![Vec::new()]);
        for (part, run) in self.parts.iter().enumerate() {
            let header = run.trace.header();
            self.requests.push(request);
            self.boxes.push(joined.boxes.len() as u32);
            self.tasks.push(task);
            self.seats.push(seat);
            self.functions.push(function);
            let whos = || run.trace.logs().iter().flat_map(|log| &log.events).filter_map(|event| event.what.who());
            let most =
                whos().map(|who| who.request).chain(header.models.iter().flat_map(|model| model.requests.clone()));
            request = request.saturating_add(most.max().unwrap_or(0)).saturating_add(1);
            task = task.saturating_add(whos().filter_map(JobId::number).max().map_or(0, |most| most + 1));
            seat += header.seats.len();
            function += header.functions.len() as u32;
            for (model, info) in header.models.iter().enumerate() {
                let own = self.own[part].filter(|(_, of)| *of == model).map(|(request, _)| request);
                if own.is_some() {
                    if part == 0 {
                        joined.name.clone_from(&info.name);
                    }
                    let moved = info.boxes.iter().cloned().map(|mut info| {
                        info.inputs.iter_mut().for_each(|source| source.index += self.boxes[part]);
                        info
                    });
                    joined.boxes.extend(moved);
                    add_operators(&mut operators[0], header.operators.get(model), self.boxes[part]);
                }
                let rest = info.requests.iter().filter(|request| Some(**request) != own);
                let requests: Vec<u32> = rest.map(|request| request + self.requests[part]).collect();
                if !requests.is_empty() {
                    others.push(ModelInfo { requests, ..info.clone() });
                    operators.push(header.operators.get(model).cloned().unwrap_or_default());
                }
            }
        }
        joined.requests = vec![self.joined()];
        // The receiver's box gets an input that the sender's box leads to.
        for (sender, receiver) in pairs {
            let source = InputSource { index: sender.index + self.boxes[sender.part], output: 1 };
            let info = &mut joined.boxes[(receiver.index + self.boxes[receiver.part]) as usize];
            if info.inputs.is_empty() {
                info.inputs.push(source);
                info.bounds = vec![ViaBound { envelopes: u32::MAX, bytes: u64::MAX }];
            }
        }
        self.models = [vec![joined], others].concat();
        if !operators.iter().all(Vec::is_empty) {
            self.operators = operators;
        }
    }

    /// The joined network's request: that of the process that began it.
    fn joined(&self) -> u32 {
        self.own[0].map_or(0, |(request, _)| request)
    }

    fn trace(mut self) -> Trace {
        let first = self.parts[0].trace.header();
        let mut seats = Vec::new();
        for (part, run) in self.parts.iter().enumerate() {
            let own = run.trace.header().seats.iter().map(|seat| {
                let mut seat = *seat;
                seat.process = part as u32;
                seat
            });
            seats.extend(own);
        }
        let logs = self.logs();
        let told = (1..self.parts.len()).map(|part| {
            let exact = match self.widths[part] {
                Some(ns) => format!("to {} µs", ns.div_ceil(1000)),
                None => "by messages one way alone".to_owned(),
            };
            format!("{} set by {} messages, {exact}", self.parts[part].name, self.messages[part])
        });
        let clock = [first.clock.clone()].into_iter().chain(told).collect::<Vec<_>>().join("; ");
        let all = || self.parts.iter().map(|run| run.trace.header());
        let machines: Vec<&str> = all().map(|header| header.machine.as_str()).collect();
        let header = Header {
            clock,
            machine: if machines.windows(2).all(|two| two[0] == two[1]) {
                first.machine.clone()
            } else {
                machines.join(", ")
            },
            seats,
            models: self.models.clone(),
            functions: all().flat_map(|header| header.functions.clone()).collect(),
            rolls: all().any(|header| header.rolls),
            last_ns: all().map(|header| header.last_ns).min().unwrap_or(0),
            earlier: Vec::new(),
            operators: self.operators.clone(),
            processes: self.parts.iter().map(|run| run.name.clone()).collect(),
            machines: match all().all(|header| header.machines.len() == 1) {
                true => all().flat_map(|header| header.machines.clone()).collect(),
                false => Vec::new(),
            },
            ..first.clone()
        };
        Trace::new(header, logs)
    }

    /// All events with new numbers, and an order that puts each message's sending before its arrival.
    fn logs(&mut self) -> Vec<SeatLog> {
        let count: usize = self.parts.iter().map(|run| run.trace.logs().len()).sum();
        let mut logs = vec![SeatLog::default(); count];
        for (part, run) in self.parts.iter().enumerate() {
            for (seat, log) in run.trace.logs().iter().enumerate() {
                logs[self.seats[part] + seat].lost = log.lost;
            }
        }
        let mut heads: Vec<_> = self.parts.iter().map(|run| run.trace.merged().peekable()).collect();
        let mut shifts = vec![0_u64; self.parts.len()];
        let mut sent: BTreeMap<(usize, At), u64> = BTreeMap::new();
        loop {
            let mut best: Option<(bool, i128, usize)> = None;
            for (part, head) in heads.iter_mut().enumerate() {
                let Some(entry) = head.peek() else { continue };
                let waits = self.waits[part].get(&(entry.seat, entry.index));
                // Messages of traces that do not fit could wait for each other: then the earliest one goes on.
                let is_early = waits.is_some_and(|sender| !sent.contains_key(sender));
                let rank = (is_early, i128::from(entry.event.time_ns) + self.offsets[part], part);
                if best.is_none_or(|best| rank < best) {
                    best = Some(rank);
                }
            }
            let Some((_, _, part)) = best else { break };
            let entry = heads[part].next().expect("it was looked at");
            let at = (entry.seat, entry.index);
            let log = &mut logs[self.seats[part] + entry.seat].events;
            let time_ns = u64::try_from(i128::from(entry.event.time_ns) + self.offsets[part]).unwrap_or(u64::MAX);
            let mut record = |what: What, least: u64, shift: &mut u64| {
                let order = entry.event.order.saturating_add(*shift).max(least);
                *shift = order.saturating_sub(entry.event.order);
                log.push(Event { time_ns, order, what });
                order
            };
            let shift = &mut shifts[part];
            let Some(what) = self.renumbered(part, entry.event.what) else { continue };
            match (what, self.waits[part].get(&at)) {
                (What::EnvelopeSent { who, rows, pill, .. }, Some(sender)) => {
                    let least = sent.get(sender).map_or(0, |order| order + 1);
                    let order = record(What::EnvelopeReceived { who, input: 0, rows, pill }, least, shift);
                    record(what, order + 1, shift);
                }
                _ => {
                    let order = record(what, 0, shift);
                    if let (What::EnvelopeReceived { who, rows, pill, .. }, true) =
                        (what, self.sends[part].contains_key(&at))
                    {
                        let order = record(What::EnvelopeSent { who, output: 1, rows, pill }, order + 1, shift);
                        sent.insert((part, at), order);
                    }
                }
            }
        }
        logs
    }

    /// An event with the numbers of the joined trace; none for the submission and the end of a part, which the process
    /// that began the network has of the whole.
    fn renumbered(&self, part: usize, what: What) -> Option<What> {
        let own = self.own[part].map(|(request, _)| request);
        let is_own = |request: u32| own == Some(request);
        let is_one = matches!(what, What::RequestSubmitted { .. } | What::RequestEnded { .. });
        // By the bytes of a file, in which all kinds have their numbers at the same places.
        let mut bytes = Event { time_ns: 0, order: 0, what }.to_bytes();
        let number = |bytes: &[u8; Event::BYTES], at: usize| {
            u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
        };
        let of = number(&bytes, REQUEST);
        if is_one && is_own(of) && part > 0 {
            return None;
        }
        let mut put = |at: usize, number: u32| bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        let index = |index: u32| match (JobId { request: of, index }).number() {
            Some(number) => JobId::task(of, number + self.tasks[part]).index,
            None if index < JobId::TASKS && is_own(of) => index + self.boxes[part],
            None => index,
        };
        if is_one || what.who().is_some() {
            put(REQUEST, if is_own(of) { self.joined() } else { of + self.requests[part] });
        }
        if let Some(who) = what.who() {
            put(INDEX, index(who.index));
        }
        match what {
            What::Enqueued { by, .. } | What::Spawned { by, .. } => put(VALUE, index(by)),
            What::Named { function, .. } => put(VALUE, function + self.functions[part]),
            What::LentBegins { seat } => put(VALUE, seat + self.seats[part] as u32),
            _ => {}
        }
        Event::from_bytes(&bytes).map(|event| event.what)
    }
}
