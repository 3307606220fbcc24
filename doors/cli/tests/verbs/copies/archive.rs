//! Archives: `vicus backup PLACE`, `vicus restore`, `vicus serve --archive`.

use super::super::store::{fails, folder, good, quads, text};
use super::{Server, wait_for};
use std::collections::BTreeSet;
use std::path::Path;

fn insert(store: &str, number: u64) {
    good(&["update", "--store", store, &format!("INSERT DATA {{ <http://e/s> <http://e/p> {number} }}")]);
}

/// The store is made again as it is, and as it was. Only what is new is sent.
fn archives_and_restores(folder: &Path, place: &str) {
    let path = |name: &str| folder.join(name);
    let (store, again) = (path("store"), path("again"));
    let store = text(&store);
    fails(&["restore", place, "--store", text(&again)], &["there is no archive: `vicus backup` makes one"]);
    assert!(!again.exists());
    good(&["update", "--store", store, "--create", "INSERT DATA { <http://e/s> <http://e/p> 1 }"]);
    let said = good(&["backup", "--store", store, place]);
    assert!(said.contains("1 records sent; it has all up to record 1"), "{said}");
    insert(store, 2);
    good(&["compact", "--store", store]);
    insert(store, 3);
    good(&["backup", "--store", store, place]);
    let said = good(&["backup", "--store", store, place]);
    assert!(said.contains(": 0 bytes and 0 records sent"), "{said}");

    let said = good(&["restore", place, "--store", text(&again)]);
    assert!(said.contains("3 quads, as of record 3"), "{said}");
    assert_eq!(quads(text(&again)), quads(store));
    good(&["check", "--store", text(&again)]);
    // It is a writer, whose records go to the same archive.
    insert(text(&again), 4);
    good(&["backup", "--store", text(&again), place]);
    for (name, until, count) in [("first", "1", 1), ("second", "2", 2), ("third", "3", 3)] {
        good(&["restore", place, "--store", text(&path(name)), "--until", until]);
        assert_eq!(quads(text(&path(name))).len(), count, "{until}");
    }
    // The new epoch has a record of its own.
    good(&["restore", place, "--store", text(&path("last")), "--until", "2999-01-01"]);
    assert_eq!(quads(text(&path("last"))).len(), 4);
    let late = path("late");
    fails(&["restore", place, "--store", text(&late), "--until", "99"], &["the last record there is 5"]);
    fails(&["restore", place, "--store", text(&late), "--until", "2001-01-01"], &["nothing was there at that time"]);
    fails(&["restore", place, "--store", store], &["holds a store already"]);
    // All that is older than the newest state goes.
    let said = good(&["backup", "--store", text(&again), place, "--keep", "30d"]);
    assert!(said.contains("0 objects removed"), "{said}");
    good(&["compact", "--store", text(&again)]);
    let said = good(&["backup", "--store", text(&again), place, "--keep", "0s"]);
    assert!(said.contains(" objects removed; it has all states from 20"), "{said}");
    let kept = path("kept");
    good(&["restore", place, "--store", text(&kept)]);
    assert_eq!(quads(text(&kept)), quads(text(&again)));
    fails(&["restore", place, "--store", text(&late), "--until", "2"], &["states before record 5 are not there"]);
    let gone = ["restore", place, "--store", text(&late), "--until", "2002-01-01"];
    fails(&gone, &["states of that time were given up by --keep: all are there from 20"]);
    assert!(!late.exists());
    let other = path("other");
    good(&["update", "--store", text(&other), "--create", "INSERT DATA { <http://e/s> <http://e/p> 1 }"]);
    fails(&["backup", "--store", text(&other), place], &["it is the archive of another store"]);
}

