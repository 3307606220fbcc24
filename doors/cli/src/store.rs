//! Stores on disk: `vicus load`, `update`, `dump`, `backup`, `restore`, `check` and `compact`.

pub(crate) mod archive;
pub(crate) mod dump;
pub(crate) mod load;
pub(crate) mod promote;
pub(crate) mod update;

use crate::arguments::RootsArgs;
use crate::current_work::Doing;
use crate::interrupt::{self, Interrupted};
use crate::memory;
use crate::messages::tell;
use crate::progress::style;
use crate::query::bytes;
use anyhow::{Context, anyhow, ensure};
use indicatif::ProgressBar;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use vicus::give_up;
use vicus_service::{
    Dataset, Repaired, Store, StoreError, StoreFolder, check_store, copy_store, create_store, has_room_for_store,
    open_store, read_store_up_to, repair_store,
};

/// See `vicus check --help`.
#[derive(clap::Args)]
pub(crate) struct CheckArgs {
    /// The folder of the store. Another process may be writing to it, but with --repair.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// If records of the log can't be read, cuts the log before the first of them, so that the store can be written to
    /// again. The cut part is kept in files of the folder, with names that begin with `aside-`.
    #[arg(long)]
    repair: bool,
}

/// See `vicus compact --help`.
#[derive(clap::Args)]
pub(crate) struct CompactArgs {
    /// The folder of the store. No other process may be writing to it.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// About how many bytes of memory may be held: 500M, 2G. Larger work lies in temporary files in the store's folder
    /// meanwhile. By default half of the free memory.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory_limit: Option<u64>,
}

/// See `vicus backup --help`.
#[derive(clap::Args)]
pub(crate) struct BackupArgs {
    /// The folder of the store. Another process may be writing to it: the copy has all commits up to now.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// The place of an archive: a folder, or a bucket's URL (s3://bucket/folder, gs://, az://) if this vicus was built
    /// with object storage. It gets what it does not have yet: base files, each once, and the records since the last
    /// time. `vicus restore` makes the store again, as it is or as it was.
    #[arg(value_name = "PLACE", required_unless_present = "output", conflicts_with = "output")]
    archive: Option<String>,
    /// Removes from the archive what no state of this last span of time needs: 30d, 12h, 90m. What the store was at any
    /// time of the span, and now, can be restored as before. By default all stays.
    #[arg(long, value_name = "SPAN", value_parser = archive::span, requires = "archive")]
    keep: Option<Duration>,
    /// In place of an archive, makes a store of its own in this folder. It must not have a store; a missing folder is
    /// created.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// About how many bytes of memory may be held: 500M, 2G. Larger work lies in temporary files in the new store's
    /// folder meanwhile. By default half of the free memory.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory_limit: Option<u64>,
    #[command(flatten)]
    roots: RootsArgs,
}

/// Names a store in an error.
pub(crate) fn of(path: &Path) -> String {
    format!("store {}", path.display())
}

/// The data of a store. Says so if it is not all of it.
pub(crate) fn read(path: &Path) -> anyhow::Result<Dataset> {
    let placed = StoreFolder::new(path.to_owned()).read(None);
    if let Ok(dataset) = placed {
        return Ok(dataset);
    }
    // It can't be read as a whole.
    let (snapshot, unread) = read_store_up_to(path).with_context(|| of(path))?;
    if let Some(unread) = unread {
        tell(format_args!(
            "vicus: {}: {unread}; what is before it is read; to write to the store again, see vicus check --repair",
            of(path)
        ));
    }
    Ok(Dataset::new(snapshot))
}

/// An error for a folder without a store, in a command with the option --create.
pub(crate) fn ensure_there(path: &Path, create: bool) -> anyhow::Result<()> {
    let hint = "there is no store: --create makes an empty one, `vicus load` one with data";
    ensure!(create || !has_room_for_store(path), "{}: {hint}", of(path));
    Ok(())
}

/// Opens a store to write to it; with `create`, makes an empty one in a folder that is missing or empty.
pub(crate) fn opened(path: &Path, create: bool) -> Result<Store, StoreError> {
    if create && has_room_for_store(path) { create_store(path) } else { open_store(path) }
}

/// Opens a store as [`opened`] does, and says so if a part of its log was cut off.
pub(crate) fn open(path: &Path, create: bool) -> anyhow::Result<Store> {
    let store = opened(path, create).map_err(|error| not_opened(path, error))?;
    tell_torn(path, &store);
    Ok(store)
}

/// Why a store was not opened, and what to do beside the process that has it.
pub(crate) fn not_opened(path: &Path, error: StoreError) -> anyhow::Error {
    let is_locked = error.locked_by().is_some();
    let error = anyhow::Error::new(error);
    let hint =
        "send updates to it if it is a server; `vicus query`, `dump`, `backup` and `serve --read-only` read beside it";
    if is_locked { anyhow!("{}: {error}: {hint}", of(path)) } else { error.context(of(path)) }
}

