//! What the page asks: about the data, the machine, the requests that run, and the text that is being written.

use crate::answer::Failure;
use crate::body::Body;
use crate::routes::{Incoming, Request};
use crate::shared::Shared;
use axum::http::{Response, StatusCode};
use std::sync::Arc;

pub(crate) async fn answer(_: &Arc<Shared>, request: &Request, _: Incoming) -> Result<Response<Body>, Failure> {
    Err(Failure::new(StatusCode::NOT_FOUND, "path", format!("there is nothing at {}", request.path)))
}
