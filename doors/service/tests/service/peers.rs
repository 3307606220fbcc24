//! Queries over several processes, in one: each part has threads of its own, and rows cross by queues. The answers are
//! those of one process.

use super::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vicus::kit::{ModelCrossing, ModelLinks};
use vicus::{BoxError, BoxModel, Envelope, FlowError, Operator, Request, Resume, Schema, Turn};
use vicus_service::data::StorePlace;
use vicus_service::{
    CallOutcome, Error, Format, HostedPart, Machines, NoPart, PeerData, PeerFailure, PeerHost, PeerHostOptions,
    PeerRun, PeerTeam, Peers,
};

/// A queue of envelopes between two parts, which holds a few.
#[derive(Default)]
struct Way(Mutex<WayState>);

#[derive(Default)]
struct WayState {
    rows: VecDeque<Envelope>,
    has_ended: bool,
    is_closed: bool,
    sender: Option<Resume>,
    receiver: Option<Resume>,
}

const MOST: usize = 3;

fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Sends(Arc<Way>);

impl Operator for Sends {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(is_pill) = turn.head(0).map(Envelope::is_pill) else { return Ok(()) };
        let mut state = locked(&self.0.0);
        if state.is_closed {
            drop(state);
            turn.close(0);
            turn.send_pill(0);
            return Ok(());
        }
        if !is_pill && state.rows.len() >= MOST {
            state.sender = turn.pause();
            return Ok(());
        }
        let rows = turn.take(0).expect("there is a head");
        state.has_ended |= is_pill;
        if !is_pill {
            assert!(rows.attached().is_empty(), "what is attached does not cross");
            state.rows.push_back(rows);
        }
        let receiver = state.receiver.take();
        drop(state);
        drop(receiver);
        if is_pill {
            turn.send_pill(0);
        }
        Ok(())
    }
}

struct Receives(Arc<Way>);

impl Operator for Receives {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        turn.take(0);
        loop {
            if !turn.ask_room(0) {
                turn.run_again();
                return Ok(());
            }
            let mut state = locked(&self.0.0);
            match state.rows.pop_front() {
                Some(rows) => {
                    let sender = state.sender.take();
                    drop(state);
                    drop(sender);
                    turn.send(0, rows);
                }
                None if state.has_ended => {
                    drop(state);
                    turn.send_pill(0);
                    return Ok(());
                }
                None => {
                    state.receiver = turn.pause();
                    return Ok(());
                }
            }
        }
    }
}

impl Drop for Receives {
    fn drop(&mut self) {
        let mut state = locked(&self.0.0);
        state.is_closed = true;
        state.rows.clear();
        let sender = state.sender.take();
        drop(state);
        drop(sender);
    }
}

/// All ways of a query.
#[derive(Clone, Default)]
struct Ways(Arc<Mutex<BTreeMap<u32, Arc<Way>>>>);

impl Ways {
    fn of(&self, crossing: &ModelCrossing) -> Arc<Way> {
        Arc::clone(locked(&self.0).entry(crossing.number).or_default())
    }
}

impl ModelLinks for Ways {
    fn send(&self, crossing: &ModelCrossing, schema: &Schema) -> BoxModel {
        let way = self.of(crossing);
        BoxModel::new("send", move || Sends(Arc::clone(&way))).input(schema).output(&Schema::new::<&str>([]))
    }

    fn receive(&self, crossing: &ModelCrossing, schema: &Schema) -> BoxModel {
        let way = self.of(crossing);
        BoxModel::new("receive", move || Receives(Arc::clone(&way))).output(schema)
    }
}

/// Peers in this process.
pub(crate) struct Local {
    hosts: Vec<PeerHost>,
    left_out: Mutex<Vec<String>>,
    always: bool,
}

impl std::fmt::Debug for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Local").finish_non_exhaustive()
    }
}

impl Local {
    pub(crate) fn of(strategy: &str, data: impl IntoIterator<Item = Dataset>, always: bool) -> Local {
        let options = PeerHostOptions { memory: 1 << 28, temporary: None, patience: Duration::from_millis(1) };
        let host = |data| PeerHost::new(service(strategy, 1 << 30), PeerData::Fixed(data), options.clone());
        Local { hosts: data.into_iter().map(host).collect(), left_out: Mutex::default(), always }
    }

    fn name(number: usize) -> String {
        format!("peer {number}")
    }
}

