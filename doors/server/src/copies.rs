//! Questions of copies of the store, and promotions.
//!
//! | path | what |
//! |---|---|
//! | `POST /copies/records?wait=S` | the records behind those of the asking copy; waits for them for some seconds |
//! | `GET /copies/standing` | how far this copy is |
//! | `GET /copies/base`, `GET /copies/base/NAME` | the base that can be fetched, and its files by ranges of bytes |
//! | `POST /copies/promise` | this copy refuses epochs before this one |
//! | `POST /copies/promote` | this copy becomes the writer |

use crate::access::{Denied, Right};
use crate::answer::{Failure, put, short};
use crate::body::{self, Body, Bound};
use crate::routes::{Incoming, Request};
use crate::shared::Shared;
use axum::http::{HeaderValue, Method, Response, StatusCode, header};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use vicus_service::data::{Store, StoreError};
use vicus_service::{COPIES_HEADER, CopyContent, CopyStanding, epoch_of_words};

/// The most bytes of a question.
const QUESTION: u64 = 256 << 10;

/// About the bytes of records in an answer.
const RECORDS: usize = 4 << 20;

/// The longest wait for records.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// How often a waiting question looks whether the server is ending.
const LOOK: Duration = Duration::from_millis(200);

/// The bytes of a piece of a base file, and the pieces that wait for a client.
const PIECE: usize = 256 << 10;
const PIECES: usize = 4;

const BINARY: &str = "application/octet-stream";
const TEXT: &str = "text/plain; charset=utf-8";

/// Answers a request below `/copies/`. Each answer says that these paths are known here.
pub(crate) async fn answer(shared: &Arc<Shared>, request: &Request, body: Incoming) -> Response<Body> {
    let answered = answer_or_fail(shared, request, body).await;
    let mut response = answered.unwrap_or_else(|failure| failure.response(request.prefers_json(), None));
    put(response.headers_mut(), COPIES_HEADER, vicus_service::COPIES_VERSION.to_string());
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn answer_or_fail(shared: &Arc<Shared>, request: &Request, body: Incoming) -> Result<Response<Body>, Failure> {
    shared.options.access.check(Right::Copy { is_loopback: shared.is_loopback }, &request.headers)?;
    request.is_own(shared)?;
    let Some(store) = shared.data.store() else {
        let message = "this server has no store that it may write, so there is nothing to copy (--store)";
        return Err(Failure::new(StatusCode::CONFLICT, "copies", message));
    };
    let path = request.path.strip_prefix("/copies/").unwrap_or_default();
    match (request.method.clone(), path) {
        (Method::GET, "standing") => Ok(text(store.standing().encode())),
        (Method::GET, "base") => Ok(text(store.offer().encode())),
        (Method::GET, path) if path.starts_with("base/") => file(request, store, &path["base/".len()..]).await,
        (Method::POST, "records") => records(shared, request, store, body).await,
        (Method::POST, "promise") => {
            may_promote(shared, request)?;
            let epoch = epoch_of_words(&question(shared, request, body).await?).ok_or_else(no_epoch)?;
            let store = Arc::clone(store);
            let promised = blocking(move || store.promise(epoch)).await?;
            Ok(text(promised.map_err(refused)?.encode()))
        }
        (Method::POST, "promote") => {
            may_promote(shared, request)?;
            let epoch = epoch_of_words(&question(shared, request, body).await?).ok_or_else(no_epoch)?;
            let store = Arc::clone(store);
            let begun = blocking(move || store.begin_epoch(epoch).map(|_| store.standing())).await?;
            let standing = begun.map_err(|error| Failure::new(StatusCode::CONFLICT, "copies", error.to_string()))?;
            Ok(text(standing.encode()))
        }
        (_, "standing" | "base" | "records" | "promise" | "promote") => Err(Failure::method("GET, POST")),
        _ => Err(Failure::new(StatusCode::NOT_FOUND, "path", "there is nothing at this path")),
    }
}

/// Whether it may promote copies: then questions with newer epochs end a writer's changes as well.
fn may_promote(shared: &Shared, request: &Request) -> Result<(), Denied> {
    shared.options.access.check(Right::Promote, &request.headers)
}

fn text(text: String) -> Response<Body> {
    short(StatusCode::OK, TEXT, text.into_bytes())
}

fn no_epoch() -> Failure {
    Failure::bad("the body is no epoch")
}

fn refused(error: StoreError) -> Failure {
    match error {
        StoreError::Replaced(known) => {
            let message = format!("epoch {known} is known here already: choose a greater one");
            Failure::new(StatusCode::CONFLICT, "copies", message)
        }
        error => Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "store", error.to_string()),
    }
}

/// The result of work that waits for the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    let mistake = |_| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "it failed by a mistake of ours");
    tokio::task::spawn_blocking(work).await.map_err(mistake)
}

async fn question(shared: &Shared, request: &Request, incoming: Incoming) -> Result<String, Failure> {
    let bound = Bound { bytes: QUESTION, stretch: shared.options.clients.body_time };
    let body = body::read(&request.headers, incoming, bound, shared.bodies.begin(request.client)).await?;
    String::from_utf8(body.bytes).map_err(|_| Failure::bad("the body is no text"))
}

