//! The state shared by the threads of a runtime, in its parts.

use crate::defaults::OnDeadlock;
use crate::memory::heaps;
use crate::memory::slab::Blocks;
use crate::queues::SharedQueues;
use crate::queues::groups::GroupQueues;
use crate::queues::inbox::Inbox;
use crate::queues::sleep::{Barrier, SleepPool};
use crate::runtime::callers::Callers;
use crate::runtime::gathering::Gathering;
use crate::runtime::hook::{Hook, is_apart};
use crate::runtime::latch::Notify;
use crate::runtime::recorder::Recording;
use crate::runtime::requests::Ongoing;
use crate::runtime::requests::nested::cancel_nested;
use crate::runtime::requests::state::RequestState;
use crate::runtime::roaming::Roaming;
use crate::runtime::spare_thread::SpareThread;
use crate::runtime::takes::Level;
use crate::sync::Padded;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use vicus_flow::drop_quietly;
use vicus_flow::{Entry, FlowError, Instance, Queued, Totals};
use vicus_memory::Memory;
use vicus_memory::distribution::Distribution;
use vicus_os::{pages, pin};
use vicus_schedule::{
    Kind, LastUses, Plan, PoolId, QueueId, QueueSpec, RequestId, SeatId, TaskHeader, TaskRef, Waiter, Wake,
};
use vicus_topology::{NoSuchPlace, Place, Topology};
use vicus_trace::Trace;

/// Limit of a thread's stack; a page is taken on its first touch. A waiting task runs others on top of itself.
pub const STACK_BYTES: usize = 16 << 20;

/// Memory for a starting thread beside its stack, with room for other threads starting at the same time. The standard
/// library ends the process if a thread gets no stack for signals. The C library ends it if it can't note a destructor
/// of a thread variable: its allocator maps a MiB for that when its heap can't grow. Both may fail even if the thread's
/// own stack is available.
const BESIDE_STACK: usize = 4 << 20;

/// The state shared by all threads of a runtime.
pub struct RuntimeState {
    /// The plan followed by its seats.
    pub plan: Plan,
    pub(crate) tables: PlanTables,
    /// Tasks in queues.
    pub queued: QueuedTasks,
    pub(crate) ongoing: Ongoing,
    pub(crate) storage: Storage,
    /// Settings read while tasks run.
    pub settings: RunSettings,
    pub(crate) system: SystemThreads,
    pub(crate) recording: Option<Recording>,
    /// The way to the layer above.
    pub hook: Hook,
    /// A point where one task of each seat meets the others. A team is a runtime whose members use it.
    pub gathering: Gathering,
}

/// Tasks in queues.
pub struct QueuedTasks {
    /// All queues but the seats' inboxes.
    pub queues: SharedQueues,
    /// By seat.
    pub(crate) inboxes: Box<[Padded<Inbox>]>,
    /// Entry for boxes resumed from outside.
    pub(crate) entry: Entry,
}

/// The machine, and answers prepared from the plan.
pub(crate) struct PlanTables {
    pub(crate) topology: Topology,
    /// By queue: [`Plan::for_waiting`].
    pub(crate) for_waiting: Vec<bool>,
    pub(crate) group_queues: GroupQueues,
    /// The last pool to use each piece of data, if the plan asks for that.
    pub(crate) last_uses: Option<LastUses>,
    /// The current place of each thread, if threads are not bound.
    pub(crate) roaming: Option<Roaming>,
    /// Number of entries used so far.
    pub(crate) next_entry: AtomicUsize,
}

/// Seats asleep, and the way to wake one.
pub(crate) struct SleepPools {
    /// By pool of the plan.
    pub(crate) pools: Vec<SleepPool>,
    pub(crate) barrier: Barrier,
}

/// Memory of tasks and of their data.
pub(crate) struct Storage {
    /// `None` if the system gave no addresses.
    pub(crate) memory: Option<Arc<Memory>>,
    pub(crate) distribution: Option<Distribution>,
    /// Memory for tasks.
    pub(crate) blocks: Blocks,
}

/// Settings read while tasks run.
pub struct RunSettings {
    /// Whether requests take turns.
    pub(crate) has_turns: bool,
    /// Time of a request's boxes during which it goes before older ones.
    pub(crate) head_start_ns: u64,
    /// How long a caller works on its own request alone.
    pub(crate) caller_works: Duration,
    /// For the layer: its reaction when its code waits in a circle.
    pub on_deadlock: OnDeadlock,
    /// For the layer: whether its waits note their backtraces.
    pub waits_have_backtraces: bool,
}

