//! Rules of words and shape, by text. Where a rule does not hold everywhere yet, its present count is a ceiling:
//! whoever mends a place lowers it.

use super::{Source, at, code, in_files, sample, sources};
use std::collections::{BTreeMap, BTreeSet};

/// The rustfmt width. rustfmt leaves comments and long literals alone.
const COLUMNS: usize = 120;

/// The greatest number of fields of a struct.
const FIELDS: usize = 20;

/// The names that the façade exports outside of `kit`.
const FACADE: usize = 160;

/// A rule, its ceiling, and the places that break it.
fn assert_ceiling(rule: &str, ceiling: usize, broken: &[String]) {
    let count = broken.len();
    assert!(count <= ceiling, "{rule}: {count} places, of {ceiling} at most:\n  {}", broken.join("\n  "));
    assert!(
        count == ceiling,
        "{rule}: {count} places are left. Lower the ceiling in tidy/tests/tidy/shape.rs to that."
    );
}

/// The Rust files of crates, without their tests.
pub(super) fn crate_files() -> Vec<Source> {
    let is_built = |source: &Source| {
        let floor = ["core/", "worlds/", "doors/"].iter().any(|floor| source.path.starts_with(floor));
        let is_test = source.path.contains("/tests/") || source.path.ends_with("tests.rs");
        floor && source.path.ends_with(".rs") && !is_test && !source.path.contains("/examples/")
    };
    let built = sources().iter().filter(|source| is_built(source));
    built.map(|source| sample(&source.path, without_tests(&source.text))).collect()
}

/// The text before a module of tests within the file.
fn without_tests(text: &str) -> &str {
    let mut from = 0;
    while let Some(found) = text[from..].find("#[cfg(") {
        let start = from + found;
        let rest = text[start..].split_once('\n').map_or("", |(_, rest)| rest);
        let attribute = text[start..].lines().next().unwrap_or_default();
        if attribute.contains("test") && rest.trim_start().starts_with("mod ") && rest.contains('{') {
            let declaration = rest.lines().next().unwrap_or_default();
            if declaration.trim_end().ends_with('{') && !text[..start].ends_with(' ') {
                return &text[..start];
            }
        }
        from = start + 1;
    }
    text
}

// ---- columns ----

/// Lines beyond the width, but for rows of tables: Markdown does not break them.
fn too_wide(source: &Source) -> Vec<String> {
    let lines = source.text.lines().enumerate();
    let is_row = |line: &str| ["//! |", "/// |"].iter().any(|row| line.trim_start().starts_with(row));
    let wide = lines.filter(|(_, line)| line.chars().count() > COLUMNS && !is_row(line));
    wide.map(|(number, _)| at(source, number)).collect()
}

#[test]
fn lines_fit_the_width() {
    let broken = in_files(".rs", too_wide);
    assert_ceiling("no line of code or comment beyond 120 columns", 0, &broken);
}

#[test]
fn a_wide_line_is_found() {
    let row = format!("//! | {} |\n", "a".repeat(COLUMNS));
    let text = format!("{}\n{}\n{row}", "é".repeat(COLUMNS), "a".repeat(COLUMNS + 1));
    assert_eq!(too_wide(&sample("a.rs", &text)), ["a.rs:2"]);
}

// ---- words ----

/// Paragraphs of comments with the line where each begins. Code fences, tables and headings are left out.
fn paragraphs(source: &Source) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut is_open, mut is_fenced) = (false, false);
    for (number, line) in source.text.lines().enumerate() {
        let Some(rest) = line.trim_start().strip_prefix("//") else {
            (is_open, is_fenced) = (false, false);
            continue;
        };
        let text = rest.trim_start_matches(['/', '!']).trim();
        if text.starts_with("```") {
            (is_open, is_fenced) = (false, !is_fenced);
        } else if is_fenced || text.is_empty() || text.starts_with(['#', '|']) {
            is_open = false;
        } else {
            let is_item = text.starts_with("* ") || text.starts_with("- ");
            match found.last_mut().filter(|_| is_open && !is_item) {
                Some((_, paragraph)) => {
                    paragraph.push(' ');
                    paragraph.push_str(text);
                }
                None => found.push((number, text.to_owned())),
            }
            is_open = true;
        }
    }
    found
}

