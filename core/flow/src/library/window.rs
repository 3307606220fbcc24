//! Groups of a stream without end: by windows of time, of rows, or between pauses.

mod keys;
mod panes;
mod sessions;

use super::fold::Folded;
use super::key::write_key;
use super::spill::rows_of;
use super::{Grouping, HashKey};
use crate::{BoxError, BoxModel, Column, Envelope, EnvelopeBuilder, Field, Grow, Mark, Native};
use crate::{Operator, Schema, TimeUnit, Turn, Type};
use keys::Keys;
use panes::Panes;
use sessions::Sessions;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Into how many panes a window may be divided: the greatest common divisor of width and slide is the width of a pane.
const MOST_PANES: i128 = 1000;

/// The windows of a stream, and the folds over the rows of each group in each window.
///
/// A window of time is `window_start <= time < window_end`. With a slide it begins anew at each multiple of the slide,
/// and a row is in several. Windows of rows count the rows of each group alone. A session ends where a group has no row
/// for a time.
///
/// ```
/// use vicus_flow::library::{Grouping, Windowing};
/// use vicus_flow::{Schema, TimeUnit, Type};
///
/// let clicks = Schema::new([("at", Type::Timestamp(TimeUnit::Second, None)), ("page", Type::Text)]);
/// let by_page = Grouping::by(&clicks, [1]).count("clicks");
/// let minutes = Windowing::of_time(by_page, 0, 60, 60)?;
/// let columns = "(page: Text, window_start: Timestamp(s), window_end: Timestamp(s), clicks: U64)";
/// assert_eq!(minutes.schema().to_string(), columns);
/// # Ok::<(), vicus_flow::library::WindowError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Windowing {
    grouping: Grouping,
    extent: Extent,
}

#[derive(Clone, Copy, Debug)]
enum Extent {
    Rows { size: i128, slide: i128 },
    Time { column: usize, width: i128, slide: i128 },
    Sessions { column: usize, gap: i128 },
}

/// Why windows can't be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowError {
    /// The width of a window, its number of rows, or the gap between sessions is less than 1.
    Width,
    /// The slide is less than 1 or more than the width, so that rows would be in no window.
    Slide,
    /// Width and slide have no great common divisor.
    Panes,
    /// The times of partners can't differ by less than nothing.
    Distance,
    /// The times of two streams are of two types.
    Times {
        /// The type of the first one's.
        first: String,
        /// The type of the second one's.
        second: String,
    },
    /// There is no such column, or it is of a type without a time.
    Column {
        /// The column and its type.
        column: String,
    },
}

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WindowError::Width => f.write_str("a window has a width of at least 1"),
            WindowError::Slide => f.write_str("a window slides by at least 1 and by no more than its width"),
            WindowError::Panes => write!(
                f,
                "a window is divided into at most {MOST_PANES} panes: take a width and a slide with a greater common \
                 divisor"
            ),
            WindowError::Distance => f.write_str("times of partners differ by at least 0"),
            WindowError::Times { first, second } => {
                write!(f, "the times of both streams are of one type, and these are of {first} and {second}")
            }
            WindowError::Column { column } => {
                write!(f, "{column}: the time is a date, a timestamp or an integer of at most 64 bits with sign")
            }
        }
    }
}

impl std::error::Error for WindowError {}

impl Windowing {
    /// Windows of so many rows of a group, each `slide` rows after the one before. Windows at the end of the stream may
    /// have fewer. `window_start` and `window_end` count the group's rows.
    ///
    /// # Errors
    /// The size or the slide is none.
    pub fn of_rows(grouping: Grouping, size: u64, slide: u64) -> Result<Windowing, WindowError> {
        let (size, slide) = (size.into(), slide.into());
        check(size, slide)?;
        Ok(Windowing { grouping, extent: Extent::Rows { size, slide } })
    }

    /// Windows of time by a column, in its units: days for dates. They begin at multiples of `slide`.
    ///
    /// # Errors
    /// The width or the slide is none, or the column has no time.
    pub fn of_time(grouping: Grouping, column: usize, width: i64, slide: i64) -> Result<Windowing, WindowError> {
        let (width, slide) = (width.into(), slide.into());
        check(width, slide)?;
        time_of(&grouping.input, column)?;
        Ok(Windowing { grouping, extent: Extent::Time { column, width, slide } })
    }

