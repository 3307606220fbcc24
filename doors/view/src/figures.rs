//! All that a page says about one run.

use crate::RecordedRun;
use crate::activity::{Rest, Seat, State};
use crate::keys::Keys;
use crate::operators::OperatorWork;
use crate::pack::{Base, CHUNK, Cause, base64, deflate, has_cause, pack};
use crate::pass::{ASKED, Findings, pass};
use crate::pyramid::{self, Rates, Span};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use vicus_trace::{JobId, Summary, Trace, Violation};

/// The colours of the page; the last one is for all types that have none of their own.
const COLOURS: u8 = 8;
/// The requests that the viewer knows.
const MOST_REQUESTS: usize = 2000;
/// A number of nanoseconds that JavaScript can count exactly.
const MOST_SPAN_NS: u64 = 1 << 53;

/// A run with its figures.
pub(crate) struct RunFigures<'a> {
    pub(crate) run: &'a RecordedRun,
    pub(crate) number: usize,
    pub(crate) trace: &'a Trace,
    pub(crate) keys: Keys,
    pub(crate) first_ns: u64,
    pub(crate) summary: Summary,
    pub(crate) violations: Vec<Violation>,
    pub(crate) found: Findings,
    pub(crate) operators: OperatorWork,
    /// The time of each seat in each state.
    pub(crate) of_states: Vec<[u64; State::COUNT]>,
    /// How long the tasks of each key waited for others, in the order of [`State::WAITS`].
    pub(crate) waits_ns: Vec<[u64; State::WAITS.len()]>,
    /// The time in user code of each key, and its parts over time.
    pub(crate) busy_ns: Vec<u64>,
    pub(crate) of_keys: Vec<Vec<f32>>,
    /// The colour of each key.
    pub(crate) colours: Vec<u8>,
    /// For each seat, its levels.
    pub(crate) levels: Vec<Vec<String>>,
    /// The packed events in base64, and what the index says of each chunk.
    pub(crate) chunks: Vec<String>,
    index: Vec<Value>,
}

/// Runs work for each number on all cores; the results are in the order of the numbers.
fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let cores = thread::available_parallelism().map_or(1, usize::from).min(count);
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(count));
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    let result = work(number);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

