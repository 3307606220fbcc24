//! Rows of two streams with equal keys and about equal times, also of streams without end.

use super::hash::hash_rows;
use super::window::{check_unit, time_at, time_of};
use super::{HashKey, Joining, WindowError};
use crate::{
    Attachment, BoxError, BoxModel, Column, Envelope, EnvelopeBuilder, Grow, HeldBytes, Mark, Marks, NoMemory,
    Operator, Schema, Turn,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The description of a join by time: the streams' columns, the pairs of columns whose values have to be equal, and how
/// far the times of partners may be from each other.
///
/// ```
/// use vicus_flow::library::Nearness;
/// use vicus_flow::{Schema, Type};
///
/// let shown = Schema::new([("page", Type::U32), ("at", Type::I64)]);
/// let clicked = Schema::new([("time", Type::I64), ("what", Type::U32)]);
/// let near = Nearness::of(&shown, &clicked, [(0, 1)], (1, 0), 5)?;
/// assert_eq!(near.schema().to_string(), "(page: U32, at: I64, time: I64, what: U32)");
/// assert!(Nearness::of(&shown, &clicked, [(0, 1)], (1, 0), -1).is_err());
/// # Ok::<(), vicus_flow::library::WindowError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Nearness {
    schemas: [Schema; 2],
    on: Vec<(usize, usize)>,
    times: [usize; 2],
    distance: i64,
    /// How many units of a mark a unit of the times is.
    scale: i128,
    output: Schema,
}

impl Nearness {
    /// Pairs of rows of two streams with equal values in pairs of columns, whose times differ by at most `distance`
    /// units of the time. The columns of the times are of one type. Panics if a stream has fewer columns, or if types
    /// of compared columns differ.
    ///
    /// # Errors
    /// The distance is negative, a column has no time, or the types of the times differ.
    pub fn of(
        first: &Schema,
        second: &Schema,
        on: impl IntoIterator<Item = (usize, usize)>,
        times: (usize, usize),
        distance: i64,
    ) -> Result<Nearness, WindowError> {
        let on: Vec<(usize, usize)> = on.into_iter().collect();
        let output = Joining::of(first, second, on.iter().copied()).schema();
        let scale = time_of(first, times.0)?;
        time_of(second, times.1)?;
        let (a, b) = (&first.columns()[times.0].kind, &second.columns()[times.1].kind);
        if a != b {
            return Err(WindowError::Times { first: a.to_string(), second: b.to_string() });
        }
        if distance < 0 {
            return Err(WindowError::Distance);
        }
        let schemas = [first.clone(), second.clone()];
        Ok(Nearness { schemas, on, times: [times.0, times.1], distance, scale, output })
    }

    /// The schema of the result: the first stream's columns, then those of the second one.
    pub fn schema(&self) -> Schema {
        self.output.clone()
    }
}

