//! Counts the words of a text file: one box reads blocks, several split them into words and count their share, one adds
//! up.
//!
//! `cargo run -p vicus --example word_count -- FILE`

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::sync::{Arc, Mutex};
use vicus::library::{self, More};
use vicus::{BoxError, BoxModel, Column, Envelope, FlowError, ModelBuilder, Operator, Runtime, Schema, Turn, Type};

/// Bytes read at once: some hundred microseconds of counting, and all of it stays in a core's cache.
const BLOCK: usize = 256 << 10;
const COUNTERS: usize = 4;

/// Reads a block for each invocation, which ends between two words.
fn blocks<R: Read + Send + 'static>(text: R, schema: &Schema) -> BoxModel {
    // The reader belongs to one run alone, so the first instance takes it.
    let text = Mutex::new(Some(text));
    library::fill("blocks", schema, move || {
        let mut input = text.lock().unwrap().take().expect("a text is read once");
        let mut rest = Vec::new();
        move |turn, builder| {
            let mut block = std::mem::take(&mut rest);
            let mut is_over = false;
            let end = loop {
                // A file may make a thread wait; meanwhile the neighbourhood gets another one.
                is_over |= turn.blocking(|| (&mut input).take(BLOCK as u64).read_to_end(&mut block))? == 0;
                // A space has no bytes of its own within a character of UTF-8.
                match block.iter().rposition(|byte| is_space(*byte)) {
                    _ if is_over => break block.len(),
                    Some(last) => break last,
                    None => {}
                }
            };
            rest.extend_from_slice(&block[end..]);
            let text = std::str::from_utf8(&block[..end])?;
            builder.reserve(turn, 1);
            builder.reserve_text(turn, 0, text.len());
            builder.texts(0).extend([text]);
            Ok(if is_over { More::No } else { More::Yes })
        }
    })
}

/// The spaces among ASCII's characters, as `char::is_whitespace` has them.
fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ')
}

/// Counts words until the pill, then sends the counts.
#[derive(Default)]
struct Count(HashMap<Box<[u8]>, u64>);

impl Count {
    fn add(&mut self, word: &[u8]) {
        match self.0.get_mut(word) {
            Some(count) => *count += 1,
            None => _ = self.0.insert(word.into(), 1),
        }
    }
}

impl Operator for Count {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        match turn.take(0) {
            Some(pill) if pill.is_pill() => {
                let (words, counts): (Vec<Box<[u8]>>, Vec<u64>) = std::mem::take(&mut self.0).into_iter().unzip();
                let words = words.iter().map(|word| std::str::from_utf8(word)).collect::<Result<Column, _>>()?;
                turn.send(0, Envelope::new([words, Column::from(counts)]));
                turn.send_pill(0);
            }
            Some(envelope) => {
                for text in envelope.column(0).texts() {
                    if text.is_ascii() {
                        let words = text.as_bytes().split(|byte| is_space(*byte));
                        words.filter(|word| !word.is_empty()).for_each(|word| self.add(word));
                    } else {
                        text.split_whitespace().for_each(|word| self.add(word.as_bytes()));
                    }
                }
            }
            None => {}
        }
        Ok(())
    }
}

fn word_count<R: Read + Send + 'static>(text: R) -> Result<BTreeMap<String, u64>, FlowError> {
    let block = Schema::new([("block", Type::Text)]);
    let counts = Schema::new([("word", Type::Text), ("count", Type::U64)]);
    let total = Arc::new(Mutex::new(BTreeMap::new()));

    let mut net = ModelBuilder::new("word count");
    let reader = net.source(blocks(text, &block));
    // Hands the blocks out to any counter with room.
    let spread = net.add(library::spread(&block, COUNTERS));
    net.connect(reader.output(0), spread.input(0));
    for part in 0..COUNTERS {
        let count = net.add(BoxModel::new("count", Count::default).input(&block).output(&counts));
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
    let ascii: String = (0..20_000).map(|n| format!("line {} of\ta {}\n", n % 100, n % 7)).collect();
    let other: String = (0..20_000).map(|n| format!("Zeile {}\u{a0}äöü\u{2028}{}\r\n", n % 100, n % 7)).collect();
    // A word that is longer than a block.
    let long = ["of ", &"long".repeat(BLOCK), " of"].concat();
    for text in [ascii, other, long] {
        let mut expected = BTreeMap::new();
        for word in text.split_whitespace() {
            *expected.entry(word.to_owned()).or_insert(0) += 1;
        }
        assert_eq!(word_count(std::io::Cursor::new(text)).unwrap(), expected);
    }
    assert!(word_count(std::io::empty()).unwrap().is_empty());
}
