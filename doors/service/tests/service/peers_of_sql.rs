//! Statements of SQL over several processes, in one: see `peers.rs`.

use super::graphs::Chance;
use super::peers::{Local, people, small};
use super::*;
use std::fmt::{self, Write as _};
use std::sync::Mutex;
use std::time::Duration;
use vicus::kit::{ModelCrossing, ModelLinks};
use vicus::{BoxModel, Envelope, Schema};
use vicus_service::{
    CallOutcome, Error, PeerData, PeerFailure, PeerHost, PeerHostOptions, PeerRun, PeerTeam, Peers, Tables,
};
use vicus_sql::{MemoryTable, SqlType, TableColumn};

/// Shared statements. `@name` stands for the predicate's table.
const SHARED: &[&str] = &[
    "SELECT * FROM @knows",
    "SELECT k.subject, n.object FROM @knows k JOIN @name n ON k.object = n.subject",
    "SELECT k.subject, a.object FROM @knows k LEFT JOIN @age a ON k.object = a.subject",
    "SELECT k.subject AS s, a.subject AS t FROM @knows k FULL JOIN @age a ON k.object = a.subject AND a.object > 40",
    "SELECT a.subject, b.subject FROM @age a, @age b WHERE a.object + b.object = 7",
    "SELECT object, count(*), min(subject) FROM @town GROUP BY object",
    "SELECT subject, count(*), count(DISTINCT object) FROM @knows GROUP BY subject",
    "SELECT count(*), sum(object), avg(object), max(subject) FROM @age",
    "SELECT count(*) FROM @knows WHERE object LIKE '%7'",
    "SELECT count(*) FROM @knows k, @town t",
    "SELECT DISTINCT t.object, u.object FROM @knows k JOIN @town t ON k.subject = t.subject \
     JOIN @town u ON k.object = u.subject",
    "SELECT subject FROM @knows EXCEPT SELECT subject FROM @age",
    "SELECT subject FROM @knows INTERSECT ALL SELECT subject FROM @age",
    "SELECT subject, object FROM @name UNION ALL SELECT subject, object FROM @town",
    "SELECT subject FROM @name UNION SELECT object FROM @knows",
    "SELECT subject, object FROM @knows ORDER BY object DESC, subject",
    "SELECT subject, object FROM @knows ORDER BY object, subject DESC LIMIT 25 OFFSET 7",
    "SELECT subject FROM @name WHERE subject IN (SELECT object FROM @knows) \
     AND subject NOT IN (SELECT subject FROM @age)",
    "SELECT subject, (SELECT max(object) FROM @age a WHERE a.subject = k.object) FROM @knows k",
    "SELECT t.object, x.n FROM @town t JOIN (SELECT subject, count(*) AS n FROM @knows GROUP BY subject) x \
     ON x.subject = t.subject",
    "SELECT k.subject FROM @knows k JOIN (SELECT subject FROM @name ORDER BY subject LIMIT 40) n \
     ON n.subject = k.object",
    "WITH RECURSIVE r(p, n) AS (SELECT subject, 0 FROM @age WHERE object = 7 UNION \
     SELECT k.object, n + 1 FROM r JOIN @knows k ON k.subject = r.p WHERE n < 3) SELECT p, n FROM r",
    "SELECT count(*) FROM (SELECT subject FROM @knows ORDER BY object, subject LIMIT 1000) x",
];

/// Statements for one process alone, and a word of the reason.
const ALONE: &[(&str, &str)] = &[
    ("SELECT 1", "no operator"),
    ("SELECT subject FROM @knows LIMIT 10", "no operator"),
    ("SELECT k.subject FROM @knows k JOIN own ON own.name = k.subject", "don't have the table own"),
    ("SELECT a FROM SPARQL('SELECT ?a { ?a <http://e/knows> ?b }') x", "other machines don't have the table"),
];

fn statement(text: &str) -> String {
    let (mut all, mut parts) = (String::new(), text.split('@'));
    all.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|sign: char| !sign.is_ascii_lowercase()).unwrap_or(part.len());
        write!(all, "\"http://e/{}\"{}", &part[..end], &part[end..]).expect("a string takes everything");
    }
    all
}

