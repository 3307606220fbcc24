//! Data of a page, for the viewer's own tests: `viewer/test/fixture.json` is what this crate writes about a made-up
//! run, beside what vicus-trace says of it. `WRITE_FIXTURE=1` writes it anew.

use serde_json::{Value, json};
use std::path::Path;
use vicus_topology::{GroupId, NodeId, PuId};
use vicus_trace::{
    Awaits, BoxInfo, EventLog, Header, InputSource, JobId, ModelInfo, OperatorInfo, RequestOutcome, SeatInfo, TaskKind,
    Trace, Use, ViaBound, What,
};
use vicus_view::{Page, RecordedRun, needed_bytes, read};

const SOURCE: JobId = JobId { request: 1, index: 0 };
const WORK: JobId = JobId { request: 1, index: 1 };
const SINK: JobId = JobId { request: 1, index: 2 };

/// The logs of a made-up run, whose clocks are passed on by hand.
struct Composer {
    logs: [EventLog; 4],
    now_ns: [u64; 4],
}

impl Composer {
    /// Records on a seat, so many nanoseconds behind its last event.
    fn record(&mut self, seat: usize, after_ns: u64, what: What) {
        self.now_ns[seat] += after_ns;
        let now_ns = self.now_ns[seat];
        self.logs[seat].record(now_ns, what);
    }

    /// A seat learns what another has done.
    fn tell(&mut self, from: usize, to: usize) {
        let clock = self.logs[from].clock();
        self.logs[to].observe(clock);
        self.now_ns[to] = self.now_ns[to].max(self.now_ns[from] + 3);
    }

    fn runs(&mut self, seat: usize, who: JobId, ns: u64, inside: &[What], behind: &[What]) {
        self.record(seat, 40, What::Taken { who, rule: 1 + (ns % 3) as u8, far: ns % 2 == 1 });
        self.record(seat, 7, What::InvocationBegins { who });
        self.record(seat, 3, What::UserCodeBegins { who });
        self.record(seat, ns, What::Woke { pool: 0 });
        inside.iter().for_each(|&what| self.record(seat, 2, what));
        self.record(seat, 1, What::UserCodeEnds { who });
        behind.iter().for_each(|&what| self.record(seat, 4, what));
        self.record(seat, 5, What::InvocationEnds { who });
    }
}

fn queued(who: JobId, by: u32) -> What {
    What::Enqueued { who, kind: if by == 0 { TaskKind::Immediate } else { TaskKind::Deferred }, by }
}

