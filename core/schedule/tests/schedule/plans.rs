//! Every strategy's plan on real machines: no task is stranded, and it has the papers' structure.

use std::collections::BTreeSet;
use vicus_schedule::{
    ALL, Access, AllowedValues, DealResult, Dealing, Idle, Kind, Latencies, Mode, Parameter, Plan, QueueId, QueueOrder,
    Seat, SeatId, SeatPlan, Setting, Settings, Shares, Whereabouts,
};
use vicus_topology::{DealReason, GroupId, LocationId, NodeId, Topology, fixtures};

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
                plan.clone().with_front().assert_valid();
                let seats = plan.seats.iter().filter(|seat| !seat.spare).count();
                assert_eq!(seats, threads, "{} on {}", plan.strategy, machine.name);
                assert!(!plan.to_string().is_empty());
            }
        }
    }
}

/// A program spawned 200 equal tasks from one thread on a machine of four nodes. Once, the threads of one node ran them
/// all under `las`, and one thread under `bobox`.
#[test]
fn under_no_strategy_a_seat_leaves_the_tasks_of_a_program_to_another_one() {
    for machine in machines() {
        for strategy in ALL {
            let setting: Setting = strategy.name().parse().unwrap();
            for threads in thread_counts(&machine) {
                let plan = setting.plan(&machine, threads);
                assert_eq!(plan.idles_beside(), None, "{} on {}, {threads} threads", plan.strategy, machine.name);
            }
        }
    }
    let machine = Topology::parse("node:2 l3:2 core:2").unwrap();
    let las = "las".parse::<Setting>().unwrap().plan(&machine, 8);
    // As the paper has it for boxes: seat 0 is on node 0, seat 4 on node 1.
    let mut as_for_boxes = las;
    as_for_boxes.seats.iter_mut().for_each(|seat| seat.tasks = seat.place[Kind::Immediate as usize]);
    assert_eq!(as_for_boxes.idles_beside(), Some((SeatId::new(0), SeatId::new(4))));
    let vicinity = |setting: &str| setting.parse::<Setting>().unwrap().plan(&machine, 8).idles_beside();
    assert_eq!(vicinity("vicinity:undealt=beside,reach=1"), Some((SeatId::new(0), SeatId::new(2))));
    assert_eq!(vicinity("vicinity:undealt=beside,reach=0"), None);
}

/// The plan's threads, none of them spare, that take from a queue.
fn takers(plan: &Plan, queue: QueueId) -> Vec<SeatId> {
    let takes = |seat: &SeatPlan| seat.look.iter().any(|probe| probe.scan.queues().contains(&queue));
    let threads = plan.seats.iter().enumerate().filter(|(_, seat)| !seat.spare);
    threads.filter(|(_, seat)| takes(seat)).map(|(at, _)| SeatId::new(at)).collect()
}

/// The data of all tasks of a program lie at one place: its queue is full, and threads of other places take from it.
/// Those of `vicinity` stay in the vicinity of their data, as in the paper: eight core groups, unless `reach` is 0.
#[test]
fn under_no_strategy_a_seat_leaves_the_tasks_dealt_to_one_place_to_its_threads() {
    let mut dealing = BTreeSet::new();
    for machine in machines() {
        for setting in ALL.map(|strategy| strategy.name()).into_iter().chain(["vicinity:reach=0"]) {
            for threads in thread_counts(&machine) {
                let plan = setting.parse::<Setting>().unwrap().plan(&machine, threads);
                let queues = plan.dealing().map_or(&[][..], |dealing| &dealing.queues);
                let groups = |seats: &[SeatId]| -> BTreeSet<GroupId> {
                    seats.iter().map(|seat| machine.pus[plan.seats[seat.index()].pu.index()].group).collect()
                };
                let all: Vec<SeatId> =
                    (0..plan.seats.len()).map(SeatId::new).filter(|seat| !plan.seats[seat.index()].spare).collect();
                for &queue in queues {
                    dealing.insert(setting);
                    let found = takers(&plan, queue);
                    let what = format!("{} on {}, {threads} threads: {queue:?}", plan.strategy, machine.name);
                    if setting == "vicinity" && machine.core_groups.len() > 8 {
                        assert!((1..=8).contains(&groups(&found).len()), "{what}");
                        let whole =
                            all.iter().filter(|&&seat| groups(&found).contains(&groups(&[seat]).pop_first().unwrap()));
                        assert_eq!(whole.count(), found.len(), "{what}: all threads of these groups");
                    } else {
                        assert_eq!(found, all, "{what}");
                    }
                }
            }
        }
    }
    let names = ["footprint", "locality-queues", "vicinity", "vicinity:reach=0", "vicus"];
    assert_eq!(dealing, BTreeSet::from(names), "these deal");
}

