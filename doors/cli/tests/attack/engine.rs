//! Queries and updates that take all their time or memory, and clients that go: limits hold, and other clients are
//! answered.

use crate::client::{Ask, connect};
use crate::served::{ENDLESS, SILENT, Served, is_blameless, shown};
use crate::suite::{Suite, file, folder, short, text, until};
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time limit of a request.
const TIME: Duration = Duration::from_secs(2);
/// How late after the limit a request may end: a second, and one more on a machine with much else to do.
const LATE: Duration = Duration::from_secs(2);

pub(crate) fn attack(suite: &mut Suite) {
    time(suite);
    memory(suite);
    updates(suite);
    starvation(suite);
}

/// Pairs of pairs of all numbers.
const PAIRS: &str = "?a <http://e/p> ?b . ?c <http://e/p> ?d . ?e <http://e/p> ?f . ?g <http://e/p> ?h";

fn endless() -> Vec<(&'static str, String)> {
    let all = |tail: &str| format!("SELECT * {{ {PAIRS} {tail} }}");
    vec![
        ("rows", all("")),
        ("filter", all("FILTER(?b + ?d + ?f + ?h = -1)")),
        ("count", format!("SELECT (COUNT(*) AS ?n) {{ {PAIRS} }}")),
        ("group", format!("SELECT ?a (SUM(?d) AS ?n) {{ {PAIRS} }} GROUP BY ?a")),
        ("group by many", format!("SELECT ?a ?c ?e (SUM(?d) AS ?n) {{ {PAIRS} }} GROUP BY ?a ?c ?e")),
        ("distinct", format!("SELECT DISTINCT ?a ?c ?e {{ {PAIRS} }}")),
        ("order", format!("{} ORDER BY ?h ?b ?d", all(""))),
        ("top", format!("{} ORDER BY DESC(?h + ?b) LIMIT 10", all(""))),
        ("offset", format!("{} OFFSET 1000000000000", all(""))),
        (
            "optional",
            format!(
                "SELECT * {{ {PAIRS} OPTIONAL {{ ?a ?x ?y . FILTER(?y > ?h + 1000000) }} \
            FILTER(!BOUND(?z)) }}"
            ),
        ),
        ("minus", format!("SELECT (COUNT(*) AS ?n) {{ {PAIRS} MINUS {{ ?a <http://e/q> ?z }} }}")),
        (
            "minus that compares",
            "SELECT (COUNT(*) AS ?n) { { ?a ?b ?c . ?d ?e ?f } MINUS { ?a ?x ?y . ?u ?v ?w } \
            }"
            .to_owned(),
        ),
        (
            "exists",
            format!(
                "SELECT (COUNT(*) AS ?n) {{ {PAIRS} FILTER EXISTS {{ ?a <http://e/p> ?z FILTER(?z + ?h = \
            -1) }} }}"
            ),
        ),
        (
            "not exists",
            format!(
                "SELECT (COUNT(*) AS ?n) {{ {PAIRS} FILTER NOT EXISTS {{ ?x <http://e/p> ?z FILTER(?z + \
            ?h = -1) }} }}"
            ),
        ),
        ("union", format!("SELECT (COUNT(*) AS ?n) {{ {{ {PAIRS} }} UNION {{ {PAIRS} }} }}")),
        ("bind", format!("SELECT (MAX(?t) AS ?n) {{ {PAIRS} BIND(CONCAT(STR(?a), STR(?c), STR(?e)) AS ?t) }}")),
        ("values", format!("SELECT (COUNT(*) AS ?n) {{ {PAIRS} VALUES ?z {{ 1 2 3 4 5 6 7 8 }} }}")),
        ("subquery", format!("SELECT (COUNT(*) AS ?n) {{ {{ SELECT DISTINCT ?b ?d ?f {{ {PAIRS} }} }} ?x ?y ?z }}")),
        (
            "path",
            "SELECT (COUNT(*) AS ?n) { ?a (<http://e/next>|^<http://e/next>)* ?b . ?c \
            (<http://e/next>|^<http://e/next>)* ?d }"
                .to_owned(),
        ),
        (
            "negated path",
            "SELECT (COUNT(*) AS ?n) { ?a !<http://e/x>* ?b . ?c (!<http://e/x>|^<http://e/next>)+ ?d \
            }"
            .to_owned(),
        ),
        (
            "regex",
            format!(
                "SELECT (COUNT(*) AS ?n) {{ {PAIRS} FILTER REGEX(CONCAT(STR(?a), STR(?c)), \"(.*e.*)+x$\") \
            }}"
            ),
        ),
        (
            "back-reference",
            format!(
                "SELECT (COUNT(*) AS ?n) {{ {PAIRS} FILTER REGEX(CONCAT(STR(?a), STR(?c)), \
            \"(.*)(.*)\\\\1\\\\2x\") }}"
            ),
        ),
        (
            "replace",
            format!(
                "SELECT (MAX(REPLACE(CONCAT(STR(?a), STR(?c)), \"(.)\", \"$1$1$1\")) AS ?n) {{ {PAIRS} \
            }}"
            ),
        ),
        ("hash", format!("SELECT (MAX(SHA512(CONCAT(STR(?a), STR(?c)))) AS ?n) {{ {PAIRS} }}")),
        ("group_concat", format!("SELECT (STRLEN(GROUP_CONCAT(?b)) AS ?n) {{ {PAIRS} }}")),
        (
            "distinct aggregate",
            format!(
                "SELECT (COUNT(DISTINCT CONCAT(STR(?a), STR(?c), STR(?e))) AS ?n) {{ {PAIRS} \
            }}"
            ),
        ),
        ("sample and having", format!("SELECT ?a {{ {PAIRS} }} GROUP BY ?a HAVING(SUM(?b * ?d * ?f * ?h) < 0)")),
        (
            "construct",
            format!(
                "CONSTRUCT {{ ?a ?b2 ?c . ?e <http://e/x> ?h }} WHERE {{ {PAIRS} \
            BIND(IRI(CONCAT(STR(?a), STR(?c))) AS ?b2) }}"
            ),
        ),
        ("describe", format!("DESCRIBE ?a ?c {{ {PAIRS} }}")),
        ("ask", format!("ASK {{ {PAIRS} FILTER(?b + ?d + ?f + ?h = -1) }}")),
        ("strings that grow", {
            let binds: String = (1..40).map(|n| format!("BIND(CONCAT(?x{0}, ?x{0}) AS ?x{n}) ", n - 1)).collect();
            format!("SELECT (STRLEN(?x39) AS ?n) {{ ?s <http://e/p> ?o BIND(STR(?s) AS ?x0) {binds} }}")
        }),
        (
            "planning",
            format!(
                "SELECT * {{ {} }}",
                (0..200)
                    .map(|n| format!(
                        "?a{n} ?b{n} ?a{} \
            . ",
                        (n * 7) % 200
                    ))
                    .collect::<String>()
            ),
        ),
    ]
}