#[test]
fn a_store_is_archived_to_a_folder_and_made_again() {
    let folder = folder("archive");
    archives_and_restores(&folder, text(&folder.join("archive")));
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_vicus"))
        .args(["restore", text(&folder.join("archive")), "--store", "x", "--until", "yesterday"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("expected a sequence number, or a time"), "{said}");
    fails(&["backup", "--store", text(&folder.join("store")), "ftp://host/x"], &["ftp:// is no place"]);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_vicus"))
        .args(["backup", "--store", "x", "y", "--keep", "30"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("a span of time such as 30d"), "{said}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_server_archives_its_store_and_a_follower_starts_from_there() {
    let folder = folder("archive-serve");
    let place = folder.join("archive");
    let archive = ["--archive", text(&place), "--archive-every", "0.05"];
    let writer = Server::writer(&folder.join("a"), &archive);
    for value in 0..20 {
        writer.inserted(value);
    }
    wait_for(|| writer.metric("vicus_archive_behind_records") == 0.0, "an archive with all records");
    let restored = folder.join("b");
    good(&["restore", text(&place), "--store", text(&restored), "--follower"]);
    assert_eq!(quads(text(&restored)).len(), 20);
    let follower = Server::follower(&restored, &writer);
    let record = writer.inserted(20);
    assert_eq!(follower.values(record), (0..=20).collect::<BTreeSet<_>>());
    // A follower archives as well.
    drop(follower);
    wait_for(|| writer.metric("vicus_archive_behind_records") == 0.0, "an archive with all records");
    writer.kill();
    let new = folder.join("c");
    good(&["restore", text(&place), "--store", text(&new)]);
    let promoted = Server::start(&new, "127.0.0.1:0", &[]);
    let record = promoted.inserted(21);
    assert_eq!(promoted.values(record), (0..=21).collect::<BTreeSet<_>>());
    // The former follower goes on behind the restored writer.
    let follower = Server::follower(&restored, &promoted);
    assert_eq!(follower.values(record), (0..=21).collect::<BTreeSet<_>>());
    std::fs::remove_dir_all(folder).unwrap();
}

/// Beside a server that answers as S3 does, at the address in AWS_ENDPOINT_URL: `./dev test objects` starts one.
#[cfg(feature = "object-storage")]
#[test]
fn a_store_is_archived_to_a_bucket_and_made_again() {
    let Ok(endpoint) = std::env::var("AWS_ENDPOINT_URL") else {
        eprintln!("skipped: AWS_ENDPOINT_URL names no server");
        return;
    };
    let folder = folder("archive-bucket");
    archives_and_restores(&folder, "s3://backups/of/a-store");
    let store = folder.join("store");
    let fail = |endpoint: &str, place: &str| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_vicus"))
            .args(["backup", "--store", text(&store), place])
            .env("AWS_ENDPOINT_URL", endpoint)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = fail(&endpoint, "s3://no-such-bucket/x");
    assert!(said.contains("archive s3://no-such-bucket/x") && said.contains("NoSuchBucket"), "{said}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// An archive that the first version of this form has written, which each later one reads.
#[test]
fn an_archive_of_the_first_form_is_restored() {
    let folder = folder("archive-old");
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verbs/copies/archive-1");
    let store = folder.join("store");
    let said = good(&["restore", text(&place), "--store", text(&store)]);
    assert!(said.contains("4 quads, as of record 4"), "{said}");
    let quads: BTreeSet<String> = quads(text(&store)).into_iter().collect();
    let literal = |text: &str| format!("<http://e/s> <http://e/p> {text} .");
    let integer = "^^<http://www.w3.org/2001/XMLSchema#integer>";
    let expected = [
        literal(&format!("\"1\"{integer}")),
        literal(&format!("\"2\"{integer}")),
        literal("\"three\"@en"),
        "<http://e/s> <http://e/q> <http://e/o> <http://e/g> .".to_owned(),
    ];
    assert_eq!(quads, BTreeSet::from(expected));
    good(&["check", "--store", text(&store)]);
    std::fs::remove_dir_all(folder).unwrap();
}
