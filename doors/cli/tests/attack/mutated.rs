//! Files of each kind with bytes changed by chance, read by the command: it ends by itself, with or without an error,
//! and never by a signal.

use crate::client::Ask;
use crate::deep::{ends, ends_with};
use crate::served::{Served, is_blameless, vicus};
use crate::store::{Chance, seed};
use crate::suite::{Suite, file, folder, text};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Signs with a meaning for a parser.
const SIGNS: &[u8] = b"\"'<>{}[]()\\,;:=\0\n&@";

/// A file with some bytes changed, left out, said twice, or with its end cut off.
fn mutated(bytes: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + chance.below(6) {
        if bytes.is_empty() {
            return bytes;
        }
        let at = chance.below(bytes.len());
        let length = (1 + chance.below(8)).min(bytes.len() - at);
        match chance.below(7) {
            0 => bytes[at] = chance.below(256) as u8,
            1 => bytes[at] ^= 1 << chance.below(8),
            2 => _ = bytes.drain(at..at + length),
            3 => bytes.truncate(at),
            4 => {
                let copy = bytes[at..at + length].to_vec();
                bytes.splice(at..at, copy.repeat(1 + chance.below(20)));
            }
            5 => bytes[at..at + length].fill(0xff),
            _ => bytes.insert(at, SIGNS[chance.below(SIGNS.len())]),
        }
    }
    bytes
}

