//! Functions of texts. They count characters, not bytes.

use super::Room;
use super::vector::{Scalar, Texts, Vector, build, build_texts, map_texts};
use crate::expression::{Function, Like, Side};
use vicus_flow::BoxError;

/// The most bytes of a text made by REPEAT.
const MOST_REPEATED: usize = 1 << 24;

pub(super) fn compute(function: &Function, args: &[Vector], rows: usize, room: &Room<'_>) -> Result<Vector, BoxError> {
    let text = || args[0].texts();
    let length = |texts: &Texts<'_>, row: usize| texts.get(row).map_or(0, str::len);
    match function {
        Function::Upper => {
            map_texts(rows, room, text(), 3, |text, all| all.extend(text.chars().flat_map(char::to_uppercase)))
        }
        Function::Lower => {
            map_texts(rows, room, text(), 3, |text, all| all.extend(text.chars().flat_map(char::to_lowercase)))
        }
        Function::Reverse => map_texts(rows, room, text(), 1, |text, all| all.extend(text.chars().rev())),
        Function::Length => {
            let texts = text();
            build(rows, |row| Ok(texts.get(row).map(|text| text.chars().count() as i64)))
        }
        Function::Substring | Function::Left | Function::Right => {
            let (texts, first) = (text(), args[1].values::<i64>());
            let second = args.get(2).map(Vector::values::<i64>);
            build_texts(
                rows,
                room,
                |row| length(&texts, row),
                |row, all| {
                    let (Some(text), Some(first)) = (texts.get(row), first.get(row)) else { return Ok(None) };
                    let count = match &second {
                        None => i64::MAX,
                        Some(values) => match values.get(row) {
                            Some(count) if count < 0 => {
                                return Err(format!("a substring of {count} characters can't be had").into());
                            }
                            Some(count) => count,
                            None => return Ok(None),
                        },
                    };
                    all.push_str(match function {
                        Function::Substring => substring(text, first, count),
                        Function::Left => left(text, first),
                        _ => right(text, first),
                    });
                    Ok(Some(()))
                },
            )
        }
        Function::Trim(side) => {
            let (texts, remove) = (text(), args[1].texts());
            build_texts(
                rows,
                room,
                |row| length(&texts, row),
                |row, all| {
                    let (Some(text), Some(remove)) = (texts.get(row), remove.get(row)) else { return Ok(None) };
                    let goes = |character: char| remove.contains(character);
                    all.push_str(match side {
                        Side::Both => text.trim_matches(goes),
                        Side::Leading => text.trim_start_matches(goes),
                        Side::Trailing => text.trim_end_matches(goes),
                    });
                    Ok(Some(()))
                },
            )
        }
        Function::Replace => {
            let (texts, from, to) = (text(), args[1].texts(), args[2].texts());
            let parts = |row| Some((texts.get(row)?, from.get(row)?, to.get(row)?));
            let most = |row| parts(row).map_or(0, |(text, from, to)| replaced_bytes(text, from, to));
            build_texts(rows, room, most, |row, all| {
                let Some((text, from, to)) = parts(row) else { return Ok(None) };
                let mut rest = 0;
                if !from.is_empty() {
                    for (at, _) in text.match_indices(from) {
                        all.push_str(&text[rest..at]);
                        all.push_str(to);
                        rest = at + from.len();
                    }
                }
                all.push_str(&text[rest..]);
                Ok(Some(()))
            })
        }
        Function::Concat | Function::ConcatAll => {
            let texts: Vec<Texts<'_>> = args.iter().map(Vector::texts).collect();
            let skips = matches!(function, Function::ConcatAll);
            let is_null = |row| !skips && texts.iter().any(|texts| texts.get(row).is_none());
            let most = |row| match is_null(row) {
                true => 0,
                false => texts.iter().map(|texts| length(texts, row)).fold(0, usize::saturating_add),
            };
            build_texts(rows, room, most, |row, all| {
                if is_null(row) {
                    return Ok(None);
                }
                texts.iter().filter_map(|texts| texts.get(row)).for_each(|text| all.push_str(text));
                Ok(Some(()))
            })
        }
        Function::Repeat => {
            let (texts, counts) = (text(), args[1].values::<i64>());
            let parts = |row| Some((texts.get(row)?, usize::try_from(counts.get(row)?).unwrap_or(0)));
            let most = |row| parts(row).map_or(0, |(text, count)| text.len().saturating_mul(count).min(MOST_REPEATED));
            build_texts(rows, room, most, |row, all| {
                let Some((text, count)) = parts(row) else { return Ok(None) };
                if text.len().saturating_mul(count) > MOST_REPEATED {
                    return Err(format!("{count} times {} bytes of text are more than 16 MiB", text.len()).into());
                }
                if !text.is_empty() {
                    (0..count).for_each(|_| all.push_str(text));
                }
                Ok(Some(()))
            })
        }
        Function::Position => {
            pairs(args, rows, |text, part| text.find(part).map_or(0, |at| text[..at].chars().count() as i64 + 1))
        }
        Function::StartsWith => pairs(args, rows, |text, part| text.starts_with(part)),
        Function::Like(like) => matches(*like, args, rows, room),
        other => unreachable!("{other:?} is not of texts"),
    }
}

