//! The runtime on real threads, on any described machine. Tests in need of a process of their own have a file beside
//! this folder: those with another allocator, another memory, or an eye on the process's time.

mod budget;
mod children;
mod collect;
mod dealing;
mod deep;
mod flow;
mod growing;
#[path = "../../../../core/flow/tests/flow/growing_networks.rs"]
mod growing_networks;
mod head_start;
mod helpers;
#[path = "../../../../core/flow/tests/flow/joins.rs"]
mod joins;
mod lending;
mod library_boxes;
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
mod shepherds;
mod siblings;
#[path = "../../../../core/flow/tests/flow/skew_trials.rs"]
mod skew_trials;
mod soak;
mod stalls;
mod start;
mod streams;
mod submitting;
#[path = "../../../../core/flow/tests/flow/tables.rs"]
mod tables;
mod tasks;
#[path = "../../../../core/flow/tests/flow/trials.rs"]
mod trials;
#[path = "../../../../core/flow/tests/flow/window_trials.rs"]
mod window_trials;
