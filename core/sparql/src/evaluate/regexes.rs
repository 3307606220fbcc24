//! Compiled regular expressions, as many as fit, and how REGEX and REPLACE run them.

use super::pattern::{Flags, MOST_BYTES, translate};
use regex_automata::meta::{self, Cache};
use regex_automata::util::captures::Captures;
use regex_automata::{Input, util::syntax};
use std::fmt;
use vicus_flow::{NoMemory, give_up, refusable};

/// Compiled patterns by text and flags. Most queries have one or two. A pattern that is computed for each row drives
/// others out, so only a few are kept.
#[derive(Default)]
pub(crate) struct Regexes {
    entries: Vec<Entry>,
    /// Counts lookups, to find the least recently used entry.
    clock: u64,
}

struct Entry {
    pattern: String,
    flags: String,
    /// `None` if the text is not a valid pattern.
    regex: Option<Regex>,
    used: u64,
}

impl Entry {
    fn bytes(&self) -> usize {
        let texts = self.pattern.capacity() + self.flags.capacity();
        size_of::<Entry>() + texts + self.regex.as_ref().map_or(0, Regex::bytes)
    }
}

/// The greatest number of compiled patterns kept.
const MOST_ENTRIES: usize = 16;

/// If the compiled patterns take more bytes than this, only the latest is kept.
const MOST_KEPT: usize = 4 << 20;

/// The greatest number of backtracking steps for patterns with back-references, some of which take exponential time.
const MOST_STEPS: usize = 1_000_000;

impl Regexes {
    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.bytes() as u64).sum()
    }

    /// The compiled pattern; `None` if it is invalid, or if `stopped` refuses the bytes that it takes.
    pub(super) fn get(&mut self, pattern: &str, flags: &str, stopped: &dyn Fn(u64) -> bool) -> Option<&mut Regex> {
        self.clock += 1;
        let known = self.entries.iter().position(|entry| entry.pattern == pattern && entry.flags == flags);
        let place = match known {
            Some(place) => place,
            None => {
                let others = self.bytes();
                let mut is_stopped = |bytes: usize| stopped(others + bytes as u64);
                let regex = Regex::new(pattern, flags, &mut is_stopped);
                let entry = Entry { pattern: pattern.to_owned(), flags: flags.to_owned(), regex, used: 0 };
                self.make_room(entry.bytes());
                self.entries.push(entry);
                self.entries.len() - 1
            }
        };
        self.entries[place].used = self.clock;
        self.entries[place].regex.as_mut()
    }

    fn make_room(&mut self, bytes: usize) {
        while !self.entries.is_empty()
            && (self.entries.len() >= MOST_ENTRIES || self.bytes() as usize + bytes > MOST_KEPT)
        {
            let oldest = (0..self.entries.len()).min_by_key(|place| self.entries[*place].used);
            self.entries.swap_remove(oldest.expect("it is not empty"));
        }
    }
}

impl fmt::Debug for Regexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.iter().map(|entry| &entry.pattern)).finish()
    }
}

/// A regular expression, compiled.
pub(super) struct Regex {
    engine: Engine,
    /// For patterns with line ends: the engine for texts that end with a line feed, compiled when first needed.
    exact: Option<Exact>,
    /// The number of capturing groups.
    groups: usize,
    /// Whether the pattern matches the empty text; asked of it when first needed.
    matches_nothing: Option<bool>,
    estimate: usize,
}

enum Engine {
    /// Takes time linear in the length of the text.
    Automaton { regex: meta::Regex, cache: Box<Cache>, captures: Captures },
    /// Knows back-references, and backtracks.
    Backtracking(fancy_regex::Regex),
}

enum Exact {
    Wanted { pattern: String, flags: Flags },
    Made(Option<fancy_regex::Regex>),
}

impl Regex {
    fn new(pattern: &str, flags: &str, is_stopped: &mut dyn FnMut(usize) -> bool) -> Option<Regex> {
        // Checked before parsing, because the parsed pattern is larger than the text.
        if pattern.len() > MOST_BYTES / 64 || is_stopped(pattern.len()) {
            return None;
        }
        let flags = Flags::parse(flags)?;
        let read = translate(pattern, flags, false)?;
        if is_stopped(read.bytes) {
            return None;
        }
        let (engine, exact) = if read.has_back_references {
            let exact = translate(pattern, flags, true)?;
            (Engine::Backtracking(backtracking(&exact.text)?), None)
        } else {
            let config = meta::Config::new()
                .nfa_size_limit(Some(MOST_BYTES))
                .hybrid_cache_capacity(1 << 20)
                .onepass_size_limit(Some(1 << 18));
            let regex = meta::Builder::new()
                .configure(config)
                .syntax(syntax::Config::new().nest_limit(1000))
                .build(&read.text)
                .ok()?;
            let (cache, captures) = (Box::new(regex.create_cache()), regex.create_captures());
            let exact = read.has_line_ends.then(|| Exact::Wanted { pattern: pattern.to_owned(), flags });
            (Engine::Automaton { regex, cache, captures }, exact)
        };
        Some(Regex { engine, exact, groups: read.groups, matches_nothing: None, estimate: read.bytes })
    }

