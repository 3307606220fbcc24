//! Files of RDF: their syntax and compression, and how much of them has been read.

use anyhow::{Context, bail};
use flate2::read::MultiGzDecoder;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read};
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

/// Opens files. Their endings say which syntax they have, unless `syntax` is given; their first bytes say how they are packed, or else
/// their endings. `-` is standard input, in N-Triples unless `syntax` is given.
pub(crate) fn open(files: &[impl AsRef<OsStr>], syntax: Option<Syntax>) -> anyhow::Result<(Vec<Source>, Reading)> {
    let mut reading = Reading::default();
    let open = |name: &_| open_one(AsRef::as_ref(name), syntax, &mut reading);
    let sources = files.iter().map(open).collect::<anyhow::Result<_>>()?;
    Ok((sources, reading))
}

/// How a file is packed.
#[derive(Clone, Copy)]
enum Packing {
    Gzip,
    Zstd,
}

/// The syntax and the packing that a file's name says.
fn by_ending(name: &str) -> (Option<Syntax>, Option<Packing>) {
    let lower = name.to_lowercase();
    let (plain, packing) = match (lower.strip_suffix(".gz"), lower.strip_suffix(".zst")) {
        (Some(plain), _) => (plain, Some(Packing::Gzip)),
        (_, Some(plain)) => (plain, Some(Packing::Zstd)),
        (None, None) => (&*lower, None),
    };
    let syntax = match plain.rsplit_once('.') {
        Some((_, "nt")) => Some(Syntax::NTriples),
        Some((_, "nq")) => Some(Syntax::NQuads),
        Some((_, "ttl")) => Some(Syntax::Turtle),
        Some((_, "trig")) => Some(Syntax::TriG),
        Some((_, "rdf" | "xml" | "owl")) => Some(Syntax::RdfXml),
        Some((_, "jsonld")) => Some(Syntax::JsonLd),
        _ => None,
    };
    (syntax, packing)
}

fn open_one(path: &OsStr, syntax: Option<Syntax>, reading: &mut Reading) -> anyhow::Result<Source> {
    // A file name may be any bytes; messages show the parts that are text.
    let (name, path) = (path.to_string_lossy(), Path::new(path));
    if name == "-" {
        let counted = Counted { inner: std::io::stdin(), done: Arc::clone(&reading.done) };
        return Ok(Source::new("standard input", syntax.unwrap_or(Syntax::NTriples), Unpacked::new(counted, None)));
    }
    if name.is_empty() {
        bail!("a data file's name is empty");
    }
    let (by_ending, packing) = by_ending(&name);
    let Some(syntax) = syntax.or(by_ending) else {
        bail!(
            "{name}: the ending says no syntax that can be read; expected .nt, .nq, .ttl, .trig, .rdf, .xml, .owl or .jsonld, with .gz or .zst behind it or not, or --syntax"
        )
    };
    let file = File::open(path).with_context(|| format!("{name}: can't be opened"))?;
    let about = file.metadata().with_context(|| format!("{name}: can't be read"))?;
    if about.is_dir() {
        bail!("{name}: is a folder; expected a file");
    }
    reading.total += about.len();
    let counted = Counted { inner: file, done: Arc::clone(&reading.done) };
    let base = base_of(path).with_context(|| format!("{name}: its place in the file system can't be found"))?;
    Ok(Source::new(name.into_owned(), syntax, Unpacked::new(counted, packing)).with_base(base))
}

/// A file that is unpacked while it is read. Its first bytes are read with the first call, not before, because a pipe may be slow.
struct Unpacked {
    packed: Option<Box<dyn Read + Send>>,
    /// What its name says.
    packing: Option<Packing>,
    unpacked: Option<Box<dyn Read + Send>>,
}

/// The first bytes of gzip (RFC 1952, §2.3.1) and of Zstandard (RFC 8878, §3.1.1).
const GZIP: [u8; 2] = [0x1F, 0x8B];
const ZSTD: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// A packed file is read in pieces of this size.
const PACKED_BYTES: usize = 1 << 18;

impl Unpacked {
    fn new(packed: impl Read + Send + 'static, packing: Option<Packing>) -> Unpacked {
        Unpacked { packed: Some(Box::new(packed)), packing, unpacked: None }
    }

    /// What reads the file, as its first bytes say, or else its name.
    fn begin(mut packed: Box<dyn Read + Send>, by_name: Option<Packing>) -> io::Result<Box<dyn Read + Send>> {
        let mut first = Vec::with_capacity(ZSTD.len());
        packed.by_ref().take(ZSTD.len() as u64).read_to_end(&mut first)?;
        let packing = match (first.starts_with(&GZIP), first.starts_with(&ZSTD)) {
            (true, _) => Some(Packing::Gzip),
            (_, true) => Some(Packing::Zstd),
            (false, false) => by_name,
        };
        let whole = io::Cursor::new(first).chain(packed);
        Ok(match packing {
            // Several gzip members in sequence are one text.
            Some(Packing::Gzip) => Box::new(MultiGzDecoder::new(BufReader::with_capacity(PACKED_BYTES, whole))),
            Some(Packing::Zstd) => {
                // So are several frames. The window is bounded, so that a small file can't ask for much memory.
                let mut decoder = zstd::Decoder::with_buffer(BufReader::with_capacity(PACKED_BYTES, whole))?;
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                Box::new(decoder)
            }
            None => Box::new(whole),
        })
    }
}

/// Up to 128 MiB, as `zstd` itself allows by default.
const ZSTD_WINDOW_LOG: u32 = 27;

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(packed) = self.packed.take() {
            self.unpacked = Some(Unpacked::begin(packed, self.packing)?);
        }
        // After an error of the first bytes there is nothing.
        self.unpacked.as_mut().map_or(Ok(0), |unpacked| unpacked.read(buffer))
    }
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