/// All values of a parameter, or its ends and some in between.
fn some_values(parameter: &Parameter) -> Vec<String> {
    match parameter.values {
        AllowedValues::Named(names) => names.iter().map(|name| (*name).to_owned()).collect(),
        AllowedValues::OneOf(numbers) => numbers.iter().map(u32::to_string).collect(),
        AllowedValues::Between(least, most) => {
            let between = [1, 3, 1_000_000].into_iter().filter(|value| (least..=most).contains(value));
            between.chain([least, most]).map(|value| value.to_string()).collect()
        }
    }
}

#[test]
fn lists_of_settings_are_read_as_they_are_written() {
    // A multiplicative generator (Lehmer's, modulo 2^31 - 1) is good enough for choices.
    let mut chance = 1_u64;
    let mut below = |bound: usize| {
        chance = chance * 48_271 % 0x7FFF_FFFF;
        chance as usize % bound
    };
    for _ in 0..2000 {
        let mut settings: Vec<String> = Vec::new();
        for _ in 0..=below(4) {
            let strategy = ALL[below(ALL.len())];
            let mut text = strategy.name().to_owned();
            let mut separator = ':';
            for parameter in strategy.parameters() {
                let values = some_values(parameter);
                if below(2) == 0 {
                    text += &format!("{separator}{}={}", parameter.name, values[below(values.len())]);
                    separator = ',';
                }
            }
            // Some values exclude each other.
            if let Ok(setting) = text.parse::<Setting>() {
                settings.push(setting.to_string());
            }
        }
        if settings.is_empty() {
            continue;
        }
        let text = settings.join(",");
        let Settings(read) = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        let shown: Vec<String> = read.iter().map(Setting::to_string).collect();
        assert_eq!(shown, settings, "{text}");
        assert_eq!(Settings(read).to_string(), text);
        let alone = text.parse::<Setting>().map(|setting| setting.to_string());
        assert_eq!(alone.is_ok(), settings.len() == 1, "{text}: {alone:?}");
    }
}

#[test]
#[should_panic(expected = "waits, and leaves in tasks of node1 what others wait for")]
fn a_plan_whose_waiting_seats_leave_what_others_cannot_take_is_refused() {
    let mut plan = plan("footprint", "node:2 core:1", 2);
    plan.seats[1].look[0].while_waiting = false;
    plan.assert_valid();
}

#[test]
#[should_panic(expected = "threads are not bound, and seat0 is")]
fn a_plan_whose_threads_are_not_bound_has_no_seat_that_is() {
    let mut plan = plan("shepherd", "node:2 core:1", 2);
    plan.roams = true;
    plan.assert_valid();
}

/// A seat that stands in another one's place puts tasks into its own lock-free queue and into the shared ones of that
/// place, and takes the tasks there; and tasks at home when nothing is there.
#[test]
fn a_seat_that_is_not_bound_keeps_its_own_queue_and_uses_the_shared_ones_of_the_place_where_it_stands() {
    for strategy in ["las:pin=off", "vicus:pin=off", "footprint:pin=off", "vicinity:pin=off", "locality-queues:pin=off"]
    {
        let plan = plan(strategy, "node:2 core:2", 4);
        plan.assert_valid();
        let lock_free = plan.owner_lifos();
        let mut seat = Seat::<u32>::new(&plan, SeatId::new(0), |queue| lock_free[queue.index()]);
        seat.stand(SeatId::new(3));
        for kind in [Kind::Immediate, Kind::Deferred] {
            let (there, own) = (plan.place_of_task(SeatId::new(3), kind), plan.place_of_task(SeatId::new(0), kind));
            let is_owned = plan.queues[there.0.index()].owner.is_some();
            assert_eq!(seat.send_task(&plan, kind, None), if is_owned { own } else { there }, "{strategy}");
            let put = seat.send(&plan, kind, None).0;
            assert!(plan.queues[put.index()].owner.is_none_or(|owner| owner.index() == 0), "{strategy}");
        }
    }
}

#[test]
#[should_panic(expected = "seat1: rule 7 is none of 1 to 6")]
fn a_rule_without_a_counter_is_refused() {
    // A plan with such a rule once passed, and a thread that took a task by it panicked.
    let mut plan = plan("las", "core:2", 2);
    plan.seats[1].look[0].rule = 7;
    plan.assert_valid();
}

