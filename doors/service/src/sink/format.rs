//! The formats of answers, and the answers that each can hold.

use std::fmt;
use vicus_language::Answer;
use vicus_rdf::load::Syntax;

/// How an answer is written: solutions and the yes or no of an ASK in the first five, the triples of CONSTRUCT and
/// DESCRIBE in the others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// Columns for people.
    Table,
    /// SPARQL 1.1 Query Results JSON Format.
    Json,
    /// SPARQL Query Results XML Format.
    Xml,
    /// SPARQL 1.1 Query Results CSV Format.
    Csv,
    /// SPARQL 1.1 Query Results TSV Format.
    Tsv,
    /// RDF 1.1 N-Triples.
    NTriples,
    /// RDF 1.1 N-Quads.
    NQuads,
    /// RDF 1.1 Turtle, with the query's prefixes.
    Turtle,
    /// RDF 1.1 TriG, with the query's prefixes.
    TriG,
    /// RDF 1.1 XML Syntax. Some IRIs can't be predicates there ([`Unwritable`](super::Unwritable)).
    RdfXml,
    /// JSON-LD 1.1, in expanded form.
    JsonLd,
    /// An Arrow IPC stream: solutions, a truth value, or triples. The terms are dictionaries of texts in N-Triples.
    Arrow,
}

/// The format that writes what is read in a syntax.
impl From<Syntax> for Format {
    fn from(syntax: Syntax) -> Format {
        match syntax {
            Syntax::NTriples => Format::NTriples,
            Syntax::NQuads => Format::NQuads,
            Syntax::Turtle => Format::Turtle,
            Syntax::TriG => Format::TriG,
            Syntax::RdfXml => Format::RdfXml,
            Syntax::JsonLd => Format::JsonLd,
        }
    }
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 12] = [
        Format::Table,
        Format::Json,
        Format::Xml,
        Format::Csv,
        Format::Tsv,
        Format::NTriples,
        Format::NQuads,
        Format::Turtle,
        Format::TriG,
        Format::RdfXml,
        Format::JsonLd,
        Format::Arrow,
    ];

    /// Its short name: `json`, `nt`, `rdfxml`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Table => "table",
            Format::Json => "json",
            Format::Xml => "xml",
            Format::Csv => "csv",
            Format::Tsv => "tsv",
            Format::NTriples => "nt",
            Format::NQuads => "nq",
            Format::Turtle => "ttl",
            Format::TriG => "trig",
            Format::RdfXml => "rdfxml",
            Format::JsonLd => "jsonld",
            Format::Arrow => "arrow",
        }
    }

    /// Whether it is a syntax of RDF.
    pub fn is_rdf(self) -> bool {
        match self {
            Format::Table | Format::Json | Format::Xml | Format::Csv | Format::Tsv | Format::Arrow => false,
            Format::NTriples | Format::NQuads | Format::Turtle | Format::TriG | Format::RdfXml | Format::JsonLd => true,
        }
    }

    /// Whether several boxes may write its rows at once.
    pub fn is_parallel(self) -> bool {
        self != Format::Table
    }

    /// Whether answers of this kind can be written in it.
    ///
    /// ```
    /// use vicus_service::Format;
    /// use vicus_language::Answer;
    /// assert!(Format::Csv.check(&Answer::Truth).is_ok());
    /// let error = Format::Csv.check(&Answer::Triples).unwrap_err();
    /// let text = "triples can't be written as csv, but as nt, nq, ttl, trig, rdfxml, jsonld or arrow";
    /// assert_eq!(error.to_string(), text);
    /// ```
    ///
    /// # Errors
    /// It has no way to write them.
    pub fn check(self, form: &Answer) -> Result<(), WrongFormat> {
        if self == Format::Arrow || self.is_rdf() == form.is_graph() {
            Ok(())
        } else {
            Err(WrongFormat { format: self, form: form.clone() })
        }
    }
}

/// A format that can't hold the answer of a query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrongFormat {
    /// The requested format.
    pub format: Format,
    /// The form of the query's answer.
    pub form: Answer,
}

impl fmt::Display for WrongFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.form {
            Answer::Rows { .. } => "rows",
            Answer::Truth => "yes or no",
            Answer::Triples => "triples",
        };
        let fit = Format::ALL.into_iter().filter(|format| format.check(&self.form).is_ok());
        let mut names: Vec<&str> = fit.map(Format::name).collect();
        let last = names.pop().expect("there are formats for every form");
        write!(f, "{what} can't be written as {}, but as {} or {last}", self.format.name(), names.join(", "))
    }
}

impl std::error::Error for WrongFormat {}
