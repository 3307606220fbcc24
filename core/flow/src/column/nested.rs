//! Columns with a meaning beyond their numbers, and columns with parts.

use super::{Column, Parts, Rest, wrong_type};
use crate::block::Block;
use crate::types::Form;
use crate::{Field, Schema, Type};
use std::cmp::Ordering;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

impl Column {
    /// A column with its values and another meaning, such as numbers of days as dates. Panics if the types are stored
    /// in different ways.
    ///
    /// ```
    /// use vicus_flow::{Column, Type};
    ///
    /// let moon = Column::from(vec![-165i32]).of_type(Type::Date); // 1969-07-20
    /// assert_eq!((moon.kind(), moon.i32s()[0]), (Type::Date, -165));
    /// ```
    pub fn of_type(mut self, kind: Type) -> Column {
        if kind.form_in(self.storage()) != self.form
            || kind.is_nested()
            || (kind == Type::Text) != (self.kind == Type::Text)
        {
            wrong_type(&self.kind, &kind);
        }
        self.kind = kind;
        self
    }

    /// A column of decimal numbers, each so many units of the last digit. Panics if the precision is not 1 to 38.
    ///
    /// ```
    /// use vicus_flow::{Column, Type};
    ///
    /// let prices = Column::of_decimals(9, 2, vec![1999, 50]); // 19.99 and 0.50
    /// assert_eq!(prices.kind(), Type::Decimal { precision: 9, scale: 2 });
    /// assert_eq!(prices.decimals(), [1999, 50]);
    /// ```
    pub fn of_decimals(precision: u8, scale: i8, values: Vec<i128>) -> Column {
        assert!((1..=38).contains(&precision), "a decimal has 1 to 38 digits, not {precision}");
        let (rows, block) = (values.len(), Arc::new(Block::of_vec(values)));
        #[expect(unsafe_code, reason = "a vector becomes a column")]
        // SAFETY: the block is the vector's.
        unsafe {
            Column::plain(Type::Decimal { precision, scale }, Form::Decimal, rows, block.at(), block)
        }
    }

    /// The units of decimal numbers. Panics if it is of another type.
    pub fn decimals(&self) -> &[i128] {
        if self.form != Form::Decimal {
            wrong_type(&self.kind, &Type::Decimal { precision: 38, scale: 0 });
        }
        #[expect(unsafe_code, reason = "the values lie in raw memory")]
        // SAFETY: by the invariant of `at`.
        unsafe {
            NonNull::slice_from_raw_parts(self.at.cast(), self.rows).as_ref()
        }
    }

    /// A column of strings of `size` bytes each, one after the other. Panics if the last one is not whole, or `size` is
    /// 0.
    ///
    /// ```
    /// use vicus_flow::Column;
    ///
    /// let keys = Column::of_fixed(2, b"abcd".to_vec());
    /// assert!(keys.binaries().eq([b"ab", b"cd"]));
    /// ```
    pub fn of_fixed(size: u32, bytes: Vec<u8>) -> Column {
        let is_whole = size > 0 && bytes.len().is_multiple_of(size as usize);
        assert!(is_whole, "{} bytes are not strings of {size} bytes", bytes.len());
        let (rows, block) = (bytes.len() / size as usize, Arc::new(Block::of_vec(bytes)));
        #[expect(unsafe_code, reason = "a vector becomes a column")]
        // SAFETY: the block is the vector's.
        unsafe {
            Column::plain(Type::FixedBinary(size), Form::Fixed(size), rows, block.at(), block)
        }
    }

    /// A column of lists: row `r` has the values `ends[r]..ends[r + 1]`. Panics if the ends don't begin with 0, fall,
    /// or end elsewhere than the values do.
    ///
    /// ```
    /// use vicus_flow::{Column, Type};
    ///
    /// let lists = Column::of_lists(vec![0, 2, 2, 3], vec![1u64, 2, 3].into());
    /// assert_eq!(lists.kind(), Type::list(Type::U64));
    /// assert_eq!((lists.item_range(0), lists.item_range(1)), (0..2, 2..2));
    /// assert_eq!(lists.items().u64s(), [1, 2, 3]);
    /// ```
    pub fn of_lists(ends: Vec<i32>, values: Column) -> Column {
        let last = ends.last().map(|&end| end as usize);
        let is_whole = ends.first() == Some(&0) && last == Some(values.len()) && ends.is_sorted();
        assert!(is_whole, "the rows are the parts of {} values", values.len());
        let field = Field { storage: values.storage(), ..Field::new("item", values.kind()).or_null() };
        let (rows, block) = (ends.len() - 1, Arc::new(Block::of_vec(ends)));
        let (kind, rest) = (Type::List(Arc::new(field)), Rest::Parts(Arc::new([values])));
        #[expect(unsafe_code, reason = "a vector becomes a column")]
        // SAFETY: the ends were looked at just now.
        unsafe {
            Column::new(Parts { kind, form: Form::List, rows, at: block.at(), block, rest, nulls: None })
        }
    }