/// The system's threads: on seats, and callers beside them.
pub(crate) struct SystemThreads {
    pub(crate) sleepers: SleepPools,
    pub(crate) callers: Callers,
    pub(crate) handles: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) closing: AtomicBool,
    /// Spare seats without a thread, by pool.
    pub(crate) spares: Vec<Mutex<Vec<SeatId>>>,
    /// By seat; used for spare ones.
    pub(crate) lent: Vec<SpareThread>,
    pub warnings: Mutex<Vec<String>>,
}

impl heaps::Seats for RuntimeState {
    fn is_closing(&self) -> bool {
        RuntimeState::is_closing(self)
    }

    fn wake_any(&self) -> bool {
        (0..self.system.sleepers.pools.len()).any(|pool| self.wake_pool(PoolId::new(pool)))
    }
}

impl RuntimeState {
    pub(crate) fn thread(
        self: &Arc<Self>,
        seat: SeatId,
        body: impl FnOnce(Arc<RuntimeState>) + Send + 'static,
    ) -> std::io::Result<()> {
        let shared = Arc::clone(self);
        let name = format!("vicus {}", seat.index());
        pages::ensure_room(STACK_BYTES + BESIDE_STACK)?;
        let thread = std::thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(move || {
            let affinity = &shared.plan.seats[seat.index()].affinity;
            if pin::BINDS
                && !affinity.is_empty()
                && let Err(error) = pin::pin(affinity.iter().map(|pu| shared.tables.topology.pus[pu.index()].os_index))
            {
                let text = format!("threads are not pinned ({error}): tasks may run far from their data");
                let mut warnings = shared.system.warnings.lock().expect("nothing panics under this lock");
                if !warnings.contains(&text) {
                    warnings.push(text);
                }
            }
            if let Some(process) = heaps::process() {
                // If the thread may run on several nodes, the node of its seat says nothing about its place.
                let mut nodes = affinity.iter().map(|pu| shared.tables.topology.pus[pu.index()].node);
                let stays = nodes.next().filter(|&first| nodes.all(|node| node == first));
                heaps::sit(process, stays.map(|node| shared.tables.topology.nodes[node.index()].os_index));
            }
            body(shared);
        })?;
        self.system.handles.lock().expect("nothing panics under this lock").push(thread);
        Ok(())
    }

    /// Registers the request: it ends with the runtime, and the ending thread finds it. Call this before a seat can
    /// have a task of it. A second call has no effect, also after the request's end.
    pub(crate) fn keep(&self, state: &Arc<RequestState>) {
        // Relaxed: the flag changes under the lock, and a thread gets a task of the request only after that.
        if state.is_known.load(Ordering::Relaxed) {
            return;
        }
        self.ongoing.change(|requests| {
            if !state.is_known.swap(true, Ordering::Relaxed) {
                requests.insert(state.instance.id(), Arc::clone(state));
                self.open_request(state.instance.id());
            }
        });
    }

    /// Resumes a box, on a thread that may sit on no seat.
    pub(super) fn enter(&self, queued: Queued) {
        if let Some(recording) = &self.recording {
            recording.resumed(queued.instance(), queued.index());
        }
        self.put_at_entry(queued);
    }

    /// One entry after the other, so that independent requests start in different neighbourhoods.
    pub(super) fn next_of(&self, entries: &[QueueId]) -> QueueId {
        entries[self.tables.next_entry.fetch_add(1, Ordering::Relaxed) % entries.len()]
    }

    /// The entry queue of the next task of a caller without a seat.
    pub fn next_entry(&self) -> QueueId {
        self.next_of(&self.plan.entry)
    }

    /// A number for a new request.
    pub fn next_request(&self) -> RequestId {
        self.ongoing.next_id()
    }

    /// The number of a task that a caller without a seat is about to queue.
    pub fn number_submitted(&self, request: RequestId) -> u32 {
        self.recording.as_ref().map_or(TaskHeader::UNNUMBERED, |recording| recording.task_submitted(request))
    }

    /// Number of tasks taken by its seats so far, by rule and distance; see
    /// [`MachineRuntime::takes`](crate::MachineRuntime::takes).
    pub fn takes(&self) -> BTreeMap<(u8, Level), u64> {
        self.recording.as_ref().map(Recording::takes).unwrap_or_default()
    }

    /// The recording of its seats so far; they may go on, and record no more. `None` if it does not record events.
    pub fn cut_trace(&self) -> Option<Trace> {
        let recording = self.recording.as_ref().filter(|recording| recording.keeps_events())?;
        recording.cut_off();
        Some(recording.collect(&self.plan, &self.tables.topology))
    }

