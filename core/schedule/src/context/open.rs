//! How many tasks of a context are not over.

use crate::SeatId;
use crate::sync::{AtomicI64, AtomicU32, AtomicU64, Ordering};

/// Counts a context's unfinished tasks in two ways: as *children*, over once they have run, and as *subtrees*, over
/// once the child and all its descendants are.
///
/// Tasks both spawned and run by the owner's seat are counted without atomic arithmetic. When the owner is about to
/// sleep, or has ended, its count is added to the one of the other seats; the last of these seats then wakes the owner,
/// or finds the context no longer needed.
///
/// One word has both counts, so one addition changes both. The other seats add and subtract in any order, and a part of
/// the sum is in the owner's own word; meanwhile a bias keeps the sum from borrowing from the flags.
#[derive(Debug)]
pub(crate) struct Open {
    /// Only the owner's seat writes it; [`Sum`] without a bias.
    own: AtomicI64,
    /// [`Sum`], with its bias and its flags.
    others: AtomicU64,
    /// The owner's seat, [`NO_SEAT`] once the owner has ended, or [`SUSPENDED`] while the owner is suspended and its
    /// seat does other things.
    seat: AtomicU32,
    /// The owner, as one to be woken.
    waiter: Waiter,
}

/// No seat has this number.
const NO_SEAT: u32 = u32::MAX;
/// Nor this one.
const SUSPENDED: u32 = u32::MAX - 1;

/// A waiter to be told to check its condition: a seat, or a suspended task. The word is the world's; this crate only
/// keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter(pub usize);

/// The tasks awaited by an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AwaitedTasks {
    /// The context's own.
    Children,
    /// The context's own tasks, and all their descendants.
    Subtrees,
}

/// The ended part of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Ended {
    /// A child with unfinished descendants.
    Child = CHILD,
    /// The rest of a child's subtree, after the child.
    Subtree = SUBTREE,
    /// A child without open descendants.
    Both = CHILD + SUBTREE,
}

/// The next step of a seat after a task's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Nothing.
    Nothing,
    /// The owner may sleep, and its awaited tasks are over now: it has to check.
    Notify(Waiter),
    /// The owner has ended, and so has the whole subtree: the caller drops the context.
    Drop,
}

const CHILD: u64 = 1;
const SUBTREE: u64 = 1 << 32;
/// Up to 2^28 tasks may end on other seats while the owner, their spawner, neither sleeps nor ends.
const BIAS: u64 = (CHILD << 30) + (SUBTREE << 28);
/// The owner sleeps, or has slept.
const ASLEEP: u64 = 1 << 62;
/// The owner has ended.
const LEFT: u64 = 1 << 63;

/// The two counts.
#[derive(Clone, Copy)]
struct Sum(u64);

impl Sum {
    fn is_done(self, wanted: AwaitedTasks) -> bool {
        match wanted {
            AwaitedTasks::Children => self.0 as u32 == BIAS as u32,
            AwaitedTasks::Subtrees => self.0 & !(ASLEEP | LEFT) == BIAS,
        }
    }
}

impl Open {
    /// None yet, for an owner on this seat.
    #[inline]
    pub(crate) fn new(seat: SeatId, waiter: Waiter) -> Open {
        let seat = AtomicU32::new(seat.index() as u32);
        Open { own: AtomicI64::new(0), others: AtomicU64::new(BIAS), seat, waiter }
    }

    /// Counts one more child, spawned by `seat`: the spawner is the owner, a task of the context, or a descendant.
    #[inline]
    pub(crate) fn begin(&self, seat: SeatId) {
        // Relaxed: the spawner is the owner or is counted itself, so the sum can't become zero meanwhile.
        if self.is_owners(seat) {
            let own = self.own.load(Ordering::Relaxed);
            self.own.store(own.wrapping_add(Ended::Both as i64), Ordering::Relaxed);
        } else {
            self.others.fetch_add(Ended::Both as u64, Ordering::Relaxed);
        }
    }

