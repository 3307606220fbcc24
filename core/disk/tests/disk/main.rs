//! Stores on a failing disk, against a model on a sound one.

mod base;
mod crashes;
mod damage;
mod log;
mod model;
mod opening;
