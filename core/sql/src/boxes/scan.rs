//! Reads the parts of a table handed out by a splitter.

use crate::table::{ColumnRange, Scan as TableScan, Table, UnreadableTable};
use crate::types::SqlType;
use std::ops::Range;
use std::sync::Arc;
use vicus_flow::{BoxError, Column, Envelope, NoMemory, Operator, OverBudget, Turn, Type};

pub(crate) struct Scan {
    table: Arc<dyn Table>,
    name: Arc<str>,
    picked: Arc<[usize]>,
    ranges: Arc<[ColumnRange]>,
    most_rows: usize,
    /// Whether the columns come in the types that the table keeps them in.
    keeps_types: bool,
    /// The parts to read next.
    parts: Range<usize>,
    scan: Option<Box<dyn TableScan>>,
    /// Whether the splitter has sent its pill.
    is_last: bool,
}

impl Scan {
    pub(crate) fn new(
        table: &Arc<dyn Table>,
        name: &Arc<str>,
        picked: &Arc<[usize]>,
        ranges: &Arc<[ColumnRange]>,
        most_rows: usize,
    ) -> Scan {
        Scan {
            table: Arc::clone(table),
            name: Arc::clone(name),
            picked: Arc::clone(picked),
            ranges: Arc::clone(ranges),
            most_rows,
            keeps_types: false,
            parts: 0..0,
            scan: None,
            is_last: false,
        }
    }

    /// Reads the columns in the types that the table keeps them in ([`Table::kept`]).
    pub(crate) fn keeping_types(self) -> Scan {
        Scan { keeps_types: true, ..self }
    }

    fn next(&mut self, turn: &Turn<'_>) -> Result<Option<Envelope>, BoxError> {
        let Some(scan) = &mut self.scan else { return Ok(None) };
        if self.table.loads() {
            turn.blocking(|| scan.load()).map_err(|error| of_table(&self.name, error))?;
        }
        let next =
            if self.table.blocks() { turn.blocking(|| scan.next(self.most_rows)) } else { scan.next(self.most_rows) };
        turn.book(scan.held_bytes())?;
        let Some(envelope) = next.map_err(|error| of_table(&self.name, error))? else {
            self.scan = None;
            turn.book(0)?;
            return Ok(None);
        };
        if envelope.rows() == 0 {
            return Ok(Some(envelope));
        }
        let kept = self.table.kept().filter(|_| self.keeps_types);
        let has = |(column, &place): (&Column, &usize)| match kept {
            Some(kept) => {
                let (has, wanted) = (column.kind(), &kept.columns()[place].kind);
                has == *wanted || (has.is_nested() && SqlType::of(&has) == SqlType::of(wanted))
            }
            None => self.table.columns()[place].kind.has(column),
        };
        let are_there = envelope.columns().len() == self.picked.len();
        if !are_there || !envelope.columns().iter().zip(&*self.picked).all(has) {
            let kinds: Vec<Type> = envelope.columns().iter().map(Column::kind).collect();
            let wanted = self.picked.iter().map(|&place| match kept {
                Some(kept) => kept.columns()[place].kind.clone(),
                None => self.table.columns()[place].kind.flow_type(),
            });
            let wanted: Vec<Type> = wanted.collect();
            return Err(format!("table {} gave columns of the types {kinds:?} instead of {wanted:?}", self.name).into());
        }
        Ok(Some(envelope))
    }

    /// Sends an envelope, in pieces if a scan has made a larger one than it was asked for.
    fn send(&self, turn: &mut Turn<'_>, envelope: Envelope) {
        let rows = envelope.rows();
        if rows <= self.most_rows {
            turn.send(0, envelope);
            return;
        }
        for from in (0..rows).step_by(self.most_rows) {
            turn.send(0, envelope.slice(from..rows.min(from + self.most_rows)));
        }
    }
}

/// A table's error with the table's name. Its type tells the request whose fault it is, so it stays.
fn of_table(name: &str, error: BoxError) -> BoxError {
    // Of these, no table is the cause.
    if error.is::<NoMemory>() || error.is::<OverBudget>() {
        return error;
    }
    match error.downcast::<UnreadableTable>() {
        Ok(unreadable) => UnreadableTable(format!("table {name}: {unreadable}")).into(),
        Err(error) => format!("table {name}: {error}").into(),
    }
}

impl Operator for Scan {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        loop {
            if self.scan.is_none() && self.parts.is_empty() && !self.is_last {
                match turn.take(0) {
                    // The next range invokes the box again.
                    None => return Ok(()),
                    Some(pill) if pill.is_pill() => self.is_last = true,
                    Some(range) => {
                        let [from, to] = [1, 2].map(|column| range.column(column).u64s()[0] as usize);
                        self.parts = from..to;
                    }
                }
            }
            if self.scan.is_none() {
                let Some(part) = self.parts.next() else {
                    if !self.is_last {
                        continue;
                    }
                    turn.send_pills();
                    return Ok(());
                };
                self.scan = Some(match self.keeps_types {
                    true => self.table.scan_kept(&self.picked, part),
                    false => self.table.scan(&self.picked, part, &self.ranges),
                });
            }
            while turn.ask_room(0) {
                if turn.is_stopped() {
                    return Ok(());
                }
                match self.next(turn)? {
                    Some(envelope) if envelope.rows() > 0 => self.send(turn, envelope),
                    Some(_) => {}
                    None => break,
                }
            }
            if self.scan.is_some() {
                turn.run_again();
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: each error became a text, so damage and a lack of memory were the statement's fault.
    #[test]
    fn the_type_of_a_tables_error_stays() {
        let lack = of_table("t", NoMemory { bytes: 7 }.into());
        assert_eq!(lack.downcast_ref::<NoMemory>(), Some(&NoMemory { bytes: 7 }));
        let over = OverBudget { budget: 7, holders: Vec::new() };
        assert_eq!(of_table("t", over.clone().into()).downcast_ref::<OverBudget>(), Some(&over));
        let damaged = of_table("t", UnreadableTable("a.csv: it is damaged".to_owned()).into());
        let told = UnreadableTable("table t: a.csv: it is damaged".to_owned());
        assert_eq!(damaged.downcast_ref::<UnreadableTable>(), Some(&told));
        assert_eq!(of_table("t", "x is no number".into()).to_string(), "table t: x is no number");
    }
}
