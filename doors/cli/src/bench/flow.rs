//! The cost of boxes and vias, and how a pipeline scales.
//!
//! Bobox report 2011/1, §6.3: the pipeline of core/kernels on 1 to 32 threads. The speed-up in the report's Table 3
//! collapses at 16 threads (1.43) and 32 (0.78) on four cores. The speed-up here is compared with that of a plain loop
//! over the same kernel on as many threads, alternating in the same run.

use super::measure::{self, Outcome, milliseconds, quartiles};
use super::spin::{calibrate, spin};
use crate::engine;
use crate::messages::tell;
use std::hint::black_box;
use std::sync::Arc;
use vicus::{BoxError, BoxModel, Column, Envelope, EnvelopeBuilder, Model, Operator, Runtime, Setting, Turn, library};
use vicus_kernels::Pipeline;
use vicus_testing::median;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Threads to try.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32", value_parser = measure::threads)]
    threads: Vec<usize>,
    /// How long an invocation of a computing box takes, in microseconds.
    #[arg(long, default_value_t = 5000)]
    work_us: u64,
    /// The number of envelopes through the pipeline.
    #[arg(long, default_value_t = 256, value_parser = measure::count)]
    envelopes: usize,
    /// How often each is run; the medians count.
    #[arg(long, default_value_t = 5, value_parser = measure::count)]
    repeats: usize,
    /// The strategy, with its parameters; by default the one of VICUS_STRATEGY, else las.
    #[arg(long)]
    strategy: Option<Setting>,
    /// Measures the cost of an invocation only.
    #[arg(long)]
    only_overhead: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Outcome>> {
    let strategy = crate::strategy::one(args.strategy.as_ref())?;
    args.threads.iter().try_for_each(|&threads| engine::check_threads(Some(threads)))?;
    let mut results = overhead(args, &strategy)?;
    if !args.only_overhead {
        results.extend(pipeline(args, &strategy)?);
    }
    Ok(results)
}

/// Makes four columns of `rows` rows for each envelope.
fn fresh_columns(rows: usize) -> impl Operator {
    let mut builder = EnvelopeBuilder::of_u64s(4);
    move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        if envelope.is_pill() {
            turn.send_pill(0);
            return Ok(());
        }
        builder.reserve(turn, rows);
        (0..4).for_each(|column| builder.u64s(column).repeat(column as u64 + 1, rows));
        let made = builder.finish(turn);
        turn.send(0, made);
        Ok(())
    }
}

/// Empty boxes, on one thread: nanoseconds for an invocation.
fn overhead(args: &Args, strategy: &Setting) -> anyhow::Result<Vec<Outcome>> {
    const ENVELOPES: usize = 20_000;
    let network = Pipeline { envelopes: ENVELOPES, ..Pipeline::default() };
    let (boxes, rows) = (network.boxes, network.rows);
    let columns: Vec<Column> = (0..4).map(|_| Column::from(vec![1u64; rows])).collect();
    let envelope = Envelope::new(columns);
    let schema = Pipeline::schema(4);
    let pass = network.of(&envelope, || library::map("pass", &schema, &schema, Some));
    let fresh =
        network.of(&envelope, || BoxModel::new("fresh", move || fresh_columns(rows)).input(&schema).output(&schema));
    let runtime = engine::start(Runtime::builder().strategy(strategy.clone()).quiet(), Some(1))?;
    let per_act = |model: &Arc<Model>| -> anyhow::Result<f64> {
        let (ms, totals) = milliseconds(|| runtime.submit(model).wait());
        Ok(ms * 1e6 / totals?.acts as f64)
    };
    let mut blocks: Vec<Vec<u64>> = (0..4).map(|_| vec![0; rows]).collect();
    let (mut passing, mut making, mut writing) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.repeats.max(5) {
        passing.push(per_act(&pass)?);
        making.push(per_act(&fresh)?);
        // The time to write four columns, to be subtracted.
        let (ms, ()) = milliseconds(|| {
            for round in 0..ENVELOPES {
                for (n, block) in blocks.iter_mut().enumerate() {
                    block.fill((round + n) as u64);
                    black_box(&mut *block);
                }
            }
        });
        writing.push(ms * 1e6 / ENVELOPES as f64);
    }
    // An envelope takes 12 invocations (source, ten boxes, sink) and a share of the pills'; ten of them write.
    let share = boxes as f64 / (boxes + 2) as f64;
    let (pass_ns, fresh_ns) = (median(&passing), median(&making) - share * median(&writing));
    say_line!("an invocation that passes the envelope on        {pass_ns:8.0} ns   (goal: at most 150)");
    say_line!(
        "an invocation with four fresh columns of 32 KiB  {fresh_ns:8.0} ns   (goal: at most 500; writing them takes \
            {:.0} ns more)",
        median(&writing)
    );
    Ok(vec![
        Outcome::new("invocation, envelope passed on", "ns", pass_ns, "goal", 150.0),
        Outcome::new("invocation, four fresh columns", "ns", fresh_ns, "goal", 500.0),
    ])
}

fn pipeline(args: &Args, strategy: &Setting) -> anyhow::Result<Vec<Outcome>> {
    let rounds = calibrate(args.work_us);
    let network = Pipeline { envelopes: args.envelopes, ..Pipeline::default() };
    let (boxes, rows, model) = (network.boxes, network.rows, network.computing(rounds));
    say_line!(
        "\n{} envelopes of {rows} rows through {boxes} boxes of {} us, strategy {}, medians of {}",
        args.envelopes,
        args.work_us,
        strategy,
        args.repeats
    );
    // A tenth of the pipeline's work suffices for the loop.
    let calls = (args.envelopes * boxes / 10).max(args.threads.iter().copied().max().unwrap_or(1));
    let mut ours = vec![Vec::new(); args.threads.len()];
    let mut loops = vec![Vec::new(); args.threads.len()];
    for repeat in 0..args.repeats {
        for (index, &threads) in args.threads.iter().enumerate() {
            loops[index].push(spin(threads, calls, rounds));
            let runtime = engine::start(Runtime::builder().strategy(strategy.clone()).quiet(), Some(threads))?;
            let (ms, totals) = milliseconds(|| runtime.submit(&model).wait());
            totals?;
            ours[index].push(ms);
            tell(format_args!("  repeat {} of {}, {threads} threads: {ms:.0} ms", repeat + 1, args.repeats));
        }
    }
    say_line!("threads    ms (quartiles)           speed-up   a loop's   of the loop's");
    let mut results = Vec::new();
    for (index, &threads) in args.threads.iter().enumerate() {
        let (low, high) = quartiles(&ours[index]);
        let (ms, own) = (median(&ours[index]), median(&ours[0]) / median(&ours[index]));
        let theirs = median(&loops[0]) / median(&loops[index]);
        say_line!("{threads:7} {ms:9.0} ({low:.0} to {high:.0})   {own:14.2} {theirs:10.2} {:14.3}", own / theirs);
        let loop_ms = median(&ours[0]) / theirs;
        results.push(Outcome::new(format!("pipeline, {threads} threads"), "ms", ms, "spin loop's speed-up", loop_ms));
    }
    Ok(results)
}
