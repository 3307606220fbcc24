//! A machine that a user names: a file, a line, or one that this program knows.

use anyhow::{anyhow, bail};
use std::path::Path;
use vicus::DiscoverError;
use vicus_topology::{Topology, fixtures};

/// The machine of an XML file of hwloc's, of one line, or of this name.
pub(crate) fn named(text: &str) -> anyhow::Result<Topology> {
    if let Some(known) = fixtures().into_iter().find(|machine| machine.name == text) {
        return Ok(known);
    }
    match vicus::describe(text) {
        Err(error @ DiscoverError::NoDescription { .. }) if !Path::new(text).exists() => {
            let names: Vec<String> = fixtures().into_iter().map(|machine| machine.name).collect();
            bail!("{error}; and there is no machine of that name among {}", names.join(", "))
        }
        described => described.map_err(|error| anyhow!(error)),
    }
}
