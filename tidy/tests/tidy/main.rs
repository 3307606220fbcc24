//! The rules of the house beyond the compiler's checks, as ordinary tests.
//!
//! Each rule is a function from a text to the places that break it, so tests can show it to fail on a bad sample.
//! Another test applies it to every file of the repository.

mod rooms;
mod shape;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The greatest number of lines of a file. A longer file has two readers.
const MAX_LINES: usize = 1100;

/// A file of the repository: its path from the root, with `/`, and its text.
#[derive(Clone)]
struct Source {
    path: String,
    text: String,
}

fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        // Read when the test runs, because two clones may share a build folder, which remembers only one of them.
        let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this test");
        Path::new(&here).parent().expect("this crate lies in the workspace's root").to_owned()
    });
    &ROOT
}

/// The text files of the repository: tracked by git, or not ignored; outside of a clone, all.
fn sources() -> &'static [Source] {
    static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(read_sources);
    &SOURCES
}

fn read_sources() -> Vec<Source> {
    let mut paths = tracked().unwrap_or_else(|| walk(root()));
    paths.retain(|path| is_text(path));
    paths.sort();
    assert!(paths.iter().any(|path| path == "Cargo.toml"), "the root holds the workspace's manifest: {paths:?}");
    let read = |path: String| {
        // Git also lists deleted files before their commit.
        let text = std::fs::read_to_string(root().join(&path)).ok()?;
        Some(Source { path, text })
    };
    paths.into_iter().filter_map(read).collect()
}

fn tracked() -> Option<Vec<String>> {
    // The build may run as another user than the owner of the clone.
    let arguments = ["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = Command::new("git").args(arguments).current_dir(root()).output().ok()?;
    let names = String::from_utf8(listed.stdout).ok().filter(|_| listed.status.success())?;
    let names: Vec<String> = names.split_terminator('\0').map(str::to_owned).collect();
    // A copy of the tree inside some other repository has no tracked files.
    (!names.is_empty()).then_some(names)
}

fn walk(folder: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder of the tree can be listed") {
        let path = entry.expect("an entry of the tree can be read").path();
        let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        let is_ours = name != "target" && (!name.starts_with('.') || name == ".ci");
        if is_ours && path.is_dir() {
            paths.extend(walk(&path));
        } else if is_ours {
            let from_root = path.strip_prefix(root()).expect("found below the root");
            paths.push(from_root.to_string_lossy().replace('\\', "/"));
        }
    }
    paths
}

fn is_text(path: &str) -> bool {
    let extensions =
        ["rs", "md", "toml", "sparql", "sh", "py", "c", "h", "cpp", "hpp", "cmake", "html", "css", "js", "yml"];
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
    let has_none = ["dev", ".ci/run", "include/tests/run"].contains(&path) || path.starts_with("tools/");
    has_none || extension.is_some_and(|extension| extensions.contains(&extension))
}