/// Three boxes in a row on two seats, with a full via; a task with children; a lent thread; seats that sleep.
fn run() -> Trace {
    let mut made = Composer { logs: [(); 4].map(|()| EventLog::new(1000)), now_ns: [1_000_000; 4] };
    made.record(3, 0, What::RequestSubmitted { request: 1 });
    made.record(3, 5, queued(SOURCE, JobId::NONE));
    made.tell(3, 0);
    made.record(1, 0, What::SleepBegins);
    for round in 0..12_u32 {
        let (rows, is_full, pill) = (10 * round + 1, round % 4 == 1, round == 11);
        let mut behind = vec![
            What::EnvelopeCreated { who: SOURCE, output: 0, bytes: 64 * rows },
            What::EnvelopeSent { who: SOURCE, output: 0, rows, pill },
        ];
        if is_full {
            behind.push(What::Refused { who: SOURCE, output: 0 });
        }
        made.runs(0, SOURCE, 500 + 37 * u64::from(round), &[], &behind);
        made.record(0, 10, queued(WORK, 0));
        if !is_full && !pill {
            made.record(0, 4, queued(SOURCE, 0));
        }
        made.tell(0, 1);
        if round == 0 {
            made.record(1, 9, What::SleepEnds);
        }
        let received = |who| What::EnvelopeReceived { who, input: 0, rows, pill };
        let reads = What::BytesRead { who: WORK, far: round % 2 == 1, bytes: 64 * rows };
        let sent = What::EnvelopeSent { who: WORK, output: 1, rows, pill };
        made.runs(1, WORK, 900 + 11 * u64::from(round), &[received(WORK), reads], &[sent]);
        made.record(1, 2, queued(SINK, 1));
        if is_full {
            made.record(1, 3, What::Resumed { who: SOURCE, output: 0 });
            made.record(1, 3, queued(SOURCE, 1));
        }
        made.runs(1, SINK, 120, &[received(SINK)], &[]);
        made.tell(1, 0);
    }
    let (root, one, two) = (JobId::task(1, 0), JobId::task(1, 1), JobId::task(1, 2));
    made.record(0, 50, queued(root, JobId::NONE));
    made.record(0, 5, What::Taken { who: root, rule: 2, far: false });
    made.record(0, 5, What::UserCodeBegins { who: root });
    made.record(0, 0, What::Named { who: root, function: 0 });
    let (high, low) = What::halves(0x7f00_0000_1000);
    made.record(0, 20, What::Follows { who: one, how: Use::Writes, high, low });
    made.record(0, 0, What::UsesBytes { who: one, high: 0, low: 4096 });
    made.record(0, 2, What::Spawned { who: one, by: root.index });
    made.record(0, 2, queued(one, root.index));
    made.record(0, 30, queued(two, root.index));
    made.record(0, 5, What::WaitBegins { who: root, awaits: Awaits::Children });
    made.tell(0, 1);
    for (seat, who, ns) in [(1, one, 700), (0, two, 400)] {
        made.record(seat, 15, What::Taken { who, rule: 3, far: seat == 1 });
        made.record(seat, 5, What::UserCodeBegins { who });
        made.record(seat, 0, What::Named { who, function: 1 });
        made.record(seat, ns, What::UserCodeEnds { who });
    }
    made.tell(1, 0);
    made.record(0, 8, What::WaitEnds { who: root });
    made.record(0, 60, What::UserCodeEnds { who: root });
    made.record(2, 100, What::LentBegins { seat: 0 });
    made.record(2, 300, What::LentEnds);
    made.record(1, 20, What::SleepBegins);
    made.tell(0, 3);
    made.record(3, 10, What::RequestEnded { request: 1, outcome: RequestOutcome::Done });

    let seat = |pu: u32, is_callers| SeatInfo {
        pu: PuId::new(pu as usize),
        group: GroupId::new(pu as usize),
        node: NodeId::new((pu / 2) as usize),
        is_callers,
        process: 0,
    };
    let info = |name: &str, inputs: Vec<InputSource>| BoxInfo {
        name: format!("{name}1"),
        type_name: name.to_owned(),
        bounds: inputs.iter().map(|_| ViaBound { envelopes: 8, bytes: u64::MAX }).collect(),
        inputs,
    };
    let boxes = vec![
        info("source", vec![]),
        info("<work>", vec![InputSource { index: 0, output: 0 }]),
        info("sink", vec![InputSource { index: 1, output: 1 }]),
    ];
    let header = Header {
        strategy: "made up".to_owned(),
        plan: "strategy made up\nseat0: pu0\n  1. Youngest\n  2. Oldest\nseat1: pu1\n  1. Youngest\n".to_owned(),
        machine: "two nodes".to_owned(),
        command: "program --flag \"a & b\"".to_owned(),
        seats: vec![seat(0, false), seat(1, false), seat(2, false), seat(0, true)],
        models: vec![ModelInfo { name: "three boxes".to_owned(), requests: vec![1], boxes }],
        functions: vec!["root".to_owned(), "leaf".to_owned()],
        ..Header::default()
    };
    Trace::new(header, made.logs.map(EventLog::finish).into())
}

/// The texts of a page's scripts of data by their ids.
fn scripts(page: &str) -> serde_json::Map<String, Value> {
    let lines = page.lines().filter(|line| line.starts_with("<script type=\"application/"));
    let parts = lines.map(|line| {
        let (_, rest) = line.split_once(" id=\"").unwrap();
        let (id, rest) = rest.split_once("\">").unwrap();
        (id.to_owned(), rest.strip_suffix("</script>").unwrap().into())
    });
    parts.collect()
}

fn page(trace: &Trace) -> String {
    let mut page = Vec::new();
    Page::new(vec![RecordedRun::new("made up.trace", trace.clone())]).write_to(&mut page).unwrap();
    String::from_utf8(page).unwrap()
}

