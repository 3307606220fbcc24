//! An idle runtime uses no CPU, under any strategy.

use std::time::Duration;
use vicus_machine::MachineRuntime;
use vicus_schedule::ALL;

/// The time used by this process so far, by the kernel's count.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    // After the name in parentheses: the 12th and 13th field are the ticks in user and in system mode.
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    // Linux counts in hundredths of a second for programs (USER_HZ).
    Duration::from_millis(10 * ticks)
}

#[test]
#[cfg_attr(debug_assertions, ignore = "times of the system; the optimised build has it")]
fn idle_threads_sleep_under_every_strategy() {
    for strategy in ALL {
        let runtime = MachineRuntime::builder().strategy(strategy.name().parse().unwrap()).threads(8).quiet().start();
        assert_eq!(runtime.run(|| vicus_machine::join(|| 1, || 2)), (1, 2));
        assert!(!runtime.run(|| runtime.is_asleep()), "{}: it runs a task", strategy.name());
        // Growing pauses are over by then.
        let began = std::time::Instant::now();
        while !runtime.is_asleep() {
            assert!(began.elapsed() < Duration::from_secs(30), "{}", strategy.name());
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(100));
        let before = cpu_time();
        std::thread::sleep(Duration::from_millis(400));
        let used = cpu_time() - before;
        assert!(used <= Duration::from_millis(20), "{}: {used:?}", strategy.name());
    }
}
