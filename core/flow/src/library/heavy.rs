//! Two streams dealt for a join in parts, though a few keys have most of the rows.

use super::HashKey;
use super::hash::hash_rows;
use super::partition::Deal;
use crate::{BoxError, BoxModel, Envelope, Grow, Operator, Schema, Turn, Type};
use std::collections::VecDeque;

/// So many rows tell which keys are heavy: the share of a key with 3 % of all rows is found within some tenths.
const SAMPLE_ROWS: usize = 1 << 12;

/// A key is heavy if its share of the rows is more than this part of a part's fair share.
const OF_A_PART: usize = 4;

/// The columns of the hashes of heavy keys, as [`partition_heavy`] sends them.
pub fn heavy_schema() -> Schema {
    Schema::new([("hash", Type::U64)])
}

/// Deals rows to `parts` outputs by the hash of their keys, as [`partition`](super::partition()) does, but for *heavy*
/// keys, whose rows go to all outputs in turn: a key with a fifth of all rows then keeps no reader busy while others
/// wait. The first 4,096 rows, or all of a shorter stream, tell which keys are heavy: those with more than a quarter of
/// a part's fair share. They are held for this, counted against the request's budget. Output `parts` has the hashes of
/// these keys, for the box that deals the other stream of a join, [`partition_to_heavy`]. Panics if the schema has
/// fewer columns.
///
/// Together they deal two streams to joins such that each pair of rows with equal keys is made once:
///
/// ```
/// use std::sync::mpsc;
/// use vicus_flow::library::{self, HashKey, Joining};
/// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, sequential};
///
/// let schema = Schema::new([("key", Type::U64), ("row", Type::U64)]);
/// let joining = Joining::of(&schema, &schema, [(0, 0)]);
/// let mut net = ModelBuilder::new("one key has half of the rows");
/// let rows = |count: u64| {
///     let key = |row: u64| if row % 2 == 0 { 0 } else { row };
///     Envelope::new([(0..count).map(key).collect::<Vec<u64>>().into(), (0..count).collect::<Vec<u64>>().into()])
/// };
/// let first = net.source(library::source("first", &schema, move || [rows(1000)]));
/// let second = net.source(library::source("second", &schema, move || [rows(4)]));
/// let split = net.add(library::partition_heavy(&schema, &[0], 2, HashKey::default()));
/// let copied = net.add(library::partition_to_heavy(&schema, &[0], 2, 1, HashKey::default()));
/// net.connect(first.output(0), split.input(0));
/// net.connect(second.output(0), copied.input(0));
/// net.connect(split.output(2), copied.input(1));
/// let (send, receive) = mpsc::channel();
/// for part in 0..2 {
///     let join = net.add(library::join(&joining, HashKey::default(), 1000));
///     let send = send.clone();
///     let end = net.add(library::sink("end", &joining.schema(), move |pairs| Ok(send.send((part, pairs.rows()))?)));
///     net.connect(split.output(part), join.input(0));
///     net.connect(copied.output(part), join.input(1));
///     net.connect(join.output(0), end.input(0));
///     net.end(end.output(0));
/// }
/// sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
/// let mut pairs = [0; 2];
/// receive.try_iter().for_each(|(part, rows)| pairs[part] += rows);
/// // The key 0 is in 500 rows and 2, and the keys 1 and 3 in one each.
/// assert_eq!(pairs[0] + pairs[1], 500 * 2 + 2);
/// assert!(pairs[0].abs_diff(pairs[1]) <= 2);
/// ```
pub fn partition_heavy(schema: &Schema, keys: &[usize], parts: usize, by: HashKey) -> BoxModel {
    assert!(keys.iter().all(|&key| key < schema.columns().len()), "{keys:?} are not all columns of {schema}");
    let (keys, rows) = (keys.to_vec(), schema.clone());
    let factory = move || Split {
        by,
        keys: keys.clone(),
        deal: Deal::new(&rows, parts),
        learns: true,
        sample: VecDeque::new(),
        sample_hashes: Vec::new(),
        sample_bytes: 0,
        heavy: Heavy::default(),
        next: 0,
        hashes: Vec::new(),
    };
    let model = BoxModel::new("partition heavy", factory).input(schema);
    (0..parts).fold(model, |model, _| model.output(schema)).output(&heavy_schema())
}