fn pairs<R: Scalar>(args: &[Vector], rows: usize, function: impl Fn(&str, &str) -> R) -> Result<Vector, BoxError> {
    let (a, b) = (args[0].texts(), args[1].texts());
    build(rows, |row| Ok(a.get(row).zip(b.get(row)).map(|(a, b)| function(a, b))))
}

/// How many bytes, or a few more, a text has once one part is replaced by another one everywhere.
fn replaced_bytes(text: &str, from: &str, to: &str) -> usize {
    /// Longer texts have their parts counted before.
    const SHORT: usize = 1 << 10;
    let Some(more) = to.len().checked_sub(from.len()).filter(|_| !from.is_empty()) else { return text.len() };
    let bytes = |count: usize| count.saturating_mul(more).saturating_add(text.len());
    let most = bytes(text.len() / from.len());
    if most <= SHORT || more == 0 { most } else { bytes(text.matches(from).count()) }
}

/// The characters from place `from` on, counted from 1, to before place `from + count`: places before the first are
/// empty.
fn substring(text: &str, from: i64, count: i64) -> &str {
    let end = from.saturating_add(count);
    let start = byte_of(text, from.max(1) - 1);
    let end = byte_of(text, end.max(1) - 1).max(start);
    &text[start..end]
}

/// The first characters; without the last ones if there are less than none.
fn left(text: &str, count: i64) -> &str {
    let count = if count < 0 { (text.chars().count() as i64).saturating_add(count).max(0) } else { count };
    &text[..byte_of(text, count)]
}

fn right(text: &str, count: i64) -> &str {
    let all = text.chars().count() as i64;
    let skipped = if count < 0 { count.saturating_neg() } else { all.saturating_sub(count).max(0) };
    &text[byte_of(text, skipped)..]
}

/// The start of a character, counted from 0.
fn byte_of(text: &str, character: i64) -> usize {
    let character = usize::try_from(character).unwrap_or(usize::MAX);
    text.char_indices().nth(character).map_or(text.len(), |(at, _)| at)
}

fn matches(like: Like, args: &[Vector], rows: usize, room: &Room<'_>) -> Result<Vector, BoxError> {
    let (texts, patterns) = (args[0].texts(), args[1].texts());
    let fold = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<String>();
    // The usual pattern is the same for all rows.
    let mut last: Option<(&str, Vec<Sign>)> = None;
    let before = room.held();
    build(rows, |row| {
        let (Some(text), Some(pattern)) = (texts.get(row), patterns.get(row)) else { return Ok(None) };
        // The pattern's signs while they grow and, if case is ignored, both in lower case.
        let folded = if like.ignores_case { 3 * (text.len() + pattern.len()) } else { pattern.len() };
        room.settle(before);
        room.take(3 * size_of::<Sign>() * pattern.len() + folded)?;
        if last.as_ref().is_none_or(|(known, _)| *known != pattern) {
            let folded = if like.ignores_case { fold(pattern) } else { pattern.to_owned() };
            last = Some((pattern, signs(&folded, like.escape)?));
        }
        let (_, signs) = last.as_ref().expect("it was just set");
        Ok(Some(if like.ignores_case { matches_like(&fold(text), signs) } else { matches_like(text, signs) }))
    })
}

