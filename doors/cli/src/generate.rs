//! `vicus generate`.

/// See `vicus generate --help`.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> anyhow::Result<()> {
    anyhow::bail!("`vicus generate` is not built yet")
}
