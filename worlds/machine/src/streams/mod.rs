//! Sources without end: lines of standard input, of files that grow and of sockets, and ticks of the clock.
//!
//! A thread of its own waits for each of them, so that no worker does: the box pauses, and the thread resumes it with
//! what has come. It holds a bounded number of bytes, and waits while its box is busy. When
//! the request is over, the box is dropped, and the thread leaves within [`PATIENCE`].

mod feeds;
mod inbox;
mod lines;
#[cfg_attr(windows, path = "local_windows.rs")]
mod local;
mod ticks;

pub use feeds::{Feed, FeedResult, Follow, FollowFrom, Tcp};
pub use lines::{LineOptions, line_schema, lines};
pub use local::{StandardInput, Unix};
pub use ticks::{tick_schema, ticks};

use std::time::Duration;

/// How long a thread waits for input before it looks whether its box is still there.
pub const PATIENCE: Duration = Duration::from_millis(50);
