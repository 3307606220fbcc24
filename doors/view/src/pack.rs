//! Events as packed columns, a chunk of a seat's log at a time, and back.
//!
//! ```text
//! a chunk, before DEFLATE:
//!     number of events                      varint
//!     length of each column in bytes        varint each
//!     the columns, one after the other:
//!         kinds       a byte each
//!         times       since the event before, zigzag
//!         orders      since the event before, less 1, zigzag
//!         jobs        0: the one before; 1: the next of the chunk's jobs; 2 + n: the one n before the newest
//!         new jobs    request and index, since the job before, zigzag; key
//!         details     a byte each
//!         ports       varints
//!         values      varints; see `Values`
//!         cause seats 0: not known; 1 + seat
//!         causes      index in that seat's log, since the last cause there, zigzag
//! ```
//! A column has entries of the events whose kinds use it. Differences wrap, so that impossible numbers survive as well.

use crate::keys::Keys;
use rustc_hash::FxHashMap;
use std::io::{self, Read, Write};
use vicus_trace::{Event, EventKind, JobId, What};

/// The events of a chunk, at most: what the viewer unpacks to show a moment.
pub(crate) const CHUNK: usize = 32_768;
const COLUMNS: usize = 10;
/// A chunk that says it has more is damaged.
const MOST_BYTES: u64 = 64 << 20;

/// The event that an event waited for: a seat, and the place in its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) seat: u32,
    pub(crate) index: u64,
}

/// Whether events of this kind have a cause.
pub(crate) fn has_cause(kind: EventKind) -> bool {
    matches!(kind, EventKind::Taken | EventKind::EnvelopeReceived | EventKind::Resumed)
}

pub(crate) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn zigzag(difference: i64) -> u64 {
    (difference << 1 ^ difference >> 63) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

fn put_between(out: &mut Vec<u8>, before: u64, now: u64) {
    put(out, zigzag(now.wrapping_sub(before) as i64));
}

/// Numbers from packed bytes.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn next(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(number);
            }
            shift += 7;
        }
    }

    fn after(&mut self, before: u64) -> Option<u64> {
        Some(before.wrapping_add(unzigzag(self.next()?) as u64))
    }
}

/// The columns that events of a kind use, besides kind, time and order.
struct Used {
    job: bool,
    detail: bool,
    port: bool,
    value: bool,
}

/// The columns that a kind uses. The viewer has the same table.
fn uses(kind: EventKind) -> Used {
    use EventKind::*;
    Used {
        job: !matches!(kind, SleepBegins | SleepEnds | Woke | RequestSubmitted | RequestEnded | LentBegins | LentEnds),
        detail: matches!(
            kind,
            Enqueued | Taken | EnvelopeReceived | EnvelopeSent | RequestEnded | Follows | Uses | WaitBegins | Dealt
        ),
        port: matches!(
            kind,
            Taken
                | EnvelopeReceived
                | EnvelopeLeft
                | EnvelopeKept
                | EnvelopeCreated
                | EnvelopeSent
                | Refused
                | Resumed
                | Overdrawn
                | BytesRead
                | Footprint
                | Follows
                | Uses
                | UsesBytes
                | Dealt
        ),
        value: matches!(
            kind,
            Enqueued
                | Spawned
                | EnvelopeReceived
                | EnvelopeCreated
                | EnvelopeSent
                | Overdrawn
                | BytesRead
                | Footprint
                | Held
                | Named
                | Follows
                | Uses
                | UsesBytes
                | Dealt
                | Woke
                | LentBegins
                | RequestSubmitted
                | RequestEnded
        ),
    }
}

/// How the values of events are written: makers and addresses as differences, all others as they are.
#[derive(Default)]
struct Values {
    address: u32,
}

impl Values {
    fn put(&mut self, out: &mut Vec<u8>, kind: EventKind, index: u32, value: u32) {
        let between = |before: u32| zigzag(i64::from(value.wrapping_sub(before) as i32));
        match kind {
            EventKind::Enqueued | EventKind::Spawned if value == JobId::NONE => put(out, 0),
            EventKind::Enqueued | EventKind::Spawned => put(out, 1 + between(index)),
            EventKind::Follows | EventKind::Uses => {
                put(out, between(self.address));
                self.address = value;
            }
            _ => put(out, value.into()),
        }
    }

    fn next(&mut self, from: &mut Numbers<'_>, kind: EventKind, index: u32) -> Option<u32> {
        let number = from.next()?;
        Some(match kind {
            EventKind::Enqueued | EventKind::Spawned => match number.checked_sub(1) {
                None => JobId::NONE,
                Some(number) => index.wrapping_add(unzigzag(number) as u32),
            },
            EventKind::Follows | EventKind::Uses => {
                self.address = self.address.wrapping_add(unzigzag(number) as u32);
                self.address
            }
            _ => u32::try_from(number).ok()?,
        })
    }
}

/// The fields of an event in a trace file.
struct Fields {
    kind: u8,
    detail: u8,
    port: u16,
    request: u32,
    index: u32,
    value: u32,
}

