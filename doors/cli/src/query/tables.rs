//! Tables of SQL: named by options, or files named in a statement by their path, as in `SELECT * FROM 'people.csv'`.

use anyhow::{Context, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vicus_service::{SqlOptions, SqlType, Tables};

/// A table's name and its file.
pub(crate) fn table(text: &str) -> Result<(String, PathBuf), String> {
    let parts = text.split_once('=').filter(|(name, file)| !name.is_empty() && !file.is_empty());
    parts.map(|(name, file)| (name.to_owned(), file.into())).ok_or_else(|| "expected NAME=FILE".to_owned())
}

/// Types of a table's columns: `people=zip:varchar,age:bigint`.
#[derive(Clone, Debug)]
pub(crate) struct ColumnTypes {
    table: String,
    types: BTreeMap<String, SqlType>,
}

/// The value of `--table-types`; `None` if it asks for the types.
pub(crate) fn column_types(text: &str) -> Result<Option<ColumnTypes>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let form = || "expected NAME=COLUMN:TYPE,…, as in people=zip:varchar,age:bigint".to_owned();
    let (table, columns) = text.split_once('=').ok_or_else(form)?;
    let column = |text: &str| {
        let (name, kind) = text.rsplit_once(':').ok_or_else(form)?;
        let known = SqlType::named(kind);
        let unknown = || {
            let names = SqlType::SIMPLE.map(|kind| kind.to_string()).join(", ");
            format!("{kind} is no type: {names}, decimal(9,2), type[] and struct(a type, …) were expected")
        };
        Ok((name.to_owned(), known.ok_or_else(unknown)?))
    };
    let types = fields(columns).into_iter().map(column).collect::<Result<_, String>>()?;
    Ok(Some(ColumnTypes { table: table.to_owned(), types }))
}

/// The parts between commas outside of brackets.
fn fields(text: &str) -> Vec<&str> {
    let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0);
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

/// The tables of files, and the names of those that statements call by their paths. They are opened within `timeout`.
pub(crate) fn tables(
    given: &[(String, PathBuf)],
    types: &[ColumnTypes],
    statements: &[&str],
    timeout: Option<Duration>,
) -> anyhow::Result<SqlOptions> {
    let began = Instant::now();
    let ends = || timeout.is_some_and(|timeout| began.elapsed() >= timeout);
    let mut made = Tables::default();
    let mut open = |name: &str, path: &Path| -> anyhow::Result<()> {
        let types = types.iter().filter(|of| of.table == name).flat_map(|of| of.types.clone()).collect();
        let table = vicus_tables::open_until(path, types, &ends).with_context(|| format!("table {name}"))?;
        made.add(name, table);
        Ok(())
    };
    for (name, path) in given {
        open(name, path)?;
    }
    let named: BTreeSet<&str> = given.iter().map(|(name, _)| name.as_str()).collect();
    let files: BTreeSet<String> = statements.iter().flat_map(|text| files_in(text)).collect();
    for file in files.iter().filter(|file| !named.contains(file.as_str())) {
        open(file, Path::new(file))?;
    }
    let made = SqlOptions { tables: Arc::new(made) };
    let names: BTreeSet<String> = made.columns().into_iter().map(|(name, _)| name).collect();
    for of in types {
        let is_known = names.contains(&of.table);
        ensure!(is_known, "--table-types {}: there is no table of this name; give it by --table", of.table);
    }
    Ok(made)
}

/// The types of all columns, a line for each table, in the form of `--table-types`.
pub(crate) fn shown(tables: &SqlOptions) -> String {
    let line = |(name, columns): (String, Vec<(String, SqlType)>)| {
        let columns: Vec<String> = columns.iter().map(|(column, kind)| format!("{column}:{kind}")).collect();
        format!("{name}={}\n", columns.join(","))
    };
    tables.columns().into_iter().map(line).collect()
}

/// The quoted names behind FROM, JOIN, DESCRIBE and commas with the ending of a table file. Texts in other quotes, and
/// comments, are passed over.
fn files_in(statement: &str) -> Vec<String> {
    const ENDINGS: [&str; 10] = ["csv", "tsv", "jsonl", "ndjson", "parquet", "pq", "arrow", "feather", "ipc", "arrows"];
    let is_table = |name: &str| {
        let ending = Path::new(name).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        ENDINGS.iter().any(|known| known.eq_ignore_ascii_case(ending))
    };
    let (mut files, mut rest, mut word) = (Vec::new(), statement, String::new());
    // Within FROM, until another clause begins; in brackets as well.
    let mut in_from = false;
    while let Some(first) = rest.chars().next() {
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, rest)| rest);
        } else if matches!(first, '\'' | '"') {
            let (mut name, mut end) = (String::new(), rest.len());
            let mut chars = rest[1..].char_indices().peekable();
            while let Some((at, character)) = chars.next() {
                if character == first && chars.next_if(|(_, next)| *next == first).is_none() {
                    end = at + 2;
                    break;
                }
                name.push(character);
            }
            rest = &rest[end..];
            let is_before = ["FROM", "JOIN", "DESCRIBE", "DESC"].iter().any(|before| word.eq_ignore_ascii_case(before));
            let follows = is_before || in_from && word == ",";
            if follows && is_table(&name) {
                files.push(name);
            }
            word = "''".to_owned();
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|other: char| !other.is_alphanumeric() && other != '_').unwrap_or(rest.len());
            word = rest[..end].to_owned();
            match word.to_ascii_uppercase().as_str() {
                "FROM" => in_from = true,
                "SELECT" | "WHERE" | "GROUP" | "HAVING" | "ORDER" | "LIMIT" | "UNION" | "EXCEPT" | "INTERSECT"
                | "ON" => {
                    in_from = false;
                }
                "JOIN" => in_from = true,
                _ => {}
            }
            rest = &rest[end..];
        } else {
            if !first.is_whitespace() {
                word = first.to_string();
            }
            rest = &rest[first.len_utf8()..];
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_that_from_names() {
        for (statement, files) in [
            ("SELECT * FROM 'people.csv'", &["people.csv"][..]),
            ("select a, 'x.csv' from \"a b/c.parquet\" as t where b = 'y.csv'", &["a b/c.parquet"]),
            (
                "SELECT * FROM 'a.csv' AS a, 'it''s.tsv' b JOIN 'c.arrow' c ON a.x = 'd.csv'",
                &["a.csv", "it's.tsv", "c.arrow"],
            ),
            ("SELECT 1 -- FROM 'a.csv'\n/* FROM 'b.csv' */", &[]),
            ("SELECT * FROM (SELECT * FROM 'a.csv') AS t, 'b.csv'", &["a.csv", "b.csv"]),
            ("SELECT SUBSTRING(x FROM 2), 'a.csv' FROM t", &["a.csv"]),
            ("SELECT * FROM 'http://e/p'", &[]),
            ("SELECT * FROM 'open.csv", &["open.csv"]),
        ] {
            assert_eq!(files_in(statement), files, "{statement}");
        }
    }
}
