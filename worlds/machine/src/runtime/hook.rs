//! The one hook of the runtime: a layer above it has code with stacks of its own, and suspends it while it waits.
//!
//! The runtime knows such code by its [`Waiter`], and whether there has been any. It calls the layer on slow paths
//! alone: where code waits or is woken, before a seat sleeps, and at the end. A runtime without a layer runs every task
//! on its thread's own stack.

use crate::runtime::moves::Moves;
use crate::runtime::shared::RuntimeState;
use crate::sync::Padded;
use std::any::Any;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use vicus_schedule::{SeatId, TaskRef, Waiter, Way};

/// A layer above a runtime. [`Waiter`]s given to it are those of its code.
pub trait Layer: Any + Send + Sync {
    /// Makes suspended code check its wait condition.
    fn wake(&self, code: Waiter);

    /// Suspends the calling code until it is woken, perhaps for nothing. It has a stack of its own.
    fn suspend(&self);

    /// Lets other tasks of the calling seat go before the calling code, which has a stack of its own.
    fn yield_now(&self);

    /// A task begins on top of this code, or it lends its thread: it stays with its seat meanwhile.
    fn enter_task(&self, code: Waiter);

    /// The end of [`Layer::enter_task`].
    fn leave_task(&self, code: Waiter);

    /// Begins a task that gets a stack of its own. `way` says how the calling seat found it.
    ///
    /// # Errors
    /// It is another task, and not begun.
    fn begin(&self, task: TaskRef, way: Way) -> Result<(), TaskRef>;

    /// Runs a task of a closure on another stack: a wait in it leaves the calling stack to the task beneath.
    ///
    /// # Errors
    /// It has a stack of its own anyway, or there is none for it. It is not begun.
    fn run_aside(&self, task: TaskRef, way: Way) -> Result<(), TaskRef>;

    /// The calling seat's thread is about to do something else, for as long as it likes: other seats get its code that
    /// is ready and may go there.
    fn send_away(&self);

    /// The calling seat is about to sleep.
    fn before_sleep(&self);

    /// Seats have slept for long, or a runtime has ended: free memory goes back to the system.
    fn give_back_memory(&self);

    /// Ends all code of a runtime. Returns whether all has ended.
    fn end(&self, shared: &RuntimeState) -> bool;
}

/// Makes the layer of a runtime with this number of seats.
pub type NewLayer = fn(usize) -> Arc<dyn Layer>;

/// A runtime's side of the hook.
pub struct Hook {
    /// Set at the runtime's start, or later by the layer's first code.
    layer: OnceLock<Arc<dyn Layer>>,
    /// Whether code of the layer has been spawned.
    pub(super) any: AtomicBool,
    /// By seat.
    moves: Box<[Padded<Moves>]>,
}

impl Hook {
    pub(crate) fn new(seats: usize, layer: Option<NewLayer>) -> Hook {
        let layer = layer.map_or_else(OnceLock::new, |new| OnceLock::from(new(seats)));
        Hook { layer, any: AtomicBool::new(false), moves: (0..seats).map(|_| Padded(Moves::new())).collect() }
    }

    /// The layer, if there is one.
    #[inline]
    pub fn layer(&self) -> Option<&dyn Layer> {
        self.layer.get().map(|layer| &**layer)
    }

    /// Like [`Hook::layer`], as an owner.
    pub fn shared_layer(&self) -> Option<Arc<dyn Layer>> {
        self.layer.get().cloned()
    }

    /// The layer; a new one if there is none yet.
    #[inline]
    pub fn layer_or(&self, new: NewLayer) -> &dyn Layer {
        &**self.layer.get_or_init(|| new(self.moves.len()))
    }

    /// Whether code of the layer has been spawned. From then on a wait may depend on such code, and that on any task.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// A seat's messages to other seats.
    #[inline]
    pub fn of_seat(&self, seat: SeatId) -> &Moves {
        &self.moves[seat.index()].0
    }

    /// Code of one seat is the other one's from now on.
    pub fn went(&self, from: SeatId, to: SeatId) {
        self.of_seat(from).send_one();
        self.of_seat(to).receive_one();
    }

    /// [`Layer::give_back_memory`], if there is a layer.
    pub(crate) fn give_back_memory(&self) {
        self.layer().inspect(|layer| layer.give_back_memory());
    }

    /// [`Layer::enter_task`], if this is code of the layer.
    pub(crate) fn enter_task(&self, code: Waiter) {
        self.layer().filter(|_| is_apart(code)).inspect(|layer| layer.enter_task(code));
    }

    /// [`Layer::leave_task`], if this is code of the layer.
    pub(crate) fn leave_task(&self, code: Waiter) {
        self.layer().filter(|_| is_apart(code)).inspect(|layer| layer.leave_task(code));
    }
}

/// A seat as a waiter; its word is odd. Words of a layer's code are even.
pub(crate) fn waiter_of_seat(seat: SeatId) -> Waiter {
    Waiter(seat.index() << 1 | 1)
}

/// Whether a waiter is code with a stack of its own.
#[inline]
pub fn is_apart(waiter: Waiter) -> bool {
    waiter.0 & 1 == 0
}

/// A seat's state of the layer: one value, made at its first use.
pub struct SeatState {
    /// Null as long as there is none.
    value: *mut (),
    drop: unsafe fn(*mut ()),
}

impl SeatState {
    /// No value.
    pub(crate) fn none() -> SeatState {
        SeatState { value: ptr::null_mut(), drop: |_| () }
    }

    /// Whether there is a value.
    #[inline]
    pub fn has_value(&self) -> bool {
        !self.value.is_null()
    }

    /// The value, if there is one.
    ///
    /// # Safety
    /// All calls for all workers of the process have the same type: there is one layer, which has one such type.
    #[inline]
    #[expect(unsafe_code, reason = "the caller promises the type: comparing it would be most of a switch's new cost")]
    pub unsafe fn get<T>(&mut self) -> Option<&mut T> {
        // SAFETY: null, or a `T` owned by this, by the caller's promise.
        unsafe { self.value.cast::<T>().as_mut() }
    }

    /// The value; a new one if there is none.
    ///
    /// # Safety
    /// As for [`SeatState::get`].
    #[inline]
    #[expect(unsafe_code, reason = "the caller promises the type: comparing it would be most of a switch's new cost")]
    pub unsafe fn get_or<T>(&mut self, new: impl FnOnce() -> T) -> &mut T {
        if self.value.is_null() {
            self.fill(new);
        }
        // SAFETY: a `T` owned by this, by the caller's promise.
        unsafe { &mut *self.value.cast::<T>() }
    }

    /// Not inlined: the new value would have room in each caller's frame.
    #[cold]
    #[inline(never)]
    fn fill<T>(&mut self, new: impl FnOnce() -> T) {
        #[expect(unsafe_code, reason = "the type of a table's functions")]
        // SAFETY of callers: the value is a `T` from `Box::into_raw`, and is not used any more.
        unsafe fn drop_box<T>(value: *mut ()) {
            // SAFETY: the caller's promise.
            drop(unsafe { Box::from_raw(value.cast::<T>()) });
        }
        *self = SeatState { value: Box::into_raw(Box::new(new())).cast(), drop: drop_box::<T> };
    }
}

impl Drop for SeatState {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "drops the value by the function of its type")]
        // SAFETY: `fill` has set both; without a value the function does nothing.
        unsafe {
            (self.drop)(self.value);
        }
    }
}

impl fmt::Debug for SeatState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeatState").field("has_value", &self.has_value()).finish_non_exhaustive()
    }
}