#[test]
fn every_strategy_has_a_thread_to_lend_for_each_pool() {
    for machine in machines() {
        for strategy in ALL {
            for threads in thread_counts(&machine) {
                let setting: Setting = strategy.name().parse().unwrap();
                let plan = setting.plan(&machine, threads);
                for pool in &plan.pools {
                    let (spares, own): (Vec<SeatId>, Vec<SeatId>) =
                        pool.seats.iter().partition(|seat| plan.seats[seat.index()].spare);
                    assert_eq!(spares.len(), own.len().min(4), "{} on {}", plan.strategy, machine.name);
                }
                let none = format!("{}:spares=0", strategy.name());
                assert!(!none.parse::<Setting>().unwrap().plan(&machine, threads).seats.iter().any(|seat| seat.spare));
            }
        }
    }
}

#[test]
fn parameters_keep_plans_valid() {
    let machine = Topology::parse("node:4 l3:2 core:4 pu:2").unwrap();
    for strategy in ALL {
        for parameter in strategy.parameters() {
            for value in some_values(parameter) {
                // A first pause may not be longer than the longest.
                let longest = if parameter.name == "backoff_ns" { ",backoff_max_ns=4294967295" } else { "" };
                let least = if parameter.name == "backoff_max_ns" { ",backoff_ns=1" } else { "" };
                let setting = format!("{}:{}={value}{longest}{least}", strategy.name(), parameter.name);
                setting.parse::<Setting>().unwrap().plan(&machine, 20).assert_valid();
            }
        }
    }
}

/// The strategies with queues for places.
const PLACED: [&str; 6] = ["las", "footprint", "vicinity", "locality-queues", "shepherd", "vicus"];