fn time(suite: &mut Suite) {
    let here = folder("engine");
    let next: String =
        (0..2000).map(|n| format!("<http://e/s{n}> <http://e/next> <http://e/s{}> .\n", (n * 7 + 1) % 2000)).collect();
    let data = file(&here, "numbers.nt", crate::served::numbers(2000) + &next);
    let table: String = "a,b\n".to_owned() + &(0..3000).map(|n| format!("{n},text {n}\n")).collect::<String>();
    let table = file(&here, "t.csv", table);
    let server =
        Served::of(&here, &["--data", &data, "--table", &format!("t={table}"), "--timeout", "2", "--open-updates"]);
    let address = server.address;
    let late = move |what: &str, ask: &Ask| {
        let began = Instant::now();
        let reply = ask.send(address);
        let took = began.elapsed();
        is_blameless(what, &reply);
        assert!(took < TIME + LATE, "{took:.1?}, {}", reply.status);
        let how = if reply.is_whole { "" } else { ", broken off" };
        format!("{}{how} after {took:.1?}", reply.status)
    };
    for (name, query) in endless() {
        suite.case(&format!("time: {name}"), move || late(name, &Ask::query(&query).with("accept", "*/*")));
    }
    let cross = "FROM t AS a, t AS b, t AS c, t AS d";
    let sql = [
        ("join", format!("SELECT COUNT(*) {cross} WHERE a.a + b.a + c.a + d.a = -1")),
        ("rows", format!("SELECT * {cross}")),
        ("group", format!("SELECT a.b, c.b, COUNT(*) {cross} GROUP BY a.b, c.b")),
        ("order", format!("SELECT a.b {cross} ORDER BY d.b, c.a")),
        ("distinct", format!("SELECT DISTINCT a.b, b.b, c.b {cross}")),
        ("like", format!("SELECT COUNT(*) {cross} WHERE a.b || b.b || c.b LIKE '%t%e%x%t%z%'")),
        (
            "exists",
            format!(
                "SELECT COUNT(*) {cross} WHERE EXISTS (SELECT 1 FROM t AS e WHERE e.a = a.a + b.a + c.a + 1000000)"
            ),
        ),
        (
            "in",
            format!(
                "SELECT COUNT(*) {cross} WHERE a.a + b.a NOT IN (SELECT e.a + f.a + g.a FROM t AS e, t AS f, t AS g)"
            ),
        ),
        ("union", format!("SELECT a.a {cross} UNION SELECT d.a {cross}")),
        ("except", format!("SELECT a.a, b.a {cross} EXCEPT SELECT d.a, c.a {cross}")),
        ("a text of a gigabyte", "SELECT LENGTH(REPEAT(REPEAT('a', 30000), 30000))".to_owned()),
        ("replace", "SELECT LENGTH(REPLACE(REPEAT('a', 1000000), 'a', REPEAT('b', 1000000)))".to_owned()),
        ("texts that grow", {
            let levels: String = (1..40).map(|n| format!(", t{n} AS (SELECT x || x AS x FROM t{})", n - 1)).collect();
            format!("WITH t0 AS (SELECT 'aaaa' AS x){levels} SELECT LENGTH(x) FROM t39")
        }),
        ("levels of two", {
            let levels: String =
                (1..25).map(|n| format!(", t{n} AS (SELECT a.x FROM t{0} AS a, t{0} AS b)", n - 1)).collect();
            format!("WITH t0 AS (SELECT 1 AS x){levels} SELECT COUNT(*) FROM t24")
        }),
    ];
    for (name, text) in sql {
        suite.case(&format!("time: SQL, {name}"), move || {
            late(name, &Ask::post("/sql", "application/sql", text).with("accept", "text/csv"))
        });
    }
    let changes = [
        (
            "insert",
            format!("INSERT {{ ?a ?p2 ?c }} WHERE {{ {PAIRS} BIND(IRI(CONCAT(STR(?a), STR(?c), STR(?e))) AS ?p2) }}"),
        ),
        ("delete", format!("DELETE {{ ?a <http://e/p> ?h }} WHERE {{ {PAIRS} FILTER(?h + ?b = -1) }}")),
        (
            "many operations",
            format!("INSERT {{ <http://e/z> <http://e/z> 1 }} WHERE {{ {PAIRS} FILTER(?h = -1) }} ; ").repeat(50),
        ),
    ];
    for (name, text) in changes {
        suite.case(&format!("time: update, {name}"), move || late(name, &Ask::update(&text)));
    }
    let each = Arc::clone(&server);
    suite.case("time: clients that go at each stage", move || {
        let mut count = 0;
        for query in [ENDLESS, SILENT, &format!("{ENDLESS} ORDER BY ?l"), &format!("SELECT DISTINCT * {{ {PAIRS} }}")] {
            for wait in [0, 1, 10, 50, 200, 700] {
                for reads in [false, true] {
                    let mut stream = connect(address);
                    stream.write_all(&Ask::query(query).bytes()).expect("it is sent");
                    std::thread::sleep(Duration::from_millis(wait));
                    if reads {
                        stream.set_read_timeout(Some(Duration::from_millis(50))).expect("it can be limited");
                        let _ = stream.read(&mut [0; 1000]);
                    }
                    drop(stream);
                    count += 1;
                }
            }
            let big =
                Ask::update(&format!("INSERT DATA {{ {} }}", "<http://e/y> <http://e/y> 1 . ".repeat(10_000))).bytes();
            let mut stream = connect(address);
            stream.write_all(&big[..big.len() / 2]).expect("it is sent");
        }
        format!("{count} clients, idle after {:.1?}", each.is_idle_within(TIME + LATE))
    });
    server.close(suite, "time");
}

