//! An envelope: a small table, column by column. Cloning it copies no data.

use crate::block::Blocks;
use crate::builder;
use crate::column::{Column, held_bytes, make_private};
use crate::input_ring::Load;
use crate::shape::Shape;
use crate::store::Store;
use crate::{BoxError, Native, Schema, give_up};
use std::any::{Any, TypeId};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use vicus_topology::NodeId;

/// A copy is not worth it for fewer bytes.
const LITTLE: u64 = 4096;

/// With how many of the last attachments a new one is compared.
const LATELY: usize = 8;

/// A small table, or the poisoned pill at the end of the stream.
///
/// ```
/// use vicus_flow::Envelope;
///
/// let envelope = Envelope::new([vec![1u64, 2, 3].into(), ["a", "b", "c"].into_iter().collect()]);
/// let same = envelope.clone(); // shares both columns
/// assert_eq!(same.rows(), 3);
/// assert_eq!(same.column(0).u64s(), [1, 2, 3]);
/// assert!(Envelope::pill().is_pill());
/// ```
#[derive(Clone, Debug)]
pub struct Envelope(
    /// One word, because an envelope is moved half a dozen times on its way from box to box.
    Box<Table>,
);

#[derive(Clone, Debug)]
struct Table {
    columns: Vec<Column>,
    /// The columns' shape and the bytes of their values. Both stay: values change, but not their types, sizes and
    /// nulls.
    shape: Shape,
    bytes: u64,
    rows: u32,
    pill: bool,
    /// The node it was sent from.
    node: NodeId,
    /// The node of the data it refers to.
    home: Option<NodeId>,
    /// The sender's logical time, if the run is traced; else 0.
    stamp: u64,
    /// The source of memory for the copy of a shared column before a change.
    blocks: Blocks,
    attached: Vec<Attachment>,
}

/// A value kept alive by an envelope beside its columns, such as the texts of its numbers. It is dropped with its last
/// envelope.
///
/// A box that makes envelopes of others' rows attaches their attachments as well:
///
/// ```
/// use std::sync::Arc;
/// use vicus_flow::{Attachment, Envelope};
///
/// let texts = Arc::new(vec!["one".to_owned(), "two".to_owned()]);
/// let input = Envelope::new([vec![0u64, 1].into()]).with(&[Attachment::new(Arc::clone(&texts), 6)]);
/// let output = Envelope::new([vec![1u64].into()]).with(input.attached());
/// drop(input);
/// assert_eq!((Arc::strong_count(&texts), output.bytes()), (2, 8 + 6));
/// drop(output);
/// assert_eq!(Arc::strong_count(&texts), 1);
/// ```
#[derive(Clone)]
pub struct Attachment {
    value: Arc<dyn Any + Send + Sync>,
    bytes: u64,
    /// How it is written, if it can be.
    codec: Option<Arc<dyn Codec>>,
}

/// How values of one type are written and read back.
pub(crate) trait Codec: Send + Sync {
    fn write(&self, value: &dyn Any, into: &mut Vec<u8>);

    /// The value of written bytes.
    ///
    /// # Errors
    /// The reader's.
    fn read(&self, written: &[u8]) -> Result<Arc<dyn Any + Send + Sync>, BoxError>;

    /// The type and the addresses of the functions: equal for codecs that do the same.
    fn functions(&self) -> (TypeId, [usize; 2]);
}

struct Functions<T> {
    write: fn(&T, &mut Vec<u8>),
    read: fn(&[u8]) -> Result<T, BoxError>,
}

impl<T: Any + Send + Sync> Codec for Functions<T> {
    fn write(&self, value: &dyn Any, into: &mut Vec<u8>) {
        (self.write)(value.downcast_ref().expect("a value keeps its type"), into);
    }

    fn read(&self, written: &[u8]) -> Result<Arc<dyn Any + Send + Sync>, BoxError> {
        Ok(Arc::new((self.read)(written)?))
    }

