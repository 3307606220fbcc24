//! Worlds that are hard on kernels.

mod shuffled;
mod strict;

pub(crate) use shuffled::Shuffled;
pub(crate) use strict::Strict;
