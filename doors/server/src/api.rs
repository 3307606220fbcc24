//! The page's queries: about the data, the machine, the running requests, and the text in the editor.

use crate::access::Right;
use crate::answer::{Failure, Place, json as json_answer, put, short};
use crate::body::{self, Body, Bound};
use crate::contents::contents;
use crate::metrics::Kind;
use crate::page;
use crate::requests::Entry;
use crate::routes::{Incoming, Request};
use crate::shared::Shared;
use crate::timeline;
use axum::http::{HeaderMap, Response, StatusCode};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use vicus_service::{
    Answer, CallLimits, Dataset, Error, KNOWN_PREFIXES, LANGUAGES, QueryLanguage, Remark, RemarkKind, SPARQL,
    SessionOptions, SqlType, Suggestion, SuggestionKind, TextErrorKind, check, check_update, language,
};

/// The most bytes of a text checked or completed while it is written.
const TEXT_BYTES: u64 = 1 << 20;

/// A longer completion returns the finds up to then.
const COMPLETION_TIME: Duration = Duration::from_millis(40);

/// A check of a text takes this time at most.
const CHECK_TIME: Duration = Duration::from_secs(1);

pub(crate) async fn answer(shared: &Arc<Shared>, request: &Request, body: Incoming) -> Result<Response<Body>, Failure> {
    if let Some(answer) = page::answer(request) {
        return answer;
    }
    let nothing = || Failure::new(StatusCode::NOT_FOUND, "path", "there is nothing at this path");
    let Some(path) = request.path.strip_prefix("/api/") else { return Err(nothing()) };
    let began = Instant::now();
    if path != "info" {
        shared.options.access.check(Right::Read, &request.headers)?;
    }
    let parts: Vec<&str> = path.split('/').collect();
    let answer = match (request.method.as_str(), &parts[..]) {
        ("GET" | "HEAD", ["info"]) => json_answer(&info(shared, &request.headers)),
        ("GET", ["contents"]) => {
            let job = {
                let shared = Arc::clone(shared);
                move || contents(&shared)
            };
            let told = shared.jobs.run(job).map_err(|_| full())?.await;
            let mistake = |message| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "store", message);
            json_answer(&told.map_err(|error| mistake(error.to_string()))?.map_err(mistake)?)
        }
        ("GET", ["load"]) => load(shared),
        ("POST", ["complete"]) => completion(shared, request, body).await?,
        ("POST", ["check"]) => checked(shared, request, body).await?,
        ("POST", ["view"]) => view(shared, request, body).await?,
        ("GET" | "HEAD", ["requests"]) => {
            let writes = shared.options.access.check(Right::Write, &request.headers).is_ok();
            let shown = |entry: &Arc<Entry>| {
                // The text of an update shows the data written by it.
                let is_shown = entry.kind == "query" || writes || entry.is_of(&request.headers);
                entry.json(request.client, is_shown)
            };
            json_answer(&Value::Array(shared.requests.all().iter().map(shown).collect()))
        }
        ("DELETE", ["requests", id]) => {
            let entry =
                shared.requests.get(id).filter(|entry| entry.ended().is_none()).ok_or_else(|| no_request(id))?;
            if !entry.is_of(&request.headers) {
                shared.options.access.check(Right::Write, &request.headers)?;
            }
            request.is_own(shared)?;
            entry.cancel.cancel();
            short(StatusCode::NO_CONTENT, "", Vec::new())
        }
        ("GET" | "HEAD", ["requests", id, "plan"]) => {
            json_answer(&*entry(shared, id)?.plan().ok_or_else(|| no_request(id))?)
        }
        ("GET" | "HEAD", ["requests", id, "trace"]) => {
            let missing = || Failure::new(StatusCode::NOT_FOUND, "request", format!("request `{id}` has no time line"));
            let recording = entry(shared, id)?.trace().ok_or_else(missing)?;
            let job = move || recording.trace();
            let file = shared.jobs.run(job).map_err(|_| full())?.await;
            trace_file(file.ok().flatten().ok_or_else(missing)?)
        }
        ("GET" | "HEAD", ["requests", id, "view"]) => {
            let missing = || Failure::new(StatusCode::NOT_FOUND, "request", format!("request `{id}` has no time line"));
            page_of_run(entry(shared, id)?.trace().ok_or_else(missing)?.page.clone())
        }
        ("GET", ["requests", id, "watch"]) => watch(shared, id),
        (_, ["info" | "contents" | "load" | "complete" | "check" | "view" | "requests", ..]) => {
            return Err(Failure::method("GET, POST, DELETE, OPTIONS"));
        }
        _ => return Err(nothing()),
    };
    shared.metrics.add(Kind::Page, answer.status().as_u16(), began.elapsed());
    Ok(answer)
}

