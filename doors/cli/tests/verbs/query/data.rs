//! Data that `vicus query` can't load, or only just: the error comes soon, with the file, the line and a hint.

use super::{fails, file, run, stderr};
use std::io::{Read as _, Write};
use std::process::Command;

const ALL: &str = "SELECT * { ?s ?p ?o }";

/// What happened: with `/dev/zero` as data, or a small gzip file of zeros, the process grew until the system killed it.
#[test]
fn an_endless_line_ends_with_an_error() {
    fails(
        &["query", "--data", "/dev/zero", "--syntax", "nt", ALL],
        &["/dev/zero:1: more than 67108864 bytes", "--max-line"],
    );
    // Turtle refuses the first of its bytes.
    fails(&["query", "--data", "/dev/zero", "--syntax", "ttl", ALL], &["/dev/zero:1:1: "]);
    let good = "<http://e/a> <http://e/b> \"c\" .\n";
    let line = format!("{good}{good}<http://e/a> <http://e/b> \"{}\" .\n", "x".repeat(3 << 20));
    let small = &["--max-line", "1M"];
    for (data, place) in [
        (file("endless.nt", &line), "endless.nt:3: "),
        (file("endless.ttl", &line), "endless.ttl:3: "),
        (file("endless.nt.gz", gzip(line.as_bytes())), "endless.nt.gz:3: "),
        (file("endless.ttl.gz", gzip(line.as_bytes())), "endless.ttl.gz:3: "),
    ] {
        let args = ["query", "--data", &data, "--format", "count", ALL];
        fails(&[&args[..], small].concat(), &[place, "more than 1048576 bytes", "--max-line"]);
        assert_eq!(String::from_utf8_lossy(&run(&args).stdout), "query\t2\n", "{}", stderr(&run(&args)));
    }
}

/// The key of hashes is random or given by the user; answers don't depend on it.
#[test]
fn any_hash_seed_gives_the_same_answers() {
    let text: String = (0..3000).map(|n| format!("<http://e/{}> <http://e/p{}> \"{n}\" .\n", n % 700, n % 7)).collect();
    let data = file("seeds.nt", text);
    let query = "SELECT ?s ?p (COUNT(DISTINCT ?o) AS ?n) { ?s ?p ?o . ?s ?q ?r } GROUP BY ?s ?p ORDER BY ?s ?p";
    let args = ["query", "--data", &data, "--format", "csv", query];
    let by_chance = run(&args).stdout;
    assert!(by_chance.len() > 10_000);
    for seed in ["0", "1", "18446744073709551615"] {
        assert!(run(&[&args[..], &["--hash-seed", seed]].concat()).stdout == by_chance, "seed {seed}");
    }
    let vicus = || Command::new(env!("CARGO_BIN_EXE_vicus"));
    assert!(vicus().args(args).env("VICUS_HASH_SEED", "7").output().unwrap().stdout == by_chance);
    let wrong = vicus().args(args).env("VICUS_HASH_SEED", "seven").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    // What happened: clap read the variable, and an empty one was an error, unlike all other variables.
    assert!(vicus().args(args).env("VICUS_HASH_SEED", "").output().unwrap().stdout == by_chance);
    let option = vicus().args(args).args(["--hash-seed", "7"]).env("VICUS_HASH_SEED", "seven").output().unwrap();
    assert!(option.stdout == by_chance, "the option is there, so the variable is not looked at");
}

/// One graph in every syntax.
const GRAPHS: [(&str, &str); 8] = [
    ("nt", "<http://e/a> <http://e/p> \"x\" .\n<http://e/a> <http://e/q> <http://e/b> .\n"),
    ("nq", "<http://e/a> <http://e/p> \"x\" .\n<http://e/a> <http://e/q> <http://e/b> .\n"),
    ("ttl", "@prefix : <http://e/> . :a :p \"x\" ; :q :b ."),
    ("trig", "@prefix : <http://e/> . { :a :p \"x\" } :a :q :b ."),
    ("rdf", XML),
    ("xml", XML),
    ("owl", XML),
    (
        "jsonld",
        "{ \"@context\": { \"@vocab\": \"http://e/\" }, \"@id\": \"http://e/a\", \"p\": \"x\", \"q\": { \"@id\": \
            \"http://e/b\" } }",
    ),
];
const XML: &str = "<?xml version='1.0'?>\n<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' \
    xmlns='http://e/'>\n<rdf:Description rdf:about='http://e/a'><p>x</p><q \
    rdf:resource='http://e/b'/></rdf:Description>\n</rdf:RDF>\n";