    fn functions(&self) -> (TypeId, [usize; 2]) {
        (TypeId::of::<T>(), [self.write as usize, self.read as usize])
    }
}

impl Attachment {
    /// Keeps a value of `bytes` bytes.
    pub fn new(value: Arc<impl Any + Send + Sync>, bytes: u64) -> Attachment {
        Attachment { value, bytes, codec: None }
    }

    /// Keeps a value of `bytes` bytes that can be written: envelopes which keep it may go from a via, or from
    /// [`hold`](crate::library::hold), to files when there is no memory for them ([`Overflows`](crate::Overflows)), and
    /// have a value of their own when they come back.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use vicus_flow::Attachment;
    ///
    /// let write = |text: &String, into: &mut Vec<u8>| into.extend_from_slice(text.as_bytes());
    /// let read = |bytes: &[u8]| Ok(String::from_utf8(bytes.to_vec())?);
    /// let attachment = Attachment::written(Arc::new("one".to_owned()), 3, write, read);
    /// assert!(attachment.can_be_written());
    /// ```
    pub fn written<T: Any + Send + Sync>(
        value: Arc<T>,
        bytes: u64,
        write: fn(&T, &mut Vec<u8>),
        read: fn(&[u8]) -> Result<T, BoxError>,
    ) -> Attachment {
        Attachment { value, bytes, codec: Some(Arc::new(Functions { write, read })) }
    }

    /// Whether it can be written, so that an envelope which keeps it can go to a file.
    pub fn can_be_written(&self) -> bool {
        self.codec.is_some()
    }

    /// Writes it, if it can be. Gives how it is read.
    pub(crate) fn write(&self, into: &mut Vec<u8>) -> Option<&Arc<dyn Codec>> {
        let codec = self.codec.as_ref()?;
        codec.write(&*self.value, into);
        Some(codec)
    }

    /// Reads a value of `bytes` bytes from what was written.
    ///
    /// # Errors
    /// The reader's.
    pub(crate) fn read(codec: &Arc<dyn Codec>, bytes: u64, written: &[u8]) -> Result<Attachment, BoxError> {
        Ok(Attachment { value: codec.read(written)?, bytes, codec: Some(Arc::clone(codec)) })
    }

    /// The bytes it keeps.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The value, if it is of this type.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use vicus_flow::Attachment;
    ///
    /// let attachment = Attachment::new(Arc::new("one".to_owned()), 3);
    /// assert_eq!(attachment.value::<String>().map(String::as_str), Some("one"));
    /// assert_eq!(attachment.value::<u64>(), None);
    /// ```
    pub fn value<T: Any>(&self) -> Option<&T> {
        self.value.downcast_ref()
    }

    /// The bytes kept by all of these.
    pub fn bytes_of(attached: &[Attachment]) -> u64 {
        attached.iter().map(Attachment::bytes).sum()
    }

    /// Adds those of `others` not added lately. The rows of one envelope are added in several steps, and its
    /// attachments then are among the last ones; comparing with all would take long if there are many.
    pub fn add_all(to: &mut Vec<Attachment>, others: &[Attachment]) {
        let lately = others.len() + LATELY;
        for other in others {
            if !to.iter().rev().take(lately).any(|one| Arc::ptr_eq(&one.value, &other.value)) {
                to.push(other.clone());
            }
        }
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes attached", self.bytes)
    }
}

impl Envelope {
    /// An envelope of these columns. Panics if they differ in length or have more than four billion rows.
    pub fn new(columns: impl Into<Vec<Column>>) -> Envelope {
        let columns = columns.into();
        let rows = columns.first().map_or(0, Column::len);
        Envelope::of_rows(columns, rows)
    }

