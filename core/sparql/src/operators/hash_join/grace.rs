//! A hash join with a built side larger than its memory.
//!
//! ```text
//!  built rows ── hash of keys ──┬─▶ table in memory ◀── probed at once ──┬── hash of keys ── probed rows
//!                               └─▶ partitions in files  in files, too ◀─┘
//!                                          └── joined one after the other, at the end ──┘
//! ```
//!
//! So equal keys meet: Shapiro, "Join processing in database systems with large main memories", TODS 11(3), 1986, §3.4
//! (hybrid hash join). The partitions to keep in memory are found while rows come, as in Nakayama, Kitsuregawa and
//! Takagi, "Hash-partitioned join method using dynamic destaging strategy", VLDB 1988: when there is no more room, the
//! largest one goes to its file. A partition that is too large is dealt again, by other bits of the hash. This does not
//! help if most of its rows have the same keys, or if the join has no keys that always agree. Such rows are joined in
//! *blocks*: a table takes as many built rows as fit, all probed rows of the partition are looked up in it, then come
//! the next ones. A bit for each probed row says whether it has a partner yet.
//!
//! Replicas share the files of the built side. Each has files of its own for its probing rows, and each makes the
//! tables of all partitions: no replica waits for another one.

use super::hash_table::{Builder, HashSpec, HashTable};
use crate::boxes::join::{Core, JoinKind, JoinSpec, Origin, PartnerBits, Probe};
use crate::boxes::scatter::{DEEPEST, Scatter, partition_of};
use crate::boxes::spill::{RowReader, RowRun, Spiller};
use crate::terms::Terms;
use std::sync::Arc;
use vicus_flow::library::HashKey;
use vicus_flow::{Attachment, BoxError, Column, Envelope, Grow, Turn};
use vicus_rdf::Id;

/// While a table is built, the rows are held twice (as they came, and in order), and the buckets; for loose keys, up to
/// 16 orders of the rows as well.
pub(super) fn held_for_table(hash: &HashSpec, bytes: u64) -> u64 {
    bytes * if hash.has_loose() { 6 } else { 3 }
}

/// The written columns of a side.
#[derive(Clone, Debug)]
struct Side {
    width: usize,
    /// Ascending. Unread columns are not written.
    written: Vec<usize>,
}

impl Side {
    fn new(width: usize, read: impl Iterator<Item = usize>) -> Side {
        let mut written: Vec<usize> = read.filter(|&column| column < width).collect();
        written.sort_unstable();
        written.dedup();
        Side { width, written }
    }

    /// The number of ids of a row in a file. A row without columns has one, too.
    fn ids(&self) -> usize {
        self.written.len().max(1)
    }

    /// The ids of one row.
    fn row(&self, columns: &[&[u64]], row: usize, into: &mut Vec<u64>) {
        into.clear();
        into.extend(columns.iter().map(|column| column[row]));
        into.resize(self.ids(), 0);
    }

    fn columns<'a>(&self, envelope: &'a Envelope) -> Vec<&'a [u64]> {
        self.written.iter().map(|&column| envelope.column(column).u64s()).collect()
    }

    /// Consecutive written rows as an envelope. Unread columns have any content.
    fn envelope(&self, ids: &[u64]) -> Envelope {
        let rows = ids.len() / self.ids();
        let mut written = (0..self.ids()).map(|place| {
            let mut values: Vec<u64> = Vec::new();
            values.grow_or_give_up(rows);
            values.extend(ids.iter().skip(place).step_by(self.ids()));
            Column::from(values)
        });
        let any = written.next().expect("a row has an id");
        let mut read = vec![any.clone(); self.width];
        for (&column, values) in self.written.iter().zip(std::iter::once(any).chain(written)) {
            read[column] = values;
        }
        Envelope::of_rows(read, rows)
    }
}

