//! The two boxes of a join: one puts the rows of one side into a table, the other one looks those of the other side up.
//!
//! The table is attached to an envelope shared by all readers. Without keys it has one group, and each row meets all
//! rows of the other side, a batch of pairs at a time.
//!
//! If the budget has no room for the table, the rows of its side go out of memory, in parts by the hash of their keys.
//! Then tables of parts follow each other. A reader puts its own rows into parts as well, and looks those of a part up
//! when the part's table comes. It takes the next table when it has done with the one before, and the via between them
//! holds one; so three of them are in memory at most.

use super::keys::{KeyTable, KeyWriter, columns_of};
use super::pairs::Pairs;
use crate::evaluate::{Batch, Room, Texts, Vector, evaluate, gather, gathered, nulls, selected};
use crate::expression::Expr;
use crate::relation::JoinKind;
use crate::types::SqlType;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vicus_flow::library::{DEEPEST, Parts, Spilled};
use vicus_flow::{Attachment, BoxError, Column, Envelope, Field, Grow, HeldBytes, Operator, Schema, Turn};

/// The common data of a join's two boxes.
pub(crate) struct JoinSpec {
    pub(crate) kind: JoinKind,
    /// Over the columns of the left side, the probing one, and of the right side, the built one.
    pub(crate) left_keys: Vec<Expr>,
    pub(crate) right_keys: Vec<Expr>,
    /// Over the columns of both sides, the left ones first.
    pub(crate) residual: Vec<Expr>,
    pub(crate) membership: Option<Expr>,
    pub(crate) is_null_aware: bool,
    /// The sent columns, by their places among those of both sides; behind these is the mark.
    pub(crate) wanted: Vec<usize>,
    pub(crate) left_width: usize,
    pub(crate) right_kinds: Vec<SqlType>,
    pub(crate) left_kinds: Vec<SqlType>,
    pub(crate) seed: u64,
    /// The greatest number of rows of an envelope.
    pub(crate) limit: usize,
}

impl JoinSpec {
    fn sends_pairs(&self) -> bool {
        matches!(self.kind, JoinKind::Inner | JoinKind::Left | JoinKind::Full)
    }

    /// Whether more than the mere presence of a group's rows matters.
    fn checks_pairs(&self) -> bool {
        !self.residual.is_empty() || self.membership.is_some()
    }

    fn keeps_rows(&self) -> bool {
        self.sends_pairs() || self.checks_pairs()
    }

    fn key_kinds(&self) -> Vec<SqlType> {
        self.right_keys.iter().map(Expr::kind).collect()
    }
}

/// The rows of the right side, by their keys.
pub(crate) struct JoinTable {
    chunks: Vec<Envelope>,
    /// All kept rows: their chunk and their place there.
    rows: Vec<(u32, u32)>,
    keys: KeyTable,
    /// The rows of group `g` are `members[starts[g]..starts[g + 1]]`, by their place in `rows`.
    starts: Vec<u32>,
    members: Vec<u32>,
    /// The number of rows, including dropped ones.
    count: u64,
    /// Whether some key was null.
    has_null: bool,
    /// The part whose rows it has, if the side was divided: its number at each level of parts.
    part: Option<Vec<u8>>,
}

const NO_GROUP: u32 = u32::MAX;

impl JoinTable {
    fn group(&self, group: u32) -> &[u32] {
        let group = group as usize;
        match self.starts.get(group + 1) {
            Some(&end) => &self.members[self.starts[group] as usize..end as usize],
            None => &[],
        }
    }

    /// A column of these rows, or of nulls.
    ///
    /// # Errors
    /// There is no room for its texts.
    fn column(
        &self,
        place: usize,
        kind: &SqlType,
        rows: impl Iterator<Item = Option<u32>> + Clone,
        room: &Room<'_>,
    ) -> Result<Column, BoxError> {
        gathered(
            kind,
            rows.map(|row| {
                let (chunk, row) = self.rows[row? as usize];
                Some((self.chunks[chunk as usize].column(place), row as usize))
            }),
            room,
        )
    }
}

