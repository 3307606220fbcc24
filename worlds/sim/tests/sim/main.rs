//! Simulated machines: times by hand, published figures, random programs, and recorded runs enacted again.

mod by_hand;
mod cluster;
mod growing;
mod kernels;
mod memory;
#[path = "../../../../core/flow/tests/flow/networks.rs"]
mod networks;
mod papers;
mod random_networks;
mod recorded;
mod reenact;
mod shares;
mod skew;
mod strategies;
mod stream;
mod threads;
