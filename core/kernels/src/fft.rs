//! FFT: the discrete Fourier transform of complex numbers, by transforms of shorter parts.
//!
//! Duran, Teruel, Ferrer, Martorell, Ayguade, "Barcelona OpenMP Tasks Suite", ICPP 2009, after Cilk's program: a
//! recursion that first brings the numbers of each part together, with passes cut into tasks as well. Cooley, Tukey,
//! "An algorithm for the machine calculation of complex Fourier series", Mathematics of Computation 1965.
//!
//! We differ: the number of elements is a power of two, and roots of unity come from a small table, or from the last
//! root by a multiplication. BOTS has a table as long as the input.

use crate::arrays::{checksum, filled};
use crate::{Array, Kernel, KernelWorld, Leaf, Task, TaskOrder};
use std::f64::consts::TAU;
use std::ops::Range;
use vicus_memory::distribution::Distribution;
use vicus_schedule::Access;

/// The Fourier transform of complex numbers of doubles. By default of 16 million, by tasks of 4096.
#[derive(Clone, Debug)]
pub struct Fft {
    /// How many numbers there are: a power of two.
    pub len: usize,
    /// Up to how many numbers are transformed, or moved, by a task alone: a power of two, at least 2.
    pub alone: usize,
    /// How the numbers lie; Table 3 of Muddukrishna et al. advises `fine`.
    pub distribution: Distribution,
}

impl Default for Fft {
    fn default() -> Fft {
        Fft { len: 1 << 24, alone: 1 << 12, distribution: Distribution::Fine }
    }
}

/// Into how many parts a transform is divided, if it is long enough.
const RADIX: usize = 16;

#[derive(Clone, Copy)]
struct Complex {
    re: f64,
    im: f64,
}

impl Complex {
    /// The root of unity with this share of a full turn, clockwise. libm's functions, so it is the same on every
    /// machine.
    fn root(share: f64) -> Complex {
        Complex { re: libm::cos(TAU * share), im: -libm::sin(TAU * share) }
    }

    fn get(numbers: &[f64], at: usize) -> Complex {
        Complex { re: numbers[2 * at], im: numbers[2 * at + 1] }
    }

    fn put(self, numbers: &mut [f64], at: usize) {
        [numbers[2 * at], numbers[2 * at + 1]] = [self.re, self.im];
    }

    fn times(self, other: Complex) -> Complex {
        Complex { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }
}

/// The operations of a product of complex numbers.
const PRODUCT_OPERATIONS: u64 = 6;

/// The operations of [`transform`]: a product, a sum and a difference for each pair of numbers at each of its levels.
fn operations(len: usize) -> u64 {
    (len / 2 * len.ilog2() as usize) as u64 * (PRODUCT_OPERATIONS + 4)
}

/// Transforms numbers in place, with a table of the first half of the roots of unity.
#[inline(never)] // compiled once: the same instructions in every world
fn transform(numbers: &mut [f64], roots: &[f64]) {
    let (len, order) = (numbers.len() / 2, roots.len());
    if len < 2 {
        return;
    }
    let unused = usize::BITS - len.ilog2();
    for at in 0..len {
        let reversed = at.reverse_bits() >> unused;
        if at < reversed {
            numbers.swap(2 * at, 2 * reversed);
            numbers.swap(2 * at + 1, 2 * reversed + 1);
        }
    }
    let mut half = 1;
    while half < len {
        for part in numbers.chunks_exact_mut(4 * half) {
            let (even, odd) = part.split_at_mut(2 * half);
            for at in 0..half {
                let (a, b) = (Complex::get(even, at), Complex::get(odd, at));
                let b = b.times(Complex::get(roots, at * (order / (2 * half))));
                Complex { re: a.re + b.re, im: a.im + b.im }.put(even, at);
                Complex { re: a.re - b.re, im: a.im - b.im }.put(odd, at);
            }
        }
        half *= 2;
    }
}

/// Brings together each `to.len()`th number.
#[inline(never)] // compiled once: the same instructions in every world
fn unshuffle(to: &mut [&mut [f64]], from: &[f64]) {
    let radix = to.len();
    for (part, to) in to.iter_mut().enumerate() {
        for at in 0..to.len() / 2 {
            Complex::get(from, at * radix + part).put(to, at);
        }
    }
}

/// Makes numbers of a transform of length `len` from those at the same places of the transforms of its parts. The first
/// place is `first`.
#[inline(never)] // compiled once: the same instructions in every world
fn twiddle(to: &mut [&mut [f64]], from: &[&[f64]], first: usize, len: usize, roots: &[f64]) {
    let radix = from.len();
    let share = |part: usize, places: usize| (part * places % len) as f64 / len as f64;
    let steps: [Complex; RADIX] = std::array::from_fn(|part| Complex::root(share(part, 1)));
    let mut factors: [Complex; RADIX] = std::array::from_fn(|part| Complex::root(share(part, first)));
    let mut buffer = [0.0; 2 * RADIX];
    let numbers = &mut buffer[..2 * radix];
    for at in 0..from[0].len() / 2 {
        for (part, from) in from.iter().enumerate() {
            Complex::get(from, at).times(factors[part]).put(numbers, part);
            factors[part] = factors[part].times(steps[part]);
        }
        transform(numbers, roots);
        for (part, to) in to.iter_mut().enumerate() {
            Complex::get(numbers, part).put(to, at);
        }
    }
}

/// Two arrays for the same numbers: one has them, and the other one is for a part of the way.
#[derive(Clone, Copy)]
struct Pair<'w> {
    numbers: Array<'w, f64>,
    other: Array<'w, f64>,
}

