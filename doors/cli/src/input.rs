//! Files of RDF: their syntax and compression, and how much of them has been read.

use anyhow::{Context, bail};
use flate2::read::MultiGzDecoder;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vicus_rdf::load::{Source, Syntax};

/// The bytes of all files, and how many of them have been read.
#[derive(Default)]
pub(crate) struct Reading {
    /// 0 if it is unknown, as for a pipe.
    pub(crate) total: u64,
    pub(crate) done: Arc<AtomicU64>,
}

/// Opens files: N-Triples or Turtle by their endings, with `.gz` or without. `-` is standard input, in N-Triples unless
/// `syntax` is given.
pub(crate) fn open(files: &[impl AsRef<OsStr>], syntax: Option<Syntax>) -> anyhow::Result<(Vec<Source>, Reading)> {
    let mut reading = Reading::default();
    let open = |name: &_| open_one(AsRef::as_ref(name), syntax, &mut reading);
    let sources = files.iter().map(open).collect::<anyhow::Result<_>>()?;
    Ok((sources, reading))
}

fn open_one(path: &OsStr, syntax: Option<Syntax>, reading: &mut Reading) -> anyhow::Result<Source> {
    // A file name may be any bytes; messages show the parts that are text.
    let (name, path) = (path.to_string_lossy(), Path::new(path));
    if name == "-" {
        let reader = Counted { inner: std::io::stdin(), done: Arc::clone(&reading.done) };
        return Ok(Source::new("standard input", syntax.unwrap_or(Syntax::NTriples), reader));
    }
    if name.is_empty() {
        bail!("a data file's name is empty");
    }
    let lower = name.to_lowercase();
    let (plain, compressed) = lower.strip_suffix(".gz").map_or((&*lower, false), |plain| (plain, true));
    let by_ending = match plain.rsplit_once('.') {
        Some((_, "nt")) => Some(Syntax::NTriples),
        Some((_, "ttl")) => Some(Syntax::Turtle),
        _ => None,
    };
    let Some(syntax) = syntax.or(by_ending) else {
        bail!(
            "{name}: the ending says no syntax that can be read; expected .nt or .ttl, .gz behind it or not, or --syntax"
        )
    };
    let file = File::open(path).with_context(|| format!("{name}: can't be opened"))?;
    let about = file.metadata().with_context(|| format!("{name}: can't be read"))?;
    if about.is_dir() {
        bail!("{name}: is a folder; expected a file");
    }
    reading.total += about.len();
    let counted = Counted { inner: file, done: Arc::clone(&reading.done) };
    let reader: Box<dyn Read + Send> = if compressed {
        // Several gzip members in sequence are one text.
        Box::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 18, counted)))
    } else {
        Box::new(counted)
    };
    let base = base_of(path).with_context(|| format!("{name}: its place in the file system can't be found"))?;
    Ok(Source { name: name.into_owned(), syntax, base: Some(base), reader })
}

/// The file's IRI, which is the base of relative IRIs in it (RFC 3986, §5.1.3).
fn base_of(path: &Path) -> std::io::Result<String> {
    let mut base = "file://".to_owned();
    // A pipe of the shell, `<(command)`, has a name that can't be resolved.
    let place = path.canonicalize().or_else(|_| std::path::absolute(path))?;
    for byte in place.to_string_lossy().bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => base.push(char::from(byte)),
            _ => base.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(base)
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
