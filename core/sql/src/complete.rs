//! Suggests the next text at a place of a statement, from the text and the catalogue.
//!
//! Text being typed is seldom a statement, so it is read as tokens, without a parser. The word before the place tells
//! whether a table or a column of one comes next; the tables named anywhere in the text give their columns.

use crate::bind::FUNCTIONS;
use crate::table::{Catalogue, Table};
use std::ops::Range;
use std::sync::Arc;
use vicus_language::{Completion, Suggestion, SuggestionKind};

const KEYWORDS: &[&str] = &[
    "SELECT",
    "DISTINCT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "HAVING",
    "ORDER BY",
    "LIMIT",
    "OFFSET",
    "JOIN",
    "LEFT JOIN",
    "RIGHT JOIN",
    "FULL JOIN",
    "CROSS JOIN",
    "INNER JOIN",
    "ON",
    "USING",
    "AS",
    "AND",
    "OR",
    "NOT",
    "IN",
    "EXISTS",
    "BETWEEN",
    "LIKE",
    "IS NULL",
    "IS NOT NULL",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "CAST",
    "UNION",
    "UNION ALL",
    "INTERSECT",
    "EXCEPT",
    "WITH",
    "VALUES",
    "ASC",
    "DESC",
    "NULLS FIRST",
    "NULLS LAST",
    "TRUE",
    "FALSE",
    "NULL",
];

/// More are not suggested.
const MOST: usize = 60;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token<'a> {
    Word(&'a str),
    /// A name within quotes, perhaps without its end.
    Quoted(&'a str),
    /// A text, a number, or a comment: nothing is suggested within.
    Opaque,
    Sign(char),
}

/// Suggests texts for a byte of a statement.
///
/// ```
/// use std::sync::Arc;
/// use vicus_sql::{MemoryTable, SqlType, TableColumn, Tables, complete_sql};
///
/// let mut tables = Tables::default();
/// let columns = [TableColumn::new("name", SqlType::Varchar), TableColumn::new("age", SqlType::BigInt)];
/// tables.add("people", Arc::new(MemoryTable::new(columns, [])));
/// let text = "SELECT p.n FROM people AS p";
/// let found = complete_sql(text, "SELECT p.n".len(), &tables);
/// assert_eq!(&text[found.range], "n");
/// assert_eq!(found.suggestions[0].text, "name");
/// ```
pub fn complete_sql(text: &str, cursor: usize, catalogue: &dyn Catalogue) -> Completion {
    let mut cursor = cursor.min(text.len());
    while !text.is_char_boundary(cursor) {
        cursor -= 1;
    }
    let tokens = tokens(text);
    let touched = tokens.iter().find(|(_, range)| range.start < cursor && cursor <= range.end);
    let typed = match touched {
        Some((Token::Word(_) | Token::Quoted(_), range)) => range.clone(),
        // A place behind a finished text is free, as one behind a sign is.
        Some((Token::Opaque, range)) if cursor < range.end || !text[..cursor].ends_with('\'') => {
            return Completion { range: cursor..cursor, suggestions: Vec::new() };
        }
        _ => cursor..cursor,
    };
    let begin = text[typed.start..cursor].trim_start_matches('"').to_lowercase();
    let before: Vec<Token<'_>> =
        tokens.iter().filter(|(_, range)| range.end <= typed.start).map(|(token, _)| *token).collect();
    let named = Named { names: catalogue.names(), catalogue };
    let mut suggestions = named.suggestions(&before, &tokens);
    suggestions.retain(|each| each.text.trim_start_matches('"').to_lowercase().contains(&begin));
    // Suggestions beginning as typed come first; within them the order is that of the kinds above.
    suggestions.sort_by_key(|each| !each.text.trim_start_matches('"').to_lowercase().starts_with(&begin));
    suggestions.truncate(MOST);
    Completion { range: typed, suggestions }
}

/// The tables of a catalogue by name.
struct Named<'a> {
    names: Vec<String>,
    catalogue: &'a dyn Catalogue,
}

