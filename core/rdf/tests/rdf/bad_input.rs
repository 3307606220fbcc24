//! A user's likely mistakes in the input: each gets an answer soon, with its position.

use vicus_rdf::load::{Chunk, Chunker, OnError, TurtleReader, parse_ntriples, parse_turtle};
use vicus_rdf::{Snapshot, SyntaxError};

const GOOD: &str = "<http://e/a> <http://e/b> \"c\" .\n";

fn error(text: &[u8]) -> SyntaxError {
    parse_ntriples(Chunk::file(text), 3, OnError::Fail).expect_err("malformed")
}

#[test]
fn an_error_names_file_line_and_column() {
    for (line, column, message) in [
        ("<http://e/a> <http://e/b> .", 27, "object"),
        ("\"é\" <http://e/b> \"c\" .", 1, "subject"),
        ("<http://e/é> _:b \"c\" .", 14, "predicate"),
        ("<http://e/a> <http://e/b> \"c\"", 30, "dot"),
        ("<http://e/a> <relative> \"c\" .", 14, "scheme"),
        ("<http://e/a> <http://e/b> \"c", 27, "ends too early"),
        ("<http://e/a> <http://e/b> \"c\" . <http://e/a>", 33, "single triple"),
    ] {
        let error = error(format!("{GOOD}\r\n# comment\n{line}\n{GOOD}").as_bytes());
        assert_eq!((error.file, error.line, error.column), (3, 4, column), "{line}: {error}");
        assert!(error.message.to_lowercase().contains(message), "{line}: {error}");
        assert!(error.to_string().starts_with(&format!("file 3, line 4, column {column}: ")), "{error}");
    }
}

#[test]
fn a_later_chunk_counts_lines_from_the_files_start() {
    let text = format!("{}nonsense\n{GOOD}", GOOD.repeat(10));
    let (chunks, _) = Chunker::new(70).cut(text.as_bytes(), true);
    let errors: Vec<SyntaxError> =
        chunks.into_iter().filter_map(|chunk| parse_ntriples(chunk, 0, OnError::Fail).err()).collect();
    assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [11]);
}

#[test]
fn text_that_is_not_utf8_has_a_place() {
    for (line, column) in [
        (&b"<http://e/a> <http://e/b> \"c\xFFd\" ."[..], 29),
        (b"<http://e/\xFF> <http://e/b> \"c\" .", 11),
        (b"<http://e/a> <http://e/b> _:\xC3\x28 .", 29),
    ] {
        let error = error(&[GOOD.as_bytes(), line].concat());
        assert_eq!((error.line, error.column), (2, column), "{error}");
    }
    let text = b"<http://e/a> <http://e/b> \"c\" ,\n \"\xFF\" .";
    let error = parse_turtle(text, 0, None, OnError::Fail).unwrap_err();
    assert_eq!(error.line, 2, "{error}");
}

#[test]
fn windows_line_ends_are_line_ends() {
    let text = format!("{GOOD}{GOOD}\n# comment\n<http://e/a> <http://e/b> _:c .\n").replace('\n', "\r\n");
    assert_eq!(Snapshot::of_ntriples(text.as_bytes()).unwrap().len(), 2);
    assert_eq!(Snapshot::of_turtle(text.as_bytes(), None).unwrap().len(), 2);
}

#[test]
fn a_line_of_ten_million_bytes_has_a_verdict() {
    const LONG: usize = 10_000_000;
    for byte in [b'<', b'"', b'a', b' ', b'\\', b'_', b'\r', b'.', b'#', b'%', 0xC3, 0xFF, b'f', b'@'] {
        for text in [
            vec![byte; LONG],
            [b"<http://e/a> <http://e/b> \"", &vec![byte; LONG][..]].concat(),
            [b"<http://e/", &vec![byte; LONG][..]].concat(),
            [b"_:", &vec![byte; LONG][..], b" <http://e/b> \"\""].concat(),
        ] {
            for on_error in [OnError::Fail, OnError::Skip] {
                match parse_ntriples(Chunk::file(&text), 0, on_error) {
                    Ok(parsed) => assert!(parsed.quads().is_empty()),
                    Err(error) => assert!(error.line == 1 && error.message.len() < 500),
                }
            }
            let (chunks, used) = Chunker::new(1 << 16).cut(&text, false);
            assert_eq!((chunks.len(), used), (0, 0));
        }
    }
    let text = [b"<http://e/a> <http://e/b> \"", &vec![b'x'; LONG][..], b"\" ."].concat();
    assert_eq!(Snapshot::of_ntriples(&text).unwrap().len(), 1);
    let label = [b"<http://e/a> <http://e/b> _:", &b"f0_".repeat(LONG / 3)[..], b"x ."].concat();
    let snapshot = Snapshot::of_ntriples(&label).unwrap();
    assert_eq!(snapshot.term(snapshot.index(vicus_rdf::Order::Gspo).get(3, 0)).to_string().len(), LONG / 3 * 3 + 3);
}

#[test]
fn turtle_of_ten_million_bytes_has_a_verdict() {
    for byte in [b'<', b'"', b'a', b'(', b'[', b'.', b';', 0xFF, b'@'] {
        for on_error in [OnError::Fail, OnError::Skip] {
            // An opening parenthesis is a valid beginning, and each makes a triple.
            let text = vec![byte; if byte == b'(' { 200_000 } else { 10_000_000 }];
            if let Err(error) = parse_turtle(&text, 0, None, on_error) {
                assert!(error.message.len() < 500);
            }
        }
    }
}

#[test]
fn skipped_turtle_is_counted() {
    let text = b"@prefix e: <http://e/> .\ne:a e:b e:c .\ne:a e:b nonsense .\ne:a e:b e:d .\n";
    assert_eq!(parse_turtle(text, 5, None, OnError::Fail).unwrap_err().line, 3);
    let parsed = parse_turtle(text, 5, None, OnError::Skip).unwrap();
    let first = parsed.first_skipped.clone().unwrap();
    assert_eq!((first.file, first.line), (5, 3));
    assert!(parsed.skipped >= 1);
    assert_eq!(parsed.quads().len(), 2);
    let error = TurtleReader::new(5, Some("no IRI"), OnError::Skip).err().unwrap();
    assert_eq!((error.file, error.line), (5, 0));
}

#[test]
fn turtle_may_come_byte_by_byte() {
    let text =
        "@prefix é: <http://e/> .\r\né:a é:b \"\"\"x\n\"y\"\"\"@en , [ é:c 1.5e3 ] ; é:d ( true .5 ) .".as_bytes();
    let whole = parse_turtle(text, 0, None, OnError::Fail).unwrap();
    let mut reader = TurtleReader::new(0, None, OnError::Fail).unwrap();
    let mut pieces = Vec::new();
    for byte in text.chunks(1) {
        reader.feed(byte).unwrap();
        pieces.push(reader.take());
    }
    pieces.push(reader.finish().unwrap());
    let (whole, pieces) = (Snapshot::from_parsed(vec![whole]), Snapshot::from_parsed(pieces));
    assert_eq!((pieces.len(), pieces.dictionary().len()), (whole.len(), whole.dictionary().len()));
    let order = vicus_rdf::Order::Gspo;
    assert!((0..whole.len()).all(|row| whole.index(order).triple(row) == pieces.index(order).triple(row)));
}
