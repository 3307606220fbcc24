//! Nests of loops that run as one: the number of iterations of all together, the loop variables' values in one of them,
//! and a thread's part. Compilers call these if the bounds of a loop depend on an outer loop's variable, or if they
//! leave the arithmetic to the library.

use super::Location;
use crate::exports::exports;
use crate::thread::here;

/// A loop of a nest, as LLVM's `kmp_collapse.h` declares `bounds_info_t`. Its bounds are `lower + lower_by * outer`,
/// `upper + upper_by * outer` with the variable of the loop `outer`, in the type `kind`; of a type of 32 bits the lower
/// halves count.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Nested {
    kind: i32,
    /// The type of the variable; it may be shorter.
    variable: i32,
    comparison: i32,
    outer: i32,
    lower: u64,
    lower_by: u64,
    upper: u64,
    upper_by: u64,
    step: i64,
    count: u64,
}

const AT_MOST: i32 = 0;
const AT_LEAST: i32 = 1;
const NOT_EQUAL: i32 = 2;
const LESS: i32 = 3;
const GREATER: i32 = 4;

/// Bits as a number of a type.
fn number(kind: i32, bits: u64) -> i128 {
    match kind {
        0 => i128::from(bits as u8),
        1 => i128::from(bits as i8),
        2 => i128::from(bits as u16),
        3 => i128::from(bits as i16),
        4 => i128::from(bits as u32),
        5 => i128::from(bits as i32),
        6 => i128::from(bits),
        _ => i128::from(bits as i64),
    }
}

impl Nested {
    fn step(&self) -> i128 {
        if matches!(self.kind, 4 | 5) { i128::from(self.step as i32) } else { i128::from(self.step) }
    }

    /// `!=` is a comparison by order, as the sign of the step says.
    fn order(&self) -> i32 {
        match self.comparison {
            NOT_EQUAL if self.step() > 0 => LESS,
            NOT_EQUAL => GREATER,
            other => other,
        }
    }

    fn bound(&self, first: u64, by: u64, values: &[u64]) -> u64 {
        let outer = usize::try_from(self.outer).ok().and_then(|outer| values.get(outer)).copied().unwrap_or(0);
        first.wrapping_add(by.wrapping_mul(outer))
    }

    /// Whether its bounds depend on the variable of this outer loop.
    fn depends_on(&self, outer: usize) -> bool {
        self.outer == outer as i32 && (number(self.kind, self.lower_by) != 0 || number(self.kind, self.upper_by) != 0)
    }

    /// How many iterations it has for these values of the outer loops.
    fn iterations(&self, values: &[u64]) -> u64 {
        let lower = number(self.kind, self.bound(self.lower, self.lower_by, values));
        let upper = number(self.kind, self.bound(self.upper, self.upper_by, values));
        let distance = match self.order() {
            AT_MOST => upper - lower,
            AT_LEAST => lower - upper,
            LESS => upper - lower - 1,
            _ => lower - upper - 1,
        };
        if distance < 0 {
            return 0;
        }
        u64::try_from(distance / self.step().abs().max(1) + 1).unwrap_or(u64::MAX)
    }

    /// The value of its variable in this iteration.
    fn value(&self, iteration: u64, values: &[u64]) -> u64 {
        let lower = self.bound(self.lower, self.lower_by, values);
        number(self.variable, lower.wrapping_add(iteration.wrapping_mul(self.step() as u64))) as u64
    }

    /// Rewrites the loop with `<=` or `>=`, as callers expect it. A loop that ends before the first number of its type
    /// has no iteration and stays as it is.
    fn make_canonical(&mut self) {
        let one = if self.order() == LESS { 1_i128 } else { -1 };
        if !matches!(self.order(), LESS | GREATER) {
            return;
        }
        let upper = self.upper.wrapping_sub(one as u64);
        if number(self.kind, upper) + one == number(self.kind, self.upper) || number(self.kind, self.upper_by) != 0 {
            self.upper = upper;
            self.comparison = if one == 1 { AT_MOST } else { AT_LEAST };
        }
    }
}

/// A nest with its count of iterations. All iterations of a loop contain the same number unless the bounds of an inner
/// loop depend on its variable; only then are they visited one by one, so the innermost loop never is.
struct Nest {
    loops: Vec<Nested>,
    /// By loop: whether a loop within depends on it.
    is_visited: Vec<bool>,
}

