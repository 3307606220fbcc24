//! Networks as a language of questions: their rows in every format, their limits, and the folder of their files.

use crate::{dataset, service, under_all_strategies};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use vicus::{Runtime, Setting};
use vicus_network::{Kinds, NetworkText};
use vicus_service::{
    CallLimits, Cancel, Error, ErrorKind, Format, MemoryBudget, NetworkOptions, Service, Session, SessionOptions,
    TextSink, language, paths_below,
};

fn options() -> SessionOptions {
    SessionOptions { language: language("network").expect("it is a language"), ..SessionOptions::default() }
}

fn session(service: &Service, limits: CallLimits) -> Session {
    service.session(&dataset(), SessionOptions { limits, ..options() })
}

fn answer(session: &Session, text: &str, format: Format) -> Result<String, Error> {
    let mut call = session.call()?;
    let prepared = call.prepare(text)?;
    let (bytes, _) = call.answer(&prepared, TextSink::new(format, Vec::new()))?;
    Ok(String::from_utf8(bytes).expect("it is text"))
}

const SQUARES: &str = "box n = numbers(to: 1000); box odd = filter(where: \"n % 2 = 1\") * threads;
    box square = map(select: \"n, n * n AS square, CAST(n AS VARCHAR) AS name, n > 500 AS large\") * threads;
    box order = sort(by: \"n\"); box rows = collect; n -> odd -> square -> order -> rows;";

#[test]
fn rows_are_those_of_the_network_under_every_strategy() {
    let mut wanted = "n,square,name,large\r\n".to_owned();
    (1..1000).step_by(2).for_each(|n| wanted += &format!("{n},{},{n},{}\r\n", n * n, n > 500));
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        assert_eq!(
            answer(&session(&service, CallLimits::default()), SQUARES, Format::Csv).unwrap(),
            wanted,
            "{strategy}"
        );
        assert_eq!(service.memory().taken(), 0, "{strategy}");
    });
}

