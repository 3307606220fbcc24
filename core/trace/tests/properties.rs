//! For random executions, a trace puts events in a possible order, and sums them up correctly.

mod execution;

use execution::{Execution, SEATS, skew_ns};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use vicus_trace::{Event, EventKind, Header, JobId, SeatLog, Trace, What};

fn choices() -> impl Strategy<Value = Vec<(u8, u8, u8)>> {
    vec(any::<(u8, u8, u8)>(), 0..400)
}

/// Random events that make no sense, but can be written.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let bytes = (0..EventKind::ALL.len() as u8, 0u8..3, 0u16..2, any::<(u32, u32, u32)>(), any::<(u64, u64)>());
    let event = bytes.prop_filter_map("not every kind has every column", |(kind, detail, port, columns, times)| {
        let mut bytes = [0; Event::BYTES];
        bytes[..8].copy_from_slice(&times.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&times.1.to_le_bytes());
        (bytes[16], bytes[17]) = (kind, detail);
        bytes[18..20].copy_from_slice(&port.to_le_bytes());
        let columns = [columns.0, columns.1, columns.2].map(u32::to_le_bytes);
        bytes[20..].copy_from_slice(columns.as_flattened());
        // Columns without a use by the kind are cleared.
        let mut tries = vec![bytes];
        for range in [17..18, 18..20, 20..28, 28..32] {
            for mut bytes in tries.clone() {
                bytes[range.clone()].fill(0);
                tries.push(bytes);
            }
        }
        tries.iter().find_map(Event::from_bytes)
    });
    vec(event, 0..60)
}

/// Random traces that make no sense.
fn traces() -> impl Strategy<Value = Trace> {
    vec((events(), 0u64..3), 0..5).prop_map(|logs| {
        let logs: Vec<SeatLog> =
            logs.into_iter().map(|(events, lost)| SeatLog { events, lost, ..SeatLog::default() }).collect();
        Trace::new(Header::for_seats(logs.len()), logs)
    })
}

fn written(trace: &Trace) -> Vec<u8> {
    let mut file = Vec::new();
    trace.write_to(&mut file).unwrap();
    file
}

