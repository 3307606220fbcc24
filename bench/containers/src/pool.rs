//! The pool: 44-byte items are allocated, written to and freed (Wheeler et al., Fig. 3).

use crate::machine;
use crate::measure::{self, allowed, alternate, print_rates, together};
use anyhow::ensure;
use std::ffi::c_void;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use vicus_memory::{DistPool, Frees, Memory, PoolItem, PoolOptions};
use vicus_topology::NodeId;

/// The options of `pool`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Items in one round, over all threads.
    #[arg(long, default_value_t = 100_000_000)]
    items: u64,
    /// Rounds of each side; the medians count.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// How many live items a thread has: it allocates as many and frees them, the last one first.
    #[arg(long, value_delimiter = ',', default_value = "1,1000")]
    live: Vec<usize>,
    /// Only sides whose name contains this.
    #[arg(long)]
    only: Option<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options { items: 100_000_000, rounds: 7, threads: 2, live: vec![1, 1000], only: None }
    }
}

/// As large as a `pthread_mutex_t` on some systems, according to the paper.
type Item = [u8; 44];

const BYTES: usize = size_of::<Item>();

/// Allocates and frees items on a thread, with `live` of them at a time.
trait Allocate: Sync {
    fn run(&self, thread: usize, items: u64, live: usize);
}

/// A C allocator, given by its two functions.
#[derive(Clone, Copy)]
struct Malloc {
    alloc: unsafe extern "C" fn(usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
}

impl Allocate for Malloc {
    #[expect(unsafe_code, reason = "calls a C allocator")]
    fn run(&self, _: usize, items: u64, live: usize) {
        let mut held: Vec<*mut Item> = Vec::with_capacity(live);
        for _ in 0..items / live as u64 {
            for at in 0..live {
                // SAFETY: the memory has this many bytes, and is written and freed once.
                unsafe {
                    let item = (self.alloc)(BYTES).cast::<Item>();
                    assert!(!item.is_null(), "no memory is left");
                    item.write(black_box([at as u8; BYTES]));
                    black_box(item);
                    held.push(item);
                }
            }
            while let Some(item) = held.pop() {
                // SAFETY: allocated above.
                unsafe { (self.free)(item.cast()) };
            }
        }
    }
}

/// "A similar mutex-protected concurrent memory pool".
#[derive(Default)]
struct MutexPool(Mutex<Blocks>);

/// All blocks, and the free items.
type Blocks = (Vec<Box<[Item]>>, Vec<*mut Item>);

#[expect(unsafe_code, reason = "its items are pointers")]
// SAFETY: free items are behind the lock, and a taken one belongs to the thread that took it.
unsafe impl Sync for MutexPool {}

impl MutexPool {
    const BLOCK: usize = (1 << 20) / BYTES;

    fn alloc(&self) -> *mut Item {
        let mut pool = self.0.lock().expect("nothing panics behind it");
        let (blocks, free) = &mut *pool;
        free.pop().unwrap_or_else(|| {
            let mut block = vec![[0; BYTES]; MutexPool::BLOCK].into_boxed_slice();
            let first = block.as_mut_ptr();
            free.extend((1..MutexPool::BLOCK).rev().map(|at| first.wrapping_add(at)));
            blocks.push(block);
            first
        })
    }

    fn free(&self, item: *mut Item) {
        self.0.lock().expect("nothing panics behind it").1.push(item);
    }
}

impl Allocate for MutexPool {
    #[expect(unsafe_code, reason = "writes to an item")]
    fn run(&self, _: usize, items: u64, live: usize) {
        let mut held: Vec<*mut Item> = Vec::with_capacity(live);
        for _ in 0..items / live as u64 {
            for at in 0..live {
                let item = self.alloc();
                // SAFETY: an item of a block, taken by this thread.
                unsafe { item.write(black_box([at as u8; BYTES])) };
                black_box(item);
                held.push(item);
            }
            while let Some(item) = held.pop() {
                self.free(item);
            }
        }
    }
}

impl Allocate for DistPool<Item> {
    fn run(&self, thread: usize, items: u64, live: usize) {
        let mut seat = self.handle(NodeId::new(thread % self.blocks().len()));
        let mut held: Vec<PoolItem<'_, Item>> = Vec::with_capacity(live);
        for _ in 0..items / live as u64 {
            for at in 0..live {
                let item = seat.alloc_with(|| black_box([at as u8; BYTES])).expect("memory is left");
                black_box(&raw const *item);
                held.push(item);
            }
            while let Some(item) = held.pop() {
                seat.free(item);
            }
        }
    }
}

/// Makes a fresh pool for a round.
type Fresh = Box<dyn Fn() -> Box<dyn Allocate>>;

type Side = measure::Side<Fresh>;

fn sides(memory: &Arc<Memory>) -> Vec<Side> {
    let ours = |name, options: PoolOptions| {
        let memory = Arc::clone(memory);
        let fresh: Fresh =
            Box::new(move || Box::new(DistPool::<Item>::new(&memory, options).expect("the options fit")));
        Side::ours(name, fresh)
    };
    let malloc = |name, alloc, free| Side::peer(name, Box::new(move || Box::new(Malloc { alloc, free })));
    let usual = PoolOptions { align: 8, ..PoolOptions::default() };
    vec![
        ours("DistPool", usual),
        ours("DistPool, frees go home", PoolOptions { frees: Frees::Home, ..usual }),
        ours("DistPool as published", PoolOptions { magazine: 0, ..usual }),
        Side::peer("mutex pool", Box::new(|| Box::<MutexPool>::default())),
        malloc("malloc of the system", libc::malloc, libc::free),
        malloc("mimalloc", libmimalloc_sys::mi_malloc, libmimalloc_sys::mi_free),
        malloc("jemalloc", tikv_jemalloc_sys::malloc, tikv_jemalloc_sys::free),
        malloc("snmalloc", snmalloc, snmalloc_free),
    ]
}

/// The crate's function takes the alignment, and the size again to free.
#[expect(unsafe_code, reason = "calls a C allocator")]
unsafe extern "C" fn snmalloc(bytes: usize) -> *mut c_void {
    // SAFETY: the function has no requirements.
    unsafe { snmalloc_sys::sn_rust_alloc(8, bytes).cast() }
}

#[expect(unsafe_code, reason = "calls a C allocator")]
unsafe extern "C" fn snmalloc_free(item: *mut c_void) {
    // SAFETY: the caller got the item from `snmalloc`.
    unsafe { snmalloc_sys::sn_rust_dealloc(item.cast(), 8, BYTES) };
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let &Options { items, rounds, threads, .. } = options;
    ensure!(rounds > 0 && threads > 0 && !options.live.contains(&0), "nothing would be measured");
    let (cpus, memory) = (allowed()?, machine::memory(1)?);
    for &live in &options.live {
        let mut sides = sides(&memory);
        if let Some(only) = &options.only {
            sides.retain(|side| side.name.contains(only.as_str()));
        }
        alternate(&mut sides, rounds, items, |fresh| {
            let side = fresh();
            Ok(together(threads, &cpus, |thread| side.run(thread, items / threads as u64, live)))
        })?;
        let (bytes, pus) = (BYTES, cpus.len());
        let title =
            format!("{items} items of {bytes} bytes (Fig. 3), {live} at a time, {threads} threads on {pus} PUs");
        print_rates(&sides, &title);
    }
    Ok(())
}
