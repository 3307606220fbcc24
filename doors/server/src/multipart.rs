//! A body of several documents, as browsers send files from a form (`multipart/form-data`, RFC 7578; Graph Store
//! Protocol, §5.5).

use crate::answer::Failure;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use vicus_service::data::Syntax;
use vicus_service::{syntax_by_ending, syntax_by_media_type};

/// More documents in one body are an error.
const MOST_PARTS: usize = 1000;

/// The line between two parts of the body, if the header announces parts.
pub(crate) fn boundary(headers: &HeaderMap) -> Result<Option<String>, Failure> {
    let Some(value) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return Ok(None) };
    let (name, parameters) = value.split_once(';').unwrap_or((value, ""));
    if !name.trim().eq_ignore_ascii_case("multipart/form-data") {
        return Ok(None);
    }
    let found = parameter(parameters, "boundary").filter(|boundary| (1..=70).contains(&boundary.len()));
    found.map(Some).ok_or_else(|| Failure::bad("multipart/form-data needs a boundary of 1 to 70 characters"))
}

/// The value of a parameter of a header field, without its quotes.
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut all = text.split(';').filter_map(|parameter| parameter.trim().split_once('='));
    let (_, value) = all.find(|(each, _)| each.trim().eq_ignore_ascii_case(name))?;
    Some(value.trim().trim_matches('"').to_owned())
}

/// The documents in a body, each with its syntax: by its media type, or by its file's ending, or else Turtle.
pub(crate) fn parts(body: &Bytes, boundary: &str) -> Result<Vec<(Syntax, Bytes)>, Failure> {
    let line = [b"--", boundary.as_bytes()].concat();
    let end = || Failure::bad("the body ends within a part");
    let mut at = find(body, &line).ok_or_else(|| Failure::bad("the body has no parts"))? + line.len();
    let mut parts = Vec::new();
    // Behind a boundary, two hyphens are the end of all.
    while !body[at..].starts_with(b"--") {
        if parts.len() == MOST_PARTS {
            return Err(Failure::bad(format!("the body has more than {MOST_PARTS} parts")));
        }
        let head = at + find(&body[at..], b"\r\n").ok_or_else(end)?;
        let (text, start) = match find(&body[head..], b"\r\n\r\n") {
            Some(length) => (String::from_utf8_lossy(&body[head..head + length]).into_owned(), head + length + 4),
            None => return Err(end()),
        };
        let close = [b"\r\n", &line[..]].concat();
        // The line break in front of the boundary is a part of it, also of an empty part.
        let length = find(&body[start - 2..], &close).ok_or_else(end)?;
        let stop = (start - 2 + length).max(start);
        parts.push((syntax(&text)?, body.slice(start..stop)));
        at = start - 2 + length + close.len();
    }
    Ok(parts)
}

fn syntax(head: &str) -> Result<Syntax, Failure> {
    let field = |name: &str| {
        let mut fields = head.split("\r\n").filter_map(|line| line.split_once(':'));
        fields.find(|(each, _)| each.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    let ending = || parameter(field("content-disposition")?, "filename").and_then(|name| syntax_by_ending(&name));
    match field("content-type") {
        // The browsers' types for unknown files.
        None | Some("application/octet-stream" | "text/plain") => Ok(ending().unwrap_or(Syntax::Turtle)),
        Some(name) => syntax_by_media_type(name).ok_or_else(|| {
            let message = format!("`{name}`, the type of a part, is no syntax of RDF that is read here");
            Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "format", message)
        }),
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, wanted)
}

/// Reads any bytes as a body, for fuzzing.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    let body = Bytes::copy_from_slice(bytes);
    if let Ok(parts) = parts(&body, "b") {
        let length: usize = parts.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(length <= body.len(), "no byte is in two parts");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(body: &str) -> Vec<(Syntax, String)> {
        let parts = parts(&Bytes::copy_from_slice(body.as_bytes()), "b").unwrap();
        parts.into_iter().map(|(syntax, bytes)| (syntax, String::from_utf8(bytes.to_vec()).unwrap())).collect()
    }

    #[test]
    fn parts_have_their_own_syntax() {
        let body = "preamble\r\n--b\r\nContent-Type: text/turtle; charset=utf-8\r\n\r\n<a> <b> <c> .\r\n\r\n--b\r\n\
                    Content-Disposition: form-data; name=\"f\"; filename=\"x.nq\"\r\n\r\none\r\n--b\r\nA: \
                    b\r\n\r\n\r\n--b--\r\nrest";
        assert_eq!(
            texts(body),
            [
                (Syntax::Turtle, "<a> <b> <c> .\r\n".to_owned()),
                (Syntax::NQuads, "one".to_owned()),
                (Syntax::Turtle, String::new()),
            ]
        );
    }

    #[test]
    fn what_has_no_end_is_refused() {
        for body in [
            "",
            "--b",
            "--b\r\n",
            "--b\r\nA: b\r\n\r\n",
            "--b\r\nA: b\r\n\r\ntext",
            "--b\r\nContent-Type: text/html\r\n\r\n\r\n--b--",
        ] {
            assert!(parts(&Bytes::copy_from_slice(body.as_bytes()), "b").is_err(), "{body:?}");
        }
    }

    #[test]
    fn a_boundary_is_needed() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, value.parse().unwrap());
            boundary(&headers)
        };
        assert_eq!(of("multipart/form-data; boundary=\"x y\"").unwrap(), Some("x y".to_owned()));
        assert_eq!(of("text/turtle; boundary=x").unwrap(), None);
        assert!(of("multipart/form-data").is_err() && of("multipart/form-data; boundary=").is_err());
    }
}
