//! AVML's compressed format: memory ranges of at most 16 MiB, each a snappy stream in frames
//! (AVML's src/image.rs; snappy's framing_format.txt).

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use super::range_header::{HEADER_SIZE, Mark};
use super::{ImageRange, ImageRanges, with_cut_page};
use crate::address::PhysAddr;
use crate::bytes::{Endian, ReadAt};
use crate::error::FormatError;

const MARK: Mark = Mark {
    name: "AVML",
    magic: 0x4c4d_5641,
    version: 2,
};
/// The chunk at the start of each stream.
const STREAM_IDENTIFIER: &[u8; 10] = b"\xff\x06\0\0sNaPpY";
/// Type and length before each chunk.
const CHUNK_HEADER: u64 = 4;
/// The checksum at the start of a data chunk.
const CHECKSUM: u64 = 4;
/// Maximum size of a chunk's data.
const MAX_CHUNK: u64 = 64 << 10;
/// Maximum size of a compressed chunk: that of incompressible data.
const MAX_STORED: u64 = 32 + MAX_CHUNK + MAX_CHUNK / 6;
const COMPRESSED: u8 = 0;
const UNCOMPRESSED: u8 = 1;
/// Chunk types from here on can be skipped.
const FIRST_SKIPPABLE: u8 = 0x80;

/// Returns true if a file with these first bytes is an AVML image.
pub fn is_avml(front: &[u8]) -> bool {
    MARK.is_at(front)
}

/// A chunk of data.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    /// Offset of its first byte among the decompressed ones.
    start: u64,
    /// Offset of the chunk in the file.
    offset: u64,
    /// Size in the file, with the chunk's header.
    stored: u32,
    /// Size of the data.
    len: u32,
}

/// The decompressed bytes of all ranges of an AVML image, one after the other.
pub struct AvmlFile {
    file: Box<dyn ReadAt>,
    image: ImageRanges,
    /// In order of `start`, without gaps.
    chunks: Vec<Chunk>,
    size: u64,
    /// The chunk that was decompressed last.
    last: Mutex<Option<(usize, Arc<Vec<u8>>)>>,
}

impl AvmlFile {
    /// Reads the headers of the ranges and of the chunks.
    pub fn open(file: Box<dyn ReadAt>) -> Result<Self, FormatError> {
        let mut avml = Self {
            file,
            image: ImageRanges::default(),
            chunks: Vec::new(),
            size: 0,
            last: Mutex::new(None),
        };
        let mut at = 0;
        while let Some(next) = avml.read_range(at)? {
            at = next;
        }
        Ok(avml)
    }

    /// The ranges; their offsets are among the decompressed bytes.
    pub fn ranges(&self) -> &ImageRanges {
        &self.image
    }

    /// Reads the range at `at`; returns the offset of the next one.
    fn read_range(&mut self, at: u64) -> Result<Option<u64>, FormatError> {
        let end = self.file.size();
        if at == end {
            return Ok(None);
        }
        if at > 0 && end - at < HEADER_SIZE {
            self.image.cut(end);
            return Ok(None);
        }
        let (start, size) = MARK.read(self.file.as_ref(), at, self.image.ranges.len())?;
        let stream = at + HEADER_SIZE;
        let (present, mut at) = self.read_stream(stream, size)?;
        if present > 0 {
            self.image.ranges.push(ImageRange {
                physical: PhysAddr(start),
                size: with_cut_page(present, size),
                offset: self.size,
            });
            self.size += present;
        }
        if present < size || end - at < 8 {
            self.image.cut(end);
            return Ok(None);
        }
        let mut length = [0; 8];
        let what = "the length of a snappy stream";
        self.file.read_exact_at(what, at, &mut length)?;
        let found = u64::from_le_bytes(length);
        if found != at - stream {
            let expected = (at - stream).to_string();
            return Err(FormatError::unexpected(
                what,
                at,
                expected,
                found.to_string(),
            ));
        }
        at += 8;
        Ok(Some(at))
    }

    /// Reads the chunks of the stream at `at`, which has `size` bytes of data. Returns how many
    /// of them the file has, and the offset after the last chunk.
    fn read_stream(&mut self, mut at: u64, size: u64) -> Result<(u64, u64), FormatError> {
        let end = self.file.size();
        let mut done = 0;
        while done < size && end - at >= CHUNK_HEADER {
            let mut header = [0; 4];
            let what = "a snappy chunk";
            self.file.read_exact_at(what, at, &mut header)?;
            let kind = header[0];
            let stored = u64::from(Endian::Little.u32(&header, 0).unwrap_or_default() >> 8);
            let whole = CHUNK_HEADER + stored;
            if end - at < whole {
                break;
            }
            if kind == COMPRESSED || kind == UNCOMPRESSED {
                let len = self.data_len(kind, at, stored)?;
                if len == 0 || len > MAX_CHUNK.min(size - done) || stored > MAX_STORED {
                    return Err(FormatError::unexpected(
                        what,
                        at,
                        format!("1 to {} bytes of data", MAX_CHUNK.min(size - done)),
                        format!("{len} in {stored}"),
                    ));
                }
                self.push(Chunk {
                    start: self.size + done,
                    offset: at,
                    stored: whole as u32,
                    len: len as u32,
                })?;
                done += len;
            } else if kind < FIRST_SKIPPABLE {
                let expected = "a type of chunk that is defined";
                return Err(FormatError::unexpected(
                    what,
                    at,
                    expected,
                    kind.to_string(),
                ));
            }
            at += whole;
        }
        Ok((done, at))
    }

