//! The N-Triples loader against oxttl, on random lines and on damaged ones: the same verdict, and the same triples.

use crate::{check, random};
use oxrdf::Triple;
use oxttl::NTriplesParser;
use proptest::prelude::*;
use std::collections::BTreeSet;
use vicus_rdf::load::{Chunk, OnError, parse_ntriples};
use vicus_rdf::{Order, Snapshot};

fn by_oxttl(text: &[u8]) -> Result<BTreeSet<String>, oxttl::TurtleSyntaxError> {
    NTriplesParser::new().for_slice(text).map(|triple| triple.map(|triple| triple.to_string())).collect()
}

fn by_us(snapshot: &Snapshot) -> BTreeSet<String> {
    let index = snapshot.index(Order::Gspo);
    (0..index.len())
        .map(|row| {
            let [s, p, o] = index.triple(row).map(|id| snapshot.term(id).to_string());
            format!("{s} {p} {o}")
        })
        .collect()
}

fn assert_agree(text: &[u8]) -> Result<(), TestCaseError> {
    let shown = String::from_utf8_lossy(text).into_owned();
    match (by_oxttl(text), Snapshot::of_ntriples(text)) {
        (Ok(expected), Ok(snapshot)) => prop_assert_eq!(by_us(&snapshot), expected, "{:?}", shown),
        (Err(expected), Err(error)) => {
            // With several lines, oxttl may report an error on a later line, at the end of its search for the end of a
            // string.
            let mut lines = text.split_inclusive(|&byte| byte == b'\n');
            let line = lines.position(|line| by_oxttl(line).is_err()).map(|line| line as u64 + 1);
            prop_assert_eq!(Some(error.line), line, "{:?}: {} and {}", shown, error, expected);
        }
        (expected, ours) => {
            prop_assert!(false, "{:?}: {:?} and {:?}", shown, expected, ours.map(|snapshot| snapshot.len()))
        }
    }
    Ok(())
}

#[test]
fn what_oxttl_writes_is_read_alike() {
    check(300, random::triples(), |triples| assert_agree(&random::document(&triples)));
}

/// Bytes with a meaning somewhere in a line.
const SPICE: &[&[u8]] = &[
    b"<",
    b">",
    b"\"",
    b"\\",
    b" ",
    b"\t",
    b".",
    b"_:",
    b"@",
    b"^^",
    b"-",
    b":",
    b"%",
    b"%41",
    b"#",
    b"\r",
    b"\r\n",
    b"\n",
    b"\\u0041",
    b"\\n",
    b"\\u12",
    b"\xC3\xA9",
    b"\xC3",
    b"\xFF",
    b"\xED\xA0\x80",
    b"\0",
    b"\x7F",
    b"a",
    b"1",
    b"/",
    b"[",
    b"]",
    b"?",
    b"{",
    b"|",
    b"'",
    b",",
    b";",
    b"en",
    b"@en",
    b"@en-US",
    b"--ltr",
    b"^^<http://e/d>",
    b"<<(",
    b"..",
    b"\xEF\xBF\xBE",
    b"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#langString>",
    b"^^<http://www.w3.org/2001/XMLSchema#integer>",
    b"\xEE\x80\x80",
    b"//",
    b":80",
    b"\xE3\x81\x81",
    b"\xC2\xB7",
];

/// One line with a few bytes removed, replaced or added.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let damage = (any::<proptest::sample::Index>(), 0..4_usize, proptest::sample::select(SPICE.to_vec()));
    (random::triple(), proptest::collection::vec(damage, 0..4), any::<bool>()).prop_map(|(triple, damages, newline)| {
        let mut line = random::document(&[triple]);
        line.pop();
        for (place, removed, added) in damages {
            let place = place.index(line.len() + 1);
            let end = (place + removed).min(line.len());
            line.splice(place..end, added.iter().copied());
        }
        if newline {
            line.push(b'\n');
        }
        line
    })
}

#[test]
fn a_damaged_line_has_oxttls_verdict() {
    check(30_000, damaged(), |line| assert_agree(&line));
}

const PIECES: &[&str] = &[
    "<http://e/a>",
    "<http://e/a#b#c>",
    "<http://e/%4>",
    "<http://e/%41>",
    "<http://[::1]/>",
    "<http://u@e:80/>",
    "<http://e:8a/>",
    "<a>",
    "<>",
    "<http://e/ b>",
    "<http://e/\\u0041>",
    "<http://e/é>",
    "<urn:a:b>",
    "<a://>",
    "<1:b>",
    "_:x",
    "_:x.",
    "_:x.y",
    "_:-x",
    "_:x-",
    "_:é",
    "_:",
    "_:1",
    "_:x:y",
    "_:x-.",
    "_:x..",
    "\"\"",
    "\"a\"",
    "\"a\\n\"",
    "\"\\x\"",
    "\"a\"@en",
    "\"a\"@EN-us",
    "\"a\"@e",
    "\"a\"@en-",
    "\"a\"@abcdefghi",
    "\"a\"@en-abc",
    "\"a\"@abc-de",
    "\"a\"@en.",
    "\"a\"@en-us-x",
    "\"a\"@en<",
    "\"a\"@en-é",
    "\"a\"@a-bc",
    "\"a\"@abcd-ef",
    "\"a\"@de-1996",
    "\"a\"@1",
    "\"a\"@",
    "\"1\"^^<http://www.w3.org/2001/XMLSchema#integer>",
    "\"é\"^^<http://www.w3.org/2001/XMLSchema#string>",
    "\"a\"^^<b>",
    "\"a\" ^^ <http://e/d>",
    "'a'",
    "\"\"\"a\"\"\"",
    ".",
    "..",
    "#c",
    "1",
    "a",
    "\"a\"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#langString>",
    "\"a\" @en",
];

