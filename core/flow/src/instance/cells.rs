//! The boxes of an instance: those of its model, and those of fragments that have taken the place of boxes.
//!
//! The model's cells live as long as the instance, and are found by their index without a lock. The others come and go
//! under a lock, which is also held by everyone who looks at all of them. Boxes reach their neighbours by pointers, so
//! no invocation comes here.

use super::cell::{BoxCell, Neighbour};
use crate::Fragment;
use crate::counts::Tally;
use crate::error::drop_quietly;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::{Bound, BoxCounts, BoxId, ConnectedBox, Model};
use std::collections::{BTreeMap, VecDeque};
use std::ptr::NonNull;
use std::sync::Arc;

/// The cells of an instance.
pub(crate) struct Cells {
    model: Arc<Model>,
    /// The model's, by index. From `Box::into_raw`.
    own: NonNull<[BoxCell]>,
    grown: Mutex<Grown>,
    /// The bytes of cells of fragments, booked with the request's budget.
    held: AtomicU64,
}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: it owns the cells, which are made for several threads.
unsafe impl Send for Cells {}
#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: as above.
unsafe impl Sync for Cells {}

/// The boxes of fragments.
#[derive(Default)]
pub(super) struct Grown {
    /// By index, the model's boxes first; empty until a box grows.
    pub(super) slots: Vec<Option<Slot>>,
    /// Indexes to be used again. None while a recording tells boxes by their indexes.
    free: Vec<usize>,
    /// How many boxes of fragments there are, beside those in cells of the model.
    pub(super) live: usize,
    /// The boxes of this request and of others around it or inside of it, if there are others.
    pub(super) shared: Option<Arc<BoxCount>>,
    /// Boxes that have let go of all ends: they are freed when their neighbours have let go of them.
    pub(super) leaving: VecDeque<Neighbour>,
    nests: Nests,
    /// The counts of boxes that have ended, by the type of the expanded box and by the box's name.
    sums: BTreeMap<String, BTreeMap<String, Sum>>,
    /// The latest clock of a box that was freed.
    last_clock: u64,
    /// The whole network by index, with the boxes that have ended; empty unless the request is recorded.
    pub(super) network: Vec<LiveBox>,
    /// Cells that were emptied at the end of the request, and to which handles of pauses still point.
    kept: Vec<NonNull<BoxCell>>,
}

/// How many boxes live in a request and in those submitted within it.
pub(crate) struct BoxCount {
    pub(super) most: usize,
    live: AtomicUsize,
}

impl BoxCount {
    fn add(&self, more: usize) {
        // Relaxed: only the number counts.
        self.live.fetch_add(more, Ordering::Relaxed);
    }

    fn give_back(&self, less: usize) {
        self.live.fetch_sub(less, Ordering::Relaxed);
    }

    /// Whether so many more may live.
    pub(super) fn has_room(&self, more: usize) -> bool {
        self.live.load(Ordering::Relaxed).saturating_add(more) <= self.most
    }
}

/// The boxes of a request that is about to begin within another one, counted with that one's until the request is over.
pub(crate) struct CountedBoxes {
    count: Arc<BoxCount>,
    boxes: usize,
}

impl Drop for CountedBoxes {
    fn drop(&mut self) {
        self.count.give_back(self.boxes);
    }
}

/// Boxes that have ended and expansions of which nothing is left: to be dropped without the lock, since a user's code
/// runs then.
#[derive(Default)]
pub(super) struct Dead {
    pub(super) slots: Vec<Slot>,
    pub(super) fragments: Vec<Fragment>,
}

/// A box.
pub(super) struct Slot {
    pub(super) cell: NonNull<BoxCell>,
    /// Its place in a fragment; `None` if it is the model's.
    pub(super) origin: Option<Origin>,
    /// The counts of a box of the model before a fragment took its place.
    pub(super) before: Option<Tally>,
}

/// A box's place in a fragment.
#[derive(Clone)]
pub(super) struct Origin {
    /// The expansion.
    nest: u32,
    pub(super) fragment: Fragment,
    pub(super) index: usize,
}

impl Origin {
    /// The box's name in its fragment.
    pub(super) fn name(&self) -> &str {
        self.fragment.model().boxes[self.index].name()
    }
}

/// A box of a network that has grown: [`Instance::network`](crate::Instance::network).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveBox {
    /// Its name; in a fragment, behind those of the expandable boxes around it.
    pub name: String,
    /// Its type's name.
    pub type_name: String,
    /// For each input, the box that sends and the number of its output.
    pub sources: Vec<(BoxId, usize)>,
    /// The bound of each input.
    pub bounds: Vec<Bound>,
}

