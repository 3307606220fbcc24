//! How kernels fill their arrays before the measured part, and check them after it.

use crate::{Array, Element, KernelWorld, Leaf};
use vicus_memory::distribution::Distribution;

/// A new array with these elements, written by the calling thread.
pub(crate) fn filled<'w, W: KernelWorld, T: Element>(
    world: &'w W,
    len: usize,
    distribution: &Distribution,
    element: impl Fn(usize) -> T,
) -> Array<'w, T> {
    let array = world.array(len, distribution);
    world.work(Leaf { name: "fill", flops: len as u64 }, &[array.writes(0..len)], || {
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: no other thread knows the array yet.
        let elements = unsafe { array.part_mut(0..len) };
        elements.iter_mut().enumerate().for_each(|(at, to)| *to = element(at));
    });
    array
}

/// The number of different weights. A prime: swapping two arrays changes the sum, unless their length or the number of
/// arrays between them is a multiple of it. The papers' inputs have fewer arrays.
const WEIGHTS: usize = 8191;

/// The weight of an element in a sum, by its place among all.
fn weight(place: usize) -> f64 {
    (place % WEIGHTS + 1) as f64
}

/// A number for the arrays' elements and their order: each element is weighted by its place, from the first array's
/// first element to the last array's last.
///
/// # Safety
/// No running task writes the arrays.
#[expect(unsafe_code, reason = "arrays are shared by tasks")]
pub(crate) unsafe fn checksum<W: KernelWorld, T: Element + Into<f64>>(world: &W, arrays: &[Array<'_, T>]) -> f64 {
    let (mut sum, mut place) = (0.0, 0);
    for array in arrays {
        let first = place % WEIGHTS;
        place += array.len();
        let all = 0..array.len();
        world.work(Leaf { name: "check", flops: 2 * array.len() as u64 }, &[array.reads(all.clone())], || {
            // SAFETY: the caller promises that no task writes.
            let elements = unsafe { array.part(all) };
            sum += elements.iter().enumerate().map(|(at, &element)| weight(first + at) * element.into()).sum::<f64>();
        });
    }
    sum
}

/// About `number * times`, but at least one and at most a million millions. No machine has room for more, and callers
/// multiply the result by the size of a block: this product must not overflow.
pub(crate) fn scaled(number: usize, times: f64) -> usize {
    (number as f64 * times).round().clamp(1.0, 1e12) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    fn sum(arrays: &[Array<'_, f32>]) -> f64 {
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: there are no tasks.
        unsafe {
            checksum(&Serial::default(), arrays)
        }
    }

    /// Two blocks of one array each once had the same sum in either order.
    #[test]
    fn blocks_that_change_places_change_the_sum() {
        let world = Serial::default();
        // Lengths of blocks and vectors of the papers' inputs, and small ones.
        for len in [1, 7, 13, 36 * 36, 128 * 128, 256 * 256, (28 << 10) / 4, (32 << 10) / 4, (1 << 20) / 4] {
            let block = |number: usize| filled(&world, len, &Distribution::Standard, |at| ((at + number) % 5) as f32);
            let blocks: Vec<_> = (0..3).map(block).collect();
            let [a, b, c] = blocks[..] else { unreachable!() };
            let others = [sum(&[b, a, c]), sum(&[a, c, b]), sum(&[c, b, a])];
            assert!(!others.contains(&sum(&[a, b, c])), "{len}: {others:?}");
        }
        // As many blocks as a matrix of matmul.
        let mut blocks: Vec<_> =
            (0..1024).map(|number| filled(&world, 4, &Distribution::Standard, |_| number as f32)).collect();
        let expected = sum(&blocks);
        for other in 1..1024 {
            blocks.swap(0, other);
            assert_ne!(sum(&blocks), expected, "the first block and block {other}");
            blocks.swap(0, other);
        }
    }

    #[test]
    fn an_element_counts_by_its_place_among_all() {
        let world = Serial::default();
        let array = |len, of: f32| filled(&world, len, &Distribution::Standard, |_| of);
        // The weights repeat after 8191 places.
        let expected = f64::from(1 + 2 + 3) + 10.0 * f64::from((4..=8191).sum::<i32>() + 1 + 2);
        assert_eq!(sum(&[array(3, 1.0), array(8190, 10.0)]), expected);
    }
}
