//! `vicus trace`.

/// See `vicus trace --help`.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> anyhow::Result<()> {
    anyhow::bail!("`vicus trace` is not built yet")
}
