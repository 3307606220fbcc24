//! Counts, in the text format of Prometheus.

use crate::shared::Shared;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The subject of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Query,
    Update,
    Graph,
    /// The page and its queries.
    Page,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Query, Kind::Update, Kind::Graph, Kind::Page];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Query => "query",
            Kind::Update => "update",
            Kind::Graph => "graph",
            Kind::Page => "page",
        }
    }
}

/// The upper bounds of a histogram's buckets, in microseconds.
const BUCKETS_US: [u64; 14] = [
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    100_000,
    250_000,
    1_000_000,
    5_000_000,
    25_000_000,
    100_000_000,
];

/// Statuses are counted one by one up to this number.
const STATUSES: [u16; 24] = [
    200, 201, 204, 206, 304, 400, 401, 403, 404, 405, 406, 408, 409, 411, 412, 413, 415, 429, 431, 499, 500, 501, 503,
    0,
];

#[derive(Default)]
pub(crate) struct Metrics {
    statuses: [[AtomicU64; STATUSES.len()]; Kind::ALL.len()],
    times: [Histogram; Kind::ALL.len()],
    pub(crate) rows: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) near_bytes: AtomicU64,
    pub(crate) far_bytes: AtomicU64,
    pub(crate) tasks: AtomicU64,
    /// Tasks taken from a queue on another node.
    pub(crate) far_tasks: AtomicU64,
    pub(crate) connections: AtomicU64,
}

#[derive(Default)]
struct Histogram {
    buckets: [AtomicU64; BUCKETS_US.len()],
    count: AtomicU64,
    sum_us: AtomicU64,
}

impl Histogram {
    fn add(&self, time: Duration) {
        let us = time.as_micros() as u64;
        if let Some(bucket) = BUCKETS_US.iter().position(|bound| us <= *bound) {
            self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }
}

impl Metrics {
    /// A request has ended with this status, 499 if its client had gone.
    pub(crate) fn add(&self, kind: Kind, status: u16, time: Duration) {
        let place = STATUSES.iter().position(|each| *each == status).unwrap_or(STATUSES.len() - 1);
        self.statuses[kind as usize][place].fetch_add(1, Ordering::Relaxed);
        self.times[kind as usize].add(time);
    }
}

/// A label's value in quotes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP vicus_{name} {help}\n# TYPE vicus_{name} {kind}");
}

/// How far the store is, and how far behind another one.
fn copies(shared: &Shared, out: &mut String) {
    let Some(store) = shared.data.store() else { return };
    let (standing, sequence) = (store.standing(), store.numbered_snapshot().1);
    let mut one = |name: &str, help: &str, value: String| {
        head(out, name, "gauge", help);
        let _ = writeln!(out, "vicus_{name} {value}");
    };
    one("sequence", "The number of the last record in the data that readers see.", sequence.to_string());
    one("durable_sequence", "The number of the last durable record.", standing.last.to_string());
    one("epoch", "How many writers the store had after the first one.", standing.epoch().number.to_string());
    one("writes", "1 if this copy of the store takes changes.", u8::from(standing.may_write()).to_string());
    if let Some(behind) = shared.options.following.as_ref().and_then(|following| following.behind()) {
        one("behind_records", "Records of the followed server that are not here yet.", behind.records.to_string());
        let seconds = format!("{:.3}", behind.time.as_secs_f64());
        one("behind_seconds", "For how long records, or answers of the followed server, have been missing.", seconds);
    }
    if let Some(behind) = shared.options.archiving.as_ref().map(|archiving| archiving.behind()) {
        one("archive_behind_records", "Records that are not in the archive yet.", behind.records.to_string());
        let seconds = format!("{:.3}", behind.time.as_secs_f64());
        one("archive_behind_seconds", "For how long records have been missing in the archive.", seconds);
        let fails = u8::from(behind.problem.is_some()).to_string();
        one("archive_fails", "1 if the archive could not be written to the last time.", fails);
    }
}

