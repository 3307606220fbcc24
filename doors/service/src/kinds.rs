//! Kinds of boxes for networks as text: documents of RDF as rows.

mod write_store;

use crate::document::{file_iri, syntax_by_ending, unpacked};
use oxrdf::vocab::{rdf, xsd};
use oxrdf::{BaseDirection, BlankNode, GraphName, Literal, NamedNode, NamedOrBlankNode, Quad, Term};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use vicus::library::{self, More};
use vicus::{BoxError, BoxModel, Column, Envelope, EnvelopeBuilder, Operator, OutputId, Schema, Turn, Type};
use vicus_network::{BoxSpec, Building, KindError, Kinds, ParameterType, ParameterValue, Paths, Ports};
use vicus_rdf::load::{LoadSource, ParsedPart, Pieces, Syntax};

/// Adds the kinds that read and write RDF: `read_rdf` and `write_rdf` for documents, and `write_store`. A program that
/// does not trust the texts leaves them out.
///
/// ```
/// use vicus_network::Kinds;
///
/// let mut kinds = Kinds::library();
/// vicus_service::add_kinds(&mut kinds);
/// assert!(kinds.get("read_rdf").is_some());
/// ```
pub fn add_kinds(kinds: &mut Kinds) {
    kinds.add(
        BoxSpec::new(
            "read_rdf",
            "Reads a document of RDF. Its columns are subject, predicate, object, datatype, language and graph. IRIs \
             stand without angle brackets, blank nodes as _:name, triple terms as in N-Triples. Literals alone have a \
             datatype.",
        )
        .ports(Ports::Exactly(0), Ports::Exactly(1))
        .required("file", ParameterType::Text, "The file, packed or not, from the folder in which the program runs.")
        .optional("syntax", ParameterType::Text, "nt, nq, ttl, trig, rdf or jsonld; by default the file's ending.")
        .optional("base", ParameterType::Text, "The IRI for relative ones; by default the file's.")
        .defaults("rdf_12", ParameterValue::Boolean(false), "Whether RDF 1.2 is taken: triple terms, base directions.")
        .builds(read_rdf),
    );
    kinds.add(
        BoxSpec::new(
            "write_rdf",
            "Writes rows as N-Quads. They have the columns of read_rdf; datatype, language and graph may be left out. \
             An object that is an integer, a double or a truth value is a literal by its type.",
        )
        .ports(Ports::Exactly(1), Ports::Exactly(0))
        .required("file", ParameterType::Text, "The file, which is written anew; \"-\" is standard output.")
        .builds(write_rdf),
    );
    kinds.add(
        BoxSpec::new(
            "write_store",
            "Inserts rows into a store, as one transaction when all have come. They have the columns of write_rdf; \
             blank nodes keep their labels. A network that may be run again changes the store when all of it has \
             done well.",
        )
        .ports(Ports::Exactly(1), Ports::Exactly(0))
        .required("store", ParameterType::Text, "The store's folder; no other process may be writing to it.")
        .builds(write_store::write_store),
    );
}

/// Files below a folder alone, for texts that a program does not trust: no name leads out of it, by `..`, a link or as
/// an absolute one.
///
/// # Errors
/// The folder is not there.
pub fn paths_below(folder: &Path) -> io::Result<Paths> {
    let root = folder.canonicalize()?;
    Ok(Paths::by(move |name| {
        let outside = || format!("{name}: only files below the server's folder of networks are read and written");
        let wanted = Path::new(name);
        if name == "-" || wanted.is_absolute() {
            return Err(outside());
        }
        let path = root.join(wanted);
        let found = match path.symlink_metadata() {
            Ok(_) => path.canonicalize(),
            // A new file: its folder is to be there.
            Err(_) => match (path.parent(), path.file_name()) {
                (Some(folder), Some(own)) => folder.canonicalize().map(|folder| folder.join(own)),
                _ => return Err(outside()),
            },
        };
        let found = found.map_err(|error| format!("{name}: {error}"))?;
        if found.starts_with(&root) && found != root { Ok(found) } else { Err(outside()) }
    }))
}

