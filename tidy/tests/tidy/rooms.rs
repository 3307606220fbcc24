//! Rules of the rooms within a crate, by text: which room may name which, and which words a crate never uses.

use super::shape::{bare, crate_files};
use super::{Source, assert_none, sample};
use std::collections::{BTreeMap, BTreeSet};

/// The rooms of a crate: its top modules, from the ground up. A room names the rooms below it. `back` has the arrows
/// that still go up.
struct Floors {
    of: &'static str,
    rooms: &'static [&'static str],
    back: &'static [(&'static str, &'static str)],
}

const FLOORS: [Floors; 4] = [
    Floors {
        of: "worlds/os",
        rooms: &[
            "other", "calls", "pin", "latency", "learned", "signals", "mapped", "files", "set", "pages", "discover",
        ],
        back: &[("signals", "mapped")],
    },
    Floors {
        of: "worlds/fibres",
        rooms: &["switch", "exceptions", "sanitizers", "stack", "guards", "overflow", "pools"],
        back: &[("exceptions", "stack"), ("sanitizers", "stack")],
    },
    Floors {
        of: "worlds/machine",
        rooms: &["sync", "defaults", "queues", "memory", "runtime", "tasks", "streams"],
        back: &[],
    },
    Floors {
        of: "worlds/threads",
        rooms: &["sync", "mutant", "threads", "watch", "words", "spawn", "sitting", "team", "map_reduce"],
        back: &[],
    },
];

/// The room of a file: the first part of its path below `src`.
fn room_of(path: &str) -> &str {
    let below = path.split_once("/src/").map_or("", |(_, below)| below);
    below.split('/').next().unwrap_or_default().trim_end_matches(".rs")
}

/// The rooms named by a file of its own crate: `crate::room::…`, also in lists.
fn named(source: &Source) -> BTreeSet<String> {
    let text = bare(&source.text);
    let mut found = BTreeSet::new();
    for (position, word) in text.match_indices("crate::") {
        let before = text[..position].chars().next_back();
        if before.is_some_and(|char| char.is_alphanumeric() || char == '_') {
            continue;
        }
        let rest = &text[position + word.len()..];
        let first = |part: &str| part.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect();
        if let Some(list) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut starts = true;
            for (at, char) in list.char_indices() {
                match char {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => starts = true,
                    char if starts && char.is_alphabetic() => {
                        found.insert(first(&list[at..]));
                        starts = false;
                    }
                    _ => {}
                }
            }
        } else {
            found.insert(first(rest));
        }
    }
    found
}

/// Arrows between rooms that the floors don't allow, rooms without a floor, and allowed arrows that are gone.
fn broken_floors(floors: &Floors, files: &[Source]) -> Vec<String> {
    let of_crate = files.iter().filter(|source| source.path.starts_with(&format!("{}/src/", floors.of)));
    let floor = |room: &str| floors.rooms.iter().position(|found| *found == room);
    let (mut broken, mut back) = (BTreeSet::new(), BTreeSet::new());
    for source in of_crate {
        let from = room_of(&source.path);
        if from == "lib" {
            continue;
        }
        let Some(here) = floor(from) else {
            broken.insert(format!("{}: the room {from} has no floor", floors.of));
            continue;
        };
        for to in named(source) {
            if floor(&to).is_some_and(|there| there > here) {
                back.insert((from.to_owned(), to));
            }
        }
    }
    let allowed = floors.back.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned()));
    let allowed: BTreeSet<(String, String)> = allowed.collect();
    broken.extend(back.difference(&allowed).map(|(from, to)| format!("{}: {from} names {to} above it", floors.of)));
    let gone = allowed.difference(&back);
    broken.extend(gone.map(|(from, to)| format!("{}: {from} no longer names {to}: delete the arrow", floors.of)));
    broken.into_iter().collect()
}

#[test]
fn rooms_name_the_rooms_below() {
    let files = crate_files();
    assert_none(
        "the floors in tidy/tests/tidy/rooms.rs",
        FLOORS.iter().flat_map(|floors| broken_floors(floors, &files)),
    );
}

#[test]
fn an_arrow_up_is_found() {
    let floors = Floors { of: "worlds/a", rooms: &["low", "high"], back: &[("low", "top")] };
    let files = [
        sample("worlds/a/src/lib.rs", "mod low;\nuse crate::high::B;\n"),
        sample("worlds/a/src/low/part.rs", "use crate::{low::A, high::{B, C}}; // crate::top\n"),
        sample("worlds/a/src/high.rs", "use crate::low;\n"),
        sample("worlds/a/src/new.rs", ""),
        sample("worlds/b/src/low.rs", "use crate::high;\n"),
    ];
    let broken = broken_floors(&floors, &files);
    assert_eq!(
        broken,
        [
            "worlds/a: low names high above it",
            "worlds/a: low no longer names top: delete the arrow",
            "worlds/a: the room new has no floor",
        ]
    );
}

