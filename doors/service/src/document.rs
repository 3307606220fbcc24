//! Documents of RDF: their syntax and packing, and the documents that LOAD may read.

use crate::cancel::Cancel;
use crate::web::{Web, WebError};
use flate2::read::MultiGzDecoder;
use oxiri::Iri;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use vicus::BoxError;
use vicus_rdf::load::{LoadSource, Syntax};

/// The syntax named by a file's ending, with `.gz`, `.zst`, `.bz2` or `.xz` behind it or not.
///
/// ```
/// use vicus_rdf::load::Syntax;
/// assert_eq!(vicus_service::syntax_by_ending("people.TTL.gz"), Some(Syntax::Turtle));
/// assert_eq!(vicus_service::syntax_by_ending("people.txt"), None);
/// ```
pub fn syntax_by_ending(name: &str) -> Option<Syntax> {
    by_ending(name).0
}

/// The unpacked bytes. The first bytes tell the packing (gzip, Zstandard, bzip2, xz or none), or else the name does.
pub fn unpacked(bytes: impl Read + Send + 'static, name: &str) -> impl Read + Send + 'static {
    Unpacked::new(bytes, by_ending(name).1)
}

/// How a file is packed.
#[derive(Clone, Copy)]
enum Packing {
    Gzip,
    Zstd,
    Bzip2,
    Xz,
}

/// The syntax and the packing named by a file's endings.
fn by_ending(name: &str) -> (Option<Syntax>, Option<Packing>) {
    let lower = name.to_lowercase();
    let endings = [(".gz", Packing::Gzip), (".zst", Packing::Zstd), (".bz2", Packing::Bzip2), (".xz", Packing::Xz)];
    let packed = endings.into_iter().find_map(|(ending, packing)| Some((lower.strip_suffix(ending)?, Some(packing))));
    let (plain, packing) = packed.unwrap_or((&*lower, None));
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

/// A file unpacked while it is read. Its first bytes are read with the first call, not before, because a pipe may be
/// slow.
struct Unpacked {
    packed: Option<Box<dyn Read + Send>>,
    /// The packing named by its ending.
    packing: Option<Packing>,
    unpacked: Option<Box<dyn Read + Send>>,
}

/// The first bytes of gzip (RFC 1952, §2.3.1), of Zstandard (RFC 8878, §3.1.1), of bzip2 (`BZh`, a digit, and the first
/// of a block or of the end), and of xz ("The .xz File Format" 1.2.1, §2.1.1.1).
const GZIP: [u8; 2] = [0x1F, 0x8B];
const ZSTD: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
const XZ: [u8; 6] = [0xFD, b'7', b'z', b'X', b'Z', 0];
/// The longest of them.
const LONGEST: usize = 6;

fn by_first(first: &[u8]) -> Option<Packing> {
    match first {
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31 | 0x17, ..] => Some(Packing::Bzip2),
        _ if first.starts_with(&GZIP) => Some(Packing::Gzip),
        _ if first.starts_with(&ZSTD) => Some(Packing::Zstd),
        _ if first.starts_with(&XZ) => Some(Packing::Xz),
        _ => None,
    }
}

/// A packed file is read in pieces of this size.
const PACKED_BYTES: usize = 1 << 18;

impl Unpacked {
    fn new(packed: impl Read + Send + 'static, packing: Option<Packing>) -> Unpacked {
        Unpacked { packed: Some(Box::new(packed)), packing, unpacked: None }
    }

    /// The reader of the file, chosen by its first bytes, or else by its name.
    fn begin(mut packed: Box<dyn Read + Send>, by_name: Option<Packing>) -> io::Result<Box<dyn Read + Send>> {
        let mut first = Vec::with_capacity(LONGEST);
        packed.by_ref().take(LONGEST as u64).read_to_end(&mut first)?;
        let packing = by_first(&first).or(by_name);
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
            // Several streams in sequence are one text in these as well.
            Some(Packing::Bzip2) => {
                Box::new(bzip2::bufread::MultiBzDecoder::new(BufReader::with_capacity(PACKED_BYTES, whole)))
            }
            Some(Packing::Xz) => {
                let buffered = BufReader::with_capacity(PACKED_BYTES, whole);
                Box::new(lzma_rust2::XzReader::new_mem_limit(buffered, true, XZ_MEMORY_KIB))
            }
            None => Box::new(whole),
        })
    }
}

