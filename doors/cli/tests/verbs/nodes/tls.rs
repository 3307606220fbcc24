//! Networks over nodes that speak TLS, and all that does not fit together.

use super::{Node, folder, network, told, vicus};
use crate::authority::{Authority, options, texts};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Rows cross from each node to the other one, and to the process that began.
const SHUFFLE: &str = "box n = numbers(to: 300000) on node *; box k = map(select: \"n % 100 AS k, n\") on node *;
    box deal = partition(by: \"k\") on node *;
    box group = aggregate(select: \"k, COUNT(*) AS c, SUM(n) AS s\", by: \"k\") on node *;
    box order = sort(by: \"k\"); box rows = collect; n -> k -> deal => group -> order -> rows;";

/// Two nodes with 300,000 numbers each, of which each hundredth has the same rest.
fn shuffled() -> String {
    let mut rows = "k,c,s\n".to_owned();
    (0..100u64).for_each(|k| rows += &format!("{k},6000,{}\n", 2 * (3000 * k + 100 * (2999 * 3000 / 2))));
    rows
}

#[test]
fn a_network_over_tls_has_the_rows_that_it_has_without() {
    let folder = folder("tls-rows");
    std::fs::write(folder.join("shuffle.vnet"), SHUFFLE).unwrap();
    let authority = Authority::new(&folder, "ca");
    let here = authority.here("node");
    let secure = [&texts(&here)[..], &["--token", "secret"]].concat();
    let nodes = [Node::start(&folder, &secure), Node::start(&folder, &secure)];
    let plain = [Node::start(&folder, &[]), Node::start(&folder, &[])];
    let more = ["--tls-ca", &authority.roots, "--node-token", "secret"];
    let (code, rows, error) = told(&network(&folder, "shuffle.vnet", &[&nodes[0], &nodes[1]], &more).output().unwrap());
    assert_eq!((code, rows), (Some(0), shuffled()), "{error}");
    let (code, rows, error) = told(&network(&folder, "shuffle.vnet", &[&plain[0], &plain[1]], &[]).output().unwrap());
    assert_eq!((code, rows), (Some(0), shuffled()), "{error}");
    // By a name of the certificate in place of its address, and with several authorities in one file.
    let other = Authority::new(&folder, "other");
    let both = [&other.roots, &authority.roots].map(|file| std::fs::read_to_string(file).unwrap()).concat();
    std::fs::write(folder.join("both.pem"), both).unwrap();
    let named = Node { address: nodes[0].address.replace("127.0.0.1", "localhost"), child: idle() };
    let more = ["--tls-ca", "both.pem", "--node-token", "secret"];
    let (code, rows, error) = told(&network(&folder, "shuffle.vnet", &[&named, &nodes[1]], &more).output().unwrap());
    assert_eq!((code, rows), (Some(0), shuffled()), "{error}");
    // The token counts as without TLS.
    let more = ["--tls-ca", &authority.roots, "--node-token", "wrong"];
    let (code, _, error) = told(&network(&folder, "shuffle.vnet", &[&nodes[0], &nodes[1]], &more).output().unwrap());
    assert!(code == Some(1) && error.contains("the token is not the node's"), "{error}");
}

/// A process in the place of one that has an address.
fn idle() -> Child {
    Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap()
}

#[test]
fn what_does_not_fit_together_is_told_with_what_to_do() {
    let folder = folder("tls-wrong");
    std::fs::write(folder.join("few.vnet"), "box n = numbers(to: 3) on node 1; box r = collect; n -> r;").unwrap();
    let (authority, other) = (Authority::new(&folder, "ca"), Authority::new(&folder, "other"));
    let start = |options: &[String]| Node::start(&folder, &texts(options));
    let fails = |node: &Node, more: &[&str], says: &[&str]| {
        let (code, rows, error) = told(&network(&folder, "few.vnet", &[node], more).output().unwrap());
        assert_eq!((code, rows.as_str()), (Some(1), ""), "{error}");
        for part in says.iter().chain(&[&node.address[..]]) {
            assert!(error.contains(part), "`{part}` is part of: {error}");
        }
    };
    let roots = ["--tls-ca", &authority.roots];
    let node = start(&authority.here("node"));
    let (code, rows, error) = told(&network(&folder, "few.vnet", &[&node], &roots).output().unwrap());
    assert_eq!((code, rows.as_str()), (Some(0), "n\n0\n1\n2\n"), "{error}");
    fails(&node, &[], &["it speaks TLS alone", "--tls-ca"]);
    fails(&node, &["--tls-ca", &other.roots], &["signed by none of the authorities in", "other.pem", "--tls-ca"]);
    let plain = start(&[]);
    fails(&plain, &roots, &["it does not speak TLS", "--tls-cert", "leave out --tls-ca"]);
    let elsewhere = start(&authority.signed("elsewhere", &["a.example", "*.b.example"], [2020, 4000]));
    fails(&elsewhere, &roots, &["its certificate is for a.example, *.b.example, and not for 127.0.0.1"]);
    let old = start(&authority.signed("old", &["127.0.0.1"], [2019, 2020]));
    fails(&old, &roots, &["its certificate expired on 2020-01-01", "give it a new one"]);
    let new = start(&authority.signed("new", &["127.0.0.1"], [3000, 4000]));
    fails(&new, &roots, &["its certificate is valid from 3000-01-01 on", "clock"]);
    let own = start(&options(authority.own.clone()));
    fails(&own, &roots, &["its certificate is an authority's own", "sign one"]);
    // One of two nodes is plain: nothing runs.
    let mixed = network(&folder, "few.vnet", &[&node, &plain], &roots).output().unwrap();
    let (code, rows, error) = told(&mixed);
    assert_eq!((code, rows.as_str()), (Some(1), ""), "{error}");
    assert!(error.contains(&plain.address) && error.contains("it does not speak TLS"), "{error}");
    // A server of HTTPS speaks TLS, and is no node.
    std::fs::write(folder.join("data.nt"), "<http://e/s> <http://e/p> <http://e/o> .\n").unwrap();
    let https = https(&folder, &texts(&authority.here("https")));
    fails(&https, &roots, &["what answers there speaks TLS, and is no node of Vicus"]);
    fails(&https, &[], &["it speaks TLS alone"]);
    // Files.
    for (file, says) in [("none.pem", "--tls-ca: none.pem: "), ("few.vnet", "there is no certificate in it")] {
        let (code, _, error) = told(&network(&folder, "few.vnet", &[&node], &["--tls-ca", file]).output().unwrap());
        assert!(code == Some(1) && error.contains(says), "{error}");
    }
    let key = authority.here("mine")[3].clone();
    let (certificate, listen) = (authority.here("yours")[1].clone(), ["node", "--listen", "127.0.0.1:0"]);
    std::fs::write(folder.join("keyless"), "").unwrap();
    for (certificate, key, says) in [
        (&certificate[..], &key[..], "mine-key.pem: with "),
        ("none.pem", &key, "none.pem: "),
        (&certificate, "none.pem", "none.pem: "),
        ("keyless", &key, "keyless: there is no certificate in it"),
    ] {
        let (code, _, error) = vicus(&folder, &[&listen[..], &["--tls-cert", certificate, "--tls-key", key]].concat());
        assert!(code == Some(1) && error.contains(says), "{error}");
    }
    let (code, _, error) = vicus(&folder, &[&listen[..], &["--tls-cert", &certificate]].concat());
    assert!(code == Some(2) && error.contains("--tls-key"), "{error}");
    // Beyond this machine, a certificate does not replace the token.
    let wide = ["node", "--listen", "0.0.0.0:0", "--tls-cert", &certificate, "--tls-key"];
    let (code, _, error) = vicus(&folder, &[&wide[..], &[&authority.here("yours")[3]]].concat());
    assert!(code == Some(1) && error.contains("needs a token"), "{error}");
    let (code, _, error) = vicus(&folder, &["network", "run", "few.vnet", "--tls-ca", &authority.roots]);
    assert!(code == Some(1) && error.contains("--tls-ca is for --nodes"), "{error}");
}

/// `vicus serve` with a certificate.
fn https(folder: &Path, options: &[&str]) -> Node {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
    command.args(["serve", "--data", "data.nt", "--bind", "127.0.0.1:0", "--threads", "1"]).args(options);
    let mut child = command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().trim_end_matches('/').rsplit_once("https://").expect("it says where").1.to_owned();
    Node { child, address }
}

/// Rows come until a node is killed; with `--retries`, a spare takes its number.
#[test]
fn a_node_that_is_killed_is_noticed_and_replaced_as_without_tls() {
    let folder = folder("tls-killed");
    let authority = Authority::new(&folder, "ca");
    let here = authority.here("node");
    let endless = "box n = numbers(to: 9000000000000000000) on node 1;
        box few = filter(where: \"n % 10000 = 0\") on node 2; box rows = collect; n -> few -> rows;";
    std::fs::write(folder.join("endless.vnet"), endless).unwrap();
    std::fs::write(folder.join("shuffle.vnet"), SHUFFLE.replace("300000", "3000000")).unwrap();
    let expected = {
        let mut rows = "k,c,s\n".to_owned();
        (0..100u64).for_each(|k| rows += &format!("{k},60000,{}\n", 2 * (30_000 * k + 100 * (29_999 * 30_000 / 2))));
        rows
    };
    let node = || Node::start(&folder, &texts(&here));
    for victim in 0..2 {
        let mut nodes = [node(), node()];
        let roots = ["--tls-ca", &authority.roots];
        let mut child = network(&folder, "endless.vnet", &[&nodes[0], &nodes[1]], &roots).spawn().unwrap();
        let mut rows = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("20000\n") {
            assert!(rows.read_line(&mut line).unwrap() > 0, "rows come without an end");
        }
        nodes[victim].child.kill().unwrap();
        std::io::copy(&mut rows, &mut std::io::sink()).unwrap();
        let (code, _, error) = told(&child.wait_with_output().unwrap());
        assert_eq!(code, Some(1), "{error}");
        assert!(error.contains(&nodes[victim].address) && error.contains("lost"), "{error}");

        nodes[victim] = node();
        let spare = node();
        let more = [&roots[..], &["--retries", "2", "--node-wait", "0", "--spare-nodes", &spare.address]].concat();
        let child = network(&folder, "shuffle.vnet", &[&nodes[0], &nodes[1]], &more).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(150));
        nodes[victim].child.kill().unwrap();
        let (code, rows, error) = told(&child.wait_with_output().unwrap());
        assert_eq!((code, rows), (Some(0), expected.clone()), "{error}");
    }
}

/// A process whose node is stopped is told so within its time.
#[test]
fn a_silent_node_is_lost_by_tls_too() {
    let folder = folder("tls-silent");
    let authority = Authority::new(&folder, "ca");
    let text = "box n = numbers(to: 9000000000000000000) on node 1;
        box few = filter(where: \"n % 10000 = 0\") on node 1; box rows = collect; n -> few -> rows;";
    std::fs::write(folder.join("endless.vnet"), text).unwrap();
    let node = Node::start(&folder, &texts(&authority.here("node")));
    let more = ["--node-silence", "500ms", "--tls-ca", &authority.roots];
    let mut child = network(&folder, "endless.vnet", &[&node], &more).spawn().unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap());
    rows.read_line(&mut String::new()).unwrap();
    node.signal(libc::SIGSTOP);
    std::io::copy(&mut rows, &mut std::io::sink()).unwrap();
    let (code, _, error) = told(&child.wait_with_output().unwrap());
    assert!(code == Some(1) && error.contains("nothing has come for 500 ms"), "{error}");
    node.signal(libc::SIGCONT);
}

/// A client of TLS that trusts these roots.
fn connected(address: &str, roots: &str) -> StreamOwned<ClientConnection, TcpStream> {
    let mut trusted = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(roots).unwrap() {
        trusted.add(certificate.unwrap()).unwrap();
    }
    let config = ClientConfig::builder().with_root_certificates(trusted).with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), TcpStream::connect(address).unwrap())
}

/// Clients that begin no handshake, half of one, nonsense, or one without an end are dropped, and others served.
#[test]
fn a_peer_that_never_finishes_is_dropped() {
    let folder = folder("tls-slow");
    let authority = Authority::new(&folder, "ca");
    std::fs::write(folder.join("few.vnet"), "box n = numbers(to: 3) on node 1; box r = collect; n -> r;").unwrap();
    let node = Node::start(&folder, &texts(&authority.here("node")));
    // A record of a handshake that announces 512 bytes.
    let begins: [&[u8]; 5] =
        [b"", &[22, 3, 1, 2, 0], &[22, 3, 1, 2, 0, 1, 0, 1], &[22, 3, 1, 0xff, 0xff, 7], b"GET / HTTP/1.1\r\n\r\n"];
    let waiting: Vec<_> = begins
        .iter()
        .map(|begin| {
            let mut client = TcpStream::connect(&node.address).unwrap();
            client.write_all(begin).unwrap();
            std::thread::spawn(move || {
                let (began, mut answer) = (Instant::now(), Vec::new());
                client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                // One that was broken off has no answer.
                let ended = client.read_to_end(&mut answer);
                assert!(ended.is_ok() || began.elapsed() < Duration::from_secs(59), "it was not dropped");
                answer
            })
        })
        .collect();
    // One that sends a byte from time to time has no more time in all: behind the handshake, and within it.
    let mut greets = connected(&node.address, &authority.roots);
    let greeting = std::thread::spawn(move || {
        let began = Instant::now();
        greets.write_all(b"VICUS-NODE/1 {").unwrap();
        while greets.write_all(b" ").and_then(|()| greets.flush()).is_ok() {
            assert!(began.elapsed() < Duration::from_secs(60), "it was not dropped");
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let mut drips = TcpStream::connect(&node.address).unwrap();
    let began = Instant::now();
    drips.write_all(&[22, 3, 1, 2, 0]).unwrap();
    while drips.write_all(&[1]).is_ok() {
        assert!(began.elapsed() < Duration::from_secs(60), "it was not dropped");
        std::thread::sleep(Duration::from_millis(100));
    }
    greeting.join().unwrap();
    let roots = ["--tls-ca", &authority.roots];
    let (code, rows, error) = told(&network(&folder, "few.vnet", &[&node], &roots).output().unwrap());
    assert_eq!((code, rows.as_str()), (Some(0), "n\n0\n1\n2\n"), "{error}");
    // Nor is a node waited for that never answers, or breaks off.
    for (answer, says) in [(None, "it does not answer when TLS begins"), (Some(()), "it closes the connection")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = Node { address: listener.local_addr().unwrap().to_string(), child: idle() };
        let accepts = std::thread::spawn(move || {
            let client = listener.accept().unwrap().0;
            if answer.is_none() {
                // Until the other end has given up.
                (&client).read_to_end(&mut Vec::new()).unwrap();
            }
        });
        let (code, _, error) = told(&network(&folder, "few.vnet", &[&other], &roots).output().unwrap());
        assert!(code == Some(1) && error.contains(&other.address) && error.contains(says), "{error}");
        accepts.join().unwrap();
    }
    let answers: Vec<Vec<u8>> = waiting.into_iter().map(|client| client.join().unwrap()).collect();
    let page = String::from_utf8_lossy(&answers[4]);
    assert!(page.starts_with("HTTP/1.1 400 ") && page.contains("vicus network run --nodes"), "{page}");
}
