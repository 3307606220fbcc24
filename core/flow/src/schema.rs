//! What a via carries: names and types of columns, shared by all its envelopes.

use std::fmt;
use std::sync::{Arc, OnceLock};

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// 64-bit unsigned integers; also ids and handles into a store.
    U64,
    /// 64-bit signed integers.
    I64,
    /// 64-bit floating point.
    F64,
    /// Bytes; also validity columns, where 0 is a row that was deleted.
    U8,
    /// UTF-8 text, stored directly (Bobox report §4.2): offsets and one block of bytes.
    Text,
}

/// The columns of every envelope that passes a via. Cloning shares it.
///
/// ```
/// use vicus_flow::{Schema, Type};
///
/// let words = Schema::new([("word", Type::Text), ("count", Type::U64)]);
/// assert_eq!(words.to_string(), "(word: Text, count: U64)");
/// ```
#[derive(Clone)]
pub struct Schema {
    /// Those of the longest schema that this is a beginning of.
    all: Arc<[(String, Type)]>,
    len: usize,
}

impl Schema {
    /// Columns in order.
    pub fn new<N: Into<String>>(columns: impl IntoIterator<Item = (N, Type)>) -> Schema {
        let all: Arc<[(String, Type)]> = columns.into_iter().map(|(name, kind)| (name.into(), kind)).collect();
        Schema { len: all.len(), all }
    }

    /// The first of its columns, which it shares. Panics if it has fewer.
    ///
    /// ```
    /// # use vicus_flow::{Schema, Type};
    /// let words = Schema::new([("word", Type::Text), ("count", Type::U64)]);
    /// assert_eq!(words.prefix(1), Schema::new([("word", Type::Text)]));
    /// ```
    pub fn prefix(&self, columns: usize) -> Schema {
        assert!(columns <= self.len, "a schema of {} columns has no {columns} first ones", self.len);
        Schema { all: Arc::clone(&self.all), len: columns }
    }

    /// No columns.
    pub(crate) fn none() -> Schema {
        static NONE: OnceLock<Schema> = OnceLock::new();
        NONE.get_or_init(|| Schema::new::<&str>([])).clone()
    }

    /// Names and types, in order.
    #[inline]
    pub fn columns(&self) -> &[(String, Type)] {
        &self.all[..self.len]
    }

    /// Whether envelopes of one fit a reader of the other: the types agree; names may differ.
    pub fn fits(&self, other: &Schema) -> bool {
        self.len == other.len
            && (Arc::ptr_eq(&self.all, &other.all)
                || self.columns().iter().zip(other.columns()).all(|(a, b)| a.1 == b.1))
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Schema) -> bool {
        self.columns() == other.columns()
    }
}

impl Eq for Schema {}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.columns()).finish()
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (index, (name, kind)) in self.columns().iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name}: {kind:?}")?;
        }
        f.write_str(")")
    }
}
