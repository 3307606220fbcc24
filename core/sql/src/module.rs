//! SQL as a language module.

use crate::cost;
use crate::error::SqlError;
use crate::parse::{ParseOptions, Parsed, parse, parse_until};
use crate::plan::{Plan, plan};
use crate::table::Catalogue;
use vicus_language::{Compiler, Ends, PlanOptions, TextLimits, Watch};

/// SQL over the tables of a catalogue.
///
/// ```
/// use vicus_language::{Compiler, PlanOptions, Runnable, TextLimits, ValueType, Values};
/// use vicus_sql::{Sql, Tables};
///
/// let sql = Sql { catalogue: &Tables::default() };
/// let parsed = sql.parse("SELECT 1 + 1 AS two", &TextLimits::default())?;
/// let (_, run) = sql.plan(&parsed, &PlanOptions::default(), &|| false)?.begin(());
/// assert_eq!(run, Values(vec![ValueType::Integer]));
/// # Ok::<(), vicus_sql::SqlError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Sql<'a> {
    /// The tables that statements can name.
    pub catalogue: &'a dyn Catalogue,
}

impl Compiler for Sql<'_> {
    type Parsed = Parsed;
    type Plan = Plan;
    type Error = SqlError;

    fn name(&self) -> &'static str {
        "SQL"
    }

    fn parsing_bytes(&self, text: &str) -> u64 {
        cost::parsing_bytes(text)
    }

    fn parse(&self, text: &str, limits: &TextLimits) -> Result<Parsed, SqlError> {
        parse(text, &options(limits))
    }

    fn parse_until(&self, text: &str, limits: &TextLimits, ends: &Ends) -> Result<Parsed, SqlError> {
        parse_until(text, &options(limits), Some(ends.clone()))
    }

    fn plan(&self, parsed: &Parsed, options: &PlanOptions, watch: &dyn Watch) -> Result<Plan, SqlError> {
        plan(parsed, self.catalogue, options, watch)
    }
}

fn options(limits: &TextLimits) -> ParseOptions {
    let depth = limits.depth.min(ParseOptions::default().depth);
    ParseOptions { bytes: limits.bytes, depth }
}

impl std::fmt::Debug for Sql<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sql").field("tables", &self.catalogue.names()).finish()
    }
}
