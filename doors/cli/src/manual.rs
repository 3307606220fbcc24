//! `vicus manual`: completions for shells, and manual pages, made from the options themselves.

use crate::messages::printed;
use anyhow::Context;
use clap::Command;
use clap_complete::Shell;
use std::io::Write;
use std::path::PathBuf;

/// See `vicus manual --help`.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Args {
    /// Writes the completions of this shell to standard output: `vicus manual --completions bash >
    /// ~/.local/share/bash-completion/completions/vicus`.
    #[arg(long, value_enum, value_name = "SHELL")]
    completions: Option<Shell>,
    /// Writes a manual page for `vicus` and for each command to this folder: `vicus-query.1`. A missing folder is
    /// created.
    #[arg(long, value_name = "DIR")]
    pages: Option<PathBuf>,
}

pub(crate) fn run(args: Args, mut command: Command) -> anyhow::Result<()> {
    if let Some(shell) = args.completions {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command, "vicus", &mut text);
        return printed(std::io::stdout().lock().write_all(&text));
    }
    if let Some(folder) = args.pages {
        let written = std::fs::create_dir_all(&folder).and_then(|()| clap_mangen::generate_to(command, &folder));
        written.with_context(|| folder.display().to_string())?;
    }
    Ok(())
}
