//! Explicit tasks: children of the running task, in the sense of worlds/machine. This file adds OpenMP's part: the data
//! of a task, its settings, tasks that run at once, groups with reductions, and events.
//!
//! Outside of all regions there is no team, so tasks run at once.

//!
//! A new task is queued or runs at once, on top of its maker:
//!
//! | asked by | before it makes | runs at once if |
//! |---|---|---|
//! | [`is_called`] | anything: [`call`] needs no record | the thread is alone, its tasks stand on its stack, nothing reports them |
//! | [`runs_all_as_calls`] | a record with accesses | the same, by looking at each condition |
//! | [`is_without_queue`] | parts of a `taskloop` | no team, a final task, or a thread alone in its team |
//! | [`runs_at_once`] | a record without clauses | no queue, or enough tasks are queued |
//! | [`spawn`] | a record with clauses | no queue, undeferred, or enough tasks are queued and it need not wait |

use crate::records::{Code, Front, Record, UsedData, new_record};
use crate::report;
use crate::settings;
use crate::thread::{Group, Task, Thread, here};
use crate::wait::{KeepErrno, wait_until};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use vicus::GroupId;
use vicus::kit::team::{HeldChild, begin_child, end_child, wait_for_earlier, yield_to_descendants};
use vicus::kit::{close_group, open_group, spawn_child_in};
use vicus::tasks::{Access, Mode, child, wait_for_children};

pub(crate) type Function = unsafe extern "C-unwind" fn(*mut u8);

/// The clauses of a new task.
#[derive(Default)]
pub(crate) struct Clauses {
    pub(crate) is_undeferred: bool,
    pub(crate) priority: i32,
    pub(crate) accesses: Vec<Access>,
    /// Data it uses: it runs near to them.
    pub(crate) affinity: Vec<Access>,
    /// The task of a loop: the core group it ran in the last time, plus 1, or 0. It runs there again, and notes here
    /// the group it runs in.
    pub(crate) place: Option<&'static AtomicU16>,
}

/// A task in a queue: it is run once, or dropped if its group or its region was cancelled.
struct Queued(NonNull<Record>);

// SAFETY: the thread that takes the record out of the queue has it alone.
unsafe impl Send for Queued {}

impl Queued {
    #[inline]
    fn run(self) {
        let thread = here();
        if thread.team().meetings.is_cancelled() {
            return drop(self);
        }
        let record = self.0.as_ptr();
        std::mem::forget(self);
        lead(thread, -1);
        if report::is_traced() {
            // SAFETY: rule "Record": the record is unfinished until `run`.
            report::name(unsafe { report::function_of(record) });
        }
        // SAFETY: rule "Record": it was taken out of its queue, once.
        unsafe { run(record) };
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        lead(here(), -1);
        // SAFETY: rule "Record": it was taken out of its queue, and is not run.
        unsafe { drop_record(self.0.as_ptr()) };
    }
}

/// The thread has made a task, or taken one.
#[inline]
pub(crate) fn lead(thread: &mut Thread, by: i64) -> i64 {
    thread.tasking.lead += by;
    thread.team().members()[thread.number as usize].lead.store(thread.tasking.lead, Ordering::Relaxed);
    thread.tasking.lead
}

/// How many queued tasks for each thread are enough: then the next one is run at once.
const ENOUGH: i64 = 64;
/// The limit for tasks with dependences: a thread far ahead finds more tasks that can run. At the limit it runs some of
/// these.
const ENOUGH_AHEAD: i64 = 256;

/// Whether enough tasks are queued for a thread that is far ahead to run its next task at once.
#[cold]
#[inline(never)]
fn is_enough(thread: &Thread, each: i64) -> bool {
    let team = thread.team();
    let queued: i64 = team.members().iter().map(|member| member.lead.load(Ordering::Relaxed)).sum();
    queued > each * i64::from(team.size) && settings::get().throttles
}

