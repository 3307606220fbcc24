//! Every strategy's plan on real machines: nothing is stranded, and the papers' structure is there.

use vicus_schedule::{ALL, Idle, Kind, Order, Plan, QueueId, SeatId, Setting};
use vicus_topology::{NodeId, Topology, fixtures};

/// Real machines, and the shapes of the papers.
fn machines() -> Vec<Topology> {
    let mut machines = fixtures();
    for line in
        ["core:1", "core:2", "node:4 l3:1 core:8 pu:2", "package:2 l2:2 core:2", "node:8 l3:2 core:3", "core:64"]
    {
        machines.push(Topology::parse(line).unwrap());
    }
    machines
}

/// Fewer threads than groups, as many as PUs, more than PUs.
fn thread_counts(machine: &Topology) -> Vec<usize> {
    let pus = machine.usable_pus().count();
    vec![1, 2, 3, pus.div_ceil(2), pus, pus + 3]
}

#[test]
fn no_plan_strands_a_task_on_any_machine() {
    for machine in machines() {
        machine.assert_valid();
        for strategy in ALL {
            let setting: Setting = strategy.name().parse().unwrap();
            for threads in thread_counts(&machine) {
                let plan = setting.plan(&machine, threads);
                plan.assert_valid();
                let seats = plan.seats.iter().filter(|seat| !seat.spare).count();
                assert_eq!(seats, threads, "{} on {}", plan.strategy, machine.name);
                assert!(!plan.to_string().is_empty());
            }
        }
    }
}

#[test]
fn parameters_keep_plans_valid() {
    let machine = Topology::parse("node:4 l3:2 core:4 pu:2").unwrap();
    for strategy in ALL {
        for parameter in strategy.parameters() {
            let values: Vec<String> = match parameter.choices {
                [] => ["0", "1", "3", "1000000"].map(str::to_owned).to_vec(),
                choices => choices.iter().map(|choice| (*choice).to_owned()).collect(),
            };
            for value in values {
                let setting = format!("{}:{}={value}", strategy.name(), parameter.name);
                setting.parse::<Setting>().unwrap().plan(&machine, 20).assert_valid();
            }
        }
    }
}

#[test]
fn las_has_queues_for_what_lies_on_each_node() {
    for machine in machines() {
        for threads in thread_counts(&machine) {
            let plan = "las".parse::<Setting>().unwrap().plan(&machine, threads);
            assert_eq!(plan.homes.len(), machine.nodes.len());
            let ranks = machine.numa_ranks();
            for (node, queues) in plan.homes.iter().enumerate() {
                let rank = |queue: &QueueId| ranks[node][plan.queues[queue.index()].home.index()];
                let least = plan.seats.iter().map(|seat| ranks[node][seat.node.index()]).min().unwrap();
                assert!(queues.iter().all(|queue| rank(queue) == least), "{}: as near as any seat is", machine.name);
                for seat in (0..plan.seats.len()).map(SeatId::new) {
                    let is_near = ranks[node][plan.seats[seat.index()].node.index()] == least;
                    let found: Vec<_> =
                        (0..queues.len()).map(|number| plan.home_queue(seat, NodeId::new(node), number)).collect();
                    let expected = |queue: &QueueId| (!is_near).then_some(*queue);
                    assert!(found.into_iter().eq(queues.iter().map(expected)));
                }
            }
            assert_eq!(plan.home_queue(SeatId::new(0), NodeId::new(machine.nodes.len()), 0), None, "no such node");
        }
    }
}

fn plan(strategy: &str, machine: &str, threads: usize) -> Plan {
    strategy.parse::<Setting>().unwrap().plan(&Topology::parse(machine).unwrap(), threads)
}

