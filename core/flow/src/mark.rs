//! Marks: envelopes without rows that tell how far a stream without end has come.
//!
//! A *watermark* says that rows of earlier times are not expected any more: windows that end by then can be closed. A
//! stream is *idle* while its source has nothing: boxes with several inputs do not wait for its watermark. A mark is an
//! envelope with the columns of its via and without rows, to which a [`Mark`] is attached. A box that knows nothing of
//! marks takes an empty table and sends none; the boxes behind it then close their windows at the pill, which comes
//! after all times.

use crate::{Attachment, Envelope, EnvelopeBuilder, Schema, Turn, give_up};
use std::sync::Arc;

/// How far a stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// No row before this time is expected, which is a number.
    Watermark(i128),
    /// No row before this moment is expected, in nanoseconds since 1970: a watermark of dates and timestamps.
    Moment(i128),
    /// The source has nothing for now. The next row or watermark ends this. Parts of one stream get the same mark, and
    /// when one of them goes on, the others do as well.
    Idle {
        /// The box that made it, by its index.
        source: u64,
        /// Its number among those of the box. Invariant: it rises.
        number: u64,
    },
    /// The stream is idle no more, and has neither rows nor a watermark to tell so: a box keeps its rows.
    Active,
}

/// Stands for the box that sends a mark.
const OWN: u64 = u64::MAX;

impl Mark {
    /// The idle mark with this number of the box that sends it.
    pub fn idle(number: u64) -> Mark {
        Mark::Idle { source: OWN, number }
    }

    /// The attachment of an envelope that is this mark.
    fn attachment(self) -> Attachment {
        let write = |mark: &Mark, into: &mut Vec<u8>| match mark {
            Mark::Watermark(at) => into.extend([0].into_iter().chain(at.to_ne_bytes())),
            Mark::Idle { source, number } => {
                into.extend([1].into_iter().chain(source.to_ne_bytes()).chain(number.to_ne_bytes()));
            }
            Mark::Active => into.extend([2; 17]),
            Mark::Moment(at) => into.extend([3].into_iter().chain(at.to_ne_bytes())),
        };
        let read = |bytes: &[u8]| {
            let (kind, number) = bytes.split_first().ok_or("a mark without bytes")?;
            let number = i128::from_ne_bytes(number.try_into()?);
            Ok(match kind {
                0 => Mark::Watermark(number),
                2 => Mark::Active,
                3 => Mark::Moment(number),
                _ => {
                    let [source, number] = [0, 8].map(|at| {
                        let bytes: [u8; 8] = number.to_ne_bytes()[at..at + 8].try_into().expect("eight bytes");
                        u64::from_ne_bytes(bytes)
                    });
                    Mark::Idle { source, number }
                }
            })
        };
        Attachment::written(Arc::new(self), size_of::<Mark>() as u64, write, read)
    }
}

impl Envelope {
    /// A mark among the envelopes of this schema.
    ///
    /// ```
    /// use vicus_flow::{Envelope, Mark, Schema, Type};
    ///
    /// let mark = Envelope::of_mark(&Schema::new([("time", Type::I64)]), Mark::Watermark(7));
    /// assert_eq!((mark.mark(), mark.rows(), mark.columns().len()), (Some(Mark::Watermark(7)), 0, 1));
    /// assert_eq!(Envelope::new([vec![7i64].into()]).mark(), None);
    /// ```
    pub fn of_mark(schema: &Schema, mark: Mark) -> Envelope {
        let columns = EnvelopeBuilder::new(schema).finish_from(Default::default());
        Envelope::of_rows(columns, 0).with(&[mark.attachment()])
    }

    /// The mark that it is, if it has no rows and is none of a table or a pill.
    #[inline]
    pub fn mark(&self) -> Option<Mark> {
        if self.rows() > 0 || self.is_pill() { None } else { self.attached_mark() }
    }

    #[cold]
    fn attached_mark(&self) -> Option<Mark> {
        self.attached().iter().find_map(|attached| attached.value::<Mark>()).copied()
    }
}

impl Turn<'_> {
    /// Sends a mark.
    pub fn send_mark(&mut self, output: usize, mark: Mark) {
        let mark = match mark {
            Mark::Idle { source: OWN, number } => Mark::Idle { source: self.cell.index as u64, number },
            mark => mark,
        };
        let envelope = Envelope::of_mark(self.schema(output), mark);
        self.send(output, envelope);
    }

    /// Sends the mark that an envelope is on every output that still takes envelopes. Whether it is one: then a box
    /// with one input has nothing else to do with it.
    #[inline]
    pub fn pass_mark(&mut self, envelope: &Envelope) -> bool {
        let Some(mark) = envelope.mark() else { return false };
        for output in 0..self.outputs() {
            if !self.is_closed(output) {
                self.send_mark(output, mark);
            }
        }
        true
    }
}