    /// Counts an end, on `seat`. Unless the answer is [`Then::Drop`], the context may be gone after this.
    #[inline]
    pub(crate) fn end(&self, seat: SeatId, what: Ended) -> Then {
        let owner = self.seat.load(Ordering::Relaxed);
        if owner == seat.index() as u32 {
            let own = self.own.load(Ordering::Relaxed);
            self.own.store(own.wrapping_sub(what as i64), Ordering::Relaxed);
            return Then::Nothing;
        }
        // Read now: the context may be gone after the next line.
        let waiter = self.waiter;
        // Release: the waiting thread sees the task's writes. Acquire: the thread that drops the context sees all
        // tasks' writes.
        let now = self.others.fetch_sub(what as u64, Ordering::AcqRel).wrapping_sub(what as u64);
        let sum = Sum(now);
        if now & LEFT != 0 {
            return if sum.is_done(AwaitedTasks::Subtrees) { Then::Drop } else { Then::Nothing };
        }
        // The owner has added its own count here before it slept. It may wait for either sum. An awake owner checks by
        // itself.
        let is_over = owner != NO_SEAT
            && now & ASLEEP != 0
            && (sum.is_done(AwaitedTasks::Children) || sum.is_done(AwaitedTasks::Subtrees));
        if is_over { Then::Notify(waiter) } else { Then::Nothing }
    }

    /// Whether all tasks awaited by the owner are over. The owner calls it.
    #[inline]
    pub(crate) fn is_done(&self, wanted: AwaitedTasks) -> bool {
        // Acquire: sees the writes of tasks on other seats.
        let others = self.others.load(Ordering::Acquire);
        Sum(others.wrapping_add_signed(self.own.load(Ordering::Relaxed))).is_done(wanted)
    }

    /// The owner is about to sleep: from now on the seat with the last task's end reports that the owner is to check.
    /// Returns whether the owner still has to wait.
    pub(crate) fn announce_sleep(&self, wanted: AwaitedTasks) -> bool {
        self.give_away();
        // Acquire: as in `is_done`. The flag stays: a seat notified in vain checks once more.
        !Sum(self.others.fetch_or(ASLEEP, Ordering::AcqRel)).is_done(wanted)
    }

    /// Like [`Open::announce_sleep`], for an owner suspended while its seat goes on: tasks ended there meanwhile count
    /// like those of other seats, and the last one reports that the owner is to check. [`Open::note_resumed`] ends the
    /// suspension.
    pub(crate) fn announce_suspension(&self, wanted: AwaitedTasks) -> bool {
        // Relaxed: other threads compare it with their own seats only.
        self.seat.store(SUSPENDED, Ordering::Relaxed);
        self.announce_sleep(wanted)
    }

    /// The owner goes on, on this seat.
    pub(crate) fn note_resumed(&self, seat: SeatId) {
        self.seat.store(seat.index() as u32, Ordering::Relaxed);
    }

    /// The owner has ended. Whether it has to drop the context; if not, [`Open::end`] tells another thread later.
    pub(crate) fn end_owner(&self) -> bool {
        if self.is_done(AwaitedTasks::Subtrees) {
            return true;
        }
        // Later ends of tasks on this thread count like those of other seats. Other threads compare only with their own
        // seats.
        self.seat.store(NO_SEAT, Ordering::Relaxed);
        self.give_away();
        // Acquire: as in `end`. Release: the thread that drops the context sees the owner's changes to it.
        Sum(self.others.fetch_or(LEFT, Ordering::AcqRel)).is_done(AwaitedTasks::Subtrees)
    }

    /// Adds the owner's own count to the others'.
    fn give_away(&self) {
        let own = self.own.load(Ordering::Relaxed);
        self.own.store(0, Ordering::Relaxed);
        // Release: the thread with the last task's end sees the writes of this seat's tasks.
        self.others.fetch_add(own as u64, Ordering::AcqRel);
    }