    /// Sessions: rows of a group with less than `gap` units of time between them. `window_end` is a gap behind the last
    /// row.
    ///
    /// # Errors
    /// The gap is none, or the column has no time.
    pub fn sessions(grouping: Grouping, column: usize, gap: i64) -> Result<Windowing, WindowError> {
        check(gap.into(), gap.into())?;
        time_of(&grouping.input, column)?;
        Ok(Windowing { grouping, extent: Extent::Sessions { column, gap: gap.into() } })
    }

    /// The schema of the result: the keys' columns, `window_start` and `window_end` in the type of the time or as
    /// [`Type::I64`], and a column for each fold.
    pub fn schema(&self) -> Schema {
        let keys = self.grouping.keys.len();
        let (before, behind) = self.grouping.output.split_at(keys);
        let bound = |name: &str| Field::new(name, self.bound_kind());
        before.iter().cloned().chain(["window_start", "window_end"].map(bound)).chain(behind.iter().cloned()).collect()
    }

    fn bound_kind(&self) -> Type {
        match self.column().map(|column| &self.grouping.input.columns()[column].kind) {
            Some(kind @ (Type::Date | Type::Timestamp(..))) => kind.clone(),
            _ => Type::I64,
        }
    }

    /// Checks that a watermark tells of times such as those of the windows' column.
    ///
    /// # Errors
    /// It is a moment where the column has numbers, or a number where it has moments.
    fn check_unit(&self, watermark: Mark) -> Result<(), BoxError> {
        self.column().map_or(Ok(()), |column| check_unit(&self.grouping.input.columns()[column], watermark))
    }

    /// The column of the time.
    fn column(&self) -> Option<usize> {
        match self.extent {
            Extent::Rows { .. } => None,
            Extent::Time { column, .. } | Extent::Sessions { column, .. } => Some(column),
        }
    }
}

/// See [`Windowing::check_unit`].
pub(super) fn check_unit(column: &Field, watermark: Mark) -> Result<(), BoxError> {
    let is_moment = matches!(watermark, Mark::Moment(_));
    if is_of_moments(&column.kind) == is_moment {
        return Ok(());
    }
    let of = if is_moment { "a moment, of dates or timestamps" } else { "a number" };
    let (name, kind) = (&column.name, &column.kind);
    Err(format!("a watermark is {of}, and the time, column {name}, is of {kind}: make watermarks of that column")
        .into())
}

fn check(width: i128, slide: i128) -> Result<(), WindowError> {
    if width < 1 {
        return Err(WindowError::Width);
    }
    if slide < 1 || slide > width {
        return Err(WindowError::Slide);
    }
    if width / divisor(width, slide) > MOST_PANES { Err(WindowError::Panes) } else { Ok(()) }
}

/// The greatest common divisor.
fn divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// How many of a [`Mark`]'s units a unit of the column is.
pub(super) fn time_of(schema: &Schema, column: usize) -> Result<i128, WindowError> {
    let Some(field) = schema.columns().get(column) else {
        return Err(WindowError::Column { column: format!("column {column} of {schema}") });
    };
    match &field.kind {
        Type::Date => Ok(86_400_000_000_000),
        Type::Timestamp(unit, _) => Ok(ns_of(*unit)),
        Type::I8 | Type::I16 | Type::I32 | Type::I64 | Type::U8 | Type::U16 | Type::U32 => Ok(1),
        kind => Err(WindowError::Column { column: format!("column {} is of {kind}", field.name) }),
    }
}

/// Whether watermarks of such a column are moments.
fn is_of_moments(kind: &Type) -> bool {
    matches!(kind, Type::Date | Type::Timestamp(..))
}

fn ns_of(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Milli => 1_000_000,
        TimeUnit::Micro => 1000,
        TimeUnit::Nano => 1,
    }
}

/// A row's time, in the column's units.
pub(super) fn time_at(column: &Column, row: usize) -> Option<i128> {
    if column.is_null(row) {
        return None;
    }
    let rank = column.rank(row);
    Some(match column.kind() {
        Type::U8 | Type::U16 | Type::U32 => rank.into(),
        _ => i64::of_rank(rank).into(),
    })
}

