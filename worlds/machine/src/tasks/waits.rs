//! Which requests wait for which: a circle is reported instead of waited in.

use std::sync::Mutex;
use vicus_schedule::RequestId;

/// The requests of a runtime a task of which waits for another request, with that one. The wait counts as long as the waiting
/// task is on its thread's stack, so a request that waits can't end before the other.
#[derive(Default)]
pub(crate) struct Waits(Mutex<Vec<(RequestId, RequestId)>>);

impl Waits {
    /// These requests wait for another one as long as the result is held. Panics if that one waits for one of them.
    pub(crate) fn begin(&self, waiting: Vec<RequestId>, awaited: RequestId) -> Waiting<'_> {
        let mut pairs = self.0.lock().expect("nothing panics under this lock");
        let circle = circle(&pairs, &waiting, awaited);
        if circle.is_none() {
            pairs.extend(waiting.iter().map(|&request| (request, awaited)));
        }
        drop(pairs);
        if let Some(circle) = circle {
            let told: Vec<String> = circle.windows(2).map(|pair| format!("{} for {}", pair[0].0, pair[1].0)).collect();
            panic!("requests wait in a circle, so none of them would end: {}", told.join(", "));
        }
        Waiting { waits: self, waiting, awaited }
    }
}

/// A path from one of the waiting requests over the awaited one back to a waiting one.
fn circle(pairs: &[(RequestId, RequestId)], waiting: &[RequestId], awaited: RequestId) -> Option<Vec<RequestId>> {
    // Each with the one from which it was reached.
    let mut reached = vec![(awaited, 0)];
    let mut next = 0;
    while let Some(&(request, _)) = reached.get(next) {
        if waiting.contains(&request) {
            let mut way = vec![request];
            let mut at = next;
            while at > 0 {
                at = reached[at].1;
                way.push(reached[at].0);
            }
            way.push(request);
            way.reverse();
            return Some(way);
        }
        for &(from, to) in pairs {
            if from == request && reached.iter().all(|&(known, _)| known != to) {
                reached.push((to, next));
            }
        }
        next += 1;
    }
    None
}

/// A present wait.
pub(crate) struct Waiting<'a> {
    waits: &'a Waits,
    waiting: Vec<RequestId>,
    awaited: RequestId,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut pairs = self.waits.0.lock().expect("nothing panics under this lock");
        for request in &self.waiting {
            let at = pairs.iter().position(|pair| *pair == (*request, self.awaited));
            pairs.swap_remove(at.expect("it was added when the wait began"));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn ids<const N: usize>(numbers: [u64; N]) -> Vec<RequestId> {
        numbers.map(RequestId).into()
    }

    #[test]
    fn a_circle_is_told_with_the_requests_on_it() {
        let waits = Waits::default();
        let tells = |waiting, awaited| {
            let panic = catch_unwind(AssertUnwindSafe(|| drop(waits.begin(waiting, RequestId(awaited))))).err()?;
            Some(panic.downcast_ref::<String>()?.split_once("would end: ")?.1.to_owned())
        };
        assert_eq!(tells(ids([4]), 4).as_deref(), Some("4 for 4"));
        assert_eq!(tells(ids([1, 4]), 1).as_deref(), Some("1 for 1"), "beneath the one that waits");
        let first = waits.begin(ids([1, 2]), RequestId(3));
        let second = waits.begin(ids([3]), RequestId(4));
        let third = waits.begin(ids([3, 9]), RequestId(5));
        assert_eq!(tells(ids([4]), 1).as_deref(), Some("4 for 1, 1 for 3, 3 for 4"));
        assert_eq!(tells(ids([7, 5]), 2).as_deref(), Some("5 for 2, 2 for 3, 3 for 5"));
        assert_eq!(tells(ids([1]), 5), None, "several ways to the same end");
        assert_eq!(tells(ids([4]), 9).as_deref(), None, "9 waits for 5");
        drop(second);
        assert_eq!(tells(ids([4]), 1), None, "3 doesn't wait for it any more");
        drop((first, third));
        assert!(waits.0.lock().unwrap().is_empty());
    }
}
