//! Prefixed names with escapes, such as `ex:a\.`, as IRIs in angle brackets: Turtle allows the former, and readers such
//! as rdflib don't read all of them.

/// Replaces the names with escapes in a serializer's text from `began` on: whole statements or parts of them, with
/// spaces at the ends of tokens.
pub(super) fn without_escapes(out: &mut String, began: usize, prefixes: &[(String, String)]) {
    if !out.as_bytes()[began..].contains(&b'\\') {
        return;
    }
    let written = out.split_off(began);
    let mut rest = written.as_str();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '"' => end_of_string(rest),
            '<' if !rest.starts_with("<<(") => rest.find('>').map_or(rest.len(), |at| at + 1),
            '^' => rest.find(|other| other != '^').unwrap_or(rest.len()),
            _ if first.is_whitespace() => first.len_utf8(),
            _ => rest.find(|other: char| other.is_whitespace()).unwrap_or(rest.len()),
        };
        let (token, behind) = rest.split_at(end);
        match (first, whole(token, prefixes)) {
            ('"' | '<', _) | (_, None) => out.push_str(token),
            (_, Some((iri, local))) => {
                out.push('<');
                out.push_str(iri);
                // A mark is escaped by the backslash before it.
                out.extend(local.chars().filter(|character| *character != '\\'));
                out.push('>');
            }
        }
        rest = behind;
    }
}

/// The IRI of a name's prefix, and the rest, if it has escapes.
fn whole<'a>(token: &'a str, prefixes: &'a [(String, String)]) -> Option<(&'a str, &'a str)> {
    let (name, local) = token.split_once(':').filter(|(_, local)| local.contains('\\'))?;
    let (_, iri) = prefixes.iter().find(|(prefix, _)| prefix == name)?;
    Some((iri, local))
}

fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_with_escapes_are_written_out() {
        let prefixes = [("ex".to_owned(), "http://e/".to_owned()), (String::new(), "http://d/".to_owned())];
        for (written, expected) in [
            (r#"ex:a ex:b\. ex:c"#, r#"ex:a <http://e/b.> ex:c"#),
            (
                r#":a\(b\) ex:p "a \" ex:x\. b" , "x"^^ex:t\~ ."#,
                r#"<http://d/a(b)> ex:p "a \" ex:x\. b" , "x"^^<http://e/t~> ."#,
            ),
            (r#"<http://e/a:b> ex:p "\\" ."#, r#"<http://e/a:b> ex:p "\\" ."#),
            (r#"<<( ex:a\, ex:p ex:o )>> "#, r#"<<( <http://e/a,> ex:p ex:o )>> "#),
        ] {
            let mut out = "before ex:a\\. ".to_owned();
            let began = out.len();
            out.push_str(written);
            without_escapes(&mut out, began, &prefixes);
            assert_eq!(&out[began..], expected);
        }
    }
}
