//! A table written in the query, or made by the planner.

mod boxes;

use super::{Below, Each, Op, Physical, PhysicalOperator, StableColumns, Title};
use crate::algebra::{Column, Slot, Slots, Table};
use crate::explain::Explainer;
use crate::lower::{Lowering, Pipeline, Streams};
use crate::planner::{Estimate, Facts, Planner};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use vicus_flow::BoxModel;

#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) table: Arc<Table>,
}

impl Values {
    pub(crate) fn plan(planner: &Planner<'_>, slots: &[Slot], table: &Table, needed: &Slots) -> Physical {
        let rows = table.rows as f64;
        let kept: Vec<(Slot, &Column)> =
            slots.iter().copied().zip(&table.columns).filter(|(slot, _)| needed.contains(slot)).collect();
        let facts = |&(slot, column): &(Slot, &Column)| {
            (slot, Facts { distinct: rows, kinds: column.kinds, certain: column.certain })
        };
        let columns = kept.iter().map(|(_, column)| Column::clone(column)).collect();
        planner.made(Physical {
            columns: kept.iter().map(|(slot, _)| *slot).collect(),
            estimate: Estimate { rows, facts: kept.iter().map(facts).collect() },
            op: Op::Values(Values { table: Arc::new(Table { columns, rows: table.rows }) }),
            cost: 0.0,
            startup: 0.0,
            sorted: None,
            conditions: Vec::new(),
        })
    }
}

impl PhysicalOperator for Values {
    fn inputs(&self) -> Each<&Below> {
        SmallVec::new()
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        SmallVec::new()
    }

    fn pick(&mut self, kept: &[usize], _: usize) -> bool {
        let columns = kept.iter().map(|&column| self.table.columns[column].clone()).collect();
        self.table = Arc::new(Table { columns, rows: self.table.rows });
        true
    }

    fn let_pass(&mut self, _: &[bool]) -> Each<StableColumns> {
        SmallVec::new()
    }

    fn lower(&self, _: &Physical, _: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        lower_table(&self.table, lowering)
    }

    fn explain(&self, _: &Physical, _: &Explainer<'_>) -> Title {
        Title::new("values", format!("of {} rows", self.table.rows))
    }
}

/// Adds a box that puts out the rows of a table.
pub(crate) fn lower_table(table: &Arc<Table>, lowering: &mut Lowering<'_>) -> Streams {
    let (table, limit, width) = (Arc::clone(table), lowering.limit, table.columns.len());
    let model = BoxModel::new("values", move || boxes::Values::new(&table, limit));
    smallvec![lowering.source(model, width).output(0)]
}