/// Sends watermarks: behind each envelope of rows, that rows before the greatest time so far less `delay` are not
/// expected any more, if this is at least `every` units of the column later than the last one. Other watermarks are
/// dropped; idle marks are passed on.
///
/// ```
/// use std::sync::mpsc;
/// use vicus_flow::library;
/// use vicus_flow::{BoxError, BoxModel, Envelope, Mark, ModelBuilder, Schema, Turn, Type, sequential};
///
/// let schema = Schema::new([("at", Type::I64)]);
/// let mut net = ModelBuilder::new("three times");
/// let rows = || [7i64, 5, 12].map(|at| Envelope::new([vec![at].into()]));
/// let times = net.source(library::source("times", &schema, rows));
/// let marked = net.add(library::watermarks(&schema, 0, 2, 1)?);
/// let (send, receive) = mpsc::channel();
/// let keep = move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
///     match turn.take(0) {
///         Some(envelope) if envelope.is_pill() => turn.send_pill(0),
///         Some(envelope) => send.send(envelope.mark())?,
///         None => {}
///     }
///     Ok(())
/// };
/// let nothing = Schema::new::<&str>([]);
/// let end = net.add(BoxModel::new("keep", move || keep.clone()).input(&schema).output(&nothing));
/// net.connect(times.output(0), marked.input(0));
/// net.connect(marked.output(0), end.input(0));
/// net.end(end.output(0));
/// sequential::run(&net.build()?, Vec::new(), |_| 0)?;
/// let marks: Vec<Mark> = receive.try_iter().flatten().collect();
/// assert_eq!(marks, [Mark::Watermark(5), Mark::Watermark(10)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The column has no time, the delay is negative, or there is no distance between watermarks.
pub fn watermarks(schema: &Schema, column: usize, delay: i64, every: i64) -> Result<BoxModel, WindowError> {
    let scale = time_of(schema, column)?;
    let is_moment = is_of_moments(&schema.columns()[column].kind);
    if delay < 0 || every < 1 {
        return Err(WindowError::Width);
    }
    let operator = move || {
        let mut last: Option<i128> = None;
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            let Some(envelope) = turn.take(0) else { return Ok(()) };
            if envelope.is_pill() {
                turn.send_pill(0);
                return Ok(());
            }
            match envelope.mark() {
                Some(Mark::Watermark(_) | Mark::Moment(_)) => return Ok(()),
                Some(pause @ (Mark::Idle { .. } | Mark::Active)) => turn.send_mark(0, pause),
                None => {
                    let times = envelope.column(column);
                    let latest = (0..envelope.rows()).filter_map(|row| time_at(times, row)).max();
                    turn.send(0, envelope);
                    let next = latest.map(|latest| latest - i128::from(delay));
                    if let Some(next) = next.filter(|next| last.is_none_or(|last| *next >= last + i128::from(every))) {
                        last = Some(next);
                        let at = next * scale;
                        turn.send_mark(0, if is_moment { Mark::Moment(at) } else { Mark::Watermark(at) });
                    }
                }
            }
            Ok(())
        }
    };
    Ok(BoxModel::new("watermarks", operator).input(schema).output(schema))
}

