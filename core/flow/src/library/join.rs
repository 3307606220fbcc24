//! Rows of two streams with equal keys.

use super::HashKey;
use super::hash::hash_rows;
use super::spill::{DEEPEST, Parts, Spilled, is_divisible};
use crate::{
    Attachment, BoxError, BoxModel, Column, Envelope, EnvelopeBuilder, Field, Grow, HeldBytes, NoMemory, Operator,
    Schema, Turn,
};

/// Which rows a [`join`] sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// Each pair of rows with equal keys.
    Inner,
    /// Each pair of rows with equal keys, and each row of the first stream without a partner, with nulls in place of
    /// one.
    Left,
    /// Each row of the first stream with a partner, once.
    Semi,
    /// Each row of the first stream without a partner.
    Anti,
}

/// The description of a join: the streams' columns, and the pairs of columns whose values have to be equal. Columns of
/// a pair are of one type. A null equals nothing; floats are equal if their bits are.
///
/// ```
/// use vicus_flow::library::{JoinKind, Joining};
/// use vicus_flow::{Schema, Type};
///
/// let people = Schema::new([("name", Type::Text), ("city", Type::U32)]);
/// let cities = Schema::new([("id", Type::U32), ("city", Type::Text)]);
/// let at_home = Joining::of(&people, &cities, [(1, 0)]);
/// assert_eq!(at_home.schema().to_string(), "(name: Text, city: U32, id: U32, city: Text)");
/// let all = at_home.kind(JoinKind::Left).schema().to_string();
/// assert_eq!(all, "(name: Text, city: U32, id: U32 or null, city: Text or null)");
/// ```
#[derive(Clone, Debug)]
pub struct Joining {
    first: Schema,
    second: Schema,
    on: Vec<(usize, usize)>,
    kind: JoinKind,
}

impl Joining {
    /// Pairs of rows of two streams with equal values in pairs of columns; of all rows if there are none. Panics if a
    /// stream has fewer columns, or if a pair's types differ.
    pub fn of(first: &Schema, second: &Schema, on: impl IntoIterator<Item = (usize, usize)>) -> Joining {
        let on: Vec<(usize, usize)> = on.into_iter().collect();
        for &(a, b) in &on {
            let (a, b) = (first.columns().get(a), second.columns().get(b));
            let (Some(a), Some(b)) = (a, b) else { panic!("{on:?} are not all columns of {first} and {second}") };
            assert!(a.kind.fits(&b.kind) || b.kind.fits(&a.kind), "{} and {} are compared", a.kind, b.kind);
        }
        Joining { first: first.clone(), second: second.clone(), on, kind: JoinKind::Inner }
    }

    /// The join that sends these rows.
    pub fn kind(self, kind: JoinKind) -> Joining {
        Joining { kind, ..self }
    }

    /// Which rows it sends.
    pub fn sends(&self) -> JoinKind {
        self.kind
    }

    /// The schema of the result: the first stream's columns, and those of the second one if its rows are sent.
    pub fn schema(&self) -> Schema {
        let second: Vec<Field> = match self.kind {
            JoinKind::Inner => self.second.columns().to_vec(),
            JoinKind::Left => self.second.columns().iter().cloned().map(Field::or_null).collect(),
            JoinKind::Semi | JoinKind::Anti => Vec::new(),
        };
        self.first.columns().iter().cloned().chain(second).collect()
    }
}

