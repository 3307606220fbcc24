//! Tables in lines of JSON: an object is a row.
//!
//! The first rows say which columns there are and of which types, as those of CSV do. A later value of another type,
//! and a name that no earlier row has, are errors with their line: nothing of a file is left out unseen.

use crate::TableError;
use crate::csv::guess::Guess;
use crate::file::{Reader, Shared};
use crate::values::Values;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vicus_flow::{BoxError, Envelope, Field};
use vicus_sql::{ColumnRange, Scan, SqlType, Table, TableColumn, UnreadableTable};

/// The format's name in errors.
pub(crate) const FORMAT: &str = "JSON lines";

/// So many rows are looked at for names and types of columns.
const INFERRED_ROWS: usize = 10_000;

/// So many bytes are read at once, at least to the end of a line.
const BLOCK: usize = 1 << 18;

/// The longest line.
const MOST_LINE: usize = 64 << 20;

/// The most columns.
const MOST_COLUMNS: usize = 16_384;

type Object = serde_json::Map<String, Value>;

/// The values of an object, in the order of the text.
struct Pairs(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Pairs, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        from.deserialize_map(Reader)
    }
}

/// A file of lines of JSON.
pub(crate) struct JsonTable {
    form: Arc<Form>,
    file: Shared,
    rows: u64,
}

struct Form {
    path: PathBuf,
    columns: Vec<TableColumn>,
    fields: Vec<Field>,
    /// Places of the columns, by name.
    places: BTreeMap<String, usize>,
}

impl JsonTable {
    pub(crate) fn open(
        path: &Path,
        types: &BTreeMap<String, SqlType>,
        ends: &dyn Fn() -> bool,
    ) -> Result<JsonTable, TableError> {
        let file = Shared::open(path)?;
        let mut lines = Lines::new(file.reader());
        let (mut names, mut seen): (Vec<String>, Vec<SeenValues>) = (Vec::new(), Vec::new());
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        let (mut rows, mut bytes) = (0, 0);
        'blocks: loop {
            if ends() {
                return Err(TableError::Stopped { path: path.to_owned() });
            }
            lines.load().map_err(|error| TableError::io(path, error))?;
            while let Some(line) = lines.next() {
                let (text, number) = line.map_err(|error| TableError::format(path, FORMAT, error))?;
                bytes += text.len() as u64 + 1;
                let read = object::<Pairs>(text, number).map_err(|why| TableError::format(path, FORMAT, why))?;
                let Some(Pairs(pairs)) = read else { continue };
                for (name, value) in pairs {
                    let place = *places.entry(name).or_insert_with_key(|name| {
                        names.push(name.clone());
                        seen.push(SeenValues::default());
                        names.len() - 1
                    });
                    seen[place].see(&value);
                }
                if names.len() > MOST_COLUMNS {
                    let reason = format!("line {number}: it has more than {MOST_COLUMNS} columns");
                    return Err(TableError::format(path, FORMAT, reason));
                }
                rows += 1;
                if rows == INFERRED_ROWS {
                    break 'blocks;
                }
            }
            if lines.is_over() {
                break;
            }
        }
        // A column of which the first rows have no value has a type that is given.
        for name in types.keys().filter(|name| !places.contains_key(*name)).cloned().collect::<Vec<_>>() {
            places.insert(name.clone(), names.len());
            names.push(name);
            seen.push(SeenValues::default());
        }
        if names.is_empty() {
            return Err(TableError::format(path, FORMAT, "no line has an object with a value"));
        }
        let kind = |(name, seen): (&String, &SeenValues)| types.get(name).cloned().unwrap_or_else(|| seen.kind());
        let kinds: Vec<SqlType> = names.iter().zip(&seen).map(kind).collect();
        let columns = names.iter().zip(&kinds).map(|(name, kind)| TableColumn::new(name, kind.clone())).collect();
        let fields = names.iter().zip(&kinds).map(|(name, kind)| Field::new(name, kind.flow_type()).or_null());
        let form = Form { path: path.to_owned(), columns, fields: fields.collect(), places };
        // As if the rest looked like the beginning.
        let rows = (rows as u128 * u128::from(file.length) / u128::from(bytes.max(1))) as u64;
        Ok(JsonTable { form: Arc::new(form), file, rows })
    }
}

/// The object of a line; `None` of a line without signs.
fn object<O: DeserializeOwned>(line: &str, number: u64) -> Result<Option<O>, String> {
    if line.trim().is_empty() {
        return Ok(None);
    }
    let read = serde_json::from_str::<O>(line);
    read.map(Some).map_err(|error| {
        // The parser sees one line, and tells it behind what is wrong.
        let what = error.to_string();
        let what = what.rsplit_once(" at line ").map_or(what.as_str(), |(what, _)| what).to_owned();
        format!("line {number}, column {}: an object of JSON was expected: {what}", error.column().max(1))
    })
}

/// The kinds of values that a column has had.
#[derive(Default)]
struct SeenValues {
    booleans: bool,
    integers: bool,
    doubles: bool,
    others: bool,
    texts: Option<Guess>,
}

impl SeenValues {
    fn see(&mut self, value: &Value) {
        match value {
            Value::Null => {}
            Value::Bool(_) => self.booleans = true,
            Value::Number(number) if number.is_i64() => self.integers = true,
            Value::Number(_) => self.doubles = true,
            Value::String(text) => self.texts.get_or_insert_with(Guess::new).see(text),
            Value::Array(_) | Value::Object(_) => self.others = true,
        }
    }

