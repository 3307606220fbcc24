//! The sleeping consumers of a distributed queue.

use crate::sync::Mutex;
use std::task::Waker;
use vicus_topology::LocationId;

/// Sleeping consumers in order of their arrival. The lock is only taken on the way to sleep, or to wake a sleeper.
#[derive(Debug)]
pub(crate) struct Sleepers(Mutex<List>);

#[derive(Debug, Default)]
struct List {
    waiting: Vec<Sleeper>,
    /// The next sleeper's number.
    next: u64,
}

#[derive(Debug)]
struct Sleeper {
    number: u64,
    location: LocationId,
    waker: Waker,
}

impl Sleepers {
    pub(crate) fn new() -> Sleepers {
        Sleepers(Mutex::new(List::default()))
    }

    fn with<R>(&self, f: impl FnOnce(&mut List) -> R) -> R {
        f(&mut self.0.lock().expect("nothing panics behind this lock"))
    }

    /// Adds one, and calls `count` before another thread can find it. Gives its number.
    pub(crate) fn add(&self, location: LocationId, waker: Waker, count: impl FnOnce()) -> u64 {
        self.with(|list| {
            let number = list.next;
            list.next += 1;
            list.waiting.push(Sleeper { number, location, waker });
            count();
            number
        })
    }

    /// Gives this sleeper a new waker, if it still sleeps. Whether it does.
    pub(crate) fn renew(&self, number: u64, waker: &Waker) -> bool {
        // The old waker is dropped outside of the lock: its drop may run the caller's code.
        let old = self.with(|list| {
            let sleeper = list.waiting.iter_mut().find(|sleeper| sleeper.number == number)?;
            let same = sleeper.waker.will_wake(waker);
            Some((!same).then(|| std::mem::replace(&mut sleeper.waker, waker.clone())))
        });
        old.is_some()
    }

    /// Takes this one out, if it still sleeps.
    pub(crate) fn remove(&self, number: u64, count: impl FnOnce()) -> bool {
        let removed = self.with(|list| {
            let at = list.waiting.iter().position(|sleeper| sleeper.number == number)?;
            count();
            Some(list.waiting.remove(at))
        });
        removed.is_some()
    }

    /// Takes one out: of the nearest ones, the longest asleep.
    pub(crate) fn take_nearest(&self, distance: impl Fn(LocationId) -> usize, count: impl FnOnce()) -> Option<Waker> {
        self.with(|list| {
            let sleepers = list.waiting.iter().enumerate();
            let (at, _) = sleepers.min_by_key(|(_, sleeper)| distance(sleeper.location))?;
            count();
            Some(list.waiting.remove(at).waker)
        })
    }

    /// Takes all out.
    pub(crate) fn take_all(&self, count: impl FnOnce(usize)) -> Vec<Waker> {
        self.with(|list| {
            count(list.waiting.len());
            list.waiting.drain(..).map(|sleeper| sleeper.waker).collect()
        })
    }
}
