//! The open quotation mark of a file: a field that begins with one goes on to the next single one, over the ends of
//! lines (RFC 4180, §2). A reader takes a file whose last mark is never closed for one that ends in a very long value.

/// The state behind the bytes so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Begins,
    Bare,
    Quoted,
    /// Behind a mark in a quoted field: its end, or the first of two marks that stand for one.
    Closed,
}

/// Follows the marks of a file.
#[derive(Debug)]
pub(super) struct Quotes {
    delimiter: u8,
    state: State,
    line: u64,
    /// The line of the last opening mark.
    opened: u64,
}

impl Quotes {
    pub(super) fn new(delimiter: u8) -> Quotes {
        Quotes { delimiter, state: State::Begins, line: 1, opened: 1 }
    }

    /// Looks at the next bytes. Gives the place behind the last line break outside of quotes; 0 without one. Bytes
    /// without marks take about as long as copying them.
    pub(super) fn see(&mut self, bytes: &[u8]) -> usize {
        let (mut rest, mut lines) = (bytes, 0);
        while let Some(&last) = rest.last() {
            // Up to the first mark, only the byte before it matters.
            let plain = rest.iter().position(|byte| *byte == b'"').unwrap_or(rest.len());
            if plain > 0 {
                self.line += rest[..plain].iter().filter(|byte| **byte == b'\n').count() as u64;
                if self.state != State::Quoted {
                    if let Some(place) = rest[..plain].iter().rposition(|byte| *byte == b'\n') {
                        lines = bytes.len() - rest.len() + place + 1;
                    }
                    let before = if plain == rest.len() { last } else { rest[plain - 1] };
                    let begins = before == self.delimiter || before == b'\n' || before == b'\r';
                    self.state = if begins { State::Begins } else { State::Bare };
                }
                rest = &rest[plain..];
                continue;
            }
            self.state = match self.state {
                State::Begins => {
                    self.opened = self.line;
                    State::Quoted
                }
                State::Quoted => State::Closed,
                State::Closed => State::Quoted,
                State::Bare => State::Bare,
            };
            rest = &rest[1..];
        }
        lines
    }

    /// The line of the open mark.
    pub(super) fn open(&self) -> Option<u64> {
        (self.state == State::Quoted).then_some(self.opened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_that_is_never_closed_is_known_however_the_bytes_come() {
        for (text, line) in [
            ("a,b\n1,2\n", None),
            ("a,b\n1,\"2\n3,4\n", Some(2)),
            ("\"a\"\"\",b\n\"x\"", None),
            ("\"a\"\"", Some(1)),
            ("5\" disk,\"a\nb\"\n", None),
            ("a\n\"b\nc\"\nd,\"", Some(4)),
            ("\"\"", None),
            ("\"\"\"", Some(1)),
            ("", None),
        ] {
            for size in 1..=text.len().max(1) {
                let mut quotes = Quotes::new(b',');
                text.as_bytes().chunks(size).for_each(|chunk| _ = quotes.see(chunk));
                assert_eq!(quotes.open(), line, "{text:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn the_last_line_break_outside_of_quotes_is_told() {
        for (text, place) in [
            ("a,b\n1,2\n3", 8),
            ("a,\"b\n1\",2\n3", 10),
            ("a\n\"b\n", 2),
            ("\"a\nb\"", 0),
            ("5\" disk\n\"a\"\"\n", 8),
            ("\"a\"\n", 4),
            ("", 0),
        ] {
            assert_eq!(Quotes::new(b',').see(text.as_bytes()), place, "{text:?}");
        }
    }
}