/// Runs some of the queued tasks that can run; the thread is far ahead of them. If it ran its next task at once
/// instead, it would first wait for all predecessors of that task, while others can run.
#[cold]
fn catch_up() {
    let _errno = KeepErrno::new();
    while is_enough(here(), ENOUGH_AHEAD - CATCH_UP_BATCH) {
        for _ in 0..CATCH_UP_BATCH {
            let lead = here().tasking.lead;
            yield_to_descendants();
            if here().tasking.lead >= lead {
                return;
            }
        }
    }
}

/// How many tasks a thread far ahead runs before it asks again.
const CATCH_UP_BATCH: i64 = 32;

/// Whether enough tasks are queued, or were a few tasks ago. Asking costs a look at words that other threads write.
#[inline]
fn look_full(thread: &mut Thread) -> bool {
    if thread.tasking.full_for > 0 {
        thread.tasking.full_for -= 1;
        return true;
    }
    let is_full = is_enough(thread, ENOUGH);
    thread.tasking.full_for = if is_full { FULL_FOR } else { 0 };
    is_full
}

/// This number of tasks run at once without another look. Each thread has some 64 queued, so none waits for work
/// meanwhile.
const FULL_FOR: u32 = 7;

/// Whether a new task without clauses runs at once.
#[inline]
pub(crate) fn runs_at_once(thread: &mut Thread) -> bool {
    is_without_queue(thread) || (thread.tasking.lead > ENOUGH && look_full(thread))
}

/// Whether no new task is queued, however few there are.
#[inline]
pub(crate) fn is_without_queue(thread: &Thread) -> bool {
    !thread.is_seated || thread.task().is_final || is_alone(thread)
}

/// How deep tasks of a team of one thread may run on top of each other before one is queued.
const DEEPEST: u32 = 500;

/// Whether the thread is alone in its team, and all its unfinished tasks stand on its stack. Then a new task runs at
/// once, as a call: no other thread could run it, it has no predecessor to follow, and a taskwait has nothing to wait
/// for. False while a task waits for an event, since a later task may fulfil it.
#[inline]
fn is_alone(thread: &Thread) -> bool {
    thread.team().size == 1
        && thread.tasking.lead == 0
        && thread.tasking.stacked < DEEPEST
        && !thread.tasking.has_events
        && !report::is_traced()
}

/// Whether all tasks of the team run as calls of the calling thread, and no summary reports them. Nothing is queued
/// then, so there is nothing to wait for, and the data of a task do not matter.
#[inline]
pub(crate) fn runs_all_as_calls(thread: &Thread) -> bool {
    thread.is_seated && is_alone(thread) && !report::is_on() && !crate::checks::is_on() && !vicus::kit::awaits_touch()
}

/// Begins a task that runs as a call, on top of its maker. The seat hears of it only when the task first spawns a child
/// or opens a group, so that these belong to the task and not to its parent. `false` if its group was cancelled: then
/// it is dropped.
#[inline]
fn begin_call(thread: &mut Thread, function: impl FnOnce() -> usize) -> bool {
    thread.tasking.untold += 1;
    if report::is_traced() {
        thread.tasking.called.push(function());
    }
    if settings::get().cancels {
        return begin_told(thread);
    }
    true
}

/// The variant of [`begin_call`] that tells the seat now; the seat knows whether the task is dropped.
#[cold]
fn begin_told(thread: &mut Thread) -> bool {
    thread.tasking.untold -= 1;
    tell(thread);
    let is_told = tell_one(thread, thread.tasking.called.len().saturating_sub(1));
    if !is_told {
        thread.tasking.called.pop();
    }
    is_told
}

/// Ends the task of [`begin_call`].
#[inline]
fn end_call(thread: &mut Thread) {
    if !thread.tasking.called.is_empty() {
        thread.tasking.called.pop();
    }
    if thread.tasking.untold > 0 {
        thread.tasking.untold -= 1;
    } else if let Some(told) = thread.tasking.told.pop() {
        end_child(told);
    }
}

/// Tells the calling thread's seat of the tasks on its stack that run as calls: the running one is about to spawn, or
/// to open a group.
#[inline]
pub(crate) fn tell(thread: &mut Thread) {
    if thread.tasking.untold > 0 {
        tell_all(thread);
    }
}