/// Builds the table of all rows of its input.
pub(crate) struct JoinBuild {
    spec: Arc<JoinSpec>,
    /// The columns of rows out of memory, if they may go there: the side's, or those of its keys if these are enough.
    beyond: Option<Schema>,
    /// The rows for which there is no memory.
    divided: Option<Parts>,
    /// The part that is read now, in place of the input.
    reading: Option<Part>,
    /// The parts that are still to be read, the first one last.
    unread: Vec<Part>,
    /// The bytes of the last two tables that were sent: readers may have them.
    sent: [u64; 2],
    table: JoinTable,
    /// The group of each row.
    groups: Vec<u32>,
    chunk_bytes: u64,
    held: HeldBytes,
    texts: Texts,
}

/// Rows with the same bits of their hashes.
struct Part {
    rows: Spilled,
    level: u32,
    path: Vec<u8>,
}

impl Part {
    /// The parts of a part's rows.
    fn of(parts: Parts, path: &[u8]) -> impl Iterator<Item = Part> {
        let path = path.to_vec();
        parts.into_queues().zip(0..).map(move |((rows, level), number)| {
            let path = path.iter().copied().chain([number]).collect();
            Part { rows, level, path }
        })
    }
}

/// The rows of an envelope, by their places, with the hashes of their keys.
type Hashed = Vec<(u32, u64)>;

/// So many tables of parts may be in memory: one that is made, one that is sent, and one that is read.
const TABLES: u64 = 3;

impl JoinBuild {
    /// `right` are the columns of its side, if parts of it may go out of memory.
    pub(crate) fn new(spec: &Arc<JoinSpec>, right: Option<&Schema>) -> JoinBuild {
        let beyond = right.filter(|_| !spec.right_keys.is_empty()).map(|right| match spec.keeps_rows() {
            true => right.clone(),
            false => spec.key_kinds().iter().map(|kind| Field::new("key", kind.flow_type()).or_null()).collect(),
        });
        JoinBuild {
            spec: Arc::clone(spec),
            beyond,
            divided: None,
            reading: None,
            unread: Vec::new(),
            sent: [0; 2],
            table: JoinBuild::empty(spec),
            groups: Vec::new(),
            chunk_bytes: 0,
            held: HeldBytes::default(),
            texts: Texts::default(),
        }
    }

    fn empty(spec: &JoinSpec) -> JoinTable {
        JoinTable {
            chunks: Vec::new(),
            rows: Vec::new(),
            keys: KeyTable::new(spec.seed),
            starts: Vec::new(),
            members: Vec::new(),
            count: 0,
            has_null: false,
            part: None,
        }
    }

    /// Begins with a new table, which knows what all rows together are.
    fn begin(&mut self) -> JoinTable {
        let JoinTable { count, has_null, .. } = self.table;
        (self.groups, self.chunk_bytes, self.held) = (Vec::new(), 0, HeldBytes::default());
        std::mem::replace(&mut self.table, JoinTable { count, has_null, ..JoinBuild::empty(&self.spec) })
    }

    /// Takes an envelope of its side, or of a part of it.
    fn accept(&mut self, envelope: Envelope, turn: &Turn<'_>) -> Result<(), BoxError> {
        if self.reading.is_none() {
            self.table.count += envelope.rows() as u64;
        }
        let level = self.reading.as_ref().map_or(0, |part| part.level);
        let times = if self.reading.is_some() { TABLES } else { 1 };
        if let Some(schema) = self.beyond.as_ref().filter(|_| self.divided.is_none() && self.table.keys.len() > 0)
            && level < DEEPEST
            && Spilled::is_possible(turn)
        {
            let (rows, bytes) = (envelope.rows() as u64, envelope.bytes());
            let grows = self.table.keys.grows(envelope.rows(), bytes as usize);
            let held = if grows { 2 * self.held() } else { self.held() };
            let more = 4 * (self.groups.len() + self.table.keys.len()) as u64;
            let wanted = times * (held + 2 * bytes + 32 * rows + more);
            if turn.book(wanted.max(held + self.sent.iter().sum::<u64>())).is_err() {
                let parts = Parts::begin(turn, schema, level)?;
                self.divide(parts, turn)?;
            }
        }
        if self.divided.is_some() {
            return self.put(envelope, turn);
        }
        let mut texts = std::mem::take(&mut self.texts);
        texts.book(turn, self.held(), |room| self.add(envelope, room))?;
        self.texts = texts;
        Ok(turn.book(self.held() + self.sent.iter().sum::<u64>())?)
    }

