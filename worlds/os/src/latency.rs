//! Latency of a cache line between core groups: measured once for a machine, and later read from a file.
//!
//! Muddukrishna et al., 2015, §4.2: "home cache access latencies are calculated by benchmarking the interconnection
//! during runtime system initialization. The scheduler avoids recalculation by saving latencies across runs." Two
//! pinned threads send a line back and forth. Nothing here keeps a runtime from starting.

use crate::pin;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vicus_schedule::Latencies;
use vicus_topology::{CoreGroup, Pu, Topology};

/// Where latencies are kept that were measured once for a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LatencyFile {
    /// In this file. If it is about another machine, it is written anew.
    At(PathBuf),
    /// In this folder, in a file for each machine. Both are made when they are needed.
    In(PathBuf),
}

/// With more core groups than this it would take seconds, and they are single cores.
const MOST_GROUPS: usize = 64;

/// The latencies of this machine; `None` if there is nothing to tell apart, or nothing could be measured.
pub fn of_this_machine(
    topology: &Topology,
    kept: Option<&LatencyFile>,
    warnings: &mut Vec<String>,
) -> Option<Latencies> {
    let file = kept.map(|kept| kept.path(topology));
    kept_or_measured(topology, file.as_deref(), measure, warnings)
}

impl LatencyFile {
    fn path(&self, topology: &Topology) -> PathBuf {
        match self {
            LatencyFile::At(file) => file.clone(),
            LatencyFile::In(folder) => folder.join(format!("latency-{}.json", key(topology))),
        }
    }
}

fn kept_or_measured(
    topology: &Topology,
    file: Option<&Path>,
    measure: impl FnOnce(&Topology) -> Result<Vec<Vec<u32>>, String>,
    warnings: &mut Vec<String>,
) -> Option<Latencies> {
    let groups = topology.core_groups.len();
    if groups > MOST_GROUPS {
        warnings.push(format!(
            "latencies are not measured ({groups} core groups, and it is done for at most {MOST_GROUPS}): tasks are \
                dealt by the system's distances"
        ));
    }
    if !(2..=MOST_GROUPS).contains(&groups) {
        return None;
    }
    match file.map(|file| read(topology, file)) {
        Some(Ok(Some(kept))) if is_plausible(kept.as_rows()) => return Some(kept),
        Some(Ok(Some(_))) => {}
        Some(Err(reason)) => warnings.push(format!("{reason}; latencies are measured anew")),
        None | Some(Ok(None)) => {}
    }
    let measured = match measure(topology) {
        Ok(measured) => measured,
        Err(reason) => {
            warnings.push(format!("latencies are not measured ({reason}): tasks are dealt by the system's distances"));
            return None;
        }
    };
    if !is_plausible(&measured) {
        warnings.push(
            "the measured latencies are not used (a line of some core group takes longer within the group than from \
                another one, as on an emulated \
             machine): tasks are dealt by the system's distances"
                .to_owned(),
        );
        return None;
    }
    if let Some(file) = file
        && let Err(error) = write(topology, file, &measured)
    {
        let file = file.display();
        warnings.push(format!("{file}: can't be written ({error}): latencies will be measured again next time"));
    }
    Latencies::new(topology, measured)
}

/// Whether each core group gets its own lines at least about as soon as those of any other one. On emulated machines,
/// times are those of the emulator: tasks were dealt away from their data there.
fn is_plausible(latencies: &[Vec<u32>]) -> bool {
    let own = |group: usize| u64::from(latencies[group][group]);
    let is_least = |(group, row): (usize, &Vec<u32>)| row.iter().all(|&other| own(group) * 10 <= u64::from(other) * 11);
    latencies.iter().enumerate().all(is_least)
}

/// Identifies a machine in a file: the hash FNV-1a of its description, without the name and without values that
/// change between starts of the system or of a container: the bytes of each node, the quota, devices, and the
/// firmware's numbers.
pub fn key(topology: &Topology) -> String {
    let mut nameless =
        Topology { name: String::new(), cpu_quota_millis: None, devices: Vec::new(), ..topology.clone() };
    for node in &mut nameless.nodes {
        (node.bytes, node.speed, node.tier) = (node.bytes.min(1), None, None);
    }
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", nameless.to_json().bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

/// The latencies in the file; `None` if there is no file, or it is of another machine.
fn read(topology: &Topology, file: &Path) -> Result<Option<Latencies>, String> {
    let wrong = |what: &str| format!("{}: {what}", file.display());
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(&format!("can't be read ({error})"))),
    };
    let json: serde_json::Value = serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
    let known = json["topology"].as_str().ok_or_else(|| wrong("has no `topology`"))?;
    if known != key(topology) {
        return Ok(None);
    }
    let rows =
        serde_json::from_value(json["latency_ns"].clone()).map_err(|error| wrong(&format!("latency_ns: {error}")))?;
    let groups = topology.core_groups.len();
    let expected = || wrong(&format!("latency_ns: expected {groups} rows of {groups} numbers"));
    Latencies::new(topology, rows).ok_or_else(expected).map(Some)
}

