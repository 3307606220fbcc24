//! Places: sets of processors for the threads of a region (`OMP_PLACES`, `OMP_PROC_BIND`).

use crate::exports::exports;
use crate::names::fortran;
use crate::process::{Once, unforked};
use crate::settings::{self, complain};
use crate::thread::{Thread, here};
use crate::wait::Guarded;
use std::fmt::Write as _;

/// The processors of the process's mask.
pub(crate) fn allowed() -> &'static [usize] {
    static ALLOWED: Once<Vec<usize>> = Once::new();
    ALLOWED.get_or(own_processors)
}

/// The processors of the calling thread's mask.
pub(crate) fn own_processors() -> Vec<usize> {
    let set = own_set();
    // SAFETY: rule "System": the numbers are within a set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// The calling thread's mask in the system's form.
pub(crate) fn own_set() -> libc::cpu_set_t {
    // SAFETY: rule "System": zeros are a valid set, and its length is given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        set
    }
}

/// These processors, as the system has them.
pub(crate) fn set_of(cpus: &[usize]) -> libc::cpu_set_t {
    // SAFETY: rule "System": zeros are a valid set; a number beyond it ends in a panic.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.iter().for_each(|&cpu| libc::CPU_SET(cpu, &mut set));
        set
    }
}

/// Restricts the calling thread to these processors. If the system refuses, as it may to a sandbox, the thread stays
/// free.
pub(crate) fn set_affinity(set: &libc::cpu_set_t) {
    // SAFETY: rule "System": the set is borrowed, and its length given.
    unsafe {
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const *set);
    }
}

/// The first processor of a team's thread with this number: the calling thread's processors in turn, from the one
/// behind the current. The system would choose by slightly old figures of their load, and often let the thread begin
/// beside the calling thread; it moves threads that share a processor only after some milliseconds. `None` if the team
/// has not all processors: then the system knows better which are free.
pub(crate) fn begins_on(number: u32, size: u32) -> Option<usize> {
    let own = own_processors();
    // SAFETY: rule "System": no argument.
    let here = usize::try_from(unsafe { libc::sched_getcpu() }).ok()?;
    let at = own.iter().position(|&cpu| cpu == here)?;
    (own.len() > 1 && own.len() == size as usize).then(|| own[(at + number as usize) % own.len()])
}

/// All places.
fn places() -> &'static [Vec<usize>] {
    static PLACES: Once<Vec<Vec<usize>>> = Once::new();
    let find = || {
        let settings = settings::get();
        if settings.icv.bind == 0 && settings.binding.places.is_none() {
            return Vec::new();
        }
        let text = settings.binding.places.as_deref().unwrap_or("cores");
        let mut places = parse(text).unwrap_or_else(|| grouped(core_of));
        for place in &mut places {
            place.retain(|cpu| allowed().contains(cpu));
        }
        let before = places.len();
        places.retain(|place| !place.is_empty());
        if places.len() < before {
            complain(&format!(
                "OMP_PLACES={text}: {} places have no processor that may be used",
                before - places.len()
            ));
        }
        places
    };
    PLACES.get_or(find)
}

/// The value of a file of the kernel about a processor.
fn of_cpu(cpu: usize, file: &str) -> Option<String> {
    std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/{file}")).ok().map(|text| text.trim().to_owned())
}

fn node_of(cpu: usize) -> Option<String> {
    let entries = std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.into_iter().find(|name| name.starts_with("node"))
}

