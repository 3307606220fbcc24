//! How deeply the columns of a Parquet file are nested, found before the library makes a tree of them with a function
//! that calls itself for each level.
//!
//! The footer is a `FileMetaData` of parquet.thrift in Thrift's compact protocol: its second field is a list of
//! `SchemaElement`s, a tree in preorder, and an element's fifth field is the number of children.

use crate::file::Shared;
use std::io;

/// Columns within columns are not read as tables; up to this number of levels, the library's names serve to say so.
pub(crate) const MOST_NESTED: usize = 100;

/// Whether a file's columns are nested more deeply than [`MOST_NESTED`]. An unreadable footer is the library's to
/// refuse.
pub(crate) fn is_too_deep(file: &Shared) -> io::Result<bool> {
    /// The length of the footer, and the signs behind it.
    const END: u64 = 8;
    let length = file.bytes(file.length - END, 4)?;
    let length = u64::from(u32::from_le_bytes([length[0], length[1], length[2], length[3]]));
    let Some(start) = (file.length - END).checked_sub(length) else { return Ok(false) };
    let bytes = file.bytes(start, usize::try_from(length).unwrap_or(usize::MAX))?;
    Ok(Compact { bytes: &bytes }.read_too_deep().unwrap_or(false))
}

/// The rest of a text in Thrift's compact protocol.
struct Compact<'b> {
    bytes: &'b [u8],
}

const LIST: u8 = 9;
const STRUCT: u8 = 12;

impl Compact<'_> {
    /// None if the bytes are no footer.
    fn read_too_deep(&mut self) -> Option<bool> {
        let mut id = 0;
        loop {
            let kind = self.field(&mut id)?;
            if id == 2 && kind == LIST {
                break;
            }
            if kind == 0 {
                return None;
            }
            self.skip(kind, 0)?;
        }
        let (count, kind) = self.list()?;
        if kind != STRUCT {
            return None;
        }
        // For each element with unread children: how many are left.
        let mut open: Vec<u64> = Vec::new();
        for _ in 0..count {
            let children = self.children()?;
            while let Some(left) = open.last_mut() {
                if *left > 0 {
                    *left -= 1;
                    break;
                }
                open.pop();
            }
            if children > 0 {
                open.push(children);
                if open.len() > MOST_NESTED {
                    return Some(true);
                }
            }
        }
        Some(false)
    }

    /// Reads an element: how many children it has.
    fn children(&mut self) -> Option<u64> {
        let (mut id, mut children) = (0, 0);
        loop {
            match self.field(&mut id)? {
                0 => return Some(children),
                // An i32, in zigzag.
                5 if id == 5 => children = self.number()? >> 1,
                kind => self.skip(kind, 0)?,
            }
        }
    }

    /// The type of the next field, 0 at the end of a structure; its id is the one before and a difference, or stands
    /// behind it.
    fn field(&mut self, id: &mut i64) -> Option<u8> {
        let head = self.byte()?;
        if head == 0 {
            return Some(0);
        }
        match head >> 4 {
            0 => {
                let zigzag = self.number()?;
                *id = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
            }
            difference => *id += i64::from(difference),
        }
        Some(head & 15)
    }

    fn list(&mut self) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.number()? } else { u64::from(head >> 4) };
        Some((count, head & 15))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        /// No footer has more within each other.
        const MOST: usize = 16;
        if depth > MOST {
            return None;
        }
        match kind {
            // Booleans are in the type.
            1 | 2 => {}
            3 => _ = self.byte()?,
            4..=6 => _ = self.number()?,
            7 => _ = self.take(8)?,
            8 => {
                let length = self.number()?;
                self.take(usize::try_from(length).ok()?)?;
            }
            LIST | 10 => {
                let (count, kind) = self.list()?;
                // In a list, a boolean is a byte.
                let kind = if matches!(kind, 1 | 2) { 3 } else { kind };
                (0..count).try_for_each(|_| self.skip(kind, depth + 1))?;
            }
            STRUCT => {
                let mut id = 0;
                loop {
                    match self.field(&mut id)? {
                        0 => break,
                        kind => self.skip(kind, depth + 1)?,
                    }
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 127) << shift;
            if byte & 128 == 0 {
                return Some(number);
            }
        }
        None
    }
}
