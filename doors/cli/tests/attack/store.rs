//! A store with files damaged, removed or full under a running server.

use crate::client::Ask;
use crate::served::{Served, shown, vicus};
use crate::suite::{Suite, file, folder, short, text};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const COUNT: usize = 50_000;

/// A store in a folder of its own, and its base file.
fn loaded(name: &str) -> (PathBuf, PathBuf, PathBuf) {
    let here = folder(name);
    let store = here.join("db");
    let lines: String =
        (0..COUNT).map(|n| format!("<http://e/s{n}> <http://e/p> {n} ; <http://e/name> \"name {n}\" .\n")).collect();
    let data = file(&here, "data.ttl", lines);
    let (output, _) = vicus(&["load", "--store", text(&store), "--data", &data], Duration::from_secs(60), 12 << 30);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files = std::fs::read_dir(&store).expect("a folder").map(|entry| entry.expect("a file").path());
    let base = files.max_by_key(|path| path.metadata().map_or(0, |data| data.len())).expect("there is one");
    (here, store, base)
}

fn serve(here: &Path, store: &Path) -> Arc<Served> {
    Served::of(here, &["--store", text(store), "--open-updates"])
}

const ALL: &str = "SELECT (MAX(CONCAT(STR(?s), STR(?o), STR(?n))) AS ?m) { ?s <http://e/p> ?o ; <http://e/name> ?n }";

