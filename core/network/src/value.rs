//! The values of parameters, and their types.

use crate::schema::{parse_schema, schema_text};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use vicus_flow::Schema;

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ParameterType {
    /// 64-bit integers: `1000`.
    Integer,
    /// Numbers: `0.5`; integers are numbers, too.
    Number,
    /// `true` or `false`.
    Boolean,
    /// `"any text"`.
    Text,
    /// Columns, as [`Schema`] prints them: `(n: I64, name: Text or null)`.
    Columns,
}

impl ParameterType {
    /// All types.
    pub const ALL: [ParameterType; 5] = [
        ParameterType::Integer,
        ParameterType::Number,
        ParameterType::Boolean,
        ParameterType::Text,
        ParameterType::Columns,
    ];

    /// Its name in a text.
    pub fn name(self) -> &'static str {
        match self {
            ParameterType::Integer => "integer",
            ParameterType::Number => "number",
            ParameterType::Boolean => "boolean",
            ParameterType::Text => "text",
            ParameterType::Columns => "columns",
        }
    }

    /// A value of this type from a user's text, as `--set name=value` gives it: texts stand without quotes.
    ///
    /// # Errors
    /// The text is no such value; the error says what is expected.
    pub fn read(self, text: &str) -> Result<ParameterValue, String> {
        let expected = |example: &str| format!("`{text}` is no {self}: write {example}");
        match self {
            ParameterType::Integer => {
                text.parse().map(ParameterValue::Integer).map_err(|_| expected("an integer such as 1000"))
            }
            ParameterType::Number => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(ParameterValue::Number(number)),
                _ => Err(expected("a number such as 0.5")),
            },
            ParameterType::Boolean => text.parse().map(ParameterValue::Boolean).map_err(|_| expected("true or false")),
            ParameterType::Text => Ok(ParameterValue::Text(text.to_owned())),
            ParameterType::Columns => parse_schema(text).map(ParameterValue::Columns).map_err(|error| error.message),
        }
    }
}

impl fmt::Display for ParameterType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ParameterValue {
    /// An integer.
    Integer(i64),
    /// A finite number.
    Number(f64),
    /// A truth value.
    Boolean(bool),
    /// A text. `{name}` in it stands for the value of a parameter, `{{` and `}}` for braces.
    Text(String),
    /// Columns.
    #[serde(serialize_with = "write_columns", deserialize_with = "read_columns")]
    Columns(Schema),
    /// The value of the parameter with this name, or of the machine: `threads`, `nodes`.
    Name(String),
}

pub(crate) fn write_columns<S: Serializer>(schema: &Schema, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&schema_text(schema))
}

pub(crate) fn read_columns<'d, D: Deserializer<'d>>(from: D) -> Result<Schema, D::Error> {
    let text = String::deserialize(from)?;
    parse_schema(&text).map_err(serde::de::Error::custom)
}

impl ParameterValue {
    /// Its type; `None` for a name.
    pub fn kind(&self) -> Option<ParameterType> {
        Some(match self {
            ParameterValue::Integer(_) => ParameterType::Integer,
            ParameterValue::Number(_) => ParameterType::Number,
            ParameterValue::Boolean(_) => ParameterType::Boolean,
            ParameterValue::Text(_) => ParameterType::Text,
            ParameterValue::Columns(_) => ParameterType::Columns,
            ParameterValue::Name(_) => return None,
        })
    }

    /// The value as one of this type: an integer is a number, too.
    pub(crate) fn as_type(&self, kind: ParameterType) -> Option<ParameterValue> {
        match (self, kind) {
            (ParameterValue::Integer(value), ParameterType::Number) => Some(ParameterValue::Number(*value as f64)),
            (value, kind) => (value.kind() == Some(kind)).then(|| value.clone()),
        }
    }

    /// The value within a text: without quotes.
    pub(crate) fn plain(&self) -> String {
        match self {
            ParameterValue::Text(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// The form in a text of a network.
impl fmt::Display for ParameterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParameterValue::Integer(value) => value.fmt(f),
            // With a point or an exponent, so that it is no integer.
            ParameterValue::Number(value) => write!(f, "{value:?}"),
            ParameterValue::Boolean(value) => value.fmt(f),
            ParameterValue::Text(text) => f.write_str(&quoted(text)),
            ParameterValue::Columns(schema) => f.write_str(&schema_text(schema)),
            ParameterValue::Name(name) => f.write_str(name),
        }
    }
}

/// A text in quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for sign in text.chars() {
        match sign {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            sign => out.push(sign),
        }
    }
    out.push('"');
    out
}