// ---- circles ----

/// The greatest number of files of a crate that name one another in a circle.
const CIRCLE: usize = 5;

/// The module of a file below `src`: its path's parts.
fn module_of(path: &str) -> Vec<String> {
    let below = path.split_once("/src/").map_or("", |(_, below)| below).trim_end_matches(".rs");
    let below = below.strip_suffix("/mod").unwrap_or(below);
    below.split('/').map(str::to_owned).collect()
}

/// The paths of a tree of imports: `a::{b::C, d}` has two.
fn expand(before: &[String], tree: &str, found: &mut Vec<Vec<String>>) {
    let mut path = before.to_vec();
    let mut rest = tree.trim();
    loop {
        if let Some(list) = rest.strip_prefix('{') {
            let (mut depth, mut start) = (0, 0);
            for (at, char) in list.char_indices() {
                depth += i32::from(char == '{') - i32::from(char == '}');
                if depth < 0 || depth == 0 && char == ',' {
                    expand(&path, &list[start..at], found);
                    start = at + 1;
                }
                if depth < 0 {
                    return;
                }
            }
            return;
        }
        let end = rest.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(rest.len());
        if end > 0 {
            path.push(rest[..end].to_owned());
        }
        match rest[end..].strip_prefix("::") {
            Some(behind) if end > 0 => rest = behind,
            _ => break,
        }
    }
    found.push(path);
}

/// The files of a crate that each file names, as modules: `crate::…`, `super::…`, and imports of its own modules.
fn arrows(files: &[&Source]) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let modules: BTreeSet<Vec<String>> = files.iter().map(|source| module_of(&source.path)).collect();
    let root = vec!["lib".to_owned()];
    let mut arrows = BTreeMap::new();
    for source in files {
        let here = module_of(&source.path);
        let text = bare(&source.text);
        let mut paths = Vec::new();
        for word in ["crate::", "super::", "use "] {
            for (at, _) in text.match_indices(word) {
                let is_part = |char: char| char.is_alphanumeric() || char == '_' || char == ':';
                if !text[..at].ends_with(is_part) {
                    let from = if word == "use " { at + word.len() } else { at };
                    expand(&[], text[from..].split(';').next().unwrap_or_default(), &mut paths);
                }
            }
        }
        let mut named = BTreeSet::new();
        for path in paths {
            let supers = path.iter().take_while(|part| *part == "super").count();
            let is_of_crate = path.first().is_some_and(|part| part == "crate");
            let outer = &here[..here.len().saturating_sub(supers)];
            let whole = if is_of_crate { path[1..].to_vec() } else { [outer, &path[supers..]].concat() };
            let target = (1..=whole.len()).rev().map(|length| whole[..length].to_vec());
            let target = target.into_iter().find(|module| modules.contains(module));
            named.extend(target.filter(|module| *module != here && *module != root));
        }
        if here != root {
            arrows.insert(here, named);
        }
    }
    arrows
}

/// The files of a crate that name one another in too large a circle.
fn large_circles(of: &str, files: &[Source]) -> Vec<String> {
    let prefix = format!("{of}/src/");
    let arrows = arrows(&files.iter().filter(|source| source.path.starts_with(&prefix)).collect::<Vec<_>>());
    let reached = |from: &Vec<String>| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            for to in arrows.get(module).into_iter().flatten() {
                if seen.insert(to) {
                    next.push(to);
                }
            }
        }
        seen
    };
    let all: BTreeMap<_, _> = arrows.keys().map(|module| (module, reached(module))).collect();
    let circle = |module: &Vec<String>| -> Vec<String> {
        let back = all[module].iter().filter(|other| all.get(**other).is_some_and(|seen| seen.contains(module)));
        back.map(|other| other.join("::")).collect()
    };
    let circles: BTreeSet<Vec<String>> = arrows.keys().map(circle).filter(|circle| circle.len() > CIRCLE).collect();
    circles.into_iter().map(|circle| format!("{of}: {}", circle.join(", "))).collect()
}

#[test]
fn circles_of_files_are_small() {
    let files = crate_files();
    let circles = FLOORS.iter().flat_map(|floors| large_circles(floors.of, &files));
    assert_none("at most five files name one another in a circle", circles);
}

