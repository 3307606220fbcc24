//! Rows of plain values.

use std::sync::Arc;
use vicus_flow::Type;

/// The values of a column. Each may be null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// Truth values, in columns of [`Type::Bool`](vicus_flow::Type::Bool).
    Boolean,
    /// Integers, in columns of [`Type::I64`](vicus_flow::Type::I64).
    Integer,
    /// Floating point, in columns of [`Type::F64`](vicus_flow::Type::F64).
    Double,
    /// Text, in columns of [`Type::Text`](vicus_flow::Type::Text).
    Text,
    /// Days since 1970-01-01, in columns of [`Type::Date`](vicus_flow::Type::Date).
    Date,
    /// Microseconds since 1970-01-01, without a time zone, in columns of
    /// [`Type::Timestamp`](vicus_flow::Type::Timestamp).
    Timestamp,
    /// Values of another type, such as decimals or lists.
    Other(Arc<Type>),
}

/// The run of a module with rows of plain values, a type for each column of its answer: every door can read them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueColumns(pub Vec<ValueType>);
