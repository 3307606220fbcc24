//! A query, from its request to its answer.

use crate::answer::{Failure, short};
use crate::answers::{self, Lasting, Text};
use crate::body::{Body, Sent, watch};
use crate::coding::{Coding, Packer};
use crate::data::Version;
use crate::log::Line;
use crate::metrics::Kind;
use crate::negotiate::{FormatWish, Offer};
use crate::plans::Key;
use crate::requests::{Ended, Entry, RunningRequest};
use crate::shared::Shared;
use crate::timeline;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use serde_json::{Value, json};
use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;
use vicus_service::data::StorePlace;
use vicus_service::{
    Answer, CallLimits, CallOutcome, Dataset, DefaultGraph, Error, Prepared, QueryLanguage, ReadGraphs, RunCounts,
    RunningQuery, Service, SessionOptions, StreamReader, StreamWriter, TextSink, Watching, text_stream,
};

/// A client's query.
#[derive(Clone)]
pub(crate) struct ClientQuery {
    pub(crate) text: Arc<str>,
    pub(crate) language: &'static dyn QueryLanguage,
    /// The base of its relative IRIs.
    pub(crate) base: Option<String>,
    pub(crate) graphs: Option<ReadGraphs>,
    pub(crate) wanted: FormatWish,
    pub(crate) coding: Coding,
    /// The client's limit of time, if it is less than the server's.
    pub(crate) time: Option<Duration>,
    /// The number of rows wanted.
    pub(crate) first_rows: Option<u64>,
    /// Only the head of the answer is wanted.
    pub(crate) is_head: bool,
    /// The client's version, for a request that may be answered with 304.
    pub(crate) none_match: Option<String>,
    /// Takes the data's own default graph, whatever the server's options say.
    pub(crate) own_default: bool,
    /// A time line is wanted.
    pub(crate) is_traced: bool,
    /// The key for keeping its answer.
    pub(crate) key: Option<answers::Key>,
}

/// How a query began.
enum Started {
    /// A complete answer.
    Whole {
        media_type: &'static str,
        coding: Coding,
        tag: Option<String>,
        /// The version of the data.
        version: u64,
        bytes: Vec<u8>,
        rows: u64,
    },
    /// An answer that goes on.
    Stream(Box<Streaming>),
    /// The client has the answer already.
    NotModified {
        tag: String,
    },
    Failed(Failure),
    /// There is no memory for it now.
    Later(Failure),
}

struct Streaming {
    media_type: &'static str,
    coding: Coding,
    tag: Option<String>,
    /// The version of the data.
    version: u64,
    reader: StreamReader,
    writer: StreamWriter,
    running: RunningQuery<TextSink<Packer>>,
    /// Separate threads that record.
    recording: Option<Service>,
}

/// A shorter body is not packed.
const WORTH_PACKING: usize = 1 << 10;