#[cold]
fn tell_all(thread: &mut Thread) {
    let first = thread.tasking.called.len().saturating_sub(thread.tasking.untold as usize);
    for called in first..first + thread.tasking.untold as usize {
        let is_told = tell_one(thread, called);
        assert!(is_told, "no group is cancelled");
    }
    thread.tasking.untold = 0;
}

/// Tells the seat of one task; `called` is the index of its function while the program is traced. `false` if its group
/// was cancelled.
fn tell_one(thread: &mut Thread, called: usize) -> bool {
    let Some(told) = begin_child() else { return false };
    thread.tasking.told.push(told);
    if let Some(&function) = thread.tasking.called.get(called) {
        report::name(function);
    }
    true
}

/// Calls `f`, which runs a task on top of its maker, in a team of one thread.
#[inline]
fn stacked<R>(f: impl FnOnce() -> R) -> R {
    here().tasking.stacked += 1;
    let result = f();
    here().tasking.stacked -= 1;
    result
}

/// Puts a task into a queue.
///
/// # Safety
/// Rule "Record": the record is not spawned, and is handed over.
#[inline]
pub(crate) unsafe fn queue(record: *mut Record) {
    let thread = here();
    tell(thread);
    lead(thread, 1);
    // SAFETY: the caller's record is never null: `new_memory` ends the process instead.
    let record = unsafe { NonNull::new_unchecked(record) };
    let queued = Queued(record);
    // The machine may run it here at once.
    spawn_child_in(Front(record), move || queued.run());
}

/// A task of a loop begins: it notes its core group.
fn note_group(place: Option<&AtomicU16>) {
    let Some(place) = place else { return };
    let thread = here();
    let group = thread.team().work.groups.get(thread.number as usize).map_or(0, |group| group + 1);
    place.store(group, Ordering::Relaxed);
}

/// Spawns a task with clauses.
///
/// # Safety
/// Rule "Record": the record is not spawned, and is handed over.
pub(crate) unsafe fn spawn(record: *mut Record, clauses: Clauses) {
    let thread = here();
    // SAFETY: rule "Record": not spawned yet, so it is the caller's alone.
    let event = unsafe { (*record).event };
    if !clauses.affinity.is_empty() && (report::is_on() || vicus::kit::awaits_touch()) {
        // SAFETY: as above.
        unsafe { (*record).affinity = Some(Box::new(UsedData(clauses.affinity.clone()))) };
    }
    if !event.is_null() {
        thread.tasking.has_events = true;
    }
    if !thread.is_seated {
        note_group(clauses.place);
        // SAFETY: the caller hands over the record, and it is run here.
        unsafe { run(record) };
        if !event.is_null() {
            await_outside(event);
        }
        return;
    }
    if is_alone(thread) {
        note_group(clauses.place);
        // SAFETY: the caller hands over the record, and it is run here.
        return stacked(|| unsafe { run(record) });
    }
    let is_included = clauses.is_undeferred || thread.task().is_final;
    let may_wait = !clauses.accesses.is_empty() || !event.is_null();
    if may_wait {
        tell(thread);
        if !is_included && thread.tasking.lead > ENOUGH_AHEAD && is_enough(thread, ENOUGH_AHEAD) {
            report::waiting(catch_up);
        }
    }
    // SAFETY: the caller hands over the record with its event.
    unsafe {
        if is_included || (!may_wait && runs_at_once(here())) {
            run_included(record, event, clauses);
        } else {
            queue_with(record, event, clauses);
        }
    }
}

/// Has a second child represent a task to its followers, one that ends before or after it: no commuting task may come
/// in between.
fn forbid_commuting(accesses: &mut [Access]) {
    for access in accesses.iter_mut().filter(|access| access.mode == Mode::Commutative) {
        access.mode = Mode::ReadWrite;
    }
}

/// Runs a task on top of its maker, behind those that it follows. The maker goes on when the task's block has ended; a
/// held child, over with the event, represents the task to its waiters and followers.
///
/// # Safety
/// Rule "Record": the record is not spawned, and is handed over, with its event if that is not null.
unsafe fn run_included(record: *mut Record, event: *const Event, clauses: Clauses) {
    let Clauses { mut accesses, place, .. } = clauses;
    note_group(place);
    forbid_commuting(&mut accesses);
    if !accesses.is_empty() {
        wait_for_earlier(&accesses);
    }
    if !event.is_null() {
        hold(event, child().follows(&accesses));
    }
    // SAFETY: the caller hands over the record.
    unsafe { run_at_once(record) };
    if !event.is_null() {
        // SAFETY: rule "Event": the maker's use ends here.
        unsafe { Event::drop_one(event) };
    }
}