impl Peers for Local {
    fn team(&self, threads: usize) -> Arc<PeerTeam> {
        let left_out = locked(&self.left_out).clone();
        let names: Vec<String> =
            (0..self.hosts.len()).map(Local::name).filter(|name| !left_out.contains(name)).collect();
        // Unequal ones have unequal parts.
        let all: Vec<usize> = std::iter::once(threads).chain((0..names.len()).map(|peer| 1 + peer % 3)).collect();
        let mut machines = Machines::of(&all, 100_000, 1 << 30);
        machines.always = self.always;
        Arc::new(PeerTeam { machines, names, lacks_some: !left_out.is_empty() })
    }

    fn leave_out(&self, name: &str, _: &str) {
        locked(&self.left_out).push(name.to_owned());
    }

    fn begin(
        &self,
        team: &PeerTeam,
        job: &str,
        memory: Option<u64>,
        _: &dyn Fn() -> bool,
    ) -> Result<Arc<dyn PeerRun>, PeerFailure> {
        let (ways, mut requests) = (Ways::default(), Vec::new());
        for (place, name) in team.names.iter().enumerate() {
            let number = (0..self.hosts.len()).find(|&number| Local::name(number) == *name).expect("it is one");
            let host = &self.hosts[number];
            let made = host.part(job, place + 1, &ways, memory, &|| true);
            let HostedPart { part, options, .. } = made.map_err(|NoPart { message, is_stale }| PeerFailure {
                message: format!("{name}: {message}"),
                is_loss: is_stale,
                peer: is_stale.then(|| name.clone()),
                told_by: None,
            })?;
            let request = host.service().runtime().submit_within(&part.model, part.operators, options);
            requests.push((request, part.boxes, part.sends));
        }
        Ok(Arc::new(LocalRun { ways, requests }))
    }
}

pub(crate) struct LocalRun {
    ways: Ways,
    requests: Vec<(Request, Vec<Option<vicus::BoxId>>, vicus_service::Sends)>,
}

impl PeerRun for LocalRun {
    fn links(&self) -> &dyn ModelLinks {
        &self.ways
    }

    fn watch(&self, _: &Arc<Request>) {}

    fn failure(&self, _: &FlowError) -> Option<PeerFailure> {
        None
    }

    fn end(&self, reports: bool) -> Vec<String> {
        let report = |(request, boxes, sends): &(Request, Vec<Option<vicus::BoxId>>, vicus_service::Sends)| {
            if !reports {
                request.cancel();
                return String::new();
            }
            // A part that is not wanted to its end waits for rows that nothing takes.
            let is_over = request.wait_for(Duration::from_secs(60)).is_some();
            if is_over { HostedPart::report(boxes, sends, &request.counts()) } else { String::new() }
        };
        self.requests.iter().map(report).collect()
    }
}

/// 600 people who know each other, with names, ages and towns; some of it is missing, and some names are others'.
pub(crate) fn people(of: u64) -> Dataset {
    let mut text = String::new();
    for n in 0..600u64 {
        let person = format!("<http://e/person/{n}>");
        text += &format!("{person} <http://e/name> \"name {}\" .\n", n * of % 431);
        text += &format!("{person} <http://e/town> <http://e/town/{}> .\n", n * n % 37);
        if n % 3 != 0 {
            text += &format!("{person} <http://e/age> {} .\n", n * 7 % 90);
        }
        for step in [1, 5, 77] {
            text += &format!("{person} <http://e/knows> <http://e/person/{}> .\n", (n * step + 13) % 600);
        }
    }
    for town in 0..30 {
        text += &format!("<http://e/town/{town}> <http://e/label> \"Town {}\"@en .\n", town % 11);
    }
    Dataset::new(Arc::new(Snapshot::of_turtle(text.as_bytes(), None).expect("it is Turtle")))
}

