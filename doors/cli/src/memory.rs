//! What the system says of memory: this process', and what is free.

/// The most that this process ever had resident; 0 where the system does not tell.
pub(crate) fn peak_mib() -> f64 {
    status_kib("VmHWM:") / 1024.0
}

/// What this process has resident now; 0 where the system does not tell.
pub(crate) fn resident_bytes() -> f64 {
    status_kib("VmRSS:") * 1024.0
}

fn status_kib(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

/// What a query may hold if nobody says: half of the memory that is free now, so that one that grows without
/// end fails before the system has to choose whom to kill. No limit where the system does not tell.
pub(crate) fn free_limit() -> u64 {
    match free_bytes() {
        u64::MAX => u64::MAX,
        free => free / 2,
    }
}

/// How much memory is free now; without end where the system does not tell.
pub(crate) fn free_bytes() -> u64 {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let available = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).map(|kib| kib * 1024);
    // The group of processes that a container is.
    let group = number("/sys/fs/cgroup/memory.max").zip(number("/sys/fs/cgroup/memory.current"));
    let group = group.map(|(most, current)| most.saturating_sub(current));
    available.into_iter().chain(group).min().unwrap_or(u64::MAX)
}
