//! How a server ends.

use crate::client::{Answer, Ask, connect};
use crate::running::{ENDLESS, Running, numbers, open};
use std::io::Read;
use std::time::{Duration, Instant};
use vicus_server::ServerOptions;

fn patient() -> Running {
    Running::start(&numbers(2000), ServerOptions { grace: Duration::from_secs(60), ..open() })
}

/// A little more than sockets and streams take on their own.
const LONG: &str = "SELECT ?a ?b { ?a <http://e/p> ?n . ?b <http://e/p> ?m . FILTER(?m < 400) }";

#[test]
fn what_runs_ends_well_and_what_comes_is_refused() {
    let server = patient();
    let mut kept = connect(server.address);
    assert_eq!(Ask::query("ASK {}").over(&mut kept).expect("it answers").status, 200);
    let answer = Ask::query(LONG).with("accept", "text/tab-separated-values").open(server.address);
    server.stopper().stop();
    let began = Instant::now();
    let refused = loop {
        // One that was accepted just before the end may be closed without an answer.
        if let Ok(reply) = Ask::query("ASK {}").over(&mut connect(server.address))
            && reply.status != 200
        {
            break reply;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "it drains");
    };
    assert_eq!(refused.status, 503);
    assert_eq!((refused.header("retry-after"), refused.header("connection")), (Some("1"), Some("close")));
    let health = Ask::get("/health").send(server.address);
    assert_eq!((health.status, health.text().as_str()), (503, "ending\n"));
    assert_eq!(Ask::update("CLEAR ALL").send(server.address).status, 503);
    // An idle connection is closed. A request on it may still meet the moment before, so only its end is waited for.
    assert!(matches!(kept.read(&mut [0]), Ok(0)), "the server closes what is idle, and sends nothing more");
    let reply = answer.rest();
    assert_eq!((reply.is_whole, reply.text().lines().count()), (true, 1 + 2000 * 400));
    server.join();
    assert!(began.elapsed() < Duration::from_secs(60), "it does not wait for the end of its grace");
}

#[test]
fn what_goes_on_after_the_grace_is_stopped() {
    let server = Running::start(&numbers(2000), ServerOptions { grace: Duration::from_millis(100), ..open() });
    let answer = Ask::query(ENDLESS).with("accept", "text/csv").open(server.address);
    let silent = Ask::query(crate::running::SILENT).bytes();
    let mut waiting = connect(server.address);
    std::io::Write::write_all(&mut waiting, &silent).expect("it is sent");
    server.wait_for("vicus_requests_running", |running| running == 2);
    server.stopper().stop();
    let (_, is_whole) = answer.skip();
    assert!(!is_whole);
    // It is told so, or its connection is closed.
    if let Ok(answer) = Answer::of(&mut waiting, false) {
        assert!([499, 503].contains(&answer.head.status), "{:?}", answer.head);
    }
    server.join();
}

/// A client that reads nothing does not keep the server from ending.
#[test]
fn a_client_that_reads_nothing_is_left() {
    let server = Running::start(&numbers(2000), ServerOptions { grace: Duration::ZERO, ..open() });
    let _slow: Vec<_> = (0..3).map(|_| Ask::query(ENDLESS).open(server.address)).collect();
    let began = Instant::now();
    server.stopper().stop();
    server.join();
    assert!(began.elapsed() < Duration::from_secs(30));
}
