//! A recorded run of plain tasks as a program, such as an OpenMP program's.
//!
//! Each task keeps its declared data, its working time, and the places of its spawns and waits. Siblings are ordered
//! anew by their data, so that the order is the program's and not the recorded run's. Arrays are the ranges of bytes
//! named by tasks; touching ranges are one, unless the trace knows a beginning of another array between them. An array
//! read by tasks before any write was written by the program itself: the first seat touches its pages before the
//! measured part begins.
//!
//! The members of a team are one task each between two barriers, on the seat of their number: loops are divided as they
//! were for the recorded threads. A barrier waits for all tasks of its team. The first thread's work between two
//! regions is work of the first seat, without declared data.
//!
//! Groups, joins and tasks awaited at once by their spawners are sections. A wait for a group waits for the children
//! alone, and one for all children, within a section, for those of the section. A task's working time includes its
//! spawns on the recording machine, of which the shortest time between two spawns is subtracted for each. It also
//! includes waits for locks, or for events of detached tasks: they are not recorded.

use crate::recorded::title;
use crate::replay::EventAt;
use crate::{ArraySpec, Cost, Program, Replay, ReplayError, ReplayOptions, Step, TaskSpec, Work};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use vicus_schedule::{Access, Dependences, Kind, Mode, RequestId};
use vicus_trace::{Awaits, JobId, TaskKind, Trace, Use, What};

/// The alignment of arrays in the simulated machine's memory: a large page, so that no page has parts of two.
const ALIGN: usize = 1 << 21;

/// More bytes of data are a mistake: pages are counted one by one.
const MOST_BYTES: usize = 64 << 30;

/// The leaf of tasks with an unknown function.
const TASK: &str = "(task)";
/// The leaf of the work between regions.
const BETWEEN: &str = "(between regions)";

/// Whether a trace has tasks and no boxes.
pub(crate) fn is_of_tasks(trace: &Trace) -> bool {
    let all = || trace.logs().iter().flat_map(|log| &log.events).map(|event| event.what);
    let has_task = all().any(|what| matches!(what, What::UserCodeBegins { who } if who.number().is_some()));
    has_task && !all().any(|what| matches!(what, What::InvocationBegins { who } if who.is_box()))
}

/// Makes a program of it.
pub(crate) fn replay(trace: &Trace, options: &ReplayOptions) -> Result<Replay, ReplayError> {
    if options.copies != 1 || !options.requests.is_empty() {
        return Err(ReplayError::Tasks { expected: "one copy of all its requests".to_owned() });
    }
    let mut reader = Reader::new(trace);
    for entry in trace.merged() {
        let at = EventAt { seat: entry.seat, event: entry.index };
        reader
            .read(entry.seat, entry.event.time_ns, entry.event.what)
            .map_err(|expected| ReplayError::odd(at, expected))?;
    }
    let Reader { tasks, .. } = reader;
    let regions = regions(&tasks)?;
    let writer = Writer::new(trace, &tasks, options);
    if writer
        .arrays
        .recorded
        .iter()
        .try_fold(0usize, |all, range| all.checked_add(range.len()))
        .is_none_or(|all| all > MOST_BYTES)
    {
        return Err(ReplayError::Tasks { expected: format!("data of at most {} GiB", MOST_BYTES >> 30) });
    }
    Ok(writer.write(&regions))
}

/// A recorded task.
#[derive(Debug, Default)]
struct Task {
    request: u32,
    /// Its spawner.
    by: Option<usize>,
    /// Whether its spawn has been seen.
    is_spawned: bool,
    kind: Option<Kind>,
    function: Option<u32>,
    /// The data that order it among its siblings.
    ordered: Vec<Access>,
    /// The data it uses.
    uses: Vec<Access>,
    parts: Vec<Part>,
    /// Its seat and time at the beginning, and the time of its end.
    seat: usize,
    begins: Option<u64>,
    ends: u64,
}

/// A step of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    /// Worked for this number of nanoseconds.
    Works(u64),
    Spawns(usize),
    /// A section began.
    Opens,
    /// Waited for its section's children.
    Closes,
    /// Waited for its children.
    Waits,
    /// Waited for the tasks and the other members of its team.
    Gathers,
}

/// Code running on a seat.
struct Open {
    task: usize,
    since_ns: u64,
    waits: bool,
}

struct Reader {
    tasks: Vec<Task>,
    numbers: FxHashMap<JobId, usize>,
    /// By seat, the tasks with running code, the innermost last.
    running: Vec<Vec<Open>>,
    /// By seat, an access before its length.
    begun: Vec<Option<What>>,
}

