//! Flow without threads: valid models, the protocol between boxes, the library's boxes, and columns as Arrow has them.

mod arrow;
mod growing;
mod growing_networks;
mod iterating;
mod joins;
mod library_boxes;
mod models;
mod near;
mod networks;
mod newest;
mod one_box;
mod overdraft;
mod protocol;
mod random_networks;
mod skew;
mod skew_trials;
mod spilling;
mod storage;
mod tables;
mod trials;
mod unchecked_arrow;
mod window_trials;
mod windows;