pub(crate) fn attack(suite: &mut Suite) {
    let here = folder("mutated");
    let seed = seed();
    let rdf: [(&str, &str); 6] = [
        (
            "ttl",
            "@prefix e: <http://e/> .\n@base <http://e/b/> .\ne:a e:p \"x\"@en , 1.5 , \"\"\"long\n\\u0041\"\"\" ; e:q \
                [ e:p ( 1 2 <c> ) ] .\n",
        ),
        ("trig", "@prefix e: <http://e/> .\ne:g { e:a e:p \"x\"^^e:t . }\n{ e:b e:p [] }\nGRAPH e:h { e:a a e:c }\n"),
        (
            "nt",
            "<http://e/a> <http://e/p> \"x\\u00e9\\n\"@en-GB .\n_:b <http://e/p> \
                \"1\"^^<http://www.w3.org/2001/XMLSchema#integer> . # c\n",
        ),
        ("nq", "<http://e/a> <http://e/p> \"x\" <http://e/g> .\n_:b <http://e/p> _:c _:g .\n"),
        (
            "rdf",
            "<?xml version=\"1.0\"?><!DOCTYPE r [<!ENTITY x \"y\">]><rdf:RDF \
                xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\" xmlns:e=\"http://e/\" \
                xml:base=\"http://e/\"><rdf:Description rdf:about=\"a\" e:q=\"&x;\"><e:p \
                rdf:parseType=\"Literal\"><b>c</b></e:p><e:l rdf:parseType=\"Collection\"><e:T/></e:l><!-- c --><e:n \
                rdf:datatype=\"http://e/t\">1</e:n></rdf:Description></rdf:RDF>",
        ),
        (
            "jsonld",
            "{\"@context\":{\"e\":\"http://e/\",\"p\":{\"@id\":\"e:p\",\"@container\":\"@list\"},\"n\":\"@nest\"},\
             \"@id\":\"e:a\",\"p\":[1,2.5e3,true,{\"@value\":\"x\",\"@language\":\"en\"}],\
             \"n\":{\"e:q\":{\"@set\":[null]}},\"@graph\":[{\"@type\":\"e:T\"}],\
             \"@reverse\":{\"e:r\":{\"@id\":\"e:b\"}}}",
        ),
    ];
    for (ending, contents) in rdf {
        let here = here.clone();
        suite.case(&format!("{ending} (seed {seed})"), move || {
            let mut chance = Chance(seed | 1);
            each_of(60, |round| {
                let path = file(&here, &format!("a.{ending}"), mutated(contents.as_bytes(), &mut chance));
                let told = ends(&[
                    "query",
                    "--data",
                    &path,
                    "--rdf-12",
                    "--timeout",
                    "10",
                    "--threads",
                    "1",
                    "--format",
                    "count",
                    "SELECT * { ?s ?p ?o }",
                ]);
                (round, told)
            })
        });
    }
    let data = file(&here, "data.nt", crate::served::numbers(50));
    let trace = here.join("good.trace");
    let (made, _) = vicus(
        &[
            "query",
            "--data",
            &data,
            "--threads",
            "2",
            "--trace",
            text(&trace),
            "--format",
            "count",
            "SELECT (COUNT(*) AS ?n) { ?s ?p ?o . ?a ?b ?c }",
        ],
        Duration::from_secs(30),
        12 << 30,
    );
    assert!(made.status.success());
    let bytes = std::fs::read(&trace).expect("it was written");
    for verb in ["summary", "check", "events"] {
        let (here, bytes) = (here.clone(), bytes.clone());
        suite.case(&format!("traces, {verb} (seed {seed})"), move || {
            let mut chance = Chance(seed | 1);
            each_of(60, |round| {
                (round, ends(&["trace", verb, &file(&here, &format!("{verb}.trace"), mutated(&bytes, &mut chance))]))
            })
        });
    }
    let (traces, bytes) = (here.clone(), bytes.clone());
    suite.case(&format!("traces, simulated again (seed {seed})"), move || {
        let mut chance = Chance(seed | 1);
        each_of(40, |round| {
            let path = file(&traces, "again.trace", mutated(&bytes, &mut chance));
            (round, ends(&["simulate", "--machine", "core:2", "--trace", &path]))
        })
    });
    let machine = include_bytes!("../../../../worlds/sim/machines/xeon-5150.toml");
    let machines = here.clone();
    suite.case(&format!("machine files (seed {seed})"), move || {
        let mut chance = Chance(seed | 1);
        each_of(60, |round| {
            let path = file(&machines, "m.toml", mutated(machine, &mut chance));
            (round, ends(&["simulate", "--machine", &path, "--kernel", "fib", "--size", "0.001"]))
        })
    });
    for name in ["8intel64-4n2t-memattrs.xml", "20em64t-hybrid-1p6c2t+2ca4co1t.xml"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../worlds/os/fixtures").join(name);
        let (machines, whole) = (here.clone(), std::fs::read(path).expect("it can be read"));
        suite.case(&format!("{name} (seed {seed})"), move || {
            let mut chance = Chance(seed | 1);
            each_of(60, |round| {
                let path = file(&machines, "m.xml", mutated(&whole, &mut chance));
                let told = match round % 2 {
                    0 => ends(&["simulate", "--machine", &path, "--kernel", "fib", "--size", "0.001"]),
                    _ => ends(&["topology", "--machine", &path]),
                };
                (round, told)
            })
        });
    }
    let (learns, query_data) = (here.clone(), data.clone());
    suite.case(&format!("learned files (seed {seed})"), move || {
        let learned = learns.join("learned.json");
        let trace = learns.join("good.trace");
        let args = ["learn", "--strategy", "las,steal", "--output", text(&learned), text(&trace)];
        let (made, _) = vicus(&args, Duration::from_secs(60), 12 << 30);
        let whole = match std::fs::read(&learned) {
            Ok(whole) if made.status.success() => whole,
            _ => panic!("{}", String::from_utf8_lossy(&made.stderr)),
        };
        let mut chance = Chance(seed | 1);
        each_of(60, |round| {
            let path = file(&learns, "changed.json", mutated(&whole, &mut chance));
            let variables = [("VICUS_LEARNED", path.as_str())];
            let count = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }";
            // A wrong file is a wrong setting: status 2.
            (round, ends_with(&variables, 2, &["query", "--data", &query_data, "--format", "count", count]))
        })
    });
    for (tool, ending) in [("bzip2", "bz2"), ("xz", "xz")] {
        let packed = std::process::Command::new(tool).args(["-c", "-k", &data]).output();
        let Ok(packed) = packed.map(|output| output.stdout) else {
            println!("left out: {tool} is not there");
            continue;
        };
        let here = here.clone();
        suite.case(&format!("a dump packed by {tool} (seed {seed})"), move || {
            let mut chance = Chance(seed | 1);
            each_of(60, |round| {
                let path = file(&here, &format!("d.nt.{ending}"), mutated(&packed, &mut chance));
                (round, ends(&["query", "--data", &path, "--format", "count", "SELECT * { ?s ?p ?o }"]))
            })
        });
    }
    let csv = "a,b,c\n1,\"x\"\"y\",2020-01-01\n2,,2020-01-01T00:00:00\n-3.5e9,z,\n";
    let tables = here.clone();
    suite.case(&format!("CSV (seed {seed})"), move || {
        let mut chance = Chance(seed | 1);
        each_of(60, |round| {
            let path = file(&tables, "t.csv", mutated(csv.as_bytes(), &mut chance));
            (
                round,
                ends(&[
                    "query",
                    "--language",
                    "sql",
                    "--table",
                    &format!("t={path}"),
                    "--format",
                    "csv",
                    "--timeout",
                    "10",
                    "SELECT * FROM t ORDER BY 1",
                ]),
            )
        })
    });
    let tables = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tables/tests/data");
    let mut files: Vec<_> =
        std::fs::read_dir(tables).expect("a folder").map(|entry| entry.expect("a file").path()).collect();
    files.retain(|path| {
        path.extension().is_some_and(|ending| ["parquet", "arrow", "arrows"].iter().any(|each| ending == *each))
    });
    files.sort();
    for path in files {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).expect("it has a name");
        let (here, bytes) = (here.clone(), std::fs::read(&path).expect("it can be read"));
        suite.case(&format!("{name} (seed {seed})"), move || {
            let mut chance = Chance(seed | 1);
            each_of(25, |round| {
                let path = file(&here, &format!("changed-{name}"), mutated(&bytes, &mut chance));
                (
                    round,
                    ends(&[
                        "query",
                        "--language",
                        "sql",
                        "--table",
                        &format!("t={path}"),
                        "--format",
                        "csv",
                        "--timeout",
                        "10",
                        "SELECT * FROM t",
                    ]),
                )
            })
        });
    }
    attack_served_tables(suite, &here, &data, seed);
    let store = here.join("db");
    let (made, _) = vicus(&["load", "--store", text(&store), "--data", &data], Duration::from_secs(30), 12 << 30);
    assert!(made.status.success());
    let (made, _) = vicus(
        &["update", "--store", text(&store), "INSERT DATA { <http://e/x> <http://e/p> 1 }"],
        Duration::from_secs(30),
        12 << 30,
    );
    assert!(made.status.success());
    let copy = here.join("copy");
    suite.case(&format!("stores (seed {seed})"), move || {
        let mut chance = Chance(seed | 1);
        each_of(60, |round| {
            let _ = std::fs::remove_dir_all(&copy);
            std::fs::create_dir_all(&copy).expect("a folder can be made");
            let mut files: Vec<_> =
                std::fs::read_dir(&store).expect("a folder").map(|entry| entry.expect("a file").path()).collect();
            files.sort();
            let changed = chance.below(files.len());
            for (number, from) in files.iter().enumerate() {
                let bytes = std::fs::read(from).expect("it can be read");
                let bytes = if number == changed { mutated(&bytes, &mut chance) } else { bytes };
                std::fs::write(copy.join(from.file_name().expect("it has a name")), bytes).expect("it can be written");
            }
            let store = text(&copy);
            let told = ["check", "dump", "query", "compact"].map(|verb| match verb {
                "dump" => ends(&["dump", "--store", store, "--output", "-"]),
                "query" => ends(&["query", "--store", store, "--format", "count", "SELECT * { ?s ?p ?o }"]),
                verb => ends(&[verb, "--store", store]),
            });
            (round, told[0].clone())
        })
    });
    let server = Served::of(&here, &["--data", &data, "--timeout", "5", "--rdf-12", "--open-updates"]);
    let requests: [(&str, &'static str, &str); 4] = [
        (
            "/sparql",
            "application/sparql-query",
            "PREFIX e: <http://e/> SELECT ?s (COUNT(DISTINCT ?o) AS ?n) FROM e:g { ?s e:p/e:q* ?o ; ^e:r [ a ?t ] . \
                OPTIONAL { ?s e:n \"x\"@en } FILTER(REGEX(STR(?o), \"^a.*(b|c)\\\\1$\", \"i\") && ?o IN (1, 2.5e3, \
                true)) VALUES (?t) { (UNDEF) } BIND(IF(?o > 1, <<( ?s e:p 1 )>>, 2) AS ?b) } GROUP BY ?s HAVING (?n > \
                1) ORDER BY DESC(?n) LIMIT 10 OFFSET 1",
        ),
        (
            "/update",
            "application/sparql-update",
            "PREFIX e: <http://e/> INSERT DATA { e:a e:b \"c\"@en , ( 1 2 ) . GRAPH e:g { e:a e:b [] } } ; WITH e:g \
                DELETE { ?s ?p ?o } INSERT { ?s ?p 1 } USING e:g WHERE { ?s ?p ?o } ; COPY e:g TO DEFAULT ; DROP \
                SILENT ALL",
        ),
        (
            "/sql",
            "application/sql",
            "WITH a AS (SELECT subject AS s, object AS o FROM \"http://e/p\" AS p) SELECT s, COUNT(DISTINCT o) AS n, \
                CASE WHEN MAX(o) > 1 THEN 'x' || s ELSE NULL END FROM a LEFT JOIN (VALUES (1, 'b')) AS b(x, y) ON a.o \
                = b.x WHERE s LIKE 'h%' AND o BETWEEN 1 AND 100 OR EXISTS (SELECT 1) GROUP BY s HAVING COUNT(*) > 0 \
                ORDER BY n DESC LIMIT 5",
        ),
        (
            "/store?graph=http://e/g",
            "multipart/form-data; boundary=b",
            "--b\r\nContent-Disposition: form-data; name=\"a\"; filename=\"a.ttl\"\r\nContent-Type: \
                text/turtle\r\n\r\n<http://e/a> <http://e/b> 1 .\r\n--b\r\nContent-Type: \
                application/n-triples\r\n\r\n<http://e/a> <http://e/b> \"1\" .\r\n--b--\r\n",
        ),
    ];
    for (path, media_type, contents) in requests {
        let (each, address) = (Arc::clone(&server), server.address);
        suite.case(&format!("requests of {media_type} (seed {seed})"), move || {
            let mut chance = Chance(seed | 1);
            let came = each_of(1500, |round| {
                let body = mutated(contents.as_bytes(), &mut chance);
                let reply = Ask::post(path, media_type, body.clone()).send(address);
                is_blameless(&String::from_utf8_lossy(&body), &reply);
                (round, reply.status.to_string())
            });
            each.is_idle_within(Duration::from_secs(10));
            came
        });
    }
    server.close(suite, "requests");
}