#[test]
fn a_strategy_with_queues_for_places_has_some_for_each_node() {
    for (machine, strategy) in machines().into_iter().flat_map(|machine| PLACED.map(|name| (machine.clone(), name))) {
        for threads in thread_counts(&machine) {
            let plan = strategy.parse::<Setting>().unwrap().plan(&machine, threads);
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
                    // Tasks sent to a node may lie with those dealt there, also for near seats, and not with tasks
                    // without a place or data.
                    let own = plan.seats[seat.index()].place[Kind::Deferred as usize];
                    let has_others = ["vicus", "footprint", "vicinity"].contains(&strategy);
                    let is_same = is_near && (!has_others || queues.contains(&own));
                    let expected = |queue: &QueueId| (!is_same).then_some(*queue);
                    assert!(found.into_iter().eq(queues.iter().map(expected)), "{strategy}");
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
    let deferred = numa.queues.iter().filter(|queue| queue.order == QueueOrder::ByRequest).count();
    assert_eq!(deferred, 4, "one deferred queue for each group");
    let affinities = |pin: &str, threads| -> Vec<usize> {
        let plan = plan(pin, "node:4 l3:1 core:8 pu:2", threads);
        plan.seats.iter().filter(|seat| !seat.spare).map(|seat| seat.affinity.len()).collect()
    };
    assert_eq!(affinities("las:pin=group", 64), [16; 64], "threads have the affinity of their group");
    assert_eq!(affinities("las", 64), [1; 64], "each has a PU of its own");
    assert_eq!(affinities("las", 65).iter().filter(|&&pus| pus == 16).count(), 17, "in the group of one too many");
    assert!(numa.seats.iter().filter(|seat| seat.spare).all(|seat| seat.affinity.len() == 16));
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
    for strategy in ["las", "nls", "steal", "vicus"] {
        let plan = plan(strategy, "node:2 l3:1 core:4", 8);
        for (queue, own) in plan.queues.iter().zip(plan.owner_lifos()) {
            assert_eq!(own, queue.owner.is_some(), "{strategy}: {}", queue.name);
        }
    }
    let bobox = plan("bobox", "core:4", 4);
    let lock_free = bobox.owner_lifos().into_iter().filter(|own| *own).count();
    assert_eq!(
        lock_free, 8,
        "of four threads and those that are lent: immediate queues are only their owners'; thieves take several from \
            the stealing queues"
    );
}

#[test]
fn footprint_deals_to_the_node_with_the_bytes_and_robs_only_long_queues() {
    // Muddukrishna et al., algorithm 1: 4 nodes, all bytes on the last.
    let plan = plan("footprint", "node:4 l3:1 core:4", 16);
    let dealing = plan.dealing().unwrap();
    let last = dealing.queues[3];
    assert_eq!(dealt(dealing, &[0, 0, 0, 64 << 20]), Some(last));
    assert_eq!(dealt(dealing, &[0, 0, 0, 1 << 10]), None, "less than a core's share of the cache stays");
    assert_eq!(dealt(dealing, &[16 << 20; 4]), None, "what lies everywhere stays");
    let last = plan.seats[0].look.last().unwrap();
    let vicus_schedule::When::LongerThan(limits) = &last.when else { panic!("a threshold") };
    assert_eq!(limits, &[4, 4, 4], "rank 1 times 4 cores");
    assert!(matches!(plan.seats[0].idle, Idle::BackOff { .. }));
}

/// The queue for a task with these bytes at each location. Home numbers distinguish locations on one node's memory.
fn dealt(dealing: &Dealing, bytes: &[u64]) -> Option<QueueId> {
    let mut shares = Shares::default();
    for (location, &bytes) in bytes.iter().enumerate() {
        let location = LocationId::new(location);
        let at = |node: usize| Some((node, dealing.locations[node].iter().position(|&at| at == location)?));
        let (node, home) = (0..dealing.locations.len()).find_map(at).unwrap();
        shares.add(dealing, NodeId::new(node), home, bytes);
    }
    dealing.deal_shares(&shares).queue
}

/// The strategies that deal.
const DEALS: [&str; 5] = ["footprint", "vicinity", "locality-queues", "locality-queues:domain=group", "vicus"];

#[test]
fn a_deal_goes_to_the_nearest_node_with_threads_and_wakes_a_worker_there_first() {
    for machine in machines() {
        let ranks = machine.numa_ranks();
        for (strategy, threads) in DEALS.into_iter().flat_map(|name| [1, 2, 5].map(|threads| (name, threads))) {
            let plan = strategy.parse::<Setting>().unwrap().plan(&machine, threads);
            let dealing = plan.dealing().unwrap();
            let seats = || plan.seats.iter().map(|seat| seat.node);
            for (node, row) in ranks.iter().enumerate() {
                // All numbers: tasks with data on a node are dealt to each of its home caches.
                for number in 0..machine.core_groups.len() {
                    let mut shares = Shares::default();
                    shares.add(dealing, NodeId::new(node), number, 1 << 40);
                    let Some(queue) = dealing.deal_shares(&shares).queue else {
                        assert!(["footprint", "vicus"].contains(&strategy), "{strategy}");
                        assert_eq!(machine.nodes.len(), 1, "with one node all is even");
                        continue;
                    };
                    let woken = plan.pools[plan.queues[queue.index()].wake[0].index()].seats[0];
                    let (woken, least) = (plan.seats[woken.index()].node, seats().map(|node| row[node.index()]).min());
                    if seats().any(|seat| seat.index() == node) {
                        assert_eq!(woken.index(), node, "{}: {strategy}, {threads} threads", machine.name);
                    } else if strategy != "vicinity"
                        && machine.distances[node].iter().all(|&far| far >= machine.distances[node][node])
                    {
                        assert_eq!(Some(row[woken.index()]), least, "{}: {strategy}, {threads} threads", machine.name);
                    }
                }
            }
        }
    }
}

/// Wittmann and Hager, §4: a locality queue for the cores with a common cache.
#[test]
fn locality_queues_are_of_nodes_or_of_shared_caches() {
    let machine = Topology::parse("node:2 l3:2 core:2").unwrap();
    let plan = |setting: &str| setting.parse::<Setting>().unwrap().plan(&machine, 8);
    let regular =
        |plan: &Plan| plan.seats.iter().filter(|seat| !seat.spare).map(|seat| seat.place[0].index()).collect();
    let (nodes, caches): (Vec<usize>, Vec<usize>) =
        (regular(&plan("locality-queues")), regular(&plan("locality-queues:domain=group")));
    assert_eq!((nodes, caches), (vec![0, 0, 0, 0, 1, 1, 1, 1], vec![0, 0, 1, 1, 2, 2, 3, 3]));
    let plan = plan("locality-queues:domain=group");
    let looks: Vec<usize> =
        plan.seats[4].look.iter().flat_map(|probe| probe.scan.queues()).map(|queue| queue.index()).collect();
    assert_eq!(looks, [2, 3, 0, 1], "its own, and then the next ones, cyclically");
    // The homes on a node belong to its caches in turn.
    let dealing = plan.dealing().unwrap();
    let homes = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 2, 3]];
    let queues = homes.map(|bytes| dealt(dealing, &bytes).map(|queue| queue.index()));
    assert_eq!(queues, [Some(0), Some(1), Some(2), Some(2)], "both caches of a node are as near: the first byte's");
}

