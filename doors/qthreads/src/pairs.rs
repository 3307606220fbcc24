//! Pairs of elements of two arrays, and tables of cells with dependences on their neighbours.

use crate::array::Array;
use crate::each::{each, part, workers};
use crate::exports;
use crate::loops::Argument;
use crate::object::Object;
use std::ptr;
use std::sync::Arc;

type Distance = unsafe extern "C-unwind" fn(*const libc::c_void, *const libc::c_void);
type DistanceTo = unsafe extern "C-unwind" fn(*const libc::c_void, *const libc::c_void, *mut libc::c_void);
type Cell =
    unsafe extern "C-unwind" fn(*const libc::c_void, *const libc::c_void, *const libc::c_void, *mut libc::c_void);

/// Cells `(column, row)`; the cells on the left, below, and both come first.
pub(crate) struct Lattice {
    columns: usize,
    rows: usize,
    unit: usize,
    cells: Arc<Vec<u64>>,
}

/// Calls `f` with each cell of the table, columns and rows from 1 on, one diagonal of blocks after the other.
fn wavefront(columns: usize, rows: usize, f: impl Fn(usize, usize) + Clone + Send + Sync + 'static) {
    let parts = workers().saturating_mul(4).clamp(1, 64);
    let (across, up) = (parts.min(columns).max(1), parts.min(rows).max(1));
    for diagonal in 0..across + up - 1 {
        let first = diagonal.saturating_sub(up - 1);
        let last = diagonal.min(across - 1);
        let f = f.clone();
        each(
            last - first + 1,
            |_, library| library.shepherd_for_any(),
            move |index| {
                let (column, row) = (first + index, diagonal - first - index);
                let (left, right) = part(1, columns + 1, column, across);
                let (below, above) = part(1, rows + 1, row, up);
                (below..above).for_each(|row| (left..right).for_each(|column| f(column, row)));
            },
        );
    }
}

exports! {
    fn qt_allpairs(one: Object<Array>, two: Object<Array>, f: Option<Distance>) {
        let (Some(one), Some(two), Some(f)) = (one.get(), two.get(), f) else { return };
        one.each_segment((0, one.count), move |from, to| {
            for first in from..to {
                // SAFETY: rule "Interface": the program's function, with two elements.
                (0..two.count).for_each(|second| unsafe { f(one.at(first).cast(), two.at(second).cast()) });
            }
        });
    }

    fn qt_allpairs_output(
        one: Object<Array>,
        two: Object<Array>,
        f: Option<DistanceTo>,
        output: *mut *mut libc::c_void,
        bytes: usize,
    ) {
        let (Some(one), Some(two), Some(f)) = (one.get(), two.get(), f) else { return };
        let output = Argument(output.cast());
        one.each_segment((0, one.count), move |from, to| {
            for first in from..to {
                // SAFETY: rule "Interface": there is a row for each element of the first array.
                let row = unsafe { *output.get().cast::<*mut u8>().add(first) };
                for second in 0..two.count {
                    // SAFETY: rule "Interface": the program's function, with two elements and their place in the row.
                    unsafe { f(one.at(first).cast(), two.at(second).cast(), row.add(second * bytes).cast()) };
                }
            }
        });
    }

    fn qt_basic_wavefront(table: *const *mut i32, columns: usize, rows: usize, f: Option<Cell>) {
        let Some(f) = f.filter(|_| !table.is_null()) else { return };
        let table = Argument(table.cast_mut().cast());
        let at = move |column: usize, row: usize| -> *mut i32 {
            // SAFETY: rule "Interface": the table has this number of columns, each with this number of rows.
            unsafe { (*table.get().cast::<*mut i32>().add(column)).add(row) }
        };
        // SAFETY: rule "Interface": the program's function, with a cell that no other thread has, and with three cells
        // that are done.
        wavefront(columns.saturating_sub(1), rows.saturating_sub(1), move |column, row| unsafe {
            f(
                at(column - 1, row).cast(),
                at(column - 1, row - 1).cast(),
                at(column, row - 1).cast(),
                at(column, row).cast(),
            );
        });
    }

    fn qt_wavefront(left: Object<Array>, below: Object<Array>, f: Option<Cell>) -> *mut Lattice {
        let (Some(left), Some(below)) = (left.get(), below.get()) else {
            return ptr::null_mut();
        };
        let Some(f) = f.filter(|_| left.unit() == below.unit()) else { return ptr::null_mut() };
        let (columns, rows, unit) = (below.count, left.count, left.unit());
        let Some(bytes) = columns.checked_mul(rows).and_then(|cells| cells.checked_mul(unit)) else {
            return ptr::null_mut();
        };
        let mut cells = vec![0_u64; bytes.div_ceil(8)];
        let base = Argument(cells.as_mut_ptr().cast());
        let cells = Arc::new(cells);
        let at = move |column: usize, row: usize| base.get().cast::<u8>().wrapping_add((row * columns + column) * unit);
        for row in 0..rows {
            // SAFETY: an element of the array and a cell, of the same size.
            unsafe { ptr::copy_nonoverlapping(left.at(row), at(0, row), unit) };
        }
        for column in 1..columns {
            // SAFETY: an element of the array and a cell, of the same size.
            unsafe { ptr::copy_nonoverlapping(below.at(column), at(column, 0), unit) };
        }
        let theirs = Arc::clone(&cells);
        wavefront(columns.saturating_sub(1), rows.saturating_sub(1), move |column, row| {
            let _cells = &theirs;
            // SAFETY: rule "Interface": the program's function, with a cell that no other thread has, and with three
            // cells that are done. Rule "Shared": this function owns them.
            unsafe {
                f(
                    at(column - 1, row).cast(),
                    at(column - 1, row - 1).cast(),
                    at(column, row - 1).cast(),
                    at(column, row).cast(),
                );
            }
        });
        Box::into_raw(Box::new(Lattice { columns, rows, unit, cells }))
    }

    fn qt_wavefront_print_lattice(lattice: Object<Lattice>) {
        let Some(lattice) = lattice.get() else { return };
        let bytes = lattice.cells.as_ptr().cast::<u8>();
        for row in (0..lattice.rows).rev() {
            let cell = |column: usize| {
                let at = bytes.wrapping_add((row * lattice.columns + column) * lattice.unit);
                let mut word = [0; 8];
                let length = lattice.unit.min(8);
                // SAFETY: a cell has at least this number of bytes, and the word as many.
                unsafe { ptr::copy_nonoverlapping(at, word.as_mut_ptr(), length) };
                u64::from_le_bytes(word).to_string()
            };
            println!("{}", (0..lattice.columns).map(cell).collect::<Vec<_>>().join(" "));
        }
    }

    fn qt_wavefront_destroy_lattice(lattice: Object<Lattice>) {
        drop(lattice.end());
    }
}
