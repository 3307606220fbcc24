//! Tasks with declared data: they run in the order of their accesses, near their bytes.

use super::description::TaskDescription;
use super::scope::Scope;
use std::marker::PhantomData;
use std::ops::{Bound, Range, RangeBounds};
use vicus_schedule::{Access, Kind, Mode};
use vicus_topology::Place;

/// Elements read and written by several tasks of a scope, in the order of their descriptions. Copies refer to the same
/// elements. Made by [`Scope::share`].
pub struct SharedSlice<'scope, T> {
    start: *mut T,
    /// The index of its first element: it alone tells elements without bytes apart.
    first: usize,
    len: usize,
    /// The address of the scope with the sharing tasks: another scope would not order its tasks by them.
    scope: *const (),
    elements: PhantomData<&'scope mut [T]>,
}

/// Some of the elements of a [`SharedSlice`], as a task declares them.
pub struct Part<'scope, T>(SharedSlice<'scope, T>);

impl<T> Clone for SharedSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedSlice<'_, T> {}

impl<T> Clone for Part<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Part<'_, T> {}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: only tasks access its elements, and their order keeps writers apart from all others.
unsafe impl<T: Send> Send for SharedSlice<'_, T> {}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: as above; a copy can be sent, so a reference can.
unsafe impl<T: Send> Sync for SharedSlice<'_, T> {}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: as for `SharedSlice`; tasks at the same time may read it, so references to elements go to several threads.
unsafe impl<T: Send + Sync> Send for Part<'_, T> {}

impl<T> Part<'_, T> {
    fn access(&self, mode: Mode) -> Access {
        // Elements without bytes are also used by one task at a time.
        let (before, bytes) = if size_of::<T>() == 0 { (self.0.first, 1) } else { (0, size_of::<T>()) };
        Access::new(self.0.start.addr() + before, self.0.len * bytes, mode)
    }
}

impl<'scope, T> SharedSlice<'scope, T> {
    /// Some of its elements. Panics if the range ends beyond its elements.
    pub fn part(self, elements: impl RangeBounds<usize>) -> Part<'scope, T> {
        let Range { start, end } = range(&elements, self.len);
        assert!(start <= end && end <= self.len, "elements {start}..{end} of {} that are shared", self.len);
        #[expect(unsafe_code, reason = "a pointer into the elements")]
        // SAFETY: inside of the elements, or at their end.
        let first = unsafe { self.start.add(start) };
        Part(SharedSlice { start: first, first: start, len: end - start, ..self })
    }

    /// How many elements it has.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

fn range(bounds: &impl RangeBounds<usize>, len: usize) -> Range<usize> {
    let start = match bounds.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&start) => after(start, len),
        Bound::Unbounded => 0,
    };
    let end = match bounds.end_bound() {
        Bound::Included(&end) => after(end, len),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    start..end
}

fn after(element: usize, len: usize) -> usize {
    element.checked_add(1).unwrap_or_else(|| panic!("element {element} of {len} that are shared"))
}

/// Data for a task to read or write: a [`Part`], or a slice of its own.
pub trait Data {
    /// The closure's argument for it.
    type View<'v>;

    #[doc(hidden)]
    fn access(&self) -> Access;

    /// The scope with other tasks that may describe the same data; `None` if only this task has it.
    #[doc(hidden)]
    fn scope(&self) -> Option<*const ()>;

    /// # Safety
    /// Called when the task runs, in its turn to read or write the data; the view ends with the task.
    #[doc(hidden)]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    unsafe fn view<'v>(self) -> Self::View<'v>;
}

#[doc(hidden)]
pub struct Reads<D>(D);

#[doc(hidden)]
pub struct Writes<D>(D);

impl<T: Sync + 'static> Data for Reads<Part<'_, T>> {
    type View<'v> = &'v [T];

    fn scope(&self) -> Option<*const ()> {
        Some(self.0.0.scope)
    }

    fn access(&self) -> Access {
        self.0.access(Mode::Read)
    }

    #[expect(unsafe_code, reason = "makes a slice of a part")]
    unsafe fn view<'v>(self) -> &'v [T] {
        // SAFETY: elements borrowed by the scope; no task writing them runs at the same time, by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.0.0.start, self.0.0.len) }
    }
}

impl<T: Send + 'static> Data for Writes<Part<'_, T>> {
    type View<'v> = &'v mut [T];

    fn scope(&self) -> Option<*const ()> {
        Some(self.0.0.scope)
    }

    fn access(&self) -> Access {
        self.0.access(Mode::ReadWrite)
    }

    #[expect(unsafe_code, reason = "makes a slice of a part")]
    unsafe fn view<'v>(self) -> &'v mut [T] {
        // SAFETY: elements borrowed by the scope; no other task with them runs at the same time, by the caller's
        // promise.
        unsafe { std::slice::from_raw_parts_mut(self.0.0.start, self.0.0.len) }
    }
}

impl<'scope, T: Sync> Data for Reads<&'scope [T]> {
    type View<'v> = &'scope [T];