/// Sends each pair of rows of two streams that [`Nearness`] describes, in envelopes of at most `envelope_rows` rows, in
/// any order. Rows of both streams are held, counted against the request's budget, until the other one's watermark
/// ([`watermarks`](super::watermarks())) says that no partner comes any more; so streams without end, whose watermarks
/// rise, take memory for a time of theirs alone. While a stream is idle ([`Mark::Idle`]), the other one's watermark
/// counts for both, and rows of the idle one before it are late. A late row finds the partners that are still held.
/// Rows without a time, or with a null among their keys, have no partner.
///
/// A watermark is passed on when both streams have reached it, less the distance: a later pair may have a row as old.
///
/// ```
/// use std::sync::mpsc;
/// use vicus_flow::library::{self, HashKey, Nearness};
/// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, sequential};
///
/// let schema = Schema::new([("key", Type::U64), ("at", Type::I64)]);
/// let near = Nearness::of(&schema, &schema, [(0, 0)], (1, 1), 2)?;
/// let mut net = ModelBuilder::new("pairs");
/// let rows = |times: [i64; 3]| move || [Envelope::new([vec![7u64; 3].into(), times.to_vec().into()])];
/// let first = net.source(library::source("first", &schema, rows([1, 5, 20])));
/// let second = net.source(library::source("second", &schema, rows([3, 9, 21])));
/// let join = net.add(library::join_near(&near, HashKey::default(), 100));
/// let (send, receive) = mpsc::channel();
/// let times = |pairs: &Envelope, column: usize| pairs.column(column).i64s().to_vec();
/// let end = move |pairs: Envelope| Ok(send.send((times(&pairs, 1), times(&pairs, 3)))?);
/// let end = net.add(library::sink("end", &near.schema(), end));
/// net.connect(first.output(0), join.input(0));
/// net.connect(second.output(0), join.input(1));
/// net.connect(join.output(0), end.input(0));
/// net.end(end.output(0));
/// sequential::run(&net.build()?, Vec::new(), |_| 0)?;
/// let mut pairs: Vec<_> = receive.try_iter().flat_map(|(a, b)| a.into_iter().zip(b)).collect();
/// pairs.sort();
/// assert_eq!(pairs, [(1, 3), (5, 3), (20, 21)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn join_near(near: &Nearness, by: HashKey, envelope_rows: usize) -> BoxModel {
    let near = Arc::new(near.clone());
    let ([first, second], output) = (near.schemas.clone(), near.schema());
    let factory = move || {
        let keys: (Vec<usize>, Vec<usize>) = near.on.iter().copied().unzip();
        let side = |keys: Vec<usize>, input: usize| Side {
            time: near.times[input],
            keys,
            panes: BTreeMap::new(),
            held: Vec::new(),
            free: Vec::new(),
            stores: HeldBytes::default(),
            store_bytes: 0,
            dropped: 0,
            bytes: 0,
            is_over: false,
        };
        let width = near.schemas[0].columns().len();
        let builder = |columns: &[crate::Field]| EnvelopeBuilder::new(&columns.iter().cloned().collect());
        let (of_first, of_second) = near.output.columns().split_at(width);
        JoinNear {
            by,
            limit: envelope_rows.max(1),
            sides: [side(keys.0, 0), side(keys.1, 1)],
            builders: [builder(of_first), builder(of_second)],
            marks: Marks::of(2),
            passing: None,
            near: Arc::clone(&near),
            partners: Vec::new(),
            rows: Vec::new(),
            hashes: Vec::new(),
        }
    };
    BoxModel::new("join near", factory).input(&first).input(&second).output(&output)
}

struct JoinNear {
    near: Arc<Nearness>,
    by: HashKey,
    limit: usize,
    sides: [Side; 2],
    /// For the columns of each stream in pairs.
    builders: [EnvelopeBuilder; 2],
    marks: Marks,
    passing: Option<Passing>,
    /// For each pair to be sent, the envelope and the row of the held partner, and the row of the passing envelope.
    partners: Vec<(u32, u32)>,
    rows: Vec<u32>,
    hashes: Vec<u64>,
}

/// The rows of a stream that may have partners yet.
struct Side {
    time: usize,
    keys: Vec<usize>,
    /// By the number of a pane: as long as the distance, so partners of a row are in three of them at most.
    panes: BTreeMap<i64, Pane>,
    /// The envelopes with rows in panes, by their numbers.
    held: Vec<Option<HeldEnvelope>>,
    /// Numbers without an envelope.
    free: Vec<u32>,
    /// The dictionaries of held envelopes, also of some that were dropped since they were counted, and their bytes.
    stores: HeldBytes,
    store_bytes: u64,
    /// How many envelopes were dropped since then.
    dropped: usize,
    /// The bytes of the envelopes and of the panes.
    bytes: u64,
    is_over: bool,
}

struct HeldEnvelope {
    envelope: Envelope,
    bytes: u64,
    /// How many panes have rows of it. Invariant: one at least, but while it is added.
    panes: u32,
}

struct Pane {
    /// The numbers of the envelopes with rows in it, each once.
    held: Vec<u32>,
    entries: Vec<Entry>,
    /// The latest entry of each chain. A power of two of them, or none; at least as many as entries.
    chains: Vec<u32>,
}

/// A held row.
#[derive(Clone, Copy)]
struct Entry {
    hash: u64,
    time: i64,
    /// The number of its envelope, and its own number there.
    of: u32,
    row: u32,
    /// The entry before it in its chain.
    next: u32,
}

/// The end of a chain.
const NONE: u32 = u32::MAX;

/// An envelope that looks for partners. It is held afterwards.
struct Passing {
    input: usize,
    envelope: Envelope,
    /// Its rows that may have partners, by their panes.
    rows: Vec<Sought>,
    /// The next of these rows; which of the panes about its own is looked at, and the next entry to look at there,
    /// `None` before the first.
    at: usize,
    which: usize,
    next: Option<u32>,
}

#[derive(Clone, Copy)]
struct Sought {
    /// The number of its pane.
    pane: i64,
    time: i64,
    row: u32,
}

/// The fewest chains of a pane.
const FEWEST: usize = 4;
/// So many entries are looked at before a box asks whether its request was stopped.
const STEPS: usize = 1 << 16;

