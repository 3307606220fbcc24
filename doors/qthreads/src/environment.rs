//! The variables that Qthreads defines, each by two names: `QT_` goes before `QTHREAD_`. Those of Vicus are read by the façade.

use std::env;

/// What a variable says, if it is there and not empty.
fn text(name: &str) -> Option<String> {
    let read = |prefix: &str| env::var(format!("{prefix}{name}")).ok().filter(|text| !text.is_empty());
    read("QT_").or_else(|| read("QTHREAD_"))
}

/// A number, in C's notation; `None` if nothing is said, or 0. What is no number is told, and counts as nothing.
pub(crate) fn number(name: &str) -> Option<usize> {
    let text = text(name)?;
    let digits = text.trim();
    let parsed = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => usize::from_str_radix(hex, 16),
        None if digits.len() > 1 && digits.starts_with('0') => usize::from_str_radix(&digits[1..], 8),
        None => digits.parse(),
    };
    if parsed.is_err() {
        eprintln!("unparsable {name} ({text})");
    }
    parsed.ok().filter(|&number| number > 0)
}

/// Yes or no.
pub(crate) fn flag(name: &str, otherwise: bool) -> bool {
    let Some(text) = text(name) else { return otherwise };
    match text.to_ascii_lowercase().as_str() {
        "yes" | "true" => true,
        "no" | "false" => false,
        other => match other.parse::<i64>() {
            Ok(number) => number != 0,
            Err(_) => {
                eprintln!("unparsable {name} ({text})");
                otherwise
            }
        },
    }
}
