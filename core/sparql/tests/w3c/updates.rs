//! Updates: the read files, and the data afterwards.

use crate::manifest::{self, Data, Test};
use crate::renamed;
use crate::results;
use crate::updating::{lines_of, nothing, snapshot_of, updated};
use oxrdf::dataset::CanonicalizationAlgorithm;
use oxrdf::{Dataset, GraphName, NamedNode, Quad};
use oxttl::NQuadsParser;
use std::collections::BTreeSet;
use vicus_sparql::{ParseOptions, PlanOptions, QueryErrorKind, parse_update_with};

/// The error of a text that is not an update.
pub(crate) fn syntax_error(text: &str, base: &str, rdf_12: bool) -> Option<String> {
    let options = ParseOptions { base: Some(base), rdf_12, ..ParseOptions::default() };
    let error = parse_update_with(text, &options).err()?;
    (error.kind == QueryErrorKind::Syntax).then(|| error.to_string())
}

/// The quads as lines of N-Quads without their dots.
fn quads_of(data: &Data) -> Result<BTreeSet<String>, String> {
    let default = data.default.iter().map(|path| (GraphName::DefaultGraph, path));
    let named = data.graphs.iter().map(|(name, path)| (NamedNode::new_unchecked(name).into(), path));
    let mut quads = BTreeSet::new();
    for (file, (graph, path)) in default.chain(named).enumerate() {
        for quad in results::quads(path, &manifest::iri(path))? {
            let own = quad.graph_name.clone();
            let triple = renamed(&format!("d{file}"), quad.into());
            quads.insert(triple.in_graph(if own.is_default_graph() { graph.clone() } else { own }).to_string());
        }
    }
    Ok(quads)
}

/// With canonical names of blank nodes.
fn canonical(quads: &BTreeSet<String>) -> Dataset {
    let text: String = quads.iter().map(|line| format!("{line} .\n")).collect();
    let parsed: Vec<Quad> = NQuadsParser::new().for_slice(text.as_bytes()).collect::<Result<_, _>>().expect("N-Quads");
    let mut dataset: Dataset = parsed.into_iter().collect();
    dataset.canonicalize(CanonicalizationAlgorithm::Unstable);
    dataset
}

pub(crate) fn run(test: &Test, text: &str, base: &str, rdf_12: bool) -> Result<(), String> {
    let options = ParseOptions { base: Some(base), rdf_12, ..ParseOptions::default() };
    let update = parse_update_with(text, &options).map_err(|error| error.to_string())?;
    let (before, expected) = (snapshot_of(&quads_of(&test.before)?), canonical(&quads_of(&test.after)?));
    for optimise in [true, false] {
        for envelope_rows in [1, 2048] {
            let options = PlanOptions { optimise, envelope_rows, ..PlanOptions::default() };
            let after = updated(&before, &update, &options, 7, &nothing)?;
            let found = canonical(&lines_of(&after));
            if found != expected {
                return Err(format!("optimise: {optimise}: found\n{found}and not\n{expected}"));
            }
        }
    }
    Ok(())
}
