//! `vicus query` from outside: results in every format, timings, traces, and errors for bad input.

use super::{fails, file, run, stderr, stdout, vicus};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use vicus_schedule::ALL;

const PEOPLE: &str = r#"<http://e/ann> <http://e/name> "Ann" .
<http://e/ann> <http://e/age> "41"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://e/bob> <http://e/name> "Bob"@en .
_:x <http://e/name> "tab\there" .
"#;

const NAMES: &str = "SELECT ?who ?name { ?who <http://e/name> ?name } ORDER BY ?name";

#[test]
fn results_come_in_every_format() {
    let data = file("formats.nt", PEOPLE);
    let answer = |format: &str, query: &str| stdout(&run(&["query", "--data", &data, query, "--format", format]));
    let table = answer("table", NAMES);
    assert!(table.contains("?who") && table.contains("<http://e/ann>  Ann\n") && table.lines().count() == 5, "{table}");
    let json: serde_json::Value = serde_json::from_str(&answer("json", NAMES)).unwrap();
    assert_eq!(json["head"]["vars"], serde_json::json!(["who", "name"]));
    assert_eq!(json["results"]["bindings"].as_array().unwrap().len(), 3);
    assert!(answer("xml", NAMES).contains("<variable name=\"who\"/>"));
    assert!(answer("csv", NAMES).starts_with("who,name\r\n"));
    let tsv = answer("tsv", NAMES);
    assert!(tsv.starts_with("?who\t?name\n") && tsv.contains("<http://e/ann>\t\"Ann\"\n"), "{tsv}");
    assert!(tsv.contains("\"tab\\there\"") && tsv.contains("\"Bob\"@en"), "{tsv}");
    assert_eq!(answer("count", NAMES), "query\t3\n");
    let ask = "ASK { ?x <http://e/age> 41 }";
    assert_eq!(answer("count", ask), "query\tyes\n");
    assert_eq!(answer("table", "ASK { ?x <http://e/age> 42 }"), "no\n");
    assert_eq!(answer("json", ask).trim(), r#"{"head":{},"boolean":true}"#);
}

const EVERYTHING_TIMES_EVERYTHING: &str = "SELECT DISTINCT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }";

#[test]
fn a_query_that_needs_too_much_memory_says_what_grew() {
    let data = file("memory.nt", generated_text());
    let limited = ["query", "--data", &data, "--memory-limit", "4M", "--no-spill", "--format", "count"];
    let with = |query: &'static str| [&limited[..], &[query]].concat();
    fails(&with(EVERYTHING_TIMES_EVERYTHING), &["4.0 MiB", "MiB for distinct", "--memory-limit"]);
    let sort = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i } ORDER BY ?a ?i";
    fails(&with(sort), &["4.0 MiB", "MiB for sort"]);
    assert_eq!(stdout(&run(&with("ASK { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }"))), "query\tyes\n");
    let groups = "SELECT ?c ?f (SAMPLE(?a) AS ?s) { ?a ?b ?c . ?d ?e ?f } GROUP BY ?c ?f";
    fails(&with(groups), &["4.0 MiB", "MiB for aggregate"]);
    let made = "SELECT (COUNT(DISTINCT ?x) AS ?n) { ?a ?b ?c . ?d ?e ?f BIND (CONCAT(?c, \"/\", ?f) AS ?x) }";
    fails(&with(made), &["4.0 MiB", "MiB for extend"]);
    // With temporary files, their limit ends it.
    let spills = ["query", "--data", &data, "--memory-limit", "4M", "--temp-limit", "20M", "--format", "count"];
    fails(&[&spills[..], &[sort]].concat(), &["temporary file", "20971520 bytes", "the limit of temporary files"]);
    // A table for people is held as a whole, because the widths of its columns depend on all rows.
    let table = ["query", "--data", &data, "--memory-limit", "4M", "SELECT * { ?a ?b ?c . ?d ?e ?f }"];
    fails(&table, &["4.0 MiB", "MiB for solutions"]);
}

/// On a terminal that `script` makes: what has a second to itself counts its rows, and leaves nothing behind.
#[test]
fn a_query_that_runs_for_long_counts_its_rows_on_a_terminal() {
    let data = file("counted.nt", generated_text());
    let asked = |options: &str| {
        let query = "'SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }'";
        let line = format!("{} query --data {data} {options} {query}", env!("CARGO_BIN_EXE_vicus"));
        let made = Command::new("script").args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).output().ok()?;
        Some(String::from_utf8_lossy(&made.stdout).into_owned())
    };
    let Some(told) = asked("--timeout 3 --format count") else {
        eprintln!("`script` is not installed: no terminal");
        return;
    };
    assert!(told.contains("0 rows so far; Ctrl-C ends it"), "{told}");
    assert!(told.contains("--timeout"), "{told}");
    // Rows that come on the terminal are seen there.
    let told = asked("--timeout 3 --format tsv").unwrap();
    assert!(told.contains("--timeout") && !told.contains("so far;"), "{told}");
}

