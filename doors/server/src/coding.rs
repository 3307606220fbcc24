//! How a body is packed: gzip, Zstandard, or not at all.

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use std::io::{self, Read, Write};
use vicus_service::StreamWriter;

/// A content coding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Coding {
    Identity,
    Gzip,
    Zstd,
}

/// Fast ones: a client waits for it.
const GZIP_LEVEL: u32 = 2;
const ZSTD_LEVEL: i32 = 1;

impl Coding {
    /// Its name in `Content-Encoding`; none for an unpacked body.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Coding::Identity => None,
            Coding::Gzip => Some("gzip"),
            Coding::Zstd => Some("zstd"),
        }
    }

    /// The coding of a name.
    pub(crate) fn of(name: &str) -> Option<Coding> {
        Some(match name.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Coding::Identity,
            "gzip" | "x-gzip" => Coding::Gzip,
            "zstd" => Coding::Zstd,
            _ => return None,
        })
    }

    /// Packs a whole body.
    pub(crate) fn pack(self, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        match self {
            Coding::Identity => Ok(bytes),
            Coding::Gzip => {
                let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::new(GZIP_LEVEL));
                encoder.write_all(&bytes)?;
                encoder.finish()
            }
            Coding::Zstd => zstd::encode_all(&*bytes, ZSTD_LEVEL),
        }
    }

    /// The reader of a packed body.
    pub(crate) fn unpack(self, bytes: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Coding::Identity => Box::new(bytes),
            Coding::Gzip => Box::new(MultiGzDecoder::new(bytes)),
            Coding::Zstd => {
                let mut decoder = zstd::Decoder::new(bytes)?;
                // A small body must not ask for much memory.
                decoder.window_log_max(23)?;
                Box::new(decoder)
            }
        })
    }
}

/// Packs a text on its way into a stream.
pub(crate) enum Packer {
    Identity(StreamWriter),
    Gzip(Box<GzEncoder<StreamWriter>>),
    Zstd(Box<zstd::Encoder<'static, StreamWriter>>),
}

impl Packer {
    pub(crate) fn new(coding: Coding, writer: StreamWriter) -> io::Result<Packer> {
        Ok(match coding {
            Coding::Identity => Packer::Identity(writer),
            Coding::Gzip => Packer::Gzip(Box::new(GzEncoder::new(writer, Compression::new(GZIP_LEVEL)))),
            Coding::Zstd => Packer::Zstd(Box::new(zstd::Encoder::new(writer, ZSTD_LEVEL)?)),
        })
    }

    /// The text has come to its end, and so has the stream.
    pub(crate) fn end(self) -> io::Result<()> {
        let writer = match self {
            Packer::Identity(writer) => writer,
            Packer::Gzip(encoder) => encoder.finish()?,
            Packer::Zstd(encoder) => encoder.finish()?,
        };
        writer.end();
        Ok(())
    }
}

impl Write for Packer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Packer::Identity(writer) => writer.write(bytes),
            Packer::Gzip(encoder) => encoder.write(bytes),
            Packer::Zstd(encoder) => encoder.write(bytes),
        }
    }

    /// Lets a client unpack everything written so far.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Packer::Identity(writer) => writer.flush(),
            Packer::Gzip(encoder) => encoder.flush(),
            Packer::Zstd(encoder) => encoder.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_is_unpacked() {
        let text: Vec<u8> = (0..100_000u32).flat_map(|number| number.to_string().into_bytes()).collect();
        for coding in [Coding::Identity, Coding::Gzip, Coding::Zstd] {
            let packed = coding.pack(text.clone()).unwrap();
            let mut unpacked = Vec::new();
            coding.unpack(io::Cursor::new(packed)).unwrap().read_to_end(&mut unpacked).unwrap();
            assert!(unpacked == text, "{coding:?}");
        }
    }
}
