//! The types of a table's columns in one word, so one comparison tells whether a sent envelope fits its via.

use crate::Type;

/// The types of columns, and their nulls, present or allowed. Or [`MORE`], if there are more columns than fit, or a
/// type has parameters.
///
/// Five bits for each column, the last one's lowest: the type's code, from 1, and above it the null bit. No column
/// is 0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shape(u64);

const BITS: usize = 5;

/// The number of columns it has room for.
const MOST: usize = 12;

/// A column's null bit.
const NULL: u64 = 1 << (BITS - 1);

/// The null bits of all columns.
const NULLS: u64 = {
    let (mut nulls, mut columns) = (0, 0);
    while columns < MOST {
        nulls = (nulls << BITS) | NULL;
        columns += 1;
    }
    nulls
};

/// Columns for which there is no room.
const MORE: u64 = 1 << 63;

const _: () = assert!(BITS * MOST < 63, "all columns have room");

/// A column's type in its bits; `None` for types with parameters, which have no room.
const fn code(kind: &Type) -> Option<u64> {
    Some(match kind {
        Type::Bool => 1,
        Type::I8 => 2,
        Type::I16 => 3,
        Type::I32 => 4,
        Type::I64 => 5,
        Type::U8 => 6,
        Type::U16 => 7,
        Type::U32 => 8,
        Type::U64 => 9,
        Type::F32 => 10,
        Type::F64 => 11,
        Type::Text => 12,
        Type::Binary => 13,
        Type::Date => 14,
        Type::Timestamp(crate::TimeUnit::Micro, None) => 15,
        _ => return None,
    })
}

impl Shape {
    /// The shape of columns of these types, each with nulls or not.
    #[inline]
    pub(crate) fn of<'t>(columns: impl ExactSizeIterator<Item = (&'t Type, bool)>) -> Shape {
        if columns.len() > MOST {
            return Shape(MORE);
        }
        let mut shape = 0;
        for (kind, nulls) in columns {
            let Some(code) = code(kind) else { return Shape(MORE) };
            shape = (shape << BITS) | code | if nulls { NULL } else { 0 };
        }
        Shape(shape)
    }

    /// Whether columns of this shape fit a reader's: the types agree, and there are nulls only if the reader expects
    /// them. `false` for [`MORE`] columns in any case: those have to be compared one by one.
    #[inline]
    pub(crate) fn fits(self, reader: Shape) -> bool {
        (self.0 | (reader.0 & NULLS)) == reader.0 && self.0 != MORE
    }
}
