//! Teams: threads of the test on seats of a plan, under every strategy.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;
use vicus_machine::{
    MachineRuntime, cancel_group, child, close_group, open_group, run_child, spawn_child, wait_for_children,
};
use vicus_schedule::{ALL, Access, Mode};
use vicus_threads::team::{BuildTeam, Team, gather};
use vicus_trace::{Awaits, What};

fn teams() -> impl Iterator<Item = Team> {
    ALL.into_iter().flat_map(|strategy| [1, 2, 3, 8].map(|members| team(strategy.name(), members)))
}

fn team(strategy: &str, members: usize) -> Team {
    MachineRuntime::builder().threads(members).strategy(strategy.parse().unwrap()).quiet().team().unwrap()
}

/// Runs a closure as each member, on threads of its own.
fn run(team: &Team, f: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        for number in 0..team.members() {
            let f = &f;
            scope.spawn(move || team.member(number).run(|| f(number)));
        }
    });
}

#[test]
fn members_gather_when_no_task_is_left() {
    for team in teams() {
        let done = Arc::new(AtomicUsize::new(0));
        let threads: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let own: Arc<Mutex<Vec<ThreadId>>> = Arc::default();
        run(&team, |number| {
            own.lock().unwrap().push(std::thread::current().id());
            for round in 1..=20 {
                for _ in 0..=number {
                    let (done, threads) = (Arc::clone(&done), Arc::clone(&threads));
                    spawn_child(move || {
                        spawn_child(move || {
                            done.fetch_add(1, Ordering::Relaxed);
                            threads.lock().unwrap().insert(format!("{:?}", std::thread::current().id()));
                        });
                    });
                }
                gather();
                let each = team.members() * (team.members() + 1) / 2;
                assert_eq!(done.load(Ordering::Relaxed), each * round, "{}", team.plan().strategy);
                gather();
            }
        });
        let own: BTreeSet<String> = own.lock().unwrap().iter().map(|id| format!("{id:?}")).collect();
        assert!(threads.lock().unwrap().is_subset(&own), "tasks run on the team's threads");
    }
}

