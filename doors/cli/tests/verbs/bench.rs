//! `vicus bench` at tiny sizes: its output and its files, not the times.

use std::process::{Command, Output, Stdio};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vicus")).arg("bench").args(args).stdin(Stdio::null()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A path of its own for each test.
fn path(name: &str) -> String {
    vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(name).to_str().unwrap().to_owned()
}

fn generated(name: &str, triples: usize) -> String {
    let path = path(name);
    let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
    let args = ["generate", "sp2b", "--triples", &triples.to_string(), "--output", &path];
    assert!(command.args(args).output().unwrap().status.success());
    path
}

fn json(path: &str) -> Vec<serde_json::Value> {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The line with this first word, as words.
fn line<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    words
        .into_iter()
        .find(|words| words.first() == Some(&word))
        .unwrap_or_else(|| panic!("{word} begins a line of {text}"))
}

fn number(word: &str) -> f64 {
    word.parse().unwrap_or_else(|_| panic!("{word} is a number"))
}

#[test]
fn the_allocators_take_turns_in_processes_of_their_own() {
    let (data, results) = (generated("allocator.nt", 2000), path("allocator.json"));
    let args = ["--data", &data, "--copies", "2", "--queries", "q2,q9", "--rounds", "2", "--repeats", "1"];
    let steal = stdout(&bench(&[&["allocator", "--strategy", "steal"], &args[..]].concat()));
    assert!(steal.starts_with("2 copies at once under steal, "), "{steal}");
    let text = stdout(&bench(&[&["allocator", "--json", &results], &args[..]].concat()));
    for name in ["load", "q2", "q9"] {
        let words = line(&text, name);
        assert!(number(words[1]) > 0.0 && number(words[2]) > 0.0, "{text}");
    }
    let names: Vec<_> = json(&results).iter().map(|result| result["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["load", "q2", "q9"]);
    // The paper's way, §5.1 and §5.2, beside ours; then unknown and impossible variants.
    let paper = "bins,touch-ahead,superblock=4194304,series=8192:1.07:524288";
    let text = stdout(&bench(&[&["allocator", "--against", paper], &args[..]].concat()));
    assert!(text.contains(&format!("vicus ms {paper} ms")) && line(&text, "q9").len() > 2, "{text}");
    for (wrong, says) in [("heaps", "`heaps`: expected system"), ("superblock=5", "a superblock of 5 bytes")] {
        let output = bench(&[&["allocator", "--against", wrong], &args[..]].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(says), "{error}");
    }
    let output = bench(&[&["allocator"], &args[..5], &["q99"]].concat());
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("no query q99"));
}

#[test]
fn growth_has_a_time_for_each_size_and_an_exponent() {
    let results = path("growth.json");
    let scratch = path("growth-temporary");
    std::fs::create_dir_all(&scratch).unwrap();
    let args = ["growth", "--sizes", "4000,1000", "--queries", "q1,q4", "--repeats", "1", "--threads", "2"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
    let command = command.arg("bench").args(args).args(["--json", &results]).env("TMPDIR", &scratch);
    let text = stdout(&command.output().unwrap());
    // The sizes ascend, in any order given; a file ends with the document that reaches its size.
    let sizes: Vec<usize> = line(&text, "ms")[2..4].iter().map(|size| size.parse().unwrap()).collect();
    assert!((1000..1100).contains(&sizes[0]) && (4000..4100).contains(&sizes[1]), "{sizes:?}");
    assert!(text.contains("1 and 2 threads"), "{text}");
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0, "what was generated is gone");

    let results = json(&results);
    let ours = |name: &str| {
        let named = results.iter().find(|result| result["name"] == name);
        named.unwrap_or_else(|| panic!("{name} in {results:?}"))["ours"].as_f64().unwrap()
    };
    for query in ["q1", "q4"] {
        let [small, large] = [0, 1].map(|place| ours(&format!("{query} at {}", sizes[place])));
        // Through two points there is one line.
        let expected = (large / small).ln() / (sizes[1] as f64 / sizes[0] as f64).ln();
        let exponent = ours(&format!("{query}, exponent"));
        assert!((exponent - expected).abs() < 1e-9, "{exponent} and {expected}");
        let line = line(&text, query);
        assert_eq!([line[1], line[2], line[3]], [small, large, exponent].map(|number| format!("{number:.2}")));
    }
    assert!(ours(&format!("q4 at {}, 2 threads", sizes[1])) > 0.0);
}

#[test]
fn the_parts_of_the_memory_add_up() {
    let data = generated("growth-memory.nt", 3000);
    let text = stdout(&bench(&["growth", "--data", &data, "--queries", "q1", "--repeats", "1", "--threads", "1"]));
    let of = |line: Vec<&str>| number(line.last().unwrap());
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let parts: Vec<Vec<&str>> =
        lines.filter(|line| matches!(line.first(), Some(&("index" | "dictionary," | "statistics")))).collect();
    // Four indexes by graph and four of named graphs, a dictionary of two parts, the statistics.
    assert_eq!(parts.len(), 11, "{text}");
    let sum: f64 = parts.into_iter().map(of).sum();
    let held = of(line(&text, "held"));
    assert!((sum - held).abs() < 0.05, "{sum} and {held}");
    // The texts of the terms alone take more than 20; four indexes of two ids of 8 bytes would take 64.
    assert!((20.0..64.0).contains(&held), "{held}");
    // One size has no growth.
    assert_eq!(line(&text, "q1")[2..], ["-", "-"]);
}

#[test]
fn envelopes_have_the_rows_of_the_reports_tables() {
    let data = generated("envelopes.nt", 3000);
    let results = path("envelopes.json");
    let text = stdout(&bench(&["envelopes", "--data", &data, "--repeats", "2", "--threads", "2", "--json", &results]));
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    // Size, milliseconds and deviation as the report prints them (2011/1, Tables 1 and 2).
    let report = [
        ["1K", "1101", "164.3"],
        ["2K", "536", "21.7"],
        ["4K", "562", "12.1"],
        ["8K", "606", "6.0"],
        ["16K", "714", "16.8"],
        ["1K", "2284", "80.7"],
        ["2K", "1892", "62.1"],
        ["4K", "1794", "59.7"],
        ["8K", "2152", "141.2"],
        ["16K", "3943", "160.4"],
    ];
    let rows: Vec<&Vec<&str>> = lines.iter().filter(|line| line.len() == 7 && line[0].ends_with('K')).collect();
    let shown: Vec<[&str; 3]> = rows.iter().map(|row| [row[0], row[4], row[5]]).collect();
    assert_eq!(shown, report);
    // In each table, ours and the report's, one size is the best.
    for column in [3, 6] {
        for table in rows.chunks(5) {
            assert!(table.iter().any(|row| row[column] == "1.00"), "{text}");
        }
    }
    // Half of each cache of this machine.
    let halves = lines.iter().filter(|line| line.len() == 6 && ["L1", "L2", "L3", "L4"].contains(&line[0])).count();
    let results = json(&results);
    assert_eq!(results.len(), 10 + halves);
    let is_last = |result: &&serde_json::Value| result["name"] == "q5a, envelopes of 16384 rows";
    assert_eq!(results.iter().find(is_last).unwrap()["theirs"], 3943.0);
    assert!(results.iter().all(|result| result["ours"].as_f64().unwrap() > 0.0));
}

/// What happened: a closed pipe made it panic, and so did a full disk.
#[test]
fn a_closed_pipe_ends_it_quietly_and_a_full_disk_is_an_error() {
    let args = ["bench", "kernels", "--kernel", "fib", "--size", "0.0001", "--threads", "1", "--repeats", "1"];
    let to = |out: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
        let output = command.args(args).stdin(Stdio::null()).stdout(out).stderr(Stdio::piped()).spawn().unwrap();
        let output = output.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(to(writer.into()), (Some(0), String::new()));
    let (status, error) = to(std::fs::File::options().write(true).open("/dev/full").unwrap().into());
    assert_eq!(status, Some(1), "{error}");
    assert!(error.starts_with("vicus: standard output: ") && error.lines().count() == 1, "{error}");
}

#[test]
fn an_unknown_query_is_named() {
    let data = generated("growth-unknown.nt", 1000);
    let output = bench(&["growth", "--data", &data, "--queries", "q13"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no query q13"));
}
