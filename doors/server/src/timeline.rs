//! A query's time line: the boxes run on each seat, from a recording of that query alone.
//!
//! A server's runtime records nothing, since a recording grows. A query with a time line runs on separate threads, as
//! many and by the same plan, and these record.

use crate::shared::Shared;
use serde_json::{Value, json};
use std::sync::Arc;
use vicus::kit::{EventLog, What};
use vicus::trace::Trace;
use vicus::{Runtime, RuntimeBuilder};
use vicus_service::Service;
use vicus_view::{Page, RecordedRun};

/// Threads that record, for one query.
pub(crate) fn service(shared: &Shared) -> Option<Service> {
    let plan = shared.service.runtime().plan().clone();
    let builder: RuntimeBuilder = Runtime::builder().plan(plan).record(EventLog::DEFAULT_ROOM).quiet();
    let runtime = builder.try_start().ok()?;
    Some(Service::new(runtime, Arc::clone(shared.service.memory())))
}

/// A query's recording: what the page draws, and all of it, as a file for people.
pub(crate) struct Recording {
    /// The spans of its boxes.
    pub(crate) spans: Value,
    /// One file that shows the run.
    pub(crate) page: Vec<u8>,
}

/// Their recording. The query is over, and no session is left.
pub(crate) fn of(service: Service, name: &str) -> Option<Recording> {
    let runtime = service.into_runtime()?;
    let threads = runtime.plan().threads();
    let trace = runtime.trace()?;
    let spans = json(&trace, threads);
    let mut page = Vec::new();
    Page::new(vec![RecordedRun::new(name, trace)]).write_to(&mut page).ok()?;
    Some(Recording { spans, page })
}

/// The bytes that a core gets in a nanosecond from its own node's memory, and from another's: by these, an invocation's
/// time of waiting for memory is estimated. The page says that it is an estimate.
const NEAR_BYTES_A_NS: f64 = 10.0;
const FAR_BYTES_A_NS: f64 = 5.0;

/// More spans are left out.
const MOST_SPANS: usize = 200_000;

fn json(trace: &Trace, threads: usize) -> Value {
    let Some(model) = trace.header().models.iter().find(|model| !model.boxes.is_empty()) else {
        return json!({ "spanNs": 0, "boxes": [], "seats": [], "cut": false });
    };
    let boxes: Vec<&str> = model.boxes.iter().map(|each| each.name.as_str()).collect();
    let all = trace.logs().iter().flat_map(|log| &log.events);
    let first = all.clone().map(|event| event.time_ns).min().unwrap_or(0);
    let last = all.map(|event| event.time_ns).max().unwrap_or(0);
    let (mut left, mut cut) = (MOST_SPANS, trace.lost() > 0);
    let has_run =
        |log: &vicus::kit::SeatLog| log.events.iter().any(|event| matches!(event.what, What::InvocationBegins { .. }));
    // Spare seats mostly have nothing to do.
    let seats = trace.header().seats.iter().zip(trace.logs()).enumerate();
    let seats = seats.filter(|(number, (seat, log))| !seat.is_callers && (*number < threads || has_run(log)));
    let seats: Vec<Value> = seats
        .map(|(number, (seat, log))| {
            let (mut spans, mut began, mut bytes) = (Vec::new(), None, (0u64, 0u64));
            for event in &log.events {
                match event.what {
                    What::InvocationBegins { .. } => (began, bytes) = (Some(event.time_ns), (0, 0)),
                    What::BytesRead { far: false, bytes: more, .. } => bytes.0 += u64::from(more),
                    What::BytesRead { far: true, bytes: more, .. } => bytes.1 += u64::from(more),
                    What::InvocationEnds { who } => {
                        let Some(begin) = began.take() else { continue };
                        if left == 0 {
                            cut = true;
                            break;
                        }
                        left -= 1;
                        let length = event.time_ns.saturating_sub(begin).max(1) as f64;
                        let waited = bytes.0 as f64 / NEAR_BYTES_A_NS + bytes.1 as f64 / FAR_BYTES_A_NS;
                        let wait = (waited / length).min(1.0);
                        let wait = (wait * 100.0).round() / 100.0;
                        spans.push(json!([begin - first, event.time_ns - first, who.index, wait]));
                    }
                    _ => {}
                }
            }
            json!({ "seat": number, "pu": seat.pu.index(), "node": seat.node.index(), "spans": spans })
        })
        .collect();
    json!({ "spanNs": last - first, "boxes": boxes, "seats": seats, "cut": cut })
}
