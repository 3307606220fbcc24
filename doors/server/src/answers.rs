//! Kept answers: a request that comes again at the same version of the data is answered on the network's thread, by a
//! look-up, and runs nothing.
//!
//! Two requests are one if all parts of their heads that an answer may depend on are equal, as they were sent: nothing
//! is decoded or parsed to find an answer. The key is a hash of 128 bits under keys of this process alone, so no client
//! can make two requests with one key. An answer is kept if it is complete and would be the same again; an answer that
//! may differ each time has no tag, and is never kept.
//!
//! Kept answers are bounded together in bytes ([`Generations`]). So are the texts of answers on their way to be kept,
//! and of dropped answers with a slow reader ([`Live`]).

use crate::body::Body;
use crate::coding::Coding;
use crate::generations::Generations;
use crate::query::set_headers;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The identity of a request, at a version of the data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key(u64, u64);

/// An answer that would be the same again.
#[derive(Clone, Debug)]
pub(crate) struct Lasting {
    pub(crate) version: u64,
    pub(crate) media_type: &'static str,
    pub(crate) coding: Coding,
    pub(crate) tag: String,
    pub(crate) rows: u64,
    /// The most rows the request asks for.
    pub(crate) first_rows: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct CachedAnswer {
    media_type: &'static str,
    coding: Coding,
    pub(crate) tag: HeaderValue,
    pub(crate) text: Text,
    pub(crate) rows: u64,
    pub(crate) first_rows: Option<u64>,
}

pub(crate) struct Answers {
    keys: [RandomState; 2],
    pub(crate) kept: Generations<Key, Arc<CachedAnswer>>,
    live: Arc<Live>,
}

/// The bytes of all living texts, and their limit.
#[derive(Debug)]
struct Live {
    bytes: AtomicU64,
    most: u64,
}

/// The text of a kept answer, or of one that may be kept when it is complete.
#[derive(Debug)]
pub(crate) struct Text {
    pieces: Vec<Bytes>,
    bytes: u64,
    most: u64,
    live: Arc<Live>,
}

/// An answer longer than the memory for answers divided by this is not kept: a few of them would drop all others.
const SHARE: u64 = 8;

/// A shorter piece is copied, so that it has no spare capacity.
const WORTH_SHARING: usize = 32 << 10;

/// The memory of an answer beside its text.
const BESIDE_BYTES: u64 = 300;

/// The header fields that a query's answer may depend on.
const FIELDS: [header::HeaderName; 3] = [header::HOST, header::ACCEPT, header::ACCEPT_ENCODING];

/// With one of these, a request is more than its answer.
const NAMES: [&str; 2] = ["vicus-request-id", "vicus-trace"];

impl Answers {
    pub(crate) fn new(most_bytes: u64) -> Answers {
        // Leaves room for some answers on their way while the kept ones are at their limit.
        let live = Arc::new(Live { bytes: AtomicU64::new(0), most: most_bytes.saturating_add(most_bytes / 4) });
        Answers { keys: [RandomState::new(), RandomState::new()], kept: Generations::new(most_bytes), live }
    }

    /// An empty text for an answer about to be sent.
    pub(crate) fn text(&self) -> Text {
        Text { pieces: Vec::new(), bytes: 0, most: self.kept.most_bytes() / SHARE, live: Arc::clone(&self.live) }
    }

    /// The key of a request, if its answer may be kept. `is_tls` is part of the base of relative IRIs.
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

