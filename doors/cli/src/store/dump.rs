//! `vicus dump`: the quads of a store as N-Quads or N-Triples.

use super::{read, show};
use anyhow::{Context, anyhow, bail, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use vicus_rdf::load::Syntax;
use vicus_rdf::{Id, Order, Snapshot};
use vicus_service::{graph_name, syntax_by_ending};

/// See `vicus dump --help`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the store. Another process may be writing to it.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// Only this graph; its triples are written without its name.
    #[arg(long, value_name = "IRI")]
    graph: Option<String>,
    /// The file to be written: .nq for all graphs, .nt for a graph, with .gz or .zst behind it or not; - is standard output, in nq.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

/// Where the quads go.
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

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let graph = args.graph.as_deref().map(graph_name).transpose().map_err(|error| anyhow!("--graph: {error}"))?;
    let name = args.output.to_string_lossy().into_owned();
    let is_stdout = name == "-";
    let with_graphs = match syntax_by_ending(&name) {
        _ if is_stdout => graph.is_none(),
        Some(Syntax::NQuads) => true,
        Some(Syntax::NTriples) => false,
        _ => bail!(
            "{name}: the ending says no syntax that can be written; expected .nq or .nt, with .gz or .zst behind it or not"
        ),
    };
    let dataset = read(&args.store)?;
    let snapshot = dataset.snapshot();
    let graph = match &graph {
        Some(name) => match snapshot.id(name.as_ref().into()) {
            Some(id) if snapshot.index(Order::Gspo).count(&[id]) > 0 => Some(id),
            _ => bail!("the store has no graph {name}"),
        },
        None => None,
    };
    ensure!(
        with_graphs || graph.is_some() || snapshot.graphs().len() == 0,
        "{name}: the store has named graphs, which .nt can't hold: choose one with --graph, or .nq"
    );
    let write = |output: Output| {
        let written = vicus_service::or_damaged(|| write(snapshot, graph, with_graphs, output));
        written.map_err(|error| anyhow!("store {}: {error}", args.store.display()))?
    };
    if is_stdout {
        return write(Output::Plain(Box::new(BufWriter::new(std::io::stdout().lock())))).map(drop);
    }
    let quads = to_file(write, &args.output, &name)?;
    show(&format!("{name}: {quads} quads\n"))
}

/// Writes beside the file and renames at the end: after an error, what was there before is still there.
fn to_file(write: impl FnOnce(Output) -> anyhow::Result<usize>, path: &Path, name: &str) -> anyhow::Result<usize> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    let cannot = || format!("{name}: can't be written");
    let file = File::create(&beside).with_context(cannot)?;
    let output = Output::new(Box::new(BufWriter::with_capacity(1 << 20, file)), name).with_context(cannot)?;
    let written = write(output).and_then(|quads| std::fs::rename(&beside, path).map(|()| quads).map_err(Into::into));
    if written.is_err() {
        // What is left of it is of no use.
        let _ = std::fs::remove_file(&beside);
    }
    written.with_context(cannot)
}

fn write(snapshot: &Snapshot, graph: Option<Id>, with_graphs: bool, mut output: Output) -> anyhow::Result<usize> {
    let index = snapshot.index(Order::Gspo);
    let rows = graph.map_or(0..index.len(), |graph| index.range(&[graph]));
    let quads = rows.len();
    let writer = output.writer();
    for row in rows {
        let [subject, predicate, object, graph] = index.quad(row);
        let with_graph = with_graphs && !graph.is_unbound();
        for (place, id) in
            [subject, predicate, object, graph].into_iter().take(if with_graph { 4 } else { 3 }).enumerate()
        {
            let before = if place == 0 { "" } else { " " };
            snapshot.view(id, |view| write!(writer, "{before}{view}"))?;
        }
        writer.write_all(b" .\n")?;
    }
    output.finish()?;
    Ok(quads)
}
