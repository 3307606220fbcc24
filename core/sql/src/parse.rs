//! From a text to a tree of its syntax, by the crate `sqlparser`, within bounds of length and depth.

use crate::dialect::{Common, ParserEnd};
use crate::error::{SourcePosition, SqlError, SqlErrorKind};
use sqlparser::ast::{DescribeAlias, ObjectName, Query, Statement};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use std::fmt;
use vicus_flow::{BoxError, give_up, or_given_up};
use vicus_language::Ends;
use vicus_language::stack::{Deep, LEVEL, of_levels};

/// Limits on a statement's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementLimits {
    /// The greatest number of bytes of a text.
    pub bytes: usize,
    /// How deeply brackets, subqueries, CASE and NOT may be nested. Chains such as `a AND b AND c` or `1 + 2 + 3` may
    /// be a hundred times as long.
    pub depth: usize,
}

impl Default for StatementLimits {
    /// Texts of up to 1 MiB, nested up to 200 levels deep.
    fn default() -> StatementLimits {
        StatementLimits { bytes: 1 << 20, depth: 200 }
    }
}

/// Links of a chain for each allowed level of depth.
const LINKS: usize = 100;

/// The parser's operator words, and the first words of a set operation, a join or another form of a table behind one.
const LINKING: [&str; 34] = [
    "AND",
    "AT",
    "BETWEEN",
    "COLLATE",
    "CONNECT",
    "DIV",
    "ESCAPE",
    "EXCEPT",
    "GLOB",
    "GLOBAL",
    "ILIKE",
    "IN",
    "INTERSECT",
    "IS",
    "ISNULL",
    "JOIN",
    "LATERAL",
    "LIKE",
    "MATCH",
    "MATCH_RECOGNIZE",
    "MEMBER",
    "MINUS",
    "NOTNULL",
    "OPERATOR",
    "OR",
    "OVERLAPS",
    "PIVOT",
    "REGEXP",
    "RLIKE",
    "SIMILAR",
    "TABLESAMPLE",
    "UNION",
    "UNPIVOT",
    "XOR",
];

/// Frames of the parser are so many times as large without optimisation.
pub(crate) const LARGER: usize = if cfg!(unoptimised) { 8 } else { 1 };

/// Bytes of stack for a level of the parser.
const PARSED_LEVEL: usize = LARGER * (48 << 10);

/// Levels of the parser for a text without brackets.
const FEW: usize = 64;

/// A statement with valid syntax.
pub struct ParsedStatement {
    text: String,
    asked: Deep<SqlStatement>,
}

/// The statements that can be asked.
pub(crate) enum SqlStatement {
    Query(Box<Query>),
    /// SHOW TABLES.
    Tables,
    /// DESCRIBE with the name of a table.
    Columns(ObjectName),
}

/// Reads a SELECT, a VALUES, SHOW TABLES or DESCRIBE, in the common dialect of SQL. A semicolon may follow it.
///
/// ```
/// use vicus_sql::{StatementLimits, parse};
///
/// assert!(parse("SELECT 1 + 1 AS two;", &StatementLimits::default()).is_ok());
/// let error = parse("SELECT 1 +", &StatementLimits::default()).err().unwrap();
/// assert_eq!(error.place.column, 11);
/// ```
///
/// # Errors
/// The text is not SQL, not a query, too long or too deep.
pub fn parse(text: &str, options: &StatementLimits) -> Result<ParsedStatement, SqlError> {
    parse_until(text, options, None)
}