    /// Keeps an answer.
    pub(crate) fn put(&self, key: Key, lasting: Lasting, text: Text) {
        let Lasting { version, media_type, coding, tag, rows, first_rows } = lasting;
        let Ok(tag) = HeaderValue::from_str(&tag) else { return };
        let kept = CachedAnswer { media_type, coding, tag, text, rows, first_rows };
        let held_bytes = kept.text.bytes + kept.tag.len() as u64 + BESIDE_BYTES;
        self.kept.put(version, key, Arc::new(kept), held_bytes);
    }
}

impl Text {
    /// Adds the next piece. `false` if the text is too long to be kept by now, or there is no memory for it.
    pub(crate) fn push(&mut self, piece: &Bytes) -> bool {
        let bytes = piece.len() as u64;
        let most = self.live.most;
        let grown = |live: u64| live.checked_add(bytes).filter(|live| *live <= most);
        if self.bytes + bytes > self.most
            || self.live.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_err()
        {
            return false;
        }
        self.bytes += bytes;
        self.pieces.push(if piece.len() < WORTH_SHARING { Bytes::copy_from_slice(piece) } else { piece.clone() });
        true
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn piece(&self, number: usize) -> Option<&Bytes> {
        self.pieces.get(number)
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        self.live.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl CachedAnswer {
    /// `is_known`: the client has it already.
    pub(crate) fn response(self: &Arc<CachedAnswer>, is_known: bool) -> Response<Body> {
        let body = if is_known { Body::whole(Bytes::new()) } else { Body::Kept { kept: Arc::clone(self), sent: 0 } };
        let mut response = Response::new(body);
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

    fn text(answers: &Answers, bytes: usize) -> Text {
        let mut text = answers.text();
        assert!(text.push(&Bytes::from(vec![b'x'; bytes])));
        text
    }

    #[test]
    fn what_was_used_last_stays() {
        let answers = Answers::new(20 * (BESIDE_BYTES + 100));
        for number in 0..100 {
            answers.put(Key(number, 0), lasting(1), text(&answers, 95));
            assert!(answers.kept.get(1, &Key(0, 0)).is_some(), "it is asked for all the time, after {number} others");
            assert!(answers.kept.held().1 <= answers.kept.most_bytes());
        }
        assert!(answers.kept.get(1, &Key(99, 0)).is_some() && answers.kept.get(1, &Key(50, 0)).is_none());
        let count = answers.kept.held().0;
        assert!((10..=20).contains(&count), "{count}");
        assert!(!answers.text().push(&Bytes::from(vec![b'x'; 5000])), "it is too long");
    }

    /// A slow reader holds its answer even when it is dropped from the cache. Other answers find room in the rest.
    #[test]
    fn all_texts_are_bounded_together() {
        let answers = Answers::new(80_000);
        let mut read = Vec::new();
        for number in 0.. {
            let mut text = answers.text();
            if !text.push(&Bytes::from(vec![b'x'; 9_000])) {
                break;
            }
            answers.put(Key(number, 0), lasting(1), text);
            read.push(answers.kept.get(1, &Key(number, 0)).unwrap());
        }
        assert_eq!(read.len(), 11, "100,000 bytes at most, of which 80,000 are kept");
        read.clear();
        let mut text = text(&answers, 1_000);
        assert!(text.push(&Bytes::from(vec![b'x'; 9_000])) && !text.push(&Bytes::from_static(b"x")));
        answers.put(Key(99, 0), lasting(1), text);
        answers.put(Key(0, 0), lasting(2), answers.text());
        assert_eq!(answers.live.bytes.load(Ordering::Relaxed), 0, "all are dropped when the data has changed");
    }

    #[test]
    fn a_change_of_the_data_drops_all() {
        let answers = Answers::new(1 << 20);
        answers.put(Key(1, 1), lasting(2), text(&answers, 1));
        assert!(answers.kept.get(1, &Key(1, 1)).is_none() && answers.kept.get(2, &Key(1, 1)).is_some());
        // An answer begun before the change.
        answers.put(Key(2, 2), lasting(1), text(&answers, 1));
        assert!(answers.kept.get(2, &Key(2, 2)).is_none());
        assert!(answers.kept.get(3, &Key(1, 1)).is_none());
        assert_eq!(answers.kept.held(), (0, 0));
    }
}
