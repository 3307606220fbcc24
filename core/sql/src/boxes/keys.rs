//! Keys of rows as strings of bytes, and a table to number the distinct ones.

use crate::evaluate::{Room, Vector, column_of};
use crate::types::{Form, SqlType, Value, canonical};
use hashbrown::HashTable;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_nano_inline};
use vicus_flow::{BoxError, Column, Grow, NoMemory, refusable};

/// Writes keys. Equal values have equal bytes: -0 is 0, and all NaNs are one.
pub(crate) struct KeyWriter<'a> {
    parts: Vec<(Part<'a>, SqlType)>,
}

enum Part<'a> {
    /// One key for all rows, already written.
    One(Vec<u8>, bool),
    Many(&'a Column),
}

impl<'a> KeyWriter<'a> {
    ///
    /// # Errors
    /// There is no room for a text common to all rows.
    pub(crate) fn new(vectors: &'a [Vector], kinds: &[SqlType], room: &Room<'_>) -> Result<KeyWriter<'a>, BoxError> {
        let part = |(vector, kind): (&'a Vector, &SqlType)| match vector {
            Vector::Many(column) => Ok((Part::Many(column), kind.clone())),
            one => {
                // The column, its key, and a row's key with it.
                room.take(2 * one.text_bytes())?;
                let (column, mut bytes) = (one.clone().into_column(kind, 1, room)?, Vec::new());
                write(&column, kind, 0, &mut bytes);
                Ok((Part::One(bytes, column.is_null(0)), kind.clone()))
            }
        };
        Ok(KeyWriter { parts: vectors.iter().zip(kinds).map(part).collect::<Result<_, BoxError>>()? })
    }

    /// The results for values of a dictionary, if the key is one column of one: each is looked up once for all rows
    /// with its code. `None` for other keys, and for a dictionary that is large beside the rows.
    ///
    /// # Errors
    /// There is no room for them.
    pub(crate) fn of_codes(&self, rows: usize, room: &Room<'_>) -> Result<Option<OfCodes<'a>>, BoxError> {
        let [(Part::Many(column), _)] = self.parts[..] else { return Ok(None) };
        let Some((codes, values)) = column.dictionary_parts() else { return Ok(None) };
        if values.len() > rows {
            return Ok(None);
        }
        room.take((values.len() + 1) * size_of::<Option<u32>>())?;
        let found = vec![None; values.len() + 1];
        Ok(Some(OfCodes { column, codes, found }))
    }

    /// Replaces a key by a row's. Whether one of its values is null.
    #[inline]
    pub(crate) fn write(&self, row: usize, key: &mut Vec<u8>) -> bool {
        key.clear();
        let mut has_null = false;
        for (part, kind) in &self.parts {
            has_null |= match part {
                Part::One(bytes, is_null) => {
                    key.extend_from_slice(bytes);
                    *is_null
                }
                Part::Many(column) => write(column, kind, row, key),
            };
        }
        has_null
    }
}

/// A number for each code of a dictionary, and one for null.
pub(crate) struct OfCodes<'a> {
    column: &'a Column,
    codes: &'a [u32],
    /// By code; null comes last.
    found: Vec<Option<u32>>,
}

impl OfCodes<'_> {
    #[inline]
    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.column.null_count() > 0 && self.column.is_null(row)
    }

    /// The number of a row's code, which is the result of `find` for the first row with this code.
    ///
    /// # Errors
    /// Those of `find`.
    #[inline]
    pub(crate) fn number(&mut self, row: usize, find: impl FnOnce() -> Result<u32, BoxError>) -> Result<u32, BoxError> {
        let last = self.found.len() - 1;
        let code = if self.is_null(row) { last } else { self.codes[row] as usize };
        if let Some(number) = self.found[code] {
            return Ok(number);
        }
        let number = find()?;
        self.found[code] = Some(number);
        Ok(number)
    }
}