    /// Puts a caller's task into an entry queue, and wakes one thread for it.
    pub(crate) fn put_into_entry(&self, queue: QueueId, task: TaskRef) {
        let request = task.header().request;
        // It has no capacity, but a longer queue may need memory.
        self.queued
            .queues
            .push(queue, task)
            .unwrap_or_else(|_| panic!("there is no memory for a longer queue of tasks"));
        self.wake_for(queue, Some(request), true);
    }

    /// Like [`RuntimeState::put_into_entry`], into the front or the next entry in turn.
    pub(crate) fn put_at_entry(&self, queued: Queued) {
        let queue = self.front_for(queued.instance()).unwrap_or_else(|| self.next_of(&self.plan.entry));
        self.put_into_entry(queue, queued.into_task());
    }

    /// Like `RuntimeState::put_into_entry`, into the next entry in turn, for a plain task.
    pub fn put_task_at_entry(&self, task: TaskRef) {
        self.put_into_entry(self.next_of(&self.plan.entry), task);
    }

    /// The front, if boxes of this request are to go before those of others.
    #[inline]
    pub(crate) fn front_for(&self, instance: &Instance) -> Option<QueueId> {
        if !instance.has_head_start() || self.ongoing.is_alone(instance.id()) {
            return None;
        }
        self.plan.front()
    }

    /// Wakes one thread for a push, near pools first; if none of their threads sleeps, one of the robbers of a long
    /// queue. `request` is the task's: a seat waiting for tasks of this request may be woken, too; with `None`, only
    /// free seats. `must`: perhaps no awake thread will find the task, so a thread falling asleep at this moment must
    /// not be missed (see `sleep`).
    #[inline]
    pub fn wake_for(&self, queue: QueueId, request: Option<RequestId>, must: bool) -> Option<PoolId> {
        self.system.sleepers.barrier.before_look(must);
        let QueueSpec { wake, robbers, .. } = &self.plan.queues[queue.index()];
        let has_sleepers = |pool: PoolId| self.system.sleepers.pools[pool.index()].has_sleepers();
        // Fast path: usually no thread sleeps, and then the reason for a wake does not matter.
        if wake.iter().any(|&pool| has_sleepers(pool)) || robbers.iter().any(|robber| has_sleepers(robber.pool)) {
            self.wake(Wake { queue, request, while_waiting: self.tables.for_waiting[queue.index()] })
        } else {
            None
        }
    }

    /// Wakes one thread for a task, after [`Barrier::before_look`].
    #[cold]
    fn wake(&self, wake: Wake) -> Option<PoolId> {
        let length = || self.queued.queues.len(wake.queue);
        self.plan.wake_one(wake.queue, length, |pool| self.system.sleepers.pools[pool.index()].wake_one(wake))
    }

    /// Passes a wake on to another seat: the woken seat has other work.
    pub(crate) fn pass_on(&self, wake: Wake) {
        self.system.sleepers.barrier.before_look(true);
        self.wake(wake);
    }

    /// Makes all seats check their wait conditions.
    pub fn notify_all(&self) {
        self.system.sleepers.pools.iter().for_each(SleepPool::notify_all);
    }

    /// The features that could not be used on this machine.
    pub fn warnings(&self) -> Vec<String> {
        self.system.warnings.lock().expect("nothing panics under this lock").clone()
    }

    /// The machine it runs on.
    pub fn topology(&self) -> &Topology {
        &self.tables.topology
    }

    /// Whether its threads are about to end, or have.
    pub(crate) fn is_closing(&self) -> bool {
        self.system.closing.load(Ordering::Acquire)
    }

    /// Makes a sleeping seat check its wait condition and its inbox.
    pub(crate) fn notify_seat(&self, seat: SeatId) {
        let pool = self.plan.seats[seat.index()].pool;
        self.system.sleepers.pools[pool.index()].notify(self.slot_of(seat));
    }

    /// A seat's place among those of its pool.
    pub(crate) fn slot_of(&self, seat: SeatId) -> usize {
        let pool = self.plan.seats[seat.index()].pool;
        let slot = self.plan.pools[pool.index()].seats.iter().position(|&other| other == seat);
        slot.expect("a seat is in its pool")
    }

    /// The queue of the tasks reserved for this seat.
    #[inline]
    pub fn inbox(&self, seat: SeatId) -> &Inbox {
        &self.queued.inboxes[seat.index()].0
    }

