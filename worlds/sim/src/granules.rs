//! The division of arrays into granules: stretches undivided by the program's accesses.

use crate::{Program, Step};
use std::ops::Range;
use vicus_schedule::Access;

/// The largest granule of a cache: longer stretches without a division consist of several.
const GRANULE: usize = 64 << 10;

/// The smallest granule. If accesses divide an array more finely, its granules are twice as large as this.
const SMALL: usize = 512;

/// The division of an array into granules.
pub(crate) struct Cut {
    /// The number of its first granule.
    pub(crate) first: usize,
    bytes: usize,
    /// Each granule has this number of bytes, or several such units.
    unit: usize,
    /// By granule, the unit of its beginning, and at last that of the array's end; empty if each unit is a granule.
    starts: Vec<u32>,
    /// By unit, its granule; empty as well.
    numbers: Vec<u32>,
}

impl Cut {
    /// The granules begin at divisions, and are not larger than [`GRANULE`].
    fn new(first: usize, bytes: usize, common: usize, mut divided: Vec<bool>) -> Cut {
        let unit = granule(common, bytes);
        let (mut starts, mut numbers) = (Vec::new(), Vec::new());
        if let Some(units) = divided.len().checked_sub(1) {
            (divided[0], divided[units]) = (true, true);
            for (at, &is_divided) in divided.iter().enumerate() {
                if is_divided || starts.last().is_some_and(|&start| (at + 1 - start as usize) * unit > GRANULE) {
                    starts.push(at as u32);
                }
                numbers.push(starts.len() as u32 - 1);
            }
            numbers.pop();
            if starts.len() == units + 1 {
                (starts, numbers) = (Vec::new(), Vec::new());
            }
        }
        Cut { first, bytes, unit, starts, numbers }
    }

    pub(crate) fn granules(&self) -> usize {
        if self.starts.is_empty() { self.bytes.div_ceil(self.unit) } else { self.starts.len() - 1 }
    }

    /// The granule, counted within the array, of a byte of it.
    pub(crate) fn number(&self, byte: usize) -> usize {
        let unit = byte / self.unit;
        if self.numbers.is_empty() { unit } else { self.numbers[unit] as usize }
    }

    /// The beginning of a granule.
    pub(crate) fn start(&self, number: usize) -> usize {
        let unit = if self.starts.is_empty() { number } else { self.starts[number] as usize };
        (unit * self.unit).min(self.bytes)
    }
}

/// The stretches of an access, joined to one range if they are dense.
pub(crate) fn stretches(access: &Access) -> impl Iterator<Item = Range<usize>> + use<> {
    joined(access).stretches().filter(|stretch| !stretch.is_empty())
}

/// The access with dense rows joined to one.
fn joined(access: &Access) -> Access {
    let dense = access.rows > 1 && access.stride == access.bytes;
    if dense { Access { bytes: access.total_bytes(), rows: 1, ..*access } } else { *access }
}

/// Divides each array at the beginnings and ends of accesses.
pub(crate) fn cut(program: &Program) -> Vec<Cut> {
    let arrays = program.arrays.len();
    let mut common = vec![0usize; arrays];
    // Accesses of a few bytes must not divide the whole array as finely.
    let dividing = || {
        let steps = program.tasks.iter().flat_map(|task| &task.steps);
        let works = steps.filter_map(|step| if let Step::Work(work) = step { Some(work) } else { None });
        let accesses = works.flat_map(|work| &work.accesses).filter(|access| access.rows > 0).map(joined);
        let large = accesses.filter(|access| access.bytes >= SMALL / 2);
        large.filter_map(|access| Some((program.array_at(access.start)?, access)))
    };
    for (array, access) in dividing() {
        let stride = if access.rows > 1 { access.stride } else { 0 };
        let parts = [access.start - program.arrays[array].base, access.bytes, stride];
        common[array] = parts.into_iter().fold(common[array], gcd);
    }
    // Different arrays of a heap may have the same memory, one after the other.
    program.heap.clone().for_each(|array| common[array] = 0);
    // By array and unit, whether an access begins or ends there.
    let units = |array: usize| {
        (common[array] >= SMALL && common[array] <= GRANULE / 2)
            .then(|| program.arrays[array].bytes.div_ceil(common[array]))
    };
    let mut divided: Vec<Vec<bool>> =
        (0..arrays).map(|array| vec![false; units(array).map_or(0, |units| units + 1)]).collect();
    for (array, access) in dividing() {
        let divided = &mut divided[array];
        if !divided.is_empty() {
            for stretch in access.stretches() {
                for place in [stretch.start, stretch.end] {
                    divided[(place - program.arrays[array].base).div_ceil(common[array])] = true;
                }
            }
        }
    }
    let mut first = 0;
    let cuts = program.arrays.iter().zip(common).zip(divided).map(|((array, common), divided)| {
        let cut = Cut::new(first, array.bytes, common, divided);
        first += cut.granules();
        cut
    });
    cuts.collect()
}

