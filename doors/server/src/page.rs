//! The page: its parts are in the binary, packed once when they are first asked for.

use crate::answer::{Failure, put, short};
use crate::body::Body;
use crate::coding::Coding;
use crate::negotiate::coding_of;
use crate::routes::Request;
use axum::http::{Response, StatusCode};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

/// A file of the page.
struct Part {
    path: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
    packed: LazyLock<Vec<u8>>,
}

macro_rules! part {
    ($path:literal, $file:literal, $media_type:literal) => {
        Part {
            path: $path,
            media_type: $media_type,
            bytes: include_bytes!(concat!("../page/dist/", $file)),
            packed: LazyLock::new(|| {
                let bytes: &[u8] = include_bytes!(concat!("../page/dist/", $file));
                Coding::Gzip.pack(bytes.to_vec()).unwrap_or_default()
            }),
        }
    };
}

static PARTS: [Part; 4] = [
    part!("/", "index.html", "text/html; charset=utf-8"),
    part!("/page.js", "page.js", "text/javascript; charset=utf-8"),
    part!("/page.css", "page.css", "text/css; charset=utf-8"),
    part!("/icon.svg", "icon.svg", "image/svg+xml"),
];

/// The page asks its own origin alone, and runs its own code alone, and the viewer of recorded runs: in a frame
/// without an origin, with the worker that unpacks its data.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let viewer = vicus_view::script_hash();
    format!(
        "default-src 'self'; script-src 'self' {viewer}; worker-src blob:; style-src 'self' 'unsafe-inline'; \
         img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
});

/// A part of the page, if the path is one's.
pub(crate) fn answer(request: &Request) -> Option<Result<Response<Body>, Failure>> {
    let part = PARTS.iter().find(|part| part.path == request.path)?;
    Some(part.answer(request))
}

impl Part {
    fn answer(&self, request: &Request) -> Result<Response<Body>, Failure> {
        if request.method != axum::http::Method::GET && request.method != axum::http::Method::HEAD {
            return Err(Failure::method("GET, HEAD, OPTIONS"));
        }
        let mut hasher = DefaultHasher::new();
        self.bytes.hash(&mut hasher);
        let tag = format!("\"{:x}\"", hasher.finish());
        let is_known = request
            .none_match()
            .is_some_and(|known| known.split(',').any(|each| each.trim().trim_start_matches("W/") == tag));
        let packs = coding_of(&request.headers) != Coding::Identity;
        let mut response = match (is_known, packs) {
            (true, _) => short(StatusCode::NOT_MODIFIED, self.media_type, Vec::new()),
            (false, true) => short(StatusCode::OK, self.media_type, self.packed.clone()),
            (false, false) => short(StatusCode::OK, self.media_type, self.bytes.to_vec()),
        };
        let headers = response.headers_mut();
        if packs && !is_known {
            // Every client with Zstandard takes gzip.
            put(headers, "content-encoding", "gzip");
        }
        put(headers, "etag", tag);
        put(headers, "vary", "Accept-Encoding");
        put(headers, "cache-control", "no-cache");
        put(headers, "content-security-policy", POLICY.as_str());
        put(headers, "referrer-policy", "no-referrer");
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// `page/build` makes the bundle, with Node.js, and the bundle lies in the repository. Its hash of the sources
    /// shows that it is theirs.
    #[test]
    fn the_bundle_is_of_these_sources() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        let mut names: Vec<String> = ["build", "package.json", "package-lock.json"].map(str::to_owned).into();
        for entry in fs::read_dir(page.join("src")).unwrap() {
            names.push(format!("src/{}", entry.unwrap().file_name().into_string().unwrap()));
        }
        names.sort();
        let mut all = Vec::new();
        for name in &names {
            let bytes = fs::read(page.join(name)).unwrap();
            all.extend(format!("{name} {}\n", bytes.len()).into_bytes());
            all.extend(bytes);
        }
        let said = fs::read_to_string(page.join("dist/SOURCES")).unwrap();
        let found = sha256(&all);
        assert_eq!(said.trim(), found, "build the page anew: doors/server/page/build");
    }

    fn sha256(bytes: &[u8]) -> String {
        use sha2::{Digest, Sha256};
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