/// Rows go round under every strategy, on few threads and on many, as text and as JSON.
#[test]
fn rows_go_round_until_none_is_new_under_every_strategy() {
    let text = "box one = numbers(from: 1, to: 2); box n = numbers(to: 3000, column: \"a\");
        box edges = map(select: \"a, a * 5 % 3001 AS b\") * threads; box all = union;
        box near = map(select: \"a, a + 700 AS b\");
        box reached = iterate(step: \"SELECT e.b FROM rows AS r JOIN e ON e.a = r.n\", names: \"e\");
        box order = sort(by: \"n\"); box rows = collect;
        n -> edges -> all; n -> near -> all; one -> reached.0; all -> reached.1; reached -> order -> rows;";
    let json = text.parse::<NetworkText>().unwrap().to_json();
    let text = NetworkText::from_json(&json).unwrap().to_string();
    let mut found = BTreeSet::from([1]);
    let mut open = vec![1];
    while let Some(n) = open.pop() {
        if n < 3000 {
            open.extend([n * 5 % 3001, n + 700].into_iter().filter(|&next| found.insert(next)));
        }
    }
    let wanted: String = found.iter().map(|n| format!("{n}\r\n")).collect();
    under_all_strategies(|strategy| {
        for threads in [1, 2, 8] {
            let setting: Setting = strategy.parse().expect("the strategy exists");
            let runtime = Runtime::builder().strategy(setting).threads(threads).quiet().start();
            let service = Service::new(runtime, MemoryBudget::new(1 << 30));
            let rows = answer(&session(&service, CallLimits::default()), &text, Format::Csv).unwrap();
            assert_eq!(rows, format!("n\r\n{wanted}"), "{strategy}, {threads} threads");
            assert_eq!(service.memory().taken(), 0, "{strategy}, {threads} threads");
        }
    });
}

#[test]
fn a_plan_names_each_box_below_its_reader() {
    let service = service("las", 1 << 30);
    let session = session(&service, CallLimits::default());
    let mut call = session.call().unwrap();
    let prepared = call.prepare(SQUARES).unwrap();
    let names: Vec<_> = prepared.nodes().iter().map(|node| (node.parent, node.name.clone())).collect();
    assert_eq!(names[0], (None, "rows".to_owned()));
    assert_eq!(names[1], (Some(0), "order".to_owned()));
    assert!(names.iter().enumerate().skip(1).all(|(at, (parent, _))| parent.is_some_and(|parent| parent < at)));
    assert!(names.iter().any(|(_, name)| name == "odd[2]"), "three threads, three copies: {names:?}");
}

#[test]
fn mistakes_have_their_place() {
    let service = service("las", 1 << 30);
    let session = session(&service, CallLimits::default());
    for (text, line, column, wanted) in [
        ("box n = numbers(to: 3)", 1, 22, "`;` is expected"),
        ("box n = numbers(to: 3);\nbox r = colect; n -> r;", 2, 9, "there is no kind `colect`"),
        ("box n = numbers(to: 3); box s = sink; n -> s;", 0, 0, "an answer is the rows of a `collect`"),
        ("box n = numbers(to: 3); box a = collect; box b = collect; n -> a; n -> b;", 0, 0, "and here are several"),
        ("box r = read_csv(file: \"a.csv\"); box a = collect; r -> a;", 1, 9, "there is no kind `read_csv`"),
    ] {
        match answer(&session, text, Format::Csv).unwrap_err() {
            Error::Query(error) => {
                assert_eq!((error.place.line, error.place.column), (line, column), "{text}: {error}");
                assert!(error.to_string().contains(wanted), "{text}: {error}");
            }
            other => panic!("{text}: {other}"),
        }
    }
}

/// Boxes by the thousand, rows without end, and rows that are kept: each ends at the call's limit, and it alone.
#[test]
fn a_network_has_the_limits_of_its_call() {
    let service = service("las", 1 << 30);
    let timed =
        |time| session(&service, CallLimits { time: Some(Duration::from_millis(time)), ..CallLimits::default() });
    let endless = "box n = numbers(to: 9000000000000000000); box s = aggregate(select: \"COUNT(*) AS c\");
        box rows = collect; n -> s -> rows;";
    assert_eq!(answer(&timed(100), endless, Format::Csv).unwrap_err().kind(), ErrorKind::TimeLimit);
    let cancel = Cancel::new();
    let cancelled = session(&service, CallLimits { cancel: cancel.clone(), ..CallLimits::default() });
    std::thread::scope(|scope| {
        let runs = scope.spawn(|| answer(&cancelled, endless, Format::Csv).unwrap_err().kind());
        std::thread::sleep(Duration::from_millis(50));
        cancel.cancel();
        assert_eq!(runs.join().unwrap(), ErrorKind::Cancelled);
    });
    // 64 copies of 64 copies of an expression that is planned for each.
    let many = "network inner() { box f = map(select: \"n + 1 AS n\") * 64; input -> f -> output; }
        box n = numbers(to: 3); box g = inner() * 4000; box rows = collect; n -> g -> rows;";
    let kind = answer(&timed(200), many, Format::Csv).unwrap_err().kind();
    assert!([ErrorKind::TimeLimit, ErrorKind::Query].contains(&kind), "{kind:?}");
    let little = session(&service, CallLimits { memory: Some(4 << 20), ..CallLimits::default() });
    assert_eq!(answer(&little, many, Format::Csv).unwrap_err().kind(), ErrorKind::MemoryLimit);
    let kept = "box n = numbers(to: 100000000); box h = sort(by: \"n\"); box rows = collect; n -> h -> rows;";
    assert_eq!(answer(&little, kept, Format::Csv).unwrap_err().kind(), ErrorKind::MemoryLimit);
    assert_eq!(answer(&session(&service, CallLimits::default()), SQUARES, Format::Csv).unwrap().lines().count(), 501);
    assert_eq!(service.memory().taken(), 0);
}

/// Rows wait for a table of all of them.
#[test]
fn boxes_that_wait_for_each_other_need_memory_and_tell_so() {
    let counted = "box n = numbers(to: 3000000); box c = aggregate(select: \"COUNT(*) AS c\");
        box both = join(on: \"a.n = b.c\", select: \"n, c\"); box rows = collect;
        n -> both.0; n -> c -> both.1; both -> rows;";
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let limited =
            |memory| answer(&session(&service, CallLimits { memory, ..CallLimits::default() }), counted, Format::Csv);
        let error = limited(Some(4 << 20)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NetworkLimit, "{strategy}: {error}");
        assert!(matches!(error, Error::NetworkLimit(_)) && error.to_string().contains("more memory"), "{error}");
        // No row has the number of the rows.
        assert_eq!(limited(None).unwrap(), "n,c\r\n", "{strategy}");
        assert_eq!(service.memory().taken(), 0, "{strategy}");
    });
}

fn folder() -> PathBuf {
    let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("networks");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("data/inner")).unwrap();
    folder
}

#[test]
fn files_are_those_below_the_folder_alone() {
    let folder = folder();
    let triples = "<http://e/a> <http://e/p> \"x\" .\n";
    std::fs::write(folder.join("outside.nt"), triples).unwrap();
    std::fs::write(folder.join("data/in.nt"), triples).unwrap();
    std::os::unix::fs::symlink(folder.join("outside.nt"), folder.join("data/link.nt")).unwrap();
    std::os::unix::fs::symlink(folder.join("new.nt"), folder.join("data/dangling.nt")).unwrap();
    std::os::unix::fs::symlink(&folder, folder.join("data/up")).unwrap();
    let mut kinds = Kinds::library();
    vicus_service::add_kinds(&mut kinds);
    let kinds = Arc::new(kinds.with_paths(paths_below(&folder.join("data")).unwrap()));
    let mut options = options();
    options.languages.network = NetworkOptions { kinds, has_writers: true };
    let service = service("las", 1 << 30);
    let session = service.session(&dataset(), options);
    let copy = |from: &str, to: &str| {
        let text = format!(
            "box r = read_rdf(file: \"{from}\"); box w = write_rdf(file: \"{to}\"); box rows = collect;
             r -> w; r -> rows;"
        );
        answer(&session, &text, Format::Csv).map(|rows| rows.lines().count())
    };
    assert_eq!(copy("in.nt", "out.nq").unwrap(), 2);
    assert_eq!(std::fs::read_to_string(folder.join("data/out.nq")).unwrap(), triples);
    assert_eq!(copy("inner/../in.nt", "inner/out.nq").unwrap(), 2);
    let absolute = folder.join("outside.nt");
    let absolute = absolute.to_str().unwrap();
    for from in ["../outside.nt", "link.nt", "up/outside.nt", absolute, "inner/../../outside.nt"] {
        let error = copy(from, "out.nq").unwrap_err().to_string();
        assert!(error.contains("only files below the server's folder"), "{from}: {error}");
    }
    for to in ["../new.nq", "up/new.nq", "-", absolute, "dangling.nt", "."] {
        assert!(copy("in.nt", to).is_err(), "{to}");
    }
    assert_eq!(std::fs::read_to_string(folder.join("outside.nt")).unwrap(), triples);
    assert!(!folder.join("new.nq").exists() && !folder.join("new.nt").exists());
}
