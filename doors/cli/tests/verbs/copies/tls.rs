//! Servers of https that are followed and promoted, with certificates of an authority that is not public.

use super::{folder, serve, wait_for};
use crate::authority::{Authority, texts};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use vicus_testing::run_within;

struct Secure {
    child: Child,
    url: String,
    said: PathBuf,
}

impl Drop for Secure {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Secure {
    fn start(store: &Path, more: &[&str]) -> Secure {
        Secure::at("127.0.0.1:0", store, more)
    }

    fn at(bind: &str, store: &Path, more: &[&str]) -> Secure {
        let said = store.with_extension("said");
        let mut child = serve(store)
            .args(["--bind", bind])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(File::create(&said).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().trim_end_matches('/').rsplit_once(" at ").map(|(_, url)| url.to_owned());
        let Some(url) = url else { panic!("`{line}`: {}", std::fs::read_to_string(&said).unwrap()) };
        Secure { child, url, said }
    }
}

#[test]
fn a_server_of_https_is_followed_and_promoted_by_an_authority_of_ones_own() {
    let folder = folder("copies-tls");
    let (authority, other) = (Authority::new(&folder, "ca"), Authority::new(&folder, "other"));
    let here = authority.here("server");
    let writer = Secure::start(&folder.join("a"), &[&["--create"], &texts(&here)[..]].concat());
    assert!(writer.url.starts_with("https://"), "{}", writer.url);
    let refused = |roots: &[&str], says: &str| {
        let mut command = serve(&folder.join("b"));
        command.args(["--bind", "127.0.0.1:0", "--follow", &writer.url]).args(roots);
        let ended = run_within(&mut command, super::PATIENCE).unwrap();
        assert_eq!(ended.code(), Some(1), "{}", ended.err());
        assert!(ended.err().contains(&writer.url) && ended.err().contains(says), "{}", ended.err());
    };
    refused(&[], "its certificate is signed by no public authority");
    refused(&["--tls-ca", &other.roots], "signed by none of the authorities in");
    let more = [&["--follow", &writer.url, "--tls-ca", &authority.roots], &texts(&here)[..]].concat();
    let follower = Secure::start(&folder.join("b"), &more);
    // Promoting asks both: the roots are needed here, too.
    let promote = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
        command.args(["promote", "--token", "t", &follower.url, "--other", &writer.url]).args(more);
        run_within(&mut command, super::PATIENCE).unwrap()
    };
    let untrusted = promote(&[]);
    assert!(untrusted.code() == Some(1) && untrusted.err().contains("no public authority"), "{}", untrusted.err());
    let promoted = promote(&["--tls-ca", &authority.roots]);
    assert_eq!(promoted.code(), Some(0), "{}", promoted.err());
    assert!(promoted.out().contains("writes from record"), "{}", promoted.out());
    drop((follower, writer));
    // A writer comes back with a certificate of another authority: its follower says so, and goes on asking.
    let (third, strange) = (folder.join("c"), other.here("strange"));
    let writer = Secure::start(&third, &[&["--create"], &texts(&here)[..]].concat());
    let follower = Secure::start(&folder.join("d"), &["--follow", &writer.url, "--tls-ca", &authority.roots]);
    let address = writer.url.trim_start_matches("https://").to_owned();
    drop(writer);
    let _strange = Secure::at(&address, &third, &texts(&strange));
    let told = || std::fs::read_to_string(&follower.said).unwrap();
    wait_for(|| told().contains("signed by none of the authorities in"), "a word on the certificate");
    let _ = std::fs::remove_dir_all(folder);
}

/// A service of buckets is trusted by the same option. This one is a server of stores, which has no buckets.
#[cfg(feature = "object-storage")]
#[test]
fn a_service_of_buckets_is_trusted_by_an_authority_of_ones_own() {
    let folder = folder("archive-tls");
    let (authority, other) = (Authority::new(&folder, "ca"), Authority::new(&folder, "other"));
    let store = folder.join("a");
    let server = Secure::start(&store, &[&["--create"], &texts(&authority.here("server"))[..]].concat());
    let asked = |verb: &[&str], roots: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
        command.args(verb).args(roots).env("AWS_ENDPOINT_URL", &server.url).env("AWS_REGION", "here");
        command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
        let ended = run_within(&mut command, super::PATIENCE).unwrap();
        assert_eq!(ended.code(), Some(1), "{}", ended.err());
        ended.err()
    };
    let (there, new) = (store.to_str().unwrap(), folder.join("b"));
    for verb in [
        ["backup", "--store", there, "s3://backups/of-a"],
        ["restore", "s3://backups/of-a", "--store", new.to_str().unwrap()],
    ] {
        let said = asked(&verb, &[]);
        assert!(said.contains("its certificate is signed by no public authority"), "{said}");
        let said = asked(&verb, &["--tls-ca", &other.roots]);
        assert!(said.contains("signed by none of the authorities in"), "{said}");
        let said = asked(&verb, &["--tls-ca", &authority.roots]);
        assert!(said.contains("archive s3://backups/of-a") && !said.contains("certificate"), "{said}");
    }
    let _ = std::fs::remove_dir_all(folder);
}
