//! The memory of explicit tasks: one object for each, from free lists of the thread that makes it.

use crate::settings;
use crate::tasks::{Event, Function};
use crate::thread::{Task, Thread};
use crate::wait::Guarded;
use std::ptr::{self, NonNull};
use vicus::kit::{FreeBlock, Returns, TaskMemory};
use vicus::tasks::Access;

/// An explicit task from when it is made until it is over: one object. In front of the record is the room that the
/// runtime's part of a queued task takes; behind it are the task's data.
///
/// ```text
///   |<------ FRONT, a multiple of the cache line ------>|
///   | room | the runtime's task, when it is queued | Record | data, or clang's record with its data |
/// ```
#[repr(C)]
pub(crate) struct Record {
    pub(crate) task: Task,
    pub(crate) code: Code,
    /// The event of a detached task, or null.
    pub(crate) event: *const Event,
    /// The data of clang's `affinity` clause, until the task is spawned. While it is queued: the data it uses, for the
    /// summary and for memory that waits to be moved.
    pub(crate) affinity: Option<Box<UsedData>>,
    /// clang's flags.
    pub(crate) flags: u32,
    /// The size class of its memory.
    class: u32,
    /// The list to which its memory returns when the task is over: the list of the thread that made it. Null for memory
    /// of its own.
    home: *const Lists,
}

/// Data that a task uses, behind one pointer: most tasks name none.
#[derive(Default)]
pub(crate) struct UsedData(pub(crate) Vec<Access>);

/// The program's code of a task.
#[derive(Clone, Copy)]
pub(crate) enum Code {
    /// A function with its data: gcc's tasks.
    Call { function: Function, data: *mut u8 },
    /// clang's record, with the function, stands behind the library's: the bytes of it with its data, and those of the
    /// pointers to shared variables behind. Without bytes there is nothing to run.
    Behind { bytes: u32, shared_bytes: u32 },
}

/// How many bytes the pieces of memory for tasks have, by class. Larger ones are made for one task.
const CLASSES: [usize; 3] = [256, 384, 640];
/// The offset of a task's data in its piece. They begin with a cache line, because compilers align some data so.
const FRONT: usize = 192;
/// The offset of a record in its piece: so many bytes in front are room for the runtime's task.
const BEGIN: usize = FRONT - size_of::<Record>();
const _: () = assert!(size_of::<Record>() == 88, "a task without clauses takes two lines in front of its data");
/// How many free ones a thread keeps of each.
const KEPT: u32 = 256;

/// A thread's free memory for tasks. A record returns to the thread that made it, also from other threads: otherwise a
/// thread that makes all tasks would always allocate, and the threads that run them would always free.
pub(crate) struct Memory {
    free: [(*mut FreeBlock, u32); 3],
    /// Had with the first task. It is never freed, since a task may come back when its thread has ended: another thread
    /// has it then.
    returned: *const Lists,
}

/// The blocks that other threads give back to a thread: a list for each class.
#[repr(align(128))]
struct Lists([Returns; 3]);

/// The lists of threads that have ended.
static LEFT: Guarded<Vec<&'static Lists>> = Guarded::new(Vec::new());

/// Resets the lock in a forked child: a thread of the parent may have held it.
pub(crate) fn begin_anew() {
    LEFT.begin_anew();
}

/// Lists for a new thread.
fn take_lists() -> &'static Lists {
    if let Some(left) = LEFT.with(Vec::pop) {
        left.0.iter().for_each(Returns::reopen);
        return left;
    }
    Box::leak(Box::new(Lists([0; 3].map(|_| Returns::new()))))
}

impl Memory {
    pub(crate) fn new() -> Memory {
        Memory { free: [(ptr::null_mut(), 0); 3], returned: ptr::null() }
    }

    /// Takes the blocks of a class given back by other threads. Called when the class has no other free block.
    #[cold]
    #[inline(never)]
    fn take_returned(&mut self, class: usize) {
        if self.returned.is_null() {
            self.returned = take_lists();
        }
        // SAFETY: `take_lists` gives a list that is never freed.
        let returned = unsafe { &*self.returned };
        let mut first = returned.0[class].take();
        self.free[class].0 = first;
        while !first.is_null() {
            self.free[class].1 += 1;
            // SAFETY: the thread has taken the whole list, and has its blocks alone. Acquire: it sees the `next` of the
            // thread that pushed them.
            first = unsafe { (*first).next };
        }
    }