/// The built side of a join while its rows come: some partitions are in memory, the others in files.
pub(super) struct Dealing {
    terms: Arc<Terms>,
    hash: Arc<HashSpec>,
    side: Side,
    /// For each partition, its rows; none if it is in its file.
    waiting: Vec<Vec<u64>>,
    scatter: Scatter,
    /// The greatest number of bytes to hold.
    most: u64,
    row: Vec<u64>,
}

impl Dealing {
    /// Holds at most `most` bytes.
    pub(super) fn new(terms: &Arc<Terms>, hash: &Arc<HashSpec>, width: usize, most: u64) -> Dealing {
        let side = Side::new(width, hash.built());
        let scatter = Scatter::new(terms.spiller().expect("it may spill"), most, side.ids());
        let waiting = (0..scatter.partitions()).map(|_| Vec::new()).collect();
        Dealing { terms: Arc::clone(terms), hash: Arc::clone(hash), side, waiting, scatter, most, row: Vec::new() }
    }

    /// Takes rows.
    ///
    /// # Errors
    /// The disk is full, or the system refuses.
    pub(super) fn add(&mut self, turn: &Turn<'_>, envelope: &Envelope) -> Result<(), BoxError> {
        let keys = self.hash.strict_keys(&self.terms, envelope, |key| key.build);
        let keys: Vec<&[u64]> = keys.iter().map(Column::u64s).collect();
        let columns = self.side.columns(envelope);
        let (by, count) = (self.terms.key, self.waiting.len());
        for row in 0..envelope.rows() {
            let partition = self.hash.partition(by, &keys, row, 0, count);
            self.side.row(&columns, row, &mut self.row);
            if self.scatter.is_open(partition) {
                self.scatter.write(partition, &self.row)?;
            } else {
                self.waiting[partition].grow_or_give_up(self.row.len());
                self.waiting[partition].extend_from_slice(&self.row);
            }
        }
        while self.bytes() > self.most && !turn.is_stopped() {
            let largest =
                (0..count).max_by_key(|&partition| self.waiting[partition].capacity()).expect("there are some");
            let rows = std::mem::take(&mut self.waiting[largest]);
            if rows.is_empty() {
                break;
            }
            turn.blocking(|| self.scatter.write(largest, &rows))?;
        }
        Ok(())
    }

    /// Bytes held now, or once the table is made.
    fn bytes(&self) -> u64 {
        let waiting: usize = self.waiting.iter().map(Vec::capacity).sum();
        held_for_table(&self.hash, waiting as u64 * 8) + self.scatter.bytes()
    }

    /// Adds the rows in memory to a table. Returns the others.
    ///
    /// # Errors
    /// Errors of [`Dealing::add`].
    pub(super) fn finish(self, turn: &Turn<'_>, table: &mut Builder) -> Result<SpilledPartitions, BoxError> {
        for rows in self.waiting {
            if !rows.is_empty() {
                table.add(self.side.envelope(&rows));
            }
        }
        Ok(SpilledPartitions { partitions: self.scatter.finish(turn)?, side: self.side })
    }
}

/// The partitions of a built side in files. Attached to the table of the others.
pub(super) struct SpilledPartitions {
    /// `None` for those in memory.
    partitions: Vec<Option<Arc<RowRun>>>,
    side: Side,
}

impl SpilledPartitions {
    /// Bytes of memory.
    pub(super) fn held_bytes(&self) -> u64 {
        self.partitions.iter().flatten().map(|run| run.held_bytes()).sum()
    }
}

impl HashSpec {
    /// The partition of a row with these strict keys.
    fn partition(&self, by: HashKey, keys: &[&[u64]], row: usize, level: u32, count: usize) -> usize {
        partition_of(by, by.hash(keys.iter().map(|key| key[row])), level, count)
    }
}

/// A partition to be joined: both sides of it.
struct Task {
    level: u32,
    /// `None` if there are no rows.
    built: Option<Arc<RowRun>>,
    probed: Arc<RowRun>,
    /// Dealing it again would not make it smaller.
    is_whole: bool,
}