impl LiveBox {
    fn of(one: &ConnectedBox) -> LiveBox {
        LiveBox {
            name: one.name().to_owned(),
            type_name: one.type_name().to_owned(),
            sources: one.sources().collect(),
            bounds: one.bounds().collect(),
        }
    }
}

#[derive(Default)]
struct Sum {
    boxes: u64,
    counts: BoxCounts,
}

/// All boxes of a name in the fragments of expandable boxes of a type: [`Instance::grown`](crate::Instance::grown).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrownBox {
    /// The type of the expandable boxes.
    pub expanded: String,
    /// The name of the boxes in their fragments.
    pub name: String,
    /// How many there have been.
    pub boxes: u64,
    /// How many of them are still there.
    pub live: u64,
    /// Their counts together.
    pub counts: BoxCounts,
}

impl Cells {
    /// The cells of a model.
    pub(super) fn new(model: &Arc<Model>, cells: Vec<BoxCell>) -> Cells {
        let own = NonNull::from(std::boxed::Box::leak(cells.into_boxed_slice()));
        let cells = Cells { model: Arc::clone(model), own, grown: Mutex::default(), held: AtomicU64::new(0) };
        let all: Vec<NonNull<BoxCell>> = (0..own.len()).map(|index| cells.pointer(index)).collect();
        for (index, one) in model.boxes.iter().enumerate() {
            #[expect(unsafe_code, reason = "connects cells that are being made")]
            // SAFETY: nothing else knows of the cells yet.
            unsafe {
                super::growth::connect(one, all[index], &all, |_| true);
            }
        }
        cells
    }

    /// The pointer to one of the model's cells, good for as long as the instance.
    fn pointer(&self, index: usize) -> NonNull<BoxCell> {
        assert!(index < self.own.len(), "the model has {} boxes", self.own.len());
        #[expect(unsafe_code, reason = "the address of an element")]
        // SAFETY: the element is there.
        unsafe {
            self.own.cast::<BoxCell>().add(index)
        }
    }

    /// The model's.
    #[inline]
    pub(crate) fn own(&self) -> &[BoxCell] {
        #[expect(unsafe_code, reason = "the cells that it owns")]
        // SAFETY: they live as long as this value, and are changed only by way of their atomics and cells.
        unsafe {
            self.own.as_ref()
        }
    }

    /// The initialization box.
    #[inline]
    pub(crate) fn first(&self) -> &BoxCell {
        &self.own()[0]
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Grown> {
        self.grown.lock().expect("nothing panics under this lock")
    }

    /// Calls `f` with each.
    pub(crate) fn each(&self, mut f: impl FnMut(&BoxCell)) {
        let grown = self.lock();
        self.own().iter().for_each(&mut f);
        grown.of_fragments(self.own.len()).for_each(|slot| f(slot.cell()));
    }

    /// Calls `f` with the box of this index.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub(crate) fn with<R>(&self, index: usize, f: impl FnOnce(&BoxCell) -> R) -> R {
        match self.own().get(index) {
            Some(cell) => f(cell),
            None => f(self.lock().slots[index].as_ref().expect("the box has not ended").cell()),
        }
    }

    /// All of them, in a request in which none comes or goes: one that is settled.
    pub(crate) fn all(&self) -> Vec<&BoxCell> {
        let grown = self.lock();
        let of_fragments = grown.of_fragments(self.own.len()).map(|slot| {
            #[expect(unsafe_code, reason = "a reference beyond the lock")]
            // SAFETY: the caller's promise: the cell is not freed while the instance is borrowed.
            unsafe {
                slot.cell.as_ref()
            }
        });
        self.own().iter().chain(of_fragments).collect()
    }

    /// Calls `f`, which drops what a box holds, with each box of a request that is over. Cells of fragments are freed.
    pub(super) fn empty(&self, mut f: impl FnMut(&BoxCell)) {
        self.own().iter().for_each(&mut f);
        let mut grown = self.lock();
        if let Some(shared) = grown.shared.take() {
            shared.give_back(self.own.len() + grown.live);
        }
        if grown.slots.len() <= self.own.len() {
            return;
        }
        grown.leaving.clear();
        let own = self.own.len();
        let slots: Vec<Slot> = grown.slots.drain(own..).flatten().collect();
        for slot in &slots {
            grown.add(slot);
            grown.last_clock = grown.last_clock.max(slot.cell().clock.load(Ordering::Acquire));
        }
        (grown.live, grown.free) = (0, Vec::new());
        let nests = std::mem::take(&mut grown.nests);
        drop(grown);
        // A user's code runs here, so without the lock.
        drop_quietly(nests);
        slots.iter().for_each(|slot| f(slot.cell()));
        for slot in slots {
            // Acquire: the last handle has touched the cell.
            if slot.cell().handles.load(Ordering::Acquire) > 0 {
                self.lock().kept.push(slot.cell);
            } else {
                drop(slot.into_box());
            }
        }
    }