/// Sixteen clients that each want all memory.
fn memory(suite: &mut Suite) {
    let here = folder("engine-memory");
    let data = file(&here, "numbers.nt", crate::served::numbers(3000));
    let server = Served::of(&here, &["--data", &data, "--timeout", "15", "--total-memory", "256M", "--open-updates"]);
    let address = server.address;
    let queries = [
        format!("SELECT ?a ?c ?b {{ {PAIRS} }} ORDER BY ?h ?b ?a LIMIT 5000000"),
        format!("SELECT (COUNT(*) AS ?n) {{ {{ SELECT DISTINCT ?a ?c ?e {{ {PAIRS} }} LIMIT 3000000 }} }}"),
        format!("SELECT (STRLEN(GROUP_CONCAT(STR(?a))) AS ?n) {{ {PAIRS} }}"),
        format!("SELECT ?a ?c (COUNT(*) AS ?n) {{ {PAIRS} }} GROUP BY ?a ?c ?e"),
        format!("CONSTRUCT {{ ?a <http://e/x> ?d }} WHERE {{ {PAIRS} }}"),
    ];
    let each = Arc::clone(&server);
    suite.case("memory: 16 heavy clients", move || {
        let clients: Vec<_> = (0..16)
            .map(|n| {
                let query = queries[n % queries.len()].clone();
                std::thread::spawn(move || {
                    let reply = Ask::query(&query).with("accept", "*/*").open(address);
                    let status = reply.head.status;
                    (status, reply.skip().1)
                })
            })
            .collect();
        let mut slowest = Duration::ZERO;
        while clients.iter().any(|client| !client.is_finished()) {
            slowest = slowest.max(each.is_well());
            std::thread::sleep(Duration::from_millis(100));
        }
        let came: Vec<(u16, bool)> =
            clients.into_iter().map(|client| client.join().expect("it gets an answer")).collect();
        assert!(came.iter().all(|(status, _)| [200, 408, 413, 503].contains(status)), "{came:?}");
        format!("{:?}, a short query took {slowest:.1?}", came.iter().map(|(status, _)| *status).collect::<Vec<_>>())
    });
    server.close(suite, "memory");
}

