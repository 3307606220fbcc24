//! Values of texts and of JSON, on their way into a column.

use vicus_flow::{Column, Field, Type};
use vicus_sql::{SqlType, Value, read_json, read_value, value_column};

/// The values of a column.
pub(crate) enum Values {
    Bool(Vec<Option<bool>>),
    I64(Vec<Option<i64>>),
    F64(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
    /// Others, with the type of an object that has one as its only value.
    Other {
        kind: SqlType,
        object: SqlType,
        values: Vec<Value>,
    },
}

impl Values {
    /// None yet, of a column.
    pub(crate) fn of(field: &Field) -> Values {
        match &field.kind {
            Type::Bool => Values::Bool(Vec::new()),
            Type::I64 => Values::I64(Vec::new()),
            Type::F64 => Values::F64(Vec::new()),
            Type::Text => Values::Text(Vec::new()),
            kind => {
                let kind = SqlType::of(kind).expect("the kind has looked at its columns");
                let object = SqlType::Struct([(field.name.clone(), kind.clone())].into());
                Values::Other { kind, object, values: Vec::new() }
            }
        }
    }

    /// Leaves the first ones.
    pub(crate) fn truncate(&mut self, rows: usize) {
        match self {
            Values::Bool(values) => values.truncate(rows),
            Values::I64(values) => values.truncate(rows),
            Values::F64(values) => values.truncate(rows),
            Values::Text(values) => values.truncate(rows),
            Values::Other { values, .. } => values.truncate(rows),
        }
    }

    pub(crate) fn push_null(&mut self) {
        match self {
            Values::Bool(values) => values.push(None),
            Values::I64(values) => values.push(None),
            Values::F64(values) => values.push(None),
            Values::Text(values) => values.push(None),
            Values::Other { values, .. } => values.push(Value::Null),
        }
    }

    /// Appends the value of a text. Whether it is one.
    pub(crate) fn push(&mut self, text: &str) -> bool {
        match self {
            Values::Bool(values) => text.parse().map(|value| values.push(Some(value))).is_ok(),
            Values::I64(values) => text.parse().map(|value| values.push(Some(value))).is_ok(),
            Values::F64(values) => text.parse().map(|value| values.push(Some(value))).is_ok(),
            Values::Text(values) => {
                values.push(Some(text.to_owned()));
                true
            }
            Values::Other { kind, values, .. } => read_value(text, kind).map(|value| values.push(value)).is_some(),
        }
    }

    /// Appends a value of JSON, from an object in this line. Whether it is of this type.
    pub(crate) fn push_json(&mut self, value: &serde_json::Value, line: &str) -> bool {
        use serde_json::Value;
        match (self, value) {
            (own, Value::Null) => own.push_null(),
            (Values::Bool(values), Value::Bool(value)) => values.push(Some(*value)),
            (Values::I64(values), Value::Number(value)) if value.is_i64() => values.push(value.as_i64()),
            (Values::F64(values), Value::Number(value)) => values.push(value.as_f64()),
            (Values::Text(values), Value::String(value)) => values.push(Some(value.clone())),
            (Values::Text(values), value) => values.push(Some(value.to_string())),
            // From the text, which has all digits of a decimal.
            (Values::Other { object, values, .. }, _) => match read_json(line, object) {
                Some(vicus_sql::Value::Struct(parts)) => values.push(parts[0].1.clone()),
                _ => return false,
            },
            _ => return false,
        }
        true
    }

    pub(crate) fn column(self) -> Column {
        match self {
            Values::Bool(values) => values.into(),
            Values::I64(values) => values.into(),
            Values::F64(values) => values.into(),
            Values::Text(values) => values.iter().map(Option::as_deref).collect::<Vec<_>>().into(),
            Values::Other { kind, values, .. } => value_column(&kind, &values),
        }
    }
}
