//! Values as bytes: equal values have equal bytes. `builder/keys.rs` makes values of them.

use crate::types::Form;
use crate::{Column, Grow, NoMemory};

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