/// Sentences, and relative words in them.
fn relative_words(source: &Source) -> (usize, usize) {
    let (mut sentences, mut relative) = (0, 0);
    for (_, paragraph) in paragraphs(source) {
        let prose: String = paragraph.split('`').step_by(2).collect::<Vec<&str>>().join("X");
        let ends = prose.split_inclusive(['.', '!', '?']).filter(|part| part.ends_with(['.', '!', '?']));
        // A dot within a word or number ends nothing.
        let mut rest = prose.as_str();
        let mut count = 0;
        for end in ends {
            rest = &rest[end.len()..];
            count += usize::from(rest.is_empty() || rest.starts_with(' '));
        }
        sentences += count + usize::from(rest.chars().any(char::is_alphabetic));
        let is_relative = |word: &&str| {
            let word = word.to_lowercase();
            matches!(word.as_str(), "who" | "whom" | "whose" | "what" | "which" | "that" | "where")
                || matches!(word.as_str(), "whoever" | "whatever" | "whichever")
        };
        relative += prose.split(|char: char| !char.is_alphanumeric()).filter(is_relative).count();
    }
    (sentences, relative)
}

/// Sentences with relative clauses must be decoded. Well-kept libraries have 0.05 to 0.27 such words a sentence.
#[test]
fn sentences_are_read_once() {
    // In hundredths.
    for (floor, ceiling) in [("core/", 20), ("worlds/", 20), ("doors/", 20)] {
        let mut files = crate_files();
        files.retain(|source| source.path.starts_with(floor));
        let counts = files.iter().map(relative_words);
        let (sentences, relative) = counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
        assert!(sentences > 1000, "comments of {floor} are found");
        let hundredths = relative * 100 / sentences;
        assert!(
            hundredths <= ceiling,
            "{floor}: {relative} relative words in {sentences} sentences of comments, {hundredths} in a hundred, of \
             {ceiling} at most: name the subject in place of who, what, which, that, where"
        );
    }
}

#[test]
fn relative_words_are_counted() {
    let text = "//! What a thing is, in 1.5 ways. It ends\n//! here.\n//!\n//! ```\n//! that that.\n//! ```\n\
                /// The one whose `that` is none\nfn f() {} // no\n";
    assert_eq!(relative_words(&sample("a.rs", text)), (3, 2));
}

/// First words of documentation that make a reader wait for the subject.
fn late_subjects(source: &Source) -> Vec<String> {
    let lines: Vec<&str> = source.text.lines().collect();
    let text_of = |line: &str| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(|text| text.trim().to_owned())
    };
    let mut broken = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let is_first = number == 0 || text_of(lines[number - 1]).is_none();
        let Some(text) = text_of(line).filter(|_| is_first) else { continue };
        let begins = |word: &str| text.strip_prefix(word).is_some_and(|rest| rest.starts_with([' ', ',', ':']));
        if ["What", "Of", "It", "The same", "As"].into_iter().any(begins) {
            broken.push(format!("{}: {text}", at(source, number)));
        }
    }
    broken
}

#[test]
fn documentation_begins_with_its_subject() {
    let broken: Vec<String> = crate_files().iter().flat_map(late_subjects).collect();
    assert_ceiling("no documentation begins with What, Of, It, The same, As", 0, &broken);
}

#[test]
fn a_late_subject_is_found() {
    let text = "//! What it is.\n//! It goes on.\n\n/// The same as that.\nfn f() {}\n/// Items.\n/// It is one.\n";
    assert_eq!(late_subjects(&sample("a.rs", text)), ["a.rs:1: What it is.", "a.rs:4: The same as that."]);
}

// ---- functions ----

/// A function: its line, its name, its signature up to the brace, and its body.
struct Function {
    line: usize,
    name: String,
    signature: String,
    body: String,
}

/// Code without comments and literals, line by line.
pub(super) fn bare(text: &str) -> String {
    text.lines()
        .map(|line| code(&line.replace("'\"'", "' '").replace("b'{'", "").replace("'{'", "").replace("'}'", "")) + "\n")
        .collect()
}