    /// A seat is to run this task, and no other may.
    pub fn call(&self, seat: SeatId, task: TaskRef) {
        self.inbox(seat).put(task);
        let pool = self.plan.seats[seat.index()].pool;
        self.system.sleepers.pools[pool.index()].notify_if_announced(self.slot_of(seat), &self.system.sleepers.barrier);
    }

    /// If the request has failed or was cancelled, stops its tasks: queued tasks of its boxes no longer begin, and
    /// running ones are told. A request that ended without failure still has boxes cleaning up, and their tasks run.
    pub(crate) fn stop_tasks(&self, instance: &Instance) {
        if instance.has_failed() {
            let requests = self.ongoing.boxes.lock().expect("nothing panics under this lock");
            if requests.contains_key(&instance.id()) {
                self.ongoing.stopped.add(instance.id());
            }
        }
    }

    /// Takes the boxes of a stopped request out of all queues, except those due after its end: at once out of the
    /// locked queues, soon out of the seats' own. Stops the tasks of running boxes, and the requests submitted by them.
    pub(crate) fn sweep(&self, instance: &Instance, seat: Option<usize>) {
        self.sweep_boxes(instance, seat);
        if instance.has_failed() {
            cancel_nested(self, instance.id());
        }
    }

    /// Like [`RuntimeState::sweep`], without the requests it has submitted.
    pub(crate) fn sweep_boxes(&self, instance: &Instance, seat: Option<usize>) {
        self.stop_tasks(instance);
        instance.discard_paused(seat);
        #[expect(unsafe_code, reason = "asks what a task is")]
        // SAFETY: the task is in a queue.
        let is_unwanted = |task: &TaskRef| unsafe { task.is_unwanted() };
        #[expect(unsafe_code, reason = "a task is a value again")]
        // SAFETY: boxes alone may be unwanted, and this one was just taken out of its queue.
        let discard = |task| unsafe { Queued::from_task(task) }.discard(seat);
        self.queued.queues.sweep_locked(instance.id(), is_unwanted, discard);
        // Release: a seat reading the new number also sees the request as stopped.
        self.ongoing.sweeps.fetch_add(1, Ordering::Release);
    }

    /// A request has its result.
    pub(crate) fn done(&self, id: RequestId, result: Result<Totals, FlowError>) {
        let state = self.ongoing.change(|requests| requests.remove(&id));
        if state.is_some() {
            self.ongoing.open.end(id);
        }
        self.ongoing.stopped.remove(id);
        if let Some(state) = state {
            let mut answer = state.lock();
            answer.result = Some(result);
            let told = std::mem::take(&mut answer.told);
            let within = answer.within.take();
            drop(answer);
            drop(within);
            state.done.notify_all();
            told.into_iter().for_each(|tell| tell());
            // The last one to know of it drops a user's error.
            drop_quietly(state);
        }
    }

    /// Makes a free thread of a pool look around.
    pub(crate) fn wake_pool(&self, pool: PoolId) -> bool {
        let seat = self.plan.pools[pool.index()].seats[0];
        let queue = self.plan.seats[seat.index()].place[Kind::Deferred as usize];
        self.system.sleepers.pools[pool.index()].wake_one(Wake { queue, request: None, while_waiting: false })
    }
}

impl RuntimeState {
    /// Calls `f` with a runtime that may end as soon as `f` has done its work. `is_here`: the calling thread sits on a
    /// seat of this runtime, and so keeps it alive; any other caller holds a reference meanwhile.
    ///
    /// # Safety
    /// The runtime is alive at the call, and the pointer comes from its `Arc`.
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
    pub unsafe fn held<R>(shared: *const RuntimeState, is_here: bool, f: impl FnOnce(&RuntimeState) -> R) -> R {
        // SAFETY: the caller's promise.
        unsafe {
            if is_here {
                f(&*shared)
            } else {
                Arc::increment_strong_count(shared);
                f(&Arc::from_raw(shared))
            }
        }
    }

    /// Whether the runtime started the calling thread, also while the thread does nothing for a seat.
    pub(super) fn is_own_thread(&self) -> bool {
        let here = std::thread::current().id();
        self.system
            .handles
            .lock()
            .expect("nothing panics under this lock")
            .iter()
            .any(|thread| thread.thread().id() == here)
    }

    /// The first regular (not spare) seat.
    pub fn first_seat(&self) -> Option<SeatId> {
        self.plan.seats.iter().position(|seat| !seat.spare).map(SeatId::new)
    }

