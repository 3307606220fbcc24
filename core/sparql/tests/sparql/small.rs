//! Known rows for small data.
