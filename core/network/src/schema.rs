//! Columns as text: as [`Schema`] prints them, and read back.

use crate::error::{NetworkError, Spot};
use crate::lex::is_of_name;
use crate::value::quoted;
use vicus_flow::{Field, Schema, TimeUnit, Type};
use vicus_language::{similar_names, suggestion};

/// Columns as text. As [`Schema`] prints them, but for names that are no words of letters, digits and `_`: these stand
/// in quotes.
///
/// ```
/// use vicus_flow::{Schema, Type};
/// use vicus_network::schema_text;
///
/// let schema = Schema::new([("n", Type::I64), ("full name", Type::Text)]).with_nulls(["full name"]);
/// assert_eq!(schema_text(&schema), r#"(n: I64, "full name": Text or null)"#);
/// ```
pub fn schema_text(schema: &Schema) -> String {
    let column = |field: &Field| {
        let or_null = if field.nullable { " or null" } else { "" };
        format!("{}: {}{or_null}", name_text(&field.name), type_text(&field.kind))
    };
    format!("({})", schema.columns().iter().map(column).collect::<Vec<_>>().join(", "))
}

fn name_text(name: &str) -> String {
    let is_plain = name.chars().all(is_of_name) && name.starts_with(|sign: char| !sign.is_ascii_digit());
    if is_plain { name.to_owned() } else { quoted(name) }
}

fn type_text(kind: &Type) -> String {
    match kind {
        Type::List(field) => format!("List({})", type_text(&field.kind)),
        Type::Struct(fields) => format!("Struct{}", schema_text(fields)),
        Type::Timestamp(unit, Some(zone)) => format!("Timestamp({unit}, {})", zone_text(zone)),
        kind => kind.to_string(),
    }
}

/// A zone as [`Type`] prints it, or in quotes.
fn zone_text(zone: &str) -> String {
    let begins = zone.starts_with(|sign: char| sign.is_ascii_alphabetic() || matches!(sign, '+' | '-'));
    // A network's text takes a digit for a number's, behind which no letter may stand.
    let of_words = |pair: &[u8]| !(pair[0].is_ascii_digit() && (pair[1].is_ascii_alphabetic() || pair[1] == b'_'));
    let is_plain = begins && zone.chars().all(is_of_zone) && zone.as_bytes().windows(2).all(of_words);
    if is_plain { zone.to_owned() } else { quoted(zone) }
}

fn is_of_zone(sign: char) -> bool {
    is_of_name(sign) || matches!(sign, '/' | '+' | '-' | ':')
}

/// Reads columns: `(n: I64, name: Text or null)`. Lists may have nulls among their values, and texts are stored
/// directly: the text says neither.
///
/// ```
/// use vicus_network::parse_schema;
///
/// let schema = parse_schema("(at: Timestamp(us, Europe/Prague), points: List(Struct(x: F64, y: F64)) or null)")?;
/// assert_eq!(schema.to_string(), "(at: Timestamp(us, Europe/Prague), points: List(Struct(x: F64, y: F64)) or null)");
/// let error = parse_schema("(n: Int64)").unwrap_err();
/// assert!(error.message.starts_with("there is no type Int64. Types are Bool, I8, I16"));
/// # Ok::<(), vicus_network::NetworkError>(())
/// ```
///
/// # Errors
/// The text is no list of columns.
pub fn parse_schema(text: &str) -> Result<Schema, NetworkError> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let schema = reader.schema()?;
    reader.blanks();
    match reader.rest().is_empty() {
        true => Ok(schema),
        false => Err(reader.error("the columns end here: nothing may follow the `)`")),
    }
}

/// Reads columns at a place of a text, and gives the place behind them.
pub(crate) fn schema_at(text: &str, at: usize) -> Result<(Schema, usize), NetworkError> {
    let mut reader = Reader { text, at, depth: 0 };
    Ok((reader.schema()?, reader.at))
}