/// Puts a task with clauses into a queue.
///
/// # Safety
/// As [`run_included`].
unsafe fn queue_with(record: *mut Record, event: *const Event, clauses: Clauses) {
    let Clauses { priority, mut accesses, mut affinity, place, .. } = clauses;
    let thread = here();
    tell(thread);
    let most = settings::get().most_priority;
    let mut new = child();
    if priority > 0 && most > 0 {
        new = new.priority(priority.min(most));
    }
    if let Some(group) = place.and_then(|place| place.load(Ordering::Relaxed).checked_sub(1)) {
        new = new.at(GroupId::new(usize::from(group)));
    }
    if !affinity.is_empty() {
        // SAFETY: rule "Record": an unfinished task's.
        let is_dealt = crate::learned::deals(|| unsafe { report::function_of(record) }, &mut affinity);
        new = new.touches(&affinity);
        if !is_dealt {
            new = new.undealt();
        }
    }
    if !event.is_null() {
        forbid_commuting(&mut accesses);
    }
    if !accesses.is_empty() {
        new = new.follows(&accesses);
    }
    lead(thread, 1);
    // SAFETY: the caller's record is never null: `new_memory` ends the process instead.
    let record = unsafe { NonNull::new_unchecked(record) };
    let (queued, front) = (Queued(record), Front(record));
    let run = move || {
        note_group(place);
        queued.run();
    };
    if event.is_null() {
        here().keep_accesses(accesses);
        new.spawn_in(front, run);
    } else {
        // The task is over when it has ended and its event has come: a held child that waits for both represents it.
        let own = [Access::new(event.addr(), 1, Mode::ReadWrite)];
        new.follows(&own).spawn_in(front, run);
        hold(event, child().follows(&accesses).follows(&own));
        // SAFETY: rule "Event": the maker's use ends here.
        unsafe { Event::drop_one(event) };
    }
}

/// Spawns an empty task that only orders others: some follow it, and it follows some. If all tasks run at once there is
/// nothing to follow.
pub(crate) fn spawn_empty(accesses: Vec<Access>) {
    let thread = here();
    if thread.is_seated {
        // SAFETY: rule "Record": it is new.
        unsafe { spawn(new_record(thread, 0), Clauses { accesses, ..Clauses::default() }) };
    }
}

/// Makes the child whose end is the event.
fn hold(event: *const Event, new: vicus::tasks::ChildBuilder) {
    let held = new.held(|| ());
    // SAFETY: rule "Event": the maker still uses it.
    unsafe { (*event).hold(held) }.into_iter().for_each(HeldChild::release);
}

/// Runs a task on top of its maker.
///
/// # Safety
/// Rule "Record": the record is not spawned, and is handed over.
pub(crate) unsafe fn run_at_once(record: *mut Record) {
    let thread = here();
    if !thread.is_seated || thread.task().is_final {
        // SAFETY: the caller hands over the record, and it is run here.
        return unsafe { run(record) };
    }
    if is_alone(thread) {
        // SAFETY: the caller hands over the record, and it is run here.
        return stacked(|| unsafe { run(record) });
    }
    // SAFETY: rule "Record": an unfinished task's.
    if begin_call(thread, || unsafe { report::function_of(record) }) {
        // SAFETY: the caller hands over the record, and it is run here.
        unsafe { run(record) };
        end_call(here());
    } else {
        // SAFETY: the caller hands over the record, and the task is not run.
        unsafe { drop_record(record) };
    }
}

/// Whether [`call`] runs a task made now.
#[inline(always)]
pub(crate) fn is_called(thread: &Thread) -> bool {
    thread.calls_tasks && thread.tasking.lead == 0 && thread.tasking.stacked < DEEPEST && !thread.tasking.has_events
}

