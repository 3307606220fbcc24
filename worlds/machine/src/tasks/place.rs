//! Tasks sent to a place: the check of the place.

use crate::runtime::handle::MachineRuntime;
use crate::runtime::worker::{is_seated, with_shared};
use vicus_topology::Place;

/// Called before the task is made, since its context would wait for it.
///
/// # Panics
/// If the machine of the calling thread's runtime has no such place, with its name and how many there are.
pub(super) fn assert_known(place: Place) {
    if is_seated() {
        with_shared(|shared| shared.topology().node_of(place));
    } else {
        MachineRuntime::of_this_thread().topology().node_of(place);
    }
}