    /// An envelope of `rows` rows; needed for rows without columns. Panics if a column's length differs, or beyond four
    /// billion rows.
    pub fn of_rows(columns: Vec<Column>, rows: usize) -> Envelope {
        let mut bytes = 0;
        for column in &columns {
            assert!(column.len() == rows, "columns of one envelope have one length");
            bytes += column.bytes();
        }
        let rows = u32::try_from(rows).expect("an envelope is small: fewer than four billion rows");
        let shape = Shape::of(columns.iter().map(Column::kind_and_nulls));
        Envelope::of_parts(columns, shape, bytes, rows, false)
    }

    /// With all fields written here: made from a default value, the table would be copied in full once more.
    #[inline]
    fn of_parts(columns: Vec<Column>, shape: Shape, bytes: u64, rows: u32, pill: bool) -> Envelope {
        Envelope(Box::new(Table {
            columns,
            shape,
            bytes,
            rows,
            pill,
            node: NodeId::default(),
            home: None,
            stamp: 0,
            blocks: Blocks::default(),
            attached: Vec::new(),
        }))
    }

    /// The poisoned pill (Bobox report §4.1): no rows, no columns, the end of the stream.
    pub fn pill() -> Envelope {
        Envelope::of_parts(Vec::new(), Shape::default(), 0, 0, true)
    }

    /// Sets the home: the node of the data it refers to, such as the rows of a range. A world whose strategy uses homes
    /// invokes the receiver there, if it is not queued or running already.
    pub fn at_home(mut self, home: Option<NodeId>) -> Envelope {
        self.0.home = home;
        self
    }

    /// The node of the data it refers to, if it was set.
    pub fn home(&self) -> Option<NodeId> {
        self.0.home
    }

    /// Whether it is the poisoned pill.
    pub fn is_pill(&self) -> bool {
        self.0.pill
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.0.rows as usize
    }

    /// The columns, in the order of the schema.
    pub fn columns(&self) -> &[Column] {
        &self.0.columns
    }

    /// One column. Panics if there are fewer.
    pub fn column(&self, index: usize) -> &Column {
        &self.0.columns[index]
    }

    /// The columns, to be changed or passed on.
    pub fn into_columns(self) -> Vec<Column> {
        self.0.columns
    }

    pub(crate) fn node(&self) -> NodeId {
        self.0.node
    }

    pub(crate) fn set_node(&mut self, node: NodeId, blocks: Blocks) {
        self.0.node = node;
        self.0.blocks = blocks;
    }

    pub(crate) fn stamp(&self) -> u64 {
        self.0.stamp
    }

    pub(crate) fn set_stamp(&mut self, stamp: u64) {
        self.0.stamp = stamp;
    }

    /// Gives it a copy of a column of its own.
    pub(crate) fn unshare(&mut self, column: usize) {
        let own = self.0.columns[column].private_copy(self.0.blocks).unwrap_or_else(|error| give_up(error));
        self.0.columns[column] = own;
    }

    /// The values of a column of this type, for a change: in place if no other column shares them, otherwise in a copy
    /// (Bobox report §7). Nulls don't change. Panics if it is of another type.
    pub fn values_mut<T: Native>(&mut self, column: usize) -> &mut [T] {
        make_private(&mut self.0.columns, column, self.0.blocks);
        #[expect(unsafe_code, reason = "writes to a column's memory")]
        // SAFETY: made sure of just now.
        unsafe {
            self.0.columns[column].values_mut()
        }
    }

    /// Some of its rows: a smaller envelope with the shared columns, the same home and the same attachments. Panics if
    /// there are fewer rows.
    ///
    /// ```
    /// use vicus_flow::Envelope;
    ///
    /// let whole = Envelope::new([(0..10u64).collect::<Vec<_>>().into()]);
    /// let part = whole.slice(3..5);
    /// assert_eq!(part.column(0).u64s(), [3, 4]);
    /// assert_eq!(part.column(0).u64s().as_ptr(), &raw const whole.column(0).u64s()[3]);
    /// ```
    pub fn slice(&self, rows: Range<usize>) -> Envelope {
        assert!(rows.start <= rows.end && rows.end <= self.rows(), "{rows:?} are not all of {} rows", self.rows());
        let columns = self.0.columns.iter().map(|column| column.slice(rows.clone())).collect();
        let mut slice = Envelope::of_rows(columns, rows.len()).at_home(self.0.home).with(&self.0.attached);
        (slice.0.node, slice.0.stamp, slice.0.blocks) = (self.0.node, self.0.stamp, self.0.blocks);
        slice
    }

