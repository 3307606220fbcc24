//! Rows of columns that are there, appended to those being filled.

use super::{EnvelopeBuilder, Filled, More};
use crate::block::Blocks;
use crate::column::Column;
use crate::native::by_form;
use crate::store::Unified;
use crate::types::Form;
use crate::{Envelope, Grow, NoMemory, Storage, Turn, give_up};

impl EnvelopeBuilder {
    /// Appends these rows of an envelope, in this order, and makes room for them. The envelope's columns have the
    /// builder's types. Panics if a null comes into a column without nulls.
    pub fn append(&mut self, turn: &Turn<'_>, envelope: &Envelope, rows: &[u32]) {
        self.reserve(turn, rows.len());
        self.gather(turn.blocks, envelope.columns(), rows);
    }

    /// Like [`EnvelopeBuilder::append`], with room for the rows reserved by the caller, but not for what lies beside
    /// them.
    pub(crate) fn gather(&mut self, blocks: Blocks, columns: &[Column], rows: &[u32]) {
        for (place, column) in columns.iter().enumerate() {
            self.gather_column(blocks, place, column, rows);
        }
    }

    /// Appends all rows of one column, with room for them reserved by the caller, but not for what lies beside them.
    pub(crate) fn append_column(&mut self, blocks: Blocks, place: usize, column: &Column) {
        let mut rows: Vec<u32> = Vec::with_room(column.len()).unwrap_or_else(|error| give_up(error));
        rows.extend(0..column.len() as u32);
        self.gather_column(blocks, place, column, &rows);
    }

    fn gather_column(&mut self, blocks: Blocks, place: usize, column: &Column, rows: &[u32]) {
        by_form!(column.form(),
            T => {
                let values = column.values::<T>();
                self.values::<T>(place).extend(rows.iter().map(|&row| values[row as usize]));
            },
            self.gather_others(blocks, place, column, rows));
        if let Some(nulls) = column.nulls() {
            let first = self.columns[place].len - rows.len();
            let of_rows = rows.iter().enumerate().filter(|(_, row)| nulls.has(**row as usize));
            of_rows.for_each(|(at, _)| self.make_null(place, first + at));
        }
    }

    fn gather_others(&mut self, blocks: Blocks, place: usize, column: &Column, rows: &[u32]) {
        match column.form() {
            Form::Decimal => {
                let values = column.decimals();
                self.decimals(place).extend(rows.iter().map(|&row| values[row as usize]));
            }
            Form::List => {
                let ranges = rows.iter().map(|&row| column.item_range(row as usize));
                let count = ranges.clone().map(|range| range.len()).sum();
                let mut items: Vec<u32> = Vec::with_room(count).unwrap_or_else(|error| give_up(error));
                items.extend(ranges.clone().flatten().map(|item| item as u32));
                self.begin_items(blocks, place, count).gather(blocks, column.parts_beside(), &items);
                self.end_lists(place, ranges.map(|range| range.len()));
            }
            Form::Struct => {
                self.begin_items(blocks, place, rows.len()).gather(blocks, column.parts_beside(), rows);
                self.columns[place].len += rows.len();
            }
            _ => self.gather_strings(blocks, place, rows.iter().map(|&row| (column, row as usize))),
        }
    }