fn gzip(contents: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(contents).unwrap();
    packed.finish().unwrap()
}

fn zstd(contents: &[u8]) -> Vec<u8> {
    zstd::encode_all(contents, 1).unwrap()
}

#[test]
fn every_syntax_is_read_by_its_ending_plain_and_packed() {
    let lines = GRAPHS[0].1;
    for (ending, text) in &GRAPHS {
        let (gzip, zstd) = (gzip(text.as_bytes()), zstd(text.as_bytes()));
        // First bytes tell the packing, with an ending for it or not.
        for (name, contents) in [
            (format!("all.{ending}"), text.as_bytes()),
            (format!("all.{ending}.gz"), &gzip),
            (format!("all.{ending}.zst"), &zstd),
            (format!("packed.gzip.{ending}"), &gzip),
            (format!("packed.zstd.{ending}"), &zstd),
            (format!("twice.{ending}.GZ"), &zstd),
        ] {
            let data = file(&name, contents);
            let output = run(&["query", "--data", &data, "CONSTRUCT WHERE { ?s ?p ?o } ORDER BY ?p", "--format", "nt"]);
            assert_eq!(super::stdout(&output), lines, "{name}");
        }
    }
    // Standard input, packed, and `--syntax`.
    for (syntax, (_, text)) in ["nt", "nquads", "ttl", "trig", "rdfxml", "rdf", "rdf", "jsonld"].iter().zip(&GRAPHS) {
        let mut vicus = Command::new(env!("CARGO_BIN_EXE_vicus"));
        let vicus = vicus.args(["query", "--data", "-", "--syntax", syntax, ALL, "--format", "count"]);
        let mut vicus = vicus.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
        vicus.stdin.take().unwrap().write_all(&zstd(text.as_bytes())).unwrap();
        let mut counted = String::new();
        vicus.stdout.take().unwrap().read_to_string(&mut counted).unwrap();
        assert!(vicus.wait().unwrap().success() && counted == "query\t2\n", "{syntax}: {counted}");
    }
}

#[test]
fn named_graphs_are_loaded_and_asked() {
    let quads = "<a:a> <a:b> 1 .\n<a:g> { <a:a> <a:b> 2 , 3 }\n<a:h> { <a:a> <a:b> 2 }";
    let json = "[ { \"@id\": \"a:g\", \"@graph\": [ { \"@id\": \"a:a\", \"a:b\": [ 2, 3 ] } ] }, { \"@id\": \"a:h\", \
        \"@graph\": { \"@id\": \"a:a\", \"a:b\": 2 } }, { \"@id\": \"a:a\", \"a:b\": 1 } ]";
    let int = "\"^^<http://www.w3.org/2001/XMLSchema#integer>";
    let lines = format!(
        "<a:a> <a:b> \"1{int} .\n<a:a> <a:b> \"2{int} <a:g> .\n<a:a> <a:b> \"3{int} <a:g> .\n<a:a> <a:b> \"2{int} \
            <a:h> .\n"
    );
    for (name, text) in [("named.trig", quads), ("named.nq", &lines), ("named.jsonld", json)] {
        let data = file(name, text);
        let asked =
            |more: &[&str]| super::stdout(&run(&[&["query", "--data", &data, "--format", "csv"][..], more].concat()));
        let by_graph = "SELECT ?g ?o { GRAPH ?g { ?s ?p ?o } } ORDER BY ?g ?o";
        assert_eq!(asked(&[by_graph]), "g,o\r\na:g,2\r\na:g,3\r\na:h,2\r\n", "{name}");
        assert_eq!(asked(&["SELECT ?o { ?s ?p ?o }"]), "o\r\n1\r\n", "{name}");
        assert_eq!(asked(&["SELECT ?o FROM <a:h> { ?s ?p ?o }"]), "o\r\n2\r\n", "{name}");
        let union = ["SELECT ?o { ?s ?p ?o } ORDER BY ?o", "--default-graph", "union"];
        assert_eq!(asked(&union), "o\r\n2\r\n3\r\n", "{name}");
    }
    let data = file("named.trig", quads);
    for bad in
        ["SELECT * { GRAPH \"g\" { ?s ?p ?o } }", "SELECT * FROM ?g { ?s ?p ?o }", "ASK FROM NAMED 1 { ?s ?p ?o }"]
    {
        fails(&["query", "--data", &data, bad], &["expected"]);
    }
    fails(&["query", "--data", &data, "SELECT * FROM <g> { ?s ?p ?o }"], &["line 1, column 15", "relative"]);
}

