//! Texts of networks: read, printed, built and run.

mod errors;
mod hostile;
mod runs;
mod skew;
mod texts;
mod windows;
