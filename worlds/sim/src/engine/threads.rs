//! Lightweight threads: tasks that leave their seat while they wait for a word, and go on where a seat decides.
//!
//! The seats are those of worlds/threads, with the same decisions: where a thread goes on after its wait
//! ([`Seat::place_resumed`](vicus_schedule::Seat::place_resumed)), and which one follows another before the seat looks
//! around.

use super::Engine;
use crate::OwnStack;
use crate::fluid::Time;
use crate::seats::{Doing, Frame, Thread};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use vicus_schedule::{EndOfWait, GoesOn, OtherSeats, Queues, SeatId, Way};
use vicus_trace::What;

/// The words of a program, and the threads that wait for them.
#[derive(Default)]
pub(super) struct Words {
    words: FxHashMap<u32, Word>,
    suspended: FxHashMap<u32, Suspended>,
}

#[derive(Default)]
struct Word {
    /// How many more times it was filled than taken.
    filled: u32,
    /// The threads that wait for it, the first one first.
    waiting: VecDeque<u32>,
}

/// A thread that waits, or is ready and has not gone on yet.
struct Suspended {
    frame: Frame,
    home: SeatId,
}

/// By seat, whether it has nothing to do.
struct Idle(Vec<bool>);

impl OtherSeats for Idle {
    fn claim(&mut self, seat: SeatId) -> bool {
        self.0[seat.index()]
    }

    /// No program's thread sits on a simulated seat, and none blocks.
    fn is_elsewhere(&self, _: SeatId) -> bool {
        false
    }
}

impl Engine<'_> {
    /// The seat's thread takes a word. If the word is empty, the thread leaves the seat, and goes on behind this step
    /// once the word has been filled for it.
    pub(super) fn take_word(&mut self, seat: usize, task: u32, word: u32) {
        self.next_step(seat);
        let word = self.graph.words.words.entry(word).or_default();
        if word.filled > 0 {
            word.filled -= 1;
            return;
        }
        word.waiting.push_back(task);
        let mut frame = self.seats[seat].stack.pop().expect("the seat runs a task");
        if std::mem::take(&mut frame.helps) {
            self.seats[seat].state.end_help();
        }
        if std::mem::take(&mut frame.is_in_turn) {
            self.end_wait(seat);
        }
        self.graph.words.suspended.insert(task, Suspended { frame, home: SeatId::new(seat) });
        let who = self.who(task);
        self.note(seat, || What::InvocationEnds { who });
    }

    /// The seat's task fills a word. A thread that waits for it is ready, and the seat decides where it goes on.
    pub(super) fn fill_word(&mut self, seat: usize, word: u32) {
        let waker = self.top(seat).task;
        let by_thread = self.program.tasks[waker as usize].own_stack != OwnStack::None;
        self.next_step(seat);
        let word = self.graph.words.words.entry(word).or_default();
        let Some(task) = word.waiting.pop_front() else {
            word.filled += 1;
            return;
        };
        let home = self.graph.words.suspended[&task].home;
        let is_movable = self.program.tasks[task as usize].own_stack == OwnStack::Movable;
        let has_nothing = |thread: &Thread| !matches!(thread.doing, Doing::Busy | Doing::Empty);
        let mut others = Idle(if is_movable { self.seats.iter().map(has_nothing).collect() } else { Vec::new() });
        let end = EndOfWait { home, is_movable, by_thread, leaves_seat: false };
        let waiting = (task, self.program.tasks[task as usize].request);
        let goes_on = self.seats[seat].state.place_resumed(self.plan, end, &mut others);
        let home = match goes_on {
            GoesOn::Here => SeatId::new(seat),
            GoesOn::At { seat, .. } => seat,
        };
        self.graph.words.suspended.entry(task).and_modify(|suspended| suspended.home = home);
        match goes_on {
            GoesOn::Here => {
                self.seats[seat].state.woke(waiting);
                self.owe(seat, self.hardware.costs.own.once());
            }
            GoesOn::At { .. } => {
                self.seats[home.index()].pinned.push_back(task);
                self.owe(seat, self.hardware.costs.take.once());
                self.ask(home.index());
            }
        }
    }

    /// A task goes on, if it is a thread that was suspended. Returns the time it costs.
    pub(super) fn go_on(&mut self, seat: usize, task: u32) -> Option<Time> {
        let Suspended { frame, .. } = self.graph.words.suspended.remove(&task)?;
        self.begin_row(seat, task);
        self.seats[seat].stack.push(frame);
        let who = self.who(task);
        self.note(seat, || What::InvocationBegins { who });
        Some(self.hardware.costs.own.once())
    }

    /// If the task is a thread, others may follow before the seat looks around.
    pub(super) fn begin_row(&mut self, seat: usize, task: u32) {
        let Thread { state, in_row, .. } = &mut self.seats[seat];
        if self.program.tasks[task as usize].own_stack != OwnStack::None && !std::mem::replace(in_row, true) {
            state.begin_row(false);
        }
    }

    /// The next task of a seat whose thread has just left it or ended: as the loop of worlds/threads finds it, before
    /// the seat looks around.
    pub(super) fn next_in_row(&mut self, seat: usize) -> Option<(u32, Way)> {
        let Engine { seats, queues, program, .. } = self;
        let Thread { state, pinned, in_row, .. } = &mut seats[seat];
        if !*in_row || !pinned.is_empty() {
            *in_row = false;
            return None;
        }
        let own = state.own();
        let near = state.first().map(|(queue, _)| queue).or(own);
        if let Some((task, _)) = state.next_resumed(|| near.is_none_or(|queue| queues.len(queue) == 0)) {
            return Some((task, Way::NO_QUEUE));
        }
        let is_thread = |task: u32| program.tasks[task as usize].own_stack != OwnStack::None;
        if let Some(own) = own.filter(|_| state.is_own_thread_next())
            && let Some(waiting) = queues.take_own(own)
        {
            if is_thread(waiting.0) {
                return Some((waiting.0, state.begin_own_thread()));
            }
            queues.push(own, waiting);
        }
        let found = state.first_thread_next().and_then(|(queue, way)| {
            let (task, _) = queues.take_oldest_if(queue, |waiting| is_thread(waiting.0))?;
            state.begin_first_thread();
            Some((task, way))
        });
        *in_row = found.is_some();
        found
    }
}
