//! Reductions over tasks: each thread has its own copy of each reduced variable.
//!
//! gcc describes them in words, and the library fills some in: a chain of descriptions, each with the number of
//! variables, the bytes of a thread's copies, their alignment and later their address, and for each variable its
//! address and its place among the copies. clang gives functions to make, combine and end a copy.

use crate::settings::fail;
use crate::thread::{Group, here};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Makes copies for a chain of gcc's descriptions, one for each thread; or, with `shared`, has it use those of another
/// thread's chain. `outer` are the reductions around it.
///
/// # Safety
/// The chains are in gcc's layout, and no other thread uses `first` meanwhile; `shared` is null, or a chain of the same
/// descriptions that was filled in before.
pub(crate) unsafe fn register(first: *mut usize, outer: *mut usize, shared: *mut usize, threads: usize) {
    let (mut one, mut other) = (first, shared);
    // SAFETY: the caller's promise: chains in gcc's layout, both of the same descriptions, ended by a 0 in the fifth
    // word.
    unsafe {
        loop {
            if other.is_null() {
                let bytes = *one.add(1) * threads;
                let align = (*one.add(2)).max(16).next_power_of_two();
                let copies = libc::aligned_alloc(align, bytes.next_multiple_of(align).max(align));
                if copies.is_null() {
                    fail(&format!("{bytes} bytes for reductions can't be had"));
                }
                ptr::write_bytes(copies.cast::<u8>(), 0, bytes);
                *one.add(2) = copies.addr();
                *one.add(6) = copies.addr() + bytes;
            } else {
                *one.add(2) = *other.add(2);
                *one.add(6) = *other.add(6);
                other = *other.add(4) as *mut usize;
            }
            *one.add(5) = 0;
            for variable in 0..*one {
                *one.add(7 + 3 * variable + 2) = one.addr();
            }
            if *one.add(4) == 0 {
                *one.add(4) = outer.addr();
                break;
            }
            one = *one.add(4) as *mut usize;
        }
        // This word is not 0 at the head of a chain: there ends the inner chain.
        *first.add(5) = 1;
    }
}

/// Frees the copies of a chain.
///
/// # Safety
/// [`register`] has filled it in, without another chain, and its tasks are over.
pub(crate) unsafe fn unregister(first: *mut usize) {
    let mut one = first;
    // SAFETY: the caller's promise: a chain filled in by `register`, so that the third word is the address of
    // `aligned_alloc`'s memory.
    unsafe {
        loop {
            libc::free(*one.add(2) as *mut libc::c_void);
            one = *one.add(4) as *mut usize;
            if one.is_null() || *one.add(5) != 0 {
                return;
            }
        }
    }
}

/// The calling thread's copies of these variables (or of variables copied there), and behind these the originals.
///
/// # Safety
/// There are `count` pointers, with room for as many originals behind them.
pub(crate) unsafe fn remap(count: usize, originals: usize, pointers: *mut usize) {
    let thread = here();
    let number = thread.number as usize;
    let mut group = thread.task().group;
    let mut first: *mut usize = ptr::null_mut();
    // SAFETY: rule "Group": the running task's groups are open. The caller's promise: there are `count` pointers, and
    // room for `originals` more behind them. The chains are those filled in by `register`.
    unsafe {
        while first.is_null() && !group.is_null() {
            first = (*group).reductions.get();
            group = (*group).outer;
        }
        'pointers: for at in 0..count {
            let pointer = *pointers.add(at);
            let mut one = first;
            while !one.is_null() {
                let (copies, each, end) = (*one.add(2), *one.add(1), *one.add(6));
                for variable in 0..*one {
                    let (original, place) = (*one.add(7 + 3 * variable), *one.add(8 + 3 * variable));
                    let is_copy = (copies..end).contains(&pointer) && (pointer - copies) % each == place;
                    if pointer == original || is_copy {
                        *pointers.add(at) = copies + number * each + place;
                        if at < originals {
                            *pointers.add(count + at) = original;
                        }
                        continue 'pointers;
                    }
                }
                one = *one.add(4) as *mut usize;
            }
            fail(&format!("no reduction is known for the variable at {pointer:#x}"));
        }
    }
}

/// clang's description of a variable.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Input {
    pub(crate) shared: *mut u8,
    pub(crate) original: *mut u8,
    pub(crate) bytes: usize,
    pub(crate) init: Option<unsafe extern "C-unwind" fn(*mut u8, *mut u8)>,
    pub(crate) fini: Option<unsafe extern "C-unwind" fn(*mut u8)>,
    pub(crate) combine: Option<unsafe extern "C-unwind" fn(*mut u8, *mut u8)>,
    pub(crate) flags: u32,
}

