//! `vicus trace view` from outside: the page and the forms for other programs, of given files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use vicus_trace::{BoxInfo, EventLog, Header, JobId, ModelInfo, TaskKind, Trace, What};

/// A seat queues a scan, and another one runs it for 2.5 ms.
fn recorded() -> Trace {
    let who = JobId { request: 7, index: 0 };
    let (mut first, mut second) = (EventLog::new(100), EventLog::new(100));
    first.record(1_000, What::RequestSubmitted { request: 7 });
    let queued = first.record(2_000, What::Enqueued { who, kind: TaskKind::Deferred, by: JobId::NONE });
    second.observe(queued);
    second.record(3_000, What::Taken { who, rule: 3, far: false });
    second.record(3_100, What::InvocationBegins { who });
    second.record(3_200, What::UserCodeBegins { who });
    second.record(2_503_200, What::UserCodeEnds { who });
    second.record(2_503_300, What::InvocationEnds { who });
    let scan = BoxInfo { name: "scan <1>".into(), type_name: "Scan".into(), ..BoxInfo::default() };
    let models = vec![ModelInfo { name: "q1".into(), requests: vec![7], boxes: vec![scan] }];
    let header = Header { strategy: "las".into(), models, ..Header::for_seats(2) };
    Trace::new(header, vec![first.finish(), second.finish()])
}

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(format!("view-{name}"));
    _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let mut bytes = Vec::new();
    recorded().write_to(&mut bytes).unwrap();
    std::fs::write(folder.join("run.trace"), bytes).unwrap();
    folder
}

fn view(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vicus")).args(["trace", "view"]).args(args).current_dir(folder).output().unwrap()
}

fn done(folder: &Path, args: &[&str]) {
    let output = view(folder, args);
    assert!(output.status.success(), "{output:?}");
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b""[..], &b""[..]));
}