#[inline]
fn write(column: &Column, kind: &SqlType, row: usize, key: &mut Vec<u8>) -> bool {
    if column.null_count() > 0 && column.is_null(row) {
        key.push(0);
        return true;
    }
    key.push(1);
    match kind.form() {
        Form::Truth => key.push(u8::from(column.bools()[row])),
        Form::Integer => key.extend_from_slice(&column.i64s()[row].to_le_bytes()),
        Form::Double => key.extend_from_slice(&canonical(column.f64s()[row]).to_le_bytes()),
        Form::Decimal => key.extend_from_slice(&column.decimals()[row].to_le_bytes()),
        Form::Days => key.extend_from_slice(&column.i32s()[row].to_le_bytes()),
        Form::Bytes => {
            let bytes = match kind {
                SqlType::Varchar => column.text_at(row).as_bytes(),
                _ => column.binary_at(row),
            };
            key.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            key.extend_from_slice(bytes);
        }
        Form::Parts => write_parts(column, kind, row, key),
    }
    false
}

/// Writes a list as its length and its values, a struct as its parts.
#[inline(never)]
fn write_parts(column: &Column, kind: &SqlType, row: usize, key: &mut Vec<u8>) {
    match kind {
        SqlType::List(of) => {
            let items = column.item_range(row);
            key.extend_from_slice(&(items.len() as u32).to_le_bytes());
            for item in items {
                write(column.items(), of, item, key);
            }
        }
        SqlType::Struct(parts) => {
            for (place, (_, kind)) in parts.iter().enumerate() {
                write(column.part(place), kind, row, key);
            }
        }
        other => unreachable!("{other} has no parts"),
    }
}

/// Reads a value of a type without a column of its own, which [`write`] has written.
fn read(kind: &SqlType, key: &mut &[u8]) -> Value {
    if take::<1>(key)[0] == 0 {
        return Value::Null;
    }
    let integer = |key: &mut &[u8]| i64::from_le_bytes(take(key));
    match kind {
        SqlType::Boolean => Value::Boolean(take::<1>(key)[0] == 1),
        SqlType::BigInt => Value::BigInt(integer(key)),
        SqlType::Time => Value::Time(integer(key)),
        SqlType::Timestamp => Value::Timestamp(integer(key)),
        SqlType::TimestampTz => Value::TimestampTz(integer(key)),
        SqlType::Interval => Value::Interval(integer(key)),
        SqlType::Double => Value::Double(f64::from_le_bytes(take(key))),
        SqlType::Decimal { scale, .. } => Value::Decimal(i128::from_le_bytes(take(key)), *scale),
        SqlType::Date => Value::Date(i32::from_le_bytes(take(key))),
        SqlType::Varchar => Value::Varchar(str::from_utf8(take_bytes(key)).expect("a text was written").into()),
        SqlType::Blob => Value::Blob(take_bytes(key).into()),
        SqlType::List(of) => {
            let length = u32::from_le_bytes(take(key));
            Value::List((0..length).map(|_| read(of, key)).collect())
        }
        SqlType::Struct(parts) => {
            Value::Struct(parts.iter().map(|(name, kind)| (name.clone(), read(kind, key))).collect())
        }
    }
}

