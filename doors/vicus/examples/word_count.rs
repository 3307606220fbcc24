//! Counts the words of a text file: one box reads lines, several split them into words and count their share, one adds
//! up.
//!
//! `cargo run -p vicus --example word_count -- FILE`

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex};
use vicus::library::{self, More};
use vicus::{BoxError, BoxModel, Column, Envelope, FlowError, ModelBuilder, Operator, Runtime, Schema, Turn, Type};

const LINES_AT_ONCE: usize = 1000;
const COUNTERS: usize = 4;

/// Reads a thousand lines for each invocation.
fn lines<R: Read + Send + 'static>(text: R, schema: &Schema) -> BoxModel {
    // The reader belongs to one run alone, so the first instance takes it.
    let text = Mutex::new(Some(text));
    library::fill("lines", schema, move || {
        let mut input = BufReader::new(text.lock().unwrap().take().expect("a text is read once"));
        move |turn, builder| {
            // A file may make a thread wait; meanwhile the neighbourhood gets another one.
            let lines = (&mut input).lines().take(LINES_AT_ONCE);
            let lines = turn.blocking(|| lines.collect::<Result<Vec<String>, _>>())?;
            builder.reserve(turn, lines.len());
            builder.reserve_text(turn, 0, lines.iter().map(String::len).sum());
            builder.texts(0).extend(lines.iter().map(String::as_str));
            Ok(if lines.is_empty() { More::No } else { More::Yes })
        }
    })
}

/// Counts words until the pill, then sends the counts.
#[derive(Default)]
struct Count(BTreeMap<String, u64>);

impl Operator for Count {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        match turn.take(0) {
            Some(pill) if pill.is_pill() => {
                let (words, counts): (Vec<String>, Vec<u64>) = std::mem::take(&mut self.0).into_iter().unzip();
                turn.send(0, Envelope::new([Column::from_iter(words), Column::from(counts)]));
                turn.send_pill(0);
            }
            Some(envelope) => {
                for word in envelope.column(0).texts().flat_map(str::split_whitespace) {
                    match self.0.get_mut(word) {
                        Some(count) => *count += 1,
                        None => _ = self.0.insert(word.to_owned(), 1),
                    }
                }
            }
            None => {}
        }
        Ok(())
    }
}

fn word_count<R: Read + Send + 'static>(text: R) -> Result<BTreeMap<String, u64>, FlowError> {
    let line = Schema::new([("line", Type::Text)]);
    let counts = Schema::new([("word", Type::Text), ("count", Type::U64)]);
    let total = Arc::new(Mutex::new(BTreeMap::new()));

    let mut net = ModelBuilder::new("word count");
    let reader = net.source(lines(text, &line));
    // Hands the lines out to any counter with room.
    let spread = net.add(library::spread(&line, COUNTERS));
    net.connect(reader.output(0), spread.input(0));
    for part in 0..COUNTERS {
        let count = net.add(BoxModel::new("count", Count::default).input(&line).output(&counts));
        let into = Arc::clone(&total);
        let add = net.add(library::sink("add", &counts, move |envelope| {
            let mut total = into.lock().unwrap();
            for (word, count) in envelope.column(0).texts().zip(envelope.column(1).u64s()) {
                *total.entry(word.to_owned()).or_insert(0) += count;
            }
            Ok(())
        }));
        net.connect(spread.output(part), count.input(0));
        net.connect(count.output(0), add.input(0));
        net.end(add.output(0));
    }
    Runtime::builder().start().submit(&net.build().expect("the network above is a model")).wait()?;
    let counted = std::mem::take(&mut *total.lock().unwrap());
    Ok(counted)
}

fn main() -> Result<(), BoxError> {
    let path = std::env::args().nth(1).ok_or("usage: word_count FILE")?;
    for (word, count) in word_count(std::fs::File::open(path)?)? {
        println!("{count}\t{word}");
    }
    Ok(())
}

#[test]
fn counts_are_those_of_a_plain_loop() {
    let text: String = (0..20_000).map(|n| format!("line {} of a {}\n", n % 100, n % 7)).collect();
    let mut expected = BTreeMap::new();
    for word in text.split_whitespace() {
        *expected.entry(word.to_owned()).or_insert(0) += 1;
    }
    assert_eq!(word_count(std::io::Cursor::new(text)).unwrap(), expected);
    assert!(word_count(std::io::empty()).unwrap().is_empty());
}