    /// Appends rows of several sources with columns of the builder's types, each given by the number of its source and
    /// its own number there. Room for the rows is reserved by the caller, but not for what lies beside them.
    pub(crate) fn interleave<'s>(&mut self, blocks: Blocks, rows: &[(u32, u32)], of: impl Fn(u32) -> &'s [Column]) {
        for place in 0..self.columns.len() {
            let form = self.columns[place].form;
            by_form!(form,
                T => {
                    let value = |&(source, row): &(u32, u32)| of(source)[place].values::<T>()[row as usize];
                    self.values::<T>(place).extend(rows.iter().map(value));
                },
                self.interleave_others(blocks, place, rows, &of));
            self.interleave_nulls(place, rows, &of);
        }
    }

    /// Makes nulls of those of the rows just appended that are.
    fn interleave_nulls<'s>(&mut self, place: usize, rows: &[(u32, u32)], of: &dyn Fn(u32) -> &'s [Column]) {
        if self.beside.get(place).is_some_and(|beside| beside.nullable) {
            let first = self.columns[place].len - rows.len();
            for (at, &(source, row)) in rows.iter().enumerate() {
                if of(source)[place].is_null(row as usize) {
                    self.make_null(place, first + at);
                }
            }
        }
    }

    fn interleave_others<'s>(
        &mut self,
        blocks: Blocks,
        place: usize,
        rows: &[(u32, u32)],
        of: &dyn Fn(u32) -> &'s [Column],
    ) {
        match self.columns[place].form {
            Form::Decimal => {
                let value = |&(source, row): &(u32, u32)| of(source)[place].decimals()[row as usize];
                self.decimals(place).extend(rows.iter().map(value));
            }
            Form::List => {
                let range = |&(source, row): &(u32, u32)| of(source)[place].item_range(row as usize);
                let count = rows.iter().map(|row| range(row).len()).sum();
                let mut items: Vec<(u32, u32)> = Vec::with_room(count).unwrap_or_else(|error| give_up(error));
                items.extend(rows.iter().flat_map(|row| range(row).map(|item| (row.0, item as u32))));
                let nested = self.begin_items(blocks, place, count);
                let parts: &dyn Fn(u32) -> &'s [Column] = &|source| of(source)[place].parts_beside();
                nested.interleave(blocks, &items, parts);
                self.end_lists(place, rows.iter().map(|row| range(row).len()));
            }
            Form::Struct => {
                let nested = self.begin_items(blocks, place, rows.len());
                let parts: &dyn Fn(u32) -> &'s [Column] = &|source| of(source)[place].parts_beside();
                nested.interleave(blocks, rows, parts);
                self.columns[place].len += rows.len();
            }
            _ => {
                let row = |&(source, row): &(u32, u32)| (&of(source)[place], row as usize);
                self.gather_strings(blocks, place, rows.iter().map(row));
            }
        }
    }

    /// The nested builder, with room for so many rows more.
    fn begin_items(&mut self, blocks: Blocks, place: usize, more: usize) -> &mut EnvelopeBuilder {
        let nested = self.nested(place);
        nested.reserve_from(blocks, more);
        nested
    }

    /// Ends rows of lists, of so many values each, which have been appended.
    fn end_lists(&mut self, place: usize, lengths: impl DoubleEndedIterator<Item = usize> + Clone) {
        let all: usize = lengths.clone().sum();
        let mut end = self.nested(place).rows() - all;
        for length in lengths {
            end += length;
            self.end_list_at(place, end);
        }
    }

    fn gather_strings<'c>(
        &mut self,
        blocks: Blocks,
        place: usize,
        rows: impl Iterator<Item = (&'c Column, usize)> + Clone,
    ) {
        let Filled { form, len, .. } = self.columns[place];
        let is_adapted = self.beside.get(place).is_some_and(|beside| beside.first_form == Some(Form::Direct));
        if is_adapted && ((form == Form::Direct && len == 0) || form == Form::Codes) {
            // Rows of one store keep it.
            let before = match &self.beside[place].more {
                More::Codes(numbers) => numbers.only_store().cloned(),
                _ => None,
            };
            let first = before.as_ref().or_else(|| rows.clone().next()?.0.store());
            let is_one = first.is_some_and(|first| {
                rows.clone().all(|(column, _)| column.store().is_some_and(|store| store.is(first)))
            });
            match (form, is_one) {
                (Form::Direct, true) => {
                    // Room for ends is room for codes.
                    self.columns[place].form = Form::Codes;
                    self.beside[place].more = More::Codes(Box::default());
                }
                (Form::Codes, false) => self.write_codes_out(blocks, place),
                _ => {}
            }
        }
        if self.columns[place].form == Form::Codes {
            return self.gather_codes(place, rows);
        }
        if matches!(self.columns[place].form, Form::Direct | Form::Views) {
            let bytes = rows.clone().map(|(column, row)| column.string(row).len()).fold(0, usize::saturating_add);
            self.reserve_text_from(blocks, place, bytes);
        }
        let kind = self.columns[place].kind.clone();
        // The bytes of a null may not fit there. Elsewhere they are copied, so that copies have one size.
        let is_limited = !matches!(self.columns[place].form, Form::Direct | Form::Views);
        let mut into = self.strings::<[u8]>(place, &kind);
        for (column, row) in rows {
            if is_limited && column.is_null(row) { into.push_nothing() } else { into.push(column.string(row)) }
        }
    }

    /// Appends codes of rows, made those of one store.
    fn gather_codes<'c>(&mut self, place: usize, rows: impl Iterator<Item = (&'c Column, usize)>) {
        let More::Codes(numbers) = std::mem::take(&mut self.beside[place].more) else {
            unreachable!("codes have numbers")
        };
        let mut numbers = numbers;
        let mut into = self.codes(place);
        for (column, row) in rows {
            into.push(match column.store() {
                _ if column.is_null(row) => 0,
                Some(store) => numbers.code(store, column.codes()[row]),
                None => numbers.number(column.string(row)),
            });
        }
        self.beside[place].more = More::Codes(numbers);
    }

    /// Stores a column of codes directly.
    fn write_codes_out(&mut self, blocks: Blocks, place: usize) {
        let More::Codes(numbers) = std::mem::take(&mut self.beside[place].more) else {
            unreachable!("codes have numbers")
        };
        let codes: Vec<u32> = self.codes(place).filled().to_vec();
        let nulls = self.null_rows(place);
        self.columns[place].form = Form::Direct;
        self.columns[place].len = 0;
        self.write_first_end(place);
        let bytes = codes.iter().map(|&code| numbers.string(code).len()).fold(0, usize::saturating_add);
        self.reserve_text_from(blocks, place, bytes);
        let kind = self.columns[place].kind.clone();
        let mut into = self.strings::<[u8]>(place, &kind);
        codes.iter().for_each(|&code| into.push(numbers.string(code)));
        self.set_nulls(place, &nulls);
    }
}

