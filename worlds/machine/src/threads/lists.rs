//! The lists in which waits for a word stand, under its stripe's lock.

use super::full_empty::Node;
use std::cell::Cell;
use std::ptr;

/// A wait's places in its list.
pub(super) struct Links {
    next: Cell<*const Node>,
    before: Cell<*const Node>,
    /// The run to which it belongs.
    run: u32,
    /// Of the first one of a run: the last one of it.
    run_last: Cell<*const Node>,
    /// Of the first one of a run: that of the next run.
    next_run: Cell<*const Node>,
}

/// The run of all that are served in the order in which they came.
pub(super) const IN_ORDER: u32 = u32::MAX;

impl Links {
    pub(super) fn new(run: u32) -> Links {
        let none = || Cell::new(ptr::null());
        Links { next: none(), before: none(), run, run_last: none(), next_run: none() }
    }
}

#[expect(unsafe_code, reason = "follows a pointer to a wait")]
fn node<'a>(node: *const Node) -> Option<&'a Node> {
    // SAFETY: waits stay in their frames while they are in a list, and until they are told that they are over; lists are used under the stripe's lock.
    unsafe { node.as_ref() }
}

/// Waits in the order in which they came.
#[derive(Clone, Copy)]
pub(super) struct List {
    first: *const Node,
    last: *const Node,
}

impl List {
    pub(super) const EMPTY: List = List { first: ptr::null(), last: ptr::null() };

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    pub(super) fn push(&mut self, new: &Node) {
        new.links.next.set(ptr::null());
        new.links.before.set(self.last);
        match node(self.last) {
            Some(last) => last.links.next.set(new),
            None => self.first = new,
        }
        self.last = new;
    }

