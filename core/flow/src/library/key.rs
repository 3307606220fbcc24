//! Values as bytes: equal values have equal bytes.

use crate::block::Blocks;
use crate::native::by_form;
use crate::types::Form;
use crate::{Column, EnvelopeBuilder, Grow, NoMemory, Type};

/// Appends a value to a row's key, so that keys are equal if their bytes are.
pub(super) fn write_key(key: &mut Vec<u8>, column: &Column, row: usize) -> Result<(), NoMemory> {
    let is_null = column.is_null(row);
    put(key, &[is_null.into()])?;
    if is_null {
        return Ok(());
    }
    match column.form() {
        Form::List => {
            let items = column.item_range(row);
            put(key, &(items.len() as u32).to_le_bytes())?;
            for item in items {
                write_key(key, column.items(), item)?;
            }
            Ok(())
        }
        Form::Struct => column.parts_beside().iter().try_for_each(|part| write_key(key, part, row)),
        form if form.is_alone() && !matches!(form, Form::Limited(_)) => {
            let width = form.width();
            put(key, &column.value_bytes()[row * width..][..width])
        }
        _ => {
            let string = column.string(row);
            put(key, &(string.len() as u32).to_le_bytes())?;
            put(key, string)
        }
    }
}

fn put(key: &mut Vec<u8>, bytes: &[u8]) -> Result<(), NoMemory> {
    key.grow(bytes.len())?;
    key.extend_from_slice(bytes);
    Ok(())
}

impl EnvelopeBuilder {
    /// Appends the value at the beginning of a key to a column of its type, and makes room for it. Gives how many bytes
    /// it takes in the key.
    pub(super) fn push_key(&mut self, blocks: Blocks, column: usize, kind: &Type, key: &[u8]) -> usize {
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
    pub(super) fn push_rank(&mut self, column: usize, kind: &Type, rank: u64) {
        by_form!(kind.form(),
            T => self.values::<T>(column).push(crate::Native::of_rank(rank)),
            unreachable!("{kind} has no ranks"));
    }
}
