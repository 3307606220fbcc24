//! Chooses the answer's format that the client wants most (RFC 9110, §12).

use crate::coding::Coding;
use axum::http::{HeaderMap, header};
use vicus_service::data::Syntax;
use vicus_service::{Answer, Format};

/// A format as it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Offer {
    /// Rows or triples.
    Answer(Format),
    /// The plan, as JSON for programs or as text for people.
    Plan { json: bool },
}

/// The formats of solutions. The first goes to clients without a preference.
const SOLUTIONS: &[(Offer, &str, &[&str])] = &[
    (Offer::Answer(Format::Json), "application/sparql-results+json", &["application/json", "text/json"]),
    (Offer::Answer(Format::Xml), "application/sparql-results+xml", &["application/xml", "text/xml"]),
    (Offer::Answer(Format::Csv), "text/csv", &[]),
    (Offer::Answer(Format::Tsv), "text/tab-separated-values", &["text/tsv"]),
    (Offer::Answer(Format::Arrow), "application/vnd.apache.arrow.stream", &[]),
];

/// The formats of triples.
const TRIPLES: &[(Offer, &str, &[&str])] = &[
    (Offer::Answer(Format::Turtle), "text/turtle", &["application/turtle", "application/x-turtle"]),
    (Offer::Answer(Format::NTriples), "application/n-triples", &["text/plain"]),
    (Offer::Answer(Format::RdfXml), "application/rdf+xml", &["application/xml", "text/xml"]),
    (Offer::Answer(Format::JsonLd), "application/ld+json", &["application/json"]),
    (Offer::Answer(Format::NQuads), "application/n-quads", &[]),
    (Offer::Answer(Format::TriG), "application/trig", &[]),
    (Offer::Answer(Format::Arrow), "application/vnd.apache.arrow.stream", &[]),
];

/// The formats of a plan, for any query.
const PLANS: &[(Offer, &str, &[&str])] = &[
    (Offer::Plan { json: true }, "application/vnd.vicus.plan+json", &[]),
    (Offer::Plan { json: false }, "text/vnd.vicus.plan", &[]),
];

/// The possible formats of an answer of this form.
fn offers(is_graph: bool) -> impl Iterator<Item = &'static (Offer, &'static str, &'static [&'static str])> {
    (if is_graph { TRIPLES } else { SOLUTIONS }).iter().chain(PLANS)
}

impl Offer {
    /// Its media type, with a charset for texts.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Offer::Answer(Format::Csv) => "text/csv; charset=utf-8",
            Offer::Answer(Format::Tsv) => "text/tab-separated-values; charset=utf-8",
            Offer::Answer(Format::Turtle) => "text/turtle; charset=utf-8",
            Offer::Answer(Format::Table) => "text/plain; charset=utf-8",
            Offer::Plan { json: false } => "text/vnd.vicus.plan; charset=utf-8",
            offer => {
                let all = SOLUTIONS.iter().chain(TRIPLES).chain(PLANS);
                all.into_iter()
                    .find(|(each, ..)| *each == offer)
                    .map_or("application/octet-stream", |(_, name, _)| name)
            }
        }
    }

    /// The offer of a short name, as in `format=csv`.
    fn of_name(name: &str) -> Option<Offer> {
        match name {
            "explain" | "plan" => Some(Offer::Plan { json: true }),
            "xml" => Some(Offer::Answer(Format::Xml)),
            _ => Format::ALL.into_iter().find(|format| format.name() == name).map(Offer::Answer),
        }
    }
}

/// A client's `Accept`: ranges of media types with their weights.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Accepted(Vec<Range>);

#[derive(Clone, PartialEq, Debug)]
struct Range {
    /// In lower case; `*` for all.
    kind: String,
    sub: String,
    /// Thousandths.
    weight: u32,
}

/// More of them are not looked at.
const MOST_RANGES: usize = 64;

impl Accepted {
    /// The ranges of the header fields; all types, if there is none.
    pub(crate) fn of(headers: &HeaderMap) -> Accepted {
        let values = headers.get_all(header::ACCEPT);
        let text: Vec<&str> = values.iter().filter_map(|value| value.to_str().ok()).collect();
        Accepted::parse(&text.join(","))
    }

    fn parse(text: &str) -> Accepted {
        let ranges = text.split(',').take(MOST_RANGES).filter_map(|range| {
            let mut parts = range.split(';');
            let (kind, sub) = parts.next()?.trim().split_once('/')?;
            let weight =
                parts.filter_map(|part| part.trim().split_once('=')).find(|(name, _)| name.eq_ignore_ascii_case("q"));
            let weight = weight.map_or(1000, |(_, value)| weight_of(value));
            Some(Range { kind: kind.to_ascii_lowercase(), sub: sub.to_ascii_lowercase(), weight })
        });
        let ranges: Vec<Range> = ranges.collect();
        if ranges.is_empty() && text.trim().is_empty() {
            return Accepted(vec![Range { kind: "*".into(), sub: "*".into(), weight: 1000 }]);
        }
        Accepted(ranges)
    }