impl Reader {
    fn new(trace: &Trace) -> Reader {
        let seats = trace.logs().len();
        Reader {
            tasks: Vec::new(),
            numbers: FxHashMap::default(),
            running: (0..seats).map(|_| Vec::new()).collect(),
            begun: vec![None; seats],
        }
    }

    fn task(&mut self, who: JobId) -> Result<usize, String> {
        if who.number().is_none() {
            return Err("a task with a number".to_owned());
        }
        let tasks = &mut self.tasks;
        Ok(*self.numbers.entry(who).or_insert_with(|| {
            tasks.push(Task { request: who.request, ..Task::default() });
            tasks.len() - 1
        }))
    }

    /// Counts the time up to now for a seat's running code.
    fn charge(&mut self, seat: usize, now_ns: u64) {
        let Some(open) = self.running[seat].last_mut() else { return };
        let worked = now_ns.saturating_sub(std::mem::replace(&mut open.since_ns, now_ns));
        if !open.waits && worked > 0 {
            match self.tasks[open.task].parts.last_mut() {
                Some(Part::Works(ns)) => *ns += worked,
                _ => self.tasks[open.task].parts.push(Part::Works(worked)),
            }
        }
    }

    fn read(&mut self, seat: usize, now_ns: u64, what: What) -> Result<(), String> {
        match what {
            What::Follows { .. } | What::Uses { .. } => self.begun[seat] = Some(what),
            What::UsesBytes { who, .. } => {
                let begun = self.begun[seat].take().ok_or("an address before its length")?;
                if begun.who() != Some(who) {
                    return Err("the length of an address of the same task".to_owned());
                }
                let (address, bytes) = (begun.number().unwrap_or(0) as usize, what.number().unwrap_or(0) as usize);
                let (What::Follows { how, .. } | What::Uses { how, .. }) = begun else {
                    unreachable!("only these begin an access")
                };
                let mode = match how {
                    Use::Reads => Mode::Read,
                    Use::Writes => Mode::Write,
                    Use::ReadsAndWrites => Mode::ReadWrite,
                    Use::Concurrent => Mode::Concurrent,
                    Use::Commutative => Mode::Commutative,
                };
                let task = self.task(who)?;
                let access = Access::new(address, bytes, mode);
                // A single byte is an address for ordering tasks, and all memory is no array.
                if bytes > 1 && bytes < (1 << 48) - 1 {
                    self.tasks[task].uses.push(Access { mode: plain(mode), ..access });
                }
                if matches!(begun, What::Follows { .. }) {
                    self.tasks[task].ordered.push(access);
                }
            }
            What::Enqueued { who, by, .. } | What::Spawned { who, by } => {
                let task = self.task(who)?;
                if let What::Enqueued { kind, .. } = what {
                    let kind = if kind == TaskKind::Immediate { Kind::Immediate } else { Kind::Deferred };
                    self.tasks[task].kind.get_or_insert(kind);
                }
                if !self.tasks[task].is_spawned {
                    self.tasks[task].is_spawned = true;
                    self.spawned(seat, now_ns, task, JobId { request: who.request, index: by })?;
                }
            }
            What::UserCodeBegins { who } => {
                self.charge(seat, now_ns);
                let task = self.task(who)?;
                self.running[seat].push(Open { task, since_ns: now_ns, waits: false });
                let task = &mut self.tasks[task];
                if task.begins.is_none() {
                    (task.begins, task.seat) = (Some(now_ns), seat);
                }
            }
            What::UserCodeEnds { who } => {
                self.charge(seat, now_ns);
                let task = self.task(who)?;
                let at = self.running[seat].iter().rposition(|open| open.task == task);
                self.running[seat].truncate(at.ok_or("the beginning of a task before its end")?);
                self.tasks[task].ends = now_ns;
                if let Some(open) = self.running[seat].last_mut() {
                    open.since_ns = now_ns;
                }
            }
            What::SectionBegins { who } => {
                self.charge(seat, now_ns);
                let task = self.task(who)?;
                self.tasks[task].parts.push(Part::Opens);
            }
            What::WaitBegins { who, .. } | What::WaitEnds { who } => {
                self.charge(seat, now_ns);
                let task = self.task(who)?;
                if let What::WaitBegins { awaits, .. } = what {
                    self.tasks[task].parts.push(match awaits {
                        Awaits::Children => Part::Waits,
                        Awaits::Section => Part::Closes,
                        Awaits::Team => Part::Gathers,
                    });
                }
                // A task ended by a panic has left waits open.
                if let Some(open) = self.running[seat].last_mut().filter(|open| open.task == task) {
                    open.waits = matches!(what, What::WaitBegins { .. });
                }
            }
            // A sleeping thread does not work, in any wait.
            What::SleepBegins => self.charge(seat, now_ns),
            What::SleepEnds => {
                if let Some(open) = self.running[seat].last_mut() {
                    open.since_ns = now_ns;
                }
            }
            What::Named { who, function } => {
                let task = self.task(who)?;
                self.tasks[task].function = Some(function);
            }
            _ => {}
        }
        Ok(())
    }

