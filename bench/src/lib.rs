//! What the benches beside other RDF engines share: sides, pipes to engines in other processes, tables, CPUs.

pub mod cpus;
pub mod java;
pub mod oxigraph_side;
pub mod peer;
pub mod piped;
pub mod queries;
pub mod table;
pub mod vicus_side;