/// A task waits while it holds a lock: another one in need of the lock, on top of it, would wait for ever.
#[test]
fn a_thread_begins_no_task_on_top_of_a_waiting_one_that_is_not_its_descendant() {
    for team in teams() {
        let lock = Arc::new(AtomicBool::new(false));
        let held = Arc::new(AtomicUsize::new(0));
        run(&team, |_| {
            for number in 0..60 {
                let (lock, held) = (Arc::clone(&lock), Arc::clone(&held));
                let task = move || {
                    while lock.swap(true, Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    // Grandchildren as well, some of them waiting.
                    for _ in 0..3 {
                        let held = Arc::clone(&held);
                        spawn_child(move || {
                            let inner = Arc::clone(&held);
                            spawn_child(move || _ = inner.fetch_add(1, Ordering::Relaxed));
                            wait_for_children();
                        });
                    }
                    wait_for_children();
                    lock.store(false, Ordering::Release);
                };
                match number % 3 {
                    0 => child().deferred().spawn(task),
                    1 => child().priority(number % 2).spawn(task),
                    _ => spawn_child(task),
                }
            }
            gather();
        });
        assert_eq!(held.load(Ordering::Relaxed), 180 * team.members(), "{}", team.plan().strategy);
    }
}

/// Ties hold in a group's wait as well, and with a task run at once.
#[test]
fn groups_and_children_that_run_at_once_are_tied_as_well() {
    for team in teams() {
        let lock = Arc::new(AtomicBool::new(false));
        let count = Arc::new(AtomicUsize::new(0));
        run(&team, |_| {
            for _ in 0..40 {
                let (lock, count) = (Arc::clone(&lock), Arc::clone(&count));
                spawn_child(move || {
                    while lock.swap(true, Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    open_group();
                    let ran = run_child(|| {
                        let count = Arc::clone(&count);
                        spawn_child(move || spawn_child(move || _ = count.fetch_add(1, Ordering::Relaxed)));
                        wait_for_children();
                        7
                    });
                    assert_eq!(ran, Some(7));
                    close_group();
                    lock.store(false, Ordering::Release);
                });
            }
            gather();
        });
        assert_eq!(count.load(Ordering::Relaxed), 40 * team.members(), "{}", team.plan().strategy);
    }
}

#[test]
fn a_child_that_would_run_at_once_is_dropped_with_its_group() {
    let team = team("las", 1);
    run(&team, |_| {
        open_group();
        cancel_group();
        assert_eq!(run_child(|| 1), None);
        close_group();
        assert_eq!(run_child(|| 2), Some(2));
    });
}

fn fib(number: u64, result: &Arc<AtomicUsize>) {
    if number < 2 {
        result.fetch_add(number as usize, Ordering::Relaxed);
        return;
    }
    for less in [1, 2] {
        let result = Arc::clone(result);
        spawn_child(move || fib(number - less, &result));
    }
    wait_for_children();
}

#[test]
fn trees_of_tasks_that_wait_end() {
    for team in teams() {
        let result = Arc::new(AtomicUsize::new(0));
        run(&team, |number| {
            if number == 0 {
                fib(15, &result);
            }
            gather();
            assert_eq!(result.load(Ordering::Relaxed), 610, "{}", team.plan().strategy);
        });
    }
}

#[test]
fn siblings_follow_each_other() {
    for team in teams() {
        let cells: Arc<[AtomicUsize]> = (0..4).map(|_| AtomicUsize::new(0)).collect();
        run(&team, |number| {
            if number + 1 == team.members() {
                for step in 0..200 {
                    let cell = step % 4;
                    let (own, other) = (&cells[cell..=cell], &cells[(cell + 1) % 4..][..1]);
                    let accesses = [Access::of(own, Mode::ReadWrite), Access::of(other, Mode::Read)];
                    let cells = Arc::clone(&cells);
                    child().follows(&accesses).spawn(move || {
                        assert_eq!(cells[cell].load(Ordering::Relaxed), step / 4);
                        cells[cell].store(step / 4 + 1, Ordering::Relaxed);
                    });
                }
            }
            gather();
            assert!(cells.iter().all(|cell| cell.load(Ordering::Relaxed) == 50));
        });
    }
}

/// A member's task makes a team of its own, on new threads and its own one.
#[test]
fn a_thread_may_sit_in_a_team_within_a_team() {
    for strategy in ALL {
        let outer = team(strategy.name(), 2);
        let count = Arc::new(AtomicUsize::new(0));
        run(&outer, |_| {
            for _ in 0..3 {
                let count = Arc::clone(&count);
                let inner = team(strategy.name(), 2);
                spawn_child(move || {
                    std::thread::scope(|scope| {
                        let (inner, count) = (&inner, &count);
                        let part = move |number| {
                            inner.member(number).run(|| {
                                let count = Arc::clone(count);
                                spawn_child(move || _ = count.fetch_add(1, Ordering::Relaxed));
                                gather();
                            });
                        };
                        scope.spawn(move || part(1));
                        part(0);
                    });
                    spawn_child(|| ());
                    wait_for_children();
                });
            }
            gather();
        });
        assert_eq!(count.load(Ordering::Relaxed), 12, "{}", strategy.name());
    }
}

/// One member is late: the others sleep, and are woken for tasks and for the end.
#[test]
fn members_that_gather_sleep_and_are_woken() {
    for strategy in ALL {
        let team = team(strategy.name(), 3);
        let ran = Arc::new(AtomicUsize::new(0));
        run(&team, |number| {
            for round in 1..=3 {
                if number == 0 {
                    std::thread::sleep(Duration::from_millis(5));
                    for _ in 0..3 {
                        let ran = Arc::clone(&ran);
                        child().deferred().spawn(move || _ = ran.fetch_add(1, Ordering::Relaxed));
                    }
                }
                gather();
                assert_eq!(ran.load(Ordering::Relaxed), 3 * round, "{}", strategy.name());
                gather();
            }
        });
    }
}

#[test]
fn a_panic_of_a_task_is_its_members() {
    let team = team("las", 2);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        team.member(0).run(|| spawn_child(|| panic!("of the task")));
    }));
    assert_eq!(outcome.unwrap_err().downcast_ref::<&str>(), Some(&"of the task"));
    assert_eq!(team.member(0).run(|| 3), 3, "the seat is as it was");
}

