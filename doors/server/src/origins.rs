//! Pages of other sites: browsers send their requests as well, so such a page must not change or read data by accident.
//!
//! A page may send a form to any server. Browsers give a request's source in `Origin` and `Sec-Fetch-Site` (Fetch
//! Standard, §3.2; Fetch Metadata Request Headers, §2.3); other clients send neither, and are not checked. A page with
//! a name that leads to this machine after the page was loaded (DNS rebinding) has the server's own origin, but for its
//! name: so a server on a loopback address answers only to the names that belong there.

use crate::answer::Failure;
use crate::options::ServerOptions;
use axum::http::{HeaderMap, StatusCode, header};
use std::net::IpAddr;

pub(crate) struct Origins {
    /// The host names of a server on a loopback address, in lower case; none if it listens elsewhere.
    hosts: Option<Vec<String>>,
    /// Pages of these origins may change data.
    pages: Vec<String>,
    /// Pages of all origins may read, and pages with a token may change data.
    is_cors_for_all: bool,
}

impl Origins {
    /// For a server told to listen at `address`, and listening at `at`.
    pub(crate) fn new(address: &str, at: IpAddr, options: &ServerOptions) -> Origins {
        let names = options.allow_hosts.iter().map(String::as_str).chain([address]);
        let hosts = at.is_loopback().then(|| names.map(|name| name_of(name).to_ascii_lowercase()).collect());
        let pages = options.allow_origins.iter().chain(options.cors.as_ref().filter(|origin| *origin != "*"));
        let pages = pages.map(|origin| plain(origin)).collect();
        Origins { hosts, pages, is_cors_for_all: options.cors.as_deref() == Some("*") }
    }

    /// Whether a request for this host is for this server.
    pub(crate) fn check_host(&self, host: Option<&str>) -> Result<(), Failure> {
        let (Some(hosts), Some(host)) = (&self.hosts, host) else { return Ok(()) };
        let name = name_of(host).trim_end_matches('.');
        let is_own = name.eq_ignore_ascii_case("localhost")
            || name.trim_matches(['[', ']']).parse().is_ok_and(|address: IpAddr| address.is_loopback())
            || hosts.iter().any(|known| known.eq_ignore_ascii_case(name));
        if is_own {
            return Ok(());
        }
        let shown: String = name.chars().take(80).collect();
        let message = format!(
            "a server on this machine's own address does not answer for the host `{shown}`: start it with --allow-host \
                {shown} if it should"
        );
        Err(Failure::new(StatusCode::MISDIRECTED_REQUEST, "host", message))
    }

    /// Checks the page behind a request that changes data. `own` is the server's origin in the request; `knows_token`
    /// tells whether the request has a token, unknown to other pages.
    pub(crate) fn check_page(
        &self,
        headers: &HeaderMap,
        own: &str,
        knows_token: impl FnOnce() -> bool,
    ) -> Result<(), Failure> {
        let text = |value: &header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let origin = headers.get(header::ORIGIN).map(text);
        let site = headers.get("sec-fetch-site").map(text);
        let is_other_site = site.is_some_and(|site| ["cross-site", "same-site"].contains(&site.trim()));
        let is_own = origin.as_ref().is_none_or(|origin| plain(origin) == plain(own)) && !is_other_site;
        let is_allowed = || origin.as_ref().is_some_and(|origin| self.pages.contains(&plain(origin)));
        if is_own || is_allowed() || (self.is_cors_for_all && knows_token()) {
            return Ok(());
        }
        let shown: String = origin.as_deref().unwrap_or("another site").chars().take(80).collect();
        let message = format!(
            "a page of `{shown}` changes nothing here: start the server with --allow-origin ORIGIN if it should"
        );
        Err(Failure::new(StatusCode::FORBIDDEN, "origin", message))
    }
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => {
            if name.contains(':') && !name.ends_with(']') { host } else { name }
        }
        _ => host,
    }
}

/// An origin in lower case, without its scheme's default port.
fn plain(origin: &str) -> String {
    let origin = origin.trim().trim_end_matches('/').to_ascii_lowercase();
    let usual = match origin.split_once("://") {
        Some(("http", _)) => ":80",
        Some(("https", _)) => ":443",
        _ => return origin,
    };
    origin.strip_suffix(usual).unwrap_or(&origin).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_with_or_without_ports() {
        for (host, name) in
            [("a", "a"), ("a:80", "a"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("::1", "::1"), ("a:b", "a:b")]
        {
            assert_eq!(name_of(host), name, "{host}");
        }
    }

    #[test]
    fn origins_are_the_same_with_the_usual_port() {
        assert_eq!(plain("HTTP://A:80"), plain("http://a/"));
        assert_ne!(plain("http://a:443"), plain("http://a"));
        assert_ne!(plain("https://a"), plain("http://a"));
    }
}
