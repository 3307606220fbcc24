//! A fault in a box fails its request, with the name of the faulty box.

use std::sync::Arc;
use vicus_flow::{
    Attachment, Bound, BoxError, BoxModel, Column, Envelope, EnvelopeBuilder, FlowError, ModelBuilder, Schema,
    SentTooMuch, Turn, Type, give_up, library, sequential,
};

fn numbers() -> Schema {
    Schema::new([("n", Type::U64)])
}

fn one(n: u64) -> Envelope {
    Envelope::new([Column::from(vec![n])])
}

/// A source with this code, and a correct reader of its output.
fn run(
    schema: &Schema,
    bytes: Option<u64>,
    act: impl FnMut(&mut Turn<'_>) -> Result<(), BoxError> + Clone + Send + Sync + 'static,
    reads: impl Fn(&Envelope) + Clone + Send + Sync + 'static,
) -> Result<vicus_flow::Totals, FlowError> {
    let mut net = ModelBuilder::new("faults");
    if let Some(bytes) = bytes {
        net.outbox_bytes(bytes);
    }
    let from = net.source(BoxModel::new("bad", move || act.clone()).output(schema));
    let sink = net.add(library::sink("honest", schema, move |envelope| {
        reads(&envelope);
        Ok(())
    }));
    net.connect(from.output(0), sink.input(0)).private(0..schema.columns().len().min(1));
    net.end(sink.output(0));
    sequential::run(&net.build().unwrap(), Vec::new(), |_| 0)
}

#[test]
fn an_envelope_that_does_not_fit_fails_its_sender() {
    // In release builds the schema was once not checked, and the runtime looked for a missing column: this ended the
    // thread; a column of another type failed its reader.
    let bad: [(Envelope, &str); 4] = [
        (Envelope::of_rows(Vec::new(), 3), "[]"),
        (Envelope::new([Column::from(vec![1.5f64])]), "[F64]"),
        (Envelope::new([vec![1u64].into(), vec![1u64].into()]), "[U64, U64]"),
        (Envelope::new([Column::from(vec![None, Some(1u64)])]), "[U64 with nulls in 1 of 2 rows]"),
    ];
    for (envelope, is) in bad {
        let act = move |turn: &mut Turn<'_>| {
            turn.take(0);
            turn.send(0, envelope.clone());
            Ok(())
        };
        let error = run(&numbers(), None, act, |envelope| _ = envelope.column(0).u64s()).unwrap_err();
        let expected = format!("output 0 has the schema (n: U64), and this envelope's columns are {is}");
        assert_eq!(error.to_string(), format!("box bad panicked: {expected}"));
    }
}

/// An attachment whose drop panics.
struct Grumpy;

impl Drop for Grumpy {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("out of the way");
        }
    }
}

fn grumpy() -> Envelope {
    one(1).with(&[Attachment::new(Arc::new(Grumpy), 0)])
}

#[test]
fn a_panic_where_an_envelope_is_dropped_by_the_runtime_fails_its_sender() {
    // For a closed reader, the runtime once dropped the sent envelope outside of its `catch_unwind`.
    let closes = |turn: &mut Turn<'_>| -> Result<(), BoxError> {
        turn.close(0);
        turn.send_pill(0);
        Ok(())
    };
    for seed in 0..50usize {
        let mut net = ModelBuilder::new("closed");
        net.default_bound(Bound { envelopes: 1, ..Bound::default() });
        let several = move || {
            let mut left = 5;
            move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                turn.take(0);
                left -= 1;
                (0..2).for_each(|_| turn.send(0, grumpy()));
                if left == 0 {
                    turn.send_pill(0)
                } else {
                    turn.run_again()
                }
                Ok(())
            }
        };
        let from = net.source(BoxModel::new("bad", several).output(&numbers()));
        let to = net.add(BoxModel::new("closes", move || closes).input(&numbers()).output(&numbers()));
        net.connect(from.output(0), to.input(0));
        net.end(to.output(0));
        let result = sequential::run(&net.build().unwrap(), Vec::new(), |tasks| seed % tasks);
        let Err(FlowError::Panicked { message, .. }) = result else { panic!("{result:?}") };
        assert_eq!(message, "out of the way", "seed {seed}");
    }
}

