//! `vicus topology`.

/// See `vicus topology --help`.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> anyhow::Result<()> {
    anyhow::bail!("`vicus topology` is not built yet")
}
