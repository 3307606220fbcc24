//! The server, as its clients see it.

mod client;
mod running;
mod w3c;