/// The page about a recording that the client has: a trace file, or an earlier page.
async fn view(shared: &Arc<Shared>, request: &Request, body: Incoming) -> Result<Response<Body>, Failure> {
    request.is_own(shared)?;
    let name = request.parameters.one("name").map_err(Failure::bad)?.unwrap_or("a recorded run").to_owned();
    let clients = &shared.options.clients;
    let bound = Bound { bytes: clients.body_bytes, stretch: clients.body_time };
    let mut file = body::read(&request.headers, body, bound, shared.bodies.begin(request.client)).await?;
    file.book(timeline::needed_bytes(&file.bytes))?;
    let job = move || timeline::shown(&name, &file.bytes).map_err(|error| error.to_string());
    let made = shared.jobs.run(job).map_err(|_| full())?.await;
    let mistake = |_| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the file could not be shown");
    Ok(page_of_run(made.map_err(mistake)?.map_err(Failure::bad)?))
}

fn full() -> Failure {
    Failure::busy("too many requests wait: ask again later")
}

fn trace_file(bytes: Vec<u8>) -> Response<Body> {
    let mut response = short(StatusCode::OK, "application/octet-stream", bytes);
    put(response.headers_mut(), "cache-control", "no-store");
    put(response.headers_mut(), "content-disposition", "attachment; filename=\"run.trace\"");
    response
}

/// One file about a run. Its own policy lets its own script run; here, it has an origin of its own as well.
fn page_of_run(bytes: Vec<u8>) -> Response<Body> {
    let mut response = short(StatusCode::OK, "text/html; charset=utf-8", bytes);
    put(response.headers_mut(), "cache-control", "no-store");
    put(response.headers_mut(), "content-security-policy", "sandbox allow-scripts allow-downloads");
    put(response.headers_mut(), "content-disposition", "inline; filename=\"run.html\"");
    response
}

fn no_request(id: &str) -> Failure {
    let shown: String = id.chars().take(80).collect();
    Failure::new(StatusCode::NOT_FOUND, "request", format!("there is no request `{shown}`"))
}

fn entry(shared: &Shared, id: &str) -> Result<Arc<Entry>, Failure> {
    shared.requests.get(id).ok_or_else(|| no_request(id))
}