/// The current step of the box.
enum Now {
    /// Takes its input: rows of partitions in memory are looked up, the others are written.
    Streams(Scatter),
    /// Chooses the next task.
    Chooses,
    /// Reads the built rows of a task.
    Reads {
        task: Task,
        reader: RowReader,
        builder: Builder,
    },
    /// Deals a task's rows again: first the built ones, then the probed ones.
    Deals {
        task: Task,
        reader: RowReader,
        built: Scatter,
        probed: Option<Scatter>,
        dealt: Vec<Option<Arc<RowRun>>>,
    },
    /// Looks the probed rows of a task up in the table of all its built rows.
    Joins {
        reader: RowReader,
    },
    /// Joins in blocks.
    Blocks(Box<Blocks>),
    Ended,
}

/// A task joined in blocks.
struct Blocks {
    task: Task,
    /// The built rows behind the block at hand.
    built: RowReader,
    /// The probed rows at work: one for each bit.
    from: u64,
    to: u64,
    stage: Stage,
}

enum Stage {
    /// Reads the next block.
    Reads(Builder),
    /// Looks rows up in the table of the block; the number of the next row.
    Joins(RowReader, u64),
    /// Puts out the rows with, or without, a partner.
    PutsOut(RowReader, u64, PartnerBits),
}

/// A replica of a hash join with some partitions in files.
pub(super) struct Grace {
    terms: Arc<Terms>,
    hash: Arc<HashSpec>,
    spiller: Spiller,
    width: usize,
    limit: usize,
    /// Whether a row without partner is put out, or marked.
    keeps_lonely: bool,
    dealt: Attachment,
    probed: Side,
    now: Now,
    tasks: Vec<Task>,
    /// Bytes of the table at hand.
    table_bytes: u64,
    row: Vec<u64>,
}

impl Grace {
    /// For envelopes of at most `limit` rows; `width` is the number of built columns. `dealt` is a
    /// [`SpilledPartitions`].
    pub(super) fn new(
        terms: &Arc<Terms>,
        hash: &Arc<HashSpec>,
        spec: &Arc<JoinSpec>,
        width: usize,
        limit: usize,
        dealt: Attachment,
    ) -> Grace {
        let spiller = terms.spiller().expect("a table was spilled").clone();
        let origins = spec.output.iter().chain(&spec.condition_origins);
        let of_left = origins.filter_map(|origin| match origin {
            Origin::Left(column) | Origin::Merged(column, _) => Some(*column),
            Origin::Right(_) | Origin::Unbound | Origin::Marked => None,
        });
        let read: Vec<usize> = hash.probed().chain(of_left).collect();
        let all = read.iter().max().map_or(0, |last| last + 1);
        let probed = Side::new(all, read.into_iter());
        let count = dealt.value::<SpilledPartitions>().expect("it is one").partitions.len();
        let now = Now::Streams(Scatter::of(&spiller, terms.most_held(), probed.ids(), count));
        Grace {
            terms: Arc::clone(terms),
            hash: Arc::clone(hash),
            width,
            limit: limit.max(1),
            keeps_lonely: !matches!(spec.kind, JoinKind::Inner | JoinKind::Semi),
            dealt,
            probed,
            now,
            tasks: Vec::new(),
            table_bytes: 0,
            row: Vec::new(),
            spiller,
        }
    }

    fn dealt(&self) -> &SpilledPartitions {
        self.dealt.value().expect("it was given so")
    }

    /// One invocation.
    ///
    /// # Errors
    /// The disk is full, the system refuses, the read data differs from the written data, or the budget is used up.
    pub(super) fn act(
        &mut self,
        core: &mut Core,
        table: &mut Option<HashTable>,
        turn: &mut Turn<'_>,
    ) -> Result<(), BoxError> {
        self.now = match std::mem::replace(&mut self.now, Now::Ended) {
            Now::Streams(scatter) => self.stream(scatter, core, table, turn)?,
            Now::Chooses => self.choose(core, turn),
            Now::Reads { task, reader, builder } => self.read(task, reader, builder, table, turn)?,
            Now::Deals { task, reader, built, probed, dealt } => {
                self.deal_again(task, reader, built, probed, dealt, turn)?
            }
            Now::Joins { reader } => self.join(reader, core, table, turn)?,
            Now::Blocks(blocks) => self.join_blocks(blocks, core, table, turn)?,
            Now::Ended => return Ok(()),
        };
        if !matches!(self.now, Now::Streams(_) | Now::Ended) {
            turn.run_again();
        }
        core.hold(turn, self.bytes(table.as_ref()))
    }

