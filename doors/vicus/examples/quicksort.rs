//! Numbers sorted by a network that divides itself, as the Bobox report's recursive XQuery would (2011/1, §5.1).
//!
//! An expandable box looks at what comes. If these are few numbers, a sort takes its place; otherwise a fragment that
//! divides them by one of them, with such a box for either side. Both sides are sorted at once.
//!
//! `cargo run --release -p vicus --example quicksort -- 1000000 10000` (numbers, and how many are few)

use std::cmp::Ordering;
use std::error::Error;
use std::sync::mpsc;
use vicus::flow::{Arrivals, Expansion, Fragment, FragmentBuilder, GrownBox};
use vicus::library::{self, SortKey};
use vicus::{BoxError, BoxModel, Envelope, ModelBuilder, ModelError, Runtime, Schema, Turn, Type};

/// So many numbers are in an envelope.
const PART: usize = 1000;

fn numbers() -> Schema {
    Schema::new([("number", Type::U64)])
}

/// Sorts, by dividing unless there are few numbers.
fn sort(few: usize) -> BoxModel {
    BoxModel::expandable("sort", [&numbers()], [&numbers()], move || {
        move |arrived: &Arrivals<'_>| {
            if arrived.rows(0) <= few && !arrived.has_ended(0) {
                return Ok(Expansion::LookOn);
            }
            let seen: Vec<u64> = arrived.envelopes(0).flat_map(|envelope| envelope.column(0).u64s().to_vec()).collect();
            let mut some = [seen[0], seen[seen.len() / 2], seen[seen.len() - 1]];
            some.sort_unstable();
            let fragment = if seen.len() <= few { at_once()? } else { divided(some[1], few)? };
            Ok(Expansion::Become(fragment))
        }
    })
}

/// A box that takes all numbers and sends them in order.
fn at_once() -> Result<Fragment, ModelError> {
    let mut net = FragmentBuilder::new("sort", [&numbers()]);
    let sort = net.add(library::sort(&numbers(), [SortKey::of(0)], PART));
    net.connect(net.input(0), sort.input(0));
    net.end(sort.output(0));
    net.build()
}

/// The numbers below a pivot in order, those equal to it, and those above it in order.
fn divided(pivot: u64, few: usize) -> Result<Fragment, ModelError> {
    let mut net = FragmentBuilder::new("sort", [&numbers()]);
    let divide = net.add(divide(pivot));
    net.connect(net.input(0), divide.input(0));
    let below = net.add(sort(few));
    let above = net.add(sort(few));
    let concat = net.add(concat());
    net.connect(divide.output(0), below.input(0));
    net.connect(divide.output(2), above.input(0));
    net.connect(below.output(0), concat.input(0));
    net.connect(divide.output(1), concat.input(1));
    net.connect(above.output(0), concat.input(2));
    net.end(concat.output(0));
    net.build()
}

/// Deals numbers by whether they are below, equal to or above a pivot.
fn divide(pivot: u64) -> BoxModel {
    let act = move || {
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            match turn.take(0) {
                Some(pill) if pill.is_pill() => turn.send_pills(),
                Some(envelope) => {
                    let mut parts: [Vec<u64>; 3] = Default::default();
                    for &number in envelope.column(0).u64s() {
                        let side = match number.cmp(&pivot) {
                            Ordering::Less => 0,
                            Ordering::Equal => 1,
                            Ordering::Greater => 2,
                        };
                        parts[side].push(number);
                    }
                    for (output, part) in parts.into_iter().enumerate().filter(|(_, part)| !part.is_empty()) {
                        turn.send(output, Envelope::new([part.into()]));
                    }
                }
                None => {}
            }
            Ok(())
        }
    };
    let model = BoxModel::new("divide", act).input(&numbers());
    (0..3).fold(model, |model, _| model.output(&numbers()))
}

/// All of its first input, then all of the second, then all of the third.
fn concat() -> BoxModel {
    let act = || {
        let mut input = 0;
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            match turn.take(input) {
                Some(pill) if pill.is_pill() && input == 2 => turn.send_pill(0),
                Some(pill) if pill.is_pill() => {
                    input += 1;
                    turn.run_again();
                }
                Some(envelope) => turn.send(0, envelope),
                None => {}
            }
            Ok(())
        }
    };
    // The third waits for the second only behind the first: their vias hold more as soon as they are full.
    let model = BoxModel::new("concat", act).takes_all_of(0);
    (0..3).fold(model, |model, _| model.input(&numbers())).output(&numbers())
}

/// Any numbers, in envelopes: xorshift.
fn random(count: usize) -> impl Iterator<Item = Vec<u64>> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % (count as u64 * 2)
    };
    let sizes = (0..count).step_by(PART).map(move |from| PART.min(count - from));
    sizes.map(move |size| (0..size).map(|_| next()).collect())
}

/// Random numbers as the network sends them, and the boxes that it has grown.
fn run(count: usize, few: usize) -> Result<(Vec<u64>, Vec<GrownBox>), Box<dyn Error>> {
    let mut net = ModelBuilder::new("quicksort");
    let parts = move || random(count).map(|part| Envelope::new([part.into()]));
    let source = net.source(library::source("numbers", &numbers(), parts));
    let sort = net.add(sort(few));
    let (send, receive) = mpsc::channel();
    let sink = library::sink("sorted", &numbers(), move |envelope| Ok(send.send(envelope.column(0).u64s().to_vec())?));
    let sink = net.add(sink);
    net.connect(source.output(0), sort.input(0));
    net.connect(sort.output(0), sink.input(0));
    net.end(sink.output(0));
    let runtime = Runtime::builder().start();
    let request = runtime.submit(&net.build()?);
    request.wait()?;
    Ok((receive.try_iter().flatten().collect(), request.grown()))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>());
    let (count, few) = (arguments.next().unwrap_or(Ok(100_000))?, arguments.next().unwrap_or(Ok(1000))?.max(1));
    let (sorted, grown) = run(count, few)?;
    println!("{} numbers, in order: {}", sorted.len(), sorted.is_sorted());
    for grown in grown {
        println!("{:>8} boxes {:8} took {} rows", grown.boxes, grown.name, grown.counts.rows_taken());
    }
    Ok(())
}

#[test]
fn a_network_that_divides_itself_sorts() {
    let (sorted, grown) = run(20_000, 100).unwrap();
    let mut expected: Vec<u64> = random(20_000).flatten().collect();
    expected.sort_unstable();
    assert_eq!(sorted, expected);
    let divided = grown.iter().find(|grown| grown.name == "divide").unwrap();
    assert!(divided.boxes > 100, "{divided:?}");
}
