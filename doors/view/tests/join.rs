//! Traces of several processes as one: made-up processes whose clocks differ by what the test knows.

use vicus_topology::{GroupId, NodeId, PuId};
use vicus_trace::{
    BoxInfo, EventLog, Header, InputSource, JobId, ModelInfo, OperatorInfo, RequestOutcome, SeatInfo, TaskKind, Trace,
    ViaBound, What,
};
use vicus_view::{JoinError, Page, RecordedRun, join, read};

fn info(type_name: &str, inputs: &[u32]) -> BoxInfo {
    BoxInfo {
        name: type_name.replace(' ', ""),
        type_name: type_name.to_owned(),
        inputs: inputs.iter().map(|&index| InputSource { index, output: 0 }).collect(),
        bounds: inputs.iter().map(|_| ViaBound { envelopes: 8, bytes: u64::MAX }).collect(),
    }
}

fn header(request: u32, boxes: Vec<BoxInfo>) -> Header {
    let seat = |is_callers| SeatInfo {
        pu: PuId::new(0),
        group: GroupId::new(0),
        node: NodeId::new(0),
        is_callers,
        process: 0,
    };
    let models = vec![ModelInfo { name: "two processes".to_owned(), requests: vec![request], boxes }];
    Header { models, seats: vec![seat(false), seat(true)], clock: "ns".to_owned(), ..Header::default() }
}

/// An invocation of a box at these times of its process's clock, with what it receives and sends.
fn runs(log: &mut EventLog, (from_ns, to_ns): (u64, u64), who: JobId, received: Option<What>, sent: Option<What>) {
    log.record(from_ns, What::Enqueued { who, kind: TaskKind::Deferred, by: JobId::NONE });
    log.record(from_ns, What::Taken { who, rule: 1, far: false });
    log.record(from_ns, What::InvocationBegins { who });
    log.record(from_ns, What::UserCodeBegins { who });
    received.into_iter().for_each(|what| _ = log.record(to_ns, what));
    log.record(to_ns, What::UserCodeEnds { who });
    sent.into_iter().for_each(|what| _ = log.record(to_ns, what));
    log.record(to_ns, What::InvocationEnds { who });
}

/// Two processes, of which the second's clock is `behind_ns` behind: rounds of a message there and one back.
fn processes(behind_ns: u64, rounds: u64) -> [Trace; 2] {
    let lead = header(3, vec![info("make", &[]), info("send 0", &[0]), info("receive 1", &[]), info("rows", &[2])]);
    let node = header(9, vec![info("receive 0", &[]), info("work", &[0]), info("send 1", &[1])]);
    let (mut of_lead, mut of_node, mut callers) = (EventLog::new(10_000), EventLog::new(10_000), EventLog::new(10));
    let order = callers.record(0, What::RequestSubmitted { request: 3 });
    of_lead.observe(order);
    // The node has done much before, so that its logical clock is ahead.
    of_node.observe(1_000_000);
    let (a, b) = (|index| JobId { request: 3, index }, |index| JobId { request: 9, index });
    for round in 0..rounds {
        let rows = 10 + round as u32;
        let received = |who| Some(What::EnvelopeReceived { who, input: 0, rows, pill: false });
        let sent = |who| Some(What::EnvelopeSent { who, output: 0, rows, pill: false });
        // A true time of the start, and messages of 200 to 290 ns.
        let (at, way) = (10_000 + round * 10_000, 200 + (round * 37) % 90);
        let there = at + 1300 + way;
        runs(&mut of_lead, (at, at + 1000), a(0), None, sent(a(0)));
        runs(&mut of_lead, (at + 1300, at + 1310), a(1), received(a(1)), None);
        let clock = |ns: u64| ns - behind_ns;
        runs(&mut of_node, (clock(there - 5), clock(there)), b(0), None, sent(b(0)));
        runs(&mut of_node, (clock(there + 10), clock(there + 4000)), b(1), received(b(1)), sent(b(1)));
        runs(&mut of_node, (clock(there + 4100), clock(there + 4110)), b(2), received(b(2)), None);
        let back = there + 4100 + way;
        runs(&mut of_lead, (back - 5, back), a(2), None, sent(a(2)));
        runs(&mut of_lead, (back + 10, back + 500), a(3), received(a(3)), None);
    }
    callers.observe(of_lead.clock());
    callers.record(10_000 + rounds * 10_000, What::RequestEnded { request: 3, outcome: RequestOutcome::Done });
    let none = EventLog::new(1);
    [
        Trace::new(lead, vec![of_lead.finish(), callers.finish()]),
        Trace::new(node, vec![of_node.finish(), none.finish()]),
    ]
}