    /// Adds a chunk, within the memory limit.
    fn push(&mut self, chunk: Chunk) -> Result<(), FormatError> {
        if self.chunks.len() == self.chunks.capacity() {
            let more = (2 * self.chunks.len() + 1024) * size_of::<Chunk>();
            FormatError::check_memory("the index of the chunks", chunk.offset, more as u64)?;
        }
        self.chunks.push(chunk);
        Ok(())
    }

    /// Size of the data of the chunk at `at`, which is `stored` bytes after its header.
    fn data_len(&self, kind: u8, at: u64, stored: u64) -> Result<u64, FormatError> {
        if kind == UNCOMPRESSED {
            return Ok(stored.saturating_sub(CHECKSUM));
        }
        // A snappy block starts with its size, a varint of at most 5 bytes.
        let mut varint = [0; 5];
        let len = stored.saturating_sub(CHECKSUM).min(5) as usize;
        let start = at + CHUNK_HEADER + CHECKSUM;
        self.file
            .read_exact_at("a snappy chunk", start, &mut varint[..len])?;
        Ok(snap::raw::decompress_len(&varint[..len]).unwrap_or(0) as u64)
    }

    /// Decompresses a chunk and checks its checksum.
    fn chunk(&self, index: usize) -> io::Result<Arc<Vec<u8>>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, data)) = last.as_ref().filter(|(known, _)| *known == index) {
            return Ok(Arc::clone(data));
        }
        drop(last);
        let chunk = self.chunks.get(index).copied();
        let chunk = chunk.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut stored = vec![0; chunk.stored as usize];
        self.file
            .read_exact_at("a snappy chunk", chunk.offset, &mut stored)
            .map_err(|error| match error {
                FormatError::Io { cause, .. } => cause,
                error => io::Error::new(io::ErrorKind::UnexpectedEof, error.to_string()),
            })?;
        let damaged = |reason: String| {
            let text = format!(
                "the snappy chunk at offset {:#x} is damaged: {reason}",
                chunk.offset
            );
            io::Error::new(io::ErrorKind::InvalidData, text)
        };
        let mut data = vec![0; chunk.len as usize];
        let stream = STREAM_IDENTIFIER.as_slice().chain(stored.as_slice());
        snap::read::FrameDecoder::new(stream)
            .read_exact(&mut data)
            .map_err(|error| damaged(error.to_string()))?;
        let data = Arc::new(data);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((index, Arc::clone(&data)));
        Ok(data)
    }
}

impl ReadAt for AvmlFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        let mut index = self
            .chunks
            .partition_point(|chunk| chunk.start + u64::from(chunk.len) <= offset);
        while done < buf.len() {
            let Some(chunk) = self.chunks.get(index) else {
                break;
            };
            let inside = (offset + done as u64).saturating_sub(chunk.start) as usize;
            let data = self.chunk(index)?;
            let part = data.get(inside..).unwrap_or_default();
            let len = part.len().min(buf.len() - done);
            buf[done..done + len].copy_from_slice(&part[..len]);
            done += len;
            index += 1;
        }
        Ok(done)
    }

    fn size(&self) -> u64 {
        self.size
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::io::Write;

    use super::*;

    /// A range as AVML writes it, by snappy's own encoder of frames.
    fn range(start: u64, data: &[u8]) -> Vec<u8> {
        let mut out = b"AVML\x02\0\0\0".to_vec();
        for value in [start, start + data.len() as u64 - 1, 0] {
            out.extend(value.to_le_bytes());
        }
        let mut encoder = snap::write::FrameEncoder::new(Vec::new());
        encoder.write_all(data).unwrap();
        let stream = encoder.into_inner().unwrap();
        out.extend(&stream);
        out.extend((stream.len() as u64).to_le_bytes());
        out
    }

    fn data(len: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        // The first half cannot be compressed.
        (0..len)
            .map(|i| if i < len / 2 { byte() } else { 3 })
            .collect()
    }

    #[test]
    fn ranges_are_decompressed_from_any_offset() {
        let (first, second) = (data(300_000), data(4096));
        let file = [range(0x1000, &first), range(0x10_0000, &second)].concat();
        let avml = AvmlFile::open(Box::new(file)).unwrap();
        let found = avml.ranges().ranges.iter();
        let found: Vec<_> = found.map(|r| (r.physical.0, r.size, r.offset)).collect();
        assert_eq!(found, [(0x1000, 300_000, 0), (0x10_0000, 4096, 300_000)]);
        let all = [first, second].concat();
        for (at, len) in [(0, all.len()), (65_530, 20), (299_990, 100), (304_000, 500)] {
            let mut buf = vec![0; len];
            let count = avml.read_at(at as u64, &mut buf).unwrap();
            assert_eq!(buf[..count], all[at..(at + len).min(all.len())]);
        }
        assert_eq!(avml.read_at(avml.size(), &mut [0; 4]).unwrap(), 0);
    }

    #[test]
    fn a_changed_chunk_is_an_error_and_never_other_data() {
        let file = range(0x1000, &data(200_000));
        let mut changed = file.clone();
        changed[1000] ^= 1;
        let avml = AvmlFile::open(Box::new(changed)).unwrap();
        let mut buf = [0; 4096];
        assert!(avml.read_at(0, &mut buf).is_err());
        assert_eq!(avml.read_at(150_000, &mut buf).unwrap(), 4096);
    }

    #[test]
    fn a_truncated_image_has_its_whole_chunks_and_is_damaged() {
        let bytes = data(300_000);
        let file = range(0x1000, &bytes);
        for end in [33, 100_000, file.len() - 1] {
            let avml = AvmlFile::open(Box::new(file[..end].to_vec())).unwrap();
            assert!(avml.ranges().damage.is_some());
            let mut buf = vec![0; avml.size() as usize];
            assert_eq!(avml.read_at(0, &mut buf).unwrap(), buf.len());
            assert_eq!(buf, bytes[..buf.len()]);
        }
    }
}
