//! Vicus' lightweight threads beside std's threads, tokio's tasks, Qthreads and Argobots.
//!
//! Each figure is nanoseconds for one operation, the median of several rounds, in which the sides alternate. The sides
//! in C, Vicus' own interface of Qthreads among them, are processes of their own; so are Qthreads' benchmark programs,
//! which are run with both libraries (`--what programs`).

mod peers;

use clap::Parser;
use peers::Library;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use vicus_machine::MachineRuntime;
use vicus_threads::{self as threads, Builder, SyncVar, full_empty};

/// Vicus' lightweight threads beside std's threads, tokio's tasks, Qthreads and Argobots.
#[derive(Parser)]
struct Args {
    /// Numbers of threads of the system, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// What to measure, separated by commas; `million`, `chain` and `tree` are measured when they are named.
    #[arg(long, value_delimiter = ',',
          default_values = ["spawn", "batch", "yield", "switch", "syncvar", "word", "pingpong", "sleepers",
              "programs"])]
    what: Vec<String>,
    /// Only those of Qthreads' benchmark programs whose names have one of these in them, separated by commas.
    #[arg(long, value_delimiter = ',')]
    programs: Vec<String>,
    /// Only the sides of these names, separated by commas.
    #[arg(long, value_delimiter = ',')]
    sides: Vec<String>,
    /// How many times each side is measured.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// The strategy of Vicus' side.
    #[arg(long, default_value = "vicus")]
    strategy: String,
    /// The stacks of the million threads, in bytes.
    #[arg(long, default_value_t = 4096)]
    stack: usize,
    /// The libvicus_qthreads.so of the sides in C.
    #[arg(long)]
    library: Option<PathBuf>,
    /// Where git finds Qthreads.
    #[arg(long, default_value = "https://github.com/sandialabs/qthreads")]
    qthreads: String,
    /// Where git finds Argobots.
    #[arg(long, default_value = "https://github.com/pmodels/argobots")]
    argobots: String,
}

/// A side of a measurement: its name, and what gives the nanoseconds for one operation.
type Side<'a> = (&'static str, Box<dyn FnMut() -> f64 + 'a>);

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let is_wanted = |side: &str| args.sides.is_empty() || args.sides.iter().any(|wanted| wanted == side);
    let libraries: Vec<Library> = match ["qthreads", "argobots", "vicus-c"].into_iter().any(is_wanted) {
        true => peers::libraries(&args.qthreads, &args.argobots, args.library.as_deref()),
        false => Vec::new(),
    };
    let compiled = |library: &Library| match library.program() {
        Ok(program) => Some((library.name, program)),
        Err(error) => {
            eprintln!("{} is left out: {error:#}", library.name);
            None
        }
    };
    let in_c: Vec<(&'static str, PathBuf)> = libraries.iter().filter_map(compiled).collect();
    for &count in &args.threads {
        let runtime = MachineRuntime::builder().threads(count).strategy(args.strategy.parse()?).start();
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(count).build()?;
        for what in &args.what {
            let (title, mut sides): (&str, Vec<Side>) = match what.as_str() {
                "spawn" => ("spawn and join of an empty thread", spawn(&runtime, &tokio)),
                "batch" => ("a thousand empty threads, then joined, each", batch(&runtime, &tokio)),
                "yield" => ("spawn and join of one that yields once", yields(&runtime, &tokio)),
                "switch" => ("a yield among ten threads", switches(&runtime, &tokio)),
                "syncvar" => ("read_fe and write_ef of a SyncVar", vec![("vicus", Box::new(|| on(&runtime, syncvar)))]),
                "word" => ("read_fe and write_ef by address", vec![("vicus", Box::new(|| on(&runtime, word)))]),
                "pingpong" => ("a round trip between two threads", pingpong(&runtime, &tokio)),
                "sleepers" => (
                    "10,000 threads that wait for one word, each",
                    vec![("vicus", Box::new(|| waiters(&runtime, 10_000, 32 << 10)))],
                ),
                "million" => {
                    million(&runtime, args.stack);
                    continue;
                }
                "chain" => {
                    chain(&runtime, args.stack);
                    continue;
                }
                "tree" => {
                    tree(&runtime, args.stack);
                    continue;
                }
                "programs" => {
                    peers::programs(&libraries, &args.programs, count, args.rounds)?;
                    continue;
                }
                other => anyhow::bail!("there is no `{other}`"),
            };
            let is_of_qthreads = ["word", "syncvar"].contains(&what.as_str());
            if is_of_qthreads || ["spawn", "batch", "yield", "switch", "pingpong"].contains(&what.as_str()) {
                // Argobots has no full/empty bits.
                for (name, program) in in_c.iter().filter(|(name, _)| !(is_of_qthreads && *name == "argobots")) {
                    sides.push((name, Box::new(move || peers::measure(program, what, count))));
                }
            }
            sides.retain(|(name, _)| is_wanted(name));
            print(title, count, args.rounds, sides);
        }
    }
    Ok(())
}

