//! `vicus bench`.

/// See `vicus bench --help`.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> anyhow::Result<()> {
    anyhow::bail!("`vicus bench` is not built yet")
}
