//! Blocks on their way home: freed by one heap and owned by another.
//!
//! Two designs. A [`Bin`] for each ordered pair of heaps, behind a spin lock, emptied when a task finishes: Falt et al.
//! §5.1. And a [`Mailbox`] for each heap: others hand over whole batches with one atomic exchange, after snmalloc
//! (Liétar et al., "snmalloc: a message passing allocator", ISMM 2019, §2). We differ from both: if a heap has ended
//! meanwhile, its blocks come back to the sender, and the sender looks up their new owner.

use crate::sync::{AtomicBool, AtomicPtr, Mutex, Ordering, Padded, UnsafeCell, spin_loop};
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;

/// How freed blocks go back to their heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Foreign {
    /// A recollection bin for each ordered pair of heaps (Falt et al. §5.1).
    Bins,
    /// A mailbox for each heap, filled with batches.
    #[default]
    Mailboxes,
}

/// The first word of a block on its way: the next one.
#[derive(Debug)]
pub(crate) struct Link(AtomicPtr<Link>);

/// Blocks on their way, linked through themselves. The value owns the blocks.
#[derive(Debug)]
pub(crate) struct Batch {
    first: NonNull<Link>,
    last: NonNull<Link>,
}

#[expect(unsafe_code, reason = "a block's first word is the link to the next")]
impl Batch {
    /// A batch of one.
    ///
    /// # Safety
    /// The block is in use, and only the batch uses it from now on; it is aligned to a line and at least one line long.
    #[inline]
    pub(crate) unsafe fn of(block: NonNull<u8>) -> Batch {
        let link = block.cast::<Link>();
        // SAFETY: it is large enough and the caller's.
        unsafe { link.write(Link(AtomicPtr::new(null_mut()))) };
        Batch { first: link, last: link }
    }

    /// Puts a block in front.
    ///
    /// # Safety
    /// Those of [`Batch::of`].
    #[inline]
    pub(crate) unsafe fn push(&mut self, block: NonNull<u8>) {
        let link = block.cast::<Link>();
        // SAFETY: it is large enough and the caller's.
        unsafe { link.write(Link(AtomicPtr::new(self.first.as_ptr()))) };
        self.first = link;
    }

    /// The blocks, one by one. Waits for a sender between its exchange and its link.
    pub(crate) fn into_blocks(self) -> impl Iterator<Item = NonNull<u8>> {
        chain_blocks(self.first.as_ptr())
    }
}

/// The link of a sender's last block between the sender's exchange of the mailbox's first block and the write of the
/// link.
fn pending() -> *mut Link {
    std::ptr::without_provenance_mut(1)
}

/// The first block of a mailbox or bin without a heap.
fn closed() -> *mut Link {
    std::ptr::without_provenance_mut(2)
}

/// The blocks of a chain held by the caller alone, except for links not yet written by their senders.
fn chain_blocks(mut at: *mut Link) -> impl Iterator<Item = NonNull<u8>> {
    std::iter::from_fn(move || {
        let block = NonNull::new(at)?;
        loop {
            #[expect(unsafe_code, reason = "a block's first word is the link to the next")]
            // SAFETY: the block is in the chain, so it holds a link, and stays until it is given out here.
            let next = unsafe { block.as_ref() }.0.load(Ordering::Acquire);
            if next != pending() {
                at = next;
                return Some(block.cast());
            }
            spin_loop();
        }
    })
}

/// The arrival of a heap's blocks: many senders, one receiver.
///
/// A sender exchanges the first block for its own batch's, then links its batch's last block to the former first one.
/// Between the two, the link says *pending*, and the receiver stops there; it takes the rest the next time. So neither
/// side ever waits for the other while the heap lives. (snmalloc's queue keeps its last message as the next one's
/// anchor; here that would be up to 512 kB, so ours is a stack.)
#[derive(Debug)]
pub(crate) struct Mailbox {
    first: AtomicPtr<Link>,
}

/// Blocks taken by a receiver and not yet read, because of a pending link.
#[derive(Debug)]
pub(crate) struct Rest(*mut Link);

impl Rest {
    pub(crate) const NONE: Rest = Rest(null_mut());
}