#[test]
fn vicinity_deals_by_measured_latencies() {
    // Three home caches on one node, alike in the topology; the middle one is far from the others.
    let machine = Topology::parse("l3:3 core:2").unwrap();
    let setting: Setting = "vicinity:private_bytes=1,undealt=beside".parse().unwrap();
    let latencies = Latencies::new(&machine, vec![vec![5, 50, 10], vec![50, 5, 50], vec![10, 50, 5]]).unwrap();
    let (plain, measured) = (setting.plan(&machine, 6), setting.plan_with(&machine, 6, Some(&latencies)));
    measured.assert_valid();
    // By hand: for a little more at the middle cache than at each other, 4 x 50 + 3 x 5 + 3 x 10 = 245 at the first,
    // 3 x 50 + 4 x 5 + 3 x 50 = 320 at the middle.
    let dealt = |plan: &Plan| dealt(plan.dealing().unwrap(), &[3, 4, 3]).unwrap();
    assert_eq!(dealt(&plain), plain.seats[2].place[0], "the most bytes");
    assert_eq!(dealt(&measured), measured.seats[0].place[0], "the least latency");
    // With one thread, in the first cache, all homes are its own.
    let alone = setting.plan_with(&machine, 1, Some(&latencies));
    assert!(alone.dealing().unwrap().queues.iter().all(|&queue| queue == alone.seats[0].place[0]));
    for strategy in ALL.into_iter().filter(|strategy| !strategy.wants_latencies(&machine)) {
        let setting: Setting = strategy.name().parse().unwrap();
        assert_eq!(setting.plan(&machine, 6), setting.plan_with(&machine, 6, Some(&latencies)));
    }
}

#[test]
fn the_data_of_a_node_are_spread_over_its_home_caches() {
    let machine = Topology::parse("node:2 l3:2 core:2").unwrap();
    let plan = plan("vicinity", "node:2 l3:2 core:2", 8);
    let dealing = plan.dealing().unwrap();
    assert_eq!(dealing.locations, [[0, 1], [2, 3]].map(|of_node| of_node.map(LocationId::new)));
    assert_eq!(dealing.cycle(), 2);
    for number in 0..4 {
        let by_hand = if number % 2 == 0 { 2 } else { 3 };
        let mut shares = Shares::default();
        shares.add(dealing, machine.nodes[1].id, number, 1 << 20);
        shares.add(dealing, machine.nodes[0].id, 0, 1);
        assert_eq!(dealing.deal_shares(&shares).queue, Some(dealing.queues[by_hand]));
    }
}

/// Data at given places: start, bytes, node, home number, and whether its allocation lies there as a whole.
struct Data(Vec<(usize, usize, usize, usize, bool)>);

impl Whereabouts for Data {
    fn is_in_one_place(&self, stretch: &std::ops::Range<usize>) -> bool {
        self.0.iter().any(|&(start, bytes, .., whole)| whole && (start..start + bytes).contains(&stretch.start))
    }

    fn tell(&mut self, stretch: std::ops::Range<usize>, _: usize, tell: &mut dyn FnMut(NodeId, usize, u64)) {
        for &(start, bytes, node, home, _) in &self.0 {
            let (from, to) = (stretch.start.max(start), stretch.end.min(start + bytes));
            tell(NodeId::new(node), home, to.saturating_sub(from) as u64);
        }
    }
}

/// There was once a function for each world. On threads, the choice among equals rotated with the number of the task,
/// so the same datum went to another cache each time; in the simulator, the first location got all of them. Of two
/// intensely used data, one took the first and the other the last.
#[test]
fn the_same_data_are_dealt_to_the_same_place_and_equals_are_spread() {
    let plan = plan("vicinity:private_bytes=32768", "node:2 l3:2 core:2", 8);
    let dealing = plan.dealing().unwrap();
    let (mib, mut shares) = (1 << 20, Shares::default());
    let places = [(0, 0), (1, 0), (0, 1), (1, 1)];
    let whole = places.iter().enumerate().map(|(at, &(node, home))| (at * mib, mib, node, home, true));
    let mut data = Data(whole.chain([(4 * mib, mib, 1, 1, false)]).collect());
    let mut deal = |said: &[Access]| dealing.deal(said, &mut shares, &mut data);
    let datum = |at: usize| Access::new(at * mib, mib, Mode::Read);
    let by = |location: usize, looked_up, why, share| DealResult {
        queue: Some(dealing.queues[location]),
        looked_up,
        stretches: 0,
        why,
        share,
    };
    let to = |location, looked_up, share| by(location, looked_up, Some(DealReason::Nearest), share);
    for _ in 0..3 {
        for (at, location) in [0, 2, 1, 3].into_iter().enumerate() {
            assert_eq!(deal(&[datum(at)]), to(location, 1, 100));
            // Two equal shares, on both nodes: the first datum's node wins.
            assert_eq!(deal(&[datum(at), datum(at ^ 1)]), to(location, 2, 50));
            assert_eq!(
                deal(&[datum(0), datum(at).intense(), datum(3).intense()]),
                by(location, 1, Some(DealReason::Home), 100),
                "the first one"
            );
        }
        let small = DealResult { why: Some(DealReason::Small), ..DealResult::NONE };
        assert_eq!(deal(&[datum(4)]), small, "it is not coarse");
        assert_eq!(deal(&[datum(4).intense(), datum(0)]), to(0, 1, 100), "nor does it decide");
        assert_eq!(deal(&[Access::new(0, 100, Mode::Read)]), small, "in a private cache, wherever it lies");
        let rows = Access::new(0, mib / 2, Mode::Read).rows(4, mib);
        assert_eq!(deal(&[rows]), DealResult { stretches: 3, ..to(0, 1, 25) }, "half of each of the four");
    }
}

