//! Gives small blocks freed by requests back to the system, and drops replaced data.
//!
//! The allocator of large blocks gives back unused memory by itself, and a seat after a long sleep the free pages of
//! its heap; the threads of the network are told to do so here. glibc's malloc, which has the small blocks, keeps them:
//! after a document of a million nested elements, hundreds of MiB. It is asked to give them back a second after
//! requests with much memory have ended, and some seconds after any others. Meanwhile threads may wait for small
//! blocks, so this takes a fiftieth of the time at most.

use crate::shared::Shared;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use vicus::kit::{give_back_own_blocks, give_back_small_blocks};
use vicus_service::EndedCalls;

/// How often it is looked whether requests have ended.
const PAUSE: Duration = Duration::from_secs(1);

/// The least bytes of ended requests worth an immediate trim.
const MUCH: u64 = 16 << 20;

/// After this number of pauses the trim is done even if requests have held little.
const PAUSES: u32 = 10;

/// This part of the time at most.
const PART: u32 = 50;

/// When a trim is due, from the requests ended so far.
#[derive(Default)]
struct Due {
    /// The requests ended at the last trim.
    before: EndedCalls,
    /// How many pauses ago.
    pauses: u32,
    /// One more trim after requests have ended: the rest of the data merged by them goes later.
    again: bool,
}

impl Due {
    /// Whether it is to be done now, after a pause.
    fn now(&mut self, ended: EndedCalls) -> bool {
        self.pauses = self.pauses.saturating_add(1);
        let has_ended = ended != self.before;
        let is_due = ended.bytes - self.before.bytes >= MUCH || self.pauses >= PAUSES && (has_ended || self.again);
        if is_due {
            *self = Due { before: ended, pauses: 0, again: has_ended };
        }
        is_due
    }
}

/// Until the server ends.
pub(crate) async fn trim(shared: Arc<Shared>) {
    let mut due = Due::default();
    loop {
        tokio::time::sleep(PAUSE).await;
        // Merging changes the data of a store without a request.
        if !due.now(shared.service.memory().ended()) && !shared.may_hold_replaced_data() {
            continue;
        }
        let began = Instant::now();
        // A thread of the network has other things to do.
        let data = Arc::clone(&shared);
        let network = Handle::current();
        let give_back = move || {
            data.drop_replaced_data();
            give_back_of(&network);
            give_back_own_blocks();
            give_back_small_blocks();
        };
        if tokio::task::spawn_blocking(give_back).await.is_err() {
            return;
        }
        tokio::time::sleep((began.elapsed() * PART).saturating_sub(PAUSE)).await;
    }
}

/// Each thread of the network gives back the free memory of its own heap. A thread that has done so stays busy for a
/// moment, so that the others wake for the next tasks; one that is busy with something else meanwhile does it the next
/// time.
fn give_back_of(network: &Handle) {
    let threads = network.metrics().num_workers();
    for _ in 0..threads {
        network.spawn(async move {
            give_back_own_blocks();
            if threads > 1 {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_held_much_is_followed_at_once_and_other_requests_twice_after_a_while() {
        let mut due = Due::default();
        let mut after = |calls, bytes| due.now(EndedCalls { calls, bytes });
        assert!((0..100).all(|_| !after(0, 0)), "no request has ended");
        assert!(after(1, MUCH));
        let mut after_pauses = |calls, bytes| (1..=40).filter(|_| after(calls, bytes)).count();
        assert_eq!(after_pauses(1, MUCH), 1, "once more");
        assert_eq!(after_pauses(900, MUCH + 1), 2);
        assert_eq!(after_pauses(900, MUCH + 1), 0);
    }

    #[test]
    fn requests_that_go_on_and_hold_little_are_followed_now_and_then() {
        let mut due = Due::default();
        let count = (1..=100).filter(|&calls| due.now(EndedCalls { calls, bytes: calls })).count();
        assert_eq!(count as u32, 100 / PAUSES);
    }
}
