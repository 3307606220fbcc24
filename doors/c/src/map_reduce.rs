//! MapReduce from one queue to another, with strings of bytes as keys and values.

use crate::error::{DropFn, Failure, Outcome, guard, status};
use crate::memory::{Queue, push};
use crate::runtime::{Threads, threads};
use crate::tasks::{Data, Owned, ended};
use crate::text::{array, handle, handle_mut, optional, output};
use std::ffi::{c_char, c_void};
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, PoisonError};
use vicus::map_reduce::{self, MapReduce, MapReduceError};

/// The emitter for `vicus_emit`. It lives as long as a call of `map`.
pub(crate) type Emitter = map_reduce::Emitter<'static, Vec<u8>, Vec<u8>>;

/// The values of a key. The last one is kept until the next one is asked for.
pub(crate) struct Values {
    /// Lives as long as a call of `reduce`.
    left: *mut map_reduce::Values<'static, Vec<u8>, Vec<u8>>,
    last: Vec<u8>,
}

type MapFn = unsafe extern "C" fn(data: *mut c_void, element: *mut c_void, emitter: *mut Emitter) -> i32;
type ReduceFn = unsafe extern "C" fn(
    data: *mut c_void,
    key: *const c_void,
    key_bytes: usize,
    values: *mut Values,
    result: *mut *mut c_void,
) -> i32;
type CombineFn = unsafe extern "C" fn(
    data: *mut c_void,
    value: *mut c_void,
    value_bytes: usize,
    next: *const c_void,
    next_bytes: usize,
) -> i32;

/// `vicus_map_reduce`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "the name that the header has")]
pub(crate) struct vicus_map_reduce {
    /// The bytes of the program's structure.
    pub(crate) size: u32,
    /// How many parts keys are dealt to; 0: the library's choice.
    pub(crate) partitions: u32,
    pub(crate) map: Option<MapFn>,
    pub(crate) reduce: Option<ReduceFn>,
    pub(crate) combine: Option<CombineFn>,
    pub(crate) data: *mut c_void,
    /// The most memory of pairs; 0: the library's choice.
    pub(crate) memory_bytes: usize,
    /// The folder for more of them; null: none.
    pub(crate) folder: *const c_char,
}

impl From<MapReduceError> for Failure {
    fn from(error: MapReduceError) -> Failure {
        let status = match error {
            MapReduceError::Memory { .. } => status::LIMIT,
            MapReduceError::File(_) => status::DATA,
            MapReduceError::Output => status::CLOSED,
        };
        Failure::new(status, error)
    }
}

/// # Safety
/// Rule "Handles".
unsafe fn said(job: *const vicus_map_reduce) -> Outcome<vicus_map_reduce> {
    // SAFETY: rule "Handles"; the size is the first field of every version.
    let size = *unsafe { handle(job.cast::<u32>(), "job") }?;
    if size as usize != size_of::<vicus_map_reduce>() {
        let message = format!("`job.size` is {size}: begin with VICUS_MAP_REDUCE_INIT, which sets it");
        return Err(Failure::argument(message));
    }
    // SAFETY: the structure is whole, as its size says.
    Ok(unsafe { *job })
}

/// A result on its way to the queue. Its function frees it if it does not get there.
struct OwnedResult(Owned);

impl OwnedResult {
    fn new(result: *mut c_void, drop: Option<DropFn>) -> Option<OwnedResult> {
        (!result.is_null()).then(|| OwnedResult(Owned::new(result, drop)))
    }

    /// The queue owns it from now on.
    fn into_data(self) -> Data {
        let data = self.0.data;
        std::mem::forget(self);
        data
    }
}

