//! SPARQL over HTTP.
//!
//! ```text
//!  socket ── connection (tokio, few threads) ── route ── rights ─┬─ an update: tokio's threads for what blocks,
//!                                                                │  as many at once as `updates` permits
//!                                                                ▼ a ClientQuery: text, format, limits
//!                               jobs (as many threads as the runtime): parse, plan, begin
//!                                  │ short: answered there        │ long: on the runtime's seats
//!                                  ▼                              ▼
//!                               whole body                    stream of text ──▶ body, piece by piece
//! ```
//!
//! A request already answered at the same version of the data is answered from the kept answers (`answers.rs`), before
//! it is routed.
//!
//! The network's threads never run boxes, and boxes never wait for sockets: bytes not yet taken by a client wait in a
//! bounded stream, and boxes pause when it is full. A closed connection drops its response, which cancels the query.
//!
//! [`Server::bind`] takes a place to listen at, [`Server::run`] answers until it is told to end, and then drains.

mod access;
mod answer;
mod answers;
mod api;
mod awake;
mod body;
mod coding;
mod connection;
mod contents;
mod copies;
mod data;
mod date;
mod description;
mod dump;
mod generations;
mod graphs;
mod half_closed;
mod jobs;
mod log;
mod metrics;
mod multipart;
mod negotiate;
mod options;
mod origins;
mod page;
mod parameters;
mod plans;
mod query;
mod requests;
mod routes;
mod server;
mod shared;
mod slow_clients;
mod timeline;
mod trimming;
mod update;

pub use access::AccessRules;
pub use data::ServerData;
pub use log::{AccessLog, LogFile};
pub use multipart::fuzz as multipart_fuzz;
pub use negotiate::fuzz as negotiate_fuzz;
pub use options::{ClientLimits, ServerOptions};
pub use parameters::fuzz as parameters_fuzz;
pub use server::{Server, ServerError, ServerStop};