    fn bytes(&self) -> usize {
        match &self.engine {
            Engine::Automaton { regex, cache, .. } => regex.memory_usage() + cache.memory_usage(),
            Engine::Backtracking(_) => self.estimate,
        }
    }

    /// The engine for this text; `None` if it can't be compiled.
    fn engine_for(&mut self, text: &str) -> Option<Searcher<'_>> {
        if text.ends_with('\n')
            && let Some(exact) = &mut self.exact
        {
            if let Exact::Wanted { pattern, flags } = exact {
                *exact = Exact::Made(translate(pattern, *flags, true).and_then(|read| backtracking(&read.text)));
            }
            let Exact::Made(made) = exact else { unreachable!("it was made") };
            return made.as_ref().map(|regex| Searcher::Backtracking { regex, groups: Vec::new() });
        }
        Some(match &mut self.engine {
            Engine::Automaton { regex, cache, captures } => Searcher::Automaton { regex, cache, captures },
            Engine::Backtracking(regex) => Searcher::Backtracking { regex, groups: Vec::new() },
        })
    }

    /// Whether the pattern matches somewhere in the text; `None` if that takes too many steps.
    pub(super) fn find_match(&mut self, text: &str) -> Option<bool> {
        match self.engine_for(text)? {
            Searcher::Automaton { regex, cache, .. } => {
                Some(regex.search_half_with(cache, &Input::new(text).earliest(true)).is_some())
            }
            Searcher::Backtracking { regex, .. } => regex.is_match(text).ok(),
        }
    }

    /// Whether the pattern matches the empty text; `None` if that takes too many steps.
    pub(super) fn matches_nothing(&mut self) -> Option<bool> {
        if self.matches_nothing.is_none() {
            self.matches_nothing = Some(self.find_match("")?);
        }
        self.matches_nothing
    }

    /// The text with each match replaced; `None` if the result doesn't fit, or the search takes too many steps.
    pub(super) fn replaced(&mut self, text: &str, by: &Replacement, fits: &dyn Fn(usize) -> bool) -> Option<String> {
        let parts = by.parts(self.groups);
        let mut searcher = self.engine_for(text)?;
        let mut made = String::new();
        let (mut end, mut at) = (0, 0);
        while at <= text.len() && searcher.search(text, at)? {
            let whole = searcher.group(0)?;
            let grown = parts.iter().map(|part| match part {
                Fragment::Text(text) => text.len(),
                Fragment::Group(group) => searcher.group(*group).map_or(0, |(start, end)| end - start),
            });
            let more = grown.sum::<usize>() + text.len() - end;
            if !fits(made.len() + more) {
                return None;
            }
            if made.capacity() - made.len() < more {
                refusable(|| made.try_reserve(more))
                    .unwrap_or_else(|_| give_up(NoMemory { bytes: (made.len() + more) as u64 }));
            }
            made.push_str(&text[end..whole.0]);
            for part in &parts {
                match part {
                    Fragment::Text(text) => made.push_str(text),
                    // A group that did not take part in the match is an empty text.
                    Fragment::Group(group) => made.push_str(searcher.group(*group).map_or("", |(a, b)| &text[a..b])),
                }
            }
            end = whole.1;
            // REPLACE refuses patterns that match the empty text, so this only ensures the end of the loop.
            at = if whole.1 > whole.0 { whole.1 } else { end + text[end..].chars().next().map_or(1, char::len_utf8) };
        }
        made.push_str(&text[end..]);
        Some(made)
    }
}

fn backtracking(text: &str) -> Option<fancy_regex::Regex> {
    fancy_regex::RegexBuilder::new(text)
        .backtrack_limit(MOST_STEPS)
        .delegate_size_limit(MOST_BYTES)
        .delegate_dfa_size_limit(1 << 20)
        .build()
        .ok()
}

/// An engine that finds one match after the other.
enum Searcher<'a> {
    Automaton { regex: &'a meta::Regex, cache: &'a mut Cache, captures: &'a mut Captures },
    Backtracking { regex: &'a fancy_regex::Regex, groups: Vec<Option<(usize, usize)>> },
}

impl Searcher<'_> {
    /// Finds the next match from this place on; `None` if it takes too many steps.
    fn search(&mut self, text: &str, from: usize) -> Option<bool> {
        match self {
            Searcher::Automaton { regex, cache, captures } => {
                regex.search_captures_with(cache, &Input::new(text).range(from..), captures);
                Some(captures.is_match())
            }
            Searcher::Backtracking { regex, groups } => {
                groups.clear();
                if let Some(found) = regex.captures_from_pos(text, from).ok()? {
                    groups.extend(found.iter().map(|group| group.map(|group| (group.start(), group.end()))));
                }
                Some(!groups.is_empty())
            }
        }
    }

    /// Where a group of the last match lies; group 0 is the whole match.
    fn group(&self, group: usize) -> Option<(usize, usize)> {
        match self {
            Searcher::Automaton { captures, .. } => captures.get_group(group).map(|span| (span.start, span.end)),
            Searcher::Backtracking { groups, .. } => *groups.get(group)?,
        }
    }
}