/// How deeply types may be nested.
const MOST_DEPTH: usize = 50;

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn error(&self, message: impl Into<String>) -> NetworkError {
        self.error_at(self.at, message)
    }

    fn error_at(&self, from: usize, message: impl Into<String>) -> NetworkError {
        let length = self.text[from..].chars().next().map_or(1, char::len_utf8);
        NetworkError::at(self.text, Spot { from, to: from + length }, message)
    }

    fn has(&mut self, sign: char) -> bool {
        self.blanks();
        let has = self.rest().starts_with(sign);
        self.at += if has { sign.len_utf8() } else { 0 };
        has
    }

    fn expect(&mut self, sign: char, place: &str) -> Result<(), NetworkError> {
        if self.has(sign) { Ok(()) } else { Err(self.error(format!("`{sign}` is expected {place}"))) }
    }

    fn word(&mut self, of: impl Fn(char) -> bool) -> &'t str {
        self.blanks();
        let rest = self.rest();
        let word = &rest[..rest.find(|sign| !of(sign)).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    fn name(&mut self, of: fn(char) -> bool, what: &str) -> Result<String, NetworkError> {
        self.blanks();
        if !self.rest().starts_with('"') {
            let word = self.word(of);
            return match word {
                "" => Err(self.error(format!("{what} is expected"))),
                word => Ok(word.to_owned()),
            };
        }
        let begin = self.at;
        let mut name = String::new();
        let mut signs = self.rest().char_indices().skip(1);
        while let Some((at, sign)) = signs.next() {
            match sign {
                '"' => {
                    self.at = begin + at + 1;
                    return Ok(name);
                }
                '\\' => match signs.next() {
                    Some((_, 'n')) => name.push('\n'),
                    Some((_, 'r')) => name.push('\r'),
                    Some((_, 't')) => name.push('\t'),
                    Some((_, same @ ('"' | '\\'))) => name.push(same),
                    _ => return Err(self.error_at(begin + at, r#"write \", \\, \n, \r or \t"#)),
                },
                sign => name.push(sign),
            }
        }
        Err(self.error_at(begin, "this name has no end: a `\"` is missing"))
    }

    fn schema(&mut self) -> Result<Schema, NetworkError> {
        self.expect('(', "before the columns: `(n: I64, name: Text or null)`")?;
        let mut fields = Vec::new();
        if self.has(')') {
            return Ok(fields.into_iter().collect());
        }
        loop {
            let name = self.name(is_of_name, "the name of a column")?;
            self.expect(':', "between a column's name and its type")?;
            let kind = self.kind()?;
            let before = self.at;
            let nullable = match self.word(is_of_name) {
                "or" => {
                    self.blanks();
                    let at = self.at;
                    if self.word(is_of_name) != "null" {
                        return Err(self.error_at(at, "`null` is expected behind `or`"));
                    }
                    true
                }
                _ => {
                    self.at = before;
                    false
                }
            };
            let field = Field::new(name, kind);
            fields.push(if nullable { field.or_null() } else { field });
            if self.has(')') {
                return Ok(fields.into_iter().collect());
            }
            self.expect(',', "or `)` behind a column")?;
        }
    }

    fn kind(&mut self) -> Result<Type, NetworkError> {
        self.blanks();
        let at = self.at;
        let word = self.word(is_of_name);
        if let Some(simple) = Type::SIMPLE.iter().find(|kind| kind.to_string() == word) {
            return Ok(simple.clone());
        }
        if self.depth == MOST_DEPTH {
            return Err(self.error_at(at, format!("types may be nested {MOST_DEPTH} levels deep")));
        }
        self.depth += 1;
        let kind = match word {
            "Time" | "Duration" => {
                let unit = self.in_brackets(Self::unit)?;
                if word == "Time" { Type::Time(unit) } else { Type::Duration(unit) }
            }
            "Timestamp" => self.in_brackets(|reader| {
                let unit = reader.unit()?;
                if !reader.has(',') {
                    return Ok(Type::Timestamp(unit, None));
                }
                let zone = reader.name(is_of_zone, "a time zone such as Europe/Prague")?;
                Ok(Type::Timestamp(unit, Some(zone.into())))
            })?,
            "Decimal" => self.in_brackets(|reader| {
                let precision: u8 =
                    reader.number("the number of digits, 1 to 38,", |digits| (1..=38).contains(digits))?;
                reader.expect(',', "between the digits and those behind the point")?;
                let scale = reader.number("the number of digits behind the point", |_| true)?;
                Ok(Type::Decimal { precision, scale })
            })?,
            "FixedBinary" => {
                Type::FixedBinary(self.in_brackets(|reader| reader.number("a number of bytes", |_| true))?)
            }
            "List" => Type::list(self.in_brackets(Self::kind)?),
            "Struct" => Type::Struct(self.schema()?.into()),
            "" => return Err(self.error_at(at, "the type of a column is expected, such as I64 or Text")),
            unknown => {
                let names: Vec<String> =
                    Type::SIMPLE.iter().map(Type::to_string).chain(NESTING.map(str::to_owned)).collect();
                let likely = similar_names(unknown, names.iter().map(|name| (name.as_str(), name.clone())));
                let likely = suggestion(&likely);
                let likely = if likely.is_empty() { "." } else { &likely };
                let message = format!("there is no type {unknown}{likely} Types are {}", names.join(", "));
                let spot = Spot { from: at, to: at + unknown.len() };
                return Err(NetworkError::at(self.text, spot, message));
            }
        };
        self.depth -= 1;
        Ok(kind)
    }

    fn in_brackets<R>(&mut self, read: impl FnOnce(&mut Self) -> Result<R, NetworkError>) -> Result<R, NetworkError> {
        self.expect('(', "behind this type")?;
        let read = read(self)?;
        self.expect(')', "here")?;
        Ok(read)
    }

    fn unit(&mut self) -> Result<TimeUnit, NetworkError> {
        self.blanks();
        let at = self.at;
        let word = self.word(is_of_name);
        let unit = TimeUnit::ALL.into_iter().find(|unit| unit.to_string() == word);
        unit.ok_or_else(|| self.error_at(at, "a unit of time is expected: s, ms, us or ns"))
    }

    fn number<N: std::str::FromStr>(&mut self, what: &str, is_right: impl Fn(&N) -> bool) -> Result<N, NetworkError> {
        self.blanks();
        let at = self.at;
        let word = self.word(|sign| sign.is_ascii_digit() || sign == '-');
        word.parse().ok().filter(is_right).ok_or_else(|| self.error_at(at, format!("{what} is expected")))
    }
}

/// The types with parameters.
const NESTING: [&str; 7] = ["Time", "Timestamp", "Duration", "Decimal", "FixedBinary", "List", "Struct"];
