//! A model as a graph for Graphviz.

use crate::build::Network;
use crate::schema::schema_text;
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
    let is_own = |index: usize| index > 0 && index + 1 < boxes.len();
    let mut write = || -> std::fmt::Result {
        writeln!(out, "digraph \"{}\" {{", escaped(network.model.name()))?;
        writeln!(out, "    node [shape=box];")?;
        for (index, one) in boxes.iter().enumerate().filter(|(index, _)| is_own(*index)) {
            let (own, of_model) = (escaped(&network.names[index]), escaped(one.name()));
            writeln!(out, "    b{index} [label=\"{own}\\n{of_model}\"];")?;
        }
        for (index, one) in boxes.iter().enumerate().filter(|(index, _)| is_own(*index)) {
            for (from, output) in one.sources().filter(|(from, _)| is_own(from.index())) {
                let sender = boxes[from.index()].outputs().nth(output);
                let columns = sender.map_or(String::new(), |(schema, _)| escaped(&schema_text(schema)));
                writeln!(out, "    b{} -> b{index} [label=\"{columns}\"];", from.index())?;
            }
        }
        writeln!(out, "}}")
    };
    write().expect("a text takes all that is written");
    out
}