/// # Safety
/// Rules "Handles", "Texts" and "Callbacks".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_map_reduce_run(
    runtime: *const Threads,
    job: *const vicus_map_reduce,
    input: *const Queue,
    output: *const Queue,
) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        let (job, input, output) = unsafe { (said(job)?, handle(input, "input")?, handle(output, "output")?) };
        let map = job.map.ok_or_else(|| Failure::argument("`job.map` is null"))?;
        let reduce = job.reduce.ok_or_else(|| Failure::argument("`job.reduce` is null"))?;
        // SAFETY: rules "Handles" and "Texts".
        let (threads, folder) = unsafe { (threads(runtime)?, optional(job.folder)?) };
        let runtime = threads.runtime();
        let near = input.of_machine(runtime.topology(), "input")?;
        output.of_machine(runtime.topology(), "output")?;
        let data = Data(job.data);
        let failure: Mutex<Option<Failure>> = Mutex::new(None);
        let mut work = MapReduce::new(runtime);
        if job.partitions > 0 {
            work = work.partitions(job.partitions as usize);
        }
        if job.memory_bytes > 0 {
            work = work.memory(job.memory_bytes);
        }
        if let Some(folder) = folder {
            work = work.files_in(Path::new(folder)).map_err(|error| Failure::new(status::DATA, error))?;
        }
        let travels = |outcome: Outcome| outcome.unwrap_or_else(|failure| failure.travel());
        let map = |Data(element): Data, emitter: &mut map_reduce::Emitter<'_, Vec<u8>, Vec<u8>>| {
            let data = &data;
            // SAFETY: rule "Callbacks"; the emitter is used during the call alone.
            travels(ended(unsafe { map(data.0, element, ptr::from_mut(emitter).cast()) }));
        };
        let combine = job.combine.map(|combine| {
            let (data, failure) = (&data, &failure);
            move |mut value: Vec<u8>, next: Vec<u8>| {
                // SAFETY: rule "Callbacks".
                let status = unsafe {
                    combine(data.0, value.as_mut_ptr().cast(), value.len(), next.as_ptr().cast(), next.len())
                };
                // Not as a panic: it would leave a poisoned lock to the others.
                if let Err(wrong) = ended(status) {
                    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(wrong);
                }
                value
            }
        });
        let reduce = |key: &Vec<u8>, values: &mut map_reduce::Values<'_, Vec<u8>, Vec<u8>>| {
            let data = &data;
            let mut values = Values { left: ptr::from_mut(values).cast(), last: Vec::new() };
            let mut result = ptr::null_mut();
            // SAFETY: rule "Callbacks"; the values are used during the call alone.
            let status = unsafe { reduce(data.0, key.as_ptr().cast(), key.len(), &raw mut values, &raw mut result) };
            let made = OwnedResult::new(result, output.drops());
            travels(ended(status));
            made
        };
        let put = |place, _key, made: Option<OwnedResult>| {
            // It is the queue's if it takes it, and dropped else.
            made.is_none_or(|made| match push(output, Some(place), made.0.data) {
                Ok(()) => {
                    made.into_data();
                    true
                }
                Err(_) => false,
            })
        };
        let combine = combine.as_ref().map(|combine| combine as &(dyn Fn(Vec<u8>, Vec<u8>) -> Vec<u8> + Sync));
        work.run_from_queue(near, map, combine, reduce, put)?;
        failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    })
}

/// # Safety
/// Rules "Handles" and "Arrays". The emitter belongs to the surrounding call of `map`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_emit(
    emitter: *mut Emitter,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
) -> i32 {
    guard(|| {
        // SAFETY: rules "Handles" and "Arrays".
        let (emitter, key, value) = unsafe {
            (
                handle_mut(emitter, "emitter")?,
                array(key.cast::<u8>(), key_bytes, "key")?,
                array(value.cast::<u8>(), value_bytes, "value")?,
            )
        };
        emitter.emit(key.to_vec(), value.to_vec());
        Ok(())
    })
}

/// # Safety
/// Rules "Handles" and "Outputs". The values belong to the surrounding call of `reduce`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_values_next(
    values: *mut Values,
    value: *mut *const c_void,
    value_bytes: *mut usize,
    found: *mut i32,
) -> i32 {
    guard(|| {
        let (value, bytes, found) =
            (output(value, "value")?, output(value_bytes, "value_bytes")?, output(found, "found")?);
        // SAFETY: rule "Handles".
        let values = unsafe { handle_mut(values, "values") }?;
        // SAFETY: it is there during the call of `reduce`, which uses it by this function alone.
        let next = unsafe { (*values.left).next() };
        // SAFETY: rule "Outputs".
        unsafe { found.write(i32::from(next.is_some())) };
        if let Some(next) = next {
            values.last = next;
            // SAFETY: rule "Outputs".
            unsafe {
                value.write(values.last.as_ptr().cast());
                bytes.write(values.last.len());
            }
        }
        Ok(())
    })
}
