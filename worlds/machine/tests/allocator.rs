//! A whole program on our allocator: this one.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use vicus_machine::{Allocator, MachineRuntime, node_of};

/// Counts the requests to it.
struct Counted;

static SMALL: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "an allocator that hands on to the system's")]
// SAFETY: the system's allocator keeps the contract, and nothing is changed on the way.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() < 8192 {
            SMALL.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's block.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Allocator<Counted> = Allocator::with_small(Counted);

fn runtime() -> MachineRuntime {
    MachineRuntime::builder().threads(2).quiet().start()
}

fn is_placed<T>(values: &[T]) -> bool {
    node_of(values.as_ptr().cast()).is_some()
}

#[test]
fn blocks_from_8_kib_are_the_memorys_and_smaller_ones_are_not() {
    let _runtime = runtime();
    for bytes in [8192, 8193, 100_000, 512 << 10, 513 << 10, 30 << 20] {
        assert!(is_placed(&vec![1u8; bytes]), "{bytes} bytes");
        assert!(vec![0u8; bytes].iter().all(|&byte| byte == 0), "{bytes} zeros");
    }
    let small = SMALL.load(Ordering::Relaxed);
    assert!(!is_placed(&vec![1u8; 8191]));
    assert!(SMALL.load(Ordering::Relaxed) > small, "the other allocator was asked");
}

#[test]
fn a_vector_keeps_its_values_while_it_grows_and_shrinks_over_all_borders() {
    let _runtime = runtime();
    let mut values = Vec::new();
    for value in 0..3_000_000u64 {
        values.push(value);
    }
    assert!(is_placed(&values));
    for length in [2_999_999, 100_000, 65_000, 1_025, 1_024, 1_023, 3] {
        values.truncate(length);
        values.shrink_to_fit();
        assert!(values.iter().copied().eq(0..length as u64), "{length} values");
        assert_eq!(is_placed(&values), length * 8 >= 8192, "{length} values");
    }
    values.reserve_exact(1_000_000);
    assert!(is_placed(&values) && values == [0, 1, 2]);
}

#[test]
fn large_alignments_are_kept() {
    let _runtime = runtime();
    for align in [64, 4096, 1 << 16, 2 << 20] {
        for bytes in [8192, 300_000, 5 << 20] {
            let layout = Layout::from_size_align(bytes, align).unwrap();
            #[expect(unsafe_code, reason = "asks the allocator itself")]
            // SAFETY: the block is written within its bytes, and freed once with its layout.
            unsafe {
                let block = std::alloc::alloc(layout);
                assert_eq!(block.addr() % align, 0, "{layout:?}");
                assert!(node_of(block).is_some(), "{layout:?}");
                block.write_bytes(7, bytes);
                std::alloc::dealloc(block, layout);
            }
        }
    }
}

/// Blocks go from thread to thread, are freed anywhere, and outlive their allocating threads.
#[test]
fn blocks_outlive_their_threads_and_are_freed_by_others() {
    let _runtime = runtime();
    let (send, receive) = mpsc::channel::<Vec<u64>>();
    let threads: Vec<_> = (0..4u64)
        .map(|thread| {
            let send = send.clone();
            std::thread::spawn(move || {
                let mut state = thread;
                for _ in 0..400 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let length = 1000 + (state >> 40) as usize % 90_000;
                    send.send(vec![state; length]).unwrap();
                }
            })
        })
        .collect();
    drop(send);
    let mut kept = Vec::new();
    for (number, values) in receive.into_iter().enumerate() {
        assert!(values.iter().all(|&value| value == values[0]));
        if number % 3 == 0 {
            kept.push(values);
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(kept.iter().all(|values| values.iter().all(|&value| value == values[0])));
}

/// Allocates when its thread ends.
struct Late(usize);

impl Drop for Late {
    fn drop(&mut self) {
        let values = vec![7u8; self.0];
        assert!(values.iter().all(|&value| value == 7));
    }
}

thread_local! {
    static FIRST: RefCell<Option<(Late, Vec<u64>)>> = const { RefCell::new(None) };
    static SECOND: RefCell<Option<(Late, Vec<u64>)>> = const { RefCell::new(None) };
}

#[test]
fn what_a_thread_keeps_to_its_end_is_freed_whichever_goes_first() {
    let _runtime = runtime();
    for heap_first in [false, true] {
        let thread = std::thread::spawn(move || {
            // A thread's heap is made with its first block, and goes before earlier registrations.
            if heap_first {
                assert!(is_placed(&vec![1u8; 10_000]));
            }
            FIRST.set(Some((Late(20_000), vec![1; 3])));
            SECOND.set(Some((Late(2 << 20), vec![2; 5_000])));
        });
        thread.join().unwrap();
    }
}

/// The child of a fork has one thread, and allocates although others held locks when it came to be.
#[test]
fn the_child_of_a_fork_allocates() {
    let _runtime = runtime();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let busy: Vec<_> = (0..2)
        .map(|_| {
            let stop = std::sync::Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // Mapped blocks: they take the node's lock.
                    std::hint::black_box(vec![1u8; 600 << 10]);
                }
            })
        })
        .collect();
    for _ in 0..20 {
        #[expect(unsafe_code, reason = "forks")]
        // SAFETY: the child allocates, the subject of this test, and ends without returning.
        unsafe {
            let child = libc::fork();
            assert!(child >= 0, "{}", std::io::Error::last_os_error());
            if child == 0 {
                // Ends a child that waits for a lock for ever.
                libc::alarm(10);
                let blocks: Vec<Vec<u8>> = [9_000, 100_000, 700_000, 20 << 20].map(|bytes| vec![3; bytes]).into();
                let right = blocks.iter().all(|block| is_placed(block) && block.iter().all(|&byte| byte == 3));
                drop(blocks);
                libc::_exit(i32::from(!right));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert_eq!(status, 0, "the child ended with this status");
        }
    }
    stop.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|thread| thread.join().unwrap());
}