#[test]
fn las_has_a_pool_for_each_core_group() {
    // Falt et al. §6.1.2: both their servers get four thread pools.
    assert_eq!(plan("las", "package:2 l2:2 core:2", 8).pools.len(), 4);
    let numa = plan("las", "node:4 l3:1 core:8 pu:2", 64);
    assert_eq!(numa.pools.len(), 4);
    let deferred = numa.queues.iter().filter(|queue| queue.order == Order::ByRequest).count();
    assert_eq!(deferred, 4, "one deferred queue for each group");
    assert!(numa.seats.iter().all(|seat| seat.affinity.len() == 16), "threads have the affinity of their group");
    assert!(plan("las:pin=pu", "node:4 l3:1 core:8 pu:2", 64).seats.iter().all(|seat| seat.affinity.len() == 1));
}

#[test]
fn las_wakes_near_groups_first_and_immediate_tasks_stay_on_the_node() {
    let plan = plan("las", "node:2 l3:2 core:2", 8);
    let seat = &plan.seats[0];
    let wake = |kind: Kind| -> Vec<usize> {
        plan.queues[seat.place[kind as usize].index()].wake.iter().map(|pool| pool.index()).collect()
    };
    assert_eq!(wake(Kind::Immediate), [0, 1]);
    assert_eq!(wake(Kind::Deferred), [0, 1, 2, 3]);
}

#[test]
fn own_queues_of_las_nls_and_steal_are_lock_free() {
    for strategy in ["las", "nls", "steal"] {
        let plan = plan(strategy, "node:2 l3:1 core:4", 8);
        for (index, queue) in plan.queues.iter().enumerate() {
            let own = plan.is_owner_lifo(QueueId::new(index));
            assert_eq!(own, queue.owner.is_some(), "{strategy}: {}", queue.name);
        }
    }
    let bobox = plan("bobox", "core:4", 4);
    let lock_free = (0..bobox.queues.len()).filter(|&queue| bobox.is_owner_lifo(QueueId::new(queue))).count();
    assert_eq!(lock_free, 4, "immediate queues are nobody else's; thieves take several from the stealing queues");
}

#[test]
fn footprint_deals_to_the_node_with_the_bytes_and_robs_only_long_queues() {
    // Muddukrishna et al., algorithm 1: 4 nodes, all bytes on the last.
    let plan = plan("footprint", "node:4 l3:1 core:4", 16);
    let dealing = plan.dealing.as_ref().unwrap();
    let last = dealing.queues[3];
    assert_eq!(dealing.deal(&[0, 0, 0, 64 << 20], None), Some(last));
    assert_eq!(dealing.deal(&[0, 0, 0, 1 << 10], None), None, "less than a core's share of the cache stays");
    assert_eq!(dealing.deal(&[16 << 20; 4], None), None, "what lies everywhere stays");
    let vicus_schedule::When::LongerThan(limits) = &plan.seats[0].look[1].when else { panic!("a threshold") };
    assert_eq!(limits, &[4, 4, 4], "rank 1 times 4 cores");
    assert!(matches!(plan.seats[0].idle, Idle::BackOff { .. }));
}

#[test]
fn dealt_tasks_of_a_node_without_threads_go_to_the_nearest_one_with_threads() {
    for machine in fixtures() {
        for strategy in ["footprint", "vicinity", "locality-queues"] {
            let plan = strategy.parse::<Setting>().unwrap().plan(&machine, 2);
            let dealing = plan.dealing.as_ref().unwrap();
            for location in 0..dealing.queues.len() {
                let mut bytes = vec![0; dealing.queues.len()];
                bytes[location] = 1 << 40;
                if let Some(queue) = dealing.deal(&bytes, Some(location)) {
                    assert!(queue.index() < plan.queues.len(), "{}: {strategy}", machine.name);
                }
            }
        }
    }
}

#[test]
fn few_threads_sit_in_whole_groups() {
    let plan = plan("las", "node:2 l3:2 core:4", 6);
    let pool = |seat: usize| plan.seats[SeatId::new(seat).index()].pool.index();
    let pools: Vec<usize> = (0..6).map(pool).collect();
    assert_eq!(pools, [0, 0, 0, 0, 1, 1]);
}