/// The page's start-up data. Without the right to read, it has nothing of the data or the machine.
fn info(shared: &Shared, headers: &HeaderMap) -> Value {
    let (options, runtime) = (&shared.options, shared.service.runtime());
    let may = |right| options.access.check(right, headers).is_ok();
    let (reads, writes, knows) = (may(Right::Read), may(Right::Write), options.access.knows(headers));
    let (version, topology) = (shared.data.now(), runtime.topology());
    let nodes: Vec<Value> = topology
        .nodes
        .iter()
        .filter(|_| reads)
        .map(|node| {
            let groups = topology.core_groups.iter().filter(|group| group.node == node.id).map(|group| {
                let cores = topology.cores.iter().filter(|core| core.pus.iter().any(|pu| group.pus.contains(pu)));
                let cores: Vec<Value> = cores
                    .map(|core| {
                        let pus: Vec<usize> =
                            core.pus.iter().filter(|pu| group.pus.contains(pu)).map(|pu| pu.index()).collect();
                        json!({ "id": core.id.index(), "pus": pus })
                    })
                    .collect();
                json!({ "id": group.id.index(), "cores": cores })
            });
            json!({ "id": node.id.index(), "memoryBytes": node.bytes, "groups": groups.collect::<Vec<_>>() })
        })
        .collect();
    let prefixes: Vec<Value> = KNOWN_PREFIXES.iter().map(|(name, iri)| json!({ "name": name, "iri": iri })).collect();
    let tables = if reads { options.session.languages.sql.columns() } else { Vec::new() };
    let table = |(name, columns): (String, Vec<_>)| {
        let column = |(name, kind): (String, SqlType)| json!({ "name": name, "type": kind.to_string() });
        json!({ "name": name, "columns": columns.into_iter().map(column).collect::<Vec<_>>() })
    };
    let tables: Vec<Value> = tables.into_iter().map(table).collect();
    let languages = LANGUAGES.map(|language| language.name());
    let limits = &options.session.limits;
    let all_memory = shared.service.memory().total();
    // None if the data is damaged: requests that need it say how.
    let graphs = version.snapshot.read_by(|| version.snapshot.graphs().len()).ok();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "dataset": {
            "kind": if shared.data.is_store() { "store" } else { "files" },
            "name": if reads { &*options.name } else { "" },
            "quads": if reads { version.snapshot.len() } else { 0 }, "graphs": if reads { graphs } else { Some(0) },
            "version": if reads { shared.data.tag(version.number) } else { String::new() },
            "readOnly": options.access.is_read_only,
        },
        "threads": runtime.plan().threads(), "strategy": runtime.plan().strategy, "languages": languages,
        "tables": tables,
        "limits": {
            "timeMs": limits.time.map(|time| time.as_secs_f64() * 1e3),
            "memoryBytes": limits.memory.map_or(all_memory, |memory| memory.min(all_memory)),
        },
        "update": options.access.of_updates(), "query": options.access.of_queries(), "prefixes": prefixes,
        "rights": { "read": reads, "write": writes, "known": knows },
        "topology": {
            "pus": if reads { topology.pus.len() } else { 0 }, "nodes": nodes,
            "distances": if reads { &*topology.distances } else { &[] },
        },
    })
}

/// An answer of events for a page. A task sends them until the page goes.
fn events(send: impl FnOnce(mpsc::Sender<Bytes>) -> tokio::task::JoinHandle<()>) -> Response<Body> {
    let (sender, receiver) = mpsc::channel(4);
    // The task ends when the body drops its receiver.
    drop(send(sender));
    let mut response = Response::new(Body::Events(receiver));
    put(response.headers_mut(), "content-type", "text/event-stream");
    put(response.headers_mut(), "cache-control", "no-store");
    response
}

fn event(name: Option<&str>, data: &Value) -> Bytes {
    let name = name.map_or(String::new(), |name| format!("event: {name}\n"));
    Bytes::from(format!("{name}data: {data}\n\n"))
}

/// The time that this process has worked, in the ticks of [`vicus::pu_times`], if the system tells.
fn own_ticks() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // proc(5): the name in brackets may have spaces; the 12th and 13th field behind it are user and system time.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

/// The machine's load, once a second.
fn load(shared: &Arc<Shared>) -> Response<Body> {
    let shared = Arc::clone(shared);
    events(|sender| {
        tokio::spawn(async move {
            let topology = shared.service.runtime().topology().clone();
            let (mut before, mut own_before) = (vicus::kit::pu_times(&topology), own_ticks());
            loop {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_secs(1)) => {}
                    () = sender.closed() => return,
                }
                let now = vicus::kit::pu_times(&topology);
                let busy = now.iter().zip(&before).map(|(now, before)| {
                    let all = now.all.saturating_sub(before.all).max(1) as f64;
                    let busy = now.busy.saturating_sub(before.busy) as f64 / all;
                    json!({ "id": now.pu.index(), "busy": (busy * 1e3).round() / 1e3 })
                });
                let pus: Vec<Value> = busy.collect();
                let own = own_ticks();
                let passed =
                    now.iter().zip(&before).map(|(now, before)| now.all.saturating_sub(before.all)).sum::<u64>();
                let share = own.zip(own_before).filter(|_| passed > 0).map(|(now, before)| {
                    let share = now.saturating_sub(before) as f64 / passed as f64;
                    (share.min(1.0) * 1e3).round() / 1e3
                });
                (before, own_before) = (now, own);
                let plan = shared.service.runtime().plan();
                let seats = plan.seats.iter().enumerate().filter(|(_, seat)| !seat.spare);
                let seats: Vec<Value> =
                    seats.map(|(number, seat)| json!({ "seat": number, "pu": seat.pu.index() })).collect();
                let memory = shared.service.memory();
                let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
                // Counters have what has ended; the others tell what they have read so far.
                let (near, far) = shared.requests.all().iter().map(|entry| entry.read_bytes()).fold(
                    (read(&shared.metrics.near_bytes), read(&shared.metrics.far_bytes)),
                    |(near, far), (more_near, more_far)| (near + more_near, far + more_far),
                );
                let data = json!({
                    "pus": pus, "own": share, "seats": seats,
                    "memory": { "taken": memory.taken(), "total": memory.total() },
                    "requests": { "running": shared.requests.running(), "waiting": shared.jobs.waiting() },
                    "nearBytes": near, "farBytes": far,
                });
                if sender.send(event(None, &data)).await.is_err() || shared.is_draining.load(Ordering::Relaxed) {
                    return;
                }
            }
        })
    })
}

