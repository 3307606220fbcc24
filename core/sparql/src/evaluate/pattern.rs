//! Translates XPath's regular expressions to the syntax of the crates that run them.
//!
//! XPath and XQuery Functions and Operators 3.1, §5.6.1, over XSD 1.1, Part 2, Appendix G. The crates' syntax differs:
//! it accepts constructs unknown to XPath (`\b`, `[a&&b]`, `(?i)`) and gives other meanings to the rest (`\w`, `.`, `#`
//! among white space). So each construct is parsed here and written in a form with one meaning only.

use super::blocks::block;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};
use std::fmt::Write as _;

/// A parsed and translated pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    /// In the syntax of the `regex` crate, or of `fancy-regex` if there are back-references or exact line ends.
    pub(super) text: String,
    /// The number of capturing groups.
    pub(super) groups: usize,
    pub(super) has_back_references: bool,
    /// Whether `^` and `$` match at line ends.
    pub(super) has_line_ends: bool,
    /// About how many bytes the compiled pattern takes.
    pub(super) bytes: usize,
}

/// The flags: the third operand of REGEX, the fourth of REPLACE.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Flags {
    /// `s`: a point matches any character.
    dot_all: bool,
    /// `m`: `^` and `$` match at line ends.
    lines: bool,
    /// `i`: upper and lower case are equal.
    any_case: bool,
    /// `x`: white space in the pattern is skipped.
    spaced: bool,
    /// `q`: every character stands for itself.
    pub(super) quoted: bool,
}

impl Flags {
    /// `None` for an unknown flag (FORX0001).
    pub(super) fn parse(text: &str) -> Option<Flags> {
        let mut flags = Flags::default();
        for letter in text.chars() {
            match letter {
                's' => flags.dot_all = true,
                'm' => flags.lines = true,
                'i' => flags.any_case = true,
                'x' => flags.spaced = true,
                'q' => flags.quoted = true,
                _ => return None,
            }
        }
        Some(flags)
    }
}

/// The text that every match of a pattern without flags begins with, if there is one.
pub(crate) fn literal_prefix(pattern: &str) -> Option<String> {
    let rest = pattern.strip_prefix('^')?;
    // An alternative may begin with anything.
    if rest.contains('|') {
        return None;
    }
    let mut prefix = String::new();
    let mut letters = rest.chars().peekable();
    while let Some(letter) = letters.next_if(|letter| !"?*+{}()[].^$".contains(*letter)) {
        prefix.push(match letter {
            '\\' => match letters.next_if(|letter| r"\|.-^?*+{}()[]$".contains(*letter)) {
                Some(escaped) => escaped,
                None => return Some(prefix).filter(|prefix| !prefix.is_empty()),
            },
            other => other,
        });
    }
    // The last one may be missing.
    if letters.peek().is_some_and(|letter| "?*{".contains(*letter)) {
        prefix.pop();
    }
    Some(prefix).filter(|prefix| !prefix.is_empty())
}

/// A pattern whose compiled form would take more bytes is refused: the call fails.
pub(super) const MOST_BYTES: usize = 16 << 20;

/// Bytes that any compiled pattern takes.
const LEAST_BYTES: usize = 8 << 10;

/// How deep groups may be nested.
const MOST_NESTED: usize = 100;

/// Translates a pattern; `None` if it is not an XPath pattern (FORX0002) or too large. With `exact`, a line feed at the
/// very end of the text ends the last line and begins no other. The automaton can't express that, only `fancy-regex`
/// can, and few texts need it.
pub(super) fn translate(pattern: &str, flags: Flags, exact: bool) -> Option<Pattern> {
    let pattern = if flags.spaced && !flags.quoted { without_spaces(pattern) } else { pattern.to_owned() };
    let mut translator = Translator {
        rest: pattern.as_str(),
        flags,
        exact,
        made: Pattern {
            text: String::new(),
            groups: 0,
            has_back_references: false,
            has_line_ends: false,
            bytes: pattern.len(),
        },
        open: Vec::new(),
        nested: 0,
    };
    let bytes = if flags.quoted { translator.quoted()? } else { translator.expression()? };
    if !translator.rest.is_empty() {
        return None;
    }
    let made = translator.made;
    Some(Pattern { bytes: LEAST_BYTES + bytes + made.bytes + made.text.len(), ..made })
}