    pub(super) fn pop(&mut self) -> Option<&'static Node> {
        let first = node(self.first)?;
        self.remove(first);
        Some(first)
    }

    /// Takes one out that is there.
    pub(super) fn remove(&mut self, gone: &Node) {
        let (before, next) = (gone.links.before.get(), gone.links.next.get());
        match node(before) {
            Some(earlier) => earlier.links.next.set(next),
            None => self.first = next,
        }
        match node(next) {
            Some(later) => later.links.before.set(before),
            None => self.last = before,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Node> {
        std::iter::successors(node(self.first), |before| node(before.links.next.get()))
    }
}

/// So many waits of a run are served before another run has its turn.
pub(super) const TURN: u8 = 64;

/// So many runs are looked at for that of a new wait.
const LOOKS: usize = 8;

/// Waits in runs: those of a run in the order in which they came, and one run after the other, each for a turn at most.
///
/// Waits for locks have a run for each seat, so a lock goes from thread to thread of one seat, and to another seat once in a turn: there its lines are in
/// another cache, and the thread's worker has to be told (Dice, Marathe, Shavit, Lock Cohorting, PPoPP 2012). All other waits are of one run.
#[derive(Clone, Copy)]
pub(super) struct Runs {
    /// The first ones of the first and the last run.
    first: *const Node,
    last: *const Node,
}

impl Runs {
    pub(super) const EMPTY: Runs = Runs { first: ptr::null(), last: ptr::null() };

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    fn heads(&self) -> impl Iterator<Item = &'static Node> + use<> {
        std::iter::successors(node(self.first), |head| node(head.links.next_run.get()))
    }

    pub(super) fn push(&mut self, new: &Node) {
        new.links.next.set(ptr::null());
        let is_own = |head: &&Node| head.links.run == new.links.run;
        // With more seats than that, one has several runs: the last one has the latest.
        let own = node(self.last).filter(is_own).or_else(|| self.heads().take(LOOKS).find(is_own));
        if let Some(head) = own {
            let last = head.links.run_last.replace(new);
            new.links.before.set(last);
            node(last).expect("a run has a last one").links.next.set(new);
            return;
        }
        new.links.before.set(ptr::null());
        new.links.run_last.set(new);
        self.push_run(new);
    }

    fn push_run(&mut self, head: &Node) {
        head.links.next_run.set(ptr::null());
        match node(self.last) {
            Some(last) => last.links.next_run.set(head),
            None => self.first = head,
        }
        self.last = head;
    }

    /// The next one. `served`: how many of the first run were served since its turn began.
    pub(super) fn pop(&mut self, served: &mut u8) -> Option<&'static Node> {
        let mut head = node(self.first)?;
        if *served >= TURN {
            *served = 0;
            if let Some(next) = node(head.links.next_run.get()) {
                self.first = next;
                self.push_run(head);
                head = next;
            }
        }
        *served = if head.links.next.get().is_null() { 0 } else { *served + 1 };
        self.remove(head);
        Some(head)
    }

    /// Takes one out that is there.
    pub(super) fn remove(&mut self, gone: &Node) {
        let (before, next) = (node(gone.links.before.get()), node(gone.links.next.get()));
        if let Some(later) = next {
            later.links.before.set(gone.links.before.get());
        }
        if let Some(earlier) = before {
            earlier.links.next.set(gone.links.next.get());
            if next.is_none() {
                let head = std::iter::successors(before, |at| node(at.links.before.get())).last();
                head.expect("it is not the first one of its run").links.run_last.set(earlier);
            }
            return;
        }
        let next_run = match next {
            Some(head) => {
                head.links.run_last.set(gone.links.run_last.get());
                head.links.next_run.set(gone.links.next_run.get());
                ptr::from_ref(head)
            }
            None => gone.links.next_run.get(),
        };
        let earlier = if ptr::eq(self.first, gone) {
            self.first = next_run;
            None
        } else {
            let earlier = self.heads().find(|head| ptr::eq(head.links.next_run.get(), gone));
            earlier.inspect(|earlier| earlier.links.next_run.set(next_run))
        };
        if ptr::eq(self.last, gone) {
            self.last = next.or(earlier).map_or(ptr::null(), ptr::from_ref);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.heads().flat_map(|head| std::iter::successors(Some(head), |before| node(before.links.next.get())))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::full_empty::Operation;
    use super::*;
    use std::collections::VecDeque;

    /// Waits of up to four seats, pushed, served and withdrawn by chance, against lists of numbers.
    #[test]
    fn runs_have_turns_and_each_is_served_in_order() {
        for seed in 0..300_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut next = move |below: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state % below) as usize
            };
            let seats = 1 + next(4) as u64;
            let nodes: Vec<Node> = (0..2000)
                .map(|_| Node::in_run([next(seats) as u32, IN_ORDER][usize::from(next(8) == 0)], Operation::Lock))
                .collect();
            let run = |number: usize| nodes[number].links.run;
            let (mut runs, mut served) = (Runs::EMPTY, 0);
            let mut model: VecDeque<VecDeque<usize>> = VecDeque::new();
            let mut turn = 0;
            for new in 0..nodes.len() {
                runs.push(&nodes[new]);
                match model.iter_mut().find(|numbers| run(numbers[0]) == run(new)) {
                    Some(numbers) => numbers.push_back(new),
                    None => model.push_back([new].into()),
                }
                // Lists grow and shrink.
                for _ in 0..next(if new / 200 % 2 == 0 { 2 } else { 4 }) {
                    let all: Vec<usize> = model.iter().flatten().copied().collect();
                    assert!(
                        runs.iter().map(ptr::from_ref).eq(all.iter().map(|&at| ptr::from_ref(&nodes[at]))),
                        "seed {seed}"
                    );
                    if all.is_empty() {
                        assert!(runs.is_empty() && runs.pop(&mut served).is_none(), "seed {seed}");
                        continue;
                    }
                    let gone = if next(10) == 0 {
                        let gone = all[next(all.len() as u64)];
                        runs.remove(&nodes[gone]);
                        gone
                    } else {
                        if turn == TURN {
                            turn = 0;
                            model.rotate_left(1);
                        }
                        let expected = model[0][0];
                        turn = if model[0].len() == 1 { 0 } else { turn + 1 };
                        let popped = runs.pop(&mut served).map(ptr::from_ref);
                        assert_eq!(popped, Some(ptr::from_ref(&nodes[expected])), "seed {seed}");
                        expected
                    };
                    model.iter_mut().for_each(|numbers| numbers.retain(|&number| number != gone));
                    model.retain(|numbers| !numbers.is_empty());
                }
            }
        }
    }

    #[test]
    fn a_seat_beyond_those_that_are_looked_at_begins_a_run() {
        let seats = 2 * LOOKS as u32;
        let nodes: Vec<Node> = (0..3 * seats).map(|number| Node::in_run(number % seats, Operation::Lock)).collect();
        let (mut runs, mut served) = (Runs::EMPTY, 0);
        nodes.iter().for_each(|node| runs.push(node));
        let mut of_seat = vec![Vec::new(); seats as usize];
        let mut all = 0;
        while let Some(node) = runs.pop(&mut served) {
            of_seat[node.links.run as usize].push(ptr::from_ref(node));
            all += 1;
        }
        assert_eq!(all, nodes.len());
        for (seat, mut found) in of_seat.into_iter().enumerate() {
            let own = nodes.iter().skip(seat).step_by(seats as usize).map(ptr::from_ref);
            assert!(found.iter().copied().eq(own), "seat {seat}: each seat's come in their order");
            found.clear();
        }
    }
}
