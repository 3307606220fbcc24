//! Networks as text. A text names boxes of known kinds, with parameters, and the vias between them; it becomes a
//! [`Model`](vicus_flow::Model).
//!
//! ```text
//!  text ── parse ──▶ NetworkText ── build ──▶ Network: a model, and where its rows are collected
//!    ▲      JSON ──▶     │            ▲
//!    └──── Display ──────┘          Kinds: the library's, and those that a door or a program adds
//! ```
//!
//! The language follows Bobolang (Falt, Bednárek, Krulis, Yaghob, Zavoral, "Bobolang: a language for parallel streaming
//! applications", HPDC 2014). We differ: a kind computes the columns of its outputs from those of its inputs, so a text
//! need not name types; and a box in copies (`*threads`) has the boxes that deal and unite rows put beside it.
//!
//! ```
//! use vicus_network::{Kinds, MachineCounts, NetworkText};
//!
//! let text: NetworkText = r#"
//!     param most: integer = 10;
//!     box n = numbers(to: most);
//!     box even = filter(where: "n % 2 = 0") * threads;
//!     box rows = collect;
//!     n -> even -> rows;
//! "#.parse()?;
//! let network = text.build("even", &Kinds::library(), &MachineCounts { threads: 2, nodes: 1 }, &[])?;
//! assert_eq!(network.collected[0].schema.to_string(), "(n: I64)");
//! # Ok::<(), vicus_network::NetworkError>(())
//! ```
//!
//! Begin at [`NetworkText`] and [`BoxSpec`].

mod build;
mod dot;
mod drawing;
mod error;
mod expand;
mod folds;
mod iterate;
mod json;
mod language;
mod lex;
mod library;
mod of_model;
mod parse;
mod part;
mod parts;
mod paths;
mod port;
mod print;
mod schema;
mod spec;
mod text;
mod value;
mod windows;

pub use build::{Collected, MachineCounts, Network};
pub use dot::dot;
pub use drawing::svg;
pub use error::{NetworkError, Spot};
pub use json::JSON_VERSION;
pub use language::{NetworkPlan, Networks};
pub use part::{Border, Crossing, CrossingRows, NetworkPart};
pub use paths::{EndWork, LaterWork, Paths};
pub use port::{ReceivePort, SendPort, SendStep};
pub use schema::{parse_schema, schema_text};
pub use spec::{BoxSpec, Building, Incoming, KindError, Kinds, ParameterSpec, Ports};
pub use text::{Argument, Body, BoxText, NetworkText, OnNode, PortText, SubNetwork, TextParameter, ViaText};
pub use value::{ParameterType, ParameterValue};
pub use windows::span_ns;