#[expect(unsafe_code, reason = "a block's first word is the link to the next")]
impl Mailbox {
    /// A mailbox without a heap.
    pub(crate) fn new() -> Mailbox {
        Mailbox { first: AtomicPtr::new(closed()) }
    }

    /// Opens it for a heap. Waits for a sender that is taking its batch back.
    pub(crate) fn open(&self) {
        while self.first.compare_exchange(closed(), null_mut(), Ordering::AcqRel, Ordering::Relaxed).is_err() {
            spin_loop();
        }
    }

    /// Hands a batch over with one atomic exchange. Gives blocks back if the mailbox is closed: the batch, and other
    /// senders' batches linked upon it meanwhile.
    #[inline]
    pub(crate) fn send(&self, batch: Batch) -> Result<(), Batch> {
        // SAFETY: the batch is the caller's.
        let last = unsafe { batch.last.as_ref() };
        last.0.store(pending(), Ordering::Relaxed);
        // Release: the thread that takes the batch sees its links. Acquire: if the mailbox is closed, this thread takes
        // it.
        let below = self.first.swap(batch.first.as_ptr(), Ordering::AcqRel);
        if below == closed() {
            return Err(self.take_back(batch.first, batch.last));
        }
        last.0.store(below, Ordering::Release);
        Ok(())
    }

    /// Several senders may meet a closed mailbox. The sender whose exchange found it closed takes all batches linked
    /// upon its own, and closes the mailbox again. It can't be opened meanwhile, as it isn't closed.
    #[cold]
    fn take_back(&self, mine: NonNull<Link>, last: NonNull<Link>) -> Batch {
        // SAFETY: no thread reads beyond a pending link.
        unsafe { last.as_ref() }.0.store(null_mut(), Ordering::Release);
        let mut first = mine.as_ptr();
        while let Err(now) = self.first.compare_exchange(first, closed(), Ordering::AcqRel, Ordering::Acquire) {
            first = now;
        }
        Batch { first: NonNull::new(first).expect("the mailbox holds at least this sender's batch"), last }
    }

    /// Whether blocks have arrived. A hint.
    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        !self.first.load(Ordering::Relaxed).is_null()
    }

    /// The owner takes all arrived blocks up to the first unwritten link. The blocks behind it stay in `rest`.
    pub(crate) fn receive(&self, rest: &mut Rest, mut take: impl FnMut(NonNull<u8>)) {
        // First the blocks left over from the last time, then the newly arrived ones.
        for _ in 0..2 {
            let mut at = std::mem::replace(&mut rest.0, null_mut());
            if at.is_null() {
                if !self.has_mail() {
                    return;
                }
                at = self.first.swap(null_mut(), Ordering::Acquire);
            }
            while let Some(block) = NonNull::new(at) {
                // SAFETY: the chain is the receiver's; its senders touch nothing but a pending link.
                let next = unsafe { block.as_ref() }.0.load(Ordering::Acquire);
                if next == pending() {
                    rest.0 = at;
                    return;
                }
                at = next;
                take(block.cast());
            }
        }
    }

    /// The owner closes it and takes all arrived blocks. It is the owner's last call.
    pub(crate) fn close(&self, rest: Rest) -> impl Iterator<Item = NonNull<u8>> {
        let first = self.first.swap(closed(), Ordering::AcqRel);
        chain_blocks(rest.0).chain(chain_blocks(first))
    }
}

/// The blocks of one heap freed by another, behind a spin lock.
#[derive(Debug)]
pub(crate) struct Bin {
    locked: AtomicBool,
    /// Whether there is something to take. A hint.
    filled: AtomicBool,
    /// Only the holder of the lock may use it.
    first: UnsafeCell<*mut Link>,
}

/// A bin's lock, held until this is dropped.
pub(crate) struct BinLock<'a>(&'a Bin);

impl Drop for BinLock<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.locked.store(false, Ordering::Release);
    }
}

#[expect(unsafe_code, reason = "the lock guards a pointer and the links behind it")]
// SAFETY: the cell is reached through `with_first` alone, under the lock.
unsafe impl Send for Bin {}

#[expect(unsafe_code, reason = "the lock guards a pointer and the links behind it")]
// SAFETY: as above.
unsafe impl Sync for Bin {}