    /// The weight of a media type, by the most specific range.
    fn weight(&self, name: &str) -> u32 {
        let Some((kind, sub)) = name.split_once('/') else { return 0 };
        let fits = |range: &&Range| (range.kind == "*" || range.kind == kind) && (range.sub == "*" || range.sub == sub);
        let specific = |range: &Range| (range.kind != "*", range.sub != "*");
        self.0.iter().filter(fits).max_by_key(|range| specific(range)).map_or(0, |range| range.weight)
    }

    /// The weight of a media type listed by its full name.
    fn weight_by_name(&self, name: &str) -> Option<u32> {
        let (kind, sub) = name.split_once('/')?;
        self.0.iter().find(|range| range.kind == kind && range.sub == sub).map(|range| range.weight)
    }

    /// The most wanted offer; of several, the first.
    fn best<T: Copy>(&self, offers: impl Iterator<Item = (T, &'static str, &'static [&'static str])>) -> Option<T> {
        let mut best = None;
        for (offer, name, others) in offers {
            // Other names count only by their full name: a range such as text/* stands for the name that is sent.
            let others = others.iter().filter_map(|name| self.weight_by_name(name));
            let weight = others.chain([self.weight(name)]).max().unwrap_or(0);
            if weight > 0 && best.is_none_or(|(most, _)| weight > most) {
                best = Some((weight, offer));
            }
        }
        best.map(|(_, offer)| offer)
    }

    /// The format for an answer of this form.
    pub(crate) fn answer(&self, form: &Answer) -> Option<Offer> {
        self.best(offers(form.is_graph()).copied())
    }

    /// The syntax for triples or quads; `with_graphs` adds syntaxes with names of graphs.
    pub(crate) fn graph(&self, with_graphs: bool) -> Option<Format> {
        let named = [Format::TriG, Format::NQuads, Format::JsonLd];
        let mut offers: Vec<_> = TRIPLES.to_vec();
        if with_graphs {
            offers.retain(|(offer, ..)| named.iter().any(|format| *offer == Offer::Answer(*format)));
            offers.sort_by_key(|(offer, ..)| *offer != Offer::Answer(Format::TriG));
        }
        match self.best(offers.into_iter()) {
            Some(Offer::Answer(format)) => Some(format),
            _ => None,
        }
    }

    /// Whether JSON is wanted more than text, for errors.
    pub(crate) fn prefers_json(&self) -> bool {
        let named = |range: &Range| range.weight > 0 && (range.sub == "json" || range.sub.ends_with("+json"));
        let plain = |range: &Range| range.kind == "text" && range.weight > 0;
        let first = self.0.iter().find(|range| named(range) || plain(range));
        first.is_some_and(named)
    }
}

/// Thousandths, 0 to 1000. A malformed weight counts as one.
fn weight_of(text: &str) -> u32 {
    text.trim().parse::<f32>().ok().filter(|q| (0.0..=1.0).contains(q)).map_or(1000, |q| (q * 1000.0) as u32)
}

/// The format that a request asks for: by a name in its parameters, or else by its header.
pub(crate) fn format_of(name: Option<&str>, headers: &HeaderMap) -> FormatWish {
    match name {
        Some(name) => {
            FormatWish { named: Some((name.to_owned(), Offer::of_name(name))), accepted: Accepted::of(headers) }
        }
        None => FormatWish { named: None, accepted: Accepted::of(headers) },
    }
}

/// See [`format_of`].
#[derive(Clone, Debug)]
pub(crate) struct FormatWish {
    named: Option<(String, Option<Offer>)>,
    pub(crate) accepted: Accepted,
}

impl FormatWish {
    /// The format for an answer of this form.
    ///
    /// # Errors
    /// The client wants none of its possible formats. The message lists them.
    pub(crate) fn offer(&self, form: &Answer) -> Result<Offer, String> {
        let names = || offers(form.is_graph()).map(|(_, name, _)| *name).collect::<Vec<_>>().join(", ");
        match &self.named {
            Some((_, Some(offer @ Offer::Plan { .. }))) => Ok(*offer),
            Some((_, Some(offer @ Offer::Answer(format)))) => match format.check(form) {
                Ok(()) => Ok(*offer),
                Err(wrong) => Err(wrong.to_string()),
            },
            Some((name, None)) => {
                let fitting = Format::ALL.into_iter().filter(|format| format.check(form).is_ok());
                let short: Vec<_> = fitting.map(Format::name).chain(["plan"]).collect();
                Err(format!("there is no format `{name}`; an answer of this form can be {}", short.join(", ")))
            }
            None => self.accepted.answer(form).ok_or_else(|| format!("an answer of this form can be {}", names())),
        }
    }
}

/// The coding that a client wants most: Zstandard before gzip at equal weights.
pub(crate) fn coding_of(headers: &HeaderMap) -> Coding {
    let values = headers.get_all(header::ACCEPT_ENCODING);
    let mut best = (0, Coding::Identity);
    let all = values.iter().filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(',')).take(MOST_RANGES);
    for range in all {
        let mut parts = range.split(';');
        let name = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let weight =
            parts.filter_map(|part| part.trim().split_once('=')).find(|(name, _)| name.eq_ignore_ascii_case("q"));
        let weight = weight.map_or(1000, |(_, value)| weight_of(value));
        let coding = match name.as_str() {
            "zstd" | "*" => Coding::Zstd,
            "gzip" | "x-gzip" => Coding::Gzip,
            _ => continue,
        };
        let is_better = weight > best.0 || (weight == best.0 && weight > 0 && coding == Coding::Zstd);
        if is_better {
            best = (weight, coding);
        }
    }
    best.1
}

/// The syntax of a body, by its header field.
pub(crate) fn syntax_of(headers: &HeaderMap) -> Option<Result<Syntax, String>> {
    let name = headers.get(header::CONTENT_TYPE)?.to_str().unwrap_or("?");
    let unknown = || {
        format!(
            "`{name}` is no syntax of RDF that is read here: text/turtle, application/n-triples, application/n-quads, \
             application/trig, application/rdf+xml, application/ld+json"
        )
    };
    Some(vicus_service::syntax_by_media_type(name).ok_or_else(unknown))
}

/// Reads any bytes as header fields, for fuzzing.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    let mut headers = HeaderMap::new();
    for (number, line) in bytes.split(|&byte| byte == b'\n').take(4).enumerate() {
        let name = [header::ACCEPT, header::ACCEPT_ENCODING, header::CONTENT_TYPE, header::ACCEPT][number].clone();
        if let Ok(value) = axum::http::HeaderValue::from_bytes(line) {
            headers.append(name, value);
        }
    }
    let wanted = format_of(None, &headers);
    for form in [Answer::Truth, Answer::Triples] {
        if let Ok(Offer::Answer(format)) = wanted.offer(&form) {
            assert!(format.check(&form).is_ok(), "what is offered can hold the answer");
        }
    }
    let _ = (coding_of(&headers), syntax_of(&headers), wanted.accepted.prefers_json(), wanted.accepted.graph(true));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(text: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, text.parse().unwrap());
        headers
    }

    fn offer(text: &str, form: &Answer) -> Option<Offer> {
        Accepted::of(&accept(text)).answer(form)
    }

    /// RFC 9110, §12.5.1: the most specific range counts, then the weight.
    #[test]
    fn the_most_specific_range_says_the_weight() {
        let select = Answer::Rows { columns: Vec::new() };
        let answer = |format| Some(Offer::Answer(format));
        assert_eq!(offer("*/*", &select), answer(Format::Json));
        assert_eq!(offer("", &select), answer(Format::Json));
        assert_eq!(offer("text/csv", &select), answer(Format::Csv));
        assert_eq!(offer("text/*;q=0.5, application/json;q=0.4", &select), answer(Format::Csv));
        assert_eq!(offer("application/json;q=0.5, text/*;q=0.4", &select), answer(Format::Json));
        assert_eq!(offer("text/csv;q=0.5, text/tab-separated-values;q=0.6", &select), answer(Format::Tsv));
        assert_eq!(
            offer("application/sparql-results+json;q=0, */*;q=0.1", &select),
            answer(Format::Xml),
            "JSON is not sent by another name"
        );
        assert_eq!(offer("text/html", &select), None);
        assert_eq!(offer("text/turtle", &select), None);
        assert_eq!(offer("text/html, application/xhtml+xml, */*;q=0.8", &Answer::Triples), answer(Format::Turtle));
        assert_eq!(offer("application/vnd.vicus.plan+json", &select), Some(Offer::Plan { json: true }));
        assert_eq!(offer("TEXT/CSV; q=1.0", &select), answer(Format::Csv));
    }

    #[test]
    fn a_name_in_the_parameters_comes_before_the_header() {
        let select = Answer::Rows { columns: Vec::new() };
        assert_eq!(format_of(Some("csv"), &accept("text/turtle")).offer(&select), Ok(Offer::Answer(Format::Csv)));
        assert!(
            format_of(Some("ttl"), &HeaderMap::new()).offer(&select).unwrap_err().contains("can't be written as ttl")
        );
        let told = format_of(Some("pdf"), &HeaderMap::new()).offer(&select).unwrap_err();
        assert!(told.contains("no format `pdf`") && told.contains(" csv, ") && told.ends_with(" plan"), "{told}");
        assert!(!told.contains("ttl"), "solutions are no triples: {told}");
    }

    #[test]
    fn codings_by_weight() {
        let coding = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, text.parse().unwrap());
            coding_of(&headers)
        };
        assert_eq!(coding("gzip, deflate, br"), Coding::Gzip);
        assert_eq!(coding("gzip, deflate, br, zstd"), Coding::Zstd);
        assert_eq!(coding("gzip;q=1, zstd;q=0.5"), Coding::Gzip);
        assert_eq!(coding("gzip;q=0"), Coding::Identity);
        assert_eq!(coding("identity"), Coding::Identity);
    }
}
