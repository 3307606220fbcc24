//! The allocator, the placed containers and the queues under random use.

mod containers;
mod queues;
mod soak;