    fn bytes(&self, table: Option<&HashTable>) -> u64 {
        let now = match &self.now {
            // The maker of the table booked it.
            Now::Streams(scatter) => scatter.bytes(),
            Now::Chooses | Now::Ended => 0,
            Now::Reads { builder, .. } => held_for_table(&self.hash, builder.bytes()),
            Now::Deals { built, probed, .. } => built.bytes() + probed.as_ref().map_or(0, Scatter::bytes),
            Now::Joins { .. } => self.table_bytes,
            Now::Blocks(blocks) => {
                let bits = (blocks.to - blocks.from) / 8;
                let builder = if let Stage::Reads(builder) = &blocks.stage { builder.bytes() } else { 0 };
                bits + self.table_bytes + held_for_table(&self.hash, builder)
            }
        };
        let tasks = self.tasks.iter();
        let runs = tasks.map(|task| task.probed.held_bytes() + task.built.as_ref().map_or(0, |run| run.held_bytes()));
        let loose = table.map_or(0, Probe::bytes);
        now + loose + runs.sum::<u64>()
    }

    /// How many bytes the rows of a table may have.
    fn room(&self) -> u64 {
        self.terms.most_held() / 4 * 3 / held_for_table(&self.hash, 1)
    }

    /// How many rows are read at once.
    fn portion(&self, ids: usize) -> usize {
        let rows = self.room() / (16 * ids as u64);
        (rows as usize).clamp(1, self.limit)
    }

    fn stream(
        &mut self,
        mut scatter: Scatter,
        core: &mut Core,
        table: &mut Option<HashTable>,
        turn: &mut Turn<'_>,
    ) -> Result<Now, BoxError> {
        if core.is_idle() {
            let Some(envelope) = turn.take(0) else { return Ok(Now::Streams(scatter)) };
            if envelope.is_pill() {
                *table = None;
                let probed = scatter.finish(turn)?;
                let built = self.dealt().partitions.iter().cloned();
                let both = probed.into_iter().zip(built).filter_map(|(probed, built)| Some((probed?, built)));
                let is_whole = !self.hash.has_strict();
                let tasks = both.map(|(probed, built)| Task { level: 0, built, probed, is_whole });
                self.tasks = tasks.collect();
                return Ok(Now::Chooses);
            }
            if let Some(envelope) = self.deal(&mut scatter, &envelope, turn)? {
                core.give(envelope);
            }
        }
        if !core.is_idle() {
            core.work(turn, table.as_mut().expect("it is there while the input comes"));
        }
        // A head that arrived while this envelope was at hand does not invoke the box again.
        if core.is_idle() && turn.head(0).is_some() {
            turn.run_again();
        }
        Ok(Now::Streams(scatter))
    }

    /// Writes the rows of partitions in files; returns the others.
    fn deal(
        &mut self,
        scatter: &mut Scatter,
        envelope: &Envelope,
        turn: &Turn<'_>,
    ) -> Result<Option<Envelope>, BoxError> {
        let keys = self.hash.strict_keys(&self.terms, envelope, |key| key.probe);
        let keys: Vec<&[u64]> = keys.iter().map(Column::u64s).collect();
        let columns = self.probed.columns(envelope);
        let in_files = &self.dealt.value::<SpilledPartitions>().expect("it was given so").partitions;
        let (by, mut here) = (self.terms.key, Vec::new());
        for row in 0..envelope.rows() {
            let partition = self.hash.partition(by, &keys, row, 0, in_files.len());
            if in_files[partition].is_none() {
                here.push(row as u32);
                continue;
            }
            self.probed.row(&columns, row, &mut self.row);
            if !envelope.attached().is_empty() {
                // Terms in files live until the run's end.
                self.row.iter_mut().for_each(|bits| *bits = self.terms.kept(Id::from_bits(*bits)).bits());
            }
            scatter.write(partition, &self.row)?;
        }
        if here.len() == envelope.rows() {
            return Ok(Some(envelope.clone()));
        }
        let columns = crate::boxes::slices(envelope);
        let part = crate::boxes::envelope_of(turn, columns.len(), here.len(), |builder| {
            for (place, column) in columns.iter().enumerate() {
                crate::boxes::gather(column, &here, &mut builder.u64s(place));
            }
        });
        Ok((!here.is_empty()).then(|| crate::boxes::attach(part, envelope.attached())))
    }