/// Joins the stream of input 0 with that of input 1. The second one is kept in memory as a hash table, counted against
/// the request's budget, so it should be the smaller one; then the rows of the first one pass in their order, and the
/// partners of each in theirs. Sends envelopes of at most `envelope_rows` rows. When the budget is used up, both
/// streams go to [files](crate::Overflows), if the request may use any, in parts that are joined one after the other;
/// rows then come in the order of the parts.
///
/// To join streams in parts, deal both by [`partition`](super::partition()) with the columns of the pairs and one key:
/// partners are in one part.
///
/// ```
/// use std::sync::mpsc;
/// use vicus_flow::library::{self, HashKey, Joining};
/// use vicus_flow::{Column, Envelope, ModelBuilder, Schema, Type, sequential};
///
/// let people = Schema::new([("name", Type::Text), ("city", Type::U32)]);
/// let cities = Schema::new([("id", Type::U32), ("city", Type::Text)]);
/// let joining = Joining::of(&people, &cities, [(1, 0)]);
/// let mut net = ModelBuilder::new("who lives where");
/// let left = net.source(library::source("people", &people, || {
///     [Envelope::new([["Ada", "Grace", "Jean"].into_iter().collect::<Column>(), vec![2u32, 1, 3].into()])]
/// }));
/// let right = net.source(library::source("cities", &cities, || {
///     [Envelope::new([vec![1u32, 2].into(), ["New York", "London"].into_iter().collect::<Column>()])]
/// }));
/// let join = net.add(library::join(&joining, HashKey::default(), 1000));
/// let (send, receive) = mpsc::channel();
/// let end = net.add(library::sink("end", &joining.schema(), move |envelope| Ok(send.send(envelope)?)));
/// net.connect(left.output(0), join.input(0));
/// net.connect(right.output(0), join.input(1));
/// net.connect(join.output(0), end.input(0));
/// net.end(end.output(0));
/// sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
/// let pairs = receive.recv().unwrap();
/// assert_eq!(pairs.column(0).texts().collect::<Vec<_>>(), ["Ada", "Grace"]);
/// assert_eq!(pairs.column(3).texts().collect::<Vec<_>>(), ["London", "New York"]);
/// ```
pub fn join(joining: &Joining, by: HashKey, envelope_rows: usize) -> BoxModel {
    let (first, second, output) = (joining.first.clone(), joining.second.clone(), joining.schema());
    let joining = joining.clone();
    let factory = move || {
        let columns = |of: &Schema, from: usize| EnvelopeBuilder::new(&of.columns()[from..].iter().cloned().collect());
        let width = joining.first.columns().len();
        let output = joining.schema();
        Join {
            by,
            limit: envelope_rows.max(1),
            kind: joining.kind,
            keys: joining.on.iter().copied().unzip(),
            table: Table::default(),
            schemas: (joining.first.clone(), joining.second.clone()),
            is_complete: false,
            divided: None,
            reading: None,
            unread: Vec::new(),
            passing: None,
            firsts: columns(&output.prefix(width), 0),
            seconds: columns(&output, width),
            partners: Vec::new(),
            rows: Vec::new(),
            hashes: Vec::new(),
            without: nulls(&joining.second),
        }
    };
    BoxModel::new("join", factory).input(&first).input(&second).output(&output).takes_all_of(1)
}

/// A row of nulls.
fn nulls(schema: &Schema) -> Vec<Column> {
    let nullable: Schema = schema.columns().iter().cloned().map(Field::or_null).collect();
    let mut builder = EnvelopeBuilder::new(&nullable);
    builder.reserve_from(Default::default(), 1);
    (0..nullable.columns().len()).for_each(|column| builder.push_null(column));
    builder.finish_from(Default::default())
}

struct Join {
    by: HashKey,
    limit: usize,
    kind: JoinKind,
    /// The columns that are compared, of the first stream and of the second one.
    keys: (Vec<usize>, Vec<usize>),
    table: Table,
    schemas: (Schema, Schema),
    /// All of the second stream is in the table, or in parts.
    is_complete: bool,
    /// Parts of the first stream and of the second one, if the budget has no room for the table.
    divided: Option<(Parts, Parts)>,
    /// The pair of parts that is joined now, in place of the inputs.
    reading: Option<Pair>,
    /// The pairs that are still to be joined.
    unread: Vec<Pair>,
    passing: Option<Passing>,
    /// Sent columns of each stream.
    firsts: EnvelopeBuilder,
    seconds: EnvelopeBuilder,
    /// For each row to be sent, its partner's place, [`NONE`] for a row of nulls, and its own number.
    partners: Vec<(u32, u32)>,
    rows: Vec<u32>,
    hashes: Vec<u64>,
    without: Vec<Column>,
}