#[test]
fn the_fixture_is_what_is_written_now() {
    let trace = run();
    assert_eq!(trace.check(), []);
    let scripts = scripts(&page(&trace));
    let mut file = Vec::new();
    trace.write_to(&mut file).unwrap();
    let hex: String = file.iter().map(|byte| format!("{byte:02x}")).collect();
    let fixture = json!({ "scripts": scripts, "summary": trace.summary(), "file": hex });
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("viewer/test/fixture.json");
    if std::env::var_os("WRITE_FIXTURE").is_some() {
        std::fs::write(&path, format!("{fixture}\n")).unwrap();
    }
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(kept["summary"], fixture["summary"]);
    assert_eq!(kept["file"], fixture["file"]);
    for id in ["r0", "h0"] {
        let parsed =
            |fixture: &Value| -> Value { serde_json::from_str(fixture["scripts"][id].as_str().unwrap()).unwrap() };
        assert_eq!(parsed(&kept), parsed(&fixture), "WRITE_FIXTURE=1 writes it anew: {id}");
    }
    // Packed bytes may differ by the version of the packer; what is in them may not.
    let lines: String = (kept["scripts"].as_object().unwrap().iter())
        .map(|(id, text)| format!("<script type=\"application/x\" id=\"{id}\">{}</script>\n", text.as_str().unwrap()))
        .collect();
    assert_eq!(read(&mut lines.as_bytes()).unwrap()[0].trace, trace);
}

#[test]
fn a_page_asks_for_nothing_and_no_name_leaves_its_place() {
    let mut trace = run();
    trace = trace.with_command("</script><script src=\"http://example.org/\">".to_owned());
    let page = page(&trace);
    assert!(page.contains("default-src 'none'; script-src 'sha256-"), "the policy is in the page");
    for word in ["src=\"", "<link", "@import", "url(", "<img", "<iframe"] {
        assert!(!page.contains(word), "{word}");
    }
    // Scripts of data, and the viewer.
    let data = scripts(&page).len();
    assert_eq!(page.matches("<script").count() - 1, data);
    assert!(page.contains("&lt;work&gt;"), "names of boxes are texts");
}

#[test]
fn a_page_of_two_runs_has_both_again() {
    let trace = run();
    let mut log = EventLog::new(9);
    let who = JobId::task_of(1);
    log.record(3, What::UserCodeBegins { who });
    log.record(5, What::UserCodeEnds { who });
    let alone = Trace::new(Header::for_seats(1), vec![log.finish()]);
    let mut file = Vec::new();
    let runs = vec![RecordedRun::new("first", trace.clone()), RecordedRun::new("second", alone.clone())];
    Page::new(runs).write_to(&mut file).unwrap();
    let again = read(&mut &file[..]).unwrap();
    assert_eq!(again.iter().map(|run| &run.trace).collect::<Vec<_>>(), [&trace, &alone]);
    assert_eq!(again[1].name, "second");
    let text = String::from_utf8(file).unwrap();
    assert!(text.contains("Differences by box") && text.contains("work inflation"));
}

#[test]
fn a_page_that_was_cut_off_says_so() {
    let whole = page(&run());
    let end = whole.find("<script type=\"application/octet-stream\" id=\"c0-1\"").unwrap();
    let again = read(&mut &whole.as_bytes()[..end]).unwrap();
    assert_eq!(again[0].trace.logs()[0].events, run().logs()[0].events);
    assert!(again[0].faults[0].contains("cut off"), "{:?}", again[0].faults);
    assert!(again[0].trace.lost() > 0);
    let error = read(&mut &b"<html></html>"[..]).unwrap_err().to_string();
    assert_eq!(error, "neither a trace nor a page of `vicus trace view`");
    let other = whole.replace("\"format\":1", "\"format\":9");
    assert!(read(&mut other.as_bytes()).unwrap_err().to_string().contains("version 9"));
    let damaged = whole.replace("id=\"c0-0\">", "id=\"c0-0\">AAAA");
    assert!(read(&mut damaged.as_bytes()).is_err());
}

