//! A vmdump of any size that takes little room: a small vmdump to which memory is appended.
//!
//! The index lists the appended chunks as a writer would, four times compressed, but the file
//! has a hole in place of their data. Whatever reads only the original memory, such as the
//! kernel's log, works as on a real dump of this size. Reading an appended page fails.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use anyhow::{Context, ensure};
use bigiron_format::bytes::Endian;
use bigiron_format::elf::CoreHeaders;
use bigiron_format::vmdump::chunk::bits_len;
use bigiron_format::vmdump::codec::checksum;
use bigiron_format::vmdump::{
    Chunk, ChunkCompressor, ChunkHeader, ChunkKind, Container, CoreOrder, DirectoryEntry, Extent,
    ROOT_SIZE, Root, Stretch, Tag, VmdumpFile, VmdumpHeader, index, record,
};

/// Chunks of an index record, as the dump engine writes them.
const RECORD_CHUNKS: usize = 1024;
/// How much smaller the appended chunks are than their memory.
const RATIO: u64 = 4;
/// Offsets in an ELF64 header and program header.
const E_PHOFF: usize = 32;
const E_PHNUM: usize = 56;
const PHDR_SIZE: usize = 56;
const P_OFFSET: usize = 8;
const P_FILESZ: usize = 32;
const P_MEMSZ: usize = 40;

/// Writes to `output` the memory of `small`, followed by so much more that the file has at
/// least `size` bytes.
///
/// # Errors
///
/// `small` is not a complete vmdump in one zstd container, or reading or writing fails.
pub fn write(small: &VmdumpFile, size: u64, output: &File) -> anyhow::Result<()> {
    let header = small.header();
    let root = small.root().filter(|root| root.complete);
    let root = root.context("the vmdump is not complete")?;
    ensure!(
        header.container == Container::Zstd && !header.is_striped(),
        "the vmdump is not one file in zstd"
    );
    let chunk_bytes = header.chunk_bytes();
    let packed = chunk_bytes / RATIO;
    let appended = size.saturating_sub(small.bytes().size()) / packed + 1;
    let header = VmdumpHeader {
        core_size: header.core_size + appended * chunk_bytes,
        ..header.clone()
    };
    let mut writer = Writer::new(output, header)?;
    writer.copy(small)?;
    let pages = u64::from(writer.header.chunk_pages);
    let mut dumped = vec![0; bits_len(pages)];
    (0..pages).for_each(|page| dumped[page as usize / 8] |= 1 << (page % 8));
    for _ in 0..appended {
        writer.append(packed as u32, chunk_bytes, &dumped)?;
    }
    writer.finish(root.dumped + appended * pages)
}

struct Writer<'a> {
    output: &'a File,
    header: VmdumpHeader,
    /// End of what is written.
    offset: u64,
    /// End of the core so far.
    position: u64,
    chunks: u64,
    /// Chunks since the last index record.
    pending: Vec<Chunk>,
    directory: Vec<DirectoryEntry>,
}

impl<'a> Writer<'a> {
    fn new(output: &'a File, header: VmdumpHeader) -> io::Result<Self> {
        let mut writer = Self {
            output,
            offset: 0,
            position: 0,
            chunks: 0,
            pending: Vec::new(),
            directory: Vec::new(),
            header,
        };
        let payload = writer.header.encode();
        writer.put(Tag::Header, &payload)?;
        Ok(writer)
    }

    fn put(&mut self, tag: Tag, payload: &[u8]) -> io::Result<Extent> {
        let record = record::encode(tag, self.header.dump(), payload);
        let extent = Extent {
            offset: self.offset,
            size: record.len() as u64,
        };
        self.output.write_all_at(&record, self.offset)?;
        self.offset += extent.size;
        Ok(extent)
    }

    /// Copies all chunks of `small`, with larger memory in the ELF headers.
    fn copy(&mut self, small: &VmdumpFile) -> anyhow::Result<()> {
        self.put_headers(larger_headers(small, self.header.core_size)?)?;
        let mut packed = Vec::new();
        for stretch in CoreOrder::new([small], 0) {
            let Stretch::Chunk(_, chunk) = stretch else {
                anyhow::bail!("the vmdump has a gap");
            };
            if chunk.kind == ChunkKind::Headers {
                continue;
            }
            let head = small.read_packed(&chunk, &mut packed)?;
            self.put_chunk(chunk, &packed[head..])?;
        }
        Ok(())
    }

