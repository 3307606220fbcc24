//! The variables defined by Qthreads, each by two names: `QT_` goes before `QTHREAD_`. The façade reads the ones of
//! Vicus.

use std::env;

/// Variables read by Qthreads, but not by this library.
const WITHOUT_EFFECT: [&str; 13] = [
    "SHEPHERD_BOUNDARY",
    "WORKER_UNIT",
    "CPUBIND",
    "LAYOUT",
    "GUARD_PAGES",
    "SPINCOUNT",
    "STEAL_CHUNK",
    "STEAL_RATIO",
    "CONDWAIT_BACKOFF",
    "MAX_IO_WORKERS",
    "IO_TIMEOUT",
    "MAX_POOL_ALLOC_SIZE",
    "ARGCOPY_SIZE",
];

/// The value of a variable, if it is there and not empty, and its whole name.
fn named(name: &str) -> Option<(String, String)> {
    let read = |prefix: &str| {
        let name = format!("{prefix}{name}");
        env::var(&name).ok().filter(|text| !text.is_empty()).map(|text| (name, text))
    };
    read("QT_").or_else(|| read("QTHREAD_"))
}

fn text(name: &str) -> Option<String> {
    named(name).map(|(_, text)| text)
}

/// The set variables without effect, by their names.
pub(crate) fn ignored() -> Vec<String> {
    WITHOUT_EFFECT.iter().filter_map(|name| named(name)).map(|(name, _)| name).collect()
}

/// A number in C's notation: decimal, `0x` before hexadecimal and `0` before octal digits.
fn parse(text: &str) -> Option<usize> {
    let digits = text.trim();
    let parsed = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => usize::from_str_radix(hex, 16),
        None if digits.len() > 1 && digits.starts_with('0') => usize::from_str_radix(&digits[1..], 8),
        None => digits.parse(),
    };
    parsed.ok()
}

/// A number; `None` if the variable is unset, or 0. A text that is no number is reported, and counts as unset.
pub(crate) fn number(name: &str) -> Option<usize> {
    let text = text(name)?;
    let parsed = parse(&text);
    if parsed.is_none() {
        eprintln!("unparsable {name} ({text})");
    }
    parsed.filter(|&number| number > 0)
}

/// Yes or no; `None` if the variable is unset. Any other text is reported, and counts as unset.
pub(crate) fn flag(name: &str) -> Option<bool> {
    let text = text(name)?;
    match text.to_ascii_lowercase().as_str() {
        "yes" | "true" => Some(true),
        "no" | "false" => Some(false),
        other => {
            let number = parse(other.trim().trim_start_matches('-'));
            if number.is_none() {
                eprintln!("unparsable {name} ({text})");
            }
            number.map(|number| number > 0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_in_c() {
        for (text, number) in [("16", 16), ("0x10", 16), ("0X1f", 31), ("010", 8), (" 7 ", 7), ("0", 0), ("00", 0)] {
            assert_eq!(parse(text), Some(number), "{text:?}");
        }
        for text in ["", "x", "0x", "08", "1e12", "-1", "3 4", "99999999999999999999999"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_has_no_effect_is_documented() {
        let readme = include_str!("../README.md");
        for name in WITHOUT_EFFECT {
            assert!(readme.contains(&format!("`QT_{name}`")), "{name}");
        }
    }
}