    fn choose(&mut self, core: &mut Core, turn: &mut Turn<'_>) -> Now {
        self.table_bytes = 0;
        let Some(task) = self.tasks.pop() else {
            core.end(turn);
            return Now::Ended;
        };
        if task.built.is_none() && !self.keeps_lonely {
            return Now::Chooses;
        }
        let builder = Builder::new(&self.terms, &self.hash, self.width);
        let reader = task.built.as_ref().unwrap_or(&task.probed).read();
        Now::Reads { task, reader, builder }
    }

    /// Adds the next rows to a table; false if there are none.
    fn add(&mut self, reader: &mut RowReader, builder: &mut Builder) -> Result<bool, BoxError> {
        let side = &self.dealt.value::<SpilledPartitions>().expect("it was given so").side;
        self.row.clear();
        let rows = reader.read(self.portion(side.ids()), &mut self.row)?;
        if rows > 0 {
            builder.add(side.envelope(&self.row));
        }
        Ok(rows > 0)
    }

    /// Makes a table of the read rows. False if the request was cancelled.
    fn build(&mut self, mut builder: Builder, table: &mut Option<HashTable>, turn: &Turn<'_>) -> bool {
        let Some((buckets, rows)) = builder.build(turn) else { return false };
        self.table_bytes = buckets.bytes() + rows.bytes();
        *table = Some(HashTable::new(&self.terms, &self.hash, self.width, &buckets, rows));
        true
    }

    fn read(
        &mut self,
        task: Task,
        mut reader: RowReader,
        mut builder: Builder,
        table: &mut Option<HashTable>,
        turn: &Turn<'_>,
    ) -> Result<Now, BoxError> {
        for _ in 0..PORTIONS {
            if task.built.is_none() || !self.add(&mut reader, &mut builder)? {
                let is_built = self.build(builder, table, turn);
                let reader = task.probed.read();
                return Ok(if is_built { Now::Joins { reader } } else { Now::Ended });
            }
            if builder.bytes() <= self.room() {
                continue;
            }
            if self.hash.reduces() {
                if builder.reduce(turn).is_none() {
                    return Ok(Now::Ended);
                }
                if builder.bytes() <= self.room() / 2 {
                    continue;
                }
            }
            if task.is_whole || task.level >= DEEPEST {
                return Ok(self.begin_blocks(task));
            }
            let side = &self.dealt().side;
            let built = Scatter::new(&self.spiller, self.terms.most_held(), side.ids());
            let reader = task.built.as_ref().expect("there are rows").read();
            return Ok(Now::Deals { task, reader, built, probed: None, dealt: Vec::new() });
        }
        Ok(Now::Reads { task, reader, builder })
    }

