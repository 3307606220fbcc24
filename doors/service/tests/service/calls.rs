//! How calls begin and end.

use super::*;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use vicus_service::{
    Answer, CallLimits, Cancel, Count, Each, Error, ErrorKind, Format, Moment, Stage, TextLimits, check,
};

#[test]
fn a_call_that_fails_or_is_cancelled_leaves_the_others_and_the_data_as_they_are() {
    let service = service("las", 1 << 30);
    let dataset = dataset();
    let cancel = Cancel::new();
    let limited = |memory, cancel: &Cancel| {
        let limits = CallLimits { memory: Some(memory), cancel: cancel.clone(), ..CallLimits::default() };
        // One box hands out the rows: an endless query leaves a thread to the others.
        service.session(&dataset, SessionOptions { limits, parallel_answers: false, ..shared() })
    };
    let start = |session: &vicus_service::Session, text: &str| {
        let mut call = session.call().unwrap();
        let prepared = call.prepare(text).unwrap();
        call.start(&prepared, Count).unwrap()
    };
    let modest = limited(2 << 20, &Cancel::new());
    for _ in 0..5 {
        let failing = start(&limited(2 << 20, &Cancel::new()), GREEDY);
        let cancelled = start(&limited(1 << 29, &Cancel::new()), ENDLESS);
        let good: Vec<_> = (0..4).map(|_| start(&modest, MODEST)).collect();
        for running in good {
            assert_eq!(running.wait().expect("it is within its budget").1.rows, 500);
        }
        assert_eq!(failing.wait().map(drop).unwrap_err().kind(), ErrorKind::MemoryLimit);
        drop(cancelled);
    }
    let running = start(&limited(1 << 29, &cancel), ENDLESS);
    cancel.cancel();
    assert_eq!(running.wait().map(drop).unwrap_err().kind(), ErrorKind::Cancelled);
    // Its handle cancels later calls as well.
    let later = limited(1 << 29, &cancel).call().unwrap().prepare(MODEST).map(drop).unwrap_err();
    assert_eq!(later.kind(), ErrorKind::Cancelled);
}

#[test]
fn a_call_is_cancelled_from_another_thread_while_it_hands_out_rows() {
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let cancel = Cancel::new();
        let limits = CallLimits { cancel: cancel.clone(), ..CallLimits::default() };
        let session = service.session(&dataset(), SessionOptions { limits, ..shared() });
        let (send, receive) = mpsc::channel();
        let each = Each::new(move |batch| {
            if batch.rows() > 0 {
                // The other end is gone after the first one.
                let _ = send.send(());
            }
            Ok(())
        });
        std::thread::scope(|scope| {
            let cancel = &cancel;
            scope.spawn(move || {
                receive.recv().expect("rows come");
                cancel.cancel();
            });
            let error = session.answer(ENDLESS, each).map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{strategy}: {error}");
        });
    });
}

#[test]
fn time_is_up_wherever_a_call_is() {
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let hurried = |ms| {
            let limits = CallLimits { time: Some(Duration::from_millis(ms)), ..CallLimits::default() };
            service.session(&dataset(), SessionOptions { limits, ..shared() })
        };
        let prepare = |text: &str| service.session(&dataset(), shared()).call().unwrap().prepare(text).unwrap();
        let endless = prepare(ENDLESS);
        let running = hurried(30).call().unwrap().answer(&endless, Count).map(drop).unwrap_err();
        assert!(matches!(running, Error::TimeLimit { during: Stage::Running }), "{strategy}: {running}");
        let text = format!("SELECT * {{ VALUES ?x {{ {} }} }}", "1 ".repeat(10_000));
        let parsing = hurried(0).count(&text).unwrap_err();
        assert!(matches!(parsing, Error::TimeLimit { during: Stage::Parsing }), "{strategy}: {parsing}");
        // A query prepared in time may start too late.
        let call = hurried(1).call().unwrap();
        std::thread::sleep(Duration::from_millis(5));
        let late = call.answer(&prepare("SELECT * { ?a ?b \"7\" }"), Count).map(drop).unwrap_err();
        assert!(matches!(late, Error::TimeLimit { during: Stage::Running }), "{strategy}: {late}");
        assert_eq!(service.memory().taken(), 0, "{strategy}");
    });
}