/// The pattern without white space, except for white space in character classes.
fn without_spaces(pattern: &str) -> String {
    let is_space = |char: char| matches!(char, '\t' | '\n' | '\r' | ' ');
    let mut made = String::with_capacity(pattern.len());
    let (mut in_class, mut is_escaped) = (0usize, false);
    for char in pattern.chars() {
        if in_class == 0 && is_space(char) {
            continue;
        }
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => in_class += 1,
            ']' => in_class = in_class.saturating_sub(1),
            _ => {}
        }
        made.push(char);
    }
    made
}

struct Translator<'a> {
    rest: &'a str,
    flags: Flags,
    exact: bool,
    made: Pattern,
    /// The numbers of the capturing groups that are not closed yet.
    open: Vec<usize>,
    nested: usize,
}

/// The meaning of an escape with a backslash.
enum Escape {
    Char(char),
    Class(ClassUnicode),
}

/// The parsing functions return the estimated bytes of the construct they have read, and `None` for an error.
impl Translator<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let char = self.peek()?;
        self.rest = &self.rest[char.len_utf8()..];
        Some(char)
    }

    fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn quoted(&mut self) -> Option<usize> {
        let mut bytes = 0;
        while let Some(char) = self.next() {
            bytes += self.char(char)?;
        }
        Some(bytes)
    }

    /// Branches up to the end of the pattern or a closing bracket.
    fn expression(&mut self) -> Option<usize> {
        let mut bytes = 0usize;
        while let Some(char) = self.peek() {
            match char {
                ')' => break,
                '|' => {
                    self.next();
                    self.made.text.push('|');
                    bytes += 32;
                }
                _ => bytes += self.piece()?,
            }
            if bytes > MOST_BYTES {
                return None;
            }
        }
        Some(bytes)
    }

    /// An atom with its quantifier.
    fn piece(&mut self) -> Option<usize> {
        let bytes = self.atom()?;
        let times = match self.peek() {
            Some(sign @ ('?' | '*' | '+')) => {
                self.next();
                self.made.text.push(sign);
                2
            }
            Some('{') => {
                self.next();
                let least = self.number()?;
                let most = if self.take(",") {
                    if self.peek() == Some('}') { None } else { Some(self.number()?) }
                } else {
                    Some(least)
                };
                if !self.take("}") || most.is_some_and(|most| most < least) {
                    return None;
                }
                match most {
                    Some(most) => write!(self.made.text, "{{{least},{most}}}"),
                    None => write!(self.made.text, "{{{least},}}"),
                }
                .expect("a string takes everything");
                most.unwrap_or(least).max(1) as usize + 1
            }
            _ => return Some(bytes),
        };
        if self.take("?") {
            self.made.text.push('?');
        }
        bytes.checked_mul(times).filter(|bytes| *bytes <= MOST_BYTES)
    }

    fn number(&mut self) -> Option<u32> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        number.parse().ok()
    }

    fn atom(&mut self) -> Option<usize> {
        match self.next()? {
            '(' => self.group(),
            '[' => {
                let set = self.class()?;
                self.set(&set)
            }
            '.' if self.flags.dot_all => self.put(r"[\x{0}-\x{10FFFF}]", 512),
            '.' => self.put(r"[^\n\r]", 512),
            '^' if !self.flags.lines => self.put(r"(?:\A)", 32),
            '$' if !self.flags.lines => self.put(r"(?:\z)", 32),
            sign @ ('^' | '$') => {
                self.made.has_line_ends = true;
                let text = match (sign, self.exact) {
                    ('^', false) => r"(?m:^)",
                    ('^', true) => r"(?:\A|(?<=\n)(?!\z))",
                    (_, false) => r"(?m:$)",
                    (_, true) => r"(?:(?=\n)|(?<!\n)\z)",
                };
                self.put(text, 32)
            }
            '\\' => {
                if let Some('1'..='9') = self.peek() {
                    return self.back_reference();
                }
                // These classes have shorter names in the other syntax.
                for (name, text, bytes) in [
                    ("d", r"\p{Nd}", 8 << 10),
                    ("D", r"\P{Nd}", 8 << 10),
                    ("w", r"[^\p{P}\p{Z}\p{C}]", 96 << 10),
                    ("W", r"[\p{P}\p{Z}\p{C}]", 96 << 10),
                    ("s", r"[\t\n\r ]", 256),
                    ("S", r"[^\t\n\r ]", 512),
                ] {
                    if self.take(name) {
                        return self.put(text, bytes);
                    }
                }
                match self.escape()? {
                    Escape::Char(char) => self.char(char),
                    Escape::Class(set) => self.set(&set),
                }
            }
            '?' | '*' | '+' | '{' | '}' | ']' | ')' | '|' => None,
            char => self.char(char),
        }
    }

    fn group(&mut self) -> Option<usize> {
        self.nested += 1;
        if self.nested > MOST_NESTED {
            return None;
        }
        let captures = !self.take("?:");
        if captures {
            self.made.groups += 1;
            self.open.push(self.made.groups);
        }
        self.made.text.push_str(if captures { "(" } else { "(?:" });
        let bytes = self.expression()?;
        if !self.take(")") {
            return None;
        }
        self.made.text.push(')');
        if captures {
            self.open.pop();
        }
        self.nested -= 1;
        Some(bytes + 64)
    }

    /// A back-reference has as many digits as name a group that has begun, but at least one. The group must be closed.
    fn back_reference(&mut self) -> Option<usize> {
        let mut group = self.next()?.to_digit(10)? as usize;
        while let Some(digit) = self.peek().and_then(|char| char.to_digit(10)) {
            let longer = group.saturating_mul(10).saturating_add(digit as usize);
            if longer > self.made.groups {
                break;
            }
            self.next();
            group = longer;
        }
        if group > self.made.groups || self.open.contains(&group) {
            return None;
        }
        self.made.has_back_references = true;
        // A group that did not take part in the match is an empty text.
        let any_case = if self.flags.any_case { "i" } else { "" };
        write!(self.made.text, r"(?({group})(?{any_case}:\{group})|)").expect("a string takes everything");
        Some(256)
    }

    /// The escape after a backslash.
    fn escape(&mut self) -> Option<Escape> {
        Some(match self.next()? {
            'n' => Escape::Char('\n'),
            'r' => Escape::Char('\r'),
            't' => Escape::Char('\t'),
            char if r"\|.?*+(){}-[]^$".contains(char) => Escape::Char(char),
            'd' => Escape::Class(named("Nd")?),
            'D' => Escape::Class(negated(named("Nd")?)),
            's' => Escape::Class(of_ranges(&[('\t', '\n'), ('\r', '\r'), (' ', ' ')])),
            'S' => Escape::Class(negated(of_ranges(&[('\t', '\n'), ('\r', '\r'), (' ', ' ')]))),
            'w' => Escape::Class(negated(no_word()?)),
            'W' => Escape::Class(no_word()?),
            'i' => Escape::Class(of_ranges(&NAME_START)),
            'I' => Escape::Class(negated(of_ranges(&NAME_START))),
            'c' => Escape::Class(name_chars()),
            'C' => Escape::Class(negated(name_chars())),
            sign @ ('p' | 'P') => {
                let (name, rest) = self.rest.strip_prefix('{')?.split_once('}')?;
                self.rest = rest;
                let set = match name.strip_prefix("Is") {
                    Some(name) => of_ranges(&[block(name)?]),
                    None if CATEGORIES.contains(&name) => named(name)?,
                    None => return None,
                };
                Escape::Class(if sign == 'P' { negated(set) } else { set })
            }
            _ => return None,
        })
    }

    /// A class after its opening bracket, up to the closing one.
    fn class(&mut self) -> Option<ClassUnicode> {
        self.nested += 1;
        if self.nested > MOST_NESTED {
            return None;
        }
        let is_negated = self.take("^");
        let mut set = ClassUnicode::empty();
        let mut is_first = true;
        let mut without = None;
        loop {
            if !is_first && self.take("]") {
                break;
            }
            if !is_first && self.take("-[") {
                without = Some(self.class()?);
                if !self.take("]") {
                    return None;
                }
                break;
            }
            let is_hyphen = self.peek() == Some('-');
            let first = match self.next()? {
                '[' | ']' => return None,
                '\\' => self.escape()?,
                char => Escape::Char(char),
            };
            // A hyphen between characters is a range or a subtraction.
            if is_hyphen && !is_first && self.peek() != Some(']') && !self.rest.starts_with("-[") {
                return None;
            }
            is_first = false;
            match first {
                Escape::Class(class) => set.union(&class),
                Escape::Char(char) if self.rest.starts_with('-') && !self.rest.starts_with("-[") => {
                    if self.rest.starts_with("-]") {
                        set.union(&self.folded(char, char));
                        continue;
                    }
                    self.next();
                    let last = match self.next()? {
                        '[' | ']' | '-' => return None,
                        '\\' => match self.escape()? {
                            Escape::Char(char) => char,
                            Escape::Class(_) => return None,
                        },
                        char => char,
                    };
                    if last < char || is_hyphen {
                        return None;
                    }
                    set.union(&self.folded(char, last));
                }
                Escape::Char(char) => set.union(&self.folded(char, char)),
            }
        }
        if is_negated {
            set.negate();
        }
        if let Some(without) = without {
            set.difference(&without);
        }
        self.nested -= 1;
        Some(set)
    }

    /// The range; with flag `i` also the characters that differ by case. Named sets are not changed: `\p{Lu}` stays
    /// upper case.
    fn folded(&self, first: char, last: char) -> ClassUnicode {
        let mut set = of_ranges(&[(first, last)]);
        if self.flags.any_case {
            set.case_fold_simple();
        }
        set
    }

    fn char(&mut self, char: char) -> Option<usize> {
        if self.flags.any_case {
            let set = self.folded(char, char);
            if set.ranges().len() > 1 {
                return self.set(&set);
            }
        }
        if char.is_ascii_alphanumeric() {
            self.made.text.push(char);
        } else {
            write!(self.made.text, r"\x{{{:X}}}", u32::from(char)).expect("a string takes everything");
        }
        self.counted(64)
    }

    fn set(&mut self, set: &ClassUnicode) -> Option<usize> {
        let text = &mut self.made.text;
        text.push_str(if set.ranges().is_empty() { r"[^\x{0}-\x{10FFFF}" } else { "[" });
        for range in set.ranges() {
            write!(text, r"\x{{{:X}}}-\x{{{:X}}}", u32::from(range.start()), u32::from(range.end()))
                .expect("a string takes everything");
        }
        text.push(']');
        // A character outside of ASCII takes up to four bytes.
        let is_wide = set.ranges().last().is_some_and(|range| !range.end().is_ascii());
        self.counted(64 + set.ranges().len() * 128 + if is_wide { 1536 } else { 0 })
    }

    fn put(&mut self, text: &str, bytes: usize) -> Option<usize> {
        self.made.text.push_str(text);
        self.counted(bytes)
    }

    /// Returns the bytes, unless the translated text is too long as well.
    fn counted(&self, bytes: usize) -> Option<usize> {
        (self.made.text.len() <= MOST_BYTES).then_some(bytes)
    }
}