    /// Puts the rows of the table into parts.
    fn divide(&mut self, parts: Parts, turn: &Turn<'_>) -> Result<(), BoxError> {
        self.divided = Some(parts);
        let table = self.begin();
        for envelope in table.chunks {
            self.put(envelope, turn)?;
        }
        let keys = if self.spec.keeps_rows() { 0 } else { table.keys.len() };
        let kinds = self.spec.key_kinds();
        for first in (0..keys).step_by(self.spec.limit.max(1)) {
            let range = first..keys.min(first + self.spec.limit.max(1));
            let rows = range.len();
            let hashed = range.clone().zip(0..).map(|(key, row)| (row, table.keys.hash(table.keys.key(key))));
            let keys = range.clone().map(|key| table.keys.key(key));
            let columns = columns_of(keys, &kinds, &Room::new(&|_| Ok(())))?;
            let parts = self.divided.as_mut().expect("it was just made");
            parts.put(turn, &Envelope::of_rows(columns, rows), hashed)?;
        }
        Ok(turn.book(self.sent.iter().sum())?)
    }

    /// Puts rows into parts.
    fn put(&mut self, envelope: Envelope, turn: &Turn<'_>) -> Result<(), BoxError> {
        if !envelope.attached().is_empty() {
            return Err("there is no memory for more, and values are attached to rows that would be divided".into());
        }
        let mut texts = std::mem::take(&mut self.texts);
        let (envelope, hashed) = texts.book(turn, 0, |room| self.hashed(envelope, room))?;
        self.texts = texts;
        let parts = self.divided.as_mut().expect("there are parts");
        parts.put(turn, &envelope, hashed.into_iter())
    }

    /// The keys of rows.
    fn keys(&self, batch: &Batch, room: &Room<'_>) -> Result<Vec<Vector>, BoxError> {
        match self.reading.is_some() && !self.spec.keeps_rows() {
            true => Ok(batch.columns.iter().cloned().map(Vector::Many).collect()),
            false => self.spec.right_keys.iter().map(|key| evaluate(key, batch, room)).collect(),
        }
    }

    /// Rows as they go out of memory, and those of them that are needed.
    fn hashed(&mut self, envelope: Envelope, room: &Room<'_>) -> Result<(Envelope, Hashed), BoxError> {
        let batch = Batch { columns: envelope.columns().to_vec(), rows: envelope.rows() };
        let (keys, kinds) = (self.keys(&batch, room)?, self.spec.key_kinds());
        let (writer, mut key, mut hashed) = (KeyWriter::new(&keys, &kinds, room)?, Vec::new(), Vec::new());
        for row in 0..batch.rows {
            let is_null = writer.write(row, &mut key);
            self.table.has_null |= is_null;
            if !is_null || self.spec.kind == JoinKind::Full {
                hashed.push((row as u32, self.table.keys.hash(&key)));
            }
        }
        if self.spec.keeps_rows() {
            return Ok((envelope, hashed));
        }
        let columns = keys.into_iter().zip(&kinds).map(|(key, kind)| key.into_column(kind, batch.rows, room));
        Ok((Envelope::of_rows(columns.collect::<Result<_, _>>()?, batch.rows), hashed))
    }

    /// All rows of its side, or of a part, are there: sends their table, or goes on with the first part of them.
    fn end(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let path = self.reading.take().map(|part| part.path);
        if let Some(parts) = self.divided.take() {
            let mut parts: Vec<Part> = Part::of(parts, &path.unwrap_or_default()).collect();
            parts.reverse();
            self.unread.extend(parts);
        } else {
            self.finish(turn)?;
            self.table.part = path;
            self.sent = [self.held(), self.sent[0]];
            let table = Arc::new(self.begin());
            turn.send(0, Envelope::of_rows(Vec::new(), 1).with(&[Attachment::new(table, 0)]));
        }
        self.reading = self.unread.pop();
        if self.reading.is_some() {
            self.begin();
            turn.run_again();
        } else {
            turn.send_pills();
        }
        Ok(())
    }