pub(crate) fn tell_torn(path: &Path, store: &Store) {
    if let Some(torn) = store.torn() {
        tell(format_args!("vicus: {}: {torn}", of(path)));
    }
}

pub(crate) fn check(args: CheckArgs) -> anyhow::Result<()> {
    if args.repair {
        let shown = args.store.display();
        match repair_store(&args.store).with_context(|| of(&args.store))? {
            Some(Repaired { unread, kept }) => {
                show(&format!(
                    "{shown}: {unread}; the log was cut there, and the rest is kept in {}\n",
                    kept.join(" and ")
                ))?;
            }
            None => show(&format!("{shown}: all records can be read: nothing was repaired\n"))?,
        }
    }
    let bar = Bar::new("checking", 0, Unit::Rows);
    let checked =
        check_store(&args.store, &mut |done, total| bar.set_of(done, total)).with_context(|| of(&args.store))?;
    bar.end();
    show(&format!("{}: {checked}\n", args.store.display()))
}

pub(crate) fn compact(args: CompactArgs) -> anyhow::Result<()> {
    interrupt::listen();
    let _doing = Doing::Loading.begin();
    let memory = args.memory_limit.unwrap_or_else(memory::free_limit);
    let store = open(&args.store, false)?.within(memory);
    let bar = Bar::new("compacting", bytes_of(&args.store), Unit::Bytes);
    let merged = store.merge(&mut writing(&bar)).with_context(|| of(&args.store)).map_err(unless_interrupted)?;
    bar.end();
    match merged {
        true => show(&format!("{}: {} quads\n", args.store.display(), store.snapshot().len())),
        false => show(&format!("{}: nothing has changed since it was built\n", args.store.display())),
    }
}

pub(crate) fn backup(args: BackupArgs) -> anyhow::Result<()> {
    interrupt::listen();
    let _doing = Doing::Loading.begin();
    let Some(output) = args.output else {
        return archive::send(args.archive.as_deref().unwrap_or_default(), &args.store, args.keep, &args.roots);
    };
    let dataset = read(&args.store)?;
    let bar = Bar::new("copying", bytes_of(&args.store), Unit::Bytes);
    let memory = args.memory_limit.unwrap_or_else(memory::free_limit);
    let copied = copy_store(dataset.snapshot(), &output, memory, &mut writing(&bar));
    let copied = copied.with_context(|| of(&output)).map_err(unless_interrupted)?;
    bar.end();
    show(&format!("{}: {copied} quads\n", output.display()))
}

/// Tells a bar the number of bytes written. After Ctrl-C it gives up the writing, which leaves the store as it was.
fn writing(bar: &Bar) -> impl FnMut(u64) {
    |bytes| {
        if interrupt::cancel().is_cancelled() {
            give_up(Interrupted);
        }
        bar.set(bytes);
    }
}

/// The error of writing a store, or the interruption.
fn unless_interrupted(error: anyhow::Error) -> anyhow::Error {
    if interrupt::cancel().is_cancelled() { Interrupted.into() } else { error }
}

fn show(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")
}

/// About the bytes of a store's files when they are written anew: their bytes now.
fn bytes_of(path: &Path) -> u64 {
    let files = std::fs::read_dir(path).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|about| about.len()).sum()
}

/// The unit of a bar.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    /// Written bytes.
    Bytes,
    Quads,
    /// Rows of indexes.
    Rows,
}

/// How far work is, with its rate and the time left, on a terminal.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// The total may be a guess; 0 if it is not known yet.
    pub(crate) fn new(what: &'static str, total: u64, unit: Unit) -> Bar {
        if !std::io::stderr().is_terminal() {
            return Bar(ProgressBar::hidden());
        }
        let template = match unit {
            Unit::Bytes => "{msg} {wide_bar} {bytes}/{total_bytes}, {bytes_per_sec}{left}",
            Unit::Quads => "{msg} {wide_bar} {human_pos}/{human_len} quads, {per_sec}{left}",
            Unit::Rows => "{msg} {wide_bar} {human_pos}/{human_len} rows, {per_sec}{left}",
        };
        let bar = ProgressBar::new(total);
        bar.set_style(style(template));
        bar.set_message(what);
        Bar(bar)
    }

    fn set(&self, done: u64) {
        // A guess may be too low.
        if self.0.length().is_some_and(|total| total < done) {
            self.0.set_length(done);
        }
        self.0.set_position(done);
    }

    pub(crate) fn set_of(&self, done: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(done);
    }

    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}