/// A terminal is told that they take turns, and a pipe is not.
#[test]
fn more_threads_than_pus_are_spoken_of_on_a_terminal() {
    let data = file("threads.nt", "<http://e/a> <http://e/p> <http://e/b> .\n");
    let threads = vicus::this_machine().topology.usable_pus().count() + 1;
    let line = format!("{} query --data {data} --threads {threads} 'ASK {{}}'", env!("CARGO_BIN_EXE_vicus"));
    let told = |program: &str, arguments: &[&str]| {
        let made = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
        Some([made.stdout, made.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat())
    };
    let words = format!("vicus: {threads} threads take turns on ");
    match told("script", &["-qec", &line, "/dev/null"]) {
        Some(told) => assert!(told.matches(&words).count() == 1 && told.contains("yes"), "{told}"),
        None => eprintln!("`script` is not installed: no terminal"),
    }
    let piped = told("sh", &["-c", &line]).expect("there is a shell");
    assert_eq!(piped.trim(), "yes");
}

#[test]
fn rows_beyond_the_memory_limit_go_to_the_temporary_folder_and_leave_nothing_there() {
    let text: String =
        (0..30_000).map(|n| format!("<http://e/{n}> <http://e/p> \"{}\" .\n", n * 7919 % 30_011)).collect();
    let data = file("temporary.nt", text);
    let folder = std::env::temp_dir().join(format!("vicus-temporary-{}", std::process::id()));
    let folder = folder.to_str().expect("UTF-8");
    let sort = "SELECT * { ?a ?b ?c } ORDER BY ?c";
    let ask = ["query", "--data", &data, "--memory-limit", "600K", "--format", "tsv"];
    let with = |options: &[&'static str]| [&ask[..], options, &[sort]].concat();
    let there = || [&ask[..], &["--temp-folder", folder, sort]].concat();
    fails(&there(), &["--temp-folder", folder, "No such file"]);
    std::fs::create_dir(folder).unwrap();
    let unlimited = ["query", "--data", &data, "--format", "tsv", sort];
    assert!(stdout(&run(&there())) == stdout(&run(&unlimited)));
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
    std::fs::remove_dir(folder).unwrap();
    fails(&with(&["--no-spill"]), &["600.0 KiB", "for sort"]);
    fails(&with(&["--temp-limit", "100K"]), &["temporary file", "102400 bytes"]);
    let refused = run(&with(&["--no-spill", "--temp-limit", "1M"]));
    assert!(refused.status.code() == Some(2) && stderr(&refused).contains("cannot be used with"), "{refused:?}");
}

#[test]
fn a_walk_that_sees_too_much_goes_to_files() {
    let chain: String = (0..5000).map(|n| format!("<http://e/{n}> <http://e/next> <http://e/{}> .\n", n + 1)).collect();
    let chain = file("chain.nt", chain);
    let query = "SELECT (COUNT(*) AS ?n) { <http://e/0> <http://e/next>+ ?b }";
    for limit in ["128K", "64M"] {
        let ask = ["query", "--data", &chain, "--memory-limit", limit, "--format", "csv", query];
        assert_eq!(stdout(&run(&ask)).split_whitespace().collect::<Vec<_>>(), ["n", "5000"], "{limit}");
    }
}

/// What happened: the memory of parsing and planning was not booked; 8 MB of VALUES took 400 MB, whatever the limit.
#[test]
fn a_text_and_its_plan_are_booked() {
    let data = file("text.nt", PEOPLE);
    let values = format!("SELECT * {{ VALUES ?x {{ {} }} }}", "1 ".repeat(50_000));
    let values = file("values.sparql", values);
    let ask = |limit: &'static str, query| {
        run(&["query", "--data", &data, "--memory-limit", limit, "--format", "count", query])
    };
    let asked = ["query", "--data", &data, "--format", "count", "--query", &values, "--memory-limit"];
    fails(
        &[&asked[..], &["8M"]].concat(),
        &["query values: more than 8.0 MiB is needed:", "for its text", "--memory-limit"],
    );
    assert_eq!(stdout(&run(&[&asked[..], &["64M"]].concat())), "values\t50000\n");
    // Equal patterns would be one.
    let numbers: String = (2..=500).map(|number| format!(",{number}")).collect();
    let objects = format!("ASK {{ ?s ?p 1{numbers} }}");
    let text = stderr(&ask("2M", &objects));
    for part in ["more than 2.0 MiB is needed:", "for its plan", "for its text", "--memory-limit"] {
        assert!(text.contains(part), "`{part}` is part of: {text}");
    }
    assert_eq!(stdout(&ask("16M", &objects)), "query\tno\n");
    // The error names the user's limit, not the rest left by text and plan.
    let sort = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l } ORDER BY ?a ?i";
    let data = file("text-sort.nt", generated_text());
    let args = ["query", "--data", &data, "--memory-limit", "1M", "--no-spill", "--format", "count", sort];
    fails(&args, &["more than 1.0 MiB is needed:", "for sort"]);
}

#[test]
fn a_string_that_doubles_ends_with_an_error() {
    let data = file("double.nt", PEOPLE);
    let doubled = |by: &dyn Fn(usize) -> String| {
        let steps: String = (0..40).map(|n| format!("BIND ({} AS ?x{}) ", by(n), n + 1)).collect();
        format!("SELECT (STRLEN(?x40) AS ?n) {{ BIND (\"aa\" AS ?x0) {steps} }}")
    };
    let concat = doubled(&|n| format!("CONCAT(?x{n}, ?x{n})"));
    let replace = doubled(&|n| format!("REPLACE(?x{n}, \"a\", ?x{n})"));
    // Another function makes three bytes of one, and the string made of that is an error, too.
    let longer = concat.replace("(STRLEN(?x40) AS ?n)", "(STRLEN(STR(ENCODE_FOR_URI(?x24))) AS ?n)");
    let longer = longer.replace("\"aa\"", "\"éé\"").replace(&longer[longer.find("BIND (CONCAT(?x24").unwrap()..], "}");
    for query in [&concat, &replace, &longer] {
        fails(&["query", "--data", &data, query], &["a string of more than 64 MiB"]);
    }
}

