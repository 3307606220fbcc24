//! Tokens of a query's text: SPARQL 1.1 Query Language, §19.8.
//!
//! Each token is as long as possible (§19.8, note 2): in `FILTER (?x<?a&&?b>?y)` the characters from `<` to `>` are an
//! IRI. The sign of a number is a token of its own; the parser checks whether it touches the number.

/// The kind of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// `<…>`
    Iri,
    /// `prefix:local`; either part may be empty.
    Name,
    /// `_:label`
    Blank,
    /// `?name` or `$name`
    Variable,
    /// `@en-GB`; of RDF 1.2, `@en-GB--ltr` as well
    Language,
    Integer,
    Decimal,
    Double,
    /// A string in any of the four kinds of quotes.
    Text,
    /// A keyword, or a word that could be one.
    Word,
    BraceOpen,
    BraceClose,
    Open,
    Close,
    BracketOpen,
    BracketClose,
    Dot,
    Comma,
    Semicolon,
    Or,
    Bar,
    And,
    Bang,
    NotEqual,
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Plus,
    Minus,
    Star,
    Slash,
    Caret,
    Carets,
    /// `<<(`, of RDF 1.2 as those below.
    TermOpen,
    /// `)>>`
    TermClose,
    /// `<<`
    ReifiedOpen,
    /// `>>`
    ReifiedClose,
    /// `{|`
    AnnotationOpen,
    /// `|}`
    AnnotationClose,
    /// `~`
    Tilde,
    Question,
    /// Not a token; [`Tokens::wrong`] says why. No other kind follows.
    Wrong,
    /// The end of the text. No other kind follows.
    End,
}

/// A token and the bytes of the text that it covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: u32,
    pub(super) end: u32,
}

/// Cuts a text of less than 4 GiB into tokens, one at a time. A list of all tokens would take many times the memory of
/// the text.
pub(super) struct Tokens<'a> {
    text: &'a str,
    /// The end of the last token.
    at: usize,
    /// See [`token`].
    nameless: usize,
    /// The error message of [`Kind::Wrong`].
    pub(super) wrong: String,
    /// Whether there are the tokens of SPARQL 1.2.
    rdf_12: bool,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str, rdf_12: bool) -> Tokens<'a> {
        Tokens { text, at: 0, nameless: 0, wrong: String::new(), rdf_12 }
    }

    /// The next token. [`Kind::End`] and [`Kind::Wrong`] are returned again and again.
    pub(super) fn next(&mut self) -> Token {
        let bytes = self.text.as_bytes();
        self.at = skip_blank(bytes, self.at);
        let start = self.at as u32;
        if self.at == bytes.len() {
            return Token { kind: Kind::End, start, end: start };
        }
        let newer = if self.rdf_12 { newer(bytes, self.at) } else { None };
        match newer.map_or_else(|| token(self.text, self.at, &mut self.nameless), Ok) {
            Ok((kind, end)) => {
                self.at = end;
                Token { kind, start, end: end as u32 }
            }
            Err(Wrong { at, message }) => {
                self.wrong = message;
                Token { kind: Kind::Wrong, start: at as u32, end: at as u32 }
            }
        }
    }
}

/// Why and where there is no token.
struct Wrong {
    at: usize,
    message: String,
}

fn skip_blank(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => at += 1,
            b'#' => at += bytes[at..].iter().position(|byte| b"\n\r".contains(byte)).unwrap_or(bytes.len() - at),
            _ => break,
        }
    }
    at
}

/// The token at a place that only SPARQL 1.2 has, and its end.
fn newer(bytes: &[u8], at: usize) -> Option<(Kind, usize)> {
    let rest = &bytes[at..];
    let signs: [(&[u8], Kind); 7] = [
        (b"<<(", Kind::TermOpen),
        (b")>>", Kind::TermClose),
        (b"<<", Kind::ReifiedOpen),
        (b">>", Kind::ReifiedClose),
        (b"{|", Kind::AnnotationOpen),
        (b"|}", Kind::AnnotationClose),
        (b"~", Kind::Tilde),
    ];
    if let Some((sign, kind)) = signs.into_iter().find(|(sign, _)| rest.starts_with(sign)) {
        return Some((kind, at + sign.len()));
    }
    if rest.first() != Some(&b'@') {
        return None;
    }
    let mut end = run(bytes, at + 1, u8::is_ascii_alphabetic);
    if end == at + 1 {
        return None;
    }
    loop {
        let part = run(bytes, end + 1, u8::is_ascii_alphanumeric);
        if bytes.get(end) != Some(&b'-') || part == end + 1 {
            break;
        }
        end = part;
    }
    let direction = run(bytes, end + 2, u8::is_ascii_alphabetic);
    (bytes[end..].starts_with(b"--") && direction > end + 2).then_some((Kind::Language, direction))
}