    /// The type of the column. Texts are dates and timestamps if all look so, and never numbers.
    fn kind(&self) -> SqlType {
        let SeenValues { booleans, integers, doubles, others, texts } = self;
        match (booleans, integers | doubles, others, texts) {
            (true, false, false, None) => SqlType::Boolean,
            (false, true, false, None) if !doubles => SqlType::BigInt,
            (false, true, false, None) => SqlType::Double,
            (false, false, false, Some(guess)) => match guess.kind() {
                kind @ (SqlType::Date | SqlType::Timestamp) => kind,
                _ => SqlType::Varchar,
            },
            _ => SqlType::Varchar,
        }
    }
}

impl Table for JsonTable {
    fn columns(&self) -> &[TableColumn] {
        &self.form.columns
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows)
    }

    fn parts(&self) -> usize {
        1
    }

    fn scan(&self, columns: &[usize], _part: usize, _filters: &[ColumnRange]) -> Box<dyn Scan> {
        Box::new(JsonScan {
            form: Arc::clone(&self.form),
            file: self.file.clone(),
            lines: Lines::new(self.file.reader()),
            columns: columns.to_vec(),
        })
    }

    fn loads(&self) -> bool {
        true
    }
}

struct JsonScan {
    form: Arc<Form>,
    file: Shared,
    lines: Lines,
    /// The columns that are read.
    columns: Vec<usize>,
}

impl JsonScan {
    /// Appends a row. An error names the line.
    fn row(&self, text: &str, number: u64, values: &mut [Values]) -> Result<bool, String> {
        let Some(object) = object::<Object>(text, number)? else { return Ok(false) };
        if let Some(name) = object.keys().find(|name| !self.form.places.contains_key(*name)) {
            return Err(format!(
                "line {number}: the first rows have no column {name}; if its type is given, it is read (--table-types, \
                 types)"
            ));
        }
        for (&column, values) in self.columns.iter().zip(values) {
            let TableColumn { name, kind, .. } = &self.form.columns[column];
            let value = object.get(name).unwrap_or(&Value::Null);
            if !values.push_json(value, text) {
                let shown: String = value.to_string().chars().take(60).collect();
                return Err(format!("line {number}, column {name}: {shown} is no {kind}"));
            }
        }
        Ok(true)
    }
}

impl Scan for JsonScan {
    fn load(&mut self) -> Result<(), BoxError> {
        let loaded = self.lines.load().and_then(|()| self.file.check());
        loaded.map_err(|error| UnreadableTable(format!("{}: {error}", self.form.path.display())).into())
    }

    fn next(&mut self, most_rows: usize) -> Result<Option<Envelope>, BoxError> {
        let mut values: Vec<Values> =
            self.columns.iter().map(|&column| Values::of(&self.form.fields[column])).collect();
        let mut rows = 0;
        let mut lines = std::mem::replace(&mut self.lines, Lines::new(self.file.reader()));
        let mut read = || {
            while rows < most_rows {
                let Some(line) = lines.next() else { break };
                let (text, number) = line?;
                rows += usize::from(self.row(text, number, &mut values)?);
            }
            Ok(())
        };
        let done: Result<(), String> = read();
        self.lines = lines;
        done.map_err(|why| UnreadableTable(format!("{}: {why}", self.form.path.display())))?;
        if rows == 0 && self.lines.is_over() {
            return Ok(None);
        }
        Ok(Some(Envelope::of_rows(values.into_iter().map(Values::column).collect(), rows)))
    }

    fn held_bytes(&self) -> u64 {
        self.lines.block.capacity() as u64
    }
}

/// The lines of a file, a block of them after the other.
struct Lines {
    reader: Reader,
    /// Whole lines, and behind `end` the beginning of one; those before `from` are over.
    block: Vec<u8>,
    from: usize,
    end: usize,
    is_at_end: bool,
    /// How many lines are over.
    count: u64,
}

impl Lines {
    fn new(reader: Reader) -> Lines {
        Lines { reader, block: Vec::new(), from: 0, end: 0, is_at_end: false, count: 0 }
    }

    /// Whether nothing is left, neither here nor in the file.
    fn is_over(&self) -> bool {
        self.is_at_end && self.from == self.block.len()
    }

    /// Reads lines, if all are over.
    fn load(&mut self) -> std::io::Result<()> {
        if self.from < self.end || self.is_at_end {
            return Ok(());
        }
        self.block.drain(..self.from);
        self.from = 0;
        loop {
            let before = self.block.len();
            let more = BLOCK.max(before);
            self.block.try_reserve(more).map_err(|_| std::io::ErrorKind::OutOfMemory)?;
            let count = (&mut self.reader).take(more as u64).read_to_end(&mut self.block)?;
            self.is_at_end = count < more;
            let last = self.block[before..].iter().rposition(|&byte| byte == b'\n');
            self.end = match last {
                _ if self.is_at_end => self.block.len(),
                Some(at) => before + at + 1,
                None => 0,
            };
            if self.end > 0 || self.is_at_end || self.block.len() > MOST_LINE {
                return Ok(());
            }
        }
    }

    /// The next line and its number, from 1 on. `None`: more have to be loaded, if there are any.
    fn next(&mut self) -> Option<Result<(&str, u64), String>> {
        if self.from == self.end {
            let is_long = self.block.len() - self.from > MOST_LINE;
            return is_long.then(|| Err(format!("line {}: it is longer than {MOST_LINE} bytes", self.count + 1)));
        }
        let rest = &self.block[self.from..self.end];
        let length = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        self.from = (self.from + length + 1).min(self.end);
        self.count += 1;
        let mut line = &rest[..length];
        if self.count == 1 {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        let text = std::str::from_utf8(line);
        let number = self.count;
        Some(
            text.map(|text| (text, number))
                .map_err(|error| format!("line {number}, column {}: it is not UTF-8", error.valid_up_to() + 1)),
        )
    }
}
