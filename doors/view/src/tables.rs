//! The figures of a run as plain tables: they are there without a script, for a screen reader or a text browser.

use crate::activity::State;
use crate::drawing;
use crate::figures::RunFigures;
use crate::floor::{self, Places};
use crate::html::{Escaped, Ms, Table};
use crate::plan;
use crate::pyramid::COARSEST;
use std::fmt::Write;
use vicus_topology::Topology;
use vicus_trace::{BoxSummary, Earlier};

/// More rows of requests or vias are left out, and counted.
const MOST_ROWS: usize = 200;
/// The parts of the curve and the rows of the table about the time before the first event.
const EARLIER_PARTS: usize = 256;
const EARLIER_ROWS: usize = 16;
/// A matrix with more rows could not be read.
const MOST_SEATS: usize = 64;
/// More networks are left out, and counted.
const MOST_NETWORKS: usize = 12;

fn percent(part: u64, of: u64) -> String {
    if of == 0 { "–".to_owned() } else { format!("{:.1} %", part as f64 / of as f64 * 100.0) }
}

/// A number of things, as words.
pub(crate) fn of(count: u64, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

/// The head of a run: how it came about, and what is wrong with its recording.
pub(crate) fn head(made: &RunFigures<'_>, out: &mut String) {
    let header = made.trace.header();
    let summary = &made.summary;
    let mut badge = |class: &str, text: &str| {
        _ = write!(out, "<li class=\"{class}\">{}</li>", Escaped(text));
    };
    match (made.violations.len(), made.run.faults.is_empty()) {
        (0, true) if summary.lost == 0 => badge("good", "every event is allowed where it stands"),
        (0, _) => badge("warn", "what could be checked is allowed where it stands"),
        (count, _) => badge("bad", &of(count as u64, "impossible event")),
    }
    made.run.faults.iter().for_each(|fault| badge("bad", fault));
    let side = match (header.rolls, header.earlier.is_empty()) {
        (true, false) => "before the first one are here as sums alone",
        (true, true) => "before the first one were dropped",
        (false, _) => "did not fit: every figure is too low",
    };
    if summary.lost > 0 {
        badge("warn", &format!("{} {side}", of(summary.lost, "event")));
    }
    match made.found.early {
        (0, _) => {}
        (count, most) => badge(
            "warn",
            &format!("clocks differ: {} earlier than their cause, by up to {} ms", of(count, "event"), Ms(most)),
        ),
    }
    out.push_str("</ul><dl class=\"facts\">");
    let mut fact = |what: &str, value: &str| {
        if !value.is_empty() {
            _ = write!(out, "<div><dt>{what}</dt><dd>{}</dd></div>", Escaped(value));
        }
    };
    fact("length", &format!("{} ms", Ms(summary.span_ns)));
    fact("events", &summary.events.to_string());
    fact("requests", &summary.requests.to_string());
    fact("strategy", &header.strategy);
    fact("machine", &header.machine);
    fact("command", &header.command);
    fact("recorded by", &header.version);
    fact("started", &header.started);
    if header.last_ns > 0 {
        fact("kept", &format!("the last {} ms, and sums of the time before", Ms(header.last_ns)));
    }
    fact("clock", &header.clock);
    fact("memory", &made.rates_note());
    out.push_str("</dl>");
    if !made.violations.is_empty() {
        out.push_str("<details class=\"violations\"><summary>impossible events</summary><ul>");
        for violation in made.violations.iter().take(MOST_ROWS) {
            _ = write!(out, "<li>{}</li>", Escaped(violation));
        }
        if let Some(more) = made.violations.len().checked_sub(MOST_ROWS).filter(|more| *more > 0) {
            _ = write!(out, "<li>and {more} more: `vicus trace check` names them</li>");
        }
        out.push_str("</ul></details>");
    }
}

/// All tables and pictures of a run.
pub(crate) fn body(made: &RunFigures<'_>, out: &mut String) {
    why(made, out);
    earlier(made, out);
    made.operators.write(made.trace, &made.keys, |name| made.id(name), out);
    boxes(made, out);
    seats(made, out);
    vias(made, out);
    takes(made, out);
    requests(made, out);
    pictures(made, out);
}

fn section(out: &mut String, id: &str, title: &str, note: &str) {
    _ = write!(out, "<section id=\"{id}\"><h2>{title}</h2>");
    if !note.is_empty() {
        _ = write!(out, "<p class=\"note\">{}</p>", Escaped(note));
    }
}

fn why(made: &RunFigures<'_>, out: &mut String) {
    let (summary, chain) = (&made.summary, &made.found.chain);
    section(out, &made.id("why"), "Why it took so long", "");
    let busy = summary.seats.iter().fold(0_u64, |sum, seat| sum.saturating_add(seat.busy_ns));
    let ratio = |ns: u64| if ns == 0 { "–".to_owned() } else { format!("{:.2}", busy as f64 / ns as f64) };
    let mut figure = |name: &str, value: &str, note: &str| {
        _ = write!(out, "<div class=\"figure\"><b>{value}</b><span>{name}</span><small>{note}</small></div>");
    };
    figure("length", &format!("{} ms", Ms(summary.span_ns)), "from the first event to the last");
    figure("work", &format!("{} ms", Ms(busy)), "user code of all cores together");
    figure("cores busy", &ratio(summary.span_ns), "work by length");
    figure("longest chain", &format!("{} ms", Ms(chain.ns)), "with any number of cores it takes at least as long");
    figure("parallelism", &ratio(chain.ns), "work by longest chain: more cores than these have nothing to do");
    over_time(made, out);
    let (types, _) = made.keys.types();
    let rows: Vec<(String, Vec<String>)> = chain
        .without
        .iter()
        .map(|&(asked, ns)| {
            let on: u64 = made.of_type(asked, &chain.of_keys);
            let (saved, busy) = (chain.ns.saturating_sub(ns), made.of_type(asked, &made.busy_ns));
            let cells = vec![
                types[asked].to_owned(),
                Ms(busy).to_string(),
                Ms(on).to_string(),
                percent(on, chain.ns),
                Ms(ns).to_string(),
                percent(saved, chain.ns),
            ];
            (format!(" data-type=\"{asked}\""), cells)
        })
        .filter(|(_, cells)| cells[1] != "0.000")
        .collect();
    let table = Table {
        id: made.id("chain"),
        caption: "The longest chain, and what would be left of it if a type of box took no time",
        columns: &["type", "work ms", "on the chain ms", "share", "chain without it ms", "shorter by"],
        texts: 1,
    };
    table.write(out, &rows);
    out.push_str("</section>\n");
}

/// How many seats ran user code, and how many jobs lay in queues, over time.
fn over_time(made: &RunFigures<'_>, out: &mut String) {
    let part = (made.summary.span_ns as f64 / COARSEST as f64).max(1.0);
    let mut busy = vec![0.0_f64; COARSEST];
    for of_key in made.of_keys.iter().filter(|of_key| !of_key.is_empty()) {
        busy.iter_mut().zip(of_key).for_each(|(sum, ns)| *sum += f64::from(*ns) / part);
    }
    let queued: Vec<f64> = made.found.queued.iter().map(|queued| (*queued).max(0) as f64).collect();
    curve(&busy, "cores busy over time", "busy", out);
    curve(&queued, "jobs in queues over time", "queued", out);
}

/// A curve over equal parts of the time.
fn curve(values: &[f64], name: &str, class: &str, out: &mut String) {
    let most = values.iter().copied().fold(0.0, f64::max);
    let top = if most > 0.0 { most } else { 1.0 };
    let mut path = String::from("M0 60");
    for (at, value) in values.iter().enumerate() {
        _ = write!(path, "L{at} {:.1}", 60.0 - value / top * 58.0);
    }
    let parts = values.len();
    _ = write!(path, "L{} 60Z", parts - 1);
    _ = write!(
        out,
        "<figure class=\"over {class}\"><figcaption>{name}, at most {}</figcaption><svg viewBox=\"0 0 {parts} 60\" \
         preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{name}\"><path d=\"{path}\"/></svg></figure>",
        if (most - most.round()).abs() < 0.05 { format!("{most:.0}") } else { format!("{most:.1}") },
    );
}

/// The time before the first event of a rolling trace, of which only sums are left.
fn earlier(made: &RunFigures<'_>, out: &mut String) {
    let seats = &made.trace.header().earlier;
    let parts = || seats.iter().flatten();
    let Some(begin_ns) = parts().map(|part| part.from_ns).min().filter(|begin_ns| *begin_ns < made.first_ns) else {
        return;
    };
    let note = match made.trace.header().last_ns {
        0 => "The trace keeps the last events of each thread; of the time before them it has sums.",
        _ => "The trace keeps a span of time before its end; of the time before that it has sums.",
    };
    section(out, &made.id("earlier"), "Before the first event", note);
    let length = (made.first_ns - begin_ns) as f64;
    // A part may reach into the time that the events have.
    let spread = |rows: usize, of: fn(&Earlier) -> u64| {
        let mut sums = vec![0.0_f64; rows];
        for part in parts() {
            let from = part.from_ns.saturating_sub(begin_ns) as f64;
            let to = (from + part.ns.max(1) as f64).min(length).max(from + 1.0);
            let width = length / rows as f64;
            let (first, last) = ((from / width) as usize, (to / width).ceil() as usize);
            for (at, sum) in sums.iter_mut().enumerate().take(last.min(rows)).skip(first) {
                let inside = to.min((at + 1) as f64 * width) - from.max(at as f64 * width);
                *sum += of(part) as f64 * (inside / (to - from)).max(0.0);
            }
        }
        sums
    };
    let curve_width = length / EARLIER_PARTS as f64;
    let busy: Vec<f64> = spread(EARLIER_PARTS, |part| part.busy_ns).iter().map(|ns| ns / curve_width).collect();
    curve(&busy, "cores busy over the earlier time", "earlier", out);
    let width = length / EARLIER_ROWS as f64;
    let [events, invocations, busy, asleep] = [
        (|part: &Earlier| part.events) as fn(&Earlier) -> u64,
        |part| part.invocations,
        |part| part.busy_ns,
        |part| part.asleep_ns,
    ]
    .map(|of| spread(EARLIER_ROWS, of));
    let rows: Vec<(String, Vec<String>)> = (0..EARLIER_ROWS)
        .map(|at| {
            let before = length - at as f64 * width;
            let cells = vec![
                format!("{} ms before", Ms(before as u64)),
                Ms(width as u64).to_string(),
                format!("{:.2}", busy[at] / width),
                format!("{:.2}", asleep[at] / width),
                format!("{:.0}", invocations[at]),
                format!("{:.0}", events[at]),
            ];
            (String::new(), cells)
        })
        .collect();
    let table = Table {
        id: made.id("earlier-parts"),
        caption: "The time before the first event, in equal parts",
        columns: &["from", "length ms", "cores busy", "cores asleep", "invocations", "events"],
        texts: 1,
    };
    table.write(out, &rows);
    out.push_str("</section>\n");
}

fn boxes(made: &RunFigures<'_>, out: &mut String) {
    section(out, &made.id("by-box"), "By box", "");
    let (types, type_of) = made.keys.types();
    let mut waits_ns = vec![[0_u64; WAITS.len()]; types.len()];
    for (of_type, own) in type_of.iter().zip(&made.waits_ns) {
        waits_ns[*of_type].iter_mut().zip(own).for_each(|(sum, ns)| *sum = sum.saturating_add(*ns));
    }
    let rows: Vec<(String, Vec<String>)> = made
        .summary
        .boxes
        .iter()
        .map(|row| {
            let number = types.iter().position(|name| *name == row.type_name);
            let attribute = number.map_or(String::new(), |number| format!(" data-type=\"{number}\""));
            let waits = number.map_or_else(Default::default, |number| waits_ns[number]);
            (attribute, cells(row, waits))
        })
        .collect();
    let table =
        Table { id: made.id("boxes"), caption: "The time and the rows of each type of box", columns: &BOXES, texts: 1 };
    table.write(out, &rows);
    out.push_str("</section>\n");
}

/// The columns by box, as `vicus trace summary` has them, and the waits of tasks for others.
const BOXES: [&str; 17] = [
    "type",
    "boxes",
    "invocations",
    "spawned",
    "queued ms",
    "busy ms",
    "blocked ms",
    "envelopes in",
    "rows in",
    "envelopes out",
    "rows out",
    "bytes made",
    "near bytes",
    "far bytes",
    WAITS[0],
    WAITS[1],
    WAITS[2],
];

/// The waits of tasks for others, in the order of [`State::WAITS`](crate::activity::State::WAITS).
const WAITS: [&str; 3] = ["waits for its tasks ms", "waits for a group ms", "at barriers ms"];

fn cells(row: &BoxSummary, waits_ns: [u64; 3]) -> Vec<String> {
    let counts = [row.boxes, row.invocations, row.spawned].map(|count| count.to_string());
    let times = [row.queued_ns, row.busy_ns, row.blocked_ns].map(|ns| Ms(ns).to_string());
    let passed = [row.envelopes_in, row.rows_in, row.envelopes_out, row.rows_out];
    let passed = passed.into_iter().chain([row.bytes_created, row.near_bytes, row.far_bytes]);
    [row.type_name.clone()]
        .into_iter()
        .chain(counts)
        .chain(times)
        .chain(passed.map(|count| count.to_string()))
        .chain(waits_ns.map(|ns| Ms(ns).to_string()))
        .collect()
}

fn seats(made: &RunFigures<'_>, out: &mut String) {
    section(out, &made.id("by-core"), "By core", "");
    let header = made.trace.header();
    let row = |seat: &vicus_trace::SeatSummary| {
        let info = header.seats[seat.seat];
        let near: u64 = seat.takes.iter().map(|takes| takes.near).sum();
        let far: u64 = seat.takes.iter().map(|takes| takes.far).sum();
        let rules: Vec<String> =
            seat.takes.iter().map(|takes| format!("{}: {}", takes.rule, takes.near + takes.far)).collect();
        let name = if seat.is_callers { "callers".to_owned() } else { format!("seat {}", seat.seat) };
        let times = [seat.busy_ns, seat.overhead_ns, seat.idle_ns].map(|ns| Ms(ns).to_string());
        let [busy, overhead, idle] = times;
        let cells = vec![
            name,
            rules.join(", "),
            info.pu.index().to_string(),
            info.node.index().to_string(),
            seat.invocations.to_string(),
            busy,
            overhead,
            idle,
            near.to_string(),
            far.to_string(),
            seat.events.to_string(),
            seat.lost.to_string(),
        ];
        let of_states = &made.of_states[seat.seat];
        let idle = IDLE.map(|(_, state)| Ms(of_states[state as usize]).to_string());
        let cells = cells.into_iter().chain(idle).collect();
        (format!(" data-seat=\"{}\"", seat.seat), cells)
    };
    let rows: Vec<(String, Vec<String>)> = made.summary.seats.iter().map(row).collect();
    let mut columns = vec![
        "seat",
        "takes by rule",
        "PU",
        "node",
        "invocations",
        "busy ms",
        "overhead ms",
        "idle ms",
        "near takes",
        "far takes",
        "events",
        "lost",
    ];
    columns.extend(IDLE.map(|(name, _)| name));
    let table = Table {
        id: made.id("seats"),
        caption: "The time of each seat, and the tasks that it took, by rule of the plan and by distance; the last \
                  columns say what idle time is",
        columns: &columns,
        texts: 2,
    };
    table.write(out, &rows);
    out.push_str("</section>\n");
}

/// The parts of idle time.
const IDLE: [(&str, State); 5] = [
    (WAITS[0], State::WAITS[0]),
    (WAITS[1], State::WAITS[1]),
    (WAITS[2], State::WAITS[2]),
    ("asleep ms", State::Asleep),
    ("waits to be lent ms", State::Away),
];

fn vias(made: &RunFigures<'_>, out: &mut String) {
    let mut used: Vec<(usize, &crate::pass::Via)> = made.found.vias.iter().enumerate().collect();
    if used.is_empty() {
        return;
    }
    used.retain(|(_, via)| via.envelopes > 0 || via.refused > 0);
    used.sort_by_key(|(number, via)| (std::cmp::Reverse((via.blocked_ns, via.rows)), *number));
    let left_out = used.len().saturating_sub(MOST_ROWS);
    let note = if left_out > 0 { format!("{left_out} vias with fewer rows are left out") } else { String::new() };
    section(out, &made.id("by-via"), "By via", &note);
    let models = &made.trace.header().models;
    let row = |&(number, via): &(usize, &crate::pass::Via)| {
        let model = &models[via.model];
        let name = |b: u32| model.boxes.get(b as usize).map_or_else(|| format!("box{b}"), |info| info.name.clone());
        let bound = model.boxes.get(via.to as usize).and_then(|info| info.bounds.get(usize::from(via.input)));
        let mean = via.inside_ns as f64 / made.summary.span_ns.max(1) as f64;
        let cells = vec![
            format!("{}.{} → {}.{}", name(via.from), via.output, name(via.to), via.input),
            via.envelopes.to_string(),
            via.rows.to_string(),
            format!("{mean:.2}"),
            via.most.to_string(),
            bound.map_or("–".to_owned(), |bound| bound.envelopes.to_string()),
            via.refused.to_string(),
            Ms(via.blocked_ns).to_string(),
            via.overdrawn.to_string(),
            via.spilled.to_string(),
        ];
        (format!(" data-via=\"{number}\""), cells)
    };
    let rows: Vec<(String, Vec<String>)> = used.iter().take(MOST_ROWS).map(row).collect();
    let table = Table {
        id: made.id("vias"),
        caption: "What passed through each via, how full it was, and how often it refused",
        columns: &[
            "via",
            "envelopes",
            "rows",
            "inside on average",
            "inside at most",
            "bound",
            "refusals",
            "blocked ms",
            "bound raised",
            "spilled",
        ],
        texts: 1,
    };
    table.write(out, &rows);
    out.push_str("</section>\n");
}

fn takes(made: &RunFigures<'_>, out: &mut String) {
    let takes = &made.found.takes;
    let seats: Vec<usize> = (0..takes.len())
        .filter(|seat| takes[*seat].iter().any(|count| *count > 0) || takes.iter().any(|row| row[*seat] > 0))
        .collect();
    if seats.is_empty() {
        return;
    }
    let all: u64 = takes.iter().flatten().sum();
    let own: u64 = seats.iter().map(|seat| takes[*seat][*seat]).sum();
    let note = format!("Of {} {} were queued by the seat that took them.", of(all, "job"), percent(own, all));
    section(out, &made.id("by-take"), "Who took from whom", &note);
    let (rows, unit) = takers(made, &seats);
    match unit {
        Some("seat") => {}
        Some(unit) => {
            _ = write!(out, "<p class=\"note\">{} seats are too many for a matrix: it is by {unit}.</p>", seats.len());
        }
        None => {
            _ = write!(
                out,
                "<p class=\"note\">{} seats on more than {MOST_SEATS} nodes are too many for a matrix: it is left \
                 out.</p>",
                seats.len()
            );
        }
    }
    if unit.is_some() {
        let names: Vec<String> = rows.iter().map(|(name, _)| format!("from {name}")).collect();
        let columns: Vec<&str> = ["taken by"].into_iter().chain(names.iter().map(String::as_str)).collect();
        let of = |to: &[usize], from: &[usize]| -> u64 {
            to.iter().map(|to| from.iter().map(|from| takes[*to][*from]).sum::<u64>()).sum()
        };
        let cells: Vec<(String, Vec<String>)> = rows
            .iter()
            .map(|(name, own)| {
                let attribute = match &own[..] {
                    [seat] => format!(" data-seat=\"{seat}\""),
                    many => {
                        let many: Vec<String> = many.iter().map(usize::to_string).collect();
                        format!(" data-seats=\"{}\"", many.join(" "))
                    }
                };
                let counts = rows.iter().map(|(_, from)| of(own, from).to_string());
                (attribute, [name.clone()].into_iter().chain(counts).collect())
            })
            .collect();
        let caption = "Rows took what columns had queued";
        Table { id: made.id("takes"), caption, columns: &columns, texts: 1 }.write(out, &cells);
    }
    out.push_str("</section>\n");
}

/// The rows of the matrix of takes, each with its seats: by seat, or where these are too many, by core group or by
/// node.
fn takers(made: &RunFigures<'_>, seats: &[usize]) -> (Vec<(String, Vec<usize>)>, Option<&'static str>) {
    let header = made.trace.header();
    let of = |process: u32| match header.processes.get(process as usize) {
        Some(process) => format!("{process}, "),
        None => String::new(),
    };
    // Callers are on no core.
    let name = |seat: usize, unit: &str| {
        let info = header.seats[seat];
        match unit {
            _ if info.is_callers => "callers".to_owned(),
            "seat" => format!("seat {seat}"),
            "core group" => format!("{}core group {}", of(info.process), info.group.index()),
            _ => format!("{}node {}", of(info.process), info.node.index()),
        }
    };
    for unit in ["seat", "core group", "node"] {
        let mut rows: Vec<(String, Vec<usize>)> = Vec::new();
        for &seat in seats {
            let name = name(seat, unit);
            match rows.iter_mut().find(|(known, _)| *known == name).filter(|_| unit != "seat") {
                Some((_, own)) => own.push(seat),
                None => rows.push((name, vec![seat])),
            }
        }
        if rows.len() <= MOST_SEATS {
            return (rows, Some(unit));
        }
    }
    (Vec::new(), None)
}

fn requests(made: &RunFigures<'_>, out: &mut String) {
    let requests = &made.found.requests;
    if requests.is_empty() {
        return;
    }
    let mut longest: Vec<&crate::pass::RequestSpan> = requests.iter().collect();
    let last_ns = made.first_ns.saturating_add(made.summary.span_ns);
    let length =
        |request: &crate::pass::RequestSpan| request.end_ns.unwrap_or(last_ns).saturating_sub(request.begin_ns);
    longest.sort_by_key(|request| std::cmp::Reverse(length(request)));
    let left_out = longest.len().saturating_sub(MOST_ROWS);
    let note = if left_out > 0 { format!("{left_out} shorter ones are left out") } else { String::new() };
    section(out, &made.id("by-request"), "Requests", &note);
    let row = |request: &&crate::pass::RequestSpan| {
        let model = made.keys.model(request.request).map(|model| made.trace.header().models[model].name.clone());
        let end = match (request.end_ns, request.is_done) {
            (None, _) => "not over",
            (_, true) => "done",
            (_, false) => "failed or cancelled",
        };
        let cells = vec![
            format!("request {}", request.request),
            model.unwrap_or_else(|| "tasks".to_owned()),
            end.to_owned(),
            Ms(request.begin_ns.saturating_sub(made.first_ns)).to_string(),
            Ms(length(request)).to_string(),
        ];
        (format!(" data-request=\"{}\"", request.request), cells)
    };
    let rows: Vec<(String, Vec<String>)> = longest.iter().take(MOST_ROWS).map(row).collect();
    let table = Table {
        id: made.id("requests"),
        caption: "Requests, the longest first",
        columns: &["request", "network", "end", "begins at ms", "length ms"],
        texts: 3,
    };
    table.write(out, &rows);
    out.push_str("</section>\n");
}

fn pictures(made: &RunFigures<'_>, out: &mut String) {
    let header = made.trace.header();
    let mut pictures = Vec::new();
    let (mut unreadable, mut left_out) = (0_u64, 0_u64);
    for (model, info) in header.models.iter().enumerate() {
        let drawn = drawing::network(model, info, &made.found.vias, &made.keys, &made.busy_ns, &made.colours);
        match drawn {
            drawing::Network::Drawn { .. } if pictures.len() == MOST_NETWORKS => left_out += 1,
            drawing::Network::Drawn { picture, by_type } => pictures.push((info, picture, by_type)),
            drawing::Network::TooLarge => unreadable += 1,
            drawing::Network::WithoutVias => {}
        }
    }
    if !pictures.is_empty() || unreadable > 0 {
        section(
            out,
            &made.id("networks"),
            "Networks",
            "Boxes with their time, vias with their rows. Click one to mark it everywhere.",
        );
        for (info, picture, by_type) in pictures {
            let note = match by_type {
                false => String::new(),
                true => format!(
                    "<p class=\"note\">{} boxes are too many to be drawn one by one: each rectangle is a type, each \
                     line all vias between two of them.</p>",
                    info.boxes.len()
                ),
            };
            let name = Escaped(&info.name);
            _ = write!(out, "<h3>{name}</h3>{note}<div class=\"scroll\" tabindex=\"0\">{picture}</div>");
        }
        if left_out > 0 {
            _ = write!(
                out,
                "<p class=\"note\">These are the first {MOST_NETWORKS} networks; {left_out} more are left out.</p>"
            );
        }
        if unreadable > 0 {
            let (networks, most) = (of(unreadable, "network"), drawing::MOST_BOXES);
            _ = write!(
                out,
                "<p class=\"note\">{networks} with more than {most} types of boxes could not be read: left \
                 out.</p>"
            );
        }
        out.push_str("</section>\n");
    }
    let (mut places, mut cores) = (Places::default(), String::new());
    let is_whole = floor::write(header, &made.summary, &mut places, &mut cores);
    let note = match is_whole {
        true => "The whole machine, with the seats of the run. Click a part of it to mark the seats there.",
        false => "The cores that the run used: of the others the recording knows nothing.",
    };
    section(out, &made.id("machine"), "Cores", note);
    out.push_str(&cores);
    if let [machine] = &header.machines[..]
        && is_whole
        && (2..=MOST_SEATS).contains(&machine.nodes.len())
    {
        distances(machine, made.id("distances"), out);
    }
    out.push_str("</section>\n");
    if !header.plan.is_empty() {
        section(out, &made.id("plan"), "Plan", "Where seats put tasks, and in which order they look for them.");
        plan::matrix(header, &made.id("matrix"), &mut places, out);
        out.push_str(&plan::text(&header.plan));
        out.push_str("</section>\n");
    }
}

/// The distances between nodes.
fn distances(machine: &Topology, id: String, out: &mut String) {
    let names: Vec<String> = (0..machine.nodes.len()).map(|node| format!("node {node}")).collect();
    let columns: Vec<&str> = ["from"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let row = |(name, row): (&String, &Vec<u32>)| {
        let cells = [name.clone()].into_iter().chain(row.iter().map(u32::to_string)).collect();
        (String::new(), cells)
    };
    let rows: Vec<(String, Vec<String>)> = names.iter().zip(&machine.distances).map(row).collect();
    Table { id, caption: "Distances between nodes, as the system has them", columns: &columns, texts: 1 }
        .write(out, &rows);
}

/// Two runs side by side, by type of box.
pub(crate) fn differences(one: &RunFigures<'_>, other: &RunFigures<'_>, out: &mut String) {
    section(out, "differences", "Differences by box", "");
    let mut names: Vec<&str> = one.summary.boxes.iter().map(|row| row.type_name.as_str()).collect();
    for row in &other.summary.boxes {
        if !names.contains(&row.type_name.as_str()) {
            names.push(&row.type_name);
        }
    }
    let working = |made: &RunFigures<'_>| made.summary.seats.iter().filter(|seat| seat.busy_ns > 0).count();
    // A run on one thread is the measure of the work that the other one should have.
    let has_measure = working(one) == 1 || working(other) == 1;
    let ratio = |a: u64, b: u64| if a == 0 { "–".to_owned() } else { format!("{:.2}", b as f64 / a as f64) };
    let mut rows: Vec<(i64, Vec<String>)> = names
        .iter()
        .map(|name| {
            let of = |made: &RunFigures<'_>| made.summary.boxes.iter().find(|row| row.type_name == *name).cloned();
            let (a, b) = (of(one).unwrap_or_default(), of(other).unwrap_or_default());
            let change = (b.busy_ns as i64).wrapping_sub(a.busy_ns as i64);
            let signed = format!("{}{}", if change < 0 { "−" } else { "+" }, Ms(change.unsigned_abs()));
            let mut cells = vec![
                name.to_string(),
                Ms(a.busy_ns).to_string(),
                Ms(b.busy_ns).to_string(),
                signed,
                ratio(a.busy_ns, b.busy_ns),
            ];
            if has_measure {
                let (alone, many) = if working(one) == 1 { (&a, &b) } else { (&b, &a) };
                cells.push(ratio(alone.busy_ns, many.busy_ns));
            }
            let counts = [a.invocations, b.invocations, a.rows_in, b.rows_in, a.far_bytes, b.far_bytes];
            cells.extend(counts.map(|count| count.to_string()));
            cells.extend([Ms(a.blocked_ns).to_string(), Ms(b.blocked_ns).to_string()]);
            (change, cells)
        })
        .collect();
    rows.sort_by_key(|(change, _)| std::cmp::Reverse(change.unsigned_abs()));
    let mut columns = vec!["type", "busy ms A", "busy ms B", "B less A", "B by A"];
    if has_measure {
        columns.push("work inflation");
    }
    columns.extend([
        "invocations A",
        "invocations B",
        "rows in A",
        "rows in B",
        "far bytes A",
        "far bytes B",
        "blocked ms A",
        "blocked ms B",
    ]);
    let table = Table {
        id: "differences-boxes".to_owned(),
        caption: "The greatest difference in time first; inflation is by the run on one thread",
        columns: &columns,
        texts: 1,
    };
    let rows: Vec<(String, Vec<String>)> = rows.into_iter().map(|(_, cells)| (String::new(), cells)).collect();
    table.write(out, &rows);
    out.push_str("</section>\n");
}