/// Answers a query.
pub(crate) async fn answer(shared: &Arc<Shared>, asked: ClientQuery, begun: RunningRequest) -> Response<Body> {
    let began = begun.entry.began;
    let asked = Arc::new(asked);
    let started = loop {
        let freed = shared.freed.notified();
        let job = {
            let (shared, asked, entry) = (Arc::clone(shared), Arc::clone(&asked), Arc::clone(&begun.entry));
            move || begin(&shared, &asked, &entry)
        };
        let started = match shared.jobs.run(job) {
            Ok(started) => started.await,
            Err(_) => break Started::Failed(Failure::busy("too many requests wait: ask again later")),
        };
        match started {
            Ok(Started::Later(failure)) => {
                if !shared.waits_for_memory(freed, began, time_of(shared, &asked)).await {
                    break Started::Failed(failure);
                }
            }
            Ok(started) => break started,
            Err(_) => {
                break Started::Failed(Failure::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "internal",
                    "the request failed by a mistake of ours",
                ));
            }
        }
    };
    match started {
        Started::Whole { media_type, coding, tag, version, bytes, rows } => {
            shared.metrics.rows.fetch_add(rows, Ordering::Relaxed);
            let count = bytes.len();
            let mut response = short(StatusCode::OK, media_type, bytes);
            set_headers(response.headers_mut(), coding, tag.as_deref().and_then(header_of));
            if let Some(tag) = tag.filter(|_| asked.key.is_some() && !asked.is_head) {
                response.extensions_mut().insert(Lasting {
                    version,
                    media_type,
                    coding,
                    tag,
                    rows,
                    first_rows: asked.first_rows,
                });
            }
            note(shared, &begun.entry, Kind::Query, 200, count as u64, rows, None);
            begun.end("done", None, rows);
            response
        }
        Started::Stream(streaming) => stream(shared, &asked, *streaming, begun).await,
        Started::NotModified { tag } => {
            let mut response = short(StatusCode::NOT_MODIFIED, "", Vec::new());
            set_headers(response.headers_mut(), Coding::Identity, header_of(&tag));
            note(shared, &begun.entry, Kind::Query, 304, 0, 0, None);
            begun.end("done", None, 0);
            response
        }
        Started::Failed(failure) | Started::Later(failure) => failed(shared, &asked, begun, &failure),
    }
}

fn failed(shared: &Arc<Shared>, asked: &ClientQuery, begun: RunningRequest, failure: &Failure) -> Response<Body> {
    let response = failure.response(asked.wanted.accepted.prefers_json(), Some(&begun.entry.id));
    note(shared, &begun.entry, Kind::Query, failure.status.as_u16(), 0, 0, Some(failure.message.clone()));
    let state = if failure.kind == "cancelled" { "cancelled" } else { "failed" };
    begun.end(state, Some(failure.message.clone()), 0);
    response
}

/// How long it may take in all.
fn time_of(shared: &Shared, asked: &ClientQuery) -> Option<Duration> {
    [asked.time, shared.options.session.limits.time].into_iter().flatten().min()
}

/// Counts an ended request, and logs it.
pub(crate) fn note(
    shared: &Shared,
    entry: &Entry,
    kind: Kind,
    status: u16,
    bytes: u64,
    rows: u64,
    error: Option<String>,
) {
    count_answer(shared, kind, status, entry.began.elapsed(), bytes, |time| Line {
        id: &entry.id,
        client: entry.client.to_string(),
        method: entry.method.as_str(),
        path: &entry.path,
        agent: entry.agent.as_deref(),
        language: entry.language,
        kind: kind.name(),
        status,
        time,
        rows,
        bytes,
        error,
    });
}

/// The variant for a request that may have no entry.
pub(crate) fn count_answer<'a>(
    shared: &Shared,
    kind: Kind,
    status: u16,
    time: Duration,
    bytes: u64,
    line: impl FnOnce(Duration) -> Line<'a>,
) {
    shared.metrics.add(kind, status, time);
    shared.metrics.bytes.fetch_add(bytes, Ordering::Relaxed);
    if !shared.options.log.is_off() {
        shared.options.log.write(&line(time));
    }
}

/// On a job's thread: parses, plans, and begins.
fn begin(shared: &Arc<Shared>, asked: &ClientQuery, entry: &Arc<Entry>) -> Started {
    match try_begin(shared, asked, entry) {
        Ok(started) => started,
        Err(Stopped::Error(error @ Error::Busy(busy))) if busy.had == 0 => {
            Started::Later(shared.failure(&error, &asked.text))
        }
        Err(Stopped::Error(error)) => Started::Failed(shared.failure(&error, &asked.text)),
        Err(Stopped::Format(message)) => Started::Failed(Failure::new(StatusCode::NOT_ACCEPTABLE, "format", message)),
    }
}

enum Stopped {
    Error(Error),
    Format(String),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped::Error(error)
    }
}