/// The token at a place, and its end. No prefixed name begins before `nameless`.
fn token(text: &str, at: usize, nameless: &mut usize) -> Result<(Kind, usize), Wrong> {
    let bytes = text.as_bytes();
    let next = bytes.get(at + 1).copied().unwrap_or(0);
    let one = |kind| Ok((kind, at + 1));
    let two = |kind| Ok((kind, at + 2));
    match bytes[at] {
        b'{' => one(Kind::BraceOpen),
        b'}' => one(Kind::BraceClose),
        b'(' => one(Kind::Open),
        b')' => one(Kind::Close),
        b'[' => one(Kind::BracketOpen),
        b']' => one(Kind::BracketClose),
        b',' => one(Kind::Comma),
        b';' => one(Kind::Semicolon),
        b'|' if next == b'|' => two(Kind::Or),
        b'|' => one(Kind::Bar),
        b'&' if next == b'&' => two(Kind::And),
        b'!' if next == b'=' => two(Kind::NotEqual),
        b'!' => one(Kind::Bang),
        b'=' => one(Kind::Equal),
        b'<' => match iri_end(bytes, at) {
            Some(end) => Ok((Kind::Iri, end)),
            None if begins_iri(&bytes[at + 1..]) => {
                Err(Wrong { at, message: "an IRI that doesn't end: `>` is missing".to_owned() })
            }
            None if next == b'=' => two(Kind::LessOrEqual),
            None => one(Kind::Less),
        },
        b'>' if next == b'=' => two(Kind::GreaterOrEqual),
        b'>' => one(Kind::Greater),
        b'+' => one(Kind::Plus),
        b'-' => one(Kind::Minus),
        b'*' => one(Kind::Star),
        b'/' => one(Kind::Slash),
        b'^' if next == b'^' => two(Kind::Carets),
        b'^' => one(Kind::Caret),
        b'"' | b'\'' => Ok((Kind::Text, text_end(bytes, at)?)),
        b'@' => {
            let end = run(bytes, at + 1, u8::is_ascii_alphabetic);
            if end == at + 1 {
                return Err(Wrong { at, message: "`@` begins a language tag, such as `@en`".to_owned() });
            }
            let mut end = end;
            while bytes.get(end) == Some(&b'-') {
                let part = run(bytes, end + 1, u8::is_ascii_alphanumeric);
                if part == end + 1 {
                    break;
                }
                end = part;
            }
            Ok((Kind::Language, end))
        }
        b'?' | b'$' => {
            let end = variable_end(text, at + 1);
            match bytes[at] {
                _ if end > at + 1 => Ok((Kind::Variable, end)),
                b'?' => one(Kind::Question),
                _ => Err(Wrong { at, message: "`$` begins a variable, such as `$name`".to_owned() }),
            }
        }
        b'_' if next == b':' => {
            let mut end = at + 2;
            let mut is_first = true;
            let mut behind = end;
            while let Some(char) = text[behind..].chars().next() {
                let fits = if is_first {
                    is_name_start(char) || char == '_' || char.is_ascii_digit()
                } else {
                    is_name_char(char) || char == '.'
                };
                if !fits {
                    break;
                }
                is_first = false;
                behind += char.len_utf8();
                if char != '.' {
                    end = behind;
                }
            }
            if end == at + 2 {
                return Err(Wrong { at, message: "`_:` begins a blank node and needs a label".to_owned() });
            }
            Ok((Kind::Blank, end))
        }
        b'0'..=b'9' => Ok(number(bytes, at)),
        b'.' if next.is_ascii_digit() => Ok(number(bytes, at)),
        b'.' => one(Kind::Dot),
        b':' => Ok((Kind::Name, local_end(text, at + 1)?)),
        _ => word_or_name(text, at, nameless),
    }
}

/// The first place from `at` on at which `fits` is false.
fn run(bytes: &[u8], at: usize, fits: impl Fn(&u8) -> bool) -> usize {
    bytes
        .get(at..)
        .unwrap_or_default()
        .iter()
        .position(|byte| !fits(byte))
        .map_or(bytes.len().max(at), |length| at + length)
}

/// The end of the IRI that begins at a place, if one does.
fn iri_end(bytes: &[u8], at: usize) -> Option<usize> {
    let end = run(bytes, at + 1, |&byte| byte > b' ' && !b"<>\"{}|^`\\".contains(&byte));
    match bytes.get(end)? {
        b'>' => Some(end + 1),
        // A codepoint escape.
        b'\\' if bytes.get(end + 1).is_some_and(|byte| b"uU".contains(byte)) => {
            // Escapes are rare, so the rest is read byte by byte.
            let end = run(bytes, end, |&byte| byte > b' ' && !b"<>\"{}|^`".contains(&byte));
            (bytes.get(end) == Some(&b'>')).then_some(end + 1)
        }
        _ => None,
    }
}

