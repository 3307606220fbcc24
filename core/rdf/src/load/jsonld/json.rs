//! JSON (RFC 8259) as a tree. It has a limit on its levels, so that what walks it may recurse.

/// The deepest nesting of objects and lists, which is walked by recursion.
const MOST_LEVELS: usize = 256;

/// A value. An object keeps its members in the text's order.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Json {
    Null,
    Boolean(bool),
    /// The number as written.
    Number(Box<str>),
    String(Box<str>),
    Array(Vec<Json>),
    Object(Vec<Member>),
}

pub(super) type Member = (Box<str>, Json);

impl Json {
    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// The items of an array, or the value itself as the only one.
    pub(super) fn items(&self) -> &[Json] {
        match self {
            Json::Array(items) => items,
            single => std::slice::from_ref(single),
        }
    }
}

/// Why a text is not read to its end.
pub(super) enum Unread {
    /// An error, and the byte before which it stands.
    Wrong(usize, String),
    Stopped,
}

/// Values read between two looks whether reading is stopped.
const BETWEEN_LOOKS: usize = 1 << 12;

struct Reader<'a> {
    text: &'a str,
    at: usize,
    levels: usize,
    values: usize,
    stopped: &'a dyn Fn() -> bool,
}

/// Which part of a text is read. Only a list is read in parts: each ends behind a comma between two of its items, and
/// the last one at the text's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
}

impl Part {
    #[cfg(test)]
    pub(crate) const WHOLE: Part = Part { is_first: true, is_last: true };
}

/// Finds the commas between the items of a list, in text that comes piece by piece. In text that is no JSON, it may
/// find others, all of them behind the first error.
#[derive(Default, Debug)]
pub(crate) struct Items {
    levels: usize,
    in_string: bool,
    is_escaped: bool,
    /// The first byte that is no white space.
    first: Option<u8>,
}

impl Items {
    /// The place behind the last comma between two items in the text's next piece.
    pub(crate) fn last_end(&mut self, piece: &[u8]) -> Option<usize> {
        let mut end = None;
        for (at, &byte) in piece.iter().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'[' | b'{' => self.levels += 1,
                b']' | b'}' => self.levels = self.levels.saturating_sub(1),
                b',' if self.levels == 1 && self.first == Some(b'[') => end = Some(at + 1),
                b' ' | b'\t' | b'\n' | b'\r' | 0xEF | 0xBB | 0xBF => continue,
                _ => {}
            }
            self.first.get_or_insert(byte);
        }
        end
    }
}

/// Reads a part of a text. If it is a list with an error behind its first items, these are there all the same.
pub(super) fn read(text: &str, part: Part, stopped: &dyn Fn() -> bool) -> (Option<Json>, Result<(), Unread>) {
    let mut reader = Reader { text, at: 0, levels: 0, values: 0, stopped };
    let mut first = Vec::new();
    let outcome = match reader.peek() {
        _ if !part.is_first => {
            reader.levels = 1;
            reader.items(&mut first, part).map(|()| None)
        }
        Some(b'[') => reader.array(&mut first, part).map(|()| None),
        _ => reader.value().map(Some),
    };
    let ended = outcome.and_then(|value| match reader.peek() {
        None => Ok(value),
        Some(_) => reader.wrong("there is text behind the end of the JSON"),
    });
    match ended {
        Ok(Some(value)) => (Some(value), Ok(())),
        Ok(None) => (Some(Json::Array(first)), Ok(())),
        Err(wrong) => (Some(Json::Array(first)), Err(wrong)),
    }
}