/// Folds the rows of each group in each window, and sends a window when the watermark has reached its end
/// ([`watermarks`]), or the stream has: in the order of their ends, in envelopes of at most `envelope_rows` rows. A row
/// all of whose windows have been sent is late: it is sent on output 1, as are rows without a time, so the counts of
/// that output say how many there were. Windows of rows are sent when they are full, and have no late rows. The box
/// holds the open windows, counted against the request's budget, and for windows of rows a number for each group.
///
/// A watermark is passed on behind the windows that it closes, as one of `window_end`.
///
/// ```
/// use std::sync::mpsc;
/// use vicus_flow::library::{self, Grouping, HashKey, Windowing};
/// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, sequential};
///
/// let schema = Schema::new([("at", Type::I64), ("n", Type::I64)]);
/// let tens = Windowing::of_time(Grouping::by(&schema, []).sum("sum", 1), 0, 10, 10)?;
/// let mut net = ModelBuilder::new("sums");
/// let rows = || [[1i64, 5], [12, 7], [3, 100]].map(|[at, n]| Envelope::new([vec![at].into(), vec![n].into()]));
/// let source = net.source(library::source("rows", &schema, rows));
/// let marked = net.add(library::watermarks(&schema, 0, 0, 1)?);
/// let window = net.add(library::window(&tens, HashKey::default(), 100));
/// let (send, receive) = mpsc::channel();
/// let sums = move |sums: Envelope| Ok(send.send(sums.column(2).i64s().to_vec())?);
/// let sums = net.add(library::sink("sums", &tens.schema(), sums));
/// let (send, late) = mpsc::channel();
/// let later = net.add(library::sink("late", &schema, move |rows| Ok(send.send(rows.column(1).i64s().to_vec())?)));
/// net.connect(source.output(0), marked.input(0));
/// net.connect(marked.output(0), window.input(0));
/// net.connect(window.output(0), sums.input(0));
/// net.connect(window.output(1), later.input(0));
/// net.end(sums.output(0));
/// net.end(later.output(0));
/// sequential::run(&net.build()?, Vec::new(), |_| 0)?;
/// assert_eq!(receive.try_iter().collect::<Vec<_>>(), [[5], [7]]);
/// assert_eq!(late.try_iter().collect::<Vec<_>>(), [[100]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn window(windowing: &Windowing, by: HashKey, envelope_rows: usize) -> BoxModel {
    let (input, output) = (windowing.grouping.input.clone(), windowing.schema());
    let (windowing, schema) = (Arc::new(windowing.clone()), output.clone());
    let factory = move || {
        let grouping = &windowing.grouping;
        let folded = grouping.folds.iter().map(|fold| Folded::new(*fold, &grouping.input)).collect();
        let windows = match windowing.extent {
            Extent::Rows { size, slide } => Windows::Panes(Panes::new(size, slide, true)),
            Extent::Time { width, slide, .. } => Windows::Panes(Panes::new(width, slide, false)),
            Extent::Sessions { gap, .. } => Windows::Sessions(Sessions::new(gap)),
        };
        Window {
            scale: windowing.column().and_then(|column| time_of(&grouping.input, column).ok()).unwrap_or(1),
            windowing: Arc::clone(&windowing),
            keys: Keys::new(by),
            slots: Slots { folded, free: Vec::new(), count: 0 },
            windows,
            now: None,
            until: None,
            mark: None,
            is_idle: false,
            due: VecDeque::new(),
            builder: EnvelopeBuilder::new(&schema),
            output: schema.clone(),
            limit: envelope_rows.max(1),
            groups: Vec::new(),
        }
    };
    BoxModel::new("window", factory).input(&input).output(&output).output(&input)
}

struct Window {
    windowing: Arc<Windowing>,
    /// How many of a mark's units a unit of the time is.
    scale: i128,
    keys: Keys,
    slots: Slots,
    windows: Windows,
    /// The watermark, in units of the time.
    now: Option<i128>,
    /// Windows up to this end are being sent; [`i128::MAX`] at the end of the stream.
    until: Option<i128>,
    /// The mark that follows them.
    mark: Option<Mark>,
    /// Whether boxes behind know the stream as idle.
    is_idle: bool,
    /// The closed windows that are still to be sent.
    due: VecDeque<Closed>,
    output: Schema,
    builder: EnvelopeBuilder,
    limit: usize,
    /// For each row of an envelope, its slot.
    groups: Vec<u32>,
}

enum Windows {
    Panes(Panes),
    Sessions(Sessions),
}

/// A window of a group that is to be sent.
struct Closed {
    start: i128,
    end: i128,
    key: u32,
    slot: u32,
}

/// Folds in numbered places that are used again.
struct Slots {
    folded: Vec<Folded>,
    free: Vec<u32>,
    count: u32,
}

impl Slots {
    /// An empty place.
    fn begin(&mut self) -> Result<u32, BoxError> {
        if let Some(slot) = self.free.pop() {
            return Ok(slot);
        }
        let slot = self.count;
        self.count = slot.checked_add(1).filter(|count| *count < u32::MAX).ok_or("more than 2^32 windows are open")?;
        self.folded.iter_mut().try_for_each(|folded| folded.make_room(self.count as usize))?;
        Ok(slot)
    }

