//! Memory freed by a thread without a seat goes back to the system, though all seats sleep for good. A process of its
//! own: its first runtime sets the time until then.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use vicus_flow::{BoxModel, ModelBuilder, Schema, Turn};
use vicus_machine::{Allocator, Defaults, MachineRuntime};
use vicus_topology::NodeId;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator::new();

#[test]
#[cfg_attr(debug_assertions, ignore = "times of the system; the optimised build has it")]
fn what_is_freed_while_all_seats_sleep_goes_back() {
    let quickly = Defaults { decay_ms: Some(Ok(100)), ..Defaults::default() };
    let runtime = MachineRuntime::builder().threads(2).quiet().defaults(quickly).start();
    for round in 0..4 {
        let block = vec![1u8; 32 << 20];
        assert!(runtime.memory().is_some_and(|memory| memory.nodes() > 0) && block[round << 20] == 1);
        // Long enough for the seats to sleep without looking at the time any more, most times.
        std::thread::sleep(Duration::from_millis(400));
        drop(block);
        wait_until_all_has_gone_back(&runtime, round);
    }
    let runtime = ended_runtimes_are_not_asked(runtime);
    what_a_seat_that_is_left_looked_after_goes_back(runtime);
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    what_is_freed_while_one_of_two_seats_is_busy_goes_back(&runtime);
    what_a_block_was_larger_goes_back(&runtime);
    drop(runtime);
    what_a_lent_thread_no_longer_uses_goes_back();
}

/// What happened: the runtime asked to give freed memory back had ended, or ended at this moment, and memory freed
/// later was kept though another runtime had seats. Returns the other runtime.
fn ended_runtimes_are_not_asked(mut first: MachineRuntime) -> MachineRuntime {
    let mut handles = Vec::new();
    for round in 0..4 {
        // Its handle keeps the shared state of the first runtime's seats.
        handles.push(first.spawn(|| ()));
        let second = MachineRuntime::builder().threads(2).quiet().start();
        let [one, other] = [0, 1].map(|_| vec![1u8; 32 << 20]);
        std::thread::sleep(Duration::from_millis(400));
        drop(one);
        drop(std::mem::replace(&mut first, second));
        if round % 2 == 1 {
            std::thread::sleep(Duration::from_millis(400));
        }
        drop(other);
        wait_until_all_has_gone_back(&first, round);
    }
    first
}

/// What happened: memory was freed while a seat looked after such memory, and the seat had a task and then began to
/// look after it again. Its runtime ended before it told the time. The seat of another runtime slept for good, and the
/// memory waited for ever.
fn what_a_seat_that_is_left_looked_after_goes_back(mut first: MachineRuntime) {
    let mut handles = Vec::new();
    for round in 0..4 {
        handles.push(first.spawn(|| ()));
        let second = MachineRuntime::builder().threads(1).quiet().start();
        let block = vec![1u8; 32 << 20];
        std::thread::sleep(Duration::from_millis(400));
        // Each time, the seat begins after a nap of ten milliseconds, and would tell the time a hundred later.
        first.run(|| ());
        std::thread::sleep(Duration::from_millis(20));
        drop(block);
        first.run(|| ());
        std::thread::sleep(Duration::from_millis(20));
        drop(std::mem::replace(&mut first, second));
        wait_until_all_has_gone_back(&first, round);
    }
}

