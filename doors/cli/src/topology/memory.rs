//! Tests whether memory lies on the requested nodes, by asking the kernel.

use super::{bytes, count, node_name};
use std::alloc::Layout;
use std::fmt::Write;
use vicus::kit::{Audit, free_bytes};
use vicus::memory::Distribution;
use vicus::{Runtime, Topology};

/// How many bytes are tried on each node.
const TRIED_BYTES: usize = 4 << 20;

/// A node's memory, and the result of the test on it.
pub(super) struct NodeMemory {
    name: String,
    bytes: u64,
    free: Option<u64>,
    held: u64,
    spilled: u64,
    pages: Audit,
}

/// Allocates and touches some memory on each node, and asks the kernel for its place.
pub(super) fn try_nodes(machine: &Topology) -> anyhow::Result<Vec<NodeMemory>> {
    // The runtime reports its refusals on standard error.
    let runtime = crate::engine::start(Runtime::builder().topology(machine.clone()), Some(1))?;
    let Some(memory) = runtime.memory() else { anyhow::bail!("this process gets no addresses for memory on nodes") };
    let layout = Layout::from_size_align(TRIED_BYTES, 4096)?;
    let mut placed = Vec::new();
    for &node in memory.locations() {
        let mut tried = runtime.alloc(layout, Distribution::On(memory.location_near(node)))?;
        tried.bytes_mut().fill(1);
        placed.push(tried);
    }
    let audits = memory.audit();
    let node = |(node, pages): (&vicus_topology::Node, Audit)| {
        let counts = memory.counts(node.id);
        let at = memory.locations().iter().position(|&location| location == node.id);
        let placed = at.map_or(0, |at| placed[at].len());
        NodeMemory {
            name: node_name(node),
            bytes: node.bytes,
            free: free_bytes(node.os_index),
            held: (counts.committed(memory.options().superblock_bytes) + placed) as u64,
            spilled: counts.spilled,
            pages,
        }
    };
    Ok(machine.nodes.iter().zip(audits).map(node).collect())
}

pub(super) fn render(nodes: &[NodeMemory]) -> String {
    let mut out = format!(
        "\nMemory, after {} was asked for and touched on each node; pages as the kernel says:\n",
        bytes(TRIED_BYTES as u64)
    );
    let mut table = vec![["", "size", "free", "held by Vicus", "spilled", "pages where asked"].map(str::to_owned)];
    table.extend(nodes.iter().map(|node| {
        let Audit { there, elsewhere } = node.pages;
        [
            node.name.clone(),
            bytes(node.bytes),
            node.free.map_or("unknown".to_owned(), bytes),
            bytes(node.held),
            node.spilled.to_string(),
            match there + elsewhere {
                0 => "none touched".to_owned(),
                all => format!("{there} of {}", count(all, "page")),
            },
        ]
    }));
    let widths: [usize; 6] = std::array::from_fn(|column| table.iter().map(|row| row[column].len()).max().unwrap_or(0));
    for row in &table {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        // Writing to a String can't fail.
        let _ = writeln!(out, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    out
}
