//! Machines named by a user: a file, a line, or a machine known to this program or to the simulator.

use crate::messages::tell;
use anyhow::{Context, anyhow, bail};
use std::path::Path;
use vicus::kit::{DiscoverError, Discovered};
use vicus_sim::Machine;
use vicus_topology::{Topology, fixtures};

/// The machine of a `--machine`: an XML file of hwloc's, a folder of recorded files, one line, a machine file (.toml),
/// or a name known to this program or the simulator.
pub(crate) fn named(text: &str) -> anyhow::Result<Topology> {
    if let Some(known) = fixtures().into_iter().find(|machine| machine.name == text) {
        return Ok(known);
    }
    if let Some(Machine { topology, name, .. }) = with_costs(text)? {
        return Ok(Topology { name, ..topology });
    }
    if Path::new(text).is_dir() {
        let Discovered { topology, warnings } = vicus::kit::from_sysfs(text)?;
        warnings.iter().for_each(|warning| tell(format_args!("vicus: warning: {warning}")));
        return Ok(topology);
    }
    match vicus::kit::describe(text) {
        Err(error @ DiscoverError::NoDescription { .. }) if !Path::new(text).exists() => {
            let known = fixtures().into_iter().map(|machine| machine.name);
            let names: Vec<String> = Machine::names().map(str::to_owned).chain(known).collect();
            bail!("{error}; and there is no machine of that name among {}", names.join(", "))
        }
        described => described.map_err(|error| anyhow!(error)),
    }
}

/// A machine with its costs: one of the simulator's, or one of a machine file.
pub(crate) fn with_costs(text: &str) -> anyhow::Result<Option<Machine>> {
    if let Some(machine) = Machine::by_name(text) {
        return Ok(Some(machine));
    }
    if !text.ends_with(".toml") {
        return Ok(None);
    }
    let file = std::fs::read_to_string(text).with_context(|| format!("{text} can't be read"))?;
    Ok(Some(Machine::parse(text, &file)?))
}