/// How a request goes on, five times a second.
fn watch(shared: &Arc<Shared>, id: &str) -> Response<Body> {
    /// Waits for a request that has not begun yet.
    const PATIENCE: Duration = Duration::from_secs(5);
    const EACH: Duration = Duration::from_millis(200);
    let (shared, id) = (Arc::clone(shared), id.to_owned());
    events(|sender| {
        tokio::spawn(async move {
            let Some(entry) = shared.requests.wait_for(&id, PATIENCE).await else {
                let missing =
                    json!({ "state": "failed", "message": no_request(&id).message, "rows": 0, "elapsedMs": 0 });
                let _ = sender.send(event(Some("end"), &missing)).await;
                return;
            };
            loop {
                let ended = entry.ended();
                if let Some(plan) = entry.plan()
                    && sender.send(event(Some("plan"), &plan)).await.is_err()
                {
                    return;
                }
                if let Some(end) = ended {
                    let data = json!({
                        "state": end.state, "message": end.message, "rows": end.rows,
                        "elapsedMs": end.time.as_secs_f64() * 1e3,
                    });
                    let _ = sender.send(event(Some("end"), &data)).await;
                    return;
                }
                tokio::select! {
                    () = tokio::time::sleep(EACH) => {}
                    () = sender.closed() => return,
                }
            }
        })
    })
}

#[derive(Deserialize)]
struct WrittenOut {
    text: String,
    #[serde(default)]
    cursor: usize,
    #[serde(default)]
    language: String,
}

impl WrittenOut {
    fn language(&self) -> &'static dyn QueryLanguage {
        language(&self.language).unwrap_or(SPARQL)
    }
}

async fn written(shared: &Shared, request: &Request, body: Incoming) -> Result<WrittenOut, Failure> {
    let bound = Bound { bytes: TEXT_BYTES, stretch: shared.options.clients.body_time };
    let body = body::read(&request.headers, body, bound, shared.bodies.begin(request.client)).await?;
    serde_json::from_slice(&body.bytes).map_err(|error| Failure::bad(format!("the body is not as expected: {error}")))
}

/// The byte at this number of UTF-16 code units.
fn byte_at(text: &str, units: usize) -> usize {
    let mut left = units;
    for (at, character) in text.char_indices() {
        if left < character.len_utf16() {
            return at;
        }
        left -= character.len_utf16();
    }
    text.len()
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

async fn completion(shared: &Arc<Shared>, request: &Request, body: Incoming) -> Result<Response<Body>, Failure> {
    let written = written(shared, request, body).await?;
    let language = written.language();
    let WrittenOut { text, cursor, .. } = written;
    let began = Instant::now();
    let job = {
        let shared = Arc::clone(shared);
        move || {
            let snapshot = shared.data.now().snapshot;
            let until = Instant::now() + COMPLETION_TIME;
            let options = &shared.options.session.languages;
            let ends = || Instant::now() >= until;
            let found =
                snapshot.read_by(|| language.complete(&text, byte_at(&text, cursor), &snapshot, options, &ends));
            let found = found.map_err(|error| error.to_string())?;
            let items: Vec<Value> = found.suggestions.into_iter().map(completed).collect();
            Ok(told(&text, &found.range, &items))
        }
    };
    let found = shared.jobs.run(job).map_err(|_| full())?.await;
    let mistake = |message: String| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "store", message);
    let mut found = found.map_err(|error| mistake(error.to_string()))?.map_err(mistake)?;
    found["ms"] = (began.elapsed().as_secs_f64() * 1e3).into();
    Ok(json_answer(&found))
}

