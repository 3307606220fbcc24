//! The rights to read and to write.

use axum::http::{HeaderMap, header};
use std::fmt;

/// Tokens, and the rights with and without them. By default everyone reads, and no one writes.
#[derive(Clone, Default)]
pub struct AccessRules {
    /// Clients with one of these may read and write.
    pub write: Vec<String>,
    /// Clients with one of these may read.
    pub read: Vec<String>,
    /// Everybody may write.
    pub is_open: bool,
    /// No client may write, with any token.
    pub is_read_only: bool,
}

/// The rights that a request may need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Right {
    Read,
    Write,
    /// To promote copies, and to end a writer's changes: that of tokens for updates, also where no updates are taken.
    Promote,
    /// To copy the store.
    Copy {
        /// Whether the server listens on this machine's own address alone.
        is_loopback: bool,
    },
}

/// Why it may not be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Denied {
    /// No client has the right.
    Never(&'static str),
    /// A token could give the right.
    TokenNeeded,
    /// The token is none of this server's, or permits reading alone.
    WrongToken,
}

impl AccessRules {
    /// Whether a request may do this.
    pub(crate) fn check(&self, right: Right, headers: &HeaderMap) -> Result<(), Denied> {
        let token = bearer(headers);
        let knows = |tokens: &[String]| {
            // All tokens are compared, so the time does not tell which one was similar.
            token.is_some_and(|token| tokens.iter().fold(false, |known, each| known | is_same(each, token)))
        };
        match right {
            Right::Copy { .. } | Right::Promote if knows(&self.write) || self.is_open => Ok(()),
            // Without any token, what may reach it may read all of it.
            Right::Copy { is_loopback: true } if self.write.is_empty() && self.read.is_empty() => Ok(()),
            Right::Copy { .. } | Right::Promote if self.write.is_empty() => {
                Err(Denied::Never("copies need a token for updates, and this server was started without one (--token)"))
            }
            Right::Write if self.is_read_only => Err(Denied::Never("this server is read-only")),
            Right::Write if self.is_open || knows(&self.write) => Ok(()),
            Right::Write if self.write.is_empty() => {
                Err(Denied::Never("this server was started without a token for updates, so it takes none (--token)"))
            }
            Right::Read if self.read.is_empty() || knows(&self.read) || knows(&self.write) => Ok(()),
            _ if token.is_some() => Err(Denied::WrongToken),
            _ => Err(Denied::TokenNeeded),
        }
    }

    /// Whether a request has a token of this server.
    pub(crate) fn knows(&self, headers: &HeaderMap) -> bool {
        let all = || self.write.iter().chain(&self.read);
        bearer(headers).is_some_and(|token| all().fold(false, |known, each| known | is_same(each, token)))
    }

    /// Whether a request has a token with the right to write; only a client with that token knows it.
    pub(crate) fn knows_write(&self, headers: &HeaderMap) -> bool {
        bearer(headers).is_some_and(|token| self.write.iter().fold(false, |known, each| known | is_same(each, token)))
    }

    /// The right to write, in the words of the page.
    pub(crate) fn of_updates(&self) -> &'static str {
        match self {
            AccessRules { is_read_only: true, .. } => "off",
            AccessRules { is_open: true, .. } => "open",
            AccessRules { write, .. } if write.is_empty() => "off",
            _ => "token",
        }
    }

    pub(crate) fn of_queries(&self) -> &'static str {
        if self.read.is_empty() { "open" } else { "token" }
    }
}

pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Takes the same time for all tokens of one length.
pub(crate) fn is_same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// Without the tokens.
impl fmt::Debug for AccessRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessRules")
            .field("is_open", &self.is_open)
            .field("is_read_only", &self.is_read_only)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(token: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        headers
    }

    #[test]
    fn a_token_permits_what_it_is_for() {
        let none = HeaderMap::new();
        let closed = AccessRules::default();
        assert!(closed.check(Right::Read, &none).is_ok());
        assert!(matches!(closed.check(Right::Write, &with("any")), Err(Denied::Never(_))));
        let access = AccessRules { write: vec!["w".into()], read: vec!["r".into()], ..AccessRules::default() };
        assert_eq!(access.check(Right::Read, &none), Err(Denied::TokenNeeded));
        assert!(access.check(Right::Read, &with("r")).is_ok() && access.check(Right::Read, &with("w")).is_ok());
        assert_eq!(access.check(Right::Write, &with("r")), Err(Denied::WrongToken));
        assert_eq!(access.check(Right::Write, &none), Err(Denied::TokenNeeded));
        assert!(access.check(Right::Write, &with("w")).is_ok());
        assert!(
            access.knows(&with("r")) && access.knows(&with("w")) && !access.knows(&with("x")) && !access.knows(&none)
        );
        // On this machine alone, a server without tokens gives copies of what everybody reads.
        let (near, far) = (Right::Copy { is_loopback: true }, Right::Copy { is_loopback: false });
        assert!(closed.check(near, &none).is_ok());
        assert!(matches!(closed.check(far, &none), Err(Denied::Never(_))));
        assert!(matches!(closed.check(Right::Promote, &with("any")), Err(Denied::Never(_))));
        for right in [near, far, Right::Promote] {
            assert_eq!(access.check(right, &none), Err(Denied::TokenNeeded));
            assert_eq!(access.check(right, &with("r")), Err(Denied::WrongToken));
            assert!(access.check(right, &with("w")).is_ok());
        }
        let read_only = AccessRules { is_read_only: true, ..access };
        assert!(read_only.check(Right::Promote, &with("w")).is_ok());
        assert!(matches!(read_only.check(Right::Write, &with("w")), Err(Denied::Never(_))));
    }
}
