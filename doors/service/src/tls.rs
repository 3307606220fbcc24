//! TLS for doors that listen or connect: a certificate with its key, and trusted roots, as PEM files.

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{CertificateError, ClientConfig, RootCertStore, ServerConfig};
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A PEM file that can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError {
    /// The file.
    pub path: PathBuf,
    /// The fault.
    pub why: String,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

impl Error for TlsError {}

/// The machine's clock; rustls' own one panics if it is before 1970.
#[derive(Debug)]
struct Clock;

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        SystemTime::now().duration_since(UNIX_EPOCH).ok().map(UnixTime::since_unix_epoch)
    }
}

/// All certificates of a text, of which there is at least one.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    if all.is_empty() { Err("there is no certificate in it".to_owned()) } else { Ok(all) }
}

/// The sections of a PEM text that are certificates.
fn certificates_alone(pem: &str) -> String {
    let (mut alone, mut is_within) = (String::new(), false);
    for line in pem.lines() {
        is_within |= line.trim_end() == "-----BEGIN CERTIFICATE-----";
        if is_within {
            alone.push_str(line.trim_end());
            alone.push('\n');
        }
        is_within &= line.trim_end() != "-----END CERTIFICATE-----";
    }
    alone
}

/// A certificate chain with its key: what listens shows it to clients.
#[derive(Clone, Debug)]
pub struct TlsCertificate(Arc<ServerConfig>);

impl TlsCertificate {
    /// Reads the chain and its key.
    ///
    /// # Errors
    /// A file can't be read, has no certificate or key, or the key is another certificate's.
    pub fn read(certificate: &Path, key: &Path) -> Result<TlsCertificate, TlsError> {
        let wrong = |path: &Path, why: String| TlsError { path: path.to_owned(), why };
        let pem = std::fs::read(certificate).map_err(|error| wrong(certificate, error.to_string()))?;
        let chain = certificates(&pem).map_err(|why| wrong(certificate, why))?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error.to_string()))?;
        let config = ServerConfig::builder_with_details(Arc::new(ring::default_provider()), Arc::new(Clock))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(certificate, error.to_string()))?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .map_err(|error| wrong(key, format!("with {}: {error}", certificate.display())))?;
        Ok(TlsCertificate(Arc::new(config)))
    }

    /// The settings of a server of these protocols (ALPN). A client that names other ones alone is refused.
    pub fn server(&self, protocols: &[&[u8]]) -> Arc<ServerConfig> {
        let mut config = (*self.0).clone();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }
}

/// Authorities whose certificates are trusted, and no others are.
#[derive(Clone)]
pub struct TlsRoots(Arc<Roots>);

struct Roots {
    /// The file, in errors.
    name: String,
    pem: String,
    certificates: Vec<CertificateDer<'static>>,
    config: Arc<ClientConfig>,
}

impl TlsRoots {
    /// Reads a file with one certificate or more.
    ///
    /// # Errors
    /// It can't be read, or has no certificate.
    pub fn read(path: &Path) -> Result<TlsRoots, TlsError> {
        let wrong = |why: String| TlsError { path: path.to_owned(), why };
        let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        TlsRoots::from_pem(&path.display().to_string(), &String::from_utf8_lossy(&pem)).map_err(wrong)
    }

    /// The roots of a text; `name` says where it is from.
    ///
    /// # Errors
    /// There is no certificate in it.
    pub fn from_pem(name: &str, pem: &str) -> Result<TlsRoots, String> {
        let certificates = certificates(pem.as_bytes())?;
        let mut store = RootCertStore::empty();
        for (number, certificate) in certificates.iter().enumerate() {
            store.add(certificate.clone()).map_err(|error| format!("its certificate {}: {error}", number + 1))?;
        }
        let config = ClientConfig::builder_with_details(Arc::new(ring::default_provider()), Arc::new(Clock))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(store)
            .with_no_client_auth();
        let (name, pem, config) = (name.to_owned(), certificates_alone(pem), Arc::new(config));
        Ok(TlsRoots(Arc::new(Roots { name, pem, certificates, config })))
    }

    /// The certificates as text, without what else the file had, such as the authority's key.
    pub fn pem(&self) -> &str {
        &self.0.pem
    }

    /// The settings of a client of these protocols (ALPN). Clients of the same roots resume each other's sessions.
    pub fn client(&self, protocols: &[&[u8]]) -> Arc<ClientConfig> {
        let mut config = (*self.0.config).clone();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }

