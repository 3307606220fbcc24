//! Stores on disk: `vicus load`, `update`, `dump`, `backup`, `check` and `compact`.

pub(crate) mod dump;
pub(crate) mod load;
pub(crate) mod update;

use crate::doing::Doing;
use crate::{interrupt, memory};
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use vicus_service::{Dataset, check_store, copy_store, open_store, read_store};

/// See `vicus check --help`.
#[derive(clap::Args)]
pub(crate) struct CheckArgs {
    /// The folder of the store. Another process may be writing to it.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
}

/// See `vicus compact --help`.
#[derive(clap::Args)]
pub(crate) struct CompactArgs {
    /// The folder of the store. No other process may be writing to it.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
}

/// See `vicus backup --help`.
#[derive(clap::Args)]
pub(crate) struct BackupArgs {
    /// The folder of the store. Another process may be writing to it: the copy has what it has committed by now.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// The folder of the copy, which is created if it is not there; it must not have a store.
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
}

/// Names a store in an error.
fn of(path: &Path) -> String {
    format!("store {}", path.display())
}

/// The data of a store.
pub(crate) fn read(path: &Path) -> anyhow::Result<Dataset> {
    read_store(path).map(Dataset::new).with_context(|| of(path))
}

pub(crate) fn check(args: CheckArgs) -> anyhow::Result<()> {
    let checked = check_store(&args.store).with_context(|| of(&args.store))?;
    show(&format!("{}: {checked}\n", args.store.display()))
}

pub(crate) fn compact(args: CompactArgs) -> anyhow::Result<()> {
    interrupt::listen();
    let _doing = Doing::Loading.begin();
    let store = open_store(&args.store).with_context(|| of(&args.store))?.within(memory::free_limit());
    let written = Written::new("compacting");
    let merged = store.merge(&mut |bytes| written.set(bytes)).with_context(|| of(&args.store))?;
    written.end();
    match merged {
        true => show(&format!("{}: {} quads\n", args.store.display(), store.snapshot().len())),
        false => show(&format!("{}: nothing has changed since it was built\n", args.store.display())),
    }
}

pub(crate) fn backup(args: BackupArgs) -> anyhow::Result<()> {
    interrupt::listen();
    let _doing = Doing::Loading.begin();
    let written = Written::new("copying");
    let snapshot = read_store(&args.store).with_context(|| of(&args.store))?;
    let copied =
        copy_store(&snapshot, &args.output, &mut |bytes| written.set(bytes)).with_context(|| of(&args.output))?;
    written.end();
    show(&format!("{}: {copied} quads\n", args.output.display()))
}

fn show(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")
}

/// How many bytes of a store were written, on a terminal.
struct Written(ProgressBar);

impl Written {
    fn new(what: &'static str) -> Written {
        if !std::io::stderr().is_terminal() {
            return Written(ProgressBar::hidden());
        }
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {msg}: {bytes} written, {bytes_per_sec}");
        bar.set_style(style.expect("the template is well-formed"));
        bar.set_message(what);
        Written(bar)
    }

    fn set(&self, bytes: u64) {
        self.0.set_position(bytes);
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }
}
