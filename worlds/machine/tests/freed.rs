//! Tasks with data declared by address, and memory freed too early. Debug builds see it.
#![cfg(debug_assertions)]

use std::alloc::{GlobalAlloc, Layout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use vicus_machine::{Allocator, MachineRuntime, Scope, child, scope, wait_for_children};
use vicus_memory::Placed;
use vicus_memory::distribution::Distribution;
use vicus_schedule::{Access, Mode};

/// An allocator for all of a program's memory.
static ALLOCATOR: Allocator = Allocator::new();

/// Held by each test: otherwise another test's memory could get addresses freed by this one.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory from each of the possible sources, until it is freed.
enum Data {
    Placed(Placed),
    Block(NonNull<u8>, Layout),
}

impl Data {
    fn block(bytes: usize) -> Data {
        let layout = Layout::from_size_align(bytes, 8).unwrap();
        #[expect(unsafe_code, reason = "asks the allocator itself")]
        // SAFETY: the layout has bytes.
        let block = unsafe { ALLOCATOR.alloc(layout) };
        Data::Block(NonNull::new(block).unwrap(), layout)
    }

    /// A placed range; blocks of a superblock, and one mapped for itself.
    fn of_each_kind(runtime: &MachineRuntime) -> [Data; 4] {
        let placed = runtime.alloc(Layout::new::<[u8; 20_000]>(), Distribution::Fine).unwrap();
        [Data::Placed(placed), Data::block(8 << 10), Data::block(100_000), Data::block(3 << 20)]
    }

    fn access(&self) -> Access {
        match self {
            Data::Placed(placed) => Access::of(placed.bytes(), Mode::Read),
            Data::Block(block, layout) => Access::new(block.addr().get(), layout.size(), Mode::Read),
        }
    }

    fn free(self) {
        match self {
            Data::Placed(placed) => drop(placed),
            #[expect(unsafe_code, reason = "asks the allocator itself")]
            // SAFETY: it came from there with this layout, and is freed once.
            Data::Block(block, layout) => unsafe { ALLOCATOR.dealloc(block.as_ptr(), layout) },
        }
    }
}

/// The panic message of a scope on one thread. Its task runs after the scope's closure.
fn panic_of<'s>(runtime: &MachineRuntime, f: impl FnOnce(&Scope<'s>) + Send) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| runtime.run(|| scope(f)))).expect_err("the memory was freed");
    panic.downcast_ref::<String>().expect("a message").clone()
}

#[track_caller]
fn assert_says(message: &str, access: Access, when: &str, line: u32) {
    let expected = [
        format!("{access:?}"),
        format!("when it {when}, {:#x} was freed, or never allocated", access.start),
        format!("described at {}:{line}:", file!()),
    ];
    for part in expected {
        assert!(message.contains(&part), "`{message}` does not say `{part}`");
    }
}

#[expect(unsafe_code, reason = "freed by the task's spawner")]
// SAFETY: addresses of memory that any thread may free.
unsafe impl Send for Data {}

#[test]
fn memory_that_was_freed_before_a_task_is_described_is_named() {
    let _alone = alone();
    let runtime = MachineRuntime::builder().threads(1).quiet().start();
    for data in Data::of_each_kind(&runtime) {
        let access = data.access();
        data.free();
        let message = panic_of(&runtime, |scope| {
            scope.task().touches(&[access]).spawn(|()| unreachable!("its description panics"));
        });
        assert_says(&message, access, "was described", line!() - 2);
    }
}

#[test]
fn memory_that_is_freed_before_a_task_runs_is_named() {
    let _alone = alone();
    let runtime = MachineRuntime::builder().threads(1).quiet().start();
    for data in Data::of_each_kind(&runtime) {
        let access = data.access();
        let has_run = AtomicBool::new(false);
        let message = panic_of(&runtime, |scope| {
            let task = scope.task().touches(&[access]);
            task.spawn(|()| has_run.store(true, Ordering::Relaxed));
            data.free();
        });
        assert_says(&message, access, "was to run", line!() - 4);
        assert!(!has_run.into_inner());
    }
}

#[test]
fn a_task_that_waits_is_looked_at_when_its_turn_has_come() {
    let _alone = alone();
    let runtime = MachineRuntime::builder().threads(1).quiet().start();
    for data in Data::of_each_kind(&runtime) {
        let access = data.access();
        let message = panic_of(&runtime, |scope| {
            scope.task().follows(&[Access { mode: Mode::Write, ..access }]).spawn(move |()| data.free());
            scope.task().follows(&[access]).spawn(|()| unreachable!("it follows one that frees what it reads"));
        });
        assert_says(&message, access, "was to run", line!() - 2);
    }
}

#[test]
fn memory_that_is_freed_before_a_child_runs_is_named() {
    let _alone = alone();
    let runtime = MachineRuntime::builder().threads(1).quiet().start();
    for data in Data::of_each_kind(&runtime) {
        let access = data.access();
        let message = panic_of(&runtime, |_| {
            child().touches(&[access]).spawn(|| unreachable!("its memory is freed"));
            data.free();
            wait_for_children();
        });
        assert_says(&message, access, "was to run", line!() - 4);
    }
}

#[test]
fn memory_that_lives_until_the_scope_ends_is_no_mistake() {
    let _alone = alone();
    let runtime = MachineRuntime::builder().threads(1).quiet().start();
    for data in Data::of_each_kind(&runtime) {
        let access = data.access();
        let mut has_run = false;
        runtime.run(|| {
            scope(|scope| {
                let run = &mut has_run;
                // All of it, and parts of it.
                let rows = Access::new(access.start + 7, 100, Mode::Read).rows(8, 1000);
                scope.task().touches(&[access, rows]).spawn(move |()| *run = true);
            });
        });
        assert!(has_run);
        data.free();
    }
}
