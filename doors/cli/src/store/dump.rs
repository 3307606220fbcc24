//! `vicus dump`: the quads of a store in any syntax of RDF.

use super::{Bar, Unit, read, show};
use crate::interrupt::{self, Interrupted};
use crate::query::SyntaxName;
use anyhow::{Context, anyhow, bail};
use std::io::ErrorKind;
use std::path::PathBuf;
use vicus_service::data::{Id, Order, Snapshot, Syntax};
use vicus_service::{DumpError, Format, Output, dump, graph_name, is_prefix, is_stdout, syntax_by_ending};

/// See `vicus dump --help`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the store. Another process may be writing to it.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// Only this graph, or with `default` the default graph. Syntaxes without graphs (nt, ttl, rdfxml) hold one graph,
    /// without its name; nq, trig and jsonld have its name.
    #[arg(long, value_name = "IRI|default")]
    graph: Option<String>,
    /// The file to be written, in the syntax of its ending (.nt, .nq, .ttl, .trig, .rdf, .xml, .owl, .jsonld), packed
    /// by gzip or zstd with .gz or .zst behind the ending; - is standard output, in nq, or nt for one graph. An
    /// existing file stays until all is written; a pipe or a device is written to directly.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// The syntax, for any ending of the file.
    #[arg(long, value_enum)]
    syntax: Option<SyntaxName>,
    /// A prefix for ttl, trig and rdfxml, as in ex=http://example.org/. May be given several times; namespaces of the
    /// data's predicates have prefixes without it.
    #[arg(long, value_name = "NAME=IRI", value_parser = prefix)]
    prefix: Vec<(String, String)>,
}

fn prefix(text: &str) -> Result<(String, String), String> {
    let (name, iri) = text.split_once('=').ok_or("expected a name, = and an IRI")?;
    match is_prefix(name, iri) {
        true => Ok((name.to_owned(), iri.to_owned())),
        false => Err(format!("`PREFIX {name}: <{iri}>` is no prefix")),
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    interrupt::listen();
    let name = args.output.to_string_lossy().into_owned();
    let lower = name.to_ascii_lowercase();
    if lower.ends_with(".bz2") || lower.ends_with(".xz") {
        bail!(
            "{name}: bzip2 and xz are read and not written; expected .gz or .zst behind the syntax's ending, or none"
        );
    }
    let is_stdout = is_stdout(&args.output);
    let syntax = match (args.syntax, syntax_by_ending(&name)) {
        (Some(syntax), _) => syntax.syntax(),
        (None, Some(syntax)) => syntax,
        (None, None) if is_stdout && args.graph.is_none() => Syntax::NQuads,
        (None, None) if is_stdout => Syntax::NTriples,
        (None, None) => bail!(
            "{name}: the ending says no syntax that can be written; expected .nt, .nq, .ttl, .trig, .rdf, .xml, .owl \
                or .jsonld, with .gz or .zst behind it or not, or --syntax"
        ),
    };
    let format = Format::from(syntax);
    let graph_iri = args.graph.as_deref().filter(|name| *name != "default").map(graph_name);
    let graph_iri = graph_iri.transpose().map_err(|error| anyhow!("--graph: {error}"))?;
    let dataset = read(&args.store)?;
    let snapshot = dataset.snapshot();
    let graph = match (&args.graph, &graph_iri) {
        (None, _) => None,
        (Some(_), None) => Some(Id::UNBOUND),
        (Some(_), Some(name)) => match snapshot.id(name.as_ref().into()) {
            Some(id) if snapshot.index(Order::Gspo).count(&[id]) > 0 => Some(id),
            _ => bail!("the store has no graph {name}"),
        },
    };
    let write = |mut output: Output| -> anyhow::Result<usize> {
        let bar = Bar::new("dumping", count(snapshot, graph) as u64, Unit::Quads);
        let written = dump(snapshot, graph, format, &args.prefix, &mut output, &mut |quads| {
            bar.set(quads as u64);
            if interrupt::cancel().is_cancelled() { Err(ErrorKind::Interrupted.into()) } else { Ok(()) }
        });
        bar.end();
        let quads = written.map_err(|error| match error {
            DumpError::Graphs(_) => anyhow!("{error}: choose one with --graph, or --syntax"),
            DumpError::Damaged(_) => anyhow!("store {}: {error}", args.store.display()),
            DumpError::Unwritable(error) => anyhow!("{error}; --syntax {} have", error.others()),
            DumpError::Io(_) if interrupt::cancel().is_cancelled() => Interrupted.into(),
            DumpError::Io(error) => std::io::Error::new(error.kind(), error).into(),
        })?;
        output.keep()?;
        Ok(quads)
    };
    if is_stdout {
        let written = write(Output::stdout(&name)?);
        // Its reader may have seen enough.
        let is_closed = |error: &anyhow::Error| {
            error.downcast_ref().is_some_and(|error: &std::io::Error| error.kind() == ErrorKind::BrokenPipe)
        };
        return written.map(drop).or_else(|error| if is_closed(&error) { Ok(()) } else { Err(error) });
    }
    let cannot = || format!("{name}: can't be written");
    let quads = Output::create(&args.output).map_err(Into::into).and_then(write).with_context(cannot)?;
    show(&format!("{name}: {quads} quads\n"))
}

fn count(snapshot: &Snapshot, graph: Option<Id>) -> usize {
    graph.map_or(snapshot.len(), |graph| snapshot.index(Order::Gspo).count(&[graph]))
}
