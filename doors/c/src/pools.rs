//! Pools of items of one size, near their takers.

use crate::error::{Failure, Outcome, guard, guard_or, status};
use crate::memory::{at, layout};
use crate::runtime::{Threads, threads};
use crate::text::{free, give, handle, handle_mut, output};
use crate::topology::vicus_place;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use vicus::kit::{UntypedHandle, UntypedPool};
use vicus::memory::PoolOptions;
use vicus::memory::pool::Frees;
use vicus::{NodeId, Topology};

/// A pool, and its machine.
pub(crate) struct Pool {
    pool: Arc<UntypedPool>,
    machine: Topology,
}

fn item(item: *mut c_void) -> Outcome<NonNull<u8>> {
    NonNull::new(item.cast()).ok_or_else(|| Failure::argument("`item` is null"))
}

/// # Safety
/// Rules "Handles" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_pool_new(
    runtime: *const Threads,
    bytes: usize,
    alignment: usize,
    frees_home: i32,
    pool: *mut *mut Pool,
) -> i32 {
    guard(|| {
        crate::version::is_right()?;
        let out = output(pool, "pool")?;
        let layout = layout(bytes, if alignment == 0 { align_of::<u128>() } else { alignment })?;
        // SAFETY: rule "Handles".
        let threads = unsafe { threads(runtime) }?;
        let none = || Failure::new(status::NO_MEMORY, "the system has no addresses for memory on nodes");
        let memory = threads.runtime().memory().ok_or_else(none)?;
        let frees = if frees_home == 0 { Frees::Here } else { Frees::Home };
        let options = PoolOptions { frees, ..PoolOptions::default() };
        let made = UntypedPool::new(memory, layout, options).map_err(Failure::argument)?;
        let machine = threads.runtime().topology().clone();
        // SAFETY: rule "Outputs".
        unsafe { give(out, Pool { pool: Arc::new(made), machine }) };
        Ok(())
    })
}

/// # Safety
/// Rules "Handles" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_pool_handle_new(
    pool: *const Pool,
    place: vicus_place,
    made: *mut *mut UntypedHandle,
) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        let Pool { pool, machine } = unsafe { handle(pool, "pool") }?;
        let out = output(made, "made")?;
        let place = at(place, machine)?;
        // SAFETY: rule "Outputs".
        unsafe { give(out, pool.handle(place)) };
        Ok(())
    })
}

/// # Safety
/// Rules "Handles" and "Outputs"; no other thread uses the handle during the call.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_pool_take(handle: *mut UntypedHandle, item: *mut *mut c_void) -> i32 {
    guard(|| {
        let out = output(item, "item")?;
        // SAFETY: rule "Handles".
        let taken = unsafe { handle_mut(handle, "handle") }?.take();
        let taken = taken.map_err(|error| Failure::new(status::NO_MEMORY, error))?;
        // SAFETY: rule "Outputs".
        unsafe { out.write(taken.as_ptr().cast()) };
        Ok(())
    })
}

/// # Safety
/// Rule "Handles"; no other thread uses the handle during the call. The item was taken from a handle of the same pool,
/// and is not used any more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_pool_give(handle: *mut UntypedHandle, item: *mut c_void) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        let handle = unsafe { handle_mut(handle, "handle") }?;
        let item = known(handle.pool(), self::item(item)?)?;
        // SAFETY: the caller's promise.
        unsafe { handle.give(item) };
        Ok(())
    })
}

/// # Safety
/// Rule "Handles". The item was taken from a handle of this pool, and is not used any more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_pool_give_back(pool: *const Pool, item: *mut c_void) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        let Pool { pool, .. } = unsafe { handle(pool, "pool") }?;
        let item = known(pool, self::item(item)?)?;
        // SAFETY: the caller's promise.
        unsafe { pool.give(item) };
        Ok(())
    })
}

/// An item that may be of this pool: memory of another kind is told from it, items of another pool are not.
fn known(pool: &UntypedPool, item: NonNull<u8>) -> Outcome<NonNull<u8>> {
    let is_placed = pool.node_of(item).is_some();
    if is_placed { Ok(item) } else { Err(Failure::argument(format_args!("{item:p} is no item of a pool"))) }
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_pool_node(handle: *const UntypedHandle) -> i32 {
    // SAFETY: rule "Handles".
    guard_or(-1, || unsafe { handle.as_ref() }.map(UntypedHandle::node).map_or(-1, |node: NodeId| node.index() as i32))
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_pool_handle_free(handle: *mut UntypedHandle) {
    // SAFETY: rule "Handles".
    guard_or((), || unsafe { free(handle) });
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_pool_free(pool: *mut Pool) {
    // SAFETY: rule "Handles".
    guard_or((), || unsafe { free(pool) });
}