/// Fails with every place that breaks a rule.
fn assert_none(rule: &str, broken: impl IntoIterator<Item = String>) {
    let broken: Vec<String> = broken.into_iter().collect();
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

/// The places of all files with this ending that break a rule.
fn in_files(ending: &str, rule: impl Fn(&Source) -> Vec<String>) -> Vec<String> {
    sources().iter().filter(|source| source.path.ends_with(ending)).flat_map(rule).collect()
}

fn sample(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

fn at(source: &Source, line: usize) -> String {
    format!("{}:{}", source.path, line + 1)
}

/// The lines with any of these words.
fn lines_with(source: &Source, words: &[&str]) -> Vec<String> {
    let lines = source.text.lines().enumerate();
    let found = lines.filter(|(_, line)| words.iter().any(|word| line.contains(word)));
    found.map(|(number, line)| format!("{}: {}", at(source, number), line.trim())).collect()
}

// ---- the import table ----

/// The table in ARCHITECTURE.md: for each crate's folder, the names of the crates it may import.
fn import_table(markdown: &str) -> BTreeMap<String, Vec<String>> {
    let rows =
        markdown.lines().skip_while(|line| !(line.starts_with("| crate |") && line.contains("may import (ours)")));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let names = cells.last()?.split(',').map(|name| name.trim().to_owned());
        Some((cells.first()?.to_string(), names.filter(|name| name != "–" && !name.is_empty()).collect()))
    };
    rows.filter_map(row).collect()
}

/// The imports in the manifests, in the form of the table.
fn imports(metadata: &serde_json::Value, root: &Path) -> BTreeMap<String, Vec<String>> {
    let folder = |manifest_or_folder: &str| {
        let path = PathBuf::from(manifest_or_folder.trim_end_matches("Cargo.toml"));
        path.strip_prefix(root).ok().map(|path| path.to_string_lossy().trim_end_matches('/').replace('\\', "/"))
    };
    let packages = metadata["packages"].as_array().expect("cargo lists packages");
    let of_package = |package: &serde_json::Value| {
        let name = folder(package["manifest_path"].as_str()?)?;
        let dependencies = package["dependencies"].as_array()?.iter();
        // Ours are those with a path; their place in the house is the last part of it.
        let ours = dependencies.filter_map(|dependency| folder(dependency["path"].as_str()?));
        Some((name, ours.map(|path| path.rsplit('/').next().unwrap_or_default().to_owned()).collect()))
    };
    packages.iter().filter_map(of_package).collect()
}

fn broken_imports(table: &BTreeMap<String, Vec<String>>, found: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, imports) in found {
        match table.get(name) {
            None => broken.push(format!("{name} stands in no row of the table")),
            Some(allowed) => {
                let more = imports.iter().filter(|import| !allowed.contains(import));
                broken.extend(more.map(|import| format!("{name} imports {import}")));
            }
        }
    }
    broken.extend(table.keys().filter(|name| !found.contains_key(*name)).map(|name| format!("{name} is no crate")));
    broken
}

