//! Each thread of a runtime may run on its strategy's CPUs, as the kernel reports them.

use crate::left_out;
use crate::sysfs::{self, Cpus, Machine};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vicus_machine::MachineRuntime;

/// The only runtime of this process: threads are found by their names, which are the same in all runtimes.
pub(crate) struct Alone {
    pub(crate) runtime: MachineRuntime,
    _lock: MutexGuard<'static, ()>,
}

impl Alone {
    /// With a thread for each CPU open to the caller.
    pub(crate) fn start(strategy: &str) -> Alone {
        static ONE: Mutex<()> = Mutex::new(());
        // A failed test has ended its runtime.
        let lock = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        // The kernel lists a thread for a moment longer than its join takes.
        let began = Instant::now();
        while !sysfs::threads_named("vicus ").is_empty() {
            assert!(began.elapsed() < Duration::from_secs(30), "a runtime has left threads");
            std::thread::yield_now();
        }
        let builder = MachineRuntime::builder().strategy(strategy.parse().unwrap()).threads(sysfs::own_cpus().len());
        let runtime = builder.start();
        assert_eq!(runtime.warnings(), Vec::<String>::new());
        Alone { runtime, _lock: lock }
    }
}

/// For each thread of such a runtime the CPU at the origin of its distances, by which they are sorted, and its
/// permitted CPUs.
fn workers(strategy: &str) -> Vec<(u32, Cpus)> {
    let alone = Alone::start(strategy);
    let workers = sysfs::threads_named("vicus ").into_iter().map(|(seat, cpus)| {
        let seat: usize = seat.parse().expect("a thread is named after its seat");
        let pu = alone.runtime.plan().seats[seat].pu;
        (alone.runtime.topology().pus[pu.index()].os_index, cpus)
    });
    let mut workers: Vec<_> = workers.collect();
    workers.sort();
    workers
}

/// For each of these CPUs the members of its group among them.
fn in_groups(cpus: &Cpus, kernel: &Machine) -> Vec<(u32, Cpus)> {
    let groups = kernel.groups();
    let group = |cpu: &u32| groups.iter().find(|group| group.contains(cpu)).expect("each CPU is in a group");
    cpus.iter().map(|cpu| (*cpu, group(cpu) & cpus)).collect()
}

/// For each of these CPUs itself.
fn alone_each(cpus: &Cpus) -> Vec<(u32, Cpus)> {
    cpus.iter().map(|&cpu| (cpu, Cpus::from([cpu]))).collect()
}

/// For each of these CPUs all of them.
fn everywhere(cpus: &Cpus) -> Vec<(u32, Cpus)> {
    cpus.iter().map(|&cpu| (cpu, cpus.clone())).collect()
}

fn kernel() -> Option<Machine> {
    let kernel = Machine::read();
    if kernel.is_none() {
        left_out("sysfs has no nodes, cores or caches");
    }
    kernel
}

#[test]
fn las_keeps_each_thread_in_its_core_group() {
    let Some(kernel) = kernel() else { return };
    assert_eq!(workers("las:pin=group"), in_groups(&sysfs::own_cpus(), &kernel));
}

#[test]
fn las_on_pus_keeps_each_thread_on_its_cpu() {
    assert_eq!(workers("las:pin=pu"), alone_each(&sysfs::own_cpus()));
}

#[test]
fn nls_lets_all_threads_run_everywhere() {
    assert_eq!(workers("nls"), everywhere(&sysfs::own_cpus()));
}

/// The CPUs of a `taskset` or a cpuset: the first CPU of each group, and all of the last group.
#[test]
fn a_runtime_stays_within_the_cpus_of_its_starter() {
    let Some(kernel) = kernel() else { return };
    let all = sysfs::own_cpus();
    let groups: Vec<Cpus> = kernel.groups().iter().map(|group| group & &all).filter(|cpus| !cpus.is_empty()).collect();
    let mut narrow: Cpus = groups.iter().filter_map(Cpus::first).copied().collect();
    narrow.extend(groups.last().into_iter().flatten());
    // The CPUs belong to a thread, and a test's thread may run another test later.
    let of_a_thread = |strategy: &'static str| {
        let narrow = narrow.clone();
        let thread = std::thread::spawn(move || {
            bind_to(&narrow);
            assert_eq!(sysfs::own_cpus(), narrow);
            workers(strategy)
        });
        thread.join().unwrap()
    };
    assert_eq!(of_a_thread("las:pin=group"), in_groups(&narrow, &kernel));
    assert_eq!(of_a_thread("las:pin=pu"), alone_each(&narrow));
    assert_eq!(of_a_thread("nls"), everywhere(&narrow));
}

/// Lets the calling thread run on these CPUs only.
fn bind_to(cpus: &Cpus) {
    let mut mask = [0_u64; 64];
    cpus.iter().for_each(|&cpu| mask[cpu as usize / 64] |= 1 << (cpu % 64));
    #[expect(unsafe_code, reason = "the standard library does not bind threads, and what does is under test")]
    // SAFETY: the kernel reads as many bytes as the array has; thread 0 is the calling one.
    let done = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(&mask), mask.as_ptr()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}