impl Fields {
    fn of(event: &Event) -> Fields {
        let b = event.to_bytes();
        let number = |at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let port = u16::from_le_bytes([b[18], b[19]]);
        Fields { kind: b[16], detail: b[17], port, request: number(20), index: number(24), value: number(28) }
    }

    fn event(&self, time_ns: u64, order: u64) -> Option<Event> {
        let mut b = [0; Event::BYTES];
        b[..8].copy_from_slice(&time_ns.to_le_bytes());
        b[8..16].copy_from_slice(&order.to_le_bytes());
        (b[16], b[17]) = (self.kind, self.detail);
        b[18..20].copy_from_slice(&self.port.to_le_bytes());
        b[20..24].copy_from_slice(&self.request.to_le_bytes());
        b[24..28].copy_from_slice(&self.index.to_le_bytes());
        b[28..].copy_from_slice(&self.value.to_le_bytes());
        Event::from_bytes(&b)
    }
}

/// The time and the order that those of a chunk's first event count from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base {
    pub(crate) time: u64,
    pub(crate) order: u64,
}

/// Packs a chunk. `causes` has an entry for each event whose kind has one.
pub(crate) fn pack(
    events: &[Event],
    mut causes: impl Iterator<Item = Option<Cause>>,
    base: Base,
    keys: &Keys,
) -> Vec<u8> {
    let mut columns: [Vec<u8>; COLUMNS] = Default::default();
    let [kinds, times, orders, jobs, new_jobs, details, ports, values, seats, places] = &mut columns;
    let mut known: FxHashMap<JobId, u64> = FxHashMap::default();
    let Base { mut time, mut order } = base;
    let (mut job, mut newest) = (None, JobId { request: 0, index: 0 });
    let mut written = Values::default();
    let mut last_causes: FxHashMap<u32, u64> = FxHashMap::default();
    for event in events {
        let kind = event.what.kind();
        let fields = Fields::of(event);
        kinds.push(fields.kind);
        put_between(times, time, event.time_ns);
        put_between(orders, order.wrapping_add(1), event.order);
        (time, order) = (event.time_ns, event.order);
        let uses = uses(kind);
        if uses.job {
            let who = JobId { request: fields.request, index: fields.index };
            if job == Some(who) {
                jobs.push(0);
            } else if let Some(number) = known.get(&who) {
                put(jobs, 1 + known.len() as u64 - number);
            } else {
                jobs.push(1);
                put_between(new_jobs, newest.request.into(), who.request.into());
                put_between(new_jobs, newest.index.into(), who.index.into());
                put(new_jobs, keys.of(who).into());
                known.insert(who, known.len() as u64);
                newest = who;
            }
            job = Some(who);
        }
        if uses.detail {
            details.push(fields.detail);
        }
        if uses.port {
            put(ports, fields.port.into());
        }
        if uses.value {
            let value = match event.what {
                What::RequestSubmitted { request } | What::RequestEnded { request, .. } => request,
                _ => fields.value,
            };
            written.put(values, kind, fields.index, value);
        }
        if has_cause(kind) {
            match causes.next().flatten() {
                None => seats.push(0),
                Some(cause) => {
                    put(seats, 1 + u64::from(cause.seat));
                    let last = last_causes.entry(cause.seat).or_default();
                    put_between(places, *last, cause.index);
                    *last = cause.index;
                }
            }
        }
    }
    let mut plain = Vec::new();
    put(&mut plain, events.len() as u64);
    columns.iter().for_each(|column| put(&mut plain, column.len() as u64));
    columns.iter().for_each(|column| plain.extend_from_slice(column));
    deflate(&plain)
}

/// The inverse of [`pack`] without causes; `None` for bytes that it has not written.
pub(crate) fn unpack(bytes: &[u8], base: Base) -> Option<Vec<Event>> {
    let plain = inflate(bytes).ok()?;
    let mut head = Numbers(&plain);
    let count = head.next()?;
    let mut lengths = [0; COLUMNS];
    for length in &mut lengths {
        *length = usize::try_from(head.next()?).ok()?;
    }
    let mut rest = head.0;
    let mut columns = [(); COLUMNS].map(|()| Numbers(&[]));
    for (column, length) in columns.iter_mut().zip(lengths) {
        let (bytes, others) = rest.split_at_checked(length)?;
        (*column, rest) = (Numbers(bytes), others);
    }
    let [kinds, times, orders, jobs, new_jobs, details, ports, values, ..] = &mut columns;
    let Base { mut time, mut order } = base;
    let mut known: Vec<JobId> = Vec::new();
    let mut job = JobId { request: 0, index: 0 };
    let mut written = Values::default();
    let mut events = Vec::new();
    for _ in 0..count {
        let number = kinds.byte()?;
        let kind = *EventKind::ALL.get(usize::from(number))?;
        time = times.after(time)?;
        order = orders.after(order.wrapping_add(1))?;
        let uses = uses(kind);
        if uses.job {
            match jobs.next()? {
                0 => {}
                1 => {
                    let newest = known.last().copied().unwrap_or(JobId { request: 0, index: 0 });
                    job = JobId {
                        request: new_jobs.after(newest.request.into())? as u32,
                        index: new_jobs.after(newest.index.into())? as u32,
                    };
                    new_jobs.next()?;
                    known.push(job);
                }
                more => job = *known.get(known.len().checked_sub(usize::try_from(more - 1).ok()?)?)?,
            }
        }
        let mut fields = Fields { kind: number, detail: 0, port: 0, request: 0, index: 0, value: 0 };
        if uses.job {
            (fields.request, fields.index) = (job.request, job.index);
        }
        if uses.detail {
            fields.detail = details.byte()?;
        }
        if uses.port {
            fields.port = u16::try_from(ports.next()?).ok()?;
        }
        if uses.value {
            let value = written.next(values, kind, fields.index)?;
            match kind {
                EventKind::RequestSubmitted | EventKind::RequestEnded => fields.request = value,
                _ => fields.value = value,
            }
        }
        events.push(fields.event(time, order)?);
    }
    Some(events)
}

