//! Texts of networks: read, printed, built and run.

mod errors;
mod hostile;
mod iterating;
mod runs;
mod skew;
mod texts;
mod types;
mod windows;