impl<'a> RunFigures<'a> {
    pub(crate) fn new(run: &'a RecordedRun, number: usize) -> RunFigures<'a> {
        let trace = &run.trace;
        let events = || trace.logs().iter().flat_map(|log| &log.events);
        let first_ns = events().map(|event| event.time_ns).min().unwrap_or(0);
        let last_ns = events().map(|event| event.time_ns).max().unwrap_or(0);
        let span = Span { first_ns, ns: (last_ns - first_ns).min(MOST_SPAN_NS) };
        let keys = Keys::new(trace);
        let seats = trace.logs().len();
        let rates = Rates { near: run.near_bytes_a_ns, far: run.far_bytes_a_ns };
        let rows = in_parallel(seats, |seat| pyramid::row(trace, seat, &keys, rates, span));
        let mut busy_ns = vec![0_u64; keys.all.len()];
        let mut of_keys: Vec<Vec<f32>> = vec![Vec::new(); keys.all.len()];
        let mut waits_ns = vec![[0_u64; State::WAITS.len()]; keys.all.len()];
        let (mut levels, mut of_states) = (Vec::new(), Vec::new());
        for row in rows {
            let waits = waits_ns.iter_mut().flatten().zip(row.waits_ns.iter().flatten());
            waits.for_each(|(sum, ns)| *sum = sum.saturating_add(*ns));
            of_states.push(row.of_states);
            busy_ns.iter_mut().zip(&row.busy_ns).for_each(|(sum, ns)| *sum = sum.saturating_add(*ns));
            for (sum, of_key) in of_keys.iter_mut().zip(row.of_keys) {
                match sum.is_empty() {
                    true => *sum = of_key,
                    false => sum.iter_mut().zip(of_key).for_each(|(sum, ns)| *sum += ns),
                }
            }
            levels.push(row.levels);
        }
        let busiest = busiest(&keys, &busy_ns);
        let mut operators = OperatorWork::default();
        if !trace.header().operators.is_empty() {
            let of_seat = |seat| OperatorWork::of_seat(trace, seat, &keys, last_ns);
            in_parallel(seats, of_seat).into_iter().for_each(|work| operators.add(work));
        }
        let (summary, violations, found) = thread::scope(|scope| {
            let summary = scope.spawn(|| trace.summary());
            let violations = scope.spawn(|| trace.check());
            let found = pass(trace, &keys, &busiest[..busiest.len().min(ASKED)], span);
            let summary = summary.join().expect("a summary of any trace can be made");
            (summary, violations.join().expect("any trace can be checked"), found)
        });
        let (_, type_of) = keys.types();
        let colour = |of_type: usize| {
            let rank = busiest.iter().position(|each| *each == of_type).unwrap_or(usize::MAX);
            rank.min(usize::from(COLOURS) - 1) as u8
        };
        let colours = type_of.iter().map(|&of_type| colour(of_type)).collect();
        let mut made = RunFigures {
            run,
            number,
            trace,
            keys,
            first_ns,
            summary,
            violations,
            found,
            operators,
            of_states,
            waits_ns,
            busy_ns,
            of_keys,
            colours,
            levels,
            chunks: Vec::new(),
            index: Vec::new(),
        };
        made.pack();
        made
    }

    fn pack(&mut self) {
        struct Part {
            seat: usize,
            start: usize,
            end: usize,
            cause: usize,
            state: Seat,
        }
        let first_ns = self.first_ns;
        // The state at the beginning of each chunk: the viewer begins anywhere.
        let parts: Vec<Vec<Part>> = in_parallel(self.trace.logs().len(), |seat| {
            let events = &self.trace.logs()[seat].events;
            let (mut state, mut cause, mut parts) = (Seat::default(), 0, Vec::new());
            for (number, chunk) in events.chunks(CHUNK).enumerate() {
                let start = number * CHUNK;
                parts.push(Part { seat, start, end: start + chunk.len(), cause, state: state.clone() });
                for event in chunk {
                    state.step(event, &self.keys, |_| ());
                    cause += usize::from(has_cause(event.what.kind()));
                }
            }
            parts
        });
        let parts: Vec<Part> = parts.into_iter().flatten().collect();
        let packed: Vec<(String, Value)> = in_parallel(parts.len(), |number| {
            let Part { seat, start, end, cause, ref state } = parts[number];
            let events = &self.trace.logs()[seat].events;
            let before = start.checked_sub(1).map(|before| &events[before]);
            let (time, order) = before.map_or((first_ns, 0), |event| (event.time_ns, event.order));
            let causes: &[Option<Cause>] = &self.found.causes[seat][cause..];
            let chunk = &events[start..end];
            let text = base64(&pack(chunk, causes.iter().copied(), Base { time, order }, &self.keys));
            let at = |ns: u64| ns.wrapping_sub(first_ns) as i64;
            let least = chunk.iter().map(|event| event.time_ns).min().unwrap_or(time);
            let most = chunk.iter().map(|event| event.time_ns).max().unwrap_or(time);
            let rest = match state.rest {
                Rest::Awake => 0,
                Rest::Asleep => 1,
                Rest::Away => 2,
            };
            let frames: Vec<Value> = (state.frames.iter())
                .map(|frame| {
                    let JobId { request, index } = frame.who;
                    let waits = frame.waits.map_or(0, |awaits| 1 + awaits as u8);
                    let flags = u8::from(frame.is_invocation) | u8::from(frame.in_user_code) << 1 | waits << 2;
                    json!([request, index, frame.key, frame.rule, flags])
                })
                .collect();
            let since = if before.is_some() { at(state.since_ns) } else { at(time_of_first(chunk)) };
            let taken = state.taken.map(|(who, rule)| json!([who.request, who.index, rule]));
            let entry = json!([
                seat,
                start,
                end - start,
                at(least).min(since),
                at(most),
                time.to_string(),
                order.to_string(),
                since,
                rest | u8::from(state.is_lent) << 2,
                frames,
                state.near_bytes,
                state.far_bytes,
                taken,
            ]);
            (text, entry)
        });
        (self.chunks, self.index) = packed.into_iter().unzip();
    }

    /// A type that both runs have has one colour.
    pub(crate) fn take_colours(&mut self, other: &RunFigures<'_>) {
        let types: rustc_hash::FxHashMap<&str, u8> =
            other.keys.all.iter().zip(&other.colours).map(|(key, colour)| (&key.type_name[..], *colour)).collect();
        if self.keys.all.iter().any(|key| types.contains_key(&key.type_name[..])) {
            let colour = |key: &crate::keys::Key| types.get(&key.type_name[..]).copied().unwrap_or(COLOURS - 1);
            self.colours = self.keys.all.iter().map(colour).collect();
        }
    }

    /// The id of an element of this run.
    pub(crate) fn id(&self, name: &str) -> String {
        format!("r{}-{name}", self.number)
    }

    /// Sums up what is known of each key by type.
    pub(crate) fn of_type(&self, of_type: usize, of_keys: &[u64]) -> u64 {
        let (_, types) = self.keys.types();
        let own = types.iter().zip(of_keys).filter(|(each, _)| **each == of_type);
        own.fold(0, |sum, (_, ns)| sum.saturating_add(*ns))
    }

    /// Where the bytes per nanosecond come from, by which waiting for memory is estimated.
    pub(crate) fn rates_note(&self) -> String {
        let RecordedRun { near_bytes_a_ns: near, far_bytes_a_ns: far, measured_by, .. } = self.run;
        match measured_by {
            Some(file) => format!("{near:.1} and {far:.1} GB/s a core, near and far, from {file}"),
            None => format!("{near:.1} and {far:.1} GB/s a core, near and far: assumed, not measured on this machine"),
        }
    }

    /// The index, which the viewer reads first.
    pub(crate) fn index(&self) -> Value {
        let (types, type_of) = self.keys.types();
        let chain = &self.found.chain;
        let at = |ns: u64| ns.saturating_sub(self.first_ns);
        let steps: Vec<Value> =
            chain.steps.iter().map(|step| json!([at(step.begin_ns), step.ns, step.seat, step.key])).collect();
        let requests: Vec<Value> = (self.found.requests.iter().take(MOST_REQUESTS))
            .map(|request| json!([request.request, at(request.begin_ns), request.end_ns.map(at)]))
            .collect();
        let stalls: Vec<Value> =
            (self.found.stalls.iter()).map(|stall| json!([at(stall.begin_ns), at(stall.end_ns), stall.key])).collect();
        let vias: Vec<Value> =
            (self.found.vias.iter()).map(|via| json!([via.model, via.from, via.output, via.to, via.input])).collect();
        json!({
            "format": crate::FORMAT,
            "name": self.run.name,
            "lost": self.trace.logs().iter().map(|log| log.lost.to_string()).collect::<Vec<_>>(),
            "counts": self.trace.logs().iter().map(|log| log.events.len()).collect::<Vec<_>>(),
            "firstNs": self.first_ns.to_string(),
            "spanNs": self.summary.span_ns.min(MOST_SPAN_NS),
            "keys": self.keys.all,
            "types": types,
            "typeOf": type_of,
            "colours": self.colours,
            "busyNs": self.busy_ns,
            "queued": self.found.queued,
            "chain": { "ns": chain.ns, "steps": steps, "without": chain.without },
            "vias": vias,
            "requests": requests,
            "stalls": stalls,
            "rates": [self.run.near_bytes_a_ns, self.run.far_bytes_a_ns],
            "faults": self.run.faults,
            "levels": self.levels.iter().map(Vec::len).collect::<Vec<_>>(),
            "chunks": self.index,
        })
    }

    /// For each key, how many seats ran it in each part of the time, in 1/1024: two bytes each, packed.
    pub(crate) fn of_keys(&self) -> String {
        let part = (self.summary.span_ns as f64 / pyramid::COARSEST as f64).max(1.0);
        let mut bytes = Vec::new();
        for of_key in &self.of_keys {
            for at in 0..pyramid::COARSEST {
                let ns = of_key.get(at).copied().unwrap_or(0.0);
                let seats = (f64::from(ns) / part * 1024.0).ceil().min(65535.0) as u16;
                bytes.extend(seats.to_le_bytes());
            }
        }
        base64(&deflate(&bytes))
    }
}

fn time_of_first(chunk: &[vicus_trace::Event]) -> u64 {
    chunk.first().map_or(0, |event| event.time_ns)
}

/// The types by their time in user code, the busiest first.
fn busiest(keys: &Keys, busy_ns: &[u64]) -> Vec<usize> {
    let (types, type_of) = keys.types();
    let mut sums = vec![0_u64; types.len()];
    type_of.iter().zip(busy_ns).for_each(|(&of_type, ns)| sums[of_type] = sums[of_type].saturating_add(*ns));
    let mut sorted: Vec<usize> = (0..types.len()).collect();
    sorted.sort_by_key(|&of_type| (std::cmp::Reverse(sums[of_type]), of_type));
    sorted
}
