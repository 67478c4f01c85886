//! Compresses and decompresses chunks; zstd contexts are reused.

use bzip2::{Action, Compress, Compression, Decompress, Status};
use xxhash_rust::xxh3::xxh3_64;
use zstd_safe::{CCtx, CParameter, DCtx, ResetDirective, get_error_name};

use super::header::Container;
use crate::codec::CodecError;

const ZSTD: &str = "zstd";
const BZIP2: &str = "bzip2";
/// Memory for compressing a block of 900,000 bytes (7600 kB according to bzip2's manual).
const BZIP2_CONTEXT: usize = 7_600_000;

/// XXH3 of compressed bytes, as stored in a chunk header.
pub fn checksum(packed: &[u8]) -> u64 {
    xxh3_64(packed)
}

/// Compresses chunks; each thread has its own.
pub enum ChunkCompressor {
    /// zstd frames with content size and checksum.
    Zstd(CCtx<'static>),
    /// bzip2 streams with the largest block size.
    Bzip2,
}

impl ChunkCompressor {
    /// Creates a zstd compressor.
    pub fn zstd(level: i32) -> Result<Self, CodecError> {
        let mut context = CCtx::try_create().ok_or(CodecError::OutOfMemory { codec: ZSTD })?;
        let mut parameters = vec![
            CParameter::CompressionLevel(level),
            CParameter::ChecksumFlag(true),
        ];
        if level == 1 {
            // Memory repeats in words of eight bytes. A minimum match of seven, not the level's
            // six, takes 0.86 of the time and 0.99 to 1.01 of the size.
            parameters.push(CParameter::MinMatch(7));
        }
        for parameter in parameters {
            context.set_parameter(parameter).map_err(zstd_error)?;
        }
        Ok(Self::Zstd(context))
    }

    /// Maximum compressed size of `len` bytes.
    pub fn bound(&self, len: usize) -> usize {
        match self {
            Self::Zstd(_) => zstd_safe::compress_bound(len),
            // BZ2_bzBuffToBuffCompress in bzip2's manual.
            Self::Bzip2 => len + len / 100 + 600,
        }
    }

    /// Compresses `bytes` into the front of `out`, which has at least [`bound`](Self::bound)
    /// bytes, and returns the size.
    pub fn compress(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<usize, CodecError> {
        match self {
            Self::Zstd(context) => context.compress2(out, bytes).map_err(zstd_error),
            Self::Bzip2 => {
                // A work factor of 30 is the library's default.
                let mut context = Compress::new(Compression::best(), 30);
                loop {
                    let (read, written) = (context.total_in(), context.total_out());
                    let left = &mut out[written as usize..];
                    match context.compress(&bytes[read as usize..], left, Action::Finish) {
                        Ok(Status::StreamEnd) => return Ok(context.total_out() as usize),
                        Ok(_) if context.total_out() > written => {}
                        Ok(_) => return Err(bzip2_error("no room")),
                        Err(error) => return Err(bzip2_error(&error.to_string())),
                    }
                }
            }
        }
    }

    /// Memory of the context, in bytes.
    pub fn context_bytes(&self) -> usize {
        match self {
            Self::Zstd(context) => context.sizeof(),
            Self::Bzip2 => BZIP2_CONTEXT,
        }
    }
}

/// Decompresses chunks; each thread has its own.
pub enum ChunkDecompressor {
    /// zstd frames.
    Zstd(DCtx<'static>),
    /// bzip2 streams.
    Bzip2,
}

impl ChunkDecompressor {
    /// Creates a decompressor for chunks of `container`.
    pub fn new(container: Container) -> Result<Self, CodecError> {
        match container {
            Container::Zstd => DCtx::try_create()
                .map(Self::Zstd)
                .ok_or(CodecError::OutOfMemory { codec: ZSTD }),
            Container::Bzip2 => Ok(Self::Bzip2),
        }
    }

