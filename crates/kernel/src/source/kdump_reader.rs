//! Reads pages of a kdump-compressed dump.

use std::ops::Range;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::codec::{Codec, Decompressor, decompressor};
use bigiron_format::kdump::{DESCRIPTOR_SIZE, PageDescriptor, codec_of_flags};
use bigiron_format::{FormatError, PageFrame};

use super::kdump::{KdumpSource, Part};
use super::run_length::RunLength;
use super::{PageReader, SECTION_FRAMES};
use crate::error::SourceError;

/// Pages decompressed at once.
const MAX_PAGES: usize = 64;
/// Maximum number of unneeded bytes between the data of two pages that are read together.
const MAX_GAP: u64 = 16 << 10;

/// One helper's reader, with its own descriptors, data and codec contexts.
pub(super) struct KdumpReader<'a> {
    source: &'a KdumpSource,
    section: Option<u64>,
    bits: Bitmap,
    /// Dumped pages before the section.
    rank: u64,
    descriptors: Vec<u8>,
    /// Page descriptors, and pages, that are read at once.
    run_lengths: [RunLength; 2],
    compressed: Vec<u8>,
    pages: Vec<u8>,
    decompressors: Vec<(Codec, Box<dyn Decompressor>)>,
}

impl<'a> KdumpReader<'a> {
    pub(super) fn new(source: &'a KdumpSource) -> Self {
        Self {
            source,
            section: None,
            bits: Bitmap::new(SECTION_FRAMES as usize),
            rank: 0,
            descriptors: Vec::new(),
            run_lengths: Default::default(),
            compressed: Vec::new(),
            pages: Vec::new(),
            decompressors: Vec::new(),
        }
    }

    /// Returns the descriptors of up to `count` pages from `first` on, all dumped and in one
    /// part, and the offset of the first one.
    fn find(
        &mut self,
        first: PageFrame,
        count: usize,
    ) -> Result<(&'a Part, u64, Vec<PageDescriptor>), SourceError> {
        let absent = || SourceError::Absent {
            path: self.source.path().to_owned(),
            frame: first,
        };
        let part = self.source.part_of(first).ok_or_else(absent)?;
        let section = first.0 / SECTION_FRAMES;
        if self.section != Some(section) {
            self.section = None;
            self.rank = self.source.dumped_in_section(first, &mut self.bits)?;
            self.section = Some(section);
        }
        let bit = (first.0 % SECTION_FRAMES) as usize;
        let limit = count
            .min(MAX_PAGES)
            .min((part.frames.end.0 - first.0) as usize);
        let run = self.bits.next_run(bit, self.bits.len(), limit);
        let Some((_, len)) = run.filter(|(start, _)| *start == bit) else {
            return Err(absent());
        };
        let index = self.rank + self.bits.count_before(bit) - part.first_index;
        let unknown = &part.lost_bits.unknown;
        if unknown.contains(&index) {
            return Err(self.source.unknown_place(first));
        }
        let known = match index < unknown.start {
            true => usize::try_from(unknown.start - index).unwrap_or(len),
            false => len,
        };
        let len = len.min(known);
        let offset = part.headers.layout.descriptor(index);
        let lost = || SourceError::Lost {
            path: part.path.clone(),
            frame: first,
        };
        let whole = part.bytes.size().saturating_sub(offset) / DESCRIPTOR_SIZE as u64;
        let len = len.min(whole as usize);
        if len == 0 {
            return Err(lost());
        }
        let descriptors = &mut self.descriptors;
        let read = |len| {
            descriptors.resize(len * DESCRIPTOR_SIZE, 0);
            part.bytes
                .read_exact_at("page descriptors", offset, descriptors)
        };
        let [run_length, _] = &mut self.run_lengths;
        run_length
            .read(len, read)
            .map_err(|cause| SourceError::Format {
                path: part.path.clone(),
                cause,
            })?;
        let decode = |bytes| PageDescriptor::decode(bytes, part.headers.endian).unwrap_or_default();
        let found = self.descriptors.chunks_exact(DESCRIPTOR_SIZE).map(decode);
        let found: Vec<_> = found
            .take_while(|descriptor| !descriptor.is_lost())
            .collect();
        if found.is_empty() {
            Err(lost())
        } else {
            Ok((part, offset, found))
        }
    }

