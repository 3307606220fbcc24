//! Answers without results: errors, as text for people or as JSON for programs, and short ones.

use crate::access::Denied;
use crate::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::json;
use std::time::Duration;
use vicus_service::{Error, TextErrorKind};

/// Why a request has no result.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    /// A word for programs.
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    /// The place of the error in the text.
    pub(crate) place: Option<Box<Place>>,
    pub(crate) retry_after: Option<Duration>,
    /// The allowed methods, with 405.
    pub(crate) allow: Option<&'static str>,
}

/// A place in a text: line and column from 1, offsets in UTF-16 code units, and the line itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The line as far as it is shown, and a caret beneath the place.
    shown: String,
}

impl Place {
    /// The place at a line and a column of characters, both from 1.
    pub(crate) fn of(text: &str, line: usize, column: usize) -> Option<Place> {
        /// The most characters of a line shown on each side.
        const SHOWN: usize = 60;
        if line == 0 {
            return None;
        }
        let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
        let rest = &text[start..];
        let whole = rest.split(['\n', '\r']).next().unwrap_or_default();
        let before: String = whole.chars().take(column - 1).collect();
        let word = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '-' | ':' | '?' | '$');
        let behind = &whole[before.len()..];
        let length = behind.chars().take_while(word).count().max(usize::from(!behind.is_empty()));
        let units = |text: &str| text.encode_utf16().count();
        let from = units(&text[..start]) + units(&before);
        let to = from + units(&behind.chars().take(length).collect::<String>());
        let skipped = before.chars().count().saturating_sub(SHOWN);
        let shown: String =
            whole.chars().skip(skipped).take(2 * SHOWN).map(|c| if c == '\t' { ' ' } else { c }).collect();
        let shown = format!("{shown}\n{}^", " ".repeat(before.chars().count() - skipped));
        Some(Place { line, column, from, to, shown })
    }
}

impl Failure {
    pub(crate) fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Failure {
        let mut message = message.into();
        let is_ours = matches!(status, StatusCode::INTERNAL_SERVER_ERROR | StatusCode::INSUFFICIENT_STORAGE);
        if is_ours || kind == "failed" {
            message = without_folders(&message);
        }
        Failure { status, kind, message, place: None, retry_after: None, allow: None }
    }

    pub(crate) fn bad(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, "request", message)
    }

    pub(crate) fn method(allow: &'static str) -> Failure {
        let message = format!("this method is not answered here: {allow}");
        Failure { allow: Some(allow), ..Failure::new(StatusCode::METHOD_NOT_ALLOWED, "method", message) }
    }

    /// More wait or run than may.
    pub(crate) fn busy(message: impl Into<String>) -> Failure {
        let retry_after = Some(Duration::from_secs(1));
        Failure { retry_after, ..Failure::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message) }
    }

    /// An error of the service; `text` is the request's text.
    pub(crate) fn of(error: &Error, text: &str) -> Failure {
        let kind = error.kind();
        let (status, word) = match error {
            // The body is too large, whatever it says.
            Error::Query(query) if query.kind == TextErrorKind::TooLong => (StatusCode::PAYLOAD_TOO_LARGE, "limit"),
            error if error.is_full() => (StatusCode::INSUFFICIENT_STORAGE, "full"),
            _ => (StatusCode::from_u16(kind.http()).expect("a status of HTTP"), kind.word()),
        };
        if status == StatusCode::SERVICE_UNAVAILABLE {
            return Failure::busy(error.to_string());
        }
        let place = match error {
            Error::Query(query) => Place::of(text, query.place.line, query.place.column).map(Box::new),
            _ => None,
        };
        Failure { place, ..Failure::new(status, word, error.to_string()) }
    }

    /// The answer, in JSON if the client prefers it to text.
    pub(crate) fn response(&self, json: bool, request: Option<&str>) -> Response<Body> {
        let body = if json {
            let mut error = json!({ "kind": self.kind, "message": self.message, "request": request });
            if let Some(Place { line, column, from, to, .. }) = self.place.as_deref() {
                for (name, value) in [("line", line), ("column", column), ("from", from), ("to", to)] {
                    error[name] = json!(value);
                }
            }
            json!({ "error": error }).to_string()
        } else {
            let shown = self.place.as_ref().map_or(String::new(), |place| format!("{}\n", place.shown));
            format!("{}\n{shown}", self.message)
        };
        let kind = if json { "application/json" } else { "text/plain; charset=utf-8" };
        let mut response = short(self.status, kind, body.into_bytes());
        let headers = response.headers_mut();
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs()));
        }
        if let Some(allow) = self.allow {
            headers.insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"vicus\""));
        }
        response
    }
}

