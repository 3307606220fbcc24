//! `vicus network`, run as a user runs it. Expected rows come from plain loops, or are written by hand.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn example(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    root.join("examples/network").join(name).display().to_string()
}

fn folder(name: &str) -> PathBuf {
    let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("network").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn vicus(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
    command.arg("network").args(arguments).current_dir(folder);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that reads no input may be over by now.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn good(folder: &Path, arguments: &[&str], input: &str) -> String {
    let output = vicus(folder, arguments, input);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn fails(folder: &Path, arguments: &[&str], input: &str) -> String {
    let output = vicus(folder, arguments, input);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn squares_are_the_same_with_any_threads_and_strategy() {
    let folder = folder("squares");
    let wanted = |most: i64| {
        let mut text = "n,square\n".to_owned();
        (0..most).filter(|n| n % 2 == 1).for_each(|n| text += &format!("{n},{}\n", n * n));
        text
    };
    let file = example("squares.vnet");
    assert_eq!(good(&folder, &["run", &file], ""), wanted(20));
    for (threads, strategy) in [("1", "las"), ("3", "vicus"), ("2", "nls")] {
        let arguments = ["run", &file, "--set", "most=30000", "--threads", threads, "--strategy", strategy];
        assert_eq!(good(&folder, &arguments, ""), wanted(30000));
    }
}

#[test]
fn a_bound_of_no_boxes_is_refused() {
    let folder = folder("no-boxes");
    let file = example("squares.vnet");
    let output = vicus(&folder, &["run", &file, "--max-boxes", "0"], "");
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("invalid value '0' for '--max-boxes"), "{error}");
    // Boxes of the text do not count: this one does not grow.
    assert!(good(&folder, &["run", &file, "--max-boxes", "1"], "").starts_with("n,square\n"));
}

#[test]
fn two_files_are_joined_and_grouped() {
    let folder = folder("cities");
    let cities = ["Brno", "Oslo", "Wien"];
    let mut people = "name,age,city\n".to_owned();
    let mut groups: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for person in 0..5000u64 {
        // The last city is in no file.
        let (age, city) = (person % 90, person * 7 % 4);
        people += &format!("p{person},{age},{city}\n");
        if let Some(name) = cities.get(city as usize) {
            let group = groups.entry(name).or_default();
            *group = (group.0 + 1, group.1 + age);
        }
    }
    std::fs::write(folder.join("people.csv"), people).unwrap();
    let lines: Vec<String> = cities.iter().enumerate().map(|(id, name)| format!("{id};{name}\n")).collect();
    std::fs::write(folder.join("cities.csv"), format!("id;name\n{}", lines.concat())).unwrap();
    let mut wanted = "city,people,years\n".to_owned();
    groups.iter().for_each(|(city, (people, years))| wanted += &format!("{city},{people},{years}\n"));
    for parts in ["1", "2", "5"] {
        let set = format!("parts={parts}");
        assert_eq!(good(&folder, &["run", &example("cities.vnet"), "--set", &set, "--threads", "2"], ""), wanted);
    }
}

#[test]
fn several_collected_boxes_are_printed_one_after_the_other() {
    let folder = folder("primes");
    let primes: Vec<u32> = (2..100).filter(|n| (2..*n).all(|d| n % d != 0)).collect();
    let lines: String = primes.iter().map(|prime| format!("{prime}\n")).collect();
    let wanted = format!("# primes\nn\n{lines}# number\ncount\n{}\n", primes.len());
    assert_eq!(good(&folder, &["run", &example("primes.vnet")], ""), wanted);
}

#[test]
fn files_are_converted_and_read_again() {
    let folder = folder("convert");
    std::fs::write(folder.join("in.csv"), "n,name,day,x\n1,\"a, \"\"b\"\"\",2024-02-29,0.5\n2,,1970-01-01,-3.0\n")
        .unwrap();
    let text = good(&folder, &["run", &example("convert.vnet"), "--set", "from=in.csv", "--set", "to=out"], "");
    assert_eq!(text, "");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(read("out.csv"), read("in.csv"));
    let json = "{\"n\":1,\"name\":\"a, \\\"b\\\"\",\"day\":\"2024-02-29\",\"x\":0.5}\n\
                {\"n\":2,\"name\":null,\"day\":\"1970-01-01\",\"x\":-3.0}\n";
    assert_eq!(read("out.jsonl"), json);
    let again =
        "box rows = read_arrow(file: \"out.arrow\", select: \"n, name, day, x\"); box out = collect; rows -> out;";
    assert_eq!(good(&folder, &["run", "-"], again), read("in.csv"));
    assert_eq!(good(&folder, &["run", "-", "--format", "json"], again), json);
    let again = again.replace("read_arrow", "read_parquet").replace("out.arrow", "out.parquet");
    assert_eq!(good(&folder, &["run", "-"], &again), read("in.csv"));
}

#[test]
fn a_text_is_checked_and_shown_in_three_forms() {
    let folder = folder("show");
    let file = example("squares.vnet");
    let checked = good(&folder, &["check", &file, "--threads", "2"], "");
    assert!(checked.starts_with("squares: "), "{checked}");
    let text = good(&folder, &["show", &file], "");
    assert_eq!(good(&folder, &["show", "-"], &text), text);
    let json = good(&folder, &["show", &file, "--format", "json"], "");
    std::fs::write(folder.join("squares.json"), &json).unwrap();
    assert_eq!(good(&folder, &["show", "squares.json"], ""), text);
    assert_eq!(good(&folder, &["run", "squares.json"], ""), good(&folder, &["run", &file], ""));
    let dot = good(&folder, &["show", &file, "--format", "dot", "--threads", "3"], "");
    assert_eq!(dot.matches("\\nfilter").count(), 3, "a filter in each of three copies: {dot}");
}

/// A picture has the boxes and vias of the graph, and no two boxes have a place in common.
#[test]
fn networks_are_drawn() {
    let folder = folder("drawn");
    let numbers = |line: &str| -> Vec<f64> {
        ["x=\"", "y=\"", "width=\"", "height=\""]
            .map(|name| line.split_once(name).unwrap().1.split_once('"').unwrap().0.parse().unwrap())
            .to_vec()
    };
    for name in ["squares.vnet", "primes.vnet"] {
        let file = example(name);
        let dot = good(&folder, &["show", &file, "--format", "dot", "--threads", "3"], "");
        let svg = good(&folder, &["show", &file, "--format", "svg", "--threads", "3"], "");
        let rects: Vec<Vec<f64>> = svg.lines().filter(|line| line.starts_with("<rect")).map(numbers).collect();
        assert_eq!(rects.len(), dot.lines().filter(|line| line.contains("\\n")).count(), "{name}: boxes");
        assert_eq!(svg.matches("<path").count(), dot.matches(" -> ").count(), "{name}: vias");
        for (one, rect) in rects.iter().enumerate() {
            for other in &rects[..one] {
                let apart =
                    |at: usize, size: usize| rect[at] + rect[size] <= other[at] || other[at] + other[size] <= rect[at];
                assert!(apart(0, 2) || apart(1, 3), "{name}: {rect:?} {other:?}");
            }
        }
        let (mut reader, mut depth) = (quick_xml::Reader::from_str(&svg), 0);
        loop {
            match reader.read_event().unwrap() {
                quick_xml::events::Event::Start(_) => depth += 1,
                quick_xml::events::Event::End(_) => depth -= 1,
                quick_xml::events::Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!(depth, 0, "{name}: elements are closed");
    }
}

#[test]
fn kinds_are_documented() {
    let folder = folder("kinds");
    let all = good(&folder, &["kinds"], "");
    for kind in ["aggregate", "filter", "join", "numbers", "read_parquet", "write_json"] {
        assert!(all.lines().any(|line| line.split_whitespace().next() == Some(kind)), "{kind}: {all}");
        assert!(good(&folder, &["kinds", kind], "").starts_with(&format!("{kind}\n  ")), "{kind}");
    }
    assert!(good(&folder, &["kinds", "numbers"], "").contains("step: integer = 1"));
    assert!(fails(&folder, &["kinds", "filtr"], "").contains("there is no kind `filtr`"));
}

#[test]
fn counts_name_the_boxes_of_the_text() {
    let folder = folder("counts");
    let text = "box n = numbers(to: 1000); box few = filter(where: \"n < 10\"); box out = sink; n -> few -> out;";
    let output = vicus(&folder, &["run", "-", "--counts"], text);
    assert!(output.status.success());
    let told = String::from_utf8(output.stderr).unwrap();
    let of = |name: &str| {
        let line = told.lines().rfind(|line| line.split_whitespace().next() == Some(name));
        let words: Vec<&str> = line.unwrap_or_else(|| panic!("{name}: {told}")).split_whitespace().collect();
        (words[words.len() - 3].to_owned(), words[words.len() - 2].to_owned())
    };
    assert_eq!(of("n").1, "1000");
    assert_eq!(of("few").1, "10");
    assert_eq!(of("out").0, "10");
}

/// What happened: `| head` made the command fail with "Broken pipe".
#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
    command.args(["network", "run", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let text = b"box n = numbers(to: 10000000); box rows = collect; n -> rows;";
    child.stdin.take().unwrap().write_all(text).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn mistakes_have_their_place_and_status_1() {
    let folder = folder("mistakes");
    let kind = fails(&folder, &["run", "-"], "box n = numbers(to: 3);\nbox f = filtr(where: \"n > 1\");\n");
    assert!(kind.contains("-: line 2, column 9: there is no kind `filtr`; did you mean filter?"), "{kind}");
    assert!(kind.contains("  box f = filtr(where: \"n > 1\");\n          ^^^^^"), "{kind}");
    let file = fails(&folder, &["check", "-"], "box r = read(file: \"none.csv\"); box s = sink; r -> s;");
    assert!(file.contains("line 1, column 20: `file` of `r`: none.csv"), "{file}");
    let bytes = "box n = numbers(to: 3); box w = write_csv(file: \"no/such/folder.csv\"); n -> w;";
    assert!(fails(&folder, &["run", "-"], bytes).contains("no/such/folder.csv"));
    let division =
        "box n = numbers(to: 3); box m = map(select: \"9223372036854775807 + n AS m\"); box s = sink; n -> m -> s;";
    assert!(fails(&folder, &["run", "-"], division).contains("project"));
    let unset = fails(&folder, &["run", &example("squares.vnet"), "--set", "moss=3"], "");
    assert!(unset.contains("did you mean most?"), "{unset}");
}

/// The same statements in six syntaxes are the same rows, and written rows are the document again.
#[test]
fn documents_of_rdf_are_rows() {
    let folder = folder("rdf");
    let quads = "<http://e/a> <http://e/p> \"x\" .\n\
                 <http://e/a> <http://e/p> \"x, \\\"y\\\"\"@en .\n\
                 <http://e/a> <http://e/q> \"01\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n\
                 <http://e/b> <http://e/p> <http://e/a> .\n";
    let in_graph = "_:n <http://e/p> \"2024-02-29\"^^<http://www.w3.org/2001/XMLSchema#date> <http://e/g> .\n";
    let turtle = "@prefix e: <http://e/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n\
                  e:a e:p \"x\", 'x, \"y\"'@en ; e:q 01 . <b> e:p <a> .\n";
    let graph = "e:g { _:n e:p \"2024-02-29\"^^xsd:date }\n";
    let json = r#"{ "@context": { "e": "http://e/" }, "@graph": [
        { "@id": "e:a", "e:p": ["x", { "@value": "x, \"y\"", "@language": "en" }],
          "e:q": { "@value": "01", "@type": "http://www.w3.org/2001/XMLSchema#integer" } },
        { "@id": "e:b", "e:p": { "@id": "e:a" } } ] }"#;
    let xml = r#"<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">
        <r:Description r:about="http://e/a"><e:p>x</e:p><e:p xml:lang="en">x, "y"</e:p>
        <e:q r:datatype="http://www.w3.org/2001/XMLSchema#integer">01</e:q></r:Description>
        <r:Description r:about="http://e/b"><e:p r:resource="http://e/a"/></r:Description></r:RDF>"#;
    let head = "subject,predicate,object,datatype,language,graph\n";
    let wanted = "http://e/a,http://e/p,x,http://www.w3.org/2001/XMLSchema#string,,\n\
         http://e/a,http://e/p,\"x, \"\"y\"\"\",http://www.w3.org/1999/02/22-rdf-syntax-ns#langString,en,\n\
         http://e/a,http://e/q,01,http://www.w3.org/2001/XMLSchema#integer,,\n\
         http://e/b,http://e/p,http://e/a,,,\n";
    let wanted_in_graph = "_:n,http://e/p,2024-02-29,http://www.w3.org/2001/XMLSchema#date,,http://e/g\n";
    let both = |one: &str, other: &str| format!("{one}{other}");
    let plain = both(head, wanted);
    let with_graph = format!("{head}{wanted}{wanted_in_graph}");
    let read = |file: &str| {
        let text = format!("box r = read_rdf(file: \"{file}\", base: \"http://e/x\"); box rows = collect; r -> rows;");
        good(&folder, &["run", "-"], &text)
    };
    for (name, text, wanted) in [
        ("a.nt", quads, &plain),
        ("a.nq", &both(quads, in_graph), &with_graph),
        ("a.ttl", turtle, &plain),
        ("a.trig", &both(turtle, graph), &with_graph),
        ("a.rdf", xml, &plain),
        ("a.jsonld", json, &plain),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
        let mut rows: Vec<String> = read(name).lines().map(str::to_owned).collect();
        // JSON-LD's objects have their members in some order.
        rows[1..].sort_unstable();
        let mut sorted: Vec<&str> = wanted.lines().collect();
        sorted[1..].sort_unstable();
        assert_eq!(rows, sorted, "{name}");
    }
    let copy = "box r = read_rdf(file: \"a.nq\"); box out = write_rdf(file: \"b.nq\"); r -> out;";
    assert_eq!(good(&folder, &["run", "-"], copy), "");
    assert_eq!(std::fs::read_to_string(folder.join("b.nq")).unwrap(), both(quads, in_graph));
    // By another syntax's name, through SQL, with numbers for literals.
    std::fs::write(folder.join("statements"), quads).unwrap();
    let years = "box r = read_rdf(file: \"statements\", syntax: \"nt\");
        box number = map(select: \"subject, predicate, CAST(object AS BIGINT) AS object\");
        box some = filter(where: \"datatype LIKE '%integer'\"); box out = write_rdf(file: \"-\");
        r -> some -> number -> out;";
    let integer = "<http://e/a> <http://e/q> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n";
    assert_eq!(good(&folder, &["run", "-"], years), integer);
}

/// More than a piece of each kind of parser: every statement is there once, in a file of several pieces.
#[test]
fn long_documents_of_rdf_are_read_whole() {
    let folder = folder("rdf-long");
    let statements = 20_000;
    let lines: String = (0..statements).map(|n| format!("<http://e/s{n}> <http://e/p> \"{n}\" .\n")).collect();
    let items: Vec<String> =
        (0..statements).map(|n| format!(r#"{{"@id":"http://e/s{n}","http://e/p":"{n}"}}"#)).collect();
    let xml: String = (0..statements)
        .map(|n| format!("<r:Description r:about=\"http://e/s{n}\"><e:p>{n}</e:p></r:Description>\n"))
        .collect();
    let names = "xmlns:r=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\" xmlns:e=\"http://e/\"";
    std::fs::write(folder.join("a.nt"), &lines).unwrap();
    std::fs::write(folder.join("a.ttl"), &lines).unwrap();
    std::fs::write(folder.join("a.jsonld"), format!("[{}]", items.join(","))).unwrap();
    std::fs::write(folder.join("a.rdf"), format!("<r:RDF {names}>{xml}</r:RDF>")).unwrap();
    for name in ["a.nt", "a.ttl", "a.jsonld", "a.rdf"] {
        let text = format!(
            "box r = read_rdf(file: \"{name}\"); box rows = collect; r -> sum -> rows;
             box sum = aggregate(select: \"COUNT(DISTINCT subject) AS s, SUM(CAST(object AS BIGINT)) AS n\");"
        );
        let sum = statements * (statements - 1) / 2;
        assert_eq!(good(&folder, &["run", "-"], &text), format!("s,n\n{statements},{sum}\n"), "{name}");
    }
}

#[test]
fn faults_of_documents_have_a_place() {
    let folder = folder("rdf-faults");
    std::fs::write(folder.join("a.ttl"), "<a> <p> 1 .\n<a> <p> .\n").unwrap();
    std::fs::write(folder.join("a.txt"), "").unwrap();
    std::fs::write(folder.join("rows.csv"), "subject,predicate,object\nhttp://e/a,http://e/p,http://e/b\nx y,p,q\n")
        .unwrap();
    let read = |arguments: &str| format!("box r = read_rdf({arguments}); box rows = collect; r -> rows;");
    let write = |select: &str| {
        format!(
            "box r = read(file: \"rows.csv\", select: \"{select}\"); box out = write_rdf(file: \"out.nq\"); r -> out;"
        )
    };
    for (text, wanted) in [
        (read("file: \"a.ttl\""), "a.ttl:2:9: "),
        (read("file: \"b.ttl\""), "b.ttl: No such file or directory"),
        (read("file: \"a.txt\""), "a.txt: its ending tells no syntax; give `syntax`"),
        (read("file: \"a.txt\", syntax: \"csv\""), "csv: known are nt, nq, ttl, trig, rdf, jsonld"),
        (read("file: \"a.ttl\", base: \"x y\""), "line 1, column 39: "),
        (write("*"), "row 2: subject \"x y\" is no IRI"),
        (write("subject, predicate, 'x' AS object"), "row 1: object \"x\" is no IRI"),
        (write("subject, predicate"), "the rows have no column object"),
        (write("*, 1 AS more"), "column more is no part of a statement"),
        (write("1 AS subject, predicate, object"), "column subject is of the type I64, where a text is expected"),
        (write("*, 'en' AS language, 'http://e/d' AS datatype"), "row 1: a value with the language en can't have"),
    ] {
        let error = fails(&folder, &["run", "-"], &text);
        assert!(error.contains(wanted), "{text}\n{error}");
    }
}

/// The network of the simulated machine runs here once, its boxes with all their rows: more threads are faster where
/// copies share the work, and the boxes are those of the text for so many threads.
#[test]
fn a_network_is_simulated_on_another_machine() {
    let folder = folder("simulated");
    std::fs::write(
        folder.join("even.vnet"),
        "param most: integer = 400000; box n = numbers(to: most); box rows = collect; n -> even -> all -> rows;\n\
         box even = filter(where: \"n % 7 = 0 AND n % 11 <> 3 AND (n * 13) % 17 <> 5\") * threads; box all = union;",
    )
    .unwrap();
    let simulate = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_vicus"))
            .args(["simulate", "--network", "even.vnet", "--machine", "opteron-6172", "--format", "json"])
            .args(arguments)
            .current_dir(&folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    for strategy in ["las", "vicus", "steal"] {
        let results = simulate(&["--threads", "6", "--strategy", strategy]);
        let run = &results["rows"][0];
        assert_eq!(run["threads"], 6, "{results:#}");
        assert_eq!(run["strategy"], strategy, "{results:#}");
        assert!(run["ms"].as_f64().unwrap() > 0.0, "{results:#}");
    }
    let few = simulate(&["--threads", "2", "--mode", "replay", "--parameter", "most=1000"]);
    let many = simulate(&["--threads", "2", "--mode", "replay"]);
    let tasks = |results: &serde_json::Value| results["recorded"]["tasks"].as_u64().unwrap();
    assert!(tasks(&few) < tasks(&many), "{few:#} {many:#}");
    let error = Command::new(env!("CARGO_BIN_EXE_vicus"))
        .args(["simulate", "--machine", "opteron-6172", "--parameter", "most=3"])
        .output()
        .unwrap();
    assert_eq!(error.status.code(), Some(2));
}

/// Lines come in any pieces. All are in one of few envelopes, so rows are late by the order of envelopes alone.
#[test]
fn lines_of_standard_input_are_counted_by_windows() {
    let folder = folder("clicks");
    let (mut lines, mut windows) = (String::new(), BTreeMap::<(i64, String), u64>::new());
    for row in 0..3000i64 {
        let (at, page) = (row / 7 + row * 5 % 3, format!("/{}", row % 4));
        lines += &format!("{{\"at\": {at}, \"page\": \"{page}\"}}\n{}", if row % 100 == 0 { "no JSON\n" } else { "" });
        *windows.entry((at.div_euclid(10) * 10, page)).or_default() += 1;
    }
    let mut wanted: Vec<String> =
        windows.iter().map(|((start, page), count)| format!("{page},{start},{},{count}", start + 10)).collect();
    wanted.sort();
    let out = good(&folder, &["run", &example("clicks.vnet"), "--threads", "2"], &lines);
    let mut rows: Vec<String> = out.lines().skip(1).map(str::to_owned).collect();
    assert_eq!(out.lines().next(), Some("page,window_start,window_end,clicks"));
    rows.sort();
    assert_eq!(rows, wanted);
    assert_eq!(std::fs::read_to_string(folder.join("late.jsonl")).unwrap(), "");
}

#[test]
fn a_followed_file_does_not_keep_a_network_that_has_enough() {
    let folder = folder("follow");
    std::fs::write(folder.join("log"), "one\ntwo\nthree\nfour\n").unwrap();
    let text = "box log = lines(from: \"log\"); box some = limit(rows: 3); box rows = collect; log -> some -> rows;";
    assert_eq!(good(&folder, &["run", "-"], text), "line\none\ntwo\nthree\n");
}

#[test]
fn a_rolling_trace_has_the_last_events() {
    let folder = folder("rolling");
    let text = "box n = numbers(to: 2000000); box s = sort(by: \"n\"); box c = count; box rows = collect;\n\
                n -> s -> c -> rows;";
    let arguments = ["run", "-", "--threads", "1", "--trace", "last.trace", "--trace-events", "200", "--trace-rolling"];
    let output = vicus(&folder, &arguments, text);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("the trace has the last events"), "{told}");
    let trace = |what: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
        let output = command.args(["trace", what, "last.trace"]).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(trace("check").contains("looked at the clocks of the last"), "{}", trace("check"));
    assert!(trace("summary").contains("count"), "{}", trace("summary"));
    // The request's end is among the events that are kept.
    assert!(trace("events").contains("request-ended"), "{}", trace("events"));
}

/// The run is shorter than the time that the trace keeps, so it has all of it; of a nanosecond, it has what was open.
#[test]
fn a_trace_keeps_a_span_of_time() {
    let folder = folder("span");
    let text = "box n = numbers(to: 20000); box c = count; box rows = collect; n -> c -> rows;";
    let run = |last: &str| {
        let arguments = ["run", "-", "--threads", "1", "--trace", "last.trace", "--trace-last", last];
        let output = vicus(&folder, &arguments, text);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        let file = std::fs::read(folder.join("last.trace")).unwrap();
        (vicus_trace::Trace::read_from(&mut &file[..]).unwrap(), told)
    };
    let (whole, told) = run("10m");
    assert_eq!((whole.header().last_ns, whole.lost(), told.as_str()), (600_000_000_000, 0, ""));
    assert!(whole.header().rolls && whole.summary().boxes.iter().any(|row| row.type_name.contains("count")));
    let (short, _) = run("1ns");
    assert_eq!(short.header().last_ns, 1);
    let dropped: u64 = short.header().earlier.iter().flatten().map(|part| part.events).sum();
    assert!(dropped > 0 && dropped == short.lost(), "{dropped} of {}", short.lost());
    for wrong in ["soon", "0s", "-1m", "10"] {
        let arguments = ["run", "-", "--trace", "last.trace", "--trace-last", wrong];
        assert!(!vicus(&folder, &arguments, text).status.success(), "{wrong}");
    }
}

/// With `script`, the command has a terminal.
#[test]
fn a_network_that_runs_for_long_says_how_far_it_is_on_a_terminal() {
    let folder = folder("progress");
    let text = "box t = ticks(every: \"100ms\", count: 20); box c = count; box r = collect; t -> c -> r;";
    std::fs::write(folder.join("slow.vnet"), text).unwrap();
    let shown = |more: &str| {
        let line = format!("{} network run slow.vnet {more}", env!("CARGO_BIN_EXE_vicus"));
        let mut script = Command::new("script");
        let made = script.args(["-qec", &line, "/dev/null"]).current_dir(&folder).stdin(Stdio::null()).output().ok()?;
        Some(String::from_utf8_lossy(&made.stdout).into_owned())
    };
    let Some(piped) = shown("> rows.csv") else {
        eprintln!("`script` is not installed: no terminal");
        return;
    };
    assert!(piped.contains(" rows of the sources so far; Ctrl-C ends it"), "{piped}");
    assert!(std::fs::read_to_string(folder.join("rows.csv")).unwrap().ends_with("\n20\n"));
    // The terminal shows the rows themselves.
    let seen = shown("").unwrap();
    assert!(seen.contains("20") && !seen.contains("so far"), "{seen}");
}

#[test]
fn streams_that_cannot_be_are_refused_with_their_place() {
    let folder = folder("wrong");
    let cases = [
        ("ticks(every: \"0s\")", "a span of time here is 1µs"),
        ("ticks(every: \"-1s\")", "a span of time here is 1µs"),
        ("ticks(every: \"soon\")", "is no span of time"),
        ("ticks(every: \"1s\", count: -1)", "the count is at least 0"),
        ("lines(from: \"nothing.log\")", "nothing.log"),
        ("lines(from: \"\")", "a source is expected"),
        ("lines(from: \"-\", new: true)", "it is for files"),
        ("lines(from: \"-\", idle: \"1x\")", "is no span of time"),
    ];
    for (kind, told) in cases {
        let error = fails(&folder, &["run", "-"], &format!("box a = {kind};\nbox s = sink;\na -> s;"));
        assert!(error.contains(told) && error.contains("line 1, column") && error.contains('^'), "{kind}: {error}");
    }
    // Boxes that take all rows before they send any.
    for (rest, told) in [
        ("box o = sort(by: \"tick\"); t -> o -> s;", "`o` needs all of input 0 to go on: fold it by `window`"),
        ("box f = filter(where: \"tick > 1\"); box c = count; t -> f -> c -> s;", "the stream of `f` never ends"),
        (
            "box n = numbers(to: 3); box j = join(on: \"a.n = b.tick\"); n -> j.0; t -> j.1; j -> s;",
            "needs all of input 1 to go on: exchange its inputs",
        ),
        (
            "box u = ticks(every: \"1s\"); \
             box j = join(on: \"a.tick = b.tick\", select: \"a.tick\"); u -> j.0; t -> j.1; j -> s;",
            "neither input ends",
        ),
    ] {
        let error = fails(&folder, &["check", "-"], &format!("box t = ticks(every: \"1s\");\nbox s = sink;\n{rest}"));
        assert!(error.contains(told) && error.contains('^'), "{rest}: {error}");
    }
    // With an end they may.
    let ends =
        "box t = ticks(every: \"1ms\"); box l = limit(rows: 3); box c = count; box r = collect; t -> l -> c -> r;";
    assert_eq!(vicus(&folder, &["run", "-"], ends).stdout, b"count\n3\n");
    // A peer that is not there is told when the network runs.
    let error = fails(&folder, &["run", "-"], "box a = lines(from: \"unix:gone\"); box s = sink; a -> s;");
    assert!(error.contains("box lines failed"), "{error}");
    let parse = |parameters: &str| {
        let text = format!("box a = lines(from: \"-\"); box p = parse({parameters}); box s = sink; a -> p -> s;");
        fails(&folder, &["run", "-"], &text)
    };
    for (parameters, told) in [
        ("columns: (at: I32)", "values are read as SQL's types"),
        ("columns: (n: I64), format: \"xml\"", "write json or csv"),
        ("columns: (n: I64), format: \"csv\", delimiter: \"::\"", "a delimiter has one byte"),
        ("columns: (n: I64), wrong: \"maybe\"", "write fail or drop"),
        ("columns: (n: I64), column: \"row\"", "there is no column `row` of texts"),
    ] {
        let error = parse(parameters);
        assert!(error.contains(told) && error.contains('^'), "{parameters}: {error}");
    }
}