/// Whether a text begins an IRI of the web, so that `<` before it is no comparison: `http:` would be a prefix, and no
/// name has `//`.
fn begins_iri(text: &[u8]) -> bool {
    [&b"http://"[..], b"https://"].iter().any(|scheme| text.starts_with(scheme))
}

/// The end of the string that begins at a place.
fn text_end(bytes: &[u8], start: usize) -> Result<usize, Wrong> {
    let quote = bytes[start];
    let unended = || Wrong { at: start, message: "a string that doesn't end".to_owned() };
    if bytes[start..].starts_with(&[quote; 3]) {
        let mut at = start + 3;
        loop {
            at = run(bytes, at, |&byte| byte != quote && byte != b'\\');
            match bytes.get(at) {
                Some(b'\\') => at += 2,
                Some(_) if bytes[at..].starts_with(&[quote; 3]) => return Ok(at + 3),
                Some(_) => at += 1,
                None => return Err(unended()),
            }
            if at > bytes.len() {
                return Err(unended());
            }
        }
    }
    let mut at = start + 1;
    loop {
        at = run(bytes, at, |&byte| byte != quote && !b"\\\n\r".contains(&byte));
        match bytes.get(at) {
            Some(b'\\') if at + 2 <= bytes.len() => at += 2,
            Some(&byte) if byte == quote => return Ok(at + 1),
            Some(b'\n' | b'\r') => {
                let message = "a string that doesn't end on its line; one in three quotes may have several lines";
                return Err(Wrong { at: start, message: message.to_owned() });
            }
            _ => return Err(unended()),
        }
    }
}

fn variable_end(text: &str, start: usize) -> usize {
    let mut end = start;
    for char in text[start..].chars() {
        let fits = is_name_start(char)
            || char == '_'
            || char.is_ascii_digit()
            || (end > start && matches!(char, '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}'));
        if !fits {
            break;
        }
        end += char.len_utf8();
    }
    end
}

fn number(bytes: &[u8], at: usize) -> (Kind, usize) {
    let digits = |at| run(bytes, at, u8::is_ascii_digit);
    let exponent = |at: usize| {
        let sign = usize::from(bytes.get(at + 1).is_some_and(|byte| b"+-".contains(byte)));
        let end = match bytes.get(at) {
            Some(b'e' | b'E') => digits(at + 1 + sign),
            _ => return None,
        };
        (end > at + 1 + sign).then_some(end)
    };
    let whole = digits(at);
    if bytes.get(whole) == Some(&b'.') {
        let fraction = digits(whole + 1);
        let has_digits = whole > at || fraction > whole + 1;
        return match exponent(fraction) {
            Some(end) if has_digits => (Kind::Double, end),
            _ if fraction > whole + 1 => (Kind::Decimal, fraction),
            // The dot ends a triple.
            _ => (Kind::Integer, whole),
        };
    }
    exponent(whole).map_or((Kind::Integer, whole), |end| (Kind::Double, end))
}

/// A keyword, or a name with a prefix.
fn word_or_name(text: &str, at: usize, nameless: &mut usize) -> Result<(Kind, usize), Wrong> {
    let bytes = text.as_bytes();
    let first = text[at..].chars().next().expect("the text goes on");
    if !is_name_start(first) && first != '_' {
        let message = match first {
            '\\' => "a backslash can't stand here".to_owned(),
            first => format!("`{}` can't stand here", first.escape_debug()),
        };
        return Err(Wrong { at, message });
    }
    let word = run(bytes, at, |&byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_name_start(first) && at >= *nameless {
        let mut end = word;
        // Most words are followed by white space or a bracket, and most prefixes have only letters.
        while let Some(&byte) = bytes.get(end) {
            let char =
                if byte.is_ascii() { char::from(byte) } else { text[end..].chars().next().expect("the text goes on") };
            if !is_name_char(char) && char != '.' {
                break;
            }
            end += char.len_utf8();
        }
        if bytes.get(end) == Some(&b':') && bytes[end - 1] != b'.' {
            return Ok((Kind::Name, local_end(text, end + 1)?));
        }
        // `a.a.a.a` is several words, and no colon follows any of them.
        *nameless = end;
    }
    if word == at {
        return Err(Wrong { at, message: format!("`{first}` can't stand here") });
    }
    Ok((Kind::Word, word))
}

/// The end of the local name that begins at a place.
fn local_end(text: &str, start: usize) -> Result<usize, Wrong> {
    let bytes = text.as_bytes();
    let (mut at, mut end) = (start, start);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b':' => at += 1,
            b'-' if at > start => at += 1,
            b'.' if at > start => {
                at += 1;
                // The last character of a name is never a dot.
                continue;
            }
            b'%' => {
                if !(at + 2 < bytes.len() && bytes[at + 1..at + 3].iter().all(u8::is_ascii_hexdigit)) {
                    let message = "`%` in a name is followed by two hexadecimal digits; as a sign it is `\\%`";
                    return Err(Wrong { at, message: message.to_owned() });
                }
                at += 3;
            }
            b'\\' => match bytes.get(at + 1) {
                Some(next) if b"_~.-!$&'()*+,;=/?#@%".contains(next) => at += 2,
                _ => break,
            },
            byte if byte.is_ascii() => break,
            _ => {
                let char = text[at..].chars().next().expect("the text goes on");
                let fits = if at > start { is_name_char(char) } else { is_name_start(char) };
                if !fits {
                    break;
                }
                at += char.len_utf8();
            }
        }
        end = at;
    }
    Ok(end)
}

