//! Packed columns against plain ones.

use super::*;
use proptest::prelude::*;
use vicus_memory::{FakePages, Memory, MemoryOptions};
use vicus_topology::Topology;

fn pack<const N: usize>(rows: &[[u64; N]]) -> Packed<N> {
    let mut packing = Packing::default();
    rows.iter().for_each(|row| packing.push(*row).unwrap());
    packing.finish().unwrap()
}

fn column(values: &[u64]) -> Packed<1> {
    pack(&values.iter().map(|&value| [value]).collect::<Vec<_>>())
}

fn filled<const N: usize>(packed: &Packed<N>, column: usize, rows: Range<usize>) -> Vec<u64> {
    let mut values = Vec::new();
    Unfilled::of(&mut values, rows.len(), |room| packed.fill(column, rows, room));
    values
}

/// Values of up to `width` bits; in some blocks, of several kinds, as ids are.
fn values() -> impl Strategy<Value = Vec<u64>> {
    let block = (0..=64_u32, 0..12_u64, any::<u64>()).prop_flat_map(|(width, kinds, base)| {
        let value = (any::<u64>(), 0..=kinds).prop_map(move |(bits, kind)| {
            (base.wrapping_add(kind << 57)).wrapping_add(if width == 64 { bits } else { bits & low(width) })
        });
        proptest::collection::vec(value, 0..300)
    });
    proptest::collection::vec(block, 0..5).prop_map(|blocks| blocks.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_row_reads_as_it_was_pushed(
        values in values(),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 8),
    ) {
        let packed = column(&values);
        prop_assert_eq!(packed.len(), values.len());
        let read: Vec<u64> = (0..values.len()).map(|row| packed.get(0, row)).collect();
        prop_assert_eq!(&read, &values);
        for pair in cuts.chunks(2) {
            let (a, b) = (pair[0].index(values.len() + 1), pair[1].index(values.len() + 1));
            let rows = a.min(b)..a.max(b);
            prop_assert_eq!(&filled(&packed, 0, rows.clone()), &values[rows.clone()]);
            let each: Vec<u64> = packed.values(0, rows.clone()).collect();
            prop_assert_eq!(&each, &values[rows.clone()]);
            let backward: Vec<u32> = rows.clone().rev().map(|row| row as u32).collect();
            let mut gathered = Vec::new();
            Unfilled::of(&mut gathered, rows.len(), |room| packed.gather(0, &backward, room));
            gathered.reverse();
            prop_assert_eq!(&gathered, &values[rows]);
        }
    }

    #[test]
    fn a_search_in_ascending_rows_is_a_partition_point(
        values in values(),
        sorted in any::<(proptest::sample::Index, proptest::sample::Index)>(),
        asked in proptest::collection::vec(
            (any::<proptest::sample::Index>(), any::<proptest::sample::Index>(), -1..=1_i64),
            60,
        ),
        few: bool,
    ) {
        // Only the searched rows ascend. Those around them have any values.
        let mut values = values;
        let (a, b) = (sorted.0.index(values.len() + 1), sorted.1.index(values.len() + 1));
        let rows = a.min(b)..a.max(b);
        if few {
            values.iter_mut().for_each(|value| *value >>= 54);
        }
        values[rows.clone()].sort_unstable();
        let (packed, mut window) = (column(&values), Window::default());
        for (hint, value, by) in asked {
            let value = if values.is_empty() { 7 } else { values[value.index(values.len())].saturating_add_signed(by) };
            let hint = hint.index(values.len() + 10);
            let within = &values[rows.clone()];
            let place = |bound: &dyn Fn(u64) -> bool| rows.start + within.partition_point(|&other| bound(other));
            let (start, end) = (place(&|other| other < value), place(&|other| other <= value));
            for hint in [Some(hint), None] {
                prop_assert_eq!(packed.lower_bound(0, rows.clone(), hint, value), start, "{} from {:?}", value, hint);
            }
            prop_assert_eq!(packed.equal_once(0, rows.clone(), value), start..end, "{}", value);
            let found = packed.equal(0, rows.clone(), hint, value, &mut window);
            prop_assert_eq!(found, start..end, "{} from {}", value, hint);
        }
    }

    /// A file may hold anything. Each read must end, and none may be outside of the bytes.
    #[test]
    fn wrong_bytes_are_wrong_values(
        frames in proptest::collection::vec(any::<u8>(), 4 * FRAME),
        data in proptest::collection::vec(any::<u8>(), 0..700),
        near: bool,
        asked in any::<(u64, usize)>(),
    ) {
        let mut frames = frames;
        // Otherwise few places are within the data.
        if near {
            frames.chunks_mut(FRAME).for_each(|frame| frame[9..14].fill(0));
        }
        let rows = BLOCK + 17;
        let packed: Packed<2> = Packed { rows, frames: frames.into(), data: data.into() };
        for column in 0..2 {
            let values: Vec<u64> = (0..rows).map(|row| packed.get(column, row)).collect();
            prop_assert_eq!(&filled(&packed, column, 0..rows), &values);
            prop_assert!(packed.values(column, 3..rows).eq(values[3..].iter().copied()));
            let found = packed.equal(column, 5..rows - 3, asked.1, asked.0, &mut Window::default());
            prop_assert!(5 <= found.start && found.end <= rows - 3);
        }
    }
}