#[test]
fn long_strings_are_booked_as_they_are_made() {
    let data = file("long.nt", generated_text());
    let steps: String = (0..19).map(|n| format!("BIND (CONCAT(?x{n}, ?x{n}) AS ?x{}) ", n + 1)).collect();
    let long = format!("BIND (\"a\" AS ?x0) {steps} ?s ?p ?o");
    for (query, who) in [
        (format!("SELECT ?y {{ {long} BIND (CONCAT(?x19, ?o) AS ?y) }}"), "extend"),
        (format!("SELECT ?s {{ {long} FILTER (STRDT(CONCAT(?x19, ?o), ?s) != ?o) }}"), "hash join"),
        (format!("SELECT ?o (GROUP_CONCAT(?x19) AS ?y) {{ {long} }} GROUP BY ?o"), "aggregate"),
    ] {
        let args = [
            "query",
            "--data",
            &data,
            "--memory-limit",
            "16M",
            "--no-spill",
            "--threads",
            "1",
            "--format",
            "count",
            &query,
        ];
        fails(&args, &["16.0 MiB is needed:", &format!("MiB for {who}")]);
        // The limit was noticed after a few of thousands of rows.
        let text = stderr(&run(&args));
        let held = text.split("needed: ").nth(1).and_then(|rest| rest.split(" MiB for").next());
        let held: f64 = held.and_then(|held| held.parse().ok()).unwrap_or_else(|| panic!("{text}"));
        assert!(held < 32.0, "{text}");
    }
}

/// What happened: each string that a query computed was kept until its end, so that 2.4 million of them failed at 200
/// MB, though each was wanted for one row.
#[test]
fn computed_strings_need_no_more_memory_than_the_rows_on_their_way() {
    let data =
        file("passing.nt", (0..40).map(|n| format!("<http://e/{n}> <http://e/p> \"{n}\" .\n")).collect::<String>());
    // 16,000 different strings of 4 kB each.
    let pad = "x".repeat(4000);
    let bind = format!(
        "?a ?p ?b . ?c ?p ?d . ?e ?p ?f FILTER (STRLEN(?f) = 1) BIND (CONCAT(?b, ?d, \"-\", ?f, \"{pad}\") AS ?x)"
    );
    let streaming = format!("SELECT ?x {{ {bind} FILTER (CONTAINS(?x, \"9-1x\")) }}");
    let folded = format!("SELECT (SUM(STRLEN(?x)) AS ?n) (MAX(?x) AS ?last) {{ {bind} }}");
    let joined = format!("SELECT ?x {{ {{ {bind} }} ?g ?p ?d }}");
    for strategy in strategies() {
        for (query, rows) in [(&streaming, 160), (&folded, 1), (&joined, 16_000)] {
            let args = ["query", "--data", &data, "--memory-limit", "24M", "--format", "count", "--threads", "2"];
            let output = run(&[&args[..], &["--strategy", strategy, query]].concat());
            assert_eq!(stdout(&output), format!("query\t{rows}\n"), "{strategy}: {}", &query[..40]);
        }
    }
}

/// What happened: patterns that are built for each row held 640 MB beside a limit of 50 MB.
#[test]
fn patterns_are_booked_before_they_are_compiled() {
    let data = file("patterns.nt", PEOPLE);
    let ask = |limit: &'static str, call: &str| {
        let query = format!("SELECT * {{ ?s ?p ?o {call} }}");
        run(&["query", "--data", &data, "--memory-limit", limit, "--threads", "1", "--format", "count", &query])
    };
    let large = "REGEX(STR(?o), CONCAT(\"^[^/]*\\\\w{60}\", ENCODE_FOR_URI(STR(?s))))";
    for call in [format!("FILTER ({large})"), format!("BIND ({large} AS ?found)")] {
        let text = stderr(&ask("4M", &call));
        assert!(text.contains("4.0 MiB") && text.contains("MiB for "), "{text}");
        assert!(stdout(&ask("256M", &call)).starts_with("query\t"), "{}", stderr(&ask("256M", &call)));
    }
    let small = "FILTER (REGEX(STR(?o), CONCAT(\"^.\", STR(?s))))";
    assert_eq!(stdout(&ask("4M", small)), "query\t0\n");
}

#[test]
fn what_a_test_collects_is_bounded() {
    let data = file("exists.nt", generated_text());
    let query = "SELECT * { ?s ?p ?o FILTER EXISTS { SELECT ?s { ?s ?q ?x \
                 OPTIONAL { ?a ?b ?c . ?d ?e ?f FILTER (?c < ?x) } } GROUP BY ?s HAVING (COUNT(?f) > 1) } }";
    fails(
        &["query", "--data", &data, "--memory-limit", "8M", "--no-spill", "--format", "count", query],
        &["8.0 MiB", "MiB for hash build"],
    );
    // No join can answer this one: a filter does, row by row.
    let query = "SELECT * { ?s ?p ?o FILTER (EXISTS { { SELECT DISTINCT * { ?x ?q ?y . ?a ?b ?c \
                 FILTER (STR(?c) != STR(?o)) } } FILTER (?y = 'none') } || ?o = 1) }";
    fails(
        &["query", "--data", &data, "--memory-limit", "8M", "--no-spill", "--format", "count", query],
        &["8.0 MiB", "MiB for filter"],
    );
}

#[test]
fn a_query_that_takes_too_long_is_cancelled() {
    let data = file("time.nt", generated_text());
    let began = std::time::Instant::now();
    for query in [
        "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }",
        "ASK { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i FILTER (STRLEN(STR(?a)) + STRLEN(STR(?f)) + STRLEN(STR(?g)) < 0) }",
    ] {
        fails(
            &["query", "--data", &data, "--timeout", "300ms", "--format", "count", query],
            &["time was up while running", "--timeout"],
        );
    }
    // Few rows are expected of this one, so it begins on the thread that watches the time.
    let next = |node: usize| (node + 1) % 2000;
    let circle: String =
        (0..2000).map(|n| format!("<http://e/n{n}> <http://e/p> <http://e/n{}> .\n", next(n))).collect();
    let circle = file("circle.nt", circle + "<http://e/s> <http://e/q> <http://e/n0> .\n");
    let path = "SELECT (COUNT(*) AS ?n) { <http://e/s> <http://e/q> ?a . ?a <http://e/p>+ ?b . ?b <http://e/p>+ ?c . \
                ?c <http://e/p>+ ?d }";
    fails(&["query", "--data", &circle, "--timeout", "200ms", path], &["time was up while running", "--timeout"]);
    // A long text is read to its end, which is soon, and then the query is late.
    let long = file("late.sparql", format!("SELECT * {{ VALUES ?x {{ {} }} }}", "\"0123456789\" ".repeat(200_000)));
    fails(
        &["query", "--data", &data, "--timeout", "1ms", "--query", &long],
        &["query late", "time was up while parsing", "--timeout"],
    );
    // Loading takes most of it.
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}

