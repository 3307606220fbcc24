//! Scheduling decisions: which seat runs which task next. This crate decides; it never acts.
//!
//! No threads, no clock, no operating system. A strategy looks at a [`Topology`](vicus_topology::Topology) once and
//! answers with a [`Plan`], plain data: the queues, each seat's queue for each kind of task, the order of its looks for
//! work, and the seats woken by a spawn. A [`Seat`] follows the plan and decides its worker's next step, and worlds
//! carry out the step; [`look`] goes through the plan's probes. [`Dependences`] finds the order of tasks from their
//! reads and writes.
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
mod decision;
mod depend;
mod display;
mod front;
mod look;
mod placement;
mod plan;
mod policies;
mod queue;
mod seat;
mod sleepers;
mod sync;
mod task;
mod turn_order;
mod valid;

pub use access::{Access, Mode};
pub use by_request::ByRequest;
pub use context::{AwaitedTasks, Context, ContextOwner, ContextRef, ReadyTask, TaskGraph, TaskNode, Unspawned, Waiter};
pub use decision::{Decision, TaskName};
pub use depend::Dependences;
pub use front::{FRONT_RULE, FRONT_TURN_NS};
pub use look::{DEEP, FoundTask, Queues, QueuesByRequest, Way, look, look_waiting};
pub use placement::{
    BoxPlacement, Crowd, DealResult, Dealing, LastUses, Shares, Spawner, TaskPlacement, Uses, Warm, Whereabouts,
};
pub use plan::{
    End, Idle, MOST_THREADS, Patience, Plan, Pool, PoolId, Probe, QueueId, QueueOrder, QueueScan, QueueSpec, RULES,
    Robber, SeatId, SeatPlan, Take, Tokens, When,
};
pub use policies::{
    ALL, AllowedValues, DEFAULT, DEFAULT_OF_QUERIES, Latencies, Parameter, Setting, SettingError, Settings, Strategy,
};
pub use queue::Queue;
pub use seat::{
    ActivatedBox, After, EndOfWait, GoesOn, NextTask, OWN_TURN, OtherSeats, Rest, Seat, SpawnTarget, TURN_NS,
    WOKEN_TURN, YIELDED_TURN, goes_on_from_outside, next_open_seat,
};
pub use sleepers::{Sleeper, Sleepers, Wake};
pub use task::{Kind, RequestId, RunTask, TaskClass, TaskHeader, TaskRef};
pub use turn_order::{Share, TurnOrder, Turned};