    /// Ends the threads on seats. Queued tasks and waiting lightweight threads are left as they are.
    pub fn end_system_threads(&self) {
        self.system.closing.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        for lent in &self.system.lent {
            let _lock = lent.lock.lock().expect("nothing panics under this lock");
            lent.changed.notify_all();
        }
        // One call is enough: a sleeping thread learns by it that the runtime closes, and an awake one learns it before
        // it sleeps.
        self.notify_all();
        loop {
            let thread = self.system.handles.lock().expect("nothing panics under this lock").pop();
            let Some(thread) = thread else { break };
            if let Err(panic) = thread.join() {
                // A worker's panic is a mistake of ours; a user's box can't cause it.
                if !std::thread::panicking() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
}

impl RuntimeState {
    /// Whether nothing of it runs or will run by itself, apart from one seat and from the layer's code that waits.
    pub fn is_quiet_but(&self, own: Option<SeatId>) -> bool {
        let sleeps = |seat: SeatId| {
            let plan = &self.plan.seats[seat.index()];
            let is_away = Some(seat) == own || plan.spare && self.system.lent[seat.index()].is_idle();
            let is_asleep = is_away || self.system.sleepers.pools[plan.pool.index()].is_announced(self.slot_of(seat));
            is_asleep && self.inbox(seat).len() == 0
        };
        (0..self.plan.seats.len()).map(SeatId::new).all(sleeps)
            && (0..self.plan.queues.len()).map(QueueId::new).all(|queue| self.queued.queues.len(queue) == 0)
    }

    /// A seat at a place: this one if it is there, else the one with the fewest tasks in its inbox.
    pub fn seat_at(&self, place: Place, own: SeatId) -> Option<SeatId> {
        let is_there = |seat: &SeatId| {
            let seat = &self.plan.seats[seat.index()];
            match place {
                Place::Node(node) => seat.node == node,
                Place::Group(group) => self.topology().pus[seat.pu.index()].group == group,
            }
        };
        if is_there(&own) {
            return Some(own);
        }
        let seats = (0..self.plan.seats.len()).map(SeatId::new);
        let regular = seats.filter(|seat| !self.plan.seats[seat.index()].spare && is_there(seat));
        regular.min_by_key(|&seat| self.inbox(seat).len())
    }

    /// The queue of a place, for a caller without a seat; `None` if the plan has none for places.
    pub fn queue_at(&self, place: Place) -> Result<Option<QueueId>, NoSuchPlace> {
        let node = self.tables.topology.try_node_of(place)?;
        if let Place::Group(group) = place
            && let Some(queue) = self.tables.group_queues.of(group)
        {
            return Ok(Some(queue));
        }
        Ok(self.plan.homes.get(node.index()).and_then(|queues| queues.first()).copied())
    }

    /// Number of requests without code of the layer. It only influences the queues chosen for tasks.
    #[inline]
    pub(crate) fn requests(&self) -> usize {
        self.ongoing.open.count.0.load(Ordering::Relaxed)
    }

    /// Opens a request: its tasks may be queued from now on.
    pub(crate) fn open_request(&self, id: RequestId) {
        if self.ongoing.open.begin(id) == 2 {
            // Seats that sleep while their tasks wait would only be woken for the first one.
            self.notify_all();
        }
    }

    /// Keeps an open request's tasks from beginning. For requests without boxes.
    pub(crate) fn stop(&self, id: RequestId) {
        self.ongoing.open.while_open(id, || self.ongoing.stopped.add(id));
    }

    /// Whether a seat may have tasks of several requests, or of one and of lightweight threads: then they take turns.
    #[inline]
    pub(crate) fn are_several(&self) -> bool {
        match self.requests() {
            0 => false,
            1 => self.settings.has_turns && self.hook.any(),
            _ => self.settings.has_turns,
        }
    }

    /// Whether there is at most one request, and no lightweight thread; each thread spawned from outside counts as a
    /// request. It only influences the queues chosen for tasks.
    #[inline]
    pub(crate) fn has_one_request(&self) -> bool {
        self.requests() <= 1 && !self.hook.any()
    }
}

impl RuntimeState {
    /// Code of the layer is about to be spawned. From the first one on, waiting tasks let any task run on top of them.
    #[inline]
    pub fn note_code(&self) {
        if !self.hook.any() {
            self.note_first_code();
        }
    }

    #[cold]
    fn note_first_code(&self) {
        self.hook.any.store(true, Ordering::SeqCst);
        self.notify_all();
    }
}

impl Notify for RuntimeState {
    #[inline]
    fn notify(&self, waiter: Waiter) {
        if is_apart(waiter) {
            self.hook.layer().expect("code of a layer waits").wake(waiter);
        } else {
            self.notify_seat(SeatId::new(waiter.0 >> 1));
        }
    }
}