    /// The boxes that hold memory, and how many bytes.
    pub(super) fn holders(&self, model: &Model) -> Vec<(String, u64)> {
        let grown = self.lock();
        let held = |cell: &BoxCell| cell.held.load(Ordering::Relaxed);
        let own = self.own().iter().map(|cell| (grown.name(cell.index, model), held(cell)));
        let of_fragments = grown.of_fragments(self.own.len()).filter(|slot| held(slot.cell()) > 0);
        own.chain(of_fragments.map(|slot| (grown.name(slot.cell().index, model), held(slot.cell())))).collect()
    }

    /// A box's name: in a fragment, behind those of the expandable boxes around it.
    pub(super) fn name(&self, index: usize) -> String {
        self.lock().name(index, &self.model)
    }

    pub(super) fn last_clock(&self) -> u64 {
        let mut last = 0;
        self.each(|cell| last = last.max(cell.clock.load(Ordering::Acquire)));
        last.max(self.lock().last_clock)
    }

    /// The bytes taken or read by all boxes, near and far.
    pub(super) fn bytes(&self) -> (u64, u64) {
        let grown = self.lock();
        let mut sum = (0, 0);
        let mut add = |(near, far)| sum = (sum.0 + near, sum.1 + far);
        self.own().iter().for_each(|cell| add(cell.tally().bytes()));
        if !grown.slots.is_empty() {
            grown.slots.iter().flatten().filter_map(|slot| slot.before.as_ref()).for_each(|tally| add(tally.bytes()));
            grown.of_fragments(self.own.len()).for_each(|slot| add(slot.cell().tally().bytes()));
            let sums = grown.sums.values().flat_map(BTreeMap::values);
            sums.for_each(|sum| add((sum.counts.near_bytes(), sum.counts.far_bytes())));
        }
        sum
    }

    /// See [`Instance::counts`](crate::Instance::counts).
    pub(super) fn counts(&self) -> Vec<BoxCounts> {
        let grown = self.lock();
        let before = |cell: &BoxCell| grown.slots.get(cell.index)?.as_ref()?.before.as_ref();
        self.own().iter().map(|cell| before(cell).unwrap_or(cell.tally()).read()).collect()
    }

    /// See [`Instance::grown`](crate::Instance::grown).
    pub(super) fn grown(&self) -> Vec<GrownBox> {
        let grown = self.lock();
        let mut all: BTreeMap<(String, String), GrownBox> = BTreeMap::new();
        let mut at = |expanded: &str, name: &str, boxes: u64, live: u64, counts: &BoxCounts| {
            let one = all.entry((expanded.to_owned(), name.to_owned())).or_insert_with(|| GrownBox {
                expanded: expanded.to_owned(),
                name: name.to_owned(),
                boxes: 0,
                live: 0,
                counts: BoxCounts::default(),
            });
            (one.boxes, one.live) = (one.boxes + boxes, one.live + live);
            one.counts.add(counts);
        };
        for (expanded, sums) in &grown.sums {
            sums.iter().for_each(|(name, sum)| at(expanded, name, sum.boxes, 0, &sum.counts));
        }
        for slot in grown.slots.iter().flatten() {
            if let Some(origin) = &slot.origin {
                // In a cell of the model it stays until the request is over.
                let is_there = !slot.cell().has_ended();
                let counts = slot.cell().tally().read();
                at(origin.fragment.name(), origin.name(), 1, u64::from(is_there), &counts);
            }
        }
        all.into_values().collect()
    }

    /// See [`Instance::network`](crate::Instance::network).
    pub(super) fn network(&self) -> Vec<LiveBox> {
        self.lock().network.clone()
    }