/// The records behind those of a copy. If there are none, waits for some.
async fn records(
    shared: &Arc<Shared>,
    request: &Request,
    store: &Arc<Store>,
    incoming: Incoming,
) -> Result<Response<Body>, Failure> {
    let number = |name| -> Result<Option<u64>, Failure> {
        Ok(request.parameters.one(name).map_err(Failure::bad)?.and_then(|text| text.parse().ok()))
    };
    let until = Instant::now() + Duration::from_secs(number("wait")?.unwrap_or(0)).min(LONGEST_WAIT);
    // The copy knows of this merge here, and merges alike: of a newer one it is told at once.
    let merged = number("merged")?;
    let question = question(shared, request, incoming).await?;
    let ask = CopyStanding::decode(question.as_bytes()).map_err(|error| Failure::bad(error.to_string()))?;
    let may_end = may_promote(shared, request).is_ok();
    let mut changes = shared.data.changes();
    loop {
        changes.mark_unchanged();
        // A question of a copy that has all records is an acknowledgement, for which nothing is read: writers wait for
        // it.
        let answered = if store.standing().last == ask.last {
            store.answer(&ask, RECORDS, may_end)
        } else {
            let (store, ask) = (Arc::clone(store), ask.clone());
            blocking(move || store.answer(&ask, RECORDS, may_end)).await?
        };
        let failed = |error: StoreError| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "store", error.to_string());
        let answer = answered.map_err(failed)?;
        let has_merged = |included| merged.is_some_and(|merged| merged != included);
        let is_empty = matches!(&answer.content, CopyContent::Records(records) if records.is_empty())
            && !has_merged(answer.included);
        while is_empty && Instant::now() < until && !shared.is_draining.load(Ordering::Relaxed) {
            let look = (Instant::now() + LOOK).min(until);
            // Another commit may have changed nothing here; the store says.
            if tokio::time::timeout_at(look, changes.changed()).await.is_ok() || has_merged(store.included()) {
                break;
            }
        }
        let is_over = Instant::now() >= until || shared.is_draining.load(Ordering::Relaxed);
        if !is_empty || is_over {
            return Ok(short(StatusCode::OK, BINARY, answer.encode()));
        }
    }
}

/// A range of a base file.
async fn file(request: &Request, store: &Arc<Store>, name: &str) -> Result<Response<Body>, Failure> {
    let failed = |message: String| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "store", message);
    let opened = {
        let (store, name) = (Arc::clone(store), name.to_owned());
        let open = move || {
            let file = store.open_base(&name).map_err(|error| error.to_string())?;
            let length = |file: &Arc<dyn vicus_service::File>| file.len().map_err(|error| error.to_string());
            file.map(|file| length(&file).map(|length| (file, length))).transpose()
        };
        blocking(open).await?.map_err(failed)?
    };
    let Some((file, length)) = opened else {
        return Err(Failure::new(StatusCode::GONE, "copies", "another base has taken the place of this one"));
    };
    let within = |range: &HeaderValue| range_of(range.to_str().ok()?, length);
    let range = request.headers.get(header::RANGE).map(within);
    let (from, to) = match range {
        None => (0, length),
        Some(Some(range)) => range,
        Some(None) => return Err(Failure::new(StatusCode::RANGE_NOT_SATISFIABLE, "range", "expected bytes=FROM-TO")),
    };
    let (send, receive) = mpsc::channel(PIECES);
    tokio::task::spawn_blocking(move || {
        let mut at = from;
        while at < to {
            let mut piece = vec![0; PIECE.min((to - at) as usize)];
            // A body that ends early is noticed by its length.
            if file.read_at(at, &mut piece).is_err() || send.blocking_send(Bytes::from(piece)).is_err() {
                return;
            }
            at += PIECE as u64;
        }
    });
    let mut response = Response::new(Body::Events(receive));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(BINARY));
    put(headers, "content-length", (to - from).to_string());
    if range.is_some() {
        put(headers, "content-range", format!("bytes {from}-{}/{length}", to - 1));
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

/// The first byte of a range of a file of this length, and the byte behind it.
fn range_of(text: &str, length: u64) -> Option<(u64, u64)> {
    let (from, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let from = from.parse().ok().filter(|from| *from < length)?;
    let last = if last.is_empty() { length - 1 } else { last.parse().ok().filter(|last| *last >= from)? };
    Some((from, last.min(length - 1) + 1))
}

#[cfg(test)]
mod tests {
    use super::range_of;

    #[test]
    fn a_range_has_a_beginning() {
        assert_eq!(range_of("bytes=5-9", 20), Some((5, 10)));
        assert_eq!(range_of("bytes=5-", 20), Some((5, 20)));
        assert_eq!(range_of("bytes=0-18446744073709551615", 20), Some((0, 20)));
        for wrong in ["bytes=-5", "bytes=9-5", "bytes=20-", "bytes=a-b", "lines=1-2", "bytes=1-2,4-5", ""] {
            assert_eq!(range_of(wrong, 20), None, "{wrong}");
        }
        assert_eq!(range_of("bytes=0-", 0), None);
    }
}