    /// This envelope, with these attachments kept alive as well.
    pub fn with(mut self, attached: &[Attachment]) -> Envelope {
        Attachment::add_all(&mut self.0.attached, attached);
        self
    }

    /// The values it keeps alive beside its columns.
    pub fn attached(&self) -> &[Attachment] {
        &self.0.attached
    }

    /// The bytes of memory of its values and its attachments.
    pub fn bytes(&self) -> u64 {
        Attachment::bytes_of(&self.0.attached) + self.0.bytes
    }

    /// The bytes of memory it keeps: more than [`Envelope::bytes`] if it has only some of the columns made together.
    /// For boxes that collect envelopes. The values of dictionaries, which many envelopes share, are counted by
    /// [`HeldBytes`].
    pub fn held_bytes(&self) -> u64 {
        Attachment::bytes_of(&self.0.attached) + held_bytes(&self.0.columns)
    }

    /// For boxes that collect envelopes: copies the columns if they would keep more than twice as much memory as they
    /// take.
    pub fn compact(mut self) -> Envelope {
        let columns = &self.0.columns;
        if held_bytes(columns) > 2 * self.0.bytes + LITTLE {
            let copies = builder::copied(columns, self.rows(), self.0.blocks);
            self.0.columns = copies.unwrap_or_else(|error| give_up(error));
        }
        self
    }

    /// Whether it fits a via's schema. A pill fits every schema.
    #[inline]
    pub fn fits(&self, schema: &Schema) -> bool {
        self.0.shape.fits(schema.shape())
            || self.0.pill
            || schema.admits(self.0.columns.iter().map(Column::kind_and_nulls))
    }
}

/// The bytes of memory that envelopes keep together: each dictionary of texts once.
///
/// ```
/// use vicus_flow::{Column, Envelope, HeldBytes, Storage};
///
/// let words: Column = ["a long word", "a long word", "another one"].into_iter().collect();
/// let coded = Envelope::new([words.stored(Storage::Dictionary)?]);
/// let mut held = HeldBytes::default();
/// let (first, second) = (held.add(&coded.slice(0..2)), held.add(&coded.slice(2..3)));
/// assert!(first > second);
/// # Ok::<(), vicus_flow::BoxError>(())
/// ```
#[derive(Debug, Default)]
pub struct HeldBytes {
    /// The dictionaries so far.
    stores: Vec<Arc<Store>>,
}

impl HeldBytes {
    /// Adds an envelope. Gives the bytes that it keeps and that no envelope before it did.
    pub fn add(&mut self, envelope: &Envelope) -> u64 {
        envelope.held_bytes() + self.add_stores(envelope.columns())
    }

    fn add_stores(&mut self, columns: &[Column]) -> u64 {
        let mut bytes = 0;
        for column in columns {
            let new = column.store().filter(|store| !self.stores.iter().rev().any(|one| one.is(store)));
            if let Some(store) = new {
                bytes += store.bytes();
                self.stores.push(Arc::clone(store));
            }
            bytes += self.add_stores(column.parts_beside());
        }
        bytes
    }
}