    #[inline]
    fn is_owners(&self, seat: SeatId) -> bool {
        self.seat.load(Ordering::Relaxed) == seat.index() as u32
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    const OWNER: Waiter = Waiter(7);

    fn seats() -> [SeatId; 3] {
        [0, 1, 2].map(SeatId::new)
    }

    /// A context's count, the cells written by its tasks, and whether the owner's seat was notified.
    struct Model {
        open: Open,
        written: [UnsafeCell<u32>; 2],
        notified: AtomicBool,
        drops: UnsafeCell<u32>,
    }

    #[expect(unsafe_code, reason = "the cells are what the model is about")]
    // SAFETY: loom tells if two threads use a cell at once.
    unsafe impl Sync for Model {}

    impl Model {
        fn new() -> Arc<Model> {
            Arc::new(Model {
                open: Open::new(seats()[0], OWNER),
                written: [UnsafeCell::new(0), UnsafeCell::new(0)],
                notified: AtomicBool::new(false),
                drops: UnsafeCell::new(0),
            })
        }

        fn write(&self, task: usize) {
            #[expect(unsafe_code, reason = "loom's cell")]
            // SAFETY: as for `Sync`.
            self.written[task].with_mut(|cell| unsafe { *cell += 1 });
        }

        /// Checks that this thread sees the tasks' writes.
        fn read(&self) {
            #[expect(unsafe_code, reason = "loom's cell")]
            // SAFETY: as for `Sync`.
            let each = |cell: &UnsafeCell<u32>| cell.with(|cell| assert_eq!(unsafe { *cell }, 1));
            self.written.iter().for_each(each);
        }

        fn follow(&self, then: Then) {
            match then {
                Then::Nothing => {}
                Then::Notify(waiter) => {
                    assert_eq!(waiter, OWNER);
                    self.notified.store(true, Ordering::Release);
                }
                Then::Drop => {
                    self.read();
                    #[expect(unsafe_code, reason = "loom's cell")]
                    // SAFETY: as for `Sync`.
                    self.drops.with_mut(|cell| unsafe { *cell += 1 });
                }
            }
        }

        /// The owner: sleeps while it has to wait, until it is notified.
        fn wait(&self, wanted: AwaitedTasks) {
            if !self.open.is_done(wanted) && self.open.announce_sleep(wanted) {
                while !self.notified.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                assert!(self.open.is_done(wanted), "notified for nothing");
            }
            self.read();
        }
    }

    /// Two tasks on two seats, and the owner sleeps until both are over.
    #[test]
    fn loom_the_owner_is_woken_by_the_last_task_and_sees_what_all_did() {
        loom::model(|| {
            let (model, [owner, other, third]) = (Model::new(), seats());
            (0..2).for_each(|_| model.open.begin(owner));
            let seats = [(other, 0), (third, 1)].map(|(seat, task)| {
                let model = Arc::clone(&model);
                thread::spawn(move || {
                    model.write(task);
                    model.follow(model.open.end(seat, Ended::Both));
                })
            });
            model.wait(AwaitedTasks::Subtrees);
            seats.into_iter().for_each(|seat| seat.join().unwrap());
        });
    }

    /// The owner runs one of two tasks itself; the other one spawned it.
    #[test]
    fn loom_a_task_that_another_seat_spawned_may_end_on_the_owners() {
        loom::model(|| {
            let (model, [owner, other, _]) = (Model::new(), seats());
            model.open.begin(owner);
            let spawned = Arc::new(AtomicBool::new(false));
            let seat = {
                let (model, spawned) = (Arc::clone(&model), Arc::clone(&spawned));
                thread::spawn(move || {
                    model.open.begin(other);
                    spawned.store(true, Ordering::Release);
                    model.write(0);
                    model.follow(model.open.end(other, Ended::Both));
                })
            };
            while !spawned.load(Ordering::Acquire) {
                thread::yield_now();
            }
            model.write(1);
            assert_eq!(model.open.end(owner, Ended::Both), Then::Nothing);
            model.wait(AwaitedTasks::Children);
            seat.join().unwrap();
        });
    }

    /// Once the owner had slept and was about to leave; a task that ended meanwhile notified a seat that does not
    /// exist.
    #[test]
    fn loom_an_owner_that_leaves_is_not_notified() {
        loom::model(|| {
            let (model, [owner, other, third]) = (Model::new(), seats());
            (0..2).for_each(|_| model.open.begin(owner));
            // It slept until its children were over; their subtrees are not.
            assert!(model.open.announce_sleep(AwaitedTasks::Children));
            let _ = model.open.end(other, Ended::Child);
            let _ = model.open.end(third, Ended::Child);
            let seats = [(other, 0), (third, 1)].map(|(seat, task)| {
                let model = Arc::clone(&model);
                thread::spawn(move || {
                    model.write(task);
                    let then = model.open.end(seat, Ended::Subtree);
                    model.follow(then);
                })
            });
            if model.open.end_owner() {
                model.follow(Then::Drop);
            }
            seats.into_iter().for_each(|seat| seat.join().unwrap());
            #[expect(unsafe_code, reason = "loom's cell")]
            // SAFETY: the other threads have ended.
            model.drops.with(|cell| assert_eq!(unsafe { *cell }, 1));
        });
    }

    /// The owner ends before its children, one of them on its own seat: exactly one of the three drops the context,
    /// after all writes.
    #[test]
    fn loom_a_context_whose_owner_has_ended_is_dropped_once_by_the_last() {
        loom::model(|| {
            let (model, [owner, other, _]) = (Model::new(), seats());
            (0..2).for_each(|_| model.open.begin(owner));
            let seat = {
                let model = Arc::clone(&model);
                thread::spawn(move || {
                    model.write(0);
                    model.follow(model.open.end(other, Ended::Both));
                })
            };
            let by_owner = model.open.end_owner();
            assert!(!by_owner, "one task is left for this thread");
            model.write(1);
            // A child with open descendants, and then these.
            model.follow(model.open.end(owner, Ended::Child));
            model.follow(model.open.end(owner, Ended::Subtree));
            seat.join().unwrap();
            #[expect(unsafe_code, reason = "loom's cell")]
            // SAFETY: the other thread has ended.
            model.drops.with(|cell| assert_eq!(unsafe { *cell }, 1));
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn children_are_over_before_their_subtrees() {
        let (owner, other) = (SeatId::new(3), SeatId::new(5));
        let open = Open::new(owner, Waiter(7));
        [owner, other, owner].into_iter().for_each(|seat| open.begin(seat));
        let done = || [AwaitedTasks::Children, AwaitedTasks::Subtrees].map(|wanted| open.is_done(wanted));
        assert_eq!(done(), [false, false]);
        assert_eq!(open.end(other, Ended::Both), Then::Nothing);
        assert_eq!(open.end(other, Ended::Child), Then::Nothing, "more ended there than began there");
        assert_eq!(open.end(owner, Ended::Both), Then::Nothing);
        assert_eq!(done(), [true, false]);
        assert!(!open.announce_sleep(AwaitedTasks::Children));
        assert!(open.announce_sleep(AwaitedTasks::Subtrees));
        assert_eq!(open.end(other, Ended::Subtree), Then::Notify(Waiter(7)));
        assert_eq!(done(), [true, true]);
        assert!(open.end_owner());
    }

    #[test]
    fn a_suspended_owner_is_notified_by_a_task_that_ends_on_its_own_seat() {
        let seat = SeatId::new(3);
        let open = Open::new(seat, Waiter(9));
        open.begin(seat);
        open.begin(seat);
        assert!(open.announce_suspension(AwaitedTasks::Subtrees));
        assert_eq!(open.end(seat, Ended::Both), Then::Nothing);
        assert_eq!(open.end(seat, Ended::Both), Then::Notify(Waiter(9)));
        open.note_resumed(seat);
        assert!(open.is_done(AwaitedTasks::Subtrees));
        open.begin(seat);
        assert_eq!(open.end(seat, Ended::Both), Then::Nothing, "it is on its seat again, and checks by itself");
        assert!(open.is_done(AwaitedTasks::Subtrees) && open.end_owner());
    }
}