/// Like [`parse`], until a function asks to end it.
///
/// # Errors
/// Those of [`parse`]; or it was ended.
pub fn parse_until(text: &str, options: &StatementLimits, ends: Option<Ends>) -> Result<ParsedStatement, SqlError> {
    if text.len() > options.bytes {
        let message = format!("the text has {} bytes, and at most {} are allowed", text.len(), options.bytes);
        return Err(SqlError::new(SqlErrorKind::TooLong, SourcePosition::default(), message));
    }
    // A mark at the beginning of a file is no part of the text.
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let mut tokens = Vec::new();
    let dialect = Common::of_tokens(ends.clone());
    let tokenized = or_given_up(|| Tokenizer::new(&dialect, text).tokenize_with_location_into_buf(&mut tokens));
    if let Err(error) = tokenized.map_err(left)? {
        return Err(SqlError::new(SqlErrorKind::Syntax, place(text, error.location), error.message));
    }
    let levels = or_given_up(|| measure(text, &tokens, options, ends.as_ref())).map_err(left)??;
    name_structs(&mut tokens);
    // Each bracket takes some calls counted by the parser. Statements other than queries may hold others without a
    // bracket (EXPLAIN), and there is stack for their levels.
    let limit = if begins_query(&tokens) { options.depth.saturating_mul(8).saturating_add(FEW) } else { FEW };
    let statement =
        of_levels(limit.min(4 * levels.brackets + FEW), PARSED_LEVEL, || statement(text, tokens, limit, ends))?;
    let levels = levels.brackets + levels.links;
    let of = |asked| ParsedStatement { text: text.to_owned(), asked: Deep::new(levels, asked) };
    match statement {
        Statement::Query(query) => Ok(of(SqlStatement::Query(query))),
        Statement::ShowTables {
            terse: false,
            history: false,
            extended: false,
            full: false,
            external: false,
            show_options,
        } if show_options.show_in.is_none()
            && show_options.starts_with.is_none()
            && show_options.limit.is_none()
            && show_options.limit_from.is_none()
            && show_options.filter_position.is_none() =>
        {
            Ok(of(SqlStatement::Tables))
        }
        Statement::ExplainTable { describe_alias, hive_format: None, table_name, .. }
            if describe_alias != DescribeAlias::Explain =>
        {
            Ok(of(SqlStatement::Columns(table_name)))
        }
        other => {
            let name = of_levels(levels, PARSED_LEVEL / 8, || other.to_string());
            let verb = name.split_whitespace().next().unwrap_or("this statement").to_owned();
            of_levels(levels, LARGER * LEVEL, move || drop(other));
            let start = text.len() - text.trim_start().len();
            Err(SqlError::unsupported(
                SourcePosition::at(text, start),
                format_args!("{verb} (only SELECT, SHOW TABLES and DESCRIBE can be asked)"),
            ))
        }
    }
}

/// Gives types such as `struct(a bigint)` the name by which the parser reads parts in round brackets in any dialect.
fn name_structs(tokens: &mut [TokenWithSpan]) {
    let places: Vec<usize> =
        (0..tokens.len()).filter(|&place| !matches!(tokens[place].token, Token::Whitespace(_))).collect();
    let is = |token: &Token, name: &str| match token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name),
        _ => false,
    };
    for five in places.windows(5) {
        let [before, at, behind, name, kind] = [0, 1, 2, 3, 4].map(|each| &tokens[five[each]].token);
        // A type stands behind AS, a double colon, or the name of a part, and a part is a name and a type: a table or a
        // column may be called `struct` as well, with names of columns in brackets.
        let is_type = matches!(before, Token::DoubleColon | Token::Word(_)) && !is(before, "select");
        let has_part = matches!(name, Token::Word(_)) && !matches!(kind, Token::Comma | Token::RParen);
        if is_type && has_part && is(at, "struct") && *behind == Token::LParen {
            tokens[five[1]].token = Token::make_keyword("TUPLE");
        }
    }
}

/// Whether a text begins as a query does.
fn begins_query(tokens: &[TokenWithSpan]) -> bool {
    let mut tokens = tokens.iter().map(|token| &token.token);
    match tokens.find(|token| !matches!(token, Token::Whitespace(_) | Token::SemiColon)) {
        Some(Token::LParen) => true,
        Some(Token::Word(word)) => {
            ["SELECT", "WITH", "VALUES", "FROM"].iter().any(|verb| word.value.eq_ignore_ascii_case(verb))
        }
        _ => false,
    }
}

fn statement(text: &str, tokens: Vec<TokenWithSpan>, limit: usize, ends: Option<Ends>) -> Result<Statement, SqlError> {
    let end = SourcePosition::at(text, text.len());
    let dialect = Common::of_text(tokens.len(), ends);
    let mut parser = Parser::new(&dialect).with_recursion_limit(limit).with_tokens_with_locations(tokens);
    let wrong = |error: ParserError| match error {
        ParserError::RecursionLimitExceeded => {
            SqlError::new(SqlErrorKind::TooDeep, SourcePosition::default(), "the text is nested too deeply")
        }
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => {
            let (message, place) = placed(text, &message);
            SqlError::new(SqlErrorKind::Syntax, place.unwrap_or(end), message)
        }
    };
    if parser.peek_token().token == Token::EOF {
        return Err(SqlError::new(SqlErrorKind::Syntax, end, "the text is empty: a SELECT was expected"));
    }
    let statement = or_given_up(|| parser.parse_statement()).map_err(left)?.map_err(wrong)?;
    while parser.consume_token(&Token::SemiColon) {}
    let rest = parser.peek_token();
    if rest.token != Token::EOF {
        let message = format!("Expected: the end of the statement, found: {}", rest.token);
        return Err(SqlError::new(SqlErrorKind::Syntax, place(text, rest.span.start), message));
    }
    Ok(statement)
}

/// Why reading the text was left.
fn left(error: BoxError) -> SqlError {
    let kind = match error.downcast_ref() {
        Some(ParserEnd::Asked) => SqlErrorKind::Stopped,
        _ => SqlErrorKind::TooManySteps,
    };
    SqlError::new(kind, SourcePosition::default(), error.to_string())
}