#[test]
fn crates_import_what_the_table_allows() {
    let output = Command::new(std::env::var_os("CARGO").expect("cargo runs this test"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let found = imports(&metadata, Path::new(metadata["workspace_root"].as_str().expect("cargo knows the root")));
    assert!(found["core/trace"].contains(&"topology".to_owned()), "the manifests are understood: {found:?}");
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md stands in the root");
    assert_none("the table in ARCHITECTURE.md", broken_imports(&import_table(&text), &found));
}

#[test]
fn a_forbidden_import_is_found() {
    let table = import_table(
        "text\n| crate | its one sentence | may import (ours) |\n|---|---|---|\n\
         | core/a | First. | – |\n| core/b | Second. | a, c |\n| core/gone | Third. | a |\n\nmore | text |\n",
    );
    assert_eq!(table["core/b"], ["a", "c"]);
    assert!(table["core/a"].is_empty());
    let metadata = serde_json::json!({ "packages": [
        { "manifest_path": "/r/core/a/Cargo.toml", "dependencies": [
            { "name": "serde", "kind": null }, { "name": "vicus-b", "kind": "dev", "path": "/r/core/b" },
        ] },
        { "manifest_path": "/r/core/b/Cargo.toml", "dependencies": [{ "name": "vicus-a", "path": "/r/core/a" }] },
        { "manifest_path": "/r/new/Cargo.toml", "dependencies": [] },
    ] });
    let broken = broken_imports(&table, &imports(&metadata, Path::new("/r")));
    assert_eq!(broken, ["core/a imports b", "new stands in no row of the table", "core/gone is no crate"]);
}

// ---- foreign borders ----

/// Arrow's crates, named outside core/flow and the doors.
fn arrow_outside_flow(source: &Source) -> Vec<String> {
    let may = ["core/flow/", "doors/", "tidy/", "fuzz/"].iter().any(|folder| source.path.starts_with(folder));
    let manifest_of_a_crate = source.path.ends_with("/Cargo.toml");
    match source.path.ends_with(".rs") || manifest_of_a_crate {
        true if !may => lines_with(source, &["arrow_", "arrow-"]),
        _ => Vec::new(),
    }
}

#[test]
fn only_flow_and_the_doors_name_arrow() {
    assert_none("Arrow is core/flow's and the doors' business", in_files("", arrow_outside_flow));
}

#[test]
fn arrow_elsewhere_is_found() {
    let text = "//! A store.\nuse arrow_array::Array;\n";
    assert_eq!(
        arrow_outside_flow(&sample("core/rdf/src/lib.rs", text)),
        ["core/rdf/src/lib.rs:2: use arrow_array::Array;"]
    );
    assert_eq!(arrow_outside_flow(&sample("core/rdf/Cargo.toml", "arrow-array.workspace = true\n")).len(), 1);
    assert!(arrow_outside_flow(&sample("core/flow/src/lib.rs", text)).is_empty());
    assert!(arrow_outside_flow(&sample("Cargo.toml", "arrow-array = \"1\"\n")).is_empty());
}

/// hwloc's binding, named outside its one file.
fn hwloc_outside_discover(source: &Source) -> Vec<String> {
    let may = source.path == "worlds/os/src/discover/hwloc.rs" || source.path.starts_with("tidy/");
    if may { Vec::new() } else { lines_with(source, &["hwlocality"]) }
}

#[test]
fn only_discovery_names_hwloc() {
    assert_none("hwloc is the business of discover/hwloc.rs", in_files(".rs", hwloc_outside_discover));
}

#[test]
fn hwloc_elsewhere_is_found() {
    let text = "//! A pin.\nuse hwlocality::Topology;\n";
    assert_eq!(hwloc_outside_discover(&sample("worlds/os/src/pin.rs", text)).len(), 1);
    assert!(hwloc_outside_discover(&sample("worlds/os/src/discover/hwloc.rs", text)).is_empty());
}

// ---- settings ----

/// Lines that read the environment in crates below the doors. Their tests may read it: for seeds, and for cargo's
/// variables of a test.
fn environment_below_the_doors(source: &Source) -> Vec<String> {
    let below = ["core/", "worlds/"].iter().any(|folder| source.path.starts_with(folder));
    let is_built_on = below && source.path.split('/').nth(2) == Some("src");
    let mut broken = lines_with(source, &["env::var", "use std::env", "getenv"]);
    broken.retain(|_| is_built_on);
    broken
}

#[test]
fn only_doors_read_the_environment() {
    assert_none("settings come to core and worlds as values", in_files(".rs", environment_below_the_doors));
}

#[test]
fn the_environment_below_the_doors_is_found() {
    for line in ["std::env::var(\"A\")", "env::vars_os()", "use std::env::{self, var};", "libc::getenv(name)"] {
        let broken = |path: &str| environment_below_the_doors(&sample(path, &format!("//! Reads.\n{line};\n"))).len();
        assert_eq!(broken("worlds/os/src/pin.rs"), 1, "{line}");
        assert_eq!(broken("core/flow/src/state.rs"), 1, "{line}");
        assert_eq!(broken("doors/vicus/src/environment.rs"), 0, "{line}");
        assert_eq!(broken("worlds/machine/tests/fixtures.rs"), 0, "{line}");
    }
    let text = "//! Reads.\nlet folder = std::env::temp_dir();\n";
    assert!(environment_below_the_doors(&sample("worlds/os/src/latency.rs", text)).is_empty());
}

// ---- files ----

fn no_first_words(source: &Source) -> Vec<String> {
    let says = source.text.lines().next().is_some_and(|line| line.starts_with("//! ") && line.len() > 4);
    if says { Vec::new() } else { vec![source.path.clone()] }
}

#[test]
fn a_file_begins_by_saying_what_it_is() {
    assert_none("the first line of a file begins with `//! `", in_files(".rs", no_first_words));
}

#[test]
fn a_silent_file_is_found() {
    assert!(no_first_words(&sample("a.rs", "//! Says it.\n")).is_empty());
    for text in ["", "//!\n", "use std::fmt;\n//! Too late.\n"] {
        assert_eq!(no_first_words(&sample("a.rs", text)), ["a.rs"]);
    }
}

/// The modules of test programs declared in no file beside them or above them: the compiler does not see them, and
/// their tests don't run.
fn undeclared(sources: &[Source]) -> Vec<String> {
    let folder = |path: &str| path.rsplit_once('/').map_or_else(String::new, |(folder, _)| folder.to_owned());
    let is_part = |path: &str| path.ends_with(".rs") && path.contains("/tests/") && !path.ends_with("/main.rs");
    let parts = sources.iter().filter(|source| is_part(&source.path) && !folder(&source.path).ends_with("/tests"));
    let declared = |source: &&Source| {
        let path = source.path.trim_end_matches(".rs").trim_end_matches("/mod");
        let (beside, name) = path.rsplit_once('/').expect("it lies in a folder of tests");
        let line = format!("mod {name};");
        let above = format!("{beside}.rs");
        let mut parents = sources.iter().filter(|parent| folder(&parent.path) == beside || parent.path == above);
        parents
            .any(|parent| parent.text.lines().any(|found| found.trim_start().trim_start_matches("pub(crate) ") == line))
    };
    parts.filter(|source| !declared(source)).map(|source| format!("{}: no `mod` declares it", source.path)).collect()
}

#[test]
fn every_test_file_is_compiled() {
    assert_none("a file of tests is a program or a module of one", undeclared(sources()));
}

/// What happened: a file with tests was added while its program's other files moved to a folder. It moved too, was
/// declared nowhere, and all tests passed without it.
#[test]
fn a_test_file_that_is_not_compiled_is_found() {
    let main = || sample("a/tests/all/main.rs", "mod one;\nmod parts;\n");
    let shared = || sample("a/tests/alone.rs", "    mod shared;\n");
    let rest = ["a/tests/all/parts/mod.rs", "a/tests/shared/mod.rs", "a/tests/all/one.rs", "a/src/two.rs"];
    let with =
        |more: &str| [rest.map(|path| sample(path, "")).into(), vec![main(), shared(), sample(more, "")]].concat();
    assert_eq!(undeclared(&with("a/tests/two.rs")), Vec::<String>::new());
    assert_eq!(undeclared(&with("a/tests/all/two.rs")), ["a/tests/all/two.rs: no `mod` declares it"]);
    assert_eq!(undeclared(&with("a/tests/all/parts/one.rs")), ["a/tests/all/parts/one.rs: no `mod` declares it"]);
}

fn too_long(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    if lines > MAX_LINES { vec![format!("{}: {lines} lines", source.path)] } else { Vec::new() }
}

#[test]
fn no_file_has_two_readers() {
    assert_none("a file has at most 1100 lines", in_files("", too_long));
}

#[test]
fn a_long_file_is_found() {
    assert!(too_long(&sample("a.rs", &"\n".repeat(MAX_LINES))).is_empty());
    assert_eq!(too_long(&sample("a.rs", &"\n".repeat(MAX_LINES + 1))), ["a.rs: 1101 lines"]);
}

fn untidy(source: &Source) -> Vec<String> {
    // In two parts, so that this file passes.
    let mut broken = lines_with(source, &[concat!("TO", "DO"), concat!("FIX", "ME")]);
    let lines = source.text.lines().enumerate();
    let trailing = lines.filter(|(_, line)| line.ends_with([' ', '\t', '\r']));
    broken.extend(trailing.map(|(number, _)| format!("{}: ends in white space", at(source, number))));
    if !source.text.is_empty() && !source.text.ends_with('\n') {
        broken.push(format!("{}: doesn't end with a newline", source.path));
    }
    broken
}

#[test]
fn nothing_is_left_lying_around() {
    assert_none("no note to do it later, no trailing white space, a newline at the end", in_files("", untidy));
}

#[test]
fn what_is_left_lying_around_is_found() {
    assert!(untidy(&sample("a.md", "Done.\n")).is_empty());
    assert_eq!(untidy(&sample("a.md", &format!("{}: later\n", concat!("TO", "DO")))).len(), 1);
    assert_eq!(
        untidy(&sample("a.md", "one \ntwo\t\nthree\n")),
        ["a.md:1: ends in white space", "a.md:2: ends in white space"]
    );
    assert_eq!(untidy(&sample("a.md", "no end")), ["a.md: doesn't end with a newline"]);
}

// ---- strategies ----

/// The names of all strategies, from their files.
fn strategy_names() -> Vec<String> {
    let is_policy = |source: &&Source| source.path.starts_with("core/schedule/src/policies/");
    let name = |source: &Source| {
        let (_, body) = source.text.split_once("fn name(&self) -> &'static str {\n")?;
        Some(body.split('"').nth(1)?.to_owned())
    };
    sources().iter().filter(is_policy).filter_map(name).collect()
}

/// Lists in brackets with most of these names as strings, without parameters.
fn strategies_by_hand(source: &Source, names: &[String]) -> Vec<String> {
    let mut broken = Vec::new();
    for (start, _) in source.text.match_indices('[') {
        let list = &source.text[start + 1..];
        let list = &list[..list.find([']', '[']).unwrap_or(list.len())];
        let items = list.split(',').filter_map(|item| item.trim().strip_prefix('"')?.strip_suffix('"'));
        let listed: BTreeSet<&str> = items.filter(|item| names.iter().any(|name| name == item)).collect();
        if listed.len() * 3 > names.len() * 2 {
            broken.push(at(source, source.text[..start].matches('\n').count()));
        }
    }
    broken
}

#[test]
fn strategies_are_listed_once() {
    let names = strategy_names();
    assert!(names.iter().any(|name| name == "las") && names.iter().any(|name| name == "vicus"), "{names:?}");
    assert_none(
        "most strategies by name in one list: take `vicus_schedule::ALL`, so that a new one is tested as well",
        in_files(".rs", |source| strategies_by_hand(source, &names)),
    );
}

#[test]
fn a_list_of_strategies_is_found() {
    let names = ["a", "b", "c"].map(str::to_owned);
    let broken = |text: &str| strategies_by_hand(&sample("a.rs", text), &names);
    assert_eq!(broken("\nconst A: [&str; 3] = [\n    \"a\",\n    \"b\",\n    \"c\",\n];\n"), ["a.rs:2"]);
    assert_eq!(broken("for one in [\"a\", \"b\", \"c:x=1\", \"d\"] {}\n"), [""; 0]);
}

// ---- lints ----

/// A line without its comment and the contents of its string literals.
fn code(line: &str) -> String {
    let mut kept = String::new();
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\\' if quoted => {
                chars.next();
            }
            '"' => quoted = !quoted,
            '/' if !quoted && chars.peek() == Some(&'/') => break,
            _ if !quoted => kept.push(char),
            _ => {}
        }
    }
    kept
}

