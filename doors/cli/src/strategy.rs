//! The strategies of a command: its `--strategy`, else the environment's, else a default.
//!
//! The environment is read only if a command needs a strategy, so a wrong value does not affect other commands.

use clap::error::ErrorKind;
use vicus::kit::DEFAULT_OF_QUERIES;
use vicus::kit::Settings;
use vicus::{Setting, environment};

/// All strategies given; `default` if none was.
pub(crate) fn several(given: &[Settings], default: &str) -> anyhow::Result<Vec<Setting>> {
    let given: Vec<Setting> = given.iter().flat_map(|settings| settings.0.iter().cloned()).collect();
    if !given.is_empty() {
        return Ok(given);
    }
    let Settings(settings) = match environment::strategies() {
        Some(settings) => settings.map_err(wrong)?,
        None => default.parse().expect("the default strategies exist"),
    };
    Ok(settings)
}

/// The one strategy given, for queries and for networks of boxes; the default of queries if none was.
pub(crate) fn one(given: Option<&Setting>) -> anyhow::Result<Setting> {
    one_or(given, DEFAULT_OF_QUERIES)
}

/// The one strategy given; `default` if none was.
pub(crate) fn one_or(given: Option<&Setting>, default: &str) -> anyhow::Result<Setting> {
    match given.cloned().map(Ok).or_else(environment::strategy) {
        Some(setting) => setting.map_err(wrong),
        None => Ok(default.parse().expect("the default strategy exists")),
    }
}

/// Makes an error of the environment look like a wrong option's, with its exit status.
pub(crate) fn wrong(error: String) -> anyhow::Error {
    clap::Error::raw(ErrorKind::ValueValidation, format!("{error}\n")).into()
}