/// The options of a request's session.
fn options(shared: &Shared, asked: &ClientQuery, entry: &Entry) -> SessionOptions {
    let session = &shared.options.session;
    let mut options = SessionOptions {
        language: asked.language,
        base: asked.base.clone().or_else(|| session.base.clone()),
        graphs: asked.graphs.clone(),
        parallel_answers: true,
        first_rows: asked.first_rows,
        counts: entry.is_named,
        limits: CallLimits {
            time: time_of(shared, asked).map(|time| time.saturating_sub(entry.began.elapsed())),
            cancel: entry.cancel.clone(),
            ..session.limits.clone()
        },
        ..session.clone()
    };
    if asked.own_default {
        options.languages.sparql.default_graph = DefaultGraph::Own;
    }
    options
}

fn try_begin(shared: &Arc<Shared>, asked: &ClientQuery, entry: &Arc<Entry>) -> Result<Started, Stopped> {
    let version = shared.data.now();
    // One that waited for memory looks at newer data.
    if let Some(sequence) = version.sequence {
        let _ = entry.sequence.set(sequence);
    }
    let recording = if asked.is_traced { shared.service.recorder() } else { None };
    let service = recording.as_ref().unwrap_or(&shared.service);
    let snapshot = Arc::clone(&version.snapshot);
    // Other processes compare the place with that of their data.
    let store = shared.data.store().filter(|_| shared.options.session.peers.is_some());
    let dataset = match version.sequence.zip(store) {
        Some((sequence, store)) => Dataset::of_store(snapshot, StorePlace { store: store.standing().store, sequence }),
        None => Dataset::new(snapshot),
    };
    let session = service.session(&dataset, options(shared, asked, entry));
    let mut call = session.call()?;
    let key = key_of(shared, asked);
    // Tables of files stay the same while the server runs.
    let may_be_kept = !asked.own_default;
    let kept = may_be_kept.then(|| shared.plans.kept.get(version.number, &key)).flatten();
    let prepared = match kept {
        Some(prepared) => prepared,
        None => {
            let prepared = call.prepare(&asked.text)?;
            if may_be_kept && prepared.can_be_kept() {
                shared.plans.put(version.number, key.clone(), &prepared);
            }
            prepared
        }
    };
    let offer = asked.wanted.offer(prepared.form()).map_err(Stopped::Format)?;
    let format = match offer {
        Offer::Answer(format) => format,
        Offer::Plan { json } => {
            let text = match json {
                true => plan_json(entry, &prepared, None, None).to_string(),
                false => prepared.explain(None),
            };
            let (media_type, bytes) = (offer.media_type(), text.into_bytes());
            return Ok(Started::Whole { media_type, coding: Coding::Identity, tag: None, version: 0, bytes, rows: 0 });
        }
    };
    let is_short = prepared.is_short();
    let media_type = offer.media_type();
    let tag = tag_of(shared, asked, &key, &prepared, &version, offer);
    if let Some(tag) = tag.as_ref().filter(|tag| asked.none_match.as_ref().is_some_and(|known| has_tag(known, tag))) {
        return Ok(Started::NotModified { tag: tag.clone() });
    }
    let number = version.number;
    if asked.is_head {
        let (coding, bytes) = (Coding::Identity, Vec::new());
        return Ok(Started::Whole { media_type, coding, tag, version: number, bytes, rows: 0 });
    }
    // A short answer is packed when it is there.
    let coding = if is_short { Coding::Identity } else { asked.coding };
    let (writer, reader) = text_stream(shared.options.clients.stream_bytes);
    let pace = Arc::new(writer.clone());
    let packer = Packer::new(coding, writer.clone())
        .map_err(|error| Stopped::Format(format!("the answer can't be packed: {error}")))?;
    let running = call.begin(&prepared, TextSink::paced(format, packer, pace))?;
    let mut reader = reader.cancelling(entry.cancel.clone());
    if !running.is_done() {
        entry.set_run(&prepared, running.watch());
        let streaming = Streaming { media_type, coding, tag, version: number, reader, writer, running, recording };
        return Ok(Started::Stream(Box::new(streaming)));
    }
    if entry.is_named {
        entry.set_run(&prepared, running.watch());
    }
    let (packer, outcome) = running.wait()?;
    count(shared, &outcome);
    drop(session);
    if let Some(trace) = recording.and_then(|recording| timeline::of(recording, &entry.id)) {
        entry.set_trace(trace);
    }
    packer.end().map_err(|error| Stopped::Format(format!("the answer can't be packed: {error}")))?;
    let bytes = reader.whole().unwrap_or_default();
    let coding = if bytes.len() >= WORTH_PACKING && is_short { asked.coding } else { coding };
    let bytes = match is_short {
        true => coding.pack(bytes).map_err(|error| Stopped::Format(format!("the answer can't be packed: {error}")))?,
        false => bytes,
    };
    Ok(Started::Whole { media_type, coding, tag, version: number, bytes, rows: outcome.rows })
}

