//! Networks of boxes, and queries, over several processes, on one machine or on many.
//!
//! ```text
//!  the process that begins a network          node 1                     node 2
//!  ┌───────────────────────────┐   control   ┌──────────────────────┐   ┌──────────────────────┐
//!  │ Lead: the text, parameters├────────────▶│ Node: a part of it   │   │ Node: a part of it   │
//!  │ a part of it              │     ╲───────┼──────────────────────┼──▶│                      │
//!  │ boxes ◀── inlet           │◀═══ link ═══╡ outlet ◀── boxes     │   │                      │
//!  └───────────────────────────┘             │        boxes ──▶ ... ╞═link══▶ inlet ──▶ boxes  │
//!                                            └──────────────────────┘   └──────────────────────┘
//! ```
//!
//! * **Text, never plans.** The text of a network and its parameters go to all nodes, and each makes
//!   [its part](vicus_network::NetworkText::build_part). A node needs the kinds of boxes that the text names.
//! * **A link** (`link.rs`) joins two processes for one attempt at a network. It carries the rows of all crossings
//!   between them as frames (`frame.rs`): rows are a message of Arrow's IPC format, whose buffers are the columns'.
//! * **Bounds hold over links** (`port.rs`). A receiver grants each crossing so many bytes and gives them back when its
//!   box takes rows on, so the thread that reads a link never waits for a box, and a slow box on one crossing holds up
//!   no other one.
//! * **The unit of failure is the network** (`lead.rs`). A process that is lost, or silent for too long, ends it
//!   everywhere. A link belongs to one attempt: what a process of an older one still sends is refused.
//!
//! * **Links are encrypted** (`socket.rs`) if nodes have a certificate. The process that begins has the roots to trust,
//!   and tells them to all, as it tells the token.
//! * **Files come once.** A network that may be run again writes its files beside their places (`staging.rs`),
//!   and all processes rename them when all have done their parts.
//! * **Queries** (`queries.rs`) go the same way: a text, and parts of its plan. [`QueryNodes`] are a session's peers.
//!
//! Begin at [`NodeServer`] and [`NodesRun`], which is [`Lead`] with its steps in order.

mod control;
mod counts;
mod frame;
mod lead;
mod link;
mod node;
mod port;
mod program;
mod queries;
mod run;
mod socket;
mod staging;

pub use counts::CountedBox;
pub use lead::{Attempt, Lead, LeadError, LeadOptions};
pub use node::{NodeOptions, NodeServer};
pub use program::{FRAME, PYTHON, add_program_kinds};
pub use queries::{QueryNodes, QueryNodesOptions};
pub use run::{NodesRun, RanOverNodes};
pub use vicus_service::{TlsCertificate, TlsError, TlsRoots};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The state under a lock. A panic leaves nothing half done in any of this crate's.
fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
