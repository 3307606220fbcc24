//! Each verb of `vicus`, run as a user runs it.

mod authority;
mod bench;
#[cfg(target_os = "linux")]
mod copies;
mod generate;
mod hostile;
mod learn;
mod manual;
mod memory;
mod network;
mod nodes;
mod peers;
mod query;
mod rdf_12;
mod refusals;
#[cfg(target_os = "linux")]
mod run;
mod serve;
mod simulate;
mod store;
mod store_faults;
mod strategies;
mod topology;
mod trace;
mod view;
