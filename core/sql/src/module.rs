//! SQL as a language module.

use crate::cost;
use crate::error::SqlError;
use crate::parse::{ParsedStatement, StatementLimits, parse, parse_until};
use crate::plan::{SqlPlan, plan};
use crate::table::Catalogue;
use vicus_language::{Compiler, Ends, PlanOptions, TextLimits, Watch};

/// SQL over the tables of a catalogue.
///
/// ```
/// use vicus_language::{Compiler, PlanOptions, Runnable, TextLimits, ValueType, ValueColumns};
/// use vicus_sql::{Sql, Tables};
///
/// let sql = Sql { catalogue: &Tables::default() };
/// let parsed = sql.parse("SELECT 1 + 1 AS two", &TextLimits::default())?;
/// let (_, run) = sql.plan(&parsed, &PlanOptions::default(), &|| false)?.begin(());
/// assert_eq!(run, ValueColumns(vec![ValueType::Integer]));
/// # Ok::<(), vicus_sql::SqlError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Sql<'a> {
    /// The tables that statements can name.
    pub catalogue: &'a dyn Catalogue,
}

impl Compiler for Sql<'_> {
    type Parsed = ParsedStatement;
    type Plan = SqlPlan;
    type Error = SqlError;

    fn name(&self) -> &'static str {
        "SQL"
    }

    fn parsing_bytes(&self, text: &str) -> u64 {
        cost::parsing_bytes(text)
    }

    fn parse(&self, text: &str, limits: &TextLimits) -> Result<ParsedStatement, SqlError> {
        parse(text, &options(limits))
    }

    fn parse_until(&self, text: &str, limits: &TextLimits, ends: &Ends) -> Result<ParsedStatement, SqlError> {
        parse_until(text, &options(limits), Some(ends.clone()))
    }

    fn plan(&self, parsed: &ParsedStatement, options: &PlanOptions, watch: &dyn Watch) -> Result<SqlPlan, SqlError> {
        plan(parsed, self.catalogue, options, watch)
    }
}

fn options(limits: &TextLimits) -> StatementLimits {
    let depth = limits.depth.min(StatementLimits::default().depth);
    StatementLimits { bytes: limits.bytes, depth }
}

impl std::fmt::Debug for Sql<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sql").field("tables", &self.catalogue.names()).finish()
    }
}