/// Several damaged files as tables of one server: it starts without those that can't be opened, and a request of each
/// of the others is answered, or fails by itself.
fn attack_served_tables(suite: &mut Suite, here: &Path, data: &str, seed: u64) {
    for name in ["numbers-zstd.arrow", "numbers-lz4.arrow", "numbers.arrows", "numbers-zstd.parquet"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tables/tests/data").join(name);
        let (here, data) = (here.to_owned(), data.to_owned());
        let whole = std::fs::read(path).expect("it can be read");
        suite.case(&format!("{name}, served (seed {seed})"), move || {
            let mut chance = Chance(seed | 1);
            each_of(4, |round| {
                let mut args = ["--timeout", "10", "--data", &data].map(str::to_owned).to_vec();
                for number in 0..20 {
                    let mut bytes = whole.clone();
                    // The footer stays, so that most files can be opened.
                    let end = bytes.len() / 3 * 2;
                    for _ in 0..1 + chance.below(60) {
                        bytes[8 + chance.below(end - 8)] = chance.below(256) as u8;
                    }
                    let path = file(&here, &format!("served-{round}-{number}-{name}"), bytes);
                    let table = format!("t{number}={path}");
                    let select = format!("SELECT COUNT(*) FROM t{number}");
                    let opened = ends(&["query", "--language", "sql", "--table", &table, &select]);
                    if opened.starts_with('0') {
                        args.extend(["--table".to_owned(), table]);
                    }
                }
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                let server = Served::of(&here, &args);
                for table in args.iter().filter_map(|arg| arg.split_once('=')) {
                    let select = format!("SELECT COUNT(id), MAX(name), MIN(day) FROM {}", table.0);
                    let reply = Ask::post("/sql", "application/sql", select).send(server.address);
                    assert!([200, 400, 500].contains(&reply.status), "{} {}", reply.status, reply.text());
                    assert!(server.is_alive(), "it has ended: {}", server.said());
                }
                (round, "answered".to_owned())
            })
        });
    }
}

/// Runs `rounds` rounds: how often each outcome came, by its first word.
fn each_of(rounds: usize, mut round: impl FnMut(usize) -> (usize, String)) -> String {
    let mut counts = std::collections::BTreeMap::new();
    for number in 0..rounds {
        let (_, told) = round(number);
        *counts.entry(told.split(' ').next().unwrap_or_default().to_owned()).or_insert(0) += 1;
    }
    format!("{counts:?}")
}