/// Parts of both streams with the same hashes.
struct Pair {
    first: Spilled,
    second: Spilled,
    level: u32,
}

/// An envelope of the first stream on its way.
struct Passing {
    envelope: Envelope,
    /// The next row, and the next entry of the table to look at for it; `None` before the first.
    row: usize,
    next: Option<u32>,
    /// Whether the row has a partner so far.
    has_partner: bool,
}

/// The end of a chain, or the envelope of a partner of nulls.
const NONE: u32 = u32::MAX;

/// So many rows are looked up at once.
const TOGETHER: usize = 32;

/// From so many entries on, most look-ups miss a core's own caches.
const FAR_ENTRIES: usize = 1 << 14;

/// A row of the second stream.
#[derive(Clone, Copy)]
struct Entry {
    hash: u64,
    /// Its envelope, and its own number there.
    of: u32,
    row: u32,
    /// The next entry of the chain.
    next: u32,
}

/// The second stream's rows, by the hash of their keys.
#[derive(Default)]
struct Table {
    held: Vec<Envelope>,
    bytes: u64,
    held_bytes: HeldBytes,
    /// A row each; those of a chain are in their order.
    entries: Vec<Entry>,
    /// The first entry of each chain. A power of two of them.
    chains: Vec<u32>,
}

impl Table {
    /// Adds an envelope's rows without nulls in their keys.
    fn add(&mut self, envelope: Envelope, keys: &[usize], hashes: &[u64]) -> Result<(), NoMemory> {
        let envelope = envelope.compact();
        self.bytes += self.held_bytes.add(&envelope);
        let number = self.held.len() as u32;
        self.entries.grow(envelope.rows())?;
        let is_there = |row: &usize| keys.iter().all(|&key| !envelope.column(key).is_null(*row));
        for row in (0..envelope.rows()).filter(is_there) {
            self.entries.push(Entry { hash: hashes[row], of: number, row: row as u32, next: NONE });
        }
        self.held.grow(1)?;
        self.held.push(envelope);
        Ok(())
    }

    /// Chains all entries.
    fn finish(&mut self) -> Result<(), BoxError> {
        let count = u32::try_from(self.entries.len()).map_err(|_| "a join keeps more than 2^32 rows")?;
        self.chains = Vec::<u32>::zeroed((self.entries.len() + self.entries.len() / 2).next_power_of_two())?;
        self.chains.fill(NONE);
        for entry in (0..count).rev() {
            let chain = self.chain(self.entries[entry as usize].hash);
            self.entries[entry as usize].next = std::mem::replace(&mut self.chains[chain], entry);
        }
        Ok(())
    }

    /// Reads what the look-ups of these hashes will read, all at once: each alone would wait for memory. `key` is the
    /// first column that is compared.
    fn fetch(&self, hashes: &[u64], key: Option<usize>) {
        if self.entries.len() < FAR_ENTRIES {
            return;
        }
        let mut first = [NONE; TOGETHER];
        for (entry, hash) in first.iter_mut().zip(hashes) {
            *entry = self.chains[self.chain(*hash)];
        }
        let mut found = [(NONE, 0); TOGETHER];
        for ((found, &entry), hash) in found.iter_mut().zip(&first).zip(hashes) {
            if let Some(entry) = self.entries.get(entry as usize).filter(|entry| entry.hash == *hash) {
                *found = (entry.of, entry.row as usize);
            }
        }
        let mut read = 0;
        for (of, row) in found {
            let column = self.held.get(of as usize).zip(key).map(|(held, key)| held.column(key));
            if let Some(column) = column.filter(|column| column.form().is_alone()) {
                read ^= column.value_bytes().get(row * column.form().width()).copied().unwrap_or_default();
            }
        }
        std::hint::black_box(read);
    }

    fn chain(&self, hash: u64) -> usize {
        hash as usize & (self.chains.len() - 1)
    }

    fn bytes(&self) -> u64 {
        let entries = self.entries.capacity() * size_of::<Entry>();
        self.bytes + (entries + 4 * self.chains.capacity()) as u64
    }
}