/// Deals rows to `parts` outputs by the hash of their keys, but those with heavy keys to each of them. Input 0 has the
/// rows, and each further one the hashes that a [`partition_heavy`] box has found: there are `producers` of them, which
/// deal parts of the other stream. It takes no rows before it has all hashes. Panics if the schema has fewer columns.
pub fn partition_to_heavy(schema: &Schema, keys: &[usize], parts: usize, producers: usize, by: HashKey) -> BoxModel {
    assert!(keys.iter().all(|&key| key < schema.columns().len()), "{keys:?} are not all columns of {schema}");
    let (keys, rows) = (keys.to_vec(), schema.clone());
    let factory = move || Copied {
        by,
        keys: keys.clone(),
        deal: Deal::new(&rows, parts),
        missing: producers,
        found: Vec::new(),
        heavy: Heavy::default(),
        hashes: Vec::new(),
    };
    let model = BoxModel::new("partition to heavy", factory).input(schema);
    let model = (0..producers).fold(model, |model, _| model.input(&heavy_schema()));
    (0..parts).fold(model, |model, _| model.output(schema))
}

/// The hashes of heavy keys. Another key with the same hash is treated as if it were heavy, in both streams.
#[derive(Default)]
struct Heavy {
    /// In order.
    hashes: Vec<u64>,
    /// A bit for the lowest bits of each, so that most rows need no search.
    bits: [u64; 16],
}

impl Heavy {
    fn of(mut hashes: Vec<u64>) -> Heavy {
        hashes.sort_unstable();
        hashes.dedup();
        let mut bits = [0; 16];
        hashes.iter().for_each(|&hash| bits[Heavy::word(hash)] |= 1 << (hash % 64));
        Heavy { hashes, bits }
    }

    /// The hashes in a sample with more than their share.
    fn found(mut sample: Vec<u64>, parts: usize) -> Heavy {
        let most = (sample.len() / (OF_A_PART * parts)).max(1);
        sample.sort_unstable();
        let heavy = sample.chunk_by(|a, b| a == b).filter(|alike| alike.len() > most && parts > 1);
        Heavy::of(heavy.map(|alike| alike[0]).collect())
    }

    fn word(hash: u64) -> usize {
        (hash / 64 % 16) as usize
    }

    #[inline]
    fn has(&self, hash: u64) -> bool {
        self.bits[Heavy::word(hash)] >> (hash % 64) & 1 == 1 && self.hashes.binary_search(&hash).is_ok()
    }
}

struct Split {
    by: HashKey,
    keys: Vec<usize>,
    deal: Deal,
    /// Rows are kept until it is known which keys are heavy.
    learns: bool,
    /// The first envelopes, the pill among them, and the hashes of their rows.
    sample: VecDeque<Envelope>,
    sample_hashes: Vec<u64>,
    sample_bytes: u64,
    heavy: Heavy,
    /// The part of the last heavy row.
    next: u32,
    /// For each row of an envelope, the hash of its keys.
    hashes: Vec<u64>,
}