/// Suggestions for the place of a text.
fn told(text: &str, range: &Range<usize>, items: &[Value]) -> Value {
    json!({ "from": units(&text[..range.start]), "to": units(&text[..range.end]), "items": items })
}

/// A remark in the words of the page.
fn remarked(remark: &Remark) -> Value {
    json!({ "text": remark.text, "always": remark.kind == RemarkKind::Always })
}

/// A suggestion without a count or a prefix.
fn item(text: &str, kind: &str, detail: &str) -> Value {
    json!({ "label": text, "insert": text, "kind": kind, "detail": detail, "count": null, "prefix": null })
}

/// A suggestion in the words of the page.
fn completed(each: Suggestion) -> Value {
    let kind = match each.kind {
        SuggestionKind::Predicate => "predicate",
        SuggestionKind::Class => "class",
        SuggestionKind::Graph => "graph",
        SuggestionKind::Iri => "iri",
        SuggestionKind::Literal => "literal",
        SuggestionKind::Variable => "variable",
        SuggestionKind::Keyword => "keyword",
        SuggestionKind::Function => "function",
        SuggestionKind::Prefix => "prefix",
        SuggestionKind::Table => "table",
        SuggestionKind::Column => "column",
    };
    let prefix = each.prefix.map(|(name, iri)| json!({ "name": name, "iri": iri }));
    let mut told = item(&each.text, kind, &each.detail);
    (told["count"], told["prefix"]) = (each.count.into(), prefix.into());
    told
}

/// Whether a text is a query or an update, and the place of an error. Names of tables are looked at when a query is
/// planned.
async fn checked(shared: &Arc<Shared>, request: &Request, body: Incoming) -> Result<Response<Body>, Failure> {
    let written = written(shared, request, body).await?;
    let language = written.language();
    let WrittenOut { text, .. } = written;
    let job = {
        let shared = Arc::clone(shared);
        move || {
            let limits = CallLimits { time: Some(CHECK_TIME), ..CallLimits::default() };
            let options = SessionOptions { language, limits, ..shared.options.session.clone() };
            let memory = shared.service.memory();
            let error = match check(&text, memory, &options) {
                Ok(checked) => {
                    let question = checked.question();
                    let variables = match question.answer {
                        Answer::Rows { columns } => columns,
                        Answer::Truth | Answer::Triples => Vec::new(),
                    };
                    let session = shared.service.session(&Dataset::new(shared.data.now().snapshot), options);
                    let remarks = session.call().and_then(|call| call.remarks(&checked)).unwrap_or_default();
                    let remarks: Vec<Value> = remarks.iter().map(remarked).collect();
                    return json!({ "form": question.word, "variables": variables, "remarks": remarks });
                }
                Err(error) => error,
            };
            let error = match language.has_updates().then(|| check_update(&text, memory, &options)) {
                Some(Ok(_)) => return json!({ "form": "update", "variables": [], "remarks": [] }),
                // For a text that begins as an update, the update's error helps.
                Some(Err(of_update)) if error.to_string().contains("begins an update") => of_update,
                _ => error,
            };
            let place = match &error {
                Error::Query(query) if query.kind != TextErrorKind::TooLong => {
                    Place::of(&text, query.place.line, query.place.column)
                }
                _ => None,
            };
            let place = place.map_or((0, 0, 0, 0), |place| (place.line, place.column, place.from, place.to));
            let (line, column, from, to) = place;
            json!({ "error": { "message": error.to_string(), "line": line, "column": column, "from": from, "to": to } })
        }
    };
    let checked = shared.jobs.run(job).map_err(|_| full())?.await;
    let mistake = |_| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the text could not be looked at");
    Ok(json_answer(&checked.map_err(mistake)?))
}
