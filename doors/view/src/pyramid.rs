//! Sums over equal parts of the time, each level four times as fine as the one before: the first picture, and every
//! picture of more events than are quickly unpacked.

use crate::activity::{NO_RULE, Slice, State, slices};
use crate::keys::Keys;
use crate::pack::{base64, deflate, store};
use vicus_trace::Trace;

/// The parts of the coarsest level.
pub(crate) const COARSEST: usize = 1024;
/// With more seats the coarsest levels are packed: they would make up most of a small page.
const STORED: usize = 16;
/// On average a part of the finest level has this many slices or more.
const SLICES: usize = 8;
/// The levels have these many parts at most.
const MOST: usize = COARSEST << 8;
/// The bytes of a part of a seat's row: 5 shares of 255, the key that has most, of 2 bytes, that of the request, the
/// rule, the share of waiting for memory, and 2 more shares.
pub(crate) const BYTES: usize = 13;
/// The states whose shares of a part the first 5 bytes and the last 2 have.
const STATES: [State; 7] = [
    State::Busy,
    State::Around,
    State::WaitsForChildren,
    State::Asleep,
    State::Away,
    State::WaitsForSection,
    State::WaitsForTeam,
];

/// The bytes a nanosecond that a core gets from memory: of its own node, and of others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    pub(crate) near: f64,
    pub(crate) far: f64,
}

impl Rates {
    /// The part of a slice that waited for memory, at most 1.
    fn waited(&self, slice: &Slice) -> f64 {
        let ns = slice.near_bytes as f64 / self.near + slice.far_bytes as f64 / self.far;
        (ns / (slice.end_ns - slice.begin_ns) as f64).min(1.0)
    }
}

/// The time of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) first_ns: u64,
    pub(crate) ns: u64,
}

/// The levels of a seat's row.
pub(crate) struct Row {
    /// For each level its parts, packed and in base64.
    pub(crate) levels: Vec<String>,
    /// The time in each state.
    pub(crate) of_states: [u64; State::COUNT],
    /// The time in user code of each key.
    pub(crate) busy_ns: Vec<u64>,
    /// How long the tasks of each key waited for others, in the order of [`State::WAITS`].
    pub(crate) waits_ns: Vec<[u64; State::WAITS.len()]>,
    /// How much of each part of the coarsest level each key ran, in nanoseconds.
    pub(crate) of_keys: Vec<Vec<f32>>,
}

/// A sum that knows what has most of it.
#[derive(Clone, Copy, Default)]
struct Most {
    what: u32,
    ns: f64,
}