fn options(peers: Option<Local>) -> SessionOptions {
    let mut tables = Tables::default();
    let rows = Envelope::new([["http://e/person/1", "http://e/person/2"].into_iter().collect()]);
    tables.add("own", Arc::new(MemoryTable::new([TableColumn::new("name", SqlType::Varchar)], [rows])));
    let mut options = SessionOptions { language: language("sql").expect("it is a language"), ..small(peers) };
    options.languages.sql.tables = Arc::new(tables);
    options
}

/// The lines of an answer; in any order, unless the statement itself has one.
fn lines(
    data: &Dataset,
    service: &Service,
    options: SessionOptions,
    text: &str,
) -> Result<(Vec<String>, CallOutcome), Error> {
    let (mut lines, outcome) = super::peers::lines(service, data, options, text)?;
    if text.rfind("ORDER BY") < text.rfind(')') {
        lines[1..].sort_unstable();
    }
    Ok((lines, outcome))
}

#[test]
fn three_processes_answer_statements_as_one_does_under_all_strategies() {
    let data = people(17);
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let over = options(Some(Local::of(strategy, [data.clone(), data.clone()], true)));
        for text in SHARED {
            let text = statement(text);
            let (expected, _) = lines(&data, &service, options(None), &text).expect("one answers");
            let (found, outcome) = lines(&data, &service, over.clone(), &text).expect("three answer");
            assert!(outcome.replanned.is_none(), "{strategy}, {text}: {:?}", outcome.replanned);
            assert!(!outcome.crossings.is_empty(), "{strategy}: {text} is not shared");
            assert_eq!(found, expected, "{strategy}: {text}");
        }
        assert_eq!(service.memory().taken(), 0, "{strategy}");
    });
}

#[test]
fn a_statement_of_one_process_says_why() {
    let data = people(17);
    let service = service("las", 1 << 30);
    for (text, why) in ALONE {
        let text = statement(text);
        let session = service.session(&data, options(Some(Local::of("las", [data.clone()], true))));
        let prepared = session.call().unwrap().prepare(&text).unwrap();
        let shown = prepared.explain(None);
        assert!(!prepared.is_shared() && shown.contains("one machine: ") && shown.contains(why), "{text}:\n{shown}");
        let (expected, found) = (service.session(&data, options(None)).count(&text), session.count(&text));
        assert_eq!(expected.unwrap(), found.unwrap(), "{text}");
    }
    let session = service.session(&data, options(Some(Local::of("las", [data.clone()], false))));
    let prepared = session.call().unwrap().prepare(&statement(SHARED[1])).unwrap();
    assert!(prepared.explain(None).contains("ms over the network"), "{}", prepared.explain(None));
}

/// Peers without work: they keep the job.
struct Told(Local, Mutex<String>);

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told").finish_non_exhaustive()
    }
}

impl Peers for Told {
    fn team(&self, threads: usize) -> Arc<PeerTeam> {
        self.0.team(threads)
    }

    fn leave_out(&self, _: &str, _: &str) {}

    fn begin(
        &self,
        _: &PeerTeam,
        job: &str,
        _: Option<u64>,
        _: &dyn Fn() -> bool,
    ) -> Result<Arc<dyn PeerRun>, PeerFailure> {
        job.clone_into(&mut self.1.lock().unwrap());
        Err(PeerFailure { message: "enough".to_owned(), is_loss: false, peer: None, told_by: None })
    }
}

/// Links for no part.
struct NoWays;

impl ModelLinks for NoWays {
    fn send(&self, _: &ModelCrossing, _: &Schema) -> BoxModel {
        unreachable!("there is no part")
    }

    fn receive(&self, _: &ModelCrossing, _: &Schema) -> BoxModel {
        unreachable!("there is no part")
    }
}