/// From an opening bracket to behind the one that closes it.
fn bracketed(text: &str, open: char, close: char) -> &str {
    let mut depth = 0;
    for (position, char) in text.char_indices() {
        depth += i32::from(char == open) - i32::from(char == close);
        if depth == 0 && char == close {
            return &text[..position + close.len_utf8()];
        }
    }
    text
}

fn functions(source: &Source) -> Vec<Function> {
    let text = bare(&source.text);
    let mut found = Vec::new();
    for (position, _) in text.match_indices("fn ") {
        let is_word = text[..position].chars().next_back().is_none_or(|char| !char.is_alphanumeric() && char != '_');
        let rest = &text[position + 3..];
        let name: String = rest.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect();
        // A semicolon within brackets is an array's.
        let mut depth = 0;
        let is_end = |char: char| {
            depth += i32::from("([".contains(char)) - i32::from(")]".contains(char));
            depth == 0 && matches!(char, '{' | ';')
        };
        let Some(end) = rest.find(is_end).filter(|_| is_word && !name.is_empty()) else { continue };
        let body = if rest[end..].starts_with('{') { bracketed(&rest[end..], '{', '}') } else { "" };
        found.push(Function {
            line: text[..position].matches('\n').count(),
            name,
            signature: rest[..end].to_owned(),
            body: body.to_owned(),
        });
    }
    found
}

/// Functions whose names ask, and whose bodies act or that answer nothing.
fn acting_predicates(source: &Source) -> Vec<String> {
    let asks = |name: &str| ["is_", "has_", "can_", "may_"].iter().any(|start| name.starts_with(start));
    let acts =
        ["store(", "+= ", "-= ", "insert(", "remove(", "compare_exchange", "fetch_", "swap(", "push(", "replace("];
    let broken = functions(source).into_iter().filter(|function| {
        let changes = function.signature.contains("&mut self") || function.signature.contains("(mut self");
        let answers = function.signature.contains("->");
        asks(&function.name) && (changes || !answers || acts.iter().any(|act| function.body.contains(act)))
    });
    broken.map(|function| format!("{}: {}", at(source, function.line), function.name)).collect()
}

#[test]
fn predicates_only_ask() {
    let broken: Vec<String> = crate_files().iter().flat_map(acting_predicates).collect();
    assert_ceiling("a function called is_, has_, can_ or may_ changes nothing", 0, &broken);
}

#[test]
fn an_acting_predicate_is_found() {
    let text = "fn is_left(&self) -> bool {\n    self.left.store(true);\n    true\n}\n\
                fn is_new(&mut self) -> bool { true }\n\
                fn is_good(&self, at: [u8; 2]) -> bool {\n    self.good // += is no code\n}\n\
                fn leaves(&mut self) { self.a += 1; }\nfn is_told(&self) { tell(self); }\n";
    assert_eq!(acting_predicates(&sample("a.rs", text)), ["a.rs:1: is_left", "a.rs:5: is_new", "a.rs:10: is_told"]);
}

/// Functions with a tuple pattern as a parameter: two arguments, or a type without a name.
fn tuple_parameters(source: &Source) -> Vec<String> {
    let has_pattern = |function: &Function| {
        let Some(open) = function.signature.find('(') else { return false };
        let parameters = bracketed(&function.signature[open..], '(', ')');
        let packed: String = parameters.split_whitespace().collect();
        let starts = packed
            .match_indices('(')
            .filter(|(position, _)| *position > 0 && packed[..*position].ends_with(['(', ',']));
        starts.into_iter().any(|(position, _)| {
            let pattern = bracketed(&packed[position..], '(', ')');
            pattern != "()" && packed[position + pattern.len()..].starts_with(':')
        })
    };
    let broken = functions(source).into_iter().filter(has_pattern);
    broken.map(|function| format!("{}: {}", at(source, function.line), function.name)).collect()
}

#[test]
fn parameters_have_names() {
    let broken: Vec<String> = crate_files().iter().flat_map(tuple_parameters).collect();
    assert_ceiling("no tuple pattern is a parameter", 0, &broken);
}

