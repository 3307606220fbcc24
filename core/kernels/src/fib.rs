//! Fib: Fibonacci numbers by their definition, a kernel with the smallest tasks possible.

use crate::{Kernel, KernelWorld, Leaf};

/// Fibonacci numbers by their definition, each sum a [`join`](KernelWorld::join).
#[derive(Clone, Debug)]
pub struct Fib {
    /// The index of the Fibonacci number.
    pub n: u32,
    /// Up to this number no tasks are spawned; 1 spawns tasks down to the end.
    pub alone: u32,
}

impl Default for Fib {
    fn default() -> Fib {
        Fib { n: 35, alone: 1 }
    }
}

/// The number, computed without tasks.
fn alone(n: u32) -> u64 {
    if n < 2 { u64::from(n) } else { alone(n - 1) + alone(n - 2) }
}

/// The operations of an adding call: a comparison, two subtractions, and an addition.
const SUM_OPERATIONS: u64 = 1 + 2 + 1;

/// The operations of [`alone`]: `fib(n + 1)` calls that only compare, and one sum fewer.
fn operations(n: u32) -> u64 {
    let (mut ends, mut before) = (1, 0);
    for _ in 0..n {
        (ends, before) = (ends + before, ends);
    }
    ends + SUM_OPERATIONS * (ends - 1)
}

impl Fib {
    fn fib<W: KernelWorld>(&self, world: &W, n: u32) -> u64 {
        if n <= self.alone.max(1) {
            let mut result = 0;
            world.work(Leaf { name: "fib", flops: operations(n) }, &[], || result = alone(n));
            return result;
        }
        let (a, b) = world.join(|| self.fib(world, n - 1), || self.fib(world, n - 2));
        world.work(Leaf { name: "fib", flops: SUM_OPERATIONS }, &[], || ());
        a + b
    }
}

impl Kernel for Fib {
    fn name(&self) -> &'static str {
        "fib"
    }

    /// `n + 1` takes about 1.618 times as many additions as `n`.
    fn scale(&mut self, times: f64) {
        let golden = f64::midpoint(1.0, 5f64.sqrt());
        self.n = (f64::from(self.n) + times.ln() / golden.ln()).round().max(1.0) as u32;
    }

    fn run<W: KernelWorld>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64 {
        start();
        let result = self.fib(world, self.n);
        end();
        result as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    #[test]
    fn it_is_the_number_that_binet_says() {
        let (golden, root) = (f64::midpoint(1.0, 5f64.sqrt()), 5f64.sqrt());
        for (n, alone) in [(0, 1), (1, 1), (2, 1), (10, 0), (20, 1), (21, 7), (22, 40)] {
            let expected = (golden.powi(n as i32) / root).round();
            assert_eq!(Fib { n, alone }.run(&Serial::default(), || (), || ()), expected, "fib({n})");
        }
    }

    #[test]
    fn operations_are_counted_as_the_recursion_does_them() {
        fn counted(n: u32) -> u64 {
            if n < 2 { 1 } else { 4 + counted(n - 1) + counted(n - 2) }
        }
        (0..16).for_each(|n| assert_eq!(operations(n), counted(n), "fib({n})"));
    }
}
