//! SHOW TABLES and DESCRIBE: what the catalogue has, as rows.

use super::from::parts_of;
use super::{Binder, Bound, Output};
use crate::error::SqlError;
use crate::relation::{Op, Relation};
use crate::table::TableColumn;
use crate::types::{SqlType, Value};
use sqlparser::ast::{self, Spanned};
use std::sync::Arc;

impl<'a> Binder<'a> {
    /// The names of all tables, ascending.
    pub(super) fn tables(&mut self) -> Bound {
        let mut names = self.catalogue.names();
        names.sort_unstable();
        self.texts(&["name"], names.into_iter().map(|name| vec![Some(name)]).collect())
    }

    /// The columns of a table in their order, each with its type, or the reason for which it can't be read.
    pub(super) fn columns_of(&mut self, table: &'a ast::ObjectName) -> Result<Bound, SqlError> {
        let place = self.place(table.span());
        let table = self.find_table(&parts_of(table, place)?, place)?;
        let row = |column: &TableColumn| {
            let (kind, why) = match &column.unreadable {
                Some(why) => (None, Some(why.clone())),
                None => (Some(column.kind.to_string()), None),
            };
            vec![Some(column.name.clone()), kind, why]
        };
        let rows = table.columns().iter().map(row).collect();
        Ok(self.texts(&["column_name", "column_type", "unreadable"], rows))
    }

    /// Rows of text. They are not kept for the same statement later: the catalogue may have changed.
    fn texts(&mut self, names: &[&str], rows: Vec<Vec<Option<String>>>) -> Bound {
        let value = |text: Option<String>| text.map_or(Value::Null, |text| Value::Varchar(Arc::from(text)));
        let rows: Vec<Vec<Value>> = rows.into_iter().map(|row| row.into_iter().map(value).collect()).collect();
        self.made_bytes = Some(rows.iter().flatten().map(|value| size_of_val(value) as u64).sum());
        let kind = SqlType::Varchar;
        let output =
            |name: &&str| Output { name: (*name).to_owned(), id: self.columns.add(*name, kind), kind, is_null: false };
        let outputs: Vec<Output> = names.iter().map(output).collect();
        let columns = outputs.iter().map(|output| output.id).collect();
        Bound::new(Relation::new(Op::Values { rows }, columns), outputs)
    }
}
