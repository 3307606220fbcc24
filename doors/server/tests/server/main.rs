//! The server, as its clients see it.

mod answers;
mod client;
mod limits;
mod running;
mod streaming;
mod w3c;