impl Join {
    /// Looks for partners of a passing envelope's rows until there are enough for an envelope. Whether all have been
    /// looked for.
    fn pair(&mut self, passing: &mut Passing) -> Result<bool, NoMemory> {
        let columns: Vec<(&Column, usize)> =
            self.keys.0.iter().zip(&self.keys.1).map(|(&a, &b)| (passing.envelope.column(a), b)).collect();
        let about = self.limit.min(passing.envelope.rows());
        self.partners.grow(about)?;
        self.rows.grow(about)?;
        while passing.row < passing.envelope.rows() {
            let row = passing.row;
            let hash = self.hashes[row];
            if row.is_multiple_of(TOGETHER) && passing.next.is_none() {
                let hashes = &self.hashes[row..self.hashes.len().min(row + TOGETHER)];
                self.table.fetch(hashes, self.keys.1.first().copied());
            }
            let is_null = || columns.iter().any(|(column, _)| column.is_null(row));
            let mut entry = match passing.next {
                Some(entry) => entry,
                None if is_null() => NONE,
                None => self.table.chains[self.table.chain(hash)],
            };
            while entry != NONE {
                if self.rows.len() == self.limit {
                    passing.next = Some(entry);
                    return Ok(false);
                }
                let Entry { hash: other, of, row: at, next } = self.table.entries[entry as usize];
                let is_equal = || {
                    let held = &self.table.held[of as usize];
                    columns.iter().all(|&(column, b)| column.equals(row, held.column(b), at as usize))
                };
                if other == hash && is_equal() {
                    passing.has_partner = true;
                    match self.kind {
                        JoinKind::Inner | JoinKind::Left => {
                            self.partners.push((of, at));
                            self.rows.push(row as u32);
                        }
                        // One partner is enough.
                        JoinKind::Semi | JoinKind::Anti => break,
                    }
                }
                entry = next;
            }
            passing.next = Some(NONE);
            let is_sent = match self.kind {
                JoinKind::Inner => false,
                JoinKind::Left | JoinKind::Anti => !passing.has_partner,
                JoinKind::Semi => passing.has_partner,
            };
            if is_sent {
                if self.rows.len() == self.limit {
                    return Ok(false);
                }
                self.partners.push((NONE, 0));
                self.rows.push(row as u32);
            }
            (passing.row, passing.next, passing.has_partner) = (row + 1, None, false);
        }
        Ok(true)
    }

    /// Sends the rows that were paired.
    fn send(&mut self, turn: &mut Turn<'_>, envelope: &Envelope) {
        if self.rows.is_empty() {
            return;
        }
        self.firsts.reserve(turn, self.rows.len());
        self.firsts.gather(turn.blocks, envelope.columns(), &self.rows);
        let mut columns = self.firsts.finish_columns(turn);
        let mut attached = envelope.attached().to_vec();
        if matches!(self.kind, JoinKind::Inner | JoinKind::Left) {
            let held = &self.table.held;
            let columns_of = |of: u32| held.get(of as usize).map_or(&self.without[..], Envelope::columns);
            self.seconds.reserve(turn, self.rows.len());
            self.seconds.interleave(turn.blocks, &self.partners, columns_of);
            columns.extend(self.seconds.finish_columns(turn));
            let mut before = NONE;
            for &(of, _) in &self.partners {
                if let Some(partner) = held.get(of as usize).filter(|_| of != before) {
                    Attachment::add_all(&mut attached, partner.attached());
                }
                before = of;
            }
        }
        turn.send(0, Envelope::of_rows(columns, self.rows.len()).with(&attached));
        self.rows.clear();
        self.partners.clear();
    }
}

