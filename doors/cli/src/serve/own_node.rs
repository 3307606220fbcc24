//! A server that is a node as well, for queries over the store that it keeps.

use crate::node::token;
use anyhow::{Context, anyhow, ensure};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use vicus_network::{Kinds, Paths};
use vicus_nodes::{NodeOptions, NodeServer};
use vicus_service::data::Store;
use vicus_service::{PeerData, PeerHost, PeerHostOptions, Service, TemporaryFolder, TlsCertificate};

/// A query waits so long for records that have not come here yet.
const PATIENCE: Duration = Duration::from_secs(1);

/// The node of a server, on a thread of its own. Dropped, it ends.
pub(super) struct OwnNode {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl OwnNode {
    /// Listens, by TLS if there is a certificate. Parts of queries hold at most this many bytes of memory each.
    pub(super) fn start(
        listen: &str,
        certificate: Option<TlsCertificate>,
        service: &Service,
        store: &Arc<Store>,
        memory: u64,
        temporary: Option<TemporaryFolder>,
    ) -> anyhow::Result<OwnNode> {
        let overflows = temporary.as_ref().map(TemporaryFolder::overflows);
        let host = PeerHostOptions { memory, temporary, patience: PATIENCE };
        let host = PeerHost::new(service.clone(), PeerData::Store(Arc::clone(store)), host);
        let token = token(None);
        let has_token = token.is_some();
        let nodes = vicus::this_machine().topology.nodes.len();
        let options = NodeOptions { token, certificate, memory, overflows, nodes };
        // Networks run here too, and read and write nothing.
        let paths = Paths::by(|name| Err(format!("{name}: this server's node reads and writes no files")));
        let kinds = Kinds::library().with_paths(paths);
        let named = || format!("--listen-node {listen}");
        let node = NodeServer::listen_with_queries(listen, host, kinds, options).with_context(named)?;
        let address = node.address().with_context(named)?;
        ensure!(
            has_token || address.ip().is_loopback(),
            "--listen-node {address}: others than this machine reach it, so it needs a token, in VICUS_NODE_TOKEN"
        );
        let ended = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&ended);
        let serve = move || {
            if let Err(error) = node.serve(|| ends.load(Ordering::Relaxed)) {
                crate::messages::tell(format_args!("vicus: the node at {address} has ended: {error}"));
            }
        };
        let thread = std::thread::Builder::new().name("vicus node".to_owned()).spawn(serve);
        let thread = thread.map_err(|error| anyhow!("no thread for the node: {error}"))?;
        Ok(OwnNode { address, ended, thread: Some(thread) })
    }

    /// The address that it listens on.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for OwnNode {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