impl<'w> Pair<'w> {
    /// How many numbers each has.
    fn len(self) -> usize {
        self.numbers.len() / 2
    }

    /// The numbers at these places of each of `radix` equal parts of an array.
    fn stretches(array: Array<'w, f64>, radix: usize, places: &Range<usize>) -> impl Iterator<Item = Array<'w, f64>> {
        let (part, places) = (array.len() / radix, 2 * places.start..2 * places.end);
        (0..radix).map(move |at| array.slice(at * part + places.start..at * part + places.end))
    }

    /// The accesses to these places of each of `radix` equal parts, made from the access to the first part.
    fn to_each(access: Access, radix: usize, array: Array<'w, f64>) -> Access {
        access.rows(radix, array.len() / radix * size_of::<f64>())
    }
}

impl Fft {
    /// A task's ranges of places in a pass over parts of this length.
    fn pieces(&self, part: usize, radix: usize) -> impl Iterator<Item = Range<usize>> {
        let piece = (self.alone / radix).clamp(1, part);
        (0..part / piece).map(move |number| number * piece..(number + 1) * piece)
    }

    /// Transforms numbers in place.
    fn transform<W: KernelWorld>(&self, world: &W, pair: Pair<'_>, roots: Array<'_, f64>) {
        let Pair { numbers, other } = pair;
        let (len, all) = (pair.len(), 0..numbers.len());
        if len <= self.alone {
            let accesses = [numbers.changes(all.clone()), roots.reads(0..roots.len())];
            world.work(Leaf { name: "transform", flops: operations(len) }, &accesses, || {
                #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                // SAFETY: each part is transformed by one task, and none writes the roots.
                let (numbers, roots) = unsafe { (numbers.part_mut(all), roots.part(0..roots.len())) };
                transform(numbers, roots);
            });
            return;
        }
        let radix = RADIX.min(len / self.alone);
        let part = len / radix;
        let unshuffles = self.pieces(part, radix).map(|places| {
            let from = 2 * places.start * radix..2 * places.end * radix;
            let to = Pair::to_each(other.writes(2 * places.start..2 * places.end), radix, other);
            let accesses = [numbers.reads(from.clone()), to];
            let body = move || {
                // A move of a number counts as an operation, so the leaf has a speed.
                let leaf = Leaf { name: "unshuffle", flops: (places.len() * radix) as u64 };
                world.work(leaf, &accesses, || {
                    #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                    // SAFETY: each place belongs to one task, and none writes the numbers.
                    let (from, mut to) = unsafe {
                        let to = Pair::stretches(other, radix, &places).map(|to| to.part_mut(0..to.len()));
                        (numbers.part(from), to.collect::<Vec<_>>())
                    };
                    unshuffle(&mut to, from);
                });
            };
            (Task::new(accesses), body)
        });
        world.tasks(TaskOrder::Free, unshuffles);
        let parts = (0..radix).map(|at| {
            let part = 2 * at * part..2 * (at + 1) * part;
            let pair = Pair { numbers: other.slice(part.clone()), other: numbers.slice(part.clone()) };
            let mut accesses = vec![other.changes(part.clone()), roots.reads(0..roots.len())];
            if part.len() / 2 > self.alone {
                accesses.push(numbers.writes(part));
            }
            let task = Task::new(accesses);
            (task, move || self.transform(world, pair, roots))
        });
        world.tasks(TaskOrder::Free, parts);
        // Of the table, a transform of `radix` numbers reads as many places at equal distances as it has pairs.
        let distance = roots.len() / radix * size_of::<Complex>();
        let few_roots = roots.reads(0..2).rows(radix / 2, distance);
        let twiddles = self.pieces(part, radix).map(|places| {
            let range = 2 * places.start..2 * places.end;
            let from = Pair::to_each(other.reads(range.clone()), radix, other);
            let to = Pair::to_each(numbers.writes(range), radix, numbers);
            let accesses = [from, to, few_roots];
            let body = move || {
                // Two products for each number, besides the transform of each place.
                let moved = 2 * PRODUCT_OPERATIONS * radix as u64;
                let flops = places.len() as u64 * (moved + operations(radix));
                world.work(Leaf { name: "twiddle", flops }, &accesses, || {
                    #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                    // SAFETY: each place belongs to one task, and none writes the parts' transforms or the roots.
                    let (from, mut to, roots) = unsafe {
                        let from = Pair::stretches(other, radix, &places).map(|from| from.part(0..from.len()));
                        let to = Pair::stretches(numbers, radix, &places).map(|to| to.part_mut(0..to.len()));
                        (from.collect::<Vec<_>>(), to.collect::<Vec<_>>(), roots.part(0..roots.len()))
                    };
                    twiddle(&mut to, &from, places.start, len, roots);
                });
            };
            (Task::new(accesses), body)
        });
        world.tasks(TaskOrder::Free, twiddles);
    }