    fn end(&mut self, slot: u32) -> Result<(), BoxError> {
        self.folded.iter_mut().for_each(|folded| folded.clear(slot as usize));
        self.free.grow(1)?;
        self.free.push(slot);
        Ok(())
    }

    /// Folds all of a place into another one.
    fn merge(&mut self, into: u32, from: u32) -> Result<(), BoxError> {
        self.folded.iter_mut().try_for_each(|folded| folded.merge(into as usize, from as usize))
    }

    fn bytes(&self) -> u64 {
        4 * self.free.capacity() as u64 + self.folded.iter().map(Folded::bytes).sum::<u64>()
    }
}

impl Window {
    /// Folds an envelope's rows into their windows. Late ones are sent on.
    fn accept(&mut self, envelope: Envelope, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let column = self.windowing.column();
        let mut late: Vec<u32> = Vec::new();
        let mut on_time: Vec<u32> = Vec::new();
        let mut touched: Vec<u32> = Vec::new();
        let mut key = Vec::new();
        self.groups.clear();
        self.groups.grow(envelope.rows())?;
        for row in 0..envelope.rows() {
            let time = match column {
                Some(column) => time_at(envelope.column(column), row),
                None => Some(0),
            };
            let is_late = |time: i128| match (&self.windows, column) {
                (Windows::Panes(panes), Some(_)) => self.now.is_some_and(|now| panes.last_end(time) <= now),
                // A session asks for its key first.
                _ => false,
            };
            let Some(time) = time.filter(|time| !is_late(*time)) else {
                late.push(row as u32);
                continue;
            };
            key.clear();
            let keys = &self.windowing.grouping.keys;
            keys.iter().try_for_each(|&column| write_key(&mut key, envelope.column(column), row))?;
            let number = self.keys.number(&key)?;
            let slot = match &mut self.windows {
                Windows::Panes(panes) => {
                    let time = match column {
                        Some(_) => time,
                        None => {
                            let (row, is_first) = self.keys.next_row(number);
                            touched.extend(is_first.then_some(number));
                            row
                        }
                    };
                    Some(panes.slot(time, number, &mut self.keys, &mut self.slots)?)
                }
                Windows::Sessions(sessions) => {
                    sessions.slot(time, number, self.now, &mut self.keys, &mut self.slots)?
                }
            };
            match slot {
                Some(slot) => {
                    self.groups.push(slot);
                    on_time.push(row as u32);
                }
                None => {
                    self.keys.release_if_unused(number);
                    late.push(row as u32);
                }
            }
        }
        if let Windows::Sessions(sessions) = &mut self.windows {
            sessions.settle(&mut self.groups, &mut self.slots)?;
        }
        if late.is_empty() {
            self.fold(&envelope)?;
        } else {
            let input = &self.windowing.grouping.input;
            let rows = rows_of(&envelope, &on_time, input, turn);
            if !turn.is_closed(1) {
                turn.send(1, rows_of(&envelope, &late, input, turn).with(envelope.attached()));
            }
            self.fold(&rows)?;
        }
        let held = self.bytes();
        let room = |more: u64| Ok(turn.book(held + more)?);
        if let (Windows::Panes(panes), None) = (&mut self.windows, column) {
            for number in touched {
                let rows = self.keys.untouch(number);
                while let Some(closed) = panes.close(rows, Some(number), &mut self.keys, &mut self.slots, &room)? {
                    self.due.extend(closed);
                }
            }
        }
        Ok(())
    }

    fn fold(&mut self, envelope: &Envelope) -> Result<(), BoxError> {
        let count = self.slots.count as usize;
        self.slots.folded.iter_mut().try_for_each(|folded| folded.take(envelope, &self.groups, count))
    }

    /// The next closed windows are due, if any is closed.
    fn close(&mut self, until: i128, turn: &Turn<'_>) -> Result<bool, BoxError> {
        let held = self.bytes();
        let room = |more: u64| Ok(turn.book(held + more)?);
        let closed = match &mut self.windows {
            Windows::Panes(panes) if self.windowing.column().is_some() => {
                panes.close(until, None, &mut self.keys, &mut self.slots, &room)?
            }
            // Windows of rows close with their last row, or at the end.
            Windows::Panes(panes) if until == i128::MAX => panes.close_rest(&mut self.keys, &mut self.slots, &room)?,
            Windows::Panes(_) => None,
            Windows::Sessions(sessions) => sessions.close(until),
        };
        let is_closed = closed.is_some();
        self.due.extend(closed.into_iter().flatten());
        Ok(is_closed)
    }