impl Load for Envelope {
    fn bytes(&self) -> u64 {
        Envelope::bytes(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Type;

    #[test]
    fn one_column_of_a_block_holds_all_of_it() {
        let mut builder = crate::EnvelopeBuilder::of_u64s(3);
        builder.reserve_from(Blocks::default(), 100);
        (0..3).for_each(|column| builder.u64s(column).repeat(1, 100));
        let columns = builder.finish_from(Blocks::default());
        let whole = Envelope::new(columns.clone());
        let part = Envelope::new([columns[1].clone(), vec![1u64; 100].into(), columns[2].clone(), columns[1].clone()]);
        // There is a line behind each column, and 800 bytes are not whole lines.
        assert_eq!((whole.bytes(), whole.held_bytes()), (2400, 3 * (832 + 64)));
        assert_eq!((part.bytes(), part.held_bytes()), (3200, 3 * (832 + 64) + 800));

        builder.reserve_from(Blocks::default(), 1000);
        (0..3).for_each(|column| builder.u64s(column).extend(0..1000));
        let columns = builder.finish_from(Blocks::default());
        let texts: Column = (0..1000).map(|row| format!("{row:020}")).collect();
        let part = Envelope::new([texts, columns[2].clone()]);
        let before = part.column(1).u64s().as_ptr();
        assert_eq!(part.clone().compact().column(1).u64s().as_ptr(), before, "the texts weigh more");
        let part = Envelope::new([columns[2].clone()]).compact();
        assert_ne!(part.column(0).u64s().as_ptr(), before);
        assert!(part.column(0).u64s().iter().copied().eq(0..1000) && part.held_bytes() < 8000 + 200);
    }

    #[test]
    fn an_unshared_column_is_changed_in_its_own_memory() {
        let mut envelope = Envelope::new([vec![1i64, 2, 3].into()]);
        let before = envelope.column(0).i64s().as_ptr();
        let add_one = |envelope: &mut Envelope| envelope.i64s_mut(0).iter_mut().for_each(|value| *value += 1);
        add_one(&mut envelope);
        assert_eq!(envelope.column(0).i64s(), [2, 3, 4]);
        assert_eq!(envelope.column(0).i64s().as_ptr(), before, "nothing was copied");

        let other = envelope.clone();
        add_one(&mut envelope);
        assert_eq!(other.column(0).i64s(), [2, 3, 4], "the other branch keeps its values");
        assert_eq!(envelope.column(0).i64s(), [3, 4, 5]);

        let column = envelope.column(0).clone();
        let mut twice = Envelope::new([column.clone(), column]);
        drop(envelope);
        add_one(&mut twice);
        assert_eq!([twice.column(0).i64s(), twice.column(1).i64s()], [[4, 5, 6], [3, 4, 5]], "a column of its own");
    }
    /// The bytes and the shape are computed once, when the columns are put together.
    #[test]
    fn an_envelope_whose_columns_are_copied_keeps_its_size_and_shape() {
        let plain = Schema::new([("a", Type::Text), ("b", Type::U32), ("c", Type::Binary)]);
        let schema = plain.with_nulls(["a", "b"]);
        for rows in [0, 1, 2000] {
            let texts: Column = (0..rows).map(|row| format!("{row}")).collect();
            let numbers: Vec<Option<u32>> = (0..rows).map(|row| (row % 3 != 0).then_some(row)).collect();
            let strings = Column::of_binaries((0..rows).map(|row| vec![0; row as usize % 5]));
            let columns = [texts.with_nulls((0..rows as usize).step_by(2)), numbers.into(), strings];
            let bytes = |envelope: &Envelope| envelope.columns().iter().map(Column::bytes).sum::<u64>();
            let mut envelope = Envelope::new(columns);
            let before = bytes(&envelope);
            let half = envelope.slice(0..rows as usize / 2).compact();
            assert_eq!(half.bytes(), bytes(&half), "{rows} rows");
            (0..3).for_each(|column| envelope.unshare(column));
            let other = envelope.clone();
            envelope.u32s_mut(1).fill(7);
            assert_eq!([envelope.bytes(), bytes(&envelope), bytes(&other)], [before; 3], "{rows} rows");
            for envelope in [half, envelope, other] {
                let nulls: Vec<_> = envelope.columns().iter().map(|column| column.null_count() > 0).collect();
                assert!(envelope.fits(&schema));
                assert_eq!(envelope.fits(&plain), !nulls.contains(&true), "{rows} rows");
            }
        }
    }
}