impl Bin {
    /// A bin without a heap.
    pub(crate) fn new() -> Bin {
        Bin { locked: AtomicBool::new(false), filled: AtomicBool::new(false), first: UnsafeCell::new(closed()) }
    }

    fn lock(&self) -> BinLock<'_> {
        // Not an exchange: a failed compare-and-exchange writes nothing while it waits.
        while self.locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            spin_loop();
        }
        BinLock(self)
    }

    fn with_first<R>(&self, f: impl FnOnce(&mut *mut Link) -> R) -> R {
        let _lock = self.lock();
        self.first.with_mut(|first| {
            #[expect(unsafe_code, reason = "the lock guards a pointer")]
            // SAFETY: only the holder of the lock gets here, until the lock is dropped.
            f(unsafe { &mut *first })
        })
    }

    /// Opens it for a heap.
    pub(crate) fn open(&self) {
        self.with_first(|first| *first = null_mut());
    }

    /// Puts a batch in. Gives it back if the bin is closed.
    pub(crate) fn put(&self, batch: Batch) -> Result<(), Batch> {
        let result = self.with_first(|first| {
            if *first == closed() {
                return Err(batch);
            }
            #[expect(unsafe_code, reason = "a block's first word is the link to the next")]
            // SAFETY: the batch is the caller's.
            unsafe { batch.last.as_ref() }.0.store(*first, Ordering::Relaxed);
            *first = batch.first.as_ptr();
            Ok(())
        });
        if result.is_ok() {
            self.filled.store(true, Ordering::Relaxed);
        }
        result
    }

    /// The owner takes its whole content. Cheap if it is empty.
    pub(crate) fn take(&self) -> impl Iterator<Item = NonNull<u8>> + use<> {
        let filled = self.filled.load(Ordering::Relaxed);
        chain_blocks(if filled { self.exchange(null_mut()) } else { null_mut() })
    }

    /// The owner closes it and takes its content. It is the owner's last call.
    pub(crate) fn close(&self) -> impl Iterator<Item = NonNull<u8>> + use<> {
        chain_blocks(self.exchange(closed()))
    }

    fn exchange(&self, to: *mut Link) -> *mut Link {
        self.with_first(|first| {
            self.filled.store(false, Ordering::Relaxed);
            std::mem::replace(first, to)
        })
    }
}

/// The ways home of all heaps: heaps have numbers from 1, and each a mailbox or a row of bins.
#[derive(Debug)]
pub(crate) struct Doors {
    design: Foreign,
    doors: Box<[Padded<Door>]>,
    /// Numbers without a heap. The smallest is taken first.
    pub(crate) spare: Mutex<Vec<u32>>,
    /// The highest number ever given.
    highest: AtomicUsize,
}

#[derive(Debug)]
struct Door {
    mailbox: Mailbox,
    /// By the number of the freeing heap; 0 for threads without a heap. Made for the number's first heap.
    bins: OnceLock<Box<[Padded<Bin>]>>,
}

impl Doors {
    pub(crate) fn new(design: Foreign, heaps: usize) -> Doors {
        let door = |_| Padded(Door { mailbox: Mailbox::new(), bins: OnceLock::new() });
        Doors {
            design,
            doors: (0..heaps).map(door).collect(),
            spare: Mutex::new((1..=heaps as u32).rev().collect()),
            highest: AtomicUsize::new(0),
        }
    }

    fn door(&self, heap: u32) -> &Door {
        &self.doors[heap as usize - 1].0
    }