    fn deal_again(
        &mut self,
        task: Task,
        mut reader: RowReader,
        mut built: Scatter,
        mut probed: Option<Scatter>,
        mut dealt: Vec<Option<Arc<RowRun>>>,
        turn: &Turn<'_>,
    ) -> Result<Now, BoxError> {
        let level = task.level + 1;
        let by = self.terms.key;
        for _ in 0..PORTIONS {
            let side = if probed.is_some() {
                &self.probed
            } else {
                &self.dealt.value::<SpilledPartitions>().expect("it was").side
            };
            let mut ids = std::mem::take(&mut self.row);
            ids.clear();
            let rows = reader.read(self.portion(side.ids()), &mut ids)?;
            if rows == 0 {
                self.row = ids;
                let Some(probed) = probed else {
                    let all = std::mem::replace(&mut built, Scatter::new(&self.spiller, self.terms.most_held(), 1));
                    dealt = all.finish(turn)?;
                    let next = Scatter::new(&self.spiller, self.terms.most_held(), self.probed.ids());
                    let reader = task.probed.read();
                    return Ok(Now::Deals { task, reader, built, probed: Some(next), dealt });
                };
                let all = task.built.as_ref().map_or(0, |run| run.rows());
                let both = probed.finish(turn)?.into_iter().zip(dealt);
                let both = both.filter_map(|(probed, built)| Some((probed?, built)));
                self.tasks.extend(both.map(|(probed, built)| {
                    let is_whole = built.as_ref().is_some_and(|built| built.rows() == all);
                    Task { level, built, probed, is_whole }
                }));
                return Ok(Now::Chooses);
            }
            let envelope = side.envelope(&ids);
            let is_built = probed.is_none();
            let keys =
                self.hash.strict_keys(&self.terms, &envelope, |key| if is_built { key.build } else { key.probe });
            let keys: Vec<&[u64]> = keys.iter().map(Column::u64s).collect();
            let scatter = probed.as_mut().unwrap_or(&mut built);
            let count = scatter.partitions();
            for (row, ids) in ids.chunks_exact(side.ids()).enumerate() {
                scatter.write(self.hash.partition(by, &keys, row, level, count), ids)?;
            }
            self.row = ids;
        }
        Ok(Now::Deals { task, reader, built, probed, dealt })
    }

    /// Reads the next probed rows; `None` if there are none.
    fn probe(&mut self, reader: &mut RowReader, most: usize) -> Result<Option<Envelope>, BoxError> {
        self.row.clear();
        let rows = reader.read(self.portion(self.probed.ids()).min(most), &mut self.row)?;
        Ok((rows > 0).then(|| self.probed.envelope(&self.row)))
    }

    fn join(
        &mut self,
        mut reader: RowReader,
        core: &mut Core,
        table: &mut Option<HashTable>,
        turn: &mut Turn<'_>,
    ) -> Result<Now, BoxError> {
        if core.is_idle() {
            let Some(envelope) = self.probe(&mut reader, usize::MAX)? else {
                *table = None;
                return Ok(Now::Chooses);
            };
            core.give(envelope);
        }
        core.work(turn, table.as_mut().expect("it was made of the task's rows"));
        Ok(Now::Joins { reader })
    }

    fn begin_blocks(&self, task: Task) -> Now {
        let built = task.built.as_ref().expect("there are rows").read();
        let to = self.segment(&task, 0);
        let stage = Stage::Reads(Builder::new(&self.terms, &self.hash, self.width));
        Now::Blocks(Box::new(Blocks { task, built, from: 0, to, stage }))
    }

    /// The end of the probed rows joined together with those from `from` on.
    fn segment(&self, task: &Task, from: u64) -> u64 {
        // An eighth of the memory is for their bits.
        task.probed.rows().min(from.saturating_add(self.terms.most_held().clamp(64, 1 << 31)))
    }