/// The crates that ask for unsafe code as a whole, at their heads, with their rules: compiled programs alone call them,
/// with pointers.
const CALLED_BY_COMPILED_PROGRAMS: [&str; 3] = ["doors/c/src/", "doors/openmp/src/", "doors/qthreads/src/"];

/// Lints allowed instead of expected with a reason.
fn waved_through(source: &Source) -> Vec<String> {
    let allows = |line: &str, lint: &str| {
        let code = code(line);
        let lists = code.split("allow(").skip(1).map(|rest| rest.split(')').next().unwrap_or(rest));
        lists.flat_map(|list| list.split(',')).any(|allowed| allowed.trim() == lint)
    };
    let mut broken = Vec::new();
    let mut has_keyword = None;
    for (number, line) in source.text.lines().enumerate() {
        for lint in ["dead_code", "unused", "unsafe_code"] {
            if allows(line, lint) {
                broken.push(format!("{}: allows {lint}", at(source, number)));
            }
        }
        let is_head = CALLED_BY_COMPILED_PROGRAMS.iter().any(|folder| source.path == format!("{folder}lib.rs"));
        if line.trim_start().starts_with("#![expect(unsafe_code") && !is_head {
            broken.push(format!("{}: unsafe code is argued for at its site, not for a whole file", at(source, number)));
        }
        let is_part_of_word = |char: char| char.is_alphanumeric() || char == '_';
        if code(line).split(|char| !is_part_of_word(char)).any(|word| word == "unsafe") {
            has_keyword.get_or_insert(number);
        }
    }
    // The compiler's `unsafe_code` lint checks the `expect` of each site; this only checks that the lint is still on.
    let packed: String = source.text.split_whitespace().collect();
    let is_called = CALLED_BY_COMPILED_PROGRAMS.iter().any(|folder| source.path.starts_with(folder));
    let has_keyword = has_keyword.filter(|_| !is_called);
    if let Some(number) = has_keyword.filter(|_| !packed.contains("expect(unsafe_code")) {
        broken.push(format!("{}: unsafe code without `#[expect(unsafe_code, reason = ...)]`", at(source, number)));
    }
    broken
}

