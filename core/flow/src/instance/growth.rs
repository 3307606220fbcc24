//! A fragment takes the place of a box, and boxes of fragments end before their request.
//!
//! **Growing.** The runner of an expandable box makes the fragment's cells, connects them, and gives its own cell's
//! inputs to the fragment's first box: its senders notice nothing. Its outputs' receivers go to the fragment's last
//! boxes with all that is known of them, and each receiver's input names its new sender from then on. The box has sent
//! nothing before, so its receivers have nothing to tell the old one but that they accept no more; that word is one
//! exchange of the input's sender, which either sees the new sender or is seen by the hand-over.
//!
//! **Ending.** A via's end is let go when it will not touch the other one any more: by the receiver after it has taken
//! the pill or closed the input, by the sender after the pill was delivered or it has seen the input closed, each at
//! the end of the invocation. A box of a fragment without ends of its own *leaves*; it is freed when its neighbours
//! have let go of it, too, and it is not queued: nothing can queue it any more.

use super::Instance;
use super::cell::{Body, BoxCell, Neighbour, Output, Receiver};
use super::cells::{CountedBoxes, Dead, Grown, Slot};
use super::settling::unwound_as;
use crate::counts::Tally;
use crate::error::drop_quietly;
use crate::expand::Growing;
use crate::model::ConnectedBox;
use crate::sync::Ordering;
use crate::{FlowError, Fragment, OverBudget};
use std::mem::size_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};

/// Connects a cell with its neighbours, by their indexes in its model: the receivers that were made, and its senders.
///
/// # Safety
/// The cells are there, and `cell`'s body is the caller's alone.
#[expect(unsafe_code, reason = "the caller promises what the type system can't see")]
pub(super) unsafe fn connect(
    one: &ConnectedBox,
    cell: NonNull<BoxCell>,
    all: &[NonNull<BoxCell>],
    is_made: impl Fn(usize) -> bool,
) {
    // SAFETY: the caller's promise.
    let cell = unsafe { cell.as_ref() };
    cell.body.with_mut(|body| {
        // SAFETY: the caller's promise.
        connect_outputs(one, unsafe { &mut (*body).outputs }, all, is_made);
    });
    for (input, (from, _)) in cell.inputs.iter().zip(&one.inputs) {
        // Relaxed: other threads learn of the cell afterwards.
        input.sender.store(all[from.sender().index()].as_ptr(), Ordering::Relaxed);
    }
}

fn connect_outputs(
    one: &ConnectedBox,
    outputs: &mut [Output],
    all: &[NonNull<BoxCell>],
    is_made: impl Fn(usize) -> bool,
) {
    for (output, (_, links)) in outputs.iter_mut().zip(&one.outputs) {
        let links = links.iter().map(|link| link.receiver.index()).filter(|&receiver| is_made(receiver));
        for (receiver, index) in output.receivers.iter_mut().zip(links) {
            receiver.cell = Neighbour::new(all[index]);
        }
    }
}

/// Gives the receivers of an output of a growing box to an output of one of the fragment's boxes.
fn hand_over(cell: &BoxCell, body: &mut Body, mut receivers: Vec<Receiver>, to: NonNull<BoxCell>, output: usize) {
    let old = ptr::from_ref(cell).cast_mut();
    if to.as_ptr() == old {
        return body.outputs[output].receivers.append(&mut receivers);
    }
    #[expect(unsafe_code, reason = "follows a pointer to a new cell")]
    // SAFETY: it is there, see `Instance::grow`.
    let new = unsafe { to.as_ref() };
    for receiver in receivers.iter_mut().filter(|receiver| !receiver.let_go) {
        // The receiver is there: this end has not let go of it. AcqRel: it may let go of this end at the same time.
        let sender = &receiver.cell.inputs[receiver.input].sender;
        match sender.compare_exchange(old, to.as_ptr(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                new.far.fetch_add(1, Ordering::Relaxed);
                cell.far.fetch_sub(1, Ordering::Release);
            }
            // It has closed the input, and has let go of the growing box.
            Err(_) => receiver.closed = true,
        }
    }
    new.body.with_mut(|body| {
        #[expect(unsafe_code, reason = "completes a new cell")]
        // SAFETY: it is there, and no box has sent to it yet.
        let body = unsafe { &mut *body };
        body.may_wait |= receivers.iter().any(Receiver::waits);
        body.outputs[output].receivers.append(&mut receivers);
    });
}