fn print(title: &str, threads: usize, rounds: usize, mut sides: Vec<Side>) {
    let mut found = vec![Vec::new(); sides.len()];
    for _ in 0..rounds {
        for (side, found) in sides.iter_mut().zip(&mut found) {
            found.push((side.1)());
        }
    }
    println!("{title}, {threads} threads of the system");
    for ((name, _), mut ns) in sides.into_iter().zip(found) {
        ns.sort_by(f64::total_cmp);
        println!("  {name:10} {:10.1} ns (from {:.1} to {:.1})", ns[ns.len() / 2], ns[0], ns[ns.len() - 1]);
    }
}

/// How long one of so many operations takes.
fn time(operations: usize, f: impl FnOnce()) -> f64 {
    let began = Instant::now();
    f();
    began.elapsed().as_nanos() as f64 / operations as f64
}

/// In a lightweight thread.
fn on(runtime: &MachineRuntime, f: fn() -> f64) -> f64 {
    Builder::new().spawn_on(runtime, f).join().unwrap()
}

fn spawn<'a>(runtime: &'a MachineRuntime, tokio: &'a tokio::runtime::Runtime) -> Vec<Side<'a>> {
    const N: usize = 100_000;
    vec![
        ("vicus", Box::new(|| on(runtime, || time(N, || (0..N).for_each(|_| threads::spawn(|| ()).join().unwrap()))))),
        ("task", Box::new(|| runtime.run(|| time(N, || (0..N).for_each(|_| threads::spawn(|| ()).join().unwrap()))))),
        ("tokio", {
            Box::new(|| {
                let run = async {
                    let began = Instant::now();
                    for _ in 0..N {
                        tokio::spawn(async {}).await.unwrap();
                    }
                    began.elapsed().as_nanos() as f64 / N as f64
                };
                tokio.block_on(tokio.spawn(run)).unwrap()
            })
        }),
        ("std", Box::new(|| time(500, || (0..500).for_each(|_| std::thread::spawn(|| ()).join().unwrap())))),
    ]
}

fn batch<'a>(runtime: &'a MachineRuntime, tokio: &'a tokio::runtime::Runtime) -> Vec<Side<'a>> {
    const N: usize = 100;
    let vicus = || {
        time(N * 1000, || {
            for _ in 0..N {
                let threads: Vec<_> = (0..1000).map(|_| threads::spawn(|| ())).collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            }
        })
    };
    vec![
        ("vicus", Box::new(move || on(runtime, vicus))),
        ("tokio", {
            Box::new(|| {
                let run = async {
                    let began = Instant::now();
                    for _ in 0..N {
                        let tasks: Vec<_> = (0..1000).map(|_| tokio::spawn(async {})).collect();
                        for task in tasks {
                            task.await.unwrap();
                        }
                    }
                    began.elapsed().as_nanos() as f64 / (N * 1000) as f64
                };
                tokio.block_on(tokio.spawn(run)).unwrap()
            })
        }),
    ]
}

fn yields<'a>(runtime: &'a MachineRuntime, tokio: &'a tokio::runtime::Runtime) -> Vec<Side<'a>> {
    const N: usize = 100_000;
    vec![
        ("vicus", {
            Box::new(|| {
                on(runtime, || time(N, || (0..N).for_each(|_| threads::spawn(threads::yield_now).join().unwrap())))
            })
        }),
        ("tokio", {
            Box::new(|| {
                let run = async {
                    let began = Instant::now();
                    for _ in 0..N {
                        tokio::spawn(tokio::task::yield_now()).await.unwrap();
                    }
                    began.elapsed().as_nanos() as f64 / N as f64
                };
                tokio.block_on(tokio.spawn(run)).unwrap()
            })
        }),
    ]
}

fn switches<'a>(runtime: &'a MachineRuntime, tokio: &'a tokio::runtime::Runtime) -> Vec<Side<'a>> {
    const N: usize = 100_000;
    let vicus = || {
        time(10 * N, || {
            let threads: Vec<_> =
                (0..10).map(|_| threads::spawn(|| (0..N).for_each(|_| threads::yield_now()))).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        })
    };
    vec![
        ("vicus", Box::new(move || on(runtime, vicus))),
        ("tokio", {
            Box::new(|| {
                let run = async {
                    let began = Instant::now();
                    let yields = || async {
                        for _ in 0..N {
                            tokio::task::yield_now().await;
                        }
                    };
                    let tasks: Vec<_> = (0..10).map(|_| tokio::spawn(yields())).collect();
                    for task in tasks {
                        task.await.unwrap();
                    }
                    began.elapsed().as_nanos() as f64 / (10 * N) as f64
                };
                tokio.block_on(tokio.spawn(run)).unwrap()
            })
        }),
    ]
}

fn syncvar() -> f64 {
    const N: usize = 1_000_000;
    let word = SyncVar::full(1);
    time(N, || {
        for _ in 0..N {
            let value = black_box(&word).read_fe();
            black_box(&word).write_ef(value + 1);
        }
    })
}

