//! A network that grows in virtual time: its boxes are live, and its trace has all of them.

use std::sync::{Arc, Mutex};
use vicus_flow::{
    Arrivals, BoxModel, Envelope, Expansion, FragmentBuilder, Model, ModelBuilder, Schema, Type, library,
};
use vicus_sim::{Reenactment, Rehearsal, Replay, ReplayError, ReplayOptions};

/// Halves its numbers until all are odd: a box for each time.
fn odd() -> BoxModel {
    let schema = Schema::new([("n", Type::U64)]);
    BoxModel::expandable("odd", [&schema], [&schema], || {
        |arrived: &Arrivals<'_>| {
            let is_even = |envelope: &Envelope| envelope.column(0).u64s().iter().any(|n| n % 2 == 0);
            if !arrived.envelopes(0).any(is_even) {
                return Ok(Expansion::PassBy);
            }
            let schema = Schema::new([("n", Type::U64)]);
            let mut net = FragmentBuilder::new("odd", [&schema]);
            let halve = net.add(library::map("halve", &schema, &schema, |envelope| {
                let halve = |n: &u64| if n.is_multiple_of(2) { n / 2 } else { *n };
                Some(Envelope::new([envelope.column(0).u64s().iter().map(halve).collect::<Vec<_>>().into()]))
            }));
            let rest = net.add(odd());
            net.connect(net.input(0), halve.input(0));
            net.connect(halve.output(0), rest.input(0));
            net.end(rest.output(0));
            Ok(Expansion::Become(net.build()?))
        }
    })
}

fn network(got: &Arc<Mutex<Vec<u64>>>) -> Arc<Model> {
    let schema = Schema::new([("n", Type::U64)]);
    let mut net = ModelBuilder::new("odd numbers");
    let numbers = || (0..20u64).map(|n| Envelope::new([vec![48 * n + 3, 80, 7 * n + 1].into()]));
    let numbers = net.source(library::source("numbers", &schema, numbers));
    let odd = net.add(odd());
    let got = Arc::clone(got);
    let end = net.add(library::sink("end", &schema, move |envelope| {
        got.lock().unwrap().extend_from_slice(envelope.column(0).u64s());
        Ok(())
    }));
    net.connect(numbers.output(0), odd.input(0));
    net.connect(odd.output(0), end.input(0));
    net.end(end.output(0));
    net.build().unwrap()
}

#[test]
fn a_network_grows_in_virtual_time_and_its_trace_names_the_new_boxes() {
    for seed in 0..20usize {
        let got = Arc::default();
        let model = network(&got);
        let mut state = seed;
        let choose = |tasks: usize| {
            state = state.wrapping_mul(31).wrapping_add(7);
            state % tasks
        };
        // A box of the fragments takes longer.
        let takes =
            |one: &vicus_flow::ConnectedBox, rows: u64| if one.type_name() == "halve" { 10 * rows } else { rows };
        let Rehearsal { trace, .. } =
            Rehearsal::of(&model, choose, takes).unwrap_or_else(|error| panic!("{seed}: {error}"));
        // The first envelope is 3, 80, 1: four halvings, and all numbers pass all of them.
        let expected: Vec<u64> = (0..20u64)
            .flat_map(|n| [48 * n + 3, 80, 7 * n + 1])
            .map(|n| (0..4).fold(n, |n, _| if n.is_multiple_of(2) { n / 2 } else { n }))
            .collect();
        assert_eq!(*got.lock().unwrap(), expected, "seed {seed}");
        assert_eq!(trace.check().first(), None, "seed {seed}");
        let boxes = &trace.header().models[0].boxes;
        let halves = boxes.iter().filter(|one| one.type_name == "halve").count();
        assert_eq!(halves, 4, "seed {seed}: {boxes:?}");
        assert!(boxes.iter().any(|one| one.name == "odd / odd / halve"), "seed {seed}: {boxes:?}");
        for event in trace.logs().iter().flat_map(|log| &log.events) {
            let is_named = event.what.who().is_none_or(|who| (who.index as usize) < boxes.len());
            assert!(is_named, "seed {seed}: {event:?}");
        }
        let replay = Replay::of(&trace, &ReplayOptions::default()).unwrap();
        assert!(replay.recorded_ns > 0.0);
        let enacted = Reenactment::of(&trace, &ReplayOptions::default()).unwrap_err();
        assert!(matches!(enacted, ReplayError::Grown { .. }), "seed {seed}: {enacted}");
    }
}