#[test]
fn hostile_texts_are_refused_or_answered() {
    let data = file("hostile.nt", PEOPLE);
    let deep = format!("ASK {{ FILTER {}1{} }}", "(".repeat(10_000), ")".repeat(10_000));
    let deep = file("deep.sparql", deep);
    fails(&["query", "--data", &data, "--query", &deep], &["nested more than", "line 1"]);
    let long = file("long.sparql", format!("SELECT * {{ VALUES ?x {{ {} }} }}", "\"0123456789\" ".repeat(800_000)));
    assert_eq!(stdout(&run(&["query", "--data", &data, "--format", "count", "--query", &long])), "long\t800000\n");
    let wrong = file("wrong.sparql", "SELECT * { ?s ?p < ".repeat(60_000));
    fails(&["query", "--data", &data, "--query", &wrong], &["line 1, column 18", "can't stand here"]);
    // 100 triples of text were parsed in milliseconds, and a megabyte of them in more than half a minute.
    let much = file("much.sparql", format!("ASK {{ ?s ?p {} }}", "1.".repeat(500_000)));
    fails(&["query", "--data", &data, "--query", &much], &["line 1, column 16", "`.1` can't stand here"]);
    let limits = ["query", "--data", &data, "--max-query-bytes", "10", "--max-query-depth", "3", "--query"];
    fails(&[&limits[..], &[&deep]].concat(), &["it has more than 10 bytes (--max-query-bytes)"]);
    fails(
        &["query", "--data", &data, "--max-query-depth", "3", "ASK { FILTER ((((1)))) }"],
        &["nested more than 3 levels", "(--max-query-depth)", "column 17"],
    );
    let names = "PREFIX p: <http://e/abc> ASK { VALUES ?x { p:a p:b } }";
    fails(&["query", "--data", &data, "--max-longer", "0", names], &["more than 0 bytes longer", "(--max-longer)"]);
    fails(
        &["query", "--data", &data, "--max-path-signs", "0", "ASK { ?s a|a|a 1, 2, 3 }"],
        &["too many objects", "(--max-path-signs)"],
    );
    let chain = format!("SELECT ?s {{ ?s ?p ?o {} }}", "OPTIONAL { ?s <http://e/age> ?o } ".repeat(990));
    let chain = file("chain.sparql", chain);
    assert_eq!(stdout(&run(&["query", "--data", &data, "--format", "count", "--query", &chain])), "chain\t4\n");
}

/// What happened: planning some texts took time and memory quadratic in their length.
#[test]
fn a_plan_that_takes_too_much_says_so() {
    let data = file("plan.nt", PEOPLE);
    let wide: String = (0..990).map(|n| format!("OPTIONAL {{ ?s <http://e/age> ?v{n} }} ")).collect();
    let wide = file("wide.sparql", format!("SELECT * {{ ?s ?p ?o {wide} }}"));
    let ask = ["query", "--data", &data, "--format", "count", "--query", &wide];
    assert_eq!(stdout(&run(&ask)), "wide\t4\n");
    let says = ["more than 100000 steps", "(--max-plan-steps)"];
    fails(&[&ask[..], &["--max-plan-steps", "100000"]].concat(), &says);
    let says = ["more than 40.0 MiB is needed:", "for its plan", "for its text", "(--memory-limit)"];
    fails(&[&ask[..], &["--memory-limit", "40M"]].concat(), &says);
}