/// Two teams, one of them within a region of the other, in one trace: with members gone, and with members waiting for
/// each other.
#[test]
fn what_teams_have_recorded_is_one_trace() {
    for strategy in ALL {
        let new =
            || MachineRuntime::builder().threads(2).strategy(strategy.name().parse().unwrap()).quiet().record(10_000);
        let (outer, inner) = (new().team().unwrap(), new().team().unwrap());
        let (has_begun, is_recorded) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let (outer, inner, has_begun, is_recorded) = (&outer, &inner, &has_begun, &is_recorded);
            scope.spawn(move || {
                let mut member = outer.member(0);
                for _ in 0..3 {
                    member.run(|| (0..10).for_each(|_| spawn_child(|| spawn_child(|| ()))));
                }
                member.run(|| run(inner, |_| spawn_child(|| ())));
                while !has_begun.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                let trace = Team::trace([outer, inner]).expect("they were asked to record");
                is_recorded.store(true, Ordering::Release);
                assert_eq!(trace.check(), [], "{}", strategy.name());
                let summary = trace.summary();
                assert_eq!((summary.seats.len(), summary.lost), (4, 0));
                // Tasks, and the members' parts of regions; the other one's part has not ended.
                assert_eq!(summary.taken(), (60 + 2 + 4 + 2 + 1, 0), "{}", strategy.name());
            });
            outer.member(1).run(|| {
                has_begun.store(true, Ordering::Release);
                while !is_recorded.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            });
        });
    }
}

/// Logs of teams that keep the last events bring their sums of those before into the common trace, seat by seat.
#[test]
fn what_teams_have_dropped_is_summed_up_in_their_trace() {
    for threads in [1, 2, 8] {
        let new = || MachineRuntime::builder().threads(threads).quiet();
        let (one, other) = (new().record_last(20).team().unwrap(), new().record_last(20).team().unwrap());
        for team in [&one, &other] {
            run(team, |member| (0..50 * usize::from(member == 0)).for_each(|_| spawn_child(|| ())));
        }
        let trace = Team::trace([&one, &other]).expect("they were asked to record");
        let header = trace.header();
        assert!(header.rolls && trace.lost() > 0, "{threads}");
        assert_eq!(header.earlier.len(), header.seats.len(), "{threads}");
        for (log, earlier) in trace.logs().iter().zip(&header.earlier) {
            assert_eq!(earlier.iter().map(|part| part.events).sum::<u64>(), log.lost, "{threads}");
        }
        let span = std::time::Duration::from_secs(600);
        let timed = new().record_last_time(span, 10_000).team().unwrap();
        run(&timed, |_| spawn_child(|| ()));
        assert_eq!(Team::trace([&timed]).unwrap().header().last_ns, 600_000_000_000, "{threads}");
    }
}

/// A member that records little has a clock that is far behind; its way out of a barrier once came before the other
/// one's way in, among the merged events.
#[test]
fn no_member_leaves_a_barrier_before_all_have_come() {
    const BARRIERS: usize = 20;
    for strategy in ALL {
        let setting = strategy.name().parse().unwrap();
        let team = MachineRuntime::builder().threads(2).strategy(setting).quiet().record(10_000).team().unwrap();
        run(&team, |number| {
            for _ in 0..BARRIERS {
                if number == 0 {
                    (0..30).for_each(|_| spawn_child(|| ()));
                    wait_for_children();
                }
                gather();
            }
        });
        let trace = Team::trace([&team]).expect("it was asked to record");
        let (mut come, mut left) = (0, vec![0; trace.header().seats.len()]);
        let mut gathers = vec![false; left.len()];
        for entry in trace.merged() {
            match entry.event.what {
                What::WaitBegins { awaits, .. } => {
                    gathers[entry.seat] = awaits == Awaits::Team;
                    come += usize::from(gathers[entry.seat]);
                }
                What::WaitEnds { .. } if gathers[entry.seat] => {
                    gathers[entry.seat] = false;
                    left[entry.seat] += 1;
                    assert!(come >= 2 * left[entry.seat], "{}: {come} have come, {left:?} left", strategy.name());
                }
                _ => {}
            }
        }
        assert_eq!(come, 2 * BARRIERS, "{}", strategy.name());
    }
}