    fn spawned(&mut self, seat: usize, now_ns: u64, task: usize, by: JobId) -> Result<(), String> {
        if by.index == JobId::NONE {
            return Ok(());
        }
        self.charge(seat, now_ns);
        let by = self.task(by)?;
        self.tasks[task].by = Some(by);
        self.tasks[by].parts.push(Part::Spawns(task));
        Ok(())
    }
}

/// A use of memory without its part for ordering alone.
fn plain(mode: Mode) -> Mode {
    if mode.writes() && mode != Mode::Write { Mode::ReadWrite } else { mode }
}

/// Tasks without a spawner that belong together: the members of a team, in one region.
struct Region {
    /// By member, its task.
    members: Vec<usize>,
    begins: u64,
    ends: u64,
    is_of_team: bool,
}

/// The regions, in the order of their beginnings.
fn regions(tasks: &[Task]) -> Result<Vec<Region>, ReplayError> {
    // A member takes part in each region of its team, so the regions are numbered alike on all of its seats.
    let mut by_number: BTreeMap<(u32, usize), Vec<usize>> = BTreeMap::new();
    let mut counts: FxHashMap<(u32, usize), usize> = FxHashMap::default();
    let mut roots: Vec<usize> = (0..tasks.len()).filter(|&task| tasks[task].by.is_none()).collect();
    roots.retain(|&task| tasks[task].begins.is_some());
    roots.sort_by_key(|&task| tasks[task].begins);
    for task in roots {
        let count = counts.entry((tasks[task].request, tasks[task].seat)).or_default();
        by_number.entry((tasks[task].request, *count)).or_default().push(task);
        *count += 1;
    }
    let region = |mut members: Vec<usize>| {
        members.sort_by_key(|&task| tasks[task].seat);
        // The first member is the thread that entered the region. Others may come late, and leave when the next one has
        // begun.
        let first = &tasks[members[0]];
        let (begins, ends) = (first.begins.unwrap_or(0), first.ends);
        let is_of_team = members.iter().any(|&task| tasks[task].parts.contains(&Part::Gathers));
        Region { members, begins, ends, is_of_team }
    };
    let mut regions: Vec<Region> = by_number.into_values().map(region).collect();
    regions.sort_by_key(|region| region.begins);
    if regions.is_empty() {
        return Err(ReplayError::Tasks { expected: "a task that came from outside, and ran".to_owned() });
    }
    let overlaps = |pair: &[Region]| pair[0].is_of_team && pair[1].is_of_team && pair[1].begins < pair[0].ends;
    if regions.windows(2).any(overlaps) {
        let expected = "parallel regions one after the other, and none within another one".to_owned();
        return Err(ReplayError::Tasks { expected });
    }
    Ok(regions)
}

struct Writer<'a> {
    recorded: &'a [Task],
    options: &'a ReplayOptions,
    leaves: Vec<String>,
    arrays: Arrays,
    tasks: Vec<TaskSpec>,
    name: String,
    /// By recorded task, its number in the program.
    numbers: Vec<Option<u32>>,
    /// The cost of a spawn on the recording machine, in nanoseconds.
    spawn_ns: u64,
    recorded_ns: f64,
    taken_off_ns: f64,
}

