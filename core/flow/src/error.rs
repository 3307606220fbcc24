//! How a request ends that does not end well.

use std::fmt;
use std::sync::Arc;

/// Why a request has no result. Other requests are not touched.
#[derive(Clone, Debug)]
pub enum FlowError {
    /// A box gave up.
    Failed {
        /// The box's name.
        name: String,
        /// What it said.
        error: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A box panicked.
    Panicked {
        /// The box's name.
        name: String,
        /// The panic's message.
        message: String,
    },
    /// Somebody cancelled it.
    Cancelled,
    /// Boxes wait for each other in a circle through a full via (Bobox report §3.5).
    Stalled {
        /// The cycle: who waits for whom, and why.
        cycle: Vec<String>,
    },
    /// Boxes have seen the end of all their inputs and never sent a poisoned pill.
    Unfinished {
        /// Their names.
        boxes: Vec<String>,
    },
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowError::Failed { name, error } => write!(f, "box {name} failed: {error}"),
            FlowError::Panicked { name, message } => write!(f, "box {name} panicked: {message}"),
            FlowError::Cancelled => f.write_str("the request was cancelled"),
            FlowError::Stalled { cycle } => write!(
                f,
                "the network waits for itself: {}. Hold one branch back (vicus_flow::library::hold) or raise a bound",
                cycle.join("; ")
            ),
            FlowError::Unfinished { boxes } => {
                write!(f, "no poisoned pill came from {}, though nothing is left to be done", boxes.join(", "))
            }
        }
    }
}

impl std::error::Error for FlowError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FlowError::Failed { error, .. } => Some(&**error),
            _ => None,
        }
    }
}

/// Boxes hold more than their request may. What a box says that gave up for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverBudget {
    /// Bytes that the request may hold.
    pub budget: u64,
    /// Who holds how many bytes, the most first.
    pub holders: Vec<(String, u64)>,
}

/// `more than 10.0 MiB is needed: distinct holds 8.2 MiB, sort 1.9 MiB`.
impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {} is needed", Bytes(self.budget))?;
        for (place, (name, held)) in self.holders.iter().take(3).enumerate() {
            let before = if place == 0 { format!(": {name} holds") } else { format!(", {name}") };
            write!(f, "{before} {}", Bytes(*held))?;
        }
        Ok(())
    }
}

impl std::error::Error for OverBudget {}

struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..0x400 => write!(f, "{bytes} bytes"),
            0x400..0x10_0000 => write!(f, "{:.1} KiB", bytes / 1024.0),
            0x10_0000..0x4000_0000 => write!(f, "{:.1} MiB", bytes / 1_048_576.0),
            _ => write!(f, "{:.1} GiB", bytes / 1_073_741_824.0),
        }
    }
}