/// The third operand of REPLACE: Functions and Operators 3.1, §5.6.4.
pub(super) struct Replacement(Vec<Piece>);

enum Piece {
    Text(String),
    /// The digits after a dollar sign.
    Digits(String),
}

enum Fragment<'a> {
    Text(&'a str),
    Group(usize),
}

impl Replacement {
    /// `None` if a dollar sign is not followed by a digit, or a backslash neither by a dollar sign nor a backslash
    /// (FORX0004).
    pub(super) fn parse(text: &str, is_quoted: bool) -> Option<Replacement> {
        if is_quoted {
            return Some(Replacement(vec![Piece::Text(text.to_owned())]));
        }
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            match char {
                '\\' => literal.push(chars.next().filter(|char| matches!(char, '\\' | '$'))?),
                '$' => {
                    let mut digits = String::new();
                    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                        digits.push(digit);
                    }
                    if digits.is_empty() {
                        return None;
                    }
                    pieces.push(Piece::Text(std::mem::take(&mut literal)));
                    pieces.push(Piece::Digits(digits));
                }
                other => literal.push(other),
            }
        }
        pieces.push(Piece::Text(literal));
        Some(Replacement(pieces))
    }

    /// The replacement for a pattern with this many groups. A reference takes as many digits as name one of the groups,
    /// and at least one; a reference to a group that doesn't exist is an empty text.
    fn parts(&self, groups: usize) -> Vec<Fragment<'_>> {
        let mut parts = Vec::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => parts.push(Fragment::Text(text)),
                Piece::Digits(digits) => {
                    let number = |count: usize| digits[..count].parse::<usize>().unwrap_or(usize::MAX);
                    let count = (1..=digits.len()).rev().find(|count| number(*count) <= groups.max(9)).unwrap_or(1);
                    if number(count) <= groups {
                        parts.push(Fragment::Group(number(count)));
                    }
                    parts.push(Fragment::Text(&digits[count..]));
                }
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::literal_prefix;
    use super::*;

    fn is_match(pattern: &str, flags: &str, text: &str) -> Option<bool> {
        Regexes::default().get(pattern, flags, &|_| false)?.find_match(text)
    }

    #[test]
    fn a_pattern_begins_with_its_letters_up_to_the_first_that_may_be_missing() {
        let known = [
            ("^Paul", "Paul"),
            ("^Paul E.*$", "Paul E"),
            ("^Pauls?", "Paul"),
            ("^Pauls+", "Pauls"),
            ("^ab{0,2}", "a"),
            (r"^a\.b\d", "a.b"),
            (r"^a\.?", "a"),
            ("^http://e/[a-z]", "http://e/"),
            ("^(ab)c", ""),
            ("^a|b", ""),
            ("^[a|b]", ""),
            ("Paul", ""),
            ("^", ""),
            ("^a?", ""),
            (r"^\p{L}x", ""),
        ];
        for (pattern, prefix) in known {
            assert_eq!(literal_prefix(pattern).unwrap_or_default(), prefix, "{pattern}");
        }
    }

    #[test]
    fn what_a_pattern_holds_is_no_more_than_was_asked_for() {
        for (pattern, flags) in [
            ("a", ""),
            ("a", "i"),
            (r"\w", ""),
            (r"\w+", ""),
            (r"\w{100}", ""),
            (r"[\w]", ""),
            (r"\d{50}", ""),
            (r"\p{L}{50}", ""),
            (r"\i\c*", ""),
            (r"[^a]{1000}", ""),
            ("(a|b|c)*d{3,500}", "i"),
            (r"\p{IsGreek}\P{Lu}", ""),
        ] {
            let asked = std::cell::Cell::new(0);
            let mut regexes = Regexes::default();
            let regex = regexes.get(pattern, flags, &|bytes| {
                asked.set(bytes.max(asked.get()));
                false
            });
            assert!(regex.is_some(), "{pattern}");
            println!("{pattern}: {} asked for, {} held", asked.get(), regexes.bytes());
            assert!(regexes.bytes() <= asked.get(), "{pattern}");
        }
    }

    #[test]
    fn few_patterns_are_kept() {
        // What happened: patterns computed for each row held 640 MB beside a budget of 50 MB.
        let mut regexes = Regexes::default();
        for number in 0..300 {
            let pattern = format!(r"\w{{20}}{number}");
            assert!(regexes.get(&pattern, "", &|_| false).is_some());
            assert!(regexes.bytes() <= (MOST_KEPT + MOST_BYTES) as u64 && regexes.entries.len() <= MOST_ENTRIES);
        }
        assert_eq!(is_match(&"a".repeat(MOST_BYTES), "", "a"), None);
        assert!(regexes.get("b+", "", &|_| true).is_none(), "there is no room for it");
    }
}