/// Up to 128 MiB, as `zstd` itself allows by default.
const ZSTD_WINDOW_LOG: u32 = 27;

/// A dictionary of 128 MiB and the decoder's other memory: `xz -9` has 64 MiB.
const XZ_MEMORY_KIB: u32 = (128 << 10) + 4096;

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
pub fn file_iri(path: &Path) -> io::Result<String> {
    let mut base = "file://".to_owned();
    // A pipe of the shell, `<(command)`, has a name without a canonical path.
    let place = path.canonicalize().or_else(|_| std::path::absolute(path))?;
    for byte in place.to_string_lossy().bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => base.push(char::from(byte)),
            _ => base.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(base)
}

/// A document at hand, for LOAD: one text, or several loaded together.
pub struct Document {
    iri: String,
    parts: Mutex<Option<Vec<Part>>>,
}

impl Document {
    /// A document for LOAD to read once, by this IRI, in a syntax. `base` is the base of its relative IRIs.
    pub fn new(iri: String, syntax: Syntax, base: Option<String>, bytes: impl Read + Send + 'static) -> Arc<Document> {
        Document::of_parts(iri, base, vec![(syntax, Box::new(bytes))])
    }

    /// A document of several texts. Blank nodes of two texts are different ones, under any label.
    pub fn of_parts(iri: String, base: Option<String>, parts: Vec<(Syntax, Box<dyn Read + Send>)>) -> Arc<Document> {
        let parts = parts.into_iter().map(|(syntax, bytes)| Part { syntax, base: base.clone(), bytes }).collect();
        Arc::new(Document { iri, parts: Mutex::new(Some(parts)) })
    }

    pub(crate) fn iri(&self) -> &str {
        &self.iri
    }

    pub(crate) fn open<R: Read + Send + 'static>(
        &self,
        book: impl Fn(Box<dyn Read + Send>) -> R,
    ) -> Result<Vec<LoadSource>, BoxError> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner).take();
        let parts = parts.ok_or_else(|| format!("<{}> can be read once", self.iri))?;
        let several = parts.len() > 1;
        let source = |(number, Part { syntax, base, bytes }): (usize, Part)| {
            let name = if several { format!("part {} of the document", number + 1) } else { "the document".to_owned() };
            let source = LoadSource::new(name, syntax, book(bytes));
            match base {
                Some(base) => source.with_base(base),
                None => source,
            }
        };
        Ok(parts.into_iter().enumerate().map(source).collect())
    }
}

/// A text of a [`Document`].
struct Part {
    syntax: Syntax,
    base: Option<String>,
    bytes: Box<dyn Read + Send>,
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document").field("iri", &self.iri).finish_non_exhaustive()
    }
}

/// Ends a document of the web that is too long when it is unpacked, however short it was before.
struct Bounded<R> {
    inner: R,
    left: u64,
    most: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => return Err(io::Error::other(WebError::TooManyBytes { most: self.most })),
        }
        Ok(count)
    }
}

/// LOAD names a file it may not read: there is no folder for it, or the file is not within that folder.
#[derive(Debug)]
pub struct FileNotPermitted {
    url: String,
    why: &'static str,
}

impl fmt::Display for FileNotPermitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.url, self.why)
    }
}

impl Error for FileNotPermitted {}

/// LOAD names a document of the web that could not be fetched.
#[derive(Debug)]
pub struct DocumentFailed {
    /// Its URL, as LOAD names it.
    pub url: String,
    /// Why.
    pub error: WebError,
}

impl fmt::Display for DocumentFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            // These name their URL.
            error @ (WebError::NotPermitted { .. } | WebError::WrongUrl { .. }) => error.fmt(f),
            error => write!(f, "<{}>: {error}", self.url),
        }
    }
}

