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

/// How many different weights places have. A prime: arrays that change places change the weights of their elements, unless their
/// length, or the number of arrays from one to the other, is a multiple of it, and the papers' inputs have fewer arrays.
const WEIGHTS: usize = 8191;

/// What an element counts for in a sum, by its place among all.
fn weight(place: usize) -> f64 {
    (place % WEIGHTS + 1) as f64
}

/// A number that tells what is in arrays, and in which order: elements count by their places, from the first array's first element
/// to the last one's last.
///
/// # Safety
/// No task runs that writes them.
#[expect(unsafe_code, reason = "arrays are shared by tasks")]
pub(crate) unsafe fn checksum<W: World, T: Element + Into<f64>>(world: &W, arrays: &[Array<'_, T>]) -> f64 {
    let (mut sum, mut place) = (0.0, 0);
    for array in arrays {
        let first = place % WEIGHTS;
        place += array.len();
        let all = 0..array.len();
        world.work(Leaf { name: "check", flops: 2 * array.len() as u64 }, &[array.reads(all.clone())], || {
            // SAFETY: the caller promises that nobody writes.
            let elements = unsafe { array.part(all) };
            sum += elements.iter().enumerate().map(|(at, &element)| weight(first + at) * element.into()).sum::<f64>();
        });
    }
    sum
}

/// About so many times as many, but one at least. Beyond a million millions, which no machine has room for, it stays there:
/// whoever multiplies it by the size of a block must not overflow.
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

    /// Two blocks of one array each had the same sum in either order.
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
        // As many as a matrix of matmul has.
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
        // Behind 8191 places the first weights come again.
        let expected = f64::from(1 + 2 + 3) + 10.0 * f64::from((4..=8191).sum::<i32>() + 1 + 2);
        assert_eq!(sum(&[array(3, 1.0), array(8190, 10.0)]), expected);
    }
}
