//! Messages to people: lines on standard error, and how errors of standard output are treated.

use anyhow::Context;
use std::fmt::{Display, Write as _};
use std::io::{self, ErrorKind, Write as _};

/// Writes a line to standard error, without control sequences. Errors are ignored, as there is nowhere to report them.
pub(crate) fn tell(line: impl Display) {
    // In one call, so lines of several threads don't mix.
    let _ = io::stderr().write_all((harmless(&line.to_string()) + "\n").as_bytes());
}

/// Writes a text to standard output.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// The result of writing to standard output. A closed pipe is no error, because its reader may have read enough
/// (`| head`).
pub(crate) fn printed(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("standard output"),
    }
}

/// An error with its causes, without causes already contained in the error's text.
pub(crate) fn whole(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| match told.is_empty() {
        true => cause,
        false if told.ends_with(&cause) => told,
        false => format!("{told}: {cause}"),
    })
}

/// A text without control characters except line feeds. Errors quote files and queries, and a terminal would obey
/// control characters in them.
fn harmless(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut harmless, character| {
        if character.is_control() && character != '\n' {
            write!(harmless, "{}", character.escape_default()).expect("a string takes everything");
        } else {
            harmless.push(character);
        }
        harmless
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_once_and_terminals_obey_nothing() {
        let error = anyhow::Error::msg("no file").context("a.nt: can't be opened: no file").context("loading");
        assert_eq!(whole(&error), "loading: a.nt: can't be opened: no file");
        assert_eq!(harmless("a\u{1b}[31mb\u{9b}c\td\r\ne ü"), "a\\u{1b}[31mb\\u{9b}c\\td\\r\ne ü");
    }
}