    fn held(&self) -> u64 {
        let JoinTable { rows, keys, starts, members, .. } = &self.table;
        let words = 2 * rows.capacity() + starts.capacity() + members.capacity() + self.groups.capacity();
        self.chunk_bytes + keys.held() + 4 * words as u64
    }

    fn add(&mut self, envelope: Envelope, room: &Room<'_>) -> Result<(), BoxError> {
        let (rows, keeps) = (envelope.rows(), self.spec.keeps_rows());
        let envelope = envelope.compact();
        let batch = Batch { columns: envelope.columns().to_vec(), rows };
        let keys = self.keys(&batch, room)?;
        let (table, spec) = (&mut self.table, &self.spec);
        let kinds = spec.key_kinds();
        let (writer, mut key) = (KeyWriter::new(&keys, &kinds, room)?, Vec::new());
        if keeps {
            u32::try_from(table.rows.len() + rows).map_err(|_| "a join's table has more than four billion rows")?;
            self.groups.grow(rows)?;
            table.rows.grow(rows)?;
        }
        let chunk = table.chunks.len() as u32;
        let mut codes = writer.of_codes(rows, room)?;
        for row in 0..rows {
            let mut find = || {
                let is_null = writer.write(row, &mut key);
                table.has_null |= is_null;
                // A null equals nothing.
                if is_null { Ok(NO_GROUP) } else { table.keys.number(&key, room) }
            };
            let group = match &mut codes {
                Some(codes) => codes.number(row, find)?,
                None => find()?,
            };
            // Rows without a group are needed by a full join alone.
            if keeps && (group != NO_GROUP || spec.kind == JoinKind::Full) {
                self.groups.push(group);
                table.rows.push((chunk, row as u32));
            }
        }
        if keeps {
            self.chunk_bytes += self.held.add(&envelope);
            table.chunks.grow(1)?;
            table.chunks.push(envelope);
        }
        Ok(())
    }

    /// Sorts the rows by their groups.
    fn finish(&mut self, turn: &Turn<'_>) -> Result<(), BoxError> {
        let more = 4 * (self.table.keys.len() + 1 + self.groups.len()) as u64;
        turn.book(self.held() + more)?;
        let table = &mut self.table;
        table.starts = Vec::zeroed(table.keys.len() + 1)?;
        let grouped = || self.groups.iter().filter(|&&group| group != NO_GROUP);
        grouped().for_each(|&group| table.starts[group as usize] += 1);
        let mut sum = 0;
        for start in &mut table.starts {
            sum += std::mem::replace(start, sum);
        }
        table.members = Vec::zeroed(sum as usize)?;
        for (row, &group) in self.groups.iter().enumerate().filter(|(_, group)| **group != NO_GROUP) {
            let place = &mut table.starts[group as usize];
            table.members[*place as usize] = row as u32;
            *place += 1;
        }
        // Each start is now the next one's.
        table.starts.insert(0, 0);
        table.starts.pop();
        self.groups = Vec::new();
        turn.book(self.held())?;
        Ok(())
    }
}

impl Operator for JoinBuild {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if let Some(part) = &mut self.reading {
            // The table before has been taken by all readers, or there is room for it.
            if !turn.ask_room(0) {
                turn.run_again();
                return Ok(());
            }
            return match part.rows.pop()? {
                None => self.end(turn),
                Some(envelope) => {
                    turn.run_again();
                    self.accept(envelope, turn)
                }
            };
        }
        match turn.take(0) {
            None => Ok(()),
            Some(envelope) if envelope.mark().is_some() => Ok(()),
            Some(pill) if pill.is_pill() => self.end(turn),
            Some(envelope) => self.accept(envelope, turn),
        }
    }
}

/// Looks the rows of input 0 up in the table from input 1. Until the table is there, the rows stay queued.
pub(crate) struct JoinProbe {
    spec: Arc<JoinSpec>,
    /// The columns read by conditions, by their places among those of both sides.
    checked: BTreeSet<usize>,
    table: Option<Attachment>,
    current: Option<Current>,
    /// For a full join: the rows of the table that met a partner.
    met: Vec<bool>,
    /// For a full join, once all left rows have come: the number of table rows looked at.
    rest: Option<usize>,
    texts: Texts,
    /// The columns of its rows.
    left: Schema,
    /// Its rows out of memory, if the tables are those of parts.
    beyond: Option<Beyond>,
}

