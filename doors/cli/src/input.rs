//! Files of RDF, and how much of them has been read.

use anyhow::{Context, bail};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vicus_service::data::{LoadSource, Syntax};
use vicus_service::{file_iri, syntax_by_ending, unpacked};

/// The bytes of all files, and how many of them have been read.
#[derive(Default)]
pub(crate) struct Reading {
    /// 0 if it is unknown, as for a pipe.
    pub(crate) total: u64,
    pub(crate) done: Arc<AtomicU64>,
}

/// Opens files. Their endings name the syntax, unless `syntax` is given; their first bytes tell the packing, or else
/// their endings do. `-` is standard input, in N-Triples unless `syntax` is given.
pub(crate) fn open(files: &[impl AsRef<OsStr>], syntax: Option<Syntax>) -> anyhow::Result<(Vec<LoadSource>, Reading)> {
    let mut reading = Reading::default();
    let open = |name: &_| open_one(AsRef::as_ref(name), syntax, &mut reading);
    let sources = files.iter().map(open).collect::<anyhow::Result<_>>()?;
    Ok((sources, reading))
}

fn open_one(path: &OsStr, syntax: Option<Syntax>, reading: &mut Reading) -> anyhow::Result<LoadSource> {
    // A file name may be any bytes; messages show its text parts.
    let (name, path) = (path.to_string_lossy(), Path::new(path));
    if name == "-" {
        let counted = Counted { inner: std::io::stdin(), done: Arc::clone(&reading.done) };
        return Ok(LoadSource::new("standard input", syntax.unwrap_or(Syntax::NTriples), unpacked(counted, "")));
    }
    if name.is_empty() {
        bail!("a data file's name is empty");
    }
    let is_of_the_web = ["http://", "https://"].iter().any(|scheme| name.starts_with(scheme));
    if is_of_the_web && !path.exists() {
        bail!("{name}: files of the web aren't read: load it in an update, `LOAD <{name}>`, with --allow-service");
    }
    if path.is_dir() {
        bail!("{name}: is a folder; expected a file");
    }
    let Some(syntax) = syntax.or_else(|| syntax_by_ending(&name)) else {
        bail!(
            "{name}: the ending says no syntax that can be read; expected .nt, .nq, .ttl, .trig, .rdf, .xml, .owl or \
                .jsonld, with .gz, .zst, .bz2 or .xz behind it or not, or --syntax"
        )
    };
    let file = File::open(path).with_context(|| format!("{name}: can't be opened"))?;
    let about = file.metadata().with_context(|| format!("{name}: can't be read"))?;
    reading.total += about.len();
    let counted = Counted { inner: file, done: Arc::clone(&reading.done) };
    let base = file_iri(path).with_context(|| format!("{name}: its place in the file system can't be found"))?;
    let bytes = unpacked(counted, &name);
    Ok(LoadSource::new(name.into_owned(), syntax, bytes).with_base(base))
}

/// Counts the bytes read from a file, before they are unpacked.
struct Counted<R> {
    inner: R,
    done: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.done.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
