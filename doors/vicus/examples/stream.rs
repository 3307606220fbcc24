//! A stream without end: windows of a second over values of a few sensors, some of which come late, beside a reader
//! that only wants the newest ones. The memory of the process stays as it is, however many envelopes there are.
//!
//! `cargo run --release -p vicus --example stream -- 10000000` (envelopes)

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vicus::library::{self, Grouping, HashKey, Windowing};
use vicus::{Bound, Envelope, Model, ModelBuilder, Runtime, Schema, TimeUnit, Type};

/// So many rows are in an envelope.
const ROWS: u64 = 4;
/// Milliseconds from one row to the next.
const STEP: u64 = 10;

/// Counts of a run.
#[derive(Debug, Default)]
struct Seen {
    windows: AtomicU64,
    rows: AtomicU64,
    late: AtomicU64,
    newest: AtomicU64,
    /// Resident bytes at most, beyond those when a tenth of the envelopes had come.
    grown: AtomicU64,
}

/// The value's time in milliseconds: each hundredth is 20 seconds late.
fn time(row: u64) -> i64 {
    (row * STEP) as i64 - if row % 100 == 99 { 20_000 } else { 0 }
}

fn network(envelopes: u64, seen: &Arc<Seen>) -> Result<Arc<Model>, Box<dyn std::error::Error>> {
    let at = Type::Timestamp(TimeUnit::Milli, None);
    let schema = Schema::new([("at", at.clone()), ("sensor", Type::U32), ("value", Type::I64)]);
    let of_sensor = Grouping::by(&schema, [1]).count("rows").sum("sum", 2).greatest("most", 2);
    let windowing = Windowing::of_time(of_sensor, 0, 1000, 1000)?;
    let mut net = ModelBuilder::new("sensors");
    let values = net.source(library::source("values", &schema, move || {
        let at = at.clone();
        (0..envelopes).map(move |envelope| {
            let rows = ROWS * envelope..ROWS * (envelope + 1);
            let times: Vec<i64> = rows.clone().map(time).collect();
            let sensors: Vec<u32> = rows.clone().map(|row| row as u32 % 8).collect();
            let values: Vec<i64> = rows.map(|row| row as i64 % 1000).collect();
            let times = vicus::Column::from(times).of_type(at.clone());
            Envelope::new([times, sensors.into(), values.into()])
        })
    }));
    let marked = net.add(library::watermarks(&schema, 0, 5000, 1000)?);
    let windows = net.add(library::window(&windowing, HashKey::default(), 1000));
    let counted = Arc::clone(seen);
    let end = net.add(library::sink("windows", &windowing.schema(), move |sums| {
        counted.windows.fetch_add(sums.rows() as u64, Ordering::Relaxed);
        counted.rows.fetch_add(sums.column(3).u64s().iter().sum(), Ordering::Relaxed);
        Ok(())
    }));
    let counted = Arc::clone(seen);
    let late = net.add(library::sink("late", &schema, move |rows| {
        counted.late.fetch_add(rows.rows() as u64, Ordering::Relaxed);
        Ok(())
    }));
    let counted = Arc::clone(seen);
    let newest = net.add(library::sink("newest", &schema, move |rows| {
        counted.newest.fetch_max(rows.column(0).i64s()[0] as u64, Ordering::Relaxed);
        Ok(())
    }));
    net.connect(values.output(0), marked.input(0));
    net.connect(marked.output(0), windows.input(0));
    net.connect(windows.output(0), end.input(0));
    net.connect(windows.output(1), late.input(0));
    net.connect(values.output(0), newest.input(0)).bound(Bound { envelopes: 1, ..Bound::default() }).keep_newest();
    [end, late, newest].into_iter().for_each(|end| net.end(end.output(0)));
    Ok(net.build()?)
}

/// The process's resident bytes; 0 where the system does not tell.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4096
}

fn run(envelopes: u64) -> Result<Arc<Seen>, Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().record_last(10_000).start();
    let seen = Arc::new(Seen::default());
    let model = network(envelopes, &seen)?;
    let request = runtime.submit(&model);
    let (mut first, mut most) = (0, 0);
    // Measured behind its tenth part, when all that is kept for a while has come.
    while request.wait_for(std::time::Duration::from_millis(20)).is_none() {
        if request.counts()[1].outputs[0].envelopes > envelopes / 10 {
            let now = resident();
            (first, most) = (if first == 0 { now } else { first }, most.max(now));
        }
    }
    request.wait()?;
    println!("resident: {} KiB at a tenth, {} KiB at most later", first / 1024, most / 1024);
    seen.grown.store(most - first, Ordering::Relaxed);
    Ok(seen)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let envelopes = std::env::args().nth(1).map_or(Ok(1_000_000), |count| count.parse())?;
    let began = std::time::Instant::now();
    let seen = run(envelopes)?;
    let seconds = began.elapsed().as_secs_f64();
    println!("{envelopes} envelopes in {seconds:.1} s, {:.0} ns each: {seen:?}", seconds * 1e9 / envelopes as f64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_in_a_window_or_late() {
        let envelopes = if cfg!(debug_assertions) { 20_000 } else { 200_000 };
        let seen = run(envelopes).unwrap();
        let rows = ROWS * envelopes;
        // A row that is 20 s late is behind its window, 5 s after the latest one, but for those of the first seconds.
        let late = (0..rows).filter(|row| row % 100 == 99 && row * STEP >= 26_000).count() as u64;
        let [in_windows, of_late] = [&seen.rows, &seen.late].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(in_windows + of_late, rows, "{seen:?}");
        assert!(of_late.abs_diff(late) <= 200, "{seen:?}: {late} rows are late");
        // A hundred bytes that each envelope left behind would be twice as much.
        assert!(seen.grown.load(Ordering::Relaxed) < 10 << 20, "{seen:?}");
        assert_eq!(seen.newest.load(Ordering::Relaxed), time(rows - ROWS) as u64, "the newest one comes");
    }
}