/// Connects a box with a fragment that was made beside it: the fragment reads the last outputs of the box, and its own
/// output goes to the box's last input.
fn go_round(cell: &BoxCell, body: &mut Body, boxes: &[ConnectedBox], all: &[NonNull<BoxCell>]) {
    let (exit, back) = (boxes.len() - 1, cell.inputs.len() - 1);
    let (from, _) = boxes[exit].inputs[0];
    let mut outputs = Output::of(&boxes[0], |_| true);
    connect_outputs(&boxes[0], &mut outputs, all, |_| true);
    let links: usize = outputs.iter().map(|output| output.receivers.len()).sum();
    // Those that read from it, and the one that sends to it.
    cell.far.fetch_add(links + 1, Ordering::Relaxed);
    let to_exit = |outputs: &mut [Output], sender: usize| {
        let links = boxes[sender].outputs[from.index()].1.iter();
        let receivers = &mut outputs[from.index()].receivers;
        for (receiver, _) in receivers.iter_mut().zip(links).filter(|(_, link)| link.receiver.index() == exit) {
            receiver.input = back;
        }
    };
    match from.sender().index() {
        0 => to_exit(&mut outputs, 0),
        last => {
            #[expect(unsafe_code, reason = "completes a new cell")]
            // SAFETY: it is there, see `Instance::grow`, and no box has sent to it yet.
            let last_cell = unsafe { all[last].as_ref() };
            last_cell.body.with_mut(|body| {
                #[expect(unsafe_code, reason = "completes a new cell")]
                // SAFETY: as above.
                to_exit(unsafe { &mut (*body).outputs }, last);
            });
        }
    }
    cell.inputs[back].sender.store(all[from.sender().index()].as_ptr(), Ordering::Relaxed);
    body.over[back] = false;
    for receiver in outputs.iter_mut().flat_map(|output| &mut output.receivers) {
        (receiver.waits_long, receiver.goes_round) = (true, true);
    }
    let own = body.outputs.len() - outputs.len();
    for (place, output) in outputs.into_vec().into_iter().enumerate() {
        body.outputs[own + place] = output;
    }
}

impl BoxCell {
    /// About as many bytes as a cell takes, with its inputs' slots.
    fn bytes(&self) -> u64 {
        let slots = |bound: usize| if bound > 8 { bound.next_power_of_two() * 128 } else { 0 };
        let inputs = self.inputs.iter().map(|input| size_of_val(input) + slots(input.ring.bound().envelopes));
        (size_of::<BoxCell>() + 512 + inputs.sum::<usize>()) as u64
    }

    /// Whether it has let go of all ends. Exact if the box does not run.
    pub(super) fn has_ended(&self) -> bool {
        self.inputs.iter().all(|input| input.sender().is_none())
    }
}

impl Instance {
    /// Whether boxes may grow.
    #[inline]
    pub(crate) fn grows(&self) -> bool {
        self.model.grows
    }

    /// A box's name: in a fragment, behind those of the expandable boxes around it.
    pub(crate) fn name_of(&self, index: usize) -> String {
        self.cells.name(index)
    }

    /// Counts the boxes of a request that a box submits within this one.
    ///
    /// # Errors
    /// Too many would live.
    pub(crate) fn count_inner(&self, cell: &BoxCell, boxes: usize) -> Result<CountedBoxes, FlowError> {
        let own_most = self.most_boxes.load(Ordering::Relaxed);
        self.cells.count_inner(boxes, own_most).ok_or_else(|| {
            let grown = self.cells.lock();
            let most = grown.shared.as_ref().map_or(own_most, |shared| shared.most);
            FlowError::TooManyBoxes { most, chain: grown.chain(cell.index, &self.model) }
        })
    }

    /// How many expandable boxes are around a box.
    pub(crate) fn depth_of(&self, cell: &BoxCell) -> u64 {
        self.cells.lock().depth(cell.index)
    }