/// `PN_CHARS_BASE`
fn is_name_start(char: char) -> bool {
    char.is_ascii_alphabetic()
        || (!char.is_ascii()
            && matches!(char,
                '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}' | '\u{370}'..='\u{37D}'
                | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}' | '\u{2C00}'..='\u{2FEF}'
                | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}'
                | '\u{10000}'..='\u{EFFFF}'))
}

/// `PN_CHARS`
fn is_name_char(char: char) -> bool {
    is_name_start(char)
        || char.is_ascii_digit()
        || matches!(char, '_' | '-' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All tokens including the last one, and the error message.
    fn tokens(text: &str) -> (Vec<Token>, String) {
        let (mut tokens, mut all) = (Tokens::new(text, false), Vec::new());
        loop {
            let token = tokens.next();
            all.push(token);
            if matches!(token.kind, Kind::End | Kind::Wrong) {
                assert_eq!((tokens.next().kind, tokens.next().start), (token.kind, token.start), "{text}");
                return (all, tokens.wrong);
            }
        }
    }

    fn cut(text: &str) -> Vec<&str> {
        let (all, wrong) = tokens(text);
        assert_eq!(wrong, "", "{text}");
        all[..all.len() - 1].iter().map(|token| &text[token.start as usize..token.end as usize]).collect()
    }

    #[test]
    fn a_token_is_as_long_as_it_can_be() {
        assert_eq!(cut("?x<?a&&?b>?y"), ["?x", "<?a&&?b>", "?y"]);
        assert_eq!(cut("?x < ?a&&?b>?y"), ["?x", "<", "?a", "&&", "?b", ">", "?y"]);
        assert_eq!(cut("?x<=3||!?y!=4"), ["?x", "<=", "3", "||", "!", "?y", "!=", "4"]);
        assert_eq!(cut("1.e5 1. 1.5. .5e-3 1e5.2 1e"), ["1.e5", "1", ".", "1.5", ".", ".5e-3", "1e5", ".2", "1", "e"]);
        assert_eq!(cut(":a.b. p.q:r. :s a.:b"), [":a.b", ".", "p.q:r", ".", ":s", "a", ".", ":b"]);
        assert_eq!(cut(":a\\(b\\,c-1%20:x_:y ._:z.1."), [":a\\(b\\,c-1%20:x_:y", ".", "_:z.1", "."]);
        assert_eq!(cut("?p? ?p*/^:q|!(a)"), ["?p", "?", "?p", "*", "/", "^", ":q", "|", "!", "(", "a", ")"]);
        assert_eq!(
            cut("'a''b' '''it's''' \"\\\"\"@en-GB-x^^"),
            ["'a'", "'b'", "'''it's'''", "\"\\\"\"", "@en-GB-x", "^^"]
        );
        assert_eq!(cut("SELECT*{#{\n}FILTER?é_1·"), ["SELECT", "*", "{", "}", "FILTER", "?é_1·"]);
        assert_eq!(cut("<a\\u00E9> <a b>"), ["<a\\u00E9>", "<", "a", "b", ">"]);
    }

    #[test]
    fn what_is_no_token_has_a_place_and_a_reason() {
        for (text, place, reason) in [
            ("?s 'abc", 3, "doesn't end"),
            ("?s 'abc\n'", 3, "on its line"),
            ("?s '''abc''", 3, "doesn't end"),
            ("?s \"a\\", 3, "doesn't end"),
            ("?s '''\\", 3, "doesn't end"),
            ("?s @ ", 3, "language tag"),
            ("$ ", 0, "variable"),
            ("_: ", 0, "label"),
            (":a%2", 2, "hexadecimal"),
            ("?s \u{1} ?o", 3, "can't stand here"),
            ("?s × ?o", 3, "can't stand here"),
        ] {
            let (all, wrong) = tokens(text);
            let last = all.last().unwrap();
            assert_eq!((last.kind, last.start), (Kind::Wrong, place), "{text}");
            assert!(wrong.contains(reason), "{text}: {wrong}");
        }
    }
}