/// The rows of a reader of tables of parts.
struct Beyond {
    /// While rows come.
    coming: Option<Parts>,
    /// By their parts, which were divided no deeper than was asked for.
    parts: BTreeMap<Vec<u8>, Part>,
    /// The rows of the table's part.
    current: Option<Spilled>,
}

/// An envelope with rows being looked up.
struct Current {
    batch: Batch,
    attached: Vec<Attachment>,
    pairs: Pairs,
    /// For each row: a partner was found; and whether there is one is not known.
    matched: Vec<bool>,
    unknown: Vec<bool>,
}

impl JoinProbe {
    /// `left` are the columns of its rows.
    pub(crate) fn new(spec: &Arc<JoinSpec>, left: &Schema) -> JoinProbe {
        let conditions = spec.residual.iter().chain(&spec.membership);
        let checked = conditions.flat_map(Expr::columns).map(|column| column.0 as usize).collect();
        JoinProbe {
            spec: Arc::clone(spec),
            checked,
            table: None,
            current: None,
            met: Vec::new(),
            rest: None,
            texts: Texts::default(),
            left: left.clone(),
            beyond: None,
        }
    }

    /// Takes a table from its input. Whether there is one to work with.
    fn next_table(&mut self, turn: &mut Turn<'_>) -> Result<bool, BoxError> {
        let Some(envelope) = turn.take(1) else { return Ok(false) };
        if envelope.is_pill() {
            // Behind the table of the last part.
            turn.send_pills();
            return Ok(false);
        }
        let is_table = |one: &&Attachment| one.value::<JoinTable>().is_some();
        self.table = envelope.attached().iter().find(is_table).cloned();
        let table = self.table.as_ref().and_then(Attachment::value::<JoinTable>);
        let table = table.expect("the build box attaches its table");
        if self.spec.kind == JoinKind::Full {
            self.met = vec![false; table.rows.len()];
        }
        if table.part.is_some() {
            if self.beyond.is_none() {
                let coming = Some(Parts::begin(turn, &self.left, 0)?);
                self.beyond = Some(Beyond { coming, parts: BTreeMap::new(), current: None });
            }
            return Ok(true);
        }
        turn.record_kept(1);
        turn.close(1);
        if matches!(self.spec.kind, JoinKind::Inner | JoinKind::Semi) && table.count == 0 {
            // No row has a partner.
            turn.close(0);
            turn.send_pill(0);
            return Ok(false);
        }
        Ok(true)
    }

    /// The rows of an envelope with the hashes of their keys.
    fn hashed(&self, envelope: &Envelope, table: &JoinTable, room: &Room<'_>) -> Result<Hashed, BoxError> {
        let batch = Batch { columns: envelope.columns().to_vec(), rows: envelope.rows() };
        let keys = self.spec.left_keys.iter().map(|key| evaluate(key, &batch, room)).collect::<Result<Vec<_>, _>>()?;
        let kinds = self.spec.key_kinds();
        let (writer, mut key) = (KeyWriter::new(&keys, &kinds, room)?, Vec::new());
        let row = |row: u32| {
            writer.write(row as usize, &mut key);
            (row, table.keys.hash(&key))
        };
        Ok((0..batch.rows as u32).map(row).collect())
    }

    /// Puts rows into parts.
    fn put(
        &mut self,
        envelope: &Envelope,
        table: &JoinTable,
        into: &mut Parts,
        turn: &Turn<'_>,
    ) -> Result<(), BoxError> {
        if !envelope.attached().is_empty() {
            return Err("there is no memory for more, and values are attached to rows that would be divided".into());
        }
        let mut texts = std::mem::take(&mut self.texts);
        let hashed = texts.book(turn, 0, |room| self.hashed(envelope, table, room))?;
        self.texts = texts;
        into.put(turn, envelope, hashed.into_iter())
    }

