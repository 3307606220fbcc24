//! Options of commands whose queries may be shared with nodes.

use crate::arguments::RootsArgs;
use crate::node;
use crate::query::duration;
use anyhow::{anyhow, ensure};
use std::sync::Arc;
use std::time::Duration;
use vicus_nodes::{LeadOptions, QueryNodes, QueryNodesOptions};
use vicus_service::Peers;

/// The nodes that share the work of queries.
#[derive(clap::Args)]
pub(crate) struct PeerArgs {
    /// Other processes with a copy of the same store, `vicus node --store`s: host:port, separated by commas. They share
    /// the work of a query where that is expected to be quicker, by the bandwidth measured to them.
    #[arg(long, value_name = "ADDRESS,…", value_delimiter = ',', help_heading = "Nodes")]
    nodes: Vec<String>,
    /// The token of the nodes; VICUS_NODE_TOKEN has one, too.
    #[arg(long, value_name = "TOKEN", requires = "nodes", help_heading = "Nodes")]
    node_token: Option<String>,
    /// A node that has sent nothing for so long is lost. Its query is asked again of those that are left, unless rows
    /// were written.
    #[arg(long, value_name = "SECONDS", value_parser = duration, requires = "nodes", default_value = "1")]
    #[arg(help_heading = "Nodes")]
    node_silence: Duration,
    /// Shares all work that can be shared, also where one machine is expected to be quicker.
    #[arg(long, requires = "nodes", help_heading = "Nodes")]
    share_always: bool,
}

impl PeerArgs {
    fn options(&self, roots: &RootsArgs) -> anyhow::Result<QueryNodesOptions> {
        ensure!(self.node_silence >= Duration::from_millis(10), "--node-silence: at least 10ms");
        let token = node::token(self.node_token.as_ref());
        let wait = Duration::from_secs(1);
        let lead =
            LeadOptions { token, roots: roots.read()?, silence: self.node_silence, wait, ..LeadOptions::default() };
        Ok(QueryNodesOptions { lead, always: self.share_always })
    }

    /// Connects to all nodes, if there are any.
    pub(crate) fn connect(&self, roots: &RootsArgs) -> anyhow::Result<Option<Arc<dyn Peers>>> {
        if self.nodes.is_empty() {
            ensure!(!roots.is_given(), "--tls-ca is for --nodes");
            return Ok(None);
        }
        let nodes = QueryNodes::connect(&self.nodes, self.options(roots)?).map_err(|why| anyhow!("--nodes: {why}"))?;
        Ok(Some(Arc::new(nodes)))
    }

    /// The variant for a server, which begins without those that can't be had yet.
    pub(crate) fn expect(
        &self,
        roots: &RootsArgs,
        tell: impl Fn(String) + Send + Sync + 'static,
    ) -> anyhow::Result<Option<Arc<dyn Peers>>> {
        if self.nodes.is_empty() {
            return Ok(None);
        }
        Ok(Some(Arc::new(QueryNodes::expect(&self.nodes, self.options(roots)?, tell))))
    }
}