    /// All bins, for as long as the result lives.
    pub(crate) fn lock_bins(&self) -> Vec<BinLock<'_>> {
        self.doors.iter().filter_map(|door| door.0.bins.get()).flatten().map(|bin| bin.0.lock()).collect()
    }

    fn spare<R>(&self, f: impl FnOnce(&mut Vec<u32>) -> R) -> R {
        f(&mut self.spare.lock().expect("nothing panics behind this lock"))
    }

    /// A number for a new heap; `None` if all are taken.
    pub(crate) fn open(&self) -> Option<u32> {
        let heap = self.spare(Vec::pop)?;
        self.highest.fetch_max(heap as usize, Ordering::AcqRel);
        match self.design {
            Foreign::Mailboxes => self.door(heap).mailbox.open(),
            Foreign::Bins => {
                let row = || (0..=self.doors.len()).map(|_| Padded(Bin::new())).collect();
                self.door(heap).bins.get_or_init(row).iter().for_each(|bin| bin.0.open());
            }
        }
        Some(heap)
    }

    /// Sends blocks to a heap. Gives blocks back if that heap has ended, perhaps more than were sent.
    pub(crate) fn bring(&self, from: u32, to: u32, batch: Batch) -> Result<(), Batch> {
        let door = self.door(to);
        match (self.design, door.bins.get()) {
            (Foreign::Mailboxes, _) => door.mailbox.send(batch),
            (Foreign::Bins, Some(bins)) => bins[from as usize].0.put(batch),
            (Foreign::Bins, None) => Err(batch),
        }
    }

    /// Takes all blocks arrived at a heap.
    #[inline]
    pub(crate) fn collect(&self, heap: u32, rest: &mut Rest, mut take: impl FnMut(NonNull<u8>)) {
        let door = self.door(heap);
        match self.design {
            Foreign::Mailboxes => door.mailbox.receive(rest, take),
            Foreign::Bins => {
                let row = door.bins.get().expect("a heap's row is made with its number");
                let row = &row[..=self.highest.load(Ordering::Acquire)];
                row.iter().flat_map(|bin| bin.0.take()).for_each(&mut take);
            }
        }
    }

    /// Ends a heap: takes all arrived blocks, refuses later batches, and frees its number.
    pub(crate) fn close(&self, heap: u32, rest: Rest, mut take: impl FnMut(NonNull<u8>)) {
        let door = self.door(heap);
        match self.design {
            Foreign::Mailboxes => door.mailbox.close(rest).for_each(&mut take),
            Foreign::Bins => {
                let row = door.bins.get().expect("a heap's row is made with its number");
                row.iter().flat_map(|bin| bin.0.close()).for_each(&mut take);
            }
        }
        self.spare(|spare| {
            spare.push(heap);
            spare.sort_unstable_by(|a, b| b.cmp(a));
        });
    }
}

#[cfg(all(test, loom))]
#[expect(unsafe_code, reason = "blocks in models")]
mod loom_models {
    use super::*;
    use loom::sync::Arc;

    /// Blocks, with a cell for each, written by its holder: loom refuses two holders, and a holder that is too early.
    struct Blocks {
        memory: Vec<NonNull<u8>>,
        held: Vec<UnsafeCell<usize>>,
    }

    // SAFETY: the model checks it.
    unsafe impl Send for Blocks {}
    // SAFETY: as above.
    unsafe impl Sync for Blocks {}

    /// A block, with room for loom's atomics.
    type Room = [u64; 32];

    impl Blocks {
        fn new(count: usize) -> Arc<Blocks> {
            let memory = (0..count).map(|_| NonNull::from(Box::leak(Box::<Room>::default())).cast()).collect();
            Arc::new(Blocks { memory, held: (0..count).map(|_| UnsafeCell::new(0)).collect() })
        }

        fn batch(&self, of: &[usize]) -> Batch {
            of.iter().for_each(|&at| self.hold(at));
            // SAFETY: each block is sent once by the model.
            let mut batch = unsafe { Batch::of(self.memory[of[0]]) };
            of[1..].iter().for_each(|&at| unsafe { batch.push(self.memory[at]) });
            batch
        }

        fn hold(&self, at: usize) {
            // SAFETY: the model checks it.
            self.held[at].with_mut(|held| unsafe { *held += 1 });
        }

        fn take(&self, block: NonNull<u8>) -> usize {
            let at = self.memory.iter().position(|&memory| memory == block).expect("a block of the model");
            self.hold(at);
            // A heap writes there without an atomic; loom refuses it if a sender may still write.
            // SAFETY: it was sent, so a link was written.
            unsafe { block.cast::<Link>().as_mut() }.0.with_mut(|next| *next = null_mut());
            at
        }
    }

    impl Drop for Blocks {
        fn drop(&mut self) {
            // SAFETY: leaked in `new`.
            self.memory.iter().for_each(|memory| drop(unsafe { Box::from_raw(memory.cast::<Room>().as_ptr()) }));
        }
    }

