//! The envelopes of a via for which there is no memory: outside of it, first in, first out.
//!
//! A world gives a request a maker of such queues ([`Overflows`]). When the budget has no room for an overdraft, a via
//! of the circle gets a queue, and its newest envelopes go there as bytes; they come back in order, and with the last
//! one the queue is gone. Bytes are those of this process: values as memory has them. What many envelopes share
//! stays in memory: their types, and the stores of dictionaries.

use crate::column::{of_codes, of_struct};
use crate::envelope::Codec;
use crate::store::Store;
use crate::types::Form;
use crate::{Attachment, BoxError, Column, Envelope, Type};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use vicus_topology::NodeId;

/// A queue of bytes outside of memory, such as a temporary file.
pub trait Overflow: Send {
    /// Puts bytes behind all others.
    ///
    /// # Errors
    /// There is no room, or the system refuses. Nothing was put.
    fn push(&mut self, bytes: &[u8]) -> Result<(), BoxError>;

    /// Takes the first bytes, in place of what `into` has. Whether there were any.
    ///
    /// # Errors
    /// They can't be read.
    fn pop(&mut self, into: &mut Vec<u8>) -> Result<bool, BoxError>;
}

/// Makes the queues of a request.
pub trait Overflows: fmt::Debug + Send + Sync {
    /// An empty queue.
    ///
    /// # Errors
    /// The system refuses.
    fn begin(&self) -> Result<Box<dyn Overflow>, BoxError>;
}

/// The newest envelopes of a via, outside of memory.
pub(crate) struct Outside {
    queue: Box<dyn Overflow>,
    /// How many lie there.
    count: usize,
    /// Those that could not be put there: they wait in memory, behind all others.
    behind: VecDeque<Envelope>,
    /// No more is put there, because this failed.
    full: Option<String>,
    bytes: Vec<u8>,
    shared: Shared,
}