const SUBJECT: usize = 0;
const PREDICATE: usize = 1;
const OBJECT: usize = 2;
const DATATYPE: usize = 3;
const LANGUAGE: usize = 4;
const GRAPH: usize = 5;
const COLUMNS: [&str; 6] = ["subject", "predicate", "object", "datatype", "language", "graph"];

fn read_rdf(building: &mut Building<'_>) -> Result<Vec<(OutputId, Schema)>, KindError> {
    let text = |name| match building.value(name) {
        Some(ParameterValue::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let (path, shown) = (building.file("file")?, building.text("file").to_owned());
    let syntax = match text("syntax") {
        Some(name) => syntax_by_ending(&format!(".{name}"))
            .ok_or_else(|| KindError::of("syntax", format!("{name}: known are nt, nq, ttl, trig, rdf, jsonld")))?,
        None => syntax_by_ending(&shown)
            .ok_or_else(|| KindError::of("file", format!("{shown}: its ending tells no syntax; give `syntax`")))?,
    };
    // An error comes now, and before a request begins.
    File::open(&path).map_err(|error| KindError::of("file", format!("{shown}: {error}")))?;
    let base = match text("base") {
        Some(base) => NamedNode::new(base).map_err(|error| KindError::of("base", error.to_string()))?.into_string(),
        None => file_iri(&path).map_err(|error| KindError::of("file", format!("{shown}: {error}")))?,
    };
    let rdf_12 = building.boolean("rdf_12");
    let schema = Schema::new(COLUMNS.map(|name| (name, Type::Text))).with_nulls(["datatype", "language", "graph"]);
    let fill = move || {
        let mut reading = Reading { path: path.clone(), syntax, base: base.clone(), rdf_12, pieces: None };
        move |turn: &mut Turn<'_>, builder: &mut EnvelopeBuilder| reading.fill(turn, builder)
    };
    let source = building.source(library::fill("read_rdf", &schema, fill));
    Ok(vec![(source.output(0), schema)])
}

struct Reading {
    path: PathBuf,
    syntax: Syntax,
    base: String,
    rdf_12: bool,
    /// Opened by the first invocation.
    pieces: Option<Pieces>,
}

impl Reading {
    fn fill(&mut self, turn: &mut Turn<'_>, builder: &mut EnvelopeBuilder) -> Result<More, BoxError> {
        let stopped = || turn.is_stopped();
        let piece = turn.blocking(|| {
            if self.pieces.is_none() {
                self.pieces = Some(open(&self.path, self.syntax, &self.base, self.rdf_12)?);
            }
            self.pieces.as_mut().expect("they were opened").next(&stopped)
        })?;
        let Some(piece) = piece else { return Ok(More::No) };
        let quads = piece.quads();
        builder.try_reserve(turn, quads.len())?;
        for [subject, predicate, object] in &quads.triples {
            push(turn, builder, &piece, [*subject, *predicate, *object], None)?;
        }
        for [subject, predicate, object, graph] in &quads.named {
            push(turn, builder, &piece, [*subject, *predicate, *object], Some(*graph))?;
        }
        Ok(More::Yes)
    }
}

fn open(path: &Path, syntax: Syntax, base: &str, rdf_12: bool) -> Result<Pieces, BoxError> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
    let bytes = unpacked(file, &name);
    Ok(Pieces::new(LoadSource::new(name, syntax, bytes).with_base(base), rdf_12)?)
}

/// Appends the row of a statement.
fn push(
    turn: &Turn<'_>,
    builder: &mut EnvelopeBuilder,
    piece: &ParsedPart,
    triple: [u32; 3],
    graph: Option<u32>,
) -> Result<(), BoxError> {
    let mut text = |column: usize, text: Option<&str>| -> Result<(), BoxError> {
        match text {
            Some(text) => {
                builder.try_reserve_text(turn, column, text.len())?;
                builder.push_text(turn, column, text);
            }
            None => builder.push_null(column),
        }
        Ok(())
    };
    let [subject, predicate, object] = triple.map(|number| piece.term(number));
    text(SUBJECT, Some(&value(subject)))?;
    text(PREDICATE, Some(&value(predicate)))?;
    let (datatype, language) = match &object {
        Term::Literal(literal) => {
            let language = literal.language().map(|language| match literal.direction() {
                Some(direction) => format!("{language}--{direction}"),
                None => language.to_owned(),
            });
            (Some(literal.datatype().as_str().to_owned()), language)
        }
        _ => (None, None),
    };
    text(OBJECT, Some(&value(object)))?;
    text(DATATYPE, datatype.as_deref())?;
    text(LANGUAGE, language.as_deref())?;
    text(GRAPH, graph.map(|graph| value(piece.term(graph))).as_deref())
}

/// A term as the column of its place has it.
fn value(term: Term) -> String {
    match term {
        Term::NamedNode(node) => node.into_string(),
        Term::Literal(literal) => literal.value().to_owned(),
        blank_or_triple => blank_or_triple.to_string(),
    }
}

/// The columns of a statement, of those that rows have.
fn places_of(schema: &Schema) -> Result<[Option<usize>; 6], KindError> {
    let places = COLUMNS.map(|name| schema.columns().iter().position(|field| field.name == name));
    for (place, name) in places.iter().zip(COLUMNS) {
        let Some(place) = place else {
            if [COLUMNS[DATATYPE], COLUMNS[LANGUAGE], COLUMNS[GRAPH]].contains(&name) {
                continue;
            }
            return Err(KindError::new(format!("the rows have no column {name}")));
        };
        let kind = &schema.columns()[*place].kind;
        let is_number = name == COLUMNS[OBJECT] && matches!(kind, Type::I64 | Type::U64 | Type::F64 | Type::Bool);
        if *kind != Type::Text && !is_number {
            return Err(KindError::new(format!("column {name} is of the type {kind}, where a text is expected")));
        }
    }
    if let Some(field) = schema.columns().iter().find(|field| !COLUMNS.contains(&field.name.as_str())) {
        return Err(KindError::new(format!("column {} is no part of a statement; leave it out by `map`", field.name)));
    }
    Ok(places)
}

fn write_rdf(building: &mut Building<'_>) -> Result<Vec<(OutputId, Schema)>, KindError> {
    let schema = building.inputs()[0].schema.clone();
    let places = places_of(&schema)?;
    let path = building.file_to_write("file")?;
    let operator = move || -> Box<dyn Operator> {
        let mut writing = Writing { path: path.clone(), places, target: None, rows: 0 };
        Box::new(move |turn: &mut Turn<'_>| writing.act(turn))
    };
    let nothing = Schema::new::<&str>([]);
    let end = building.add(BoxModel::new("write_rdf", operator).input(&schema).output(&nothing));
    building.net().end(end.output(0));
    Ok(Vec::new())
}

struct Writing {
    path: PathBuf,
    /// The columns of [`COLUMNS`], of those that the rows have.
    places: [Option<usize>; 6],
    /// Opened for the first rows, or for the end.
    target: Option<Box<dyn Write + Send>>,
    rows: u64,
}

impl Writing {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        match turn.take(0) {
            Some(pill) if pill.is_pill() => {
                turn.blocking(|| self.target()?.flush())?;
                turn.send_pill(0);
            }
            Some(rows) => turn.blocking(|| self.write(&rows))?,
            None => {}
        }
        Ok(())
    }

    fn target(&mut self) -> io::Result<&mut Box<dyn Write + Send>> {
        if self.target.is_none() {
            let target: Box<dyn Write + Send> = if self.path.as_os_str() == "-" {
                Box::new(io::stdout())
            } else {
                let shown = self.path.display();
                let named = |error: io::Error| io::Error::new(error.kind(), format!("{shown}: {error}"));
                Box::new(File::create(&self.path).map_err(named)?)
            };
            self.target = Some(Box::new(BufWriter::new(target)));
        }
        Ok(self.target.as_mut().expect("it was opened"))
    }

    fn write(&mut self, rows: &Envelope) -> Result<(), BoxError> {
        for row in 0..rows.rows() {
            self.rows += 1;
            let columns = self.places.map(|place| place.map(|place| rows.column(place)));
            let quad = quad(&columns, row).map_err(|error| format!("row {}: {error}", self.rows))?;
            writeln!(self.target()?, "{quad} .")?;
        }
        Ok(())
    }
}

fn quad(columns: &[Option<&Column>; 6], row: usize) -> Result<Quad, String> {
    let text = |column: usize| {
        let column = columns[column].filter(|column| !column.is_null(row))?;
        Some(column.text_at(row))
    };
    let required = |column: usize| text(column).ok_or_else(|| format!("{} is null", COLUMNS[column]));
    let subject = match required(SUBJECT)? {
        name if name.starts_with("_:") => NamedOrBlankNode::BlankNode(blank(name)?),
        iri => NamedOrBlankNode::NamedNode(node(COLUMNS[SUBJECT], iri)?),
    };
    let graph = match text(GRAPH) {
        None => GraphName::DefaultGraph,
        Some(name) if name.starts_with("_:") => GraphName::BlankNode(blank(name)?),
        Some(iri) => GraphName::NamedNode(node(COLUMNS[GRAPH], iri)?),
    };
    let predicate = node(COLUMNS[PREDICATE], required(PREDICATE)?)?;
    let object = columns[OBJECT].filter(|object| !object.is_null(row)).ok_or("object is null")?;
    let object: Term = match object.kind() {
        Type::I64 => Literal::from(object.i64s()[row]).into(),
        Type::U64 => Literal::new_typed_literal(object.u64s()[row].to_string(), xsd::INTEGER).into(),
        Type::F64 => Literal::from(object.f64s()[row]).into(),
        Type::Bool => Literal::from(object.bools()[row]).into(),
        _ => object_of(object.text_at(row), text(DATATYPE), text(LANGUAGE))?,
    };
    Ok(Quad::new(subject, predicate, object, graph))
}

fn object_of(value: &str, datatype: Option<&str>, language: Option<&str>) -> Result<Term, String> {
    if let Some(language) = language {
        if let Some(datatype) =
            datatype.filter(|datatype| ![rdf::LANG_STRING.as_str(), DIR_LANG_STRING].contains(datatype))
        {
            return Err(format!("a value with the language {language} can't have the datatype {datatype}"));
        }
        let wrong = |error| format!("language {language}: {error}");
        let literal = match language.rsplit_once("--") {
            Some((tag, "ltr")) => Literal::new_directional_language_tagged_literal(value, tag, BaseDirection::Ltr),
            Some((tag, "rtl")) => Literal::new_directional_language_tagged_literal(value, tag, BaseDirection::Rtl),
            _ => Literal::new_language_tagged_literal(value, language),
        };
        return Ok(literal.map_err(wrong)?.into());
    }
    Ok(match datatype {
        Some(datatype) if datatype == rdf::LANG_STRING.as_str() || datatype == DIR_LANG_STRING => {
            return Err(format!("a value of the datatype {datatype} needs a language"));
        }
        Some(datatype) => Literal::new_typed_literal(value, node(COLUMNS[DATATYPE], datatype)?).into(),
        None if value.starts_with("_:") => blank(value)?.into(),
        None if value.starts_with("<<") => {
            Term::from_str(value).map_err(|error| format!("object {value} is no triple term: {error}"))?
        }
        None => NamedNode::new(value)
            .map_err(|error| {
                format!(
                    "object \"{value}\" is no IRI ({error}); a literal has a datatype, such as {}",
                    xsd::STRING.as_str()
                )
            })?
            .into(),
    })
}

/// RDF 1.2 Concepts, §3.4.
const DIR_LANG_STRING: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#dirLangString";

fn node(column: &str, iri: &str) -> Result<NamedNode, String> {
    NamedNode::new(iri).map_err(|error| format!("{column} \"{iri}\" is no IRI: {error}"))
}

fn blank(name: &str) -> Result<BlankNode, String> {
    BlankNode::new(&name[2..]).map_err(|error| format!("{name} is no blank node: {error}"))
}