#[test]
fn no_lint_is_waved_through() {
    assert_none("dead code goes, unsafe code is argued for", in_files(".rs", waved_through));
}

#[test]
fn waved_through_lints_are_found() {
    let broken = |text: &str| waved_through(&sample("a.rs", text)).len();
    assert_eq!(broken("#[allow(dead_code)]\nfn f() {}\n"), 1);
    assert_eq!(broken("#![allow(clippy::all, unused)]\n"), 1);
    assert_eq!(broken("fn f() { unsafe { g() } }\n"), 1);
    assert_eq!(broken("#[allow(unsafe_code)]\nunsafe impl Send for A {}\n"), 2);
    assert_eq!(broken("#![expect(unsafe_code, reason = \"all of it\")]\n"), 1);
    let called = |file: &str, text: &str| {
        waved_through(&sample(&format!("{}{file}", CALLED_BY_COMPILED_PROGRAMS[0]), text)).len()
    };
    assert_eq!(called("lib.rs", "#![expect(unsafe_code, reason = \"its rules\")]\n"), 0);
    assert_eq!(called("other.rs", "#![expect(unsafe_code, reason = \"its rules\")]\n"), 1);
    assert_eq!(called("other.rs", "fn f() { unsafe { g() } }\n"), 0);
    assert_eq!(called("other.rs", "#[allow(unsafe_code)]\nfn f() {}\n"), 1);
    assert_eq!(broken("#[expect(unsafe_code, reason = \"so\")]\n// SAFETY: so.\nunsafe impl Send for A {}\n"), 0);
    assert_eq!(broken("#[expect(\n    unsafe_code,\n    reason = \"so\"\n)]\nunsafe impl Send for A {}\n"), 0);
    assert_eq!(broken("// It would be unsafe to allow(dead_code).\nlet a = \"unsafe\"; let unsafe_code = 1;\n"), 0);
}

