//! Copies of a store: one writes, and the others follow its log.
//!
//! ```text
//!  follower                                       writer, or another follower
//!  CopyStanding: how far it is  ─ asks ──▶     decide: the records behind, or where its log parts from this one
//!  take: append, cut, or fetch  ◀─ CopyAnswer  a question says what is durable there: it acknowledges, too
//! ```
//!
//! A record has one sequence number in all copies, and was written in one **epoch**: the turn of one writer. An epoch
//! begins with a record of its own. Since each epoch has one writer, two logs that have an epoch in common are the same
//! up to the end of that epoch in the shorter one ([`CopyStanding::common`]).
//!
//! **Promotion.** [`Store::promise`] makes a copy refuse older epochs than the given one, durably. Who promotes a copy
//! (a person, or what watches over machines) has as many copies promise that, with those that have to acknowledge a
//! commit, every commit has one in both groups: of N copies, with K followers that acknowledge, N − K. The copy among
//! them with the newest epoch and the most records has every acknowledged commit, and becomes the writer
//! ([`Store::begin_epoch`]). This is the rule of elections in Ongaro and Ousterhout, "In search of an understandable
//! consensus algorithm", USENIX ATC 2014, §5.4, with quorums of two sizes after Howard, Malkhi and Spiegelman,
//! "Flexible Paxos", OPODIS 2016. We differ: nothing here decides when to elect.
//!
//! **An old writer** that comes back may have records that no other copy has. It is told where its log parts, keeps the
//! records behind that in other files, and follows ([`Store::follow_up`]).
//!
//! Nothing here has a clock, and nothing compares clocks of two machines.

mod archive;
mod decide;
mod message;
mod pruning;
pub use archive::{
    ARCHIVE_HEAD, ArchiveList, ArchivedRecords, NotArchived, Restoration, Until, archive_head, archived_base,
    base_of_archive, is_name_of_base, name_of_base, name_of_base_file, store_of_archive,
};
pub use decide::{Content, CopyAnswer, CopyDecision, CopyStanding, CopyStep, Refused};
pub use message::{NotUnderstood, Offer, PROTOCOL};
pub use pruning::{ArchiveHorizon, LogSpan};
