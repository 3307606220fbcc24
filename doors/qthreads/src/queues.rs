//! Queues of pointers: without a lock, over the shepherds, and between two threads.

use crate::codes::{BADARGS, MALLOC_ERROR, OPFAIL, SUCCESS};
use crate::exports;
use crate::library::{self, Shepherd};
use crate::object::Object;
use crate::ring::Ring;
use std::ptr;
use std::sync::Arc;
use vicus::NodeId;
use vicus::kit::team;
use vicus::kit::{DistOptions, Locations, SystemSegments};
use vicus::memory::{DistQueue, LfQueue};

/// An element: a non-null pointer.
fn element(pointer: *mut libc::c_void) -> Option<usize> {
    (!pointer.is_null()).then(|| pointer.expose_provenance())
}

fn pointer(element: Option<usize>) -> *mut libc::c_void {
    element.map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut)
}

/// The place of a shepherd in a distributed queue; each of its locations is a shepherd.
fn place(shepherd: u16) -> NodeId {
    NodeId::new(shepherd.into())
}

/// The calling thread's place; the first shepherd's for threads from outside.
fn here(library: &library::Library) -> NodeId {
    place(library.worker().map_or(0, |worker| worker.shepherd))
}

fn destroy<T>(queue: Object<T>) -> i32 {
    if queue.end().is_some() { SUCCESS } else { BADARGS }
}

exports! {
    fn qlfqueue_create() -> *mut LfQueue<usize> {
        Box::into_raw(Box::new(LfQueue::new()))
    }

    fn qlfqueue_destroy(queue: Object<LfQueue<usize>>) -> i32 {
        destroy(queue)
    }

    fn qlfqueue_enqueue(queue: Object<LfQueue<usize>>, value: *mut libc::c_void) -> i32 {
        let (Some(queue), Some(element)) = (queue.get(), element(value)) else { return BADARGS };
        if queue.try_push(element).is_ok() { SUCCESS } else { MALLOC_ERROR }
    }

    fn qlfqueue_dequeue(queue: Object<LfQueue<usize>>) -> *mut libc::c_void {
        pointer(queue.get().and_then(LfQueue::pop))
    }

    fn qlfqueue_empty(queue: Object<LfQueue<usize>>) -> i32 {
        queue.get().map_or(BADARGS, |queue| i32::from(queue.is_empty()))
    }

    fn qdqueue_create() -> *mut DistQueue<usize> {
        let Some(library) = library::get() else { return ptr::null_mut() };
        // A location for each shepherd, as Qthreads has it, and not for each cache: two threads on one cache would
        // hinder each other.
        let row = |from: &Shepherd| from.distances.iter().map(|&far| u32::try_from(far).unwrap_or(0)).collect();
        let distances = library.shepherds.iter().map(row).collect();
        let Ok(locations) = Locations::from_distances(distances) else { return ptr::null_mut() };
        match DistQueue::with_source(&locations, &DistOptions::default(), |_| Arc::new(SystemSegments)) {
            Ok(queue) => Box::into_raw(Box::new(queue)),
            Err(_) => ptr::null_mut(),
        }
    }

    fn qdqueue_destroy(queue: Object<DistQueue<usize>>) -> i32 {
        destroy(queue)
    }

    fn qdqueue_enqueue(queue: Object<DistQueue<usize>>, value: *mut libc::c_void) -> i32 {
        let (Some(queue), Some(element)) = (queue.get(), element(value)) else { return BADARGS };
        let Some(library) = library::get() else { return BADARGS };
        if queue.push(here(library), element).is_ok() { SUCCESS } else { MALLOC_ERROR }
    }

    fn qdqueue_enqueue_there(queue: Object<DistQueue<usize>>, value: *mut libc::c_void, there: u16) -> i32 {
        let (Some(queue), Some(element)) = (queue.get(), element(value)) else { return BADARGS };
        let is_there = library::get().is_some_and(|library| usize::from(there) < library.shepherds.len());
        if !is_there {
            return BADARGS;
        }
        if queue.push(place(there), element).is_ok() { SUCCESS } else { MALLOC_ERROR }
    }

    fn qdqueue_dequeue(queue: Object<DistQueue<usize>>) -> *mut libc::c_void {
        let (Some(queue), Some(library)) = (queue.get(), library::get()) else { return ptr::null_mut() };
        pointer(queue.try_pop(here(library)).ok())
    }

    fn qdqueue_empty(queue: Object<DistQueue<usize>>) -> i32 {
        queue.get().map_or(BADARGS, |queue| i32::from(queue.is_empty()))
    }

    fn qswsrqueue_create(elements: usize) -> *mut Ring {
        Box::into_raw(Box::new(Ring::new(elements)))
    }

    fn qswsrqueue_destroy(queue: Object<Ring>) -> i32 {
        destroy(queue)
    }

    fn qswsrqueue_enqueue(queue: Object<Ring>, value: *mut libc::c_void) -> i32 {
        let (Some(queue), Some(element)) = (queue.get(), element(value)) else { return BADARGS };
        if queue.push(element) { SUCCESS } else { OPFAIL }
    }

    fn qswsrqueue_enqueue_blocking(queue: Object<Ring>, value: *mut libc::c_void) -> i32 {
        let (Some(queue), Some(element)) = (queue.get(), element(value)) else { return BADARGS };
        while !queue.push(element) {
            team::help();
        }
        SUCCESS
    }

    fn qswsrqueue_dequeue(queue: Object<Ring>) -> *mut libc::c_void {
        pointer(queue.get().and_then(Ring::pop))
    }

    fn qswsrqueue_dequeue_blocking(queue: Object<Ring>) -> *mut libc::c_void {
        let Some(queue) = queue.get() else { return ptr::null_mut() };
        loop {
            match queue.pop() {
                None => team::help(),
                some => return pointer(some),
            }
        }
    }

    fn qswsrqueue_empty(queue: Object<Ring>) -> i32 {
        queue.get().map_or(BADARGS, |queue| i32::from(queue.is_empty()))
    }
}