/// The text of all counts.
pub(crate) fn text(shared: &Shared) -> String {
    let metrics = &shared.metrics;
    let mut out = String::with_capacity(8 << 10);
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    head(
        &mut out,
        "requests_total",
        "counter",
        "Requests that have ended, by kind and status; 499 is a client that went before the end.",
    );
    for kind in Kind::ALL {
        for (place, status) in STATUSES.iter().enumerate() {
            let count = read(&metrics.statuses[kind as usize][place]);
            if count > 0 {
                let status = if *status == 0 { "other".to_owned() } else { status.to_string() };
                let _ = writeln!(out, "vicus_requests_total{{kind=\"{}\",status=\"{status}\"}} {count}", kind.name());
            }
        }
    }
    head(&mut out, "request_seconds", "histogram", "Time from a request's head to the end of its answer.");
    for kind in Kind::ALL {
        let times = &metrics.times[kind as usize];
        let mut sum = 0;
        for (bound, bucket) in BUCKETS_US.iter().zip(&times.buckets) {
            sum += read(bucket);
            let bound = *bound as f64 / 1e6;
            let _ = writeln!(out, "vicus_request_seconds_bucket{{kind=\"{}\",le=\"{bound}\"}} {sum}", kind.name());
        }
        let (count, total) = (read(&times.count), read(&times.sum_us) as f64 / 1e6);
        let name = kind.name();
        let _ = writeln!(out, "vicus_request_seconds_bucket{{kind=\"{name}\",le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "vicus_request_seconds_sum{{kind=\"{name}\"}} {total}");
        let _ = writeln!(out, "vicus_request_seconds_count{{kind=\"{name}\"}} {count}");
    }
    let (plans, plan_bytes) = shared.plans.kept.held();
    let (answers, answer_bytes) = shared.answers.kept.held();
    let [plan_hits, plan_misses] = shared.plans.kept.hits_and_misses();
    let [answer_hits, answer_misses] = shared.answers.kept.hits_and_misses();
    let version = shared.data.now();
    let memory = shared.service.memory();
    let held = version.snapshot.memory();
    let single: [(&str, &str, &str, u64); 23] = [
        ("requests_running", "gauge", "Requests that run.", shared.requests.running() as u64),
        ("requests_waiting", "gauge", "Requests that wait for a thread.", shared.jobs.waiting() as u64),
        ("connections", "gauge", "Connections that are open.", read(&metrics.connections)),
        ("rows_total", "counter", "Rows and triples that were sent.", read(&metrics.rows)),
        ("sent_bytes_total", "counter", "Bytes of answers, as they were sent.", read(&metrics.bytes)),
        (
            "near_bytes_total",
            "counter",
            "Bytes that boxes took on the node where they were sent or lay.",
            read(&metrics.near_bytes),
        ),
        ("far_bytes_total", "counter", "Bytes that boxes took from other nodes.", read(&metrics.far_bytes)),
        ("tasks_total", "counter", "Tasks of queries that were run.", read(&metrics.tasks)),
        (
            "far_tasks_total",
            "counter",
            "Tasks of queries that were taken from another node's queue.",
            read(&metrics.far_tasks),
        ),
        ("plan_cache_hits_total", "counter", "Queries whose plan was kept.", plan_hits),
        ("plan_cache_misses_total", "counter", "Queries that were parsed and planned.", plan_misses),
        ("plan_cache_plans", "gauge", "Plans that are kept.", plans as u64),
        ("plan_cache_bytes", "gauge", "Bytes of plans that are kept.", plan_bytes),
        ("answer_cache_hits_total", "counter", "Queries whose answer was kept.", answer_hits),
        ("answer_cache_misses_total", "counter", "Queries whose answer may be kept and was not.", answer_misses),
        ("answer_cache_answers", "gauge", "Answers that are kept.", answers as u64),
        ("answer_cache_bytes", "gauge", "Bytes of answers that are kept.", answer_bytes),
        (
            "memory_taken_bytes",
            "gauge",
            "Bytes that running requests have taken of the memory for all.",
            memory.taken(),
        ),
        ("memory_most_taken_bytes", "gauge", "The most that they had taken together.", memory.most_taken()),
        ("memory_total_bytes", "gauge", "Bytes that they may take together.", memory.total()),
        ("data_bytes", "gauge", "Bytes of the data's indexes and terms.", held.total() as u64),
        ("quads", "gauge", "Quads in the data.", version.snapshot.len() as u64),
        ("data_version", "gauge", "How often the data has changed since the start, from 1.", version.number),
    ];
    for (name, kind, help, value) in single {
        head(&mut out, name, kind, help);
        let _ = writeln!(out, "vicus_{name} {value}");
    }
    copies(shared, &mut out);
    head(&mut out, "memory_bytes", "gauge", "Bytes of memory, by what holds them.");
    for (holder, bytes) in holders(shared) {
        let _ = writeln!(out, "vicus_memory_bytes{{holder={}}} {bytes}", quoted(&holder));
    }
    let takes = shared.service.runtime().takes();
    if !takes.is_empty() {
        head(&mut out, "takes_total", "counter", "Tasks that seats took, by the rule that found them and by distance.");
        for ((rule, level), count) in takes {
            let level = quoted(&format!("{level:?}").to_lowercase());
            let _ = writeln!(out, "vicus_takes_total{{rule=\"{rule}\",distance={level}}} {count}");
        }
    }
    out
}

/// The holders of memory: the parts of the data; kept plans and answers; texts and plans of running queries; their
/// boxes, by the kind of box; and freed memory not yet back in the system.
fn holders(shared: &Shared) -> BTreeMap<String, u64> {
    let data = shared.data.now().snapshot.memory();
    let indexes: usize = data.indexes.iter().map(|(_, bytes)| bytes).sum();
    let mut all = BTreeMap::from(
        [
            ("indexes", indexes as u64),
            ("terms", (data.dictionary_text + data.dictionary_ends) as u64),
            ("new terms", data.fresh_terms as u64),
            ("statistics", data.statistics as u64),
            ("kept plans", shared.plans.kept.held().1),
            ("kept answers", shared.answers.kept.held().1),
            ("running texts and plans", 0),
            (
                "freed, to be used again",
                shared.service.runtime().memory().map_or(0, |memory| memory.waiting_bytes() as u64),
            ),
        ]
        .map(|(holder, bytes)| (holder.to_owned(), bytes)),
    );
    for (boxes, beside) in shared.requests.all().iter().filter_map(|entry| entry.holders()) {
        *all.entry("running texts and plans".to_owned()).or_default() += beside;
        for (name, bytes) in boxes {
            // Boxes of a kind have numbers behind their names.
            let kind = name.split_once('#').map_or(&*name, |(kind, _)| kind);
            *all.entry(kind.to_owned()).or_default() += bytes;
        }
    }
    all
}
