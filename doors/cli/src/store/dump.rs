//! `vicus dump`: the quads of a store in any syntax of RDF.

use super::{Bar, Unit, read, show};
use crate::interrupt::{self, Interrupted};
use crate::query::SyntaxName;
use anyhow::{Context, anyhow, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use vicus_service::data::{Id, Order, Snapshot, Syntax};
use vicus_service::{DumpError, Format, dump, graph_name, is_prefix, syntax_by_ending};

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

/// The target of the quads.
enum Output {
    Plain(Box<dyn Write>),
    Gzip(GzEncoder<Box<dyn Write>>),
    Zstd(zstd::Encoder<'static, Box<dyn Write>>),
}

impl Output {
    fn new(inner: Box<dyn Write>, name: &str) -> std::io::Result<Output> {
        let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
        Ok(match ending.as_deref() {
            Some("gz") => Output::Gzip(GzEncoder::new(inner, Compression::fast())),
            Some("zst") => Output::Zstd(zstd::Encoder::new(inner, 1)?),
            _ => Output::Plain(inner),
        })
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Output::Plain(writer) => writer,
            Output::Gzip(writer) => writer,
            Output::Zstd(writer) => writer,
        }
    }

    fn finish(self) -> std::io::Result<()> {
        match self {
            Output::Plain(writer) => Ok(writer),
            Output::Gzip(writer) => writer.finish(),
            Output::Zstd(writer) => writer.finish(),
        }?
        .flush()
    }
}

/// The format of a syntax.
fn format_of(syntax: Syntax) -> Format {
    match syntax {
        Syntax::NTriples => Format::NTriples,
        Syntax::NQuads => Format::NQuads,
        Syntax::Turtle => Format::Turtle,
        Syntax::TriG => Format::TriG,
        Syntax::RdfXml => Format::RdfXml,
        Syntax::JsonLd => Format::JsonLd,
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
    let is_stdout = name == "-" || is_open_as_stdout(&args.output);
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
    let format = format_of(syntax);
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
    let write = |mut output: Output| {
        let bar = Bar::new("dumping", count(snapshot, graph) as u64, Unit::Quads);
        let written = dump(snapshot, graph, format, &args.prefix, output.writer(), &mut |quads| {
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
        output.finish()?;
        Ok(quads)
    };
    if is_stdout {
        let written = write(Output::new(Box::new(BufWriter::new(std::io::stdout().lock())), &name)?);
        // Its reader may have seen enough.
        let is_closed = |error: &anyhow::Error| {
            error.downcast_ref().is_some_and(|error: &std::io::Error| error.kind() == ErrorKind::BrokenPipe)
        };
        return written.map(drop).or_else(|error| if is_closed(&error) { Ok(()) } else { Err(error) });
    }
    let quads = to_path(write, &args.output, &name)?;
    show(&format!("{name}: {quads} quads\n"))
}

/// Whether a path leads to standard output, such as `/dev/stdout`: the number of quads must not be shown there.
fn is_open_as_stdout(path: &Path) -> bool {
    let stdout = std::io::stdout().as_fd().try_clone_to_owned().and_then(|stdout| File::from(stdout).metadata());
    let both = stdout.and_then(|stdout| Ok((stdout, std::fs::metadata(path)?)));
    both.is_ok_and(|(stdout, path)| !path.is_file() && (stdout.dev(), stdout.ino()) == (path.dev(), path.ino()))
}

fn count(snapshot: &Snapshot, graph: Option<Id>) -> usize {
    graph.map_or(snapshot.len(), |graph| snapshot.index(Order::Gspo).count(&[graph]))
}

/// Writes to a path. A pipe or a device is written to directly. A file is written beside the existing one, or beside
/// the target of a link, and renamed at the end: after an error or power loss, the old content is still there.
fn to_path(write: impl FnOnce(Output) -> anyhow::Result<usize>, path: &Path, name: &str) -> anyhow::Result<usize> {
    let cannot = || format!("{name}: can't be written");
    let output = |file| Output::new(Box::new(BufWriter::with_capacity(1 << 20, file)), name).with_context(cannot);
    let is_file = match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => true,
        found => found.with_context(cannot)?.is_file(),
    };
    if !is_file {
        let file = File::options().write(true).open(path).with_context(cannot)?;
        return write(output(file)?).with_context(cannot);
    }
    let target = followed(path);
    let (beside, file) = create_beside(&target).with_context(cannot)?;
    let written = file.try_clone().with_context(cannot).and_then(|to| write(output(to)?)).and_then(|quads| {
        // Else power loss may leave the new name with an empty file.
        file.sync_data()?;
        std::fs::rename(&beside, &target)?;
        Ok(quads)
    });
    if written.is_err() {
        // The rest of it is of no use.
        let _ = std::fs::remove_file(&beside);
    }
    written.with_context(cannot)
}

/// The target of a path's links, whether a file is there or not.
fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    while let Ok(next) = std::fs::read_link(&path) {
        // Relative to the link's folder, unless it is absolute.
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    path
}

/// Creates a file beside another one, under an unused name.
fn create_beside(target: &Path) -> std::io::Result<(PathBuf, File)> {
    let mut number = 0;
    loop {
        let mut beside = target.as_os_str().to_owned();
        beside.push(format!(".{}-{number}.part", std::process::id()));
        match File::create_new(&beside) {
            // From a killed process with the same id.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            created => return Ok((beside.into(), created?)),
        }
    }
}