#[test]
fn a_tuple_parameter_is_found() {
    let text = "fn f(&self, (a, b): (u8, u8)) {}\nfn unit((): ()) {} fn g(pair: (u8, u8), f: impl Fn((u8, u8))) {}\n\
                fn h(\n    (mut a, _): (u8, u8),\n) {}\n";
    assert_eq!(tuple_parameters(&sample("a.rs", text)), ["a.rs:1: f", "a.rs:3: h"]);
}

// ---- types ----

/// A type: its line, its name, whether it is public, and its fields.
struct Type {
    line: usize,
    name: String,
    is_public: bool,
    fields: usize,
}

fn types(source: &Source) -> Vec<Type> {
    let text = bare(&source.text);
    let mut found = Vec::new();
    let mut position = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let start = position;
        position += line.len();
        let item = line.trim_start();
        let public = item.strip_prefix("pub ");
        let item = public
            .or_else(|| item.strip_prefix("pub(crate) "))
            .or_else(|| item.strip_prefix("pub(super) "))
            .unwrap_or(item);
        let Some((kind, rest)) = ["struct ", "enum ", "trait ", "union ", "unsafe trait "]
            .iter()
            .find_map(|kind| item.strip_prefix(kind).map(|rest| (*kind, rest)))
        else {
            continue;
        };
        let name: String = rest.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect();
        if !name.starts_with(char::is_uppercase) {
            continue;
        }
        let body = &text[start..];
        let end = body.find(['{', ';']).unwrap_or(0);
        let mut fields = 0;
        if kind == "struct " && body[end..].starts_with('{') {
            let block = bracketed(&body[end..], '{', '}');
            let mut depth = 0;
            for line in block.lines() {
                let field = line.trim_start();
                let is_field = depth == 1
                    && !field.starts_with('#')
                    && field.split(':').next().is_some_and(|name| {
                        let name = name.rsplit(' ').next().unwrap_or_default();
                        field.contains(": ")
                            && !name.is_empty()
                            && name.chars().all(|char| char.is_alphanumeric() || char == '_')
                    });
                fields += usize::from(is_field);
                for char in line.chars() {
                    depth += i32::from(matches!(char, '{' | '(' | '[')) - i32::from(matches!(char, '}' | ')' | ']'));
                }
            }
        }
        found.push(Type { line: number, name, is_public: public.is_some(), fields });
    }
    found
}

fn wide_structs(source: &Source) -> Vec<String> {
    let wide = types(source).into_iter().filter(|found| found.fields > FIELDS);
    wide.map(|found| format!("{}: {} has {} fields", at(source, found.line), found.name, found.fields)).collect()
}

#[test]
fn structs_are_held_in_mind() {
    let broken: Vec<String> = crate_files().iter().flat_map(wide_structs).collect();
    assert_ceiling("a struct has at most 20 fields", 0, &broken);
}

#[test]
fn a_wide_struct_is_found() {
    let fields =
        |count: usize| (0..count).map(|n| format!("    /// A field.\n    pub f{n}: u8,\n")).collect::<String>();
    let text = format!("struct A {{\n{}}}\npub struct B {{\n{}}}\n", fields(FIELDS), fields(FIELDS + 1));
    assert_eq!(wide_structs(&sample("a.rs", &text)), [format!("a.rs:{}: B has 21 fields", FIELDS * 2 + 3)]);
}

/// Participles that say of a thing what was done to it, and leave open what it is.
const PARTICIPLES: [&str; 24] = [
    "Asked", "Begun", "Came", "Dealt", "Fed", "Found", "Gathered", "Given", "Gone", "Handed", "Held", "Kept", "Known",
    "Left", "Lent", "Made", "Noted", "Said", "Seen", "Shown", "Taken", "Told", "Wanted", "Written",
];

/// Types named by a participle alone.
fn participles(source: &Source) -> Vec<String> {
    let broken = types(source).into_iter().filter(|found| PARTICIPLES.contains(&&*found.name));
    broken.map(|found| format!("{}: {}", at(source, found.line), found.name)).collect()
}

