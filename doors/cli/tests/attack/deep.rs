//! Texts and files nested or long without measure: each is answered or refused in its time, and no process dies of it.

use crate::client::{Answer, Ask, Reply};
use crate::served::{Served, is_blameless, shown, vicus_with};
use crate::suite::{Suite, file, folder, short};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time limit of a request on the server.
const TIME: Duration = Duration::from_secs(10);
/// How late after the limit a request may end, on a machine with much else to do.
const LATE: Duration = Duration::from_secs(5);

/// Levels of nesting.
const LEVELS: [usize; 2] = [100_000, 1_000_000];

/// Brackets opened `levels` times around a text; closed as often, or not at all.
fn nested(open: &str, inner: &str, close: &str, levels: usize) -> String {
    let mut text = String::with_capacity((open.len() + close.len()) * levels + inner.len());
    (0..levels).for_each(|_| text.push_str(open));
    text.push_str(inner);
    (0..levels).for_each(|_| text.push_str(close));
    text
}

pub(crate) fn attack(suite: &mut Suite) {
    texts(suite);
    files(suite);
    answers(suite);
}

type Shape = (&'static str, fn(usize) -> String);

const SPARQL: &[Shape] = &[
    ("parentheses", |n| format!("ASK {{ FILTER({}1{}) }}", "(".repeat(n), ")".repeat(n))),
    ("groups", |n| format!("ASK {}", nested("{", "", "}", n))),
    ("open groups", |n| format!("ASK {}", "{".repeat(n))),
    ("selects", |n| format!("ASK {}", nested("{ SELECT * ", "{}", "}", n))),
    ("optional", |n| format!("ASK {{ {} }}", nested("OPTIONAL { ?s ?p ?o ", "", "}", n))),
    ("optional in a row", |n| format!("ASK {{ {} }}", "OPTIONAL { ?s ?p ?o } ".repeat(n))),
    ("exists", |n| format!("ASK {{ {} }}", nested("FILTER EXISTS { ", "", "}", n))),
    ("minus", |n| format!("ASK {{ ?s ?p ?o {} }}", "MINUS { ?s ?p 7 } ".repeat(n))),
    ("union", |n| format!("ASK {{ {} }}", vec!["{ ?s ?p ?o }"; n].join(" UNION "))),
    ("graph", |n| format!("ASK {{ {} }}", nested("GRAPH ?g { ", "", "}", n))),
    ("service", |n| format!("ASK {{ {} }}", nested("SERVICE <http://127.0.0.1:1/> { ", "", "}", n))),
    ("not", |n| format!("ASK {{ FILTER({}true) }}", "!".repeat(n))),
    ("minus signs", |n| format!("ASK {{ FILTER({}1) }}", "- ".repeat(n))),
    ("calls", |n| format!("ASK {{ FILTER({}) }}", nested("STR(", "1", ")", n))),
    ("if", |n| format!("ASK {{ FILTER({}) }}", nested("IF(true,1,", "1", ")", n))),
    ("a sum", |n| format!("ASK {{ FILTER({}1) }}", "1+".repeat(n))),
    ("a conjunction", |n| format!("ASK {{ FILTER({}true) }}", "true && ".repeat(n))),
    ("collections", |n| format!("ASK {{ {} ?p ?o }}", nested("(", "1", ")", n))),
    ("a long collection", |n| format!("ASK {{ ({}) ?p ?o }}", "1 ".repeat(n))),
    ("blank nodes", |n| format!("ASK {{ {} ?p ?o }}", nested("[ ?p ", "1", "]", n))),
    ("paths", |n| format!("ASK {{ ?s {} ?o }}", nested("(", "<http://e/p>", ")*", n))),
    ("inverse paths", |n| format!("ASK {{ ?s {}<http://e/p>{} ?o }}", "^(".repeat(n), ")".repeat(n))),
    ("a sequence of paths", |n| format!("ASK {{ ?s {}<http://e/p> ?o }}", "<http://e/p>/".repeat(n))),
    ("alternatives of paths", |n| format!("ASK {{ ?s {}<http://e/p> ?o }}", "<http://e/p>|".repeat(n))),
    ("triple terms", |n| format!("ASK {{ {} ?p ?o }}", nested("<<( ?s ?p ", "?o", ")>>", n))),
    ("old triple terms", |n| format!("ASK {{ {} ?p ?o }}", nested("<< ?s ?p ", "?o", ">>", n))),
    ("prefixes", |n| format!("{} ASK {{}}", (0..n).map(|n| format!("PREFIX p{n}: <http://e/> ")).collect::<String>())),
    ("bases", |n| format!("{} ASK {{}}", "BASE <a/> ".repeat(n))),
    ("a long IRI", |n| format!("ASK {{ <http://e/{}> ?p ?o }}", "x".repeat(n))),
    ("a long literal", |n| format!("ASK {{ ?s ?p \"{}\" }}", "x".repeat(n))),
    ("a long number", |n| format!("ASK {{ FILTER({} = 1) }}", "9".repeat(n))),
    ("a long decimal", |n| format!("ASK {{ FILTER(0.{} * 0.{} = 1) }}", "9".repeat(n), "9".repeat(n))),
    ("a long comment", |n| format!("ASK {{}} #{}", "x".repeat(n))),
    ("values", |n| format!("ASK {{ VALUES ?v {{ {} }} }}", "1 ".repeat(n))),
    ("a wide row", |n| format!("ASK {{ VALUES ({}) {{}} }}", (0..n).map(|n| format!("?v{n} ")).collect::<String>())),
    ("binds", |n| format!("ASK {{ {} }}", (0..n).map(|n| format!("BIND({n} AS ?v{n}) ")).collect::<String>())),
    ("in", |n| format!("ASK {{ FILTER(7 IN ({}1)) }}", "1,".repeat(n))),
    ("a pattern's parentheses", |n| format!("ASK {{ FILTER REGEX(\"a\", \"{}\") }}", nested("(", "a", ")", n))),
    ("a pattern's repeats", |n| format!("ASK {{ FILTER REGEX(\"a\", \"a{}\") }}", "{9}".repeat(n))),
    ("triples", |n| format!("ASK {{ {} }}", "?s ?p ?o . ".repeat(n))),
    ("variables", |n| {
        format!("SELECT * {{ {} }} LIMIT 1", (0..n).map(|n| format!("?s{n} ?p ?o . ")).collect::<String>())
    }),
    ("aggregates", |n| {
        format!("SELECT {} {{ ?s ?p ?o }}", (0..n).map(|n| format!("(COUNT(*) AS ?v{n}) ")).collect::<String>())
    }),
    ("order", |n| format!("SELECT * {{ ?s ?p ?o }} ORDER BY {}", "?o ".repeat(n))),
    ("construct", |n| format!("CONSTRUCT {{ {} }} WHERE {{}}", "[] <http://e/p> 1 . ".repeat(n))),
];

const UPDATE: &[Shape] = &[
    ("operations", |n| "INSERT DATA {} ; ".repeat(n)),
    ("collections", |n| format!("INSERT DATA {{ {} <http://e/p> 1 }}", nested("(", "1", ")", n))),
    ("blank nodes", |n| format!("INSERT DATA {{ {} <http://e/p> 1 }}", nested("[ <http://e/p> ", "1", "]", n))),
    ("triple terms", |n| {
        format!(
            "INSERT DATA {{ <http://e/a> <http://e/p> {} }}",
            nested("<<( <http://e/a> <http://e/p> ", "1", ")>>", n)
        )
    }),
    ("open triple terms", |n| format!("INSERT DATA {{ {}", "<< <http://e/a> <http://e/p> ".repeat(n))),
    ("annotations", |n| {
        format!("INSERT DATA {{ <http://e/a> <http://e/p> 1 {} }}", nested("{| <http://e/p> 1 ", "", "|}", n))
    }),
    ("groups", |n| format!("DELETE {{}} WHERE {}", nested("{", "", "}", n))),
    ("graphs", |n| {
        format!("INSERT DATA {{ {} }}", (0..n).map(|n| format!("GRAPH <http://e/{n}> {{}} ")).collect::<String>())
    }),
    ("a long literal", |n| format!("INSERT DATA {{ <http://e/a> <http://e/l> \"{}\" }}", "x".repeat(n))),
    ("prefixed names", |n| {
        format!("PREFIX a: <http://e/{}> INSERT DATA {{ {} }}", "x".repeat(n.min(60_000)), "a:b a:c a:d . ".repeat(n))
    }),
];

const SQL: &[Shape] = &[
    ("parentheses", |n| format!("SELECT {}", nested("(", "1", ")", n))),
    ("selects", |n| nested("SELECT * FROM (", "SELECT 1", ") t", n)),
    ("subqueries", |n| format!("SELECT {}", nested("(SELECT ", "1", ")", n))),
    ("case", |n| format!("SELECT {}", nested("CASE WHEN true THEN ", "1", " END", n))),
    ("not", |n| format!("SELECT {} true", "NOT ".repeat(n))),
    ("minus signs", |n| format!("SELECT {}1", "- ".repeat(n))),
    ("a sum", |n| format!("SELECT {}1", "1+".repeat(n))),
    ("a conjunction", |n| format!("SELECT {}true", "true AND ".repeat(n))),
    ("concatenation", |n| format!("SELECT {}'a'", "'a'||".repeat(n))),
    ("union", |n| format!("{}SELECT 1", "SELECT 1 UNION ALL ".repeat(n))),
    ("joins", |n| format!("SELECT 1 FROM {}", nested("(", "t", " JOIN t ON true)", n))),
    ("joins in a row", |n| format!("SELECT 1 FROM t{}", " CROSS JOIN t".repeat(n))),
    ("brackets", |n| format!("SELECT {}", nested("[", "1", "]", n))),
    ("casts", |n| format!("SELECT {}", nested("CAST(", "1", " AS BIGINT)", n))),
    ("casts by signs", |n| format!("SELECT 1{}", "::BIGINT".repeat(n))),
    ("calls", |n| format!("SELECT {}", nested("ABS(", "1", ")", n))),
    ("between", |n| format!("SELECT {} 1", "1 BETWEEN 1 AND ".repeat(n))),
    ("is null", |n| format!("SELECT 1{}", " IS NULL".repeat(n))),
    ("like", |n| format!("SELECT {}'a'", "'a' LIKE ".repeat(n))),
    ("in", |n| format!("SELECT 1 IN ({}1)", "1,".repeat(n))),
    ("with", |n| {
        format!("WITH {} SELECT 1", (0..n).map(|n| format!("t{n} AS (SELECT 1)")).collect::<Vec<_>>().join(","))
    }),
    ("nested with", |n| nested("WITH t AS (", "SELECT 1", ") SELECT * FROM t", n)),
    ("types", |n| format!("SELECT CAST(1 AS {})", nested("ARRAY<", "INT", ">", n))),
    ("structures", |n| format!("SELECT CAST(1 AS {})", nested("STRUCT<a ", "INT", ">", n))),
    ("intervals", |n| format!("SELECT {}'1' DAY", "INTERVAL ".repeat(n))),
    ("lambdas", |n| format!("SELECT f({}1)", "x -> ".repeat(n))),
    ("names", |n| format!("SELECT a{}", ".a".repeat(n))),
    ("subscripts", |n| format!("SELECT a{}", "[1]".repeat(n))),
    ("comments", |n| format!("{}SELECT 1", "/*".repeat(n))),
    ("closed comments", |n| format!("{}SELECT 1", nested("/*", "", "*/", n))),
    ("a long text", |n| format!("SELECT '{}'", "x".repeat(n))),
    ("a long number", |n| format!("SELECT {}", "9".repeat(n))),
    ("quotes", |n| format!("SELECT {}", "''".repeat(n))),
    ("exists", |n| format!("SELECT {}", nested("EXISTS (SELECT 1 WHERE ", "true", ")", n))),
    ("values", |n| format!("VALUES {}(1)", "(1),".repeat(n))),
    ("explain", |n| format!("{}SELECT 1", "EXPLAIN ".repeat(n))),
    ("at time zone", |n| format!("SELECT 1{}", " AT TIME ZONE 'UTC'".repeat(n))),
    ("collate", |n| format!("SELECT 'a'{}", " COLLATE a".repeat(n))),
    ("a SPARQL text", |n| format!("SELECT * FROM SPARQL('ASK {}')", nested("{", "", "}", n))),
];

/// Sends a text, and expects an answer in its time.
fn sends(server: &Served, name: &str, ask: &Ask) -> String {
    let began = Instant::now();
    let mut stream = crate::client::connect(server.address);
    let _ = stream.write_all(&ask.bytes());
    let reply: Reply = match Answer::of(stream, false) {
        Ok(answer) => answer.rest(),
        Err(error) if server.is_alive() => panic!("{name}: {error}"),
        Err(_) => panic!("{name}: the server has died: {}", server.said()),
    };
    is_blameless(name, &reply);
    let took = began.elapsed();
    assert!(took < TIME + LATE, "{name}: {took:.1?}, and {}", reply.status);
    assert!(reply.status != 500 && !shown(&reply).contains("panic"), "{name}: {}", short(&shown(&reply)));
    server.data();
    reply.status.to_string()
}

/// Queries and updates for a server.
fn texts(suite: &mut Suite) {
    let here = folder("texts");
    let data = file(&here, "numbers.nt", crate::served::numbers(100));
    let table = file(&here, "t.csv", "a,b\n1,2\n");
    let time = TIME.as_secs().to_string();
    let args = ["--data", &data, "--table", &format!("t={table}"), "--timeout", &time, "--open-updates", "--rdf-12"];
    let mut server = Served::of(&here, &args);
    let kinds: [(&str, &str, &str, &[Shape]); 3] = [
        ("SPARQL", "/sparql", "application/sparql-query", SPARQL),
        ("update", "/update", "application/sparql-update", UPDATE),
        ("SQL", "/sql", "application/sql", SQL),
    ];
    for (kind, path, media_type, shapes) in kinds {
        for (name, shape) in shapes {
            let each = Arc::clone(&server);
            suite.case(&format!("texts: {kind}, {name}"), move || {
                let ask = |levels| Ask::post(path, media_type, shape(levels)).with("accept", "text/csv");
                LEVELS.map(|levels| sends(&each, &levels.to_string(), &ask(levels))).join(", ")
            });
            if !server.is_alive() {
                server = Served::of(&here, &args);
            }
        }
    }
    let each = Arc::clone(&server);
    suite.case("texts: what the page has checked and completed", move || {
        let mut came = Vec::new();
        let asks =
            [("/api/check", "sparql"), ("/api/check", "update"), ("/api/complete", "sparql"), ("/api/check", "sql")];
        for (path, language) in asks {
            for inner in [nested("{", "", "}", 100_000), nested("(", "1", ")", 100_000), "[ ?p ".repeat(100_000)] {
                let text = format!("SELECT * {{ {inner}");
                let json = serde_json::json!({
                    "text": text, "offset": text.len() - 10, "at": 20, "language": language, "kind": language,
                });
                came.push(sends(&each, path, &Ask::post(path, "application/json", json.to_string())));
            }
            came.push(sends(&each, path, &Ask::post(path, "application/json", nested("[", "", "]", 400_000))));
            came.push(sends(&each, path, &Ask::post(path, "application/json", nested("{\"a\":", "1", "}", 100_000))));
        }
        came.join(", ")
    });
    let documents: Vec<(&'static str, String, Vec<u8>)> = documents();
    for (media_type, name, bytes) in documents {
        let each = Arc::clone(&server);
        suite.case(&format!("texts: a document of {media_type}, {name}"), move || {
            let ask = Ask::new("PUT", "/store?graph=http://e/g").with("content-type", media_type).body(bytes);
            sends(&each, "a document", &ask)
        });
        if !server.is_alive() {
            server = Served::of(&here, &args);
        }
    }
    let each = Arc::clone(&server);
    suite.case("texts: forms of many parts", move || {
        let part = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\nContent-Type: text/turtle\r\n\r\n\r\n";
        let mut came = Vec::new();
        for body in [
            format!("{}--b--\r\n", part.repeat(100_000)),
            "--b\r\n".repeat(1_000_000),
            format!("--b\r\n{}\r\n\r\n--b--\r\n", "X: y\r\n".repeat(1_000_000)),
            format!("--b\r\nContent-Type: {}\r\n\r\n--b--\r\n", "x".repeat(1_000_000)),
            format!(
                "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{}",
                "--c\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n".repeat(100_000)
            ),
            "\r\n--".repeat(1_000_000),
        ] {
            came.push(sends(
                &each,
                "a form",
                &Ask::post("/store?graph=http://e/g", "multipart/form-data; boundary=b", body),
            ));
        }
        came.join(", ")
    });
    server.close(suite, "texts");
}

/// Documents of all syntaxes: their types, their names, and their bytes.
fn documents() -> Vec<(&'static str, String, Vec<u8>)> {
    let turtle: &[Shape] = &[
        ("collections", |n| format!("{} <http://e/p> 1 .", nested("(", "1", ")", n))),
        ("blank nodes", |n| format!("{} .", nested("[ <http://e/p> ", "1", "]", n))),
        ("open blank nodes", |n| "[ <http://e/p> ".repeat(n)),
        ("a long collection", |n| format!("({}) <http://e/p> 1 .", "1 ".repeat(n))),
        ("triple terms", |n| {
            format!("<http://e/s> <http://e/p> {} .", nested("<<( <http://e/s> <http://e/p> ", "1", ")>>", n))
        }),
        ("open triple terms", |n| "<< <http://e/s> <http://e/p> ".repeat(n)),
        ("annotations", |n| format!("<http://e/s> <http://e/p> 1 {} .", nested("{| <http://e/p> 1 ", "", "|}", n))),
        ("prefixes", |n| (0..n).map(|n| format!("@prefix p{n}: <http://e/{n}/> .\n")).collect()),
        ("a prefix again and again", |n| "@prefix p: <a/> .\n".repeat(n)),
        ("bases", |n| "@base <a/> .\n".repeat(n)),
        ("bases one on the other", |n| format!("@base <http://e/> .\n{}", "@base <a/b/../c/> .\n".repeat(n))),
        ("objects", |n| format!("<http://e/s> <http://e/p> {}1 .", "1 , ".repeat(n))),
        ("semicolons", |n| format!("<http://e/s> <http://e/p> 1 {} .", ";".repeat(n))),
        ("a long literal", |n| format!("<http://e/s> <http://e/p> \"\"\"{}\"\"\" .", "x\\n".repeat(n))),
        ("a long language", |n| format!("<http://e/s> <http://e/p> \"x\"@{} .", "a-".repeat(n))),
        ("a long number", |n| format!("<http://e/s> <http://e/p> {} .", "9".repeat(n))),
    ];
    let graphs: &[Shape] = &[
        ("graphs", |n| "<http://e/g> { } ".repeat(n)),
        ("open braces", |n| "{".repeat(n)),
        ("blank nodes in a graph", |n| format!("<http://e/g> {{ {} }}", nested("[ <http://e/p> ", "1", "]", n))),
    ];
    let rdfxml: &[Shape] = &[
        ("elements", |n| {
            format!("{RDF}{}</rdf:RDF>", nested("<rdf:Description><e:p>", "", "</e:p></rdf:Description>", n / 2))
        }),
        ("open elements", |n| format!("{RDF}{}", "<e:a>".repeat(n))),
        ("attributes", |n| {
            format!(
                "{RDF}<rdf:Description {}/></rdf:RDF>",
                (0..n).map(|n| format!("e:a{n}=\"1\" ")).collect::<String>()
            )
        }),
        ("namespaces", |n| {
            format!(
                "{RDF}<rdf:Description {}/></rdf:RDF>",
                (0..n).map(|n| format!("xmlns:a{n}=\"http://e/\" ")).collect::<String>()
            )
        }),
        ("a literal of elements", |n| {
            format!(
                "{RDF}<rdf:Description><e:p rdf:parseType=\"Literal\">{}</e:p></rdf:Description></rdf:RDF>",
                nested("<a>", "", "</a>", n)
            )
        }),
        ("namespaces in a literal", |n| {
            format!(
                "{RDF}<rdf:Description><e:p rdf:parseType=\"Literal\">{}</e:p></rdf:Description></rdf:RDF>",
                nested("<a xmlns:b='http://e/'>", "", "</a>", n)
            )
        }),
        ("a collection", |n| {
            format!(
                "{RDF}<rdf:Description><e:p rdf:parseType=\"Collection\">{}</e:p></rdf:Description></rdf:RDF>",
                "<rdf:Description/>".repeat(n)
            )
        }),
        ("resources", |n| {
            format!(
                "{RDF}<rdf:Description>{}</rdf:Description></rdf:RDF>",
                nested("<e:p rdf:parseType=\"Resource\">", "", "</e:p>", n)
            )
        }),
        ("entities", |n| {
            format!(
                "<!DOCTYPE r [<!ENTITY a \"{}\"><!ENTITY b \
                    \"{}\">]>{RDF}<rdf:Description><e:p>{}</e:p></rdf:Description></rdf:RDF>",
                "x".repeat(1000),
                "&a;".repeat(100),
                "&b;".repeat(n)
            )
        }),
        ("declared entities", |n| {
            format!(
                "<!DOCTYPE r [{}]>{RDF}</rdf:RDF>",
                (0..n).map(|n| format!("<!ENTITY a{n} \"x\">")).collect::<String>()
            )
        }),
        ("a comment", |n| format!("<!--{}-->{RDF}</rdf:RDF>", "x ".repeat(n))),
        ("an open comment", |n| format!("<!--{}", "x ".repeat(n))),
        ("open tags", |n| "<".repeat(n)),
        ("instructions", |n| "<?a b?>".repeat(n)),
    ];
    let jsonld: &[Shape] = &[
        ("lists", |n| nested("[", "", "]", n)),
        ("objects", |n| nested("{\"http://e/p\":", "1", "}", n)),
        ("open lists", |n| "[".repeat(n)),
        ("contexts", |n| format!("{{\"@context\":[{}{{}}]}}", "{\"a\":\"http://e/\"},".repeat(n))),
        ("terms", |n| {
            format!(
                "{{\"@context\":{{{}\"a\":\"http://e/\"}}}}",
                (0..n).map(|n| format!("\"t{n}\":\"http://e/{n}\",")).collect::<String>()
            )
        }),
        ("terms of each other", |n| {
            format!(
                "{{\"@context\":{{{}\"t{n}\":\"http://e/\"}}}}",
                (0..n).map(|n| format!("\"t{n}\":\"t{}:x\",", n + 1)).collect::<String>()
            )
        }),
        ("contexts of terms", |n| {
            format!("{{\"@context\":{}}}", nested("{\"a\":{\"@id\":\"http://e/a\",\"@context\":", "{}", "}}", n))
        }),
        ("graphs", |n| nested("{\"@graph\":", "[]", "}", n)),
        ("nests", |n| format!("{{\"@context\":{{\"n\":\"@nest\"}},\"n\":{}}}", nested("{\"@nest\":", "{}", "}", n))),
        ("a long key", |n| format!("{{\"{}\":1}}", "x".repeat(n))),
        ("a long number", |n| format!("{{\"http://e/p\":{}}}", "9".repeat(n))),
        ("escapes", |n| format!("{{\"http://e/p\":\"{}\"}}", "\\u0041".repeat(n))),
        ("the same key", |n| format!("{{{}\"http://e/p\":1}}", "\"http://e/p\":1,".repeat(n))),
        ("reverses", |n| nested("{\"@reverse\":{\"http://e/p\":", "{\"@id\":\"http://e/\"}", "}}", n)),
        ("included", |n| nested("{\"@included\":", "{}", "}", n)),
    ];
    let lines: &[Shape] = &[
        ("triple terms", |n| {
            format!("<http://e/s> <http://e/p> {} .", nested("<<( <http://e/s> <http://e/p> ", "\"1\"", ")>>", n))
        }),
        ("open triple terms", |n| "<<( <http://e/s> <http://e/p> ".repeat(n)),
        ("a long line", |n| format!("<http://e/s> <http://e/p> \"{}\" .", "x".repeat(n * 10))),
        ("a long name", |n| format!("<http://e/{}> <http://e/p> \"\" .", "x".repeat(n))),
        ("escapes", |n| format!("<http://e/s> <http://e/p> \"{}\" .", "\\U0001F600".repeat(n))),
        ("spaces", |n| format!("<http://e/s>{}<http://e/p> \"\" .", " ".repeat(n))),
    ];
    let all: [(&str, &[&[Shape]]); 6] = [
        ("text/turtle", &[turtle]),
        ("application/trig", &[turtle, graphs]),
        ("application/n-triples", &[lines]),
        ("application/n-quads", &[lines]),
        ("application/rdf+xml", &[rdfxml]),
        ("application/ld+json", &[jsonld]),
    ];
    let mut documents = Vec::new();
    for (media_type, kinds) in all {
        for (name, shape) in kinds.iter().copied().flatten() {
            for levels in LEVELS {
                documents.push((media_type, format!("{levels} {name}"), shape(levels).into_bytes()));
            }
        }
    }
    documents
}

const RDF: &str = "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\" xmlns:e=\"http://e/\">";

/// The most memory of a process; addresses without memory count as well.
const BYTES: u64 = 12 << 30;

/// Runs a command. It must end by itself: well, or with a reported error.
pub(crate) fn ends(args: &[&str]) -> String {
    ends_with(&[], 1, args)
}

/// The variant with more variables of the environment, and another greatest status.
pub(crate) fn ends_with(variables: &[(&str, &str)], most: i32, args: &[&str]) -> String {
    use std::os::unix::process::ExitStatusExt;
    let (output, took) = vicus_with(variables, args, Duration::from_secs(40), BYTES);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.signal(), None, "a signal: {}", short(&said));
    assert!(output.status.code().is_some_and(|code| code <= most), "{}: {}", output.status, short(&said));
    assert!(!said.contains("panicked") && !said.contains("overflowed"), "{}", short(&said));
    // A command may have far more than these files need.
    assert!(!said.contains("of memory can't be had"), "{}", short(&said));
    assert!(said.len() < 20_000, "{} bytes are told of it", said.len());
    format!(
        "{} in {took:.1?} {}",
        output.status.code().unwrap_or(9),
        short(said.trim()).chars().take(90).collect::<String>()
    )
}

/// Files for the command to read.
fn files(suite: &mut Suite) {
    let here = folder("files");
    let csv: &[Shape] = &[
        ("columns", |n| format!("{}\n", (0..n.min(100_000)).map(|n| format!("c{n},")).collect::<String>())),
        ("a long field", |n| format!("a,b\n{},1\n", "x".repeat(n * 10))),
        ("quotes", |n| format!("a,b\n\"{}\",1\n", "\"\"".repeat(n))),
        ("an open quote", |n| format!("a,b\n\"{}", "x\n".repeat(n))),
        ("empty lines", |n| format!("a,b\n{}", "\n".repeat(n))),
        ("long lines", |n| format!("a,b\n1{}\n", ",".repeat(n))),
        ("a long number", |n| format!("a,b\n1{}.5,2\n", "0".repeat(n))),
    ];
    for (name, shape) in csv {
        let here = here.clone();
        suite.case(&format!("files: CSV, {name}"), move || {
            let told = LEVELS.map(|levels| {
                let path = file(&here, "t.csv", shape(levels));
                ends(&[
                    "query",
                    "--language",
                    "sql",
                    "--table",
                    &format!("t={path}"),
                    "--timeout",
                    "10",
                    "--format",
                    "count",
                    "SELECT COUNT(*) FROM t",
                ])
            });
            told.join("; ")
        });
    }
    for (name, bytes) in parquet().into_iter().chain(arrow()) {
        let here = here.clone();
        suite.case(&format!("files: {name}"), move || {
            let ending = if name.starts_with("Parquet") { "parquet" } else { "arrow" };
            let path = file(&here, &format!("t.{ending}"), &bytes);
            ends(&[
                "query",
                "--language",
                "sql",
                "--table",
                &format!("t={path}"),
                "--timeout",
                "10",
                "--format",
                "count",
                "SELECT COUNT(*) FROM t",
            ])
        });
    }
    let xml: &[Shape] = &[
        ("objects", |n| {
            format!(
                "<?xml version=\"1.0\"?><!DOCTYPE topology SYSTEM \"hwloc2.dtd\"><topology \
                    version=\"2.0\">{}</topology>",
                nested("<object type=\"Group\" cpuset=\"0x1\" nodeset=\"0x1\">", "", "</object>", n)
            )
        }),
        ("open objects", |n| format!("<topology version=\"2.0\">{}", "<object type=\"Group\">".repeat(n))),
        ("objects in a row", |n| {
            format!(
                "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" cpuset=\"0x1\" \
                complete_cpuset=\"0x1\" allowed_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\" \
                allowed_nodeset=\"0x1\">{}</object></topology>",
                "<object type=\"PU\" os_index=\"0\" cpuset=\"0x1\" \
                complete_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\"/>"
                    .repeat(n)
            )
        }),
        ("attributes", |n| {
            format!("<topology {}></topology>", (0..n).map(|n| format!("a{n}=\"1\" ")).collect::<String>())
        }),
        ("a long set", |n| {
            format!(
                "<topology version=\"2.0\"><object type=\"Machine\" cpuset=\"{}0x1\"></object></topology>",
                "0xffffffff,".repeat(n)
            )
        }),
        ("other elements", |n| format!("<topology version=\"2.0\">{}</topology>", nested("<a>", "", "</a>", n))),
    ];
    let toml: &[Shape] = &[
        ("lists", |n| format!("a = {}", nested("[", "", "]", n))),
        ("tables", |n| format!("a = {}", nested("{ a = ", "1", " }", n))),
        ("dotted keys", |n| format!("{}a = 1", "a.".repeat(n))),
        ("dotted headers", |n| format!("[{}a]", "a.".repeat(n))),
        ("headers", |n| (0..n).map(|n| format!("[t{n}]\n")).collect()),
        ("a long number", |n| format!("a = {}", "9".repeat(n))),
        ("a long text", |n| format!("a = \"{}\"", "x".repeat(n))),
    ];
    let words: &[Shape] = &[("a notation", |n| format!("node:1{}", " core:1".repeat(n.min(1000))))];
    for (kind, ending, shapes) in [("a topology", "xml", xml), ("a machine", "toml", toml), ("a machine", "", words)] {
        for (name, shape) in shapes {
            let here = here.clone();
            suite.case(&format!("files: {kind}, {name}"), move || {
                let told = LEVELS.map(|levels| {
                    let made = shape(levels);
                    let name = if ending.is_empty() { made } else { file(&here, &format!("m.{ending}"), made) };
                    if ending == "xml" {
                        ends(&["topology", "--machine", &name])
                    } else {
                        ends(&["simulate", "--machine", &name, "--kernel", "fib", "--size", "0.001"])
                    }
                });
                told.join("; ")
            });
        }
    }
    for (coding, bomb) in bombs() {
        for ending in ["nt", "ttl", "rdf", "jsonld"] {
            let (here, bomb) = (here.clone(), bomb.clone());
            suite.case(&format!("files: a bomb of {coding} as {ending}"), move || {
                let path = file(&here, &format!("bomb.{ending}.{coding}"), bomb);
                ends(&["query", "--data", &path, "--max-line", "16M", "--format", "count", "ASK {}"])
            });
        }
    }
}

/// Spaces without end, packed.
fn bombs() -> [(&'static str, Vec<u8>); 2] {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    (0..1024).for_each(|_| packer.write_all(&[b' '; 1 << 20]).expect("memory takes it"));
    let gzip = packer.finish().expect("memory takes it");
    let zstd = zstd::encode_all(std::io::repeat(b' ').take(1 << 30), 1).expect("memory takes it");
    [("gz", gzip), ("zst", zstd)]
}

/// Footers of Parquet files with a nested or wide schema (parquet.thrift, FileMetaData, in Thrift's compact protocol).
fn parquet() -> Vec<(String, Vec<u8>)> {
    let varint = |mut number: u64, bytes: &mut Vec<u8>| {
        while number >= 128 {
            bytes.push(number as u8 | 128);
            number >>= 7;
        }
        bytes.push(number as u8);
    };
    let file = |elements: &dyn Fn(&mut Vec<u8>) -> u64| {
        let mut list = Vec::new();
        let count = elements(&mut list);
        // 1: version, an i32; 2: the schema, a list of structures.
        let mut footer = vec![0x15, 2, 0x19, 0xfc];
        varint(count, &mut footer);
        footer.extend(list);
        // 3: rows, an i64; 4: row groups, an empty list of structures.
        footer.extend([0x16, 0, 0x19, 0x0c, 0]);
        let length = (footer.len() as u32).to_le_bytes();
        [&b"PAR1"[..], &footer, &length, b"PAR1"].concat()
    };
    // 3: repetition, required; 4: the name; 5: the number of children.
    let group = |children: u64, bytes: &mut Vec<u8>| {
        bytes.extend([0x35, 0, 0x18, 1, b'a', 0x15]);
        varint(children * 2, bytes);
        bytes.push(0);
    };
    // 1: the type, INT32.
    let leaf = |bytes: &mut Vec<u8>| bytes.extend([0x15, 2, 0x25, 0, 0x18, 1, b'b', 0]);
    let mut all = Vec::new();
    for levels in LEVELS {
        let deep = file(&|bytes| {
            (0..levels).for_each(|_| group(1, bytes));
            leaf(bytes);
            levels as u64 + 1
        });
        all.push((format!("Parquet, {levels} groups within each other"), deep));
        let wide = file(&|bytes| {
            group(levels as u64, bytes);
            (0..levels).for_each(|_| leaf(bytes));
            levels as u64 + 1
        });
        all.push((format!("Parquet, {levels} columns of one name"), wide));
        let lying = file(&|bytes| {
            group(1 << 30, bytes);
            leaf(bytes);
            1 << 30
        });
        all.push((format!("Parquet, of {levels}, a schema longer than the file"), lying));
        // Thrift: structures within each other in a field unknown to all readers.
        let skipped = [vec![0x15, 2], vec![0x1c; levels], vec![0; levels], vec![0]].concat();
        let length = (skipped.len() as u32).to_le_bytes();
        all.push((
            format!("Parquet, {levels} unknown structures"),
            [&b"PAR1"[..], &skipped, &length, b"PAR1"].concat(),
        ));
        let lists = [vec![0x15, 2, 0xf9], vec![0x19; levels], vec![0; levels], vec![0]].concat();
        let length = (lists.len() as u32).to_le_bytes();
        all.push((format!("Parquet, {levels} unknown lists"), [&b"PAR1"[..], &lists, &length, b"PAR1"].concat()));
    }
    all
}

/// A stream of Arrow whose only column is lists, or structures, within each other.
fn nested_arrow(levels: usize, is_list: bool) -> Vec<u8> {
    use arrow_schema::{DataType, Field, Schema};
    let make = move || {
        let mut field = Field::new("a", DataType::Int64, true);
        for _ in 0..levels {
            let inner = Arc::new(field);
            let kind = if is_list { DataType::List(inner) } else { DataType::Struct([inner].into_iter().collect()) };
            field = Field::new("a", kind, true);
        }
        let schema = Schema::new(vec![Field::new("b", DataType::Int64, true), field]);
        let writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &schema).expect("memory takes it");
        let bytes = writer.into_inner().expect("memory takes it");
        // Dropping it descends as deeply.
        std::mem::forget(schema);
        bytes
    };
    // The writer descends by recursion.
    let thread = std::thread::Builder::new().stack_size(1 << 30).spawn(make).expect("a thread");
    thread.join().expect("there is enough stack")
}

/// Streams of Arrow with a schema that is no flatbuffer, or one of tables that name each other.
fn arrow() -> Vec<(String, Vec<u8>)> {
    let message = |bytes: &[u8]| [&[0xff; 4][..], &(bytes.len() as u32).to_le_bytes(), bytes].concat();
    let nested = [10, 60, 70, 1000, 20_000].into_iter().flat_map(|levels| {
        [true, false].map(|is_list| {
            let what = if is_list { "lists" } else { "structures" };
            (format!("Arrow, {levels} {what} within each other"), nested_arrow(levels, is_list))
        })
    });
    let mut all: Vec<_> = nested.collect();
    all.extend([
        ("Arrow, a message of zeros".to_owned(), message(&[0; 1 << 20])),
        ("Arrow, a message of ones".to_owned(), message(&[1; 1 << 20])),
        ("Arrow, a message of 2 GiB".to_owned(), [&[0xff; 4][..], &0x7fff_ffff_u32.to_le_bytes(), &[4; 100]].concat()),
        (
            "Arrow, a message of less than nothing".to_owned(),
            [&[0xff; 4][..], &0xffff_fff0_u32.to_le_bytes(), &[4; 100]].concat(),
        ),
    ]);
    all
}

/// A server with these bytes as its answer to each request, once each.
fn endpoint(media_type: &'static str, body: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it listens").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(4) {
            let Ok(mut stream) = stream else { return };
            let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
            let mut bytes = [0; 64 << 10];
            let _ = stream.read(&mut bytes);
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    port
}

/// Answers of other servers to SERVICE.
fn answers(suite: &mut Suite) {
    let json: &[Shape] = &[
        ("lists", |n| nested("[", "", "]", n)),
        ("lists in a binding", |n| {
            format!("{{\"head\":{{\"vars\":[\"s\"]}},\"results\":{{\"bindings\":[{}]}}}}", nested("[", "", "]", n))
        }),
        ("objects", |n| nested("{\"a\":", "1", "}", n)),
        ("triples", |n| {
            format!(
                "{{\"head\":{{\"vars\":[\"s\"]}},\"results\":{{\"bindings\":[{{\"s\":{}}}]}}}}",
                nested(
                    "{\"type\":\"triple\",\"value\":{\"predicate\":{\"type\":\"uri\",\"value\":\"http://e/\"},\
                     \"subject\":{\"type\":\"uri\",\"value\":\"http://e/\"},\"object\":",
                    "{\"type\":\"literal\",\"value\":\"1\"}",
                    "}}",
                    n
                )
            )
        }),
        ("variables", |n| {
            format!(
                "{{\"head\":{{\"vars\":[{}\"s\"]}},\"results\":{{\"bindings\":[]}}}}",
                (0..n).map(|n| format!("\"v{n}\",")).collect::<String>()
            )
        }),
        ("links", |n| {
            format!(
                "{{\"head\":{{\"vars\":[\"s\"],\"link\":[{}\"s\"]}},\"results\":{{\"bindings\":[]}}}}",
                "\"x\",".repeat(n)
            )
        }),
        ("an open list", |n| "[".repeat(n)),
        ("a long text", |n| {
            format!(
                "{{\"head\":{{\"vars\":[\"s\"]}},\
                 \"results\":{{\"bindings\":[{{\"s\":{{\"type\":\"literal\",\"value\":\"{}\"}}}}]}}}}",
                "x".repeat(n)
            )
        }),
        ("empty rows", |n| {
            format!("{{\"head\":{{\"vars\":[\"s\"]}},\"results\":{{\"bindings\":[{}{{}}]}}}}", "{},".repeat(n))
        }),
    ];
    let xml: &[Shape] = &[
        ("elements", |n| {
            format!(
                "<sparql xmlns=\"http://www.w3.org/2005/sparql-results#\">{}</sparql>",
                nested("<head>", "", "</head>", n)
            )
        }),
        ("triples", |n| {
            format!(
                "<sparql xmlns=\"http://www.w3.org/2005/sparql-results#\"><head><variable \
                    name=\"s\"/></head><results><result><binding name=\"s\">{}</binding></result></results></sparql>",
                nested(
                    "<triple><subject><uri>http://e/</uri></subject>\
                     <predicate><uri>http://e/</uri></predicate><object>",
                    "<literal>1</literal>",
                    "</object></triple>",
                    n / 4
                )
            )
        }),
        ("attributes", |n| {
            format!(
                "<sparql xmlns=\"http://www.w3.org/2005/sparql-results#\" {}></sparql>",
                (0..n).map(|n| format!("a{n}=\"1\" ")).collect::<String>()
            )
        }),
        ("variables", |n| {
            format!(
                "<sparql xmlns=\"http://www.w3.org/2005/sparql-results#\"><head>{}</head><results/></sparql>",
                (0..n).map(|n| format!("<variable name=\"v{n}\"/>")).collect::<String>()
            )
        }),
        ("open elements", |n| "<a>".repeat(n)),
        ("a long text", |n| {
            format!(
                "<sparql xmlns=\"http://www.w3.org/2005/sparql-results#\"><head><variable \
                    name=\"s\"/></head><results><result><binding \
                    name=\"s\"><literal>{}</literal></binding></result></results></sparql>",
                "x".repeat(n)
            )
        }),
    ];
    let tsv: &[Shape] = &[
        ("triples", |n| format!("?s\n{}\n", nested("<<( <http://e/> <http://e/> ", "1", ")>>", n))),
        ("old triples", |n| format!("?s\n{}\n", "<< <http://e/> <http://e/> ".repeat(n))),
        ("variables", |n| format!("{}?s\n", (0..n).map(|n| format!("?v{n}\t")).collect::<String>())),
        ("tabs", |n| format!("?s\n{}\n", "\t".repeat(n))),
        ("a long text", |n| format!("?s\n\"{}\"\n", "x".repeat(n))),
        ("collections", |n| format!("?s\n{}\n", nested("(", "1", ")", n))),
        ("blank nodes", |n| format!("?s\n{}\n", nested("[ <http://e/> ", "1", "]", n))),
    ];
    let csv: &[Shape] = &[
        ("variables", |n| format!("{}s\n", (0..n).map(|n| format!("v{n},")).collect::<String>())),
        ("quotes", |n| format!("s\n\"{}\"\n", "\"\"".repeat(n))),
        ("an open quote", |n| format!("s\n\"{}", "\n".repeat(n))),
        ("commas", |n| format!("s\n{}\n", ",".repeat(n))),
        ("empty rows", |n| format!("s\n{}", "\n".repeat(n))),
    ];
    let here = folder("answers");
    let data = file(&here, "numbers.nt", crate::served::numbers(10));
    let args = ["--data", &data, "--timeout", "10", "--allow-service", "all", "--rdf-12", "--open-updates"];
    let mut server = Served::of(&here, &args);
    let kinds: [(&str, &'static str, &[Shape]); 4] = [
        ("JSON", "application/sparql-results+json", json),
        ("XML", "application/sparql-results+xml", xml),
        ("TSV", "text/tab-separated-values", tsv),
        ("CSV", "text/csv", csv),
    ];
    for (kind, media_type, shapes) in kinds {
        for (name, shape) in shapes {
            let each = Arc::clone(&server);
            suite.case(&format!("answers of a SERVICE: {kind}, {name}"), move || {
                let came = LEVELS.map(|levels| {
                    let port = endpoint(media_type, shape(levels).into_bytes());
                    let query = format!("SELECT * {{ SERVICE <http://127.0.0.1:{port}/> {{ ?s ?p ?o }} }}");
                    sends(&each, &levels.to_string(), &Ask::query(&query).with("accept", "text/csv"))
                });
                came.join(", ")
            });
            if !server.is_alive() {
                server = Served::of(&here, &args);
            }
        }
    }
    server.close(suite, "answers of a SERVICE");
}
