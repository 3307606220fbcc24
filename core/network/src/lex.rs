//! From a text to its words.

use crate::error::{NetworkError, Spot};

/// A word of a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word {
    /// A name or a keyword.
    Name(String),
    Integer(i64),
    Number(f64),
    Text(String),
    /// A sign: one of `=;:,.()*{}`, `->` or `=>`.
    Sign(&'static str),
    /// A sign that only columns have, in names of time zones.
    Other,
    End,
}

impl Word {
    /// The word as an error shows it.
    pub(crate) fn shown(&self, source: &str, spot: Spot) -> String {
        match self {
            Word::End => "the end of the text".to_owned(),
            _ => {
                let all = &source[spot.from..spot.to];
                let short: String = all.chars().take(40).collect();
                if short.len() < all.len() { format!("`{short}…`") } else { format!("`{short}`") }
            }
        }
    }
}

const SIGNS: [&str; 12] = ["->", "=>", "=", ";", ":", ",", ".", "(", ")", "*", "{", "}"];

/// All words with their places, the end among them.
pub(crate) fn words(source: &str) -> Result<Vec<(Word, Spot)>, NetworkError> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        if first.is_whitespace() || (first == '\u{FEFF}' && at == 0) {
            at += first.len_utf8();
            continue;
        }
        if first == '#' {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        let (word, length) = if first.is_ascii_alphabetic() || first == '_' {
            let length = length_of(rest, is_of_name);
            (Word::Name(rest[..length].to_owned()), length)
        } else if first.is_ascii_digit() || (first == '-' && rest[1..].starts_with(|sign: char| sign.is_ascii_digit()))
        {
            number(rest).map_err(|(message, length)| NetworkError::at(source, spot(at, length), message))?
        } else if first == '"' {
            text(rest).map_err(|(message, from, length)| NetworkError::at(source, spot(at + from, length), message))?
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            (Word::Sign(sign), sign.len())
        } else {
            (Word::Other, first.len_utf8())
        };
        words.push((word, spot(at, length)));
        at += length;
    }
    // An error at the end of a text has the place of its last character.
    let last = source.trim_end();
    let from = last.char_indices().next_back().map_or(0, |(from, _)| from);
    words.push((Word::End, Spot { from, to: last.len() }));
    Ok(words)
}

fn spot(from: usize, length: usize) -> Spot {
    Spot { from, to: from + length }
}

/// Whether a name may have this sign behind its first one.
pub(crate) fn is_of_name(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || sign == '_'
}

fn length_of(text: &str, of: impl Fn(char) -> bool) -> usize {
    text.find(|sign| !of(sign)).unwrap_or(text.len())
}

fn number(rest: &str) -> Result<(Word, usize), (String, usize)> {
    let minus = usize::from(rest.starts_with('-'));
    let digits = |from: usize| length_of(&rest[from..], |sign| sign.is_ascii_digit());
    let mut length = minus + digits(minus);
    let mut is_integer = true;
    if rest[length..].starts_with('.') && digits(length + 1) > 0 {
        is_integer = false;
        length += 1 + digits(length + 1);
    }
    if rest[length..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[length + 1..].starts_with(['-', '+']));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            is_integer = false;
            length += 1 + sign + exponent;
        }
    }
    let written = &rest[..length];
    let after = length_of(&rest[length..], is_of_name);
    if after > 0 {
        let all = &rest[..length + after];
        return Err((format!("`{all}` is neither a number nor a name: names begin with a letter"), length + after));
    }
    if is_integer {
        let value = written.parse().map_err(|_| (format!("{written} is beyond 64 bits"), length))?;
        return Ok((Word::Integer(value), length));
    }
    match written.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok((Word::Number(value), length)),
        _ => Err((format!("{written} is beyond the numbers of 64 bits"), length)),
    }
}

fn text(rest: &str) -> Result<(Word, usize), (String, usize, usize)> {
    let mut value = String::new();
    let mut signs = rest.char_indices().skip(1);
    while let Some((at, sign)) = signs.next() {
        match sign {
            '"' => return Ok((Word::Text(value), at + 1)),
            '\\' => match signs.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 'r')) => value.push('\r'),
                Some((_, 't')) => value.push('\t'),
                Some((_, same @ ('"' | '\\'))) => value.push(same),
                Some((_, other)) => {
                    let message = format!(r#"`\{}` is unknown: write \", \\, \n, \r or \t"#, other.escape_default());
                    return Err((message, at, 1 + other.len_utf8()));
                }
                None => break,
            },
            sign => value.push(sign),
        }
    }
    Err(("this text has no end: a `\"` is missing".to_owned(), 0, 1))
}