/// A log of 40 events of ten thousand invocations: the page has sums of the others.
#[test]
fn the_time_before_a_rolling_trace_is_summed_up() {
    let who = JobId { request: 1, index: 0 };
    let mut log = EventLog::rolling(40);
    for round in 0..10_000_u64 {
        let now_ns = round * 1_000_000;
        log.record(now_ns, What::InvocationBegins { who });
        log.record(now_ns, What::UserCodeBegins { who });
        log.record(now_ns + 250_000, What::UserCodeEnds { who });
        log.record(now_ns + 250_000, What::InvocationEnds { who });
    }
    let header = Header { rolls: true, ..Header::for_seats(1) };
    let trace = Trace::new(header, vec![log.finish()]);
    let mut file = Vec::new();
    trace.write_to(&mut file).unwrap();
    assert_eq!(Trace::read_from(&mut &file[..]).unwrap(), trace);
    let page = page(&trace);
    assert!(page.contains("39960 events before the first one are here as sums alone"));
    let (_, table) = page.split_once("id=\"r0-earlier-parts\"").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    let rows: Vec<Vec<&str>> = table.split("<tr>").skip(2).map(|row| row.split("<td class=\"n\">").collect()).collect();
    assert_eq!(rows.len(), 16);
    let cell = |row: &[&str], at: usize| -> f64 { row[at].split('<').next().unwrap().parse().unwrap() };
    let sum = |at: usize| rows.iter().map(|row| cell(row, at)).sum::<f64>();
    // A quarter of the time in each part; all but ten invocations.
    assert!(rows.iter().all(|row| (cell(row, 2) - 0.25).abs() < 0.02), "{rows:?}");
    assert!((sum(4) - 9990.0).abs() <= 8.0 && (sum(5) - 39_960.0).abs() <= 8.0, "{} {}", sum(4), sum(5));
    assert_eq!(read(&mut page.as_bytes()).unwrap()[0].trace, trace);
}

/// The cells of a table's rows, by the table's id.
fn rows_of(page: &str, id: &str) -> Vec<Vec<String>> {
    let (_, table) = page.split_once(&format!("<table id=\"{id}\"")).unwrap();
    let (head, body) = table.split_once("</table>").unwrap().0.split_once("<tbody>").unwrap();
    let cells = |row: &str| -> Vec<String> {
        let cells = row.split("<t").filter(|cell| cell.starts_with('h') || cell.starts_with('d'));
        cells.map(|cell| cell.split_once('>').unwrap().1.split('<').next().unwrap().to_owned()).collect()
    };
    let head = head.split_once("<thead><tr>").unwrap().1;
    [cells(head)].into_iter().chain(body.split("<tr").skip(1).map(cells)).collect()
}

/// The numbers of a row by the names of their columns.
fn cells_of<'a>(rows: &'a [Vec<String>], row: usize, columns: &[&str]) -> Vec<&'a str> {
    let place = |name: &&str| rows[0].iter().position(|column| column == name).unwrap_or_else(|| panic!("{name}"));
    columns.iter().map(|name| &rows[row][place(name)][..]).collect()
}

#[test]
fn idle_time_is_told_apart_by_what_was_waited_for() {
    const MS: u64 = 1_000_000;
    let (who, mut log) = (JobId::task(1, 0), EventLog::new(100));
    let mut now_ns = 0;
    let mut now = |after_ms: u64, what: What| {
        now_ns += after_ms * MS;
        log.record(now_ns, what);
    };
    now(0, What::SleepBegins);
    now(2, What::SleepEnds);
    now(0, What::UserCodeBegins { who });
    for (ms, awaits) in [(5, Awaits::Children), (3, Awaits::Section), (4, Awaits::Team)] {
        now(10, What::WaitBegins { who, awaits });
        now(ms, What::WaitEnds { who });
    }
    now(10, What::UserCodeEnds { who });
    now(0, What::LentEnds);
    now(7, What::LentBegins { seat: 0 });
    let page = page(&Trace::new(Header::for_seats(1), vec![log.finish()]));
    let waits = ["waits for its tasks ms", "waits for a group ms", "at barriers ms"];
    let boxes = rows_of(&page, "r0-boxes");
    assert_eq!(cells_of(&boxes, 1, &waits), ["5.000", "3.000", "4.000"]);
    let seats = rows_of(&page, "r0-seats");
    assert_eq!(cells_of(&seats, 1, &waits), ["5.000", "3.000", "4.000"]);
    let others = ["asleep ms", "waits to be lent ms", "idle ms", "busy ms"];
    assert_eq!(cells_of(&seats, 1, &others), ["2.000", "7.000", "21.000", "40.000"]);
}

