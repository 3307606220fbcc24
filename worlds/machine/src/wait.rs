//! A thread that waits for a future.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};

/// Blocks the calling thread until a future is ready, such as an element of a queue. A box calls it in `Turn::blocking`, so that
/// its neighbourhood gets another thread meanwhile.
///
/// ```
/// use vicus_machine::{block_on, this_machine};
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
    let waker = Arc::new(Unpark(thread::current())).into();
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            // A wake before this call is kept; a spurious one costs a poll.
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