impl Named<'_> {
    /// The suggestions behind some tokens of a text, whatever is typed.
    fn suggestions(&self, before: &[Token<'_>], all: &[(Token<'_>, Range<usize>)]) -> Vec<Suggestion> {
        let used = self.used(all);
        if let [.., owner, Token::Sign('.')] = before {
            let of_owner = used.iter().filter(|(alias, ..)| owner.names(alias));
            return of_owner.flat_map(|(_, name, table)| columns(name, table)).collect();
        }
        if wants_table(before) {
            return self.names.iter().map(|name| suggestion(written(name), SuggestionKind::Table, "")).collect();
        }
        let mut found: Vec<Suggestion> = Vec::new();
        if used.is_empty() {
            let tables = self.names.iter().filter_map(|name| Some((name, self.table(name)?)));
            found.extend(tables.flat_map(|(name, table)| columns(name, &table)).take(MOST));
        }
        found.extend(used.iter().flat_map(|(_, name, table)| columns(name, table)));
        let aliases = used.iter().map(|(alias, ..)| suggestion(written(alias), SuggestionKind::Table, ""));
        found.extend(aliases);
        let functions = FUNCTIONS.iter().map(|name| format!("{name}("));
        found.extend(functions.map(|text| suggestion(text, SuggestionKind::Function, "")));
        let keywords = KEYWORDS.iter().map(|word| suggestion((*word).to_owned(), SuggestionKind::Keyword, ""));
        found.extend(keywords);
        found
    }

    fn table(&self, name: &str) -> Option<Arc<dyn Table>> {
        self.catalogue.table(&[name.to_owned()])
    }

    /// The tables that a text names, each under its alias if it has one.
    fn used(&self, tokens: &[(Token<'_>, Range<usize>)]) -> Vec<(String, String, Arc<dyn Table>)> {
        let mut used: Vec<(String, String, Arc<dyn Table>)> = Vec::new();
        for (at, (token, _)) in tokens.iter().enumerate() {
            let preceding: Vec<Token<'_>> = tokens[..at].iter().map(|(token, _)| *token).collect();
            let Some(name) = self.names.iter().find(|name| token.names(name)).filter(|_| wants_table(&preceding))
            else {
                continue;
            };
            let Some(table) = self.table(name) else { continue };
            let mut following = tokens[at + 1..].iter().map(|(token, _)| *token).peekable();
            following.next_if(|token| matches!(token, Token::Word(word) if word.eq_ignore_ascii_case("as")));
            let alias = match following.next() {
                Some(Token::Word(word)) if !is_keyword(word) => word.to_owned(),
                Some(Token::Quoted(word)) => word.to_owned(),
                _ => name.clone(),
            };
            used.push((alias, name.clone(), table));
        }
        used
    }
}

impl Token<'_> {
    /// Whether it is this name: in quotes literally, else in any letters.
    fn names(&self, name: &str) -> bool {
        match self {
            Token::Word(word) => word.eq_ignore_ascii_case(name),
            Token::Quoted(quoted) => *quoted == name,
            _ => false,
        }
    }
}

/// Whether a table comes next: behind FROM and JOIN, and behind a comma in the list of FROM.
fn wants_table(before: &[Token<'_>]) -> bool {
    let is = |token: &Token<'_>, words: &[&str]| match token {
        Token::Word(word) => words.iter().any(|each| word.eq_ignore_ascii_case(each)),
        _ => false,
    };
    match before.last() {
        Some(Token::Sign(',')) => {
            let clause = before.iter().rev().find(|token| {
                is(token, &["select", "from", "where", "group", "order", "having", "on", "using", "values", "limit"])
            });
            clause.is_some_and(|token| is(token, &["from"]))
        }
        Some(token) => is(token, &["from", "join"]),
        None => false,
    }
}

fn columns(name: &str, table: &Arc<dyn Table>) -> Vec<Suggestion> {
    let readable = table.columns().iter().filter(|column| column.unreadable.is_none());
    readable.map(|column| suggestion(written(&column.name), SuggestionKind::Column, name)).collect()
}

fn suggestion(text: String, kind: SuggestionKind, detail: &str) -> Suggestion {
    Suggestion { text, kind, detail: detail.to_owned(), count: None, prefix: None }
}