    /// Reads and decompresses a few pages whose data is close together into `pages`.
    fn unpack(
        &mut self,
        part: &Part,
        first: PageFrame,
        group: &[PageDescriptor],
        pages: &mut [u8],
    ) -> Result<(), SourceError> {
        let page_size = part.headers.block_size as usize;
        let format_error = |cause| SourceError::Format {
            path: part.path.clone(),
            cause,
        };
        let start = group.iter().map(|d| d.offset).min().unwrap_or(0);
        let end = group
            .iter()
            .map(|d| d.offset + u64::from(d.size))
            .max()
            .unwrap_or(0);
        // After a power failure a descriptor may be on the disk without its data. No codec
        // detects zeros in place of a part of it.
        if part.headers.incomplete && part.bytes.next_hole(start) < end {
            return Err(SourceError::Lost {
                path: part.path.clone(),
                frame: first,
            });
        }
        self.compressed.resize((end - start) as usize, 0);
        part.bytes
            .read_exact_at("page data", start, &mut self.compressed)
            .map_err(format_error)?;
        for (descriptor, page) in group.iter().zip(pages.chunks_exact_mut(page_size)) {
            let at = (descriptor.offset - start) as usize;
            let data = &self.compressed[at..at + descriptor.size as usize];
            let codec = codec_of_flags(descriptor.flags).ok_or_else(|| {
                format_error(FormatError::unexpected(
                    "the flags of a page descriptor",
                    descriptor.offset,
                    "the flag of one codec",
                    format!("{:#x} (page frame {})", descriptor.flags, first.0),
                ))
            })?;
            let damaged = |reason: String| {
                format_error(FormatError::Codec {
                    codec: codec.name(),
                    offset: descriptor.offset,
                    reason,
                })
            };
            let len = match self
                .decompressors
                .iter_mut()
                .find(|(known, _)| *known == codec)
            {
                Some((_, decompressor)) => decompressor.decompress(data, page),
                None => {
                    let mut new = decompressor(codec).map_err(|e| damaged(e.to_string()))?;
                    let len = new.decompress(data, page);
                    self.decompressors.push((codec, new));
                    len
                }
            };
            match len {
                Ok(len) if len == page_size => {}
                Ok(len) => return Err(damaged(format!("{len} bytes instead of a page"))),
                Err(error) => return Err(damaged(error.to_string())),
            }
        }
        Ok(())
    }
}

impl KdumpReader<'_> {
    /// Appends the pages from `first` on to `out`, at least one and at most `count`, and
    /// returns their number.
    pub(super) fn append(
        &mut self,
        first: PageFrame,
        count: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, SourceError> {
        let (part, offset, descriptors) = self.find(first, count)?;
        let page_size = part.headers.block_size as usize;
        let data = part.data_start..part.bytes.size();
        let before = out.len();
        out.resize(before + descriptors.len() * page_size, 0);
        let pages = &mut out[before..];
        let mut done = 0;
        while done < descriptors.len() {
            let result = match group_len(&descriptors[done..], page_size as u64, &data) {
                0 => {
                    let at = offset + (done * DESCRIPTOR_SIZE) as u64;
                    Err(misplaced(part, at, &descriptors[done], &data))
                }
                len => {
                    let group = &descriptors[done..done + len];
                    let frame = PageFrame(first.0 + done as u64);
                    let pages = &mut pages[done * page_size..];
                    // A damaged page must not affect its neighbours.
                    let mut run_length = std::mem::take(&mut self.run_lengths[1]);
                    let unpack = |len: usize| self.unpack(part, frame, &group[..len], pages);
                    let unpacked = run_length.read(len, unpack);
                    self.run_lengths[1] = run_length;
                    unpacked.map(|(len, ())| len)
                }
            };
            match result {
                Ok(len) => done += len,
                Err(error) if done == 0 => {
                    out.truncate(before);
                    return Err(error);
                }
                Err(_) => break,
            }
        }
        out.truncate(before + done * page_size);
        Ok(done)
    }
}

impl PageReader for KdumpReader<'_> {
    fn pages(&mut self, first: PageFrame, count: usize) -> Result<&[u8], SourceError> {
        let mut pages = std::mem::take(&mut self.pages);
        pages.clear();
        let read = self.append(first, count, &mut pages);
        self.pages = pages;
        read?;
        Ok(&self.pages)
    }
}

/// Returns how many of the first descriptors can be read together; 0 if the first has an
/// impossible size or is not within `data`, the offsets of page data.
fn group_len(descriptors: &[PageDescriptor], page_size: u64, data: &Range<u64>) -> usize {
    let (mut start, mut end) = (u64::MAX, 0_u64);
    for (index, descriptor) in descriptors.iter().enumerate() {
        let size = u64::from(descriptor.size);
        let stop = descriptor.offset.saturating_add(size);
        if size == 0 || size > page_size || descriptor.offset < data.start || stop > data.end {
            return index;
        }
        let near = index == 0
            || (descriptor.offset <= end.saturating_add(MAX_GAP)
                && start <= stop.saturating_add(MAX_GAP));
        let span = end.max(stop) - start.min(descriptor.offset);
        if !near || span > MAX_PAGES as u64 * page_size + MAX_GAP {
            return index;
        }
        (start, end) = (start.min(descriptor.offset), end.max(stop));
    }
    descriptors.len()
}

/// The error of a descriptor at offset `at` whose data cannot be in the file.
fn misplaced(part: &Part, at: u64, descriptor: &PageDescriptor, data: &Range<u64>) -> SourceError {
    let stop = descriptor.offset.saturating_add(u64::from(descriptor.size));
    let cause = if descriptor.offset < data.start {
        FormatError::unexpected(
            "the data's offset in a page descriptor",
            at,
            format!("{:#x} or more, behind the page descriptors", data.start),
            format!("{:#x}", descriptor.offset),
        )
    } else if stop > data.end {
        FormatError::Truncated {
            what: "page data",
            offset: descriptor.offset,
            needed: u64::from(descriptor.size),
            size: data.end,
        }
    } else {
        FormatError::unexpected(
            "the size in a page descriptor",
            at,
            format!("1 to {}", part.headers.block_size),
            descriptor.size.to_string(),
        )
    };
    SourceError::Format {
        path: part.path.clone(),
        cause,
    }
}