/// What happened: the last seat to begin looking after freed memory was woken for a long task. The other one left it to
/// this seat, and slept for good; memory freed meanwhile was kept until the task was over.
fn what_is_freed_while_one_of_two_seats_is_busy_goes_back(runtime: &MachineRuntime) {
    struct Over(Arc<AtomicBool>);
    impl Drop for Over {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    for round in 0..4 {
        let block = vec![1u8; 32 << 20];
        std::thread::sleep(Duration::from_millis(300));
        // One seat begins when it has slept for ten milliseconds, and the other one later: before the first one has
        // told the time, or after it.
        let busy = [50, if round % 2 == 0 { 70 } else { 250 }];
        let busy = busy.map(|ms| runtime.spawn(move || std::thread::sleep(Duration::from_millis(ms))));
        busy.into_iter().for_each(|task| task.wait().unwrap());
        std::thread::sleep(Duration::from_millis(25));
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Over(Arc::clone(&is_over));
        let long = runtime.spawn(move || {
            while !is_over.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        std::thread::sleep(Duration::from_millis(5));
        drop(block);
        wait_until_all_has_gone_back(runtime, round);
        drop(over);
        long.wait().unwrap();
    }
}

/// What happened: a block was made smaller elsewhere, and its former memory waited for ever.
fn what_a_block_was_larger_goes_back(runtime: &MachineRuntime) {
    let mut block = vec![1u8; 32 << 20];
    std::thread::sleep(Duration::from_millis(400));
    block.truncate(20_000);
    block.shrink_to_fit();
    wait_until_all_has_gone_back(runtime, 0);
    assert_eq!(block, [1; 20_000]);
}

/// What happened: the thread of a spare seat kept all its free superblocks for as long as no other thread blocked. Two
/// such threads of an idle server kept 29 superblocks with 240 MiB resident, in which 3 MiB were in use.
fn what_a_lent_thread_no_longer_uses_goes_back() {
    let runtime = MachineRuntime::builder().threads(1).quiet().start();
    let memory = runtime.memory().expect("this process has addresses for it");
    let held = || (0..memory.nodes()).map(|node| memory.counts(NodeId::new(node)).held).sum::<usize>();
    let before = held();
    let (sends, stays) = mpsc::channel();
    let (opens, opened) = mpsc::channel();
    let opened = Arc::new(Mutex::new(opened));
    let mut net = ModelBuilder::new("blocking");
    let blocks = BoxModel::new("blocks", move || {
        let opened = Arc::clone(&opened);
        move |turn: &mut Turn<'_>| {
            turn.take(0);
            turn.blocking(|| opened.lock().unwrap().recv().unwrap());
            turn.send_pill(0);
            Ok(())
        }
    });
    let fills = BoxModel::new("fills", move || {
        let (sends, opens) = (sends.clone(), opens.clone());
        move |turn: &mut Turn<'_>| {
            turn.take(0);
            // Of one class 9 MB, of which a block stays, and of each of nine others a block.
            let mut blocks: Vec<Vec<u8>> = (0..450).map(|_| vec![1; 20_000]).collect();
            (3..12).for_each(|part| drop(vec![1u8; part * 8_000]));
            sends.send(blocks.swap_remove(7)).unwrap();
            opens.send(()).unwrap();
            turn.send_pill(0);
            Ok(())
        }
    });
    for model in [fills, blocks] {
        let box_id = net.source(model.output(&Schema::new::<&str>([])));
        net.end(box_id.output(0));
    }
    runtime.submit(&net.build().unwrap()).wait().unwrap();
    let stays = stays.recv().unwrap();
    let page = stays.as_ptr().addr() & !4095;
    let resident = || {
        // Of the 4 MB some pages behind the block in use: of its superblock, and of what comes behind that.
        let mut states = [0u8; 1000];
        let count = |start: usize, states: &mut [u8; 1000]| {
            #[expect(unsafe_code, reason = "asks the system which pages are resident")]
            // SAFETY: the kernel writes a byte a page, or fails where there are no addresses.
            let done = unsafe {
                libc::mincore(std::ptr::without_provenance_mut(start), states.len() * 4096, states.as_mut_ptr())
            };
            if done == 0 { states.iter().filter(|&&state| state & 1 == 1).count() } else { usize::MAX }
        };
        count(page + 4096 * 5, &mut states)
    };
    let began = Instant::now();
    while held() > before + 2 || resident() > 300 {
        let text = format!("{} superblocks of {before} at first, {} pages of 1000", held(), resident());
        assert!(began.elapsed() < Duration::from_secs(30), "{text}");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(stays, [1; 20_000]);
}

fn wait_until_all_has_gone_back(runtime: &MachineRuntime, round: usize) {
    let memory = runtime.memory().expect("this process has addresses for it");
    let waiting = || (0..memory.nodes()).map(|node| memory.counts(NodeId::new(node)).mapped_waiting).sum::<usize>();
    let began = Instant::now();
    while waiting() > 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "round {round}: {} bytes wait for ever", waiting());
        std::thread::sleep(Duration::from_millis(5));
    }
}
