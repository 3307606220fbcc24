//! The columns of a via: names and types, shared by all its envelopes.

use crate::shape::Shape;
use crate::{Storage, Type};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A column of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub kind: Type,
    /// Whether a row may have a *null* there instead of a value. If not, readers need not look for nulls.
    ///
    /// Nulls are a property of one column's values, a bit for each row beside them
    /// ([`Column::is_null`](crate::Column::is_null)). A *validity column* is something else: an ordinary column of
    /// [`Type::U8`] with the envelope's rows deleted by a branch of the network (Bobox report §7).
    pub nullable: bool,
    /// The storage of texts and strings of bytes as Arrow sees them. Envelopes may have another one.
    pub storage: Storage,
}

impl Field {
    /// A column without nulls, stored directly.
    pub fn new(name: impl Into<String>, kind: Type) -> Field {
        Field { name: name.into(), kind, nullable: false, storage: Storage::Direct }
    }

    /// This field with nulls allowed.
    pub fn or_null(self) -> Field {
        Field { nullable: true, ..self }
    }

    fn kind_and_nulls(&self) -> (&Type, bool) {
        (&self.kind, self.nullable)
    }
}

/// The columns of every envelope of a via. Cloning shares it.
///
/// ```
/// use vicus_flow::{Schema, Type};
///
/// let words = Schema::new([("word", Type::Text), ("count", Type::U64)]);
/// assert_eq!(words.to_string(), "(word: Text, count: U64)");
///
/// let people = Schema::new([("name", Type::Text), ("age", Type::U8)]).with_nulls(["age"]);
/// assert_eq!(people.to_string(), "(name: Text, age: U8 or null)");
/// ```
#[derive(Clone)]
pub struct Schema {
    /// The fields of the longest schema with this one as a prefix.
    all: Arc<[Field]>,
    len: usize,
    /// Its columns' shape.
    shape: Shape,
}

impl Schema {
    /// Columns in order, without nulls.
    pub fn new<N: Into<String>>(columns: impl IntoIterator<Item = (N, Type)>) -> Schema {
        columns.into_iter().map(|(name, kind)| Field::new(name, kind)).collect()
    }

    /// This schema with nulls allowed in these columns. Panics if there is no such column.
    pub fn with_nulls<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Schema {
        let mut fields = self.columns().to_vec();
        for name in names {
            let mut named = fields.iter_mut().filter(|field| field.name == name).peekable();
            assert!(named.peek().is_some(), "{self} has no column {name}");
            named.for_each(|field| field.nullable = true);
        }
        fields.into_iter().collect()
    }

    /// Its first columns, shared. Panics if it has fewer.
    ///
    /// ```
    /// # use vicus_flow::{Schema, Type};
    /// let words = Schema::new([("word", Type::Text), ("count", Type::U64)]);
    /// assert_eq!(words.prefix(1), Schema::new([("word", Type::Text)]));
    /// ```
    pub fn prefix(&self, columns: usize) -> Schema {
        assert!(columns <= self.len, "a schema of {} columns has no {columns} first ones", self.len);
        Schema::of(Arc::clone(&self.all), columns)
    }

    fn of(all: Arc<[Field]>, len: usize) -> Schema {
        let shape = Shape::of(all[..len].iter().map(Field::kind_and_nulls));
        Schema { all, len, shape }
    }

    /// No columns.
    pub(crate) fn none() -> Schema {
        static NONE: OnceLock<Schema> = OnceLock::new();
        NONE.get_or_init(|| Schema::new::<&str>([])).clone()
    }

    /// The columns, in order.
    #[inline]
    pub fn columns(&self) -> &[Field] {
        &self.all[..self.len]
    }

    /// Whether envelopes of this schema fit a `reader`'s: the types agree, and columns that may have nulls here may
    /// have them there; names may differ.
    pub fn fits(&self, reader: &Schema) -> bool {
        self.shape.fits(reader.shape) || reader.admits(self.columns().iter().map(Field::kind_and_nulls))
    }

    /// The columns' shape. If another shape fits it, [`Schema::admits`] its columns.
    #[inline]
    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// Whether columns of these types, some of them with nulls, fit this reader's: column by column.
    #[cold]
    pub(crate) fn admits<'t>(&self, columns: impl ExactSizeIterator<Item = (&'t Type, bool)>) -> bool {
        let fits =
            |((kind, nulls), field): ((&Type, bool), &Field)| kind.fits(&field.kind) && (field.nullable || !nulls);
        columns.len() == self.len && columns.zip(self.columns()).all(fits)
    }
}

impl FromIterator<Field> for Schema {
    fn from_iter<I: IntoIterator<Item = Field>>(fields: I) -> Schema {
        let all: Arc<[Field]> = fields.into_iter().collect();
        let len = all.len();
        Schema::of(all, len)
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
        for (index, Field { name, kind, nullable, .. }) in self.columns().iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            let or_null = if *nullable { " or null" } else { "" };
            write!(f, "{comma}{name}: {kind}{or_null}")?;
        }
        f.write_str(")")
    }
}
