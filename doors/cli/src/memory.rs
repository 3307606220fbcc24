//! The system's figures about memory: of this process, and free.

/// The greatest resident size of this process so far; 0 if the system does not tell.
pub(crate) fn peak_mib() -> f64 {
    status_kib("VmHWM:") / 1024.0
}

/// The resident size of this process now; 0 if the system does not tell.
pub(crate) fn resident_bytes() -> f64 {
    status_kib("VmRSS:") * 1024.0
}

fn status_kib(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

/// The default limit of a query's memory: half of the free memory, so that a query that grows without end fails before
/// the system kills a process. No limit if the system does not tell.
pub fn free_limit() -> u64 {
    match free_bytes() {
        u64::MAX => u64::MAX,
        free => free / 2,
    }
}

/// The free memory; unlimited if the system does not tell.
pub(crate) fn free_bytes() -> u64 {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let available = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).map(|kib| kib * 1024);
    // The limit of the cgroup, for example of a container.
    let group = number("/sys/fs/cgroup/memory.max").zip(number("/sys/fs/cgroup/memory.current"));
    let group = group.map(|(most, current)| most.saturating_sub(current));
    available.into_iter().chain(group).min().unwrap_or(u64::MAX)
}
