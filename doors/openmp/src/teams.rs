//! Teams on the host (`#pragma omp teams`): a league of initial threads. The calling thread is each of them, one after the other.

use crate::team::{Function, invoke};
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