/// Counts the cost of a query.
fn count(shared: &Shared, outcome: &CallOutcome) {
    let (metrics, totals) = (&shared.metrics, &outcome.totals);
    metrics.near_bytes.fetch_add(totals.near_bytes, Ordering::Relaxed);
    metrics.far_bytes.fetch_add(totals.far_bytes, Ordering::Relaxed);
    metrics.tasks.fetch_add(totals.tasks, Ordering::Relaxed);
    metrics.far_tasks.fetch_add(totals.far, Ordering::Relaxed);
    shared.freed.notify_waiters();
}

fn key_of(shared: &Shared, asked: &ClientQuery) -> Key {
    Key::new(&shared.plans.hashes, asked.language.name(), &asked.text, asked.base.as_deref(), asked.graphs.as_ref())
}

/// The tag of an answer, if the same query at the same version of the data gives the same answer.
fn tag_of(
    shared: &Shared,
    asked: &ClientQuery,
    key: &Key,
    prepared: &Prepared,
    version: &Version,
    offer: Offer,
) -> Option<String> {
    // A query that asks other servers may differ; so may files.
    if prepared.may_differ() || asked.language.reads_files() {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    (offer, asked.coding, asked.first_rows, key.hash()).hash(&mut hasher);
    // Weak: rows without an order may come in another one.
    Some(format!("W/\"{}-{:x}\"", shared.data.tag(version.number), hasher.finish()))
}

/// Whether `If-None-Match` has a tag (RFC 9110, §13.1.2).
pub(crate) fn has_tag(known: &str, tag: &str) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    known.trim() == "*" || known.split(',').any(|each| opaque(each) == opaque(tag))
}

/// A tag as a header has it.
pub(crate) fn header_of(tag: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(tag).ok()
}