    fn check(model: impl Fn() + Send + Sync + 'static) {
        // Bounded: all interleavings would take minutes.
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    /// Finds these mutants: the exchange in `send` or in `receive` relaxed; the link stored relaxed; a receiver that
    /// takes a pending link for the end.
    #[test]
    fn loom_every_block_arrives_once() {
        check(|| {
            let (blocks, mailbox) = (Blocks::new(3), Arc::new(Mailbox::new()));
            mailbox.open();
            let senders: Vec<_> = [&[0, 1][..], &[2]]
                .into_iter()
                .map(|of| {
                    let (blocks, mailbox) = (blocks.clone(), mailbox.clone());
                    loom::thread::spawn(move || assert!(mailbox.send(blocks.batch(of)).is_ok()))
                })
                .collect();
            let (mut rest, mut taken) = (Rest::NONE, Vec::new());
            mailbox.receive(&mut rest, |block| taken.push(blocks.take(block)));
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            mailbox.receive(&mut rest, |block| taken.push(blocks.take(block)));
            taken.sort_unstable();
            assert_eq!(taken, [0, 1, 2]);
        });
    }

    /// Finds these mutants: a sender that takes back its own batch alone; a close without the wait for pending links,
    /// or with a relaxed exchange; a mailbox that can be opened while a sender takes its batch back.
    #[test]
    fn loom_an_ended_heap_loses_no_block() {
        check(|| {
            let (blocks, mailbox) = (Blocks::new(2), Arc::new(Mailbox::new()));
            mailbox.open();
            let senders: Vec<_> = [0, 1]
                .map(|at| {
                    let (blocks, mailbox) = (blocks.clone(), mailbox.clone());
                    loom::thread::spawn(move || {
                        let back = mailbox.send(blocks.batch(&[at])).err();
                        back.map_or(Vec::new(), |batch| batch.into_blocks().map(|block| blocks.take(block)).collect())
                    })
                })
                .into();
            let mut taken: Vec<usize> = mailbox.close(Rest::NONE).map(|block| blocks.take(block)).collect();
            // The next heap with this number.
            mailbox.open();
            senders.into_iter().for_each(|sender| taken.extend(sender.join().unwrap()));
            let mut rest = Rest::NONE;
            mailbox.receive(&mut rest, |block| taken.push(blocks.take(block)));
            taken.sort_unstable();
            assert_eq!(taken, [0, 1]);
        });
    }

    /// Finds these mutants: the lock taken or left relaxed; a put without the question whether the bin is closed.
    #[test]
    fn loom_a_bin_loses_no_block() {
        check(|| {
            let (blocks, bin) = (Blocks::new(2), Arc::new(Bin::new()));
            bin.open();
            let sender = {
                let (blocks, bin) = (blocks.clone(), bin.clone());
                loom::thread::spawn(move || {
                    let back = [0, 1].into_iter().filter_map(|at| bin.put(blocks.batch(&[at])).err());
                    back.flat_map(Batch::into_blocks).map(|block| blocks.take(block)).collect::<Vec<usize>>()
                })
            };
            let mut taken: Vec<usize> = bin.take().map(|block| blocks.take(block)).collect();
            taken.extend(bin.close().map(|block| blocks.take(block)));
            taken.extend(sender.join().unwrap());
            taken.sort_unstable();
            assert_eq!(taken, [0, 1]);
        });
    }

    /// Finds this mutant: the hint set before the lock is taken, and cleared by a take in between.
    #[test]
    fn loom_what_is_in_a_bin_is_seen() {
        check(|| {
            let (blocks, bin) = (Blocks::new(1), Arc::new(Bin::new()));
            bin.open();
            let sender = {
                let (blocks, bin) = (blocks.clone(), bin.clone());
                loom::thread::spawn(move || assert!(bin.put(blocks.batch(&[0])).is_ok()))
            };
            let early = bin.take().map(|block| blocks.take(block)).count();
            sender.join().unwrap();
            let late = bin.take().map(|block| blocks.take(block)).count();
            assert_eq!(early + late, 1);
        });
    }
}