impl Join {
    /// Keeps an envelope of the second stream, in the table or in parts.
    fn keep(&mut self, envelope: Envelope, turn: &Turn<'_>) -> Result<(), BoxError> {
        hash_rows(&envelope, &self.keys.1, self.by, &mut self.hashes)?;
        if let Some((_, seconds)) = &mut self.divided {
            is_divisible(&envelope)?;
            return seconds.put(turn, &envelope, (0..).zip(self.hashes.iter().copied()));
        }
        self.table.add(envelope, &self.keys.1, &self.hashes)?;
        // The chains come when all are there.
        let Err(refused) = turn.book(self.table.bytes() + 8 * self.table.entries.len() as u64) else { return Ok(()) };
        let level = self.reading.as_ref().map_or(0, |pair| pair.level);
        if level == DEEPEST || self.keys.0.is_empty() || !Spilled::is_possible(turn) {
            return Err(refused.into());
        }
        let firsts = Parts::begin(turn, &self.schemas.0, level)?;
        let mut seconds = Parts::begin(turn, &self.schemas.1, level)?;
        for envelope in std::mem::take(&mut self.table).held {
            if turn.is_stopped() {
                return Ok(());
            }
            is_divisible(&envelope)?;
            hash_rows(&envelope, &self.keys.1, self.by, &mut self.hashes)?;
            seconds.put(turn, &envelope, (0..).zip(self.hashes.iter().copied()))?;
        }
        self.divided = Some((firsts, seconds));
        Ok(turn.book(0)?)
    }

    /// The next envelope of a stream, `Some(None)` behind the last one.
    fn next(&mut self, is_first: bool, turn: &mut Turn<'_>) -> Result<Option<Option<Envelope>>, BoxError> {
        Ok(match &mut self.reading {
            Some(pair) => {
                let envelope = if is_first { pair.first.pop()? } else { pair.second.pop()? };
                if envelope.is_some() {
                    turn.run_again();
                }
                Some(envelope)
            }
            None => turn.take(usize::from(!is_first)).map(|envelope| (!envelope.is_pill()).then_some(envelope)),
        })
    }

    /// Goes on with the next pair of parts. Whether there is one.
    fn next_pair(&mut self, turn: &mut Turn<'_>) -> Result<bool, BoxError> {
        if let Some((firsts, seconds)) = self.divided.take() {
            let pairs = firsts.into_queues().zip(seconds.into_queues());
            self.unread.extend(pairs.map(|((first, level), (second, _))| Pair { first, second, level }));
        }
        self.reading = self.unread.pop();
        (self.table, self.is_complete) = (Table::default(), false);
        turn.book(0)?;
        Ok(self.reading.is_some())
    }
}

impl Operator for Join {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if !self.is_complete {
            match self.next(false, turn)? {
                Some(Some(envelope)) if envelope.rows() > 0 => self.keep(envelope, turn)?,
                Some(None) => {
                    if self.divided.is_none() {
                        self.table.finish()?;
                    }
                    self.is_complete = true;
                    // The first stream may have come meanwhile.
                    turn.run_again();
                }
                _ => {}
            }
            return Ok(());
        }
        // An invocation that took nothing is not followed by another one by itself.
        let mut goes_on = self.passing.is_some();
        let mut passing = match self.passing.take() {
            Some(passing) => passing,
            None => match self.next(true, turn)? {
                None => return Ok(()),
                Some(None) => {
                    if self.next_pair(turn)? {
                        turn.run_again();
                    } else {
                        turn.send_pill(0);
                    }
                    return Ok(());
                }
                Some(Some(envelope)) if envelope.mark().is_some() => {
                    // Rows that went to files leave at the end of their stream, and no mark goes before them.
                    if self.divided.is_none() {
                        turn.pass_mark(&envelope);
                    }
                    return Ok(());
                }
                Some(Some(envelope)) => {
                    hash_rows(&envelope, &self.keys.0, self.by, &mut self.hashes)?;
                    if let Some((firsts, _)) = &mut self.divided {
                        is_divisible(&envelope)?;
                        return firsts.put(turn, &envelope, (0..).zip(self.hashes.iter().copied()));
                    }
                    Passing { envelope, row: 0, next: None, has_partner: false }
                }
            },
        };
        let is_done = self.pair(&mut passing)?;
        self.send(turn, &passing.envelope);
        if !is_done {
            self.passing = Some(passing);
            goes_on = true;
        }
        if goes_on {
            turn.run_again();
        }
        Ok(())
    }
}