#[test]
fn a_bound_that_was_raised_is_no_envelope_on_disk() {
    let made = run();
    let mut logs = made.logs().to_vec();
    let last = *logs[0].events.last().unwrap();
    for (after, bytes) in [(1, 64), (2, 0), (3, 0), (4, 9), (5, 0)] {
        let what = What::Overdrawn { who: SOURCE, output: 0, bytes };
        logs[0].events.push(vicus_trace::Event { time_ns: last.time_ns + after, order: last.order + after, what });
    }
    let rows = rows_of(&page(&Trace::new(made.header().clone(), logs)), "r0-vias");
    let via = rows.iter().position(|row| row[0].starts_with("source")).unwrap();
    assert_eq!(cells_of(&rows, via, &["bound raised", "spilled"]), ["2", "3"]);
}

/// 140 seats on two nodes of ten core groups each; each seat takes a task from the seat before it.
#[test]
fn the_takes_of_many_seats_are_shown_by_core_group_or_by_node() {
    let taken = |groups: u32, nodes: u32| {
        let seats: Vec<SeatInfo> = (0..140_u32)
            .map(|pu| SeatInfo {
                pu: PuId::new(pu as usize),
                group: GroupId::new((pu * groups / 140) as usize),
                node: NodeId::new((pu * nodes / 140) as usize),
                is_callers: false,
                process: 0,
            })
            .collect();
        let mut logs: Vec<EventLog> = seats.iter().map(|_| EventLog::new(10)).collect();
        for seat in 1..140 {
            let who = JobId::task(1, seat as u32);
            let clock = logs[seat - 1].record(10, queued(who, JobId::NONE));
            logs[seat].observe(clock);
            logs[seat].record(20, What::Taken { who, rule: 1, far: false });
        }
        let header = Header { seats, ..Header::default() };
        page(&Trace::new(header, logs.into_iter().map(EventLog::finish).collect()))
    };
    let by_group = taken(20, 2);
    assert!(by_group.contains("140 seats are too many for a matrix: it is by core group."));
    let rows = rows_of(&by_group, "r0-takes");
    assert_eq!(rows.len(), 21);
    // Of a group's seven seats, the first takes from the group before it.
    assert_eq!(cells_of(&rows, 1, &["taken by", "from core group 0", "from core group 1"]), ["core group 0", "6", "0"]);
    assert_eq!(cells_of(&rows, 2, &["taken by", "from core group 0", "from core group 1"]), ["core group 1", "1", "6"]);
    let by_node = taken(70, 2);
    assert!(by_node.contains("140 seats are too many for a matrix: it is by node."));
    let rows = rows_of(&by_node, "r0-takes");
    assert_eq!(rows[1..], [["node 0", "69", "0"], ["node 1", "1", "69"]]);
    assert!(taken(140, 140).contains("140 seats on more than 64 nodes are too many for a matrix: it is left out."));
}

#[test]
fn a_network_of_many_boxes_is_drawn_by_type_and_many_networks_are_counted() {
    let made = run();
    // A chain of boxes, of so many types in turn.
    let chain = |name: &str, boxes: u32, types: u32| ModelInfo {
        name: name.to_owned(),
        requests: vec![],
        boxes: (0..boxes)
            .map(|number| BoxInfo {
                name: format!("box {number}"),
                type_name: format!("type {}", number % types),
                inputs: number.checked_sub(1).map(|index| InputSource { index, output: 0 }).into_iter().collect(),
                ..BoxInfo::default()
            })
            .collect(),
    };
    let page =
        |models: Vec<ModelInfo>| page(&Trace::new(Header { models, ..made.header().clone() }, made.logs().to_vec()));
    let large = page(vec![chain("large", 200, 4)]);
    assert!(large.contains("200 boxes are too many to be drawn one by one: each rectangle is a type"));
    let (_, picture) = large.split_once("<svg class=\"network\"").unwrap();
    let (picture, _) = picture.split_once("</svg>").unwrap();
    // Types 0 to 3, each joined to the next one, and the last to the first.
    assert_eq!(picture.matches("<g class=\"box").count(), 4, "{picture}");
    assert_eq!(picture.matches("<g class=\"via").count(), 4, "{picture}");
    assert!(picture.contains("50 × type 3</title>"), "{picture}");
    let many = page((0..15).map(|number| chain(&format!("network {number}"), 3, 3)).collect());
    assert_eq!(many.matches("<svg class=\"network\"").count(), 12);
    assert!(many.contains("These are the first 12 networks; 3 more are left out."));
    let wide = page(vec![chain("wide", 200, 200)]);
    assert_eq!(wide.matches("<svg class=\"network\"").count(), 0);
    assert!(wide.contains("1 network with more than 160 types of boxes could not be read: left out."));
}