impl Side {
    /// Holds an envelope, for rows of it in panes. Gives its number.
    fn hold(&mut self, envelope: Envelope) -> Result<u32, BoxError> {
        let bytes = envelope.held_bytes();
        self.store_bytes += self.stores.add(&envelope) - bytes;
        self.bytes += bytes;
        let held = Some(HeldEnvelope { envelope, bytes, panes: 0 });
        if let Some(of) = self.free.pop() {
            self.held[of as usize] = held;
            return Ok(of);
        }
        let of = u32::try_from(self.held.len()).map_err(|_| "a join keeps more than 2^32 envelopes")?;
        self.held.grow(1)?;
        self.held.push(held);
        Ok(of)
    }

    /// Adds rows of one pane.
    fn add(&mut self, of: u32, rows: &[Sought], hashes: &[u64]) -> Result<(), BoxError> {
        let before = self.panes.get(&rows[0].pane).map_or(0, Pane::bytes);
        let pane = self.panes.entry(rows[0].pane).or_insert_with(Pane::new);
        pane.held.grow(1)?;
        pane.held.push(of);
        for &Sought { row, time, .. } in rows {
            pane.add(Entry { hash: hashes[row as usize], time, of, row, next: NONE })?;
        }
        self.bytes = self.bytes - before + pane.bytes();
        self.held[of as usize].as_mut().expect("it is held").panes += 1;
        Ok(())
    }

    fn envelope(&self, of: u32) -> &Envelope {
        &self.held[of as usize].as_ref().expect("an envelope with rows in a pane is held").envelope
    }

    /// The pane with this number, and those beside it if times in them may be near.
    fn near(&self, number: i64, distance: i64) -> [Option<&Pane>; 3] {
        let beside = |number: Option<i64>| number.filter(|_| distance > 0).and_then(|number| self.panes.get(&number));
        [beside(number.checked_sub(1)), self.panes.get(&number), beside(number.checked_add(1))]
    }

    /// Drops panes whose numbers are less.
    fn drop_below(&mut self, number: i128) {
        while let Some(pane) = self.panes.first_entry().filter(|pane| i128::from(*pane.key()) < number) {
            let pane = pane.remove();
            self.bytes -= pane.bytes();
            for of in pane.held {
                let place = &mut self.held[of as usize];
                let held = place.as_mut().expect("an envelope with rows in a pane is held");
                held.panes -= 1;
                if held.panes == 0 {
                    self.bytes -= held.bytes;
                    *place = None;
                    self.free.push(of);
                    self.dropped += 1;
                }
            }
        }
        // Dictionaries are counted again when most envelopes are others: each is looked at once or twice.
        if self.dropped > self.held.len() - self.free.len() {
            (self.stores, self.store_bytes, self.dropped) = (HeldBytes::default(), 0, 0);
            for held in self.held.iter().flatten() {
                self.store_bytes += self.stores.add(&held.envelope) - held.bytes;
            }
        }
    }

    fn clear(&mut self) {
        (self.panes, self.held, self.free) = (BTreeMap::new(), Vec::new(), Vec::new());
        (self.stores, self.store_bytes, self.dropped, self.bytes) = (HeldBytes::default(), 0, 0, 0);
    }
}

impl Pane {
    fn new() -> Pane {
        Pane { held: Vec::new(), entries: Vec::new(), chains: Vec::new() }
    }

    fn bytes(&self) -> u64 {
        let entries = self.entries.capacity() * size_of::<Entry>();
        (size_of::<Pane>() + entries + 4 * (self.chains.capacity() + self.held.capacity())) as u64
    }

    /// The first entry that may have this hash.
    fn first(&self, hash: u64) -> u32 {
        self.chains.get(hash as usize & self.chains.len().wrapping_sub(1)).copied().unwrap_or(NONE)
    }

    fn add(&mut self, mut entry: Entry) -> Result<(), BoxError> {
        let number = u32::try_from(self.entries.len()).ok().filter(|number| *number < NONE);
        let number = number.ok_or("a join keeps more than 2^32 rows of about one time")?;
        if self.entries.len() == self.chains.len() {
            self.chain_anew()?;
        }
        let chain = entry.hash as usize & (self.chains.len() - 1);
        entry.next = std::mem::replace(&mut self.chains[chain], number);
        self.entries.grow(1)?;
        self.entries.push(entry);
        Ok(())
    }

