//! Results in files: `--output`.

use super::*;
use flate2::read::GzDecoder;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// An empty folder of its own for each test.
fn folder(name: &str) -> PathBuf {
    let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const PEOPLE: &str = "name,age,born,height\nAda,36,1815-12-10,1.5\n\"Grace \"\"G\"\" H\",85,1906-12-09,\nNone,,,0.25\n";

#[test]
fn an_ending_chooses_format_and_packing() {
    let folder = folder("output-endings");
    let data = file("output-endings.nt", "<http://e/a> <http://e/p> \"x\"@en .\n<http://e/b> <http://e/p> \"y\" .\n");
    let query = "SELECT ?s ?o { ?s <http://e/p> ?o } ORDER BY ?s";
    for (ending, format) in [("csv", "csv"), ("TSV", "tsv"), ("srj", "json"), ("xml", "xml"), ("txt", "table")] {
        let path = folder.join(format!("rows.{ending}"));
        let said = stdout(&run(&["query", "--data", &data, "--output", path.to_str().unwrap(), query]));
        assert_eq!(said, "");
        let expected = stdout(&run(&["query", "--data", &data, "--format", format, query]));
        assert_eq!(fs::read_to_string(&path).unwrap(), expected, "{ending}");
    }
    let (packed, mut text) = (folder.join("rows.csv.gz"), String::new());
    stdout(&run(&["query", "--data", &data, "--output", packed.to_str().unwrap(), query]));
    GzDecoder::new(fs::File::open(&packed).unwrap()).read_to_string(&mut text).unwrap();
    assert_eq!(text, "s,o\r\nhttp://e/a,x\r\nhttp://e/b,y\r\n");
    // `.xml` is RDF/XML for triples; --format comes before the ending.
    let (graph, named) = (folder.join("graph.xml"), folder.join("named.csv"));
    stdout(&run(&["query", "--data", &data, "--output", graph.to_str().unwrap(), "DESCRIBE <http://e/a>"]));
    assert!(fs::read_to_string(&graph).unwrap().contains("<rdf:RDF"));
    stdout(&run(&["query", "--data", &data, "--format", "json", "--output", named.to_str().unwrap(), query]));
    assert!(fs::read_to_string(&named).unwrap().starts_with('{'));
    let of_rows = run(&["query", "--data", &data, "--output", folder.join("no.ttl").to_str().unwrap(), query]);
    assert!(stderr(&of_rows).contains("rows can't be written as ttl"), "{}", stderr(&of_rows));
    assert!(!folder.join("no.ttl").exists());
}

#[test]
fn rows_in_parquet_are_read_back_with_their_types() {
    let folder = folder("output-parquet");
    let people = file("output-people.csv", PEOPLE);
    let path = folder.join("people.parquet");
    let path = path.to_str().unwrap();
    let select = |from: &str| format!("SELECT name, age, born, height, age > 40 AS old FROM '{from}'");
    stdout(&run(&["sql", "--output", path, &select(&people)]));
    let again = stdout(&run(&["sql", "--format", "csv", &format!("SELECT * FROM '{path}'")]));
    let expected = "name,age,born,height,old\r\nAda,36,1815-12-10,1.5,false\r\n\
        \"Grace \"\"G\"\" H\",85,1906-12-09,,true\r\nNone,,,0.25,\r\n";
    assert_eq!(again, expected);
    let table = format!("p={path}");
    let types = stdout(&run(&["sql", "--table", &table, "--table-types"]));
    assert_eq!(types, "p=name:varchar,age:bigint,born:date,height:double,old:boolean\n");
    // Terms are texts that say all; several row groups, by several threads.
    let quads: String = (0..300_000).map(|n| format!("<http://e/{n}> <http://e/p> \"{}\"@en .\n", n % 7)).collect();
    let data = file("output-parquet.nt", quads);
    let path = folder.join("terms.parquet");
    let path = path.to_str().unwrap();
    stdout(&run(&["query", "--data", &data, "--threads", "3", "--output", path, "SELECT ?s ?o { ?s ?p ?o }"]));
    let counted =
        format!("SELECT COUNT(DISTINCT s) AS s, COUNT(DISTINCT o) AS o, MIN(s) AS a, MAX(o) AS b FROM '{path}'");
    assert_eq!(
        stdout(&run(&["sql", "--format", "csv", &counted])),
        "s,o,a,b\r\n300000,7,<http://e/0>,\"\"\"6\"\"@en\"\r\n"
    );
    assert_eq!(names(&folder), ["people.parquet", "terms.parquet"]);
    // No row is a file, too, with its columns.
    stdout(&run(&["sql", "--output", path, &format!("{} WHERE age > 100", select(&people))]));
    assert_eq!(
        stdout(&run(&["sql", "--format", "csv", &format!("SELECT * FROM '{path}'")])),
        "name,age,born,height,old\r\n"
    );
}

#[test]
fn an_error_leaves_the_old_file_and_nothing_else() {
    let folder = folder("output-errors");
    let (kept, link) = (folder.join("kept.xml"), folder.join("link.xml"));
    fs::write(&kept, "old").unwrap();
    symlink("kept.xml", &link).unwrap();
    let data = file("output-errors.nt", "<http://e/a> <http://e/p> \"a\\u0001b\" .\n");
    // XML can't hold the character, as the rows say when they come.
    for path in [&kept, &link, &folder.join("new.xml")] {
        let output = run(&["query", "--data", &data, "--output", path.to_str().unwrap(), "SELECT * { ?s ?p ?o }"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("U+0001"), "{}", stderr(&output));
        assert_eq!(names(&folder), ["kept.xml", "link.xml"]);
    }
    assert_eq!(fs::read_to_string(&kept).unwrap(), "old");
    // Where it ends well, the link's target is replaced, not the link.
    stdout(&run(&["query", "--data", &data, "--output", link.to_str().unwrap(), "SELECT ?s { ?s ?p ?o }"]));
    assert!(fs::read_to_string(&kept).unwrap().contains("http://e/a"));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    // Rows that wait for the end of their group are memory.
    let long: String = (0..40_000).map(|n| format!("<http://e/{n}> <http://e/p> \"{n:0300}\" .\n")).collect();
    let data = file("output-errors-long.nt", long);
    let path = folder.join("long.parquet");
    let args = ["query", "--data", &data, "--output", path.to_str().unwrap(), "SELECT * { ?s ?p ?o }"];
    let output = run(&[&args[..], &["--memory-limit", "4M"]].concat());
    assert!(!output.status.success() && stderr(&output).contains("4.0 MiB"), "{}", stderr(&output));
    assert_eq!(names(&folder), ["kept.xml", "link.xml"]);
}

/// A trace keeps as many events of each thread as it was asked to, and says how many came later.
#[test]
fn a_trace_has_the_room_that_was_asked_for() {
    let folder = folder("output-trace");
    let data = file("output-trace.nt", "<http://e/a> <http://e/p> \"x\" .\n");
    let path = folder.join("some.trace");
    let path = path.to_str().unwrap();
    let query = ["query", "--data", &data, "--threads", "1", "--trace", path, "SELECT * { ?s ?p ?o }"];
    let output = run(&[&query[..], &["--trace-events", "5"]].concat());
    assert!(stderr(&output).contains("events did not fit into the trace: make room by --trace-events"), "{output:?}");
    let events = || stdout(&run(&["trace", "events", "--format", "json", path])).lines().count();
    // The thread of the runtime has a log, and the one that asks has another.
    let few = events();
    assert!((5..=15).contains(&few), "{few}");
    let whole = run(&query);
    assert_eq!((stderr(&whole), whole.status.success()), (String::new(), true));
    assert!(events() > few);
}

#[test]
fn refusals_come_before_the_work() {
    let folder = folder("output-refusals");
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    fails(&["sql", "--output", &at("rows"), "SELECT 1"], &["rows: the ending says no format; expected .csv"]);
    fails(&["sql", "--output", &at("a.csv.bz2"), "SELECT 1"], &["the ending says no format"]);
    fails(&["sql", "--output", &at("none/a.csv"), "SELECT 1"], &["none/a.csv: can't be written", "No such file"]);
    fails(&["sql", "--format", "parquet", "SELECT 1"], &["into a file", "--output"]);
    let data = file("output-refusals.nt", "<http://e/a> <http://e/p> \"1\" .\n");
    fails(
        &["query", "--data", &data, "--output", &at("a.parquet"), "ASK {}"],
        &["the query: yes or no can't be written as parquet"],
    );
    let query = file("output-refusals.rq", "SELECT * { ?s ?p ?o }");
    let two = ["query", "--data", &data, "--output", &at("a.parquet"), "--query", &query, &query];
    fails(&two, &["one query, and there are 2"]);
    let explained = run(&["sql", "--explain", "--output", &at("a.csv"), "SELECT 1"]);
    assert_eq!(explained.status.code(), Some(2));
    assert_eq!(names(&folder), Vec::<String>::new());
    // Two answers follow each other in a text, as on standard output.
    let path = at("two.csv");
    stdout(&run(&["query", "--data", &data, "--output", &path, "--query", &query, &query]));
    let one = "s,p,o\r\nhttp://e/a,http://e/p,1\r\n";
    assert_eq!(fs::read_to_string(&path).unwrap(), [one, one].concat());
    // A device is written to, and none is made beside it.
    assert_eq!(stdout(&run(&["sql", "--format", "csv", "--output", "/dev/stdout", "SELECT 1 AS a"])), "a\r\n1\r\n");
    assert_eq!(stdout(&run(&["sql", "--output", "-", "--format", "csv", "SELECT 1 AS a"])), "a\r\n1\r\n");
    assert_eq!(stdout(&run(&["sql", "--output", "/dev/null", "SELECT 1 AS a"])), "");
}
