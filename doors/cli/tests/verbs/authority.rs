//! Authorities that sign certificates, made as a test runs.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use std::path::{Path, PathBuf};

/// An authority whose files lie in a folder.
pub(crate) struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    /// The file for `--tls-ca`.
    pub(crate) roots: String,
    /// The authority's own certificate with its key.
    pub(crate) own: [String; 2],
}

fn written(path: &Path, text: &str) -> String {
    std::fs::write(path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

impl Authority {
    pub(crate) fn new(folder: &Path, name: &str) -> Authority {
        let mut params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, format!("authority {name}"));
        let key = KeyPair::generate().unwrap();
        let roots = written(&folder.join(format!("{name}.pem")), &params.self_signed(&key).unwrap().pem());
        let own = [roots.clone(), written(&folder.join(format!("{name}.key")), &key.serialize_pem())];
        Authority { folder: folder.to_owned(), issuer: Issuer::new(params, key), roots, own }
    }

    /// The options of a listener with a certificate for these names, valid from one year to another.
    pub(crate) fn signed(&self, name: &str, of: &[&str], years: [i32; 2]) -> Vec<String> {
        let mut params = CertificateParams::new(of.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(years[0], 1, 1), date_time_ymd(years[1], 1, 1));
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        let certificate = written(&self.folder.join(format!("{name}-cert.pem")), &certificate);
        let key = written(&self.folder.join(format!("{name}-key.pem")), &key.serialize_pem());
        options([certificate, key])
    }

    /// The options of a listener on this machine's own address.
    pub(crate) fn here(&self, name: &str) -> Vec<String> {
        self.signed(name, &["localhost", "127.0.0.1"], [2020, 4000])
    }
}

/// The options of a listener with a certificate and its key.
pub(crate) fn options([certificate, key]: [String; 2]) -> Vec<String> {
    vec!["--tls-cert".to_owned(), certificate, "--tls-key".to_owned(), key]
}

pub(crate) fn texts(options: &[String]) -> Vec<&str> {
    options.iter().map(String::as_str).collect()
}