impl Reader<'_> {
    fn wrong<T>(&self, what: impl Into<String>) -> Result<T, Unread> {
        Err(Unread::Wrong(self.at, what.into()))
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let blank = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).unwrap_or(rest.len());
        self.at += blank;
        rest.get(blank).copied()
    }

    fn expected<T>(&mut self, what: &str) -> Result<T, Unread> {
        match self.text[self.at..].chars().next() {
            None => self.wrong(format!("the text ends where {what} is expected")),
            Some(found) => self.wrong(format!("`{found}` stands where {what} is expected")),
        }
    }

    fn deeper(&mut self) -> Result<(), Unread> {
        self.at += 1;
        self.levels += 1;
        if self.levels > MOST_LEVELS {
            return self.wrong(format!("objects and lists are nested more than {MOST_LEVELS} levels deep"));
        }
        Ok(())
    }

    fn value(&mut self) -> Result<Json, Unread> {
        self.values += 1;
        if self.values.is_multiple_of(BETWEEN_LOOKS) && (self.stopped)() {
            return Err(Unread::Stopped);
        }
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => {
                let mut items = Vec::new();
                self.array(&mut items, Part { is_first: true, is_last: true })?;
                Ok(Json::Array(items))
            }
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let words = [("null", Json::Null), ("true", Json::Boolean(true)), ("false", Json::Boolean(false))];
                for (word, value) in words {
                    if self.text[self.at..].starts_with(word) {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                self.expected("a value")
            }
        }
    }

    fn array(&mut self, items: &mut Vec<Json>, part: Part) -> Result<(), Unread> {
        self.deeper()?;
        if self.peek() != Some(b']') {
            return self.items(items, part);
        }
        self.at += 1;
        self.levels -= 1;
        Ok(())
    }

    /// The items of a list up to its end, or those of a part.
    fn items(&mut self, items: &mut Vec<Json>, part: Part) -> Result<(), Unread> {
        loop {
            items.push(self.value()?);
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return self.expected("`,` or `]`"),
            }
            if !part.is_last && self.levels == 1 && self.peek().is_none() {
                return Ok(());
            }
        }
        self.at += 1;
        self.levels -= 1;
        Ok(())
    }

    fn object(&mut self) -> Result<Json, Unread> {
        self.deeper()?;
        let mut members = Vec::new();
        if self.peek() != Some(b'}') {
            loop {
                if self.peek() != Some(b'"') {
                    return self.expected("a name in quotation marks");
                }
                let name = self.string()?;
                if self.peek() != Some(b':') {
                    return self.expected("`:`");
                }
                self.at += 1;
                members.push((name, self.value()?));
                match self.peek() {
                    Some(b',') => self.at += 1,
                    Some(b'}') => break,
                    _ => return self.expected("`,` or `}`"),
                }
            }
        }
        self.at += 1;
        self.levels -= 1;
        Ok(Json::Object(members))
    }

    fn number(&mut self) -> Result<Json, Unread> {
        let bytes = self.text.as_bytes();
        let begin = self.at;
        let digits = |at: &mut usize| {
            let from = *at;
            while bytes.get(*at).is_some_and(u8::is_ascii_digit) {
                *at += 1;
            }
            *at > from
        };
        let mut at = begin + usize::from(bytes[begin] == b'-');
        let whole = at;
        let mut is_number = digits(&mut at) && (bytes[whole] != b'0' || at == whole + 1);
        if bytes.get(at) == Some(&b'.') {
            at += 1;
            is_number &= digits(&mut at);
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            is_number &= digits(&mut at);
        }
        if !is_number {
            return self.wrong("this is no number of JSON");
        }
        self.at = at;
        Ok(Json::Number(self.text[begin..at].into()))
    }

    fn string(&mut self) -> Result<Box<str>, Unread> {
        self.at += 1;
        let mut string = String::new();
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let Some(plain) = rest.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < b' ') else {
                self.at = self.text.len();
                return self.wrong("the text ends within a string");
            };
            let (piece, end) = (&self.text[self.at..self.at + plain], rest[plain]);
            self.at += plain;
            match end {
                b'"' => {
                    self.at += 1;
                    // Most strings have no escapes.
                    return Ok(if string.is_empty() { piece.into() } else { (string + piece).into() });
                }
                b'\\' => {
                    string.push_str(piece);
                    let character = self.escaped()?;
                    string.push(character);
                }
                _ => return self.wrong("a control character stands in a string without an escape"),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, Unread> {
        let Some(&kind) = self.text.as_bytes().get(self.at + 1) else {
            return self.wrong("the text ends within a string");
        };
        let plain = match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{C}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hexadecimal()?;
                let mut unit = u32::from(first);
                if (0xD800..0xDC00).contains(&first) && self.text[self.at..].starts_with("\\u") {
                    let second = self.hexadecimal()?;
                    unit = match second {
                        0xDC00..0xE000 => 0x10000 + ((unit - 0xD800) << 10) + (u32::from(second) - 0xDC00),
                        _ => unit,
                    };
                }
                return match char::from_u32(unit) {
                    Some(character) => Ok(character),
                    None => self.wrong("an escape is half of a pair of surrogates"),
                };
            }
            _ => return self.wrong("this is no escape of JSON"),
        };
        self.at += 2;
        Ok(plain)
    }

    /// The number that `\u` and four digits write.
    fn hexadecimal(&mut self) -> Result<u16, Unread> {
        let digits = self.text.get(self.at + 2..self.at + 6);
        let is_hexadecimal = |digits: &&str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let Some(digits) = digits.filter(is_hexadecimal) else { return self.wrong("this is no escape of JSON") };
        self.at += 6;
        Ok(u16::from_str_radix(digits, 16).expect("four hexadecimal digits"))
    }
}