/// What happened: `FILTER (RAND() < 0.5)` keeps other rows each time, which was reported as a fault of the engine.
#[test]
fn a_repeated_query_may_differ_where_it_draws_by_chance() {
    let numbers: String = (0..2000).map(|n| format!("<http://e/{n}> <http://e/p> <http://e/{n}> .\n")).collect();
    let data = file("chance.nt", numbers);
    for text in ["SELECT ?s { ?s ?p ?o FILTER (RAND() < 0.5) }", "SELECT ?s { ?s ?p ?o FILTER (STRUUID() < \"8\") }"] {
        let output = run(&["query", "--data", &data, "--format", "count", "--repeat", "20", "--concurrent", "2", text]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
}

/// What happened: with `ulimit -s 256`, 60 nested calls ended the process with a stack overflow.
#[test]
fn a_deep_query_needs_no_large_stack_of_the_shell() {
    let data = file("stack.nt", PEOPLE);
    let call = format!("ASK {{ FILTER ({}?x{} = 1) BIND (1 AS ?x) }}", "ABS(".repeat(900), ")".repeat(900));
    let call = file("stack-call.sparql", call);
    let nested = |before: &str| format!("ASK {}{{}}{}", before.repeat(480), "}".repeat(480));
    let groups = file("stack-groups.sparql", nested("{ ?s ?p ?o OPTIONAL "));
    let selects = file("stack-selects.sparql", nested("{ SELECT * "));
    for query in [&call, &groups, &selects] {
        for extra in ["", "--timeout 60"] {
            let vicus = env!("CARGO_BIN_EXE_vicus");
            let command = format!("ulimit -s 256; {vicus} query --data {data} {extra} --format count --query {query}");
            let ran = std::process::Command::new("sh").args(["-c", &command]).output().expect("there is a shell");
            let said = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert!(ran.status.success(), "{command}: {:?} {said}", ran.status);
        }
    }
}

/// What happened: a failed allocation of a query, for example under `ulimit -v`, ended the process with
/// `memory allocation of 134217728 bytes failed` and SIGABRT. Memory that grew in small steps ended it with
/// `vicus: 49152 bytes of memory can't be had`, without the box's name.
#[test]
fn memory_that_can_not_be_had_is_an_error_of_the_box_that_asked() {
    let line =
        |n: u64| format!("<http://e/s{n}> <http://e/p> {n} .\n<http://e/s{n}> <http://e/q> <http://e/s{}> .\n", n % 97);
    let data = file("no-memory.ttl", (0..9000).map(line).collect::<String>());
    // All pairs: 81 million rows, beyond the limit.
    let pairs = "?a <http://e/p> ?v . ?b <http://e/q> ?w";
    // There is enough memory for the rows of the built side, but not for their table.
    let some = format!("{{ SELECT ?a ?b {{ {pairs} }} LIMIT 14000000 }}");
    let queries = [
        ("hash build", format!("SELECT * {{ {some} {some} }}")),
        ("distinct", format!("SELECT DISTINCT ?a ?b {{ {pairs} }}")),
        ("sort", format!("SELECT * {{ {pairs} }} ORDER BY ?w ?v")),
        ("aggregate", format!("SELECT ?a ?b (SUM(?v) AS ?sum) {{ {pairs} }} GROUP BY ?a ?b")),
    ];
    let limits = [800_000, 400_000, 600_000, 700_000];
    let all = queries.iter().flat_map(|query| limits.map(|limit| (query, limit)));
    for ((name, query), limit) in all.filter(|((name, _), limit)| *name == "aggregate" || *limit == limits[0]) {
        let limited = format!(
            "ulimit -v {limit}; exec \"$0\" query --threads 2 --memory-limit 100G --format count --data \"$1\" \"$2\""
        );
        let mut command = Command::new("sh");
        let output = command
            .args(["-c", &limited, env!("CARGO_BIN_EXE_vicus"), &data, query])
            .output()
            .expect("there is a shell");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{name}: {:?} {said}", output.status);
        assert!(!said.contains("memory allocation of") && !said.contains("panicked"), "{name}: {said}");
        let error = said.lines().last().unwrap_or_default();
        assert!(error.starts_with("vicus: the query: box ") && error.contains(" failed: "), "{name}: {said}");
        assert!(error.ends_with(" of memory can't be had"), "{name}: {said}");
        eprintln!("{name}: {error}");
    }
    // The limit is enough for a small query.
    let few = format!(
        "ulimit -v 800000; exec \"$0\" query --threads 2 --data \"$1\" --format count 'SELECT * {{ {pairs} }} LIMIT 5'"
    );
    let output =
        Command::new("sh").args(["-c", &few, env!("CARGO_BIN_EXE_vicus"), &data]).output().expect("there is a shell");
    assert_eq!(stdout(&output), "query\t5\n");
}

#[test]
fn a_base_and_unknown_functions_are_the_users_choice() {
    let data = file("base.nt", PEOPLE);
    let text = "SELECT ?s { ?s <age> ?o }";
    fails(&["query", "--data", &data, text], &["<age> is no IRI", "needs a base", "line 1, column 16"]);
    let with_base = run(&["query", "--data", &data, "--base", "http://e/", "--format", "count", text]);
    let written = run(&["query", "--data", &data, "--format", "count", "SELECT ?s { ?s <http://e/age> ?o }"]);
    assert_eq!(stdout(&with_base), stdout(&written));
    let text = "ASK { ?s ?p ?o FILTER (<http://e/f>(?o)) }";
    assert_eq!(stdout(&run(&["query", "--data", &data, "--format", "count", text])), "query\tno\n");
    fails(&["query", "--data", &data, "--strict-functions", text], &["there is no function <http://e/f>", "column 24"]);
}

/// A graph of some thousand triples.
fn generated_text() -> String {
    (0..4000).map(|n| format!("<http://e/{}> <http://e/p{}> \"{}\" .\n", n % 700, n % 7, n)).collect()
}

#[test]
fn queries_come_from_files_and_are_named_after_them() {
    let data = file("named.nt", PEOPLE);
    let (one, two) = (file("one.sparql", NAMES), file("two.rq", "ASK { <http://e/bob> ?p ?o }"));
    for args in [
        &["query", "--data", &data, "--query", &one, &two, "--format", "count"][..],
        &["query", "--query", &one, "--query", &two, "--format", "count", "--data", &data],
    ] {
        assert_eq!(stdout(&run(args)), "one\t3\ntwo\tyes\n");
    }
}

#[test]
fn data_comes_from_several_files_from_gzip_and_from_standard_input() {
    let turtle = file("more.ttl", "@prefix : <http://e/> . :cid :name 'Cid' . _:x :name \"Di\" . <rel> :name 'Rel' .");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(PEOPLE.as_bytes()).unwrap();
    let gzip = file("people.nt.gz", packed.finish().unwrap());
    let count = "SELECT * { ?who <http://e/name> ?name }";
    assert_eq!(stdout(&run(&["query", "--data", &turtle, "--data", &gzip, count, "--format", "count"])), "query\t6\n");
    let mut child = vicus()
        .args(["query", "--data", "-", count, "--format", "count"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(PEOPLE.as_bytes()).unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), "query\t3\n");
}

#[test]
fn the_environment_chooses_the_strategy_and_an_option_goes_first() {
    let data = file("environment.nt", PEOPLE);
    let trace = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("environment.trace");
    let trace = trace.to_str().unwrap();
    let ran = |options: &[&str]| {
        let query = ["query", "--data", &data, NAMES, "--trace", trace];
        stdout(&vicus().args(query).args(options).env("VICUS_STRATEGY", "vicinity:reach=4").output().unwrap());
        stdout(&run(&["trace", "summary", trace])).lines().next().unwrap().to_owned()
    };
    assert_eq!(ran(&[]), "strategy: vicinity:reach=4");
    assert_eq!(ran(&["--strategy", "central"]), "strategy: central");
    let empty = vicus().args(["query", "--data", &data, NAMES]).env("VICUS_STRATEGY", "").output().unwrap();
    assert!(empty.status.success(), "an empty one is none: {}", stderr(&empty));
    let list = vicus().args(["query", "--data", &data, NAMES]).env("VICUS_STRATEGY", "las,nls").output().unwrap();
    assert_eq!(list.status.code(), Some(2));
    assert!(stderr(&list).contains("VICUS_STRATEGY: `las,nls` is a list of 2 strategies"), "{}", stderr(&list));
    for command in [&["query", "--data", &data, NAMES][..], &["bench", "flow"], &["bench", "envelopes"]] {
        let output = vicus().args(command).env("VICUS_STRATEGY", "fastest").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        let text = stderr(&output);
        assert!(text.contains("las, nls, bobox, steal, footprint") && !text.contains("panicked"), "{text}");
    }
}

/// The run is shorter than the time that the trace keeps, so it has all of it; of 20 events, it has the last ones.
#[test]
fn a_trace_of_a_query_keeps_the_last_events_or_those_of_a_time() {
    let data = file("kept.nt", PEOPLE);
    let trace = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("kept.trace");
    let ran = |options: &[&str]| {
        let query = ["query", "--data", &data, NAMES, "--threads", "1", "--trace", trace.to_str().unwrap()];
        let output = vicus().args(query).args(options).output().unwrap();
        assert!(output.status.success(), "{options:?}: {}", stderr(&output));
        let bytes = std::fs::read(&trace).unwrap();
        (vicus_trace::Trace::read_from(&mut &bytes[..]).unwrap(), stderr(&output))
    };
    let (whole, _) = ran(&["--trace-last", "10m"]);
    assert_eq!((whole.header().last_ns, whole.lost()), (600_000_000_000, 0));
    let (rolling, told) = ran(&["--trace-rolling", "--trace-events", "20"]);
    assert!(rolling.header().rolls && rolling.lost() > 0, "{told}");
    assert!(told.contains("the trace has the last events"), "{told}");
    let (first, told) = ran(&["--trace-events", "20"]);
    assert!(!first.header().rolls && told.contains("make room by --trace-events"), "{told}");
    // The machine is in the trace.
    assert_eq!(first.header().machines.len(), 1);
}

#[test]
fn strategies_threads_envelopes_and_copies_change_no_answer() {
    let data = generated();
    let queries = ["q5a", "q11", "q12a"].map(sp2b);
    let answer = |options: &[&str]| {
        let mut args = vec!["query", "--data", &data, "--format", "count"];
        args.extend(options);
        args.push("--query");
        args.extend(queries.iter().map(String::as_str));
        stdout(&run(&args))
    };
    let plain = answer(&["--threads", "1"]);
    assert_eq!(plain.lines().count(), 3);
    let every_size = ["las", "nls", "las:pin=pu"].map(|strategy| (strategy, &["1", "37", "4096"][..]));
    let tight =
        ["footprint:share_bytes=1", "vicinity:private_bytes=1", "locality-queues:capacity=2", "central:capacity=2"];
    let others = strategies().into_iter().skip(2).chain(tight).map(|strategy| (strategy, &["37"][..]));
    for (strategy, sizes) in every_size.into_iter().chain(others) {
        for threads in ["1", "2", "8"] {
            for rows in sizes {
                let options = ["--strategy", strategy, "--threads", threads, "--envelope-rows", rows];
                let several = ["--concurrent", "3", "--repeat", "2"];
                assert_eq!(
                    answer(&[&options[..], &several].concat()),
                    plain,
                    "{strategy}, {threads} threads, {rows} rows"
                );
            }
        }
    }
}

/// The names of all strategies.
fn strategies() -> [&'static str; ALL.len()] {
    ALL.map(|strategy| strategy.name())
}

fn sp2b(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("queries/sp2b").join(format!("{name}.sparql"));
    path.to_str().unwrap().to_owned()
}

/// A few thousand triples, made once.
fn generated() -> String {
    static ONCE: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    ONCE.get_or_init(|| {
        let path = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("generated.nt");
        let path = path.to_str().unwrap().to_owned();
        stdout(&run(&["generate", "sp2b", "--triples", "5000", "--output", &path]));
        path
    })
    .clone()
}

#[test]
fn timings_are_objects_a_line_with_the_promised_keys() {
    let data = file("timings.nt", PEOPLE);
    let args = ["query", "--data", &data, NAMES, "--format", "count", "--timings=json", "--repeat", "2"];
    let output = run(&args);
    let lines: Vec<serde_json::Value> =
        stderr(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    for (line, repeat) in lines.iter().zip(1..=2) {
        assert_eq!((&line["query"], &line["rows"], &line["repeat"]), (&"query".into(), &3.into(), &repeat.into()));
        for key in ["parse_ms", "plan_ms", "run_ms", "tasks", "near_bytes", "far_bytes"] {
            assert!(line[key].is_number(), "{key} in {line}");
        }
        let taken: u64 = line["taken"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
        // A short query runs on the calling thread, and takes nothing from a queue.
        assert!(taken <= line["tasks"].as_u64().unwrap());
    }
    assert_eq!(lines[2]["triples"], 4);
    assert!(lines[2]["load_ms"].is_number() && lines[2]["peak_rss_mib"].as_f64().unwrap() > 0.0);
    let text = stderr(&run(&["query", "--data", &data, NAMES, "--timings"]));
    assert!(text.contains("query #1: parse") && text.contains(" bytes near, "), "{text}");
}

#[test]
fn a_traced_query_obeys_the_box_protocol() {
    let data = generated();
    for strategy in ["las", "nls"] {
        let trace = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(format!("{strategy}.trace"));
        let trace = trace.to_str().unwrap();
        let queries = ["q2", "q4", "q6", "q8", "q9", "q12b"].map(sp2b);
        let mut args = vec!["query", "--data", &data, "--format", "count", "--threads", "4", "--concurrent", "2"];
        args.extend(["--strategy", strategy, "--trace", trace, "--timings=json", "--query"]);
        args.extend(queries.iter().map(String::as_str));
        let output = run(&args);
        stdout(&output);
        let reports = String::from_utf8(output.stderr).unwrap();
        let reported = |far: bool| -> u64 {
            let key = if far { "far_bytes" } else { "near_bytes" };
            let reports = reports.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
            reports.filter_map(|report| report[key].as_u64()).sum()
        };
        stdout(&run(&["trace", "check", trace]));
        let read = stdout(&run(&["trace", "events", trace, "--kind", "bytes-read", "--format", "json"]));
        let read: Vec<serde_json::Value> = read.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let loading = read.iter().map(|event| event["who"]["request"].as_u64().unwrap()).min().unwrap();
        for far in [false, true] {
            let of_queries = |event: &&serde_json::Value| event["who"]["request"] != loading && event["far"] == far;
            let traced: u64 = read.iter().filter(of_queries).map(|event| event["bytes"].as_u64().unwrap()).sum();
            assert_eq!(traced, reported(far), "{strategy}, far {far}");
        }
        assert!(reported(false) > 0, "{reports}");
        let reports = reports.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        for report in reports.filter(|report| report["taken"].is_object()) {
            let taken: u64 = report["taken"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
            assert!(taken > 0 && taken <= report["tasks"].as_u64().unwrap(), "{report}");
        }
        let summary = stdout(&run(&["trace", "summary", trace]));
        assert!(summary.contains("termination") && summary.contains("initialization"), "{summary}");
    }
}

#[test]
fn explain_shows_the_plan_without_running_it() {
    let data = file("explain.nt", PEOPLE);
    let plan = stdout(&run(&["query", "--data", &data, NAMES, "--explain"]));
    assert!(plan.starts_with("sort [?who ?name] ~3 rows, box "), "{plan}");
    let scan = plan.lines().find(|line| line.split_whitespace().nth(1) == Some("scan")).expect("the scan is a box");
    assert!(scan.ends_with("<- initialization.0 (8 envelopes, 4 MiB)"), "{plan}");
    assert!(!plan.contains("actual") && !plan.contains("Ann"), "{plan}");
}

#[test]
fn explain_with_timings_shows_what_a_run_did_and_writes_no_results() {
    let data = file("explain-timings.nt", PEOPLE);
    let args = ["query", "--data", &data, NAMES, "--explain", "--timings=json", "--repeat", "2", "--concurrent", "2"];
    let output = run(&args);
    let plan = stdout(&output);
    assert!(plan.starts_with("sort [?who ?name] ~3 rows, 3 actual, "), "{plan}");
    assert_eq!(plan.matches("sort [").count(), 1, "the first run of two and the first copy of two: {plan}");
    assert!(!plan.contains("Ann"), "{plan}");
    // Numbers of a box's line: index, name, invocations, rows in and out, bytes near and far.
    let number = |line: &str, at: usize| line.split_whitespace().nth(at).unwrap().parse::<u64>().unwrap();
    let lines: Vec<&str> = plan.lines().skip_while(|line| !line.contains("invocations")).skip(1).collect();
    let sink = lines.iter().find(|line| line.contains(" solutions ")).expect("it is a box");
    assert_eq!((number(sink, 3), number(sink, 5) + number(sink, 6)), (3, 3 * 2 * 8), "two columns of ids: {plan}");
    let timing: serde_json::Value = serde_json::from_str(stderr(&output).lines().next().unwrap()).unwrap();
    assert_eq!(timing["rows"], 3);
    let bytes = timing["near_bytes"].as_u64().unwrap() + timing["far_bytes"].as_u64().unwrap();
    assert_eq!(bytes, 2 * bytes_of(&lines), "two copies took as much each");
}

/// The bytes taken by all boxes of a plan. The name may have a blank, so fields are counted from the arrow.
fn bytes_of(lines: &[&str]) -> u64 {
    let numbers = |line: &&str| -> Vec<u64> {
        let cells = line.split(" <- ").next().unwrap().split_whitespace().rev().take(2);
        cells.map(|cell| cell.parse().unwrap()).collect()
    };
    lines.iter().flat_map(numbers).sum()
}

#[test]
fn a_malformed_line_is_named_and_can_be_left_out() {
    let data = file("bad.nt", "<http://e/a> <http://e/b> <http://e/c> .\n<http://e/a> <http://e/b> .\nnonsense\n");
    fails(&["query", "--data", &data, NAMES], &["bad.nt:2:27: The object of a triple must be"]);
    let output = run(&["query", "--data", &data, "SELECT * {?s ?p ?o}", "--format", "count", "--skip-malformed"]);
    assert_eq!(stdout(&output), "query\t1\n");
    assert!(stderr(&output).contains("2 malformed lines"), "{}", stderr(&output));
    let data = file("bad.ttl", "@prefix : <http://e/> .\n:a :b :c .\n:a :b ; ] .\n");
    fails(&["query", "--data", &data, NAMES], &["bad.ttl:3:"]);
}

#[test]
fn a_query_that_does_not_parse_gets_a_caret() {
    let data = file("caret.nt", PEOPLE);
    fails(&["query", "--data", &data, "SELECT ?x {\n  ?x ?y }"], &["line 2", "  ?x ?y }\n", "^"]);
    let wrong = file("wrong.sparql", "SELEKT * { ?s ?p ?o }");
    fails(&["query", "--data", &data, "--query", &wrong], &["query wrong", "line 1", "SELEKT", "^"]);
    fails(&["query", "--data", &data, "SELECT * { SERVICE <http://e/> { ?s ?p ?o } }"], &["SERVICE"]);
    fails(&["query", "--data", &data, "DESCRIBE <http://e/ann> FROM ?g"], &["line 1", "FROM", "^"]);
}

#[test]
fn a_file_that_can_not_be_opened_or_written_is_named() {
    let data = file("opened.nt", PEOPLE);
    fails(&["query", "--data", "/no/such/file.nt", NAMES], &["/no/such/file.nt", "No such file"]);
    fails(&["query", "--data", &data, "--query", "/no/such.sparql"], &["/no/such.sparql"]);
    fails(&["query", "--data", "data.csv", NAMES], &["data.csv", "expected .nt, .nq, .ttl"]);
    fails(
        &["query", "--data", &data, NAMES, "--trace", "/no/such/folder/t"],
        &["/no/such/folder/t", "can't be written"],
    );
    fails(&["query", "--data", &data, NAMES, "--threads", "0"], &["at least one thread"]);
    fails(&["query", "--data", &data], &["there is no query"]);
    // `--data` took every word behind it for a file, the query too.
    fails(&["query", "--data", &data, &data, NAMES], &["there are 2 words", &data, "--data of its own"]);
    fails(&["query", NAMES, &data, "--data", &data], &["there are 2 words", &data, "--data of its own"]);
    // clap's own refusals end with its status 2.
    for args in [
        &["query", "--data", &data, NAMES, "--strategy", "fastest"][..],
        &["query", "--data", &data, NAMES, "--no-such-option"],
        &["query", "--data", &data, NAMES, "--envelope-rows", "0"],
        &["query", "--data", &data, NAMES, "--format", "yaml"],
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2));
        assert!(!stderr(&output).contains("panicked"));
    }
}

#[test]
fn a_truncated_gzip_an_empty_file_and_ten_megabytes_without_a_newline_are_answered() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(PEOPLE.repeat(1000).as_bytes()).unwrap();
    let whole = packed.finish().unwrap();
    let truncated = file("truncated.nt.gz", &whole[..whole.len() / 2]);
    fails(&["query", "--data", &truncated, NAMES], &["truncated.nt.gz"]);
    let not_gzip = file("not.nt.gz", "plainly not gzip");
    fails(&["query", "--data", &not_gzip, NAMES], &["not.nt.gz"]);
    let long = file("long.nt", vec![b'a'; 10_000_000]);
    fails(&["query", "--data", &long, NAMES], &["long.nt:1:"]);
    let empty = file("empty.nt", "");
    let answer = |query: &str| stdout(&run(&["query", "--data", &empty, query, "--format", "count"]));
    assert_eq!(answer(NAMES), "query\t0\n");
    assert_eq!(answer("ASK {}"), "query\tyes\n");
    assert_eq!(answer("ASK { ?s ?p ?o }"), "query\tno\n");
    assert_eq!(answer("SELECT * { ?s ?p ?o OPTIONAL { ?o ?q ?r } FILTER (?o > 3) } ORDER BY ?o LIMIT 5"), "query\t0\n");
}

#[test]
fn a_reader_that_closes_the_pipe_ends_the_query_quietly() {
    let data = generated();
    for format in ["tsv", "json", "table"] {
        let mut child = vicus()
            .args(["query", "--data", &data, "SELECT * { ?a ?b ?c . ?d ?b ?e }", "--format", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // JSON has no line that ends before its last row.
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut [0; 50]).unwrap();
        drop(out);
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success() && said.is_empty(), "{format}: {status} {said}");
    }
}

#[test]
fn ctrl_c_ends_at_once_and_cleanly() {
    let data = generated();
    // While it waits for its data, and while it answers an endless query.
    let endless = "SELECT (1 AS ?x) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l } ORDER BY ?a ?d ?g ?j";
    for (data, query) in [("-", NAMES), (&*data, endless)] {
        let mut child = vicus()
            .args(["query", "--data", data, query, "--format", "count"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let id = child.id().to_string();
        // It catches this signal (2, so bit 1) by now, as its status shows, and has begun its work a moment later.
        let catches = |line: &str| {
            let mask = line.strip_prefix("SigCgt:").map(|mask| u64::from_str_radix(mask.trim(), 16).unwrap());
            mask.is_some_and(|mask| mask & 2 != 0)
        };
        while !std::fs::read_to_string(format!("/proc/{id}/status")).unwrap().lines().any(catches) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(130), "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

/// The shared data folder beside the repository, if it is there.
fn shared(inside: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(inside);
    if path.exists() {
        return Some(path);
    }
    eprintln!("SKIPPED: {} is not there", path.display());
    None
}

#[test]
fn the_17_queries_have_the_published_counts() {
    let Some(folder) = shared("sp2b") else { return };
    let table = std::fs::read_to_string(folder.join("counts.tsv")).unwrap();
    let mut lines = table.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = lines.next().unwrap().split('\t').skip(1).collect();
    for line in lines {
        let mut cells = line.split('\t');
        let name = cells.next().unwrap();
        let expected: String = names.iter().zip(cells).map(|(name, count)| format!("{name}\t{count}\n")).collect();
        let data = folder.join("data").join(name);
        // The large ones once; `vicus bench counts` runs all of them under all strategies.
        let all = strategies();
        let (strategies, threads): (&[&str], &[&str]) = match name {
            "sp2b-1000000.nt.gz" => (&[], &[]),
            "sp2b-250000.nt.gz" => (&["las"], &["2"]),
            "sp2b-10000.nt.gz" => (&all, &["1", "2", "8"]),
            _ => (&["las", "nls"], &["1", "2", "8"]),
        };
        let settings = strategies.iter().flat_map(|strategy| threads.iter().map(move |threads| (strategy, threads)));
        for (strategy, threads) in settings {
            let mut args = vec!["query", "--data", data.to_str().unwrap(), "--format", "count"];
            args.extend(["--strategy", strategy, "--threads", threads, "--query"]);
            let queries: Vec<String> = names.iter().map(|name| sp2b(name)).collect();
            args.extend(queries.iter().map(String::as_str));
            assert_eq!(stdout(&run(&args)), expected, "{name} under {strategy} with {threads} threads");
        }
    }
}
