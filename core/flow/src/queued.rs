//! A queued box, and its way to a running one.
//!
//! A world drives a request by values, each the evidence for the next step: [`Queued`] is made when a box has to run,
//! [`Queued::begin`] turns it into a [`Running`], [`Running::send`] into a [`Sent`](crate::Sent), and that is finished.
//! The request counts these values and is over when none is left. Until then its instance is alive: it holds itself
//! from [`Instance::start`] to [`Instance::settle`].

use crate::instance::BoxCell;
use crate::{BoxId, Instance, Running, SeatBuffers};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use vicus_schedule::{RequestId, RunTask, TaskClass, TaskHeader, TaskRef};
use vicus_topology::NodeId;

/// A box due to run. The value is the evidence that the box is in no queue, that it does not run, and that its request
/// counts it. If the value is dropped, the box is not run.
#[must_use = "a box that is dropped is not run"]
pub struct Queued(CellRef);

/// A box counted by its request: it is queued, or runs. Invariant: so the instance holds itself, and the cell with it.
#[derive(Clone, Copy)]
pub(crate) struct CellRef(NonNull<BoxCell>);

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: the cell is made for several threads, and lives as long as this value is used.
unsafe impl Send for CellRef {}

impl Deref for CellRef {
    type Target = BoxCell;

    #[inline]
    fn deref(&self) -> &BoxCell {
        #[expect(unsafe_code, reason = "follows a pointer to a box")]
        // SAFETY: by the type's invariant.
        unsafe {
            self.0.as_ref()
        }
    }
}

impl fmt::Debug for Queued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queued({:?} of {:?})", self.index(), self.request())
    }
}

impl Queued {
    /// A newly queued box, by its state word.
    #[inline]
    pub(crate) fn new(cell: &BoxCell, seat: Option<usize>) -> Queued {
        cell.instance().count_queued(seat);
        Queued(CellRef(NonNull::from(cell)))
    }

    /// The task for a queue. [`Queued::from_task`] gives the value back.
    #[inline]
    pub fn into_task(self) -> TaskRef {
        let queued = ManuallyDrop::new(self);
        #[expect(unsafe_code, reason = "makes the word that queues hold")]
        // SAFETY: the header is the first field of the #[repr(C)] cell, and the pointer is to the whole cell; the
        // instance holds itself until the task was run or dropped.
        unsafe {
            TaskRef::new(queued.0.0.cast::<TaskHeader>())
        }
    }

    /// A box taken out of a queue.
    ///
    /// # Safety
    /// `task` is from [`Queued::into_task`], and was not made a value again since.
    #[inline]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see: that it was taken once")]
    pub unsafe fn from_task(task: TaskRef) -> Queued {
        Queued(CellRef(task.as_ptr().cast()))
    }

    /// Its instance.
    #[inline]
    pub fn instance(&self) -> &Instance {
        self.0.instance()
    }

    /// A reference to its instance, to be kept beyond the value.
    pub fn share(&self) -> Arc<Instance> {
        self.instance().share()
    }

    /// Its request.
    #[inline]
    pub fn request(&self) -> RequestId {
        self.instance().id()
    }

    /// The box's index.
    #[inline]
    pub fn index(&self) -> BoxId {
        BoxId(self.0.index)
    }

    /// Whether it is to be run, and not dropped; see [`Instance::is_wanted`].
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.instance().needs(&self.0)
    }

    /// The inputs it will find: for each head other than a pill, its sender's node and its bytes.
    pub fn heads(&self, mut each: impl FnMut(NodeId, u64)) {
        // The owner of this value is the rings' only consumer: by the state word only it may have the box run (its
        // acquire saw the last runner's writes), and the next runner gets the box from here, by way of a queue.
        let heads = self.0.inputs.iter().filter_map(|input| input.ring.head());
        heads.filter(|head| !head.is_pill()).for_each(|head| each(head.node(), head.bytes()));
    }

    /// Drops it unrun: `seat` counts it as finished. After the last one the caller, with its own reference to the
    /// instance, settles the instance.
    pub fn discard(self, seat: Option<usize>) {
        let queued = ManuallyDrop::new(self);
        queued.instance().count_finished(seat);
    }

    /// Begins an invocation: tries again to send the refused envelopes, then takes the snapshot of the inputs.
    #[inline]
    pub fn begin(self, buffers: &mut SeatBuffers) -> Running {
        let queued = ManuallyDrop::new(self);
        Running::begin(queued.0, buffers)
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.instance().count_finished(None);
    }
}

/// The class of the boxes of a world that runs them with this function.
pub const fn box_class(run: RunTask) -> TaskClass {
    #[expect(unsafe_code, reason = "the type of a class's functions")]
    // SAFETY of callers: the task is from `Queued::into_task`, and not a value again.
    unsafe fn is_unwanted(task: TaskRef) -> bool {
        // SAFETY: the caller's promise; the value is not dropped here, so the task stays queued.
        let queued = ManuallyDrop::new(unsafe { Queued::from_task(task) });
        !queued.is_wanted()
    }
    TaskClass { run, runs_inline: false, is_unwanted: Some(is_unwanted) }
}
