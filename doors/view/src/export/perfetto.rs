//! Perfetto's form: packets of protocol buffers. Numbers of fields are those of the project's `protos/perfetto/trace`.

use super::{Export, Take};
use crate::RecordedRun;
use crate::activity::State;
use crate::pack::put as varint;
use std::io::{self, Write};

/// A message of protocol buffers.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(mut self, field: u64, value: u64) -> Message {
        varint(&mut self.0, field << 3);
        varint(&mut self.0, value);
        self
    }

    fn fixed(mut self, field: u64, value: u64) -> Message {
        varint(&mut self.0, field << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Message {
        varint(&mut self.0, field << 3 | 2);
        varint(&mut self.0, bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn text(self, field: u64, text: &str) -> Message {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, message: &Message) -> Message {
        self.bytes(field, &message.0)
    }
}

/// Writes a run for Perfetto: a track for each seat below its node, names once each, and a flow for each job that a
/// seat took from another.
///
/// # Errors
/// The writer failed.
pub fn perfetto(run: &RecordedRun, out: &mut impl Write) -> io::Result<()> {
    let told = Export::new(&run.trace);
    // Ids of tracks: nodes behind seats.
    let of_seat = |seat: usize| seat as u64 + 1;
    let of_node = |node: usize| (run.trace.header().seats.len() + node) as u64 + 1;
    let mut packet = |message: Message| out.write_all(&Message::default().message(1, &message).0);
    for (node, name) in told.nodes().enumerate() {
        let process = Message::default().number(1, node as u64 + 1).text(6, &name);
        let track = Message::default().number(1, of_node(node)).message(3, &process);
        packet(Message::default().number(10, 1).message(60, &track))?;
    }
    // A flow has both of its ends, on slices: a caller without a seat has none.
    let mut lasts = vec![(None, None); run.trace.logs().len()];
    for (seat, _) in told.seats() {
        told.slices(seat, |slice| {
            let (end_ns, busy_ns) = &mut lasts[seat];
            *end_ns = (*end_ns).max(Some(slice.end_ns));
            if slice.state == State::Busy {
                *busy_ns = (*busy_ns).max(Some(slice.begin_ns));
            }
        });
    }
    let mut takes = told.takes();
    takes
        .retain(|take| Some(take.queued_ns) <= lasts[take.from_seat].0 && Some(take.taken_ns) <= lasts[take.to_seat].1);
    for (seat, name) in told.seats() {
        let sequence = of_seat(seat) + 1;
        let track = Message::default().number(1, of_seat(seat)).text(2, &name);
        let track = track.number(5, of_node(told.node_of(seat)));
        // The first packet of a sequence clears its names.
        packet(Message::default().number(10, sequence).number(13, 1).message(60, &track))?;
        let mut given: Vec<&Take> = takes.iter().filter(|take| take.from_seat == seat).collect();
        let mut taken: Vec<&Take> = takes.iter().filter(|take| take.to_seat == seat).collect();
        given.sort_by_key(|take| std::cmp::Reverse(take.queued_ns));
        taken.sort_by_key(|take| std::cmp::Reverse(take.taken_ns));
        let mut names: rustc_hash::FxHashMap<String, u64> = rustc_hash::FxHashMap::default();
        let mut failed = Ok(());
        told.slices(seat, |slice| {
            let name = told.name(slice);
            let known = names.len() as u64 + 1;
            let mut head = Message::default().number(8, slice.begin_ns).number(10, sequence).number(13, 2);
            let number = *names.entry(name.to_owned()).or_insert_with(|| {
                let event_name = Message::default().number(1, known).text(2, name);
                head = std::mem::take(&mut head).message(12, &Message::default().message(2, &event_name));
                known
            });
            let mut event = Message::default().number(9, 1).number(11, of_seat(seat)).number(10, number);
            let category = match slice.state {
                State::Asleep | State::Away => "rest",
                state if state.is_wait() => "wait",
                _ => "work",
            };
            event = event.text(22, category);
            if let Some((who, _)) = slice.who {
                event = event.message(4, &Message::default().text(10, "request").number(3, who.request.into()));
            }
            for (name, bytes) in [("near bytes", slice.near_bytes), ("far bytes", slice.far_bytes)] {
                if bytes > 0 {
                    event = event.message(4, &Message::default().text(10, name).number(3, bytes));
                }
            }
            while given.last().is_some_and(|take| take.queued_ns <= slice.end_ns) {
                let id = given.pop().map_or(0, |take| take.id);
                event = event.fixed(47, id);
            }
            while slice.state == State::Busy && taken.last().is_some_and(|take| take.taken_ns <= slice.begin_ns) {
                let id = taken.pop().map_or(0, |take| take.id);
                event = event.fixed(48, id);
            }
            let end = Message::default().number(9, 2).number(11, of_seat(seat));
            let end_of = Message::default().number(8, slice.end_ns).number(10, sequence).number(13, 2);
            if failed.is_ok() {
                failed = packet(head.message(11, &event)).and_then(|()| packet(end_of.message(11, &end)));
            }
        });
        failed?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_trace::{BoxInfo, EventLog, Header, JobId, ModelInfo, Trace, What};

    /// The example of the encoding's own documentation: field 1 with 150, field 2 with "testing".
    #[test]
    fn messages_are_those_of_protocol_buffers() {
        assert_eq!(Message::default().number(1, 150).0, [0x08, 0x96, 0x01]);
        assert_eq!(Message::default().text(2, "testing").0, b"\x12\x07testing");
    }

    /// The fields of a message: number, and a number or bytes.
    fn fields(mut bytes: &[u8]) -> Vec<(u64, Result<u64, &[u8]>)> {
        fn number(bytes: &mut &[u8]) -> u64 {
            let (mut number, mut shift) = (0, 0);
            loop {
                let (&first, rest) = bytes.split_first().unwrap();
                *bytes = rest;
                number |= u64::from(first & 0x7f) << shift;
                shift += 7;
                if first < 0x80 {
                    return number;
                }
            }
        }
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let tag = number(&mut bytes);
            let value = match tag & 7 {
                0 => Ok(number(&mut bytes)),
                1 => {
                    let (first, rest) = bytes.split_at(8);
                    bytes = rest;
                    Ok(u64::from_le_bytes(first.try_into().unwrap()))
                }
                2 => {
                    let length = number(&mut bytes) as usize;
                    let (first, rest) = bytes.split_at(length);
                    bytes = rest;
                    Err(first)
                }
                other => panic!("wire type {other}"),
            };
            found.push((tag >> 3, value));
        }
        found
    }

    #[test]
    fn a_slice_begins_and_ends_on_its_seats_track() {
        let who = JobId { request: 4, index: 0 };
        let mut log = EventLog::new(10);
        for (time_ns, what) in [
            (100, What::InvocationBegins { who }),
            (100, What::UserCodeBegins { who }),
            (350, What::UserCodeEnds { who }),
            (350, What::InvocationEnds { who }),
        ] {
            log.record(time_ns, what);
        }
        let boxes = vec![BoxInfo { name: "scan".into(), type_name: "scan".into(), ..BoxInfo::default() }];
        let models = vec![ModelInfo { name: "q".into(), requests: vec![4], boxes }];
        let trace = Trace::new(Header { models, ..Header::for_seats(1) }, vec![log.finish()]);
        let mut out = Vec::new();
        perfetto(&RecordedRun::new("one", trace), &mut out).unwrap();
        let packets: Vec<_> = fields(&out).into_iter().map(|(_, packet)| fields(packet.unwrap_err())).collect();
        let of =
            |packet: usize, field: u64| packets[packet].iter().find(|(number, _)| *number == field).map(|(_, v)| *v);
        // A node, a seat below it, the slice's two ends.
        assert_eq!(packets.len(), 4);
        let track = fields(of(1, 60).unwrap().unwrap_err());
        assert_eq!(track, [(1, Ok(1)), (2, Err(&b"seat 0, PU 0"[..])), (5, Ok(2))]);
        assert_eq!((of(2, 8), of(3, 8)), (Some(Ok(100)), Some(Ok(350))));
        let names = fields(of(2, 12).unwrap().unwrap_err());
        assert_eq!(fields(names[0].1.unwrap_err()), [(1, Ok(1)), (2, Err(&b"scan"[..]))]);
        let begin = fields(of(2, 11).unwrap().unwrap_err());
        assert_eq!(begin[..3], [(9, Ok(1)), (11, Ok(1)), (10, Ok(1))]);
        assert_eq!(fields(of(3, 11).unwrap().unwrap_err())[0], (9, Ok(2)));
    }

    #[test]
    fn nodes_of_two_processes_are_two() {
        let mut out = Vec::new();
        perfetto(&RecordedRun::new("two", crate::export::tests::of_two_processes()), &mut out).unwrap();
        let packets: Vec<_> = fields(&out).into_iter().map(|(_, packet)| fields(packet.unwrap_err())).collect();
        let tracks: Vec<_> = packets.iter().flatten().filter(|(number, _)| *number == 60).collect();
        let tracks: Vec<_> = tracks.into_iter().map(|(_, track)| fields(track.unwrap_err())).collect();
        let of = |track: usize, field: u64| tracks[track].iter().find(|(number, _)| *number == field).unwrap().1;
        let process = |track: usize| fields(of(track, 3).unwrap_err());
        // Two seats have the tracks 1 and 2; the nodes are behind them.
        assert_eq!((of(0, 1), process(0)), (Ok(3), vec![(1, Ok(1)), (6, Err(&b"here, node 0"[..]))]));
        assert_eq!((of(1, 1), process(1)), (Ok(4), vec![(1, Ok(2)), (6, Err(&b"there, node 0"[..]))]));
        assert_eq!((of(2, 5), of(3, 5)), (Ok(3), Ok(4)));
    }
}