/// A panic's payload whose drop panics.
struct Worse;

impl Drop for Worse {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("out of all");
        }
    }
}

#[test]
fn a_panic_whose_message_panics_fails_its_sender() {
    let act = |_: &mut Turn<'_>| -> Result<(), BoxError> { std::panic::panic_any(Worse) };
    let error = run(&numbers(), None, act, |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "box bad panicked: a panic without a message");
}

#[test]
fn an_invocation_that_sends_without_end_is_stopped() {
    // One invocation could once send until the process was killed for its memory.
    for rows in [1000usize, 0] {
        let act = move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            turn.take(0);
            loop {
                turn.send(0, Envelope::new([vec![7u64; rows].into()]));
            }
        };
        let error = run(&numbers(), Some(1 << 20), act, |_| {}).unwrap_err();
        let FlowError::Failed { name, error } = &error else { panic!("{error}") };
        assert_eq!(name, "bad");
        assert_eq!(error.downcast_ref::<SentTooMuch>(), Some(&SentTooMuch { output: 0, bound: 1 << 20 }));
        assert!(error.to_string().starts_with("one invocation sent more than 1.0 MiB"), "{error}");
    }
    // A box that catches the panic is stopped at the end of its invocation.
    let act = |turn: &mut Turn<'_>| -> Result<(), BoxError> {
        let sends = std::panic::AssertUnwindSafe(|| (0..2000).for_each(|_| turn.send(0, one(1))));
        assert!(std::panic::catch_unwind(sends).is_err() && turn.is_stopped());
        Ok(())
    };
    let error = run(&numbers(), Some(1 << 10), act, |_| {}).unwrap_err();
    assert!(error.to_string().starts_with("box bad failed: one invocation sent more than 1.0 KiB"), "{error}");
}

#[test]
fn a_large_envelope_on_each_output_and_a_box_that_asks_are_not_stopped() {
    let act = |turn: &mut Turn<'_>| -> Result<(), BoxError> {
        turn.take(0);
        turn.send(0, Envelope::new([vec![1u64; 10_000].into()]));
        turn.send_pill(0);
        Ok(())
    };
    run(&numbers(), Some(100), act, |_| {}).unwrap();

    // Envelopes passed on were in memory before.
    let numbers = numbers();
    let mut net = ModelBuilder::new("union");
    net.outbox_bytes(100);
    let union = net.add(library::union(&numbers, 8));
    for input in 0..8 {
        let source = net.source(BoxModel::new("source", move || act).output(&numbers));
        net.connect(source.output(0), union.input(input));
    }
    net.end(union.output(0));
    sequential::run(&net.build().unwrap(), Vec::new(), |tasks| tasks - 1).unwrap();
    let numbers = || numbers.clone();

    // As many as there is room for, then again: as many invocations as the via fills.
    let (mut next, mut turns) = (0u64, 0u64);
    let act = move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
        turn.take(0);
        turns += 1;
        while turn.ask_room(0) {
            if next == 80 {
                assert_eq!(turns, 11, "ten times the eight envelopes that an input holds, and the pill");
                turn.send_pill(0);
                return Ok(());
            }
            turn.send(0, one(next));
            next += 1;
        }
        turn.run_again();
        Ok(())
    };
    run(&numbers(), Some(100), act, |_| {}).unwrap();
}

#[test]
fn memory_that_cannot_be_had_fails_the_box_that_wanted_it() {
    let schema = numbers();
    let act = move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
        let mut builder = EnvelopeBuilder::new(&schema);
        assert!(builder.try_reserve(turn, 1 << 57).is_err());
        builder.try_reserve(turn, 10)?;
        builder.reserve(turn, 1 << 57);
        unreachable!("no machine has so much memory");
    };
    let error = run(&numbers(), None, act, |_| {}).unwrap_err();
    assert_eq!(error.to_string(), format!("box bad failed: {}.0 GiB of memory can't be had", 1u64 << 30));
    let act = |_: &mut Turn<'_>| -> Result<(), BoxError> { give_up("out of ideas") };
    assert_eq!(run(&numbers(), None, act, |_| {}).unwrap_err().to_string(), "box bad failed: out of ideas");
}
