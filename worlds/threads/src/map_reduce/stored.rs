//! Values as bytes, for temporary files.

/// A value to write to a temporary file, read again by the same process.
///
/// ```
/// use vicus_threads::map_reduce::Stored;
///
/// let pair = (7u32, "seven".to_owned());
/// let mut bytes = Vec::new();
/// pair.store(&mut bytes);
/// assert_eq!(<(u32, String)>::load(&mut &bytes[..]), Some(pair));
/// ```
pub trait Stored: Sized {
    /// Appends its bytes.
    fn store(&self, into: &mut Vec<u8>);

    /// Takes a value off the front of the bytes. `None` if they do not begin with such a value.
    fn load(from: &mut &[u8]) -> Option<Self>;

    /// How many bytes it has in memory beside its own size.
    fn heap_bytes(&self) -> usize {
        0
    }
}

macro_rules! numbers {
    ($($number:ty)*) => { $(
        impl Stored for $number {
            fn store(&self, into: &mut Vec<u8>) {
                into.extend(self.to_ne_bytes());
            }

            fn load(from: &mut &[u8]) -> Option<$number> {
                let (bytes, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(<$number>::from_ne_bytes(*bytes))
            }
        }
    )* };
}

numbers! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 }

impl Stored for () {
    fn store(&self, _into: &mut Vec<u8>) {}

    fn load(_from: &mut &[u8]) -> Option<()> {
        Some(())
    }
}

impl Stored for bool {
    fn store(&self, into: &mut Vec<u8>) {
        u8::from(*self).store(into);
    }

    fn load(from: &mut &[u8]) -> Option<bool> {
        Some(u8::load(from)? != 0)
    }
}

impl Stored for char {
    fn store(&self, into: &mut Vec<u8>) {
        u32::from(*self).store(into);
    }

    fn load(from: &mut &[u8]) -> Option<char> {
        char::from_u32(u32::load(from)?)
    }
}

impl Stored for String {
    fn store(&self, into: &mut Vec<u8>) {
        self.len().store(into);
        into.extend(self.as_bytes());
    }

    fn load(from: &mut &[u8]) -> Option<String> {
        let len = usize::load(from)?;
        let (bytes, rest) = from.split_at_checked(len)?;
        *from = rest;
        String::from_utf8(bytes.to_vec()).ok()
    }

    fn heap_bytes(&self) -> usize {
        self.capacity()
    }
}

impl<T: Stored> Stored for Vec<T> {
    fn store(&self, into: &mut Vec<u8>) {
        self.len().store(into);
        self.iter().for_each(|element| element.store(into));
    }

    fn load(from: &mut &[u8]) -> Option<Vec<T>> {
        let len = usize::load(from)?;
        // A wrong length reserves nothing.
        (0..len).map(|_| T::load(from)).collect()
    }

    fn heap_bytes(&self) -> usize {
        self.capacity() * size_of::<T>() + self.iter().map(T::heap_bytes).sum::<usize>()
    }
}

impl<T: Stored> Stored for Option<T> {
    fn store(&self, into: &mut Vec<u8>) {
        self.is_some().store(into);
        self.iter().for_each(|value| value.store(into));
    }

    fn load(from: &mut &[u8]) -> Option<Option<T>> {
        if bool::load(from)? { T::load(from).map(Some) } else { Some(None) }
    }

    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, T::heap_bytes)
    }
}

impl<T: Stored, const N: usize> Stored for [T; N] {
    fn store(&self, into: &mut Vec<u8>) {
        self.iter().for_each(|element| element.store(into));
    }

    fn load(from: &mut &[u8]) -> Option<[T; N]> {
        let elements: Option<Vec<T>> = (0..N).map(|_| T::load(from)).collect();
        elements?.try_into().ok()
    }

    fn heap_bytes(&self) -> usize {
        self.iter().map(T::heap_bytes).sum()
    }
}

macro_rules! tuples {
    ($($part:ident $at:tt),*) => {
        impl<$($part: Stored),*> Stored for ($($part,)*) {
            fn store(&self, into: &mut Vec<u8>) {
                $(self.$at.store(into);)*
            }

            fn load(from: &mut &[u8]) -> Option<Self> {
                Some(($($part::load(from)?,)*))
            }

            fn heap_bytes(&self) -> usize {
                0 $(+ self.$at.heap_bytes())*
            }
        }
    };
}

tuples! { A 0 }
tuples! { A 0, B 1 }
tuples! { A 0, B 1, C 2 }
tuples! { A 0, B 1, C 2, D 3 }

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Any = (Vec<(String, Option<i64>)>, [u16; 3], (f64, char, bool), ((), u128));

    proptest! {
        #[test]
        fn what_was_stored_is_loaded_and_nothing_of_a_part_of_it(value: Any, cut: prop::sample::Index) {
            let mut bytes = Vec::new();
            value.store(&mut bytes);
            let whole = bytes.len();
            bytes.extend([1, 2, 3]);
            let mut rest = &bytes[..];
            // As texts, since a number may be none.
            prop_assert_eq!(format!("{:?}", Any::load(&mut rest).unwrap()), format!("{value:?}"));
            prop_assert_eq!(rest, [1, 2, 3]);
            prop_assert!(Any::load(&mut &bytes[..cut.index(whole)]).is_none());
        }
    }
}
