//! A thread's wait for a future.

use crate::threads::fibres::{self, Fibre};
use crate::threads::here::unwind_if_told;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};

/// Waits until a future is ready, such as an element of a queue. A lightweight thread ([`threads`](crate)) is
/// suspended meanwhile; any other code blocks its thread. A box calls it in `Turn::blocking`, so that its neighbourhood
/// gets another thread meanwhile.
///
/// ```
/// use vicus_machine::this_machine;
/// use vicus_threads::block_on;
/// use vicus_memory::{Closed, DistQueue};
///
/// let topology = this_machine().topology;
/// let (queue, node) = (DistQueue::new(&topology), topology.nodes[0].id);
/// std::thread::scope(|scope| {
///     let consumer = scope.spawn(|| (block_on(queue.pop(node)), block_on(queue.pop(node))));
///     queue.push(node, 7).unwrap();
///     queue.close();
///     assert_eq!(consumer.join().unwrap(), (Ok(7), Err(Closed)));
/// });
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    let future = pin!(future);
    match fibres::current() {
        Some(fibre) => suspend_on(fibre, future),
        None => park_on(future),
    }
}

fn park_on<F: Future>(mut future: Pin<&mut F>) -> F::Output {
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            // A wake before this call is kept; a spurious one costs a poll.
            Poll::Pending => thread::park(),
        }
    }
}

fn suspend_on<F: Future>(fibre: &'static Fibre, mut future: Pin<&mut F>) -> F::Output {
    let woken = Arc::new(WakeFibre { fibre, is_woken: AtomicBool::new(false) });
    let waker = Arc::clone(&woken).into();
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            // The fibre may be woken for something else, also within the poll.
            Poll::Pending => {
                while !woken.is_woken.swap(false, Ordering::AcqRel) {
                    fibre.suspend();
                    unwind_if_told();
                }
            }
        }
    }
}

struct WakeFibre {
    fibre: &'static Fibre,
    is_woken: AtomicBool,
}

impl Wake for WakeFibre {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: the poll sees the writes before the wake.
        self.is_woken.store(true, Ordering::Release);
        self.fibre.wake();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