/// The operators of a query, above their inputs: what was expected, and what their boxes did.
#[test]
fn a_query_has_its_operators_with_their_work() {
    let made = run();
    let operator = |parent, name: &str, detail: &str, expected_rows, number: u32, output| OperatorInfo {
        parent,
        name: name.to_owned(),
        detail: detail.to_owned(),
        expected_rows,
        boxes: vec![number],
        outputs: vec![InputSource { index: number, output }],
    };
    let plan = |parent| vec![operator(None, "filter", "", 67, 1, 1), operator(parent, "scan", "<a> ?b", 672, 0, 0)];
    let header = Header { operators: vec![plan(Some(0))], ..made.header().clone() };
    let trace = Trace::new(header, made.logs().to_vec());
    let mut file = Vec::new();
    trace.write_to(&mut file).unwrap();
    assert_eq!(Trace::read_from(&mut &file[..]).unwrap(), trace);
    let page = page(&trace);
    let (_, table) = page.split_once("<table id=\"r0-operators-0\">").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    let text = |cell: &str| cell.split_once('>').map(|(_, rest)| rest.split_once('<').unwrap().0.to_owned()).unwrap();
    let rows: Vec<Vec<String>> =
        table.split("<tr data-key=").skip(1).map(|row| row.split("<t").skip(1).map(text).collect()).collect();
    // Twelve envelopes of 10 n + 1 rows; user code of 905 + 11 n ns and of 501 + 37 n; bytes near and far in turn.
    let filter = ["filter", "", "1", "67", "672", "10.03", "12", "0.012", "57.8 %", "19584", "23424"];
    let scan = ["└ scan", "&lt;a&gt; ?b", "1", "672", "672", "1.00", "12", "0.008", "42.2 %", "0", "0"];
    assert_eq!(rows, [filter, scan]);
    assert_eq!(read(&mut page.as_bytes()).unwrap()[0].trace, trace);
    // Operators that no plan has.
    let mut wrong = plan(Some(7));
    wrong[0].parent = Some(1);
    wrong[1].boxes = vec![99, u32::MAX];
    wrong[1].outputs = vec![InputSource { index: 99, output: 9 }];
    for operators in [vec![wrong.clone()], vec![Vec::new(), wrong], vec![vec![]]] {
        let header = Header { operators, ..made.header().clone() };
        Page::new(vec![RecordedRun::new("wrong", Trace::new(header, made.logs().to_vec()))])
            .write_to(&mut Vec::new())
            .unwrap();
    }
}

/// Three days of invocations, one each minute; the trace keeps the last ten minutes.
#[test]
fn a_trace_of_days_has_its_last_minutes_whole_and_sums_before() {
    const MINUTE_NS: u64 = 60_000_000_000;
    let who = JobId { request: 1, index: 0 };
    let mut log = EventLog::of_last(10 * MINUTE_NS, 1000);
    for minute in 0..3 * 24 * 60_u64 {
        let now_ns = minute * MINUTE_NS;
        log.record(now_ns, What::InvocationBegins { who });
        log.record(now_ns, What::UserCodeBegins { who });
        log.record(now_ns + MINUTE_NS / 4, What::UserCodeEnds { who });
        log.record(now_ns + MINUTE_NS / 4, What::InvocationEnds { who });
    }
    let header = Header { rolls: true, ..Header::for_seats(1) };
    let trace = Trace::new(header, vec![log.finish_at(3 * 24 * 60 * MINUTE_NS)]);
    assert_eq!(trace.header().last_ns, 10 * MINUTE_NS);
    assert_eq!(trace.summary().boxes[0].invocations, 10);
    let mut file = Vec::new();
    trace.write_to(&mut file).unwrap();
    assert_eq!(Trace::read_from(&mut &file[..]).unwrap(), trace);
    let page = page(&trace);
    assert!(page.contains("<dt>kept</dt><dd>the last 600000.000 ms, and sums of the time before</dd>"));
    assert!(page.contains("17240 events before the first one are here as sums alone"), "4 of each of 4,310 minutes");
    assert_eq!(read(&mut page.as_bytes()).unwrap()[0].trace, trace);
}

