//! The numbers above the average (Bobox report 2011/1, Fig. 4): one branch needs all numbers first, the other waits.
//!
//! The via to the waiting branch holds the stream: in memory as far as the budget goes, and then in temporary files.
//!
//! `cargo run --release -p vicus --example average -- 100000000 64000000` (numbers, and bytes of memory; 0: any)

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vicus::flow::Overflows;
use vicus::{
    BoxError, BoxModel, Envelope, ModelBuilder, RequestOptions, Runtime, Schema, TemporaryFiles, Turn, Type, library,
};

/// So many numbers are in an envelope.
const PART: u64 = 10_000;

/// Sends the average of its input at the end.
fn average(schema: &Schema) -> BoxModel {
    let average = || {
        let (mut sum, mut count) = (0, 0);
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            match turn.take(0) {
                Some(pill) if pill.is_pill() => {
                    turn.send(0, Envelope::new([vec![sum / count].into()]));
                    turn.send_pill(0);
                }
                Some(envelope) => {
                    sum += envelope.column(0).u64s().iter().sum::<u64>();
                    count += envelope.rows() as u64;
                }
                None => {}
            }
            Ok(())
        }
    };
    BoxModel::new("average", average).input(schema).output(schema)
}

/// Takes the average from its first input, and then counts the greater numbers of its second.
fn above(schema: &Schema, counted: &Arc<AtomicU64>) -> BoxModel {
    let counted = Arc::clone(counted);
    let above = move || {
        let (counted, mut average, mut input) = (Arc::clone(&counted), 0, 0);
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            match turn.take(input) {
                Some(pill) if pill.is_pill() && input == 1 => turn.send_pill(0),
                Some(pill) if pill.is_pill() => {
                    input = 1;
                    turn.run_again();
                }
                Some(envelope) if input == 0 => average = envelope.column(0).u64s()[0],
                Some(envelope) => {
                    let above = envelope.column(0).u64s().iter().filter(|number| **number > average).count();
                    counted.fetch_add(above as u64, Ordering::Relaxed);
                }
                None => {}
            }
            Ok(())
        }
    };
    BoxModel::new("above", above).input(schema).input(schema).output(schema)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let (numbers, memory) = (arguments.next().unwrap_or(Ok(1_000_000))?, arguments.next().unwrap_or(Ok(1 << 20))?);
    let schema = Schema::new([("number", Type::U64)]);
    let counted = Arc::new(AtomicU64::new(0));
    let mut net = ModelBuilder::new("above average");
    let parts = move || {
        let part = |part: u64| (part * PART..(part + 1) * PART).collect::<Vec<u64>>();
        (0..numbers.div_ceil(PART)).map(move |number| Envelope::new([part(number).into()]))
    };
    let source = net.source(library::source("numbers", &schema, parts));
    let average = net.add(average(&schema));
    let above = net.add(above(&schema, &counted));
    net.connect(source.output(0), average.input(0));
    net.connect(average.output(0), above.input(0));
    net.connect(source.output(0), above.input(1));
    net.end(above.output(0));

    let files = TemporaryFiles::within(&std::env::temp_dir(), u64::MAX)?;
    let options = match memory {
        0 => RequestOptions::default(),
        bytes => {
            let overflows: Option<Arc<dyn Overflows>> = Some(files.clone());
            RequestOptions { overflows, ..RequestOptions::from(bytes) }
        }
    };
    let runtime = Runtime::builder().start();
    let began = std::time::Instant::now();
    let request = runtime.submit_within(&net.build()?, Vec::new(), options);
    request.wait()?;
    let time = began.elapsed();
    let lent: u64 = request.counts().iter().flat_map(|counts| &counts.outputs).map(|output| output.overdraft).sum();
    println!("{} numbers are above the average", counted.load(Ordering::Relaxed));
    println!("{time:.1?}, {lent} bytes held in memory beyond bounds, {} bytes written", files.written());
    Ok(())
}