impl Outside {
    pub(crate) fn new(queue: Box<dyn Overflow>) -> Outside {
        Outside { queue, count: 0, behind: VecDeque::new(), full: None, bytes: Vec::new(), shared: Shared::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.behind.is_empty()
    }

    /// Whether an envelope waits in memory because it could not be put there.
    pub(crate) fn is_refused(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Why it takes no more, if a put has failed.
    pub(crate) fn full(&self) -> Option<&str> {
        self.full.as_deref()
    }

    /// Puts an envelope behind the others. Gives the bytes that were written for it.
    pub(crate) fn push(&mut self, envelope: Envelope) -> u64 {
        let can_be_written = envelope.attached().iter().all(Attachment::can_be_written);
        if self.full.is_none() && self.behind.is_empty() && can_be_written {
            self.bytes.clear();
            self.shared.write(&envelope, &mut self.bytes);
            match self.queue.push(&self.bytes) {
                Ok(()) => {
                    self.count += 1;
                    return self.bytes.len() as u64;
                }
                Err(error) => self.full = Some(error.to_string()),
            }
        }
        self.behind.push_back(envelope);
        0
    }

    /// Takes the first envelope.
    ///
    /// # Errors
    /// It can't be read.
    pub(crate) fn pop(&mut self) -> Result<Option<Envelope>, BoxError> {
        if self.count == 0 {
            return Ok(self.behind.pop_front());
        }
        if !self.queue.pop(&mut self.bytes)? {
            return Err("an envelope that was put outside of memory is not there".into());
        }
        self.count -= 1;
        self.shared.read(&self.bytes).map(Some)
    }

    /// The envelopes that wait in memory.
    pub(crate) fn into_behind(self) -> VecDeque<Envelope> {
        self.behind
    }
}

/// Stands for none, and for the columns of a pill.
const NONE: u64 = u64::MAX;

/// So many dictionaries stay in memory: those that most envelopes of a via share are among the first.
const MOST_STORES: usize = 4;

/// Parts of envelopes that stay in memory because many have the same.
#[derive(Default)]
struct Shared {
    kinds: Vec<Type>,
    stores: Vec<Arc<Store>>,
    codecs: Vec<Arc<dyn Codec>>,
}

impl Shared {
    /// The number of a type.
    fn kind(&mut self, kind: Type) -> usize {
        self.kinds.iter().position(|known| *known == kind).unwrap_or_else(|| {
            self.kinds.push(kind);
            self.kinds.len() - 1
        })
    }

    /// The number of a store; `None` if too many others stay in memory already, so that its values are written.
    fn store(&mut self, store: &Arc<Store>) -> Option<usize> {
        let known = self.stores.iter().position(|known| known.is(store));
        if known.is_none() && self.stores.len() < MOST_STORES {
            self.stores.push(Arc::clone(store));
            return Some(self.stores.len() - 1);
        }
        known
    }

    /// Writes an envelope whose attachments can be written.
    fn write(&mut self, envelope: &Envelope, into: &mut Vec<u8>) {
        put(envelope.rows(), into);
        put(if envelope.is_pill() { NONE as usize } else { envelope.columns().len() }, into);
        put(envelope.node().index(), into);
        put(envelope.home().map_or(NONE as usize, NodeId::index), into);
        into.extend_from_slice(&envelope.stamp().to_ne_bytes());
        envelope.columns().iter().for_each(|column| self.write_column(column, into));
        put(envelope.attached().len(), into);
        envelope.attached().iter().for_each(|attachment| self.write_attachment(attachment, into));
    }

    fn write_attachment(&mut self, attachment: &Attachment, into: &mut Vec<u8>) {
        let mut bytes = Vec::new();
        let Some(codec) = attachment.write(&mut bytes) else { unreachable!("it was asked whether it can be written") };
        let known = self.codecs.iter().position(|known| known.functions() == codec.functions());
        put(known.unwrap_or(self.codecs.len()), into);
        if known.is_none() {
            self.codecs.push(Arc::clone(codec));
        }
        put(attachment.bytes() as usize, into);
        put(bytes.len(), into);
        into.extend_from_slice(&bytes);
    }

    fn write_column(&mut self, column: &Column, into: &mut Vec<u8>) {
        put(self.kind(column.kind()), into);
        put(column.len(), into);
        put(column.null_count(), into);
        if column.null_count() > 0 {
            (0..column.len()).filter(|&row| column.is_null(row)).for_each(|row| put(row, into));
        }
        let store = column.store().and_then(|store| self.store(store));
        put(store.unwrap_or(NONE as usize), into);
        match column.form() {
            Form::List => {
                let items = column.ends_of(0..column.len());
                (0..column.len()).for_each(|row| put(column.item_range(row).len(), into));
                self.write_column(&column.items().slice(items), into);
            }
            Form::Struct => column.parts_beside().iter().for_each(|part| self.write_column(part, into)),
            Form::Codes if store.is_some() => into.extend_from_slice(column.value_bytes()),
            Form::Direct | Form::Views | Form::Limited(_) | Form::Codes => {
                (0..column.len()).for_each(|row| put(column.string(row).len(), into));
                (0..column.len()).for_each(|row| into.extend_from_slice(column.string(row)));
            }
            _ => into.extend_from_slice(column.value_bytes()),
        }
    }

    /// Reads what [`Shared::write`] wrote.
    ///
    /// # Errors
    /// An attachment can't be read.
    fn read(&self, mut bytes: &[u8]) -> Result<Envelope, BoxError> {
        let rows = number(&mut bytes) as usize;
        let columns = number(&mut bytes);
        let node = NodeId::new(number(&mut bytes) as usize);
        let home = Some(number(&mut bytes)).filter(|&home| home != NONE).map(|home| NodeId::new(home as usize));
        let stamp = number(&mut bytes);
        let mut envelope = match columns {
            NONE => Envelope::pill(),
            count => Envelope::of_rows((0..count).map(|_| self.read_column(&mut bytes)).collect(), rows),
        };
        let mut attached = Vec::new();
        for _ in 0..number(&mut bytes) {
            let codec = &self.codecs[number(&mut bytes) as usize];
            let (size, length) = (number(&mut bytes), number(&mut bytes));
            attached.push(Attachment::read(codec, size, take(&mut bytes, length as usize))?);
        }
        envelope.set_node(node, Default::default());
        envelope.set_stamp(stamp);
        Ok(envelope.at_home(home).with(&attached))
    }

    fn read_column(&self, bytes: &mut &[u8]) -> Column {
        let kind = &self.kinds[number(bytes) as usize];
        let rows = number(bytes) as usize;
        let nulls: Vec<usize> = (0..number(bytes)).map(|_| number(bytes) as usize).collect();
        let store = number(bytes);
        let column = match kind {
            _ if store != NONE => {
                let codes = take(bytes, 4 * rows).chunks_exact(4);
                let codes = codes.map(|code| u32::from_ne_bytes(code.try_into().expect("four bytes")));
                of_codes(codes.collect(), Arc::clone(&self.stores[store as usize]), None)
            }
            Type::List(_) => {
                let mut ends = vec![0];
                (0..rows).for_each(|row| ends.push(ends[row] + number(bytes) as i32));
                Column::of_lists(ends, self.read_column(bytes)).with_kind(kind.clone())
            }
            Type::Struct(fields) => {
                let parts = fields.columns().iter().map(|_| self.read_column(bytes)).collect();
                of_struct(kind.clone(), rows, parts)
            }
            Type::Text | Type::Binary => {
                let lengths: Vec<usize> = (0..rows).map(|_| number(bytes) as usize).collect();
                let strings = lengths.into_iter().map(|length| take(bytes, length));
                match kind {
                    Type::Text => strings.map(|text| str::from_utf8(text).expect("it was a text")).collect(),
                    _ => Column::of_binaries(strings),
                }
            }
            kind => {
                let values = take(bytes, rows * kind.form().width());
                #[expect(unsafe_code, reason = "values come back from bytes")]
                // SAFETY: `write` took these bytes of values of this type, and the queue gives what was put.
                unsafe {
                    Column::of_value_bytes(kind.clone(), kind.form(), rows, values)
                }
            }
        };
        if nulls.is_empty() { column } else { column.with_nulls(nulls) }
    }
}

fn put(number: usize, into: &mut Vec<u8>) {
    into.extend_from_slice(&(number as u64).to_ne_bytes());
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (first, rest) = bytes.split_at(count);
    *bytes = rest;
    first
}

fn number(bytes: &mut &[u8]) -> u64 {
    u64::from_ne_bytes(take(bytes, 8).try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Storage, TimeUnit};
    use std::collections::VecDeque;

    /// Has room for so many envelopes.
    struct Short(VecDeque<Vec<u8>>, usize);

    impl Overflow for Short {
        fn push(&mut self, bytes: &[u8]) -> Result<(), BoxError> {
            if self.0.len() == self.1 {
                return Err("no room".into());
            }
            self.0.push_back(bytes.to_vec());
            Ok(())
        }

        fn pop(&mut self, into: &mut Vec<u8>) -> Result<bool, BoxError> {
            let first = self.0.pop_front();
            let is_there = first.is_some();
            *into = first.unwrap_or_default();
            Ok(is_there)
        }
    }

    #[test]
    fn envelopes_of_every_type_come_back_as_they_were() {
        let floats: Column = vec![Some(-0.0f64), None, Some(f64::NAN)].into();
        let texts: Column = ["", "ä", "long ".repeat(9).as_str()].into_iter().collect();
        let lists = Column::of_lists(vec![0, 2, 2, 3], ["x", "y", "z"].into_iter().collect::<Column>().with_nulls([1]));
        let points = Column::of_parts([("x", vec![1.0, 2.0, 3.0].into()), ("l", lists.clone())]);
        let columns: Vec<Column> = vec![
            vec![true, false, true].into(),
            vec![i8::MIN, 0, 1].into(),
            vec![1i16, 2, 3].into(),
            vec![1i32, 2, -3].into(),
            vec![i64::MIN, 2, 3].into(),
            vec![1u8, 2, 255].into(),
            vec![1u16, 2, 3].into(),
            vec![1u32, 2, 3].into(),
            vec![u64::MAX, 2, 3].into(),
            vec![1.5f32, f32::INFINITY, -2.0].into(),
            floats,
            texts.with_nulls([0, 2]),
            Column::of_binaries([&[0u8, 255][..], &[], &[7]]),
            Column::from(vec![-1i32, 0, 1]).of_type(Type::Date),
            Column::from(vec![1i64, 2, 3]).of_type(Type::Timestamp(TimeUnit::Nano, Some("UTC".into()))),
            Column::of_decimals(38, 3, vec![i128::MIN, 0, i128::MAX]),
            Column::of_fixed(3, b"abcdefghi".to_vec()),
            lists.with_nulls([2]),
            points.with_nulls([0]),
            ["b", "a", "b"].into_iter().collect::<Column>().stored(Storage::Dictionary).unwrap(),
            ["a value longer than a view", "", "c"].into_iter().collect::<Column>().stored(Storage::Views).unwrap(),
        ];
        let whole = Envelope::new(columns).at_home(Some(NodeId::new(3)));
        let mut outside = Outside::new(Box::new(Short(VecDeque::new(), 4)));
        let envelopes = [
            whole.slice(1..3),
            Envelope::of_rows(Vec::new(), 7),
            Envelope::new([Column::from(Vec::<u64>::new())]),
            whole,
            // For these there is no room.
            Envelope::new([vec![1u64].into()]),
            Envelope::pill(),
        ];
        for (place, envelope) in envelopes.iter().enumerate() {
            assert_eq!(outside.push(envelope.clone()) > 0, place < 4);
            assert_eq!((outside.is_refused(), outside.full().is_some()), (place >= 4, place >= 4));
        }
        for envelope in &envelopes {
            let back = outside.pop().unwrap().expect("it was put");
            assert_eq!(format!("{:?}", back.columns()), format!("{:?}", envelope.columns()));
            let told = |envelope: &Envelope| (envelope.rows(), envelope.is_pill(), envelope.home());
            assert_eq!(told(&back), told(envelope));
            let kinds = |envelope: &Envelope| envelope.columns().iter().map(Column::kind).collect::<Vec<_>>();
            assert_eq!(kinds(&back), kinds(envelope));
        }
        assert!(outside.is_empty() && outside.pop().unwrap().is_none());
    }

    #[test]
    fn attached_values_that_can_be_written_come_back() {
        let mut outside = Outside::new(Box::new(Short(VecDeque::new(), 8)));
        let write = |text: &String, into: &mut Vec<u8>| into.extend_from_slice(text.as_bytes());
        let read = |bytes: &[u8]| Ok(String::from_utf8(bytes.to_vec())?);
        let texts = ["first", "", "third"].map(|text| Attachment::written(Arc::new(text.to_owned()), 7, write, read));
        let envelope = Envelope::new([vec![1u64].into()]).with(&texts);
        assert!(outside.push(envelope.clone()) > 0 && outside.push(envelope.clone()) > 0);
        drop((envelope, texts));
        for _ in 0..2 {
            let back = outside.pop().unwrap().expect("it was put");
            let told = back.attached().iter().map(|one| (one.value::<String>().unwrap().as_str(), one.bytes()));
            assert_eq!(told.collect::<Vec<_>>(), [("first", 7), ("", 7), ("third", 7)]);
            assert!(back.attached().iter().all(Attachment::can_be_written));
        }
        let fails = |_: &[u8]| Err("nobody can read this".into());
        let envelope = Envelope::pill().with(&[Attachment::written(Arc::new(String::new()), 0, write, fails)]);
        assert!(outside.push(envelope) > 0);
        assert_eq!(outside.pop().unwrap_err().to_string(), "nobody can read this");
    }

    #[test]
    fn envelopes_with_other_attached_values_and_those_behind_them_stay_in_memory() {
        let mut outside = Outside::new(Box::new(Short(VecDeque::new(), 4)));
        let plain = Envelope::new([vec![1u64].into()]);
        let with = plain.clone().with(&[crate::Attachment::new(std::sync::Arc::new(7), 4)]);
        let written = [&plain, &with, &plain].map(|envelope| outside.push(envelope.clone()) > 0);
        assert_eq!((written, outside.full()), ([true, false, false], None));
        let back = [(); 3].map(|()| outside.pop().unwrap().expect("it was put").attached().len());
        assert_eq!(back, [0, 1, 0]);
    }
}
