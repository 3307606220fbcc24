//! `vicus trace` from outside: its output for given files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use vicus_trace::{BoxInfo, EventLog, Header, JobId, ModelInfo, RequestOutcome, TaskKind, Trace, What};

const SCAN: JobId = JobId { request: 7, index: 0 };
const JOIN: JobId = JobId { request: 7, index: 1 };

/// Seat 0 runs a scan that sends ten rows; seat 1 takes the join.
fn recorded() -> Trace {
    let (mut first, mut second) = (EventLog::new(100), EventLog::new(100));
    first.record(1_000, What::RequestSubmitted { request: 7 });
    first.record(2_000, What::Enqueued { who: SCAN, kind: TaskKind::Deferred, by: JobId::NONE });
    first.record(3_000, What::Taken { who: SCAN, rule: 3, far: false });
    first.record(3_100, What::InvocationBegins { who: SCAN });
    first.record(3_200, What::UserCodeBegins { who: SCAN });
    first.record(2_503_200, What::UserCodeEnds { who: SCAN });
    first.record(2_503_300, What::EnvelopeSent { who: SCAN, output: 0, rows: 10, pill: false });
    let sent = first.record(2_503_400, What::Enqueued { who: JOIN, kind: TaskKind::Immediate, by: SCAN.index });
    first.record(2_503_500, What::InvocationEnds { who: SCAN });
    second.observe(sent);
    second.record(2_504_000, What::Taken { who: JOIN, rule: 5, far: true });
    second.record(2_505_000, What::RequestEnded { request: 7, outcome: RequestOutcome::Done });
    let named =
        |name: &str, type_name: &str| BoxInfo { name: name.into(), type_name: type_name.into(), ..BoxInfo::default() };
    let boxes = vec![named("scan1", "Scan"), named("join1", "HashJoin")];
    let models = vec![ModelInfo { name: "q1".into(), requests: vec![7], boxes }];
    let header = Header { strategy: "las".into(), models, ..Header::for_seats(2) };
    Trace::new(header, vec![first.finish(), second.finish()])
}

/// A file of this name with these bytes, in Cargo's folder for this test.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn trace_file(name: &str, trace: &Trace) -> PathBuf {
    let mut bytes = Vec::new();
    trace.write_to(&mut bytes).unwrap();
    file(name, &bytes)
}

fn vicus(args: &[&str], path: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vicus")).arg("trace").args(args).arg(path).output().unwrap()
}

fn text(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap()
}

#[test]
fn summary_tells_where_the_time_went() {
    let path = trace_file("summary.trace", &recorded());
    let output = vicus(&["summary"], &path);
    let text = text(&output);
    assert!(text.starts_with("strategy: las\n2.504 ms, 1 request, 2 seats, 11 events\n"), "{text}");
    let scan: Vec<&str> = text.lines().find(|line| line.starts_with("Scan")).unwrap().split_whitespace().collect();
    assert_eq!(scan, ["Scan", "1", "1", "0", "0.001", "2.500", "0.000", "0", "0", "1", "10", "0", "0", "0"]);
}

#[test]
fn summary_is_also_json() {
    let path = trace_file("summary-json.trace", &recorded());
    let output = vicus(&["summary", "--format", "json"], &path);
    let json: serde_json::Value = serde_json::from_str(text(&output)).unwrap();
    assert_eq!(json["seats"][1]["takes"][0], serde_json::json!({ "rule": 5, "near": 0, "far": 1 }));
}

#[test]
fn events_are_listed_causes_before_effects() {
    let path = trace_file("events.trace", &recorded());
    let output = vicus(&["events"], &path);
    let lines: Vec<&str> = text(&output).lines().collect();
    assert_eq!(lines.len(), 1 + 11);
    let last_take = lines.iter().rposition(|line| line.contains("taken")).unwrap();
    let words: Vec<&str> = lines[last_take].split_whitespace().collect();
    assert_eq!(words, ["2504.000", "9", "1", "taken", "7", "join1", "rule", "5,", "far"]);
    assert!(lines[..last_take].iter().any(|line| line.contains("join1") && line.contains("immediate, by box 0")));
}

#[test]
fn events_are_filtered_by_box_kind_and_seat() {
    let path = trace_file("filter.trace", &recorded());
    let count = |args: &[&str]| {
        let mut all = vec!["events"];
        all.extend(args);
        text(&vicus(&all, &path)).lines().count() - 1
    };
    assert_eq!(count(&["--box", "join1"]), 2);
    assert_eq!(count(&["--box", "HashJoin", "--box", "scan1"]), 9);
    assert_eq!(count(&["--kind", "taken"]), 2);
    assert_eq!(count(&["--kind", "taken", "--kind", "enqueued", "--seat", "0"]), 3);
    assert_eq!(count(&["--limit", "4"]), 4);
    assert_eq!(count(&["--seat", "9"]), 0);
}

#[test]
fn events_are_also_json_lines() {
    let path = trace_file("events-json.trace", &recorded());
    let output = vicus(&["events", "--format", "json", "--kind", "envelope-sent"], &path);
    let json: serde_json::Value = serde_json::from_str(text(&output)).unwrap();
    let expected = serde_json::json!({
        "time_ns": 2_503_300, "order": 7, "seat": 0, "kind": "envelope-sent", "box_name": "scan1",
        "who": { "request": 7, "box": 0 }, "output": 0, "rows": 10, "pill": false,
    });
    assert_eq!(json, expected);
}

#[test]
fn check_fails_on_what_can_not_have_happened() {
    let path = trace_file("sound.trace", &recorded());
    assert_eq!(text(&vicus(&["check"], &path)), "looked at all 11 events\n");
    let mut logs = recorded().logs().to_vec();
    logs[0].events.remove(1);
    let path = trace_file("unsound.trace", &Trace::new(recorded().header().clone(), logs));
    let output = vicus(&["check"], &path);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("taken of request 7 box 0: the box waits in no queue"), "{text}");
}

#[test]
fn a_bad_file_is_told_with_its_name_and_exit_code_1() {
    let complains = |path: &Path, expected: &str| {
        let output = vicus(&["summary"], path);
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text, format!("vicus: {}: {expected}\n", path.display()));
    };
    complains(&file("other.txt", b"hello, world"), "not a trace: it doesn't begin with VICUSTRC");
    complains(&file("short.trace", b"VICUSTRC\x01\0"), "a truncated trace: it ends at byte 10");
    complains(Path::new("/no/such/file"), "No such file or directory (os error 2)");
}

#[test]
fn an_unknown_kind_is_told_with_the_known_ones() {
    let output = vicus(&["events", "--kind", "naps"], Path::new("any"));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains("`naps`") && text.contains("sleep-begins"), "{text}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut log = EventLog::new(100_000);
    (0..100_000).for_each(|time_ns| {
        log.record(time_ns, What::Woke { pool: 0 });
    });
    let path = trace_file("long.trace", &Trace::new(Header::for_seats(1), vec![log.finish()]));
    let mut child = Command::new(env!("CARGO_BIN_EXE_vicus"))
        .args(["trace", "events"])
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The listing is far larger than a pipe holds, so the command is still writing when its reader leaves.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
