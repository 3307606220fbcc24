//! Matrices with tiles at nodes, and loops over tiles.

use crate::error::{Failure, Outcome, guard, guard_or, status};
use crate::runtime::{Threads, threads};
use crate::tasks::{Data, ended};
use crate::text::{array, free, give, handle, output};
use crate::topology::vicus_place;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::{Mutex, PoisonError};
use vicus::NodeId;
use vicus::memory::array::{ArrayError, Operand, Pattern, Tile, TileOrder, Tiling};
use vicus::memory::{ArrayOptions, DistArray, PlaceError};

/// A matrix: its elements are bytes to this library.
pub(crate) struct Matrix {
    tiling: Tiling,
    elements: Elements,
}

/// An array of bytes, as one of elements.
struct Elements {
    bytes: DistArray<u8, true>,
    each: usize,
}

impl Operand for Elements {
    fn elements(&self) -> usize {
        self.bytes.len() / self.each
    }

    fn element_bytes(&self) -> usize {
        self.each
    }

    fn segment_at(&self, index: usize) -> (Range<usize>, NodeId) {
        let (bytes, node) = self.bytes.segment_at(index * self.each);
        // Segments hold whole blocks, and blocks whole elements.
        (bytes.start / self.each..bytes.end / self.each, node)
    }
}

/// `vicus_matrix_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "the name that the header has")]
pub(crate) struct vicus_matrix_options {
    /// The bytes of the program's structure.
    pub(crate) size: u32,
    /// The order of tiles, from `order`.
    pub(crate) order: u32,
    /// Rows of a tile; 0: the library's choice.
    pub(crate) tile_rows: usize,
    /// Columns of a tile; 0 is all.
    pub(crate) tile_columns: usize,
    /// Pages of a segment; 0: the library's choice.
    pub(crate) segment_pages: usize,
    /// The pattern of segments, from `pattern`.
    pub(crate) pattern: u32,
    /// For later.
    pub(crate) reserved: u32,
    /// For patterns by chance.
    pub(crate) seed: u64,
    /// For all segments at one place.
    pub(crate) place: vicus_place,
}

/// The orders of elements, by the numbers of the header.
pub(crate) mod order {
    pub(crate) const BY_ROWS: u32 = 0;
    pub(crate) const BY_TILES: u32 = 1;
}

/// The nodes of segments, by the numbers of the header.
pub(crate) mod pattern {
    pub(crate) const HASH: u32 = 0;
    pub(crate) const STRIPES: u32 = 1;
    pub(crate) const FIELDS: u32 = 2;
    pub(crate) const RANDOM: u32 = 3;
    pub(crate) const PLACE: u32 = 4;
}

/// `vicus_tile`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "the name that the header has")]
pub(crate) struct vicus_tile {
    /// The rows of its own elements, from `row_begin` up to, but not including, `row_end`. So for the others.
    pub(crate) row_begin: usize,
    pub(crate) row_end: usize,
    pub(crate) column_begin: usize,
    pub(crate) column_end: usize,
    /// The rows read.
    pub(crate) reads_row_begin: usize,
    pub(crate) reads_row_end: usize,
    pub(crate) reads_column_begin: usize,
    pub(crate) reads_column_end: usize,
    /// The node of most of its own bytes.
    pub(crate) node: i32,
    /// For later.
    pub(crate) reserved: u32,
}

impl From<Tile> for vicus_tile {
    fn from(tile: Tile) -> vicus_tile {
        let Tile { rows, columns, reads_rows, reads_columns, node } = tile;
        vicus_tile {
            row_begin: rows.start,
            row_end: rows.end,
            column_begin: columns.start,
            column_end: columns.end,
            reads_row_begin: reads_rows.start,
            reads_row_end: reads_rows.end,
            reads_column_begin: reads_columns.start,
            reads_column_end: reads_columns.end,
            node: node.index() as i32,
            reserved: 0,
        }
    }
}

/// `vicus_tile_fn`.
type TileFn = unsafe extern "C" fn(data: *mut c_void, tile: *const vicus_tile) -> i32;

impl From<ArrayError> for Failure {
    fn from(error: ArrayError) -> Failure {
        match error {
            ArrayError::Place(place @ PlaceError::Distribution(_)) => place.into(),
            ArrayError::Place(_) | ArrayError::TooLarge { .. } => Failure::new(status::NO_MEMORY, error),
            _ => Failure::argument(error),
        }
    }
}

