//! How much of the machine this process may use: its affinity mask and its cgroups' CPU quota.

use super::sysfs;
pub use crate::pin::affinity;
use crate::set::Set;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The part that is read of a recorded file: a list of all mounts of a busy system is smaller.
const MOST_BYTES: u64 = 16 << 20;

/// How many threads suit this process: as [`vicus_topology::Topology::default_threads`] says it of
/// [`this_machine`](crate::this_machine), found without a look at caches and nodes.
pub fn default_threads() -> usize {
    let cpus = affinity().map_or_else(
        |_| std::thread::available_parallelism().map_or(1, |count| count.get()),
        |affinity| affinity.len(),
    );
    vicus_topology::threads_within(cpus, cpu_quota_millis(Path::new("/")))
}

/// The smallest CPU quota of this process's cgroups and all above them, in thousandths of a CPU; `None` is no limit.
/// `root` stands for `/`, for tests.
pub(super) fn cpu_quota_millis(root: &Path) -> Option<u32> {
    let read = |path: PathBuf| std::fs::read_to_string(path).ok();
    let memberships = read(root.join("proc/self/cgroup"))?;
    let mounts = read(root.join("proc/self/mountinfo"))?;
    let mut smallest: Option<u64> = None;
    for mount in mounts.lines().filter_map(Mount::parse) {
        // A line of /proc/self/cgroup is id:controllers:path; version 2 is `0::path`.
        let path = memberships.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let ours = if mount.unified {
                controllers.is_empty()
            } else {
                controllers.split(',').any(|controller| controller == "cpu")
            };
            ours.then_some(path)
        });
        let Some(path) = path else { continue };
        // In a container the mount shows a part of the hierarchy, and the path may begin outside of this part.
        let inside = Path::new(path).strip_prefix(mount.shows).unwrap_or(Path::new(""));
        for group in inside.ancestors() {
            let folder = root.join(mount.at.trim_start_matches('/')).join(group);
            let quota = if mount.unified {
                read(folder.join("cpu.max")).as_deref().and_then(version_2)
            } else {
                let number = |file| read(folder.join(file))?.trim().parse::<u64>().ok();
                // Without a limit the quota is -1, and so no u64.
                number("cpu.cfs_quota_us").zip(number("cpu.cfs_period_us"))
            };
            if let Some((quota, period)) = quota.filter(|&(_, period)| period > 0) {
                let millis = (quota.saturating_mul(1000) / period).max(1);
                smallest = Some(smallest.map_or(millis, |other| other.min(millis)));
            }
        }
    }
    smallest.map(|millis| u32::try_from(millis).unwrap_or(u32::MAX))
}

/// The sets of CPUs that a recorded process was confined to: by its mask, and by its cpuset. Of a running process,
/// the kernel's answer has both ([`affinity`]).
pub(super) fn recorded_cpus(root: &Path) -> Vec<Set> {
    let read = |path: &str| {
        let mut text = String::new();
        let file = sysfs::open(&root.join(path.trim_start_matches('/'))).ok()?;
        file.take(MOST_BYTES).read_to_string(&mut text).ok()?;
        Some(text)
    };
    let status = read("proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| Set::parse_list(line.strip_prefix("Cpus_allowed_list:")?).ok());
    let cpuset = || {
        let own = read("proc/self/cpuset")?;
        let mounts = read("proc/mounts")?;
        mounts.lines().find_map(|line| {
            // A line is `device mountpoint type options numbers`.
            let words: Vec<&str> = line.split(' ').collect();
            let files = match words[..] {
                [_, _, "cpuset", ..] => ["cpus", "cpuset.cpus"],
                [_, _, "cgroup", options, ..] if options.split(',').any(|option| option == "cpuset") => {
                    ["cpuset.cpus", "cpus"]
                }
                [_, _, "cgroup2", ..] => ["cpuset.cpus.effective", "cpuset.cpus"],
                _ => return None,
            };
            let text = files.iter().find_map(|file| read(&format!("{}{}/{file}", words[1], own.trim())))?;
            Set::parse_list(&text).ok()
        })
    };
    mask.into_iter().chain(cpuset()).collect()
}

/// `max 100000` or `250000 100000`: quota and period in microseconds.
fn version_2(text: &str) -> Option<(u64, u64)> {
    let (quota, period) = text.trim().split_once(' ')?;
    Some((quota.parse().ok()?, period.parse().ok()?))
}

/// The mount of a cgroup hierarchy with CPU limits.
struct Mount<'a> {
    /// Version 2.
    unified: bool,
    /// The shown part of the hierarchy.
    shows: &'a str,
    /// The mount point.
    at: &'a str,
}

impl Mount<'_> {
    /// A line of /proc/self/mountinfo: `id parent device root mountpoint options [tags] - type source options`.
    fn parse(line: &str) -> Option<Mount<'_>> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (shows, at) = (left.next()?, left.next()?);
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1)?);
        let unified = kind == "cgroup2";
        let version_1 = kind == "cgroup" && options.split(',').any(|option| option == "cpu");
        (unified || version_1).then_some(Mount { unified, shows, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file system with these files, removed when dropped.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, files: &[(&str, &str)]) -> Root {
            let root = std::env::temp_dir().join(format!("vicus-limits-{}-{name}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Root(root)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            // A leftover in the temporary folder does no harm.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const UNIFIED: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_smallest_quota_on_the_way_to_the_root_counts() {
        let root = Root::new(
            "v2",
            &[
                ("proc/self/cgroup", "0::/user.slice/app.scope\n"),
                ("proc/self/mountinfo", UNIFIED),
                ("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"),
                ("sys/fs/cgroup/user.slice/app.scope/cpu.max", "400000 100000\n"),
            ],
        );
        assert_eq!(cpu_quota_millis(&root.0), Some(1500));
    }

    #[test]
    fn a_part_of_a_cpu_has_a_thread() {
        let machine = crate::this_machine().topology;
        assert_eq!(default_threads(), machine.default_threads());
        for (millis, threads) in
            [(None, 8), (Some(1), 1), (Some(1500), 2), (Some(2000), 2), (Some(2001), 3), (Some(9000), 8)]
        {
            assert_eq!(vicus_topology::threads_within(8, millis), threads, "{millis:?}");
        }
    }

    #[test]
    fn max_is_no_limit() {
        let root = Root::new(
            "max",
            &[
                ("proc/self/cgroup", "0::/\n"),
                ("proc/self/mountinfo", UNIFIED),
                ("sys/fs/cgroup/cpu.max", "max 100000\n"),
            ],
        );
        assert_eq!(cpu_quota_millis(&root.0), None);
        assert_eq!(cpu_quota_millis(Path::new("/no/such/root")), None);
    }

    #[test]
    fn version_1_in_a_container_reads_the_part_that_is_mounted() {
        let root = Root::new(
            "v1",
            &[
                ("proc/self/cgroup", "4:memory:/docker/ab\n3:cpuset:/docker/ab\n2:cpu,cpuacct:/docker/ab\n0::/\n"),
                (
                    "proc/self/mountinfo",
                    "31 22 0:27 /docker/ab /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
                     32 22 0:28 /docker/ab /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n",
                ),
                ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"),
                ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ],
        );
        assert_eq!(cpu_quota_millis(&root.0), Some(500));
    }
}