/// A sign of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Is(char),
    Any,
    Several,
}

fn signs(pattern: &str, escape: Option<char>) -> Result<Vec<Sign>, BoxError> {
    let mut signs = Vec::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        signs.push(match character {
            _ if Some(character) == escape => match characters.next() {
                Some(next) => Sign::Is(next),
                None => return Err(format!("the LIKE pattern '{pattern}' ends with its escape character").into()),
            },
            '%' if signs.last() == Some(&Sign::Several) => continue,
            '%' => Sign::Several,
            '_' => Sign::Any,
            other => Sign::Is(other),
        });
    }
    Ok(signs)
}

/// Going back to the last `%` alone is enough: so it takes time in the product of both lengths at most.
fn matches_like(text: &str, signs: &[Sign]) -> bool {
    let (mut rest, mut at) = (text.chars(), 0);
    // Behind the last `%`: its place among the signs, and the text to take its next character from.
    let mut back: Option<(usize, std::str::Chars<'_>)> = None;
    loop {
        let ahead = rest.clone();
        match (signs.get(at), rest.next()) {
            (Some(Sign::Several), _) => {
                at += 1;
                back = Some((at, ahead.clone()));
                rest = ahead;
                continue;
            }
            (None, None) => return true,
            (Some(Sign::Any), Some(_)) => {
                at += 1;
                continue;
            }
            (Some(Sign::Is(wanted)), Some(found)) if *wanted == found => {
                at += 1;
                continue;
            }
            _ => {}
        }
        let Some((sign, from)) = &mut back else { return false };
        if from.next().is_none() {
            return false;
        }
        (at, rest) = (*sign, from.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_they_say() {
        let like = |text: &str, pattern: &str| matches_like(text, &signs(pattern, Some('\\')).unwrap());
        for (text, pattern) in [
            ("", ""),
            ("", "%"),
            ("abc", "abc"),
            ("abc", "a%"),
            ("abc", "%c"),
            ("abc", "%b%"),
            ("abc", "_b_"),
            ("aXbXc", "a%b%c"),
            ("aab", "%ab"),
            ("50%", "50\\%"),
            ("é", "_"),
            ("mississippi", "%iss%ip%i"),
        ] {
            assert!(like(text, pattern), "{text} LIKE {pattern}");
        }
        for (text, pattern) in
            [("", "_"), ("abc", "ab"), ("abc", "b%"), ("abc", "%b"), ("50x", "50\\%"), ("abc", "a%b"), ("ABC", "abc")]
        {
            assert!(!like(text, pattern), "{text} LIKE {pattern}");
        }
        // It takes a moment only.
        assert!(!like(&"a".repeat(5000), &"%a".repeat(2000).add_b()));
        assert!(signs("a\\", Some('\\')).is_err());
    }

    trait AddB {
        fn add_b(self) -> String;
    }

    impl AddB for String {
        fn add_b(mut self) -> String {
            self.push('b');
            self
        }
    }

    /// Expected values by PostgreSQL's documentation of substring and left.
    #[test]
    fn parts_of_texts_are_counted_in_characters() {
        assert_eq!(substring("Thomas", 2, 3), "hom");
        assert_eq!(substring("Thomas", 0, 3), "Th");
        assert_eq!(substring("Thomas", -5, 3), "");
        assert_eq!(substring("éàü", 2, i64::MAX), "àü");
        assert_eq!((left("abcde", 2), left("abcde", -2), left("abcde", -9)), ("ab", "abc", ""));
        assert_eq!((right("abcde", 2), right("abcde", -2), right("abcde", 9)), ("de", "cde", "abcde"));
    }
}