/// Texts whose work is shared.
const SHARED: &[&str] = &[
    "SELECT * { ?a e:knows ?b }",
    "SELECT ?a ?n { ?a e:knows ?b . ?b e:name ?n }",
    "SELECT ?a ?b { ?a e:name ?n . ?b e:name ?n FILTER (?a != ?b) }",
    "SELECT ?a ?age ?label { ?a e:town ?t OPTIONAL { ?a e:age ?age } OPTIONAL { ?t e:label ?label } }",
    "SELECT DISTINCT ?t ?u { ?a e:knows ?b . ?a e:town ?t . ?b e:town ?u }",
    "SELECT ?t (COUNT(*) AS ?n) (SUM(?age) AS ?sum) (MIN(?age) AS ?least) (AVG(?age) AS ?mean)
        { ?a e:town ?t ; e:age ?age } GROUP BY ?t",
    "SELECT (COUNT(?b) AS ?n) (MAX(STR(?b)) AS ?last) { ?a e:knows ?b }",
    "SELECT (COUNT(DISTINCT ?n) AS ?names) { ?a e:name ?n }",
    "SELECT ?t (COUNT(DISTINCT ?n) AS ?names) { ?a e:town ?t ; e:name ?n } GROUP BY ?t HAVING (COUNT(*) > 3)",
    // Computed terms are grouped, told apart, sorted and joined.
    "SELECT ?key (COUNT(*) AS ?n) { ?a e:name ?name BIND (CONCAT('<', ?name, '>') AS ?key) } GROUP BY ?key",
    "SELECT DISTINCT ?key { ?a e:knows ?b BIND (CONCAT(STR(?b), ' é') AS ?key) }",
    "SELECT ?a ?b { { SELECT ?a (CONCAT(?m, 'x') AS ?n) { ?a e:name ?m } }
        { SELECT ?b (CONCAT(?m, 'x') AS ?n) { ?b e:name ?m } } FILTER (?a < ?b) }",
    "SELECT ?a ?half { ?a e:age ?age BIND (?age / 4 AS ?half) } ORDER BY ?half ?a",
    "SELECT ?a ?b { ?a e:knows ?b } ORDER BY DESC(?b) ?a",
    "SELECT ?a ?b { ?a e:knows ?b } ORDER BY ?b DESC(?a) LIMIT 25 OFFSET 7",
    "SELECT ?a ?n { { ?a e:name ?n } UNION { ?a e:label ?n } UNION { ?a e:age ?n } }",
    "SELECT ?a { ?a e:knows ?b MINUS { ?b e:age ?age } }",
    "SELECT ?a { ?a e:knows ?b FILTER NOT EXISTS { ?b e:knows ?a } FILTER EXISTS { ?b e:age ?x } }",
    "SELECT ?a ?c { ?a e:town ?t . ?a e:knows/e:knows ?c . ?c e:town ?t }",
    "SELECT ?a ?n (COUNT(?c) AS ?met) { ?a e:age ?n FILTER (?n < 9) ?a e:knows+ ?c } GROUP BY ?a ?n",
    "SELECT ?t ?n { { SELECT ?t (COUNT(*) AS ?n) { ?a e:town ?t } GROUP BY ?t } ?t e:label ?label }",
    "CONSTRUCT { ?a e:met ?b . ?b e:metBy ?a } { ?a e:knows ?b . ?b e:knows ?c }",
    "SELECT * { ?a e:age ?x . ?b e:age ?y FILTER (?x = ?y && ?a < ?b) }",
];

/// Texts that one process answers, and a word of the reason.
const ALONE: &[(&str, &str)] = &[
    ("SELECT ?a { ?a e:knows ?b FILTER (RAND() < 2) }", "chance"),
    ("SELECT (SAMPLE(?b) AS ?one) { ?a e:knows ?b }", "met first"),
    ("SELECT ?a ?n { { SELECT ?a { ?a e:knows ?b } LIMIT 600 } ?a e:name ?n }", "met first"),
    ("ASK { ?a e:knows ?b }", "no operator"),
    ("SELECT ?a ?b { VALUES ?n { 'name 3' 'none' } ?a e:name ?n . ?a e:knows ?b }", "no operator"),
];

fn with_prefix(text: &str) -> String {
    format!("PREFIX e: <http://e/> {text}")
}

/// Options that share the work of few rows.
pub(crate) fn small(peers: Option<Local>) -> SessionOptions {
    let plan = PlanOptions { parallel_rows: 60, envelope_rows: 16, ..PlanOptions::default() };
    SessionOptions { plan, counts: true, peers: peers.map(|peers| Arc::new(peers) as _), ..SessionOptions::default() }
}

/// The lines of an answer; in any order unless the text has one.
pub(crate) fn lines(
    service: &Service,
    data: &Dataset,
    options: SessionOptions,
    text: &str,
) -> Result<(Vec<String>, CallOutcome), Error> {
    let graph = text.contains("CONSTRUCT {");
    let format = if graph { Format::NTriples } else { Format::Tsv };
    let (bytes, outcome) = service.session(data, options).write(text, format, Vec::new())?;
    let mut lines: Vec<String> = String::from_utf8(bytes).expect("UTF-8").lines().map(str::to_owned).collect();
    if !text.contains("ORDER BY") {
        lines[usize::from(!graph)..].sort_unstable();
    }
    Ok((lines, outcome))
}