/// Times that go back, ends without beginnings, jobs of unknown models: all are shown, and named in the head.
#[test]
fn an_impossible_trace_is_shown_as_far_as_it_goes() {
    use vicus_trace::{Event, SeatLog};
    let who = JobId { request: 9, index: 77 };
    let event = |time_ns, order, what| Event { time_ns, order, what };
    let events = vec![
        event(u64::MAX, 5, What::InvocationEnds { who }),
        event(3, 2, What::UserCodeEnds { who }),
        event(1 << 60, 2, What::EnvelopeReceived { who, input: 3, rows: 5, pill: false }),
        event(0, u64::MAX, What::LentEnds),
        event(7, 0, What::UserCodeBegins { who }),
    ];
    let trace = Trace::new(Header::for_seats(1), vec![SeatLog { events, ..SeatLog::default() }]);
    let mut file = Vec::new();
    let faults = vec!["a truncated trace: it ends at byte 7".to_owned()];
    Page::new(vec![RecordedRun { faults, ..RecordedRun::new("broken", trace.clone()) }]).write_to(&mut file).unwrap();
    let text = String::from_utf8_lossy(&file);
    assert!(text.contains("impossible event") && text.contains("it ends at byte 7"), "the head says what is wrong");
    assert_eq!(read(&mut &file[..]).unwrap()[0].trace, trace);
    let empty = Trace::new(Header::default(), Vec::new());
    Page::new(vec![RecordedRun::new("empty", empty)]).write_to(&mut Vec::new()).unwrap();
}

/// The memory that is asked for before a page is made grows with the events, in a trace and in a page of it alike.
#[test]
fn the_memory_for_a_page_is_known_before_it_is_made() {
    let trace = run();
    let mut file = Vec::new();
    trace.write_to(&mut file).unwrap();
    let events: u64 = trace.logs().iter().map(|log| log.events.len() as u64).sum();
    let of_page = needed_bytes(page(&trace).as_bytes());
    let of_trace = needed_bytes(&file);
    assert!(of_page > 0 && of_page.is_multiple_of(events), "{of_page} for {events} events");
    // The header of a trace counts as events.
    assert!(of_trace >= of_page && of_trace < of_page + 96 * file.len() as u64 / 32, "{of_trace}, {of_page}");
    // A page that says more events than it has is damaged, and one that says fewer.
    let text = page(&trace);
    let chunk = format!("[0,0,{},", trace.logs()[0].events.len());
    assert!(text.contains(&chunk), "the index has the first chunk");
    let other = text.replace(&chunk, "[0,0,1,");
    assert!(read(&mut other.as_bytes()).unwrap_err().to_string().contains("chunk 0"));
}

/// A trace with its machine draws all of it, and the plan's queues as columns.
#[test]
fn the_whole_machine_and_the_plan_are_drawn() {
    let made = run();
    let machine = vicus_topology::Topology::parse("node:2 l3:1 core:2").unwrap();
    let plan = "strategy made up\nq0 all: Fifo, home node0\nseat0: pu0\n  immediate to all; deferred to all\n  \
                1. Oldest of all\nseat1: pu1\n  immediate to all; deferred to all\n  2. Oldest of all\n";
    let header = Header { machines: vec![machine], plan: plan.to_owned(), ..made.header().clone() };
    let trace = Trace::new(header, made.logs().to_vec());
    let mut file = Vec::new();
    trace.write_to(&mut file).unwrap();
    assert_eq!(Trace::read_from(&mut &file[..]).unwrap(), trace);
    let page = page(&trace);
    // Four PUs, of which the last one is of no seat; and the distances of two nodes.
    assert_eq!([page.matches("<b>PU ").count(), page.matches("class=\"pu free\"").count()], [4, 1]);
    assert!(page.contains("<table id=\"r0-distances\">") && page.contains("<table class=\"matrix\" id=\"r0-matrix\">"));
    assert!(page.contains("data-seat=\"1\" data-rule=\"2\">2●○</td>"));
    assert_eq!(read(&mut page.as_bytes()).unwrap()[0].trace, trace);
}
