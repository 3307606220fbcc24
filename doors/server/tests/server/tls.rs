//! The server behind TLS, with a certificate made by the test.

use crate::client::Ask;
use crate::running::{Running, folder, memory, numbers, open, service};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use vicus_server::{Server, ServerError, ServerOptions};

/// A certificate and its key as files, and the certificate.
fn certificate(name: &str) -> ((PathBuf, PathBuf), CertificateDer<'static>) {
    let folder = folder(name);
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("it can be made");
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("it can be written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("it can be written");
    ((certificate, key), made.cert.der().clone())
}

fn connect(server: &Running, certificate: CertificateDer<'static>) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("it can begin");
    StreamOwned::new(connection, crate::client::connect(server.address))
}

#[test]
fn requests_are_answered_over_tls() {
    let (files, certificate) = certificate("tls");
    let server = Running::start(&numbers(2000), ServerOptions { tls: Some(files), ..open() });
    let mut stream = connect(&server, certificate);
    let reply = Ask::query("ASK {}").over(&mut stream).expect("it answers");
    assert_eq!(reply.status, 200);
    let text = "SELECT ?a ?b { ?a <http://e/p> ?n . ?b <http://e/p> ?m . FILTER(?m < 20) }";
    let reply = Ask::query(text).with("accept", "text/csv").over(&mut stream).expect("it answers");
    assert_eq!((reply.is_whole, reply.text().lines().count()), (true, 1 + 2000 * 20));
    let described = Ask::get("/sparql").with("accept", "application/n-triples").over(&mut stream).expect("it answers");
    assert!(described.text().contains("<https://localhost/sparql>"), "{}", described.text());
    // A client without TLS gets no answer.
    let mut plain = crate::client::connect(server.address);
    assert!(Ask::query("ASK {}").over(&mut plain).is_err());
}

#[test]
fn files_that_do_not_fit_are_refused_before_the_server_starts() {
    let ((certificate, key), _) = certificate("tls-a");
    let ((_, other_key), _) = self::certificate("tls-b");
    let missing = certificate.with_file_name("none.pem");
    for (files, says) in [
        ((certificate.clone(), other_key), "key.pem"),
        ((missing.clone(), key.clone()), "none.pem"),
        ((certificate.clone(), missing), "none.pem"),
        ((key.clone(), key), "key.pem"),
        ((certificate.clone(), certificate), "cert.pem"),
    ] {
        let options = ServerOptions { tls: Some(files), ..open() };
        let error =
            Server::bind("127.0.0.1:0", service("las", 1 << 20), memory(""), options).expect_err("it is refused");
        assert!(matches!(error, ServerError::Certificate { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(says) && !text.contains('\n'), "{text}");
    }
}