    /// Counts the boxes of a request within this one, of which no more than `most` may live together. `None`: there are
    /// too many.
    pub(super) fn count_inner(&self, boxes: usize, most: usize) -> Option<CountedBoxes> {
        let mut grown = self.lock();
        let live = self.own.len() + grown.live;
        let count = grown.shared.get_or_insert_with(|| Arc::new(BoxCount { most, live: AtomicUsize::new(live) }));
        // Two requests may add theirs at once: both see the sum.
        count.add(boxes);
        let counted = CountedBoxes { count: Arc::clone(count), boxes };
        counted.count.has_room(0).then_some(counted)
    }

    /// Its boxes were counted with those of the request around it, before it has begun.
    pub(super) fn set_counted(&self, counted: CountedBoxes) {
        let own = self.own.len();
        debug_assert_eq!(counted.boxes, own, "it is an instance of the counted model");
        let mut counted = counted;
        // They are given back when the request is over.
        counted.boxes = 0;
        self.lock().shared = Some(Arc::clone(&counted.count));
    }

    /// Calls `f` with a box as its model or its fragment has it.
    pub(super) fn with_box<R>(&self, index: usize, f: impl FnOnce(&ConnectedBox) -> R) -> R {
        let origin = self.lock().slots.get(index).and_then(Option::as_ref).and_then(|slot| slot.origin.clone());
        match &origin {
            Some(origin) => f(&origin.fragment.model().boxes[origin.index]),
            None => f(&self.model.boxes[index]),
        }
    }

    /// The bytes of cells of fragments.
    pub(super) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    pub(super) fn hold(&self, more: u64) {
        self.held.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn give_back(&self, less: u64) {
        self.held.fetch_sub(less, Ordering::Relaxed);
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        let mut grown = self.lock();
        let own = self.own.len();
        let slots = std::mem::take(&mut grown.slots);
        let kept = std::mem::take(&mut grown.kept);
        drop(grown);
        slots.into_iter().skip(own).flatten().for_each(|slot| drop(slot.into_box()));
        for cell in kept {
            #[expect(unsafe_code, reason = "frees cells")]
            // SAFETY: from a slot; the handles that kept it have kept the instance, too.
            drop(unsafe { std::boxed::Box::from_raw(cell.as_ptr()) });
        }
        #[expect(unsafe_code, reason = "frees the cells that it owns")]
        // SAFETY: `new` leaked them; a box's cell is used only while its instance lives.
        drop(unsafe { std::boxed::Box::from_raw(self.own.as_ptr()) });
    }
}

impl Slot {
    pub(super) fn cell(&self) -> &BoxCell {
        #[expect(unsafe_code, reason = "follows a pointer to a cell")]
        // SAFETY: a slot's cell is freed with the slot.
        unsafe {
            self.cell.as_ref()
        }
    }

    /// The cell of a box of a fragment, to be freed.
    pub(super) fn into_box(self) -> std::boxed::Box<BoxCell> {
        #[expect(unsafe_code, reason = "owns the cell again")]
        // SAFETY: `grow` made it by `Box::into_raw`, and the slot, its only owner, is gone.
        unsafe {
            std::boxed::Box::from_raw(self.cell.as_ptr())
        }
    }
}

impl Grown {
    fn of_fragments(&self, own: usize) -> impl Iterator<Item = &Slot> {
        self.slots.iter().skip(own).flatten()
    }

    /// Adds the counts of a box that has ended.
    pub(super) fn add(&mut self, slot: &Slot) {
        if let Some(origin) = &slot.origin {
            self.add_counts(origin, &slot.cell().tally().read());
        }
    }

    pub(super) fn add_counts(&mut self, origin: &Origin, counts: &BoxCounts) {
        let expanded = origin.fragment.name();
        if !self.sums.contains_key(expanded) {
            self.sums.insert(expanded.to_owned(), BTreeMap::new());
        }
        let names = self.sums.get_mut(expanded).expect("it is there");
        let name = origin.name();
        if !names.contains_key(name) {
            names.insert(name.to_owned(), Sum::default());
        }
        let sum = names.get_mut(name).expect("it is there");
        sum.boxes += 1;
        sum.counts.add(counts);
    }

    /// The names of the model's boxes are known by index alone.
    fn name(&self, index: usize, model: &Model) -> String {
        match self.slots.get(index).and_then(Option::as_ref).map(|slot| &slot.origin) {
            Some(Some(origin)) => {
                let mut names = self.nests.chain(origin.nest, model);
                names.push(origin.name().to_owned());
                names.join(" / ")
            }
            _ => model.boxes.get(index).map_or("a box that has ended", |one| one.name()).to_owned(),
        }
    }

