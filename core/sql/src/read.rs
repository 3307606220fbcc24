//! Texts of JSON as values of SQL: what [`write_json`](crate::write_json) has written, and files of JSON.

use crate::date;
use crate::decimal;
use crate::evaluate::{column_of, parse_boolean, parse_double};
use crate::types::{SqlType, Value};
use std::sync::Arc;
use vicus_flow::Column;

/// Reads a text of JSON as a value of a type: arrays as lists, objects as structs by the names of their parts, numbers
/// with all their digits as decimals, dates and the like from their texts, hexadecimal digits as strings of bytes, any
/// value as text. A part without a value is null, and values without a part are left out. `None` if the text is no JSON
/// or its value is none of the type.
///
/// ```
/// use vicus_sql::{SqlType, Value, read_json};
///
/// let kind = SqlType::named("decimal(4,2)[]").unwrap();
/// let list = Value::List([Value::Decimal(150, 2), Value::Null].into());
/// assert_eq!(read_json("[1.5, null]", &kind), Some(list));
/// assert_eq!(read_json("[1.5", &kind), None);
/// ```
pub fn read_json(text: &str, kind: &SqlType) -> Option<Value> {
    let mut reader = JsonReader { text, at: 0 };
    let value = reader.value(kind)?;
    reader.space();
    (reader.at == text.len()).then_some(value)
}

/// Reads a text in a file of texts as a value of a type: lists and structs as [`read_json`] does, others as they are
/// written. `None` if it is none.
///
/// ```
/// use vicus_sql::{SqlType, Value, read_value};
///
/// assert_eq!(read_value("2024-02-29", &SqlType::Date), Some(Value::Date(19_782)));
/// ```
pub fn read_value(text: &str, kind: &SqlType) -> Option<Value> {
    match kind {
        SqlType::List(_) | SqlType::Struct(_) => read_json(text, kind),
        _ => read_text(text, kind),
    }
}

/// A column of values of a type.
///
/// ```
/// use vicus_sql::{SqlType, Value, value_column};
///
/// let column = value_column(&SqlType::Date, &[Value::Date(1), Value::Null]);
/// assert!(column.is_null(1));
/// ```
pub fn value_column(kind: &SqlType, values: &[Value]) -> Column {
    column_of(kind, &values.iter().collect::<Vec<_>>())
}

/// Reads a text as a value of a type without parts. `None` if it is none.
fn read_text(text: &str, kind: &SqlType) -> Option<Value> {
    Some(match kind {
        SqlType::Boolean => Value::Boolean(parse_boolean(text)?),
        SqlType::BigInt => Value::BigInt(text.trim().parse().ok()?),
        SqlType::Double => Value::Double(parse_double(text)?),
        SqlType::Decimal { precision, scale } => Value::Decimal(decimal::parse(text, *precision, *scale)?, *scale),
        SqlType::Varchar => Value::Varchar(text.into()),
        SqlType::Blob => {
            let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
            let byte = |pair: &[u8]| match pair {
                [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
                _ => None,
            };
            Value::Blob(text.as_bytes().chunks(2).map(byte).collect::<Option<Arc<[u8]>>>()?)
        }
        SqlType::Date => Value::Date(date::parse_date(text)?),
        SqlType::Time => Value::Time(date::parse_time(text)?),
        SqlType::Timestamp => Value::Timestamp(date::parse_timestamp(text)?),
        SqlType::TimestampTz => Value::TimestampTz(date::parse_moment(text)?),
        SqlType::Interval => Value::Interval(date::parse_span(text)?),
        SqlType::List(_) | SqlType::Struct(_) => return None,
    })
}

struct JsonReader<'t> {
    text: &'t str,
    /// The next byte. Invariant: the beginning of a character, or the end.
    at: usize,
}