impl Nest {
    fn new(loops: Vec<Nested>) -> Nest {
        let is_visited = (0..loops.len()).map(|at| loops[at + 1..].iter().any(|inner| inner.depends_on(at))).collect();
        Nest { loops, is_visited }
    }

    /// The iterations of the loops from `at` on, for these values of the outer loops.
    fn count(&self, at: usize, values: &mut [u64]) -> u128 {
        let Some(one) = self.loops.get(at) else { return 1 };
        let iterations = one.iterations(values);
        if self.is_visited[at] {
            return (0..iterations).map(|iteration| self.count_within(at, iteration, values)).sum();
        }
        if iterations == 0 { 0 } else { u128::from(iterations) * self.count_within(at, 0, values) }
    }

    /// The iterations within one iteration of a loop.
    fn count_within(&self, at: usize, iteration: u64, values: &mut [u64]) -> u128 {
        values[at] = self.loops[at].value(iteration, values);
        self.count(at + 1, values)
    }

    /// The variables' values in the iteration of this number; it is less than the count.
    fn find(&self, mut number: u128) -> Vec<u64> {
        let mut values = vec![0; self.loops.len()];
        for at in 0..self.loops.len() {
            let mut iteration = 0;
            let mut within = self.count_within(at, iteration, &mut values);
            if !self.is_visited[at] {
                iteration = (number / within) as u64;
                number %= within;
            }
            while number >= within {
                number -= within;
                iteration += 1;
                within = self.count_within(at, iteration, &mut values);
            }
            values[at] = self.loops[at].value(iteration, &values);
        }
        values
    }
}

/// # Safety
/// There are `count` loops, which are used by the caller alone as long as the reference lives.
unsafe fn nest<'a>(loops: *mut Nested, count: i32) -> &'a mut [Nested] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(loops, count.max(0) as usize) }
}

exports! {
    "VERSION":
    /// The number of iterations of a nest with independent bounds.
    fn __kmpc_process_loop_nest_rectang(_location: Location, _thread: i32, loops: *mut Nested, count: i32) -> u64 {
        // SAFETY: rule "Interface": there are `count` loops, which the program does not use during the call.
        let loops = unsafe { nest(loops, count) };
        let mut all = 1_u64;
        for one in loops {
            one.count = one.iterations(&[]);
            one.make_canonical();
            all = all.wrapping_mul(one.count);
        }
        all
    }

    "VERSION":
    /// The values of its variables in an iteration.
    fn __kmpc_calc_original_ivs_rectang(
        _location: Location, number: u64, loops: *mut Nested, values: *mut u64, count: i32,
    ) {
        let mut number = number;
        // SAFETY: rule "Interface": there are `count` loops, which the program does not use during the call.
        for (at, one) in unsafe { nest(loops, count) }.iter().enumerate().rev() {
            let iterations = one.count.max(1);
            // SAFETY: rule "Interface": there is a value for each loop.
            unsafe { *values.add(at) = one.value(number % iterations, &[]) };
            number /= iterations;
        }
    }

    "VERSION":
    /// The calling thread's part of a nest, from one iteration to another one in the order of the program. Whether it
    /// has one.
    fn __kmpc_for_collapsed_init(
        _location: Location, _thread: i32, loops: *mut Nested, part: *mut Nested, count: i32, last: *mut i32,
    ) -> i32 {
        // SAFETY: rule "Interface": there are `count` loops, which the program does not use during the call.
        let loops = unsafe { nest(loops, count) };
        let exact = Nest::new(loops.to_vec());
        loops.iter_mut().for_each(Nested::make_canonical);
        let all = exact.count(0, &mut vec![0; loops.len()]);
        let (number, size) = (u128::from(here().number), u128::from(here().team().size));
        let (each, more) = (all / size, all % size);
        let first = each * number + number.min(more);
        let behind = first + each + u128::from(number < more);
        // SAFETY: rule "Interface": null, or an address that can be written.
        if let Some(last) = unsafe { last.as_mut() } {
            *last = i32::from(first < behind && behind == all);
        }
        if first == behind {
            return 0;
        }
        let (from, to) = (exact.find(first), exact.find(behind - 1));
        // SAFETY: rule "Interface": there are `count` loops, which the program does not use during the call.
        for (at, one) in unsafe { nest(part, count) }.iter_mut().enumerate() {
            *one = Nested { lower: from[at], lower_by: 0, upper: to[at], upper_by: 0, ..loops[at] };
        }
        1
    }
}
