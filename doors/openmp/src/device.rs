//! Queries of devices (`omp_target_*`, interoperability). The host is the only one; its number is the number of devices
//! beside it: 0, or -1, as OpenMP 5.2 calls it.

use crate::exports::exports;
use crate::settings;
use std::ptr;

const MANDATORY: i32 = 2;

/// Ends the process if a construct has to run on another device than the host (`OMP_TARGET_OFFLOAD=mandatory`). gcc
/// passes -1 for the default device, -2 if a clause names the host, and other numbers as they are.
pub(crate) fn check(device: i32) {
    if (device == -1 || device > 0) && settings::target_offload() == MANDATORY {
        settings::fail("OMP_TARGET_OFFLOAD=mandatory, but this library has no device other than the host");
    }
}

fn is_host(device: i32) -> bool {
    device == 0 || device == -1
}

/// How many dimensions `omp_target_memcpy_rect` can copy.
const MOST_DIMENSIONS: i32 = i32::MAX;

/// A box of elements in two arrays, both given by their dimensions.
struct Boxed<'a> {
    volume: &'a [usize],
    to_offsets: &'a [usize],
    from_offsets: &'a [usize],
    to_dimensions: &'a [usize],
    from_dimensions: &'a [usize],
}

impl Boxed<'_> {
    /// Copies the box of elements of `element` bytes. None if an offset is beyond all addresses.
    ///
    /// # Safety
    /// The box lies in both arrays.
    unsafe fn copy(&self, to: *mut u8, from: *const u8, element: usize) -> Option<()> {
        let dimensions = self.volume.len();
        let row = |all: &[usize]| all[1..].iter().try_fold(element, |bytes, &count| bytes.checked_mul(count));
        let (to_row, from_row) = (row(self.to_dimensions)?, row(self.from_dimensions)?);
        if dimensions == 1 {
            let bytes = self.volume[0].checked_mul(element)?;
            let (to_at, from_at) =
                (self.to_offsets[0].checked_mul(element)?, self.from_offsets[0].checked_mul(element)?);
            // SAFETY: the caller's promise: the box lies in both arrays, which may overlap.
            unsafe { ptr::copy(from.add(from_at), to.add(to_at), bytes) };
            return Some(());
        }
        let inner = Boxed {
            volume: &self.volume[1..],
            to_offsets: &self.to_offsets[1..],
            from_offsets: &self.from_offsets[1..],
            to_dimensions: &self.to_dimensions[1..],
            from_dimensions: &self.from_dimensions[1..],
        };
        for row in 0..self.volume[0] {
            let to_at = (self.to_offsets[0] + row).checked_mul(to_row)?;
            let from_at = (self.from_offsets[0] + row).checked_mul(from_row)?;
            // SAFETY: the caller's promise: the row lies in both arrays, and so does the box within it.
            unsafe { inner.copy(to.add(to_at), from.add(from_at), element)? };
        }
        Some(())
    }
}

/// gcc's `depobj`: an address, and its kind of dependence.
type Object = [usize; 2];

/// Waits for the predecessors that these objects name for the task of a copy.
///
/// # Safety
/// There are `count` objects.
unsafe fn wait_for(count: i32, objects: *const Object) {
    // SAFETY: the caller's promise: there are `count` objects.
    let object = |index: usize| unsafe { objects.add(index) }.cast::<u8>().cast_mut();
    let count = count.max(0) as usize;
    if count == 0 {
        return;
    }
    // In the layout of a clause: no address of its own, `count` objects.
    let mut clause =
        vec![ptr::null_mut(), ptr::without_provenance_mut(count), ptr::null_mut(), ptr::null_mut(), ptr::null_mut()];
    clause.extend((0..count).map(object));
    // SAFETY: a clause in gcc's layout, with `count` depend objects behind its five words.
    crate::tasks::wait_for(&unsafe { crate::gomp::accesses(clause.as_ptr()) });
}