/// The canonical form of a value: RFC 8785. Recursion is as deep as the tree.
pub(super) fn canonical(value: &Json, into: &mut String) {
    match value {
        Json::Null => into.push_str("null"),
        Json::Boolean(true) => into.push_str("true"),
        Json::Boolean(false) => into.push_str("false"),
        Json::Number(number) => into.push_str(&ecmascript(number)),
        Json::String(text) => canonical_string(text, into),
        Json::Array(items) => {
            into.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    into.push(',');
                }
                canonical(item, into);
            }
            into.push(']');
        }
        Json::Object(members) => {
            let mut sorted: Vec<&Member> = members.iter().collect();
            sorted.sort_by(|a, b| a.0.encode_utf16().cmp(b.0.encode_utf16()));
            into.push('{');
            for (place, (name, value)) in sorted.into_iter().enumerate() {
                if place > 0 {
                    into.push(',');
                }
                canonical_string(name, into);
                into.push(':');
                canonical(value, into);
            }
            into.push('}');
        }
    }
}

fn canonical_string(text: &str, into: &mut String) {
    into.push('"');
    for character in text.chars() {
        match character {
            '"' => into.push_str("\\\""),
            '\\' => into.push_str("\\\\"),
            '\u{8}' => into.push_str("\\b"),
            '\u{C}' => into.push_str("\\f"),
            '\n' => into.push_str("\\n"),
            '\r' => into.push_str("\\r"),
            '\t' => into.push_str("\\t"),
            control if control < ' ' => into.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => into.push(other),
        }
    }
    into.push('"');
}

/// A number as ECMAScript writes it: ECMA-262, `Number::toString`.
fn ecmascript(number: &str) -> String {
    let value: f64 = number.parse().expect("the grammar of JSON is within that of Rust");
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    // The shortest digits that are read as the same number.
    let written = format!("{:e}", value.abs());
    let (mantissa, exponent) = written.split_once('e').expect("it is written with an exponent");
    let digits: String = mantissa.chars().filter(|&character| character != '.').collect();
    let (count, point) = (digits.len() as i32, exponent.parse::<i32>().expect("a small number") + 1);
    let plain = match point {
        1..=21 if point >= count => digits + &"0".repeat((point - count) as usize),
        1..=21 => format!("{}.{}", &digits[..point as usize], &digits[point as usize..]),
        -5..=0 => format!("0.{}{digits}", "0".repeat(-point as usize)),
        _ => {
            let (first, rest) = digits.split_at(1);
            let rest = if rest.is_empty() { String::new() } else { format!(".{rest}") };
            format!("{first}{rest}e{}{}", if point > 0 { '+' } else { '-' }, (point - 1).abs())
        }
    };
    if value < 0.0 { format!("-{plain}") } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &str) -> Result<String, String> {
        match read(text, Part::WHOLE, &|| false) {
            (Some(value), Ok(())) => {
                let mut written = String::new();
                canonical(&value, &mut written);
                Ok(written)
            }
            (_, Err(Unread::Wrong(at, what))) => Err(format!("{at}: {what}")),
            _ => unreachable!("it is not stopped"),
        }
    }

    /// The examples of RFC 8785, §3.2.2 and §3.2.3, and appendix B.
    #[test]
    fn values_have_a_canonical_form() {
        let text = r#"{ "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false] }"#;
        let expected = concat!(
            r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"#,
            r#""string":"€$\u000f\nA'B\"\\\\\"/"}"#
        );
        assert_eq!(read_all(text).unwrap(), expected);
        let keys = r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#;
        assert_eq!(read_all(keys).unwrap(), "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\u{fb33}\":3}");
        for (written, expected) in [
            ("-0", "0"),
            ("5e-324", "5e-324"),
            ("-1.7976931348623157e308", "-1.7976931348623157e+308"),
            ("9007199254740992", "9007199254740992"),
            ("295147905179352830000", "295147905179352830000"),
            ("1e21", "1e+21"),
            ("9.999999999999997e22", "9.999999999999997e+22"),
            ("333333333.3333332", "333333333.3333332"),
            ("0.000001", "0.000001"),
            ("1e-7", "1e-7"),
        ] {
            assert_eq!(read_all(written).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_no_json_is_told_with_its_place() {
        for (text, expected) in [
            ("", "0: the text ends where a value"),
            ("[1,]", "3: `]` stands where a value"),
            ("{\"a\" 1}", "5: `1` stands where `:`"),
            ("{1:1}", "1: `1` stands where a name"),
            ("\"a", "2: the text ends within a string"),
            ("\"\n\"", "1: a control character"),
            ("\"\\x\"", "1: this is no escape"),
            ("\"\\ud800x\"", "7: an escape is half"),
            ("01", "0: this is no number"),
            ("1.", "0: this is no number"),
            ("1e", "0: this is no number"),
            ("tru", "0: `t` stands where"),
            ("1 2", "2: there is text behind"),
        ] {
            let error = read_all(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(read_all(&nested(MOST_LEVELS)).is_ok());
        assert!(read_all(&nested(1_000_000)).unwrap_err().contains("more than 256 levels deep"));
    }
}
