//! Both worlds decide alike about boxes: random requests of networks run on one thread, are recorded, and are enacted
//! again on one virtual core. The operators are the same; the seat determines when each box runs, and its input then.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use std::sync::Arc;
use vicus::{Bound, library};
use vicus::{
    BoxError, BoxModel, Envelope, Model, ModelBuilder, Runtime, STRATEGIES, Schema, Setting, Topology, Turn, Type,
};
use vicus_schedule::Decision;
use vicus_sim::{Machine, Reenactment, ReplayOptions, SimOptions};

struct Chance(Pcg64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }
}

fn schema() -> Schema {
    Schema::new([("n", Type::U64)])
}

/// Sends an envelope of each size, one in each invocation.
fn source(sizes: Vec<usize>) -> BoxModel {
    let operator = move || {
        let mut sizes = sizes.clone().into_iter();
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            turn.take(0);
            match sizes.next() {
                Some(size) => {
                    turn.send(0, Envelope::new([vec![1u64; size].into()]));
                    turn.run_again();
                }
                None => turn.send_pill(0),
            }
            Ok(())
        }
    };
    BoxModel::new("source", operator).output(&schema())
}

/// Streams copied, spread and united, with little room between them.
fn network(chance: &mut Chance) -> Arc<Model> {
    let schema = schema();
    let mut net = ModelBuilder::new("by chance");
    net.default_bound(Bound { envelopes: 1 + chance.below(3), ..Bound::default() });
    let envelopes = 1 + chance.below(12);
    let sizes = (0..envelopes).map(|_| 1 + chance.below(50)).collect();
    let mut open = vec![net.source(source(sizes)).output(0)];
    for _ in 0..chance.below(6) {
        let from = open.swap_remove(chance.below(open.len()));
        match chance.below(3) {
            0 => {
                // Each gets all of it.
                for _ in 0..2 {
                    let to = net.add(library::map("work", &schema, &schema, Some));
                    net.connect(from, to.input(0));
                    open.push(to.output(0));
                }
            }
            1 => {
                let spread = net.add(library::spread(&schema, 2));
                net.connect(from, spread.input(0));
                open.extend([spread.output(0), spread.output(1)]);
            }
            _ => {
                let to = net.add(library::map("work", &schema, &schema, Some));
                net.connect(from, to.input(0));
                open.push(to.output(0));
            }
        }
    }
    let union = net.add(library::union(&schema, open.len()));
    for (input, from) in open.into_iter().enumerate() {
        net.connect(from, union.input(input));
    }
    net.end(union.output(0));
    net.build().unwrap()
}

/// The decisions about boxes, without the callers' ones.
fn of_boxes(decisions: &[Decision]) -> Vec<Decision> {
    let is_box = |decision: &&Decision| match decision {
        Decision::Puts(task, _) | Decision::Keeps(task) | Decision::Next(task) | Decision::Runs(task, _) => task.is_box,
        _ => false,
    };
    decisions.iter().filter(is_box).copied().collect()
}

#[test]
fn boxes_are_queued_and_run_in_the_same_order_in_both_worlds() {
    for strategy in STRATEGIES.iter().map(|strategy| strategy.name()).chain(["central:capacity=1"]) {
        for seed in 0..12 {
            let mut chance = Chance(Pcg64::seed_from_u64(seed));
            let models: Vec<_> = (0..1 + seed % 3).map(|_| network(&mut chance)).collect();
            let topology = Topology::parse("node:2 l3:2 core:2").unwrap();
            let builder = Runtime::builder().topology(topology.clone()).threads(1).without_turns().quiet();
            let runtime =
                builder.strategy(strategy.parse::<Setting>().unwrap()).record(1 << 15).write_decisions().start();
            let requests: Vec<_> =
                super::while_the_seat_is_busy(&runtime, || models.iter().map(|model| runtime.submit(model)).collect());
            requests.iter().for_each(|request| _ = request.wait().unwrap());
            drop(requests);
            let plan = runtime.plan().clone();
            let (decisions, trace) = runtime.recorded();
            let threads = of_boxes(&decisions[0]);

            let reenactment = Reenactment::of(&trace.unwrap(), &ReplayOptions::default()).unwrap();
            let options = SimOptions { decisions: true, without_turns: true, ..SimOptions::default() };
            let machine = Machine::from_topology(topology);
            let (outcome, _) = reenactment.simulate(&machine, &plan, &options, &mut |_| true).unwrap();
            let simulated = of_boxes(&outcome.decisions[0]).split_off(models.len());
            let differs = (0..threads.len().max(simulated.len())).find(|&at| threads.get(at) != simulated.get(at));
            if let Some(at) = differs {
                let around =
                    |did: &[Decision]| did[at.saturating_sub(5).min(did.len())..(at + 4).min(did.len())].to_vec();
                let (threads, simulated) = (around(&threads), around(&simulated));
                panic!(
                    "{strategy}, seed {seed}, decision {at}:\n on a thread       {threads:?}\n on a virtual core \
                        {simulated:?}"
                );
            }
        }
    }
}
