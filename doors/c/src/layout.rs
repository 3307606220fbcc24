//! Compares the header's numbers and structures with those of this crate: a C compiler is given assertions made of
//! these.

use crate::error::status;
use crate::flow::vicus_request_options;
use crate::flow::{taken, vicus_operator};
use crate::map_reduce::vicus_map_reduce;
use crate::matrices::{order, pattern, vicus_matrix_options, vicus_tile};
use crate::memory::to;
use crate::queries::{open, query, vicus_query_options};
use crate::runtime::about;
use crate::tasks::{access, task, vicus_access, vicus_task_options};
use crate::topology::{kind, place, vicus_place};
use crate::version;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use std::fmt::Write as _;
use std::io::Write as _;
use std::mem::offset_of;
use std::path::Path;
use std::process::{Command, Stdio};
use vicus_service::LANGUAGES;

/// A structure's size, and its fields' offsets.
macro_rules! structure {
    ($out:ident, $name:ident, $($field:ident)*) => {
        writeln!($out, "SAME(sizeof({}), {});", stringify!($name), size_of::<$name>()).unwrap();
        $(writeln!($out, "SAME(offsetof({0}, {1}), \
            {2});", stringify!($name), stringify!($field), offset_of!($name, $field)).unwrap();)*
    };
}

/// Constants, by the beginning of their names in the header.
macro_rules! numbers {
    ($out:ident, $begin:literal, $module:ident, $($name:ident)*) => {
        $(writeln!($out, "SAME({}{}, {});", $begin, stringify!($name), $module::$name).unwrap();)*
    };
}

fn assertions() -> String {
    let mut out = "#include <vicus.h>\n#define SAME(a, b) _Static_assert((a) == (b), #a)\n".to_owned();
    writeln!(out, "SAME(VICUS_VERSION, {}); SAME(VICUS_ABI_VERSION, {});", version::VERSION, version::ABI).unwrap();
    numbers!(out, "VICUS_", status, OK);
    numbers!(out, "VICUS_ERROR_", status, ARGUMENT VERSION STATE SETTING SYSTEM NO_MEMORY CANCELLED CALLBACK SCHEMA
             NETWORK QUERY LIMIT BUSY DATA CLOSED INTERNAL);
    numbers!(out, "VICUS_", kind, PU CORE GROUP NODE CACHE USABLE_PU);
    numbers!(out, "VICUS_PLACE_", place, ANYWHERE NODE GROUP);
    numbers!(out, "VICUS_ABOUT_", about, STRATEGY PLAN WARNINGS TAKES);
    numbers!(out, "VICUS_", access, READ WRITE READ_WRITE CONCURRENT COMMUTATIVE);
    numbers!(out, "VICUS_ACCESS_", access, INTENSE STREAMS);
    numbers!(out, "VICUS_TASK_", task, IMMEDIATE DEFERRED PRIORITY);
    numbers!(out, "VICUS_", order, BY_ROWS BY_TILES);
    numbers!(out, "VICUS_PATTERN_", pattern, HASH STRIPES FIELDS RANDOM PLACE);
    numbers!(out, "VICUS_OPEN_", open, EXISTING CREATE);
    for language in LANGUAGES {
        let name = language.name().to_uppercase();
        writeln!(out, "SAME(VICUS_LANGUAGE_{name}, {});", language.number()).unwrap();
    }
    numbers!(out, "VICUS_QUERY_", query, ANY_ORDER);
    numbers!(out, "VICUS_", to, NEXT_TOUCH);
    numbers!(out, "VICUS_TAKEN_", taken, NOTHING ROWS END);
    structure!(out, vicus_operator, size reserved create act destroy data drop);
    structure!(out, vicus_place, kind index);
    structure!(out, vicus_access, address bytes rows stride mode flags);
    structure!(out, vicus_task_options, size flags follows follows_count touches touches_count place priority reserved);
    structure!(out, vicus_matrix_options,
               size order tile_rows tile_columns segment_pages pattern reserved seed place);
    structure!(out, vicus_tile, row_begin row_end column_begin column_end reads_row_begin reads_row_end
               reads_column_begin reads_column_end node reserved);
    structure!(out, vicus_map_reduce, size partitions map reduce combine data memory_bytes folder);
    structure!(out, vicus_request_options, size most_boxes memory_bytes temp_folder);
    structure!(out, vicus_query_options, size language timeout_ms memory_bytes most_rows first_rows base cancel flags
               most_boxes);
    for (name, bytes) in [
        ("struct ArrowSchema", size_of::<FFI_ArrowSchema>()),
        ("struct ArrowArray", size_of::<FFI_ArrowArray>()),
        ("struct ArrowArrayStream", size_of::<FFI_ArrowArrayStream>()),
    ] {
        writeln!(out, "SAME(sizeof({name}), {bytes});").unwrap();
    }
    out
}

/// Whether a C compiler takes a text; `None` if there is no compiler.
fn compiles(text: &str) -> Option<Result<(), String>> {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-fsyntax-only", "-Wall", "-Werror", "-x", "c", "-I"]).arg(include).arg("-");
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("the compiler reads");
    let output = child.wait_with_output().expect("the compiler ends");
    Some(if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) })
}

#[test]
fn the_header_has_the_numbers_and_structures_of_the_library() {
    let Some(same) = compiles(&assertions()) else { return eprintln!("left out: there is no C compiler") };
    same.unwrap();
    let wrong = assertions().replace("SAME(VICUS_ERROR_STATE, -3)", "SAME(VICUS_ERROR_STATE, -4)");
    assert!(compiles(&wrong).unwrap().is_err(), "a difference is found");
}

/// Each number of the header is compared above.
#[test]
fn no_number_of_the_header_is_left_out() {
    let header = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include/vicus.h")).unwrap();
    let names =
        header.lines().filter_map(|line| line.strip_prefix("#define VICUS_")).filter_map(|line| line.split_once(' '));
    // The parts of the version are in the whole; initial values of structures are no numbers.
    let names = names.filter(|(name, _)| !name.starts_with("VERSION_") && !name.ends_with("_INIT"));
    let known = assertions();
    let left_out: Vec<&str> =
        names.map(|(name, _)| name).filter(|name| !known.contains(&format!("SAME(VICUS_{name},"))).collect();
    assert!(left_out.is_empty(), "{left_out:?}");
}