#[test]
fn all_widths_and_edges_of_blocks_are_right() {
    for width in 0..=64 {
        for count in [1, 7, 8, 9, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 9] {
            // Fibonacci hashing spreads the numbers over all bits.
            let value = |row: usize| (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) & low(width);
            let mut values: Vec<u64> = (0..count).map(value).collect();
            values[0] = 0;
            values[count / 2] = low(width);
            let packed = column(&values);
            assert_eq!(filled(&packed, 0, 0..count), values, "{width} bits");
            assert!((0..count).all(|row| packed.get(0, row) == values[row]), "{width} bits");
            values.sort_unstable();
            let (packed, mut window) = (column(&values), Window::default());
            for (row, &value) in values.iter().enumerate() {
                assert_eq!(packed.read(0, row, &mut window), value);
                let found = packed.equal(0, 0..count, row.saturating_sub(5), value, &mut window);
                let near = packed.slice(0, row..count, &mut window);
                assert!(!near.is_empty() && values[row..].starts_with(near));
                assert_eq!(found.start, values.partition_point(|&other| other < value));
                assert_eq!(found.end, values.partition_point(|&other| other <= value));
            }
        }
    }
}

#[test]
fn columns_take_the_bits_that_their_blocks_need() {
    const ROWS: usize = 64 * BLOCK;
    let bits_a_row = |values: Vec<u64>| column(&values).heap_bytes() as f64 * 8.0 / ROWS as f64;
    let frames = FRAME as f64 * 8.0 / BLOCK as f64 + 0.1;
    assert!(bits_a_row(vec![1 << 60; ROWS]) <= frames);
    assert!(bits_a_row((0..ROWS as u64).collect()) <= 8.0 + frames);
    let spread = |row: u64| row.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    assert!(bits_a_row((0..ROWS as u64).map(|row| 1 << 60 | spread(row) >> 40).collect()) <= 24.0 + frames);
    // Five kinds of 2^10 values each, and 20 predicates in four vocabularies far apart.
    let kinds = |row: u64| ((spread(row) >> 32) % 5) << 60 | spread(row) >> 54;
    assert!(bits_a_row((0..ROWS as u64).map(kinds).collect()) <= 13.0 + 2.0 + frames);
    let predicates = |row: u64| ((spread(row) >> 32) % 4) * 100_000 + (spread(row) >> 40) % 5;
    assert!(bits_a_row((0..ROWS as u64).map(predicates).collect()) <= 5.0 + 1.0 + frames);
}

#[test]
fn both_columns_of_a_row_lie_on_one_node() {
    let rows: Vec<[u64; 2]> = (0..200_000_u64).map(|row| [row, row.wrapping_mul(0x9E37_79B9_7F4A_7C15)]).collect();
    let machine = Topology::parse("node:3 core:1").unwrap();
    let options = MemoryOptions { range_bytes: 32 << 20, placed_bytes: 64 << 20, ..MemoryOptions::default() };
    let memory = Memory::new(std::sync::Arc::new(FakePages::new(3)), &machine, options).unwrap();
    let mut packed = pack(&rows);
    assert_eq!(packed.homes(9..700), [(9..700, None)]);
    packed.lay(&StorePlacement { memory: std::sync::Arc::clone(&memory), threads: vec![1, 0, 2] });
    assert!((0..rows.len()).step_by(97).all(|row| [packed.get(0, row), packed.get(1, row)] == rows[row]));
    let homes = packed.homes(9..199_000);
    assert_eq!(homes.len(), 2, "a range on each node with threads");
    assert_eq!((homes[0].0.start, homes[0].0.end, homes[1].0.end), (9, homes[1].0.start, 199_000));
    for (rows, home) in homes {
        assert_eq!([packed.home(rows.start), packed.home(rows.end - 1)], [home; 2]);
        // The blocks' own addresses, without the last one, as it may reach over the cut.
        let places = packed.place(rows.start / BLOCK)..packed.place((rows.end - 1) / BLOCK);
        let footprint = memory.footprint(packed.data.part(places.clone()));
        assert_eq!(footprint.nodes[home.unwrap().index()], places.len(), "{footprint:?}");
    }
}

#[test]
fn galloping_finds_the_same_place_from_anywhere() {
    for length in 0..40_usize {
        for bound in 0..=length {
            for hint in 0..=length + 1 {
                assert_eq!(gallop(3..3 + length, hint, |item| item < 3 + bound), 3 + bound, "of {length} from {hint}");
            }
        }
    }
}

/// Values of 0 to 255 take eight bits each, those of 0 and 1 one bit, equal ones none.
#[test]
fn reading_rows_reads_the_bits_of_their_codes() {
    let packed = pack(&(0..1000).map(|n| [n % 256, n % 2, 7]).collect::<Vec<_>>());
    for (column, rows, bytes) in
        [(0, 0..1000, 1000), (0, 300..500, 200), (1, 0..1000, 125), (1, 10..11, 1), (2, 0..1000, 0), (0, 5..5, 0)]
    {
        assert_eq!(packed.bytes_of(column, rows.clone()), bytes, "column {column}, {rows:?}");
    }
}