// ---- links ----

/// The targets of a markdown text's links, `[text](target)` and `[name]: target`, outside of code; with line numbers.
fn links(markdown: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (number, line) in markdown.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if fenced {
            continue;
        }
        // Every second piece stands between back quotes.
        let prose: String = line.split('`').step_by(2).collect::<Vec<&str>>().join("`");
        for rest in prose.split("](").skip(1) {
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            found.push((number, target.trim_matches(['<', '>']).to_owned()));
        }
        if let Some((_, target)) = prose.split_once("]: ").filter(|(name, _)| name.starts_with('[')) {
            found.push((number, target.split(' ').next().unwrap_or_default().to_owned()));
        }
    }
    found
}

/// Links that lead nowhere; for a page of the book, also those to files beside the book, which has pages alone.
fn dead_links(source: &Source, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let is_page = source.path.starts_with("docs/");
    let leaves = |path: &Path| {
        let depth = path.components().try_fold(0_usize, |depth, part| match part {
            Component::ParentDir => depth.checked_sub(1).filter(|depth| *depth > 0),
            _ => Some(depth + 1),
        });
        is_page && depth.is_none()
    };
    let folder = Path::new(&source.path).parent().unwrap_or(Path::new(""));
    let dead = |(number, link): (usize, String)| {
        let path = link.split('#').next().unwrap_or_default();
        let elsewhere = link.contains("://") || link.starts_with("mailto:") || path.is_empty();
        // In a text included by a crate as documentation, rustdoc checks links to items.
        let to_item = link == "crate" || link.starts_with("crate::");
        let path = folder.join(path);
        (!elsewhere && !to_item && (!exists(&path) || leaves(&path))).then(|| format!("{}: {link}", at(source, number)))
    };
    links(&source.text).into_iter().filter_map(dead).collect()
}