fn is_keyword(word: &str) -> bool {
    KEYWORDS.iter().flat_map(|keyword| keyword.split(' ')).any(|each| each.eq_ignore_ascii_case(word))
}

/// A name as a statement has it.
fn written(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins && name.chars().all(is_plain) && !is_keyword(name) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// Cuts any text into tokens.
fn tokens(text: &str) -> Vec<(Token<'_>, Range<usize>)> {
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let behind = |end: Option<usize>, mark: usize| end.map_or(rest.len(), |end| end + mark);
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let (token, length) = match first {
            c if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            '-' if rest.starts_with("--") => (Token::Opaque, behind(rest.find('\n'), 0)),
            '/' if rest.starts_with("/*") => (Token::Opaque, behind(rest.find("*/"), 2)),
            '\'' => (Token::Opaque, 1 + rest[1..].find('\'').map_or(rest.len() - 1, |end| end + 1)),
            '"' => {
                let end = rest[1..].find('"');
                let name = &rest[1..end.map_or(rest.len(), |end| end + 1)];
                (Token::Quoted(name), 1 + name.len() + usize::from(end.is_some()))
            }
            c if c.is_ascii_digit() => (Token::Opaque, behind(rest.find(|c: char| !(is_word(c) || c == '.')), 0)),
            c if is_word(c) => {
                let length = behind(rest.find(|c: char| !is_word(c)), 0);
                (Token::Word(&rest[..length]), length)
            }
            c => (Token::Sign(c), c.len_utf8()),
        };
        tokens.push((token, at..at + length));
        at += length;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{MemoryTable, TableColumn, Tables};
    use crate::types::SqlType;

    /// The suggestions at the sign `^` of a text.
    fn at(text: &str) -> Vec<String> {
        let table = |names: &[&str]| {
            let columns: Vec<TableColumn> =
                names.iter().map(|name| TableColumn::new(*name, SqlType::Varchar)).collect();
            Arc::new(MemoryTable::new(columns, []))
        };
        let mut tables = Tables::default();
        tables.add("people", table(&["name", "age", "home town"]));
        tables.add("http://e/knows", table(&["subject", "object"]));
        let cursor = text.find('^').unwrap();
        let text = text.replacen('^', "", 1);
        complete_sql(&text, cursor, &tables).suggestions.into_iter().map(|each| each.text).collect()
    }

    #[test]
    fn tables_columns_and_words_come_where_they_may_stand() {
        assert_eq!(at("SELECT * FROM ^"), ["\"http://e/knows\"", "people"]);
        assert_eq!(at("SELECT * FROM people, ^"), ["\"http://e/knows\"", "people"]);
        assert_eq!(at("SELECT * FROM peo^ WHERE age > 1"), ["people"]);
        assert_eq!(at("SELECT * FROM \"http://e/k^"), ["\"http://e/knows\""]);
        assert_eq!(at("SELECT ag^ FROM people"), ["age"]);
        assert_eq!(at("SELECT ^ FROM people")[..3].to_vec(), ["name", "age", "\"home town\""]);
        assert_eq!(
            at("SELECT k.^ FROM people p JOIN \"http://e/knows\" AS k ON p.name = k.subject"),
            ["subject", "object"]
        );
        assert_eq!(at("SELECT * FROM PEOPLE p WHERE p.a^")[0], "age");
        // A comma among the columns is none among the tables.
        assert!(at("SELECT name, ^ FROM people").contains(&"age".to_owned()));
        assert!(at("SEL^").contains(&"SELECT".to_owned()) && at("SELECT upp^").contains(&"upper(".to_owned()));
        assert_eq!(at("SELECT 'na^"), Vec::<String>::new());
        assert_eq!(at("SELECT 1 -- na^"), Vec::<String>::new());
    }

    /// Reads any text, at any place.
    #[test]
    fn any_text_is_read() {
        for text in ["SELECT \"", "'", "/*", "--", "\u{1F3E0}.\u{1F3E0}\"\u{1F3E0}", "FROM FROM , . ( people"] {
            for cursor in 0..=text.len() + 1 {
                let found = complete_sql(text, cursor, &Tables::default());
                assert!(text.get(found.range).is_some(), "{text}, {cursor}");
            }
        }
    }
}