    /// The expandable boxes around a box, and the box itself.
    pub(super) fn chain(&self, index: usize, model: &Model) -> Vec<String> {
        let origin = self.slots.get(index).and_then(Option::as_ref).and_then(|slot| slot.origin.as_ref());
        let mut names = origin.map_or_else(Vec::new, |origin| self.nests.chain(origin.nest, model));
        names.push(match origin {
            Some(origin) => origin.name().to_owned(),
            None => model.boxes[index].name().to_owned(),
        });
        names
    }

    /// How many expandable boxes are around a box.
    pub(super) fn depth(&self, index: usize) -> u64 {
        let origin = self.slots.get(index).and_then(Option::as_ref).and_then(|slot| slot.origin.as_ref());
        origin.map_or(0, |origin| self.nests.all[origin.nest as usize].depth)
    }

    /// A place for a cell. `anew`: indexes are not used again.
    pub(super) fn place(&mut self, anew: bool) -> usize {
        self.live += 1;
        if let Some(shared) = &self.shared {
            shared.add(1);
        }
        match self.free.pop().filter(|_| !anew) {
            Some(index) => index,
            None => {
                self.slots.push(None);
                self.slots.len() - 1
            }
        }
    }

    /// A fragment takes the place of a box: a nest with this many boxes. Gives the place of one of them.
    pub(super) fn expand(
        &mut self,
        index: usize,
        fragment: &Fragment,
        boxes: usize,
    ) -> impl Fn(usize) -> Origin + use<> {
        let slot = self.slots[index].as_mut().expect("the box is there");
        let (of, parent) = match &slot.origin {
            None => (Of::Own(index), None),
            Some(origin) => (Of::Fragment(origin.fragment.clone(), origin.index), Some(origin.nest)),
        };
        let nest = self.nests.add(of, parent, boxes);
        let fragment = fragment.clone();
        move |index| Origin { nest, fragment: fragment.clone(), index }
    }

    /// Notes the boxes of a fragment in the network of a recorded request, with the cells that they got.
    pub(super) fn note(&mut self, model: &Model, fragment: &Fragment, host: Option<usize>, all: &[NonNull<BoxCell>]) {
        if self.network.is_empty() {
            self.network = model.boxes.iter().map(LiveBox::of).collect();
        }
        #[expect(unsafe_code, reason = "follows pointers to cells")]
        // SAFETY: they were given their places under the lock, which is held.
        let index = |number: usize| unsafe { all[number].as_ref() }.index;
        let boxes = &fragment.model().boxes;
        for (number, one) in boxes.iter().enumerate().take(boxes.len() - 1) {
            let mut live = LiveBox::of(one);
            live.name = self.name(index(number), model);
            if Some(number) == host {
                let own = &mut self.network[index(number)];
                (own.name, own.type_name) = (live.name, live.type_name);
            } else if number > 0 {
                live.sources.iter_mut().for_each(|(from, _)| *from = BoxId(index(from.index())));
                self.network.push(live);
                debug_assert_eq!(self.network.len(), index(number) + 1, "indexes of recorded requests are new");
            }
        }
    }

    /// A box of a fragment has got a receiver.
    pub(super) fn moved(&mut self, receiver: usize, input: usize, sender: usize, output: usize) {
        if let Some(source) = self.network.get_mut(receiver).and_then(|live| live.sources.get_mut(input)) {
            *source = (BoxId(sender), output);
        }
    }

    /// A box has left its place in a fragment.
    pub(super) fn leave(&mut self, origin: &Origin, dead: &mut Dead) {
        self.nests.leave(origin.nest, &mut dead.fragments);
    }

