//! An update, from its request to its answer. It waits for its turn and for the disk on a thread that may block.

use crate::answer::{Failure, json as json_answer, put_sequence, short};
use crate::body::Body;
use crate::data::{NotUpdated, Updated};
use crate::metrics::Kind;
use crate::query::note;
use crate::requests::RunningRequest;
use crate::shared::{LONGEST_WAIT, Shared};
use axum::http::{Response, StatusCode};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use vicus_service::data::CommitError;
use vicus_service::{Document, Error, Limits, ReadGraphs, SessionOptions, StoreError};

/// A client's change.
pub(crate) struct Change {
    pub(crate) text: Arc<str>,
    /// The base of its relative IRIs.
    pub(crate) base: Option<String>,
    pub(crate) graphs: Option<ReadGraphs>,
    /// The document that LOAD reads by its IRI.
    pub(crate) document: Option<Arc<Document>>,
    pub(crate) time: Option<Duration>,
    pub(crate) prefers_json: bool,
    pub(crate) kind: Kind,
}

/// Carries it out, and gives the status on success.
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    change: Change,
    begun: RunningRequest,
    success: StatusCode,
) -> Response<Body> {
    let (kind, prefers_json) = (change.kind, change.prefers_json);
    match run(shared, change, &begun).await {
        Ok(updated) => {
            note(shared, &begun.entry, kind, success.as_u16(), 0, updated.rows, None);
            let time = begun.entry.began.elapsed();
            begun.end("done", None, updated.rows);
            let mut response = match success {
                StatusCode::OK => json_answer(&json!({
                    "operations": updated.operations, "rows": updated.rows, "ms": time.as_secs_f64() * 1e3,
                })),
                _ => short(success, "", Vec::new()),
            };
            put_sequence(response.headers_mut(), updated.sequence);
            response
        }
        Err(failure) => {
            note(shared, &begun.entry, kind, failure.status.as_u16(), 0, 0, Some(failure.message.clone()));
            let response = failure.response(prefers_json, Some(&begun.entry.id));
            begun.end("failed", Some(failure.message), 0);
            response
        }
    }
}

async fn run(shared: &Arc<Shared>, change: Change, begun: &RunningRequest) -> Result<Updated, Failure> {
    // Before its patterns are looked for.
    if shared.data.store().is_some_and(|store| store.standing().follows) {
        return Err(shared.not_here(&StoreError::Follows));
    }
    let session = &shared.options.session;
    let limits = Limits {
        time: [change.time, session.limits.time].into_iter().flatten().min(),
        cancel: begun.entry.cancel.clone(),
        ..session.limits.clone()
    };
    let (began, time) = (begun.entry.began, limits.time);
    let base = change.base.or_else(|| session.base.clone());
    let options = SessionOptions { base, graphs: change.graphs, document: change.document, limits, ..session.clone() };
    let mistake =
        |_| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the update failed by a mistake of ours");
    let done = loop {
        let freed = shared.freed.notified();
        let (data, text, options) = (Arc::clone(shared), Arc::clone(&change.text), options.clone());
        let left = time.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT).saturating_sub(began.elapsed());
        let permit = tokio::time::timeout(left, Arc::clone(&shared.updates).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            return Err(Failure::busy("too many updates wait for their turn, or for followers: try it later"));
        };
        let update = move || {
            // Its thread may work on when its client is gone.
            let _permit = permit;
            let updated = data.data.update(&data.service, &text, options);
            data.freed.notify_waiters();
            updated
        };
        let done = tokio::task::spawn_blocking(update).await.map_err(mistake)?;
        // There was no room for its text, and nothing was done.
        let waits =
            matches!(&done, Err(NotUpdated::Update(Error::Busy(busy))) if busy.had == 0 && busy.wanted <= busy.total);
        if !waits || !shared.waits_for_memory(freed, began, time).await {
            break done;
        }
    };
    done.map_err(|error| match error {
        NotUpdated::Update(error) => {
            let mut failure = shared.failure(&error, &change.text);
            // The client sent a document, and has written no operations.
            if change.kind == Kind::Graph
                && let Some((_, message)) = failure.message.split_once("LOAD: ")
            {
                failure.message = message.to_owned();
            }
            failure
        }
        NotUpdated::Store(error) => shared.failure(&error, &change.text),
        NotUpdated::NotHere(error) => shared.not_here(&error),
        NotUpdated::InDoubt(error @ CommitError::NotConfirmed(_)) => {
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, "not-confirmed", error.to_string())
        }
        NotUpdated::InDoubt(error) => {
            let message = format!("it is not known whether the update was carried out: {error}");
            Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "in-doubt", message)
        }
    })
}
