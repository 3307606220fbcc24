//! Vicus' placed containers beside their peers: after Wheeler, Thain and Murphy, Figs. 7 to 9.
//!
//! All sides are measured in one run, alternating, on threads that are pinned alike; medians count. A peer that this
//! machine can't build is skipped aloud.

mod peers;
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
    /// Figs. 8 and 9: words and blocks of 1,024 bytes from as many producers to as many consumers.
    Queues(queues::Options),
}

fn main() -> anyhow::Result<()> {
    match Args::parse().container {
        Some(Container::Queues(options)) => queues::run(&options),
        // All, one after the other.
        None => queues::run(&queues::Options::default()),
    }
}
