//! Statements of SQL over the data of a session.

use crate::{ENDLESS, GREEDY, dataset, of_sql, service, under_all_strategies};
use std::time::{Duration, Instant};
use vicus_service::{CallLimits, Cancel, Error, ErrorKind, Format, Session, SessionOptions, Stage, TextSink};
use vicus_sql::{SqlError, SqlErrorKind};

fn written(session: &Session, text: &str) -> Result<String, Error> {
    let mut call = session.call()?;
    let prepared = call.prepare(text)?;
    let (bytes, _) = call.answer(&prepared, TextSink::new(Format::Csv, Vec::new()))?;
    Ok(String::from_utf8(bytes).expect("it is text"))
}

fn limited(service: &vicus_service::Service, limits: CallLimits) -> Session {
    service.session(&dataset(), SessionOptions { limits, ..of_sql() })
}

#[test]
fn predicates_and_solutions_are_tables() {
    let service = service("las", 1 << 30);
    let session = service.session(&dataset(), of_sql());
    let count = |from: &str| written(&session, &format!("SELECT COUNT(*) AS n FROM {from}")).unwrap();
    assert_eq!(count("\"http://e/p\""), "n\r\n3000\r\n");
    assert_eq!(count("SPARQL('SELECT DISTINCT ?s { ?s ?p ?o }') AS s"), "n\r\n500\r\n");
    let joined = "SPARQL('SELECT ?s { ?s ?p \"7\" }') a JOIN SPARQL('SELECT ?s ?o { ?s ?p ?o }') b ON a.s = b.s";
    assert_eq!(count(joined), "n\r\n6\r\n");
    assert_eq!(service.memory().taken(), 0);
}

/// The values of a literal's datatype, and where a parameter stands; by the specifications of both types.
#[test]
fn values_by_names_are_parameters() {
    let service = service("las", 1 << 30);
    let xsd = |name: &str| oxrdf::NamedNode::new_unchecked(format!("http://www.w3.org/2001/XMLSchema#{name}"));
    let typed = |text: &str, name: &str| oxrdf::Literal::new_typed_literal(text, xsd(name)).into();
    let ask = |text: &str, given: oxrdf::Term| {
        let options = SessionOptions { given: vec![("p".to_owned(), given)], ..of_sql() };
        written(&service.session(&dataset(), options), text)
    };
    for (given, plus) in [
        (typed("41", "integer"), "$p + 1"),
        (typed("41", "unsignedByte"), ":p + 1"),
        (typed("41.5", "decimal"), "CAST($p + 0.5 AS bigint)"),
        (typed("4.15e1", "double"), "CAST($p + 0.5 AS bigint)"),
        (typed("true", "boolean"), "CASE WHEN $p THEN 42 END"),
        (typed("2024-02-28", "date"), "EXTRACT(DAY FROM $p) + 14"),
        (typed("2024-02-28T23:00:00Z", "dateTime"), "EXTRACT(DAY FROM $p) + 14"),
        (oxrdf::Literal::new_simple_literal("41").into(), "CAST($p || '' AS bigint) + 1"),
        (oxrdf::NamedNode::new_unchecked("urn:x").into(), "LENGTH($p) + 37"),
    ] {
        let answer = ask(&format!("SELECT {plus} AS n"), given).unwrap();
        assert_eq!(answer, "n\r\n42\r\n", "{plus}");
    }
    let count = "SELECT COUNT(*) AS n FROM (SELECT * FROM \"http://e/p\" LIMIT $p) AS t";
    assert_eq!(ask(count, typed("7", "int")).unwrap(), "n\r\n7\r\n");
    let inner = "SELECT COUNT(*) + $p AS n FROM SPARQL('SELECT DISTINCT ?s { ?s ?p ?o }') AS s";
    assert_eq!(ask(inner, typed("1", "int")).unwrap(), "n\r\n501\r\n", "the name is the statement's alone");
    for (text, given, told, column) in [
        ("SELECT 1, $q AS n", typed("1", "int"), "no value is given for $q", 11),
        ("SELECT  $p AS n", typed("many", "int"), "the parameter $p: `many` is no bigint", 9),
        ("SELECT 1 AS n", typed("1", "int"), "given for $p, and the statement has no such parameter", 0),
        ("SELECT ? AS n", typed("1", "int"), "write $name", 8),
        ("SELECT $p AS n", oxrdf::BlankNode::new_unchecked("b").into(), "neither an IRI nor a literal", 8),
    ] {
        let error = ask(text, given).unwrap_err();
        let Error::Query(error) = error else { panic!("{error}") };
        assert!(error.message.contains(told) && error.place.column == column, "{text}: {error:?}");
    }
}

#[test]
fn errors_say_where_in_the_statement() {
    let service = service("las", 1 << 30);
    let session = service.session(&dataset(), of_sql());
    let error = written(&session, "SELECT subject\nFROM \"http://e/q\"").unwrap_err();
    let Error::Query(error) = error else { panic!("{error}") };
    assert_eq!((error.place.line, error.place.column, error.place.offset), (2, 6, Some(20)));
    assert!(matches!(error.own::<SqlError>().unwrap().kind, SqlErrorKind::Unknown { .. }));
    let error = written(&session, "SELECT 1 FROM SPARQL('SELECT')").unwrap_err();
    assert!(matches!(&error, Error::Query(error) if error.place.column == 15), "{error}");
    assert!(error.to_string().contains("SPARQL: line 1, column 7"), "{error}");
}