/// Lines of random pieces, right and wrong ones, with all kinds of space.
fn assembled() -> impl Strategy<Value = Vec<u8>> {
    use proptest::sample::select;
    let piece = |good: &'static [&'static str]| prop_oneof![6 => select(good), 1 => select(PIECES)];
    let space = || prop_oneof![6 => Just(" "), 2 => Just(""), 1 => select(&["\t", "  ", "\r", "\u{A0}"][..])];
    let subject = piece(&["<http://e/a>", "<urn:a:b>", "_:x", "_:1"]);
    let predicate = piece(&["<http://e/a>", "<urn:a:b>"]);
    let more = prop_oneof![6 => Just(""), 1 => select(PIECES)];
    let odd_end = select(&[". #c\n", " . \t", "\n", "", " .. ", ". é"][..]);
    let end = prop_oneof![6 => select(&[".", ".\n", " .\r\n"][..]), 1 => odd_end];
    ((space(), subject, space()), (predicate, space()), select(PIECES), (space(), more, end)).prop_map(
        |((a, subject, b), (predicate, c), object, (d, more, end))| {
            format!("{a}{subject}{b}{predicate}{c}{object}{d}{more}{end}").into_bytes()
        },
    )
}

#[test]
fn a_line_of_pieces_has_oxttls_verdict() {
    check(30_000, assembled(), |line| assert_agree(&line));
}

#[test]
fn what_was_accepted_before_makes_no_difference() {
    // The second line of each pair resembles a term brought into the dictionary by the first one.
    for (first, second) in [
        ("<http://e/a> <http://e/b> \"a\\r\" .", "<http://e/a> <http://e/b> \"a\r\" ."),
        ("<http://e/\\u0041> <http://e/b> \"a\" .", "<http://e/A> <http://e/b> \"a\" ."),
        ("_:a <http://e/b> \"a\" .", "_:ab <http://e/b> \"a\" ."),
        ("_:a <http://e/b> \"a\" .", "_:a.b <http://e/b> \"a\" ."),
        ("<http://e/a> <http://e/b> <http://e/c> .", "<http://e/a> <http://e/b> \"x\"^^<http://e/c > ."),
        ("<http://e/a> <http://e/b> \"1\"^^<http://e/c> .", "<http://e/a> <http://e/b> \"1\"^^<http://e/c>. ."),
    ] {
        assert_agree(format!("{first}\n{second}").as_bytes()).unwrap();
        assert_agree(format!("{first}\n{second}\n{first}\n").as_bytes()).unwrap();
    }
}

#[test]
fn skipping_loses_the_malformed_lines_alone() {
    check(
        200,
        (random::triples(), proptest::collection::vec((any::<proptest::sample::Index>(), damaged()), 0..5)),
        |(triples, damage)| {
            let mut lines: Vec<Vec<u8>> =
                triples.iter().map(|triple: &Triple| random::document(std::slice::from_ref(triple))).collect();
            for (place, mut line) in damage {
                if line.last() != Some(&b'\n') {
                    line.push(b'\n');
                }
                lines.insert(place.index(lines.len() + 1), line);
            }
            let text = lines.concat();
            let (mut expected, mut malformed) = (BTreeSet::new(), 0);
            for line in text.split_inclusive(|&byte| byte == b'\n') {
                match by_oxttl(line) {
                    Ok(triples) => expected.extend(triples),
                    Err(_) => malformed += 1,
                }
            }
            let parsed = parse_ntriples(Chunk::file(&text), 0, OnError::Skip).unwrap();
            prop_assert_eq!(parsed.skipped, malformed);
            prop_assert_eq!(parsed.first_skipped.is_some(), malformed > 0);
            let snapshot = Snapshot::from_parsed(vec![parsed]);
            prop_assert_eq!(by_us(&snapshot), expected);
            // Nor does a refused line leave terms behind.
            let terms: BTreeSet<_> = Order::USUAL
                .iter()
                .map(|&order| snapshot.index(order))
                .flat_map(|index| index.keys(0..index.key_count()))
                .collect();
            prop_assert_eq!(terms.iter().filter(|id| !id.is_inlined()).count(), snapshot.dictionary().len());
            Ok(())
        },
    );
}