impl Most {
    fn add(&mut self, what: u32, ns: f64) {
        // The majority vote of Boyer and Moore: exact for a majority, and close to the most otherwise.
        if self.what == what {
            self.ns += ns;
        } else if ns > self.ns {
            *self = Most { what, ns: ns - self.ns };
        } else {
            self.ns -= ns;
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Part {
    /// The time in each of [`STATES`].
    ns: [f64; STATES.len()],
    memory_ns: f64,
    key: Most,
    request: Most,
    rule: Most,
}

impl Part {
    fn add(&mut self, slice: &Slice, ns: f64, waited: f64) {
        let Some(place) = STATES.iter().position(|state| *state == slice.state) else { return };
        self.ns[place] += ns;
        if let (State::Busy, Some((who, key))) = (slice.state, slice.who) {
            self.memory_ns += ns * waited;
            self.key.add(key + 1, ns);
            self.request.add(who.request, ns);
            self.rule.add(slice.rule.into(), ns);
        }
    }

    fn merged(four: &[Part]) -> Part {
        let mut sum = Part::default();
        for part in four {
            sum.ns.iter_mut().zip(part.ns).for_each(|(sum, ns)| *sum += ns);
            sum.memory_ns += part.memory_ns;
            for (sum, part) in [(&mut sum.key, part.key), (&mut sum.request, part.request), (&mut sum.rule, part.rule)]
            {
                sum.add(part.what, part.ns);
            }
        }
        sum
    }

    fn bytes(&self, width: f64) -> [u8; BYTES] {
        let share = |ns: f64, of: f64| if of > 0.0 { (ns / of * 255.0).round().clamp(0.0, 255.0) as u8 } else { 0 };
        let mut bytes = [0; BYTES];
        let shares = self.ns.map(|ns| share(ns, width));
        bytes[..5].copy_from_slice(&shares[..5]);
        bytes[11..].copy_from_slice(&shares[5..]);
        // Something that is too short for a share is still seen.
        if self.ns[0] > 0.0 {
            bytes[0] = bytes[0].max(1);
        }
        bytes[5..7].copy_from_slice(&u16::try_from(self.key.what).unwrap_or(u16::MAX).to_le_bytes());
        bytes[7..9].copy_from_slice(&(self.request.what as u16).to_le_bytes());
        bytes[9] = if self.ns[0] > 0.0 { self.rule.what as u8 } else { NO_RULE };
        bytes[10] = share(self.memory_ns, self.ns[0]);
        bytes
    }
}

/// The row of a seat.
pub(crate) fn row(trace: &Trace, seat: usize, keys: &Keys, rates: Rates, span: Span) -> Row {
    let Span { first_ns, ns: span_ns } = span;
    let events = &trace.logs()[seat].events;
    let mut count = COARSEST;
    while count < MOST && count * 4 * SLICES <= events.len() / 4 {
        count *= 4;
    }
    let width = span_ns as f64 / count as f64;
    let coarse = span_ns as f64 / COARSEST as f64;
    let mut parts = vec![Part::default(); count];
    let mut busy_ns = vec![0_u64; keys.all.len()];
    let mut of_keys = vec![Vec::new(); keys.all.len()];
    let mut of_states = [0_u64; State::COUNT];
    let mut waits_ns = vec![[0_u64; State::WAITS.len()]; keys.all.len()];
    if !trace.header().seats[seat].is_callers {
        slices(events, first_ns.saturating_add(span_ns), keys, |slice| {
            let waited = rates.waited(&slice);
            let (begin, end) = ((slice.begin_ns - first_ns) as f64, (slice.end_ns - first_ns) as f64);
            spread(begin, end, width, count, |part, ns| parts[part].add(&slice, ns, waited));
            let slice_ns = slice.end_ns - slice.begin_ns;
            let of_state = &mut of_states[slice.state as usize];
            *of_state = of_state.saturating_add(slice_ns);
            let wait = State::WAITS.iter().position(|state| *state == slice.state);
            if let (Some(wait), Some((_, key))) = (wait, slice.who) {
                let wait_ns = &mut waits_ns[key as usize][wait];
                *wait_ns = wait_ns.saturating_add(slice_ns);
            }
            if let (State::Busy, Some((_, key))) = (slice.state, slice.who) {
                let busy_ns = &mut busy_ns[key as usize];
                *busy_ns = busy_ns.saturating_add(slice_ns);
                let of_key = &mut of_keys[key as usize];
                if of_key.is_empty() {
                    of_key.resize(COARSEST, 0.0);
                }
                spread(begin, end, coarse, COARSEST, |part, ns| of_key[part] += ns as f32);
            }
        });
    }
    let mut levels = Vec::new();
    loop {
        let width = span_ns as f64 / parts.len() as f64;
        // By columns: neighbours are alike.
        let rows: Vec<[u8; BYTES]> = parts.iter().map(|part| part.bytes(width)).collect();
        let columns: Vec<u8> = (0..BYTES).flat_map(|column| rows.iter().map(move |row| row[column])).collect();
        // The viewer unpacks the coarsest level itself, before all else: that of few seats is only stored.
        let is_first = parts.len() == COARSEST && trace.logs().len() <= STORED;
        levels.push(base64(&if is_first { store(&columns) } else { deflate(&columns) }));
        if parts.len() == COARSEST {
            break;
        }
        parts = parts.chunks(4).map(Part::merged).collect();
    }
    levels.reverse();
    Row { levels, of_states, busy_ns, waits_ns, of_keys }
}

/// Hands over the parts of equal width that lie between, each with the length in it.
fn spread(begin: f64, end: f64, width: f64, count: usize, mut add: impl FnMut(usize, f64)) {
    if width <= 0.0 {
        return;
    }
    let mut part = ((begin / width) as usize).min(count - 1);
    let mut from = begin;
    while part + 1 < count && (part + 1) as f64 * width < end {
        let to = (part + 1) as f64 * width;
        add(part, to - from);
        (from, part) = (to, part + 1);
    }
    add(part, end - from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{from_base64, inflate};

    #[test]
    fn a_length_is_spread_over_the_parts_it_lies_in() {
        let mut got = Vec::new();
        spread(5.0, 31.0, 10.0, 4, |part, ns| got.push((part, ns)));
        assert_eq!(got, [(0, 5.0), (1, 10.0), (2, 10.0), (3, 1.0)]);
        got.clear();
        spread(30.0, 40.0, 10.0, 4, |part, ns| got.push((part, ns)));
        assert_eq!(got, [(3, 10.0)]);
    }

    /// 50 bytes from near memory at 2 bytes a nanosecond take 25 ns, 40 bytes from far memory at 1 take 40: of 100 ns
    /// in user code, 65 waited for memory, and a share of 1 is 255.
    #[test]
    fn waiting_for_memory_is_what_the_bytes_take_at_the_given_bandwidths() {
        use vicus_trace::{EventLog, Header, JobId, What};
        let (who, mut log) = (JobId::task(1, 0), EventLog::new(10));
        log.record(0, What::UserCodeBegins { who });
        log.record(0, What::BytesRead { who, far: false, bytes: 50 });
        log.record(0, What::BytesRead { who, far: true, bytes: 40 });
        log.record(100, What::UserCodeEnds { who });
        let trace = Trace::new(Header::for_seats(1), vec![log.finish()]);
        let span = Span { first_ns: 0, ns: 100 };
        let row = row(&trace, 0, &Keys::new(&trace), Rates { near: 2.0, far: 1.0 }, span);
        let level = inflate(&from_base64(row.levels[0].as_bytes()).unwrap()).unwrap();
        assert_eq!(level.len(), BYTES * COARSEST);
        assert_eq!((level[0], level[10 * COARSEST]), (255, 166));
    }

    #[test]
    fn the_majority_has_the_colour() {
        let mut most = Most::default();
        for (what, ns) in [(1, 3.0), (2, 4.0), (1, 2.0), (3, 1.0), (1, 9.0)] {
            most.add(what, ns);
        }
        assert_eq!(most.what, 1);
    }
}
