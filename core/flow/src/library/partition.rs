//! Deals rows to outputs by the hash of their keys.

use super::HashKey;
use super::hash::hash_rows;
use crate::{Attachment, BoxError, BoxModel, Envelope, EnvelopeBuilder, Grow, Operator, Schema, Turn};

/// Sends each row to one of `parts` outputs, by the hash of its values in the columns `keys`: rows with equal keys go
/// to the same one. Keys may be of any types; a null equals a null, and floats are equal if their bits are. Panics if
/// the schema has fewer columns.
///
/// ```
/// use std::sync::mpsc;
/// use vicus_flow::library::{self, HashKey};
/// use vicus_flow::{Column, Envelope, ModelBuilder, Schema, Type, sequential};
///
/// let words = Schema::new([("word", Type::Text)]);
/// let mut net = ModelBuilder::new("words in two parts");
/// let source = net.source(library::source("words", &words, || {
///     [Envelope::new([Column::from_iter(["to", "be", "or", "not", "to", "be"])])]
/// }));
/// let deal = net.add(library::partition(&words, &[0], 2, HashKey::default()));
/// net.connect(source.output(0), deal.input(0));
/// let (send, receive) = mpsc::channel();
/// for part in 0..2 {
///     let send = send.clone();
///     let end = net.add(library::sink("end", &words, move |envelope| Ok(send.send((part, envelope))?)));
///     net.connect(deal.output(part), end.input(0));
///     net.end(end.output(0));
/// }
/// sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
/// let of = |word: &str| -> Vec<usize> {
///     let count = |envelope: &Envelope| envelope.column(0).texts().filter(|&text| text == word).count();
///     receive.try_iter().flat_map(|(part, envelope)| vec![part; count(&envelope)]).collect()
/// };
/// let parts = of("to");
/// assert!(parts.len() == 2 && parts[0] == parts[1], "equal words meet");
/// ```
///
/// A full output stops the box until its reader goes on, so readers must take rows of any partition as they come.
pub fn partition(schema: &Schema, keys: &[usize], parts: usize, by: HashKey) -> BoxModel {
    assert!(keys.iter().all(|&key| key < schema.columns().len()), "{keys:?} are not all columns of {schema}");
    let (keys, rows) = (keys.to_vec(), schema.clone());
    let model = BoxModel::new("partition", move || Partition {
        keys: keys.clone(),
        by,
        deal: Deal::new(&rows, parts),
        hashes: Vec::new(),
    });
    (0..parts).fold(model.input(schema), |model, _| model.output(schema))
}

struct Partition {
    keys: Vec<usize>,
    by: HashKey,
    deal: Deal,
    /// For each row of an envelope, the hash of its keys.
    hashes: Vec<u64>,
}

/// Rows on their way to outputs.
pub(super) struct Deal {
    parts: Vec<PartRows>,
    /// For each row of an envelope, its part.
    targets: Vec<u32>,
    /// The end of each part in the order.
    ends: Vec<usize>,
    /// The rows of an envelope, sorted by their part.
    order: Vec<u32>,
}

impl Deal {
    pub(super) fn new(schema: &Schema, parts: usize) -> Deal {
        let part = |_| PartRows { builder: EnvelopeBuilder::new(schema), rows: 0, attached: Vec::new() };
        Deal { parts: (0..parts).map(part).collect(), targets: Vec::new(), ends: vec![0; parts], order: Vec::new() }
    }