    /// For requests of HTTP.
    pub(crate) fn http(&self) -> ureq::tls::TlsConfig {
        let certificates = self.0.certificates.iter();
        let certificates: Vec<_> = certificates.map(|one| ureq::tls::Certificate::from_der(one).to_owned()).collect();
        let roots = ureq::tls::RootCerts::new_with_certs(&certificates);
        ureq::tls::TlsConfig::builder().root_certs(roots).build()
    }

    /// Why a server's certificate is not taken, and what to do.
    pub fn refusal(&self, error: &CertificateError) -> String {
        match refusal(error) {
            Some(why) => why,
            None => format!(
                "its certificate is signed by none of the authorities in {} (--tls-ca): name the file of those that \
                 signed it",
                self.0.name
            ),
        }
    }
}

impl fmt::Debug for TlsRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TlsRoots").field(&self.0.name).finish()
    }
}

/// Why a server's certificate is not taken, and what to do. `None` if its authority is unknown.
fn refusal(error: &CertificateError) -> Option<String> {
    let shown = match error {
        CertificateError::UnknownIssuer => return None,
        CertificateError::Expired => "its certificate has expired: give it a new one".to_owned(),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("its certificate expired on {}, by the clock of this machine: give it a new one", day(not_after))
        }
        CertificateError::NotValidYet => "its certificate is not valid yet: compare the machines' clocks".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => format!(
            "its certificate is valid from {} on, and not yet by the clock of this machine: compare the machines' \
             clocks",
            day(not_before)
        ),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<String> = presented.iter().map(|name| bare(name)).collect();
            let names = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
            format!(
                "its certificate is for {names}, and not for {}: connect by a name that is in it, or give it one \
                 with this name",
                expected.to_str()
            )
        }
        error if is_of_authority(error) => {
            "its certificate is an authority's own: have the authority sign one for it (CA:FALSE)".to_owned()
        }
        error => format!("its certificate is not taken: {error}"),
    };
    Some(shown)
}

/// A name as people write it: rustls gives `DnsName("a.example")` and `IpAddress(127.0.0.1)`.
fn bare(presented: &str) -> String {
    let inner = presented.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(presented).trim_matches('"').to_owned()
}

/// Whether a certificate that may sign others was shown as a server's: its only error without a variant in rustls.
fn is_of_authority(error: &CertificateError) -> bool {
    matches!(error, CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity"))
}

/// The day of a time: the Gregorian calendar, counted in eras of 400 years that begin in March.
fn day(time: &UnixTime) -> String {
    let days = time.as_secs() / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on.
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + u64::from(month <= 2))
}

/// Why the certificate of a server of HTTP is not taken, if this is what a request has failed by.
pub(crate) fn untrusted(error: &ureq::Error, roots: Option<&TlsRoots>) -> Option<String> {
    let found = match error {
        ureq::Error::Io(error) => error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()),
        ureq::Error::Rustls(error) => Some(error),
        _ => None,
    };
    let Some(rustls::Error::InvalidCertificate(error)) = found else { return None };
    Some(match roots {
        Some(roots) => roots.refusal(error),
        None => refusal(error).unwrap_or_else(|| {
            "its certificate is signed by no public authority: name the file of those that signed it (--tls-ca)"
                .to_owned()
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// What happened: a file with the authority's key went to each node as it was.
    #[test]
    fn roots_are_sent_without_keys() {
        let certificate = "-----BEGIN CERTIFICATE-----\nAAAA\nBBBB\n-----END CERTIFICATE-----\n";
        let key = "-----BEGIN PRIVATE KEY-----\nCCCC\n-----END PRIVATE KEY-----\n";
        let text = format!("a word\n{key}{certificate}{key}\r\n{}", certificate.replace('\n', "\r\n"));
        assert_eq!(certificates_alone(&text), certificate.repeat(2));
    }

    #[test]
    fn names_and_days_are_as_people_write_them() {
        for (presented, shown) in
            [("DnsName(\"a.example\")", "a.example"), ("IpAddress(127.0.0.1)", "127.0.0.1"), ("b.example", "b.example")]
        {
            assert_eq!(bare(presented), shown);
        }
        // By `date -u -d @SECONDS +%F`.
        for (seconds, shown) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_767_225_599, "2025-12-31"),
            (1_767_225_600, "2026-01-01"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(day(&UnixTime::since_unix_epoch(Duration::from_secs(seconds))), shown);
        }
    }
}