// Without a source: its text contains its error's text.
impl Error for DocumentFailed {}

/// Opens the document named by LOAD: an `http` or `https` URL under the web's permits, or a `file` URL within a folder.
/// All bytes read go through `book`.
pub(crate) fn open<R: Read + Send + 'static>(
    iri: &str,
    web: &Web,
    folder: Option<&Path>,
    cancel: &Cancel,
    until: Option<Instant>,
    book: impl FnOnce(Box<dyn Read + Send>) -> R,
) -> Result<LoadSource, BoxError> {
    let parsed = Iri::parse(iri)?;
    if !parsed.scheme().eq_ignore_ascii_case("file") {
        let cancel = cancel.clone();
        let stopped = move || cancel.is_cancelled() || until.is_some_and(|until| Instant::now() >= until);
        let failed = |error| DocumentFailed { url: iri.to_owned(), error };
        let document = web.fetch(iri, stopped).map_err(failed)?;
        let syntax = document.media_type.as_deref().and_then(syntax_by_media_type).or_else(|| by_path(&document.url));
        let Some(syntax) = syntax else {
            return Err(failed(WebError::NoSyntax { media_type: document.media_type }).into());
        };
        let name = parsed.path().to_owned();
        let (most, inner) = (web.most_bytes(), unpacked(document.bytes, &name));
        let bytes = book(Box::new(Bounded { inner, left: most, most }));
        return Ok(LoadSource::new(iri.to_owned(), syntax, bytes).with_base(document.url));
    }
    let refusal = |why| FileNotPermitted { url: iri.to_owned(), why };
    let Some(folder) = folder else { return Err(refusal("reading files is not permitted").into()) };
    if parsed.authority().is_some_and(|host| !host.is_empty() && !host.eq_ignore_ascii_case("localhost")) {
        return Err(format!("{iri}: is a file of another machine").into());
    }
    let path = PathBuf::from(unescaped(parsed.path())?);
    // Links may lead anywhere, so their targets count.
    let outside = || BoxError::from(refusal("is not within the folder that may be read"));
    let folder =
        folder.canonicalize().map_err(|error| format!("the folder that may be read can't be found: {error}"))?;
    let path = path.canonicalize().map_err(|error| match path.starts_with(&folder) {
        true => format!("{iri}: can't be opened: {error}").into(),
        false => outside(),
    })?;
    if !path.starts_with(&folder) {
        return Err(outside());
    }
    let Some(syntax) = by_path(iri) else {
        return Err(format!("{iri}: the ending says no syntax that can be read").into());
    };
    let refused = |error: io::Error| format!("{iri}: can't be opened: {error}");
    // A pipe is not even opened: opening would wait until another process writes to it.
    if !path.metadata().map_err(refused)?.is_file() {
        return Err(format!("{iri}: is no file").into());
    }
    let file = File::open(&path).map_err(refused)?;
    Ok(LoadSource::new(iri.to_owned(), syntax, book(Box::new(unpacked(file, parsed.path())))).with_base(iri))
}

/// The syntax named by the ending of a URL's path.
fn by_path(url: &str) -> Option<Syntax> {
    syntax_by_ending(Iri::parse(url).ok()?.path())
}

/// The requested media types.
pub(crate) const RDF: &str = "text/turtle, application/n-triples, application/n-quads, application/trig, \
    application/rdf+xml;q=0.9, \
                              application/ld+json;q=0.8";

/// The syntax named by a media type; its parameters don't matter.
///
/// ```
/// use vicus_rdf::load::Syntax;
/// assert_eq!(vicus_service::syntax_by_media_type("Text/Turtle; charset=utf-8"), Some(Syntax::Turtle));
/// assert_eq!(vicus_service::syntax_by_media_type("text/html"), None);
/// ```
pub fn syntax_by_media_type(media_type: &str) -> Option<Syntax> {
    Some(match media_type.split(';').next()?.trim().to_ascii_lowercase().as_str() {
        "text/turtle" | "application/x-turtle" => Syntax::Turtle,
        "application/n-triples" => Syntax::NTriples,
        "application/n-quads" => Syntax::NQuads,
        "application/trig" => Syntax::TriG,
        "application/rdf+xml" => Syntax::RdfXml,
        "application/ld+json" => Syntax::JsonLd,
        _ => return None,
    })
}

