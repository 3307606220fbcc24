//! The server, as its clients see it.

mod answers;
mod client;
mod ending;
mod limits;
mod running;
mod streaming;
mod tls;
mod updates;
mod w3c;