/// Peers of which the first one can't reach another. Each beginning fails by a loss without a name; without a teller,
/// nobody can be left out.
struct Apart {
    local: Local,
    tells: bool,
    begun: Arc<std::sync::atomic::AtomicUsize>,
}

impl std::fmt::Debug for Apart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Apart").finish_non_exhaustive()
    }
}

impl Peers for Apart {
    fn team(&self, threads: usize) -> Arc<PeerTeam> {
        self.local.team(threads)
    }

    fn leave_out(&self, name: &str, why: &str) {
        self.local.leave_out(name, why);
    }

    fn begin(
        &self,
        team: &PeerTeam,
        job: &str,
        memory: Option<u64>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Arc<dyn PeerRun>, PeerFailure> {
        let teller = Local::name(0);
        if !team.names.contains(&teller) {
            return self.local.begin(team, job, memory, goes_on);
        }
        self.begun.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let message = format!("{teller}: peer 1 can't be reached");
        Err(PeerFailure { message, is_loss: true, peer: None, told_by: self.tells.then_some(teller) })
    }
}

/// What happened: such a query was begun again for ever.
#[test]
fn a_peer_that_does_not_reach_another_is_left_out_or_ends_the_query() {
    let (strategy, data) = ("vicus", people(17));
    let service = service(strategy, 1 << 30);
    let text = with_prefix(SHARED[1]);
    let (expected, _) = lines(&service, &data, small(None), &text).expect("one answers");
    for tells in [true, false] {
        let begun = Arc::default();
        let local = Local::of(strategy, [data.clone(), data.clone()], true);
        let apart = Apart { local, tells, begun: Arc::clone(&begun) };
        let options = SessionOptions { peers: Some(Arc::new(apart)), ..small(None) };
        let answer = lines(&service, &data, options, &text);
        let begun = begun.load(std::sync::atomic::Ordering::Relaxed);
        if tells {
            let (found, outcome) = answer.expect("two answer");
            assert_eq!((found, begun), (expected.clone(), 4));
            assert_eq!(outcome.replanned.map(|(plan, lost)| (plan.is_shared(), lost.len())), Some((true, 4)));
        } else {
            let error = answer.expect_err("no team answers").to_string();
            assert!(error.contains("peer 1 can't be reached") && begun == 17, "{error}, begun {begun} times");
        }
    }
}

/// What happened: a plan without a peer that was left out was kept, and its text was not shared again.
#[test]
fn a_plan_without_a_peer_that_is_left_out_is_not_kept() {
    let data = people(17);
    let service = service("las", 1 << 30);
    for left_out in 0..3 {
        let local = Local::of("las", [data.clone(), data.clone()], true);
        (0..left_out).for_each(|peer| local.leave_out(&Local::name(peer), "a test"));
        let prepared = service.session(&data, small(Some(local))).call().unwrap().prepare(&with_prefix(SHARED[0]));
        let prepared = prepared.unwrap();
        assert_eq!((prepared.is_shared(), prepared.can_be_kept()), (left_out < 2, false), "{left_out} left out");
    }
    let alone = service.session(&data, small(None)).call().unwrap().prepare(&with_prefix(SHARED[0])).unwrap();
    assert!(alone.can_be_kept());
}

#[test]
fn three_processes_answer_as_one_does_under_all_strategies() {
    let data = people(17);
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let local = || Local::of(strategy, [data.clone(), data.clone()], true);
        let over = small(Some(local()));
        for text in SHARED {
            let text = with_prefix(text);
            let (expected, _) = lines(&service, &data, small(None), &text).expect("one answers");
            let (found, outcome) = lines(&service, &data, over.clone(), &text).expect("three answer");
            assert!(outcome.replanned.is_none(), "{strategy}, {text}: {:?}", outcome.replanned);
            assert!(!outcome.crossings.is_empty(), "{strategy}: {text} is not shared");
            assert_eq!(found, expected, "{strategy}: {text}");
        }
        assert_eq!(service.memory().taken(), 0, "{strategy}");
    });
}