    /// Decompresses `packed` into `out`, which it must fill exactly.
    pub fn decompress(&mut self, packed: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
        let room = out.len();
        let (codec, len) = match self {
            Self::Zstd(context) => {
                let _ = context.reset(ResetDirective::SessionOnly);
                (ZSTD, context.decompress(out, packed).map_err(zstd_error)?)
            }
            Self::Bzip2 => (BZIP2, bunzip2(packed, out)?),
        };
        if len == room {
            Ok(())
        } else {
            Err(CodecError::Damaged {
                codec,
                reason: format!("{len} bytes, expected {room}"),
            })
        }
    }
}

/// Decompresses the single stream in `packed` into the front of `out`.
fn bunzip2(packed: &[u8], out: &mut [u8]) -> Result<usize, CodecError> {
    let mut stream = Bunzip2::new();
    let room = out.len();
    let done = stream.go_on(packed, out)?;
    match done {
        true if stream.read() == packed.len() as u64 => Ok(stream.written() as usize),
        true => Err(bzip2_error("bytes after the end of the stream")),
        false if stream.written() == room as u64 => Err(CodecError::TooLong { codec: BZIP2, room }),
        false => Err(bzip2_error("the stream is cut off")),
    }
}

/// Incremental decoder of one bzip2 stream.
pub struct Bunzip2(Decompress);

impl Bunzip2 {
    /// Starts a new stream.
    pub fn new() -> Self {
        Self(Decompress::new(false))
    }

    /// Feeds more of the stream, and appends its data to `out`, which fills up over all calls.
    /// Returns true if the stream ended; otherwise it needs more input, or `out` is full.
    pub fn go_on(&mut self, mut packed: &[u8], out: &mut [u8]) -> Result<bool, CodecError> {
        loop {
            let (read, written) = (self.read(), self.written());
            let left = out.get_mut(written as usize..).unwrap_or_default();
            let status = self.0.decompress(packed, left);
            packed = &packed[(self.read() - read) as usize..];
            match status {
                Ok(Status::StreamEnd) => return Ok(true),
                Ok(_) if self.read() > read || self.written() > written => {}
                Ok(_) => return Ok(false),
                Err(error) => return Err(bzip2_error(&error.to_string())),
            }
        }
    }

    /// Bytes of the stream read so far.
    pub fn read(&self) -> u64 {
        self.0.total_in()
    }

    /// Bytes of data written so far.
    pub fn written(&self) -> u64 {
        self.0.total_out()
    }
}

impl Default for Bunzip2 {
    fn default() -> Self {
        Self::new()
    }
}

fn zstd_error(code: usize) -> CodecError {
    CodecError::Damaged {
        codec: ZSTD,
        reason: get_error_name(code).to_lowercase(),
    }
}

fn bzip2_error(reason: &str) -> CodecError {
    CodecError::Damaged {
        codec: BZIP2,
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_round_trip_at_their_exact_length_only() {
        let bytes: Vec<u8> = (0..300_000_u32)
            .map(|n| (n.wrapping_mul(n) >> 11) as u8)
            .collect();
        for (container, mut compressor) in [
            (Container::Zstd, ChunkCompressor::zstd(1).unwrap()),
            (Container::Bzip2, ChunkCompressor::Bzip2),
        ] {
            for bytes in [&bytes[..], &bytes[..1], &[0; 70_000]] {
                let mut packed = vec![0; compressor.bound(bytes.len())];
                let len = compressor.compress(bytes, &mut packed).unwrap();
                let mut decompressor = ChunkDecompressor::new(container).unwrap();
                let mut out = vec![1; bytes.len()];
                decompressor.decompress(&packed[..len], &mut out).unwrap();
                assert!(out == bytes);
                for wrong in [bytes.len() - 1, bytes.len() + 1] {
                    let mut out = vec![1; wrong];
                    assert!(decompressor.decompress(&packed[..len], &mut out).is_err());
                }
                let mut cut = vec![1; bytes.len()];
                assert!(
                    decompressor
                        .decompress(&packed[..len - 1], &mut cut)
                        .is_err()
                );
            }
        }
    }
}