/// The processors, grouped by their `key`.
fn grouped(key: impl Fn(usize) -> Option<String>) -> Vec<Vec<usize>> {
    let mut groups: Vec<(Option<String>, Vec<usize>)> = Vec::new();
    for &cpu in allowed() {
        let key = key(cpu);
        match groups.iter_mut().find(|(other, _)| key.is_some() && *other == key) {
            Some((_, group)) => group.push(cpu),
            None => groups.push((key, vec![cpu])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The processors of each node.
pub(crate) type Nodes = Vec<Vec<usize>>;

/// The processors of the process, by node; in each node one of each core before the second ones. One list if the system
/// does not report the nodes.
pub(crate) fn nodes() -> &'static Nodes {
    static NODES: Once<Nodes> = Once::new();
    NODES.get_or(find_nodes)
}

fn find_nodes() -> Nodes {
    if allowed().iter().any(|&cpu| node_of(cpu).is_none()) {
        return vec![allowed().to_vec()];
    }
    let mut nodes = grouped(node_of);
    for node in &mut nodes {
        let mut cores: Vec<Option<String>> = Vec::new();
        let mut turn = |cpu: usize| {
            let core = core_of(cpu);
            cores.push(core.clone());
            cores.iter().filter(|other| core.is_some() && **other == core).count()
        };
        let mut by_turn: Vec<(usize, usize)> = node.iter().map(|&cpu| (turn(cpu), cpu)).collect();
        by_turn.sort_unstable();
        *node = by_turn.into_iter().map(|(_, cpu)| cpu).collect();
    }
    nodes
}

fn core_of(cpu: usize) -> Option<String> {
    of_cpu(cpu, "topology/thread_siblings_list")
}

/// Whether a text names places, be they there or not.
pub(crate) fn is_known(text: &str) -> bool {
    parse(text).is_some()
}

fn parse(text: &str) -> Option<Vec<Vec<usize>>> {
    // gcc's own variable may have spaces between processors.
    let pieces: Vec<&str> = text.split_whitespace().collect();
    let is_list = text.starts_with(|letter: char| letter.is_ascii_digit());
    let text = pieces.join(if is_list { "," } else { "" }).to_ascii_lowercase();
    if !text.contains('{') && !text.starts_with(|letter: char| letter.is_ascii_digit()) {
        let (name, count) = match text.split_once('(') {
            Some((name, count)) => {
                (name, Some(count.strip_suffix(')')?.parse::<usize>().ok().filter(|&count| count > 0)?))
            }
            None => (text.as_str(), None),
        };
        let mut places = match name {
            "threads" => allowed().iter().map(|&cpu| vec![cpu]).collect(),
            "cores" => grouped(core_of),
            "sockets" => grouped(|cpu| of_cpu(cpu, "topology/physical_package_id")),
            "ll_caches" => grouped(|cpu| {
                (0..8).rev().find_map(|index| of_cpu(cpu, &format!("cache/index{index}/shared_cpu_list")))
            }),
            "numa_domains" => grouped(node_of),
            _ => return None,
        };
        places.truncate(count.unwrap_or(usize::MAX));
        return Some(places);
    }
    if !text.contains('{') {
        // A list of processors, as gcc's own variable has it: `0 3 1-2 4-15:2`.
        let one = |part: &str| -> Option<Vec<usize>> {
            let (range, step) = part.split_once(':').map_or((part, "1"), |(range, step)| (range, step));
            let (first, last) = range.split_once('-').map_or((range, range), |(first, last)| (first, last));
            let step = step.parse::<usize>().ok().filter(|&step| step > 0)?;
            Some((first.parse().ok()?..=last.parse().ok()?).step_by(step).collect())
        };
        let cpus: Option<Vec<Vec<usize>>> = text.split(',').filter(|part| !part.is_empty()).map(one).collect();
        return Some(cpus?.into_iter().flatten().map(|cpu| vec![cpu]).collect());
    }
    let mut places = Vec::new();
    let mut rest = text.as_str();
    loop {
        let is_left_out = rest.starts_with('!');
        rest = rest.trim_start_matches('!').strip_prefix('{')?;
        let (inside, after) = rest.split_once('}')?;
        let place = processors(inside)?;
        let (numbers, more) = match after.find(",{").or_else(|| after.find(",!")) {
            Some(at) => (&after[..at], Some(&after[at + 1..])),
            None => (after, None),
        };
        let mut numbers = numbers.strip_prefix(':').into_iter().flat_map(|numbers| numbers.split(':'));
        let count: usize = numbers.next().map_or(Some(1), |number| number.parse().ok())?;
        let stride: i64 = numbers.next().map_or(Some(1), |number| number.parse().ok())?;
        for at in 0..count as i64 {
            let moved: Option<Vec<usize>> =
                place.iter().map(|&cpu| usize::try_from(cpu as i64 + at * stride).ok()).collect();
            let moved = moved?;
            if is_left_out {
                places.retain(|other| *other != moved);
            } else {
                places.push(moved);
            }
        }
        match more {
            Some(more) => rest = more,
            None => return Some(places),
        }
    }
}

/// The processors between the braces of a place.
fn processors(text: &str) -> Option<Vec<usize>> {
    let mut all: Vec<usize> = Vec::new();
    for part in text.split(',') {
        let (is_left_out, part) = part.strip_prefix('!').map_or((false, part), |part| (true, part));
        let mut numbers = part.split(':');
        let first: usize = numbers.next()?.parse().ok()?;
        let count: usize = numbers.next().map_or(Some(1), |number| number.parse().ok())?;
        let stride: i64 = numbers.next().map_or(Some(1), |number| number.parse().ok())?;
        for at in 0..count as i64 {
            let cpu = usize::try_from(first as i64 + at * stride).ok()?;
            if is_left_out {
                all.retain(|&other| other != cpu);
            } else {
                all.push(cpu);
            }
        }
    }
    Some(all)
}

/// Consecutive places, round the end of the list of those around them: the first one, and how many.
pub(crate) type Partition = (u32, u32);

/// How the threads of a region are bound: a team has a plan for one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// 1 (true) and 3: close; 2: primary; 4: spread.
    policy: u8,
    /// The place of the thread that came to the region.
    first: u32,
    /// The places that it may give to others.
    partition: Partition,
}

impl Binding {
    /// The binding of a region of this thread. `None` if its threads are not bound.
    pub(crate) fn of(thread: &Thread, policy: u8) -> Option<Binding> {
        let all = places().len() as u32;
        if policy == 0 || all == 0 {
            return None;
        }
        let partition = if thread.placing.partition.1 == 0 { (0, all) } else { thread.placing.partition };
        let first = u32::try_from(thread.placing.place).unwrap_or(partition.0);
        Some(Binding { policy, first, partition })
    }

    /// The place of thread `number` of `size`, and its places for threads of its own regions (OpenMP 5.2, §10.1.3).
    fn place(self, size: u32, number: u32) -> (u32, Partition) {
        let Binding { policy, first, partition: (begin, count) } = self;
        // Products of these fit: there are fewer than 2^16 threads.
        let at = |further: u32| begin + (first - begin + further) % count;
        // Threads are spread over the places as evenly as can be.
        let with_others = number as u64 * u64::from(count) / u64::from(size);
        match policy {
            2 => (first, self.partition),
            4 if size <= count => {
                // Its part begins at the end of the earlier threads' parts; the first thread's part has its place.
                let bound = |part: u32| (u64::from(part) * u64::from(count) / u64::from(size)) as u32;
                let own = (0..size).rfind(|&part| bound(part) <= first - begin).unwrap_or(0);
                let part = (own + number) % size;
                let place = if number == 0 { first } else { begin + bound(part) };
                (place, (begin + bound(part), bound(part + 1) - bound(part)))
            }
            4 => {
                let place = at(with_others as u32);
                (place, (place, 1))
            }
            _ if size <= count => (at(number), self.partition),
            _ => (at(with_others as u32), self.partition),
        }
    }

    /// The processor of each thread of `size`: threads at one place have its processors in turn.
    pub(crate) fn processors(self, size: u32) -> Vec<u32> {
        let mut given = vec![0; places().len()];
        let of = |number: u32| {
            let place = self.place(size, number).0 as usize;
            let all = &places()[place];
            given[place] += 1;
            all[(given[place] - 1) % all.len()] as u32
        };
        (0..size).map(of).collect()
    }

    /// Binds a thread of a region.
    #[cold]
    pub(crate) fn bind(self, thread: &mut Thread, size: u32, number: u32) {
        let (place, partition) = self.place(size, number);
        thread.placing.partition = partition;
        if thread.placing.place != place as i32 {
            thread.placing.place = place as i32;
            set_affinity(&set_of(&places()[place as usize]));
        }
    }
}

/// Calls `f` with the format for showing affinity. No process is forked with the lock held.
fn with_format<R>(f: impl FnOnce(&mut String) -> R) -> R {
    static FORMAT: Guarded<Option<String>> = Guarded::new(None);
    let first = || settings::get().binding.affinity_format.clone();
    unforked(|| FORMAT.with(|format| f(format.get_or_insert_with(first))))
}

fn current_format() -> String {
    with_format(|format| format.clone())
}

/// Numbers as ranges: `0-3,6`.
fn ranges(numbers: &[usize]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < numbers.len() {
        let mut last = at;
        while last + 1 < numbers.len() && numbers[last + 1] == numbers[last] + 1 {
            last += 1;
        }
        let comma = if text.is_empty() { "" } else { "," };
        let end = if last > at { format!("-{}", numbers[last]) } else { String::new() };
        write!(text, "{comma}{}{end}", numbers[at]).expect("a string grows");
        at = last + 1;
    }
    text
}

/// The affinity of the calling thread, in a format with fields such as `%n` and `%0.3{thread_num}`.
fn shown(format: &str) -> String {
    let thread = here();
    let team = thread.team();
    let mut text = String::new();
    let mut letters = format.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        if letters.next_if_eq(&'%').is_some() {
            text.push('%');
            continue;
        }
        let has_zeros = letters.next_if_eq(&'0').is_some();
        let is_right = letters.next_if_eq(&'.').is_some();
        let mut width = 0;
        while let Some(digit) = letters.peek().and_then(|letter| letter.to_digit(10)) {
            width = width * 10 + digit as usize;
            letters.next();
        }
        let name = match letters.next() {
            Some('{') => letters.by_ref().take_while(|&letter| letter != '}').collect(),
            Some(letter) => letter.to_string(),
            None => break,
        };
        let level = team.nesting.level.get() as i32;
        let value = match name.as_str() {
            "t" | "team_num" => thread.league.0.to_string(),
            "T" | "num_teams" => thread.league.1.to_string(),
            "L" | "nesting_level" => level.to_string(),
            "n" | "thread_num" => thread.number.to_string(),
            "N" | "num_threads" => team.size.to_string(),
            "a" | "ancestor_tnum" => {
                team.at_level(level - 1, thread.number).map_or(-1, |(_, number)| number as i32).to_string()
            }
            "H" | "host" => {
                let mut host = [0u8; 256];
                // SAFETY: rule "System": the buffer and its length; the last byte stays 0.
                unsafe { libc::gethostname(host.as_mut_ptr().cast(), host.len() - 1) };
                String::from_utf8_lossy(&host).trim_end_matches('\0').to_owned()
            }
            // SAFETY: rule "System": no argument.
            "P" | "process_id" => unsafe { libc::getpid() }.to_string(),
            // SAFETY: rule "System": no argument.
            "i" | "native_thread_id" => unsafe { libc::gettid() }.to_string(),
            "A" | "thread_affinity" => ranges(&own_processors()),
            _ => "undefined".to_owned(),
        };
        match (is_right, has_zeros) {
            (true, true) => write!(text, "{value:0>width$}"),
            (true, false) => write!(text, "{value:>width$}"),
            _ => write!(text, "{value:<width$}"),
        }
        .expect("a string grows");
    }
    text
}

fn text_of(text: *const libc::c_char) -> String {
    if text.is_null() {
        return current_format();
    }
    // SAFETY: rule "Interface": the text ends with a zero byte.
    format_of(unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// A format, or the current one if it is empty.
fn format_of(text: String) -> String {
    if text.is_empty() { current_format() } else { text }
}

fn set_format(text: String) {
    with_format(|format| *format = text);
}

/// Writes a text as Fortran has it: with blanks up to the buffer's end. How long it is.
fn put_padded(text: &str, buffer: *mut u8, bytes: usize) -> usize {
    let length = text.len().min(bytes);
    // SAFETY: rule "Interface": the buffer has this number of bytes, and `length` is no more.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), buffer, length);
        std::ptr::write_bytes(buffer.add(length), b' ', bytes - length);
    }
    text.len()
}

/// Writes a text with a 0 behind it, as much as there is room for. How long it is.
fn put(text: &str, buffer: *mut u8, bytes: usize) -> usize {
    if !buffer.is_null() && bytes > 0 {
        let length = text.len().min(bytes - 1);
        // SAFETY: rule "Interface": the buffer has this number of bytes, and `length` is less.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), buffer, length);
            *buffer.add(length) = 0;
        }
    }
    text.len()
}

/// Shows the affinity of the calling thread, if users want to see it.
#[cold]
pub(crate) fn display() {
    say(&shown(&current_format()));
}

/// Writes a line to the stream of the program's own library: gcc's on standard error, clang's on standard output.
fn say(line: &str) {
    let line = format!("{line}\n");
    let file = if crate::objects::is_for_clang() { 1 } else { 2 };
    // SAFETY: rule "System": the text and its length.
    unsafe { libc::write(file, line.as_ptr().cast(), line.len()) };
}

exports! {
    "OMP_5.0", "VERSION":
    fn omp_display_affinity(format: *const libc::c_char) {
        say(&shown(&text_of(format)));
    }

    "OMP_5.0", "VERSION":
    fn omp_capture_affinity(buffer: *mut u8, bytes: usize, format: *const libc::c_char) -> usize {
        put(&shown(&text_of(format)), buffer, bytes)
    }

    "OMP_5.0", "VERSION":
    fn omp_get_affinity_format(buffer: *mut u8, bytes: usize) -> usize {
        put(&current_format(), buffer, bytes)
    }

    "OMP_5.0", "VERSION":
    fn omp_set_affinity_format(text: *const libc::c_char) {
        if text.is_null() {
            return;
        }
        // SAFETY: rule "Interface": the text ends with a zero byte.
        set_format(unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned());
    }

    // Fortran's texts have lengths, passed behind the other arguments, and blanks up to them.
    "OMP_5.0", "VERSION":
    fn omp_display_affinity_(format: *const u8, bytes: usize) {
        // SAFETY: rule "Interface": the text has this length.
        say(&shown(&format_of(unsafe { fortran(format, bytes) })));
    }

    "OMP_5.0", "VERSION":
    fn omp_capture_affinity_(buffer: *mut u8, format: *const u8, bytes: usize, format_bytes: usize) -> usize {
        // SAFETY: rule "Interface": the text has this length.
        put_padded(&shown(&format_of(unsafe { fortran(format, format_bytes) })), buffer, bytes)
    }

    "OMP_5.0", "VERSION":
    fn omp_get_affinity_format_(buffer: *mut u8, bytes: usize) -> usize {
        put_padded(&current_format(), buffer, bytes)
    }

    "OMP_5.0", "VERSION":
    fn omp_set_affinity_format_(text: *const u8, bytes: usize) {
        // SAFETY: rule "Interface": the text has this length.
        set_format(unsafe { fortran(text, bytes) });
    }

    "OMP_4.5", "VERSION":
    fn omp_get_num_places() -> i32 {
        places().len() as i32
    }

    "OMP_4.5", "VERSION":
    fn omp_get_place_num_procs(place: i32) -> i32 {
        usize::try_from(place).ok().and_then(|place| places().get(place)).map_or(0, |place| place.len() as i32)
    }

    "OMP_4.5", "VERSION":
    fn omp_get_place_proc_ids(place: i32, ids: *mut i32) {
        let place = usize::try_from(place).ok().and_then(|place| places().get(place));
        for (at, &cpu) in place.into_iter().flatten().enumerate() {
            // SAFETY: rule "Interface": the list has room for as many numbers as the program can ask for by another
            // function.
            unsafe { *ids.add(at) = cpu as i32 };
        }
    }

    "OMP_4.5", "VERSION":
    fn omp_get_place_num() -> i32 {
        let thread = here();
        if places().is_empty() { -1 } else { thread.placing.place.max(0) }
    }

    "OMP_4.5", "VERSION":
    fn omp_get_partition_num_places() -> i32 {
        own_partition().1 as i32
    }

    "OMP_4.5", "VERSION":
    fn omp_get_partition_place_nums(numbers: *mut i32) {
        let (begin, count) = own_partition();
        for at in 0..count {
            // SAFETY: rule "Interface": the list has room for as many numbers as the program can ask for by another
            // function.
            unsafe { *numbers.add(at as usize) = (begin + at) as i32 };
        }
    }
}

/// The calling thread's places for threads of its regions.
fn own_partition() -> Partition {
    let partition = here().placing.partition;
    if partition.1 == 0 { (0, places().len() as u32) } else { partition }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places_of(policy: u8, first: u32, partition: Partition, size: u32) -> Vec<u32> {
        (0..size).map(|number| Binding { policy, first, partition }.place(size, number).0).collect()
    }

    #[test]
    fn threads_are_close_to_the_first_one_or_spread_over_its_places() {
        assert_eq!(places_of(2, 3, (0, 8), 4), [3, 3, 3, 3]);
        assert_eq!(places_of(3, 6, (0, 8), 4), [6, 7, 0, 1]);
        assert_eq!(places_of(3, 1, (0, 4), 8), [1, 1, 2, 2, 3, 3, 0, 0]);
        assert_eq!(places_of(3, 5, (4, 2), 3), [5, 5, 4], "within its part");
        assert_eq!(places_of(4, 0, (0, 8), 4), [0, 2, 4, 6]);
        assert_eq!(places_of(4, 3, (0, 8), 4), [3, 4, 6, 0], "the first one stays where it is");
        assert_eq!(places_of(4, 1, (0, 2), 5), [1, 1, 1, 0, 0]);
        let part = |number| Binding { policy: 4, first: 5, partition: (4, 4) }.place(2, number);
        assert_eq!([part(0), part(1)], [(5, (4, 2)), (6, (6, 2))]);
    }
}
