//! The lists of waits for a word, under its stripe's lock.

use super::full_empty::Node;
use std::cell::Cell;
use std::ptr;

/// A wait's places in its list.
pub(crate) struct Links {
    next: Cell<Link>,
    before: Cell<Link>,
    /// Its run.
    run: u32,
    /// On the first one of a run: how many of the run were served since its turn began.
    served: Cell<u8>,
    /// On the first one of a run: the run's last one.
    run_last: Cell<Link>,
    /// On the first one of a run: the first one of the next run.
    next_run: Cell<Link>,
}

/// The run of all waits served in order of arrival.
pub(crate) const IN_ORDER: u32 = u32::MAX;

impl Links {
    pub(crate) fn new(run: u32) -> Links {
        let none = || Cell::new(Link::NONE);
        Links { next: none(), before: none(), run, served: Cell::new(0), run_last: none(), next_run: none() }
    }
}

/// A wait in a list, or none. Invariant: it is followed under the stripe's lock while the wait is in a list, or by the
/// thread that has taken it out, before this thread tells the wait its end.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Link(*const Node);

impl Link {
    const NONE: Link = Link(ptr::null());

    fn to(node: &Node) -> Link {
        Link(node)
    }

    fn get(self) -> Option<&'static Node> {
        #[expect(unsafe_code, reason = "follows a pointer to a wait")]
        // SAFETY: by the invariant it stays in its frame.
        unsafe {
            self.0.as_ref()
        }
    }
}

/// Waits in order of arrival.
#[derive(Clone, Copy)]
pub(crate) struct List {
    first: Link,
    last: Link,
}

impl List {
    pub(crate) const EMPTY: List = List { first: Link::NONE, last: Link::NONE };

    pub(crate) fn is_empty(&self) -> bool {
        self.first == Link::NONE
    }

    pub(crate) fn push(&mut self, new: &Node) {
        new.links.next.set(Link::NONE);
        new.links.before.set(self.last);
        match self.last.get() {
            Some(last) => last.links.next.set(Link::to(new)),
            None => self.first = Link::to(new),
        }
        self.last = Link::to(new);
    }

