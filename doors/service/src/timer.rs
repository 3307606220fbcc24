//! The clock of a service: one thread that sleeps until the time of the next call is up.
//!
//! The thread starts with the first limit and is joined when the service is dropped. Only a limit earlier than all
//! others wakes it: a thread that drops a limit before its time takes it out itself.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Instant;

/// Calls functions when their time has come.
#[derive(Default)]
pub(crate) struct Timer(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// There is an earlier time, or the thread is to end.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The earliest first; limits of the same time in the order of their coming.
    due: BTreeMap<Due, Box<dyn FnOnce() + Send>>,
    next: u64,
    /// `None` before the first limit.
    thread: Option<JoinHandle<()>>,
    is_closing: bool,
}

type Due = (Instant, u64);

impl Timer {
    /// Has a function called on the timer's thread at this time, unless the result is dropped before. The function is
    /// short: all others wait for it.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn call_at(&self, time: Instant, function: impl FnOnce() + Send + 'static) -> io::Result<Timing> {
        let mut state = self.0.lock();
        if state.thread.is_none() {
            let shared = Arc::clone(&self.0);
            let thread = std::thread::Builder::new().name("vicus timer".to_owned()).spawn(move || shared.work())?;
            state.thread = Some(thread);
        }
        let due = (time, state.next);
        state.next += 1;
        state.due.insert(due, Box::new(function));
        let is_first = state.due.first_key_value().is_some_and(|(first, _)| *first == due);
        drop(state);
        if is_first {
            self.0.changed.notify_one();
        }
        Ok(Timing { shared: Arc::clone(&self.0), due })
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let thread = {
            let mut state = self.0.lock();
            state.is_closing = true;
            state.thread.take()
        };
        self.0.changed.notify_one();
        // The thread itself may drop the last owner, as a part of a request that it cancels; then it ends afterwards,
        // unjoined.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            thread.join().expect("panics of what it calls end there");
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    fn work(&self) {
        let mut state = self.lock();
        while !state.is_closing {
            let first = state.due.first_key_value().map(|((time, _), _)| *time);
            let left = first.map(|time| time.saturating_duration_since(Instant::now()));
            state = match left {
                None => self.changed.wait(state).expect("nothing panics under this lock"),
                Some(left) if !left.is_zero() => {
                    self.changed.wait_timeout(state, left).expect("nothing panics under this lock").0
                }
                Some(_) => {
                    let due = state.due.pop_first();
                    drop(state);
                    // Not under the lock: the function may drop other limits.
                    due.into_iter().for_each(|(_, function)| call(function));
                    self.lock()
                }
            };
        }
    }
}

/// A cancelled request may drop values of users, whose destructors may panic. All other limits hold nevertheless.
fn call(function: Box<dyn FnOnce() + Send>) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(function)) {
        // Its destructor may panic as well.
        std::mem::forget(panic);
    }
}

/// A limit as long as it holds.
pub(crate) struct Timing {
    shared: Arc<Shared>,
    due: Due,
}

impl Drop for Timing {
    fn drop(&mut self) {
        let function = self.shared.lock().due.remove(&self.due);
        // Not under the lock: it may be the last owner of a request.
        drop(function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn an_earlier_time_wakes_the_thread_that_sleeps_until_a_later_one() {
        let (timer, now) = (Timer::default(), Instant::now());
        let (send, receive) = mpsc::channel();
        let call = |time, name: &'static str| {
            let send = send.clone();
            timer.call_at(time, move || send.send(name).unwrap()).unwrap()
        };
        let _late = call(now + HOUR, "in an hour");
        let _soon = call(now + Duration::from_millis(20), "soon");
        assert_eq!(receive.recv(), Ok("soon"));
        let _past = call(now, "over already");
        assert_eq!(receive.recv(), Ok("over already"));
        assert!(receive.try_recv().is_err());
    }

    #[test]
    fn what_is_dropped_before_its_time_is_not_called_and_frees_what_it_owns() {
        let (timer, owned) = (Timer::default(), Arc::new(()));
        let limits: Vec<Timing> = (0..100)
            .map(|number| {
                let owned = Arc::clone(&owned);
                timer.call_at(Instant::now() + HOUR * (1 + number % 7), move || panic!("{owned:?}")).unwrap()
            })
            .collect();
        assert_eq!(Arc::strong_count(&owned), 101);
        drop(limits);
        assert_eq!(Arc::strong_count(&owned), 1);
        assert!(timer.0.lock().due.is_empty());
    }

    #[test]
    fn many_are_called_once_each_the_earlier_ones_first() {
        let timer = Timer::default();
        let (send, receive) = mpsc::channel();
        // Their times are over when the thread is let go, so it takes them in their order.
        let (gate, opens) = mpsc::channel();
        let begins = Instant::now();
        let _gate = timer.call_at(begins, move || opens_after(&send, &opens)).unwrap();
        let called = Arc::new(Mutex::new(Vec::new()));
        receive.recv().unwrap();
        let limits: Vec<Timing> = (0..1000u64)
            .map(|number| {
                let (called, after) = (Arc::clone(&called), number * 7919 % 1000);
                let time = begins + Duration::from_nanos(after);
                timer.call_at(time, move || called.lock().unwrap().push(after)).unwrap()
            })
            .collect();
        let (send_last, last) = mpsc::channel();
        let _last = timer.call_at(begins + Duration::from_millis(1), move || send_last.send(()).unwrap()).unwrap();
        gate.send(()).unwrap();
        last.recv().unwrap();
        assert_eq!(*called.lock().unwrap(), (0..1000).collect::<Vec<u64>>());
        drop(limits);
    }

    /// Reports the thread's arrival, and keeps it.
    fn opens_after(here: &mpsc::Sender<()>, opens: &mpsc::Receiver<()>) {
        here.send(()).unwrap();
        opens.recv().unwrap();
    }

    #[test]
    fn a_panic_of_one_function_keeps_no_other_from_being_called() {
        let timer = Timer::default();
        let (send, receive) = mpsc::channel();
        let _panics = timer.call_at(Instant::now(), || panic!("a user's destructor")).unwrap();
        let _next = timer.call_at(Instant::now(), move || send.send(()).unwrap()).unwrap();
        assert_eq!(receive.recv(), Ok(()));
    }

    #[test]
    fn dropping_it_joins_its_thread_and_without_limits_there_is_none() {
        let timer = Timer::default();
        assert!(timer.0.lock().thread.is_none());
        let limit = timer.call_at(Instant::now() + HOUR, || unreachable!("it is not waited for")).unwrap();
        let shared = Arc::downgrade(&timer.0);
        drop(timer);
        // Its thread had a reference, too.
        assert_eq!(shared.strong_count(), 1, "the limit's own");
        drop(limit);
        assert_eq!(shared.strong_count(), 0);
    }

    #[test]
    fn what_its_thread_drops_may_be_its_last_owner() {
        let timer = Arc::new(Timer::default());
        let (send, receive) = mpsc::channel();
        let (gate, opens) = mpsc::channel::<()>();
        let own = Arc::clone(&timer);
        let limit = timer.call_at(Instant::now(), move || {
            opens.recv().unwrap();
            drop(own);
            send.send(()).unwrap();
        });
        drop(timer);
        gate.send(()).unwrap();
        assert_eq!(receive.recv(), Ok(()));
        drop(limit);
    }
}
