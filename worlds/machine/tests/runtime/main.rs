//! The runtime on real threads, on any described machine. Tests in need of a process of their own have a file beside
//! this folder: those with another allocator, another memory, or an eye on the process's time.

mod budget;
mod children;
mod collect;
mod dealing;
mod deep;
mod flow;
mod following;
mod full_empty;
mod head_start;
mod histories;
mod lending;
mod library_boxes;
mod map_reduce;
mod near;
mod nested;
#[path = "../../../../core/flow/tests/flow/networks.rs"]
mod networks;
mod one_box;
mod pausing;
mod places;
mod priority;
mod random_networks;
mod roaming;
mod shares;
mod shepherds;
mod siblings;
mod soak;
mod start;
mod suspending;
#[path = "../../../../core/flow/tests/flow/tables.rs"]
mod tables;
mod tasks;
mod team;
mod threads;
#[path = "../../../../core/flow/tests/flow/trials.rs"]
mod trials;
