//! The entry of a queue: one word, a pointer to the header at the beginning of the task.

use crate::ContextRef;
use std::fmt;
use std::ptr::NonNull;

/// A request. Requests are numbered as they arrive, so a smaller id is an older request (Falt et al. §4); one submitted
/// by a box of another request comes right behind that one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// The number of the outermost request around it: its own if there is none.
    age: u64,
    number: u64,
}

impl RequestId {
    /// A request of its own.
    pub const fn new(number: u64) -> RequestId {
        RequestId { age: number, number }
    }

    /// A request as old as the one that it is a part of.
    ///
    /// ```
    /// use vicus_schedule::RequestId;
    /// let (outer, next) = (RequestId::new(1), RequestId::new(2));
    /// let inner = RequestId::within(outer, 3);
    /// assert!(outer < inner && inner < next && inner.number() == 3);
    /// ```
    pub const fn within(outer: RequestId, number: u64) -> RequestId {
        RequestId { age: outer.age, number }
    }

    /// Its number, which no other request has.
    pub const fn number(self) -> u64 {
        self.number
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RequestId { age, number } = self;
        if age == number { write!(f, "RequestId({number})") } else { write!(f, "RequestId({number} within {age})") }
    }
}

/// Falt et al. §4: the relation of a task to its spawner, as the spawner states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Shares most of its data with its spawner: run it soon and near.
    Immediate = 0,
    /// Detached, or the first task of a larger piece of work: run it on any free seat.
    Deferred = 1,
}

impl Kind {
    /// How many kinds there are, for tables by kind.
    pub const COUNT: usize = 2;
}

/// Runs a task; see [`TaskClass::run`].
pub type RunTask = unsafe fn(TaskRef);

/// The common part of tasks of one kind: boxes, or the closures of one type.
#[derive(Debug)]
pub struct TaskClass {
    /// Runs the task, on the calling thread's seat. Afterwards the task is gone, or may be queued again.
    ///
    /// # Safety
    /// It is called once for each time the task was queued, after the task was taken out of its queue.
    pub run: RunTask,
    /// Whether it may run on its spawner's stack. A box may not: it could be the sender or the receiver of the box
    /// beneath it.
    pub runs_inline: bool,
    /// Whether its request has stopped and no longer needs it. `None`: it is never dropped unrun, since a task waits
    /// for it.
    ///
    /// # Safety
    /// It is called while the task is queued.
    pub is_unwanted: Option<unsafe fn(TaskRef) -> bool>,
}

/// The part of a task understood by every queue and every world. It is the first field of the task: of a box's cell, of
/// a waiting stack frame, of a block in a slab.
#[repr(C)]
#[derive(Debug)]
pub struct TaskHeader {
    /// The common part of its kind.
    pub class: &'static TaskClass,
    /// The context that counts it until it is over: its parent's children, a scope's tasks, a group's.
    pub context: ContextRef,
    /// The request it belongs to.
    pub request: RequestId,
    /// The number of the task: a box's index in its model. Others have one in a world that records;
    /// [`TaskHeader::UNNUMBERED`] elsewhere.
    pub number: u32,
    /// Whether it has data enough to be dealt, under a plan that deals by data
    /// ([`Plan::divides`](crate::Plan::divides)).
    pub has_data: bool,
}

impl TaskHeader {
    /// The number of unnumbered tasks.
    pub const UNNUMBERED: u32 = u32::MAX;
}

/// A task, as queues hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct TaskRef(NonNull<TaskHeader>);

#[expect(unsafe_code, reason = "a task travels between threads as a bare pointer")]
// SAFETY: the maker of a TaskRef promises (see `TaskRef::new`) that any thread may run the task and that it outlives
// its stay in the queues; the pointer itself carries no thread's state.
unsafe impl Send for TaskRef {}

impl TaskRef {
    /// A task to put into queues.
    ///
    /// # Safety
    /// `header` is the first field of a `#[repr(C)]` task with provenance over the whole task; until it has been run
    /// or dropped by its world it stays in place, and the functions of its class may be called from any thread.
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see: lifetime and thread safety")]
    pub unsafe fn new(header: NonNull<TaskHeader>) -> TaskRef {
        TaskRef(header)
    }

    /// The header's address.
    pub fn as_ptr(self) -> NonNull<TaskHeader> {
        self.0
    }

    /// The header of a task before its run.
    pub fn header(&self) -> &TaskHeader {
        #[expect(unsafe_code, reason = "follows the pointer that `new` was given")]
        // SAFETY: `new`'s caller promised that the task stays in place while it is in a queue, and headers are not
        // written to after their task was made.
        unsafe {
            self.0.as_ref()
        }
    }

    /// Whether its request has stopped and no longer needs it.
    ///
    /// # Safety
    /// The task is queued, or was taken and has not been run.
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub unsafe fn is_unwanted(self) -> bool {
        // SAFETY: the caller's promise.
        self.header().class.is_unwanted.is_some_and(|is_unwanted| unsafe { is_unwanted(self) })
    }
}