#[test]
fn a_type_is_named_by_a_noun() {
    let broken: Vec<String> = crate_files().iter().flat_map(participles).collect();
    assert_ceiling("a type's name is more than a participle: `HeldLock`, and not `Held`", 0, &broken);
}

#[test]
fn a_participle_is_found() {
    let text = "struct HeldLock;\npub(crate) enum Held {}\ntrait Making {}\n";
    assert_eq!(participles(&sample("a.rs", text)), ["a.rs:2: Held"]);
}

/// Names that each file has from the standard library without an import. `Box` and `Result` have other meanings in
/// places that say so.
const OF_THE_PRELUDE: [&str; 16] = [
    "Clone",
    "Copy",
    "Default",
    "Drop",
    "Fn",
    "FnMut",
    "FnOnce",
    "From",
    "Into",
    "IntoIterator",
    "Iterator",
    "Option",
    "Send",
    "String",
    "Sync",
    "Vec",
];

/// Types that hide one of the prelude.
fn hiding(source: &Source) -> Vec<String> {
    let broken = types(source).into_iter().filter(|found| OF_THE_PRELUDE.contains(&&*found.name));
    broken.map(|found| format!("{}: {}", at(source, found.line), found.name)).collect()
}

#[test]
fn a_type_hides_none_of_the_prelude() {
    let broken: Vec<String> = crate_files().iter().flat_map(hiding).collect();
    assert_ceiling("a type has a name that the prelude doesn't have: `RunningCopy`, and not `Copy`", 0, &broken);
}

#[test]
fn a_type_that_hides_one_of_the_prelude_is_found() {
    let text = "enum From {}\npub struct CopyOf;\npub(crate) struct Fn;\n";
    assert_eq!(hiding(&sample("a.rs", text)), ["a.rs:1: From", "a.rs:3: Fn"]);
}

/// Whether a file stands in for another one on other systems: its types have the names of that one's.
fn is_stand_in(source: &Source) -> bool {
    source.path.starts_with("worlds/os/src/other/") || source.path.ends_with("_windows.rs")
}

/// Public types of one name in several files.
fn shared_names(files: &[Source]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in files.iter().filter(|source| !is_stand_in(source)) {
        for found in types(source).into_iter().filter(|found| found.is_public) {
            places.entry(found.name).or_default().push(at(source, found.line));
        }
    }
    places.retain(|_, places| places.len() > 1);
    places.into_iter().map(|(name, places)| format!("{name}: {}", places.join(", "))).collect()
}

#[test]
fn a_public_name_is_one_thing() {
    assert_ceiling("a public type's name stands once in the house", 0, &shared_names(&crate_files()));
}

#[test]
fn a_shared_name_is_found() {
    let files = [
        sample("a.rs", "pub struct Place;\nstruct Part;\n"),
        sample("b.rs", "pub(crate) enum Part {}\n\npub enum Place {}\n"),
        sample("b_windows.rs", "pub enum Place {}\n"),
    ];
    assert_eq!(shared_names(&files), ["Place: a.rs:1, b.rs:3"]);
}

/// The names that a file of the façade exports to its readers: re-exports, and its own items.
fn exported_names(source: &Source) -> Vec<String> {
    let text = bare(&source.text);
    let mut names = Vec::new();
    for (position, _) in text.match_indices("pub use ") {
        let path = text[position + 8..].split(';').next().unwrap_or_default();
        let list = path.split_once('{').map_or(path, |(_, list)| list.trim_end().trim_end_matches('}'));
        let name = |item: &str| item.trim().rsplit([' ', ':']).next().unwrap_or_default().to_owned();
        names.extend(list.split(',').map(name).filter(|name| !name.is_empty()));
    }
    let mut is_hidden = false;
    for line in text.lines() {
        let item = line.strip_prefix("pub ").unwrap_or_default();
        let kinds = ["fn ", "struct ", "enum ", "type ", "trait ", "const "];
        if let Some(rest) = kinds.iter().find_map(|kind| item.strip_prefix(kind)).filter(|_| !is_hidden) {
            names.push(rest.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect());
        }
        is_hidden = line.starts_with("#[doc(hidden)]") || is_hidden && line.starts_with('#');
    }
    names
}