    /// Takes boxes out that have let go of all ends, and all of whose neighbours have done so; at most this many are
    /// looked at.
    pub(super) fn reap(&mut self, most: usize, dead: &mut Dead) {
        for _ in 0..most.min(self.leaving.len()) {
            let Some(cell) = self.leaving.pop_front() else { return };
            // Acquire, and in this order: nothing queues a box without neighbours any more, so one that is not queued
            // now never will be, and its last runner does not touch it any more.
            let is_free = cell.far.load(Ordering::Acquire) == 0
                && cell.handles.load(Ordering::Acquire) == 0
                && cell.state.is_idle();
            if !is_free {
                self.leaving.push_back(cell);
                continue;
            }
            let index = cell.index;
            let slot = self.slots[index].take().expect("a box that leaves is there");
            self.live -= 1;
            if let Some(shared) = &self.shared {
                shared.give_back(1);
            }
            self.free.push(index);
            self.last_clock = self.last_clock.max(slot.cell().clock.load(Ordering::Acquire));
            self.add(&slot);
            if let Some(origin) = &slot.origin {
                self.leave(origin, dead);
            }
            dead.slots.push(slot);
        }
    }
}

/// The expandable boxes whose place fragments have taken, each with the one around it.
///
/// One of which nothing is left but a fragment inside of it is taken out, so a chain in which each box grows and ends
/// takes no memory.
#[derive(Default)]
struct Nests {
    all: Vec<Nest>,
    free: Vec<u32>,
}

struct Nest {
    of: Of,
    parent: Option<u32>,
    /// The outermost expandable box, one of the model's.
    root: usize,
    /// How many expandable boxes are around its boxes.
    depth: u64,
    /// Boxes that are still there.
    boxes: usize,
    /// How many nests are inside, and the sum of their numbers: if it is one, the sum is its number.
    inside: usize,
    sum: u64,
}

/// An expandable box.
enum Of {
    /// One of the model's.
    Own(usize),
    Fragment(Fragment, usize),
}

/// So many names at the end of a chain are told, and the first.
const TOLD: usize = 3;

impl Nests {
    fn add(&mut self, of: Of, parent: Option<u32>, boxes: usize) -> u32 {
        let depth = parent.map_or(1, |parent| self.all[parent as usize].depth + 1);
        let root = match (&of, parent) {
            (Of::Own(index), _) => *index,
            (_, parent) => parent.map_or(0, |parent| self.all[parent as usize].root),
        };
        let nest = Nest { of, parent, root, depth, boxes, inside: 0, sum: 0 };
        let number = match self.free.pop() {
            Some(number) => {
                self.all[number as usize] = nest;
                number
            }
            None => {
                self.all.push(nest);
                self.all.len() as u32 - 1
            }
        };
        if let Some(parent) = parent {
            let parent = &mut self.all[parent as usize];
            parent.inside += 1;
            parent.sum += u64::from(number);
        }
        number
    }

    /// A box of a nest has ended. The types of the nests that are taken out are added to `fragments`.
    fn leave(&mut self, number: u32, fragments: &mut Vec<Fragment>) {
        self.all[number as usize].boxes -= 1;
        let mut at = number;
        loop {
            let Nest { parent, boxes, inside, sum, .. } = self.all[at as usize];
            if boxes > 0 || inside > 1 {
                return;
            }
            if inside == 1 {
                let only = sum as u32;
                self.all[only as usize].parent = parent;
                if let Some(parent) = parent {
                    let parent = &mut self.all[parent as usize];
                    parent.sum = parent.sum - u64::from(at) + u64::from(only);
                }
                self.take_out(at, fragments);
                return;
            }
            self.take_out(at, fragments);
            let Some(parent) = parent else { return };
            let outer = &mut self.all[parent as usize];
            (outer.inside, outer.sum) = (outer.inside - 1, outer.sum - u64::from(at));
            at = parent;
        }
    }

    fn take_out(&mut self, number: u32, fragments: &mut Vec<Fragment>) {
        if let Of::Fragment(fragment, _) = std::mem::replace(&mut self.all[number as usize].of, Of::Own(0)) {
            fragments.push(fragment);
        }
        self.free.push(number);
    }

    /// The names of the expandable boxes of a nest and around it, the outermost first. Between that one and the last
    /// ones, those of a long chain are counted.
    fn chain(&self, nest: u32, model: &Model) -> Vec<String> {
        let around = |at: &&Nest| at.parent.map(|parent| &self.all[parent as usize]);
        let last = std::iter::successors(Some(&self.all[nest as usize]), around).take(TOLD);
        let mut told: Vec<(u64, &str)> = last.map(|nest| (nest.depth, self.name(nest, model))).collect();
        if told.last().is_some_and(|(depth, _)| *depth > 1) {
            told.push((1, model.boxes[self.all[nest as usize].root].name()));
        }
        let (mut names, mut before) = (Vec::new(), 0);
        for (depth, name) in told.into_iter().rev() {
            if depth > before + 1 {
                names.push(format!("… {} more …", depth - before - 1));
            }
            names.push(name.to_owned());
            before = depth;
        }
        names
    }

    fn name<'n>(&self, nest: &'n Nest, model: &'n Model) -> &'n str {
        match &nest.of {
            Of::Own(index) => model.boxes[*index].name(),
            Of::Fragment(fragment, index) => fragment.model().boxes[*index].name(),
        }
    }
}