    /// Makes twice as many chains.
    #[cold]
    fn chain_anew(&mut self) -> Result<(), NoMemory> {
        let count = (2 * self.chains.len()).max(FEWEST);
        self.chains = Vec::<u32>::zeroed(count)?;
        self.chains.fill(NONE);
        for (number, entry) in (0..).zip(&mut self.entries) {
            entry.next = std::mem::replace(&mut self.chains[entry.hash as usize & (count - 1)], number);
        }
        Ok(())
    }
}

/// The time of a row, if it may have a partner.
fn time_of_row(envelope: &Envelope, side: &Side, row: usize) -> Option<i64> {
    let has_null = side.keys.iter().any(|&key| envelope.column(key).is_null(row));
    if has_null { None } else { time_at(envelope.column(side.time), row).and_then(|time| time.try_into().ok()) }
}

impl JoinNear {
    fn pane_of(&self, time: i64) -> i64 {
        time.div_euclid(self.near.distance.max(1))
    }

    fn begin(&mut self, input: usize, envelope: Envelope) -> Result<Passing, BoxError> {
        let side = &self.sides[input];
        hash_rows(&envelope, &side.keys, self.by, &mut self.hashes)?;
        let mut rows: Vec<Sought> = Vec::new();
        rows.grow(envelope.rows())?;
        rows.extend((0..envelope.rows()).filter_map(|row| {
            let time = time_of_row(&envelope, side, row)?;
            Some(Sought { pane: self.pane_of(time), time, row: row as u32 })
        }));
        // Rows of most streams are about in order.
        rows.sort_by_key(|row| row.pane);
        Ok(Passing { input, envelope, rows, at: 0, which: 0, next: None })
    }

    /// Looks for partners until there are enough for an envelope, or for a while. Whether all were looked for.
    fn pair(&mut self, passing: &mut Passing) -> Result<bool, NoMemory> {
        let (side, other) = (&self.sides[passing.input], &self.sides[1 - passing.input]);
        let (envelope, distance) = (&passing.envelope, self.near.distance);
        let columns: Vec<(&Column, usize)> =
            side.keys.iter().zip(&other.keys).map(|(&a, &b)| (envelope.column(a), b)).collect();
        self.partners.grow(self.limit.min(envelope.rows()).saturating_sub(self.partners.len()))?;
        self.rows.grow(self.limit.min(envelope.rows()).saturating_sub(self.rows.len()))?;
        let mut steps = STEPS;
        while let Some(&Sought { pane: number, .. }) = passing.rows.get(passing.at) {
            let near = other.near(number, distance);
            while let Some(&Sought { time, row, .. }) = passing.rows.get(passing.at).filter(|row| row.pane == number) {
                let hash = self.hashes[row as usize];
                for (which, pane) in near.iter().enumerate().skip(passing.which) {
                    let Some(pane) = pane else { continue };
                    let mut entry = passing.next.take().unwrap_or_else(|| pane.first(hash));
                    while entry != NONE {
                        if self.rows.len() == self.limit || steps == 0 {
                            (passing.which, passing.next) = (which, Some(entry));
                            return Ok(false);
                        }
                        steps -= 1;
                        let Entry { hash: other_hash, time: at, of, row: held, next } = pane.entries[entry as usize];
                        let is_equal = || {
                            let partner = other.envelope(of);
                            let mut columns = columns.iter();
                            columns.all(|&(column, b)| column.equals(row as usize, partner.column(b), held as usize))
                        };
                        if hash == other_hash && time.abs_diff(at) <= distance as u64 && is_equal() {
                            self.partners.push((of, held));
                            self.rows.push(row);
                        }
                        entry = next;
                    }
                }
                (passing.at, passing.which) = (passing.at + 1, 0);
            }
        }
        Ok(true)
    }

    /// Sends the pairs found.
    fn send(&mut self, passing: &Passing, turn: &mut Turn<'_>) {
        if self.rows.is_empty() {
            return;
        }
        let partners = &self.sides[1 - passing.input];
        let [own, other] = match &mut self.builders {
            [first, second] if passing.input == 0 => [first, second],
            [first, second] => [second, first],
        };
        own.reserve(turn, self.rows.len());
        own.gather(turn.blocks, passing.envelope.columns(), &self.rows);
        other.reserve(turn, self.rows.len());
        other.interleave(turn.blocks, &self.partners, |of| partners.envelope(of).columns());
        let [mut columns, others] = [own, other].map(|builder| builder.finish_columns(turn));
        match passing.input {
            0 => columns.extend(others),
            _ => columns = others.into_iter().chain(columns).collect(),
        }
        let mut attached = passing.envelope.attached().to_vec();
        let mut before = NONE;
        for &(of, _) in &self.partners {
            if of != before {
                Attachment::add_all(&mut attached, partners.envelope(of).attached());
            }
            before = of;
        }
        turn.send(0, Envelope::of_rows(columns, self.rows.len()).with(&attached));
        self.rows.clear();
        self.partners.clear();
    }