impl<'a> Writer<'a> {
    fn new(trace: &Trace, recorded: &'a [Task], options: &'a ReplayOptions) -> Writer<'a> {
        let between = |parts: &[Part]| match parts {
            &[Part::Spawns(_), Part::Works(ns), Part::Spawns(_)] => Some(ns),
            _ => None,
        };
        let gaps = recorded.iter().flat_map(|task| task.parts.windows(3).filter_map(between));
        let mut leaves = vec![TASK.to_owned(), BETWEEN.to_owned()];
        leaves.extend(trace.header().functions.iter().cloned());
        Writer {
            recorded,
            options,
            leaves,
            arrays: Arrays::new(trace, recorded),
            tasks: vec![TaskSpec { pinned: Some(0), steps: vec![Step::Start], ..TaskSpec::default() }],
            name: title("replay", trace),
            numbers: vec![None; recorded.len()],
            spawn_ns: gaps.min().unwrap_or(0),
            recorded_ns: 0.0,
            taken_off_ns: 0.0,
        }
    }

    fn write(mut self, regions: &[Region]) -> Replay {
        // The tasks that end each region, with the times.
        let mut ended: Vec<(u64, u32)> = Vec::new();
        for region in regions {
            // The last region to end before this one began.
            let before = ended.iter().rev().find(|(ends, _)| *ends <= region.begins).copied();
            let mut after: Vec<u32> = before.iter().map(|&(_, task)| task).collect();
            if let Some((ends, _)) = before.filter(|_| region.is_of_team) {
                let cost = Cost::Nanos((region.begins - ends) as f64);
                self.recorded_ns += (region.begins - ends) as f64;
                let work = Work { leaf: 1, cost, accesses: Vec::new() };
                after = vec![self.root(TaskSpec {
                    pinned: Some(0),
                    after,
                    steps: vec![Step::Work(work)],
                    ..TaskSpec::default()
                })];
            }
            let last = self.region(region, after);
            ended.push((region.ends, last));
        }
        let (tasks, arrays) = (self.tasks.len(), self.arrays.specs(self.options));
        let written = self.arrays.written_before(self.recorded);
        if !written.is_empty() {
            let touch = Work { leaf: 1, cost: Cost::Nanos(0.0), accesses: written };
            self.tasks[0].steps.insert(0, Step::Work(touch));
        }
        Replay {
            program: Program {
                name: self.name,
                heap: arrays.len()..arrays.len(),
                arrays,
                leaves: self.leaves,
                tasks: self.tasks,
            },
            boxes: vec![None; tasks],
            recorded_ns: self.recorded_ns,
            taken_off_ns: self.taken_off_ns,
        }
    }

    /// A task spawned by the first one.
    fn root(&mut self, task: TaskSpec) -> u32 {
        let number = self.tasks.len() as u32;
        self.tasks.push(task);
        match self.tasks[0].steps.last_mut() {
            Some(Step::Spawn(range)) if range.end == number => range.end += 1,
            _ => self.tasks[0].steps.push(Step::Spawn(number..number + 1)),
        }
        number
    }

    /// The tasks of a region, which begins after these. Returns the task at its end.
    fn region(&mut self, region: &Region, mut after: Vec<u32>) -> u32 {
        // By member, its parts between barriers.
        let between: Vec<Vec<&[Part]>> = (region.members.iter())
            .map(|&task| self.recorded[task].parts.split(|part| *part == Part::Gathers).collect())
            .collect();
        let phases = between.iter().map(Vec::len).max().unwrap_or(0);
        for phase in 0..phases {
            let first = self.tasks.len() as u32;
            for (member, parts) in between.iter().enumerate() {
                let Some(parts) = parts.get(phase) else { continue };
                let task = &self.recorded[region.members[member]];
                let pinned = region.is_of_team.then_some(member);
                let spec = TaskSpec {
                    kind: task.kind.unwrap_or(Kind::Deferred),
                    request: RequestId::new(u64::from(task.request)),
                    pinned,
                    after: after.clone(),
                    ..TaskSpec::default()
                };
                let number = self.root(spec);
                self.fill(number, region.members[member], parts);
            }
            // All tasks made for this phase, including tasks of tasks.
            let all = (first..self.tasks.len() as u32).collect();
            after = vec![self.root(TaskSpec { pinned: Some(0), after: all, ..TaskSpec::default() })];
        }
        after[0]
    }

    /// Writes the steps of a task, and its spawned tasks.
    fn fill(&mut self, number: u32, task: usize, parts: &[Part]) {
        // Tasks may be nested deeply, so the open ones are in a list.
        let mut open = vec![(number, task, parts.to_vec())];
        while let Some((number, task, parts)) = open.pop() {
            let steps = self.steps(task, &parts);
            self.tasks[number as usize].steps = steps;
            let children: Vec<usize> = parts
                .iter()
                .filter_map(|part| match part {
                    Part::Spawns(child) if self.numbers[*child].is_some() => Some(*child),
                    _ => None,
                })
                .collect();
            let mut dependences = Dependences::new();
            for child in children {
                let own = self.numbers[child].expect("these have numbers");
                let mut after = Vec::new();
                let recorded = &self.recorded[child];
                dependences.add(own as usize, &recorded.ordered, &mut after);
                let spec = &mut self.tasks[own as usize];
                spec.after = after.into_iter().map(|earlier| earlier as u32).collect();
                // A task spawned between barriers has no barriers of its own.
                let inner = recorded.parts.iter().filter(|part| **part != Part::Gathers).copied().collect();
                open.push((own, child, inner));
            }
        }
    }

    /// The data used by a task.
    fn uses(&self, task: &Task) -> Vec<Access> {
        task.uses.iter().map(|access| self.arrays.access(access)).collect()
    }

    /// The steps of a task. Its spawned tasks get their numbers here.
    fn steps(&mut self, task: usize, parts: &[Part]) -> Vec<Step> {
        let recorded = &self.recorded[task];
        let leaf = recorded.function.and_then(|function| function.checked_add(2)).unwrap_or(0);
        let leaf = if (leaf as usize) < self.leaves.len() { leaf } else { 0 };
        let is_before_spawn = |at: usize| matches!(parts.get(at + 1), Some(Part::Spawns(_)));
        let works = |at: usize, ns: u64| if is_before_spawn(at) { ns.saturating_sub(self.spawn_ns) } else { ns };
        // Its data are used in its longest work.
        let longest = parts
            .iter()
            .enumerate()
            .filter_map(|(at, part)| match part {
                Part::Works(ns) => Some((works(at, *ns), std::cmp::Reverse(at))),
                _ => None,
            })
            .max()
            .map(|(_, std::cmp::Reverse(at))| at);
        let (mut steps, mut sections) = (Vec::new(), 0usize);
        for (at, part) in parts.iter().enumerate() {
            match part {
                Part::Works(recorded_ns) => {
                    let ns = works(at, *recorded_ns) as f64;
                    let accesses = if Some(at) == longest { self.uses(recorded) } else { Vec::new() };
                    let bytes: usize = accesses.iter().map(Access::total_bytes).sum();
                    let memory = (bytes as f64 / self.options.bytes_per_ns).min(ns);
                    self.recorded_ns += *recorded_ns as f64;
                    self.taken_off_ns += *recorded_ns as f64 - ns + memory;
                    steps.push(Step::Work(Work { leaf, cost: Cost::Nanos(ns - memory), accesses }));
                }
                Part::Spawns(child) => {
                    let child = *child;
                    let spawned = &self.recorded[child];
                    // A task that never ran was dropped.
                    if spawned.begins.is_none() {
                        continue;
                    }
                    let number = self.tasks.len() as u32;
                    self.numbers[child] = Some(number);
                    let accesses = self.uses(spawned);
                    self.tasks.push(TaskSpec {
                        kind: spawned.kind.unwrap_or(Kind::Deferred),
                        request: RequestId::new(u64::from(spawned.request)),
                        accesses,
                        ..TaskSpec::default()
                    });
                    steps.push(Step::Spawn(number..number + 1));
                }
                Part::Opens => {
                    sections += 1;
                    steps.push(Step::Open);
                }
                // A part that begins within a section has not opened it.
                Part::Closes if sections == 0 => steps.push(Step::Wait),
                Part::Closes => {
                    sections -= 1;
                    steps.push(Step::Wait);
                }
                Part::Waits => {
                    steps.push(Step::Wait);
                    if sections > 0 {
                        // The wait has closed it.
                        steps.push(Step::Open);
                    }
                }
                Part::Gathers => {}
            }
        }
        steps
    }
}