/// Calls a function as a task. Its data stay in place.
///
/// # Safety
/// `thread` is the calling one. Rule "Interface": a task's function, with its data.
#[inline(always)]
pub(crate) unsafe fn call(thread: *mut Thread, function: Function, data: *mut u8, is_final: bool) {
    // SAFETY: the caller's promise; rule "Thread": the reference ends before the call, as no parameter's would.
    let thread = unsafe { &mut *thread };
    let parent = thread.task();
    let is_final = is_final || parent.is_final;
    let mut task = parent.child(is_final);
    let outer = std::mem::replace(&mut thread.task, &raw mut task);
    thread.tasking.stacked += 1;
    // SAFETY: rule "Interface": the function of a task, with its data.
    unsafe { function(data) };
    let thread = here();
    thread.tasking.stacked -= 1;
    thread.task = outer;
}

/// Runs a function as a task on top of its maker. Its data stay in place.
///
/// # Safety
/// Rule "Interface": a task's function, with its data.
pub(crate) unsafe fn call_at_once(function: Function, data: *mut u8, is_final: bool) {
    let thread = here();
    let parent = thread.task();
    let mut task = parent.child(is_final);
    let is_alone = is_alone(thread);
    let is_child = thread.is_seated && !parent.is_final && !is_alone;
    if is_child && !begin_call(thread, || function as usize) {
        return;
    }
    let outer = std::mem::replace(&mut thread.task, &raw mut task);
    thread.tasking.stacked += u32::from(is_alone);
    // SAFETY: rule "Interface": the function of a task, with its data.
    report::in_task(|| function as usize, || unsafe { function(data) });
    let thread = here();
    thread.tasking.stacked -= u32::from(is_alone);
    thread.task = outer;
    if is_child {
        end_call(thread);
    }
}

/// Runs a task to its end.
///
/// # Safety
/// It is run once.
#[inline]
unsafe fn run(record: *mut Record) {
    // SAFETY: rule "Record": the caller hands it over, and it lasts until `free`. Rule "Interface": the program's
    // function gets its task's data. Rule "Thread": no reference to the thread lasts while the program's code runs.
    unsafe {
        let thread = here();
        let outer = std::mem::replace(&mut thread.task, &raw mut (*record).task);
        if let Some(UsedData(affinity)) = (*record).affinity.as_deref() {
            vicus::kit::touch(affinity);
            if report::is_on() {
                report::note_bytes(report::function_of(record), affinity);
            }
        }
        report::in_task(
            || report::function_of(record),
            || match (*record).code {
                Code::Call { function, data } => function(data),
                Code::Behind { bytes: 0, .. } => (),
                Code::Behind { .. } => crate::kmpc::tasks::run(record),
            },
        );
        let thread = here();
        thread.task = outer;
        free(thread, record);
    }
}

/// Drops a task that is not run, or not run any more: ends its data, gives up its event, and frees its record.
///
/// # Safety
/// It is not used any more.
pub(crate) unsafe fn drop_record(record: *mut Record) {
    // SAFETY: rule "Record": the caller hands over the record; rule "Event": the task ends, and with it the event.
    unsafe {
        if matches!((*record).code, Code::Behind { bytes: 1.., .. }) {
            crate::kmpc::tasks::drop_data(record);
        }
        let event = (*record).event;
        if !event.is_null() {
            abandon(event);
        }
        free(here(), record);
    }
}

/// Drops a task instead of spawning it, since its group or its region is cancelled.
///
/// # Safety
/// Rule "Record": the record is not spawned, and is handed over.
#[cold]
pub(crate) unsafe fn drop_unspawned(record: *mut Record) {
    // SAFETY: rule "Record": the caller hands over the record. Rule "Event": the maker's use ends here, and the
    // record's in `drop_record`.
    unsafe {
        let event = (*record).event;
        if !event.is_null() {
            Event::drop_one(event);
        }
        drop_record(record);
    }
}