    /// The part of a hash, of so many.
    #[inline]
    pub(super) fn part_of(hash: u64, parts: usize) -> u32 {
        // The high bits give the part: tables over a part's rows use the low ones.
        ((u128::from(hash) * parts as u128) >> 64) as u32
    }

    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Deals an envelope's rows to the parts that `targets` gives in order, and rows of `to_all` to all other parts as
    /// well. Full parts are sent.
    pub(super) fn deal(
        &mut self,
        turn: &mut Turn<'_>,
        envelope: &Envelope,
        targets: impl Iterator<Item = u32>,
        to_all: &[u32],
    ) -> Result<(), BoxError> {
        self.targets.clear();
        self.targets.grow(envelope.rows())?;
        self.targets.extend(targets);
        self.sort();
        let mut begin = 0;
        for (number, (part, &end)) in (0..).zip(self.parts.iter_mut().zip(&self.ends)) {
            part.take(turn, envelope, &self.order[begin..end]);
            begin = end;
            if !to_all.is_empty() {
                let others = to_all.iter().copied().filter(|row| self.targets[*row as usize] != number);
                part.take(turn, envelope, &others.collect::<Vec<u32>>());
            }
        }
        // About as many envelopes leave as come, and of their size: small ones at first.
        for (output, part) in self.parts.iter_mut().enumerate() {
            if part.is_due(envelope.rows()) {
                part.send(output, turn);
            }
        }
        Ok(())
    }

    /// Sends the rows that wait for others, to outputs that are read.
    pub(super) fn flush(&mut self, turn: &mut Turn<'_>) {
        for (output, part) in self.parts.iter_mut().enumerate() {
            if !turn.is_closed(output) {
                part.send(output, turn);
            }
        }
    }

    /// Sorts the rows by counting: no branch and no capacity depends on a row's part, since it can't be predicted.
    fn sort(&mut self) {
        self.ends.fill(0);
        self.targets.iter().for_each(|&part| self.ends[part as usize] += 1);
        let mut end = 0;
        for count in &mut self.ends {
            // Now the beginning of the part; it grows to the end.
            end += std::mem::replace(count, end);
        }
        self.order.grow_or_give_up(self.targets.len().saturating_sub(self.order.len()));
        self.order.resize(self.targets.len(), 0);
        for (row, &part) in self.targets.iter().enumerate() {
            let place = &mut self.ends[part as usize];
            self.order[*place] = row as u32;
            *place += 1;
        }
    }
}

/// Rows waiting until there are enough of them for an envelope.
struct PartRows {
    builder: EnvelopeBuilder,
    rows: usize,
    attached: Vec<Attachment>,
}

/// Rows that keep more bytes than this alive beside their columns don't wait for others.
const MOST_ATTACHED: u64 = 1 << 20;

impl PartRows {
    fn take(&mut self, turn: &Turn<'_>, envelope: &Envelope, rows: &[u32]) {
        // It is sent as soon as it has as many rows as the last envelope received.
        self.builder.reserve(turn, rows.len() + envelope.rows().saturating_sub(self.rows));
        self.builder.append(turn, envelope, rows);
        self.rows += rows.len();
        if !rows.is_empty() {
            Attachment::add_all(&mut self.attached, envelope.attached());
        }
    }

    fn is_due(&self, rows: usize) -> bool {
        self.rows >= rows || Attachment::bytes_of(&self.attached) > MOST_ATTACHED
    }

    fn send(&mut self, output: usize, turn: &mut Turn<'_>) {
        if self.rows > 0 {
            let columns = self.builder.finish_columns(turn);
            let envelope = Envelope::of_rows(columns, std::mem::take(&mut self.rows));
            turn.send(output, envelope.with(&std::mem::take(&mut self.attached)));
        }
    }
}

impl Operator for Partition {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        if envelope.is_pill() {
            self.deal.flush(turn);
            turn.send_pills();
            return Ok(());
        }
        if envelope.mark().is_some() {
            // The rows before it leave before it.
            self.deal.flush(turn);
            turn.pass_mark(&envelope);
            return Ok(());
        }
        hash_rows(&envelope, &self.keys, self.by, &mut self.hashes)?;
        let parts = self.deal.parts();
        let targets = self.hashes.iter().map(|&hash| Deal::part_of(hash, parts));
        self.deal.deal(turn, &envelope, targets, &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bound, ModelBuilder, Type, library, sequential};
    use std::sync::{Arc, mpsc};

