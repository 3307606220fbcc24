//! `include/vicus.h` is written by hand: here its functions are held against those of the library and of the source,
//! both ways.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A function's result and parameters, as types alone.
type Signature = (String, Vec<String>);

/// Without `const`, spaces and names of parameters: one side has `const` handles if nothing is changed, the other if
/// the caller's pointer may be `const`.
fn c_type(text: &str, has_name: bool) -> String {
    let apart = text.replace('*', " * ");
    let words: Vec<&str> = apart.split_whitespace().filter(|word| *word != "const").collect();
    let text = words.join(" ");
    let end = if has_name { text.rfind([' ', '*']).map_or(text.len(), |at| at + 1) } else { text.len() };
    text[..end].replace(' ', "")
}

/// The functions declared by a header.
fn declared(header: &str) -> BTreeMap<String, Signature> {
    let mut code = String::new();
    for (number, part) in header.split("/*").enumerate() {
        code += if number == 0 { part } else { part.split_once("*/").expect("a comment ends").1 };
    }
    let lines: String = code.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    let mut found = BTreeMap::new();
    for statement in lines.split([';', '{', '}']) {
        let statement = statement.trim();
        let function = statement
            .split_once('(')
            .filter(|(before, _)| ["typedef", "static", "return"].iter().all(|word| !before.contains(word)));
        let Some((before, parameters)) = function else { continue };
        let name = before.rsplit([' ', '*']).next().unwrap_or_default();
        if !name.starts_with("vicus_") {
            continue;
        }
        let parameters = parameters.trim_end_matches(')').split(',').map(str::trim).filter(|one| *one != "void");
        let result = c_type(&before[..before.len() - name.len()], false);
        found.insert(name.to_owned(), (result, parameters.map(|one| c_type(one, true)).collect()));
    }
    found
}

/// A type of the source as the header names it.
fn of_rust(text: &str) -> String {
    let text = text.trim();
    let pointee = text.strip_prefix("*mut ").or_else(|| text.strip_prefix("*const "));
    if let Some(pointee) = pointee {
        return format!("{}*", of_rust(pointee));
    }
    let optional = text.strip_prefix("Option<").and_then(|text| text.strip_suffix('>')).unwrap_or(text);
    let known = match optional.rsplit("::").next().unwrap_or_default() {
        "i32" => "int32_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "i64" => "int64_t",
        "usize" => "size_t",
        "c_char" => "char",
        "c_void" | "()" => "void",
        "Topology" => "vicus_topology",
        "Options" => "vicus_options",
        "Threads" => "vicus_runtime",
        "Pending" => "vicus_request",
        "Queue" => "vicus_queue",
        "Matrix" => "vicus_matrix",
        "Emitter" => "vicus_emitter",
        "Values" => "vicus_values",
        "TileFn" => "vicus_tile_fn",
        "Pool" => "vicus_pool",
        "UntypedHandle" => "vicus_pool_handle",
        "Reservation" => "vicus_reservation",
        "Kit" => "vicus_prepared",
        "Cancel" => "vicus_cancel",
        "Resume" => "vicus_paused",
        "Network" => "vicus_network",
        "Arc<Model>" => "vicus_model",
        "OpenData" => "vicus_data",
        "FFI_ArrowArrayStream" => "structArrowArrayStream",
        "FFI_ArrowArray" => "structArrowArray",
        "FFI_ArrowSchema" => "structArrowSchema",
        "WriteFn" => "vicus_write_fn",
        "TaskFn" => "vicus_task_fn",
        "DropFn" => "vicus_drop_fn",
        "ScopeFn" => "vicus_scope_fn",
        "PieceFn" => "vicus_piece_fn",
        "ThreadFn" => "vicus_thread_fn",
        "MapFn" => "vicus_map_fn",
        "CombineFn" => "vicus_combine_fn",
        "PolicyFn" => "vicus_policy_fn",
        other => other,
    };
    known.to_owned()
}

/// The functions exported by the source.
fn exported(source: &str) -> BTreeMap<String, Signature> {
    let mut found = BTreeMap::new();
    for part in source.split("#[unsafe(no_mangle)]").skip(1) {
        let rest = part.split_once("extern \"C\" fn ").expect("what is exported is a function").1;
        let (name, rest) = rest.split_once('(').expect("it has parameters");
        let (parameters, rest) = rest.split_once(')').expect("they end");
        let result = rest.split_once('{').expect("it has a body").0.trim().trim_start_matches("->").trim();
        let types = parameters.split(',').filter_map(|one| one.split_once(':')).map(|(_, kind)| of_rust(kind));
        let result = if result.is_empty() { "void".to_owned() } else { of_rust(result) };
        found.insert(name.to_owned(), (result, types.collect()));
    }
    found
}

fn header() -> String {
    fs::read_to_string(folder().join("../../include/vicus.h")).expect("the header is there")
}

#[test]
fn the_header_declares_what_the_source_exports() {
    let mut sources = BTreeMap::new();
    for entry in fs::read_dir(folder().join("src")).expect("the source is there") {
        sources.append(&mut exported(&fs::read_to_string(entry.expect("an entry").path()).expect("a text")));
    }
    let header = declared(&header());
    assert!(header.len() > 40, "the header is understood: {header:?}");
    for (name, signature) in &sources {
        assert_eq!(Some(signature), header.get(name), "{name}: the source, and the header");
    }
    let others: Vec<&String> = header.keys().filter(|name| !sources.contains_key(*name)).collect();
    assert!(others.is_empty(), "the header declares what is not there: {others:?}");
}

#[test]
fn a_difference_is_found() {
    let header =
        "/* int32_t vicus_no(void); */\nint32_t vicus_a(const char *b, vicus_runtime **out);\nvoid *vicus_c(void);\n";
    let header = declared(header);
    let source = [
        "#[unsafe(no_mangle)]\npub(crate) unsafe extern \"C\" fn vicus_a(b: *const c_char, out: *mut *mut Threads) -> \
            i32 {}\n",
        "#[unsafe(no_mangle)]\npub(crate) extern \"C\" fn vicus_c() -> *mut c_void {}\n",
    ]
    .concat();
    assert_eq!(header, exported(&source));
    assert_ne!(header, exported(&source.replace("-> i32", "-> i64")));
    assert_ne!(header, exported(&source.replace("*mut *mut", "*mut")));
}

/// A program linked with the library sees all names of the header, and no others.
#[test]
fn the_library_exports_the_headers_functions_alone() {
    let own = env::current_exe().expect("a test knows its file");
    let library = |folder: &Path| Some(folder.join("libvicus_c.so")).filter(|path| path.exists());
    let path: PathBuf =
        own.ancestors().skip(1).take(2).find_map(library).expect("cargo builds the library with its tests");
    let Ok(output) = Command::new("nm").args(["-D", "--defined-only", "-j"]).arg(path).output() else {
        return eprintln!("left out: there is no nm");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).expect("names are texts");
    let symbols: BTreeSet<String> =
        said.lines().map(|line| line.split('@').next().unwrap_or(line).to_owned()).collect();
    assert_eq!(symbols, declared(&header()).into_keys().collect());
}
