//! Texts of networks: read, printed, built and run.

mod errors;
mod hostile;
mod runs;
mod texts;
mod windows;