/// Cuts folders from an error of the system: it names files by their paths, and clients have no business with the
/// server's folders.
fn without_folders(message: &str) -> String {
    let shown = |word: &str| match word.starts_with('/') && word.len() > 1 {
        true => word.rsplit_once('/').map_or("", |(_, name)| name).to_owned(),
        false => word.to_owned(),
    };
    message.split(' ').map(shown).collect::<Vec<_>>().join(" ")
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Failure {
        match denied {
            Denied::Never(why) => Failure::new(StatusCode::FORBIDDEN, "access", why),
            Denied::TokenNeeded => {
                Failure::new(StatusCode::UNAUTHORIZED, "access", "a token is needed: Authorization: Bearer TOKEN")
            }
            Denied::WrongToken => Failure::new(StatusCode::FORBIDDEN, "access", "the token does not permit this"),
        }
    }
}

/// An answer in one piece.
pub(crate) fn short(status: StatusCode, kind: &'static str, bytes: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::whole(bytes));
    *response.status_mut() = status;
    if status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    response
}

pub(crate) fn json(value: &serde_json::Value) -> Response<Body> {
    let mut response = short(StatusCode::OK, "application/json", value.to_string().into_bytes());
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Says which records of the store an answer has seen, unless that was said before.
pub(crate) fn put_sequence(headers: &mut HeaderMap, sequence: Option<u64>) {
    if let Some(sequence) = sequence.filter(|_| !headers.contains_key(SEQUENCE)) {
        headers.insert(SEQUENCE, HeaderValue::from(sequence));
    }
}

const SEQUENCE: &str = "vicus-sequence";

/// Puts a text of this crate into a header.
pub(crate) fn put(headers: &mut HeaderMap, name: &'static str, value: impl AsRef<str>) {
    if let Ok(value) = HeaderValue::from_str(value.as_ref()) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_not_shown() {
        let message = "/var/lib/data/log.0003: can't be written: No space left on device (os error 28)";
        let failure = Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "store", message);
        assert_eq!(failure.message, "log.0003: can't be written: No space left on device (os error 28)");
        let message = "LOAD: http://e/a/b: 404; file:///etc/passwd: no 1 / 2";
        let failure = Failure::new(StatusCode::BAD_REQUEST, "failed", message);
        assert_eq!(failure.message, "LOAD: http://e/a/b: 404; file:///etc/passwd: no 1 / 2");
    }

    #[test]
    fn a_place_is_shown_with_a_caret() {
        let text = "SELECT ?a\nWHERE { ?s ?p }";
        let place = Place::of(text, 2, 15).unwrap();
        assert_eq!((place.from, place.to), (24, 25));
        assert_eq!(place.shown, "WHERE { ?s ?p }\n              ^");
        // Two UTF-16 units for a character beyond the first plane.
        let place = Place::of("ASK { \"\u{1F3E0}\" foo }", 1, 11).unwrap();
        assert_eq!((place.from, place.to), (11, 14));
        assert_eq!(Place::of(text, 0, 0), None);
        // Behind the end.
        assert_eq!(Place::of("ASK {", 1, 6).map(|place| (place.from, place.to)), Some((5, 5)));
    }
}