#[test]
fn a_large_circle_is_found() {
    let mut files: Vec<Source> = (0..CIRCLE)
        .map(|number| sample(&format!("worlds/a/src/in/f{number}.rs"), &format!("use super::f{}::A;\n", number + 1)))
        .collect();
    files.push(sample("worlds/a/src/in/mod.rs", "mod f0;\nuse f0::B;\n"));
    files.push(sample("worlds/a/src/in/f5.rs", "use crate::{other::B, in::{f4::C, f3}};\n"));
    files.push(sample("worlds/a/src/other.rs", "// use crate::in::f5::A;\n"));
    assert!(large_circles("worlds/a", &files).is_empty());
    files.last_mut().expect("it was pushed").text = "fn f() { crate::in::f0::g() }\n".to_owned();
    let circle = "in::f0, in::f1, in::f2, in::f3, in::f4, in::f5, other";
    assert_eq!(large_circles("worlds/a", &files), [format!("worlds/a: {circle}")]);
}

// ---- operators of SPARQL ----

/// Variants of core/sparql's physical operators named outside of their own folders. Whatever asks all operators asks
/// their trait, so that a new one is known to its folder and to the list in `operators/mod.rs`.
fn operators_abroad(source: &Source) -> Vec<String> {
    let Some(below) = source.path.strip_prefix("core/sparql/src/") else { return Vec::new() };
    let home = below.strip_prefix("operators/").and_then(|rest| rest.split_once('/')).map(|(folder, _)| folder);
    let text = bare(&source.text);
    let mut broken = Vec::new();
    for (at, word) in text.match_indices("Op::") {
        let is_part = text[..at].ends_with(|char: char| char.is_alphanumeric() || char == '_');
        let name: String = text[at + word.len()..].chars().take_while(|char| char.is_alphanumeric()).collect();
        let folder = name.char_indices().fold(String::new(), |mut folder, (place, char)| {
            if place > 0 && char.is_uppercase() {
                folder.push('_');
            }
            folder.extend(char.to_lowercase());
            folder
        });
        if !is_part && !name.is_empty() && below != "operators/mod.rs" && home != Some(&*folder) {
            broken.push(format!("{}: Op::{name}", source.path));
        }
    }
    broken
}

#[test]
fn an_operator_of_sparql_is_known_at_home() {
    let files = crate_files();
    assert!(files.iter().any(|source| source.path == "core/sparql/src/operators/filter/mod.rs"), "operators are found");
    assert_none("an operator's variant is named in its folder alone", files.iter().flat_map(operators_abroad));
}

#[test]
fn an_operator_abroad_is_found() {
    let of =
        |path: &str| operators_abroad(&sample(&format!("core/sparql/src/{path}"), "Op::HashJoin(a), BinOp::Add\n"));
    assert!(of("operators/hash_join/plan.rs").is_empty() && of("operators/mod.rs").is_empty());
    assert_eq!(of("operators/scan/mod.rs"), ["core/sparql/src/operators/scan/mod.rs: Op::HashJoin"]);
    assert_eq!(of("lower.rs"), ["core/sparql/src/lower.rs: Op::HashJoin"]);
}

// ---- words ----

/// Words against a crate's first page: beginnings of names that its code never has.
const NEVER: [(&str, &[&str]); 4] = [
    ("worlds/fibres", &["Seat", "Worker", "Plan", "Queue", "Task"]),
    ("worlds/machine", &["Fibre", "Team", "SyncVar", "Sitting"]),
    ("worlds/os", &["Worker", "Runtime", "TaskRef"]),
    ("worlds/threads", &["Instance", "Operator", "ModelBuilder", "Envelope"]),
];

fn broken_nevers(never: &[(&str, &[&str])], files: &[Source]) -> Vec<String> {
    let mut broken = Vec::new();
    for (of, words) in never {
        for source in files.iter().filter(|source| source.path.starts_with(&format!("{of}/src/"))) {
            let text = bare(&source.text);
            let names = text.split(|char: char| !char.is_alphanumeric() && char != '_');
            let found = names.filter(|name| words.iter().any(|word| name.starts_with(word)));
            broken.extend(found.map(|name| format!("{}: {name}", source.path)));
        }
    }
    broken
}

#[test]
fn first_pages_hold() {
    let files = crate_files();
    for (of, _) in NEVER {
        let page = files.iter().find(|source| source.path == format!("{of}/src/lib.rs")).expect("it has a first page");
        assert!(page.text.contains("never:") || page.text.contains("Nothing here"), "{of} says what it never does");
    }
    assert_none("the words in tidy/tests/tidy/rooms.rs", broken_nevers(&NEVER, &files));
}

#[test]
fn a_word_against_the_first_page_is_found() {
    let files = [sample("worlds/a/src/part.rs", "/// A Seat.\nfn f(seat: SeatId, free: Free) {}\n")];
    assert_eq!(broken_nevers(&[("worlds/a", &["Seat"])], &files), ["worlds/a/src/part.rs: SeatId"]);
}
