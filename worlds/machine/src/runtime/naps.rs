//! Naps before a long sleep: memory goes back meanwhile.

use crate::memory::heaps;
use std::time::Duration;

/// A thread woken within this time keeps its superblocks: giving them up and taking them again costs more than a small
/// query's rows.
const NAP: Duration = Duration::from_millis(10);

/// Before this seat's thread sleeps for good: naps, after which its heap gives up free superblocks, and later the pages
/// of free blocks. `nap` says why it ended early; then the caller calls [`heaps::put_down`].
pub(crate) fn nap_before_sleep<W>(give_back: impl Fn(), mut nap: impl FnMut(Duration) -> Option<W>) -> Option<W> {
    if let Some(woken) = nap(NAP) {
        return Some(woken);
    }
    heaps::trim();
    while let Some(decay) = heaps::look_after() {
        while heaps::give_back() {
            // Other threads want the node's lock as well, and it is not fair.
            if let Some(woken) = nap(Duration::from_millis(1)) {
                return Some(woken);
            }
        }
        if let Some(woken) = nap(decay) {
            return Some(woken);
        }
        heaps::tick();
        while heaps::give_back_some_pages() {
            // A task for this seat waits for one step, not for all of its memory.
            if let Some(woken) = nap(Duration::from_millis(1)) {
                return Some(woken);
            }
        }
        give_back();
        if !heaps::leave_off() {
            break;
        }
    }
    None
}
