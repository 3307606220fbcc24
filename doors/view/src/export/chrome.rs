//! The JSON of Chrome's trace viewer, which Perfetto and speedscope read as well.

use super::Export;
use crate::RecordedRun;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Writes a run as JSON in the form of Chrome's trace viewer: slices by process, node and seat, and an arrow for each
/// job that a seat took from another.
///
/// ```
/// use vicus_trace::{Header, JobId, EventLog, Trace, What};
/// use vicus_view::{RecordedRun, chrome_json};
///
/// let who = JobId::task(1, 0);
/// let mut log = EventLog::new(10);
/// log.record(1000, What::UserCodeBegins { who });
/// log.record(3500, What::UserCodeEnds { who });
/// let run = RecordedRun::new("one task", Trace::new(Header::for_seats(1), vec![log.finish()]));
/// let mut out = Vec::new();
/// chrome_json(&run, &mut out)?;
/// let text = String::from_utf8_lossy(&out);
/// assert!(text.contains(r#""ph":"X""#) && text.contains(r#""dur":2.5"#));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The writer failed.
pub fn chrome_json(run: &RecordedRun, out: &mut impl Write) -> io::Result<()> {
    let told = Export::new(&run.trace);
    let us = |ns: u64| ns.saturating_sub(told.span.first_ns) as f64 / 1000.0;
    let pid = |seat: usize| told.node_of(seat) + 1;
    let mut lines = Lines { out, is_first: true };
    lines.out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    for (node, name) in told.nodes().enumerate() {
        lines.put(&json!({ "ph": "M", "name": "process_name", "pid": node + 1, "args": { "name": name } }))?;
    }
    for (seat, name) in told.seats() {
        let args = json!({ "name": name });
        lines.put(&json!({ "ph": "M", "name": "thread_name", "pid": pid(seat), "tid": seat, "args": args }))?;
    }
    for (seat, _) in told.seats() {
        let mut failed = Ok(());
        told.slices(seat, |slice| {
            let mut args = json!({});
            if let Some((who, _)) = slice.who {
                args["request"] = who.request.into();
            }
            if slice.near_bytes + slice.far_bytes > 0 {
                (args["near bytes"], args["far bytes"]) = (slice.near_bytes.into(), slice.far_bytes.into());
            }
            let line = json!({
                "ph": "X",
                "name": told.name(slice),
                "cat": slice.who.map_or("rest", |(_, key)| &told.keys.all[key as usize].type_name),
                "pid": pid(seat),
                "tid": seat,
                "ts": us(slice.begin_ns),
                "dur": (slice.end_ns - slice.begin_ns) as f64 / 1000.0,
                "args": args,
            });
            if failed.is_ok() {
                failed = lines.put(&line);
            }
        });
        failed?;
    }
    for take in told.takes() {
        let end = |phase: &str, seat: usize, ns: u64| {
            json!({
                "ph": phase, "bp": "e", "name": "taken", "cat": "takes", "id": take.id, "pid": pid(seat), "tid": seat,
                "ts": us(ns),
            })
        };
        lines.put(&end("s", take.from_seat, take.queued_ns))?;
        lines.put(&end("f", take.to_seat, take.taken_ns))?;
    }
    lines.out.write_all(b"\n]}\n")
}

struct Lines<'a, W> {
    out: &'a mut W,
    is_first: bool,
}

impl<W: Write> Lines<'_, W> {
    fn put(&mut self, line: &Value) -> io::Result<()> {
        let before = if std::mem::take(&mut self.is_first) { "\n" } else { ",\n" };
        write!(self.out, "{before}{line}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::tests::of_two_processes;

    #[test]
    fn nodes_of_two_processes_are_two() {
        let mut out = Vec::new();
        chrome_json(&RecordedRun::new("two", of_two_processes()), &mut out).unwrap();
        let events: Value = serde_json::from_slice(&out).unwrap();
        let of = |name: &str| -> Vec<(u64, String)> {
            let events = events["traceEvents"].as_array().unwrap().iter();
            let named = events.filter(|event| event["ph"] == "M" && event["name"] == name);
            named
                .map(|event| (event["pid"].as_u64().unwrap(), event["args"]["name"].as_str().unwrap().into()))
                .collect()
        };
        assert_eq!(of("process_name"), [(1, "here, node 0".into()), (2, "there, node 0".into())]);
        assert_eq!(of("thread_name"), [(1, "seat 0, PU 0".into()), (2, "seat 1, PU 0".into())]);
    }
}
