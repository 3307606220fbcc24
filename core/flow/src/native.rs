//! Values of one size, as Rust stores them.

use crate::Type;
use crate::types::Form;
use std::cmp::Ordering;
use std::fmt;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type with values stored unchanged by columns: `bool`, integers of 8 to 64 bits, `f32` and `f64`.
pub trait Native: sealed::Sealed + Copy + Default + fmt::Debug + Send + Sync + 'static {
    /// The type of such columns.
    const TYPE: Type;

    /// How they lie in memory.
    #[doc(hidden)]
    const FORM: NativeForm;

    /// A total order: `false` before `true`, integers by value, floats by [`f64::total_cmp`] (-NaN, -∞, …, -0, 0, …, ∞,
    /// NaN).
    fn order(self, other: Self) -> Ordering;

    /// A word for hashing: equal for equal values, different for others.
    fn word(self) -> u64;

    /// A number for each value, ordered as the values are.
    fn rank(self) -> u64;

    /// The value of a rank.
    fn of_rank(rank: u64) -> Self;
}

macro_rules! integers {
    ($($type:ident $variant:ident $lowest:expr, $of_word:expr;)*) => {$(
        impl sealed::Sealed for $type {}

        impl Native for $type {
            const TYPE: Type = Type::$variant;
            const FORM: NativeForm = NativeForm(Form::$variant);

            #[inline]
            fn order(self, other: $type) -> Ordering {
                self.cmp(&other)
            }

            #[inline]
            fn word(self) -> u64 {
                self as u64
            }

            #[inline]
            fn rank(self) -> u64 {
                // Negative numbers come first.
                (self as u64) ^ ($lowest)
            }

            #[inline]
            fn of_rank(rank: u64) -> $type {
                let of_word: fn(u64) -> $type = $of_word;
                of_word(rank ^ ($lowest))
            }
        }
    )*};
}

integers! {
    bool Bool 0, |word| word != 0;
    u8 U8 0, |word| word as _;
    u16 U16 0, |word| word as _;
    u32 U32 0, |word| word as _;
    u64 U64 0, |word| word;
    i8 I8 1 << 63, |word| word as _;
    i16 I16 1 << 63, |word| word as _;
    i32 I32 1 << 63, |word| word as _;
    i64 I64 1 << 63, |word| word as _;
}

macro_rules! floats {
    ($($type:ident $variant:ident $bits:ident $sign:expr;)*) => {$(
        impl sealed::Sealed for $type {}

        impl Native for $type {
            const TYPE: Type = Type::$variant;
            const FORM: NativeForm = NativeForm(Form::$variant);

            #[inline]
            fn order(self, other: $type) -> Ordering {
                self.total_cmp(&other)
            }

            #[inline]
            fn word(self) -> u64 {
                self.to_bits().into()
            }

            #[inline]
            fn rank(self) -> u64 {
                let bits = self.to_bits();
                // Below zero, greater bits mean a lesser number.
                (if bits & ($sign) == 0 { bits | ($sign) } else { !bits }).into()
            }

            #[inline]
            fn of_rank(rank: u64) -> $type {
                let rank = rank as $bits;
                $type::from_bits(if rank & ($sign) == 0 { !rank } else { rank & !($sign) })
            }
        }
    )*};
}

floats! {
    f32 F32 u32 1 << 31;
    f64 F64 u64 1 << 63;
}

/// The form of a native type; named by [`Native`] alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeForm(pub(crate) Form);

/// Expands to its first body for a form of values as Rust has them, with `$native` as the name of their type, and to
/// the other body for other forms.
macro_rules! by_form {
    ($form:expr, $native:ident => $do:expr, $else:expr) => {
        match $form {
            $crate::types::Form::Bool => {
                type $native = bool;
                $do
            }
            $crate::types::Form::I8 => {
                type $native = i8;
                $do
            }
            $crate::types::Form::I16 => {
                type $native = i16;
                $do
            }
            $crate::types::Form::I32 => {
                type $native = i32;
                $do
            }
            $crate::types::Form::I64 => {
                type $native = i64;
                $do
            }
            $crate::types::Form::U8 => {
                type $native = u8;
                $do
            }
            $crate::types::Form::U16 => {
                type $native = u16;
                $do
            }
            $crate::types::Form::U32 => {
                type $native = u32;
                $do
            }
            $crate::types::Form::U64 => {
                type $native = u64;
                $do
            }
            $crate::types::Form::F32 => {
                type $native = f32;
                $do
            }
            $crate::types::Form::F64 => {
                type $native = f64;
                $do
            }
            _ => $else,
        }
    };
}
pub(crate) use by_form;

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks_as_ordered<T: Native>(values: &[T]) {
        for &a in values {
            for &b in values {
                assert_eq!(a.rank().cmp(&b.rank()), a.order(b), "{a:?} and {b:?}");
                assert_eq!(a.word() == b.word(), a.order(b).is_eq(), "{a:?} and {b:?}");
            }
            assert!(T::of_rank(a.rank()).order(a).is_eq(), "{a:?} comes back");
        }
    }

    #[test]
    fn ranks_are_ordered_as_values_are() {
        ranks_as_ordered(&[false, true]);
        ranks_as_ordered(&[u8::MIN, 1, u8::MAX]);
        ranks_as_ordered(&[i8::MIN, -1, 0, 1, i8::MAX]);
        ranks_as_ordered(&[i64::MIN, -1, 0, 1, i64::MAX]);
        ranks_as_ordered(&[u64::MIN, 1, u64::MAX]);
        let floats =
            [f32::NEG_INFINITY, -1.5, -f32::MIN_POSITIVE, -0.0, 0.0, 1e-45, 2.0, f32::INFINITY, f32::NAN, -f32::NAN];
        ranks_as_ordered(&floats);
        ranks_as_ordered(&floats.map(f64::from));
        ranks_as_ordered(&[f64::MAX, f64::MIN, f64::EPSILON, -f64::EPSILON, 0.0, -0.0]);
    }
}
