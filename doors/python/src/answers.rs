//! Answers in the formats of SPARQL and of RDF, written to a file or as bytes while their query runs.

use crate::data::{Site, output_to, prepare, remaining};
use crate::errors::{Failure, Outcome};
use crate::wait::{Bounds, interruptible};
use pyo3::prelude::*;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;
use vicus_service::{Dataset, Format, Output, SessionOptions, TextSink, syntax_by_ending};

/// Where an answer goes.
enum Target {
    File(Box<Output>),
    Bytes(Vec<u8>),
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::File(file) => file.write(bytes),
            Target::Bytes(all) => {
                all.try_reserve(bytes.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
                all.write(bytes)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Target::File(file) => file.flush(),
            Target::Bytes(_) => Ok(()),
        }
    }
}

/// The format of a name, or of a file's ending.
fn format(name: Option<&str>, path: Option<&str>) -> Outcome<Format> {
    let names = || Format::ALL.map(Format::name).join(", ");
    if let Some(name) = name {
        let known = Format::ALL.into_iter().find(|format| format.name() == name);
        return known
            .ok_or_else(|| Failure::argument(format_args!("`{name}` is no format of answers: there are {}", names())));
    }
    let path = path.unwrap_or_default();
    let lower = path.to_lowercase();
    let plain = lower.strip_suffix(".gz").or_else(|| lower.strip_suffix(".zst")).unwrap_or(&lower);
    let of_answers = match plain.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "json" | "srj" => Some(Format::Json),
        "xml" | "srx" => Some(Format::Xml),
        "csv" => Some(Format::Csv),
        "tsv" => Some(Format::Tsv),
        "arrow" | "arrows" => Some(Format::Arrow),
        _ => syntax_by_ending(path).map(Format::from),
    };
    of_answers.ok_or_else(|| {
        Failure::argument(format_args!("{path}: the ending says no format; give one by format=: {}", names()))
    })
}

/// Answers a query in a format: into a file, whose old content stays until all is written, or as bytes. How many rows
/// or triples, and the bytes.
pub(crate) fn write(
    py: Python<'_>,
    site: &Site,
    dataset: &Dataset,
    options: &SessionOptions,
    text: &str,
    path: Option<PathBuf>,
    named: Option<&str>,
) -> Outcome<(u64, Vec<u8>)> {
    let name = path.as_ref().map(|path| path.to_string_lossy().into_owned());
    let format = format(named, name.as_deref())?;
    let (began, service) = (Instant::now(), site.threads.service()?);
    let plan = prepare(py, service, dataset, options, text)?;
    format.check(plan.form()).map_err(|error| Failure::new("FormatError", error))?;
    let options = remaining(options, began);
    // A pipe's reader is waited for before the query begins, and written to while it runs.
    let bounds = Bounds::within(options.limits.cancel.clone(), options.limits.time);
    interruptible(py, &bounds, || {
        let refused = |error: io::Error| {
            let error = io::Error::new(error.kind(), format!("{}: {error}", name.as_deref().unwrap_or("bytes")));
            Failure::Python(error.into())
        };
        let target = match &path {
            Some(path) => {
                Target::File(Box::new(output_to(path, name.as_deref().unwrap_or_default(), &bounds).map_err(refused)?))
            }
            None => Target::Bytes(Vec::new()),
        };
        let session = service.session(dataset, options.clone());
        let (target, outcome) = session.call()?.answer(&plan, TextSink::new(format, target))?;
        match target {
            Target::Bytes(all) => Ok((outcome.rows, all)),
            Target::File(file) => (*file).keep().map(|()| (outcome.rows, Vec::new())).map_err(refused),
        }
    })
}
