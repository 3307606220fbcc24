//! Unbound threads take from the domain they run in.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use vicus_machine::{MachineRuntime, scope};
use vicus_topology::{NodeId, Topology};

/// The calling thread runs on this CPU from now on, as if the system had moved it there. Whether it may.
fn move_to(cpu: usize) -> bool {
    #[expect(unsafe_code, reason = "the standard library does not move threads")]
    // SAFETY: the set is as large as it is said to be, and the call only reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set) == 0
    }
}

#[test]
fn a_thread_that_is_not_bound_takes_from_the_domain_where_it_runs() {
    const TASKS: usize = 20;
    let all = [
        "locality-queues:pin=off,domain=node",
        "locality-queues:pin=off,domain=group",
        "footprint:pin=off",
        "vicinity:pin=off",
        "vicus:pin=off",
        "las:pin=off",
    ];
    for setting in all {
        // CPUs 0 and 1.
        let machine = Topology::parse("node:2 core:1").unwrap();
        let builder = MachineRuntime::builder().topology(machine).threads(2);
        let runtime = builder.strategy(setting.parse().unwrap()).quiet().start();
        for here in [0, 1, 0] {
            let (both, moved, go) = (Barrier::new(2), AtomicUsize::new(0), AtomicBool::new(false));
            let list = Mutex::new(Vec::new());
            let started = &list;
            runtime.run(|| {
                scope(|scope| {
                    // Both workers at once; one of them waits until all tasks lie there.
                    scope.spawn(|_| {
                        moved.fetch_add(usize::from(move_to(here)), Ordering::Relaxed);
                        both.wait();
                        while !go.load(Ordering::Acquire) {
                            std::thread::yield_now();
                        }
                    });
                    scope.spawn(|scope| {
                        moved.fetch_add(usize::from(move_to(here)), Ordering::Relaxed);
                        both.wait();
                        for node in [1 - here, here] {
                            for _ in 0..TASKS {
                                scope.spawn_at(NodeId::new(node), move |_| started.lock().unwrap().push(node));
                            }
                        }
                        go.store(true, Ordering::Release);
                    });
                });
            });
            if moved.into_inner() < 2 {
                eprintln!("left out: this process may not use CPUs 0 and 1");
                return;
            }
            let started = list.into_inner().unwrap();
            assert_eq!(started.len(), 2 * TASKS);
            // A thread may have taken a task, and say so only when the other one has run many.
            let late = started[TASKS..].iter().filter(|&&node| node == here).count();
            assert!(late <= 1, "{setting}, at {here}: {started:?}");
        }
    }
}