    /// The column under a type that differs in names, nulls and storage of its parts alone.
    pub(crate) fn with_kind(mut self, kind: Type) -> Column {
        debug_assert_eq!(kind.form_in(self.storage()), self.form);
        self.kind = kind;
        self
    }

    /// The values of all lists, and perhaps of rows of other columns. Panics if it is of another type.
    pub fn items(&self) -> &Column {
        if self.form != Form::List {
            wrong_type(&self.kind, &Type::list(Type::U8));
        }
        &self.parts_beside()[0]
    }

    /// The rows of [`Column::items`] that are a row's values; arbitrary for a null. Panics if there is no such row, or
    /// if it is of another type.
    pub fn item_range(&self, row: usize) -> Range<usize> {
        if self.form != Form::List {
            wrong_type(&self.kind, &Type::list(Type::U8));
        }
        assert!(row < self.rows, "row {row} of {}", self.rows);
        self.ends_of(row..row + 1)
    }

    /// A column of structs with these parts. Panics if they differ in length, or if there are none.
    ///
    /// ```
    /// use vicus_flow::{Column, Type};
    ///
    /// let points = Column::of_parts([("x", vec![1.0, 2.0].into()), ("y", vec![0.5, 0.0].into())]);
    /// assert_eq!(points.kind(), Type::record([("x", Type::F64), ("y", Type::F64)]));
    /// assert_eq!(points.part(1).f64s(), [0.5, 0.0]);
    /// ```
    pub fn of_parts<N: Into<String>>(parts: impl IntoIterator<Item = (N, Column)>) -> Column {
        let (fields, columns): (Vec<Field>, Vec<Column>) = parts
            .into_iter()
            .map(|(name, part)| {
                let field = Field::new(name, part.kind());
                let field = if part.null_count() > 0 { field.or_null() } else { field };
                (Field { storage: part.storage(), ..field }, part)
            })
            .unzip();
        let rows = columns.first().expect("a struct has a part").len();
        of_struct(Type::Struct(Arc::new(fields.into_iter().collect())), rows, columns)
    }

    /// A part of a struct. Panics if there are fewer, or if it is of another type.
    pub fn part(&self, part: usize) -> &Column {
        if self.form != Form::Struct {
            wrong_type(&self.kind, &Type::Struct(Arc::new(Schema::none())));
        }
        &self.parts_beside()[part]
    }

    pub(super) fn bytes_of_parts(&self, parts: &[Column]) -> usize {
        let bytes = match self.form {
            Form::List => parts[0].slice(self.ends_of(0..self.rows)).bytes(),
            _ => parts.iter().map(Column::bytes).sum(),
        };
        bytes as usize
    }

    /// A row's values as columns of their own: a list's values, or one row of each part of a struct.
    pub(crate) fn parts_at(&self, row: usize) -> Vec<Column> {
        match self.form {
            Form::List => vec![self.items().slice(self.item_range(row))],
            _ => self.parts_beside().iter().map(|part| part.slice(row..row + 1)).collect(),
        }
    }

    /// Orders rows of lists or of structs.
    pub(super) fn order_parts(&self, row: usize, other: &Column, other_row: usize) -> Ordering {
        if self.form == Form::List {
            let (ours, theirs) = (self.item_range(row), other.item_range(other_row));
            let by_length = ours.len().cmp(&theirs.len());
            let (a, b) = (self.items(), other.items());
            return ours
                .zip(theirs)
                .map(|(i, j)| a.order_or_null(i, b, j))
                .find(|order| order.is_ne())
                .unwrap_or(by_length);
        }
        let parts = self.parts_beside().iter().zip(other.parts_beside());
        let mut orders = parts.map(|(a, b)| a.order_or_null(row, b, other_row));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// Orders two rows of parts; a null is greater than a value.
    pub(crate) fn order_or_null(&self, row: usize, other: &Column, other_row: usize) -> Ordering {
        match (self.is_null(row), other.is_null(other_row)) {
            (false, false) => self.order(row, other, other_row),
            (a, b) => a.cmp(&b),
        }
    }
}

/// A column of structs of this type. Panics if a part has another length.
pub(crate) fn of_struct(kind: Type, rows: usize, parts: Vec<Column>) -> Column {
    assert!(parts.iter().all(|part| part.len() == rows), "the parts of a struct have one length");
    let block = Arc::new(Block::none());
    #[expect(unsafe_code, reason = "columns become one")]
    // SAFETY: no bytes lie in the column itself.
    unsafe {
        let (at, rest) = (block.at(), Rest::Parts(parts.into()));
        Column::new(Parts { kind, form: Form::Struct, rows, at, block, rest, nulls: None })
    }
}