/// Users read these names. Parts for other doors stand in `kit`.
#[test]
fn the_facade_is_for_users() {
    let is_for_users =
        |source: &&Source| source.path.starts_with("doors/vicus/src/") && !source.path.ends_with("/kit.rs");
    let files = crate_files();
    let names: BTreeSet<String> = files.iter().filter(is_for_users).flat_map(exported_names).collect();
    let names: Vec<String> = names.into_iter().collect();
    assert_ceiling("the façade exports no more names outside of `kit`", FACADE, &names);
}

#[test]
fn an_exported_name_is_found() {
    let text = "pub use a::{B, c::D as E,\n    f};\npub use g::H;\npub(crate) use i::J;\npub fn k() {}\n\
                #[doc(hidden)]\npub fn l() {}\nfn m() {}\npub mod n {\n    pub use o::P;\n}\n";
    assert_eq!(exported_names(&sample("a.rs", text)), ["B", "E", "f", "H", "P", "k"]);
}

/// The module folder of a file: that of `a/b.rs` is `a/b/`, that of `a/mod.rs` is `a/`.
fn module_folder(path: &str) -> String {
    let stem = path.trim_end_matches(".rs");
    let stem = ["/mod", "/lib", "/main"].iter().find_map(|end| stem.strip_suffix(end)).unwrap_or(stem);
    format!("{stem}/")
}

/// Blocks `impl Type` outside the folder in which the type is: beside its file, or in its module's folder.
fn strayed_impls(files: &[Source]) -> Vec<String> {
    let of_crate = |path: &str| path.split("/src/").next().unwrap_or_default().to_owned();
    let mut homes: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for source in files {
        for found in types(source) {
            homes.entry((of_crate(&source.path), found.name)).or_default().push(source.path.clone());
        }
    }
    let mut broken = Vec::new();
    for source in files {
        for (number, line) in bare(&source.text).lines().enumerate() {
            let Some(rest) = line.strip_prefix("impl").filter(|rest| rest.starts_with([' ', '<'])) else { continue };
            let rest = if rest.starts_with('<') { &rest[bracketed(rest, '<', '>').len()..] } else { rest };
            if rest.contains(" for ") {
                continue;
            }
            let name: String =
                rest.trim_start().chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect();
            let Some(homes) = homes.get(&(of_crate(&source.path), name.clone())) else { continue };
            let is_home = |home: &String| {
                let beside = home.rsplit_once('/').map_or("", |(folder, _)| folder);
                let here = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
                here == beside || source.path.starts_with(&module_folder(home))
            };
            if !homes.iter().any(is_home) {
                broken.push(format!("{}: impl {name}, of {}", at(source, number), homes.join(", ")));
            }
        }
    }
    broken
}

#[test]
fn a_types_code_stands_in_its_folder() {
    assert_ceiling("`impl` of a type stands in its own folder", 0, &strayed_impls(&crate_files()));
}

#[test]
fn a_strayed_impl_is_found() {
    let files = [
        sample("core/a/src/run.rs", "pub struct Run<T>(T);\n"),
        sample("core/a/src/run/part.rs", "impl<T: Fn() -> u8> Run<T> {}\n"),
        sample("core/a/src/beside.rs", "impl Run<u8> {}\n"),
        sample("core/a/src/other/part.rs", "impl Run<u8> {}\nimpl Clone for Run<u8> {}\n"),
        sample("core/b/src/other/part.rs", "impl Run<u8> {}\n"),
    ];
    assert_eq!(strayed_impls(&files), ["core/a/src/other/part.rs:1: impl Run, of core/a/src/run.rs"]);
}

// ---- unsafe ----

#[test]
fn unsafe_blocks_have_no_blanket() {
    let is_blanket = |source: &Source| {
        let packed: String = source.text.split_whitespace().collect();
        let found = packed.contains("#![expect(clippy::undocumented_unsafe_blocks")
            || packed.contains("#![allow(clippy::undocumented_unsafe_blocks");
        found.then(|| source.path.clone())
    };
    let broken: Vec<String> = crate_files().iter().filter_map(is_blanket).collect();
    assert_ceiling("each unsafe block has its argument", 0, &broken);
}