impl<'t> JsonReader<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Passes a sign, with space before it. Whether it is there.
    fn pass(&mut self, sign: u8) -> bool {
        self.space();
        let is_there = self.peek() == Some(sign);
        self.at += usize::from(is_there);
        is_there
    }

    fn value(&mut self, kind: &SqlType) -> Option<Value> {
        self.space();
        let from = self.at;
        match (self.peek()?, kind) {
            (b'[', SqlType::List(of)) => {
                let mut values = Vec::new();
                self.each(b'[', b']', |reader| {
                    values.push(reader.value(of)?);
                    Some(())
                })?;
                Some(Value::List(values.into()))
            }
            (b'{', SqlType::Struct(parts)) => {
                let mut values: Vec<(String, Value)> =
                    parts.iter().map(|(name, _)| (name.clone(), Value::Null)).collect();
                self.each(b'{', b'}', |reader| {
                    let name = reader.string()?;
                    if !reader.pass(b':') {
                        return None;
                    }
                    match parts.iter().position(|(of, _)| *of == name) {
                        Some(place) => values[place].1 = reader.value(&parts[place].1)?,
                        None => reader.skip()?,
                    }
                    Some(())
                })?;
                Some(Value::Struct(values.into()))
            }
            (b'"', kind) => {
                let text = self.string()?;
                read_text(&text, kind)
            }
            (b'n', _) => {
                self.skip()?;
                Some(Value::Null)
            }
            (b't' | b'f', SqlType::Boolean) | (b'-' | b'0'..=b'9', _) | (_, SqlType::Varchar) => {
                self.skip()?;
                match kind {
                    // Strings of digits are in quotes, and so are times.
                    SqlType::Boolean
                    | SqlType::BigInt
                    | SqlType::Double
                    | SqlType::Decimal { .. }
                    | SqlType::Varchar => read_text(&self.text[from..self.at], kind),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Reads the values between two brackets, with commas between them.
    fn each(&mut self, open: u8, close: u8, mut read: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        if !self.pass(open) {
            return None;
        }
        if self.pass(close) {
            return Some(());
        }
        loop {
            self.space();
            read(self)?;
            if self.pass(close) {
                return Some(());
            }
            if !self.pass(b',') {
                return None;
            }
        }
    }

    /// Passes any value; levels of brackets are counted, not called.
    fn skip(&mut self) -> Option<()> {
        // Whether each open bracket is one of an object.
        let mut open: Vec<bool> = Vec::new();
        loop {
            self.space();
            match self.peek()? {
                sign @ (b'[' | b'{') => {
                    self.at += 1;
                    let is_object = sign == b'{';
                    if !self.pass(if is_object { b'}' } else { b']' }) {
                        open.push(is_object);
                        self.name_of(is_object)?;
                        continue;
                    }
                }
                b'"' => drop(self.string()?),
                b'-' | b'0'..=b'9' => self.number()?,
                _ => {
                    let word =
                        ["null", "true", "false"].into_iter().find(|word| self.text[self.at..].starts_with(word))?;
                    self.at += word.len();
                }
            }
            loop {
                let Some(&is_object) = open.last() else { return Some(()) };
                if self.pass(b',') {
                    self.name_of(is_object)?;
                    break;
                }
                if !self.pass(if is_object { b'}' } else { b']' }) {
                    return None;
                }
                open.pop();
            }
        }
    }

    /// Passes the name of an object's value.
    fn name_of(&mut self, is_object: bool) -> Option<()> {
        if is_object {
            self.space();
            self.string()?;
            return self.pass(b':').then_some(());
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        (self.at > from).then_some(())
    }

    fn number(&mut self) -> Option<()> {
        self.at += usize::from(self.peek() == Some(b'-'));
        let first = self.at;
        self.digits()?;
        if self.text.as_bytes()[first] == b'0' && self.at > first + 1 {
            return None;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Some(())
    }

    /// A text in quotes.
    fn string(&mut self) -> Option<String> {
        if self.peek() != Some(b'"') {
            return None;
        }
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(|sign: char| sign == '"' || sign == '\\' || sign < ' ')?;
            text.push_str(&rest[..plain]);
            self.at += plain + 1;
            match rest.as_bytes()[plain] {
                b'"' => return Some(text),
                b'\\' => text.push(self.escaped()?),
                _ => return None,
            }
        }
    }

    /// The character behind a backslash.
    fn escaped(&mut self) -> Option<char> {
        let sign = self.peek()?;
        if !sign.is_ascii() {
            return None;
        }
        self.at += 1;
        Some(match sign {
            b'"' | b'\\' | b'/' => char::from(sign),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.four_digits()?;
                if !(0xd800..0xdc00).contains(&first) {
                    return char::from_u32(first);
                }
                // A pair of numbers stands for a character beyond 16 bits.
                let has_second = self.text[self.at..].starts_with("\\u");
                self.at += if has_second { 2 } else { return None };
                let second = self.four_digits().filter(|second| (0xdc00..0xe000).contains(second))?;
                char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))?
            }
            _ => return None,
        })
    }

    fn four_digits(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4).filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))?;
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, kind: &str) -> Option<String> {
        let kind = SqlType::named(kind).unwrap_or_else(|| panic!("{kind} is a type"));
        read_json(text, &kind).map(|value| value.to_string())
    }

    #[test]
    fn texts_are_values_of_their_types() {
        for (text, kind, wanted) in [
            ("[]", "bigint[]", "[]"),
            (" [ 1 , -2,null ] ", "bigint[]", "[1, -2, NULL]"),
            ("[[1],[],null]", "bigint[][]", "[[1], [], NULL]"),
            ("[1, 2.5e1]", "double[]", "[1.0, 25.0]"),
            ("[1, 2.25]", "decimal(9,2)[]", "[1.00, 2.25]"),
            (
                r#"["a\"\\\/\b\f\n\r\t", "\u00e4\ud83d\ude00", 1, true, [2]]"#,
                "varchar[]",
                "['a\"\\/\u{8}\u{c}\n\r\t', 'ä😀', '1', 'true', '[2]']",
            ),
            (r#"{"b": [true], "c": {"d": [{}]}, "a": 1}"#, "struct(a bigint, b boolean[])", "{'a': 1, 'b': [true]}"),
            ("{}", "struct(a bigint, b varchar)", "{'a': NULL, 'b': NULL}"),
            (r#"["2024-02-29"]"#, "date[]", "[DATE '2024-02-29']"),
            (r#"["00ff"]"#, "blob[]", "[X'00FF']"),
            ("null", "bigint[]", "NULL"),
            ("3", "bigint", "3"),
        ] {
            assert_eq!(read(text, kind).as_deref(), Some(wanted), "{text} as {kind}");
        }
    }

    #[test]
    fn other_texts_are_none() {
        for (text, kind) in [
            ("", "bigint[]"),
            ("[1", "bigint[]"),
            ("[1,]", "bigint[]"),
            ("[1] 2", "bigint[]"),
            ("[01]", "bigint[]"),
            ("[1.]", "double[]"),
            ("[1.5]", "bigint[]"),
            ("[nan]", "double[]"),
            ("1", "bigint[]"),
            ("[1]", "bigint"),
            ("{\"a\": 1}", "bigint[]"),
            ("[1]", "struct(a bigint)"),
            ("{a: 1}", "struct(a bigint)"),
            ("{\"b\": [1}", "struct(a bigint)"),
            ("{\"b\": {\"c\" 1}}", "struct(a bigint)"),
            ("[\"\\ud83d\"]", "varchar[]"),
            ("[\"\\ud83dx\"]", "varchar[]"),
            ("[\"\\u00e\"]", "varchar[]"),
            ("[\"\\ä\"]", "varchar[]"),
            ("[\"a\nb\"]", "varchar[]"),
            ("[\"0\"]", "blob[]"),
            ("[12]", "blob[]"),
            ("[20240229]", "date[]"),
            ("[\"2023-02-29\"]", "date[]"),
            ("[10000000]", "decimal(4,2)[]"),
        ] {
            assert_eq!(read(text, kind), None, "{text} as {kind}");
        }
        // Deep brackets that are passed over take no stack.
        let deep = format!("{{\"b\": {}{}}}", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(read(&deep, "struct(a bigint)").as_deref(), Some("{'a': NULL}"));
    }
}
