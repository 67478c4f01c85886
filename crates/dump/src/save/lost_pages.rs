//! Marks pages of a copied kdump-compressed dump as lost whose data could not be read: the format
//! has no checksums, so that zeros in their place would pass for the page.

use std::io;
use std::ops::Range;

use bigiron_format::kdump::bitmaps::count_bits;
use bigiron_format::kdump::{DESCRIPTOR_SIZE, KdumpHeaders, LostBits, PageDescriptor};
use bigiron_format::salvage::Unreadable;
use bigiron_format::{FormatError, ReadAt};

use crate::output::{FileOutput, Output};

/// Offset and bit of the header's status "incomplete" (docs/formats/kdump.md).
pub const STATUS: usize = 424;
pub const INCOMPLETE: u32 = 8;

/// Bytes of page descriptors read in one step.
const STEP: u64 = (DESCRIPTOR_SIZE as u64) << 14;
/// Largest page of any architecture, in bytes.
const MAX_PAGE: u64 = 64 << 10;

/// Marks the pages of `copy` that have data in the ranges `lost` of it, and the dump as
/// incomplete. Copies in other formats stay as they are: their checksums show what is lost, or
/// they have no place for it.
pub fn mark_lost_pages(copy: &FileOutput, lost: &Unreadable) -> io::Result<()> {
    if lost.is_empty() {
        return Ok(());
    }
    let bytes = CopyBytes(copy);
    let mut front = [0; 16];
    copy.read_back(0, &mut front)?;
    if !KdumpHeaders::is_kdump(&front) {
        return Ok(());
    }
    // Without its headers the dump cannot be opened at all.
    let Ok(headers) = KdumpHeaders::read(&bytes) else {
        return Ok(());
    };
    let completed = LostBits::complete(&bytes, &bytes, &headers, lost).map_err(io_error)?;
    if let Some((frames, bits)) = &completed.bits {
        let at = headers.layout.dumped_bitmap() + frames.start / 8;
        let len = frames.end.div_ceil(8) - frames.start / 8;
        copy.write_at(at, &bits.as_bytes()[..len as usize])?;
    }
    mark_lost_pages_of(copy, &headers, lost, &completed.unknown)
}

/// Like [`mark_lost_pages`], for a copy whose headers are `headers` and may not be written yet,
/// and whose bitmap is complete. The pages of the descriptors `unknown` are lost too.
pub fn mark_lost_pages_of(
    copy: &FileOutput,
    headers: &KdumpHeaders,
    lost: &Unreadable,
    unknown: &Range<u64>,
) -> io::Result<()> {
    mark(copy, &CopyBytes(copy), headers, lost, unknown).map_err(io_error)
}

fn io_error(error: FormatError) -> io::Error {
    match error {
        FormatError::Io { cause, .. } => cause,
        error => io::Error::other(error),
    }
}

fn mark(
    copy: &FileOutput,
    bytes: &CopyBytes,
    headers: &KdumpHeaders,
    lost: &Unreadable,
    unknown: &Range<u64>,
) -> Result<(), FormatError> {
    let (layout, endian) = (headers.layout, headers.endian);
    let written = |offset| {
        move |cause| FormatError::Io {
            what: "the copy",
            offset,
            cause,
        }
    };
    let pages = count_bits(bytes, layout.dumped_bitmap(), headers.frames())?;
    let end = layout.descriptor(pages).min(bytes.size());
    let mut index = 0;
    let mut at = layout.descriptors();
    let mut step = vec![0; STEP as usize];
    while at < end {
        let len = STEP.min(end - at) as usize;
        bytes.read_exact_at("page descriptors", at, &mut step[..len])?;
        let mut changed = false;
        for descriptor in step[..len].chunks_exact_mut(DESCRIPTOR_SIZE) {
            let page = PageDescriptor::decode(descriptor, endian).unwrap_or_default();
            let data = page.offset..page.offset.saturating_add(u64::from(page.size));
            let is_hit = unknown.contains(&index) || lost.hits(&data);
            index += 1;
            if page.is_lost() {
                continue;
            }
            if is_hit {
                descriptor.copy_from_slice(&PageDescriptor::default().encode(endian));
                changed = true;
            } else if !headers.incomplete {
                fill_holes(copy, bytes, &data)?;
            }
        }
        if changed {
            copy.write_at(at, &step[..len]).map_err(written(at))?;
        }
        at += len as u64;
    }
    let mut status = [0; 4];
    bytes.read_exact_at("the status", STATUS as u64, &mut status)?;
    let value = endian.u32(&status, 0).unwrap_or(0) | INCOMPLETE;
    endian.put_u32(&mut status, 0, value);
    copy.write_at(STATUS as u64, &status)
        .map_err(written(STATUS as u64))
}

