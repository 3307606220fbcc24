//! The operators of queries with their work: what each has done beside what was expected of it.

use crate::activity::{State, slices};
use crate::html::{Escaped, Ms, Table};
use crate::keys::Keys;
use rustc_hash::FxHashMap;
use std::fmt::Write;
use vicus_trace::{JobId, OperatorInfo, Trace, What};

/// More operators or plans are left out, and counted.
const MOST_OPERATORS: usize = 500;
const MOST_PLANS: usize = 12;

/// The work of a box, in all runs of its model.
#[derive(Clone, Copy, Default)]
pub(crate) struct BoxWork {
    invocations: u64,
    busy_ns: u64,
    near_bytes: u64,
    far_bytes: u64,
}

/// The work of the boxes of models that answer queries.
#[derive(Default)]
pub(crate) struct OperatorWork {
    boxes: FxHashMap<(usize, u32), BoxWork>,
    /// Rows by output.
    rows: FxHashMap<(usize, u32, u16), u64>,
}

impl OperatorWork {
    /// That of one seat's events; nothing if no model has operators.
    pub(crate) fn of_seat(trace: &Trace, seat: usize, keys: &Keys, last_ns: u64) -> OperatorWork {
        let mut work = OperatorWork::default();
        let operators = &trace.header().operators;
        if operators.iter().all(Vec::is_empty) {
            return work;
        }
        let model = |who: JobId| {
            let model = keys.model(who.request).filter(|_| who.is_box())?;
            operators.get(model).filter(|operators| !operators.is_empty()).map(|_| model)
        };
        let events = &trace.logs()[seat].events;
        slices(events, last_ns, keys, |slice| {
            if let (State::Busy, Some((who, _))) = (slice.state, slice.who)
                && let Some(model) = model(who)
            {
                work.boxes.entry((model, who.index)).or_default().busy_ns += slice.end_ns - slice.begin_ns;
            }
        });
        for event in events {
            match event.what {
                What::InvocationBegins { who } => {
                    if let Some(model) = model(who) {
                        work.boxes.entry((model, who.index)).or_default().invocations += 1;
                    }
                }
                What::BytesRead { who, far, bytes } => {
                    if let Some(model) = model(who) {
                        let work = work.boxes.entry((model, who.index)).or_default();
                        *if far { &mut work.far_bytes } else { &mut work.near_bytes } += u64::from(bytes);
                    }
                }
                What::EnvelopeSent { who, output, rows, .. } => {
                    if let Some(model) = model(who) {
                        *work.rows.entry((model, who.index, output)).or_default() += u64::from(rows);
                    }
                }
                _ => {}
            }
        }
        work
    }

    pub(crate) fn add(&mut self, other: OperatorWork) {
        for (key, more) in other.boxes {
            let sum = self.boxes.entry(key).or_default();
            sum.invocations += more.invocations;
            sum.busy_ns = sum.busy_ns.saturating_add(more.busy_ns);
            sum.near_bytes += more.near_bytes;
            sum.far_bytes += more.far_bytes;
        }
        for (key, more) in other.rows {
            *self.rows.entry(key).or_default() += more;
        }
    }

    /// The plans as tables, an operator above its inputs; a click on one marks its boxes.
    pub(crate) fn write(&self, trace: &Trace, keys: &Keys, id: impl Fn(&str) -> String, out: &mut String) {
        let header = trace.header();
        let plans = header.models.iter().zip(&header.operators).enumerate();
        let plans: Vec<_> = plans.filter(|(_, (_, operators))| !operators.is_empty()).collect();
        if plans.is_empty() {
            return;
        }
        _ = write!(
            out,
            "<section id=\"{}\"><h2>Operators</h2><p class=\"note\">The plan of each query: operators above their \
             inputs, with the rows that were expected and those that came.</p>",
            id("operators")
        );
        for &(model, (info, operators)) in plans.iter().take(MOST_PLANS) {
            self.write_plan(model, operators, keys, &id(&format!("operators-{model}")), &info.name, out);
        }
        if let Some(more) = plans.len().checked_sub(MOST_PLANS).filter(|more| *more > 0) {
            _ = write!(out, "<p class=\"note\">{more} more plans are left out</p>");
        }
        out.push_str("</section>\n");
    }

    fn write_plan(
        &self,
        model: usize,
        operators: &[OperatorInfo],
        keys: &Keys,
        id: &str,
        name: &str,
        out: &mut String,
    ) {
        let done = |operator: &OperatorInfo| {
            let mut sum = BoxWork::default();
            for work in operator.boxes.iter().filter_map(|b| self.boxes.get(&(model, *b))) {
                sum.invocations += work.invocations;
                sum.busy_ns = sum.busy_ns.saturating_add(work.busy_ns);
                sum.near_bytes += work.near_bytes;
                sum.far_bytes += work.far_bytes;
            }
            let outputs = operator.outputs.iter();
            let rows = outputs.filter_map(|from| self.rows.get(&(model, from.index, from.output))).sum::<u64>();
            (sum, rows)
        };
        let all_ns = operators.iter().fold(0_u64, |sum, operator| sum.saturating_add(done(operator).0.busy_ns));
        let mut depths: Vec<usize> = Vec::with_capacity(operators.len());
        let mut rows: Vec<(String, Vec<String>)> = Vec::new();
        for (at, operator) in operators.iter().take(MOST_OPERATORS).enumerate() {
            let parent = operator.parent.map(|parent| parent as usize).filter(|parent| *parent < at);
            let depth = parent.map_or(0, |parent| depths[parent] + 1);
            depths.push(depth);
            let mut own: Vec<u32> =
                operator.boxes.iter().filter_map(|b| keys.boxes(model).get(*b as usize).copied()).collect();
            own.sort_unstable();
            own.dedup();
            let own: Vec<String> = own.iter().map(u32::to_string).collect();
            let attribute = if own.is_empty() { String::new() } else { format!(" data-key=\"{}\"", own.join(" ")) };
            let (work, made) = done(operator);
            let share = work.busy_ns as f64 / all_ns.max(1) as f64 * 100.0;
            let by = made as f64 / operator.expected_rows.max(1) as f64;
            let branch = match depth {
                0 => String::new(),
                _ => format!("{}└ ", "\u{a0}".repeat(3 * (depth.min(100) - 1))),
            };
            let cells = vec![
                format!("{branch}{}", operator.name),
                operator.detail.clone(),
                operator.boxes.len().to_string(),
                operator.expected_rows.to_string(),
                made.to_string(),
                format!("{by:.2}"),
                work.invocations.to_string(),
                Ms(work.busy_ns).to_string(),
                format!("{share:.1} %"),
                work.near_bytes.to_string(),
                work.far_bytes.to_string(),
            ];
            rows.push((attribute, cells));
        }
        let left_out = operators.len().saturating_sub(MOST_OPERATORS);
        let more = if left_out > 0 { format!(", {left_out} operators left out") } else { String::new() };
        let caption = format!("The plan of `{}`{more}", Escaped(name));
        let table = Table {
            id: id.to_owned(),
            caption: &caption,
            columns: &[
                "operator",
                "operands",
                "boxes",
                "rows expected",
                "rows",
                "rows by expected",
                "invocations",
                "busy ms",
                "share",
                "near bytes",
                "far bytes",
            ],
            texts: 2,
        };
        table.write(out, &rows);
    }
}