/// A number of triples as an update.
fn many(name: &str, count: usize) -> String {
    let triples: String = (0..count).map(|n| format!("<http://e/{name}{n}> <http://e/v> {n} .\n")).collect();
    format!("INSERT DATA {{ {triples} }}")
}

fn updates(suite: &mut Suite) {
    let here = folder("engine-updates");
    let store = here.join("db");
    let data = file(&here, "numbers.nt", crate::served::numbers(10));
    let loaded =
        crate::served::vicus(&["load", "--store", text(&store), "--data", &data], Duration::from_secs(60), 12 << 30);
    assert!(loaded.0.status.success());
    let server = Served::of(&here, &["--store", text(&store), "--open-updates", "--total-memory", "4096M"]);
    let address = server.address;
    let each = Arc::clone(&server);
    suite.case("updates: a million triples at once", move || {
        let reply = Ask::update(&many("a", 1_000_000)).send(address);
        assert_eq!(reply.status, 204, "{}", short(&shown(&reply)));
        assert_eq!(each.number("SELECT (COUNT(*) AS ?n) { ?s <http://e/v> ?o }"), 1_000_000);
        "1,000,000".to_owned()
    });
    let each = Arc::clone(&server);
    suite.case("updates: big ones at once wait for memory", move || {
        let clients: Vec<_> = (0..6)
            .map(|n| std::thread::spawn(move || Ask::update(&many(&format!("b{n}-"), 200_000)).send(address)))
            .collect();
        let came: Vec<u16> =
            clients.into_iter().map(|client| client.join().expect("it gets an answer").status).collect();
        assert!(came.iter().all(|status| *status == 204), "{came:?}");
        each.is_well();
        format!("{came:?}")
    });
    server.close(suite, "updates");
}

/// As many endless queries as threads, under each strategy.
fn starvation(suite: &mut Suite) {
    let here = folder("engine-starvation");
    let data = file(&here, "numbers.nt", crate::served::numbers(2000));
    let (output, _) = crate::served::vicus(&["strategies"], Duration::from_secs(20), 12 << 30);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = told
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| !line.starts_with([' ', '\t']))
        .filter_map(|line| line.split_whitespace().next());
    let names: Vec<String> = names
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'))
        .map(str::to_owned)
        .collect();
    suite.case("starvation: there are ten strategies", {
        let names = names.clone();
        move || {
            assert!(names.len() >= 10, "{names:?}: {told}");
            names.join(", ")
        }
    });
    for name in names {
        let server = Served::of(&here, &["--data", &data, "--strategy", &name]);
        let (address, each) = (server.address, Arc::clone(&server));
        suite.case(&format!("starvation: {name}"), move || {
            let streams: Vec<_> = [SILENT, ENDLESS, SILENT, SILENT]
                .map(|query| {
                    let mut stream = connect(address);
                    stream.write_all(&Ask::query(query).bytes()).expect("it is sent");
                    stream
                })
                .into();
            assert!(until(Duration::from_secs(5), || each.metric("vicus_requests_running") >= 3), "they run");
            let slowest = (0..30).map(|_| each.is_well()).max().expect("there are some");
            let group = "SELECT (SUM(?o) AS ?n) { ?s <http://e/p> ?o }";
            let began = Instant::now();
            assert_eq!(each.number(group), 1999 * 1000);
            let longer = began.elapsed();
            assert!(longer < Duration::from_secs(5), "a sum took {longer:?}");
            drop(streams);
            format!(
                "short queries took {slowest:.1?} at most, a sum {longer:.1?}, idle after {:.1?}",
                each.is_idle_within(Duration::from_secs(10))
            )
        });
    }
}