pub(crate) fn attack(suite: &mut Suite) {
    let (here, store, base) = loaded("store");
    let whole = std::fs::read(&base).expect("it can be read");

    let server = Served::of(&here, &["--store", text(&store), "--open-updates", "--rdf-12"]);
    let address = server.address;
    let each = Arc::clone(&server);
    suite.case("triple terms of more than 64 levels are refused by an update", move || {
        let term = |levels: usize| {
            format!(
                "{}1{}",
                "<<( <http://e/a> \
            <http://e/b> "
                    .repeat(levels),
                " )>>".repeat(levels)
            )
        };
        let got: Vec<u16> = [1, 60, 66, 100, 10_000]
            .map(|levels| {
                Ask::update(&format!(
                    "INSERT DATA {{ <http://e/a> <http://e/t> {} \
                }}",
                    term(levels)
                ))
                .send(address)
                .status
            })
            .into();
        assert_eq!(got, [204, 204, 400, 400, 400]);
        // One level more each time, by a query.
        let mut reached = 0;
        for level in 0..80 {
            let update = "DELETE { ?s <http://e/grows> ?t } INSERT { ?s <http://e/grows> ?u } WHERE { ?s \
                <http://e/grows> ?t BIND(TRIPLE(?s, <http://e/b>, ?t) AS ?u) }";
            if level == 0 {
                assert_eq!(Ask::update("INSERT DATA { <http://e/a> <http://e/grows> 1 }").send(address).status, 204);
            }
            let reply = Ask::update(update).send(address);
            assert!(reply.status < 500, "{level}: {} {}", reply.status, short(&shown(&reply)));
            reached += usize::from(reply.status == 204);
        }
        each.is_well();
        format!("{got:?}, and {reached} levels by queries")
    });
    server.close(suite, "triple terms");

    for (name, left) in [("all of it", 0), ("half of it", whole.len() / 2), ("its last bytes", whole.len() - 100)] {
        let server = serve(&here, &store);
        let (address, each, base, whole) = (server.address, Arc::clone(&server), base.clone(), whole.clone());
        suite.case(&format!("a base file that loses {name}"), move || {
            std::fs::File::options()
                .write(true)
                .open(&base)
                .expect("a file")
                .set_len(left as u64)
                .expect("it can be shortened");
            let mut got = Vec::new();
            for ask in [
                Ask::query(ALL),
                Ask::update("DELETE WHERE { ?s <http://e/name> ?n }"),
                Ask::get("/store"),
                Ask::query(ALL).with("accept", "text/csv"),
            ] {
                let reply = ask.send(address);
                let is_told = (reply.status == 500 && shown(&reply).contains("shortened")) || !reply.is_whole;
                assert!(is_told, "{ask:?}: {} {}", reply.status, short(&shown(&reply)));
                got.push(reply.status);
            }
            let others: Vec<u16> =
                ["/", "/health", "/metrics", "/api/info"].map(|path| Ask::get(path).send(address).status).into();
            assert_eq!(others, [200; 4]);
            assert!(each.is_alive());
            std::fs::write(&base, whole).expect("it can be written");
            format!("{got:?}")
        });
        suite.case(&format!("a base file that loses {name}: afterwards"), move || {
            assert!(server.is_alive() && !server.said().contains("panicked"), "{}", server.said());
            "alive".to_owned()
        });
    }

    let seed = seed();
    let queries = |address, chance: &mut Chance| {
        let (mut right, mut told, mut wrong) = (0, 0, 0);
        for n in 0..200 {
            let at = chance.below(COUNT);
            let query = format!("SELECT ?o ?n {{ <http://e/s{at}> <http://e/p> ?o ; <http://e/name> ?n }}");
            let reply = Ask::query(&query).with("accept", "text/csv").send(address);
            match reply.status {
                200 if shown(&reply).lines().nth(1).map(str::trim) == Some(&format!("{at},name {at}")) => right += 1,
                200 => wrong += 1,
                500 if shown(&reply).contains("base-") => told += 1,
                status => panic!("query {n}: {status} {}", short(&shown(&reply))),
            }
        }
        (right, told, wrong)
    };
    for round in 0..6 {
        let mut chance = Chance((seed + round) | 1);
        let mut bytes = whole.clone();
        for _ in 0..1 + 20 * round {
            let at = chance.below(bytes.len());
            bytes[at] ^= 1 << chance.below(8);
        }
        let (here, store, base, whole) = (here.clone(), store.clone(), base.clone(), whole.clone());
        let changed = bytes.clone();
        suite.case(
            &format!("changed bytes of a base file before the start, round {round} of seed {seed}"),
            move || {
                std::fs::write(&base, changed).expect("it can be written");
                // The server may refuse to start.
                let (check, _) =
                    vicus(&["query", "--store", text(&store), "ASK {}"], Duration::from_secs(30), 12 << 30);
                let said = String::from_utf8_lossy(&check.stderr).into_owned();
                let came = if check.status.success() {
                    let server = serve(&here, &store);
                    let (right, told, wrong) = queries(server.address, &mut Chance((seed + round) | 1));
                    assert_eq!(wrong, 0, "{right} right, {told} told");
                    assert!(server.is_alive() && !server.said().contains("panicked"), "{}", server.said());
                    format!("{right} right, {told} told")
                } else {
                    assert!(check.status.code() == Some(1) && said.contains("base-"), "{said}");
                    short(&said)
                };
                std::fs::write(&base, whole).expect("it can be written");
                came
            },
        );
    }
    // Pages checked at their first read are not looked at again: their changes are not seen.
    for round in 0..4 {
        std::fs::write(&base, &whole).expect("it can be written");
        let server = serve(&here, &store);
        let (base, whole) = (base.clone(), whole.clone());
        suite.case(&format!("changed bytes of a base file under a server, round {round} of seed {seed}"), move || {
            use std::os::unix::fs::FileExt;
            let mut chance = Chance((seed + round) | 1);
            let file = std::fs::File::options().write(true).open(&base).expect("a file");
            for _ in 0..1 + 20 * round {
                let at = chance.below(whole.len());
                file.write_all_at(&[whole[at] ^ 1 << chance.below(8)], at as u64).expect("it can be written");
            }
            let (right, told, wrong) = queries(server.address, &mut chance);
            let all = Ask::query(ALL).send(server.address).status;
            assert!(matches!(all, 200 | 500), "{all}");
            assert!(server.is_alive() && !server.said().contains("panicked"), "{}", server.said());
            format!("{right} right, {told} told, {wrong} of pages that were checked before; all of it {all}")
        });
    }
    std::fs::write(&base, &whole).expect("it can be written");

    for removes_all in [false, true] {
        let (here, store, _) = loaded("store-removed");
        let server = serve(&here, &store);
        let address = server.address;
        let name = if removes_all { "the folder is removed" } else { "LOCK is removed" };
        suite.case(&format!("{name} under a server"), move || {
            let update = Ask::update("INSERT DATA { <http://e/x> <http://e/x> 1 }");
            assert_eq!(update.send(address).status, 204);
            if removes_all {
                std::fs::remove_dir_all(&store).expect("it can be removed");
            } else {
                std::fs::remove_file(store.join("LOCK")).expect("it can be removed");
            }
            for _ in 0..3 {
                let reply = update.send(address);
                assert!(
                    reply.status == 500 && shown(&reply).contains("LOCK"),
                    "{} {}",
                    reply.status,
                    short(&shown(&reply))
                );
            }
            server.is_well();
            "updates 500, queries go on".to_owned()
        });
    }

    let (here, store, _) = loaded("store-full");
    let server = serve(&here, &store);
    let address = server.address;
    suite.case("a full disk", move || {
        // A file may not become longer than this, as on a full disk.
        let limit = |bytes| {
            let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
            #[expect(unsafe_code, reason = "limits a child")]
            // SAFETY: it is a child that was not waited for, and the limit outlives the call.
            let set = unsafe {
                libc::prlimit(server.pid as libc::pid_t, libc::RLIMIT_FSIZE, &raw const limit, std::ptr::null_mut())
            };
            assert_eq!(set, 0);
        };
        limit(1000);
        let long = format!("INSERT DATA {{ <http://e/x> <http://e/x> \"{}\" }}", "x".repeat(10_000));
        let documents = Ask::new("PUT", "/store?graph=http://e/g")
            .with("content-type", "text/turtle")
            .body(format!("<http://e/x> <http://e/x> \"{}\" .", "x".repeat(10_000)));
        for ask in [Ask::update(&long), documents, Ask::update("COPY DEFAULT TO <http://e/h>"), Ask::update(&long)] {
            let reply = ask.send(address);
            assert!(reply.status == 507 || reply.status == 204, "{} {}", reply.status, short(&shown(&reply)));
        }
        assert_eq!(Ask::update(&long).send(address).status, 507);
        server.is_well();
        limit(libc::RLIM_INFINITY);
        let after = Ask::update(&long).send(address);
        format!("507, and {} when there is room again", after.status)
    });

    let (here, store, base) = loaded("store-kept");
    let server = serve(&here, &store);
    let address = server.address;
    suite.case("an answer of the time before is not sent when damage is known", move || {
        let ask = Ask::query("SELECT ?o { <http://e/s7> <http://e/p> ?o }").with("accept", "text/csv");
        assert_eq!(ask.send(address).status, 200);
        std::fs::File::options().write(true).open(&base).expect("a file").set_len(0).expect("it can be shortened");
        assert_eq!(Ask::query(ALL).send(address).status, 500);
        assert_eq!(ask.send(address).status, 500);
        assert!(server.is_alive());
        "500".to_owned()
    });
}

/// Numbers by chance, by Marsaglia's xorshift.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}

/// A seed that is another one each time, or that of `ATTACK_SEED`.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("ATTACK_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = || {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(7, |since| since.as_millis() as u64)
    };
    given.unwrap_or_else(now)
}
