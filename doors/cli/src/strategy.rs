//! Which strategies a command takes: those of its `--strategy`, else those of `VICUS_STRATEGY`, else its own.
//!
//! The environment is read when a command comes to need a strategy, so that a wrong one is in nobody's way who needs none.

use clap::error::ErrorKind;
use vicus::{Setting, Settings};

/// The strategies of all that was given; `default` if nothing was.
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

/// The one strategy that was given; `las` if none was.
pub(crate) fn one(given: Option<&Setting>) -> anyhow::Result<Setting> {
    if let Some(given) = given {
        return Ok(given.clone());
    }
    match of_environment()? {
        // As if it had been given, so that a list is told to be one.
        Some(settings) => settings.to_string().parse().map_err(wrong),
        None => Ok("las".parse().expect("the default strategy exists")),
    }
}

/// Without a word in it, the variable counts as unset.
fn of_environment() -> anyhow::Result<Option<Settings>> {
    match std::env::var_os("VICUS_STRATEGY").filter(|text| !text.is_empty()) {
        Some(text) => text.to_string_lossy().parse().map(Some).map_err(wrong),
        None => Ok(None),
    }
}

/// As wrong options are told, with their exit status.
fn wrong(error: impl std::fmt::Display) -> anyhow::Error {
    clap::Error::raw(ErrorKind::ValueValidation, format!("VICUS_STRATEGY: {error}\n")).into()
}