impl Split {
    /// Keeps an envelope. Behind the last one of the sample, the hashes of heavy keys are sent.
    fn learn(&mut self, envelope: Envelope, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let is_last = envelope.is_pill();
        if envelope.rows() > 0 {
            hash_rows(&envelope, &self.keys, self.by, &mut self.hashes)?;
            self.sample_hashes.grow(self.hashes.len())?;
            self.sample_hashes.extend_from_slice(&self.hashes);
        }
        let envelope = envelope.compact();
        self.sample_bytes += envelope.held_bytes();
        turn.book(self.sample_bytes + 8 * self.sample_hashes.capacity() as u64)?;
        self.sample.grow(1)?;
        self.sample.push_back(envelope);
        if is_last || self.sample_hashes.len() >= SAMPLE_ROWS {
            let parts = self.deal.parts();
            self.heavy = Heavy::found(std::mem::take(&mut self.sample_hashes), parts);
            turn.book(self.sample_bytes)?;
            if !self.heavy.hashes.is_empty() {
                turn.send(parts, Envelope::new([self.heavy.hashes.clone().into()]));
            }
            turn.send_pill(parts);
            self.learns = false;
            turn.run_again();
        }
        Ok(())
    }

    fn deal(&mut self, envelope: &Envelope, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        hash_rows(envelope, &self.keys, self.by, &mut self.hashes)?;
        let parts = self.deal.parts();
        if self.heavy.hashes.is_empty() {
            let targets = self.hashes.iter().map(|&hash| Deal::part_of(hash, parts));
            return self.deal.deal(turn, envelope, targets, &[]);
        }
        let (heavy, next) = (&self.heavy, &mut self.next);
        let targets = self.hashes.iter().map(|&hash| {
            if !heavy.has(hash) {
                return Deal::part_of(hash, parts);
            }
            *next = (*next + 1) % parts as u32;
            *next
        });
        self.deal.deal(turn, envelope, targets, &[])
    }
}

impl Operator for Split {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if self.learns {
            return turn.take(0).map_or(Ok(()), |envelope| self.learn(envelope, turn));
        }
        let envelope = match self.sample.pop_front() {
            Some(envelope) => {
                self.sample_bytes -= envelope.held_bytes();
                turn.book(self.sample_bytes)?;
                turn.run_again();
                envelope
            }
            None => match turn.take(0) {
                Some(envelope) => envelope,
                None => return Ok(()),
            },
        };
        if let Some(mark) = envelope.mark() {
            self.deal.flush(turn);
            for output in 0..self.deal.parts() {
                if !turn.is_closed(output) {
                    turn.send_mark(output, mark);
                }
            }
        } else if envelope.is_pill() {
            self.deal.flush(turn);
            turn.send_pills();
        } else {
            self.deal(&envelope, turn)?;
        }
        Ok(())
    }
}

struct Copied {
    by: HashKey,
    keys: Vec<usize>,
    deal: Deal,
    /// From how many boxes the hashes have not all come.
    missing: usize,
    found: Vec<u64>,
    heavy: Heavy,
    /// For each row of an envelope, the hash of its keys.
    hashes: Vec<u64>,
}

impl Operator for Copied {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if self.missing > 0 {
            for input in 1..turn.inputs() {
                match turn.take(input) {
                    Some(pill) if pill.is_pill() => self.missing -= 1,
                    Some(hashes) => self.found.extend_from_slice(hashes.column(0).u64s()),
                    None => {}
                }
            }
            if self.missing == 0 {
                self.heavy = Heavy::of(std::mem::take(&mut self.found));
                // Rows may have come meanwhile.
                turn.run_again();
            }
            return Ok(());
        }
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        if envelope.is_pill() {
            self.deal.flush(turn);
            turn.send_pills();
        } else if envelope.mark().is_some() {
            self.deal.flush(turn);
            turn.pass_mark(&envelope);
        } else {
            hash_rows(&envelope, &self.keys, self.by, &mut self.hashes)?;
            let mut to_all = Vec::new();
            if !self.heavy.hashes.is_empty() {
                to_all.extend((0..).zip(&self.hashes).filter(|(_, hash)| self.heavy.has(**hash)).map(|(row, _)| row));
            }
            let parts = self.deal.parts();
            let targets = self.hashes.iter().map(|&hash| Deal::part_of(hash, parts));
            self.deal.deal(turn, &envelope, targets, &to_all)?;
        }
        Ok(())
    }
}
