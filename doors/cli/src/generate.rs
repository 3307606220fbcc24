//! `vicus generate`: test data. The same seed gives the same bytes on every machine.

mod sp2b;

use crate::bench::shop;
use crate::progress::style;
use crate::tell::tell;
use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;
use indicatif::ProgressBar;
use sp2b::Syntax;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Write test data.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// RDF shaped like the DBLP bibliography, for the queries of SP2Bench.
    Sp2b(Sp2b),
    /// RDF shaped like the Berlin SPARQL Benchmark's shop: products, offers, reviews. For the queries in
    /// doors/cli/queries/shop.
    Shop(Shop),
}

#[derive(clap::Args)]
struct Sp2b {
    /// About how many triples. The file ends with the document that reaches this number; a smaller file of the same
    /// seed is the beginning of a larger one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    triples: u64,
    /// One seed always gives the same bytes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The file to write: FILE.nt or FILE.ttl, with .gz appended to compress it.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

#[derive(clap::Args)]
struct Shop {
    /// How many products; each has about 66 triples.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    products: u64,
    /// One seed always gives the same bytes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The file to write: FILE.nt or FILE.ttl, with .gz appended to compress it.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let (triples, output) = match &args.what {
        What::Sp2b(args) => (sp2b_file(&args.output, args.triples, args.seed)?, &args.output),
        What::Shop(args) => (shop_file(args)?, &args.output),
    };
    tell(format_args!("{triples} triples in {}", output.display()));
    Ok(())
}

/// Writes a shop; returns its number of triples.
fn shop_file(args: &Shop) -> anyhow::Result<u64> {
    // N-Triples are valid Turtle.
    let (_, compressed) = by_ending(&args.output)?;
    let text = shop::triples(args.products, args.seed) + &shop::prices_and_ratings(args.products, args.seed);
    let cannot_write = || format!("{}: can't be written", args.output.display());
    let mut file = File::create(&args.output).with_context(cannot_write)?;
    let written = if compressed {
        let mut gzip = GzEncoder::new(file, Compression::default());
        gzip.write_all(text.as_bytes()).and_then(|()| gzip.finish()?.flush())
    } else {
        file.write_all(text.as_bytes())
    };
    written.with_context(cannot_write)?;
    Ok(text.lines().count() as u64)
}

/// Writes a bibliography, with a progress bar on a terminal; returns its number of triples.
pub(crate) fn sp2b_file(path: &Path, triples: u64, seed: u64) -> anyhow::Result<u64> {
    let (syntax, compressed) = by_ending(path)?;
    let cannot_write = || format!("{}: can't be written", path.display());
    let file = File::create(path).with_context(cannot_write)?;
    let bar = progress(triples);
    let written = if compressed {
        let mut gzip = GzEncoder::new(file, Compression::default());
        let written = sp2b::write(seed, triples, syntax, &mut gzip, &mut |done| bar.set_position(done));
        written.and_then(|triples| gzip.finish()?.flush().map(|()| triples))
    } else {
        sp2b::write(seed, triples, syntax, &mut &file, &mut |done| bar.set_position(done))
    };
    bar.finish_and_clear();
    written.with_context(cannot_write)
}

/// The triples as N-Triples in memory.
pub(crate) fn sp2b_text(triples: u64, seed: u64) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    sp2b::write(seed, triples, Syntax::NTriples, &mut text, &mut |_| ())?;
    Ok(text)
}

/// The syntax, and whether to compress.
fn by_ending(path: &Path) -> anyhow::Result<(Syntax, bool)> {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let (name, compressed) = name.strip_suffix(".gz").map_or((&*name, false), |name| (name, true));
    let syntax = match name.rsplit_once('.') {
        Some((_, "nt")) => Syntax::NTriples,
        Some((_, "ttl")) => Syntax::Turtle,
        _ => anyhow::bail!(
            "{}: the name must end in .nt (N-Triples), .ttl (Turtle), .nt.gz or .ttl.gz, to say what to write",
            path.display()
        ),
    };
    Ok((syntax, compressed))
}

/// A progress bar, drawn on a terminal only, and only if the work takes long enough.
fn progress(triples: u64) -> ProgressBar {
    if triples < 2_000_000 {
        return ProgressBar::hidden();
    }
    let style = style("{bar:40} {human_pos} of {human_len} triples{left}");
    ProgressBar::new(triples).with_style(style)
}