    /// Like [`Instance::grow`]: a failure, or a panic of a user's destructor, fails the request.
    #[cold]
    #[inline(never)]
    pub(crate) fn grow_guarded(&self, cell: &BoxCell, body: &mut Body, growing: Growing, is_recorded: bool) {
        self.guarded(cell.index, || {
            if !self.is_stopped()
                && let Err(error) = self.grow(cell, body, growing, is_recorded)
            {
                self.fail(error);
            }
        });
    }

    /// A fragment takes the place of a box that has sent nothing: by the box's runner.
    ///
    /// # Errors
    /// The request may not have so many boxes, or not so much memory.
    fn grow(&self, cell: &BoxCell, body: &mut Body, growing: Growing, is_recorded: bool) -> Result<(), FlowError> {
        let Growing { fragment, host, operators } = growing;
        let boxes = &fragment.model().boxes;
        let exit = boxes.len() - 1;
        // The outputs of a fragment beside the box lead back to it.
        let is_made = |index: usize| index != exit || host.is_none();
        let mut host_operator = None;
        let mut made: Vec<(usize, std::boxed::Box<BoxCell>)> = Vec::with_capacity(exit);
        for (index, operator) in operators {
            if Some(index) == host {
                host_operator = Some(operator);
                continue;
            }
            let (instance, class) = (cell.instance, cell.class());
            let new = BoxCell::new(&boxes[index], 0, operator, instance, self.id, class, is_made);
            made.push((index, std::boxed::Box::new(new)));
        }
        let bytes: u64 = made.iter().map(|(_, new)| new.bytes()).sum();

        self.book_boxes(cell, bytes)?;
        let mut dead = Dead::default();
        let all = self.place(cell, &fragment, host, made, is_recorded, &mut dead);
        self.bury(dead);
        let all = all.inspect_err(|_| self.give_boxes_back(bytes))?;

        // Connected: nothing arrives at the new boxes before this invocation is over.
        for index in (1..exit).filter(|&index| Some(index) != host) {
            #[expect(unsafe_code, reason = "connects new cells")]
            // SAFETY: they are there, and no box sends to them yet.
            unsafe {
                connect(&boxes[index], all[index], &all, is_made);
            }
        }
        let Some(host) = host else {
            go_round(cell, body, boxes, &all);
            return Ok(());
        };
        let mut outputs = Output::of(&boxes[host], is_made);
        connect_outputs(&boxes[host], &mut outputs, &all, is_made);
        let links: usize = outputs.iter().map(|output| output.receivers.len()).sum();
        cell.far.fetch_add(links, Ordering::Relaxed);
        let before = std::mem::replace(&mut body.outputs, outputs);
        for (number, output) in before.into_vec().into_iter().enumerate() {
            let (from, _) = boxes[exit].inputs[number];
            let links = &boxes[from.sender().index()].outputs[from.index()].1;
            let link = links.iter().find(|link| (link.receiver.index(), link.input) == (exit, number));
            let mut receivers = output.receivers;
            for receiver in &mut receivers {
                receiver.private.extend(link.iter().flat_map(|link| &link.private));
            }
            if is_recorded {
                #[expect(unsafe_code, reason = "follows a pointer to a new cell")]
                // SAFETY: it is there, see `place`.
                let sender = unsafe { all[from.sender().index()].as_ref() }.index;
                let mut grown = self.cells.lock();
                for receiver in receivers.iter().filter(|receiver| !receiver.let_go) {
                    grown.moved(receiver.cell.index, receiver.input, sender, from.index());
                }
            }
            hand_over(cell, body, receivers, all[from.sender().index()], from.index());
        }
        let operator = host_operator.expect("the box in the cell has an operator");
        drop_quietly(std::mem::replace(&mut body.operator, operator));
        Ok(())
    }

    /// Books the cells of a fragment. A budget runs a user's code, so this is done without the lock.
    ///
    /// # Errors
    /// There is no memory for them, not even when all boxes that have ended are freed.
    fn book_boxes(&self, cell: &BoxCell, bytes: u64) -> Result<(), FlowError> {
        if let Some(account) = self.account()
            && account.book(bytes).is_err()
        {
            let mut dead = Dead::default();
            self.cells.lock().reap(usize::MAX, &mut dead);
            self.bury(dead);
            if let Err(budget) = account.book(bytes) {
                return Err(self.gave_up(cell.index, OverBudget { budget, holders: self.holders() }.into()));
            }
        }
        self.cells.hold(bytes);
        Ok(())
    }