/// The trace's blocks of known length with some bytes in these ranges, sorted by their beginnings: a distribution lays
/// out whole blocks. None if they are too many bytes to be simulated.
fn whole(trace: &Trace, named: &[Range<usize>]) -> Vec<Range<usize>> {
    let header = trace.header();
    let blocks = header.arrays.iter().zip(&header.array_bytes);
    let blocks = blocks.map(|(&from, &bytes)| from as usize..(from as usize).saturating_add(bytes as usize));
    let is_named = |block: &Range<usize>| {
        let before = named.partition_point(|range| range.start < block.end);
        // Ranges of another block end there, so the last one before the end decides.
        named[..before].last().is_some_and(|range| range.end > block.start)
    };
    let blocks: Vec<Range<usize>> = blocks.filter(is_named).collect();
    let all = blocks.iter().try_fold(0usize, |all, block| all.checked_add(block.len()));
    if all.is_some_and(|all| all <= MOST_BYTES) { blocks } else { Vec::new() }
}

/// The arrays of all named data, by the recorded addresses; and the place of each in the program.
struct Arrays {
    recorded: Vec<Range<usize>>,
    bases: Vec<usize>,
}

impl Arrays {
    fn new(trace: &Trace, tasks: &[Task]) -> Arrays {
        let borders: BTreeSet<usize> = trace.header().arrays.iter().map(|&address| address as usize).collect();
        let mut ranges: Vec<Range<usize>> =
            tasks.iter().flat_map(|task| &task.uses).flat_map(Access::stretches).collect();
        ranges.sort_by_key(|range| range.start);
        ranges.extend(whole(trace, &ranges));
        ranges.sort_by_key(|range| range.start);
        let mut recorded: Vec<Range<usize>> = Vec::new();
        for range in ranges {
            match recorded.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                Some(last) if range.start == last.end && !borders.contains(&range.start) => last.end = range.end,
                _ => recorded.push(range),
            }
        }
        let mut free = ALIGN;
        let base = |range: &Range<usize>| {
            let base = free;
            free = (base + range.len() + 1).next_multiple_of(ALIGN);
            base
        };
        let bases = recorded.iter().map(base).collect();
        Arrays { recorded, bases }
    }

    /// Translates a recorded task's access to the program's.
    fn access(&self, access: &Access) -> Access {
        let at = self.recorded.partition_point(|range| range.start <= access.start) - 1;
        Access { start: access.start - self.recorded[at].start + self.bases[at], ..*access }
    }

    /// Writes to the arrays read by tasks before one of them writes there.
    fn written_before(&self, tasks: &[Task]) -> Vec<Access> {
        let mut reads_first: Vec<Option<bool>> = vec![None; self.recorded.len()];
        for access in tasks.iter().flat_map(|task| &task.uses) {
            let at = self.recorded.partition_point(|range| range.start <= access.start) - 1;
            reads_first[at].get_or_insert(access.mode != Mode::Write);
        }
        let arrays = self.recorded.iter().zip(&self.bases).zip(reads_first);
        let written = arrays.filter(|(_, reads_first)| *reads_first == Some(true));
        written.map(|((range, &base), _)| Access::new(base, range.len(), Mode::Write)).collect()
    }

    fn specs(&self, options: &ReplayOptions) -> Vec<ArraySpec> {
        let array = |(range, &base): (&Range<usize>, &usize)| ArraySpec {
            base,
            bytes: range.len(),
            distribution: options.store.clone(),
        };
        self.recorded.iter().zip(&self.bases).map(array).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_memory::distribution::Distribution;
    use vicus_trace::{EventLog, Header};

    fn named(number: u32) -> JobId {
        JobId::task(1, number)
    }

    /// A trace of this number of seats: seat, time, event.
    fn trace(seats: usize, events: &[(usize, u64, What)]) -> Trace {
        let mut logs: Vec<EventLog> = (0..seats).map(|_| EventLog::new(100)).collect();
        for (order, &(seat, time_ns, what)) in events.iter().enumerate() {
            logs[seat].observe(order as u64 + 1);
            logs[seat].record(time_ns, what);
        }
        let functions = ["root", "leaf"].map(str::to_owned).to_vec();
        Trace::new(Header::for_seats(seats), logs.into_iter().map(EventLog::finish).collect()).with_functions(functions)
    }

    fn queued(number: u32, by: Option<u32>) -> What {
        let by = by.map_or(JobId::NONE, |by| named(by).index);
        What::Enqueued { who: named(number), kind: TaskKind::Immediate, by }
    }

    fn begins(number: u32) -> What {
        What::UserCodeBegins { who: named(number) }
    }

    fn ends(number: u32) -> What {
        What::UserCodeEnds { who: named(number) }
    }

    fn follows(number: u32, how: Use, address: u64, bytes: u64) -> [What; 2] {
        let ((high, low), (most, least)) = (What::halves(address), What::halves(bytes));
        [
            What::Follows { who: named(number), how, high, low },
            What::UsesBytes { who: named(number), high: most, low: least },
        ]
    }

    /// A task spawns a writer and two readers of 8,192 bytes, waits, and works on. Its next child never runs.
    fn one_region() -> Trace {
        let mut events = vec![(0, 0, queued(0, None)), (0, 0, begins(0))];
        let mut spawn = |now, number, how, address| {
            events.extend(follows(number, how, address, 8192).map(|what| (0, now, what)));
            events.push((0, now, queued(number, Some(0))));
        };
        spawn(100, 1, Use::Writes, 0x1_0000);
        spawn(110, 2, Use::Reads, 0x1_0000);
        spawn(130, 3, Use::Reads, 0x1_1000);
        events.push((0, 150, What::WaitBegins { who: named(0), awaits: Awaits::Children }));
        for (number, from) in [(1, 200), (2, 2200), (3, 4200)] {
            events.extend([
                (0, from, begins(number)),
                (0, from, What::Named { who: named(number), function: 1 }),
                (0, from + 2000, ends(number)),
            ]);
        }
        events.push((0, 6300, What::WaitEnds { who: named(0) }));
        events.push((0, 6400, queued(4, Some(0))));
        events.push((0, 6500, ends(0)));
        trace(1, &events)
    }

    #[test]
    fn siblings_are_ordered_by_their_data_and_waits_are_no_work() {
        let options = ReplayOptions { bytes_per_ns: 8.0, ..ReplayOptions::default() };
        let replay = Replay::of(&one_region(), &options).unwrap();
        let Program { tasks, arrays, leaves, .. } = &replay.program;
        replay.program.check().unwrap();
        let after: Vec<&[u32]> = tasks.iter().map(|task| &task.after[..]).collect();
        // The first task, the root, the writer, its readers, and the wait for the region's end.
        assert_eq!(after, [&[][..], &[], &[], &[2], &[2], &[1, 2, 3, 4]]);
        // A spawn takes 10 ns, the shortest time between two; the reader of the upper half is in the same array.
        let work = |ns: f64| Step::Work(Work { leaf: 0, cost: Cost::Nanos(ns), accesses: Vec::new() });
        let spawn = |task| Step::Spawn(task..task + 1);
        let expected = [
            work(90.0),
            spawn(2),
            work(0.0),
            spawn(3),
            work(10.0),
            spawn(4),
            work(20.0),
            Step::Wait,
            work(90.0),
            work(100.0),
        ];
        // A child that never runs is no step: the work before and behind it stays as recorded.
        assert_eq!(tasks[1].steps, expected);
        assert_eq!(arrays.iter().map(|array| array.bytes).collect::<Vec<_>>(), [3 * 4096]);
        assert_eq!(tasks[0].steps[0], Step::Start, "a task writes the array before others read it");
        let Step::Work(leaf) = &tasks[2].steps[0] else { panic!("{:?}", tasks[2].steps) };
        assert_eq!((leaves[leaf.leaf as usize].as_str(), leaf.cost), ("leaf", Cost::Nanos(2000.0 - 8192.0 / 8.0)));
        assert_eq!(tasks[4].accesses[0].start - tasks[2].accesses[0].start, 4096);
        assert!(
            (replay.recorded_ns - (2.0 * 100.0 + 10.0 + 20.0 + 20.0 + 100.0 + 6000.0)).abs() < 1e-9,
            "{}",
            replay.recorded_ns
        );
    }

    /// A program fills its data by itself: their pages are the first thread's, unless they are distributed.
    #[test]
    fn what_tasks_read_first_was_written_before() {
        let mut events = vec![(0, 0, queued(0, None)), (0, 0, begins(0))];
        for (number, how, address) in [(1, Use::ReadsAndWrites, 0x10_0000), (2, Use::Writes, 0x20_0000)] {
            events.extend(follows(number, how, address, 65_536).map(|what| (0, 10, what)));
            events.extend([(0, 20, queued(number, Some(0))), (0, 30, begins(number)), (0, 90, ends(number))]);
        }
        events.push((0, 100, ends(0)));
        let options = ReplayOptions { store: Distribution::Standard, ..ReplayOptions::default() };
        let replay = Replay::of(&trace(1, &events), &options).unwrap();
        replay.program.check().unwrap();
        let [first, second] = &replay.program.arrays[..] else { panic!("{:?}", replay.program.arrays) };
        let [Step::Work(touch), Step::Start, ..] = &replay.program.tasks[0].steps[..] else {
            panic!("{:?}", replay.program.tasks[0])
        };
        assert_eq!(touch.accesses, [Access::new(first.base, first.bytes, Mode::Write)]);
        assert_eq!((first.bytes, second.bytes), (65_536, 65_536));
    }

    /// A task awaited at once by its spawner, and a wait within a group: neither waits for the earlier task.
    #[test]
    fn sections_wait_for_their_own() {
        let root = named(0);
        let mut events = vec![(0, 0, queued(0, None)), (0, 0, begins(0)), (0, 100, queued(1, Some(0)))];
        events.push((0, 100, What::SectionBegins { who: root }));
        events.extend([(0, 200, queued(2, Some(0))), (0, 200, begins(2)), (0, 1200, ends(2))]);
        let wait = |awaits| What::WaitBegins { who: root, awaits };
        events.extend([(0, 1200, wait(Awaits::Section)), (0, 1200, What::WaitEnds { who: root })]);
        events.push((0, 1300, What::SectionBegins { who: root }));
        events.push((0, 1400, queued(3, Some(0))));
        events.extend([(0, 1500, wait(Awaits::Children)), (0, 1600, begins(3)), (0, 1700, ends(3))]);
        events.extend([(0, 1800, begins(1)), (0, 1900, ends(1)), (0, 2000, What::WaitEnds { who: root })]);
        // Asleep, it does not work.
        events.extend([(0, 2000, What::SleepBegins), (0, 9000, What::SleepEnds)]);
        events.extend([(0, 9000, wait(Awaits::Section)), (0, 9000, What::WaitEnds { who: root }), (0, 9000, ends(0))]);
        let replay = Replay::of(&trace(1, &events), &ReplayOptions::default()).unwrap();
        replay.program.check().unwrap();
        let shown: Vec<String> = (replay.program.tasks[1].steps.iter())
            .map(|step| match step {
                Step::Work(Work { cost: Cost::Nanos(ns), .. }) => format!("{ns}"),
                other => format!("{other:?}"),
            })
            .collect();
        let expected = [
            "100",
            "Spawn(2..3)",
            "Open",
            "100",
            "Spawn(3..4)",
            "Wait",
            "100",
            "Open",
            "100",
            "Spawn(4..5)",
            "100",
            "Wait",
            "Open",
            "Wait",
        ];
        assert_eq!(shown, expected);
    }

    /// Two members, each with a task before a barrier and one behind it; then another region of theirs, 700 ns later.
    fn team() -> Vec<(usize, u64, What)> {
        let mut events = Vec::new();
        for (region, base) in [(0, 0), (1, 10_000)] {
            for member in 0..2 {
                let root = region * 10 + member as u32;
                events.extend([(member, base, queued(root, None)), (member, base, begins(root))]);
            }
            for phase in 0..2 {
                let from = base + u64::from(phase) * 4000;
                for member in 0..2 {
                    let (root, child) = (region * 10 + member as u32, region * 10 + 2 + 2 * phase + member as u32);
                    events.extend([
                        (member, from + 100, queued(child, Some(root))),
                        (member, from + 200, What::WaitBegins { who: named(root), awaits: Awaits::Team }),
                        (member, from + 300, begins(child)),
                        (member, from + 1300, ends(child)),
                        (member, from + 3000, What::WaitEnds { who: named(root) }),
                    ]);
                }
            }
            for member in [1, 0] {
                events.push((member, base + 9300 - member as u64 * 100, ends(region * 10 + member as u32)));
            }
        }
        events.sort_by_key(|(_, time, _)| *time);
        events
    }

    #[test]
    fn barriers_part_a_teams_tasks() {
        let replay = Replay::of(&trace(2, &team()), &ReplayOptions::default()).unwrap();
        replay.program.check().unwrap();
        let tasks = &replay.program.tasks;
        let shown: Vec<(Option<usize>, &[u32])> = tasks.iter().map(|task| (task.pinned, &task.after[..])).collect();
        // Of each phase: a member's part and its task, the same of the other member, and the barrier. Each region ends
        // with one.
        let region = |first: u32, before: &[u32]| {
            let mut all = Vec::new();
            let mut before = before.to_vec();
            for phase in 0..3 {
                let at = first + 5 * phase;
                let is_last = phase == 2;
                let count = if is_last { 2 } else { 4 };
                for member in 0..2 {
                    all.push((Some(member), before.clone()));
                    if !is_last {
                        all.push((None, Vec::new()));
                    }
                }
                before = vec![at + count];
                all.push((Some(0), (at..at + count).collect()));
            }
            all
        };
        let mut expected = vec![(Some(0), Vec::new())];
        expected.extend(region(1, &[]));
        // The first thread's work between the regions.
        expected.push((Some(0), vec![13]));
        expected.extend(region(15, &[14]));
        let expected: Vec<(Option<usize>, &[u32])> =
            expected.iter().map(|(pinned, after)| (*pinned, &after[..])).collect();
        assert_eq!(shown, expected);
        let Step::Work(between) = &tasks[14].steps[0] else { panic!("{:?}", tasks[14].steps) };
        assert_eq!(between.cost, Cost::Nanos(700.0));
    }

    #[test]
    fn what_can_not_be_replayed_is_told() {
        let told = |trace: &Trace, options: &ReplayOptions| Replay::of(trace, options).unwrap_err().to_string();
        let twice = ReplayOptions { copies: 2, ..ReplayOptions::default() };
        assert_eq!(
            told(&one_region(), &twice),
            "a run of tasks that are not boxes: expected one copy of all its requests"
        );
        // Another team's region, within the first one.
        let mut nested = team();
        let who = JobId::task(2, 90);
        let inner = [
            What::Enqueued { who, kind: TaskKind::Immediate, by: JobId::NONE },
            What::UserCodeBegins { who },
            What::WaitBegins { who, awaits: Awaits::Team },
            What::WaitEnds { who },
            What::UserCodeEnds { who },
        ];
        nested.extend(inner.into_iter().zip(500..).map(|(what, time)| (2, time, what)));
        nested.sort_by_key(|(_, time, _)| *time);
        let said = told(&trace(3, &nested), &ReplayOptions::default());
        assert!(said.ends_with("parallel regions one after the other, and none within another one"), "{said}");
        let huge = follows(0, Use::Reads, 0, 1 << 40);
        let large =
            trace(1, &[(0, 0, huge[0]), (0, 0, huge[1]), (0, 0, queued(0, None)), (0, 0, begins(0)), (0, 9, ends(0))]);
        let said = told(&large, &ReplayOptions::default());
        assert!(said.ends_with("expected data of at most 64 GiB"), "{said}");
        let odd = trace(1, &[(0, 0, begins(0)), (0, 1, follows(0, Use::Reads, 8, 8)[1])]);
        assert_eq!(told(&odd, &ReplayOptions::default()), "event 1 of seat 0: expected an address before its length");
    }
}
