//! The allocator: blocks from 8 KiB to 512 KiB, after Falt et al. §5, beside malloc, mimalloc, jemalloc and snmalloc.

use crate::measure::{allowed, least, load, most, pin};
use anyhow::{Context, ensure};
use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Instant;
use vicus_machine::Allocator;
use vicus_memory::{Foreign, Heap, Memory};
use vicus_testing::median;
use vicus_topology::NodeId;

/// The options of `memory`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rounds of each side; the medians count.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Only sides whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// The seed of sizes and orders.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Internal: plays the trace with one side and prints its resident bytes.
    #[arg(long, hide = true)]
    resident: Option<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options { rounds: 9, only: None, seed: 1, resident: None }
    }
}

/// How a thread allocates and frees blocks.
trait Blocks {
    fn alloc(&mut self, bytes: usize) -> *mut u8;

    /// # Safety
    /// The block came from the same side with this size, and is not used any more.
    #[expect(unsafe_code, reason = "frees a block")]
    unsafe fn free(&mut self, block: *mut u8, bytes: usize);

    /// A task has finished.
    fn finish_task(&mut self) {}
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 8).expect("a usual size")
}

impl Blocks for Heap {
    #[inline]
    fn alloc(&mut self, bytes: usize) -> *mut u8 {
        Heap::alloc(self, layout(bytes)).expect("memory is left").as_ptr()
    }

    #[inline]
    #[expect(unsafe_code, reason = "frees a block")]
    unsafe fn free(&mut self, block: *mut u8, bytes: usize) {
        // SAFETY: the caller's; no block has a null address.
        unsafe { Heap::free(self, std::ptr::NonNull::new_unchecked(block), layout(bytes)) };
    }

    fn finish_task(&mut self) {
        Heap::finish_task(self);
    }
}

/// A global allocator.
struct Global<A>(A);

impl<A: GlobalAlloc> Blocks for Global<A> {
    #[inline]
    #[expect(unsafe_code, reason = "calls an allocator")]
    fn alloc(&mut self, bytes: usize) -> *mut u8 {
        // SAFETY: no size is 0.
        unsafe { self.0.alloc(layout(bytes)) }
    }

    #[inline]
    #[expect(unsafe_code, reason = "frees a block")]
    unsafe fn free(&mut self, block: *mut u8, bytes: usize) {
        // SAFETY: as for the caller.
        unsafe { self.0.dealloc(block, layout(bytes)) };
    }
}

macro_rules! c_allocator {
    ($name:ident, $alloc:expr, $free:expr) => {
        struct $name;

        impl Blocks for $name {
            #[inline]
            #[expect(unsafe_code, reason = "calls a C allocator")]
            fn alloc(&mut self, bytes: usize) -> *mut u8 {
                // SAFETY: the function has no requirements.
                unsafe { $alloc(bytes).cast() }
            }

            #[inline]
            #[expect(unsafe_code, reason = "frees a block")]
            unsafe fn free(&mut self, block: *mut u8, bytes: usize) {
                // SAFETY: as for the caller.
                unsafe { $free(block.cast(), bytes) };
            }
        }
    };
}

c_allocator!(Malloc, libc::malloc, |block, _| libc::free(block));
c_allocator!(Mimalloc, libmimalloc_sys::mi_malloc, |block, _| libmimalloc_sys::mi_free(block));
c_allocator!(Jemalloc, tikv_jemalloc_sys::malloc, |block, _| tikv_jemalloc_sys::free(block));
c_allocator!(Snmalloc, |bytes| snmalloc_sys::sn_rust_alloc(8, bytes), |block, bytes| {
    snmalloc_sys::sn_rust_dealloc(block, 8, bytes)
});

const NAMES: [&str; 7] =
    ["heap", "heap, bins", "Allocator", "malloc of the system", "mimalloc", "jemalloc", "snmalloc"];

/// The first names are ours.
const OURS: usize = 3;

/// The memories that our sides allocate from.
struct Memories {
    mailboxes: Arc<Memory>,
    bins: Arc<Memory>,
}

impl Memories {
    fn new() -> anyhow::Result<Memories> {
        let machine = vicus_machine::this_machine().topology;
        let of = |foreign| {
            let pages = Arc::new(vicus_machine::SystemPages::new(&machine));
            Memory::new(pages, &machine, vicus_memory::MemoryOptions { foreign, ..Default::default() })
        };
        Ok(Memories { mailboxes: of(Foreign::Mailboxes)?, bins: of(Foreign::Bins)? })
    }