/// The parser's message, and the place at its end.
fn placed(text: &str, message: &str) -> (String, Option<SourcePosition>) {
    let parts = message.rsplit_once(" at Line: ").and_then(|(what, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        Some((what, Location { line: line.trim().parse().ok()?, column: column.trim().parse().ok()? }))
    });
    match parts {
        Some((what, location)) if location.line > 0 => (what.to_owned(), Some(place(text, location))),
        Some((what, _)) => (what.to_owned(), None),
        None => (message.to_owned(), None),
    }
}

#[derive(Clone, Copy)]
struct Levels {
    brackets: usize,
    links: usize,
}

/// Bounds the depth of the tree before it is made: the parser calls itself for brackets, CASE, NOT, signs and
/// subqueries, and a chain of operators becomes a tree as deep as the chain is long.
fn measure(
    text: &str,
    tokens: &[TokenWithSpan],
    options: &StatementLimits,
    ends: Option<&Ends>,
) -> Result<Levels, SqlError> {
    const BETWEEN_QUESTIONS: usize = 4096;
    let (mut depth, mut deepest, mut links, mut prefixes) = (0usize, 0, 0usize, 0usize);
    let most_links = options.depth.saturating_mul(LINKS);
    for (number, token) in tokens.iter().enumerate() {
        // The first time for the cut into tokens: its signs and quoted texts ask nothing.
        if number.is_multiple_of(BETWEEN_QUESTIONS) && ends.is_some_and(|ends| ends()) {
            give_up(ParserEnd::Asked);
        }
        let mut is_prefix = false;
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen | Token::LBrace => depth += 1,
            // One behind the other they make a type within a type.
            Token::LBracket => (depth, links) = (depth + 1, links + 1),
            Token::RParen | Token::RBracket | Token::RBrace => depth = depth.saturating_sub(1),
            Token::Word(word) if word.quote_style.is_none() => match word.value.to_ascii_uppercase().as_str() {
                "CASE" => depth += 1,
                "END" => depth = depth.saturating_sub(1),
                "NOT" | "PRIOR" | "INTERVAL" => is_prefix = true,
                word if LINKING.contains(&word) => links += 1,
                _ => {}
            },
            Token::Comma | Token::Number(..) | Token::SingleQuotedString(_) | Token::Word(_) | Token::SemiColon => {}
            // All else is taken for an operator.
            _ => {
                links += 1;
                is_prefix = true;
            }
        }
        prefixes = if is_prefix { prefixes + 1 } else { 0 };
        deepest = deepest.max(depth + prefixes);
        let place = || place(text, token.span.start);
        if depth + prefixes > options.depth {
            let message = format!("the text is nested more than {} levels deep", options.depth);
            return Err(SqlError::new(SqlErrorKind::TooDeep, place(), message));
        }
        if links > most_links {
            let message = format!("the text has more than {most_links} operators");
            return Err(SqlError::new(SqlErrorKind::TooDeep, place(), message));
        }
    }
    Ok(Levels { brackets: deepest, links })
}

impl ParsedStatement {
    pub(crate) fn asked(&self) -> &SqlStatement {
        &self.asked
    }

    /// At least as many levels as its tree has.
    pub(crate) fn levels(&self) -> usize {
        self.asked.levels()
    }

    /// A place without its offset: the offset takes time in proportion to the text.
    pub(crate) fn place(&self, location: Location) -> SourcePosition {
        SourcePosition { line: location.line as usize, column: location.column as usize, offset: None }
    }

    /// The error with the offset of its place.
    pub(crate) fn placed(&self, error: SqlError) -> SqlError {
        let SourcePosition { line, column, .. } = error.place;
        SqlError { place: place(&self.text, Location { line: line as u64, column: column as u64 }), ..error }
    }

    /// The parsed text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for ParsedStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParsedStatement").field("text", &self.text).finish_non_exhaustive()
    }
}

