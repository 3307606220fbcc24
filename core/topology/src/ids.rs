//! Dense indices of distinct types. The default one is the first.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[doc = $doc:literal] $name:ident $word:literal;)*) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(u32);

        impl $name {
            /// The id with this index. Panics beyond four billion.
            pub const fn new(index: usize) -> $name {
                assert!(index <= u32::MAX as usize, concat!("fewer than four billion of ", $word));
                $name(index as u32)
            }

            /// Its index in its vector.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, "{}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self, f)
            }
        }
    )*};
}

id! {
    #[doc = "A hardware thread, by its index in [`Topology::pus`](crate::Topology::pus)."] PuId "pu";
    #[doc = "A physical core, by its index in [`Topology::cores`](crate::Topology::cores)."] CoreId "core";
    #[doc = "A cache, by its index in [`Topology::caches`](crate::Topology::caches)."] CacheId "cache";
    #[doc = "A core group, by its index in [`Topology::core_groups`](crate::Topology::core_groups)."] GroupId "group";
    #[doc = "A NUMA node, by its index in [`Topology::nodes`](crate::Topology::nodes)."] NodeId "node";
    #[doc = "One of the locations over which something is laid out, by its index among these: the units of a \
        distribution, the subqueues \
             of a queue, the queues that tasks are dealt to. What it stands for, a node or a core group, its list \
             says. Users say \
             [`Place`](crate::Place)s instead."] LocationId "location";
}
