//! Traces that somebody has damaged.