/// A task has been run by its compiler's own call. It is over when its event has come, if it waits for one.
/// Others that follow it by these accesses wait for the event, too.
///
/// # Safety
/// As [`drop_record`].
pub(crate) unsafe fn complete(record: *mut Record, mut accesses: Vec<Access>) {
    // SAFETY: rule "Record": the caller hands over the record; rule "Event": the maker's use ends here, or in
    // `wait_outside`.
    unsafe {
        crate::kmpc::tasks::drop_data(record);
        let event = (*record).event;
        if !event.is_null() {
            let thread = here();
            thread.tasking.has_events = true;
            if thread.is_seated {
                tell(thread);
                forbid_commuting(&mut accesses);
                hold(event, child().follows(&accesses));
                Event::drop_one(event);
            } else {
                await_outside(event);
            }
        }
        free(here(), record);
    }
}

/// # Safety
/// The rules of [`drop_record`].
#[inline]
unsafe fn free(thread: &mut Thread, record: *mut Record) {
    // SAFETY: rule "Record": the task is over, so this thread has the record alone, and it is used no more. Rule
    // "Event": so the record's use of it ends.
    unsafe {
        if !(*record).event.is_null() {
            Event::drop_one((*record).event);
        }
        if (*record).affinity.is_some() {
            drop((*record).affinity.take());
        }
        thread.tasking.memory.give(record);
    }
}

/// The event of a detached task: with it ends a held child, which represents the task to its waiters and followers.
pub(crate) type Event = crate::event::Event<HeldChild>;

/// A task outside of all regions has ended; its event may still be open.
fn await_outside(event: *const Event) {
    let thread = here();
    thread.tasking.awaited.push((thread.task, event));
}

/// Waits for the events of tasks outside of all regions: those made by the running task, or with `is_end` all of its
/// region.
#[cold]
#[inline(never)]
fn wait_outside(is_end: bool) {
    let thread = here();
    if thread.tasking.awaited.is_empty() {
        return;
    }
    let task = thread.task;
    let own: Vec<_> = thread.tasking.awaited.extract_if(.., |&mut (maker, _)| is_end || ptr::eq(maker, task)).collect();
    for (_, event) in own {
        // SAFETY: rule "Event": the maker still uses it.
        wait_until(|| unsafe { (*event).is_over() });
        // SAFETY: rule "Event": the maker's use ends here.
        unsafe { Event::drop_one(event) };
    }
}

/// Ends a region of a thread without a seat.
pub(crate) fn end_outside() {
    wait_outside(true);
}

/// Drops the events of a thread that ends; it waits for them no longer.
pub(crate) fn forget_events(awaited: Vec<(*mut Task, *const Event)>) {
    for (_, event) in awaited {
        // SAFETY: rule "Event": the maker's use ends here.
        unsafe { Event::drop_one(event) };
    }
}

/// An event has come.
///
/// # Safety
/// Rule "Event": it is fulfilled once, and its task was made with it.
pub(crate) unsafe fn fulfil(event: *const Event) {
    // SAFETY: rule "Event": the caller that fulfils it is one of its users. Its use ends here, once, since it was the
    // first to fulfil it.
    unsafe {
        let Some(held) = (*event).fulfil() else { return };
        held.into_iter().for_each(HeldChild::release);
        Event::drop_one(event);
    }
}

/// The task of an event is dropped before it was run, and its waiters go on. The program may have given the event to
/// another thread, which may still fulfil it: so the event stays until then, or for ever.
///
/// # Safety
/// Rule "Event": the record still uses it.
unsafe fn abandon(event: *const Event) {
    // SAFETY: the caller's promise.
    unsafe { &*event }.abandon().into_iter().for_each(HeldChild::release);
}

/// Whether the running task may have unfinished children.
#[inline]
fn has_children(thread: &Thread) -> bool {
    thread.is_seated && thread.tasking.untold == 0
}

/// Waits for the children of the running task.
#[inline]
pub(crate) fn wait() {
    if has_children(here()) {
        let _errno = KeepErrno::new();
        report::waiting(wait_for_children);
    } else {
        wait_outside(false);
    }
}

/// Waits for the children that a task with these accesses would follow.
pub(crate) fn wait_for(accesses: &[Access]) {
    if has_children(here()) {
        let _errno = KeepErrno::new();
        report::waiting(|| wait_for_earlier(accesses));
    }
}