#[test]
fn links_lead_somewhere() {
    assert_none(
        "relative links of markdown files",
        in_files(".md", |source| dead_links(source, |path| root().join(path).exists())),
    );
}

#[test]
fn a_dead_link_is_found() {
    let text = "See [one](two.md), [web](https://example.org/x), [here](#part), [item](crate::Turn) and \
        `[not](code.md)`.\n\
                ```\n[not](fenced.md)\n```\n[three]: ../four.md#part\n[five](<six.md>)\n";
    let source = sample("docs/a.md", text);
    assert_eq!(
        dead_links(&source, |_| false),
        ["docs/a.md:1: two.md", "docs/a.md:5: ../four.md#part", "docs/a.md:6: six.md"]
    );
    // What happened: a page led to the change log, which is not in the book.
    assert_eq!(dead_links(&source, |path| path.starts_with("docs")), ["docs/a.md:5: ../four.md#part"]);
    let within = sample("docs/in/b.md", "[a](../a.md) [up](../../README.md)\n");
    assert_eq!(dead_links(&within, |_| true), ["docs/in/b.md:1: ../../README.md"]);
    assert!(dead_links(&sample("core/README.md", "[up](../README.md)\n"), |_| true).is_empty());
}

/// Pages of the book that its summary does not list.
fn unlisted_pages(summary: &Source, paths: &[String]) -> Vec<String> {
    let listed: Vec<String> = links(&summary.text).into_iter().map(|(_, link)| format!("docs/{link}")).collect();
    let is_page = |path: &&String| path.starts_with("docs/") && path.ends_with(".md") && **path != summary.path;
    paths.iter().filter(is_page).filter(|path| !listed.contains(path)).cloned().collect()
}

#[test]
fn the_book_lists_its_pages() {
    let files = sources();
    let summary = files.iter().find(|source| source.path == "docs/SUMMARY.md").expect("the book has a summary");
    let paths: Vec<String> = files.iter().map(|source| source.path.clone()).collect();
    assert_none("docs/SUMMARY.md lists each page", unlisted_pages(summary, &paths));
}

#[test]
fn an_unlisted_page_is_found() {
    let summary = sample("docs/SUMMARY.md", "- [A](a.md)\n- [B](in/b.md)\n");
    let paths = ["docs/SUMMARY.md", "docs/a.md", "docs/in/b.md", "docs/in/c.md", "README.md"].map(str::to_owned);
    assert_eq!(unlisted_pages(&summary, &paths), ["docs/in/c.md"]);
}