    /// Runs `work` with the side of this name.
    fn with<W: Work>(&self, name: &str, work: W) -> W::Result {
        let heap = |memory: &Arc<Memory>| {
            let memory = Arc::clone(memory);
            move || Heap::new(&memory, NodeId::new(0)).expect("there are few heaps")
        };
        match name {
            "heap" => work.with(heap(&self.mailboxes)),
            "heap, bins" => work.with(heap(&self.bins)),
            "Allocator" => work.with(|| Global(Allocator::new())),
            "mimalloc" => work.with(|| Mimalloc),
            "jemalloc" => work.with(|| Jemalloc),
            "snmalloc" => work.with(|| Snmalloc),
            _ => work.with(|| Malloc),
        }
    }
}

/// A measurement that runs on any side. Each thread makes its own `Blocks`.
trait Work {
    type Result;

    fn with<B: Blocks>(self, blocks: impl Fn() -> B + Sync) -> Self::Result;
}

/// The 63 sizes of the paper's series.
fn sizes(memory: &Memory) -> Vec<usize> {
    let sizes = memory.sizes();
    (0..sizes.classes()).map(|class| sizes.bytes(class)).filter(|&bytes| bytes >= 8 << 10).collect()
}

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn shuffle<T>(values: &mut [T], state: &mut u64) {
    for at in (1..values.len()).rev() {
        values.swap(at, next(state) as usize % (at + 1));
    }
}

/// Allocates and frees one block again and again: nanoseconds for both, by size.
struct Pairs<'a>(&'a [usize]);

impl Work for Pairs<'_> {
    type Result = Vec<f64>;

    fn with<B: Blocks>(self, blocks: impl Fn() -> B) -> Vec<f64> {
        const PAIRS: u32 = 20_000;
        let mut blocks = blocks();
        let mut pair = |bytes: usize| {
            let block = black_box(blocks.alloc(black_box(bytes)));
            #[expect(unsafe_code, reason = "frees a block")]
            // SAFETY: just allocated.
            unsafe {
                blocks.free(block, bytes);
            }
        };
        let time = |&bytes: &usize| {
            (0..100).for_each(|_| pair(bytes));
            let began = Instant::now();
            (0..PAIRS).for_each(|_| pair(bytes));
            began.elapsed().as_secs_f64() * 1e9 / f64::from(PAIRS)
        };
        self.0.iter().map(time).collect()
    }
}

/// Allocates one block of each size and frees them in another order: nanoseconds for each block.
struct Batches<'a> {
    sizes: &'a [usize],
    seed: u64,
}

impl Work for Batches<'_> {
    type Result = Vec<f64>;

    fn with<B: Blocks>(self, blocks: impl Fn() -> B) -> Vec<f64> {
        const BATCHES: u32 = 4_000;
        let mut state = self.seed;
        let mut sizes = self.sizes.to_vec();
        shuffle(&mut sizes, &mut state);
        let mut orders: Vec<Vec<usize>> = vec![(0..sizes.len()).collect(); 16];
        orders.iter_mut().for_each(|order| shuffle(order, &mut state));
        let mut blocks = blocks();
        let mut held = vec![std::ptr::null_mut(); sizes.len()];
        let mut batch = |order: &[usize]| {
            for (block, &bytes) in held.iter_mut().zip(&sizes) {
                *block = black_box(blocks.alloc(black_box(bytes)));
            }
            for &at in order {
                #[expect(unsafe_code, reason = "frees a block")]
                // SAFETY: allocated above, each freed once.
                unsafe {
                    blocks.free(held[at], sizes[at]);
                }
            }
        };
        orders.iter().for_each(|order| batch(order));
        let began = Instant::now();
        (0..BATCHES as usize).for_each(|number| batch(&orders[number % orders.len()]));
        vec![began.elapsed().as_secs_f64() * 1e9 / f64::from(BATCHES) / sizes.len() as f64]
    }
}

/// One thread allocates blocks of random sizes and writes to them, another frees them: nanoseconds for each block.
struct Foreigners<'a> {
    sizes: &'a [usize],
    seed: u64,
    cpus: &'a [usize],
}

/// A block on its way to another thread.
struct Sent(*mut u8, usize);

#[expect(unsafe_code, reason = "a pointer goes to another thread")]
// SAFETY: the thread that has the `Sent` owns its block.
unsafe impl Send for Sent {}

