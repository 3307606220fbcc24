//! Scheduling decisions: which seat runs which task next. This crate decides; it never acts.
//!
//! No threads, no clock, no operating system. A strategy looks at a [`Topology`](vicus_topology::Topology) once and answers with
//! a [`Plan`]: plain data that says which queues exist, where each seat puts each kind of task, in which order it looks for work,
//! and which seats a spawn wakes. A [`Seat`] follows the plan and decides what its worker does next, and worlds carry that out;
//! [`look`] goes through the plan's probes. [`Dependences`] finds the order of tasks from the data that they read and write.
//!
//! ```
//! use vicus_schedule::{Setting, Strategy};
//! use vicus_topology::Topology;
//!
//! let machine = Topology::parse("node:2 l3:1 core:2").unwrap();
//! let las: Setting = "las".parse().unwrap();
//! let plan = las.plan(&machine, 4);
//! plan.assert_valid();
//! assert_eq!(plan.pools.len(), 2); // a thread pool for each core group
//! ```

mod access;
mod by_request;
mod context;
mod dealing;
mod decision;
mod depend;
mod front;
mod last_uses;
mod look;
mod plan;
mod policies;
mod queue;
mod seat;
mod shown;
mod sleepers;
mod sync;
mod task;
mod turn_order;
mod turns;
mod valid;

pub use access::{Access, Mode};
pub use by_request::ByRequest;
pub use context::{Context, ContextRef, ReadyTask, TaskGraph, TaskNode, Unspawned, Waiter, Wanted};
pub use dealing::{Dealing, Dealt, Shares, Spawner, Whereabouts, Why};
pub use decision::{Decision, TaskName};
pub use depend::Dependences;
pub use front::{FRONT_RULE, FRONT_TURN_NS};
pub use last_uses::{LastUses, Uses};
pub use look::{DEEP, Found, Queues, QueuesByRequest, Way, look, look_waiting};
pub use plan::{
    End, Idle, MOST_THREADS, Order, Plan, Pool, PoolId, Probe, QueueId, QueueSpec, RULES, Robber, Scan, SeatId,
    SeatPlan, Take, Tokens, Warm, When,
};
pub use policies::{
    ALL, DEFAULT, DEFAULT_OF_QUERIES, Latencies, Parameter, Setting, SettingError, Settings, Strategy, Values,
};
pub use queue::Queue;
pub use seat::{After, OWN_TURN, Put, Rest, Run, Seat, WOKEN_TURN, YIELDED_TURN};
pub use sleepers::{Sleeper, Sleepers, Wake};
pub use task::{Kind, RequestId, RunTask, TaskClass, TaskHeader, TaskRef};
pub use turn_order::{Others, Share, TurnOrder, Turned};
pub use turns::TURN_NS;