/// The approximate bytes of a tile by default.
const TILE_BYTES: usize = 64 << 10;

/// The defaults of a matrix: [`vicus_matrix_options`] from `VICUS_MATRIX_OPTIONS_INIT`.
const DEFAULT: vicus_matrix_options = vicus_matrix_options {
    size: size_of::<vicus_matrix_options>() as u32,
    order: order::BY_ROWS,
    tile_rows: 0,
    tile_columns: 0,
    segment_pages: 0,
    pattern: pattern::HASH,
    reserved: 0,
    seed: 0,
    place: vicus_place { kind: crate::topology::place::ANYWHERE, index: 0 },
};

/// # Safety
/// Rule "Handles".
unsafe fn said(options: *const vicus_matrix_options) -> Outcome<vicus_matrix_options> {
    // SAFETY: rule "Handles"; the size is the first field of every version.
    let Some(size) = (unsafe { options.cast::<u32>().as_ref() }) else { return Ok(DEFAULT) };
    if *size != DEFAULT.size {
        let message = format!("`options.size` is {size}: begin with VICUS_MATRIX_OPTIONS_INIT, which sets it");
        return Err(Failure::argument(message));
    }
    // SAFETY: the structure is whole, as its size says.
    Ok(unsafe { *options })
}

impl vicus_matrix_options {
    fn tiling(&self, rows: usize, columns: usize, element: usize) -> Outcome<Tiling> {
        let order = match self.order {
            order::BY_ROWS => TileOrder::Rows,
            order::BY_TILES => TileOrder::Tiles,
            other => return Err(Failure::argument(format_args!("there is no order with the number {other}"))),
        };
        let wide = if self.tile_columns == 0 { columns.max(1) } else { self.tile_columns };
        let row = wide.min(columns.max(1)).saturating_mul(element);
        let high = if self.tile_rows == 0 { (TILE_BYTES / row).max(1) } else { self.tile_rows };
        let too_many = || Failure::new(status::NO_MEMORY, format_args!("{rows} x {columns} elements are too many"));
        Tiling::new([rows, columns], [high, wide], order).ok_or_else(too_many)
    }
}

/// # Safety
/// Rules "Handles" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_matrix_new(
    runtime: *const Threads,
    rows: usize,
    columns: usize,
    element_bytes: usize,
    options: *const vicus_matrix_options,
    matrix: *mut *mut Matrix,
) -> i32 {
    guard(|| {
        crate::version::is_right()?;
        let out = output(matrix, "matrix")?;
        if element_bytes == 0 {
            return Err(Failure::argument("`element_bytes` is 0"));
        }
        // SAFETY: rule "Handles".
        let (options, threads) = unsafe { (said(options)?, threads(runtime)?) };
        let tiling = options.tiling(rows, columns, element_bytes)?;
        let pattern = match options.pattern {
            pattern::HASH => Pattern::StaticHash,
            pattern::STRIPES => Pattern::Stripes,
            pattern::FIELDS => Pattern::Fields,
            pattern::RANDOM => Pattern::Random(options.seed),
            pattern::PLACE => Pattern::AllOn(options.place.exactly_on(threads.runtime().topology())?),
            other => return Err(Failure::argument(format_args!("there is no pattern with the number {other}"))),
        };
        let none = || Failure::new(status::NO_MEMORY, "the system has no addresses for memory on nodes");
        let memory = threads.runtime().memory().ok_or_else(none)?;
        let bytes = |elements: usize| {
            let too_large = ArrayError::TooLarge { len: elements, stride: element_bytes };
            elements.checked_mul(element_bytes).ok_or(too_large)
        };
        let usual = ArrayOptions::default().segment_pages;
        let array = ArrayOptions {
            pattern,
            segment_pages: if options.segment_pages == 0 { usual } else { options.segment_pages },
            block: bytes(tiling.block())?,
        };
        let bytes = DistArray::tight_zeroed(memory, bytes(tiling.elements())?, array)?;
        // SAFETY: rule "Outputs".
        unsafe { give(out, Matrix { tiling, elements: Elements { bytes, each: element_bytes } }) };
        Ok(())
    })
}

impl Matrix {
    /// The index of an element's first byte.
    fn at(&self, row: usize, column: usize) -> Outcome<usize> {
        let [rows, columns] = self.tiling.shape();
        if row >= rows || column >= columns {
            let message =
                format!("there is no row {row} and column {column}: there are {rows} and {columns}, from 0 on");
            return Err(Failure::argument(message));
        }
        Ok(self.tiling.at(row, column) * self.elements.each)
    }