#[test]
fn what_one_process_does_says_why() {
    let data = people(17);
    let service = service("las", 1 << 30);
    for (text, why) in ALONE {
        let text = with_prefix(text);
        let session = service.session(&data, small(Some(Local::of("las", [data.clone()], true))));
        let prepared = session.call().unwrap().prepare(&text).unwrap();
        let shown = prepared.explain(None);
        assert!(!prepared.is_shared() && shown.contains("one machine: ") && shown.contains(why), "{text}:\n{shown}");
        let (expected, found) = (service.session(&data, small(None)).count(&text), session.count(&text));
        assert_eq!(expected.unwrap(), found.unwrap(), "{text}");
    }
    // A query of few rows is quicker on one machine.
    let session = service.session(
        &data,
        SessionOptions { plan: small(None).plan, ..small(Some(Local::of("las", [data.clone()], false))) },
    );
    let prepared = session.call().unwrap().prepare(&with_prefix(SHARED[1])).unwrap();
    assert!(prepared.explain(None).contains("ms over the network"), "{}", prepared.explain(None));
}

#[test]
fn a_plan_shows_where_its_boxes_are_and_what_crossed() {
    let data = people(17);
    let service = service("vicus", 1 << 30);
    let session = service.session(&data, small(Some(Local::of("vicus", [data.clone(), data.clone()], true))));
    let text = with_prefix("SELECT * { ?a e:knows ?b }");
    let mut call = session.call().unwrap();
    let prepared = call.prepare(&text).unwrap();
    let (_, outcome) = call.answer(&prepared, vicus_service::Count).unwrap();
    let shown = prepared.explain_run(&outcome);
    for words in ["machine 0 (this one), 3 threads", "machine 1 (peer 0), 1 threads", "machine 2 (peer 1), 2 threads"] {
        assert!(shown.contains(words), "{words} in\n{shown}");
    }
    // 1,772 rows, since some people are met twice, are cut by threads; two columns of eight bytes cross.
    assert_eq!(outcome.rows, 1772);
    let crossed: Vec<(usize, u64, u64)> =
        outcome.crossings.iter().map(|crossing| (crossing.from, crossing.rows, crossing.bytes)).collect();
    assert_eq!(crossed, [(1, 295, 4720), (2, 591, 9456)]);
    assert!(shown.contains("1772 actual"), "{shown}");
}

#[test]
fn a_limit_ends_all_parts() {
    let data = people(17);
    let service = service("las", 1 << 30);
    let options = SessionOptions { counts: false, ..small(Some(Local::of("las", [data.clone(), data.clone()], true))) };
    let text = with_prefix("SELECT ?a ?c { ?a e:knows ?b . ?c e:knows ?d } LIMIT 1000");
    assert_eq!(service.session(&data, options).count(&text).unwrap(), 1000);
}

#[test]
fn a_peer_with_other_data_is_an_error_and_one_that_is_behind_is_left_out() {
    let (data, other) = (people(17), people(18));
    let service = service("las", 1 << 30);
    let text = with_prefix(SHARED[1]);
    let peers = |data: [Dataset; 2]| small(Some(Local::of("las", data, true)));
    let error = lines(&service, &data, peers([data.clone(), other.clone()]), &text).unwrap_err();
    assert_eq!(error.to_string(), "peer 1: it has other data");

    let at = |data: &Dataset, store, sequence| {
        Dataset::of_store(Arc::clone(data.snapshot()), StorePlace { store, sequence })
    };
    let asked = at(&data, 7, 3);
    let error = lines(&service, &asked, peers([at(&data, 7, 3), at(&data, 8, 3)]), &text).unwrap_err();
    assert_eq!(error.to_string(), "peer 1: it has another store, and no copy of the one that is asked");

    let (expected, _) = lines(&service, &data, small(None), &text).unwrap();
    let stale = [
        (at(&data, 7, 2), "is behind: it has records up to 2, and the query reads up to 3"),
        (at(&data, 7, 4), "has records up to 4, and the query reads up to 3"),
        (at(&other, 7, 3), "has terms in another order"),
    ];
    for (peer, why) in stale {
        let (found, outcome) = lines(&service, &asked, peers([at(&data, 7, 3), peer]), &text).unwrap();
        let (_, words) = outcome.replanned.expect("it is planned without that peer");
        assert!(words.len() == 1 && words[0].contains(why), "{why}: {words:?}");
        assert_eq!(found, expected, "{why}");
    }
}
