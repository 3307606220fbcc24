//! The parameters of a request, from its URL or from a form in its body.

/// Names and values, in their order.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Parameters(Vec<(String, String)>);

/// More of them are an error.
const MOST: usize = 4096;

impl Parameters {
    /// Reads `name=value&…`, with `+` and percent signs as forms have them.
    ///
    /// # Errors
    /// A decoded text is no UTF-8, or there are too many.
    pub(crate) fn parse(text: &[u8]) -> Result<Parameters, String> {
        let mut pairs = Vec::new();
        for pair in text.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty()) {
            if pairs.len() == MOST {
                return Err(format!("there are more than {MOST} parameters"));
            }
            let mut parts = pair.splitn(2, |&byte| byte == b'=');
            let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            pairs.push((decoded(name)?, decoded(value)?));
        }
        Ok(Parameters(pairs))
    }

    pub(crate) fn add(&mut self, others: Parameters) {
        self.0.extend(others.0);
    }

    /// The value of a parameter that may occur once.
    ///
    /// # Errors
    /// It is there more than once.
    pub(crate) fn one(&self, name: &str) -> Result<Option<&str>, String> {
        let mut values = self.all(name);
        let first = values.next();
        if values.next().is_some() { Err(format!("the parameter `{name}` is there more than once")) } else { Ok(first) }
    }

    /// All values of a parameter.
    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(each, _)| each == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }
}

fn decoded(text: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes_of(text)).map_err(|_| "a parameter is no UTF-8".to_owned())
}

/// Bytes for their escapes, and blanks for plus signs; a percent sign without two digits behind it stands for itself.
fn bytes_of(text: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|&byte| char::from(byte).to_digit(16));
    let (mut decoded, mut at) = (Vec::with_capacity(text.len()), 0);
    while at < text.len() {
        match (text[at], digit(text.get(at + 1)), digit(text.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                decoded.push(if byte == b'+' { b' ' } else { byte });
                at += 1;
            }
        }
    }
    decoded
}

/// Reads any bytes, for fuzzing.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    if let Ok(parameters) = Parameters::parse(bytes) {
        let _ = (parameters.one("query"), parameters.all("named-graph-uri").count());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_decoded() {
        let parsed = Parameters::parse(b"query=ASK+%7B%7D&a=1&a=2&empty=&flag&half=%4").unwrap();
        assert_eq!(parsed.one("query"), Ok(Some("ASK {}")));
        assert_eq!(parsed.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert!(parsed.one("a").is_err());
        assert_eq!(
            (parsed.one("empty"), parsed.one("flag"), parsed.one("none")),
            (Ok(Some("")), Ok(Some("")), Ok(None))
        );
        assert_eq!(parsed.one("half"), Ok(Some("%4")));
        assert!(Parameters::parse(b"query=%FF").is_err());
    }
}
