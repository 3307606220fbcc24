//! Worlds for tests that make faulty kernels fail.

mod shuffled;
mod strict;

pub(crate) use shuffled::Shuffled;
pub(crate) use strict::Strict;
