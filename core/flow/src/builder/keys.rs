//! Values out of keys, as the library's boxes write them (`library/key.rs`).

use super::EnvelopeBuilder;
use crate::Type;
use crate::block::Blocks;
use crate::native::by_form;

impl EnvelopeBuilder {
    /// Appends the value at the beginning of a key to a column of its type, and makes room for it. Gives how many bytes
    /// it takes in the key.
    pub(crate) fn push_key(&mut self, blocks: Blocks, column: usize, kind: &Type, key: &[u8]) -> usize {
        if self.is_full(column) {
            self.reserve_from(blocks, 1);
        }
        let (is_null, key) = (key[0] != 0, &key[1..]);
        if is_null {
            self.push_null(column);
            return 1;
        }
        let length = || u32::from_le_bytes(key[..4].try_into().expect("four bytes")) as usize;
        1 + match kind {
            Type::List(field) => {
                let mut at = 4;
                for _ in 0..length() {
                    at += self.nested(column).push_key(blocks, 0, &field.kind, &key[at..]);
                }
                self.end_row(column);
                at
            }
            Type::Struct(fields) => {
                let mut at = 0;
                for (part, field) in fields.columns().iter().enumerate() {
                    at += self.nested(column).push_key(blocks, part, &field.kind, &key[at..]);
                }
                self.end_row(column);
                at
            }
            Type::Text | Type::Binary => {
                let end = 4 + length();
                self.push_string(blocks, column, kind, &key[4..end]);
                end
            }
            kind => {
                let width = kind.form().width();
                self.push_raw(column, &key[..width]);
                width
            }
        }
    }

    /// Appends a number by its rank.
    pub(crate) fn push_rank(&mut self, column: usize, kind: &Type, rank: u64) {
        by_form!(kind.form(),
            T => self.values::<T>(column).push(crate::Native::of_rank(rank)),
            unreachable!("{kind} has no ranks"));
    }
}
