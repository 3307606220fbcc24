//! A network as JSON, with the version of its form.

use crate::error::{NetworkError, Spot};
use crate::text::NetworkText;
use serde::{Deserialize, Serialize};

/// The version of the form that is written.
pub const JSON_VERSION: u32 = 1;

#[derive(Serialize)]
struct JsonForm<'t> {
    version: u32,
    network: &'t NetworkText,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

#[derive(Deserialize)]
struct Read {
    network: NetworkText,
}

impl NetworkText {
    /// The network as JSON: `{"version": 1, "network": {...}}`.
    pub fn to_json(&self) -> String {
        let written = JsonForm { version: JSON_VERSION, network: self };
        serde_json::to_string_pretty(&written).expect("numbers are finite, and maps have names")
    }

    /// Reads a network from JSON. Its places, for errors, are those of its text.
    ///
    /// # Errors
    /// The JSON is no network of a known version.
    pub fn from_json(json: &str) -> Result<NetworkText, NetworkError> {
        let wrong = |message: String| NetworkError::at("", Spot::default(), message);
        let no_json = |error: serde_json::Error| wrong(format!("this is no network in JSON: {error}"));
        let Version { version } = serde_json::from_str(json).map_err(no_json)?;
        if version != JSON_VERSION {
            let message =
                format!("the network has the version {version}, and this program reads version {JSON_VERSION}");
            return Err(wrong(message));
        }
        let Read { network } = serde_json::from_str(json).map_err(no_json)?;
        // Names that the language has not, and values of other types than their parameters, are told of by its parser.
        let text: NetworkText = network.to_string().parse()?;
        if text != network {
            return Err(wrong("the network has names or values that no text has".to_owned()));
        }
        Ok(text)
    }
}
