//! UNNEST: a row for each value of a list, with the other columns of the list's row.

use crate::evaluate::{Batch, Texts, evaluate, gather};
use crate::expression::Expr;
use std::sync::Arc;
use vicus_flow::{BoxError, Column, Envelope, Operator, Turn};

pub(crate) struct Unnest {
    list: Arc<[Expr]>,
    /// For each sent column its place in the input; `None` for the values of the list.
    wanted: Arc<[Option<usize>]>,
    /// The greatest number of rows of an envelope.
    limit: usize,
    current: Option<Current>,
    texts: Texts,
}

/// Rows whose lists are being sent: a list may be long.
struct Current {
    envelope: Envelope,
    /// The list of each row, or one for all rows.
    lists: Column,
    is_one: bool,
    /// The bytes of the lists, which stay over many invocations.
    bytes: u64,
    /// The next row, and the next one of its values.
    row: usize,
    item: usize,
}

impl Unnest {
    /// `list` has one expression.
    pub(crate) fn new(list: &Arc<[Expr]>, wanted: &Arc<[Option<usize>]>, limit: usize) -> Unnest {
        let (list, wanted) = (Arc::clone(list), Arc::clone(wanted));
        Unnest { list, wanted, limit: limit.max(1), current: None, texts: Texts::default() }
    }

    /// Sends the values of lists while there is room. Whether all are sent.
    fn send(&mut self, current: &mut Current, turn: &mut Turn<'_>) -> Result<bool, BoxError> {
        let rows = current.envelope.rows();
        while current.row < rows {
            if turn.is_stopped() {
                return Ok(true);
            }
            if !turn.ask_room(0) {
                return Ok(false);
            }
            let (mut of_rows, mut items): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
            while current.row < rows && items.len() < self.limit {
                let of = if current.is_one { 0 } else { current.row };
                let list = if current.lists.is_null(of) { 0..0 } else { current.lists.item_range(of) };
                let left = list.start + current.item..list.end;
                let count = left.len().min(self.limit - items.len());
                of_rows.resize(of_rows.len() + count, current.row as u32);
                items.extend(left.take(count).map(|item| item as u32));
                current.item += count;
                if current.item == list.len() {
                    (current.row, current.item) = (current.row + 1, 0);
                }
            }
            if items.is_empty() {
                break;
            }
            let (wanted, columns) = (&self.wanted, current.envelope.columns());
            let made = self.texts.book(turn, current.bytes, |room| {
                let column = |place: &Option<usize>| match place {
                    Some(place) => gather(&columns[*place], &of_rows, room),
                    None => gather(current.lists.items(), &items, room),
                };
                wanted.iter().map(column).collect::<Result<Vec<_>, BoxError>>()
            })?;
            turn.send(0, Envelope::of_rows(made, items.len()).with(current.envelope.attached()));
        }
        Ok(true)
    }
}

impl Operator for Unnest {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let mut current = match self.current.take() {
            Some(current) => current,
            None => {
                let Some(envelope) = turn.take(0) else { return Ok(()) };
                if envelope.is_pill() {
                    turn.book(0)?;
                    turn.send_pill(0);
                    return Ok(());
                }
                if turn.pass_mark(&envelope) {
                    return Ok(());
                }
                let list = &self.list[0];
                // A list of no column is the same for all rows.
                let is_one = list.columns().is_empty();
                let batch = match is_one {
                    true => Batch { columns: Vec::new(), rows: envelope.rows().min(1) },
                    false => Batch { columns: envelope.columns().to_vec(), rows: envelope.rows() },
                };
                let lists = self.texts.book(turn, 0, |room| {
                    evaluate(list, &batch, room)?.into_column(list.kind_ref(), batch.rows, room)
                })?;
                let bytes = lists.bytes();
                turn.book(bytes)?;
                Current { envelope, lists, is_one, bytes, row: 0, item: 0 }
            }
        };
        if !self.send(&mut current, turn)? {
            self.current = Some(current);
            turn.run_again();
        } else if turn.head(0).is_some() {
            turn.run_again();
        }
        Ok(())
    }
}