pub(crate) fn set_headers(headers: &mut HeaderMap, coding: Coding, tag: Option<HeaderValue>) {
    if let Some(name) = coding.name() {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(name));
    }
    headers.insert(header::VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
    match tag {
        Some(tag) => {
            headers.insert(header::ETAG, tag);
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        None => _ = headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    }
}

/// Sends an answer while its query runs.
async fn stream(
    shared: &Arc<Shared>,
    asked: &ClientQuery,
    streaming: Streaming,
    begun: RunningRequest,
) -> Response<Body> {
    let Streaming { media_type, coding, tag, version, mut reader, writer, running, recording } = streaming;
    let entry = Arc::clone(&begun.entry);
    let (tell, done) = oneshot::channel();
    running.when_done(move || _ = tell.send(()));
    let (fails, failure) = oneshot::channel();
    let finishing = {
        let (shared, text) = (Arc::clone(shared), Arc::clone(&asked.text));
        async move {
            // A dropped sender counts as done as well.
            let _ = done.await;
            let failure = match running.wait() {
                Ok((packer, outcome)) => {
                    count(&shared, &outcome);
                    shared.metrics.rows.fetch_add(outcome.rows, Ordering::Relaxed);
                    if let Some(recording) = recording {
                        let entry = Arc::clone(&begun.entry);
                        // Ending its threads and reading its recording takes time, so it runs on a thread for that.
                        let reading = tokio::task::spawn_blocking(move || {
                            timeline::of(recording, &entry.id).into_iter().for_each(|trace| entry.set_trace(trace));
                        });
                        let _ = reading.await;
                    }
                    begun.end("done", None, outcome.rows);
                    match packer.end() {
                        Ok(()) => return,
                        Err(error) => Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string()),
                    }
                }
                Err(error) => {
                    shared.freed.notify_waiters();
                    let failure = shared.failure(&error, &text);
                    let state = if failure.kind == "cancelled" { "cancelled" } else { "failed" };
                    begun.end(state, Some(failure.message.clone()), 0);
                    failure
                }
            };
            let _ = fails.send(failure);
            writer.break_off();
        }
    };
    tokio::spawn(finishing);
    watch(Arc::clone(shared), reader.watch(), Arc::clone(&entry));
    // A query that fails before its first row has an error for an answer.
    let first = poll_fn(|context| reader.poll_piece(context)).await;
    let first = match first {
        Some(Ok(piece)) => Bytes::from(piece),
        None => Bytes::new(),
        Some(Err(_)) => {
            let failure = failure
                .await
                .unwrap_or_else(|_| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the query broke off"));
            note(shared, &entry, Kind::Query, failure.status.as_u16(), 0, 0, Some(failure.message.clone()));
            return failure.response(asked.wanted.accepted.prefers_json(), Some(&entry.id));
        }
    };
    let kept = asked.key.filter(|_| !asked.is_head).zip(tag.clone()).map(|(key, tag)| {
        let lasting = Lasting { version, media_type, coding, tag, rows: 0, first_rows: asked.first_rows };
        (key, lasting, shared.answers.text())
    });
    let mut sending = Sending { shared: Arc::clone(shared), entry, kept };
    let body = Body::stream(first, reader, move |sent| sending.sent(sent));
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    set_headers(response.headers_mut(), coding, tag.as_deref().and_then(header_of));
    response
}

/// An answer being sent. It is dropped at its end, or when its client has gone.
struct Sending {
    shared: Arc<Shared>,
    entry: Arc<Entry>,
    /// The text so far, if it may be kept.
    kept: Option<(answers::Key, Lasting, Text)>,
}

impl Sending {
    fn sent(&mut self, sent: Sent<'_>) {
        match sent {
            Sent::Piece(piece) => {
                self.entry.bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
                self.kept.take_if(|(.., text)| !text.push(piece));
            }
            Sent::Whole => {
                let done = self.entry.ended().filter(|end| end.state == "done");
                if let Some(((key, lasting, text), end)) = self.kept.take().zip(done) {
                    self.shared.answers.put(key, Lasting { rows: end.rows, ..lasting }, text);
                }
            }
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let bytes = self.entry.bytes.load(Ordering::Relaxed);
        let (status, rows, error) = match self.entry.ended() {
            Some(Ended { state: "done", rows, .. }) => (200, rows, None),
            Some(Ended { state: "cancelled", rows, message, .. }) => (499, rows, message),
            Some(Ended { message, .. }) => (500, 0, message),
            None => (499, self.entry.rows(), Some("its client has gone".to_owned())),
        };
        note(&self.shared, &self.entry, Kind::Query, status, bytes, rows, error);
    }
}

/// The plan of a request, with the counts of its operators and boxes so far.
pub(crate) fn plan_json(entry: &Entry, prepared: &Prepared, watching: Option<&Watching>, end: Option<&Ended>) -> Value {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let counts = watching.map(Watching::counts);
    let grown = watching.map_or_else(Vec::new, Watching::grown);
    let form = match prepared.form() {
        Answer::Rows { .. } => "select",
        Answer::Truth => "ask",
        Answer::Triples => "construct",
    };
    let operators = prepared.nodes().into_iter().enumerate().map(|(id, node)| {
        let done = counts.as_ref().map(|boxes| node.done(RunCounts { boxes, grown: &grown }));
        let boxes: Vec<usize> = node.boxes.iter().map(|id| id.index()).collect();
        json!({
            "id": id, "parent": node.parent, "name": node.name, "detail": node.detail, "columns": node.columns,
            "estimatedRows": node.rows.round(), "actualRows": done.map(|done| done.rows),
            "isWhole": done.map(|done| done.is_whole),
            "timeMs": done.map(|done| done.busy_ns as f64 / 1e6), "nearBytes": done.map_or(0, |done| done.near_bytes),
            "farBytes": done.map_or(0, |done| done.far_bytes),
            "spilledBytes": done.map_or(0, |done| done.spilled_bytes),
            "degree": node.degree, "boxes": boxes,
        })
    });
    let operators: Vec<Value> = operators.collect();
    let boxes = prepared.model().boxes().iter().enumerate().map(|(index, each)| {
        let counts = counts.as_ref().map(|counts| &counts[index]);
        let reads: Vec<Value> = each
            .sources()
            .zip(each.bounds())
            .map(|((from, output), bound)| {
                json!({ "box": from.index(), "output": output, "envelopes": bound.envelopes,
                "bytes": bound.bytes })
            })
            .collect();
        json!({
            "index": index, "name": each.name(), "invocations": counts.map_or(0, |counts| counts.acts),
            "rowsIn": counts.map_or(0, |counts| counts.rows_taken()),
            "rowsOut": counts.map_or(0, |counts| counts.rows_sent()),
            "nearBytes": counts.map_or(0, |counts| counts.near_bytes()),
            "farBytes": counts.map_or(0, |counts| counts.far_bytes()),
            "spilledBytes": counts.map_or(0, |counts| counts.spilled_bytes),
            "timeMs": counts.map(|counts| counts.busy_ns as f64 / 1e6), "reads": reads,
        })
    });
    let boxes: Vec<Value> = boxes.collect();
    let totals = watching.map(Watching::totals).unwrap_or_default();
    let takes: serde_json::Map<String, Value> = (0..totals.taken.len())
        .filter(|rule| totals.taken[*rule] > 0)
        .map(|rule| (rule.to_string(), totals.taken[rule].into()))
        .collect();
    let state = end.map_or(if watching.is_some() { "running" } else { "planned" }, |end| end.state);
    let elapsed = end.map_or_else(|| entry.began.elapsed(), |end| end.time);
    json!({
        "id": &*entry.id, "text": &*entry.text, "language": entry.language, "form": form, "state": state,
        "message": end.and_then(|end| end.message.clone()), "parsingMs": ms(prepared.parsing()),
        "planningMs": ms(prepared.planning()),
        "elapsedMs": ms(elapsed), "rows": end.map_or_else(|| watching.map_or(0, Watching::rows), |end| end.rows),
        "operators": operators, "boxes": boxes,
        "totals": { "tasks": totals.tasks, "far": totals.far, "nearBytes": totals.near_bytes,
        "farBytes": totals.far_bytes, "takes": takes },
    })
}

/// A client's idea of how long a request may take: `30`, `1.5`, `500ms`.
pub(crate) fn time_limit(text: &str) -> Option<Duration> {
    let seconds = match text.trim().strip_suffix("ms") {
        Some(ms) => ms.parse::<f64>().ok()? / 1e3,
        None => text.trim().trim_end_matches('s').parse::<f64>().ok()?,
    };
    (seconds.is_finite() && seconds > 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}