#[test]
fn thresholds_are_the_caches_of_the_machine() {
    // AMD's data sheet of the EPYC 7763: an L3 of 32 MiB for each 8 cores, an L1 of 32 KiB for each.
    let machine = fixtures().into_iter().find(|machine| machine.name == "AMD-19h-Zen3-2xEpyc-7763").unwrap();
    let threshold_on = |machine: &Topology, strategy: &str| {
        let plan = strategy.parse::<Setting>().unwrap().plan(machine, machine.usable_pus().count());
        plan.dealing().unwrap().more_bytes_than
    };
    let threshold = |strategy: &str| threshold_on(&machine, strategy);
    assert_eq!(threshold("footprint"), 1 << 20, "as on the authors' machine, and not 4 MiB");
    // An L3 of 6 MiB for six cores, with one MiB for the directory of the coherence protocol.
    let opteron = fixtures().into_iter().find(|machine| machine.name == "AMD-K10-Istanbul-8xOpteron-8439SE").unwrap();
    assert_eq!(threshold_on(&opteron, "footprint"), (5 << 20) / 6);
    assert_eq!(threshold("vicinity"), 32 << 10);
    assert_eq!(threshold("locality-queues"), 0);
}

#[test]
fn memory_without_cores_belongs_to_the_nearest_home_caches() {
    let machine = fixtures().into_iter().find(|machine| machine.name == "emulated-memory-node").unwrap();
    let memory = machine.nodes.iter().find(|node| node.pus.is_empty()).unwrap();
    let plan = "vicinity".parse::<Setting>().unwrap().plan(&machine, machine.usable_pus().count());
    let dealing = plan.dealing().unwrap();
    let rank = |group: usize| machine.numa_rank(memory.id, machine.core_groups[group].node);
    let least = (0..machine.core_groups.len()).map(rank).min().unwrap();
    let nearest = (0..machine.core_groups.len()).filter(|&group| rank(group) == least).map(LocationId::new);
    assert_eq!(dealing.locations[memory.id.index()], nearest.collect::<Vec<_>>());
}

#[test]
fn a_queue_that_grows_long_wakes_its_robbers() {
    // Rank times four cores; the queue's own node is woken at any length.
    let plan = plan("footprint", "node:3 l3:1 core:4", 12);
    let robbers =
        |queue: usize| plan.queues[queue].robbers.iter().map(|robber| (robber.pool.index(), robber.longer_than));
    assert!(robbers(0).eq([(1, 4), (2, 4)]) && robbers(1).eq([(2, 4), (0, 4)]));
    let others = ALL.into_iter().filter(|strategy| !["footprint", "vicus"].contains(&strategy.name()));
    for strategy in others {
        let setting: Setting = strategy.name().parse().unwrap();
        let plan = setting.plan(&Topology::parse("node:3 l3:1 core:4").unwrap(), 12);
        assert!(plan.queues.iter().all(|queue| queue.robbers.is_empty()), "{}", plan.strategy);
    }
}