fn write(topology: &Topology, file: &Path, measured: &[Vec<u32>]) -> std::io::Result<()> {
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    let json = serde_json::json!({ "topology": key(topology), "latency_ns": measured });
    replace(file, &format!("{json}\n"))
}

/// Writes a file in the presence of readers in other processes: they see the old content or the new one. A special file
/// is written in place.
pub fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let Some((file, half)) = beside(file) else { return std::fs::write(file, text) };
    let written = std::fs::write(&half, text).and_then(|()| std::fs::rename(&half, file));
    if written.is_err() {
        let _ = std::fs::remove_file(half);
    }
    written
}

/// The file behind a name, and the one beside it that takes its place when it is complete; `None` if it is no plain
/// file.
pub fn beside(file: &Path) -> Option<(PathBuf, PathBuf)> {
    let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    // A remaining link leads nowhere yet.
    if file.is_symlink() || file.exists() && !file.is_file() {
        return None;
    }
    let mut half = file.as_os_str().to_owned();
    half.push(format!(".{}", std::process::id()));
    Some((file, half.into()))
}

/// By core group and core group, in nanoseconds. A way to a group without usable PUs counts as the longest other one.
fn measure(topology: &Topology) -> Result<Vec<Vec<u32>>, String> {
    let (groups, until) = (&topology.core_groups, Instant::now() + LONGEST);
    let mut ways = vec![vec![None; groups.len()]; groups.len()];
    for (a, from) in groups.iter().enumerate() {
        for (b, to) in groups.iter().enumerate().skip(a) {
            if Instant::now() > until {
                return Err("it takes too long".to_owned());
            }
            let way = ends(topology, from, to).map(|(from, to)| one_way(from, to)).transpose()?;
            (ways[a][b], ways[b][a]) = (way, way);
        }
    }
    let longest = ways.iter().flatten().flatten().copied().max().ok_or("no CPU may be used")?;
    Ok(ways.into_iter().map(|row| row.into_iter().map(|way| way.unwrap_or(longest)).collect()).collect())
}

/// A CPU of each of two groups; within one group of two cores, if it has as many. The same twice for a group of one.
fn ends(topology: &Topology, from: &CoreGroup, to: &CoreGroup) -> Option<(u32, u32)> {
    let usable = |group: &CoreGroup| -> Vec<&Pu> {
        group.pus.iter().map(|pu| &topology.pus[pu.index()]).filter(|pu| pu.usable).collect()
    };
    let (from, to) = (usable(from), usable(to));
    let first = *from.first()?;
    let other = to.iter().find(|pu| pu.core != first.core).or(to.last())?;
    Some((first.os_index, other.os_index))
}

/// A cache line, and its neighbour fetched with it.
#[repr(align(128))]
struct Line(AtomicU64);

const ROUNDS: u64 = 100;
const SAMPLES: usize = 7;

/// How long two CPUs may take: each waits for the other, and may be kept from running.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long a runtime's start may take for this.
const LONGEST: Duration = Duration::from_secs(5);

/// Half of the median time of a line's trip to another CPU and back, in nanoseconds.
fn one_way(from: u32, to: u32) -> Result<u32, String> {
    if from == to {
        return std::thread::scope(|scope| scope.spawn(|| pinned(from, own_line)).join().expect("it does not panic"));
    }
    let (line, stop) = (Line(AtomicU64::new(0)), AtomicBool::new(false));
    let until = Instant::now() + PATIENCE;
    // Waits for a number; `false` if it takes too long.
    let wait = |number: u64| {
        let mut turns = 0u32;
        while line.0.load(Ordering::Acquire) != number {
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(1 << 12) && (stop.load(Ordering::Relaxed) || Instant::now() > until) {
                stop.store(true, Ordering::Relaxed);
                return false;
            }
            std::hint::spin_loop();
        }
        true
    };
    let last = ROUNDS * (SAMPLES as u64 + 1);
    let answer = || {
        for round in 0..last {
            if !wait(2 * round + 1) {
                return;
            }
            line.0.store(2 * round + 2, Ordering::Release);
        }
    };
    let ask = || {
        let mut samples = Vec::with_capacity(SAMPLES + 1);
        for sample in 0..=SAMPLES as u64 {
            let began = Instant::now();
            for round in sample * ROUNDS..(sample + 1) * ROUNDS {
                line.0.store(2 * round + 1, Ordering::Release);
                if !wait(2 * round + 2) {
                    return None;
                }
            }
            samples.push(began.elapsed());
        }
        // The first one waited for the other thread to start.
        Some(nanoseconds(&mut samples[1..], 2 * ROUNDS))
    };
    std::thread::scope(|scope| {
        let answering = scope.spawn(|| pinned(to, answer).inspect_err(|_| stop.store(true, Ordering::Relaxed)));
        let asked = scope.spawn(|| pinned(from, ask).inspect_err(|_| stop.store(true, Ordering::Relaxed)));
        let (answered, asked) = (answering.join(), asked.join());
        answered.expect("it does not panic")?;
        asked.expect("it does not panic")?.ok_or_else(|| format!("CPU {from} or {to} has too much to do"))
    })
}