    fn scope(&self) -> Option<*const ()> {
        None
    }

    fn access(&self) -> Access {
        Access::of(self.0, Mode::Read)
    }

    #[expect(unsafe_code, reason = "the trait's; a slice needs no promise")]
    unsafe fn view<'v>(self) -> Self::View<'v> {
        self.0
    }
}

impl<'scope, T: Send> Data for Writes<&'scope mut [T]> {
    type View<'v> = &'scope mut [T];

    fn scope(&self) -> Option<*const ()> {
        None
    }

    fn access(&self) -> Access {
        Access::of(&*self.0, Mode::ReadWrite)
    }

    #[expect(unsafe_code, reason = "the trait's; a slice needs no promise")]
    unsafe fn view<'v>(self) -> Self::View<'v> {
        self.0
    }
}

/// Several [`Data`], in the order of a task's description.
pub trait Views {
    /// The closure's argument.
    type Of<'v>;

    /// # Safety
    /// As for [`Data::view`].
    #[doc(hidden)]
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    unsafe fn views<'v>(self) -> Self::Of<'v>;
}

/// Several [`Data`], and one more.
pub trait Append<D>: Views {
    /// All of them.
    type With: Views;

    #[doc(hidden)]
    fn append(self, data: D) -> Self::With;
}

macro_rules! views {
    ($($name:ident)*) => {
        impl<$($name: Data),*> Views for ($($name,)*) {
            type Of<'v> = ($($name::View<'v>,)*);

            #[expect(unsafe_code, reason = "the trait's")]
            #[allow(clippy::unused_unit, non_snake_case, reason = "there are none, and types name their values")]
            unsafe fn views<'v>(self) -> Self::Of<'v> {
                let ($($name,)*) = self;
                // SAFETY: the caller's promise.
                ($(unsafe { $name.view() },)*)
            }
        }
    };
}

macro_rules! append {
    ($($name:ident)*) => {
        impl<$($name: Data,)* Last: Data> Append<Last> for ($($name,)*) {
            type With = ($($name,)* Last,);

            #[allow(non_snake_case, reason = "types name their values")]
            fn append(self, data: Last) -> Self::With {
                let ($($name,)*) = self;
                ($($name,)* data,)
            }
        }
    };
}

views! {}
views! { A }
views! { A B }
views! { A B C }
views! { A B C D }
views! { A B C D E }
views! { A B C D E F }
views! { A B C D E F G }
views! { A B C D E F G H }
append! {}
append! { A }
append! { A B }
append! { A B C }
append! { A B C D }
append! { A B C D E }
append! { A B C D E F }
append! { A B C D E F G }

/// The description of a task; see [`Scope::task`].
#[must_use = "a task runs when it is spawned"]
pub struct TaskBuilder<'a, 'scope, V> {
    scope: &'a Scope<'scope>,
    said: TaskDescription,
    views: V,
}

impl<'scope> Scope<'scope> {
    /// Lets tasks of this scope share elements. From now on the elements are theirs, until the scope ends.
    pub fn share<T: Send>(&self, elements: &'scope mut [T]) -> SharedSlice<'scope, T> {
        let scope = std::ptr::from_ref(self).cast();
        SharedSlice { start: elements.as_mut_ptr(), first: 0, len: elements.len(), scope, elements: PhantomData }
    }

    /// Begins the description of a task with its data. The task runs after the earlier tasks that write its inputs, or
    /// read or write its outputs, as if all ran one after the other. It runs near most of its bytes, if the strategy
    /// uses places.
    ///
    /// ```
    /// let runtime = vicus_machine::MachineRuntime::builder().threads(2).start();
    /// let (mut a, mut b) = (vec![1; 1000], vec![0; 1000]);
    /// runtime.run(|| vicus_machine::scope(|scope| {
    ///     let (a, b) = (scope.share(&mut a), scope.share(&mut b));
    ///     for part in [0..500, 500..1000] {
    ///         let (from, to) = (a.part(part.clone()), b.part(part));
    ///         scope.task().reads(from).writes(to).spawn(|(from, to)| to.copy_from_slice(from));
    ///     }
    ///     // After both.
    ///     scope.task().writes(b.part(..)).spawn(|(b,)| b.iter_mut().for_each(|element| *element += 1));
    /// }));
    /// assert!(b.iter().all(|&element| element == 2));
    /// ```
    pub fn task<'a>(&'a self) -> TaskBuilder<'a, 'scope, ()> {
        TaskBuilder { scope: self, said: TaskDescription::default(), views: () }
    }
}

impl<'a, 'scope, V> TaskBuilder<'a, 'scope, V> {
    /// Adds elements it reads; its closure gets them, in the order of the description.
    pub fn reads<D>(self, data: D) -> TaskBuilder<'a, 'scope, V::With>
    where
        Reads<D>: Data,
        V: Append<Reads<D>>,
    {
        self.describe(Reads(data))
    }