    /// Its rows of a part; the part around it is divided if need be.
    fn rows_of(&mut self, path: &[u8], table: &JoinTable, turn: &Turn<'_>) -> Result<Spilled, BoxError> {
        loop {
            let parts = &mut self.beyond.as_mut().expect("tables are of parts").parts;
            if let Some(part) = parts.remove(path) {
                return Ok(part.rows);
            }
            let around = (1..path.len()).rev().find_map(|length| parts.remove(&path[..length]));
            let Some(mut around) = around else {
                return Err("the part of a join's table has no rows to be looked up".into());
            };
            let mut into = Parts::begin(turn, &self.left, around.level)?;
            while let Some(envelope) = around.rows.pop()? {
                self.put(&envelope, table, &mut into, turn)?;
            }
            let parts = &mut self.beyond.as_mut().expect("tables are of parts").parts;
            parts.extend(Part::of(into, &around.path).map(|part| (part.path.clone(), part)));
        }
    }

    /// The next envelope of its rows, `Some(None)` behind the last one; nothing if it has not come.
    fn next_rows(&mut self, table: &JoinTable, turn: &mut Turn<'_>) -> Result<Option<Option<Envelope>>, BoxError> {
        let Some(path) = &table.part else {
            return Ok(turn.take(0).map(|envelope| (!envelope.is_pill()).then_some(envelope)));
        };
        let beyond = self.beyond.as_mut().expect("tables are of parts");
        if let Some(mut coming) = beyond.coming.take() {
            match turn.take(0) {
                Some(pill) if pill.is_pill() => {
                    beyond.parts = Part::of(coming, &[]).map(|part| (part.path.clone(), part)).collect();
                    turn.run_again();
                    return Ok(None);
                }
                // Rows leave at the end of their stream, and no mark goes before them.
                Some(envelope) if envelope.mark().is_none() => self.put(&envelope, table, &mut coming, turn)?,
                _ => {}
            }
            if turn.head(0).is_some() {
                turn.run_again();
            }
            self.beyond.as_mut().expect("it is there").coming = Some(coming);
            return Ok(None);
        }
        if beyond.current.is_none() {
            let rows = self.rows_of(path, table, turn)?;
            self.beyond.as_mut().expect("it is there").current = Some(rows);
        }
        let current = self.beyond.as_mut().and_then(|beyond| beyond.current.as_mut()).expect("it was just put");
        let has_partners = !matches!(self.spec.kind, JoinKind::Inner | JoinKind::Semi) || table.keys.len() > 0;
        let next = if has_partners { current.pop()? } else { None };
        turn.run_again();
        Ok(Some(next))
    }

    /// Begins with an envelope.
    fn begin(&self, envelope: Envelope, table: &JoinTable, room: &Room<'_>) -> Result<Current, BoxError> {
        let spec = &self.spec;
        let (attached, rows) = (envelope.attached().to_vec(), envelope.rows());
        let batch = Batch { columns: envelope.into_columns(), rows };
        let keys = spec.left_keys.iter().map(|key| evaluate(key, &batch, room)).collect::<Result<Vec<_>, _>>()?;
        let kinds = spec.key_kinds();
        let (writer, mut key) = (KeyWriter::new(&keys, &kinds, room)?, Vec::new());
        let (mut groups, mut unknown, mut matched) = (vec![NO_GROUP; rows], vec![false; rows], vec![false; rows]);
        let mut codes = writer.of_codes(rows, room)?;
        for row in 0..rows {
            let mut is_null = false;
            let mut find = || {
                is_null = writer.write(row, &mut key);
                Ok(if is_null { NO_GROUP } else { table.keys.find(&key).unwrap_or(NO_GROUP) })
            };
            groups[row] = match &mut codes {
                Some(codes) => {
                    let group = codes.number(row, find)?;
                    is_null = codes.is_null(row);
                    group
                }
                None => find()?,
            };
            // As IN has it: there may be a partner unless there are no rows at all.
            unknown[row] = spec.is_null_aware && table.count > 0 && (is_null || table.has_null);
        }
        if !spec.keeps_rows() {
            matched.iter_mut().zip(&groups).for_each(|(matched, &group)| *matched = group != NO_GROUP);
            groups.clear();
        }
        Ok(Current { batch, attached, pairs: Pairs::new(groups), matched, unknown })
    }

