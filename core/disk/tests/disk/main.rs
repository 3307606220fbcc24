//! Stores on a disk that fails, against a model that doesn't.

mod base;
mod crashes;
mod damage;
mod log;
mod model;
mod opening;
