//! Vicus for Rust users: networks of single-threaded boxes on threads that stay near their data.
//!
//! One import, about ten lines:
//!
//! ```
//! use vicus::{BoxModel, Column, Envelope, ModelBuilder, Runtime, Schema, Turn, Type, library};
//!
//! let schema = Schema::new([("n", Type::U64)]);
//! let mut net = ModelBuilder::new("squares");
//! let numbers = net.source(BoxModel::new("numbers", || |turn: &mut Turn<'_>| {
//!     turn.take(0); // the initialization pill
//!     turn.send(0, Envelope::new([Column::from(vec![1u64, 2, 3])]));
//!     turn.send_pill(0);
//!     Ok(())
//! }).output(&schema));
//! let square = net.add(library::map("square", &schema, &schema, |envelope| {
//!     let squares: Vec<u64> = envelope.column(0).u64s().iter().map(|n| n * n).collect();
//!     Some(Envelope::new([squares.into()]))
//! }));
//! let print = net.add(library::sink("print", &schema, |envelope| {
//!     println!("{:?}", envelope.column(0).u64s());
//!     Ok(())
//! }));
//! net.connect(numbers.output(0), square.input(0));
//! net.connect(square.output(0), print.input(0));
//! net.end(print.output(0));
//!
//! let runtime = Runtime::builder().start();
//! runtime.submit(&net.build()?).wait()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The examples of this crate: `numbers` (the two boxes of the Bobox report), `word_count`, `diamond` (a stream split
//! and joined again) and `validity` (rows deleted on one branch and kept on another, without copying).

pub use vicus_flow::{
    Bound, BoxCounts, BoxError, BoxId, BoxModel, Column, Envelope, FlowError, Model, ModelBuilder, ModelError,
    Operator, OverBudget, Schema, Totals, Turn, Type, library,
};
pub use vicus_machine::{
    Allocator, DiscoverError, Discovered, Request, Runtime, RuntimeBuilder, describe, from_synthetic, from_xml,
    this_machine,
};
pub use vicus_schedule::{Plan, Setting, SettingError};
pub use vicus_topology::Topology;

/// The README's program is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