#[test]
fn a_plan_with_solutions_holds_them_and_is_not_kept() {
    let service = service("las", 1 << 30);
    let session = service.session(&dataset(), of_sql());
    let prepare = |text: &str| session.call().unwrap().prepare(text).unwrap();
    let predicate = prepare("SELECT * FROM \"http://e/p\"");
    let solutions = prepare("SELECT * FROM SPARQL('SELECT ?s ?o { ?s ?p ?o }') AS s");
    assert!(predicate.can_be_kept() && !solutions.can_be_kept());
    // 3,000 rows of two texts of several bytes, and the offset of each.
    assert!(solutions.plan_bytes() > predicate.plan_bytes() + 3000 * 16, "{}", solutions.plan_bytes());
}

/// The inner query once had a time, a memory and a number of rows of its own.
#[test]
fn solutions_are_a_part_of_the_call() {
    let service = service("las", 1 << 30);
    let of = |query: &str| format!("SELECT COUNT(*) AS n FROM SPARQL('{query}') AS s");
    let memory = Some(4 << 20);
    let error = written(&limited(&service, CallLimits { memory, ..CallLimits::default() }), &of(GREEDY)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MemoryLimit, "{error}");
    // The boxes of such a query hold little: the collected rows count.
    let error = written(&limited(&service, CallLimits { memory, ..CallLimits::default() }), &of(ENDLESS)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MemoryLimit, "{error}");
    // Four tables; each of them alone has room.
    let one = "SELECT ?s ?o ?a { ?s ?p ?o BIND (CONCAT(?o, \" and a text that is long enough to be seen\") AS ?a) }";
    let small = limited(&service, CallLimits { memory: Some(3 << 20), ..CallLimits::default() });
    assert_eq!(written(&small, &of(one)).unwrap(), "n\r\n3000\r\n");
    let all: Vec<String> = (0..12).map(|number| format!("SPARQL('{one}') AS t{number}")).collect();
    let error = written(&small, &format!("SELECT COUNT(*) AS n FROM {}", all.join(", "))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MemoryLimit, "{error}");

    let time = Some(Duration::from_millis(200));
    let began = Instant::now();
    let count = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . FILTER (STRLEN(STR(?a)) + STRLEN(STR(?d)) \
        > STRLEN(STR(?g))) }";
    let error = written(&limited(&service, CallLimits { time, ..CallLimits::default() }), &of(count)).unwrap_err();
    assert!(matches!(error, Error::TimeLimit { during: Stage::Planning | Stage::Running }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(60));

    let cancel = Cancel::new();
    let cancelled = limited(&service, CallLimits { cancel: cancel.clone(), ..CallLimits::default() });
    let stopping = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        cancel.cancel();
    });
    assert!(matches!(written(&cancelled, &of(count)), Err(Error::Cancelled)));
    stopping.join().unwrap();

    // The statement's limit of rows does not apply to the solutions.
    let limits = CallLimits { rows: Some(5), ..CallLimits::default() };
    let first = service.session(&dataset(), SessionOptions { first_rows: Some(1), limits, ..of_sql() });
    assert_eq!(written(&first, &of("SELECT * { ?s ?p ?o }")).unwrap(), "n\r\n3000\r\n");
    assert_eq!(service.memory().taken(), 0);
}

/// Each call ends at its limit, and leaves nothing behind.
#[test]
fn recursive_statements_have_the_limits_of_their_call() {
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let below = |most: u64| {
            format!(
                "WITH RECURSIVE n(x) AS (SELECT 1 UNION SELECT x + 1 FROM n WHERE x < {most}) \
                 SELECT COUNT(*) AS c, MAX(x) AS m FROM n"
            )
        };
        let plenty = limited(&service, CallLimits::default());
        assert_eq!(written(&plenty, &below(200)).unwrap(), "c,m\r\n200,200\r\n", "{strategy}");

        let endless = below(u64::MAX / 4);
        let time = Some(Duration::from_millis(100));
        let error = written(&limited(&service, CallLimits { time, ..CallLimits::default() }), &endless).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimeLimit, "{strategy}: {error}");

        let cancel = Cancel::new();
        let cancelled = limited(&service, CallLimits { cancel: cancel.clone(), ..CallLimits::default() });
        std::thread::scope(|scope| {
            let runs = scope.spawn(|| written(&cancelled, &endless).unwrap_err().kind());
            std::thread::sleep(Duration::from_millis(50));
            cancel.cancel();
            assert_eq!(runs.join().unwrap(), ErrorKind::Cancelled, "{strategy}");
        });

        // 3,000 rows, each with each of the first ones, and these once more: the known rows are millions.
        let greedy = "WITH RECURSIVE r(a, b) AS (SELECT subject, object FROM \"http://e/p\" \
                      UNION SELECT r.a, t.object FROM r, \"http://e/p\" t) SELECT COUNT(*) AS c FROM r";
        let memory = Some(4 << 20);
        let error = written(&limited(&service, CallLimits { memory, ..CallLimits::default() }), greedy).unwrap_err();
        let limits = [ErrorKind::MemoryLimit, ErrorKind::NetworkLimit];
        assert!(limits.contains(&error.kind()), "{strategy}: {error}");
        assert_eq!(written(&plenty, &below(20)).unwrap(), "c,m\r\n20,20\r\n", "{strategy}");
        assert_eq!(service.memory().taken(), 0, "{strategy}");
    });
}
