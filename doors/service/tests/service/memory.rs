//! The memory of calls together.

use super::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vicus_service::{Admission, CallLimits, Cancel, Count, Error, ErrorKind, Session};

/// What happened: a query could hold half of what was free, each of them, so that a few at once took all that there
/// was.
#[test]
fn calls_never_hold_more_than_the_budget_together() {
    const BYTES: u64 = 6 << 20;
    under_all_strategies(|strategy| {
        let service = service(strategy, BYTES);
        let session = service.session(&dataset(), shared());
        let (answered, busy) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for caller in 0..6 {
                let (session, answered, busy) = (&session, &answered, &busy);
                scope.spawn(move || {
                    for round in 0..4 {
                        let text = if (caller + round) % 2 == 0 { GREEDY } else { MODEST };
                        match session.count(text) {
                            Ok(rows) => assert_eq!((text, rows), (MODEST, 500), "{strategy}"),
                            Err(Error::Busy(refused)) => {
                                assert!(
                                    refused.taken <= BYTES && refused.wanted > refused.had,
                                    "{strategy}: {refused}"
                                );
                                busy.fetch_add(1, Ordering::Relaxed);
                                continue;
                            }
                            Err(Error::MemoryLimit(over)) => assert_eq!((text, over.budget), (GREEDY, BYTES)),
                            Err(error) => panic!("{strategy}: {error}"),
                        }
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let memory = service.memory();
        assert!((1 << 20..=BYTES).contains(&memory.most_taken()), "{strategy}: {} bytes", memory.most_taken());
        assert_eq!(memory.taken(), 0, "{strategy}: all was given back");
        let (answered, busy) = (answered.into_inner(), busy.into_inner());
        assert_eq!(answered + busy, 24, "{strategy}");
        // Alone it has all of it, and its own bound is the budget's.
        assert_eq!(session.count(MODEST).unwrap(), 500);
        assert_eq!(session.count(GREEDY).unwrap_err().kind(), ErrorKind::MemoryLimit);
        assert_eq!(memory.taken(), 0, "{strategy}");
    });
}

fn waiting(service: &Service, limits: CallLimits) -> Session {
    let limits = CallLimits { admission: Admission::Wait, ..limits };
    service.session(&dataset(), SessionOptions { limits, ..SessionOptions::default() })
}

#[test]
fn calls_that_wait_are_all_answered_one_after_the_other() {
    // Two first shares of 256 KiB have no room in it.
    let service = service("las", 400 << 10);
    let session = waiting(&service, CallLimits::default());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..10).for_each(|_| assert_eq!(session.count("SELECT ?a { ?a ?b \"7\" }").unwrap(), 1)));
        }
    });
    assert_eq!(service.memory().taken(), 0);
    assert!(service.memory().most_taken() <= 400 << 10);
}

fn until_one_waits(service: &Service) {
    while !format!("{:?}", service.memory()).contains("waiting: 1") {
        std::thread::yield_now();
    }
}

#[test]
fn a_call_waits_until_its_time_is_up_or_it_is_cancelled() {
    let service = service("las", 400 << 10);
    let first = waiting(&service, CallLimits::default()).call().unwrap();
    let refused = service.session(&dataset(), SessionOptions::default()).call().map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    let hurried = waiting(&service, CallLimits { time: Some(Duration::from_millis(20)), ..CallLimits::default() });
    let late = hurried.call().map(drop).unwrap_err();
    assert_eq!(late.to_string(), "its time was up while waiting for memory: it was cancelled");
    let cancel = Cancel::new();
    let cancelled = waiting(&service, CallLimits { cancel: cancel.clone(), ..CallLimits::default() });
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| cancelled.call().map(drop).unwrap_err().kind());
        until_one_waits(&service);
        cancel.cancel();
        assert_eq!(waits.join().unwrap(), ErrorKind::Cancelled);
        // Those behind them were not forgotten.
        let waits = scope.spawn(|| waiting(&service, CallLimits::default()).call().map(drop));
        until_one_waits(&service);
        drop(first);
        assert!(waits.join().unwrap().is_ok());
    });
    assert_eq!(service.memory().taken(), 0);
}

#[test]
fn a_lowered_total_ends_who_waits_for_more_and_a_raised_one_lets_in() {
    let service = service("las", 400 << 10);
    let first = waiting(&service, CallLimits::default()).call().unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| waiting(&service, CallLimits::default()).call().map(drop));
        until_one_waits(&service);
        service.memory().set_total(600 << 10);
        assert!(waits.join().unwrap().is_ok());
        service.memory().set_total(300 << 10);
        let waits = scope.spawn(|| waiting(&service, CallLimits::default()).call().map(drop).unwrap_err().kind());
        until_one_waits(&service);
        service.memory().set_total(100 << 10);
        assert_eq!(waits.join().unwrap(), ErrorKind::Busy, "it can never have its first share");
        service.memory().set_total(300 << 10);
        let waits = scope.spawn(|| waiting(&service, CallLimits::default()).call().map(drop));
        until_one_waits(&service);
        drop(first);
        assert!(waits.join().unwrap().is_ok(), "there is room for one");
    });
}

#[test]
fn a_call_has_a_bound_of_its_own_and_its_text_and_plan_count() {
    let service = service("las", 1 << 30);
    let bounded = |memory| {
        let limits = CallLimits { memory: Some(memory), ..CallLimits::default() };
        service.session(&dataset(), SessionOptions { limits, ..shared() })
    };
    let over = |session: Session, text: &str| match session.count(text) {
        Err(Error::MemoryLimit(over)) => over,
        other => panic!("{other:?}"),
    };
    let boxes = over(bounded(2 << 20), GREEDY);
    assert_eq!(boxes.budget, 2 << 20);
    assert!(boxes.holders.iter().any(|(name, _)| name == "its text and plan"), "{boxes}");
    let text = over(bounded(10_000), MODEST);
    assert_eq!((text.budget, text.holders[0].0.as_str()), (10_000, "its text, when it is parsed,"));
    // 1,000 lists of objects: a few bytes of text, and an operator for each.
    let many = format!("SELECT * {{ {} }}", "?s ?p ?o OPTIONAL { ?a ?b ?c } ".repeat(50));
    let plan = over(bounded(vicus_sparql::parsing_bytes(&many) + 20_000), &many);
    assert!(plan.holders.iter().any(|(name, _)| name == "its plan"), "{plan}");
    assert_eq!(service.memory().taken(), 0);
}

#[test]
fn a_call_that_is_dropped_while_it_runs_gives_back_what_it_had() {
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let session = service.session(&dataset(), shared());
        let mut call = session.call().unwrap();
        let prepared = call.prepare(ENDLESS).unwrap();
        let running = call.start(&prepared, Count).unwrap();
        assert!(service.memory().taken() > 0);
        drop(running);
        let began = Instant::now();
        while service.memory().taken() > 0 {
            assert!(began.elapsed() < Duration::from_secs(60), "{strategy}: {:?}", service.memory());
            std::thread::yield_now();
        }
    });
}