    /// Holds an envelope's rows for partners that come later.
    fn hold(&mut self, passing: Passing, turn: &Turn<'_>) -> Result<(), BoxError> {
        let Passing { input, envelope, rows, .. } = passing;
        if self.sides[1 - input].is_over || rows.is_empty() {
            return Ok(());
        }
        let side = &mut self.sides[input];
        let of = side.hold(envelope.compact())?;
        for rows in rows.chunk_by(|a, b| a.pane == b.pane) {
            side.add(of, rows, &self.hashes)?;
        }
        self.book(turn)
    }

    fn book(&self, turn: &Turn<'_>) -> Result<(), BoxError> {
        Ok(turn.book(self.sides.iter().map(|side| side.bytes + side.store_bytes).sum())?)
    }

    /// Drops rows of a stream whose partners all are before a watermark.
    fn drop_before(&mut self, input: usize, at: i128, turn: &Turn<'_>) -> Result<(), BoxError> {
        let time = at.div_euclid(self.near.scale) - i128::from(self.near.distance);
        let width = i128::from(self.near.distance.max(1));
        self.sides[input].drop_below(time.div_euclid(width));
        self.book(turn)
    }

    fn take_mark(&mut self, input: usize, mark: Mark, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if let Mark::Watermark(at) | Mark::Moment(at) = mark {
            check_unit(&self.near.schemas[input].columns()[self.near.times[input]], mark)?;
            self.drop_before(1 - input, at, turn)?;
        }
        self.marks.take(input, mark);
        self.pass_marks(turn)
    }

    fn pass_marks(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let back = i128::from(self.near.distance) * self.near.scale;
        while let Some(mark) = self.marks.next() {
            if let Mark::Watermark(at) | Mark::Moment(at) = mark {
                // An idle stream does not hold up the mark, and its older rows are late.
                (0..2).try_for_each(|input| self.drop_before(input, at, turn))?;
            }
            let mark = match mark {
                Mark::Watermark(at) => Mark::Watermark(at.saturating_sub(back)),
                Mark::Moment(at) => Mark::Moment(at.saturating_sub(back)),
                other => other,
            };
            turn.send_mark(0, mark);
        }
        Ok(())
    }

    /// Goes on with the envelope at hand. Whether it is done.
    fn pass(&mut self, turn: &mut Turn<'_>) -> Result<bool, BoxError> {
        let Some(mut passing) = self.passing.take() else { return Ok(true) };
        loop {
            if turn.is_stopped() {
                return Ok(true);
            }
            if !turn.ask_room(0) {
                self.passing = Some(passing);
                return Ok(false);
            }
            let is_done = self.pair(&mut passing)?;
            if is_done || self.rows.len() == self.limit {
                self.send(&passing, turn);
            }
            if is_done {
                self.hold(passing, turn)?;
                return Ok(true);
            }
        }
    }

    /// A stream is over: rows of the other one need not be held.
    fn end(&mut self, input: usize, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        self.sides[input].is_over = true;
        self.sides[1 - input].clear();
        self.book(turn)?;
        self.marks.end(input);
        self.pass_marks(turn)
    }
}

impl Operator for JoinNear {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let mut is_done = self.pass(turn)?;
        for input in 0..2 {
            if !is_done {
                break;
            }
            match turn.take(input) {
                None => {}
                Some(pill) if pill.is_pill() => self.end(input, turn)?,
                Some(envelope) => match envelope.mark() {
                    Some(mark) => self.take_mark(input, mark, turn)?,
                    None => {
                        self.marks.goes_on(input);
                        self.passing = Some(self.begin(input, envelope)?);
                        is_done = self.pass(turn)?;
                    }
                },
            }
        }
        let [first, second] = &self.sides;
        if first.is_over && second.is_over {
            if is_done {
                turn.send_pill(0);
            }
        } else if is_done && (first.is_over && first.panes.is_empty() || second.is_over && second.panes.is_empty()) {
            // No further row has a partner.
            (0..2).for_each(|input| turn.close(input));
            self.sides.iter_mut().for_each(|side| side.is_over = true);
            turn.send_pill(0);
            return Ok(());
        }
        if !is_done || (0..2).any(|input| turn.head(input).is_some()) {
            turn.run_again();
        }
        Ok(())
    }
}