    fn give_boxes_back(&self, bytes: u64) {
        self.cells.give_back(bytes);
        if let Some(account) = self.account() {
            account.give_back(bytes);
        }
    }

    /// Gives new cells their places, if there may be so many. Gives all of the fragment's cells, by index; those of the
    /// entry and the exit, if they have none, are the growing box's.
    fn place(
        &self,
        cell: &BoxCell,
        fragment: &Fragment,
        host: Option<usize>,
        made: Vec<(usize, std::boxed::Box<BoxCell>)>,
        is_recorded: bool,
        dead: &mut Dead,
    ) -> Result<Vec<NonNull<BoxCell>>, FlowError> {
        let own = self.cells.own().len();
        let mut grown = self.cells.lock();
        if grown.slots.is_empty() {
            let slot = |cell| Slot { cell: NonNull::from(cell), origin: None, before: None };
            grown.slots = self.cells.own().iter().map(|cell| Some(slot(cell))).collect();
        }
        grown.reap(2 * made.len() + 2, dead);
        let own_most = self.most_boxes.load(Ordering::Relaxed);
        let has_room = |grown: &Grown| {
            own + grown.live + made.len() <= own_most
                && grown.shared.as_ref().is_none_or(|shared| shared.has_room(made.len()))
        };
        if !has_room(&grown) {
            grown.reap(usize::MAX, dead);
        }
        if !has_room(&grown) {
            let most = grown.shared.as_ref().map_or(own_most, |shared| shared.most.min(own_most));
            return Err(FlowError::TooManyBoxes { most, chain: grown.chain(cell.index, &self.model) });
        }
        let mut all = vec![NonNull::from(cell); fragment.model().boxes.len()];
        let boxes = made.len() + usize::from(host.is_some());
        if boxes == 0 {
            // Its input goes back at once.
            return Ok(all);
        }
        let origin = grown.expand(cell.index, fragment, boxes);
        for (index, mut new) in made {
            let place = grown.place(is_recorded);
            new.set_index(place);
            let new = NonNull::from(std::boxed::Box::leak(new));
            grown.slots[place] = Some(Slot { cell: new, origin: Some(origin(index)), before: None });
            all[index] = new;
        }
        let Some(host) = host else {
            if is_recorded {
                grown.note(&self.model, fragment, None, &all);
            }
            return Ok(all);
        };
        let one = &fragment.model().boxes[host];
        let tally = cell.tally.with_mut(|tally| {
            #[expect(unsafe_code, reason = "exchanges the counters")]
            // SAFETY: by the box's runner, with the lock: see `BoxCell::tally`.
            std::mem::replace(unsafe { &mut *tally }, Tally::new(cell.inputs.len(), one.outputs.len()))
        });
        let slot = grown.slots[cell.index].as_mut().expect("the box is there");
        match slot.origin.replace(origin(host)) {
            None => slot.before = Some(tally),
            Some(before) => {
                grown.add_counts(&before, &tally.read());
                grown.leave(&before, dead);
                dead.fragments.push(before.fragment);
            }
        }
        if is_recorded {
            grown.note(&self.model, fragment, Some(host), &all);
        }
        Ok(all)
    }

