//! The paved path for Rust users: runtime and flow.