/// The marks of several streams that become one: its watermark is the least of those that are neither idle nor over.
/// When all are idle, it is the least of theirs, since a stream's own next row keeps to its watermark.
///
/// ```
/// use vicus_flow::{Mark, Marks};
///
/// let mut marks = Marks::of(2);
/// let take = |marks: &mut Marks, input, mark| {
///     marks.take(input, mark);
///     std::iter::from_fn(|| marks.next()).collect::<Vec<_>>()
/// };
/// assert_eq!(take(&mut marks, 0, Mark::Watermark(5)), [], "the other stream may have rows of any time");
/// assert_eq!(take(&mut marks, 1, Mark::Watermark(3)), [Mark::Watermark(3)]);
/// assert_eq!(take(&mut marks, 1, Mark::idle(0)), [Mark::Watermark(5)]);
/// assert_eq!(take(&mut marks, 0, Mark::idle(0)), [Mark::idle(0)]);
/// assert_eq!(take(&mut marks, 1, Mark::Active), [Mark::Active]);
/// assert_eq!(take(&mut marks, 0, Mark::Watermark(9)), []);
/// marks.end(1);
/// assert_eq!((marks.next(), marks.next()), (Some(Mark::Watermark(9)), None));
/// ```
#[derive(Clone, Debug)]
pub struct Marks {
    inputs: Vec<Input>,
    /// The last watermark of the one stream. Invariant: it only rises.
    sent: Option<i128>,
    /// Whether watermarks are moments, if one has come.
    of_moments: Option<bool>,
    /// Whether the one stream is idle.
    is_idle: bool,
    /// How many idle marks were made here.
    idle_marks: u64,
}

#[derive(Clone, Copy, Debug)]
struct Input {
    watermark: Option<i128>,
    is_idle: bool,
    is_over: bool,
    /// The source and the number of the last idle mark.
    idle: Option<(u64, u64)>,
}

impl Marks {
    /// Marks of so many streams, from which nothing has come.
    pub fn of(inputs: usize) -> Marks {
        let input = Input { watermark: None, is_idle: false, is_over: false, idle: None };
        Marks { inputs: vec![input; inputs], sent: None, of_moments: None, is_idle: false, idle_marks: 0 }
    }

    /// A mark has come. Fails by [`give_up`] if one stream has moments and the other one numbers: neither is before the
    /// other.
    pub fn take(&mut self, input: usize, mark: Mark) {
        if let Mark::Watermark(_) | Mark::Moment(_) = mark {
            let is_moment = matches!(mark, Mark::Moment(_));
            if self.of_moments.replace(is_moment).is_some_and(|others| others != is_moment) {
                give_up(
                    "watermarks of two units meet: those of one stream are moments, of dates or timestamps, and those \
                     of the other one are numbers",
                );
            }
        }
        let one = &mut self.inputs[input];
        match mark {
            Mark::Watermark(at) | Mark::Moment(at) => {
                one.watermark = one.watermark.max(Some(at));
                one.is_idle = false;
            }
            Mark::Idle { source, number } => {
                one.is_idle = true;
                one.idle = Some((source, number));
            }
            Mark::Active => one.is_idle = false,
        }
    }

    /// Rows have come: the stream is not idle.
    #[inline]
    pub fn goes_on(&mut self, input: usize) {
        self.inputs[input].is_idle = false;
        self.is_idle = false;
    }

    /// A stream is over.
    pub fn end(&mut self, input: usize) {
        self.inputs[input].is_over = true;
    }

    /// Whether a stream's watermark counts.
    fn is_awaited(&self, input: &Input) -> bool {
        let Some((source, number)) = input.idle.filter(|_| input.is_idle) else { return !input.is_over };
        // A part of the same stream has gone on: this one will.
        let is_ahead = |other: &Input| {
            let has_left = |at: u64| at > number || (at == number && !other.is_idle);
            other.idle.is_some_and(|(of, at)| of == source && has_left(at))
        };
        !input.is_over && self.inputs.iter().any(is_ahead)
    }

    /// The next mark of the one stream, until it has told all: to be asked behind [`Marks::take`] and [`Marks::end`].
    #[expect(clippy::should_implement_trait, reason = "it goes on after none")]
    pub fn next(&mut self) -> Option<Mark> {
        // The end of all is a pill, and no mark.
        let open = || self.inputs.iter().filter(|input| !input.is_over);
        open().next()?;
        let awaited = || self.inputs.iter().filter(|input| self.is_awaited(input));
        let is_idle = awaited().next().is_none();
        let least = if is_idle {
            open().map(|input| input.watermark).min()
        } else {
            awaited().map(|input| input.watermark).min()
        };
        if let Some(least) = least.flatten().filter(|least| self.sent.is_none_or(|sent| *least > sent)) {
            (self.sent, self.is_idle) = (Some(least), false);
            let of_moments = self.of_moments == Some(true);
            return Some(if of_moments { Mark::Moment(least) } else { Mark::Watermark(least) });
        }
        if is_idle == self.is_idle {
            return None;
        }
        self.is_idle = is_idle;
        if !is_idle {
            return Some(Mark::Active);
        }
        let mut idle = self.inputs.iter().filter(|input| !input.is_over).map(|input| input.idle);
        let first = idle.next().flatten();
        if let Some((source, number)) = first.filter(|_| idle.all(|other| other == first)) {
            return Some(Mark::Idle { source, number });
        }
        self.idle_marks += 1;
        Some(Mark::idle(self.idle_marks))
    }
}