    /// The requested columns of pairs; others are empty.
    fn paired(
        &self,
        table: &JoinTable,
        left: &Batch,
        rows: (&[u32], &[u32]),
        of: impl Fn(usize) -> bool,
        room: &Room<'_>,
    ) -> Result<Vec<Column>, BoxError> {
        let (left_rows, right_rows) = rows;
        let mut columns = Vec::with_capacity(self.spec.left_width + self.spec.right_kinds.len());
        for (place, column) in left.columns.iter().enumerate() {
            columns.push(if of(place) { gather(column, left_rows, room)? } else { column.slice(0..0) });
        }
        for (place, kind) in self.spec.right_kinds.iter().enumerate() {
            columns.push(if of(self.spec.left_width + place) {
                table.column(place, kind, right_rows.iter().map(|&row| Some(row)), room)?
            } else {
                nulls(kind, 0)
            });
        }
        Ok(columns)
    }

    /// Looks at some more pairs. Whether there may be more, and the rows to be sent.
    fn step(
        &mut self,
        table: &JoinTable,
        current: &mut Current,
        room: &Room<'_>,
    ) -> Result<(bool, Option<Envelope>), BoxError> {
        let spec = Arc::clone(&self.spec);
        let stops_early = !spec.sends_pairs();
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let more = current.pairs.next(
            spec.limit,
            |group| table.group(group),
            |row| stops_early && current.matched[row],
            &mut left,
            &mut right,
        );
        if left.is_empty() {
            return Ok((more, None));
        }
        if spec.checks_pairs() {
            let is_checked = |place: usize| self.checked.contains(&place);
            let columns = self.paired(table, &current.batch, (&left, &right), is_checked, room)?;
            let batch = Batch { columns, rows: left.len() };
            let mut passed = selected(&spec.residual, &batch, room)?;
            if let Some(membership) = &spec.membership {
                let truth: Vector = evaluate(membership, &batch, room)?;
                let truth = truth.values::<bool>();
                for &pair in &passed {
                    if truth.get(pair as usize).is_none() {
                        current.unknown[left[pair as usize] as usize] = true;
                    }
                }
                passed.retain(|&pair| truth.get(pair as usize) == Some(true));
            }
            left = passed.iter().map(|&pair| left[pair as usize]).collect();
            right = passed.iter().map(|&pair| right[pair as usize]).collect();
        }
        left.iter().for_each(|&row| current.matched[row as usize] = true);
        if spec.kind == JoinKind::Full {
            right.iter().for_each(|&row| self.met[row as usize] = true);
        }
        room.settle(0);
        let mut made = None;
        if spec.sends_pairs() && !left.is_empty() {
            let column = |&place: &usize| match place.checked_sub(spec.left_width) {
                None => gather(&current.batch.columns[place], &left, room),
                Some(place) => table.column(place, &spec.right_kinds[place], right.iter().map(|&row| Some(row)), room),
            };
            let columns = spec.wanted.iter().map(column).collect::<Result<_, _>>()?;
            made = Some(Envelope::of_rows(columns, left.len()).with(&current.attached));
        }
        Ok((more, made))
    }

    /// The rows to send for an envelope once all its pairs were looked at.
    fn finish(&self, current: Current, room: &Room<'_>) -> Result<Option<Envelope>, BoxError> {
        let spec = &self.spec;
        let Current { batch, attached, matched, unknown, .. } = current;
        let rows = |keep: &dyn Fn(usize) -> bool| {
            (0..batch.rows).filter(|&row| keep(row)).map(|row| row as u32).collect::<Vec<u32>>()
        };
        let kept = match spec.kind {
            JoinKind::Inner => return Ok(None),
            JoinKind::Left | JoinKind::Full | JoinKind::Anti => rows(&|row| !matched[row] && !unknown[row]),
            JoinKind::Semi => rows(&|row| matched[row]),
            JoinKind::Mark(_) => rows(&|_| true),
        };
        if kept.is_empty() {
            return Ok(None);
        }
        let all = kept.len() == batch.rows;
        let mark_place = spec.left_width + spec.right_kinds.len();
        let column = |&place: &usize| {
            if place < spec.left_width {
                let column = &batch.columns[place];
                return if all { Ok(column.clone()) } else { gather(column, &kept, room) };
            }
            if place < mark_place {
                return Ok(nulls(&spec.right_kinds[place - spec.left_width], kept.len()));
            }
            let marks: Column = matched.clone().into();
            let open: Vec<usize> = (0..batch.rows).filter(|&row| unknown[row] && !matched[row]).collect();
            Ok(if open.is_empty() { marks } else { marks.with_nulls(open) })
        };
        let columns = spec.wanted.iter().map(column).collect::<Result<_, BoxError>>()?;
        Ok(Some(Envelope::of_rows(columns, kept.len()).with(&attached)))
    }