/// Unicode's general categories except surrogates.
const CATEGORIES: [&str; 36] = [
    "L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Ps", "Pe", "Pi",
    "Pf", "Po", "Z", "Zs", "Zl", "Zp", "S", "Sm", "Sc", "Sk", "So", "C", "Cc", "Cf", "Co", "Cn",
];

/// `NameStartChar` of XML 1.0, fifth edition, [4].
const NAME_START: [(char, char); 16] = [
    (':', ':'),
    ('A', 'Z'),
    ('_', '_'),
    ('a', 'z'),
    ('\u{C0}', '\u{D6}'),
    ('\u{D8}', '\u{F6}'),
    ('\u{F8}', '\u{2FF}'),
    ('\u{370}', '\u{37D}'),
    ('\u{37F}', '\u{1FFF}'),
    ('\u{200C}', '\u{200D}'),
    ('\u{2070}', '\u{218F}'),
    ('\u{2C00}', '\u{2FEF}'),
    ('\u{3001}', '\u{D7FF}'),
    ('\u{F900}', '\u{FDCF}'),
    ('\u{FDF0}', '\u{FFFD}'),
    ('\u{10000}', '\u{EFFFF}'),
];

/// `NameChar` of XML 1.0, fifth edition, [4a].
fn name_chars() -> ClassUnicode {
    let mut set = of_ranges(&NAME_START);
    set.union(&of_ranges(&[
        ('-', '-'),
        ('.', '.'),
        ('0', '9'),
        ('\u{B7}', '\u{B7}'),
        ('\u{300}', '\u{36F}'),
        ('\u{203F}', '\u{2040}'),
    ]));
    set
}

/// Punctuation, separators and other characters: the complement of `\w`.
fn no_word() -> Option<ClassUnicode> {
    let mut set = named("P")?;
    set.union(&named("Z")?);
    set.union(&named("C")?);
    Some(set)
}

fn of_ranges(ranges: &[(char, char)]) -> ClassUnicode {
    ClassUnicode::new(ranges.iter().map(|(first, last)| ClassUnicodeRange::new(*first, *last)))
}

fn negated(mut set: ClassUnicode) -> ClassUnicode {
    set.negate();
    set
}

/// The characters of a general category.
fn named(category: &str) -> Option<ClassUnicode> {
    match regex_syntax::parse(&format!(r"\p{{{category}}}")).ok()?.into_kind() {
        HirKind::Class(Class::Unicode(set)) => Some(set),
        _ => None,
    }
}
