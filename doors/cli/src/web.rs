//! The questions of queries and updates to other servers.

use crate::query::{bytes, duration};
use std::sync::Arc;
use std::time::Duration;
use vicus_service::{Permit, Web, WebOptions};

/// The options of commands that ask other servers.
#[derive(clap::Args)]
pub(crate) struct WebArgs {
    /// The servers for SERVICE and LOAD: URLs of http or https with this prefix, or all. Scheme, host and port are
    /// compared as a whole. May be given several times; by default nothing may be asked. Servers that redirect need a
    /// permission for both places.
    #[arg(long, value_name = "PREFIX|all", help_heading = "Other servers")]
    allow_service: Vec<Permit>,
    /// How long a server may take to answer one question; a query may have several: 30, 1.5s, 500ms.
    #[arg(long, value_name = "SECONDS", value_parser = duration, default_value = "60")]
    #[arg(help_heading = "Other servers")]
    service_timeout: Duration,
    /// The most bytes of a server's answer to one question, and of a server's document for LOAD, unpacked: 500000, 64K,
    /// 10M, 2G.
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "256M")]
    #[arg(help_heading = "Other servers")]
    service_bytes: u64,
}

impl WebArgs {
    /// The client for them.
    pub(crate) fn web(&self) -> Arc<Web> {
        Arc::new(Web::new(WebOptions {
            permits: self.allow_service.clone(),
            time: self.service_timeout,
            bytes: self.service_bytes,
            ..WebOptions::default()
        }))
    }
}
