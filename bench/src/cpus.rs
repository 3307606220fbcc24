//! The CPUs that a side may use.

use anyhow::ensure;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Restricts this process, and its children, to this many of the CPUs that it may use; returns their numbers.
pub fn pin(threads: Option<usize>) -> anyhow::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None)?;
    let mut cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    if let Some(threads) = threads {
        ensure!(
            (1..=cpus.len()).contains(&threads),
            "--threads {threads}: this process may use {} CPUs, and a side gets one for each thread",
            cpus.len()
        );
        cpus.truncate(threads);
    }
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(None, &set)?;
    Ok(cpus)
}

/// The first of these names that is a file in a folder of PATH.
pub fn find_program(names: &[&'static str]) -> Option<&'static str> {
    let path = std::env::var_os("PATH")?;
    let is_there = |name: &&str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    names.iter().copied().find(|name| is_there(name))
}