/// A variable of clang's reductions.
struct Item {
    input: Input,
    /// By thread: its copy, or null.
    copies: Box<[AtomicPtr<u8>]>,
    /// The threads' own variables, by thread, if all threads of a team share the reduction and each has its own
    /// variable; the last thread to end combines all copies into its own.
    shared: Box<[AtomicPtr<u8>]>,
}

/// clang's reductions of a group.
pub(crate) struct Reductions {
    items: Vec<Item>,
    /// How many threads still use it, if all of a team do.
    users: AtomicU32,
    /// The shared pointer to it, or null.
    shared: *const AtomicPtr<Reductions>,
    /// Whether `init` gets the variable as well, as newer compilers want it.
    with_original: bool,
}

impl Reductions {
    pub(crate) fn new(inputs: &[Input], threads: u32, with_original: bool) -> Box<Reductions> {
        let nulls = || (0..threads).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        Box::new(Reductions {
            items: inputs.iter().map(|input| Item { input: *input, copies: nulls(), shared: nulls() }).collect(),
            users: AtomicU32::new(1),
            shared: ptr::null(),
            with_original,
        })
    }

    /// Shares it with all threads of a team, through `place`.
    pub(crate) fn share(&mut self, threads: u32, place: *const AtomicPtr<Reductions>) {
        self.users = AtomicU32::new(threads);
        self.shared = place;
    }

    /// A thread has come to shared reductions of its team, with variables of its own.
    pub(crate) fn add_own(&self, number: u32, inputs: &[Input]) {
        for (item, input) in self.items.iter().zip(inputs) {
            item.shared[number as usize].store(input.shared, Ordering::Release);
        }
    }

    /// A thread's copy of the variable at this address, or of the variable copied there.
    pub(crate) fn copy(&self, number: u32, variable: *mut u8) -> Option<*mut u8> {
        let Item { input, copies, .. } = self.items.iter().find(|Item { input, copies, shared }| {
            let is_there = |copy: &AtomicPtr<u8>| {
                let copy = copy.load(Ordering::Relaxed);
                !copy.is_null() && (copy.addr()..copy.addr() + input.bytes).contains(&variable.addr())
            };
            let is_own = |own: &AtomicPtr<u8>| own.load(Ordering::Relaxed) == variable;
            let is_named = variable == input.shared || variable == input.original;
            is_named || shared.iter().any(is_own) || copies.iter().any(is_there)
        })?;
        let own = copies.get(number as usize)?;
        let mut copy = own.load(Ordering::Relaxed);
        if copy.is_null() {
            // SAFETY: rule "System": 64 is a power of two, and the bytes are a multiple of it.
            copy = unsafe { libc::aligned_alloc(64, input.bytes.next_multiple_of(64).max(64)) }.cast();
            if copy.is_null() {
                fail(&format!("{} bytes for a reduction can't be had", input.bytes));
            }
            // SAFETY: rule "Interface": the program's function makes a copy of this variable. The memory is new and has
            // its bytes.
            unsafe {
                match input.init {
                    Some(init) => {
                        let original = if self.with_original { input.original } else { input.shared };
                        init(copy, original);
                    }
                    None => ptr::write_bytes(copy, 0, input.bytes),
                }
            }
            own.store(copy, Ordering::Release);
        }
        Some(copy)
    }

    /// Combines all copies, and ends them.
    fn finish(&self, number: u32) {
        for Item { input, copies, shared } in &self.items {
            let own = shared[number as usize].load(Ordering::Relaxed);
            let target = if own.is_null() { input.shared } else { own };
            for copy in copies {
                let copy = copy.swap(ptr::null_mut(), Ordering::AcqRel);
                if copy.is_null() {
                    continue;
                }
                // SAFETY: rule "Interface": the program's functions for this variable. The exchange has given the copy
                // to this thread alone; `copy` has got it by `aligned_alloc`.
                unsafe {
                    if let Some(combine) = input.combine {
                        combine(target, copy);
                    }
                    if let Some(fini) = input.fini {
                        fini(copy);
                    }
                    libc::free(copy.cast());
                }
            }
        }
    }
}

/// A group has ended, and its reductions with it.
pub(crate) fn finish(group: &Group) {
    let reductions = group.kmp.get();
    if reductions.is_null() {
        return;
    }
    // SAFETY: this group has not been subtracted from the users, so the reductions are there.
    let one = unsafe { &*reductions };
    if one.users.fetch_sub(1, Ordering::AcqRel) == 1 {
        one.finish(here().number);
        if !one.shared.is_null() {
            // SAFETY: the place is in the team, which lasts longer than its groups.
            unsafe { (*one.shared).store(ptr::null_mut(), Ordering::Release) };
        }
        // SAFETY: the last user: all others are subtracted. `Box::into_raw` made it.
        drop(unsafe { Box::from_raw(reductions) });
    }
}