/// For a group of one PU: a line in its own cache.
fn own_line() -> u32 {
    let line = Line(AtomicU64::new(0));
    let mut samples = [(); SAMPLES].map(|()| {
        let began = Instant::now();
        for _ in 0..ROUNDS {
            std::hint::black_box(&line).0.fetch_add(1, Ordering::AcqRel);
        }
        began.elapsed()
    });
    nanoseconds(&mut samples, ROUNDS)
}

/// The median of some times, for each of this number of ways; at least 1.
fn nanoseconds(samples: &mut [Duration], ways: u64) -> u32 {
    samples.sort_unstable();
    let each = samples[samples.len() / 2].as_nanos() / u128::from(ways);
    u32::try_from(each).unwrap_or(u32::MAX).max(1)
}

/// Runs something on a CPU; the calling thread stays there.
fn pinned<R>(cpu: u32, run: impl FnOnce() -> R) -> Result<R, String> {
    let done = pin::pin(std::iter::once(cpu)).map(|()| run());
    done.map_err(|error| format!("no thread can be pinned to CPU {cpu}: {error}"))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A folder, removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("vicus-latency-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Reads the file, or measures; a measurement gives `gives`. Returns a latency, the number of measurements, and the
    /// warnings.
    fn ask(topology: &Topology, file: &Path, gives: Result<u32, &str>) -> (Option<u32>, u32, Vec<String>) {
        let (times, mut warnings) = (Cell::new(0), Vec::new());
        let groups = topology.core_groups.len();
        let measure = |_: &Topology| {
            times.set(times.get() + 1);
            gives.map(|ns| vec![vec![ns; groups]; groups]).map_err(str::to_owned)
        };
        let found = kept_or_measured(topology, Some(file), measure, &mut warnings);
        (found.map(|found| found.as_rows()[0][0]), times.get(), warnings)
    }

    #[test]
    fn they_are_measured_once_for_a_machine_and_anew_for_another() {
        let folder = Folder::new("once");
        // The folder in between is made.
        let file = folder.0.join("cache/vicus/latency.json");
        let machine = Topology::parse("l3:2 core:2").unwrap();
        assert_eq!(ask(&machine, &file, Ok(7)), (Some(7), 1, vec![]));
        assert_eq!(ask(&machine, &file, Ok(9)), (Some(7), 0, vec![]));
        let renamed = Topology { name: "another name".to_owned(), ..machine.clone() };
        assert_eq!(ask(&renamed, &file, Ok(9)), (Some(7), 0, vec![]), "a name says nothing of distances");
        let other = Topology::parse("l3:3 core:2").unwrap();
        assert_eq!(ask(&other, &file, Ok(9)), (Some(9), 1, vec![]));
        assert_eq!(ask(&machine, &file, Ok(8)), (Some(8), 1, vec![]));
        assert_eq!(ask(&Topology::parse("core:2 pu:2 l2:1").unwrap(), &file, Ok(8)).1, 1, "two groups of a core");
        assert_eq!(
            ask(&Topology::parse("l3:1 core:4").unwrap(), &file, Ok(8)),
            (None, 0, vec![]),
            "one group has no ways"
        );
        let (found, times, warnings) = ask(&Topology::parse("l3:65 core:1").unwrap(), &file, Ok(8));
        assert_eq!((found, times, warnings.len()), (None, 0, 1), "more would take minutes");
        assert!(warnings[0].contains("65 core groups"), "{warnings:?}");
        let left: Vec<_> = std::fs::read_dir(file.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "nothing half written is left");
    }

    /// What happened: in an emulated machine of two nodes, a group's own lines were measured to take longest, and tasks
    /// were dealt to the node without their data.
    #[test]
    fn latencies_by_which_a_groups_own_lines_are_far_are_not_used() {
        let folder = Folder::new("noise");
        let file = folder.0.join("latency.json");
        let machine = Topology::parse("node:2 l3:1 core:2").unwrap();
        let found = |rows: [[u32; 2]; 2]| {
            let mut warnings = Vec::new();
            let measure = |_: &Topology| Ok(rows.map(Vec::from).to_vec());
            let found = kept_or_measured(&machine, Some(&file), measure, &mut warnings).is_some();
            assert_eq!(warnings.len(), usize::from(!found), "{warnings:?}");
            (found, file.exists())
        };
        assert_eq!(found([[300, 200], [600, 100]]), (false, false), "and none of them is kept");
        assert_eq!(found([[100, 200], [200, 219]]), (true, true), "a tenth is within what is measured");
    }

    #[test]
    fn a_folder_has_a_file_for_each_machine() {
        let [one, same, other] =
            ["l3:2 core:2", "l3:2 core:2", "l3:3 core:2"].map(|text| Topology::parse(text).unwrap());
        let file = |machine| LatencyFile::In(PathBuf::from("/cache/vicus")).path(machine);
        assert_eq!(file(&one), file(&same));
        assert_ne!(file(&one), file(&other));
        assert_eq!(file(&one).parent(), Some(Path::new("/cache/vicus")));
        assert_eq!(LatencyFile::At(PathBuf::from("a.json")).path(&one), Path::new("a.json"));
    }

    #[test]
    fn what_is_broken_is_told_and_never_fatal() {
        let folder = Folder::new("broken");
        let file = folder.0.join("latency.json");
        let machine = Topology::parse("l3:2 core:2").unwrap();
        let key = key(&machine);
        for (text, expected) in [
            ("not json".to_owned(), "line 1 column"),
            ("{}".to_owned(), "has no `topology`"),
            (format!(r#"{{"topology":"{key}"}}"#), "latency_ns"),
            (format!(r#"{{"topology":"{key}","latency_ns":[[1,2],[3,-4]]}}"#), "latency_ns: invalid value"),
            (format!(r#"{{"topology":"{key}","latency_ns":[[1]]}}"#), "expected 2 rows of 2 numbers"),
        ] {
            std::fs::write(&file, &text).unwrap();
            let (found, times, warnings) = ask(&machine, &file, Ok(5));
            assert_eq!((found, times, warnings.len()), (Some(5), 1, 1), "{text}");
            assert!(warnings[0].contains(expected) && warnings[0].contains("latency.json"), "{warnings:?}");
            assert_eq!(ask(&machine, &file, Ok(6)), (Some(5), 0, vec![]), "it was mended");
        }
        let below_a_file = file.join("latency.json");
        let (found, _, warnings) = ask(&machine, &below_a_file, Ok(5));
        assert!(
            found == Some(5) && warnings.iter().any(|warning| warning.contains("can't be written")),
            "{warnings:?}"
        );
        let (found, _, warnings) = ask(&machine, &folder.0.join("none.json"), Err("no luck"));
        assert!(found.is_none() && warnings[0].contains("not measured (no luck)"), "{warnings:?}");
        assert!(!folder.0.join("none.json").exists());
    }

    /// Tries again while other programs keep the CPUs busy.
    fn patiently<R>(measure: impl Fn() -> Result<R, String>) -> R {
        let mut results = std::iter::repeat_with(measure).take(200);
        results.find_map(Result::ok).expect("after 200 times it should have been measured once")
    }

    #[test]
    fn a_line_takes_longer_between_cpus_than_within_one() {
        let usable: Vec<u32> = crate::this_machine().topology.usable_pus().map(|pu| pu.os_index).collect();
        let own = patiently(|| one_way(usable[0], usable[0]));
        assert!((1..1000).contains(&own), "{own} ns");
        if let [first, .., last] = usable[..] {
            let between = patiently(|| one_way(first, last));
            assert!((own..100_000).contains(&between), "another CPU's line after {between} ns, its own after {own}");
        }
        let error = one_way(usable[0], 1 << 20).unwrap_err();
        assert!(error.contains("1048576"), "{error}");
    }

    #[test]
    fn ways_to_groups_that_may_not_be_used_are_long() {
        let own = crate::this_machine().topology;
        let cpus: Vec<u32> = own.usable_pus().map(|pu| pu.os_index).collect();
        let mut machine = Topology::parse("l3:2 core:2").unwrap();
        machine.pus.iter_mut().for_each(|pu| pu.os_index = cpus[pu.id.index() % cpus.len()]);
        machine.pus[2..].iter_mut().for_each(|pu| pu.usable = false);
        let ways = patiently(|| measure(&machine));
        assert!(ways[0][0] >= 1);
        assert_eq!([ways[0][1], ways[1][0], ways[1][1]], [ways[0][0]; 3]);
    }
}
