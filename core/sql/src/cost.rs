//! The memory of a parsed text, estimated before parsing: by its words and signs, as sqlparser makes trees of large
//! nodes from them.

/// The text itself, and copies of it.
const FOR_EACH_BYTE: u64 = 16;
/// A token with its place, in a growing list, and the node made of it.
const FOR_EACH_TOKEN: u64 = 320;
/// The text between commas may be a table with its joins.
const FOR_EACH_COMMA: u64 = 1800;
/// The parts of a query, or of a clause with an equally large node.
const FOR_EACH_QUERY: u64 = 9 << 10;

/// A lower limit of a parsed text's bytes. Quotation marks are taken for signs and their content for words, and so are
/// comments: so no text can hide others behind them.
pub(crate) fn parsing_bytes(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
    let (mut at, mut tokens, mut commas, mut queries) = (0, 0u64, 0u64, 0u64);
    while let Some(byte) = bytes.get(at) {
        let rest = &bytes[at..];
        let length = if is_word(byte) {
            let length = rest.iter().position(|byte| !is_word(byte)).unwrap_or(rest.len());
            let is = |word: &&str| word.len() == length && word.as_bytes().eq_ignore_ascii_case(&rest[..length]);
            queries += u64::from(QUERIES.iter().any(is));
            length
        } else if byte.is_ascii_whitespace() {
            rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len())
        } else {
            commas += u64::from(*byte == b',');
            1
        };
        tokens += 1;
        at += length;
    }
    let of = |each: u64, count: u64| each.saturating_mul(count);
    [
        of(FOR_EACH_BYTE, text.len() as u64),
        of(FOR_EACH_TOKEN, tokens),
        of(FOR_EACH_COMMA, commas),
        of(FOR_EACH_QUERY, queries),
    ]
    .into_iter()
    .fold(0, u64::saturating_add)
}

/// The first words of queries, clauses and joins.
const QUERIES: [&str; 8] = ["SELECT", "VALUES", "TABLE", "FROM", "JOIN", "WITH", "WINDOW", "MATCH_RECOGNIZE"];
