//! Permissions to ask URLs.

use oxiri::Iri;
use std::fmt;
use std::str::FromStr;

/// A permission to ask the URLs with a prefix, or all.
///
/// Scheme, host and port of a URL are compared as a whole, so `http://e.org` does not permit `http://e.org.evil.com`;
/// its path and query begin with the prefix's path and query.
///
/// ```
/// use vicus_service::Permit;
///
/// let permit: Permit = "https://e.org/sparql".parse()?;
/// assert!(permit.covers("https://E.org:443/sparql?default-graph-uri=x"));
/// assert!(!permit.covers("https://e.org/admin"));
/// assert!(!permit.covers("https://e.org.evil.com/sparql"));
/// assert!("all".parse::<Permit>()?.covers("http://localhost:3030/"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Permit(Option<Prefix>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Prefix {
    scheme: String,
    authority: String,
    /// Path and query.
    rest: String,
}

impl Permit {
    /// A permission for all URLs.
    pub fn all() -> Permit {
        Permit(None)
    }

    /// Whether it covers this URL. A URL without `http` or `https`, or with `..` in its path, is never permitted.
    pub fn covers(&self, url: &str) -> bool {
        let Ok(asked) = Prefix::of(url) else { return false };
        self.0.as_ref().is_none_or(|prefix| {
            (&asked.scheme, &asked.authority) == (&prefix.scheme, &prefix.authority)
                && asked.rest.starts_with(&prefix.rest)
        })
    }
}

impl FromStr for Permit {
    type Err = String;

    fn from_str(text: &str) -> Result<Permit, String> {
        match text {
            "all" => Ok(Permit::all()),
            text => Prefix::of(text).map(|prefix| Permit(Some(prefix))),
        }
    }
}

impl fmt::Display for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("all"),
            Some(Prefix { scheme, authority, rest }) => write!(f, "{scheme}://{authority}{rest}"),
        }
    }
}

impl Prefix {
    fn of(url: &str) -> Result<Prefix, String> {
        let iri = Iri::parse(url).map_err(|error| format!("`{url}` is no URL: {error}"))?;
        let scheme = iri.scheme().to_ascii_lowercase();
        let port = match &*scheme {
            "http" => ":80",
            "https" => ":443",
            _ => return Err(format!("`{url}`: expected a URL of http or https")),
        };
        let authority = iri.authority().unwrap_or_default().to_ascii_lowercase();
        let authority = authority.strip_suffix(port).unwrap_or(&authority).to_owned();
        if authority.is_empty() {
            return Err(format!("`{url}`: expected a host"));
        }
        let is_up = |segment: &str| segment.to_ascii_lowercase().replace("%2e", ".") == "..";
        if iri.path().split(['/', '\\']).any(is_up) {
            return Err(format!("`{url}`: its path goes up by `..`"));
        }
        let mut rest = iri.path().to_owned();
        if let Some(query) = iri.query() {
            rest.extend(["?", query]);
        }
        // Without a path, the server is asked for its root.
        if rest.is_empty() || rest.starts_with('?') {
            rest.insert(0, '/');
        }
        Ok(Prefix { scheme, authority, rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(prefix: &str, url: &str) -> bool {
        prefix.parse::<Permit>().unwrap().covers(url)
    }

    #[test]
    fn host_and_port_are_whole_and_the_path_is_a_prefix() {
        assert!(covers("http://e.org", "http://e.org/any/thing?x=1"));
        assert!(covers("http://e.org", "http://E.ORG:80"));
        assert!(covers("http://e.org:3030/a", "http://e.org:3030/ab"));
        for url in [
            "http://e.org.evil.com/",
            "http://e.org@evil.com/",
            "http://e.org:81/",
            "https://e.org/",
            "http://evil.com/?http://e.org/",
            "file:///etc/passwd",
            "ftp://e.org/",
            "urn:x",
            "no URL",
        ] {
            assert!(!covers("http://e.org", url), "{url}");
        }
        for url in ["http://e.org/", "http://e.org/b", "http://e.org/a/../b", "http://e.org/a/%2E%2e/b"] {
            assert!(!covers("http://e.org/a", url), "{url}");
        }
        assert!(covers("all", "https://anything/at/all"));
        assert!(!covers("all", "file:///etc/passwd"));
        assert!(!covers("all", "http:///no/host"));
    }

    #[test]
    fn what_is_no_beginning_of_a_url_is_refused() {
        for text in ["", "everything", "e.org", "file:///tmp", "http://", "http://e.org/a/../b"] {
            assert!(text.parse::<Permit>().is_err(), "{text}");
        }
    }
}
