//! The array: how fast its elements are read, by pattern, segment size, element size and alignment (Wheeler et al.,
//! Figs. 4 to 6), beside a plain slice.

use crate::machine;
use crate::measure::{allowed, load, together};
use anyhow::ensure;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vicus_memory::{ArrayOptions, DistArray, Memory, Pattern};
use vicus_testing::median;

/// The options of `array`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Elements of 8 bytes of the arrays of Figs. 4 and 5.
    #[arg(long, default_value_t = 100_000_000)]
    elements: usize,
    /// Rounds of each side; the medians count.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Locations, at least: on a machine with fewer nodes, pages are placed as if it had this many.
    #[arg(long, default_value_t = 2)]
    locations: usize,
    /// Only these figures.
    #[arg(long, value_delimiter = ',', default_value = "4,5,6")]
    figures: Vec<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options { elements: 100_000_000, rounds: 9, locations: 2, figures: vec![4, 5, 6] }
    }
}

/// Reads the share of a thread, given its number and the number of threads.
type Read<'a> = Box<dyn Fn(usize, usize) -> u64 + Sync + 'a>;

struct Side<'a> {
    name: String,
    threads: usize,
    read: Read<'a>,
    /// Bytes per second, round by round.
    rates: Vec<f64>,
}

impl<'a> Side<'a> {
    fn new(name: impl Into<String>, threads: usize, read: impl Fn(usize, usize) -> u64 + Sync + 'a) -> Side<'a> {
        Side { name: name.into(), threads, read: Box::new(read), rates: Vec::new() }
    }
}

const PATTERNS: [(&str, Pattern); 4] = [
    ("static hash", Pattern::StaticHash),
    ("stripes", Pattern::Stripes),
    ("fields", Pattern::Fields),
    ("random", Pattern::Random(1)),
];

/// Sums an element up in words, for any number of bytes.
#[inline(always)]
fn folded<const BYTES: usize>(element: &[u8; BYTES]) -> u64 {
    let (words, rest) = element.as_chunks::<8>();
    let sum = words.iter().fold(0u64, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| sum.wrapping_add(u64::from(*byte)))
}

/// Reads the share of one thread of a distributed array: the runs on its nodes.
fn near<T: Sync, const TIGHT: bool>(
    array: &DistArray<T, TIGHT>,
    (thread, threads): (usize, usize),
    value: impl Fn(&T) -> u64,
) -> u64 {
    let mine = array.placed().memory().locations().iter().skip(thread).step_by(threads);
    mine.flat_map(|&node| array.runs(node))
        .fold(0, |sum, run| run.iter().fold(sum, |sum, element| sum.wrapping_add(value(element))))
}

/// The share of a slice that one thread reads.
fn part<T>(slice: &[T], (thread, threads): (usize, usize)) -> &[T] {
    &slice[slice.len() * thread / threads..slice.len() * (thread + 1) / threads]
}

/// Reads once with each side's threads, in turn. The first round is a warm-up.
fn measure(sides: &mut [Side<'_>], bytes: usize, rounds: usize, expected: u64) -> anyhow::Result<()> {
    let cpus = allowed()?;
    for at in 0..=rounds {
        for side in sides.iter_mut() {
            let sum = AtomicU64::new(0);
            let time = together(side.threads, &cpus, |thread| {
                sum.fetch_add(black_box((side.read)(thread, side.threads)), Ordering::Relaxed);
            });
            ensure!(sum.into_inner() == expected, "{}: elements were left out or came twice", side.name);
            if at > 0 {
                side.rates.push(bytes as f64 / time.as_secs_f64());
            }
        }
    }
    Ok(())
}

/// Compares each side's rate with that of the plain slice on as many threads, within each round, so that a disturbance
/// of a round affects both.
fn print_table(sides: &[Side<'_>], title: &str) {
    println!("\n{title}, load {}", load());
    println!("{:40} {:>8} {:>8} {:>14}", "", "threads", "GB/s", "to the slice");
    for side in sides {
        let slice = sides.iter().find(|slice| slice.threads == side.threads).expect("the slice comes first");
        let ratios: Vec<f64> = side.rates.iter().zip(&slice.rates).map(|(rate, slice)| rate / slice).collect();
        let rate = median(&side.rates) / 1e9;
        println!("{:40} {:>8} {rate:>8.2} {:>14.3}", side.name, side.threads, median(&ratios));
    }
}

fn words(memory: &Arc<Memory>, elements: usize, options: ArrayOptions) -> anyhow::Result<DistArray<u64>> {
    Ok(DistArray::from_fn(memory, elements, options, |index| index as u64)?)
}

/// Arrays of words beside a plain slice, on one thread and on two.
fn against_slice(arrays: &[(String, DistArray<u64>)], options: &Options, title: &str) -> anyhow::Result<()> {
    let slice: Vec<u64> = (0..options.elements as u64).collect();
    let expected = slice.iter().fold(0, |sum: u64, word| sum.wrapping_add(*word));
    let mut sides = Vec::new();
    for threads in [1, 2] {
        let slice = &slice;
        sides.push(Side::new("plain slice", threads, move |thread, threads| {
            part(slice, (thread, threads)).iter().fold(0, |sum, word| sum.wrapping_add(*word))
        }));
        for (name, array) in arrays {
            let whole = array.as_slice().expect("words have nothing between them");
            sides.push(Side::new(format!("{name}, as one slice"), threads, move |thread, threads| {
                part(whole, (thread, threads)).iter().fold(0, |sum, word| sum.wrapping_add(*word))
            }));
            sides.push(Side::new(name, threads, move |thread, threads| near(array, (thread, threads), |word| *word)));
        }
    }
    measure(&mut sides, options.elements * 8, options.rounds, expected)?;
    print_table(&sides, title);
    Ok(())
}

fn patterns(memory: &Arc<Memory>, options: &Options) -> anyhow::Result<()> {
    // One array at a time, because small machines don't have room for all.
    for (name, pattern) in PATTERNS {
        let array = words(memory, options.elements, ArrayOptions { pattern, ..ArrayOptions::default() })?;
        let title = format!("{} elements of 8 bytes by pattern (Fig. 4)", options.elements);
        against_slice(&[(name.to_owned(), array)], options, &title)?;
    }
    Ok(())
}

fn segments(memory: &Arc<Memory>, options: &Options) -> anyhow::Result<()> {
    for (name, pattern) in PATTERNS {
        for segment_pages in [1, 4, 16, 64, 256] {
            let array =
                words(memory, options.elements, ArrayOptions { pattern, segment_pages, ..ArrayOptions::default() })?;
            let asked = segment_pages * memory.pages().page_bytes();
            let larger = if array.segment_bytes() > asked { ", as few as it must have" } else { "" };
            let title = format!("segments of {} KiB{larger} (Fig. 5)", array.segment_bytes() >> 10);
            against_slice(&[(name.to_owned(), array)], options, &title)?;
        }
    }
    Ok(())
}

/// A million elements of this size, packed and rounded up.
fn element<const BYTES: usize>(memory: &Arc<Memory>, options: &Options) -> anyhow::Result<()> {
    const ELEMENTS: usize = 1_000_000;
    let value = |index: usize| [index as u8; BYTES];
    let slice: Vec<[u8; BYTES]> = (0..ELEMENTS).map(value).collect();
    let usual = ArrayOptions::default();
    let rounded = DistArray::from_fn(memory, ELEMENTS, usual, value)?;
    let tight = DistArray::tight_from_fn(memory, ELEMENTS, usual, value)?;
    let expected = slice.iter().fold(0, |sum: u64, element| sum.wrapping_add(folded(element)));
    let slice = &slice;
    let mut sides = vec![
        Side::new("plain slice", 2, |thread, threads| {
            part(slice, (thread, threads)).iter().fold(0, |sum, element| sum.wrapping_add(folded(element)))
        }),
        Side::new("packed", 2, |thread, threads| near(&tight, (thread, threads), folded)),
        Side::new("rounded up to 8", 2, |thread, threads| near(&rounded, (thread, threads), folded)),
    ];
    measure(&mut sides, ELEMENTS * BYTES, options.rounds, expected)?;
    let of = |side: &Side<'_>| median(&side.rates) / 1e9;
    println!(
        "{BYTES:>5} {:>8.2} {:>8.2} {:>8.2} {:>16.2}",
        of(&sides[0]),
        of(&sides[1]),
        of(&sides[2]),
        of(&sides[2]) / of(&sides[1])
    );
    Ok(())
}

fn sizes(memory: &Arc<Memory>, options: &Options) -> anyhow::Result<()> {
    println!("\na million elements by their size, 2 threads, GB/s of elements (Fig. 6), load {}", load());
    println!("{:>5} {:>8} {:>8} {:>8} {:>16}", "bytes", "slice", "packed", "rounded", "rounded to packed");
    element::<1>(memory, options)?;
    element::<3>(memory, options)?;
    element::<4>(memory, options)?;
    element::<7>(memory, options)?;
    element::<8>(memory, options)?;
    element::<12>(memory, options)?;
    element::<13>(memory, options)?;
    element::<20>(memory, options)?;
    element::<28>(memory, options)?;
    element::<33>(memory, options)?;
    element::<44>(memory, options)?;
    element::<52>(memory, options)?;
    element::<60>(memory, options)?;
    element::<63>(memory, options)?;
    element::<64>(memory, options)?;
    element::<65>(memory, options)?;
    element::<100>(memory, options)
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    ensure!(options.rounds > 0 && options.elements > 0, "nothing would be measured");
    let memory = machine::memory(options.locations)?;
    for figure in &options.figures {
        match figure {
            4 => patterns(&memory, options)?,
            5 => segments(&memory, options)?,
            6 => sizes(&memory, options)?,
            other => anyhow::bail!("figure {other}: there are 4 (patterns), 5 (segments) and 6 (elements)"),
        }
    }
    Ok(())
}