    fn join_blocks(
        &mut self,
        mut blocks: Box<Blocks>,
        core: &mut Core,
        table: &mut Option<HashTable>,
        turn: &mut Turn<'_>,
    ) -> Result<Now, BoxError> {
        blocks.stage =
            match std::mem::replace(&mut blocks.stage, Stage::Reads(Builder::new(&self.terms, &self.hash, 0))) {
                Stage::Reads(mut builder) => {
                    let mut has_more = true;
                    for _ in 0..PORTIONS {
                        has_more = has_more && self.add(&mut blocks.built, &mut builder)?;
                        if !has_more || builder.bytes() > self.room() {
                            break;
                        }
                    }
                    if has_more && builder.bytes() <= self.room() {
                        Stage::Reads(builder)
                    } else if builder.is_empty() {
                        // All blocks were joined.
                        let noted = core.note(None).unwrap_or_default();
                        Stage::PutsOut(blocks.task.probed.read_from(blocks.from)?, blocks.from, noted)
                    } else {
                        if !self.build(builder, table, turn) {
                            return Ok(Now::Ended);
                        }
                        if core.kind() != JoinKind::Inner && core.noted().is_none() {
                            let bits = (blocks.to - blocks.from).div_ceil(64) as usize;
                            core.note(Some(PartnerBits {
                                rows: Vec::new(),
                                has_partner: crate::boxes::had(Vec::zeroed(bits)),
                            }));
                        }
                        Stage::Joins(blocks.task.probed.read_from(blocks.from)?, blocks.from)
                    }
                }
                Stage::Joins(mut reader, mut next) => {
                    let is_given = !core.is_idle() || self.give_segment(&mut reader, &mut next, &blocks, core)?;
                    if !core.is_idle() {
                        core.work(turn, table.as_mut().expect("it was made of a block"));
                    }
                    if is_given || next < blocks.to {
                        Stage::Joins(reader, next)
                    } else {
                        *table = None;
                        self.table_bytes = 0;
                        Stage::Reads(Builder::new(&self.terms, &self.hash, self.width))
                    }
                }
                Stage::PutsOut(mut reader, next, noted) => {
                    let left = usize::try_from(blocks.to - next).unwrap_or(usize::MAX);
                    let envelope = if core.kind() == JoinKind::Inner { None } else { self.probe(&mut reader, left)? };
                    if let Some(envelope) = envelope {
                        let first = (next - blocks.from) as usize;
                        core.put_out_noted(&envelope, |row| noted.has_partner(first + row), turn);
                        Stage::PutsOut(reader, next + envelope.rows() as u64, noted)
                    } else if blocks.to == blocks.task.probed.rows() {
                        return Ok(Now::Chooses);
                    } else {
                        let from = blocks.to;
                        blocks.built = blocks.task.built.as_ref().expect("there are rows").read();
                        (blocks.from, blocks.to) = (from, self.segment(&blocks.task, from));
                        Stage::Reads(Builder::new(&self.terms, &self.hash, self.width))
                    }
                }
            };
        Ok(Now::Blocks(blocks))
    }

    /// Gives the next rows of a segment to the join, except for rows in no need of a further partner; false if there
    /// are none.
    fn give_segment(
        &mut self,
        reader: &mut RowReader,
        next: &mut u64,
        blocks: &Blocks,
        core: &mut Core,
    ) -> Result<bool, BoxError> {
        let left = usize::try_from(blocks.to - *next).unwrap_or(usize::MAX);
        let Some(envelope) = self.probe(reader, left)? else { return Ok(false) };
        let first = (*next - blocks.from) as u32;
        *next += envelope.rows() as u64;
        let needs_all = matches!(core.kind(), JoinKind::Inner | JoinKind::Left);
        let Some(noted) = core.noted() else {
            core.give(envelope);
            return Ok(true);
        };
        let mut rows = std::mem::take(&mut noted.rows);
        rows.clear();
        rows.extend((first..).take(envelope.rows()).filter(|&row| needs_all || !noted.has_partner(row as usize)));
        let is_all = rows.len() == envelope.rows();
        let kept: Vec<u32> = if is_all { Vec::new() } else { rows.iter().map(|row| row - first).collect() };
        noted.rows = rows;
        if is_all {
            core.give(envelope);
        } else if !kept.is_empty() {
            let gathered = |column: &Column| kept.iter().map(|&row| column.u64s()[row as usize]).collect::<Vec<u64>>();
            let columns: Vec<Column> = envelope.columns().iter().map(|column| gathered(column).into()).collect();
            core.give(Envelope::of_rows(columns, kept.len()));
        }
        Ok(true)
    }
}

/// How many portions of rows are read in one invocation.
const PORTIONS: usize = 16;