/// Lets other ready tasks run.
pub(crate) fn give_way() {
    if has_children(here()) {
        let _errno = KeepErrno::new();
        report::waiting(yield_to_descendants);
    }
    let _errno = KeepErrno::new();
    // SAFETY: rule "System": no argument.
    unsafe { libc::sched_yield() };
}

/// Opens a taskgroup.
pub(crate) fn begin_group() -> *mut Group {
    let thread = here();
    let task = thread.task();
    let group = Box::into_raw(Box::new(Group {
        outer: task.group,
        is_cancelled: AtomicBool::new(false),
        reductions: Cell::new(ptr::null_mut()),
        kmp: Cell::new(ptr::null_mut()),
        is_open: thread.is_seated,
        is_implicit: Cell::new(false),
    }));
    if thread.is_seated {
        tell(thread);
        open_group();
    }
    task.group = group;
    group
}

/// Closes it: its tasks are over, and their descendants.
pub(crate) fn end_group() {
    let Some(group) = NonNull::new(here().task().group) else { return };
    // SAFETY: rule "Group": `begin_group` has boxed it, and the task that opened it closes it, once.
    let group = unsafe { Box::from_raw(group.as_ptr()) };
    if group.is_open {
        let _errno = KeepErrno::new();
        report::waiting(close_group);
    } else {
        wait_outside(true);
    }
    here().task().group = group.outer;
    crate::reductions::finish(&group);
}

/// Whether the innermost taskgroup is cancelled.
pub(crate) fn is_group_cancelled() -> bool {
    let group = here().task().group;
    // SAFETY: rule "Group": null, or a group that is still open around the running task.
    unsafe { group.as_ref() }.is_some_and(|group| group.is_cancelled.load(Ordering::Relaxed))
}

/// Cancels the innermost taskgroup.
pub(crate) fn cancel_group() {
    let thread = here();
    // SAFETY: rule "Group": null, or a group that is still open around the running task.
    if let Some(group) = unsafe { thread.task().group.as_ref() } {
        group.is_cancelled.store(true, Ordering::Relaxed);
        if group.is_open && thread.is_seated {
            tell(thread);
            vicus::kit::cancel_group();
        }
    }
}

/// Whether a task made now is dropped at once.
pub(crate) fn is_dropped(thread: &Thread) -> bool {
    settings::get().cancels && (is_group_cancelled() || thread.team().meetings.is_cancelled())
}

#[cfg(test)]
mod tests {
    use super::*;

    // A task with an event was dropped instead of being spawned, and its maker used the event for ever.
    #[test]
    fn the_event_of_an_unspawned_task_ends_with_its_fulfilment() {
        let record = new_record(here(), 0);
        // SAFETY: rule "Record": it is new, and dropped, not run. Rule "Event": it is fulfilled once.
        unsafe {
            let event = Event::new();
            (*record).event = event;
            drop_unspawned(record);
            assert!((*event).is_over(), "its task's waiters go on");
            assert_eq!((*event).users(), 1, "the other thread still uses it");
            fulfil(event);
        }
    }

    // A group was cancelled, and dropped a task with an event. Another thread had fulfilled the event before, or was
    // about to do so: one of the two did so in freed memory.
    #[test]
    fn the_event_of_a_dropped_task_can_be_fulfilled_before_and_afterwards() {
        let record = || {
            let record = new_record(here(), 0);
            // SAFETY: rule "Record": it is new. Rule "Event": the maker's use ends.
            unsafe {
                (*record).event = Event::new();
                Event::drop_one((*record).event);
                (record, (*record).event)
            }
        };
        // SAFETY: rule "Record": both are dropped, not run. Rule "Event": each is fulfilled once.
        unsafe {
            let (dropped, event) = record();
            drop_record(dropped);
            assert!((*event).is_over(), "its task's waiters go on");
            assert_eq!((*event).users(), 1, "the other thread still uses it");
            fulfil(event);
            let (dropped, event) = record();
            fulfil(event);
            assert_eq!((*event).users(), 1, "the task still uses it");
            drop_record(dropped);
        }
    }
}
