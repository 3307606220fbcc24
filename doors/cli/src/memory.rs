//! What the system says of this process' memory.

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
