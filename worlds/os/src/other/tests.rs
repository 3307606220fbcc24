//! The rooms for other systems, asked for what is asked of Linux's. They run on Linux here.

use super::loaded::LoadedFile;
use super::{calls, files, pages, pin};
use std::alloc::Layout;
use std::ffi::CStr;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use vicus_files::{Directory, FileOperation, LockError, OpenMode, conformance};
use vicus_memory::{Heap, Memory, MemoryOptions, PageError, PagePlacement, Pages, WhenFull};
use vicus_topology::{NodeId, Topology};

/// A fresh directory, removed at the end of the test.
struct Fresh(PathBuf);

impl Fresh {
    fn new(name: &str) -> Fresh {
        let path = std::env::temp_dir().join(format!("vicus-other-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Fresh(path)
    }

    fn open(&self) -> files::SystemDirectory {
        files::SystemDirectory::create(&self.0).expect("the temporary folder can be written")
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_do_what_every_directory_does() {
    let fresh = Fresh::new("conformance");
    conformance::check(&fresh.open());
}

/// Everything is in the files themselves, as another program sees them.
#[test]
fn other_programs_see_the_bytes() {
    let fresh = Fresh::new("bytes");
    let directory = fresh.open();
    directory.create("a").unwrap().write_at(3, b"vicus").unwrap();
    directory.rename("a", "b").unwrap();
    assert_eq!(std::fs::read(fresh.0.join("b")).unwrap(), b"\0\0\0vicus");
    std::fs::create_dir(fresh.0.join("folder")).unwrap();
    std::fs::write(fresh.0.join(".hidden"), "").unwrap();
    assert_eq!(directory.list().unwrap(), ["b"], "folders and names that no store has are left out");
    directory.sync().unwrap();
    let temporary = directory.temporary().unwrap();
    temporary.write_at(0, &[5; 70_000]).unwrap();
    assert_eq!(temporary.map().unwrap()[..], [5; 70_000]);
    assert_eq!(directory.list().unwrap(), ["b"], "a temporary file has no name");
}

#[test]
fn a_directory_is_created_once_and_must_be_one() {
    let fresh = Fresh::new("folder");
    let missing = files::SystemDirectory::open(&fresh.0).unwrap_err();
    assert!(missing.is_missing(), "{missing}");
    fresh.open().create("a").unwrap();
    fresh.open().open("a", OpenMode::Read).expect("creating the directory again empties nothing");
    let error = files::SystemDirectory::create(&fresh.0.join("a")).unwrap_err();
    assert_eq!((error.operation, error.cause.kind()), (FileOperation::Open, ErrorKind::NotADirectory), "{error}");
    let error = files::SystemDirectory::create(&fresh.0.join("x").join("y")).unwrap_err();
    assert!(error.is_missing() && error.operation == FileOperation::Create, "{error}");
}

/// Linux's own directory stands for another process: a lock belongs to the opened file.
#[test]
fn a_lock_is_held_against_others_and_names_its_process() {
    let fresh = Fresh::new("lock");
    let (directory, other) = (fresh.open(), crate::SystemDirectory::create(&fresh.0).unwrap());
    let lock = directory.lock("lock").unwrap();
    let own = std::process::id();
    for refused in [directory.lock("lock"), other.lock("lock")] {
        let refused = refused.expect_err("it is held");
        assert!(matches!(refused, LockError::Held { by: Some(pid), .. } if pid == own), "{refused:?}");
    }
    lock.check().unwrap();
    std::fs::remove_file(fresh.0.join("lock")).unwrap();
    assert!(lock.check().unwrap_err().to_string().contains("it was removed"));
    let second = other.lock("lock").expect("the name is free");
    assert!(lock.check().unwrap_err().to_string().contains("it was replaced"));
    drop((lock, second));
    let held = other.lock("lock").unwrap();
    assert!(matches!(directory.lock("lock"), Err(LockError::Held { .. })));
    drop(held);
    directory.lock("lock").expect("it has ended");
}

#[test]
fn a_lock_that_is_a_symbolic_link_is_refused_and_its_target_is_left_alone() {
    let fresh = Fresh::new("link");
    let directory = fresh.open();
    let other = fresh.0.join("other");
    std::fs::write(&other, "not ours").unwrap();
    std::os::unix::fs::symlink(&other, fresh.0.join("lock")).unwrap();
    let refused = directory.lock("lock").expect_err("it is a link");
    assert!(refused.to_string().contains("lock: it is a symbolic link"), "{refused}");
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "not ours");
}

/// The protection of readers: a replaced or removed base file stays mapped as it was.
#[test]
fn a_mapping_stays_when_its_file_is_replaced() {
    let fresh = Fresh::new("mapping");
    let directory = fresh.open();
    directory.create("base").unwrap().write_at(0, &[1; 100_000]).unwrap();
    let mapping = directory.map("base").unwrap();
    directory.create("base.new").unwrap().write_at(0, &[2; 10]).unwrap();
    directory.rename("base.new", "base").unwrap();
    assert_eq!(directory.map("base").unwrap()[..], [2; 10]);
    assert!(mapping.iter().all(|&byte| byte == 1) && mapping.len() == 100_000);
    assert_eq!((mapping.lost_from(), mapping.was_written()), (None, false));
}

#[test]
fn a_mapped_file_that_is_shortened_or_written_to_says_so() {
    let fresh = Fresh::new("changed");
    let directory = fresh.open();
    let file = directory.create("base").unwrap();
    file.write_at(0, &[7; 10_000]).unwrap();
    file.sync().unwrap();
    let mapping = directory.map("base").unwrap();
    // A file's times go on in steps of some milliseconds.
    std::thread::sleep(std::time::Duration::from_millis(30));
    assert_eq!((mapping.lost_from(), mapping.was_written()), (None, false));
    file.write_at(5000, &[8]).unwrap();
    assert_eq!((mapping.lost_from(), mapping.was_written(), mapping[5000]), (None, true, 8));
    file.set_len(4000).unwrap();
    assert_eq!(mapping.lost_from(), Some(4000));
    file.set_len(10_000).unwrap();
    assert_eq!(mapping.lost_from(), Some(4000), "lost bytes stay lost");
    directory.create("empty").unwrap();
    let empty = directory.map("empty").unwrap();
    assert_eq!((empty.len(), empty.lost_from()), (0, None));
}

#[test]
fn a_file_that_is_read_into_memory_has_its_bytes_aligned_whatever_happens_to_it() {
    let fresh = Fresh::new("loaded");
    let directory = fresh.open();
    for length in [0, 1, 63, 64, 65, 100_001] {
        let expected: Vec<u8> = (0..length).map(|at| (at * at / 7) as u8).collect();
        let path = fresh.0.join(format!("base-{length}"));
        std::fs::write(&path, &expected).unwrap();
        let loaded = LoadedFile::new(&std::fs::File::open(&path).unwrap()).unwrap();
        directory.open(&format!("base-{length}"), OpenMode::Write).unwrap().set_len(0).unwrap();
        assert_eq!(loaded[..], expected);
        assert!(loaded.as_ptr().addr().is_multiple_of(64));
    }
}

#[test]
fn a_pipe_without_a_writer_is_refused_at_once() {
    let fresh = Fresh::new("pipe");
    let directory = fresh.open();
    let pipe = fresh.0.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("coreutils are there");
    assert!(made.success());
    assert!(files::open_at_once(&pipe).unwrap_err().to_string().contains("no regular file"));
    directory.create("plain").unwrap();
    let plain = files::open_at_once(&fresh.0.join("plain")).unwrap().metadata().unwrap();
    let facts = |name: &str| std::fs::metadata(fresh.0.join(name)).unwrap();
    assert!(files::is_same_file(&plain, &facts("plain")) && !files::is_same_file(&plain, &facts("pipe")));
}

#[test]
#[expect(unsafe_code, reason = "tests use pages")]
fn pages_are_aligned_zero_at_first_and_zero_again_after_a_decommit() {
    static TOLD: AtomicUsize = AtomicUsize::new(0);
    let topology = Topology::parse("node:1 core:1").unwrap();
    let source = pages::SystemPages::new(&topology).telling(|range, _| {
        TOLD.fetch_add(range.len(), Relaxed);
    });
    let (page, node) = (source.page_bytes(), NodeId::new(0));
    assert!(page.is_power_of_two());
    for align in [1, page, 2 << 20] {
        let all = 8 * page;
        let start = source.reserve(all, align).unwrap();
        assert!(start.addr().get().is_multiple_of(align.max(page)));
        TOLD.store(0, Relaxed);
        // SAFETY: reserved above, committed before it is used, and released last.
        unsafe {
            source.commit(start, all, node).unwrap();
            assert_eq!(TOLD.swap(0, Relaxed), all);
            let bytes = || std::slice::from_raw_parts(start.as_ptr(), all);
            assert!(bytes().iter().all(|&byte| byte == 0));
            start.write_bytes(7, all);
            source.discard(start.add(page), page);
            assert_eq!(TOLD.load(Relaxed), 0, "a discard tells of no lost memory");
            assert_eq!([bytes()[0], bytes()[2 * page]], [7, 7]);
            source.relocate(start, all, node, WhenFull::Strict).unwrap();
            assert_eq!(bytes()[3 * page], 7);
            source.decommit(start.add(page), page, node);
            assert_eq!(TOLD.swap(0, Relaxed), page);
            source.commit(start.add(page), page, node).unwrap();
            assert_eq!([bytes()[page - 1], bytes()[page], bytes()[2 * page - 1], bytes()[2 * page]], [7, 0, 0, 7]);
            source.decommit(start, all, node);
            source.release(start, all, align);
        }
    }
    assert!(matches!(source.reserve(usize::MAX - 10, page), Err(PageError::Full)));
}

#[test]
#[expect(unsafe_code, reason = "tests use pages")]
fn a_node_is_chosen_only_where_there_is_one() {
    for (machine, placed) in [("node:1 core:2", Ok(())), ("node:2 core:2", Err(PageError::Refused(libc::ENOSYS)))] {
        let topology = Topology::parse(machine).unwrap();
        let source = pages::SystemPages::new(&topology);
        let nodes: Vec<NodeId> = topology.nodes.iter().map(|node| node.id).collect();
        let none = NodeId::new(nodes.len());
        let bytes = 4 * source.page_bytes();
        let start = source.reserve(bytes, 1).unwrap();
        // SAFETY: reserved above, and released last.
        unsafe {
            assert_eq!(source.place(start, bytes, PagePlacement::On(nodes[0], WhenFull::Strict)), placed);
            assert_eq!(source.place(start, bytes, PagePlacement::Interleaved(&nodes)), placed);
            assert_eq!(source.place(start, bytes, PagePlacement::Standard), Ok(()));
            let missing = source.place(start, bytes, PagePlacement::On(none, WhenFull::Preferred));
            assert_eq!(missing, Err(PageError::NoSuchNode(none)));
            source.commit(start, bytes, nodes[0]).unwrap();
            assert_eq!(source.truth(&[start.addr().get()]), [None], "no node is known");
            source.release(start, bytes, 1);
        }
        assert!(source.may_use(nodes[0]) && source.has_room(nodes[0], bytes) && !source.may_use(none));
    }
}

/// A heap of core/memory over these pages: what is written to its blocks stays there, and nothing else.
#[test]
#[expect(unsafe_code, reason = "tests use blocks")]
fn a_heap_on_these_pages_keeps_its_blocks_apart() {
    let topology = Topology::parse("node:1 core:2").unwrap();
    let source: Arc<dyn Pages> = Arc::new(pages::SystemPages::new(&topology));
    let options = MemoryOptions { range_bytes: 1 << 30, placed_bytes: 256 << 20, ..MemoryOptions::default() };
    let memory = Memory::new(source, &topology, options).unwrap();
    assert!(memory.placing_refused().is_none());
    let mut heap = Heap::new(&memory, NodeId::new(0)).unwrap();
    let seed = u64::from(std::process::id()) | 1;
    println!("seed {seed}");
    let mut state = seed;
    let mut chance = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let mut live: Vec<(NonNull<u8>, Layout, u8)> = Vec::new();
    for round in 0..3000 {
        if live.len() < 50 && chance(2) == 0 {
            let layout = Layout::from_size_align(8192 + chance(300_000), 64).unwrap();
            let block = heap.alloc(layout).unwrap();
            // SAFETY: the block has this size, and is this test's.
            unsafe { block.write_bytes(round as u8, layout.size()) };
            live.push((block, layout, round as u8));
        } else if !live.is_empty() {
            let (block, layout, value) = live.swap_remove(chance(live.len()));
            // SAFETY: as above; it is freed once, with its layout.
            unsafe {
                let bytes = std::slice::from_raw_parts(block.as_ptr(), layout.size());
                assert!(bytes.iter().all(|&byte| byte == value), "round {round}");
                heap.free(block, layout);
            }
        }
        if round % 500 == 499 {
            while heap.give_back_pages() {}
        }
    }
    for (block, layout, _) in live {
        // SAFETY: it is freed once, with its layout.
        unsafe { heap.free(block, layout) };
    }
}

#[test]
fn there_is_room_for_what_an_allocator_has_and_no_page_moves() {
    pages::ensure_room(8 << 20).unwrap();
    assert_eq!(pages::ensure_room(usize::MAX / 4).unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!(pages::migrate(3..3, 4096, 0).unwrap(), 0);
    assert_eq!(pages::migrate(3..4, 4096, 0).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!((pages::nodes_online(), pages::free_bytes(0), pages::refused(2)), (None, None, Vec::new()));
    let held = pages::hold(4 << 20);
    assert!(!held.is_null() && pages::map_stacks(64 << 10).is_some());
    #[expect(unsafe_code, reason = "gives a block back")]
    // SAFETY: held above with this size.
    let given = unsafe { pages::let_go(held, 4 << 20) };
    assert!(given);
}

#[test]
fn the_machine_is_one_node_with_the_cpus_of_the_standard_library() {
    let cpus = pin::affinity().unwrap();
    assert_eq!(cpus.len(), std::thread::available_parallelism().unwrap().get());
    let machine = crate::discover::flat(&cpus);
    machine.assert_valid();
    assert_eq!((machine.nodes.len(), machine.core_groups.len(), machine.usable_pus().count()), (1, 1, cpus.len()));
    assert_eq!(pin::pin(std::iter::once(0)).unwrap_err().kind(), ErrorKind::Unsupported, "nothing is bound");
}

#[test]
fn functions_are_found_by_name_and_clocks_go_on() {
    let is_there = |name: &CStr| !calls::symbol(name).is_null();
    assert!(is_there(c"malloc") && !is_there(c"no_such_function_of_vicus"));
    let before = calls::coarse_ms();
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(calls::coarse_ms() >= before + 20);
    assert_eq!((calls::worked_ns(), calls::cpu_here(), calls::prepare_fences()), (None, None, false));
}