#[test]
fn bad_data_of_every_syntax_is_told_with_file_line_and_column() {
    for (name, text, says) in [
        ("bad.nq", "<a:a> <a:b> <a:c> <a:g> <a:h> .\n", "bad.nq:1:"),
        ("bad.trig", "<a:a> <a:b> <a:c> .\n{ <a:a> <a:b> }\n", "bad.trig:2:15: "),
        (
            "bad.rdf",
            "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'>\n<rdf:Li/>\n</rdf>",
            "bad.rdf:3:",
        ),
        ("bad.jsonld", "{\n  \"@id\": \"http://e/a\"\n  \"http://e/b\": 1 }", "bad.jsonld:3:3: "),
    ] {
        let data = file(name, text);
        fails(&["query", "--data", &data, ALL], &[says]);
        let skipping = run(&["query", "--data", &data, ALL, "--skip-malformed", "--format", "count"]);
        assert!(skipping.status.success(), "{}", stderr(&skipping));
        assert!(stderr(&skipping).contains("malformed lines were left out; the first: "), "{}", stderr(&skipping));
    }
    let torn = |packed: Vec<u8>| packed[..packed.len() / 2].to_vec();
    let text = GRAPHS[0].1.repeat(100);
    let data = file("torn.nt.zst", torn(zstd(text.as_bytes())));
    fails(&["query", "--data", &data, ALL], &["torn.nt.zst could not be read"]);
    let data = file("torn.rdf.gz", torn(gzip(XML.as_bytes())));
    fails(&["query", "--data", &data, ALL], &["torn.rdf.gz could not be read"]);
}

/// A small file with entities or a depth that made the parsers take all memory or the whole stack.
#[test]
fn what_parsers_can_not_bound_is_bounded() {
    let mut entities = "<!ENTITY e0 \"0123456789\">".to_owned();
    for level in 1..12 {
        entities += &format!("<!ENTITY e{level} \"{}\">", format!("&e{};", level - 1).repeat(10));
    }
    let bomb = XML.replace("<rdf:RDF", &format!("<!DOCTYPE r [{entities}]>\n<rdf:RDF")).replace(">x<", ">&e11;<");
    let data = file("bomb.rdf", &bomb);
    fails(&["query", "--data", &data, ALL], &["bomb.rdf:4: more than 67108864 bytes", "--max-line"]);
    let repeated = XML.replace("<rdf:RDF", &format!("<!DOCTYPE r [<!ENTITY e \"{}\">]>\n<rdf:RDF", "x".repeat(10_000)));
    let data = file("repeated.rdf", repeated.replace(">x<", &format!(">{}<", "&e;".repeat(10_000))));
    fails(&["query", "--data", &data, ALL], &["repeated.rdf:4: more than 67108864 bytes"]);
    let data = file("deep.jsonld", "{\"a:b\":".repeat(50_000));
    fails(&["query", "--data", &data, ALL], &["deep.jsonld:1:", "nested more than 256 levels deep"]);
    let data = file("long.jsonld", format!("{{\"a:b\":[{}1]}}", "1,".repeat(1 << 20)));
    fails(&["query", "--data", &data, ALL, "--max-line", "1M"], &["long.jsonld:1: more than 1048576 bytes", "JSON-LD"]);
    for syntax in ["rdfxml", "jsonld", "trig", "nq"] {
        fails(&["query", "--data", "/dev/zero", "--syntax", syntax, ALL], &["/dev/zero:1:"]);
    }
}
