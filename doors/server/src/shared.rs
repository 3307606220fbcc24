//! What all connections of a server share.

use crate::answers::Answers;
use crate::awake::Awake;
use crate::body::Bodies;
use crate::data::Held;
use crate::jobs::Jobs;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::origins::Origins;
use crate::plans::Plans;
use crate::requests::Requests;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::sync::Notify;
use vicus_service::Service;

pub(crate) struct Shared {
    pub(crate) service: Service,
    pub(crate) data: Held,
    pub(crate) options: Options,
    pub(crate) origins: Origins,
    pub(crate) jobs: Jobs,
    pub(crate) awake: Arc<Awake>,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) plans: Plans,
    pub(crate) answers: Answers,
    pub(crate) requests: Arc<Requests>,
    pub(crate) metrics: Metrics,
    /// Told when a request has ended, for those that wait for memory.
    pub(crate) freed: Notify,
    /// No request may begin any more.
    pub(crate) is_draining: AtomicBool,
}