    /// The input's transform.
    fn transformed<'w, W: KernelWorld>(
        &self,
        world: &'w W,
        start: impl FnOnce(),
        end: impl FnOnce(),
    ) -> Array<'w, f64> {
        assert!(self.len.is_power_of_two(), "{} numbers, not a power of two", self.len);
        assert!(self.alone.is_power_of_two() && self.alone > 1, "{} numbers for a task alone", self.alone);
        let order = self.alone.max(RADIX);
        let root = |at: usize| {
            let Complex { re, im } = Complex::root((at / 2) as f64 / order as f64);
            if at.is_multiple_of(2) { re } else { im }
        };
        let roots = filled(world, order, &self.distribution, root);
        let numbers = filled(world, 2 * self.len, &self.distribution, element);
        let other = world.array(2 * self.len, &self.distribution);
        start();
        self.transform(world, Pair { numbers, other }, roots);
        end();
        numbers
    }
}

/// A real or imaginary part of the input: from -1 to 1.
fn element(at: usize) -> f64 {
    let mixed = (at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    mixed as f64 / f64::from(1u32 << 31) - 1.0
}

impl Kernel for Fft {
    fn name(&self) -> &'static str {
        "fft"
    }

    fn distribution(&mut self) -> Option<&mut Distribution> {
        Some(&mut self.distribution)
    }

    /// At most `2^40` numbers: no machine has memory for more.
    fn scale(&mut self, times: f64) {
        let least = f64::from(self.alone.ilog2() + 1);
        self.len = 1 << (f64::from(self.len.ilog2()) + times.log2()).round().clamp(least, 40.0) as u32;
    }

    fn run<W: KernelWorld>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64 {
        let numbers = self.transformed(world, start, end);
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: all tasks are over.
        unsafe {
            checksum(world, &[numbers])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    #[test]
    fn it_is_the_sum_that_defines_it() {
        for (len, alone) in [(1, 2), (2, 2), (8, 2), (64, 4), (256, 8), (512, 2), (512, 64), (512, 512), (1024, 64)] {
            let world = Serial::default();
            let fft = Fft { len, alone, ..Fft::default() };
            let got = fft.transformed(&world, || (), || ());
            #[expect(unsafe_code, reason = "arrays are shared by tasks")]
            // SAFETY: all tasks are over.
            let got = unsafe { got.part(0..2 * len) };
            for frequency in 0..len {
                let (mut re, mut im) = (0.0, 0.0);
                for at in 0..len {
                    let angle = -TAU * (at * frequency % len) as f64 / len as f64;
                    let (a, b) = (element(2 * at), element(2 * at + 1));
                    re += a * angle.cos() - b * angle.sin();
                    im += a * angle.sin() + b * angle.cos();
                }
                let error = (re - got[2 * frequency]).hypot(im - got[2 * frequency + 1]);
                assert!(error < 1e-11 * len as f64, "{error} at {frequency} of {fft:?}");
            }
        }
    }

    /// Parseval's theorem: a transform has as much energy as the input, times the number of its elements.
    #[test]
    #[cfg_attr(miri, ignore = "many numbers")]
    fn a_long_input_keeps_its_energy() {
        let world = Serial::default();
        let fft = Fft { len: 1 << 16, alone: 1 << 10, ..Fft::default() };
        let got = fft.transformed(&world, || (), || ());
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: all tasks are over.
        let got: f64 = unsafe { got.part(0..2 * fft.len) }.iter().map(|part| part * part).sum();
        let energy: f64 = (0..2 * fft.len).map(element).map(|part| part * part).sum();
        assert!((got / (energy * fft.len as f64) - 1.0).abs() < 1e-12, "{got}");
    }
}
