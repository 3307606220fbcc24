//! The two boxes of a hash join: one builds a table of its rows, the other one looks rows up in it.

use super::grace::{Dealing, Grace, SpilledPartitions, held_for_table};
use super::hash_table::{Builder, HashSpec, HashTable};
use crate::boxes::join::{Core, JoinKind, JoinSpec};
use crate::boxes::spill::{Hold, LEAST};
use crate::boxes::{Inputs, Pace};
use crate::terms::Terms;
use std::sync::Arc;
use vicus_flow::{Attachment, BoxError, Envelope, Operator, Turn};

/// Builds the rows of all its inputs into a table. Output 0 gets the buckets and output 1 the rows, each as one
/// envelope shared by all readers. Rows beyond its part of the memory are dealt to files, attached to the buckets: see
/// [`Dealing`].
pub(crate) struct HashBuild {
    terms: Arc<Terms>,
    hash: Arc<HashSpec>,
    width: usize,
    builder: Builder,
    hold: Hold,
    dealing: Option<Box<Dealing>>,
    inputs: Inputs,
}

impl HashBuild {
    pub(crate) fn new(terms: &Arc<Terms>, hash: &Arc<HashSpec>, width: usize) -> HashBuild {
        HashBuild {
            terms: Arc::clone(terms),
            hash: Arc::clone(hash),
            width,
            builder: Builder::new(terms, hash, width),
            hold: Hold::new(terms.spiller()),
            dealing: None,
            inputs: Inputs::default(),
        }
    }

    fn add(&mut self, turn: &Turn<'_>, envelope: Envelope) -> Result<(), BoxError> {
        if let Some(dealing) = &mut self.dealing {
            return dealing.add(turn, &envelope);
        }
        self.builder.add(envelope);
        let bytes = self.builder.bytes();
        let most = self.terms.most_held();
        if most == u64::MAX {
            return Ok(turn.book(bytes)?);
        }
        let book = |bytes| turn.book(bytes);
        // The least with which it can deal rows to files.
        self.hold.make_room(LEAST, false, book)?;
        let needed = held_for_table(&self.hash, bytes);
        if needed <= most && self.hold.make_room(needed, true, book)? {
            return Ok(());
        }
        if self.hash.reduces() {
            if self.builder.reduce(turn).is_none() {
                return Ok(());
            }
            if self.builder.bytes() <= bytes / 2 {
                return Ok(());
            }
        }
        let most = if self.hold.make_room(most, true, book)? { most } else { self.hold.booked() };
        let mut dealing = Dealing::new(&self.terms, &self.hash, self.width, most);
        for envelope in self.builder.take() {
            dealing.add(turn, &envelope)?;
        }
        self.dealing = Some(Box::new(dealing));
        Ok(())
    }
}

impl Operator for HashBuild {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let (mut inputs, mut outcome) = (self.inputs, Ok(()));
        let is_over = inputs.take(turn, |turn, envelope| {
            if outcome.is_ok() {
                outcome = self.add(turn, envelope);
            }
        });
        self.inputs = inputs;
        outcome?;
        if !is_over {
            return Ok(());
        }
        let dealt = match self.dealing.take() {
            None => {
                turn.book(held_for_table(&self.hash, self.builder.bytes()).max(self.hold.booked()))?;
                None
            }
            Some(dealing) => Some(dealing.finish(turn, &mut self.builder)?),
        };
        if let Some((buckets, rows)) = self.builder.build(turn) {
            let attached = dealt.map(|dealt| Attachment::new(Arc::new(dealt), 0));
            let in_files = attached
                .iter()
                .filter_map(Attachment::value::<SpilledPartitions>)
                .map(SpilledPartitions::held_bytes)
                .sum::<u64>();
            turn.book(buckets.bytes() + rows.bytes() + in_files)?;
            turn.send(0, buckets.with(attached.as_slice()));
            turn.send(1, rows);
            turn.send_pills();
        }
        Ok(())
    }
}

/// Hash join: looks the rows of input 0 up in the table that comes on inputs 1 and 2. Until the table is there, the
/// head of input 0 stays queued. Both sides are subtrees of their own, so this wait is never part of a cycle.
pub(crate) struct HashJoin {
    core: Core,
    terms: Arc<Terms>,
    hash: Arc<HashSpec>,
    spec: Arc<JoinSpec>,
    /// The number of columns of the built side.
    width: usize,
    pace: Pace,
    buckets: Option<Envelope>,
    rows: Option<Envelope>,
    table: Option<HashTable>,
    /// If parts of the built side are in files.
    grace: Option<Box<Grace>>,
}

impl HashJoin {
    pub(crate) fn new(
        terms: &Arc<Terms>,
        spec: &Arc<JoinSpec>,
        hash: &Arc<HashSpec>,
        width: usize,
        pace: Pace,
    ) -> HashJoin {
        HashJoin {
            core: Core::new(terms, spec, pace),
            terms: Arc::clone(terms),
            hash: Arc::clone(hash),
            spec: Arc::clone(spec),
            width,
            pace,
            buckets: None,
            rows: None,
            table: None,
            grace: None,
        }
    }
}

impl Operator for HashJoin {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if let Some(grace) = &mut self.grace {
            return grace.act(&mut self.core, &mut self.table, turn);
        }
        if self.table.is_none() {
            for (part, input) in [(&mut self.buckets, 1), (&mut self.rows, 2)] {
                if part.is_none() {
                    *part = turn.take(input);
                    if part.is_some() {
                        turn.record_kept(input);
                    }
                }
            }
            let (Some(buckets), Some(_)) = (&self.buckets, &self.rows) else { return Ok(()) };
            let rows = self.rows.take().expect("it is there");
            let table = HashTable::new(&self.terms, &self.hash, self.width, buckets, rows);
            let dealt =
                buckets.attached().iter().find(|attached| attached.value::<SpilledPartitions>().is_some()).cloned();
            self.buckets = None;
            turn.close(1);
            turn.close(2);
            let needs_partner = matches!(self.core.kind(), JoinKind::Inner | JoinKind::Semi);
            if dealt.is_none() && needs_partner && table.is_empty() {
                // The table is empty, so no row of input 0 can have a partner.
                turn.close(0);
                turn.send_pill(0);
                return Ok(());
            }
            self.table = Some(table);
            if let Some(dealt) = dealt {
                let mut grace = Grace::new(&self.terms, &self.hash, &self.spec, self.width, self.pace.limit, dealt);
                let acted = grace.act(&mut self.core, &mut self.table, turn);
                self.grace = Some(Box::new(grace));
                return acted;
            }
        }
        match &mut self.table {
            Some(table) => self.core.act(turn, table),
            None => Ok(()),
        }
    }
}