/// What happened: only a thread that waited for a call looked at the clock. A call that had been started and was not
/// waited for held its threads and its memory for as long as it liked.
#[test]
fn a_call_that_no_thread_waits_for_ends_when_its_time_is_up() {
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let limited = |time| {
            // One box hands out the rows: an endless query leaves a thread to the others.
            let limits = CallLimits { time, ..CallLimits::default() };
            service.session(&dataset(), SessionOptions { limits, parallel_answers: false, ..shared() })
        };
        let start = |session: &vicus_service::Session, text: &str| {
            let mut call = session.call().unwrap();
            let prepared = call.prepare(text).unwrap();
            call.start(&prepared, Count).unwrap()
        };
        // The timer sleeps until the latest limit first.
        let later = start(&limited(Some(Duration::from_secs(3600))), MODEST);
        let hurried = limited(Some(Duration::from_millis(250)));
        let endless: Vec<_> = (0..4).map(|_| start(&hurried, ENDLESS)).collect();
        let began = Instant::now();
        while !endless.iter().all(vicus_service::RunningQuery::is_done) {
            assert!(began.elapsed() < Duration::from_secs(60), "{strategy}: calls run on after their time");
            std::thread::sleep(Duration::from_millis(1));
        }
        for running in endless {
            let error = running.wait().map(drop).unwrap_err();
            assert!(matches!(error, Error::TimeLimit { during: Stage::Running }), "{strategy}: {error}");
        }
        assert_eq!(later.wait().expect("it is in time").1.rows, 500, "{strategy}");
        assert_eq!(service.memory().taken(), 0, "{strategy}");
        drop(hurried);
        // The limit of an hour keeps no thread, and no service.
        assert!(service.into_runtime().is_some(), "{strategy}");
    });
}

#[test]
fn what_is_prepared_is_run_by_any_number_of_calls_at_once() {
    let service = service("las", 1 << 30);
    let session = service.session(&dataset(), SessionOptions { counts: true, ..shared() });
    let prepared = session.call().unwrap().prepare(MODEST).unwrap();
    assert!(matches!(prepared.form(), Answer::Rows { columns } if columns == &["a", "n"]));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let ((), outcome) = session.call().unwrap().answer(&prepared, Count).unwrap();
                    assert_eq!((outcome.rows, outcome.counts.len()), (500, prepared.model().boxes().len()));
                }
            });
        }
    });
}

#[test]
fn errors_are_of_kinds_that_a_door_can_tell() {
    let service = service("las", 1 << 30);
    let session = service.session(&dataset(), SessionOptions::default());
    let kind = |text: &str| session.count(text).unwrap_err().kind();
    match session.count("SELECT ?s\nWHERE { ?s ?p }") {
        Err(Error::Query(error)) => assert_eq!((error.place.line, error.place.column), (2, 15)),
        other => panic!("{other:?}"),
    }
    assert_eq!(kind("DESCRIBE <http://e/1> FROM ?g"), ErrorKind::Query);
    let refused = |text: &str, format| session.write(text, format, Vec::new()).map(drop).unwrap_err();
    assert_eq!(refused("DESCRIBE <http://e/1>", Format::Csv).kind(), ErrorKind::Format);
    assert_eq!(refused(MODEST, Format::Turtle).kind(), ErrorKind::Format);
    let steps = PlanOptions { plan_steps: 10, ..PlanOptions::default() };
    let session_of = |options| service.session(&dataset(), options);
    let few = session_of(SessionOptions { plan: steps, ..SessionOptions::default() });
    assert_eq!(few.count(GREEDY).unwrap_err().kind(), ErrorKind::PlanLimit);
    let text = TextLimits { bytes: 10, ..TextLimits::default() };
    let short = SessionOptions { text, ..SessionOptions::default() };
    assert_eq!(check(MODEST, service.memory(), &short).unwrap_err().kind(), ErrorKind::Query);
    assert!(check(MODEST, service.memory(), &SessionOptions::default()).is_ok());
    let panics = Each::new(|_: &vicus_service::SolutionBatch<'_>| panic!("the sink's own mistake"));
    assert_eq!(session.answer(MODEST, panics).map(drop).unwrap_err().kind(), ErrorKind::Internal);
    assert_eq!(session.count(MODEST).unwrap(), 500, "the session is as good as before");
}

#[test]
fn a_session_says_base_and_moment() {
    let service = service("las", 1 << 30);
    let moment = Some(Moment { now_ms: 86_400_000, seed: 1 });
    let options = SessionOptions { base: Some("http://e/".to_owned()), moment, ..SessionOptions::default() };
    let session = service.session(&dataset(), options);
    assert_eq!(session.count("ASK { <7> <p> \"7\" FILTER (DAY(NOW()) = 2) }").unwrap(), 1);
    assert_eq!(session.count("ASK { <7> <p> \"8\" }").unwrap(), 0);
}

/// For a plan recorded here and simulated elsewhere.
#[test]
fn a_query_is_planned_for_as_many_threads_as_the_session_says() {
    let service = service("las", 1 << 30);
    let boxes = |threads| {
        let session = service.session(&dataset(), SessionOptions { threads, ..shared() });
        let mut call = session.call().unwrap();
        let prepared = call.prepare("SELECT ?o { ?s ?p ?o }").unwrap();
        assert_eq!(call.answer(&prepared, Count).unwrap().1.rows, 3000);
        prepared.sinks()
    };
    assert_eq!([boxes(None), boxes(Some(1)), boxes(Some(5))], [3, 1, 5]);
}