exports! {
    "OMP_4.5":
    fn omp_target_alloc(bytes: usize, device: i32) -> *mut libc::c_void {
        // SAFETY: rule "System": no condition.
        if is_host(device) { unsafe { libc::malloc(bytes) } } else { ptr::null_mut() }
    }

    "OMP_4.5":
    fn omp_target_free(memory: *mut libc::c_void, device: i32) {
        if is_host(device) {
            // SAFETY: rule "Interface": `omp_target_alloc` has got it by `malloc`.
            unsafe { libc::free(memory) };
        }
    }

    "OMP_4.5":
    fn omp_target_is_present(memory: *const u8, device: i32) -> i32 {
        i32::from(memory.is_null() || is_host(device))
    }

    "OMP_5.1.1":
    fn omp_target_is_accessible(_memory: *const u8, _bytes: usize, device: i32) -> i32 {
        i32::from(is_host(device))
    }

    "OMP_5.1.1":
    fn omp_get_mapped_ptr(memory: *mut u8, device: i32) -> *mut u8 {
        if is_host(device) { memory } else { ptr::null_mut() }
    }

    "OMP_4.5":
    fn omp_target_memcpy(
        to: *mut u8, from: *const u8, bytes: usize, to_offset: usize, from_offset: usize, to_device: i32,
        from_device: i32,
    ) -> i32 {
        if !is_host(to_device) || !is_host(from_device) {
            return libc::EINVAL;
        }
        // SAFETY: rule "Interface": both pieces of memory have this number of bytes behind their offsets.
        unsafe { ptr::copy(from.add(from_offset), to.add(to_offset), bytes) };
        0
    }

    "OMP_5.1.1":
    fn omp_target_memcpy_async(
        to: *mut u8, from: *const u8, bytes: usize, to_offset: usize, from_offset: usize, to_device: i32,
        from_device: i32, count: i32, objects: *const Object,
    ) -> i32 {
        // SAFETY: rule "Interface": there are `count` objects; the rest is the called function's own condition.
        unsafe {
            wait_for(count, objects);
            omp_target_memcpy(to, from, bytes, to_offset, from_offset, to_device, from_device)
        }
    }

    "OMP_4.5":
    fn omp_target_memcpy_rect(
        to: *mut u8, from: *const u8, element: usize, dimensions: i32, volume: *const usize, to_offsets: *const usize,
        from_offsets: *const usize, to_dimensions: *const usize, from_dimensions: *const usize, to_device: i32,
        from_device: i32,
    ) -> i32 {
        if to.is_null() && from.is_null() {
            return MOST_DIMENSIONS;
        }
        let lists = [volume, to_offsets, from_offsets, to_dimensions, from_dimensions];
        let is_wrong = to.is_null() || from.is_null() || element == 0 || dimensions < 1;
        if is_wrong || lists.iter().any(|list| list.is_null()) || !is_host(to_device) || !is_host(from_device) {
            return libc::EINVAL;
        }
        let [volume, to_offsets, from_offsets, to_dimensions, from_dimensions] =
            // SAFETY: rule "Interface": each list has a number for each dimension, of which there is at least one.
            lists.map(|list| unsafe { std::slice::from_raw_parts(list, dimensions as usize) });
        // SAFETY: rule "Interface": the box lies in both arrays, as the program gives their dimensions.
        let copied = unsafe {
            Boxed { volume, to_offsets, from_offsets, to_dimensions, from_dimensions }.copy(to, from, element)
        };
        if copied.is_some() { 0 } else { libc::EINVAL }
    }

    "OMP_5.1.1":
    fn omp_target_memcpy_rect_async(
        to: *mut u8, from: *const u8, element: usize, dimensions: i32, volume: *const usize, to_offsets: *const usize,
        from_offsets: *const usize, to_dimensions: *const usize, from_dimensions: *const usize, to_device: i32,
        from_device: i32, count: i32, objects: *const Object,
    ) -> i32 {
        // SAFETY: rule "Interface": there are `count` objects; the rest is the called function's own condition.
        unsafe {
            wait_for(count, objects);
            omp_target_memcpy_rect(
                to, from, element, dimensions, volume, to_offsets, from_offsets, to_dimensions, from_dimensions,
                to_device, from_device,
            )
        }
    }

    "GOMP_6.0.1":
    fn omp_target_memset(memory: *mut u8, value: i32, bytes: usize, device: i32) -> *mut u8 {
        if is_host(device) {
            // SAFETY: rule "Interface": the memory has this number of bytes.
            unsafe { ptr::write_bytes(memory, value as u8, bytes) };
        }
        memory
    }

    // A pointer of the host is associated with itself; another one cannot be.
    "OMP_4.5":
    fn omp_target_associate_ptr(
        _host: *const u8, _memory: *const u8, _bytes: usize, _offset: usize, _device: i32,
    ) -> i32 {
        libc::EINVAL
    }

    "OMP_4.5":
    fn omp_target_disassociate_ptr(_host: *const u8, _device: i32) -> i32 {
        libc::EINVAL
    }

    // No construct makes an interoperability object, so every one is `omp_interop_none`, without properties.
    "GOMP_5.1.3", "VERSION":
    fn omp_get_num_interop_properties(_object: *const u8) -> i32 {
        0
    }

    "GOMP_5.1.3", "VERSION":
    fn omp_get_interop_int(_object: *const u8, _property: i32, code: *mut i32) -> isize {
        put_empty(code);
        0
    }

    "GOMP_5.1.3", "VERSION":
    fn omp_get_interop_ptr(_object: *const u8, _property: i32, code: *mut i32) -> *mut u8 {
        put_empty(code);
        ptr::null_mut()
    }

    "GOMP_5.1.3", "VERSION":
    fn omp_get_interop_str(_object: *const u8, _property: i32, code: *mut i32) -> *const u8 {
        put_empty(code);
        ptr::null()
    }

    "GOMP_5.1.3", "VERSION":
    fn omp_get_interop_name(_object: *const u8, _property: i32) -> *const u8 {
        ptr::null()
    }

    "GOMP_5.1.3", "VERSION":
    fn omp_get_interop_type_desc(_object: *const u8, _property: i32) -> *const u8 {
        ptr::null()
    }

    "GOMP_5.1.3", "VERSION":
    fn omp_get_interop_rc_desc(_object: *const u8, _code: i32) -> *const u8 {
        ptr::null()
    }
}

/// Says `omp_irc_empty`.
fn put_empty(code: *mut i32) {
    // SAFETY: rule "Interface": null, or an address that can be written.
    if let Some(code) = unsafe { code.as_mut() } {
        *code = -1;
    }
}