    /// Sends an envelope of closed windows. Whether there may be more.
    fn send(&mut self, turn: &mut Turn<'_>) -> Result<bool, BoxError> {
        while self.due.len() < self.limit {
            let Some(until) = self.until else { break };
            if !self.close(until, turn)? {
                break;
            }
        }
        let rows = self.due.len().min(self.limit);
        if rows == 0 {
            return Ok(false);
        }
        self.builder.reserve(turn, rows);
        let keys = self.windowing.grouping.keys.len();
        let output = &self.output;
        let width = self.windowing.bound_kind().form().width();
        for Closed { start, end, key, slot } in self.due.drain(..rows) {
            let mut at = 0;
            for (column, field) in output.columns()[..keys].iter().enumerate() {
                at += self.builder.push_key(turn.blocks, column, &field.kind, &self.keys.bytes_of(key)[at..]);
            }
            for (place, bound) in [start, end].into_iter().enumerate() {
                // A bound beyond its type's range is the range's end.
                let (of_four, of_eight) = ((i32::MIN.into(), i32::MAX.into()), (i64::MIN.into(), i64::MAX.into()));
                match width {
                    4 => self.builder.push_raw(keys + place, &(bound.clamp(of_four.0, of_four.1) as i32).to_ne_bytes()),
                    _ => {
                        let bound = bound.clamp(of_eight.0, of_eight.1) as i64;
                        self.builder.push_raw(keys + place, &bound.to_ne_bytes());
                    }
                }
            }
            for (place, folded) in self.slots.folded.iter().enumerate() {
                let column = keys + 2 + place;
                let kind = &output.columns()[column].kind;
                folded.write(slot as usize, &mut self.builder, turn.blocks, column, kind);
            }
            self.keys.release(key);
            self.slots.end(slot)?;
        }
        turn.send(0, Envelope::of_rows(self.builder.finish_columns(turn), rows));
        turn.book(self.bytes())?;
        Ok(true)
    }

    fn bytes(&self) -> u64 {
        let windows = match &self.windows {
            Windows::Panes(panes) => panes.bytes(),
            Windows::Sessions(sessions) => sessions.bytes(),
        };
        self.slots.bytes() + self.keys.bytes() + windows + (self.due.capacity() * size_of::<Closed>()) as u64
    }
}

impl Operator for Window {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let mut has_taken = false;
        if self.until.is_none() && self.due.is_empty() {
            let Some(envelope) = turn.take(0) else { return Ok(()) };
            has_taken = true;
            match envelope.mark() {
                _ if envelope.is_pill() => self.until = Some(i128::MAX),
                None => {
                    self.accept(envelope, turn)?;
                    turn.book(self.bytes())?;
                    // The rows stay here: boxes behind would go on without them.
                    if std::mem::take(&mut self.is_idle) {
                        self.mark = Some(Mark::Active);
                    }
                }
                Some(pause @ (Mark::Idle { .. } | Mark::Active)) => {
                    self.is_idle = pause != Mark::Active;
                    self.mark = Some(pause);
                }
                Some(watermark @ (Mark::Watermark(at) | Mark::Moment(at))) => {
                    self.windowing.check_unit(watermark)?;
                    // No watermark is the end.
                    let now = at.div_euclid(self.scale).min(i128::MAX - 1);
                    self.is_idle = false;
                    if self.now.is_none_or(|before| now > before) {
                        (self.now, self.until) = (Some(now), Some(now));
                        self.mark = Some(watermark);
                    }
                }
            }
        }
        if self.send(turn)? {
            turn.run_again();
            return Ok(());
        }
        if let Some(mark) = self.mark.take() {
            for output in 0..turn.outputs() {
                if !turn.is_closed(output) {
                    turn.send_mark(output, mark);
                }
            }
        }
        if self.until.take() == Some(i128::MAX) {
            turn.send_pills();
        } else if !has_taken {
            // Something may have come meanwhile.
            turn.run_again();
        }
        Ok(())
    }
}