impl Work for Foreigners<'_> {
    type Result = Vec<f64>;

    fn with<B: Blocks>(self, blocks: impl Fn() -> B + Sync) -> Vec<f64> {
        const TASKS: usize = 4_000;
        const TASK: usize = 32;
        let Foreigners { sizes, seed, cpus } = self;
        let (send, receive) = sync_channel::<Vec<Sent>>(8);
        let time = std::thread::scope(|scope| {
            let blocks = &blocks;
            let producer = scope.spawn(move || {
                pin(cpus[0]);
                let (mut blocks, mut state) = (blocks(), seed);
                let began = Instant::now();
                for _ in 0..TASKS {
                    let task = (0..TASK).map(|_| {
                        let bytes = sizes[next(&mut state) as usize % sizes.len()];
                        let block = blocks.alloc(bytes);
                        #[expect(unsafe_code, reason = "writes into a block")]
                        // SAFETY: the block is larger than what is written.
                        unsafe {
                            block.cast::<u64>().write(state);
                        }
                        Sent(block, bytes)
                    });
                    send.send(task.collect()).expect("the consumer lives");
                    blocks.finish_task();
                }
                drop(send);
                began
            });
            scope.spawn(move || {
                pin(cpus[1 % cpus.len()]);
                let mut blocks = blocks();
                for task in receive {
                    for Sent(block, bytes) in task {
                        #[expect(unsafe_code, reason = "frees a block")]
                        // SAFETY: the block was sent to this thread, which owns it.
                        unsafe {
                            black_box(block.cast::<u64>().read());
                            blocks.free(block, bytes);
                        }
                    }
                    blocks.finish_task();
                }
            });
            producer.join().expect("no side panics")
        });
        vec![time.elapsed().as_secs_f64() * 1e9 / (TASKS * TASK) as f64]
    }
}

/// The trace `ebb`: allocates and writes to blocks of 8 KiB to 4 MiB, small ones more often, up to 256 MiB; replaces
/// some for a while; and shrinks to 128 MiB. Returns the bytes in use at the end, which stay allocated.
struct Ebb {
    seed: u64,
}

impl Work for Ebb {
    type Result = usize;

    fn with<B: Blocks>(self, blocks: impl Fn() -> B) -> usize {
        let (mut blocks, mut state) = (blocks(), self.seed);
        let mut held: Vec<(*mut u8, usize)> = Vec::new();
        let mut used = 0;
        let mut step = |most: usize, grows: bool, held: &mut Vec<(*mut u8, usize)>| {
            while !held.is_empty() && (used >= most || !grows) {
                let (block, bytes) = held.swap_remove(next(&mut state) as usize % held.len());
                used -= bytes;
                #[expect(unsafe_code, reason = "frees a block")]
                // SAFETY: allocated below, freed once.
                unsafe {
                    blocks.free(block, bytes);
                }
                if used < most {
                    break;
                }
            }
            if grows {
                let bytes = (8 << 10) + (next(&mut state) as usize & 0xfff) * ((1 << (next(&mut state) % 10)) + 1);
                let block = blocks.alloc(bytes);
                #[expect(unsafe_code, reason = "writes to a block")]
                // SAFETY: the block has this many bytes.
                unsafe {
                    block.write_bytes(7, bytes);
                }
                used += bytes;
                held.push((block, bytes));
            }
            used
        };
        while step(256 << 20, true, &mut held) < 255 << 20 {}
        for _ in 0..20_000 {
            step(256 << 20, true, &mut held);
        }
        while step(128 << 20, false, &mut held) > 128 << 20 {}
        blocks.finish_task();
        // The blocks stay allocated, so that the resident bytes can be read.
        std::mem::forget(held);
        std::mem::forget(blocks);
        used
    }
}

/// The resident bytes of this process.
fn resident() -> anyhow::Result<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("the system tells no resident size")?;
    Ok(line.split_whitespace().nth(1).context("a number is missing")?.parse::<usize>()? * 1024)
}

/// Plays the trace and prints the resident bytes before, the bytes in use at the end, and the resident bytes after ten
/// more seconds, in which allocators give memory back.
fn play(name: &str, seed: u64) -> anyhow::Result<()> {
    let memories = Memories::new()?;
    let before = resident()?;
    let used = memories.with(name, Ebb { seed });
    for second in 1..=11 {
        std::thread::sleep(std::time::Duration::from_secs(1));
        memories.mailboxes.tick(second);
        memories.bins.tick(second);
        // Some allocators give memory back only when they are called.
        memories.with(name, Pairs(&[8 << 10, 600 << 10]));
    }
    println!("{before} {used} {}", resident()?);
    Ok(())
}