proptest! {
    #[test]
    fn what_is_written_reads_back_as_it_was(trace in traces()) {
        prop_assert_eq!(Trace::read_from(&mut &written(&trace)[..]).unwrap(), trace);
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        prop_assert!(Trace::read_from(&mut &bytes[..]).is_err());
        let mut begun = b"VICUSTRC\x01\0\0\0".to_vec();
        begun.extend(&bytes);
        prop_assert!(Trace::read_from(&mut &begun[..]).is_err());
    }

    #[test]
    fn a_file_with_a_wrong_byte_is_refused_or_is_another_trace(trace in traces(), at: prop::sample::Index, byte: u8) {
        let mut file = written(&trace);
        let at = at.index(file.len());
        file[at] = byte;
        if let Ok(read) = Trace::read_from(&mut &file[..]) {
            prop_assert_eq!(Trace::read_from(&mut &written(&read)[..]).unwrap(), read);
        }
    }

    #[test]
    fn nonsense_is_judged_and_added_up_without_a_panic(trace in traces()) {
        let merged = trace.merged().count();
        prop_assert_eq!(merged, trace.logs().iter().map(|log| log.events.len()).sum::<usize>());
        let mut next = vec![0; trace.logs().len()];
        for entry in trace.by_time() {
            prop_assert_eq!(entry.index, next[entry.seat], "each once, those of a seat in its order");
            next[entry.seat] += 1;
        }
        prop_assert!(next.iter().zip(trace.logs()).all(|(&next, log)| next == log.events.len()));
        trace.check().iter().for_each(|violation| assert!(!violation.to_string().is_empty()));
        prop_assert!(!trace.summary().to_string().is_empty());
    }

    #[test]
    fn causes_come_before_effects(choices in choices()) {
        let Execution { trace, causes } = Execution::play(&choices);
        let places: BTreeMap<_, _> =
            trace.merged().enumerate().map(|(place, entry)| ((entry.seat, entry.index), place)).collect();
        for (cause, effect) in causes {
            prop_assert!(places[&cause] < places[&effect], "{:?} before {:?}", cause, effect);
        }
    }

    #[test]
    fn with_clocks_that_agree_causes_come_before_effects_by_time(choices in choices()) {
        let Execution { trace, causes } = Execution::play(&choices);
        let logs = trace.logs().iter().enumerate().map(|(seat, log)| {
            let events = log.events.iter().map(|&event| Event { time_ns: event.time_ns - skew_ns(seat), ..event });
            SeatLog { events: events.collect(), ..log.clone() }
        });
        let trace = Trace::new(trace.header().clone(), logs.collect());
        let shown: Vec<_> = trace.by_time().collect();
        prop_assert!(shown.is_sorted_by_key(|entry| entry.event.time_ns));
        let places: BTreeMap<_, _> =
            shown.iter().enumerate().map(|(place, entry)| ((entry.seat, entry.index), place)).collect();
        for (cause, effect) in causes {
            prop_assert!(places[&cause] < places[&effect], "{:?} before {:?}", cause, effect);
        }
    }

    #[test]
    fn a_sound_execution_breaks_no_rule(choices in choices()) {
        let trace = Execution::play(&choices).trace;
        prop_assert_eq!(trace.check(), []);
    }

    #[test]
    fn a_full_log_is_no_violation(choices in choices(), room in vec(0usize..200, SEATS)) {
        let whole = Execution::play(&choices).trace;
        let cut = whole.logs().iter().zip(room).map(|(log, room)| {
            let events: Vec<Event> = log.events.iter().take(room).copied().collect();
            SeatLog { lost: (log.events.len() - events.len()) as u64, events, ..SeatLog::default() }
        });
        let cut = Trace::new(whole.header().clone(), cut.collect());
        prop_assert_eq!(cut.check(), []);
    }

    #[test]
    fn a_forgotten_event_is_noticed(choices in choices(), which: prop::sample::Index) {
        let trace = Execution::play(&choices).trace;
        // Without one of these events, later ones can't have happened. (Without its end, a beginning at the end of the
        // trace is fine.)
        let needed = |event: &Event| {
            use EventKind::{InvocationBegins, RequestSubmitted, SleepBegins, UserCodeBegins};
            matches!(event.what.kind(), InvocationBegins | UserCodeBegins | SleepBegins | RequestSubmitted)
        };
        let candidates: Vec<(usize, usize)> =
            trace.merged().filter(|entry| needed(entry.event)).map(|entry| (entry.seat, entry.index)).collect();
        let (seat, index) = candidates[which.index(candidates.len())];
        let mut logs = trace.logs().to_vec();
        logs[seat].events.remove(index);
        prop_assert!(!Trace::new(trace.header().clone(), logs).check().is_empty());
    }

    #[test]
    fn the_summary_is_what_a_naive_recount_says(choices in choices()) {
        let trace = Execution::play(&choices).trace;
        let summary = trace.summary();
        let names = trace.names();
        let mut busy_by_type: BTreeMap<&str, u64> = BTreeMap::new();
        for (seat, log) in trace.logs().iter().enumerate() {
            let found = &summary.seats[seat];
            let (mut busy_ns, mut idle_ns) = (0, 0);
            for (at, event) in log.events.iter().enumerate() {
                let rest = &log.events[at..];
                match event.what {
                    What::UserCodeBegins { who } => {
                        let own_ns = own_time(rest, who);
                        busy_ns += own_ns;
                        *busy_by_type.entry(names.type_name(who)).or_default() += own_ns;
                    }
                    What::SleepBegins => {
                        let ends = rest.iter().find(|later| later.what == What::SleepEnds).unwrap();
                        idle_ns += ends.time_ns - event.time_ns;
                    }
                    _ => {}
                }
            }
            prop_assert_eq!((found.busy_ns, found.idle_ns), (busy_ns, idle_ns));
            let span_ns = log.events.last().map_or(0, |last| last.time_ns - log.events[0].time_ns);
            prop_assert_eq!(found.busy_ns + found.overhead_ns + found.idle_ns, span_ns);
            let count = |wanted: fn(&What) -> bool| {
                log.events.iter().filter(|event| wanted(&event.what)).count() as u64
            };
            prop_assert_eq!(found.invocations, count(|what| what.kind() == EventKind::InvocationBegins));
            let near: u64 = found.takes.iter().map(|takes| takes.near).sum();
            let far: u64 = found.takes.iter().map(|takes| takes.far).sum();
            prop_assert_eq!(near, count(|what| matches!(what, What::Taken { far: false, .. })));
            prop_assert_eq!(far, count(|what| matches!(what, What::Taken { far: true, .. })));
        }
        for row in &summary.boxes {
            let mut expected = (0, 0, 0, 0, 0);
            let events = trace.logs().iter().flat_map(|log| &log.events);
            let is_of_row = |who| names.type_name(who) == row.type_name;
            for event in events.filter(|event| event.what.who().is_some_and(is_of_row)) {
                match event.what {
                    What::InvocationBegins { .. } => expected.0 += 1,
                    What::EnvelopeReceived { rows, .. } => expected.1 += u64::from(rows),
                    What::EnvelopeSent { rows, .. } => {
                        expected.2 += 1;
                        expected.3 += u64::from(rows);
                    }
                    What::EnvelopeCreated { bytes, .. } => expected.4 += u64::from(bytes),
                    _ => {}
                }
            }
            let found = (row.invocations, row.rows_in, row.envelopes_out, row.rows_out, row.bytes_created);
            prop_assert_eq!(found, expected);
            prop_assert_eq!(row.busy_ns, busy_by_type.get(&row.type_name[..]).copied().unwrap_or(0));
        }
    }
}

/// The time from the beginning of user code, the first of these events, to its end, without the invocations inside it.
fn own_time(events: &[Event], who: JobId) -> u64 {
    let ends = events.iter().position(|event| event.what == What::UserCodeEnds { who }).unwrap();
    let whole_ns = events[ends].time_ns - events[0].time_ns;
    let inside = events[..ends].iter().map(|event| match event.what {
        What::InvocationBegins { .. } => -(event.time_ns as i64),
        What::InvocationEnds { .. } => event.time_ns as i64,
        _ => 0,
    });
    whole_ns - inside.sum::<i64>() as u64
}