    pub(crate) fn pop(&mut self) -> Option<&'static Node> {
        let first = self.first.get()?;
        self.remove(first);
        Some(first)
    }

    /// Takes a present one out.
    pub(crate) fn remove(&mut self, gone: &Node) {
        let (before, next) = (gone.links.before.get(), gone.links.next.get());
        match before.get() {
            Some(earlier) => earlier.links.next.set(next),
            None => self.first = next,
        }
        match next.get() {
            Some(later) => later.links.before.set(before),
            None => self.last = before,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Node> {
        std::iter::successors(self.first.get(), |before| before.links.next.get().get())
    }
}

/// So many waits of a run are served before another run has its turn.
pub(crate) const TURN: u8 = 64;

/// So many runs have the waits for locks: each is looked at when one more waits.
const RUNS: usize = 7;

/// The run of the waits for locks on this seat, given the number of seats. Neighbouring seats are near each other, and
/// share a run if there are more than [`RUNS`].
pub(crate) fn run_of_seat(seat: usize, seats: usize) -> u32 {
    (seat * RUNS.min(seats) / seats) as u32
}

/// Waits in runs: those of a run in order of arrival, and one run after the other, each for a turn at most.
///
/// Waits for locks have a run for each seat, or each few seats, so a lock goes from thread to thread of one
/// neighbourhood, and to another one once in a turn: there its lines are in another cache, and the thread's worker has
/// to be told (Dice, Marathe, Shavit, Lock Cohorting, PPoPP 2012). All other waits are of one run.
#[derive(Clone, Copy)]
pub(crate) struct Runs {
    /// The first ones of the first and the last run.
    first: Link,
    last: Link,
}

impl Runs {
    pub(crate) const EMPTY: Runs = Runs { first: Link::NONE, last: Link::NONE };

    pub(crate) fn is_empty(&self) -> bool {
        self.first == Link::NONE
    }

    fn heads(&self) -> impl Iterator<Item = &'static Node> + use<> {
        std::iter::successors(self.first.get(), |head| head.links.next_run.get().get())
    }

    pub(crate) fn push(&mut self, new: &Node) {
        new.links.next.set(Link::NONE);
        if let Some(head) = self.heads().find(|head| head.links.run == new.links.run) {
            let last = head.links.run_last.replace(Link::to(new));
            new.links.before.set(last);
            last.get().expect("a run has a last one").links.next.set(Link::to(new));
            return;
        }
        new.links.before.set(Link::NONE);
        new.links.run_last.set(Link::to(new));
        self.push_run(new);
    }

    /// A former first one, now in no list, becomes the first one again: of its run, or of all.
    pub(crate) fn push_first(&mut self, new: &Node) {
        let links = &new.links;
        links.before.set(Link::NONE);
        let mut earlier = None;
        for head in self.heads() {
            if head.links.run == links.run {
                head.links.before.set(Link::to(new));
                links.next.set(Link::to(head));
                links.served.set(head.links.served.get());
                links.run_last.set(head.links.run_last.get());
                self.put_head(earlier, head.links.next_run.get(), new);
                return;
            }
            earlier = Some(head);
        }
        links.next.set(Link::NONE);
        links.run_last.set(Link::to(new));
        self.put_head(None, self.first, new);
    }

    /// Puts the first one of a run between those of others.
    fn put_head(&mut self, earlier: Option<&Node>, later: Link, new: &Node) {
        new.links.next_run.set(later);
        match earlier {
            Some(earlier) => earlier.links.next_run.set(Link::to(new)),
            None => self.first = Link::to(new),
        }
        if later == Link::NONE {
            self.last = Link::to(new);
        }
    }

    /// A run whose turn begins when it is the first one.
    fn push_run(&mut self, head: &Node) {
        head.links.served.set(0);
        self.put_head(self.last.get(), Link::NONE, head);
    }

    /// The next one, as long as no more come.
    pub(crate) fn first(&self) -> Option<&'static Node> {
        let head = self.first.get()?;
        let next_run = if head.links.served.get() == TURN { head.links.next_run.get().get() } else { None };
        Some(next_run.unwrap_or(head))
    }

    pub(crate) fn pop(&mut self) -> Option<&'static Node> {
        let mut head = self.first.get()?;
        if head.links.served.get() == TURN {
            self.first = head.links.next_run.get();
            if self.is_empty() {
                self.last = Link::NONE;
            }
            self.push_run(head);
            head = self.first.get()?;
        }
        head.links.served.set(head.links.served.get() + 1);
        self.remove(head);
        Some(head)
    }

    /// Takes a present one out.
    pub(crate) fn remove(&mut self, gone: &Node) {
        let (before, next) = (gone.links.before.get().get(), gone.links.next.get().get());
        if let Some(later) = next {
            later.links.before.set(gone.links.before.get());
        }
        if let Some(earlier) = before {
            earlier.links.next.set(gone.links.next.get());
            if next.is_none() {
                let head = std::iter::successors(before, |at| at.links.before.get().get()).last();
                head.expect("it is not the first one of its run").links.run_last.set(Link::to(earlier));
            }
            return;
        }
        let next_run = match next {
            Some(head) => {
                head.links.served.set(gone.links.served.get());
                head.links.run_last.set(gone.links.run_last.get());
                head.links.next_run.set(gone.links.next_run.get());
                Link::to(head)
            }
            None => gone.links.next_run.get(),
        };
        let earlier = if self.first == Link::to(gone) {
            self.first = next_run;
            None
        } else {
            let earlier = self.heads().find(|head| head.links.next_run.get() == Link::to(gone));
            earlier.inspect(|earlier| earlier.links.next_run.set(next_run))
        };
        if self.last == Link::to(gone) {
            self.last = next.or(earlier).map_or(Link::NONE, Link::to);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.heads().flat_map(|head| std::iter::successors(Some(head), |before| before.links.next.get().get()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::full_empty::Operation;
    use super::super::numbers_by_chance;
    use super::*;
    use std::collections::VecDeque;

    /// Waits of up to twenty seats, pushed, served and withdrawn by chance, against lists of numbers.
    #[test]
    fn runs_have_turns_and_each_is_served_in_order() {
        for seed in 0..300_u64 {
            let mut chance = numbers_by_chance(seed);
            let mut next = |below: u64| chance(below) as usize;
            let seats = 1 + next(20);
            let nodes: Vec<Node> = (0..2000)
                .map(|_| {
                    let of_seat = run_of_seat(next(seats as u64), seats);
                    Node::in_run([of_seat, IN_ORDER][usize::from(next(8) == 0)], Operation::Lock)
                })
                .collect();
            let run = |number: usize| nodes[number].links.run;
            let mut runs = Runs::EMPTY;
            // Runs, and how many of the first one were served in its turn.
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
                        assert!(runs.is_empty() && runs.pop().is_none(), "seed {seed}");
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
                        turn += 1;
                        assert_eq!(
                            runs.first().map(ptr::from_ref),
                            Some(ptr::from_ref(&nodes[expected])),
                            "seed {seed}"
                        );
                        let popped = runs.pop().map(ptr::from_ref);
                        assert_eq!(popped, Some(ptr::from_ref(&nodes[expected])), "seed {seed}");
                        if next(4) == 0 {
                            // It comes back. Its turn goes on.
                            runs.push_first(&nodes[expected]);
                            continue;
                        }
                        expected
                    };
                    if model[0] == [gone] {
                        turn = 0;
                    }
                    model.iter_mut().for_each(|numbers| numbers.retain(|&number| number != gone));
                    model.retain(|numbers| !numbers.is_empty());
                }
            }
        }
    }

    #[test]
    fn seats_share_few_runs_with_their_neighbours() {
        for seats in 1..200 {
            let runs: Vec<u32> = (0..seats).map(|seat| run_of_seat(seat, seats)).collect();
            assert!(runs.is_sorted() && runs[0] == 0, "{runs:?}");
            let sizes: Vec<usize> = runs.chunk_by(|a, b| a == b).map(<[u32]>::len).collect();
            assert_eq!(sizes.len(), seats.min(RUNS), "{runs:?}");
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{runs:?}");
        }
    }
}