fn word() -> f64 {
    const N: usize = 1_000_000;
    let word = AtomicU64::new(1);
    time(N, || {
        for _ in 0..N {
            let value = full_empty::read_fe(black_box(&word));
            full_empty::write_ef(black_box(&word), value + 1);
        }
    })
}

fn pingpong<'a>(runtime: &'a MachineRuntime, tokio: &'a tokio::runtime::Runtime) -> Vec<Side<'a>> {
    const N: usize = 50_000;
    let vicus = || {
        let words = Arc::new((SyncVar::empty(), SyncVar::empty()));
        let theirs = Arc::clone(&words);
        let echo = threads::spawn(move || (0..N).for_each(|_| theirs.1.write_ef(theirs.0.read_fe())));
        let ns = time(N, || {
            for n in 0..N {
                words.0.write_ef(n as u64);
                words.1.read_fe();
            }
        });
        echo.join().unwrap();
        ns
    };
    vec![
        ("vicus", Box::new(move || on(runtime, vicus))),
        ("tokio", {
            Box::new(|| {
                let run = async {
                    let (to, mut there) = tokio::sync::mpsc::channel(1);
                    let (from, mut back) = tokio::sync::mpsc::channel(1);
                    let echo = tokio::spawn(async move {
                        while let Some(n) = there.recv().await {
                            from.send(n).await.unwrap();
                        }
                    });
                    let began = Instant::now();
                    for n in 0..N {
                        to.send(n).await.unwrap();
                        back.recv().await.unwrap();
                    }
                    let ns = began.elapsed().as_nanos() as f64 / N as f64;
                    drop(to);
                    echo.await.unwrap();
                    ns
                };
                tokio.block_on(tokio.spawn(run)).unwrap()
            })
        }),
    ]
}

/// So many threads that all wait for one word, are woken, and joined.
fn waiters(runtime: &MachineRuntime, count: usize, stack: usize) -> f64 {
    let word = Arc::new(AtomicU64::new(0));
    full_empty::empty(&word);
    let came = Arc::new(AtomicU64::new(0));
    time(count, || {
        let spawn = |_| {
            let (word, came) = (Arc::clone(&word), Arc::clone(&came));
            Builder::new().stack_size(stack).spawn_on(runtime, move || {
                came.fetch_add(1, Ordering::Relaxed);
                full_empty::read_ff(&word)
            })
        };
        let threads: Vec<_> = (0..count).map(spawn).collect();
        while came.load(Ordering::Relaxed) < count as u64 {
            std::thread::yield_now();
        }
        full_empty::fill(&word);
        threads.into_iter().for_each(|thread| _ = thread.join().unwrap());
    })
}

/// Resident memory, and the most that it was, in GiB.
fn resident() -> (f64, f64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("");
        line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) as f64 / (1 << 20) as f64
    };
    (line("VmRSS:"), line("VmHWM:"))
}

/// A million threads, each of which waits for the word of the one before.
fn chain(runtime: &MachineRuntime, stack: usize) {
    const N: usize = 1_000_000;
    let words: Arc<[AtomicU64]> = (0..=N).map(|_| AtomicU64::new(0)).collect();
    words.iter().for_each(|word| _ = full_empty::empty(word));
    let ns = time(N, || {
        let theirs = Arc::clone(&words);
        let all = Builder::new().spawn_on(runtime, move || {
            let link = |n: usize| {
                let words = Arc::clone(&theirs);
                let pass = move || full_empty::write_ef(&words[n + 1], full_empty::read_fe(&words[n]) + 1);
                Builder::new().stack_size(stack).spawn(pass)
            };
            let links: Vec<_> = (0..N).map(link).collect();
            full_empty::write_ef(&theirs[0], 0);
            links.into_iter().for_each(|link| link.join().unwrap());
        });
        all.join().unwrap();
    });
    assert_eq!(full_empty::read_ff(&words[N]), N as u64);
    words.iter().for_each(|word| _ = full_empty::fill(word));
    println!("a chain of a million hand-overs: {ns:.0} ns each; resident {:.2} GiB at most", resident().1);
}

/// A tree of a million threads, each of which joins its child.
fn tree(runtime: &MachineRuntime, stack: usize) {
    fn descend(depth: u32, stack: usize) -> u32 {
        if depth == 0 {
            return 0;
        }
        Builder::new().stack_size(stack).spawn(move || descend(depth - 1, stack)).join().unwrap() + 1
    }
    const N: u32 = 1_000_000;
    let ns = time(N as usize, || {
        let all = Builder::new().spawn_on(runtime, move || descend(N, stack));
        assert_eq!(all.join().unwrap(), N);
    });
    println!("a tree of depth a million: {ns:.0} ns each; resident {:.2} GiB at most", resident().1);
}

/// A million threads that all wait at once.
fn million(runtime: &MachineRuntime, stack: usize) {
    let before = resident().0;
    let ns = waiters(runtime, 1_000_000, stack);
    let (after, peak) = resident();
    println!(
        "a million threads that wait at once, stacks of {stack} bytes: {ns:.0} ns each; resident {before:.2} GiB \
            before, {peak:.2} at most, {after:.2} after"
    );
}