    #[test]
    fn equal_keys_meet_and_no_row_is_lost() {
        let schema = Schema::new([("key", Type::U64), ("row", Type::U64)]);
        for parts in 1..6 {
            let mut net = ModelBuilder::new("partition");
            net.default_bound(Bound { envelopes: 1, ..Bound::default() });
            let rows = |start: u64| {
                let rows = start..start + 50;
                let keys: Vec<u64> = rows.clone().map(|row| row % 37).collect();
                Envelope::new([keys.into(), rows.collect::<Vec<_>>().into()])
            };
            let source = net.source(library::source("rows", &schema, move || (0..1000).step_by(50).map(rows)));
            let deal = net.add(partition(&schema, &[0], parts, HashKey::default()));
            net.connect(source.output(0), deal.input(0));
            let (send, receive) = mpsc::channel();
            for part in 0..parts {
                let send = send.clone();
                let sink = library::sink("part", &schema, move |envelope| Ok(send.send((part, envelope))?));
                let sink = net.add(sink);
                net.connect(deal.output(part), sink.input(0));
                net.end(sink.output(0));
            }
            drop(send);
            let model = net.build().unwrap();
            sequential::run(&model, Vec::new(), |tasks| tasks - 1).unwrap();
            drop(model);
            let (mut seen, mut homes) = ([false; 1000], [usize::MAX; 37]);
            for (part, envelope) in receive {
                for (&key, &row) in envelope.column(0).u64s().iter().zip(envelope.column(1).u64s()) {
                    assert!(!std::mem::replace(&mut seen[row as usize], true), "row {row} came once");
                    let home = &mut homes[key as usize];
                    assert!(*home == usize::MAX || *home == part, "key {key} is in part {part} and {home}");
                    *home = part;
                }
            }
            assert!(seen.iter().all(|seen| *seen), "all rows came");
        }
    }

    /// Rows copied into other envelopes once lost their attachments.
    #[test]
    fn rows_keep_what_is_attached_to_the_envelopes_that_they_came_in() {
        let schema = Schema::new([("key", Type::U64), ("origin", Type::U64)]);
        for seed in 0..20 {
            let mut net = ModelBuilder::new("partition and merge");
            net.default_bound(Bound { envelopes: 2, ..Bound::default() });
            // An envelope's rows have its number, attached to it as well.
            let envelope = |number: u64| {
                let keys: Vec<u64> = (0..1 + number % 7).map(|row| number * 7 + row).collect();
                let origins = vec![number; keys.len()];
                let kept = Attachment::new(Arc::new(number), number);
                Envelope::new([keys.into(), origins.into()]).with(&[kept])
            };
            let source = net.source(library::source("source", &schema, move || (0..30).map(envelope)));
            let parts = net.add(partition(&schema, &[0], 3, HashKey::of_seed(seed)));
            net.connect(source.output(0), parts.input(0));
            let compare = |(a, i): (&Envelope, usize), (b, j): (&Envelope, usize)| {
                a.column(0).u64s()[i].cmp(&b.column(0).u64s()[j])
            };
            let merge = net.add(library::merge(&schema, 3, 1 + seed as usize % 9, compare));
            (0..3).for_each(|part| {
                let hold = net.add(library::hold(&schema));
                net.connect(parts.output(part), hold.input(0));
                net.connect(hold.output(0), merge.input(part));
            });
            let (send, receive) = mpsc::channel();
            let sink = net.add(library::sink("sink", &schema, move |envelope| Ok(send.send(envelope)?)));
            net.connect(merge.output(0), sink.input(0));
            net.end(sink.output(0));
            sequential::run(&net.build().unwrap(), Vec::new(), library::any_order(seed)).unwrap();
            let mut rows = 0;
            for envelope in receive {
                rows += envelope.rows();
                let kept: Vec<u64> = envelope.attached().iter().map(Attachment::bytes).collect();
                let origins = envelope.column(1).u64s();
                assert!(origins.iter().all(|origin| kept.contains(origin)), "seed {seed}: {origins:?} of {kept:?}");
            }
            assert_eq!(rows, (0..30).map(|number| 1 + number % 7).sum::<usize>(), "seed {seed}");
        }
    }
}