    /// Adds elements it reads and writes; its closure gets them, in the order of the description.
    ///
    /// Panics if the description has some of them already.
    pub fn writes<D>(self, data: D) -> TaskBuilder<'a, 'scope, V::With>
    where
        Writes<D>: Data,
        V: Append<Writes<D>>,
    {
        self.describe(Writes(data))
    }

    fn describe<D: Data>(mut self, data: D) -> TaskBuilder<'a, 'scope, V::With>
    where
        V: Append<D>,
    {
        let access = data.access();
        let overlaps = |other: &&Access| {
            let apart = other.start + other.bytes <= access.start || access.start + access.bytes <= other.start;
            // An empty part shares no elements, wherever it is.
            let share = !apart && other.bytes > 0 && access.bytes > 0;
            share && (other.mode.writes() || access.mode.writes())
        };
        if let Some(other) = self.said.accesses().iter().find(overlaps) {
            panic!("a task says that it uses the same memory twice: {other:?} and {access:?}");
        }
        if let Some(scope) = data.scope() {
            let own: *const () = std::ptr::from_ref(self.scope).cast();
            assert!(scope == own, "a task of one scope says that it uses what is shared in another one");
            self.said.follows_borrowed(access);
        } else {
            self.said.borrows(&[access]);
        }
        let TaskBuilder { scope, said, views } = self;
        TaskBuilder { scope, said, views: views.append(data) }
    }

    /// Declares bytes read and written, only for its order and its place: the closure does not get them. For data
    /// unknown to the type system, such as a library's in another language.
    ///
    /// In a build with debug assertions, panics if some of it is freed memory of this library; and so does the task,
    /// instead of running, if the memory is freed by then.
    #[track_caller]
    pub fn follows(mut self, accesses: &[Access]) -> Self {
        self.said.follows(accesses);
        self
    }

    /// Declares bytes read and written, only for its place.
    ///
    /// In a build with debug assertions, panics if some of it is freed memory of this library; and so does the task,
    /// instead of running, if the memory is freed by then. Memory given out again meanwhile passes, and so do items of
    /// a living pool.
    ///
    /// ```
    /// use vicus_machine::MachineRuntime;
    /// use vicus_schedule::{Access, Mode};
    ///
    /// let runtime = MachineRuntime::builder().threads(1).start();
    /// let table = runtime.alloc(std::alloc::Layout::new::<[u64; 1000]>(), None)?;
    /// let access = Access::of(table.bytes(), Mode::Read);
    /// runtime.run(|| vicus_machine::scope(|scope| scope.task().touches(&[access]).spawn(|()| ())));
    /// drop(table); // Before the scope's end, that would have been a panic.
    /// # Ok::<(), vicus_memory::PlaceError>(())
    /// ```
    #[track_caller]
    pub fn touches(mut self, accesses: &[Access]) -> Self {
        self.said.touches(accesses);
        self
    }

    /// Marks the last described data as used so intensely that they alone decide its place (`vicinity`: Muddukrishna et
    /// al., algorithm 3).
    pub fn intensely(mut self) -> Self {
        self.said.intensely();
        self
    }

    /// Makes it an immediate task: it shares most of its data with its spawner, and is run soon and near.
    pub fn immediate(mut self) -> Self {
        self.said.kind = Some(Kind::Immediate);
        self
    }

    /// Runs it in the neighbourhood of this node or core group, regardless of its bytes; see [`Scope::spawn_at`], also
    /// for unknown places.
    pub fn at(mut self, place: impl Into<Place>) -> Self {
        self.said.place = Some(place.into());
        self
    }

    /// Sets its priority. Among the scope's ready tasks with a priority, the largest priority is taken first; among
    /// equal ones, the task ready longest. Tasks for different places, or dealt there by their bytes, don't compare. No
    /// running task is interrupted, and tasks without a priority are not affected.
    ///
    /// ```
    /// use std::sync::Mutex;
    ///
    /// let order = Mutex::new(Vec::new());
    /// vicus_machine::MachineRuntime::builder().threads(1).start().run(|| {
    ///     vicus_machine::scope(|scope| {
    ///         for priority in [1, 5, 3] {
    ///             let order = &order;
    ///             scope.task().priority(priority).spawn(move |()| order.lock().unwrap().push(priority));
    ///         }
    ///     });
    /// });
    /// assert_eq!(order.into_inner().unwrap(), [5, 3, 1]);
    /// ```
    pub fn priority(mut self, priority: i32) -> Self {
        self.said.priority = Some(priority);
        self
    }

    /// Spawns it. Its closure gets the described elements. If it panics, tasks waiting for its outputs are dropped.
    pub fn spawn<F>(self, f: F)
    where
        V: Views + Send + 'scope,
        F: for<'v> FnOnce(V::Of<'v>) + Send + 'scope,
    {
        let TaskBuilder { scope, said, views } = self;
        scope.put_said(said, move |_| {
            #[expect(unsafe_code, reason = "makes slices of parts")]
            // SAFETY: it is the task's turn: its predecessors are over, and its successors wait until this closure has
            // returned. The closure can't keep the slices longer, because it is generic over their lifetime.
            f(unsafe { views.views() });
        });
    }
}
