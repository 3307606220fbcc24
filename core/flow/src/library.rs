//! Boxes for many networks, one file each. They take columns of any types, with or without nulls.
//!
//! A network begins with [`source`] or [`fill`] and ends with [`sink`]. [`map`] is a function of each envelope;
//! [`sort`], [`group`] and [`hold`] take a whole stream before they send anything, and [`join`] one of its two.
//!
//! A network is made parallel by a transformation of its model (Bobox report §8.1): [`split`] hands ranges of work to
//! replicas of a part of the network, [`spread`] the envelopes of a single stream, [`partition`] deals rows by key, and
//! [`union`] or [`merge`] brings the streams together again. Such a diamond does not wait for itself: the splitter goes
//! on as soon as any replica has room, and a union takes from any input with an envelope.

mod fold;
mod group;
mod hash;
mod heavy;
mod hold;
mod iterate;
mod join;
mod key;
mod map;
mod merge;
mod near;
mod order;
mod partition;
mod sink;
mod sort;
mod source;
mod spill;
mod split;
mod spread;
mod tournament;
mod union;
mod window;

pub use group::{Grouping, group, group_ahead};
pub use hash::{HashKey, Keyed, table_bytes};
pub use heavy::{heavy_schema, partition_heavy, partition_to_heavy};
pub use hold::hold;
pub use iterate::{Iterating, Sieve, iterate};
pub use join::{JoinKind, Joining, join};
pub use map::map;
pub use merge::merge;
pub use near::{Nearness, join_near};
pub use order::{SortKey, order_by};
pub use partition::partition;
pub use sink::{sink, sink_operator};
pub use sort::{sort, sort_unless};
pub use source::{More, SourceItem, fill, source};
pub use spill::{DEEPEST, Parts, Spilled};
pub use split::{Piece, range_schema, split};
pub use spread::spread;
pub use tournament::Tournament;
pub use union::union;
pub use window::{WindowError, Windowing, watermarks, window};

/// Picks tasks in the order of a seed.
#[cfg(test)]
fn any_order(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |tasks| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % tasks
    }
}