#[test]
fn a_plan_shows_all_its_decisions() {
    let text = |strategy: &str| plan(strategy, "node:2 l3:1 core:2", 4).to_string();
    assert!(text("locality-queues").contains("\ntokens: at most 256; a task is taken with one\n"));
    assert!(text("footprint").contains("wakes [pool0], beyond 2 pool1\n"), "{}", text("footprint"));
    assert!(text("footprint").contains("\n  else pauses for 1000 ns, then 2 times as long, up to 1000000 ns\n"));
    assert!(
        text("vicinity")
            .contains(" bytes, coarse memory only, an intensely used datum's home first: to tasks of pool0")
    );
    assert!(text("las").contains("\n  else sleeps after 10000 ns\n"));
    let bobox = text("bobox");
    assert!(
        bobox.contains("q0 immediate of seat0: Deque, home node0, pushed by seat0 alone, wakes [pool0]\n"),
        "{bobox}"
    );
    let thief = "3. Several(Youngest, 4) of round robin stealing of seat1, stealing of seat2, stealing of seat3";
    assert!(
        bobox.contains(&format!(
            "\n  {thief}, the rest to stealing of seat0; while it waits for a task, of that task's request alone\n"
        )),
        "{bobox}"
    );
    assert!(bobox.contains("\npool3: seat3, seat7\n"), "{bobox}");
    // Two nodes of one cache each, 10 and 20 apart in the one-line notation, as on most machines.
    let footprint = text("footprint");
    for line in [
        "  node0 is at locations [0]",
        "  node1 is at locations [1]",
        "  location0: tasks of node0; a byte costs [10, 20]",
        "  location1: tasks of node1; a byte costs [20, 10]",
    ] {
        assert!(footprint.contains(&format!("\n{line}\n")), "{line}: {footprint}");
    }
    let vicinity = plan("vicinity", "node:2 l3:2 core:1", 4).to_string();
    let line = "  location0: tasks of pool0; a byte costs [10, 11, 21, 21]";
    assert!(vicinity.contains(&format!("\n{line}\n")), "{vicinity}");
    assert!(vicinity.contains("\n  node1 is at locations [2, 3], in turn by home number\n"), "{vicinity}");
}

#[test]
fn few_threads_sit_in_whole_groups() {
    let plan = plan("las", "node:2 l3:2 core:4", 6);
    let pool = |seat: usize| plan.seats[SeatId::new(seat).index()].pool.index();
    let pools: Vec<usize> = (0..6).map(pool).collect();
    assert_eq!(pools, [0, 0, 0, 0, 1, 1]);
}

/// The number of tasks beyond which seats of the other node take tasks dealt to a node of four cores, at this distance,
/// with 10 to itself.
fn far_seats_take_beyond(far: u32, setting: &str) -> Vec<u32> {
    let mut machine = Topology::parse("node:2 l3:1 core:4").unwrap();
    machine.distances = vec![vec![10, far], vec![far, 10]];
    let plan = setting.parse::<Setting>().unwrap().plan(&machine, 8);
    plan.assert_valid();
    let dealt = &plan.queues[plan.dealing().unwrap().queues[1].index()];
    assert_eq!(dealt.name, "dealt to node1");
    dealt.robbers.iter().map(|robber| robber.longer_than).collect()
}

#[test]
fn vicus_leaves_a_dealt_task_where_its_bytes_are_as_long_as_that_pays() {
    // Half of a task's time is memory's; it takes 0.3 times as long in addition if memory is 1.6 times as far. With one
    // task before it on four cores it begins after a quarter of a task, with two after a half.
    assert_eq!(far_seats_take_beyond(16, "vicus"), [2]);
    assert_eq!(far_seats_take_beyond(16, "vicus:memory=100"), [3]);
    assert_eq!(far_seats_take_beyond(12, "vicus"), [1]);
    // Never beyond the next tasks to begin.
    assert_eq!(far_seats_take_beyond(90, "vicus:memory=100"), [4]);
    // Tasks without waits for memory are taken at once, and a push wakes far seats for them as it wakes near ones.
    assert!(far_seats_take_beyond(90, "vicus:memory=0").is_empty());
    let machine = Topology::parse("node:2 l3:1 core:4").unwrap();
    let plan = "vicus:memory=0".parse::<Setting>().unwrap().plan(&machine, 8);
    let dealt = &plan.queues[plan.dealing().unwrap().queues[1].index()];
    assert_eq!(dealt.wake.iter().map(|pool| pool.index()).collect::<Vec<_>>(), [1, 0]);
}