#[test]
fn clocks_are_aligned_by_the_messages_between_processes() {
    for behind_ns in [0, 7_000, 9_000] {
        let [lead, node] = processes(behind_ns, 50);
        let joined =
            join(&[RecordedRun::new("lead.trace", lead.clone()), RecordedRun::new("node.trace", node.clone())])
                .unwrap();
        let trace = &joined.trace;
        assert_eq!(trace.check(), [], "{behind_ns}");
        assert_eq!(trace.header().processes, ["lead.trace", "node.trace"]);
        assert_eq!(trace.header().seats.iter().map(|seat| seat.process).collect::<Vec<_>>(), [0, 0, 1, 1]);
        // The work of the node on the first message, by the true time: 200 ns of the way are as many there and back.
        let worked = trace.logs()[2]
            .events
            .iter()
            .find(|event| matches!(event.what, What::UserCodeBegins { who } if who == JobId { request: 3, index: 5 }));
        let off = worked.unwrap().time_ns as i64 - (10_000 + 1300 + 200 + 10);
        assert!(off.abs() <= 100, "{behind_ns}: {off} ns off");
        assert!(trace.header().clock.contains("node.trace set by 100 messages, to 1 µs"), "{}", trace.header().clock);
        // What crossed is a via, whose sending is before its arrival in the order of all events.
        let mut inside = 0_i64;
        for entry in trace.merged() {
            match entry.event.what {
                What::EnvelopeSent { who: JobId { index: 1, .. }, output: 1, .. } => inside += 1,
                What::EnvelopeReceived { who: JobId { index: 4, .. }, .. } => inside -= 1,
                _ => {}
            }
            assert!(inside >= 0);
        }
        let mut page = Vec::new();
        Page::new(vec![joined.clone()]).write_to(&mut page).unwrap();
        let text = String::from_utf8(page).unwrap();
        assert!(text.contains(">node.trace, node 0</button>") && text.contains("send0.1 → receive0.0"), "{behind_ns}");
        let again = read(&mut text.as_bytes()).unwrap();
        assert_eq!(again[0].trace, *trace);
        // Every event is there, besides those that say of an arrival and a departure that they are one.
        let count = |trace: &Trace| trace.logs().iter().map(|log| log.events.len()).sum::<usize>();
        assert_eq!(count(trace), count(&lead) + count(&node) + 2 * 100);
    }
}

#[test]
fn traces_without_a_message_in_common_are_refused() {
    let [lead, node] = processes(100, 3);
    let run = |name: &str, trace: &Trace| RecordedRun::new(name, trace.clone());
    assert_eq!(join(&[run("lead", &lead)]).unwrap_err(), JoinError::One);
    let error = join(&[run("lead", &lead), run("again", &lead)]).unwrap_err();
    assert_eq!(error, JoinError::NoMessages("again".to_owned()));
    let other = Trace::new(Header::for_seats(1), vec![EventLog::new(1).finish()]);
    let error = join(&[run("lead", &lead), run("node", &node), run("other", &other)]).unwrap_err();
    assert!(error.to_string().starts_with("other: no message joins it"), "{error}");
}

/// A query of which each process has a part: an operator's rows are those of all its boxes, wherever they ran.
#[test]
fn operators_of_a_query_have_the_work_of_all_processes() {
    let [lead, node] = processes(5_000, 50);
    let operator = |parent, name: &str, boxes: Vec<u32>| OperatorInfo {
        parent,
        name: name.to_owned(),
        expected_rows: 1,
        outputs: boxes.iter().map(|&index| InputSource { index, output: 0 }).collect(),
        boxes,
        ..OperatorInfo::default()
    };
    let with = |trace: &Trace, scans: Vec<u32>, works: Vec<u32>| {
        let operators = vec![vec![operator(None, "work", works), operator(Some(0), "scan", scans)]];
        Trace::new(Header { operators, ..trace.header().clone() }, trace.logs().to_vec())
    };
    // The scan is in both processes, as the boxes `make` of the first and `receive 0` of the second.
    let (lead, node) = (with(&lead, vec![0], vec![]), with(&node, vec![0], vec![1]));
    let joined = join(&[RecordedRun::new("lead", lead), RecordedRun::new("node", node)]).unwrap();
    let operators = &joined.trace.header().operators[0];
    assert_eq!(operators[0].boxes, [5]);
    assert_eq!(operators[1].boxes, [0, 4]);
    let mut page = Vec::new();
    Page::new(vec![joined]).write_to(&mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    let (_, table) = page.split_once("<table id=\"r0-operators-0\">").expect("the joined network has operators");
    let (table, _) = table.split_once("</table>").unwrap();
    let cells = |name: &str| -> Vec<&str> {
        let (_, row) = table.split_once(&format!("{name}</th>")).expect(name);
        let row = row.split_once("</tr>").unwrap().0;
        row.split("<td").skip(1).map(|cell| cell.split_once('>').unwrap().1.split_once('<').unwrap().0).collect()
    };
    // 50 envelopes of 10 to 59 rows leave each box.
    let rows: u64 = (0..50).map(|round| 10 + round).sum();
    assert_eq!([cells("work")[3], cells("scan")[3]], [rows.to_string(), (2 * rows).to_string()]);
    assert_eq!([cells("work")[5], cells("scan")[5]], ["50", "100"]);
}
