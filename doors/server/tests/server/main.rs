//! The server, as its clients see it.

mod answers;
mod client;
mod ending;
mod gates;
mod hostile;
mod limits;
mod page;
mod running;
mod streaming;
mod takers;
mod tls;
mod updates;
mod w3c;