/// Reads keys back into columns.
///
/// # Errors
/// There is no room for their texts.
pub(crate) fn columns_of<'k>(
    keys: impl Iterator<Item = &'k [u8]> + Clone,
    kinds: &[SqlType],
    room: &Room<'_>,
) -> Result<Vec<Column>, BoxError> {
    enum Read {
        Boolean(Vec<bool>),
        BigInt(Vec<i64>),
        Double(Vec<f64>),
        Decimal(Vec<i128>),
        Date(Vec<i32>),
        Varchar(String, Vec<i32>),
        /// Values of other types.
        Other(Vec<Value>),
    }
    if kinds.iter().any(|kind| matches!(kind.form(), Form::Bytes | Form::Parts)) {
        // The texts while they grow: the old ones and twice as much. A number of nine bytes is a larger single value.
        let times = if kinds.iter().all(|kind| kind.form() != Form::Parts) { 3 } else { 3 + size_of::<Value>() / 4 };
        room.take(keys.clone().map(|key| times * key.len()).fold(0, usize::saturating_add))?;
    }
    let too_much = || BoxError::from("the texts of one envelope would have more than 2 GiB");
    let empty = |kind: &SqlType| match kind.form() {
        Form::Truth => Read::Boolean(Vec::new()),
        Form::Integer => Read::BigInt(Vec::new()),
        Form::Double => Read::Double(Vec::new()),
        Form::Decimal => Read::Decimal(Vec::new()),
        Form::Days => Read::Date(Vec::new()),
        Form::Bytes if *kind == SqlType::Varchar => Read::Varchar(String::new(), vec![0]),
        Form::Bytes | Form::Parts => Read::Other(Vec::new()),
    };
    let mut made: Vec<(Read, Vec<usize>)> = kinds.iter().map(|kind| (empty(kind), Vec::new())).collect();
    for (row, mut key) in keys.enumerate() {
        for ((values, nulls), kind) in made.iter_mut().zip(kinds) {
            if let Read::Other(values) = values {
                values.push(read(kind, &mut key));
                continue;
            }
            let is_there = key[0] == 1;
            key = &key[1..];
            if !is_there {
                nulls.push(row);
                match values {
                    Read::Boolean(values) => values.push(false),
                    Read::BigInt(values) => values.push(0),
                    Read::Double(values) => values.push(0.0),
                    Read::Decimal(values) => values.push(0),
                    Read::Date(values) => values.push(0),
                    Read::Varchar(_, ends) => ends.push(*ends.last().expect("it begins with 0")),
                    Read::Other(_) => unreachable!("it was read"),
                }
                continue;
            }
            match values {
                Read::Boolean(values) => values.push(take::<1>(&mut key)[0] == 1),
                Read::BigInt(values) => values.push(i64::from_le_bytes(take(&mut key))),
                Read::Double(values) => values.push(f64::from_le_bytes(take(&mut key))),
                Read::Decimal(values) => values.push(i128::from_le_bytes(take(&mut key))),
                Read::Date(values) => values.push(i32::from_le_bytes(take(&mut key))),
                Read::Varchar(text, ends) => {
                    text.push_str(str::from_utf8(take_bytes(&mut key)).expect("a text was written"));
                    ends.push(i32::try_from(text.len()).map_err(|_| too_much())?);
                }
                Read::Other(_) => unreachable!("it was read"),
            }
        }
    }
    let column = |((values, nulls), kind): ((Read, Vec<usize>), &SqlType)| {
        let column: Column = match values {
            Read::Boolean(values) => values.into(),
            Read::BigInt(values) => values.into(),
            Read::Double(values) => values.into(),
            Read::Decimal(values) => Column::of_decimals(crate::decimal::DIGITS, 0, values),
            Read::Date(values) => values.into(),
            Read::Varchar(text, ends) => Column::of_text(text, ends),
            Read::Other(values) => return column_of(kind, &values.iter().collect::<Vec<_>>()),
        };
        let column = column.of_type(kind.flow_type());
        if nulls.is_empty() { column } else { column.with_nulls(nulls) }
    };
    Ok(made.into_iter().zip(kinds).map(column).collect())
}

/// The bytes behind their number.
fn take_bytes<'k>(key: &mut &'k [u8]) -> &'k [u8] {
    let length = u32::from_le_bytes(take(key)) as usize;
    let (bytes, rest) = key.split_at(length);
    *key = rest;
    bytes
}

fn take<const N: usize>(key: &mut &[u8]) -> [u8; N] {
    let (first, rest) = key.split_at(N);
    *key = rest;
    first.try_into().expect("so many were split off")
}

/// Numbers keys in the order of their arrival.
pub(crate) struct KeyTable {
    table: HashTable<u32>,
    secrets: RapidSecrets,
    bytes: Vec<u8>,
    /// The end of each key.
    ends: Vec<usize>,
    hashes: Vec<u32>,
}

impl KeyTable {
    pub(crate) fn new(seed: u64) -> KeyTable {
        KeyTable {
            table: HashTable::new(),
            secrets: RapidSecrets::seed(seed),
            bytes: Vec::new(),
            ends: Vec::new(),
            hashes: Vec::new(),
        }
    }

