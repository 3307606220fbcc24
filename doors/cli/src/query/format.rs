//! The formats of answers, as options and endings of files name them.

use vicus_service::Answer;

/// How results are written.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
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
    /// N-Triples.
    #[value(alias = "ntriples")]
    Nt,
    /// N-Quads.
    #[value(alias = "nquads")]
    Nq,
    /// Turtle, with the query's prefixes.
    #[value(alias = "turtle")]
    Ttl,
    /// TriG, with the query's prefixes.
    Trig,
    /// RDF/XML.
    #[value(alias = "rdf")]
    Rdfxml,
    /// JSON-LD.
    Jsonld,
    /// An Arrow IPC stream, for answers of any form.
    Arrow,
    /// Parquet, for answers but yes or no; into a file.
    Parquet,
    /// The query's name, a tab, the number of rows or triples or yes/no.
    Count,
}

impl Format {
    /// The format of answers that leave as text, piece by piece.
    pub(super) fn of_text(self) -> Option<vicus_service::Format> {
        match self {
            Format::Table => Some(vicus_service::Format::Table),
            Format::Json => Some(vicus_service::Format::Json),
            Format::Xml => Some(vicus_service::Format::Xml),
            Format::Csv => Some(vicus_service::Format::Csv),
            Format::Tsv => Some(vicus_service::Format::Tsv),
            Format::Nt => Some(vicus_service::Format::NTriples),
            Format::Nq => Some(vicus_service::Format::NQuads),
            Format::Ttl => Some(vicus_service::Format::Turtle),
            Format::Trig => Some(vicus_service::Format::TriG),
            Format::Rdfxml => Some(vicus_service::Format::RdfXml),
            Format::Jsonld => Some(vicus_service::Format::JsonLd),
            Format::Arrow => Some(vicus_service::Format::Arrow),
            Format::Parquet | Format::Count => None,
        }
    }

    /// The format for people, for an answer of this kind.
    pub(super) fn usual(form: &Answer) -> Format {
        if form.is_graph() { Format::Ttl } else { Format::Table }
    }

    /// The format of a file with this name for an answer of this form, by its ending. The packing behind it counts for
    /// nothing; a packed Parquet file would be read by no program.
    pub(super) fn by_ending(name: &str, form: &Answer) -> Option<Format> {
        let lower = name.to_ascii_lowercase();
        let packed = [".gz", ".zst"].iter().find_map(|packing| lower.strip_suffix(packing));
        let (_, ending) = packed.unwrap_or(&lower).rsplit_once('.')?;
        Some(match ending {
            "txt" => Format::Table,
            "json" | "srj" => Format::Json,
            "xml" if form.is_graph() => Format::Rdfxml,
            "xml" | "srx" => Format::Xml,
            "csv" => Format::Csv,
            "tsv" => Format::Tsv,
            "nt" => Format::Nt,
            "nq" => Format::Nq,
            "ttl" => Format::Ttl,
            "trig" => Format::Trig,
            "rdf" | "owl" => Format::Rdfxml,
            "jsonld" => Format::Jsonld,
            "arrow" | "arrows" => Format::Arrow,
            "parquet" | "pq" if packed.is_none() => Format::Parquet,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_tells_the_format_and_packing_is_left_out() {
        let of = |name| Format::by_ending(name, &Answer::Truth);
        assert!(of("a.CSV") == Some(Format::Csv) && of("dir.x/a.json.gz") == Some(Format::Json));
        assert!(of("a.xml.zst") == Some(Format::Xml) && of("a.parquet") == Some(Format::Parquet));
        assert!(Format::by_ending("a.xml", &Answer::Triples) == Some(Format::Rdfxml));
        for name in ["a", "csv", "a.parquet.gz", "a.csv.bz2", "a.gz", "a.csv.gz.gz"] {
            assert!(of(name).is_none(), "{name}");
        }
    }
}
