//! The work of a network's boxes, as the process that began it shows it.

use serde::{Deserialize, Serialize};
use vicus::Request;
use vicus_network::Network;

/// The work of a box, or of all boxes of a name in fragments that took the place of boxes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedBox {
    /// The box of the text that it belongs to; `in …` for a fragment.
    pub name: String,
    /// Its name in the model.
    pub in_model: String,
    /// How often it ran.
    pub acts: u64,
    /// The rows that it took.
    pub rows_in: u64,
    /// The rows that it sent.
    pub rows_out: u64,
    /// Nanoseconds in its code, if the request is timed.
    pub busy_ns: u64,
    /// The rows that its vias dropped for newer ones.
    pub rows_dropped: u64,
}

impl CountedBox {
    /// All boxes of a process's part, in the order of the model; those of fragments behind them.
    pub fn all(network: &Network, request: &Request) -> Vec<CountedBox> {
        let boxes = network.model.boxes().iter().zip(&network.names).zip(request.counts());
        let boxes = boxes.filter(|((_, name), _)| !name.is_empty());
        let boxes = boxes.map(|((one, name), counts)| (name.clone(), one.name().to_owned(), counts));
        let grown = request.grown().into_iter().map(|one| {
            let times = if one.boxes > 1 { format!("{} × {}", one.boxes, one.name) } else { one.name };
            (format!("in {}", one.expanded), times, one.counts)
        });
        let counted = boxes.chain(grown).map(|(name, in_model, counts)| CountedBox {
            name,
            in_model,
            acts: counts.acts,
            rows_in: counts.rows_taken(),
            rows_out: counts.rows_sent(),
            busy_ns: counts.busy_ns,
            rows_dropped: counts.rows_dropped(),
        });
        counted.collect()
    }

    /// A line of the control connection.
    pub(crate) fn to_json(all: &[CountedBox]) -> String {
        serde_json::to_string(all).expect("words and numbers are JSON")
    }

    /// A node's report; nothing if it has sent none.
    pub(crate) fn read(json: Option<&str>) -> Vec<CountedBox> {
        json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
    }
}