/// Resident bytes for each byte in use, measured in a process of its own.
fn residence(name: &str, seed: u64) -> anyhow::Result<f64> {
    let me = std::env::current_exe()?;
    let output = Command::new(me).args(["memory", "--resident", name, "--seed", &seed.to_string()]).output()?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [before, used, after] = numbers[..] else { anyhow::bail!("{name} printed `{text}`") };
    Ok((after - before) / used)
}

/// Times by side, measure and round.
type Times = Vec<Vec<Vec<f64>>>;

fn measure(names: &[&str], rounds: usize, mut once: impl FnMut(&str) -> Vec<f64>) -> Times {
    let mut times: Times = vec![Vec::new(); names.len()];
    // The first round is a warm-up.
    for round in 0..=rounds {
        for (name, times) in names.iter().zip(&mut times) {
            let found = once(name);
            times.resize(found.len(), Vec::new());
            if round > 0 {
                times.iter_mut().zip(found).for_each(|(times, found)| times.push(found));
            }
        }
    }
    times
}

fn print(title: &str, names: &[&str], columns: &[&str], rows: &[Vec<f64>]) {
    println!("\n{title}, load {}", load());
    let heads: Vec<String> = columns.iter().map(|column| format!("{column:>10}")).collect();
    println!("{:22}{}{:>14}", "", heads.concat(), "to best peer");
    let is_ours = |name: &&str| NAMES[..OURS].contains(name);
    let peers = names.iter().zip(rows).filter(|(name, _)| !is_ours(name));
    let best = peers.map(|(_, row)| row[0]).fold(f64::INFINITY, f64::min);
    for (name, row) in names.iter().zip(rows) {
        let cells: Vec<String> = row.iter().map(|cell| format!("{cell:>10.2}")).collect();
        let ratio = if best.is_finite() { format!("{:.2}", row[0] / best) } else { String::new() };
        println!("{name:22}{}{ratio:>14}", cells.concat());
    }
}

/// The median, the least and the greatest.
fn spread(values: &[f64]) -> Vec<f64> {
    vec![median(values), least(values), most(values)]
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    // The first runtime of a process sets its memory up.
    let _runtime = vicus_machine::MachineRuntime::builder().threads(1).quiet().start();
    if let Some(name) = &options.resident {
        return play(name, options.seed);
    }
    ensure!(options.rounds > 0, "nothing would be measured");
    let only = options.only.as_deref().unwrap_or("");
    let names: Vec<&str> = NAMES.into_iter().filter(|name| name.contains(only)).collect();
    let (cpus, memories) = (allowed()?, Memories::new()?);
    let (sizes, seed) = (sizes(&memories.mailboxes), options.seed);
    pin(cpus[0]);

    let times = measure(&names, options.rounds, |name| memories.with(name, Pairs(&sizes)));
    let rows = times.iter().map(|times| {
        let by_size: Vec<f64> = times.iter().map(|rounds| median(rounds)).collect();
        spread(&by_size)
    });
    let title = format!("ns for a block and its free, {} sizes from 8 to 512 KiB", sizes.len());
    print(&title, &names, &["median", "least", "most"], &rows.collect::<Vec<_>>());

    let times = measure(&names, options.rounds, |name| memories.with(name, Batches { sizes: &sizes, seed }));
    let rows: Vec<Vec<f64>> = times.iter().map(|times| spread(&times[0])).collect();
    print(
        "ns for a block of a batch of all sizes, freed in another order",
        &names,
        &["median", "least", "most"],
        &rows,
    );

    let work = |name: &str| memories.with(name, Foreigners { sizes: &sizes, seed, cpus: &cpus });
    let times = measure(&names, options.rounds, work);
    let rows: Vec<Vec<f64>> = times.iter().map(|times| spread(&times[0])).collect();
    let title = format!("ns for a block that another thread frees, on {} PUs", cpus.len());
    print(&title, &names, &["median", "least", "most"], &rows);
    // The heaps are gone, and every block must have been returned.
    for memory in [&memories.mailboxes, &memories.bins] {
        let counts = memory.counts(NodeId::new(0));
        ensure!(counts.held == 0 && counts.orphans == 0, "blocks did not come home: {counts:?}");
    }
    println!("every block came home");

    let rows = names.iter().map(|name| Ok(vec![residence(name, seed)?])).collect::<anyhow::Result<Vec<_>>>()?;
    print("bytes resident for a byte in use, trace `ebb`, after 11 s", &names, &["ratio"], &rows);
    Ok(())
}
