//! Answers that are kept: a request that comes again at the same version of the data is answered on the network's thread, which looks its
//! answer up and runs nothing.
//!
//! What makes two requests one is all of their heads that an answer may depend on, as it was sent: nothing is decoded or parsed to find an
//! answer. It is known by a hash of 128 bits under keys of this process alone, so no client can make two requests that share one. Kept is
//! what would be the same if it were asked again, and is short and whole; what may differ each time has no tag, and is never kept.
//!
//! Answers are bounded together in bytes ([`Generations`]).

use crate::body::Body;
use crate::coding::Coding;
use crate::generations::Generations;
use crate::query::set_headers;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;

/// What makes two requests one, at a version of the data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key(u64, u64);

/// An answer that would be the same if it were asked again.
#[derive(Clone, Debug)]
pub(crate) struct Lasting {
    pub(crate) version: u64,
    pub(crate) media_type: &'static str,
    pub(crate) coding: Coding,
    pub(crate) tag: String,
    pub(crate) rows: u64,
    /// So many rows were asked for at most.
    pub(crate) first_rows: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Kept {
    media_type: &'static str,
    coding: Coding,
    pub(crate) tag: HeaderValue,
    pub(crate) bytes: Bytes,
    pub(crate) rows: u64,
    pub(crate) first_rows: Option<u64>,
}

pub(crate) struct Answers {
    keys: [RandomState; 2],
    pub(crate) kept: Generations<Key, Arc<Kept>>,
}

/// An answer with more bytes is not kept: what it takes to send it again is most of what it takes to find it again.
pub(crate) const LONGEST: usize = 64 << 10;

/// What an answer takes beside its bytes.
const BESIDE_BYTES: u64 = 300;

/// The header fields on which a query's answer may depend.
const FIELDS: [header::HeaderName; 3] = [header::HOST, header::ACCEPT, header::ACCEPT_ENCODING];

/// With one of these, a request is more than its answer.
const NAMES: [&str; 2] = ["vicus-request-id", "vicus-trace"];

impl Answers {
    pub(crate) fn new(most_bytes: u64) -> Answers {
        Answers { keys: [RandomState::new(), RandomState::new()], kept: Generations::new(most_bytes) }
    }

    /// The key of a request, if its answer may be kept. `is_tls` belongs to what its relative IRIs are resolved against.
    pub(crate) fn key<B>(&self, request: &Request<B>, is_tls: bool) -> Option<Key> {
        let (uri, headers) = (request.uri(), request.headers());
        let is_query = request.method() == Method::GET && matches!(uri.path(), "/sparql" | "/query");
        if self.kept.most_bytes() == 0 || !is_query || NAMES.iter().any(|name| headers.contains_key(*name)) {
            return None;
        }
        let hash = |keys: &RandomState| {
            let mut hasher = keys.build_hasher();
            (request.version(), is_tls, uri.path(), uri.query()).hash(&mut hasher);
            uri.authority().map(|authority| authority.as_str()).hash(&mut hasher);
            for field in &FIELDS {
                headers.get_all(field).iter().for_each(|value| value.as_bytes().hash(&mut hasher));
                // No value has this length.
                usize::MAX.hash(&mut hasher);
            }
            hasher.finish()
        };
        Some(Key(hash(&self.keys[0]), hash(&self.keys[1])))
    }

    /// Keeps an answer, unless it is long.
    pub(crate) fn put(&self, key: Key, lasting: Lasting, bytes: &[u8]) {
        let Lasting { version, media_type, coding, tag, rows, first_rows } = lasting;
        let Ok(tag) = HeaderValue::from_str(&tag) else { return };
        if bytes.len() > LONGEST.min((self.kept.most_bytes() / 8) as usize) {
            return;
        }
        // A copy has no room to spare.
        let kept = Kept { media_type, coding, tag, bytes: Bytes::copy_from_slice(bytes), rows, first_rows };
        let held_bytes = kept.held_bytes();
        self.kept.put(version, key, Arc::new(kept), held_bytes);
    }
}

impl Kept {
    fn held_bytes(&self) -> u64 {
        self.bytes.len() as u64 + self.tag.len() as u64 + BESIDE_BYTES
    }