    /// Lets go of the ends that are over: by the box's runner, at the end of its invocation. A box of a fragment that
    /// has none left, and is not to run again, leaves.
    #[cold]
    #[inline(never)]
    pub(crate) fn let_go(&self, cell: &BoxCell, body: &mut Body, is_due: bool) {
        if self.is_stopped() {
            return;
        }
        body.ends = false;
        let (mut is_over, mut overdrafts) = (true, 0);
        for (input, over) in cell.inputs.iter().zip(&body.over) {
            if *over || input.ring.is_closed() {
                // AcqRel: a box that hands over its outputs comes before or after.
                if let Some(sender) = NonNull::new(input.sender.swap(ptr::null_mut(), Ordering::AcqRel)) {
                    // Release: all that was done here comes before the sender is freed.
                    Neighbour::new(sender).far.fetch_sub(1, Ordering::Release);
                }
            } else {
                is_over = false;
            }
        }
        for receiver in body.outputs.iter_mut().flat_map(|output| &mut output.receivers) {
            if receiver.is_over() && !receiver.waits() {
                if !std::mem::replace(&mut receiver.let_go, true) {
                    overdrafts += std::mem::take(&mut receiver.overdraft);
                    receiver.cell.far.fetch_sub(1, Ordering::Release);
                }
            } else {
                is_over = false;
            }
        }
        if overdrafts > 0 {
            self.give_overdrafts_back(overdrafts);
        }
        if !is_over || body.has_left {
            return;
        }
        if is_due {
            // It cleans up first.
            body.ends = true;
            return;
        }
        body.has_left = true;
        if cell.index < self.cells.own().len() {
            return;
        }
        let mut dead = Dead::default();
        let mut grown = self.cells.lock();
        grown.leaving.push_back(Neighbour::of(cell));
        grown.reap(2, &mut dead);
        drop(grown);
        self.bury(dead);
    }

