//! In debug builds, checks for allocated memory behind tasks' declared addresses: at the declaration, and again right
//! before they run. In release builds, nothing.

#[cfg(debug_assertions)]
use crate::memory::locality;
#[cfg(debug_assertions)]
use std::panic::Location;
use vicus_schedule::Access;

/// The accesses declared by address, with the place in the program: the compiler does not check the memory's lifetime
/// until the task runs.
#[derive(Clone, Debug, Default)]
pub(super) struct ByAddress {
    #[cfg(debug_assertions)]
    said: Vec<(Access, &'static Location<'static>)>,
}

#[cfg(debug_assertions)]
impl ByAddress {
    /// Adds accesses. Panics if some of the memory was freed.
    #[track_caller]
    pub(super) fn say(&mut self, accesses: &[Access]) {
        let place = Location::caller();
        let said = accesses.iter().map(|&access| (access, place));
        said.clone().for_each(|(access, place)| must_be_alive(access, place, "was described"));
        self.said.extend(said);
    }

    /// The task is about to run: panics if some of the memory was freed since.
    pub(super) fn check(self) {
        self.said.into_iter().for_each(|(access, place)| must_be_alive(access, place, "was to run"));
    }
}

#[cfg(not(debug_assertions))]
impl ByAddress {
    #[inline(always)]
    pub(super) fn say(&mut self, _accesses: &[Access]) {}

    #[inline(always)]
    pub(super) fn check(self) {}
}

const _: () = assert!(cfg!(debug_assertions) || size_of::<ByAddress>() == 0, "a task has no more to carry");

/// Panics if the address is in this library's memory and not in use.
#[cfg(debug_assertions)]
#[track_caller]
fn must_be_alive(access: Access, place: &Location<'_>, when: &str) {
    for stretch in access.stretches() {
        if let Some(freed) = locality::freed_in(stretch) {
            panic!(
                "a task says that it uses {access:?}, but when it {when}, {freed:#x} was freed, or never allocated: \
                    expected \
                 memory that lives until the task is over; described at {place}"
            );
        }
    }
}
