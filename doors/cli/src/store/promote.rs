//! `vicus promote`: a copy of a store becomes the writer.

use crate::arguments::RootsArgs;
use crate::store::{of, open, show};
use anyhow::{Context, bail};
use std::path::PathBuf;
use vicus_service::{CopyError, CopyStanding, StoreServer, next_epoch};

/// See `vicus promote --help`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server that becomes the writer: http://host:7878. It follows another one now.
    #[arg(value_name = "URL", required_unless_present = "store", conflicts_with = "store")]
    server: Option<String>,
    /// The folder of the store that becomes the writer's. No server has it open.
    #[arg(long, value_name = "DIR", conflicts_with = "other")]
    store: Option<PathBuf>,
    /// Another copy, which from now on refuses older writers. If one has more records, that one has to be promoted. May
    /// be given several times.
    ///
    /// With --sync-followers K and N copies in all, the old writer's among them, every acknowledged change is kept if
    /// at least N - K copies are named, the promoted one among them.
    #[arg(long, value_name = "URL")]
    other: Vec<String>,
    /// The token that permits updates at all of them; VICUS_TOKEN has one, too.
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    #[command(flatten)]
    roots: RootsArgs,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    if let Some(path) = &args.store {
        let store = open(path, false)?;
        let epoch = next_epoch(store.standing().known())?;
        store.promise(epoch).with_context(|| of(path))?;
        let first = store.begin_epoch(epoch).with_context(|| of(path))?;
        return show(&format!("{}: writes from record {first} on, in epoch {epoch}\n", path.display()));
    }
    let token = args.token.clone().or_else(|| std::env::var("VICUS_TOKEN").ok().filter(|token| !token.is_empty()));
    let roots = args.roots.read()?;
    let at = |url: &str| StoreServer::new(url, token.as_deref(), roots.as_ref());
    let server = at(&args.server.unwrap_or_default());
    let others: Vec<StoreServer> = args.other.iter().map(|url| at(url)).collect();
    let ask =
        |ask: &dyn Fn(&StoreServer) -> Result<CopyStanding, CopyError>| -> anyhow::Result<(_, Vec<CopyStanding>)> {
            let standings = others.iter().map(ask).collect::<Result<Vec<_>, _>>()?;
            Ok((ask(&server)?, standings))
        };
    // Before anything is promised: a copy that has promised follows no older writer.
    let (own, standings) = ask(&|copy| copy.standing())?;
    check(&server, &own, &others, &standings)?;
    let known = standings.iter().chain([&own]).map(CopyStanding::known).max().unwrap_or_default();
    let epoch = next_epoch(known)?;
    let (own, standings) = ask(&|copy| copy.promise(epoch))?;
    check(&server, &own, &others, &standings)?;
    let begun = server.promote(epoch)?;
    show(&format!("{}: writes from record {} on, in epoch {epoch}\n", server.url(), begun.last))
}

/// No other copy is of another store, nor further.
fn check(
    server: &StoreServer,
    own: &CopyStanding,
    others: &[StoreServer],
    standings: &[CopyStanding],
) -> anyhow::Result<()> {
    for (other, standing) in others.iter().zip(standings) {
        if standing.store != own.store {
            bail!("{} and {} have different stores", server.url(), other.url());
        }
        if !own.is_as_far_as(standing) {
            bail!(
                "{} has records up to {} of epoch {}, and {} only those up to {} of epoch {}: promote the former",
                other.url(),
                standing.last,
                standing.epoch(),
                server.url(),
                own.last,
                own.epoch(),
            );
        }
    }
    Ok(())
}