    /// Memory for a record with `behind` bytes after it.
    #[inline]
    pub(crate) fn take(&mut self, behind: usize) -> *mut Record {
        let bytes = FRONT + behind;
        let class = if bytes <= CLASSES[0] {
            0
        } else if bytes <= CLASSES[1] {
            1
        } else if bytes <= CLASSES[2] {
            2
        } else {
            return new_memory(bytes, 3, ptr::null());
        };
        if self.free[class].0.is_null() {
            self.take_returned(class);
            if self.free[class].0.is_null() {
                return new_memory(CLASSES[class], class as u32, self.returned);
            }
        }
        let (first, count) = &mut self.free[class];
        let block = *first;
        // SAFETY: a free block of this thread, in a list of its own.
        *first = unsafe { (*block).next };
        *count -= 1;
        let record = block.wrapping_byte_add(BEGIN).cast::<Record>();
        // SAFETY: the block is in no list any more, and begins a record of its class: `new_memory` has made it.
        unsafe { ((*record).class, (*record).home) = (class as u32, self.returned) };
        record
    }

    #[inline]
    pub(crate) fn give(&mut self, record: *mut Record) {
        // SAFETY: rule "Record": the thread that has run the task has its record alone.
        let (class, home) = unsafe { ((*record).class as usize, (*record).home) };
        let block = record.wrapping_byte_sub(BEGIN).cast::<FreeBlock>();
        if class < CLASSES.len() {
            if !ptr::eq(home, self.returned) {
                // SAFETY: a block with a class has the lists of the thread that made it, which are never freed. The
                // block is in none, and larger than a `FreeBlock`.
                if unsafe { (*home).0[class].push(block) } {
                    return;
                }
            } else if self.free[class].1 < KEPT {
                let (first, count) = &mut self.free[class];
                // SAFETY: a free block of this thread, in a list of its own.
                unsafe { (*block).next = *first };
                *first = block;
                *count += 1;
                return;
            }
        }
        // SAFETY: rule "System": `new_memory` has got the block by `aligned_alloc`, and it is in no list any more.
        unsafe { libc::free(block.cast()) };
    }

    /// Frees all blocks, and has blocks that return later freed too.
    pub(crate) fn clear(&mut self) {
        for class in 0..CLASSES.len() {
            // SAFETY: null, or a list that is never freed.
            let Some(returned) = (unsafe { self.returned.as_ref() }) else { break };
            let mut first = returned.0[class].close();
            while !first.is_null() {
                let block = first;
                // SAFETY: the thread has taken the whole list, and has its blocks alone. Acquire: it sees the `next` of
                // the thread that pushed them.
                first = unsafe { (*block).next };
                // SAFETY: rule "System": `new_memory` has got the block by `aligned_alloc`, and it is in no list any
                // more.
                unsafe { libc::free(block.cast()) };
            }
        }
        // SAFETY: null, or a list that is never freed.
        if let Some(returned) = unsafe { self.returned.as_ref() } {
            LEFT.with(|left| left.push(returned));
            self.returned = ptr::null();
        }
        for (first, count) in &mut self.free {
            while !first.is_null() {
                let block = *first;
                // SAFETY: a free block of this thread, in a list of its own.
                *first = unsafe { (*block).next };
                // SAFETY: rule "System": `new_memory` has got the block by `aligned_alloc`, and it is in no list any
                // more.
                unsafe { libc::free(block.cast()) };
            }
            *count = 0;
        }
    }
}

#[cold]
#[inline(never)]
fn new_memory(bytes: usize, class: u32, home: *const Lists) -> *mut Record {
    let bytes = bytes.next_multiple_of(64);
    // SAFETY: rule "System": 64 is a power of two, and `bytes` a multiple of it.
    let block = unsafe { libc::aligned_alloc(64, bytes) };
    if block.is_null() {
        settings::fail(&format!("{bytes} bytes for a task can't be had"));
    }
    let record = block.wrapping_byte_add(BEGIN).cast::<Record>();
    // SAFETY: the block has at least `FRONT` bytes, of which the record has the last ones; nothing else is in them yet.
    unsafe { ((*record).class, (*record).home) = (class, home) };
    record
}

/// A record for a child of the running task, with `behind` bytes after it.
#[inline]
pub(crate) fn new_record(thread: &mut Thread, behind: usize) -> *mut Record {
    let parent = thread.task();
    let record = thread.tasking.memory.take(behind);
    // SAFETY: rule "Record": the memory is new, with class and home set by `Memory::take`, and large enough for a
    // record.
    unsafe {
        let (class, home) = ((*record).class, (*record).home);
        record.write(Record {
            task: parent.child(parent.is_final),
            code: Code::Behind { bytes: 0, shared_bytes: 0 },
            event: ptr::null(),
            affinity: None,
            flags: 0,
            class,
            home,
        });
    }
    record
}

/// The room in front of a record, for the runtime's task.
pub(crate) struct Front(pub(crate) NonNull<Record>);

// SAFETY: rule "Record": the maker hands the record over with its room, whose `BEGIN` bytes are nothing else's. They
// stay until the record is freed, by the closure that runs or drops the task. `BEGIN` is a multiple of 8, and blocks
// begin with a cache line.
unsafe impl TaskMemory for Front {
    const BYTES: usize = BEGIN;

    fn end(&self) -> NonNull<u8> {
        self.0.cast()
    }
}
const _: () = assert!(BEGIN.is_multiple_of(8));
