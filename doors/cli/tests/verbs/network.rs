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
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("network").join(name);
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
    // A peer that is not there is told when the network runs.
    let error = fails(&folder, &["run", "-"], "box a = lines(from: \"unix:gone\"); box s = sink; a -> s;");
    assert!(error.contains("box lines failed"), "{error}");
    let parse = |parameters: &str| {
        let text = format!("box a = lines(from: \"-\"); box p = parse({parameters}); box s = sink; a -> p -> s;");
        fails(&folder, &["run", "-"], &text)
    };
    for (parameters, told) in [
        ("columns: (at: Date)", "take Bool, I64, F64 or Text"),
        ("columns: (n: I64), format: \"xml\"", "write json or csv"),
        ("columns: (n: I64), format: \"csv\", delimiter: \"::\"", "a delimiter has one byte"),
        ("columns: (n: I64), wrong: \"maybe\"", "write fail or drop"),
        ("columns: (n: I64), column: \"row\"", "there is no column `row` of texts"),
    ] {
        let error = parse(parameters);
        assert!(error.contains(told) && error.contains('^'), "{parameters}: {error}");
    }
}
