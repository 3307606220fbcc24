//! The dialect that is read: common SQL, without what other dialects add and would be taken for a slip of the pen here,
//! such as a comma behind the last column.

use sqlparser::ast::Expr;
use sqlparser::dialect::{Dialect, GenericDialect};
use sqlparser::parser::{Parser, ParserError};
use std::any::TypeId;
use std::cell::Cell;
use std::fmt;
use vicus_flow::give_up;
use vicus_language::Ends;

/// The parser asks the dialect at each operand, operator and table. So this counts the parser's steps, and leaves it by
/// [unwinding](vicus_flow::give_up) when it takes too many or is to end.
pub(crate) struct Common {
    steps: Cell<u64>,
    /// The most steps of the parser; `None` while the text is cut into tokens.
    most: Option<u64>,
    ends: Option<Ends>,
}

/// Why the parser was left.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ParserEnd {
    Asked,
    TooManySteps { most: u64 },
}

impl fmt::Display for ParserEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParserEnd::Asked => f.write_str("the query was stopped while its text was read"),
            ParserEnd::TooManySteps { most } => write!(
                f,
                "reading the text takes more than {most} steps: a part of it within brackets is read once more for \
                 each pair of them"
            ),
        }
    }
}

impl std::error::Error for ParserEnd {}

impl fmt::Debug for Common {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Common").field("steps", &self.steps).field("most", &self.most).finish_non_exhaustive()
    }
}

impl Common {
    /// One for cutting a text into tokens. It is asked for each letter outside of quotes, and takes these as steps
    /// without a limit.
    pub(crate) fn of_tokens(ends: Option<Ends>) -> Common {
        Common { steps: Cell::new(0), most: None, ends }
    }

    /// One for a text of `tokens` tokens.
    pub(crate) fn of_text(tokens: usize, ends: Option<Ends>) -> Common {
        // A token takes two steps at most when it is read once. The parser reads some of them several times, as it
        // tries one form after another.
        Common { steps: Cell::new(0), most: Some(200_000 + 16 * tokens as u64), ends }
    }

    fn step(&self) {
        const BETWEEN_QUESTIONS: u64 = 1024;
        let steps = self.steps.get() + 1;
        self.steps.set(steps);
        if let Some(most) = self.most.filter(|&most| steps > most) {
            give_up(ParserEnd::TooManySteps { most });
        }
        if steps.is_multiple_of(BETWEEN_QUESTIONS) && self.ends.as_ref().is_some_and(|ends| ends()) {
            give_up(ParserEnd::Asked);
        }
    }

    fn letter(&self) {
        if self.most.is_none() {
            self.step();
        }
    }
}

impl Dialect for Common {
    /// The parser asks by this for what some dialects have; the generic one has most.
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, character: char) -> bool {
        character == '"' || character == '`'
    }

    fn is_identifier_start(&self, character: char) -> bool {
        self.letter();
        character.is_alphabetic() || character == '_'
    }

    fn is_identifier_part(&self, character: char) -> bool {
        self.letter();
        character.is_alphanumeric() || character == '_' || character == '$'
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn supports_left_associative_joins_without_parens(&self) -> bool {
        true
    }

    fn supports_limit_comma(&self) -> bool {
        true
    }

    // Asked for each operand.
    fn parse_prefix(&self, _: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        self.step();
        None
    }

    // Asked behind each operand.
    fn get_next_precedence(&self, _: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        self.step();
        None
    }

    // Asked for each bracket around tables.
    fn supports_parens_around_table_factor(&self) -> bool {
        self.step();
        true
    }

    // Asked for each table.
    fn supports_values_as_table_factor(&self) -> bool {
        self.step();
        true
    }

    fn supports_comma_separated_trim(&self) -> bool {
        true
    }

    fn supports_string_escape_constant(&self) -> bool {
        true
    }

    fn supports_nested_comments(&self) -> bool {
        true
    }

    fn allow_extract_custom(&self) -> bool {
        true
    }

    fn allow_extract_single_quotes(&self) -> bool {
        true
    }
}
