//! What kernels do with their arrays before and after the measured part.

use crate::{Array, Element, Leaf, World};
use vicus_memory::distribution::Distribution;

/// A new array with these elements, written by the thread that calls it.
pub(crate) fn filled<'w, W: World, T: Element>(
    world: &'w W,
    len: usize,
    distribution: &Distribution,
    element: impl Fn(usize) -> T,
) -> Array<'w, T> {
    let array = world.array(len, distribution);
    world.work(Leaf { name: "fill", flops: len as u64 }, &[array.writes(0..len)], || {
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: nobody else knows the array yet.
        let elements = unsafe { array.part_mut(0..len) };
        elements.iter_mut().enumerate().for_each(|(at, to)| *to = element(at));
    });
    array
}

/// A number that tells what is in arrays, and in which order.
///
/// # Safety
/// No task runs that writes them.
#[expect(unsafe_code, reason = "arrays are shared by tasks")]
pub(crate) unsafe fn checksum<W: World, T: Element + Into<f64>>(world: &W, arrays: &[Array<'_, T>]) -> f64 {
    let mut sum = 0.0;
    for array in arrays {
        let all = 0..array.len();
        world.work(Leaf { name: "check", flops: 2 * array.len() as u64 }, &[array.reads(all.clone())], || {
            // SAFETY: the caller promises that nobody writes.
            let elements = unsafe { array.part(all) };
            sum += elements.iter().enumerate().map(|(at, &element)| (at % 7 + 1) as f64 * element.into()).sum::<f64>();
        });
    }
    sum
}

/// About so many times as many, but one at least. Beyond a million millions, which no machine has room for, it stays there:
/// whoever multiplies it by the size of a block must not overflow.
pub(crate) fn scaled(number: usize, times: f64) -> usize {
    (number as f64 * times).round().clamp(1.0, 1e12) as usize
}
