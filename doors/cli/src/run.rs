//! `vicus run`: an OpenMP program, on the scheduler of Vicus.

use crate::strategy;
use anyhow::{Context as _, bail};
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use vicus::Setting;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The strategy of its teams, such as `nls` or `steal:spin_ns=2000`; by default that of `VICUS_STRATEGY`, else `las`.
    #[arg(long, value_name = "STRATEGY")]
    strategy: Option<Setting>,
    /// The program, compiled by gcc or clang with -fopenmp, and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// What is loaded before the compiler's own library.
const LIBRARY: &str = "libvicus_omp.so";

/// Becomes the program.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let setting = strategy::one(args.strategy.as_ref())?;
    let mut preload = library()?.into_os_string();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let (program, arguments) = args.program.split_first().expect("one is required");
    let mut command = Command::new(program);
    command.args(arguments).env("LD_PRELOAD", preload).env("VICUS_STRATEGY", setting.to_string());
    // It comes back only if there is no such program.
    Err(command.exec()).with_context(|| format!("can't run {}", program.display()))
}

/// The library beside this program, or in the folder `lib` beside its own.
fn library() -> anyhow::Result<PathBuf> {
    let own = env::current_exe().context("can't find out where this program lies")?;
    let folder = own.parent().context("this program lies in no folder")?;
    let places = [folder.join(LIBRARY), folder.join("../lib").join(LIBRARY)];
    match places.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => bail!("{LIBRARY} is neither in {} nor in {}", folder.display(), folder.join("../lib").display()),
    }
}
