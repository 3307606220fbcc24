//! `vicus query`.

/// See `vicus query --help`.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> anyhow::Result<()> {
    anyhow::bail!("`vicus query` is not built yet")
}
