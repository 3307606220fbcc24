//! Vicus' placed containers beside their peers: after Wheeler, Thain and Murphy, Figs. 3 to 9.
//!
//! All sides are measured in one run, alternating, on threads that are pinned alike; medians count. A peer that can't
//! be built on this machine is skipped with a message.

mod array;
mod blocks;
mod machine;
mod measure;
mod peers;
mod pool;
mod queues;

use clap::{Parser, Subcommand};

/// Vicus' containers beside their peers.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    container: Option<Container>,
}

#[derive(Subcommand)]
enum Container {
    /// Figs. 8 and 9: words and blocks of 1,024 bytes from some producers to as many consumers.
    Queues(queues::Options),
    /// Fig. 3: items of 44 bytes are allocated, written to and freed.
    Pool(pool::Options),
    /// The allocator beside other allocators: pairs, batches, blocks that another thread frees, resident bytes.
    Memory(blocks::Options),
    /// Figs. 4 to 6: elements are read, by pattern, segment size, element size and alignment.
    Array(array::Options),
}

fn main() -> anyhow::Result<()> {
    match Args::parse().container {
        Some(Container::Queues(options)) => queues::run(&options),
        Some(Container::Pool(options)) => pool::run(&options),
        Some(Container::Memory(options)) => blocks::run(&options),
        Some(Container::Array(options)) => array::run(&options),
        // All of them, one after the other.
        None => {
            queues::run(&queues::Options::default())?;
            pool::run(&pool::Options::default())?;
            array::run(&array::Options::default())
        }
    }
}
