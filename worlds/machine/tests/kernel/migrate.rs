//! Memory asked to move: footprints agree at once with the kernel on its new node.

use crate::foreign::{BYTES, Foreign, Moving, moving, run_on};
use crate::left_out;
use crate::placed::kernel_says;
use crate::sysfs::{Cpus, Machine, own_cpus};
use std::alloc::Layout;
use vicus_machine::{
    Everywhere, MachineRuntime, awaits_touch, footprint, footprint_of, migrate, migrate_at_next_touch, touch,
};
use vicus_memory::Footprint;
use vicus_memory::distribution::Distribution;
use vicus_schedule::{Access, Mode, Whereabouts};
use vicus_topology::NodeId;

fn addresses(of: &[u8]) -> std::ops::Range<usize> {
    let range = of.as_ptr_range();
    range.start.addr()..range.end.addr()
}

impl Moving<'_> {
    fn node(&self, number: u32) -> NodeId {
        NodeId::new(self.nodes.iter().position(|&at| at == number).expect("a node of ours"))
    }

    /// How many of the whole pages within memory lie on a node.
    fn pages_on(&self, of: &[u8], number: u32) -> (usize, usize) {
        let before = of.as_ptr().addr().next_multiple_of(self.page) - of.as_ptr().addr();
        let whole = &of[before..before + (of.len() - before) / self.page * self.page];
        let numbers = kernel_says(whole, self.page);
        (numbers.iter().filter(|&&at| at == number as i32).count(), numbers.len())
    }
}

#[test]
fn memory_moves_to_a_node_and_footprints_say_so_at_once() {
    moving(|at| {
        let mut mapped = Foreign::mapped(None);
        mapped.fill(7);
        for round in 0..4 {
            let number = at.numbers[round % 2];
            let _ = footprint(&mapped);
            let moved = migrate(addresses(&mapped), at.node(number)).unwrap();
            let (there, all) = at.pages_on(&mapped, number);
            assert_eq!(there, all, "round {round}");
            assert!(moved >= all * at.page, "round {round}: {moved}");
            assert_eq!(footprint(&mapped), at.truth(&mapped), "round {round}");
        }
        assert!(mapped.iter().all(|&byte| byte == 7));
        // A half of it.
        migrate(addresses(&mapped[..BYTES / 2]), at.node(at.numbers[0])).unwrap();
        migrate(addresses(&mapped[BYTES / 2..]), at.node(at.numbers[1])).unwrap();
        assert_eq!(footprint(&mapped), at.truth(&mapped));
        // Untouched memory stays nowhere.
        let untouched = Foreign::mapped(None);
        assert_eq!(migrate(addresses(&untouched), at.node(at.numbers[0])).unwrap(), 0);
        let error = migrate(addresses(&mapped), NodeId::new(at.nodes.len())).unwrap_err();
        assert!(error.to_string().contains("there is no node"), "{error}");
        vicus_machine::forget(&mapped);
    });
}

/// The requested place is false then.
#[test]
fn placed_memory_moves_as_well() {
    moving(|at| {
        let runtime = MachineRuntime::builder().topology(at.topology.clone()).threads(1).quiet().start();
        for distribution in [Distribution::Coarse, Distribution::Fine, Distribution::Standard] {
            let mut placed = runtime.alloc(Layout::new::<[u8; BYTES]>(), distribution.clone()).unwrap();
            placed.bytes_mut().fill(1);
            for number in at.numbers {
                migrate(addresses(placed.bytes()), at.node(number)).unwrap();
                let mut nodes = vec![0; at.nodes.len()];
                // Its last page has less than half of a page, and stays.
                for (part, lies) in placed.bytes().chunks(at.page).zip(kernel_says(placed.bytes(), at.page)) {
                    nodes[at.node(lies as u32).index()] += part.len();
                }
                let what = format!("{distribution}, to {number}");
                assert_eq!(at.pages_on(placed.bytes(), number).0, BYTES / at.page, "{what}");
                assert_eq!(footprint(placed.bytes()), Footprint { nodes: nodes.clone(), unknown: 0 }, "{what}");
                let rows = [Access::new(placed.bytes().as_ptr().addr(), 4096, Mode::Read).rows(8, 8192)];
                assert_eq!(footprint_of(&rows).nodes[at.node(number).index()], 8 * 4096, "{what}");
            }
        }
    });
}

#[test]
fn marked_memory_moves_to_the_first_task_that_uses_it() {
    let Some(kernel) = Machine::read() else { return left_out("sysfs has no nodes, cores or caches") };
    moving(|at| {
        let mut mapped = Foreign::mapped(None);
        mapped.fill(1);
        let all = Access::new(mapped.as_ptr().addr(), BYTES, Mode::Read);
        let half = Access::new(mapped.as_ptr().addr(), BYTES / 2, Mode::Read);
        for number in at.numbers {
            let home = kernel.nodes.iter().find(|node| node.number == number).expect("a node of the kernel's");
            let cpus: Cpus = home.cpus.intersection(&own_cpus()).copied().collect();
            if cpus.is_empty() {
                continue;
            }
            migrate_at_next_touch(addresses(&mapped)).unwrap();
            let touched = std::thread::spawn(move || {
                run_on(&cpus);
                let first = touch(&[half]);
                (first, touch(&[half]), awaits_touch())
            });
            let (first, again, is_left) = touched.join().unwrap();
            assert!(first + 2 * at.page >= BYTES / 2 && again == 0 && is_left, "{first}, {again}");
            assert!(at.pages_on(&mapped[..BYTES / 2], number).0 + 2 >= BYTES / 2 / at.page);
            assert_eq!(footprint(&mapped), at.truth(&mapped));
            // The other half, on any node.
            assert!(touch(&[all]) > 0 && touch(&[all]) == 0);
            assert_eq!(footprint(&mapped), at.truth(&mapped));
        }
        // A task that names memory without a place yet is not dealt by it: all threads take such tasks.
        let told = || {
            let mut bytes = 0;
            Everywhere.tell(addresses(&mapped), 1, &mut |_, _, more| bytes += more);
            Everywhere.tell_all(&half, 1, &mut |_, _, more| bytes += more);
            (bytes > 0, Everywhere.node_of(half.start).is_some())
        };
        assert_eq!(told(), (true, true));
        migrate_at_next_touch(addresses(&mapped)).unwrap();
        assert_eq!(told(), (false, false));
        touch(&[all]);
        assert_eq!(told(), (true, true));
        // Freed memory is not marked any more.
        migrate_at_next_touch(addresses(&mapped)).unwrap();
        vicus_machine::forget(&mapped);
        assert!(at.nodes.len() == 1 || touch(&[all]) == 0);
        touch(&[all]);
    });
}