    /// Sends the rows of the table not met by a left row. Returns whether there are more.
    fn send_rest(&mut self, turn: &mut Turn<'_>, table: &JoinTable) -> Result<bool, BoxError> {
        let spec = Arc::clone(&self.spec);
        let from = self.rest.expect("the left rows have come");
        let mut to = from;
        let mut rows: Vec<u32> = Vec::new();
        while to < table.rows.len() && rows.len() < spec.limit {
            if !self.met[to] {
                rows.push(to as u32);
            }
            to += 1;
        }
        self.rest = Some(to);
        if !rows.is_empty() {
            let column = |&place: &usize, room: &Room<'_>| match place.checked_sub(spec.left_width) {
                None => Ok(nulls(&spec.left_kinds[place], rows.len())),
                Some(place) => table.column(place, &spec.right_kinds[place], rows.iter().map(|&row| Some(row)), room),
            };
            let columns = self.texts.book(turn, 0, |room| {
                let column = |place| column(place, room);
                spec.wanted.iter().map(column).collect::<Result<_, BoxError>>()
            })?;
            turn.send(0, Envelope::of_rows(columns, rows.len()));
        }
        Ok(to < table.rows.len())
    }
}

impl Operator for JoinProbe {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if self.table.is_none() && !self.next_table(turn)? {
            return Ok(());
        }
        let attachment = self.table.clone().expect("it is there");
        let table = attachment.value::<JoinTable>().expect("it was found there");
        if self.current.is_none() && self.rest.is_none() {
            match self.next_rows(table, turn)? {
                None => return Ok(()),
                Some(None) => self.rest = Some(0),
                Some(Some(envelope)) if turn.pass_mark(&envelope) => return Ok(()),
                Some(Some(envelope)) => {
                    let mut texts = std::mem::take(&mut self.texts);
                    self.current = Some(texts.book(turn, 0, |room| {
                        let current = self.begin(envelope, table, room)?;
                        room.settle(0);
                        Ok(current)
                    })?);
                    self.texts = texts;
                }
            }
        }
        if let Some(mut current) = self.current.take() {
            loop {
                if turn.is_stopped() {
                    return Ok(());
                }
                if !turn.ask_room(0) {
                    self.current = Some(current);
                    turn.run_again();
                    return Ok(());
                }
                let mut texts = std::mem::take(&mut self.texts);
                let (more, made) = texts.book(turn, 0, |room| self.step(table, &mut current, room))?;
                self.texts = texts;
                if let Some(made) = made {
                    turn.send(0, made);
                }
                if !more {
                    break;
                }
            }
            let mut texts = std::mem::take(&mut self.texts);
            let made = texts.book(turn, 0, |room| self.finish(current, room))?;
            self.texts = texts;
            if let Some(made) = made {
                turn.send(0, made);
            }
            // Envelopes that arrived before this invocation, and were not taken by it, invoke the box no more.
            if turn.head(0).is_some() || table.part.is_some() {
                turn.run_again();
            }
            return Ok(());
        }
        while self.spec.kind == JoinKind::Full {
            if !turn.ask_room(0) {
                turn.run_again();
                return Ok(());
            }
            if turn.is_stopped() || !self.send_rest(turn, table)? {
                break;
            }
        }
        if let Some(beyond) = &mut self.beyond {
            beyond.current = None;
            (self.table, self.rest) = (None, None);
            turn.run_again();
        } else {
            turn.send_pills();
        }
        Ok(())
    }
}