/// A medium-sized divisor of the accesses' common divisor; a round number if there is none.
fn granule(common: usize, bytes: usize) -> usize {
    let common = if common == 0 { bytes.max(1) } else { common };
    if common <= GRANULE {
        return if common >= SMALL.min(bytes) { common } else { 2 * SMALL };
    }
    let parts = common.div_ceil(GRANULE);
    (parts..4 * parts).find(|&parts| common.is_multiple_of(parts)).map_or(4096, |parts| common / parts)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArraySpec, Cost, TaskSpec, Work};
    use vicus_memory::distribution::Distribution;
    use vicus_schedule::Mode;

    const MB: usize = 1 << 20;

    /// One array, and a task reading it.
    fn program(bytes: usize, accesses: &[Access]) -> Program {
        let work = Work { leaf: 0, cost: Cost::Flops(0), accesses: accesses.to_vec() };
        let root = TaskSpec { steps: vec![Step::Work(work)], ..TaskSpec::default() };
        let array = ArraySpec { base: MB, bytes, distribution: Distribution::Standard };
        let leaves = vec!["leaf".to_owned()];
        let program = Program { arrays: vec![array], leaves, tasks: vec![root], ..Program::default() };
        program.check().unwrap();
        program
    }

    /// Rows of a block and its neighbours', as those of a stencil, by chance.
    #[test]
    fn granules_begin_and_end_where_accesses_do() {
        for seed in 0..50 {
            let mut chance = crate::chance::Chance::new(seed);
            let row = 512 * (1 + chance.below(30) as usize);
            let rows = 20 + chance.below(100) as usize;
            let accesses: Vec<Access> = (0..1 + chance.below(12))
                .map(|_| {
                    let first = chance.below(rows as u64 - 1) as usize;
                    let bytes = row * (1 + chance.below(((rows - first) as u64 / 2).max(1)) as usize);
                    let read = Access::new(MB + first * row, bytes, Mode::Read);
                    match ((rows - first) * row).checked_sub(2 * bytes) {
                        Some(left) if chance.below(2) == 0 => {
                            read.rows(2, bytes + row * chance.below((left / row) as u64 + 1) as usize)
                        }
                        _ => read,
                    }
                })
                .collect();
            let cuts = cut(&program(rows * row, &accesses));
            let [cut] = &cuts[..] else { panic!("one array") };
            let starts: Vec<usize> = (0..=cut.granules()).map(|number| cut.start(number)).collect();
            assert_eq!((starts[0], starts[cut.granules()]), (0, rows * row), "seed {seed}");
            for (number, pair) in starts.windows(2).enumerate() {
                let (start, end) = (pair[0], pair[1]);
                assert!(start < end && end - start <= GRANULE, "seed {seed}: {start} to {end}");
                assert_eq!([cut.number(start), cut.number(end - 1)], [number; 2], "seed {seed}");
            }
            let ends = accesses.iter().flat_map(stretches).flat_map(|stretch| [stretch.start - MB, stretch.end - MB]);
            ends.for_each(|end| assert!(starts.contains(&end), "seed {seed}: {end} of {starts:?}"));
            // An undivided stretch is one granule, if it is not too large.
            for number in 1..cut.granules() {
                let divided = accesses
                    .iter()
                    .flat_map(stretches)
                    .any(|stretch| [stretch.start, stretch.end].contains(&(MB + starts[number])));
                let joined = starts[number + 1] - starts[number - 1];
                assert!(divided || joined > GRANULE || cut.starts.is_empty(), "seed {seed}: {number} of {starts:?}");
            }
        }
    }

    #[test]
    fn granules_divide_what_accesses_have_in_common() {
        assert_eq!(granule(5184, MB), 5184);
        assert_eq!(granule(MB, 48 * MB), GRANULE);
        assert_eq!(granule(100_000, MB), 50_000);
        assert_eq!(granule(8, MB), 1024);
        assert_eq!(granule(8, 64), 1024.min(2 * SMALL));
    }
}