/// Writes the zeros of a page that are a hole of the copy: in an incomplete dump, which the copy
/// becomes, a hole means that the page is lost.
fn fill_holes(copy: &FileOutput, bytes: &CopyBytes, data: &Range<u64>) -> Result<(), FormatError> {
    let is_inside = data.end <= bytes.size() && data.end - data.start <= MAX_PAGE;
    if !is_inside || bytes.next_hole(data.start) >= data.end {
        return Ok(());
    }
    let mut page = vec![0; (data.end - data.start) as usize];
    bytes.read_exact_at("page data", data.start, &mut page)?;
    let written = copy.write_at(data.start, &page);
    written.map_err(|cause| FormatError::Io {
        what: "the copy",
        offset: data.start,
        cause,
    })
}

/// The bytes of a copy that is being written.
struct CopyBytes<'a>(&'a FileOutput);

impl ReadAt for CopyBytes<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let len = buf
            .len()
            .min(usize::try_from(self.size().saturating_sub(offset)).unwrap_or(0));
        self.0.read_back(offset, &mut buf[..len])?;
        Ok(len)
    }

    fn size(&self) -> u64 {
        self.0
            .file()
            .metadata()
            .map_or(0, |metadata| metadata.len())
    }

    fn next_hole(&self, offset: u64) -> u64 {
        match rustix::fs::seek(self.0.file(), rustix::fs::SeekFrom::Hole(offset)) {
            Ok(hole) => hole,
            Err(_) => self.size().max(offset),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::collections::BTreeMap;
    use std::os::unix::fs::FileExt;
    use std::path::PathBuf;

    use bigiron_format::PageFrame;
    use bigiron_format::bitmap::Bitmap;
    use bigiron_format::codec::{Codec, Compression};
    use bigiron_format::failing::Failing;
    use bigiron_format::salvage::Salvager;
    use bigiron_helpers::Stop;
    use bigiron_kernel::source::DumpFile;
    use bigiron_kernel::{DumpLevel, IoMethod, Kernel, SECTION_FRAMES, Source};
    use bigiron_synth::{ElfShape, Synth};

    use super::*;
    use crate::{DumpOptions, DumpOutput, Format, OutputTarget, Progress, dump};

    /// RAM in three sections, whose bits are in three sectors of a bitmap.
    const MACHINE: &str = "kernel 6.12 vmemmap_leaf=4k image_leaf=4k
        ram 0x0-0x9f 0x100-0x9ff 0x8000-0x80ff 0x10000-0x100ff
        pages 0x400 slab n=16 fill=random
        pages 0x8010 slab n=16 fill=random ; 0x8030 free n=64
        pages 0x10010 slab n=20 fill=random";
    const SECTOR: u64 = 4096;

    type Pages = BTreeMap<u64, Vec<u8>>;

    /// Returns all pages that can be read.
    fn pages(bytes: Box<dyn ReadAt>) -> Pages {
        pages_of(&Source::from_bytes(bytes, PathBuf::from("dump")).unwrap())
    }

    fn pages_of(source: &Source) -> Pages {
        let memory = source.memory();
        let mut reader = memory.reader(IoMethod::Read);
        let mut found = Pages::new();
        for first in memory.sections() {
            let mut present = Bitmap::new(SECTION_FRAMES as usize);
            memory.present(first, &mut present).unwrap();
            for bit in (0..present.len()).filter(|bit| present.get(*bit)) {
                let frame = first.0 + bit as u64;
                if let Ok(page) = reader.pages(PageFrame(frame), 1) {
                    found.insert(frame, page.to_vec());
                }
            }
        }
        found
    }

    fn made(level: u8) -> Vec<u8> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dump");
        let core = Synth::from_text(MACHINE).unwrap().elf(&ElfShape::vmcore());
        let source = Source::from_bytes(Box::new(core), PathBuf::from("core")).unwrap();
        let kernel = Kernel::find(&source, None, IoMethod::Read, 64).unwrap();
        let format = Format::kdump(Compression::new(Codec::None));
        let output = DumpOutput::whole(format, OutputTarget::File(path.clone()));
        let options = DumpOptions {
            level: DumpLevel::new(level).unwrap(),
            ..DumpOptions::default()
        };
        dump(
            &kernel.into(),
            &output,
            &options,
            &Progress::new(),
            &Stop::new(),
        )
        .unwrap();
        std::fs::read(path).unwrap()
    }

    /// A disk with bad sectors in the dumped bitmap of the dump.
    fn disk(dump: &[u8], sectors: &[u64]) -> Failing<Vec<u8>> {
        let bitmap = KdumpHeaders::read(dump).unwrap().layout.dumped_bitmap();
        let bad = |sector: &u64| bitmap + sector * SECTOR..bitmap + (sector + 1) * SECTOR;
        Failing::new(dump.to_vec(), sectors.iter().map(bad).collect())
    }

    /// Copies a dump around sectors of its dumped bitmap; returns the pages of the copy.
    fn copied(dump: &[u8], sectors: &[u64]) -> Pages {
        let disk = disk(dump, sectors);
        let mut copy = vec![0; dump.len()];
        let mut salvager = Salvager::default();
        assert!(!salvager.read(&disk, "a dump", 0, &mut copy).unwrap());
        // A copy has holes where it is zero.
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(copy.len() as u64).unwrap();
        for (at, block) in (0..).step_by(4096).zip(copy.chunks(4096)) {
            if block.iter().any(|byte| *byte != 0) {
                file.as_file().write_all_at(block, at).unwrap();
            }
        }
        let output = FileOutput::in_new_file(file.reopen().unwrap(), file.path().to_owned());
        mark_lost_pages(&output, &salvager.take()).unwrap();
        let copy = DumpFile::open(file.path()).unwrap();
        pages(Box::new(copy))
    }

    /// Asserts that the dump on the disk, and the copy, have all pages but `lost`, and each as it
    /// is.
    #[track_caller]
    fn has_all_but(dump: &[u8], sectors: &[u64], lost: impl Fn(u64) -> bool) {
        let (mut good, found) = (pages(Box::new(dump.to_vec())), copied(dump, sectors));
        good.retain(|frame, _| !lost(*frame));
        assert!(
            good.keys().eq(found.keys()),
            "sectors {sectors:?}: other pages"
        );
        assert!(good == found, "sectors {sectors:?}: wrong pages");
        let disk = disk(dump, sectors);
        let source = Source::from_bytes(Box::new(disk), PathBuf::from("dump")).unwrap();
        let damage = source.damage().unwrap();
        assert!(
            damage.contains("the dumped bitmap: 4096 bytes") || sectors.len() > 1,
            "{damage}"
        );
        let found = pages_of(&source);
        assert!(
            good == found,
            "sectors {sectors:?}: wrong pages from the disk"
        );
    }

    #[test]
    fn bad_sector_of_the_dumped_bitmap_costs_nothing_where_all_ram_was_dumped() {
        let dump = made(0);
        for sectors in [&[0][..], &[1], &[2], &[0, 1], &[1, 2], &[0, 2]] {
            has_all_but(&dump, sectors, |_| false);
        }
        // Level 16 leaves out free pages, which the second sector has.
        has_all_but(&made(16), &[2], |_| false);
    }

    #[test]
    fn bad_sector_of_the_dumped_bitmap_costs_its_pages_and_no_others() {
        has_all_but(&made(16), &[1], |frame| frame / SECTION_FRAMES == 1);
    }

    #[test]
    fn pages_behind_a_bad_sector_of_the_dumped_bitmap_are_lost_if_their_places_are_unknown() {
        let mut dump = made(16);
        let headers = KdumpHeaders::read(&dump).unwrap();
        // Behind the descriptors are no data: nothing says how many there are.
        let pages = pages(Box::new(dump.clone())).len() as u64;
        let (start, end) = (
            headers.layout.descriptors(),
            headers.layout.descriptor(pages),
        );
        for at in (start..end).step_by(DESCRIPTOR_SIZE) {
            let bytes = &mut dump[at as usize..at as usize + DESCRIPTOR_SIZE];
            let mut page = PageDescriptor::decode(bytes, headers.endian).unwrap();
            page.offset += 4096;
            bytes.copy_from_slice(&page.encode(headers.endian));
        }
        let data = dump.split_off(end as usize);
        dump.extend([0; 4096]);
        dump.extend(data);
        has_all_but(&dump, &[1], |frame| frame / SECTION_FRAMES >= 1);
    }
}