    /// `is_known`: the client has it already.
    pub(crate) fn response(&self, is_known: bool) -> Response<Body> {
        let bytes = if is_known { Bytes::new() } else { self.bytes.clone() };
        let mut response = Response::new(Body::whole(bytes));
        let coding = if is_known { Coding::Identity } else { self.coding };
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else {
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        }
        set_headers(response.headers_mut(), coding, Some(self.tag.clone()));
        if let Some(rows) = self.first_rows {
            response.headers_mut().insert("vicus-rows-limited", rows.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str, headers: &[(&str, &str)]) -> Request<()> {
        let request =
            headers.iter().fold(Request::builder().uri(uri), |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap()
    }

    fn lasting(version: u64) -> Lasting {
        Lasting {
            version,
            media_type: "text/csv",
            coding: Coding::Identity,
            tag: "W/\"1\"".into(),
            rows: 1,
            first_rows: None,
        }
    }

    #[test]
    fn requests_are_one_if_all_is_the_same_that_an_answer_depends_on() {
        let answers = Answers::new(1 << 20);
        let key = |uri: &str, headers: &[(&str, &str)]| answers.key(&request(uri, headers), false);
        let plain = key("/sparql?query=a", &[("host", "h")]);
        assert!(plain.is_some());
        assert_eq!(plain, key("/sparql?query=a", &[("host", "h"), ("user-agent", "any")]));
        let others = [
            key("/sparql?query=b", &[("host", "h")]),
            key("/query?query=a", &[("host", "h")]),
            key("/sparql?query=a&limit=1", &[("host", "h")]),
            key("/sparql?query=a", &[("host", "other")]),
            key("/sparql?query=a", &[("accept", "h")]),
            key("/sparql?query=a", &[("host", "h"), ("accept", "text/csv")]),
            key("/sparql?query=a", &[("host", "h"), ("accept-encoding", "text/csv")]),
            answers.key(&request("/sparql?query=a", &[("host", "h")]), true),
        ];
        for (place, other) in others.iter().enumerate() {
            assert!(other.is_some() && *other != plain && !others[..place].contains(other), "{place}");
        }
        assert_eq!(key("/sparql?query=a", &[("vicus-request-id", "h")]), None, "its plan may be asked for");
        assert_eq!(key("/sql?query=a", &[]), None, "files may change");
        assert_eq!(Answers::new(0).key(&request("/sparql?query=a", &[]), false), None);
    }

    #[test]
    fn what_was_used_last_stays() {
        let answers = Answers::new(20 * (BESIDE_BYTES + 100));
        let body = Bytes::from(vec![b'x'; 95]);
        for number in 0..100 {
            answers.put(Key(number, 0), lasting(1), &body);
            assert!(answers.kept.get(1, &Key(0, 0)).is_some(), "it is asked for all the time, after {number} others");
            assert!(answers.kept.held().1 <= answers.kept.most_bytes());
        }
        assert!(answers.kept.get(1, &Key(99, 0)).is_some() && answers.kept.get(1, &Key(50, 0)).is_none());
        let count = answers.kept.held().0;
        assert!((10..=20).contains(&count), "{count}");
        answers.put(Key(100, 0), lasting(1), &Bytes::from(vec![b'x'; 5000]));
        assert!(answers.kept.get(1, &Key(100, 0)).is_none(), "it is too long");
    }

    #[test]
    fn a_change_of_the_data_drops_all() {
        let answers = Answers::new(1 << 20);
        let body = Bytes::from_static(b"x");
        answers.put(Key(1, 1), lasting(2), &body);
        assert!(answers.kept.get(1, &Key(1, 1)).is_none() && answers.kept.get(2, &Key(1, 1)).is_some());
        // One that was begun before the change.
        answers.put(Key(2, 2), lasting(1), &body);
        assert!(answers.kept.get(2, &Key(2, 2)).is_none());
        assert!(answers.kept.get(3, &Key(1, 1)).is_none());
        assert_eq!(answers.kept.held(), (0, 0));
    }
}
