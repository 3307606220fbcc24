//! Memory freed by a thread without a seat goes back to the system, though all seats sleep for good. A process of its own: its first
//! runtime says how long that takes.

use std::sync::Arc;
use std::time::{Duration, Instant};
use vicus_machine::{Allocator, Defaults, Runtime};
use vicus_topology::NodeId;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator::new();

#[test]
fn what_is_freed_while_all_seats_sleep_goes_back() {
    let quickly = Defaults { decay_ms: Some(Ok(100)), ..Defaults::default() };
    let runtime = Runtime::builder().threads(2).quiet().defaults(quickly).start();
    let memory = runtime.memory().expect("this process has addresses for it");
    let waiting = || (0..memory.nodes()).map(|node| memory.counts(NodeId::new(node)).mapped_waiting).sum::<usize>();
    for round in 0..4 {
        let block = vec![1u8; 32 << 20];
        assert!(memory.nodes() > 0 && block[round << 20] == 1);
        // Long enough for the seats to sleep without looking at the time any more, most times.
        std::thread::sleep(Duration::from_millis(400));
        drop(block);
        let began = Instant::now();
        while waiting() > 0 {
            assert!(began.elapsed() < Duration::from_secs(60), "round {round}: {} bytes wait for ever", waiting());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    ended_runtimes_are_not_asked(runtime);
}

/// What happened: the runtime that was asked to give freed memory back had ended, or ended at that moment, and memory freed later
/// was kept though another runtime had seats.
fn ended_runtimes_are_not_asked(mut first: Runtime) {
    let memory = Arc::clone(first.memory().expect("this process has addresses for it"));
    let waiting = || (0..memory.nodes()).map(|node| memory.counts(NodeId::new(node)).mapped_waiting).sum::<usize>();
    let mut handles = Vec::new();
    for round in 0..4 {
        // Its handle keeps what the first runtime's seats shared.
        handles.push(first.spawn(|| ()));
        let second = Runtime::builder().threads(2).quiet().start();
        let [one, other] = [0, 1].map(|_| vec![1u8; 32 << 20]);
        std::thread::sleep(Duration::from_millis(400));
        drop(one);
        drop(std::mem::replace(&mut first, second));
        if round % 2 == 1 {
            std::thread::sleep(Duration::from_millis(400));
        }
        drop(other);
        let began = Instant::now();
        while waiting() > 0 {
            assert!(began.elapsed() < Duration::from_secs(60), "round {round}: {} bytes wait for ever", waiting());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
