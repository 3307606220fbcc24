//! Boxes do the work, vias carry its data, and envelopes hold the columns.
//!
//! Bednárek, Dokulil, Yaghob, "The Bobox Project: Parallelization Framework and Server for Data Processing", technical
//! report 2011/1, §2–4. A [`Model`] declares boxes and the vias between them; an [`Instance`] is a live copy, submitted
//! to a world as a request. Boxes are single-threaded [`Operator`]s with their own state; shared data travels in
//! [`Envelope`]s.
//!
//! This crate has no threads: a world takes [`Activation`]s, chooses a time and a seat for each, and calls
//! [`Queued::begin`], [`Running::act`], [`Running::send`] and [`Sent::finish`].

#[cfg(feature = "arrow")]
pub mod arrow;
mod block;
mod budget;
mod builder;
mod column;
mod counts;
mod describe;
mod envelope;
mod error;
mod expand;
mod grow;
mod inner;
mod input_ring;
mod instance;
pub mod library;
mod mailbox;
mod mark;
mod model;
mod native;
mod nulls;
mod operator;
mod overflow;
mod pause;
mod queued;
mod schema;
mod seat_buffers;
pub mod sequential;
mod shape;
mod stall;
mod state;
pub mod stepwise;
mod store;
mod sync;
mod types;
mod unfilled;

#[cfg(feature = "arrow")]
pub use arrow::FromArrowError;
pub use block::{Block, Blocks};
pub use budget::{Account, Budget, Grants, Reservation};
pub use builder::EnvelopeBuilder;
pub use column::{Column, StorageError};
pub use counts::{BoxCounts, InputCounts, OutputCounts};
pub use envelope::{Attachment, Envelope, HeldBytes};
pub use error::{FlowError, NoMemory, OverBudget, SentTooMuch, drop_quietly, give_up, keep_first, or_given_up};
pub use expand::{Arrivals, Expansion};
pub use grow::{Grow, Plain, refusable, tell_of_asking};
pub use inner::{Inherited, Inner, OnResult, OwnOperators, SubmitInner};
pub use input_ring::{Bound, Put};
pub use instance::{GrownBox, Instance, LiveBox, Running, Sent, Settled, Totals};
pub use mark::{Mark, Marks};
pub use model::{
    BoxId, BoxModel, ConnectedBox, CrossingEnds, Fragment, FragmentBuilder, InputId, LinkOptions, Model, ModelBuilder,
    ModelCrossing, ModelError, ModelLinks, ModelPart, OutputId,
};
pub use native::{Native, NativeForm};
pub use operator::{BoxError, Operator, Turn, World};
pub use overflow::{Overflow, Overflows};
pub use pause::{Entry, Resume};
pub use queued::{Queued, box_class};
pub use schema::{Field, Schema};
pub use seat_buffers::{Activation, Fact, SeatBuffers};
pub use types::{Storage, TimeUnit, Type};
pub use unfilled::{Unfilled, UnfilledText};
