//! The types of a table's columns in one word, so one comparison tells whether a sent envelope fits its via.

use crate::Type;

/// The types of columns, and their nulls, present or allowed. Or [`MORE`], if there are more columns than fit.
///
/// Five bits for each column, the last one's lowest: the type, counted from 1, and above it the null bit. No column
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

/// More columns than there is room for.
const MORE: u64 = 1 << 63;

const _: () = assert!(BITS * MOST < 63, "all columns have room");

/// A column's type in its bits. The compiler finds a type without an arm, or without room.
const fn code(kind: Type) -> u64 {
    macro_rules! codes {
        ($($each:ident)*) => {
            match kind {
                $(Type::$each => const {
                    let code = Type::$each as u64 + 1;
                    assert!(code < NULL, "a type has room");
                    code
                },)*
            }
        };
    }
    codes!(Bool I8 I16 I32 I64 U8 U16 U32 U64 F32 F64 Text Binary)
}

impl Shape {
    /// The shape of columns of these types, each with nulls or not.
    #[inline]
    pub(crate) fn of(columns: impl ExactSizeIterator<Item = (Type, bool)>) -> Shape {
        let add = |shape, (kind, nulls)| (shape << BITS) | code(kind) | if nulls { NULL } else { 0 };
        Shape(if columns.len() > MOST { MORE } else { columns.fold(0, add) })
    }

    /// Whether columns of this shape fit a reader's: the types agree, and there are nulls only if the reader expects
    /// them. `false` for [`MORE`] columns in any case: those have to be compared one by one.
    #[inline]
    pub(crate) fn fits(self, reader: Shape) -> bool {
        (self.0 | (reader.0 & NULLS)) == reader.0 && self.0 != MORE
    }
}