    fn put_headers(&mut self, headers: Vec<u8>) -> anyhow::Result<()> {
        let mut compressor = ChunkCompressor::zstd(1)?;
        for bytes in headers.chunks(self.header.chunk_bytes() as usize) {
            let mut packed = vec![0; compressor.bound(bytes.len())];
            let len = compressor.compress(bytes, &mut packed)?;
            let chunk = Chunk {
                kind: ChunkKind::Headers,
                position: self.position,
                len: bytes.len() as u64,
                offset: 0,
                packed: len as u32,
                dumped: Vec::new(),
                lost: Vec::new(),
            };
            self.put_chunk(chunk, &packed[..len])?;
        }
        Ok(())
    }

    fn put_chunk(&mut self, chunk: Chunk, packed: &[u8]) -> io::Result<()> {
        let header = ChunkHeader {
            chunk: Chunk {
                offset: self.offset,
                ..chunk
            },
            sequence: self.chunks,
            checksum: checksum(packed),
        };
        let mut bytes = header.encode(self.header.dump());
        bytes.extend_from_slice(packed);
        self.output.write_all_at(&bytes, self.offset)?;
        self.list(header.chunk, bytes.len() as u64)
    }

    /// Lists a chunk of `len` bytes of memory whose data is a hole.
    fn append(&mut self, packed: u32, len: u64, dumped: &[u8]) -> io::Result<()> {
        let chunk = Chunk {
            kind: ChunkKind::Pages,
            position: self.position,
            len,
            offset: self.offset,
            packed,
            dumped: dumped.to_vec(),
            lost: Vec::new(),
        };
        let stored = ChunkHeader::size(&chunk) as u64 + u64::from(packed);
        self.list(chunk, stored)
    }

    fn list(&mut self, chunk: Chunk, stored: u64) -> io::Result<()> {
        self.offset += stored;
        self.position = chunk.end();
        self.chunks += 1;
        self.pending.push(chunk);
        if self.pending.len() == RECORD_CHUNKS {
            self.put_index()?;
        }
        Ok(())
    }

    fn put_index(&mut self) -> io::Result<()> {
        let Some(first) = self.pending.first() else {
            return Ok(());
        };
        let (position, first_offset) = (first.position, first.offset);
        let extent = self.put(Tag::Index, &index::encode(&self.pending))?;
        self.directory.push(DirectoryEntry {
            offset: extent.offset,
            size: extent.size as u32,
            chunks: self.pending.len() as u32,
            position,
            first_offset,
        });
        self.pending.clear();
        Ok(())
    }

    fn finish(mut self, dumped: u64) -> anyhow::Result<()> {
        self.put_index()?;
        ensure!(
            self.position == self.header.core_size,
            "the chunks end at {:#x} of a core of {:#x} bytes",
            self.position,
            self.header.core_size
        );
        let payload = index::encode_directory(&self.directory);
        let directory = self.put(Tag::Directory, &payload)?;
        let metadata = self.put(Tag::Metadata, b"{}")?;
        let root = Root {
            complete: true,
            chunks: self.chunks,
            dumped,
            lost: 0,
            directory,
            metadata,
            header: self.header.clone(),
        };
        let extent = self.put(Tag::Root, &root.encode())?;
        ensure!(extent.size == ROOT_SIZE as u64, "the root has another size");
        Ok(())
    }
}

/// Returns the ELF headers of `small` with the last segment extended to the end of a core of
/// `core_size` bytes.
fn larger_headers(small: &VmdumpFile, core_size: u64) -> anyhow::Result<Vec<u8>> {
    let mut headers = small.core_headers()?;
    let endian: Endian = CoreHeaders::read(&headers)?.endian;
    let u64_at = |headers: &[u8], at: usize| endian.u64(headers, at).unwrap_or(0);
    let table = u64_at(&headers, E_PHOFF) as usize;
    let count = usize::from(endian.u16(&headers, E_PHNUM).unwrap_or(0));
    let more = core_size - small.header().core_size;
    for at in (0..count).map(|number| table + number * PHDR_SIZE) {
        let (start, len) = (
            u64_at(&headers, at + P_OFFSET),
            u64_at(&headers, at + P_FILESZ),
        );
        if start + len == small.header().core_size {
            endian.put_u64(&mut headers, at + P_FILESZ, len + more);
            endian.put_u64(&mut headers, at + P_MEMSZ, len + more);
            return Ok(headers);
        }
    }
    anyhow::bail!("no segment ends with the core")
}