    fn start(&self) -> *mut c_void {
        self.elements.bytes.placed().start().as_ptr().cast()
    }
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_matrix_data(matrix: *const Matrix) -> *mut c_void {
    // SAFETY: rule "Handles".
    guard_or(ptr::null_mut(), || unsafe { matrix.as_ref() }.map_or(ptr::null_mut(), Matrix::start))
}

/// # Safety
/// Rules "Handles" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_matrix_at(
    matrix: *const Matrix,
    row: usize,
    column: usize,
    element: *mut *mut c_void,
    in_row: *mut usize,
) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        let matrix = unsafe { handle(matrix, "matrix") }?;
        let at = matrix.at(row, column)?;
        // SAFETY: rule "Outputs"; the byte is one of the array's.
        unsafe {
            output(element, "element")?.write(matrix.start().byte_add(at));
            if !in_row.is_null() {
                in_row.write(matrix.tiling.in_row(column));
            }
        }
        Ok(())
    })
}

/// # Safety
/// Rules "Handles" and "Outputs".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_matrix_tile(
    matrix: *const Matrix,
    tile_rows: *mut usize,
    tile_columns: *mut usize,
) -> i32 {
    guard(|| {
        // SAFETY: rule "Handles".
        let [rows, columns] = unsafe { handle(matrix, "matrix") }?.tiling.tile();
        // SAFETY: rule "Outputs".
        unsafe {
            output(tile_rows, "tile_rows")?.write(rows);
            output(tile_columns, "tile_columns")?.write(columns);
        }
        Ok(())
    })
}

/// # Safety
/// Rule "Handles".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_matrix_free(matrix: *mut Matrix) {
    // SAFETY: rule "Handles".
    guard_or((), || unsafe { free(matrix) });
}

/// # Safety
/// Rules "Handles", "Arrays" and "Callbacks".
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vicus_for_each_tile(
    runtime: *const Threads,
    matrices: *const *const Matrix,
    count: usize,
    reach_rows: usize,
    reach_columns: usize,
    function: Option<TileFn>,
    data: *mut c_void,
) -> i32 {
    guard(|| {
        let function = function.ok_or_else(|| Failure::argument("`function` is null"))?;
        // SAFETY: rule "Arrays".
        let pointers = unsafe { array(matrices, count, "matrices") }?;
        // SAFETY: rule "Handles".
        let all = pointers.iter().map(|&matrix| unsafe { handle(matrix, "matrices") });
        let all: Vec<&Matrix> = all.collect::<Outcome<_>>()?;
        let Some(first) = all.first() else { return Err(Failure::argument("`count` is 0: a loop has a matrix")) };
        if let Some(other) = all.iter().find(|matrix| matrix.tiling.shape() != first.tiling.shape()) {
            let ([rows, columns], [other_rows, other_columns]) = (first.tiling.shape(), other.tiling.shape());
            let message = format!(
                "matrices of a loop have one shape, and here are {rows} x {columns}, and {other_rows} x {other_columns}"
            );
            return Err(Failure::argument(message));
        }
        // SAFETY: rule "Handles".
        let threads = unsafe { threads(runtime) }?;
        let nodes = threads.runtime().topology().nodes.len();
        let operands: Vec<(&Tiling, &dyn Operand)> =
            all.iter().map(|matrix| (&matrix.tiling, &matrix.elements as &dyn Operand)).collect();
        let tiles: Vec<(vicus_tile, NodeId)> = first
            .tiling
            .tiles(&operands, [reach_rows, reach_columns])
            .map(|tile| {
                // A matrix of another runtime may lie on a machine with more nodes.
                let node = tile.node;
                (tile.into(), if node.index() < nodes { node } else { NodeId::default() })
            })
            .collect();
        let data = Data(data);
        let failure: Mutex<Option<Failure>> = Mutex::new(None);
        let failed = || failure.lock().unwrap_or_else(PoisonError::into_inner);
        threads.runtime().each_near(tiles, |tile: vicus_tile| {
            if failed().is_some() {
                return;
            }
            let data = &data;
            // SAFETY: rule "Callbacks".
            if let Err(wrong) = ended(unsafe { function(data.0, &raw const tile) }) {
                failed().get_or_insert(wrong);
            }
        })?;
        failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    })
}