/// The place of a line and a column.
fn place(text: &str, location: Location) -> SourcePosition {
    let (line, column) = (location.line as usize, location.column as usize);
    if line == 0 {
        return SourcePosition::default();
    }
    let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let before = text[start..].chars().take(column.saturating_sub(1)).map(char::len_utf8).sum::<usize>();
    SourcePosition { line, column, offset: Some(start + before) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: `EXPLAIN` a hundred thousand times ended the process, since it is parsed within itself without a
    /// bracket.
    #[test]
    fn statements_within_statements_are_errors() {
        let options = StatementLimits::default();
        for verb in
            ["EXPLAIN", "DESCRIBE", "DESC", "EXPLAIN ANALYZE", "PREPARE a AS", "CREATE VIEW a AS", "EXPLAIN QUERY PLAN"]
        {
            for count in [2, 100, 1600, 100_000] {
                let text = format!("{}SELECT 1", format!("{verb} ").repeat(count));
                assert!(parse(&text, &options).is_err(), "{count} {verb}");
                let text = format!("{}{}1{}", format!("{verb} ").repeat(count), "(".repeat(190), ")".repeat(190));
                assert!(parse(&text, &options).is_err(), "{count} {verb}, brackets");
            }
        }
    }

    #[test]
    fn a_name_is_no_type_with_parts() {
        let types = |text: &str| {
            let mut tokens = Tokenizer::new(&Common::of_tokens(None), text).tokenize_with_location().unwrap();
            name_structs(&mut tokens);
            let is_type = |token: &&TokenWithSpan| matches!(&token.token, Token::Word(word) if word.value == "TUPLE");
            tokens.iter().filter(is_type).count()
        };
        assert_eq!(types("WITH struct(a) AS (SELECT 1) SELECT a FROM struct"), 0);
        assert_eq!(types("SELECT struct.a FROM (SELECT 1, 2) AS struct(a, b)"), 0);
        assert_eq!(types("SELECT CAST('{}' AS struct(a bigint, b struct(c double)[])), '{}'::struct(a date)"), 3);
    }

    #[test]
    fn deep_and_long_texts_are_errors() {
        let options = StatementLimits::default();
        let kind = |text: &str| parse(text, &options).err().map(|error| error.kind);
        for text in [
            format!("SELECT {}1{}", "(".repeat(100_000), ")".repeat(100_000)),
            format!("SELECT {}1", "(".repeat(100_000)),
            format!("SELECT {}true", "NOT ".repeat(100_000)),
            format!("SELECT {}1", "- ".repeat(100_000)),
            format!("SELECT {}1{}", "CASE WHEN true THEN ".repeat(30_000), " END".repeat(30_000)),
            format!("SELECT 1{}", " + 1".repeat(100_000)),
            format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(50_000)),
            format!("{}SELECT 1{}", "SELECT * FROM (".repeat(50_000), ")".repeat(50_000)),
        ] {
            assert_eq!(kind(&text), Some(SqlErrorKind::TooDeep), "{}", &text[..40]);
        }
        assert_eq!(kind(&" ".repeat(2 << 20)), Some(SqlErrorKind::TooLong));
        assert_eq!(kind(&format!("SELECT {}1{}", "(".repeat(150), ")".repeat(150))), None);
        assert_eq!(kind(&format!("SELECT 1{}", " + 1".repeat(15_000))), None);
    }

    /// What happened: `AT TIME ZONE` a hundred thousand times, not counted as a chain of signs, ended the process. Here
    /// each word of the parser stands behind itself in some ways, on a stack too small to drop an uncounted chain.
    #[test]
    fn no_word_makes_a_chain_that_is_not_counted() {
        const TIMES: usize = 1500;
        let all = || {
            for word in sqlparser::keywords::ALL_KEYWORDS {
                for (before, link) in [
                    ("SELECT 1", format!(" {word} 1")),
                    ("SELECT 1", format!(" {word}")),
                    ("SELECT 1", format!(" {word} TIME ZONE 'UTC'")),
                    ("SELECT 1", format!(" {word} (1)")),
                    ("SELECT 1", format!(" NOT {word} 1")),
                    ("SELECT 1", format!("::{word}[1]")),
                    ("SELECT * FROM t", format!(" {word} t")),
                    ("SELECT * FROM t", format!(" {word} (SUM(a) FOR b IN (1)) AS t")),
                ] {
                    _ = parse(&format!("{before}{}", link.repeat(TIMES)), &StatementLimits::default());
                }
            }
            let arrays = format!("SELECT CAST(1 AS INT{})", "[]".repeat(TIMES));
            _ = parse(&arrays, &StatementLimits::default());
        };
        std::thread::Builder::new().stack_size(96 << 10).spawn(all).unwrap().join().unwrap();
    }

    #[test]
    fn errors_have_a_place() {
        let at = |text: &str| {
            let error = parse(text, &StatementLimits::default()).unwrap_err();
            (error.place.line, error.place.column, error.place.offset.unwrap())
        };
        assert_eq!(at("SELECT 'é' FROM\n  WHERE"), (2, 3, 19));
        assert_eq!(at("SELECT 'abc"), (1, 8, 7));
        assert_eq!(at("SELECT 1 SELECT 2"), (1, 10, 9));
        assert_eq!(at("  DELETE FROM a"), (1, 3, 2));
        assert_eq!(at(""), (1, 1, 0));
        assert_eq!(at("SELECT ("), (1, 9, 8));
    }
}
