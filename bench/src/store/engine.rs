//! A store of RDF on disk in a process of its own, which does what lines of its standard input say. `bench/peers` has
//! the same in Java.
//!
//! ```text
//!  load FILE.nt                       makes the store: all is on the disk when it answers with the number of triples
//!  open FILE.sparql                   opens it and answers a query: its rows
//!  query MILLISECONDS FILE.sparql     answers a query within a limit: its rows, or `cut`
//!  update THREADS BATCH MILLISECONDS FILE
//!                                     updates, one a line of the file, on so many threads until the time is up; so
//!                                     many lines are one update, which is durable before its thread goes on:
//!                                     the number of lines done
//! ```
//!
//! Words are parted by tabs. An answer is `COUNT<TAB>NANOSECONDS` or `error<TAB>MESSAGE`.

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use vicus_bench::peer::{Answer, Query};

/// An engine with a store in a folder.
pub(crate) trait Engine: Sync {
    /// Makes the store of a file of N-Triples; returns how to count them.
    fn load(&mut self, file: &Path) -> anyhow::Result<Box<dyn FnOnce() -> anyhow::Result<u64>>>;

    /// Opens the store.
    fn open(&mut self) -> anyhow::Result<()>;

    /// Answers a query, over the data as it is now.
    fn ask(&self, query: &Query, limit: Duration) -> anyhow::Result<Answer>;

    /// Carries out an update, which is durable then.
    fn update(&self, text: &str) -> anyhow::Result<()>;
}

/// Does what the lines say.
pub(crate) fn serve(engine: &mut dyn Engine, folder: &Path) -> anyhow::Result<()> {
    for line in std::io::stdin().lines() {
        let line = line?;
        let words: Vec<&str> = line.split('\t').collect();
        match answer(engine, folder, &words) {
            Ok(Some((count, time))) => println!("{count}\t{}", time.as_nanos()),
            Ok(None) => println!("cut"),
            Err(error) => println!("error\t{}", format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ")),
        }
    }
    Ok(())
}

fn answer(engine: &mut dyn Engine, folder: &Path, words: &[&str]) -> anyhow::Result<Option<(u64, Duration)>> {
    let ms = |text: &str| anyhow::Ok(Duration::from_millis(text.parse()?));
    let began = Instant::now();
    match *words {
        ["load", file] => {
            let count = engine.load(Path::new(file))?;
            sync(folder)?;
            let time = began.elapsed();
            Ok(Some((count()?, time)))
        }
        ["open", file] => {
            let query = Query::read(Path::new(file))?;
            let began = Instant::now();
            engine.open()?;
            match engine.ask(&query, Duration::from_secs(3600))? {
                Answer::Rows { rows, .. } => Ok(Some((rows, began.elapsed()))),
                Answer::Cut => Ok(None),
            }
        }
        ["query", limit, file] => match engine.ask(&Query::read(Path::new(file))?, ms(limit)?)? {
            Answer::Rows { rows, ms } => Ok(Some((rows, Duration::from_secs_f64(ms / 1e3)))),
            Answer::Cut => Ok(None),
        },
        ["update", threads, batch, limit, file] => {
            let text = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
            let lines: Vec<&str> = text.lines().collect();
            update(engine, &lines, threads.parse()?, batch.parse()?, ms(limit)?).map(Some)
        }
        _ => bail!("{words:?} is no command"),
    }
}

fn update(
    engine: &dyn Engine,
    lines: &[&str],
    threads: usize,
    batch: usize,
    limit: Duration,
) -> anyhow::Result<(u64, Duration)> {
    let updates: Vec<&[&str]> = lines.chunks(batch).collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let began = Instant::now();
    std::thread::scope(|scope| {
        let one = || {
            while began.elapsed() < limit {
                // In their order, so that those which are left are the last.
                let Some(update) = updates.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                engine.update(&update.join(" ;\n"))?;
                done.fetch_add(update.len(), Ordering::Relaxed);
            }
            anyhow::Ok(())
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })?;
    Ok((done.into_inner() as u64, began.elapsed()))
}

/// Syncs every file of a folder: a loader may leave that to the system.
fn sync(folder: &Path) -> anyhow::Result<()> {
    for file in files(folder)? {
        std::fs::File::open(&file)?.sync_all()?;
    }
    Ok(())
}

/// The files of a folder and of those in it.
pub(crate) fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => files.extend(self::files(&path)?),
            false => files.push(path),
        }
    }
    Ok(files)
}