    /// Drops boxes that have ended, and fragments: a user's code runs.
    fn bury(&self, dead: Dead) {
        for mut slot in dead.slots {
            let origin = slot.origin.take();
            let name = origin.as_ref().map(|origin| origin.name().to_owned());
            let cell = slot.into_box();
            self.give_boxes_back(cell.bytes());
            if let Some(account) = self.account() {
                account.give_back(cell.held.load(Ordering::Relaxed));
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop((cell, origin)))) {
                self.fail(unwound_as(name.unwrap_or_default(), panic));
            }
        }
        for fragment in dead.fragments {
            let name = fragment.name().to_owned();
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(fragment))) {
                self.fail(unwound_as(name, panic));
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::state::StateWord;
    use crate::{BoxModel, ModelBuilder, Schema, Turn};
    use loom::sync::atomic::{AtomicBool, AtomicUsize};
    use std::sync::Arc;
    use vicus_schedule::{RequestId, TaskClass};

    #[expect(unsafe_code, reason = "the type of a class's functions")]
    // SAFETY of callers: no condition: it is never called.
    unsafe fn never(_: vicus_schedule::TaskRef) {
        unreachable!("these boxes are not run");
    }

    static COUNTED: TaskClass = crate::box_class(never);

    /// A box hands its output over while the receiver closes the input and lets go: each counts the ends that are left,
    /// and the new sender learns of the closing.
    #[test]
    fn loom_a_receiver_that_closes_lets_go_of_one_sender() {
        let none = Schema::new::<&str>([]);
        let boxed = |name: &'static str| BoxModel::new(name, || |_: &mut Turn<'_>| Ok(()));
        let mut net = ModelBuilder::new("two senders");
        let senders = ["old", "new"].map(|name| net.source(boxed(name).output(&none)));
        let receiver = net.add(boxed("receiver").input(&none).input(&none).output(&none));
        (0..2).for_each(|input| drop(net.connect(senders[input].output(0), receiver.input(input))));
        net.end(receiver.output(0));
        let model = net.build().unwrap();
        loom::model(move || {
            let instance = Instance::new(&model, RequestId::new(1), 1, &COUNTED, Vec::new());
            let closes = {
                let instance = Arc::clone(&instance);
                loom::thread::spawn(move || {
                    let cell = &instance.cells.own()[3];
                    assert!(!cell.inputs[0].ring.close(), "nothing was refused");
                    cell.body.with_mut(|body| {
                        #[expect(unsafe_code, reason = "only this thread runs the receiver")]
                        // SAFETY: the other thread touches only the senders' bodies.
                        instance.let_go(cell, unsafe { &mut *body }, false);
                    });
                })
            };
            let [old, new] = [1, 2].map(|index| &instance.cells.own()[index]);
            let receivers = old.body.with_mut(|body| {
                #[expect(unsafe_code, reason = "only this thread runs the senders")]
                // SAFETY: the other thread touches only the receiver's body.
                let body = unsafe { &mut *body };
                let receivers = std::mem::take(&mut body.outputs[0].receivers);
                hand_over(old, body, receivers, NonNull::from(new), 0);
                body.outputs[0].receivers.len()
            });
            assert_eq!(receivers, 0);
            closes.join().unwrap();
            // The initialization box, and for the new one its own receiver.
            assert_eq!((old.far.load(Ordering::Relaxed), new.far.load(Ordering::Relaxed)), (1, 2));
            let moved = new.body.with_mut(|body| {
                #[expect(unsafe_code, reason = "only this thread is left")]
                // SAFETY: as above.
                let moved = unsafe { &(&(*body).outputs)[0].receivers[1] };
                moved.closed || moved.ring().is_closed()
            });
            assert!(moved, "the new sender sees that the input is closed");
        });
    }

    /// A sender delivers the last pill, queues the box and lets go, while the box runs and leaves, and a third thread
    /// looks for boxes to be freed: nobody touches the box after that.
    #[test]
    fn loom_a_box_is_freed_behind_its_last_touch() {
        struct Cell {
            word: StateWord,
            far: AtomicUsize,
            has_left: AtomicBool,
            queued: AtomicUsize,
            freed: AtomicBool,
        }

        impl Cell {
            fn touch(&self) {
                assert!(!self.freed.load(Ordering::Acquire), "it is still there");
            }

            /// Runs the box as often as it is queued. It has seen the pill when the sender has put it.
            fn run(&self, pill: &AtomicBool) {
                while self.queued.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    self.touch();
                    self.word.begin();
                    if pill.load(Ordering::Acquire) {
                        self.touch();
                        self.has_left.store(true, Ordering::Release);
                    }
                    if self.word.finish_as(crate::state::Sending::Done, false, false, || {}).0 {
                        self.queued.fetch_add(1, Ordering::AcqRel);
                    }
                }
            }

            fn reap(&self) {
                if self.has_left.load(Ordering::Acquire) && self.far.load(Ordering::Acquire) == 0 && self.word.is_idle()
                {
                    self.freed.store(true, Ordering::Release);
                }
            }
        }

        loom::model(|| {
            let cell = loom::sync::Arc::new(Cell {
                word: StateWord::new(),
                far: AtomicUsize::new(1),
                has_left: AtomicBool::new(false),
                queued: AtomicUsize::new(1),
                freed: AtomicBool::new(false),
            });
            let pill = loom::sync::Arc::new(AtomicBool::new(false));
            assert!(cell.word.arrive().0, "an earlier envelope has queued it");
            let runner = {
                let (cell, pill) = (cell.clone(), pill.clone());
                loom::thread::spawn(move || {
                    cell.run(&pill);
                    cell.reap();
                })
            };
            pill.store(true, Ordering::Release);
            cell.touch();
            if cell.word.arrive().0 {
                cell.touch();
                cell.queued.fetch_add(1, Ordering::AcqRel);
            }
            cell.touch();
            cell.far.fetch_sub(1, Ordering::Release);
            runner.join().unwrap();
            cell.run(&pill);
            cell.reap();
            assert!(cell.freed.load(Ordering::Relaxed), "it is freed in the end");
        });
    }

    /// A runner marks its box as blocked, and looks at it once more, while the receiver resumes it, and it ends.
    #[test]
    fn loom_a_blocked_box_is_not_freed_while_its_last_runner_looks_at_it() {
        use crate::state::Sending;
        loom::model(|| {
            let word = loom::sync::Arc::new(StateWord::new());
            let handles = loom::sync::Arc::new(AtomicUsize::new(0));
            let freed = loom::sync::Arc::new(AtomicBool::new(false));
            assert!(word.arrive().0 && word.begin());
            let receiver = {
                let (word, handles, freed) = (word.clone(), handles.clone(), freed.clone());
                loom::thread::spawn(move || {
                    if word.resume().0 {
                        // It sends what waits, and ends.
                        word.begin();
                        let _ = word.finish_as(Sending::Done, false, false, || {});
                        if handles.load(Ordering::Acquire) == 0 && word.is_idle() {
                            freed.store(true, Ordering::Release);
                        }
                    }
                })
            };
            handles.fetch_add(1, Ordering::Relaxed);
            let _ = word.finish_as(Sending::Blocked, false, false, || {});
            assert!(!freed.load(Ordering::Acquire), "it looks at a box that is there");
            handles.fetch_sub(1, Ordering::Release);
            receiver.join().unwrap();
        });
    }
}