    /// A table without keys, with the same hashes.
    pub(crate) fn emptied(&self) -> KeyTable {
        KeyTable {
            table: HashTable::new(),
            secrets: self.secrets,
            bytes: Vec::new(),
            ends: Vec::new(),
            hashes: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Its bytes of memory.
    pub(crate) fn held(&self) -> u64 {
        let bytes = self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.hashes.capacity() * size_of::<u32>()
            + self.table.allocation_size();
        bytes as u64
    }

    pub(crate) fn key(&self, number: usize) -> &[u8] {
        key(&self.bytes, &self.ends, number)
    }

    /// Whether memory is moved for so many further keys of so many bytes: a list that grows is there twice.
    pub(crate) fn grows(&self, keys: usize, bytes: usize) -> bool {
        self.bytes.capacity() - self.bytes.len() < bytes
            || self.ends.capacity() - self.ends.len() < keys
            || self.table.capacity() - self.table.len() < keys
    }

    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        rapidhash_v3_nano_inline::<true, false>(key, &self.secrets)
    }

    pub(crate) fn find(&self, wanted: &[u8]) -> Option<u32> {
        let hash = self.hash(wanted);
        self.table.find(hash, |&number| self.is_key(number, hash, wanted)).copied()
    }

    #[inline]
    fn is_key(&self, number: u32, hash: u64, wanted: &[u8]) -> bool {
        self.hashes[number as usize] == (hash >> 32) as u32 && self.key(number as usize) == wanted
    }

    /// The number of a key; a new key is added. Room is taken when the keys grow.
    pub(crate) fn number(&mut self, wanted: &[u8], room: &Room<'_>) -> Result<u32, BoxError> {
        let hash = self.hash(wanted);
        if let Some(&number) = self.table.find(hash, |&number| self.is_key(number, hash, wanted)) {
            return Ok(number);
        }
        let number = u32::try_from(self.ends.len()).map_err(|_| "there are more than four billion groups")?;
        if self.bytes.capacity() - self.bytes.len() < wanted.len() {
            room.take((2 * self.bytes.capacity()).max(self.bytes.len() + wanted.len()))?;
        }
        self.bytes.grow(wanted.len())?;
        self.bytes.extend_from_slice(wanted);
        self.ends.grow(1)?;
        self.ends.push(self.bytes.len());
        self.hashes.grow(1)?;
        self.hashes.push((hash >> 32) as u32);
        let KeyTable { table, secrets, bytes, ends, .. } = self;
        let rehash =
            |&number: &u32| rapidhash_v3_nano_inline::<true, false>(key(bytes, ends, number as usize), secrets);
        let room = (table.len() as u64 + 1) * 8;
        refusable(|| table.try_reserve(1, rehash)).map_err(|_| NoMemory { bytes: room })?;
        table.insert_unique(hash, number, rehash);
        Ok(number)
    }
}

fn key<'b>(bytes: &'b [u8], ends: &[usize], number: usize) -> &'b [u8] {
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &bytes[start..ends[number]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_of_a_dictionary_is_looked_up_once() {
        let ask = |_| Ok(());
        let room = Room::new(&ask);
        let values: Column = ["b", "a", "never"].into_iter().collect();
        let column = Column::of_dictionary(vec![0, 1, 0, 1, 1, 0, 0], &values).unwrap();
        let vectors = [Vector::Many(column.with_nulls([4, 5]))];
        let writer = KeyWriter::new(&vectors, &[SqlType::Varchar], &room).unwrap();
        let (mut codes, mut asked) = (writer.of_codes(7, &room).unwrap().unwrap(), 0);
        let mut number = |row| {
            let find = || {
                asked += 1;
                Ok(asked - 1)
            };
            codes.number(row, find).unwrap()
        };
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(&mut number), [0, 1, 0, 1, 2, 2, 0]);
        assert_eq!(asked, 3);
        assert!(writer.of_codes(2, &room).unwrap().is_none(), "three values for two rows");
        let direct = [Vector::Many(["a", "b"].into_iter().collect())];
        let writer = KeyWriter::new(&direct, &[SqlType::Varchar], &room).unwrap();
        assert!(writer.of_codes(2, &room).unwrap().is_none());
    }
}