/// An IRI's path without its escapes.
fn unescaped(path: &str) -> Result<String, BoxError> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16)).expect("an IRI was parsed");
        bytes.push(if byte == b'%' { (digit() * 16 + digit()) as u8 } else { byte });
    }
    String::from_utf8(bytes).map_err(|_| format!("`{path}` is no UTF-8").into())
}

#[cfg(test)]
mod packing {
    use super::*;

    /// By Python's bz2: two streams.
    const BZ2: [u8; 110] = [
        66, 90, 104, 57, 49, 65, 89, 38, 83, 89, 111, 128, 198, 164, 0, 0, 5, 89, 128, 0, 16, 64, 1, 0, 21, 32, 0, 200,
        0, 32, 0, 34, 61, 64, 26, 16, 3, 8, 178, 112, 118, 173, 228, 132, 120, 187, 146, 41, 194, 132, 131, 124, 6, 53,
        32, 66, 90, 104, 57, 49, 65, 89, 38, 83, 89, 31, 85, 131, 55, 0, 0, 5, 89, 128, 0, 16, 64, 1, 0, 21, 32, 0,
        104, 0, 32, 0, 34, 61, 64, 26, 16, 3, 8, 178, 112, 118, 174, 73, 8, 241, 119, 36, 83, 133, 9, 1, 245, 88, 51,
        112,
    ];
    /// By Python's lzma: two streams.
    const LZMA: [u8; 160] = [
        253, 55, 122, 88, 90, 0, 0, 4, 230, 214, 180, 70, 2, 0, 33, 1, 22, 0, 0, 0, 116, 47, 229, 163, 224, 0, 19, 0,
        18, 93, 0, 30, 24, 67, 71, 101, 65, 222, 142, 90, 123, 227, 98, 171, 213, 215, 169, 144, 0, 0, 0, 0, 101, 144,
        25, 5, 2, 162, 15, 187, 0, 1, 46, 20, 122, 104, 91, 49, 31, 182, 243, 125, 1, 0, 0, 0, 0, 4, 89, 90, 253, 55,
        122, 88, 90, 0, 0, 4, 230, 214, 180, 70, 2, 0, 33, 1, 22, 0, 0, 0, 116, 47, 229, 163, 224, 0, 19, 0, 18, 93, 0,
        30, 24, 67, 71, 101, 65, 222, 142, 90, 123, 227, 122, 15, 110, 254, 12, 76, 0, 0, 0, 0, 165, 44, 218, 179, 238,
        224, 62, 27, 0, 1, 46, 20, 122, 104, 91, 49, 31, 182, 243, 125, 1, 0, 0, 0, 0, 4, 89, 90,
    ];

    fn text(bytes: &'static [u8], name: &str) -> io::Result<String> {
        let mut text = String::new();
        unpacked(bytes, name).read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn bzip2_and_xz_are_unpacked_whatever_the_name_says() {
        for (packed, name) in [(&BZ2[..], "dump.nt.bz2"), (&LZMA, "dump.nt.xz"), (&BZ2, "-"), (&LZMA, "dump.nt")] {
            assert_eq!(text(packed, name).unwrap(), "<a:s> <a:p> <a:o> .\n<a:s> <a:p> <a:q> .\n", "{name}");
            // A truncated file is reported.
            assert!(text(&packed[..packed.len() - 5], name).is_err(), "{name}");
        }
        for name in ["a.nt.bz2", "a.NT.XZ", "a.nt.gz", "a.nt.zst", "a.nt"] {
            assert_eq!(syntax_by_ending(name), Some(Syntax::NTriples), "{name}");
        }
        // Plain text that begins like bzip2.
        assert_eq!(text(b"BZh9 is a word", "-").unwrap(), "BZh9 is a word");
    }
}
