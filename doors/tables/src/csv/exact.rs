//! Numbers that are texts: types come from the first rows, and the decoder reads `0870` as 870 and `+49123` as 49123
//! further down. From the first sign of such a value on, number columns are read as texts, and each value is looked at
//! before it becomes a number.

use super::guess::NumberForm;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;

/// Finds a value that begins with a plus, or with a zero and a digit behind it.
pub(super) struct Leading {
    delimiter: u8,
    /// The last bytes of the block before.
    last: [u8; REACH],
}

/// A sign of such a value has four bytes: a delimiter, a minus, a zero, a digit.
const REACH: usize = 3;

impl Leading {
    pub(super) fn new(delimiter: u8) -> Leading {
        Leading { delimiter, last: [b'\n'; REACH] }
    }

    /// Whether the next bytes, and those before, have a sign of one. A sign within a quoted value counts as well.
    pub(super) fn see(&mut self, bytes: &[u8]) -> bool {
        let first = &bytes[..bytes.len().min(REACH)];
        let seam = [&self.last[..], first].concat();
        self.last.copy_from_slice(&seam[seam.len() - REACH..]);
        if let Some(last) = bytes.last_chunk::<REACH>() {
            self.last = *last;
        }
        // Pieces are looked at as a whole, without a branch for each byte, so that they are looked at fast.
        const PIECE: usize = 4096;
        let pieces = (0..bytes.len()).step_by(PIECE).map(|from| &bytes[from..bytes.len().min(from + PIECE + REACH)]);
        self.is_in(&seam) || pieces.into_iter().any(|piece| self.is_in(piece))
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        let begins = |byte: u8| (byte == self.delimiter) | (byte == b'\n') | (byte == b'\r') | (byte == b'"');
        let padded = |zero: u8, digit: u8| (zero == b'0') & digit.is_ascii_digit();
        let positive = bytes.windows(2).fold(false, |any, two| any | (begins(two[0]) & (two[1] == b'+')));
        let plain = bytes.windows(3).fold(false, |any, three| any | (begins(three[0]) & padded(three[1], three[2])));
        let negative = bytes
            .windows(4)
            .fold(false, |any, four| any | (begins(four[0]) & (four[1] == b'-') & padded(four[2], four[3])));
        positive | plain | negative
    }
}

/// The columns of numbers, as texts once there is a sign of a text.
pub(super) struct Exact {
    /// Their places among the columns that are read.
    numbers: Vec<usize>,
    is_on: bool,
    /// The bytes of the batch, to be read again.
    kept: Vec<u8>,
}

/// A value that is not of its column's type.
pub(super) struct Wrong {
    pub(super) place: usize,
    pub(super) row: usize,
    /// In quotes.
    pub(super) text: String,
    /// Whether it is written as a number.
    pub(super) is_lossy: bool,
}

impl Exact {
    pub(super) fn new(numbers: Vec<usize>) -> Exact {
        Exact { numbers, is_on: false, kept: Vec::new() }
    }

    /// Whether signs matter.
    pub(super) fn waits(&self) -> bool {
        !self.is_on && !self.numbers.is_empty()
    }

    pub(super) fn keep(&mut self, bytes: &[u8]) {
        if self.waits() {
            self.kept.extend_from_slice(bytes);
        }
    }

    /// After the end of a batch. Tells whether there was a line with something in it.
    pub(super) fn forget(&mut self) -> bool {
        let has_text = self.kept.iter().any(|byte| !matches!(byte, b'\n' | b'\r'));
        self.kept.clear();
        has_text
    }

    /// Gives the bytes to read again.
    pub(super) fn turn_on(&mut self) -> Vec<u8> {
        self.is_on = true;
        std::mem::take(&mut self.kept)
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.kept.capacity()
    }

    /// The schema with texts for numbers.
    pub(super) fn texts(&self, schema: &Schema, read: &[usize]) -> SchemaRef {
        let is_number = |column: usize| self.numbers.iter().any(|&place| read[place] == column);
        let field = |(column, field): (usize, &Arc<Field>)| match is_number(column) {
            true => Arc::new(Field::new(field.name(), DataType::Utf8, true)),
            false => Arc::clone(field),
        };
        Arc::new(Schema::new(schema.fields().iter().enumerate().map(field).collect::<Vec<_>>()))
    }

    /// A batch with numbers for their texts.
    pub(super) fn numbers(&self, batch: RecordBatch, schema: &Schema, read: &[usize]) -> Result<RecordBatch, Wrong> {
        if !self.is_on {
            return Ok(batch);
        }
        let mut columns = batch.columns().to_vec();
        let mut fields = batch.schema_ref().fields().to_vec();
        for &place in &self.numbers {
            let texts = columns[place].as_string::<i32>();
            let text = |row: usize| Some(texts.value(row)).filter(|text| !texts.is_null(row) && !text.is_empty());
            let each = |row: usize| (row, text(row));
            let wrong = |row: usize, text: &str| Wrong {
                place,
                row,
                text: format!("'{text}'"),
                is_lossy: text.parse::<f64>().is_ok() && NumberForm::of(text) == NumberForm::Text,
            };
            let field = &schema.fields()[read[place]];
            let column: ArrayRef = if *field.data_type() == DataType::Int64 {
                let number = |(row, text): (usize, Option<&str>)| {
                    let Some(text) = text else { return Ok(None) };
                    let number = text.parse::<i64>().ok().filter(|_| NumberForm::of(text) != NumberForm::Text);
                    number.map(Some).ok_or_else(|| wrong(row, text))
                };
                Arc::new((0..texts.len()).map(each).map(number).collect::<Result<Int64Array, Wrong>>()?)
            } else {
                let number = |(row, text): (usize, Option<&str>)| {
                    let Some(text) = text else { return Ok(None) };
                    // A word, as NaN, loses nothing.
                    let is_word = !text.starts_with('+') && !text.bytes().any(|byte| byte.is_ascii_digit());
                    let is_number = is_word || NumberForm::of(text) != NumberForm::Text;
                    let number = text.parse::<f64>().ok().filter(|_| is_number);
                    number.map(Some).ok_or_else(|| wrong(row, text))
                };
                Arc::new((0..texts.len()).map(each).map(number).collect::<Result<Float64Array, Wrong>>()?)
            };
            columns[place] = column;
            fields[place] = Arc::clone(field);
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("columns of one length and these types"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_is_found_however_the_bytes_come() {
        for (text, has) in [
            ("0870,1\n", true),
            ("1,2\n3,0870", true),
            ("1,-007\n", true),
            ("1\n+49\n", true),
            ("1,\"007\"\n", true),
            ("1,+", true),
            ("1,0\n0,0.5\n-0.5,-0,10,1-07", false),
            ("2020-01-01,1e+5\n", false),
            ("", false),
            ("0", false),
            ("-", false),
        ] {
            for size in 1..=text.len().max(1) {
                let mut leading = Leading::new(b',');
                let found = text.as_bytes().chunks(size).any(|chunk| leading.see(chunk));
                assert_eq!(found, has, "{text:?} in pieces of {size}");
            }
        }
        // Across the pieces that are looked at as a whole.
        for at in 4080..4110 {
            let mut text = vec![b'x'; 9000];
            text[at..at + 4].copy_from_slice(b",-01");
            assert!(Leading::new(b',').see(&text), "{at}");
        }
    }
}