/// Raw DEFLATE, at the level that is worth its time: the next one is half as quick for a twentieth of the bytes.
pub(crate) fn deflate(plain: &[u8]) -> Vec<u8> {
    packed(plain, flate2::Compression::new(3))
}

fn packed(plain: &[u8], level: flate2::Compression) -> Vec<u8> {
    let mut packer = flate2::write::DeflateEncoder::new(Vec::new(), level);
    packer.write_all(plain).and_then(|()| packer.finish()).expect("a vector takes all that is written")
}

/// Raw DEFLATE that is quickly unpacked, because nothing is packed in it.
pub(crate) fn store(plain: &[u8]) -> Vec<u8> {
    packed(plain, flate2::Compression::none())
}

pub(crate) fn inflate(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    flate2::read::DeflateDecoder::new(packed).take(MOST_BYTES).read_to_end(&mut plain)?;
    Ok(plain)
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    let digit = |bits: u32, shift: u32| DIGITS[(bits >> shift & 63) as usize];
    for three in bytes.chunks(3) {
        let at = |place: usize| u32::from(three.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        let third = if three.len() > 1 { digit(bits, 6) } else { b'=' };
        let fourth = if three.len() > 2 { digit(bits, 0) } else { b'=' };
        text.extend([digit(bits, 18), digit(bits, 12), third, fourth]);
    }
    String::from_utf8(text).expect("its digits are ASCII")
}

/// The inverse of [`base64`].
pub(crate) fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for &letter in text.iter().filter(|letter| !letter.is_ascii_whitespace() && **letter != b'=') {
        let digit = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use vicus_trace::{Header, Trace};

    /// Any event that a file can have.
    fn any_event() -> impl Strategy<Value = Event> {
        let fields = (any::<u64>(), any::<u64>(), 0..EventKind::ALL.len() as u8, 0..8_u8, 0..3_u16, any::<[u32; 3]>());
        fields.prop_filter_map("not every combination is an event", |(time, order, kind, detail, port, numbers)| {
            let is = |unused: bool, number: u32| if unused { 0 } else { number };
            let uses = uses(EventKind::ALL[usize::from(kind)]);
            let is_request =
                matches!(EventKind::ALL[usize::from(kind)], EventKind::RequestSubmitted | EventKind::RequestEnded);
            let fields = Fields {
                kind,
                detail: if uses.detail { detail } else { 0 },
                port: if uses.port { port } else { 0 },
                request: is(!uses.job && !is_request, numbers[0] % 5),
                index: is(!uses.job, numbers[1]),
                value: is(!uses.value || is_request, numbers[2]),
            };
            fields.event(time, order)
        })
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_back(
            events in prop::collection::vec(any_event(), 0..200),
            start in any::<[u64; 2]>(),
        ) {
            let start = Base { time: start[0], order: start[1] };
            let keys = Keys::new(&Trace::new(Header::default(), Vec::new()));
            let packed = pack(&events, std::iter::repeat(None), start, &keys);
            prop_assert_eq!(unpack(&packed, start), Some(events));
        }

        #[test]
        fn foreign_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = unpack(&bytes, Base { time: 0, order: 0 });
            let _ = unpack(&deflate(&bytes), Base { time: 0, order: 0 });
        }

        #[test]
        fn base64_comes_back(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            prop_assert_eq!(from_base64(base64(&bytes).as_bytes()), Some(bytes));
        }
    }

    /// The words of RFC 4648, section 10.
    #[test]
    fn base64_is_that_of_the_standard() {
        let words = ["", "f", "fo", "foo", "foob", "fooba", "foobar"];
        let expected = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        assert_eq!(words.map(|word| base64(word.as_bytes())), expected);
    }

    #[test]
    fn every_kind_of_event_is_covered() {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..4000 {
            seen.insert(any_event().new_tree(&mut runner).unwrap().current().what.kind());
        }
        assert_eq!(seen.len(), EventKind::ALL.len());
    }
}