/// What happened: a peer answered the SPARQL('…') of a statement while it planned its part, however long that took.
#[test]
fn a_peer_plans_shared_texts_alone_and_runs_nothing_for_it() {
    let data = people(17);
    let service = service("las", 1 << 30);
    let told = Arc::new(Told(Local::of("las", [data.clone()], true), Mutex::default()));
    let given = SessionOptions { peers: Some(Arc::clone(&told) as _), ..options(None) };
    let error = lines(&data, &service, given, &statement(SHARED[0])).unwrap_err();
    assert_eq!(error.to_string(), "enough");
    let job: serde_json::Value = serde_json::from_str(&told.1.lock().unwrap()).unwrap();
    let host_options = PeerHostOptions { memory: 1 << 28, temporary: None, patience: Duration::ZERO };
    let host = PeerHost::new(super::service("las", 1 << 30), PeerData::Fixed(data), host_options);
    let part = |language: &str, text: &str| {
        let mut job = job.clone();
        (job["language"], job["text"]) = (language.into(), text.into());
        host.part(&job.to_string(), 1, &NoWays, None, &|| true).err().expect("there is no part").message
    };
    let greedy = format!("SELECT count(*) FROM SPARQL('{ENDLESS}') x");
    let wrong = [
        ("sql", &greedy[..], "has no SPARQL('…')"),
        ("sql", "SELECT 1", "another plan"),
        ("sql", &statement(SHARED[4]), "another plan"),
        ("sql", "SELECT * FROM own", "own"),
        (
            "network",
            "box n = numbers(to: 3); box rows = collect; n -> rows;",
            "shares no texts of the language network",
        ),
        ("cobol", "DISPLAY 'x'", "shares no texts of the language cobol"),
    ];
    for (language, text, why) in wrong {
        let message = part(language, text);
        assert!(message.contains(why), "{language}, {text}: {message}");
    }
}

/// A table of a chosen shape, of columns `a` (a text) and `b` (a text or an integer).
fn source(chance: &mut Chance, depth: usize) -> String {
    let predicate = ["knows", "name", "town", "age", "label"][chance.below(5)];
    if depth == 0 {
        return format!("(SELECT subject AS a, object AS b FROM @{predicate})");
    }
    let mut one = || source(chance, depth - 1);
    let (left, right) = (one(), one());
    let text = "SELECT a, CAST(b AS varchar) AS b FROM";
    match chance.below(8) {
        0 => format!("(SELECT x.a, y.b FROM {left} x JOIN {right} y ON x.a = y.a)"),
        1 => format!("(SELECT x.a, y.b FROM {left} x LEFT JOIN {right} y ON x.a = y.a AND length(x.a) > 16)"),
        2 => format!("(SELECT a, count(*) AS b FROM {left} x GROUP BY a)"),
        3 => format!("({text} {left} x UNION ALL {text} {right} y)"),
        4 => format!("(SELECT a, b FROM {left} x WHERE a NOT IN (SELECT a FROM {right} y WHERE a LIKE '%3%'))"),
        5 => format!("(SELECT x.a, y.b FROM {left} x FULL JOIN {right} y ON x.a = y.a AND x.a < 'http://e/person/4')"),
        6 => format!("(SELECT max(a) AS a, b FROM {left} x GROUP BY b)"),
        _ => format!("({text} {left} x ORDER BY a, b LIMIT 50)"),
    }
}

#[test]
fn random_statements_have_the_rows_of_one_process() {
    let (data, seed) = (people(17), 55);
    println!("seed {seed}");
    let mut chance = Chance(seed);
    let service = service("vicus", 1 << 30);
    let over = options(Some(Local::of("las", [data.clone(), data.clone()], true)));
    let (mut shared, mut failed) = (0, 0);
    for round in 0..400 {
        let depth = chance.below(3);
        let text = statement(&format!("SELECT a, CAST(b AS varchar) FROM {} q", source(&mut chance, depth)));
        match lines(&data, &service, options(None), &text) {
            Ok((expected, _)) => {
                let answer = lines(&data, &service, over.clone(), &text);
                let (found, outcome) = answer.unwrap_or_else(|error| panic!("round {round}: {error}\n{text}"));
                assert_eq!(found, expected, "round {round}: {text}");
                shared += usize::from(!outcome.crossings.is_empty());
            }
            // An inner UNION of a text and a number, say.
            Err(Error::Query(_)) => failed += 1,
            Err(error) => panic!("round {round}: {error}\n{text}"),
        }
    }
    println!("{shared} shared, {failed} refused");
    assert!(shared > 200 && failed < 40, "{shared} shared, {failed} refused");
}
