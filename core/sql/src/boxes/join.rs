//! The two boxes of a join: one puts the rows of one side into a table, the other one looks those of the other side up.
//!
//! The table is attached to an envelope shared by all readers. Without keys it has one group, and each row meets all
//! rows of the other side, a batch of pairs at a time.

use super::keys::{KeyTable, KeyWriter};
use super::pairs::Pairs;
use crate::evaluate::{Batch, Room, Texts, Vector, evaluate, gather, gathered, nulls, selected};
use crate::expression::Expr;
use crate::relation::JoinKind;
use crate::types::SqlType;
use std::collections::BTreeSet;
use std::sync::Arc;
use vicus_flow::{Attachment, BoxError, Column, Envelope, Grow, HeldBytes, Operator, Turn};

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
        kind: SqlType,
        rows: impl Iterator<Item = Option<u32>> + Clone,
        room: &Room<'_>,
    ) -> Result<Column, BoxError> {
        gathered(
            kind.flow_type(),
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
    table: JoinTable,
    /// The group of each row.
    groups: Vec<u32>,
    chunk_bytes: u64,
    held: HeldBytes,
    texts: Texts,
}

impl JoinBuild {
    pub(crate) fn new(spec: &Arc<JoinSpec>) -> JoinBuild {
        let table = JoinTable {
            chunks: Vec::new(),
            rows: Vec::new(),
            keys: KeyTable::new(spec.seed),
            starts: Vec::new(),
            members: Vec::new(),
            count: 0,
            has_null: false,
        };
        JoinBuild {
            spec: Arc::clone(spec),
            table,
            groups: Vec::new(),
            chunk_bytes: 0,
            held: HeldBytes::default(),
            texts: Texts::default(),
        }
    }

    fn held(&self) -> u64 {
        let JoinTable { rows, keys, starts, members, .. } = &self.table;
        let words = 2 * rows.capacity() + starts.capacity() + members.capacity() + self.groups.capacity();
        self.chunk_bytes + keys.held() + 4 * words as u64
    }

    fn add(&mut self, envelope: Envelope, room: &Room<'_>) -> Result<(), BoxError> {
        let (table, spec) = (&mut self.table, &self.spec);
        let (rows, keeps) = (envelope.rows(), spec.keeps_rows());
        table.count += rows as u64;
        let envelope = envelope.compact();
        let batch = Batch { columns: envelope.columns().to_vec(), rows };
        let keys = spec.right_keys.iter().map(|key| evaluate(key, &batch, room)).collect::<Result<Vec<_>, _>>()?;
        let kinds = spec.key_kinds();
        let (writer, mut key) = (KeyWriter::new(&keys, &kinds, room)?, Vec::new());
        if keeps {
            u32::try_from(table.rows.len() + rows).map_err(|_| "a join's table has more than four billion rows")?;
            self.groups.grow(rows)?;
            table.rows.grow(rows)?;
        }
        let chunk = table.chunks.len() as u32;
        for row in 0..rows {
            let is_null = writer.write(row, &mut key);
            table.has_null |= is_null;
            // A null equals nothing.
            let group = if is_null { NO_GROUP } else { table.keys.number(&key, room)? };
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
        match turn.take(0) {
            None => {}
            Some(envelope) if envelope.mark().is_some() => {}
            Some(pill) if pill.is_pill() => {
                self.finish(turn)?;
                let empty = JoinBuild::new(&self.spec).table;
                let table = Arc::new(std::mem::replace(&mut self.table, empty));
                turn.send(0, Envelope::of_rows(Vec::new(), 1).with(&[Attachment::new(table, 0)]));
                turn.send_pills();
            }
            Some(envelope) => {
                let mut texts = std::mem::take(&mut self.texts);
                texts.book(turn, self.held(), |room| self.add(envelope, room))?;
                self.texts = texts;
                turn.book(self.held())?;
            }
        }
        Ok(())
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
    pub(crate) fn new(spec: &Arc<JoinSpec>) -> JoinProbe {
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
        }
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
        for row in 0..rows {
            let is_null = writer.write(row, &mut key);
            if !is_null {
                groups[row] = table.keys.find(&key).unwrap_or(NO_GROUP);
            }
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
                table.column(place, *kind, right_rows.iter().map(|&row| Some(row)), room)?
            } else {
                nulls(kind.flow_type(), 0)
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
                Some(place) => table.column(place, spec.right_kinds[place], right.iter().map(|&row| Some(row)), room),
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
                return Ok(nulls(spec.right_kinds[place - spec.left_width].flow_type(), kept.len()));
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
                None => Ok(nulls(spec.left_kinds[place].flow_type(), rows.len())),
                Some(place) => table.column(place, spec.right_kinds[place], rows.iter().map(|&row| Some(row)), room),
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
        if self.table.is_none() {
            let Some(envelope) = turn.take(1) else { return Ok(()) };
            turn.record_kept(1);
            let is_table = |one: &&Attachment| one.value::<JoinTable>().is_some();
            self.table = envelope.attached().iter().find(is_table).cloned();
            turn.close(1);
            let table = self.table.as_ref().and_then(Attachment::value::<JoinTable>);
            let table = table.expect("the build box attaches its table");
            if self.spec.kind == JoinKind::Full {
                self.met = vec![false; table.rows.len()];
            }
            if matches!(self.spec.kind, JoinKind::Inner | JoinKind::Semi) && table.count == 0 {
                // No row has a partner.
                turn.close(0);
                turn.send_pill(0);
                return Ok(());
            }
        }
        let attachment = self.table.clone().expect("it is there");
        let table = attachment.value::<JoinTable>().expect("it was found there");
        if self.current.is_none() && self.rest.is_none() {
            match turn.take(0) {
                None => return Ok(()),
                Some(pill) if pill.is_pill() => self.rest = Some(0),
                Some(envelope) if turn.pass_mark(&envelope) => return Ok(()),
                Some(envelope) => {
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
            if turn.head(0).is_some() {
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
        turn.send_pills();
        Ok(())
    }
}
