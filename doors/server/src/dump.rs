//! The whole data as a document of quads.

use crate::answer::Failure;
use crate::body::{Body, Sent, watch};
use crate::coding::Packer;
use crate::metrics::Kind;
use crate::negotiate::{Offer, coding_of};
use crate::query::note;
use crate::requests::RequestKind;
use crate::routes::Request;
use crate::shared::Shared;
use axum::http::{HeaderValue, Method, Response, StatusCode, header};
use bytes::Bytes;
use std::future::poll_fn;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;
use vicus_service::{StreamWriter, dump, text_stream};

/// Waits for a slow reader: it writes on a thread that may block.
struct Waiting {
    packer: Packer,
    writer: StreamWriter,
    most: usize,
}

impl Write for Waiting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while self.writer.waiting() > self.most {
            self.writer.wait_for_room(Duration::from_secs(1));
        }
        self.packer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.packer.flush()
    }
}

pub(crate) async fn answer(shared: &Arc<Shared>, request: &Request) -> Result<Response<Body>, Failure> {
    let wanted = request.wanted()?;
    let Some(format) = wanted.accepted.graph(true) else {
        let message = "all quads can be application/trig, application/n-quads or application/ld+json";
        return Err(Failure::new(StatusCode::NOT_ACCEPTABLE, "format", message));
    };
    let coding = coding_of(&request.headers);
    let text: Arc<str> = Arc::from("all quads");
    let begun = request.begin(shared, RequestKind { kind: "get", language: "graph" }, &text)?;
    let (writer, reader) = text_stream(shared.options.clients.stream_bytes);
    let mut reader = reader.cancelling(begun.entry.cancel.clone());
    let packer = Packer::new(coding, writer.clone()).map_err(|error| Failure::bad(error.to_string()))?;
    let entry = Arc::clone(&begun.entry);
    if request.method != Method::HEAD {
        let (snapshot, cancel) = (shared.data.now().snapshot, entry.cancel.clone());
        let most = shared.options.clients.stream_bytes;
        tokio::task::spawn_blocking(move || {
            let mut out = Waiting { packer, writer: writer.clone(), most };
            let mut pause = |_| if cancel.is_cancelled() { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) };
            match dump(&snapshot, None, format, &[], &mut out, &mut pause) {
                Ok(quads) => {
                    // Before the client can have all of it and go.
                    begun.end("done", None, quads as u64);
                    if out.packer.end().is_err() {
                        writer.break_off();
                    }
                }
                Err(error) => {
                    // The reader looks for the message as soon as it has broken off.
                    begun.end("failed", Some(error.to_string()), 0);
                    writer.break_off();
                }
            }
        });
    } else {
        begun.end("done", None, 0);
        writer.end();
    }
    watch(Arc::clone(shared), reader.watch(), Arc::clone(&entry));
    let first = match poll_fn(|context| reader.poll_piece(context)).await {
        Some(Ok(piece)) => Bytes::from(piece),
        None => Bytes::new(),
        Some(Err(_)) => {
            let message = entry.ended().and_then(|end| end.message).unwrap_or_else(|| "it broke off".to_owned());
            return Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "store", message));
        }
    };
    let mut noted = Note { shared: Arc::clone(shared), entry, bytes: 0 };
    let mut response = Response::new(Body::stream(first, reader, move |sent| noted.sent(sent)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(Offer::Answer(format).media_type()));
    headers.insert(header::VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
    if let Some(name) = coding.name() {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(name));
    }
    Ok(response)
}

/// Writes the request down when its answer is sent, or its client has gone.
struct Note {
    shared: Arc<Shared>,
    entry: Arc<crate::requests::Entry>,
    bytes: u64,
}

impl Note {
    fn sent(&mut self, sent: Sent<'_>) {
        if let Sent::Piece(piece) = sent {
            self.bytes += piece.len() as u64;
        }
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let end = self.entry.ended();
        let (status, rows, error) = end.map_or((499, 0, None), |end| (200, end.rows, end.message));
        note(&self.shared, &self.entry, Kind::Graph, status, self.bytes, rows, error);
    }
}
