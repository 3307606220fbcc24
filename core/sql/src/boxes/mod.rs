//! The boxes of plans beyond core/flow's library.

pub(crate) mod aggregate;
pub(crate) mod fold;
pub(crate) mod join;
pub(crate) mod keys;
pub(crate) mod new_rows;
pub(crate) mod pairs;
pub(crate) mod pipe;
pub(crate) mod scan;
pub(crate) mod set;
pub(crate) mod slice;
pub(crate) mod top;
pub(crate) mod unnest;
