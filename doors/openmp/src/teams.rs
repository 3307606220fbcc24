//! Teams on the host (`#pragma omp teams`): a league of initial threads. The calling thread is each of them, one after
//! the other.

use crate::kmpc::fork;
use crate::team::{Function, Team, invoke};
use crate::thread::here;

/// Runs a function for each team of a league.
pub(crate) fn run(function: Function, teams: u32, threads: u32) {
    let outer = here().league;
    let limit = here().task().icv.thread_limit;
    let threads = if threads == 0 { crate::api::default_teams_threads() } else { threads.min(i32::MAX as u32) as i32 };
    if threads > 0 {
        here().task().icv.thread_limit = threads;
    }
    for team in 0..teams {
        here().league = (team, teams);
        invoke(function);
    }
    here().league = outer;
    here().task().icv.thread_limit = limit;
}

/// Runs a target region on the host. Its thread is an initial one: outside of all regions, with the settings of its
/// caller's task.
pub(crate) fn on_host(threads: i32, run: impl FnOnce()) {
    let mut icv = here().task().icv;
    if threads > 0 {
        icv.thread_limit = threads;
    }
    let outer = std::mem::replace(&mut here().league, (0, 1));
    fork::begin_alone(Team::initial(), icv);
    run();
    fork::end_serialized();
    here().league = outer;
}
