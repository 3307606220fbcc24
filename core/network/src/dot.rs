//! A model as a graph for Graphviz.

use crate::build::Network;
use std::fmt::Write;

/// The network as a graph in the language of Graphviz: a box for each box of the model, and a labelled edge for each
/// link of its vias.
///
/// ```
/// use vicus_network::{Kinds, MachineCounts, NetworkText, dot};
///
/// let text: NetworkText = "box n = numbers(to: 3); box s = sink; n -> s;".parse()?;
/// let network = text.build("three", &Kinds::library(), &MachineCounts::default(), &[])?;
/// assert!(dot(&network).contains("b1 -> b2 [label=\"(n: I64)\"];"));
/// # Ok::<(), vicus_network::NetworkError>(())
/// ```
pub fn dot(network: &Network) -> String {
    let mut out = String::new();
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let boxes = network.model.boxes();
    let mut write = || -> std::fmt::Result {
        writeln!(out, "digraph \"{}\" {{", escaped(network.model.name()))?;
        writeln!(out, "    node [shape=box];")?;
        for index in network.own() {
            let (own, of_model) = (escaped(&network.label(index)), escaped(boxes[index].name()));
            writeln!(out, "    b{index} [label=\"{own}\\n{of_model}\"];")?;
        }
        for (from, output, to) in network.links() {
            writeln!(out, "    b{from} -> b{to} [label=\"{}\"];", escaped(&network.columns(from, output)))?;
        }
        writeln!(out, "}}")
    };
    write().expect("a text takes all that is written");
    out
}