fn refused(folder: &Path, args: &[&str]) -> String {
    let output = view(folder, args);
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_page_has_the_figures_as_tables() {
    let folder = folder("page");
    done(&folder, &["run.trace", "-o", "run.html"]);
    let page = std::fs::read_to_string(folder.join("run.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>"), "a page of HTML");
    let tables = page.split_once("id=\"r0-boxes\"").unwrap().1;
    let row = tables.split_once("<th scope=\"row\">Scan</th>").unwrap().1;
    let cells: Vec<&str> = row.split("</td>").take(5).map(|cell| cell.rsplit('>').next().unwrap()).collect();
    // Boxes, invocations, spawned, queued ms, busy ms.
    assert_eq!(cells, ["1", "1", "0", "0.001", "2.500"]);
    assert!(page.contains("every event is allowed where it stands"));
    let bytes = std::fs::read(folder.join("run.html")).unwrap();
    assert_eq!(vicus_view::read(&mut &bytes[..]).unwrap()[0].trace, recorded());
    // The page in place of the trace gives the page.
    done(&folder, &["run.html", "-o", "again.html"]);
    assert_eq!(std::fs::read(folder.join("again.html")).unwrap(), bytes);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_run_is_written_for_other_programs() {
    let folder = folder("exports");
    done(&folder, &["run.trace", "--chrome-json", "run.json", "--perfetto", "run.pf", "--arrow", "run.arrow"]);
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&read("run.json")).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let scan = events.iter().find(|event| event["name"] == "scan <1>").unwrap();
    assert_eq!(
        (&scan["ph"], &scan["tid"], &scan["ts"], &scan["dur"]),
        (&"X".into(), &1.into(), &2.2.into(), &2500.0.into())
    );
    // The job that the second seat took has an arrow from the first one.
    let flow = |phase: &str| events.iter().find(|event| event["ph"] == phase).map(|event| event["tid"].clone());
    assert_eq!((flow("s"), flow("f")), (Some(0.into()), Some(1.into())));
    let reader = arrow_ipc::reader::FileReader::try_new(std::io::Cursor::new(read("run.arrow")), None).unwrap();
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 7);
    assert!(read("run.pf").windows(8).any(|bytes| bytes == b"scan <1>"));
    done(&folder, &["run.trace", "--svg", "run.svg", "--range", "1..2.5"]);
    let svg = String::from_utf8(read("run.svg")).unwrap();
    let mut reader = quick_xml::Reader::from_str(&svg);
    while !matches!(reader.read_event().unwrap(), quick_xml::events::Event::Eof) {}
    assert!(svg.contains("seat 1, PU 0") && svg.contains(">Scan</text>"), "{svg}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn two_runs_are_compared_by_box() {
    let folder = folder("two");
    done(&folder, &["run.trace", "run.trace", "-o", "two.html"]);
    let page = std::fs::read_to_string(folder.join("two.html")).unwrap();
    let table = page.split_once("id=\"differences-boxes\"").unwrap().1.split_once("</table>").unwrap().0;
    assert!(table.contains("<td class=\"n\">+0.000</td>") && table.contains("work inflation"), "{table}");
    let error = refused(&folder, &["two.html", "run.trace", "-o", "three.html"]);
    assert!(error.contains("two runs at most, and these are 3"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_is_wrong_is_said() {
    let folder = folder("wrong");
    std::fs::write(folder.join("other.txt"), "<html>").unwrap();
    let error = refused(&folder, &["other.txt", "-o", "x.html"]);
    assert!(error.contains("other.txt: neither a trace nor a page of `vicus trace view`"), "{error}");
    assert!(refused(&folder, &["run.trace"]).contains("--output"));
    for range in ["5", "3..1", "x..y", "-1..2"] {
        let error = refused(&folder, &["run.trace", "--svg", "x.svg", &format!("--range={range}")]);
        assert!(error.contains("no range such as"), "{range}: {error}");
    }
    let error = refused(&folder, &["run.trace", "run.trace", "--svg", "x.svg"]);
    assert!(error.contains("name one"), "{error}");
    // An end that is missing is no reason to show nothing.
    let bytes = std::fs::read(folder.join("run.trace")).unwrap();
    std::fs::write(folder.join("cut.trace"), &bytes[..bytes.len() - 50]).unwrap();
    done(&folder, &["cut.trace", "-o", "cut.html"]);
    let page = std::fs::read_to_string(folder.join("cut.html")).unwrap();
    assert!(page.contains("a truncated trace: it ends at byte"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn costs_of_a_machine_file_are_named() {
    let folder = folder("costs");
    let calibrated = Command::new(env!("CARGO_BIN_EXE_vicus")).args(["calibrate", "--quick"]).output().unwrap();
    std::fs::write(folder.join("here.toml"), calibrated.stdout).unwrap();
    done(&folder, &["run.trace", "-o", "run.html", "--costs", "here.toml"]);
    let page = std::fs::read_to_string(folder.join("run.html")).unwrap();
    assert!(page.contains("near and far, from here.toml"), "the page says where its costs are from");
    std::fs::remove_dir_all(folder).unwrap();
}

/// The file of nehalem-ep has 12e9 bytes a second for a core, 65 ns to its own memory and 106 ns to the other socket's;
/// they were once shown as billions of gigabytes, and no time as waiting for memory.
const OF_NEHALEM: &str = "12.0 and 7.4 GB/s a core, near and far, from";

#[test]
fn costs_are_in_bytes_a_nanosecond() {
    let folder = folder("unit");
    done(&folder, &["run.trace", "-o", "run.html", "--costs", "nehalem-ep"]);
    let page = std::fs::read_to_string(folder.join("run.html")).unwrap();
    assert!(page.contains(&format!("{OF_NEHALEM} nehalem-ep")));
    let [run] = &vicus_view::read(&mut page.as_bytes()).unwrap()[..] else { panic!("one run") };
    assert!((run.near_bytes_a_ns - 12.0).abs() < 1e-9 && (run.far_bytes_a_ns - 12.0 * 65.0 / 106.0).abs() < 1e-9);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_simulated_run_has_the_costs_of_its_machine() {
    let folder = folder("model");
    let simulated = Command::new(env!("CARGO_BIN_EXE_vicus"))
        .args([
            "simulate",
            "--machine",
            "nehalem-ep",
            "--strategy",
            "las",
            "--trace",
            "run.trace",
            "--view",
            "run.html",
        ])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(simulated.status.success(), "{simulated:?}");
    let page = std::fs::read_to_string(folder.join("run.html")).unwrap();
    assert!(page.contains(&format!("{OF_NEHALEM} the model of nehalem-ep")), "the simulated one's");
    assert!(page.contains("assumed, not measured on this machine"), "the recorded one's");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_simulated_run_stands_beside_its_recording() {
    let folder = folder("simulated");
    let simulated = Command::new(env!("CARGO_BIN_EXE_vicus"))
        .args(["simulate", "--machine", "node:2 l3:1 core:2", "--strategy", "las", "--trace", "run.trace"])
        .args(["--view", "run.html"])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(simulated.status.success(), "{simulated:?}");
    let bytes = std::fs::read(folder.join("run.html")).unwrap();
    let runs = vicus_view::read(&mut &bytes[..]).unwrap();
    assert_eq!(runs[0].trace, recorded());
    assert_eq!(runs[1].trace.header().clock, "virtual ns");
    assert!(runs[1].trace.summary().boxes.iter().any(|row| row.busy_ns > 0), "simulated work is user code");
    std::fs::remove_dir_all(folder).unwrap();
}
