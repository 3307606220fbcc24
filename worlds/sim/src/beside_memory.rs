//! A place for envelopes beside the memory of simulated requests: queues of bytes, as a world with files has files.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use vicus_flow::{BoxError, Overflow, Overflows};

/// Queues that hold so many bytes together, for requests that have used up their budget. What lies here takes no time.
///
/// ```
/// use vicus_flow::{Overflow, Overflows};
/// use vicus_sim::BesideMemory;
///
/// let beside = BesideMemory::within(5);
/// let mut queue = beside.begin()?;
/// queue.push(b"one")?;
/// assert!(queue.push(b"two").is_err());
/// let mut item = Vec::new();
/// assert!(queue.pop(&mut item)? && item == b"one" && !queue.pop(&mut item)?);
/// assert_eq!(beside.written(), 3);
/// # Ok::<(), vicus_flow::BoxError>(())
/// ```
#[derive(Debug)]
pub struct BesideMemory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    most: u64,
    /// The bytes that lie there.
    held: Mutex<u64>,
    written: AtomicU64,
}

impl Shared {
    fn held(&self) -> std::sync::MutexGuard<'_, u64> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BesideMemory {
    /// With room for so many bytes.
    pub fn within(most: u64) -> BesideMemory {
        BesideMemory { shared: Arc::new(Shared { most, held: Mutex::default(), written: AtomicU64::new(0) }) }
    }

    /// The bytes of all items so far.
    pub fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Relaxed)
    }
}

impl Overflows for BesideMemory {
    fn begin(&self) -> Result<Box<dyn Overflow>, BoxError> {
        Ok(Box::new(Queue { items: VecDeque::new(), shared: Arc::clone(&self.shared) }))
    }
}

struct Queue {
    items: VecDeque<Vec<u8>>,
    shared: Arc<Shared>,
}

impl Overflow for Queue {
    fn push(&mut self, bytes: &[u8]) -> Result<(), BoxError> {
        let mut held = self.shared.held();
        if *held + bytes.len() as u64 > self.shared.most {
            return Err(format!("{} bytes beside memory are used up", self.shared.most).into());
        }
        *held += bytes.len() as u64;
        self.shared.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.items.push_back(bytes.to_vec());
        Ok(())
    }

    fn pop(&mut self, into: &mut Vec<u8>) -> Result<bool, BoxError> {
        let first = self.items.pop_front();
        let is_there = first.is_some();
        *into = first.unwrap_or_default();
        *self.shared.held() -= into.len() as u64;
        Ok(is_there)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let left: usize = self.items.iter().map(Vec::len).sum();
        *self.shared.held() -= left as u64;
    }
}