/// Copies of these columns, in a block of their own.
pub(crate) fn copied(columns: &[Column], rows: usize, blocks: Blocks) -> Result<Vec<Column>, NoMemory> {
    let kinds = columns.iter().map(|column| (column.kind(), column.form(), column.null_count() > 0));
    let mut builder = EnvelopeBuilder::of(kinds);
    for (place, column) in columns.iter().enumerate() {
        if column.form() == Form::Direct {
            builder.beside[place].text_capacity = column.string_bytes();
        }
        if let Some(beside) = builder.beside.get_mut(place).filter(|_| column.form() == Form::Codes) {
            beside.more = More::Codes(Box::<Unified>::default());
        }
    }
    builder.try_reserve_from(blocks, rows)?;
    let mut all: Vec<u32> = Vec::new();
    for (place, column) in columns.iter().enumerate() {
        by_form!(column.form(),
        T => builder.values::<T>(place).extend_from_slice(column.values::<T>()),
        {
            if all.is_empty() {
                all.grow(rows)?;
                all.extend(0..rows as u32);
            }
            builder.gather_others(blocks, place, column, &all);
        });
        if let Some(nulls) = column.nulls() {
            (0..rows).filter(|&row| nulls.has(row)).for_each(|row| builder.make_null(place, row));
        }
    }
    Ok(builder.finish_from(blocks))
}

/// A column's texts or strings of bytes in this storage, which has room for them.
pub(crate) fn converted(column: &Column, storage: Storage) -> Result<Column, NoMemory> {
    let (kind, nullable) = (column.kind(), column.null_count() > 0);
    let form = kind.form_in(storage);
    let mut builder = EnvelopeBuilder::of([(kind.clone(), form, nullable)].into_iter());
    builder.try_reserve_from(Blocks::default(), column.len())?;
    builder.try_reserve_text_from(Blocks::default(), 0, column.string_bytes())?;
    let mut into = builder.strings::<[u8]>(0, &kind);
    for row in 0..column.len() {
        if column.is_null(row) { into.push_nothing() } else { into.push(column.string(row)) }
    }
    if let Some(nulls) = column.nulls() {
        (0..column.len()).filter(|&row| nulls.has(row)).for_each(|row| builder.make_null(0, row));
    }
    Ok(builder.finish_from(Blocks::default()).remove(0))
}

/// See [`Column::interleaved`].
pub(crate) fn interleaved(
    kind: &crate::Type,
    columns: &[&Column],
    rows: &[Option<(u32, u32)>],
) -> Result<Column, NoMemory> {
    let builder = || EnvelopeBuilder::of([(kind.clone(), kind.form(), true)].into_iter());
    let mut sources: Vec<Column> = Vec::with_room(columns.len() + 1)?;
    sources.extend(columns.iter().map(|&column| column.clone()));
    // What nulls are copied from.
    let none = sources.len() as u32;
    let mut null = builder();
    null.try_reserve_from(Blocks::default(), 1)?;
    null.push_null(0);
    sources.push(null.finish_from(Blocks::default()).remove(0));
    let mut places: Vec<(u32, u32)> = Vec::with_room(rows.len())?;
    places.extend(rows.iter().map(|row| row.unwrap_or((none, 0))));
    let mut builder = builder();
    builder.try_reserve_from(Blocks::default(), rows.len())?;
    builder.interleave(Blocks::default(), &places, |source| std::slice::from_ref(&sources[source as usize]));
    Ok(builder.finish_from(Blocks::default()).remove(0))
}

/// A column without rows.
#[cfg(feature = "arrow")]
pub(crate) fn empty(kind: &crate::Type) -> Column {
    EnvelopeBuilder::of([(kind.clone(), kind.form(), false)].into_iter()).finish_from(Blocks::default()).remove(0)
}

/// A column of some rows of a column, or of nulls.
#[cfg(feature = "arrow")]
pub(crate) fn picked(
    from: &Column,
    rows: impl ExactSizeIterator<Item = Option<usize>> + Clone,
) -> Result<Column, NoMemory> {
    let mut builder = EnvelopeBuilder::of([(from.kind(), from.form(), true)].into_iter());
    builder.try_reserve_from(Blocks::default(), rows.len())?;
    for row in rows {
        match row {
            Some(row) => builder.gather(Blocks::default(), std::slice::from_ref(from), &[row as u32]),
            None => builder.push_null(0),
        }
    }
    Ok(builder.finish_from(Blocks::default()).remove(0))
}
