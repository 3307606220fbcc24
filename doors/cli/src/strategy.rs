//! The strategies of a command: those of its `--strategy`, else those of `VICUS_STRATEGY`, else a default.
//!
//! The environment is read only if a command needs a strategy, so that a wrong value does not affect other commands.

use clap::error::ErrorKind;
use vicus::{Setting, Settings};

/// All strategies given; `default` if none was.
pub(crate) fn several(given: &[Settings], default: &str) -> anyhow::Result<Vec<Setting>> {
    let given: Vec<Setting> = given.iter().flat_map(|settings| settings.0.iter().cloned()).collect();
    if !given.is_empty() {
        return Ok(given);
    }
    let Settings(settings) = match of_environment()? {
        Some(settings) => settings,
        None => default.parse().expect("the default strategies exist"),
    };
    Ok(settings)
}

/// The one strategy given; `las` if none was.
pub(crate) fn one(given: Option<&Setting>) -> anyhow::Result<Setting> {
    if let Some(given) = given {
        return Ok(given.clone());
    }
    match of_environment()? {
        // Parsed as if it had been given as an option, so that a list is refused with the same message.
        Some(settings) => settings.to_string().parse().map_err(wrong),
        None => Ok("las".parse().expect("the default strategy exists")),
    }
}

/// If the variable is empty, it counts as unset.
fn of_environment() -> anyhow::Result<Option<Settings>> {
    match std::env::var_os("VICUS_STRATEGY").filter(|text| !text.is_empty()) {
        Some(text) => text.to_string_lossy().parse().map(Some).map_err(wrong),
        None => Ok(None),
    }
}

/// Makes an error look like that of a wrong option, with its exit status.
fn wrong(error: impl std::fmt::Display) -> anyhow::Error {
    clap::Error::raw(ErrorKind::ValueValidation, format!("VICUS_STRATEGY: {error}\n")).into()
}