#[test]
fn vicus_deals_to_nodes_and_on_a_chip_to_home_caches() {
    // A node with two core groups has one queue for both.
    let numa = plan("vicus", "node:2 l3:2 core:2", 8);
    let dealing = numa.dealing().unwrap();
    assert_eq!(dealing.queues.len(), 2);
    assert_eq!(numa.queues[dealing.queues[1].index()].wake.iter().map(|pool| pool.index()).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(dealt(dealing, &[0, 1 << 20]), Some(dealing.queues[1]));
    assert_eq!(dealt(dealing, &[1 << 20, 1 << 20]), None, "what lies everywhere stays");
    let why = |bytes: [u64; 2]| {
        let mut shares = Shares::default();
        bytes.into_iter().enumerate().for_each(|(node, bytes)| shares.add(dealing, NodeId::new(node), 0, bytes));
        let DealResult { why, share, .. } = dealing.deal_shares(&shares);
        (why, share)
    };
    assert_eq!(why([1 << 20, 1 << 20]), (Some(DealReason::Even), 0));
    assert_eq!(why([1 << 20, 3 << 20]), (Some(DealReason::Nearest), 75));
    assert_eq!(why([0, 0]), (Some(DealReason::Small), 0));
    // Measured latencies between the caches of a node make no difference there: the distance is memory's.
    let machine = Topology::parse("node:2 l3:2 core:2").unwrap();
    let near = |a: usize, b: usize| if a == b { 10 } else { 40 + 60 * u32::from(a / 2 != b / 2) };
    let rows = (0..4).map(|a| (0..4).map(|b| near(a, b)).collect()).collect();
    let latencies = Latencies::new(&machine, rows).unwrap();
    let setting: Setting = "vicus".parse().unwrap();
    assert_eq!(setting.plan_with(&machine, 8, Some(&latencies)).dealing().unwrap().queues.len(), 2);
    // On one node they are all there is.
    let chip = Topology::parse("l3:3 core:2").unwrap();
    let latencies = Latencies::new(&chip, vec![vec![5, 50, 10], vec![50, 5, 50], vec![10, 50, 5]]).unwrap();
    let of_caches = setting.plan_with(&chip, 6, Some(&latencies));
    of_caches.assert_valid();
    let dealing = of_caches.dealing().unwrap();
    assert!(dealing.only_coarse && dealing.intensity_first);
    let names: Vec<&str> = dealing.queues.iter().map(|queue| of_caches.queues[queue.index()].name.as_str()).collect();
    assert_eq!(names, ["dealt to pool0", "dealt to pool1", "dealt to pool2"]);
    // As a seat of the first cache looks: the third is nearer than the second.
    let robs = of_caches.seats[0].look.iter().find(|probe| matches!(probe.when, vicus_schedule::When::LongerThan(_)));
    assert_eq!(robs.unwrap().scan.queues(), [dealing.queues[2], dealing.queues[1]]);
}

#[test]
fn vicus_wakes_near_seats_first_and_leaves_no_immediate_task_to_one_node() {
    let plan = plan("vicus", "node:2 l3:2 core:2", 8);
    let own = plan.seats[5].place[Kind::Immediate as usize];
    let wake: Vec<usize> = plan.queues[own.index()].wake.iter().map(|pool| pool.index()).collect();
    assert_eq!(wake, [2, 3, 0, 1]);
    for seat in &plan.seats {
        assert!(seat.look.iter().any(|probe| probe.scan.queues().contains(&own)));
    }
}

#[test]
fn deferred_tasks_spill_into_their_spawners_own_queue_under_vicus_alone() {
    let machine = Topology::parse("node:2 core:4").unwrap();
    let spills = |setting: &str, kind| {
        let plan = setting.parse::<Setting>().unwrap().plan(&machine, 8);
        let locks = plan.owner_lifos();
        let mut seat: Seat<u32> = Seat::new(&plan, SeatId::new(5), |queue| locks[queue.index()]);
        assert_eq!(seat.spill(kind, || true, || false), None, "{setting}");
        let spilled = seat.spill(kind, || true, || true);
        assert!(spilled.is_none_or(|queue| plan.queues[queue.index()].owner == Some(SeatId::new(5))), "{setting}");
        // It looks again after 64 of them.
        let mut count = || std::iter::from_fn(|| seat.spill(kind, || true, || false)).take(100).count();
        assert_eq!(count(), if spilled.is_some() { 63 } else { 0 }, "{setting}");
        // Not one more when another request has come.
        seat.spill(kind, || true, || true);
        assert_eq!(seat.spill(kind, || false, || true), None, "{setting}");
        let mut count = || std::iter::from_fn(|| seat.spill(kind, || true, || false)).take(100).count();
        assert_eq!(count(), 0, "{setting}");
        spilled.is_some()
    };
    for strategy in ALL {
        let is_vicus = strategy.name() == "vicus";
        assert_eq!(spills(strategy.name(), Kind::Deferred), is_vicus, "{}", strategy.name());
        assert!(!spills(strategy.name(), Kind::Immediate), "{}", strategy.name());
    }
    assert!(!spills("vicus:spill=off", Kind::Deferred));
    let shown = |setting: &str| setting.parse::<Setting>().unwrap().plan(&machine, 8).to_string();
    assert!(
        shown("vicus").contains("once another seat uses their queue") && !shown("vicus:spill=off").contains("uses")
    );
}
